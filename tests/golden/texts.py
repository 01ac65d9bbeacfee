"""Texts that golden files are made of and asked about: small, and the same for ever."""

from __future__ import annotations

from typing import Any

Sentence = dict[str, list[str]]

_ROWS = [
    "the/D/O Big/J/O dog/N/O ran/V/O home/N/O",
    "a/D/O dog/N/O saw/V/O Ann/N/B-PER Lee/N/I-PER",
    "Ann/N/B-PER ran/V/O",
    "in/P/O Rome/N/B-LOC a/D/O saw/N/O ran/V/O",
    "Lee/N/B-PER saw/V/O Rome/N/B-LOC",
    "Bob/N/B-PER Ann/N/B-PER in/P/O New/J/B-LOC York/N/I-LOC",
    "the/D/O home/N/O in/P/O York/N/B-LOC",
    "Bob/N/B-PER Lee/N/I-PER ran/V/O in/P/O Rome/N/B-LOC",
    "the/D/O saw/N/O",
    "dog/N/O saw/V/O dog/N/O",
    "New/J/B-LOC Rome/N/I-LOC ran/V/O home/N/O",
    "a/D/O Big/J/O home/N/O saw/V/O Bob/N/B-PER",
]
_ASKED = [
    "Ann Lee saw the dog",
    "Bob ran in New Rome",
    "saw",
    "York saw Bob Lee home in Rome",
    "new words came",
    "the Big saw saw Ann in York",
]


def _sentence(row: str) -> Sentence:
    word, pos, name = (
        list(part) for part in zip(*(t.split("/") for t in row.split()), strict=True)
    )
    length = [str(len(w)) for w in word]
    return {"word": word, "pos": pos, "name": name, "length": length}


TRAIN: list[Sentence] = [_sentence(row) for row in _ROWS]
ASKED: list[Sentence] = [
    {"word": row.split(), "length": [str(len(w)) for w in row.split()]} for row in _ASKED
]
TAGGED: list[Sentence] = [
    {**s, "pos": ["N" if w[0].isupper() else "DV"[k % 2] for k, w in enumerate(s["word"])]}
    for s in ASKED
]
PARTIAL: list[Sentence] = [
    {**s, "name": ["_" if k % 3 == 1 else label for k, label in enumerate(s["name"])]}
    for s in TRAIN
]
EITHER: list[Sentence] = [
    {**s, "pos": ["J|N" if label in "JN" else label for label in s["pos"]]} for s in TRAIN
]


def attributes(sentence: Sentence) -> list[Any]:
    """Return attributes of a sentence as features of CRFsuite's users: dicts and lists."""
    return [
        {"w": word.lower(), "title": word.istitle(), "length": len(word) / 4, "last": [word[-1]]}
        for word in sentence["word"]
    ]
