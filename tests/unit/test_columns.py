"""Column files, read and written."""

from __future__ import annotations

import gzip
import io
from pathlib import Path

import pytest

from fstcrf.errors import DataError, OptionError
from fstcrf.text.corpus import ColumnWriter, Corpus, read_columns, stream_columns, write_columns
from fstcrf.text.corpus.batches import blocks

WP = ("word", "pos")
DOCUMENTS = b"-DOCSTART- -X-\n\nA DT\nb NN\n\nc NN\n\n-DOCSTART- -Y-\n\nd NN\n\n"


def read(data: bytes, columns: tuple[str, ...] = WP, separator: str | None = None) -> Corpus:
    return read_columns(io.BytesIO(data), columns, separator=separator)


def written(corpus: Corpus, *, separator: str = " ") -> bytes:
    file = io.BytesIO()
    write_columns(corpus, file, separator=separator)
    return file.getvalue()


@pytest.mark.parametrize(
    "data",
    [
        b"A DT\nb NN\n\nc NN\n",
        b"A DT\nb NN\n\nc NN",
        b"\xef\xbb\xbfA DT\r\nb NN\r\n\r\nc NN\r",
        b"\n \t\n  A \t DT\nb\tNN \n \t \n\n\nc NN\n\n\n",
        gzip.compress(b"A DT\nb NN\n\nc NN\n"),
    ],
    ids=["plain", "no last line end", "windows", "blanks", "gzip"],
)
def test_the_same_corpus(data: bytes) -> None:
    corpus = read(data)
    assert corpus.column_lists("word") == [["A", "b"], ["c"]]
    assert corpus.column_lists("pos") == [["DT", "NN"], ["NN"]]
    assert corpus.document_headers == ("",)


def test_only_space_and_tab_separate() -> None:
    text = "a\u00a0b\x0bc\x0cd\u2003e\x1cf X\n"
    assert read(text.encode()).column_lists("word") == [["a\u00a0b\x0bc\x0cd\u2003e\x1cf"]]
    assert read(b"a X\rb X\r\rc X").column_lists("word") == [["a", "b"], ["c"]]


def test_a_given_separator_splits_exactly() -> None:
    corpus = read(b"New York\tNP\n \t\n of \tIN\n", separator="\t")
    assert corpus.column_lists("word") == [["New York"], [" of "]]
    assert read(b"a::b:\n", separator="::").column_lists("pos") == [["b:"]]
    with pytest.raises(DataError, match=r"<input>:3: column 'pos' is empty"):
        read(b"a\tb\n\nc\t\n", separator="\t")
    with pytest.raises(DataError, match="<input>:1: 3 columns, expected 2"):
        read(b"a  b\n", separator=" ")


def test_documents() -> None:
    corpus = read(DOCUMENTS)
    assert corpus.documents.tolist() == [0, 0, 1]
    assert corpus.document_headers == ("-DOCSTART- -X-", "-DOCSTART- -Y-")
    assert corpus.document_slices() == [slice(0, 2), slice(2, 3)]
    assert corpus.n_tokens == 4
    assert corpus.lines is not None
    assert corpus.lines.tolist() == [3, 4, 6, 10]


def test_sentences_before_the_first_document_line() -> None:
    corpus = read(b"a X\n-DOCSTART-\nb X\n")
    assert corpus.documents.tolist() == [0, 1]
    assert corpus.document_headers == ("", "-DOCSTART-")


def test_a_word_like_a_document_line_is_a_word() -> None:
    assert read(b"-DOCSTART-s X\n").column_lists("word") == [["-DOCSTART-s"]]
    ordinary = read_columns(io.BytesIO(b"-DOCSTART- X\n"), WP, docstart=None)
    assert ordinary.column_lists("word") == [["-DOCSTART-"]]
    other = read_columns(io.BytesIO(b"%% 1 2 3\na X\n"), WP, docstart="%%")
    assert other.document_headers == ("%% 1 2 3",)


def test_ragged_row(tmp_path: Path) -> None:
    path = tmp_path / "train.txt"
    path.write_bytes(b"-DOCSTART-\n\na X\n\nb\n")
    with pytest.raises(DataError) as raised:
        read_columns(path, WP)
    assert str(raised.value) == f"{path}:5: 1 columns, expected 2 (word, pos): 'b'"
    path.write_text("x y " + "z" * 100)
    with pytest.raises(DataError, match=r"3 columns, expected 2 .*: 'x y z{55}…'"):
        read_columns(path, WP)


def test_a_byte_that_is_not_utf8(tmp_path: Path) -> None:
    path = tmp_path / "train.txt"
    path.write_bytes(b"a X\n\nb\xe9 X\n")
    with pytest.raises(DataError) as raised:
        read_columns(path, WP)
    assert str(raised.value).startswith(f"{path}:3: byte 0xe9 is not UTF-8")


@pytest.mark.parametrize("data", [b"", b"\n\n", b"-DOCSTART- -X-\n\n", b"\xef\xbb\xbf"])
def test_no_sentences(data: bytes) -> None:
    with pytest.raises(DataError, match="<input>: holds no sentences"):
        read(data)
    empty = read_columns(io.BytesIO(data), WP, allow_empty=True)
    assert len(empty) == 0
    assert empty.columns["pos"].strings() == []
    assert list(stream_columns(io.BytesIO(data), WP)) == []


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (("a", "b", "a"), "column 'a' is named twice"),
        ((), "names no column"),
        ("word", "columns are the string 'word', expected a list of names"),
    ],
)
def test_bad_column_names(columns: tuple[str, ...], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        read(b"", columns)
    with pytest.raises(OptionError, match=message):
        stream_columns(io.BytesIO(), columns)


@pytest.mark.parametrize("separator", ["", "\n", "a\r"])
def test_bad_separators(separator: str) -> None:
    with pytest.raises(OptionError, match="separator="):
        read(b"", separator=separator)
    with pytest.raises(OptionError, match="separator="):
        ColumnWriter(io.BytesIO(), separator=separator)


def test_batches_hold_whole_sentences() -> None:
    data = b"".join(b"w%d X\n" % n + b"\n" * (n % 4 == 3) for n in range(40))
    parts = list(stream_columns(io.BytesIO(data), WP, batch_tokens=10))
    assert [part.n_tokens for part in parts] == [8, 8, 8, 8, 8]
    assert all(len(part) == 2 for part in parts)
    long = list(stream_columns(io.BytesIO(data), WP, batch_tokens=3))
    assert [part.n_tokens for part in long] == [4] * 10
    words = [word for part in long for word in part.column("word").strings()]
    assert words == read(data).column("word").strings()
    with pytest.raises(OptionError, match="batch_tokens=0"):
        stream_columns(io.BytesIO(data), WP, batch_tokens=0)


def test_documents_are_numbered_through_all_batches() -> None:
    parts = list(stream_columns(io.BytesIO(DOCUMENTS * 2), WP, batch_tokens=1))
    assert [part.documents.tolist() for part in parts] == [[0], [0], [1], [2], [2], [3]]
    assert parts[3].first_document == 2
    assert parts[3].document_headers == ("-DOCSTART- -X-",)
    assert parts[4].document_header(2) == "-DOCSTART- -X-"
    assert parts[5].where(0) == {"path": "<input>", "line": 21}


def test_errors_in_a_stream_name_the_line_of_the_file() -> None:
    data = b"a X\n\n" * 40_000 + b"b\n"
    stream = stream_columns(io.BytesIO(data), WP, batch_tokens=10_000)
    with pytest.raises(DataError, match="<input>:80001: 1 columns, expected 2"):
        list(stream)


def test_blocks_are_bounded_and_complete() -> None:
    data = b"\xef\xbb\xbf" + b"word X\r\n" * 7 + b"\r\n" + (b"word X\n" * 9 + b"\n\n") * 20_000
    parts = list(blocks(io.BytesIO(data), 1000))
    assert b"".join(part.data for part in parts) == data[3:].replace(b"\r\n", b"\n")
    assert max(len(part.data) for part in parts) < 200_000
    line = 1
    for part in parts:
        assert part.first_line == line
        line += part.data.count(b"\n")


def test_blank_lines_with_blanks_and_one_endless_sentence() -> None:
    spaced = b"w X\n" * 30_000 + b" \t\n" + b"w X\n" * 30_000
    parts = list(blocks(io.BytesIO(spaced), 1000))
    assert [part.data.count(b"w") for part in parts] == [30_000, 30_000]
    endless = b"w X\n" * 100_000
    assert [part.data for part in blocks(io.BytesIO(endless), 10)] == [endless]


@pytest.mark.parametrize(
    "data",
    [
        DOCUMENTS,
        b"a X\n\nb X\n\n\n\n",
        b"a X\n\n-DOCSTART-\n\n-DOCSTART- 2\n\nb X\n\n",
        b"a X\n\n-DOCSTART-\n\nb X\n\n-DOCSTART- 2\n\n-DOCSTART- 3\n\n",
    ],
)
@pytest.mark.parametrize("batch_tokens", [None, 1, 2])
def test_round_trip_byte_for_byte(data: bytes, batch_tokens: int | None) -> None:
    if batch_tokens is None:
        assert written(read(data)) == data
        return
    file = io.BytesIO()
    writer = ColumnWriter(file)
    for part in stream_columns(io.BytesIO(data), WP, batch_tokens=batch_tokens):
        writer.write(part)
    assert file.getvalue() == data


def test_written_columns_separators_and_new_labels(tmp_path: Path) -> None:
    corpus = read(DOCUMENTS).with_column("label", [["O", "B"], ["O"], ["B"]])
    path = tmp_path / "out.txt"
    write_columns(corpus, path, ("word", "label"), "\t")
    assert path.read_bytes().startswith(b"-DOCSTART- -X-\n\nA\tO\nb\tB\n\n")
    again = read_columns(path, ("word", "label"), separator="\t")
    assert again.column_lists("label") == corpus.column_lists("label")
    with pytest.raises(DataError, match="no column 'chunk'"):
        write_columns(corpus, tmp_path / "new.txt", ("chunk",))
    assert not (tmp_path / "new.txt").exists()


def test_slices_keep_their_own_documents() -> None:
    corpus = read(DOCUMENTS)
    assert written(corpus[1:2]) == b"-DOCSTART- -X-\n\nc NN\n\n"
    assert written(corpus[2:]) == b"-DOCSTART- -Y-\n\nd NN\n\n"
    file = io.BytesIO()
    writer = ColumnWriter(file)
    for start in range(3):
        writer.write(corpus[start : start + 1])
    assert file.getvalue() == DOCUMENTS


def test_documents_without_headers_are_kept() -> None:
    sentences = [{"word": ["a"]}, {"word": ["b"]}]
    corpus = Corpus.from_sentences(sentences)
    corpus.documents[1] = 1
    assert written(corpus) == b"a\n\n-DOCSTART-\n\nb\n\n"
    assert read(written(corpus), ("word",)).documents.tolist() == [0, 1]
    named = Corpus(corpus.columns, corpus.offsets, document_headers=["weblog-1"])
    assert written(named) == b"-DOCSTART- weblog-1\n\na\n\nb\n\n"


@pytest.mark.parametrize(
    ("word", "separator"),
    [("a b", " "), ("a\tb", " "), ("a\tb", "\t"), ("a\nb", "\t"), ("a\rb", " "), ("", " ")],
)
def test_what_would_not_read_back_is_not_written(word: str, separator: str) -> None:
    corpus = Corpus.from_sentences([{"word": [word], "pos": ["X"]}])
    with pytest.raises(DataError, match="column 'word'"):
        written(corpus, separator=separator)


def test_a_word_that_would_open_a_document_is_not_written() -> None:
    corpus = Corpus.from_sentences([{"word": ["-DOCSTART-"]}])
    with pytest.raises(DataError, match="opens a document"):
        written(corpus)


def test_text_files_take_text() -> None:
    file = io.StringIO()
    ColumnWriter(file).write(read("é X\n".encode()))
    assert file.getvalue() == "é X\n\n"
