"""Compositions of two transducers, beside pynini: ``python -m tests.benchmarks.algebra``.

Both compose the same machines, by turns and in one process, and their processor time is compared.
The machines of OpenFst are sorted beforehand. Both results are trimmed.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from functools import partial
from operator import matmul

import numpy as np
from pynini import compose

from fstcrf.machines.transducer import Transducer
from tests.benchmarks.running import least_seconds
from tests.benchmarks.transduced import Found, Move, fst_of, machine_of


def edits(symbols: int) -> Transducer:
    """Return a machine of one state that replaces, deletes and inserts symbols."""
    moves: list[Move] = [
        (0, x, y, 0, -1.0 * (x != y)) for x in range(-1, symbols) for y in range(-1, symbols)
    ]
    return machine_of(moves[1:], [0.0], (symbols, symbols))


def words(symbols: int, size: int) -> Transducer:
    """Return a trie of random words of three to nine symbols; its last arc writes the word."""
    rng, children = np.random.default_rng(0), dict[tuple[int, int], int]()
    moves, final = list[Move](), {0: -np.inf}
    for word in range(size):
        state = 0
        for x in rng.integers(symbols, size=int(rng.integers(3, 10))).tolist():
            if (state, x) not in children:
                children[state, x] = len(final)
                moves.append((state, x, -1, len(final), 0.0))
                final[len(final)] = -np.inf
            state = children[state, x]
        moves.append((state, -1, word, len(final), float(rng.normal())))
        final[len(final)] = 0.0
    return machine_of(moves, list(final.values()), (symbols, size))


def chain(symbols: int, length: int) -> Transducer:
    """Return a sentence: a state before and after each token, and an arc for each symbol."""
    score = np.random.default_rng(0).normal(size=(length, symbols)).tolist()
    moves: list[Move] = [
        (t, x, x, t + 1, score[t][x]) for t in range(length) for x in range(symbols)
    ]
    return machine_of(moves, [*[-np.inf] * length, 0.0], (symbols, symbols))


def random(seed: int, states: int, arcs: int, symbols: int, silent: float) -> Transducer:
    """Return a machine of random arcs, of which a part reads nothing, and a part writes nothing."""
    rng = np.random.default_rng(seed)
    source, target = rng.integers(states, size=(2, arcs))
    read, written = np.where(
        rng.random((2, arcs)) < silent, -1, rng.integers(symbols, size=(2, arcs))
    )
    columns = (source, read, written, target, -rng.random(arcs))
    moves = list(zip(*(x.tolist() for x in columns), strict=True))
    return machine_of(moves, np.zeros(states).tolist(), (symbols, symbols))


def pairs(most: int) -> Iterator[tuple[str, Transducer, Transducer]]:
    """Yield machines to compose, each pair with its name."""
    for symbols in (15, 30, 60):
        for size in (100, 1000, 10_000):
            if size * symbols <= most:
                yield (
                    f"edits @ {size} words, {symbols} symbols",
                    edits(symbols),
                    words(symbols, size),
                )
    yield "edits @ edits, 15 symbols", edits(15), edits(15)
    for silent in (0.0, 0.2):
        one, two = (random(seed, 200, 2000, 20, silent) for seed in (1, 2))
        yield f"random machines, {silent:.0%} silent", one, two
    yield "chain of 2000 tokens @ edits, 20 symbols", chain(20, 2000), edits(20)
    yield "chain of 20 tokens @ 1000 words, 30 symbols", chain(30, 20), words(30, 1000)
    one, two = (random(seed, 20, 20_000, 5000, 0.0) for seed in (3, 4))
    yield "5000 symbols, 1000 arcs a state", one, two
    one, two = (random(seed, 10, 2000, 3, 0.0) for seed in (5, 6))
    yield "parallel arcs: 20 between two states", one, two
    yield "two small machines", edits(3), words(3, 5)


def measured(most: int, rounds: int) -> Iterator[Found]:
    for work, first, second in pairs(most):
        fsts = fst_of(first, "standard").arcsort("olabel"), fst_of(second, "standard")
        ours, peer = least_seconds(rounds, partial(matmul, first, second), partial(compose, *fsts))
        title = f"{work}: {len((first @ second).source):,} arcs"
        yield Found(f"algebra-{work.replace(' ', '-')}", title, ours * 1e3, peer * 1e3, "pynini")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--most", type=int, default=600_000, help="symbols times words")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true", help="a JSON array a line")
    options = parser.parse_args()
    for found in measured(options.most, options.rounds):
        if options.json:
            print(json.dumps(found), flush=True)
        else:
            print(
                f"{found.work}, {found.ours:.2f} ms, pynini {found.peer:.2f}, "
                f"{found.ours / found.peer:.2f} times as long",
                flush=True,
            )


if __name__ == "__main__":
    main()
