"""The hash of CRFsuite's string tables: Bob Jenkins's lookup3 (2006), public domain.

==========  =========================================
hashes      of many strings
==========  =========================================
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fstcrf.interop.crfsuite.chunks import spread

__all__ = ["hashes"]

_SEED = 0xDEADBEEF
_MIX = ((0, 2, 4), (1, 0, 6), (2, 1, 8), (0, 2, 16), (1, 0, 19), (2, 1, 4))
_FINAL = ((2, 1, 14), (0, 2, 11), (1, 0, 25), (2, 1, 16), (0, 2, 4), (1, 0, 14), (2, 1, 24))

Words = NDArray[np.uint32]


def hashes(text: NDArray[np.uint8], offsets: NDArray[np.int64]) -> Words:
    """Return the hash of each string, with the NUL behind it that the text does not have.

    Parameters
    ----------
    text : uint8 [B]
    offsets : int64 [n + 1]

    Returns
    -------
    uint32 [n]
    """
    sizes = np.diff(offsets) + 1
    out = np.empty(len(sizes), dtype=np.uint32)
    # Strings of one number of blocks go together: their blocks are a table without gaps.
    blocks = np.maximum((sizes + 11) // 12, 1)
    for count in np.flatnonzero(np.bincount(blocks)).tolist():
        chosen = np.flatnonzero(blocks == count)
        bytes_ = np.zeros((len(chosen), 12 * count), dtype=np.uint8)
        lengths = sizes[chosen] - 1
        places = spread(np.arange(len(chosen)) * (12 * count), lengths)
        bytes_.ravel()[places] = text[spread(offsets[:-1][chosen], lengths)]
        out[chosen] = _hashed(bytes_.view("<u4").astype(np.uint32), sizes[chosen])
    return out


def _hashed(words: Words, sizes: NDArray[np.int64]) -> Words:
    """Hash strings that are padded with zeros to whole blocks of three words, uint32 [n, 3 k]."""
    start = (np.uint64(_SEED) + sizes.astype(np.uint64)).astype(np.uint32)
    state = [start.copy(), start.copy(), start.copy()]
    last = words.shape[1] - 3
    for block in range(0, last + 3, 3):
        for k in range(3):
            state[k] += words[:, block + k]
        if block < last:
            _mix(state)
    _finish(state)
    return state[2]


def _mix(state: list[Words]) -> None:
    for i, j, bits in _MIX:
        state[i] -= state[j]
        state[i] ^= _rotated(state[j], bits)
        state[j] += state[3 - i - j]


def _finish(state: list[Words]) -> None:
    for i, j, bits in _FINAL:
        state[i] ^= state[j]
        state[i] -= _rotated(state[j], bits)


def _rotated(words: Words, bits: int) -> Words:
    return (words << np.uint32(bits)) | (words >> np.uint32(32 - bits))
