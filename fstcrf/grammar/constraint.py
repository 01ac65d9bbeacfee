"""One part of a grammar, before and after it is bound to label sets."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from fstcrf.arguments import real_number
from fstcrf.errors import GrammarError, LabelError, OptionError
from fstcrf.grammar.acceptor import Acceptor
from fstcrf.grammar.algebra import is_empty
from fstcrf.grammar.labels import LabelSets
from fstcrf.once import making

__all__ = ["Constraint", "checked_weight"]

_Key = tuple[tuple[str, tuple[str, ...]], ...]


@dataclass(frozen=True, eq=False)
class Constraint:
    """A constraint that becomes acceptors when the labels are known.

    Parameters
    ----------
    name : str
        What it is, for messages: ``at_most(1, "NP")``.
    build : callable
        Label sets to acceptors.
    """

    name: str
    build: Callable[[LabelSets], tuple[Acceptor, ...]]
    _bound: dict[_Key, tuple[Acceptor, ...]] = field(default_factory=dict, repr=False)

    def bind(self, sets: LabelSets) -> tuple[Acceptor, ...]:
        """Return its acceptors over these label sets, made once.

        Raises
        ------
        GrammarError
            A name that is neither label nor type; a tape that is not there; nothing is accepted.
        """
        key = tuple(sets.items())
        with making(self, key):
            if key not in self._bound:
                self._bound.setdefault(key, self._checked(sets))
        return self._bound[key]

    def _checked(self, sets: LabelSets) -> tuple[Acceptor, ...]:
        try:
            acceptors = self.build(sets)
        except (GrammarError, LabelError) as error:
            if isinstance(error, GrammarError) and error.line is not None:
                raise
            raise GrammarError(f"{self.name}: {error}") from None
        for acceptor in acceptors:
            if is_empty(acceptor):
                known = " and ".join(str(len(labels)) for labels in acceptor.labels)
                raise GrammarError(f"{acceptor.name} accepts nothing over these {known} labels")
        return acceptors


def checked_weight(weight: float | None) -> float | None:
    """Return the natural-log score of a violation.

    Raises
    ------
    OptionError
        It is no finite real number.
    """
    if weight is None:
        return None
    score = real_number(weight, "weight")
    if not math.isfinite(score):
        raise OptionError(f"weight is {weight}, expected a finite score; leave it out to forbid")
    return score
