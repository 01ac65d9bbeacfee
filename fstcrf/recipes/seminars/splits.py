"""One 50/50 split of the messages: its taggers are trained, every way to decide is scored.

=========  ========================================================================
Split      which messages are for training, which for testing
split      a split by its number
measured   scores of all systems on a split, from its file when it is finished
SYSTEMS    the systems, with the paper's name where it has one
=========  ========================================================================
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
    "joint, chosen with a grammar": "joint",
    "marginals in decoding": None,
    "marginals in training, cascaded": None,
    "marginals in training, joint": None,
    "marginals in training and decoding": None,
}
"""The systems; for each the row of the paper's Table 2 that it stands beside."""

OPTIONS = {"scheme": "iob2", "l2": 1.0, "max_iterations": 100}
"""Of the field taggers: l2 = 1 / 2σ², for the paper's σ² = 0.5."""

TWINS = (0, 25)  # the same message: both on one side of a split
GRID = (0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0, 1.5)


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
    """Return the grammars among which the held-out part of a training half chooses."""
    tape = "field"
    needed = constraints.at_least(1, "stime", tape=tape)
    needed &= constraints.requires("etime", "stime", tape=tape)
    likely, once = needed, needed & constraints.before("stime", "etime", tape=tape)
    for field in ("location", "speaker"):
        likely &= constraints.at_least(1, field, tape=tape, weight=-3.0)
    for field in FIELDS:
        once &= constraints.at_most(1, field, tape=tape)
    return {"a start": needed, "a start, likely a place and a speaker": likely, "each once": once}


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
    study.alone(train)
    say("with the entity tagger")
    plain = study.trained("transfer", train)
    study.score("cascaded", lambda: plain.tag_all(test, decode="cascade"))
    study.score("joint, λ = 1", lambda: plain.tag_all(test, decode="joint"))
    study.score("joint, chain", lambda: _chain(plain).tag_all(test, decode="joint"))
    study.score("marginals in decoding", lambda: plain.tag_all(test, decode="marginals"))
    say("choosing weights and a grammar on a fifth of the training half")
    weights, best = study.choice(train)
    tuned = plain.with_weights(1.0, weights)
    study.score("joint, λ tuned", lambda: tuned.tag_all(test, decode="joint"))
    study.score("joint, chosen with a grammar", lambda: best(plain).tag_all(test, decode="joint"))
    say("marginals in training")
    soft = study.trained("marginals", train, passing="marginals")
    for name, decode in (("cascaded", "cascade"), ("joint", "joint")):
        study.score(f"marginals in training, {name}", lambda d=decode: soft.tag_all(test, decode=d))
    name = "marginals in training and decoding"
    study.score(name, lambda: soft.tag_all(test, decode="marginals"))
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
    from dataclasses import replace  # noqa: PLC0415

    return replace(pipeline, composition=replace(pipeline.composition, normalize="chain"))


class _Study:
    """The systems of a split, and their scores."""

    def __init__(self, test: Corpus, found: Outcome, ner: CRF, folder: Path | None) -> None:
        self._test, self._found, self._ner, self._folder = test, found, ner, folder
        self._words = test.column_lists("word")
        self._gold = test.column_lists("field")

    def alone(self, train: Corpus) -> None:
        """Train and score the field tagger that reads no other."""
        task = Task("field", train, ALONE, options=OPTIONS)
        started = time.perf_counter()
        model = Pipeline([task]).train(self._place("alone"))
        self._found.seconds["training, no transfer"] = time.perf_counter() - started
        self.score("no transfer", lambda: [(None, y) for y in model.tag_all(self._test)])

    def trained(self, name: str, train: Corpus, **options: Any) -> TrainedPipeline:
        """Return the entity tagger with a field tagger that reads it."""
        task = Task("field", train, TRANSFER, reads=["ner"], options={**OPTIONS, **options})
        started = time.perf_counter()
        found = Pipeline([self._ner, task]).train(self._place(name))
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

    def choice(self, train: Corpus) -> tuple[float, Callable[[TrainedPipeline], TrainedPipeline]]:
        """Choose the weight of the field tagger, and a joint decoder with a grammar.

        Every fifth message of the training half is held out, for a field tagger that is trained on
        the others.
        """
        numbers = np.arange(len(train))
        held = train.select(numbers[numbers % 5 == 0])
        inner = self.trained("inner", train.select(numbers[numbers % 5 != 0]))
        words, gold = held.column_lists("word"), held.column_lists("field")

        def worth(pipeline: TrainedPipeline) -> float:
            labels = [fields for _, fields in pipeline.tag_all(held, decode="joint")]
            return mean_f(scored(words, gold, labels))

        by_weight = {w: worth(inner.with_weights(1.0, w)) for w in GRID}
        weight = max(GRID, key=lambda w: (by_weight[w], w))
        kinds: dict[str, Callable[[TrainedPipeline], TrainedPipeline]] = {
            "product, λ = 1": lambda p: p,
            f"product, λ = {weight}": lambda p: p.with_weights(1.0, weight),
            "chain": _chain,
        }
        options = {
            f"{kind}; {name}": (lambda p, make=make, grammar=grammar: make(p).constrained(grammar))
            for kind, make in kinds.items()
            for name, grammar in grammars().items()
        }
        by_option = {name: worth(make(inner)) for name, make in options.items()}
        best = max(by_option, key=by_option.__getitem__)
        self._found.chosen = {"weight": str(weight), "grammar": best}
        return weight, options[best]

    def _place(self, name: str) -> Path | None:
        return None if self._folder is None else self._folder / name


def _hosts(words: Sequence[Sequence[str]], names: Sequence[Sequence[str]] | None) -> int:
    """Count ``Host`` before a colon; with entity labels, those that are part of an entity."""
    return sum(
        w[k] == "Host" and w[k + 1] == ":" and (names is None or names[i][k] != "O")
        for i, w in enumerate(words)
        for k in range(len(w) - 1)
    )
