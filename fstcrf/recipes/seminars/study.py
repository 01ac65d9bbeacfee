"""The systems of a split: they are trained, timed, scored.

=======  ===================================================================
Outcome  what was measured
Study    trains the systems of one set of features, and scores them
=======  ===================================================================
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from fstcrf.corpus import Corpus
from fstcrf.model import CRF
from fstcrf.pipelines import Pipeline, Task, TrainedPipeline
from fstcrf.pipelines.trained import Decode
from fstcrf.recipes.seminars.agreement import agreeing, ranked
from fstcrf.recipes.seminars.scoring import POLICIES, mean_f, scored, token_f
from fstcrf.recipes.seminars.templates import Features

__all__ = ["Outcome", "Study"]


class Outcome(msgspec.Struct):
    """What was measured on a split: for each system, F by ``field/policy``, and more."""

    scores: dict[str, dict[str, float]] = {}
    chosen: dict[str, str] = {}
    host: dict[str, int] = {}
    seconds: dict[str, float] = {}


class Study:
    """The systems of one set of features on a split, and their scores.

    Parameters
    ----------
    features : Features
    train, test : Corpus
        The halves.
    ner : CRF
        The entity tagger.
    place : callable
        The folder in which the pipeline of a name is kept; None for none.
    """

    def __init__(
        self,
        features: Features,
        train: Corpus,
        test: Corpus,
        ner: CRF,
        place: Callable[[str], Path | None],
    ) -> None:
        self.found = Outcome()
        self.train = features.prepared(train)
        self._features, self._test, self._ner, self._place = features, test, ner, place
        self._words = test.column_lists("word")
        self._gold = test.column_lists("field")

    def alone(self) -> TrainedPipeline:
        """Return the field tagger that reads no other."""
        task = Task("field", self.train, self._features.alone, options=self._features.options)
        return self._timed("alone", Pipeline([task]))

    def trained(self, name: str, train: Corpus, **options: Any) -> TrainedPipeline:
        """Return the entity tagger with a field tagger that reads it."""
        options = {**self._features.options, **options}
        task = Task("field", train, self._features.transfer, reads=["ner"], options=options)
        return self._timed(name, Pipeline([self._ner, task]))

    def _timed(self, name: str, pipeline: Pipeline) -> TrainedPipeline:
        told: list[str] = []
        started = time.perf_counter()
        found = pipeline.train(self._place(name), told=told.append)
        if not any("finished before" in line for line in told):
            self.found.seconds[f"training, {name}"] = time.perf_counter() - started
        return found

    def score(self, system: str, pipeline: TrainedPipeline, decode: Decode) -> None:
        """Score a pipeline on the test half, as a system."""
        started = time.perf_counter()
        answers = pipeline.tag_all(self._test, decode=decode)
        seconds = time.perf_counter() - started
        single = len(pipeline.tapes) == 1
        self._keep(system, answers if single else [y for _, y in answers], seconds)
        if not single:
            names = [names for names, _ in answers]
            self.found.host[self._features.named(system)] = _hosts(self._words, names)
        self.found.host["all"] = _hosts(self._words, None)

    def score_agreeing(self, system: str, pipeline: TrainedPipeline, penalty: float) -> None:
        """Score a pipeline's joint decisions, chosen by how far a message's fields agree."""
        started = time.perf_counter()
        labels = agreeing(ranked(pipeline, self._test), self._test, penalty)
        self._keep(system, labels, time.perf_counter() - started)

    def _keep(self, system: str, labels: Sequence[Sequence[str]], seconds: float) -> None:
        name = self._features.named(system)
        self.found.seconds[name] = seconds
        found = {"tokens": token_f(self._gold, labels)}
        for policy in POLICIES:
            scores = scored(self._words, self._gold, labels, policy)
            found |= {f"{field}/{policy}": score.f for field, score in scores.items()}
            found[f"overall/{policy}"] = mean_f(scores)
        self.found.scores[name] = found


def _hosts(words: Sequence[Sequence[str]], names: Sequence[Sequence[str]] | None) -> int:
    """Count ``Host`` before a colon; with entity labels, those that are part of an entity."""
    return sum(
        w[k] == "Host" and w[k + 1] == ":" and (names is None or names[i][k] != "O")
        for i, w in enumerate(words)
        for k in range(len(w) - 1)
    )
