"""Lattices whose label pairs have no scores need no pairs: they have an arc for each label.

Under a transducer with memory, each question has the same answer as with all pairs written out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import fstcrf
from fstcrf import Lattice, Lattices, Transducer
from fstcrf.arrays import Floats
from fstcrf.kernel.paired import PairScores
from fstcrf.lattices import folds
from fstcrf.machines.plans import Program
from tests.gradient.test_lattices import parts, scored, transducer

LABELS = ("a", "b", "c")
Draw = Callable[..., Floats]


@contextmanager
def pairs_written() -> Iterator[None]:
    """Write all pairs of labels out."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Program, "order_zero", property(lambda _: False))
        patch.setattr(PairScores, "silent", property(lambda _: False))
        yield


def tokens(draw: Draw, size: int) -> Any:
    return Lattice.from_arrays(LABELS, draw(size, 3, never=0.15))


def ending(draw: Draw, size: int) -> Any:
    """Return a lattice with scores of first and last labels."""
    return Lattice.from_arrays(LABELS, draw(size, 3), None, draw(3), draw(3))


def two_tapes(draw: Draw, size: int) -> Any:
    return ending(draw, size) @ Lattice.from_arrays(("u", "v"), draw(size, 2), tape="q")


def segments(draw: Draw, size: int, *ends: Any) -> Any:
    every = [(s, e, k) for s in range(size) for e in range(s + 1, size + 1) for k in range(3)]
    start, end, label = np.array(every, dtype=np.int64).reshape(-1, 3).T
    score = draw(len(every), never=0.1)
    return Lattice.from_segments(size, start, end, label, score, LABELS, None, *ends)


def ending_segments(draw: Draw, size: int) -> Any:
    return segments(draw, size, draw(3), draw(3))


KINDS = (tokens, ending, two_tapes, segments, ending_segments)

CHANGES: dict[str, Callable[[Any, Transducer, Transducer], Any]] = {
    "composed": lambda x, one, _: x @ one,
    "composed twice": lambda x, one, two: x @ one @ two,
    "under a grammar": lambda x, one, _: (
        (x @ one) & fstcrf.constraints.at_most(1, x.on[-1].labels[0], tape=x.on[-1].name)
    ),
}


def answers(lattice: Any) -> dict[str, Any]:
    """Return the answer to each question whose answer is not drawn at random."""
    names = [tape.name for tape in lattice.on]
    inputs = [k for k, tape in enumerate(lattice.on) if not tape.output and not tape.segments]
    best = lattice.nbest(6)
    found: dict[str, Any] = {"labels": [path.labels for path in best]}
    found |= {f"path {k}": path.score for k, path in enumerate(best)}
    found |= {"log Z": lattice.log_partition(), "entropy": lattice.entropy()}
    found |= {f"gradient {name}": values for name, values in lattice.gradient().items()}
    for k in inputs:
        found[f"marginals {k}"] = lattice.marginals(names[k])
        found[f"highest {k}"] = lattice.row.engine.highest([k])[0]
        found[f"successions {k}"] = lattice.row.engine.successions([k])[0][1:]
    for name in names[1 if lattice.on[0].segments else 0 :]:
        found[f"expected {name}"] = lattice.expected(name)
    found["strings"] = [path.score for path in lattice.strings(names[-1], 3)]
    return found


@pytest.mark.parametrize("whole", [False, True], ids=["real", "whole"])
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_the_answers_are_those_with_all_pairs(
    kind: Callable[[Draw, int], Any], change: str, whole: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whole numbers make ties, which are decided alike."""
    monkeypatch.setattr(folds, "folded_transducer", lambda *_: None)
    alive = 0
    for size in (0, 1, 2, 4):

        def made(size: int = size) -> Any:
            rng = np.random.default_rng(size)

            def draw(*shape: int, never: float = 0.0) -> Floats:
                values = rng.integers(3, size=shape) if whole else rng.normal(size=shape)
                return np.where(rng.random(shape) < never, -np.inf, values)

            base = kind(draw, size)
            one = transducer(rng, base.on[-1].labels, "xy", tape="out")
            second = transducer(rng, "xy", "xyz", tape="more")
            if whole:
                one, second = (scored(x, np.round(parts(x))) for x in (one, second))
            return CHANGES[change](base, one, second)

        with pairs_written():
            written = made()
            dead = written.log_partition() == -np.inf
            wanted = {} if dead else answers(written)
        if dead:
            assert made().log_partition() == -np.inf
            continue
        alive, found = alive + 1, answers(made())
        assert found.pop("labels") == wanted.pop("labels")
        assert found.keys() == wanted.keys()
        for name, values in wanted.items():
            np.testing.assert_allclose(found[name], values, atol=1e-9, err_msg=name)
    assert alive >= 2


def counter(labels: tuple[str, ...]) -> Transducer:
    """Return a machine that counts the first label, up to two."""
    rows = [f"{q} {q} {x} <eps>" for q in range(3) for x in labels[1:]]
    rows += [f"{q} {q + 1} {labels[0]} Z" for q in range(2)]
    return Transducer.from_text("\n".join([*rows, "0", "1", "2"]), tape="z")


def sausage(labels: tuple[str, ...], scores: Floats) -> Any:
    return Lattice.from_arrays(labels, scores)


def unit_segments(labels: tuple[str, ...], scores: Floats) -> Any:
    at, size = np.repeat(np.arange(len(scores)), len(labels)), len(scores)
    label = np.tile(np.arange(len(labels)), size)
    return Lattice.from_segments(size, at, at + 1, label, scores.ravel(), labels)


@pytest.mark.parametrize("kind", [sausage, unit_segments])
def test_compositions_have_as_many_arcs_as_labels(kind: Callable[..., Any]) -> None:
    """At twice the labels there are twice the arcs, and pairs are not written out before."""
    count = []
    for size in (300, 600):
        labels = tuple([f"l{k}" for k in range(size)])
        lattice = kind(labels, np.random.default_rng(0).normal(size=(5, size)))
        base = lattice.row.arcs().unconstrained.explicit[0]
        count.append((len(base.target), (lattice @ counter(labels)).row.engine.n_elements))
    assert np.array(count)[0].tolist() <= [5 * 300, 5 * 3 * 300]
    assert (np.array(count[1]) <= 2.01 * np.array(count[0])).all()


def test_batches_answer_as_lattices_do_alone() -> None:
    """Log Z, best paths, marginals and gradients; 600 labels are too many for a fold."""
    labels, rng = tuple([f"l{k}" for k in range(600)]), np.random.default_rng(1)
    batch = Lattices.from_arrays(labels, [rng.normal(size=(n, 600)) for n in (3, 0, 5, 3)])
    composed = batch @ counter(labels)
    log_z, best = composed.log_partition(), composed.nbest(2)
    for k, (lattice, gradient) in enumerate(zip(composed, composed.gradient(), strict=True)):
        assert lattice.log_partition() == log_z[k]
        alone = [(path.labels, path.score) for path in lattice.nbest(2)]
        assert alone == [(path.labels, path.score) for path in best[k]]
        for name, values in lattice.gradient().items():
            np.testing.assert_array_equal(gradient[name], values)
        tokens_ = len(batch[k])
        assert gradient["transition"].sum() == pytest.approx(max(tokens_ - 1, 0))
        assert gradient["emission"].sum() == pytest.approx(tokens_)


def label_model(labels: tuple[str, ...], scores: Floats) -> Transducer:
    """Return a bigram model of labels: a state for each, all of them linked."""
    states = len(labels) + 1
    rows = [
        f"{q} {k + 1} {x} {x} {scores[q, k]}" for q in range(states) for k, x in enumerate(labels)
    ]
    return Transducer.from_text("\n".join([*rows, *map(str, range(states))]), tape="z")


@pytest.mark.parametrize("whole", [False, True], ids=["real", "whole"])
@pytest.mark.parametrize("model", [label_model, lambda labels, _: counter(labels)])
def test_the_n_best_need_only_the_arcs_of_labels_on_good_paths(
    model: Callable[[tuple[str, ...], Floats], Transducer],
    whole: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They are those among all arcs, to the bit; whole numbers make ties."""
    labels, rng = tuple([f"l{k}" for k in range(12)]), np.random.default_rng(2)
    costs = rng.normal(size=(13, 12))
    machine = model(labels, np.round(costs) if whole else costs)
    for size in (1, 2, 9):
        scores = rng.integers(3, size=(size, 12)) if whole else rng.normal(size=(size, 12))
        scores = np.where(rng.random((size, 12)) < 0.2, -np.inf, scores)
        found = []
        for least in (0, 10**9):
            monkeypatch.setattr(folds, "_MANY_ARCS", least)
            found.append((Lattice.from_arrays(labels, scores, tape="x") @ machine).nbest(7))
        assert found[0] == found[1]


def test_a_label_model_is_folded_into_as_many_pairs_as_labels() -> None:
    labels, rng = tuple([f"l{k}" for k in range(150)]), np.random.default_rng(3)
    machine = label_model(labels, rng.normal(size=(151, 150)))
    engine = (Lattice.from_arrays(labels, rng.normal(size=(3, 150))) @ machine).row.engine
    assert isinstance(engine, folds.FoldEngine)
    assert len(engine.fold.state) == 150


def test_the_score_of_a_likely_string_is_its_sum() -> None:
    """The string of the best path is added, where the budget ends before any is found."""
    labels, rng = ("a", "b", "c"), np.random.default_rng(4)
    for size in (0, 1, 6):
        lattice = Lattice.from_arrays(labels, rng.normal(size=(size, 3)), rng.normal(size=(3, 3)))
        composed = lattice @ transducer(rng, labels, "xy", tape="out")
        if composed.log_partition() == -np.inf:
            continue
        for path in composed.strings("out", 5, budget=1):
            wanted = composed.string_log_partition(list(path.labels), tape="out")
            assert path.score == pytest.approx(wanted, abs=1e-9)
            assert path.score <= path.bound
