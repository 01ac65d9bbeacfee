"""The event "exactly this segment is there", as arcs that are taken away."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fstcrf.corpus import Scheme
from fstcrf.corpus.schemes import OUTSIDE, split_label
from fstcrf.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["SpanEvent", "span_event"]

Bools = NDArray[np.bool_]


class SpanEvent:
    """Which successions of labels begin, continue and leave a span of one type.

    Parameters
    ----------
    labels : sequence of L str
    scheme : Scheme
    kind : str
        Type of the span.

    Attributes
    ----------
    mine : bool [L]
        The label has this type.
    begins : bool [L + 1, L]
        From the label before (row L: the start of the sentence) to the first label of the span.
    continues : bool [L, L]
        Both labels belong to the same span.
    ends : bool [L]
        The label may be the last of a span.

    Raises
    ------
    OptionError
        No label has this type.
    """

    def __init__(self, labels: Sequence[str], scheme: Scheme, kind: str) -> None:
        parts = [split_label(label, scheme) for label in labels]
        mine = np.asarray([k == kind and letter != OUTSIDE for letter, k in parts])
        if not mine.any():
            known = ", ".join(sorted({k for letter, k in parts if letter != OUTSIDE}))
            raise OptionError(f"no label has the type {kind!r}; the types are {known or 'none'}")
        before = [*parts, (OUTSIDE, "")]
        starts = [[(a, b, ka == kb) in scheme.starts for b, kb in parts] for a, ka in before]
        inside = [[(a, b, ka == kb) in scheme.inside for b, kb in parts] for a, ka in parts]
        last = np.asarray([letter in scheme.last for letter, _ in parts])
        self.mine: Bools = mine
        self.begins: Bools = np.asarray(starts) & mine
        self.continues: Bools = np.asarray(inside) & mine
        self.ends: Bools = mine & last


@lru_cache(maxsize=256)
def span_event(labels: tuple[str, ...], scheme: Scheme, kind: str) -> SpanEvent:
    """Return the event of a type; kept, because it is asked for again and again."""
    return SpanEvent(labels, scheme, kind)
