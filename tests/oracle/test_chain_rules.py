"""The chain rule under hard rules over several tapes, beside all labellings written out."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fstcrf import CRF, compose
from fstcrf.errors import CostWarning
from fstcrf.kernel import Budget
from fstcrf.machines.grammar import Acceptor
from fstcrf.taggers import JointCRF
from fstcrf.taggers.chain import tag_one
from fstcrf.taggers.prefixes import Incumbents
from fstcrf.taggers.search import Search
from fstcrf.taggers.stages import Stage
from tests.support.joint_cases import GRAMMARS, LONG, Truth, close, taggers

pytestmark = pytest.mark.filterwarnings("ignore::fstcrf.errors.InexactWarning")

WORDS = (["a"], ["c", "b"], ["a", "d", "b"], ["e", "a", "c"], ["b", "b", "d"])
SENTENCES = [{"word": words} for words in WORDS]
RULED = {  # taggers, and the tapes of the rule
    "pair": ("pair", ("pos", "chunk")),
    "tapes in the other order": ("pair", ("chunk", "pos")),
    "reader first": ("reader first", ("pos", "chunk")),
    "apart": ("apart", ("pos", "chunk")),
    "conditioned arcs": ("conditioned arcs", ("pos", "chunk")),
    "order 2": ("order 2", ("pos", "chunk")),
    "first two of three": ("three in a row", ("pos", "chunk")),
    "last two of three": ("three in a row", ("chunk", "ent")),
    "outer two of three": ("two readers", ("pos", "ent")),
    "all three": ("two readers", ("pos", "chunk", "ent")),
}


def random_rule(rng: np.random.Generator, parts: list[CRF], tapes: tuple[str, ...]) -> Acceptor:
    """Return a random acceptor of two states, without scores, that rejects a fifth of the steps."""
    sets = {tagger.tape: tagger.labels for tagger in parts}
    shape = (2, *(len(sets[tape]) for tape in tapes))
    target = rng.integers(2, size=shape).astype(np.int32)
    target[rng.random(shape) < 0.2] = -1
    final = np.where(rng.random(2) < 0.2, -np.inf, 0.0)
    final[rng.integers(2)] = 0.0
    return Acceptor(tapes, tuple(sets[tape] for tape in tapes), target, None, final, "random")


def random_tagger(rng: np.random.Generator, tagger: CRF, *, ties: bool) -> CRF:
    size = len(tagger.theta)
    theta = rng.integers(-1, 2, size=size).astype(float) if ties else rng.normal(size=size)
    return replace(tagger, theta=theta)


def worlds(case: str, *, ties: bool, seeds: int) -> Iterator[tuple[JointCRF, list[Truth]]]:
    """Yield random taggers under a random rule, and the truth about each sentence."""
    name, tapes = RULED[case]
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        parts = [random_tagger(rng, tagger, ties=ties) for tagger in taggers(name)]
        rules = (random_rule(rng, parts, tapes),)
        weights = (1.0,) * len(parts) if seed % 2 else (0.7, 1.3, 1.0)[: len(parts)]
        chain = JointCRF(tuple(parts), weights, rules, normalize="chain")
        size = 2 if len(parts) > 2 else 3
        data = [s for s in SENTENCES if len(s["word"]) <= size]
        yield chain, [Truth(parts, s, weights, rules, "chain") for s in data]


def check(chain: JointCRF, truths: list[Truth], n: int, budget: int) -> tuple[int, int]:
    """Compare the n best labellings with the truth; return how many are exact, of how many."""
    data = [truth.sentence for truth in truths]
    answer: Any = chain.decode(data, n=n, budget=budget, on_no_path="skip")
    exact = total = 0
    for b, truth in enumerate(truths):
        paths = answer.paths(b)
        assert bool(paths) == bool(truth.scores)
        assert len({path.labels for path in paths}) == len(paths)
        best = [score for score, _ in truth.ranking]
        for rank, path in enumerate(paths):
            assert close(truth.scores[path.labels], path.score)
            assert path.bound >= best[rank] - 1e-9
            assert path.exact == (path.bound == path.score)
            assert not path.exact or close(path.score, best[rank])
            exact, total = exact + path.exact, total + 1
        assert [p.score for p in paths] == sorted((p.score for p in paths), reverse=True)
        if budget > 1000:
            assert len(paths) == min(n, len(best))
            assert all(path.exact for path in paths)
    return exact, total


@pytest.mark.parametrize("case", RULED)
@pytest.mark.parametrize("ties", [False, True])
def test_beside_all_labellings(case: str, *, ties: bool) -> None:
    exact = total = 0
    for chain, truths in worlds(case, ties=ties, seeds=3):
        for n, budget in ((1, 1), (1, 3), (1, 4096), (3, 3), (3, 4096)):
            counts = check(chain, truths, n, budget)
            exact, total = exact + counts[0], total + counts[1]
    assert 0 < exact < total


@pytest.mark.parametrize("case", RULED)
@pytest.mark.parametrize("ties", [False, True])
def test_answers_are_those_of_the_search_under_the_rule(
    monkeypatch: pytest.MonkeyPatch, case: str, *, ties: bool
) -> None:
    """`tag` answers as `tag_all`; so do some of the tapes. Rounding decides between ties."""
    for number, (chain, every) in enumerate(worlds(case, ties=ties, seeds=4)):
        truths = [truth for truth in every if truth.scores]
        data = [truth.sentence for truth in truths]
        some = chain.tapes[number % 2 :][:1]
        options: list[Any] = [{"n": 1}, {"n": 3}, {"n": 2, "tapes": some}]
        fast = [chain.decode(data, budget=4096, **each) for each in options]
        alone = [chain.tag(sentence, budget=4096) for sentence in data]
        assert alone == list(chain.tag_all(data, budget=4096))
        with monkeypatch.context() as patch:
            patch.setattr(Stage, "hard", ())
            slow_chain = replace(chain)
            slow = [slow_chain.decode(data, budget=4096, **each) for each in options]
        for mine, other in zip(fast, slow, strict=True):
            for b in range(len(data)):
                ours, theirs = mine.paths(b), other.paths(b)
                assert [p.exact for p in ours] == [p.exact for p in theirs]
                assert all(close(p.score, q.score) for p, q in zip(ours, theirs, strict=True))
                if mine is fast[0] and ours[0].labels != theirs[0].labels:
                    scores = [truths[b].scores[p.labels] for p in (ours[0], theirs[0])]
                    assert close(*scores)


@pytest.mark.parametrize("ties", [False, True])
def test_one_sentence_a_call_needs_no_search_if_its_free_answer_obeys(*, ties: bool) -> None:
    """The labels are those of a batch; ties, and what breaks the rule, are left to the search."""
    fast = total = 0
    for case in ("pair", "reader first", "all three"):
        for chain, truths in worlds(case, ties=ties, seeds=6):
            data = [truth.sentence for truth in truths if truth.scores]
            for sentence, labels in zip(data, chain.tag_all(data), strict=True):
                quick = tag_one(chain, sentence)
                assert quick in (None, labels)
                assert chain.tag(sentence) == labels
                fast, total = fast + (quick is not None), total + 1
    assert (0 < fast < total) or ties


def _all_obey(search: Search, incumbents: Incumbents) -> Any:
    return incumbents.score > -np.inf


def _high(search: Search, candidates: Incumbents, sentences: Any, answer: Any) -> None:
    _put(search, candidates, sentences, answer)
    candidates.score += 0.5


def _low(search: Search, prefixes: Any, normaliser: Any, upper: Any) -> Any:
    return upper - 2.0


_put = Search._put_candidates
_WRONG: dict[str, Any] = {"_obeying": _all_obey, "_put_candidates": _high, "_limited": _low}


@pytest.mark.parametrize("method", _WRONG)
def test_the_truth_notices(monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    """Illegal labellings that pass, candidates with wrong scores, bounds that are too low."""
    monkeypatch.setattr(Search, method, _WRONG[method])
    cases = itertools.product(worlds("pair", ties=False, seeds=6), (1, 3), (1, 3, 4096))
    with pytest.raises((AssertionError, KeyError)):
        _ = [check(chain, truths, n, budget) for (chain, truths), n, budget in cases]


# --- What it costs --------------------------------------------------------------------------------


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Collect the sentences and prefixes that are decoded under the rules."""
    counts: list[int] = []
    rank, put = Search._ranked_under_rules, Search._put_candidates

    def ranked(search: Search, k: int, prefixes: Any, n: int) -> Any:
        counts.append(len(prefixes.sentence))
        return rank(search, k, prefixes, n)

    def candidates(search: Search, found: Incumbents, sentences: Any, answer: Any) -> None:
        counts.append(len(sentences))
        put(search, found, sentences, answer)

    monkeypatch.setattr(Search, "_ranked_under_rules", ranked)
    monkeypatch.setattr(Search, "_put_candidates", candidates)
    return counts


@pytest.mark.parametrize("case", ["pair", "three in a row"])
@pytest.mark.parametrize("n", [1, 3])
def test_labels_that_obey_cost_no_product(asked: list[int], case: str, n: int) -> None:
    """The answer, its bits and its bound are those without the rule."""
    parts = taggers(case)
    sets = {tagger.tape: tagger.labels for tagger in parts}
    shape = (2, len(sets["pos"]), len(sets["chunk"]))
    target = np.zeros(shape, np.int32)
    target[0, 0] = 1  # it remembers a label, and rejects none
    rule = Acceptor(
        ("pos", "chunk"), (sets["pos"], sets["chunk"]), target, None, np.zeros(2), "all"
    )
    free = JointCRF(tuple(parts), (1.0,) * len(parts), normalize="chain")
    ruled = replace(free, conjuncts=(rule,))
    for budget in (None, 3):
        one, other = (c.decode([*SENTENCES, LONG], n=n, budget=budget) for c in (ruled, free))
        assert one.scores.tobytes() == other.scores.tobytes()
        assert one.bounds.tobytes() == other.bounds.tobytes()
        assert [p.labels for p in one.paths(3)] == [p.labels for p in other.paths(3)]
    assert not asked


@pytest.mark.parametrize("n", [1, 5])
def test_prefixes_under_rules_are_few(asked: list[int], n: int) -> None:
    """A candidate each, and a handful of prefixes; the search of all prefixes is for the rest."""
    for chain, truths in worlds("pair", ties=False, seeds=6):
        asked.clear()
        data = [LONG for _ in truths]
        chain.decode(data, n=n, on_no_path="skip")
        assert sum(asked) <= len(data) * (1 + 2 * 8)
        if sum(asked):
            assert asked[0] == len(data)


def test_time_ends_a_search_under_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that each look moves on by a second: the answer obeys, and its bound holds."""
    clock = iter(float(second) for second in range(10**9))
    monkeypatch.setattr("fstcrf.taggers.search.time.monotonic", lambda: next(clock))
    for chain, truths in worlds("pair", ties=False, seeds=4):
        first = next(clock)
        data = [truth.sentence for truth in truths]
        budget = Budget(states=4096, seconds=8.0)
        for paths, truth in zip(
            chain.nbest_all(data, 2, budget=budget, on_no_path="skip"), truths, strict=True
        ):
            for path in paths or ():
                assert close(truth.scores[path.labels], path.score)
                assert path.bound >= truth.best - 1e-9 or path is not paths[0]
        assert next(clock) - first < 20


def test_a_plan_says_what_a_chain_costs() -> None:
    for chain, _ in worlds("pair", ties=False, seeds=1):
        (note,) = chain.plan().notes
        assert "ns a token if the first labels are proven" in note
        assert "at worst" in note
        free = replace(chain, conjuncts=()).plan().notes[0]
        assert "to score 16 labellings of tape 'pos'" in free
    assert not replace(chain, normalize="product").plan().notes


def test_a_costly_chain_says_so_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A warning once for each composition, unless the search is fast anyway."""
    chains = [compose(*taggers("pair"), normalize="chain", grammar=GRAMMARS["soft pairs"]())] * 2
    with warnings.catch_warnings():
        warnings.simplefilter("error", CostWarning)
        replace(chains[0]).tag_all(SENTENCES)
    monkeypatch.setattr("fstcrf.taggers.chain._SLOW", 0)
    with pytest.warns(CostWarning, match="use normalize='product', or a smaller") as caught:
        _ = [chain.tag_all(SENTENCES) for chain in chains]
    assert [w.filename for w in caught if w.category is CostWarning] == [__file__]
