"""Questions that lattices are asked, and what enumeration answers.

A question is two functions of a `Case`: what the lattice says, and what its ways say. Where there
is no way, a question that is not `dead` is refused with NoPathError.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest

import fstcrf
from fstcrf import Lattice
from fstcrf.arrays import Floats
from fstcrf.errors import NoPathError
from fstcrf.lattices import probable_spans, span_probabilities
from tests.laws.kinds import Case, Facts, Row, Way, log_sum, units

__all__ = ["QUESTIONS", "Question", "differs", "marginals"]

Ask = Callable[[Case], Any]

REFUSED = "NoPathError"
_SAMPLES = 400


@dataclass(frozen=True)
class Question:
    """What a lattice says, and what it should; `dead`: it is answered where there is no way."""

    ask: Ask
    truth: Ask
    within: float = 1e-8
    dead: bool = False

    def check(self, case: Case) -> None:
        """Hold what the lattice says against the truth."""
        try:
            found = self.ask(case)
        except NoPathError:
            found = REFUSED
        wanted = self.truth(case) if case.ways or self.dead else REFUSED
        assert not differs(found, wanted, self.within), f"{found}, expected {wanted}"


def differs(found: Any, wanted: Any, within: float) -> bool:
    """Compare numbers, arrays, and what is made of them."""
    if isinstance(found, str) or isinstance(wanted, str | bool):
        return bool(found is not wanted and found != wanted)
    if isinstance(wanted, Mapping):
        return bool(found.keys() - wanted.keys()) or any(
            differs(found.get(key, 0.0), value, within) for key, value in wanted.items()
        )
    if isinstance(wanted, list | tuple):
        return len(found) != len(wanted) or any(
            differs(one, two, within) for one, two in zip(found, wanted, strict=True)
        )
    one, two = np.asarray(found, dtype=float), np.asarray(wanted, dtype=float)
    return one.shape != two.shape or not np.allclose(one, two, rtol=within, atol=within)


# --- What ways say --------------------------------------------------------------------------------


def _z(case: Case) -> float:
    return log_sum(case.scores)


def _shares(case: Case) -> Floats:
    return np.exp(case.scores - _z(case))


def _ranked(case: Case, n: int | None = None) -> list[Way]:
    return sorted(case.ways, key=lambda way: -way.score)[:n]


def _rows(case: Case, n: int | None) -> list[Any]:
    return [(way.key, way.score) for way in _ranked(case, n)]


def _strings(case: Case, *, summed: bool) -> list[Any]:
    """Return the three best rows of labels of the first tape, by best path or by sum."""
    groups: dict[tuple[str, ...], list[float]] = {}
    for way in case.ways:
        groups.setdefault(tuple(x for *_, x in way.facts[case.first]), []).append(way.score)
    score = log_sum if summed else max
    rows = [(own, score(s), math.exp(score(s) - _z(case))) for own, s in groups.items()]
    return sorted(rows, key=lambda row: -row[1])[:3]


def marginals(case: Case, shares: Floats) -> list[Floats]:
    """Add what each way has to the label that each token is under, [T, L] of each tape."""
    found = []
    for name, tape in case.tapes.items():
        table = np.zeros((case.tokens, len(tape.labels) + 1))  # the last: under no label
        np.add.at(table, (np.arange(case.tokens), case.under(name)), shares[:, None])
        found.append(table[:, :-1])
    return found


def _maxima(case: Case) -> list[Floats]:
    found = []
    for name, tape in case.tapes.items():
        table = np.full((case.tokens, len(tape.labels) + 1), -np.inf)
        place = np.arange(case.tokens), case.under(name)
        np.maximum.at(table, place, case.scores[:, None])
        found.append(table[:, :-1])
    return found


def _successions(case: Case) -> list[Floats]:
    found = []
    for name, tape in case.tapes.items():
        size, under = max(case.tokens - 1, 0), case.under(name)
        table = np.zeros((size, len(tape.labels) + 1, len(tape.labels) + 1))
        place = np.arange(size), under[:, :-1], under[:, 1:]
        np.add.at(table, place, _shares(case)[:, None])
        found.append(table[:, :-1, :-1])
    return found


def _counts(case: Case) -> list[Floats]:
    """Return how often labels are expected to follow each other, to come first and last."""
    size = len(case.labels)
    moves, first, last = np.zeros((size, size)), np.zeros(size), np.zeros(size)
    for way, share in zip(case.ways, _shares(case), strict=True):
        row = [case.labels.index(label) for *_, label in way.facts[case.first]]
        for table, places in ((moves, pairwise(row)), (first, row[:1]), (last, row[-1:])):
            for place in places:
                table[place] += share
    return [moves, first, last]


def _spans(case: Case) -> dict[Any, float]:
    found: Counter[Any] = Counter()
    for way, share in zip(case.ways, _shares(case).tolist(), strict=True):
        found.update(dict.fromkeys(case.tapes[case.first].spans(way.facts[case.first]), share))
    return dict(found)


def _asked(case: Case) -> list[Any]:
    """Return spans to ask the probability of, what a grammar forbids among them."""
    every = sorted(_spans(replace(case, ways=[way for way, _ in case.free] or case.ways)))
    return [*every[:3], *every[-2:]]


def _of_spans(case: Case) -> list[float]:
    shares = _spans(case)
    return [shares.get(span, 0.0) for span in _asked(case)]


def _listed(case: Case) -> dict[Any, float]:
    return {span: share for span, share in _spans(case).items() if share > 0.05}


def _token_value(case: Case, facts: Mapping[str, Facts]) -> float:
    """Return the share of tokens that labels are expected to have right."""
    tables = zip(case.tapes.items(), marginals(case, _shares(case)), strict=True)
    place, none = np.arange(case.tokens), np.zeros((case.tokens, 1))  # under no label
    right = [
        np.hstack([table, none])[place, tape.under(facts[name], case.tokens)]
        for (name, tape), table in tables
    ]
    return float(np.mean(right)) if case.tokens else 1.0


def _span_value(case: Case, chosen: set[Any]) -> float:
    """Return 2 E[right] / E[found + true]."""
    shares = _spans(case)
    size = len(chosen) + sum(shares.values())
    return 2 * sum(shares.get(span, 0.0) for span in chosen) / size if size else 1.0


def _span_values(case: Case) -> list[float]:
    """Return the value of each set: of segments those of ways, of labels all without overlap."""
    tape, facts = case.tapes[case.first], [way.facts[case.first] for way in case.ways]
    if tape.typed:
        facts = [units(row) for row in product(tape.labels, repeat=case.tokens)]
    return [_span_value(case, tape.spans(own)) for own in facts]


def _sure(case: Case) -> tuple[float, float]:
    """Return the share of the best way, and that of what is legal in the model alone."""
    free = np.array([(w.score, gain > -math.inf) for w, gain in case.free]).reshape(-1, 2)
    legal = math.exp(log_sum(free[free[:, 1] > 0, 0]) - log_sum(free[:, 0])) if len(free) else 1.0
    return float(_shares(case).max()), legal


def _some(case: Case) -> list[Way]:
    """Return ways to ask about: the best, the worst, and one that a grammar forbids."""
    illegal = [way for way, gain in case.free if gain == -math.inf]
    return [*_ranked(case, 2), *_ranked(case)[-1:], *illegal[:1]]


def _same(case: Case) -> list[list[float]]:
    """Return the scores of the ways that say what each of some says."""
    return [[way.score for way in case.ways if way.key == one.key] for one in _some(case)]


def _masks(case: Case) -> list[Any]:
    rng = np.random.default_rng(5)
    return [rng.random((case.tokens, len(t.labels))) < 0.75 for t in case.tapes.values()]


def _masked(case: Case) -> tuple[float, float]:
    kept = np.ones(len(case.ways), dtype=bool)
    for name, mask in zip(case.tapes, _masks(case), strict=True):
        none = np.ones((case.tokens, 1), dtype=bool)
        kept &= np.hstack([mask, none])[np.arange(case.tokens), case.under(name)].all(axis=1)
    return log_sum(case.scores[kept]), max(case.scores[kept], default=-math.inf)


def _parted(case: Case) -> list[float]:
    """Sum the ways on which nothing goes on beyond token 1, and those on which something does."""
    facts = [way.facts[case.first] for way in case.ways]
    on = np.array([any(a < 1 < b for a, b, _ in own) for own in facts], dtype=bool)
    return [log_sum(case.scores[~on]), log_sum(case.scores[on] if case.tokens else case.scores)]


def _weighted(case: Case) -> float:
    """Sum the ways with twice the score of the model, and that of the grammar once."""
    gains = {way.key: gain for way, gain in case.free}
    return log_sum([2 * way.score - gains.get(way.key, 0.0) for way in case.ways])


# --- What lattices say ----------------------------------------------------------------------------


def _key(case: Case, found: Any) -> tuple[Facts, ...]:
    facts = case.read(found)
    return tuple(facts[tape] for tape in case.tapes)


def _told(case: Case, paths: Sequence[Any]) -> list[Any]:
    return [(_key(case, path), path.score) for path in paths]


def _in_full(paths: Sequence[Any]) -> list[Any]:
    return [(path.labels, path.score, path.probability) for path in paths]


def _frequencies(case: Case, drawn: Sequence[Any]) -> dict[Any, float]:
    return {key: n / len(drawn) for key, n in Counter(_key(case, one) for one in drawn).items()}


def _by_key(case: Case) -> dict[Any, float]:
    keys = {way.key for way in case.ways}
    rows = {key: [way.score for way in case.ways if way.key == key] for key in keys}
    return {key: math.exp(log_sum(own) - _z(case)) for key, own in rows.items()}


def _several(case: Case, found: Any) -> list[Any]:
    return [found] if len(case.tapes) == 1 else list(found)


def _tape(case: Case) -> dict[str, Any]:
    return {"tape": case.first} if len(case.tapes) > 1 else {}


def _one_by_one(case: Case) -> list[float] | str:
    ask = case.lattice.span_probability
    found = [ask(*span, **_tape(case)) for span in _asked(case)]
    return found if found or case.ways else REFUSED  # there is no span to ask of


def _probable(found: Any) -> dict[Any, float]:
    rows = zip(found.start, found.end, found.type, found.probability, strict=True)
    return {(int(a), int(b), found.types[k]): float(p) for a, b, k, p in rows}


def _restricted(case: Case) -> tuple[float, float]:
    masks = _masks(case)
    left = case.lattice.restrict(masks[0] if len(masks) == 1 else tuple(masks))
    paths = left.nbest(1)
    return left.log_partition(), paths[0].score if paths else -math.inf


def _token_risk(case: Case) -> tuple[float, float]:
    found = case.lattice.minimum_risk("token")
    return found.expected, _token_value(case, case.read(found))


def _span_risk(case: Case) -> tuple[float, float]:
    found = case.lattice.minimum_risk("span", **_tape(case))
    tape, labels = case.tapes[case.first], found.labels
    facts = units(labels) if tape.typed else case.read(found)[case.first]
    return found.expected, _span_value(case, tape.spans(facts))


def _confidence(case: Case) -> tuple[float, float]:
    found = case.lattice.confidence()
    return found.probability.middle, found.legal.middle


def _back(case: Case) -> Any:
    """Return the scores of all paths of the lattice that its machine is read back as."""
    pytest.importorskip("pynini", exc_type=ImportError)
    back = Lattice.from_fst(case.lattice.to_fst())
    return back.log_partition(), [path.score for path in back.nbest(len(case.ways) + 3)]


def _att(case: Case) -> float:
    """Sum the paths of AT&T text."""
    lines = [line.split("\t") for line in case.lattice.to_att().splitlines()]

    def onwards(state: str) -> float:
        own = [line for line in lines if line[0] == state]
        ahead = [onwards(line[1]) if len(line) > 2 else 0.0 for line in own]
        return log_sum([more - float(line[-1]) for line, more in zip(own, ahead, strict=True)])

    return onwards("0")


def _among(case: Case) -> Sequence[Any]:
    """Return the lattice between two others: the batch that it is a row of, if there is one."""
    if isinstance(case.lattice, Row):
        return case.lattice.batch
    return [case.others[0], case.lattice, case.others[1]]


def _nbest(n: int | None) -> Question:
    return Question(
        lambda c: _told(c, c.lattice.nbest(n or len(c.ways) + 3)), lambda c: _rows(c, n), dead=True
    )


def _twice(values: Callable[[Case], Sequence[float]]) -> Ask:
    """Return what is expected and what labels are worth: both are the most there is."""
    return lambda case: (max(values(case)),) * 2


_BEST: Ask = lambda c: _rows(c, 1)[0]  # noqa: E731
_MARGINALS: Ask = lambda c: marginals(c, _shares(c))  # noqa: E731

QUESTIONS: dict[str, Question] = {
    # Paths
    "best": Question(lambda c: _told(c, [c.lattice.best()])[0], _BEST),
    "nbest 1": _nbest(1),
    "nbest 3": _nbest(3),
    "nbest all": _nbest(None),
    "probabilities of paths": Question(
        lambda c: [path.probability for path in c.lattice.nbest(3)],
        lambda c: [math.exp(way.score - _z(c)) for way in _ranked(c, 3)],
        dead=True,
    ),
    "nbest of a tape": Question(
        lambda c: _in_full(c.lattice.nbest(3, tapes=[c.first])),
        lambda c: _strings(c, summed=False),
        dead=True,
    ),
    "strings": Question(
        lambda c: _in_full(c.lattice.strings(c.first, n=3)),
        lambda c: _strings(c, summed=True),
        dead=True,
    ),
    "sample": Question(
        lambda c: _frequencies(c, c.lattice.sample(_SAMPLES, seed=1)), _by_key, 0.08
    ),
    "score": Question(
        lambda c: [c.lattice.score(c.given(way.facts)) for way in _some(c)],
        lambda c: [max(own, default=-math.inf) for own in _same(c)],
        dead=True,
    ),
    "probability": Question(
        lambda c: [c.lattice.probability(c.given(way.facts)) for way in _some(c)],
        lambda c: [math.exp(log_sum(own) - _z(c)) if own else 0.0 for own in _same(c)],
        dead=True,
    ),
    # Sums
    "log_partition": Question(lambda c: c.lattice.log_partition(), _z, dead=True),
    "entropy": Question(
        lambda c: c.lattice.entropy(), lambda c: _z(c) - (_shares(c) * c.scores).sum()
    ),
    "marginals": Question(lambda c: _several(c, c.lattice.marginals()), _MARGINALS),
    "max_marginals": Question(lambda c: _several(c, c.lattice.max_marginals()), _maxima, dead=True),
    "arc_marginals": Question(lambda c: _several(c, c.lattice.arc_marginals()), _successions),
    "expectations": Question(lambda c: tuple(c.lattice.expectations())[1:], _counts),
    "confidence": Question(_confidence, _sure),
    # Spans
    "span_probability": Question(_one_by_one, _of_spans),
    "span_probabilities": Question(
        lambda c: c.lattice.span_probabilities(_asked(c), **_tape(c)), _of_spans
    ),
    "probable_spans": Question(
        lambda c: _probable(c.lattice.probable_spans(0.05, **_tape(c))), _listed
    ),
    "minimum_risk of tokens": Question(
        _token_risk, _twice(lambda c: [_token_value(c, way.facts) for way in c.ways])
    ),
    "minimum_risk of spans": Question(_span_risk, _twice(_span_values)),
    # Other lattices
    "restrict": Question(_restricted, _masked, dead=True),
    "restrict to boundaries": Question(
        lambda c: [
            c.lattice.restrict(boundaries=[0, one, 0, 0][: c.tokens + 1]).log_partition()
            for one in (1, -1)
        ],
        _parted,
        dead=True,
    ),
    "scale": Question(
        lambda c: [c.lattice.scale(f).log_partition() for f in (0.5, -1.0)],
        lambda c: [log_sum(f * c.scores) for f in (0.5, -1.0)],
        dead=True,
    ),
    "weighted": Question(lambda c: c.lattice.weighted(2.0).log_partition(), _weighted, dead=True),
    "without_grammar": Question(
        lambda c: c.lattice.without_grammar().log_partition(),
        lambda c: log_sum([way.score for way, _ in c.free] or c.scores),
        dead=True,
    ),
    # Other forms
    "to_fst and back": Question(
        _back, lambda c: (_z(c), [way.score for way in _ranked(c)]), dead=True
    ),
    "to_att": Question(_att, _z, 1e-6, dead=True),
    "draw": Question(lambda c: "<svg" in c.lattice.draw(), lambda _: True),
    "plan": Question(lambda c: bool(repr(c.lattice.plan())), lambda _: True, dead=True),
    # Many lattices
    "fstcrf.best": Question(
        lambda c: [_told(c, [p])[0] if p else REFUSED for p in fstcrf.best(_among(c))][1], _BEST
    ),
    "fstcrf.nbest": Question(
        lambda c: _told(c, fstcrf.nbest(_among(c), 3)[1]), lambda c: _rows(c, 3), dead=True
    ),
    "fstcrf.log_partition": Question(lambda c: fstcrf.log_partition(_among(c))[1], _z, dead=True),
    "fstcrf.marginals": Question(lambda c: _several(c, fstcrf.marginals(_among(c))[1]), _MARGINALS),
    "fstcrf.sample": Question(
        lambda c: _frequencies(c, fstcrf.sample(_among(c), _SAMPLES)[1]), _by_key, 0.08
    ),
    "lattices.probable_spans": Question(
        lambda c: _probable(probable_spans(_among(c), 0.05, **_tape(c))[1]), _listed
    ),
    "lattices.span_probabilities": Question(
        lambda c: span_probabilities(_among(c), [[], _asked(c), []], **_tape(c))[1], _of_spans
    ),
}
