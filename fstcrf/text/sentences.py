"""Sentences and labels in the forms in which users pass them.

A label may denote a set of labels: ``_`` means all labels, ``B-NP|B-PP`` means one of two labels. A
string with ``|`` is a set if each of its parts is a label. Otherwise it is one label, such as
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
from fstcrf.arrays import Bools, Longs, distinct
from fstcrf.errors import DataError, LabelError
from fstcrf.kernel.native import mapped
from fstcrf.kernel.strings import pack_strings
from fstcrf.ragged import Ragged
from fstcrf.text.corpus import Column, Corpus, Sentence
from fstcrf.text.corpus.corpus import each_sentence
from fstcrf.text.corpus.items import ATTRIBUTES, item_of
from fstcrf.text.features import Design, FeatureIndex, LiteralIndex, is_literal
from fstcrf.text.features.surroundings import is_surrounding
from fstcrf.text.features.template import tape_column


@dataclass(frozen=True, slots=True)
class Tape:
    """A tape that a tagger reads.

    Parameters
    ----------
    name : str
    labels : tuple of str
        Labels of the tagger that writes the tape.
    model : str
        Fingerprint of this tagger.
    """

    name: str
    labels: tuple[str, ...]
    model: str


# --- Sentences ------------------------------------------------------------------------------------

SentenceLike: TypeAlias = Sentence | Mapping[str, Sequence[str]] | Sequence[Any]
"""A `Sentence`, a mapping column → list, a list of row tuples, or (for models over literal
attributes) a list of attribute lists or feature dicts."""

Data: TypeAlias = Corpus | Sequence[SentenceLike]

T = TypeVar("T")


class Run(NamedTuple):
    """Consecutive sentences."""

    first: int
    end: int
    offsets: Longs  # [B + 1]


@dataclass(frozen=True, slots=True)
class Prepared:
    """Sentences that are ready for an index."""

    lengths: list[int]
    design: Callable[[int, int], Design]  # from (first, end) to the design of these sentences


def runs_of(rows: Ragged, tokens: int) -> Iterator[Run]:
    """Yield runs of sentences with at most `tokens` tokens; a longer sentence is a run."""
    if len(rows) and rows.total <= tokens:
        yield Run(0, len(rows), rows.offsets)
        return
    for first, end in rows.runs(tokens):
        yield Run(first, end, rows.part(first, end).offsets)


def answered(runs: Iterable[Run], answer: Callable[[Run], T], threads: int) -> list[T]:
    """Return the answer for each run; several threads work on different runs."""
    return mapped(answer, runs, whole_number(threads, "threads", least=1))


def read_sentences(
    index: FeatureIndex | LiteralIndex,
    sentences: Data,
    columns: Sequence[str],
    reads: Sequence[Tape] = (),
) -> Prepared:
    """Prepare sentences for an index.

    `columns` are the columns of sentences that are lists of rows, `reads` the tapes that the model
    reads. DataError: a column is missing, or the tagger of a tape lacks a label of the sentences.
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
    if not isinstance(sentences, Corpus) and len(sentences) == 1:
        sentences = as_sentences(sentences, columns)
        design = index.of_one(sentences[0]) if is_short(index, sentences[0]) else None
        if design is not None:
            return Prepared([len(sentences[0])], lambda *_: design)
    corpus = read_corpus(index, sentences, columns, reads)
    return Prepared(Ragged(corpus.offsets).lengths.tolist(), index.runs(corpus))


def _items(index: LiteralIndex, corpus: Corpus) -> Prepared:
    """Prepare a text whose column holds attributes."""
    if ATTRIBUTES not in corpus.columns:
        raise DataError(
            "the model reads attribute lists or feature dicts, not columns", path=corpus.source
        )

    def design(first: int, end: int) -> Design:
        bounds = pairwise(corpus.offsets[first : end + 1].tolist())
        return index.design([_read_items(corpus, start, stop) for start, stop in bounds])

    return Prepared(Ragged(corpus.offsets).lengths.tolist(), design)


def _read_items(corpus: Corpus, start: int, stop: int) -> list[list[str] | dict[str, float]]:
    """Return the attributes of tokens; DataError names the token whose value is no number."""
    items = []
    for token, text in enumerate(corpus.columns[ATTRIBUTES].strings(start, stop), start):
        try:
            items.append(item_of(text))
        except ValueError as error:
            raise DataError(str(error), **corpus.where(token)) from None
    return items


def _with_items(sentence: SentenceLike) -> SentenceLike:
    """Replace a sentence whose column holds attributes by the attributes."""
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
    """Return sentences as a corpus with the columns of an index.

    Open tapes have no labels. For the other arguments see `read_sentences`.
    """
    if isinstance(sentences, Corpus):
        corpus = sentences
    else:
        parsed = as_sentences(sentences, columns)
        names = _needed(index, parsed)
        _check_strings(parsed, set(names).intersection(index.columns))
        corpus = Corpus.from_sentences(parsed, names)
    for tape in index.tapes:
        if tape not in open_tapes:
            corpus = _with_tape(corpus, tape)
            for earlier in reads:
                if earlier.name == tape:
                    _check_labels(corpus, earlier)
    return corpus


def read_one(
    index: FeatureIndex | LiteralIndex,
    sentence: SentenceLike,
    columns: Sequence[str],
    reads: Sequence[Tape] = (),
) -> Prepared:
    """Prepare one sentence."""
    return read_sentences(index, [sentence], columns, reads)


def is_short(index: FeatureIndex | LiteralIndex, sentence: Sentence) -> bool:
    """Return whether an index can read a sentence without a corpus.

    Raises
    ------
    DataError
        A column of the index has a value that is no string.
    """
    if not len(sentence) or isinstance(index, LiteralIndex):
        return False
    if any(map(is_surrounding, sentence.columns)):  # a part of a document
        return False
    if not all(name in sentence for name in index.columns):
        return False
    _check_strings([sentence], index.columns)
    return True


def _with_tape(corpus: Corpus, tape: str) -> Corpus:
    """Add the labels of an earlier tape to a corpus, from the column with its name."""
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


def check_text(text: Data, what: str = "the text") -> None:
    """Raise DataError if a text is no list: strings, dicts and generators would be misread."""
    if isinstance(text, str):
        raise DataError(
            f"{what} is the string {text[:60]!r}, expected a list of sentences; a file is read by "
            "read_columns(path, columns)"
        )
    if isinstance(text, bytes | Mapping | AbstractSet):
        raise DataError(f"{what} is {text!r}, expected a list of sentences")
    sized(text, what)


def sized(items: Data | SentenceLike, what: str, sentence: int | None = None) -> int:
    """Return the length of a text or a sentence; `what` and `sentence` are for the error."""
    try:
        return len(items)
    except TypeError:
        raise DataError(f"{what} is {items!r}, expected a list", sentence=sentence) from None


def as_sentences(sentences: Sequence[SentenceLike], columns: Sequence[str]) -> list[Sentence]:
    """Convert sentences to `Sentence`; lists of rows have these columns."""
    return each_sentence(sentences, lambda sentence: _as_sentence(sentence, columns))


def _as_sentence(sentence: SentenceLike, columns: Sequence[str]) -> Sentence:
    """Convert a sentence; rows may lack the last columns, since a sentence to tag has no labels."""
    if isinstance(sentence, Sentence):
        return sentence
    if isinstance(sentence, Mapping):
        return Sentence(sentence)
    return _of_rows(sentence, columns) if sized(sentence, "a sentence") else Sentence({})


def _of_rows(sentence: Sequence[Any], columns: Sequence[str]) -> Sentence:
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
    for number, sentence in enumerate(sentences):
        for name in names if len(sentence) else ():
            try:
                "".join(sentence[name])  # faster than checks of all types
            except TypeError:
                values: list[Any] = list(sentence[name])
                token = next(i for i, x in enumerate(values) if not isinstance(x, str))
                raise DataError(
                    f"column {name!r} is {values[token]!r}, expected a string",
                    sentence=number if len(sentences) > 1 else None,
                    token=token,
                ) from None


def _needed(index: FeatureIndex, sentences: Sequence[Sentence]) -> list[str]:
    """Return the columns that an index reads, and those with the document around sentences.

    If a column is missing or the index reads tapes, all columns are returned, so that the corpus
    can report which column is missing.
    """
    full = [s for s in sentences if len(s)]
    names = list(index.columns)
    if not full:
        return names
    if not index.tapes and all(name in s for s in full for name in names):
        around = filter(is_surrounding, full[0].columns)
        return names + [name for name in around if all(name in s for s in full)]
    return [name for name in full[0].columns if all(name in s for s in full)]


# --- Labels ---------------------------------------------------------------------------------------

UNKNOWN = "_"


def label_set(
    values: Iterable[str], *, partial: bool = True, known: Iterable[str] = ()
) -> list[str]:
    """Return the sorted labels among the distinct strings of a column.

    With `partial`, ``_`` and ``a|b`` are sets of labels; otherwise every string is a label. The
    parts of ``a|b`` may be labels that an earlier model has (`known`).
    """
    strings: set[Any] = set(values)  # users also pass numbers
    blank = partial and UNKNOWN in strings
    if odd := [value for value in strings if not isinstance(value, str)]:
        raise DataError(f"labels are strings, got {odd[0]!r}")
    pack_strings(tuple(strings))  # raises an error for strings that a file cannot hold
    earlier = set(known)
    if partial:
        strings.discard(UNKNOWN)
        every = strings | earlier
        strings -= {s for s in strings - earlier if alternatives(s, every)}
    if not strings and not earlier:
        unknown = ": each is '_', unknown" if blank else ""
        raise DataError(f"the target column holds no label{unknown}")
    return sorted(strings)


def column_labels(column: Column, *, partial: bool = True) -> list[str]:
    """Return the sorted labels of a column; see `label_set`."""
    values = [column.values[i] for i in distinct(column.ids).tolist()]
    return label_set(values, partial=partial)


def allowed_labels(column: Column, labels: Sequence[str], *, partial: bool = True) -> Bools:
    """Return which labels each token may have, bool [N, L]; for `partial` see `label_set`.

    LabelError names the first token whose string is no label.
    """
    masks = label_masks(column.values, labels, partial=partial)
    unknown = ~np.asarray(masks.any(axis=1))[column.ids]
    if unknown.any():
        token = int(np.flatnonzero(unknown)[0])
        string = column.values[column.ids[token]]
        raise LabelError(f"token {token}: {string!r} is not one of the {len(labels)} labels")
    return masks[column.ids]


def label_masks(values: Sequence[str], labels: Sequence[str], *, partial: bool = True) -> Bools:
    """Return the set of labels of each of V strings, bool [V, L]; it is empty if there is none."""
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
    """Return the labels of a set ``a|b``; an empty list for other strings."""
    parts = string.split("|")
    return parts if len(parts) > 1 and set(parts) <= set(known) else []
