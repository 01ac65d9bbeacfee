"""Law: the gradient of a composition, by named costs, is what log Z changes with each cost.

Operations of the algebra beside random machines with named costs on arcs and ends, both semirings.
The oracle builds everything anew with a cost that is a little larger, and a little smaller.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fstcrf import Lattice, Transducer
from fstcrf.errors import AmbiguousError, EpsilonCycleError, LabelError
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


def _dearer(machine: Transducer, name: str, step: float) -> Transducer:
    uses, size = machine.named.get(name), len(machine.score)
    if uses is None:
        return machine
    return machine.with_scores(
        machine.score - step * uses[:size], machine.final - step * uses[size:]
    )


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
        names = "pqr" if operation.startswith(("|", "+", "@")) else "pq"
        assert set(found) == set(names)
        for name in names:
            totals = [
                (lattice @ made(_dearer(a, name, h), _dearer(b, name, h))).log_partition()
                for h in (_H, -_H)
            ]
            wanted = (totals[0] - totals[1]) / (2 * _H) + wrong
            assert found[name] == pytest.approx(wanted, abs=1e-5), (seed, name)
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
