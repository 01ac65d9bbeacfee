"""Sentences and labels in the forms that callers may pass.

A string may denote a set of labels: ``_`` denotes all labels, ``B-NP|B-PP`` denotes two. A string
with ``|`` is a set if each of its parts is a label; otherwise it is one label, such as
``NOUN|Number=Sing`` among UPOS+FEATS labels.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np

from fstcrf.arguments import whole_number
from fstcrf.arrays import Bools, Ints, Longs, Ragged, distinct
from fstcrf.errors import DataError, LabelError
from fstcrf.kernel.native import mapped
from fstcrf.kernel.rows import SentenceRows
from fstcrf.kernel.strings import pack_strings
from fstcrf.text.corpus import Column, Corpus, Sentence
from fstcrf.text.corpus.corpus import each_sentence
from fstcrf.text.corpus.items import ATTRIBUTES, item_of
from fstcrf.text.features import (
    AttributeIndex,
    Design,
    FeatureIndex,
    FunctionIndex,
    LiteralIndex,
    is_literal,
)
from fstcrf.text.features.reader import is_surrounding
from fstcrf.text.features.template import tape_column


@dataclass(frozen=True, slots=True)
class Tape:
    """A tape that a tagger reads, and that another tagger writes.

    Parameters
    ----------
    name : str
    labels : tuple of str
        Labels of the tagger that writes the tape.
    model : str
        Fingerprint of the tagger that writes the tape.
    """

    name: str
    labels: tuple[str, ...]
    model: str


# --- Sentences ------------------------------------------------------------------------------------

SentenceLike: TypeAlias = Sentence | Mapping[str, Sequence[str]] | Sequence[Any]
"""A `Sentence`, a mapping from columns to lists, a list of row tuples, or for models over literal
attributes a list of attribute lists or feature dicts."""

Data: TypeAlias = Corpus | Sequence[SentenceLike]

T = TypeVar("T")


class Run(NamedTuple):
    """Consecutive sentences of a batch, from `first` to `end`."""

    first: int
    end: int
    offsets: Longs  # [B + 1]


@dataclass(frozen=True, slots=True)
class Prepared:
    """The lengths of sentences, and a function that returns the design matrix of a run."""

    lengths: list[int]
    design: Callable[[int, int], Design]  # arguments: first sentence, end


def runs_of(rows: Ragged, tokens: int) -> Iterator[Run]:
    """Yield runs of sentences with at most `tokens` tokens; a longer sentence is a run."""
    if len(rows) and rows.total <= tokens:
        yield Run(0, len(rows), rows.offsets)
        return
    for first, end in rows.runs(tokens):
        yield Run(first, end, rows.part(first, end).offsets)


def answered(runs: Iterable[Run], answer: Callable[[Run], T], threads: int) -> list[T]:
    """Return the answer to each run, computed by several threads."""
    return mapped(answer, runs, whole_number(threads, "threads", least=1))


_NOT_COLUMNS = "the model reads attribute lists or feature dicts of tokens, not columns"


def read_sentences(
    index: AttributeIndex,
    sentences: Data,
    columns: Sequence[str],
    reads: Sequence[Tape] = (),
) -> Prepared:
    """Prepare sentences for an index; `columns` names the columns of row tuples.

    A DataError names a missing column, or a label that the tagger of a tape does not have.
    """
    if isinstance(index, LiteralIndex):
        if isinstance(sentences, Corpus):
            return _items(index, sentences)
        check_text(sentences)
        lengths = [sized(sentence, "a sentence") for sentence in sentences]
        items = map(_with_items, sentences)
        literal = [sentence if is_literal(sentence) else [] for sentence in items]
        if list(map(len, literal)) != lengths:
            for sentence in sentences:
                refuse_batch(sentence)
            raise DataError(_NOT_COLUMNS)
        return Prepared(lengths, lambda a, b: index.design(literal[a:b]))
    if isinstance(index, FunctionIndex):
        return _by_function(index, sentences, columns, reads)
    if not isinstance(sentences, Corpus) and len(sentences) == 1:
        sentences = as_sentences(sentences, columns)
        design = index.of_one(sentences[0]) if is_short(index, sentences[0]) else None
        if design is not None:
            return Prepared([len(sentences[0])], lambda *_: design)
    corpus = read_corpus(index, sentences, columns, reads)
    return Prepared(Ragged(corpus.offsets).lengths.tolist(), index.runs(corpus))


def _items(index: LiteralIndex, corpus: Corpus) -> Prepared:
    """Prepare sentences whose attributes are in a column of text."""
    if ATTRIBUTES not in corpus.columns:
        raise DataError(_NOT_COLUMNS, path=corpus.source)

    def design(first: int, end: int) -> Design:
        bounds = pairwise(corpus.offsets[first : end + 1].tolist())
        return index.design([_read_items(corpus, start, stop) for start, stop in bounds])

    return Prepared(Ragged(corpus.offsets).lengths.tolist(), design)


def _read_items(corpus: Corpus, start: int, stop: int) -> list[list[str] | dict[str, float]]:
    """Read the attributes of some tokens; a DataError names the place of a malformed value."""
    items = []
    for token, text in enumerate(corpus.columns[ATTRIBUTES].strings(start, stop), start):
        try:
            items.append(item_of(text))
        except ValueError as error:
            raise DataError(str(error), **corpus.where(token)) from None
    return items


def _with_items(sentence: SentenceLike) -> SentenceLike:
    """Return the attributes of a sentence that has them in a column of text."""
    if not isinstance(sentence, Sentence) or ATTRIBUTES not in sentence:
        return sentence
    try:
        return [item_of(text) for text in sentence[ATTRIBUTES]]
    except ValueError as error:
        raise DataError(str(error)) from None


def read_corpus(
    index: FeatureIndex,
    sentences: Data,
    columns: Sequence[str],
    reads: Sequence[Tape],
    *,
    open_tapes: Container[str] = (),
) -> Corpus:
    """Return a corpus with the columns that an index reads.

    Open tapes may be absent. The other parameters are explained at `read_sentences`.
    """
    if isinstance(sentences, Corpus):
        corpus = sentences
    else:
        parsed = as_sentences(sentences, columns)
        names = _needed(index, parsed)
        _check_strings(parsed, set(names).intersection(index.columns))
        corpus = Corpus.from_sentences(parsed, names)
    return _with_tapes(corpus, [tape for tape in index.tapes if tape not in open_tapes], reads)


def _by_function(
    index: FunctionIndex, sentences: Data, columns: Sequence[str], reads: Sequence[Tape]
) -> Prepared:
    """Prepare sentences whose attributes a function computes."""
    data = sentences if isinstance(sentences, Corpus) else as_sentences(sentences, columns)
    if isinstance(data, Corpus):
        data = _with_tapes(data, index.tapes, reads)
        return Prepared(Ragged(data.offsets).lengths.tolist(), index.runs(data))
    _check_tapes(index, data, reads)
    return Prepared([*map(len, data)], index.runs(data))


def computed_rows(
    index: FunctionIndex, sentence: Sentence, reads: Sequence[Tape] = ()
) -> SentenceRows:
    """Return the rows of the attributes that a function computes for a sentence.

    Errors as for `read_sentences`.
    """
    _check_tapes(index, [sentence], reads)
    return index.of_one(sentence)


def _check_tapes(
    index: FunctionIndex, sentences: Sequence[Sentence], reads: Sequence[Tape]
) -> None:
    full = [sentence for sentence in sentences if len(sentence)]
    if not all(_has_labels(sentence, reads) for sentence in full):  # the corpus says where
        names = [n for n in full[0].columns if all(n in sentence for sentence in full)]
        _with_tapes(Corpus.from_sentences(sentences, names), index.tapes, reads)


def _has_labels(sentence: Sentence, reads: Sequence[Tape]) -> bool:
    """Return whether a sentence has labels of all tapes that are read, and no other strings."""
    for tape in reads:
        column = tape_column(tape.name) if tape_column(tape.name) in sentence else tape.name
        if column not in sentence or not set(tape.labels).issuperset(sentence[column]):
            return False
    return True


def _with_tapes(corpus: Corpus, tapes: Iterable[str], reads: Sequence[Tape]) -> Corpus:
    """Return a corpus with the labels of tapes as the index reads them, checked."""
    for tape in tapes:
        corpus = _with_tape(corpus, tape)
        for read in reads:
            if read.name == tape:
                _check_labels(corpus, read)
    return corpus


def with_labels(
    sentence: SentenceLike, reads: Sequence[Tape], labels: Mapping[str, Ints]
) -> SentenceLike:
    """Return a sentence with the labels of tapes, int32 [T] each, as columns."""
    tape_labels = {
        t.name: [t.labels[i] for i in labels[t.name].tolist()] for t in reads if t.name in labels
    }
    if not tape_labels or not isinstance(sentence, Sentence):
        return sentence
    columns = {name: sentence[name] for name in sentence.columns}
    columns |= {tape_column(name): strings for name, strings in tape_labels.items()}
    return Sentence.of_lists(columns, len(sentence), document=sentence.document)


def is_short(index: AttributeIndex, sentence: Sentence) -> bool:
    """Return whether a sentence has all columns of an index, and can be read without a corpus.

    Raises
    ------
    DataError
        One of these columns has a value that is not a string.
    """
    if not len(sentence) or not isinstance(index, FeatureIndex):
        return False
    if any(map(is_surrounding, sentence.columns)):  # it is a part of a document
        return False
    if not all(name in sentence for name in index.columns):
        return False
    _check_strings([sentence], index.columns)
    return True


def _with_tape(corpus: Corpus, tape: str) -> Corpus:
    """Return a corpus in which the index finds the labels of a tape, copied from its column."""
    if tape_column(tape) in corpus.columns:
        return corpus
    if tape not in corpus.columns:
        raise DataError(
            f"the model reads the labels of tape {tape!r}: give them as a column of that name",
            path=corpus.source,
        )
    return corpus.with_interned(tape_column(tape), corpus.columns[tape])


def _check_labels(corpus: Corpus, tape: Tape) -> None:
    column = corpus.columns[tape_column(tape.name)]
    labels = set(tape.labels)
    odd = [i for i, label in enumerate(column.values) if label not in labels]
    wrong = np.isin(column.ids, odd) if odd else np.zeros(0, dtype=np.bool)
    if wrong.any():
        token = int(np.argmax(wrong))
        shown = ", ".join(tape.labels[:12]) + (", …" if len(tape.labels) > 12 else "")
        raise DataError(
            f"tape {tape.name!r} has the label {column.values[column.ids[token]]!r}, which its "
            f"tagger does not have; its labels are {shown}",
            **corpus.where(token),
        )


def check_text(text: Data, name: str = "the text") -> None:
    """Raise a DataError if a text is not a list of sentences.

    A generator could be read only once, and iterating over a mapping would yield its keys.
    """
    if isinstance(text, str):
        raise DataError(
            f"{name} is the string {text[:60]!r}, expected a list of sentences; a file is read by "
            "read_columns(path, columns)"
        )
    if isinstance(text, bytes | Mapping | AbstractSet | Sentence):
        raise DataError(f"{name} is {text!r}, expected a list of sentences")
    sized(text, name)


def refuse_batch(sentence: SentenceLike) -> None:
    """Raise a DataError for a list of sentences in the place of a sentence."""
    size = sized(sentence, "a sentence")
    first = None if isinstance(sentence, Sentence) else next(iter(sentence), None)
    several = isinstance(first, Sentence)
    if isinstance(first, list | tuple):
        several = bool(first) and isinstance(first[0], list | tuple | Mapping)
    if isinstance(first, Mapping):
        several = any(isinstance(column, list | tuple) for column in first.values())
    if several:
        raise DataError(
            f"expected one sentence, got a list of {size}: tag_all, decode and lattices take "
            "a list of sentences"
        )


def sized(items: Data | SentenceLike, name: str, sentence: int | None = None) -> int:
    """Return the number of sentences or tokens; `sentence` is a number for the error message."""
    try:
        return len(items)
    except TypeError:
        raise DataError(f"{name} is {items!r}, expected a list", sentence=sentence) from None


def as_sentences(sentences: Sequence[SentenceLike], columns: Sequence[str]) -> list[Sentence]:
    """Convert sentences of any form; `columns` are the names for row tuples."""
    return each_sentence(sentences, lambda sentence: as_sentence(sentence, columns))


def as_sentence(sentence: SentenceLike, columns: Sequence[str]) -> Sentence:
    """Convert a sentence; rows may omit the last columns, since a new sentence has no labels."""
    if isinstance(sentence, Sentence):
        return sentence
    if isinstance(sentence, Mapping):
        return Sentence(sentence)
    return _of_rows(sentence, columns) if sized(sentence, "a sentence") else Sentence({})


def _of_rows(sentence: Sequence[Any], columns: Sequence[str]) -> Sentence:
    refuse_batch(sentence)
    for position, row in enumerate(sentence):
        if isinstance(row, str | Mapping) or not isinstance(row, Sequence):
            wanted = f"expected a dict of columns, or rows of strings for {tuple(columns)}"
            raise DataError(f"{wanted}, got {row!r}", token=position)
    width = len(sentence[0])
    if not width:
        raise DataError(f"a row without columns; the columns are {tuple(columns)}", token=0)
    names = list(columns)[:width]
    if len(names) < width:
        raise DataError(f"rows of {width} strings, the columns are {tuple(columns)}")
    table: dict[str, list[str]] = {name: [] for name in names}
    for position, cells in enumerate(sentence):
        if len(cells) != len(names):
            raise DataError(f"{len(cells)} columns, expected {len(names)}", token=position)
        for name, cell in zip(names, cells, strict=True):
            table[name].append(cell)
    return Sentence(table)


def _check_strings(sentences: Sequence[Sentence], names: Collection[str]) -> None:
    for number, sentence in enumerate(sentences):
        for name in names if len(sentence) else ():
            try:
                "".join(sentence[name])  # faster than a check of each value
            except TypeError:
                values: list[Any] = list(sentence[name])
                token = next(i for i, x in enumerate(values) if not isinstance(x, str))
                raise DataError(
                    f"column {name!r} is {values[token]!r}, expected a string",
                    sentence=number if len(sentences) > 1 else None,
                    token=token,
                ) from None


def _needed(index: FeatureIndex, sentences: Sequence[Sentence]) -> list[str]:
    """Return the columns that an index reads, and columns about the surrounding document.

    If one is missing, return all common columns: the index then raises an error that names it.
    """
    full = [s for s in sentences if len(s)]
    names = list(index.columns)
    if not full:
        return names
    if not index.tapes and all(name in s for s in full for name in names):
        surrounding = filter(is_surrounding, full[0].columns)
        return names + [name for name in surrounding if all(name in s for s in full)]
    return [name for name in full[0].columns if all(name in s for s in full)]


# --- Labels as sets of allowed labels -------------------------------------------------------------

UNKNOWN = "_"


def label_set(
    values: Iterable[str], *, partial: bool = True, earlier: Iterable[str] = ()
) -> list[str]:
    """Return the labels among the distinct strings of a column, sorted.

    With `partial`, ``_`` and ``a|b`` are sets of labels; otherwise every string is a label. A set
    may name labels of an earlier model that are not among the strings.
    """
    strings: set[Any] = set(values)  # a caller may pass numbers by mistake
    blank = partial and UNKNOWN in strings
    if odd := [value for value in strings if not isinstance(value, str)]:
        raise DataError(f"labels are strings, got {odd[0]!r}")
    pack_strings(tuple(strings))  # raises for strings that a model file cannot hold
    old = set(earlier)
    if partial:
        strings.discard(UNKNOWN)
        labels = strings | old
        strings -= {s for s in strings - old if alternatives(s, labels)}
    if not strings and not old:
        unknown = ": each is '_', unknown" if blank else ""
        raise DataError(f"the target column holds no label{unknown}")
    return sorted(strings)


def column_labels(column: Column, *, partial: bool = True) -> list[str]:
    """Return the labels that occur in a column, sorted; `label_set` explains `partial`."""
    values = [column.values[i] for i in distinct(column.ids).tolist()]
    return label_set(values, partial=partial)


def allowed_labels(column: Column, labels: Sequence[str], *, partial: bool = True) -> Bools:
    """Return which labels each token may have, bool [N, L]; `label_set` explains `partial`.

    A LabelError names a string that is neither a label nor a set of labels.
    """
    masks = label_masks(column.values, labels, partial=partial)
    unknown = ~np.asarray(masks.any(axis=1))[column.ids]
    if unknown.any():
        token = int(np.flatnonzero(unknown)[0])
        string = column.values[column.ids[token]]
        raise LabelError(f"token {token}: {string!r} is not one of the {len(labels)} labels")
    return masks[column.ids]


def label_masks(values: Sequence[str], labels: Sequence[str], *, partial: bool = True) -> Bools:
    """Return which labels each of V strings denotes, bool [V, L]; all false if it is no label."""
    index = {label: i for i, label in enumerate(labels)}
    masks = np.zeros((len(values), len(labels)), dtype=bool)
    for number, string in enumerate(values):
        if string in index:
            masks[number, index[string]] = True
        elif partial and string == UNKNOWN:
            masks[number] = True
        elif partial and (parts := alternatives(string, index)):
            masks[number, [index[part] for part in parts]] = True
    return masks


def alternatives(string: str, labels: Iterable[str]) -> list[str]:
    """Return the labels of a string such as ``a|b``; [] for other strings."""
    parts = string.split("|")
    return parts if len(parts) > 1 and set(parts) <= set(labels) else []
