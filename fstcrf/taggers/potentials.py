"""Terms of a tagger's potentials that depend on open tapes, bound to weights and labels.

The keys of an index are the pairs of a predicate and labels that have weights (see
`fstcrf.text.features.tables`). A predicate is a row of a sparse table whose columns are all pairs
of labels and state, so one lookup and one sum of rows give a token's potentials for all labels at
once. A hashed index has no keys: there every label is looked up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol, cast

import numpy as np

from fstcrf.arrays import Floats, Ints, Longs, Ragged
from fstcrf.errors import OptionError
from fstcrf.kernel import SparseRows
from fstcrf.kernel.rows import SentenceRows
from fstcrf.lazy import LazyModule, made_once
from fstcrf.taggers.weights import Cells, WeightTable
from fstcrf.text.corpus import Column, Corpus, Sentence
from fstcrf.text.features import FeatureIndex, FunctionIndex, LiteralIndex, is_literal
from fstcrf.text.features.derive import Plain, Source, root
from fstcrf.text.features.hashed import Hashed
from fstcrf.text.features.reader import Reader
from fstcrf.text.features.tables import AttributeTables, Predicates, TokenRows, divided, is_constant
from fstcrf.text.features.template import tape_column
from fstcrf.text.sentences import (
    Data,
    Run,
    SentenceLike,
    Tape,
    as_sentence,
    computed_rows,
    is_short,
    read_corpus,
    read_sentences,
    runs_of,
    with_labels,
)

if TYPE_CHECKING:
    from fstcrf import lattices
    from fstcrf.lattices import Lattice
    from fstcrf.taggers.crf import CRF
    from fstcrf.training.record import TapeProbabilities
else:  # a sentence is tagged without them
    lattices = LazyModule("fstcrf.lattices")

Labels = Mapping[str, Sequence[str]]
Runs = Callable[[int, int], Floats]


@dataclass(frozen=True, slots=True)
class TermShape:
    """The shape of a term before it is bound to an index."""

    context: tuple[str, ...]  # tapes that it depends on
    shape: tuple[int, ...]  # labels of each tape, then states or arcs
    per_token: bool  # the first axis of the values is N, else 1


class BoundTerm(Protocol):
    """A term bound to weights and labels."""

    @property
    def outline(self) -> TermShape:
        """The shape of the values, and the tapes of their axes."""

    def runs(self, reader: Reader) -> Runs:
        """Return the function from a run of sentences, (first, end), to float64 [N or 1, ...]."""


def bound(
    sides: Mapping[tuple[str, ...], AttributeTables | Hashed],
    labels: Labels,
    cells: Cells,
    n_rows: int,
) -> tuple[BoundTerm, ...]:
    """Return the terms of one side of an index; contexts without weights have none.

    Families come by context, as `divided` gives them, except the empty context; cells are the
    weights of the `n_rows` attributes, by state or by arc.
    """
    terms: list[BoundTerm] = []
    for context, side in sides.items():
        sizes = tuple(len(labels[tape]) for tape in context)
        shape = (*sizes, cells.width)
        if isinstance(side, Hashed):
            outline = TermShape(context, shape, per_token=True)
            table = WeightTable.of(
                cells.row, cells.column, cells.weight, n_rows=n_rows, width=cells.width
            )
            terms.append(_HashedTerm(outline, side, {t: labels[t] for t in context}, table))
            continue
        term = _by_predicate(side, context, shape, labels, cells, n_rows)
        if term is not None:
            terms.append(term)
    return tuple(terms)


def _by_predicate(
    side: AttributeTables,
    context: tuple[str, ...],
    shape: tuple[int, ...],
    labels: Labels,
    cells: Cells,
    n_rows: int,
) -> BoundTerm | None:
    split = Predicates.of(side, context, labels)
    pair = np.full(n_rows, -1, dtype=np.int64)
    pair[split.row] = np.arange(len(split.row))
    place = pair[cells.row]
    used = np.flatnonzero(place >= 0)
    if not len(used):
        return None
    place = place[used]
    n_predicates = split.tables.n_rows
    table = WeightTable.of(
        split.predicate[place].astype(np.int64),
        split.label[place] * cells.width + cells.column[used],
        cells.weight[used],
        n_rows=n_predicates,
        width=int(np.prod(shape)),
    )
    if not is_constant(side, context):
        return _IndexedTerm(TermShape(context, shape, per_token=True), split.tables, table)
    numbers = np.arange(n_predicates, dtype=np.int32)
    all_of_them = SparseRows(np.array([0, n_predicates]), numbers, None, n_predicates)
    outline = TermShape(context, shape, per_token=False)
    return _Constant(outline, table.times(all_of_them).reshape(1, *shape))


@dataclass(frozen=True, slots=True, eq=False)
class _Constant:
    """The same at every token."""

    outline: TermShape
    values: Floats

    def runs(self, reader: Reader) -> Runs:
        del reader
        return lambda first, end: self.values  # noqa: ARG005 (any run has these)


@dataclass(frozen=True, slots=True, eq=False)
class _IndexedTerm:
    """Predicates are looked up; each has weights for the labels that were seen with it."""

    outline: TermShape
    predicates: AttributeTables
    table: WeightTable

    def runs(self, reader: Reader) -> Runs:
        rows, shape = self.predicates.runs(reader), self.outline.shape
        return lambda first, end: self.table.times(rows(first, end)).reshape(-1, *shape)


@dataclass(frozen=True, slots=True, eq=False)
class _HashedTerm:
    """Every tuple of labels is tried on all tokens."""

    outline: TermShape
    side: Hashed
    labels: Labels
    table: WeightTable

    def runs(self, reader: Reader) -> Runs:
        parts = self._rows_by_labels(reader)

        def values(first: int, end: int) -> Floats:
            each = [self.table.times(rows(first, end)) for rows in parts]
            return np.stack(each, axis=1).reshape(-1, *self.outline.shape)

        return values

    def _rows_by_labels(self, reader: Reader) -> list[Callable[[int, int], SparseRows]]:
        parts = []
        for choice in product(*self.labels.values()):
            corpus = reader.corpus
            for tape, label in zip(self.labels, choice, strict=True):
                everywhere = Column(np.zeros(corpus.n_tokens, dtype=np.int32), (label,))
                corpus = corpus.with_interned(tape_column(tape), everywhere)
            parts.append(self.side.runs(Reader(corpus, reach=reader.reach)))
        return parts


# --- Potentials of a tagger whose earlier tapes may be open ---------------------------------------
Side = AttributeTables | Hashed


@dataclass(frozen=True, slots=True, eq=False)
class Term:
    """Potentials of one tagger, conditioned on the labels of other tapes at the same position.

    Values are scores, float64 [N, L_1, ..., X], for each label of the tapes. The last axis has the
    states (X = S), or the kernel's arcs into the token; arcs into a first token are not used. The
    first axis has length 1 if all tokens have the same scores.
    """

    context: tuple[str, ...]
    values: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Potentials:
    """Terms whose sum is the potentials of N tokens.

    The first term of the states has no context, nor has the first term of the arcs. If a dense
    graph has an arc that the topology lacks, its score is −inf.
    """

    node: tuple[Term, ...]
    arc: tuple[Term, ...]
    initial: Floats  # [S] −inf forbids
    final: Floats  # [S]


@dataclass(frozen=True, slots=True)
class PreparedPotentials:
    """Sentences, ready to give their potentials; made by `Binding.prepare`.

    `potentials` maps (first, end) to the potentials of these sentences. `relabelled` maps tokens,
    int64 [M], and assumed labels of the tapes that are read, int32 [K, M], to potentials of states,
    float64 [M, S]. It is `None` if attributes have several strings a token, or read open tapes.
    """

    lengths: list[int]
    potentials: Callable[[int, int], Potentials]
    relabelled: Callable[[Longs, Ints], Floats] | None = None

    def runs(self, tokens: int) -> Iterator[Run]:
        """Yield runs of sentences; a run has about this number of tokens."""
        return runs_of(Ragged.from_lengths(self.lengths), tokens)


class Binding:
    """A tagger bound to the labels of its open tapes; made by `bind`.

    Other tapes that the model reads are columns, as in a cascade. Labels that the model does not
    know have no potentials. `node` and `arc` outline the terms that `Potentials` will have.
    """

    def __init__(self, model: CRF, labels: Mapping[str, Sequence[str]]) -> None:
        _check(model, labels)
        check_closed(model, labels)
        self._model = model
        # In the order in which the model reads them: so are the axes.
        self._open = {t.name: tuple(labels[t.name]) for t in model.reads if t.name in labels}
        self._node_side, self._node = self._bound(arc=False)
        self._arc_side, self._arc = self._bound(arc=True)
        states, arcs = model.topology.n_states, model._weights.static_graph.n_arcs
        per_token = self._arc_side is not None
        self.node = (TermShape((), (states,), per_token=True), *(t.outline for t in self._node))
        self.arc = (TermShape((), (arcs,), per_token=per_token), *(t.outline for t in self._arc))

    def _bound(self, *, arc: bool) -> tuple[Side | None, tuple[BoundTerm, ...]]:
        """Return the families without open tapes, and the terms of the others."""
        index, weights = self._model.index, self._model._weights
        if not isinstance(index, FeatureIndex) or (arc and not weights.has_arc_attributes):
            return None, ()
        sides = divided(index.arc if arc else index.node, tuple(self._open))
        plain = sides.pop((), None)
        if not sides:
            return plain, ()
        cells = weights.arc_cells() if arc else weights.node_cells()
        n_rows = index.n_arc_rows if arc else index.n_node_rows
        return plain, bound(sides, self._open, cells, n_rows)

    def prepare(self, sentences: Data) -> PreparedPotentials:
        """Prepare sentences: compute the values of distinct strings once.

        They need no columns for open tapes.
        """
        model, index = self._model, self._model.index
        if not isinstance(index, FeatureIndex):
            data = read_sentences(index, sentences, model.columns, model.reads)
            return PreparedPotentials(
                data.lengths, lambda a, b: self._potentials(data.design(a, b).node, None, (), ())
            )
        corpus = read_corpus(index, sentences, model.columns, model.reads, open_tapes=self._open)
        lengths = Ragged(corpus.offsets).lengths.tolist()
        reader = index.reader(corpus, open_tapes=tuple(self._open))
        node = _rows(self._node_side, reader, index.n_node_rows)
        arc = _rows(self._arc_side, reader, index.n_arc_rows)
        node_terms = [(t.outline.context, t.runs(reader)) for t in self._node]
        arc_terms = [(t.outline.context, t.runs(reader)) for t in self._arc]

        def potentials(first: int, end: int) -> Potentials:
            return self._potentials(
                node(first, end),
                None if self._arc_side is None else arc(first, end),
                [Term(context, values(first, end)) for context, values in node_terms],
                [Term(context, values(first, end)) for context, values in arc_terms],
            )

        return PreparedPotentials(lengths, potentials, self._relabelled(node))

    def of_any_token(self) -> Potentials:
        """Return the potentials of a token without attributes, of a tagger without open tapes."""
        empty = SparseRows(
            np.zeros(2, dtype=np.int64),
            np.empty(0, dtype=np.int32),
            None,
            self._model.index.n_node_rows,
        )
        return self._potentials(empty, None, (), ())

    @property
    def relabels(self) -> bool:
        """Whether prepared sentences can be `relabelled`."""
        side = self._node_side
        return not self._open and isinstance(side, AttributeTables) and side.is_plain

    def _relabelled(
        self, node: Callable[[int, int], SparseRows]
    ) -> Callable[[Longs, Ints], Floats] | None:
        if not self.relabels or not isinstance(node, TokenRows):
            return None
        weights = self._model._weights
        return lambda tokens, ids: weights.node(node.at(tokens, self._numbers, ids))

    def short(self, sentence: Sentence, labels: Mapping[str, Ints]) -> SentenceRows | None:
        """Return the attributes of a sentence; `None` if it needs a corpus.

        Parameters
        ----------
        sentence : Sentence
        labels : mapping of str to int32 [T]
            Labels of tapes that the model reads; the labels of other tapes are columns.
        """
        if not self.relabels or not is_short(self._model.index, sentence):
            return None
        ids: list[Ints] = []
        for tape in self._model.reads:
            tape_ids = labels[tape.name] if tape.name in labels else self._labels(tape, sentence)
            if tape_ids is None:
                return None
            ids.append(tape_ids)
        return self.of_one(sentence)(ids)

    def of_one(self, sentence: Sentence) -> Callable[[Iterable[Ints]], SentenceRows]:
        """Return the function from labels of the tapes that the model reads to attributes.

        The labels are int32 [T] for each tape. It needs `relabels` and an `is_short` sentence.
        """
        side, columns = self._node_side, self._columns
        assert isinstance(side, AttributeTables)  # noqa: S101 (as `relabels` says)
        entries = side.entries(sentence, [column for column, table in columns if len(table)])

        def rows(ids: Iterable[Ints]) -> SentenceRows:
            tapes = zip(columns, ids, strict=True)
            return *entries(
                {name: table[labels] for (name, table), labels in tapes if len(table)}
            ), None

        return rows

    def _labels(self, tape: Tape, sentence: Sentence) -> Ints | None:
        """Return the labels of a tape in a sentence, int32 [T]; `None` for an unknown label."""
        columns = [c for c in (tape_column(tape.name), tape.name) if c in sentence]
        number = self._label_number[tape.name]
        try:
            return np.array([number[label] for label in sentence[columns[0]]], dtype=np.int32)
        except (IndexError, KeyError, TypeError):
            return None

    @made_once
    def _label_number(self) -> dict[str, dict[str, int]]:
        reads = self._model.reads
        return {t.name: {label: k for k, label in enumerate(t.labels)} for t in reads}

    @made_once
    def _columns(self) -> list[tuple[str, Ints]]:
        """The columns of the tapes that are read, and the `_numbers` of their labels."""
        return [(str(root(source)), table) for source, table in self._numbers.items()]

    @made_once
    def _numbers(self) -> dict[Source, Ints]:
        """The numbers that the labels of tapes have as strings."""
        side = self._node_side
        assert isinstance(side, AttributeTables)  # noqa: S101 (as `relabels` says)
        sources = [(Plain(tape_column(tape.name)), tape.labels) for tape in self._model.reads]
        by_source = side.vocabularies.by_source
        return {
            source: side.vocabularies.numbers(source, labels)
            if source in by_source
            else np.empty(0, dtype=np.int32)
            for source, labels in sources
        }

    def _potentials(
        self,
        node: SparseRows,
        arc: SparseRows | None,
        node_terms: Sequence[Term],
        arc_terms: Sequence[Term],
    ) -> Potentials:
        weights = self._model._weights
        graph = weights.graph(arc)
        score = graph.score if graph.per_token else graph.score[None]
        return Potentials(
            (Term((), weights.node(node)), *node_terms),
            (Term((), score), *arc_terms),
            graph.initial,
            graph.final,
        )


def _rows(side: Side | None, reader: Reader, n_rows: int) -> Callable[[int, int], SparseRows]:
    """Return the function from a run of sentences to the attributes that one side gives."""
    if side is not None:
        return side.runs(reader)
    offsets = reader.corpus.offsets

    def none(first: int, end: int) -> SparseRows:
        size = int(offsets[end] - offsets[first])
        return SparseRows(
            np.zeros(size + 1, dtype=np.int64), np.empty(0, dtype=np.int32), None, n_rows
        )

    return none


def _check(model: CRF, labels: Mapping[str, Sequence[str]]) -> None:
    read_tapes = [tape.name for tape in model.reads]
    for tape, axis in labels.items():
        if tape not in read_tapes:
            raise OptionError(
                f"the tagger of tape {model.tape!r} does not read tape {tape!r}; it reads "
                f"{', '.join(map(repr, read_tapes)) or 'none'}"
            )
        if isinstance(axis, str) or not axis or len(set(axis)) < len(axis):
            raise OptionError(f"the labels of tape {tape!r} must be a list of distinct labels")


def check_closed(model: CRF, tapes: Iterable[str]) -> None:
    """Raise an OptionError if a feature function would have to read tapes that are not decided."""
    if isinstance(model.index, FunctionIndex) and (tape := next(iter(tapes), None)) is not None:
        raise OptionError(
            f"features=: the function {model.index.name} of tape {model.tape!r} reads the labels "
            f"of tape {tape!r}, so the two tapes cannot be decided together: decide one after the "
            "other, .cascade(sentences) of a composition, decode='cascade' of a pipeline"
        )


def bind(model: CRF, labels: Mapping[str, Sequence[str]] | None = None) -> Binding:
    """Return the binding of a tagger: it computes potentials while the labels of tapes are open.

    `labels` are the open tapes and the labels that each may have, in the order of its axis; all
    tapes that are read, with the labels of their taggers, when absent. The others are columns. The
    model keeps its bindings.
    """
    if labels is None:
        labels = {tape.name: tape.labels for tape in model.reads}
    key = tuple((tape, tuple(axis)) for tape, axis in labels.items())
    binding = model._bindings.get(key) or model._bindings.setdefault(key, Binding(model, labels))
    return cast("Binding", binding)


def potentials(
    model: CRF,
    sentences: Data,
    first: int = 0,
    end: int | None = None,
    *,
    labels: Mapping[str, Sequence[str]] | None = None,
) -> Potentials:
    """Return the potentials of a run of sentences, the labels of earlier tapes left open.

    The run has the sentences from `first` to `end`; labels are as for `bind`. For many runs of one
    corpus, ``bind(model).prepare(corpus)`` computes the values of distinct strings once.
    """
    data = bind(model, labels).prepare(sentences)
    count = len(data.lengths)
    last = count if end is None else end
    if not 0 <= first <= last <= count:
        raise OptionError(f"sentences {first}:{last} of {count}")
    return data.potentials(first, last)


_NO_LABELS: Mapping[str, Ints] = MappingProxyType({})


def path_alone(
    model: CRF, sentence: SentenceLike, labels: Mapping[str, Ints] = _NO_LABELS
) -> list[int] | None:
    """Return the numbers of the best labels of a sentence; `None` if it needs a batch.

    `labels` are the labels of tapes that the model reads, int32 [T]; other tapes are columns.
    """
    graph, rows = model._weights.sentence_graph, None
    if graph is None:
        return None
    if isinstance(model.index, LiteralIndex) and is_literal(sentence):
        return graph.labels(model.index.of_one(sentence))
    if isinstance(model.index, FunctionIndex):
        parsed = with_labels(as_sentence(sentence, model.columns), model.reads, labels)
        sentence = as_sentence(parsed, model.columns)
        unchecked = [tape for tape in model.reads if tape.name not in labels]
        rows = computed_rows(model.index, sentence, unchecked)
    elif isinstance(model.index, FeatureIndex):
        sentence = as_sentence(sentence, model.columns)
        rows = bind(model, {}).short(sentence, labels)
    if rows is None:
        columns = with_labels(sentence, model.reads, labels)
        data = read_sentences(model.index, [columns], model.columns, model.reads)
        design = data.design(0, 1).node
        rows = design.indptr, design.index, design.value
    return graph.labels(rows) or None


_RUN_TOKENS = 2_000


def averaged_lattices(model: CRF, corpus: Corpus, tapes: TapeProbabilities) -> list[Lattice]:
    """Return the lattices of a text whose potentials are averaged over the labels of earlier tapes.

    For each tape to average over, `tapes` holds its labels and their probabilities at each token,
    float64 [N, L]. Other tapes that the model reads are columns of the corpus.
    """
    read = [tape.name for tape in model.reads if tape.name in tapes]
    prepared = bind(model, {tape: tapes[tape][0] for tape in read}).prepare(corpus)
    static = model._program.chains[0].arc is not None
    sentence_lattices, start = [], 0
    for run in prepared.runs(_RUN_TOKENS):
        bounds = run.offsets.tolist()
        n = bounds[-1]
        probabilities = {tape: tapes[tape][1][start : start + n] for tape in read}
        start += n
        potentials = prepared.potentials(run.first, run.end)
        values = [_expected(potentials.node, probabilities, n)]
        if not static:
            values.append(_expected(potentials.arc, probabilities, n))
        for a, b in pairwise(bounds):
            row = lattices.ChainRow(model._program, tuple(v[a:b] for v in values))
            sentence_lattices.append(lattices.Lattice(row))
    return sentence_lattices


def _expected(terms: Iterable[Term], probabilities: Mapping[str, Floats], n: int) -> Floats:
    """Return the sum of terms, averaged over the labels of their tapes, float64 [n, X]."""
    total: Floats = np.zeros((n, 1))
    for term in terms:
        values = np.broadcast_to(term.values, (n, *term.values.shape[1:]))
        for tape in term.context:  # the axis after the tokens
            values = np.einsum("nl...,nl->n...", values, probabilities[tape])
        total = total + values
    return total
