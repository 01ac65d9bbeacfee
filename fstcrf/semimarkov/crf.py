"""`SegmentCRF`: a conditional random field over segments, semi-Markov."""

from __future__ import annotations

import hashlib
import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec
import numpy as np

from fstcrf.arguments import one_of
from fstcrf.arrays import Array, Floats, Ints, Longs, distinct
from fstcrf.corpus import Corpus, Span, labels_from_arrays, named_scheme, span_arrays
from fstcrf.corpus.schemes import OUTSIDE
from fstcrf.errors import DataError, LabelWarning, ModelFileError, OptionError
from fstcrf.evaluate import evaluate_spans
from fstcrf.features import FeatureIndex, TemplateSet
from fstcrf.features.template import as_templates
from fstcrf.kernel import SparseRows
from fstcrf.kernel.phrases import PhraseFinder
from fstcrf.kernel.semimarkov import best_segments
from fstcrf.lattice import SegmentLattice
from fstcrf.model.reading import Data, SentenceLike, as_sentences, runs_of
from fstcrf.once import made_once
from fstcrf.semimarkov.likelihood import (
    SegmentProblem,
    SegmentSpace,
    segment_optimiser,
    supported_cells,
)
from fstcrf.semimarkov.phrases import (
    GoldSegments,
    Lexicon,
    PhraseTable,
    SegmentFeatures,
    segment_features,
)
from fstcrf.storage import SEGMENTS, read_arrays, write_arrays
from fstcrf.train.course import Course, known
from fstcrf.train.loop import Progress
from fstcrf.train.shards import Workers

KIND, VERSION = SEGMENTS, 1
OnMissing = Literal["error", "nearest", "skip"]

_RUN = 20_000  # tokens that are scored together
_CAP = 8


class _Record(msgspec.Struct, frozen=True):
    """What was trained, and how."""

    target: str
    scheme: str
    sentences: int
    tokens: int
    weights: int
    iterations: int
    objective: float
    dev_score: float | None
    reason: str
    l2: float
    l1: float


class _Header(msgspec.Struct, frozen=True):
    labels: tuple[str, ...]
    columns: tuple[str, ...]
    scheme: str
    rows: int
    names: tuple[str, ...]
    tables: tuple[tuple[str, tuple[str, ...]], ...]  # column, strings
    record: _Record


class SegmentAnswer:
    """The best segments of many sentences, as flat arrays.

    Parameters
    ----------
    offsets : int64 [B + 1]
        Sentence b has the segments ``offsets[b] : offsets[b + 1]``.
    start, end : int32 [M]
        Tokens of their sentence.
    label : int32 [M]
        Index into `labels`; segments of "O" are left out.
    score : float64 [B]
        Of the best path of each sentence, natural log.
    labels : tuple of str
    """

    def __init__(
        self,
        offsets: Longs,
        start: Ints,
        end: Ints,
        label: Ints,
        score: Floats,
        labels: tuple[str, ...],
    ) -> None:
        self.offsets, self.start, self.end, self.label = offsets, start, end, label
        self.score, self.labels = score, labels

    def __len__(self) -> int:
        """Sentences."""
        return len(self.score)

    def __getitem__(self, sentence: int) -> list[Span]:
        """Return the segments of a sentence."""
        first, last = (
            self.offsets[sentence : sentence + 2].tolist()
            if sentence >= 0
            else (self.offsets[[sentence - 1, len(self) + 1 + sentence]].tolist())
        )
        columns = (c[first:last].tolist() for c in (self.start, self.end, self.label))
        return [Span(s, e, self.labels[k]) for s, e, k in zip(*columns, strict=True)]

    def spans(self) -> list[list[Span]]:
        """Return the segments of every sentence."""
        return [self[b] for b in range(len(self))]


@dataclass(frozen=True, eq=False)
class SegmentCRF:
    """A tagger of segments: every stretch of tokens may be one, with features of its own.

    Made by `train` and `load`.

    Parameters
    ----------
    labels : tuple of str
        Types of segments, and "O" for tokens outside, each a segment of its own.
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
        What was trained, and how.
    """

    labels: tuple[str, ...]
    index: FeatureIndex
    features: SegmentFeatures
    space: SegmentSpace
    theta: Floats
    columns: tuple[str, ...]
    scheme: str
    record: Any = field(repr=False)

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
        target: str,
        template: TemplateSet | str | os.PathLike[str],
        *,
        segments: Sequence[str] = (),
        lexicon: Lexicon | None = None,
        lexicon_column: str | None = None,
        longest: int = _CAP,
        tails: bool = True,
        scheme: str = "conlleval",
        writes: str = "iob2",
        on_missing: OnMissing = "error",
        min_count: int = 1,
        dev: Data | None = None,
        l2: float = Course.l2,
        l1: float = Course.l1,
        max_iterations: int = Course.max_iterations,
        period: int = Course.period,
        delta: float = Course.delta,
        patience: int = Course.patience,
        threads: int = Course.threads,
        report: Callable[[Progress], None] | None = Course.report,
        checkpoint: str | os.PathLike[str] | None = Course.checkpoint,
        checkpoint_every: int = Course.checkpoint_every,
        resume: bool = Course.resume,
    ) -> SegmentCRF:
        """Train a tagger of segments.

        Parameters
        ----------
        data : Corpus or sequence of sentences
            Sentences with the columns that templates and `target` name.
        target : str
            The column of labels, read as spans by `scheme`.
        template : TemplateSet, str or path
            Attributes of tokens, as for a `CRF`: each has weights for the first token of a segment,
            for the tokens in one, and for its last token, so that what stands around a segment is
            seen from its ends. Attributes of label pairs are not read; neighbouring labels have
            weights of their own.
        segments : sequence of str
            Columns whose strings over a whole segment are features.
        lexicon : mapping of str to iterable of str, optional
            Names of entries, and their phrases: words with blanks between them. That a segment is
            one is a feature.
        lexicon_column : str, optional
            The column that phrases are of; the first one when absent.
        longest : int
            Segments of a label have at most as many tokens as its longest in the data, and not more
            than this; beyond, they have a tail.
        tails : bool
            Longer segments are possible: a weight for being longer and one for each further token,
            without features of the whole segment.
        scheme : str
            How labels are read as spans.
        writes : str
            The scheme of the labels that `tag` returns.
        on_missing : {"error", "nearest", "skip"}
            Gold segments that the lattice does not have, too long without tails: an error that
            counts and names them; they are cut into pieces; their sentences are left out. The
            latter two say how many.
        min_count : int
            Leave out attributes that fewer tokens have.
        dev : Corpus or sequence of sentences, optional
            Held-out sentences: the weights with the best F are kept.
        l2, l1, max_iterations, period, delta, patience, threads, report
            How weights are learnt: see `fstcrf.train.course.Course`.
        checkpoint, checkpoint_every, resume
            File for the state of the run, as for `CRF.train`.

        Raises
        ------
        DataError
            No sentence; gold segments that are not in the lattice; no such column.
        OptionError
            Options outside what they may be.
        """
        one_of("on_missing", on_missing, OnMissing)
        course = Course(
            l2=l2,
            l1=l1,
            max_iterations=max_iterations,
            period=period,
            delta=delta,
            patience=patience,
            threads=threads,
            report=report,
            checkpoint=checkpoint,
            checkpoint_every=checkpoint_every,
            resume=resume,
        )
        _check_schemes(longest, scheme, writes)
        corpus = _full(data)
        gold, labels = _gold(corpus, target, scheme)
        limits, tailed = _limits(gold, len(labels), longest, tails=tails)
        corpus, gold = _present(corpus, gold, labels, limits, tailed, on_missing)
        templates = as_templates(template)
        index, rows = _attributes(corpus, templates, min_count, target, segments)
        phrases = segment_features(
            corpus, gold, len(labels), limits, segments, lexicon, lexicon_column
        )
        cells = supported_cells(rows, gold, len(labels))
        space = SegmentSpace(len(labels), rows.n_columns, cells, limits, tailed, len(phrases.cell))
        extras = phrases.extras(corpus, limits, space.depth, space.width)
        problem = SegmentProblem(corpus.offsets, rows, extras, gold)
        columns = tuple(str(c) for c in corpus.columns if c != target)

        def model(theta: Floats, **told: Any) -> SegmentCRF:
            about: dict[str, Any] = dict.fromkeys(("iterations", "weights"), 0)
            about |= {"objective": 0.0, "dev_score": None, "reason": ""}
            about |= {"sentences": len(corpus), "tokens": corpus.n_tokens}
            about |= {"target": target, "scheme": scheme, "l2": course.l2, "l1": course.l1}
            record = _Record(**(about | told))
            return cls(labels, index, phrases, space, theta, columns, writes, record)

        held_out = None if dev is None else _full(dev)
        staged = dev is None
        run = target, scheme, course.l2, course.l1, str(templates), staged
        outcome = course.run(
            segment_optimiser(problem, space, course, staged=staged),
            fingerprint=lambda: _fingerprint(corpus, space, run),
            evaluate=None if held_out is None else lambda w: model(w).f_of(held_out, target),
        )
        return model(outcome.theta, weights=space.size, **known(outcome))

    def f_of(self, corpus: Corpus, target: str) -> float:
        """Return F of the segments of a corpus with gold labels, 0 to 1."""
        scheme = self.record.scheme
        gold = [list(sentence[target]) for sentence in corpus]
        scores = evaluate_spans(gold, self.tag_all(corpus), scheme=scheme)
        return float(scores.overall.f)

    # --- Tagging ------------------------------------------------------------------------------

    def decode(self, sentences: Data, *, threads: int = 1) -> SegmentAnswer:
        """Return the best segments of sentences.

        Ties: the smaller label, then the shorter segment, at the earliest token where the
        candidates differ.

        Parameters
        ----------
        sentences : Corpus or sequence of sentences
        threads : int
        """
        offsets, label, score = self._labelled(sentences, threads)
        start, end = _bounds(label)
        kind = label[start]
        kept = kind != self._outside
        start, end, kind = start[kept], end[kept], kind[kept]
        row = np.searchsorted(start, offsets)
        first = np.repeat(offsets[:-1], np.diff(row))
        return SegmentAnswer(
            row,
            (start - first).astype(np.int32),
            (end - first).astype(np.int32),
            kind,
            score,
            self.labels,
        )

    def _labelled(self, sentences: Data, threads: int) -> tuple[Longs, Ints, Floats]:
        """Offsets of sentences, labels at first tokens of segments, −1 elsewhere, and scores."""
        lengths, corpus = self._read(sentences)
        machine, values = self._machine, self._values
        runs = list(runs_of(lengths, _RUN))
        design, space = self.index.runs(corpus), self.space
        extras = self.features.runs(self._phrases, corpus)

        def answer(run: Any) -> tuple[Floats, Ints]:
            token = space.tokens(self._table, design(run.first, run.end).node)
            own = extras(run.first, run.end)
            return best_segments(machine, run.offsets, token, own, values)

        found = list(Workers(threads).map(answer, runs))
        score = np.zeros(len(lengths))
        for run, (own, _) in zip(runs, found, strict=True):
            score[run.numbers] = own
        label = np.concatenate([np.zeros(0, np.int32), *(labels for _, labels in found)])
        return np.append(0, np.cumsum(lengths)).astype(np.int64), label, score

    @property
    def _outside(self) -> int:
        """The label of tokens outside; −1: there is none."""
        return self.labels.index(OUTSIDE) if OUTSIDE in self.labels else -1

    def segments(self, sentence: SentenceLike) -> list[Span]:
        """Return the best segments of a sentence, without what is outside."""
        return self.decode([sentence])[0]

    def tag(self, sentence: SentenceLike) -> list[str]:
        """Return the labels of a sentence, in the scheme that the tagger writes."""
        return self.tag_all([sentence])[0]

    def tag_all(self, sentences: Data, *, threads: int = 1) -> list[list[str]]:
        """Return the labels of sentences, in the scheme that the tagger writes."""
        offsets, label, _ = self._labelled(sentences, threads)
        start, end = _bounds(label)
        kind = label[start]
        kept = kind != self._outside
        spans = start[kept], end[kept], kind[kept]
        return labels_from_arrays(offsets, *spans, self.labels, self.scheme)

    def lattice(self, sentence: SentenceLike) -> SegmentLattice:
        """Return the lattice of a sentence's segments: n best, marginals, grammars, compositions.

        Long segments stand in it as segments of their own, up to the whole sentence.
        """
        lengths, corpus = self._read([sentence])
        length = lengths[0]
        start, end, label, score = self._candidates(corpus, length)
        machine, labels = self._machine, len(self.labels)
        return SegmentLattice.from_arrays(
            length,
            start,
            end,
            label,
            score,
            self.labels,
            machine.pair[:, :labels],
            machine.initial[:labels],
            machine.final[:labels],
        )

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

    def _read(self, sentences: Data) -> tuple[list[int], Corpus]:
        """Lengths of all sentences, and those that are not empty."""
        if isinstance(sentences, Corpus):
            sizes = np.diff(sentences.offsets)
            full = sentences if sizes.all() else sentences.select(np.flatnonzero(sizes))
            return sizes.tolist(), full
        parsed = as_sentences(sentences, self.columns)
        full = Corpus.from_sentences([s for s in parsed if len(s)], self.needed_columns)
        return [len(s) for s in parsed], full

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

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a file, whole or not at all.

        Raises
        ------
        OSError
            The file cannot be written.
        """
        arrays: dict[str, Array] = {
            "theta": self.theta,
            "cells": self.space.cells,
            "longest": self.space.longest,
            "tails": self.space.tails.astype(np.uint8),
            "features.cell": self.features.cell,
        }
        for k, table in enumerate(self.features.tables):
            for name in _TABLE:
                arrays[f"features.{k}.{name}"] = getattr(table, name)
        arrays |= {f"index.{name}": array for name, array in self.index.arrays().items()}
        header = _Header(
            labels=self.labels,
            columns=self.columns,
            scheme=self.scheme,
            rows=self.space.rows,
            names=self.features.names,
            tables=tuple((table.column, table.strings) for table in self.features.tables),
            record=self.record,
        )
        metadata = {
            "header": msgspec.json.encode(header).decode(),
            "index": msgspec.json.encode(self.index.metadata()).decode(),
        }
        write_arrays(path, arrays, metadata, kind=KIND, version=VERSION)

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
        arrays, metadata = read_arrays(path, kind=KIND, version=VERSION)
        try:
            header = msgspec.json.decode(metadata["header"], type=_Header)
            about = msgspec.json.decode(metadata["index"])
            own = {
                name.removeprefix("index."): array
                for name, array in arrays.items()
                if name.startswith("index.")
            }
            index = FeatureIndex.from_arrays(own, about)
            tables = tuple(
                PhraseTable(column, strings, *(arrays[f"features.{k}.{name}"] for name in _TABLE))
                for k, (column, strings) in enumerate(header.tables)
            )
            labels = len(header.labels)
            features = SegmentFeatures(tables, header.names, arrays["features.cell"], labels)
            space = SegmentSpace(
                labels,
                header.rows,
                arrays["cells"],
                arrays["longest"],
                arrays["tails"].astype(bool),
                len(features.cell),
            )
            _check_parts(space, features, arrays["theta"])
        except (KeyError, ValueError, msgspec.MsgspecError) as error:
            raise ModelFileError(f"{os.fspath(path)}: damaged: {error}") from None
        return cls(
            header.labels,
            index,
            features,
            space,
            arrays["theta"],
            header.columns,
            header.scheme,
            header.record,
        )


def _bounds(label: Ints) -> tuple[Longs, Longs]:
    """Return where segments begin and end, of labels at their first tokens, −1 elsewhere."""
    start = np.flatnonzero(label >= 0)
    return start, np.append(start[1:], len(label))


_TABLE = ("parent", "string", "depth", "row", "attribute")


def _check_parts(space: SegmentSpace, features: SegmentFeatures, theta: Floats) -> None:
    """Refuse numbers that lead outside other arrays."""

    def inside(what: str, numbers: Array, size: int) -> None:
        if len(numbers) and not (numbers.min() >= 0 and numbers.max() < size):
            raise ValueError(f"{what} holds numbers outside [0, {size})")

    if theta.shape != (space.size,) or not np.isfinite(theta).all():
        raise ValueError(f"{theta.size} weights, expected {space.size} finite ones")
    if space.longest.shape != (space.labels,) or space.tails.shape != (space.labels,):
        raise ValueError("lengths of other labels")
    inside("longest", space.longest - 1, 10_000)
    inside("cells", space.cells, space.rows * 3 * space.width)
    inside("features", features.cell, len(features.names) * space.labels)
    for table in features.tables:
        nodes = len(table.parent)
        inside("parent", table.parent, nodes + 1)
        inside("string", table.string, len(table.strings))
        inside("depth", table.depth, nodes + 1)
        inside("attribute", table.attribute, len(features.names))
        if len(table.string) != nodes or len(table.row) != nodes + 1 or not len(table.depth):
            raise ValueError("a table of phrases whose parts disagree")
        if (np.diff(table.row) < 0).any() or table.row[-1] != len(table.attribute):
            raise ValueError("a table of phrases whose rows do not rise")


# --- What is trained on ---------------------------------------------------------------------------


def _check_schemes(longest: int, scheme: str, writes: str) -> None:
    if not 1 <= longest <= 1000:
        raise OptionError(f"longest is {longest}, expected 1 to 1000")
    named_scheme(scheme)
    if not named_scheme(writes).strict:
        raise OptionError(f"scheme {writes!r} only reads labels; name one to write")


def _attributes(
    corpus: Corpus,
    templates: TemplateSet,
    min_count: int,
    target: str,
    segments: Sequence[str],
) -> tuple[FeatureIndex, SparseRows]:
    """Return the attributes of tokens."""
    index, design = FeatureIndex.build(corpus, templates, min_count=min_count)
    if design.arc is not None:
        raise OptionError("the template has attributes of label pairs: a SegmentCRF reads none")
    if target in index.columns or target in segments:
        raise OptionError(f"the target {target!r} is also read as a feature")
    return index, design.node


def _full(data: Data) -> Corpus:
    corpus = data if isinstance(data, Corpus) else Corpus.from_sentences(data)
    sizes = np.diff(corpus.offsets)
    if not corpus.n_tokens:
        raise DataError("no sentence to train on", path=corpus.source)
    return corpus if sizes.all() else corpus.select(np.flatnonzero(sizes))


def _gold(corpus: Corpus, target: str, scheme: str) -> tuple[GoldSegments, tuple[str, ...]]:
    """Gold segments, those of one token outside among them, and their labels."""
    if target not in corpus.columns:
        there = ", ".join(map(str, corpus.columns))
        raise DataError(f"no column {target!r}: there is {there}", path=corpus.source)
    column = corpus.columns[target]
    found = span_arrays(column, corpus.offsets, scheme)
    used = distinct(found.type)
    types = [found.types[k] for k in used.tolist()]
    if OUTSIDE in types:
        raise DataError('a type of spans is called "O", as tokens outside are')
    labels = (*sorted(types), OUTSIDE)
    number = np.zeros(len(found.types) + 1, dtype=np.int64)
    for k, name in zip(used.tolist(), types, strict=True):
        number[k] = labels.index(name)
    covered = np.zeros(corpus.n_tokens + 1, dtype=np.int64)
    np.add.at(covered, found.start, 1)
    np.add.at(covered, found.end, -1)
    outside = np.flatnonzero(np.cumsum(covered)[:-1] == 0)
    start = np.concatenate([found.start, outside]).astype(np.int64)
    end = np.concatenate([found.end, outside + 1]).astype(np.int64)
    label = np.concatenate([number[found.type], np.full(len(outside), len(labels) - 1)])
    order = np.argsort(start, kind="stable")
    return GoldSegments(start[order], end[order], label[order]), labels


def _limits(
    gold: GoldSegments, labels: int, longest: int, *, tails: bool
) -> tuple[Ints, np.ndarray[Any, np.dtype[np.bool_]]]:
    """Return the longest segment of each label, and whether there may be longer ones."""
    most = np.ones(labels, dtype=np.int64)
    np.maximum.at(most, gold.label, gold.end - gold.start)
    limits = np.minimum(most, longest).astype(np.int32)
    tailed = np.full(labels, tails)
    tailed[-1] = False  # tokens outside are segments of their own
    return limits, tailed


def _present(
    corpus: Corpus,
    gold: GoldSegments,
    labels: tuple[str, ...],
    limits: Ints,
    tailed: np.ndarray[Any, np.dtype[np.bool_]],
    on_missing: OnMissing,
) -> tuple[Corpus, GoldSegments]:
    """Return the corpus and gold segments that the lattices have."""
    size = gold.end - gold.start
    missing = np.flatnonzero((size > limits[gold.label]) & ~tailed[gold.label])
    if not len(missing):
        return corpus, gold
    sentence = np.searchsorted(corpus.offsets, gold.start[missing], side="right") - 1
    k, own = int(missing[0]), int(sentence[0])
    name = labels[int(gold.label[k])]
    what = (
        f"{len(missing)} gold segments are longer than their label's longest, the first a {name} "
        f"of {size[k]} tokens"
    )
    if on_missing == "error":
        raise DataError(
            f"{what}: allow tails, a larger longest=, or say on_missing='nearest' or 'skip'",
            sentence=own,
            token=int(gold.start[k] - corpus.offsets[own]),
        )
    if on_missing == "skip":
        kept = np.setdiff1d(np.arange(len(corpus)), sentence)
        warnings.warn(
            f"{what}: {len(corpus) - len(kept)} sentences are left out", LabelWarning, stacklevel=3
        )
        if not len(kept):
            raise DataError("no sentence is left to train on", path=corpus.source)
        return corpus.select(kept), gold.chosen(corpus.offsets, kept)
    warnings.warn(f"{what}: they are cut into pieces", LabelWarning, stacklevel=3)
    most = limits[gold.label].astype(np.int64)
    pieces = -(-size // most)
    which = np.repeat(np.arange(len(size)), pieces)
    part = np.arange(len(which)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    start = gold.start[which] + part * most[which]
    end = np.minimum(start + most[which], gold.end[which])
    return corpus, GoldSegments(start, end, gold.label[which])


def _fingerprint(corpus: Corpus, space: SegmentSpace, options: tuple[object, ...]) -> str:
    digest = hashlib.sha256(repr(options).encode())
    for array in (corpus.offsets, space.cells, space.longest, space.tails):
        digest.update(np.ascontiguousarray(array).tobytes())
    digest.update(str(space.values).encode())
    for name, column in corpus.columns.items():
        digest.update(str(name).encode())
        digest.update(np.ascontiguousarray(column.ids).tobytes())
    return digest.hexdigest()
