"""Strings by number, lines to numbers and back, against plain Python."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fstcrf.errors import DataError, KernelError, ShapeError
from fstcrf.kernel.strings import (
    Lines,
    RowError,
    Strings,
    TextColumn,
    joined_rows,
    line_count,
    pack_strings,
    read_lines,
)

WORDS = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=20)
# Characters that matter to a reader of lines, and two that do not.
LINE = st.text(alphabet="ab# \t\r\x0b:é", max_size=12).map(str.encode)
FILES = st.lists(LINE, max_size=12).map(lambda lines: b"".join(line + b"\n" for line in lines))


def table(strings: Sequence[str]) -> Strings:
    return Strings(*pack_strings(strings))


@given(st.lists(WORDS, unique=True), st.lists(WORDS))
def test_strings_have_the_numbers_of_a_dict(known: list[str], asked: list[str]) -> None:
    strings, numbers = table(known), {s: i for i, s in enumerate(known)}
    assert strings.strings() == tuple(known)
    asked += known
    expected = [numbers.get(s, -1) for s in asked]
    assert strings.numbers(*pack_strings(asked)).tolist() == expected


def test_every_length_and_many_strings() -> None:
    known = [f"{i}{'x' * (i % 40)}" for i in range(20_000)]
    strings = table(known)
    assert (strings.numbers(*pack_strings(known)) == np.arange(len(known))).all()
    assert (strings.numbers(*pack_strings([s + "y" for s in known])) == -1).all()


def test_strings_that_are_none() -> None:
    with pytest.raises(ShapeError, match="string 2 is there twice"):
        table(["a", "b", "a"])
    text = np.frombuffer(b"abc", dtype=np.uint8)
    with pytest.raises(ShapeError, match="offsets do not fit"):
        Strings(text, np.array([0, 2, 1, 3]))
    with pytest.raises(ShapeError, match="offsets do not fit"):
        Strings(text, np.array([0, 4]))
    with pytest.raises(KernelError, match="looking strings up"):
        table(["a"]).numbers(text, np.array([0, 9]))
    with pytest.raises(DataError, match="lone surrogate"):
        pack_strings(["\ud800"])
    assert bytes(pack_strings(["\ud800"], surrogates="surrogatepass")[0]) == b"\xed\xa0\x80"


@given(st.lists(st.lists(WORDS, max_size=5), max_size=3))
def test_growing_keeps_numbers(groups: list[list[str]]) -> None:
    known = list(dict.fromkeys(s for group in groups for s in group))
    strings = table(known)
    strings.grow(0)
    strings.grow(100_000)
    assert strings.strings() == tuple(known)
    assert (strings.numbers(*pack_strings(known)) == np.arange(len(known))).all()


# --- Lines -------------------------------------------------------------------------------------


def opens(line: bytes, mark: bytes, separator: bytes) -> bool:
    ends = (b" ", b"\t", *([separator] if separator else []))
    return bool(mark) and (line == mark or line.startswith(tuple(mark + end for end in ends)))


def fields_of(line: bytes, separator: bytes) -> list[bytes]:
    if separator:
        return line.split(separator)
    return [f for f in line.replace(b"\t", b" ").split(b" ") if f]


class Reference:
    """What lines hold, line by line in plain Python."""

    def __init__(self, data: bytes, width: int, separator: bytes, mark: bytes) -> None:
        self.rows: list[list[bytes]] = []
        self.lines: list[int] = []
        self.starts: list[int] = []
        self.blank: list[int] = []
        self.headers: list[int] = []
        self.error: tuple[int, int, int | None] | None = None
        inside = counting = False
        for number, line in enumerate(data.split(b"\n")[:-1]):
            if not line.strip(b" \t"):
                if counting:
                    self.blank[-1] += 1
                inside = False
            elif opens(line, mark, separator):
                self.headers.append(number)
                inside = counting = False
            else:
                row = fields_of(line, separator)
                if len(row) != width or b"" in row:
                    empty = row.index(b"") if len(row) == width else None
                    self.error = (number, len(row), empty)
                    return
                if not inside:
                    self.starts.append(len(self.rows))
                    self.blank.append(0)
                inside = counting = True
                self.rows.append(row)
                self.lines.append(number)


def texts(found: Lines, strings: Sequence[Strings]) -> list[list[bytes]]:
    columns = [
        [s.strings()[i].encode() for i in ids.tolist()]
        for ids, s in zip(found.ids, strings, strict=True)
    ]
    return [list(row) for row in zip(*columns, strict=True)]


@given(
    FILES,
    st.integers(1, 3),
    st.sampled_from([b"", b" ", b"\t", b"::", b":"]),
    st.sampled_from([b"", b"#", b"ab"]),
)
def test_lines_as_plain_python_reads_them(
    data: bytes, width: int, separator: bytes, mark: bytes
) -> None:
    expected = Reference(data, width, separator, mark)
    strings = [Strings() for _ in range(width)]
    assert line_count(data) == data.count(b"\n")
    if expected.error is not None:
        with pytest.raises(RowError) as raised:
            read_lines(data, strings, separator=separator, mark=mark)
        error = raised.value
        assert (error.line, error.fields, error.empty) == expected.error
        assert error.row == len(expected.rows)
        return
    found = read_lines(data, strings, separator=separator, mark=mark)
    assert texts(found, strings) == expected.rows
    assert found.lines.tolist() == expected.lines
    assert found.starts.tolist() == expected.starts
    assert found.blank_lines.tolist() == expected.blank
    assert found.headers.tolist() == expected.headers


def test_tables_grow_while_lines_are_read() -> None:
    words = [f"{i:x}{'é' * (i % 50)}" for i in range(10_000)] + ["z" * 1_000_000]
    data = "".join(f"{word} {word[:1]}\n" for word in words).encode()
    strings = [Strings(), Strings()]
    first = read_lines(data, strings)
    assert strings[0].strings() == tuple(words)
    assert (first.ids[0] == np.arange(len(words))).all()
    again = read_lines(b"new f\n" + data, strings)
    assert again.ids[0].tolist() == [len(words), *range(len(words))]
    assert [strings[1].strings()[i] for i in again.ids[1][:3]] == ["f", "0", "1"]


# --- Rows --------------------------------------------------------------------------------------


@given(
    st.integers(1, 3).flatmap(
        lambda width: st.lists(
            st.tuples(*[WORDS] * width, st.integers(0, 3)),
            max_size=20,  # the last: empty lines
        )
    ),
    st.sampled_from([" ", "\t", "::", "é"]),
)
def test_rows_as_plain_python_joins_them(rows: list[tuple[str | int, ...]], between: str) -> None:
    width = len(rows[0]) - 1 if rows else 1
    columns = []
    for c in range(width):
        values = list(dict.fromkeys(str(row[c]) for row in rows))
        ids = np.array([values.index(str(row[c])) for row in rows], dtype=np.int32)
        columns.append(TextColumn(ids, *pack_strings(values)))
    breaks = np.array([row[-1] for row in rows], dtype=np.int32)
    expected = "".join(between.join(map(str, row[:-1])) + "\n" * (1 + int(row[-1])) for row in rows)
    found = joined_rows(columns, breaks, separator=between.encode())
    assert bytes(found).decode() == expected


def test_rows_that_are_none() -> None:
    text, offsets = pack_strings(["a"])
    one, none = np.zeros(1, dtype=np.int32), np.ones(1, dtype=np.int32)
    with pytest.raises(KernelError, match="token"):
        joined_rows([TextColumn(none, text, offsets)], one, separator=b" ")
    with pytest.raises(KernelError, match="token"):
        joined_rows([TextColumn(one, text, offsets)], -none, separator=b" ")
    with pytest.raises(ShapeError, match="ids"):
        joined_rows([TextColumn(one, text, offsets)], np.zeros(2, np.int32), separator=b" ")
