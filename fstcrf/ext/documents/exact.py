"""Provably best labels of a small document: integer programming after Gibbs sampling.

No penalty is positive. A labelling of the document that is better than the sampled one
therefore has, in each sentence, a tagger score within a gap of the sentence's best score: the gap
is the sum of the best scores minus the sampled score. These labellings are listed, and the program
chooses one for each sentence. It has a variable for each span, and one for each pair of spans
with a joint cost.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from fstcrf.arrays import Floats, Ragged
from fstcrf.errors import OptionError, ShapeError
from fstcrf.ext.documents.consistency import Consistency
from fstcrf.ext.documents.document import (
    Document,
    SpanTables,
    each_a,
    finite,
    span_tables,
    whole_number,
)
from fstcrf.ext.documents.fields import Fields
from fstcrf.ext.documents.sampler import Annealing, DocumentChain
from fstcrf.ext.documents.scores import LocalScores, check_types
from fstcrf.lattices import Lattice

Model: TypeAlias = Consistency | Fields
Span: TypeAlias = tuple[int, int, int]  # start, end, type

_NEGLIGIBLE = 1e-9


@dataclass(frozen=True, slots=True)
class ExactLabels:
    """The best labels of a document.

    Parameters
    ----------
    labels : list of str
        One for each token.
    score : float
        The tagger's and the models', natural log.
    sampled : float
        The score of the sampled labels.
    """

    labels: list[str]
    score: float
    sampled: float


def exact_labels(
    lattices: Sequence[Lattice],
    document: Document,
    models: Sequence[Model],
    *,
    annealing: Annealing | None = None,
    seed: int = 0,
    most: int = 500,
    seconds: float = 60.0,
) -> ExactLabels | None:
    """Return the provably best labels of a document; `None` if that exceeds the limits.

    Parameters
    ----------
    lattices : sequence of Lattice
        Lattices of the document's nonempty sentences, of one program and one tape.
    document : Document
    models : sequence of Consistency and Fields
        Whose penalties are at most 0, and compare spans two by two.
    annealing : Annealing, optional
        Schedule of the initial sampling.
    seed : int
        Of the sampling.
    most : int
        Labellings of a sentence that are listed at most, at least 1.
    seconds : float
        Time limit of the solver, above 0.

    Raises
    ------
    ShapeError
        Lattices of other sentences.
    OptionError
        Another type than a document or a list of models, a penalty above 0, values that are counted
        together, or limits outside their range.
    LabelError
        A model names a type that no label has.
    """
    _check(lattices, document, models)
    whole_number("most", most, 1)
    if not finite("seconds", seconds) > 0.0:
        raise OptionError(f"seconds is {seconds:g}, expected a number above 0")
    (tape,) = lattices[0].tapes
    chain = DocumentChain(document, LocalScores.of(lattices), models, tapes=(tape,), seed=seed)
    chain.sweep((annealing or Annealing()).temperatures())
    sampled = chain.best_score
    best = [lattice.best().score for lattice in lattices]
    candidates = []
    for lattice, score in zip(lattices, best, strict=True):
        found = _above(lattice, score - (sum(best) - sampled) - _NEGLIGIBLE, most)
        if found is None:
            return None
        candidates.append(found)
    program = _Program(document, models, candidates)
    chosen = program.solved(seconds)
    if chosen is None:
        return None
    labels = [label for row, k in zip(candidates, chosen, strict=True) for label in row[k][0]]
    local = sum(row[k][1] for row, k in zip(candidates, chosen, strict=True))
    beyond = sum(model.score(document, labels) for model in models)
    return ExactLabels(labels, local + beyond, sampled)


def _check(lattices: Sequence[Lattice], document: Document, models: Sequence[Model]) -> None:
    if not isinstance(document, Document):
        raise OptionError(
            f"document is a {type(document).__name__}, expected a Document: documents(corpus) "
            "yields them"
        )
    if [len(lattice) for lattice in lattices] != Ragged(document.offsets).lengths.tolist():
        raise ShapeError(
            "the lattices do not belong to the sentences of the document: their lengths differ"
        )
    each_a("models", models, Consistency, Fields)
    (tape,) = lattices[0].tapes
    for model in models:
        check_types(model, {tape: lattices[0].on[lattices[0].number(tape)].labels})
        for violation in model.violations:
            if violation.penalty > 0:
                raise OptionError(f"a penalty is {violation.penalty:g}, expected at most 0")
            if getattr(violation, "counting", "pairs") != "pairs":
                raise OptionError(
                    f"{type(model).__name__} counts values, not pairs of spans, and only pairs "
                    "have an exact answer: counting='pairs', or agreed_labels, which samples"
                )


Candidate: TypeAlias = tuple[Sequence[str], float]


def _above(lattice: Lattice, least: float, most: int) -> list[Candidate] | None:
    """Return the labellings with at least this score; `None` if there are more than `most`."""
    n = 8
    while True:
        paths = lattice.nbest(min(n, most + 1))
        if len(paths) < min(n, most + 1) or paths[-1].score < least:
            return [(path.labels, path.score) for path in paths if path.score >= least]
        if n > most:
            return None
        n *= 4


class _Program:
    """Binary variables: a labelling for each sentence; then spans, and pairs of them."""

    def __init__(
        self, document: Document, models: Sequence[Model], candidates: list[list[Candidate]]
    ) -> None:
        self._document, self._models = document, models
        self._types = tuple(sorted({name for model in models for name in model.types}))
        self._sizes = [len(row) for row in candidates]
        self._local = np.asarray([score for row in candidates for _, score in row])
        self._spans: dict[Span, list[int]] = {}  # for each span, the labellings that contain it
        tables = _tables(candidates, self._types)
        number, reading = {label: k for k, label in enumerate(tables[0])}, tables[1]
        k = 0
        for start, row in zip(document.offsets.tolist(), candidates, strict=False):
            for labels, _ in row:
                numbers = [number[label] for label in labels]
                for a, b, kind in reading.spans(numbers, len(number)):
                    self._spans.setdefault((start + a, start + b, kind), []).append(k)
                k += 1

    def solved(self, seconds: float) -> list[int] | None:
        """Return the labelling of each sentence; `None` if it is not proven in time."""
        from scipy.optimize import Bounds, LinearConstraint, milp  # noqa: PLC0415 (slow to import)
        from scipy.sparse import coo_array  # noqa: PLC0415

        spans, pairs = list(self._spans), self._pairs()
        n, p = len(self._local), len(spans)
        value = np.concatenate([self._local, self._alone(spans), list(pairs.values())])
        rows: list[tuple[Mapping[int, float], float, float]] = []
        starts = Ragged.from_lengths(self._sizes).offsets.tolist()
        for a, b in itertools.pairwise(starts):
            rows.append((dict.fromkeys(range(a, b), 1.0), 1.0, 1.0))
        for k, span in enumerate(spans):
            rows.append(({n + k: -1.0, **dict.fromkeys(self._spans[span], 1.0)}, 0.0, 0.0))
        for k, ((one, other), cost) in enumerate(pairs.items(), n + p):
            both = {n + one: 1.0, n + other: 1.0}
            if cost < 0:  # there at least where both spans are
                rows.append(({**both, k: -1.0}, -np.inf, 1.0))
            else:
                rows += [({k: 1.0, n + side: -1.0}, -np.inf, 0.0) for side in (one, other)]
        entries = [(r, c, x) for r, (row, _, _) in enumerate(rows) for c, x in row.items()]
        r, c, x = (np.asarray(part) for part in zip(*entries, strict=True))
        matrix = coo_array((x, (r, c)), shape=(len(rows), len(value))).tocsr()
        found = milp(
            -value,
            integrality=np.arange(len(value)) < n,
            bounds=Bounds(0, 1),
            constraints=LinearConstraint(
                matrix, [low for _, low, _ in rows], [h for *_, h in rows]
            ),
            options={"time_limit": seconds, "mip_rel_gap": 0.0},
        )
        if found.status != 0:
            return None
        return [int(found.x[a:b].argmax()) for a, b in itertools.pairwise(starts)]

    def _alone(self, spans: Iterable[Span]) -> Floats:
        return np.asarray([self._score([span]) for span in spans])

    def _pairs(self) -> dict[tuple[int, int], float]:
        """Return the nonzero joint costs of two spans, without their separate costs."""
        spans = list(self._spans)
        alone = self._alone(spans)
        found = {}
        for (i, one), (j, other) in itertools.combinations(enumerate(spans), 2):
            if (one[1] <= other[0] or other[1] <= one[0]) and self._related(one, other):
                cost = self._score([one, other]) - alone[i] - alone[j]
                if abs(cost) > _NEGLIGIBLE:
                    found[i, j] = cost
        return found

    def _related(self, one: Span, other: Span) -> bool:
        """Return whether two spans may have a joint cost: they share a word or a type."""
        if one[2] == other[2] and any(isinstance(model, Fields) for model in self._models):
            return True
        for model in self._models:
            column = self._document.corpus.column(model.column)
            mine, others = (
                {word.lower() for word in column.strings(a, b)} for a, b, _ in (one, other)
            )
            if mine & others:
                return True
        return False

    def _score(self, spans: Sequence[Span]) -> float:
        """Return the score of models for a document with these spans only."""
        labels = ["O"] * len(self._document)
        for a, b, kind in spans:
            name = self._types[kind]
            labels[a:b] = [f"B-{name}", *[f"I-{name}"] * (b - a - 1)]
        return sum(model.score(self._document, labels) for model in self._models)


def _tables(
    candidates: Iterable[Iterable[Candidate]], types: Sequence[str]
) -> tuple[list[str], SpanTables]:
    known = sorted({label for row in candidates for labels, _ in row for label in labels})
    return known, span_tables(known, types, strict=False)
