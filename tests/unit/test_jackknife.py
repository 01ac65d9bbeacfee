"""Jack-knifing: labels from taggers that were trained on the other folds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

import fstcrf
from fstcrf import CRF, Corpus
from fstcrf.errors import DataError, OptionError
from fstcrf.text.features import tape_column
from fstcrf.training import Dev, Features, Gold, Progress, Reads, Run
from fstcrf.training.options import Options, options_of, stored_options
from fstcrf.training.passing import FoldProgress, folds, pass_on, with_labels
from fstcrf.training.record import Report, TrainingRecord
from tests.support.command import done, run

POS = "U:%x[0,word]\nB\n"
CHUNK = "U1:%y[0,pos]\nU2:%x[0,word]\nB\n"
WORDS = ["a", "b", "c", "d", "e", "f"]


def sentences(n: int = 12, seed: int = 0) -> Corpus:
    rng = np.random.default_rng(seed)
    return Corpus.from_sentences(
        [
            {
                "word": [WORDS[i] for i in rng.integers(6, size=4)],
                "pos": [f"P{i}" for i in rng.integers(3, size=4)],
                "y": [f"Y{i}" for i in rng.integers(2, size=4)],
            }
            for _ in range(n)
        ]
    )


DATA = sentences()


def jackknifed(
    corpus: Corpus,
    taggers: list[CRF],
    k: int,
    *,
    seed: int = 0,
    threads: int = 1,
    report: Report | None = None,
) -> Corpus:
    settings = Options(jackknife=k, seed=seed)
    return pass_on(corpus, taggers, settings, threads=threads, report=report).corpus


@pytest.fixture(scope="module")
def pos() -> CRF:
    return CRF.train(DATA, "pos", POS, l2=0.01)


def labels_of(corpus: Corpus, tape: str) -> list[list[str]]:
    return corpus.column_lists(tape_column(tape))


def weights(model: CRF) -> dict[tuple[str, str], float]:
    found = model.top_features(model.space.size)
    return {(w.attribute, w.slot): w.weight for w in found}


def test_folds_are_a_partition_of_even_sizes() -> None:
    found = folds(11, 3, 0)
    assert sorted(np.bincount(found).tolist()) == [3, 4, 4]
    assert np.array_equal(found, folds(11, 3, 0))
    assert not np.array_equal(found, folds(11, 3, 1))
    assert sorted(folds(4, 4, 0).tolist()) == [0, 1, 2, 3]
    shuffled = folds(11, 3, 0)[np.random.default_rng(0).permutation(11)]
    assert shuffled.tolist() == [0, 1, 2] * 3 + [0, 1]


def test_each_fold_is_labelled_by_a_tagger_of_the_others(pos: CRF) -> None:
    found = labels_of(jackknifed(DATA, [pos], 3, seed=5), "pos")
    fold = folds(len(DATA), 3, 5)
    for number in range(3):
        rest = DATA.select(np.flatnonzero(fold != number))
        tagger = CRF.train(rest, "pos", POS, l2=0.01)
        for i in np.flatnonzero(fold == number).tolist():
            assert found[i] == tagger.tag(DATA[i])
    assert found != pos.tag_all(DATA), "those of the tagger itself"


@pytest.mark.thorough
def test_training_reads_them_and_stores_the_given_tagger(pos: CRF, tmp_path: Path) -> None:
    model = CRF.train(DATA, "y", CHUNK, reads=Reads([pos], jackknife=3), run=Run(seed=5))
    plain = CRF.train(DATA, "y", CHUNK, reads=[pos], run=Run(seed=5))
    seen = labels_of(jackknifed(DATA, [pos], 3, seed=5), "pos")
    data = DATA.with_column("labels", seen)
    by_hand = CRF.train(data, "y", CHUNK.replace("%y[0,pos]", "%x[0,labels]"), run=Run(seed=5))
    assert weights(model) == pytest.approx(weights(by_hand), abs=1e-6)
    assert model.reads == plain.reads
    assert model.columns == ("word", "pos", "y")
    assert weights(model) != pytest.approx(weights(plain), abs=1e-3)
    model.save(tmp_path / "m")
    record = CRF.load(tmp_path / "m").record
    assert record is not None
    assert record == model.record
    assert record.options["jackknife"] == 3


def test_the_settings_are_those_of_the_tagger() -> None:
    tagger = CRF.train(
        DATA,
        Gold("pos", class_weights={"P1": 3.0}),
        Features("U:%x[-1..1,word]", min_count=2, boundary="skip"),
        tape="tags",
        order=2,
        method="perceptron",
        run=Run(seed=3),
    )
    found = labels_of(jackknifed(DATA, [tagger], 2), "tags")
    fold = folds(len(DATA), 2, 0)
    again = CRF.train(
        DATA.select(np.flatnonzero(fold != 0)),
        Gold("pos", class_weights={"P1": 3.0}),
        Features("U:%x[-1..1,word]", min_count=2, boundary="skip"),
        order=2,
        method="perceptron",
        run=Run(seed=3),
    )
    held = np.flatnonzero(fold == 0).tolist()
    assert [found[i] for i in held] == again.tag_all(DATA.select(held))


def test_what_held_out_data_decided_is_the_number_of_iterations() -> None:
    tagger = CRF.train(
        DATA, "pos", POS, dev=Dev(sentences(seed=1), patience=2), method="perceptron"
    )
    assert tagger.record is not None
    best = tagger.record.best_iteration
    assert 0 < best < tagger.record.iterations
    stages: list[Progress] = []
    jackknifed(DATA, [tagger], 2, report=stages.append)
    assert [p.iteration for p in stages] == [*range(1, best + 1)] * 2


def test_labels_and_class_weights_that_a_fold_does_not_have() -> None:
    data = DATA[:4].with_column("pos", [["P0"] * 4, ["P1"] * 4, ["P2"] * 4, ["P3"] * 4])
    tagger = CRF.train(data, Gold("pos", class_weights={"P3": 2.0}), POS)
    found = labels_of(jackknifed(data, [tagger], 4), "pos")
    for i, labels in enumerate(found):
        assert f"P{i}" not in labels


@pytest.mark.thorough
def test_a_cascade_is_trained_again_in_each_fold(pos: CRF) -> None:
    chunk = CRF.train(DATA, "y", CHUNK, reads=[pos], tape="chunk", l2=0.01)
    found = jackknifed(DATA, [pos, chunk], 3)
    fold = folds(len(DATA), 3, 0)
    for number in range(3):
        rest = DATA.select(np.flatnonzero(fold != number))
        held = DATA.select(np.flatnonzero(fold == number))
        first = CRF.train(rest, "pos", POS, l2=0.01)
        second = CRF.train(rest, "y", CHUNK, reads=[first], l2=0.01)
        wanted = with_labels(held, [first, replace(second, tape="chunk")])
        mine = found.select(np.flatnonzero(fold == number))
        assert labels_of(mine, "pos") == labels_of(wanted, "pos")
        assert labels_of(mine, "chunk") == labels_of(wanted, "chunk")
    model = CRF.train(
        DATA, "y", "U:%y[0,chunk]\n", reads=Reads([chunk, pos], jackknife=3), tape="z"
    )
    assert [tape.name for tape in model.reads] == ["chunk"]


def test_reports_say_which_fold(pos: CRF) -> None:
    told: list[Progress] = []
    CRF.train(
        DATA,
        "y",
        CHUNK,
        reads=Reads([pos], jackknife=2),
        max_iterations=1,
        run=Run(report=told.append),
    )
    stages = [p.stage if isinstance(p, FoldProgress) else None for p in told]
    assert list(dict.fromkeys(stages)) == ["pos, fold 1 of 2", "pos, fold 2 of 2", None]
    chunk = CRF.train(
        DATA, "y", CHUNK, tape="chunk", reads=Reads([pos], jackknife=2), max_iterations=1
    )
    told.clear()
    jackknifed(DATA, [pos, chunk], 2, report=told.append)
    stages = [p.stage if isinstance(p, FoldProgress) else None for p in told]
    assert list(dict.fromkeys(stages))[:4] == [
        "pos, fold 1 of 2",
        "chunk, fold 1 of 2: pos, fold 1 of 2",
        "chunk, fold 1 of 2: pos, fold 2 of 2",
        "chunk, fold 1 of 2",
    ]


def test_threads_change_nothing(pos: CRF) -> None:
    one = jackknifed(DATA, [pos], 3)
    two = jackknifed(DATA, [pos], 3, threads=2)
    assert labels_of(one, "pos") == labels_of(two, "pos")


def test_empty_sentences_are_in_no_fold(pos: CRF) -> None:
    empty: Any = {"word": [], "pos": [], "y": []}
    data = [DATA[0], empty, DATA[1], empty]
    model = CRF.train(data, "y", CHUNK, reads=Reads([pos], jackknife=2))
    same = CRF.train([DATA[0], DATA[1]], "y", CHUNK, reads=Reads([pos], jackknife=2))
    assert np.array_equal(model.theta, same.theta)
    with pytest.raises(OptionError, match="jackknife is 3, expected at most the 2 sentences"):
        CRF.train(data, "y", CHUNK, reads=Reads([pos], jackknife=3))


def test_options_that_are_wrong(pos: CRF) -> None:
    with pytest.raises(OptionError, match="jackknife is 1, expected at least 2"):
        CRF.train(DATA, "y", CHUNK, reads=Reads([pos], jackknife=1))
    with pytest.raises(OptionError, match="jackknife is 13, expected at most the 12 sentences"):
        CRF.train(DATA, "y", CHUNK, reads=Reads([pos], jackknife=13))
    with pytest.raises(OptionError, match="jackknife is for the taggers of reads="):
        CRF.train(DATA, "y", "U:%x[0,word]", reads=Reads(jackknife=3))
    with pytest.raises(OptionError, match="jackknife is 'three', expected a whole number"):
        CRF.train(DATA, "y", CHUNK, reads=Reads([pos], jackknife="three"))  # type: ignore[arg-type]


def test_taggers_that_cannot_be_trained_again(pos: CRF) -> None:
    def attempt(tagger: CRF, data: Corpus = DATA) -> None:
        CRF.train(data, "y", CHUNK, reads=Reads([tagger], jackknife=2))

    with pytest.raises(OptionError, match="tape 'pos' again: it has no record"):
        attempt(replace(pos, record=None))
    listed = CRF.train(DATA, DATA.column_lists("pos"), POS, tape="pos")
    with pytest.raises(OptionError, match="its record names no column of gold labels"):
        attempt(listed)
    columns = {("tag" if name == "pos" else name): c for name, c in DATA.columns.items()}
    renamed = Corpus(columns, DATA.offsets)
    with pytest.raises(DataError, match=r"tape 'pos' again, on column 'pos'; .* word, tag, y"):
        attempt(pos, renamed)


def test_records_of_earlier_versions_are_read(pos: CRF) -> None:
    assert pos.record is not None
    old = msgspec.to_builtins(pos.record)
    del old["target"], old["class_weights"], old["options"]["jackknife"]
    read = msgspec.convert(old, TrainingRecord)
    known = {name: v for name, v in pos.record.options.items() if name != "jackknife"}
    assert read == msgspec.structs.replace(pos.record, target=None, options=known)
    assert stored_options(known) == stored_options(pos.record.options)
    flat = {**known, "l2": 0.5, "gamma": 1.0, "epsilon": None, "max_iterations": None}
    assert stored_options(flat).named().keys() == stored_options(known).named().keys()
    assert options_of({"method": "ap", "l2": 0.5, "seed": 3}) == {"method": "ap", "seed": 3}
    assert pos.record.target == "pos"


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [
        "".join(f"{' '.join(row)}\n" for row in zip(s["word"], s["pos"], s["y"], strict=True))
        for s in DATA
    ]
    Path("train.txt").write_text("\n".join(rows) + "\n")
    Path("pos.tpl").write_text(POS)
    Path("y.tpl").write_text(CHUNK)
    given = ["train", "train.txt", "--columns", "word,pos,y", "--max-iterations", 5]
    done(*given, "-o", "pos.fstcrf", "--target", "pos", "--template", "pos.tpl")
    given += ["-o", "y.fstcrf", "--target", "y", "--template", "y.tpl", "--reads", "pos.fstcrf"]
    result = run(*given, "--set", "jackknife=3")
    assert result.exit_code == 0
    data = fstcrf.read_columns("train.txt", ("word", "pos", "y"))
    tagger = CRF.load("pos.fstcrf")
    wanted = CRF.train(data, "y", CHUNK, reads=Reads([tagger], jackknife=3), max_iterations=5)
    assert np.array_equal(CRF.load("y.fstcrf").theta, wanted.theta)
    lines = [line for line in result.stderr.splitlines() if "iteration " in line]
    assert lines[0].startswith("pos, fold 1 of 3: iteration    1")
    assert any(line.startswith("iteration    1") for line in lines)
    told = run(*given, "--set", "jackknife=3", "--set", "log_json=true").stderr
    assert '"stage": "pos, fold 2 of 3"' in told
    assert run(*given, "--set", "jackknife=1").exit_code == 2
