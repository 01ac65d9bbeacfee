"""What the benchmarks of composition rest on: one problem for both sides, statistics, choices."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fstcrf.ext.significance import SpanCounts
from tests.benchmarks import bench_composition
from tests.benchmarks.bench_composition import decoder_lines
from tests.benchmarks.joint import Answers, Outcome, conclusion, recommended
from tests.benchmarks.running import Bench, BenchmarkError


def answers(right: list[bool]) -> Answers:
    both, none = np.asarray(right), np.zeros(3, dtype=np.int64)
    return Answers(both, both, SpanCounts(none, none, none))


# --- Lines ----------------------------------------------------------------------------------------


def test_decoders_are_compared_turn_by_turn() -> None:
    seconds = {
        "cascade": [(1.0, 1.0), (2.0, 3.0), (4.0, 4.0)],
        "product": [(3.0, 3.0), (8.0, 8.0), (8.0, 9.0)],
        "chain": [(1.5, 2.0), (2.0, 2.0), (6.0, 6.0)],
    }
    run = {"sentences": 10, "tokens": 100, "inexact": 0, "seconds": seconds}
    cascade, product, chain = decoder_lines(run)
    assert cascade.ours == 5.0
    assert (product.key, product.ours) == ("product-over-cascade", 3.0)
    assert (chain.key, chain.ours) == ("chain-over-cascade", 1.5)
    assert [line.verdict() for line in (cascade, product, chain)] == ["measured", "must", "aim"]


def test_scores_that_differ_from_pynini_s_are_an_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    seconds = {"cpu": 2e-6, "wall": 3e-6}
    scores = {"composed": [1.0, 2.0], "openfst_peer": [1.0, 2.1]}

    def job(self: Bench, module: str, work: str, **given: object) -> dict[str, object]:
        return {"best": seconds, "built": seconds, "scores": scores[module], "residual": 2}

    monkeypatch.setattr(Bench, "job", job)
    monkeypatch.setattr(bench_composition, "has_pynini", lambda: True)
    bench = Bench(tmp_path, tmp_path, 1, quick=True, say=lambda _: None)
    with pytest.raises(BenchmarkError, match="sentence 1: not the score that pynini finds"):
        bench_composition.constraint(bench)


# --- Choices --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("right", "name"), [((2, 1, 2), "cascade"), ((1, 2, 2), "product"), ((1, 2, 3), "chain")]
)
def test_what_is_recommended_is_never_worse_than_the_cascade(
    right: tuple[int, int, int], name: str
) -> None:
    dev = {
        decoder: answers([True] * n + [False] * (3 - n))
        for decoder, n in zip(("cascade", "product", "chain"), right, strict=True)
    }
    outcome = Outcome(None, 1.0, [], dev, dev, {}, 0)  # type: ignore[arg-type]
    assert recommended(outcome) == name
    said = "no joint decoder" if name == "cascade" else f"**Recommended: {name}.**"
    assert said in conclusion(outcome)
