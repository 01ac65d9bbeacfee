"""Lazy searches that do not end soon: the product answers, where that is affordable."""

from __future__ import annotations

import itertools
import signal
import warnings
from typing import Any

import numpy as np
import pytest

from fstcrf import kernel
from fstcrf.arrays import Floats
from fstcrf.constraints import (
    bioes,
    contiguous,
)
from fstcrf.errors import InexactWarning, OptionError
from fstcrf.kernel import Budget, lazy, native
from fstcrf.lattices import ChainRow, Lattice, best, chains, nbest
from fstcrf.lattices.labellings import nbest_of_tapes
from fstcrf.machines.plans import Program, decoder, one_warning, warn_unproven
from fstcrf.machines.plans.decoder import CELLS, Expansion


def spans(types: int, scores: Floats) -> Lattice:
    """Return a sentence under the grammar of spans, each type at most once."""
    names = [f"X{i}" for i in range(types)]
    labels = ["O", *(f"{part}-{name}" for name in names for part in "BIES")]
    return Lattice.from_arrays(labels, scores[:, : len(labels)]) & bioes() & contiguous(names)


def random_scores(seed: int, tokens: int, types: int) -> Floats:
    return np.random.default_rng(seed).normal(size=(tokens, 1 + 4 * types))


def under(lattice: Lattice, search: str) -> Lattice:
    """Return the same sentence with another search."""
    program = lattice.dense.program
    other = Program(program.chains, program.couplings, program.conjuncts, search)  # type: ignore[arg-type]
    return lattice._with_row(lattice.dense.with_program(other))


def test_a_sentence_of_128_tokens_under_eight_types() -> None:
    """Ordinary scores: the lazy search ended in its budget with labels that were not the best."""
    lattice = spans(8, random_scores(0, 128, 8))
    assert lattice.dense.program.decoder.lazy
    path, whole = lattice.best(), under(lattice, "expanded").best()
    assert path.exact
    assert path.bound == path.score
    assert path.score == pytest.approx(whole.score, abs=1e-9)
    assert lattice.score(path.labels) == pytest.approx(path.score)


def test_the_choice_depends_on_the_sentence_alone() -> None:
    hard, easy = random_scores(1, 100, 6), random_scores(2, 20, 6)
    easy[:, 0] += 9
    program = spans(6, hard).dense.program
    batch = [Lattice(ChainRow(program, (s,))) for s in (easy, hard, easy, hard)]
    found = best(batch)
    for lattice, score, popped in zip(
        batch, found.scores.tolist(), found.states_expanded.tolist(), strict=True
    ):
        alone = best([lattice])
        assert (alone.scores[0], alone.states_expanded[0]) == (score, popped)
    assert found.states_expanded.tolist() == [
        20,
        found.states_expanded[1],
        20,
        found.states_expanded[1],
    ]
    conjunction = program.decoder.conjunction
    assert conjunction is not None
    whole = kernel.lazy_paths(batch[1].dense.engine.searched, conjunction)
    assert found.states_expanded[1] < whole.states_expanded[0]  # it was left early


@pytest.mark.thorough
def test_what_is_affordable_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tokens times cells, against the states of the budget: at the border, and one state less."""
    lattice = spans(6, random_scores(3, 120, 6))
    whole = under(lattice, "expanded")
    expansion = lattice.dense.program.decoder.expansion
    assert expansion is not None
    assert expansion.cost is not None
    states = -(-120 * expansion.cost.cells // CELLS)
    assert lattice.best(Budget(states=states)).exact
    with pytest.warns(InexactWarning):
        path = lattice.best(Budget(states=states - 1))
    assert not path.exact
    assert path.score <= whole.best().score <= path.bound
    monkeypatch.setattr(decoder, "MOST_CELLS", 1 << 20)  # what does not fit is not expanded
    with pytest.warns(InexactWarning):
        assert not spans(6, random_scores(3, 3_000, 6)).best(Budget(states=10_000)).exact


def test_a_search_that_is_asked_for_stays_lazy() -> None:
    lattice = under(spans(8, random_scores(0, 128, 8)), "lazy")
    assert lattice.dense.program.decoder.expansion is None
    with pytest.warns(InexactWarning, match="1 of 1 answers is the best found, not proven"):
        assert not lattice.best(Budget(states=400)).exact


def test_time_is_over_before_the_product(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was found by then is the answer."""
    monkeypatch.setattr(Expansion, "machine", property(lambda _: pytest.fail("too late")))
    lattices = [spans(8, random_scores(seed, 128, 8)) for seed in range(2)]
    with pytest.warns(InexactWarning, match="2 of 2 answers are"):
        found = best(lattices, budget=Budget(seconds=1e-9))
    assert not found.exact.any()
    assert all(path is not None and path.score < path.bound for path in found)


class Clock:
    """Stands for the kernel and for the clock, where a state of a search or a beam takes 2 µs."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def __getattr__(self, name: str) -> Any:
        return getattr(native.lib, name)

    def fc_lazy_nbest(self, *arguments: Any) -> int:
        n_sentences, offsets, width, steps, give_up = *arguments[2:4], *arguments[6:9]
        arena = arguments[10]
        status: int = native.lib.fc_lazy_nbest(*arguments)
        left = offsets[n_sentences] - offsets[arena.sentence - 1] if give_up else 0
        self.now += 2e-6 * (left * width * 1.6 if give_up else steps)
        return status


@pytest.mark.parametrize("seconds", [0.1, 0.2])
@pytest.mark.parametrize(("sentences", "runs"), [(1, 1), (8, 1), (8, 4)])
def test_the_time_of_a_budget_includes_the_beams(
    monkeypatch: pytest.MonkeyPatch, seconds: float, sentences: int, runs: int
) -> None:
    """All sentences together; those that the search has not reached get a beam."""
    clock = Clock()
    monkeypatch.setattr(lazy, "lib", clock)
    monkeypatch.setattr(lazy, "time", clock)
    monkeypatch.setattr(chains, "RUN_TOKENS", 60 * sentences // runs)
    program = under(spans(10, random_scores(0, 60, 10)), "lazy").dense.program
    lattices = [
        Lattice(ChainRow(program, (random_scores(seed, 60, 10),))) for seed in range(sentences)
    ]
    with pytest.warns(InexactWarning):
        found = best(lattices, budget=Budget(states=10**9, seconds=seconds))
    assert all(path is not None and path.score <= path.bound for path in found)
    assert 0.5 * seconds < clock.now < 1.1 * seconds


def test_the_time_of_a_budget_includes_all_searches_for_labellings_of_a_tape(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """After it, no part is divided further; the last path tells that labellings are missing."""
    clock = Clock()
    monkeypatch.setattr(lazy, "lib", clock)
    monkeypatch.setattr(lazy, "time", clock)
    other = Lattice.from_arrays(["a", "b"], random_scores(1, 60, 10)[:, :2], tape="other")
    lattice = under(spans(10, random_scores(0, 60, 10)) @ other, "lazy")
    found = nbest_of_tapes([lattice] * 3, 40, ["other"], budget=Budget(10**9, 0.2))
    assert all(0 < len(paths) < 40 and not paths[-1].exact for paths in found)
    assert clock.now < 1.1 * 0.2


# --- Company, budgets -----------------------------------------------------------------------------


def test_any_number_of_threads_and_any_company() -> None:
    """Equal bits: easy and hard sentences, alone and together."""
    one = spans(6, random_scores(0, 40, 6)).dense.program
    lengths = [*range(1, 60, 7)] * 3
    scores = [random_scores(k, t, 6) for k, t in enumerate(lengths)]
    for score in scores[::2]:
        score[:, 0] += 8
    batch = [Lattice(ChainRow(one, (score,))) for score in scores] * 60
    alone = [best([lattice]) for lattice in batch[: len(scores)]]
    for threads in (1, 2, 7):
        found = best(batch, threads=threads)
        for name in ("scores", "states_expanded", "bounds"):
            wanted = [getattr(path, name)[0] for path in alone] * 60
            assert getattr(found, name).tolist() == wanted


@pytest.mark.parametrize(
    ("states", "seconds"),
    [(wrong, None) for wrong in (0, -1, float("inf"), float("nan"), 1.5, 1 << 63, "7")]
    + [(5, wrong) for wrong in (0, 0.0, -1, float("nan"), "soon")],
)
def test_budgets_that_mean_nothing(states: Any, seconds: Any) -> None:
    with pytest.raises(OptionError, match=r"expected a whole number.*more than 0"):
        Budget(states, seconds)


@pytest.mark.parametrize("wrong", [0.5, "1", -1, 0])
def test_what_is_no_budget_is_refused_in_one_line(wrong: Any) -> None:
    lattice = spans(3, random_scores(0, 9, 3))
    for ask in (lattice.best, lambda given: nbest([lattice], 2, budget=given)):
        with pytest.raises(OptionError, match="expected a whole number of states"):
            ask(wrong)


def test_a_plan_says_what_a_search_may_take() -> None:
    lattice = spans(29, random_scores(0, 9, 29))
    assert "at worst 250,000 states a sentence, about 0.5 s" in str(lattice.plan())


# --- Warnings -------------------------------------------------------------------------------------


def test_a_warning_a_call_at_the_place_of_the_call() -> None:
    labels = [f"x{i}" for i in range(29)]
    scores = np.zeros((60, 29))
    scores[::2, 0] = scores[1::2, 1] = 5
    lattice = Lattice.from_arrays(labels, scores) & contiguous(labels)
    few = Budget(states=100)
    for ask in (
        lambda: lattice.best(few),
        lambda: lattice.nbest(2, few),
        lambda: best([lattice, lattice], budget=few),
        lambda: nbest([lattice, lattice], 2, budget=few),
        lambda: lattice.confidence(n=3, samples=10, budget=few),
    ):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            ask()
        (warning,) = caught
        assert warning.category is InexactWarning
        assert warning.filename == __file__


def test_one_warning_for_a_block() -> None:
    def block() -> None:
        with one_warning():
            warn_unproven(2, 1_000)
            warn_unproven(0, 1)
            warn_unproven(3, 2)

    with pytest.warns(InexactWarning, match="5 of 1,003 answers are") as caught:
        block()
    assert len(caught) == 1
    with one_warning():  # nothing to warn of
        warn_unproven(0, 7)


# --- Interrupts, and another oracle --------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::fstcrf.errors.InexactWarning")
@pytest.mark.parametrize("at", [1, 3])
def test_an_interrupted_search_leaves_nothing_behind(
    monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    """Ctrl-C comes through while it searches; what is asked next has the answer of a first time."""
    labels = [f"x{i}" for i in range(29)]
    scores = np.zeros((60, 29))
    scores[::2, 0] = scores[1::2, 1] = 5
    lattice = Lattice.from_arrays(labels, scores) & contiguous(labels)
    budget = Budget(states=5_000)
    wanted = best([lattice], budget=budget)
    calls = itertools.count(1)

    class Kernel:
        def __getattr__(self, name: str) -> Any:
            if name == "fc_lazy_nbest" and next(calls) == at:
                signal.raise_signal(signal.SIGINT)
            return getattr(native.lib, name)

    with monkeypatch.context() as patched:
        patched.setattr(lazy, "lib", Kernel())
        patched.setattr(lazy, "_UNTIMED_STEPS", 1_000)
        with pytest.raises(KeyboardInterrupt):
            best([lattice], budget=budget)
    assert next(calls) == at + 1  # it had not ended before
    found = best([lattice], budget=budget)
    assert found.scores.tolist() == wanted.scores.tolist()
    assert found.states_expanded.tolist() == wanted.states_expanded.tolist()
    assert found.bounds.tolist() == wanted.bounds.tolist()
