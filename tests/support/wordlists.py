"""Small lexicons and texts, made up, for tests of words."""

from __future__ import annotations

import numpy as np

from fstcrf.ext.lexicon import Characters, Entry, Kind, Lexicon

KINDS = {
    "DEFAULT": Kind(always=False, runs=True, length=0),
    "SPACE": Kind(always=False, runs=True, length=0),
    "LETTER": Kind(always=True, runs=True, length=2),
}
RANGES = [(0x20, 0x20, ["SPACE"]), (ord("a"), ord("z"), ["LETTER"])]
UNKNOWN = [
    Entry("DEFAULT", 0, 0, 900, "X,*,*"),
    Entry("SPACE", 0, 0, 900, "X,*,*"),
    Entry("LETTER", 1, 1, 400, "N,unknown,*"),
    Entry("LETTER", 2, 0, 600, "V,unknown,*"),
]
LABELS = ["N", "V", "P"]


def random_lexicon(generator: np.random.Generator, *, words: int = 8) -> Lexicon:
    """Return a lexicon of words of a, b and c with three contexts each way."""
    entries = []
    for k in range(words):
        size = int(generator.integers(1, 4))
        surface = "".join(generator.choice(list("abc"), size=size))
        left, right = (int(x) for x in generator.integers(0, 3, size=2))
        cost = int(generator.integers(-300, 900))
        label = LABELS[int(generator.integers(3))]
        form = "*" if k % 3 == 0 else f"f{generator.integers(3)}"
        entries.append(Entry(surface, left, right, cost, f"{label},s{k % 2},{form}"))
    matrix = generator.integers(-500, 500, size=(3, 3)).astype(np.int16)
    return Lexicon.from_entries(entries, matrix, Characters.of_kinds(KINDS, RANGES), UNKNOWN)
