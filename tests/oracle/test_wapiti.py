"""Wapiti itself: models that it trains, the tags and probabilities that it gives.

Wapiti (Jekub/Wapiti) is in no package registry, and Debian's package of that name is something
else: put its ``wapiti`` on the path to run this.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import fstcrf
from tests.support.command_peers import (
    WAPITI_PATTERNS,
    Sentences,
    conll2000,
    program,
    random_sentences,
    run,
    written,
)

WAPITI = program("wapiti", "Wapiti v1")
pytestmark = pytest.mark.skipif(
    WAPITI is None, reason="wapiti, of Jekub/Wapiti (not Debian's), is not on the path"
)

TOLERANCE = 1e-6 + 5e-7  # it prints six decimals


def trained(folder: Path, train: Sentences, patterns: str, *options: str) -> Path:
    written(folder / "train.txt", train)
    (folder / "patterns").write_text(patterns)
    given: tuple[str | Path, ...] = ("-i", "20", "-p", folder / "patterns", *options)
    run(WAPITI, "train", *given, folder / "train.txt", folder / "model")
    return folder / "model"


def compare(model: Path, test: Sentences, folder: Path) -> None:
    written(folder / "test.txt", test)
    tagger = fstcrf.load_wapiti(model, columns=("a", "b", "c"), tape="c")
    tags = run(WAPITI, "label", "-l", "-m", model, folder / "test.txt").split()
    assert [label for labels in tagger.tag_all(test) for label in labels] == tags
    # With -p, the most probable label of each token.
    lines = run(WAPITI, "label", "-l", "-p", "-s", "-m", model, folder / "test.txt").split("\n")
    pairs = [line.split("\t")[1].rpartition("/") for line in lines if "\t" in line]
    found = np.concatenate(tagger.marginals_all(test))
    assert np.abs(found.max(axis=1) - [float(p) for _, _, p in pairs]).max() < TOLERANCE
    assert [tagger.labels[i] for i in found.argmax(axis=1)] == [label for label, _, _ in pairs]


@pytest.mark.parametrize(
    "options",
    [("-2", "0.1"), ("-c", "-1", "0.3"), ("-a", "sgd-l1"), ("-a", "rprop"), ("-T", "maxent")],
    ids=lambda options: options[-2].strip("-") + options[-1],
)
def test_random_text(tmp_path: Path, options: tuple[str, ...]) -> None:
    model = trained(tmp_path, random_sentences(0, 80), WAPITI_PATTERNS, *options)
    compare(model, random_sentences(1, 60), tmp_path)


EXPRESSIONS = [
    ".",
    "^.?.?",
    ".?.?$",
    "a?ab",
    "\\d*\\a$",
    "-?b?",
    "^\\u\\l*$",
    "\\P\\s*\\.",
    "x*y*z*$",
]


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_expressions(tmp_path: Path, expression: str) -> None:
    patterns = f'u1:%m[0,0,"{expression}"]\nu2:%t[-1,0,"{expression}"]/%M[1,0,"{expression}"]\nb\n'
    if "a?ab" in expression:
        patterns = patterns.partition("\n")[0]
    model = trained(tmp_path, random_sentences(2, 60), patterns, "-2", "0.1")
    compare(model, random_sentences(3, 60), tmp_path)


@pytest.mark.corpus
def test_conll2000(tmp_path: Path, data: Path) -> None:
    train, test = (conll2000(data, part) for part in ("train", "test"))
    model = trained(tmp_path, train[:300], WAPITI_PATTERNS, "-1", "0.2", "-2", "0.1")
    compare(model, test, tmp_path)
