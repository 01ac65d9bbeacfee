"""CoNLL-U files: the treebanks of Universal Dependencies.

::

    # newdoc id = weblog-1            opens a document
    # text = We can't.
    1    We    we   PRON  PRP  Case=Nom|Number=Plur  2  nsubj  2:nsubj  _
    2-3  can't _    _     _    _                     _  _      _        SpaceAfter=No

Rows ``n-m`` (multiword tokens) and ``n.m`` (empty nodes) are no tokens. The text of a document,
which character offsets count, is the text of its sentences with one line end after each.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from fstcrf.arrays import Ints
from fstcrf.corpus.batches import BlockReader, Scan, TextBlock, read_batches, read_whole
from fstcrf.corpus.columns import WidthError, shortened
from fstcrf.corpus.corpus import Column, Corpus
from fstcrf.corpus.files import Source, decoded
from fstcrf.errors import DataError, OptionError


@dataclass(slots=True)
class _Surface:
    """The forms of one sentence as they are written, multiword tokens as one."""

    text: str | None = None
    _forms: list[tuple[str, int, bool]] = field(default_factory=list)
    _inside: int = 0

    def multiword(self, form: str, n_tokens: int, *, spaced: bool) -> None:
        """Add a form that the next `n_tokens` tokens share; `spaced` says a space follows."""
        self._forms.append((form, n_tokens, spaced))
        self._inside = n_tokens

    def token(self, form: str, *, spaced: bool) -> None:
        """Add a token, unless it belongs to the last multiword form."""
        if self._inside > 0:
            self._inside -= 1
        else:
            self._forms.append((form, 1, spaced))

    def locate(self, chars: list[tuple[int, int]], position: int, n_tokens: int) -> int:
        """Append start and end of each token to `chars`."""
        text = self.text
        if text is None:
            text = "".join([form + " " * spaced for form, _, spaced in self._forms]).rstrip()
        found: list[tuple[int, int]] = []
        cursor = 0
        fits = True
        for form, covered, _ in self._forms:
            while not text.startswith(form, cursor) and text[cursor : cursor + 1].isspace():
                cursor += 1
            fits = fits and text.startswith(form, cursor)
            end = cursor + len(form)
            found += [(position + cursor, position + end)] * covered
            cursor = end
        # A multiword range that runs past another one, or the sentence, promises too many tokens.
        fits = fits and len(found) == n_tokens
        chars += found if fits else [(-1, -1)] * n_tokens
        return position + len(text) + 1


# --- Files ----------------------------------------------------------------------------------------

CONLLU = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
JOINED = "upos+feats"
_NEWDOC = re.compile(r"#\s*newdoc\b(?:\s+id)?\s*=?\s*(.*)")
_TEXT = re.compile(r"#\s*text\s*=\s?(.*)")
_RANGE = re.compile(r"([0-9]+)([-.])([0-9]+)")


def read_conllu(
    path: Source, *, feature_columns: Sequence[str] = (), allow_empty: bool = False
) -> Corpus:
    """Read a CoNLL-U file.

    Parameters
    ----------
    path : path, "-" or binary file
        UTF-8, perhaps gzipped; ``"-"`` is standard input.
    feature_columns : sequence of str
        Morphological features (``"Number"``) that become columns; ``_`` where absent.
    allow_empty : bool
        Accept a file without sentences.

    Returns
    -------
    Corpus
        The ten columns of `CONLLU`; ``upos+feats``, both joined by ``|`` where there are
        features; the `feature_columns`. Documents by ``# newdoc``, their ids as headers.
        Character offsets: found in ``# text``, or built from ``SpaceAfter=No`` where a sentence
        has no such line; tokens of a multiword token share its span; -1 in a sentence whose
        text does not hold its forms.

    Raises
    ------
    DataError
        A row without ten columns or with an impossible id, a byte that is not UTF-8, a damaged
        gzip file, no sentence; names file and line.
    OptionError
        A feature column that repeats or is named like another column.
    """
    return read_whole(path, _TreebankReader(path, feature_columns), allow_empty=allow_empty)


def stream_conllu(
    path: Source, *, batch_tokens: int = 100_000, feature_columns: Sequence[str] = ()
) -> Iterator[Corpus]:
    """Read a CoNLL-U file of any size, some sentences at a time.

    Parameters
    ----------
    path, feature_columns
        As in `read_conllu`.
    batch_tokens : int
        Most tokens of a batch; a longer sentence is a batch of its own.

    Yields
    ------
    Corpus
        Whole sentences, in order. Documents and character offsets count through the whole
        file. A file without sentences gives no batch.

    Raises
    ------
    DataError, OptionError
        As `read_conllu`, when the batch is reached.
    """
    return read_batches(path, _TreebankReader(path, feature_columns), batch_tokens)


class _Interner(dict[str, int]):
    """Strings numbered by first appearance: ``interner["the"]`` numbers it if it is new."""

    def __missing__(self, string: str) -> int:
        """Give a new string the next number."""
        number = self[string] = len(self)
        return number

    def ids(self, strings: Sequence[str]) -> Ints:
        """Return int32 [N], the number of each string."""
        return np.fromiter(map(self.__getitem__, strings), dtype=np.int32, count=len(strings))


@dataclass(slots=True)
class _Rows:
    """What was read of a block: an entry per token, or per sentence for `starts`."""

    position: int  # where the next sentence starts in its document's text
    opens: bool = False  # they are the first of the file
    fields: list[list[str]] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    chars: list[tuple[int, int]] = field(default_factory=list)

    def close(self, surface: _Surface) -> None:
        """End a sentence, if there is one."""
        if len(self.fields) > len(self.chars):
            self.starts.append(len(self.chars))
            n_tokens = len(self.fields) - len(self.chars)
            self.position = surface.locate(self.chars, self.position, n_tokens)


class _TreebankReader(BlockReader):
    """Reads the blocks of a CoNLL-U file."""

    def __init__(self, source: Source, feature_columns: Sequence[str]) -> None:
        super().__init__(source)
        if isinstance(feature_columns, str):
            raise OptionError(
                f"feature_columns={feature_columns!r}, expected a sequence: ({feature_columns!r},)"
            )
        self._features = tuple(feature_columns)
        taken = [*CONLLU, JOINED, *self._features]
        repeated = sorted({name for name in self._features if taken.count(name) > 1})
        if repeated:
            raise OptionError(
                f"feature column {repeated[0]!r} names a column that there is already"
            )
        self._position = 0  # where the next sentence starts in its document's text

    def forget(self) -> None:
        """Begin to number strings anew."""
        self._interners = [_Interner() for _ in CONLLU]

    def strings(self) -> dict[str, tuple[str, ...]]:
        """Return the distinct strings of each column in the order of their numbers."""
        return dict(zip(CONLLU, map(tuple, self._interners), strict=True))

    def scan(self, block: TextBlock) -> Scan:
        """Read the next block."""
        text = decoded(block.data, self.path, first_line=block.first_line)
        rows = _Rows(self._position, opens=block.first_line == 1)
        headers: dict[int, str] = {}
        surface = _Surface()
        for number, line in enumerate(text.split("\n"), block.first_line):
            if line.startswith("#"):
                if (newdoc := _NEWDOC.match(line)) is not None:
                    headers[number] = newdoc[1].strip()
                    rows.position = 0
                elif (given := _TEXT.match(line)) is not None:
                    surface.text = given[1].rstrip()
            elif line.strip(" \t"):
                _read_row(line, number, self.path, rows, surface)
            else:
                rows.close(surface)
                surface = _Surface()
        rows.close(surface)
        self._position = rows.position
        return Scan(
            ids=[
                interner.ids([fields[c] for fields in rows.fields])
                for c, interner in enumerate(self._interners)
            ],
            lines=np.asarray(rows.lines, dtype=np.int64),
            starts=np.asarray(rows.starts, dtype=np.int64),
            header_lines=np.asarray(list(headers), dtype=np.int64),
            headers=list(headers.values()),
            chars=np.asarray(rows.chars, dtype=np.int32).reshape(-1, 2),
        )

    def finished(self, corpus: Corpus) -> Corpus:
        """Return a corpus with the columns made of others."""
        feats = corpus.columns["feats"]
        made = {JOINED: _joined(corpus.columns["upos"], feats)}
        parsed = [_features(value) for value in feats.values]
        for name in self._features:
            values = Column.from_strings([features.get(name, "_") for features in parsed])
            made[name] = Column(values.ids[feats.ids], values.values)
        return corpus.changed(columns=corpus.columns | made)


def _read_row(line: str, number: int, path: str, rows: _Rows, surface: _Surface) -> None:
    fields = line.split("\t")
    if fields[0].isdecimal() and len(fields) == len(CONLLU) and "" not in fields:
        rows.fields.append(fields)
        rows.lines.append(number)
        surface.token(fields[1], spaced=_spaced(fields))
        return
    identifier = _RANGE.fullmatch(fields[0])
    if len(fields) != len(CONLLU) or identifier is None or "" in fields:
        raise _bad_row(line, fields, number, path, first=rows.opens and not rows.lines)
    first, mark, last = identifier.groups()
    if mark == "-" and int(last) < int(first):
        raise _bad_row(line, fields, number, path, first=rows.opens and not rows.lines)
    if mark == "-":
        surface.multiword(fields[1], int(last) - int(first) + 1, spaced=_spaced(fields))


def _spaced(fields: Sequence[str]) -> bool:
    misc = fields[-1]
    return misc == "_" or "SpaceAfter=No" not in misc.split("|")


def _bad_row(line: str, fields: Sequence[str], number: int, path: str, *, first: bool) -> DataError:
    shown = shortened(line)
    if len(fields) != len(CONLLU):
        what = f"{len(fields)} columns, expected {len(CONLLU)} split by tabs"
        return WidthError(
            f"{what}: {shown!r}", path=path, line=number, width=len(fields), first=first
        )
    if "" in fields:
        what = f"column {CONLLU[fields.index('')]!r} is empty"
    else:
        what = f"id {fields[0]!r}, expected n, n-m (n < m) or n.m"
    return DataError(f"{what}: {shown!r}", path=path, line=number)


def _joined(upos: Column, feats: Column) -> Column:
    # Once per distinct pair.
    size = max(len(feats.values), 1)
    keys, ids = np.unique(upos.ids.astype(np.int64) * size + feats.ids, return_inverse=True)
    values = [(upos.values[key // size], feats.values[key % size]) for key in keys.tolist()]
    return Column(
        ids.astype(np.int32).reshape(-1),
        tuple(tag if features == "_" else f"{tag}|{features}" for tag, features in values),
    )


def _features(feats: str) -> dict[str, str]:
    return dict(part.split("=", 1) for part in feats.split("|") if "=" in part)
