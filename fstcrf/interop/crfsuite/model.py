"""What a CRFsuite model holds, as plain arrays, and as the bytes of a file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from fstcrf.arrays import Bytes, Longs
from fstcrf.errors import ModelFileError, OptionError, ShapeError
from fstcrf.interop.crfsuite.strings import (
    U4,
    Chunk,
    Texts,
    joined,
    read_strings,
    spread,
    string_table,
)
from fstcrf.kernel.strings import pack_strings

__all__ = [
    "FEATURE",
    "MAGIC",
    "STATE",
    "TRANSITION",
    "CRFsuiteModel",
    "read_model",
    "write_model",
]

STATE, TRANSITION = 0, 1

FEATURE = np.dtype([("type", "<u4"), ("src", "<u4"), ("dst", "<u4"), ("weight", "<f8")])
"""20 bytes, packed: `STATE` is (attribute, label), `TRANSITION` is (label, next label)."""


@dataclass(frozen=True, eq=False)
class CRFsuiteModel:
    """What a CRFsuite model holds.

    Parameters
    ----------
    labels : tuple of str [L]
    attribute_text : uint8 [B]
        The attributes one after the other, as UTF-8.
    attribute_offsets : int64 [A + 1]
        Attribute a is ``attribute_text[attribute_offsets[a] : attribute_offsets[a + 1]]``.
    features : FEATURE [K]
        Type (0 state, 1 transition), src (attribute or label), dst (label), weight (natural-log
        score). Of several state features of one pair the weights add up, of several transition
        features the last one counts, as CRFsuite has it.

    Raises
    ------
    ShapeError
        A feature of another type, or of a label or an attribute that is not there; a weight that
        is not finite; no or repeated labels.
    """

    labels: tuple[str, ...]
    attribute_text: Bytes
    attribute_offsets: Longs
    features: NDArray[Any]

    @classmethod
    def of(cls, labels: Sequence[str], attributes: Sequence[str], features: NDArray[Any]) -> Self:
        """Return the model of strings and features.

        Raises
        ------
        DataError
            An attribute that is not Unicode.
        ShapeError
            As for the class.
        """
        return cls(tuple(labels), *pack_strings(attributes), features)

    def __post_init__(self) -> None:
        labels, attributes = len(self.labels), self.n_attributes
        if len(set(self.labels)) < labels:
            raise ShapeError("labels must be distinct")
        if self.features.dtype != FEATURE or self.features.ndim != 1:
            raise ShapeError(f"features are {self.features.dtype}, expected {FEATURE}")
        kind, src = self.features["type"], self.features["src"]
        limit = np.where(kind == STATE, attributes, labels)
        for wrong, what in (
            (kind > TRANSITION, f"is of type {{type}}, expected {STATE} or {TRANSITION}"),
            (src >= limit, "is of the attribute or label {src}, which is not there"),
            (self.features["dst"] >= labels, f"is of label {{dst}} of {labels}"),
            (~np.isfinite(self.features["weight"]), "has the weight {weight}"),
        ):
            if wrong.any():
                k = int(wrong.argmax())
                values = dict(zip(FEATURE.names or (), self.features[k].tolist(), strict=True))
                raise ShapeError(f"feature {k} {what.format(**values)}")

    @property
    def n_attributes(self) -> int:
        """Number of attributes, A."""
        return len(self.attribute_offsets) - 1

    @cached_property
    def attributes(self) -> tuple[str, ...]:
        """The attributes by their numbers, tuple of str [A]."""
        text, bounds = self.attribute_text.tobytes(), self.attribute_offsets.tolist()
        return tuple([text[a:b].decode() for a, b in pairwise(bounds)])

    def of_type(self, kind: int) -> NDArray[Any]:
        """Return the features of a type by src, those of one src as they stand, FEATURE [n]."""
        found: NDArray[Any] = self.features[self.features["type"] == kind]
        if not (found["src"][1:] >= found["src"][:-1]).all():  # files have them in this order
            found = found[np.argsort(found["src"], kind="stable")]
        return found


# --- From bytes -----------------------------------------------------------------------------------

# "lCRF"  size of the file  "FOMC"  100  features  labels  attributes     words of 32 bits,
# offsets of: features, labels, attributes, label references, attribute references
# "FEAT"  size  number of features    then 20 bytes each
# two string tables                   labels, attributes
# "LFRF"  size  n  n offsets          lists of the transition features of each label: count, ids
# "AFRF"  size  n  n offsets          the same for the state features of each attribute
#
# all little-endian, offsets from the beginning of the file. CRFsuite finds features by the
# references alone, so these decide; the number of features in the header is 0 in its own files.

MAGIC, _TYPE, _VERSION = b"lCRF", b"FOMC", 100
_HEADER = 48
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
    found = [_referred(file, features, *of) for of in known]
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
    size, kind, version, _, *rest = file.part(0, _HEADER, "header").numbers(4, 11).tolist()
    if kind != int.from_bytes(_TYPE, "little") or version != _VERSION:
        raise ModelFileError(
            f"{file.where}: not a first-order model (FOMC) of CRFsuite's format, version {_VERSION}"
        )
    if size != len(file):
        raise file.damaged(f"{len(file)} bytes, its header says {size}")
    return _Header(*rest)


def _named_chunk(file: Chunk, begin: int, name: bytes) -> tuple[Chunk, int]:
    """Return a part that begins with name, size and a number of entries, and that number."""
    text = name.decode()
    size, count = file.part(begin, _CHUNK, text).numbers(4, 2).tolist()
    chunk = file.part(begin, size, text)
    if len(chunk) < _CHUNK or chunk.data[:4].tobytes() != name:
        raise chunk.damaged(f"no {text} begins here")
    return chunk, count


def _features(file: Chunk, begin: int) -> NDArray[Any]:
    chunk, count = _named_chunk(file, begin, b"FEAT")
    return chunk.array(_CHUNK, count, FEATURE)


def _labels(file: Chunk, header: _Header) -> tuple[str, ...]:
    texts = read_strings(file, header.labels_at, header.labels, "labels")
    text, bounds = _unicode(file, texts).text.tobytes(), texts.offsets.tolist()
    return tuple([text[a:b].decode() for a, b in pairwise(bounds)])


def _unicode(file: Chunk, texts: Texts) -> Texts:
    """Check that strings are UTF-8 without NUL."""
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


def _referred(
    file: Chunk, features: NDArray[Any], kind: int, name: bytes, begin: int, count: int
) -> tuple[Longs, bool]:
    """Return the features that labels or attributes refer to, list after list, int64 [n].

    Returns
    -------
    found : int64 [n]
    usual : bool
        These are the features of this kind, each once, as CRFsuite itself refers to them.
    """
    chunk, lists = _named_chunk(file, begin, name)
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
    found: Longs,
    sizes: Longs,
) -> None:
    """Check that lists hold features of their own label or attribute only."""
    if len(found) and found.max() >= len(features):
        raise chunk.damaged(f"feature {found.max()} of {len(features)}")
    owner = np.repeat(np.arange(len(sizes)), sizes)
    wrong = (features["type"][found] != kind) | (features["src"][found] != owner)
    if wrong.any():
        k = int(wrong.argmax())
        raise chunk.damaged(f"list {owner[k]} has feature {found[k]}, which belongs elsewhere")


# --- To bytes -------------------------------------------------------------------------------------

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
    features = _chunk_bytes(b"FEAT", len(model.features), model.features.tobytes())
    tables = [string_table(labels), string_table(attributes)]
    begins = list(accumulate([_HEADER, len(features), *map(len, tables)]))
    # What follows is aligned to words.
    tables[1] += bytes(-begins[3] % 4)
    begins[3] += -begins[3] % 4
    label_refs = _reference_lists(model, TRANSITION, b"LFRF", len(model.labels), begins[3])
    attribute_refs = _reference_lists(
        model, STATE, b"AFRF", model.n_attributes, begins[3] + len(label_refs)
    )
    parts = [features, *tables, label_refs, attribute_refs]
    begins = list(accumulate([_HEADER, *map(len, parts)]))
    if begins[-1] >> 32:
        raise OptionError(f"a model of {begins[-1]:,} bytes; the format ends at 4 GiB")
    counts = [0, len(model.labels), model.n_attributes]
    rest = np.array([_VERSION, *counts, *begins[:-1]], dtype=U4).tobytes()
    size = begins[-1].to_bytes(4, "little")
    return b"".join([MAGIC, size, _TYPE, rest, *parts])


def _checked(texts: Texts, what: str) -> Texts:
    if (texts.text == 0).any():
        raise OptionError(f"a {what} holds NUL, where a string of CRFsuite ends")
    return texts


def _chunk_bytes(name: bytes, count: int, content: bytes) -> bytes:
    sizes = np.array([12 + len(content), count], dtype=U4)
    return name + sizes.tobytes() + content


def _reference_lists(model: CRFsuiteModel, kind: int, name: bytes, count: int, begin: int) -> bytes:
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
    return _chunk_bytes(name, len(offsets), offsets.tobytes() + lists.tobytes())
