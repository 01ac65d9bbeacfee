"""Documents: schedules, repeated sequences, penalties, models of one's own, the command."""

from __future__ import annotations

import io
import itertools
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fstcrf
import tests.support.command as program
from fstcrf.errors import (
    DataError,
    LabelError,
    ModelFileError,
    NumericError,
    OptionError,
    ShapeError,
)
from fstcrf.ext.documents import (
    Annealing,
    Consistency,
    Differing,
    Document,
    DocumentTagger,
    Fields,
    Recounted,
    Unlabelled,
    Violation,
)
from fstcrf.ext.documents.consistency import count_pairs
from fstcrf.ext.documents.document import repeated_sequences
from fstcrf.text.corpus import ColumnWriter, Corpus, convert_column, read_columns, stream_columns
from fstcrf.text.corpus.batches import whole_documents
from tests.support.memory import peak

TEXT = """\
-DOCSTART- O

Rotor B-ORG
won O

Rotor B-PER
Volgograd I-PER

-DOCSTART- O

Rotor B-ORG
Volgograd I-ORG
met O
Rotor B-ORG
Volgograd I-ORG

Rotor B-ORG
lost O

"""


@pytest.fixture
def corpus(tmp_path: Path) -> Corpus:
    path = tmp_path / "text.txt"
    path.write_text(TEXT)
    return read_columns(str(path), ("word", "ner"))


@pytest.fixture
def tagger(corpus: Corpus) -> fstcrf.CRF:
    return fstcrf.CRF.train(corpus, "ner", "U0:%x[0,word]\nU1:%x[1,word]\nB", scheme="iob2")


@pytest.fixture
def shell(tagger: fstcrf.CRF, tmp_path: Path) -> tuple[str, ...]:
    """The tagger's file, and a model of consistency with few sweeps, as arguments."""
    tagger.save(tmp_path / "tagger.fstcrf")
    Consistency([Violation("same", ("ORG", "PER"), -1.0)]).save(tmp_path / "names.json")
    names = ("--documents", str(tmp_path / "names.json"), "--set", "sweeps=3")
    return str(tmp_path / "tagger.fstcrf"), *names


@pytest.mark.parametrize("schedule", ["linear", "exponential", "geometric"])
def test_temperatures_fall_to_zero(schedule: str) -> None:
    found = Annealing(10, schedule).temperatures()  # type: ignore[arg-type]
    assert found[0] == 1.0
    assert found[-1] == 0.0
    assert (np.diff(found) < 0).all()


def test_constant_temperatures_are_no_search() -> None:
    assert Annealing(3, "constant", start=2.0).temperatures().tolist() == [2.0, 2.0, 2.0]


@pytest.mark.parametrize(
    "options",
    [
        {"sweeps": 0},
        {"schedule": "quick"},
        {"start": 0.0},
        {"rate": math.nan},
        {"schedule": "geometric", "start": 0.1, "end": 0.5},
    ],
)
def test_wrong_schedules(options: dict[str, object]) -> None:
    with pytest.raises(OptionError):
        Annealing(**options)  # type: ignore[arg-type]


def test_only_geometric_schedules_have_an_end() -> None:
    assert Annealing(5, "linear", start=0.005).temperatures()[0] == 0.005
    flat = Annealing(3, "geometric", start=0.5, end=0.5)
    assert flat.temperatures().tolist() == [0.5, 0.5, 0.0]


@pytest.mark.parametrize("seed", range(5))
def test_repeated_sequences_are_those_that_repeat(seed: int) -> None:
    random = np.random.default_rng(seed)
    offsets = np.array([0, 4, 5, 11, 13])
    tokens = random.integers(3, size=13)
    found = repeated_sequences(tokens, offsets)
    places = [
        (a, b)
        for first, end in itertools.pairwise(offsets.tolist())
        for a in range(first, end)
        for b in range(a + 1, end + 1)
    ]
    often = Counter(tuple(tokens[a:b].tolist()) for a, b in places)
    number: dict[int, tuple[int, ...]] = {}
    for a, b in places:
        key = tuple(tokens[a:b].tolist())
        if often[key] == 1:
            assert found.of(a, b) == -1
        else:
            assert number.setdefault(found.of(a, b), key) == key
    assert len(number) == sum(n > 1 for n in often.values())


def test_pairs_are_counted_within_documents(corpus: Corpus) -> None:
    counts = count_pairs(corpus, "ner")
    assert counts.types == ("ORG", "PER")
    assert counts.same.tolist() == [[1, 0], [0, 0]]
    assert counts.within.tolist() == [[2, 0], [1, 0]]


@pytest.mark.parametrize("scheme", ["iob1", "bioes", "bilou", "bmes", "bmewo"])
def test_pairs_are_those_of_any_tagging_scheme(corpus: Corpus, scheme: str) -> None:
    written = convert_column(corpus, "ner", "iob2", scheme)
    found, wanted = count_pairs(written, "ner"), count_pairs(corpus, "ner")
    assert found.types == wanted.types
    assert np.array_equal(found.same, wanted.same)
    assert np.array_equal(found.within, wanted.within)


def test_penalties_as_in_the_paper(corpus: Corpus) -> None:
    model = Consistency.estimate(corpus, "ner")
    found = {(v.relation, v.types): v.penalty for v in model.violations}
    # Zeros become ones: same [[1, 1], [1, 1]], within [[2, 1], [1, 1]].
    assert found["same", ("ORG", "PER")] == pytest.approx(math.log(1 / 2))
    assert found["within", ("PER", "ORG")] == pytest.approx(math.log(1 / 3))
    assert found["within", ("ORG", "PER")] == pytest.approx(math.log(1 / 2))


def test_the_example_of_the_paper() -> None:
    """Rotor Volgograd as PER and as ORG, and Rotor as ORG."""
    words = [["Rotor", "Volgograd"], ["Rotor", "Volgograd"], ["Rotor"]]
    document = Document(Corpus.from_sentences([{"word": w} for w in words]))
    model = Consistency(
        [Violation("same", ("PER", "ORG"), -5.0), Violation("within", ("PER", "ORG"), -3.0)]
    )
    assert model.score(document, ["B-PER", "I-PER", "B-ORG", "I-ORG", "B-ORG"]) == 2 * -5.0 - 3.0


def test_models_are_saved_as_text(corpus: Corpus, tmp_path: Path) -> None:
    model = Consistency.estimate(corpus, "ner")
    model.save(tmp_path / "model.json")
    assert Consistency.load(tmp_path / "model.json") == model
    for text in ("{}", '{"format": "x", "version": 1, "violations": []}', "\x00"):
        (tmp_path / "model.json").write_text(text)
        with pytest.raises(ModelFileError, match=r"model\.json"):
            Consistency.load(tmp_path / "model.json")


def test_case_and_incomplete_spans_are_options(corpus: Corpus, tmp_path: Path) -> None:
    wide = Consistency.estimate(corpus, "ner", ignore_case=True, incomplete=True)
    wide.save(tmp_path / "names.json")
    assert Consistency.load(tmp_path / "names.json") == wide
    assert {v.relation for v in wide.violations} == {"same", "within", "incomplete"}
    assert wide.scaled(2.0).ignore_case
    for factor, relation, words in ((-1.0, None, "factor is -1"), (2.0, "foo", "relation 'foo'")):
        with pytest.raises(OptionError, match=words):
            wide.scaled(factor, relation)  # type: ignore[arg-type]
    made = tmp_path / "made.json"
    options = ["--structure", "consistency", "--columns", "word,ner", "--target", "ner"]
    options += ["--set", "ignore_case=true", "--set", "incomplete=true"]
    program.run("train", str(tmp_path / "text.txt"), "-o", str(made), *options)
    assert Consistency.load(made) == wide
    upper = Document(Corpus.from_sentences([{"word": ["Rotor"]}, {"word": ["ROTOR"]}]))
    model = Consistency([Violation("same", ("ORG", "PER"), -2.0)])
    labels = ["B-ORG", "B-PER"]
    assert model.score(upper, labels) == 0
    assert replace(model, ignore_case=True).score(upper, labels) == -2
    fields = tmp_path / "fields.json"
    Fields.seminars().save(fields)
    text = fields.read_text().replace('"version": 1,', '"version": 1, "ignore_case": true,')
    fields.write_text(text)
    with pytest.raises(ModelFileError, match="ignore_case is for models of consistency"):
        Fields.load(fields)


def test_sentences_without_tokens_stay(tagger: fstcrf.CRF) -> None:
    corpus = Corpus.from_sentences([{"word": []}, {"word": ["Rotor"]}, {"word": []}], ["word"])
    assert [len(x) for x in DocumentTagger(tagger).tag_all(corpus)] == [0, 1, 0]
    assert DocumentTagger(tagger).tag_all(corpus[:1]) == [[]]
    with pytest.raises(DataError, match="document 0 has no tokens"):
        DocumentTagger(tagger).tag_document(Document(corpus[:1]))


@pytest.mark.parametrize("score", [math.nan, math.inf])
def test_models_must_return_numbers(corpus: Corpus, tagger: fstcrf.CRF, score: float) -> None:
    wrong = Recounted(lambda _, labels: score if "B-PER" in labels else 0.0)
    with pytest.raises(NumericError, match="violation model Recounted returned"):
        DocumentTagger(tagger, [wrong], Annealing(5)).tag_all(corpus)


def test_penalties_must_be_finite() -> None:
    with pytest.raises(NumericError, match="penalty of same"):
        Violation("same", ("A", "B"), math.nan)


def test_a_model_of_types_that_there_are_not(corpus: Corpus, tagger: fstcrf.CRF) -> None:
    model = Consistency([Violation("same", ("A", "B"), -1.0)])
    with pytest.raises(LabelError, match="no label is of the types A, B, which"):
        DocumentTagger(tagger, [model])
    half: list[Consistency | Fields] = [
        Consistency([Violation("same", ("ORG", "PER"), -1.0), Violation("same", ("ORG", "B"), -1)]),
        Fields([Unlabelled("B"), Unlabelled("PER")]),
    ]
    for one in half:
        with pytest.raises(LabelError, match=r"of the type B, which .* of ner are ORG, PER$"):
            DocumentTagger(tagger, [one])
    plain = fstcrf.CRF.train(corpus, "word", "U0:%x[0,ner]", max_iterations=1)
    with pytest.raises(LabelError, match="the types of word are none: labels of spans are like"):
        DocumentTagger(plain, [model])


def test_types_that_a_grammar_forbids_are_there(corpus: Corpus, tagger: fstcrf.CRF) -> None:
    none = tagger & fstcrf.constraints.at_most(0, "PER", tape="ner")
    model = Consistency([Violation("same", ("ORG", "PER"), -1.0)])
    assert not any("PER" in x for x in labels_of(DocumentTagger(none, [model]), corpus))


def test_the_tape_of_a_model_is_checked_at_once(corpus: Corpus, tagger: fstcrf.CRF) -> None:
    model = Consistency([Violation("same", ("ORG", "PER"), -1.0)], tape="chunk")
    with pytest.raises(OptionError, match=r"no tape 'chunk': give it tape= .* one of ner"):
        DocumentTagger(tagger, [model])


@pytest.mark.parametrize("tokens", range(1, 12))
@pytest.mark.parametrize("head", ["", "-DOCSTART- 0\n\n", "-DOCSTART- 0\n\n-DOCSTART- 00\n\n"])
def test_whole_documents_are_written_as_they_were(tmp_path: Path, tokens: int, head: str) -> None:
    text = head + (
        "a x\nb x\n\n\nc x\n\nd x\n\n-DOCSTART- 1\n\n-DOCSTART- 2 z\n\na x\n\nb x\nc x\n\n\n\n"
        "-DOCSTART- 3\n\nd x\ne x\n\n-DOCSTART- 4\n\n"
    )
    path = tmp_path / "text.txt"
    path.write_text(text)
    whole = read_columns(path, ("word", "label"))
    found = list(whole_documents(stream_columns(path, ("word", "label"), batch_tokens=tokens)))
    written = io.BytesIO()
    writer = ColumnWriter(written, ["word", "label"])
    for batch in found:
        writer.write(batch)
    assert written.getvalue().decode() == text
    for name in ("documents", "lines", "blank_lines"):
        parts = np.concatenate([getattr(batch, name) for batch in found])
        assert parts.tolist() == getattr(whole, name).tolist(), name
    first = [set(batch.documents.tolist()) for batch in found]
    assert all(not one & other for one, other in itertools.combinations(first, 2))


@pytest.mark.parametrize(
    "one",
    [Violation("same", ("ORG", "PER"), -2), Differing("ORG", "text", -2), Unlabelled("ORG", -2)],
)
def test_penalties_may_be_whole_numbers(one: Violation | Differing | Unlabelled) -> None:
    assert type(one.penalty) is float


@pytest.mark.parametrize("tokens", [1, 4, 1000])
def test_labels_do_not_depend_on_batches(
    corpus: Corpus, tagger: fstcrf.CRF, tmp_path: Path, tokens: int
) -> None:
    model = Consistency([Violation("same", ("ORG", "PER"), -0.5)])
    sampling = DocumentTagger(
        tagger, [model], Annealing(2, "constant"), start="random", take="last"
    )
    done, found = 0, []
    stream = stream_columns(tmp_path / "text.txt", ("word", "ner"), batch_tokens=tokens)
    for batch in whole_documents(stream):
        found += sampling.decode(batch, first=done).column().strings()
        done += len(batch.document_slices())
    assert found == labels_of(sampling, corpus)


def test_the_commands(
    corpus: Corpus, tagger: fstcrf.CRF, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tagger.save(tmp_path / "tagger.fstcrf")
    text, model = str(tmp_path / "text.txt"), str(tmp_path / "names.json")
    options = ("--structure", "consistency", "--columns", "word,ner", "--target", "ner")
    made = program.run("train", text, "-o", model, *options)
    assert "2 documents" in made.stderr
    done = program.run("tag", str(tmp_path / "tagger.fstcrf"), text, "--documents", model)
    lines = done.stdout.splitlines()
    assert [x.rsplit(" ", 1)[0] for x in lines if x and "DOCSTART" not in x] == [
        x for x in TEXT.splitlines() if x and "DOCSTART" not in x
    ]
    assert lines[0].startswith("-DOCSTART-")
    monkeypatch.setattr("fstcrf.ext.documents.command._RUN_TOKENS", 1)  # a document is a run
    again = ("tag", str(tmp_path / "tagger.fstcrf"), text, "--documents", model)
    assert program.done(*again) == done.stdout


def test_memory_does_not_grow_with_sweeps(tagger: fstcrf.CRF) -> None:
    corpus = Corpus.from_sentences([{"word": ["Rotor", "won"]}] * 300)

    def taken(sweeps: int) -> int:
        return peak(DocumentTagger(tagger, [], Annealing(sweeps)).tag_all, corpus)

    taken(1)
    assert taken(2500) < 1.2 * taken(500)


@pytest.mark.parametrize(
    "options",
    [
        {"sweeps": "foo"},
        {"start": "foo"},
        {"take": "first"},
        {"chains": 0},
        {"chains": 1.5},
        {"seed": -1},
        {"models": Recounted(lambda *_: 0.0)},
        {"models": ["x"]},
        {"models": [Recounted]},
        {"annealing": 200},
    ],
)
def test_wrong_options_of_the_tagger(tagger: fstcrf.CRF, options: dict[str, object]) -> None:
    with pytest.raises(OptionError, match=next(iter(options))):
        DocumentTagger(tagger, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("types", ["AB", ("A",), ("A", "B", "C")])
def test_violations_have_two_types(types: object) -> None:
    with pytest.raises(OptionError, match="expected a tuple of two names"):
        Violation("same", types, -1.0)  # type: ignore[arg-type]


def test_what_is_no_number_and_no_violation() -> None:
    with pytest.raises(OptionError, match=r"penalty of same .* is '2', expected a number"):
        Violation("same", ("A", "B"), "2")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="violations has 1, expected Violation"):
        Consistency([1])  # type: ignore[list-item]
    with pytest.raises(OptionError, match="violations is a Violation, expected a list"):
        Consistency(Violation("same", ("A", "B"), -1.0))  # type: ignore[arg-type]
    pair = [Violation("same", ("A", "B"), -1.0), Violation("same", ("B", "A"), -2.0)]
    with pytest.raises(OptionError, match=r"2 violations of same \('A', 'B'\), expected one"):
        Consistency(pair)
    assert Consistency(pair[:1]).with_violations(pair[1:]).violations == (pair[1],)
    with pytest.raises(OptionError, match="start is 'a', expected a number"):
        Annealing(start="a")  # type: ignore[arg-type]


def test_scores_are_of_all_tokens(corpus: Corpus) -> None:
    document = Document(corpus)
    tokens = len(document.column("word"))
    for model in (Consistency([Violation("same", ("A", "B"), -1.0)]), Fields([Differing("A")])):
        for wrong in (tokens - 1, tokens + 1):
            with pytest.raises(ShapeError, match=f"{wrong} labels for a document of {tokens}"):
                model.score(document, ["O"] * wrong)
        with pytest.raises(OptionError, match="document is a Corpus, expected a Document"):
            model.score(corpus, ["O"] * tokens)  # type: ignore[arg-type]


def test_models_that_return_no_number(corpus: Corpus, tagger: fstcrf.CRF) -> None:
    nothing = Recounted(lambda *_: None)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="Recounted returned a NoneType"):
        DocumentTagger(tagger, [nothing]).tag_all(corpus)


class Bound:
    """A model that returns what it is given."""

    def __init__(self, found: object) -> None:
        self.found = found

    def bind(self, _: Document) -> Any:
        return self.found


class Forgetful:
    def start(self, labels: Sequence[str]) -> float:
        return 0.0 * len(labels)

    def change(self, first: int, labels: Sequence[str]) -> float:
        return 0.0 * first * len(labels)


@pytest.mark.parametrize(
    ("found", "wrong"),
    [
        (None, "bind returned a NoneType without a method start; it needs start, change, keep"),
        (Forgetful(), "bind returned a Forgetful without a method keep"),
    ],
)
def test_models_that_lack_a_method(
    corpus: Corpus, tagger: fstcrf.CRF, found: object, wrong: str
) -> None:
    with pytest.raises(OptionError, match=f"the violation model Bound: {wrong}"):
        DocumentTagger(tagger, [Bound(found)]).tag_all(corpus)


def test_documents_are_corpora(tagger: fstcrf.CRF) -> None:
    with pytest.raises(DataError, match="expected a Corpus"):
        DocumentTagger(tagger).tag_all([["Rotor"]])


def test_the_options_of_sampling_in_the_shell(
    corpus: Corpus, tagger: fstcrf.CRF, tmp_path: Path
) -> None:
    tagger.save(tmp_path / "tagger.fstcrf")
    names, fields = str(tmp_path / "names.json"), str(tmp_path / "fields.json")
    same = Consistency([Violation("same", ("ORG", "PER"), -2.0)])
    more = Fields([Unlabelled("ORG", -3.0)])
    same.save(names)
    more.save(fields)
    tag = ("tag", str(tmp_path / "tagger.fstcrf"), str(tmp_path / "text.txt"))
    both = ("--documents", names, "--documents", fields)
    settings = ("sweeps=9", "schedule=geometric", "chains=2", "seed=3")
    how = [word for one in settings for word in ("--set", one)]
    wanted = DocumentTagger(tagger, [same, more], Annealing(9, "geometric"), chains=2, seed=3)
    assert printed_labels(*tag, *both, *how) == labels_of(wanted, corpus)
    for refused in (
        ("--nbest", "2"),
        ("--marginals",),
        ("--decode", "cascade"),
        ("--set", "search=lazy"),
        ("--set", "max_states=9"),
        ("--set", "max_seconds=9"),
        ("--threads", "2"),
    ):
        failed = program.failure(*tag, *both, *refused, status=2)
        flag = " ".join(refused).partition("=")[0] if refused[0] == "--set" else refused[0]
        assert f"{flag} cannot go with --documents" in failed
    sampling = "sweeps=1 schedule=linear draw=token initial=random take=last chains=1 seed=1"
    for one in sampling.split():
        failed = program.failure(*tag, "--set", one, status=2)
        assert f"--set {one.split('=')[0]} belongs to --documents" in failed


def test_known_labels_in_the_shell(shell: tuple[str, ...], tmp_path: Path) -> None:
    """Forced labels and biases are the local model's; a sentence without a path may be skipped."""
    words = ["-DOCSTART- -X-", "", "Rotor B-PER", "won _", "", "Rotor O", "won I-PER", ""]
    (tmp_path / "known.txt").write_text("\n".join(words) + "\n")
    given = ("tag", *shell, str(tmp_path / "known.txt"))
    given += ("--columns", "word,known", "--force", "known")
    failed = program.failure(*given)
    assert failed.startswith(f"{tmp_path / 'known.txt'}:7: the labels forced by column 'known' al")
    result = program.run(*given, "--on-no-path", "skip", "--bias", "O=99")
    assert result.exit_code == 0, result.stderr
    found = [x.split(" ")[-1] for x in result.stdout.splitlines() if x and "DOC" not in x]
    assert found == ["B-PER", "O", "_", "_"]
    assert result.stderr == "fstcrf: 1 sentence tagged _: no label sequence is legal\n"


def printed_labels(*arguments: str) -> list[str]:
    lines = program.done(*arguments).splitlines()
    return [x.split(" ")[-1] for x in lines if x and "DOCSTART" not in x]


def labels_of(tagger: DocumentTagger, corpus: Corpus) -> list[str]:
    return [label for sentence in tagger.tag_all(corpus) for label in sentence]


@pytest.mark.parametrize(
    ("head", "warned"),
    [("", True), ("-DOCSTART- O\n\n", False), ("x O\n\n-DOCSTART- O\n\n", False)],
)
def test_a_text_that_has_no_documents(shell: tuple[str, ...], head: str, warned: bool) -> None:
    result = program.run("tag", *shell, given=f"{head}Rotor O\n")
    assert result.exit_code == 0
    assert ("decided as one document" in result.stderr) == warned


@pytest.mark.parametrize("text", ["", "\n", "-DOCSTART- O\n\n-DOCSTART- O\n\n"])
def test_a_text_without_tokens(
    corpus: Corpus, tagger: fstcrf.CRF, shell: tuple[str, ...], text: str
) -> None:
    for given in (shell[:1], shell):
        result = program.run("tag", *given, given=text)
        assert (result.exit_code, result.output) == (0, text)
    assert DocumentTagger(tagger).tag_all(corpus[:0]) == []


def test_documents_without_tokens_stay(shell: tuple[str, ...]) -> None:
    text = "-DOCSTART- 1\n\nRotor\n\n-DOCSTART- 2\n\n-DOCSTART- 3\n\nwon\n\n-DOCSTART- 4\n\n"
    lines = program.done("tag", *shell, "--columns", "word", given=text).splitlines()
    assert [line.split(" ")[0] for line in lines] == [x.split(" ")[0] for x in text.splitlines()]


def test_columns_known_by_number(corpus: Corpus, tmp_path: Path) -> None:
    numbered = Corpus.from_sentences(
        [
            {"0": words, "ner": labels}
            for words, labels in zip(*map(corpus.column_lists, ("word", "ner")), strict=True)
        ]
    )
    fstcrf.CRF.train(numbered, "ner", "U:%x[0,0]\nB").save(tmp_path / "numbered.fstcrf")
    Consistency([Violation("same", ("ORG", "PER"), -1.0)], "0").save(tmp_path / "names.json")
    given = ("tag", str(tmp_path / "numbered.fstcrf"), str(tmp_path / "text.txt"))
    more = ("--documents", str(tmp_path / "names.json"), "--columns", "word,gold")
    assert len(printed_labels(*given, *more)) == corpus.n_tokens
