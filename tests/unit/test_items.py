"""CRFsuite's item text."""

from __future__ import annotations

import gzip
import io
from pathlib import Path

import numpy as np
import pytest

from fstcrf import CRF, Corpus
from fstcrf.errors import DataError
from fstcrf.text.corpus.items import item_of, read_items, stream_items
from tests.support.command import done, failure, run

TEXT = """\
D\tw=the\tfirst

D\tw=a:2\tt\\:x:0.5
N\tw=cat\tw=cat\t\tb\\\\s


V
N\tw=dog
"""


def read(text: str | bytes) -> io.BytesIO:
    return io.BytesIO(text.encode() if isinstance(text, str) else text)


def test_reading() -> None:
    corpus = read_items(read(TEXT))
    assert corpus.column_lists("label") == [["D"], ["D", "N"], ["V", "N"]]
    assert corpus.column_lists("attributes")[0] == ["w=the\tfirst"]
    assert corpus.column_lists("attributes")[2] == ["", "w=dog"]
    assert corpus.lines is not None
    assert corpus.lines.tolist() == [1, 3, 4, 7, 8]


@pytest.mark.parametrize(
    ("text", "item"),
    [
        ("", []),
        ("a\tb", ["a", "b"]),
        ("\ta\t\tb\t", ["a", "b"]),
        ("a:", {"a": 1.0}),
        ("a:2.5\tb", {"a": 2.5, "b": 1.0}),
        ("a\ta:2", {"a": 3.0}),
        ("a\\:b", {"a:b": 1.0}),
        ("a\\:b:-1e-2", {"a:b": -0.01}),
        ("a\\\\:3", {"a\\": 3.0}),
        ("a\\b", {"a\\b": 1.0}),
        (":4", {"": 4.0}),
    ],
)
def test_items(text: str, item: object) -> None:
    assert item_of(text) == item


@pytest.mark.parametrize("text", ["a:b", "a:1:2", "b\ta:1x"])
def test_values_that_are_no_numbers(text: str) -> None:
    with pytest.raises(ValueError, match=r"attribute 'a' has the value .*, expected a number"):
        item_of(text)


def test_labels() -> None:
    lines = "\tB\\:x\ta\n@weight:2\tC\ta\n@weight\tD:9\ta\n@weights\ta\n"
    corpus = read_items(read(lines))
    assert corpus.column_lists("label") == [["B:x", "C", "D:9", "@weights"]]
    assert read_items(read("@weight:2\nA\tx\n")).column_lists("label") == [["A"]]


@pytest.mark.parametrize(
    "label",
    [":", "::", "A:1", "A:", ":1", "1:2:3", "\\", "a\\b", "\\:", "\\\\", "x y", "\xa0", "#"],
)
def test_a_label_is_whole_through_every_door(label: str, tmp_path: Path) -> None:
    """Escaped or, where it has no backslash, as it stands: read, streamed, tagged and scored."""
    tagger = CRF.train([[["w=a"], ["w=b"]]] * 5, [[label, "other"]] * 5, max_iterations=20)
    tagger.save(tmp_path / "m.fstcrf")
    escaped = label.replace("\\", "\\\\").replace(":", "\\:")
    for written in {escaped} if "\\" in label else {escaped, label}:
        path = tmp_path / "x.items"
        path.write_text(f"{written}\tw=a\nother\tw=b\n\n", "utf-8")
        for corpus in (read_items(path), *stream_items(path)):
            assert corpus.column_lists("label") == [[label, "other"]]
        found = done("tag", tmp_path / "m.fstcrf", path, "--set", "separator=tab")
        assert found.splitlines()[0] == f"{label}\t{label}"
        assert "accuracy: 100.00%" in done("eval", tmp_path / "m.fstcrf", path, "--tokens")


def test_ends_of_lines_and_files(tmp_path: Path) -> None:
    wanted = [["A", "B"], ["C"]]
    text = "A\tx\nB\ty\n\nC\tz"
    for data in (text, text + "\n", text + "\n\n\n", text.replace("\n", "\r\n"), "\ufeff" + text):
        assert read_items(read(data)).column_lists("label") == wanted
        assert read_items(read(data)).column_lists("attributes") == [["x", "y"], ["z"]]
    path = tmp_path / "x.gz"
    path.write_bytes(gzip.compress(text.encode()))
    assert read_items(path).column_lists("label") == wanted


def test_streams() -> None:
    text = "".join(f"A\tx{k}\nB\ty\n\n" for k in range(7))
    batches = list(stream_items(read(text), batch_tokens=4))
    assert [len(batch) for batch in batches] == [2, 2, 2, 1]
    assert [batch.lines.tolist()[0] for batch in batches if batch.lines is not None] == [
        1, 7, 13, 19,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "<input>: holds no sentences"),
        ("\n\n", "<input>: holds no sentences"),
        ("A\tx\n\t\n", "<input>:2: no label, expected LABEL, a tab, and attributes between tabs"),
        (b"A\tx\nA\t\xff\n", "<input>:2: byte 0xff is not UTF-8; convert the file to UTF-8"),
        ("the DT\ncat NN\n", "<input>:1: no line has attributes"),
    ],
)
def test_bad_files(text: str | bytes, message: str) -> None:
    with pytest.raises(DataError) as caught:
        read_items(read(text))
    assert str(caught.value).startswith(message)


# --- Taggers over attribute lists -----------------------------------------------------------------


@pytest.fixture(scope="module")
def tagger() -> CRF:
    sentences = [[["w=the"], ["w=cat"]], [["w=a"], ["w=dog"], ["w=ran"]]] * 3
    return CRF.train(sentences, [["D", "N"], ["D", "N", "V"]] * 3, max_iterations=20)


def test_taggers_read_them(tagger: CRF) -> None:
    corpus = read_items(read(TEXT))
    sentences = [[item_of(t) for t in texts] for texts in corpus.column_lists("attributes")]
    assert tagger.tag_all(corpus) == tagger.tag_all(sentences)
    assert tagger.tag_column(corpus).strings() == [x for s in tagger.tag_all(corpus) for x in s]
    for one, two in zip(tagger.marginals_all(corpus), tagger.marginals_all(sentences), strict=True):
        assert np.array_equal(one, two)
    assert tagger.tag(corpus[1]) == tagger.tag(sentences[1])
    assert tagger.explain(corpus[1], 1).pushes == tagger.explain(sentences[1], 1).pushes


def test_empty_sentences_stay(tagger: CRF) -> None:
    corpus = read_items(read(TEXT))
    more = corpus.select([0, 1])
    offsets = np.array([0, 1, 1, 3])
    holed = Corpus(more.columns, offsets)
    assert [len(labels) for labels in tagger.tag_all(holed)] == [1, 0, 2]


def test_what_cannot_be_read_says_where(tagger: CRF) -> None:
    corpus = read_items(read(TEXT + "\nN\tw=cat:x\n"))
    with pytest.raises(DataError, match=r"<input>:10: attribute 'w=cat' has the value 'x'"):
        tagger.tag_all(corpus)
    with pytest.raises(DataError, match="attribute 'w=cat' has the value 'x'"):
        tagger.tag(corpus[3])
    words = Corpus({"word": corpus.columns["label"]}, corpus.offsets)
    with pytest.raises(DataError, match="not columns"):
        tagger.tag_all(words)


def test_columns_in_the_place_of_attributes_are_pointed_out(tagger: CRF, tmp_path: Path) -> None:
    tagger.save(tmp_path / "m.fstcrf")
    columns, attributes, wrong = (tmp_path / name for name in ("columns", "attributes", "wrong"))
    columns.write_text("the\tD\tO\ncat\tN\tO\n\n")
    attributes.write_text("D\tw=the\nN\tw=none\n\n")
    wrong.write_text("D\tw=the:x\n\n")
    for command in ("tag", "eval"):
        told = run(command, tmp_path / "m.fstcrf", columns).stderr
        assert "columns: the model knows 0 of 3 attributes, such as 'D': expected" in told
        assert "attributes, such as" not in run(command, tmp_path / "m.fstcrf", attributes).stderr
        assert "expected a number" in failure(command, tmp_path / "m.fstcrf", wrong)
