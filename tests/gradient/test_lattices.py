"""Gradients of lattices of every kind are differences of log Z in what these were made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import fstcrf
from fstcrf import Lattice, Lattices, Transducer
from fstcrf.arrays import Floats
from fstcrf.errors import AmbiguousError, NoPathError, OptionError
from fstcrf.lattices.folds import FoldEngine
from tests.support.fsts import from_ids

Scores = dict[str, Floats]
Make = Callable[[Scores], Any]
LABELS, STEP = ("a", "b", "c"), 1e-5


def draw(rng: Any, *shape: int, never: float = 0.0) -> Floats:
    """Return scores, some of which may be −inf."""
    values = rng.normal(size=shape)
    values[rng.random(shape) < never] = -np.inf
    return np.asarray(values)


def ends(rng: Any, size: int) -> Scores:
    return {name: draw(rng, size) for name in ("initial", "final")}


# --- Kinds: what they are made of, and how -------------------------------------------------------


def chain(rng: Any, tokens: int) -> tuple[Scores, Make]:
    scores = {"emission": draw(rng, tokens, 3, never=0.1), "transition": draw(rng, 3, 3, never=0.2)}
    return scores | ends(rng, 3), _arrays


def _arrays(s: Scores) -> Any:
    return Lattice.from_arrays(LABELS, s["emission"], s["transition"], s["initial"], s["final"])


def moving(rng: Any, tokens: int) -> tuple[Scores, Make]:
    steps = draw(rng, max(tokens - 1, 0), 3, 3, never=0.2)
    scores = {"emission": draw(rng, tokens, 3), "transition": steps, **ends(rng, 3)}
    return scores, _arrays


def segments(rng: Any, tokens: int) -> tuple[Scores, Make]:
    every = [(s, e, k) for s in range(tokens) for e in range(s + 1, tokens + 1) for k in range(3)]
    start, end, label = np.array(every, dtype=np.int64).reshape(-1, 3).T
    scores = {"arc": draw(rng, len(every), never=0.1), "transition": draw(rng, 3, 3, never=0.1)}

    def make(s: Scores) -> Any:
        ends = s["initial"], s["final"]
        return Lattice.from_segments(
            tokens, start, end, label, s["arc"], LABELS, s["transition"], *ends
        )

    return scores | ends(rng, 3), make


def spans(rng: Any, tokens: int) -> tuple[Scores, Make]:
    every = [(s, e, x) for s in range(tokens) for e in range(s + 1, tokens + 1) for x in LABELS]

    def make(s: Scores) -> Any:
        scored = [(*one, score) for one, score in zip(every, s["arc"].tolist(), strict=True)]
        return Lattice.from_spans(tokens, scored, -0.5, labels=LABELS)

    return {"arc": draw(rng, len(every))}, make


def frames(rng: Any, tokens: int) -> tuple[Scores, Make]:
    scores = {"emission": draw(rng, tokens, 4)}
    return scores, lambda s: Lattice.from_ctc(s["emission"], 3, labels=(*LABELS, "_"))


def machine(rng: Any, tokens: int) -> tuple[Scores, Make]:
    """Arcs in no order, some of which read nothing or lead nowhere."""
    states, count = tokens + 2, 4 * tokens + 3
    source = np.sort(rng.integers(states - 1, size=count)).astype(np.int32)
    target = np.array([rng.integers(s + 1, states) for s in source], dtype=np.int32)
    turned = rng.permutation(states).astype(np.int32)  # states are in no order either
    order = np.argsort(turned[source], kind="stable")
    symbol = rng.integers(4, size=count).astype(np.int32)
    final = np.full(states, -np.inf)
    final[turned[-1]] = 0.3
    names = ("<eps>", *LABELS)

    def make(s: Scores) -> Any:
        columns = (turned[source][order], turned[target][order], symbol, symbol, s["arc"], final)
        return Lattice.from_machine(from_ids(int(turned[0]), *columns, names, names))

    return {"arc": draw(rng, count, never=0.1)}, make


def paths(rng: Any, tokens: int) -> tuple[Scores, Make]:
    rows = [rng.choice(LABELS, size).tolist() for size in rng.integers(tokens + 1, size=6)]
    return {"arc": draw(rng, 6, never=0.1)}, lambda s: Lattice.from_paths(rows, s["arc"], LABELS)


def joint(rng: Any, tokens: int) -> tuple[Scores, Make]:
    table, parts = draw(rng, 3, 3), {}
    scores: Scores = {}
    for tape, kind in (("p", chain), ("q", moving)):
        own, parts[tape] = kind(rng, tokens)
        scores |= {f"{tape}.{name}": values for name, values in own.items()}

    def make(s: Scores) -> Any:
        each = []
        for tape in "pq":
            own = [values for name, values in s.items() if name.startswith(tape)]
            each.append(Lattice.from_arrays(LABELS, *own, tape=tape))
        return fstcrf.compose(*each, coupling={(0, 1): table})

    return scores, make


def tiled(rng: Any, tokens: int) -> tuple[Scores, Make]:
    """Segments beside labels of tokens."""
    (one, segmented), (two, labelled) = segments(rng, tokens), chain(rng, tokens)
    scores = {f"segment.{name}": values for name, values in one.items()}
    scores |= {f"label.{name}": values for name, values in two.items()}

    def make(s: Scores) -> Any:
        parts = [
            made({name: s[f"{tape}.{name}"] for name in own})
            for tape, own, made in (("segment", one, segmented), ("label", two, labelled))
        ]
        return parts[0] @ parts[1]

    return scores, make


KINDS = (chain, moving, segments, spans, frames, machine, paths, joint, tiled)


# --- What is made of them -------------------------------------------------------------------------


def transducer(rng: Any, reads: Any, writes: Any, **others: Any) -> Transducer:
    """Return a machine of two states that has several runs over a string."""
    source, target = np.repeat([0, 1], 8), rng.integers(2, size=16)
    read, wrote = rng.integers(len(reads), size=16), rng.integers(-1, len(writes), size=16)
    return Transducer.from_arrays(
        np.append(source, 0),
        np.append(read, -1),
        np.append(wrote, 0),
        np.append(target, 1),
        draw(rng, 17, never=0.1),
        draw(rng, 2),
        input_symbols=tuple(reads),
        output_symbols=tuple(writes),
        **others,
    )


def parts(one: Transducer) -> Floats:
    return np.append(one.score, one.final)


def scored(one: Transducer, values: Floats) -> Transducer:
    arcs = len(one.source)
    return replace(one, score=values[:arcs].copy(), final=values[arcs:].copy())


def ruled(make: Make, scores: Scores, _rng: Any) -> tuple[Scores, Make]:
    tape = make(scores).on[0]
    rule = fstcrf.constraints.at_most(1, tape.labels[0], weight=-0.7, tape=tape.name)
    return scores, lambda s: make(s) & rule


def transduced(make: Make, scores: Scores, rng: Any) -> tuple[Scores, Make]:
    """An acceptor, and two machines of which the second reads what the first writes."""
    labels = make(scores).on[-1].labels
    acceptor = transducer(rng, labels, labels, tape="out")
    acceptor = replace(acceptor, output=acceptor.input.copy(), tape=None)
    first, second = transducer(rng, labels, "xy"), transducer(rng, "xy", "uv", tape="further")
    scores = scores | {
        "acceptor 0": parts(acceptor),
        "output": parts(first),
        "further": parts(second),
    }

    def made(s: Scores) -> Any:
        x = make(s) @ scored(acceptor, s["acceptor 0"]) @ scored(first, s["output"])
        return x @ scored(second, s["further"])

    return scores, made


def folded(make: Make, scores: Scores, rng: Any) -> tuple[Scores, Make]:
    """One machine, with several runs without input between two states."""
    labels = make(scores).on[-1].labels
    source, target = np.repeat([0, 1, 2], 6), rng.integers(3, size=18)
    one = Transducer.from_arrays(
        np.append(source, [0, 0, 1, 0]),
        np.append(rng.integers(len(labels), size=18), [-1] * 4),
        np.append(rng.integers(-1, 2, size=18), [-1, 0, 1, 0]),
        np.append(target, [1, 1, 2, 2]),
        draw(rng, 22, never=0.1),
        draw(rng, 3),
        input_symbols=tuple(labels),
        output_symbols=("x", "y"),
        tape="out",
    )
    return scores | {"out": parts(one)}, lambda s: make(s) @ scored(one, s["out"])


def folded_and_ruled(make: Make, scores: Scores, rng: Any) -> tuple[Scores, Make]:
    scores, made = folded(make, scores, rng)
    return ruled(made, scores, rng)


CHANGES: dict[str, Callable[..., tuple[Scores, Make]]] = {
    "alone": lambda make, scores, _: (scores, make),
    "under a grammar": ruled,
    "transduced": transduced,
    "folded": folded,
    "folded and under a grammar": folded_and_ruled,
}


def slope(make: Make, scores: Scores, name: str, direction: Floats) -> float:
    """Return the difference quotient of log Z along a direction of the scores of a name."""
    more, less = (
        make(scores | {name: scores[name] + step * direction}).log_partition()
        for step in (STEP, -STEP)
    )
    return (more - less) / (2 * STEP)


def check(kind: Any, change: str, seed: int, tokens: int) -> bool:
    """Hold a gradient against differences along random directions; tell whether there is a path.

    Along three of them: one would not notice two wrong entries that cancel.
    """
    rng = np.random.default_rng(seed)
    scores, make = kind(rng, tokens)
    scores, make = CHANGES[change](make, scores, rng)
    lattice = make(scores)
    if lattice.log_partition() == -np.inf:
        with pytest.raises(NoPathError):
            lattice.gradient()
        return False
    found = lattice.gradient()
    assert found.keys() - {"outside", "transition", "initial", "final"} <= scores.keys()
    for name, values in scores.items():
        assert found[name].shape == values.shape, name
        assert not found[name][values == -np.inf].any(), name
        for _ in range(3):
            direction = rng.choice([-1.0, 1.0], values.shape) * rng.uniform(0.5, 1.5, values.shape)
            wanted = slope(make, scores, name, direction)
            assert (found[name] * direction).sum() == pytest.approx(wanted, abs=1e-7), name
    return True


@pytest.mark.thorough
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_gradient_is_the_differences_of_log_z(kind: Any, change: str) -> None:
    alive = [check(kind, change, tokens, tokens) for tokens in (0, 1, 2, 3)]
    assert sum(alive) >= 2


@pytest.mark.parametrize("change", CHANGES)
def test_gradients_of_two_tokens(change: str) -> None:
    for kind in (chain, segments, machine):
        assert check(kind, change, 2, 2)


@pytest.mark.parametrize("change", [folded, folded_and_ruled], ids=["folded", "ruled"])
def test_gradients_of_folds_write_no_arcs(change: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The expected elements of the fold give the same derivatives as the written arcs."""
    rng = np.random.default_rng(8)
    for tokens in (0, 1, 2, 5, 9):
        scores, make = change(*reversed(chain(rng, tokens)), rng)
        lattice = make(scores)
        arcs, sizes = lattice.row.engine.expanded, [len(scores["out"])]
        with monkeypatch.context() as patch:
            patch.setattr(FoldEngine, "expanded", property(lambda _: pytest.fail("written out")))
            found = make(scores).gradient()
        node, pair = arcs.label_counts(0)
        np.testing.assert_allclose(found["emission"], node, atol=1e-12)
        np.testing.assert_allclose(found["transition"], pair, atol=1e-12)
        np.testing.assert_allclose(found["out"], *arcs.move_counts(sizes), atol=1e-12)


def test_tokens_outside_of_spans_count() -> None:
    z = [
        Lattice.from_spans(3, [(0, 2, "X", 0.4), (1, 2, "X", 0.1)], outside).log_partition()
        for outside in (0.3 + STEP, 0.3 - STEP)
    ]
    found = Lattice.from_spans(3, [(0, 2, "X", 0.4), (1, 2, "X", 0.1)], 0.3).gradient()["outside"]
    assert found.shape == (3,)
    assert found[2] == pytest.approx(1.0)
    assert found.sum() == pytest.approx((z[0] - z[1]) / (2 * STEP), abs=1e-7)


def test_faint_scores_and_impossible_ones() -> None:
    """What is far below 1e-300 has a derivative of 0, what is sure one of 1, and nothing is NaN."""
    rng = np.random.default_rng(5)
    emission = 3000.0 * draw(rng, 6, 3, never=0.2)
    step = 3000.0 * draw(rng, 3, 3)
    lattice = Lattice.from_arrays(LABELS, emission, step)
    one = transducer(rng, LABELS, "xy")
    for made in (lattice, lattice @ one):
        path, found = made.best(), made.gradient()
        assert all(np.isfinite(values).all() for values in found.values())
        labels = path["label"]
        wanted = np.array([[x == label for x in LABELS] for label in labels], dtype=float)
        np.testing.assert_allclose(found["emission"], wanted, atol=1e-9)
        assert found["transition"].sum() == pytest.approx(5.0)


def test_lattices_of_a_batch_answer_as_they_do_alone() -> None:
    rng = np.random.default_rng(6)
    rows = [draw(rng, tokens, 3) for tokens in (2, 0, 4)]
    batch = Lattices.from_arrays(LABELS, rows, draw(rng, 3, 3), draw(rng, 3), draw(rng, 3))
    one = transducer(rng, LABELS, "xy")
    for several in (batch, batch @ one, batch & fstcrf.constraints.at_most(2, "a")):
        for found, lattice in zip(several.gradient(), several, strict=True):
            alone = lattice.gradient()
            assert found.keys() == alone.keys()
            for name, values in alone.items():
                np.testing.assert_array_equal(found[name], values)
    with pytest.raises(NoPathError, match="sentence 1"):
        (batch & fstcrf.constraints.at_least(1, "a")).gradient()


def test_one_best_run_counts_where_it_is_the_only_one() -> None:
    """A tropical transducer with one run over each string has the gradient of a log one."""
    lattice = Lattice.from_arrays(LABELS, np.random.default_rng(7).normal(size=(3, 3)))
    look = "0 0 a x\n0 1 b y 0.2\n1 0 a <eps> 0.1\n1 1 b y\n0 2 a z 0.7\n2 2 b x\n0\n2"
    log = Transducer.from_text(look)
    found = [
        (lattice @ one).gradient()["output"] for one in (log, replace(log, semiring="tropical"))
    ]
    np.testing.assert_allclose(found[0], found[1])
    several = Transducer.from_text("0 1 a\n0 2 a 1\n1\n2", semiring="tropical", tape=None)
    one = Lattice.from_arrays(LABELS, np.zeros((1, 3))) @ several
    with pytest.raises(AmbiguousError, match=r"keeps only the best one.*semiring='log'"):
        one.gradient()
    assert one.log_partition() == pytest.approx(0.0)


def test_names_tell_tapes_apart() -> None:
    lattice = Lattice.from_arrays(LABELS, np.zeros((2, 3)))
    same = Transducer.from_table({x: x for x in LABELS}, tape="emission")
    assert {"label.emission", "emission"} <= (lattice @ same).gradient().keys()
    both = Lattice.from_arrays(LABELS, np.zeros((2, 3)), tape="p") @ lattice
    assert {"p.emission", "label.initial"} <= both.gradient().keys()
    twice = (lattice @ same) @ (Lattice.from_arrays(LABELS, np.zeros((2, 3)), tape="p") @ same)
    assert {"emission0", "emission1", "label0.final"} <= twice.gradient().keys()


def test_where_arcs_are_not_known_the_remedy_is_named() -> None:
    silent = Transducer.from_text("0 1 <eps> x\n1 1 a x\n1")
    paths_ = Lattice.from_paths([["a", "a"]], [0.0]) @ silent
    beside = paths_ @ Lattice.from_arrays(LABELS, np.zeros((2, 3)), np.eye(3), tape="p")
    with pytest.raises(OptionError, match="compose the transducer last"):
        beside.gradient()
