"""CoNLL-U written again with other labels in some columns: all else byte for byte."""

from __future__ import annotations

import gzip
import io
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fstcrf
from fstcrf import CRF, compose
from fstcrf.errors import DataError, OptionError
from fstcrf.ext.filling import fill_conllu
from fstcrf.text.corpus import Column, read_conllu
from fstcrf.text.corpus.conllu import CONLLU
from fstcrf.training import Gold
from tests.support.command import done, failure, run
from tests.support.treebanks import SMALL, parsed, same_but

TOKENS = 12


def row(number: str, form: str, upos: str = "X", feats: str = "_", misc: str = "_") -> str:
    return f"{number}\t{form}\t{form.lower()}\t{upos}\t_\t{feats}\t0\troot\t_\t{misc}"


def filled(text: bytes, columns: Mapping[str, Any], **options: Any) -> bytes:
    out = io.BytesIO()
    fill_conllu(io.BytesIO(text), out, columns, **options)
    return out.getvalue()


def by_line(text: bytes, change: Any) -> bytes:
    """The truth, line by line: `change` gets the cells of a token, and its number."""
    if b"\r" in text and b"\n" not in text:
        return by_line(text.replace(b"\r", b"\n"), change).replace(b"\n", b"\r")
    lines, token = text.split(b"\n"), 0
    for k, line in enumerate(lines):
        end = b"\r" if line.endswith(b"\r") else b""
        cells = line.removesuffix(b"\r").decode("utf-8-sig").split("\t")
        if not cells[0].isdecimal():
            continue
        mark = b"\xef\xbb\xbf" if line.startswith(b"\xef\xbb\xbf") else b""
        change(cells, token)
        lines[k], token = mark + "\t".join(cells).encode() + end, token + 1
    return b"\n".join(lines)


@pytest.mark.parametrize("name", CONLLU[1:])
def test_a_column_changes_and_nothing_else(name: str) -> None:
    labels = [str(k % 5) for k in range(TOKENS)]

    def change(cells: list[str], token: int) -> None:
        cells[CONLLU.index(name)] = labels[token]

    for text in variants(SMALL):
        assert filled(text, {name: labels}) == by_line(text, change)
        own = read_conllu(io.BytesIO(text)).columns[name]
        assert filled(text, {name: own}) == text


def variants(text: bytes) -> list[bytes]:
    """The same with other line ends, no last line end, a byte order mark, many blank lines."""
    windows = text.replace(b"\n", b"\r\n")
    blank = text.replace(b"\n\n", b"\n \t\n\n\n")
    cut = text.rstrip(b"\n")
    mark = b"\xef\xbb\xbf"
    old = text.replace(b"\n", b"\r")
    return [text, windows, cut, windows.rstrip(b"\r\n"), mark + text, blank, b"\n\n" + text,
            text + b"# the end\n", mark + windows + b"\r\n# the end", old,
            mark + old.rstrip(b"\r")]  # fmt: skip


@given(
    lines=st.lists(
        st.lists(
            st.sampled_from(
                ["t", "t", "t", "# c", "#", "2-3\tab" + 8 * "\t_", "1.1\tx" + 8 * "\t_"]
            ),
            min_size=1,
            max_size=6,
        ),
        min_size=1,
        max_size=5,
    ),
    end=st.sampled_from(["\n", "\r\n", "\r"]),
    data=st.data(),
)
def test_any_file_is_filled_as_line_by_line(
    lines: list[list[str]], end: str, data: st.DataObject
) -> None:
    text, n = [], 0
    for sentence in lines:
        number = minor = 0
        for line in sentence:
            if line == "t":
                number, n, minor = number + 1, n + 1, 0
                misc = ["_", "SpaceAfter=No", "ner=O|A=b"][n % 3]
                text.append(row(str(number), "häus", feats=["_", "A=1|c=2"][n % 2], misc=misc))
            elif line.startswith("1.1"):
                minor += 1
                text.append(line.replace("1.1", f"{number}.{minor}"))
            elif not line.startswith("2-3") or number == 1:
                text.append(line)
        text += [""] * data.draw(st.integers(1, 2))
    raw = end.join(text).encode()[: None if data.draw(st.booleans()) else -len(end)]
    if not n:
        return
    label = st.sampled_from(["NOUN", "_", "é"])
    labels = {
        name: data.draw(st.lists(label, min_size=n, max_size=n))
        for name in data.draw(st.sets(st.sampled_from(["upos", "misc", "lemma", "deprel"])))
    }

    def change(cells: list[str], token: int) -> None:
        for name, mine in labels.items():
            cells[CONLLU.index(name)] = mine[token]

    try:
        read_conllu(io.BytesIO(raw))
    except DataError as error:
        assert "id '2-3' " in str(error)  # noqa: PT017 (few files have one that cannot be)
        return
    assert filled(raw, labels) == by_line(raw, change)


# --- Parts of cells -------------------------------------------------------------------------------


def cells(text: bytes, name: str) -> list[str]:
    return read_conllu(io.BytesIO(text)).columns[name].strings()


def test_keys_of_the_last_column() -> None:
    rows = [row("1", "a"), row("2", "b", misc="SpaceAfter=No"), row("3", "c", misc="ner=X|Z=1"),
            row("4", "d", misc="ner=X"), row("5", "e", misc="A=1|ner=X|ner=Y|B")]  # fmt: skip
    text = ("\n".join(rows) + "\n\n").encode()
    found = filled(text, {"ner": ["B-PER", "O", "O", "_", "_"]})
    assert cells(found, "misc") == ["ner=B-PER", "SpaceAfter=No|ner=O", "ner=O|Z=1", "_", "A=1|B"]
    both = filled(text, {"ner": ["_"] * 5, "misc": ["_", "ner=1", "_", "q", "A=b"], "x": ["1"] * 5})
    assert cells(both, "misc") == ["x=1", "x=1", "x=1", "q|x=1", "A=b|x=1"]


def test_features_and_both_columns_at_once() -> None:
    rows = [
        row("1", "a"),
        row("2", "b", feats="Case=Nom|person=1"),
        row("3", "c", feats="Number=Plur"),
    ]
    text = ("\n".join(rows) + "\n\n").encode()
    found = filled(text, {"Number": ["Sing", "Sing", "_"]}, feature_columns=["Number"])
    assert cells(found, "feats") == ["Number=Sing", "Case=Nom|Number=Sing|person=1", "_"]
    found = filled(text, {"upos+feats": ["DET", "NOUN|Case=Acc|Number=Sing", "_"]})
    assert cells(found, "upos") == ["DET", "NOUN", "_"]
    assert cells(found, "feats") == ["_", "Case=Acc|Number=Sing", "_"]
    assert cells(found, "upos+feats") == ["DET", "NOUN|Case=Acc|Number=Sing", "_"]


@pytest.mark.parametrize(
    ("columns", "error", "message"),
    [
        ({"id": ["1"] * TOKENS}, OptionError, "column 'id' of CoNLL-U numbers the tokens"),
        (
            {"upos": [], "upos+feats": []},
            OptionError,
            r"'upos' of CoNLL-U is filled twice, by 'upos', 'u",
        ),
        (
            {"a=b": ["x"] * TOKENS},
            OptionError,
            "'a=b' is neither a column of CoNLL-U nor a key of its",
        ),
        (
            {"": ["x"] * TOKENS},
            OptionError,
            "'' is neither a column of CoNLL-U nor a key of its last",
        ),
        (
            {"_": ["x"] * TOKENS},
            OptionError,
            r"'_' .*: expected form, .*, misc, upos\+feats, or an",
        ),
        ({"upos": ["a"] * 3}, DataError, "3 labels of 'upos' for 12 tokens"),
        ({"upos": ["a"] * 20}, DataError, "20 labels of 'upos' for 12 tokens"),
        (
            {"upos": [*["a"] * 11, "b\tc"]},
            DataError,
            r"small:26: label 'b\\tc' of 'upos' would not",
        ),
        ({"upos": [*["a"] * 11, ""]}, DataError, r"small:26: label '' of 'upos' would not read ba"),
        ({"head": [*["3"] * 11, "a"]}, DataError, "small:26: label 'a' of 'head' .* numbers of"),
        (
            {"ner": [*["a"] * 11, "A|B"]},
            DataError,
            r"small:26: .*a value in a list has no '\|'; fill",
        ),
    ],
)
def test_what_cannot_be_filled(columns: Any, error: Any, message: str, tmp_path: Path) -> None:
    source = io.BytesIO(SMALL)
    source.name = "small"
    with pytest.raises(error, match=message):
        fill_conllu(source, tmp_path / "out.conllu", columns)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("\t6:punct\tSpaceAfter=No\n", "\tSpaceAfter=No\n", "9 columns, expected 10 split by tabs"),
        ("2-3\t", "3-2\t", "id '3-2', expected n, n-m"),
        ("\tcan\t", "\t\t", "column 'lemma' is empty"),
    ],
)
def test_files_that_are_no_conllu(old: str, new: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "in.conllu").write_bytes(SMALL.replace(old.encode(), new.encode(), 1))
    with pytest.raises(DataError, match=rf"in\.conllu:\d+: {message}"):
        fill_conllu(tmp_path / "in.conllu", tmp_path / "out.conllu", {"upos": ["a"] * TOKENS})
    assert not (tmp_path / "out.conllu").exists()


# --- The shell ------------------------------------------------------------------------------------

UPOS = "U0:%x[0,form]\nU1:%x[0,suffix(form,2)]\nB\n"
REL = "U0:%y[0,upos]\nU1:%x[0,form]\nB\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Taggers, a composition and a pipeline that were trained on the small file."""
    folder = tmp_path_factory.mktemp("filling")
    (folder / "in.conllu").write_bytes(SMALL)
    corpus = read_conllu(folder / "in.conllu", feature_columns=["Number"])
    upos = CRF.train(corpus, "upos", UPOS, max_iterations=5)
    rel = CRF.train(corpus, "deprel", REL, reads=[upos], max_iterations=5)
    number = CRF.train(corpus, Gold("Number", partial=False), UPOS, max_iterations=5)
    marked = corpus.with_interned("gold", corpus.columns["upos"])
    ner = CRF.train(marked, "gold", UPOS, tape="ner", max_iterations=5)
    for name, model in {"upos": upos, "rel": rel, "number": number, "ner": ner}.items():
        model.save(folder / name)
    both = compose(upos, rel, normalize="product")
    both.save(folder / "both")
    fstcrf.taggers.pipelines.TrainedPipeline(both).save(folder / "pipeline")
    return folder


def expected(folder: Path, model: str, text: bytes, names: Mapping[str, str]) -> bytes:
    tagger: Any = fstcrf.load(folder / model)
    corpus = read_conllu(io.BytesIO(text), feature_columns=["Number"])
    columns: Sequence[Column] = tagger.tag_columns(corpus)
    by_tape = dict(zip(tagger.tapes, columns, strict=True))
    return filled(text, {names[t]: c for t, c in by_tape.items()}, feature_columns=["Number"])


TARGETS = {
    "upos": {"upos": "upos"},
    "number": {"Number": "Number"},
    "ner": {"ner": "ner"},
    "both": {"upos": "upos", "deprel": "deprel"},
}


@pytest.mark.parametrize("model", TARGETS)
def test_tag_fills_what_training_took_the_labels_from(folder: Path, model: str) -> None:
    wanted = expected(folder, model, SMALL, TARGETS[model])
    path = folder / "in.conllu"
    assert done("tag", folder / model, path).encode() == wanted
    assert done("tag", folder / model, given=SMALL).encode() == wanted
    done("tag", folder / model, path, "-o", folder / "out.conllu.gz")
    assert gzip.decompress((folder / "out.conllu.gz").read_bytes()) == wanted
    again = done("tag", folder / model, folder / "out.conllu.gz")
    assert again.encode() == expected(folder, model, wanted, TARGETS[model])
    keys = [] if model in ("upos", "both") else ["ner"]
    same_but(SMALL, wanted, ["upos", "deprel", "feats"], keys)


@pytest.mark.thorough
@pytest.mark.parametrize("text", variants(SMALL), ids=map(str, range(9)))
def test_line_ends_and_marks_stay(folder: Path, text: bytes, tmp_path: Path) -> None:
    wanted = expected(folder, "both", text, TARGETS["both"])
    (tmp_path / "in.conllu").write_bytes(text)
    for command in (("tag", folder / "both"), ("tag", folder / "pipeline", "--decode", "joint")):
        done(*command, tmp_path / "in.conllu", "-o", tmp_path / "out.conllu")
        assert (tmp_path / "out.conllu").read_bytes() == wanted
    (tmp_path / "several").mkdir()
    (tmp_path / "in.conllu").rename(tmp_path / "several" / "in.conllu")
    done("tag", folder / "both", tmp_path / "several", "-o", tmp_path / "all")
    assert (tmp_path / "all" / "in.conllu").read_bytes() == wanted


def test_the_column_may_be_named(folder: Path) -> None:
    path = folder / "in.conllu"
    for column in ("xpos", "Pos", "lemma"):
        found = done("tag", folder / "upos", path, "--fill", column).encode()
        assert found == expected(folder, "upos", SMALL, {"upos": column})
    two = done("tag", folder / "both", path, "--fill", "upos=xpos,deprel=Rel").encode()
    assert two == expected(folder, "both", SMALL, {"upos": "xpos", "deprel": "Rel"})
    one = done("tag", folder / "pipeline", path, "--fill", "deprel=deps", "--tape", "deprel")
    same_but(SMALL, one.encode(), ["deps"])
    for arguments, message in (
        (("upos", path, "--fill", "id"), "column 'id' of CoNLL-U numbers the tokens"),
        (("both", path, "--fill", "deprel=upos"), "column 'upos' of CoNLL-U is filled twice"),
        (("both", path, "--fill", "upos"), "--fill upos: expected TAPE=COLUMN, the tapes are"),
        (
            ("upos", path, "--fill", "_"),
            "'_' is neither a column of CoNLL-U nor a key of its last column:",
        ),
        (("upos", "x", "--columns", "form", "--fill", "upos"), "--fill is for CoNLL-U"),
    ):
        assert failure("tag", folder / arguments[0], *arguments[1:], status=2).startswith(message)


def test_numbers_are_keys_and_comments(folder: Path) -> None:
    path = folder / "in.conllu"
    plain = done("tag", folder / "both", path)
    text = done("tag", folder / "both", path, "--probabilities", "--decode", "product")
    lines = [line for line in text.splitlines() if not line.startswith("# probability = ")]
    assert [re.sub(r"\|?\w+:p=[01]\.\d+", "", line) for line in lines] != []
    assert len(lines) == len(plain.splitlines())
    same_but(SMALL, without(text), ["upos", "deprel"], ["upos:p", "deprel:p"])
    spans = done("tag", folder / "upos", path, "--span-probabilities", "--marginals")
    for _, tokens in parsed(spans.encode()):
        for token in tokens:
            if isinstance(token["id"], int):
                share = {k: float(v) for k, v in token["misc"].items() if k.startswith("upos:")}
                assert share.pop("upos:p") == share["upos:" + token["upos"]]
                share.pop("upos:span", None)
                assert sum(share.values()) == pytest.approx(1, abs=1e-4)


def without(text: str) -> bytes:
    return re.sub("# probability = .*\n", "", text).encode()


def test_the_n_best_come_one_after_the_other(folder: Path, tmp_path: Path) -> None:
    for data in (*variants(SMALL)[:4], SMALL.replace(b"\n", b"\r")):
        (tmp_path / "in.conllu").write_bytes(data)
        done("tag", folder / "upos", tmp_path / "in.conllu", "--nbest", 2, "-o", tmp_path / "out")
        text = (tmp_path / "out").read_bytes().decode()
        found = parsed(re.sub("\r\n?", "\n", text).encode())
        assert [c["nbest"].split()[0] for c, _ in found] == ["0", "1"] * 3
        assert text.count("# newdoc") == 2
        assert [len(t) for _, t in found] == [n for _, s in parsed(SMALL) for n in [len(s)] * 2]
        best = [c for c in found if c[0]["nbest"].startswith("0 ")]
        plain = parsed(done("tag", folder / "upos", given=SMALL).encode())
        assert [tokens for _, tokens in best] == [tokens for _, tokens in plain]


def test_bad_files_are_named_by_line(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "bad.conllu"
    path.write_bytes(SMALL.replace(b"\tLang=de\n", b"\n"))
    line = failure("tag", folder / "upos", path, "-o", tmp_path / "out.conllu")
    assert line.startswith(f"{path}:19: 9 columns, expected 10 split by tabs")
    assert not (tmp_path / "out.conllu").exists()
    assert run("tag", folder / "upos", "--format", "conllu", given="# only comments\n").stdout == (
        "# only comments\n"
    )


def test_scores_of_what_was_filled(folder: Path) -> None:
    path = folder / "in.conllu"
    done("tag", folder / "upos", path, "-o", folder / "pred.conllu")
    report = done("eval", folder / "upos", path)
    gold = ("eval", "--gold", path, "--pred", folder / "pred.conllu", "--target", "upos")
    assert done(*gold) == done(*gold, "--pred-column", "upos") == report
    text = failure("eval", "--pred", folder / "pred.conllu", status=2)
    assert text.startswith("CoNLL-U has no last column of labels: --target and --pred-column")
