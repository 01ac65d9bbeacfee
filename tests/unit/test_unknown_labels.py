"""Labels that are not known: whether they are meant so, what is told of them, what they take."""

from __future__ import annotations

import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fstcrf
from fstcrf import CRF, Corpus
from fstcrf.errors import DataError, LabelWarning
from fstcrf.ext.tune import tune
from fstcrf.taggers.pipelines import Task
from fstcrf.text.corpus import read_conllu
from fstcrf.text.corpus.collection import CorpusFiles
from fstcrf.training import Gold, Run
from fstcrf.training.executors import LocalExecutor
from fstcrf.training.gold import with_partial
from fstcrf.training.options import checked_options
from tests.support.command import run
from tests.support.training import flat_train

TEMPLATE = "U:%x[0,form]\nB\n"
ROWS = [
    ("the", "DET", "Definite=Def|PronType=Art"),
    ("dogs", "NOUN", "Number=Plur"),
    ("bark", "VERB", "_"),
    ("a", "DET", "A|B"),
    ("b", "DET", "A"),
    ("c", "DET", "B"),
]
FEATS = ("A", "A|B", "B", "Definite=Def|PronType=Art", "Number=Plur", "_")
NUMBER = ("Plur", "_")


def treebank(path: Path, *, xpos: str = "_") -> str:
    rows = [
        f"{k}\t{form}\t{form}\t{upos}\t{xpos}\t{feats}\t0\troot\t_\t_\n"
        for k, (form, upos, feats) in enumerate(ROWS, 1)
    ]
    path.write_text("".join(rows) + "\n", "utf-8")
    return str(path)


@pytest.fixture
def text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    Path("t.tpl").write_text(TEMPLATE, "utf-8")
    return treebank(tmp_path / "a.conllu")


# --- Columns of CoNLL-U hold whole labels: every door reads the same ------------------------------


def labels_by_door(path: str, target: str, **options: Any) -> dict[str, tuple[str, ...]]:
    corpus = read_conllu(path, feature_columns=("Number",))
    files = CorpusFiles([path], feature_columns=("Number",))
    few: Any = {"max_iterations": 2, **options}
    found = {
        "corpus": flat_train(corpus, target, TEMPLATE, **few),
        "files": flat_train(files, target, TEMPLATE, **few),
        "parts": flat_train(files, target, TEMPLATE, executor=LocalExecutor(), **few),
    }
    if target != "Number":
        found["sentences"] = flat_train(list(corpus), target, TEMPLATE, **few)
    labels = {door: model.labels for door, model in found.items()}
    task = Task(target, corpus, TEMPLATE, target=target, options=options)
    labels["task"] = tuple(task.label_names)
    flags = {None: (), True: ("--set", "partial=true"), False: ("--set", "partial=false")}[
        options.get("partial")
    ]
    line = ["train", path, "-o", "m", "--target", target, "--template", "t.tpl"]
    result = run(*line, "--set", "feature_columns=Number", "--max-iterations", 2, *flags)
    assert result.exit_code == 0, result.stderr
    labels["shell"] = CRF.load("m").labels
    said = f"partial = {str(options['partial']).lower()}\n" if options else ""
    for rename, form in (("", "form"), ('rename = { form = "word" }\n', "word")):
        Path("p.tpl").write_text(TEMPLATE.replace("form", form), "utf-8")
        Path("p.toml").write_text(
            f'[task.t]\ndata = "{path}"\ntemplate = "p.tpl"\ntarget = "{target}"\n'
            f'feature_columns = ["Number"]\nmax_iterations = 2\n{rename}{said}',
            "utf-8",
        )
        result = run("train", "p.toml", "-o", f"out{bool(rename)}")
        assert result.exit_code == 0, result.stderr
        labels[f"pipeline {rename}"] = CRF.load(Path(f"out{bool(rename)}") / "t.fstcrf").labels
    return labels


@pytest.mark.parametrize(("target", "wanted"), [("feats", FEATS), ("Number", NUMBER)])
def test_columns_of_conllu_hold_whole_labels(
    text: str, target: str, wanted: tuple[str, ...]
) -> None:
    assert set(labels_by_door(text, target).values()) == {wanted}


def test_partial_true_reads_them_as_sets(text: str) -> None:
    wanted = tuple(label for label in FEATS if label not in ("_", "A|B"))
    assert set(labels_by_door(text, "feats", partial=True).values()) == {wanted}


def test_a_column_of_ones_own_beside_conllu_is_no_column_of_conllu(text: str) -> None:
    corpus = read_conllu(text)
    mine = corpus.with_column("mine", [["X", "_", "Y", "X|Y", "X", "Y"]])
    with pytest.warns(LabelWarning, match=r"6 labels, of which unknown \(_\): 1, one of several"):
        assert CRF.train(mine, "mine", TEMPLATE, max_iterations=2).labels == ("X", "Y")


def test_a_tagger_trained_again_reads_labels_as_it_did(text: str) -> None:
    model = CRF.train(read_conllu(text), "feats", TEMPLATE, max_iterations=2)
    assert model.record is not None
    assert model.record.options["partial"] is False
    usual = checked_options({})
    assert with_partial(usual, read_conllu(text), "feats").partial is False
    assert with_partial(usual, Corpus.from_sentences([{"feats": ["_"]}]), "feats").partial is True


def test_values_left_out_of_conllu_are_told(text: str) -> None:
    corpus = read_conllu(text).with_column("upos", [["DET", "_", "VERB", "DET", "_", "DET"]])
    with pytest.warns(LabelWarning, match="'upos': '_' is a label, of 2 of 6 tokens"):
        assert "_" in CRF.train(corpus, "upos", TEMPLATE, max_iterations=2).labels
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "_" not in CRF.train(corpus, Gold("upos", partial=True), TEMPLATE).labels


# --- Held-out data --------------------------------------------------------------------------------

WORDS = [{"form": list("abcab"), "tag": ["N", "V", "N", "N", "V"]}, {"form": ["b"], "tag": ["V"]}]
SPANS = [{"form": list("abcab"), "tag": ["B-X", "I-X", "O", "B-X", "I-X"]}]


@pytest.mark.parametrize(
    ("train", "held", "score"),
    [
        (WORDS, ["N", "_", "V"], 0.5),
        (WORDS, ["N", "N|V", "_"], 1.0),
        (WORDS, ["V", "V|N", "V|V"], 1 / 3),
        (SPANS, ["B-X", "I-X", "_"], 1.0),
        (SPANS, ["B-X", "_", "O"], 1.0),  # what is found of the span that is known
        (SPANS, ["O", "_", "B-X"], 0.0),
        (SPANS, ["B-X", "B-X|I-X", "O"], 1.0),
    ],
)
@pytest.mark.parametrize("executor", [None, LocalExecutor()])
@pytest.mark.filterwarnings("error::fstcrf.errors.LabelWarning")
def test_unknown_labels_do_not_count_in_held_out_scores(
    train: Any, held: list[str], score: float, executor: Any
) -> None:
    dev = Corpus.from_sentences([{"form": list("abc"), "tag": held}])
    options: dict[str, Any] = {"partial": True, "l2": 1e-3, "executor": executor}
    tagger = flat_train(Corpus.from_sentences(train), "tag", TEMPLATE, dev=dev, **options)
    assert tagger.record is not None
    assert tagger.record.dev_score == pytest.approx(score)


def test_unknown_labels_do_not_count_in_folds() -> None:
    pytest.importorskip("optuna")
    half = [{"form": list("abab"), "tag": ["N", "V", "_", "_"]}] * 4
    found = tune(
        Corpus.from_sentences(half), "tag", TEMPLATE, folds=2, partial=True, l2=[1e-3], trials=1
    )
    assert found.best.score == 1.0


def test_held_out_data_without_a_known_label_are_refused() -> None:
    dev = Corpus.from_sentences([{"form": ["a", "b"], "tag": ["_", "_"]}])
    with pytest.raises(DataError, match="the held-out data holds no label"):
        CRF.train(Corpus.from_sentences(WORDS), Gold("tag", partial=True), TEMPLATE, dev=dev)
    with pytest.warns(LabelWarning, match=r"count as errors: _ \(2\)"):
        CRF.train(Corpus.from_sentences(WORDS), Gold("tag", partial=False), TEMPLATE, dev=dev)


# --- What is told, and refused --------------------------------------------------------------------

DATA = Corpus.from_sentences([{"form": ["a", "b", "c", "d"], "tag": ["N", "_", "N|V", "V"]}])


@pytest.mark.parametrize("executor", [None, LocalExecutor()])
def test_unknown_and_ambiguous_labels_are_counted(executor: Any) -> None:
    with pytest.warns(
        LabelWarning,
        match=r"the target 'tag': 4 labels, of which unknown \(_\): 1, one of several \(a\|b\): 1; "
        "option partial",
    ):
        CRF.train(DATA, "tag", TEMPLATE, run=Run(executor=executor), max_iterations=2)
    for partial in (True, False):  # no warning
        CRF.train(
            DATA,
            Gold("tag", partial=partial),
            TEMPLATE,
            run=Run(executor=executor),
            max_iterations=2,
        )


def test_the_search_for_options_counts_them_once() -> None:
    pytest.importorskip("optuna")
    known = Corpus.from_sentences([{"form": ["a", "b"], "tag": ["N", "V"]}])
    with pytest.warns(LabelWarning, match=r"unknown \(_\): 1") as caught:
        tune(DATA, "tag", TEMPLATE, dev=known, l2=[0.1, 1.0], trials=2, max_iterations=2)
    assert len(caught) == 1


def test_the_shell_counts_them_before_training(text: str) -> None:
    del text
    Path("a.txt").write_text("a N\nb _\nc N|V\nd V\n\n", "utf-8")
    line = ["train", "a.txt", "-o", "m", "--columns", "form,tag", "--target", "tag"]
    line += ["--template", "t.tpl", "--max-iterations", "2"]
    told = run(*line).stderr.splitlines()
    assert "unknown (_): 1, one of several (a|b): 1" in told[1]
    for flag in ("--set", "partial=true", "--set", "partial=false"):
        assert "unknown" not in run(*line, flag).stderr


@pytest.mark.parametrize("executor", [None, LocalExecutor()])
def test_a_target_that_is_all_unknown_is_an_error(text: str, executor: Any) -> None:
    nothing = Corpus.from_sentences([{"form": ["a", "b"], "tag": ["_", "_"]}])
    with pytest.raises(DataError, match="holds no label: each"):
        CRF.train(nothing, "tag", TEMPLATE, run=Run(executor=executor))
    with pytest.raises(DataError, match="the target 'xpos' holds no label: each of 6 tokens"):
        CRF.train(read_conllu(text), "xpos", TEMPLATE, run=Run(executor=executor))
    old = CRF.train(DATA, Gold("tag", partial=True), TEMPLATE, max_iterations=2)
    if executor is None:
        with pytest.raises(DataError, match="the target 'tag' holds no label"):
            CRF.train(nothing, "tag", TEMPLATE, start=old)
    assert CRF.train(
        nothing, Gold("tag", partial=False), TEMPLATE, run=Run(executor=executor)
    ).labels == ("_",)


# --- What they take -------------------------------------------------------------------------------

PEAK = """
import resource, sys
import numpy as np
import fstcrf

labels, half = int(sys.argv[1]), sys.argv[2] == "half"
draw = np.random.default_rng(0)
sentences = []
for _ in range(700):
    tags = draw.zipf(1.3, 15) % labels
    words = np.where(draw.random(15) < 0.8, tags, draw.integers(0, 9_000, 15))
    shown = [f"L{t}" if not half or draw.random() < 0.5 else "_" for t in tags]
    sentences.append({"form": [f"w{w}" for w in words], "tag": shown})
sentences += [{"form": ["x"], "tag": [f"L{t}"]} for t in range(labels)]
corpus = fstcrf.Corpus.from_sentences(sentences)
template = "U0:%x[0,form]\\nU1:%x[-1,form]\\nU2:%x[1,form]\\nB\\n"
gold = fstcrf.training.Gold("tag", partial=True)
model = fstcrf.CRF.train(corpus, gold, template, max_iterations=3)
assert len(model.labels) == labels
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, model.space.size)
"""


@pytest.mark.thorough
@pytest.mark.parametrize("labels", [20, pytest.param(817, marks=pytest.mark.slow)])
def test_hidden_labels_take_no_more_memory(labels: int) -> None:
    """Half of the labels hidden: at most 1.5 times the peak of whole ones, and fewer weights."""

    def peak(kind: str) -> tuple[int, int]:
        line = [sys.executable, "-c", PEAK, str(labels), kind]
        done = subprocess.run(line, capture_output=True, text=True, check=True)
        most, weights = done.stdout.split()
        return int(most), int(weights)

    (whole, known), (half, shown) = peak("whole"), peak("half")
    assert half < 1.5 * whole
    assert shown <= known + 20 * 20  # of few labels, all successions beside unknown ones


def test_unknown_labels_ask_for_no_weights() -> None:
    """Their attributes have none; of few labels, all successions beside them have."""
    told = [{"form": ["a", "b"], "tag": ["N", "V"]}]
    hidden = [*told, {"form": ["z", "b"], "tag": ["_", "V"]}]
    options: Any = {"partial": True, "max_iterations": 2}
    found = flat_train(hidden, "tag", TEMPLATE, **options)
    weighted = {weight.attribute for weight in found.top_features(99)}
    assert "U:z" not in weighted
    assert len(found.space.transitions) == 2
    assert len(found.space.node_cells) == len(
        flat_train(told, "tag", TEMPLATE, **options).space.node_cells
    )
    every = flat_train(hidden, "tag", TEMPLATE, pairs="complete", **options)
    assert np.isfinite(every.theta).all()
    assert fstcrf.CRF.tag(every, {"form": ["a", "b"]}) == ["N", "V"]
