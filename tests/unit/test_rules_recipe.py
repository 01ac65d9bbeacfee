"""The recipe ``rules`` on small made-up chunks in the place of CoNLL-2000."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import tests.support.command as program
from fstcrf.recipes import Setting, corpora
from fstcrf.recipes.pattern_rules import FROZEN, JOINT, PLAIN, TEMPLATES, Chunker
from fstcrf.recipes.report import number

CHUNKS = (
    "the DT B-NP\ndog NN I-NP",
    "my PRP$ B-NP\nbig JJ I-NP\ncats NNS I-NP",
    "bread NN B-NP\nand CC I-NP\nsalt NN I-NP",
    "runs VBZ B-VP",
    "will MD B-VP\nsleep VB I-VP",
    "in IN B-PP\nhouses NNS B-NP",
    "and CC O",
    "rain NN O",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    data = tmp_path_factory.mktemp("data") / "conll2000"
    data.mkdir()
    rng = np.random.default_rng(3)
    for part, size in (("train", 300), ("test", 30)):
        sentences = ["\n".join(rng.choice(CHUNKS, rng.integers(1, 6))) for _ in range(size)]
        (data / f"{part}.txt").write_text("\n\n".join(sentences) + "\n", "utf-8")
    return data.parent


def test_each_tagger_is_trained_once(folder: Path) -> None:
    train, test = (corpora.chunk_file(Setting(folder), part) for part in ("train", "test"))
    small = train.select(range(60))
    chunker = Chunker(Setting(folder), "chain", TEMPLATES["chain"], small)
    both, facts = chunker.trained(JOINT, {"l2": 0.5, "rule_l2": 1.0})
    assert chunker.trained(JOINT, {"l2": 0.5, "rule_l2": 1.0})[0] is both
    alone, _ = chunker.trained(PLAIN, {"l2": 0.5})
    assert alone.space.size == both.space.size
    assert not np.array_equal(alone.theta, both.theta)
    assert (
        facts.weights.keys()
        == chunker.trained(FROZEN, {"l2": 0.5, "rule_l2": 1.0})[1].weights.keys()
    )
    labels = chunker.constrained(JOINT, {"l2": 0.5, "rule_l2": 1.0}).tag_all(test)
    assert corpora.span_f(test, "chunk", labels) > 80.0


@pytest.mark.thorough
def test_the_whole_run(folder: Path, tmp_path: Path) -> None:
    given = ("--data", folder, "-o", tmp_path / "out")
    assert "rules, jointly" in program.done("recipe", "rules", *given)
    rows = json.loads((tmp_path / "out" / "results.json").read_text("utf-8"))["rows"]
    assert len(rows) == 2 * 4 * 2
    page = (tmp_path / "out" / "report.md").read_text("utf-8")
    assert "frozen in `settings.json`" in page
    headline = page[: page.index("<details>")]
    for row in rows:
        if row["metric"] == "F, test, %":
            line = f"| {row['row']} | F, test, % | {number(row['value'])} |"
            assert headline.count(line) == 1
    assert "| NO_VP |" in page
