"""Probabilities of spans: the mass of the paths on which exactly this segment is there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fstcrf.corpus import Scheme, named_scheme
from fstcrf.errors import NoPathError, OptionError
from fstcrf.lattice.batch import log_partition
from fstcrf.lattice.lattice import Lattice
from fstcrf.lattice.span_events import SpanEvent, span_event
from fstcrf.once import memoised
from fstcrf.plans import Program, arc_ends

__all__ = ["span_probabilities"]

Floats = NDArray[np.float64]

_RUN_BYTES = 64_000_000


def span_probabilities(
    lattice: Lattice, spans: Sequence[tuple[int, int, str]], tape: str, scheme: str | Scheme
) -> Floats:
    """Return the probability of each segment (start, end, type) on one tape.

    Raises
    ------
    OptionError
        No such span in a sentence of this length, or no label of this type.
    NoPathError
        Every label sequence is forbidden.
    """
    labels = lattice.program.labels(tape)
    for start, end, _ in spans:
        if not 0 <= start < end <= len(lattice):
            raise OptionError(f"span {start}:{end} in a sentence of {len(lattice)} tokens")
    events = [span_event(labels, named_scheme(scheme), kind) for _, _, kind in spans]
    log_z = lattice.log_partition()
    if log_z == -np.inf:
        lattice.best()  # raises, with the place
        raise NoPathError("every label sequence is forbidden")
    free = _with_own_arcs(lattice, tape)
    size = sum(v.nbytes for v in free.values)
    run = max(1, _RUN_BYTES // max(1, size))  # each has its own potentials
    found = np.empty(len(spans))
    for first in range(0, len(spans), run):
        conditioned = [
            _conditioned(free, tape, start, end, event)
            for (start, end, _), event in list(zip(spans, events, strict=True))[first : first + run]
        ]
        found[first : first + run] = log_partition(conditioned)
    return np.minimum(1.0, np.exp(found - log_z))


@memoised(64)
def _moving_program(program: Program, tape: str) -> Program:
    """Return the program in which every sentence brings the arcs of one tape."""
    chains = [replace(c, arc=None) if c.name == tape else c for c in program.chains]
    return Program(chains, program.couplings, program.conjuncts)


def _with_own_arcs(lattice: Lattice, tape: str) -> Lattice:
    """Return the same lattice with the arcs of a tape among its values."""
    program = lattice.program
    chain = program.chain[tape]
    if chain.arc is None:
        return lattice
    moving = _moving_program(program, tape)
    arcs = np.broadcast_to(chain.arc, (len(lattice), *chain.arc.shape))
    known = iter(lattice.values)
    return Lattice(
        moving,
        tuple(
            arcs if what.kind == "arc" and what.tape == tape else next(known)
            for what in moving.inputs
        ),
    )


def _conditioned(lattice: Lattice, tape: str, start: int, end: int, event: SpanEvent) -> Lattice:
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
