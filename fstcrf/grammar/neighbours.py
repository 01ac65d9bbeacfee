"""Constraints on labels that touch: tagging schemes and lists of legal successions.

All are hard, or soft with ``weight=``: then each illegal succession, with the start and the end of
the sentence counted as neighbours, adds that natural-log score. ``tape=`` names the tape where
there are several.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

import numpy as np

from fstcrf.corpus.schemes import Scheme, legal_transitions, named_scheme
from fstcrf.errors import GrammarError
from fstcrf.grammar import rules
from fstcrf.grammar.acceptor import Acceptor
from fstcrf.grammar.constraint import checked_weight
from fstcrf.grammar.grammar import Grammar
from fstcrf.grammar.labels import LabelSets, nearest, only_tape
from fstcrf.grammar.monitor import monitor
from fstcrf.grammar.reading import Flags

__all__ = ["Neighbours", "bilou", "bio", "bioes", "iob1", "tagging_scheme", "transitions"]

Neighbours: TypeAlias = (
    Callable[[str | None, str | None], bool]
    | Mapping[str, Iterable[str | None]]
    | Mapping[str | None, Iterable[str | None]]
    | Iterable[tuple[str | None, str | None]]
)


def tagging_scheme(
    scheme: str | Scheme, *, tape: str | None = None, weight: float | None = None
) -> Grammar:
    """Only successions of labels that a tagging scheme allows.

    Parameters
    ----------
    scheme : str or Scheme
        Its name: ``iob1``, ``iob2`` (``bio``), ``bioes``, ``bilou``.
    tape, weight
        As everywhere here.

    Raises
    ------
    OptionError
        No such scheme; a weight that is not finite.

    Examples
    --------
    >>> legal = tagging_scheme("bio").bound(["O", "B-NP", "I-NP"])
    >>> legal.accepts(["B-NP", "I-NP"]), legal.accepts(["O", "I-NP"])
    (True, False)
    """
    table = named_scheme(scheme)
    name = "bio" if table.name == "iob2" else table.name
    return _about_neighbours(
        f"{name}()", lambda labels: legal_transitions(labels, table), tape, weight
    )


def bio(*, tape: str | None = None, weight: float | None = None) -> Grammar:
    """IOB2: B begins every span, I continues one of its type."""
    return tagging_scheme("iob2", tape=tape, weight=weight)


def iob1(*, tape: str | None = None, weight: float | None = None) -> Grammar:
    """IOB1: I everywhere, B only where a span touches one of its type before it."""
    return tagging_scheme("iob1", tape=tape, weight=weight)


def bioes(*, tape: str | None = None, weight: float | None = None) -> Grammar:
    """BIOES: a span of several tokens begins with B and ends with E, one of a token is S."""
    return tagging_scheme("bioes", tape=tape, weight=weight)


def bilou(*, tape: str | None = None, weight: float | None = None) -> Grammar:
    """BILOU: as BIOES, with L for E and U for S."""
    return tagging_scheme("bilou", tape=tape, weight=weight)


def transitions(
    allowed: Neighbours, *, tape: str | None = None, weight: float | None = None
) -> Grammar:
    """Only these neighbours.

    Parameters
    ----------
    allowed : iterable of pairs, mapping, or callable
        Pairs (label, next label): all that may touch. None is the start, as first, and the end, as
        second; where no pair has it, every label may begin (end) a sentence. A mapping from a
        label to those that may follow it restricts only the labels that are its keys. A callable
        is asked about every pair, those with None included.
    tape, weight
        As everywhere here.

    Examples
    --------
    >>> rule = transitions({"stop": [None]}).bound(["go", "stop"])  # nothing follows a stop
    >>> rule.accepts(["go", "stop"]), rule.accepts(["stop", "go"])
    (True, False)
    """
    if callable(allowed):
        return _about_neighbours(
            "transitions(…)", lambda labels: _asked(allowed, labels), tape, weight
        )
    if isinstance(allowed, Mapping):
        listed = [(a, b) for a, following in allowed.items() for b in following]
        keys = frozenset(allowed)
    else:
        listed = [(a, b) for a, b in allowed]
        keys = None
    return _about_neighbours(
        "transitions(…)", lambda labels: _given(listed, keys, labels), tape, weight
    )


def _asked(allowed: Callable[[str | None, str | None], bool], labels: tuple[str, ...]) -> Flags:
    ends = (*labels, None)
    return np.asarray([[bool(allowed(a, b)) for b in ends] for a in ends])


def _given(
    pairs: list[tuple[str | None, str | None]],
    keys: frozenset[str | None] | None,
    labels: tuple[str, ...],
) -> Flags:
    """Return which labels may follow which: bool [L + 1, L + 1], last row start, column end.

    All rows but those of the keys are free; without keys, the start and the end are where no pair
    names them.
    """
    index = {name: i for i, name in enumerate((*labels, None))}
    unknown = [name for name in (*(keys or ()), *sum(pairs, ())) if name not in index]
    if unknown:
        raise GrammarError(f"no label {unknown[0]!r}{nearest(str(unknown[0]), labels)}")
    legal = np.zeros((len(index), len(index)), dtype=bool)
    if keys is not None:
        legal[[i for name, i in index.items() if name not in keys]] = True
    else:
        legal[-1, :-1] = all(a is not None for a, _ in pairs)
        legal[:-1, -1] = all(b is not None for _, b in pairs)
        legal[-1, -1] = True
    for a, b in pairs:
        legal[index[a], index[b]] = True
    return legal


def _about_neighbours(
    title: str,
    legal: Callable[[tuple[str, ...]], Flags],
    tape: str | None,
    weight: float | None,
) -> Grammar:
    checked_weight(weight)

    def build(sets: LabelSets) -> tuple[Acceptor, ...]:
        chosen = only_tape(sets, tape)
        labels = sets[chosen]
        return (monitor(rules.never(), [~legal(labels)], chosen, labels, weight, title),)

    return Grammar.of(title, build)
