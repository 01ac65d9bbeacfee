"""Chains folded with transducers: each form of a composition says the same, and what all paths say.

The forms are the fold, the arcs that are written out, and arcs that were kept for the length.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest

import fstcrf
from fstcrf.lattices import Lattice, Lattices
from fstcrf.lattices import folds as lattice_folds
from fstcrf.lattices.arcs import ArcEngine
from fstcrf.lattices.folds import FoldEngine
from fstcrf.lattices.lattice import AnyLattice
from fstcrf.machines.grammar import Grammar
from fstcrf.machines.plans import folds as plans_folds
from fstcrf.machines.transducer import Transducer
from tests.oracle.test_composition_transducers import (
    INPUT,
    OUTPUT,
    Full,
    close,
    known_paths,
    product,
    transducer,
)
from tests.oracle.test_semirings import of_strings

Make = Callable[[np.random.Generator, int], AnyLattice]


def lattice_of(rng: np.random.Generator, length: int, scale: float, forbidden: float) -> AnyLattice:
    """Return a chain; entries of all its arrays are forbidden with some probability."""
    shapes = (length, 3), (3, 3), (3,), (3,)
    arrays = [scale * rng.normal(size=shape) for shape in shapes]
    for array in arrays:
        array[rng.random(array.shape) < forbidden] = -np.inf
    return Lattice.from_arrays(INPUT, *arrays)


CHAINS: dict[str, Make] = {
    "plain": lambda rng, length: lattice_of(rng, length, 1.0, 0.0),
    "faint": lambda rng, length: lattice_of(rng, length, 300.0, 0.0),
    "forbidden": lambda rng, length: lattice_of(rng, length, 1.0, 0.15),
    "grammar": lambda rng, length: lattice_of(rng, length, 1.0, 0.0) & no_two(),
}


def no_two() -> Grammar:
    """Not a third "a", and no "c" behind the first: a residual automaton."""
    return Grammar.from_arrays(INPUT, [[1, 0, 0], [2, 1, -1], [-1, 2, 2]])


def forms(lattice: AnyLattice, machine: Transducer) -> list[Any]:
    """Return the engines of a composition: the fold, its arcs, and those kept for the length."""
    kept: list[Any] = [(lattice @ machine).row.engine for _ in range(3)]
    assert all(isinstance(engine, FoldEngine) for engine in kept)
    return [kept[0], *(engine.expanded for engine in kept)]


def check_paths(lattice: AnyLattice, wanted: Sequence[Full]) -> None:
    """Compare the best path, and its probability, with all paths."""
    total = float(np.logaddexp.reduce([full.score for full in wanted]))
    path = lattice.best()
    close(path.score, wanted[0].score)
    close(path.probability, np.exp(wanted[0].score - total))
    steps = zip(path.labels[1], path.positions["out"], strict=True)
    said = path.labels[0], tuple(steps)
    alike = [
        full.score
        for full in wanted
        if (tuple(s.label for s in full.tapes[0]), tuple(map(tuple, full.tapes[1]))) == said
    ]
    close(max(alike), path.score)


def token_sums(wanted: Sequence[Full], length: int) -> tuple[Any, Any]:
    """Return the marginals of labels and their max-marginals, from all paths."""
    total = np.logaddexp.reduce([full.score for full in wanted])
    sums, most = np.zeros((length, 3)), np.full((length, 3), -np.inf)
    for full in wanted:
        for t, step in enumerate(full.tapes[0]):
            k = INPUT.index(step.label)
            sums[t, k] += np.exp(full.score - total)
            most[t, k] = max(most[t, k], full.score)
    return sums, most


@pytest.mark.parametrize("semiring", ["log", "tropical"])
@pytest.mark.parametrize("kind", CHAINS)
def test_each_form_says_what_all_paths_say(kind: str, semiring: Any) -> None:
    folded = several = 0
    for seed in range(40 if semiring == "log" else 140):  # most of which several runs agree
        rng = np.random.default_rng([seed, len(kind)])
        length = int(rng.integers(0, 5))
        base = CHAINS[kind](rng, length)
        machine = transducer(rng, INPUT, OUTPUT, int(rng.integers(1, 5)))
        machine = replace(machine, semiring=semiring)
        paths = known_paths(base)
        ways = of_strings if semiring == "tropical" else product
        wanted = sorted(ways(paths, machine), key=lambda full: -full.score)
        whole = base @ machine
        if not isinstance(whole.row.engine, FoldEngine):
            assert not wanted or isinstance(whole.row.engine, ArcEngine)
            continue
        folded += 1
        several += len({full.tapes[0] for full in wanted}) < len(wanted)
        scores = [full.score for full in wanted] or [-np.inf]
        for engine in forms(base, machine):
            close(engine.log_z, [np.logaddexp.reduce(scores)])
            close(engine.best_scores, [scores[0]])
            if wanted:
                sums, most = token_sums(wanted, length)
                close(engine.marginals([0])[0], sums)
                close(engine.highest([0])[0], most)
        if wanted:
            check_paths(whole, wanted)
            close(whole.marginals("label"), token_sums(wanted, length)[0])
    assert folded >= 15
    assert several >= 8  # else no run stands beside another one


def test_grammars_before_and_behind_are_the_same() -> None:
    for seed in range(25):
        rng = np.random.default_rng(seed)
        base = lattice_of(rng, int(rng.integers(0, 6)), 1.0, 0.0)
        machine = transducer(rng, INPUT, OUTPUT, 3)
        one, two = (base & no_two()) @ machine, (base @ machine) & no_two()
        free = one.without_grammar()
        close(free.log_partition(), (base @ machine).log_partition())
        close(one.log_partition(), two.log_partition())
        close(one.row.engine.best_scores, two.row.engine.best_scores)
        row: Any = two.row
        (rule,) = row.rules
        wanted = row.unconstrained.expanded.product(*rule)
        close(two.log_partition(), wanted.log_z[0])
        close(two.row.engine.best_scores, wanted.best_scores)


def test_company_changes_no_bit() -> None:
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=(length, 3)) for length in (3, 0, 7, 1, 4)]
    arrays[2][3] = -np.inf  # no path
    steps, machine = rng.normal(size=(3, 3)), transducer(rng, INPUT, OUTPUT, 4)
    every = [Lattice.from_arrays(INPUT, array, steps) @ machine for array in arrays]
    alone = [Lattice.from_arrays(INPUT, array, steps) @ machine for array in arrays]
    engines: list[Any] = [one.row.engine for one in every]
    assert len({engine.shared for engine in engines}) == 1
    several = Lattices(every)
    np.testing.assert_array_equal(several.log_partition(), [one.log_partition() for one in alone])
    ranked = several.nbest(1)
    for paths, one in zip(ranked, alone, strict=True):
        assert paths == ([one.best()] if one.log_partition() > -np.inf else [])
        assert [p.positions for p in paths] == [one.best().positions for _ in paths]
    there = [k for k in range(5) if k != 2]
    tables = Lattices([every[k] for k in there]).marginals()
    for k, table in zip(there, tables, strict=True):
        np.testing.assert_array_equal(table[0], alone[k].marginals("label"))


@pytest.mark.parametrize("limit", [0, 2, 7])
def test_what_is_too_large_is_not_folded(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plans_folds, "MOST_ARCS", limit)
    monkeypatch.setattr(plans_folds, "LEAST_ARCS", limit)
    written = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        base, machine = lattice_of(rng, 3, 1.0, 0.0), transducer(rng, INPUT, OUTPUT, 4)
        wanted = product(known_paths(base), machine)
        found = base @ machine
        written += isinstance(found.row.engine, ArcEngine)
        total = np.logaddexp.reduce([full.score for full in wanted]) if wanted else -np.inf
        close(found.log_partition(), total)
    assert written >= 5


def test_what_is_kept_is_left_behind_by_pickles() -> None:
    rng = np.random.default_rng(0)
    whole = lattice_of(rng, 4, 1.0, 0.0) @ transducer(rng, INPUT, OUTPUT, 3)
    path = whole.best()
    twin = pickle.loads(pickle.dumps(path))
    assert twin == path
    assert twin.probability == path.probability
    other = pickle.loads(pickle.dumps(whole))
    close(other.log_partition(), whole.log_partition())
    assert other.best().labels == path.labels


def test_what_a_fold_answers_writes_no_arcs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither one lattice nor a batch; what needs arcs has them written."""
    rng = np.random.default_rng(3)
    spans = Transducer.from_table({"A": "x", "B": None, "C": ["y", "z"]}, tape="out")
    lattices = [
        Lattice.from_arrays(list("ABC"), rng.normal(size=(n, 3)), rng.normal(size=(3, 3))) @ spans
        for n in (4, 6)
    ]
    made: list[object] = []
    write = cast("Any", FoldEngine.expanded).func

    def watched(self: object) -> object:
        made.append(self)
        return write(self)

    monkeypatch.setattr(FoldEngine, "expanded", property(watched))
    for lattice in lattices:
        path = lattice.best()
        assert path.probability > 0.0
        assert lattice.marginals("label").shape == (len(path["label"]), 3)
    assert len(fstcrf.best(lattices)) == 2
    assert len(fstcrf.log_partition(lattices)) == 2
    assert not made
    assert lattices[0].expected("out").sum() > 0.0
    assert made


# --- The n best paths -----------------------------------------------------------------------------


def ranks(paths: Sequence[Any], *, exact: bool = True) -> list[tuple[Any, ...]]:
    """Return all that paths say."""
    return [(p.labels, p.positions, p.score if exact else round(p.score, 9)) for p in paths]


class Whole:
    """A generator of whole numbers: sums have no rounding, and many paths tie."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng, self.random = rng, rng.random

    def normal(self, size: tuple[int, ...]) -> Any:
        return np.round(self.rng.normal(size=size))


@pytest.mark.parametrize("whole", [False, True], ids=["scores", "whole scores, so that paths tie"])
@pytest.mark.parametrize("kind", CHAINS)
def test_the_n_best_of_a_fold_are_those_of_all_arcs(
    kind: str, whole: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the same order, wherever the n-th path is; beside other rows, to the bit."""
    narrower = 0
    for seed in range(20):
        rng = np.random.default_rng([seed, len(kind), whole])
        numbers: Any = Whole(rng) if whole else rng
        base = CHAINS[kind](numbers, int(rng.integers(0, 6)))
        machine = transducer(rng, INPUT, OUTPUT, int(rng.integers(1, 5)))
        if whole:
            machine = machine.with_scores(np.round(machine.score), np.round(machine.final))
        for n in (2, 12):
            made = base @ machine
            if not isinstance(made.row.engine, FoldEngine):
                continue
            monkeypatch.setattr(lattice_folds, "_MANY_ARCS", 10**9)
            wanted = made.nbest(n)
            monkeypatch.setattr(lattice_folds, "_MANY_ARCS", 0)
            paths = made.nbest(n)
            assert ranks(paths, exact=whole) == ranks(wanted, exact=whole)
            beside = CHAINS["plain"](numbers, 3) @ machine
            every = Lattices([beside, base @ machine, beside]).nbest(n)
            assert [*map(ranks, every)][1] == ranks(paths)
            kept = made.row.engine._on_best(n)
            narrower += kept.size > 0 and not kept.all()
    assert narrower >= 5


def test_the_n_best_of_many_labels_write_few_arcs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A label model over 100 labels: the arcs of a token are those of the labels on n paths."""
    rng, size = np.random.default_rng(0), 100
    names, sizes = tuple(map(str, range(size))), list[int]()
    label = np.tile(np.arange(size), size + 1)
    model = Transducer.from_arrays(
        np.repeat(np.arange(size + 1), size), label, label, label + 1,
        rng.normal(size=len(label)), input_symbols=names, output_symbols=names, tape=None,
    )  # fmt: skip
    lattice = Lattice.from_arrays(names, rng.normal(size=(20, size)), rng.normal(size=(size, size)))
    nbest = ArcEngine.nbest

    def watched(self: ArcEngine, *given: Any) -> Any:
        sizes.append(self.n_elements)
        return nbest(self, *given)

    monkeypatch.setattr(ArcEngine, "nbest", watched)
    paths = (lattice @ model).nbest(10)
    assert len({path.labels for path in paths}) == 10
    assert max(sizes) < 1000  # of 190,100
