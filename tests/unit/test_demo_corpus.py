"""The demo corpus: shipped files, the generator behind them, and what the text promises."""

from collections import defaultdict
from itertools import pairwise

import pytest

from fstcrf.demo import COLUMNS, corpus_path, grammar_path, template_path
from fstcrf.demo.generate import SPLITS, Draws, Token, clock, generate, main, scene, shipped
from fstcrf.demo.grammar import NOTICE, RULES, WORDS
from fstcrf.errors import OptionError
from fstcrf.machines.grammar import Grammar
from fstcrf.text.corpus import read_columns

FIELDS = {"HOST", "PLACE", "DAY", "START", "END"}
TAGS = set("NOUN NAME VERB AUX ADJ ADV DET PREP PRON NUM CONJ PUNCT".split())  # noqa: SIM905


def sentences(part: str) -> list[list[Token]]:
    """Read a shipped part without the package's reader."""
    blocks = corpus_path(part).read_text(encoding="utf-8").strip().split("\n\n")
    return [
        [Token(*line.split(" ")) for line in block.split("\n")]
        for block in blocks
        if not block.startswith("-DOCSTART-")
    ]


@pytest.mark.parametrize("part", SPLITS)
def test_shipped_file_is_what_the_generator_gives(part: str) -> None:
    assert corpus_path(part).read_bytes() == shipped(part).encode()


@pytest.mark.parametrize("part", SPLITS)
def test_sizes_and_documents(part: str) -> None:
    text = corpus_path(part).read_text(encoding="utf-8")
    notices = text.count("-DOCSTART- -X- O\n\n")
    assert len(sentences(part)) == SPLITS[part].sentences
    assert 3 <= SPLITS[part].sentences / notices <= 6
    assert {len(line.split(" ")) for line in text.splitlines() if line} == {len(COLUMNS)}


def test_all_parts_together_are_small() -> None:
    assert sum(corpus_path(part).stat().st_size for part in SPLITS) < 400_000


@pytest.mark.parametrize("part", SPLITS)
def test_label_sets(part: str) -> None:
    rows = [row for sentence in sentences(part) for row in sentence]
    assert {row.pos for row in rows} == TAGS
    assert {row.field for row in rows} == {"O"} | {f"{p}-{f}" for p in "BI" for f in FIELDS}


@pytest.mark.parametrize("part", SPLITS)
def test_fields_are_iob2_at_most_one_of_each_and_start_before_end(part: str) -> None:
    for sentence in sentences(part):
        labels = ["O", *(row.field for row in sentence)]
        for before, label in pairwise(labels):
            assert not label.startswith("I-") or before[2:] == label[2:]
        begun = [label[2:] for label in labels if label.startswith("B-")]
        assert len(begun) == len(set(begun))
        assert begun.index("START") < begun.index("END") if {"START", "END"} <= {*begun} else True


def test_many_words_have_several_parts_of_speech() -> None:
    tags = defaultdict(set)
    for sentence in sentences("train"):
        for row in sentence:
            tags[row.word.lower()].add(row.pos)
    assert {"NAME", "NOUN"} <= tags["marsh"]
    assert {"NOUN", "VERB"} <= tags["talks"]
    assert {"AUX", "NAME"} <= tags["will"]
    assert {"AUX", "NAME"} <= tags["may"]
    assert {"ADJ", "VERB"} <= tags["open"]
    assert sum(len(each) > 1 for each in tags.values()) >= 30


@pytest.mark.parametrize("field", ["START", "PLACE", "DAY", "HOST"])
def test_the_same_words_are_a_field_here_and_none_there(field: str) -> None:
    inside: set[str] = set()
    outside: set[str] = set()
    for sentence in sentences("train"):
        for row in sentence:
            (inside if row.field == f"B-{field}" else outside).add(row.word)
    assert len(inside & outside) >= 10


@pytest.mark.parametrize("part", ["dev", "test"])
def test_unseen_words(part: str) -> None:
    known = {row.word.lower() for sentence in sentences("train") for row in sentence}
    words = [row.word.lower() for sentence in sentences(part) for row in sentence]
    assert 0.02 < sum(word not in known for word in words) / len(words) < 0.12


def test_same_seed_same_notices_other_seed_others() -> None:
    assert generate(7, 20) == generate(7, 20)
    assert generate(7, 20) != generate(8, 20)


@pytest.mark.parametrize("fresh", [0.0, 1.0])
@pytest.mark.parametrize("size", [0, 1, 50])
def test_generate_gives_as_many_sentences_as_asked(size: int, fresh: float) -> None:
    assert sum(map(len, generate(11, size, fresh=fresh))) == size


@pytest.mark.parametrize(("size", "fresh"), [(-1, 0.0), (1, -0.1), (1, 1.1), (1, float("nan"))])
def test_generate_refuses_what_it_cannot_do(size: int, fresh: float) -> None:
    with pytest.raises(OptionError, match="expected"):
        generate(1, size, fresh=fresh)


def test_every_symbol_of_the_grammar_is_defined_and_every_class_is_used() -> None:
    items = [item for rule in RULES.values() for _, expansion in rule for item in expansion]
    used = {item[1:] for item in items if item.startswith("$")}
    fixed = {item[1:] for item in items if item.startswith("@")}
    entries = {symbol for symbol, _ in NOTICE} | {"topic", "event", "person", "place", "date"}
    assert used | entries == set(RULES) | set(WORDS)
    assert fixed == set(scene(Draws(1, fresh=0.0)))
    assert {item[1:] for item in items if item.startswith("[")} == FIELDS


def test_two_names_of_a_notice_share_no_word() -> None:
    draws = Draws(5, fresh=0.5)
    for _ in range(200):
        names = scene(draws)
        for one, other in (("host", "person"), ("place", "other"), ("day", "deadline")):
            shared = {row.word for row in names[one]} & {row.word for row in names[other]}
            assert shared <= {"the"}


@pytest.mark.parametrize(
    ("half_hours", "style", "words"),
    [
        (24, "7.30 pm", "noon"),
        (24, "19:30", "12:00"),
        (23, "7.30 pm", "11.30 am"),
        (25, "7.30pm", "12.30pm"),
        (26, "7.30", "1"),
        (38, "half past seven", "seven o'clock"),
        (39, "half past seven", "half past seven"),
    ],
)
def test_clock(half_hours: int, style: str, words: str) -> None:
    assert " ".join(row.word for row in clock(half_hours, style)) == words


def test_main_prints_the_shipped_file(capsys: pytest.CaptureFixture[str]) -> None:
    main(["dev"])
    assert capsys.readouterr().out == shipped("dev")


@pytest.mark.parametrize("name", ["pos", "field", "joint"])
def test_templates_are_shipped(name: str) -> None:
    lines = template_path(name).read_text(encoding="utf-8").splitlines()
    assert "U00:%x" in "\n".join(lines)
    assert "B" in lines


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
    with pytest.raises(OptionError, match="'tests'; there are train, dev, test"):
        shipped("tests")
