"""Two thousand compositions of random transducers, against all paths and against pynini.

Sentences of up to 8 tokens, one machine or two of up to 8 states, with moves that read or write
nothing, in either semiring, most of them with several runs over a string. Nothing here asks fstcrf
for a path.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple, cast

import numpy as np
import pytest

from fstcrf.arrays import Floats
from fstcrf.errors import AmbiguousError, NoPathError
from fstcrf.lattices import Lattice, distinct
from fstcrf.lattices.lattice import AnyLattice
from fstcrf.machines import ambiguity
from fstcrf.machines.machine import Semiring
from fstcrf.machines.transducer import Transducer
from tests.oracle.test_composition_transducers import (
    FURTHER,
    INPUT,
    OUTPUT,
    close,
    transducer,
)
from tests.support.oracles import log_sum

CASES, PARTS = 105, 20
_MOST_STATES = 200
"""Of deterministic forms: random weights seldom have one, and looking for it takes most time."""
_MOST_PATHS = 1500
_STEP = 1e-5

Written = tuple[tuple[int, int], ...]
"""Numbers of labels, and the boundary behind which each is known."""


class Whole(NamedTuple):
    """A path: its score, the labels of each tape, and the arcs of each machine.

    `tied`: another run over the same strings, which writes elsewhere, has the same score. Either
    may be the best one, so no position is compared.
    """

    score: float
    tapes: tuple[Written, ...]
    moves: tuple[tuple[int, ...], ...] = ()
    tied: bool = False


class TooManyError(Exception):
    """More paths than are written down."""


class Machine:
    """A transducer whose runs are listed one by one."""

    def __init__(self, machine: Transducer) -> None:
        self.given = machine
        self.after: list[list[tuple[int, int, int, float, int]]] = [[] for _ in machine.final]
        columns = (machine.source, machine.input, machine.output, machine.target, machine.score)
        rows = zip(*(column.tolist() for column in columns), strict=True)
        for arc, (source, read, write, target, score) in enumerate(rows):
            self.after[source].append((read, write, target, score, arc))
        self.final = machine.final.tolist()

    def runs(self, tape: Written) -> Iterator[tuple[float, Written, tuple[int, ...]]]:
        """Yield score, what is written where, and arcs."""
        todo: list[Any] = [(0, 0, 0.0, (), ())]
        steps = 0
        while todo:
            steps += 1
            if steps > 20 * _MOST_PATHS:  # most of which lead nowhere
                raise TooManyError
            state, read, score, wrote, arcs = todo.pop()
            if read == len(tape) and self.final[state] > -math.inf:
                end = len(self.given.source) + state
                yield score + self.final[state], wrote, (*arcs, end)
            for label, write, target, gain, arc in self.after[state]:
                if label >= 0 and (read == len(tape) or tape[read][0] != label):
                    continue
                on = read + (label >= 0)
                at = tape[on - 1][1] if on else 0
                more = wrote if write < 0 else (*wrote, (write, at))
                todo.append((target, on, score + gain, more, (*arcs, arc)))

    def product(self, paths: Sequence[Whole]) -> list[Whole]:
        """Return what paths are with the runs over their last tape; of tropical runs the best."""
        found: list[Whole] = []
        for path in paths:
            best: dict[tuple[int, ...], Whole] = {}
            runs = enumerate(self.runs(path.tapes[-1]))
            for number, (score, wrote, taken) in runs:
                if number > _MOST_PATHS:
                    raise TooManyError
                tapes, moves = (*path.tapes, wrote), (*path.moves, taken)
                one = Whole(path.score + score, tapes, moves, path.tied)
                if self.given.semiring == "log":
                    found.append(one)
                    continue
                string = tuple([x for x, _ in wrote])
                other = best.setdefault(string, one)
                if abs(other.score - one.score) < 1e-9 and other.tapes != one.tapes:
                    best[string] = other._replace(tied=True)
                elif other.score < one.score:
                    best[string] = one
            found += best.values()
            if len(found) > _MOST_PATHS:
                raise TooManyError
        return found


class Case(NamedTuple):
    """A lattice from arrays, its composition, and all paths of that."""

    arrays: tuple[Floats, ...]
    machines: tuple[Transducer, ...]
    paths: list[Whole]

    def made(self, *, machines: Sequence[Transducer] | None = None) -> AnyLattice:
        lattice: Any = Lattice.from_arrays(INPUT, *self.arrays)
        for machine in self.machines if machines is None else machines:
            lattice = lattice @ machine
        return cast("AnyLattice", lattice)

    @property
    def tied(self) -> bool:
        return any(path.tied for path in self.paths)

    @property
    def shares(self) -> Floats:
        scores = np.asarray([path.score for path in self.paths])
        return np.asarray(np.exp(scores - log_sum(scores)))


def chain_paths(arrays: tuple[Floats, ...]) -> list[Whole]:
    """List the label sequences that are not forbidden."""
    node, step, initial, final = (array.tolist() for array in arrays)
    ways: list[tuple[float, tuple[int, ...]]] = [(0.0, ())]
    for t, row in enumerate(node):
        ways = [
            (total, (*labels, y))
            for score, labels in ways
            for y in range(len(INPUT))
            if (total := score + row[y] + (step[labels[-1]][y] if t else initial[y])) > -math.inf
        ]
        if len(ways) > _MOST_PATHS:
            raise TooManyError
    ends = [(score + (final[labels[-1]] if labels else 0.0), labels) for score, labels in ways]
    return [Whole(s, (tuple((y, t + 1) for t, y in enumerate(row)),)) for s, row in ends]


def case_of(seed: int) -> Case | None:
    """Return a case; None where it has too many paths to write down."""
    rng = np.random.default_rng(seed)
    length = int(rng.integers(0, 9))
    arrays = [rng.normal(size=shape) for shape in ((length, 3), (3, 3), (3,), (3,))]
    arrays[0][rng.random((length, 3)) < 0.09 * length] = -np.inf
    arrays[1][rng.random((3, 3)) < 0.1] = -np.inf
    machines = []
    for reads, writes, tape in ((INPUT, OUTPUT, "out"), (OUTPUT, FURTHER, "further")):
        made = transducer(rng, reads, writes, int(rng.integers(1, 9)))
        semiring: Semiring = "tropical" if rng.random() < 0.5 else "log"
        machines.append(replace(made, tape=tape, semiring=semiring))
    chosen = tuple(machines[: 1 + int(rng.random() < 0.6)])
    try:
        paths = chain_paths(tuple(arrays))
        for machine in chosen:
            paths = Machine(machine).product(paths)
    except TooManyError:
        return None
    return Case(tuple(arrays), chosen, sorted(paths, key=lambda path: -path.score))


@pytest.fixture(autouse=True)
def small_forms(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ambiguity, "MAX_STATES", _MOST_STATES)
    monkeypatch.setattr(distinct, "MOST_RIVALS", 100 * _MOST_STATES)


@cache
def cases(part: int) -> list[Case]:
    """Return as many cases; most of them have a path, half of them are long."""
    found: list[Case] = []
    dead, short = CASES // 10, CASES // 2
    for seed in itertools.count(100_000 * part):
        case = case_of(seed)
        if case is None or (not case.paths and not dead) or (len(case.arrays[0]) < 4 and not short):
            continue
        dead -= not case.paths
        short -= len(case.arrays[0]) < 4
        found.append(case)
        if len(found) == CASES:
            return found
    raise AssertionError


# --- What all paths say ---------------------------------------------------------------------------


def check(case: Case) -> None:
    lattice = case.made()
    if not case.paths:
        assert lattice.log_partition() == -np.inf
        assert lattice.nbest(2) == []
        for ask in (lattice.best, lattice.marginals, lattice.gradient):
            with pytest.raises(NoPathError):
                ask()
        return
    scores = np.asarray([path.score for path in case.paths])
    best = lattice.best()
    close(best.score, scores[0])
    if len(scores) == 1 or scores[1] < scores[0] - 1e-9:
        assert named(case, lattice, case.paths[0]) == said(case, lattice, best)
    found = lattice.nbest(30)
    close([path.score for path in found], scores[:30])
    wanted = [(named(case, lattice, path), round(path.score, 7)) for path in case.paths]
    if len(scores) <= 30:
        assert sorted((said(case, lattice, p), round(p.score, 7)) for p in found) == sorted(wanted)
    try:
        log_z = lattice.log_partition()
    except AmbiguousError:
        assert any(ambiguity.unambiguous(machine).problem for machine in case.machines)
        return
    close(log_z, log_sum(scores))
    check_sums(case, lattice)
    check_strings(case, lattice)


def named(case: Case, lattice: AnyLattice, path: Whole) -> Any:
    """Return labels and boundaries of each tape; without boundaries if runs are tied."""
    both = zip(lattice.on, path.tapes, strict=True)
    known = not case.tied
    return tuple(tuple((tape.labels[k], at * known) for k, at in steps) for tape, steps in both)


def said(case: Case, lattice: AnyLattice, path: Any) -> Any:
    rows = []
    for tape in lattice.tapes:
        at = path.positions.get(tape, range(1, len(path[tape]) + 1))
        at = [0] * len(path[tape]) if case.tied else at
        rows.append(tuple(zip(path[tape], at, strict=True)))
    return tuple(rows)


def one_run(machine: Transducer) -> bool:
    """Whether the arcs of the machine are those that are summed over."""
    form = ambiguity.unambiguous(machine)
    return machine in (form.machine, getattr(form.machine, "of", None))


def check_sums(case: Case, lattice: AnyLattice) -> None:
    shares = case.shares
    for number, tape in enumerate(lattice.on):
        table = np.zeros((lattice.length + 1, len(tape.labels)))
        for share, path in zip(shares, case.paths, strict=True):
            for label, at in path.tapes[number]:
                table[at, label] += share
        found, wanted = lattice.expected(tape.name), table if number else table[1:]
        close(*((x.sum(axis=0) for x in (found, wanted)) if case.tied else (found, wanted)))
    for number, machine in enumerate(case.machines):
        counts = np.zeros(len(machine.source) + len(machine.final))
        for share, path in zip(shares, case.paths, strict=True):
            np.add.at(counts, list(path.moves[number]), share)
        if all(map(one_run, case.machines)):
            close(lattice.gradient()[str(machine.tape)], counts)
        else:
            with pytest.raises(AmbiguousError, match="keeps only the best one"):
                lattice.gradient()


def check_strings(case: Case, lattice: AnyLattice) -> None:
    """Strings of the last tape, by sums over the paths that write them."""
    total: dict[tuple[int, ...], list[float]] = defaultdict(list)
    for path in case.paths:
        total[tuple(label for label, _ in path.tapes[-1])].append(path.score)
    wanted = sorted((float(log_sum(np.asarray(x))) for x in total.values()), reverse=True)
    found = lattice.strings(lattice.tapes[-1], 3)
    close([path.score for path in found], wanted[:3])
    index = {label: k for k, label in enumerate(lattice.on[-1].labels)}
    for string in found:
        close(string.score, log_sum(np.asarray(total[tuple(index[x] for x in string.labels)])))
    best = lattice.nbest(3, tapes=lattice.tapes[-1:])
    close([path.score for path in best], sorted(map(max, total.values()), reverse=True)[:3])


def check_differences(case: Case, rng: np.random.Generator) -> None:
    """Derivatives in an emission, a transition, and an arc of each machine."""
    whole = case.made()
    if not all(map(one_run, case.machines)) or not case.paths:
        return
    gradient = whole.gradient()
    for k, name in enumerate(("emission", "transition", "initial", "final")):
        places = np.argwhere(case.arrays[k] > -np.inf)
        if len(places):
            place = tuple(places[int(rng.integers(len(places)))].tolist())
            ends = []
            for sign in (1.0, -1.0):
                arrays = [array.copy() for array in case.arrays]
                arrays[k][place] += sign * _STEP
                ends.append(case._replace(arrays=tuple(arrays)).made().log_partition())
            close((ends[0] - ends[1]) / (2 * _STEP), gradient[name][place], 1e-6)
    for k, machine in enumerate(case.machines):
        if not len(machine.source):
            continue
        arc, ends = int(rng.integers(len(machine.source))), []
        for sign in (1.0, -1.0):
            moved = [*case.machines]
            score = machine.score.copy()
            score[arc] += sign * _STEP
            moved[k] = machine.with_scores(score)
            ends.append(case.made(machines=moved).log_partition())
        wanted = (ends[0] - ends[1]) / (2 * _STEP)
        close(gradient[str(machine.tape)][arc], wanted, 1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_compositions_are_what_all_their_paths_are(part: int) -> None:
    every = cases(part)
    assert sum(bool(case.paths) for case in every) >= 0.9 * CASES
    for number, case in enumerate(every):
        check(case)
        if number % 5 == 0:
            check_differences(case, np.random.default_rng(number))


def test_a_few_compositions_are_what_all_their_paths_are() -> None:
    few = list(itertools.islice((c for c in map(case_of, itertools.count()) if c), 25))
    for case in few:
        check(case)
    check_differences(next(case for case in few if case.paths), np.random.default_rng(0))


# --- What pynini says -----------------------------------------------------------------------------


def by_pynini(pynini: Any, case: Case, kind: str) -> float:
    """Return log Z, or the best score, by OpenFst's own composition."""
    whole = Lattice.from_arrays(INPUT, *case.arrays).to_fst(kind)  # type: ignore[arg-type]
    for machine in case.machines:
        one = machine.to_fst(kind)  # type: ignore[arg-type]
        whole.set_output_symbols(one.input_symbols())
        whole = pynini.compose(whole.arcsort("olabel"), one.arcsort("ilabel"))
    if whole.start() < 0:
        return -math.inf
    options = {"delta": 1e-12} if kind == "log64" else {}
    return -float(str(pynini.shortestdistance(whole, reverse=True, **options)[whole.start()]))


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_compositions_are_those_of_pynini(part: int) -> None:
    """Best scores in either semiring; sums where all runs count."""
    pynini = pytest.importorskip("pynini", reason="pynini is not installed", exc_type=ImportError)
    asked = 0
    for case in cases(part):
        lattice = case.made()
        best = case.paths[0].score if case.paths else -math.inf
        assert by_pynini(pynini, case, "standard") == pytest.approx(best, abs=1e-5, rel=1e-5)
        if all(machine.semiring == "log" for machine in case.machines):
            asked += 1
            found = by_pynini(pynini, case, "log64")
            assert lattice.log_partition() == pytest.approx(found, abs=1e-6, rel=1e-6)
    assert asked >= CASES // 5
