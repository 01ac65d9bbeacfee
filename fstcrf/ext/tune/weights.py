"""Weights of taggers, chosen on held-out data.

Taggers from separate trainings have potentials of different sizes; with weights of 1, a later
tagger may overrule an earlier one at tokens with large potentials. Only the ratio of the weights
matters (but to soft grammars), so the first tagger keeps 1. The others are searched one at a time
over a grid, repeatedly until nothing changes. The features of the data are looked up once for all
weights of a tagger: its potentials are rescaled.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from fstcrf.arguments import string_lists
from fstcrf.arrays import Ints, Ragged
from fstcrf.errors import DataError, OptionError
from fstcrf.evaluate import evaluate_spans
from fstcrf.evaluate.labellings import warn_of_unseen
from fstcrf.lattices.batching import Group, answered
from fstcrf.machines.plans import Program, scaled, scaled_chain, warn_unproven
from fstcrf.taggers.batches import as_corpus
from fstcrf.taggers.chain import decode
from fstcrf.taggers.evidence import Request
from fstcrf.taggers.joint import JointCRF
from fstcrf.taggers.tagged import TaggedRun
from fstcrf.text.corpus import Column
from fstcrf.text.sentences import Data

Weights = tuple[float, ...]
JointT = TypeVar("JointT", bound=JointCRF)
Targets = Mapping[str, "str | Sequence[Sequence[str]]"]

WEIGHT_GRID: Weights = (0.0, 0.01, 0.1, 0.2, 0.25, 0.3, 0.4, 0.5, 0.75, 1.0, 1.5, 2.0)
"""0: the first tagger decides; 0.01: nearly the cascade; 1: as trained."""

_SWEEPS = 10


@dataclass(frozen=True, slots=True)
class WeightTrial:
    """Weights that were tried.

    Parameters
    ----------
    weights : tuple of float
        One for each tagger.
    score : float
        The value of the metric, in [0, 1]; more is better.
    """

    weights: Weights
    score: float


def tune_weights(
    composition: JointT,
    dev: Data,
    *,
    targets: Targets | None = None,
    metric: str = "both",
    grid: Sequence[float] = WEIGHT_GRID,
    threads: int = 1,
    report: Callable[[WeightTrial], None] | None = None,
) -> JointT:
    """Return the composition with the weights that do best on held-out data.

    Parameters
    ----------
    composition : JointCRF
        Its own weights are forgotten.
    dev : Corpus or sequence of sentences
        Sentences that no tagger was trained on, with gold labels of the tapes.
    targets : mapping of str to str, optional
        The column of gold labels of each tape that counts; every tagger's tape with the column of
        its name when absent. For sentences without columns, lists of labels.
    metric : str
        ``"both"``: tokens with every tape right. It measures joint decisions, requires no spans,
        and gives equal weight to all tapes. ``"accuracy"``: the mean accuracy of the tapes.
        ``"chunk-F"``: F of the spans of the tape ``chunk``.
    grid : sequence of float
        Weights to try; of weights that do equally well the one nearest 1 is taken.
    threads : int
        The answer does not depend on it.
    report : callable, optional
        Called for every `WeightTrial`.

    Raises
    ------
    OptionError
        A single tagger, invalid weights, an unknown metric or tape.
    DataError
        Data without sentences, or without gold labels of a tape.
    NoPathError
        The grammar accepts no labelling of a sentence.
    """
    if len(composition.taggers) < 2:
        raise OptionError(
            f"the composition has only one tagger, of tape {composition.tapes[0]!r}: "
            "weights are tuned for two or more"
        )
    values = sorted({float(w) for w in grid})
    if not values or not all(0 <= w < np.inf for w in values):
        raise OptionError(f"grid is {list(grid)}, expected numbers from 0")
    gold = _Gold(composition, dev, targets or {t.tape: t.tape for t in composition.taggers}, metric)
    start = min(values, key=lambda w: (abs(w - 1.0), w))
    best: Weights = (1.0, *[start] * (len(composition.taggers) - 1))
    known: dict[Weights, float] = {}
    for _ in range(_SWEEPS):
        before = best
        for k in range(1, len(composition.taggers)):
            line = [(*best[:k], w, *best[k + 1 :]) for w in values]
            new = [weights for weights in line if weights not in known]
            for weights, columns in zip(new, _decided(composition, dev, new, threads), strict=True):
                known[weights] = gold.score(columns)
                if report is not None:
                    report(WeightTrial(weights, known[weights]))
            best = max(line, key=lambda w: (known[w], -abs(w[k] - 1.0), -w[k]))
        if best == before:
            break
    return composition.with_weights(*best)


class _Gold:
    """The gold labels, and the metric for decisions."""

    def __init__(self, composition: JointCRF, dev: Data, targets: Targets, metric: str) -> None:
        self.tapes = list(targets)
        odd = [tape for tape in self.tapes if tape not in composition.tapes]
        if odd or not self.tapes:
            there = ", ".join(map(repr, composition.tapes))
            raise OptionError(f"targets names {odd or 'no tape'}; the tapes are {there}")
        metrics = ["both", "accuracy", *(f"{tape}-F" for tape in self.tapes)]
        if metric not in metrics:
            raise OptionError(f"metric is {metric!r}, expected one of {', '.join(metrics)}")
        self.metric, self.places = metric, [composition.tapes.index(t) for t in self.tapes]
        lengths, columns = _gold_columns(composition, dev, targets)
        self.bounds = list(itertools.accumulate((n for n in lengths if n), initial=0))
        if not self.bounds[-1]:
            raise DataError("there are no sentences to tune on")
        self.columns = columns
        self.ids = []
        for tape, column in zip(self.tapes, columns, strict=True):
            number = {label: i for i, label in enumerate(composition.label_sets[tape])}
            ids = np.asarray([number.get(v, -1) for v in column.values], dtype=np.int32)[column.ids]
            if (ids < 0).all():
                raise DataError(
                    f"no gold label of tape {tape!r} is among its labels, "
                    f"{', '.join(list(number)[:8])}: name the column of gold labels, "
                    "targets={...}"
                )
            what = f"held-out labels of tape {tape!r}"
            warn_of_unseen([column.strings()], number, what)
            self.ids.append(ids)

    def score(self, found: Sequence[Column]) -> float:
        """Return the metric's value for labels, one column for each tape of the composition."""
        chosen = [found[place] for place in self.places]
        right = np.stack([c.ids == ids for c, ids in zip(chosen, self.ids, strict=True)])
        if self.metric == "both":
            return float(right.all(axis=0).mean())
        if self.metric == "accuracy":
            return float(right.mean())
        k = self.tapes.index(self.metric.removesuffix("-F"))
        return evaluate_spans(self._lists(self.columns[k]), self._lists(chosen[k])).f

    def _lists(self, column: Column) -> list[list[str]]:
        strings = column.strings()
        return [strings[a:b] for a, b in itertools.pairwise(self.bounds)]


def _gold_columns(
    composition: JointCRF, dev: Data, targets: Targets
) -> tuple[list[int], list[Column]]:
    """Return the lengths of sentences, and the gold labels of each tape that counts."""
    names = {tape: name for tape, name in targets.items() if isinstance(name, str)}
    if composition._literal:
        if names:
            raise DataError(
                "the sentences have no columns: give the gold labels as lists, targets={tape: "
                "[[label, ...], ...]}"
            )
        lengths = [len(sentence) for sentence in dev]
    else:
        corpus = as_corpus(composition, dev)
        lengths = Ragged(corpus.offsets).lengths.tolist()
        missing = [
            f"{tape!r} ({name!r})" for tape, name in names.items() if name not in corpus.columns
        ]
        if missing and corpus.n_tokens:
            raise DataError(
                f"no column of gold labels for the tapes {', '.join(missing)}; the columns "
                f"are {', '.join(corpus.columns)}: give targets={{tape: column}}",
                path=corpus.source,
            )
    found = []
    for tape, labels in targets.items():
        if isinstance(labels, str):
            found.append(corpus.columns.get(labels, Column.from_strings(())))
            continue
        rows = string_lists(labels, "gold label", error=DataError)
        if list(map(len, rows)) != lengths:
            raise DataError(f"the gold labels of tape {tape!r} are not as long as the sentences")
        found.append(Column.from_strings(itertools.chain.from_iterable(rows)))
    return lengths, found


def _decided(
    composition: JointCRF, dev: Data, tried: Sequence[Weights], threads: int
) -> list[tuple[Column, ...]]:
    """Return the labels that each choice of weights gives, one column for each tape."""
    if composition._conditional:  # its potentials are the taggers' potentials: no rescaling
        return [_by_chain(composition.with_weights(*weights), dev, threads) for weights in tried]
    if not tried:
        return []
    unit = composition.with_weights(*[1.0] * len(composition.taggers))
    names = [tagger.tape for tagger in unit.taggers]
    programs = [_weighted(unit._program, dict(zip(names, w, strict=True))) for w in tried]

    def answer(group: Group) -> list[list[Ints]]:
        run, found = group.engine, []
        assert isinstance(run, TaggedRun)  # noqa: S101 (as the lattices of taggers of tokens are)
        for weights, program in zip(tried, programs, strict=True):
            factor = dict(zip(names, weights, strict=True))
            mine = tuple(
                scaled(v, factor[what.tape]) if factor.get(what.tape, 1.0) != 1.0 else v
                for what, v in zip(program.inputs, run.joined, strict=True)
            )
            engine = run.with_potentials(program, mine)
            found.append(engine.decode(1, engine.on[: len(unit.tapes)], None, strict=True)[1])
        return found

    answers = answered(unit._lattices(dev, streamed=True), answer, threads)
    return [
        tuple(
            Column(np.concatenate([run[number][k][0] for _, run in answers]), unit.label_sets[tape])
            for k, tape in enumerate(unit.tapes)
        )
        for number in range(len(tried))
    ]


def _by_chain(composition: JointCRF, dev: Data, threads: int) -> tuple[Column, ...]:
    answer = decode(composition, Request(dev, threads=threads, scores=False))
    warn_unproven(int((~answer.exact).sum()), len(answer))
    return tuple(answer[tape].column() for tape in composition.tapes)


def _weighted(program: Program, factor: Mapping[str, float]) -> Program:
    """Return a program whose chains are weighted; grammars keep their scores."""
    chains = [scaled_chain(chain, factor.get(chain.name, 1.0)) for chain in program.chains]
    return Program(chains, program.couplings, program.conjuncts, program.search)
