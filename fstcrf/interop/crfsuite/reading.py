"""CRFsuite's binary models: bytes to arrays.

==========  =============================
read_model  bytes → `CRFsuiteModel`
==========  =============================

::

    "lCRF"  size of the file  "FOMC"  100  features  labels  attributes     words of 32 bits,
    offsets of: features, labels, attributes, label references, attribute references
    "FEAT"  size  number of features    then 20 bytes each
    two string tables                   labels, attributes
    "LFRF"  size  n  n offsets          lists of the transition features of each label: count, ids
    "AFRF"  size  n  n offsets          the same for the state features of each attribute

all little-endian, offsets from the beginning of the file. CRFsuite finds features by the
references alone, so these decide; the number of features in the header is 0 in its own files.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fstcrf.errors import ModelFileError, ShapeError
from fstcrf.interop.crfsuite.chunks import Chunk, joined
from fstcrf.interop.crfsuite.model import FEATURE, STATE, TRANSITION, CRFsuiteModel
from fstcrf.interop.crfsuite.strings import Texts, read_strings

__all__ = ["HEADER", "MAGIC", "VERSION", "read_model"]

MAGIC, TYPE, VERSION = b"lCRF", b"FOMC", 100
HEADER = 48
_CHUNK = 12


class _Header(NamedTuple):
    labels: int
    attributes: int
    features_at: int
    labels_at: int
    attributes_at: int
    label_refs_at: int
    attribute_refs_at: int


def read_model(data: bytes, where: str = "<bytes>") -> CRFsuiteModel:
    """Read a model.

    Parameters
    ----------
    data : bytes
        All of the file.
    where : str
        Its name, for messages.

    Returns
    -------
    CRFsuiteModel
        `features` may be a view of `data`.

    Raises
    ------
    ModelFileError
        Not a model of CRFsuite, or damaged; says which part.
    """
    file = Chunk(np.frombuffer(data, dtype=np.uint8), where)
    header = _header(file)
    features = _features(file, header.features_at)
    labels = _labels(file, header)
    attributes = _unicode(
        file, read_strings(file, header.attributes_at, header.attributes, "attributes")
    )
    known = (
        (STATE, b"AFRF", header.attribute_refs_at, header.attributes),
        (TRANSITION, b"LFRF", header.label_refs_at, header.labels),
    )
    found = [_references(file, features, *of) for of in known]
    if not all(usual for _, usual in found):
        features = features[np.concatenate([order for order, _ in found])]
    try:
        return CRFsuiteModel(labels, *attributes, features)
    except ShapeError as error:
        raise file.damaged(str(error)) from None


def _header(file: Chunk) -> _Header:
    if not len(file):
        raise ModelFileError(f"{file.where}: an empty file, expected a model of CRFsuite")
    if file.data[:4].tobytes() != MAGIC:
        raise ModelFileError(f"{file.where}: not a model of CRFsuite: it does not begin with lCRF")
    size, kind, version, _, *rest = file.part(0, HEADER, "header").numbers(4, 11).tolist()
    if kind != int.from_bytes(TYPE, "little") or version != VERSION:
        raise ModelFileError(
            f"{file.where}: not a first-order model (FOMC) of CRFsuite's format, version {VERSION}"
        )
    if size != len(file):
        raise file.damaged(f"{len(file)} bytes, its header says {size}")
    return _Header(*rest)


def _chunk(file: Chunk, begin: int, name: bytes) -> tuple[Chunk, int]:
    """Return a part that begins with name, size and a number of entries, and that number."""
    text = name.decode()
    size, count = file.part(begin, _CHUNK, text).numbers(4, 2).tolist()
    chunk = file.part(begin, size, text)
    if len(chunk) < _CHUNK or chunk.data[:4].tobytes() != name:
        raise chunk.damaged(f"no {text} begins here")
    return chunk, count


def _features(file: Chunk, begin: int) -> NDArray[Any]:
    chunk, count = _chunk(file, begin, b"FEAT")
    return chunk.array(_CHUNK, count, FEATURE)


def _labels(file: Chunk, header: _Header) -> tuple[str, ...]:
    texts = read_strings(file, header.labels_at, header.labels, "labels")
    text, bounds = _unicode(file, texts).text.tobytes(), texts.offsets.tolist()
    return tuple([text[a:b].decode() for a, b in pairwise(bounds)])


def _unicode(file: Chunk, texts: Texts) -> Texts:
    """Check that strings are UTF-8 without NUL.

    Raises
    ------
    ModelFileError
        They are not.
    """
    text, offsets = texts
    if (text == 0).any():
        raise file.damaged("a string with NUL in it")
    if text.max(initial=0) < 0x80:
        return texts
    try:
        text.tobytes().decode()
        whole = True
    except UnicodeDecodeError:
        whole = False
    begins = text[offsets[:-1][np.diff(offsets) > 0]]
    if not whole or ((begins & 0xC0) == 0x80).any():
        raise ModelFileError(
            f"{file.where}: its strings are not UTF-8: damaged, or trained on text in another "
            "encoding; train on UTF-8"
        )
    return texts


def _references(
    file: Chunk, features: NDArray[Any], kind: int, name: bytes, begin: int, count: int
) -> tuple[NDArray[np.int64], bool]:
    """Return the features that labels or attributes refer to, list after list, int64 [n].

    Returns
    -------
    found : int64 [n]
    usual : bool
        These are the features of this kind, each once, as CRFsuite itself refers to them.

    Raises
    ------
    ModelFileError
        A list outside its part, or of features that belong to others.
    """
    chunk, lists = _chunk(file, begin, name)
    if lists < count:
        raise chunk.damaged(f"{lists} lists, expected {count}")
    places = chunk.numbers(_CHUNK, count).astype(np.int64) - begin
    sizes = chunk.numbers_at(places).astype(np.int64)
    if 4 * int(sizes.sum()) > len(chunk):
        raise chunk.damaged("lists longer than their part of the file")
    chunk.check_places(places + 4 * sizes, 4)
    if (places % 4).any():
        raise chunk.damaged("a list that does not begin at a word")
    words = chunk.numbers(0, len(chunk) // 4)
    found = joined(words, places // 4 + 1, sizes).astype(np.int64)
    mine = np.flatnonzero(features["type"] == kind)
    src = features["src"][mine]
    if not (src[1:] >= src[:-1]).all():
        order = np.argsort(src, kind="stable")
        mine, src = mine[order], src[order]
    ends = np.cumsum(sizes)
    # A list ends where src changes: else it has features of others.
    if np.array_equal(found, mine) and np.array_equal(
        np.searchsorted(src, np.arange(count), side="right"), ends
    ):
        return found, True
    _check_owners(chunk, features, kind, found, sizes)
    return found, False


def _check_owners(
    chunk: Chunk,
    features: NDArray[Any],
    kind: int,
    found: NDArray[np.int64],
    sizes: NDArray[np.int64],
) -> None:
    """Check that lists hold features of their own label or attribute only.

    Raises
    ------
    ModelFileError
        They do not.
    """
    if len(found) and found.max() >= len(features):
        raise chunk.damaged(f"feature {found.max()} of {len(features)}")
    owner = np.repeat(np.arange(len(sizes)), sizes)
    wrong = (features["type"][found] != kind) | (features["src"][found] != owner)
    if wrong.any():
        k = int(wrong.argmax())
        raise chunk.damaged(f"list {owner[k]} has feature {found[k]}, which belongs elsewhere")
