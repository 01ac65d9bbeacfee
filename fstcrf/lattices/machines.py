"""Lattices as machines and as arrays of joint states; acceptors as lattices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product, zip_longest

import numpy as np

from fstcrf import kernel
from fstcrf.arguments import LabelSet
from fstcrf.arrays import Bools, Floats, Ints, Longs, Ragged
from fstcrf.errors import DataError, ShapeError, TooLargeError
from fstcrf.kernel import acyclic
from fstcrf.lattices.inputs import SentenceInputs
from fstcrf.machines.algebra import made, merged, trimmed
from fstcrf.machines.machine import Machine
from fstcrf.machines.openfst import EPSILON, symbols
from fstcrf.machines.transducer import Transducer
from fstcrf.machines.ways import on_paths

# --- A machine as a lattice -----------------------------------------------------------------------


def acyclic_acceptor(fst: Machine) -> tuple[Machine, Longs]:
    """Return the part of an acceptor on complete paths, and the original numbers of its arcs.

    States are in topological order, the arcs of a state in the order of their labels. The numbers
    are int64 [A].
    """
    ends, usable = fst.final > -np.inf, fst.score > -np.inf
    arcs, useful = on_paths(fst.source, fst.target, ends, usable)
    _check_acceptor(fst, arcs)
    useful[0] = True
    number = np.cumsum(useful) - 1
    source, target = (number[x[arcs]].astype(np.int32) for x in (fst.source, fst.target))
    read, final = fst.input[arcs], fst.final[useful]
    if (target <= source).any():
        number = _topological(source, target, read < 0, len(final))
        source, target = number[source], number[target]
        final = final[np.argsort(number)]
    order = np.lexsort((read, source))
    part = source[order], read[order], read[order], target[order], fst.score[arcs[order]]
    acceptor = replace(fst, tape=None, output=fst.input, output_symbols=fst.input_symbols)
    return made(acceptor, [part], final), arcs[order]


def _check_acceptor(machine: Machine, arcs: Longs) -> None:
    _, place = merged(machine.input_symbols, machine.output_symbols)
    different = arcs[machine.input[arcs] != place[machine.output[arcs]]]
    if len(different):
        arc = different[0]
        read, written = (
            repr((*names, EPSILON)[symbol])
            for names, symbol in (
                (machine.input_symbols, machine.input[arc]),
                (machine.output_symbols, machine.output[arc]),
            )
        )
        raise DataError(
            f"the Fst is not an acceptor: an arc of state {machine.source[arc]} reads {read} "
            f"and writes {written}; project the Fst on its output first"
        )


def _topological(source: Ints, target: Ints, silent: Bools, states: int) -> Ints:
    number, cycle = acyclic.topological(Ragged.from_rows(source, states).offsets, target)
    if cycle >= 0:
        row = Ragged.from_rows(source[silent], states).offsets
        _, loop = acyclic.topological(row, target[silent])
        fault = "a cycle" if loop < 0 else "an epsilon loop"
        raise DataError(
            f"the Fst is cyclic, there is {fault} through state "
            f"{cycle if loop < 0 else loop} (numbered after removing states that are on "
            "no path); a lattice must be acyclic: compose the Fst with a sentence first"
        )
    return number


def check_labels(machine: Machine, labels: LabelSet) -> None:
    """Raise a DataError if the labels are not the symbols of a machine, in the same order."""
    names = symbols(labels)[1:]
    if names != machine.input_symbols:
        pairs = zip_longest((*map(repr, machine.input_symbols),), map(repr, names))
        k, (read, label) = next((k, pair) for k, pair in enumerate(pairs, 1) if pair[0] != pair[1])
        raise DataError(
            f"the symbols of the Fst are not these labels: symbol {k} is {read or 'missing'} in "
            f"one and {label or 'missing'} in the other"
        )


# --- Lattices as machines of OpenFst --------------------------------------------------------------

_MAX_ARCS = 30_000_000


def lattice_machine(lattice: SentenceInputs) -> Transducer:
    """Return a lattice as an acceptor whose symbols are the joint labels of all tapes."""
    _check_size(lattice, max(len(lattice) - 1, 0))
    joint = joint_arrays(lattice)
    names = tuple(joint_symbol(parts) for parts in joint.names)
    symbols(names)  # raises if a symbol table cannot hold them
    flat = joint.step.reshape(len(joint.step), len(joint.label) ** 2)
    arcs = flat if joint.per_token else flat[0]
    label = joint.label.astype(np.int32)
    machine = sausage_machine(joint.node, arcs, joint.initial, joint.final, names, label)
    return machine if len(lattice) else replace(machine, final=np.full(1, joint.empty))


def sausage_machine(
    node: Floats,
    arcs: Floats,
    initial: Floats,
    final: Floats,
    names: tuple[str, ...],
    state_label: Ints | None = None,
) -> Transducer:
    """Return the acceptor of one sentence's chain, trimmed to complete paths.

    It has a start state, and the states of the chain for each token. An arc has the label of its
    target, and the potentials of the arc and of its target.

    Parameters
    ----------
    node : float64 [T, S]
        Potentials of the states.
    arcs : float64 [S * S] or [T, S * S]
        Potentials of the arcs from i to j, at ``i * S + j``. With T rows, row t has the arcs into
        token t; the first row is ignored.
    initial, final : float64 [S]
        Potentials of the first and the last state.
    names : tuple of str
        The symbols of the labels.
    state_label : int32 [S], optional
        Label of each state; by default the number of the state.

    Raises
    ------
    ShapeError
        The sizes disagree.
    NumericError
        A potential is NaN or +inf.
    """
    tokens, states = node.shape
    if arcs.shape not in ((states**2,), (tokens, states**2)) or {initial.shape, final.shape} != {
        (states,)
    }:
        shapes = [list(array.shape) for array in (node, arcs, initial, final)]
        raise ShapeError(f"node, arcs, initial and final are {shapes}: the shapes do not match")
    first = np.arange(states, dtype=np.int32)
    label = first if state_label is None else state_label
    if not tokens:
        empty = first[:0]
        columns = empty, empty, empty, empty, np.empty(0)
        return Transducer(*columns, np.zeros(1), names, names, tape=None)
    into = np.arange(1, tokens, dtype=np.int32)[:, None]  # token of the target of an arc
    before, after = np.repeat(first, states), np.tile(first, states)
    score = (arcs[1:] if arcs.ndim == 2 else arcs) + node[1:, after]
    last = np.full(1 + tokens * states, -np.inf)
    last[-states:] = final
    read = np.concatenate([label, np.tile(label[after], tokens - 1)])
    machine = Transducer(
        source=np.concatenate([0 * first, ((into - 1) * states + before + 1).reshape(-1)]),
        input=read,
        output=read,
        target=np.concatenate([first + 1, (into * states + after + 1).reshape(-1)]),
        score=np.concatenate([initial + node[0], score.reshape(-1)]),
        final=last,
        input_symbols=names,
        output_symbols=names,
        tape=None,
    )
    return trimmed(machine)


def joint_symbol(labels: Sequence[str]) -> str:
    r"""Return one symbol for the labels of several tapes, joined by ``|``.

    Within labels, ``|`` and backslashes are escaped by a backslash, so that different tuples have
    different symbols. The label of a single tape is returned unchanged.

    Examples
    --------
    >>> print(joint_symbol(["N", "B-NP"]), joint_symbol(["a|b", "c"]), joint_symbol(["a|b"]))
    N|B-NP a\|b|c a|b
    """
    if len(labels) == 1:
        return labels[0]
    return "|".join(label.replace("\\", "\\\\").replace("|", "\\|") for label in labels)


@dataclass(frozen=True, slots=True)
class JointArrays:
    """The potentials of a lattice over its S joint states, as arrays."""

    node: Floats  # [T, S]
    step: Floats  # [1 or T, S, S] potentials of arcs, from row to column, into each token
    initial: Floats  # [S]
    final: Floats  # [S]
    label: Longs  # [S] joint label of each state
    names: list[tuple[str, ...]]  # labels of the tapes, for each joint label
    per_token: bool  # whether arc potentials differ between tokens
    empty: float  # score of the path without tokens


def joint_arrays(lattice: SentenceInputs) -> JointArrays:
    """Return the potentials of a lattice over its joint states."""
    machine = lattice.program.machine
    per_token = any(axis.score is None for axis in machine.axes)
    _check_size(lattice, len(lattice) if per_token else 1)
    factors, axes = _values(lattice)
    node = _node(machine, factors, len(lattice))
    step = _joint_arcs(machine, axes)
    initial, final = machine.initial.reshape(-1), machine.final.reshape(-1)
    label, names = _joint_labels(lattice)
    if machine.residual is not None:
        parts = node, step, initial, final
        node, step, initial, final = _with_residual(machine, machine.residual, *parts)
        label = np.tile(label, machine.n_residual)
    empty = lattice.program.empty_score
    return JointArrays(node, step, initial, final, label, names, per_token, empty)


def joint_tokens(lattice: SentenceInputs) -> Floats:
    """Return potentials of joint states with those of beginning and ending, float64 [T, S].

    The program has order zero.
    """
    machine = lattice.program.machine
    ends = np.zeros((len(lattice), machine.outer * machine.width))
    ends[:1] += machine.initial.reshape(-1)
    ends[-1:] += machine.final.reshape(-1)
    return ends + joint_nodes(lattice)


def joint_nodes(lattice: SentenceInputs) -> Floats:
    """Return the potentials of joint states, float64 [T, S]: `JointArrays.node`."""
    machine = lattice.program.machine
    node = _node(machine, _values(lattice)[0], len(lattice))
    return node if machine.residual is None else np.tile(node, machine.residual.n_states)


def _check_size(lattice: SentenceInputs, times: int) -> None:
    """Raise a TooLargeError if `times` copies of the arcs between two tokens are too many."""
    machine = lattice.program.machine
    states = int(np.prod(machine.shape)) * machine.n_residual
    if states**2 * times > _MAX_ARCS:
        raise TooLargeError(
            f"the lattice has {states:,} joint states at every token, {states**2:,} arcs between "
            "two tokens: too many to write out; restrict it, or take its parts"
        )


def _values(lattice: SentenceInputs) -> tuple[list[Floats], list[Floats]]:
    """Return the potentials of factors and of axes, [T, ...], or [1, ...] if tokens share them."""
    machine = lattice.program.machine
    per_token = iter(lattice.program.per_token(lattice.values))
    factors = [f.value[None] if f.value is not None else next(per_token) for f in machine.factors]
    axes = [a.score[None] if a.score is not None else next(per_token) for a in machine.axes]
    return factors, axes


def _joint_labels(lattice: SentenceInputs) -> tuple[Longs, list[tuple[str, ...]]]:
    """Return the joint label of each joint state, and the labels of each joint label."""
    program = lattice.program
    states = dict(
        zip(program.order, (s.reshape(-1) for s in np.indices(program.shape)), strict=True)
    )
    labels = [program.chain[t].topology.state_label[states[t]] for t in program.tapes]
    sizes = [len(program.labels(t)) for t in program.tapes]
    names = list(product(*(program.labels(t) for t in program.tapes)))
    return np.ravel_multi_index(labels, sizes), names


def _node(machine: kernel.JointChain, factors: list[Floats], length: int) -> Floats:
    total = np.zeros((length, machine.outer, machine.width))
    for factor, value in zip(machine.factors, factors, strict=True):
        rows = np.zeros(machine.outer, np.int32) if factor.place is None else factor.place
        total = total + value[:, rows]
    return total.reshape(length, machine.outer * machine.width)


def _joint_arcs(machine: kernel.JointChain, axes: list[Floats]) -> Floats:
    """Return the scores of all arcs between joint states, [1 or T, N, N]."""
    states = [s.reshape(-1) for s in np.indices(machine.shape)]
    size = len(states[0])
    total: Floats = np.zeros((1, size, size))
    before = np.zeros(size, dtype=np.int64)  # outer index of the axis at each joint state
    for axis, score, state in zip(machine.axes, axes, states, strict=True):
        n = axis.n_states
        table = score
        if axis.source is not None and axis.target is not None:
            table = np.full((*score.shape[:2], n * n), -np.inf)
            table[:, :, axis.source.astype(np.int64) * n + axis.target] = score
        table = table.reshape(*table.shape[:2], n, n)
        context = np.zeros(size, np.int64) if axis.place is None else axis.place[before]
        total = total + table[:, context[None, :], state[:, None], state[None, :]]
        before = before * n + state
    return total


def _with_residual(
    machine: kernel.JointChain,
    residual: kernel.Residual,
    node: Floats,
    step: Floats,
    initial: Floats,
    final: Floats,
) -> tuple[Floats, Floats, Floats, Floats]:
    """Return potentials over pairs of a residual state and a joint state."""
    n, size = residual.n_states, node.shape[1]
    outer = np.repeat(np.arange(machine.outer), machine.width)
    last = np.tile(np.arange(machine.width), machine.outer)
    rows = np.zeros(size, np.int32) if residual.place is None else residual.place[outer]
    columns = last if residual.width > 1 or machine.width == 1 else np.zeros_like(last)
    edge = np.full((n, n, size), -np.inf)
    for e, (q, r) in enumerate(zip(residual.source, residual.target, strict=True)):
        edge[q, r] = np.maximum(edge[q, r], residual.value[e, rows, columns])
    wide = step[:, None, :, None, :] + edge[None, :, None, :, :]
    begin = (residual.initial[:, None, None] + edge).max(axis=0) + initial
    end = residual.final[:, None] + final
    return (
        np.tile(node, n),
        wide.reshape(len(step), n * size, n * size),
        begin.reshape(-1),
        end.reshape(-1),
    )
