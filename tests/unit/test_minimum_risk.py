"""Minimum-Bayes-risk decoding against every labelling and every set of spans."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from fstcrf.constraints import bioes
from fstcrf.errors import OptionError
from fstcrf.lattices import Lattice
from fstcrf.text.corpus import spans

BIO = ("O", "B-X", "I-X", "B-Y", "I-Y")
BIOES = ("O", "B-X", "I-X", "E-X", "S-X")
BILOU = ("O", "B-X", "I-X", "L-X", "U-X")
SpanSet = frozenset[tuple[int, int, str]]


def lattice(labels: tuple[str, ...], seed: int, tokens: int, sharpness: float = 1.0) -> Lattice:
    rng = np.random.default_rng(seed)
    size = len(labels)
    return Lattice.from_arrays(
        labels,
        sharpness * rng.normal(size=(tokens, size)),
        sharpness * rng.normal(size=(size, size)),
    )


# --- Spans -------------------------------------------------------------------------------------


def span_sets(tokens: int, kinds: str) -> list[SpanSet]:
    """Every set of spans that do not overlap."""
    found: list[SpanSet] = []

    def extend(first: int, chosen: SpanSet) -> None:
        found.append(chosen)
        for start, end in itertools.combinations(range(first, tokens + 1), 2):
            for kind in kinds:
                extend(end, chosen | {(start, end, kind)})

    extend(0, frozenset())
    return found


def span_shares(one: Lattice, scheme: str, tape: int | None = None) -> dict[SpanSet, float]:
    """Probability of each set of spans, by enumeration of label sequences."""
    illegal: Any = "repair" if scheme == "conlleval" else "drop"
    shares: dict[SpanSet, float] = {}
    for path in one.nbest(200_000):
        labels = path.labels if tape is None else path.labels[tape]
        key = frozenset((s.start, s.end, s.type) for s in spans(labels, scheme, illegal=illegal))
        shares[key] = shares.get(key, 0.0) + path.probability
    assert sum(shares.values()) == pytest.approx(1.0, abs=1e-9)
    return shares


def best_ratio(shares: dict[SpanSet, float], tokens: int, kinds: str, *, apart: str = "") -> float:
    true = sum(p * len(its) for its, p in shares.items())
    single: dict[Any, float] = {}
    for its, p in shares.items():
        for span in its:
            single[span] = single.get(span, 0.0) + p

    def ratio(chosen: SpanSet) -> float:
        right = sum(single.get(span, 0.0) for span in chosen)
        return 2 * right / (len(chosen) + true) if len(chosen) + true else 1.0

    return max(ratio(one) for one in span_sets(tokens, kinds) if not touching(one, apart))


def touching(chosen: SpanSet, kinds: str) -> bool:
    """Two spans of one of these types have no token between them."""
    return any(
        a[1] == b[0] and a[2] == b[2] and a[2] in kinds
        for a, b in itertools.permutations(chosen, 2)
    )


CASES = [
    (BIO, "bio", "XY"),
    (BIO, "conlleval", "XY"),
    (BIOES, "bioes", "X"),
    (BIOES, "conlleval", "X"),
    (BILOU, "conlleval", "X"),
    (("O", "I-X", "I-Y"), "conlleval", "XY"),
    (("O", "I-X", "I-Y"), "iob1", "XY"),
    (("O", "I-X", "B-X", "I-Y"), "conlleval", "XY"),
    (("O", "I-X", "B-X"), "iob1", "X"),
]


def check_spans(one: Lattice, scheme: str, kinds: str) -> None:
    tokens, illegal = len(one), "repair" if scheme == "conlleval" else "drop"
    apart = "".join(kind for kind in kinds if f"B-{kind}" not in one.labels)
    shares = span_shares(one, scheme)
    wanted = best_ratio(shares, tokens, kinds, apart=apart)
    found = one.minimum_risk("span", scheme=scheme)
    assert found.expected == pytest.approx(wanted, rel=1e-9)
    assert set(found.labels) <= set(one.labels)
    asked: Any = spans(found.labels, scheme, illegal=illegal)  # type: ignore[arg-type]
    right = float(one.span_probabilities(asked, scheme=scheme).sum())
    true = sum(p * len(its) for its, p in shares.items())
    assert 2 * right == pytest.approx(wanted * (len(asked) + true), rel=1e-9)


@pytest.mark.parametrize(("labels", "scheme", "kinds"), CASES)
@pytest.mark.parametrize("seed", range(9))
def test_spans(labels: tuple[str, ...], scheme: str, kinds: str, seed: int) -> None:
    one = lattice(labels, seed, 1 + seed % 4, sharpness=(0.3, 1.0, 3.0)[seed // 3])
    check_spans(one, scheme, kinds)
    if scheme == "bioes":
        check_spans(one & bioes(), scheme, kinds)


@pytest.mark.parametrize("seed", range(4))
def test_spans_of_one_type_that_cannot_touch(seed: int) -> None:
    """There is B-X, but no B-Y: X may follow X at once, Y may not follow Y."""
    labels = ("O", "I-X", "B-X", "I-Y")
    one = lattice(labels, seed, 4, sharpness=0.3)
    found = one.minimum_risk("span")
    assert set(found.labels) <= set(labels)
    read: Any = spans(found.labels, "conlleval", illegal="repair")
    assert all(
        a[1] < b[0] or a[2] == "X" or a[2] != b[2] for a, b in itertools.pairwise(sorted(read))
    )


def test_spans_where_there_are_none() -> None:
    outside = Lattice.from_arrays(BIO, [[0.0, -np.inf, -np.inf, -np.inf, -np.inf]] * 3)
    found = outside.minimum_risk("span")
    assert (found.labels, found.expected) == (("O", "O", "O"), 1.0)
    assert outside.minimum_risk("token").expected == pytest.approx(1.0, abs=1e-12)
    empty = Lattice.from_arrays(BIO, np.zeros((0, 5)))
    assert empty.minimum_risk("span").labels == ()
    assert empty.minimum_risk("span").expected == 1.0


# --- What is refused ---------------------------------------------------------------------------


def test_options() -> None:
    one = lattice(BIO, 0, 2)
    wrong: Any = "word"
    with pytest.raises(OptionError, match="loss is 'word', expected one of 'token', 'span'"):
        one.minimum_risk(wrong)
    with pytest.raises(OptionError, match="no tape 'pos': the tapes are label"):
        one.minimum_risk("span", tape="pos")
    with pytest.raises(OptionError, match="has several tapes: choose one of label0, label1"):
        (one @ one).minimum_risk("span")
    with pytest.raises(OptionError, match="scheme 'xyz'"):
        one.minimum_risk("span", scheme="xyz")
