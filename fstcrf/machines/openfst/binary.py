"""OpenFst's binary format, by structured arrays: no work per arc in Python; pynini by way of it.

Vector
    Each state's final weight and number of arcs, followed by its arcs.
Const
    All states, then all arcs: two arrays, so it is the quicker one.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from fstcrf.arguments import one_of
from fstcrf.arrays import Bools, Floats, Ints, Longs, Ragged
from fstcrf.errors import DataError, NumericError, OptionError
from fstcrf.files import read_file
from fstcrf.lazy import optional
from fstcrf.machines.machine import Machine, Semiring
from fstcrf.machines.openfst.text import (
    AS_WRITTEN,
    EPSILON,
    Arcs,
    Naming,
    Table,
    arcs_by_source,
)

T = TypeVar("T")

# --- Property bits --------------------------------------------------------------------------------
# OpenFst trusts the properties in a file, so only properties that one or two passes over the arrays
# show are written. The others are unknown: OpenFst computes them when it needs them.

_EXPANDED = 1 << 0
_MUTABLE = 1 << 1

# Each has its opposite in the next bit.
_ACCEPTOR = 1 << 16
_I_DETERMINISTIC = 1 << 18
_O_DETERMINISTIC = 1 << 20
_EPSILONS = 1 << 22
_I_EPSILONS = 1 << 24
_O_EPSILONS = 1 << 26
_I_LABEL_SORTED = 1 << 28
_O_LABEL_SORTED = 1 << 30
_WEIGHTED = 1 << 32
_TOP_SORTED = 1 << 38
_ACYCLIC = 1 << 35
_INITIAL_ACYCLIC = 1 << 37
_UNWEIGHTED_CYCLES = 1 << 47


def _properties(arcs: Arcs, final: Floats) -> int:
    """Return the property bits that are known of a machine."""
    source, ilabel, olabel, target, score = arcs
    free_in, free_out = ilabel == 0, olabel == 0
    same_state = source[1:] == source[:-1]
    bits = _either(_ACCEPTOR, yes=bool(np.array_equal(ilabel, olabel)))
    bits |= _either(_EPSILONS, yes=bool((free_in & free_out).any()))
    bits |= _either(_I_EPSILONS, yes=bool(free_in.any()))
    bits |= _either(_O_EPSILONS, yes=bool(free_out.any()))
    bits |= _sorted(ilabel, same_state, _I_LABEL_SORTED, _I_DETERMINISTIC)
    bits |= _sorted(olabel, same_state, _O_LABEL_SORTED, _O_DETERMINISTIC)
    weights = np.append(score, final)  # forbidden arcs do not count
    bits |= _either(_WEIGHTED, yes=bool(((weights != 0.0) & (weights > -np.inf)).any()))
    upwards = bool((target > source).all())
    bits |= _either(_TOP_SORTED, yes=upwards)
    return bits | (_ACYCLIC | _INITIAL_ACYCLIC | _UNWEIGHTED_CYCLES if upwards else 0)


def _either(bit: int, *, yes: bool) -> int:
    return bit if yes else bit << 1


def _sorted(label: Ints, same_state: Bools, in_order: int, deterministic: int) -> int:
    """Order and determinism of one side; of labels without order, the latter is not known."""
    before, after = label[:-1], label[1:]
    if (same_state & (after < before)).any():
        return _either(in_order, yes=False)
    repeats = bool((same_state & (after == before)).any())
    return _either(in_order, yes=True) | _either(deterministic, yes=not repeats)


# --- Header and symbol tables ---------------------------------------------------------------------
# Header: magic, type of machine, type of arcs, version, flags, properties, start, states, arcs.
# Symbol table: magic, name, next free id, size, and each symbol with its id.

_ALIGNED = 4
_I_TABLE, _O_TABLE = 1, 2
_MAGIC, _TABLE_MAGIC = 2125659606, 2125658996
_NAME = "fstcrf"
_LONGEST_NAME = 256
_MOST_SYMBOLS = 1 << 21  # every character of Unicode is a symbol


class _Header(NamedTuple):
    """The fields before the states."""

    fst_type: str
    arc_type: str
    version: int
    flags: int  # `_ALIGNED`, and which symbol tables follow
    properties: int
    start: int  # −1: none
    n_states: int  # −1 if unknown, until the end (vector only); the same for arcs
    n_arcs: int


def _header_bytes(header: _Header, *tables: tuple[str, ...]) -> bytes:
    """Return a header, followed by the symbol tables of both sides."""
    flags = header.flags | _I_TABLE | _O_TABLE
    parts = [struct.pack("<i", _MAGIC), _text(header.fst_type), _text(header.arc_type)]
    parts.append(struct.pack("<iiQqqq", header.version, flags, *header[4:]))
    parts += map(_table_bytes, tables)
    return b"".join(parts)


def _table_bytes(symbols: tuple[str, ...]) -> bytes:
    """Return a symbol table in which symbol k has the id k."""
    head = struct.pack("<qq", len(symbols), len(symbols))
    parts = [struct.pack("<i", _TABLE_MAGIC), _text(_NAME), head]
    parts += [_text(symbol) + struct.pack("<q", number) for number, symbol in enumerate(symbols)]
    return b"".join(parts)


def _text(text: str) -> bytes:
    encoded = text.encode()
    return struct.pack("<i", len(encoded)) + encoded


class _Reader:
    """Bytes of a machine, and how far they have been read."""

    def __init__(self, data: bytes) -> None:
        self.data, self.place = data, 0

    def take(self, size: int, what: str) -> bytes:
        """Return the next bytes."""
        end = self.place + size
        if size < 0 or end > len(self.data):
            raise DataError(
                f"OpenFst bytes end within {what}: {len(self.data)} bytes, {end} are needed"
            )
        piece, self.place = self.data[self.place : end], end
        return piece

    def numbers(self, form: str, what: str) -> tuple[int, ...]:
        """Return the next little-endian numbers; raises as `take`."""
        return struct.unpack("<" + form, self.take(struct.calcsize("<" + form), what))

    def text(self, what: str, longest: int | None = None) -> str:
        """Return the next string; raises as `take`, and for bytes that are not a string."""
        (size,) = self.numbers("i", what)
        if size < 0 or (longest is not None and size > longest):
            raise DataError(f"OpenFst bytes: {what} has {size} bytes")
        try:
            return self.take(size, what).decode()
        except UnicodeDecodeError:
            raise DataError(f"OpenFst bytes: {what} is not UTF-8") from None

    def header(self) -> tuple[_Header, tuple[Table, Table]]:
        """Return the header and the symbols of both sides."""
        if self.numbers("i", "the header") != (_MAGIC,):
            raise DataError("not an OpenFst machine: it begins with other bytes")
        fst_type = self.text("the type of machine", _LONGEST_NAME)
        arc_type = self.text("the type of arcs", _LONGEST_NAME)
        header = _Header(fst_type, arc_type, *self.numbers("iiQqqq", "the header"))
        isymbols, osymbols = (
            self._table() if header.flags & bit else None for bit in (_I_TABLE, _O_TABLE)
        )
        return header, (isymbols, osymbols)

    def _table(self) -> tuple[str, ...]:
        """Symbols of a table; ids that it does not have get an empty one."""
        if self.numbers("i", "a symbol table") != (_TABLE_MAGIC,):
            raise DataError(
                "OpenFst bytes: the header announces a symbol table, but the table is missing"
            )
        self.text("the name of a symbol table")
        _, size = self.numbers("qq", "a symbol table")
        symbols: dict[int, str] = {}
        for _ in range(size):
            symbol = self.text("a symbol")
            (number,) = self.numbers("q", "a symbol table")
            if not 0 <= number < _MOST_SYMBOLS:
                raise DataError(
                    f"symbol {symbol!r} has the id {number}, expected 0 .. {_MOST_SYMBOLS - 1}"
                )
            if symbols.setdefault(number, symbol) != symbol:
                raise DataError(
                    f"symbol id {number} has two names, {symbols[number]!r}, {symbol!r}"
                )
        return tuple(symbols.get(k, "") for k in range(max(symbols, default=-1) + 1))


# --- Weights and arcs -----------------------------------------------------------------------------

ArcType: TypeAlias = Literal["standard", "log", "log64"]
FstType: TypeAlias = Literal["vector", "const"]

_WEIGHT: dict[str, np.dtype[np.floating]] = {
    "standard": np.dtype("<f4"),
    "log": np.dtype("<f4"),
    "log64": np.dtype("<f8"),
}
_VERSIONS = {"vector": (2,), "const": (1, 2)}
_ALIGNMENT = 16
_LARGEST = 2**31 - 1
_WORD = np.dtype("<i4")


def _arc_kind(arc_type: str) -> np.dtype[np.floating]:
    """Return the dtype of a weight."""
    one_of("arc type", arc_type, ArcType)
    return _WEIGHT[arc_type]


def _const_state(weight: np.dtype[np.floating]) -> np.dtype[np.void]:
    names = ("first", "arcs", "iepsilons", "oepsilons")
    return np.dtype([("final", weight), *[(name, "<u4") for name in names]])


def _const_arc(weight: np.dtype[np.floating]) -> np.dtype[np.void]:
    """C's layout: a double ends with four bytes of padding."""
    fields = [("ilabel", "<i4"), ("olabel", "<i4"), ("weight", weight), ("target", "<i4")]
    return np.dtype(fields, align=True)


# --- Writing -----------------------------------------------------------------------------------


def to_bytes(
    machine: Machine, arc_type: ArcType = "log64", *, fst_type: FstType = "vector"
) -> bytes:
    """Return a machine in OpenFst's binary format; symbol k has the id k + 1 in its tables.

    Parameters
    ----------
    machine : Machine or Transducer
    arc_type : {"standard", "log", "log64"}
        Weights of the first two are float32; weights of log64 are exact.
    fst_type : {"vector", "const"}

    Raises
    ------
    OptionError
        Another type.
    NumericError
        A score that is too large for float32.
    LabelError
        An empty symbol.
    """
    weight = _arc_kind(arc_type)
    if fst_type not in ("vector", "const"):
        raise OptionError(f"fst type is {fst_type!r}, expected vector or const")
    const, arcs = fst_type == "const", arcs_by_source(machine)
    final, cost = (_costs(scores, weight) for scores in (machine.final, arcs[-1]))
    header = _Header(
        fst_type=fst_type,
        arc_type=arc_type,
        version=1 if const else 2,
        flags=_ALIGNED if const else 0,
        properties=_properties(arcs, machine.final) | _EXPANDED | (0 if const else _MUTABLE),
        start=0,
        n_states=len(final),
        n_arcs=len(cost),
    )
    tables = machine.input_symbols, machine.output_symbols
    head = _header_bytes(header, *((EPSILON, *names) for names in tables))
    return (_const_bytes if const else _vector_bytes)(head, arcs, final, cost)


def _costs(scores: Floats, weight: np.dtype[np.floating]) -> NDArray[np.floating]:
    with np.errstate(over="ignore"):
        costs = (0.0 - scores).astype(weight)  # not −scores: a zero keeps its sign
    if weight.itemsize == 4 and np.isinf(costs).sum() != np.isneginf(scores).sum():
        worst = float(np.abs(scores[np.isfinite(scores)]).max())
        raise NumericError(f"score {worst:g} is too large for float32; use arc type log64")
    return costs


def _const_bytes(
    head: bytes, columns: Arcs, final: NDArray[np.floating], cost: NDArray[np.floating]
) -> bytes:
    source, ilabel, olabel, target, _ = columns
    row = Ragged.from_rows(source, len(final)).offsets
    states = np.empty(len(final), _const_state(final.dtype))
    states["final"], states["first"], states["arcs"] = final, row[:-1], np.diff(row)
    for name, label in (("iepsilons", ilabel), ("oepsilons", olabel)):
        epsilons = source[label == 0]
        states[name] = np.bincount(epsilons, minlength=len(final)) if len(epsilons) else 0
    arcs = np.zeros(len(cost), _const_arc(cost.dtype))
    arcs["ilabel"], arcs["olabel"], arcs["weight"], arcs["target"] = ilabel, olabel, cost, target
    place = len(head) + -len(head) % _ALIGNMENT + states.nbytes
    padding = [bytes(-n % _ALIGNMENT) for n in (len(head), place)]
    return b"".join([head, padding[0], states.data, padding[1], arcs.data])


def _vector_bytes(
    head: bytes, columns: Arcs, final: NDArray[np.floating], cost: NDArray[np.floating]
) -> bytes:
    """Everything is a multiple of four bytes, so that the body is an array of words."""
    wide = final.itemsize // 4  # words of a weight
    source, ilabel, olabel, target, _ = columns
    row = Ragged.from_rows(source, len(final)).offsets
    before, size = 2 + wide, 3 + wide  # words of a state without its arcs, words of an arc
    words = np.empty(len(final) * before + len(cost) * size, _WORD)
    place = np.arange(len(final)) * before + row[:-1] * size
    words[place[:, None] + np.arange(wide)] = _words(final)
    words[place[:, None] + np.arange(wide, before)] = _words(np.diff(row))
    place = (source + np.int64(1)) * before + np.arange(len(cost)) * size
    for label in (ilabel, olabel):
        words[place] = label
        place += 1
    for column in _words(cost).T:
        words[place] = column
        place += 1
    words[place] = target
    return b"".join([head, words.data])


def _words(array: NDArray[np.generic]) -> Ints:
    little = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    return little.view(_WORD).reshape(len(array), array.itemsize // 4)


# --- Reading -----------------------------------------------------------------------------------


def from_bytes(data: bytes, naming: Naming = AS_WRITTEN) -> Machine:
    """Read a machine in OpenFst's binary format: vector or const; standard, log or log64 arcs.

    Its start becomes state 0, and exchanges its number with the former state 0.

    Parameters
    ----------
    data : bytes
    naming : Naming, optional
        Names of symbols, the semiring, and the tape. By default, symbols have the names of its
        tables, and the semiring is the semiring of its arcs: tropical for ``standard`` arcs.

    Raises
    ------
    DataError
        Bytes of something else, that end too early, or that name states which are not there.
    LabelError
        Symbols without a name, or one with two ids.
    OptionError
        An acceptor is expected, and an arc writes something else than it reads.
    """
    reader = _Reader(data)
    header, tables = reader.header()
    if header.arc_type not in _WEIGHT:
        raise DataError(f"arcs of type {header.arc_type!r}, expected one of {', '.join(_WEIGHT)}")
    if header.fst_type not in _VERSIONS:
        raise DataError(f"a machine of type {header.fst_type!r}, expected vector or const")
    if header.version not in _VERSIONS[header.fst_type]:
        raise DataError(f"OpenFst bytes: {header.fst_type} of version {header.version} is unknown")
    read = _read_vector if header.fst_type == "vector" else _read_const
    final, degree, arcs = read(reader, header, _WEIGHT[header.arc_type])
    states = len(final)
    if not -1 <= header.start < states:
        raise DataError(f"OpenFst bytes: start is state {header.start} of {states}")
    targets = np.ascontiguousarray(arcs["target"], dtype=np.int32)
    if len(targets) and not 0 <= int(targets.min()) <= int(targets.max()) < states:
        raise DataError(f"OpenFst bytes: an arc leads to no state, expected 0 to {states - 1}")
    ilabel, olabel = (
        np.ascontiguousarray(arcs[name], dtype=np.int32) for name in ("ilabel", "olabel")
    )
    for label, table in zip((ilabel, olabel), tables, strict=True):
        if len(label) and (
            int(label.min()) < 0 or (table is not None and int(label.max()) >= len(table))
        ):
            raise DataError("OpenFst bytes: a label is negative or not in the symbol table")
    source = np.repeat(np.arange(states, dtype=np.int32), degree)
    score, ends = _scores(arcs["weight"], "arc"), _scores(final, "final state")
    columns = source, ilabel, olabel, targets, score
    semiring: Semiring = "tropical" if header.arc_type == "standard" else "log"
    return naming.machine(header.start, columns, ends, tables, semiring)


def _scores(costs: NDArray[np.floating], what: str) -> Floats:
    with np.errstate(invalid="ignore"):  # signalling NaNs are reported below
        scores: Floats = 0.0 - costs.astype(np.float64)
    if not (scores < np.inf).all():
        place = int(np.flatnonzero(~(scores < np.inf))[0])
        raise DataError(
            f"OpenFst bytes: {what} {place} has the weight {costs[place]}, expected a "
            "finite cost or infinity"
        )
    return scores


_Parts: TypeAlias = tuple[NDArray[np.floating], Longs, NDArray[np.void]]


def _read_const(reader: _Reader, header: _Header, weight: np.dtype[np.floating]) -> _Parts:
    aligned = bool(header.flags & _ALIGNED) or header.version == 1
    pieces = []
    for count, kind in (
        (header.n_states, _const_state(weight)),
        (header.n_arcs, _const_arc(weight)),
    ):
        if aligned:
            reader.take(-reader.place % _ALIGNMENT, "padding")
        if not 0 <= count <= _LARGEST:
            raise DataError(f"OpenFst bytes: a const machine with {count} states or arcs")
        pieces.append(np.frombuffer(reader.take(count * kind.itemsize, "states or arcs"), kind))
    states, arcs = pieces
    rows = Ragged.from_lengths(states["arcs"])
    degree, first = rows.lengths, rows.offsets[:-1]
    if rows.total != len(arcs) or (states["first"][degree > 0] != first[degree > 0]).any():
        raise DataError("OpenFst bytes: the arcs are not stored state after state")
    return states["final"], degree, arcs


def _read_vector(reader: _Reader, header: _Header, weight: np.dtype[np.floating]) -> _Parts:
    wide = weight.itemsize // 4
    before, size = 2 + wide, 3 + wide
    body = reader.take(len(reader.data) - reader.place, "states")
    words = np.frombuffer(body, _WORD, len(body) // 4).astype(np.int32, copy=False)
    place, degree = _walk(words, header.n_states, wide)
    final = words[place[:, None] + np.arange(wide)].reshape(-1).view(weight)
    rows = Ragged.from_lengths(degree)
    at = rows.repeat(place + before) + size * rows.ranges()
    arcs = np.empty(len(at), _const_arc(weight))
    arcs["ilabel"], arcs["olabel"] = words[at], words[at + 1]
    arcs["weight"] = words[at[:, None] + np.arange(2, 2 + wide)].reshape(-1).view(weight)
    arcs["target"] = words[at + 2 + wide]
    return final, degree, arcs


def _walk(words: Ints, n_states: int, wide: int) -> tuple[Longs, Longs]:
    """Return the first word of each state and its number of arcs, by one step for each state."""
    total, size, place = len(words), 3 + wide, 0
    numbers = words.data  # items of it are Python's numbers
    places: list[int] = []
    degrees: list[int] = []
    while len(places) != n_states and (n_states >= 0 or place < total):
        count, arcs = place + wide, place + wide + 2  # the count has two words
        most = (total - arcs) // size
        if arcs > total or numbers[count + 1] or not 0 <= numbers[count] <= most:
            raise DataError(f"OpenFst bytes end within state {len(places)} of {n_states}")
        places.append(place)
        degrees.append(numbers[count])
        place = arcs + numbers[count] * size
    return np.asarray(places, dtype=np.int64), np.asarray(degrees, dtype=np.int64)


# --- pynini's machines ----------------------------------------------------------------------------
# Through bytes rather than arc by arc.


def pynini_module() -> ModuleType:
    """Import pynini.

    Raises
    ------
    MissingDependencyError
        It is not installed.
    """
    return optional(  # 700 MB that few need
        "pynini",
        "pynini is needed for this and not installed: `pip install pynini` has wheels for "
        "Linux on x86-64; elsewhere use `conda install -c conda-forge pynini`",
    )


def to_fst(machine: Machine, arc_type: ArcType = "log64") -> Any:
    """Return a machine as a ``pynini.Fst``, with its symbol tables.

    Parameters
    ----------
    machine : Machine or Transducer
    arc_type : {"standard", "log", "log64"}
        ``"standard"`` (tropical) for best paths, ``"log64"`` for sums; weights are −score, in
        float32 but for log64.

    Raises
    ------
    MissingDependencyError
        pynini is not installed.
    OptionError, NumericError, LabelError
        As `to_bytes`.
    """
    # Of const bytes pynini makes a vector machine sooner than of vector bytes.
    return pynini_module().Fst.read_from_string(to_bytes(machine, arc_type, fst_type="const"))


def _bytes_of(fst: object) -> bytes:
    pynini_module()
    import pywrapfst  # noqa: PLC0415 (comes with pynini)

    if not isinstance(fst, pywrapfst.Fst):
        raise OptionError(f"expected a pynini.Fst, not {type(fst).__name__}")
    if fst.properties(pywrapfst.ERROR, test=False):
        raise DataError("the Fst has its error flag set: the operation that built it failed")
    data: bytes = pywrapfst.convert(fst, "const").write_to_string()
    return data


def has_symbols(fst: object) -> bool:
    """Return whether a machine of pynini, or of a file, has a table of its input symbols.

    See `from_fst` for errors.
    """
    return _of_file(fst, lambda data: _Reader(data).header()[1][0]) is not None


def from_fst(fst: object, naming: Naming = AS_WRITTEN) -> Machine:
    """Read a ``pynini.Fst`` (or pywrapfst's), or the file of one; files need no pynini.

    `naming` is as for `from_bytes`.

    Raises
    ------
    MissingDependencyError
        pynini is not installed, and it is no file.
    OptionError
        It is no such machine.
    DataError
        It is in a state of error.
    OSError
        A file that cannot be read.
    DataError, LabelError, OptionError
        As `from_bytes`.
    """
    return _of_file(fst, lambda data: from_bytes(data, naming))


def _of_file(fst: object, read: Callable[[bytes], T]) -> T:
    if not isinstance(fst, str | Path):
        return read(_bytes_of(fst))
    try:
        return read(read_file(fst))
    except DataError as error:
        raise DataError(error.message, path=str(fst)) from None
