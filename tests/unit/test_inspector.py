"""`fstcrf inspect`: the workbench's answers beside the library's, and who may ask the page."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("starlette", reason="the extra fstcrf[inspect] is not installed")
pytest.importorskip("httpx2", reason="httpx2 is not installed: nothing can ask the page")

import anyio
import httpx2
from starlette.testclient import TestClient

from fstcrf import CRF, Corpus, Sentence, compose
from fstcrf.constraints import at_most, label, never, pairs
from fstcrf.errors import DataError, OptionError
from fstcrf.ext.inspect import Access, Workbench, application, server
from fstcrf.ext.inspect.questions import (
    MAX_TOKENS,
    MAX_WINDOW,
    Asked,
    CellAsked,
    Edit,
    LatticeQuestion,
    Shown,
)
from fstcrf.ext.pipelines.trained import Decode, TrainedPipeline
from fstcrf.taggers import JointCRF
from tests.support import command
from tests.support.joint_cases import TEST, TRAIN, tagger, taggers

WAYS: tuple[Decode, ...] = ("chain", "product", "cascade")
GIVEN = Corpus.from_sentences([Sentence(s) for s in TRAIN])
RULES = at_most(1, label("B"), tape="chunk") & never(label("P1"), tape="pos")


def three() -> JointCRF:
    a, b, c = taggers("three in a row")
    return compose(a, b, c)


def rows(sentence: dict[str, list[str]], bench: Workbench) -> tuple[tuple[str, ...], ...]:
    return tuple(zip(*(sentence[name] for name in bench.columns), strict=True))


def asked(sentence: dict[str, list[str]], bench: Workbench, **options: Any) -> Asked:
    return Asked(LatticeQuestion(rows(sentence, bench), **options))


def answered(composition: JointCRF, sentence: dict[str, list[str]], **options: Any) -> Shown:
    bench = Workbench(composition)
    return bench.answer(asked(sentence, bench, **options))


def long_sentence() -> dict[str, list[str]]:
    return max(TEST, key=lambda sentence: len(next(iter(sentence.values()))))


# --- What it answers ------------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS)
def test_labels_and_probabilities_are_the_taggers(way: Decode) -> None:
    composition = three()
    bench = Workbench(composition)
    for sentence in TEST[:6]:
        found = bench.answer(asked(sentence, bench, decode=way))
        answer = TrainedPipeline(composition, way).decode([sentence])
        for tape in found.tapes:
            assert tape.best == answer[tape.name].flat[0].tolist()
            table = np.asarray(tape.marginals)
            np.testing.assert_allclose(table.sum(axis=1), 1.0, atol=1e-3)
            if way != "chain":
                np.testing.assert_allclose(table, answer.marginals(tape.name)[0], atol=1e-4)
        assert found.score == pytest.approx(answer.scores[0])


def test_later_tapes_of_a_chain_take_the_best_labels_before_as_given() -> None:
    pos, chunk = taggers("pair")
    composition, sentence = compose(pos, chunk, normalize="chain"), long_sentence()
    found = answered(composition, sentence)
    first, second = found.tapes
    np.testing.assert_allclose(first.marginals, pos.marginals_all([sentence])[0], atol=1e-4)
    best = composition.tag(sentence)[0]
    given = chunk.marginals_all([{**sentence, "pos": best}])[0]
    np.testing.assert_allclose(second.marginals, given, atol=1e-4)
    assert second.given == ["pos"]
    assert "given" in found.note


def test_a_chain_under_a_grammar_has_probabilities_of_what_is_legal() -> None:
    """They were those of the taggers alone, whatever the grammar forbids."""
    pos, chunk = taggers("pair")
    sentence, label = long_sentence(), pos.tag(long_sentence())[0]
    rule = never(label, tape="pos")
    composition = compose(pos, chunk, normalize="chain") & rule
    found = answered(composition, sentence)
    first, second = found.tapes
    np.testing.assert_allclose(
        first.marginals, (pos & rule).marginals_all([sentence])[0], atol=1e-4
    )
    assert not np.asarray(first.marginals)[:, pos.labels.index(label)].any()
    given = chunk.marginals_all([{**sentence, "pos": composition.tag(sentence)[0]}])[0]
    np.testing.assert_allclose(second.marginals, given, atol=1e-4)


def test_a_chain_under_a_grammar_of_several_tapes_has_no_probabilities() -> None:
    pos, chunk = taggers("pair")
    rule = pairs({pos.labels[0]: chunk.labels[:1]}, ("pos", "chunk"))
    composition, sentence = compose(pos, chunk, normalize="chain") & rule, long_sentence()
    found = answered(composition, sentence)
    answer = composition.decode([sentence])
    assert [tape.best for tape in found.tapes] == [answer[t].flat[0].tolist() for t in answer.tapes]
    assert not any(tape.marginals for tape in found.tapes)
    assert not found.spans
    assert "several tapes" in found.note
    product = answered(composition, sentence, decode="product")
    assert all(tape.marginals for tape in product.tapes)


def test_a_column_called_like_a_tape_is_asked_for_where_a_template_reads_it() -> None:
    """It was taken for the tape, and no question had an answer."""
    pos = tagger("pos")
    ent = CRF.train(TRAIN, "ent", "U1:%x[0,word]\nU2:%x[0,pos]\nB\n", l2=0.05)
    bench = Workbench(compose(pos, ent))
    assert bench.columns == ("word", "pos")
    sentence = TRAIN[0]
    found = bench.answer(asked(sentence, bench))
    answer = compose(pos, ent).decode([sentence])
    assert [tape.best for tape in found.tapes] == [answer[t].flat[0].tolist() for t in answer.tapes]
    assert Workbench(compose(pos, tagger("chunk"))).columns == ("word",)
    assert Workbench(compose(tagger("chunk"))).columns == ("word", "pos")  # nobody writes it


def test_several_at_once_are_answered_as_one_by_one() -> None:
    bench, alone = Workbench(three() & RULES), Workbench(three() & RULES)
    several = [
        asked(sentence, bench, decode=way, rules=rules)
        for sentence in TEST[:5]
        for way in WAYS
        for rules in (None, (0,))
    ]
    several.insert(3, Asked(LatticeQuestion((("one", "too", "many", "columns")[:0],))))
    found = bench.answers(several)
    for question, answer in zip(several, found, strict=True):
        if isinstance(answer, DataError):
            with pytest.raises(DataError, match="columns"):
                alone.answer(question)
        else:
            assert answer == alone.answer(question)
    assert sum(isinstance(answer, DataError) for answer in found) == 1


def test_a_click_forces_or_forbids_and_everything_follows() -> None:
    composition, sentence = three(), long_sentence()
    bench = Workbench(composition)
    before = bench.answer(asked(sentence, bench, decode="product"))
    tape = before.tapes[1]
    other = int(np.argsort(tape.marginals[0])[-2])
    names = composition.label_sets[tape.name]
    edit = Edit(tape.name, 0, other, "force")
    after = bench.answer(asked(sentence, bench, decode="product", edits=(edit,)))
    assert after.tapes[1].best[0] == other
    assert after.tapes[1].marginals[0][other] == 1.0
    forced = [{tape.name: [names[other]] + [None] * (after.tokens - 1)}]
    wanted = compose(*composition.taggers, normalize="product").decode([sentence], forced=forced)
    for shown in after.tapes:
        np.testing.assert_allclose(shown.marginals, wanted.marginals(shown.name)[0], atol=1e-4)
    kept = tape.best[0]
    forbidden = Edit(tape.name, 0, kept, "forbid")
    after = bench.answer(asked(sentence, bench, decode="product", edits=(forbidden,)))
    assert after.tapes[1].best[0] != kept
    assert after.tapes[1].marginals[0][kept] == 0.0


def test_rules_and_weights_can_be_changed() -> None:
    composition = compose(three(), normalize="product") & RULES
    bench = Workbench(composition)
    for sentence in TEST[:4]:
        free = compose(*composition.taggers, normalize="product")
        wanted = {
            None: composition,
            (): free,
            (0,): free & at_most(1, label("B"), tape="chunk"),
            (1,): free & never(label("P1"), tape="pos"),
        }
        for rules, tagger_ in wanted.items():
            found = bench.answer(asked(sentence, bench, rules=rules))
            (answer,) = tagger_.paths_all([sentence])
            assert answer is not None
            assert found.score == pytest.approx(answer.score)
        weights = (0.5, 1.0, 2.0)
        found = bench.answer(asked(sentence, bench, rules=(), weights=weights))
        (answer,) = free.with_weights(*weights).paths_all([sentence])
        assert answer is not None
        assert found.score == pytest.approx(answer.score)


def test_rules_say_what_they_forbid() -> None:
    composition = compose(three(), normalize="product") & RULES
    bench, free = Workbench(composition), compose(*taggers("three in a row"), normalize="product")
    for sentence in TEST:
        paths = dict(zip(free.tapes, free.tag(sentence), strict=True))
        once, unseen = bench.judge(asked(sentence, bench).question)
        assert once.forbids == (sum(name == "B" for name in paths["chunk"]) > 1)
        assert unseen.forbids == ("P1" in paths["pos"])
        if unseen.forbids:
            assert (unseen.token, unseen.found) == (paths["pos"].index("P1"), "P1")
        if once.forbids:
            assert once.token == [k for k, name in enumerate(paths["chunk"]) if name == "B"][1]


def test_other_ways_to_decide_are_told_apart() -> None:
    composition = three()
    bench = Workbench(composition)
    differing = 0
    for sentence in TEST:
        mine = bench.answer(asked(sentence, bench))
        assert mine.decode == "chain"
        for way in bench.compare(asked(sentence, bench)):
            labels = TrainedPipeline(composition, way.decode).tag(sentence)
            named = [composition.label_sets[tape] for tape in composition.tapes]
            assert [
                [names[i] for i in row] for names, row in zip(named, way.labels, strict=True)
            ] == list(labels)
            tokens = range(mine.tokens)
            there = [
                t
                for t in tokens
                if any(way.labels[k][t] != tape.best[t] for k, tape in enumerate(mine.tapes))
            ]
            assert way.differs == there
            differing += bool(there)
    assert differing  # otherwise nothing was told apart


@pytest.mark.thorough
@pytest.mark.parametrize("normalize", ["chain", "product"])
@pytest.mark.parametrize("force", [False, True])
def test_ways_to_decide_are_scored_in_one_unit(normalize: Any, force: bool) -> None:
    """By the model's own way, whatever way is shown and whichever labels are forced."""
    free = compose(*taggers("three in a row"), normalize=normalize)
    once = free & never(label("P2"), tape="pos")
    below = 0
    for composition in (free, once):
        bench = Workbench(composition)
        assert bench.decodes[0] == normalize
        for sentence in TEST[:5]:
            edits = (Edit("pos", 0, 1, "force"),) if force else ()
            given = {"forced": {"pos": ["P1", *[None] * (len(sentence["word"]) - 1)]}}
            whole = composition.decode([sentence], forced=[given["forced"]] if force else None)
            for shown in bench.decodes:
                ways = bench.compare(asked(sentence, bench, edits=edits, decode=shown))
                assert {way.decode for way in ways} == set(bench.decodes)
                assert ways[0].decode == shown
                assert ways[0].differs == []
                for way in ways:
                    sets = [composition.label_sets[tape] for tape in composition.tapes]
                    names = [[s[i] for i in row] for s, row in zip(sets, way.labels, strict=True)]
                    exact = composition.score(sentence, names)
                    assert way.score == pytest.approx(exact)
                    assert way.score <= whole.scores[0] + 1e-9
                    below += way.score < whole.scores[0] - 1e-9
                    if way.decode == normalize:
                        assert way.score == pytest.approx(whole.scores[0])
    assert below


@pytest.mark.parametrize("way", ["cascade", "marginals", "product"])
def test_a_bench_decides_by_its_own_way_first(way: Any) -> None:
    composition = compose(*taggers("three in a row"), normalize="product")
    bench = Workbench(composition, way=way)
    assert bench.decodes[0] == way
    pipeline = TrainedPipeline(composition, way)
    for sentence in TEST[:5]:
        shown = bench.answer(asked(sentence, bench))
        assert shown.decode == way
        best = [[composition.label_sets[tape.name][k] for k in tape.best] for tape in shown.tapes]
        assert [tuple(x) for x in best] == [tuple(x) for x in pipeline.tag(sentence)]


def test_ranked_paths_and_spans() -> None:
    composition, sentence = three(), long_sentence()
    bench = Workbench(composition)
    question = LatticeQuestion(rows(sentence, bench), decode="product")
    found = bench.rank(Asked(question, paths=7))
    wanted = compose(*composition.taggers, normalize="product").nbest_all([sentence], 7)[0]
    assert [path.score for path in found] == pytest.approx([path.score for path in wanted])
    assert [path.probability for path in found] == pytest.approx([p.probability for p in wanted])
    assert found[0].differs == 0
    assert all(path.differs for path in found[1:])
    answer = TrainedPipeline(composition, "product").decode([sentence])
    spans = bench.answer(Asked(question)).spans
    for tape in answer.tapes:
        mine = [(s.start, s.end, s.type) for s in spans if s.tape == tape]
        assert mine == [(s.start, s.end, s.type) for s in answer[tape].spans()[0]]
        chances = [s.probability for s in spans if s.tape == tape]
        assert chances == pytest.approx(answer.span_probabilities(tape)[0].tolist(), abs=1e-6)


def test_explanations_are_the_compositions() -> None:
    composition, sentence = three(), long_sentence()
    bench = Workbench(composition)
    told = composition.explain(sentence, 1).tapes["chunk"]
    for number, name in enumerate(composition.label_sets["chunk"]):
        found = bench.explain(CellAsked(asked(sentence, bench).question, "chunk", 1, number))
        assert found.probability == told.probability[name]
        assert found.emission == told.emission[name]
        assert [p.value for p in found.pushes] == [p.value for p in told.pushes if p.label == name][
            :20
        ]


def test_a_window_of_a_long_text() -> None:
    bench, sentence = Workbench(compose(tagger("pos"))), long_sentence()
    many = tuple(row for _ in range(200) for row in rows(sentence, bench))
    whole = bench.answer(Asked(LatticeQuestion(many), width=MAX_WINDOW))
    part = bench.answer(Asked(LatticeQuestion(many), first=100, width=50))
    assert (part.tokens, part.first, len(part.rows)) == (len(many), 100, 50)
    assert part.tapes[0].best == whole.tapes[0].best[100:150]
    assert part.tapes[0].marginals == whole.tapes[0].marginals[100:150]
    last = bench.answer(Asked(LatticeQuestion(many), first=10 * len(many)))
    assert (last.first, len(last.rows)) == (len(many) - 1, 1)


def test_no_path_says_why() -> None:
    bench = Workbench(compose(tagger("pos")) & never(label("P0")))
    number = bench.describe().tapes["pos"].index("P0")
    question = asked(long_sentence(), bench, edits=(Edit("pos", 0, number, "force"),))
    found = bench.answer(question)
    assert found.dead.startswith("at token 1: the labels forced by tape 'pos' and the grammar")
    assert set(found.tapes[0].best) == {-1}
    assert bench.rank(question) == []
    assert bench.compare(question) == []
    assert bench.answer(Asked(LatticeQuestion(()))).dead == "no token yet"


def test_sentences_of_a_file_with_most_errors_first() -> None:
    composition, corpus = compose(three(), normalize="product"), GIVEN
    bench = Workbench(composition, "three", corpus)
    listed = bench.sentences()
    predicted = composition.tag_all(corpus)
    gold = {tape: corpus.column_lists(tape) for tape in bench.describe().gold}
    assert gold
    for sentence in listed:
        labels = dict(zip(composition.tapes, predicted[sentence.number], strict=True))
        tokens = len(next(iter(labels.values())))
        wrong = sum(
            any(labels[t][k] != gold[t][sentence.number][k] for t in gold) for k in range(tokens)
        )
        assert sentence.errors == wrong
    errors = [sentence.errors or 0 for sentence in listed]
    assert errors == sorted(errors, reverse=True)
    with pytest.raises(DataError, match="sentence"):
        bench.sentence(len(corpus))


def test_gold_labels_are_read_in_the_scheme_of_the_tagger() -> None:
    words = ["the", "cat", "new", "york", "sat"]
    bioes, iob1 = (
        Corpus.from_sentences([list(zip(words, labels.split(), strict=True))] * 8, ["word", "ne"])
        for labels in ("O B-X I-X E-X O", "O I-X I-X I-X O")
    )
    bench = Workbench(compose(CRF.train(bioes, "ne", "U:%x[0,word]")), "names", iob1)
    assert {sentence.errors for sentence in bench.sentences()} == {0}
    assert bench.opened(0).gold["ne"] == ["O", "B-X", "I-X", "E-X", "O"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"edits": (Edit("nothing", 0, 0, "force"),)}, "no tape 'nothing'"),
        ({"edits": (Edit("pos", 900, 0, "force"),)}, "token 901"),
        ({"edits": (Edit("pos", 0, 90, "forbid"),)}, "label 91"),
        ({"weights": (1.0,)}, "1 weights for 3 taggers"),
        ({"rules": (7,)}, "rule 7: there are 0"),
        ({"edits": (Edit("pos", 0, 0, "force"), Edit("pos", 0, 1, "force"))}, "no label is left"),
    ],
)
def test_questions_that_cannot_be_meant(options: dict[str, Any], message: str) -> None:
    bench = Workbench(three())
    with pytest.raises(OptionError, match=message):
        bench.answer(asked(long_sentence(), bench, **options))


# --- The page -------------------------------------------------------------------------------------


@pytest.fixture
def bench() -> Workbench:
    return Workbench(three() & RULES, "three <b>", GIVEN)


@pytest.fixture
def client(bench: Workbench) -> Iterator[TestClient]:
    with TestClient(application(bench), base_url="http://127.0.0.1:8642") as client:
        yield client


def body(bench: Workbench, **options: Any) -> dict[str, Any]:
    question = {"rows": rows(long_sentence(), bench), **options}
    return {"question": question}


def test_the_page_and_its_answers(client: TestClient, bench: Workbench) -> None:
    page = client.get("/")
    assert page.status_code == 200
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert page.headers["x-content-type-options"] == "nosniff"
    assert re.fullmatch(r"total;dur=\d+\.\d", page.headers["server-timing"])
    assert client.get("/inspect.js").headers["content-type"].startswith("text/javascript")
    assert client.get("/inspect.css").status_code == 200
    assert "<script>" not in page.text  # the policy allows none inside the page
    model = client.get("/api/model").json()
    assert model["name"] == "three <b>"
    assert model["rules"] == [rule[0].name for rule in bench.rules]
    found = client.post("/api/answer", json=body(bench)).json()
    wanted: Shown = bench.answer(asked(long_sentence(), bench))
    assert found["score"] == wanted.score
    assert [tape["best"] for tape in found["tapes"]] == [tape.best for tape in wanted.tapes]
    for path in ("compare", "rank"):
        assert len(client.post(f"/api/{path}", json=body(bench)).json())
    assert len(client.post("/api/judge", json=body(bench)).json()) == 2
    cell = {**body(bench), "tape": "chunk", "token": 0, "label": 0}
    assert client.post("/api/explain", json=cell).json()["best"]
    listed = client.get("/api/sentences").json()
    number = listed[0]["number"]
    assert len(client.get(f"/api/sentences/{number}").json()["rows"]) == listed[0]["tokens"]


def test_what_should_not_happen_is_said(bench: Workbench) -> None:
    class Broken(Workbench):
        def describe(self) -> Any:
            raise KeyError("why")

    broken = application(Broken(bench.composition))
    address = "http://127.0.0.1:8642"
    with TestClient(broken, base_url=address, raise_server_exceptions=False) as client:
        found = client.get("/api/model")
    assert found.status_code == 500
    assert found.json() == {"error": "this should not happen: KeyError"}


def test_one_tagger_is_composed_first(bench: Workbench) -> None:
    one: Any = bench.composition.taggers[0]
    with pytest.raises(
        OptionError, match=r"a workbench of CRF, expected a composition of CRFs, such as"
    ):
        Workbench(one)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 421),
        ({"Host": "evil.example:8642"}, 421),
        ({"Host": "127.0.0.1.evil.example"}, 421),
        ({"Host": ""}, 421),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://127.0.0.1:9999"}, 403),
        ({"Origin": "file://127.0.0.1:8642"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Host": "localhost:8642", "Origin": "http://localhost:8642"}, 200),
        ({"Host": "[::1]:8642"}, 200),
    ],
)
def test_strangers_are_refused(client: TestClient, headers: dict[str, str], status: int) -> None:
    found = client.get("/api/model", headers=headers)
    assert found.status_code == status
    assert ("error" in found.json()) == (status != 200)


def test_a_token_is_asked_for() -> None:
    access = Access.of("0.0.0.0", "s3cret")
    with TestClient(application(Workbench(three()), access), base_url="http://a:1") as client:
        assert client.get("/").status_code == 200  # it holds no secret
        assert client.get("/api/model").status_code == 401
        wrong = client.get("/api/model", headers={"Authorization": "Bearer other"})
        assert wrong.status_code == 401
        right = client.get("/api/model", headers={"Authorization": "Bearer s3cret"})
        assert right.status_code == 200
    with pytest.raises(OptionError, match="--set secret"):
        Access.of("0.0.0.0")
    with pytest.raises(OptionError, match="ASCII"):
        Access.of("127.0.0.1", "日本")
    assert Access.of("127.0.0.1") == Access.of("localhost") == Access()
    assert Access.of("10.0.0.7", "x").serves("10.0.0.7:80")
    assert not Access.of("10.0.0.7", "x").serves("10.0.0.8:80")


@pytest.mark.parametrize(
    ("content", "status", "message"),
    [
        (b"{bad", 400, "not a question"),
        (b"\xff\xfe", 400, "not a question"),
        (b"[]", 400, "not a question"),
        (b'{"question": {"rows": [[1]]}}', 400, "not a question"),
        (b'{"question": {"rows": [], "more": 1}}', 400, "not a question"),
        (b'{"question": {"rows": []}, "width": 1000000}', 400, "not a question"),
        (b'{"question": {"rows": [["a"]], "weights": [-1]}}', 400, "not a question"),
        (b'{"question": {"rows": [["a"]], "weights": [1e999, 1, 1]}}', 400, "not a question"),
        (b'{"question": {"rows": [[]]}}', 422, "columns"),
        (b" " * (server.MAX_BODY + 1), 413, "MB"),
    ],
)
def test_bad_questions(client: TestClient, content: bytes, status: int, message: str) -> None:
    headers = {"Content-Type": "application/json; charset=utf-8"}
    found = client.post("/api/answer", content=content, headers=headers)
    assert found.status_code == status
    assert message in found.json()["error"]


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", ""])
def test_what_a_form_could_send_is_no_question(client: TestClient, kind: str) -> None:
    """Forms of other sites send these kinds without asking first."""
    content = b'{"question": {"rows": [["a"]]}}'
    found = client.post("/api/answer", content=content, headers={"Content-Type": kind})
    assert found.status_code == 415


def test_a_question_that_does_not_come_is_not_waited_for(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "PATIENCE", 0.01)
    sent: list[Any] = []

    async def receive() -> Any:
        await anyio.sleep_forever()

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
    scope = {"type": "http", "method": "POST", "path": "/api/answer", "headers": headers}
    anyio.run(application(bench), {**scope, "query_string": b"", "root_path": ""}, receive, send)
    assert sent[0]["status"] == 408


def test_too_many_tokens(client: TestClient) -> None:
    many = {"question": {"rows": [["a"]] * (MAX_TOKENS + 1)}}
    assert client.post("/api/answer", json=many).status_code == 400
    assert client.get("/api/sentences/x").status_code == 400
    assert client.get("/api/sentences/٣").status_code == 400
    assert client.get("/api/sentences/900000").status_code == 422
    assert client.get("/../pyproject.toml").status_code == 404
    assert client.get("/%2e%2e/pyproject.toml").status_code == 404


# --- The command ----------------------------------------------------------------------------------


def test_the_command_serves_until_interrupted(tmp_path: Path) -> None:
    path = tmp_path / "three.fstcrf"
    three().save(path)
    with command.start("inspect", path, "--port", 0) as running:
        assert running.stderr is not None
        address = running.stderr.readline().split()[2]
        assert httpx2.get(f"{address}api/model", timeout=30).json()["name"] == "three.fstcrf"
        running.terminate()
        _, said = running.communicate(timeout=30)
    assert "Traceback" not in said


def test_bad_input_of_the_command(tmp_path: Path) -> None:
    path = tmp_path / "pos.fstcrf"
    tagger("pos").save(path)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert f"127.0.0.1:{port}" in command.failure("inspect", path, "--port", port, status=2)
    assert "--set secret" in command.failure("inspect", path, "--set", "host=0.0.0.0", status=2)
    text = tmp_path / "text.txt"
    text.write_text("no model")
    command.failure("inspect", text, status=1)
    command.failure("inspect", path, path, status=2)
    empty = tmp_path / "empty.txt"
    empty.write_text("")
    command.failure("inspect", path, "--text", empty, status=1)
