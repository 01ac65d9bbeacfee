"""The inputs of one sentence's program: arrays of potentials, checked, joined and scaled.

Programs are cached: equal labels, transitions and grammars give the same program, so that its
lattices can be computed in one batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import ArrayLike

from fstcrf.arguments import LabelSet, label_tuple, real_array
from fstcrf.arrays import Floats
from fstcrf.errors import NumericError, ShapeError
from fstcrf.kernel import Budget
from fstcrf.lazy import LazyModule, memoised
from fstcrf.machines.plans import Coupling, Program, Search, TapeChain
from fstcrf.machines.topology import Topology, chain_topology, check_pairs

if TYPE_CHECKING:
    from fstcrf.machines import grammar as grammars
    from fstcrf.machines.grammar import Constraint
else:
    grammars = LazyModule("fstcrf.machines.grammar")


class SentenceInputs:
    """The potentials of one sentence, an array for each of ``program.inputs``."""

    def __init__(self, program: Program, values: tuple[Floats, ...]) -> None:
        self.program, self.values = program, values

    def __len__(self) -> int:
        return len(self.values[0])

    @property
    def tapes(self) -> tuple[str, ...]:
        """Names of the tapes."""
        return self.program.tapes

    def state_potentials(self, tape: str) -> int:
        """Return the index in `values` of a tape's node potentials without context."""
        return next(
            k
            for k, entry in enumerate(self.program.inputs)
            if entry.kind == "node" and entry.tape == tape and not entry.context
        )

    def with_program(self, program: Program) -> Self:
        """Return these potentials under another program with the same inputs."""
        return type(self)(program, self.values)

    def with_values(self, changed: Mapping[int, Floats]) -> Self:
        """Return a copy with some arrays replaced, by their index in `values`."""
        values = tuple(changed.get(k, value) for k, value in enumerate(self.values))
        return type(self)(self.program, values)


# --- Lattices from arrays of scores ---------------------------------------------------------------


def array_lattice(
    labels: LabelSet,
    emissions: ArrayLike,
    transitions: ArrayLike | None,
    initial: ArrayLike | None,
    final: ArrayLike | None,
    tape: str,
) -> tuple[Program, tuple[Floats, ...]]:
    """Return the program and the potentials of a lattice; see `Lattice.from_arrays`."""
    names = label_tuple(labels)
    size = len(names)
    check_pairs(size)
    if getattr(emissions, "ndim", 2) == 3:
        raise ShapeError(
            "emissions have three axes, so they are of several sentences: use "
            "fstcrf.Lattices.from_arrays"
        )
    node = potentials(emissions, "emissions", [(None, size)])
    ends = [
        np.zeros(size) if e is None else potentials(e, name, [(size,)])
        for name, e in (("initial", initial), ("final", final))
    ]
    if transitions is None:
        return free_program_of(names, tape, *_bytes(ends)), (node,)
    shapes: list[tuple[int | None, ...]] = [(size, size), (max(len(node) - 1, 0), size, size)]
    arcs = potentials(transitions, "transitions", shapes)
    if arcs.ndim == 2:
        return chain_program(names, tape, arcs.tobytes(), *_bytes(ends)), (node,)
    into = np.zeros((len(node), size * size))  # row t: the arcs into token t
    into[1:] = arcs.reshape(len(arcs), size * size)
    return chain_program(names, tape, None, *_bytes(ends)), (node, into)


def _bytes(arrays: Sequence[Floats]) -> list[bytes]:
    return [a.tobytes() for a in arrays]


@memoised(64)
def chain_program(
    labels: tuple[str, ...], tape: str, arc: bytes | None, initial: bytes, final: bytes
) -> Program:
    """Return the program of a chain; arguments with equal bytes give the same program."""
    chain = TapeChain(
        name=tape,
        topology=free_topology(labels),
        initial=np.frombuffer(initial),
        final=np.frombuffer(final),
        arc=None if arc is None else np.frombuffer(arc),
    )
    return Program([chain])


@memoised(64)
def free_program_of(labels: tuple[str, ...], tape: str, initial: bytes, final: bytes) -> Program:
    """Return the program of a chain whose successions all score 0."""
    return chain_program(labels, tape, np.zeros(len(labels) ** 2).tobytes(), initial, final)


@lru_cache(maxsize=32)
def free_topology(labels: tuple[str, ...]) -> Topology:
    """Return the topology in which every label may follow every label."""
    return chain_topology(labels, 1)


def potentials(values: ArrayLike, name: str, shapes: list[tuple[int | None, ...]]) -> Floats:
    """Return a checked copy of an array of potentials; −inf is allowed."""
    array = real_array(values, name)  # a copy: later changes by the caller have no effect
    if array.shape not in shapes and not any(_fits(array.shape, shape) for shape in shapes):
        expected = " or ".join(f"[{', '.join(_sizes(shape))}]" for shape in shapes)
        raise ShapeError(f"{name} is {list(array.shape)}, expected {expected}")
    if not np.maximum.reduce(array, axis=None, initial=-np.inf) < np.inf:
        place = np.argwhere(~(array < np.inf))[0].tolist()
        raise NumericError(f"{name} has NaN or +inf at {place}; -inf is the way to forbid")
    return array


def _sizes(shape: tuple[int | None, ...]) -> list[str]:
    """Return the sizes of a shape for an error message; free sizes are called T and L."""
    symbols = iter("TL")
    return [next(symbols) if n is None else str(n) for n in shape]


def _fits(shape: tuple[int, ...], expected: tuple[int | None, ...]) -> bool:
    return len(shape) == len(expected) and all(
        n in (None, m) for n, m in zip(expected, shape, strict=True)
    )


# --- Programs derived from other programs: constrained, scaled, joined ----------------------------


@memoised(64)
def constrained(
    program: Program,
    constraints: tuple[Constraint, ...],
    search: Search | None = None,
    budget: Budget | None = None,
) -> Program:
    """Return the program of the paths that a grammar accepts, compiled."""
    labels = {tape: program.labels(tape) for tape in program.tapes}
    bound = grammars.Grammar(constraints).bind(labels)
    return compiled(program.constrained(bound, search=search, budget=budget))


@memoised(64)
def free_program(program: Program) -> Program:
    """Return a program without its grammar."""
    return compiled(Program(program.chains, program.couplings)) if program.conjuncts else program


@memoised(64)
def scaled_program(program: Program, factor: float, *, grammar: bool) -> Program:
    """Return a program with scaled potentials; `grammar`: scale the grammar's weights as well."""
    return program.scaled(factor, grammar=grammar)


def joined(
    parts: Sequence[SentenceInputs],
    names: Sequence[Mapping[str, str]],
    coupling: Mapping[tuple[int, int], Floats],
) -> tuple[Program, tuple[Floats, ...]]:
    """Return the program and the potentials of a composition.

    `names` has new names for the tapes of each part. `coupling` maps the numbers of two tapes to
    potentials of their labels, float64 [L, M] or [T, L, M].
    """
    tapes = [new[tape] for part, new in zip(parts, names, strict=True) for tape in part.tapes]
    tables = [((tapes[a], tapes[b]), table) for (a, b), table in coupling.items()]
    per_token = [(tapes, v) for tapes, v in tables if v.ndim == 3]
    program = _joined(
        tuple(part.program for part in parts),
        tuple(tuple(new.values()) for new in names),
        tuple((tapes, v.tobytes()) for tapes, v in tables if v.ndim == 2),
        tuple(tapes for tapes, _ in per_token),
    )
    values: list[Floats] = []
    for couples in (False, True):  # a program lists the inputs of all chains before the couplings
        for part in parts:
            inputs = zip(part.program.inputs, part.values, strict=True)
            values += [v for i, v in inputs if (i.kind == "coupling") == couples]
    return program, (*values, *(v for _, v in per_token))


def distinct_tapes(tapes: Sequence[tuple[str, ...]]) -> list[dict[str, str]]:
    """Return new names for the tapes of each lattice: unchanged, or numbered if two are equal."""
    names = [tape for group in tapes for tape in group]
    if len(set(names)) == len(names):
        return [{tape: tape for tape in group} for group in tapes]
    return [{tape: f"{tape}{k}" for tape in group} for k, group in enumerate(tapes)]


@memoised(64)
def _joined(
    programs: tuple[Program, ...],
    names: tuple[tuple[str, ...], ...],
    fixed: tuple[tuple[tuple[str, str], bytes], ...],
    per_token: tuple[tuple[str, str], ...],
) -> Program:
    """Return the joint program of several programs, with couplings that are fixed or per token."""
    chains: list[TapeChain] = []
    couplings: list[Coupling] = []
    conjuncts = []
    for program, renamed in zip(programs, names, strict=True):
        new = dict(zip(program.tapes, renamed, strict=True))
        chains += [_renamed(chain, new) for chain in program.chains]
        couplings += [replace(c, tapes=tuple(new[t] for t in c.tapes)) for c in program.couplings]
        conjuncts += [replace(a, tapes=tuple(new[t] for t in a.tapes)) for a in program.conjuncts]
    sizes = {chain.name: len(chain.labels) for chain in chains}
    for tapes, table in fixed:
        couplings.append(Coupling(tapes, np.frombuffer(table).reshape([sizes[t] for t in tapes])))
    couplings += [Coupling(tapes, None) for tapes in per_token]
    search: Search = next((p.search for p in programs if p.search != "auto"), "auto")
    budget = next((p.budget for p in programs if p.budget is not None), None)
    return compiled(Program(chains, couplings, conjuncts, search, budget))


def compiled(program: Program) -> Program:
    """Compile a program now, so that its errors are raised here and not on first use."""
    _ = program.decoder
    return program


def _renamed(chain: TapeChain, new: Mapping[str, str]) -> TapeChain:
    return replace(
        chain,
        name=new[chain.name],
        arc_context=tuple(new[t] for t in chain.arc_context),
        node_contexts=tuple(tuple(new[t] for t in c) for c in chain.node_contexts),
        tables=tuple((tuple(new[t] for t in c), v) for c, v in chain.tables),
    )
