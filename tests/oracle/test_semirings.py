"""Transducers of which the best of several runs counts: against all runs, grouped by their strings.

A string has the weight of its best run, wherever runs write; in the log semiring that of their sum,
which is that of all paths. Small machines are ambiguous more often than not.
"""

from __future__ import annotations

import itertools
import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import fstcrf
from fstcrf import Transducer
from fstcrf.errors import AmbiguousError, EpsilonCycleError
from fstcrf.lattices import Lattice, distinct
from fstcrf.machines import ambiguity
from tests.oracle.test_composition_transducers import (
    INPUT,
    KINDS,
    OUTPUT,
    Full,
    chain,
    known_paths,
    product,
    told,
    transducer,
)

SEEDS = range(40)


def strings(paths: Any) -> list[Any]:
    """Return the strings of paths, and their scores: of equal runs any one may be told."""
    tapes = [[[step.label for step in tape] for tape in path.tapes] for path in paths]
    return sorted(zip(tapes, [round(path.score, 7) for path in paths], strict=True))


def of_strings(paths: Any, machine: Transducer) -> list[Full]:
    """Return the paths of a composition, of those with the same strings the best one."""
    found: list[Full] = []
    for path in paths:
        best: dict[Any, Full] = {}
        for full in product([path], machine):
            said = tuple(tuple(step.label for step in tape) for tape in full.tapes)
            if said not in best or best[said].score < full.score:
                best[said] = full
        found += best.values()
    return sorted(found, key=lambda full: -full.score)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_the_best_run_of_each_string_counts(kind: Any) -> None:
    several = 0
    for seed in SEEDS:
        rng = np.random.default_rng(seed)
        base = kind(rng, int(rng.integers(0, 4)))
        machine = transducer(rng, INPUT, OUTPUT, int(rng.integers(1, 5)))
        paths = known_paths(base)
        wanted = of_strings(paths, machine)
        several += len(wanted) < len(product(paths, machine))
        lattice = base @ replace(machine, semiring="tropical")
        scores = np.asarray([full.score for full in wanted])
        if not wanted:
            assert lattice.log_partition() == -np.inf
            continue
        total = float(np.logaddexp.reduce(scores))
        assert np.isclose(lattice.log_partition(), total, atol=1e-9)
        ranked = lattice.nbest(len(wanted) + 5)
        np.testing.assert_allclose([path.score for path in ranked], scores, atol=1e-9)
        assert np.isclose(lattice.best().score, scores[0], atol=1e-9)
        expected = np.zeros((lattice.length + 1, len(OUTPUT)))
        for full in wanted:
            for step in full.tapes[-1]:
                expected[step.at, OUTPUT.index(step.label)] += np.exp(full.score - total)
        found = lattice.expected("out")[: len(expected)]
        np.testing.assert_allclose(found, expected[: len(found)], atol=1e-9)
    assert several >= 4  # else nothing is tested


def test_sums_of_runs_are_something_else() -> None:
    """The oracle tells the semirings apart."""
    apart = 0
    for seed in SEEDS:
        rng = np.random.default_rng(seed)
        base, machine = chain(rng, 3), transducer(rng, INPUT, OUTPUT, 3)
        both = [base @ replace(machine, semiring=name) for name in ("log", "tropical")]
        apart += both[0].log_partition() > both[1].log_partition() + 1e-6
    assert apart >= 10


@pytest.mark.parametrize("seed", SEEDS)
def test_one_run_is_told_by_counting_runs(seed: int) -> None:
    """Against all strings to a length, and how many runs each has."""
    rng = np.random.default_rng(seed)
    machine = transducer(rng, INPUT[:2], OUTPUT[:1], int(rng.integers(1, 4)))
    final = np.where(rng.random(len(machine.final)) < 0.6, 0.0, -np.inf)
    machine = replace(machine, final=final, semiring="tropical")
    found = ambiguity.unambiguous(machine)
    strings = (p for n in range(5) for p in itertools.product(INPUT[:2], repeat=n))
    several = False
    for string in strings:
        paths = known_paths(Lattice.from_paths([string], [0.0], INPUT[:2]))
        wanted = of_strings(paths, machine)
        several |= len(wanted) < len(product(paths, machine))
        if not found.problem:
            own = sorted(product(paths, found.machine), key=lambda full: -full.score)
            assert sorted(full.tapes for full in own) == sorted(full.tapes for full in wanted)
            assert [f.score for f in own] == pytest.approx([f.score for f in wanted])
    assert several <= (bool(found.problem) or found.machine is not machine)


def family(k: int) -> Transducer:
    """``any* A any* A any{k}``: a deterministic form has 2^k states, from its end k."""
    lines = [f"0 0 {x}" for x in "ABC"] + ["0 1 A 1"] + [f"1 1 {x}" for x in "ABC"] + ["1 2 A 1"]
    lines += [f"{s} {s + 1} {x}" for s in range(2, 2 + k) for x in "ABC"] + [str(2 + k)]
    return Transducer.from_text("\n".join(lines), semiring="tropical", tape=None)


def test_what_is_exponential_from_its_beginning_is_read_from_its_end() -> None:
    lattice = Lattice.from_arrays(list("ABC"), np.random.default_rng(0).normal(size=(30, 3)))
    for k in (3, 18):
        found = ambiguity.unambiguous(family(k))
        assert not found.problem
        assert len(found.machine.final) < 2 ** max(k, 5)
    legal = fstcrf.Grammar.from_text(
        'export A = ("[A]"|"[B]"|"[C]")* "[A]" ("[A]"|"[B]"|"[C]")* "[A]" ("[A]"|"[B]"|"[C]"){3};'
    )
    wanted = (lattice & legal).log_partition() - 2.0  # costs are the same on each run
    assert np.isclose((lattice @ family(3)).log_partition(), wanted, atol=1e-9)


def test_where_no_form_is_deterministic_there_is_a_best_path_and_no_sum(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two loops that drift apart in weight for ever, from either end."""
    text = "0 1 a\n0 2 a\n1 1 a 1\n2 2 a 2\n1 1 b 2\n2 2 b 1\n1 3 a\n2 3 a\n3"
    machine = Transducer.from_text(text, semiring="tropical", tape=None)
    monkeypatch.setattr(distinct, "MOST_RIVALS", 3)
    lattice = Lattice.from_arrays(["a", "b"], np.zeros((6, 2))) @ machine
    assert lattice.best()["label"] == ("a",) * 6
    assert np.isnan(lattice.best().probability)
    for ask in (lattice.log_partition, lattice.marginals, lattice.entropy, lattice.gradient,
                lambda: lattice.sample(3)):  # fmt: skip
        with pytest.raises(AmbiguousError, match=r"several runs over .*'a a'.*semiring='log'"):
            ask()
    assert np.isfinite((lattice & fstcrf.constraints.at_most(6, "a")).best().score)
    summed = Lattice.from_arrays(["a", "b"], np.zeros((6, 2))) @ replace(machine, semiring="log")
    assert np.isfinite(summed.log_partition())


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_the_n_best_need_no_deterministic_form(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is none, neither of the machine nor on the sentence: by search over prefixes."""
    monkeypatch.setattr(ambiguity, "MAX_STATES", 0)
    monkeypatch.setattr(ambiguity, "_MOST_RIVALS", 0)
    monkeypatch.setattr(distinct, "MOST_RIVALS", 0)
    searched = 0
    for seed in SEEDS:
        rng = np.random.default_rng(seed)
        base = kind(rng, int(rng.integers(0, 4)))
        machine = transducer(rng, INPUT, OUTPUT, int(rng.integers(1, 5)))
        wanted = of_strings(known_paths(base), machine)
        lattice = base @ replace(machine, semiring="tropical")
        found = lattice.nbest(len(wanted) + 3)
        assert strings(told(lattice, len(wanted) + 3)) == strings(wanted)
        assert [p.score for p in found] == pytest.approx([full.score for full in wanted])
        several = list(fstcrf.nbest([lattice, lattice], 3))
        assert [[p.score for p in own] for own in several] == [[p.score for p in found[:3]]] * 2
        searched += bool(wanted) and np.isnan(found[0].probability)
    assert searched >= 3


def test_best_paths_do_not_wait_for_what_sums_need(monkeypatch: pytest.MonkeyPatch) -> None:
    """A form of some states is looked for when a sum is asked for, and no earlier."""
    rng = np.random.default_rng(2)
    lattice = Lattice.from_arrays(list("ABC"), rng.normal(size=(24, 3)))
    machine = family(18)
    monkeypatch.setattr(ambiguity, "_FEW_STATES", 10)
    tried: list[int] = []
    determinised = ambiguity._determinised

    def watched(string: Any, limit: int, *, backwards: bool) -> Any:
        tried.append(limit)
        return determinised(string, limit, backwards=backwards)

    monkeypatch.setattr(ambiguity, "_determinised", watched)
    one = (lattice @ machine) & fstcrf.constraints.at_most(20, "B")
    best, ranked = one.best(), one.nbest(3)
    assert best.score == ranked[0].score
    assert [path and path.labels for path in fstcrf.best([one])] == [best.labels]
    assert one.length == 24
    assert max(tried) == 10
    assert best.probability > 0.0  # a sum, which is taken when somebody looks
    assert max(tried) == 10_000
    total = one.log_partition()
    assert best.probability == pytest.approx(np.exp(best.score - total))
    assert one.probability(best.labels) == pytest.approx(np.exp(best.score - total))
    for changed, wanted in (
        (one.scale(2.0), 2.0 * best.score),
        (one.without_grammar(), (lattice @ machine).best().score),
        (one.restrict(np.ones((24, 3), dtype=bool)), best.score),
    ):
        assert changed.best().score == pytest.approx(wanted)
        assert np.isfinite(changed.log_partition())
    further = one @ Transducer.from_table({x: x for x in "ABC"}, tape="copied")
    assert further.best()["copied"] == best["label"]
    assert further.log_partition() == pytest.approx(total)
    assert pickle.loads(pickle.dumps(one)).log_partition() == pytest.approx(total)


def test_circles_are_refused_in_either_semiring() -> None:
    loop = Transducer.from_text("0 0 <eps> x\n0 1 a x\n0 1 a x\n1", semiring="tropical")
    with pytest.raises(EpsilonCycleError):
        _ = Lattice.from_arrays(["a"], np.zeros((1, 1))) @ loop
