"""Derivatives of log Z by the scores of a lattice.

The derivative by a score is the expected number of times that a path uses the score. For an
emission, it is the probability of the label at the token. For a transition, it is the expected
number of tokens with the second label after the first. For an arc of a transducer, it is the
expected number of times that a path takes the arc.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeAlias, cast

import numpy as np

from fstcrf.arrays import Floats
from fstcrf.errors import AmbiguousError
from fstcrf.lattices.engine import Row
from fstcrf.machines import ambiguity

if TYPE_CHECKING:
    from fstcrf.lattices.arcs import ArcEngine

_Parts: TypeAlias = Iterator[tuple[str, Floats]]

PARTS = ("emission", "transition", "initial", "final", "arc", "outside")
"""Names of the scores of a lattice, apart from the scores of transducers."""


def gradient(row: Row) -> dict[str, Floats]:
    """Return the derivatives of log Z of a row; see `Lattice.gradient`."""
    row.check_alive()
    inputs = [k for k, tape in enumerate(row.on) if not tape.output]
    one_tape = len(inputs) == 1 and not {tape.name for tape in row.on if tape.output} & {*PARTS}
    scores = {}
    for k in inputs:
        parts = _of_arcs(row) if k == 0 and row.n_input_arcs is not None else _of_tokens(row, k)
        for part, values in parts:
            scores[part if one_tape else f"{row.on[k].name}.{part}"] = values
    return scores | dict(_of_transducers(row))


def _of_tokens(row: Row, k: int) -> _Parts:
    """Yield the derivatives by emissions, transitions, and initial and final scores of a tape."""
    engine = row.engine.time_aligned
    if row.on[k].segments:  # frames have emissions only
        yield "emission", engine.marginals([k])[0]
        return
    if row.has_token_transitions(k):
        (node,), (pair,) = engine.marginals([k]), engine.successions([k])
        yield from (("emission", node), ("transition", pair[1:]))
    else:
        node, pair = engine.label_counts(k)
        yield from (("emission", node), ("transition", pair))
    empty = np.zeros(len(row.on[k].labels))
    yield "initial", node[0].copy() if len(node) else empty
    yield "final", node[-1].copy() if len(node) else empty.copy()


def _of_arcs(row: Row) -> _Parts:
    """Yield the derivatives by the scores of arcs, and of successive segments."""
    written = row.arcs()
    if not row.on[0].segments:
        yield "arc", written.arc_probabilities()
        return
    counts, arcs = written.expectations(), cast("ArcEngine", row.engine)
    yield from zip(("arc", "transition", "initial", "final"), counts, strict=True)
    outside = (arcs.label[:, 0] < 0) & (arcs.under[:, 0] >= 0) & ~arcs.carries[:, 0]
    if outside.any():  # tokens outside of spans
        place, share = arcs.position[arcs.source[outside]], arcs.posterior[outside]
        yield "outside", np.bincount(place, share, row.length).astype(np.float64)


def _of_transducers(row: Row) -> _Parts:
    """Yield the derivatives by the scores of arcs and final states of each transducer."""
    for machine in row.machines:
        form = ambiguity.unambiguous(machine)
        if machine not in (form.machine, getattr(form.machine, "of", None)):
            raise AmbiguousError(
                f"{machine!r} has several runs over one string, and its tropical semiring "
                "keeps only the best one, so its arcs have no gradient: use semiring='log' "
                "to sum over runs, or a machine with one run per string"
            )
    sizes = [len(machine.source) + len(machine.final) for machine in row.machines]
    names = iter([tape.name for tape in row.on if tape.output])
    for number, counts in enumerate(row.engine.move_counts(sizes) if sizes else ()):
        acceptor = row.machines[number].tape is None
        yield f"acceptor {number}" if acceptor else next(names), counts
