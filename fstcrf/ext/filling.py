"""Files written again while they are read, with labels in them, the rest byte for byte.

::

    # text = We go.              CoNLL-U: comments, multiword tokens and empty nodes stay
    1  We  we  PRON  ...  _      upos is filled, or feats, deprel, any column but id
    2  go  go  VERB  ...  ner=O  any other name is a key of misc

    -DOCSTART- -X-               columns: document lines and blank lines stay

    EU NNP B-ORG                 the label is a new column

A label ``_`` of CoNLL-U represents a missing value: the key is left out.
"""

from __future__ import annotations

import io
import re
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, BinaryIO, cast

import numpy as np

from fstcrf.arrays import Bytes, Longs
from fstcrf.errors import DataError, OptionError
from fstcrf.files import Source, Target, open_binary, open_target, source_name
from fstcrf.kernel.strings import TextColumn, joined_rows, pack_strings
from fstcrf.lazy import made_once
from fstcrf.text.corpus.conllu import CONLLU, JOINED, stream_conllu
from fstcrf.text.corpus.corpus import Column, Corpus, TokenPlace

__all__ = ["ColumnFiller", "ConlluFiller", "Filler", "KeptText", "fill_conllu"]

_NOTHING = "_"
_FEATS, _MISC = CONLLU.index("feats"), CONLLU.index("misc")
_TAB, _LINE_END, _RETURN = ord("\t"), ord("\n"), ord("\r")
_NEVER = np.zeros(1, dtype=bool)
_ENDS = re.compile(rb"\r\n?|\n")
_OPENINGS = (b"# newdoc", b"# newpar", b"#newdoc", b"#newpar")


def fill_conllu(
    source: Source,
    file: Target,
    columns: Mapping[str, Column | Sequence[str]],
    *,
    feature_columns: Sequence[str] = (),
) -> None:
    r"""Write a CoNLL-U file again with other labels in some columns.

    All else stays byte for byte: comments, multiword tokens, empty nodes, line ends.

    Parameters
    ----------
    source : path, "-" or binary file
        The text to write again; as for `read_conllu`.
    file : path, "-" or binary file
        Where to; as for `write_columns`.
    columns : mapping of str to Column or sequence of str
        The labels, one for each token of the file, of some of these: ``"lemma"``, ``"upos"``,
        ``"feats"`` or another column but ``"id"``; ``"upos+feats"``, both joined by ``|``; one of
        the `feature_columns`; or any other name, a key of the last column. ``_`` represents a
        missing value: such a key is left out.
    feature_columns : sequence of str
        Names that are morphological features, parts of ``feats``.

    Raises
    ------
    DataError
        The source is no sound CoNLL-U; a label that would read back differently; another number
        of labels than tokens.
    OptionError
        A column that cannot be filled, or is filled twice.
    OSError
        The file cannot be written.

    Examples
    --------
    >>> import io
    >>> rows = b"# text = Go!\n1\tGo\tgo\t_\t_\t_\t0\troot\t_\tSpaceAfter=No\n\n"
    >>> out = io.BytesIO()
    >>> fill_conllu(io.BytesIO(rows), out, {"upos": ["VERB"], "ner": ["O"]})
    >>> print(*out.getvalue().decode().splitlines()[1].split("\t"))
    1 Go go VERB _ _ 0 root _ SpaceAfter=No|ner=O
    """
    columns_by_name = {
        name: column if isinstance(column, Column) else Column.from_strings(column)
        for name, column in columns.items()
    }
    with open_binary(source) as opened, open_target(file) as target:
        text = KeptText(opened, source_name(source))
        filler = ConlluFiller(text, target, tuple(columns_by_name), feature_columns)
        done, batches = 0, stream_conllu(cast("BinaryIO", text))
        for batch in batches:
            end = done + batch.n_tokens
            if any(len(column.ids) < end for column in columns_by_name.values()):
                done = end + sum(rest.n_tokens for rest in batches)
                break
            filler.write(
                batch, [Column(c.ids[done:end], c.values) for c in columns_by_name.values()]
            )
            done = end
        for name, column in columns_by_name.items():
            if len(column.ids) != done:
                raise DataError(f"{len(column.ids)} labels of {name!r} for {done} tokens")
        filler.close()


class KeptText(io.RawIOBase):
    """A file that is being read: its bytes are kept until they are written again.

    Parameters
    ----------
    file : binary file
        Not compressed.
    name : str
        Its name in messages.
    """

    def __init__(self, file: BinaryIO, name: str) -> None:
        self._file, self.name = file, name
        self._kept: deque[bytes] = deque()

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read some bytes."""
        data = self._file.read(len(buffer))
        buffer[: len(data)] = data
        self._kept.append(data)
        return len(data)

    def close(self) -> None:
        """Do nothing: callers own the file, and its reader may release it later."""

    def take(self) -> bytes:
        """Return the text that was read since the last call."""
        data = b"".join(self._kept)
        self._kept.clear()
        return data


# --- What is filled -------------------------------------------------------------------------------

Change = Callable[[str, str], str]
"""From the old contents of a cell and a label to its new contents."""


@dataclass(frozen=True, slots=True)
class _Filled:
    """Which cell of a row some labels change, and how."""

    cell: int
    labels: int  # which of the columns of labels
    change: Change | None = None  # `None` if the label is the new contents
    whole: bool = True  # the old contents are replaced completely


def _filled(names: Sequence[str], features: Sequence[str]) -> list[list[_Filled]]:
    """Return the changes of each cell that changes, in the order of cells."""
    by_cell: dict[int, list[_Filled]] = {}
    for k, name in enumerate(names):
        for one in _cells(name, k, features):
            by_cell.setdefault(one.cell, []).append(one)
    for cell, changes in by_cell.items():
        # keys are added to the cell after other changes
        changes.sort(key=lambda one: not one.whole)
        whole = [names[one.labels] for one in changes if one.whole]
        if len(whole) > 1 or len(set(names)) < len(names):
            twice = ", ".join(map(repr, whole if len(whole) > 1 else names))
            raise OptionError(f"column {CONLLU[cell]!r} of CoNLL-U is filled twice, by {twice}")
    return [by_cell[cell] for cell in sorted(by_cell)]


def _cells(name: str, k: int, features: Sequence[str]) -> list[_Filled]:
    if name == CONLLU[0]:
        raise OptionError("column 'id' of CoNLL-U numbers the tokens: it cannot be filled")
    if name in features:
        return [_Filled(_FEATS, k, partial(_with_entry, name=name, ordered=True), whole=False)]
    if name in CONLLU:
        return [_Filled(CONLLU.index(name), k)]
    if name == JOINED:
        upos, feats = CONLLU.index("upos"), _FEATS
        return [_Filled(upos, k, _first_part), _Filled(feats, k, _other_parts)]
    if name in ("", _NOTHING) or any(character in name for character in "\t\r\n|="):
        raise OptionError(
            f"{name!r} is neither a column of CoNLL-U nor a key of its last column: "
            f"expected {', '.join((*CONLLU[1:], JOINED, *features))}, or another key, "
            "such as ner"
        )
    return [_Filled(_MISC, k, partial(_with_entry, name=name, ordered=False), whole=False)]


def _first_part(_: str, label: str) -> str:
    return label.partition("|")[0] or _NOTHING


def _other_parts(_: str, label: str) -> str:
    return label.partition("|")[2] or _NOTHING


def _with_entry(cell: str, label: str, *, name: str, ordered: bool) -> str:
    """Return a list of ``name=value`` between ``|`` with one entry put in, or left out."""
    entries = [] if cell == _NOTHING else cell.split("|")
    places = [i for i, entry in enumerate(entries) if entry.partition("=")[0] == name]
    kept = [entry for i, entry in enumerate(entries) if i not in places]
    if label != _NOTHING:
        place = places[0] if places else len(kept)
        if ordered and not places:
            keys = [entry.partition("=")[0].lower() for entry in kept]
            place = sum(key < name.lower() for key in keys)
        kept.insert(place, f"{name}={label}")
    return "|".join(kept) or _NOTHING


# --- Writing --------------------------------------------------------------------------------------


class Filler(ABC):
    """Writes a file again while it is read, with labels in it.

    Parameters
    ----------
    text : KeptText
        The text that the reader of the file reads.
    file : binary file
        Where to.
    """

    def __init__(self, text: KeptText, file: BinaryIO) -> None:
        self._text, self._file = text, file
        self._left = b""  # text that was read and is not yet written
        self._first_line = 1  # its number in the file

    def write(
        self,
        corpus: Corpus,
        columns: Sequence[Column],
        *,
        sentences: Sequence[int] | None = None,
        comments: Sequence[str] | None = None,
    ) -> None:
        """Write the next sentences of the file, as it gave them.

        Parameters
        ----------
        corpus : Corpus
            The next batch, which has the `lines` of its tokens.
        columns : sequence of Column
            Labels for each name, of all tokens of the written sentences.
        sentences : sequence of int, optional
            Numbers of the corpus's sentences to write, in order; repeated ones are written
            repeatedly. Each once when absent.
        comments : sequence of str, optional
            A line for each of them, before its first token.

        Raises
        ------
        DataError
            A label that would read back differently; names file and line.
        """
        assert corpus.lines is not None  # noqa: S101 (it was read from this file)
        self._check(columns, corpus, sentences)
        block = _Block(self._left + self._text.take(), corpus.lines - self._first_line)
        if sentences is None and comments is None:
            end = block.ends[-1] if len(block.ends) else 0
            tokens = np.arange(len(block.ends))
            self._file.write(self._labelled(block, 0, end, tokens, columns))
        else:
            end = self._copied(block, corpus, columns, sentences, comments)
        self._first_line += int(np.searchsorted(block.breaks, end))
        self._left = block.data[end:]

    def close(self) -> None:
        """Write the text after the last sentence."""
        self._file.write(self._left + self._text.take())
        self._left = b""

    @abstractmethod
    def _check(
        self, columns: Sequence[Column], corpus: Corpus, sentences: Sequence[int] | None
    ) -> None:
        """Refuse labels that would read back differently."""

    @abstractmethod
    def _labelled(
        self, block: _Block, start: int, end: int, tokens: Longs, columns: Sequence[Column]
    ) -> bytes | memoryview:
        """Return a part of a block with the labels of its tokens, which it has all."""

    @abstractmethod
    def _opening(self, block: _Block, start: int, token: int) -> tuple[int, bytes]:
        """Return the first row of a sentence, and its opening for repetitions."""

    def _copied(
        self,
        block: _Block,
        corpus: Corpus,
        columns: Sequence[Column],
        sentences: Sequence[int] | None,
        comments: Sequence[str] | None,
    ) -> int:
        """Write sentences one by one, some repeatedly; return the end of the last one."""
        bounds = block.sentences(corpus.offsets, apart=self._ends_apart)
        numbers = range(len(corpus)) if sentences is None else sentences
        done, before = 0, -1
        for k, number in enumerate(numbers):
            start, end = bounds[number]
            first, last = corpus.offsets[number : number + 2].tolist()
            tokens = np.arange(first, last)
            own = [Column(c.ids[done : done + last - first], c.values) for c in columns]
            done += last - first
            head, again = self._opening(block, start, first)
            line_end = block.line_end(start, end)
            opening = again if number == before else block.data[start:head]
            comment = b"" if comments is None else comments[k].encode() + line_end
            self._file.write(opening + comment)
            self._file.write(self._labelled(block, head, end, tokens, own))
            more = k + 1 < len(numbers) and numbers[k + 1] == number
            if more and not block.data[head:end].endswith(line_end * 2):
                ended = block.data[end - 1 : end] in {b"\n", b"\r"}
                self._file.write(line_end * (1 if ended else 2))
            before = number
        return bounds[-1][1] if bounds else 0

    _ends_apart = True
    """Only a blank line ends a sentence."""


def _place(
    column: Column, number: int, corpus: Corpus, sentences: Sequence[int] | None
) -> TokenPlace | None:
    """Return the first token with a value of a column, or `None`."""
    tokens = np.flatnonzero(column.ids == number)
    if not len(tokens):
        return None
    return corpus.where(int(tokens[0])) if sentences is None else {"path": corpus.source}


class ColumnFiller(Filler):
    """Writes a file of columns again while it is read, with labels as new columns.

    Parameters
    ----------
    text, file
        As of `Filler`.
    separator : str, optional
        The text between columns. `None` for blanks; a new column then follows a tab if the first
        row has one, else a space.
    replaced : bool
        The first of the columns takes the place of a row's text.
    """

    _ends_apart = False

    def __init__(
        self,
        text: KeptText,
        file: BinaryIO,
        separator: str | None = None,
        *,
        replaced: bool = False,
    ) -> None:
        super().__init__(text, file)
        self._separator, self._between, self._replaced = separator, separator, replaced

    def _check(
        self, columns: Sequence[Column], corpus: Corpus, sentences: Sequence[int] | None
    ) -> None:
        bad = ("\n", "\r", *((self._separator,) if self._separator else (" ", "\t")))
        for column in columns:
            for number, value in enumerate(column.values):
                sound = value and not any(text in value for text in bad)
                if not sound and (where := _place(column, number, corpus, sentences)) is not None:
                    what = f"label {value!r} would not read back from columns"
                    raise DataError(f"{what}: choose another --set separator", **where)

    def _labelled(
        self, block: _Block, start: int, end: int, tokens: Longs, columns: Sequence[Column]
    ) -> bytes | memoryview:
        if not len(tokens):
            return block.data[start:end]
        ends, text = block.ends[tokens], block.text
        if _lone_returns(block.data):
            return self._row_by_row(block, start, end, tokens, columns)
        row_ends = ends - 1
        row_ends[-1] += text[ends[-1] - 1] != _LINE_END  # only for the last row of a file
        if self._between is None:
            first = block.data[block.starts[tokens[0]] : row_ends[0]]
            self._between = "\t" if b"\t" in first else " "
        windows = text[row_ends - 1] == _RETURN if b"\r" in block.data else _NEVER
        cuts = block.starts[tokens] if self._replaced else row_ends - windows
        places = np.zeros(2 * len(tokens) + 1, dtype=np.int64)  # kept and cut in turns
        places[1::2], places[2::2] = cuts - start, ends - start
        kept = np.arange(0, 2 * len(tokens), 2, dtype=np.int32)
        parts = [TextColumn(kept, text[start : ends[-1]], places)]
        for k, column in enumerate(columns):
            between = "" if self._replaced and k == 0 else self._between
            values = [between + value for value in column.values]
            parts.append(TextColumn(column.ids, *pack_strings(values)))
        if windows.any():
            parts.append(TextColumn(windows.astype(np.int32), *pack_strings(["", "\r"])))
        rows = joined_rows(parts, np.zeros(len(tokens), dtype=np.int32), separator=b"")
        rows = rows if text[ends[-1] - 1] == _LINE_END else rows[:-1]
        tail = block.data[ends[-1] : end]
        return bytes(rows) + tail if tail else rows

    def _row_by_row(
        self, block: _Block, start: int, end: int, tokens: Longs, columns: Sequence[Column]
    ) -> bytes:
        """Return the same if only carriage returns end lines."""
        labels = zip(*(column.strings() for column in columns), strict=True)
        parts = []
        for token, row in zip(tokens.tolist(), labels, strict=True):
            begin, last = int(block.starts[token]), int(block.ends[token])
            text = block.data[begin:last].rstrip(b"\r\n")
            if self._between is None:
                self._between = "\t" if b"\t" in text else " "
            cells = [label.encode() for label in row]
            filled = self._between.encode().join(cells if self._replaced else [text, *cells])
            parts += [block.data[start:begin], filled, block.data[begin + len(text) : last]]
            start = last
        return b"".join([*parts, block.data[start:end]])

    def _opening(self, block: _Block, _: int, token: int) -> tuple[int, bytes]:
        return int(block.starts[token]), b""


def _lone_returns(data: bytes) -> bool:
    return b"\r" in data and data.count(b"\r") > data.count(b"\r\n")


class ConlluFiller(Filler):
    """Writes a CoNLL-U file again while it is read, with other labels in some columns.

    Parameters
    ----------
    text, file
        As of `Filler`.
    names : sequence of str
        The columns, as for `fill_conllu`.
    features : sequence of str
        The names of morphological features.

    Raises
    ------
    OptionError
        A column that cannot be filled, or is filled twice.
    """

    def __init__(
        self, text: KeptText, file: BinaryIO, names: Sequence[str], features: Sequence[str] = ()
    ) -> None:
        super().__init__(text, file)
        self._filled, self._names = _filled(names, features), tuple(names)

    def _labelled(
        self, block: _Block, start: int, end: int, tokens: Longs, columns: Sequence[Column]
    ) -> bytes:
        return block.filled(start, end, tokens, self._cells(block, tokens, columns))

    def _opening(self, block: _Block, start: int, _: int) -> tuple[int, bytes]:
        head = block.head(start)
        lines = block.data[start:head].splitlines(keepends=True)
        return head, b"".join(x for x in lines if x.strip() and not x.startswith(_OPENINGS))

    def _cells(
        self, block: _Block, tokens: Longs, columns: Sequence[Column]
    ) -> list[tuple[int, list[bytes]]]:
        """Return the cells that change, each with its contents for each token."""
        cells = []
        for changes in self._filled:
            cell = changes[0].cell
            texts: list[str] | None = None
            for one in changes:
                column = columns[one.labels]
                if one.change is None:
                    texts = column.strings()
                    continue
                texts = block.cells(tokens, cell) if texts is None else texts
                made: dict[tuple[str, str], str] = {}
                pairs = list(zip(texts, column.strings(), strict=True))
                for pair in pairs:
                    if pair not in made:
                        made[pair] = one.change(*pair)
                texts = [made[pair] for pair in pairs]
            cells.append((cell, [text.encode() for text in texts or ()]))
        return cells

    def _check(
        self, columns: Sequence[Column], corpus: Corpus, sentences: Sequence[int] | None
    ) -> None:
        for name, column in zip(self._names, columns, strict=True):
            self._check_column(name, column, corpus, sentences)

    def _check_column(
        self, name: str, column: Column, corpus: Corpus, sentences: Sequence[int] | None
    ) -> None:
        entry = name not in CONLLU and name != JOINED
        bad = "\t\r\n|" if entry else "\t\r\n"
        for number, value in enumerate(column.values):
            sound = name != "head" or value == _NOTHING or value.isdecimal()
            if value and sound and not any(character in value for character in bad):
                continue
            where = _place(column, number, corpus, sentences)
            if where is None:
                continue
            what = f"label {value!r} of {name!r} would not read back from CoNLL-U"
            way = ": a value in a list has no '|'; fill a whole column" * (entry and "|" in value)
            way = way or ": it has numbers of tokens" * (name == "head")
            raise DataError(f"{what}{way}", **where)


class _Block:
    """Bytes of a file, with the places of the rows of some tokens.

    Parameters
    ----------
    data : bytes
    lines : int64 [N]
        The line of each token, from 0.
    """

    def __init__(self, data: bytes, lines: Longs) -> None:
        self.data = data
        self.text: Bytes = np.frombuffer(data, dtype=np.uint8)
        ends = self.text == _LINE_END
        if b"\r" in data:  # a carriage return also ends a line, unless a line feed follows
            ends[:-1] |= (self.text[:-1] == _RETURN) & ~ends[1:]
            ends[-1] |= self.text[-1] == _RETURN
        self.breaks: Longs = np.flatnonzero(ends)
        bounds = np.empty(len(self.breaks) + 2, dtype=np.int64)
        bounds[0], bounds[-1] = 0, len(data)
        np.add(self.breaks, 1, out=bounds[1:-1])
        self.starts: Longs = bounds[lines]
        self.ends: Longs = bounds[lines + 1]  # after the line end

    @made_once
    def tabs(self) -> Longs:
        """The places of tabs."""
        return np.flatnonzero(self.text == _TAB)

    @made_once
    def first_tab(self) -> Longs:
        """The number of the first tab in the row of each token."""
        return np.searchsorted(self.tabs, self.starts)

    def spans(self, tokens: Longs, cell: int) -> tuple[Longs, Longs]:
        """Return the beginning and end of a cell in the rows of tokens."""
        tab = self.first_tab[tokens] + cell
        begin = self.tabs[tab - 1] + 1 if cell else self.starts[tokens]
        if cell < _MISC:
            return begin, self.tabs[tab]
        end = self.ends[tokens].copy()
        for character in b"\n\r":
            end -= self.text[end - 1] == character
        return begin, end

    def cells(self, tokens: Longs, cell: int) -> list[str]:
        """Return the contents of a cell in the rows of tokens."""
        begin, end = self.spans(tokens, cell)
        pairs = zip(begin.tolist(), end.tolist(), strict=True)
        return [self.data[a:b].decode() for a, b in pairs]

    def filled(
        self, start: int, end: int, tokens: Longs, cells: Sequence[tuple[int, list[bytes]]]
    ) -> bytes:
        """Return a part of the data in which cells of tokens, all of them there, are replaced."""
        if not len(tokens) or not cells:
            return self.data[start:end]
        places = [self.spans(tokens, cell) for cell, _ in cells]
        begins = np.stack([begin for begin, _ in places], axis=1).reshape(-1).tolist()
        ends = np.stack([last for _, last in places], axis=1).reshape(-1).tolist()
        kept = zip([start, *ends], [*begins, end], strict=True)
        parts: list[bytes] = [b""] * (2 * len(begins) + 1)
        parts[::2] = [self.data[a:b] for a, b in kept]
        for k, (_, texts) in enumerate(cells):
            parts[1 + 2 * k :: 2 * len(cells)] = texts
        return b"".join(parts)

    def sentences(self, offsets: Longs, *, apart: bool) -> list[tuple[int, int]]:
        """Return the bounds of sentences, including their opening lines and a final blank line.

        With `apart`, other lines before that blank line belong to them, too.
        """
        ends = [0]
        for first, last in pairwise(offsets.tolist()):
            end = int(self.ends[last - 1]) if last > first else ends[-1]
            ends.append(end + sum(map(len, self._rest(end, apart=apart))))
        return list(pairwise(ends))

    def _rest(self, start: int, *, apart: bool) -> Iterator[bytes]:
        """Yield the lines of a sentence after its last token, up to the first blank one."""
        for line in self._lines(start):
            if apart or not line.strip():
                yield line
            if not apart or not line.strip():
                return

    def head(self, start: int) -> int:
        """Return the first row of a sentence, after comments and blank lines."""
        for line in self._lines(start):
            if line.strip() and not line.startswith((b"#", b"\xef\xbb\xbf#")):
                return start
            start += len(line)
        return start

    def line_end(self, start: int, end: int) -> bytes:
        """Return the line ending of a sentence."""
        found = _ENDS.search(self.data, start, end)
        return b"\n" if found is None else found[0]

    def _lines(self, start: int) -> Iterator[bytes]:
        for end in self.breaks[np.searchsorted(self.breaks, start) :]:
            yield self.data[start : end + 1]
            start = int(end) + 1
        if start < len(self.data):
            yield self.data[start:]
