"""`fstcrf tag` with compositions and grammars: tapes, n best, what is forced, no legal labels."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any

import pytest

import fstcrf
from fstcrf.demo import COLUMNS, corpus_path, grammar_path, template_path
from fstcrf.taggers import CRF, JointCRF, Tagger, load
from fstcrf.taggers.pipelines import TrainedPipeline
from tests.support.command import done, failure, into_folder_with, run

TEXT = """\
-DOCSTART- -X- O

Meet VERB O
at PREP O
Lantern NAME B-PLACE
Court NAME I-PLACE

on PREP O
sunday NAME B-DAY
at PREP O
noon NOUN B-START


-DOCSTART- -X- O

Will NAME B-HOST
walks VERB O
again ADV O

"""


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two taggers, their product, their chain, and both under a grammar."""
    folder = tmp_path_factory.mktemp("models")
    data = fstcrf.read_columns(corpus_path("train"), COLUMNS)[:350]
    pos = CRF.train(data[:150], "pos", template_path("pos"), max_iterations=15)
    template = template_path("joint")
    field = CRF.train(data[150:], "field", template, reads=[pos], max_iterations=15)
    grammar = fstcrf.Grammar.from_file(grammar_path())
    joint = fstcrf.compose(pos, field, weights=(1, 0.5))
    chain = fstcrf.compose(pos, field, normalize="chain")
    models: dict[str, Any] = {"pos": pos, "field": field, "joint": joint, "chain": chain}
    models |= {"legal": joint & grammar, "legal_chain": chain & grammar}
    for name, model in models.items():
        model.save(folder / name)
    return folder


@pytest.fixture(autouse=True)
def current(models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    into_folder_with(models, tmp_path, monkeypatch)
    Path("in.txt").write_text(TEXT)
    Path("long.grm").write_text("tape field;\nexport LONG = any{4,};\n")


def composed(name: str) -> JointCRF:
    return fstcrf.load(name, JointCRF)


def corpus() -> fstcrf.Corpus:
    return fstcrf.read_columns("in.txt", COLUMNS)


def cells(text: str, first: int = 3) -> list[list[str]]:
    """Return the columns that were added, of all tokens."""
    rows = [line.split() for line in text.splitlines()]
    return [row[first:] for row in rows if row and not row[0].startswith(("#", "-DOC"))]


def flat(answers: list[tuple[list[str], ...]]) -> list[list[str]]:
    return [list(pair) for tapes in answers for pair in zip(*tapes, strict=True)]


@pytest.mark.parametrize(
    ("name", "way"), [("joint", "cascade"), ("joint", "marginals"), ("legal", "joint")]
)
def test_probabilities_of_every_tape(name: str, way: Any) -> None:
    """Jointly, of each tagger given the labels before it, or by what was thought of all."""
    model = TrainedPipeline(composed(name), way)
    data = corpus()
    answer = model.decode(data, n=2)
    given = ("tag", name, "in.txt", "--decode", way)
    lines = blocks(done(*given, "--marginals", "--span-probabilities"))
    alone = CRF.load("field").lattice({"word": data[0]["word"], "pos": answer["pos"].path(0)})
    for b, block in enumerate(lines):
        best = answer.paths(b)[0]
        assert block[0] == f"# {best.probability:f}"
        starts = {s.start: s for s in fstcrf.text.corpus.spans(best.labels[1])}
        chances = dict(zip(starts, answer.span_probabilities("field")[b], strict=True))
        for t, line in enumerate(block[1:]):
            first, second, span, *every = line.split()[3:]
            rows = [answer.marginals(tape)[b][t] for tape in ("pos", "field")]
            wanted = [
                [f"{label}/{p:f}" for label, p in zip(labels, row, strict=True)]
                for labels, row in zip(model.label_sets.values(), rows, strict=True)
            ]
            assert every == wanted[0] + wanted[1]
            assert first in wanted[0]
            assert second in wanted[1]
            shown = [cell.rpartition("/")[0] for cell in (first, second)]
            assert shown == [labels[t] for labels in best.labels]
            assert span == (f"{chances[t]:f}" if t in starts else "_")
            if b == 0 and way == "cascade" and t in starts:
                assert chances[t] == pytest.approx(alone.span_probability(*starts[t]))
    ranked = comments(done(*given, "--nbest", 2))
    heads = [
        f"# {k} {p.probability:f}" for b in range(len(data)) for k, p in enumerate(answer.paths(b))
    ]
    assert ranked == heads


def test_labels_known_in_a_cascade() -> None:
    text = "Meet VERB O\nsunday _ B-START\nnoon NOUN _\n\n"
    given = ["--force", "pos=pos,field=field", "--bias", "field:O=-9", "--bias", "pos:ADV=9"]
    found = cells(done("tag", "joint", "--decode", "cascade", *given, given=text))
    assert [row[0] for row in found] == ["VERB", "ADV", "NOUN"]
    assert [row[1] for row in found][:2] == ["O", "B-START"]
    assert found[2][1] != "O"
    joint = cells(done("tag", "joint", "--decode", "joint", *given, given=text))
    assert [row[1] for row in joint][:2] == ["O", "B-START"]


# --- N best, probabilities ------------------------------------------------------------------


def blocks(text: str) -> list[list[str]]:
    """Return the lines of each sentence, document lines left out."""
    groups = itertools.groupby(text.splitlines(), key=bool)
    found = [list(lines) for full, lines in groups if full]
    return [lines for lines in found if not lines[0].startswith("-DOC")]


@pytest.mark.parametrize("name", ["joint", "legal", "chain", "legal_chain", "field"])
def test_the_n_best_stand_one_after_the_other(name: str) -> None:
    model, data = load(name), corpus()
    wanted = [
        [
            f"# {i} {path.probability:f}",
            *(
                f"{word} {pos} {field} {' '.join(labels)}"
                for word, pos, field, *labels in zip(
                    *(sentence[name] for name in COLUMNS),
                    *(path.labels if name != "field" else [path.labels]),
                    strict=True,
                )
            ),
        ]
        for sentence in data
        for i, path in enumerate(model.nbest_all([sentence], 3)[0])
    ]
    text = done("tag", name, "in.txt", "--nbest", 3)
    assert blocks(text) == wanted
    assert [line for line in text.splitlines() if "DOC" in line] == ["-DOCSTART- -X- O"] * 2
    assert text.startswith("-DOCSTART- -X- O\n\n# 0 ")


# --- What is known beforehand, and what is not possible ----------------------------------------


def comments(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("# ")]


def test_confidence_under_a_grammar() -> None:
    lines = comments(done("tag", "legal", "in.txt", "--set", "confidence=true"))
    lattices = composed("legal").lattices(corpus())
    for line, lattice in zip(lines, lattices, strict=True):
        sure = lattice.confidence()
        assert line == f"# {lattice.best().probability:f} legal: {sure.legal}"
    failure("tag", "chain", "in.txt", "--set", "confidence=true", status=2)


def test_probabilities_under_a_grammar_too_large_to_sum() -> None:
    """Nine labels of parts of speech, each in at most one run, are 3 ** 9 states."""
    Path("once.grm").write_text("export ONCE = contiguous[any];\n")
    lines = comments(done("tag", "pos", "in.txt", "--grammar", "once.grm", "--nbest", 2))
    shares = [float(line.split()[2]) for line in lines]
    assert [line.split()[1] for line in lines] == ["0", "1"] * 3
    assert all(0.0 < b <= a <= 1.0 for a, b in zip(shares[::2], shares[1::2], strict=True))
    assert all(line.split()[3] == "±" for line in lines)
    assert "--set confidence=true gives bounds" in failure(
        "tag", "pos", "in.txt", "--grammar", "once.grm", "--probabilities", status=1
    )


@pytest.mark.parametrize("name", ["field", "joint", "chain"])
def test_no_path_under_a_grammar(name: str) -> None:
    """The last sentence is too short for it."""
    given = ["tag", name, "in.txt", "--grammar", "long.grm"]
    line = failure(*given, "-o", "out.txt")
    assert line == (
        "in.txt:18: no label sequence is legal from here on under long.grm:2: LONG; "
        "--on-no-path skip or relax goes on"
    )
    assert not Path("out.txt").exists()
    free = cells(done("tag", name, "in.txt"))
    skipped = run(*given, "--on-no-path", "skip")
    assert cells(skipped.stdout) == [*free[:-3], *[["_"] * len(free[0])] * 3]
    assert skipped.stderr == "fstcrf: 1 sentence tagged _: no label sequence is legal\n"
    relaxed = run(*given, "--on-no-path", "relax")
    assert cells(relaxed.stdout) == free
    assert relaxed.stderr == (
        "fstcrf: 1 sentence tagged without the grammar: with it no label sequence is legal\n"
    )
    best = blocks(run(*given, "--on-no-path", "skip", "--nbest", 2).stdout)
    assert [block[0].startswith("# 0 0.000000") for block in best] == [False] * 4 + [True]
    assert best[-1][1].split()[3:] == ["_"] * len(free[0])


def test_no_path_in_a_chain_with_a_grammar_of_two_tapes() -> None:
    Path("two.grm").write_text("tape pos, field;\nexport LONG = any{4,};\n")
    given = ["tag", "chain", "--grammar", "two.grm", "--on-no-path", "skip"]
    free = cells(done("tag", "chain", "in.txt"))
    for more in ([], ["--nbest", 1]):
        assert cells(run(*given, "in.txt", *more).stdout) == [*free[:-3], *[["_", "_"]] * 3]
    short = run(*given, given="a DET O\n\nthe DET O\n\n")
    assert cells(short.stdout) == [["_", "_"]] * 2
    assert short.stderr.startswith("fstcrf: 2 sentences tagged _")


def test_what_is_known_is_given_up_where_the_model_itself_forbids_it() -> None:
    data = fstcrf.read_columns(corpus_path("train"), COLUMNS)[:100]
    template = "U:%x[0,word]\nB\n"
    CRF.train(data, "field", template, scheme="iob2", max_iterations=3).save("strict")
    text = "at PREP O\nhall NOUN I-HOST\n\n"
    given = ["tag", "strict", "--force", "field", "--on-no-path", "relax", "--grammar"]
    result = run(*given, "bio", given=text)
    assert result.stderr.startswith("fstcrf: 1 sentence tagged without the forced labels")
    assert cells(result.stdout) == cells(done("tag", "strict", given=text))
    result = run(*given, "long.grm", given=text)
    assert result.stderr == "fstcrf: 1 sentence tagged without the grammar and the forced labels\n"
    assert cells(result.stdout) == cells(done("tag", "strict", given=text))


def test_searches_that_are_cut_short_are_counted() -> None:
    Path("once.grm").write_text("export ONCE = contiguous[any];\n")
    words = " ".join(f"w{k}" for k in range(30)).split()
    Path("words.txt").write_text("\n".join(words) + "\n")
    command = ("tag", "pos", "words.txt", "--columns", "word", "--grammar", "once.grm")
    whole = run(*command)
    assert whole.exit_code == 0
    cut = run(*command, "--set", "max_states=2", "--set", "max_seconds=60")
    assert cut.exit_code == 0
    assert "not proven" in cut.stderr
    assert "not proven" not in whole.stderr
    labels = [line.split()[1] for line in cut.stdout.splitlines() if line]
    runs = [label for label, _ in itertools.groupby(labels)]
    assert len(runs) == len(set(runs))


def test_how_a_grammar_is_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    """The labels are the same each way; what cannot be multiplied out says so."""
    asked: list[str | None] = []
    decode = Tagger.decode

    def heard(self: Tagger, *given: Any, search: Any, **options: Any) -> Any:
        asked.append(search)
        return decode(self, *given, search=search, **options)

    monkeypatch.setattr(Tagger, "decode", heard)
    few = [f'export {tag} = at_most[2, "{tag}"];' for tag in ("DET", "NOUN", "VERB")]
    Path("few.grm").write_text("\n".join(few))
    command = ("tag", "pos", "in.txt", "--grammar", "few.grm")
    whole = done(*command)
    for way in ("auto", "lazy", "expanded"):
        assert done(*command, "--set", f"search={way}") == whole
    assert asked == [None, "auto", "lazy", "expanded"]
    Path("once.grm").write_text("export ONCE = contiguous[any];\n")
    refused = run("tag", "pos", "in.txt", "--grammar", "once.grm", "--set", "search=expanded")
    assert refused.exit_code == 1
    assert refused.stderr.count("\n") == 1
    assert "search='expanded'" in refused.stderr


LONG = "Meet at Lantern Court on sunday at noon Will walks again ".replace(" ", "\n") * 10


@pytest.mark.parametrize("more", [(), ("--nbest", 2)])
def test_time_of_a_chain(more: tuple[object, ...]) -> None:
    """A long sentence under the chain rule ends in its time, and says that it is not proven."""
    Path("long.txt").write_text(LONG)
    command = ("tag", "chain", "long.txt", "--columns", "word", "--set", "max_states=999999", *more)
    cut = run(*command, "--set", "max_seconds=0.001")
    assert cut.exit_code == 0
    assert cut.stderr == (
        "fstcrf: 1 sentence tagged with the best labels found, not proven to be the best\n"
    )
    assert len([line for line in cut.stdout.splitlines() if line[:1] not in ("#", "")]) >= 110


@pytest.mark.parametrize("model", ["joint", "chain"])
@pytest.mark.parametrize("more", [(), ("--nbest", 2)])
def test_a_sentence_too_long_for_memory_is_named(
    monkeypatch: pytest.MonkeyPatch, model: str, more: tuple[object, ...]
) -> None:
    Path("long.txt").write_text(f"{LONG}\nMeet\n")
    monkeypatch.setattr("fstcrf.kernel.machines.os.sysconf", lambda _: 64)
    refused = run("tag", model, "long.txt", "--columns", "word", *more)
    assert refused.exit_code == 1
    assert refused.stderr.count("\n") == 1
    assert re.search(r"long\.txt:1: .*110 tokens, [\d,]+ states at each: .*GB", refused.stderr)
    assert "is a blank line missing between sentences?" in refused.stderr


# --- Wrong usage ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["field", "--decode", "cascade"], "--decode is for compositions: the model has one tape"),
        (
            ["joint", "--decode", "cascade", "--set", "max_states=2"],
            "--set max_states needs a joint decision",
        ),
        (
            ["joint", "--decode", "cascade", "--set", "search=lazy"],
            "--set search needs a joint decision",
        ),
        (["field", "--decode", "product"], "--decode is for compositions: the model has one tape"),
        (["chain", "--marginals"], "--marginals is not available"),
        (["chain", "--probabilities"], "--probabilities is not available"),
        (["legal_chain", "--span-probabilities"], "--span-probabilities is not available"),
        (["joint", "--bias", "O=1"], "--bias O=1: expected TAPE:LABEL=NUMBER, the tapes are pos"),
        (["joint", "--bias", "x:O=1"], "--bias x:O=1: expected TAPE:LABEL=NUMBER, the tapes are"),
        (["joint", "--force", "pos"], "--force pos: expected TAPE=COLUMN, the tapes are pos"),
        (["joint", "--force", "pos=pos,x=y"], "--force pos=pos,x=y: expected TAPE=COLUMN"),
        (["joint", "--nbest", "0"], "Invalid value for '--nbest'"),
        *(
            (["joint", "--set", f"{option}={value}"], message)
            for option, values, message in (
                ("max_states", ("0", "-1", "inf", "nan", "1.5"), "Invalid value for '--set max"),
                ("max_states", (str(1 << 63),), "budget of 9223372036854775808 states: expected"),
                ("max_seconds", ("0", "-1", "-inf", "x"), "Invalid value for '--set max_seconds'"),
                ("max_seconds", ("nan",), "budget of 250000 states and nan seconds: expected"),
            )
            for value in values
        ),
    ],
)
def test_wrong_usage(arguments: list[str], message: str) -> None:
    line = failure("tag", arguments[0], "in.txt", *arguments[1:], status=2)
    assert line.startswith(message)


def test_span_probabilities_need_spans() -> None:
    pos = fstcrf.load("pos")
    data = fstcrf.read_columns(corpus_path("train"), COLUMNS)[:20]
    other = CRF.train(data, "pos", "U:%x[0,word]\n", tape="other", max_iterations=2)
    fstcrf.compose(pos, other).save("two")
    line = failure("tag", "two", "in.txt", "--span-probabilities", status=2)
    assert line.startswith("--span-probabilities: no tape has labels of spans")


# --- Another kind of decision, when tagging ---------------------------------------------------


def test_another_kind_of_composition() -> None:
    text = failure("tag", "legal", "in.txt", "--decode", "chain", "--probabilities", status=2)
    assert text.startswith("--probabilities is not available")
    assert "/0." in done("tag", "chain", "in.txt", "--decode", "product", "--probabilities")


# --- Large input ----------------------------------------------------------------------------


@pytest.mark.thorough
@pytest.mark.parametrize(
    "options",
    [[], ["--decode", "cascade"], ["--nbest", "2"], ["--marginals"], ["--force", "pos=pos"]],
)
def test_runs_do_not_matter(options: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    import fstcrf.text.corpus

    fstcrf.write_columns(fstcrf.read_columns(corpus_path("test"), COLUMNS)[:150], "test.txt")
    whole = done("tag", "joint", "test.txt", *options)
    stream = fstcrf.text.corpus.stream_columns

    def small(*arguments: object, **given: object) -> object:
        return stream(*arguments, **given, batch_tokens=500)  # type: ignore[arg-type]

    monkeypatch.setattr("fstcrf.text.corpus.stream_columns", small)
    monkeypatch.setattr("fstcrf.cli.tagging._RUN_NUMBERS", 4000)
    monkeypatch.setattr("fstcrf.cli.tagging._RUN_STEPS", 1)
    monkeypatch.setattr("fstcrf.cli.tagging._LEAST_TOKENS", 90)
    assert done("tag", "joint", "test.txt", *options, "--threads", 2) == whole
