"""Pipelines: declared, trained task by task, resumed, decoded in three ways."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

import fstcrf
from fstcrf import CRF, Corpus, Grammar
from fstcrf.constraints import at_most
from fstcrf.errors import (
    DataError,
    FstcrfError,
    GrammarError,
    LabelError,
    ModelFileError,
    NoPathError,
    OptionError,
    TemplateError,
)
from fstcrf.ext.pipelines.trained import Decode, Folder, Manifest
from fstcrf.taggers.pipelines import Pipeline, Task, TrainedPipeline, load_pipeline, read_pipeline
from fstcrf.training import Gold, Reads
from tests.support.interrupts import interrupt_at

WORDS = ["a", "b", "c", "d", "e", "f"]
A = "U:%x[0,word]\nB\n"
B = "U1:%y[0,a]\nU2:%x[-1,word]\nB\n"
C = "U1:%y[0,b]/%x[0,word]\nU2:%y[0,a]\nB\n"
DECODES: tuple[Decode, ...] = ("cascade", "joint", "marginals")


def sentences(seed: int, n: int = 15) -> Corpus:
    rng = np.random.default_rng(seed)
    names = {"a": 3, "b": 2, "c": 2}
    rows: list[dict[str, list[str]]] = []
    for _ in range(n):
        words = rng.integers(6, size=4)
        found = {"word": [WORDS[i] for i in words]}
        for name, size in names.items():
            noise = rng.random(4) < 0.2
            labels = np.where(noise, rng.integers(size, size=4), words % size)
            found[name] = [f"{name.upper()}{i}" for i in labels]
        rows.append(found)
    return Corpus.from_sentences(rows)


def only(corpus: Corpus, *names: str) -> Corpus:
    return Corpus({name: corpus.columns[name] for name in names}, corpus.offsets)


def tasks() -> list[Task]:
    """Three tasks, each with a text of its own that lacks the labels of the others."""
    return [
        Task("c", only(sentences(3), "word", "c"), C, reads=["a", "b"]),
        Task("a", only(sentences(1), "word", "a"), A),
        Task("b", only(sentences(2), "word", "b"), B, reads=["a"]),
    ]


@pytest.fixture(scope="module")
def trained() -> TrainedPipeline:
    return Pipeline(tasks(), normalize="product").train()


TEST = only(sentences(9, 6), "word")


def test_tasks_are_trained_in_the_order_of_reading(trained: TrainedPipeline) -> None:
    assert trained.tapes == ("a", "b", "c")
    assert repr(trained) == "<TrainedPipeline: a → b → c; cascade>"
    by_hand = CRF.train(only(sentences(1), "word", "a"), "a", A)
    after = CRF.train(only(sentences(2), "word", "b"), "b", B, reads=[by_hand])
    assert np.array_equal(trained["b"].theta, after.theta)
    with pytest.raises(OptionError, match="no task 'x'; the tasks are a, b, c"):
        trained["x"]


def test_a_joint_decision_by_the_chain_rule(trained: TrainedPipeline) -> None:
    chain = dataclasses.replace(
        trained, composition=fstcrf.compose(*trained.taggers, normalize="chain"), decoder="joint"
    )
    best, second = chain.nbest_all(TEST[:1], 2)[0]
    assert best.probability >= second.probability
    with pytest.raises(OptionError, match="no marginals in closed form"):
        chain.marginals_all(TEST)


def test_weights_count_in_joint_decisions(trained: TrainedPipeline) -> None:
    bound = trained.constrained(at_most(1, "C1", tape="c"))
    weighted = bound.with_weights(1, 0.5, 0.5)
    assert weighted.tag_all(TEST) == weighted.tag_all(TEST, decode="joint")
    for decode in ("cascade", "marginals"):
        assert weighted.tag_all(TEST, decode=decode) == bound.tag_all(TEST, decode=decode)
    assert trained.with_weights(1, 0.5, 0.5).tag_all(TEST) == trained.tag_all(TEST)
    tuned = trained.tuned(sentences(10, 8), grid=[0.5, 1.0])
    assert tuned.composition.weights[0] == 1.0


@pytest.mark.parametrize("decode", ["cascade", "marginals"])
def test_a_cascade_under_a_grammar_of_several_tasks_is_refused_first(
    decode: Decode, told: list[str]
) -> None:
    """Before anything is trained."""
    grammar = Grammar.from_text('tape a, b; export PAIR = (any - "[a=A1 b=B1]")*;')
    with pytest.raises(OptionError, match=r"PAIR reads several tapes, a, b, .*decode='joint'"):
        Pipeline(tasks(), decode=decode, grammar=grammar).train(told=told.append)
    assert told == []


# --- Folders ----------------------------------------------------------------------------------


@pytest.fixture
def told() -> list[str]:
    """What a pipeline says of its tasks."""
    return []


def test_finished_tasks_are_not_trained_again(tmp_path: Path, told: list[str]) -> None:
    first = Pipeline(tasks(), decode="marginals").train(tmp_path, told=told.append)
    assert [line.split(": training")[0] for line in told[::2]] == ["a", "b", "c"]
    assert [line.split(" (")[0].split()[-1] for line in told[1::2]] == ["iterations"] * 3
    again = Pipeline(tasks(), decode="marginals").train(tmp_path, told=told.append)
    assert told[6:] == ["a: finished before", "b: finished before", "c: finished before"]
    loaded = load_pipeline(tmp_path)
    assert loaded.decoder == "marginals"
    assert first.tag_all(TEST) == again.tag_all(TEST) == loaded.tag_all(TEST)


@pytest.mark.thorough
def test_what_a_change_decides_is_trained_again(tmp_path: Path, told: list[str]) -> None:
    Pipeline(tasks()).train(tmp_path)
    changed = tasks()
    changed[2] = dataclasses.replace(changed[2], options={"l2": 2.0})
    found = Pipeline(changed).train(tmp_path, told=told.append)
    assert [line.split(":")[0] for line in told if "training" in line] == ["b", "c"]
    assert np.array_equal(found["c"].theta, Pipeline(changed).train()["c"].theta)


def test_an_interrupted_run_goes_on_where_it_was(tmp_path: Path, told: list[str]) -> None:
    with pytest.raises(KeyboardInterrupt):
        Pipeline(tasks()).train(tmp_path, report=interrupt_at(3, "b"))
    with pytest.raises(ModelFileError, match="the pipeline is not finished, only a trained so far"):
        load_pipeline(tmp_path)
    found = Pipeline(tasks()).train(tmp_path, told=told.append)
    assert told[:2] == ["a: finished before", "b: training on 15 sentences, on from iteration 3"]
    assert np.array_equal(found["c"].theta, Pipeline(tasks()).train()["c"].theta)
    assert not list(tmp_path.glob("*.checkpoint*"))


def test_what_a_changed_task_loses_is_said(tmp_path: Path) -> None:
    interrupt = interrupt_at(3, "a")

    def told_of(l2: float, report: Any = None) -> list[str]:
        told: list[str] = []
        try:
            one = Task("a", sentences(1), A, options={"l2": l2})
            Pipeline([one]).train(tmp_path, report=report, told=told.append)
        except KeyboardInterrupt:
            told.append("interrupted")
        return told

    assert told_of(1.0, interrupt) == ["a: training on 15 sentences", "interrupted"]
    assert told_of(2.0)[0] == "a: its data or options have changed: the state so far is dropped"
    before = (tmp_path / "a.fstcrf").read_bytes()
    (line, _) = told_of(3.0, interrupt)
    place = tmp_path / "a.fstcrf"
    assert line == (
        "a: training on 15 sentences, to replace the tagger that other data or options made, "
        f"{place}"
    )
    assert place.read_bytes() == before


def test_the_state_of_a_finished_task_does_not_stay(tmp_path: Path) -> None:
    Pipeline(tasks()).train(tmp_path)
    for ending in ("checkpoint", "checkpoint.of"):  # as if killed before they were removed
        (tmp_path / f"b.{ending}").write_text("")
    Pipeline(tasks()).train(tmp_path)
    assert not list(tmp_path.glob("*.checkpoint*"))


def test_a_tagger_is_never_taken_for_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trained: TrainedPipeline
) -> None:
    folder = Folder(tmp_path)
    folder.keep("a", "first", trained["a"])
    assert folder.finished("a", "first") is not None
    write = Folder._write

    def interrupt(self: Folder, manifest: Manifest) -> None:
        if "a" in manifest.tasks:
            raise KeyboardInterrupt
        write(self, manifest)

    monkeypatch.setattr(Folder, "_write", interrupt)
    with pytest.raises(KeyboardInterrupt):
        folder.keep("a", "second", trained["b"])
    assert folder.finished("a", "first") is None
    assert folder.finished("a", "second") is None


@pytest.mark.parametrize(
    "manifest",
    [
        b'{"format": "other"}',
        b'{"format": "fstcrf-pipeline", "tasks": {"\xff": "a"}}',
        b'{"tasks": ' + b"[" * 100_000,
    ],
    ids=["other", "not UTF-8", "deep"],
)
def test_a_damaged_folder_is_refused(tmp_path: Path, manifest: bytes) -> None:
    (tmp_path / "pipeline.json").write_bytes(manifest)
    with pytest.raises(ModelFileError, match="not a file of a pipeline"):
        Pipeline(tasks()).train(tmp_path)


# --- What is wrong ----------------------------------------------------------------------------


def test_a_circle_is_named() -> None:
    wrong = [
        Task("a", TEST, "U:%y[0,b]\nB\n", reads=["b"]),
        Task("b", TEST, "U:%y[0,a]\nB\n", reads=["a"]),
        Task("c", TEST, "U:%y[0,a]\nB\n", reads=["a"]),
    ]
    with pytest.raises(OptionError, match="read each other in a cycle: a ← b ← a"):
        Pipeline(wrong)


ONE = Task("a", TEST, A)
ODD_TASKS: list[tuple[Any, str]] = [
    (lambda: Pipeline([Task("b", TEST, B, reads=["a"])]), "'b' reads 'a', which is not in the pi"),
    (lambda: Task("b", TEST, B), "task 'b': .*reads the labels of 'a', and reads= lacks"),
    (lambda: Task("a", TEST, A, reads=["z"]), r"task 'a': reads= has .* 'z', .* add %y\[0,z\]"),
    (lambda: Pipeline([ONE, ONE]), "two tasks are called 'a'"),
    (lambda: Task("a", TEST, A, options={"l3": 1}), "task 'a': unknown training option 'l3'"),
    (lambda: Task("../a", TEST, A), "which cannot be part of a file name"),
    (lambda: Pipeline([ONE], decode="both"), "decode is 'both'"),  # type: ignore[arg-type]
    (lambda: Pipeline([]), "the pipeline is empty"),
    (lambda: Pipeline([ONE, 3]), "tasks has 3, expected a Task or a CRF"),  # type: ignore[list-item]
    (lambda: Pipeline(ONE), "tasks is a Task, expected a list of tasks"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("make", "message"), ODD_TASKS)
def test_tasks_that_do_not_go_together(make: Any, message: str) -> None:
    with pytest.raises((OptionError, TemplateError), match=message):
        make()


SPANS = Corpus.from_sentences([{"word": ["a", "b"], "a": ["I-X", "O"], "b": ["B-Y", "I-Y"]}] * 3)
OTHER = SPANS.with_column("a", [["B-X", "I-X"]] * 3)
FIRST, FOLD = Task("a", sentences(1), A), {"jackknife": 2}
ODD = sentences(2).with_column("a", [["A0", "A1", "A2", "ZZ"]] * len(sentences(2)))
RENAMED = sentences(2).renamed({"word": "form"})
READER = "U1:%y[0,a]\nB\n"


def task_b(corpus: Corpus, template: str = B, **more: Any) -> Task:
    return Task("b", corpus, template, reads=["a"], **more)


LACKING: dict[str, tuple[Task, Task, str]] = {
    "its column": (FIRST, task_b(TEST), "no column 'b'"),
    "a column that it reads": (
        FIRST,
        task_b(sentences(2), B + "U3:%x[0,pos]\n"),
        "reads column 'pos'",
    ),
    "its column in held-out text": (FIRST, task_b(sentences(2), dev=TEST), "no column 'b'"),
    "a scheme": (
        Task("a", SPANS, A),
        task_b(SPANS, options={"scheme": "bioes"}),
        r"sentence 0, token 1: task 'b': 'I-Y' after 'B-Y' is no",
    ),
    "a scheme at the start": (
        Task("a", SPANS, A),
        task_b(SPANS, options={"scheme": "iob1"}),
        "token 0: task 'b': 'B-Y' after the start is no iob1",
    ),
    "gold labels of the other": (
        Task("a", only(sentences(1), "word", "a"), A),
        task_b(only(sentences(2), "word", "b"), options=FOLD),
        "'b': jackknife trains 'a' again, on column 'a'; the col",
    ),
    "a scheme of gold labels": (
        Task("a", OTHER, A, options={"scheme": "iob2"}),
        task_b(SPANS, options=FOLD),
        "token 0: task 'b': jackknife trains 'a' .*: 'I-X' after the start is no iob2",
    ),
    "a label of the other": (
        FIRST,
        task_b(ODD, options=FOLD),
        "task 'b': jackknife trains 'a' again, on column 'a', which has the label 'ZZ'; the tagger",
    ),
    "what the other reads": (
        FIRST,
        task_b(RENAMED, READER),
        "task 'b': the tagger of 'a', whose labels it reads, reads column 'word', but this",
    ),
    "what the other reads, in held-out text": (
        FIRST,
        task_b(sentences(2), READER, dev=RENAMED),
        "task 'b': the tagger of 'a', whose labels it reads, reads column 'word', but this",
    ),
}


@pytest.mark.parametrize("finished", [False, True])
@pytest.mark.parametrize(("first", "task", "message"), LACKING.values(), ids=LACKING)
def test_what_is_lacking_is_said_before_anything_is_trained(
    first: Task, task: Task, message: str, finished: bool, told: list[str]
) -> None:
    """Whether the tagger that is read is a task, or there already."""
    earlier = Pipeline([first]).train()["a"] if finished else first
    with pytest.raises(FstcrfError, match=message):
        Pipeline([earlier, task]).train(told=told.append)
    assert told == []


def test_a_scheme_that_all_labels_have(told: list[str]) -> None:
    Pipeline([Task("a", SPANS, A), task_b(SPANS, options={"scheme": "iob2"})]).train(
        told=told.append
    )
    assert len(told) == 4


def test_taggers_that_cannot_be_read() -> None:
    literal = CRF.train([[["x"]]], [["A0"]], tape="a", max_iterations=1)
    with pytest.raises(OptionError, match="the tagger of 'a' reads attributes, expected columns"):
        Pipeline([literal, task_b(sentences(2), READER)]).train()
    tagger = Pipeline([FIRST]).train()["a"]
    message = "the tagger of tape 'a' again, on column 'a', which has the label 'ZZ'; the tagger"
    with pytest.raises(LabelError, match=message):
        CRF.train(ODD, "b", B, reads=Reads([tagger], jackknife=2))


def test_a_grammar_is_looked_at_before_anything_is_trained(told: list[str]) -> None:
    for grammar in (at_most(1, "A9", tape="a"), at_most(1, "A1", tape="z")):
        with pytest.raises(GrammarError):
            Pipeline(tasks(), grammar=grammar).train(told=told.append)
    assert told == []
    with pytest.raises(OptionError, match="grammar is 'x', expected a Grammar"):
        Pipeline(tasks(), grammar="x")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="normalize is 'foo', expected 'product' or 'chain'"):
        Pipeline(tasks(), normalize="foo")  # type: ignore[arg-type]


@pytest.mark.parametrize("decode", DECODES)
def test_how_sure_has_no_known_labels(trained: TrainedPipeline, decode: Decode) -> None:
    with pytest.raises(OptionError, match="no option 'forced', expected method, n, samples, level"):
        trained.confidence_all(TEST, decode=decode, forced=[None] * len(TEST))


def test_labels_that_the_predecessor_does_not_have(trained: TrainedPipeline) -> None:
    data = sentences(1)
    fewer = data.with_column("a", [["A0", "A1", "A0", "A1"]] * len(data))
    other = CRF.train(fewer, "a", A)
    with pytest.raises(OptionError, match="'b' reads the label 'A2' of 'a', whose tagger has"):
        Pipeline([other, trained["b"]])


def test_an_option_without_anything_to_read_is_refused() -> None:
    with pytest.raises(OptionError, match="passing is for the taggers of reads="):
        CRF.train(sentences(1), "a", A, reads=Reads(passing="marginals"))
    with pytest.raises(OptionError, match="candidates needs passing 'nbest'"):
        CRF.train(sentences(1), "a", A, reads=Reads(candidates=3))
    for options in ({"jackknife": 2}, {"passing": "nbest"}):
        name = next(iter(options))
        with pytest.raises(OptionError, match=f"task 'a': {name} is for the taggers of reads="):
            Task("a", TEST, A, options=options)
    Task("a", TEST, A, options={"passing": "best", "jackknife": None})


def test_schemes_that_there_are_not_are_refused() -> None:
    with pytest.raises(OptionError, match="task 'a': scheme 'bogus', expected one of iob1, iob2"):
        Task("a", TEST, A, options={"scheme": "bogus"})
    with pytest.raises(OptionError, match=r"^scheme 'bogus', expected one of iob1, iob2"):
        CRF.train(sentences(1), "a", A, scheme="bogus")
    Task("a", TEST, A, options={"scheme": "observed"})


def test_grammars_and_class_weights_of_a_task(tmp_path: Path, told: list[str]) -> None:
    rare = at_most(1, "A1")
    hard = Task("a", only(legal(sentences(1)), "word", "a"), A, grammar=rare)
    found = Pipeline([hard]).train(tmp_path, told=told.append)
    assert all(labels.count("A1") <= 1 for labels in found.tag_all(TEST))
    weighted = dataclasses.replace(hard, class_weights={"A2": 5.0})
    for task in (hard, weighted, dataclasses.replace(hard, grammar=at_most(2, "A1"))):
        Pipeline([task]).train(tmp_path, told=told.append)
    known = [line.split()[1] for line in told if "iterations" not in line]
    assert known == ["training", "finished", "training", "training"]
    by_hand = CRF.train(hard.corpus, Gold("a", class_weights={"A2": 5.0}), A, grammar=rare)
    assert np.array_equal(Pipeline([weighted]).train()["a"].theta, by_hand.theta)


def legal(corpus: Corpus) -> Corpus:
    """The sentences with one A1 at most."""
    labels = corpus.column_lists("a")
    return corpus.select([k for k, row in enumerate(labels) if row.count("A1") <= 1])


def test_what_does_not_go_with_a_task() -> None:
    for task, message in (
        (Task("a", sentences(1), A, class_weights={"X": 1}), "class_weights has 'X'; the labels"),
        (Task("a", sentences(1), A, grammar=at_most(1, "X9")), "task 'a': .*X9"),
    ):
        with pytest.raises(FstcrfError, match=message):
            Pipeline([task]).train()
    with pytest.raises(OptionError, match="task 'a': grammar is 'bio', expected a Grammar"):
        Task("a", TEST, A, grammar="bio")  # type: ignore[arg-type]
    hard = Task("a", sentences(1), A, grammar=at_most(4, "A1"))
    again = Task("b", sentences(2), B, reads=["a"], options={"jackknife": 2})
    with pytest.raises(OptionError, match=r"'b': jackknife trains 'a' .* cannot: it is trained"):
        Pipeline([hard, again]).train()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"passing": "all"}, "task 'a': passing is 'all', expected one of 'best', 'nbest', 'marg"),
        ({"method": "x"}, "method is 'x', expected one of 'lbfgs', 'cg'"),
        ({"l2": "a"}, "l2 is 'a', expected a number"),
        ({"jackknife": 2.5}, "jackknife is 2.5, expected a whole number"),
        ({"ends": 1}, "ends is 1, expected true or false"),
        ({"scheme": 3}, "scheme is 3, expected a text"),
        ({"methods": 1}, "unknown training option 'methods'; did you mean 'method'"),
        ({"xyzzy": 1}, "unknown training option 'xyzzy'; there are objective, method, order"),
    ],
)
def test_options_say_what_they_may_be(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        Task("a", TEST, A, options=options)


# --- TOML -------------------------------------------------------------------------------------


def declared(folder: Path, text: str) -> Path:
    for seed, name in enumerate("abc", 1):
        corpus = only(sentences(seed), "word", name)
        fstcrf.write_columns(corpus, folder / f"{name}.txt")
    for name, template in zip("abc", (A, B, C), strict=True):
        (folder / f"{name}.tpl").write_text(template)
    path = folder / "pipeline.toml"
    path.write_text(text)
    return path


GOOD = """
decode = "joint"

[task.c]
data = ["c.txt"]
columns = ["word", "c"]
template = "c.tpl"
reads = ["a", "b"]
weight = 0.5

[task.a]
data = "a.txt"
columns = ["word", "a"]
template = "a.tpl"

[task.b]
data = ["b.txt"]
columns = ["word", "b"]
template = "b.tpl"
reads = ["a"]
l2 = 0.25
"""


def test_a_pipeline_from_toml(tmp_path: Path) -> None:
    found = read_pipeline(declared(tmp_path, GOOD)).train(tmp_path / "out")
    assert found.decoder == "joint"
    assert found.composition.weights == (1.0, 1.0, 0.5)
    record = found["b"].record
    assert record is not None
    assert record.options["l2"] == 0.25
    assert json.loads((tmp_path / "out" / "pipeline.json").read_text())["finished"] is True


JOINT, L2 = 'decode = "joint"', "l2 = 0.25"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (JOINT, "decode = ", "not valid TOML"),
        (JOINT, 'decoding = "joint"', "the file has 'decoding'"),
        (JOINT, 'decode = "both"', "toml: decode is 'both'"),
        (JOINT, 'normalize = "sum"', "normalize is 'sum'"),
        ('template = "a.tpl"\n', "", r"\[task.a\] has no template"),
        ('columns = ["word", "a"]\n', "", r"\[task.a\] has no columns"),
        ("weight = 0.5", 'weight = "half"', r"\[task.c\] weight is 'half'"),
        (L2, 'target = "z"', "toml: task 'b': .*b.txt: no column 'z'"),
        (L2, 'dev = "nix.txt"', r"toml: \[task.b\]: .*nix.txt: No such file"),
        (
            'template = "a.tpl"',
            'template = "nix.tpl"',
            r"toml: \[task.a\]: .*nix.tpl: No such file",
        ),
        (JOINT, 'grammar = "nix.grm"', "toml: grammar: .*nix.grm: No such file"),
        (JOINT, 'grammar = "nix"', "toml: grammar: .*nix"),
        (
            'columns = ["word", "a"]',
            'columns = ["a"]',
            r"\[task.a\]: .*a.txt:1: 2 columns, expected 1",
        ),
        (L2, 'separator = "tab"', r"\[task.b\]: .*b.txt:1: 1 columns, expected 2"),
        (L2, "separator = true", r"\[task.b\] separator is True, expected a text"),
        (L2, "dev = [3]", r"\[task.b\] dev is \[3\], expected a text, or a list"),
        ('data = "a.txt"', "data = []", r"\[task.a\] data names no file"),
        (L2, 'passing = "all"', "task 'b': passing is 'all', expected one of 'best', "),
        (L2, 'class_weight = "x"', r"\[task.b\] has 'class_weight'; did you mean 'class_w"),
        (L2, "class_weights = 3", r"\[task.b\] class_weights is 3, expected names and num"),
        (L2, 'rename = {x = "y"}', r"\[task.b\] rename is for CoNLL-U"),
        (L2, 'format = "xml"', r"\[task.b\] format is 'xml', expected 'columns' or 'conllu'"),
        (L2, 'grammar = "b=bio"', r"\[task.b\] grammar is 'b=bio', but there is no task 'b'"),
        (L2, 'model = "b.fstcrf"', r"\[task.b\] has 'columns'; there are model"),
        (JOINT, 'grammar = ["c=nix"]', "toml: grammar: .*'nix'"),
        (JOINT, 'grammar = ["x=bio"]', "no task 'x' here; the tasks are c, a, b"),
        (L2, "l2 = -1", "l2"),
        (GOOD, "task = 3", r"there is no \[task.NAME\]"),
        (L2, "l3 = 0.25", r"\[task.b\] has 'l3'; did you mean 'l2' or 'l1'"),
        ('reads = ["a"]', 'reads = ["z"]', "'b' reads 'z', which is not in the pipeline"),
        ('reads = ["a"]', "reads = 3", r"\[task.b\] reads is 3"),
        ('reads = ["a"]', 'reads = ["c"]', "toml: tasks read each other in a cycle: c ← b ← c"),
    ],
)
def test_bad_toml_is_refused(tmp_path: Path, old: str, new: str, message: str) -> None:
    """One rule for what is raised, and so for the exit status: a wrong file is no wrong usage."""
    path = declared(tmp_path, GOOD.replace(old, new, 1))
    kind = DataError if "txt" in message or "nix" in message else OptionError
    with pytest.raises(kind, match=message):
        read_pipeline(path)


def test_grammars_in_toml(tmp_path: Path) -> None:
    path = declared(
        tmp_path,
        'grammar = ["c=one.grm", "two.grm"]\n'
        + GOOD.replace("l2 = 0.25", 'grammar = "hard.grm"\nclass_weights = {B1 = 2.0}', 1),
    )
    (tmp_path / "one.grm").write_text('export ONE = at_most[1, "C1"];\n')
    (tmp_path / "two.grm").write_text('tape a;\nexport TWO = at_most[1, "A1"];\n')
    (tmp_path / "hard.grm").write_text('export HARD = at_most[4, "B1"];\n')
    found = read_pipeline(path).train()
    for a, _, c in found.tag_all(TEST):
        assert a.count("A1") <= 1
        assert c.count("C1") <= 1
    record = found["b"].record
    assert record is not None
    assert record.grammar is not None
    assert record.class_weights == {"B1": 2.0}


def test_a_tagger_in_toml(tmp_path: Path, trained: TrainedPipeline, told: list[str]) -> None:
    trained["a"].save(tmp_path / "other.fstcrf")
    old = 'data = "a.txt"\ncolumns = ["word", "a"]\ntemplate = "a.tpl"\n'
    path = declared(tmp_path, GOOD.replace(old, 'model = "other.fstcrf"\n'))
    found = read_pipeline(path).train(told=told.append)
    assert told[0] == "a: trained already"
    assert np.array_equal(found["a"].theta, trained["a"].theta)
    for wrong in ("a.txt", "nix.fstcrf"):
        path.write_text(GOOD.replace(old, f'model = "{wrong}"\n'))
        with pytest.raises(DataError, match=rf"toml: \[task.a\]: .*{wrong}"):
            read_pipeline(path)
    trained["b"].save(tmp_path / "reads.fstcrf")
    path.write_text('[task.b]\nmodel = "reads.fstcrf"\n')
    with pytest.raises(OptionError, match="'b' reads 'a', which is not in the pipeline"):
        read_pipeline(path)


CONLLU = """\
1\tWe\twe\tPRON\tPRP\tNumber=Plur\t2\tnsubj\t_\t_
2\tgo\tgo\tVERB\tVBP\t_\t0\troot\t_\t_

1\tHe\the\tPRON\tPRP\tNumber=Sing\t2\tnsubj\t_\t_
2\truns\trun\tVERB\tVBZ\t_\t0\troot\t_\t_

"""
MIXED = """
[task.upos]
data = "text.ud"
format = "conllu"
rename = {form = "word"}
feature_columns = ["Number"]
template = "upos.tpl"

[task.b]
data = "b.txt"
columns = ["word", "b"]
template = "reader.tpl"
reads = ["upos"]
"""


def mixed(folder: Path, text: str = MIXED) -> Path:
    """A task on CoNLL-U, and one on a column file that reads its labels."""
    path = declared(folder, text)
    (folder / "text.ud").write_text(CONLLU)
    (folder / "upos.tpl").write_text("U:%x[0,word]\nB\n")
    (folder / "reader.tpl").write_text("U:%y[0,upos]/%x[0,word]\nB\n")
    return path


def test_columns_of_conllu_have_other_names(tmp_path: Path) -> None:
    found = read_pipeline(mixed(tmp_path)).train()
    assert found["upos"].columns[:2] == ("id", "word")
    assert found["upos"].columns[-1] == "Number"
    assert found.tag({"word": ["We", "go"]})[0] == ["PRON", "VERB"]
    for old, new, message in (
        ("{form", "{forms", r"\[task.upos\] rename has 'forms'; the columns are id, form"),
        ('"word"}', '"lemma"}', r"\[task.upos\]: two columns would be called 'lemma'"),
        ('{form = "word"}', "3", r"\[task.upos\] rename is 3, expected names by name"),
    ):
        with pytest.raises(OptionError, match=message):
            read_pipeline(mixed(tmp_path, MIXED.replace(old, new)))


@pytest.mark.parametrize("columns", [False, True])
def test_a_cascade_with_labels_known_and_added(trained: TrainedPipeline, columns: bool) -> None:
    """Each tagger by hand, given the labels of those before it."""
    corpus, bias = TEST, {"a": {"A1": 0.5}, "c": {"C0": -1.0}}
    known: dict[str, list[list[str | None]]] = {name: [[None] * 4 for _ in TEST] for name in "ab"}
    for b in range(len(TEST)):
        known["a"][b][b % 4], known["b"][b][1] = "A0|A2", "B1"
    forced: Any = [{name: rows[b] for name, rows in known.items()} for b in range(len(TEST))]
    if columns:
        for name, rows in known.items():
            strings = [[x or "_" for x in row] for row in rows]
            corpus = corpus.with_column(f"known {name}", strings)
        forced = {name: f"known {name}" for name in known}
    found = trained.decode(corpus, forced=forced, bias=bias)
    log = np.zeros(len(TEST))
    for name in "abc":
        options: Any = {"forced": known.get(name), "bias": bias.get(name)}
        mine = trained[name].decode(corpus, **options)
        log += np.log(mine.probabilities)
        assert found[name].labels() == mine.labels()
        tables = trained[name].marginals_all(corpus, **options)
        for table, wanted in zip(found.marginals(name), tables, strict=True):
            assert np.allclose(table, wanted)
        corpus = corpus.with_interned(name, mine.column())
    assert np.allclose(found.scores, log)
    assert np.allclose(found.probabilities, np.exp(log))
    several = trained.decode(corpus, forced=forced, bias=bias, n=3)
    assert np.allclose(several.scores[:, 0], log)
    assert (several["b"].flat[:, 1::4] == 1).all()


@pytest.mark.parametrize("decode", ["cascade", "marginals"])
def test_a_sentence_without_a_path_in_a_cascade(decode: Decode) -> None:
    data = sentences(1).with_column("a", [["B-X", "I-X", "O", "O"]] * 15)
    strict = CRF.train(data, "a", "U:%x[0,word]\nB\n", scheme="iob2", max_iterations=3)
    reader = CRF.train(data, "b", B, reads=[strict], max_iterations=3)
    model = TrainedPipeline(fstcrf.compose(strict, reader), decode)
    known: Any = [None, {"a": ["O", "I-X", None, None]}, {"b": ["B1", None, None, None]}]
    with pytest.raises(NoPathError, match=r"^sentence 1, token 1: the labels forced by tape 'a' "):
        model.decode(TEST[:3], forced=known)
    skipped = model.decode(TEST[:3], forced=known, on_no_path="skip", n=2)
    assert skipped.dead.tolist() == [False, True, False]
    assert skipped.marginals("b")[1].tolist() == [[0.0, 0.0]] * 4
    free = model.decode(TEST[:3], forced=known, on_no_path="relax", n=2)
    assert free.changed.tolist() == ["", "forced", ""]
    alone = model.decode(TEST[:3], n=2)
    assert model.nbest_all(TEST[:3], 2, forced=known) == [skipped.paths(b) for b in range(3)]
    relaxed = model.nbest_all(TEST[:3], 2, forced=known, on_no_path="relax")
    assert relaxed == [free.paths(b) for b in range(3)]
    with pytest.raises(NoPathError, match=r"^sentence 1, token 1"):
        model.paths_all(TEST[:3], forced=known, on_no_path="error")
    assert free.paths(1) == alone.paths(1)
    assert free.paths(2) == skipped.paths(2)
    assert np.array_equal(free.marginals("b")[1], alone.marginals("b")[1])


@pytest.mark.filterwarnings("ignore::fstcrf.errors.InexactWarning")
def test_product_and_chain_without_composing_again(trained: TrainedPipeline) -> None:
    ways: tuple[Literal["product", "chain"], ...] = ("product", "chain")
    for name in ways:
        other = fstcrf.compose(*trained.taggers, normalize=name)
        assert trained.tag_all(TEST, decode=name) == other.tag_all(TEST)
    for tapes in (["c"], ["a", "c"]):
        product = trained.decode(TEST, decode="product", tapes=tapes, n=2)
        assert product.tapes == tuple(tapes)
        assert len({path.labels for path in product.paths(0)}) == 2
