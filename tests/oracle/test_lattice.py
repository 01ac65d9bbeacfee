"""Lattices against enumeration of every label sequence, and against pynini."""

from __future__ import annotations

import itertools
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from fstcrf.arrays import Floats
from fstcrf.errors import NoPathError, OptionError
from fstcrf.lattices import Lattice
from fstcrf.text.corpus import spans
from tests.support.oracles import assert_close, chain_of, enumerate_paths, largest, log_sum, truth
from tests.support.strategies import lattices

LABEL_SETS = {
    "iob1": ("O", "I-X", "B-X", "I-Y"),
    "iob2": ("O", "B-X", "I-X", "B-Y", "I-Y"),
    "bioes": ("S-X", "O", "B-X", "I-X", "E-X", "S-Y"),
    "bilou": ("U-X", "O", "B-X", "I-X", "L-X"),
    "conlleval": ("O", "B-X", "I-X", "E-X", "S-X", "Q-X", "I-Y"),
}


def scale_of(lattice: Lattice) -> float:
    graph, node = chain_of(lattice)
    return largest(node, graph.score, graph.initial, graph.final)


def sequences(lattice: Lattice) -> tuple[list[tuple[str, ...]], Floats]:
    """All label sequences with their probabilities."""
    paths, scores = enumerate_paths(*chain_of(lattice))
    names = [tuple(lattice.labels[s] for s in path) for path in paths.tolist()]
    return names, np.exp(scores - log_sum(scores))


@given(lattice=lattices())
def test_all_answers(lattice: Lattice) -> None:
    known, scale = truth(*chain_of(lattice)), scale_of(lattice)
    assert_close(lattice.log_partition(), known.log_z, scale=scale)
    assert lattice.max_marginals().tolist() == known.max_marginals.tolist()
    if known.log_z == -np.inf:
        with pytest.raises(NoPathError):
            lattice.best()
        return
    best = lattice.best()
    assert best.labels == tuple(lattice.labels[s] for s in known.path)
    assert best.score == best.bound == known.score
    assert best.exact
    assert_close(best.probability, np.exp(known.score - known.log_z), scale=scale)
    assert_close(lattice.marginals(), known.node, scale=scale)


@given(lattice=lattices(), data=st.data())
def test_scores(lattice: Lattice, data: st.DataObject) -> None:
    paths, scores = enumerate_paths(*chain_of(lattice))
    number = data.draw(st.integers(0, len(paths) - 1))
    labels = [lattice.labels[s] for s in paths[number]]
    assert lattice.score(labels) == scores[number]
    log_z = log_sum(scores)
    probability = np.exp(scores[number] - log_z) if log_z > -np.inf else 0.0
    assert_close(lattice.probability(labels), probability, scale=scale_of(lattice))


@given(lattice=lattices(unit=0.125), data=st.data())
def test_restrict(lattice: Lattice, data: st.DataObject) -> None:
    shape = (len(lattice), len(lattice.labels))
    bits = data.draw(st.lists(st.booleans(), min_size=shape[0] * shape[1], max_size=64))
    mask = np.asarray(bits[: shape[0] * shape[1]]).reshape(shape)
    paths, scores = enumerate_paths(*chain_of(lattice))
    kept = mask[np.arange(shape[0]), paths].all(axis=1)
    restricted = lattice.restrict(mask)
    assert_close(restricted.log_partition(), log_sum(scores[kept]))
    assert restricted.log_partition() <= lattice.log_partition() + 1e-12
    again = restricted.restrict(mask)
    assert again.log_partition() == restricted.log_partition()


# --- Spans -------------------------------------------------------------------------------------


def check_spans(lattice: Lattice, scheme: str) -> None:
    tokens, (names, share) = len(lattice), sequences(lattice)
    illegal: Any = "repair" if scheme == "conlleval" else "drop"
    read = [set(spans(labels, scheme, illegal=illegal)) for labels in names]
    for start, end in itertools.combinations(range(tokens + 1), 2):
        for kind in ("X", "Y"):
            try:
                found = lattice.span_probability(start, end, kind, scheme=scheme)
            except OptionError:
                assert not any(label.endswith(f"-{kind}") for label in lattice.labels)
                continue
            there = np.asarray([(start, end, kind) in its for its in read])
            assert_close(found, share[there].sum(), scale=scale_of(lattice))


@pytest.mark.parametrize("scheme", list(LABEL_SETS))
@pytest.mark.parametrize("labels", list(LABEL_SETS))
@pytest.mark.parametrize("per_token", [False, True])
def test_spans(scheme: str, labels: str, *, per_token: bool) -> None:
    names, rng = LABEL_SETS[labels], np.random.default_rng(len(scheme))
    size = len(names)
    for tokens in (1, 3):
        shape = (tokens - 1, size, size) if per_token else (size, size)
        transitions = rng.normal(size=shape)
        transitions[rng.random(shape) < 0.1] = -np.inf
        lattice = Lattice.from_arrays(
            names, rng.normal(size=(tokens, size)), transitions, *rng.normal(size=(2, size))
        )
        if readable(names, scheme):
            check_spans(lattice, scheme)


def readable(labels: tuple[str, ...], scheme: str) -> bool:
    """Whether some sequence of labels holds a span of a strict scheme."""
    sequences = (s for n in (1, 2, 3) for s in itertools.product(labels, repeat=n))
    return scheme == "conlleval" or any(spans(s, scheme, illegal="drop") for s in sequences)


@pytest.mark.thorough
@pytest.mark.parametrize("scheme", ["iob2", "conlleval"])
@given(data=st.data())
def test_spans_of_random_lattices(scheme: str, data: st.DataObject) -> None:
    lattice = data.draw(lattices(labels=("O", "B-X", "I-X")))
    if lattice.log_partition() > -np.inf:
        check_spans(lattice, scheme)


@given(lattice=lattices(labels=("O", "B-X", "I-X"), unit=0.125))
def test_marginals_of_span_ends(lattice: Lattice) -> None:
    """Under conlleval every B begins a span, which ends somewhere."""
    if lattice.log_partition() == -np.inf:
        return
    tokens, marginals = len(lattice), lattice.marginals()
    for start in range(tokens):
        total = sum(
            lattice.span_probability(start, end, "X") for end in range(start + 1, tokens + 1)
        )
        assert total >= marginals[start, 1] - 1e-12


# --- pynini ------------------------------------------------------------------------------------


def machine(lattice: Lattice, arc_type: str) -> Any:
    """The lattice as a weighted acceptor; label i is the symbol i + 1, because 0 is epsilon."""
    pynini: Any = pytest.importorskip("pynini", reason="pynini is not installed")
    graph, node = chain_of(lattice)
    tokens, size = node.shape
    fst = pynini.Fst(arc_type=arc_type)

    def weight(value: float) -> Any:
        return pynini.Weight("tropical" if arc_type == "standard" else arc_type, -value)

    start = fst.add_state()
    fst.set_start(start)
    states = [[fst.add_state() for _ in range(size)] for _ in range(tokens)]
    for j in range(size):
        value = weight(graph.initial[j] + node[0, j])
        fst.add_arc(start, pynini.Arc(j + 1, j + 1, value, states[0][j]))
        fst.set_final(states[-1][j], weight(graph.final[j]))
    for t in range(1, tokens):
        score = graph.score[t] if graph.per_token else graph.score
        for i, j in itertools.product(range(size), repeat=2):
            value = weight(score[i * size + j] + node[t, j])
            fst.add_arc(states[t - 1][i], pynini.Arc(j + 1, j + 1, value, states[t][j]))
    return fst


def random_lattice(seed: int, tokens: int, size: int, *, per_token: bool) -> Lattice:
    rng = np.random.default_rng(seed)
    shape = (tokens - 1, size, size) if per_token else (size, size)
    return Lattice.from_arrays(
        [f"l{i}" for i in range(size)],
        rng.normal(size=(tokens, size)),
        rng.normal(size=shape),
        *rng.normal(size=(2, size)),
    )


SIZES = pytest.mark.parametrize(("tokens", "size"), [(1, 1), (1, 4), (2, 3), (9, 5), (25, 9)])


@SIZES
@pytest.mark.parametrize("per_token", [False, True])
def test_sums_by_pynini(tokens: int, size: int, *, per_token: bool) -> None:
    pynini: Any = pytest.importorskip("pynini", reason="pynini is not installed")
    lattice = random_lattice(tokens, tokens, size, per_token=per_token)
    fst = machine(lattice, "log64")
    # delta = 0, or the sum stops early; weights pass through text of nine digits.
    behind = [float(str(w)) for w in pynini.shortestdistance(fst, delta=0.0, reverse=True)]
    ahead = [float(str(w)) for w in pynini.shortestdistance(fst, delta=0.0)]
    assert lattice.log_partition() == pytest.approx(-behind[fst.start()], rel=1e-7)
    both = np.asarray(ahead[1:]) + np.asarray(behind[1:])  # state 0 is the start
    share = np.exp(-both - lattice.log_partition()).reshape(tokens, size)
    np.testing.assert_allclose(lattice.marginals(), share, atol=1e-6)


@SIZES
@pytest.mark.parametrize("per_token", [False, True])
def test_best_path_by_pynini(tokens: int, size: int, *, per_token: bool) -> None:
    pynini: Any = pytest.importorskip("pynini", reason="pynini is not installed")
    lattice = random_lattice(tokens + 1, tokens, size, per_token=per_token)
    shortest = pynini.shortestpath(machine(lattice, "standard"))
    paths = shortest.paths()
    labels = [lattice.labels[i - 1] for i in paths.ilabels() if i > 0]
    best = lattice.best()
    assert lattice.score(labels) == pytest.approx(best.score, rel=1e-5)
    assert best.labels == tuple(labels)


def test_forbidden_successions_by_pynini() -> None:
    pynini: Any = pytest.importorskip("pynini", reason="pynini is not installed")
    transitions = np.asarray([[0.0, -np.inf], [1.0, 2.0]])
    for initial in ([0.0, 0.0], [0.0, -np.inf]):
        lattice = Lattice.from_arrays(("a", "b"), np.ones((4, 2)), transitions, initial)
        fst = machine(lattice, "log64")
        distance = pynini.shortestdistance(fst, delta=0.0, reverse=True)[fst.start()]
        assert lattice.log_partition() == pytest.approx(-float(str(distance)), rel=1e-7)
