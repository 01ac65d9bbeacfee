"""Lattices composed with random transducers: against all paths written down, and against pynini."""

from __future__ import annotations

import bisect
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

import fstcrf
from fstcrf import errors
from fstcrf.errors import EpsilonCycleError, GrammarError, LabelError, NoPathError, TooLargeError
from fstcrf.kernel import transduced as kernel
from fstcrf.lattices import Lattice, Lattices
from fstcrf.lattices import transduced as transduced_
from fstcrf.lattices.lattice import AnyLattice
from fstcrf.lattices.transduced import compiled, composed
from fstcrf.machines import openfst
from fstcrf.machines.grammar import Grammar
from fstcrf.machines.transducer import Transducer
from tests.support.fsts import from_ids, pynini_or_skip
from tests.support.oracles import log_sum

MOST_PATHS = 1000
INPUT, OUTPUT, FURTHER = ("a", "b", "c"), ("x", "y"), ("u", "v")


def close(found: Any, wanted: Any, tolerance: float = 1e-9) -> None:
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)


class Step(NamedTuple):
    """A label of a tape, and the boundary behind which the label is known."""

    label: str
    at: int


class Full(NamedTuple):
    """A path: its score, and what stands on each tape."""

    score: float
    tapes: tuple[tuple[Step, ...], ...]


def transducer(
    rng: np.random.Generator, reads: Sequence[str], writes: Sequence[str], states: int
) -> Transducer:
    """Return a machine whose moves without input lead upwards; a way to an end is likely."""
    count = int(rng.integers(states, 5 * states + 2))
    source, target = rng.integers(states, size=(2, count))
    read = rng.integers(-1, len(reads), size=count)
    kept = (read >= 0) | (target > source)
    final = np.where(rng.random(states) < 0.6, rng.normal(size=states), -np.inf)
    write, score = rng.integers(-1, len(writes), size=count), rng.normal(size=count)
    source, read, write, target, score = (x[kept] for x in (source, read, write, target, score))
    return machine_of(source, read, write, target, score, final, reads, writes)


def machine_of(
    source: Any,
    read: Any,
    write: Any,
    target: Any,
    score: Any,
    final: Any,
    reads: Sequence[str],
    writes: Sequence[str],
) -> Transducer:
    return Transducer(
        source=np.asarray(source, dtype=np.int32),
        input=np.asarray(read, dtype=np.int32),
        output=np.asarray(write, dtype=np.int32),
        target=np.asarray(target, dtype=np.int32),
        score=np.asarray(score, dtype=np.float64),
        final=np.asarray(final, dtype=np.float64),
        input_symbols=tuple(reads),
        output_symbols=tuple(writes),
        tape="out",
    )


def runs(
    machine: Transducer, steps: Sequence[Step]
) -> list[tuple[float, tuple[Step, ...], list[int]]]:
    """List the runs over a tape: score, what is written where, and arcs."""
    found: list[tuple[float, tuple[Step, ...], list[int]]] = []

    def go(state: int, read: int, score: float, wrote: tuple[Step, ...], arcs: list[int]) -> None:
        if read == len(steps) and machine.final[state] > -np.inf:
            end = len(machine.source) + state
            found.append((score + float(machine.final[state]), wrote, [*arcs, end]))
        for arc in np.flatnonzero(machine.source == state).tolist():
            label, output = int(machine.input[arc]), int(machine.output[arc])
            alone = label < 0
            if not alone and not (
                read < len(steps) and steps[read].label == machine.input_symbols[label]
            ):
                continue
            on = read + (not alone)
            at = steps[on - 1].at if on else 0
            more = () if output < 0 else (Step(machine.output_symbols[output], at),)
            weight = score + float(machine.score[arc])
            go(int(machine.target[arc]), on, weight, wrote + more, [*arcs, arc])

    go(0, 0, 0.0, (), [])
    return found


def known_paths(lattice: AnyLattice) -> list[Full]:
    """List what the paths of a lattice of one tape say."""
    found = []
    for path in lattice.nbest(5000):
        labels = path[lattice.tapes[0]]
        at: Sequence[int] = range(1, len(labels) + 1)
        if path.places and path.places[0] is not None:
            frames = lattice.tapes == ("segment",) and "<blank>" in lattice.on[0].labels
            places = path.places[0]
            at = [s + 1 for s in places.starts] if frames else places.ends
        found.append(Full(path.score, (tuple(map(Step, labels, at)),)))
    return found


def product(
    paths: Sequence[Full], machine: Transducer, tape: int = -1, most: float = np.inf
) -> list[Full]:
    """List what paths and a machine say; TooManyError: more than `most` paths."""
    found: list[Full] = []
    for path in paths:
        for score, wrote, _ in runs(machine, path.tapes[tape]):
            found.append(Full(path.score + score, (*path.tapes, wrote)))
        if len(found) > most:
            raise TooManyError
    return found


# --- Lattices of every kind ---------------------------------------------------------------------


def chain(rng: np.random.Generator, length: int) -> AnyLattice:
    arrays = rng.normal(size=(length, 3)), rng.normal(size=(3, 3)), *rng.normal(size=(2, 3))
    return Lattice.from_arrays(INPUT, *arrays)


def segments(rng: np.random.Generator, length: int) -> AnyLattice:
    every = [(s, e, k) for s in range(length) for e in range(s + 1, length + 1) for k in range(3)]
    some = [one for one in every if rng.random() < 0.5]
    start, end, label = np.asarray(some, dtype=np.int64).reshape(-1, 3).T
    score, pairs = rng.normal(size=len(some)), rng.normal(size=(3, 3))
    return Lattice.from_segments(length, start, end, label, score, INPUT, pairs)


def spans(rng: np.random.Generator, length: int) -> AnyLattice:
    every = [(s, e, x) for s in range(length) for e in range(s + 1, length + 1) for x in INPUT]
    some = [(*one, float(rng.normal())) for one in every if rng.random() < 0.4]
    return Lattice.from_spans(length, some, -0.5, labels=INPUT)


def acyclic(rng: np.random.Generator, length: int) -> AnyLattice:
    """Arcs that read nothing among them, and paths of different lengths."""
    states, count = length + 2, 3 * length + 2
    source = rng.integers(states - 1, size=count)
    target = np.asarray([rng.integers(s + 1, states) for s in source])
    symbol = np.asarray(rng.integers(0, 4, size=count), dtype=np.int32)
    final = np.where(rng.random(states) < 0.4, 0.5, -np.inf)
    final[-1] = 0.0
    order = np.argsort(source, kind="stable")
    ends = [np.asarray(x[order], dtype=np.int32) for x in (source, target)]
    table, score = (openfst.EPSILON, *INPUT), rng.normal(size=count)
    machine = from_ids(0, ends[0], ends[1], symbol, symbol, score, final, table, table)
    return Lattice.from_machine(machine)


def frames(rng: np.random.Generator, length: int) -> AnyLattice:
    return Lattice.from_ctc(rng.normal(size=(length, 3)), 0, labels=("<blank>", "a", "b"))


KINDS: tuple[Callable[[np.random.Generator, int], AnyLattice], ...] = (
    chain,
    segments,
    spans,
    acyclic,
    frames,
)


def most(nightly: int, quick: int) -> int:
    """Return the larger number where there is time for it."""
    return nightly if settings().max_examples >= 1000 else quick


class TooManyError(Exception):
    """More paths than a test compares: ten such cases would take longer than all others."""


class Case(NamedTuple):
    """A lattice, its composition with one or two machines, and all paths of that."""

    rng: np.random.Generator
    base: AnyLattice
    machines: tuple[Transducer, ...]
    lattice: AnyLattice
    paths: list[Full]

    @property
    def log_z(self) -> float:
        return log_sum(np.asarray([path.score for path in self.paths]))

    def shares(self) -> list[tuple[float, Full]]:
        log_z = self.log_z
        return [(float(np.exp(path.score - log_z)), path) for path in self.paths]


def case_of(kind: Callable[..., AnyLattice], seed: int, *, tapes: int = 2) -> Case:
    rng = np.random.default_rng(seed)
    while True:
        with suppress(TooManyError):
            return _drawn(kind, rng, tapes)


def _drawn(kind: Callable[..., AnyLattice], rng: np.random.Generator, tapes: int) -> Case:
    base = kind(rng, int(rng.integers(0, most(6, 4))))
    first = transducer(rng, INPUT, OUTPUT, int(rng.integers(1, most(8, 4))))
    row, machines = composed(base.row, first), [first]
    paths = product(known_paths(base), first, most=MOST_PATHS)
    if tapes == 3:
        second = transducer(rng, OUTPUT, FURTHER, int(rng.integers(1, 4)))
        row = composed(row, replace(second, tape="further"))
        paths = product(paths, second, most=MOST_PATHS)
        machines.append(second)
    return Case(rng, base, tuple(machines), Lattice(row), paths)


kinds = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
seeds = given(seed=st.integers(0, 2**32))


def rounded(paths: Sequence[Full]) -> list[tuple[Any, ...]]:
    return sorted((path.tapes, round(path.score, 7)) for path in paths)


def told(lattice: AnyLattice, count: int) -> list[Full]:
    """Return the paths that a composition names, as they are written down."""
    found = []
    for path in lattice.nbest(count):
        tapes = []
        for number, tape in enumerate(lattice.tapes):
            place = path.places[number]
            at: Sequence[int] = range(1, len(path[tape]) + 1)
            if tape in path.positions:
                at = path.positions[tape]
            elif place is not None:
                frames_ = "<blank>" in lattice.on[0].labels
                at = [s + 1 for s in place.starts] if frames_ else place.ends
            tapes.append(tuple(map(Step, path[tape], at)))
        found.append(Full(path.score, tuple(tapes)))
    return found


# --- Against enumeration ------------------------------------------------------------------------


@kinds
@pytest.mark.parametrize("tapes", [2, 3])
@seeds
def test_paths_sums_and_places_are_those_of_all_pairs_of_paths(
    kind: Callable[..., AnyLattice], tapes: int, seed: int
) -> None:
    case = case_of(kind, seed, tapes=tapes)
    lattice, paths = case.lattice, case.paths
    if not paths:
        assert lattice.log_partition() == -np.inf
        assert lattice.nbest(3) == []
        with pytest.raises(NoPathError):
            lattice.best()
        return
    close(lattice.log_partition(), case.log_z)
    assert rounded(told(lattice, len(paths) + 3)) == rounded(paths)
    close(lattice.best().score, max(path.score for path in paths))
    share = np.asarray([p for p, _ in case.shares()])
    assert np.isclose(lattice.entropy(), -(share * np.log(share)).sum(), rtol=1e-7, atol=1e-7)


@kinds
@seeds
def test_labels_are_expected_where_paths_write_them(
    kind: Callable[..., AnyLattice], seed: int
) -> None:
    case = case_of(kind, seed, tapes=3)
    if not case.paths:
        return
    for number, tape in enumerate(("out", "further"), start=1):
        labels = case.lattice.on[number].labels
        wanted = np.zeros((case.lattice.length + 1, len(labels)))
        for share, path in case.shares():
            for label, at in path.tapes[number]:
                wanted[at, labels.index(label)] += share
        close(case.lattice.expected(tape), wanted)
    if case.lattice.row.covers_text and kind is not spans:
        np.testing.assert_allclose(case.lattice.marginals(case.lattice.tapes[0]).sum(axis=1), 1.0)


@kinds
@seeds
def test_strings_are_ranked_by_the_sum_of_their_paths(
    kind: Callable[..., AnyLattice], seed: int
) -> None:
    case = case_of(kind, seed)
    total: dict[tuple[str, ...], list[float]] = {}
    for path in case.paths:
        total.setdefault(tuple(step.label for step in path.tapes[1]), []).append(path.score)
    found = case.lattice.strings("out", 4)
    ranked = sorted((float(log_sum(np.asarray(s))) for s in total.values()), reverse=True)
    close([path.score for path in found], ranked[:4])
    for string in found:
        close(string.score, log_sum(np.asarray(total[string.labels])))
    best = case.lattice.nbest(3, tapes=["out"])
    ranked = sorted(map(max, total.values()), reverse=True)
    close([path.score for path in best], ranked[:3])


@kinds
@seeds
def test_grammars_masks_and_factors_change_it_as_they_change_its_paths(
    kind: Callable[..., AnyLattice], seed: int
) -> None:
    case = case_of(kind, seed)
    even = Grammar.from_arrays(OUTPUT, [[1, 0], [0, 1]], final=[0.0, -np.inf], tape="out")
    legal = [
        path for path in case.paths if sum(step.label == "x" for step in path.tapes[1]) % 2 == 0
    ]
    wanted = log_sum(np.asarray([path.score for path in legal]))
    constrained = case.lattice & even
    close(constrained.log_partition(), wanted)
    close(constrained.without_grammar().log_partition(), case.log_z)
    twice = log_sum(np.asarray([2.0 * path.score for path in case.paths]))
    close(case.lattice.scale(2.0).log_partition(), twice)
    for path in case.paths[:2]:
        if case.lattice.segmented:
            continue
        said = [[step.label for step in tape] for tape in path.tapes]
        alike = [p.score for p in case.paths if [[s.label for s in t] for t in p.tapes] == said]
        share = np.exp(log_sum(np.asarray(alike)) - case.log_z)
        close(case.lattice.probability(said), share)


@kinds
@seeds
def test_expected_moves_are_the_gradient_of_log_z(
    kind: Callable[..., AnyLattice], seed: int
) -> None:
    case = case_of(kind, seed, tapes=3)
    if not case.paths:
        return
    found, log_z = case.lattice.gradient()["out"], case.log_z
    wanted = np.zeros(len(found))
    for path in known_paths(case.base):
        for score, wrote, arcs in runs(case.machines[0], path.tapes[0]):
            behind = [s for s, _, _ in runs(case.machines[1], wrote)]
            total = path.score + score + log_sum(np.asarray(behind))
            np.add.at(wanted, arcs, float(np.exp(total - log_z)))
    close(found, wanted)
    first = case.machines[0]
    if len(first.source):
        arc, step = int(case.rng.integers(len(first.source))), 1e-5
        ends = []
        for sign in (1.0, -1.0):
            moved_score = first.score.copy()
            moved_score[arc] += sign * step
            moved = machine_of(
                first.source,
                first.input,
                first.output,
                first.target,
                moved_score,
                first.final,
                INPUT,
                OUTPUT,
            )
            second = replace(case.machines[1], tape="further")
            row = composed(composed(case.base.row, moved), second)
            ends.append(Lattice(row).log_partition())
        assert np.isclose((ends[0] - ends[1]) / (2 * step), found[arc], rtol=1e-5, atol=1e-5)


@seeds
def test_log_z_is_that_of_pynini(seed: int) -> None:
    pynini = pynini_or_skip()
    rng = np.random.default_rng(seed)
    base = chain(rng, int(rng.integers(1, most(9, 5))))
    machine = transducer(rng, INPUT, OUTPUT, int(rng.integers(1, most(9, 5))))
    fst = pynini.Fst("log64")
    fst.add_states(len(machine.final))
    fst.set_start(0)
    numbers = machine.source, machine.input, machine.output, machine.target
    columns = [column.tolist() for column in (*numbers, machine.score)]
    for source, read, write, target, score in zip(*columns, strict=True):
        arc = pynini.Arc(read + 1, write + 1, pynini.Weight("log64", -score), target)
        fst.add_arc(source, arc)
    for state in np.flatnonzero(machine.final > -np.inf).tolist():
        fst.set_final(state, pynini.Weight("log64", -float(machine.final[state])))
    given_ = base.to_fst("log64")
    given_.set_input_symbols(None).set_output_symbols(None)
    both = pynini.compose(given_.arcsort("olabel"), fst.arcsort("ilabel"))
    wanted = -np.inf
    if both.start() >= 0:
        wanted = -float(pynini.shortestdistance(both, reverse=True, delta=1e-12)[both.start()])
    found = Lattice(composed(base.row, machine)).log_partition()
    assert np.isclose(found, wanted, rtol=1e-5, atol=1e-5)


def test_without_the_filter_paths_would_be_counted_twice() -> None:
    """The cases above tell: pairs of paths that differ in the order of their silent moves alone."""
    more = 0
    for seed in range(60):
        case = case_of(chain, seed)
        arcs = case.base.row.arcs().unconstrained
        (flat, which), label = arcs.explicit, arcs.label
        moves = compiled(case.machines[0], INPUT)
        index, gain, target = moves.index, moves.gain, moves.target
        total = np.full((len(flat.final), moves.states), -np.inf)
        for p, q in np.ndindex(total.shape):
            p, q = total.shape[0] - 1 - p, total.shape[1] - 1 - q  # noqa: PLW2901
            alone = range(index[q * 4], index[q * 4 + 1])
            ways = [float(flat.final[p] + gain[len(target) + q])]
            ways += [gain[e] + total[p, target[e]] for e in alone]
            for a in range(flat.row[p], flat.row[p + 1]):
                t, score = flat.target[a], flat.score[a]
                cell = q * 4 if which is None or which[a] < 0 else q * 4 + label[which[a], 0] + 1
                if cell == q * 4:
                    ways.append(score + total[t, q])
                    continue
                both = range(index[cell], index[cell + 1])
                ways += [score + gain[e] + total[t, target[e]] for e in both]
            total[p, q] = log_sum(np.asarray(ways))
        more += total[flat.begins[0], moves.start] > case.lattice.log_partition() + 1e-6
    assert more >= 10


# --- Batches, and segments on a tape that is not tokens ----------------------------------------


@seeds
def test_batches_answer_what_each_answers(seed: int) -> None:
    rng = np.random.default_rng(seed)
    machine = transducer(rng, INPUT, OUTPUT, 3)
    several = Lattices([chain(rng, n) for n in (3, 0, 1)]) @ machine
    several = Lattices([one for one in several if one.log_partition() > -np.inf])
    if not len(several):
        return
    close(fstcrf.log_partition(several), [one.log_partition() for one in several])
    for one, path in zip(several, fstcrf.best(several), strict=True):
        wanted = one.best()
        assert path is not None
        assert (path.labels, path.positions) == (wanted.labels, wanted.positions)


IOB, BRACKETS = ("O", "B-p", "I-p", "B-q", "I-q"), ("[p", "[q", "p]", "q]")


def bracketing() -> Transducer:
    """Return what writes brackets around the spans of tags: 0 outside, then x inside, x opened."""
    outside = [(0, 0, -1, 0)]
    for x in (0, 1):
        outside += [(0, -1, x, 3 + x), (3 + x, 1 + 2 * x, -1, 1 + x), (1 + x, 2 + 2 * x, -1, 1 + x)]
        outside += [(1 + x, -1, 2 + x, 5), (5, -1, x, 3 + x)]
    outside.append((5, 0, -1, 0))
    source, read, write, target = np.asarray(outside).T
    final = [0.0, *[-np.inf] * 4, 0.0]
    return machine_of(source, read, write, target, np.zeros(len(source)), final, IOB, BRACKETS)


@seeds
def test_segments_score_what_brackets_are_written_around(seed: int) -> None:
    rng = np.random.default_rng(seed)
    length = int(rng.integers(1, 5))
    arrays = rng.normal(size=(length, 5)), rng.normal(size=(5, 5))
    tags = Lattice.from_arrays(IOB, *arrays)
    every = [(s, e, x) for s in range(length) for e in range(s + 1, length + 1) for x in "pq"]
    scores = {one: float(rng.normal()) for one in every if rng.random() < 0.8}
    spans_ = Lattice.from_spans(length, [(*one, v) for one, v in scores.items()], labels=("p", "q"))
    written = tags @ bracketing().on("label", writes="segment")
    found = written @ spans_
    wanted = []
    for path in written.nbest(10_000):
        at, label = path.positions["segment"], path["segment"]
        met = [(at[k], at[k + 1], label[k][1:]) for k in range(0, len(at), 2)]
        if all(one in scores for one in met):
            wanted.append(path.score + sum(scores[one] for one in met))
    close(found.log_partition(), log_sum(np.asarray(wanted)))
    assert found.tapes == ("label", "segment")
    if wanted:
        close(found.best().score, max(wanted))


# --- What is refused ----------------------------------------------------------------------------


def loop(final: float) -> Transducer:
    """A circle without input at states 1 and 2, from which a path may end in state 3 alone."""
    columns = [0, 1, 2, 2], [0, -1, -1, 0], [0, 0, 1, 0], [1, 2, 1, 3]
    return machine_of(*columns, np.zeros(4), [0.0, -np.inf, -np.inf, final], INPUT, OUTPUT)


def test_circles_without_input_are_refused_where_a_path_may_take_them() -> None:
    base = Lattice.from_arrays(INPUT, np.zeros((2, 3)))
    with pytest.raises(EpsilonCycleError, match=r"1 → 2 → 1|2 → 1 → 2"):
        composed(base.row, loop(0.0))
    assert Lattice(composed(base.row, loop(-np.inf))).log_partition() == -np.inf


def test_transducers_that_are_none() -> None:
    one, none = np.zeros(1, dtype=np.int32), np.zeros(1)
    sound = Transducer(one, one, one, one, none, none, ("a",), ("b",))
    bad: Any
    for bad, text in (
        ({"target": one + 7}, "target holds numbers outside"),
        ({"input": one - 2}, "input holds numbers outside"),
        ({"output": none}, "output is float64"),
        ({"score": none * np.nan}, "score has NaN"),
        ({"final": none[:0]}, "final is empty"),
    ):
        with pytest.raises(errors.FstcrfError, match=text):
            replace(sound, **bad)


def test_labels_and_sizes_that_go_with_nothing_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    other = machine_of([0], [0], [0], [0], [0.0], [0.0], ("aa",), OUTPUT)
    with pytest.raises(LabelError, match=r"'aa'.*nearest is 'a'"):
        composed(Lattice.from_arrays(INPUT, np.zeros((2, 3))).row, other)
    rng = np.random.default_rng(0)
    base = Lattice.from_arrays(INPUT, np.zeros((4000, 3)))
    monkeypatch.setattr(kernel.transduced, "__defaults__", (10_000,))
    with pytest.raises(TooLargeError, match=r"more than 10,000 arcs .* states"):
        Lattice(composed(base.row, transducer(rng, INPUT, OUTPUT, 8))).nbest(2)


def test_arcs_are_counted_before_memory_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the limit the arcs are there; one arc more is refused with the memory of a state."""
    rooms, more = list[int](), kernel._Room._more

    def recorded(room: Any, name: str, names: tuple[str, ...], size: int) -> None:
        rooms.append(size)
        more(room, name, names, size)

    def paths(most: int) -> object:
        monkeypatch.setattr(kernel.transduced, "__defaults__", (most,))
        base = Lattice.from_arrays(INPUT, np.zeros((900, 3)))  # a composition is kept
        machine = transducer(np.random.default_rng(0), INPUT, OUTPUT, 8)
        try:
            return Lattice(composed(base.row, machine)).nbest(5)
        except TooLargeError:
            return None

    monkeypatch.setattr(kernel._Room, "_more", recorded)
    least = bisect.bisect_left(range(10**6), x=True, key=lambda most: paths(most) is not None)
    assert least > 5 * 4096
    assert paths(least) == paths(10**6)
    rooms.clear()
    assert paths(least - 1) is None
    assert max(rooms) < least / 2


def test_a_grammar_of_tokens_does_not_read_what_is_written_at_boundaries() -> None:
    base = Lattice.from_arrays(INPUT, np.zeros((2, 3)))
    one = machine_of([0], [0], [0], [0], [0.0], [0.0], INPUT, OUTPUT)
    lattice = Lattice(composed(base.row, one))
    with pytest.raises(GrammarError, match="'out' has no label per token"):
        lattice.constrained(Grammar.from_arrays(OUTPUT, [[0, 0]], tape="out"), over="tokens")


@pytest.mark.parametrize("seed", range(30))
def test_sentences_of_one_length_have_the_same_arcs(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A composition that is kept for a length, against one made for the sentence."""
    rng = np.random.default_rng(seed)
    length, machine = int(rng.integers(0, 5)), transducer(rng, INPUT, OUTPUT, 3)
    pairs = rng.normal(size=(3, 3))
    pairs[rng.random((3, 3)) < 0.3] = -np.inf
    each = rng.normal(size=(max(length - 1, 0), 3, 3))
    other = Lattice.from_arrays(("u", "v"), rng.normal(size=(length, 2)), tape="other")
    made = [
        Lattice.from_arrays(INPUT, rng.normal(size=(length, 3)), pairs),
        Lattice.from_arrays(INPUT, rng.normal(size=(length, 3)), each, rng.normal(size=3)),
        Lattice.from_arrays(INPUT, rng.normal(size=(length, 3))),
        other @ Lattice.from_arrays(INPUT, rng.normal(size=(length, 3)), pairs, tape="x"),
    ]
    made += [one & Grammar.from_arrays(INPUT, [[0, 1, -1], [1, 0, 1]], tape="x")
             for one in made[-1:]]  # fmt: skip
    for one in made:
        kept = one @ machine
        with monkeypatch.context() as patch:
            patch.setattr(transduced_, "_template", lambda *_: None)
            alone = one @ machine
        close(kept.log_partition(), alone.log_partition())
        if alone.log_partition() > -np.inf:
            assert kept.best().labels == alone.best().labels
            close(kept.best().score, alone.best().score)
            close(kept.expected("out"), alone.expected("out"))
            found, wanted = kept.gradient(), alone.gradient()
            assert found.keys() == wanted.keys()
            for name, values in wanted.items():
                close(found[name], values)
