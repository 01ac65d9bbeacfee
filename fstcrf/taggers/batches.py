"""Sentences as users hand them over, read once for all taggers of a composition."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from fstcrf import kernel
from fstcrf.arrays import Bools, Floats, Ints
from fstcrf.errors import DataError
from fstcrf.lattices import Answer, DenseRow, Lattice
from fstcrf.lattices.labellings import nbest_of_tapes
from fstcrf.machines.plans import Program, no_path_error, warn_unproven
from fstcrf.ragged import RUN_TOKENS, Ragged
from fstcrf.taggers.component import as_read
from fstcrf.taggers.jointmodel import JointModel
from fstcrf.taggers.known import Known, Request
from fstcrf.taggers.model import decoding
from fstcrf.taggers.model.model import Model
from fstcrf.taggers.model.reading import Data, Run, answered, as_sentences, runs_of
from fstcrf.text.corpus import Column, Corpus, Sentence
from fstcrf.text.features import FeatureIndex
from fstcrf.text.features.surroundings import with_surroundings
from fstcrf.text.features.template import tape_column


def as_corpus(composition: JointModel, sentences: Data) -> Corpus:
    """Return sentences as a corpus.

    Rows of strings have the columns that the taggers were trained on, all of them on the same.
    """
    if isinstance(sentences, Corpus):
        return surrounded(composition, sentences)
    taggers = composition.taggers
    columns = max((tagger.columns for tagger in taggers), key=len)
    if any(tagger.columns != columns[: len(tagger.columns)] for tagger in taggers):
        _refuse_rows(taggers, sentences)
    parsed = as_sentences(sentences, columns)
    words = [s for s in parsed if len(s)]
    if not words:
        return _no_tokens(taggers, len(parsed))
    # What is missing somewhere is missing: the tagger that needs it will say so.
    names = [n for n in words[0].columns if all(n in s for s in words)]
    return surrounded(composition, Corpus.from_sentences(parsed, names))


def surrounded(composition: JointModel, corpus: Corpus) -> Corpus:
    """Return a corpus with what taggers read past the ends of sentences, before it is cut."""
    for tagger in composition.taggers:
        if isinstance(tagger.index, FeatureIndex):
            corpus = with_surroundings(corpus, tagger.index.templates)
    return corpus


def with_tokens(corpus: Corpus) -> tuple[list[int], Corpus]:
    """Return the lengths of sentences, and a corpus of those that have tokens."""
    lengths = Ragged(corpus.offsets).lengths
    full = corpus if lengths.all() else corpus.select(np.flatnonzero(lengths))
    return lengths.tolist(), full


def _no_tokens(taggers: Sequence[Model], sentences: int) -> Corpus:
    """Return a corpus without tokens, with all columns that taggers may ask for."""
    names = {tape.name for tagger in taggers for tape in tagger.reads}
    for tagger in taggers:
        if isinstance(tagger.index, FeatureIndex):
            names.update(tagger.index.columns)
    nothing = Column.from_strings(())
    return Corpus(dict.fromkeys(sorted(names), nothing), np.zeros(sentences + 1, dtype=np.int64))


def _refuse_rows(taggers: Sequence[Model], sentences: Data) -> None:
    for number, sentence in enumerate(sentences):
        if len(sentence) and not isinstance(sentence, Sentence | Mapping):
            sets = "; ".join(f"{t.tape}: {', '.join(t.columns)}" for t in taggers)
            raise DataError(
                f"rows of strings, but the taggers were trained on different columns ({sets}); "
                "give mappings of column to list",
                sentence=number,
            )


# --- Sentences through the product machine of a composition ---------------------------------------


Values = tuple[Floats, ...]
T = TypeVar("T", bound=np.generic)
AnswerT = TypeVar("AnswerT")

_RUN_NUMBERS = 500_000
"""Node potentials that a run of sentences may bring."""


def runs(
    composition: JointModel, sentences: Data, answer: Callable[[Run, Values], AnswerT], threads: int
) -> tuple[list[int], list[AnswerT]]:
    """Answer run by run; the runs do not depend on the threads.

    `answer` maps a run and the values of the program's inputs to anything. Returned are the length
    of each sentence, and the answers.
    """
    if not composition.literal:  # read once for all
        sentences = as_corpus(composition, sentences)
    prepared = [component.prepare(sentences) for component in composition.components]
    lengths = prepared[0][0]

    def of_run(run: Run) -> AnswerT:
        values = [v for _, make in prepared for v in make(run.first, run.end)]
        values += [tape_map.values(int(run.offsets[-1])) for tape_map in composition.maps]
        if composition.given and isinstance(sentences, Corpus):
            first, end = sentences.offsets[[run.first, run.end]].tolist()
            read = composition.grammar_read[0]
            values += [given.values(sentences, slice(first, end)) for given in read]
        return answer(run, tuple(values))

    cells = int(np.prod(composition.program.shape))
    several = runs_of(lengths, max(1, min(RUN_TOKENS, _RUN_NUMBERS // cells)))
    return lengths, answered(several, of_run, threads)


def marginals(
    composition: JointModel, sentences: Data, threads: int, known: Known | None = None
) -> list[Floats | tuple[Floats, ...]]:
    """Return the probability of each label at each token, of each sentence.

    Raises
    ------
    NoPathError
        No labelling of a sentence is legal.
    """
    whole = composition.program
    program, folded = _folded(whole)

    def answer(run: Run, values: Values) -> list[Floats | tuple[Floats, ...]]:
        values = values if known is None else known.applied(whole, run, values)
        bound = _bound(program, program.machine, run, folded(values))
        posterior = kernel.axis_posterior(bound)
        check_scores(posterior.log_z, run, bound, whole, values)
        states = dict(zip(program.order, posterior.node, strict=True))
        tapes = {t: program.chain[t].topology.label_sums(states[t]) for t in composition.tapes}
        parts = {tape: Ragged(run.offsets).split(rows) for tape, rows in tapes.items()}
        return [
            composition.per_tape({tape: rows[b] for tape, rows in parts.items()}.__getitem__)
            for b in range(run.end - run.first)
        ]

    return [one for run in runs(composition, sentences, answer, threads)[1] for one in run]


def decode(composition: JointModel, request: Request, known: Known | None) -> Answer:
    """Return the n best paths of each sentence; those that are not proven are not warned of.

    Probabilities that are not asked for and looked at all the same read the sentences once more.
    """
    whole, n = composition.program, request.n
    program, folded = _folded(whole)
    decoder = program.decoder
    tame = known is None and _tame(composition)

    def put(run: Run, values: Values) -> Values:
        return values if known is None else known.applied(whole, run, values)

    def best(run: Run, values: Values) -> _Ranked:
        values = put(run, values)
        bound = _bound(program, decoder.machine, run, folded(values), checked=tame)
        searched = decoder.paths(bound, n, request.budget)
        if request.strict:
            check_paths(searched, run, bound, whole, values)
        log_z = None
        if request.probabilities:
            log_z = _log_z(program, run, folded(values), None if decoder.lazy else bound)
        return _Ranked.of(composition, searched, n, run, log_z)

    def sums(run: Run, values: Values) -> Floats:
        return _log_z(program, run, folded(put(run, values)))

    lengths, parts = runs(composition, request.sentences, best, request.threads)
    n = max([run.score.shape[1] for run in parts], default=kernel.columns(n, 0))
    parts = [run.widened(n) for run in parts]
    scores = np.concatenate([np.empty((0, n)), *(run.score for run in parts)])
    exact = np.concatenate([np.empty((0, n), bool), *(run.exact for run in parts)])
    bounds = np.concatenate([np.empty((0, n)), *(run.bound for run in parts)])
    flat = {
        tape: np.concatenate([np.empty((n, 0), np.int32), *(run.labels[k] for run in parts)], 1)
        for k, tape in enumerate(composition.tapes)
    }

    def log_z() -> Floats:
        each = [run.log_z for run in parts if run.log_z is not None]
        if not request.probabilities:
            each = runs(composition, request.sentences, sums, request.threads)[1]
        return np.concatenate([np.empty(0), *each])

    return Answer(
        flat,
        composition.label_sets,
        Ragged.from_lengths(lengths).offsets,
        scores=scores,
        exact=exact,
        bounds=bounds,
        log_z=log_z,
    )


def decode_tapes(composition: JointModel, request: Request, known: Known | None) -> Answer:
    """Return the n best labellings of the tapes shown of each sentence.

    Memory is that of the potentials of all sentences.
    """
    n, tapes = request.n, request.tapes or composition.tapes
    several = lattices(composition, request.sentences, known)
    ranked = nbest_of_tapes(several, n, tapes, threads=request.threads, budget=request.budget)
    if request.strict:
        for number, (paths, lattice) in enumerate(zip(ranked, several, strict=True)):
            if not paths:
                raise no_path_error(composition.program, lattice.dense.values, sentence=number)
    sets = {tape: composition.label_sets[tape] for tape in tapes}
    return Answer.of_paths(ranked, sets, [len(lattice) for lattice in several], n)


@dataclass(frozen=True, eq=False, slots=True)
class _Ranked:
    """The n best paths of a run: [B, n] each, labels by tape, int32 [n, N], and log Z [B]."""

    score: Floats
    exact: Bools
    bound: Floats
    labels: list[Ints]
    log_z: Floats | None

    @classmethod
    def of(
        cls,
        composition: JointModel,
        searched: kernel.SearchResult,
        n: int,
        run: Run,
        log_z: Floats | None,
    ) -> _Ranked:
        n = kernel.columns(n, int(searched.found.max(initial=0)))
        searched = searched._replace(score=searched.score[:, :n], path=searched.path[:n])
        missing = ((0, 0), (0, n - searched.score.shape[1]))
        score = np.pad(searched.score, missing, constant_values=-np.inf)
        path = np.pad(searched.path, missing[::-1], constant_values=-1)
        path[Ragged(run.offsets).repeat(np.isneginf(score)).T] = -1
        proven = np.arange(n) < searched.proven[:, None]
        exact = proven | np.isneginf(searched.bound)[:, None]
        bound = np.where(proven, score, np.maximum(score, searched.bound[:, None]))
        program, tapes = _folded(composition.program)[0], composition.tapes
        ids = [
            np.where(path < 0, np.int32(-1), labels)
            for labels in path_labels(program, tapes, np.maximum(path, 0))
        ]
        return cls(score, exact, bound, ids, log_z)

    def widened(self, n: int) -> _Ranked:
        """Return the same with n columns, the new ones of paths that there are not."""
        more = n - self.score.shape[1]
        if not more:
            return self
        beside, below = ((0, 0), (0, more)), ((0, more), (0, 0))
        return _Ranked(
            np.pad(self.score, beside, constant_values=-np.inf),
            np.pad(self.exact, beside, constant_values=True),
            np.pad(self.bound, beside, constant_values=-np.inf),
            [np.pad(ids, below, constant_values=-1) for ids in self.labels],
            self.log_z,
        )


def lattices(composition: JointModel, sentences: Data, known: Known | None = None) -> list[Lattice]:
    """Return the weighted transducer of each sentence, with what is known put in."""
    program = composition.program

    def cut(run: Run, values: Values) -> list[Lattice]:
        values = values if known is None else known.applied(program, run, values)
        slices = Ragged(run.offsets).slices()
        return [Lattice(DenseRow(program, tuple(v[tokens] for v in values))) for tokens in slices]

    return [lattice for run in runs(composition, sentences, cut, 1)[1] for lattice in run]


def check_empty(composition: JointModel, lengths: Sequence[int]) -> None:
    """Raise NoPathError where a sentence has no tokens and the grammar refuses such ones."""
    # What a composition compiles to is not made for nothing.
    if 0 in lengths and composition.program.empty_score == -np.inf:
        number = list(lengths).index(0)
        raise no_path_error(composition.program, [np.empty(0)], sentence=number)


def check_paths(
    searched: kernel.SearchResult, run: Run, bound: kernel.Bound, program: Program, values: Values
) -> None:
    """Raise NoPathError where a sentence has no path, or none was found."""
    unsettled = np.flatnonzero((searched.found < 1) & (searched.bound > -np.inf))
    if len(unsettled):
        k = int(unsettled[0])
        first, end = run.offsets[k : k + 2].tolist()
        raise no_path_error(
            program,
            tuple(v[first:end] for v in values),
            sentence=run.first + k,
            given_up=int(searched.popped[k]),
        )
    check_scores(searched.score[:, 0], run, bound, program, values)


def check_scores(
    scores: Floats, run: Run, bound: kernel.Bound, program: Program, values: Values
) -> None:
    """Raise NoPathError where the score of a sentence is −inf."""
    dead = np.flatnonzero(np.isneginf(scores))
    if len(dead):
        k = int(dead[0])
        first, end = run.offsets[k : k + 2].tolist()
        # The product dies where the grammar does, and so does a fold; what is searched, later.
        whole = bound
        if program.pairs is None and program.summable:
            whole = _bound(program, program.machine, run, values)
        raise no_path_error(
            program,
            tuple(v[first:end] for v in values),
            position=int(kernel.dead_tokens(whole)[k]) if first < end else None,
            sentence=run.first + k,
        )


def path_labels(program: Program, tapes: Sequence[str], path: Ints) -> list[Ints]:
    """Return the labels of each tape along joint states, int32 [N] each."""
    states = dict(zip(program.order, program.decoder.machine.axis_states(path), strict=True))
    return [program.chain[t].topology.state_label[states[t]] for t in tapes]


def _folded(program: Program) -> tuple[Program, Callable[[Values], Values]]:
    """Return the program that answers, and the function from potentials to its inputs.

    A chain and its grammar may be folded into one chain of pairs. `Lattice` answers by it, too.
    """
    if program.pairs is None:
        return program, lambda values: values
    folded, pairs = program.pairs
    return folded, pairs.values


def _bound(
    program: Program, machine: kernel.JointChain, run: Run, values: Values, *, checked: bool = False
) -> kernel.Bound:
    return kernel.Bound(machine, run.offsets, program.per_token(values), checked=checked)


def _log_z(program: Program, run: Run, values: Values, bound: kernel.Bound | None = None) -> Floats:
    """Return log Z of each sentence; NaN where the product is too large to expand for it."""
    if not program.summable:
        return np.where(Ragged(run.offsets).lengths, np.nan, program.empty_score)
    return kernel.log_partitions(bound or _bound(program, program.machine, run, values))


def _tame(composition: JointModel) -> bool:
    """Whether no sum of weights can overflow, whatever the (float32) values of attributes."""
    largest = max(float(np.abs(t.theta).max(initial=0.0)) for t in composition.taggers)
    return largest * max(composition.weights) < 1e200


# --- The same taggers one after the other ---------------------------------------------------------


def cascade(
    composition: JointModel, sentences: Data, *, known: Known | None = None, threads: int = 1
) -> tuple[Column, ...]:
    """Tag with one tagger after the other, each reading the labels of those before it.

    Each obeys what the grammar says of its tape. Known labels and biases are of tapes that taggers
    write; NoPathError where all that leaves none, or a map has no labels for those that a tagger
    has written.
    """
    columns: dict[str, Column] = {}
    known = known or Known({}, {})
    if composition.literal:  # such taggers read no tapes
        for tape, tagger in composition.apart.items():
            columns[tape] = _alone(tagger, sentences, known.of_tape(tape), threads)
        return tuple(columns[tape] for tape in composition.tapes)
    corpus = as_corpus(composition, sentences)
    components = {c.tagger.tape: c for c in composition.components}
    maps = {tape_map.tape: tape_map for tape_map in composition.maps}
    taggers = composition.apart
    for tape in composition.order:
        if tape in maps:
            columns[tape] = maps[tape].decide(corpus)
        else:
            seen = as_read(corpus, components[tape].readings)
            columns[tape] = _alone(taggers[tape], seen, known.of_tape(tape), threads)
        corpus = corpus.with_interned(tape_column(tape), columns[tape])
    return tuple(columns[tape] for tape in composition.tapes)


def _alone(tagger: Model | JointModel, sentences: Data, known: Known, threads: int) -> Column:
    """Return the best labels of one tagger, under the grammar that it has."""
    if isinstance(tagger, JointModel):
        answer = decode(tagger, Request(sentences, threads=threads, scores=False), known)
        warn_unproven(int((~answer.exact).sum()), len(answer))
        return answer.column()
    forced, bias = known.forced.get(tagger.tape), known.bias.get(tagger.tape)
    return decoding.decode(tagger, sentences, threads=threads, forced=forced, bias=bias).column()
