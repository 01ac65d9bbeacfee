"""The schemes of decoders of word pieces, and gold spans that they cannot find."""

from __future__ import annotations

import contextlib
import itertools
import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fstcrf
from fstcrf.constraints import tagging_scheme
from fstcrf.errors import GrammarError, LabelWarning, SchemeError
from fstcrf.ext.tokens import Pieces, TokenDecoder
from fstcrf.text.corpus import Span, labels_from_spans, schemes

LETTERS = {
    "iob2": "BI",
    "io": "I",
    "bioes": "BIES",
    "bilou": "BILU",
    "bmes": "BMES",
    "bmewo": "BMEW",
}


@pytest.mark.parametrize("scheme", LETTERS)
@pytest.mark.parametrize("said", [False, True])
def test_the_scheme_is_that_of_the_labels(scheme: str, said: bool) -> None:
    """What is written in a scheme is found, whether or not its name is said."""
    labels = ["O", *(f"{a}-{kind}" for kind in "XY" for a in LETTERS[scheme])]
    decoder = TokenDecoder(labels, scheme) if said else TokenDecoder(labels)
    assert decoder.scheme == scheme
    spans = [(0, 1, "X"), (2, 5, "Y"), (5, 7, "X")]
    ids = [labels.index(label) for label in labels_from_spans(spans, 8, scheme)]
    found = decoder.decode(9.0 * np.eye(len(labels))[ids], [(2 * k, 2 * k + 1) for k in range(8)])
    assert [span[:3] for span in found] == [(2 * a, 2 * b - 1, kind) for a, b, kind in spans]
    assert TokenDecoder.from_json(decoder.to_json()).scheme == scheme


def test_labels_of_one_letter_and_those_of_iob1() -> None:
    assert TokenDecoder(["O", "B-X", "I-X"], "iob1").scheme == "iob1"
    for label, scheme in (("B-X", "iob2"), ("S-X", "bioes"), ("U-X", "bilou"), ("W-X", "bmewo")):
        decoder = TokenDecoder(["O", label], pieces="each")
        assert decoder.scheme == scheme
        assert len(decoder.decode([[0.0, 5.0]], [(0, 4)])) == 1
    assert TokenDecoder(["O", "X_B", "X_I"], names="PER_B").scheme == "iob2"


def test_types_of_another_scheme_than_the_others_are_told() -> None:
    """Where the letters of all labels are BIOES, a type of B and I alone is in no answer."""
    labels = ["O", "B-X", "I-X", *(f"{letter}-Y" for letter in "BIES"), "B-Z", "I-Z", "I-W", "E-W"]
    with pytest.warns(LabelWarning, match="no span of 'X', 'Z', 'W' can ever be found: in bioes"):
        TokenDecoder(labels)
    few = ["O", "B-X", "I-X", "I-Y"]
    with pytest.warns(LabelWarning, match="no span of 'Y' can ever be found: in iob2"):
        decoder = TokenDecoder(few)
    assert decoder.replaced(scheme="iob1").types == ("X", "Y")  # and no warning


class _Encoding(dict[str, Any]):
    """What a fast tokenizer returns for one text, as far as it is read."""

    def word_ids(self, row: int) -> list[int | None]:
        return [[None, 0, 1, None]][row]


def test_the_text_of_an_encoding_may_be_a_string() -> None:
    """It is one document, not one for each character."""
    encoding = _Encoding(offset_mapping=[[(0, 0), (0, 3), (4, 6), (0, 0)]])
    rows = np.zeros((1, 4, 3))
    (one,) = Pieces.from_encoding(encoding, rows, "abc de")
    (other,) = Pieces.from_encoding(encoding, rows, ["abc de"])
    assert one.text == other.text == "abc de"


def test_arrays_refuse_a_scheme_of_other_labels_alike() -> None:
    labels = ["O", "B-X", "I-X"]
    with pytest.raises(GrammarError, match="written in bioes with the labels B-X, I-X") as one:
        TokenDecoder(labels, "bioes")
    with pytest.raises(GrammarError, match="written in bioes with the labels B-X, I-X") as other:
        fstcrf.decode(np.zeros((1, 2, 3)), labels=labels, grammar=tagging_scheme("bioes"))
    assert str(one.value) in str(other.value)


GIVEN = Pieces(np.zeros((4, 3)), [(0, 4), (4, 6), (7, 9), (10, 12)], [0, 0, 1, 2], "abcdef gh ij")
SPACED = Pieces(np.zeros((3, 3)), [(0, 2), (2, 5), (5, 8)], None, "ab cd ef")  # " cd", " ef"


@pytest.mark.parametrize("ask", ["events", "evaluate", "calibrated", "tune"])
def test_gold_spans_that_cannot_be_found_are_counted(ask: str) -> None:
    decoder = TokenDecoder(["O", "B-X", "I-X"])
    options = {"calibrated": {"least": 1}}.get(ask, {})
    gold = [[(0, 6, "X"), (7, 9, "X"), (1, 6, "Y"), (0, 4, "Z"), (7, 9, "Z")], [(0, 4, "X")]]
    gold[1] += [(7, 12, "X"), (40, 44, "X")]
    with pytest.warns(LabelWarning) as told:
        getattr(decoder, ask)([GIVEN, GIVEN], gold, **options)
    texts = [str(one.message) for one in told]
    assert len(texts) == 2
    assert {one.filename for one in told} == {__file__}
    assert "no label count as missed: Z (2), Y (1); the types are 'X'" in texts[0]
    assert texts[1].startswith("2 of 8 gold spans count as missed")
    assert texts[1].endswith("document 1, characters 0 to 4")


@pytest.mark.parametrize(
    ("labels", "scheme"),
    [
        (["O", "B-X", "I-X", "I-Y"], "bio"),
        (["O", "B-X", "E-X", "I-X", "S-Y"], "bioes"),
        (["O", "B-X", "E-X", "S-X", "B-Y", "I-Y", "E-Y"], "bioes"),
        (["O", "I-X", "B-Y"], "iob1"),
    ],
)
def test_gold_spans_that_no_labels_spell_are_counted(labels: list[str], scheme: str) -> None:
    legal: set[Span] = set()
    for labelling in itertools.product(labels, repeat=4):
        with contextlib.suppress(SchemeError):
            legal |= set(schemes.spans(labelling, scheme, illegal="raise"))
    four = Pieces(np.zeros((4, len(labels))), [(k, k + 1) for k in range(4)], None, "abcd")
    with warnings.catch_warnings():  # that I-Y alone spells no span under iob2
        warnings.simplefilter("ignore", LabelWarning)
        decoder = TokenDecoder(labels, scheme, pieces="first")
    for size, kind in itertools.product((1, 2, 3, 4), "XY"):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            decoder.evaluate([four], [[(0, size, kind)]])
        assert bool(told) == (Span(0, size, kind) not in legal)
        plural = "s" if size > 1 else ""
        for one in told:
            assert str(one.message).endswith(f"count as missed: {kind} of {size} word{plural} (1)")


def test_gold_spans_at_boundaries_are_fine(recwarn: pytest.WarningsRecorder) -> None:
    decoder = TokenDecoder(["O", "B-X", "I-X"])
    decoder.evaluate([GIVEN], [[(0, 6, "X"), (7, 12, "X")]])
    decoder.evaluate([SPACED], [[(3, 5, "X"), (0, 2, "X"), (6, 8, "X")]])
    decoder.replaced(pieces="each").evaluate([GIVEN], [[(4, 9, "X")]])
    assert not recwarn.list
    with pytest.warns(LabelWarning, match="within a word"):
        decoder.evaluate([GIVEN], [[(4, 9, "X")]])
    with pytest.warns(LabelWarning, match="within a piece"):
        decoder.replaced(pieces="each").evaluate([GIVEN], [[(5, 9, "X")]])
    with pytest.warns(LabelWarning, match="1 of 1"):  # where the tokenizer put the space
        decoder.evaluate([SPACED], [[(2, 5, "X")]])


@given(st.data())
def test_spans_that_are_warned_of_are_those_that_nothing_spells(data: st.DataObject) -> None:
    """The spans of all labellings are the boundaries, for any words in any text."""
    sizes = data.draw(st.lists(st.tuples(st.integers(0, 1), st.integers(1, 3)), max_size=5))
    text, offsets = "", []
    for gap, size in sizes:
        blank = data.draw(st.integers(0, size))
        offsets.append((len(text) + gap, len(text) + gap + size))
        text += " " * gap + (" " * blank + "x" * size)[:size]
    decoder = TokenDecoder(["O", "B-X", "I-X"], pieces="each")
    batch = decoder._batch([Pieces(np.zeros((len(sizes), 3)), offsets, None, text)], 1)
    spans = [Span(a, b, "X") for b in range(len(sizes) + 1) for a in range(b)]
    spelt = {place[:2] for one in spans if (place := batch.placed(0, one)) is not None}
    every = {(a, b) for b in range(len(text) + 1) for a in range(b)}
    assert {place for place in every if batch.size(0, *place)} == spelt
