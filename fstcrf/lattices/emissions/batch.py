"""Batches of lattices that read their scores from arrays, such as the output of a neural network.

All lattices of a batch have the same labels, transitions and grammar. `decode` does not raise an
error for sentences without a path: their ids are −1, their scores −inf, their probabilities 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fstcrf import kernel
from fstcrf.arguments import LabelSet, string_lists, whole_number
from fstcrf.arrays import RUN_TOKENS, Bools, Floats, Ints, Longs, Ragged
from fstcrf.errors import LabelError, NumericError, OptionError, ShapeError
from fstcrf.kernel import Budget, EmissionRows
from fstcrf.kernel.native import frozen
from fstcrf.lattices import batching
from fstcrf.lattices.answer import Answer, TapeAnswer
from fstcrf.lattices.batch import Lattices
from fstcrf.lattices.batching import Group
from fstcrf.lattices.chainrow import ChainRow
from fstcrf.lattices.chains import ChainEngine
from fstcrf.lattices.distributions import Distributions
from fstcrf.lattices.emissions.reading import (
    LabelNames,
    Scores,
    ScoresLike,
    host_array,
    read_scores,
    usual_names,
)
from fstcrf.lattices.emissions.structure import ChainParameters, LegalStates, structure
from fstcrf.lattices.engine import PLAIN, Engine, EngineRequest, Labelling, Tape, TapeLabels
from fstcrf.lattices.inputs import array_lattice, constrained, potentials
from fstcrf.lattices.lattice import Lattice, TapeLattice
from fstcrf.lattices.spans import span_reading
from fstcrf.lazy import given_state, made_once
from fstcrf.machines.grammar import Grammar
from fstcrf.machines.plans import Program
from fstcrf.text.corpus import named_scheme


def decode(
    scores: ScoresLike,
    lengths: ArrayLike | None = None,
    *,
    mask: ArrayLike | None = None,
    labels: LabelSet,
    transitions: ArrayLike | None = None,
    initial: ArrayLike | None = None,
    final: ArrayLike | None = None,
    grammar: Grammar | None = None,
    n: int = 1,
    names: LabelNames | None = None,
    threads: int = 1,
    budget: Budget | None = None,
) -> Answer:
    """Return the best labels of a batch of sentences, from arrays of scores.

    ``Lattices.from_arrays(labels, scores, lengths=...) & grammar`` is the same batch. It answers
    all other questions.

    Parameters
    ----------
    scores, lengths, mask, labels, transitions, initial, final, names
        As for `Lattices.from_arrays`.
    grammar : Grammar, optional
        The legal labellings. A grammar is compiled once for the same labels.
    n : int
        Number of best paths of each sentence.
    threads : int
        Number of worker threads. Results are identical for any number.
    budget : Budget, optional
        Limit of a lazy search under a grammar.

    Returns
    -------
    Answer
        ``ids`` int32 [B, T], or [B, n, T] for n > 1; −1 after the end of a sentence. ``scores``
        float64 [B] or [B, n]. ``labels()`` lists of str. ``probabilities`` are computed when they
        are first read. ``dead`` marks the sentences without a path: ids −1, score −inf.

    Raises
    ------
    ShapeError, NumericError, OptionError
        As for `Lattices.from_arrays`; or `n` or `threads` is below 1.
    GrammarError
        The grammar has other labels.

    Examples
    --------
    >>> import numpy as np
    >>> from fstcrf.constraints import bio
    >>> scores = np.array([[[1.0, 0.0, 3.0], [0.0, 0.0, 2.0]]], dtype=np.float32)
    >>> decode(scores, labels=["O", "B-X", "I-X"], grammar=bio()).labels()
    [['B-X', 'I-X']]
    """
    if grammar is not None and not isinstance(grammar, Grammar):
        raise OptionError(
            f"grammar is {type(grammar).__name__}, expected a Grammar, such as "
            "fstcrf.constraints.bioes()"
        )
    chain = transitions, initial, final
    batch = array_lattices(labels, scores, chain, lengths, mask, names, grammar)
    return batch.decode(n, budget=budget, threads=threads)


def array_lattices(
    labels: LabelSet,
    scores: ScoresLike,
    chain: Sequence[Any],
    lengths: ArrayLike | None,
    mask: ArrayLike | None,
    names: LabelNames | None,
    grammar: Grammar | None = None,
    tape: str = "label",
    *,
    copied: bool = False,
) -> Lattices[TapeLattice]:
    """Return the lattices of `Lattices.from_arrays`.

    `chain` has transitions, initial and final scores. `copied`: copy the scores, so that later
    changes of the caller's arrays have no effect.
    """
    renamed = usual_names(labels, names)
    read, size = read_scores(scores, lengths, mask=mask, n_labels=len(renamed)), len(renamed)
    if copied:
        read = replace(read, rows=frozen(read.rows))
    transitions, initial, final = chain
    if _per_token(transitions):
        lattices = _with_token_transitions(read, renamed, transitions, (initial, final), tape)
        return lattices if grammar is None else lattices & grammar
    parameters = ChainParameters(
        _checked(transitions, "transitions", (size, size)),
        _checked(initial, "initial", (size,)),
        _checked(final, "final", (size,)),
    )
    return ArrayLattices(read, Tape(tape, renamed, segments=False), parameters, grammar)


def _per_token(transitions: Any) -> bool:
    if isinstance(transitions, list | tuple):
        return any(getattr(one, "ndim", 2) == 3 for one in transitions)
    return bool(getattr(transitions, "ndim", 2) == 4)


def _with_token_transitions(
    scores: Scores, labels: tuple[str, ...], transitions: Any, ends: Sequence[Any], tape: str
) -> Lattices[TapeLattice]:
    """Return lattices with transitions for each token."""
    if len(transitions) != len(scores):
        raise ShapeError(f"transitions of {len(transitions)} sentences, expected {len(scores)}")
    listed, size, rows = isinstance(transitions, list | tuple), len(labels), []
    for b, emissions in enumerate(scores.sentences.split(scores.flat)):
        steps, name = max(len(emissions) - 1, 0), f"transitions of sentence {b}"
        values = host_array(transitions[b], name)
        arcs = _checked(values if listed else values[:steps], name, (steps, size, size))
        rows.append(Lattice.from_arrays(labels, emissions, arcs, *ends, tape=tape))
    lattices = Lattices(rows)
    lattices.width = scores.width
    return lattices


def _checked(values: Any, name: str, shape: tuple[int, ...]) -> Floats:
    return (
        np.zeros(shape) if values is None else potentials(host_array(values, name), name, [shape])
    )


class ArrayLattices(Lattices[TapeLattice]):
    """Lattices that read their scores from arrays; made by `Lattices.from_arrays`.

    Parameters
    ----------
    scores : Scores
    tape : Tape
    chain : ChainParameters
        Scores of transitions, beginnings and ends.
    grammar : Grammar, optional
    written_out : bool
        Write out the arcs of the chain and the grammar, if there are few enough. The engine then
        computes float32 scores in float32. Otherwise a `ChainEngine` computes in float64.
    """

    def __init__(
        self,
        scores: Scores,
        tape: Tape,
        chain: ChainParameters,
        grammar: Grammar | None = None,
        *,
        written_out: bool = True,
    ) -> None:
        self.scores, self.tape, self.chain, self.grammar = scores, tape, chain, grammar
        self.width, self._written_out = scores.width, written_out
        if grammar is not None:
            _ = self.structure  # raises an error if the grammar has other labels

    __getstate__ = given_state

    def __len__(self) -> int:
        return len(self.scores)

    def _row(self, k: int) -> TapeLattice:
        if k not in self._made:
            values = self.values[slice(*self.scores.offsets[k : k + 2].tolist())]
            self._made[k] = Lattice(ChainRow(self.program, (values,)))
        return self._made[k]

    @made_once
    def _made(self) -> dict[int, TapeLattice]:
        return {}

    @made_once
    def values(self) -> Floats:
        """The scores of all tokens in float64, checked, [N, L]."""
        self.scores.check_numbers(self.tape.labels)
        return self.scores.flat

    @property
    def on(self) -> tuple[Tape, ...]:
        """The tape."""
        return (self.tape,)

    @property
    def rows(self) -> Ragged:
        """Tokens of each lattice."""
        return self.scores.sentences

    @made_once
    def structure(self) -> LegalStates | None:
        """The legal arcs, written out; None if they are not to be written out."""
        return structure(self.tape[:2], self.grammar) if self._written_out else None

    @made_once
    def program(self) -> Program:
        """The program of all lattices."""
        name, labels, *_ = self.tape
        program, _ = array_lattice(labels, np.empty((0, len(labels))), *self.chain, name)
        return program if self.grammar is None else constrained(program, self.grammar.constraints)

    def _groups(self, request: EngineRequest = PLAIN, threads: int = 1) -> list[Group]:
        """Return runs of the lattices, which read the scores from the arrays of the caller."""
        if self.structure is None or request.search is not None:
            return super()._groups(request, threads)
        rows, parts = self.rows, [self]
        if not len(self) or rows.total > RUN_TOKENS:
            parts = [self._with(self.scores.part(*run)) for run in rows.runs(RUN_TOKENS)]
        threads = threads if len(parts) == 1 else 1
        engines = [ArrayEngine(part, self.structure, threads) for part in parts]
        return [Group(engine.numbers, self, engine) for engine in engines]

    def decode(self, n: int = 1, *, budget: Budget | None = None, threads: int = 1) -> Answer:
        """Return the n best paths, one of them without groups of lattices; see `fstcrf.decode`."""
        if self.structure is None or type(n) is not int or n != 1 or self.rows.total > RUN_TOKENS:
            return super().decode(n, budget=budget, threads=threads)
        whole_number(threads, "threads", least=1)
        path, score = ArrayEngine(self, self.structure, threads).best_labels()
        return Answer(
            {self.tape.name: path[None]},
            {self.tape.name: self.tape.labels},
            self.rows.offsets,
            scores=score,
            log_z=lambda: batching.usual_log_z(self, threads=threads),
            posterior=lambda: self.posterior(budget, threads),
            width=self.width,
        )

    def read(self, structure: LegalStates, threads: int) -> EmissionRows:
        """Return the scores in the form that the kernel reads, without a copy."""
        if threads not in self._read:
            where = self.scores.rows, self.scores.sentences, self.scores.width
            emitter = structure.emitter([self.chain])
            self._read[threads] = EmissionRows(emitter, *where, threads, padded=False)
        return self._read[threads]

    @made_once
    def _read(self) -> dict[int, EmissionRows]:
        return {}

    def posterior(self, budget: Budget | None, threads: int) -> Distributions:
        """Return the distributions over labellings."""
        return ArrayDistributions({self.tape.name: self}, budget, threads)

    # --- Other lattices -----------------------------------------------------------------------

    def _with(self, scores: Scores) -> ArrayLattices:
        batch = copy(self)
        batch.scores, batch.width = scores, scores.width
        return batch

    def select(self, which: Bools | Longs) -> ArrayLattices:
        """Return some of the lattices, by their numbers or by a mask, bool [B]."""
        if which.dtype == np.bool_ and which.all():
            return self
        batch = self._with(self.scores.select(which))
        batch.width = self.width
        return batch

    def restrict(self, masks: Any) -> ArrayLattices:
        """Return the lattices of the paths that masks allow, bool [B, T, L] or B of [T_i, L]."""
        wanted = [(length, len(self.tape.labels)) for length in self.scores.lengths.tolist()]
        rows = [np.asarray(row, dtype=bool) for row in masks]
        if len(rows) != len(self):
            raise ShapeError(f"{len(rows)} masks for {len(self)} sentences")
        if not isinstance(masks, list | tuple):  # cut the padding
            rows = [row[:length] for row, (length, _) in zip(rows, wanted, strict=True)]
        for b, (row, shape) in enumerate(zip(rows, wanted, strict=True)):
            if row.shape != shape:
                raise ShapeError(f"mask of sentence {b} is {list(row.shape)}, expected {[*shape]}")
        allowed = np.concatenate(rows) if rows else np.empty((0, 1), dtype=bool)
        return self._with(self.scores.masked(allowed))

    def constrained(self, grammar: Grammar, **options: Any) -> Lattices[TapeLattice]:
        """Return the lattices of the paths that a grammar accepts; see `Lattice.constrained`."""
        if options or not isinstance(grammar, Grammar):
            return super().constrained(grammar, **options)
        both = grammar if self.grammar is None else self.grammar & grammar
        return ArrayLattices(
            self.scores, self.tape, self.chain, both, written_out=self._written_out
        )

    def _clamp_each(
        self, labellings: Sequence[Labelling], ask: Callable[[Engine], Floats], threads: int
    ) -> Floats:
        """Ask, for each lattice, the engine of the paths with some labels, float64 [B]."""
        return batching.of_each(self._clamped(string_lists(labellings, "label")), ask, threads)

    def _clamped(self, labels: Sequence[Sequence[str]]) -> ArrayLattices:
        for b, (row, length) in enumerate(zip(labels, self.scores.lengths.tolist(), strict=True)):
            if len(row) != length:
                raise ShapeError(f"sentence {b}: {len(row)} labels for {length} tokens")
        number = {label: k for k, label in enumerate(self.tape.labels)}
        try:
            ids = np.array([number[label] for row in labels for label in row], dtype=np.int64)
        except KeyError as error:
            b = next(b for b, row in enumerate(labels) if error.args[0] in row)
            raise LabelError(f"sentence {b}: no label {error.args[0]!r}") from None
        return self._with(self.scores.masked(ids[:, None] == np.arange(len(number))))


class ArrayEngine(ChainEngine):
    """An engine that reads scores from the arrays of the caller, and float32 scores in float32.

    It computes best paths, sums, and probabilities of labels and of spans of labels. It leaves rows
    that float32 cannot hold, and all other questions, to `ChainEngine`, which computes in float64.
    """

    _is_short_sentence = False  # one row is read as in a batch, and has the same bits
    _pairs = None  # the elements are labels
    numbers: range

    def __init__(self, batch: ArrayLattices, structure: LegalStates, threads: int) -> None:
        self._batch, self._structure, self._threads = batch, structure, threads
        self.rows, first = batch.rows, batch.scores.first
        self.numbers = range(first, first + len(batch))

    @property
    def _read(self) -> EmissionRows:
        return self._batch.read(self._structure, self._threads)

    @property
    def on(self) -> tuple[Tape, ...]:
        return self._batch.on

    @property
    def composition(self) -> Program:  # type: ignore[override]
        """The program, which is compiled when it is first read."""
        return self._batch.program

    program = composition

    @property
    def joined(self) -> tuple[Floats, ...]:
        """The scores of all rows in float64."""
        return (self._batch.values,)

    @contextmanager
    def _named(self) -> Iterator[None]:
        """Add sentence, token and label to errors about scores that are not numbers."""
        try:
            yield
        except NumericError:
            self._batch.scores.check_numbers(self._batch.tape.labels)
            raise

    # --- Paths --------------------------------------------------------------------------------

    def best_labels(self) -> tuple[Ints, Floats]:
        """Return the best labels, int32 [N], −1 without a path, and scores, float64 [B]."""
        with self._named():
            return self._read.best()

    def search(self, n: int, budget: Budget | None = None) -> kernel.SearchResult:
        """Return the n best paths of each row; their elements are labels."""
        if n > 1:
            return super().search(n, budget)
        path, score = self.best_labels()
        counts, size = (score > -np.inf).astype(np.int64), len(score)
        bound, states_expanded = np.full(size, -np.inf), np.zeros(size, dtype=np.int64)
        return kernel.SearchResult(
            counts, counts, score[:, None], path[None], bound, states_expanded
        )

    def labels_found(self, result: kernel.SearchResult, tapes: int) -> list[Ints]:
        """Return the elements of the paths, which are labels."""
        del tapes
        return [result.path]

    def labels_along(self, path: Ints, tape: int) -> TapeLabels:
        del tape
        return TapeLabels(path)

    # --- Sums ---------------------------------------------------------------------------------

    @made_once
    def log_z(self) -> Floats:
        with self._named():
            sums = self._read.sums()
        if sums.left.any():
            sums.log_z[sums.left] = self._rest(sums.left).log_z
        return sums.log_z

    @property
    def usual_log_z(self) -> Floats:
        return self.log_z

    def marginals(self, tapes: Sequence[int]) -> list[Floats]:
        with self._named():
            sums = self._read.sums(posteriors=True)
        table = sums.node.astype(np.float64, copy=False)
        if sums.left.any():
            rest = self._rest(sums.left)
            sums.log_z[sums.left] = rest.log_z
            (table[self.rows.repeat(sums.left)],) = rest.marginals(tapes)
        self.check(sums.log_z)
        return [table]

    def path_spans(self, path: Ints) -> list[Floats] | None:
        with self._named():
            spans = self._read.spans(
                np.ascontiguousarray(path), _span_tables(self._batch.tape.labels)
            )
        rows = Ragged(spans.ends)
        return None if spans.left[rows.lengths > 0].any() else rows.split(spans.probability)

    def _rest(self, left: Bools) -> ChainEngine:
        """Return the engine, in float64, of the rows that the kernel left out."""
        rows = np.flatnonzero(left).tolist()
        numbers = [self.numbers[k] for k in rows]
        return ChainEngine(self.composition, [self.part(k) for k in rows], numbers)


@dataclass(frozen=True, eq=False)
class ArrayDistributions(Distributions):
    """The distributions over labellings of lattices from arrays."""

    lattices: Mapping[str, Sequence[Lattice]]

    def span_probabilities(self, answer: TapeAnswer, k: int) -> list[Floats]:
        """Return the probability of each span of the k-th best paths."""
        path, bounds = answer.flat[k], answer.offsets

        def ask(group: Group) -> list[Floats] | None:
            first, end = bounds[[group.numbers[0], group.numbers[-1] + 1]]
            return group.engine.path_spans(path[first:end])

        rows: list[Floats] = []
        for _, part in batching.answered(self.lattices[answer.name], ask, self.threads):
            if part is None:
                return super().span_probabilities(answer, k)
            rows += part
        return rows


@lru_cache(maxsize=64)
def _span_tables(labels: tuple[str, ...]) -> kernel.SpanRules:
    """Return the tables by which the kernel reads labels as spans."""
    reading = span_reading(labels, named_scheme("conlleval"))
    flags = (reading.begins, reading.continues, reading.first, reading.last)
    return kernel.SpanRules(
        len(reading.types), reading.type.astype(np.int32), *(f.astype(np.uint8) for f in flags)
    )
