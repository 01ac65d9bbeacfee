"""Recursions beside what they were before sentences were summed in lanes.

A yardstick of NumPy or OpenFst is measured in the same run. `BEFORE` has the ratios to it at
commit 2c0069bb, which this file measures, too: ``PYTHONPATH=CHECKOUT python FILE WORK JSON``.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from fstcrf import Lattices
from fstcrf.kernel import SparseRows
from fstcrf.kernel.decoding import axis_posterior, log_partitions
from fstcrf.kernel.machines import Axis, Bound, Factor, JointChain
from fstcrf.machines.topology import chain_topology
from fstcrf.training import Likelihood, Problem, parameter_space
from tests.benchmarks.door_cases import POOL, Ask, Row, drawn, measured, names, scores
from tests.benchmarks.work import answer

BEFORE = {
    "listed-best, 64 sentences, 22 labels, 12 states": 12.8,
    "listed-log-z, 64 sentences, 22 labels, 12 states": 10.8,
    "composed, 64 sentences, 22 labels, 12 states": 11.1,
    "listed-best, 16 sentences, 45 labels, 20 states": 15.2,
    "listed-log-z, 16 sentences, 45 labels, 20 states": 23.2,
    "composed, 16 sentences, 45 labels, 20 states": 23.6,
    "listed-best, 8 sentences, 22 labels, 12 states": 1.76,
    "listed-log-z, 8 sentences, 22 labels, 12 states": 1.47,
    "composed, 8 sentences, 22 labels, 12 states": 1.61,
    "listed-best, 1 sentences, 22 labels, 12 states": 0.317,
    "listed-log-z, 1 sentences, 22 labels, 12 states": 0.261,
    "composed, 1 sentences, 22 labels, 12 states": 0.343,
    "float64, log_partitions, 64 sentences, 9 labels": 0.0533,
    "float64, axis_posterior, 64 sentences, 9 labels": 0.0839,
    "float64, log_partitions, 64 sentences, 22 labels": 0.0649,
    "float64, axis_posterior, 64 sentences, 22 labels": 0.117,
    "float64, log_partitions, 64 sentences, 45 labels": 0.0883,
    "float64, axis_posterior, 64 sentences, 45 labels": 0.141,
    "float64, log_partitions, 64 sentences, 2 labels": 0.0404,
    "float64, axis_posterior, 64 sentences, 2 labels": 0.0645,
    "float64, log_partitions, 64 sentences, 100 labels": 0.483,
    "float64, axis_posterior, 64 sentences, 100 labels": 0.895,
    "float64, log_partitions, 8 sentences, 22 labels": 0.00804,
    "float64, axis_posterior, 8 sentences, 22 labels": 0.0133,
    "float64, log_partitions, 1 sentences, 22 labels": 0.00536,
    "float64, axis_posterior, 1 sentences, 22 labels": 0.00879,
    "objective-9, 1,000 sentences, 12 attributes a token": 1.41,
    "objective-9, 62 sentences, 12 attributes a token": 0.292,
    "objective-9, 16 sentences, 12 attributes a token": 0.192,
    "objective-9, 1,000 sentences, 0 attributes a token": 1.03,
    "objective-22, 1,000 sentences, 12 attributes a token": 1.95,
    "objective-22, 62 sentences, 12 attributes a token": 0.407,
    "objective-22, 16 sentences, 12 attributes a token": 0.24,
    "objective-22, 1,000 sentences, 0 attributes a token": 1.23,
    "objective-45, 1,000 sentences, 12 attributes a token": 2.75,
    "objective-45, 62 sentences, 12 attributes a token": 0.522,
    "objective-45, 16 sentences, 12 attributes a token": 0.35,
    "objective-45, 1,000 sentences, 0 attributes a token": 1.84,
}
_ATTRIBUTES, _KNOWN = 12, 2_000


def before(seconds: float, *, quick: bool = False) -> dict[str, Any]:
    """Return the cases of listed arcs, sums in float64 and objectives."""
    rows = [*_listed(), *_sums(), *_objectives()]
    return {"cases": measured(rows[:: 5 if quick else 1], seconds)}


def _row(door: str, text: str, ask: Ask, other: Ask, *, near: bool, calls: bool = True) -> Row:
    before = BEFORE.get(f"{door}, {text}", 1.0)
    return Row(door, text, (ask, other), near=near, before=before, calls=calls)


def _sums_of(batch: Any, table: Any) -> Any:
    """Return log Z of scores [N, T, L], as NumPy is used for it."""
    alpha = batch[:, 0]
    for t in range(1, batch.shape[1]):
        ways = alpha[:, :, None] + table
        most = ways.max(1)
        alpha = most + np.log(np.exp(ways - most[:, None]).sum(1)) + batch[:, t]
    return np.logaddexp.reduce(alpha, axis=1)


def _yardstick() -> Ask:
    return partial(_sums_of, scores(64, 25, 22), scores(22, 22))


def _listed() -> Iterator[Row]:
    """Folds of transducers, whose arcs are listed."""
    for k, (size, states, batch) in enumerate(
        [(22, 12, 64), (45, 20, 16), (22, 12, 8), (22, 12, 1)]
    ):
        labels, table = names(size), scores(size, size)
        machine, rows = drawn(labels, states), scores(batch, 30, size)
        made = partial(_composed, labels, rows, table, machine)
        text = f"{batch} sentences, {size} labels, {states} states"
        for door, question in (("listed-best", "best"), ("listed-log-z", "log_partition")):
            pool = iter([made() for _ in range(POOL + 5)])
            yield _row(
                door, text, partial(_next, pool, question), _yardstick(), near=k > 0, calls=False
            )
        yield _row("composed", text, partial(_log_z, made), _yardstick(), near=k > 0)


def _composed(labels: list[str], rows: Any, table: Any, machine: Any) -> Any:
    return Lattices.from_arrays(labels, rows, table, tape="x") @ machine


def _next(pool: Iterator[Any], question: str) -> object:
    return getattr(next(pool), question)()


def _log_z(made: Callable[[], Any]) -> object:
    return made().log_partition()


def _sums() -> Iterator[Row]:
    """log Z and marginals of a batch of chains."""
    sizes = ((9, 64), (22, 64), (45, 64), (2, 64), (100, 64), (22, 8), (22, 1))
    questions: tuple[Callable[[Bound], object], ...] = (log_partitions, axis_posterior)
    for (size, batch), ask in itertools.product(sizes, questions):
        axis = Axis(size, score=scores(1, size * size))
        ends = np.zeros((1, size))
        machine = JointChain((axis,), (Factor(1, size),), None, ends, ends)
        lengths = np.random.default_rng(0).integers(5, 46, batch)
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        bound = Bound(machine, offsets, (scores(int(offsets[-1]), 1, size),))
        text = f"{ask.__name__}, {batch} sentences, {size} labels"
        near = size in {2, 100} or batch < 64
        yield _row("float64", text, partial(ask, bound), _yardstick(), near=near)


def _objectives() -> Iterator[Row]:
    """Objective and gradient over drawn sentences of 25 tokens, with attributes and without."""
    for size in (9, 22, 45):
        for sentences, attributes in ((1_000, 12), (62, 12), (16, 12), (1_000, 0)):
            problem = _problem(size, sentences, attributes)
            space = parameter_space(problem, features="complete", transitions="all", ends=True)
            theta = 0.7 * np.random.default_rng(1).normal(size=space.size)
            ask = partial(Likelihood(problem, space, l2=0.5), theta)
            text = f"{sentences:,} sentences, {attributes} attributes a token"
            yield _row(
                f"objective-{size}",
                text,
                ask,
                _yardstick(),
                near=(sentences, attributes) != (1_000, 12),
            )


def _problem(size: int, sentences: int, attributes: int) -> Problem:
    rng = np.random.default_rng(0)
    offsets = np.concatenate([[0], np.cumsum(rng.integers(5, 46, sentences))]).astype(np.int64)
    tokens = int(offsets[-1])
    drawn_rows = np.minimum((rng.pareto(0.7, (tokens, attributes)) * 3).astype(int), _KNOWN - 1)
    index = np.sort(drawn_rows, axis=1).astype(np.int32).ravel()
    rows = SparseRows(np.arange(tokens + 1, dtype=np.int64) * attributes, index, None, _KNOWN)
    allowed = np.zeros((tokens, size), bool)
    allowed[np.arange(tokens), rng.integers(0, size, tokens)] = True
    topology = chain_topology(names(size), 1)
    return Problem(topology, offsets, rows, None, allowed, np.ones(sentences))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    answer(globals())
