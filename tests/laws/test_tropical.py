"""Tropical transducers: the best run over the same strings is the only path, by every door.

Against all runs written down. Two runs are one path where the path of the lattice is the same, the
arcs of each ``log`` transducer, and the strings on all tapes; where the strings are written does
not matter. So no operation that keeps the strings and their weights may change an answer: epsilons
removed, reversed twice, weights pushed, fewest states, written earlier or later. Dimensions:
lattices × chains of transducers × operations × doors × questions. Each case must be answered.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from fstcrf import CRF, Lattice, Lattices, Transducer
from fstcrf.constraints import at_most
from fstcrf.errors import AmbiguousError
from fstcrf.lattices import distinct
from tests.oracle.test_composition_transducers import (
    KINDS,
    OUTPUT,
    Full,
    known_paths,
    runs,
)

_LATE = "0 1 a x\n1 2 a <eps>\n0 3 a <eps> 0.5\n3 2 a x\n2 0 <eps> <eps>\n0 0 b y\n0 0 c <eps>\n0"
_DROPS = "0 0 a x\n0 0 a <eps> 1\n0 0 b x\n0 0 b <eps> 0.3\n0 0 c y\n0"
_DRIFTS = "0 1 a x\n0 2 a <eps>\n1 1 b <eps> 0.4\n2 2 b <eps> 0.1\n1 3 c <eps>\n2 3 c x\n0 3 b y\n3"
_TWICE = "0 0 a x\n0 0 a x 1\n0 0 b y\n0 1 <eps> x 2\n0 0 c <eps>\n1 1 a x\n1 1 b y\n0\n1 0.25"
_READS = "0 0 a\n0 1 a 0.5\n1 0 a\n0 0 b\n0 0 c 0.5\n0 1 <eps> 0.125\n1 0 b\n0"
_BEHIND = "0 1 <eps> u 2\n0 0 x u 2\n1 1 x u\n0 0 y v\n1 1 y v\n0 0 x <eps> 1\n0\n1"
TEXTS = {
    "late": (_LATE, None),
    "drops": (_DROPS, None),
    "drifts": (_DRIFTS, None),
    "twice": (_TWICE, None),
    "acceptor": (_READS, None),
    "twice, tropical behind": (_TWICE, ("tropical", _BEHIND)),
    "late, log behind": (_LATE, ("log", _BEHIND)),
    "tropical behind log": (_LATE, ("behind", _BEHIND)),
}
"""Transducers with several runs over the same strings, and what stands behind them."""


def machines(name: str) -> list[Transducer]:
    text, behind = TEXTS[name]
    kind = behind[0] if behind else "tropical"
    tape = None if name == "acceptor" else "out"
    semirings: Any = {"tropical": ("tropical",) * 2, "log": ("tropical", "log")}
    first, second = semirings.get(kind, ("log", "tropical"))
    found = [Transducer.from_text(text, semiring=first, tape=tape)]
    if behind:
        found.append(Transducer.from_text(behind[1], semiring=second, tape="further"))
    return found


# --- Operations that keep strings and their weights -----------------------------------------------


def written(machine: Transducer, *, first: bool) -> Transducer:
    """Return a machine that writes by arcs of their own, before it reads or behind that."""
    both = np.flatnonzero((machine.input >= 0) & (machine.output >= 0))
    middle = (len(machine.final) + np.arange(len(both))).astype(np.int32)
    read, output, target = machine.input.copy(), machine.output.copy(), machine.target.copy()
    (read if first else output)[both] = -1
    target[both] = middle
    nothing = np.full(len(both), -1, dtype=np.int32)
    return replace(
        machine,
        source=np.append(machine.source, middle),
        input=np.append(read, machine.input[both] if first else nothing),
        output=np.append(output, nothing if first else machine.output[both]),
        target=np.append(target, machine.target[both]),
        score=np.append(machine.score, np.zeros(len(both))),
        final=np.append(machine.final, np.full(len(both), -np.inf)),
    )


OPERATIONS: dict[str, Callable[[Transducer], Transducer]] = {
    "as it is": lambda machine: machine,
    "without epsilons": Transducer.remove_epsilon,
    "reversed twice": lambda machine: machine.reverse().reverse(),
    "pushed": Transducer.push,
    "fewest states": lambda machine: machine.minimize() if machine.tape is None else machine,
    "written late": lambda m: m if m.tape is None else written(m, first=False),
    "written early": lambda m: m if m.tape is None else written(m, first=True),
    "twice in parallel": lambda machine: machine | machine,
}


# --- All runs, written down -----------------------------------------------------------------------


def strings(full: Full) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(step.label for step in tape) for tape in full.tapes)


def best_runs(base: Any, chain: Sequence[Transducer]) -> list[Full]:
    """Return the paths of a composition, best first."""
    every: list[tuple[tuple[Any, ...], Full]]
    every = [((k,), path) for k, path in enumerate(known_paths(base))]
    for machine in chain:
        longer = []
        for key, path in every:
            for score, wrote, moves in runs(machine, path.tapes[-1]):
                tapes = path.tapes if machine.tape is None else (*path.tapes, wrote)
                more: Any = tuple(moves) if machine.semiring == "log" else ()
                longer.append(((*key, more), Full(path.score + score, tapes)))
        every = longer
    best: dict[Any, Full] = {}
    for key, full in every:
        said = key, strings(full)
        if said not in best or best[said].score < full.score:
            best[said] = full
    return sorted(best.values(), key=lambda full: -full.score)


@cache
def base_of(kind: int) -> Any:
    rng = np.random.default_rng(7)
    return KINDS[kind](rng, 3)


@cache
def wanted_of(kind: int, name: str) -> list[Full]:
    return best_runs(base_of(kind), machines(name))


def composed(base: Any, chain: Sequence[Transducer]) -> Any:
    for machine in chain:
        base = base @ machine
    return base


DOORS: dict[str, Callable[[Any, Sequence[Transducer]], Any]] = {
    "@": composed,
    "pickled": lambda base, chain: pickle.loads(pickle.dumps(composed(base, chain))),
    "batch": lambda base, chain: composed(Lattices([base, base]), chain)[1],
    "as arcs": lambda base, chain: composed(Lattice(base.row.arcs()), chain),
    "scaled": lambda base, chain: composed(base, chain).scale(2.0).scale(0.5),
}


def check(lattice: Any, wanted: Sequence[Full]) -> None:
    """Ask a composition what all its paths say."""
    if not wanted:
        assert lattice.log_partition() == -np.inf
        return
    scores = np.asarray([full.score for full in wanted])
    log_z = float(np.logaddexp.reduce(scores))
    shares = np.exp(scores - log_z)
    assert lattice.log_partition() == pytest.approx(log_z, abs=1e-8)
    assert lattice.entropy() == pytest.approx(-(shares * np.log(shares)).sum(), abs=1e-7)
    found = lattice.nbest(len(wanted) + 3)
    assert [path.score for path in found] == pytest.approx(scores)
    assert sum(path.probability for path in found) == pytest.approx(1.0)
    told = [tuple(path[tape] for tape in lattice.tapes) for path in found]
    assert sorted(told) == sorted(map(strings, wanted))
    assert lattice.best().score == pytest.approx(scores[0])
    assert lattice.best().probability == pytest.approx(shares[0])
    check_tapes(lattice, wanted, shares)
    for drawn in lattice.sample(20, seed=3):
        if hasattr(drawn, "score"):
            said = tuple(drawn[tape] for tape in lattice.tapes)
        else:
            said = drawn if len(lattice.tapes) > 1 else (drawn,)
        assert said in told


def check_tapes(lattice: Any, wanted: Sequence[Full], shares: Any) -> None:
    """Ask for strings of the last tape, and how often its symbols are written."""
    last, names = lattice.tapes[-1], lattice.on[-1].labels
    total: dict[tuple[str, ...], float] = {}
    count = np.zeros(len(names))
    for full, share in zip(wanted, shares, strict=True):
        string = strings(full)[-1]
        total[string] = total.get(string, 0.0) + share
        count += [share * string.count(name) for name in names]
    for string, share in list(total.items())[:3]:
        assert lattice.string_probability(string, tape=last) == pytest.approx(share)
    likely = max(total.values())
    assert lattice.strings(last, n=1)[0].probability == pytest.approx(likely)
    if lattice.on[-1].output:
        assert lattice.expected(last).sum(axis=0) == pytest.approx(count, abs=1e-9)


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("kind", range(len(KINDS)), ids=[kind.__name__ for kind in KINDS])
def test_each_operation_by_each_door_is_all_runs(kind: int, name: str) -> None:
    wanted = wanted_of(kind, name)
    for operation, change in OPERATIONS.items():
        doors = DOORS if operation == "as it is" else {"@": composed}
        if kind and operation not in ("as it is", "written late", "twice in parallel"):
            continue  # a transducer is changed, whatever reads it
        chain = [
            change(machine) if machine.semiring == "tropical" else machine
            for machine in machines(name)
        ]
        for make in doors.values():
            check(make(base_of(kind), chain), wanted)


def test_several_runs_are_one_path() -> None:
    """Else the law holds nothing: paths are fewer than runs, and fewer than places."""
    for name in TEXTS:
        chain = [replace(machine, semiring="log") for machine in machines(name)]
        assert len(wanted_of(0, name)) < len(best_runs(base_of(0), chain)), name


def test_grammars_and_masks_leave_the_best_runs_of_what_they_leave() -> None:
    for name in ("late", "drops", "twice"):
        lattice, wanted = composed(base_of(0), machines(name)), wanted_of(0, name)
        for tape, place, label in (("out", 1, OUTPUT[0]), ("label", 0, "a")):
            left = [full for full in wanted if strings(full)[place].count(label) <= 1]
            check(lattice & at_most(1, label, tape=tape), left)
        mask = np.ones((3, 3), dtype=bool)
        mask[1, 0] = False
        left = [full for full in wanted if strings(full)[0][1] != "a"]
        check(lattice.restrict(mask), left)


def test_gradients_are_differences() -> None:
    """In the arcs of the transducer itself, and in emissions."""
    for name in ("late", "drifts"):
        (machine,) = machines(name)
        rng = np.random.default_rng(1)
        emissions = rng.normal(size=(3, 3))

        def log_z(one: Transducer, scores: Any = emissions) -> float:
            lattice: Any = Lattice.from_arrays(("a", "b", "c"), scores) @ one
            return float(lattice.log_partition())

        gradient = (Lattice.from_arrays(("a", "b", "c"), emissions) @ machine).gradient()
        for arc in range(len(machine.source)):
            ends = []
            for step in (1e-5, -1e-5):
                score = machine.score.copy()
                score[arc] += step
                ends.append(log_z(replace(machine, score=score)))
            assert gradient["out"][arc] == pytest.approx((ends[0] - ends[1]) / 2e-5, abs=1e-6)
        marginals = (Lattice.from_arrays(("a", "b", "c"), emissions) @ machine).marginals("label")
        np.testing.assert_allclose(gradient["emission"], marginals)


def test_taggers_are_their_lattices() -> None:
    text = [{"word": [*"abcab"], "chunk": [*"abcba"]}]
    tagger = CRF.train(text, "chunk", "U:%x[0,word]\nB\n", max_iterations=5)
    sentence = {"word": [*"aab"]}
    for name in TEXTS:
        both: Any = composed(tagger, machines(name))
        lattice = composed(tagger.lattice(sentence), machines(name))
        found = both.lattice(sentence)
        assert found.log_partition() == pytest.approx(lattice.log_partition())
        best = both.decode([sentence])[0]
        assert best.probability == pytest.approx(lattice.best().probability)


def test_too_many_runs_are_refused_and_the_best_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distinct, "MOST_RIVALS", 10)
    lattice = composed(base_of(0), machines("drops"))
    wanted = wanted_of(0, "drops")
    with pytest.raises(AmbiguousError, match=r"several runs over .* that write .*semiring='log'"):
        lattice.log_partition()
    assert [path.score for path in lattice.nbest(5)] == pytest.approx(
        [full.score for full in wanted[:5]]
    )
    assert np.isnan(lattice.best().probability)
