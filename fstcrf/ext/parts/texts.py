"""The data of a training run in parts that others read: index, labels and design without a corpus.

Two passes over the text come first, one for its strings and labels, one for its attributes. Their
numbers are equal to the numbers that `read_source` assigns in memory.
"""

from __future__ import annotations

import itertools
import operator
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from fstcrf.arrays import Bools, Floats, Ints, Longs, Ragged, distinct
from fstcrf.errors import DataError, OptionError
from fstcrf.ext.parts.spool import ArrayFile, Spool, StoredProblem
from fstcrf.kernel import SparseRows
from fstcrf.machines.topology import Topology
from fstcrf.taggers.training import TrainingCall
from fstcrf.text.corpus import Corpus, concatenated
from fstcrf.text.corpus.collection import CorpusFiles, Piece
from fstcrf.text.features import Design, FeatureIndex, TemplateSet
from fstcrf.text.features.counting import (
    Counted,
    Keys,
    counted_keys,
    joined_counts,
    numbered,
    prefix_keys,
)
from fstcrf.text.features.derive import Source, root
from fstcrf.text.features.keys import Packing
from fstcrf.text.features.reader import (
    Encoder,
    Family,
    Reader,
    families,
    padding,
    remembered,
    sources,
    without_unused,
)
from fstcrf.text.features.tables import Vocabularies
from fstcrf.text.sentences import UNKNOWN, allowed_labels, label_set
from fstcrf.training.data import TARGET, class_weighted, given_weights
from fstcrf.training.evidence import DataCounts, Evidence
from fstcrf.training.executors.executor import Executor, LocalExecutor, Placement
from fstcrf.training.gold import Gold, UnknownLabels, illegal_warning, legal_gold
from fstcrf.training.options import Options
from fstcrf.training.problem import Problem
from fstcrf.training.shards import part_bounds
from fstcrf.training.structure import check_pairs, structure, successions
from fstcrf.training.support import Support, counted_often, support, supported_space

_GIVEN_TOKENS = 1 << 18  # for a piece of a corpus in memory
_BLOCK_TOKENS = 1 << 16  # for a block of a part if memory is short


# --- Pieces: what one worker reads ----------------------------------------------------------------


class FilePiece(NamedTuple):
    """A piece of files."""

    files: CorpusFiles
    piece: Piece


TextPiece: TypeAlias = FilePiece | Corpus
"""A piece of files, or of a corpus in memory."""


class Scanned(NamedTuple):
    """The results of the first pass for a piece: its columns and sentences."""

    piece: TextPiece
    name: str  # for messages
    columns: tuple[str, ...]
    lengths: Ints  # [S] of sentences


Values: TypeAlias = dict[str, tuple[str, ...]]
"""The distinct strings of columns, in the order of their first appearance."""


class Judged(NamedTuple):
    """The results of checking a piece against the scheme of gold labels."""

    kept: Bools  # [S]
    illegal: int
    first: str
    labels: tuple[str, ...]  # strings of the column, as training takes them
    values: Values  # strings of columns in the sentences that are kept


def files_planned(path: str, files: CorpusFiles) -> list[Piece]:
    """Return the pieces of a file."""
    return files.pieces(path)


def itself(state: Any) -> Any:
    """Return a state."""
    return state


def scanned(piece: TextPiece, templates: TemplateSet, target: str) -> tuple[list[Scanned], Values]:
    """Make the first pass over a piece."""
    found: list[Scanned] = []
    total: Values = {}
    for smaller, corpus in _read(piece):
        if not corpus.columns or not corpus.n_tokens:
            continue
        named = templates.resolved(tuple(corpus.columns), data=corpus.source)
        wanted = dict.fromkeys([*map(str, named.columns), target])
        used = {name: without_unused(corpus.column(name)) for name in wanted}
        total = values_joined(total, {name: column.values for name, column in used.items()})
        lengths = Ragged(corpus.offsets).lengths.astype(np.int32)
        kept = smaller
        if isinstance(kept, Corpus):  # other columns and strings need not go to workers
            kept = Corpus(used, corpus.offsets, source=corpus.source, lines=corpus.lines)
        name = corpus.source or "<input>"
        found.append(Scanned(kept, name, tuple(corpus.columns), lengths))
    return found, total


def _read(piece: TextPiece) -> Iterator[tuple[TextPiece, Corpus]]:
    """Yield the sentences of a piece, with the piece that they are."""
    if isinstance(piece, Corpus):
        yield piece, piece
        return
    for smaller, corpus in piece.files.read_pieces(piece.piece):
        yield FilePiece(piece.files, smaller), corpus


def scans_joined(
    one: tuple[list[Scanned], Values], other: tuple[list[Scanned], Values]
) -> tuple[list[Scanned], Values]:
    """Return the combined results of the first pass for successive pieces."""
    return one[0] + other[0], values_joined(one[1], other[1])


def values_joined(one: Values, other: Values) -> Values:
    """Return the strings of successive pieces."""
    if not one or not other:
        return one or other
    return {
        name: tuple(dict.fromkeys((*strings, *other.get(name, ()))))
        for name, strings in one.items()
    }


def judged(
    one: Scanned, target: str, settings: Options, known: Sequence[str], names: Sequence[str]
) -> Judged:
    """Read the gold labels of a piece under their scheme."""
    corpus = _labelled(one.piece, target)
    gold = legal_gold(corpus, TARGET, settings, known=known)
    full = gold.corpus
    if not gold.kept.all():
        chosen = np.flatnonzero(gold.kept)
        full, corpus = full.select(chosen), corpus.select(chosen)
    labels = without_unused(full.column(TARGET)).values
    values = {name: without_unused(corpus.column(name)).values for name in names}
    return Judged(gold.kept, gold.illegal, gold.first, labels, values)


def _labelled(piece: TextPiece, target: str) -> Corpus:
    """Return the sentences of a piece that was read before, with the column `TARGET`."""
    corpus = piece if isinstance(piece, Corpus) else piece.files.read_piece(piece.piece)
    return corpus.with_interned(TARGET, corpus.column(target))


# --- Parts: what is trained on --------------------------------------------------------------------


@dataclass(eq=False)
class TextPart:
    """The text of a part: sentences of pieces.

    Parameters
    ----------
    runs : sequence of (piece, int64 [n] or slice)
    first, first_token : int
        Numbers of the first sentence and token in the text.
    weight : float64 [n]
        Of sentences, as given.
    target : str
    settings : Options
    known : sequence of str
        Labels of the text.
    folder : str, optional
        Where arrays go; the text is then read again for each pass.
    """

    runs: Sequence[tuple[TextPiece, Longs | slice]]
    first: int
    first_token: int
    weight: Floats
    target: str
    settings: Options
    known: Sequence[str]
    folder: str | None = None
    vocabularies: Vocabularies | None = None
    _corpus: Corpus | None = None

    def corpus(self) -> Corpus:
        """Return its sentences, their labels as training takes them in the column `TARGET`."""
        if self._corpus is not None:
            return self._corpus
        found = []
        for piece, chosen in self.runs:
            corpus = _labelled(piece, self.target)
            found.append(corpus[chosen] if isinstance(chosen, slice) else corpus.select(chosen))
        corpus = concatenated(found)
        gold = legal_gold(corpus, TARGET, self.settings, known=self.known)
        if self.folder is None:
            self._corpus = gold.corpus
        return gold.corpus

    def blocks(self) -> Iterator[Corpus]:
        """Yield its sentences, some at a time where memory is short."""
        corpus = self.corpus()
        if self.folder is None:
            yield corpus
            return
        for first, end in Ragged(corpus.offsets).runs(_BLOCK_TOKENS):
            yield corpus[first:end]

    def allowed(self, labels: Sequence[str]) -> Bools:
        """Return which labels each token may have, bool [N, L]."""
        column = self.corpus().column(TARGET)
        return allowed_labels(column, labels, partial=self.settings.reads_sets)


def part_successions(text: TextPart, labels: Sequence[str]) -> Bools:
    """Return which label follows which in the text."""
    return successions(text.allowed(labels), text.corpus().offsets)


def part_unknown(text: TextPart, labels: Sequence[str]) -> UnknownLabels:
    """Count the labels of the text that are not known."""
    return UnknownLabels.of(text.corpus().column(TARGET), labels)


def part_prefixes(text: TextPart, family: Family, packing: Packing) -> Keys:
    """Return the distinct prefixes of the keys of a family."""
    blocks = (prefix_keys(_encoder(text, corpus), family, packing) for corpus in text.blocks())
    return reduce(distinct, blocks)


def part_keys(
    text: TextPart, families: Sequence[Family], packings: Sequence[Packing]
) -> list[Counted]:
    """Return the keys of attributes, with counts, family by family."""
    total: list[Counted] = []
    for corpus in text.blocks():
        found = counted_keys(_encoder(text, corpus), families, packings)
        total = keys_joined(total, found) if total else found
    return total


def keys_joined(one: list[Counted], other: list[Counted]) -> list[Counted]:
    """Return the keys of two parts, their counts added up."""
    return [joined_counts(pair) for pair in zip(one, other, strict=True)]


def _encoder(text: TextPart, corpus: Corpus) -> Encoder:
    if text.vocabularies is None:
        raise OptionError("a text is counted before its strings are numbered")
    return Encoder(Reader(corpus, reach=text.vocabularies.reach), text.vocabularies)


def part_of(
    text: TextPart,
    index: FeatureIndex,
    topology: Topology,
    class_weights: Mapping[str, float] | None,
) -> Problem:
    """Return the problem of a part."""
    labels = topology.labels
    corpus, allowed = text.corpus(), text.allowed(labels)
    spool = None if text.folder is None else Spool(text.folder)
    weight = class_weighted(text.weight, allowed, labels, class_weights, corpus.offsets)
    if spool is None:
        design, offsets = index.design(corpus), corpus.offsets
    else:
        design = _spooled(index, corpus, spool)
        allowed, offsets = spool.put(allowed, corpus.offsets)
    try:
        problem = StoredProblem(
            topology,
            offsets,
            design.node,
            design.arc,
            allowed,
            weight,
            text.first,
            text.first_token,
            spool,
        )
    except DataError as error:
        if error.sentence is None:
            raise
        token = int(corpus.offsets[error.sentence]) + (error.token or 0)
        raise DataError(error.message, **corpus.where(token)) from None
    return problem


def _spooled(index: FeatureIndex, corpus: Corpus, spool: Spool) -> Design:
    """Return the design of a corpus as mapped arrays, made some sentences at a time."""
    make, names = index.runs(corpus), ["node", *["arc"] * bool(index.arc.families)]
    counts: dict[str, list[Longs]] = {name: [] for name in names}
    sides: list[SparseRows] = []
    with ExitStack() as stack:
        files = {
            name: [stack.enter_context(ArrayFile(spool.folder)) for _ in range(2)] for name in names
        }
        for first, end in Ragged(corpus.offsets).runs(_BLOCK_TOKENS):
            design = make(first, end)
            for name in names:
                rows: SparseRows = getattr(design, name)
                files[name][0].append(rows.index)
                if rows.value is not None:
                    files[name][1].append(rows.value)
                counts[name].append(Ragged(rows.indptr).lengths)
        for name, n_rows in zip(names, (index.n_node_rows, index.n_arc_rows), strict=False):
            indptr = Ragged.from_lengths(np.concatenate(counts[name])).offsets
            entries, values = files[name]
            found = spool.whole(entries, np.int32)
            value = spool.whole(values, np.float32) if values.size else None
            sides.append(SparseRows(spool.put(indptr)[0], found, value, n_rows))
    return Design(sides[0], sides[1] if len(sides) > 1 else None)


# --- The text -------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class FlatPaths:
    """A text in parts, ready to be trained on."""

    index: FeatureIndex
    columns: tuple[str, ...]
    labels: Sequence[str]
    evidence: Evidence
    note: str
    unknown: UnknownLabels


def gathered(
    call: TrainingCall,
    data: CorpusFiles | Corpus,
    target: str,
    templates: TemplateSet,
    weights: Floats | None,
) -> FlatPaths:
    """Read a text part by part.

    Parameters
    ----------
    call : TrainingCall
    data, target
        The text, and the column of its labels.
    templates : TemplateSet
    weights : float64 [S], optional
        Of sentences.
    """
    if templates.reads_documents:
        raise OptionError(
            "templates with %d read other sentences, but parts of a text cut "
            "documents: train in one process"
        )
    settings, run = call.settings, call.run
    executor = run.executor or LocalExecutor()
    folder = None if run.memory_limit is None else tempfile.gettempdir()
    found, values = _scan(data, target, templates, executor)
    columns = _common_columns(found)
    named = templates.resolved(columns, data=found[0].name)
    values, labels, kept, note = _labels(found, values, target, settings, executor)
    plain = TextPart([], 0, 0, np.empty(0), target, settings, labels[0], folder)
    texts, offsets = _texts(found, kept, weights, plain, executor)
    final = label_set(labels[1], partial=settings.reads_sets)
    unknown = UnknownLabels(tokens=int(offsets[-1]))
    if any(string == UNKNOWN or "|" in string for string in labels[1]):
        unknown = texts.fold(operator.add, part_unknown, final)
    topology = structure(
        final, settings, lambda: texts.fold(np.logical_or, part_successions, final), call.grammar
    )
    index, texts = _index(named, values, texts, settings, folder)
    parts = texts.then(part_of, index, topology, call.class_weights)
    check_pairs(index, topology, settings)
    counts = DataCounts.of(parts)
    space = supported_space(
        topology,
        index.n_node_rows,
        index.n_arc_rows if index.arc.families else None,
        parts.fold(Support.joined, support, settings.pairs),
        transitions=settings.transitions if named.has_transitions else "none",
        ends=settings.ends,
    )
    threads = run.threads if isinstance(executor, LocalExecutor) else 1
    evidence = Evidence(parts, space, offsets, counts, run.threads, part_threads=threads)
    if settings.min_frequency is not None:
        if counts.labelled < counts.sentences:
            raise OptionError("labels that are not known: min_frequency cannot count them")
        space = counted_often(space, evidence.observed(), settings.min_frequency)
        evidence = replace(evidence, space=space)
    return FlatPaths(index, columns, final, evidence, note, unknown)


def _scan(
    data: CorpusFiles | Corpus, target: str, templates: TemplateSet, executor: Executor
) -> tuple[list[Scanned], Values]:
    """Make the first pass."""
    pieces: list[TextPiece]
    if isinstance(data, CorpusFiles):
        plans = executor.place(files_planned, [str(path) for path in data.paths], data)
        pieces = [FilePiece(data, one) for plan in plans.map(itself) for one in plan]
        plans.close()
    else:
        pieces = [data[a:b] for a, b in Ragged(data.offsets).runs(_GIVEN_TOKENS)]
    if not pieces:
        raise DataError("no sentence to train on", path=_named(data))
    done = executor.place(scanned, pieces, templates, target)
    found: list[Scanned]
    found, values = done.fold(scans_joined, itself)
    done.close()
    if not found:
        raise DataError("no sentence to train on", path=_named(data))
    return found, values


def _named(data: CorpusFiles | Corpus) -> str | None:
    """Return the name of a text in messages."""
    if isinstance(data, Corpus):
        return data.source
    first, *others = map(str, data.paths)
    return f"{first} and {len(others)} more" if others else first


def _common_columns(found: Sequence[Scanned]) -> tuple[str, ...]:
    """Return the columns of the first file, which all have."""
    first = found[0]
    for other in found:
        if other.columns != first.columns and not set(first.columns) <= set(other.columns):
            raise DataError(
                f"has the columns {', '.join(other.columns)}; {first.name} has "
                f"{', '.join(first.columns)}",
                path=other.name,
            )
    return first.columns


def _labels(
    found: Sequence[Scanned], values: Values, target: str, settings: Options, executor: Executor
) -> tuple[Values, tuple[list[str], list[str]], list[Bools], str]:
    """Return strings of columns, labels as given and as trained, kept sentences, and a note."""
    given = values[target]
    kept = [one.lengths > 0 for one in found]
    if settings.schemes is None:
        return values, ([], list(given)), kept, ""
    known = label_set(given, partial=settings.reads_sets)
    pieces = executor.place(judged, found, target, settings, known, list(values))
    verdicts: list[Judged] = list(pieces.map(itself))
    pieces.close()
    trained = dict.fromkeys(label for one in verdicts for label in one.labels)
    illegal = [one for one in verdicts if one.illegal]
    note = ""
    if illegal:
        every = np.concatenate([one.kept for one in verdicts])
        none = Corpus({}, np.zeros(1, dtype=np.int64))
        gold = Gold(none, every, sum(one.illegal for one in illegal), illegal[0].first)
        note = illegal_warning(gold, settings)
        kept = [mask & one.kept for mask, one in zip(kept, verdicts, strict=True)]
        left = {name: {s for one in verdicts for s in one.values[name]} for name in values}
        values = {
            name: tuple(s for s in strings if s in left[name]) for name, strings in values.items()
        }
    return values, (known, list(trained)), kept, note


def _texts(
    found: Sequence[Scanned],
    kept: Sequence[Bools],
    weights: Floats | None,
    plain: TextPart,
    executor: Executor,
) -> tuple[Placement, Longs]:
    """Cut the sentences that are kept into parts; return these, and where sentences begin.

    `plain` is a part without sentences.
    """
    numbers = [np.flatnonzero(mask) for mask in kept]
    lengths = np.concatenate([one.lengths[n] for one, n in zip(found, numbers, strict=True)])
    if not len(lengths):
        raise DataError("no sentence is left to train on", path=found[0].name)
    every = np.concatenate(kept)
    given = given_weights(weights, len(every))[every]
    offsets = Ragged.from_lengths(lengths).offsets
    ends = Ragged.from_lengths(map(len, numbers)).offsets  # of pieces, among sentences kept
    items = []
    for first, end in itertools.pairwise(part_bounds(offsets)):
        runs = []
        for k in range(int(np.searchsorted(ends, first, side="right")) - 1, len(found)):
            if ends[k] >= end:
                break
            mine = numbers[k][max(first - ends[k], 0) : end - ends[k]]
            if len(mine):
                runs.append((found[k].piece, _chosen(mine)))
        token, weight = int(offsets[first]), given[first:end]
        items.append(replace(plain, runs=runs, first=first, first_token=token, weight=weight))
    return executor.place(replace, items), offsets


def _chosen(numbers: Longs) -> Longs | slice:
    first, last = int(numbers[0]), int(numbers[-1])
    return slice(first, last + 1) if last - first + 1 == len(numbers) else numbers


def _index(
    templates: TemplateSet,
    values: Mapping[str, tuple[str, ...]],
    texts: Placement,
    settings: Options,
    folder: str | None,
) -> tuple[FeatureIndex, Placement]:
    """Return the index of the attributes of all parts, as `FeatureIndex.build` does."""
    node, arc = families(templates, arc=False), families(templates, arc=True)
    boundary, bits, every = settings.boundary, settings.hash_bits, (*node, *arc)
    FeatureIndex.check_options(boundary, settings.min_count, bits)
    if bits is not None:
        return FeatureIndex.hashed(templates, boundary, bits), texts

    def strings(source: Source) -> Iterator[str]:
        return itertools.chain.from_iterable(map(remembered(source), values[str(root(source))]))

    vocabularies = Vocabularies(padding(boundary, every), {}).extended(strings, sources(every))
    texts = texts.then(partial(replace, vocabularies=vocabularies))

    def counts(*packed: Any) -> Iterable[list[Counted]]:
        if folder is None:  # workers add up their results
            return [texts.fold(keys_joined, part_keys, *packed)]
        return texts.map(part_keys, *packed)

    tables = [
        numbered(
            group,
            vocabularies,
            lambda *packed: reduce(distinct, texts.map(part_prefixes, *packed)),
            counts,
            min_count=settings.min_count,
            folder=folder,
        )
        for group in (node, arc)
    ]
    return FeatureIndex(templates, boundary, node=tables[0], arc=tables[1]), texts
