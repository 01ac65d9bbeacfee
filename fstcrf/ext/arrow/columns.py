"""Sentences in columns of Arrow: which columns hold them, read without a Python object a token."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from fstcrf.arrays import Bools, Ints, Longs, Ragged
from fstcrf.errors import DataError, OptionError
from fstcrf.lazy import optional
from fstcrf.taggers import CRF, JointCRF
from fstcrf.taggers.pipelines import TrainedPipeline
from fstcrf.taggers.tagger import Tagger
from fstcrf.text.corpus import Column, Corpus
from fstcrf.text.features import FunctionIndex, LiteralIndex
from fstcrf.text.sentences import Data

if TYPE_CHECKING:
    import pyarrow as pa

Tokenise: TypeAlias = Callable[[str], Iterable[tuple[int, int]]]
"""Text → where each token begins and ends, in characters."""

_NAMES = ("tokens", "text")  # columns that are looked for
_TOKEN = re.compile(r"\w+|[^\w\s]")
ADVICE = "tables of Arrow need pyarrow: pip install 'fstcrf[arrow]'"


def pyarrow() -> Any:
    """Return the package."""
    return optional("pyarrow", ADVICE)


def _compute() -> Any:
    return optional("pyarrow.compute", ADVICE)


def words(text: str) -> Iterator[tuple[int, int]]:
    """Yield the beginning and end of each word and sign of a text."""
    return (match.span() for match in _TOKEN.finditer(text))


# --- Which columns -------------------------------------------------------------------------------


def columns_read(tagger: Tagger, schema: pa.Schema, column: str | None) -> tuple[str, ...]:
    """Return the columns of text that a tagger reads; empty if it reads attributes.

    A feature function may read fewer columns than it saw in training: it gets those of the table.
    """
    if isinstance(tagger, CRF):
        parts: tuple[CRF, ...] = (tagger,)
    elif isinstance(tagger, JointCRF | TrainedPipeline):
        parts = tagger.taggers
    else:
        raise OptionError(f"{tagger!r} does not tag sentence by sentence, so it cannot tag batches")
    names: list[str] = []
    for index in (part.index for part in parts):
        if isinstance(index, FunctionIndex):
            offered = _names_offered(schema, column)
            seen = index.columns
            names += [name for name in seen if name in offered] or seen or offered
        elif not isinstance(index, LiteralIndex):
            names += index.columns
    return tuple(name for name in dict.fromkeys(names) if not name.startswith("%"))


def _names_offered(schema: pa.Schema, column: str | None) -> list[str]:
    """Return the columns of tokens that a table names, as fields of structs or as own columns."""
    named = [column] if column is not None else [n for n in _NAMES if n in schema.names][:1]
    lists = [f for f in schema if is_list(f.type) and f.name in (named or schema.names)]
    structs = [f.type.value_type for f in lists if pyarrow().types.is_struct(f.type.value_type)]
    if len(structs) == 1:
        return [structs[0].field(i).name for i in range(structs[0].num_fields)]
    return [] if named else [f.name for f in lists if is_string(f.type.value_type)]


def columns_of(schema: pa.Schema, column: str | None, reads: Sequence[str]) -> tuple[str, ...]:
    """Return the columns of a table that hold the sentences."""
    there = ", ".join(schema.names) or "none"
    if column is not None:
        if column not in schema.names:
            raise DataError(f"no column {column!r}; the columns are {there}")
        return (column,)
    for name in _NAMES:
        if name in schema.names:
            return (name,)
    fits = [f.name for f in schema if is_string(f.type) or is_list(f.type)]
    if reads and set(reads) <= {n for n in fits if is_list(schema.field(n).type)}:
        return tuple(reads)
    if len(fits) == 1:
        return (fits[0],)
    shown = f", nor the columns {', '.join(reads)} that the tagger reads" if reads else ""
    raise DataError(f"no column 'tokens' or 'text'{shown}: set column= to one of {there}")


# --- What is in them -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Sentences:
    """The sentences of a batch: B of them with N tokens together."""

    data: Data
    missing: Bools  # [B]: null
    # Of text: where each token begins and ends in its text, int32 [N, 2], and the tokens.
    places: Ints | None = None
    tokens: pa.Array | None = None


def read_sentences(
    rows: pa.RecordBatch, columns: Sequence[str], reads: Sequence[str], tokenise: Tokenise | None
) -> Sentences:
    """Return the sentences of a batch.

    Parameters
    ----------
    rows : pyarrow.RecordBatch
    columns : sequence of str
        Columns of the batch: one, or the columns that the tagger reads.
    reads : sequence of str
        The columns that the tagger reads; empty for attributes.
    tokenise : callable, optional
        Where the column is text; else it has lists of tokens.
    """
    arrays = [rows.column(name) for name in columns]
    first = arrays[0]
    missing = np.asarray(first.is_null().to_numpy(zero_copy_only=False))
    if tokenise is not None:
        return _text(first, missing, reads[0], tokenise)
    offsets = _offsets(first)
    for name, array in zip(columns, arrays, strict=True):
        where = np.flatnonzero(_offsets(array) != offsets)
        if len(where):
            raise DataError(
                f"columns {columns[0]!r} and {name!r} have lists of different lengths",
                sentence=int(where[0]) - 1,
            )
    if not reads:
        return Sentences(_attributes(first), missing)
    flat = {n: _flat(a) for n, a in zip(columns, arrays, strict=True)}
    if len(columns) == 1:
        flat = _by_column(flat[columns[0]], reads, columns[0])
    interned = {name: _interned(name, array, offsets) for name, array in flat.items()}
    return Sentences(Corpus(interned, offsets), missing)


def is_string(kind: pa.DataType) -> bool:
    """Return whether a type is text."""
    types = pyarrow().types
    if types.is_dictionary(kind):
        kind = kind.value_type
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def is_list(kind: pa.DataType) -> bool:
    """Return whether a type is lists of any kind."""
    types = pyarrow().types
    tests = ("list", "large_list", "fixed_size_list", "list_view", "large_list_view")
    return any(getattr(types, f"is_{name}")(kind) for name in tests)


def _offsets(array: pa.Array) -> Longs:
    """Return the bounds of lists, int64 [B + 1]; a null is empty."""
    compute = _compute()
    sizes = compute.fill_null(compute.list_value_length(array), 0)
    return Ragged.from_lengths(sizes.to_numpy(zero_copy_only=False)).offsets


def _flat(array: pa.Array) -> pa.Array:
    """Return the elements of lists, one list after the other."""
    return _compute().list_flatten(array)


def _by_column(flat: pa.Array, reads: Sequence[str], column: str) -> dict[str, pa.Array]:
    """Return the values of tokens for each column that a tagger reads."""
    arrow = pyarrow()
    if not arrow.types.is_struct(flat.type):
        if len(reads) == 1:
            return {reads[0]: flat}
        raise DataError(
            f"column {column!r} has lists of {flat.type}, and the tagger reads "
            f"{', '.join(reads)}: expected lists of structs with these fields"
        )
    names = [flat.type.field(i).name for i in range(flat.type.num_fields)]
    missing = [name for name in reads if name not in names]
    if missing:
        raise DataError(
            f"the structs of column {column!r} have no field {missing[0]!r}; the fields "
            f"are {', '.join(names)}"
        )
    parts = dict(zip(names, flat.flatten(), strict=True))
    return {name: parts[name] for name in reads}


def _interned(name: str, flat: pa.Array, offsets: Longs) -> Column:
    """Return strings as a column; numbers become their text."""
    arrow = pyarrow()
    if flat.null_count:
        token = int(np.flatnonzero(flat.is_null().to_numpy(zero_copy_only=False))[0])
        sentence = int(np.searchsorted(offsets, token, side="right")) - 1
        raise DataError(
            f"{name!r} is null, expected a string",
            sentence=sentence,
            token=token - int(offsets[sentence]),
        )
    if arrow.types.is_nested(flat.type):
        raise DataError(f"{name!r} is {flat.type} for each token, expected a string")
    coded = flat.cast(arrow.string()).dictionary_encode()
    ids = coded.indices.to_numpy(zero_copy_only=False).astype(np.int32, copy=False)
    return Column(ids, tuple(coded.dictionary.to_pylist()))


def _attributes(array: pa.Array) -> list[Any]:
    """Return tokens as lists of attributes, or as dicts of features without null values."""
    types = pyarrow().types
    is_map = types.is_map(array.type.value_type)

    def token(given: Any) -> Any:
        if isinstance(given, dict):
            return {name: value for name, value in given.items() if value is not None}
        return dict(given) if is_map and given is not None else given

    return [[token(one) for one in row or ()] for row in array.to_pylist()]


def _text(array: pa.Array, missing: Bools, name: str, tokenise: Tokenise) -> Sentences:
    arrow = pyarrow()
    texts = [text or "" for text in array.cast(arrow.string()).to_pylist()]
    places = [list(tokenise(text)) for text in texts]
    for number, (text, found) in enumerate(zip(texts, places, strict=True)):
        edges = list(chain.from_iterable(found))
        if any(a > b for a, b in pairwise([0, *edges, len(text)])):
            raise DataError(f"the tokens {found[:3]}… overlap or end outside", sentence=number)
    tokens = [[t[a:b] for a, b in ps] for t, ps in zip(texts, places, strict=True)]
    column = arrow.array(tokens, mask=missing, type=arrow.list_(arrow.string()))
    flat = np.asarray(list(chain.from_iterable(places)), dtype=np.int32).reshape(-1, 2)
    corpus = Corpus.from_sentences([{name: row} for row in tokens], (name,))
    return Sentences(corpus, missing, flat, column)
