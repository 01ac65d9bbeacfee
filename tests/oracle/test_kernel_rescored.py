"""Sentences with other potentials at a few tokens: as the same sentences computed anew."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

from fstcrf import kernel
from fstcrf.arrays import Floats
from fstcrf.kernel import Axis, Bound, Factor, JointChain, Residual
from fstcrf.kernel.decoding import Variants, rescored

SIZE = 11
LENGTHS = (1, 7, 0, 30, 2, 5, 12, 3, 9, 4, 17, 6)
KINDS = ("dense", "rest", "listed", "moving", "residual", "underflow", "forbidden")


def axis(kind: str, rng: np.random.Generator) -> Axis:
    score = rng.normal(size=(1, SIZE * SIZE)) * 2
    if kind == "moving":
        return Axis(SIZE)
    if kind == "rest":
        others = np.sort(rng.choice(SIZE * SIZE, size=2 * SIZE, replace=False))
        usual = np.full((1, SIZE * SIZE), -0.25)
        usual[0, others] = score[0, others]
        return Axis(SIZE, score=usual, rest=-0.25, others=others)
    if kind == "listed":
        arcs = np.sort(rng.choice(SIZE * SIZE, size=5 * SIZE, replace=False))
        source, target = np.divmod(arcs, SIZE)
        return Axis(SIZE, source.astype(np.int32), target.astype(np.int32), score[:, arcs])
    if kind == "forbidden":
        score[0, rng.random(SIZE * SIZE) < 0.4] = -np.inf
    return Axis(SIZE, score=score)


class Texts(NamedTuple):
    batch: Bound
    values: tuple[Floats, ...]  # node potentials, and arcs if they are given for each token


def texts(kind: str, rng: np.random.Generator) -> Texts:
    bounds = np.concatenate([[0], np.cumsum(LENGTHS)])
    tokens = int(bounds[-1])
    residual = None
    if kind == "residual":  # an even number of labels below 4
        reads = np.where(np.arange(SIZE) < 4, -np.inf, 0.3)
        value = np.stack([reads, np.where(reads < 0, 0.0, -np.inf)] * 2)[:, None, :]
        source, target = np.asarray([[0, 0, 1, 1], [0, 1, 1, 0]], dtype=np.int32)
        ends = np.asarray([0.0, -np.inf]), np.asarray([0.2, -3.0])
        residual = Residual(2, source, target, 1, SIZE, np.ascontiguousarray(value), *ends)
    start, stop = rng.normal(size=(2, 1, SIZE))
    machine = JointChain((axis(kind, rng),), (Factor(rows=1, width=SIZE),), residual, start, stop)
    node = rng.normal(size=(tokens, 1, SIZE))
    if kind == "underflow":
        node[::5, 0, ::2] -= 900.0
    values = [node]
    if kind == "moving":
        values.append(rng.normal(size=(tokens, 1, SIZE * SIZE)))
    return Texts(Bound(machine, bounds, tuple(values)), tuple(values))


def variants(one: Bound, rng: np.random.Generator, count: int) -> Variants:
    lengths = np.diff(one.bounds)
    sentence = np.sort(rng.integers(len(lengths), size=count))
    token = [np.flatnonzero(rng.random(lengths[s]) < rng.choice([0.0, 0.1, 0.5])) for s in sentence]
    ptr = np.concatenate([[0], np.cumsum([len(t) for t in token])]).astype(np.int64)
    flat = np.concatenate(token).astype(np.int32)
    rows = 1 + len(flat) // 3  # variants share changes, and beginnings
    place = (flat + rng.integers(2, size=len(flat))) % rows
    return Variants(sentence, ptr, flat, place.astype(np.int32), rng.normal(size=(rows, SIZE)))


def anew(one: Texts, asked: Variants, *, best: bool) -> Floats:
    """Compute each variant as a sentence of its own."""
    total = []
    for k, s in enumerate(asked.sentence.tolist()):
        tokens = slice(*one.batch.bounds[s : s + 2].tolist())
        values = [np.array(value[tokens]) for value in one.values]
        changes = slice(*asked.ptr[k : k + 2].tolist())
        values[0][asked.token[changes], 0] = asked.node[asked.place[changes]]
        alone = Bound(one.batch.machine, np.asarray([0, tokens.stop - tokens.start]), tuple(values))
        value = kernel.best_paths(alone)[1] if best else kernel.log_partitions(alone)
        total.append(float(value[0]))
    return np.asarray(total)


def some(asked: Variants, chosen: Any) -> Variants:
    parts = [slice(*asked.ptr[k : k + 2].tolist()) for k in chosen]
    ptr = np.concatenate([[0], np.cumsum([p.stop - p.start for p in parts])]).astype(np.int64)
    where = np.concatenate([np.arange(p.start, p.stop) for p in parts])
    place = asked.place[where]
    return Variants(asked.sentence[np.asarray(chosen)], ptr, asked.token[where], place, asked.node)


@pytest.mark.parametrize("best", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_variants_score_as_sentences_of_their_own(kind: str, best: bool) -> None:
    rng = np.random.default_rng(KINDS.index(kind))
    one = texts(kind, rng)
    asked = variants(one.batch, rng, 90)
    assert rescored(one.batch, asked, best=best) == pytest.approx(
        anew(one, asked, best=best), abs=1e-9
    )


@pytest.mark.parametrize("best", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_a_variant_has_the_same_bits_alone(kind: str, best: bool) -> None:
    rng = np.random.default_rng(KINDS.index(kind))
    one = texts(kind, rng)
    asked = variants(one.batch, rng, 90)
    together = rescored(one.batch, asked, best=best)
    for chosen in np.split(np.arange(90), [1, 2, 4, 7, 30, 31]):
        assert np.array_equal(rescored(one.batch, some(asked, chosen), best=best), together[chosen])


@pytest.mark.parametrize("best", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_variants_that_share_changes_score_as_without_sharing(kind: str, best: bool) -> None:
    """All combinations of changes at seven tokens, more than wait at a time, and twice some."""
    rng = np.random.default_rng(KINDS.index(kind))
    one = texts(kind, rng)
    tokens = np.asarray([0, 3, 4, 11, 12, 20, 29])
    chosen = rng.permutation(np.concatenate([np.arange(1, 3**7, 5), [1, 2, 3, 40]]))
    digits = chosen[:, None] // 3 ** np.arange(7) % 3  # 0: no change, else one of two
    changes = [np.flatnonzero(row) for row in digits]
    ptr = np.concatenate([[0], np.cumsum([len(row) for row in changes])])
    token = np.concatenate([tokens[row] for row in changes]).astype(np.int32)
    place = np.concatenate([row[row > 0] - 1 for row in digits]).astype(np.int32)
    sentence = np.full(len(changes), LENGTHS.index(30))
    asked = Variants(sentence, ptr, token, place, rng.normal(size=(2, SIZE)))
    together = rescored(one.batch, asked, best=best)
    alone = [rescored(one.batch, some(asked, [k]), best=best)[0] for k in range(0, len(changes), 9)]
    assert np.array_equal(together[::9], alone)
    assert together[::40] == pytest.approx(
        anew(one, some(asked, range(0, len(changes), 40)), best=best), abs=1e-9
    )
