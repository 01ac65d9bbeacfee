"""The algebra of transducers, against the weights of all pairs of strings up to a length.

The oracle knows no paths: a pair of strings is a product of matrices over states, with the closure
of what is silent between them. What an operation means is told of these tables.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
import pytest

from fstcrf import Lattice, Transducer
from fstcrf.errors import (
    EpsilonCycleError,
    NoPathError,
    NumericError,
    OptionError,
    TooLargeError,
)
from fstcrf.kernel import composed as kernel
from fstcrf.machines import algebra, ways
from fstcrf.machines.machine import Semiring

Pair: TypeAlias = tuple[tuple[str, ...], tuple[str, ...]]
Table: TypeAlias = dict[Pair, float]

READ, WRITTEN = ("a", "b"), ("x", "y")
SEEDS = range(40)
SEMIRINGS: tuple[Semiring, ...] = ("log", "tropical")


# --- The oracle -----------------------------------------------------------------------------------


def strings(symbols: tuple[str, ...], most: int) -> list[tuple[str, ...]]:
    return [s for n in range(most + 1) for s in itertools.product(symbols, repeat=n)]


class Matrices:
    """Matrices [Q, Q] of what a machine does with one symbol of either side, or with none."""

    def __init__(self, machine: Transducer) -> None:
        self.log, self.machine = machine.semiring == "log", machine
        size = len(machine.final)
        none = np.full((size, size), -np.inf)
        self.of: dict[tuple[str | None, str | None], Any] = {(None, None): none.copy()}
        columns = (machine.source, machine.input, machine.output, machine.target, machine.score)
        for s, i, o, t, w in zip(*(c.tolist() for c in columns), strict=True):
            key = (
                machine.input_symbols[i] if i >= 0 else None,
                machine.output_symbols[o] if o >= 0 else None,
            )
            matrix = self.of.setdefault(key, none.copy())
            matrix[s, t] = self.plus([matrix[s, t], w])
        silent = self.of.pop((None, None))
        star = np.where(np.eye(size, dtype=bool), 0.0, -np.inf)
        if self.log:
            with np.errstate(divide="ignore"):
                inverse = np.linalg.inv(np.eye(size) - np.exp(silent))
                star = np.log(np.where(inverse > 1e-14, inverse, 0.0))
        else:
            for _ in range(size):
                star = np.maximum(star, self.times(star, silent))
        self.star = star

    def plus(self, values: Any, axis: int = 0) -> Any:
        return (np.logaddexp if self.log else np.maximum).reduce(values, axis=axis)

    def times(self, one: Any, other: Any) -> Any:
        return self.plus(one[..., :, None] + other, axis=-2)

    def weight(self, pair: Pair) -> float:
        """Return what is together over all runs: forward over what is left to read and write."""
        read, written = pair
        nothing = np.full(len(self.machine.final), -np.inf)
        forward: dict[tuple[int, int], Any] = {}
        for i, o in itertools.product(range(len(read) + 1), range(len(written) + 1)):
            ways = [nothing]
            if (i, o) == (0, 0):
                ways = [np.where(np.arange(len(nothing)) == 0, 0.0, -np.inf)]
            for di, do in ((1, 0), (0, 1), (1, 1)):
                if i < di or o < do:
                    continue
                key = read[i - 1] if di else None, written[o - 1] if do else None
                if key in self.of:
                    ways.append(self.times(forward[i - di, o - do], self.of[key]))
            forward[i, o] = self.times(self.plus(ways), self.star)
        return float(self.plus(forward[len(read), len(written)] + self.machine.final))


def table(machine: Transducer, most: int = 2) -> Table:
    """Return the weights of all pairs to a length; those of an acceptor read what they write."""
    matrices = Matrices(machine)
    if machine.tape is None:
        pairs: Any = ((s, s) for s in strings(machine.input_symbols, most))
    else:
        sides = strings(machine.input_symbols, most), strings(machine.output_symbols, most)
        pairs = itertools.product(*sides)
    weights = {pair: matrices.weight(pair) for pair in pairs}
    return {pair: weight for pair, weight in weights.items() if weight > -np.inf}


def together(semiring: Semiring, rows: Any) -> Table:
    plus = np.logaddexp if semiring == "log" else np.maximum
    made: Table = {}
    for pair, weight in rows:
        made[pair] = float(plus(made.get(pair, -np.inf), weight))
    return made


def behind(semiring: Semiring, one: Table, other: Table, most: int = 2) -> Table:
    both = itertools.product(one.items(), other.items())
    rows = (((a + c, b + d), v + w) for ((a, b), v), ((c, d), w) in both)
    return together(semiring, ((p, w) for p, w in rows if max(map(len, p)) <= most))


def check_same(found: Table, wanted: Table) -> None:
    assert found.keys() == wanted.keys()
    keys = list(wanted)
    np.testing.assert_allclose([found[k] for k in keys], [wanted[k] for k in keys], atol=1e-8)


# --- Random machines ------------------------------------------------------------------------------


def random(
    rng: Any,
    semiring: Semiring,
    *,
    tape: str | None = "out",
    acyclic: bool = False,
    weighted: bool = True,
    symbols: tuple[Any, Any] = (READ, WRITTEN),
) -> Transducer:
    """Return a machine with cycles, silent ones too; sums over these are finite."""
    states, arcs = int(rng.integers(2, 5)), int(rng.integers(3, 9))
    source = rng.integers(0, states, arcs)
    target = rng.integers(0, states, arcs)
    if acyclic:
        source = rng.integers(0, states - 1, arcs)
        target = np.asarray([rng.integers(s + 1, states) for s in source])
    read = rng.integers(-1, len(symbols[0]), arcs)
    written = read if tape is None else rng.integers(-1, len(symbols[1]), arcs)
    score = -rng.uniform(2.5, 4.0, arcs)
    score[rng.random(arcs) < 0.1] = -np.inf
    final = np.where(rng.random(states) < 0.6, -rng.uniform(1.5, 3.0, states), -np.inf)
    if not weighted:
        score, final = np.zeros(arcs), np.where(final > -np.inf, 0.0, -np.inf)
    outputs = symbols[0] if tape is None else symbols[1]
    return Transducer.from_arrays(
        source, read, written, target, score, final,
        input_symbols=symbols[0], output_symbols=outputs, semiring=semiring, tape=tape,
    )  # fmt: skip


def language(rng: Any, semiring: Semiring, symbols: tuple[str, ...] = READ) -> Transducer:
    made = random(rng, "tropical", tape=None, weighted=False, symbols=(symbols, symbols))
    return replace(made, semiring=semiring)


Law: TypeAlias = Callable[[Any, Semiring], None]


def tape_of(rng: Any) -> str | None:
    return None if rng.random() < 0.4 else "out"


# --- Laws -----------------------------------------------------------------------------------------


def union(rng: Any, semiring: Semiring) -> None:
    tape = tape_of(rng)
    one = random(rng, semiring, tape=tape)
    other = random(rng, semiring, tape=tape, symbols=(("b", "c"), ("y", "z")))
    rows = [*table(one).items(), *table(other).items()]
    check_same(table(one | other), together(semiring, rows))


def concatenation(rng: Any, semiring: Semiring) -> None:
    tape = tape_of(rng)
    one = random(rng, semiring, tape=tape)
    other = random(rng, semiring, tape=tape, symbols=(("b", "c"), ("y", "z")))
    check_same(table(one + other), behind(semiring, table(one), table(other)))


def closure(rng: Any, semiring: Semiring) -> None:
    one = random(rng, semiring, tape=tape_of(rng))
    every = table(one)
    empty = every.pop(((), ()), -np.inf)
    star = -np.log1p(-np.exp(empty)) if semiring == "log" else 0.0
    wanted: Table = {}
    for _ in range(6):
        rows = [(((), ()), 0.0), *behind(semiring, every, wanted).items()]
        wanted = together(semiring, ((pair, weight + star) for pair, weight in rows))
    check_same(table(one.closure()), wanted)


def inversion(rng: Any, semiring: Semiring) -> None:
    one = random(rng, semiring)
    check_same(table(one.invert()), {(o, i): w for (i, o), w in table(one).items()})


def projection(rng: Any, semiring: Semiring) -> None:
    one = random(rng, semiring, acyclic=True)
    for side, name in enumerate(("input", "output")):
        rows = ((((p[side],) * 2), w) for p, w in table(one, 3).items())
        found = one.project(name)  # type: ignore[arg-type]
        assert found.tape is None
        check_same(table(found, 3), together(semiring, rows))


def reversal(rng: Any, semiring: Semiring) -> None:
    one = random(rng, semiring, tape=tape_of(rng))
    check_same(table(one.reverse()), {(i[::-1], o[::-1]): w for (i, o), w in table(one).items()})


def composition(rng: Any, semiring: Semiring) -> None:
    one = random(rng, semiring, tape=tape_of(rng), acyclic=True)
    between = (*one.output_symbols[::-1], "z")
    other = random(rng, semiring, tape="then", symbols=(between, ("u",)))
    both = itertools.product(table(one, 3).items(), table(other, 3).items())
    rows = (((a, d), v + w) for ((a, b), v), ((c, d), w) in both if b == c)
    found = one.on("first") @ other
    assert (found.reads, found.tape) == ("first", "then")
    check_same(table(found, 3), together(semiring, rows))


def composition_behind_a_lattice(rng: Any, semiring: Semiring) -> None:
    """In one step or in two; of tropical machines the best path counts."""
    one = random(rng, semiring, acyclic=True)
    other = random(rng, semiring, tape="then", acyclic=True, symbols=(WRITTEN, ("u",)))
    length = int(rng.integers(0, 3))
    lattice = Lattice.from_arrays(READ, rng.normal(size=(length, 2)))
    both = lattice @ one @ other, lattice @ (one @ other)
    totals = [x.log_partition() for x in both]
    if semiring == "tropical" and totals[0] > -np.inf:
        totals = [x.best().score for x in both]
    np.testing.assert_allclose(totals[0], totals[1], atol=1e-9)


def intersection(rng: Any, semiring: Semiring) -> None:
    one, other = (random(rng, semiring, tape=None, symbols=(x, x)) for x in (READ, ("b", "a", "c")))
    first, second = table(one, 3), table(other, 3)
    check_same(table(one & other, 3), {p: w + second[p] for p, w in first.items() if p in second})


def without_epsilon(rng: Any, semiring: Semiring) -> None:
    one = random(rng, semiring, tape=tape_of(rng))
    found = one.remove_epsilon()
    assert ((found.input >= 0) | (found.output >= 0)).all()
    check_same(table(found), table(one))


def determinisation(rng: Any, semiring: Semiring) -> None:
    one = random(rng, semiring, tape=None, acyclic=True)
    cyclic = language(rng, "tropical")
    for machine in (one, cyclic):
        found = machine.determinize()
        assert (found.input >= 0).all()
        assert len({*zip(found.source.tolist(), found.input.tolist(), strict=True)}) == len(
            found.input
        )
        check_same(table(found, 4), table(machine, 4))


def minimisation(rng: Any, semiring: Semiring) -> None:
    """Of a language as many states as there are different futures of its strings."""
    one = random(rng, semiring, tape=None, acyclic=True)
    again = one.reverse().determinize().reverse()
    small = one.minimize()
    check_same(table(small, 4), table(one, 4))
    assert len(small.final) == len(again.minimize().final) <= len(one.determinize().final)
    cyclic = language(rng, "tropical")
    small, accepted = cyclic.minimize(), {string for string, _ in table(cyclic, 5)}
    check_same(table(small, 4), table(cyclic, 4))
    begins, ends = strings(READ, 3), strings(READ, 2)  # enough for 4 states
    futures = {frozenset(s for s in ends if (*begin, *s) in accepted) for begin in begins}
    assert len(small.final) > 4 or len(small.final) == max(1, len(futures - {frozenset()}))


def pushing(rng: Any, semiring: Semiring) -> None:
    """The same weights; what goes on from a state is together 0, but from the start."""
    one = random(rng, semiring, tape=tape_of(rng))
    if rng.random() < 0.5:
        one = replace(one, score=one.score + 2.0)  # cycles that may gain
    alive = algebra.trimmed(one)
    total = np.zeros((len(alive.final), len(alive.final)))
    np.add.at(total, (alive.source, alive.target), np.exp(alive.score))
    gains = float(np.abs(np.linalg.eigvals(total)).max(initial=0.0)) >= 1.0
    if semiring == "tropical":
        none = np.full_like(alive.input, -1)
        ways = Matrices(replace(alive, input=none, output=none))
        gains = bool((np.diag(ways.times(ways.star, ways.star)) > 1e-9).any())
    alone = (alive.final > -np.inf).any()
    if gains and alone:
        with pytest.raises(NumericError, match="a cycle has a score that is too high"):
            one.push()
        return
    found = one.push()
    check_same(table(found), table(one))
    reached = set(found.source.tolist()) | {0}
    for state in reached - {0} if alone else ():
        own = [*found.score[found.source == state], found.final[state]]
        plus: Any = np.logaddexp if semiring == "log" else np.maximum
        assert np.isclose(plus.reduce(own), 0.0)


def expanded(
    machine: Transducer, parts: dict[str, Transducer], depth: int
) -> list[tuple[Pair, float]]:
    """List the runs of an acyclic machine, all names replaced, by what they read and write."""
    columns = (machine.source, machine.input, machine.output, machine.target, machine.score)
    arcs = [*zip(*(column.tolist() for column in columns), strict=True)]

    def onwards(state: int) -> list[tuple[Pair, float]]:
        final = float(machine.final[state])
        found: list[tuple[Pair, float]] = [(((), ()), final)] if final > -np.inf else []
        for _, i, o, target, score in (arc for arc in arcs if arc[0] == state):
            name = machine.output_symbols[o] if o >= 0 else ""
            here: list[tuple[Pair, float]] = [
                (
                    (
                        (machine.input_symbols[i],) if i >= 0 else (),
                        (name,) if o >= 0 else (),
                    ),
                    0.0,
                )
            ]
            if name in parts:
                here = expanded(parts[name], parts, depth - 1) if depth else []
            for ((a, b), v), ((c, d), w) in itertools.product(here, onwards(target)):
                found.append(((a + c, b + d), score + v + w))
        return found

    return [(pair, weight) for pair, weight in onwards(0) if weight > -np.inf]


def named(rng: Any, semiring: Semiring, tape: str | None) -> Transducer:
    """Return an acyclic machine, some arcs of which are the names N and M."""
    one = random(rng, semiring, tape=tape, acyclic=True)
    size = len(one.input_symbols), len(one.output_symbols)
    symbols = (*one.input_symbols, "N", "M"), (*one.output_symbols, "N", "M")
    read, written = one.input.copy(), one.output.copy()
    for arc in np.flatnonzero(rng.random(len(read)) < 0.35).tolist():
        name = int(rng.integers(2))
        written[arc] = size[1] + name
        read[arc] = -1 if tape is not None and rng.random() < 0.5 else size[0] + name
    return replace(
        one, input=read, output=written, input_symbols=symbols[0], output_symbols=symbols[1]
    )


def replacement(rng: Any, semiring: Semiring) -> None:
    tape = tape_of(rng)
    root, *others = (named(rng, semiring, tape) for _ in range(3))
    parts, depth = dict(zip("NM", others, strict=True)), int(rng.integers(3))
    found = root.replace(parts, depth)
    assert not {"N", "M"} & {*found.input_symbols, *found.output_symbols}
    runs = expanded(root, parts, depth)
    wanted = together(semiring, ((p, w) for p, w in runs if max(map(len, p)) <= 3))
    check_same(table(found, 3), wanted)


def complement(rng: Any, semiring: Semiring) -> None:
    one = language(rng, semiring)
    accepted = table(replace(one, semiring="tropical"), 4)
    wanted = {(s, s): 0.0 for s in strings(READ, 4) if (s, s) not in accepted}
    check_same(table(~one, 4), wanted)


def difference(rng: Any, semiring: Semiring) -> None:
    one, other = language(rng, semiring), language(rng, semiring, ("b", "c"))
    best = [replace(x, semiring="tropical") for x in (one, other, one - other)]
    first, second, found = (table(machine, 4) for machine in best)
    check_same(found, {p: w for p, w in first.items() if p not in second})


def support(rng: Any, semiring: Semiring) -> None:
    one = random(rng, semiring, tape=tape_of(rng))
    check_same(table(one.support()), dict.fromkeys(table(one), 0.0))


def example(rng: Any, semiring: Semiring) -> None:
    one = random(rng, semiring, tape=None)
    found, accepted = one.example(), table(one, 3)  # at most 4 states
    if found is None:
        assert not accepted
    else:
        assert (found, found) in accepted
        assert len(found) == min(len(string) for string, _ in accepted)


def witness(rng: Any, semiring: Semiring) -> None:
    one, other = language(rng, "tropical"), language(rng, "tropical", READ)
    if rng.random() < 0.5:  # the same in another form
        other = ~~one
    found = replace(one, semiring=semiring).witness(replace(other, semiring=semiring))
    assert one.equivalent(other) == (found is None)
    accepted = [table(machine, 5).keys() for machine in (one, other)]
    if found is None:
        assert accepted[0] == accepted[1]
    else:
        both = [Matrices(machine).weight((found, found)) for machine in (one, other)]
        assert both[0] != both[1]
        apart = [len(string) for string, _ in accepted[0] ^ accepted[1]]
        assert not apart or len(found) == min(apart)


def samples(rng: Any, semiring: Semiring) -> None:
    one = random(rng, semiring, tape=None, acyclic=True)
    accepted = {string for string, _ in table(one, 3)}
    if not accepted:
        with pytest.raises(NoPathError):
            one.sample(1)
        return
    found = one.sample(1000, seed=3)
    assert len(found) == 1000
    assert found == one.sample(1000, seed=3)
    assert set(found) == accepted


LAWS: tuple[Law, ...] = (
    union, concatenation, closure, inversion, projection, reversal, composition,
    composition_behind_a_lattice, intersection, without_epsilon, determinisation, minimisation,
    pushing, replacement, complement, difference, support, example, witness, samples,
)  # fmt: skip


@pytest.mark.parametrize("semiring", SEMIRINGS)
@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
def test_what_is_made_gives_each_pair_of_strings_its_weight(law: Law, semiring: Semiring) -> None:
    for seed in SEEDS:
        law(np.random.default_rng(seed), semiring)


# --- What it notices, and what is refused ---------------------------------------------------------


def no_filter(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that moves in silence has a label of its own then, and the other one a loop."""
    composed = kernel.composed

    def waiting(machine: Any, silent: int, loop: int) -> Any:
        states, size = np.arange(len(machine.ends), dtype=np.int32), machine.labels
        label = np.where(machine.label == -1, size + silent, machine.label)
        columns = (
            (machine.source, label, machine.target),
            (states, states * 0 + size + loop, states),
        )
        source, label, target = (np.concatenate(c) for c in zip(*columns, strict=True))
        order = np.argsort(source, kind="stable")
        source, label, target = (x[order].astype(np.int32) for x in (source, label, target))
        return kernel.Operand(size + 2, source, label, target, machine.ends), np.where(
            order < len(machine.source), order, -1
        )

    def wrong(first: Any, second: Any, most: int) -> Any:
        (one, ways), (other, moves) = waiting(first, 0, 1), waiting(second, 1, 0)
        arcs = composed(one, other, most)
        return arcs._replace(of=ways[arcs.of], by=moves[arcs.by])

    monkeypatch.setattr(kernel, "composed", wrong)


def no_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    ends = algebra._ends

    def wrong(machine: Transducer, shift: int, to: int) -> Any:
        *columns, score = ends(machine, shift, to)
        return (*columns, np.zeros_like(score))

    monkeypatch.setattr(algebra, "_ends", wrong)


def best_for_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ways, "_sum", max)


@pytest.mark.parametrize(
    ("law", "plant"),
    [
        (composition, no_filter), (concatenation, no_ends), (reversal, no_ends),
        (without_epsilon, best_for_sum),
    ],
)  # fmt: skip
def test_errors_are_noticed(law: Law, plant: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    with pytest.raises(AssertionError):
        test_what_is_made_gives_each_pair_of_strings_its_weight(law, "log")


def acceptor(text: str, semiring: Semiring = "tropical") -> Transducer:
    return Transducer.from_text(text, semiring=semiring, tape=None)


ONE = acceptor("0 1 a\n1")
RELATION = Transducer.from_text("0 1 a x\n1", tape="out")


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: ~(ONE + acceptor("0 1 a 1\n1")), OptionError, r"take its \.support\(\)"),
        (lambda: ONE - acceptor("0 0.5"), OptionError, r"take its \.support\(\)"),
        (lambda: ONE.witness(acceptor("0 0.5")), OptionError, r"take its \.support\(\)"),
        (lambda: ONE & RELATION, OptionError, "acceptor"),
        (RELATION.determinize, OptionError, r"take \.project"),
        (lambda: RELATION.project("both"), OptionError, "side"),  # type: ignore[arg-type]
        (
            lambda: ONE | replace(ONE, semiring="log"),
            OptionError,
            "one machine has the semiring tropical",
        ),
        (
            lambda: RELATION @ RELATION.on("in"),
            OptionError,
            "reads tape 'in', but the first one writes 'out'",
        ),
        (lambda: RELATION @ 3, OptionError, "lattice @ transducer"),
        (acceptor("0 0 a -1\n0").push, NumericError, "from state 0 .* an infinite sum: a cycle"),
        (
            acceptor("0 0 a\n0", "log").push,
            NumericError,
            "from state 0 .* an infinite sum: a cycle",
        ),
        (lambda: RELATION.replace({"x": ONE}, -1), OptionError, "depth"),
        (
            lambda: RELATION.replace({"x": replace(RELATION, semiring="tropical")}, 1),
            OptionError,
            "one machine has the semiring log",
        ),
        (
            lambda: RELATION.replace({"x": RELATION}, 1),
            OptionError,
            "an arc of state 0 .* 'x' and another symbol",
        ),
        (lambda: RELATION | 3, OptionError, "take two transducers"),
        (lambda: acceptor("0 1 a\n").sample(1), NoPathError, "cannot sample"),
        (
            lambda: acceptor("0 1 <eps> -1\n1 0 <eps>\n1").determinize(),
            EpsilonCycleError,
            "gains each time",
        ),
        (
            lambda: algebra.without_epsilon(acceptor("0 0 <eps>\n0", "log")),
            EpsilonCycleError,
            "state 0 .* infinite",
        ),
        (
            lambda: acceptor("0 1 a\n0 2 a\n1 1 b 1\n2 2 b 2\n1\n2").determinize(),
            TooLargeError,
            "more than 10000 states.*reverse",
        ),
    ],
)
def test_what_cannot_be_made_is_refused(call: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        call()
