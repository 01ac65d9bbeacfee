"""Magnitudes of feature values and sentence weights, and units that compensate them.

A feature whose values are c times larger has a weight that is c times smaller. If columns of a
design differ much in size, the objective is a narrow valley, in which steepest descent follows only
the largest column. The curvature along a weight is approximately the sum of p (1 − p) x² over the
tokens, known in advance except for p. So u = theta / unit with

    unit² = (sum of w / 4 + 2 l2) / (sum of w x² / 4 + 2 l2)

has the same curvature as the weight of an attribute with the value 1 at the same tokens, w the
weights of their sentences. The unit of such an attribute is 1; other units are powers of two, which
do not change digits.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from fstcrf.arrays import Floats, Longs, Ragged, Singles
from fstcrf.errors import DataError
from fstcrf.kernel import SparseRows
from fstcrf.training.problem import ParameterSpace, Problem
from fstcrf.training.shards import spans

LARGEST = 1e15
"""Largest absolute value in training: sums of squares are float32."""

UNEVEN = 32.0
"""Absolute value from which on steps of one length for all weights are a bad start."""

_MOST_BITS = 100  # of a unit, which is a float32
_NEAR_ONE = 16.0
_LEAST_POWER = 500  # of two: penalties remain finite


def valued(problem: Problem) -> bool:
    """Return whether attributes have values other than 1."""
    return any(rows is not None and rows.value is not None for rows in (problem.node, problem.arc))


def largest_value(problem: Problem, name: Callable[..., str] | None = None) -> float:
    """Return the largest absolute value of an attribute, at least 1.

    Parameters
    ----------
    problem : Problem
    name : callable, optional
        (row, arc=whether it is an attribute of arcs) → the attribute, for the error.

    Raises
    ------
    DataError
        The value is larger than the limit of training; names sentence and token.
    """
    most = 1.0
    for arc, rows in enumerate((problem.node, problem.arc)):
        if rows is None or rows.value is None or not len(rows.value):
            continue
        entry = int(np.argmax(np.abs(rows.value)))
        most = max(most, abs(float(rows.value[entry])))
        if most > LARGEST:
            token = int(np.searchsorted(rows.indptr, entry, side="right")) - 1
            sentence = int(np.searchsorted(problem.offsets, token, side="right")) - 1
            what = "" if name is None else f" {name(int(rows.index[entry]), arc=bool(arc))!r}"
            raise DataError(
                f"attribute{what} has the value {rows.value[entry]:g}, expected at most "
                f"{LARGEST:g} in size: give it in other units",
                sentence=sentence,
                token=token - int(problem.offsets[sentence]),
            )
    return most


def uneven(problem: Problem) -> tuple[int, float, bool] | None:
    """Return the attribute with values furthest from 1: row, size, whether it is one of arcs.

    `None` if the root mean squares of all attributes are within a factor of `UNEVEN`.
    """
    worst, extreme = math.log(UNEVEN), None
    for arc, rows in enumerate((problem.node, problem.arc)):
        if rows is None or rows.value is None:
            continue
        with np.errstate(divide="ignore", invalid="ignore"):
            times, squares = row_magnitudes(rows, problem.weight, problem.offsets)
            size = np.sqrt(squares / times)
        away = np.abs(np.log(np.where(size > 0.0, size, 1.0)))
        row = int(np.argmax(away))
        if away[row] > worst:
            worst, extreme = float(away[row]), (row, float(size[row]), bool(arc))
    return extreme


def sums_of_squares(problem: Problem, space: ParameterSpace) -> Floats:
    """Return for each weight the sums of w and of w x², float64 [2, size].

    x is the value of its feature at a token, w the weight of the sentence.
    """
    node = row_magnitudes(problem.node, problem.weight, problem.offsets)
    out = np.ones((2, space.size))
    bounds = space.bounds
    out[:, : bounds[1]] = node[:, space.node_cells // space.width]
    if problem.arc is not None and space.n_arc_rows:
        arc = row_magnitudes(problem.arc, problem.weight, problem.offsets)
        out[:, bounds[2] : bounds[3]] = arc[:, space.arc_cells // space.arc_width]
    return out


def row_magnitudes(rows: SparseRows, weight: Floats, offsets: Longs) -> Floats:
    """Return the sums of w and of w x² over the tokens of each attribute, float64 [2, R]."""
    of_token = np.repeat(weight, Ragged(offsets).lengths)
    out = np.zeros((2, rows.n_columns))
    for tokens in spans(len(rows)):
        bounds = rows.indptr[tokens.start : tokens.stop + 1]
        entries = slice(int(bounds[0]), int(bounds[-1]))
        masses = np.repeat(of_token[tokens], np.diff(bounds))
        index = rows.index[entries]
        out[0] += np.bincount(index, weights=masses, minlength=rows.n_columns)
        if rows.value is not None:
            masses = masses * rows.value[entries].astype(np.float64) ** 2
        out[1] += np.bincount(index, weights=masses, minlength=rows.n_columns)
    return out


def weight_unit(weight: Floats) -> float:
    """Return the divisor of sentence weights and penalties: a power of two.

    It is 1 if the largest weight is near 1. Otherwise float32 might not represent the weights, and
    the thresholds of optimisers, which are chosen for sums over sentences, would be too small or
    too large.
    """
    most = float(weight.max(initial=0.0))
    if most == 0.0 or 1.0 / _NEAR_ONE <= most <= _NEAR_ONE:
        return 1.0
    return 2.0 ** max(math.frexp(most)[1] - 1, -_LEAST_POWER)


def units(sums: Floats, l2: float) -> Singles | None:
    """Return the unit of each weight, float32 [size], from these sums; `None` if all are 1."""
    with np.errstate(divide="ignore", invalid="ignore"):
        times, squares = sums / 4.0 + 2.0 * l2
        bits = np.round(np.log2(times / squares) / 2.0)
    bits = np.where(np.isnan(bits), 0.0, np.clip(bits, -_MOST_BITS, _MOST_BITS))
    return np.ldexp(np.float32(1.0), bits.astype(np.int32)) if bits.any() else None
