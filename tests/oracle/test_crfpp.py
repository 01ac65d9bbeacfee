"""CRF++ itself: models that it trains, the tags and probabilities that it gives.

CRF++ is in no package registry: put ``crf_learn`` and ``crf_test`` on the path to run this.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import fstcrf
from tests.support.command_peers import (
    CRFPP_TEMPLATE,
    Sentences,
    conll2000,
    program,
    random_sentences,
    run,
    written,
)

LEARN, TEST = program("crf_learn"), program("crf_test")
pytestmark = pytest.mark.skipif(
    None in (LEARN, TEST), reason="crf_learn and crf_test, of CRF++, are not on the path"
)

# It adds float32 and prints six decimals.
TOLERANCE = 1e-6 + 5e-7


def trained(folder: Path, train: Sentences, template: str, *options: str) -> Path:
    written(folder / "train.txt", train)
    (folder / "template").write_text(template)
    run(LEARN, "-t", *options, folder / "template", folder / "train.txt", folder / "model")
    return folder / "model"


def compare(model: Path, test: Sentences, folder: Path) -> None:
    """The text model and the binary one give its tags and its probabilities."""
    written(folder / "test.txt", test)
    lines = run(TEST, "-v2", "-m", model, folder / "test.txt").split("\n")
    rows = [line.split("\t") for line in lines if "\t" in line]
    width = len(test[0][0])
    tags = [row[width].rpartition("/")[0] for row in rows]
    table = [[cell.rpartition("/") for cell in row[width + 1 :]] for row in rows]
    expected = np.array([[float(p) for _, _, p in row] for row in table])
    for path in (model, Path(f"{model}.txt")):
        tagger = fstcrf.load_crfpp(path, columns=("a", "b", "c"), tape="c")
        assert [label for label, _, _ in table[0]] == list(tagger.labels)
        assert [label for labels in tagger.tag_all(test) for label in labels] == tags
        assert np.abs(np.concatenate(tagger.marginals_all(test)) - expected).max() < TOLERANCE


@pytest.mark.parametrize("options", [(), ("-a", "CRF-L1"), ("-f", "3"), ("-a", "MIRA")])
def test_random_text(tmp_path: Path, options: tuple[str, ...]) -> None:
    model = trained(tmp_path, random_sentences(0, 80), CRFPP_TEMPLATE, *options)
    compare(model, random_sentences(1, 60), tmp_path)


@pytest.mark.parametrize(
    "template", ["U0:%x[0,0]\n", "U\nB\n", "B\nB1:%x[-1,0]/%x[0,1]\nU:%x[8,0]\n"]
)
def test_templates(tmp_path: Path, template: str) -> None:
    model = trained(tmp_path, random_sentences(2, 40), template)
    compare(model, random_sentences(3, 40), tmp_path)


@pytest.mark.corpus
def test_conll2000(tmp_path: Path, data: Path) -> None:
    train, test = (conll2000(data, part) for part in ("train", "test"))
    model = trained(tmp_path, train[:300], CRFPP_TEMPLATE, "-m", "30")
    compare(model, test, tmp_path)
