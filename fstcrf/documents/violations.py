"""What a model of violations offers: the log of its score of a document, and how that changes.

==============  ==================================================================
ViolationModel  a model, told of a document
Violations      its scores of that document
Recounted       a model from one function, which counts anew each time
bound_to        a model's scores of a document, checked
log_score       what a model returned, as a number
==============  ==================================================================

The score of a document is that of the tagger plus those of the models, in natural logs; a violation
of penalty theta that occurs n times brings n log theta (Finkel et al. 2005, equation 5). A model
that says by how much a change of few labels changes its score can be sampled; it need not be
normalised.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from fstcrf.documents.document import Document
from fstcrf.errors import OptionError

__all__ = ["Recounted", "ViolationModel", "Violations", "bound_to", "log_score"]


def log_score(score: object, model: str) -> float:
    """Return what a model returned as a number.

    Raises
    ------
    OptionError
        It is none.
    """
    try:
        return float(score)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        kind = type(score).__name__
        raise OptionError(
            f"the violation model {model} returned a {kind}, expected a log score: a number or −inf"
        ) from None


class Violations(Protocol):
    """A model's scores of one document, as its labels change."""

    def start(self, labels: Sequence[str]) -> float:
        """Return the score of labels, one for each token of the document, and remember them.

        −inf forbids them: sampling then asks again with others, and never stays where it is −inf.
        """

    def change(self, first: int, labels: Sequence[str]) -> float:
        """Return by how much the score changes if tokens from `first` on had these labels.

        −inf forbids them.
        """

    def keep(self) -> None:
        """Remember the labels of the last `change`: they are the document's now."""


class ViolationModel(Protocol):
    """A model of violations."""

    def bind(self, document: Document) -> Violations:
        """Return the scores of a document."""


def bound_to(model: ViolationModel, document: Document) -> Violations:
    """Return what a model's `bind` returns.

    Raises
    ------
    OptionError
        It lacks a method.
    """
    found = model.bind(document)
    for method in ("start", "change", "keep"):
        if not callable(getattr(found, method, None)):
            raise OptionError(
                f"the violation model {type(model).__name__}: bind returned a "
                f"{type(found).__name__} without a method {method}; it needs start, change, keep"
            )
    return found


@dataclass(frozen=True, slots=True)
class Recounted:
    """A model of violations from one function, which is asked anew for every change.

    Parameters
    ----------
    score : callable
        ``score(document, labels)`` returns the log score of the labels of all tokens.

    Examples
    --------
    At most two persons in a document, softly:

    >>> Recounted(lambda document, labels: -4.0 * max(0, labels.count("B-PER") - 2))
    ... # doctest: +ELLIPSIS
    Recounted(score=...)
    """

    score: Callable[[Document, Sequence[str]], float]

    def bind(self, document: Document) -> Violations:
        """Return the scores of a document."""
        return _Recount(self.score, document)


class _Recount:
    def __init__(
        self, score: Callable[[Document, Sequence[str]], float], document: Document
    ) -> None:
        self._score, self._document = score, document
        self._labels: list[str] = []
        self._changed: list[str] = []
        self._value = self._new = 0.0

    def start(self, labels: Sequence[str]) -> float:
        self._labels = list(labels)
        self._value = self._asked(self._labels)
        return self._value

    def change(self, first: int, labels: Sequence[str]) -> float:
        self._changed = self._labels.copy()
        self._changed[first : first + len(labels)] = labels
        self._new = self._asked(self._changed)
        return self._new - self._value

    def _asked(self, labels: Sequence[str]) -> float:
        return log_score(self._score(self._document, labels), "Recounted")

    def keep(self) -> None:
        self._labels, self._value = self._changed, self._new
