"""Searches that are handed over to the product inside the kernel: when, and what is found then."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pytest

import fstcrf
from fstcrf.arrays import Floats
from fstcrf.constraints import at_most, before, contiguous, if_present
from fstcrf.lattices import ChainRow, Lattice, best, nbest
from fstcrf.machines.grammar import Grammar
from fstcrf.machines.plans import Program, decoder, program
from tests.benchmarks.cliffs import drawn

LABELS = tuple("abcdef")
Way = Literal["auto", "lazy", "expanded"]


def legal(tokens: int, over: float = 9.0) -> Floats:
    """Return scores whose best labels are one run of each label."""
    scores = np.random.default_rng(tokens).normal(size=(tokens, len(LABELS)))
    scores[range(tokens), np.arange(tokens) * len(LABELS) // tokens] += over
    return scores


def broken(tokens: int, places: int, over: float = 9.0) -> Floats:
    """Return scores whose best labels break with the grammar at so many places apart."""
    scores = legal(tokens, over)
    for place in range(places):
        token = tokens - 2 - 3 * place
        scores[token, 0] += over + 2  # the first label comes back
    return scores


def grammar_of(rule: str, tape: str = "t0") -> Grammar:
    return {
        "contiguous": contiguous(LABELS, tape=tape),
        "soft": contiguous(LABELS, weight=-1.0, tape=tape) & at_most(1, "b", tape=tape),
        "order": before("a", "b", tape=tape) & if_present("c", "d", tape=tape),
    }[rule]


def sentence(scores: Floats, tape: str = "t0") -> Lattice:
    return Lattice.from_arrays(LABELS, scores, tape=tape)


def product_of(lattice: Lattice) -> dict[str, Any]:
    expansion = lattice.dense.program.decoder.expansion
    assert expansion is not None
    return vars(expansion)


def fresh(lattice: Lattice) -> Lattice:
    """Return it under a program of which nothing has been compiled or counted."""
    mine = lattice.dense.program
    again = Program(mine.chains, mine.couplings, mine.conjuncts)
    return lattice._with_row(lattice.dense.with_program(again))


# --- When -----------------------------------------------------------------------------------------


def test_many_breaches_need_no_search() -> None:
    """Beside the walk to the first of them nothing is looked at."""
    rule = contiguous(LABELS)
    few, many = (fresh(sentence(broken(60, n)) & rule) for n in (1, 12))
    found = best([few])
    assert found.exact[0]
    assert found.states_expanded[0] >= 60
    assert "machine" not in product_of(few)
    found = best([many])
    assert found.exact[0]
    assert found.states_expanded[0] < 60
    assert "machine" in product_of(many)
    wanted = best([many], search="expanded")
    assert found.scores[0] == pytest.approx(wanted.scores[0], abs=1e-9)
    assert found.labels(0) == wanted.labels(0)


def test_a_search_in_vain_costs_a_share_of_the_product() -> None:
    """Under noise, with breaches too few to be called many."""
    scores = 0.1 * np.random.default_rng(0).normal(size=(12, len(LABELS)))
    lattice = fresh(sentence(scores) & contiguous(LABELS))
    popped = best([lattice]).states_expanded[0]
    assert "machine" in product_of(lattice)
    assert popped < best([lattice], search="lazy").states_expanded[0] / 4


@pytest.mark.thorough
def test_a_legal_path_that_is_not_found_at_once_costs_no_search() -> None:
    """Rules that each leave the last token a label, and no label together: then tokens count."""
    case = drawn(10, 44)
    lattice = case.lattice() & case.grammar()
    found, whole = (best([lattice], search=way) for way in ("auto", "lazy"))
    assert found.exact[0]
    assert found.states_expanded[0] == whole.states_expanded[0]
    assert found.labels(0) == whole.labels(0)


def test_sentences_too_long_for_the_product_are_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside others that it answers, in any order, and with one that needs neither."""
    short, long = broken(40, 12), broken(80, 9)
    rule = contiguous(LABELS)
    one = fresh(sentence(short) & rule)
    batch = [
        Lattice(ChainRow(one.dense.program, (s,))) for s in (long, legal(90), short, long, short)
    ]
    cost = one.dense.program.decoder.expansion.cost  # type: ignore[union-attr]
    assert cost is not None
    monkeypatch.setattr(decoder, "MOST_CELLS", 50 * cost.cells)
    found = best(batch)
    wanted = best(batch, search="expanded")
    assert found.exact.all()
    assert found.scores.tolist() == pytest.approx(wanted.scores.tolist(), abs=1e-9)
    assert found.states_expanded[2] < 40
    assert found.states_expanded[0] > 80
    assert found.states_expanded.tolist() == [
        best([lattice]).states_expanded[0] for lattice in batch
    ]


# --- What is found --------------------------------------------------------------------------------


@pytest.mark.thorough
@pytest.mark.parametrize("rule", ["contiguous", "soft", "order"])
@pytest.mark.parametrize("tapes", [1, 2, 3])
@pytest.mark.parametrize("n", [1, 3])
def test_labels_are_those_of_the_product_ties_included(
    rule: str, tapes: int, n: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Scores of few whole numbers: sums are exact, and ties everywhere."""
    monkeypatch.setattr(program, "LAZY_FROM", 0.0)
    grammar = grammar_of(rule)
    for seed in range(12):
        rng = np.random.default_rng([seed, tapes])
        tokens = int(rng.integers(1, 25 if tapes == 1 else 8))
        margin = int(rng.integers(0, 5))
        parts = []
        for tape in range(tapes):
            scores = rng.integers(-2, 3, size=(tokens, len(LABELS))).astype(np.float64)
            gold = np.sort(rng.integers(len(LABELS), size=tokens))
            scores[range(tokens), gold] += margin
            parts.append(sentence(scores, f"t{tape}"))
        free = parts[0] if tapes == 1 else fstcrf.compose(*parts)
        found: dict[Way, list[tuple[Any, float]]] = {}
        ways: tuple[Way, ...] = ("auto", "expanded", "lazy")
        for way in ways:
            [paths] = nbest([free.constrained(grammar, search=way)], n)
            found[way] = [(path.labels, path.score) for path in paths]
        if n == 1 or tapes == 1:
            assert found["auto"] == found["expanded"] == found["lazy"]
        else:
            scored = [[score for _, score in paths] for paths in found.values()]
            assert scored[0] == scored[1] == scored[2]


def test_scratch_that_is_kept_suits_other_sentences() -> None:
    """Longer, shorter, another number of paths; bits do not depend on what was asked before."""
    rule = contiguous(LABELS)
    one = fresh(sentence(broken(40, 12)) & rule)
    lattices = [
        Lattice(ChainRow(one.dense.program, (broken(t, 12),))) for t in (40, 45, 120, 41, 300, 44)
    ]
    first = [best([fresh(lattice)]).scores[0] for lattice in lattices]
    for n in (1, 5, 1):
        again = [nbest([lattice], n).scores[0][0] for lattice in lattices]
        assert again == first
    for threads in (1, 2, 7):
        assert best(lattices * 30, threads=threads).scores.tolist() == first * 30
