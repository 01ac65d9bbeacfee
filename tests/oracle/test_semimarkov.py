"""Semi-Markov chains against the lattice of all their segments, and against differences."""

from __future__ import annotations

import numpy as np
import pytest

from fstcrf.arrays import Floats, Ints, Longs
from fstcrf.errors import FstcrfError
from fstcrf.ext.segments.kernel import Extras, SemiMarkov, best_segments, segment_sums
from fstcrf.kernel.rows import padded
from fstcrf.lattices import Lattice


class Case:
    """Sentences with random scores."""

    def __init__(self, seed: int, *, wide: float = 1.0, tails: bool = True) -> None:
        rng = np.random.default_rng(seed)
        self.labels, self.depth = int(rng.integers(1, 11)), int(rng.integers(1, 5))
        labels, width = self.labels, padded(self.labels)
        self.lengths = rng.integers(0, 9, size=3)
        self.offset: Longs = np.append(0, np.cumsum(self.lengths))
        n = int(self.offset[-1])
        self.token: Floats = rng.normal(size=(n, 3, width)) * wide
        self.longest: Ints = rng.integers(1, self.depth + 1, size=labels).astype(np.int32)
        self.longest[rng.integers(labels)] = 1  # some label tiles everything
        length = np.full((self.depth + 2, width), -np.inf)
        for label, most in enumerate(self.longest):
            length[:most, label] = rng.normal(size=most) * wide
            if tails and rng.random() < 0.6:
                length[-2:, label] = rng.normal(size=2) * wide
        self.length = length
        self.pair = rng.normal(size=(labels, width)) * wide
        self.pair[rng.random(self.pair.shape) < 0.05] = -np.inf
        self.ends = rng.normal(size=(2, width)) * wide
        cells, offset = [], [0]
        for tokens in self.lengths:
            for s in range(tokens):
                for d in range(1, self.depth + 1):
                    place = (s * self.depth + d - 1) * width
                    chosen = rng.random(labels) < (0.2 if s + d <= tokens else 0.0)
                    cells += [place + int(label) for label in np.flatnonzero(chosen)]
            offset.append(len(cells))
        what = rng.integers(0, 5, size=len(cells)).astype(np.int32)
        self.extras = Extras(np.asarray(offset), np.asarray(cells, np.int32).reshape(-1), what)
        self.value = rng.normal(size=5) * wide

    def machine(self) -> SemiMarkov:
        return SemiMarkov(self.longest, self.length, self.pair, *self.ends)

    def lattice(self, b: int) -> Lattice:
        first, tokens = int(self.offset[b]), int(self.lengths[b])
        width = self.pair.shape[1]
        extra: dict[int, float] = {}
        for k in range(*self.extras.offset[b : b + 2]):
            cell = int(self.extras.cell[k])
            extra[cell] = extra.get(cell, 0.0) + float(self.value[self.extras.what[k]])
        rows = []
        for s in range(tokens):
            for e in range(s + 1, tokens + 1):
                for label in range(self.labels):
                    d, most = e - s, int(self.longest[label])
                    own = self.token[first : first + tokens, :, label]
                    score = own[s, 0] + own[s:e, 1].sum() + own[e - 1, 2]
                    if d <= most:
                        score += self.length[d - 1, label]
                        score += extra.get((s * self.depth + d - 1) * width + label, 0.0)
                    elif self.length[-2, label] > -np.inf:
                        score += self.length[-2, label] + (d - most) * self.length[-1, label]
                    else:
                        continue
                    rows.append((s, e, label, score))
        start, end, label_, score_ = (
            (list(c) for c in zip(*rows, strict=True)) if rows else [[]] * 4
        )
        names = [f"l{k}" for k in range(self.labels)]
        return Lattice.from_segments(
            tokens,
            np.asarray(start, int),
            np.asarray(end, int),
            np.asarray(label_, int),
            np.asarray(score_, float),
            names,
            self.pair[:, : self.labels],
            *(e[: self.labels] for e in self.ends),
        )


@pytest.mark.parametrize("seed", range(25))
@pytest.mark.parametrize("wide", [1.0, 200.0, 1e4])
def test_sums_and_best(seed: int, wide: float, variant: str) -> None:
    case = Case(seed, wide=wide)
    arrays = case.machine(), case.offset, case.token, case.extras, case.value
    sums = segment_sums(*arrays)
    score, label = best_segments(*arrays)
    pairs = np.zeros((case.labels, case.labels))
    first, last = np.zeros(case.labels), np.zeros(case.labels)
    for b, tokens in enumerate(case.lengths.tolist()):
        lattice = case.lattice(b)
        log_z = lattice.log_partition()
        assert sums.log_z[b] == pytest.approx(log_z, rel=1e-11, abs=1e-10)
        assert score[b] == pytest.approx(lattice.row.engine.best_scores[0], rel=1e-12, abs=1e-11)
        own = label[case.offset[b] : case.offset[b + 1]]
        if log_z == -np.inf:
            assert (own == -1).all()
            continue
        starts = np.flatnonzero(own >= 0).tolist()
        found = (
            [(s, e, f"l{own[s]}") for s, e in zip(starts, [*starts[1:], tokens], strict=True)]
            if tokens
            else []
        )
        assert lattice.score(found) == pytest.approx(score[b], rel=1e-11, abs=1e-9)
        inside = sums.token[case.offset[b] : case.offset[b + 1], 1, : case.labels]
        if tokens:
            assert inside == pytest.approx(lattice.marginals(), abs=1e-9)
        counts = lattice.expectations()
        pairs += counts.transitions
        first += counts.initial
        last += counts.final
    assert sums.pair[:, : case.labels] == pytest.approx(pairs, abs=1e-8)
    assert sums.initial[: case.labels] == pytest.approx(first, abs=1e-8)
    assert sums.final[: case.labels] == pytest.approx(last, abs=1e-8)


@pytest.mark.parametrize("seed", range(8))
def test_expectations_are_differences(seed: int) -> None:
    case, step = Case(seed), 1e-5
    case.pair[np.isneginf(case.pair)] = -1.0

    def total() -> float:
        found = segment_sums(case.machine(), case.offset, case.token, case.extras, case.value)
        return float(found.log_z.sum())

    sums = segment_sums(case.machine(), case.offset, case.token, case.extras, case.value)
    rng = np.random.default_rng(seed)
    for values, gradient in (
        (case.token[..., : case.labels], sums.token[..., : case.labels]),
        (case.length[:, : case.labels], sums.length[:, : case.labels]),
        (case.pair[:, : case.labels], sums.pair[:, : case.labels]),
        (case.ends[0][: case.labels], sums.initial[: case.labels]),
        (case.ends[1][: case.labels], sums.final[: case.labels]),
        (case.value, sums.value),
    ):
        cells = [c for c in np.ndindex(values.shape) if values[c] > -np.inf]
        for k in rng.permutation(len(cells))[:25]:
            cell, before = cells[k], values[cells[k]]
            values[cell] = before + step
            up = total()
            values[cell] = before - step
            down = total()
            values[cell] = before
            assert gradient[cell] == pytest.approx((up - down) / (2 * step), abs=1e-7)


@pytest.mark.parametrize("rows", [[0, 2**40, 1], [0, 2, 1], [0, -1, 1]])
def test_extras_of_sentences_that_lead_beyond_them(rows: list[int]) -> None:
    """Nothing is read behind the extras on the way to finding that their rows do not rise."""
    zeros = np.zeros(8)
    machine = SemiMarkov(np.ones(1, np.int32), np.zeros((3, 8)), np.zeros((1, 8)), zeros, zeros)
    one = np.zeros(1, dtype=np.int32)
    given = np.arange(3), np.zeros((2, 3, 8)), Extras(np.asarray(rows), one, one), np.zeros(1)
    for ask in (segment_sums, best_segments):
        with pytest.raises(FstcrfError):
            ask(machine, *given)
