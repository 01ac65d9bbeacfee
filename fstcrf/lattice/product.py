"""Lattices composed: several tapes side by side, coupled, weighted, under a grammar."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import permutations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fstcrf.arguments import real_array
from fstcrf.errors import OptionError, ShapeError
from fstcrf.grammar import Grammar
from fstcrf.lattice.lattice import Lattice
from fstcrf.lattice.tapes import potentials
from fstcrf.once import memoised
from fstcrf.plans import Chain, Coupling, Program, Search

__all__ = ["constrained", "free_program", "product", "scaled_program", "searched"]

Floats = NDArray[np.float64]


def constrained(lattice: Lattice, grammar: Grammar) -> Lattice:
    """Return the lattice of the paths that a grammar accepts, with its scores added.

    Raises
    ------
    GrammarError
        A grammar that does not go with the labels.
    TooLargeError
        A product too large to expand.
    """
    return Lattice(_constrained(lattice.program, grammar), lattice.values)


@memoised(64)
def _constrained(program: Program, grammar: Grammar) -> Program:
    labels = {tape: program.labels(tape) for tape in program.tapes}
    return _compiled(program.constrained(grammar.bind(labels)))


def searched(lattice: Lattice, search: Search) -> Lattice:
    """Return the lattice whose best paths are searched in another way."""
    return Lattice(_searched(lattice.program, search), lattice.values)


@memoised(64)
def _searched(program: Program, search: Search) -> Program:
    return _compiled(Program(program.chains, program.couplings, program.conjuncts, search))


@memoised(64)
def free_program(program: Program) -> Program:
    """Return a program without its grammar."""
    return _compiled(Program(program.chains, program.couplings)) if program.conjuncts else program


@memoised(64)
def scaled_program(program: Program, factor: float, *, grammar: bool) -> Program:
    """Return `Program.scaled`, compiled once."""
    return program.scaled(factor, grammar=grammar)


def product(
    lattices: Sequence[Lattice],
    *,
    coupling: Mapping[tuple[int, int], ArrayLike] | None = None,
    weights: Sequence[float] | None = None,
) -> Lattice:
    """Return the composition of lattices of one sentence: scores add, tapes stand side by side.

    Parameters
    ----------
    lattices : sequence of Lattice
        Of equal length, one or more tapes each.
    coupling : mapping of (int, int) to [L1, L2] or [T, L1, L2], optional
        Potentials of the labels that two lattices, by position, give the same token; axes in the
        order of their ``labels``.
    weights : sequence of float, optional
        Factor of each lattice's potentials, at least 0; ones when absent.

    Raises
    ------
    ShapeError
        Lattices of different lengths, couplings of other shapes, another number of weights.
    OptionError
        Negative weights; a coupling of a lattice with itself or of one with several tapes.
    NumericError
        NaN or +inf in a coupling.
    """
    if not lattices:
        raise OptionError("nothing to compose: give at least one lattice")
    lengths = {len(lattice) for lattice in lattices}
    if len(lengths) > 1:
        raise ShapeError(f"lattices of {sorted(lengths)} tokens: they must be of one sentence")
    parts = list(lattices) if weights is None else _weighted(lattices, weights)
    names = _distinct([lattice.tapes for lattice in parts])
    length = lengths.pop()
    tables = _couplings(parts, names, {} if coupling is None else coupling, length)
    per_token = [(tapes, v) for tapes, v in tables if v.ndim == 3]
    program = _joined(
        tuple(part.program for part in parts),
        tuple(tuple(new.values()) for new in names),
        tuple((tapes, v.tobytes()) for tapes, v in tables if v.ndim == 2),
        tuple(tapes for tapes, _ in per_token),
    )
    values: list[Floats] = []
    for part in parts:  # nodes and arcs of all chains come before all couplings
        own = zip(part.program.inputs, part.values, strict=True)
        values += [v for i, v in own if i.kind != "coupling"]
    for part in parts:
        own = zip(part.program.inputs, part.values, strict=True)
        values += [v for i, v in own if i.kind == "coupling"]
    return Lattice(program, (*values, *(v for _, v in per_token)))


def _weighted(lattices: Sequence[Lattice], weights: Sequence[float]) -> list[Lattice]:
    if len(weights) != len(lattices):
        raise ShapeError(f"{len(weights)} weights for {len(lattices)} lattices")
    factors = real_array(weights, "weights", error=OptionError).tolist()
    if any(not 0 <= w < np.inf for w in factors):
        raise OptionError(f"weights are {factors}, expected numbers from 0")
    return [
        lattice if weight == 1.0 else lattice.weighted(weight)
        for lattice, weight in zip(lattices, factors, strict=True)
    ]


def _distinct(tapes: Sequence[tuple[str, ...]]) -> list[dict[str, str]]:
    """Return new names for the tapes of each lattice: their own, numbered where they clash."""
    every = [tape for group in tapes for tape in group]
    if len(set(every)) == len(every):
        return [{tape: tape for tape in group} for group in tapes]
    return [{tape: f"{tape}{k}" for tape in group} for k, group in enumerate(tapes)]


def _couplings(
    parts: Sequence[Lattice],
    names: Sequence[Mapping[str, str]],
    coupling: Mapping[tuple[int, int], ArrayLike],
    length: int,
) -> list[tuple[tuple[str, str], Floats]]:
    found = []
    if not isinstance(coupling, Mapping):
        raise OptionError(
            "coupling= is a mapping: {(0, 1): potentials of the labels of lattices 0 and 1}"
        )
    for key, table in coupling.items():
        if key not in permutations(range(len(parts)), 2):
            raise OptionError(f"coupling {key}: expected two positions below {len(parts)}")
        a, b = key
        if any(len(parts[k].tapes) > 1 for k in key):
            raise OptionError(f"coupling {key}: a lattice of several tapes; couple its parts")
        tapes = names[a][parts[a].tapes[0]], names[b][parts[b].tapes[0]]
        sizes = len(parts[a].labels), len(parts[b].labels)
        shapes: list[tuple[int | None, ...]] = [sizes, (length, *sizes)]
        found.append((tapes, potentials(table, f"coupling {key}", shapes)))
    return found


@memoised(64)
def _joined(
    programs: tuple[Program, ...],
    names: tuple[tuple[str, ...], ...],
    fixed: tuple[tuple[tuple[str, str], bytes], ...],
    per_token: tuple[tuple[str, str], ...],
) -> Program:
    """Return the program of several, compiled once for the same programs and couplings."""
    chains: list[Chain] = []
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
    search: Search = "auto"
    for program in programs:
        search = program.search if search == "auto" else search
    return _compiled(Program(chains, couplings, conjuncts, search))


def _compiled(program: Program) -> Program:
    """Compile at once: what is too large or contradicts itself is said here, not when asked."""
    _ = program.decoder
    return program


def _renamed(chain: Chain, new: Mapping[str, str]) -> Chain:
    return replace(
        chain,
        name=new[chain.name],
        arc_context=tuple(new[t] for t in chain.arc_context),
        node_contexts=tuple(tuple(new[t] for t in c) for c in chain.node_contexts),
        tables=tuple((tuple(new[t] for t in c), v) for c, v in chain.tables),
    )
