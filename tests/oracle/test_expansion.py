"""Lazy searches that do not end soon: the product answers, where that is affordable."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from fstcrf import kernel
from fstcrf.arrays import Floats
from fstcrf.constraints import bioes, contiguous
from fstcrf.errors import InexactWarning
from fstcrf.kernel import Budget
from fstcrf.lattice import Lattice, best, nbest
from fstcrf.plans import Program, decoder, gathered, warn_unproven
from fstcrf.plans.decoder import CELLS, TRIAL, Expansion


def spans(types: int, scores: Floats) -> Lattice:
    """Return a sentence under the grammar of spans, each type at most once."""
    names = [f"X{i}" for i in range(types)]
    labels = ["O", *(f"{part}-{name}" for name in names for part in "BIES")]
    return Lattice.from_arrays(labels, scores[:, : len(labels)]) & bioes() & contiguous(names)


def random_scores(seed: int, tokens: int, types: int) -> Floats:
    return np.random.default_rng(seed).normal(size=(tokens, 1 + 4 * types))


def under(lattice: Lattice, search: str) -> Lattice:
    """Return the same sentence with another search."""
    program = lattice.program
    other = Program(program.chains, program.couplings, program.conjuncts, search)  # type: ignore[arg-type]
    return Lattice(other, lattice.values)


def test_a_sentence_of_128_tokens_under_eight_types() -> None:
    """Ordinary scores: the lazy search ended in its budget with labels that were not the best."""
    lattice = spans(8, random_scores(0, 128, 8))
    assert lattice.program.decoder.lazy
    path, whole = lattice.best(), under(lattice, "expanded").best()
    assert path.exact
    assert path.bound == path.score
    assert path.score == pytest.approx(whole.score, abs=1e-9)
    assert lattice.score(path.labels) == pytest.approx(path.score)


@pytest.mark.thorough
@pytest.mark.parametrize("types", [4, 5, 6])
@pytest.mark.parametrize("n", [1, 3, 20])
def test_the_answers_are_those_of_the_product(types: int, n: int) -> None:
    """In a batch, sentence by sentence; paths, their order, their number."""
    lengths = (3, 90, 1, 140, 30)
    scores = [random_scores(t, t, types) for t in lengths]
    one = spans(types, scores[0])
    batch = [Lattice(one.program, (s,)) for s in scores]
    product = under(one, "expanded").program
    wanted = nbest([Lattice(product, (s,)) for s in scores], n)
    found = nbest(batch, n, threads=2)
    for lattice, mine, theirs in zip(batch, found, wanted, strict=True):
        assert [p.score for p in mine] == pytest.approx([p.score for p in theirs], abs=1e-9)
        assert all(p.exact and p.bound == p.score for p in mine)
        assert len({p.labels for p in mine}) == len(theirs)
        assert [lattice.score(p.labels) for p in mine] == pytest.approx([p.score for p in mine])
    several = best(batch)
    assert several.exact.all()
    assert several.popped.max() == TRIAL  # the search was given up for one of them at least
    assert several.scores.tolist() == pytest.approx([w[0].score for w in wanted], abs=1e-9)


def test_the_choice_depends_on_the_sentence_alone() -> None:
    hard, easy = random_scores(1, 100, 6), random_scores(2, 20, 6)
    easy[:, 0] += 9
    program = spans(6, hard).program
    batch = [Lattice(program, (s,)) for s in (easy, hard, easy, hard)]
    found = best(batch)
    for lattice, score, popped in zip(
        batch, found.scores.tolist(), found.popped.tolist(), strict=True
    ):
        alone = best([lattice])
        assert (alone.scores[0], alone.popped[0]) == (score, popped)
    assert found.popped.tolist() == [20, TRIAL, 20, TRIAL]


@pytest.mark.thorough
def test_what_is_affordable_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tokens times cells, against the states of the budget: at the border, and one state less."""
    lattice = spans(6, random_scores(3, 120, 6))
    whole = under(lattice, "expanded")
    machine = whole.program.decoder.machine
    cells = 120 * int(np.prod(machine.shape)) * machine.n_residual
    states = -(-cells // CELLS)
    assert states > TRIAL
    assert lattice.best(Budget(states=states)).exact
    with pytest.warns(InexactWarning):
        path = lattice.best(Budget(states=states - 1))
    assert not path.exact
    assert path.score <= whole.best().score <= path.bound
    monkeypatch.setattr(decoder, "CELLS", 1)  # a larger budget affords no more than the usual
    with pytest.warns(InexactWarning):
        assert not spans(6, random_scores(3, 3_000, 6)).best(Budget(states=251_000)).exact


def test_a_search_that_is_asked_for_stays_lazy() -> None:
    lattice = under(spans(8, random_scores(0, 128, 8)), "lazy")
    assert lattice.program.decoder.expansion is None
    with pytest.warns(InexactWarning, match="1 of 1 answers is the best found, not proven"):
        assert not lattice.best(Budget(states=5_000)).exact


def test_a_product_that_is_too_large_is_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    labels = [f"x{i}" for i in range(20)]
    lattice = Lattice.from_arrays(labels, np.zeros((2, 20))) & contiguous(labels)
    found = lattice.program.decoder.expansion
    assert isinstance(found, Expansion)
    assert found.machine is None
    monkeypatch.setattr(Program, "automaton", property(lambda _: pytest.fail("tried again")))
    assert found.machine is None


def test_time_is_over_before_the_product() -> None:
    """What was found by then is the answer."""
    lattices = [spans(8, random_scores(seed, 128, 8)) for seed in range(2)]
    with pytest.warns(InexactWarning, match="2 of 2 answers are"):
        found = best(lattices, budget=Budget(seconds=1e-9))
    assert not found.exact.any()
    assert all(path is not None and path.score < path.bound for path in found)


def test_part_of_a_batch_under_another_machine() -> None:
    scores = [random_scores(t, t, 4) for t in (4, 2, 7)]
    program = spans(4, scores[0]).program
    offsets = np.asarray([0, 4, 6, 13])
    per_token = program.per_token((np.concatenate(scores),))
    bound = kernel.Bound(program.decoder.machine, offsets, per_token)
    _, all_scores = kernel.best_paths(bound)
    _, some = kernel.best_paths(bound.select([2, 0]))
    assert some.tolist() == [all_scores[2], all_scores[0]]
    assert bound.tokens([2, 0]).tolist() == [*range(6, 13), *range(4)]
    assert bound.tokens([]).tolist() == []


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
        with gathered():
            warn_unproven(2, 1_000)
            warn_unproven(0, 1)
            warn_unproven(3, 2)

    with pytest.warns(InexactWarning, match="5 of 1,003 answers are") as caught:
        block()
    assert len(caught) == 1
    with gathered():  # nothing to warn of
        warn_unproven(0, 7)
