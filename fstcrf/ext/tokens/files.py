"""Decoders as JSON: the contents of a file, with checks on reading."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np

from fstcrf.errors import DataError, ModelFileError
from fstcrf.ext.tokens.words import PieceRule
from fstcrf.machines.grammar import Acceptor, Constraint, Grammar

FORMAT = "fstcrf-token-decoder"
VERSION = 1


class StoredAcceptor(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An acceptor of a grammar, as for `fstcrf.Grammar.from_arrays`; `None` is no final state."""

    name: str
    target: tuple[tuple[int, ...], ...]
    final: tuple[float | None, ...]
    score: tuple[tuple[float, ...], ...] | None = None


class DecoderFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The contents of a `TokenDecoder`'s file."""

    format: str
    version: int
    labels: tuple[str, ...]
    scheme: str
    pieces: PieceRule
    temperature: float
    biases: dict[str, float]
    thresholds: dict[str, float | None] | None = None
    calibration: Any = None
    grammar: tuple[StoredAcceptor, ...] | None = None


def read_file(value: Any, where: str) -> DecoderFile:
    """Return a decoder's contents from JSON; ModelFileError for other contents or versions."""
    known = value if isinstance(value, Mapping) else {}
    if known.get("format") != FORMAT:
        raise ModelFileError(f"{where}: holds {known.get('format')!r}, expected {FORMAT!r}")
    if known.get("version") != VERSION:
        raise ModelFileError(
            f"{where}: version {known.get('version')!r}, this fstcrf reads {VERSION}"
        )
    try:
        return msgspec.convert(value, DecoderFile)
    except msgspec.ValidationError as error:
        raise ModelFileError(f"{where}: not a sound decoder: {error}") from None


def machines(grammar: Grammar | None, labels: tuple[str, ...]) -> tuple[StoredAcceptor, ...] | None:
    """Return the acceptors of a grammar over these labels."""
    if grammar is None:
        return None
    return tuple(
        StoredAcceptor(
            one.name,
            tuple(tuple(row) for row in one.target.tolist()),
            tuple(None if x == -math.inf else x for x in one.final.tolist()),
            None if one.score is None else tuple(tuple(row) for row in one.score.tolist()),
        )
        for one in grammar.bind(labels)
    )


def grammar_of(given: tuple[StoredAcceptor, ...] | None, labels: tuple[str, ...]) -> Grammar | None:
    """Return the grammar that acceptors are; DataError where their rows are not of these labels."""
    if given is None:
        return None
    constraints: list[Constraint] = []
    for one in given:
        if any(len(row) != len(labels) for row in (*one.target, *(one.score or ()))):
            raise DataError(f"grammar {one.name}: its rows are not one number a label")
        final = [-math.inf if x is None else x for x in one.final]
        acceptor = Acceptor(
            ("",),
            (labels,),
            np.asarray(one.target, dtype=np.int32).reshape(-1, len(labels)),
            None if one.score is None else np.asarray(one.score, dtype=np.float64),
            np.asarray(final, dtype=np.float64),
            one.name,
        )
        constraints += Grammar.from_acceptor(acceptor).constraints
    return Grammar(constraints)
