"""`SegmentCRF`: a conditional random field over segments, semi-Markov."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from fstcrf import display
from fstcrf.arrays import RUN_TOKENS, Array, Floats, Ints, Longs, Ragged
from fstcrf.errors import DataError, OptionError
from fstcrf.evaluate import evaluate_spans
from fstcrf.evaluate.labellings import warn_of_unseen
from fstcrf.ext.course import Course, known
from fstcrf.ext.segments import files
from fstcrf.ext.segments.files import SavedSegmentCRF, SegmentRecord
from fstcrf.ext.segments.gold import gold_segments, length_limits, present_segments
from fstcrf.ext.segments.kernel import PhraseFinder, best_segments
from fstcrf.ext.segments.likelihood import (
    SegmentProblem,
    SegmentSpace,
    segment_optimiser,
    supported_cells,
)
from fstcrf.ext.segments.phrases import SegmentFeatures, segment_features
from fstcrf.ext.segments.structure import Segments, target_column, token_features
from fstcrf.kernel import SparseRows
from fstcrf.kernel.native import mapped
from fstcrf.lattices import Lattice
from fstcrf.lattices.answer import Answer
from fstcrf.lattices.batching import log_partition
from fstcrf.lattices.engine import Tape
from fstcrf.lazy import given_state, made_once
from fstcrf.taggers.evidence import Evidence, Request, biases, mask
from fstcrf.taggers.product import Product
from fstcrf.taggers.spanencoding import SpanEncoding
from fstcrf.taggers.tagger import Composable
from fstcrf.text.corpus import Corpus, Span, named_scheme
from fstcrf.text.corpus.schemes import split_label
from fstcrf.text.features import FeatureIndex, TemplateSet
from fstcrf.text.sentences import Data, SentenceLike, as_sentences, runs_of
from fstcrf.training.arguments import Dev, Features, Gold, Run
from fstcrf.training.lbfgs import LBFGS
from fstcrf.training.loop import Outcome

if TYPE_CHECKING:
    from fstcrf.kernel import Budget
    from fstcrf.machines.grammar import Grammar
    from fstcrf.machines.plans import Search


@dataclass(frozen=True, eq=False)
class SegmentCRF(Composable[list[str]]):
    """A tagger of segments: every stretch of tokens may be a segment with features.

    Made by `train` and `load`.

    Parameters
    ----------
    labels : tuple of str
        Types of segments, and "O" for tokens outside, each of which is a segment.
    index : FeatureIndex
        Attributes of tokens.
    features : SegmentFeatures
        Features of whole segments.
    space : SegmentSpace
        Which weights there are.
    theta : float64 [size]
        The weights.
    columns : tuple of str
        Columns of sentences that are given as rows.
    scheme : str
        In which `tag` writes labels.
    record : struct
        The record of training.
    """

    labels: tuple[str, ...]
    index: FeatureIndex
    features: SegmentFeatures
    space: SegmentSpace
    theta: Floats
    columns: tuple[str, ...]
    scheme: str
    record: SegmentRecord = field(repr=False)

    __getstate__ = given_state

    def __repr__(self) -> str:
        return (
            f"<SegmentCRF: {len(self.labels)} labels, segments of up to {self.space.depth} tokens, "
            f"{self.space.size:,} weights>"
        )

    # --- Training -----------------------------------------------------------------------------

    @classmethod
    def train(
        cls,
        data: Data,
        target: str | Gold,
        features: TemplateSet | str | os.PathLike[str] | Features,
        *,
        structure: Segments | None = None,
        dev: Data | Dev | None = None,
        method: Literal["lbfgs"] | LBFGS = "lbfgs",
        l2: float | None = None,
        max_iterations: int | None = None,
        run: Run | None = None,
    ) -> SegmentCRF:
        """Train a tagger of segments.

        Parameters
        ----------
        data : Corpus or sequence of sentences
            Sentences with the columns that templates and `target` name.
        target : str or Gold
            The column of labels, read as spans by the scheme of `structure`.
        features : TemplateSet, str, path or Features
            Attributes of tokens, as for a `CRF`: each has weights for the first token of a segment,
            for all tokens in it, and for its last token; the surroundings of a segment are thus
            seen from its ends. Attributes of label pairs are not read; each pair of neighbouring
            labels has a weight. ``Features(template, min_count=2)`` drops rare attributes.
        structure : Segments, optional
            The segments of a sentence, and their features.
        dev : Corpus, sequence of sentences, or Dev, optional
            Held-out sentences: the weights with the best F are kept.
        method : "lbfgs" or LBFGS
            L-BFGS, or OWL-QN with l1; options ``l1``, ``period`` and ``delta``.
        l2, max_iterations
            By default 1.0 and 200; see `fstcrf.ext.course.Course`.
        run : Run, optional
            Threads, progress and checkpoints.

        Raises
        ------
        DataError
            No sentence; gold segments that are not in the lattice; no such column.
        OptionError
            Options outside their range, or that this training does not read.
        """
        structure = structure or Segments()
        if not isinstance(structure, Segments):
            raise OptionError(f"structure is {structure!r}, expected Segments(...)")
        course = Course.of(method, l2=l2, max_iterations=max_iterations, run=run, dev=dev)
        templates, min_count = token_features(features)
        target = target_column(target)
        sentences = dev.data if isinstance(dev, Dev) else dev
        scheme, writes = structure.scheme, structure.writes
        given = _Corpus.read(data, target, templates, structure, min_count=min_count)

        def model(theta: Floats, outcome: Outcome | None = None) -> SegmentCRF:
            record = given.record(target, scheme, course, outcome)
            parts = given.labels, given.index, given.features, given.space, theta
            return cls(*parts, given.columns(target), writes, record)

        held_out = None if sentences is None else _full(sentences)
        if held_out is not None:
            table = named_scheme("conlleval")
            rows = held_out.column_lists(target)
            types = ([split_label(label, table)[1] for label in labels] for labels in rows)
            warn_of_unseen(types, ("", *given.labels), "types of the held-out data")
        staged = sentences is None
        mark = target, scheme, course.l2, course.l1, str(templates), staged
        outcome = course.outcome(
            segment_optimiser(given.problem, given.space, course, staged=staged),
            fingerprint=lambda: given.fingerprint(mark),
            evaluate=None if held_out is None else lambda w: model(w).f_of(held_out, target),
        )
        return model(outcome.theta, outcome)

    def f_of(self, corpus: Corpus, target: str) -> float:
        """Return F of the segments of a corpus with gold labels, 0 to 1."""
        gold = [list(sentence[target]) for sentence in corpus]
        return evaluate_spans(gold, self.tag_all(corpus)).f

    # --- Tagging ------------------------------------------------------------------------------

    @property
    def tape(self) -> str:
        """The tape that it writes."""
        return self.record.target

    @property
    def tapes(self) -> tuple[str, ...]:
        """The same, as of any tagger."""
        return (self.tape,)

    @property
    def label_sets(self) -> dict[str, tuple[str, ...]]:
        """The labels of its tape, in the scheme that it writes."""
        return {self.tape: self._encoding.labels}

    @property
    def _lattice_tapes(self) -> tuple[Tape, ...]:
        """The tape of its lattices: labels of segments."""
        return (Tape(self.tape, self.labels, segments=True),)

    def _facts(self) -> dict[str, display.Cell]:
        """Return the size of the tagger, its inputs, and its training."""
        record = self.record
        return {
            "segments": f"{display.listed(self.labels)}, up to {self.space.depth} tokens",
            "reads": display.listed(self.needed_columns),
            "weights": self.space.size,
            "trained on": f"{record.sentences:,} sentences, {record.tokens:,} tokens",
        }

    def _decode(self, asked: Request) -> Answer:
        """Return the result of `decode`; see `Tagger._decode`.

        Ties: the smaller label, then the shorter segment, at the earliest token at which the
        candidates differ.
        """
        alone = Product((self,), (1.0,))
        if asked.n > 1 or not asked.no_evidence or asked.budget is not None:
            return alone._decode(asked)
        offsets, ids, score = self._labelled(asked.sentences, asked.threads)
        proven = np.ones(len(score), dtype=bool)
        return Answer(
            {self.tape: ids[None]},
            self.label_sets,
            offsets,
            scores=score[:, None],
            exact=proven[:, None],
            bounds=score[:, None],
            log_z=lambda: log_partition(alone._lattices(asked.sentences, None)),
            posterior=lambda: alone._posterior(asked, None),
        )

    if TYPE_CHECKING:

        def __and__(self, grammar: Grammar) -> Product[list[str]]: ...

    def constrained(
        self, grammar: Grammar, *, search: Search | None = None, budget: Budget | None = None
    ) -> Product[list[str]]:
        """Return the tagger under a grammar, which reads the label of each segment.

        See `CRF.constrained`; all segments are enumerated, without a search.
        """
        return Product[list[str]]((self,), (1.0,)).constrained(
            grammar, search=search, budget=budget
        )

    def _labelled(self, sentences: Data, threads: int) -> tuple[Longs, Ints, Floats]:
        """Offsets of sentences, labels of tokens, and scores."""
        corpus = self._read(sentences)
        machine, values = self._machine, self._values
        runs = runs_of(Ragged(corpus.offsets), RUN_TOKENS)
        design, space = self.index.runs(corpus), self.space
        extras = self.features.runs(self._phrases, corpus)

        def answer(run: Any) -> tuple[Floats, Ints]:
            token = space.tokens(self._table, design(run.first, run.end).node)
            own = extras(run.first, run.end)
            return best_segments(machine, run.offsets, token, own, values)

        best = mapped(answer, runs, threads)
        score = np.concatenate([np.zeros(0), *(scores for scores, _ in best)])
        label = np.concatenate([np.zeros(0, np.int32), *(labels for _, labels in best)])
        start = np.flatnonzero(label >= 0)
        end = np.append(start[1:], len(label))
        return corpus.offsets, self._encoding.ids(corpus.offsets, start, end, label[start]), score

    def segments(self, sentence: SentenceLike) -> list[Span]:
        """Return the best segments of a sentence, without tokens outside."""
        return self.decode([sentence]).spans(self.scheme)[0]

    def _lattices(self, sentences: Data, known: Evidence | None) -> list[Lattice]:
        """Return the lattice of each sentence, with known labels applied.

        Long segments are separate segments in it, up to the whole sentence.
        """
        corpus = self._read(sentences)
        return [self._transducer(corpus, number, known) for number in range(len(corpus))]

    def _transducer(self, corpus: Corpus, number: int, known: Evidence | None) -> Lattice:
        one = corpus.select(np.array([number]))
        length = one.n_tokens
        start, end, label, score = self._candidates(one, length)
        if known is not None:
            table = self._told(known, number, length)
            score = score + self._encoding.added(table, start, end, label)
        machine, labels = self._machine, len(self.labels)
        return Lattice.from_segments(
            length,
            start,
            end,
            label,
            score,
            self.labels,
            machine.pair[:, :labels],
            machine.initial[:labels],
            machine.final[:labels],
            tape=self.tape,
        )

    def _told(self, known: Evidence, number: int, length: int) -> Floats:
        """Return the addition to each label of a token: −inf if another label is known."""
        topology, (tape,) = self._encoding.topology, self.tapes
        rows = known.forced.get(tape)
        allowed = mask(topology, None if rows is None else rows[number], length)
        return np.where(allowed, biases(topology, known.bias.get(tape, {})), -np.inf)

    def _span_encoding(self, tape: str) -> SpanEncoding | None:
        """Return the notation of a tape's segments as labels of tokens."""
        return self._encoding if tape in self.tapes else None

    @made_once
    def _encoding(self) -> SpanEncoding:
        return SpanEncoding(self.labels, self.scheme)

    def _candidates(self, corpus: Corpus, length: int) -> tuple[Longs, Longs, Longs, Floats]:
        space, machine = self.space, self._machine
        if not length:
            nothing = np.zeros(0, dtype=np.int64)
            return nothing, nothing, nothing, np.zeros(0)
        token = space.tokens(self._table, self.index.design(corpus).node)
        first, inside, last = (token[:, role, : space.labels] for role in range(3))
        total = np.concatenate([np.zeros((1, space.labels)), np.cumsum(inside, axis=0)])
        first_token, last_token = np.triu_indices(length)
        start = np.repeat(first_token, space.labels)
        end = np.repeat(last_token + 1, space.labels)
        label = np.tile(np.arange(space.labels), len(first_token))
        size, most = end - start, space.longest[label]
        tail = machine.length[-2:, : space.labels]
        usual = machine.length[np.minimum(size, space.depth) - 1, label]
        longer = (
            tail[0][label]
            + np.where(size > most, size - most, 0) * np.where(space.tails, tail[1], 0.0)[label]
        )
        score = first[start, label] + (total[end, label] - total[start, label])
        score = score + last[end - 1, label] + np.where(size > most, longer, usual)
        extras = self.features.runs(self._phrases, corpus)(0, len(corpus))
        place, cell = np.divmod(extras.cell.astype(np.int64), space.width)
        at, depth = np.divmod(place, space.depth)
        added = np.zeros((length, length + 1, space.labels))
        np.add.at(added, (at, at + depth + 1, cell), self._values[extras.what])
        score = score + added[start, end, label]
        kept = score > -np.inf
        return start[kept], end[kept], label[kept], score[kept]

    @property
    def needed_columns(self) -> list[str]:
        """Columns that sentences must have."""
        return sorted({*self.index.columns, *(table.column for table in self.features.tables)})

    def _read(self, sentences: Data) -> Corpus:
        if isinstance(sentences, Corpus):
            return sentences
        return Corpus.from_sentences(as_sentences(sentences, self.columns), self.needed_columns)

    @made_once
    def _table(self) -> Any:
        return self.space.table(self.theta)

    @made_once
    def _machine(self) -> Any:
        return self.space.machine(self.theta)

    @made_once
    def _phrases(self) -> PhraseFinder:
        return self.features.finder(self.space.longest, self.space.depth, self.space.width)

    @made_once
    def _values(self) -> Floats:
        return np.ascontiguousarray(self.space.parts(self.theta)[-1])

    # --- Files --------------------------------------------------------------------------------

    def _encoded(self) -> tuple[str, dict[str, Array], dict[str, str]]:
        """Return the kind of its file, arrays and metadata."""
        parts = self.labels, self.index, self.features, self.space, self.theta
        kept = SavedSegmentCRF(*parts, self.columns, self.scheme, self.record)
        return files.KIND, *files.encoded(kept)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> SegmentCRF:
        """Read a model.

        Raises
        ------
        ModelFileError
            No such model, of another version, or damaged.
        OSError
            It cannot be opened.
        """
        return cls(*files.read(path))


def decoded(arrays: Mapping[str, Array], metadata: Mapping[str, str], name: str) -> SegmentCRF:
    """Return the tagger that arrays and metadata describe; `name` is the file's."""
    return SegmentCRF(*files.decoded(arrays, metadata, name))


# --- What is trained on ---------------------------------------------------------------------------


def _full(data: Data) -> Corpus:
    corpus = data if isinstance(data, Corpus) else Corpus.from_sentences(data)
    sizes = Ragged(corpus.offsets).lengths
    if not corpus.n_tokens:
        raise DataError("no sentence to train on", path=corpus.source)
    return corpus if sizes.all() else corpus.select(np.flatnonzero(sizes))


def _attributes(
    corpus: Corpus, templates: TemplateSet, min_count: int, target: str, segments: Sequence[str]
) -> tuple[FeatureIndex, SparseRows]:
    """Return the attributes of tokens."""
    index, design = FeatureIndex.build(corpus, templates, min_count=min_count)
    if design.arc is not None:
        raise OptionError(
            "the template has attributes of label pairs, which a SegmentCRF does not "
            "support: remove them"
        )
    if target in index.columns or target in segments:
        raise OptionError(f"the target {target!r} is also read as a feature")
    return index, design.node


@dataclass(frozen=True, eq=False)
class _Corpus:
    """Sentences to learn from, the attributes from templates, and the set of weights."""

    sentences: Corpus
    labels: tuple[str, ...]
    index: FeatureIndex
    features: SegmentFeatures
    space: SegmentSpace
    problem: SegmentProblem

    @classmethod
    def read(
        cls,
        data: Data,
        target: str,
        templates: TemplateSet,
        structure: Segments,
        *,
        min_count: int,
    ) -> _Corpus:
        corpus, strings = _full(data), structure.strings
        gold, labels = gold_segments(corpus, target, structure.scheme)
        limits, tailed = length_limits(gold, len(labels), structure.longest, tails=structure.tails)
        corpus, gold = present_segments(corpus, gold, labels, limits, tailed, structure.on_missing)
        index, rows = _attributes(corpus, templates, min_count, target, strings)
        lexicon, column = structure.lexicon, structure.lexicon_column
        features = segment_features(corpus, gold, len(labels), limits, strings, lexicon, column)
        cells = supported_cells(rows, gold, len(labels))
        space = SegmentSpace(len(labels), rows.n_columns, cells, limits, tailed, len(features.cell))
        extras = features.extras(corpus, limits, space.depth, space.width)
        problem = SegmentProblem(corpus.offsets, rows, extras, gold)
        return cls(corpus, labels, index, features, space, problem)

    def columns(self, target: str) -> tuple[str, ...]:
        """Return the columns of sentences that are given as rows."""
        return tuple(str(c) for c in self.sentences.columns if c != target)

    def record(
        self, target: str, scheme: str, course: Course, outcome: Outcome | None
    ) -> SegmentRecord:
        """Return the record of a run; before its end, the results are empty."""
        told = {"iterations": 0, "objective": 0.0, "dev_score": None, "reason": ""}
        return SegmentRecord(
            target=target,
            scheme=scheme,
            sentences=len(self.sentences),
            tokens=self.sentences.n_tokens,
            weights=0 if outcome is None else self.space.size,
            l2=course.l2,
            l1=course.l1,
            **(told if outcome is None else known(outcome)),
        )

    def fingerprint(self, options: tuple[object, ...]) -> str:
        """Return a hash of everything that determines a run."""
        corpus, space = self.sentences, self.space
        digest = hashlib.sha256(repr(options).encode())
        for array in (corpus.offsets, space.cells, space.longest, space.tails):
            digest.update(np.ascontiguousarray(array).tobytes())
        digest.update(str(space.values).encode())
        for name, column in corpus.columns.items():
            digest.update(str(name).encode())
            digest.update(np.ascontiguousarray(column.ids).tobytes())
        return digest.hexdigest()
