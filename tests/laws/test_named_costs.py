"""Law: the gradient of a composition, by named costs, is what log Z changes with each cost.

Operations of the algebra on random machines with named costs on arcs and ends, in both semirings.
The oracle builds everything anew after a small step along a random direction of the costs, and
after the opposite step. A wrong derivative of any cost shows along almost every direction.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fstcrf import Lattice, Transducer
from fstcrf.errors import (
    AmbiguousError,
    EpsilonCycleError,
    LabelError,
    NumericError,
    ShapeError,
)
from fstcrf.machines.machine import Semiring
from tests.oracle.test_algebra import READ, SEMIRINGS, WRITTEN, random

_H = 1e-5
_THEN = (WRITTEN[::-1], ("u", "v"))

OPERATIONS: dict[str, Callable[[Transducer, Transducer], Transducer]] = {
    "itself": lambda a, _: a,
    "|": lambda a, b: a | b.on("in", writes="out"),
    "+": lambda a, b: a + b.on("in", writes="out"),
    "closure": lambda a, _: a.closure(),
    "closure, remove_epsilon": lambda a, _: a.closure().remove_epsilon(),
    "@": lambda a, b: a @ b,
    "@, closure": lambda a, b: (a @ b).closure(),
    "@, remove_epsilon": lambda a, b: (a @ b).remove_epsilon(),
    "remove_epsilon": lambda a, _: a.remove_epsilon(),
    "silent ways together": lambda a, _: (a | a | a.reverse().reverse()).remove_epsilon(),
    "reverse": lambda a, _: a.reverse(),
    "invert": lambda a, _: a.invert().invert(),
    "project": lambda a, _: a.project("input"),
    "with_failures": lambda a, _: a.with_failures(
        np.arange(-1, len(a.final) - 1), np.zeros(len(a.final))
    ),
}


def _named(rng: Any, machine: Transducer, names: str) -> Transducer:
    size = len(machine.score) + len(machine.final)
    return replace(machine, named={x: rng.integers(0, 3, size).astype(float) for x in names})


def _dearer(machine: Transducer, costs: dict[str, float], step: float) -> Transducer:
    size = len(machine.score)
    more = np.zeros(size + len(machine.final))
    for name, uses in machine.named.items():
        more += step * costs[name] * uses
    return machine.with_scores(machine.score - more[:size], machine.final - more[size:])


def _machines(seed: int, semiring: Semiring) -> tuple[Transducer, Transducer]:
    rng = np.random.default_rng(seed)
    one = random(rng, semiring, acyclic=seed % 2 == 0)
    other = random(rng, semiring, acyclic=True, symbols=_THEN, tape="then")
    return _named(rng, one, "pq"), _named(rng, other, "qr")


def check(
    operation: str, semiring: Semiring, answered: Counter[str], *, wrong: bool = False
) -> None:
    made = OPERATIONS[operation]
    lattice = Lattice.from_arrays(READ, np.random.default_rng(7).normal(size=(2, 2)), tape="in")
    for seed in range(30):
        if answered[operation] == 6:
            break
        a, b = _machines(seed, semiring)
        if operation == "with_failures" and (a.input < 0).any():
            a = replace(a, input=np.maximum(a.input, 0))
        b = replace(b, input_symbols=READ, output_symbols=WRITTEN) if operation in "|+" else b
        try:
            machine = made(a, b)
            composed = lattice @ machine
            if composed.log_partition() == -np.inf:
                continue
            (gradient,) = [v for k, v in composed.gradient().items() if len(v.shape) == 1 and k in
                           {"out", "then", "input", "acceptor 0"}]  # fmt: skip
        except (EpsilonCycleError, AmbiguousError, LabelError):
            continue
        found = machine.by_name(gradient)
        assert set(found) == set("pqr" if operation.startswith(("|", "+", "@")) else "pq")
        costs = dict(zip("pqr", np.random.default_rng(seed).normal(size=3), strict=True))
        more, less = (
            (lattice @ made(_dearer(a, costs, h), _dearer(b, costs, h))).log_partition()
            for h in (_H, -_H)
        )
        along = sum(costs[name] * value for name, value in found.items()) + wrong
        assert along == pytest.approx((more - less) / (2 * _H), abs=1e-5), seed
        answered[operation] += 1


@pytest.mark.parametrize("semiring", SEMIRINGS)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_named_costs_survive_the_algebra(operation: str, semiring: Semiring) -> None:
    answered = Counter[str]()
    check(operation, semiring, answered)
    assert semiring == "tropical" or answered[operation] > 1


def test_a_wrong_derivative_is_noticed() -> None:
    with pytest.raises(AssertionError):
        check("@", "log", Counter(), wrong=True)


BAD_USES: dict[str, tuple[Any, str]] = {
    "short": ([1.0], r"named\['k'\] is float64 \[1\], expected float64 \[2\]"),
    "a number": (3, r"named\['k'\] is float64 \[\]"),
    "text": (["x", "y"], r"named\['k'\] is no array of numbers"),
    "NaN": ([0.0, np.nan], r"named\['k'\] has nan at 1, expected finite numbers"),
    "infinite": ([-np.inf, 0.0], r"named\['k'\] has -inf at 0"),
}


@pytest.mark.parametrize("bad", BAD_USES)
def test_uses_that_are_no_finite_number_for_each_arc_and_end_are_refused(bad: str) -> None:
    uses, message = BAD_USES[bad]
    loop: Any = {"input_symbols": ["a"], "output_symbols": ["a"], "named": {"k": uses}}
    with pytest.raises((ShapeError, NumericError), match=message):
        Transducer.from_arrays([0], [0], [0], [0], **loop)


def test_names_tell_the_arcs_of_a_part_apart() -> None:
    """Each arc of an edit machine, in a composition of three, by what log Z changes with it."""
    rng = np.random.default_rng(3)
    ends, score = [-0.1], rng.normal(size=8)
    given = [-1, -1, 0, 0, 0, 1, 1, 1], [0, 1, -1, 0, 1, -1, 0, 1], [0] * 8
    named = {str(k): np.eye(9)[k] for k in range(9)}
    lattice = Lattice.from_arrays(READ, rng.normal(size=(2, 2)), tape="in")
    word = Transducer.from_pairs([("a b", "a b"), ("b", "b")], tape="word")

    def composed(score: Any) -> Any:
        symbols: Any = {"input_symbols": READ, "output_symbols": ("a", "b")}
        return Transducer.from_arrays([0] * 8, *given, score, ends, **symbols, named=named) @ word

    machine = composed(score)
    found = machine.by_name((lattice @ machine).gradient()["word"])
    for k in range(8):
        step = _H * np.eye(8)[k]
        more, less = (lattice @ composed(score + s * step) for s in (1, -1))
        wanted = (more.log_partition() - less.log_partition()) / (2 * _H)
        assert -found[str(k)] == pytest.approx(wanted, abs=1e-6)
