"""Many lattices at once: the same answers as one by one, whatever the company and the threads."""

from __future__ import annotations

import tracemalloc
from typing import Any, cast

import numpy as np
import pytest

from fstcrf.constraints import at_most, bio, pairs
from fstcrf.errors import NoPathError, OptionError
from fstcrf.lattices import Lattice, best, log_partition, marginals, nbest, product, sample

LABELS = ("O", "B-X", "I-X")
NEVER = float("-inf")


def lattice(seed: int, tokens: int, *, tape: str = "label", **arguments: Any) -> Lattice:
    rng = np.random.default_rng([seed, tokens])
    return Lattice.from_arrays(LABELS, rng.normal(size=(tokens, 3)), tape=tape, **arguments)


def dead(position: int) -> Lattice:
    emissions = np.zeros((4, 3))
    emissions[position] = NEVER
    return Lattice.from_arrays(LABELS, emissions)


def mixed() -> list[Lattice]:
    """Lattices of many programs, some of them empty, in no order."""
    rng = np.random.default_rng(0)
    shared, other, coupling = rng.normal(size=(3, 3, 3))
    found: list[Lattice] = []
    for k, tokens in enumerate([3, 0, 5, 1, 2, 0, 4, 7]):
        per_token = rng.normal(size=(max(tokens - 1, 0), 3, 3))
        plain = lattice(k, tokens, transitions=shared)
        two = product(
            [plain, lattice(k + 50, tokens, transitions=other)], coupling={(1, 0): coupling}
        )
        found += [
            plain,
            lattice(k, tokens, transitions=per_token),
            plain & (bio() & at_most(1, "X")),
            two,
            two & pairs([("O", "O"), ("B-X", "O"), ("I-X", "B-X")], ("label0", "label1")),
            plain.scale(0.5),
        ]
    return [found[i] for i in rng.permutation(len(found)).tolist()]


@pytest.fixture(scope="module")
def lattices() -> list[Lattice]:
    return mixed()


def equal(one: Any, other: Any) -> bool:
    if isinstance(one, tuple):
        return all(map(equal, one, other))
    return np.array_equal(one, other)


def test_samples_depend_on_the_place_alone(lattices: list[Lattice]) -> None:
    whole = sample(lattices, 3, seed=5)
    assert whole == sample(lattices, 3, seed=5)
    assert whole != sample(lattices, 3, seed=6)
    # Other neighbours, the same places.
    changed = [one if k % 3 else lattices[0] for k, one in enumerate(lattices)]
    again = sample(changed, 3, seed=5)
    assert all(again[k] == whole[k] for k in range(len(lattices)) if k % 3)
    assert sample(lattices[:7], 3, seed=5) == whole[:7]
    one, other = sample([lattice(0, 6)] * 2, 20)
    assert one != other, "equal lattices are drawn from independently"


@pytest.mark.parametrize("threads", [2, 3])
def test_threads_change_no_bit(
    lattices: list[Lattice], threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fstcrf.lattices.chains.RUN_TOKENS", 5)  # several runs a program
    assert list(best(lattices, threads=threads)) == list(best(lattices))
    assert list(nbest(lattices, 3, threads=threads)) == list(nbest(lattices, 3))
    assert np.array_equal(log_partition(lattices, threads=threads), log_partition(lattices))
    ours, theirs = marginals(lattices, threads=threads), marginals(lattices)
    assert all(map(equal, ours, theirs))
    assert sample(lattices, 2, threads=threads) == sample(lattices, 2)


def test_answers_keep_no_joined_potentials() -> None:
    many = [lattice(k, 400) for k in range(40)]
    joined = sum(one.dense.values[0].nbytes for one in many)
    kept, used = [], []
    best(many)  # what is made once
    tracemalloc.start()
    try:
        for _ in range(5):
            tracemalloc.reset_peak()
            before, _ = tracemalloc.get_traced_memory()
            answer = best(many)
            after, peak = tracemalloc.get_traced_memory()
            kept.append(after - before)
            used.append(peak - before)
            paths = list(answer)  # looks for probabilities: potentials are joined once more
            del answer
        asked, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert paths == [one.best() for one in many]
    assert max(kept) < joined / 2 < joined < min(used), (kept, used, joined)
    assert max(used) < 2 * joined
    assert asked < joined, "over many calls memory stays flat"


def test_results_are_sequences() -> None:
    some = [lattice(k, k % 3) for k in range(6)]
    paths, ranked = best(some), nbest(some, 2)
    assert len(paths) == len(ranked) == 6
    assert paths[1:3] == [paths[1], paths[2]]
    assert paths[-1] == paths[5] == some[5].best()
    assert ranked[-1] == ranked[5]
    assert ranked[::2] == [ranked[0], ranked[2], ranked[4]]
    assert ranked.scores[4].tolist() == [path.score for path in ranked[4]]
    assert ranked.scores[0].tolist() == [0.0]
    assert paths.labels(2) == some[2].best().labels
    for sequence in (paths, ranked):
        with pytest.raises(IndexError):
            sequence[6]


def test_nothing_at_all() -> None:
    assert (list(best([])), list(nbest([], 2))) == ([], [])
    assert (marginals([]), sample([], 3)) == ([], [])
    assert log_partition([]).shape == (0,)


def test_lattices_without_a_path() -> None:
    some = [lattice(0, 4), dead(2), lattice(1, 0), dead(0)]
    found = best(some)
    assert [path is None for path in found] == [False, True, False, True]
    assert found.scores[1] == found.scores[3] == NEVER
    assert found.labels(1) == ()
    assert [len(paths) for paths in nbest(some, 2)] == [2, 0, 1, 0]
    assert log_partition(some)[[1, 3]].tolist() == [NEVER, NEVER]
    for ask in (marginals, lambda lattices: sample(lattices, 2)):
        with pytest.raises(NoPathError, match="sentence 1, token 2") as caught:
            ask(some)
        assert (caught.value.sentence, caught.value.position) == (1, 2)
    with pytest.raises(NoPathError) as alone:
        dead(2).sample(1)
    assert alone.value.position == 2


def test_options() -> None:
    one = lattice(0, 2)
    for threads in (0, -1):
        with pytest.raises(OptionError, match=f"threads is {threads}"):
            best([one], threads=threads)
    for n in (0, -3):
        with pytest.raises(OptionError, match=f"n is {n}, expected at least 1"):
            one.nbest(n)
        with pytest.raises(OptionError, match=f"n is {n}, expected at least 1"):
            nbest([lattice(0, 0)], n)
    for odd in (1.5, float("inf"), float("nan"), "3", None, 2**63):
        number: Any = odd
        with pytest.raises(OptionError, match=r"n is .*, expected (a whole number|at least 1)"):
            one.nbest(number)
        with pytest.raises(OptionError, match=r"n is .*, expected (a whole number|at least 1)"):
            nbest([one], number)
        with pytest.raises(OptionError, match=r"n is .*, expected (a whole number|at least 0)"):
            one.sample(number)
    with pytest.raises(OptionError, match="expected a whole number"):
        best([one], threads=cast("int", 1.5))
    with pytest.raises(OptionError, match="n is -1, expected at least 0"):
        one.sample(-1)
    with pytest.raises(OptionError, match="seed is -1"):
        one.sample(1, seed=-1)
    assert one.sample(0) == []


def test_more_is_asked_for_than_there_is() -> None:
    """A billion of 29 paths costs what 29 do; three thousand are found in steps."""
    one = Lattice.from_arrays([f"x{k}" for k in range(29)], np.zeros((1, 29)))
    assert len(one.nbest(10**9)) == 29
    three = Lattice.from_arrays(
        [f"x{k}" for k in range(15)], np.random.default_rng(0).random((3, 15))
    )
    found = three.nbest(3300)
    scores = [path.score for path in found]
    assert len(found) == 3300
    assert scores == sorted(scores, reverse=True)
    assert len({path.labels for path in found}) == 3300
    with pytest.raises(OptionError, match="less than"):
        one.nbest(2**31)
