"""Law: a bare string in the place of several names is one name, or is refused; never its letters.

`test_label_arguments` has the sets of labels, and `test_labellings` the labels of sentences.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fstcrf
from fstcrf import CRF, Corpus, Lattice, LatticeCRF, Lexicon
from fstcrf.errors import FstcrfError
from fstcrf.ext.sklearn import CRFTagger
from fstcrf.ext.words import Annotation, Words

c: Any = fstcrf.constraints
AB = ("a", "b")
LABELS = ("O", "B-A", "I-A")
SETS = {"a": ("N", "V"), "b": ("O", "B-A", "A", "B")}
DATA = [{"a": ["x", "z"], "y": ["O", "B-A"]}]
ROWS = [[("x", "O"), ("z", "B-A")]]
WHOLE = Corpus.from_sentences(DATA)
TEMPLATE = "U:%x[0,a]\nB"
LATTICE = Lattice.from_arrays(LABELS, np.zeros((2, 3)))


@cache
def train(**options: Any) -> CRF:
    return CRF.train(DATA, "y", TEMPLATE, max_iterations=1, **options)


def words() -> LatticeCRF:
    structure = Words(Lexicon.from_words(["a"]), on_missing="add")
    return LatticeCRF.train([Annotation.of_words(["a"])], "UNIGRAM A:%F[0]", structure=structure)


REFUSED: dict[str, Callable[[Any], object]] = {
    "pairs, a tuple": lambda _: c.pairs(["NA"], AB),
    "pairs, all": lambda _: c.pairs("NA", AB),
    "pairs, tapes": lambda _: c.pairs([("N", "O")], "ab"),
    "neighbours, a pair": lambda _: c.neighbours(["OO"]),
    "neighbours, all": lambda _: c.neighbours("OO"),
    "Lattice.nbest, tapes": lambda _: LATTICE.nbest(1, tapes="label"),
    "Lattices.nbest, tapes": lambda _: fstcrf.Lattices([LATTICE]).nbest(1, tapes="label"),
    "decode, tapes": lambda _: train().decode(DATA, tapes="y"),
    "read_columns": lambda file: fstcrf.read_columns(file, "ay"),
    "stream_columns": lambda file: next(fstcrf.stream_columns(file, "ay")),
    "write_columns": lambda file: fstcrf.write_columns(WHOLE, file, "ay"),
    "read_conllu": lambda file: fstcrf.read_conllu(file, feature_columns="Number"),
    "stream_conllu": lambda file: next(fstcrf.stream_conllu(file, feature_columns="Number")),
    "Corpus.from_sentences": lambda _: Corpus.from_sentences(ROWS, "ay"),
    "Corpus.from_sentences, dicts": lambda _: Corpus.from_sentences(DATA, "ay"),
    "with_column": lambda _: WHOLE.with_column("k", ["xz"]),
    "reads": lambda _: train(reads="a"),
    "CRFTagger": lambda _: CRFTagger(TEMPLATE, columns="ay").fit(ROWS, [["O", "O"]]),
    "vocabulary": lambda _: fstcrf.evaluate_tokens(
        [["O"]], [["O"]], words=[["a"]], vocabulary="ab"
    ),
    "Lexicon.from_words": lambda _: Lexicon.from_words("ab"),
    "Lexicon.tag_all": lambda _: Lexicon.from_words(["a"]).tag_all("ab"),
    "LatticeCRF.tag_all": lambda _: words().tag_all("ab"),
    "no list": lambda _: c.pairs(3, AB),
}


@pytest.mark.parametrize("door", REFUSED)
def test_a_string_is_not_taken_letter_by_letter(door: str, tmp_path: Path) -> None:
    (tmp_path / "ay").write_text("x O\nz B-A\n\n", "utf-8")
    with pytest.raises(FstcrfError, match="expected"):
        REFUSED[door](tmp_path / "ay")


@pytest.mark.parametrize(
    "made",
    [
        lambda one: c.pairs({"N": one("B-A")}, AB),
        lambda one: c.neighbours({"O": one("B-A")}),
        lambda one: c.neighbours({"O": one(None)}),
        lambda one: c.at_most(1, one("B-A")),
        lambda one: c.never(one("B-A")),
        lambda one: c.start_with(one("B-A")),
        lambda one: c.contiguous(one("B-A")),
        lambda one: c.before(one("O"), one("B-A")),
        lambda one: c.requires(one("O"), one("B-A")),
    ],
)
def test_a_string_is_one_label(made: Callable[[Any], Any]) -> None:
    bare, listed = made(lambda label: label), made(lambda label: [label])
    sets = SETS if "pairs" in repr(bare) else LABELS
    for mine, their in zip(bare.bind(sets), listed.bind(sets), strict=True):
        assert np.array_equal(mine.target, their.target)
        assert np.array_equal(mine.final, their.final)
