"""Models of CRFsuite made up for tests, and the bytes of unusual files."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fstcrf.ext.foreign.crfsuite import FEATURE, STATE, TRANSITION, CRFsuiteModel

WORDS = ("size", "type", "version", "features", "labels", "attributes")
OFFSETS = ("features_at", "labels_at", "attributes_at", "label_refs_at", "attribute_refs_at")
FIELDS = {name: 4 + 4 * k for k, name in enumerate((*WORDS, *OFFSETS))}
"""Where each word of the header stands."""


def random_sentences(
    seed: int, n: int, token: Callable[[np.random.Generator, int], tuple[Any, str]]
) -> tuple[list[list[Any]], list[list[str]]]:
    """Return tokens and labels of n sentences; `token` makes them of each of five labels.

    Labels follow each other in part.
    """
    rng = np.random.default_rng(seed)
    texts: list[list[Any]] = []
    target: list[list[str]] = []
    for _ in range(n):
        label, made = 0, []
        for _ in range(int(rng.integers(1, 9))):
            label = int(rng.choice(5, p=np.roll([0.5, 0.2, 0.1, 0.1, 0.1], label)))
            made.append(token(rng, label))
        texts.append([one for one, _ in made])
        target.append([name for _, name in made])
    return texts, target


def features(rows: list[tuple[int, int, int, float]]) -> NDArray[Any]:
    """Return features from (type, src, dst, weight)."""
    return np.array(rows, dtype=FEATURE)


def small() -> CRFsuiteModel:
    """Return a model with round weights: three labels, five attributes, of which one is unused."""
    rows = [
        (STATE, 0, 0, 1.5),
        (STATE, 0, 2, -0.5),
        (STATE, 1, 1, 2.0),
        (STATE, 2, 0, 0.25),
        (STATE, 3, 2, 3.0),
        (TRANSITION, 0, 1, 0.75),
        (TRANSITION, 1, 1, -1.0),
        (TRANSITION, 2, 0, 0.5),
    ]
    attributes = ["w=the", "w=cat", "naïve:ü", "b\\:c", "unused"]
    return CRFsuiteModel.of(["DET", "N", "V"], attributes, features(rows))


def random_model(
    seed: int, *, labels: int = 5, attributes: int = 40, size: int = 100
) -> CRFsuiteModel:
    """Return a model with random weights, each (src, dst) at most once."""
    rng = np.random.default_rng(seed)
    state = rng.choice(attributes * labels, size=min(size, attributes * labels), replace=False)
    arc = rng.choice(labels * labels, size=labels, replace=False)
    rows = np.zeros(len(state) + len(arc), dtype=FEATURE)
    rows["type"][len(state) :] = TRANSITION
    rows["src"], rows["dst"] = np.divmod(np.concatenate([np.sort(state), np.sort(arc)]), labels)
    rows["weight"] = rng.normal(size=len(rows))
    names = [f"a{k}" * (1 + k % 7) for k in range(attributes)]
    return CRFsuiteModel.of([f"L{k}" for k in range(labels)], names, rows)


def header(data: bytes) -> dict[str, int]:
    """Return the words of a file's header."""
    return {name: struct.unpack_from("<I", data, at)[0] for name, at in FIELDS.items()}


def with_word(data: bytes, at: int, value: int) -> bytes:
    """Return a file with another 32-bit word at a byte."""
    return data[:at] + struct.pack("<I", value % 2**32) + data[at + 4 :]


def word(data: bytes, at: int) -> int:
    found: int = struct.unpack_from("<I", data, at)[0]
    return found


def one_way(data: bytes) -> bytes:
    """Return a file whose string tables lead from string to number only, as CQDB allows."""
    for name in ("labels_at", "attributes_at"):
        at = header(data)[name]
        data = with_word(with_word(data, at + 16, 0), at + 20, 0)
    return data


def sized(data: bytes) -> bytes:
    """Return a file whose header has its size."""
    return with_word(data, FIELDS["size"], len(data)) if len(data) >= 8 else data
