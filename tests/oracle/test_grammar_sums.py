"""Machines of the log semiring as grammars: a labelling with several paths is their sum there.

A grammar scores a labelling by one path, so that machines with several are refused; which have
several is told by counting paths, which OpenFst does, too, where all weights are those of one.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fstcrf import Grammar, Lattice
from fstcrf.errors import GrammarError
from fstcrf.machines.algebra import trimmed
from fstcrf.machines.grammar.automata import Automaton, ambiguous
from fstcrf.machines.machine import Machine
from fstcrf.machines.openfst import Naming, from_fst, to_bytes
from fstcrf.taggers.tagmaps import pair_acceptor

pynini = pytest.importorskip("pynini", reason="pynini is not installed")

LABELS = ("a", "b", "c")
SUMS = ("log", "log64")


def weight(fst: Any, value: float) -> Any:
    return pynini.Weight(fst.weight_type(), value)


def machine(
    arcs: Sequence[tuple[int, int, int, float]],
    ends: Sequence[tuple[int, float]],
    arc_type: str = "log64",
) -> Any:
    """A machine from state 0: source, symbol, target, cost of arcs; states and costs of ends."""
    fst = pynini.Fst(arc_type)
    fst.add_states(1 + max([s for a in arcs for s in a[::2][:2]] + [s for s, _ in ends], default=0))
    fst.set_start(0)
    for source, symbol, target, cost in arcs:
        fst.add_arc(source, pynini.Arc(symbol, symbol, weight(fst, cost), target))
    for state, cost in ends:
        fst.set_final(state, weight(fst, cost))
    return fst


def summed(fst: Any, symbols: Sequence[int]) -> float:
    """The score of a sequence: the log of the sum over its paths, by OpenFst."""
    arcs = [(k, symbol, k + 1, 0.0) for k, symbol in enumerate(symbols)]
    string = machine(arcs, [(len(symbols), 0.0)], fst.arc_type())
    both = pynini.compose(string, fst)
    if both.start() < 0:
        return -np.inf
    distance = pynini.shortestdistance(both, reverse=True, delta=1e-10)
    return -float(distance[both.start()])


def read(fst: Any) -> Machine:
    return from_fst(fst, Naming((LABELS, LABELS)))


PLAIN = machine([(0, 1, 1, 0.5), (0, 2, 1, 1.5), (1, 3, 0, 0.25)], [(1, 1.0)])
TWICE = machine([(0, 1, 1, 0.5), (0, 1, 1, 1.5), (0, 2, 1, 0.0)], [(1, 0.0)])
SPLIT = machine([(0, 1, 1, 0.5), (0, 1, 2, 1.0), (1, 2, 3, 0.0), (2, 3, 3, 0.0)], [(3, 0.25)])
CASES: dict[str, tuple[Any, str | None]] = {
    "deterministic": (PLAIN, None),
    "alternatives, one path": (SPLIT, None),
    "two arcs": (TWICE, "'1'"),
    "two ways": (
        machine([(0, 1, 1, 0), (0, 1, 2, 0), (1, 2, 0, 0), (2, 2, 0, 0)], [(0, 0)]),
        "'1 2'",
    ),
    "two ends": (machine([(0, 1, 1, 0), (0, 1, 2, 0)], [(1, 0.5), (2, 0.5)]), "'1'"),
    "a silent way": (machine([(0, 0, 1, 0), (0, 2, 1, 0), (1, 2, 2, 0)], [(1, 0), (2, 0)]), "'2'"),
    "two silent ways": (machine([(0, 0, 1, 0), (0, 0, 2, 0), (1, 0, 2, 0)], [(2, 0)]), "empty"),
    "a silent loop": (machine([(0, 0, 0, 1), (0, 1, 1, 0)], [(1, 0)]), "'1'"),
    "one silent way": (machine([(0, 0, 1, 1), (1, 1, 1, 0.5)], [(1, 0)]), None),
    "what is on no path": (machine([(0, 1, 1, 0), (0, 2, 2, 0), (0, 2, 3, 0)], [(1, 0)]), None),
    "nothing written twice": (machine([(0, 1, 1, 0), (0, 1, 1, np.inf)], [(1, 0)]), None),
}


@pytest.mark.parametrize("arc_type", SUMS)
@pytest.mark.parametrize(("fst", "witness"), CASES.values(), ids=CASES.keys())
def test_machines(fst: Any, witness: str | None, arc_type: str) -> None:
    fst = pynini.arcmap(fst, map_type=f"to_{arc_type}") if fst.arc_type() != arc_type else fst
    if witness is None:
        grammar = Grammar.from_fst(fst).bound(LABELS)
        for length in range(4):
            for numbers in itertools.product(range(3), repeat=length):
                labels = [LABELS[k] for k in numbers]
                expected = summed(fst, [k + 1 for k in numbers])
                assert grammar.score(labels) == pytest.approx(expected, abs=1e-6)
        return
    with pytest.raises(GrammarError) as raised:
        Grammar.from_fst(fst, name="mine")
    message = str(raised.value)
    assert message.startswith("mine has the log semiring, which sums over all paths")
    assert witness in message
    assert "\n" not in message
    assert "pynini.determinize(pynini.rmepsilon(fst))" in message
    tropical = Grammar.from_fst(pynini.arcmap(fst, map_type="to_standard"))  # as the message says
    assert tropical.bound(LABELS) is not None


def test_the_ways_out() -> None:
    """Both give what they say: the sum, or the cheapest path."""
    both = pynini.determinize(pynini.rmepsilon(TWICE))
    assert Grammar.from_fst(both).bound(LABELS).score(["a"]) == pytest.approx(
        np.logaddexp(-0.5, -1.5)
    )
    cheapest = pynini.arcmap(TWICE, map_type="to_standard")
    assert Grammar.from_fst(cheapest).bound(LABELS).score(["a"]) == -0.5


# --- Random machines ------------------------------------------------------------------------------


@st.composite
def machines(draw: st.DrawFn) -> Any:
    states = draw(st.integers(1, 4))
    state = st.integers(0, states - 1)
    cost = st.sampled_from([0.0, 0.5, 1.0])
    arcs = draw(st.lists(st.tuples(state, st.integers(0, 3), state, cost), max_size=9))
    ends = draw(st.lists(st.tuples(state, cost), min_size=1, max_size=3))
    return machine([*arcs, (states - 1, 1, states - 1, 0.0)][: len(arcs) or 1], ends)


def counted(fst: Any) -> Callable[[Sequence[int]], float]:
    """Return the number of paths of a sequence; inf: a silent loop is on one of them."""
    found = trimmed(read(fst))
    states = len(found.final)
    silent = np.zeros((states, states))
    step = {k: silent.copy() for k in range(1, 4)}
    for source, symbol, target in zip(found.source, found.input, found.target, strict=True):
        (step[int(symbol) + 1] if symbol >= 0 else silent)[source, target] += 1
    ways = np.sum([np.linalg.matrix_power(silent, k) for k in range(states + 2)], axis=0)

    def paths(symbols: Sequence[int]) -> float:
        count = ways[0]
        for symbol in symbols:
            count = count @ step[symbol] @ ways
        return float(count[found.final > -np.inf].sum())

    return paths


@given(machines())
def test_which_machines_have_several_paths(fst: Any) -> None:
    found = ambiguous(Automaton.of(trimmed(read(fst))))
    paths = counted(fst)
    strings = [s for n in range(6) for s in itertools.product((1, 2, 3), repeat=n)]
    first = next((s for s in strings if paths(s) > 1), None)
    if found is None:
        assert first is None
        return
    symbols = [k + 1 for k in found]
    assert paths(symbols) > 1
    assert first is None or len(first) == len(symbols)  # a shortest one


@given(machines())
def test_what_is_accepted_has_the_sums_of_openfst(fst: Any) -> None:
    try:
        grammar = Grammar.from_fst(fst).bound(LABELS)
    except GrammarError:
        return
    for length in range(4):
        for numbers in itertools.product(range(3), repeat=length):
            expected = summed(fst, [k + 1 for k in numbers])
            found = grammar.score([LABELS[k] for k in numbers])
            assert found == pytest.approx(expected, abs=1e-6)


@given(machines(), machines())
def test_intersections_of_machines_with_one_path_are_accepted(one: Any, other: Any) -> None:
    for fst in (one, other):
        if ambiguous(Automaton.of(trimmed(read(fst)))) is not None:
            return
    both = pynini.intersect(one.arcsort(), other.arcsort())
    assert ambiguous(Automaton.of(trimmed(read(both)))) is None


# --- Doors ----------------------------------------------------------------------------------------


def test_files(tmp_path: Path) -> None:
    path = tmp_path / "twice.fst"
    for arc_type in ("standard", *SUMS):
        path.write_bytes(to_bytes(read(TWICE), arc_type))  # type: ignore[arg-type]
        if arc_type == "standard":
            assert Grammar.from_fst(path).bound(LABELS).score(["a"]) == -0.5
            continue
        with pytest.raises(GrammarError, match=r"twice\.fst has the log semiring"):
            Grammar.from_fst(path)
        rules = tmp_path / "rules.grm"
        rules.write_text('\nexport X = fst["twice.fst"];\n')
        with pytest.raises(GrammarError, match=r"rules\.grm:2:12: twice\.fst has the log semiring"):
            Grammar.from_file(rules, LABELS)


@pytest.mark.parametrize(
    ("expression", "witness"),
    [
        ('fst["plain.fst"]', None),
        ('fst["plain.fst"] | any any', None),
        ('fst["plain.fst"] | "[a]"', "'a'"),
        ('fst["plain.fst"]+', None),
        ('any* fst["plain.fst"]', "'a c a'"),
        ('any* (fst["plain.fst"] - any{2,})', None),
        ('(fst["plain.fst"]?)?', "the empty labelling"),
    ],
)
def test_expressions(expression: str, witness: str | None, tmp_path: Path) -> None:
    """Expressions count the best path, so that machines in them must leave one."""
    (tmp_path / "plain.fst").write_bytes(to_bytes(read(PLAIN), "log64"))
    (tmp_path / "rules.grm").write_text(f"export X = {expression};")
    if witness is None:
        assert Grammar.from_file(tmp_path / "rules.grm", LABELS).accepts(["a"])
        return
    with pytest.raises(GrammarError) as raised:
        Grammar.from_file(tmp_path / "rules.grm", LABELS)
    assert "rules.grm:1:1: export X: plain.fst has the log semiring" in str(raised.value)
    assert witness in str(raised.value)
    (tmp_path / "plain.fst").write_bytes(to_bytes(read(PLAIN), "standard"))
    assert Grammar.from_file(tmp_path / "rules.grm", LABELS).accepts(["a"])


def test_maps_between_taggers() -> None:
    """A transducer scores a pair of labellings by one path, too."""
    fst = pynini.Fst("log64")
    fst.add_states(1)
    fst.set_start(0)
    fst.set_final(0, weight(fst, 0.0))
    tape = ("x", ("a", "b")), ("y", ("u", "v")), "y"
    for pair in ((1, 1), (2, 2), (1, 2)):
        fst.add_arc(0, pynini.Arc(*pair, weight(fst, 0.5), 0))
    assert pair_acceptor(fst, *tape).walk(["a"], ["v"]) == -0.5
    fst.add_arc(0, pynini.Arc(1, 2, weight(fst, 0.25), 0))
    with pytest.raises(GrammarError, match=r"the map x → y has the log semiring.* 'a:v' has"):
        pair_acceptor(fst, *tape)
    assert (
        pair_acceptor(pynini.arcmap(fst, map_type="to_standard"), *tape).walk(["a"], ["v"]) == -0.25
    )


def test_tropical_machines_with_several_paths_stay() -> None:
    tropical = pynini.arcmap(TWICE, map_type="to_standard")
    lattice = Lattice.from_arrays(LABELS, np.zeros((1, 3))) & Grammar.from_fst(tropical)
    assert lattice.log_partition() == pytest.approx(np.logaddexp(-0.5, 0.0))
    drifting = machine(
        [
            (0, 1, 1, 0.0),
            (0, 1, 2, 0.0),
            (1, 1, 1, 1.0),
            (2, 1, 2, 2.0),
            (1, 2, 3, 0),
            (2, 3, 3, 0),
        ],
        [(3, 0.0)],
        "standard",
    )
    with pytest.raises(GrammarError, match="cannot make the machine deterministic: more than"):
        Grammar.from_fst(drifting).bound(LABELS)
