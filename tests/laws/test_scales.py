"""Scores of every size and lattices of every length: the answers of all doors agree.

Where scores are large, one addition rounds off more than the log of the number of paths. So answers
are compared with each other, not with enumeration: best ≤ log Z ≤ best + log(paths), samples are
paths, probabilities lie in [0, 1] and sum to one. Scores may be as large as 1e300.
"""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import fstcrf
from fstcrf import Grammar, Lattice, Lattices, Transducer
from fstcrf.kernel import acyclic
from fstcrf.machines import openfst

SCALES = (1.0, 1e10, 1e17, 1e19, 1e50, 1e299)
TOKENS, MANY = 3, 2000  # no lattice here has so many paths
LABELS = ("a", "b", "c")


def normal(rng: Any, scale: float, *shape: int) -> Any:
    return rng.normal(size=shape) * scale / 3


# --- Constructors ---------------------------------------------------------------------------------


def chain(rng: Any, scale: float) -> Any:
    ends = normal(rng, scale, 2, 3)
    return Lattice.from_arrays(
        LABELS, normal(rng, scale, TOKENS, 3), normal(rng, scale, 3, 3), *ends, tape="t"
    )


def arrays(rng: Any, scale: float) -> Any:
    rows = [normal(rng, scale, size, 3) for size in (2, TOKENS)]
    return Lattices.from_arrays(LABELS, rows, normal(rng, scale, 3, 3))[1]


def joint(rng: Any, scale: float) -> Any:
    other = Lattice.from_arrays(
        ("U", "V"), normal(rng, scale, TOKENS, 2), normal(rng, scale, 2, 2), tape="u"
    )
    table = {(0, 1): normal(rng, scale, 3, 2)}
    return fstcrf.compose(chain(rng, scale), other, coupling=table)


def _stretches(longest: int, *, one: bool = False) -> tuple[list[int], list[int], list[int]]:
    ends = [(a, b) for a in range(TOKENS) for b in range(a + 1, min(TOKENS, a + longest) + 1)]
    rows = [(*pair, k) for pair in ends for k in range(1 if one else 2)]
    start, end, label = map(list, zip(*rows, strict=True))
    return start, end, label


def segments(rng: Any, scale: float, longest: int = 2) -> Any:
    start, end, label = _stretches(longest)
    score = normal(rng, scale, len(start))
    pairs = normal(rng, scale, 2, 2), *normal(rng, scale, 2, 2)
    return Lattice.from_segments(TOKENS, start, end, label, score, ("X", "Y"), *pairs)


def independent(rng: Any, scale: float) -> Any:
    start, end, label = _stretches(2)
    score = normal(rng, scale, len(start))
    return Lattice.from_segments(TOKENS, start, end, label, score, ("X", "Y"))


def sausage(rng: Any, scale: float) -> Any:
    return segments(rng, scale, 1)


def spans(rng: Any, scale: float) -> Any:
    rows = zip(*_stretches(2), normal(rng, scale, 10), strict=False)
    return Lattice.from_spans(
        TOKENS, [(a, b, "XY"[k], float(x)) for a, b, k, x in rows], scale / 7, labels=("X", "Y")
    )


def ctc(rng: Any, scale: float) -> Any:
    return Lattice.from_ctc(normal(rng, scale, TOKENS, 3), "_", labels=("a", "b", "_"))


def paths(rng: Any, scale: float) -> Any:
    rows = [("a", "b", "a"), ("b", "a", "b"), ("a", "b", "a"), ("a", "a", "a")]
    return Lattice.from_paths(rows, normal(rng, scale, 4))


def transducer(rng: Any, scale: float) -> Transducer:
    arcs = [(p, q, i, o) for p in range(2) for q in range(2) for i in LABELS for o in "xy"]
    score = normal(rng, scale, len(arcs))
    lines = [f"{p} {q} {i} {o} {x!r}" for (p, q, i, o), x in zip(arcs, score.tolist(), strict=True)]
    return Transducer.from_text("\n".join([*lines, "0", "1"]), tape="o")


def fold(rng: Any, scale: float) -> Any:
    return chain(rng, scale) @ transducer(rng, scale)


def composed(rng: Any, scale: float) -> Any:
    start, end, label = _stretches(2)
    score = normal(rng, scale, len(start))
    made = Lattice.from_segments(TOKENS, start, end, label, score, ("a", "b"))
    return made @ transducer(rng, scale)


def ruled(rng: Any, scale: float) -> Any:
    """Segments under a grammar whose scores are as large."""
    score = normal(rng, scale, 2, 2)
    rule = Grammar.from_arrays(("X", "Y"), [[0, 1], [1, 0]], score=score, final=[0.0, scale / 5])
    return segments(rng, scale) & rule


MADE: dict[str, Callable[[Any, float], Any]] = {
    "chain": chain,
    "arrays": arrays,
    "joint": joint,
    "segments": segments,
    "segments without pairs": independent,
    "sausage": sausage,
    "spans": spans,
    "ctc": ctc,
    "paths": paths,
    "fold": fold,
    "composed": composed,
    "ruled": ruled,
}


# --- Forms ----------------------------------------------------------------------------------------


def saved(lattice: Any) -> Any:
    """Return what a file of the lattice's machine is read as, projected on what it reads."""
    read = openfst.from_bytes(openfst.to_bytes(lattice.row.machine))
    return Lattice.from_machine(
        replace(read, output=read.input, output_symbols=read.input_symbols, tape=None)
    )


FORMS: dict[str, Callable[[Any], Any]] = {
    "as made": lambda lattice: lattice,
    "pickled": lambda lattice: pickle.loads(pickle.dumps(lattice)),
    "saved": saved,
}


# --- Doors ----------------------------------------------------------------------------------------


def check(lattice: Any, scale: float) -> None:
    """Hold what a lattice answers at one door against what it answers at others."""
    most = 1e-12 * scale + 1e-9
    listed = lattice.nbest(MANY)
    best, log_z, many = lattice.best(), lattice.log_partition(), math.log(len(listed))
    assert abs(best.score - listed[0].score) <= most
    assert best.score - most <= log_z <= best.score + many + most
    assert (np.diff([path.score for path in listed]) <= most).all()
    both = fstcrf.log_partition([lattice, lattice])
    assert np.abs(both - log_z).max() <= most
    known = {path.labels for path in listed}
    for drawn in lattice.sample(50, seed=1):
        assert getattr(drawn, "labels", drawn) in known
    (string,) = lattice.strings(lattice.tapes[0], n=1)
    assert string.score <= log_z + most
    assert string.score >= best.score - most
    assert -1e-9 <= lattice.entropy() <= many + 1e-9
    for path in (best, *listed):
        assert 0.0 <= path.probability <= 1.0
    marginals = lattice.marginals()
    for table in marginals if isinstance(marginals, tuple | list) else [marginals]:
        assert ((table >= 0.0) & (table <= 1.0)).all()
        assert (table.sum(axis=-1) <= 1.0 + 1e-9).all()
    written = any(tape.output for tape in lattice.row.on)  # these have no labels of tokens
    maxima = () if written else lattice.max_marginals()
    for table in maxima if isinstance(maxima, tuple | list) else [maxima]:
        assert not np.isnan(table).any()
        assert (table <= best.score + most).all()
    for name, counts in lattice.gradient().items():
        assert (counts > -1e-9).all(), name


@pytest.mark.thorough
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("kind", MADE)
def test_doors_agree_at_every_scale(kind: str, scale: float) -> None:
    for seed in range(3):
        lattice = MADE[kind](np.random.default_rng(seed), scale)
        for form in FORMS.values():
            check(form(lattice), scale)


# --- Paths of one score ---------------------------------------------------------------------------


def tied(tokens: int, scale: float, *, pairs: bool) -> Any:
    """Return a lattice of 3 ** tokens paths with the same score, as large as the scale."""
    start = np.repeat(np.arange(tokens), 3)
    score, label = np.zeros(3 * tokens), np.tile(np.arange(3), tokens)
    score[-3:] = scale
    moves = (np.zeros((3, 3)),) if pairs else ()
    made = Lattice.from_segments(tokens, start, start + 1, label, score, LABELS, *moves)
    return made.row.engine


@pytest.mark.parametrize("pairs", [True, False])
@pytest.mark.parametrize("scale", [0.0, 1e15, 1e17, 1e19, -1e19, 1e21])
def test_many_paths_of_one_large_score_are_counted(scale: float, *, pairs: bool) -> None:
    """Log Z is the score and the log of the number of paths; every path is as probable."""
    tokens = 3000
    arcs = tied(tokens, scale, pairs=pairs)
    for machine in (arcs.machine, arcs.explicit[0]):
        (log_z,) = machine.log_partitions()
        assert log_z == pytest.approx(scale + tokens * math.log(3), rel=1e-15)
    assert np.allclose(arcs.machine.marginals().arc, 1 / 3, atol=1e-9)
    plain, which = arcs.explicit
    assert np.allclose(plain.marginals()[1][which >= 0], 1 / 3, atol=1e-9)
    assert plain.entropies()[0] == pytest.approx(tokens * math.log(3), rel=1e-9)
    drawn = plain.sample(5, [np.random.default_rng(3)])
    assert ((drawn >= 0).sum(axis=1) == plain.longest).all()


# --- Long lattices --------------------------------------------------------------------------------


def plain_chain(tokens: int) -> tuple[Any, Any]:
    """Return the nodes' and the arcs' probabilities of a chain of two arcs a token."""
    row = np.minimum(np.arange(tokens + 2) * 2, 2 * tokens)[: tokens + 2]
    target = np.repeat(np.arange(1, tokens + 1, dtype=np.int32), 2)
    final = np.append(np.full(tokens, -np.inf), 0.0)
    machine = acyclic.Acyclic(row, target, np.tile([0.3, -0.7], tokens), final)
    node, arc = machine.marginals()
    return node, arc.reshape(-1, 2)


@pytest.mark.thorough
@pytest.mark.parametrize("tokens", [1000, 100_000, 1_000_000])
def test_probabilities_of_long_chains_do_not_drift(tokens: int) -> None:
    """Probabilities are as exact at the end of a long chain of arcs as at its beginning."""
    node, arc = plain_chain(tokens)
    assert np.abs(node - 1.0).max() < 1e-9
    assert np.abs(arc - [1 / (1 + math.exp(-1.0)), 1 / (1 + math.exp(1.0))]).max() < 1e-9
    assert arc.sum() == pytest.approx(tokens, rel=1e-10)


def long_segments(tokens: int, pairs: Any) -> Any:
    """Segments of one token, two of each, and of two tokens at even places."""
    one, two = np.repeat(np.arange(tokens), 2), np.arange(0, tokens - 1, 2)
    start, end = np.append(one, two), np.append(one + 1, two + 2)
    score = np.append(np.tile([0.3, -0.7], tokens), np.full(len(two), -1.3))
    label = np.append(np.tile([0, 1], tokens), np.zeros(len(two), dtype=int))
    moves = () if pairs is None else (np.asarray(pairs),)
    return Lattice.from_segments(tokens, start, end, label, score, ("X", "Y"), *moves)


LONG: dict[str, Callable[[int], Any]] = {
    "segments": lambda tokens: long_segments(tokens, [[0.1, -0.2], [0.3, 0.4]]),
    "segments with faint pairs": lambda tokens: long_segments(tokens, [[0.1, -600.0], [0.3, 0.4]]),
    "segments without pairs": lambda tokens: long_segments(tokens, None),
    "ctc": lambda tokens: Lattice.from_ctc(np.full((tokens, 3), 0.1), "_", labels=("a", "b", "_")),
    "composed": lambda tokens: pickle.loads(
        pickle.dumps(
            Lattice.from_arrays(LABELS, np.full((tokens, 3), 0.1), np.eye(3), tape="t")
            @ transducer(np.random.default_rng(1), 1.0)
        )
    ),
}


@pytest.mark.thorough
@pytest.mark.parametrize("kind", LONG)
def test_probabilities_of_long_lattices_do_not_drift(kind: str) -> None:
    tokens = 20_000 if kind == "composed" else 200_000
    lattice = LONG[kind](tokens)
    found = lattice.marginals()
    table = found[0] if isinstance(found, tuple | list) else found
    covered = table.sum(axis=1)
    if kind == "ctc":  # frames between symbols are under no label
        covered = np.abs(table - table[tokens // 2]).max(axis=1)[tokens // 3 : -tokens // 3] + 1.0
    assert np.abs(covered - 1.0).max() < 1e-10
