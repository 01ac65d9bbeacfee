"""log Z of long texts: as exact as of short ones, at every door that sums along a text.

exp(score − log Z), the probability of a path, has the absolute error of log Z as its relative one:
a total that loses half an ulp a token in the same direction is 1e-6 off after 100,000 tokens.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np
import pytest

import fstcrf
from fstcrf import Lattice, kernel
from fstcrf.arrays import Floats
from fstcrf.errors import NumericError
from fstcrf.ext.rules.kernel import Counter, expected_steps
from fstcrf.ext.segments.kernel import Extras, SemiMarkov, best_segments, segment_sums
from fstcrf.kernel import Graph
from fstcrf.lattices.machines import sausage_machine

TOKENS, ULPS = 100_000, 4
LABELS = ("a", "b")
NEVER = -np.inf


class Text(NamedTuple):
    node: Floats  # [T, 2]
    arcs: Floats  # [2, 2]

    @property
    def log_z(self) -> float:
        """By scaled sums, whose logs are added exactly."""
        top = self.node.max(axis=1)
        share, step = np.exp(self.node - top[:, None]), np.exp(self.arcs)
        logs, row = [], share[0]
        for token in range(len(share)):
            if token:
                row = (row @ step) * share[token]
            total = float(row.sum())
            logs.append(math.log(total))
            row = row / total
        return math.fsum([*top.tolist(), *logs])


@cache
def text(tilt: float) -> tuple[Text, float]:
    """A text whose scores have a sign: what is rounded off adds up."""
    rng = np.random.default_rng(1)
    one = Text(rng.normal(size=(TOKENS, 2)) + tilt, rng.normal(size=(2, 2)) / 2)
    return one, one.log_z


@cache
def uniform() -> tuple[Text, float]:
    """The same scores everywhere: every addition rounds in the same direction."""
    one = Text(np.full((TOKENS, 2), 0.1), np.zeros((2, 2)))
    return one, math.fsum([0.1, math.log(2)] * TOKENS)


def bounds(one: Text) -> np.ndarray:
    return np.asarray([0, len(one.node)], dtype=np.int64)


def chain(one: Text, domain: kernel.Domain = "auto") -> float:
    graph = Graph(np.zeros(2), np.zeros(2), one.arcs.reshape(-1))
    return float(kernel.log_partition(graph, bounds(one), one.node, domain=domain)[0])


def listed(one: Text) -> float:
    """Arcs one by one."""
    source, target = (np.asarray(x, dtype=np.int32) for x in ([0, 0, 1, 1], [0, 1, 0, 1]))
    graph = Graph(np.zeros(2), np.zeros(2), one.arcs.reshape(-1), source, target)
    return float(kernel.log_partition(graph, bounds(one), one.node)[0])


def per_token(one: Text) -> float:
    graph = Graph(np.zeros(2), np.zeros(2), np.tile(one.arcs.reshape(-1), (len(one.node), 1)))
    return float(kernel.log_partition(graph, bounds(one), one.node)[0])


def posterior(one: Text) -> float:
    graph = Graph(np.zeros(2), np.zeros(2), one.arcs.reshape(-1))
    return float(kernel.forward_backward(graph, bounds(one), one.node).log_z[0])


def lattice(one: Text) -> float:
    return fstcrf.Lattice.from_arrays(LABELS, one.node, one.arcs).log_partition()


def emissions(one: Text) -> float:
    made = fstcrf.Lattices.from_arrays(LABELS, one.node[None], one.arcs)
    return float(made.log_partition()[0])


def acyclic(one: Text) -> float:
    ends = np.zeros(2)
    machine = sausage_machine(one.node, one.arcs.reshape(-1), ends, ends, LABELS)
    return Lattice.from_machine(machine).log_partition()


def segments(one: Text) -> float:
    """And segments of two tokens that are forbidden: else it is a chain."""
    count = len(one.node)
    start, label = np.repeat(np.arange(count), 2), np.tile([0, 1], count)
    made = Lattice.from_segments(
        count,
        [*start.tolist(), 0],
        [*(start + 1).tolist(), 2],
        [*label.tolist(), 0],
        [*one.node.reshape(-1).tolist(), NEVER],
        LABELS,
        one.arcs,
    )
    return made.log_partition()


def semimarkov(one: Text) -> float:
    found = segment_sums(single(one.arcs), bounds(one), inside(one.node), NONE, np.empty(0))
    return float(found.log_z[0])


def counted(one: Text) -> float:
    ends = np.zeros(2)
    target = np.zeros((1, 1, 2), dtype=np.int32)
    label = np.asarray([0, 1], dtype=np.int32)
    counter = Counter(label, one.arcs, ends, ends, target, np.zeros((1, 1, 2)), np.zeros(1))
    kind = np.zeros(len(one.node), dtype=np.int32)
    return float(expected_steps(counter, bounds(one), one.node, kind).log_z[0])


DOORS: dict[str, Callable[[Text], float]] = {
    "chain": chain,
    "chain, logs": lambda one: chain(one, "log"),
    "arcs listed": listed,
    "arcs of tokens": per_token,
    "posteriors": posterior,
    "lattice": lattice,
    "emissions": emissions,
    "acyclic machine": acyclic,
    "segments": segments,
    "semi-Markov": semimarkov,
    "counted steps": counted,
}


@pytest.mark.thorough
@pytest.mark.parametrize("door", DOORS.values(), ids=DOORS)
def test_a_long_text_is_as_exact_as_a_short_one(
    door: Callable[[Text], float], variant: str
) -> None:
    for one, log_z in (uniform(), text(1.7), text(-40.0)):
        assert abs(door(one) - log_z) <= ULPS * np.spacing(abs(log_z)), one.node[0]


def test_the_comparison_notices() -> None:
    """Sums that are added one by one are out of the tolerance."""
    one, log_z = uniform()
    total = 0.0
    for _ in range(len(one.node)):
        total += 0.1
        total += math.log(2)
    assert abs(total - log_z) > 100 * ULPS * np.spacing(log_z)


def test_blocks_have_the_total_of_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    one, log_z = text(1.7)
    whole = lattice(one)
    monkeypatch.setattr("fstcrf.kernel.blocks.LONG_BYTES", 1000)
    assert lattice(one) == whole == pytest.approx(log_z, rel=1e-15)


def test_a_change_far_away_keeps_the_total(variant: str) -> None:
    """Other potentials at one token that are the same: the parts around it add up to the whole."""
    one, log_z = text(1.7)
    batch = fstcrf.Lattice.from_arrays(LABELS, one.node, one.arcs).dense.engine.bound
    middle = np.asarray([TOKENS // 2], dtype=np.int32)
    zero, ptr = np.zeros(1, dtype=np.int64), np.asarray([0, 1], dtype=np.int64)
    variants = kernel.Variants(zero, ptr, middle, np.zeros(1, np.int32), one.node[middle])
    found = float(kernel.rescored(batch, variants, best=False)[0])
    assert abs(found - log_z) <= ULPS * np.spacing(log_z)


# --- Segments: a score of one token is a matter of that token ------------------------------------

NONE = Extras(np.asarray([0, 0]), np.empty(0, np.int32), np.empty(0, np.int32))
_WIDTH = 8


def single(arcs: Floats, *, longest: int = 1) -> SemiMarkov:
    """Two labels, segments of up to so many tokens."""
    length = np.full((longest + 2, _WIDTH), NEVER)
    length[:longest, :2] = 0.0
    pair = np.zeros((2, _WIDTH))
    pair[:, :2] = arcs
    ends = np.zeros(_WIDTH)
    return SemiMarkov(np.full(2, longest, np.int32), length, pair, ends, ends)


def inside(node: Floats) -> Floats:
    token = np.zeros((len(node), 3, _WIDTH))
    token[:, 1, :2] = node
    return token


@pytest.mark.parametrize("longest", [1, 2, 3])
@pytest.mark.parametrize("low", [-np.inf, -1e15, -1e17, -1e290])
def test_a_forbidden_token_spoils_no_other(longest: int, low: float, variant: str) -> None:
    """Against the same text with a score that is low enough and does not round."""
    node = np.asarray([[0.25, 0.0], [low, 0.0], [0.3, 0.0], [0.7, 0.0], [0.5, -0.5]])
    mild = np.where(node < -900.0, -900.0, node)
    machine, offset = single(np.zeros((2, 2)), longest=longest), np.asarray([0, 5])
    found, wanted = (
        segment_sums(machine, offset, inside(x), NONE, np.empty(0)) for x in (node, mild)
    )
    assert found.log_z[0] == pytest.approx(wanted.log_z[0], rel=1e-14)
    assert found.token == pytest.approx(wanted.token, abs=1e-14)
    best, other = (
        best_segments(machine, offset, inside(x), NONE, np.empty(0)) for x in (node, mild)
    )
    assert best[0][0] == pytest.approx(other[0][0], rel=1e-14)
    assert best[1].tolist() == other[1].tolist()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -1e301])
def test_scores_that_are_no_numbers_are_refused(bad: float) -> None:
    token = inside(np.zeros((3, 2)))
    token[1, 1, 0] = bad
    for ask in (segment_sums, best_segments):
        with pytest.raises(NumericError, match=r"scores of sentence 0: NaN, \+inf or beyond 1e300"):
            ask(single(np.zeros((2, 2))), np.asarray([0, 3]), token, NONE, np.empty(0))
