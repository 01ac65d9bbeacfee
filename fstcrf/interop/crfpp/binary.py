"""Binary models of CRF++.

===========  =================================================================
is_binary    whether a file may be one
read_binary  what it holds
===========  =================================================================

Little-endian, without gaps::

    uint32   version, 100        uint32 [1]    bytes of the labels
    int32    type, 0             bytes         labels, each ended by a zero
    float64  cost factor         uint32 [1]    bytes of the templates
    uint32   number of weights   bytes         templates, each ended by a zero; zeros to fill
    uint32   number of columns   (int32, uint32) [D / 8]   trie of the attributes
    uint32   D, bytes of trie    float32       weights
"""

from __future__ import annotations

import struct

import numpy as np

from fstcrf.errors import ModelFileError
from fstcrf.interop.crfpp.contents import Contents
from fstcrf.interop.crfpp.doublearray import UNIT, entries

__all__ = ["is_binary", "read_binary"]

_HEADER = struct.Struct("<IidIII")
_LENGTH = struct.Struct("<I")
_MOST_COLUMNS = 1000


def is_binary(head: bytes) -> bool:
    """Tell whether a file that begins like this is a binary model."""
    if len(head) < _HEADER.size:
        return False
    version, kind, *_ = _HEADER.unpack_from(head)
    return bool(version // 100 == 1 and kind == 0)


def read_binary(data: bytes, where: str) -> Contents:
    """Read a binary model.

    Parameters
    ----------
    data : bytes
        The whole file.
    where : str
        Its name, for messages.

    Raises
    ------
    ModelFileError
        A part that does not fit the file, or is not what it must be; names the part.
    """
    _, _, factor, n_weights, n_columns, n_trie = _HEADER.unpack_from(data)
    if not np.isfinite(factor):
        raise ModelFileError(f"{where}: the cost factor is {factor}")
    if n_columns > _MOST_COLUMNS:
        raise ModelFileError(f"{where}: {n_columns} columns, expected at most {_MOST_COLUMNS}")
    labels, place = _texts(data, _HEADER.size, "labels", where)
    templates, place = _texts(data, place, "templates", where)
    if n_trie % UNIT.itemsize or place + n_trie + 4 * n_weights != len(data):
        raise ModelFileError(
            f"{where}: {len(data)} bytes, expected {place} and a trie of {n_trie} and "
            f"{n_weights} weights of 4"
        )
    trie = np.frombuffer(data, dtype=UNIT, count=n_trie // UNIT.itemsize, offset=place)
    attributes, first = entries(trie, limit=1_000_000 + 64 * len(data), where=where)
    weights = np.frombuffer(data, dtype="<f4", offset=place + n_trie)
    if not np.isfinite(weights).all():
        number = int(np.flatnonzero(~np.isfinite(weights))[0])
        raise ModelFileError(f"{where}: weight {number} is {weights[number]}")
    return Contents(
        labels=labels,
        templates=[text for text in templates if text],
        attributes=attributes,
        first=first,
        weights=weights.astype(np.float64),
        cost_factor=factor,
        n_columns=n_columns,
        size=len(data),
    )


def _texts(data: bytes, place: int, what: str, where: str) -> tuple[list[bytes], int]:
    """Return the texts of a part, and where it ends."""
    begin = place + _LENGTH.size
    if begin > len(data):
        raise ModelFileError(f"{where}: the file ends before its {what}")
    end = begin + _LENGTH.unpack_from(data, place)[0]
    if end > len(data) or (end > begin and data[end - 1] != 0):
        raise ModelFileError(f"{where}: the {what} go to byte {end} of {len(data)} without a zero")
    return data[begin:end].split(b"\0")[:-1], end
