"""The recipe ``partial-feedback``: noun-phrase chunking learnt from rewards for samples."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, get_args

import numpy as np

from fstcrf.arrays import Floats
from fstcrf.corpus import Corpus
from fstcrf.evaluate.significance import randomised_f, span_counts
from fstcrf.features import FeatureIndex
from fstcrf.feedback.folder import Sync
from fstcrf.feedback.learner import FeedbackLearner
from fstcrf.feedback.simulation import problem_of, simulate, untrained
from fstcrf.joint import CRF
from fstcrf.kernel import Aim, Proposals, Rule
from fstcrf.kernel.descent import Control
from fstcrf.recipes.corpora import PHRASE, PHRASES, DataSplit, noun_phrases, span_f
from fstcrf.recipes.experiment import Recipe, Setting
from fstcrf.recipes.report import Curve, Panel, Result, Row, draw, number, table
from fstcrf.train import Bandit, Outcome, Progress, Schedule

# --- Data and features ----------------------------------------------------------------------------

DEV_SENTENCES = 1000

_WORDS = ["-2", "-1", "0", "1", "2", "-1 0", "0 1"]
_TAGS = ["-2", "-1", "0", "1", "2", "-2 -1", "-1 0", "0 1", "1 2", "-2 -1 0", "-1 0 1", "0 1 2"]


def _template() -> str:
    """Return the 19 predicates of Sha and Pereira (2003), table 1."""
    lines = []
    for column, windows in (("word", _WORDS), ("pos", _TAGS)):
        for k, window in enumerate(windows):
            places = "/".join(f"%x[{offset},{column}]" for offset in window.split())
            lines.append(f"U{column}{k:02}:{places}")
    return "\n".join([*lines, "B"])


TEMPLATE = _template()


def read(setting: Setting) -> DataSplit:
    """Read both files; `dev` is the first 1,000 sentences of `train`, which has the others."""
    whole, test = noun_phrases(setting)
    train = whole[DEV_SENTENCES:]
    return DataSplit(train, train, whole[:DEV_SENTENCES], test)


# --- What is compared -----------------------------------------------------------------------------

# The paper's F on the test part, and how many samples it took.
EXPECTED_LOSS = (92.3, 7_500_000)
PREFERENCE = (91.4, 4_700_000)
CROSS_ENTROPY = (89.1, 5_900_000)
NOTHING = (None, None)


@dataclass(frozen=True, slots=True)
class RewardedSystem:
    """One way to learn."""

    name: str
    # aim, rule, schedule: what rewards mean, and how far steps go
    aim: Aim
    rule: Rule
    # the F on the test part that was published, in percent, and its number of samples
    paper: tuple[float | None, int | None] = NOTHING
    schedule: Schedule = field(default_factory=Schedule)
    graded: bool = False  # pairs: the reward is how far the first is ahead
    warm: int = 0  # learn from the gold labels of so many sentences first
    hash_bits: int | None = None  # hash attributes into 2^k rows
    passes: int = 5  # passes over the training part between two looks at the dev part
    longer: int = 1  # so many times the samples of the others
    clipped: float | None = None  # the share of clipped samples that was published, in percent
    # rates from which that of the rule was chosen, on the dev part; none where it is that of the
    # expected loss
    rates: tuple[float, ...] = ()


# Rates to choose from.
_SHORT = (0.005, 0.01, 0.02)
_LONG = (0.03, 0.1, 0.3)
_WIDE = (0.0001, 0.001, 0.005)
_TINY = (3e-6, 1e-5, 3e-5)

_SAME = Aim("preference", opponent="same")
_CLIPPED = Aim("cross-entropy", clip=0.01)


def _fixed(
    name: str,
    aim: Aim,
    rate: float,
    rates: tuple[float, ...] = (),
    paper: tuple[float | None, int | None] = NOTHING,
    **more: Any,
) -> RewardedSystem:
    """Return a learner by steps of a rate that stays."""
    return RewardedSystem(name, aim, Rule(rate=rate), paper, rates=rates, **more)


_MEAN = Aim(control="mean")
_SENTENCE = Aim(control="sentence")
_PAIRS = Aim("preference")
_PAIRS_MEAN = Aim("preference", control="mean")
_PAIRS_SENTENCE = Aim("preference", control="sentence")
_SAME_MEAN = replace(_SAME, control="mean")
_SAME_SENTENCE = replace(_SAME, control="sentence")
_MEDIUM = (0.01, *_LONG)
_LOW = (1e-4, 2e-4, 5e-4, 1e-3)
_LESS_CLIPPED = Aim("cross-entropy", clip=0.05, control="sentence")

SYSTEMS = (
    _fixed("expected loss", Aim(), 0.01, (0.002, 0.005, 0.01, 0.02), EXPECTED_LOSS),
    _fixed("expected loss, control: mean", _MEAN, 0.1, _LONG),
    _fixed("expected loss, control: sentence", _SENTENCE, 0.1, _LONG),
    _fixed("preference, binary", _PAIRS, 0.001, _WIDE, PREFERENCE),
    _fixed("preference, binary, control: mean", _PAIRS_MEAN, 0.001, (*_WIDE, 0.02)),
    _fixed("preference, binary, same", _SAME, 0.01, _SHORT, PREFERENCE),
    _fixed("preference, binary, same, control: mean", _SAME_MEAN, 0.01, _MEDIUM),
    _fixed("preference, binary, same, control: sentence", _SAME_SENTENCE, 0.03, _MEDIUM),
    _fixed("preference, graded", _PAIRS, 0.01, _SHORT, PREFERENCE, graded=True),
    _fixed("preference, graded, control: mean", _PAIRS_MEAN, 0.03, _MEDIUM, graded=True),
    _fixed("preference, graded, control: sentence", _PAIRS_SENTENCE, 0.1, _LONG, graded=True),
    _fixed("cross-entropy", _CLIPPED, 1e-5, _TINY, CROSS_ENTROPY),
    _fixed("cross-entropy, control: mean", replace(_CLIPPED, control="mean"), 3e-5, (*_TINY, 1e-4)),
    _fixed("cross-entropy, control: sentence", _LESS_CLIPPED, 0.0005, _LOW),
    RewardedSystem(
        "expected loss, momentum",
        Aim(),
        Rule("momentum", rate=0.001, momentum=0.9),
        rates=(0.0002, 0.0005, 0.001, 0.002),
    ),
    RewardedSystem(
        "expected loss, ADADELTA", Aim(), Rule("adadelta", rate=0.01), rates=(0.001, 0.01, 0.1)
    ),
    RewardedSystem(
        "expected loss, ADADELTA, control: mean",
        _MEAN,
        Rule("adadelta", rate=0.1, rho=0.9999),
        rates=_LONG,
    ),
    _fixed(
        "expected loss, annealed",
        Aim(temperature=1.0),
        0.01,
        schedule=Schedule(annealing=True),
        passes=1,
    ),
    RewardedSystem("expected loss, L2", Aim(), Rule(rate=0.01, decay=1e-6)),
    _fixed("expected loss, hashed", Aim(), 0.01, hash_bits=19),
    _fixed("expected loss, warm start", Aim(), 0.01, warm=200),
)


def _longer(name: str, rate: float, rates: tuple[float, ...]) -> RewardedSystem:
    (one,) = (system for system in SYSTEMS if system.name == name)
    rule = replace(one.rule, rate=rate)
    return replace(one, name=f"{name}, longer", rule=rule, rates=rates, passes=10, longer=5)


LONGER = (
    _longer("expected loss", 0.005, (0.005, 0.01)),
    _longer("preference, graded", 0.002, (0.001, 0.002, 0.005)),
    _longer("cross-entropy", 3e-6, (1e-6, 3e-6, 1e-5)),
)
"""Those of the paper with 5 times the samples, nearer to how many the paper took."""

# Rate, clip, and what the write-up of ChRisF says of them: F on the test part and share of samples
# that are clipped in the end, both in percent. Its L2 is 1e-5.
_PUBLISHED = (
    (1e-2, 0.05, 80.32, 0.6175),
    (1e-2, 0.005, 59.74, 0.000378),
    (1e-3, 0.05, 78.39, 23.51),
    (1e-3, 0.005, 66.01, 0.004102),
    (1e-3, 0.0005, 48.35, 0.0),
    (1e-4, 0.05, 87.72, 64.17),
    (1e-4, 0.005, 64.98, 0.5419),
    (1e-4, 0.0005, 47.60, 0.0),
    (1e-5, 0.05, 87.11, 69.91),
    (1e-5, 0.005, 79.36, 65.58),
    (1e-5, 0.0005, 60.85, 37.50),
)
CLIPPED = tuple(
    RewardedSystem(
        f"cross-entropy, rate {rate:g}, clip {clip:g}",
        Aim("cross-entropy", clip=clip),
        Rule(rate=rate, decay=1e-5),
        (f, None),
        clipped=clipped,
    )
    for rate, clip, f, clipped in _PUBLISHED
)
"""Cross-entropy with the rates and clips of ChRisF's table 1."""


# --- Learning -------------------------------------------------------------------------------------

L2 = 0.2  # of full information, chosen on the dev part


@dataclass(frozen=True, slots=True)
class LearningRun:
    """What became of a system."""

    system: RewardedSystem
    model: CRF  # the best one on the dev part
    # dev, test: its F, in percent
    dev: float
    test: float
    samples: int  # samples up to it
    seconds: float  # wall clock of all of them, looks at the dev part included
    course: list[Progress]  # what was known after each step


def unlearned(data: DataSplit, hash_bits: int | None = None) -> CRF:
    """Return the tagger to which all labellings are alike: order 2, complete features."""
    return untrained(
        data.train, PHRASES, TEMPLATE, order=2, scheme="iob2", hash_bits=hash_bits, tape=PHRASE
    )


def beginning(system: RewardedSystem, data: DataSplit) -> CRF:
    """Return where a system begins."""
    start = unlearned(data, system.hash_bits)
    if not system.warm:
        return start
    return informed(data.train[: system.warm], l2=L2, base=start)


def informed(
    train: Corpus, *, l2: float, dev: Corpus | None = None, base: CRF | None = None
) -> CRF:
    """Return the tagger that gold labels give, by L-BFGS, over the attributes of `base` as well."""
    return CRF.train(
        train,
        PHRASE,
        TEMPLATE,
        dev=dev,
        warm_start=base,
        order=2,
        scheme="iob2",
        l2=l2,
        features="complete",
        transitions="all",
    )


def trained(
    system: RewardedSystem, start: CRF, data: DataSplit, passes: int, seed: int
) -> LearningRun:
    """Learn from rewards, in so many passes over the training part, times `longer`."""
    course: list[Progress] = []
    began = time.perf_counter()
    model, outcome = learnt(system, start, data, passes, seed, course.append)
    seconds = time.perf_counter() - began
    dev, test = f_of(model, data.dev), f_of(model, data.test)
    samples = len(data.train) * system.passes * outcome.best_iteration
    return LearningRun(system, model, dev, test, samples, seconds, course)


def learnt(
    system: RewardedSystem,
    start: CRF,
    data: DataSplit,
    passes: int,
    seed: int,
    report: Callable[[Progress], None] | None = None,
) -> tuple[CRF, Outcome]:
    """Learn from rewards; the test part is not looked at."""
    return simulate(
        start,
        data.train,
        PHRASE,
        aim=system.aim,
        rule=system.rule,
        schedule=system.schedule,
        graded=system.graded,
        epochs=max(system.longer * passes // system.passes, 1),
        samples=len(data.train) * system.passes,
        dev=data.dev,
        seed=seed,
        report=report,
    )


def f_of(model: CRF, corpus: Corpus) -> float:
    """Return the F of a tagger on a corpus, in percent."""
    return span_f(corpus, PHRASE, model.tag_all(corpus))


def samples_until(one: LearningRun, f: float, sentences: int) -> int | None:
    """Return how many samples it took until the F on the dev part was as high; None for never."""
    step = sentences * one.system.passes
    for progress in one.course:
        if progress.dev is not None and 100.0 * progress.dev >= f:
            return step * progress.iteration
    return None


# --- The run --------------------------------------------------------------------------------------

# Passes over the training part, 7,936 samples each.
QUICK, FULL = 60, 180
SEEDS = 3

_RATES: dict[Control, tuple[float, ...]] = {
    "none": (0.03, 0.02, 0.01, 0.005),
    "mean": (0.5, 0.1, 0.02),
}


def run(setting: Setting) -> Result:
    """Learn from rewards in all ways, and from gold labels."""
    data = read(setting)
    setting.say("partial-feedback: full information")
    began = time.perf_counter()
    full = informed(data.train, l2=L2, dev=data.dev)
    seconds, best = time.perf_counter() - began, f_of(full, data.dev)
    passes, seeds = (FULL, SEEDS) if setting.full else (QUICK, 1)
    runs: list[list[LearningRun]] = []
    setting.course.until(0.6 if setting.full else 0.9)
    for system in setting.course.each((*SYSTEMS, *LONGER, *(CLIPPED if setting.full else ()))):
        start = beginning(system, data)
        runs.append([])
        for seed in setting.course.each(range(setting.seed, setting.seed + seeds)):
            one = trained(system, start, data, passes, seed)
            runs[-1].append(one)
            setting.say(
                f"partial-feedback: {system.name}, seed {seed}: F {one.dev:.2f} on the dev part, "
                f"{one.seconds:.0f} s"
            )
    setting.course.until(0.65 if setting.full else 1.0)
    setting.say("partial-feedback: speed")
    blank = unlearned(data)
    found = _speeds(blank, data.train, 20 if setting.full else 5)
    waits = _latencies(blank, data.dev)
    rows = [
        Row("full information", "F, test, %", f_of(full, data.test), 93.5, seconds),
        Row("full information", "F, dev, %", best),
    ]
    for group in runs:
        rows += _rows(group, len(data.train))
    rows += [Row("speed", f"updates a second: {way}", x) for way, x in found.items()]
    rows += [Row("FeedbackLearner", f"µs a call: {call}", x) for call, x in waits.items()]
    sections = [
        _reading(data, passes, seeds),
        *([_stability(data, setting)] if setting.full else []),
        _differences(data, full, [group[0] for group in runs[: len(SYSTEMS)]]),
        _signals(runs),
        _collisions(data, runs),
    ]
    first = [group[0] for group in runs]
    plot = partial(_draw, first, len(data.train), best)
    return Result(rows, sections, setting.drawn("partial-feedback.svg", plot))


def _rows(group: Sequence[LearningRun], sentences: int) -> Iterator[Row]:
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


def _draw(runs: Sequence[LearningRun], sentences: int, best: float, path: Path) -> None:
    """Draw F on the dev part by the number of samples, and the F of full information."""
    curves = []
    for one in runs:
        step = sentences * one.system.passes
        known = [(p.iteration * step, 100 * p.dev) for p in one.course if p.dev is not None]
        curves.append(Curve(one.system.name, *zip(*known, strict=True)))
    label, level = "F of noun phrases, dev part, %", ("full information", best)
    panel = Panel(label, curves, bottom=60, top=96, level=level)
    draw(path, [panel], "samples, each with one reward", size=(8, 5.5), log=True)


# --- Text -----------------------------------------------------------------------------------------


def _reading(data: DataSplit, passes: int, seeds: int) -> str:
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


def _stability(data: DataSplit, setting: Setting) -> str:
    """Show for which rates learning fails with some seeds."""
    start, cells = unlearned(data), []
    setting.course.until(1.0)
    for control, rates in setting.course.each(_RATES.items()):
        for rate in setting.course.each(rates):
            setting.say(f"partial-feedback: stability, control {control}, rate {rate:g}")
            system = RewardedSystem("", Aim(control=control), Rule(rate=rate), passes=20)
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


def _signals(runs: Sequence[Sequence[LearningRun]]) -> str:
    """Say how noisy steps are at the end."""
    shown = (
        ("mean reward, first step", "last step", "reward", 1.0),
        ("variance of the coefficient, first", "last", "coefficient variance", 1.0),
        ("clipped, %, first", "last", "clipped", 100.0),
        ("variance of the weight, first", "last", "weight variance", 1.0),
    )
    cells = []
    for group in runs:
        first, last = group[0].course[0].measures, group[0].course[-1].measures
        row = [group[0].system.name]
        for _, _, name, factor in shown:
            row += [number(factor * part[name]) if name in part else "" for part in (first, last)]
        cells.append(row)
    head = ["", *(text for before, after, _, _ in shown for text in (before, after))]
    return (
        "## How noisy steps are\n\n"
        "A step is the coefficient times the difference between a sample's features and their "
        "expectation. The coefficient is the signal less its control; the weight of "
        "cross-entropy is reward / max(p, clip), and a sample is clipped where p is below.\n\n"
        + table(head, cells)
    )


def _collisions(data: DataSplit, runs: Sequence[Sequence[LearningRun]]) -> str:
    lines = ["## Hashing\n"]
    for group in runs:
        index = group[0].model.index
        if group[0].system.hash_bits is not None and isinstance(index, FeatureIndex):
            lines.append(f"{group[0].system.name}: {index.collisions(data.train)}.")
    return "\n".join(lines)


def _differences(data: DataSplit, full: CRF, runs: Sequence[LearningRun]) -> str:
    """Compare each learner that has a control with the same without, and with full information."""
    gold = data.test.column_lists(PHRASE)
    known = {one.system.name: one for one in runs}
    counts = {one.system.name: span_counts(gold, one.model.tag_all(data.test)) for one in runs}
    best = span_counts(gold, full.tag_all(data.test))
    cells = []
    for name, one in known.items():
        base = known[name.partition(", control")[0]]
        if base is one:
            continue
        without, mine = counts[base.system.name], counts[name]
        needed = samples_until(one, base.dev, len(data.train))
        cells.append(
            [
                name,
                number(100 * without.f),
                number(100 * mine.f),
                number(randomised_f(without, mine)),
                f"{base.samples:,}",
                "not reached" if needed is None else f"{needed:,}",
                number(randomised_f(mine, best)),
            ]
        )
    head = [
        "",
        "F without, %",
        "F with, %",
        "p",
        "samples to the best dev F without",
        "with, to the same F",
        "p against full information",
    ]
    return (
        "## What a control brings\n\n"
        "The same objective, as many samples, each with the rate that is best for it on the dev "
        "part. F on the test part; p of approximate randomisation over sentences, of the first "
        "seed; the samples until the best F on the dev part that was reached without a control.\n\n"
        + table(head, cells)
    )


# --- How many samples a second, on one core -------------------------------------------------------

_BATCH = 512
_CALLS = 300


def _speeds(start: CRF, train: Corpus, passes: int) -> dict[str, float]:
    """Return updates a second of processor time; passes over the corpus are timed after a first."""
    problem = problem_of(start, train, PHRASE)
    gold = problem.states

    def from_python(made: Proposals) -> Floats:
        """Give the share of right states, in NumPy: a reward that the kernel knows nothing of."""
        lengths = np.diff(problem.offsets)[made.order]
        starts = np.cumsum(lengths) - lengths
        tokens = np.repeat(problem.offsets[made.order] - starts, lengths) + np.arange(
            len(made.path)
        )
        right = np.add.reduceat((gold[tokens] == made.path).astype(np.float64), starts)
        return np.asarray(right / lengths)

    aim, pair, rule = Aim(control="mean"), Aim("preference", control="mean"), Rule(rate=0.1)
    space, theta = start.space, start.theta
    adadelta = Rule("adadelta", rate=0.1)
    ways: dict[str, Callable[[], Bandit]] = {
        "one by one": lambda: Bandit(problem, space, theta, aim=aim, rule=rule),
        f"rewards for {_BATCH} at a time": lambda: Bandit(
            problem, space, theta, aim=aim, rule=rule, batch=_BATCH
        ),
        f"rewards for {_BATCH} at a time, from Python": lambda: Bandit(
            problem, space, theta, aim=aim, rule=rule, batch=_BATCH, rewards=from_python
        ),
        "pairs, one by one": lambda: Bandit(problem, space, theta, aim=pair, rule=rule),
        "ADADELTA, one by one": lambda: Bandit(problem, space, theta, aim=aim, rule=adadelta),
    }
    return {name: _speed(make(), passes) for name, make in ways.items()}


def _latencies(start: CRF, sentences: Corpus) -> dict[str, float]:
    """Return what a call takes, median, in microseconds of wall clock."""
    found: dict[str, float] = {}
    for sync in get_args(Sync):
        asked, told = [], []
        with (
            tempfile.TemporaryDirectory() as folder,
            FeedbackLearner.create(Path(folder) / "learner", start, sync=sync) as learner,
        ):
            for sentence in sentences[:_CALLS]:
                began = time.perf_counter()
                proposal = learner.propose(sentence)
                between = time.perf_counter()
                learner.feedback(proposal, 0.5)
                asked.append(between - began)
                told.append(time.perf_counter() - between)
        found[f"propose, sync={sync}"] = 1e6 * float(np.median(asked))
        found[f"feedback, sync={sync}"] = 1e6 * float(np.median(told))
    return found


def _speed(bandit: Bandit, passes: int) -> float:
    bandit.step()
    began = time.process_time()
    for _ in range(passes):
        bandit.step()
    return passes * bandit.samples / (time.process_time() - began)


RECIPE = Recipe(
    "partial-feedback",
    "Noun-phrase chunking learnt from rewards for samples",
    needs=("conll2000/train.txt", "conll2000/test.txt"),
    paper="Sokolov et al. (2016)",
    run=run,
)


# --- The choice of rates, on the dev part alone ---------------------------------------------------
#
# Every rate of every system learns from a third of the samples, with two seeds that no table of
# results uses; those called longer learn from all of them, with one seed. The rate with the best
# mean F on the dev part is the system's. The test part is not looked at.
# `python -m fstcrf.recipes.partial_feedback DATA` writes the table.

RATE_PASSES, LONG_RATE_PASSES = 20, 60
RATE_SEEDS = (100, 101)


def tried(system: RewardedSystem, data: DataSplit) -> Iterator[tuple[float, list[float]]]:
    """Yield each rate, and the best F on the dev part for each seed, in percent."""
    start = beginning(system, data)
    passes, seeds = (
        (LONG_RATE_PASSES, RATE_SEEDS[:1]) if system.longer > 1 else (RATE_PASSES, RATE_SEEDS)
    )
    for rate in system.rates:
        one = replace(system, rule=replace(system.rule, rate=rate))
        outcomes = [learnt(one, start, data, passes, seed)[1] for seed in seeds]
        yield rate, [100.0 * (outcome.dev or 0.0) for outcome in outcomes]


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a table of all rates."""
    parser = argparse.ArgumentParser(description="Choose rates on the dev part.")
    parser.add_argument("data", type=Path, help="folder with conll2000/train.txt and test.txt")
    parser.add_argument("systems", nargs="*", help="names of systems; all when absent")
    given = parser.parse_args(arguments)
    data = read(Setting(given.data))
    write = sys.stdout.write
    write("| system | rate | F, dev, %, of each seed | mean |\n| --- | --- | --- | --- |\n")
    for system in (*SYSTEMS, *LONGER):
        if given.systems and system.name not in given.systems:
            continue
        for rate, found in tried(system, data):
            each = ", ".join(f"{f:.2f}" for f in found)
            mean = sum(found) / len(found)
            write(f"| {system.name} | {rate:g} | {each} | {mean:.2f} |\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
