"""Files of trained word lattices: weights and features, with the lexicon or without it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, NamedTuple

import msgspec
import numpy as np

from fstcrf.arrays import Array
from fstcrf.errors import FstcrfError, ModelFileError
from fstcrf.ext.lexicon import Characters, Dictionary, Lexicon
from fstcrf.ext.lexicon.kernel import UNIT, WORD_ENTRY
from fstcrf.ext.words.scores import WordWeights
from fstcrf.ext.words.templates import Rewrites, WordTemplates
from fstcrf.files import path_name
from fstcrf.kernel.strings import pack_strings
from fstcrf.storage import read_arrays, write_arrays

KIND, VERSION = "fstcrf-words", 1


class LatticeRecord(msgspec.Struct, frozen=True):
    """The record of training."""

    texts: int
    weights: int
    iterations: int
    objective: float
    dev_score: float | None
    reason: str
    l2: float
    l1: float


class _LexiconHeader(msgspec.Struct, frozen=True):
    # one pair for each dictionary, then one for unknown words
    contexts: tuple[tuple[int, int], ...]
    words: tuple[int, ...]
    kinds: tuple[str, ...]
    matrix: tuple[int, int]
    unit: float
    longest_run: int


class _Header(msgspec.Struct, frozen=True):
    templates: str
    rewrites: str
    label: tuple[int, ...]
    costs: float
    lexicon: _LexiconHeader
    within: bool  # the lexicon is in the file
    record: LatticeRecord


class SavedLatticeCRF(NamedTuple):
    """The contents of a file."""

    lexicon: Lexicon
    templates: WordTemplates
    rewrites: Rewrites
    weights: WordWeights
    label: tuple[int, ...]
    record: LatticeRecord


_PARTS = ("unigrams", "firsts", "seconds")


def write(path: str | os.PathLike[str], kept: SavedLatticeCRF, *, lexicon: bool) -> None:
    """Write a model, whole or not at all.

    Raises
    ------
    OSError
        The file cannot be written.
    """
    write_arrays(path, *encoded(kept, lexicon=lexicon), kind=KIND, version=VERSION)


def encoded(kept: SavedLatticeCRF, *, lexicon: bool) -> tuple[dict[str, Array], dict[str, str]]:
    """Return a model as arrays and metadata."""
    weights = kept.weights
    arrays: dict[str, Array] = {name: getattr(weights, name) for name in ("words", "pair", "pairs")}
    for name in _PARTS:
        keys = getattr(weights, name)
        text, offsets = pack_strings([string for _, string in keys])
        arrays[f"{name}.text"], arrays[f"{name}.offsets"] = text, offsets
        arrays[f"{name}.template"] = np.asarray([k for k, _ in keys], dtype=np.int32)
    if lexicon:
        arrays |= _lexicon_arrays(kept.lexicon)
    header = _Header(
        str(kept.templates),
        kept.rewrites.source,
        kept.label,
        weights.costs,
        _described(kept.lexicon),
        lexicon,
        kept.record,
    )
    return arrays, {"header": msgspec.json.encode(header).decode()}


def read(
    path: str | os.PathLike[str], lexicon: Lexicon | None = None, *, mapped: bool | None = None
) -> SavedLatticeCRF:
    """Read or map a model.

    Raises
    ------
    ModelFileError
        Not such a file, another version, or damage; or the lexicon is not in the file, and the
        given lexicon is missing or has other words.
    OSError
        It cannot be opened.
    """
    name = path_name(path)
    return decoded(*read_arrays(path, kind=KIND, version=VERSION, mapped=mapped), name, lexicon)


def decoded(
    arrays: Mapping[str, Array],
    metadata: Mapping[str, str],
    name: str,
    lexicon: Lexicon | None = None,
) -> SavedLatticeCRF:
    """Return the model that arrays and metadata describe; raises as `read`."""
    try:
        header = msgspec.json.decode(metadata["header"], type=_Header)
        templates = WordTemplates.parse(header.templates)
        rewrites = Rewrites.parse(header.rewrites)
        weights = _weights(arrays, header, templates)
        if header.within and lexicon is None:
            lexicon = _lexicon(arrays, header.lexicon)
    except (KeyError, ValueError, OverflowError, msgspec.MsgspecError, FstcrfError) as error:
        raise ModelFileError(f"{name}: damaged: {error}") from None
    if lexicon is None:
        raise ModelFileError(f"{name}: its lexicon is not in the file: give it, lexicon=")
    found = _described(lexicon)
    if found.words != header.lexicon.words or found.kinds != header.lexicon.kinds:
        raise ModelFileError(
            f"{name}: trained with a lexicon of {header.lexicon.words} words; the one given has "
            f"{found.words}"
        )
    return SavedLatticeCRF(lexicon, templates, rewrites, weights, header.label, header.record)


def _weights(arrays: Mapping[str, Any], header: _Header, templates: WordTemplates) -> WordWeights:
    sizes = len(templates.unigrams), len(templates.bigrams), len(templates.bigrams)
    keys = [_keys(arrays, name, size) for name, size in zip(_PARTS, sizes, strict=True)]
    words, pair, pairs = (arrays[name] for name in ("words", "pair", "pairs"))
    if words.shape != (len(keys[0]),) or pairs.shape != pair.shape or pair.ndim != 1:
        raise ValueError("weights and features are not as many")
    if not (np.isfinite(words).all() and np.isfinite(pairs).all() and np.isfinite(header.costs)):
        raise ValueError("weights that are not finite")
    inside = len(keys[1]) * len(keys[2])
    if len(pair) and (pair[0] < 0 or pair[-1] >= inside or (np.diff(pair) <= 0).any()):
        raise ValueError("features of neighbours out of order")
    return WordWeights(keys[0], keys[1], keys[2], words, pair, pairs, header.costs)


def _keys(arrays: Mapping[str, Any], name: str, templates: int) -> list[tuple[int, str]]:
    text, offsets = arrays[f"{name}.text"], arrays[f"{name}.offsets"]
    template = arrays[f"{name}.template"]
    if (
        offsets.shape != (len(template) + 1,)
        or offsets[0] != 0
        or offsets[-1] != len(text)
        or (np.diff(offsets) < 0).any()
        or (len(template) and not 0 <= template.min() <= template.max() < templates)
    ):
        raise ValueError(f"{name} are no strings of {templates} templates")
    data, bounds = text.tobytes(), offsets.tolist()
    strings = [data[a:b].decode() for a, b in pairwise(bounds)]
    return list(zip(template.tolist(), strings, strict=True))


# --- The words of a lexicon as a tagger of characters ---------------------------------------------


class SavedWordTagger(NamedTuple):
    """The contents of a tagger's file."""

    label: tuple[int, ...]
    tape: str
    column: str | None
    scheme: str
    lexicon: Lexicon
    model: SavedLatticeCRF | None  # without a model, words have the scores of the lexicon


class _TaggerHeader(msgspec.Struct, frozen=True):
    label: tuple[int, ...]
    tape: str
    column: str | None
    scheme: str
    lexicon: _LexiconHeader | None  # `None` for the lexicon of the model


def encoded_tagger(kept: SavedWordTagger) -> tuple[dict[str, Array], dict[str, str]]:
    """Return a tagger as arrays and metadata."""
    arrays, metadata = _lexicon_arrays(kept.lexicon), dict[str, str]()
    described: _LexiconHeader | None = _described(kept.lexicon)
    if kept.model is not None:
        described = None
        arrays, metadata = encoded(kept.model, lexicon=True)
    header = _TaggerHeader(kept.label, kept.tape, kept.column, kept.scheme, described)
    return arrays, metadata | {"tagger": msgspec.json.encode(header).decode()}


def decoded_tagger(
    arrays: Mapping[str, Array], metadata: Mapping[str, str], name: str
) -> SavedWordTagger:
    """Return the tagger that arrays and metadata describe.

    Raises
    ------
    ModelFileError
        Damaged.
    """
    try:
        header = msgspec.json.decode(metadata["tagger"], type=_TaggerHeader)
        parts = header.label, header.tape, header.column, header.scheme
        if header.lexicon is not None:
            return SavedWordTagger(*parts, _lexicon(arrays, header.lexicon), None)
        model = decoded(arrays, metadata, name)
    except (KeyError, ValueError, OverflowError, msgspec.MsgspecError) as error:
        raise ModelFileError(f"{name}: damaged: {error}") from None
    return SavedWordTagger(*parts, model.lexicon, model)


# --- The lexicon ----------------------------------------------------------------------------------


def _described(lexicon: Lexicon) -> _LexiconHeader:
    dictionaries = (*lexicon.dictionaries, lexicon.unknown)
    return _LexiconHeader(
        tuple(one.contexts for one in dictionaries),
        tuple(map(len, dictionaries)),
        lexicon.characters.names,
        (int(lexicon.matrix.shape[0]), int(lexicon.matrix.shape[1])),
        lexicon.unit,
        lexicon.tables.longest_run,
    )


def _lexicon_arrays(lexicon: Lexicon) -> dict[str, Array]:
    found: dict[str, Array] = {
        "characters": lexicon.characters.codes,
        "matrix": np.ascontiguousarray(lexicon.matrix).reshape(-1).view(np.uint16),
    }
    for k, one in enumerate((*lexicon.dictionaries, lexicon.unknown)):
        found[f"dictionary.{k}.units"] = _words(one.units)
        found[f"dictionary.{k}.entries"] = _words(one.entries)
        found[f"dictionary.{k}.features"] = one.features
    return found


def _words(table: Array) -> Array:
    """Return structures as 32-bit numbers: their items are as long as some of these."""
    return np.ascontiguousarray(table).view(np.uint32)


def _lexicon(arrays: Mapping[str, Any], header: _LexiconHeader) -> Lexicon:
    found: list[Dictionary] = []
    for k, (contexts, words) in enumerate(zip(header.contexts, header.words, strict=True)):
        units, entries, features = (
            arrays[f"dictionary.{k}.{name}"] for name in ("units", "entries", "features")
        )
        one = Dictionary(units.view(UNIT), entries.view(WORD_ENTRY), features, contexts)
        if len(one) != words:
            raise ValueError(f"dictionary {k} has {len(one)} words, expected {words}")
        found.append(one)
    codes = arrays["characters"]
    if not header.kinds or not len(codes) or (codes >> 18 & 0xFF).max() >= len(header.kinds):
        raise ValueError("a character has an unknown category")
    return Lexicon(
        found[:-1],
        found[-1],
        Characters(header.kinds, codes),
        arrays["matrix"].view(np.int16).reshape(header.matrix),
        unit=header.unit,
        longest_run=header.longest_run,
    )
