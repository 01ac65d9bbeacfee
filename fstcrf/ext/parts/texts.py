"""The data of a training run in parts that others read: index, labels and design without a corpus.

Two passes over the text come first, one for its strings and labels, one for its attributes. Their
numbers are equal to the numbers that `read_source` assigns in memory.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from fstcrf.arrays import Bools, Floats, Ints, Longs, Ragged
from fstcrf.errors import DataError, OptionError
from fstcrf.ext.parts.evidence import (
    PartFacts,
    SentencePart,
    SpreadEvidence,
    facts,
    part_support,
    supports_joined,
)
from fstcrf.ext.parts.spool import ArrayFile, Spool
from fstcrf.kernel import SparseRows
from fstcrf.machines.topology import Topology
from fstcrf.text.corpus import Column, Corpus, concatenated
from fstcrf.text.corpus.collection import CorpusFiles, Piece
from fstcrf.text.features import Design, FeatureIndex, TemplateSet
from fstcrf.text.features.counting import (
    Counted,
    KeyCounter,
    Keys,
    counted_keys,
    fitted_packing,
    joined_counts,
    merged_keys,
    numbered,
    prefix_keys,
)
from fstcrf.text.features.derive import root
from fstcrf.text.features.hashed import Hashed
from fstcrf.text.features.keys import Packing, Vocabulary, width_of
from fstcrf.text.features.reader import (
    Encoder,
    Family,
    Reader,
    families,
    padding,
    reads_documents,
    sources,
)
from fstcrf.text.features.tables import AttributeTables, Vocabularies
from fstcrf.text.sentences import UNKNOWN, allowed_labels, label_set
from fstcrf.training.data import TARGET, class_weighted
from fstcrf.training.executors.executor import Executor, Placement
from fstcrf.training.gold import Gold, UnknownLabels, illegal_warning, legal_gold
from fstcrf.training.options import Options
from fstcrf.training.problem import ParameterSpace, Problem
from fstcrf.training.shards import part_bounds
from fstcrf.training.structure import check_pairs, structure, successions
from fstcrf.training.support import counted_often, supported_space

if TYPE_CHECKING:
    from fstcrf.machines.grammar import Grammar

_GIVEN_TOKENS = 1 << 18  # for a piece of a corpus in memory
_COUNTED_BYTES = 1 << 26  # of keys and counts in memory, before they go to files
_BLOCK_TOKENS = 1 << 16  # for a block of a part if memory is short


# --- Pieces: what one worker reads ----------------------------------------------------------------


class FilePiece(NamedTuple):
    """A piece of files."""

    files: CorpusFiles
    piece: Piece

    def read(self) -> Iterator[tuple[Any, Corpus]]:
        """Yield its sentences, with the piece that they are."""
        for piece, corpus in self.files.read_pieces(self.piece):
            yield FilePiece(self.files, piece), corpus


class GivenPiece(NamedTuple):
    """A piece of a corpus in memory."""

    corpus: Corpus

    def read(self) -> Iterator[tuple[Any, Corpus]]:
        """Yield it."""
        yield self, self.corpus


class Scanned(NamedTuple):
    """The results of the first pass for a piece: its columns and sentences."""

    piece: FilePiece | GivenPiece
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
    labels: list[str]  # strings of the column, as training takes them


def files_planned(path: str, files: CorpusFiles) -> list[Piece]:
    """Return the pieces of a file."""
    return files.pieces(path)


def itself(state: Any) -> Any:
    """Return a state."""
    return state


def scanned(
    piece: FilePiece | GivenPiece, templates: TemplateSet, target: str
) -> tuple[list[Scanned], Values]:
    """Make the first pass over a piece."""
    found: list[Scanned] = []
    total: Values = {}
    for one, corpus in piece.read():
        if not corpus.columns or not corpus.n_tokens:
            continue
        named = templates.resolved(tuple(corpus.columns), data=corpus.source)
        wanted = dict.fromkeys([*map(str, named.columns), target])
        total = values_joined(total, {name: _used(corpus.column(name)) for name in wanted})
        lengths = Ragged(corpus.offsets).lengths.astype(np.int32)
        columns, name = tuple(corpus.columns), corpus.source or "<input>"
        kept = one if isinstance(one, FilePiece) else GivenPiece(_only(corpus, wanted))
        found.append(Scanned(kept, name, columns, lengths))
    return found, total


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
    piece: FilePiece | GivenPiece, target: str, settings: Options, known: Sequence[str]
) -> Judged:
    """Read the gold labels of a piece under their scheme."""
    ((_, corpus),) = piece.read()
    gold = legal_gold(_labelled(corpus, target), TARGET, settings, known=known)
    full = gold.corpus.select(np.flatnonzero(gold.kept)) if not gold.kept.all() else gold.corpus
    return Judged(gold.kept, gold.illegal, gold.first, list(_used(full.column(TARGET))))


def kept_values(item: tuple[FilePiece | GivenPiece, Bools | None], names: Sequence[str]) -> Values:
    """Return the strings of columns in the sentences that are kept."""
    piece, kept = item
    ((_, corpus),) = piece.read()
    left = corpus if kept is None else corpus.select(np.flatnonzero(kept))
    return {name: _used(left.column(name)) for name in names}


def _labelled(corpus: Corpus, target: str) -> Corpus:
    return corpus.with_interned(TARGET, corpus.column(target))


def _used(column: Column) -> tuple[str, ...]:
    """Return the strings that occur, in the order of the column's."""
    used = np.flatnonzero(np.bincount(column.ids, minlength=len(column.values)))
    if len(used) == len(column.values):
        return column.values
    return tuple([column.values[i] for i in used.tolist()])


def _only(corpus: Corpus, names: Mapping[str, Any]) -> Corpus:
    """Return a corpus with some columns, without unused strings."""
    columns = {}
    for name in names:
        column = corpus.columns[name]
        place = np.zeros(len(column.values), dtype=np.int32)
        used = np.flatnonzero(np.bincount(column.ids, minlength=len(column.values)))
        place[used] = np.arange(len(used), dtype=np.int32)
        columns[name] = Column(place[column.ids], tuple([column.values[i] for i in used.tolist()]))
    return Corpus(columns, corpus.offsets, source=corpus.source, lines=corpus.lines)


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

    runs: Sequence[tuple[FilePiece | GivenPiece, Longs | slice]]
    first: int
    first_token: int
    weight: Floats
    target: str
    settings: Options
    known: Sequence[str]
    folder: str | None = None
    vocabularies: Vocabularies | None = None
    node: tuple[Family, ...] = ()
    arc: tuple[Family, ...] = ()
    _corpus: Corpus | None = None

    def corpus(self) -> Corpus:
        """Return its sentences, their labels as training takes them in the column `TARGET`."""
        if self._corpus is not None:
            return self._corpus
        found = []
        for piece, chosen in self.runs:
            ((_, corpus),) = piece.read()
            found.append(corpus[chosen] if isinstance(chosen, slice) else corpus.select(chosen))
        corpus = _labelled(concatenated(found), self.target)
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


def text_of(item: TextPart) -> TextPart:
    """Return the text of a part, not read yet."""
    return replace(item)


def with_vocabularies(
    text: TextPart, vocabularies: Vocabularies, node: tuple[Family, ...], arc: tuple[Family, ...]
) -> TextPart:
    """Return a text that knows the numbers of strings."""
    return replace(text, vocabularies=vocabularies, node=node, arc=arc)


def part_successions(text: TextPart, labels: Sequence[str]) -> Bools:
    """Return which label follows which in the text."""
    return successions(text.allowed(labels), text.corpus().offsets)


def part_unknown(text: TextPart, labels: Sequence[str]) -> UnknownLabels:
    """Count the labels of the text that are not known."""
    return UnknownLabels.of(text.corpus().column(TARGET), labels)


def part_prefixes(text: TextPart, family: Family, packing: Packing) -> Keys:
    """Return the distinct prefixes of the keys of a family."""
    found = (prefix_keys(_encoder(text, corpus), family, packing) for corpus in text.blocks())
    return merged_keys(found)


def part_keys(text: TextPart, node: Sequence[Packing], arc: Sequence[Packing]) -> list[Counted]:
    """Return the keys of attributes, with counts, family by family, arcs last."""
    total: list[Counted] = []
    for corpus in text.blocks():
        encoder = _encoder(text, corpus)
        found = [*counted_keys(encoder, text.node, node), *counted_keys(encoder, text.arc, arc)]
        total = keys_joined(total, found) if total else found
    return total


def keys_joined(one: list[Counted], other: list[Counted]) -> list[Counted]:
    """Return the keys of two parts, their counts added up."""
    return [joined_counts(pair) for pair in zip(one, other, strict=True)]


def _encoder(text: TextPart, corpus: Corpus) -> Encoder:
    if text.vocabularies is None:
        raise OptionError("a text is counted before its strings are numbered")
    return Encoder(Reader(corpus, reach=text.vocabularies.reach), text.vocabularies)


@dataclass(frozen=True, eq=False)
class TapeLabels:
    """The shared data that parts need to become problems."""

    index: FeatureIndex
    labels: Sequence[str]
    topology: Topology
    class_weights: Mapping[str, float] | None


def part_of(text: TextPart, told: TapeLabels) -> SentencePart:
    """Return the problem of a part."""
    corpus, allowed = text.corpus(), text.allowed(told.labels)
    spool = None if text.folder is None else Spool(text.folder)
    weight = class_weighted(text.weight, allowed, told.labels, told.class_weights, corpus.offsets)
    if spool is None:
        design, offsets = told.index.design(corpus), corpus.offsets
    else:
        design = _spooled(told.index, corpus, spool)
        allowed, offsets = spool.put(allowed, corpus.offsets)
    try:
        problem = Problem(told.topology, offsets, design.node, design.arc, allowed, weight)
    except DataError as error:
        if error.sentence is None:
            raise
        token = int(corpus.offsets[error.sentence]) + (error.token or 0)
        raise DataError(error.message, **corpus.where(token)) from None
    return SentencePart(problem, text.first, text.first_token, spool)


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
    space: ParameterSpace
    offsets: Longs
    facts: Sequence[PartFacts]
    evidence: SpreadEvidence
    note: str
    unknown: UnknownLabels


def gathered(
    data: CorpusFiles | Corpus,
    target: str,
    templates: TemplateSet,
    executor: Executor,
    *,
    settings: Options,
    grammar: Grammar | None,
    weights: Floats | None,
    class_weights: Mapping[str, float] | None,
    folder: str | None,
    threads: int,
    part_threads: int,
) -> FlatPaths:
    """Read a text part by part.

    Parameters
    ----------
    data, target
        The text, and the column of its labels.
    templates : TemplateSet
    executor : Executor
    settings, grammar, weights, class_weights
        As for `train_crf`.
    folder : str, optional
        Where arrays go that memory is too short for.
    threads, part_threads : int
        Of this process, and of each that has parts.
    """
    if reads_documents(templates):
        raise OptionError(
            "templates with %d read other sentences, but parts of a text cut "
            "documents: train in one process"
        )
    found, values = _scan(data, target, templates, executor)
    columns = _common_columns(found)
    named = templates.resolved(columns, data=found[0].name)
    values, labels, kept, note = _labels(found, values, target, settings, executor)
    texts, offsets = _texts(found, kept, labels[0], target, settings, weights, folder, executor)
    final = label_set(labels[1], partial=settings.reads_sets)
    unknown = UnknownLabels(tokens=int(offsets[-1]))
    if any(string == UNKNOWN or "|" in string for string in labels[1]):
        unknown = texts.fold(operator.add, part_unknown, final)
    topology = structure(
        final, settings, lambda: texts.fold(np.logical_or, part_successions, final), grammar
    )
    index, texts = _index(named, values, texts, settings, folder)
    parts = texts.then(part_of, TapeLabels(index, final, topology, class_weights))
    known = list(parts.map(facts))
    space = _space(index, topology, parts, settings)
    evidence = SpreadEvidence(
        parts, space, offsets, known, threads=threads, part_threads=part_threads
    )
    if settings.min_frequency is not None:
        if evidence.counts.labelled < evidence.counts.sentences:
            raise OptionError("labels that are not known: min_frequency cannot count them")
        space = counted_often(space, evidence.observed(space), settings.min_frequency)
        evidence = SpreadEvidence(
            parts, space, offsets, known, threads=threads, part_threads=part_threads
        )
    return FlatPaths(index, columns, final, space, offsets, known, evidence, note, unknown)


def _scan(
    data: CorpusFiles | Corpus, target: str, templates: TemplateSet, executor: Executor
) -> tuple[list[Scanned], Values]:
    """Make the first pass."""
    pieces: list[FilePiece | GivenPiece]
    if isinstance(data, CorpusFiles):
        plans = executor.place(files_planned, [str(path) for path in data.paths], data)
        pieces = [FilePiece(data, one) for plan in plans.map(itself) for one in plan]
        plans.close()
    else:
        runs = Ragged(data.offsets).runs(_GIVEN_TOKENS)
        pieces = [GivenPiece(_cut(data, a, b)) for a, b in runs]
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


def _cut(data: Corpus, first: int, end: int) -> Corpus:
    part = data[first:end]
    return Corpus(part.columns, part.offsets, source=part.source, lines=part.lines)


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
) -> tuple[Values, tuple[list[str], list[str]], list[Bools | None], str]:
    """Return strings of columns, labels as given and as trained, kept sentences, and a note."""
    given = values[target]
    kept: list[Bools | None] = [None] * len(found)
    if settings.schemes is None:
        return values, ([], list(given)), kept, ""
    known = label_set(given, partial=settings.reads_sets)
    pieces = executor.place(itself, [one.piece for one in found])
    verdicts: list[Judged] = list(pieces.map(judged, target, settings, known))
    trained = dict.fromkeys(label for one in verdicts for label in one.labels)
    illegal = [one for one in verdicts if one.illegal]
    note = ""
    if illegal:
        every = np.concatenate([one.kept for one in verdicts])
        none = Corpus({}, np.zeros(1, dtype=np.int64))
        gold = Gold(none, every, sum(one.illegal for one in illegal), illegal[0].first)
        note = illegal_warning(gold, settings)
        kept = [None if one.kept.all() else one.kept for one in verdicts]
    pieces.close()
    if any(mask is not None for mask in kept):
        chosen = [(one.piece, mask) for one, mask in zip(found, kept, strict=True)]
        again = executor.place(kept_values, chosen, list(values))
        left = {name: set(strings) for name, strings in again.fold(values_joined, itself).items()}
        again.close()
        values = {
            name: tuple(s for s in strings if s in left[name]) for name, strings in values.items()
        }
    return values, (known, list(trained)), kept, note


def _texts(
    found: Sequence[Scanned],
    kept: Sequence[Bools | None],
    known: Sequence[str],
    target: str,
    settings: Options,
    weights: Floats | None,
    folder: str | None,
    executor: Executor,
) -> tuple[Placement, Longs]:
    """Cut the sentences that are kept into parts; return these, and where sentences begin."""
    numbers = []
    for one, mask in zip(found, kept, strict=True):
        full = one.lengths > 0
        numbers.append(np.flatnonzero(full if mask is None else full & mask))
    lengths = np.concatenate([one.lengths[n] for one, n in zip(found, numbers, strict=True)])
    if not len(lengths):
        raise DataError("no sentence is left to train on", path=found[0].name)
    given = np.ones(len(lengths))
    if weights is not None:
        total = sum(len(one.lengths) for one in found)
        if weights.shape != (total,):
            raise DataError(
                f"weights are {list(weights.shape)}, expected {[total]}: one for each sentence"
            )
        starts = Ragged.from_lengths(len(one.lengths) for one in found).offsets
        given = weights[np.concatenate([n + s for n, s in zip(numbers, starts, strict=False)])]
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
        items.append(
            TextPart(
                runs, first, int(offsets[first]), given[first:end], target, settings, known, folder
            )
        )
    return executor.place(text_of, items), offsets


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
    boundary, bits = settings.boundary, settings.hash_bits
    FeatureIndex.check_options(boundary, settings.min_count, bits)
    if bits is not None:
        hashed = Hashed(node, bits), Hashed(arc, bits)
        return FeatureIndex(templates, boundary, node=hashed[0], arc=hashed[1]), texts
    reach = padding(boundary, (*node, *arc))
    vocabularies = _vocabularies(values, reach, (*node, *arc))
    texts = texts.then(with_vocabularies, vocabularies, node, arc)
    packings = [_packing(family, vocabularies, texts) for family in (*node, *arc)]
    node_packings, arc_packings = packings[: len(node)], packings[len(node) :]
    tables: list[AttributeTables] = []
    with KeyCounter(len(packings), budget=_COUNTED_BYTES, folder=folder) as counter:
        if folder is None:  # workers add up their results
            counter.add(texts.fold(keys_joined, part_keys, node_packings, arc_packings))
        else:
            for keys in texts.map(part_keys, node_packings, arc_packings):
                counter.add(keys)
        first = 0
        for group, own in ((node, node_packings), (arc, arc_packings)):
            tables.append(numbered(group, vocabularies, own, counter, first, settings.min_count))
            first += len(group)
    return FeatureIndex(templates, boundary, node=tables[0], arc=tables[1]), texts


def _vocabularies(
    values: Mapping[str, tuple[str, ...]], reach: int, group: Sequence[Family]
) -> Vocabularies:
    readers = {}
    for name, strings in values.items():
        column = Column(np.arange(len(strings), dtype=np.int32), strings)
        corpus = Corpus({name: column}, np.asarray([0, len(strings)]))
        readers[name] = Reader(corpus, reach=reach)
    found = {s: Vocabulary(readers[str(root(s))].strings(s)) for s in sources(group)}
    return Vocabularies(reach, found)


def _packing(family: Family, vocabularies: Vocabularies, texts: Placement) -> Packing:
    widths = [width_of(vocabularies.size(source)) for source in family.sources]
    return fitted_packing(
        widths, lambda packing: merged_keys(texts.map(part_prefixes, family, packing))
    )


def _space(
    index: FeatureIndex, topology: Topology, parts: Placement, settings: Options
) -> ParameterSpace:
    check_pairs(index, topology, settings)
    return supported_space(
        topology,
        index.n_node_rows,
        index.n_arc_rows if index.arc.families else None,
        parts.fold(supports_joined, part_support, settings.pairs),
        transitions=settings.transitions if index.templates.has_transitions else "none",
        ends=settings.ends,
    )
