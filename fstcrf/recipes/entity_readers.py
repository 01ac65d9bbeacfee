"""Entity taggers of several qualities, read by the field tagger of the recipe ``seminars``.

Joint decoding repairs what an entity tagger has wrong. Where it gains nothing, the tagger may be
too good, too bad, or its labels may say little of the fields: the same field tagger reads three of
them, which differ in what they were trained on and with.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from fstcrf.arrays import Floats
from fstcrf.evaluate import evaluate_spans
from fstcrf.recipes.experiment import Setting
from fstcrf.recipes.message_features import PAPER
from fstcrf.recipes.protocol import Protocol
from fstcrf.recipes.report import gain_over_splits, prose, table
from fstcrf.recipes.seminars_systems import (
    Measured,
    MessageSplit,
    Shared,
    SplitChoice,
    SplitOutcome,
    news,
)
from fstcrf.taggers import CRF
from fstcrf.taggers.pipelines import Pipeline, Task

SHARE = 0.1  # of the training file of news, for the weakest of the taggers

NONE, CASCADE, JOINT = "no transfer", "cascaded", "joint, λ = 1"


@dataclass(frozen=True, slots=True)
class EntityReader:
    """An entity tagger, and what the field tagger that reads it reaches on each split."""

    name: str
    tagger: CRF
    outcomes: Sequence[SplitOutcome]

    def f(self, system: str) -> Floats:
        return np.asarray([_overall(one, system) for one in self.outcomes])

    def hosts(self, system: str) -> int:
        """Return in how many places *Host* before a colon is part of an entity."""
        return sum(one.host[system] for one in self.outcomes)


def readers(
    splits: Sequence[MessageSplit],
    found: Sequence[Measured],
    choices: Callable[[MessageSplit], SplitChoice],
    common: Shared,
    protocol: Protocol,
) -> str:
    """Let the field tagger of each split, the paper's features, read each entity tagger."""
    setting = splits[0].setting
    several = {
        f"the paper's features, {SHARE:.0%} of the news": _few(setting, common),
        "the paper's features": common.plain,
        "more features": common.ner,
    }
    known: list[EntityReader] = []
    for name, tagger in setting.course.each(several.items()):
        outcomes = [
            measured[PAPER.name]
            if tagger is common.plain
            else one.reading(name, tagger, protocol, choices(one))
            for one, measured in zip(splits, found, strict=True)
        ]
        known.append(EntityReader(name, tagger, outcomes))
    plain = np.asarray([_overall(one[PAPER.name], NONE) for one in found])
    total = sum(one[PAPER.name].host["all"] for one in found)
    test = protocol.test(lambda: news(setting, "testb", common.tags))
    gold = test.column_lists("ner")
    quality = [100.0 * evaluate_spans(gold, one.tagger.tag_all(test)).f for one in known]
    return _text(
        [_row(one, f, plain, total) for one, f in zip(known, quality, strict=True)], len(splits)
    )


def _few(setting: Setting, common: Shared) -> CRF:
    train = news(setting, "train", common.tags)
    size = max(1, round(SHARE * len(train)))
    drawn = np.random.default_rng([setting.seed, size]).permutation(len(train))[:size]
    task = Task("ner", train.select(np.sort(drawn)), PAPER.alone, options=PAPER.options)
    path = setting.parts.file("ner of a part", "pipeline", (PAPER, SHARE))
    return Pipeline([task]).train(path)["ner"]


def _overall(one: SplitOutcome, system: str) -> float:
    return 100.0 * one.scores[system][f"overall/{one.chosen['policy']}"]


def _row(one: EntityReader, quality: float, plain: Floats, total: int) -> list[str]:
    cascade, joint = (one.f(system) for system in (CASCADE, JOINT))
    taken = [f"{one.hosts(system):,}" for system in (CASCADE, JOINT)]
    means = [f"{float(np.mean(values)):.2f}" for values in (plain, cascade, joint)]
    gains = [gain_over_splits(x, test_share=0.5) for x in (cascade - plain, joint - cascade)]
    return [one.name, f"{quality:.2f}", f"{total:,}", *taken, *means, *gains]


def _text(rows: Sequence[Sequence[str]], splits: int) -> str:
    head = [
        "entity tagger",
        "its F on news, %",
        "*Host* before a colon",
        "an entity, cascaded",
        "joint",
        "F overall, no transfer",
        "cascaded",
        "joint",
        "cascaded − no transfer",
        "joint − cascaded",
    ]
    return prose("seminars/readers", splits=splits, table=table(head, rows))
