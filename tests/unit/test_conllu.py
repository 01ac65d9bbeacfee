"""CoNLL-U files."""

from __future__ import annotations

import io

import pytest

from fstcrf.corpus import Corpus, read_conllu, stream_conllu
from fstcrf.corpus.conllu import CONLLU
from fstcrf.errors import DataError, OptionError


def row(number: str, form: str, upos: str = "X", feats: str = "_", misc: str = "_") -> str:
    return f"{number}\t{form}\t{form.lower()}\t{upos}\t_\t{feats}\t0\troot\t_\t{misc}"


FIRST = [
    "# newdoc id = weblog-1",
    "# sent_id = 1",
    "# text = We can't  go.",
    row("1", "We", "PRON", "Case=Nom|Number=Plur"),
    row("2-3", "can't"),
    row("2", "can", "AUX"),
    row("3", "n't", "PART", "Polarity=Neg"),
    row("4", "go", "VERB", misc="SpaceAfter=No"),
    row("4.1", "home", "ADV"),
    row("5", ".", "PUNCT"),
    "",
]
SECOND = [
    "# no text here, so it is built from the forms",
    row("1", "It", "PRON", "Number=Sing"),
    row("2", "is", "AUX", "Number=Sing|Tense=Past", misc="Gloss=x|SpaceAfter=No"),
    row("3", "!", "PUNCT"),
    "",
]
THIRD = ["# newdoc", "# text = other words", row("1", "It", "PRON"), ""]


def text(*sentences: list[str]) -> io.BytesIO:
    return io.BytesIO("".join([line + "\n" for s in sentences for line in s]).encode())


@pytest.fixture
def corpus() -> Corpus:
    return read_conllu(text(FIRST, SECOND, THIRD), feature_columns=("Number", "Tense"))


def test_columns(corpus: Corpus) -> None:
    assert tuple(corpus.columns) == (*CONLLU, "upos+feats", "Number", "Tense")
    assert corpus.column_lists("form") == [
        ["We", "can", "n't", "go", "."],
        ["It", "is", "!"],
        ["It"],
    ]
    assert corpus[0]["upos+feats"] == [
        "PRON|Case=Nom|Number=Plur",
        "AUX",
        "PART|Polarity=Neg",
        "VERB",
        "PUNCT",
    ]
    assert corpus[1]["Number"] == ["Sing", "Sing", "_"]
    assert corpus[1]["Tense"] == ["_", "Past", "_"]
    assert corpus.where(5) == {"path": "<input>", "line": 13}


def test_documents(corpus: Corpus) -> None:
    assert corpus.documents.tolist() == [0, 0, 1]
    assert corpus.document_headers == ("weblog-1", "")


def test_character_offsets(corpus: Corpus) -> None:
    document = "We can't  go.\nIt is!\n"
    offsets = [corpus[0].char_offsets, corpus[1].char_offsets]
    assert offsets[0] is not None
    assert offsets[1] is not None
    found = [[document[a:b] for a, b in sentence] for sentence in offsets if sentence]
    assert found == [["We", "can't", "can't", "go", "."], ["It", "is", "!"]]
    assert corpus[2].char_offsets == [(-1, -1)]


def test_batches_go_on_counting(corpus: Corpus) -> None:
    source = text(FIRST, SECOND, THIRD)
    parts = list(stream_conllu(source, batch_tokens=1, feature_columns=("Number", "Tense")))
    assert [part.documents.tolist() for part in parts] == [[0], [0], [1]]
    for part, sentence in zip(parts, corpus, strict=True):
        assert part[0].char_offsets == sentence.char_offsets
        for name in corpus.columns:
            assert part[0][name] == sentence[name]


def test_many_blocks() -> None:
    # Longer than one piece of the file, so that counting goes on from block to block.
    sentences = 2_000
    once = list(stream_conllu(text(*[FIRST, SECOND] * sentences), batch_tokens=500))
    assert len(once) > sentences * 8 // 500
    assert sum(len(part) for part in once) == 2 * sentences
    assert once[-1].documents[-1] == sentences - 1
    assert once[-1].document_header(sentences - 1) == "weblog-1"
    assert once[-1][-1].char_offsets == [(14, 16), (17, 19), (19, 20)]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("1\ta", r"<input>:2: 2 columns, expected 10 split by tabs: '1\\ta'"),
        (row("1", "a").replace("\t", " "), "1 columns, expected 10"),
        (row("x", "a"), "id 'x', expected n, n-m"),
        (row("3-2", "a"), "id '3-2', expected n, n-m"),
        (row("1", ""), "column 'form' is empty"),
    ],
)
def test_bad_rows(line: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_conllu(text(["# sent_id = 1", line, ""]))


def test_a_byte_that_is_not_utf8() -> None:
    data = text(SECOND).getvalue() + b"\xff\n"
    with pytest.raises(DataError, match="<input>:6: byte 0xff is not UTF-8"):
        read_conllu(io.BytesIO(data))


def test_no_sentences() -> None:
    with pytest.raises(DataError, match="holds no sentences"):
        read_conllu(text(["# newdoc id = 1"]))
    assert len(read_conllu(io.BytesIO(), allow_empty=True)) == 0
    assert list(stream_conllu(io.BytesIO())) == []


@pytest.mark.parametrize("names", [("Number", "Number"), ("form",), ("upos+feats",), "Number"])
def test_bad_feature_columns(names: tuple[str, ...]) -> None:
    with pytest.raises(OptionError, match=r"feature.column"):
        read_conllu(text(SECOND), feature_columns=names)


def test_bad_batches() -> None:
    with pytest.raises(OptionError, match="batch_tokens=0"):
        stream_conllu(text(SECOND), batch_tokens=0)


def test_a_range_within_a_range_loses_the_offsets_only() -> None:
    rows = [row("2-3", "ab"), row("1", "a"), row("2-3", "bc"), row("2", "b"), ""]
    corpus = read_conllu(text(rows))
    assert corpus[0]["form"] == ["a", "b"]
    assert corpus[0].char_offsets == [(-1, -1), (-1, -1)]


def test_a_range_beyond_its_sentence_loses_the_offsets_only() -> None:
    corpus = read_conllu(text([row("1-3", "ab"), row("1", "a"), row("2", "b"), ""]))
    assert corpus[0]["form"] == ["a", "b"]
    assert corpus[0].char_offsets == [(-1, -1), (-1, -1)]
