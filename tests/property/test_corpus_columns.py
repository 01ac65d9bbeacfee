"""Laws of column files: what is written reads back."""

from __future__ import annotations

import io

import hypothesis.strategies as st
import pytest
from hypothesis import given

from fstcrf.errors import DataError
from fstcrf.text.corpus import (
    ColumnWriter,
    Corpus,
    Sentence,
    read_columns,
    stream_columns,
    write_columns,
)

NAMES = ("word", "label")


def strings(excluded: str) -> st.SearchStrategy[str]:
    characters = st.characters(exclude_characters=excluded, codec="utf-8")
    return st.text(characters, min_size=1, max_size=4).filter(lambda s: s != "\ufeff")


@st.composite
def corpora(draw: st.DrawFn, excluded: str) -> Corpus:
    tokens = st.lists(st.tuples(strings(excluded), strings(excluded)), min_size=1, max_size=4)
    sentences = draw(st.lists(tokens, min_size=1, max_size=6))
    steps = draw(st.lists(st.integers(0, 1), min_size=len(sentences), max_size=len(sentences)))
    documents = [sum(steps[1 : n + 1]) for n in range(len(sentences))]
    return Corpus.from_sentences(
        Sentence(dict(zip(NAMES, zip(*tokens, strict=True), strict=True)), document=document)
        for tokens, document in zip(sentences, documents, strict=True)
    )


def content(corpus: Corpus) -> tuple[list[list[str]], list[list[str]], list[int]]:
    lists = [corpus.column_lists(name) for name in NAMES]
    return lists[0], lists[1], corpus.documents.tolist()


def rows(corpus: Corpus) -> list[tuple[str, str]]:
    word, label = (corpus.column(name).strings() for name in NAMES)
    return list(zip(word, label, strict=True))


@pytest.mark.thorough
@pytest.mark.parametrize(("separator", "excluded"), [(" ", " \t\r\n"), ("\t", "\t\r\n")])
@given(data=st.data())
def test_what_is_written_reads_back(separator: str, excluded: str, data: st.DataObject) -> None:
    corpus = data.draw(corpora(excluded))
    file = io.BytesIO()
    if any(not "".join(row).strip(" ") for row in rows(corpus)):
        with pytest.raises(DataError, match="blank line"):
            write_columns(corpus, file, separator=separator)
        return
    write_columns(corpus, file, separator=separator)
    reading = None if separator == " " else separator
    if file.getvalue().startswith(b"\xef\xbb\xbf"):
        return  # a mark at the very start is no text
    again = read_columns(io.BytesIO(file.getvalue()), NAMES, separator=reading)
    assert content(again) == content(corpus)
    second = io.BytesIO()
    write_columns(again, second, separator=separator)
    assert second.getvalue() == file.getvalue()


@given(corpora(" \t\r\n"), st.integers(1, 6))
def test_batches_add_up(corpus: Corpus, batch_tokens: int) -> None:
    file = io.BytesIO()
    write_columns(corpus, file)
    whole = read_columns(io.BytesIO(file.getvalue()), NAMES)
    written = io.BytesIO()
    writer = ColumnWriter(written)
    words: list[list[str]] = []
    for part in stream_columns(io.BytesIO(file.getvalue()), NAMES, batch_tokens=batch_tokens):
        assert len(part) == 1 or part.n_tokens <= batch_tokens
        words += part.column_lists("word")
        writer.write(part)
    assert words == whole.column_lists("word")
    assert written.getvalue().decode("utf-8-sig") == file.getvalue().decode("utf-8-sig")


@pytest.mark.parametrize(
    ("word", "separator", "columns", "match"),
    [
        (" ", "\t", ("word", "label"), "blank line"),
        (" ", "\t", ("word",), "blank line"),
        ("\t", "|", ("word",), "blank line"),
        ("-DOCSTART- 1", "\t", ("word", "label"), "'-DOCSTART- 1' in column 'word' opens a doc"),
        ("-DOCSTART", "- ", ("word", "label"), "opens a document"),
    ],
)
def test_rows_that_are_no_lines_of_tokens_are_refused(
    word: str, separator: str, columns: tuple[str, ...], match: str
) -> None:
    """They were written, and read back as ends of sentences and openings of documents."""
    corpus = Corpus.from_sentences([Sentence({"word": ["a", word], "label": ["a", " "]})])
    with pytest.raises(DataError, match=match):
        write_columns(corpus, io.BytesIO(), columns, separator=separator)


@pytest.mark.parametrize(("word", "separator"), [("-DOCSTART-1", "\t"), (" ", "|")])
def test_rows_that_only_look_so_are_written(word: str, separator: str) -> None:
    corpus = Corpus.from_sentences([Sentence({"word": ["a", word], "label": ["a", " "]})])
    file = io.BytesIO()
    write_columns(corpus, file, separator=separator)
    again = read_columns(io.BytesIO(file.getvalue()), NAMES, separator=separator)
    assert content(again) == content(corpus)
