"""What a lattice answers depends on nothing beside it, and on nothing that was asked before.

Lattices of every kind are asked alone, behind and before others of their kind and of other kinds,
and a second time. Scores, sums, probabilities and samples have the same bits each time.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import fstcrf
from fstcrf import Grammar, Lattice, Lattices, Transducer

LABELS = ("a", "b", "c")
LENGTHS = (4, 7, 1, 9, 4)

Family = Callable[[Any], list[Any]]
"""Makes lattices of several lengths that share all that lattices can share."""


def chains(rng: Any) -> list[Any]:
    step, (first, last) = rng.normal(size=(3, 3)), rng.normal(size=(2, 3))
    return [
        Lattice.from_arrays(LABELS, rng.normal(size=(size, 3)), step, first, last, tape="t")
        for size in LENGTHS
    ]


def joint(rng: Any) -> list[Any]:
    step, table = rng.normal(size=(2, 2)), {(0, 1): rng.normal(size=(3, 2))}
    return [
        fstcrf.compose(
            one,
            Lattice.from_arrays(("U", "V"), rng.normal(size=(len(one), 2)), step, tape="u"),
            coupling=table,
        )
        for one in chains(rng)
    ]


def segmented(longest: int, share: float, *, pairs: bool) -> Family:
    """Return the family of segments of up to so many tokens, some of which are left out."""

    def made(rng: Any) -> list[Any]:
        moves = (rng.normal(size=(3, 3)), *rng.normal(size=(2, 3))) if pairs else ()
        found = []
        for size in LENGTHS:
            rows = [
                (a, b, k)
                for a in range(size)
                for b in range(a + 1, min(size, a + longest) + 1)
                for k in range(3)
                if k == 0 or rng.random() < share
            ]
            start, end, label = map(list, zip(*rows, strict=True))
            score = rng.normal(size=len(rows))
            found.append(Lattice.from_segments(size, start, end, label, score, LABELS, *moves))
        return found

    return made


def spans(rng: Any) -> list[Any]:
    found = []
    for size in LENGTHS:
        ends = [(a, b) for a in range(size) for b in range(a + 1, min(size, a + 3) + 1)]
        rows = [(a, b, "XY"[k], float(rng.normal())) for a, b in ends for k in range(2)]
        found.append(Lattice.from_spans(size, rows, 0.3, labels=("X", "Y")))
    return found


def ctc(rng: Any) -> list[Any]:
    scores = [rng.normal(size=(size, 3)) for size in LENGTHS]
    return [Lattice.from_ctc(score, "_", labels=("a", "b", "_")) for score in scores]


def paths(rng: Any) -> list[Any]:
    rows = [[tuple(rng.choice(LABELS, size)) for _ in range(6)] for size in LENGTHS]
    return [Lattice.from_paths(own, rng.normal(size=6)) for own in rows]


def transducer(rng: Any) -> Transducer:
    arcs = [(p, q, i, o) for p in range(2) for q in range(2) for i in LABELS for o in "xy"]
    score = rng.normal(size=len(arcs))
    lines = [f"{p} {q} {i} {o} {x!r}" for (p, q, i, o), x in zip(arcs, score.tolist(), strict=True)]
    return Transducer.from_text("\n".join([*lines, "0", "1 0.25"]), tape="o")


def folded(rng: Any) -> list[Any]:
    machine = transducer(rng)
    return [one @ machine for one in chains(rng)]


def written(rng: Any) -> list[Any]:
    """Chains composed with a transducer, as arcs."""
    return [pickle.loads(pickle.dumps(one)) for one in folded(rng)]


def composed(rng: Any) -> list[Any]:
    machine = transducer(rng)
    return [one @ machine for one in segmented(2, 0.8, pairs=True)(rng)]


def ruled(family: Family) -> Family:
    """Return a family under a grammar with scores."""

    def made(rng: Any) -> list[Any]:
        score = rng.normal(size=(2, 3))
        rule = Grammar.from_arrays(LABELS, [[0, 1, 0], [1, 1, 0]], score=score, final=[0.2, -0.1])
        return [one & rule for one in family(rng)]

    return made


FAMILIES: dict[str, Family] = {
    "chain": chains,
    "joint": joint,
    "segments": segmented(3, 0.8, pairs=True),
    "segments without pairs": segmented(3, 0.8, pairs=False),
    "sausage": segmented(1, 1.0, pairs=True),
    "ragged sausage": segmented(1, 0.6, pairs=True),
    "sausage without pairs": segmented(1, 1.0, pairs=False),
    "spans": spans,
    "ctc": ctc,
    "paths": paths,
    "fold": folded,
    "written": written,
    "composed": composed,
    "chain under a grammar": ruled(chains),
    "segments under a grammar": ruled(segmented(2, 0.8, pairs=True)),
    "sausage under a grammar": ruled(segmented(1, 1.0, pairs=True)),
}


# --- Questions ------------------------------------------------------------------------------------


def told(paths: Sequence[Any]) -> Any:
    return [(path.labels, path.score, path.probability) for path in paths]


def plain(found: Any) -> Any:
    """Return arrays, and rows of them, as lists: bits are compared."""
    if isinstance(found, tuple | list):
        return [plain(part) for part in found]
    return np.asarray(found).tolist()


Ask = tuple[Callable[[Any], Any], Callable[[Sequence[Any]], Sequence[Any]]]

QUESTIONS: dict[str, Ask] = {
    "best": (
        lambda one: told([one.best()]),
        lambda several: [told([path]) for path in fstcrf.best(several)],
    ),
    "nbest": (
        lambda one: told(one.nbest(4)),
        lambda several: [told(own) for own in fstcrf.nbest(several, 4)],
    ),
    "log_partition": (
        lambda one: float(one.log_partition()),
        lambda several: fstcrf.log_partition(several).tolist(),
    ),
    "marginals": (
        lambda one: plain(one.marginals()),
        lambda several: [plain(own) for own in fstcrf.marginals(several)],
    ),
}
"""What one lattice is asked, and what several are asked together."""


def strangers(kind: str) -> list[Any]:
    """Return lattices of other kinds."""
    rng = np.random.default_rng(8)
    return [one for name, made in FAMILIES.items() if name != kind for one in made(rng)[:2]]


@pytest.mark.thorough
@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("kind", FAMILIES)
def test_answers_depend_on_no_company(kind: str, question: str) -> None:
    alone, together = QUESTIONS[question]
    others = strangers(kind)
    for seed in range(2):
        fresh = [FAMILIES[kind](np.random.default_rng(seed)) for _ in range(3)]
        wanted = [alone(one) for one in fresh[0]]
        assert list(together(fresh[1])) == wanted
        size = len(wanted)
        assert list(together([*fresh[2], *others]))[:size] == wanted
        assert list(together([*others, *fresh[0]]))[-size:] == wanted
        assert list(together(fresh[1][::-1]))[::-1] == wanted
        assert [next(iter(together([one]))) for one in fresh[2]] == wanted


@pytest.mark.thorough
@pytest.mark.parametrize("kind", FAMILIES)
def test_answers_depend_on_no_history(kind: str) -> None:
    """A lattice says the same again, after other questions, and when it is made once more."""
    for seed in range(2):
        every = [FAMILIES[kind](np.random.default_rng(seed)) for _ in range(3)]
        asks = {name: alone for name, (alone, _) in QUESTIONS.items()}
        first = [{name: ask(one) for name, ask in asks.items()} for one in every[0]]
        again = [{name: asks[name](one) for name in reversed(asks)} for one in every[0]]
        anew = [{name: asks[name](one) for name in reversed(asks)} for one in every[1]]
        for one in every[2]:
            one.entropy(), one.sample(2), one.strings(one.tapes[0], n=1), one.marginals()
        later = [{name: ask(one) for name, ask in asks.items()} for one in every[2]]
        assert first == again == anew == later


@pytest.mark.thorough
@pytest.mark.parametrize("kind", FAMILIES)
def test_samples_depend_on_the_seed_and_the_place_alone(kind: str) -> None:
    """What is drawn, and with which probability."""
    others = strangers(kind)
    for seed in range(2):
        lattices = FAMILIES[kind](np.random.default_rng(seed))
        wanted = fstcrf.sample(lattices, 3, seed=seed)
        assert [one.sample(3, seed=seed) for one in lattices] == [
            one.sample(3, seed=seed) for one in FAMILIES[kind](np.random.default_rng(seed))
        ]
        for place, lattice in enumerate(lattices):
            row = [*others[:place], lattice]
            assert fstcrf.sample(row, 3, seed=seed)[place] == wanted[place]
            assert fstcrf.sample([*row, *lattices], 3, seed=seed)[place] == wanted[place]
            assert fstcrf.sample([*row, *others], 3, seed=seed)[place] == wanted[place]


def test_compositions_have_the_same_bits_each_time() -> None:
    """What is kept of the first composition of a length changes nothing in the next ones."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        machine, (lattice, *_) = transducer(rng), chains(rng)
        found = []
        for _ in range(3):
            arcs = (lattice @ machine).row.engine.expanded
            found.append((arcs.score.tolist(), arcs.final.tolist(), arcs.log_z.tolist()))
        assert found[0] == found[1] == found[2]


# --- Batches of arrays ----------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("rule", [False, True])
def test_rows_of_arrays_depend_on_no_company(dtype: Any, *, rule: bool) -> None:
    score = [[0.3, -0.2, 0.1], [0.0, 0.4, -0.3]]
    grammar = Grammar.from_arrays(LABELS, [[0, 1, 0], [1, 1, 0]], score=score, final=[0.2, -0.1])
    for seed in range(10):
        rng = np.random.default_rng(seed)
        step = rng.normal(size=(3, 3)).astype(dtype)
        rows = [rng.normal(size=(size, 3)).astype(dtype) for size in LENGTHS]

        def batch(own: Sequence[Any], step: Any = step) -> Any:
            made = Lattices.from_arrays(LABELS, own, step)
            return made & grammar if rule else made

        whole = batch(rows)
        each = [batch([row]) for row in rows]
        assert [told([path]) for path in whole.best()] == [told([one.best()[0]]) for one in each]
        assert whole.log_partition().tolist() == [float(one.log_partition()[0]) for one in each]
        assert plain(whole.marginals()) == [plain(one.marginals()[0]) for one in each]
        assert [told(whole.decode(3).paths(k)) for k in range(len(rows))] == [
            told(one.decode(3).paths(0)) for one in each
        ]
