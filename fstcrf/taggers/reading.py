"""Sentences and labels as users hand them over.

Labels may be sets of allowed labels: ``_`` is one that is not known, ``B-NP|B-PP`` one of these. A
string with ``|`` is read so when each of its parts is a label in its own right; otherwise it is one
label (``NOUN|Number=Sing`` among UPOS+FEATS labels).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np

from fstcrf.arguments import whole_number
from fstcrf.arrays import Bools, Longs, distinct
from fstcrf.errors import DataError, LabelError
from fstcrf.kernel.native import mapped
from fstcrf.kernel.strings import pack_strings
from fstcrf.ragged import Ragged
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
from fstcrf.text.features.surroundings import is_surrounding
from fstcrf.text.features.template import tape_column


@dataclass(frozen=True, slots=True)
class Tape:
    """A tape that a tagger reads.

    Parameters
    ----------
    name : str
    labels : tuple of str
        Labels of the tagger that writes it.
    model : str
        Fingerprint of that tagger.
    """

    name: str
    labels: tuple[str, ...]
    model: str


# --- What users hand over as sentences ------------------------------------------------------------

SentenceLike: TypeAlias = Sentence | Mapping[str, Sequence[str]] | Sequence[Any]
"""A `Sentence`, a mapping column → list, a list of row tuples, or (for models over literal
attributes) a list of attribute lists or feature dicts."""

Data: TypeAlias = Corpus | Sequence[SentenceLike]

T = TypeVar("T")


class Run(NamedTuple):
    """Successive sentences."""

    first: int
    end: int
    offsets: Longs  # [B + 1]


@dataclass(frozen=True, slots=True)
class Prepared:
    """Sentences and how to get the design matrix of a run of them."""

    lengths: list[int]
    design: Callable[[int, int], Design]  # of the sentences from the first to the end


def runs_of(rows: Ragged, tokens: int) -> Iterator[Run]:
    """Yield runs of sentences of at most so many tokens, or of one sentence."""
    if len(rows) and rows.total <= tokens:
        yield Run(0, len(rows), rows.offsets)
        return
    for first, end in rows.runs(tokens):
        yield Run(first, end, rows.part(first, end).offsets)


def answered(runs: Iterable[Run], answer: Callable[[Run], T], threads: int) -> list[T]:
    """Answer run by run, by several threads."""
    return mapped(answer, runs, whole_number(threads, "threads", least=1))


def read_sentences(
    index: AttributeIndex,
    sentences: Data,
    columns: Sequence[str],
    reads: Sequence[Tape] = (),
) -> Prepared:
    """Prepare sentences for an index; rows have these columns, and the model reads these tapes.

    DataError names a missing column, or a label that the tagger of a tape does not have.
    """
    if isinstance(index, LiteralIndex):
        if isinstance(sentences, Corpus):
            return _items(index, sentences)
        check_text(sentences)
        lengths = [sized(sentence, "a sentence") for sentence in sentences]
        items = map(_with_items, sentences)
        literal = [sentence if is_literal(sentence) else [] for sentence in items]
        if list(map(len, literal)) != lengths:
            raise DataError("the model reads attribute lists or feature dicts for each token")
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
    """Prepare sentences of item text."""
    if ATTRIBUTES not in corpus.columns:
        raise DataError(
            "the model reads attribute lists or feature dicts, not columns", path=corpus.source
        )

    def design(first: int, end: int) -> Design:
        bounds = pairwise(corpus.offsets[first : end + 1].tolist())
        return index.design([_read_items(corpus, start, stop) for start, stop in bounds])

    return Prepared(Ragged(corpus.offsets).lengths.tolist(), design)


def _read_items(corpus: Corpus, start: int, stop: int) -> list[list[str] | dict[str, float]]:
    """Read the attributes of some tokens; DataError says where a value is no number."""
    found = []
    for token, text in enumerate(corpus.columns[ATTRIBUTES].strings(start, stop), start):
        try:
            found.append(item_of(text))
        except ValueError as error:
            raise DataError(str(error), **corpus.where(token)) from None
    return found


def _with_items(sentence: SentenceLike) -> SentenceLike:
    """Take the attributes of a sentence of item text."""
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
    """Return sentences as the index reads them.

    The labels of open tapes are not given; other arguments as for `read_sentences`.
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
    if index.tapes:
        if not isinstance(data, Corpus):
            full = [sentence for sentence in data if len(sentence)]
            names = (
                [n for n in full[0].columns if all(n in s for s in full)] if full else index.tapes
            )
            data = Corpus.from_sentences(data, names)
        data = _with_tapes(data, index.tapes, reads)
    lengths = (
        Ragged(data.offsets).lengths.tolist() if isinstance(data, Corpus) else [*map(len, data)]
    )
    return Prepared(lengths, index.runs(data))


def _with_tapes(corpus: Corpus, tapes: Iterable[str], reads: Sequence[Tape]) -> Corpus:
    """Return a corpus with the labels of tapes as the index reads them, checked."""
    for tape in tapes:
        corpus = _with_tape(corpus, tape)
        for known in reads:
            if known.name == tape:
                _check_labels(corpus, known)
    return corpus


def read_one(
    index: AttributeIndex,
    sentence: SentenceLike,
    columns: Sequence[str],
    reads: Sequence[Tape] = (),
) -> Prepared:
    """Prepare one sentence."""
    return read_sentences(index, [sentence], columns, reads)


def is_short(index: AttributeIndex, sentence: Sentence) -> bool:
    """Return whether a sentence has all columns that are read, and can be read without a corpus.

    Raises
    ------
    DataError
        One of these columns has what is no string.
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
    """Give the labels of an earlier tape, which come as a column of its name, to the index."""
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
    known = set(tape.labels)
    odd = [i for i, label in enumerate(column.values) if label not in known]
    wrong = np.isin(column.ids, odd) if odd else np.zeros(0, dtype=np.bool)
    if wrong.any():
        token = int(np.argmax(wrong))
        shown = ", ".join(tape.labels[:12]) + (", …" if len(tape.labels) > 12 else "")
        raise DataError(
            f"tape {tape.name!r} has the label {column.values[column.ids[token]]!r}, which its "
            f"tagger does not have; its labels are {shown}",
            **corpus.where(token),
        )


def check_text(given: Data, what: str = "the text") -> None:
    """Refuse what is no list of sentences: a generator would be read once, a dict by its keys."""
    if isinstance(given, str):
        raise DataError(
            f"{what} is the string {given[:60]!r}, expected a list of sentences; a file is read by "
            "read_columns(path, columns)"
        )
    if isinstance(given, bytes | Mapping | AbstractSet):
        raise DataError(f"{what} is {given!r}, expected a list of sentences")
    sized(given, what)


def sized(given: Data | SentenceLike, what: str, sentence: int | None = None) -> int:
    """Return how many there are, sentences or tokens; `sentence` is the number of one."""
    try:
        return len(given)
    except TypeError:
        raise DataError(f"{what} is {given!r}, expected a list", sentence=sentence) from None


def as_sentences(sentences: Sequence[SentenceLike], columns: Sequence[str]) -> list[Sentence]:
    """Return what users hand over as sentences with columns; rows have these columns."""
    return each_sentence(sentences, lambda sentence: _as_sentence(sentence, columns))


def _as_sentence(sentence: SentenceLike, columns: Sequence[str]) -> Sentence:
    """Rows may leave out the last columns: a sentence to tag has no labels yet."""
    if isinstance(sentence, Sentence):
        return sentence
    if isinstance(sentence, Mapping):
        return Sentence(sentence)
    return _of_rows(sentence, columns) if sized(sentence, "a sentence") else Sentence({})


def _of_rows(sentence: Sequence[Any], columns: Sequence[str]) -> Sentence:
    """Return a sentence of rows."""
    for position, row in enumerate(sentence):
        if isinstance(row, str | Mapping) or not isinstance(row, Sequence):
            wanted = f"expected rows of strings for the columns {tuple(columns)}"
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
    """Check that columns hold strings."""
    for number, sentence in enumerate(sentences):
        for name in names if len(sentence) else ():
            try:
                "".join(sentence[name])  # quicker than to ask each for its type
            except TypeError:
                values: list[Any] = list(sentence[name])
                token = next(i for i, x in enumerate(values) if not isinstance(x, str))
                raise DataError(
                    f"column {name!r} is {values[token]!r}, expected a string",
                    sentence=number if len(sentences) > 1 else None,
                    token=token,
                ) from None


def _needed(index: FeatureIndex, sentences: Sequence[Sentence]) -> list[str]:
    """Columns that the index reads, or all, where it shall say which one is missing.

    What was written down of the document around sentences is read, too.
    """
    full = [s for s in sentences if len(s)]
    names = list(index.columns)
    if not full:
        return names
    if not index.tapes and all(name in s for s in full for name in names):
        around = filter(is_surrounding, full[0].columns)
        return names + [name for name in around if all(name in s for s in full)]
    return [name for name in full[0].columns if all(name in s for s in full)]


# --- Labels as sets of allowed labels -------------------------------------------------------------

UNKNOWN = "_"


def label_set(
    values: Iterable[str], *, partial: bool = True, known: Iterable[str] = ()
) -> list[str]:
    """Return the labels among the distinct strings of a column, sorted.

    With `partial`, ``_`` and ``a|b`` are read as above; otherwise every string is a label. Labels
    `known` from an earlier model need not be repeated: ``a|b`` may name them.
    """
    given: set[Any] = set(values)  # callers have numbers, too
    blank = partial and UNKNOWN in given
    if odd := [value for value in given if not isinstance(value, str)]:
        raise DataError(f"labels are strings, got {odd[0]!r}")
    pack_strings(tuple(given))  # which refuses what no file can hold
    strings, earlier = given, set(known)
    if partial:
        strings.discard(UNKNOWN)
        every = strings | earlier
        strings -= {s for s in strings - earlier if alternatives(s, every)}
    if not strings and not earlier:
        unknown = ": each is '_', unknown" if blank else ""
        raise DataError(f"the target column holds no label{unknown}")
    return sorted(strings)


def column_labels(column: Column, *, partial: bool = True) -> list[str]:
    """Return the labels that occur in a column, sorted; arguments and errors as of `label_set`."""
    values = [column.values[i] for i in distinct(column.ids).tolist()]
    return label_set(values, partial=partial)


def allowed_labels(column: Column, labels: Sequence[str], *, partial: bool = True) -> Bools:
    """Return which labels each token may have, bool [N, L]; `partial` as for `label_set`.

    LabelError names a string that is no label, and its first token.
    """
    masks = label_masks(column.values, labels, partial=partial)
    unknown = ~np.asarray(masks.any(axis=1))[column.ids]
    if unknown.any():
        token = int(np.flatnonzero(unknown)[0])
        string = column.values[column.ids[token]]
        raise LabelError(f"token {token}: {string!r} is not one of the {len(labels)} labels")
    return masks[column.ids]


def label_masks(values: Sequence[str], labels: Sequence[str], *, partial: bool = True) -> Bools:
    """Return which labels each of V strings stands for, bool [V, L]; none where it is no label."""
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


def alternatives(string: str, known: Iterable[str]) -> list[str]:
    """Return the labels that ``a|b`` allows; none of a string that is no such list."""
    parts = string.split("|")
    return parts if len(parts) > 1 and set(parts) <= set(known) else []
