"""Decoders of word pieces beside enumeration: all labellings of the pieces, one by one."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fstcrf.constraints import at_most
from fstcrf.ext.tokens import Pieces, TokenDecoder, TransitionBiases
from fstcrf.text.corpus import spans

LABELS = {
    "bioes": ["B-X", "O", "S-X", "I-X", "E-X"],
    "bilou": ["O", "U-X", "B-X", "I-X", "L-X"],
    "bmes": ["O", "S-X", "B-X", "M-X", "E-X"],
    "bmewo": ["B-X", "W-X", "O", "M-X", "E-X"],
    "bio": ["O", "B-X", "I-X", "B-Y", "I-Y"],
    "iob1": ["O", "I-X", "B-X", "I-Y", "B-Y"],
}
LAST, ALONE = set("EL"), set("SUW")


def legal(scheme: str, before: str | None, after: str | None) -> bool:
    """Tell by the letter whether one label may follow another; None: outside the document."""
    a, b = before or "O", after or "O"
    if scheme in ("bioes", "bilou", "bmes", "bmewo"):
        opened = a[0] in "BIM"
        if opened:
            return b[0] in "IMEL" and a[1:] == b[1:]
        return b[0] in "OBSUW"
    if scheme == "bio":
        return b[0] != "I" or (a != "O" and a[1:] == b[1:])
    return b[0] != "B" or (a != "O" and a[1:] == b[1:])


def goes_on(scheme: str, before: str, after: str) -> bool:
    """Tell whether the second label continues the span of the first."""
    if "O" in (before, after) or before[1:] != after[1:]:
        return False
    if scheme in ("bioes", "bilou", "bmes", "bmewo"):
        return before[0] in "BIM" and after[0] in "IMEL"
    return after[0] == "I"


def bias(scheme: str, before: str, after: str, b: TransitionBiases) -> float:
    if before == "O":
        return b.background_stay if after == "O" else b.background_to_start
    if goes_on(scheme, before, after):
        return b.inside_to_end if after[0] in LAST else b.inside_to_continue
    return b.end_to_background if after == "O" else b.end_to_start


def enumerated(
    scheme: str, logits: Any, words: list[int], biases: TransitionBiases
) -> list[tuple[tuple[str, ...], float]]:
    """Return every legal labelling of the pieces with its log-score."""
    labels, out = LABELS[scheme], []
    logp = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    for path in itertools.product(range(5), repeat=len(words)):
        names = [labels[i] for i in path]
        pairs = list(itertools.pairwise(names))
        ends = [(None, names[0]), (names[-1], None)]
        if not all(legal(scheme, a, b) for a, b in [*pairs, *ends]):
            continue
        if any(
            words[t] == words[t + 1] and not (a == b == "O" or goes_on(scheme, a, b))
            for t, (a, b) in enumerate(pairs)
        ):
            continue
        score = sum(logp[t, i] for t, i in enumerate(path))
        out.append((tuple(names), score + sum(bias(scheme, a, b, biases) for a, b in pairs)))
    return out


def case(seed: int, longest: int = 5) -> tuple[Any, list[int], list[tuple[int, int]]]:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, longest + 1))
    words = np.cumsum(rng.random(n) < 0.5).tolist()
    offsets = [(3 * i + w, 3 * i + w + 3) for i, w in enumerate(words)]
    return 2 * rng.normal(size=(n, 5)), words, offsets


@pytest.mark.parametrize("scheme", list(LABELS))
@given(seed=st.integers(0, 10_000))
def test_spans_and_probabilities_are_those_of_all_labellings_of_the_pieces(
    scheme: str, seed: int
) -> None:
    logits, words, offsets = case(seed)
    values = np.random.default_rng(seed + 1).normal(size=6).tolist()
    biases = TransitionBiases(*values)
    paths = enumerated(scheme, logits, words, biases)
    log_z = math.log(sum(math.exp(s) for _, s in paths))
    best = max(paths, key=lambda path: path[1])[0]
    chances: dict[tuple[int, int, str], float] = {}
    for names, score in paths:
        for s in spans(names, scheme, illegal="raise"):
            key = (offsets[s.start][0], offsets[s.end - 1][1], s.type)
            chances[key] = chances.get(key, 0.0) + math.exp(score - log_z)
    decoder = TokenDecoder(LABELS[scheme], scheme, biases=biases)
    found = decoder.decode(logits, offsets, words)
    want = [(offsets[s.start][0], offsets[s.end - 1][1], s.type) for s in spans(best, scheme)]
    assert [one[:3] for one in found] == want
    assert [one.probability for one in found] == pytest.approx([chances[key] for key in want])
    (lattice,) = decoder.lattices([Pieces(logits, offsets, words)])
    assert lattice.log_partition() == pytest.approx(log_z)
    assert len(lattice.nbest(5**5)) == len(paths)
    events = decoder.events([Pieces(logits, offsets, words)], [[]])
    likely = sorted(p for p in chances.values() if p > 0.01)
    assert np.sort(events.probability) == pytest.approx(likely)


@given(seed=st.integers(0, 10_000), rate=st.floats(0.02, 1.0))
def test_thresholds_choose_the_spans_with_the_largest_sum(seed: int, rate: float) -> None:
    logits, words, offsets = case(seed)
    decoder = TokenDecoder(LABELS["bio"], "bio", thresholds={"X": rate, "Y": rate / 2 + 0.01})
    plain = decoder.replaced(thresholds=None)
    (lattice,) = plain.lattices([Pieces(logits, offsets, words)])
    starts = [t for t, w in enumerate(words) if t == 0 or words[t - 1] != w]
    bounds = [*starts, len(words)]
    candidates = []
    for span, p in lattice.probable_spans(0.01, scheme="bio"):
        gain = p - (rate if span.type == "X" else rate / 2 + 0.01)
        if gain >= 0:
            candidates.append((span, gain))
    best = 0.0
    for k in range(len(candidates) + 1):
        for some in itertools.combinations(candidates, k):
            ordered = sorted(span for span, _ in some)
            if all(a.end <= b.start for a, b in itertools.pairwise(ordered)):
                best = max(best, sum(gain for _, gain in some))
        if k == 4:
            break
    found = decoder.decode(logits, offsets, words)
    got = sum(s.probability - (rate if s.type == "X" else rate / 2 + 0.01) for s in found)
    assert got >= best - 1e-6
    assert all(a.end <= b.start for a, b in itertools.pairwise(found))
    begins = {offsets[t][0] for t in bounds[:-1]}
    assert all(s.start in begins for s in found)


@given(seed=st.integers(0, 10_000))
def test_first_pieces_alone_and_pieces_one_by_one(seed: int) -> None:
    logits, words, offsets = case(seed)
    first = [t for t, w in enumerate(words) if t == 0 or words[t - 1] != w]
    ends = [*(t - 1 for t in first[1:]), len(words) - 1]
    merged = [(offsets[a][0], offsets[b][1]) for a, b in zip(first, ends, strict=True)]
    decoder = TokenDecoder(LABELS["bioes"])
    assert decoder.replaced(pieces="first").decode(logits, offsets, words) == decoder.decode(
        logits[first], merged, list(range(len(first)))
    )
    each = decoder.replaced(pieces="each").decode(logits, offsets, words)
    assert each == decoder.decode(logits, offsets)
    paths = enumerated("bioes", logits, list(range(len(words))), TransitionBiases())
    best = max(paths, key=lambda path: path[1])[0]
    assert [s[:2] for s in each] == [
        (offsets[s.start][0], offsets[s.end - 1][1]) for s in spans(best, "bioes")
    ]


@given(seed=st.integers(0, 10_000))
def test_a_grammar_is_about_words(seed: int) -> None:
    logits, words, offsets = case(seed)
    decoder = TokenDecoder(LABELS["bioes"], grammar=at_most(1, "X"))
    paths = enumerated("bioes", logits, words, TransitionBiases())
    kept = [(names, s) for names, s in paths if len(spans(names, "bioes")) <= 1]
    best = max(kept, key=lambda path: path[1])[0]
    found = decoder.decode(logits, offsets, words)
    assert [s[:2] for s in found] == [
        (offsets[s.start][0], offsets[s.end - 1][1]) for s in spans(best, "bioes")
    ]
