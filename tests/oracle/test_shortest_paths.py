"""`Transducer.shortest` and `Transducer.equivalent` against OpenFst's operations of these names."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fstcrf import Transducer
from fstcrf.errors import NumericError, OptionError
from fstcrf.machines.machine import Semiring
from tests.support.fsts import pynini_or_skip

SEEDS = range(60)
SEMIRINGS: tuple[Semiring, ...] = ("log", "tropical")


def machine(seed: int, *, tape: str | None = "out", semiring: Semiring = "tropical") -> Transducer:
    """Return a random machine with cycles that lose, its scores multiples of 1/8."""
    rng = np.random.default_rng(seed)
    states, arcs = int(rng.integers(1, 7)), int(rng.integers(0, 16))
    read = rng.integers(-1 if tape else 0, 2, arcs)
    ends = np.where(rng.random(states) < 0.5, -rng.integers(0, 24, states) / 8, -np.inf)
    return Transducer.from_arrays(
        rng.integers(0, states, arcs),
        read,
        rng.integers(-1, 2, arcs) if tape else read,
        rng.integers(0, states, arcs),
        -rng.integers(0, 24, arcs) / 8,
        ends,
        input_symbols=("a", "b"),
        output_symbols=("x", "y") if tape else ("a", "b"),
        semiring=semiring,
        tape=tape,
    )


def deterministic(seed: int) -> Transducer:
    """Return a random deterministic acceptor, every state of which may be on a path."""
    rng = np.random.default_rng(seed)
    states = int(rng.integers(1, 5))
    source, symbol = map(np.ravel, np.indices((states, 2)))
    kept = rng.random(len(source)) < 0.8
    source, symbol = source[kept], symbol[kept]
    return Transducer.from_arrays(
        source,
        symbol,
        symbol,
        rng.integers(0, states, len(source)),
        -rng.integers(0, 24, len(source)) / 8,
        np.where(rng.random(states) < 0.6, -rng.integers(0, 24, states) / 8, -np.inf),
        input_symbols=("a", "b"),
        output_symbols=("a", "b"),
        semiring="tropical",
        tape=None,
    )


def total(pynini: Any, one: Transducer) -> float:
    """Return the highest score of a path, by OpenFst's shortest distance."""
    fst = pynini.connect(one.to_fst("standard"))
    if fst.start() < 0:
        return -np.inf
    return -float(str(pynini.shortestdistance(fst, reverse=True)[fst.start()]))


@pytest.mark.parametrize("tape", [None, "out"])
@pytest.mark.parametrize("semiring", SEMIRINGS)
def test_shortest_is_the_path_of_openfst(semiring: Semiring, tape: str | None) -> None:
    pynini = pynini_or_skip()
    paths = 0
    for seed in SEEDS:
        one = machine(seed, tape=tape, semiring=semiring)
        run = one.shortest()
        if run is None:
            assert total(pynini, one) == -np.inf
            continue
        paths += 1
        assert run.score == total(pynini, one)
        assert run.score == -float(
            str(pynini.shortestpath(one.to_fst("standard")).paths().weight())
        )
        read, written = (
            Transducer.from_pairs([(side, side)], semiring=semiring, tape=None)
            for side in (run.input, run.output)
        )
        same = read & one if tape is None else read @ one @ written
        assert total(pynini, same) == run.score
    assert paths > 20


@pytest.mark.parametrize("semiring", SEMIRINGS)
def test_a_cycle_that_gains_has_no_shortest_path(semiring: Semiring) -> None:
    gains = Transducer.from_text("0 0 a -1\n0", semiring=semiring, tape=None)
    with pytest.raises(NumericError, match="a cycle has a score that is too high"):
        gains.shortest()
    assert gains.equivalent(gains | gains) is (semiring == "tropical")
    still = Transducer.from_text("0 1 <eps>\n1 0 <eps>\n1 2 a\n2", semiring=semiring, tape=None)
    assert still.shortest() == (("a",), ("a",), 0.0)


def test_equivalent_is_that_of_openfst() -> None:
    """Another form of a machine is equivalent; a form with one score changed mostly is not."""
    pynini = pynini_or_skip()
    answers = {True: 0, False: 0}
    for seed in SEEDS:
        one = deterministic(seed)
        others = [one.reverse().reverse(), one.minimize(), one | one, deterministic(seed + 1)]
        if len(one.score):
            score = one.score.copy()
            score[seed % len(score)] -= 0.25
            others.append(one.with_scores(score))
        for other in others:
            exported = (pynini.connect(x.determinize().to_fst("standard")) for x in (one, other))
            pushed = (pynini.push(fst, push_weights=True).rmepsilon() for fst in exported)
            wanted = pynini.equivalent(*pushed)  # it compares the weights of arcs in their places
            assert one.equivalent(other) == other.equivalent(one) == wanted
            answers[wanted] += 1
    assert min(answers.values()) > 40


def test_equivalent_in_the_log_semiring_sums_runs() -> None:
    one = Transducer.from_text("0 1 a\n1", tape=None)
    half = one.with_scores([-np.log(2)])
    assert (half | half).equivalent(one)
    assert not half.equivalent(one)
    assert half.support().equivalent(one.support())
    assert half.equivalent(one, tolerance=1.0)
    tropical = replace(half, semiring="tropical")
    assert (tropical | tropical).equivalent(half)
    with pytest.raises(OptionError, match="needs an acceptor"):
        one.equivalent(Transducer.from_table({"a": "x"}))
