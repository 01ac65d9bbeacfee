"""A corpus seen through offsets: which string is where.

========== ===================================================================
Reader     one pass over one corpus
========== ===================================================================

A position has a *local* number: a string outside the sentence (a pad) is below ``2 * reach``,
the column's strings follow, −1 is nothing at all.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from itertools import chain
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from fstcrf.corpus.corpus import Column, Corpus
from fstcrf.errors import DataError, TemplateError
from fstcrf.features.derive import Plain, Source, root, strings_of
from fstcrf.features.design import Block
from fstcrf.features.families import Family, Term
from fstcrf.features.template import Macro

__all__ = ["Local", "Reader", "remembered"]

_SPARSE = 4


class Local(NamedTuple):
    """What is at one offset of every token.

    Parameters
    ----------
    numbers : int32 [N]
        Local numbers.
    complete : bool
        Whether none of them is −1.
    """

    numbers: NDArray[np.int32]
    complete: bool


class Reader:
    """One pass over a corpus; remembers what several templates ask for.

    Parameters
    ----------
    corpus : Corpus
        The sentences.
    reach : int
        How far outside the sentence strings are padded; 0 leaves them out.
    """

    def __init__(self, corpus: Corpus, *, reach: int) -> None:
        self.corpus = corpus
        self.n_tokens = corpus.n_tokens
        self.reach = reach
        lengths = np.diff(corpus.offsets)
        places = np.arange(self.n_tokens, dtype=np.int64)
        self._before = (places - np.repeat(corpus.offsets[:-1], lengths)).astype(np.int32)
        self._after = (np.repeat(corpus.offsets[1:], lengths) - 1 - places).astype(np.int32)
        self._columns: dict[str, Column] = {}
        self._made: dict[Source, list[list[str]]] = {}
        self._local: dict[tuple[str, Term], Local] = {}

    def column(self, name: str) -> Column:
        """Return a column with no string that does not occur.

        Raises
        ------
        TemplateError
            There is no such column.
        """
        if name not in self._columns:
            if name not in self.corpus.columns:
                known = ", ".join(map(repr, self.corpus.columns)) or "none"
                raise TemplateError(
                    f"the templates read column {name!r}; there are {known}",
                    path=self.corpus.source,
                )
            self._columns[name] = _without_unused(self.corpus.columns[name])
        return self._columns[name]

    def made(self, source: Source) -> list[list[str]]:
        """Return what a source makes of each string of its column."""
        if source not in self._made:
            self._made[source] = list(
                map(remembered(source), self.column(str(root(source))).values)
            )
        return self._made[source]

    def strings(self, source: Source) -> list[str]:
        """Return the distinct strings that a source makes of the corpus."""
        return list(dict.fromkeys(chain.from_iterable(self.made(source))))

    def at(self, source: Source, term: Term) -> Local:
        """Return the local numbers of the column of a source at an offset."""
        name = str(root(source))
        term = term._replace(pads=term.pads and self.reach > 0)
        if (name, term) not in self._local:
            found = self._placed if term.absolute else self._shifted
            self._local[name, term] = found(self.column(name).ids, term)
        return self._local[name, term]

    def firing(self, family: Family) -> NDArray[np.bool] | None:
        """Return the tokens at which a family may fire; None for all."""
        mask: NDArray[np.bool] | None = None
        if family.kind == "bos":
            mask = self._before == 0
        elif family.kind == "eos":
            mask = self._after == 0
        elif family.kind == "arc":
            mask = self._before > 0  # no pair of labels ends at a first token
        for macro in family.values:
            local = self.at(macro.source, Term(macro.first, pads=False))
            if not local.complete:
                inside = local.numbers >= 0
                mask = inside if mask is None else mask & inside
        return mask

    def block(
        self, family: Family, tokens: NDArray[np.int32] | None, rows: NDArray[np.int32]
    ) -> Block:
        """Return the block of a family's entries; rows of −1 are dropped, repeated ones merged.

        Raises
        ------
        DataError
            A value that is not a finite number; names file and line.
        """
        if len(rows) and int(rows.min()) < 0:
            keep = np.flatnonzero(rows >= 0)
            tokens = keep.astype(np.int32) if tokens is None else tokens[keep]
            rows = rows[keep]
        if family.is_plural:
            tokens, rows = once(tokens, rows)
        return Block(tokens, rows, self._values(family, tokens))

    def _shifted(self, ids: NDArray[np.int32], term: Term) -> Local:
        size, step, n_pads = self.n_tokens, abs(term.offset), 2 * self.reach
        kept = max(size - step, 0)
        numbers = np.full(size, -1, dtype=np.int32)
        if term.offset < 0:
            numbers[step:] = ids[:kept] + n_pads
            margin, first_pad = self._before, 0
        else:
            numbers[:kept] = ids[step:] + n_pads
            margin, first_pad = self._after, self.reach
        outside = np.flatnonzero(margin < step)
        numbers[outside] = first_pad + step - margin[outside] - 1 if term.pads else -1
        return Local(numbers, term.pads or not len(outside))

    def _placed(self, ids: NDArray[np.int32], term: Term) -> Local:
        length = self._before + self._after + 1
        place = term.offset - 1 if term.offset > 0 else length + term.offset
        inside = (place >= 0) & (place < length)
        tokens = np.arange(self.n_tokens) - self._before + np.where(inside, place, 0)
        beyond = self.reach + place - length if term.offset > 0 else -1 - place
        outside = beyond if term.pads else np.int64(-1)
        numbers = np.where(inside, ids[tokens] + 2 * self.reach, outside).astype(np.int32)
        return Local(numbers, term.pads or bool(inside.all()))

    def _values(
        self, family: Family, tokens: NDArray[np.int32] | None
    ) -> NDArray[np.float32] | None:
        """Return the value of each entry; None when all are 1."""
        if not family.values:
            return None
        product = np.ones(self.n_tokens if tokens is None else len(tokens))
        for macro in family.values:
            local = self.at(macro.source, Term(macro.first, pads=False)).numbers
            chosen = local if tokens is None else local[tokens]
            product *= self._numbers(macro)[chosen - 2 * self.reach]
        with np.errstate(over="ignore"):
            values = product.astype(np.float32)
        if not np.isfinite(values).all():
            entry = int(np.flatnonzero(~np.isfinite(values))[0])
            token = entry if tokens is None else int(tokens[entry])
            raise DataError(f"the value {product[entry]} exceeds float32", **self._where(token))
        return values

    def _numbers(self, macro: Macro) -> NDArray[np.float64]:
        column = self.column(str(root(macro.source)))
        function = strings_of(macro.source)
        numbers = np.array([_number(function(v)[0]) for v in column.values], dtype=np.float64)
        if not np.isfinite(numbers).all():
            token = int(np.flatnonzero(~np.isfinite(numbers)[column.ids])[0])
            text = column.values[column.ids[token]]
            raise DataError(
                f"column {root(macro.source)!r} is {text!r}, expected a finite number for {macro}",
                **self._where(token),
            )
        return numbers

    def _where(self, token: int) -> dict[str, Any]:
        return cast("dict[str, Any]", self.corpus.where(token))


def once(
    tokens: NDArray[np.int32] | None, rows: NDArray[np.int32]
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return entries sorted by token and row, each pair once."""
    if tokens is None:
        tokens = np.arange(len(rows), dtype=np.int32)
    size = int(rows.max(initial=0)) + 1
    pairs = np.sort(tokens.astype(np.int64) * size + rows)
    first = np.ones(len(pairs), dtype=bool)
    np.not_equal(pairs[1:], pairs[:-1], out=first[1:])
    kept_tokens, kept_rows = np.divmod(pairs[first], size)
    return kept_tokens.astype(np.int32), kept_rows.astype(np.int32)


@lru_cache(maxsize=64)
def remembered(source: Source) -> Callable[[str], list[str]]:
    """Return what a source makes of a string; taggers that read one text ask again and again."""
    make = strings_of(source)
    return make if isinstance(source, Plain) else lru_cache(maxsize=50_000)(make)


def _without_unused(column: Column) -> Column:
    ids: NDArray[np.integer[Any]] = column.ids
    values = column.values
    if len(values) > _SPARSE * len(ids):  # one sentence cut from a large corpus
        used, ids = np.unique(ids, return_inverse=True)
    else:
        used = np.flatnonzero(np.bincount(ids, minlength=len(values)))
        if len(used) == len(values):
            return column
        place = np.zeros(len(values), dtype=np.int32)
        place[used] = np.arange(len(used), dtype=np.int32)
        ids = place[ids]
    return Column(ids.astype(np.int32), tuple([values[i] for i in used.tolist()]))


def _number(text: str) -> float:
    """Return the number that a text is, NaN when it is none."""
    try:
        return math.nan if "_" in text else float(text)
    except ValueError:
        return math.nan
