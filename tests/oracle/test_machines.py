"""Compositions against enumeration of every joint path, and against sums over joint states."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from itertools import product

import numpy as np
import pytest

from fstcrf.arrays import Floats
from fstcrf.errors import NumericError
from fstcrf.kernel import Domain, decoding
from tests.support.machine_checks import check_best, check_max_marginals, check_nbest, check_sums
from tests.support.machine_strategies import LONG, MILD, WIDE, Bounds, random_case
from tests.support.machine_sums import swept
from tests.support.machines import (
    Answers,
    Case,
    answers,
    arc_marginals,
    assert_near,
    dead_token,
    enumerate_paths,
)

SMALL, LARGE = Bounds(), Bounds(paths=None)
FEW = Bounds(paths=300)
FORBIDDEN = replace(SMALL, never=(0.3, 0.6))
RESTED = replace(LARGE, rest=True)
SEEDS = range(60)  # of more: test_five_thousand_machines

DOMAINS: tuple[Domain, ...] = ("auto", "log")


@contextmanager
def named(seed: int, bounds: Bounds) -> Iterator[None]:
    """Say which case it was that failed."""
    try:
        yield
    except BaseException as error:
        error.add_note(f"random_case({seed}, {bounds})")
        raise


@cache
def enumerated(seed: int, bounds: Bounds) -> tuple[Case, Answers]:
    case = random_case(seed, bounds)
    return case, answers(case)


@cache
def summed(seed: int, bounds: Bounds) -> tuple[Case, Answers]:
    case = random_case(seed, bounds)
    return case, swept(case)


Known = Callable[[int, Bounds], tuple[Case, Answers]]
EVERY: list[tuple[Bounds, Known]] = [(SMALL, enumerated), (LARGE, summed), (RESTED, summed)]


def entropy(scores: Floats) -> float:
    """Entropy of the paths with these scores, 0 where there are none."""
    share = np.exp(scores - scores.max()) if np.isfinite(scores).any() else np.ones(1)
    share = share[share > 0] / share.sum()
    return float(-(share * np.log(share)).sum())


# --- Random machines -----------------------------------------------------------------------------


@pytest.mark.thorough
@pytest.mark.parametrize(("bounds", "known"), EVERY)
def test_best_paths_with_their_tie_rule(variant: str, bounds: Bounds, known: Known) -> None:
    for seed in SEEDS:
        with named(seed, bounds):
            check_best(*known(seed, bounds))


@pytest.mark.parametrize(("bounds", "known"), EVERY)
def test_max_marginals(variant: str, bounds: Bounds, known: Known) -> None:
    for seed in SEEDS:
        with named(seed, bounds):
            check_max_marginals(*known(seed, bounds))


@pytest.mark.thorough
@pytest.mark.parametrize("domain", DOMAINS)
@pytest.mark.parametrize(("bounds", "known"), EVERY)
def test_sums(variant: str, domain: Domain, bounds: Bounds, known: Known) -> None:
    for seed in SEEDS:
        with named(seed, bounds):
            check_sums(*known(seed, bounds), domain)


@pytest.mark.thorough
def test_linear_domain_alone(variant: str) -> None:
    """Small potentials must do; with others it says so, or is right."""
    refused = 0
    for seed in SEEDS:
        for bounds in (MILD, SMALL):
            with named(seed, bounds):
                case, known = enumerated(seed, bounds)
                try:
                    check_sums(case, known, "linear")
                except NumericError:
                    assert bounds is SMALL
                    refused += 1
    assert 0 < refused < len(SEEDS)


@pytest.mark.thorough
@pytest.mark.parametrize("n", [1, 2, 10])
def test_nbest(variant: str, n: int) -> None:
    for seed in range(40):
        with named(seed, SMALL):
            check_nbest(random_case(seed, SMALL), n)


def test_nbest_of_all_there_are(variant: str) -> None:
    for seed, bounds in product(range(40), (FEW, replace(FEW, rest=True))):
        with named(seed, bounds):
            check_nbest(random_case(seed, bounds), 350)


@pytest.mark.thorough
def test_machines_that_forbid_almost_everything(variant: str) -> None:
    dead = 0
    for seed in SEEDS:
        with named(seed, FORBIDDEN):
            case, known = enumerated(seed, FORBIDDEN)
            check_best(case, known)
            check_max_marginals(case, known)
            check_sums(case, known, "auto")
            dead += int(np.isneginf(known.log_z).sum())
    assert dead > len(SEEDS) // 4


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("bounds", "cases"),
    [
        (WIDE, 15),
        (LONG, 20),
        (replace(WIDE, rest=True), 15),
        (replace(LONG, rest=True), 15),
    ],
)
def test_many_states_and_many_tokens(variant: str, bounds: Bounds, cases: int) -> None:
    for seed in range(cases):
        with named(seed, bounds):
            case, known = summed(seed, bounds)
            check_best(case, known)
            check_max_marginals(case, known)
            for domain in DOMAINS:
                check_sums(case, known, domain)


@pytest.mark.thorough
def test_arcs(variant: str) -> None:
    for seed in range(40):
        with named(seed, SMALL):
            case = random_case(seed, SMALL)
            wanted = tuple(range(seed % 2, len(case.sizes)))
            for domain in DOMAINS:
                found = decoding.axis_posterior(case.bound, arcs=wanted, domain=domain)
                for c, arcs in enumerate(found.arc):
                    assert (arcs is not None) == (c in wanted)
                    if arcs is not None:
                        assert_near(arcs, np.vstack([arc_marginals(s, c) for s in case.each()]))


@pytest.mark.thorough
def test_entropy(variant: str) -> None:
    for seed in range(40):
        with named(seed, SMALL):
            case = random_case(seed, SMALL)
            for domain in DOMAINS:
                found = decoding.axis_posterior(case.bound, entropy=True, domain=domain).entropy
                expected = [entropy(enumerate_paths(one)[1]) for one in case.each()]
                assert_near(found, expected)


def test_dead_tokens(variant: str) -> None:
    for seed in range(40):
        with named(seed, FORBIDDEN):
            case, known = enumerated(seed, FORBIDDEN)
            found = decoding.dead_tokens(case.bound)
            for b, one in enumerate(case.each()):
                dead = known.log_z[b] == -np.inf
                assert found[b] == (dead_token(one) if dead else one.tokens - 1)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(10))
def test_five_thousand_machines(variant: str, block: int) -> None:
    for seed in range(10_000 + 500 * block, 10_500 + 500 * block):
        for bounds, known in ((SMALL, answers), (LARGE, swept), (FORBIDDEN, answers)):
            with named(seed, bounds):
                case = random_case(seed, bounds)
                expected = known(case)
                check_best(case, expected)
                check_max_marginals(case, expected)
                for domain in DOMAINS:
                    check_sums(case, expected, domain)
        with named(seed, FEW):
            check_nbest(random_case(seed, FEW), 1 + seed % 320)


@pytest.mark.thorough
def test_reference_by_two_methods() -> None:
    """Enumeration and sums over joint states share the tables of potentials, nothing else."""
    for seed in SEEDS:
        with named(seed, SMALL):
            (case, one), (_, other) = enumerated(seed, SMALL), summed(seed, SMALL)
            assert_near(other.log_z, one.log_z, scale=case.scale)
            assert other.score.tolist() == one.score.tolist()
            assert other.path.tolist() == one.path.tolist()
            for mine, its in zip(other.marginals, one.marginals, strict=True):
                assert_near(mine, its)
            for mine, its in zip(other.max_marginals, one.max_marginals, strict=True):
                assert mine.tolist() == its.tolist()
