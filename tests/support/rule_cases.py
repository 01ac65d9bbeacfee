"""Small sentences, and rules whose counts are told straight from what they mean."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np

import fstcrf

LABELS = ["O", "B-NP", "I-NP"]
RULES = """\
tape word, tag;
export TOUCH = each["[tag=I-NP]" "[tag=B-NP]", <?>];
export FAR = each["[word=a tag=O]" any* "[word=b]", <?>];  # however many ways a match reads
export NONE = at_least[1, "NP", tape=tag, <?>];
export INSIDE = never["I-NP", tape=tag, <0.3>];
export FEW = at_most[2, "NP", tape=tag];
"""
FIXED = {"INSIDE": -0.3}


def corpus(n: int, seed: int) -> fstcrf.Corpus:
    rng = np.random.default_rng(seed)
    sentences = []
    for _ in range(n):
        tags: list[str] = []
        for _ in range(rng.integers(1, 6)):
            possible = LABELS[:2] if not tags or tags[-1] == "O" else LABELS
            tags.append(str(rng.choice(possible)))
        words = [str(rng.choice(["a", "b", "c"])) for _ in tags]
        sentences.append({"word": words, "tag": tags})
    return fstcrf.Corpus.from_sentences(sentences)


def counts(words: Sequence[str], tags: Sequence[str]) -> dict[str, float] | None:
    """How often each rule counts, straight from what it means; None: forbidden."""
    n = len(tags)
    begins = [
        i
        for i, tag in enumerate(tags)
        if tag == "B-NP" or (tag == "I-NP" and (i == 0 or tags[i - 1] == "O"))
    ]
    if len(begins) > 2:
        return None
    opened = [any(words[j] == "a" and tags[j] == "O" for j in range(i)) for i in range(n)]
    return {
        "TOUCH": sum(tags[i - 1 : i + 1] == ("I-NP", "B-NP") for i in range(1, n)),
        "FAR": sum(words[i] == "b" and opened[i] for i in range(n)),
        "NONE": float(not begins),
        "INSIDE": sum(tag == "I-NP" for tag in tags),
    }


TEMPLATES: dict[str, tuple[str, Literal[1, 2]]] = {
    "chain": ("U:%x[0,word]\nB", 1),
    "pairs": ("U:%x[0,word]\nB:%x[0,word]", 1),
    "second order": ("U:%x[0,word]\nB", 2),
}


OPEN = ("TOUCH", "FAR", "NONE")


def labellings(words: Sequence[str]) -> Iterator[tuple[list[str], list[float], float]]:
    """Yield what the rules allow: labels, counts of the open ones, score of the others."""
    for tags in itertools.product(LABELS, repeat=len(words)):
        found = counts(words, tags)
        if found is not None:
            own = [found[name] for name in OPEN]
            yield list(tags), own, FIXED["INSIDE"] * found["INSIDE"]
