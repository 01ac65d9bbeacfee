"""A tagger with a feature function has the answers of attribute lists, through every door."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import fstcrf
from fstcrf import CRF, Corpus, Sentence
from fstcrf.constraints import at_most
from fstcrf.errors import FstcrfError
from fstcrf.ext.calibration import fit_temperature, label_events, lattices_of
from fstcrf.ext.documents import Annealing, Consistency, DocumentTagger, Violation
from fstcrf.ext.foreign.conversion import written
from fstcrf.ext.inspect.workbench import Workbench
from fstcrf.ext.report import analyse
from fstcrf.ext.rules import learn_rules, train_with_rules
from fstcrf.ext.tune.weights import tune_weights
from fstcrf.taggers.pipelines import Pipeline, Task, load_pipeline
from fstcrf.text.features import FeatureIndex, FunctionIndex, LiteralIndex
from fstcrf.training import Chain, Features
from tests.laws.test_feature_functions import CORPUS, TEXT, TRAIN, of_words, pair, segments, shapes
from tests.support.command import failure
from tests.support.pattern_models import wapiti

WORDS: list[Any] = of_words(TEXT)
TEMPLATE = "U:%x[0,word]\nB\n"
OPTIONS: dict[str, Any] = {"max_iterations": 8}


def by_hand(sentences: list[Any], function: Any = shapes) -> list[Any]:
    """Call the function as users of python-crfsuite do."""
    return [function(Sentence(sentence)) for sentence in sentences]


COMPUTED, GIVEN = pair(shapes, 0)
EXPECTED = GIVEN.tag_all(by_hand(WORDS))


# --- One tagger -----------------------------------------------------------------------------------


def plain() -> CRF:
    """A tagger over attribute lists with all transitions, which every format can hold."""
    labels = [sentence["pos"] for sentence in TRAIN]
    return CRF.train(by_hand(TRAIN), labels, structure=Chain(transitions="all"), **OPTIONS)


def file(folder: Path, tagger: Any) -> Path:
    tagger.save(folder / "model")
    return folder / "model"


def foreign(folder: Path, kind: Any) -> Path:
    (folder / "model").write_bytes(written(plain(), kind))
    return folder / "model"


def pipeline(folder: Path) -> Path:
    task = Task("pos", CORPUS, features=shapes, options=OPTIONS)
    Pipeline([task]).train(folder / "pipeline")
    return folder / "pipeline"


Door = Callable[[Path], Any]
DOORS: dict[str, Door] = {
    "trained": lambda _: COMPUTED,
    "trained by train": lambda _: fstcrf.train(CORPUS, "pos", shapes, **OPTIONS),
    "given a function": lambda _: GIVEN.with_features(shapes),
    "saved": lambda folder: fstcrf.load(file(folder, COMPUTED), features=shapes),
    "saved without one": lambda folder: fstcrf.load(file(folder, GIVEN), features=shapes),
    "mapped": lambda folder: fstcrf.load(file(folder, COMPUTED), mmap=True, features=shapes),
    "CRF.load": lambda folder: CRF.load(file(folder, COMPUTED), features={"pos": shapes}),
    "pickled": lambda _: pickle.loads(pickle.dumps(COMPUTED)),
    "copied": lambda _: copy.deepcopy(COMPUTED),
    "a pipeline": lambda folder: load_pipeline(pipeline(folder), features=shapes),
    "a pipeline, by load": lambda folder: fstcrf.load(pipeline(folder), features={"pos": shapes}),
    "a pipeline of a tagger": lambda _: Pipeline([COMPUTED]).train(),
    "under a grammar": lambda _: COMPUTED & at_most(99, "N"),
}


@pytest.mark.parametrize("door", DOORS)
def test_answers_are_those_of_attribute_lists(door: str, tmp_path: Path) -> None:
    tagger = DOORS[door](tmp_path)
    assert tagger.tag_all(WORDS) == EXPECTED
    corpus = Corpus.from_sentences(WORDS)
    assert tagger.tag_all(corpus) == EXPECTED
    assert [tagger.tag(sentence) for sentence in WORDS] == EXPECTED


# --- Models of other programs ---------------------------------------------------------------------


def of_wapiti() -> bytes:
    weights = {f"u{word}".encode(): [1.0, -0.5, i / 4, 0.0] for i, word in enumerate("acdiors")}
    return wapiti([b"D", b"N", b"P", b"V"], [], weights)


def letters(sentence: Sentence) -> list[list[str]]:
    return [[f"u{letter}" for letter in word] for word in sentence["word"]]


IMPORTED: dict[str, tuple[Callable[[], bytes], Any, Callable[..., CRF]]] = {
    "load_crfsuite": (lambda: written(plain(), "crfsuite"), shapes, fstcrf.load_crfsuite),
    "a file of CRFsuite": (lambda: written(plain(), "crfsuite"), shapes, fstcrf.load),
    "load_wapiti": (of_wapiti, letters, fstcrf.load_wapiti),
    "a file of Wapiti": (of_wapiti, letters, fstcrf.load),
}


@pytest.mark.parametrize("case", IMPORTED)
def test_imported_models_answer_as_without_a_function(case: str, tmp_path: Path) -> None:
    make, function, load = IMPORTED[case]
    path = tmp_path / "model"
    path.write_bytes(make())
    expected = load(path).tag_all(by_hand(WORDS, function))
    tagger = load(path, features=function)
    assert tagger.tag_all(WORDS) == expected
    tape = tagger.tape
    both: Any = fstcrf.compose(tagger, CRF.train(CORPUS, "chunk", TEMPLATE, **OPTIONS))
    for together in (both, both & at_most(99, "N", tape=tape), tagger @ segments()):
        together.save(tmp_path / "saved")
        again: Any = fstcrf.load(tmp_path / "saved", features={tape: function})
        assert [labels[0] for labels in again.tag_all(WORDS)] == expected
    with pytest.raises(FstcrfError, match=r"load it in Python with features=\{'?") as caught:
        fstcrf.load(file(tmp_path, both @ tagger.renamed("other")))
    assert "\n" not in str(caught.value)


# --- What is built on taggers ---------------------------------------------------------------------


def alike() -> tuple[CRF, CRF]:
    """Return a tagger with a template, and one whose function computes the same attributes."""
    template = CRF.train(spans(TRAIN), "pos", TEMPLATE, **OPTIONS)
    assert isinstance(template.index, FeatureIndex)
    strings = template.index.attributes(range(template.index.n_node_rows))
    index = FunctionIndex(LiteralIndex(strings), unigrams, columns=("word",))
    return template, replace(template, index=index)


def unigrams(sentence: Sentence) -> list[list[str]]:
    return [[f"U:{word}"] for word in sentence["word"]]


def spans(sentences: list[dict[str, list[str]]]) -> Corpus:
    """Return sentences whose tags are spans of a token."""
    return Corpus.from_sentences(
        [{**s, "pos": [f"B-{tag}" for tag in s["pos"]]} for s in sentences]
    )


DEV = spans(TEXT)
RULES = 'tape pos;\nexport R = each["[B-D]" "[B-N]", <?>];\n'
CHUNKER = CRF.train(CORPUS, "chunk", "U:%x[0,word]\nU1:%x[-1,word]\nB\n", **OPTIONS)


def by_consistency(tagger: CRF) -> Any:
    same = Consistency([Violation("same", ("N", "V"), -1.0)])
    return DocumentTagger(tagger, [same], Annealing(5), seed=3).tag_all(DEV)


def seen_by_an_inspector(tagger: CRF) -> Any:
    bench = Workbench(fstcrf.compose(tagger), corpus=DEV)
    return list(bench.columns)


def analysed(tagger: CRF) -> Any:
    found = analyse(tagger, DEV, "pos", resamples=10)
    return found.found, found.accuracy, found.errors


def probable(tagger: CRF) -> Any:
    events = label_events(lattices_of(tagger, DEV), DEV.column_lists("pos"))
    return events.probability.tolist(), events.correct.tolist()


USES: dict[str, Callable[[CRF], Any]] = {
    "documents": by_consistency,
    "temperature": lambda tagger: fit_temperature(
        lattices_of(tagger, DEV), DEV.column_lists("pos")
    ),
    "probabilities": probable,
    "rules": lambda tagger: learn_rules(tagger, DEV, RULES, l2=1.0).weights,
    "rules and tagger": lambda tagger: train_with_rules(
        tagger, DEV, RULES, max_iterations=5
    ).tagger.theta.tolist(),
    "weights": lambda tagger: tune_weights(fstcrf.compose(tagger, CHUNKER), DEV).weights,
    "report": analysed,
    "inspector": seen_by_an_inspector,
    "explained": lambda tagger: [str(tagger.explain(one, 0)) for one in TEXT],
    "shown": lambda tagger: tagger.top_features(5),
    "chain rule": lambda tagger: fstcrf.compose(tagger, CHUNKER, normalize="chain").tag_all(DEV),
    "lattice": lambda tagger: [tagger.lattice(one).best().labels for one in TEXT],
    "batches": lambda tagger: tagger.tag_all(TEXT * 40, threads=3),
}


@pytest.mark.parametrize("use", USES)
def test_what_is_built_on_taggers_takes_functions_as_templates(use: str) -> None:
    template, function = alike()
    assert USES[use](function) == USES[use](template)


# --- The shell ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command", ["tag", "info", "eval", "convert", "compose", "calibrate", "report", "inspect"]
)
def test_commands_say_that_the_function_is_in_python(command: str, tmp_path: Path) -> None:
    fstcrf.write_columns(CORPUS, tmp_path / "text", list(CORPUS.columns))
    more: list[Any] = [] if command in ("info", "inspect", "convert") else [tmp_path / "text"]
    if command in ("convert", "compose", "calibrate"):
        more += ["-o", tmp_path / "out.crfsuite"]
    message = failure(command, file(tmp_path, COMPUTED), *more, status=2)
    assert "trained with the feature function tests.laws.test_feature_functions.shapes" in message
    assert "load it in Python with features=" in message


# --- One sentence and many ------------------------------------------------------------------------


def with_values(sentence: Sentence) -> list[Any]:
    """Attributes of all kinds: strings, values, zeros, nested dictionaries, and lists."""
    words = sentence["word"]
    kinds: list[Callable[[str], Any]] = [
        lambda word: {"w": word, "length": len(word) / 4, "none": 0.0, "one": 1.0},
        lambda word: {"w": word, "nested": {"first": word[:1], "value": 0.5}},
        lambda word: [f"w={word}", "bias"],
        lambda word: {"w": word, "capital": word[:1].isupper()},
    ]
    return [kinds[(len(words) + i) % 4](word) for i, word in enumerate(words)]


@pytest.mark.parametrize("hash_bits", [None, 12])
def test_a_sentence_alone_has_the_answer_of_a_batch(hash_bits: int | None) -> None:
    """Also with new words, without tokens, and when it is asked for again."""
    features = Features(with_values, hash_bits=hash_bits)
    tagger = CRF.train(CORPUS, "pos", features, **OPTIONS)
    sentences = [*WORDS, {"word": ["Quite", "new", "words"]}, {"word": []}] * 2
    together = tagger.tag_all(sentences)
    assert [tagger.tag(sentence) for sentence in sentences] == together


@pytest.mark.parametrize("entry", [5, {"w": float("nan")}, {"w": object()}])
def test_a_sentence_alone_has_the_errors_of_a_batch(entry: Any) -> None:
    tagger = COMPUTED.with_features(lambda sentence: [["bias"]] * (len(sentence) - 1) + [entry])
    with pytest.raises(FstcrfError) as alone:
        tagger.tag(WORDS[0])
    with pytest.raises(FstcrfError) as together:
        tagger.tag_all([WORDS[0]])
    assert str(alone.value) == str(together.value)
    assert "returns an entry that is not valid" in str(alone.value)
