"""Figure 2: F of the speaker by the number of training messages.

=======  ====================================================
Learned  a section of the report, and its picture
curve    train on more and more of the training halves
=======  ====================================================
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from fstcrf.pipelines import Pipeline, Task
from fstcrf.recipes.recipe import Setting, blank_figure
from fstcrf.recipes.report import table
from fstcrf.recipes.seminars.scoring import scored
from fstcrf.recipes.seminars.splits import split
from fstcrf.recipes.seminars.taggers import DECLARED, Shared
from fstcrf.recipes.seminars.templates import PAPER

__all__ = ["Learned", "curve"]

SIZES = (50, 100, 150, 200, 242)
SPLITS = 3
FIELD = "speaker"


@dataclass(frozen=True, slots=True)
class Learned:
    """A section of the report, and its picture."""

    section: str
    plots: list[str]


def curve(setting: Setting, common: Shared) -> Learned:
    """Train on more and more messages of the first splits; score cascade and joint decision."""
    found = []
    for size in SIZES:
        points = [_kept(setting, common, size, k) for k in range(SPLITS)]
        found.append([100 * float(np.mean([p[how] for p in points])) for how in (0, 1)])
    rows = [[str(n), f"{a:.2f}", f"{b:.2f}"] for n, (a, b) in zip(SIZES, found, strict=True)]
    text = (
        f"## Figure 2: learning curve\n\nF of the {FIELD}, mean of {SPLITS} splits. In the paper "
        "the cascade needs 242 messages for what the joint decision reaches with 181.\n\n"
    )
    plots = setting.drawn("learning.svg", lambda path: _draw(found, path))
    return Learned(text + table(["messages", "cascaded", "joint"], rows), plots)


def _kept(setting: Setting, common: Shared, size: int, k: int) -> tuple[float, float]:
    name = f"learning curve, {size} messages, split {k + 1}"
    make = partial(_point, setting, common, size, k)
    return setting.kept(name, make, tuple[float, float], about=(PAPER, DECLARED))


def _point(setting: Setting, common: Shared, size: int, k: int) -> tuple[float, float]:
    """Return F of cascade and joint decision, in [0, 1]."""
    setting.say(f"seminars: learning curve, {size} messages, split {k + 1}")
    one = split(len(common.messages), setting.seed, k)
    chosen = np.sort(np.random.default_rng([setting.seed, k, size]).permutation(one.train)[:size])
    test = common.messages.select(one.test)
    words, gold = test.column_lists("word"), test.column_lists("field")
    train = common.messages.select(chosen)
    task = Task("field", train, PAPER.transfer, reads=["ner"], options=PAPER.options)
    pipeline = Pipeline([common.ner, task]).train()

    def f(labels: Sequence[Sequence[str]]) -> float:
        return scored(words, gold, labels)[FIELD].f

    cascaded, joint = (
        f([fields for _, fields in pipeline.tag_all(test, decode=how)])
        for how in ("cascade", "joint")
    )
    return cascaded, joint


def _draw(found: Sequence[Sequence[float]], path: Path) -> None:
    figure = blank_figure(6, 4)
    axes = figure.subplots()
    for how, name in enumerate(("cascaded", "joint")):
        axes.plot(SIZES, [point[how] for point in found], marker="o", label=name)
    axes.set(xlabel="training messages", ylabel=f"F of the {FIELD}, %")
    axes.legend()
    figure.savefig(path)
