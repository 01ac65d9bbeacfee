"""Values that are no strings, and numbers too large: errors of the package's own, one line."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fstcrf
from fstcrf.constraints import at_most, label
from fstcrf.errors import DataError, FstcrfError, OptionError, TemplateError, shortened
from fstcrf.training import Run
from tests.support.training import flat_train

TEMPLATE = "U:%x[0,word]\nU1:%x[0,lower(word)]\nB\n"
GIVEN = [{"word": ["a", "b", "c"], "y": ["B-A", "I-A", "O"]}]
TAGGER = fstcrf.CRF.train(GIVEN, "y", TEMPLATE, max_iterations=3)
LITERAL = fstcrf.CRF.train([[["a"], ["b"]]], [["A", "B"]], max_iterations=2)
SEGMENTS = fstcrf.SegmentCRF.train(GIVEN * 2, "y", "U:%x[0,word]", max_iterations=2)
GRAMMAR = fstcrf.Grammar.from_text('export x = at_most[1, "A"];')
WORDS = fstcrf.Lexicon.from_words(["a", "b"])

NO_STRINGS: list[Any] = [None, b"x", 3, 1.5, ["l"], {"a": 1}]

STRINGS: dict[str, Callable[[Any], Any]] = {
    "training, a token": lambda odd: _train({"word": ["a", odd], "y": ["O", "O"]}),
    "training, a label": lambda odd: _train({"word": ["a", "b"], "y": ["O", odd]}),
    "training, gold": lambda odd: fstcrf.CRF.train([[["a"], ["b"]]], [["A", odd]]),
    "training, an attribute": lambda odd: fstcrf.CRF.train([[["a"], [odd]]], [["A", "B"]]),
    "training of segments": lambda odd: fstcrf.SegmentCRF.train(
        [{"word": ["a", odd], "y": ["B-A", "O"]}], "y", "U:%x[0,word]", max_iterations=1
    ),
    "tagging": lambda odd: TAGGER.tag({"word": ["a", odd]}),
    "tagging many": lambda odd: TAGGER.tag_all([{"word": ["a", odd]}] * 3),
    "tagging attributes": lambda odd: LITERAL.tag([["a"], [odd]]),
    "tagging segments": lambda odd: SEGMENTS.tag_all([{"word": ["a", odd]}]),
    "n best": lambda odd: TAGGER.nbest_all([{"word": ["a", odd]}], 2),
    "a score": lambda odd: TAGGER.lattice({"word": ["a", "b"]}).score(["O", odd]),
    "a label set": lambda odd: GRAMMAR.bind(["A", "B", odd]),
    "a grammar": fstcrf.Grammar.from_text,
    "a template": fstcrf.parse_template,
    "labels of a decoder": lambda odd: fstcrf.TokenDecoder(["O", "B-X", odd], "bio"),
    "labels of scores": lambda odd: fstcrf.Lattices.from_arrays(["A", odd], np.zeros((1, 2, 2))),
    "words": lambda odd: fstcrf.Lexicon.from_words(["a", odd]),
    "a text": WORDS.lattice,
    "writing": lambda odd: fstcrf.write_columns(
        fstcrf.Corpus.from_sentences([{"word": ["a", odd]}]), Path("/dev/null")
    ),
}


def _train(sentence: dict[str, Any], **options: Any) -> fstcrf.CRF:
    return flat_train([sentence], "y", TEMPLATE, max_iterations=1, **options)


COMPOSED = fstcrf.compose(TAGGER)


@pytest.mark.parametrize("odd", [None, 3, 1.5], ids=repr)
@pytest.mark.parametrize("tagger", [TAGGER, LITERAL, COMPOSED], ids=["CRF", "literal", "composed"])
@pytest.mark.parametrize("many", [False, True])
def test_what_is_no_sentence(tagger: Any, odd: Any, many: bool) -> None:
    """A composition had answered that None has no labels."""
    asks = [tagger.tag_all, lambda s: tagger.tag_all([s]), lambda s: tagger.nbest_all([s], 2)]
    for ask in asks if many else [tagger.tag, lambda s: tagger.tag(s, forced=None, bias={"O": 1})]:
        with pytest.raises(DataError, match="expected"):
            ask(odd)


TEXTS: dict[str, Callable[[Any], Any]] = {
    "training": lambda text: fstcrf.CRF.train(text, "y", TEMPLATE),
    "training, attributes": lambda text: fstcrf.CRF.train(text, [["A", "B"]]),
    "training, labels": lambda text: fstcrf.CRF.train([[["a"], ["b"]]], text),
    "training, held-out": lambda text: fstcrf.CRF.train(GIVEN, "y", TEMPLATE, dev=text),
    "training in parts": lambda text: fstcrf.CRF.train(
        text, "y", TEMPLATE, run=Run(memory_limit=1 << 30), max_iterations=1
    ),
    "training of segments": lambda text: fstcrf.SegmentCRF.train(text, "y", "U:%x[0,word]"),
    "a corpus": fstcrf.Corpus.from_sentences,
    **{
        f"{name}, {ask}": getattr(tagger, ask)
        for name, tagger in {
            "a tagger": TAGGER, "attributes": LITERAL, "segments": SEGMENTS,
            "composed": fstcrf.compose(TAGGER),
            "chain": fstcrf.compose(TAGGER, normalize="chain"),
        }.items()
        for ask in ("tag_all", "decode", "paths_all", "marginals_all")
    },
}  # fmt: skip


@pytest.mark.parametrize("door", TEXTS)
def test_what_is_no_text(door: str) -> None:
    """Of a generator, training had left out the first sentence."""
    for odd in (None, 3, "a b", b"x", {"word": ["a"], "y": ["O"]}, {"a"}, [None], [3], iter(GIVEN)):
        if odd is None and door == "training, held-out":
            continue
        if door in ("a corpus", "training of segments") and isinstance(odd, type(iter(GIVEN))):
            continue  # it is read once
        with pytest.raises(FstcrfError) as caught:
            TEXTS[door](odd)
        assert len(str(caught.value)) <= 600


KINDS: dict[str, list[Any]] = {
    "reads": [3, "y", [3], np.zeros(2)],
    "start": [3, "y"],
    "features": [3, b"x", ["a"], np.zeros(2), {}],
    "structure": [3, "chain", Run(), Run],
    "run": [3, {"threads": 2}, Run],
    "tape": [3, ["y"], np.zeros(2)],
    "report": [3, "y"],
    "expect": [3, "y"],
    "class_weights": [3, ["O"], (), {"O": None}],
    "checkpoint_every": [1.5, "y", np.zeros(2)],
    "method": [3, ["lbfgs"], np.zeros(2)],
    "objective": [3, ["lbfgs"], np.zeros(2)],
}


@pytest.mark.parametrize("option", KINDS)
def test_options_of_training_that_are_nothing_of_the_kind(option: str) -> None:
    for odd in KINDS[option]:
        call: Any = _train
        if option in ("features", "structure", "run"):
            call = partial(fstcrf.CRF.train, target="y", features=TEMPLATE)
        data: Any = GIVEN[0] if call is _train else [GIVEN[0]]
        with pytest.raises(FstcrfError, match=option.replace("_", ".")):
            call(data, **{option: odd})


@pytest.mark.parametrize("tagger", [TAGGER, LITERAL, SEGMENTS, fstcrf.compose(TAGGER)])
def test_biases_that_are_none(tagger: Any) -> None:
    for odd in (3, ["O"], "O", np.zeros(2)):
        with pytest.raises(FstcrfError):
            tagger.decode(GIVEN if tagger is not LITERAL else [[["a"]]], bias=odd)


SAMPLERS: dict[str, Any] = {
    "a tagger": TAGGER.lattice({"word": ["a", "b"]}),
    "arrays": fstcrf.Lattices.from_arrays(["A", "B"], np.zeros((1, 2, 2))),
    "a chain": fstcrf.compose(TAGGER, normalize="chain").lattice({"word": ["a", "b"]}),
    "segments": SEGMENTS.lattice({"word": ["a", "b"]}),
    "spans": fstcrf.Lattice.from_spans(2, [(0, 1, "A", 1.0)]),
    "words": WORDS.lattice("ab"),
}
ODD_DRAWS = [(1, -1), (1, 1.5), (1, "a"), (1, None), (1.5, 0), (-1, 0)]


@pytest.mark.parametrize(("n", "seed"), ODD_DRAWS)
@pytest.mark.parametrize("door", SAMPLERS.values(), ids=SAMPLERS)
def test_samples_and_seeds_are_whole_numbers(door: Any, n: Any, seed: Any) -> None:
    with pytest.raises(OptionError):
        door.sample(n, seed=seed)
    assert len(door.sample(1, seed=2**63 - 1)) == 1


@pytest.mark.parametrize("odd", NO_STRINGS, ids=repr)
@pytest.mark.parametrize("door", STRINGS.values(), ids=STRINGS)
def test_what_is_no_string(door: Callable[[Any], Any], odd: Any) -> None:
    with pytest.raises(FstcrfError):
        door(odd)


@pytest.mark.parametrize("odd", [b"x", 3, ["l"]], ids=repr)
def test_known_labels_that_are_no_strings(odd: Any) -> None:
    with pytest.raises(FstcrfError, match="token 1: forced label"):
        TAGGER.decode([{"word": ["a", "b"]}], forced=[["O", odd]])


def test_lone_surrogates_are_refused_before_training() -> None:
    """No file could hold them: not after hours of training."""
    for sentence in (
        {"word": ["a", "\ud800"], "y": ["O", "O"]},
        {"word": ["a", "b"], "y": ["O", "\ud800"]},
    ):
        with pytest.raises(DataError, match="lone surrogate"):
            _train(sentence)
    with pytest.raises(DataError, match="lone surrogate"):
        fstcrf.CRF.train([[["a"], ["\ud800"]]], [["A", "B"]], max_iterations=1)
    with pytest.raises(DataError, match="lone surrogate"):
        fstcrf.Lexicon.from_words(["\ud800"])
    assert TAGGER.tag({"word": ["\ud800"]}) is not None  # a word like others that are unknown


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("\ud800", r"at_most\(1, .\\ud800.\): no label and no type '\\ud800'"),
        (label("\ud800"), r"no label matches label\(.\\ud800.\)"),
        ("a\nb", r"at_most\(1, .a\\nb.\): no label"),
        (b"x", "b'x' is no name: expected a label"),
        (bytearray(b"x"), r"bytearray\(b'x'\) is no name"),
        (["O", b"x"], "b'x' is no name"),
    ],
    ids=repr,
)
def test_odd_names_of_constraints_are_told_so_that_they_print(name: Any, told: str) -> None:
    with pytest.raises(FstcrfError, match=told) as caught:
        at_most(1, name).bound(["O", "A"])
    assert str(caught.value).isprintable()
    assert not isinstance(name, str) or repr(at_most(1, name)).isprintable()


@pytest.mark.parametrize("kind", [DataError, OptionError, TemplateError])
def test_every_message_prints_on_one_line(kind: type[FstcrfError]) -> None:
    assert str(kind("a\ud800\tb\r\n\x1b[0m, Zürich …")) == r"a\ud800\tb\r\n\x1b[0m, Zürich …"


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"seed": 2**64}, "seed is .* below 2⁶³"),
        ({"seed": 10**30}, "seed is .* below 2⁶³"),
        ({"memory": 10**12}, "memory is .* do not fit into memory"),
        ({"objective": "mce-f", "f_gamma": 1e300}, "gamma is 1e.300, .* up to 1e.100"),
        ({"l2": 10**400}, "l2 is"),
        ({"class_weights": {"O": 10**400}}, "class weight"),
    ],
)
def test_options_that_are_too_large(options: dict[str, Any], told: str) -> None:
    with pytest.raises(FstcrfError, match=told):
        _train(GIVEN[0], **options)


@pytest.mark.parametrize("threads", [None, 0, "x", 1.5])
def test_threads_that_are_no_number(threads: Any) -> None:
    with pytest.raises(OptionError, match="threads is"):
        TAGGER.tag_all(GIVEN, threads=threads)


@pytest.mark.parametrize(
    "text", ["a=" + "[" * 3_000 + "]" * 3_000, "a=" + "9" * 5_000, "a=\x00", "a"]
)
def test_declarations_that_python_cannot_read(text: str, tmp_path: Path) -> None:
    path = tmp_path / "p.toml"
    path.write_text(text)
    with pytest.raises(OptionError, match=r"p\.toml: not valid TOML: "):
        fstcrf.read_pipeline(path)


@pytest.mark.parametrize(
    "line", ['data = ["a\\u0000b"]\ntemplate = "t"', 'data = ["d"]\ntemplate = "a\\u0000b"']
)
def test_names_of_files_that_no_system_has(line: str, tmp_path: Path) -> None:
    path = tmp_path / "p.toml"
    (tmp_path / "d").write_text("a O\n\n")
    (tmp_path / "t").write_text(TEMPLATE)
    path.write_text(f'[task.y]\ncolumns = ["word", "y"]\n{line}\n')
    with pytest.raises(OptionError, match="null"):
        fstcrf.read_pipeline(path)


def test_other_names_of_files_that_no_system_has() -> None:
    with pytest.raises(TemplateError, match="null"):
        fstcrf.parse_template('U:%x[0,member(word,"a\0b")]\n')
    with pytest.raises(FstcrfError, match="null"):
        fstcrf.Grammar.from_text('export x = fst["a\0b"];').bind(["A"])


def test_long_messages_keep_their_ends() -> None:
    label = "x" * 5_000_000
    with pytest.raises(FstcrfError) as caught:
        GRAMMAR.bind([label])
    assert len(str(caught.value)) <= 600
    error = DataError(f"{label}: what to do", path="name", line=3)
    assert str(error).startswith("name:3: xxx")
    assert str(error).endswith("xxx: what to do")
    assert len(error.message) > 5_000_000
    assert shortened("short") == "short"
