"""What the further features bring, by cross-validation within the first training half.

========  ==============================================
VARIANTS  the features that are compared
ablation  a section of the report
========  ==============================================
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from fstcrf.corpus import Corpus
from fstcrf.pipelines import Pipeline, Task
from fstcrf.recipes.recipe import Setting
from fstcrf.recipes.report import table
from fstcrf.recipes.seminars.choosing import FOLDS, folded, grammars
from fstcrf.recipes.seminars.scoring import mean_f, scored
from fstcrf.recipes.seminars.splits import split
from fstcrf.recipes.seminars.taggers import DECLARED, Shared
from fstcrf.recipes.seminars.templates import LABELS, MORE, PAGE, PAPER, Features

__all__ = ["VARIANTS", "ablation"]

GRAMMAR, POLICY = "no place 1.5, no speaker 3", "frequent"
_IOB2 = {**MORE.options, "scheme": "iob2"}
_PAPER = {**PAPER.options, "max_iterations": MORE.options["max_iterations"]}


@dataclass(frozen=True, slots=True)
class Variant:
    """Features of the field tagger, alone or joined with the entity tagger."""

    name: str
    features: Features
    joint: bool = False


_FEW = replace(PAPER, options=_PAPER)
_MANY = replace(MORE, options=_IOB2)
_LINES = PAPER.alone.removesuffix(LABELS) + PAGE + LABELS

VARIANTS = (
    Variant("of the paper", _FEW),
    Variant("+ lines, rooms, runs, elsewhere", replace(_MANY, alone=_LINES)),
    Variant("+ parts of words, neighbours, windows", _MANY),
    Variant("the same, order 2", replace(_MANY, options={**_IOB2, "order": 2})),
    Variant("the same, order 1, BIOES", MORE),
    Variant("the same, with the entity label, joint", MORE, joint=True),
    Variant("of the paper, with the entity label, joint", _FEW, joint=True),
)


def ablation(setting: Setting, common: Shared) -> str:
    """Cross-validate all variants on the training half of the first split.

    Test halves are not looked at.
    """
    half = split(len(common.messages), setting.seed, 0).train
    messages = common.messages.select(half)
    rows = []
    for variant in VARIANTS:
        make = partial(_scores, setting, common, messages, variant)
        about = (variant, GRAMMAR, POLICY, DECLARED)
        found = setting.kept(f"ablation, {variant.name}", make, dict[str, float], about)
        rows.append([variant.name, *(f"{100 * value:.1f}" for value in found.values())])
    return (
        f"## What the features bring\n\nF, one field a message, {FOLDS}-fold cross-validation "
        f"within the training half of the first split, under the grammar *{GRAMMAR}*, value "
        f"*{POLICY}*, {MORE.options['max_iterations']} iterations.\n\n"
        + table(["features", "location", "speaker", "overall"], rows)
    )


def _scores(
    setting: Setting, common: Shared, messages: Corpus, variant: Variant
) -> dict[str, float]:
    """Return F of places, of speakers, and the mean of all fields, in [0, 1]."""
    setting.say(f"seminars: cross-validation, features {variant.name}")
    words: list[Sequence[str]] = []
    gold: list[Sequence[str]] = []
    labels: list[Sequence[str]] = []
    for train, held in folded(messages):
        words += held.column_lists("word")
        gold += held.column_lists("field")
        labels += _decided(variant, common, train, held)
    found = scored(words, gold, labels, POLICY)
    return {"location": found["location"].f, "speaker": found["speaker"].f, "all": mean_f(found)}


def _decided(variant: Variant, common: Shared, train: Corpus, held: Corpus) -> list[Sequence[str]]:
    features, options = variant.features, variant.features.options
    train = features.prepared(train)
    if variant.joint:
        task = Task("field", train, features.transfer, reads=["ner"], options=options)
        pipeline = Pipeline([common.ner, task])
    else:
        pipeline = Pipeline([Task("field", train, features.alone, options=options)])
    trained = pipeline.train().constrained(grammars()[GRAMMAR])
    answers = trained.tag_all(held, decode="joint")
    return [fields for _, fields in answers] if variant.joint else list(answers)
