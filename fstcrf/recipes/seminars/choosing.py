"""What a training half chooses by cross-validation: weight, grammar, which value is taken.

=========  =====================================================================
grammars   the grammars to choose from
Choice     what was chosen
folded     a corpus in parts to train on and parts to score
Folds      choose by cross-validation; only the training half is looked at
=========  =====================================================================
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from fstcrf import constraints
from fstcrf.corpus import Corpus
from fstcrf.grammar import Grammar
from fstcrf.pipelines import TrainedPipeline
from fstcrf.pipelines.trained import Decode
from fstcrf.recipes.seminars.agreement import agreeing, ranked
from fstcrf.recipes.seminars.messages import FIELDS
from fstcrf.recipes.seminars.scoring import POLICIES, mean_f, scored

__all__ = ["FOLDS", "Choice", "Folds", "folded", "grammars"]

GRID = (0.35, 0.5, 0.75, 1.0, 1.5, 2.0)
PRICES = {"location": (0.0, 1.5, 3.0), "speaker": (1.5, 3.0, 5.0)}
PENALTIES = (-1.0, -0.5, -2.0, 0.0)  # of equally good ones the first is taken
FOLDS = 3

Change: TypeAlias = Callable[[TrainedPipeline], TrainedPipeline]
Train: TypeAlias = Callable[[str, Corpus], TrainedPipeline]


@dataclass(frozen=True, slots=True)
class Choice:
    """What was chosen.

    Parameters
    ----------
    weight : float
        Of the field tagger, without a grammar.
    decoder : float
        Of the field tagger, with the grammar.
    grammar : str
        Its name among `grammars`.
    policy : str
        Which value of a field is taken, see `scored`.
    """

    weight: float
    decoder: float
    grammar: str
    policy: str

    def tuned(self, pipeline: TrainedPipeline) -> TrainedPipeline:
        """Return a pipeline with the weight that was chosen without a grammar."""
        return _weighted(pipeline, self.weight)

    def decided(self, pipeline: TrainedPipeline) -> TrainedPipeline:
        """Return a pipeline with the grammar, and the weight that was chosen with it."""
        return _weighted(pipeline, self.decoder).constrained(grammars()[self.grammar])

    def report(self) -> dict[str, str]:
        """Return what the page says of it."""
        return {
            "weight": f"{self.weight:g}",
            "decoder": f"λ = {self.decoder:g}",
            "grammar": self.grammar,
            "policy": self.policy,
        }


def grammars() -> dict[str, Grammar]:
    """Return the grammars among which the training half chooses.

    All have a start, and no end without one. Then a message may be without a place or a speaker
    at a price, or has each field at most once, no start after an end.
    """
    tape = "field"
    needed = constraints.at_least(1, "stime", tape=tape)
    needed &= constraints.requires("etime", "stime", tape=tape)
    once = needed & constraints.before("stime", "etime", tape=tape)
    for field in FIELDS:
        once &= constraints.at_most(1, field, tape=tape)
    found = {"a start": needed, "each once": once}
    for place, speaker in itertools.product(*PRICES.values()):
        grammar = needed
        for field, price in (("location", place), ("speaker", speaker)):
            if price:
                grammar &= constraints.at_least(1, field, tape=tape, weight=-price)
        found[f"no place {place:g}, no speaker {speaker:g}"] = grammar
    return found


def folded(corpus: Corpus) -> list[tuple[Corpus, Corpus]]:
    """Return, for each fold, the others and the fold: every third message."""
    fold = np.arange(len(corpus)) % FOLDS
    return [
        (corpus.select(np.flatnonzero(fold != k)), corpus.select(np.flatnonzero(fold == k)))
        for k in range(FOLDS)
    ]


class Folds:
    """Pipelines that have not seen a third of the training half, and that third.

    Parameters
    ----------
    train : Corpus
        The training half; nothing else is looked at.
    trained : callable
        Trains the pipeline of a name on a corpus.
    """

    def __init__(self, train: Corpus, trained: Train) -> None:
        parts = folded(train)
        self._held = [held for _, held in parts]
        self._inner = [trained(f"fold{k}", rest) for k, (rest, _) in enumerate(parts)]
        self._words = [w for part in self._held for w in part.column_lists("word")]
        self._gold = [y for part in self._held for y in part.column_lists("field")]

    def choice(self) -> Choice:
        """Choose weight, grammar, and policy; the policy for the cascade."""
        cascaded = self._labels(lambda p: p, "cascade")
        policy = max(POLICIES, key=lambda name: self._f(cascaded, name))

        def worth(change: Change) -> float:
            return self._f(self._labels(change), policy)

        by_weight = {w: worth(Choice(w, w, "", policy).tuned) for w in GRID}
        weight = max(GRID, key=lambda w: (by_weight[w], -abs(w - 1.0)))
        options = {
            (1.0, name): worth(Choice(weight, 1.0, name, policy).decided) for name in grammars()
        }
        best = max(options, key=options.__getitem__)
        if weight != 1.0:
            options[weight, best[1]] = worth(Choice(weight, weight, best[1], policy).decided)
            best = max(options, key=options.__getitem__)
        return Choice(weight, *best, policy)

    def penalty(self, choice: Choice) -> float:
        """Choose what it costs that fields do not agree, beside all that was chosen."""
        pairs = list(zip(self._inner, self._held, strict=True))
        lists = [ranked(choice.decided(pipeline), part) for pipeline, part in pairs]

        def worth(penalty: float) -> float:
            parts = zip(lists, self._held, strict=True)
            labels = [y for few, part in parts for y in agreeing(few, part, penalty)]
            return self._f(labels, choice.policy)

        return max(PENALTIES, key=worth)

    def _labels(self, change: Change, decode: Decode = "joint") -> list[Sequence[str]]:
        pairs = zip(self._inner, self._held, strict=True)
        answers = [change(p).tag_all(part, decode=decode) for p, part in pairs]
        return [fields for part in answers for _, fields in part]

    def _f(self, labels: Sequence[Sequence[str]], policy: str) -> float:
        return mean_f(scored(self._words, self._gold, labels, policy))


def _weighted(pipeline: TrainedPipeline, weight: float) -> TrainedPipeline:
    return pipeline.with_weights(1.0, weight)
