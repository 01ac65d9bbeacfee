"""The row of one sentence of a program, for lattices with a label for each token.

States / Start / Final / Arcs
    T copies of the joint states of the program, one for each token. Initial and final potentials
    belong to the first and the last copy. Arcs between neighbouring copies carry arc potentials,
    states carry node potentials.

All answers are exact. Scores are natural logs; a forbidden path has the score −inf.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from fstcrf.arguments import items_of, one_of
from fstcrf.arrays import Bools, Floats, Ragged
from fstcrf.errors import NoPathError, ShapeError
from fstcrf.kernel import Budget
from fstcrf.lattices.chains import ChainEngine, program_tapes, runs_of
from fstcrf.lattices.engine import (
    AnyPath,
    Coupling,
    EngineRequest,
    Labelling,
    Over,
    PathBatch,
    Row,
    Segment,
    Tape,
)
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
    from fstcrf.lattices import confidence as sureness
    from fstcrf.lattices import constructors, machines
    from fstcrf.lattices import labellings as nbest
    from fstcrf.lattices import spans as span_answers
    from fstcrf.lattices.arcrow import ArcRow
    from fstcrf.lattices.paths import Path
    from fstcrf.lattices.results import Confidence, Method, MinimumRisk, ProbableSpans
    from fstcrf.machines.grammar import Grammar
    from fstcrf.machines.transducer import Transducer
    from fstcrf.text.corpus import Scheme
else:  # imported when first used, so that taggers load faster
    constructors = LazyModule("fstcrf.lattices.constructors")
    sureness = LazyModule("fstcrf.lattices.confidence")
    nbest = LazyModule("fstcrf.lattices.labellings")
    machines = LazyModule("fstcrf.lattices.machines")
    span_answers = LazyModule("fstcrf.lattices.spans")

_MOST_SHOWN = 1e9
"""Most arcs of a lattice for which a picture has probabilities, which take a second or so."""


class ChainRow(SentenceInputs, Row):
    """A row with scores of labels at tokens: the potentials of one sentence under a program.

    Parameters
    ----------
    program : Program
        The composition: tapes, topologies, couplings, grammar.
    values : tuple of float64 arrays
        Potentials of the sentence, one array for each of ``program.inputs``.
    """

    covers_text, n_selectable_arcs, n_input_arcs = True, None, None
    segmented = False
    machines: ClassVar[tuple[Transducer, ...]] = ()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.program, self.values)

    @made_once
    def on(self) -> tuple[Tape, ...]:
        return program_tapes(self.program)

    @property
    def as_chain(self) -> ChainRow:
        return self

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
        """Do not raise: sums and samples of the engine do."""

    def no_path(self, paths: PathBatch | None = None) -> NoPathError:
        return self.engine.no_path(0, paths)

    # --- Batches ------------------------------------------------------------------------------

    def batch_key(self, request: EngineRequest) -> int:
        del request
        return id(self.program)

    @staticmethod
    def engines(
        rows: Sequence[ChainRow], numbers: Sequence[int], request: EngineRequest
    ) -> Iterator[tuple[slice, ChainEngine]]:
        program = rows[0].program
        if request.search is not None:
            program = searched(program, request.search)
        values = [row.values for row in rows]
        for first, end in runs_of(program, Ragged.from_lengths(list(map(len, rows)))):
            part = slice(first, end)
            yield part, ChainEngine(program, values[part], numbers[part])

    # --- Paths --------------------------------------------------------------------------------

    def searched(
        self, n: int, budget: Budget | None, search: Search | None
    ) -> tuple[ChainEngine, PathBatch]:
        engine = self.engine if search is None else self.searching(search).engine
        return engine, engine.nbest(n, budget)

    def searching(self, search: Search) -> Self:
        """Return the row with another method for best paths."""
        return self.with_program(compiled(searched(self.program, search)))

    def labellings(
        self, n: int, tapes: tuple[str, ...], budget: Budget | None, search: Search | None
    ) -> list[AnyPath]:
        lattices = [Questions(self)]
        return nbest.nbest_of_tapes(lattices, n, tapes, search=search, budget=budget)[0]

    def strings(
        self, tape: int, n: int, budget: int | None, log_z: float
    ) -> list[Path[tuple[str, ...]]]:
        if len(self.tapes) > 1:
            return self.arcs().strings(tape, n, budget, log_z)
        return self.nbest(n)  # each label sequence has one path

    def clamped(self, labels: Labelling) -> Self:
        return self.restrict(self.masks(labels))

    def masks(self, labels: Labelling) -> list[Bools]:
        """Return the masks that allow only the given labels, bool [T, L] for each tape."""
        expected = "those of each tape"
        parts: list[Any] = (
            [labels] if len(self.tapes) == 1 else list(items_of(labels, "the labels are", expected))
        )
        if len(parts) != len(self.tapes):
            raise ShapeError(f"labels of {len(parts)} tapes for the tapes {', '.join(self.tapes)}")
        masks = []
        for tape, names in zip(self.tapes, parts, strict=True):
            if names is None:  # any labels
                masks.append(np.ones((len(self), len(self.program.labels(tape))), dtype=bool))
                continue
            topology = self.program.chain[tape].topology
            ids = topology.label_ids(names)
            if len(ids) != len(self):
                raise ShapeError(f"{len(ids)} labels for {len(self)} tokens")
            masks.append(ids[:, None] == np.arange(topology.n_labels))
        return masks

    def illegal(self, masks: Sequence[Bools], sentence: int) -> NoPathError:
        """Return the error about illegal gold labels: the token, its labels, and the rule.

        Parameters
        ----------
        masks : sequence of bool [T, L]
            Gold labels of each tape. A token can have several, or all if its label is unknown.
        sentence : int
            Number of the sentence in the message.
        """
        why = self.restrict(masks).engine.no_path(0)
        token, reason = why.position, why.reason
        if token is None or not len(self):
            return NoPathError(f"the gold labels are illegal: {reason}", sentence=sentence)
        shown = [self._shown([mask[t] for mask in masks]) for t in range(token + 1)]
        after = f"after {shown[token - 1]}" if token else "at the start"
        last = ", the last one," if token == len(self) - 1 else ""
        breaks = f"breaks {' and '.join(why.constraints)}"
        if not why.constraints:
            breaks = f"has the score -inf{' or breaks the grammar' * bool(self.program.conjuncts)}"
        message = f"the gold label {shown[token]} {after}{last} {breaks}"
        return NoPathError(message, position=token, sentence=sentence, constraints=why.constraints)

    def _shown(self, allowed: Sequence[Bools]) -> str:
        """Return the allowed labels of a token as text, by tape if there are several."""
        words = []
        for tape, mask in zip(self.on, allowed, strict=True):
            names = [tape.labels[k] for k in np.flatnonzero(mask).tolist()]
            listed = " or ".join(map(repr, names)) if len(names) < len(mask) else "(any)"
            words.append(f"{tape.name} {listed}" if len(self.tapes) > 1 else listed)
        return ", ".join(words)

    def labels_sum(self, labels: Mapping[int, Sequence[str]]) -> float:
        chains = [self.program.chain[tape].topology for tape in self.tapes]
        masks = [np.ones((len(self), chain.n_labels), dtype=np.bool_) for chain in chains]
        fitting = True
        for tape, row in labels.items():
            ids = chains[tape].label_ids(row)
            fitting = fitting and len(ids) == len(self)
            if fitting:
                masks[tape] = ids[:, None] == np.arange(chains[tape].n_labels)
        return float(self.restrict(masks).engine.log_z[0]) if fitting else -np.inf

    # --- Spans: one backward and one forward pass finds them ----------------------------------

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

    def compose(
        self, others: Sequence[Row], names: Sequence[Mapping[str, str]], coupling: Coupling
    ) -> ChainRow | ArcRow:
        chains = [row for other in others if (row := other.as_chain) is not None]
        if len(chains) < len(others):
            return self.arcs().compose(others, names, coupling)
        return ChainRow(*joined([self, *chains], names, coupling))

    def arcs(self) -> ArcRow:
        return constructors.of_tokens(self, self.on)

    # --- Other forms --------------------------------------------------------------------------

    @property
    def machine(self) -> Transducer:
        return machines.lattice_machine(self)

    def plan(self) -> Plan:
        return plan_of(self.program)


@memoised(64)
def _hard(program: Program) -> Program:
    """Return the program with an unscored grammar, which only forbids labellings."""
    silent = [acceptor.support() for acceptor in program.conjuncts]
    return Program(program.chains, program.couplings, silent, program.search)
