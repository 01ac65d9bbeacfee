"""The recipe ``partial-feedback``: noun-phrase chunking learnt from rewards for samples."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from fstcrf.features import FeatureIndex
from fstcrf.kernel import Aim, Rule
from fstcrf.kernel.descent import Control
from fstcrf.model import CRF
from fstcrf.recipes.partial_feedback.curves import draw, samples_until
from fstcrf.recipes.partial_feedback.data import Data, read
from fstcrf.recipes.partial_feedback.differences import differences
from fstcrf.recipes.partial_feedback.learning import (
    L2,
    Trained,
    beginning,
    f_of,
    informed,
    trained,
    unlearned,
)
from fstcrf.recipes.partial_feedback.speed import latencies, speeds
from fstcrf.recipes.partial_feedback.systems import CLIPPED, LONGER, SYSTEMS, System
from fstcrf.recipes.recipe import Result, Row, Setting
from fstcrf.recipes.report import number, table

__all__ = ["run"]

# Passes over the training part, 7,936 samples each.
QUICK, FULL = 60, 180
SEEDS = 3
_RATES: dict[Control, tuple[float, ...]] = {
    "none": (0.03, 0.02, 0.01, 0.005),
    "mean": (0.5, 0.1, 0.02),
}


@dataclass(frozen=True, slots=True)
class Full:
    """Full information, for comparison."""

    model: CRF
    dev: float
    test: float
    seconds: float


def run(setting: Setting) -> Result:
    """Learn from rewards in all ways, and from gold labels.

    Raises
    ------
    DataError
        A file is missing, or is not what it should be.
    """
    data = read(setting)
    setting.say("partial-feedback: full information")
    full = _full(data)
    passes, seeds = (FULL, SEEDS) if setting.full else (QUICK, 1)
    runs: list[list[Trained]] = []
    for system in (*SYSTEMS, *LONGER, *(CLIPPED if setting.full else ())):
        start = beginning(system, data)
        seen = range(setting.seed, setting.seed + seeds)
        runs.append([_told(trained(system, start, data, passes, k), setting, k) for k in seen])
    setting.say("partial-feedback: speed")
    blank = unlearned(data)
    found = speeds(blank, data.train, 20 if setting.full else 5)
    waits = latencies(blank, data.dev)
    rows = [
        Row("full information", "F, test, %", full.test, 93.5, full.seconds),
        Row("full information", "F, dev, %", full.dev),
    ]
    for group in runs:
        rows += _rows(group, len(data.train))
    rows += [Row("speed", f"updates a second: {way}", x) for way, x in found.items()]
    rows += [Row("FeedbackLearner", f"µs a call: {call}", x) for call, x in waits.items()]
    sections = [
        _reading(data, passes, seeds),
        *([_stability(data, setting)] if setting.full else []),
        differences(data, full.model, [group[0] for group in runs[: len(SYSTEMS)]]),
        _signals(runs),
        _collisions(data, runs),
    ]
    return Result(rows, sections, _plots(setting, runs, data, full))


def _told(one: Trained, setting: Setting, seed: int) -> Trained:
    """Say what became of a run."""
    setting.say(
        f"partial-feedback: {one.system.name}, seed {seed}: F {one.dev:.2f} on the dev part, "
        f"{one.seconds:.0f} s"
    )
    return one


def _full(data: Data) -> Full:
    began = time.perf_counter()
    model = informed(data.train, l2=L2, dev=data.dev)
    seconds = time.perf_counter() - began
    return Full(model, f_of(model, data.dev), f_of(model, data.test), seconds)


def _rows(group: Sequence[Trained], sentences: int) -> Iterator[Row]:
    """Yield the numbers of a system: means over seeds."""
    system = group[0].system
    name, (paper, samples) = system.name, system.paper
    tests = np.asarray([one.test for one in group])
    seconds = float(np.mean([one.seconds for one in group]))
    yield Row(name, "F, test, %", float(tests.mean()), paper, seconds)
    if len(group) > 1:
        yield Row(name, f"its standard deviation over {len(group)} seeds", float(tests.std(ddof=1)))
    yield Row(name, "F, dev, %", float(np.mean([one.dev for one in group])))
    yield Row(name, "samples", float(np.mean([one.samples for one in group])), samples)
    if "clipped" in group[0].course[-1].measures:
        clipped = [100.0 * one.course[-1].measures["clipped"] for one in group]
        yield Row(name, "clipped in the end, %", float(np.mean(clipped)), system.clipped)
    if samples is not None and paper is not None:
        needed = [samples_until(one, paper, sentences) for one in group]
        known = [n for n in needed if n is not None]
        if len(known) == len(needed):
            yield Row(name, "samples until F on dev is the paper's", float(np.mean(known)), samples)


# --- Text -----------------------------------------------------------------------------------------


def _reading(data: Data, passes: int, seeds: int) -> str:
    return (
        "## How to read this\n\n"
        f"Train: {len(data.train):,} sentences; dev: the first 1,000 of the training file; test: "
        f"{len(data.test):,}. Order 2, the 19 predicates of Sha and Pereira, complete features. "
        "Learners begin with weights of zero, except for the warm start (200 sentences with gold "
        "labels), and see nothing but rewards: the F of the noun phrases of one sampled labelling "
        "of one sentence, 1 where neither it nor the gold labelling has one. Of pairs they see "
        "which is better (binary), or by how much the first is ahead (graded).\n\n"
        f"Each learner had {passes * len(data.train):,} samples ({passes} passes), those called "
        f"longer {LONGER[0].longer} times as many, and {seeds} "
        f"{'seed' if seeds == 1 else 'seeds'}. The weights that do best on dev are kept; "
        "`samples` counts those until then. Rates were chosen on the dev part alone, with other "
        "seeds; the grid and its results are in partial-feedback-rates.md of the documentation.\n\n"
        "Of pairs, the second is a sample of the opposite distribution, as in the paper, or (same) "
        "of the same one. With the opposite one, a binary preference is all but always won long "
        "before labels are good: a sample with a few right phrases beats one with none, and there "
        "is nothing left to learn from. Its mean reward in the table of noise below says so.\n\n"
        "The paper is Sokolov, Kreutzer, Lo and Riezler (2016), tables 2 and 3. Its samples are "
        "those of one learner until it stopped. Its preferences are binary; graded ones, which are "
        "in its program (ChRisF) alone, have the same figure beside them. Controls are not in the "
        "paper: what a sample is expected to bring is subtracted from what it brings, as a mean "
        "over all sentences, or over earlier visits of the same sentence. That leaves the mean of "
        "a step as it is.\n\n"
        "Speed is in updates a second of processor time on one core: sample, reward, step. The "
        "calls of FeedbackLearner are medians of wall clock, with what it writes to its journal; "
        "`sync=always` waits for the disk."
    )


def _stability(data: Data, setting: Setting) -> str:
    """Show for which rates learning fails with some seeds."""
    start, cells = unlearned(data), []
    for control, rates in _RATES.items():
        for rate in rates:
            setting.say(f"partial-feedback: stability, control {control}, rate {rate:g}")
            system = System("", Aim(control=control), Rule(rate=rate), passes=20)
            dev = [
                trained(system, start, data, 40, setting.seed + seed).dev for seed in range(SEEDS)
            ]
            cells.append([control, f"{rate:g}", *map(number, dev)])
    head = ["control", "rate", *(f"seed {setting.seed + seed}" for seed in range(SEEDS))]
    return (
        "## Rates and seeds\n\n"
        "F on the dev part, expected loss, 40 passes. Without a control, steps that "
        "are too long early end, for some seeds, where nearly every token is B-NP (F about 13).\n\n"
        + table(head, cells)
    )


def _signals(runs: Sequence[Sequence[Trained]]) -> str:
    """Say how noisy steps are at the end."""
    head = [
        "",
        "mean reward, first step",
        "last step",
        "variance of the coefficient, first",
        "last",
        "clipped, %, first",
        "last",
        "variance of the weight, first",
        "last",
    ]
    cells = []
    for group in runs:
        first, last = group[0].course[0].measures, group[0].course[-1].measures
        row = [group[0].system.name]
        for name, factor in (
            ("reward", 1.0),
            ("coefficient variance", 1.0),
            ("clipped", 100.0),
            ("weight variance", 1.0),
        ):
            row += [number(factor * part[name]) if name in part else "" for part in (first, last)]
        cells.append(row)
    return (
        "## How noisy steps are\n\n"
        "A step is the coefficient times the difference between a sample's features and their "
        "expectation. The coefficient is the signal less its control; the weight of "
        "cross-entropy is reward / max(p, clip), and a sample is clipped where p is below.\n\n"
        + table(head, cells)
    )


def _collisions(data: Data, runs: Sequence[Sequence[Trained]]) -> str:
    lines = ["## Hashing\n"]
    for group in runs:
        index = group[0].model.index
        if group[0].system.hash_bits is not None and isinstance(index, FeatureIndex):
            lines.append(f"{group[0].system.name}: {index.collisions(data.train)}.")
    return "\n".join(lines)


def _plots(
    setting: Setting, runs: Sequence[Sequence[Trained]], data: Data, full: Full
) -> list[str]:
    first = [group[0] for group in runs]
    return setting.drawn(
        "partial-feedback.svg", lambda path: draw(first, len(data.train), full.dev, path)
    )
