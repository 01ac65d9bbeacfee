"""CRFsuite's binary models, read, written, made into taggers.

The score of a labelling is the sum of the weights of its state features (attribute, label), each
times the attribute's value, and of its transition features (label, label). A transition that the
model does not have scores 0; it is not forbidden. Sentence ends have no score. Attributes that the
model does not have are ignored.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from fstcrf.arrays import Bytes, Floats, Longs, Ragged
from fstcrf.errors import ModelFileError, OptionError, ShapeError
from fstcrf.ext.foreign.cqdb import U4, Chunk, Texts, joined, read_strings, spread, string_table
from fstcrf.ext.foreign.formats import (
    TAPE,
    Format,
    ModelSource,
    ReadOptions,
    check_tape,
    read_source,
)
from fstcrf.kernel import padded
from fstcrf.kernel.strings import pack_strings
from fstcrf.lazy import made_once
from fstcrf.machines.topology import Topology
from fstcrf.taggers import CRF
from fstcrf.text.features import FeatureFunction, FeatureIndex, LiteralIndex
from fstcrf.training.problem import ParameterSpace

STATE, TRANSITION = 0, 1

FEATURE = np.dtype([("type", "<u4"), ("src", "<u4"), ("dst", "<u4"), ("weight", "<f8")])
"""20 bytes, packed: `STATE` is (attribute, label), `TRANSITION` is (label, next label)."""


@dataclass(frozen=True, eq=False)
class CRFsuiteModel:
    """The contents of a CRFsuite model."""

    labels: tuple[str, ...]  # [L]
    attribute_text: Bytes  # [B]: the attributes one after the other, as UTF-8
    # [A + 1]: attribute a is ``attribute_text[attribute_offsets[a] : attribute_offsets[a + 1]]``.
    attribute_offsets: Longs
    # [K]: type (0 state, 1 transition), src (attribute or label), dst (label), weight (natural-log
    # score). If a pair has several state features, their weights are added; if it has several
    # transition features, the last one counts, as in CRFsuite.
    features: NDArray[np.void]

    @classmethod
    def of(
        cls, labels: Sequence[str], attributes: Sequence[str], features: NDArray[np.void]
    ) -> Self:
        """Return the model of strings and features."""
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

    @made_once
    def attributes(self) -> tuple[str, ...]:
        """The attributes by their numbers, tuple of str [A]."""
        text, bounds = self.attribute_text.tobytes(), self.attribute_offsets.tolist()
        return tuple([text[a:b].decode() for a, b in pairwise(bounds)])

    def of_type(self, kind: int) -> NDArray[np.void]:
        """Return the features of a type, sorted by src and otherwise in file order, FEATURE [n]."""
        found: NDArray[np.void] = self.features[self.features["type"] == kind]
        if not (found["src"][1:] >= found["src"][:-1]).all():  # files have them in this order
            found = found[np.argsort(found["src"], kind="stable")]
        return found


def features_of(
    kind: int, src: NDArray[np.integer], dst: NDArray[np.integer], weight: Floats
) -> NDArray[np.void]:
    """Return features of one type, FEATURE [n], from their sources and weights [n]."""
    found = np.empty(len(src), dtype=FEATURE)
    found["type"], found["src"], found["dst"], found["weight"] = kind, src, dst, weight
    return found


# --- From bytes -----------------------------------------------------------------------------------

# "lCRF"  size of the file  "FOMC"  100  features  labels  attributes     words of 32 bits,
# offsets of: features, labels, attributes, label references, attribute references
# "FEAT"  size  number of features    then 20 bytes each
# two string tables                   labels, attributes
# "LFRF"  size  n  n offsets          lists of the transition features of each label: count, ids
# "AFRF"  size  n  n offsets          the same for the state features of each attribute
#
# all little-endian, offsets from the beginning of the file. CRFsuite finds features only through
# the references, so these decide; the number of features in the header is 0 in files from CRFsuite.

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
    """Read a model; its `features` may be a view of the bytes."""
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
        raise file.damaged(f"the file has {len(file)} bytes, but its header announces {size}")
    return _Header(*rest)


def _named_chunk(file: Chunk, begin: int, name: bytes) -> tuple[Chunk, int]:
    """Return a part that begins with name, size and a number of entries, and that number."""
    text = name.decode()
    size, count = file.part(begin, _CHUNK, text).numbers(4, 2).tolist()
    chunk = file.part(begin, size, text)
    if len(chunk) < _CHUNK or chunk.data[:4].tobytes() != name:
        raise chunk.damaged(f"no {text} begins here")
    return chunk, count


def _features(file: Chunk, begin: int) -> NDArray[np.void]:
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
    begins = text[offsets[:-1][Ragged(offsets).lengths > 0]]
    if not whole or ((begins & 0xC0) == 0x80).any():
        raise ModelFileError(
            f"{file.where}: its strings are not UTF-8: damaged, or trained on text in another "
            "encoding; train on UTF-8"
        )
    return texts


def _referred(
    file: Chunk, features: NDArray[np.void], kind: int, name: bytes, begin: int, count: int
) -> tuple[Longs, bool]:
    """Return the features that labels or attributes refer to, list after list, int64 [n].

    Also return whether the lists contain each feature of this kind once, as CRFsuite's lists do.
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
    chunk: Chunk, features: NDArray[np.void], kind: int, found: Longs, sizes: Longs
) -> None:
    """Check that each list contains only features of its label or attribute."""
    if len(found) and found.max() >= len(features):
        raise chunk.damaged(f"feature {found.max()} of {len(features)}")
    owner = Ragged.from_lengths(sizes).rows()
    wrong = (features["type"][found] != kind) | (features["src"][found] != owner)
    if wrong.any():
        k = int(wrong.argmax())
        raise chunk.damaged(f"list {owner[k]} has feature {found[k]}, which belongs elsewhere")


# --- To bytes -------------------------------------------------------------------------------------

_SPARE_LABELS = 2
"""CRFsuite keeps room for the lists of two labels more, begin and end, and never fills it."""


def write_model(model: CRFsuiteModel) -> bytes:
    """Return a model as the bytes of a file, as CRFsuite writes it."""
    labels = _checked(Texts(*pack_strings(model.labels)), "a label")
    attributes = _checked(Texts(model.attribute_text, model.attribute_offsets), "an attribute")
    features = _chunk_bytes(b"FEAT", len(model.features), model.features.tobytes())
    tables = [string_table(labels), string_table(attributes)]
    begins = list(accumulate([_HEADER, len(features), *map(len, tables)]))
    # The next part is aligned to words.
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
        raise OptionError(
            f"{what} contains a NUL character, which ends a string in CRFsuite's format"
        )
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
    places = Ragged.from_lengths(1 + sizes).offsets[:-1]
    lists = np.empty(len(mine) + count, dtype=U4)
    lists[places] = sizes
    lists[spread(places + 1, sizes)] = mine
    offsets = np.zeros(count + spare, dtype=U4)
    offsets[:count] = begin + 12 + offsets.nbytes + 4 * places
    return _chunk_bytes(name, len(offsets), offsets.tobytes() + lists.tobytes())


# --- Models as taggers ----------------------------------------------------------------------------

MOST_LABELS = 5000
"""The limit of a model that is read, trained or written: each pair has an arc of about 36 bytes."""


def check_labels(labels: int) -> None:
    """Refuse more labels than a model of CRFsuite may have here; an OptionError."""
    if labels > MOST_LABELS:
        raise OptionError(
            f"{labels:,} labels, but a model of CRFsuite has {MOST_LABELS:,} at most: every "
            "pair has an arc: use fewer labels"
        )


def load_crfsuite(
    source: ModelSource,
    *,
    tape: str = TAPE,
    where: str | None = None,
    features: FeatureFunction | None = None,
) -> CRF:
    """Read a model of CRFsuite (python-crfsuite, sklearn-crfsuite) as a tagger.

    It tags lists of attribute lists or feature dicts, as python-crfsuite does, with the same labels
    and probabilities. If several label sequences are equally good, the tagger chooses the label
    that is first in `CRF.labels` at the earliest token at which they differ; CRFsuite, at the
    latest.

    Parameters
    ----------
    source : path, bytes-like object or binary file
        The model, not compressed.
    tape : str
        Name of the tape that the tagger writes, for compositions.
    where : str, optional
        The name of `source` in messages.
    features : callable, optional
        Maps a `Sentence` to the attributes of its tokens, as for `CRF.train`. The tagger then
        reads columns, and can be composed with other taggers of columns.

    Raises
    ------
    ModelFileError
        Not a model of CRFsuite, or damaged; the message names the part.
    OptionError
        A source of another type; an empty name for the tape.
    OSError
        The file cannot be read.
    """
    data, name = read_source(source, where)
    return as_tagger(read_model(data, name), tape=tape, where=name).with_features(features, name)


def as_tagger(model: CRFsuiteModel, *, tape: str = TAPE, where: str = "model") -> CRF:
    """Return a model as a tagger."""
    check_tape(tape)
    labels = len(model.labels)
    if not labels:
        raise ModelFileError(f"{where}: no labels: a model that was trained on no data")
    try:
        check_labels(labels)
    except OptionError as error:
        raise ModelFileError(f"{where}: {error}") from None
    try:
        index = LiteralIndex.from_text(model.attribute_text, model.attribute_offsets)
    except ModelFileError as error:
        raise ModelFileError(f"{where}: damaged: {error}") from None
    topology = _complete_topology(model.labels)
    node_cells, node = _cells(model.of_type(STATE), padded(labels))
    transitions, arc = _last(model.of_type(TRANSITION), labels)
    space = ParameterSpace(
        topology, model.n_attributes, 0, node_cells, transitions.astype(np.int32)
    )
    return CRF(topology, index, space, np.concatenate([node, arc]), tape, ())


def _complete_topology(labels: tuple[str, ...]) -> Topology:
    """Return the topology of order 1 that has all arcs: ``chain_topology(labels)``, quicker."""
    n = len(labels)
    states = np.arange(n, dtype=np.int32)
    every = np.ones(n, dtype=bool)
    return Topology(
        labels=labels,
        state_names=labels,
        state_label=states,
        node_slots=states[:, None],
        node_slot_names=labels,
        source=np.repeat(states, n),
        target=np.tile(states, n),
        arc_slot=np.arange(n * n, dtype=np.int32),
        n_arc_slots=n * n,
        initial=every,
        final=every,
    )


def _numbers(features: NDArray[np.void], width: int) -> Longs:
    cells: Longs = features["src"].astype(np.int64) * width + features["dst"]
    return cells


def _cells(features: NDArray[np.void], width: int) -> tuple[Longs, Floats]:
    """Return the rising cells ``src * width + dst`` and their weights; repeated ones add up."""
    cells, weights = _numbers(features, width), features["weight"].astype(np.float64)
    if (cells[1:] > cells[:-1]).all():
        return cells, weights
    order = np.argsort(cells, kind="stable")
    cells, weights = cells[order], weights[order]
    first = np.flatnonzero(np.diff(cells, prepend=-1))
    return cells[first], np.add.reduceat(weights, first)


def _last(features: NDArray[np.void], width: int) -> tuple[Longs, Floats]:
    """Return the rising cells and their weights; of repeated ones the last counts."""
    cells = _numbers(features, width)
    order = np.argsort(cells, kind="stable")
    cells = cells[order]
    last = np.flatnonzero(np.diff(cells, append=-1))
    return cells[last], features["weight"][order[last]].astype(np.float64)


# --- Taggers as models ----------------------------------------------------------------------------


def export(crf: CRF) -> CRFsuiteModel:
    """Return a tagger as a model of CRFsuite, which gives the same labels and probabilities.

    Weights of 0 and attributes without weights are left out, as CRFsuite does. Attributes of
    templates are written as their texts, such as ``U05:in/the``: users of CRFsuite must make the
    same texts.
    """
    _check_sayable(crf)
    used, features = weighted_features(crf.space, crf.theta)
    return CRFsuiteModel.of(crf.labels, _texts(crf, used), features)


def weighted_features(space: ParameterSpace, theta: Floats) -> tuple[Longs, NDArray[np.void]]:
    """Return the rows of attributes with weights, and their weights as features of these rows."""
    node, transition = space.parts(theta)[:2]
    kept, pairs = np.flatnonzero(node), np.flatnonzero(transition)
    rows, slots = np.divmod(space.node_cells[kept], space.width)
    used, numbers = np.unique(rows, return_inverse=True)
    state = features_of(STATE, numbers, slots, node[kept])
    topology = space.topology
    arc = np.argsort(topology.arc_slot, kind="stable")[space.transitions[pairs]]
    ends = topology.source[arc], topology.target[arc]
    return used, np.concatenate([state, features_of(TRANSITION, *ends, transition[pairs])])


def _check_sayable(crf: CRF) -> None:
    """Check that CRFsuite's format can represent a tagger."""
    if not isinstance(crf, CRF):
        raise OptionError(
            "CRFsuite's format cannot store grammars or compositions, expected a "
            f"single tagger, got {type(crf).__name__}: export one tagger, such as "
            "model.taggers[0], and apply the grammar when tagging"
        )
    check_labels(len(crf.labels))
    topology, space = crf.topology, crf.space
    _, _, arc, initial, final = space.parts(crf.theta)
    complete = (
        len(topology.source) == topology.n_states**2
        and bool(topology.initial.all())
        and bool(topology.final.all())
    )
    if not topology.direct:
        problem = "the tagger is of order 2: train it with order=1"
    elif not complete:
        problem = (
            "the tagger forbids label sequences, which the format cannot: train it without scheme= "
            "and grammar=, and constrain it where it tags"
        )
    elif initial.any() or final.any():
        problem = "the tagger has weights of first and last labels: train it without ends="
    elif arc.any():
        problem = "the tagger has attributes of label pairs: train it without those templates"
    elif crf.index.hash_bits is not None:
        problem = "the attributes are hashed, so nobody knows their texts: train without hash_bits="
    else:
        return
    raise OptionError(f"CRFsuite's format has no place for this: {problem}")


def _texts(crf: CRF, rows: Longs) -> list[str]:
    """Return the texts of attributes."""
    if not isinstance(crf.index, FeatureIndex):
        strings = crf.index.attribute_strings
        return [strings[row] for row in rows.tolist()]
    texts = crf.index.attributes(rows)
    repeated = [text for text, count in Counter(texts).items() if count > 1]
    if repeated:  # "a/b" and "c", "a" and "b/c"
        raise OptionError(
            f"CRFsuite's format has no place for this: {len(repeated)} attribute names "
            f"are ambiguous, such as {repeated[0]!r}: the values contain the separator "
            "of the template; choose another separator"
        )
    return texts


def _read(data: bytes, options: ReadOptions) -> CRF:
    if options.columns is not None or options.encoding not in (None, "utf-8"):
        raise OptionError(
            f"{options.where}: a CRFsuite model reads lists of attributes in UTF-8: it has no "
            "columns to name, and no other encoding"
        )
    return load_crfsuite(data, tape=options.tape, where=options.where)


CRFSUITE = Format(
    "crfsuite",
    "a CRFsuite model",
    recognises=lambda head: head.startswith(MAGIC),
    read=_read,
    suffix=".crfsuite",
    write=lambda tagger: write_model(export(tagger)),
)
