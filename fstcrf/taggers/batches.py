"""Sentences as users hand them over, read once for all taggers of a composition."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from fstcrf.arrays import Floats
from fstcrf.errors import DataError
from fstcrf.kernel import Budget
from fstcrf.lattices.answer import Answer
from fstcrf.lattices.batch import Lattices
from fstcrf.lattices.dense import Dense, program_tapes
from fstcrf.lattices.denserow import DenseRow
from fstcrf.lattices.engine import Tape
from fstcrf.lattices.labellings import nbest_of_tapes
from fstcrf.lattices.lattice import Lattice, TapeLattice
from fstcrf.lattices.many import Group
from fstcrf.lazy import made_once
from fstcrf.machines.plans import Program, Search, no_path_error, warn_unproven
from fstcrf.ragged import RUN_TOKENS, Ragged
from fstcrf.taggers.component import as_read
from fstcrf.taggers.jointmodel import JointModel
from fstcrf.taggers.known import Known, Request
from fstcrf.taggers.model import decoding
from fstcrf.taggers.model.model import Model
from fstcrf.taggers.model.reading import Data, Run, as_sentences, runs_of
from fstcrf.text.corpus import Column, Corpus, Sentence
from fstcrf.text.features import FeatureIndex
from fstcrf.text.features.surroundings import with_surroundings
from fstcrf.text.features.template import tape_column

if TYPE_CHECKING:
    from fstcrf.lattices.distributions import Distributions


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


# --- The lattices of sentences --------------------------------------------------------------------

_FEW_TOKENS, _RUN_NUMBERS, _MOST_NUMBERS = 1_000, 220_000, 2_000_000
"""Potentials of a run of sentences, unless it has few tokens: the next run finds their memory where
this one left it, and warm. Larger blocks are given back to the system and taken anew."""

Values = tuple[Floats, ...]


class TaggedLattices(Lattices[TapeLattice]):
    """The lattices of sentences under a composition of taggers.

    Rows of a run share arrays of potentials, which are made when somebody asks.

    Parameters
    ----------
    composition : JointModel
    sentences : Corpus or sequence of sentences
    known : Known, optional
        Observed labels and biases.
    streamed : bool
        Potentials are dropped after each question, and made anew for the next one.
    """

    def __init__(
        self,
        composition: JointModel,
        sentences: Data,
        known: Known | None = None,
        *,
        streamed: bool = False,
    ) -> None:
        if not composition.literal:  # read once for all
            sentences = as_corpus(composition, sentences)
        self.program = composition.program
        prepared = [component.prepare(sentences) for component in composition.components]
        self._rows = Ragged.from_lengths(prepared[0][0])
        read = composition.grammar_read[0] if isinstance(sentences, Corpus) else ()

        def make(run: Run) -> Values:
            values = [v for _, potentials in prepared for v in potentials(run.first, run.end)]
            values += [tape_map.values(int(run.offsets[-1])) for tape_map in composition.maps]
            if isinstance(sentences, Corpus) and read:
                first, end = sentences.offsets[[run.first, run.end]].tolist()
                values += [given.values(sentences, slice(first, end)) for given in read]
            every = tuple(values)
            return every if known is None else known.applied(self.program, run, every)

        checked = known is None and composition.cannot_overflow
        tokens = _tokens_of_runs(self.program)
        self._runs = [
            TaggedRun(self.program, run, make, checked=checked, streamed=streamed)
            for run in runs_of(self._rows.lengths, tokens)
        ]
        self._made: dict[int, TapeLattice] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return Lattices, (list(self),)

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def rows(self) -> Ragged:
        """Tokens of each lattice."""
        return self._rows

    @property
    def on(self) -> tuple[Tape, ...]:
        """The tapes: of taggers, of maps, and columns that the grammar reads."""
        return program_tapes(self.program)

    def row(self, k: int) -> TapeLattice:
        """Return the k-th lattice."""
        if k in self._made:
            return self._made[k]
        run = self._runs[bisect_right(self._runs, k, key=lambda run: run.numbers[0]) - 1]
        values = run.part(k - run.numbers[0])
        made = cast("type[TapeLattice]", Lattice)(DenseRow(self.program, values))
        return made if run.streamed else self._made.setdefault(k, made)

    def groups(
        self,
        search: Search | None = None,
        *,
        clocked: bool = False,
        best: bool = False,
        threads: int = 1,
    ) -> list[Group]:
        """Return runs of the lattices, their potentials as the taggers made them."""
        if search is not None:
            return super().groups(search, clocked=clocked, best=best, threads=threads)
        return [Group(run.numbers, self, run) for run in self._runs]

    def answered(self, asked: Request, tapes: tuple[str, ...]) -> Answer:
        """Return the n best paths of each sentence, of the tapes that are decided."""
        on, options = self.on[: len(tapes)], (asked.budget, asked.threads)
        if asked.tapes is None or len(tapes) == 1:
            return self.answer(
                asked.n, on, *options, strict=asked.strict, probabilities=asked.probabilities
            )
        ranked = nbest_of_tapes(
            self, asked.n, asked.tapes, budget=asked.budget, threads=asked.threads
        )
        for number, (paths, lattice) in enumerate(zip(ranked, self, strict=True)):
            if asked.strict and not paths:
                raise lattice.row.no_path().of_sentence(number)
        sets = {tape.name: tape.labels for tape in on if tape.name in asked.tapes}
        sets = {name: sets[name] for name in asked.tapes}
        answer = Answer.of_paths(ranked, sets, self.rows.lengths.tolist(), asked.n)
        return answer.with_posterior(lambda: self.posterior(*options))

    def posterior(self, budget: Budget | None, threads: int) -> Distributions:
        """Return the distributions over labellings; potentials are kept from now on."""
        for run in self._runs:
            run.streamed = False
        return super().posterior(budget, threads)


class TaggedRun(Dense):
    """Successive rows of `TaggedLattices`."""

    def __init__(
        self,
        program: Program,
        run: Run,
        make: Callable[[Run], Values],
        *,
        checked: bool,
        streamed: bool,
    ) -> None:
        self.whole, self.checked = program, checked
        self.program, self._pairs = program.pairs or (program, None)
        self.rows, self.numbers = Ragged(run.offsets), range(run.first, run.end)
        self._run, self._make, self.streamed = run, make, streamed

    @made_once
    def joined(self) -> Values:
        """Potentials of all rows, one array for each input of the composition."""
        return self._make(self._run)

    def with_potentials(self, program: Program, joined: Values) -> TaggedRun:
        """Return the same rows under another program, with other potentials."""
        run = self._run
        return TaggedRun(program, run, lambda _: joined, checked=False, streamed=False)

    def forget(self) -> None:
        """Drop arrays as large as the rows; potentials only where they are streamed."""
        kept = None if self.streamed else self.__dict__.get("joined")
        super().forget()
        if kept is not None:
            self.__dict__["joined"] = kept


@lru_cache(maxsize=64)
def _tokens_of_runs(program: Program) -> int:
    """Return the tokens of a run, by the potentials that each brings."""
    size = sum(int(np.prod(shape)) for shape in program.input_shapes())
    few = min(_FEW_TOKENS, _MOST_NUMBERS // size)
    return min(RUN_TOKENS, max(1, few, _RUN_NUMBERS // size))


def check_empty(composition: JointModel, lengths: Sequence[int]) -> None:
    """Raise NoPathError where a sentence has no tokens and the grammar refuses such ones."""
    # What a composition compiles to is not made for nothing.
    if 0 in lengths and composition.program.empty_score == -np.inf:
        number = list(lengths).index(0)
        raise no_path_error(composition.program, [np.empty(0)], sentence=number)


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
        found = TaggedLattices(tagger, sentences, known, streamed=True)
        answer = found.answer(1, found.on[:1], None, threads, strict=True)
        warn_unproven(answer.unproven, len(answer))
        return answer.column()
    forced, bias = known.forced.get(tagger.tape), known.bias.get(tagger.tape)
    return decoding.decode(tagger, sentences, threads=threads, forced=forced, bias=bias).column()
