"""Gold labels that break their scheme: errors, repairs, sentences left out, other schemes."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

import fstcrf
import tests.support.command as program
from fstcrf import CRF, Corpus, Pipeline, Task
from fstcrf.constraints import at_most
from fstcrf.errors import DataError, LabelWarning, OptionError, SchemeError
from fstcrf.text.corpus import concatenated, convert, legal_transitions, read_columns, spans
from fstcrf.training import Gold, Reads
from fstcrf.training.gold import legal_gold
from fstcrf.training.options import checked_options
from tests.support.training import flat_train

WAY_OUT = "'repair' takes the spans that conlleval reads, 'skip' leaves the sentences out"
IOB1 = [["I-A", "I-A", "O"], ["O", "I-B", "B-B"], ["O"]]
ILLEGAL = [["B-A", "I-A", "O"], ["O", "I-B", "I-A"], [], ["B-A", "B-A"]]
TEMPLATE = "U:%x[0,word]\nB"


def corpus(labels: list[list[str]]) -> Corpus:
    return Corpus.from_sentences(
        [{"word": [f"w{i % 3}" for i in range(len(one))], "y": one} for one in labels]
    )


def gold(labels: list[list[str]], **options: Any) -> tuple[list[list[str]], list[bool]]:
    found = legal_gold(corpus(labels), "y", checked_options(options))
    return found.corpus.column_lists("y"), found.kept.tolist()


def train(labels: list[list[str]], **options: Any) -> CRF:
    return flat_train(corpus(labels), "y", TEMPLATE, max_iterations=3, **options)


def test_the_error_names_the_first_their_number_and_the_way_out() -> None:
    with pytest.raises(SchemeError) as caught:
        train(ILLEGAL, scheme="iob2")
    assert str(caught.value) == (
        "sentence 1, token 1: 'I-B' after 'O' is no iob2, the first of 2 illegal labels in 1 of 4 "
        f"sentences: on_illegal {WAY_OUT}"
    )
    with pytest.raises(SchemeError, match=r"all are legal in iob1, which scheme 'iob1:bioes'"):
        train(IOB1, scheme="bioes")


def test_labels_that_a_grammar_forbids_have_a_line(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x B-A\ny I-A\n\nz B-A\nx O\nz B-A\n")
    data = read_columns(tmp_path / "a", ["word", "y"])
    with pytest.raises(DataError, match=r"a:6: label 'B-A' .* grammar forbids it"):
        CRF.train(data, "y", TEMPLATE, scheme="iob2", grammar=at_most(1, "A"))


def test_what_cannot_be_repaired_is_not_advised_to_be() -> None:
    data = [["O", "BX"], ["O", "B-X"]]
    with pytest.raises(
        SchemeError, match=r"'BX' is no iob2.*correct what is no label, or"
    ) as caught:
        train(data, scheme="iob2")
    assert "repair" not in str(caught.value)
    with pytest.raises(SchemeError, match="cannot be repaired"):
        train(data, scheme="iob2", on_illegal="repair")


def test_file_and_line_also_of_several_files(tmp_path: Path) -> None:
    for name, text in (("a", "x B-A\ny I-A\n\n"), ("b", "x O\n\nz I-B\n")):
        (tmp_path / name).write_text(text)
    files = [read_columns(tmp_path / name, ["word", "y"]) for name in "ab"]
    for data in (files[1], concatenated(files), concatenated(files)[1:]):
        with pytest.raises(SchemeError, match="'I-B' after the start") as caught:
            CRF.train(data, "y", TEMPLATE, scheme="iob2")
        assert str(caught.value).startswith(f"{tmp_path / 'b'}:3: ")
        assert (caught.value.path, caught.value.line) == (str(tmp_path / "b"), 3)


def test_repair_is_the_reading_of_conlleval() -> None:
    with pytest.warns(LabelWarning, match="repaired 1 of 4 sentences, whose labels are no iob2"):
        model = train(ILLEGAL, scheme="iob2", on_illegal="repair")
    assert model.labels == ("B-A", "B-B", "I-A", "O")
    assert model.record is not None
    assert model.record.sentences == 3
    assert gold(ILLEGAL, scheme="iob2", on_illegal="repair")[0][1] == ["O", "B-B", "B-A"]


def test_skip_leaves_the_sentences_out_with_all_that_is_in_them() -> None:
    with pytest.warns(LabelWarning, match=r"left out 1 of 4 sentences.*sentence 1, token 1: 'I-B'"):
        model = train(ILLEGAL, scheme="iob2", on_illegal="skip", weights=[1, np.inf, 1, 2])
    same = train([ILLEGAL[0], ILLEGAL[3]], scheme="iob2", weights=[1, 2])
    assert model.labels == same.labels == ("B-A", "I-A", "O")
    assert model.theta.tobytes() == same.theta.tobytes()
    with pytest.raises(SchemeError, match="no sentence is left to train on"):
        train([["I-A"], ["NN"]], scheme="iob2", on_illegal="skip")


def test_another_scheme_is_converted_with_the_held_out_labels() -> None:
    wanted = [convert(one, "iob1", "bioes") for one in IOB1]
    assert gold(IOB1, scheme="iob1:bioes") == (wanted, [True] * 3)
    found = train(IOB1, scheme="iob1:bioes", dev=corpus(IOB1))
    by_hand = train(wanted, scheme="bioes", dev=corpus(wanted))
    assert found.labels == by_hand.labels
    assert found.theta.tobytes() == by_hand.theta.tobytes()
    assert found.record is not None
    assert by_hand.record is not None
    assert found.record.dev_score == by_hand.record.dev_score
    assert gold(IOB1, scheme="bio:iob1", on_illegal="repair")[0][1] == ["O", "I-B", "B-B"]
    with pytest.raises(SchemeError, match="'B-B' after 'O' is no iob1"):
        train([["O", "B-B"]], scheme="iob1:iob2")


def test_bio_is_iob2() -> None:
    labels = [["B-A", "I-A"], ["O", "B-A"]]
    one, other = (train(labels, scheme=name) for name in ("bio", "iob2"))
    assert one.theta.tobytes() == other.theta.tobytes()
    assert gold(labels, scheme="bio:iob2") == (labels, [True, True])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"scheme": "iob1:nope"}, "scheme 'nope', expected one of"),
        ({"scheme": "conlleval"}, "conlleval accepts every label"),
        ({"scheme": "iob2:conlleval"}, "conlleval accepts every label"),
        ({"scheme": "iob1:observed"}, "scheme 'observed', expected one of"),
        ({"scheme": "iob2", "on_illegal": "drop"}, "on_illegal is 'drop', expected one of 'error'"),
        ({"on_illegal": "skip"}, "on_illegal 'skip' needs a scheme"),
        ({"scheme": "observed", "on_illegal": "repair"}, "on_illegal 'repair' needs a scheme"),
    ],
)
def test_options_that_cannot_be(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        train(ILLEGAL, **options)


def test_what_cannot_be_repaired() -> None:
    with pytest.raises(SchemeError, match=r"label 'NN' is no iob2: .* cannot be repaired"):
        train([["B-A"], ["NN"]], scheme="iob2", on_illegal="repair")
    with pytest.raises(SchemeError, match=r"label '_' is not known.* cannot be repaired"):
        train([["B-A"], ["I-A", "_"]], scheme="iob2", on_illegal="repair")
    with pytest.raises(SchemeError, match="label '_' is not known"):
        train([["I-A"], ["I-A", "_"]], scheme="iob1:iob2")
    labels = [["I-A"], ["I-A", "_"]]
    assert gold(labels, scheme="iob1:iob2", on_illegal="skip")[1] == [True, False]


LABELS = ("O", "B-A", "I-A", "B-B", "I-B", "_", "O|I-A", "B-A|I-B")


@given(st.lists(st.lists(st.sampled_from(LABELS), max_size=4), min_size=1, max_size=4))
def test_a_sentence_stays_when_one_of_its_labellings_is_legal(labels: list[list[str]]) -> None:
    names = ["O", "B-A", "I-A", "B-B", "I-B"]
    table = legal_transitions(names, "iob2")

    def legal(labelling: tuple[str, ...]) -> bool:
        path = [-1, *map(names.index, labelling), -1]
        return not labelling or all(table[a, b] for a, b in itertools.pairwise(path))

    known = corpus([*labels, names[:3], ["O", "B-B", "I-B"]])
    options = checked_options({"scheme": "iob2", "on_illegal": "skip"})
    kept = legal_gold(known, "y", options).kept.tolist()
    for one, stays in zip(labels, kept, strict=False):
        sets = [names if label == "_" else label.split("|") for label in one]
        assert stays == any(map(legal, itertools.product(*sets)))


@given(st.lists(st.lists(st.sampled_from(LABELS[:5]), max_size=5), min_size=1, max_size=4))
def test_repair_keeps_the_spans(labels: list[list[str]]) -> None:
    for scheme in ("iob1", "iob2", "bioes"):
        found, kept = gold([*labels, ["O"]], scheme=f"iob2:{scheme}", on_illegal="repair")
        assert all(kept)
        assert found.pop() == ["O"]
        for before, after in zip(labels, found, strict=True):
            assert spans(after, scheme, illegal="raise") == spans(before)


def task(labels: list[list[str]], **options: Any) -> Task:
    return Task("y", corpus(labels), TEMPLATE, options={"max_iterations": 2, **options})


@pytest.mark.parametrize("first", ["X", "_"])
def test_what_a_grammar_forbids_is_named_with_its_place_in_the_data(first: str) -> None:
    data: list[dict[str, list[str]]] = [
        {"word": [], "tag": []},
        {"word": ["a", "b"], "tag": ["X", "Y"]},
        {"word": ["a", "b", "a"], "tag": [first, "Y", "Y"]},
    ]
    grammar = fstcrf.Grammar.from_text('export E = any* - (any* "[Y]" "[Y]" any*);')
    with pytest.raises(DataError, match=r"^sentence 2, token 2: label 'Y' .*grammar") as caught:
        CRF.train(data, Gold("tag", partial=True), "U:%x[0,word]\nB", grammar=grammar)
    assert (caught.value.sentence, caught.value.token) == (2, 2)


def test_pipelines_say_it_before_anything_is_trained() -> None:
    told: list[str] = []
    with pytest.raises(SchemeError, match="sentence 1, token 1: task 'y': 'I-B' after 'O' is no"):
        Pipeline([task(ILLEGAL, scheme="iob2")]).train(told=told.append)
    assert told == []
    with pytest.warns(LabelWarning, match="left out 1 of 4"):
        found = Pipeline([task(ILLEGAL, scheme="iob2", on_illegal="skip")]).train()
    assert found["y"].labels == ("B-A", "I-A", "O")
    assert task(IOB1, scheme="iob1:iob2").label_names == ["B-A", "B-B", "I-A", "O"]
    assert "B-A" in Pipeline([task(IOB1, scheme="iob1:iob2")]).train()["y"].labels


def test_jackknife_trains_again_as_it_was_trained() -> None:
    data = corpus(IOB1 * 3).with_column("z", [["O"] * len(one) for one in IOB1 * 3])
    first = CRF.train(data, "y", TEMPLATE, scheme="iob1:iob2", max_iterations=2)
    second = CRF.train(
        data, "z", "U:%y[0,y]/%x[0,word]\nB", reads=Reads([first], jackknife=3), max_iterations=2
    )
    assert [tape.labels for tape in second.reads] == [first.labels]


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.tpl").write_text("U:%x[0,word]\nB\n")
    Path("iob1.txt").write_text("a I-A\nb I-A\nc O\n\nc O\nb I-B\nb B-B\n")
    Path("bad.txt").write_text("a B-A\n\nc O\nb I-B\n")


SHELL = ("--columns", "word,y", "--target", "y", "--template", "t.tpl", "--max-iterations", "2")


@pytest.mark.usefixtures("files")
def test_in_the_shell() -> None:
    done = program.run("train", "bad.txt", "-o", "m", *SHELL, "--scheme", "bio")
    assert done.exit_code == 1
    assert done.stderr.splitlines()[-1] == (
        "fstcrf: error: bad.txt:4: 'I-B' after 'O' is no iob2, the first of 1 illegal labels in 1 "
        f"of 2 sentences: --set on_illegal {WAY_OUT}"
    )
    assert not Path("m").exists()
    for how, said in (("skip", "left out"), ("repair", "repaired")):
        done = program.run(
            "train", "bad.txt", "-o", "m", *SHELL, "--scheme", "iob2", "--set", f"on_illegal={how}"
        )
        assert done.exit_code == 0
        line = f"fstcrf: {said} 1 of 2 sentences, whose labels are no iob2; the first: bad.txt:4: "
        assert [one for one in done.stderr.splitlines() if one.startswith(line)]
    done = program.run("train", "iob1.txt", "-o", "m", *SHELL, "--scheme", "iob1:iob2")
    assert done.exit_code == 0
    assert fstcrf.CRF.load("m").labels == ("B-A", "B-B", "I-A", "O")
    done = program.run("train", "iob1.txt", "-o", "n", *SHELL, "--scheme", "iob9")
    assert done.exit_code == 2
    assert "--scheme 'iob9', expected one of iob1, iob2, bio" in done.stderr


def test_a_column_that_is_not_there() -> None:
    with pytest.raises(DataError, match="no column 'z'"):
        CRF.train(corpus(IOB1), "z", TEMPLATE, scheme="iob1:iob2")
