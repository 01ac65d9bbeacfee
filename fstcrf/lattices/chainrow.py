"""One sentence of a program: the row of the engine of chains, and what it is changed to.

States / Start / Final / Arcs
    T copies of a program's joint states, one for each token; initial and final potentials at the
    ends; arcs between neighbouring copies carry arc potentials, states node potentials.

All answers are exact. Scores are natural logs; a path that is forbidden has −inf.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from fstcrf.arguments import items_of, one_of
from fstcrf.arrays import Bools, Floats
from fstcrf.errors import NoPathError, ShapeError
from fstcrf.kernel import Budget
from fstcrf.lattices.chains import ChainEngine, program_tapes
from fstcrf.lattices.engine import Coupling, Labelling, Over, PathBatch, Row, Segment, Tape
from fstcrf.lattices.inputs import (
    SentenceInputs,
    compiled,
    constrained,
    free_program,
    joined,
    scaled_program,
)
from fstcrf.lattices.questions import Questions
from fstcrf.lazy import LazyModule, made_once, memoised
from fstcrf.machines.plans import Plan, Program, Search, plan_of, scaled
from fstcrf.machines.plans.program import searched

if TYPE_CHECKING:
    from fstcrf.lattices import arcrow, machines
    from fstcrf.lattices import confidence as sureness
    from fstcrf.lattices import labellings as nbest
    from fstcrf.lattices import spans as span_answers
    from fstcrf.lattices.arcrow import ArcRow
    from fstcrf.lattices.paths import Path
    from fstcrf.lattices.results import Confidence, Method, MinimumRisk, ProbableSpans
    from fstcrf.machines.grammar import Grammar
    from fstcrf.machines.transducer import Transducer
    from fstcrf.text.corpus import Scheme
else:  # a tagger that is loaded does not wait for what few calls need
    arcrow = LazyModule("fstcrf.lattices.arcrow")
    sureness = LazyModule("fstcrf.lattices.confidence")
    nbest = LazyModule("fstcrf.lattices.labellings")
    machines = LazyModule("fstcrf.lattices.machines")
    span_answers = LazyModule("fstcrf.lattices.spans")

_MOST_SHOWN = 1e9
"""Arcs of a lattice whose probabilities are shown; a second or so."""


class ChainRow(SentenceInputs):
    """What one sentence brings to a program, as a lattice has it.

    Parameters
    ----------
    program : Program
        The composition: tapes, topologies, couplings, grammar.
    values : tuple of float64 arrays
        What this sentence brings, one array for each of ``program.inputs``.
    """

    covers_text, n_selectable_arcs, n_input_arcs = True, None, None
    machines: ClassVar[tuple[Transducer, ...]] = ()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.program, self.values)

    @property
    def on(self) -> tuple[Tape, ...]:
        return program_tapes(self.program)

    @property
    def length(self) -> int:
        return len(self.values[0])

    def has_token_transitions(self, tape: int) -> bool:
        return self.program.chain[self.tapes[tape]].arc is None

    @property
    def large(self) -> str:
        if self.program.decoder.lazy and self.program.pairs is None:
            return "its paths are searched under a grammar: ask best()"
        cells = len(self) * float(np.prod(self.program.shape)) * max(self.program.shape)
        return "too large to draw here: ask best() or marginals()" if cells > _MOST_SHOWN else ""

    @made_once
    def engine(self) -> ChainEngine:
        return ChainEngine(self.program, [self.values])

    @property
    def summable(self) -> bool:
        return self.program.summable

    def check_alive(self) -> None:
        """Do nothing: the engine says where there is no path."""

    def no_path(self, runs: PathBatch | None = None) -> NoPathError:
        return self.engine.no_path(0, runs)

    def searched(
        self, n: int, budget: Budget | None, search: Search | None
    ) -> tuple[ChainEngine, PathBatch]:
        engine = self.engine if search is None else self.searching(search).engine
        return engine, engine.nbest(n, budget)

    def searching(self, search: Search) -> Self:
        """Return the same, its best paths searched in another way."""
        return self.with_program(compiled(searched(self.program, search)))

    def labellings(
        self, n: int, shown: tuple[str, ...], budget: Budget | None, search: Search | None
    ) -> list[Path]:
        one = [Questions(self)]
        return nbest.nbest_of_tapes(one, n, shown, search=search, budget=budget)[0]

    def strings(self, tape: int, n: int, budget: int, log_z: float) -> list[Path[tuple[str, ...]]]:
        if len(self.tapes) > 1:
            return self.arcs().strings(tape, n, budget, log_z)
        return Questions(self).nbest(n)  # a label sequence has one path

    def clamped(self, said: Labelling) -> Self:
        return self.restrict(self.masks(said))

    def masks(self, said: Labelling) -> list[Bools]:
        """Return the masks that allow given labels alone, bool [T, L] for each tape."""
        expected = "those of each tape"
        parts: Any = (said,) if len(self.tapes) == 1 else items_of(said, "the labels are", expected)
        parts = list(parts)
        if len(parts) != len(self.tapes):
            raise ShapeError(f"labels of {len(parts)} tapes for the tapes {', '.join(self.tapes)}")
        masks = []
        for tape, labels in zip(self.tapes, parts, strict=True):
            if labels is None:  # any
                masks.append(np.ones((len(self), len(self.program.labels(tape))), dtype=bool))
                continue
            topology = self.program.chain[tape].topology
            ids = topology.label_ids(labels)
            if len(ids) != len(self):
                raise ShapeError(f"{len(ids)} labels for {len(self)} tokens")
            masks.append(ids[:, None] == np.arange(topology.n_labels))
        return masks

    def illegal(self, masks: Sequence[Bools], sentence: int) -> NoPathError:
        """Return the error about gold labels without a path: the token, its labels, and the rule.

        Parameters
        ----------
        masks : sequence of bool [T, L]
            The gold labels of each tape; several at a token, or all, where it is not known.
        sentence : int
            Its number, for the message.
        """
        why = self.restrict(masks).engine.no_path(0)
        token, reason = why.position, why.reason
        if token is None or not len(self):
            return NoPathError(f"the gold labels are illegal: {reason}", sentence=sentence)
        said = [self._shown([mask[t] for mask in masks]) for t in range(token + 1)]
        after = f"after {said[token - 1]}" if token else "at the start"
        last = ", the last one," if token == len(self) - 1 else ""
        breaks = f"breaks {' and '.join(why.constraints)}"
        if not why.constraints:
            breaks = f"has the score -inf{' or breaks the grammar' * bool(self.program.conjuncts)}"
        message = f"the gold label {said[token]} {after}{last} {breaks}"
        return NoPathError(message, position=token, sentence=sentence, constraints=why.constraints)

    def _shown(self, allowed: Sequence[Bools]) -> str:
        """Return the labels that a token may have, in words; of several tapes by tape."""
        words = []
        for tape, mask in zip(self.on, allowed, strict=True):
            names = [tape.labels[k] for k in np.flatnonzero(mask).tolist()]
            known = " or ".join(map(repr, names)) if len(names) < len(mask) else "(any)"
            words.append(f"{tape.name} {known}" if len(self.tapes) > 1 else known)
        return ", ".join(words)

    def labels_sum(self, labels: Mapping[int, Sequence[str]]) -> float:
        chains = [self.program.chain[tape].topology for tape in self.tapes]
        masks = [np.ones((len(self), one.n_labels), dtype=np.bool_) for one in chains]
        fitting = True
        for tape, row in labels.items():
            ids = chains[tape].label_ids(row)
            fitting = fitting and len(ids) == len(self)
            if fitting:
                masks[tape] = ids[:, None] == np.arange(chains[tape].n_labels)
        return float(self.restrict(masks).engine.log_z[0]) if fitting else -np.inf

    # --- Spans: one backward and one forward pass finds all -----------------------------------

    def span_probabilities(
        self, spans: Sequence[Segment], tape: int, scheme: str | Scheme | None
    ) -> Floats:
        return span_answers.probabilities(self.engine, [spans], self.tapes[tape], scheme)[0]

    def probable_spans(self, above: float, tape: int, scheme: str | Scheme | None) -> ProbableSpans:
        return span_answers.probable(self.engine, above, self.tapes[tape], scheme)[0]

    def span_risk(self, tape: int, scheme: str | Scheme | None) -> MinimumRisk:
        return span_answers.span_risk(self.engine, self.tapes[tape], scheme)

    def bounded_confidence(
        self, method: Method, n: int, samples: int, level: float, seed: int, budget: Budget | None
    ) -> Confidence:
        return sureness.bounded(Questions(self), method, n, samples, level, seed, budget)

    # --- Changes ------------------------------------------------------------------------------

    def restrict(self, masks: Sequence[Bools]) -> Self:
        changed = {}
        for tape, mask in zip(self.tapes, masks, strict=False):
            k = self.state_potentials(tape)
            states = mask[:, self.program.chain[tape].topology.state_label]
            changed[k] = np.where(states, self.values[k], -np.inf)
        return self.with_values(changed)

    def scale(self, factor: float, *, grammar: bool) -> Self:
        values = tuple([scaled(value, factor) for value in self.values])
        return type(self)(scaled_program(self.program, factor, grammar=grammar), values)

    def reweight(self, tables: Sequence[Floats]) -> ChainEngine:
        support, changed = self.scale(0.0, grammar=True), {}
        for name, table in zip(self.tapes, tables, strict=True):
            k = support.state_potentials(name)
            label = self.program.chain[name].topology.state_label
            changed[k] = support.values[k] + table[:, label]
        return support.with_values(changed).engine

    def without_grammar(self) -> Self:
        return self.with_program(free_program(self.program))

    def without_scores(self) -> Self:
        if not any(acceptor.weighted for acceptor in self.program.conjuncts):
            return self
        return self.with_program(_hard(self.program))

    def constrained(
        self, grammar: Grammar, over: Over | None, search: Search | None, budget: Budget | None
    ) -> Self:
        if over is not None:
            one_of("over", over, Over)
        return self.with_program(constrained(self.program, grammar.constraints, search, budget))

    def beside(
        self, others: Sequence[Row], names: Sequence[Mapping[str, str]], coupling: Coupling
    ) -> ChainRow | ArcRow:
        dense = [other for other in others if isinstance(other, ChainRow)]
        if len(dense) < len(others):
            return self.arcs().beside(others, names, coupling)
        return ChainRow(*joined([self, *dense], names, coupling))

    def arcs(self) -> ArcRow:
        return arcrow.ArcRow.of_tokens(self, self.on)

    # --- Other forms --------------------------------------------------------------------------

    @property
    def machine(self) -> Transducer:
        return machines.lattice_machine(self)

    def plan(self) -> Plan:
        return plan_of(self.program)


@memoised(64)
def _hard(program: Program) -> Program:
    """Return the program without the scores of its grammar: only what it forbids."""
    silent = [acceptor.support() for acceptor in program.conjuncts]
    return Program(program.chains, program.couplings, silent, program.search)
