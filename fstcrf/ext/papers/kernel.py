"""The counts of a few labels of a few tokens, added where their weights are."""

from __future__ import annotations

import numpy as np

from fstcrf.arrays import Floats, Ints, Longs
from fstcrf.errors import ShapeError
from fstcrf.kernel import SparseRows
from fstcrf.kernel.native import array_in, ffi, lib


def scatter(
    rows: SparseRows, token: Longs, slot: Longs, mass: Floats, place: Ints, out: Floats
) -> None:
    """Add the attributes of some tokens to parameters, each times a mass.

    Parameters
    ----------
    rows : SparseRows [N, R]
    token, slot : int64 [K]
        A row, and a column of `place`.
    mass : float64 [K]
    place : int32 [R, W]
        Parameter of each attribute and slot, below `size`; negative without one.
    out : float64 [size]
        Array to which values are added.

    Raises
    ------
    ShapeError
        A token, slot or place out of range, another shape or dtype. If a place is out of range,
        earlier values have been added.
    """
    where, value = ffi.new("int64_t *"), rows.value
    status = lib.fc_scatter(
        len(token),
        array_in(token, np.int64, (len(token),), "token"),
        array_in(slot, np.int64, (len(token),), "slot"),
        array_in(mass, np.float64, (len(token),), "mass"),
        len(rows),
        rows.n_columns,
        place.shape[1],
        array_in(rows.indptr, np.int64, (len(rows) + 1,), "indptr"),
        array_in(rows.index, np.int32, rows.index.shape, "index"),
        ffi.NULL if value is None else array_in(value, np.float32, value.shape, "value"),
        array_in(place, np.int32, (rows.n_columns, place.shape[1]), "place"),
        out.size,
        array_in(out, np.float64, out.shape, "out", writable=True),
        where,
    )
    if status != lib.FC_OK:
        raise ShapeError(
            f"mass of entry {where[0]}: its token, slot or a place of its row is out of range"
        )
