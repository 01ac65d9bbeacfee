"""What lattices do not answer yet: cells that must fail, each group with one error and one reason.

A gap that closes fails its test until its lines are gone. AssertionError: what is answered is
something else than was asked.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from typing import NamedTuple

import pytest

from fstcrf import errors

__all__ = ["ALGEBRA", "QUESTIONS", "Gap", "gap_of", "hold"]

_GROUPS = {
    "tokens": "chain, second order, joint, arrays, moving arrays",
    "arcs": "segments, spans, sausage, ctc, words, acyclic, paths",
    "lists": "fstcrf.best, fstcrf.nbest, fstcrf.log_partition, fstcrf.marginals, fstcrf.sample",
    "span lists": "lattices.probable_spans, lattices.span_probabilities",
    "risks": "minimum_risk of tokens, minimum_risk of spans",
    "changes": "restrict, scale, weighted, without_grammar",
    "forms": "to_att, draw, plan",
    "alive": "alone, hard, soft",
    "ruled": "hard, soft, dead, empty soft, empty dead",
    "there": "alone, hard, soft, empty, empty soft",
}


class Gap(NamedTuple):
    """Cells of a table of three sides, each by its names; none: all."""

    names: tuple[frozenset[str], ...]
    raises: type[Exception]
    reason: str


def _read(text: str) -> list[Gap]:
    """Read gaps: a line of names by sides, and one of the error and the reason."""
    lines, found = text.strip().splitlines(), []
    for head, tail in zip(lines[::2], lines[1::2], strict=True):
        named = [side.strip() for side in head.split("|")]
        sides = [", ".join(_GROUPS.get(n, n) for n in own.split(", ")) for own in named]
        names = tuple(frozenset(own.split(", ")) - {"*"} for own in sides)
        kind, reason = tail.strip().split(": ", 1)
        raises = getattr(errors, kind, None) or getattr(builtins, kind)
        found.append(Gap(names, raises, reason))
    return found


def gap_of(gaps: Sequence[Gap], *names: str) -> Gap | None:
    """Return the first gap that has a cell."""
    for gap in gaps:
        if all(not own or name in own for own, name in zip(gap.names, names, strict=True)):
            return gap
    return None


def hold(gaps: Sequence[Gap], names: Sequence[str], check: Callable[[], None]) -> None:
    """Check a cell; where there is a gap, that it fails as the gap says."""
    gap = gap_of(gaps, *names)
    if gap is None:
        return check()
    try:
        check()
    except gap.raises:
        return None
    pytest.fail(f"{', '.join(names)}: answered, so the gap is to go: {gap.reason}")


# Of kinds, questions and states.
QUESTIONS = _read("""
ctc | lattices.probable_spans | *
    OptionError: runs of frames are not listed
ctc | probable_spans, minimum_risk of spans | alive
    OptionError: runs of frames are not listed
""")

# Of kinds, kinds beside them, and operations.
ALGEBRA = _read("""
acyclic | chain, second order, joint, arcs | *
    OptionError: it has arcs that read no token
chain, second order, joint, arcs | acyclic | *
    OptionError: it has arcs that read no token
""")
