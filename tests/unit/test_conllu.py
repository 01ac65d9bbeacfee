"""CoNLL-U files."""

from __future__ import annotations

import io
import os
import re
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fstcrf.errors import DataError, KernelError, OptionError
from fstcrf.kernel.strings import Forms, located_forms
from fstcrf.text.corpus import Corpus, read_conllu, stream_conllu
from fstcrf.text.corpus.conllu import CONLLU, is_gold


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


@pytest.mark.parametrize(
    ("ids", "line", "message"),
    [
        ("2-3 1 2 3", 5, "id '2-3' does not stand before token 2"),
        ("1 2-3 3 2", 6, "id '2-3' does not stand before token 2"),
        ("1 2 3-4", 7, "id '3-4' does not stand before token 3"),
        ("1-2 1 2-3 2 3", 7, "id '2-3' overlaps the multiword token before it"),
        ("1-2 1-3 1 2 3", 6, "id '1-3' overlaps the multiword token before it"),
        ("1-3 1 2", 5, "id '1-3' covers tokens that its sentence does not have"),
    ],
)
def test_multiword_tokens_that_cannot_be(ids: str, line: int, message: str) -> None:
    rows = [row("1", "x"), "", "# text = x", "# comment", *(row(n, "x") for n in ids.split()), ""]
    more = [row("1", "y"), row("2", "y"), ""]
    for data in (text(rows), text(rows, more)):
        data.name = "in.conllu"
        with pytest.raises(DataError, match=rf"^in\.conllu:{line}: {message}$"):
            read_conllu(data)


# --- Line by line ---------------------------------------------------------------------------------


Form = tuple[str, int]
Place = tuple[int, int]


def in_text(forms: list[Form], text: str, n: int) -> list[Place]:
    """Find forms one after the other, each for so many of the n tokens."""
    at, found = 0, []
    for form, covered in forms:
        while text[at : at + 1].isspace() and not text.startswith(form, at):
            at += 1
        if not text.startswith(form, at):
            return [(-1, -1)] * n
        found += [(at, at + len(form))] * covered
        at += len(form)
    return found if len(found) == n else [(-1, -1)] * n


def by_lines(data: str) -> tuple[list[list[str]], list[Place], list[str], list[int]]:
    """Read a file as the format is told, a line at a time: fields, places, headers, ends."""
    rows: list[list[str]] = []
    places: list[Place] = []
    headers: list[str] = []
    ends: list[int] = []
    forms: list[Form] = []
    text, written, position = None, "", 0
    left = 0  # tokens that the last multiword token still has
    for line in [*data.split("\n"), ""]:
        fields = line.split("\t")
        if found := re.match(r"#\s*newdoc\b(?:\s+id)?\s*=?\s*(.*)", line):
            headers.append(found[1].strip(" \t"))
            position = 0
        elif found := re.match(r"#\s*text\s*=\s?(.*)", line):
            text = found[1].rstrip(" \t")
        elif not line.strip(" \t"):
            if n := len(rows) - len(places):
                text = written.rstrip() if text is None else text
                for a, b in in_text(forms, text, n):
                    places.append((a, b) if a < 0 else (position + a, position + b))
                position += len(text) + 1
                ends.append(len(rows))
            forms, text, written, left = [], None, "", 0
        elif line[0] != "#" and "." not in fields[0]:
            first, _, last = fields[0].partition("-")
            covered = int(last or first) - int(first) + 1
            if last or left == 0:
                forms.append((fields[1], covered))
                written += fields[1] + " " * ("SpaceAfter=No" not in fields[9].split("|"))
            rows += [] if last else [fields]
            left = covered if last else max(left - 1, 0)
    return rows, places, headers, ends


def agrees(data: str) -> None:
    rows, places, headers, ends = by_lines(data)
    corpus = read_conllu(io.BytesIO(data.encode()), allow_empty=True)
    assert corpus.offsets.tolist() == [0, *ends]
    for number, name in enumerate(CONLLU):
        strings = [field for sentence in corpus.column_lists(name) for field in sentence]
        assert strings == [fields[number] for fields in rows]
    assert [p for sentence in corpus for p in sentence.char_offsets or ()] == places
    assert [h for h in corpus.document_headers if h] == [h for h in headers if h]


FORMS = st.text("ab\u00e9\u3042\U0001f600", min_size=1, max_size=3) | st.sampled_from(
    ["\u00a0", "a\u2003b", "\u3000a", "\u2028", "a\u200b", "\x1c"]
)
SPACES = st.sampled_from(["", " ", "  ", "\u3000", "\x85", "\u2009 ", "\u180e"])


@st.composite
def treebanks(draw: st.DrawFn) -> str:
    lines: list[str] = []
    before = 0  # tokens of the sentence that has no blank line behind it
    for _ in range(draw(st.integers(0, 5))):
        if draw(st.booleans()):
            lines.append(
                draw(st.sampled_from(["# newdoc", "# newdoc id = d", "#newdoc id=\u3042"]))
            )
        body, text, taken = [], "", 0
        size = before + draw(st.integers(0, 4))
        for number in range(before + 1, size + 1):
            form, space = draw(FORMS), draw(SPACES)
            if number > taken and draw(st.integers(0, 3)) == 0:
                last = taken = draw(st.integers(number, size))
                body.append(row(f"{number}-{last}", form, misc=draw(MISC)))
                text += form
            body.append(row(str(number), form, misc=draw(MISC)))
            if draw(st.integers(0, 5)) == 0:
                body.append(row(f"{number}.1", "x"))
            text += form + space
        if draw(st.booleans()):
            lines.append(f"# text = {text if draw(st.integers(0, 4)) else text[1:]}")
        blank = draw(st.integers(0, 2))
        lines += [*body, *([draw(st.sampled_from(["", " ", "\t "]))] * blank)]
        before = 0 if blank else size
    return "".join([line + "\n" for line in lines])


MISC = st.sampled_from(["_", "SpaceAfter=No", "a=b|SpaceAfter=No", "SpaceAfter=Not"])


@given(treebanks())
def test_files_are_read_as_line_by_line(data: str) -> None:
    agrees(data)


@pytest.mark.parametrize(
    "name", ["ud_english_ewt/en_ewt-ud-test.conllu", "ud_japanese_gsd/ja_gsd-ud-test.conllu"]
)
def test_treebanks_are_read_as_line_by_line(name: str) -> None:
    folder = os.environ.get("FSTCRF_DATA")
    if folder is None:
        pytest.skip("FSTCRF_DATA is not set")
    path = Path(folder, name)
    if not path.exists():
        pytest.skip(f"{path} is not there")
    agrees(path.read_text("utf-8").replace("\r\n", "\n"))


@pytest.mark.parametrize("odd", [{"begin": -1}, {"size": 9}, {"covered": -1}, {"offsets": 2}])
def test_impossible_forms_are_refused(odd: dict[str, int]) -> None:
    given = {"offsets": [0, 1], "begin": [0], "size": [1], "covered": [1]}
    for name, value in odd.items():
        given[name][-1] = value
    arrays = {name: np.array(values, dtype=np.int64) for name, values in given.items()}
    data = np.frombuffer(b"abc", dtype=np.uint8)
    forms = Forms(**arrays, spaced=np.zeros(1, dtype=np.uint8), data=data)
    opens = np.zeros(1, dtype=np.uint8)
    with pytest.raises(KernelError, match="finding forms: sentence"):
        located_forms(forms, np.array([0, 1]), {}, opens, 0)


def test_a_document_that_is_too_long() -> None:
    one = np.ones(1, dtype=np.int64)
    data = np.frombuffer(b"abc", dtype=np.uint8)
    forms = Forms(np.array([0, 1]), one, one, one, np.zeros(1, dtype=np.uint8), data)
    opens = np.zeros(1, dtype=np.uint8)
    for position, fits in ((2**31 - 3, True), (2**31 - 2, False)):
        if fits:
            chars, _ = located_forms(forms, np.array([0, 1]), {}, opens, position)
            assert chars.tolist() == [[position, position + 1]]
            continue
        with pytest.raises(DataError, match="2,147,483,647 characters"):
            located_forms(forms, np.array([0, 1]), {}, opens, position)
    for position in (-1, 2**31, 2**63 - 1):  # no place in a document
        with pytest.raises(KernelError, match="finding forms"):
            located_forms(forms, np.array([0, 1]), {}, opens, position)


def test_long_ids_are_read_in_time(tmp_path: Path) -> None:
    path = tmp_path / "long.conllu"
    path.write_text(row("9" * 100_000, "a") + "\n\n", "utf-8")
    begun = time.process_time()
    with pytest.raises(DataError, match=r"long\.conllu:1: id '9+ … 9+', expected '1'"):
        read_conllu(path)
    assert time.process_time() - begun < 1


@pytest.mark.parametrize("rows", [("{n}-{n}", "1"), ("1-1", "{n}"), ("{n}.1", "1")])
def test_ids_of_too_many_digits_are_errors(rows: tuple[str, str], tmp_path: Path) -> None:
    """Python refuses to read more than 4,300 digits as a number, with an error of its own."""
    path = tmp_path / "long.conllu"
    path.write_text("\n".join(row(one.format(n="9" * 5_000), "a") for one in rows) + "\n\n")
    with pytest.raises(DataError, match=r"long\.conllu:[12]: "):
        read_conllu(path)


# --- Ids ------------------------------------------------------------------------------------------


def sentence(*ids: str) -> list[str]:
    return [row(name, f"w{name}") for name in ids]


A, B = sentence("1", "2"), sentence("1", "2-3", "2", "3")
DISORDER = {
    "a blank line is missing": ([*A, *B], 3, "id '1', expected '3': is the blank line before"),
    "and there is a comment": ([*A, "# sent_id = 2", *A], 4, "id '1', expected '3': is the blank"),
    "an id twice": (sentence("1", "2", "2"), 3, "id '2', expected '3'$"),
    "an id left out": (sentence("1", "3"), 2, "id '3', expected '2'$"),
    "from 0": (sentence("0", "1"), 1, "id '0', expected '1'$"),
    "from 2": (sentence("2", "3"), 1, "id '2', expected '1'$"),
    "backwards": (sentence("1", "3", "2"), 2, "id '3', expected '2'$"),
    "a zero before": (sentence("01"), 1, "id '01', expected '1'$"),
    "other digits": (sentence("\u0661"), 1, "id '\u0661', expected '1'$"),
    "an empty node too early": (sentence("1.1", "1"), 1, "'1.1' of an empty node, expected '0.1'"),
    "an empty node too late": (sentence("1", "2", "1.1"), 3, "'1.1' of an empty node, expected"),
    "an empty node twice": (sentence("1", "1.1", "1.1"), 3, "an empty node, expected '1.2'"),
    "an empty node left out": (sentence("1", "1.2"), 2, "'1.2' of an empty node, expected '1.1'"),
}
ORDER = {
    "tokens": ("1", "2", "3"),
    "ranges": ("1-2", "1", "2", "3", "4-4", "4"),
    "empty nodes": ("0.1", "0.2", "1", "1.1", "2", "3-4", "3", "3.1", "3.2", "4", "4.1"),
}


@pytest.mark.parametrize("lines", [1, 2, 3, 1 << 16])
@pytest.mark.parametrize("name", DISORDER)
def test_ids_run_from_1(name: str, lines: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fstcrf.text.corpus.batches.BLOCK_LINES", lines)
    rows, line, problem = DISORDER[name]
    before = [*B, "", *A, "", ""]
    text = "\n".join([*before, *rows, "", *A, "", ""])
    with pytest.raises(DataError, match=problem) as caught:
        read_conllu(io.BytesIO(text.encode()))
    assert caught.value.line == len(before) + line
    with pytest.raises(DataError, match=problem) as caught:
        list(stream_conllu(io.BytesIO(text.encode()), batch_tokens=lines))
    assert caught.value.line == len(before) + line


@pytest.mark.parametrize("name", ORDER)
def test_ids_that_run_are_read(name: str) -> None:
    text = "\n".join([*sentence(*ORDER[name]), "", *A, "", ""])
    corpus = read_conllu(io.BytesIO(text.encode()))
    own = [x for x in ORDER[name] if x.isdecimal()]
    assert corpus.column_lists("id") == [own, ["1", "2"]]


# --- Features of the last column ------------------------------------------------------------------


def test_keys_of_the_last_column_are_feature_columns() -> None:
    rows = [
        row("1", "a", feats="Number=Sing|Case=Nom", misc="ner=B-PER|SpaceAfter=No"),
        row("2", "b", feats="Case=Acc", misc="Number=Plur|ner=O"),
        row("3", "c", misc="Entity=(x-1"),
        "",
        row("1", "d"),
    ]
    text = "\n".join([*rows, "", ""]).encode()
    names = ("ner", "Number", "Entity")
    corpus = read_conllu(io.BytesIO(text), feature_columns=names)
    assert corpus.column_lists("ner") == [["B-PER", "O", "_"], ["_"]]
    assert corpus.column_lists("Number") == [["Sing", "Plur", "_"], ["_"]]  # feats before misc
    assert corpus.column_lists("Entity") == [["_", "_", "(x-1"], ["_"]]
    parts = list(stream_conllu(io.BytesIO(text), batch_tokens=1, feature_columns=names))
    for name in names:
        whole = [labels for part in parts for labels in part.column_lists(name)]
        assert whole == corpus.column_lists(name)
        assert is_gold(corpus, name)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Numbers", "'Numbers', perhaps 'Number' is meant: there are Number in feats, ner in misc"),
        ("NER", "'NER', perhaps 'ner' is meant: there are Number in feats, ner in misc"),
        ("xyz", "no token has the feature 'xyz': there are Number in feats, ner in misc"),
    ],
)
def test_a_feature_that_no_token_has_is_an_error(name: str, message: str) -> None:
    text = row("1", "a", feats="Number=Sing", misc="ner=O").encode() + b"\n\n"
    with pytest.raises(DataError, match=message):
        read_conllu(io.BytesIO(text), feature_columns=("ner", name))
    corpus = read_conllu(io.BytesIO(text), feature_columns=(name,), allow_absent=True)
    assert corpus.column_lists(name) == [["_"]]
