"""The demo corpus: shipped files, and what the text promises."""

from typing import NamedTuple

import pytest

from fstcrf.demo import COLUMNS, corpus_path, grammar_path, template_path
from fstcrf.errors import OptionError
from fstcrf.machines.grammar import Grammar
from fstcrf.text.corpus import read_columns

SPLITS = {"train": 1200, "dev": 200, "test": 300}
FIELDS = {"HOST", "PLACE", "DAY", "START", "END"}
TAGS = set("NOUN NAME VERB AUX ADJ ADV DET PREP PRON NUM CONJ PUNCT".split())  # noqa: SIM905


class Token(NamedTuple):
    word: str
    pos: str
    field: str


def sentences(part: str) -> list[list[Token]]:
    """Read a shipped part without the package's reader."""
    blocks = corpus_path(part).read_text(encoding="utf-8").strip().split("\n\n")
    return [
        [Token(*line.split(" ")) for line in block.split("\n")]
        for block in blocks
        if not block.startswith("-DOCSTART-")
    ]


@pytest.mark.parametrize("part", SPLITS)
def test_sizes_and_documents(part: str) -> None:
    text = corpus_path(part).read_text(encoding="utf-8")
    notices = text.count("-DOCSTART- -X- O\n\n")
    assert len(sentences(part)) == SPLITS[part]
    assert 3 <= SPLITS[part] / notices <= 6
    assert {len(line.split(" ")) for line in text.splitlines() if line} == {len(COLUMNS)}


@pytest.mark.parametrize("part", SPLITS)
def test_label_sets(part: str) -> None:
    rows = [row for sentence in sentences(part) for row in sentence]
    assert {row.pos for row in rows} == TAGS
    assert {row.field for row in rows} == {"O"} | {f"{p}-{f}" for p in "BI" for f in FIELDS}


def test_the_joint_template_reads_the_tape_and_is_else_the_same() -> None:
    field, joint = (
        template_path(name).read_text(encoding="utf-8").splitlines() for name in ("field", "joint")
    )
    rules = [[line for line in lines if line[:1] != "#"] for lines in (field, joint)]
    assert rules[1] == [line.replace("%x[0,pos]", "%y[0,pos]") for line in rules[0]]


@pytest.mark.parametrize("part", ["train", "dev", "test"])
def test_all_notices_obey_the_grammar(part: str) -> None:
    corpus = read_columns(corpus_path(part), COLUMNS)
    grammar = Grammar.from_file(grammar_path(), {"field": corpus.column("field").values})
    labels = corpus.column_lists("field")
    assert [fields for fields in labels if not grammar.accepts({"field": fields})] == []


def test_unknown_names_are_named() -> None:
    with pytest.raises(OptionError, match="'tests'; there are train, dev, test"):
        corpus_path("tests")
    with pytest.raises(OptionError, match="'chunk'; there are pos, field"):
        template_path("chunk")
