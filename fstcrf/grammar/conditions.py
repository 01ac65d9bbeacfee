"""Constraints of other constraints, and of several tapes at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fstcrf.errors import GrammarError, OptionError
from fstcrf.grammar.acceptor import Acceptor
from fstcrf.grammar.algebra import either, trim
from fstcrf.grammar.constraint import checked_weight
from fstcrf.grammar.grammar import Grammar
from fstcrf.grammar.labels import LabelSets, listed, nearest
from fstcrf.grammar.minimise import minimise
from fstcrf.grammar.occurrences import at_least, never
from fstcrf.grammar.reading import Names, SchemeName, frozen, shown

__all__ = ["if_present", "pairs"]


def if_present(
    name: Names,
    then: Names | Grammar,
    *,
    tape: str | None = None,
    scheme: SchemeName = "conlleval",
    weight: float | None = None,
) -> Grammar:
    """Where a name occurs in a sentence, something else holds of that sentence.

    Parameters
    ----------
    name : names
        What may occur: labels, types.
    then : names or Grammar
        What occurs then too, or the hard grammar that holds then. It may read another tape.
    tape, scheme
        The tape of the name, and how its labels are read. They are those of names in `then`, too.
    weight : float, optional
        Natural-log score of a sentence that breaks it. Forbidden when absent.

    Raises
    ------
    GrammarError
        When bound: a soft grammar.

    Examples
    --------
    >>> from fstcrf.constraints import before
    >>> rule = if_present("X", before("A", "B")).bound(["A", "B", "X"])
    >>> rule.accepts(["B", "A"]), rule.accepts(["B", "A", "X"])
    (True, False)
    """
    chosen = frozen(name)
    what = then if isinstance(then, Grammar) else at_least(1, then, tape=tape, scheme=scheme)
    other = " & ".join(part.name for part in what.constraints)
    title = f"if_present({shown(chosen)}, {other})"
    absent = never(chosen, tape=tape, scheme=scheme)
    checked_weight(weight)

    def build(sets: LabelSets) -> tuple[Acceptor, ...]:
        parts = what.bind(sets)
        soft = next((part.name for part in parts if part.weighted), None)
        if soft is not None:
            raise GrammarError(f"{soft} is soft; expected a hard grammar")
        without = _accepting(absent, sets)
        return tuple(_softened(either(without, part), weight, title) for part in parts)

    return Grammar.of(title, build)


def _accepting(grammar: Grammar, sets: LabelSets) -> Acceptor:
    # Not by way of bind, which takes a grammar that forbids every label for an error.
    return grammar.constraints[0].build(sets)[0]


def _softened(acceptor: Acceptor, weight: float | None, name: str) -> Acceptor:
    rejected = -np.inf if weight is None else weight
    final = np.where(acceptor.final > -np.inf, acceptor.final, rejected)
    return minimise(trim(replace(acceptor, final=final, name=name)))


def pairs(
    allowed: Mapping[str, Iterable[str]] | Iterable[tuple[str, ...]],
    tapes: Sequence[str],
    *,
    weight: float | None = None,
) -> Grammar:
    """Only these labels of several tapes at one token.

    Parameters
    ----------
    allowed : iterable of tuples, or mapping
        Tuples of a label of each tape: all that may meet. With two tapes also a mapping from a
        label of the first to those of the second; labels that are not its keys are free.
    tapes : sequence of str
        The names of the tapes.
    weight : float, optional
        Natural-log score of each token with other labels. Forbidden when absent.

    Raises
    ------
    OptionError
        Fewer than two tapes; a mapping for more than two; tuples of another length.
    GrammarError
        When bound: a tape or a label that is not there.

    Examples
    --------
    >>> labels = {"pos": ["NN", "VB"], "chunk": ["B-NP", "B-VP"]}
    >>> agree = pairs({"VB": ["B-VP"]}, ("pos", "chunk")).bound(labels)
    >>> agree.accepts({"pos": ["VB"], "chunk": ["B-NP"]})
    False
    """
    mapping = isinstance(allowed, Mapping)
    if isinstance(tapes, str) or len(tapes) < 2 or (mapping and len(tapes) > 2):
        raise OptionError(f"pairs: tapes are {tapes!r}, expected the names of two tapes or more")
    names, chosen = tuple(tapes), _tuples(allowed)
    keys = frozenset(allowed) if isinstance(allowed, Mapping) else None
    wrong = next((labels for labels in chosen if len(labels) != len(names)), None)
    if wrong is not None:
        raise OptionError(f"pairs: {wrong!r}, expected a label of each of {listed(tapes)}")
    checked_weight(weight)
    title = f"pairs(…, {names!r})"

    def build(sets: LabelSets) -> tuple[Acceptor, ...]:
        legal = _table(_indexes(sets, names), chosen, keys)
        step = np.where(legal | (weight is not None), 0, -1)
        acceptor = Acceptor(
            tapes=names,
            labels=tuple(sets[tape] for tape in names),
            target=step[None].astype(np.int32),
            score=None if weight is None else np.where(legal, 0.0, weight)[None],
            final=np.zeros(1),
            name=title,
        )
        return (trim(acceptor),)

    return Grammar.of(title, build)


def _tuples(
    allowed: Mapping[str, Iterable[str]] | Iterable[tuple[str, ...]],
) -> list[tuple[str, ...]]:
    if isinstance(allowed, Mapping):
        return [(a, b) for a, others in allowed.items() for b in others]
    return [tuple(labels) for labels in allowed]


def _table(
    index: Sequence[Mapping[str, int]],
    chosen: Sequence[tuple[str, ...]],
    keys: frozenset[str] | None,
) -> NDArray[np.bool_]:
    """Return which labels may meet, bool [L of each tape]; with keys, others of the first are free.

    Raises
    ------
    GrammarError
        A label that is not there.
    """
    for labels in [*chosen, *((key,) for key in keys or ())]:
        for name, known in zip(labels, index, strict=False):
            if name not in known:
                raise GrammarError(f"no label {name!r}{nearest(name, known)}")
    legal = np.zeros(tuple(map(len, index)), dtype=bool)
    if keys is not None:
        legal[[i for name, i in index[0].items() if name not in keys]] = True
    for labels in chosen:
        legal[tuple(known[name] for name, known in zip(labels, index, strict=True))] = True
    return legal


def _indexes(sets: LabelSets, tapes: tuple[str, ...]) -> list[dict[str, int]]:
    missing = next((tape for tape in tapes if tape not in sets), None)
    if missing is not None:
        raise GrammarError(f"no tape {missing!r}; the tapes are {listed(sets)}")
    return [{label: i for i, label in enumerate(sets[tape])} for tape in tapes]
