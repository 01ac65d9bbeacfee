"""One 50/50 split of the messages: its taggers are trained, every way to decide is scored.

=========  ========================================================================
Split      which messages are for training, which for testing
split      a split by its number
measured   scores of all systems on a split, kept when it is finished
SYSTEMS    the systems, with the paper's name where it has one
=========  ========================================================================
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from fstcrf.pipelines import TrainedPipeline
from fstcrf.recipes.recipe import Setting
from fstcrf.recipes.seminars import choosing
from fstcrf.recipes.seminars.choosing import Choice, Folds, grammars
from fstcrf.recipes.seminars.messages import TWINS
from fstcrf.recipes.seminars.study import Outcome, Study
from fstcrf.recipes.seminars.taggers import DECLARED, Shared
from fstcrf.recipes.seminars.templates import MORE, PAPER, Features

__all__ = ["SYSTEMS", "Measured", "Split", "System", "measured", "split"]

Say: TypeAlias = Callable[[str], None]
Measured: TypeAlias = dict[str, Outcome]


@dataclass(frozen=True, slots=True)
class System:
    """A way to decide: its features, and the row of the paper's Table 2 that it stands beside."""

    features: Features
    beside: str | None = None

    def outcome(self, measured: Measured) -> Outcome:
        """Return what was measured with these features."""
        return measured[self.features.name]


SYSTEMS = {
    "no transfer": System(PAPER, "none"),
    "cascaded": System(PAPER, "cascaded"),
    "joint, λ = 1": System(PAPER, "joint"),
    "joint, λ tuned": System(PAPER, "joint"),
    "joint, chain": System(PAPER, "joint"),
    "no transfer, with that grammar": System(PAPER),
    "joint, chosen with a grammar": System(PAPER, "joint"),
    "marginals in decoding": System(PAPER),
    "marginals in training, cascaded": System(PAPER),
    "marginals in training, joint": System(PAPER),
    "marginals in training, joint, that grammar": System(PAPER),
    "marginals in training and decoding": System(PAPER),
} | {
    MORE.named(name): System(MORE, beside)
    for name, beside in (
        ("no transfer", "none"),
        ("cascaded", "cascaded"),
        ("joint, λ = 1", "joint"),
        ("joint, λ tuned", "joint"),
        ("no transfer, with that grammar", None),
        ("joint, chosen with a grammar", "joint"),
        ("joint, with a grammar, fields agree", "joint"),
    )
}
"""The systems by name."""


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


def measured(setting: Setting, common: Shared, number: int, features: Features) -> Outcome:
    """Train and score the systems of one set of features on a split; an earlier run's are taken."""
    name = f"split {number + 1}, {features.name}"
    make = partial(_measured, setting, common, number, features)
    grids = (choosing.GRID, choosing.PRICES, choosing.PENALTIES)
    return setting.kept(name, make, Outcome, about=(features, grids, DECLARED))


def _measured(setting: Setting, common: Shared, number: int, features: Features) -> Outcome:
    prefix = f"split {number + 1}, {features.name}"
    one = split(len(common.messages), setting.seed, number)
    train, test = common.messages.select(one.train), common.messages.select(one.test)

    def place(name: str) -> Path | None:
        return setting.parts.file(f"{prefix}, {name}", "pipeline")

    def say(what: str) -> None:
        setting.say(f"seminars: split {number + 1}: {features.name}, {what}")

    study = Study(features, train, test, common.ner, place)
    (_and_agreement if features is MORE else _all_ways)(study, say)
    return study.found


def _all_ways(study: Study, say: Say) -> None:
    plain, choice, _ = _usual_ways(study, say)
    chain = replace(plain, composition=replace(plain.composition, normalize="chain"))
    study.score("joint, chain", chain, "joint")
    study.score("marginals in decoding", plain, "marginals")
    say("marginals in training")
    soft = study.trained("marginals", study.train, passing="marginals")
    name = "marginals in training"
    study.score(f"{name}, cascaded", soft, "cascade")
    study.score(f"{name}, joint", soft, "joint")
    study.score(f"{name}, joint, that grammar", choice.decided(soft), "joint")
    study.score(f"{name} and decoding", soft, "marginals")


def _and_agreement(study: Study, say: Say) -> None:
    plain, choice, folds = _usual_ways(study, say)
    say("fields that agree")
    penalty = folds.penalty(choice)
    study.found.chosen["penalty"] = f"{penalty:g}"
    study.score_agreeing("joint, with a grammar, fields agree", choice.decided(plain), penalty)


def _usual_ways(study: Study, say: Say) -> tuple[TrainedPipeline, Choice, Folds]:
    """Return the pipeline, what was chosen for it, and on what."""
    say("no transfer")
    alone = study.alone()
    study.score("no transfer", alone, "cascade")
    say("with the entity tagger")
    plain = study.trained("transfer", study.train)
    study.score("cascaded", plain, "cascade")
    study.score("joint, λ = 1", plain, "joint")
    say("choosing weights and a grammar on the training half")
    folds = Folds(study.train, study.trained)
    choice = folds.choice()
    study.found.chosen = choice.report()
    study.score("joint, λ tuned", choice.tuned(plain), "joint")
    bound = alone.constrained(grammars()[choice.grammar])  # what the grammar does alone
    study.score("no transfer, with that grammar", bound, "joint")
    study.score("joint, chosen with a grammar", choice.decided(plain), "joint")
    return plain, choice, folds
