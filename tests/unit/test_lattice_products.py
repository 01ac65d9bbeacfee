"""Lattices composed and constrained: what is refused, what it is called, where paths end."""

from __future__ import annotations

import itertools
import operator
import pickle
import re
from typing import Any

import numpy as np
import pytest

from fstcrf import compose
from fstcrf.constraints import at_least, at_most, bio, contiguous, never, pairs
from fstcrf.errors import (
    FstcrfError,
    GrammarError,
    InexactWarning,
    LabelError,
    NoPathError,
    NumericError,
    OptionError,
    ShapeError,
    TooLargeError,
)
from fstcrf.kernel import Budget
from fstcrf.kernel.machines import MAX_AXES
from fstcrf.lattices import Lattice, Lattices, best, nbest, product
from fstcrf.machines.grammar import Grammar
from fstcrf.machines.transducer import Transducer
from tests.support.compositions import random_acceptor

BIO = ("O", "B-X", "I-X")
TAGS = ("n", "v")
NEVER = float("-inf")


def chunks(tokens: int = 3, **arguments: Any) -> Lattice:
    return Lattice.from_arrays(BIO, np.zeros((tokens, 3)), tape="chunk", **arguments)


def tags(tokens: int = 3, *, tape: str = "tag") -> Lattice:
    return Lattice.from_arrays(TAGS, np.zeros((tokens, 2)), tape=tape)


# --- What it looks like ------------------------------------------------------------------------


def test_tapes_of_one_name_are_numbered() -> None:
    assert (tags() @ tags()).tapes == ("tag0", "tag1")
    assert (tags() @ tags() @ chunks()).tapes == ("tag0", "tag1", "chunk")
    assert (tags() @ chunks() @ tags()).tapes == ("tag0", "chunk0", "tag1")
    assert product([tags()]).tapes == ("tag",)
    four = (tags() @ tags()) @ (tags() @ tags())
    assert len(set(four.tapes)) == 4
    assert four.log_partition() == pytest.approx(12 * np.log(2), rel=1e-12)


def test_weights_leave_grammars_alone() -> None:
    soft = never("B-X", weight=-2.0)
    one = Lattice.from_arrays(BIO, [[1.0, 3.0, NEVER]], tape="chunk") & soft
    for weight in (0.0, 0.5, 2.0):
        whole = product([one], weights=[weight])
        assert whole.score(["B-X"]) == pytest.approx(3.0 * weight - 2.0, abs=1e-12)
        assert whole.score(["I-X"]) == NEVER
        assert one.weighted(weight).score(["B-X"]) == whole.score(["B-X"])
        assert one.scale(weight).score(["B-X"]) == pytest.approx(weight, abs=1e-12)


# --- What is refused ---------------------------------------------------------------------------


def test_products_that_cannot_be() -> None:
    with pytest.raises(OptionError, match="needs at least one lattice"):
        product([])
    with pytest.raises(ShapeError, match=r"the lattices have \[2, 3\] tokens"):
        product([tags(2), chunks(3)])
    with pytest.raises(ShapeError, match="1 weights for 2 lattices"):
        product([tags(), chunks()], weights=[1.0])
    for weight in (-1.0, np.nan, np.inf):
        with pytest.raises(OptionError, match=r"weights are .*, expected numbers from 0"):
            product([tags(), chunks()], weights=[1.0, weight])


@pytest.mark.parametrize(
    ("coupling", "error", "words"),
    [
        (
            {(0, 1): np.zeros((3, 2))},
            ShapeError,
            r"coupling \(0, 1\) is \[3, 2\], expected \[2, 3\]",
        ),
        ({(1, 0): np.zeros((2, 3))}, ShapeError, r"coupling \(1, 0\)"),
        ({(0, 1): np.zeros((4, 2, 3))}, ShapeError, r"or \[3, 2, 3\]"),
        ({(0, 1): [["a"]]}, ShapeError, "no array of numbers"),
        ({(0, 1): np.full((2, 3), np.nan)}, NumericError, r"NaN or \+inf at \[0, 0\]"),
        ({(0, 1): np.full((3, 2, 3), np.inf)}, NumericError, r"NaN or \+inf at \[0, 0, 0\]"),
        ({(0, 0): np.zeros((2, 2))}, OptionError, "two positions below 2"),
        ({(0, 2): np.zeros((2, 2))}, OptionError, "two positions below 2"),
        ({(-1, 0): np.zeros((3, 2))}, OptionError, "two positions below 2"),
        ({(0, 1, 2): np.zeros((2, 3))}, OptionError, "two positions below 2"),
        ({0: np.zeros((2, 3))}, OptionError, "two positions below 2"),
    ],
)
def test_couplings_that_cannot_be(coupling: Any, error: type[FstcrfError], words: str) -> None:
    with pytest.raises(error, match=words):
        product([tags(), chunks()], coupling=coupling)


def test_couplings_of_several_tapes() -> None:
    with pytest.raises(OptionError, match="refers to a lattice of several tapes: use with_tokens"):
        product([tags() @ chunks(), tags(tape="more")], coupling={(0, 1): np.zeros((2, 2))})


def test_couplings_may_forbid() -> None:
    coupling = np.zeros((2, 3))
    coupling[0] = NEVER
    two = product([tags(), chunks()], coupling={(0, 1): coupling})
    assert two.marginals()[0].tolist() == [[0.0, 1.0]] * 3
    coupling[1] = NEVER
    with pytest.raises(NoPathError) as caught:
        product([tags(), chunks()], coupling={(0, 1): coupling}).best()
    assert caught.value.position == 0


def test_couplings_are_copied() -> None:
    for shape in ((2, 3), (3, 2, 3)):
        table = np.zeros(shape)
        two = product([tags(), chunks()], coupling={(0, 1): table})
        table[...] = 5.0
        assert two.best().score == 0.0


@pytest.mark.parametrize("other", [3, None, "bio", BIO])
def test_operators_take_lattices_and_grammars(other: Any) -> None:
    for operate in (operator.matmul, operator.and_):
        with pytest.raises(TypeError, match="unsupported operand"):
            operate(tags(), other)
    with pytest.raises(TypeError):
        operator.matmul(bio(), tags())  # a & g @ b: `@` binds first
    with pytest.raises(TypeError):
        operator.and_(tags(), chunks())


@pytest.mark.parametrize("factor", [np.nan, np.inf, -np.inf])
def test_factors_that_cannot_be(factor: float) -> None:
    for ask in (tags().scale, tags().weighted):
        with pytest.raises(OptionError, match="expected a finite number"):
            ask(factor)


def test_labels_and_masks_of_several_tapes() -> None:
    two = tags() @ chunks()
    with pytest.raises(ShapeError, match="labels of 3 tapes for the tapes tag, chunk"):
        two.score([["n"] * 3] * 3)
    with pytest.raises(ShapeError, match="2 labels for 3 tokens"):
        two.score([["n"] * 3, ["O"] * 2])
    with pytest.raises(LabelError, match="unknown label 'O'; the labels are n, v"):
        two.probability([["O"] * 3, ["O"] * 3])
    with pytest.raises(ShapeError, match="1 masks for the 2 tapes"):
        two.restrict((np.ones((3, 2)),))
    with pytest.raises(ShapeError, match=r"mask is \[3, 2\], expected \[3, 3\]"):
        two.restrict((np.ones((3, 2)), np.ones((3, 2))))
    mask = np.zeros((3, 3), dtype=bool)
    mask[:, 1] = True
    assert two.restrict((np.ones((3, 2)), mask)).best().labels == (("n",) * 3, ("B-X",) * 3)
    with pytest.raises(OptionError, match="has several tapes: choose one of tag, chunk"):
        two.span_probability(0, 1, "X")
    for ask in (two.string_probability, two.string_log_partition):
        with pytest.raises(OptionError, match="has several tapes: choose one of tag, chunk"):
            ask(["n"] * 3)
    with pytest.raises(OptionError, match="has several tapes: choose one of tag, chunk"):
        two.strings()
    with pytest.raises(OptionError, match="no tape 'pos': the tapes are tag, chunk"):
        two.span_probability(0, 1, "X", tape="pos")
    with pytest.raises(OptionError, match="no label has the type 'Y'"):
        two.span_probability(0, 1, "Y", tape="chunk")


def wide(size: int, tape: str) -> Lattice:
    return Lattice.from_arrays([str(i) for i in range(size)], np.zeros((2, size)), tape=tape)


def test_a_product_too_large_to_expand() -> None:
    parts = [wide(128, tape) for tape in "abc"]
    with pytest.raises(TooLargeError) as caught:
        product(parts).best()
    message = str(caught.value)
    assert "2,097,152 joint states at every token, 128 (a) × 128 (b) × 128 (c)" in message
    assert "needs about 805,306,368 operations per token" in message
    assert "compose fewer tapes" in message
    assert "\n" not in message
    for ask in ("plan", "log_partition", "marginals", "entropy"):
        with pytest.raises(TooLargeError):
            getattr(product(parts), ask)()
    under = wide(512, "a") @ wide(512, "b") & at_most(7, "3", tape="a")
    assert under.best().exact  # a search does not need all states
    with pytest.raises(TooLargeError, match="× 8 \\(grammar\\)"):
        under.log_partition()


@pytest.mark.thorough
def test_a_grammar_too_large_to_expand_has_best_paths_but_no_sums() -> None:
    labels = [f"x{i}" for i in range(14)]
    scores = np.zeros((3, 14))
    scores[[0, 2], 3] = scores[1, 5] = 1.0
    lattice = Lattice.from_arrays(labels, scores) & contiguous(labels)
    best = lattice.best()
    assert (best.labels, best.score, best.exact) == (("x0", "x5", "x3"), 2.0, True)
    assert np.isnan(best.probability)
    for ask in ("log_partition", "marginals", "entropy"):
        with pytest.raises(TooLargeError, match=r"more than 4,096 states when its 14 conjuncts"):
            getattr(lattice, ask)()


def test_too_many_tapes() -> None:
    n = MAX_AXES + 1
    with pytest.raises(ShapeError, match=f"{n} axes, expected 1 to {MAX_AXES}"):
        product([wide(1, f"t{k}") for k in range(n)]).best()


# --- Grammars ----------------------------------------------------------------------------------


def test_grammars_over_what_is_not_there() -> None:
    two = tags() @ chunks()
    with pytest.raises(GrammarError, match=r"at_most\(1, 'Y'\)|at_most\(1, \"Y\"\)"):
        chunks() & at_most(1, "Y")
    with pytest.raises(GrammarError, match="does not name the tape that it reads"):
        two & at_most(1, "X")
    with pytest.raises(GrammarError, match="no tape 'pos'"):
        two & at_most(1, "X", tape="pos")
    with pytest.raises(GrammarError, match="no label 'w'"):
        two & pairs([("w", "O")], ("tag", "chunk"))
    with pytest.raises(GrammarError, match="accepts no sequence"):
        chunks() & never(list(BIO))
    other = random_acceptor(np.random.default_rng(0), [("chunk", ("O", "B-Y"))])
    with pytest.raises(GrammarError, match="does not have the labels"):
        chunks() & Grammar.from_acceptor(other)


def test_constraints_that_contradict_each_other() -> None:
    both = at_most(1, "X") & at_least(2, "X")
    with pytest.raises(GrammarError, match="together they accept nothing") as caught:
        chunks() & both
    assert "at_most(1" in str(caught.value)
    assert "at_least(2" in str(caught.value)


# --- Grammars with a search of their own ----------------------------------------------------------


def test_constrained_says_how_paths_are_searched() -> None:
    labels = [f"x{i}" for i in range(6)]
    scores = np.random.default_rng(0).normal(size=(8, 6))
    lattice, grammar = Lattice.from_arrays(labels, scores), contiguous(labels)
    ways: list[Lattice] = [
        lattice & grammar,
        *(lattice.constrained(grammar, search=s) for s in ("auto", "lazy", "expanded")),
    ]
    assert [one.dense.program.search for one in ways] == ["auto", "auto", "lazy", "expanded"]
    assert ways[2].dense.program.decoder.lazy
    assert not ways[3].dense.program.decoder.lazy
    wanted = ways[3].nbest(4)
    for one in ways:
        assert [path.labels for path in one.nbest(4)] == [path.labels for path in wanted]
        for search in ("auto", "lazy", "expanded"):
            assert one.best(search=search).labels == wanted[0].labels
            assert best([one], search=search).labels(0) == wanted[0].labels
            found = nbest([one], 4, search=search)[0]
            assert [path.score for path in found] == pytest.approx([p.score for p in wanted])
    again = ways[2] & at_most(3, "x0")
    assert again.dense.program.search == "lazy"


def test_a_budget_of_the_grammar_holds_until_another_is_given() -> None:
    labels = [f"x{i}" for i in range(8)]
    scores = np.random.default_rng(1).normal(size=(30, 8))
    lattice = Lattice.from_arrays(labels, scores)
    few = Budget(states=40)
    bounded = lattice.constrained(contiguous(labels), search="lazy", budget=few)
    for one in (bounded, bounded.scale(1.0), bounded & at_most(20, "x0"), product([bounded])):
        with pytest.warns(InexactWarning):
            assert not one.best().exact
        assert best([one], budget=Budget()).exact.all()
    with pytest.warns(InexactWarning):
        assert not best([bounded]).exact[0]
    free = lattice.constrained(contiguous(labels), search="lazy")
    with pytest.warns(InexactWarning):
        path = free.best(few)
    with pytest.warns(InexactWarning):
        assert bounded.best().labels == path.labels
    assert pickle.loads(pickle.dumps(bounded)).dense.program.budget == few


def test_what_is_no_grammar_or_no_search_is_refused() -> None:
    lattice = Lattice.from_arrays(["a", "b"], np.zeros((2, 2)))
    with pytest.raises(OptionError, match="grammar is 'bio', expected a"):
        lattice.constrained("bio")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="search is 'fast', expected 'auto', 'lazy' or"):
        lattice.constrained(contiguous(["a"]), search="fast")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="search is 'fast'"):
        best([lattice], search="fast")  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        lattice & "bio"  # type: ignore[operator]


# --- What is no lattice -------------------------------------------------------------------------


def test_machines_of_pynini_beside_lattices() -> None:
    """They have operators of their own, which speak of strings."""
    pynini = pytest.importorskip("pynini")
    fst = pynini.Fst()
    fst.add_states(1)
    fst.set_start(0)
    fst.set_final(0)
    for symbol in (1, 2, 3):
        fst.add_arc(0, pynini.Arc(symbol, 2, 0.5 * symbol, 0))
    table = pynini.SymbolTable()
    for number, label in enumerate(("<eps>", *BIO)):
        table.add_symbol(label, number)
    fst.set_input_symbols(table).set_output_symbols(table)
    lattice, segments = chunks(), Lattice.from_segments(1, [0], [1], [0], [0.0], ["O"])
    composed = lattice @ fst
    for again in (compose(lattice, fst), (Lattices([lattice]) @ fst)[0]):
        assert again.best() == composed.best()
    assert composed.best()["output"] == ("B-X",) * 3
    assert (segments @ fst).best().labels == (("O",), ("B-X",))
    assert ((tags() @ lattice) @ fst).tapes[-1] == "output"
    with pytest.raises(OptionError, match="must be the right operand"):
        _ = Transducer.from_fst(fst) @ lattice
    acyclic = Lattice.from_fst(lattice.to_fst())
    for under in (lattice, segments, acyclic, Lattice.from_ctc(np.zeros((1, 2)))):
        with pytest.raises(OptionError, match=r"make one of an acceptor, & Grammar\.from_fst"):
            under & fst
    acceptor = pynini.project(fst, "input")
    assert (lattice & Grammar.from_fst(acceptor)).log_partition() < lattice.log_partition()


def test_symbols_of_several_tapes() -> None:
    names = ("a|b", "a", "a\\", "\\|"), ("c", "b|c", "|c", "\\")
    one, two = (
        Lattice.from_arrays(labels, np.zeros((1, 4)), tape=tape)
        for tape, labels in zip("pq", names, strict=True)
    )
    machine = (one @ two).machine
    cut = [re.findall(r"(?:[^|\\]|\\.)+", symbol) for symbol in machine.input_symbols]
    read = [tuple(re.sub(r"\\(.)", r"\1", part) for part in parts) for parts in cut]
    assert read == list(itertools.product(*names))
    assert one.machine.input_symbols == names[0]  # of one tape, labels as they are
    assert (one @ two).to_att().count("\n") == 16 + 16
