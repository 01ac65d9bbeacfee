"""CRFsuite's binary models: arrays to bytes.

===========  =============================
write_model  `CRFsuiteModel` → bytes
===========  =============================
"""

from __future__ import annotations

from itertools import accumulate

import numpy as np

from fstcrf.errors import OptionError
from fstcrf.interop.crfsuite.chunks import U4, spread
from fstcrf.interop.crfsuite.model import STATE, TRANSITION, CRFsuiteModel
from fstcrf.interop.crfsuite.reading import HEADER, MAGIC, TYPE, VERSION
from fstcrf.interop.crfsuite.strings import Texts, string_table
from fstcrf.kernel.strings import pack_strings

__all__ = ["write_model"]

_SPARE_LABELS = 2
"""CRFsuite keeps room for the lists of two labels more, begin and end, and never fills it."""


def write_model(model: CRFsuiteModel) -> bytes:
    """Return a model as the bytes of a file, as CRFsuite writes it.

    Raises
    ------
    DataError
        A label that is not Unicode.
    OptionError
        A string with NUL in it, or more than the format can count.
    """
    labels = _checked(Texts(*pack_strings(model.labels)), "label")
    attributes = _checked(Texts(model.attribute_text, model.attribute_offsets), "attribute")
    features = _chunk(b"FEAT", len(model.features), model.features.tobytes())
    tables = [string_table(labels), string_table(attributes)]
    begins = list(accumulate([HEADER, len(features), *map(len, tables)]))
    # What follows is aligned to words.
    tables[1] += bytes(-begins[3] % 4)
    begins[3] += -begins[3] % 4
    label_refs = _references(model, TRANSITION, b"LFRF", len(model.labels), begins[3])
    attribute_refs = _references(
        model, STATE, b"AFRF", model.n_attributes, begins[3] + len(label_refs)
    )
    parts = [features, *tables, label_refs, attribute_refs]
    begins = list(accumulate([HEADER, *map(len, parts)]))
    if begins[-1] >> 32:
        raise OptionError(f"a model of {begins[-1]:,} bytes; the format ends at 4 GiB")
    counts = [0, len(model.labels), model.n_attributes]
    rest = np.array([VERSION, *counts, *begins[:-1]], dtype=U4).tobytes()
    size = begins[-1].to_bytes(4, "little")
    return b"".join([MAGIC, size, TYPE, rest, *parts])


def _checked(texts: Texts, what: str) -> Texts:
    if (texts.text == 0).any():
        raise OptionError(f"a {what} holds NUL, where a string of CRFsuite ends")
    return texts


def _chunk(name: bytes, count: int, content: bytes) -> bytes:
    sizes = np.array([12 + len(content), count], dtype=U4)
    return name + sizes.tobytes() + content


def _references(model: CRFsuiteModel, kind: int, name: bytes, count: int, begin: int) -> bytes:
    """Return the lists of the features of each label or attribute; the part begins at `begin`."""
    mine = np.flatnonzero(model.features["type"] == kind)
    src = model.features["src"][mine]
    mine = mine[np.argsort(src, kind="stable")]
    sizes = np.bincount(src, minlength=count)
    spare = _SPARE_LABELS if kind == TRANSITION else 0
    places = np.cumsum(1 + sizes) - 1 - sizes
    lists = np.empty(len(mine) + count, dtype=U4)
    lists[places] = sizes
    lists[spread(places + 1, sizes)] = mine
    offsets = np.zeros(count + spare, dtype=U4)
    offsets[:count] = begin + 12 + offsets.nbytes + 4 * places
    return _chunk(name, len(offsets), offsets.tobytes() + lists.tobytes())
