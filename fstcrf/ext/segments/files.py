"""Files of taggers of segments."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec
import numpy as np

from fstcrf.arrays import Array, Floats
from fstcrf.errors import FstcrfError, ModelFileError
from fstcrf.ext.segments.likelihood import ROLES, SegmentSpace
from fstcrf.ext.segments.phrases import PhraseTable, SegmentFeatures
from fstcrf.storage import SEGMENTS, VERSION, group, read_arrays
from fstcrf.text.corpus import named_scheme
from fstcrf.text.features import FeatureIndex

KIND = SEGMENTS

_LONGEST = 10_000  # tokens of a segment
_OURS = (FstcrfError, msgspec.MsgspecError)
_TABLE = ("parent", "string", "depth", "row", "attribute")


class SegmentRecord(msgspec.Struct, frozen=True):
    """The record of training."""

    target: str
    scheme: str
    sentences: int
    tokens: int
    weights: int
    iterations: int
    objective: float
    dev_score: float | None
    reason: str
    l2: float
    l1: float


class _Header(msgspec.Struct, frozen=True):
    labels: tuple[str, ...]
    columns: tuple[str, ...]
    scheme: str
    rows: int
    names: tuple[str, ...]
    tables: tuple[tuple[str, tuple[str, ...]], ...]  # column, strings
    record: SegmentRecord


class SavedSegmentCRF(NamedTuple):
    """The contents of a file."""

    labels: tuple[str, ...]
    attributes: FeatureIndex
    features: SegmentFeatures
    space: SegmentSpace
    theta: Floats
    columns: tuple[str, ...]
    scheme: str
    record: SegmentRecord


def encoded(kept: SavedSegmentCRF) -> tuple[dict[str, Array], dict[str, str]]:
    """Return the arrays and the metadata of a file."""
    space, features = kept.space, kept.features
    arrays: dict[str, Array] = {
        "theta": kept.theta,
        "cells": space.cells,
        "longest": space.longest,
        "tails": space.tails.astype(np.uint8),
        "features.cell": features.cell,
    }
    for k, table in enumerate(features.tables):
        for name in _TABLE:
            arrays[f"features.{k}.{name}"] = getattr(table, name)
    arrays |= {f"index.{name}": array for name, array in kept.attributes.arrays().items()}
    header = _Header(
        labels=kept.labels,
        columns=kept.columns,
        scheme=kept.scheme,
        rows=space.rows,
        names=features.names,
        tables=tuple((table.column, table.strings) for table in features.tables),
        record=kept.record,
    )
    metadata = {
        "header": msgspec.json.encode(header).decode(),
        "index": msgspec.json.encode(kept.attributes.metadata()).decode(),
    }
    return arrays, metadata


def read(path: str | os.PathLike[str]) -> SavedSegmentCRF:
    """Read a model.

    Raises
    ------
    ModelFileError
        Not such a file, of another version, or damaged.
    OSError
        It cannot be opened.
    """
    return decoded(*read_arrays(path, kind=KIND, version=VERSION), os.fspath(path))


def decoded(arrays: Mapping[str, Array], metadata: Mapping[str, str], name: str) -> SavedSegmentCRF:
    """Return the contents of a file from its arrays and metadata; `name` is for messages."""
    try:
        header = msgspec.json.decode(metadata["header"], type=_Header)
        about = msgspec.json.decode(metadata["index"], type=dict[str, Any])
        named_scheme(header.scheme)
        index = FeatureIndex.from_arrays(group(arrays, "index."), about)
        tables = tuple(
            PhraseTable(column, strings, *(arrays[f"features.{k}.{name}"] for name in _TABLE))
            for k, (column, strings) in enumerate(header.tables)
        )
        labels = len(header.labels)
        features = SegmentFeatures(tables, header.names, arrays["features.cell"], labels)
        _check_inside("longest", arrays["longest"], 1, _LONGEST + 1)
        space = SegmentSpace(
            labels,
            header.rows,
            arrays["cells"],
            arrays["longest"],
            arrays["tails"].astype(bool),
            len(features.cell),
        )
        _check_parts(space, features, arrays["theta"])
    except (LookupError, ValueError, OverflowError, RecursionError, *_OURS) as error:
        raise ModelFileError(f"{name}: damaged: {error}") from None
    parts = header.labels, index, features, space, arrays["theta"]
    return SavedSegmentCRF(*parts, header.columns, header.scheme, header.record)


def _check_inside(what: str, numbers: Array, least: int, end: int) -> None:
    if numbers.size and not (numbers.min() >= least and numbers.max() < end):
        raise ValueError(f"{what} holds numbers outside [{least}, {end})")


def _check_parts(space: SegmentSpace, features: SegmentFeatures, theta: Floats) -> None:
    """Refuse numbers that lead outside other arrays."""
    if not 0 <= space.rows < 1 << 31:
        raise ValueError(f"{space.rows} rows")
    if theta.shape != (space.size,) or not np.isfinite(theta).all():
        raise ValueError(f"{theta.size} weights, expected {space.size} finite ones")
    if space.longest.shape != (space.labels,) or space.tails.shape != (space.labels,):
        raise ValueError("the lengths do not match the labels")
    _check_inside("cells", space.cells, 0, space.rows * ROLES * space.width)
    _check_inside("features", features.cell, 0, len(features.names) * space.labels)
    for table in features.tables:
        nodes = len(table.parent)
        _check_inside("parent", table.parent, 0, nodes + 1)
        _check_inside("string", table.string, 0, len(table.strings))
        _check_inside("depth", table.depth, 0, nodes + 1)
        _check_inside("attribute", table.attribute, 0, len(features.names))
        if len(table.string) != nodes or len(table.row) != nodes + 1 or not len(table.depth):
            raise ValueError("the parts of a table of phrases disagree")
        if (np.diff(table.row) < 0).any() or table.row[-1] != len(table.attribute):
            raise ValueError("the rows of a table of phrases are not in rising order")
