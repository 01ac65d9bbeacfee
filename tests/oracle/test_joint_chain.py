"""The chain rule: budgets, bounds, and what it refuses.

Its answers: `tests/property/test_joint_laws.py`.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

from fstcrf import CRF, Grammar, compose, kernel
from fstcrf.arrays import Floats
from fstcrf.constraints import pairs
from fstcrf.errors import InexactWarning, LabelError, NoPathError, OptionError, ShapeError
from fstcrf.kernel import Budget
from fstcrf.lattices import Path
from fstcrf.taggers import JointCRF
from fstcrf.taggers.batches import as_corpus
from fstcrf.taggers.chain import best, tag_one
from fstcrf.taggers.chainrule import BUDGET, ChainRule
from fstcrf.taggers.prefixes import Prefixes, RescoringContext
from fstcrf.taggers.stages import with_tape
from fstcrf.text.sentences import as_sentences
from tests.support.joint_cases import (
    CASES,
    GRAMMARS,
    LONG,
    TEST,
    Truth,
    assert_frequencies,
    close,
    tagger,
    taggers,
    trained,
)

pytestmark = pytest.mark.filterwarnings("ignore::fstcrf.errors.InexactWarning")

DATA = [*TEST, LONG]


def chained(parts: list[CRF], **options: object) -> JointCRF:
    composition = compose(*parts, normalize="chain", **options)  # type: ignore[call-overload]
    assert isinstance(composition, JointCRF)
    return composition


def ranked(composition: JointCRF, sentence: Any, n: int = 1, **options: Any) -> list[Path]:
    (paths,) = composition.nbest_all([sentence], n, **options)
    return paths


@pytest.mark.parametrize("case", sorted(CASES.keys() - {"one"}))
def test_one_sentence_has_the_bits_of_a_batch(case: str) -> None:
    """Potentials, best path and log Z of each stage, and the labels; random weights, and ties."""
    rng, fast = np.random.default_rng(7), 0
    for draw in (None, rng.normal, partial(rng.integers, -1, 2)):
        parts = taggers(case)
        if draw is not None:
            parts = [
                replace(t, theta=np.asarray(draw(size=len(t.theta)), dtype=float)) for t in parts
            ]
        composition = chained(parts)
        for sentence, labels in zip(DATA, composition.tag_all(DATA), strict=True):
            assert composition.tag(sentence) == labels
            quick = tag_one(composition, sentence)
            assert quick in (None, labels)
            fast += quick is not None
            corpus = as_corpus(composition, [sentence])
            prefix: list[Any] = []
            (read,) = as_sentences([sentence], ["word"])
            for stage in composition._stages:
                if (graph := stage.sentence_graph) is None:
                    break
                rows, potentials = stage.sentence_rows(read)(prefix), stage.potentials(corpus)
                batch = stage.plain_batch(potentials)
                path, *numbers = graph.best(rows)
                (wanted, score), log_z = kernel.best_paths(batch), kernel.log_partitions(batch)
                assert graph.potentials(rows) == potentials.node.tolist()
                assert (path, numbers) == (wanted.tolist(), [*score, *log_z])
                prefix.append(stage.labels(np.array(path)))
                corpus = with_tape(corpus, stage.tagger, prefix[-1])
    assert (fast > 0) == all(stage.sentence_graph for stage in composition._stages)


@pytest.mark.parametrize("case", ["pair", "three in a row", "order 2", "conditioned arcs"])
def test_samples(case: str) -> None:
    parts = taggers(case)
    sentence = min(TEST, key=lambda s: abs(len(s["word"]) - 2))
    truth = Truth(parts, sentence, normalize="chain")
    composition = chained(parts)
    drawn: list[Any] = composition.sample(sentence, 4000, seed=3)
    assert_frequencies(drawn, truth)
    assert composition.sample(sentence, 3, seed=3) == composition.sample(sentence, 3, seed=3)
    assert composition.sample(sentence, 0) == []
    for labels, score in list(truth.scores.items())[:50]:
        assert close(composition.score(sentence, labels), score)
        assert close(composition.probability(sentence, labels), float(np.exp(score)))


@pytest.mark.parametrize("case", ["pair", "three in a row"])
def test_its_n_best_and_samples_are_lattices(case: str) -> None:
    """Of all labellings they answer what enumeration says; of samples within their errors."""
    parts = taggers(case)
    sentence = min(TEST, key=lambda s: abs(len(s["word"]) - 2))
    truth, view = Truth(parts, sentence, normalize="chain"), chained(parts)
    every = view.lattice(sentence, n=100_000)
    drawn = view.lattice(sentence, samples=4000, seed=5)
    alive = {labels: score for labels, score in truth.scores.items() if score > -np.inf}
    p = np.exp(list(alive.values()))
    assert every.tapes == drawn.tapes == view.tapes
    assert every.log_partition() == pytest.approx(0.0, abs=1e-9)
    assert every.entropy() == pytest.approx(float(-(p * np.log(p)).sum()), abs=1e-9)
    for k, tape in enumerate(view.tapes):
        wanted = truth.marginals(k)
        np.testing.assert_allclose(every.marginals(tape), wanted, atol=1e-9)
        bound = 4.5 * drawn.standard_error(np.clip(wanted, 1e-3, 1 - 1e-3))
        assert (np.abs(drawn.marginals(tape) - wanted) <= bound).all()
    best = max(alive, key=alive.__getitem__)
    assert every.best().labels == best == view.lattice(sentence, n=1).best().labels
    assert every.probability(best) == pytest.approx(np.exp(alive[best]), abs=1e-9)
    few, best_three = view.lattice(sentence, n=3), ranked(view, sentence, 3)
    assert [path.labels for path in few.nbest(9)] == [path.labels for path in best_three]
    assert few.log_partition() == pytest.approx(float(np.log(np.sort(p)[-3:].sum())), abs=1e-9)
    some: Any
    for some in ({"n": 3}, {"samples": 5}):
        assert view.lattice({"word": []}, **some).log_partition() == 0.0


@pytest.mark.thorough
@pytest.mark.parametrize("case", ["pair", "three in a row", "conditioned arcs"])
def test_a_budget_gives_a_bound(case: str) -> None:
    """What is not proven says so, and says how much better the best can be."""
    parts = taggers(case)
    composition = chained(parts, weights=(0.2, *[1.5] * (len(parts) - 1)))
    truths = [Truth(parts, s, composition.weights, normalize="chain") for s in TEST]
    for budget in (1, 2, 3):
        inexact = 0
        for truth in truths:
            (batch,) = composition.paths_all([truth.sentence], budget=budget)
            assert batch is not None
            for path in (batch, *ranked(composition, truth.sentence, 2, budget=budget)[:1]):
                assert close(truth.scores[path.labels], path.score)
                assert path.bound >= truth.best - 1e-9
                assert path.bound >= path.score
                assert path.exact == (path.bound == path.score)
                if path.exact:
                    assert close(path.score, truth.best)
            inexact += not batch.exact
        assert composition.decode(TEST, budget=budget).unproven == inexact
        assert inexact > 0 or budget > 2


@pytest.mark.parametrize("budget", [1, 4])
def test_where_the_budget_finds_nothing_legal_something_legal_is_given(budget: int) -> None:
    """The best of the product is legal, and its score in the chain is what it is."""
    parts = taggers("pair")
    composition = chained(parts, grammar=GRAMMARS["rare pairs"]())
    for sentence in TEST:
        truth = Truth(parts, sentence, (), composition.conjuncts, "chain")
        (path,) = composition.paths_all([sentence], budget=budget)
        for found in (path, *ranked(composition, sentence, 2, budget=budget)[:1]):
            assert found is not None
            assert close(found.score, truth.scores[found.labels])
            assert found.bound >= truth.best - 1e-9
    (found,) = composition.paths_all([LONG], budget=budget)
    assert found is not None
    assert not found.exact
    assert all(
        (a, b) in {("P0", "O"), ("P1", "B"), ("P2", "I")}
        for a, b in zip(*found.labels, strict=True)
    )


def test_an_illegal_sentence_is_named_and_others_are_answered() -> None:
    parts = taggers("pair")
    # A pair needs two tokens: a sentence of one has no labelling.
    grammar = pairs([("P0", "B"), ("P1", "I"), ("P2", "O")], ["pos", "chunk"]) & Grammar.from_text(
        "tape pos, chunk; export E = any any any*;"
    )
    composition = chained(parts, grammar=grammar)
    words: tuple[list[str], ...] = (["a", "b"], ["c"], ["c", "d", "a"], [])
    data = [{"word": one} for one in words]
    with pytest.raises(NoPathError, match="sentence 1"):
        composition.tag_all(data)
    found = composition.paths_all(data)
    assert [path is None for path in found] == [False, True, False, True]
    for sentence in (data[1], data[3]):
        with pytest.raises(NoPathError):
            composition.tag(sentence)


def test_refusals_say_what_to_ask_instead() -> None:
    parts, one, size = taggers("pair"), TEST[0], len(TEST[0]["word"])
    whole, tuned = chained(parts), chained(parts, weights=(1.0, 0.5))
    ruled = chained(parts, grammar=GRAMMARS["first tape"]())
    other = (("Q",) * size, ("B",) * size)
    for ask, error, text in (
        (lambda: whole.lattice(one), OptionError, "sentence, samples=1000"),
        (lambda: whole.lattices(TEST), OptionError, "sentence, samples=1000"),
        (lambda: whole.marginals_all(TEST), OptionError, "sentence, samples=1000"),
        (lambda: whole.lattice(one, n=0), OptionError, "expected at least"),
        (lambda: whole.lattice(one, n=1, budget=0), OptionError, "expected a whole number"),
        (lambda: whole.lattice(one, samples=0), OptionError, "expected at least"),
        (lambda: whole.lattice(one, n=1, samples=1), OptionError, "set only one of them"),
        (lambda: whole.lattice(one, n=1).standard_error(0.5), OptionError, "only sampled"),
        (lambda: whole.lattice(one, samples=1).standard_error(2), OptionError, "outside"),
        (lambda: whole.sample(one, -1), OptionError, "expected at least"),
        (lambda: tuned.lattice(one, samples=1), OptionError, "weights of 1, no grammar"),
        (lambda: ruled.lattice(one, samples=1), OptionError, "weights of 1, no grammar"),
        (lambda: whole.score(one, (("P0",),)), ShapeError, "labels of 1 tapes"),
        (lambda: whole.score(one, other), LabelError, "'Q'"),
    ):
        with pytest.raises(error, match=text):
            ask()


# --- Budgets ------------------------------------------------------------------------------------


def counted_looks(
    monkeypatch: pytest.MonkeyPatch, composition: JointCRF, budget: int | Budget | None
) -> int:
    """Return how many labellings of the earlier tapes the last tagger is asked about."""
    looks = 1  # the cascade's
    best = RescoringContext.best

    def counting(self: RescoringContext, prefixes: Prefixes) -> tuple[Floats, Floats]:
        nonlocal looks
        looks += len(prefixes.sentence) * (self.stage is composition._stages[-1])
        return best(self, prefixes)

    monkeypatch.setattr(RescoringContext, "best", counting)
    composition.paths_all([LONG], budget=budget)
    return looks


def test_a_budget_is_for_all_tapes_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Work grows with the budget, not with its square."""
    composition = chained(taggers("three in a row"), weights=(0.01,) * 3)  # nothing is proven soon
    looks = counted_looks(monkeypatch, composition, 512)
    assert 128 <= looks <= 4 * 512


def test_the_usual_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a number of states, with or without seconds; a number that is passed is obeyed."""
    composition = chained(taggers("pair"), weights=(0.01, 0.01))
    usual = counted_looks(monkeypatch, composition, None)
    assert usual == BUDGET
    assert counted_looks(monkeypatch, composition, Budget(seconds=1e6)) == usual
    assert counted_looks(monkeypatch, composition, Budget(states=7)) == 7
    assert counted_looks(monkeypatch, composition, 250_000) > usual


@pytest.mark.thorough
@pytest.mark.parametrize("case", ["pair", "three in a row"])
def test_time_ends_a_search(case: str) -> None:
    """The first labelling is completed whatever the time; its bound holds."""
    parts = taggers(case)
    composition = chained(parts, weights=(0.2, *[1.5] * (len(parts) - 1)))
    over = Budget(states=1024, seconds=1e-9)
    data = TEST[:3]
    wanted = composition.paths_all(data, budget=1)
    for sentence, first, path in zip(
        data, wanted, composition.paths_all(data, budget=over), strict=True
    ):
        assert first is not None
        assert path is not None
        assert path.score == first.score
        truth = Truth(parts, sentence, composition.weights, normalize="chain")
        for found in (path, *ranked(composition, sentence, 2, budget=over)[:1]):
            assert close(truth.scores[found.labels], found.score)
            assert found.bound >= truth.best - 1e-9
    assert composition.decode(data, budget=over).unproven == sum(
        path is not None and not path.exact for path in wanted
    )


def test_time_is_looked_at_inside_a_long_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that each look moves on by a second: the search ends in the middle of a round."""
    clock = iter(float(second) for second in range(10**9))
    monkeypatch.setattr("fstcrf.taggers.search.time.monotonic", lambda: next(clock))
    monkeypatch.setattr("fstcrf.taggers.search._PART_TOKENS", 1)
    composition = chained(taggers("pair"), weights=(0.01, 0.01))
    rule = ChainRule(composition, Budget(states=100_000, seconds=20.0))
    corpus = as_corpus(composition, [LONG])
    found = best(rule, corpus)
    assert found.score[0, 0] > -np.inf
    assert found.bound[0] > found.score[0, 0]
    assert next(clock) < 40


def test_what_is_not_proven_is_warned_of_once_a_call() -> None:
    composition = chained(taggers("pair"), weights=(0.01, 0.01))
    for ask in (
        lambda: composition.tag_all([LONG, LONG]),
        lambda: composition.tag(LONG),
        lambda: composition.decode([LONG]),
        lambda: composition.paths_all([LONG]),
        lambda: composition.lattice(LONG, n=3),
    ):
        with pytest.warns(InexactWarning, match="not proven to be the best") as caught:
            ask()
        assert [warning.filename for warning in caught] == [__file__]


def test_a_tagger_that_asks_no_other_is_no_reason_to_look_further() -> None:
    """What it adds is the same under all labellings: the first one is proven at once."""
    pos, ent = tagger("pos"), trained("ent", "U:%x[0,word]\nB\n")
    for weights in ((1.0, 1.0), (0.05, 2.0)):
        composition = chained([pos, ent], weights=weights)
        for sentence in [*TEST, LONG]:
            (path,) = composition.paths_all([sentence], budget=1)
            assert path is not None
            assert path.exact
            assert path.labels == (tuple(pos.tag(sentence)), tuple(ent.tag(sentence)))
