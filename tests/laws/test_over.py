"""A grammar over the labels of tokens reads each token once, whatever the kind of lattice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fstcrf import Grammar, Lattice
from fstcrf.constraints import at_most, never
from fstcrf.errors import FstcrfError, NoPathError
from fstcrf.machines import openfst
from tests.laws.kinds import KINDS

LABELS = ("A", "B")


def of_arcs(arcs: list[tuple[int, int, str, float]], end: int) -> Lattice:
    """Return the lattice of a machine whose paths have different lengths."""
    lines = [f"{s} {t} {x} {x} {-w!r}" for s, t, x, w in arcs]
    return Lattice.from_machine(openfst.from_att("\n".join([*lines, str(end)])), LABELS)


MACHINES = {
    "a way around": of_arcs([(0, 1, "A", 0.5), (0, 2, "A", 0.0), (1, 2, "B", 1.0)], 2),
    "three ways": of_arcs(
        [(0, 1, "A", 0.1), (1, 2, "A", 0.2), (2, 3, "B", 0.3), (0, 3, "B", 0.4), (1, 3, "A", 0.5)],
        3,
    ),
}
RULES: dict[str, tuple[Grammar, Callable[[Any], bool]]] = {
    "at_most": (at_most(1, "A"), lambda labels: labels.count("A") <= 1),
    "never": (never("B"), lambda labels: "B" not in labels),
    "length": (Grammar.from_text("export X = any;"), lambda labels: len(labels) == 1),
    "two": (
        Grammar.from_text('export X = "[A]" any;'),
        lambda labels: len(labels) == 2 and labels[0] == "A",
    ),
}


@pytest.mark.parametrize("over", ["tokens", "segments"])
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("machine", MACHINES)
def test_paths_of_different_lengths(machine: str, rule: str, over: Any) -> None:
    lattice, (grammar, legal) = MACHINES[machine], RULES[rule]
    free = {path.labels: path.score for path in lattice.nbest(99)}
    wanted = {labels: score for labels, score in free.items() if legal(labels)}
    ruled = lattice.constrained(grammar, over=over)
    assert {path.labels: path.score for path in ruled.nbest(99)} == pytest.approx(wanted)
    if wanted:
        assert ruled.log_partition() == pytest.approx(np.logaddexp.reduce([*wanted.values()]))
    else:
        with pytest.raises(NoPathError):
            ruled.best()


@pytest.mark.parametrize("kind", KINDS)
def test_a_rule_over_tokens_reads_the_label_of_each_token(kind: str) -> None:
    """A grammar that allows everything changes nothing, over tokens as over segments."""
    case = KINDS[kind](np.random.default_rng(5), 3)
    lattice = case.lattice
    every = Grammar.from_text("export ALL = any*;").on(lattice.tapes[0])
    score = lattice.best().score
    for over in ("tokens", "segments"):
        try:
            ruled = lattice.constrained(every, over=over)
        except FstcrfError:  # the table of refusals names the kinds that have no tokens
            continue
        assert ruled.best().score == pytest.approx(score)
        assert ruled.log_partition() == pytest.approx(lattice.log_partition())
