"""Kinds of lattices: a small random one of each, and its ways by plain enumeration.

A way is a score and what stands on each tape, as (start, end, label): nothing here asks fstcrf. A
new kind is one more constructor, a line of `KINDS`, and is asked all questions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import groupby, pairwise, product
from typing import Any, NamedTuple

import numpy as np

import fstcrf
from fstcrf import CRF, Grammar, Lattice, Lattices
from fstcrf.arrays import Floats, Longs
from fstcrf.ext.lexicon import Characters, Entry, Kind, Lexicon
from tests.support.fsts import from_ids
from tests.support.training import flat_train

__all__ = ["KINDS", "RULES", "Case", "Facts", "Row", "Rule", "Tape", "Way", "log_sum", "units"]

Facts = tuple[tuple[int, int, str], ...]
"""What stands on a tape: start, end (exclusive) and label, in order."""

BIO = ("O", "B-X", "I-X")
PAIR = ("U", "V")


class Way(NamedTuple):
    """One path: its score, and what stands on each tape."""

    score: float
    facts: Mapping[str, Facts]

    @property
    def key(self) -> tuple[Facts, ...]:
        return tuple(self.facts.values())


class Tape(NamedTuple):
    """A tape's labels, and the label of tokens under no fact."""

    labels: tuple[str, ...]
    outside: str = ""

    @property
    def typed(self) -> bool:
        """Whether labels B-X and I-X write spans."""
        return "B-X" in self.labels

    def under(self, facts: Facts, tokens: int) -> list[int]:
        """Return the number of the label that each token is under, −1: none."""
        found = [self.outside] * tokens
        for start, end, label in facts:
            found[start:end] = [label] * (end - start)
        return [self.labels.index(label) if label else -1 for label in found]

    def spans(self, facts: Facts) -> set[tuple[int, int, str]]:
        if not self.typed:
            return set(facts)
        found, open_ = [], False
        for t, _, label in facts:
            if label == "B-X" or (label == "I-X" and not open_):
                found.append([t, t + 1])
            elif label == "I-X":
                found[-1][1] = t + 1
            open_ = label != "O"
        return {(start, end, "X") for start, end in found}


class Rule(NamedTuple):
    """A grammar that reads whether a label is the first one: rows (other label, first label)."""

    target: Sequence[tuple[int, int]]
    score: Sequence[tuple[float, float]] | None
    final: Sequence[float]

    def grammar(self, labels: Sequence[str], tape: str | None) -> Grammar:
        first = np.arange(len(labels)) == 0
        target = [np.where(first, one, other) for other, one in self.target]
        score: Any = self.score and [np.where(first, one, other) for other, one in self.score]
        return Grammar.from_arrays(labels, target, score=score, final=self.final, tape=tape)

    def weigh(self, labels: Sequence[str], facts: Facts) -> float:
        """Return the score of what stands on a tape; −inf: it is illegal."""
        state, total = 0, 0.0
        for *_, label in facts:
            total += self.score[state][label == labels[0]] if self.score else 0.0
            state = self.target[state][label == labels[0]]
        return total + self.final[state]


RULES = {
    "hard": Rule([(0, 1), (1, 0)], None, [0.0, -math.inf]),
    "soft": Rule([(0, 1), (1, 0)], [(0.3, -0.6), (-0.2, 0.5)], [-0.4, 0.7]),
    "dead": Rule([*((k + 1, k + 1) for k in range(9)), (-1, -1)], None, [-math.inf] * 9 + [0.0]),
}


@dataclass(frozen=True)
class Case:
    """A lattice and its ways.

    `read` turns a path, or its labels, into what stands on each tape; `given` turns that into what
    `score` takes. `others` are two more lattices of the kind, of other lengths; `free` are the ways
    without the grammar, and the score that it gives each.
    """

    lattice: Any
    tokens: int
    tapes: dict[str, Tape]
    ways: list[Way]
    read: Callable[[Any], Mapping[str, Facts]]
    given: Callable[[Mapping[str, Facts]], Any]
    others: list[Any] = field(default_factory=list)
    free: list[tuple[Way, float]] = field(default_factory=list)

    @property
    def first(self) -> str:
        return next(iter(self.tapes))

    @property
    def labels(self) -> tuple[str, ...]:
        """Labels of the first tape."""
        return self.tapes[self.first].labels

    @property
    def scores(self) -> Floats:
        return np.array([way.score for way in self.ways], dtype=float)

    def under(self, tape: str) -> Longs:
        """Return the number of the label that each token of each way is under, [ways, tokens]."""
        rows = [self.tapes[tape].under(way.facts[tape], self.tokens) for way in self.ways]
        return np.array(rows, dtype=np.int64).reshape(len(rows), self.tokens)

    def ruled(self, rule: Rule) -> Case:
        """Return the same under a grammar of the first tape."""
        free = [(way, rule.weigh(self.labels, way.facts[self.first])) for way in self.ways]
        ways = [Way(way.score + gain, way.facts) for way, gain in free if gain > -math.inf]
        grammar = rule.grammar(self.labels, self.first if len(self.tapes) > 1 else None)
        return replace(self, lattice=self.lattice & grammar, ways=ways, free=free)


def log_sum(scores: Sequence[float] | Floats) -> float:
    best = max(scores, default=-math.inf)
    total = math.fsum(math.exp(s - best) for s in scores if s > -math.inf)
    return float(best) + math.log(total) if total else -math.inf


# --- Lattices of tokens ---------------------------------------------------------------------------


def units(labels: Sequence[str]) -> Facts:
    return tuple((t, t + 1, label) for t, label in enumerate(labels))


def _case(lattice: Any, tokens: int, tapes: dict[str, Tape], ways: list[Way]) -> Case:
    """Return a case whose labels are a row of one tape, a tuple of rows of several."""

    def read(path: Any) -> dict[str, Facts]:
        labels = getattr(path, "labels", path)
        rows = [labels] if len(tapes) == 1 else labels
        return {tape: units(row) for tape, row in zip(tapes, rows, strict=True)}

    def given(facts: Mapping[str, Facts]) -> Any:
        rows = tuple(tuple(label for *_, label in facts[tape]) for tape in tapes)
        return rows[0] if len(rows) == 1 else rows

    return Case(lattice, tokens, tapes, ways, read, given)


class _Arrays(NamedTuple):
    """Scores of tokens, successions and ends; their paths one by one."""

    node: Floats
    step: Floats
    initial: Floats
    final: Floats

    @classmethod
    def of(cls, rng: Any, tokens: int, size: int) -> _Arrays:
        step = rng.normal(size=(size, size))
        step[0, -1] = -np.inf  # a succession that there is not
        return cls(rng.normal(size=(tokens, size)), step, *rng.normal(size=(2, size)))

    def ways(self, labels: Sequence[str], tape: str) -> list[Way]:
        found = []
        for y in product(range(len(labels)), repeat=len(self.node)):
            steps = self.step if self.step.ndim == 3 else [self.step] * len(y)
            parts = [*self.node[range(len(y)), y]]
            parts += [step[pair] for step, pair in zip(steps, pairwise(y), strict=False)]
            parts += [self.initial[y[0]], self.final[y[-1]]] if y else []
            found.append(Way(float(sum(parts)), {tape: units([labels[k] for k in y])}))
        return [way for way in found if way.score > -math.inf]


def chain(rng: Any, tokens: int) -> Case:
    arrays = _Arrays.of(rng, tokens, 3)
    ways = arrays.ways(BIO, "label")
    return _case(Lattice.from_arrays(BIO, *arrays), tokens, {"label": Tape(BIO)}, ways)


def joint(rng: Any, tokens: int) -> Case:
    """Two chains, coupled at each token."""
    one, two, table = (
        _Arrays.of(rng, tokens, 3),
        _Arrays.of(rng, tokens, 2),
        rng.normal(size=(3, 2)),
    )
    tapes, ways = {"p": Tape(BIO), "q": Tape(PAIR)}, []
    for p, q in product(one.ways(BIO, "p"), two.ways(PAIR, "q")):
        facts = {**p.facts, **q.facts}
        pairs = zip(*(tapes[tape].under(facts[tape], tokens) for tape in tapes), strict=True)
        ways.append(Way(p.score + q.score + sum(table[pair] for pair in pairs), facts))
    parts = [Lattice.from_arrays(BIO, *one, tape="p"), Lattice.from_arrays(PAIR, *two, tape="q")]
    return _case(fstcrf.compose(*parts, coupling={(0, 1): table}), tokens, tapes, ways)


# --- Lattices of taggers --------------------------------------------------------------------------

_DATA = [
    {"word": list("abcab"), "label": ["B-X", "I-X", "O", "O", "B-X"], "z": list("UVVUU")},
    {"word": list("cab"), "label": ["O", "B-X", "I-X"], "z": list("VUV")},
    {"word": list("bbca"), "label": ["I-X", "O", "B-X", "B-X"], "z": list("VVUU")},
]


@cache
def _tagger(tape: str, template: str, order: Any = 1, reads: tuple[CRF, ...] = ()) -> CRF:
    options: dict[str, Any] = {"pairs": "complete", "transitions": "all", "max_iterations": 10}
    return flat_train(
        _DATA,
        tape,
        template,
        order=order,
        tape=tape,
        reads=reads,
        **options,
    )


@cache
def _weights(tagger: CRF) -> dict[tuple[str, str], float]:
    return {(w.attribute, w.slot): w.weight for w in tagger.top_features(10_000)}


def _tagged(tagger: CRF, rows: Sequence[Sequence[str]], y: Sequence[str], order: int = 1) -> float:
    """Return the score of labels by the weights' names: those of attributes, those of moves."""
    weights, padded = _weights(tagger), ["O"] * (order - 1) + [*y]  # O stands before a sentence
    states = [" ".join(padded[t : t + order]) for t in range(len(y))]
    names = [(x, slot) for t, row in enumerate(rows) for x in row for slot in {y[t], states[t]}]
    names += [("", f"{one} → {two}") for one, two in pairwise(states)]
    return sum(weights.get(name, 0.0) for name in names)


def second_order(rng: Any, tokens: int) -> Case:
    tagger, words = _tagger("label", "U:%x[0,word]\nB\n", 2), rng.choice([*"abc"], tokens).tolist()
    rows, every = [[f"U:{word}"] for word in words], product(tagger.labels, repeat=tokens)
    ways = [Way(_tagged(tagger, rows, y, 2), {"label": units(y)}) for y in every]
    return _case(tagger.lattice({"word": words}), tokens, {"label": Tape(tagger.labels)}, ways)


def chain_rule(rng: Any, tokens: int) -> Case:
    """The labellings of two taggers, the second of which reads the labels of the first."""
    first = _tagger("label", "U:%x[0,word]\nB\n")
    second = _tagger("z", "U:%x[0,word]\nU2:%y[0,label]\nB\n", reads=(first,))
    words = rng.choice([*"abc"], tokens).tolist()

    def shares(tagger: CRF, rows: Any) -> list[tuple[Any, float]]:
        scored = [(y, _tagged(tagger, rows, y)) for y in product(tagger.labels, repeat=tokens)]
        total = log_sum([score for _, score in scored])
        return [(y, score - total) for y, score in scored]

    ways = []
    for y, own in shares(first, [[f"U:{word}"] for word in words]):
        rows = [[f"U:{word}", f"U2:{label}"] for word, label in zip(words, y, strict=True)]
        for z, its in shares(second, rows):
            ways.append(Way(own + its, {"label": units(y), "z": units(z)}))
    chain = fstcrf.compose(first, second, normalize="chain")
    lattice = chain.lattice({"word": words}, n=len(ways), budget=10**6)
    tapes = {"label": Tape(first.labels), "z": Tape(second.labels)}
    return _case(lattice, tokens, tapes, ways)


# --- Lattices of segments -------------------------------------------------------------------------


class _Arc(NamedTuple):
    start: int
    end: int
    label: str
    score: float
    left: int = 0
    right: int = 0


_Link = Callable[[_Arc | None, _Arc | None], float]
"""Score of neighbours; None stands at both ends."""


def _segmented(
    lattice: Any, tokens: int, tape: Tape, arcs: Sequence[_Arc], link: _Link = lambda *_: 0.0
) -> Case:
    """Return the case of all rows of arcs that cover a text."""

    def onwards(place: int, last: _Arc | None) -> Iterator[tuple[float, Facts]]:
        if place == tokens:
            yield link(last, None), ()
        for arc in [arc for arc in arcs if arc.start == place]:
            for score, rest in onwards(arc.end, arc):
                own = () if arc.label == tape.outside else (arc[:3],)
                yield link(last, arc) + arc.score + score, (*own, *rest)

    def read(path: Any) -> dict[str, Facts]:
        found = getattr(path, "segments", getattr(path, "labels", path))
        return {"segment": tuple((s.start, s.end, s.type) for s in found)}

    ways = [Way(s, {"segment": facts}) for s, facts in onwards(0, None) if s > -math.inf]
    return Case(lattice, tokens, {"segment": tape}, ways, read, lambda facts: facts["segment"])


def _arcs(rng: Any, tokens: int, longest: int, share: float = 1.0) -> list[_Arc]:
    ends = [(a, b) for a in range(tokens) for b in range(a + 1, min(tokens, a + longest) + 1)]
    arcs = [_Arc(a, b, "XY"[k], rng.normal(), k, k) for a, b in ends for k in range(2)]
    return [arc for arc in arcs if rng.random() < share]


def segments(rng: Any, tokens: int) -> Case:
    (_, step, *ends), arcs = _Arrays.of(rng, tokens, 2), _arcs(rng, tokens, 2)

    def link(one: _Arc | None, two: _Arc | None) -> float:
        if one is None or two is None:
            return ends[0][two.left] if two else ends[1][one.right] if one else 0.0
        return float(step[one.right, two.left])

    start, end, _, score, label, _ = zip(*arcs, strict=True) if arcs else ((),) * 6
    made = Lattice.from_segments(tokens, start, end, label, score, ("X", "Y"), step, *ends)
    return _segmented(made, tokens, Tape(("X", "Y")), arcs, link)


def sausage(rng: Any, tokens: int) -> Case:
    """Segments of one token without transitions: labels of tokens are independent."""
    arcs = _arcs(rng, tokens, 1)
    start, end, _, score, label, _ = zip(*arcs, strict=True) if arcs else ((),) * 6
    made = Lattice.from_segments(tokens, start, end, label, score, ("X", "Y"))
    return _segmented(made, tokens, Tape(("X", "Y")), arcs)


def spans(rng: Any, tokens: int) -> Case:
    """Sets of spans that do not overlap."""
    arcs, outside = (
        _arcs(rng, tokens, tokens, 0.7),
        [_Arc(t, t + 1, "O", 0.3) for t in range(tokens)],
    )
    made = Lattice.from_spans(tokens, [arc[:4] for arc in arcs], 0.3, labels=("X", "Y"))
    return _segmented(made, tokens, Tape(("X", "Y", "O"), "O"), arcs + outside)


def ctc(rng: Any, tokens: int) -> Case:
    """Frames: runs of a symbol are one label of the string."""
    score, ways = rng.normal(size=(tokens, 3)), []
    for y in product(range(3), repeat=tokens):
        runs = [[t for t, _ in run] for _, run in groupby(enumerate(y), lambda pair: pair[1])]
        facts = tuple((run[0], run[-1] + 1, "ab_"[y[run[0]]]) for run in runs if y[run[0]] < 2)
        ways.append(Way(float(score[range(tokens), y].sum()), {"segment": facts}))
    made = Lattice.from_ctc(score, "_", labels=tuple("ab_"))
    return replace(_segmented(made, tokens, Tape(tuple("ab_"), "_"), ()), ways=ways)


def words(rng: Any, tokens: int) -> Case:
    """Words of a lexicon, each with contexts of its own; their classes are two."""
    matrix, numbers = rng.integers(-3000, 3001, (8, 8)), [1 + rng.permutation(7) for _ in "lr"]
    forms = enumerate(("a", "b", "ab", "ba", "aba", "a", "b"))
    costs = zip(forms, *numbers, rng.integers(0, 3000, 7), strict=True)
    entries = [Entry(form, a, b, cost, "XY"[k % 2]) for (k, form), a, b, cost in costs]
    kind = Kind(always=False, runs=True, length=0)
    characters = Characters.of_kinds({"DEFAULT": kind, "SPACE": kind}, [(0x20, 0x20, ["SPACE"])])
    unknown, table = [Entry("DEFAULT", 0, 0, 100, "?")], matrix.astype(np.int16)
    lexicon = Lexicon.from_entries(entries, table, characters, unknown, unit=2000.0)
    text = "".join(rng.choice(["a", "b"], tokens))
    there = [(t, e) for t in range(tokens) for e in entries if text.startswith(e.surface, t)]
    arcs = [
        _Arc(t, t + len(e.surface), e.feature, -e.cost / 2000, e.left, e.right) for t, e in there
    ]
    labels = tuple(sorted({arc.label for arc in arcs})) or ("",)

    def link(one: _Arc | None, two: _Arc | None) -> float:
        return -float(matrix[two.left if two else 0, one.right if one else 0]) / 2000

    return _segmented(lexicon.lattice(text), tokens, Tape(labels), arcs, link)


# --- Machines -------------------------------------------------------------------------------------


def _machine(arcs: Sequence[_Arc], final: Sequence[float], tokens: int) -> Case:
    """Return the lattice of arcs between states; "" is no label."""
    arcs, labels = sorted(arcs), ("a", "b")
    symbol = np.array([" ab".index(arc.label or " ") for arc in arcs], dtype=np.int32)
    source, target = (np.array([arc[k] for arc in arcs], dtype=np.int32) for k in (0, 1))
    score = np.array([arc.score for arc in arcs], dtype=float)
    machine = from_ids(
        0, source, target, symbol, symbol, score, np.array(final), ("", *labels), ("", *labels)
    )

    def onwards(state: int) -> Iterator[tuple[float, str]]:
        if final[state] > -math.inf:
            yield final[state], ""
        for arc in [arc for arc in arcs if arc.start == state]:
            yield from ((arc.score + s, arc.label + rest) for s, rest in onwards(arc.end))

    ways = [Way(score, {"label": units(row)}) for score, row in onwards(0)]
    made = Lattice.from_machine(machine, labels)
    return _case(made, tokens, {"label": Tape(labels)}, ways)


def acyclic(rng: Any, tokens: int) -> Case:
    """A machine whose paths differ in length and may say the same; some arcs say nothing."""
    ends = [(a, b) for b in range(tokens + 1) for a in range(b)]
    arcs = [_Arc(*pair, label, rng.normal()) for pair in ends for label in ("a", "b")]
    arcs = [arc for arc in arcs if arc.end == arc.start + 1 or rng.random() < 0.5]
    arcs += [_Arc(t, t + 1, "", rng.normal()) for t in range(tokens)]
    final = [float(rng.normal()) if s >= tokens - 1 else -math.inf for s in range(tokens + 1)]
    return _machine(arcs, final, tokens)


def paths(rng: Any, tokens: int) -> Case:
    """A list of label sequences, one of them twice."""
    rows = [*product("ab", repeat=tokens)]
    rows, arcs, last = [*rows[:2], *rows[3:6], rows[0]], [], 6 * tokens
    for k, row in enumerate(rows if tokens else []):
        states = [0, *range(1 + k * (tokens - 1), 1 + (k + 1) * (tokens - 1)), last]
        arcs += [_Arc(*p, x, rng.normal()) for p, x in zip(pairwise(states), row, strict=True)]
    return _machine(arcs, [-math.inf] * last + [0.0], tokens)


# --- Batches, one row of which is asked -----------------------------------------------------------


class Row:
    """Row 1 of a batch: of what the batch is asked, its answer; of all else, its own."""

    def __init__(self, batch: Lattices[Any]) -> None:
        self.batch = batch

    def __and__(self, grammar: Grammar) -> Row:
        return Row(self.batch & grammar)

    def __getattr__(self, name: str) -> Any:
        if name in {"scale", "weighted", "without_grammar"}:
            return lambda *given: Row(getattr(self.batch, name)(*given))
        if name in {"score", "probability"}:
            rows = [["O"] * len(one) for one in self.batch]
            return lambda said: float(getattr(self.batch, name)([rows[0], said, rows[2]])[1])
        if name == "span_probabilities":
            return lambda asked: self.batch.span_probabilities([[], asked, []])[1]
        if name in _OF_BATCHES:
            return lambda *given, **options: getattr(self.batch, name)(*given, **options)[1]
        return getattr(self.batch[1], name)

    def best(self) -> Any:
        path = self.batch.best()[1]
        return self.batch[1].best() if path is None else path

    def nbest(self, n: int, tapes: Any = None) -> Any:
        return self.batch[1].nbest(n, tapes=tapes) if tapes else self.batch.decode(n).paths(1)

    def sample(self, n: int, *, seed: int = 0) -> Any:
        return self.batch.sample(n, seed=seed)[1]

    def restrict(self, mask: Any = None, **options: Any) -> Any:
        if options:
            return self.batch[1].restrict(**options)
        every = [np.ones((len(one), 3), dtype=bool) for one in self.batch]
        return Row(self.batch.restrict([every[0], mask, every[2]]))


_OF_BATCHES = {"log_partition", "entropy", "marginals", "max_marginals", "arc_marginals"}
_OF_BATCHES |= {"probable_spans", "minimum_risk"}


def arrays(rng: Any, tokens: int) -> Case:
    given = _Arrays.of(rng, tokens, 3)
    rows = [rng.normal(size=(2, 3)), given.node, rng.normal(size=(tokens + 1, 3))]
    batch = Lattices.from_arrays(BIO, rows, *given[1:])
    return _case(Row(batch), tokens, {"label": Tape(BIO)}, given.ways(BIO, "label"))


def moving(rng: Any, tokens: int) -> Case:
    """Successions that differ from token to token."""
    given = _Arrays.of(rng, tokens, 3)
    rows = [rng.normal(size=(2, 3)), given.node, rng.normal(size=(tokens + 1, 3))]
    steps = [rng.normal(size=(max(len(row) - 1, 0), 3, 3)) for row in rows]
    batch = Lattices.from_arrays(BIO, rows, steps, *given[2:])
    ways = given._replace(step=steps[1]).ways(BIO, "label")
    return _case(Row(batch), tokens, {"label": Tape(BIO)}, ways)


KINDS: dict[str, Callable[[Any, int], Case]] = {
    "chain": chain,
    "second order": second_order,
    "joint": joint,
    "chain rule": chain_rule,
    "segments": segments,
    "spans": spans,
    "sausage": sausage,
    "ctc": ctc,
    "words": words,
    "acyclic": acyclic,
    "paths": paths,
    "arrays": arrays,
    "moving arrays": moving,
}
