"""Models as the bytes of CRFsuite's files.

===========  ===================================
model_bytes  a model, or one that knows nothing
===========  ===================================
"""

from __future__ import annotations

import numpy as np

from fstcrf.interop.crfsuite import CRFsuiteModel, write_model
from fstcrf.interop.crfsuite.strings import Texts, string_table

__all__ = ["model_bytes"]

_HEADER = 48


def model_bytes(model: CRFsuiteModel | None) -> bytes:
    """Return a model as the bytes of a file; None is the model of no data, without labels."""
    if model is not None:
        return write_model(model)
    table = string_table(Texts(np.empty(0, dtype=np.uint8), np.zeros(1, dtype=np.int64)))
    label_refs = [20, 2, 0, 0]  # room for the lists of two labels more, as always
    parts = [
        b"FEAT" + _words(12, 0),
        table,
        table,
        b"LFRF" + _words(*label_refs),
        b"AFRF" + _words(12, 0),
    ]
    begins = np.cumsum([_HEADER, *map(len, parts)]).tolist()
    head = b"lCRF" + _words(begins[-1]) + b"FOMC" + _words(100, 0, 0, 0, *begins[:-1])
    return b"".join([head, *parts])


def _words(*numbers: int) -> bytes:
    return np.array(numbers, dtype="<u4").tobytes()
