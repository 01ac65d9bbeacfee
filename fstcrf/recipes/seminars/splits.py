"""One 50/50 split of the messages: its taggers are trained, every way to decide is scored.

=========  ========================================================================
Split      which messages are for training, which for testing
split      a split by its number
measured   scores of all systems on a split, from its file when it is finished
SYSTEMS    the systems, with the paper's name where it has one
=========  ========================================================================
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from fstcrf import constraints
from fstcrf.corpus import Corpus
from fstcrf.corpus.files import atomic_write
from fstcrf.errors import DataError
from fstcrf.grammar import Grammar
from fstcrf.model import CRF
from fstcrf.pipelines import Pipeline, Task, TrainedPipeline
from fstcrf.pipelines.trained import Decode
from fstcrf.recipes.seminars.messages import FIELDS
from fstcrf.recipes.seminars.scoring import POLICIES, mean_f, scored, token_f
from fstcrf.recipes.seminars.templates import ALONE, TRANSFER

__all__ = ["OPTIONS", "SYSTEMS", "Outcome", "Split", "grammars", "measured", "split"]

SYSTEMS = {
    "no transfer": "none",
    "cascaded": "cascaded",
    "joint, λ = 1": "joint",
    "joint, λ tuned": "joint",
    "joint, chain": "joint",
    "no transfer, with that grammar": None,
    "joint, chosen with a grammar": "joint",
    "marginals in decoding": None,
    "marginals in training, cascaded": None,
    "marginals in training, joint": None,
    "marginals in training, joint, that grammar": None,
    "marginals in training and decoding": None,
}
"""The systems; for each the row of the paper's Table 2 that it stands beside."""

OPTIONS = {"scheme": "iob2", "l2": 1.0, "max_iterations": 100}
"""Of the field taggers: l2 = 1 / 2σ², for the paper's σ² = 0.5."""

Change: TypeAlias = Callable[[TrainedPipeline], TrainedPipeline]

TWINS = (0, 25)  # the same message: both on one side of a split
GRID = (0.35, 0.5, 0.75, 1.0, 1.5, 2.0)
PRICES = {"location": (0.0, 1.5, 3.0), "speaker": (1.5, 3.0, 5.0)}
FOLDS = 3


class Outcome(msgspec.Struct):
    """What was measured on a split: for each system, F by ``field/policy``, and more."""

    scores: dict[str, dict[str, float]] = {}
    chosen: dict[str, str] = {}
    host: dict[str, int] = {}
    seconds: dict[str, float] = {}


@dataclass(frozen=True, slots=True)
class Split:
    """Which messages are for training, and which for testing."""

    train: NDArray[np.int64]
    test: NDArray[np.int64]


def split(n: int, seed: int, number: int) -> Split:
    """Return a split of n messages: a half each, twins on one side."""
    order = np.random.default_rng([seed, number]).permutation(n)
    if n > max(TWINS):
        first, second = (int(np.flatnonzero(order == twin)[0]) for twin in TWINS)
        order = np.insert(np.delete(order, second), first + (first < second), order[second])
    half = n // 2
    if n > max(TWINS) and {int(order[half - 1]), int(order[half])} == set(TWINS):
        half += 1
    return Split(np.sort(order[:half]), np.sort(order[half:]))


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


def measured(
    messages: Corpus, ner: CRF, one: Split, folder: Path | None, say: Callable[[str], None]
) -> Outcome:
    """Train and score all systems on a split; take what is finished from its folder.

    Raises
    ------
    DataError
        The folder holds something else.
    """
    file = None if folder is None else folder / "outcome.json"
    if file is not None and file.exists():
        return _read(file)
    train, test = messages.select(one.train), messages.select(one.test)
    found = Outcome()
    study = _Study(test, found, ner, folder)
    say("no transfer")
    alone = study.alone(train)
    say("with the entity tagger")
    plain = study.trained("transfer", train)
    study.score("cascaded", lambda: plain.tag_all(test, decode="cascade"))
    study.score("joint, λ = 1", lambda: plain.tag_all(test, decode="joint"))
    study.score("joint, chain", lambda: _chain(plain).tag_all(test, decode="joint"))
    study.score("marginals in decoding", lambda: plain.tag_all(test, decode="marginals"))
    say("choosing weights and a grammar on the training half")
    weights, best = study.choice(train)
    tuned = plain.with_weights(1.0, weights)
    study.score("joint, λ tuned", lambda: tuned.tag_all(test, decode="joint"))
    bound = alone.constrained(grammars()[found.chosen["grammar"]])  # what the grammar does alone
    study.score(
        "no transfer, with that grammar",
        lambda: [(None, y) for y in bound.tag_all(test, decode="joint")],
    )
    study.score("joint, chosen with a grammar", lambda: best(plain).tag_all(test, decode="joint"))
    say("marginals in training")
    soft = study.trained("marginals", train, passing="marginals")
    name = "marginals in training"
    study.score(f"{name}, cascaded", lambda: soft.tag_all(test, decode="cascade"))
    study.score(f"{name}, joint", lambda: soft.tag_all(test, decode="joint"))
    study.score(f"{name}, joint, that grammar", lambda: best(soft).tag_all(test, decode="joint"))
    study.score(f"{name} and decoding", lambda: soft.tag_all(test, decode="marginals"))
    if file is not None:
        with atomic_write(file) as out:
            out.write(msgspec.json.format(msgspec.json.encode(found)))
    return found


def _read(file: Path) -> Outcome:
    try:
        return msgspec.json.decode(file.read_bytes(), type=Outcome)
    except msgspec.MsgspecError as error:
        raise DataError(f"not a finished split: {error}", path=str(file)) from None


def _chain(pipeline: TrainedPipeline) -> TrainedPipeline:
    return replace(pipeline, composition=replace(pipeline.composition, normalize="chain"))


def _changed(weight: float, grammar: Grammar | None = None) -> Change:
    """Return what gives a pipeline another weight of its field tagger, and a grammar."""

    def change(pipeline: TrainedPipeline) -> TrainedPipeline:
        found = pipeline.with_weights(1.0, weight)
        return found if grammar is None else found.constrained(grammar)

    return change


class _Study:
    """The systems of a split, and their scores."""

    def __init__(self, test: Corpus, found: Outcome, ner: CRF, folder: Path | None) -> None:
        self._test, self._found, self._ner, self._folder = test, found, ner, folder
        self._words = test.column_lists("word")
        self._gold = test.column_lists("field")

    def alone(self, train: Corpus) -> TrainedPipeline:
        """Train and score the field tagger that reads no other."""
        task = Task("field", train, ALONE, options=OPTIONS)
        model = self._timed("alone", Pipeline([task]))
        self.score("no transfer", lambda: [(None, y) for y in model.tag_all(self._test)])
        return model

    def trained(self, name: str, train: Corpus, **options: Any) -> TrainedPipeline:
        """Return the entity tagger with a field tagger that reads it."""
        task = Task("field", train, TRANSFER, reads=["ner"], options={**OPTIONS, **options})
        return self._timed(name, Pipeline([self._ner, task]))

    def _timed(self, name: str, pipeline: Pipeline) -> TrainedPipeline:
        told: list[str] = []
        started = time.perf_counter()
        place = None if self._folder is None else self._folder / name
        found = pipeline.train(place, told=told.append)
        if not any("finished before" in line for line in told):
            self._found.seconds[f"training, {name}"] = time.perf_counter() - started
        return found

    def score(self, name: str, tag: Callable[[], Sequence[Any]]) -> None:
        """Score a system on the test half."""
        started = time.perf_counter()
        answers = tag()
        self._found.seconds[name] = time.perf_counter() - started
        labels = [fields for _, fields in answers]
        found = {"tokens": token_f(self._gold, labels)}
        for policy in POLICIES:
            scores = scored(self._words, self._gold, labels, policy)
            found |= {f"{field}/{policy}": score.f for field, score in scores.items()}
            found[f"overall/{policy}"] = mean_f(scores)
        self._found.scores[name] = found
        if answers[0][0] is not None:
            self._found.host[name] = _hosts(self._words, [names for names, _ in answers])
        self._found.host["all"] = _hosts(self._words, None)

    def choice(self, train: Corpus) -> tuple[float, Change]:
        """Choose weight of the field tagger, grammar and policy by cross-validation.

        Only the training half is looked at.
        """
        fold = np.arange(len(train)) % FOLDS
        held, inner = [], []
        for k in range(FOLDS):
            held.append(train.select(np.flatnonzero(fold == k)))
            inner.append(self.trained(f"fold{k}", train.select(np.flatnonzero(fold != k))))
        words = [w for part in held for w in part.column_lists("word")]
        gold = [y for part in held for y in part.column_lists("field")]

        def labels(change: Change, decode: Decode = "joint") -> list[list[str]]:
            pairs = zip(inner, held, strict=True)
            answers = [change(p).tag_all(part, decode=decode) for p, part in pairs]
            return [fields for part in answers for _, fields in part]

        cascaded = labels(lambda p: p, "cascade")
        policy = max(POLICIES, key=lambda name: mean_f(scored(words, gold, cascaded, name)))

        def worth(change: Change) -> float:
            return mean_f(scored(words, gold, labels(change), policy))

        by_weight = {w: worth(_changed(w)) for w in GRID}
        weight = max(GRID, key=lambda w: (by_weight[w], -abs(w - 1.0)))
        options = {
            (1.0, name): worth(_changed(1.0, grammar)) for name, grammar in grammars().items()
        }
        best = max(options, key=options.__getitem__)
        if weight != 1.0:
            options[weight, best[1]] = worth(_changed(weight, grammars()[best[1]]))
            best = max(options, key=options.__getitem__)
        chosen = {"weight": f"{weight:g}", "decoder": f"λ = {best[0]:g}", "grammar": best[1]}
        self._found.chosen = {**chosen, "policy": policy}
        return weight, _changed(best[0], grammars()[best[1]])


def _hosts(words: Sequence[Sequence[str]], names: Sequence[Sequence[str]] | None) -> int:
    """Count ``Host`` before a colon; with entity labels, those that are part of an entity."""
    return sum(
        w[k] == "Host" and w[k + 1] == ":" and (names is None or names[i][k] != "O")
        for i, w in enumerate(words)
        for k in range(len(w) - 1)
    )
