"""Potentials of every size beside exact sums of 60 digits: log Z, probabilities, best paths.

Rounding is of the numbers that are added: what is promised is relative to the largest potentials of
a sentence, added up (`magnitude`), not to what is left when they cancel.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fstcrf import Lattice

EPS = float(np.finfo(np.float64).eps)


def bound(tokens: int) -> float:
    """Return what log Z and scores may be off by, as a share of the magnitude.

    A sum of n numbers is rounded n times, a sum of exponentials a few times more. Probabilities may
    be off by four times that (not its share: the magnitude is what is in the exponent).
    """
    return (8 + tokens / 2) * EPS


DENORMAL = 5e-324
SCALES = (DENORMAL, 1e-310, 1e-300, 1e-8, 1.0, 30.0, 700.0, 1e4, 1e8, 1e13, 1e100, 1e290)


@pytest.fixture(autouse=True, scope="module")
def digits() -> Iterator[None]:
    """Compute with 60 digits, and exponents beyond those of any sentence."""
    with localcontext(Context(prec=60, Emin=MIN_EMIN, Emax=MAX_EMAX)):
        yield


def decimal(number: Fraction) -> Decimal:
    """Return a fraction to 60 digits."""
    return Decimal(number.numerator) / Decimal(number.denominator)


def magnitude(emissions: Any, transitions: Any = None) -> float:
    """Return the largest potentials of each token, added up; at least one."""
    tokens = [np.abs(row[np.isfinite(row)]).max(initial=0.0) for row in np.asarray(emissions)]
    arcs = np.zeros(1) if transitions is None else np.abs(transitions[np.isfinite(transitions)])
    return max(1.0, math.fsum(tokens) + (len(tokens) - 1) * float(arcs.max(initial=0.0)))


def paths(emissions: Any, transitions: Any) -> dict[tuple[int, ...], Fraction]:
    """Return the exact score of every path that is not forbidden."""
    tokens, labels = emissions.shape
    found = {}
    for path in itertools.product(range(labels), repeat=tokens):
        terms = [emissions[t, k] for t, k in enumerate(path)]
        terms += [transitions[a, b] for a, b in itertools.pairwise(path)]
        if not any(np.isneginf(terms)):
            found[path] = sum(map(Fraction, map(float, terms)), Fraction())
    return found


def numbers(draw: np.random.Generator, shape: tuple[int, ...], scales: Any) -> Any:
    """Return potentials of mixed sizes and signs."""
    size = draw.choice(scales, shape)
    return draw.choice([-1.0, 1.0], shape) * size * draw.choice([1.0, 1.0, 0.5, 0.25], shape)


@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 4),
    st.integers(1, 3),
    st.sets(st.sampled_from(SCALES), min_size=1, max_size=4),
)
def test_sums_and_best_paths_of_any_size(
    seed: int, n: int, labels: int, scales: set[float]
) -> None:
    draw = np.random.default_rng(seed)
    emissions = numbers(draw, (n, labels), sorted(scales))
    transitions = numbers(draw, (labels, labels), sorted(scales))
    transitions[draw.random((labels, labels)) < 0.1] = -np.inf
    np.fill_diagonal(transitions, np.where(np.isfinite(d := transitions.diagonal()), d, 0.0))
    lattice = Lattice.from_arrays([str(k) for k in range(labels)], emissions, transitions)
    exact = paths(emissions, transitions)
    top = max(exact.values())
    shares = {path: decimal(score - top).exp() for path, score in exact.items()}
    z = sum(shares.values(), Decimal())
    close = bound(n) * magnitude(emissions, transitions)
    assert abs(Fraction(lattice.log_partition()) - top - Fraction(z.ln())) <= close
    best = lattice.best()
    assert abs(Fraction(best.score) - top) <= close
    assert exact[tuple(map(int, best.labels))] >= top - Fraction(close)
    if close < 0.1:
        marginals = lattice.marginals()
        for t, k in np.ndindex(n, labels):
            share = sum((p for path, p in shares.items() if path[t] == k), Decimal()) / z
            assert abs(Decimal(float(marginals[t, k])) - share) <= 4 * close


def test_a_thousand_labels() -> None:
    draw = np.random.default_rng(1)
    emissions, arcs = draw.normal(size=(4, 1000)) * 5, draw.normal(size=(1000, 1000))
    lattice = Lattice.from_arrays([str(k) for k in range(1000)], emissions, arcs)
    wide = emissions.astype(np.longdouble)
    forward, best = wide[0], wide[0]
    for row in wide[1:]:
        forward = np.logaddexp.reduce(forward[:, None] + arcs, axis=0) + row
        best = (best[:, None] + arcs).max(axis=0) + row
    close = bound(4) * magnitude(emissions, arcs)
    assert abs(lattice.log_partition() - float(np.logaddexp.reduce(forward))) <= close
    assert abs(lattice.best().score - float(best.max())) <= close
    assert np.abs(lattice.marginals().sum(axis=1) - 1).max() <= 1e-12


def test_one_token_and_one_label() -> None:
    for value in (0.0, DENORMAL, -DENORMAL, 1e-310, 1e300, -1e300):
        one = Lattice.from_arrays(["a"], [[value]])
        assert one.log_partition() == value
        assert one.best().score == value
        assert one.marginals().tolist() == [[1.0]]
        pair = Lattice.from_arrays(["a", "b"], [[value, value]])
        assert pair.marginals().tolist() == [[0.5, 0.5]]
        assert pair.log_partition() == pytest.approx(value + math.log(2), rel=bound(1))
    long = Lattice.from_arrays(["a"], np.full((1000, 1), 0.1))
    assert long.log_partition() == pytest.approx(100.0, rel=bound(1000))


Matrix = list[list[Decimal]]


def product(a: Matrix, b: Matrix) -> Matrix:
    """Return the product of two square matrices."""
    columns = list(zip(*b, strict=True))
    return [
        [sum((x * y for x, y in zip(row, column, strict=True)), Decimal()) for column in columns]
        for row in a
    ]
