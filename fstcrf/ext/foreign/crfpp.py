"""Models of CRF++: text (``crf_learn -t``) and binary."""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from fstcrf.arrays import Bools, Floats, Longs, Ragged, distinct
from fstcrf.errors import ModelFileError
from fstcrf.ext.foreign.doublearray import double_array
from fstcrf.ext.foreign.formats import (
    TAPE,
    Format,
    ModelSource,
    ReadOptions,
    load_from,
    text_encoding,
)
from fstcrf.ext.foreign.patterns import (
    Hole,
    PatternModel,
    SparseWeights,
    TextPattern,
    check_labels,
    decoded,
    shown,
    tagger,
)
from fstcrf.ext.foreign.rendering import Dialect, TextModel, rendered
from fstcrf.files import BOM
from fstcrf.taggers import CRF
from fstcrf.text.features.derive import Plain, Source


@dataclass(frozen=True, slots=True, eq=False)
class _Contents:
    """A model of CRF++."""

    labels: list[bytes]
    templates: list[bytes]
    attributes: list[bytes]  # texts, A of them
    first: Longs  # int64 [A], number of each attribute's first weight
    weights: Floats  # float64 [n], scores once multiplied by the cost factor
    cost_factor: float
    n_columns: int  # that templates read
    size: int  # bytes of the file


# --- The trie of binary models --------------------------------------------------------------------

# A double array as the library Darts writes it: a node has a base b. Its child along byte c is the
# unit p = b + c + 1 if check[p] = b, and has the base base[p]. A key ends at a node if check[b] = b
# and base[b] < 0; its value is -base[b] - 1. The root is unit 0.

_UNIT = np.dtype([("base", "<i4"), ("check", "<u4")])
_BYTES = [bytes([byte]) for byte in range(256)]


def _entries(units: NDArray[np.void], *, limit: int, where: str) -> tuple[list[bytes], Longs]:
    """Return the keys of a double array, sorted, `limit` bytes in all at most, and their values."""
    if not len(units):
        raise ModelFileError(f"{where}: the trie is empty")
    base, check = units["base"].astype(np.int64), units["check"].astype(np.int64)
    order = np.argsort(check, kind="stable")  # units by their parent, then by their byte
    parents = check[order]
    visited = np.zeros(len(units), dtype=bool)
    nodes, texts = np.zeros(1, dtype=np.int64), [b""]
    keys: list[bytes] = []
    values: list[int] = []
    while len(nodes):
        begin = base[nodes]
        if len(distinct(begin)) < len(begin):
            raise ModelFileError(
                f"{where}: the trie of attributes is damaged: nodes share children"
            )
        ends = _ends(base, check, begin)
        keys += [texts[i] for i in ends.tolist()]
        values += (-base[begin[ends]] - 1).tolist()
        limit -= sum(len(texts[i]) for i in ends.tolist())
        parent, children = _children(begin, parents, order)
        byte = children - begin[parent] - 1
        real = (byte > 0) & (byte < 256) & (children > 0)
        parent, nodes, byte = parent[real], children[real], byte[real]
        if visited[nodes].any():
            raise ModelFileError(f"{where}: the trie of attributes is damaged: it has a loop")
        visited[nodes] = True
        if len(nodes) * (len(texts[0]) + 1) > limit:
            raise ModelFileError(
                f"{where}: the trie of attributes is damaged: its keys are too long"
            )
        texts = [texts[i] + _BYTES[c] for i, c in zip(parent.tolist(), byte.tolist(), strict=True)]
    order_of_keys = sorted(range(len(keys)), key=keys.__getitem__)
    return [keys[i] for i in order_of_keys], np.array(values, dtype=np.int64)[order_of_keys]


def _ends(base: Longs, check: Longs, begin: Longs) -> Longs:
    """Return the nodes, by place, at which a key ends."""
    inside: Longs = np.flatnonzero((begin >= 0) & (begin < len(base)))
    place = begin[inside]
    ends: Bools = (check[place] == place) & (base[place] < 0)
    return inside[ends]


def _children(begin: Longs, parents: Longs, order: Longs) -> tuple[Longs, Longs]:
    """Return the units whose check is the base of a node: the place of that node, and the unit."""
    first = np.searchsorted(parents, begin)
    counts = np.searchsorted(parents, begin, side="right") - first
    children = Ragged.from_lengths(counts)
    return children.rows(), order[children.ranges(first)]


# --- Binary models --------------------------------------------------------------------------------

# Little-endian, without gaps:
#
# uint32   version, 100        uint32 [1]    bytes of the labels
# int32    type, 0             bytes         labels, each ended by a zero
# float64  cost factor         uint32 [1]    bytes of the templates
# uint32   number of weights   bytes         templates, each ended by a zero; zeros to fill
# uint32   number of columns   (int32, uint32) [D / 8]   trie of the attributes
# uint32   D, bytes of trie    float32       weights

_HEADER = struct.Struct("<IidIII")
_LENGTH = struct.Struct("<I")
_MOST_COLUMNS = 1000


def _is_binary(head: bytes) -> bool:
    """Return whether a file with these first bytes is a binary model."""
    if len(head) < _HEADER.size:
        return False
    version, kind, *_ = _HEADER.unpack_from(head)
    return bool(version // 100 == 1 and kind == 0)


def _read_binary(data: bytes, where: str) -> _Contents:
    """Read a binary model."""
    _, _, factor, n_weights, n_columns, n_trie = _HEADER.unpack_from(data)
    if not np.isfinite(factor):
        raise ModelFileError(f"{where}: the cost factor is {factor}")
    if n_columns > _MOST_COLUMNS:
        raise ModelFileError(f"{where}: {n_columns} columns, expected at most {_MOST_COLUMNS}")
    labels, place = _texts(data, _HEADER.size, "labels", where)
    templates, place = _texts(data, place, "templates", where)
    if n_trie % _UNIT.itemsize or place + n_trie + 4 * n_weights != len(data):
        raise ModelFileError(
            f"{where}: {len(data)} bytes, expected {place} and a trie of {n_trie} and "
            f"{n_weights} weights of 4"
        )
    trie = np.frombuffer(data, dtype=_UNIT, count=n_trie // _UNIT.itemsize, offset=place)
    attributes, first = _entries(trie, limit=1_000_000 + 64 * len(data), where=where)
    weights = np.frombuffer(data, dtype="<f4", offset=place + n_trie)
    if not np.isfinite(weights).all():
        number = int(np.flatnonzero(~np.isfinite(weights))[0])
        raise ModelFileError(f"{where}: weight {number} is {weights[number]}")
    return _Contents(
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
    """Return the texts of a part, and its end."""
    begin = place + _LENGTH.size
    if begin > len(data):
        raise ModelFileError(f"{where}: the file ends before its {what}")
    end = begin + _LENGTH.unpack_from(data, place)[0]
    if end > len(data) or (end > begin and data[end - 1] != 0):
        raise ModelFileError(f"{where}: the {what} go to byte {end} of {len(data)} without a zero")
    return data[begin:end].split(b"\0")[:-1], end


# --- Text models ----------------------------------------------------------------------------------

# Parts, separated by blank lines: "name: value" lines, labels, templates, attributes (the number of
# the first weight, a blank, the text), and finally the weights, each on its line.
_PARTS = ("header", "labels", "templates", "attributes")
_COUNT = re.compile(rb"[0-9]{1,18}")
_NUMBER = re.compile(rb"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?")


def _is_text(head: bytes) -> bool:
    """Return whether a file with these first bytes is a text model."""
    return head.removeprefix(BOM).startswith(b"version: ")


def _read_text(data: bytes, where: str) -> _Contents:
    """Read a text model."""
    lines = data.removeprefix(BOM).split(b"\n")
    if lines[0].endswith(b"\r"):
        lines = [line.removesuffix(b"\r") for line in lines]
    header, labels, templates, attributes, weights = _parts(lines, where)
    fields = _fields(lines[header], where)
    version = _count(fields, "version", where)
    if version // 100 != 1:
        raise ModelFileError(f"{where}:1: a model of version {version}, expected 100")
    factor = fields.get("cost-factor", b"1")
    if not _NUMBER.fullmatch(factor):
        raise ModelFileError(f"{where}: cost-factor is {shown(factor)}, expected a number")
    texts, first = _attributes(lines, attributes, where)
    values = _weights(lines, weights, where)
    if len(values) != _count(fields, "maxid", where):
        raise ModelFileError(
            f"{where}: {len(values)} weights, maxid is {_count(fields, 'maxid', where)}"
        )
    return _Contents(
        labels=lines[labels],
        templates=lines[templates],
        attributes=texts,
        first=first,
        weights=values,
        cost_factor=float(factor),
        n_columns=_columns(fields, where),
        size=len(data),
    )


def _parts(lines: Sequence[bytes], where: str) -> list[slice]:
    """Return the lines of each part."""
    parts: list[slice] = []
    begin = 0
    for name in _PARTS:
        try:
            end = lines.index(b"", begin)
        except ValueError:
            end = len(lines)
        if end >= len(lines) - 1:
            raise ModelFileError(f"{where}:{end}: the file ends in its {name}")
        parts.append(slice(begin, end))
        begin = end + 1
    if lines[-1]:  # a truncated number may be a number, too
        raise ModelFileError(f"{where}:{len(lines)}: cut short: the last line has no end")
    return [*parts, slice(begin, len(lines) - 1)]


def _fields(lines: Sequence[bytes], where: str) -> dict[str, bytes]:
    fields: dict[str, bytes] = {}
    for number, line in enumerate(lines, start=1):
        name, colon, value = line.partition(b": ")
        if not colon:
            raise ModelFileError(f"{where}:{number}: {shown(line)}, expected 'name: value'")
        fields[name.decode("latin-1")] = value.strip()
    return fields


def _count(fields: dict[str, bytes], name: str, where: str) -> int:
    value = fields.get(name, b"")
    if not _COUNT.fullmatch(value):
        raise ModelFileError(f"{where}: {name} is {shown(value)}, expected a number")
    return int(value)


def _columns(fields: dict[str, bytes], where: str) -> int:
    count = _count(fields, "xsize", where)
    if count > _MOST_COLUMNS:
        raise ModelFileError(f"{where}: {count} columns, expected at most {_MOST_COLUMNS}")
    return count


def _attributes(lines: Sequence[bytes], part: slice, where: str) -> tuple[list[bytes], Longs]:
    texts: list[bytes] = []
    first: list[int] = []
    for number, line in enumerate(lines[part], start=part.start + 1):
        digits, blank, text = line.partition(b" ")
        if not (blank and text and _COUNT.fullmatch(digits)):
            raise ModelFileError(f"{where}:{number}: {shown(line)}, expected a number and a text")
        texts.append(text)
        first.append(int(digits))
    return texts, np.array(first, dtype=np.int64)


def _weights(lines: Sequence[bytes], part: slice, where: str) -> Floats:
    try:
        return np.array(list(map(float, lines[part])), dtype=np.float64)
    except ValueError:
        for number, line in enumerate(lines[part], start=part.start + 1):
            if not _NUMBER.fullmatch(line):
                raise ModelFileError(
                    f"{where}:{number}: {shown(line)}, expected a weight"
                ) from None
        raise


# --- Templates ------------------------------------------------------------------------------------

# U05:%x[-1,0]/%x[0,1]    attributes of labels: strings at (row, column) between literals
# B01:%x[0,1]             attributes of label pairs
# B                       label pairs themselves

_MACRO = re.compile(r"%x\[(-?)([0-9]*),([0-9]*)\]")
_FARTHEST = 8
_DIGITS = 9


def _read_pattern(text: str, encoding: str, n_columns: int, where: str) -> TextPattern:
    """Read a template as CRF++ does: blanks count, a number that is not there is 0."""
    if text[:1] not in ("U", "B"):
        raise ModelFileError(f"{where}: template {text!r} begins with neither U nor B")
    literals: list[bytes] = []
    holes: list[Hole] = []
    end = 0
    for found in _MACRO.finditer(text):
        literals.append(text[end : found.start()].encode(encoding))
        end = found.end()
        row, column = (int(digits[-_DIGITS:] or 0) for digits in found.group(2, 3))
        if max(map(len, found.group(2, 3))) > _DIGITS or row > _FARTHEST or column >= n_columns:
            raise ModelFileError(
                f"{where}: template {text!r}: {found[0]} is out of range: rows go to "
                f"{_FARTHEST}, there are {n_columns} columns"
            )
        holes.append(Hole(Plain(column), -row if found[1] else row))
    literals.append(text[end:].encode(encoding))
    if any(b"%" in literal for literal in literals):
        raise ModelFileError(f"{where}: template {text!r}: expected %x[row,column] after every %")
    return TextPattern("node" if text[0] == "U" else "arc", text, tuple(literals), tuple(holes))


# --- The tagger -----------------------------------------------------------------------------------

_UNIGRAM, _BIGRAM = b"U", b"B"


def load_crfpp(
    source: ModelSource,
    *,
    columns: Sequence[str] | None = None,
    tape: str = TAPE,
    encoding: str = "utf-8",
) -> CRF:
    """Read a model of CRF++, text or binary, as a tagger with the same answers.

    Parameters
    ----------
    source : path, bytes-like object or binary file
        The model, not compressed.
    columns : sequence of str, optional
        Names of the columns of the data; ``"0"``, ``"1"``, ... when absent.
    tape : str
        Output tape of the tagger; a last column, unless `columns` contains it.
    encoding : str
        Of the texts in the model.

    Raises
    ------
    ModelFileError
        No model of CRF++, a damaged one, or one of another encoding.
    OptionError
        Names of columns that are too few or not distinct; an encoding that there is not; a
        source of another type.
    OSError
        The file cannot be read.
    """
    return load_from(source, _read, ReadOptions("", tape, columns, encoding))


def _read(data: bytes, options: ReadOptions) -> CRF:
    where, encoding = options.where, text_encoding(options)
    if _is_binary(data):
        contents = _read_binary(data, where)
    elif _is_text(data):
        contents = _read_text(data, where)
    else:
        raise ModelFileError(f"{where}: no model of CRF++: neither 'version: ' nor version 100")
    return tagger(_pattern_model(contents, encoding, where), options.columns, options.tape)


def _pattern_model(contents: _Contents, encoding: str, where: str) -> PatternModel:
    labels = tuple(decoded(label, encoding, where, "label") for label in contents.labels)
    check_labels(labels, contents.size, where)
    attributes, first = _sorted(contents)
    is_unigram = np.array([text.startswith(_UNIGRAM) for text in attributes], dtype=bool)
    sizes = np.where(is_unigram, len(labels), len(labels) ** 2)
    _check(attributes, first, sizes, contents, where)
    with np.errstate(over="ignore", invalid="ignore"):  # infinities and NaN are refused later
        weights = contents.weights * contents.cost_factor
    templates = [decoded(t, encoding, where, "template") for t in contents.templates]
    return PatternModel(
        labels=labels,
        patterns=tuple(
            _read_pattern(text, encoding, contents.n_columns, where) for text in templates
        ),
        attributes=attributes,
        node_first=np.where(is_unigram, first, -1),
        arc_first=np.where(is_unigram, -1, first),
        weights=SparseWeights.of(weights),
        n_columns=contents.n_columns,
        boundary="pad",
        encoding=encoding,
        size=contents.size,
        where=where,
    )


def _sorted(contents: _Contents) -> tuple[list[bytes], Longs]:
    """Return the attributes in the order of their texts, with the number of their first weight."""
    texts = contents.attributes
    if all(a < b for a, b in pairwise(texts)):
        return texts, contents.first
    order = sorted(range(len(texts)), key=texts.__getitem__)
    return [texts[i] for i in order], contents.first[order]


def _check(
    attributes: Sequence[bytes], first: Longs, sizes: Longs, contents: _Contents, where: str
) -> None:
    """Check that attributes are distinct and of a known kind, and that their weights exist."""
    twice = next((b for a, b in pairwise(attributes) if a == b), None)
    if twice is not None:
        raise ModelFileError(f"{where}: attribute {shown(twice)} is there twice")
    odd = next((a for a in attributes if a[:1] not in (_UNIGRAM, _BIGRAM)), None)
    if odd is not None:
        raise ModelFileError(f"{where}: attribute {shown(odd)} begins with neither U nor B")
    outside = np.flatnonzero((first < 0) | (first + sizes > len(contents.weights)))
    if len(outside):
        place = int(outside[0])
        raise ModelFileError(
            f"{where}: attribute {shown(attributes[place])} has weights {first[place]} to "
            f"{first[place] + sizes[place] - 1} of {len(contents.weights)}"
        )


# --- Taggers as models ----------------------------------------------------------------------------

_MOST_WEIGHTS = 2**31 - 2


def _hole(source: Source, place: str, column: int) -> str | None:
    return f"%x[{place},{column}]" if isinstance(source, Plain) else None


_DIALECT = Dialect("CRF++'s format", ("U", "B"), "pad", _FARTHEST, _hole)


def _rendered(crf: CRF) -> TextModel:
    model = rendered(crf, _DIALECT)
    for text in (*model.patterns, *model.attributes, *(y.encode() for y in model.labels)):
        if b"\0" in text or b"\n" in text or b"\r" in text:
            raise _DIALECT.refused(f"{shown(text)} is not one line of text")
    if model.first[-1] > _MOST_WEIGHTS:
        raise _DIALECT.refused(f"{model.first[-1]:,} weights, at most {_MOST_WEIGHTS:,}")
    return model


def _written(crf: CRF) -> bytes:
    """Return a tagger as a binary model; its weights are float32."""
    model = _rendered(crf)
    weights = np.zeros(model.first[-1], dtype="<f4")
    weights[model.weights.numbers] = model.weights.values
    trie = double_array(model.attributes, model.first[:-1]).tobytes()
    labels, templates = (
        b"".join(text + b"\0" for text in part)
        for part in ([label.encode() for label in model.labels], model.patterns)
    )
    templates += b"\0" * (-(len(labels) + len(templates)) % 4)  # so that weights are aligned
    header = _HEADER.pack(100, 0, 1.0, len(weights), model.n_columns, len(trie))
    texts = [_LENGTH.pack(len(part)) + part for part in (labels, templates)]
    return b"".join([header, *texts, trie, weights.tobytes()])


def _written_text(crf: CRF) -> bytes:
    """Return a tagger as a text model, which ``crf_learn -C`` makes binary."""
    model = _rendered(crf)
    weights = np.zeros(model.first[-1])
    weights[model.weights.numbers] = model.weights.values
    header = [b"version: 100", b"cost-factor: 1", b"maxid: %d" % len(weights)]
    pairs = zip(model.first.tolist(), model.attributes, strict=False)
    lines = [*header, b"xsize: %d" % model.n_columns, b""]
    lines += [*(label.encode() for label in model.labels), b"", *model.patterns, b""]
    lines += [*(b"%d %s" % pair for pair in pairs), b""]
    lines += [*(repr(w).encode() for w in weights.tolist()), b""]
    return b"\n".join(lines)


CRFPP = Format(
    "crfpp",
    "a binary CRF++ model",
    recognises=_is_binary,
    read=_read,
    suffix=".crfpp",
    write=_written,
)
CRFPP_TEXT = Format(
    "crfpp-text", "a text model of CRF++", recognises=_is_text, read=_read, write=_written_text
)
