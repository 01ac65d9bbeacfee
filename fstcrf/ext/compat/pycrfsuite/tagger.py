"""The tagger: a model file in, labels and probabilities out, or its text."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn, Self

import numpy as np

from fstcrf import kernel
from fstcrf.arrays import Longs
from fstcrf.errors import DataError, FstcrfError, LabelError, ModelFileError
from fstcrf.ext.compat.pycrfsuite.items import Found, Items, Lookup, labels_of
from fstcrf.ext.foreign.crfsuite import STATE, TRANSITION, CRFsuiteModel, as_tagger, read_model
from fstcrf.files import atomic_write
from fstcrf.kernel.single import SentenceGraph
from fstcrf.lazy import made_once
from fstcrf.taggers import CRF

_COUNTS = ("num_features", "num_labels", "num_attrs")
_OFFSETS = ("off_features", "off_labels", "off_attrs", "off_labelrefs", "off_attrrefs")


class NotOpenError(FstcrfError, ValueError, RuntimeError):
    """A tagger that has no model open, or no sequence set."""


class InvalidModelError(ModelFileError, ValueError):
    """A file, or bytes, that is no model of CRFsuite or is damaged."""


class UnknownLabelError(LabelError, RuntimeError):
    """A label that the model does not have."""


@dataclass(frozen=True, eq=False)
class _Opened:
    """A model file that has been read."""

    model: CRFsuiteModel
    header: dict[str, str]  # its fields, as the dump shows them

    @classmethod
    def of(cls, data: bytes, where: str) -> Self:
        """Read the bytes of a model file."""
        try:
            return cls(read_model(data, where), _header(data))
        except ModelFileError as error:
            raise InvalidModelError(str(error)) from None


def _header(data: bytes) -> dict[str, str]:
    words = np.frombuffer(data, dtype="<u4", count=12).tolist()
    names = ("size", "version", *_COUNTS)
    fields = {"magic": data[:4].decode("latin-1"), "type": data[8:12].decode("latin-1")}
    fields |= {name: str(words[i]) for name, i in zip(names, (1, 3, 4, 5, 6), strict=True)}
    fields |= {name: f"0x{word:X}" for name, word in zip(_OFFSETS, words[7:], strict=True)}
    return {
        name: fields[name] for name in ("magic", "size", "type", "version", *_COUNTS, *_OFFSETS)
    }


def _dumped(opened: _Opened) -> Iterator[str]:
    """Yield the text in pieces."""
    model = opened.model
    yield from _part("FILEHEADER", (f"  {name}: {field}" for name, field in opened.header.items()))
    yield from _part("LABELS", (f"  {i:5d}: {name}" for i, name in enumerate(model.labels)))
    yield from _part("ATTRIBUTES", (f"  {i:5d}: {name}" for i, name in enumerate(model.attributes)))
    for title, kind in (("TRANSITIONS", TRANSITION), ("STATE_FEATURES", STATE)):
        lines = (
            f"  ({kind}) {source} --> {label}: {weight}"
            for source, label, weight in _weights(model, kind)
        )
        yield from _part(title, lines)


def _part(title: str, lines: Iterator[str]) -> Iterator[str]:
    yield f"{title} = {{\n"
    for line in lines:
        yield f"{line}\n"
    yield "}\n\n"


def _weights(model: CRFsuiteModel, kind: int) -> Iterator[tuple[str, str, str]]:
    """Yield source, label and the weight as the dump writes it."""
    features = model.of_type(kind)
    sources = model.attributes if kind == STATE else model.labels
    src, dst = features["src"].tolist(), features["dst"].tolist()
    for i, j, weight in zip(src, dst, features["weight"].tolist(), strict=True):
        yield sources[i], model.labels[j], f"{weight:f}"


def parsed(opened: _Opened) -> ParsedDump:
    """Return the dump of a model, with weights rounded to six decimals.

    It is not read from the text, in which names with line breaks would be lost.
    """
    model, result = opened.model, ParsedDump()
    result.header = dict(opened.header)
    result.labels = {name: str(i) for i, name in enumerate(model.labels)}
    result.attributes = {name: str(i) for i, name in enumerate(model.attributes)}
    result.transitions = {(a, b): float(w) for a, b, w in _weights(model, TRANSITION)}
    result.state_features = {(a, b): float(w) for a, b, w in _weights(model, STATE)}
    return result


# --- Decoding -------------------------------------------------------------------------------------

# Among several best labellings, CRFsuite chooses the one with the smaller label at the latest token
# at which they differ; the kernel, at the earliest token. Best paths are therefore found in
# reverse: on the reversed sequence, with transposed transitions.


class _Decoder:
    """The weights of a tagger of `load_crfsuite`, laid out for one sequence at a time."""

    def __init__(self, crf: CRF) -> None:
        space, graph = crf.space, crf._weights.static_graph
        weights = space.parts(crf.theta)[0]
        # One more row than attributes, for unknown attributes.
        table = kernel.PackedTable.from_cells(
            space.n_node_rows + 1, space.width, space.node_cells, weights
        )
        self._table = graph.score.reshape(graph.n_states, -1)
        mirrored = np.ascontiguousarray(self._table.T).ravel()
        self._single = SentenceGraph(table, graph)
        self.posterior = self._single.posterior
        reverse = kernel.Graph(graph.final, graph.initial, mirrored)
        self.best = SentenceGraph(table, reverse, mirrored=True).labels

    def score(self, found: Found, labels: Longs) -> float:
        """Return the score of a labelling [T], natural log."""
        node = np.asarray(self._single.potentials(found.sentence))
        transitions = self._table[labels[:-1], labels[1:]].sum()
        return float(node[np.arange(len(labels)), labels].sum() + transitions)


# --- The tagger -----------------------------------------------------------------------------------


class Tagger:
    """A tagger; `open` a model first.

    ``tagger.crf`` is the same model as a `fstcrf.CRF`, which offers n-best lists, grammars
    (``tagger.crf & grammar``) and composition.

    Without an open model, every method raises `NotOpenError`, a ValueError and a RuntimeError;
    without a sequence, so do the methods about a sequence.
    """

    def __init__(self) -> None:
        self._loaded: _Loaded | None = None
        self._sequence: Found | None = None

    # --- The model ----------------------------------------------------------------------------

    def open(self, name: str | bytes | os.PathLike[str]) -> contextlib.closing[Tagger]:
        """Open a model file; the result can be used in a ``with`` statement.

        Raises
        ------
        OSError
            The file cannot be read.
        InvalidModelError
            It is no model of CRFsuite, or damaged. Also a ValueError.
        """
        path = os.fsdecode(name)
        return self._open(Path(path).read_bytes(), path)

    def open_inmemory(self, value: bytes) -> contextlib.closing[Tagger]:
        """Open a model given as the content of its file.

        Raises
        ------
        InvalidModelError
            As for `open`.
        """
        if not isinstance(value, (bytes, bytearray, memoryview)):
            raise TypeError(f"the bytes of a model are expected, not {type(value).__name__}")
        return self._open(bytes(value), "<bytes>")

    def _open(self, data: bytes, where: str) -> contextlib.closing[Tagger]:
        opened = _Opened.of(data, where)
        self._loaded, self._sequence = _Loaded(opened, where), None
        return contextlib.closing(self)

    def close(self) -> None:
        """Close the model."""
        self._loaded = self._sequence = None

    @property
    def crf(self) -> CRF:
        """The model as a tagger of fstcrf."""
        return self._model.crf

    @property
    def _model(self) -> _Loaded:
        return self._loaded or _not_open()

    def labels(self) -> list[str]:
        """Return the labels of the model."""
        return list(self._model.names)

    # --- Tagging ------------------------------------------------------------------------------

    def set(self, xseq: Items) -> None:
        """Set the sequence that `tag`, `probability` and `marginal` are about.

        Parameters
        ----------
        xseq : ItemSequence or iterable of items
            Each item a dict or a list of strings.

        Raises
        ------
        ItemError
            An invalid item.
        """
        self._sequence = self._model.lookup.found(xseq)

    def tag(self, xseq: Items | None = None) -> list[str]:
        """Return the best labels of a sequence.

        Parameters
        ----------
        xseq : ItemSequence or iterable of items, optional
            The sequence that was set, when absent.

        Raises
        ------
        ItemError
            As for `set`.
        """
        model = self._loaded or _not_open()
        if xseq is None:
            found = self._sequence or _not_set()
        else:  # not read back from the attribute: another thread may set its own there
            found = self._sequence = model.lookup.found(xseq)
        names = model.names
        return [names[number] for number in model.decoder.best(found.sentence)]

    def probability(self, yseq: Iterable[str | bytes]) -> float:
        """Return the probability of a label sequence, given the sequence that was set.

        Raises
        ------
        DataError
            Another number of labels than of items.
        UnknownLabelError
            A label that the model does not have.
        """
        number, labels = self._model.number, labels_of(yseq)
        if odd := [label for label in labels if label not in number]:
            raise UnknownLabelError(f"{odd[0]!r} is no label of the model")
        numbers = [number[label] for label in labels]
        found = self._sequence or _not_set()
        if len(numbers) != len(found.bounds) - 1:
            raise DataError(f"{len(numbers)} labels for {len(found.bounds) - 1} items")
        if not numbers:
            return 1.0
        score = self._model.decoder.score(found, np.array(numbers, dtype=np.int64))
        return float(np.exp(min(0.0, score - self._posterior(found)[0])))

    def marginal(self, y: str, pos: int) -> float:
        """Return the probability of a label at a position of the sequence that was set.

        Raises
        ------
        DataError
            The sequence has no such position.
        UnknownLabelError
            A label that the model does not have.
        """
        model, found = self._loaded or _not_open(), self._sequence or _not_set()
        number = model.number.get(y)
        if number is None:
            raise UnknownLabelError(f"{y!r} is no label of the model")
        if not 0 <= pos < len(found.bounds) - 1:
            raise DataError(f"position {pos} of a sequence of {len(found.bounds) - 1} items")
        return (found.posterior or self._posterior(found))[1][pos][number]

    def marginals(self) -> list[dict[str, float]]:
        """Return the probabilities of all labels at all positions of the sequence that was set.

        python-crfsuite has no such method.
        """
        names, (_, rows) = self._model.names, self._posterior(self._sequence or _not_set())
        return [dict(zip(names, row, strict=True)) for row in rows]

    def _posterior(self, found: Found) -> tuple[float, list[list[float]]]:
        """Return log Z of a sequence, and the probabilities of labels [T][L]."""
        if found.posterior is None:
            found.posterior = self._model.decoder.posterior(found.sentence)
        return found.posterior

    # --- Looking inside -----------------------------------------------------------------------

    def dump(self, filename: str | os.PathLike[str] | None = None) -> None:
        """Write the model as text.

        Parameters
        ----------
        filename : path, optional
            Standard output when absent.
        """
        pieces = _dumped(self._model.opened)
        if filename is None:
            sys.stdout.writelines(pieces)
            return
        with atomic_write(os.fsdecode(filename)) as file:
            file.writelines(piece.encode() for piece in pieces)

    def info(self) -> ParsedDump:
        """Return header, labels, attributes and weights."""
        return parsed(self._model.opened)


def _not_open() -> NoReturn:
    raise NotOpenError("the tagger is not opened: call open(filename) first")


def _not_set() -> NoReturn:
    raise NotOpenError("no sequence is set: call set(items) or tag(items) first")


class _Loaded:
    """An open model, in a layout for fast tagging."""

    def __init__(self, opened: _Opened, where: str) -> None:
        self.opened, self._where = opened, where
        self.names = opened.model.labels
        self.number = {name: i for i, name in enumerate(self.names)}

    @made_once
    def crf(self) -> CRF:
        try:
            return as_tagger(self.opened.model, where=self._where)
        except ModelFileError as error:
            raise InvalidModelError(str(error)) from None

    @made_once
    def decoder(self) -> _Decoder:
        return _Decoder(self.crf)

    @made_once
    def lookup(self) -> Lookup:
        return Lookup(self.opened.model.attributes)


# --- The dump, read -------------------------------------------------------------------------------

_BEGIN = re.compile(r"(FILEHEADER|LABELS|ATTRIBUTES|TRANSITIONS|STATE_FEATURES) = \{")
_ENTRY = re.compile(r"(\w+): (.*)", re.DOTALL)
# Names may contain anything, including arrows; only the number at the end is certain.
_WEIGHT = re.compile(r"\(\d+\) (.*) --> (.*): ([+-]?\d+\.\d+)", re.DOTALL)


@dataclass(eq=False)
class ParsedDump:
    """The contents of a model."""

    header: dict[str, str] = field(default_factory=dict)  # fields of the file's header
    # labels, attributes: name → number
    labels: dict[str, str] = field(default_factory=dict)
    attributes: dict[str, str] = field(default_factory=dict)
    # transitions: (label, next label) → weight; state_features: (attribute, label) → weight
    transitions: dict[tuple[str, str], float] = field(default_factory=dict)
    state_features: dict[tuple[str, str], float] = field(default_factory=dict)


class CRFsuiteDumpParser:
    """Reads a dump line by line; `result` has the contents so far, `state` the current part."""

    def __init__(self) -> None:
        self.state: str | None = None
        self.result = ParsedDump()

    def feed(self, line: str) -> None:
        """Read one line; DataError if it does not fit, for example after a line break in a name."""
        text = line.lstrip().rstrip("\r\n")
        begin = _BEGIN.match(text)
        if begin:
            self.state = begin[1]
        elif text == "}":
            self.state = None
        elif text:
            self._entry(text)

    def _entry(self, text: str) -> None:
        found = self.result
        named = {"FILEHEADER": found.header, "LABELS": found.labels, "ATTRIBUTES": found.attributes}
        weighted = {
            "TRANSITIONS": (found.labels, found.transitions),
            "STATE_FEATURES": (found.attributes, found.state_features),
        }
        if self.state in named and (entry := _ENTRY.fullmatch(text)):
            if self.state == "FILEHEADER":
                found.header[entry[1]] = entry[2]
            else:
                named[self.state][entry[2]] = entry[1]
            return
        if self.state in weighted and (entry := _WEIGHT.fullmatch(text)):
            sources, weights = weighted[self.state]
            source, label = _names(entry[1], entry[2], sources, found.labels)
            weights[source, label] = float(entry[3])
            return
        raise DataError(f"a dump of CRFsuite has no line {text!r} in {self.state or 'no part'}")


def _names(
    source: str, label: str, sources: dict[str, str], labels: dict[str, str]
) -> tuple[str, str]:
    """Divide two names at the arrow that makes both of them known."""
    parts = f"{source} --> {label}".split(" --> ")
    for i in range(1, len(parts)):
        first, second = " --> ".join(parts[:i]), " --> ".join(parts[i:])
        if first in sources and second in labels:
            return first, second
    raise DataError(f"a weight of {source!r} and {label!r}, which the dump does not list")
