"""Random graphs, batches, topologies and lattices for hypothesis.

Potentials are multiples of a power of two, so that sums of them are exact: ties are ties.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import hypothesis.strategies as st
import numpy as np
from hypothesis import HealthCheck, assume, settings
from hypothesis.extra import numpy as hnp

from fstcrf.arrays import Floats, Ints, Longs
from fstcrf.kernel import Graph
from fstcrf.lattices import Lattice
from fstcrf.machines.topology import Topology, chain_topology

KINDS = ("dense", "sparse", "per-token", "per-token sparse")
UNITS = (0.125, 4.0, 64.0, 1250.0)  # times −8 .. 8: potentials to ±1, 32, 512, 10,000
FORBIDDEN = 9  # the number that stands for −inf


def fewer(share: int, **options: Any) -> settings:
    """Settings of a costly property: so many times fewer examples than others have."""
    return settings(max_examples=max(1, settings().max_examples // share), **options)


# The fixture only chooses the variant, which no example changes; all variants share the examples.
each_variant = fewer(3, suppress_health_check=[HealthCheck.function_scoped_fixture])


class Case(NamedTuple):
    """A graph and the sentences to run it on."""

    graph: Graph
    offsets: Longs
    node: Floats

    @property
    def bounds(self) -> list[tuple[int, int]]:
        """First token and the one behind the last, of each sentence."""
        return list(zip(self.offsets[:-1].tolist(), self.offsets[1:].tolist(), strict=True))

    def sentence(self, first: int, last: int) -> Case:
        """Return one sentence alone."""
        graph = self.graph
        if graph.per_token:
            graph = Graph(
                graph.initial, graph.final, graph.score[first:last], graph.source, graph.target
            )
        return Case(graph, np.asarray([0, last - first]), self.node[first:last])


@st.composite
def potentials(
    draw: st.DrawFn, shape: tuple[int, ...], *, unit: float | None = None, forbid: bool = True
) -> Floats:
    """Potentials of one magnitude, some of them −inf."""
    factor = draw(st.sampled_from(UNITS)) if unit is None else unit
    high = FORBIDDEN if forbid else FORBIDDEN - 1
    steps = draw(hnp.arrays(np.int8, shape, elements=st.integers(-8, high), fill=st.nothing()))
    return np.where(steps == FORBIDDEN, -np.inf, steps * factor)


@st.composite
def ends(draw: st.DrawFn, states: int, *, unit: float | None = None) -> Floats:
    """Potentials of one end of a sentence: often none at all."""
    return np.zeros(states) if draw(st.booleans()) else draw(potentials((states,), unit=unit))


@st.composite
def arcs(draw: st.DrawFn, states: int) -> tuple[Ints, Ints]:
    """Ends of some arcs, sorted; at least one."""
    chosen = draw(hnp.arrays(np.bool_, states * states, fill=st.nothing()))
    chosen[draw(st.integers(0, states * states - 1))] = True
    source, target = np.divmod(np.flatnonzero(chosen), states)
    return source.astype(np.int32), target.astype(np.int32)


@st.composite
def cases(
    draw: st.DrawFn,
    *,
    kinds: tuple[str, ...] = KINDS,
    max_states: int = 4,
    unit: float | None = None,
    forbid: bool = True,
) -> Case:
    """Sentences of 1 to 4 tokens over a graph of few states: small enough to enumerate."""
    kind = draw(st.sampled_from(kinds))
    states = draw(st.integers(1, max_states))
    lengths = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    offsets = np.cumsum([0, *lengths]).astype(np.int64)
    tokens = int(offsets[-1])
    source, target = draw(arcs(states)) if "sparse" in kind else (None, None)
    n_arcs = states * states if source is None else len(source)
    shape = (tokens, n_arcs) if "per-token" in kind else (n_arcs,)
    score = draw(potentials(shape, unit=unit, forbid=forbid))
    first, last = draw(ends(states, unit=unit)), draw(ends(states, unit=unit))
    if not forbid:
        first, last = (np.where(np.isneginf(e), 0.0, e) for e in (first, last))
    node = draw(potentials((tokens, states), unit=unit, forbid=forbid))
    return Case(Graph(first, last, score, source, target), offsets, node)


@st.composite
def topologies(draw: st.DrawFn, *, max_labels: int = 3, may_forbid: bool = True) -> Topology:
    """Chains of order 0, 1 or 2, with some successions forbidden."""
    labels = "ABCD"[: draw(st.integers(1, max_labels))]
    order = draw(st.integers(0, 2))
    histories = [*labels, None]
    pairs = [(a, b) for a in histories for b in histories if a or b]
    forbidden = draw(st.sets(st.sampled_from(pairs), max_size=4)) if may_forbid else set()
    start = draw(st.sampled_from([None, *labels])) if order == 2 else None
    states = [(a, b) for a, b in pairs if b is not None and (a is not None or start is None)]
    assume(not forbidden.issuperset(states))  # a topology needs a state
    return chain_topology(
        tuple(labels), order, allowed=lambda a, b: (a, b) not in forbidden, start_label=start
    )


@st.composite
def lattices(
    draw: st.DrawFn,
    *,
    labels: tuple[str, ...] | None = None,
    unit: float | None = None,
    length: int | None = None,
) -> Lattice:
    """Lattices from arrays, of 1 to 4 tokens; transitions shared, per-token, or none."""
    names = tuple("ABC"[: draw(st.integers(1, 3))]) if labels is None else labels
    tokens, size = draw(st.integers(1, 4)) if length is None else length, len(names)
    shapes = st.sampled_from([None, (size, size), (tokens - 1, size, size)])
    shape = draw(shapes)
    transitions = None if shape is None else draw(potentials(shape, unit=unit))
    first = draw(st.none() | potentials((size,), unit=unit))
    last = draw(st.none() | potentials((size,), unit=unit))
    node = draw(potentials((tokens, size), unit=unit))
    return Lattice.from_arrays(names, node, transitions, first, last)
