"""Files of compositions: all taggers, their weights and the grammar's acceptors in one.

=====  ===========================================================
save   a composition, whole or not at all
read   a composition, or any other model
=====  ===========================================================

A composition is compiled again when it is loaded; pynini is not needed for that.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

import msgspec
import numpy as np

from fstcrf.arrays import Array
from fstcrf.errors import FstcrfError, ModelFileError
from fstcrf.joint.jointmodel import JointModel
from fstcrf.lazy import LazyModule
from fstcrf.model import file as model_file
from fstcrf.model.model import Model
from fstcrf.storage import file_kind, read_arrays, write_arrays

if TYPE_CHECKING:
    from fstcrf import grammar as grammars
    from fstcrf.grammar import Acceptor
    from fstcrf.joint import component
    from fstcrf.joint.component import TapeMap
else:
    grammars, component = LazyModule("fstcrf.grammar"), LazyModule("fstcrf.joint.component")

__all__ = ["KIND", "read", "save"]

KIND, VERSION = "fstcrf-composition", 1


class _Acceptor(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    tapes: tuple[str, ...]
    labels: tuple[tuple[str, ...], ...]
    name: str


class _Map(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    tape: str
    labels: tuple[str, ...]
    acceptor: _Acceptor


class _Relabelling(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    reader: str
    read: str
    tape: str
    labels: tuple[str, ...]


class _Header(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    taggers: tuple[dict[str, str], ...]  # the metadata of each
    weights: tuple[float, ...]
    normalize: Literal["product", "chain"]
    conjuncts: tuple[_Acceptor, ...]
    maps: tuple[_Map, ...]
    relabellings: tuple[_Relabelling, ...] = ()
    search: Literal["auto", "lazy", "expanded"] = "auto"


def save(composition: JointModel, path: str | os.PathLike[str]) -> None:
    """Write a composition; the file appears complete or not at all.

    Raises
    ------
    OSError
        The file cannot be written.
    """
    arrays: dict[str, Array] = {}
    taggers = []
    for k, tagger in enumerate(composition.taggers):
        own, metadata = model_file.encoded(tagger)
        arrays |= {f"tagger{k}.{name}": array for name, array in own.items()}
        taggers.append(metadata)
    for k, acceptor in enumerate(composition.conjuncts):
        arrays |= _acceptor_arrays(f"conjunct{k}.", acceptor)
    for k, tape_map in enumerate(composition.maps):
        arrays |= _acceptor_arrays(f"map{k}.", tape_map.acceptor)
    for k, relabelling in enumerate(composition.relabellings):
        arrays[f"relabelling{k}.place"] = relabelling.place
    header = _Header(
        taggers=tuple(taggers),
        weights=composition.weights,
        normalize=composition.normalize,
        conjuncts=tuple(_acceptor_header(a) for a in composition.conjuncts),
        maps=tuple(_Map(m.tape, m.labels, _acceptor_header(m.acceptor)) for m in composition.maps),
        relabellings=tuple(
            _Relabelling(r.reader, r.read, r.tape, r.labels) for r in composition.relabellings
        ),
        search=composition.search,
    )
    metadata = {"composition": msgspec.json.encode(header).decode()}
    write_arrays(path, arrays, metadata, kind=KIND, version=VERSION)


def read(path: str | os.PathLike[str]) -> Model | JointModel:
    """Map a model file: a tagger or a composition of taggers.

    Raises
    ------
    ModelFileError
        Not a model file, of another version, or damaged.
    OSError
        The file cannot be opened.
    """
    if file_kind(path) != KIND:
        return model_file.read(path)
    arrays, metadata = read_arrays(path, kind=KIND, version=VERSION)
    name = os.fspath(path)
    try:
        header = msgspec.json.decode(metadata["composition"], type=_Header)
        return _composition(header, arrays, name)
    except KeyError as error:
        raise ModelFileError(f"{name}: not a sound composition: no {error}") from None
    except (msgspec.DecodeError, FstcrfError) as error:
        raise ModelFileError(f"{name}: not a sound composition: {error}") from None


def _composition(header: _Header, arrays: Mapping[str, Array], name: str) -> JointModel:
    maps: list[TapeMap] = []
    for k, known in enumerate(header.maps):
        acceptor = _acceptor(known.acceptor, _group(arrays, f"map{k}."))
        if len(acceptor.tapes) != 2 or acceptor.tapes[1] != known.tape:
            raise ModelFileError(f"the map to {known.tape!r} has tapes {acceptor.tapes}")
        maps.append(component.TapeMap(known.tape, known.labels, acceptor))
    return JointModel(
        taggers=tuple(
            model_file.decoded(_group(arrays, f"tagger{k}."), metadata, name)
            for k, metadata in enumerate(header.taggers)
        ),
        weights=header.weights,
        conjuncts=tuple(
            _acceptor(known, _group(arrays, f"conjunct{k}."))
            for k, known in enumerate(header.conjuncts)
        ),
        maps=tuple(maps),
        normalize=header.normalize,
        relabellings=tuple(
            component.Relabelling(
                r.reader, r.read, r.tape, r.labels, arrays[f"relabelling{k}.place"]
            )
            for k, r in enumerate(header.relabellings)
        ),
        search=header.search,
    )


def _acceptor_arrays(prefix: str, acceptor: Acceptor) -> dict[str, Array]:
    arrays: dict[str, Array] = {
        f"{prefix}target": acceptor.target,
        f"{prefix}final": acceptor.final,
    }
    if acceptor.score is not None:
        arrays[f"{prefix}score"] = acceptor.score
    return arrays


def _acceptor_header(acceptor: Acceptor) -> _Acceptor:
    return _Acceptor(acceptor.tapes, acceptor.labels, acceptor.name)


def _acceptor(header: _Acceptor, arrays: Mapping[str, Array]) -> Acceptor:
    target, final, score = arrays["target"], arrays["final"], arrays.get("score")
    scores = (final,) if score is None else (final, score)
    if final.ndim != 1 or any(array.dtype != np.float64 for array in scores):
        raise ModelFileError(f"the scores of {header.name} are not float64 arrays")
    return grammars.Acceptor(header.tapes, header.labels, target, score, final, header.name)


def _group(arrays: Mapping[str, Array], prefix: str) -> dict[str, Array]:
    return {
        name.removeprefix(prefix): array
        for name, array in arrays.items()
        if name.startswith(prefix)
    }
