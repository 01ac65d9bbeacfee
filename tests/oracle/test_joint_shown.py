"""The n best labellings of some tapes against every joint labelling."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from fstcrf import Composition, compose
from fstcrf.errors import OptionError
from fstcrf.kernel import Budget
from fstcrf.lattices import Path
from tests.support.joint_cases import GRAMMARS, TEST, Labels, Truth, close, taggers

SEVERAL = ("pair", "three in a row")
SHOWN = ("pairs", "later tape")
N = 5


def subsets(tapes: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Each of the tapes, the last two turned round, and all of them turned round."""
    return [*((tape,) for tape in tapes), *{tapes[:-3:-1], tapes[::-1]}]


def grouped(truth: Truth, tapes: tuple[str, ...]) -> list[tuple[float, float, tuple[Labels, ...]]]:
    """The labellings of some tapes, best first: best score, log of the sum, labels."""
    places = [[t.tape for t in truth.taggers].index(tape) for tape in tapes]
    found: dict[tuple[Labels, ...], list[float]] = {}
    for labelling, score in truth.scores.items():
        found.setdefault(tuple(labelling[k] for k in places), []).append(score)
    ranked = [(max(s), float(np.logaddexp.reduce(s)), labels) for labels, s in found.items()]
    return sorted(ranked, key=lambda item: -item[0])


def wrapped(path: Path, tapes: tuple[str, ...]) -> tuple[Labels, ...]:
    return tuple(path.labels) if len(tapes) > 1 else (path.labels,)


def check(paths: list[Path], truth: Truth, tapes: tuple[str, ...]) -> None:
    wanted = grouped(truth, tapes)
    by_labels = {labels: (best, total) for best, total, labels in wanted}
    found = [wrapped(path, tapes) for path in paths]
    assert len(set(found)) == len(found) == min(N, len(wanted))
    for path, labels, (score, _, _) in zip(paths, found, wanted, strict=False):
        assert close(path.score, score)
        assert close(by_labels[labels][0], score)
        assert path.exact
        assert path.bound == path.score
    if truth.normalize == "product":
        for path, labels in zip(paths, found, strict=True):
            assert close(path.probability, float(np.exp(by_labels[labels][0] - truth.log_z)))


@pytest.mark.filterwarnings("ignore::fstcrf.errors.InexactWarning")
def test_what_a_budget_leaves_open_is_not_called_exact() -> None:
    parts = taggers("pair")
    composition = compose(
        *parts, grammar=GRAMMARS["later tape"](), search="lazy", normalize="product"
    )
    assert isinstance(composition, Composition)
    for sentence in TEST:
        truth = Truth(parts, sentence, (), composition.conjuncts)
        for states in (1, 2, 3, 5, 8):
            lattice = composition.lattices([sentence])[0]
            found = lattice.nbest(N, Budget(states), tapes=["chunk"])
            wanted = grouped(truth, ("chunk",))
            for path, (score, _, _) in zip(found, wanted, strict=False):
                assert path.bound >= path.score
                assert path.bound >= score - 1e-9
                if path.exact:
                    assert close(path.score, score)


@pytest.mark.thorough
@pytest.mark.parametrize("grammar", [None, *SHOWN])
@pytest.mark.parametrize("case", SEVERAL)
def test_chain(case: str, grammar: str | None) -> None:
    parts = taggers(case)
    made = (
        None if grammar is None or "chunk" not in [t.tape for t in parts] else GRAMMARS[grammar]()
    )
    composition = compose(*parts, normalize="chain", grammar=made)
    assert isinstance(composition, Composition)
    for sentence in TEST[: 2 if len(parts) < 3 else 1]:
        truth = Truth(parts, sentence, (), composition.conjuncts, "chain")
        plain = Truth(parts, sentence, (), (), "chain")
        for tapes in subsets(composition.tapes):
            (paths,) = composition.nbest_all([sentence], N, tapes=tapes)
            check(paths, truth, tapes)
            scored = any(acceptor.weighted for acceptor in composition.conjuncts)
            best = {labels: score for score, _, labels in grouped(plain, tapes)}
            for path in paths:
                if not scored:
                    assert close(path.probability, float(np.exp(path.score)))
                elif set(tapes) == set(composition.tapes):
                    assert close(path.probability, float(np.exp(best[wrapped(path, tapes)])))
                else:
                    assert np.isnan(path.probability)


def chained(normalize: str) -> Composition:
    composition = compose(*taggers("pair"), normalize="product")
    assert isinstance(composition, Composition)
    return replace(composition, normalize="chain") if normalize == "chain" else composition


@pytest.mark.parametrize("normalize", ["product", "chain"])
def test_tapes_that_there_are_not(normalize: str) -> None:
    ask = partial(chained(normalize).decode, [TEST[0]])
    for tapes, message in (
        (["x"], "no tape 'x': the tapes are pos, chunk"),
        ([], "expected names of tapes"),
        ("pos", "expected names of tapes"),
        (["pos", "pos"], "each once"),
    ):
        with pytest.raises(OptionError, match=message):
            ask(n=2, tapes=tapes)
    with pytest.raises(OptionError, match="n is 0"):
        ask(n=0, tapes=["pos"])
