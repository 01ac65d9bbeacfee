"""Phrases in sentences against looking every stretch up in a dictionary."""

from __future__ import annotations

import numpy as np
import pytest

from fstcrf.ext.segments.phrases import PhraseTable, SegmentFeatures
from fstcrf.text.corpus import Corpus

LABELS, WIDTH = 3, 8


def _case(
    seed: int, most: int
) -> tuple[Corpus, list[dict[tuple[str, ...], list[int]]], SegmentFeatures]:
    """Sentences, phrases of two columns with their attributes, and the features of these."""
    rng = np.random.default_rng(seed)
    letters = "abcd"
    sentences = [
        {
            name: ["".join(rng.choice(list(letters + "z"), 1)) for _ in range(size)]
            for name in ("one", "two")
        }
        for size in rng.integers(1, 12, size=5).tolist()
    ]
    found: list[dict[tuple[str, ...], list[int]]] = []
    tables, count = [], 0
    for name in ("one", "two"):
        pairs = []
        for _ in range(int(rng.integers(0, 40))):
            phrase = tuple(rng.choice(list(letters), size=int(rng.integers(1, most + 2))).tolist())
            pairs.append((phrase, count))
            count += int(rng.integers(0, 2))
        count += 1
        found.append({})
        for phrase, attribute in pairs:
            known = found[-1].setdefault(phrase, [])
            if attribute not in known:
                known.append(attribute)
        tables.append(PhraseTable.build(name, pairs))
    cell = np.flatnonzero(rng.random(count * LABELS) < 0.6)
    names = tuple(map(str, range(count)))
    return (
        Corpus.from_sentences(sentences),
        found,
        SegmentFeatures(tuple(tables), names, cell, LABELS),
    )


@pytest.mark.parametrize("seed", range(20))
def test_every_stretch(seed: int, variant: str) -> None:
    depth = 1 + seed % 4
    corpus, phrases, features = _case(seed, depth)
    longest = np.asarray([1, depth, max(1, depth - 1)], dtype=np.int32)
    extras = features.extras(corpus, longest, depth, WIDTH)
    weights = {int(c): k for k, c in enumerate(features.cell.tolist())}
    for b, sentence in enumerate(corpus):
        expected = []
        for name, known in zip(("one", "two"), phrases, strict=True):
            texts = list(sentence[name])
            for s in range(len(texts)):
                for d in range(1, min(depth, len(texts) - s) + 1):
                    for attribute in sorted(known.get(tuple(texts[s : s + d]), [])):
                        for label in range(LABELS):
                            weight = weights.get(attribute * LABELS + label)
                            if weight is not None and longest[label] >= d:
                                place = (s * depth + d - 1) * WIDTH + label
                                expected.append((place, weight))
        own = slice(*extras.offset[b : b + 2].tolist())
        got = list(zip(extras.cell[own].tolist(), extras.what[own].tolist(), strict=True))
        assert got == expected


def test_runs_are_parts() -> None:
    corpus, _, features = _case(3, 4)
    longest = np.full(LABELS, 4, dtype=np.int32)
    whole = features.extras(corpus, longest, 4, WIDTH)
    run = features.runs(features.finder(longest, 4, WIDTH), corpus)
    for first, end in ((0, 2), (2, 5), (1, 1)):
        part, expected = run(first, end), whole.run(first, end)
        for name in part._fields:
            assert np.array_equal(getattr(part, name), getattr(expected, name)), name


def test_nothing_to_find() -> None:
    corpus, _, _ = _case(0, 2)
    longest = np.ones(LABELS, dtype=np.int32)
    for tables in ((), (PhraseTable.build("one", []),)):
        features = SegmentFeatures(tables, (), np.zeros(0, dtype=np.int64), LABELS)
        extras = features.extras(corpus, longest, 1, WIDTH)
        assert len(extras.cell) == 0
        assert extras.offset.tolist() == [0] * (len(corpus) + 1)
