"""Every oracle test fails when the kernel is off by one part in a million.

The tests' own bodies run on a fixed case: once as they are, and once for each way to be wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fstcrf import kernel
from fstcrf.arrays import Floats, Longs
from fstcrf.kernel import Learner, Parameters, Posterior, SparseRows, decoding
from fstcrf.kernel.sweep import VectorStore
from fstcrf.lattices import Lattice
from tests.oracle import (
    test_kernel_domains,
    test_kernel_rows,
    test_spans,
)
from tests.support.machine_checks import check_best, check_max_marginals, check_nbest, check_sums
from tests.support.machine_strategies import Bounds, random_case
from tests.support.machines import answers
from tests.support.oracles import assert_close
from tests.unit import test_train_online

Run = Callable[[], object]

NUDGE = 1e-6


class Drawn:
    """Stands for hypothesis' data: hands out what it was given."""

    def __init__(self, *values: object) -> None:
        self._values = list(values)

    def draw(self, _: object) -> object:
        return self._values.pop(0)


def body(test: Any) -> Any:
    return test.hypothesis.inner_test


def nudged(array: Floats) -> Floats:
    """Change the largest entry by one part in a million."""
    out = array.copy()
    size = np.where(np.isfinite(out), np.abs(out), -1.0)
    out.flat[size.argmax()] *= 1.0 + NUDGE
    return out


def eighths(seed: int, *shape: int) -> Floats:
    """Potentials whose sums are exact."""
    return np.random.default_rng(seed).integers(-16, 17, shape) / 8.0


MACHINES = Bounds(paths=300, magnitudes=((2.0, 3),), never=(0.1,))
KINDS = {"one axis": (1,), "two": (2,), "three": (3,)}


def machine_runs(kind: str) -> dict[str, Run]:
    """Return what is checked of a random machine, ready to run."""
    for seed in range(100):
        case = random_case(seed, replace(MACHINES, axes=KINDS[kind]))
        known = answers(case)
        if (known.log_z > -np.inf).all() and min(map(abs, known.score.tolist())) > 0:
            break
    return {
        "sums": lambda: check_sums(case, known, "auto"),
        "log domain": lambda: check_sums(case, known, "log"),
        "best path": lambda: check_best(case, known),
        "max-marginals": lambda: check_max_marginals(case, known),
        "n best": lambda: check_nbest(case, 5),
    }


def must_fail(run: Run) -> None:
    with pytest.raises(AssertionError):
        run()


def wrong(
    monkeypatch: pytest.MonkeyPatch, function: str, change: Callable[[Any], Any], of: Any = kernel
) -> None:
    right = getattr(of, function)
    monkeypatch.setattr(of, function, lambda *a, **k: change(right(*a, **k)))


def first_nudged(arrays: tuple[Floats, ...]) -> tuple[Floats, ...]:
    return nudged(arrays[0]), *arrays[1:]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("function", "change", "noticed"),
    [
        ("axis_posterior", lambda p: p._replace(log_z=nudged(p.log_z)), "sums"),
        ("axis_posterior", lambda p: p._replace(node=first_nudged(p.node)), "sums"),
        ("axis_posterior", lambda p: p._replace(node=first_nudged(p.node)), "log domain"),
        ("log_partitions", nudged, "sums"),
        ("best_paths", lambda found: (found[0], nudged(found[1])), "best path"),
        ("best_paths", lambda found: (found[0] + 1, found[1]), "best path"),
        ("axis_max_marginals", first_nudged, "max-marginals"),
        ("nbest_paths", lambda found: found._replace(score=nudged(found.score)), "n best"),
    ],
)
def test_wrong_results(
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    function: str,
    change: Callable[[Any], Any],
    noticed: str,
) -> None:
    run = machine_runs(kind)[noticed]
    run()
    wrong(monkeypatch, function, change, decoding)
    must_fail(run)


# --- Domains -----------------------------------------------------------------------------------


def domain_runs() -> dict[str, Run]:
    module = test_kernel_domains
    return {
        "strangers": lambda: module.test_states_that_never_meet("", "per-token", 20),
        "alternating": lambda: module.test_alternating_leads_are_no_trouble("", "dense"),
        "forward": lambda: module.test_only_the_forward_rows_are_lost("", "dense"),
        "among others": lambda: module.test_a_lost_sentence_among_others(""),
        "ends": lambda: module.test_ends_that_no_scale_fits(""),
    }


def exponentials() -> None:
    test_kernel_domains.test_exponentials("", "linear", 322.0)


@pytest.mark.parametrize("name", list(domain_runs()))
@pytest.mark.parametrize("part", ["log_z", "node"])
def test_wrong_sums_of_long_sentences(
    monkeypatch: pytest.MonkeyPatch, name: str, part: str
) -> None:
    run = domain_runs()[name]
    run()
    wrong(
        monkeypatch,
        "forward_backward",
        lambda found: found._replace(**{part: nudged(getattr(found, part))}),
    )
    must_fail(run)


def test_wrong_exponentials(monkeypatch: pytest.MonkeyPatch) -> None:
    def change(found: Posterior) -> Posterior:
        node = found.node.copy()
        node[17, 1] *= 1.0 + NUDGE  # the second state is what the test looks at
        return found._replace(node=node)

    exponentials()
    wrong(monkeypatch, "forward_backward", change)
    must_fail(exponentials)


# --- Rows, stored vectors, online learning, sweeps -----------------------------------------------


def test_wrong_products(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = SparseRows(np.asarray([0, 1, 3]), np.asarray([0, 1, 0], dtype=np.int32), None, 2)
    runs: list[Run] = [
        lambda: body(test_kernel_rows.test_gather)("", rows, 8, 1),
        lambda: body(test_kernel_rows.test_transposed_gather)("", rows, 1),
    ]
    times = SparseRows.times
    for run in runs:
        run()
    monkeypatch.setattr(SparseRows, "times", lambda *a, **k: nudged(times(*a, **k)))
    for run in runs:
        must_fail(run)


@pytest.mark.parametrize("half", [False, True])
def test_wrong_vectors(monkeypatch: pytest.MonkeyPatch, *, half: bool) -> None:
    dots, add = VectorStore.dots, VectorStore.add_combination

    def run() -> None:
        test_kernel_rows.test_stored_vectors("", 1025, 7, 3, half=half)

    run()
    with monkeypatch.context() as patch:
        patch.setattr(VectorStore, "dots", lambda *a: nudged(dots(*a)))
        must_fail(run)

    def off(store: VectorStore, coefficients: Floats, out: Floats) -> None:
        add(store, nudged(coefficients), out)

    monkeypatch.setattr(VectorStore, "add_combination", off)
    must_fail(run)


@pytest.mark.parametrize("part", ["table", "arc", "initial", "final"])
def test_wrong_online_learning(monkeypatch: pytest.MonkeyPatch, part: str) -> None:
    case = test_train_online.KINDS["ends and weights"]
    law = test_train_online.test_epochs_are_those_of_the_plain_version
    perceptron = Learner.perceptron_epoch

    def off_perceptron(learner: Learner, order: Longs, theta: Parameters, *rest: Any) -> Any:
        found = perceptron(learner, order, theta, *rest)
        getattr(theta, part)[...] = nudged(getattr(theta, part))
        return found

    law("perceptron", case, "")
    monkeypatch.setattr(Learner, "perceptron_epoch", off_perceptron)
    must_fail(lambda: law("perceptron", case, ""))


# --- Lattices ----------------------------------------------------------------------------------


def lattice() -> Lattice:
    names = ("O", "B-X", "I-X")
    return Lattice.from_arrays(names, eighths(7, 3, 3), eighths(8, 2, 3, 3), *eighths(9, 2, 3))


def all_spans() -> None:
    test_spans.check_all(lattice(), "iob2")


def test_wrong_probabilities_of_a_span(monkeypatch: pytest.MonkeyPatch) -> None:
    right = Lattice.span_probability
    all_spans()
    monkeypatch.setattr(
        Lattice, "span_probability", lambda one, *a, **k: right(one, *a, **k) * (1.0 + NUDGE)
    )
    must_fail(all_spans)


@pytest.mark.parametrize("change", ["probability", "lost", "moved"])
def test_wrong_spans(monkeypatch: pytest.MonkeyPatch, change: str) -> None:
    right = Lattice.probable_spans
    changes: dict[str, Callable[[Any], Any]] = {
        "probability": lambda f: replace(f, probability=f.probability * (1.0 + NUDGE)),
        "lost": lambda f: replace(
            f, **{k: getattr(f, k)[1:] for k in ("start", "end", "type", "probability")}
        ),
        "moved": lambda f: replace(f, start=np.maximum(f.start - 1, 0)),
    }
    all_spans()
    monkeypatch.setattr(
        Lattice, "probable_spans", lambda one, *a, **k: changes[change](right(one, *a, **k))
    )
    must_fail(all_spans)


@pytest.mark.parametrize("scale", [1.0, 1e4])
def test_the_comparison_itself(scale: float) -> None:
    values = np.asarray([scale, -np.inf, 0.5])
    assert_close(values, values.copy(), scale=scale)
    for off in (nudged(values), np.where(np.isneginf(values), -1e300, values)):
        with pytest.raises(AssertionError):
            assert_close(off, values, scale=scale)
    with pytest.raises(AssertionError):
        assert_close([np.nan], [1.0])
