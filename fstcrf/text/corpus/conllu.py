"""CoNLL-U files: the treebanks of Universal Dependencies.

::

    # newdoc id = weblog-1            opens a document
    # text = We can't.
    1    We    we   PRON  PRP  Case=Nom|Number=Plur  2  nsubj  2:nsubj  _
    2-3  can't _    _     _    _                     _  _      _        SpaceAfter=No

Rows ``n-m`` (multiword tokens) and ``n.m`` (empty nodes) are not tokens. The text of a document,
which character offsets count, is the text of its sentences with one line end after each.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from fstcrf.arguments import closest, first_twice, name_tuple
from fstcrf.arrays import Bytes, Longs, Ragged, distinct
from fstcrf.errors import DataError, OptionError
from fstcrf.files import Source
from fstcrf.kernel.strings import Forms, Lines, RowError, Strings, located_forms, read_lines
from fstcrf.text.corpus.batches import BlockReader, Scan, TextBlock, read_batches, read_whole
from fstcrf.text.corpus.columns import WidthError, shortened
from fstcrf.text.corpus.corpus import Column, Corpus
from fstcrf.text.lines import decoded

# --- Files ----------------------------------------------------------------------------------------

CONLLU = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
JOINED = "upos+feats"
_NEWDOC = re.compile(r"#[ \t]*newdoc\b(?:[ \t]+id)?[ \t]*=?[ \t]*(.*)")
_TEXT = re.compile(r"#[ \t]*text[ \t]*=[ \t]?(.*)")
_SHOWN = 20  # names of features, in messages
_MOST = 18  # digits of a multiword token's ids
_RANGE = re.compile(rf"([0-9]{{1,{_MOST}}})([-.])([0-9]{{1,{_MOST}}})")
_LONG = re.compile(rb"[0-9]+[-.]")
_USUAL = 9  # digits of ids that are checked in all lines at once
_ID, _FORM, _MISC = 0, 1, 9
_COMMENT, _LINE_END = ord("#"), ord("\n")
_DIGITS = list(b"0123456789")


def read_conllu(
    path: Source,
    *,
    feature_columns: Sequence[str] = (),
    allow_empty: bool = False,
    allow_absent: bool = False,
) -> Corpus:
    """Read a CoNLL-U file.

    Parameters
    ----------
    path : path, "-" or binary file
        UTF-8, perhaps gzipped; ``"-"`` is standard input.
    feature_columns : sequence of str
        Morphological features (``"Number"``), or else keys of the last column (``"ner"``), that
        become columns; ``_`` if absent.
    allow_empty : bool
        Accept a file without sentences.
    allow_absent : bool
        Accept a feature column that no token has.

    Returns
    -------
    Corpus
        The ten columns of `CONLLU`; ``upos+feats``, the two joined by ``|`` if a token has
        features; the `feature_columns`. Documents by ``# newdoc``, their ids as headers. Character
        offsets: found in ``# text``, or built from ``SpaceAfter=No`` if a sentence has no such
        line; tokens of a multiword token share its span; -1 in a sentence whose text does not
        contain its forms.

    Raises
    ------
    DataError
        A row without ten columns or with an impossible id, tokens whose ids are not 1, 2, 3 and so
        on, multiword tokens that overlap or lack their tokens, a byte that is not UTF-8, a damaged
        gzip file, no sentence; names file and line. A feature column that no token has; names the
        nearest that there is.
    OptionError
        A feature column that repeats or is named like another column.
    """
    reader = _TreebankReader(path, feature_columns)
    corpus = read_whole(path, reader, allow_empty=allow_empty)
    if not allow_absent:
        check_features(corpus, feature_columns)
    return corpus


def stream_conllu(
    path: Source, *, batch_tokens: int = 100_000, feature_columns: Sequence[str] = ()
) -> Iterator[Corpus]:
    """Read a CoNLL-U file of any size, some sentences at a time.

    Parameters
    ----------
    path, feature_columns
        As in `read_conllu`; a feature column that no token has holds ``_``.
    batch_tokens : int
        Maximum number of tokens in a batch; a longer sentence becomes a batch.

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


class _Others(NamedTuple):
    """Lines of a block that are not tokens, each with its sentence or the next one."""

    headers: dict[int, str]  # by their lines, from 0
    opens: Bytes  # [S] a document opens there
    closes: bool  # a document opens after the last sentence
    texts: dict[int, bytes]  # by sentence
    ranges: list[_Range]
    empty: list[_Empty]


class _Empty(NamedTuple):
    """An empty node."""

    sentence: int
    line: int  # in the block, from 0
    name: str  # its id
    before: int  # the next token


class _Range(NamedTuple):
    """A multiword token."""

    sentence: int
    line: int  # in the block, from 0
    name: str  # its id
    before: int  # the next token
    form: bytes
    covered: int  # tokens that its id covers
    spaced: bool


class _TreebankReader(BlockReader):
    """Reads the blocks of a CoNLL-U file."""

    def __init__(self, source: Source, feature_columns: Sequence[str]) -> None:
        super().__init__(source)
        self._features = name_tuple(feature_columns, "feature columns")
        twice = first_twice((*CONLLU, JOINED, *self._features))
        if twice is not None:
            raise OptionError(f"feature column {twice!r} names a column that there is already")
        self._position = 0  # where the next sentence starts in its document's text

    def forget(self) -> None:
        """Discard all string ids."""
        self._strings = [Strings() for _ in CONLLU]
        # the number of each distinct id; 0: not a plain number
        self._ids = np.empty(0, dtype=np.int64)
        self._spaced = np.empty(0, dtype=np.uint8)  # for each distinct string of the last column

    def strings(self) -> dict[str, tuple[str, ...]]:
        """Return the distinct strings of each column in the order of their numbers."""
        return {name: s.strings() for name, s in zip(CONLLU, self._strings, strict=True)}

    def scan(self, block: TextBlock) -> Scan:
        """Read the next block."""
        data, first = block.data, block.first_line
        decoded(data, self.path, first_line=first)
        ends = np.flatnonzero(np.frombuffer(data, dtype=np.uint8) == _LINE_END)
        blank, other = _kinds(data, ends)
        begins = np.append(0, ends[:-1] + 1)[other]
        places = list(zip(begins.tolist(), (ends[other] + 1).tolist(), strict=True))
        try:
            read = read_lines(_without(data, places), self._strings, separator=b"\t")
        except RowError:
            raise self._bad_row(block) from None
        numbers = self._numbers(block)[read.ids[_ID]]
        lines = np.delete(np.arange(len(ends)), other)[read.lines]
        # each sentence is between two blank lines
        sentences = np.searchsorted(blank, lines[read.starts])
        others = self._others(block, places, other, lines, sentences, np.searchsorted(blank, other))
        self._check_ranges(block, read, others.ranges)
        self._check_order(block, read, lines, numbers, others.empty)
        forms = self._forms(read, others)
        starts = np.append(read.starts, len(lines))
        chars, position = located_forms(forms, starts, others.texts, others.opens, self._position)
        self._position = 0 if others.closes else position
        return Scan(
            read.ids,
            lines + first,
            read.starts,
            np.array(list(others.headers), dtype=np.int64) + first,
            list(others.headers.values()),
            chars=chars,
        )

    def _others(
        self,
        block: TextBlock,
        places: Sequence[tuple[int, int]],
        lines: Longs,
        token_lines: Longs,
        sentences: Longs,
        others: Longs,
    ) -> _Others:
        """Read comments and multiword tokens.

        `sentences` and `others` count the blank lines before each sentence and each line.
        """
        opens, closes = np.zeros(len(sentences), dtype=np.uint8), False
        headers: dict[int, str] = {}
        texts: dict[int, bytes] = {}
        ranges: list[_Range] = []
        empty: list[_Empty] = []
        nearest = np.searchsorted(sentences, others)
        within = np.append(sentences, -1)[nearest] == others
        before = np.searchsorted(token_lines, lines)
        for (start, end), line, s, here, token in zip(
            places, lines.tolist(), nearest.tolist(), within.tolist(), before.tolist(), strict=True
        ):
            row = block.data[start : end - 1]
            if row[0] != _COMMENT:
                fields = row.decode().split("\t")
                if not _sound(fields):
                    raise self._bad_row(block)
                words = _words(fields[_ID])
                if words and here:
                    covered, spaced = min(words, len(token_lines) + 1), _spaced(fields[_MISC])
                    form = fields[_FORM].encode()
                    ranges.append(_Range(s, line, fields[_ID], token, form, covered, spaced))
                elif here:
                    empty.append(_Empty(s, line, fields[_ID], token))
            elif b"newdoc" in row and (newdoc := _NEWDOC.match(row.decode())) is not None:
                headers[line] = newdoc[1].strip(" \t")
                opens[s : s + 1] = 1
                closes = s == len(sentences)
            elif here and b"text" in row and (text := _TEXT.match(row.decode())) is not None:
                texts[s] = text[1].rstrip(" \t").encode()
        return _Others(headers, opens, closes, texts, ranges, empty)

    def _forms(self, rows: Lines, others: _Others) -> Forms:
        """Return the surface forms of the sentences of a block."""
        strings, forms = self._strings[_FORM], rows.ids[_FORM]
        spaced, n = self._spaces()[rows.ids[_MISC]], len(forms)
        begin, size = strings.offsets[forms], Ragged(strings.offsets).lengths[forms]
        starts, text = np.append(rows.starts, n), strings.text
        if not others.ranges:
            return Forms(starts, begin, size, np.ones(n, dtype=np.int64), spaced, text)
        sentence, _, _, before, blobs, covered, spaces = zip(*others.ranges, strict=True)
        at = np.array(before, dtype=np.int64)
        ends = np.minimum(at + np.array(covered), starts[np.array(sentence) + 1])
        ends[:-1] = np.minimum(ends[:-1], at[1:])  # the next one replaces it
        steps = np.zeros(n + 1, dtype=np.int64)
        np.add.at(steps, at, 1)
        np.add.at(steps, np.maximum(ends, at), -1)
        uncovered = np.flatnonzero(np.cumsum(steps[:-1]) == 0)
        order = np.argsort(np.concatenate([2 * uncovered + 1, 2 * at]), kind="stable")
        ranges = Ragged.from_lengths(map(len, blobs))
        of = np.concatenate([np.searchsorted(starts, uncovered, "right") - 1, sentence])
        return Forms(
            Ragged.from_rows(of, len(starts) - 1).offsets,
            np.concatenate([begin[uncovered], len(text) + ranges.offsets[:-1]])[order],
            np.concatenate([size[uncovered], ranges.lengths])[order],
            np.concatenate([np.ones(len(uncovered), dtype=np.int64), covered])[order],
            np.concatenate([spaced[uncovered], np.array(spaces, dtype=np.uint8)])[order],
            np.concatenate([text, np.frombuffer(b"".join(blobs), dtype=np.uint8)]),
        )

    def _spaces(self) -> Bytes:
        """Return whether a space follows, for each distinct string of the last column."""
        count, strings = len(self._spaced), self._strings[_MISC]
        fresh = [_spaced(text) for text in _later(strings, count)]
        self._spaced = np.append(self._spaced, np.array(fresh, dtype=np.uint8))
        return self._spaced

    def _numbers(self, block: TextBlock) -> Longs:
        """Return the number of each distinct id, 0 if it is written in another way."""
        fresh = _later(self._strings[_ID], len(self._ids))
        if not all(map(str.isdecimal, fresh)):
            raise self._bad_row(block)
        numbers = [int(x) if len(x) <= _MOST and x.isascii() and x[0] != "0" else 0 for x in fresh]
        self._ids = np.append(self._ids, np.array(numbers, dtype=np.int64))
        return self._ids

    def _check_order(
        self,
        block: TextBlock,
        rows: Lines,
        lines: Longs,
        numbers: Longs,
        empty: Sequence[_Empty],
    ) -> None:
        """Refuse sentences whose ids are not 1, 2, 3, and empty nodes elsewhere than n.1, n.2."""
        starts = np.append(rows.starts, len(lines))
        wanted = np.arange(len(lines)) - np.repeat(rows.starts, np.diff(starts)) + 1
        problems = []
        if (numbers != wanted).any():
            k = int((numbers != wanted).argmax())
            name, problem = _string(self._strings[_ID], int(rows.ids[_ID][k])), ""
            if numbers[k] == 1:
                problem = ": is the blank line before a sentence missing?"
            problem = f"id {name!r}, expected '{wanted[k]}'{problem}"
            problems.append((int(lines[k]), problem))
        place, last = (-1, 0), 0
        for one in empty:
            position = one.sentence, one.before - int(starts[one.sentence])
            place, last = position, last + 1 if position == place else 1
            if one.name != (name := f"{position[1]}.{last}"):
                problems.append((one.line, f"id {one.name!r} of an empty node, expected {name!r}"))
                break
        if problems:
            line, problem = min(problems)
            raise DataError(problem, path=self.path, line=block.first_line + line)

    def _check_ranges(self, block: TextBlock, rows: Lines, ranges: Sequence[_Range]) -> None:
        """Refuse multiword tokens that do not precede their tokens, lack some, or overlap."""
        strings, ids = self._strings[_ID], rows.ids[_ID]
        ends = np.append(rows.starts[1:], len(ids))
        taken = 0  # tokens before this one belong to earlier multiword tokens
        for one in ranges:
            end, first = int(ends[one.sentence]), one.name.partition("-")[0]
            follows = "0" if one.before >= end else _string(strings, int(ids[one.before]))
            if one.before >= end or len(follows) > _MOST or int(follows) != int(first):
                what = f"does not stand before token {first}"
            elif one.before < taken:
                what = "overlaps the multiword token before it"
            elif one.before + one.covered > end:
                what = "covers tokens that its sentence does not have"
            else:
                taken = one.before + one.covered
                continue
            line = block.first_line + one.line
            raise DataError(f"id {one.name!r} {what}", path=self.path, line=line)

    def _bad_row(self, block: TextBlock) -> DataError:
        """Return the error of the first bad row of a block."""
        rows = 0
        for number, line in enumerate(block.data.decode().split("\n"), block.first_line):
            if line.startswith("#") or not line.strip(" \t"):
                continue
            fields = line.split("\t")
            if not _sound(fields):
                first = block.first_line == 1 and not rows
                return _bad_row(line, fields, number, self.path, first=first)
            rows += fields[_ID].isdecimal()
        raise AssertionError("a block without a bad row")

    def finished(self, corpus: Corpus) -> Corpus:
        """Return a corpus with the derived columns added."""
        columns = corpus.columns
        made = {JOINED: _joined(columns["upos"], columns["feats"])}
        made |= {name: _feature_column(columns, name) for name in self._features}
        return corpus.changed(columns=columns | made)


def _kinds(data: bytes, ends: Longs) -> tuple[Longs, Longs]:
    """Return the blank lines, and the other lines that are not tokens, from 0."""
    text, starts = np.frombuffer(data, dtype=np.uint8), np.append(0, ends[:-1] + 1)
    if not len(ends):
        return ends, ends
    first = text[starts]
    odd = np.flatnonzero(np.isin(first, list(b" \t")))
    blank = [k for k in odd.tolist() if not data[starts[k] : ends[k]].strip(b" \t")]
    other, at = [np.flatnonzero(first == _COMMENT)], starts.copy()
    left = np.flatnonzero(np.isin(first, _DIGITS))
    for _ in range(_USUAL):  # one more character of the ids
        at[left] += 1
        byte = text[at[left]]
        other.append(left[np.isin(byte, list(b"-."))])
        left = left[np.isin(byte, _DIGITS)]
    long = [k for k in left.tolist() if _LONG.match(data, starts[k])]
    other.append(np.asarray(long, dtype=np.int64))
    empty = np.flatnonzero(ends == starts)
    return distinct(empty, np.asarray(blank, dtype=np.int64)), np.sort(np.concatenate(other))


def _without(data: bytes, places: Sequence[tuple[int, int]]) -> bytes:
    """Return the data without some ranges, which are in order."""
    cuts = [0, *(bound for place in places for bound in place), len(data)]
    return b"".join([data[a:b] for a, b in zip(cuts[::2], cuts[1::2], strict=True)])


def _later(strings: Strings, start: int) -> list[str]:
    bounds = strings.offsets[start:].tolist()
    data = strings.text[bounds[0] :].tobytes()
    return [data[a - bounds[0] : b - bounds[0]].decode() for a, b in pairwise(bounds)]


def _string(strings: Strings, number: int) -> str:
    start, end = strings.offsets[number : number + 2].tolist()
    return strings.text[start:end].tobytes().decode()


def _sound(fields: Sequence[str]) -> bool:
    if len(fields) != len(CONLLU) or "" in fields:
        return False
    return fields[_ID].isdecimal() or _words(fields[_ID]) is not None


def _words(identifier: str) -> int | None:
    """Return the number of tokens of a multiword token, 0 for an empty node, None for other ids."""
    match = _RANGE.fullmatch(identifier)
    if match is None or match[2] == ".":
        return None if match is None else 0
    size = int(match[3]) - int(match[1]) + 1
    return size if size > 0 else None


def _spaced(misc: str) -> bool:
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


def is_gold(corpus: Corpus, name: str) -> bool:
    """Return whether a column is one that `read_conllu` creates."""
    columns = corpus.columns
    if name not in columns or not set(CONLLU) <= set(columns):
        return False
    if name in (*CONLLU, JOINED):
        return True
    column, feature = columns[name], _feature_column(columns, name)
    number = {value: k for k, value in enumerate(column.values)}
    wanted = np.asarray([number.get(value, -1) for value in feature.values], dtype=np.int64)
    return np.array_equal(wanted[feature.ids], column.ids)


def _feature_column(columns: Mapping[str, Column], name: str) -> Column:
    """Return a feature of each token: a morphological feature, or else one of its last column."""
    feats, misc = columns["feats"], columns["misc"]
    of_feats = [_features(value).get(name, "_") for value in feats.values]
    of_misc = [_features(value).get(name, "_") for value in misc.values]
    number = {value: k for k, value in enumerate(dict.fromkeys([*of_feats, *of_misc]))}
    first, second = (
        np.asarray([number[value] for value in values], dtype=np.int32)[column.ids]
        for values, column in ((of_feats, feats), (of_misc, misc))
    )
    return Column(np.where(first == number.get("_", -1), second, first), tuple(number))


def check_features(corpus: Corpus, names: Iterable[str]) -> None:
    """Refuse feature columns that no token of a CoNLL-U file has."""
    columns = corpus.columns
    for name in names:
        if not corpus.n_tokens or any(value != "_" for value in columns[name].values):
            continue
        kinds = [
            list(dict.fromkeys(key for value in columns[kind].values for key in _features(value)))
            for kind in ("feats", "misc")
        ]
        near = closest(name, [key for keys in kinds for key in keys])
        hint = f", perhaps {near[0]!r} is meant" if near else ""
        feats, misc = (", ".join(keys[:_SHOWN]) or "none" for keys in kinds)
        raise DataError(
            f"no token has the feature {name!r}{hint}: there are {feats} in feats, {misc} in misc",
            path=corpus.source,
        )


def _features(feats: str) -> dict[str, str]:
    return dict(part.split("=", 1) for part in feats.split("|") if "=" in part)
