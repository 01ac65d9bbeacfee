"""A model as text, as ``crfsuite dump`` shows it, and as a `ParsedDump`.

=======  ===================================================
Opened   the bytes of a model file, its header, its content
dumped   the text
parsed   what the text says
=======  ===================================================
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np

from fstcrf.compat.dumptext import ParsedDump
from fstcrf.compat.pycrfsuite.errors import InvalidModelError
from fstcrf.errors import ModelFileError
from fstcrf.interop.crfsuite import STATE, TRANSITION, CRFsuiteModel, read_model

__all__ = ["Opened", "dumped", "parsed"]

_COUNTS = ("num_features", "num_labels", "num_attrs")
_OFFSETS = ("off_features", "off_labels", "off_attrs", "off_labelrefs", "off_attrrefs")


@dataclass(frozen=True, eq=False)
class Opened:
    """A model file that has been read.

    Parameters
    ----------
    model : CRFsuiteModel
    header : dict of str to str
        Its fields, as the dump shows them.
    """

    model: CRFsuiteModel
    header: dict[str, str]

    @classmethod
    def of(cls, data: bytes, where: str) -> Self:
        """Read the bytes of a model file.

        Raises
        ------
        InvalidModelError
            It is none, or damaged.
        """
        try:
            return cls(read_model(data, where), _header(data))
        except ModelFileError as error:
            raise InvalidModelError(str(error)) from None


def _header(data: bytes) -> dict[str, str]:
    words = np.frombuffer(data, dtype="<u4", count=12).tolist()
    names = ("size", "version", *_COUNTS)
    fields = {"magic": data[:4].decode("latin-1"), "type": data[8:12].decode("latin-1")}
    fields |= {name: str(words[i]) for name, i in zip(names, (1, 3, 4, 5, 6), strict=True)}
    fields |= {name: f"0x{word:X}" for name, word in zip(_OFFSETS, words[7:], strict=True)}
    return {
        name: fields[name] for name in ("magic", "size", "type", "version", *_COUNTS, *_OFFSETS)
    }


def dumped(opened: Opened) -> Iterator[str]:
    """Yield the text in pieces."""
    model = opened.model
    yield from _part("FILEHEADER", (f"  {name}: {field}" for name, field in opened.header.items()))
    yield from _part("LABELS", (f"  {i:5d}: {name}" for i, name in enumerate(model.labels)))
    yield from _part("ATTRIBUTES", (f"  {i:5d}: {name}" for i, name in enumerate(model.attributes)))
    for title, kind in (("TRANSITIONS", TRANSITION), ("STATE_FEATURES", STATE)):
        lines = (
            f"  ({kind}) {source} --> {label}: {weight}"
            for source, label, weight in _weights(model, kind)
        )
        yield from _part(title, lines)


def _part(title: str, lines: Iterator[str]) -> Iterator[str]:
    yield f"{title} = {{\n"
    for line in lines:
        yield f"{line}\n"
    yield "}\n\n"


def _weights(model: CRFsuiteModel, kind: int) -> Iterator[tuple[str, str, str]]:
    """Yield source, label and the weight as the dump writes it."""
    features = model.of_type(kind)
    sources = model.attributes if kind == STATE else model.labels
    src, dst = features["src"].tolist(), features["dst"].tolist()
    for i, j, weight in zip(src, dst, features["weight"].tolist(), strict=True):
        yield sources[i], model.labels[j], f"{weight:f}"


def parsed(opened: Opened) -> ParsedDump:
    """Return what the dump says, weights to its six decimals.

    It is not read from the text, in which names with line breaks would be lost.
    """
    model, result = opened.model, ParsedDump()
    result.header = dict(opened.header)
    result.labels = {name: str(i) for i, name in enumerate(model.labels)}
    result.attributes = {name: str(i) for i, name in enumerate(model.attributes)}
    result.transitions = {(a, b): float(w) for a, b, w in _weights(model, TRANSITION)}
    result.state_features = {(a, b): float(w) for a, b, w in _weights(model, STATE)}
    return result
