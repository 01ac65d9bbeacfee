"""Columns, sentences, corpora."""

from __future__ import annotations

import numpy as np
import pytest

from fstcrf.errors import DataError, OptionError
from fstcrf.text.corpus import Column, Corpus, Sentence
from fstcrf.text.corpus.corpus import as_sentence

ROWS = [
    [("the", "DT"), ("dog", "NN")],
    [("it", "PRP")],
    [("the", "DT"), ("end", "NN"), (".", ".")],
]


@pytest.fixture
def corpus() -> Corpus:
    return Corpus.from_sentences(ROWS, columns=("word", "pos"))


def test_column_interns_by_first_appearance() -> None:
    column = Column.from_strings(["b", "a", "b"])
    assert column.values == ("b", "a")
    assert column.ids.tolist() == [0, 1, 0]
    assert column.strings(1) == ["a", "b"]


def test_corpus_is_a_sequence_of_sentences(corpus: Corpus) -> None:
    assert len(corpus) == 3
    assert corpus.n_tokens == 6
    assert [len(sentence) for sentence in corpus] == [2, 1, 3]
    assert corpus[-1]["word"] == ["the", "end", "."]
    assert corpus[1:].column_lists("pos") == [["PRP"], ["DT", "NN", "."]]
    assert corpus.select([2, 0]).column_lists("word") == [["the", "end", "."], ["the", "dog"]]
    with pytest.raises(IndexError, match="sentence 3 of 3"):
        corpus[3]


def test_missing_column_names_those_there_are(corpus: Corpus) -> None:
    with pytest.raises(DataError, match="no column 'chunk'; there are 'word', 'pos'"):
        corpus.column("chunk")
    with pytest.raises(DataError, match="no column 'chunk'; there are 'word', 'pos'"):
        _ = corpus[0]["chunk"]


def test_with_column(corpus: Corpus) -> None:
    labelled = corpus.with_column("label", [["O", "B"], ["O"], ["O", "B", "O"]])
    assert labelled[0]["label"] == ["O", "B"]
    assert "label" not in corpus.columns
    with pytest.raises(DataError, match=r"sentence 1: 2 strings for column 'label'"):
        corpus.with_column("label", [["O", "B"], ["O", "O"], ["O", "B"]])
    with pytest.raises(DataError, match="has 3 strings for 6 tokens"):
        corpus.with_column("label", [["O", "B"], ["O"]])


def test_sentences_of_other_shapes() -> None:
    mapping = {"word": ["a", "b"]}
    assert as_sentence(mapping)["word"] == ["a", "b"]
    assert len(as_sentence([])) == 0
    with pytest.raises(DataError, match="rows of strings need column names"):
        as_sentence([("a", "b")])
    with pytest.raises(DataError, match="token 1: row"):
        as_sentence([("a", "b"), ("c",)], ("word", "pos"))
    with pytest.raises(DataError, match="columns differ in length"):
        Sentence({"word": ["a"], "pos": []})
    with pytest.raises(DataError, match="column 'word' is the string 'at noon', expected a list"):
        Sentence({"word": "at noon"})
    with pytest.raises(DataError, match=r"the string 'train.txt', .* read_columns\(path"):
        as_sentence("train.txt")


def test_empty_sentences_need_no_columns() -> None:
    corpus = Corpus.from_sentences([{"word": ["a"]}, []])
    assert corpus.column_lists("word") == [["a"], []]


def test_character_offsets_survive_from_sentences() -> None:
    sentences = [
        Sentence({"word": ["a", "b"]}, char_offsets=[(0, 1), (2, 3)]),
        Sentence({"word": ["c"]}, char_offsets=[(4, 5)], document=1),
    ]
    corpus = Corpus.from_sentences(sentences)
    assert corpus.char_offsets is not None
    assert corpus[1].char_offsets == [(4, 5)]
    assert corpus[1].document == 1
    without = Corpus.from_sentences([*sentences, Sentence({"word": ["d"]})])
    assert without.char_offsets is None


def test_document_slices() -> None:
    corpus = Corpus(
        {},
        np.zeros(6, dtype=np.int64),
        documents=np.asarray([3, 3, 4, 6, 6], dtype=np.int32),
        document_headers=["three", "four", "five", "six"],
        first_document=3,
    )
    assert corpus.document_slices() == [slice(0, 2), slice(2, 3), slice(3, 5)]
    assert corpus.document_header(6) == "six"
    assert corpus.document_header(0) == ""
    assert corpus[2:3].document_headers == ("", "four", "", "")
    assert corpus[:0].document_slices() == []


def test_where_is_a_line_or_a_sentence(corpus: Corpus) -> None:
    assert corpus.where(3) == {"path": None, "sentence": 2, "token": 0}
    lined = Corpus(
        corpus.columns, corpus.offsets, source="a.txt", lines=np.asarray([1, 2, 4, 6, 7, 8])
    )
    assert lined.where(3) == {"path": "a.txt", "line": 6}


@pytest.mark.parametrize("offsets", [[], [1, 6], [0, 4, 2, 6]])
def test_bad_offsets(offsets: list[int]) -> None:
    with pytest.raises(DataError, match="offsets must start at 0"):
        Corpus({}, np.asarray(offsets, dtype=np.int64))


def test_arrays_that_disagree() -> None:
    column = Column.from_strings(["a"])
    with pytest.raises(DataError, match="tokens, the offsets 2"):
        Corpus({"word": column}, np.asarray([0, 2]))
    with pytest.raises(DataError, match="2 document numbers for 1 sentences"):
        Corpus({}, np.asarray([0, 1]), documents=np.zeros(2, dtype=np.int32))
    with pytest.raises(DataError, match=r"char_offsets is \[2, 2\], expected \[1, 2\]"):
        Corpus({}, np.asarray([0, 1]), char_offsets=np.zeros((2, 2), dtype=np.int32))


def test_columns_have_other_names(corpus: Corpus) -> None:
    names = list(corpus.columns)
    found = corpus.renamed({names[0]: "token"})
    assert list(found.columns) == ["token", *names[1:]]
    assert found.column_lists("token") == corpus.column_lists(names[0])
    with pytest.raises(OptionError, match="no column 'nix'"):
        corpus.renamed({"nix": "a"})
    with pytest.raises(OptionError, match=f"two columns would be called {names[1]!r}"):
        corpus.renamed({names[0]: names[1]})


def test_what_is_given_takes_the_place(corpus: Corpus) -> None:
    found = corpus.changed(first_document=3, document_headers=["x"])
    assert (found.first_document, found.document_headers) == (3, ("x",))
    assert found.columns == corpus.columns
    assert np.array_equal(found.offsets, corpus.offsets)
    assert np.array_equal(found.documents, corpus.documents)


def test_columns_are_equal_if_their_strings_are() -> None:
    one = Column.from_strings(["a", "b", "a"])
    assert one == Column(np.asarray([1, 0, 1], dtype=np.int32), ("b", "a"))
    assert one == Column.from_strings(["a", "b", "a"])
    assert one != Column.from_strings(["a", "b", "b"])
    assert one != Column.from_strings(["a", "b"])
    assert one != ["a", "b", "a"]
