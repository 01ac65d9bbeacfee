"""Lattices and programs made of others: composed, coupled, scaled, under a grammar."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import permutations

import numpy as np
from numpy.typing import ArrayLike

from fstcrf.arguments import real_array, real_number
from fstcrf.arrays import Floats
from fstcrf.errors import OptionError, ShapeError
from fstcrf.grammar import Constraint, Grammar
from fstcrf.kernel import Budget
from fstcrf.lattice.tapes import Taped, TapedT, potentials
from fstcrf.once import memoised
from fstcrf.plans import Chain, Coupling, Program, Search, scaled
from fstcrf.plans.program import searched as other_search

__all__ = ["constrained", "free_program", "joined", "scaled_lattice", "searched"]


def constrained(
    program: Program,
    grammar: Grammar,
    search: Search | None = None,
    budget: Budget | None = None,
) -> Program:
    """Return the program of the paths that a grammar accepts, with its scores added.

    Grammars of the same constraints have one program, compiled once.

    Raises
    ------
    GrammarError
        A grammar that does not go with the labels.
    TooLargeError
        A product too large to expand.
    """
    return _constrained(program, grammar.constraints, search, budget)


@memoised(64)
def _constrained(
    program: Program,
    constraints: tuple[Constraint, ...],
    search: Search | None,
    budget: Budget | None,
) -> Program:
    labels = {tape: program.labels(tape) for tape in program.tapes}
    bound = Grammar(constraints).bind(labels)
    return _compiled(program.constrained(bound, search=search, budget=budget))


def searched(lattice: TapedT, search: Search) -> TapedT:
    """Return the lattice whose best paths are searched in another way."""
    return lattice.with_program(_compiled(other_search(lattice.program, search)))


@memoised(64)
def free_program(program: Program) -> Program:
    """Return a program without its grammar."""
    return _compiled(Program(program.chains, program.couplings)) if program.conjuncts else program


def scaled_lattice(lattice: TapedT, factor: float, *, grammar: bool) -> TapedT:
    """Return the lattice with its potentials times a factor.

    Parameters
    ----------
    lattice : Taped
    factor : float
    grammar : bool
        Whether the scores of its grammar are multiplied, too.

    Raises
    ------
    OptionError
        A factor that is not finite.
    """
    factor = real_number(factor, "factor")
    if not np.isfinite(factor):
        raise OptionError(f"factor is {factor}, expected a finite number")
    program = _scaled_program(lattice.program, factor, grammar=grammar)
    values = {k: scaled(value, factor) for k, value in enumerate(lattice.values)}
    return lattice.with_program(program).with_values(values)


@memoised(64)
def _scaled_program(program: Program, factor: float, *, grammar: bool) -> Program:
    return program.scaled(factor, grammar=grammar)


def joined(
    lattices: Sequence[Taped],
    coupling: Mapping[tuple[int, int], ArrayLike] | None,
    weights: Sequence[float] | None,
) -> tuple[Program, tuple[Floats, ...]]:
    """Return program and values of `fstcrf.lattice.product`; raises as it does."""
    if not lattices:
        raise OptionError("nothing to compose: give at least one lattice")
    lengths = {len(lattice) for lattice in lattices}
    if len(lengths) > 1:
        raise ShapeError(f"lattices of {sorted(lengths)} tokens: they must be of one sentence")
    parts = list(lattices) if weights is None else _weighted(lattices, weights)
    names = _distinct([lattice.tapes for lattice in parts])
    length = lengths.pop()
    tables = _couplings(parts, names, {} if coupling is None else coupling, length)
    brought = [(tapes, v) for tapes, v in tables if v.ndim == 3]
    program = _joined(
        tuple(part.program for part in parts),
        tuple(tuple(new.values()) for new in names),
        tuple((tapes, v.tobytes()) for tapes, v in tables if v.ndim == 2),
        tuple(tapes for tapes, _ in brought),
    )
    values: list[Floats] = []
    for part in parts:  # nodes and arcs of all chains come before all couplings
        own = zip(part.program.inputs, part.values, strict=True)
        values += [v for i, v in own if i.kind != "coupling"]
    for part in parts:
        own = zip(part.program.inputs, part.values, strict=True)
        values += [v for i, v in own if i.kind == "coupling"]
    return program, (*values, *(v for _, v in brought))


def _weighted(lattices: Sequence[Taped], weights: Sequence[float]) -> list[Taped]:
    if len(weights) != len(lattices):
        raise ShapeError(f"{len(weights)} weights for {len(lattices)} lattices")
    factors = real_array(weights, "weights", error=OptionError).tolist()
    if any(not 0 <= w < np.inf for w in factors):
        raise OptionError(f"weights are {factors}, expected numbers from 0")
    return [
        lattice if weight == 1.0 else scaled_lattice(lattice, weight, grammar=False)
        for lattice, weight in zip(lattices, factors, strict=True)
    ]


def _distinct(tapes: Sequence[tuple[str, ...]]) -> list[dict[str, str]]:
    """Return new names for the tapes of each lattice: their own, numbered where they clash."""
    every = [tape for group in tapes for tape in group]
    if len(set(every)) == len(every):
        return [{tape: tape for tape in group} for group in tapes]
    return [{tape: f"{tape}{k}" for tape in group} for k, group in enumerate(tapes)]


def _couplings(
    parts: Sequence[Taped],
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
    brought: tuple[tuple[str, str], ...],
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
    couplings += [Coupling(tapes, None) for tapes in brought]
    search: Search = next((p.search for p in programs if p.search != "auto"), "auto")
    budget = next((p.budget for p in programs if p.budget is not None), None)
    return _compiled(Program(chains, couplings, conjuncts, search, budget))


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
