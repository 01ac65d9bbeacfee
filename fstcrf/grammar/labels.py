"""The label sets that a grammar is bound to, and messages about labels that are not in them.

==============  ==============================================================
LabelSets       the label set of each tape
label_sets      label sets as a caller gives them
only_tape       the tape that a constraint of one tape reads
nearest         the known names that look most like an unknown one
==============  ==============================================================
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import SequenceMatcher, get_close_matches
from typing import Any, TypeAlias

from fstcrf.arguments import LabelSet, label_tuple
from fstcrf.errors import GrammarError

__all__ = ["LabelSets", "Labels", "label_sets", "nearest", "only_tape"]

Labels: TypeAlias = LabelSet | Mapping[str, LabelSet]
"""The labels of the only tape, or of each tape by name."""

LabelSets: TypeAlias = Mapping[str, tuple[str, ...]]


def label_sets(labels: Labels) -> dict[str, tuple[str, ...]]:
    """Return the label set of each tape; a single set is that of the tape ``""``.

    Raises
    ------
    GrammarError
        No tape, no labels, a label twice, or something that is no set of labels.
    """
    by_tape = isinstance(labels, Mapping) and all(isinstance(key, str) for key in labels)
    given: Mapping[Any, Any] = labels if isinstance(labels, Mapping) and by_tape else {"": labels}
    sets: dict[str, tuple[str, ...]] = {}
    if not given:
        raise GrammarError("no tape to bind a grammar to")
    for tape in given:
        on = f"tape {tape!r}: " if tape else ""
        known = sets[tape] = label_tuple(given[tape], place=on, error=GrammarError)
        if not known:
            raise GrammarError(f"{on}no labels to bind a grammar to")
        if len(set(known)) < len(known):
            twice = next(label for i, label in enumerate(known) if label in known[:i])
            raise GrammarError(f"{on}label {twice!r} occurs twice in the label set")
    return sets


def only_tape(sets: LabelSets, tape: str | None) -> str:
    """Return the tape that a constraint reads: the one it names, or the only one there is.

    Raises
    ------
    GrammarError
        There are several, or none of that name.
    """
    if len(sets) == 1 and (tape is None or "" in sets):
        return next(iter(sets))
    if tape is None:
        raise GrammarError(f"there are the tapes {listed(sets)}; say which one it reads: tape=...")
    if tape not in sets:
        raise GrammarError(f"no tape {tape!r}; the tapes are {listed(sets)}")
    return tape


def nearest(name: str, known: Iterable[str]) -> str:
    """Return the end of a message about an unknown name: the known names that look like it."""
    candidates = list(dict.fromkeys(known))
    folded = {candidate.lower(): candidate for candidate in candidates}
    close = get_close_matches(name.lower(), folded, n=3, cutoff=0.5)
    # Letters in another order are nearer than other letters.
    close.sort(key=lambda each: -SequenceMatcher(None, name.lower(), each).quick_ratio())
    if close:
        return f"; the nearest are {listed(folded[c] for c in close)}"
    more = ", …" if len(candidates) > 8 else ""
    return f"; there are {listed(candidates[:8])}{more}"


def listed(names: Iterable[str]) -> str:
    """Return names in quotes, separated by commas."""
    return ", ".join(repr(name) for name in names)
