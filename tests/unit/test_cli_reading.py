"""What the command line needs of corpora: open-ended columns, several files, checks of targets."""

from __future__ import annotations

import os
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest

from fstcrf.errors import DataError, OptionError
from fstcrf.files import atomic_write, check_writable
from fstcrf.text.corpus import Corpus, concatenated, read_columns, stream_columns

NAMES = ("word", "pos", "chunk")


@pytest.mark.parametrize(
    ("text", "least", "names"),
    [
        ("a b c\n", 1, NAMES),
        ("a b\nc d\n", 1, NAMES[:2]),
        ("a\n\nb\n", 1, NAMES[:1]),
        ("-DOCSTART- -X- O O O\n\n\na b\n", 2, NAMES[:2]),
    ],
)
def test_the_last_columns_may_be_missing(text: str, least: int, names: tuple[str, ...]) -> None:
    whole = read_columns(BytesIO(text.encode()), NAMES, min_columns=least)
    assert tuple(whole.columns) == names
    batches = list(stream_columns(BytesIO(text.encode()), NAMES, min_columns=least, batch_tokens=1))
    assert [tuple(batch.columns) for batch in batches] == [names] * len(whole)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a\nb\n", "<input>:1: 1 columns, expected 3"),
        ("a b c d\n", "<input>:1: 4 columns, expected 3"),
        ("a b\nc d e\n", "<input>:2: 3 columns, expected 2"),
    ],
)
def test_but_all_rows_agree(text: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_columns(BytesIO(text.encode()), NAMES, min_columns=2)


def test_columns_without_names_are_numbered() -> None:
    corpus = read_columns(BytesIO(b"a b\nc d\n\ne f\n"), None)
    assert {name: corpus.column_lists(name) for name in corpus.columns} == {
        "0": [["a", "c"], ["e"]],
        "1": [["b", "d"], ["f"]],
    }
    with pytest.raises(DataError, match="holds no sentences"):
        read_columns(BytesIO(b"\n"), None)
    assert len(read_columns(BytesIO(b"\n"), None, allow_empty=True)) == 0
    assert list(stream_columns(BytesIO(b""), None)) == []
    with pytest.raises(OptionError, match="names no column"):
        read_columns(BytesIO(b"a\n"), ())


def test_a_first_block_without_rows() -> None:
    text = b"-DOCSTART- x\n\n" * 40_000 + b"a b\n"
    for names, wanted in ((NAMES, NAMES[:2]), (None, ("0", "1"))):
        corpus = read_columns(BytesIO(text), names, min_columns=1)
        assert tuple(corpus.columns) == wanted
        assert corpus.documents.tolist() == [39_999]


def test_concatenated() -> None:
    one = read_columns(BytesIO(b"-DOCSTART- 1\n\na N\nb V\n\nb N\n\n"), ("word", "tag"))
    two = read_columns(BytesIO(b"b N\n\n-DOCSTART- 2\n\nc X\n\n"), ("word", "tag"))
    both = concatenated([one, two])
    assert both.column_lists("word") == [["a", "b"], ["b"], ["b"], ["c"]]
    assert both.column_lists("tag") == [["N", "V"], ["N"], ["N"], ["X"]]
    assert both.documents.tolist() == [0, 0, 1, 2]
    assert [both.document_header(k) for k in range(3)] == ["-DOCSTART- 1", "", "-DOCSTART- 2"]
    assert both.column("word").values == ("a", "b", "c")
    assert concatenated([one]) is one
    with pytest.raises(DataError, match="no column 'tag'"):
        concatenated([one, Corpus.from_sentences([{"word": ["a"]}])])
    with pytest.raises(DataError, match="no corpus"):
        concatenated([])


def test_concatenated_character_offsets() -> None:
    sentence = {"word": ["a"]}
    plain = Corpus.from_sentences([sentence])
    placed = Corpus(plain.columns, plain.offsets, char_offsets=np.asarray([[3, 4]], dtype=np.int32))
    both = concatenated([placed, placed]).char_offsets
    assert both is not None
    assert both.tolist() == [[3, 4], [3, 4]]
    assert concatenated([placed, plain]).char_offsets is None


def test_check_writable(tmp_path: Path) -> None:
    file = tmp_path / "file"
    check_writable(file)
    assert not file.exists()
    file.write_text("kept")
    check_writable(file)
    assert file.read_text() == "kept"
    check_writable("/dev/null")
    for path in (tmp_path, tmp_path / "none" / "file"):
        with pytest.raises(OSError, match="directory") as caught:
            check_writable(path)
        assert caught.value.filename == os.fspath(path)
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_what_is_open_is_written_to_from_where_it_stands(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("precious\n")
    with log.open("ab") as file:
        (tmp_path / "link").symlink_to(f"/dev/fd/{file.fileno()}")
        for name in (
            f"/dev/fd/{file.fileno()}",
            f"/proc/self/fd/{file.fileno()}",
            tmp_path / "link",
        ):
            check_writable(name)
            with atomic_write(name) as out:
                out.write(b"more\n")
    assert log.read_text() == "precious\n" + 3 * "more\n"
    assert {path.name for path in tmp_path.iterdir()} == {"log", "link"}
    for use in (check_writable, lambda path: atomic_write(path).__enter__()):
        with pytest.raises(OSError, match="Bad file descriptor") as caught:
            use("/dev/fd/999")
        assert caught.value.filename == "/dev/fd/999"


def test_pipes_are_written_to(tmp_path: Path) -> None:
    reads, writes = os.pipe()
    check_writable(f"/dev/fd/{writes}")
    with atomic_write(f"/dev/fd/{writes}") as out:
        out.write(b"whole")
    os.close(writes)
    with os.fdopen(reads, "rb") as file:
        assert file.read() == b"whole"
