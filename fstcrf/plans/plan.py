"""What a composition compiles to and what it costs, for people."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fstcrf.plans.program import Program

__all__ = [
    "AxisPlan",
    "Plan",
    "plan_of",
]


@dataclass(frozen=True, slots=True)
class AxisPlan:
    """One step of a plan: the axis of a tape.

    Parameters
    ----------
    tape : str
    n_labels, n_states, n_arcs : int
        Arcs: those that are not forbidden by structure.
    kind : {"dense", "sparse"}
        How its step is run: as a full matrix, or arc by arc.
    tables : int
        Tables of arc potentials, more than one where they depend on other tapes' labels.
    reads : tuple of str
        Tapes whose labels its potentials depend on.
    operations : int
        Multiply-adds of its step at a token.
    """

    tape: str
    n_labels: int
    n_states: int
    n_arcs: int
    kind: str
    tables: int
    reads: tuple[str, ...]
    operations: int


@dataclass(frozen=True, slots=True)
class Plan:
    """What was decided and what it costs.

    Parameters
    ----------
    axes : tuple of AxisPlan
        In the order in which they are advanced.
    grammar : tuple of (str, str)
        Each conjunct and where it went.
    n_residual, n_edges : int
        States and edges of the residual automaton that best paths are found over; 1 and 0 without
        one.
    n_lazy : int
        Conjuncts of the grammar whose states are made as they are met, when best paths are
        searched; sums need them multiplied out.
    cells : int
        Joint states at a token, residual ones included.
    operations : int
        Multiply-adds a token, potentials included.
    dense_operations : int
        What a product that is not factored would take.
    """

    axes: tuple[AxisPlan, ...]
    grammar: tuple[tuple[str, str], ...]
    n_residual: int
    n_edges: int
    cells: int
    operations: int
    dense_operations: int
    n_lazy: int = 0

    def __str__(self) -> str:
        lines = [
            f"{'tape':<12} {'labels':>7} {'states':>7} {'arcs':>9}  {'step':<7} {'operations':>12}"
        ]
        for a in self.axes:
            step = f"{a.tape:<12} {a.n_labels:>7,} {a.n_states:>7,} {a.n_arcs:>9,}  {a.kind:<7} "
            reads = f"  reads {', '.join(a.reads)}" if a.reads else ""
            lines.append(f"{step}{a.operations:>12,}{reads}")
        lines += [f"grammar: {name}: {where}" for name, where in self.grammar]
        if self.n_residual > 1:
            lines.append(
                f"residual automaton: {self.n_residual:,} states, {self.n_edges:,} edges; "
                f"multiplies the cost by {self.n_residual:,}"
            )
        if self.n_lazy:
            lines.append(
                f"searched lazily: {self.n_lazy} automata; best paths cost about what they cost "
                "without them"
            )
        lines.append(f"joint states a token: {self.cells:,}")
        factored = f" (not factored: {self.dense_operations:,})" if len(self.axes) > 1 else ""
        lines.append(f"operations a token: {self.operations:,}{factored}")
        return "\n".join(lines)


def plan_of(program: Program) -> Plan:
    """Return the plan of a program."""
    decoder = program.decoder
    machine, residual = decoder.machine, decoder.machine.n_residual
    cells = int(np.prod(machine.shape)) * residual
    axes = []
    for tape, axis in zip(program.order, machine.axes, strict=True):
        chain = program.chain[tape]
        dense = axis.source is None
        per_cell = axis.n_states if dense else axis.n_arcs / axis.n_states
        axes.append(
            AxisPlan(
                tape=tape,
                n_labels=len(chain.labels),
                n_states=axis.n_states,
                n_arcs=axis.n_arcs,
                kind="dense" if dense else "sparse",
                tables=axis.contexts,
                reads=chain.reads,
                operations=round(cells * per_cell),
            )
        )
    edges = 0 if machine.residual is None else len(machine.residual.source)
    plane = cells // residual
    operations = sum(a.operations for a in axes) + edges * plane + len(machine.factors) * plane
    arcs = int(np.prod([a.n_arcs for a in axes], dtype=np.float64)) * residual
    lazy = 0 if decoder.conjunction is None else len(decoder.conjunction.readers)
    return Plan(tuple(axes), program.folding.names, residual, edges, cells, operations, arcs, lazy)
