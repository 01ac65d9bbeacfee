"""What the benchmarks of composition rest on: one problem for both sides, statistics, choices."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import fstcrf
from fstcrf.evaluate.significance import SpanCounts
from tests.benchmarks import bench_composition
from tests.benchmarks.bench_composition import decoder_lines
from tests.benchmarks.composed import once_lattices, pair_lattices
from tests.benchmarks.joint import Answers, Outcome, conclusion, recommended
from tests.benchmarks.report import Line
from tests.benchmarks.running import Bench, BenchmarkError
from tests.benchmarks.synthetic import TOKENS, Chain, Pair, labels_22


def answers(right: list[bool]) -> Answers:
    both, none = np.asarray(right), np.zeros(3, dtype=np.int64)
    return Answers(both, both, SpanCounts(none, none, none))


# --- Both sides solve the same problem ------------------------------------------------------------


def test_potentials_do_not_depend_on_the_number_of_sentences() -> None:
    few, many = Chain.random(2, 4), Chain.random(5, 4)
    assert (few.node == many.node[:2]).all()
    assert (few.arc == many.arc).all()
    assert len(set(labels_22())) == 22


def test_scores_are_those_of_lattices() -> None:
    pair = Pair.random(1, (3, 2))
    path = pair_lattices(pair)[0].best()
    first, second = (np.asarray([int(label[1:]) for label in tape]) for tape in path.labels)
    assert pair.score(0, first, second) == pytest.approx(path.score, rel=1e-12)
    assert len(first) == TOKENS


def test_pynini_finds_labellings_of_the_same_score_under_a_grammar() -> None:
    pytest.importorskip("pynini")
    from tests.benchmarks import openfst_peer

    chain = Chain.random(20, len(labels_22()))
    ours = fstcrf.best(once_lattices(chain)).scores
    assert openfst_peer.constrained(20)["scores"] == pytest.approx(ours, rel=1e-6)
    free = [fstcrf.Lattice.from_arrays(labels_22(), node, chain.arc) for node in chain.node]
    assert (fstcrf.best(free).scores > ours).all()  # the grammar says something


@pytest.mark.parametrize("design", ["cascade", "interleaved"])
@pytest.mark.parametrize("labels", [(4, 3), (3, 4), (1, 2)])
def test_pynini_finds_labellings_of_the_same_joint_score(
    design: str, labels: tuple[int, int]
) -> None:
    pytest.importorskip("pynini")
    from tests.benchmarks import openfst_peer

    ours = fstcrf.best(pair_lattices(Pair.random(5, labels))).scores
    found = openfst_peer.WORK[design](5, labels)["scores"]
    assert found == pytest.approx(ours, rel=1e-6)


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


def test_a_skipped_line_is_no_failure_and_gives_its_reason() -> None:
    line = Line("constrained", "decoding", 1.0, skipped="no pynini", peer_name="pynini")
    assert line.verdict() == "skipped"
    assert line.cells(judged=True) == ["decoding", "", "≥ 80×", "", "skipped", "1.00", ""]
    done = Line("constrained", "decoding", 2.0, 200.0, "µs", peer_name="pynini").cells(judged=True)
    assert done[1:] == ["**100.0×**", "≥ 80×", "", "must", "2.00 µs", "200.0 µs (pynini)"]


def test_without_pynini_ours_is_measured_and_the_comparison_skipped(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    said: list[str] = []
    bench = Bench(tmp_path, tmp_path, 2, quick=True, say=said.append)
    seconds = {"cpu": 2e-6, "wall": 3e-6}
    answer = {"best": seconds, "built": seconds, "scores": [1.0], "residual": 2}

    def job(self: Bench, module: str, work: str, **given: object) -> dict[str, object]:
        assert module == "composed"
        return answer

    monkeypatch.setattr(Bench, "job", job)
    monkeypatch.setattr(bench_composition, "_pynini", lambda: False)
    lines = bench_composition.constraint(bench)
    assert [(line.key, line.ours, line.verdict()) for line in lines] == [
        ("constrained", 2.0, "skipped"),
        ("constrained-built", 2.0, "skipped"),
    ]
    assert "pynini is not installed" in said[0]


def test_scores_that_differ_from_pynini_s_are_an_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    seconds = {"cpu": 2e-6, "wall": 3e-6}
    scores = {"composed": [1.0, 2.0], "openfst_peer": [1.0, 2.1]}

    def job(self: Bench, module: str, work: str, **given: object) -> dict[str, object]:
        return {"best": seconds, "built": seconds, "scores": scores[module], "residual": 2}

    monkeypatch.setattr(Bench, "job", job)
    monkeypatch.setattr(bench_composition, "_pynini", lambda: True)
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
