"""Constraints on the labels of a sentence, before and after label sets are known.

Most constraints are a *rule* about *events*. An event depends on a label and the previous label: a
span begins, or two forbidden neighbours meet. A rule is a machine of a few states that reads events
and marks violations. Multiplied by the information needed about the previous label, it is an
acceptor over labels. `fstcrf.constraints` documents the constraints themselves.
"""

from __future__ import annotations

import operator
import os
import pickle
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal, TypeAlias, cast

import numpy as np
from numpy.typing import ArrayLike

from fstcrf.arguments import LARGEST_SCORE, real_number
from fstcrf.arrays import Bools, Ints, distinct_rows
from fstcrf.errors import GrammarError, LabelError, OptionError
from fstcrf.lazy import making, memoised
from fstcrf.machines.grammar.acceptor import Acceptor, either, is_empty, minimise, only_empty, trim
from fstcrf.machines.grammar.labels import (
    ANY,
    LabelReading,
    LabelSets,
    Names,
    SchemeName,
    Spans,
    frozen,
    listed,
    nearest,
    only_tape,
    shown,
)
from fstcrf.text.corpus.schemes import Scheme, named_scheme, span_transitions

MAX_COUNT = 10_000
"""Largest count: each count is a state, and larger machines take seconds to bind."""


Partners: TypeAlias = str | Iterable[str | None] | None
"""One label or several; `None` is an end."""

Neighbours: TypeAlias = (
    Callable[[str | None, str | None], bool]
    | Mapping[str, Partners]
    | Mapping[str | None, Partners]
    | Iterable[tuple[str | None, str | None]]
)
"""Legal neighbours: pairs, a mapping from labels to successors, or a function; `None` is an end."""

_Key = tuple[tuple[str, tuple[str, ...]], ...]


@dataclass(frozen=True, eq=False)
class Constraint:
    """A constraint, which becomes acceptors when the labels are known.

    Two constraints of equal content are equal, and share their compiled acceptors. It is pickled by
    its definition; its acceptors are compiled again.

    Parameters
    ----------
    name : str
        Description, for messages: ``at_most(1, "NP")``.
    build : callable
        Function from label sets to acceptors: a function of a module, or a `functools.partial` of
        one, so that it can be pickled.
    content : tuple, optional
        All that `build` depends on, hashable. Without it, a constraint is equal only to its own
        copies.
    language : bool
        The constraint was given as a machine or an expression, so it may accept only the empty
        labelling. For other constraints, this means that every label is forbidden, which is an
        error.
    sums : bool
        Its weights are in the log semiring: the scores of several paths with the same labels are
        summed.
    """

    name: str
    build: Callable[[LabelSets], tuple[Acceptor, ...]]
    content: tuple[object, ...] | None = None
    language: bool = False
    sums: bool = False
    _bound: dict[_Key, tuple[Acceptor, ...]] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if self.content is None:  # a unique mark that copies keep, even in other processes
            object.__setattr__(self, "content", (os.urandom(16),))

    def __eq__(self, other: object) -> bool:
        if self is other or not isinstance(other, Constraint):
            return self is other
        return (self.name, self.content) == (other.name, other.content)

    def __hash__(self) -> int:
        return hash(self.content)

    def __reduce__(self) -> tuple[object, ...]:
        return Constraint, (self.name, self.build, self.content, self.language, self.sums)

    def bind(self, sets: LabelSets) -> tuple[Acceptor, ...]:
        """Return its acceptors over these label sets, which are cached.

        Raises
        ------
        GrammarError
            A name that is neither label nor type; a tape that does not exist; nothing is accepted.
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
            if is_empty(acceptor) and not (self.language and only_empty(acceptor)):
                sizes = " and ".join(str(len(labels)) for labels in acceptor.labels)
                raise GrammarError(f"{acceptor.name} accepts no sequence of these {sizes} labels")
        return acceptors


@dataclass(frozen=True, slots=True)
class RuleOptions:
    """Options that all constraints share."""

    tape: str | None = None  # the only tape if absent
    scheme: SchemeName = "conlleval"  # scheme by which labels are read as spans; `None`: no spans
    # natural-log score of a violation; `None`: violations are forbidden
    weight: float | None = None

    def __post_init__(self) -> None:
        if self.weight is None:
            return
        weight = real_number(self.weight, "weight")
        if not abs(weight) <= LARGEST_SCORE:
            raise OptionError(
                f"weight is {self.weight}, expected a finite score of at most {LARGEST_SCORE:g} in "
                "size; leave it out to forbid"
            )
        object.__setattr__(self, "weight", weight)

    def reading(self, sets: LabelSets) -> LabelReading:
        """Return the reading of the tape's labels."""
        return _reading(sets[only_tape(sets, self.tape)], self.scheme)

    def acceptor(
        self, title: str, rule: _EventRule, sets: LabelSets, events: Sequence[Bools]
    ) -> Acceptor:
        """Return a rule about events as an acceptor over the labels of the tape."""
        tape = only_tape(sets, self.tape)
        return _monitor(rule, events, tape, sets[tape], self.weight, title)


@memoised(16)
def _reading(labels: tuple[str, ...], scheme: str | Scheme | None) -> LabelReading:
    return LabelReading.of(labels, scheme)


# --- Rules ---------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _EventRule:
    """A machine over n events; event i has the bit 2 ** i in the code of a token."""

    target: Ints  # [M, 2 ** n]: state after (state, code); 0 starts
    broken: Ints  # [M, 2 ** n]: number of violations in that step
    broken_at_end: Ints  # [M] or [M, 2 ** n]: number of violations when ending there


def _rule(target: ArrayLike, broken: ArrayLike, broken_at_end: ArrayLike) -> _EventRule:
    return _EventRule(
        *(np.asarray(table, dtype=np.int32) for table in (target, broken, broken_at_end))
    )


_NEVER = _rule([[0, 0]], [[0, 1]], [[0, 1]])
"""The event never occurs, and not at the end either."""

_RULES = {
    # The first event does not occur after the second.
    "before": _rule([[0, 0, 1, 1], [1, 1, 1, 1]], [[0] * 4, [0, 1, 0, 1]], [0, 0]),
    # The second event occurs, before or after the first.
    "requires": _rule([[0, 1, 2, 2], [1, 1, 2, 2], [2, 2, 2, 2]], [[0] * 4] * 3, [0, 1, 0]),
    "never": _NEVER,
    "start_with": _rule([[1, 1], [1, 1]], [[1, 0], [0, 0]], [1, 0]),
    "end_with": _rule([[0, 1], [0, 1]], [[0, 0], [0, 0]], [1, 0]),
}

_OF_TOKENS = ("never", "start_with", "end_with")
"""These rules read every token, the others only the beginnings of spans."""


def _count(k: int, *, most: bool = False, least: bool = False) -> _EventRule:
    """Return the rule that an event occurs at most, at least, or exactly k times."""
    now = np.arange(k + 1)
    broken = np.zeros((k + 1, 2))
    broken[k, 1] = most
    return _rule(np.column_stack([now, np.minimum(now + 1, k)]), broken, (k - now) * least)


def _monitor(
    rule: _EventRule,
    events: Sequence[Bools],
    tape: str,
    labels: tuple[str, ...],
    weight: float | None,
    name: str,
) -> Acceptor:
    """Return the smallest acceptor that forbids violations of a rule, or scores them.

    Event i, bool [L + 1, L] or [L + 1, L + 1], occurs at the second label after the first. Row L is
    the start of the sentence, column L its end; without this column, the event does not occur at
    the end.
    """
    size = len(labels)
    codes = np.zeros((size + 1, size + 1), dtype=np.uint8 if len(events) <= 8 else np.int64)
    for i, event in enumerate(events):
        codes[:, : event.shape[1]] += event.astype(codes.dtype) << i
    # Labels with equal rows of events share a context. The start is the first one.
    contexts, context = distinct_rows(codes)
    order = np.argsort(np.arange(len(contexts)) != context[size], kind="stable")
    contexts, context = contexts[order], np.argsort(order)[context]

    step, end = contexts[:, :size], contexts[:, size]
    state = rule.target[:, step] * len(contexts) + context[:size].astype(np.int32)  # [M, C, L]
    broken = rule.broken[:, step]
    at_end = rule.broken_at_end
    at_end = at_end[:, end] if at_end.ndim == 2 else np.repeat(at_end[:, None], len(end), axis=1)
    if weight is None:
        state = np.where(broken > 0, np.int32(-1), state)
        final = np.where(at_end > 0, -np.inf, 0.0)
    else:
        final = weight * at_end
    return minimise(
        trim(
            Acceptor(
                tapes=(tape,),
                labels=(labels,),
                target=state.reshape(-1, size),
                score=None if weight is None else np.float64(weight) * broken.reshape(-1, size),
                final=final.reshape(-1).astype(np.float64),
                name=name,
            )
        )
    )


# --- What occurs in a sentence -------------------------------------------------------------------


def counted(
    kind: Literal["at_most", "at_least", "exactly"], k: int, names: Names, *, options: RuleOptions
) -> Constraint:
    """Return the constraint on the number of occurrences of names."""
    try:
        count = operator.index(k)
    except TypeError:
        count = -1
    if not 0 <= count <= MAX_COUNT:
        raise OptionError(f"{kind}({k}, …): expected a whole number from 0 to {MAX_COUNT}")
    chosen = frozen(names)
    title = f"{kind}({k}, {shown(chosen)})"
    build = partial(_counted, title, kind, count, chosen, options)
    return Constraint(title, build, ("counted", kind, count, chosen, options))


def _counted(
    title: str, kind: str, count: int, chosen: Names, options: RuleOptions, sets: LabelSets
) -> tuple[Acceptor, ...]:
    rule = _count(count, most=kind != "at_least", least=kind != "at_most")
    events = [options.reading(sets).occurrences(chosen)]
    return (options.acceptor(title, rule, sets, events),)


def about(
    kind: Literal["before", "requires", "never", "start_with", "end_with"],
    *names: Names,
    options: RuleOptions,
) -> Constraint:
    """Return the constraint of a rule about occurrences of names."""
    chosen = [frozen(name) for name in names]
    title = f"{kind}({', '.join(map(shown, chosen))})"
    build = partial(_about, title, kind, chosen, options)
    return Constraint(title, build, ("about", kind, *chosen, options))


def _about(
    title: str, kind: str, chosen: Sequence[Names], options: RuleOptions, sets: LabelSets
) -> tuple[Acceptor, ...]:
    reading = options.reading(sets)
    if kind in _OF_TOKENS:
        events = [np.tile(reading.members(x), (len(reading.labels) + 1, 1)) for x in chosen]
    else:
        events = [reading.occurrences(x) for x in chosen]
    return (options.acceptor(title, _RULES[kind], sets, events),)


def contiguous(names: Names = ANY, *, options: RuleOptions) -> Constraint:
    """Return the constraint of labels in one run of tokens each, and types in one span each."""
    chosen = frozen(names)
    title = f"contiguous({'' if chosen == ANY else shown(chosen)})"
    return Constraint(title, partial(_contiguous, chosen, options), ("contiguous", chosen, options))


def _contiguous(chosen: Names, options: RuleOptions, sets: LabelSets) -> tuple[Acceptor, ...]:
    reading, once = options.reading(sets), _count(1, most=True)
    acceptors = []
    for unit in reading.units(chosen):
        title = f'contiguous("{unit.type if isinstance(unit, Spans) else unit}")'
        acceptors.append(options.acceptor(title, once, sets, [reading.runs(unit)]))
    return tuple(acceptors)


def if_present(name: Names, *then: Names | Constraint, options: RuleOptions) -> Constraint:
    """Return the constraint that all of `then` hold, or occur, if a name occurs."""
    chosen, hard = frozen(name), replace(options, weight=None)
    parts = [
        x if isinstance(x, Constraint) else counted("at_least", 1, x, options=hard) for x in then
    ]
    absent = about("never", chosen, options=hard)
    title = f"if_present({shown(chosen)}, {' & '.join(part.name for part in parts)})"
    build = partial(_if_present, title, absent, parts, options.weight)
    return Constraint(title, build, ("if_present", chosen, *parts, options))


def _if_present(
    title: str,
    absent: Constraint,
    parts: Sequence[Constraint],
    weight: float | None,
    sets: LabelSets,
) -> tuple[Acceptor, ...]:
    bound = [acceptor for part in parts for acceptor in part.bind(sets)]
    soft = next((acceptor.name for acceptor in bound if acceptor.weighted), None)
    if soft is not None:
        raise GrammarError(f"{soft} is soft; expected a hard grammar")
    # Does not use bind, which raises an error for a constraint that forbids every label.
    (without,) = absent.build(sets)
    return tuple(_softened(either(without, part), weight, title) for part in bound)


def _softened(acceptor: Acceptor, weight: float | None, name: str) -> Acceptor:
    rejected = -np.inf if weight is None else weight
    final = np.where(acceptor.final > -np.inf, acceptor.final, rejected)
    return minimise(trim(replace(acceptor, final=final, name=name)))


# --- Labels that touch ---------------------------------------------------------------------------


def tagging_scheme(scheme: str | Scheme, *, options: RuleOptions) -> Constraint:
    """Return the constraint of the successions of labels that a tagging scheme allows."""
    table = named_scheme(scheme)
    name = "bio" if table.name == "iob2" else table.name
    content = "scheme", table, options
    return _touching(f"{name}()", partial(span_transitions, scheme=table), options, content)


def neighbours(allowed: Neighbours, *, options: RuleOptions) -> Constraint:
    """Return the constraint on legal neighbours."""
    title = "neighbours(…)"
    if callable(allowed):
        return _touching(title, _NeighbourTable(allowed, {}), options, None)
    some, keys = _rows(allowed, "neighbours", 2)
    content = "neighbours", tuple(some), keys, options
    return _touching(title, partial(_legal, some, keys), options, content)


def _each(labels: object) -> tuple[str | None, ...]:
    """Return one label or several as a tuple: a string is one."""
    several = isinstance(labels, Iterable) and not isinstance(labels, str)
    return tuple(cast("Iterable[str | None]", labels if several else [labels]))


def _rows(
    allowed: object, kind: str, size: int
) -> tuple[list[tuple[str | None, ...]], frozenset[str | None] | None]:
    """Return tuples of labels, and the keys of a mapping."""
    if isinstance(allowed, Mapping):
        return [(a, b) for a in allowed for b in _each(allowed[a])], frozenset(allowed)
    rows = list(map(_each, allowed if isinstance(allowed, Iterable) else [allowed]))
    wrong = next((row for row in rows if len(row) != size), None)
    if wrong is not None:
        raise OptionError(f"{kind}: {wrong!r}, expected tuples of {size} labels, or a mapping")
    return rows, None


class _NeighbourTable:
    """The neighbours that a function allows, evaluated once for each label set.

    If pickle cannot name the function, its results so far are pickled instead.
    """

    def __init__(
        self,
        allowed: Callable[[str | None, str | None], bool] | None,
        answers: dict[tuple[str, ...], Bools],
    ) -> None:
        self.allowed = allowed
        self.answers = answers

    def __call__(self, labels: tuple[str, ...]) -> Bools:
        if labels not in self.answers:
            if self.allowed is None:
                others = len(next(iter(self.answers)))
                raise GrammarError(
                    "it was pickled without its function, only with the function's results for "
                    f"{others} other labels: define the function with def in a module"
                )
            ends = (*labels, None)
            rows = [[bool(self.allowed(a, b)) for b in ends] for a in ends]
            self.answers[labels] = np.asarray(rows)
        return self.answers[labels]

    def __copy__(self) -> _NeighbourTable:
        return self

    def __deepcopy__(self, memo: object) -> _NeighbourTable:
        return self

    def __reduce__(self) -> tuple[object, ...]:
        try:
            pickle.dumps(self.allowed)
        except Exception:  # noqa: BLE001 (whatever a callable raises)
            if self.answers:  # else cloudpickle may take the function
                return _NeighbourTable, (None, dict(self.answers))
        return _NeighbourTable, (self.allowed, {} if self.allowed else dict(self.answers))


def _legal(
    pairs: Sequence[tuple[str | None, ...]],
    keys: frozenset[str | None] | None,
    labels: tuple[str, ...],
) -> Bools:
    """Return the legal successions: bool [L + 1, L + 1], last row start, last column end.

    Without keys, starts and ends are unrestricted if no pair names them.
    """
    ends = (*labels, None)
    legal = _meeting((ends, ends), pairs, keys)
    if keys is None:
        legal[-1, :-1] |= all(a is not None for a, _ in pairs)
        legal[:-1, -1] |= all(b is not None for _, b in pairs)
        legal[-1, -1] = True
    return legal


def _touching(
    title: str,
    legal: Callable[[tuple[str, ...]], Bools],
    options: RuleOptions,
    content: tuple[object, ...] | None,
) -> Constraint:
    return Constraint(title, partial(_touched, title, legal, options), content)


def _touched(
    title: str,
    legal: Callable[[tuple[str, ...]], Bools],
    options: RuleOptions,
    sets: LabelSets,
) -> tuple[Acceptor, ...]:
    labels = sets[only_tape(sets, options.tape)]
    return (options.acceptor(title, _NEVER, sets, [~legal(labels)]),)


# --- Labels of several tapes ---------------------------------------------------------------------


def pairs(
    allowed: Mapping[str, str | Iterable[str]] | Iterable[tuple[str, ...]],
    tapes: Sequence[str],
    *,
    weight: float | None,
) -> Constraint:
    """Return the constraint on the labels that several tapes may have at one token."""
    mapping = isinstance(allowed, Mapping)
    if isinstance(tapes, str) or len(tapes) < 2 or (mapping and len(tapes) > 2):
        raise OptionError(f"pairs: tapes are {tapes!r}, expected the names of two tapes or more")
    names = tuple(tapes)
    chosen, keys = _rows(allowed, "pairs", len(names))
    weight = RuleOptions(weight=weight).weight
    title = f"pairs(…, {names!r})"
    build = partial(_paired, title, names, chosen, keys, weight)
    return Constraint(title, build, ("pairs", tuple(chosen), keys, names, weight))


def _paired(
    title: str,
    names: tuple[str, ...],
    chosen: Sequence[tuple[str | None, ...]],
    keys: frozenset[str | None] | None,
    weight: float | None,
    sets: LabelSets,
) -> tuple[Acceptor, ...]:
    missing = next((tape for tape in names if tape not in sets), None)
    if missing is not None:
        raise GrammarError(f"no tape {missing!r}; the tapes are {listed(sets)}")
    labels = tuple(sets[tape] for tape in names)
    legal = _meeting(labels, chosen, keys)
    acceptor = Acceptor(
        tapes=names,
        labels=labels,
        target=np.where(legal | (weight is not None), 0, -1)[None].astype(np.int32),
        score=None if weight is None else np.where(legal, 0.0, weight)[None],
        final=np.zeros(1),
        name=title,
    )
    return (trim(acceptor),)


def _meeting(
    labels: Sequence[tuple[str | None, ...]],
    chosen: Sequence[tuple[str | None, ...]],
    keys: frozenset[str | None] | None,
) -> Bools:
    """Return the legal combinations, bool [size of each axis]; labels outside `keys` are free."""
    index = [{label: i for i, label in enumerate(number)} for number in labels]
    for names in [*((key,) for key in keys or ()), *chosen]:
        for name, number in zip(names, index, strict=False):
            if name not in number:
                raise GrammarError(f"no label {name!r}{nearest(str(name), filter(None, number))}")
    legal = np.zeros(tuple(map(len, index)), dtype=bool)
    if keys is not None:
        legal[[i for name, i in index[0].items() if name not in keys]] = True
    for names in chosen:
        legal[tuple(number[name] for name, number in zip(names, index, strict=True))] = True
    return legal
