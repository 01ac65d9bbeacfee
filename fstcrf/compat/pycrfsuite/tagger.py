"""The tagger: a model file in, labels and probabilities out."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fstcrf.compat.dumptext import ParsedDump
from fstcrf.compat.pycrfsuite.decoding import Decoder
from fstcrf.compat.pycrfsuite.dump import Opened, dumped, parsed
from fstcrf.compat.pycrfsuite.errors import InvalidModelError, NotOpenError, UnknownLabelError
from fstcrf.compat.pycrfsuite.items import ItemSequence, labels_of
from fstcrf.compat.pycrfsuite.lookup import Attributes, Lookup
from fstcrf.errors import DataError, ModelFileError
from fstcrf.interop.crfsuite import as_tagger
from fstcrf.model import CRF

__all__ = ["Tagger"]

Floats = NDArray[np.float64]


class Tagger:
    """A tagger; `open` a model first.

    ``tagger.crf`` is the same model as a `fstcrf.CRF`: with it come n-best lists, grammars
    (``tagger.crf & grammar``), composition.
    """

    def __init__(self) -> None:
        self._loaded: _Loaded | None = None
        self._sequence: _Sequence | None = None

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
        opened = Opened.of(data, where)
        self._loaded, self._sequence = _Loaded(opened, where), None
        return contextlib.closing(self)

    def close(self) -> None:
        """Close the model."""
        self._loaded = self._sequence = None

    @property
    def crf(self) -> CRF:
        """The model as a tagger of fstcrf.

        Raises
        ------
        NotOpenError
            No model is open.
        """
        return self._model.crf

    @property
    def _model(self) -> _Loaded:
        if self._loaded is None:
            raise NotOpenError("the tagger is not opened: call open(filename) first")
        return self._loaded

    def labels(self) -> list[str]:
        """Return the labels of the model.

        Raises
        ------
        NotOpenError
            No model is open.
        """
        return list(self._model.names)

    # --- Tagging ------------------------------------------------------------------------------

    def set(self, xseq: Iterable[Any] | ItemSequence) -> None:
        """Set the sequence that `tag`, `probability` and `marginal` are about.

        Parameters
        ----------
        xseq : ItemSequence or iterable of items
            Each item a dict or a list of strings.

        Raises
        ------
        NotOpenError
            No model is open.
        ItemError
            An item that is not what it must be.
        """
        model = self._model
        self._sequence = _Sequence(model.decoder, model.lookup.rows(xseq))

    def tag(self, xseq: Iterable[Any] | ItemSequence | None = None) -> list[str]:
        """Return the best labels of a sequence.

        Parameters
        ----------
        xseq : ItemSequence or iterable of items, optional
            The sequence that was set, when absent.

        Raises
        ------
        NotOpenError, ItemError
            As for `set`.
        """
        model = self._model
        if xseq is not None:
            self.set(xseq)
        sequence = self._set
        if not sequence.length:
            return []
        return model.named(model.decoder.best(sequence.node))

    def probability(self, yseq: Iterable[str]) -> float:
        """Return the probability of a label sequence, given the sequence that was set.

        Raises
        ------
        NotOpenError
            No model is open, or no sequence set.
        DataError
            Another number of labels than of items.
        UnknownLabelError
            A label that the model does not have.
        """
        numbers = [self._number(label) for label in labels_of(yseq)]
        sequence = self._set
        if len(numbers) != sequence.length:
            raise DataError(f"{len(numbers)} labels for {sequence.length} items")
        if not numbers:
            return 1.0
        score = self._model.decoder.score(sequence.node, np.array(numbers, dtype=np.int64))
        log_z, _ = sequence.posterior
        return float(min(1.0, np.exp(score - log_z)))

    def marginal(self, y: str, pos: int) -> float:
        """Return the probability of a label at a position of the sequence that was set.

        Raises
        ------
        NotOpenError
            No model is open, or no sequence set.
        DataError
            The sequence has no such position.
        UnknownLabelError
            A label that the model does not have.
        """
        number, sequence = self._number(y), self._set
        if not 0 <= pos < sequence.length:
            raise DataError(f"position {pos} of a sequence of {sequence.length} items")
        return sequence.probabilities[pos][number]

    def marginals(self) -> list[dict[str, float]]:
        """Return the probabilities of all labels at all positions of the sequence that was set.

        python-crfsuite has no such method.

        Raises
        ------
        NotOpenError
            No model is open, or no sequence set.
        """
        sequence, names = self._set, self._model.names
        if not sequence.length:
            return []
        return [dict(zip(names, row, strict=True)) for row in sequence.probabilities]

    @property
    def _set(self) -> _Sequence:
        _ = self._model
        if self._sequence is None:
            raise NotOpenError("no sequence is set: call set(items) or tag(items) first")
        return self._sequence

    def _number(self, label: str) -> int:
        number = self._model.number.get(label)
        if number is None:
            raise UnknownLabelError(f"{label!r} is no label of the model")
        return number

    # --- Looking inside -----------------------------------------------------------------------

    def dump(self, filename: str | os.PathLike[str] | None = None) -> None:
        """Write the model as text.

        Parameters
        ----------
        filename : path, optional
            Standard output when absent.

        Raises
        ------
        NotOpenError
            No model is open. Also a RuntimeError.
        """
        pieces = dumped(self._model.opened)
        if filename is None:
            sys.stdout.writelines(pieces)
            return
        with Path(os.fsdecode(filename)).open("w", encoding="utf-8", newline="\n") as file:
            file.writelines(pieces)

    def info(self) -> ParsedDump:
        """Return header, labels, attributes and weights.

        Raises
        ------
        NotOpenError
            No model is open. Also a RuntimeError.
        """
        return parsed(self._model.opened)


class _Loaded:
    """An open model, laid out for what it is asked for."""

    def __init__(self, opened: Opened, where: str) -> None:
        self.opened, self._where = opened, where
        self.names = opened.model.labels
        self.number = {name: i for i, name in enumerate(self.names)}

    @cached_property
    def crf(self) -> CRF:
        try:
            return as_tagger(self.opened.model, where=self._where)
        except ModelFileError as error:
            raise InvalidModelError(str(error)) from None

    @cached_property
    def decoder(self) -> Decoder:
        return Decoder(self.crf)

    @cached_property
    def lookup(self) -> Lookup:
        return Lookup(self.opened.model.attributes)

    def named(self, numbers: list[int]) -> list[str]:
        """Return labels by their numbers."""
        return list(map(self.names.__getitem__, numbers))


class _Sequence:
    """A sequence that was set, and what has been computed of it."""

    def __init__(self, decoder: Decoder, rows: Attributes) -> None:
        self._decoder, self._rows = decoder, rows
        self.length = rows.n_tokens

    @cached_property
    def node(self) -> Floats:
        return self._decoder.potentials(self._rows)

    @cached_property
    def posterior(self) -> tuple[float, Floats]:
        return self._decoder.posterior(self.node)

    @cached_property
    def probabilities(self) -> list[list[float]]:
        found: list[list[float]] = self.posterior[1].tolist()
        return found
