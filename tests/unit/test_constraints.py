"""Constraints: what names mean, tapes, what cannot be, what they cost in states."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fstcrf import constraints as c
from fstcrf.errors import GrammarError, LabelError, LabelWarning, OptionError
from fstcrf.machines.grammar import Acceptor, Grammar, intersect, minimise, two_local

BIO = ("O", "B-NP", "I-NP", "B-VP", "I-VP")


def accepts(grammar: Grammar, text: str, labels: tuple[str, ...] = BIO) -> bool:
    return grammar.bound(labels).accepts(text.split())


# --- Names -------------------------------------------------------------------------------------


def test_labels_that_break_their_scheme_begin_spans_as_for_conlleval() -> None:
    assert not accepts(c.at_most(1, "NP"), "I-NP O I-NP")
    assert accepts(c.at_most(1, "NP", scheme="iob2"), "I-NP O I-NP")
    assert not accepts(c.at_most(1, "NP", scheme="iob1"), "I-NP O I-NP")
    assert accepts(c.exactly(2, "NP", scheme="iob1"), "I-NP B-NP")


def test_where_a_label_is_called_like_a_type() -> None:
    labels = ("O", "B-X", "I-X", "X")
    assert accepts(c.at_most(1, "X"), "B-X B-X X", labels)
    assert accepts(c.at_most(1, c.span("X")), "X X B-X I-X", labels)
    assert not accepts(c.at_most(1, c.span("X")), "B-X B-X", labels)
    assert not accepts(c.at_most(1, ["X", c.span("X")]), "X B-X", labels)


def test_bare_letters_are_spans_only_among_their_kind() -> None:
    assert accepts(c.contiguous(), "B I I O", ("O", "B", "I"))
    assert not accepts(c.contiguous(), "B I B", ("O", "B", "I"))
    # "I" is a pronoun here.
    assert not accepts(c.contiguous(), "I V I", ("I", "V", "B", "E"))
    assert accepts(c.at_most(0, ""), "O O", ("O", "B", "I"))


def test_contiguous_takes_span_labels_for_types() -> None:
    assert [a.name for a in c.contiguous(BIO).bind(BIO)] == ['contiguous("NP")', 'contiguous("VP")']
    assert [a.name for a in c.contiguous("VP").bind(BIO)] == ['contiguous("VP")']
    assert len(c.contiguous(scheme=None).bind(BIO)) == 4
    assert c.contiguous("O").bind(BIO) == ()
    found = c.contiguous([c.span("NP"), "X", c.label("X|Y")]).bind((*BIO, "X", "Y"))
    assert [a.name.partition("(")[2] for a in found] == ['"NP")', '"X")', '"Y")']


@pytest.mark.parametrize(
    ("grammar", "message"),
    [
        (c.at_most(1, "NPP"), "at_most(1, \"NPP\"): no label and no type 'NPP'; the nearest are"),
        (c.before("NP", "XYZ"), "no type 'XYZ'; there are 'NP', 'VP', 'O', 'B-NP'"),
        (c.at_most(1, "NP", scheme=None), "no label and no type 'NP'"),
        (c.never(c.span("O")), 'never(span("O")): no label and no type'),
        (c.contiguous(["B-PN"]), "no label and no type 'B-PN'; the nearest are 'B-NP'"),
        (c.contiguous(c.span("N")), "no label and no type 'N'"),
        (c.neighbours([("O", "B-N")]), "neighbours(…): no label 'B-N'; the nearest are"),
        (c.neighbours({"o": ["O"]}), "no label 'o'; the nearest are 'O'"),
        (c.bioes(), "bioes(): label"),
    ],
)
def test_unknown_names(grammar: Grammar, message: str) -> None:
    labels = (*BIO, "X-Y") if "bioes" in message else BIO
    with pytest.raises(GrammarError) as raised:
        grammar.bind(labels)
    assert message in str(raised.value)


def test_nothing_left() -> None:
    with pytest.raises(GrammarError, match=r"never\(any\) accepts no sequence of these 5 labels"):
        c.never(c.ANY).bind(BIO)


def test_classes_without_labels() -> None:
    message = r'before\(.*\): no label matches label\("b-NP"\); the nearest are \'B-NP\''
    with pytest.raises(GrammarError, match=message):
        c.before(c.label("b-NP"), "B-VP").bind(BIO)
    for make in (c.never, c.start_with, c.contiguous):
        with pytest.raises(GrammarError, match="no label matches"):
            make(c.label("X.*")).bind(BIO)
    with pytest.raises(GrammarError, match="no label matches"):
        c.requires("B-NP", [c.label("X"), "B-VP"]).bind(BIO)


def test_a_scheme_in_which_the_labels_have_no_span() -> None:
    with pytest.raises(
        GrammarError, match="no span can be written in bioes with the labels B-NP, I-NP"
    ):
        c.bioes().bind(BIO)
    # A type without a whole span beside one that has them is what little data may show.
    with pytest.warns(LabelWarning, match="no labelling with B-X"):
        assert c.bioes().bound(["O", "B-X", "S-Y"]).accepts(["O", "S-Y"])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: c.at_most(-1, "X"), "at_most(-1, …): expected a whole number from 0 to 10000"),
        (lambda: c.at_least(10_001, "X"), "from 0 to 10000"),
        (lambda: c.exactly(1.5, "X"), "exactly(1.5, …)"),  # type: ignore[arg-type]
        (lambda: c.at_most(1, "X", weight=np.nan), "weight is nan, expected a finite score"),
        (lambda: c.bio(weight=-np.inf), "weight is -inf"),
        (lambda: c.contiguous(weight=np.inf), "leave it out to forbid"),
        (lambda: c.tagging_scheme("bia"), "scheme 'bia', expected one of"),
        (lambda: c.at_most(1, "X", scheme="bia").bind(BIO), "scheme 'bia'"),
        (lambda: c.at_most(1, 7), "7 is no name"),  # type: ignore[arg-type]
        (lambda: c.at_most(1, ["X", 7]), "7 is no name"),  # type: ignore[list-item]
        (lambda: c.pairs([("a", "b")], ("pos",)), "expected the names of two tapes or more"),
        (lambda: c.pairs([("a", "b")], "pos"), "expected the names of two tapes or more"),
        (lambda: c.pairs({"a": ["b"]}, ("x", "y", "z")), "two tapes or more"),
        (lambda: c.pairs([("a",)], ("x", "y")), "('a',), expected tuples of 2 labels"),
    ],
)
def test_arguments_that_cannot_be(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(OptionError) as raised:
        make()
    assert message in str(raised.value)


def test_no_regular_expression() -> None:
    with pytest.raises(GrammarError, match=r"'B-\(' is not a regular expression: missing \)"):
        c.label("B-(")


# --- Neighbours --------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", [c.bio, c.iob1])
def test_schemes_fold_into_transitions(scheme: Callable[[], Grammar]) -> None:
    (acceptor,) = scheme().bind(BIO)
    assert two_local(acceptor) is not None


# --- Conditions and tapes ----------------------------------------------------------------------


def test_a_soft_grammar_is_no_condition() -> None:
    rule = c.if_present("NP", c.at_most(1, "VP", weight=-1.0))
    with pytest.raises(GrammarError, match=r'at_most\(1, "VP"\) is soft; expected a hard grammar'):
        rule.bind(BIO)


def test_a_condition_on_a_name_that_is_everything() -> None:
    """Never any label accepts nothing, which is no error inside a condition."""
    assert accepts(c.if_present(c.ANY, "NP"), "B-NP O")
    assert not accepts(c.if_present(c.ANY, "NP"), "O")


TAPES = {"pos": ("NN", "VB"), "chunk": ("O", "B-NP", "I-NP")}


def test_tapes() -> None:
    (acceptor,) = c.at_most(1, "NP", tape="chunk").bind(TAPES)
    assert acceptor.tapes == ("chunk",)
    across = c.if_present("VB", c.at_least(1, "NP", tape="chunk"), tape="pos").bound(TAPES)
    (bound,) = across.bind(TAPES)
    assert bound.tapes == ("pos", "chunk")
    assert across.accepts({"pos": ["VB"], "chunk": ["B-NP"]})
    assert not across.accepts({"pos": ["VB"], "chunk": ["O"]})
    assert across.accepts({"pos": ["NN"], "chunk": ["O"]})


def test_a_single_label_set_serves_any_tape() -> None:
    (acceptor,) = c.at_most(1, "NP", tape="chunk").bind(BIO)
    assert acceptor.tapes == ("",)
    (acceptor,) = c.at_most(1, "NP").bind({"chunk": BIO})
    assert acceptor.tapes == ("chunk",)


@pytest.mark.parametrize(
    ("grammar", "labels", "message"),
    [
        (
            c.bio(),
            TAPES,
            "it does not name the tape that it reads, one of 'pos', 'chunk': give tape=...",
        ),
        (c.bio(tape="ner"), TAPES, "no tape 'ner'; the tapes are 'pos', 'chunk'"),
        (c.bio(tape="ner"), {"chunk": BIO}, "no tape 'ner'; the tapes are 'chunk'"),
        (c.pairs([("NN", "O")], ("pos", "ner")), TAPES, "no tape 'ner'"),
        (c.pairs([("NM", "O")], ("pos", "chunk")), TAPES, "no label 'NM'; the nearest are 'NN'"),
        (c.pairs({"X": []}, ("pos", "chunk")), TAPES, "no label 'X'"),
    ],
)
def test_tapes_that_are_not_there(grammar: Grammar, labels: Any, message: str) -> None:
    with pytest.raises(GrammarError) as raised:
        grammar.bind(labels)
    assert message in str(raised.value)


# --- Sizes -------------------------------------------------------------------------------------


@pytest.mark.parametrize("types", [4, 10, 22])
def test_sizes(types: int) -> None:
    labels = ("O", *(f"{letter}-T{i}" for i in range(types) for letter in "BI"))
    once = c.contiguous(["T0", "T1", "T2", "T3"]).bind(labels)
    assert [a.n_states for a in once] == [3] * 4
    (scheme,) = c.bio().bind(labels)
    assert scheme.n_states == types + 1
    product: Acceptor = scheme
    for acceptor in once:
        product = minimise(intersect(product, acceptor))
    # Which of the four were seen, and in which span we are, if that is not over.
    assert product.n_states == 16 * (types - 4 + 1) + 4 * 8


def test_all_labels_of_a_large_set_stay_apart() -> None:
    labels = tuple(f"L{i}" for i in range(29))
    found = c.contiguous(labels).bind(labels)
    assert len(found) == 29
    assert {a.n_states for a in found} == {3}


def test_repr() -> None:
    grammar = c.at_most(2, ["a", c.label("b.*"), c.span("d")]) & c.contiguous() & c.bio()
    assert repr(grammar) == (
        'Grammar(at_most(2, ["a", label("b.*"), span("d")]) & contiguous() & bio())'
    )
    many = c.contiguous(tuple("abcdefg"))
    assert repr(many) == 'Grammar(contiguous(["a", "b", "c", "d", …]))'


def test_labels_are_checked_when_scored() -> None:
    with pytest.raises(LabelError, match="unknown label 'X'; the labels are 'O', 'B-NP'"):
        accepts(c.bio(), "O X")


def test_optional_classes_may_be_without_labels() -> None:
    rule = c.requires(c.label("X", optional=True), "B-NP").bound(BIO)
    assert rule.accepts(["O"])
    text = (
        'export A = requires[optional["X"], "B-NP"];\nexport B = any* - (any* optional["Y"] any*);'
    )
    assert Grammar.from_text(text, BIO).accepts(["O"])


@pytest.mark.parametrize(
    ("scheme", "labels", "says"),
    [
        ("bio", ["O", "B-X", "I-X", "I-Y"], r"bio allows no labelling with I-Y, so they are never"),
        ("bioes", ["O", "S-X", "B-X", "S-Y"], r"bioes allows no labelling with B-X, so"),
    ],
)
def test_labels_that_a_scheme_never_allows_are_told(
    scheme: str, labels: list[str], says: str
) -> None:
    """A tagger of IOB1 under `bio` found hardly an entity, without a word."""
    with pytest.warns(LabelWarning, match=says):
        c.tagging_scheme(scheme).bound(labels)


def test_no_warning_where_every_label_occurs() -> None:
    c.tagging_scheme("bio").bound(["O", "B-X", "I-X", "B-Y"])
    c.tagging_scheme("iob1").bound(["O", "I-X", "I-Y", "B-Y"])
    c.tagging_scheme("bioes").bound(["O", "S-X"])
