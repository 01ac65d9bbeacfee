"""Segments of a sentence: their probabilities, and the labels with the least expected loss.

The event "exactly this segment is there" is a lattice from which arcs are taken away.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Generic

import numpy as np

from fstcrf.arrays import Bools, Floats
from fstcrf.corpus import Scheme, Span, labels_from_spans, named_scheme, spans
from fstcrf.corpus.schemes import OUTSIDE, split_label
from fstcrf.errors import OptionError
from fstcrf.lattice.answer import LabelsT_co
from fstcrf.lattice.batch import Group, log_partition, posteriors, successions
from fstcrf.lattice.paths import best_path
from fstcrf.lattice.tapes import Taped, scaled_lattice
from fstcrf.once import memoised
from fstcrf.plans import Program, arc_ends

__all__ = [
    "MinimumRisk",
    "SpanEvent",
    "span_event",
    "span_probabilities",
    "span_risk",
    "token_risk",
]


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


# --- Probabilities of spans -----------------------------------------------------------------------

_RUN_BYTES = 64_000_000


def span_probabilities(
    group: Group, spans: Sequence[tuple[int, int, str]], tape: str, scheme: str | Scheme
) -> Floats:
    """Return the probability of each segment (start, end, type) on one tape.

    Parameters
    ----------
    group : Group
        Of one lattice.
    spans : sequence of (int, int, str)
    tape : str
    scheme : str or Scheme

    Raises
    ------
    OptionError
        No such span in a sentence of this length, or no label of this type.
    NoPathError
        Every label sequence is forbidden.
    """
    (lattice,) = group.lattices
    labels = lattice.program.labels(tape)
    for start, end, _ in spans:
        if not 0 <= start < end <= len(lattice):
            raise OptionError(f"span {start}:{end} in a sentence of {len(lattice)} tokens")
    events = [span_event(labels, named_scheme(scheme), kind) for _, _, kind in spans]
    if not len(lattice):
        return np.empty(0)
    group.check(group.log_z)
    free = _with_own_arcs(lattice, tape)
    size = sum(v.nbytes for v in free.values)
    run = max(1, _RUN_BYTES // max(1, size))  # each has its own potentials
    found = np.empty(len(spans))
    for first in range(0, len(spans), run):
        conditioned = [
            _conditioned(free, tape, start, end, event)
            for (start, end, _), event in list(zip(spans, events, strict=True))[first : first + run]
        ]
        found[first : first + run] = log_partition(conditioned)
    shares: Floats = np.minimum(1.0, np.exp(found - group.log_z[0]))
    return shares


@memoised(64)
def _program_with_own_arcs(program: Program, tape: str) -> Program:
    """Return the program in which every sentence brings the arcs of one tape."""
    chains = [replace(c, arc=None) if c.name == tape else c for c in program.chains]
    return Program(chains, program.couplings, program.conjuncts)


def _with_own_arcs(lattice: Taped, tape: str) -> Taped:
    """Return the same lattice with the arcs of a tape among its values."""
    program = lattice.program
    chain = program.chain[tape]
    if chain.arc is None:
        return lattice
    own = _program_with_own_arcs(program, tape)
    arcs = np.broadcast_to(chain.arc, (len(lattice), *chain.arc.shape))
    known = iter(lattice.values)
    return Taped(
        own,
        tuple(
            arcs if what.kind == "arc" and what.tape == tape else next(known) for what in own.inputs
        ),
    )


def _conditioned(lattice: Taped, tape: str, start: int, end: int, event: SpanEvent) -> Taped:
    """Keep the paths on which one span lies exactly at ``start : end``."""
    program = lattice.program
    topology = program.chain[tape].topology
    nodes = lattice.state_potentials(tape)
    arcs = next(k for k, i in enumerate(program.inputs) if i.kind == "arc" and i.tape == tape)
    source, target = arc_ends(topology)
    before, after = topology.state_label[source], topology.state_label[target]
    node, score = lattice.values[nodes].copy(), lattice.values[arcs].copy()
    if start > 0:
        score[start, ..., ~event.begins[before, after]] = -np.inf
    else:
        node[0, ~event.begins[len(topology.labels), topology.state_label]] = -np.inf
    score[start + 1 : end, ..., ~event.continues[before, after]] = -np.inf
    node[end - 1, ~event.ends[topology.state_label]] = -np.inf
    if end < len(lattice):
        score[end, ..., event.continues[before, after]] = -np.inf
    return lattice.with_values({nodes: node, arcs: score})


# --- Minimum-Bayes-risk decoding ------------------------------------------------------------------
SpanKey = tuple[int, int, str]
Step = tuple[float, SpanKey | None, str | None]

_NEGLIGIBLE = 1e-12
_WRITTEN = ("bioes", "bilou", "iob2", "iob1")


@dataclass(frozen=True, slots=True)
class MinimumRisk(Generic[LabelsT_co]):
    """Labels with the least expected loss.

    Parameters
    ----------
    labels : tuple of str
        As `Path.labels`; with ``loss="span"`` of one tape.
    expected : float
        Expected share of right tokens, or the ratio of expectations, between 0 and 1.
    """

    labels: LabelsT_co
    expected: float


def token_risk(group: Group) -> MinimumRisk:
    """Return the legal labelling of a lattice with the most right labels that can be expected."""
    (lattice,) = group.lattices
    if not len(lattice):
        return MinimumRisk(lattice.no_labels, 1.0)
    marginals = posteriors(group)
    # The same paths with other scores: what is legal at 0, marginals for potentials.
    support = scaled_lattice(lattice, 0.0, grammar=True)
    changed = {}
    for name in lattice.tapes:
        k = support.state_potentials(name)
        label = lattice.program.chain[name].topology.state_label
        changed[k] = support.values[k] + marginals[name][:, label]
    path = best_path(support.with_values(changed))
    return MinimumRisk(path.labels, path.score / (len(lattice) * len(lattice.tapes)))


def span_risk(group: Group, tape: str, scheme: str | Scheme) -> MinimumRisk[tuple[str, ...]]:
    """Return the labels of the spans of one tape whose expected F is largest."""
    (lattice,), scheme = group.lattices, named_scheme(scheme)
    labels = lattice.program.labels(tape)
    if all(split_label(label, scheme)[0] in (OUTSIDE, "?") for label in labels):
        raise OptionError(f"no label of the tape {tape!r} belongs to a span: use loss='token'")
    if not len(lattice):
        return MinimumRisk((), 1.0)
    marginals = posteriors(group)[tape]
    true = _expected_spans(group, marginals, tape, scheme)
    first = lattice.labels_of(best_path(lattice).labels, tape)
    chosen = [(s.start, s.end, s.type) for s in spans(list(first), scheme=scheme)]
    known = _probabilities(group, chosen, tape, scheme)
    ratio = _ratio(sum(known.values()), len(chosen), true)
    candidates = _candidates(marginals, labels, scheme, ratio / 2)
    known |= _probabilities(group, [c for c in candidates if c not in known], tape, scheme)
    apart = _kinds_apart(labels, scheme)
    while True:
        heaviest = _heaviest(len(lattice), known, ratio, apart)
        better = _ratio(sum(known[s] for s in heaviest), len(heaviest), true)
        if better <= ratio + 1e-15:
            break
        chosen, ratio = heaviest, better
    return MinimumRisk(_written(chosen, len(lattice), scheme, labels), ratio)


def _probabilities(
    group: Group, found: list[SpanKey], tape: str, scheme: Scheme
) -> dict[SpanKey, float]:
    values = span_probabilities(group, found, tape, scheme)
    return dict(zip(found, values.tolist(), strict=True))


def _ratio(right: float, found: int, true: float) -> float:
    """Return 2 E[right] / (found + E[true]); 1 where there is nothing to find and nothing found."""
    return 2.0 * right / (found + true) if found + true > 0.0 else 1.0


def _expected_spans(group: Group, marginals: Floats, tape: str, scheme: Scheme) -> float:
    """Return the expected number of spans: how often one begins, if all that begin are ended."""
    labels = group.program.labels(tape)
    kinds = {kind for letter, kind in (split_label(x, scheme) for x in labels) if letter != OUTSIDE}
    begins = np.zeros((len(labels) + 1, len(labels)), dtype=bool)
    broken = begins.copy()  # a span left before its last label; row L: by the end of the sentence
    for event in (span_event(labels, scheme, kind) for kind in kinds):
        begins |= event.begins
        unended = event.mine & ~event.ends
        broken[:-1] |= unended[:, None] & ~event.continues
        broken[-1] |= unended
    pairs = successions(group)[tape][1:]
    if marginals[-1, broken[-1]].sum() + pairs[:, broken[:-1]].sum() > _NEGLIGIBLE:
        every = _candidates(marginals, labels, scheme, 0.0)
        return sum(_probabilities(group, every, tape, scheme).values())
    return float(marginals[0, begins[-1]].sum() + pairs[:, begins[:-1]].sum())


def _candidates(
    marginals: Floats, labels: tuple[str, ...], scheme: Scheme, floor: float
) -> list[SpanKey]:
    """Return the spans along which the probability of their type stays above a floor."""
    parts = [split_label(label, scheme) for label in labels]
    found: list[SpanKey] = []
    for kind in dict.fromkeys(k for letter, k in parts if letter != OUTSIDE):
        mine = [k == kind and letter != OUTSIDE for letter, k in parts]
        high = marginals[:, mine].sum(axis=1) > floor
        for start in np.flatnonzero(high).tolist():
            stop = start + int(np.argmin(np.append(high[start:], False)))
            found += [(start, end, kind) for end in range(start + 1, stop + 1)]
    return found


def _heaviest(
    length: int, known: dict[SpanKey, float], ratio: float, apart: frozenset[str]
) -> list[SpanKey]:
    """Return the spans, none overlapping, with the largest sum of 2 p − ratio.

    Two spans of a type in `apart` do not touch: no labels would tell them from one.
    """
    ending: dict[int, list[tuple[SpanKey, float]]] = {}
    for span, p in known.items():
        if 2.0 * p > ratio:
            ending.setdefault(span[1], []).append((span, 2.0 * p - ratio))
    # best[end][kind]: the largest sum up to `end` and its last span; kind: of a span that ends
    # there and must not be touched, or None.
    best: list[dict[str | None, Step]] = [{None: (0.0, None, None)}]
    for end in range(1, length + 1):
        before = max(best[end - 1], key=lambda kind: best[end - 1][kind][0])
        here: dict[str | None, Step] = {None: (best[end - 1][before][0], None, before)}
        for span, gain in ending.get(end, []):
            start, _, kind = span
            key = kind if kind in apart else None
            left = max(
                (k for k in best[start] if k is None or k != kind), key=lambda k: best[start][k][0]
            )
            total = best[start][left][0] + gain
            if key not in here or total > here[key][0]:
                here[key] = (total, span, left)
        best.append(here)
    chosen, end = [], length
    state = max(best[end], key=lambda k: best[length][k][0])
    while end > 0:
        _, last, state = best[end][state]
        if last is not None:
            chosen.append(last)
        end = end - 1 if last is None else last[0]
    return chosen


def _kinds_apart(labels: tuple[str, ...], scheme: Scheme) -> frozenset[str]:
    """Return the types of which no span can follow another without a token between."""
    parts = [split_label(label, scheme) for label in labels]
    found = set()
    for kind in {k for letter, k in parts if letter != OUTSIDE}:
        event = span_event(labels, scheme, kind)
        if not event.begins[:-1][event.ends].any():
            found.add(kind)
    return frozenset(found)


def _written(
    chosen: list[SpanKey], length: int, scheme: Scheme, labels: tuple[str, ...]
) -> tuple[str, ...]:
    """Write spans; where no scheme was named, in the first that has labels for them."""
    found = [Span(*s) for s in chosen]
    letters = {split_label(label, scheme)[0] for label in labels}
    names = _WRITTEN if letters & {"E", "S"} else _WRITTEN[2:]
    schemes = [scheme] if scheme.strict else [named_scheme(name) for name in names]
    ways = [tuple(labels_from_spans(found, length, one)) for one in schemes]
    return next((way for way in ways if set(way) <= set(labels)), ways[0])
