"""The network of the recipe ``neural``, and the recipe on a made-up corpus."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch", reason="torch is not installed")

from fstcrf import constraints
from fstcrf.errors import DataError
from fstcrf.recipes import Setting, neural, run_recipe
from fstcrf.recipes.network import (
    LOSSES,
    Loss,
    Network,
    NetworkOptions,
    NetworkVocabulary,
    read_parameters,
    write_parameters,
)
from fstcrf.recipes.protocol import FILE, frozen

LABELS = ("B-PER", "E-PER", "O", "S-PER")
WORDS = [["Ann", "Lee", "ran"], ["Bob", "sat"], ["it", "rained", "on", "Ann", "Lee"], []]
TAGS = [np.asarray(row, dtype=np.int64) for row in ([0, 1, 2], [3, 2], [2, 2, 2, 0, 1], [])]
OPTIONS = NetworkOptions(rate=0.01, dropout=0.1, hidden=12, batch=2, rounds=2)


def network(loss: Loss, seed: int = 0) -> Network:
    vocabulary = NetworkVocabulary.of(WORDS)
    return Network(vocabulary, LABELS, loss, constraints.bioes(), OPTIONS, seed)


@pytest.mark.parametrize("loss", LOSSES)
def test_it_learns_what_it_sees(loss: Loss) -> None:
    one = network(loss)
    losses = list(one.rounds(WORDS, TAGS))
    assert losses[-1] < losses[0]
    scores = one.scores(WORDS)
    assert [row.shape for row in scores] == [(len(words), 4) for words in WORDS]
    assert [row.argmax(1).tolist() for row in scores] == [row.tolist() for row in TAGS]
    assert sorted(one.chain()) == ([] if loss == "softmax" else ["final", "initial", "transitions"])


def test_seeds_are_all_that_is_drawn(tmp_path: Path) -> None:
    first, again, other = network("crf"), network("crf"), network("crf", seed=1)
    for one in (again, first, other):
        for _ in one.rounds(WORDS, TAGS):
            pass
    assert np.array_equal(first.scores(WORDS)[0], again.scores(WORDS)[0])
    assert not np.array_equal(first.scores(WORDS)[0], other.scores(WORDS)[0])
    write_parameters(first.parameters(), tmp_path / "network.npz")
    other.set_parameters(read_parameters(tmp_path / "network.npz"))
    assert np.array_equal(first.scores(WORDS)[0], other.scores(WORDS)[0])
    (tmp_path / "network.npz").write_bytes(b"PK\x03\x04 torn")
    with pytest.raises(DataError, match="no parameters of a network"):
        read_parameters(tmp_path / "network.npz")


def test_the_recipe_on_a_made_up_corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "".join(
        f"-DOCSTART- -X- O O\n\nAnn NNP O I-PER\nmet VBD O O\nBob NNP O I-PER\nin IN O O\n"
        f"{place} NNP O I-LOC\n\n{place} NNP O I-LOC\nslept VBD O O\n\n"
        for place in ("Oslo", "Rome", "Bonn", "Lima", "Riga", "Kiev", "Baku", "Doha")
    )
    folder = tmp_path / "conll2003"
    folder.mkdir()
    for part in ("train", "testa", "testb"):
        (folder / f"eng.{part}").write_text(text, "utf-8")
    monkeypatch.setattr(neural, "QUICK", (16,))
    monkeypatch.setattr(neural, "_QUICK_OPTIONS", {"rate": 0.01, "dropout": 0.1})
    monkeypatch.setattr(neural, "_PENALTIES", neural._PENALTIES[:2])
    monkeypatch.setattr(
        neural, "NetworkOptions", lambda **given: replace(OPTIONS, **given), raising=True
    )
    said: list[str] = []
    setting = Setting(tmp_path, tmp_path / "report", say=said.append)
    report = run_recipe(neural.RECIPE, setting)
    assert len(report.result.headline) == 9
    assert all(len(line.values) == 2 for line in report.result.headline)
    assert max(line.mean for line in report.result.headline) > 90.0
    assert "penalties, 16 sentences" in frozen(tmp_path / "report" / FILE).choices
    illegal = [row for row in report.result.rows if row.metric == "sentences with illegal labels"]
    assert all(row.value == 0 for row in illegal if row.row.endswith(("grammar", "consistency")))
    said.clear()
    again = run_recipe(neural.RECIPE, setting)
    assert again.result.rows == report.result.rows
    assert not any("training" in line and "earlier" not in line for line in said)
