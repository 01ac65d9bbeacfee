"""Gold labels of held-out data that no answer can have: one law for all that score by them."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fstcrf
from fstcrf import CRF, Corpus
from fstcrf.errors import LabelWarning
from fstcrf.ext.feedback import simulate
from fstcrf.ext.feedback.descent import Aim, Rule
from fstcrf.ext.lexicon import Characters, Entry, Lexicon
from fstcrf.ext.tune import tune
from fstcrf.ext.words import Annotation, Words
from fstcrf.taggers.pipelines import score_pipeline
from fstcrf.training.executors import LocalExecutor
from tests.support.command import run
from tests.support.training import flat_train
from tests.support.wordlists import KINDS, RANGES

TEMPLATE = "U:%x[0,word]\nB"
SENTENCES = [
    {"word": ["ann", "sees", "paris"], "tag": ["B-PER", "O", "B-LOC"], "pos": ["N", "V", "N"]},
    {"word": ["bob", "runs"], "tag": ["B-PER", "O"], "pos": ["N", "V"]},
] * 3
TRAIN = Corpus.from_sentences(SENTENCES)
OTHER = [{"word": ["ann", "acme"], "tag": ["B-PER", "B-ORG"], "pos": ["N", "X"]}]
OTHER += [{"word": ["acme", "ltd"], "tag": ["B-ORG", "I-ORG"], "pos": ["X", "X"]}]


def tagger(target: str = "tag", **more: Any) -> CRF:
    return flat_train(TRAIN, target, TEMPLATE, max_iterations=2, **more)


def tuned(dev: Corpus) -> None:
    tune(TRAIN, "tag", TEMPLATE, dev=dev, trials=2, max_iterations=2)


def tuned_weights(dev: Corpus) -> None:
    composition = fstcrf.compose(tagger(), tagger("pos"), normalize="product")
    composition.tune_weights(dev, targets={"tag": "tag"})


def rewarded(dev: Corpus) -> None:
    simulate(tagger(), TRAIN, "tag", aim=Aim(), rule=Rule(), epochs=1, dev=dev)


def segments(dev: Corpus) -> None:
    fstcrf.SegmentCRF.train(TRAIN, "tag", "U:%x[0,word]", dev=dev, max_iterations=2)


def piped(dev: Corpus) -> None:
    fstcrf.Pipeline([fstcrf.Task("tag", TRAIN, TEMPLATE, dev=dev)]).train()


def scored(dev: Corpus) -> None:
    trained = fstcrf.Pipeline([fstcrf.Task("tag", TRAIN, TEMPLATE)]).train()
    score_pipeline(trained, dev, {"tag": "tag"})


def words(dev: Corpus) -> None:
    entries = [
        Entry(word, 0, 0, 0, tag)
        for row in SENTENCES[:2]
        for word, tag in zip(row["word"], row["tag"], strict=True)
    ]
    characters = Characters.of_kinds(KINDS, RANGES)
    matrix = np.zeros((1, 1), dtype=np.int16)
    unknown = [Entry(kind, 0, 0, 0, "O") for kind in KINDS]
    lexicon = Lexicon.from_entries(entries, matrix, characters, unknown)
    texts, held = (
        [Annotation.of_words(list(zip(row["word"], row["tag"], strict=True))) for row in data]
        for data in (TRAIN, dev)
    )
    fstcrf.LatticeCRF.train(
        texts, "UNIGRAM A:%F[0]", structure=Words(lexicon), dev=held, max_iterations=2
    )


DOORS: dict[str, Callable[[Corpus], object]] = {
    "train": lambda dev: tagger(dev=dev),
    "train over parts": lambda dev: tagger(dev=dev, executor=LocalExecutor()),
    "train, perceptron": lambda dev: tagger(dev=dev, method="perceptron"),
    "tune": tuned,
    "weights": tuned_weights,
    "rewards": rewarded,
    "segments": segments,
    "words": words,
    "pipeline": piped,
    "score of a pipeline": scored,
}


@pytest.mark.parametrize("door", DOORS)
def test_unseen_labels_are_counted(door: str) -> None:
    with pytest.warns(LabelWarning, match="never saw count as errors") as told:
        DOORS[door](Corpus.from_sentences(SENTENCES[:2] + OTHER))
    texts = {str(one.message) for one in told}
    assert len(texts) == 1
    assert all("fstcrf" not in Path(one.filename).parent.parts[-2:] for one in told)
    counts = "ORG (3)" if door == "segments" else "B-ORG (2), I-ORG (1)"
    assert texts.pop().endswith(f"training never saw count as errors: {counts}")


@pytest.mark.parametrize("door", DOORS)
def test_labels_that_training_saw_are_not(door: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", LabelWarning)
        DOORS[door](Corpus.from_sentences(SENTENCES[:2]))


def test_labels_converted_by_a_scheme_are_compared_as_they_are_trained() -> None:
    dev = Corpus.from_sentences(SENTENCES[:2])
    with warnings.catch_warnings():
        warnings.simplefilter("error", LabelWarning)
        tagger(scheme="iob2:bioes", dev=dev)
    with pytest.warns(LabelWarning, match=r"S-ORG \(1\), B-ORG \(1\), E-ORG \(1\)$"):
        tagger(scheme="iob2:bioes", dev=Corpus.from_sentences(SENTENCES[:2] + OTHER))


def test_many_labels_are_counted_not_listed() -> None:
    words = [f"w{k}" for k in range(12)]
    dev = Corpus.from_sentences([{"word": words, "tag": [f"B-{w}" for w in words]}])
    with pytest.warns(LabelWarning, match=r"B-w0 \(1\), .* and 7 more$"):
        tagger(dev=dev)


def test_in_the_shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, rows in (("train", SENTENCES), ("dev", SENTENCES[:2] + OTHER)):
        lines = [
            "".join(f"{w} {t}\n" for w, t in zip(row["word"], row["tag"], strict=True))
            for row in rows
        ]
        Path(f"{name}.txt").write_text("\n".join(lines))
    Path("t.tpl").write_text(TEMPLATE)
    told = run(
        *("train", "train.txt", "--columns", "word,tag", "--target", "tag", "--template", "t.tpl"),
        *("-o", "m.fstcrf", "--dev", "dev.txt", "--max-iterations", 2),
    )
    assert told.exit_code == 0, told.output
    assert told.stderr.count("B-ORG (2), I-ORG (1)") == 1
