"""The index of templates as arrays and JSON values, and back with everything checked.

=============== =============================================================
index_arrays    strings, keys and rows as flat arrays
index_metadata  templates and options as JSON values
read_templates  the templates and options of a model file
read_tables     the attributes of a model file
=============== =============================================================

::

    strings.blob    uint8 [B]     all strings, UTF-8: member lists, then vocabularies
    strings.offsets int64 [n + 1] string i is blob[offsets[i] : offsets[i + 1]]
    strings.starts  int64 [v + 1] list or vocabulary j has the strings starts[j] : starts[j + 1]
    node.keys       uint64 [A]    keys, increasing within each family
    node.rows       int32 [A]     row of each key, a permutation
    node.starts     int64 [f + 1] family j has the keys starts[j] : starts[j + 1]
    node.prefix.*                 the same three for the prefixes of families beyond 63 bits
    arc.*                         the same for label pairs
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fstcrf.errors import ModelFileError, OptionError, TemplateError
from fstcrf.features.families import BOUNDARIES, Boundary, Family, sources
from fstcrf.features.hashed import Hashed
from fstcrf.features.hashing import check_bits
from fstcrf.features.keys import KeyTable, Packing, width_of
from fstcrf.features.parse import parse_template
from fstcrf.features.tables import Tables, Vocabularies
from fstcrf.features.template import TemplateSet
from fstcrf.features.vocabulary import Vocabulary, check_blob, pack_strings, unpack_strings

__all__ = ["field", "index_arrays", "index_metadata", "read_tables", "read_templates"]

KIND = "templates"
VERSION = 1


def index_metadata(
    templates: TemplateSet, boundary: Boundary, hash_bits: int | None
) -> dict[str, Any]:
    """Return the templates and options as JSON values."""
    return {
        "kind": KIND,
        "version": VERSION,
        "templates": str(templates),
        "lists": list(templates.lists),
        "boundary": boundary,
        "hash_bits": hash_bits,
    }


def index_arrays(
    templates: TemplateSet, node: Tables | Hashed, arc: Tables | Hashed
) -> dict[str, NDArray[Any]]:
    """Return strings, keys and rows as flat arrays."""
    groups: list[Sequence[str]] = list(templates.lists.values())
    arrays: dict[str, NDArray[Any]] = {}
    for name, side in (("node", node), ("arc", arc)):
        if isinstance(side, Tables):
            prefixes = [table for packing in side.packings for table in packing.prefixes]
            arrays |= _flat(name, side.keys) | _flat(f"{name}.prefix", prefixes)
    if isinstance(node, Tables):
        groups += [v.strings for v in node.vocabularies.by_source.values()]
    blob, offsets = pack_strings([string for group in groups for string in group])
    starts = np.cumsum([0, *map(len, groups)], dtype=np.int64)
    return arrays | {"strings.blob": blob, "strings.offsets": offsets, "strings.starts": starts}


def read_templates(
    arrays: Mapping[str, NDArray[Any]], metadata: Mapping[str, Any]
) -> tuple[TemplateSet, Boundary, int | None]:
    """Return the templates, the boundary and the hash bits of a model file.

    Raises
    ------
    ModelFileError
        Something is missing, or not what it must be.
    """
    found = metadata.get("kind"), metadata.get("version")
    if found != (KIND, VERSION):
        raise ModelFileError(f"the index is {found}, expected {(KIND, VERSION)}")
    text, names = metadata.get("templates"), metadata.get("lists")
    boundary, bits = metadata.get("boundary"), metadata.get("hash_bits")
    if not isinstance(text, str) or not isinstance(names, list):  # JSON may hold anything
        raise ModelFileError("the index names no templates")
    if boundary not in BOUNDARIES:
        raise ModelFileError(f"the index has boundary {boundary!r}, expected one of {BOUNDARIES}")
    blob, offsets, bounds = _groups(arrays)
    groups = [
        unpack_strings(*_cut(blob, offsets, a, b), "strings")
        for a, b in pairwise(bounds[: len(names) + 1])
    ]
    try:
        lists = dict(zip(names, groups, strict=True))
        templates = parse_template(text, lists=lists, source="the model's templates")
        bits = check_bits(bits)
    except (TemplateError, OptionError, TypeError, ValueError) as error:
        raise ModelFileError(f"the index is damaged: {error}") from None
    if any(isinstance(column, int) for column in templates.columns):
        raise ModelFileError("the index reads columns by number, expected names")
    return templates, boundary, bits


def read_tables(
    arrays: Mapping[str, NDArray[Any]],
    node: Sequence[Family],
    arc: Sequence[Family],
    *,
    distance: int,
    boundary: Boundary,
) -> tuple[Tables, Tables]:
    """Return the attributes of a model file.

    Parameters
    ----------
    arrays : mapping of str to array
        As `index_arrays` made them.
    node, arc : sequence of Family
        Families of its templates.
    distance : int
        Distance of the farthest pad.
    boundary : {"pad", "skip", "wapiti"}
        What strings outside the sentence are.

    Raises
    ------
    ModelFileError
        Something is missing, or not what it must be.
    """
    (blob, offsets, bounds), used = _groups(arrays), sources((*node, *arc))
    if len(bounds) - 1 < len(used):
        raise ModelFileError(f"the index has {len(bounds) - 1} vocabularies, expected {len(used)}")
    cuts = pairwise(bounds[len(bounds) - 1 - len(used) :])
    by_source = {
        s: Vocabulary.from_blob(*_cut(blob, offsets, a, b), "a vocabulary of the index")
        for s, (a, b) in zip(used, cuts, strict=True)
    }
    vocabularies = Vocabularies(distance, by_source, boundary)
    return (
        _side(arrays, "node", tuple(node), vocabularies),
        _side(arrays, "arc", tuple(arc), vocabularies),
    )


def field(arrays: Mapping[str, NDArray[Any]], name: str, dtype: type[np.generic]) -> NDArray[Any]:
    """Return one array of a model file.

    Raises
    ------
    ModelFileError
        It is missing, or of another type or rank.
    """
    if name not in arrays:
        raise ModelFileError(f"the index has no array {name!r}")
    array = arrays[name]
    if array.dtype != dtype or array.ndim != 1:
        raise ModelFileError(
            f"{name} is {array.dtype} {list(array.shape)}, expected {np.dtype(dtype)} [n]"
        )
    return array


def _flat(name: str, tables: Sequence[KeyTable]) -> dict[str, NDArray[Any]]:
    keys = [table.keys for table in tables] or [np.empty(0, dtype=np.uint64)]
    rows = [table.rows for table in tables] or [np.empty(0, dtype=np.int32)]
    return {
        f"{name}.keys": np.concatenate(keys),
        f"{name}.rows": np.concatenate(rows),
        f"{name}.starts": np.cumsum([0, *map(len, tables)], dtype=np.int64),
    }


def _groups(
    arrays: Mapping[str, NDArray[Any]],
) -> tuple[NDArray[np.uint8], NDArray[np.int64], list[int]]:
    """Return all strings as a blob, and where member lists and vocabularies begin and end."""
    blob = field(arrays, "strings.blob", np.uint8)
    offsets = field(arrays, "strings.offsets", np.int64)
    check_blob(blob, offsets, "strings")
    return blob, offsets, _bounds(arrays, "strings.starts", len(offsets) - 1)


def _cut(
    blob: NDArray[np.uint8], offsets: NDArray[np.int64], first: int, end: int
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return the strings ``first : end`` of a blob as a blob of their own."""
    bounds = offsets[first : end + 1]
    return blob[bounds[0] : bounds[-1]], bounds - bounds[0]


def _bounds(arrays: Mapping[str, NDArray[Any]], name: str, size: int) -> list[int]:
    starts = field(arrays, name, np.int64)
    ends = (0, size)
    if not len(starts) or (starts[0], starts[-1]) != ends or np.any(np.diff(starts) < 0):
        raise ModelFileError(f"{name} does not partition {size} entries")
    return list(starts.tolist())


def _read_flat(arrays: Mapping[str, NDArray[Any]], name: str) -> list[KeyTable]:
    keys = field(arrays, f"{name}.keys", np.uint64)
    rows = field(arrays, f"{name}.rows", np.int32)
    if len(keys) != len(rows):
        raise ModelFileError(f"{name} has {len(keys)} keys and {len(rows)} rows")
    bounds = _bounds(arrays, f"{name}.starts", len(keys))
    tables = [KeyTable(keys[a:b], rows[a:b]) for a, b in pairwise(bounds)]
    if any(np.any(table.keys[1:] <= table.keys[:-1]) for table in tables):
        raise ModelFileError(f"{name}.keys do not increase")
    return tables


def _side(
    arrays: Mapping[str, NDArray[Any]],
    name: str,
    families: tuple[Family, ...],
    vocabularies: Vocabularies,
) -> Tables:
    keys, prefixes = _read_flat(arrays, name), _read_flat(arrays, f"{name}.prefix")
    if len(keys) != len(families):
        raise ModelFileError(f"{name} has {len(keys)} families, the templates {len(families)}")
    _check_permutation(np.concatenate([np.empty(0, np.int32), *(t.rows for t in keys)]), name)
    for table in prefixes:
        _check_permutation(table.rows, f"{name}.prefix")
    remaining = iter(prefixes)
    packings = tuple(_packing(f, vocabularies, remaining, name) for f in families)
    if next(remaining, None) is not None:
        raise ModelFileError(f"{name}.prefix has more tables than the templates need")
    for family, packing, table in zip(families, packings, keys, strict=True):
        _check_keys(family, packing, table, vocabularies, name)
    return Tables(families, vocabularies, packings, tuple(keys))


def _packing(
    family: Family, vocabularies: Vocabularies, prefixes: Iterator[KeyTable], name: str
) -> Packing:
    widths = [width_of(vocabularies.size(source)) for source in family.sources]
    try:
        return Packing.of_tables(widths, prefixes)
    except StopIteration:
        raise ModelFileError(f"{name}.prefix has fewer tables than the templates need") from None


def _check_permutation(rows: NDArray[np.int32], name: str) -> None:
    if not np.array_equal(np.sort(rows), np.arange(len(rows), dtype=np.int32)):
        raise ModelFileError(f"{name}.rows is not a permutation of its {len(rows)} rows")


def _check_keys(
    family: Family, packing: Packing, table: KeyTable, vocabularies: Vocabularies, name: str
) -> None:
    """Check that every key stands for strings that exist."""
    damaged = ModelFileError(f"{name}.keys holds numbers of strings that do not exist")
    try:
        codes = packing.unpack(table.keys)
    except IndexError:
        raise damaged from None
    sizes = [vocabularies.size(source) for source in family.sources]
    if any(np.any(code >= np.uint64(size)) for code, size in zip(codes, sizes, strict=True)):
        raise damaged
    if packing.prefixes:
        again, _ = packing.pack(codes, len(table))
        if not np.array_equal(again, table.keys):
            raise damaged
    elif len(table) and int(table.keys[-1]) >> packing.bits:
        raise damaged
