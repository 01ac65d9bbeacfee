"""Hashes: of a tagger, of what decides the course of a training run."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from fstcrf.model.crf import CRF
from fstcrf.model.options import Options
from fstcrf.train import ParameterSpace, Problem

__all__ = ["fingerprint", "run_fingerprint"]

Floats = NDArray[np.float64]


def fingerprint(model: CRF) -> str:
    """Return a hash of a model's labels and weights."""
    digest = hashlib.sha256("\0".join(model.labels).encode())
    digest.update(np.ascontiguousarray(model.theta).data)
    return digest.hexdigest()


def run_fingerprint(
    settings: Options,
    problem: Problem,
    space: ParameterSpace,
    theta: Floats,
    gold: list[list[str]] | None,
) -> str:
    """Hash what decides the course of training."""
    stored = msgspec.structs.replace(settings, max_iterations=None)
    digest = hashlib.sha256(msgspec.json.encode((stored, problem.topology.labels, gold)))
    arrays: list[NDArray[Any]] = [problem.offsets, problem.weight, theta]
    arrays += [np.packbits(problem.allowed), space.node_cells, space.transitions]
    arrays.append(space.arc_cells)
    for rows in (problem.node, problem.arc):
        if rows is not None:
            arrays += [rows.indptr, rows.index]
            arrays += [] if rows.value is None else [rows.value]
    for array in arrays:
        digest.update(f"{array.dtype}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data if array.size else b"")
    return digest.hexdigest()
