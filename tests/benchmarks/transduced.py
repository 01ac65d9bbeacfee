"""Lattices composed with transducers, beside pynini: ``python -m tests.benchmarks.transduced``.

Each sentence is composed, then asked; what is asked is alternated in one process, by its processor
time. Lattices are there beforehand on both sides, but where their transitions are new; as arcs,
they are composed explicitly. Label language models of order three as grammars are the last lines: a
fresh lattice each time, beside the search that is forced.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pynini as imported

from fstcrf.lattices import Lattice
from fstcrf.lattices.arcrow import ArcRow
from fstcrf.lattices.arcs import ArcEngine
from fstcrf.lattices.lattice import TapeLattice
from fstcrf.lattices.transduced import arcs_composed, compiled
from fstcrf.machines.grammar import Grammar
from fstcrf.machines.transducer import Transducer
from tests.benchmarks.work import seconds_of


class Found(NamedTuple):
    """What was measured: milliseconds of ours, and of a peer."""

    key: str
    work: str
    ours: float
    peer: float
    name: str  # of the peer


pynini: Any = imported
Move = tuple[int, int, int, int, float]
WAYS = (
    *("best", "best and its probability", "log Z", "10 best"),
    *("new transitions, best", "new transitions, log Z"),
    *("as arcs, best", "as arcs, log Z"),
)
SIZES = ((24, 9), (100, 22), (512, 33))


def machine_of(moves: Sequence[Move], final: Sequence[float], sizes: tuple[int, int]) -> Transducer:
    columns = np.asarray(moves).T
    source, read, write, target = (np.asarray(c, dtype=np.int32) for c in columns[:4])
    names = [tuple(map(str, range(size))) for size in sizes]
    ends = np.asarray(final, dtype=np.float64)
    return Transducer(source, read, write, target, columns[4], ends, names[0], names[1])


def spans(labels: int) -> Transducer:
    """Tags O, B-0, I-0, B-1, … to types, each written where its span ends."""
    types = (labels - 1) // 2
    moves: list[Move] = [(0, 0, -1, 0, 0.0)]
    for x in range(types):
        moves += [(0, 1 + 2 * x, -1, x + 1, 0.0), (x + 1, 2 + 2 * x, -1, x + 1, 0.0)]
        moves += [(x + 1, -1, x, types + 1, 0.0), (x + 1, 0, x, 0, 0.0)]
        moves += [(x + 1, 1 + 2 * y, x, y + 1, 0.0) for y in range(types)]
    return machine_of(moves, [0.0, *[-np.inf] * types, 0.0], (labels, types))


def edits(labels: int) -> Transducer:
    """Labels to those of their group of three, left out, or, once, put in."""
    moves: list[Move] = []
    for x in range(labels):
        group = range(x // 3 * 3, min(x // 3 * 3 + 3, labels))
        moves += [(s, x, y, s, -1.0 * (x != y)) for y in group for s in (0, 1)]
        moves += [(0, x, -1, 0, -2.0), (1, x, -1, 1, -2.0), (0, -1, x, 1, -3.0)]
    return machine_of(moves, [0.0, 0.0], (labels, labels))


def lexicon(labels: int, states: int = 2000) -> Transducer:
    """Words of two to five labels, in any order; each is written where it ends."""
    rng, moves, children, words = np.random.default_rng(0), [], dict[tuple[int, int], int](), 0
    while len(children) < states:
        state = 0
        *inner, last = rng.integers(labels, size=int(rng.integers(2, 6))).tolist()
        for x in inner:
            if (state, x) not in children:
                children[state, x] = len(children) + 1
                moves.append((state, x, -1, children[state, x], 0.0))
            state = children[state, x]
        moves.append((state, last, words, 0, float(rng.normal())))
        words += 1
    return machine_of(moves, [0.0, *[-np.inf] * len(children)], (labels, words))


def fst_of(machine: Transducer, arc_type: str) -> Any:
    weight = partial(pynini.Weight, "tropical" if arc_type == "standard" else arc_type)
    fst = pynini.Fst(arc_type)
    fst.add_states(len(machine.final))
    fst.set_start(0)
    numbers = machine.source, machine.input, machine.output, machine.target
    columns = [column.tolist() for column in (*numbers, machine.score)]
    for source, read, write, target, score in zip(*columns, strict=True):
        fst.add_arc(source, pynini.Arc(read + 1, write + 1, weight(-score), target))
    for state in np.flatnonzero(machine.final > -np.inf).tolist():
        fst.set_final(state, weight(-float(machine.final[state])))
    return fst.arcsort("ilabel")


def given(lattice: TapeLattice, arc_type: Any) -> Any:
    fst = lattice.to_fst(arc_type)
    fst.set_input_symbols(None).set_output_symbols(None)
    return fst.arcsort("olabel")


def repeated(work: Callable[[], object]) -> float:
    """Return the milliseconds of a piece of work, done as often as fills two of them."""
    often = max(1, int(2e-3 / max(seconds_of(work), 1e-6)))
    return seconds_of(lambda: [work() for _ in range(often)]) * 1e3 / often


def alternated(works: Sequence[Callable[[], object]], rounds: int) -> list[float]:
    """Return the median of the milliseconds of each piece of work."""
    times = [[repeated(work) for work in works] for _ in range(rounds)]
    return [statistics.median(column) for column in zip(*times, strict=True)]


def summed(fst: Any) -> object:
    return pynini.shortestdistance(fst, reverse=True, delta=1e-9)


def ten_best(lattice: Any, machine: Any) -> object:
    return pynini.shortestpath(pynini.compose(lattice, machine), nshortest=10)


def composed(most: int) -> Iterator[Found]:
    rng = np.random.default_rng(0)
    for length, size in (one for one in SIZES if one[0] <= most):
        names = tuple(map(str, range(size)))
        emissions = rng.normal(size=(length, size))
        lattice = Lattice.from_arrays(names, emissions, rng.normal(size=(size, size)))
        row = lattice.row.arcs()
        assert isinstance(row, ArcRow)
        arcs = row.unconstrained
        tropical, log = given(lattice, "standard"), given(lattice, "log64")
        for make in (spans, edits, lexicon):
            machine = make(size)
            made, best, both = (
                compiled(machine, names),
                fst_of(machine, "standard"),
                fst_of(machine, "log64"),
            )

            def product(arcs: ArcEngine = arcs, made: Any = made) -> ArcEngine:
                return arcs_composed(arcs, made, arcs.label[:, 0])

            def anew(names: Any = names, scores: Any = emissions, size: int = size) -> TapeLattice:
                """Return a chain with transitions of its own, which nothing was compiled for."""
                return Lattice.from_arrays(names, scores, rng.normal(size=(size, size)))

            works: list[Callable[[], object]] = [
                partial(lambda a, b: pynini.shortestpath(pynini.compose(a, b)), tropical, best),
                partial(lambda a, b: summed(pynini.compose(a, b)), log, both),
                partial(ten_best, tropical, best),
                partial(lambda a, b: (a @ b).best(), lattice, machine),
                partial(lambda a, b: (a @ b).best().probability, lattice, machine),
                partial(lambda a, b: (a @ b).log_partition(), lattice, machine),
                partial(lambda a, b: (a @ b).nbest(10), lattice, machine),
                partial(lambda b: (anew() @ b).best(), machine),
                partial(lambda b: (anew() @ b).log_partition(), machine),
                lambda: product().nbest(1),
                lambda: product().log_z,
            ]
            for work in works:
                work()
            best_, log_, ten, *ours = alternated(works, 1 if length > 100 else 5)
            title = f"{length} x {size} {make.__name__}"
            for what, mine in zip(WAYS, ours, strict=True):
                key = f"transducers-{length}-{make.__name__}"
                peer = log_ if "log Z" in what else ten if what == "10 best" else best_
                yield Found(f"{key}-{what}", f"{title}: {what}", mine, peer, "pynini")


def trigrams() -> Iterator[Found]:
    for size in (9, 22, 45):
        rng, states = np.random.default_rng(0), np.arange(1 + size + size**2)
        first = np.where(states == 0, 1, 1 + size + size * ((states - 1) % size))
        behind = first[:, None] + np.arange(size)
        names = tuple(map(str, range(size)))
        model = Grammar.from_arrays(names, behind, score=rng.normal(size=behind.shape))
        arrays = rng.normal(size=(24, size)), rng.normal(size=(size, size))

        def fresh(
            search: Any, model: Grammar = model, names: Any = names, arrays: Any = arrays
        ) -> TapeLattice:
            return Lattice.from_arrays(names, *arrays).constrained(model, search=search)

        works: list[Callable[[], object]] = [
            lambda: fresh("auto").best(),
            lambda: fresh("lazy").best(),
            lambda: fresh("auto").log_partition(),
            lambda: fresh("lazy").log_partition(),
        ]
        for work in works:
            work()
        one, two, three, four = alternated(works, 5)
        key, title = f"trigrams-{size}", f"trigrams of {size} labels, 24 tokens"
        yield Found(f"{key}-best", f"{title}: best", one, two, "searched")
        yield Found(f"{key}-log Z", f"{title}: log Z", three, four, "expanded")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--most", type=int, default=SIZES[-1][0], help="tokens of a sentence")
    parser.add_argument("--json", action="store_true", help="a JSON array a line")
    options = parser.parse_args()
    for found in (*composed(options.most), *trigrams()):
        if options.json:
            print(json.dumps(found), flush=True)
        else:
            ratio = found.peer / found.ours
            print(
                f"{found.work}: {found.ours:.2f} ms, {found.name} {found.peer:.2f}, {ratio:.1f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
