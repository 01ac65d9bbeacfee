"""The search of the chain rule beside one from lattices alone, and its incumbents beside a dict."""

from __future__ import annotations

import heapq
import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fstcrf import CRF, Composition, compose, demo, read_columns
from fstcrf.taggers import prefixes
from fstcrf.taggers.prefixes import Incumbents
from tests.support.joint_cases import LONG, TEST, close, taggers
from tests.support.training import flat_train

Ranking = list[tuple[float, tuple[Any, ...]]]
_POPPED = 600  # prefixes of a sentence, after which the search from lattices gives up


def best_first(parts: list[CRF], sentence: Any, n: int, shown: list[int]) -> Ranking | None:
    """Rank by lattices of the taggers, each given the labels of those before it, best first: A*.

    As each factor is a probability, a prefix bounds all that begins with it. None: it gave up.
    """
    number, seen = itertools.count(), set()
    ranking: Ranking = []
    lattices: dict[tuple[Any, ...], Any] = {}

    def entry(labels: tuple[Any, ...], before: float, rank: int) -> None:
        """Put the labelling of this rank that comes next after a prefix."""
        if labels not in lattices:
            given = {p.tape: list(y) for p, y in zip(parts, labels, strict=False)}
            lattice = parts[len(labels)].lattice({**sentence, **given})
            lattices[labels] = [lattice, lattice.log_partition(), []]
        lattice, log_z, paths = lattices[labels]
        if len(paths) <= rank:
            paths[:] = lattice.nbest(2 * rank + 2)
        if rank < len(paths):
            score = before + paths[rank].score - log_z
            item = -score, next(number), (*labels, paths[rank].labels), labels, before, rank
            heapq.heappush(queue, item)

    queue: list[Any] = []
    entry((), 0.0, 0)
    for _ in range(_POPPED):
        if not queue or len(ranking) == n:
            return ranking
        score, _, whole, labels, before, rank = heapq.heappop(queue)
        entry(labels, before, rank + 1)
        if len(whole) < len(parts):
            entry(whole, -score, 0)
        elif (key := tuple(whole[k] for k in shown)) not in seen:
            seen.add(key)
            ranking.append((-score, key))
    return None


def check(parts: list[CRF], data: list[Any], n: int) -> int:
    """Compare all sentences at once with the search from lattices; how many were compared."""
    composition = compose(*parts, normalize="chain")
    assert isinstance(composition, Composition)
    order = [composition.tapes.index(tape) for tape in composition._order]
    ordered, compared = [composition.taggers[k] for k in order], 0
    for tapes in (None, *([tape] for tape in composition._order)):
        shown = [k for k, tape in enumerate(composition._order) if tapes is None or tape in tapes]
        answer = composition.decode(data, n=n, tapes=tapes, budget=4096)
        for b, sentence in enumerate(data):
            wanted = best_first(ordered, sentence, n, shown)
            if wanted is None:
                continue
            paths = answer.paths(b)
            assert all(path.exact for path in paths)
            assert all(close(p.score, w) for p, (w, _) in zip(paths, wanted, strict=True))
            for path in paths[:-1]:  # the last may be as good as one that is left out
                rows = path.labels if len(shown) > 1 else (path.labels,)
                own = tuple(rows[k] for k in (order if len(shown) > 1 else [0]))
                assert close(path.score, next(score for score, y in wanted if y == own))
            compared += 1
    return compared


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore::fstcrf.errors.InexactWarning")
@pytest.mark.parametrize("case", ["pair", "three in a row", "two readers", "order 2", "apart"])
def test_it_is_the_search_from_lattices(case: str) -> None:
    assert check(taggers(case), [*TEST, LONG][:: 2 if "t" in case[:2] else 1], 4) > 3


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore::fstcrf.errors.InexactWarning")
def test_it_is_the_search_from_lattices_on_the_demo() -> None:
    train, test = (read_columns(demo.corpus_path(n), demo.COLUMNS) for n in ("train", "test"))
    options: Any = {"max_iterations": 30}
    pos = flat_train(train[:300], "pos", demo.template_path("pos"), **options)
    joint = demo.template_path("joint")
    field = flat_train(train[300:600], "field", joint, reads=[pos], **options)
    assert check([pos, field], [{"word": list(s["word"])} for s in test[:12]], 3) > 24


def test_sentences_without_tokens_have_one_labelling_in_a_batch() -> None:
    composition = compose(*taggers("pair"), normalize="chain")
    assert isinstance(composition, Composition)
    nothing: dict[str, list[str]] = {"word": []}
    for n, tapes in ((1, None), (3, None), (3, ["chunk"]), (1, ["pos"])):
        answer = composition.decode([nothing, LONG, nothing], n=n, tapes=tapes, budget=512)
        alone = composition.decode([LONG], n=n, tapes=tapes, budget=512)
        assert [p.score for p in answer.paths(1)] == [p.score for p in alone.paths(0)]
        for b in (0, 2):
            (path,) = answer.paths(b)
            assert (path.score, path.probability, path.exact) == (0.0, 1.0, True)
            assert path.labels == (((), ()) if tapes is None else ())


# --- Incumbents -----------------------------------------------------------------------------------


@given(st.lists(st.integers(1, 3), min_size=1, max_size=3), st.data(), st.booleans())
def test_incumbents_are_the_best_that_differ(
    lengths: list[int], data: st.DataObject, collide: bool
) -> None:
    """Whatever comes in whatever portions, and though all hashes agree."""
    n, tapes, seed = (data.draw(st.integers(*ends)) for ends in ((1, 4), (1, 2), (0, 2**32)))
    rng, offsets = np.random.default_rng(seed), np.append(0, np.cumsum(lengths))
    held = Incumbents(offsets, n, tapes, repeated=True)
    best: list[dict[bytes, float]] = [{} for _ in lengths]
    with pytest.MonkeyPatch.context() as patch:
        if collide:
            same = np.zeros(1, dtype=np.uint64)
            patch.setattr(prefixes, "_hashes", lambda pool, _: np.repeat(same, len(pool)))
        for _ in range(4):
            sentence = np.sort(rng.integers(len(lengths), size=int(rng.integers(1, 6))))
            score = rng.integers(-9, 0, size=len(sentence)).astype(float)
            rows = [[rng.integers(2, size=lengths[b]) for b in sentence] for _ in range(tapes)]
            held.put(sentence, score, [np.concatenate(row).astype(np.int32) for row in rows])
            for p, b in enumerate(sentence.tolist()):
                key = np.concatenate([row[p] for row in rows]).astype(np.int32).tobytes()
                best[b][key] = max(best[b].get(key, -np.inf), score[p])
    for b, known in enumerate(best):
        wanted = sorted(known.values(), reverse=True)[:n]
        assert held.score[b, : len(wanted)].tolist() == wanted
        assert (held.score[b, len(wanted) :] == -np.inf).all()
        ranks, same_row = np.arange(len(wanted)), np.repeat(b, len(wanted))
        held_rows = held.labellings(same_row, ranks)
        tables = [row.reshape(len(wanted), lengths[b]) for row in held_rows]
        keys = [np.concatenate([table[k] for table in tables]).tobytes() for k in ranks]
        assert len(set(keys)) == len(keys)
        assert [known[key] for key in keys] == wanted
        own = held.scores_of(same_row, held.labellings(same_row, ranks))
        assert own.tolist() == wanted
    full = [sorted(known.values(), reverse=True)[n - 1 : n] or [-np.inf] for known in best]
    assert held.threshold.tolist() == [score for (score,) in full]
