"""Spans the slow way: "exactly this span is there" is a lattice from which arcs are taken away.

An oracle for what follows all spans along a lattice at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fstcrf.arrays import Bools, Floats
from fstcrf.lattices import ChainRow, Lattice, log_partition
from fstcrf.machines.plans import Program, arc_ends
from fstcrf.text.corpus import Scheme, named_scheme
from fstcrf.text.corpus.schemes import OUTSIDE, split_label

__all__ = ["conditioned_probabilities"]


def conditioned_probabilities(
    lattice: ChainRow, asked: Sequence[tuple[int, int, str]], tape: str, scheme: str = "conlleval"
) -> Floats:
    """The probability of each span (start, end, type), a log Z each."""
    labels, free = lattice.program.labels(tape), with_own_arcs(lattice, tape)
    read = named_scheme(scheme)
    parts = [
        conditioned(free, tape, start, end, SpanEvent(labels, read, kind))
        for start, end, kind in asked
    ]
    whole = Lattice(lattice).log_partition()
    log_z = log_partition([Lattice(part) for part in parts])
    shares: Floats = np.exp(log_z - whole)
    return shares


class SpanEvent:
    """Which successions of labels begin, continue and leave a span of one type.

    Parameters
    ----------
    labels : sequence of L str
    scheme : Scheme
    kind : str
        Type of the span.

    Attributes
    ----------
    mine : bool [L]
        The label has this type.
    begins : bool [L + 1, L]
        From the label before (row L: the start of the sentence) to the first label of the span.
    continues : bool [L, L]
        Both labels belong to the same span.
    ends : bool [L]
        The label may be the last of a span.
    """

    def __init__(self, labels: Sequence[str], scheme: Scheme, kind: str) -> None:
        parts = [split_label(label, scheme) for label in labels]
        mine = np.asarray([k == kind and letter != OUTSIDE for letter, k in parts])
        before = [*parts, (OUTSIDE, "")]
        starts = [[(a, b, ka == kb) in scheme.starts for b, kb in parts] for a, ka in before]
        inside = [[(a, b, ka == kb) in scheme.inside for b, kb in parts] for a, ka in parts]
        last = np.asarray([letter in scheme.last for letter, _ in parts])
        self.mine: Bools = mine
        self.begins: Bools = np.asarray(starts) & mine
        self.continues: Bools = np.asarray(inside) & mine
        self.ends: Bools = mine & last


def with_own_arcs(lattice: ChainRow, tape: str) -> ChainRow:
    """Return the same lattice with the arcs of a tape among its values."""
    program = lattice.program
    chain = program.chain[tape]
    if chain.arc is None:
        return lattice
    chains = [replace(c, arc=None) if c.name == tape else c for c in program.chains]
    own = Program(chains, program.couplings, program.conjuncts)
    arcs = np.broadcast_to(chain.arc, (len(lattice), *chain.arc.shape))
    known = iter(lattice.values)
    return ChainRow(
        own,
        tuple(
            arcs if what.kind == "arc" and what.tape == tape else next(known) for what in own.inputs
        ),
    )


def conditioned(lattice: ChainRow, tape: str, start: int, end: int, event: SpanEvent) -> ChainRow:
    """Keep the paths on which one span lies exactly at ``start : end``."""
    program = lattice.program
    topology = program.chain[tape].topology
    nodes = lattice.state_potentials(tape)
    arcs = next(k for k, i in enumerate(program.inputs) if i.kind == "arc" and i.tape == tape)
    source, target = arc_ends(topology)
    before, after = topology.state_label[source], topology.state_label[target]
    node, score = lattice.values[nodes].copy(), lattice.values[arcs].copy()
    if start > 0:
        score[start, ..., ~event.begins[before, after]] = -np.inf
    else:
        node[0, ~event.begins[len(topology.labels), topology.state_label]] = -np.inf
    score[start + 1 : end, ..., ~event.continues[before, after]] = -np.inf
    node[end - 1, ~event.ends[topology.state_label]] = -np.inf
    if end < len(lattice):
        score[end, ..., event.continues[before, after]] = -np.inf
    return lattice.with_values({nodes: node, arcs: score})
