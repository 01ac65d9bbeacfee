"""One sentence of a program: the row of the engine of chains, and what it is changed to.

States / Start / Final / Arcs
    T copies of a program's joint states, one for each token; initial and final potentials at the
    ends; arcs between neighbouring copies carry arc potentials, states node potentials.

All answers are exact. Scores are natural logs; a path that is forbidden has −inf.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np

from fstcrf.arguments import one_of
from fstcrf.arrays import Bools, Floats, Longs
from fstcrf.errors import NoPathError
from fstcrf.kernel import Budget
from fstcrf.lattices.dense import Dense
from fstcrf.lattices.engine import Coupling, Over, Row, Runs, Said, Segment, Tape
from fstcrf.lattices.questions import Questions
from fstcrf.lattices.tapes import (
    Taped,
    constrained,
    free_program,
    joined,
    labelling_masks,
    restricted,
    scaled_program,
)
from fstcrf.lazy import LazyModule, memoised
from fstcrf.machines.grammar import Grammar
from fstcrf.machines.plans import Plan, Program, Search, no_path_error, plan_of, scaled
from fstcrf.text.corpus import Scheme

if TYPE_CHECKING:
    from fstcrf.lattices import arcrow, machines
    from fstcrf.lattices import confidence as sureness
    from fstcrf.lattices import labellings as nbest
    from fstcrf.lattices import spans as span_answers
    from fstcrf.lattices.arcrow import ArcRow
    from fstcrf.lattices.findings import Confidence, Method, MinimumRisk, ProbableSpans
    from fstcrf.lattices.paths import Path
    from fstcrf.machines.openfst import Machine
else:  # a tagger that is loaded does not wait for what few calls need
    arcrow = LazyModule("fstcrf.lattices.arcrow")
    sureness = LazyModule("fstcrf.lattices.confidence")
    nbest = LazyModule("fstcrf.lattices.labellings")
    machines = LazyModule("fstcrf.lattices.machines")
    span_answers = LazyModule("fstcrf.lattices.spans")

_MOST_SHOWN = 1e9
"""Arcs of a lattice whose probabilities are shown; a second or so."""


class DenseRow(Taped):
    """What one sentence brings to a program, as a lattice has it.

    Parameters
    ----------
    program : Program
        The composition: tapes, topologies, couplings, grammar.
    values : tuple of float64 arrays
        What this sentence brings, one array for each of ``program.inputs``.
    """

    timed, given = True, None

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.program, self.values)

    @property
    def on(self) -> tuple[Tape, ...]:
        """The tapes."""
        return _tapes(self.program)

    @property
    def length(self) -> int:
        """Tokens."""
        return len(self.values[0])

    @property
    def lengths(self) -> tuple[int, int]:
        """Tokens of the shortest and of the longest path: the same."""
        return self.length, self.length

    @property
    def size(self) -> str:
        """How large it is, for people."""
        sizes = " × ".join(f"{len(tape.labels)} {tape.name}" for tape in self.on)
        return f"{len(self)} tokens, {sizes} labels"

    @property
    def large(self) -> str:
        """Why nothing but its best path is shown; empty: it is small."""
        if self.program.decoder.lazy:
            return "its paths are searched under a grammar: ask best()"
        cells = len(self) * float(np.prod(self.program.shape)) * max(self.program.shape)
        return "too large to draw here: ask best() or marginals()" if cells > _MOST_SHOWN else ""

    @cached_property
    def engine(self) -> Dense:
        """What answers: a batch of one."""
        return Dense(self.program, [self.values])

    @property
    def clocked(self) -> Dense:
        """The same: each joint state is of one token."""
        return self.engine

    @property
    def ruled(self) -> bool:
        """Whether it stands under a grammar."""
        return bool(self.program.conjuncts)

    @property
    def summable(self) -> bool:
        """Whether the product is so small that sums cost about what paths do."""
        return self.program.summable

    def check_alive(self) -> None:
        """Do nothing: the engine says where there is no path."""

    def no_path(self, runs: Runs | None = None) -> NoPathError:
        """Return the error that says where all paths have died, or that none was found."""
        if runs is not None and runs.bound is not None and runs.bound[0] > -np.inf:
            given_up = 0 if runs.popped is None else int(runs.popped[0])
            return no_path_error(self.program, self.values, given_up=given_up)
        return self.engine.no_path(0)

    def searched(self, n: int, budget: Budget | None, search: Search | None) -> tuple[Dense, Runs]:
        """Return an engine and the n best paths that it finds."""
        engine = self.engine if search is None else self.engine.searched_by(search)
        return engine, engine.nbest(n, budget)

    def labellings(
        self, n: int, shown: tuple[str, ...], budget: Budget | None, search: Search | None
    ) -> list[Path]:
        """Return the n best labellings of some tapes."""
        one = [Questions(self)]
        return nbest.nbest_of_tapes(one, n, shown, search=search, budget=budget)[0]

    def saying(self, said: Said) -> Self:
        """Return the path with these labels."""
        labels = cast("Sequence[str] | Sequence[Sequence[str]]", said)
        return restricted(self, labelling_masks(self, labels))

    # --- Spans: one backward and one forward pass finds all -----------------------------------

    def span_probabilities(
        self, spans: Sequence[Segment], tape: int, scheme: str | Scheme | None
    ) -> Floats:
        """Return the probabilities that exactly these segments are there."""
        return span_answers.lattice_span_probabilities(self.engine, spans, self.tapes[tape], scheme)

    def probable_spans(self, above: float, tape: int, scheme: str | Scheme | None) -> ProbableSpans:
        """Return the segments with a probability above a number, by their ends."""
        return span_answers.lattice_spans(self.engine, above, self.tapes[tape], scheme)

    def span_risk(self, tape: int, scheme: str | Scheme | None) -> MinimumRisk[Any]:
        """Return the labels of the spans of one tape whose expected F is largest."""
        return span_answers.span_risk(self.engine, self.tapes[tape], scheme)

    def bounded_confidence(
        self,
        method: Method,
        n: int,
        samples: int,
        level: float,
        seed: int,
        budget: Budget | None,
    ) -> Confidence:
        """Return bounds on how sure the best legal path is, where sums cost too much."""
        return sureness.bounded(Questions(self), method, n, samples, level, seed, budget)

    # --- Changes ------------------------------------------------------------------------------

    def restrict(self, masks: Sequence[Bools]) -> Self:
        """Return the paths whose labels at tokens, of each tape, masks [T, L] allow."""
        return restricted(self, masks)

    def bounded(self, wanted: Longs) -> Self:
        """Return the paths by boundaries: 1 must, −1 must not be one; each token has its own."""
        inside = np.flatnonzero(wanted[1:-1] == -1)
        if not len(inside):
            return self
        none = np.zeros((self.length, len(self.on[0].labels)), dtype=bool)
        return self.restrict([none])

    def scale(self, factor: float, *, grammar: bool) -> Self:
        """Return the same with all scores times a factor; `grammar`: those of the grammar, too."""
        values = tuple([scaled(value, factor) for value in self.values])
        return type(self)(scaled_program(self.program, factor, grammar=grammar), values)

    def reweight(self, tables: Sequence[Floats]) -> Dense:
        """Return the legal paths, each with the sum of its labels' scores [T, L] of each tape."""
        support, changed = self.scale(0.0, grammar=True), {}
        for name, table in zip(self.tapes, tables, strict=True):
            k = support.state_potentials(name)
            label = self.program.chain[name].topology.state_label
            changed[k] = support.values[k] + table[:, label]
        return support.with_values(changed).engine

    def without_grammar(self) -> Self:
        """Return all paths, whatever the grammar."""
        return self.with_program(free_program(self.program))

    def without_scores(self) -> Self:
        """Return the paths that the grammar allows, without what it scores them."""
        if not any(acceptor.weighted for acceptor in self.program.conjuncts):
            return self
        return self.with_program(_hard(self.program))

    def constrained(
        self, grammar: Grammar, over: Over | None, search: Search | None, budget: Budget | None
    ) -> Self:
        """Return the paths that a grammar accepts; labels of tokens are its segments, too."""
        if over is not None:
            one_of("over", over, Over)
        return self.with_program(constrained(self.program, grammar, search, budget))

    def beside(
        self,
        others: Sequence[Row],
        names: Sequence[Mapping[str, str]],
        coupling: Coupling,
    ) -> DenseRow | ArcRow:
        """Return the composition with others: a tensor, where all are of this engine."""
        dense = [other for other in others if isinstance(other, DenseRow)]
        if len(dense) < len(others):
            return self.arcs().beside(others, names, coupling)
        return DenseRow(*joined([self, *dense], names, coupling))

    def arcs(self) -> ArcRow:
        """Return the same as arcs, written out."""
        return arcrow.ArcRow.of_tokens(self, self.on)

    # --- Other forms --------------------------------------------------------------------------

    @property
    def machine(self) -> Machine:
        """The paths as flat arrays of an acceptor, over the labels of all tapes together."""
        return machines.lattice_machine(self)

    def plan(self) -> Plan:
        """Return what the composition compiles to and what it costs."""
        return plan_of(self.program)


@lru_cache(maxsize=64)
def _tapes(program: Program) -> tuple[Tape, ...]:
    return tuple(Tape(tape, program.labels(tape), segments=False) for tape in program.tapes)


@memoised(64)
def _hard(program: Program) -> Program:
    """Return the program without the scores of its grammar: only what it forbids."""
    silent = [
        replace(a, score=None, final=np.where(a.final > -np.inf, 0.0, -np.inf))
        for a in program.conjuncts
    ]
    return Program(program.chains, program.couplings, silent, program.search)
