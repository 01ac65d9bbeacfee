"""The recipe ``partial-feedback``: noun-phrase chunking learnt from rewards for samples."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import get_args

import numpy as np

from fstcrf.arrays import Floats
from fstcrf.evaluate.significance import SpanCounts, span_counts
from fstcrf.ext.feedback.bandit import Bandit
from fstcrf.ext.feedback.descent import Aim, Control, Rule, RuleName
from fstcrf.ext.feedback.folder import Sync
from fstcrf.ext.feedback.kernel import Proposals
from fstcrf.ext.feedback.learner import FeedbackLearner
from fstcrf.ext.feedback.simulation import problem_of
from fstcrf.recipes import rewarded_systems as ways
from fstcrf.recipes.corpora import CHUNK_FILES, PHRASE, noun_phrase_file
from fstcrf.recipes.experiment import Recipe, Setting
from fstcrf.recipes.protocol import SEEDS, Protocol, Settings, grid, over_seeds
from fstcrf.recipes.report import (
    Curve,
    Headline,
    Margin,
    Panel,
    Result,
    Row,
    draw,
    number,
    prose,
    spread,
    table,
)
from fstcrf.taggers import CRF
from fstcrf.text.corpus import Corpus

QUICK, FULL = 20, 180  # passes over the training part, 7,936 samples each

SEEDS_OF_LONG = 3  # seeds of those whose samples are many times those of others

MARKS = (1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 64_000, 128_000)
"""Ratings after which F on the dev part is looked at, for the curve."""

_STEADY: dict[tuple[Control, RuleName], tuple[float, ...]] = {  # rates whose seeds are compared
    ("none", "constant"): (0.03, 0.02, 0.01, 0.005),
    ("none", "momentum"): (0.002, 0.001, 0.0005),
    ("mean", "constant"): (0.5, 0.1, 0.02),
    ("mean", "momentum"): (0.01, 0.001),
}

_CURVES = (
    "expected loss",
    "expected loss, control: mean",
    "expected loss, leave one out of 4",
    "preference, binary, same",
    "logistic",
    "expected loss, control: mean, noisy raters",
    "preference, binary, same, noisy raters",
    "logistic, noisy raters",
)

_BEYOND = (  # beside those that were published, in the first table
    "expected loss, control: mean",
    "expected loss, leave one out of 4",
    "preference, binary, same, control: mean",
    "logistic",
    "expected loss, control: mean, noisy raters",
    "preference, binary, same, noisy raters",
    "logistic, noisy raters",
    "expected loss, log",
    "cross-entropy, log",
)

Runs = Mapping[str, Sequence[ways.LearningRun]]  # by name of the system, a run for each seed


def run(setting: Setting) -> Result:
    data = ways.read(setting)
    every = (
        *ways.SYSTEMS,
        *((*ways.LONGER, *ways.PUBLISHED, *ways.CLIPPED) if setting.full else ()),
    )
    protocol = Protocol(RECIPE.name, setting)
    setting.course.until(0.2 if setting.full else 0.01)
    chosen: dict[str, ways.RewardedSystem] = {}
    for one in setting.course.each(every):
        like = chosen.get(ways.SHARED_RATE.get(one.name, ""))
        at = _chosen(protocol, one, data) if like is None else _at(one, like.rule.rate)
        chosen[one.name] = at
    systems = list(chosen.values())
    l2 = _penalty(protocol, data, setting)
    protocol.freeze()
    test = protocol.test(lambda: noun_phrase_file(setting, "test"))
    setting.course.until(0.25 if setting.full else 0.1)
    full = _informed(data, l2, setting)
    best = ways.f_of(full, data.dev)
    counts = span_counts(test.column_lists(PHRASE), full.tag_all(test))
    rows = [
        Row("full information", "F, test, %", 100.0 * counts.f, 93.5),
        Row("full information", "F, dev, %", best),
    ]
    setting.course.until(0.8)
    runs = {one.name: _runs(one, data, test, setting) for one in setting.course.each(systems)}
    for system in systems:
        rows += _rows(system, runs[system.name], len(data.train))
    rows += _beginnings(systems, data, test)
    setting.course.until(0.9)
    curves = {
        one.name: _curve(one, data, setting)
        for one in setting.course.each([s for s in systems if s.name in _CURVES])
    }
    setting.course.until(0.95 if setting.full else 1.0)
    rows += setting.rows("speed", partial(_timed, data))
    sections = [
        _reading(data, test, setting),
        protocol.section(),
        _ratings(curves, best),
        *([_stability(data, setting)] if setting.full else []),
        _differences(systems, runs, counts, len(data.train)),
        *([_clippings(systems, runs)] if setting.full else []),
        _failures(runs),
        _signals(runs),
        _collisions(runs),
    ]
    plot = partial(_draw, systems, runs, curves, len(data.train), best)
    headline = [Headline.of_f("full information", "F, test, %", [counts], 93.5)]
    headline += [
        Headline.of_f(one.name, "F, test, %", [each.spans for each in runs[one.name]], one.paper[0])
        for one in systems
        if one.clipped is None and (one.paper[0] is not None or one.name in _BEYOND)
    ]
    return Result(rows, sections, setting.drawn("partial-feedback.svg", plot), headline)


# --- The choice of rates, on the dev part alone ---------------------------------------------------
#
# Every rate of every system learns from a share of the samples, with two seeds that no table of
# results uses; those with more samples than others have three times as many here, and one seed. The
# rate with the best mean F on the dev part is the system's: a full run chooses so, and freezes what
# it chose before it reads the test part; a quick one has the rates of the table of systems.

RATE_PASSES, LONG_RATE_PASSES = 20, 60
RATE_SEEDS = (100, 101)


def _chosen(
    protocol: Protocol, system: ways.RewardedSystem, data: ways.RewardedSentences
) -> ways.RewardedSystem:
    rates = grid(rate=system.rates or (system.rule.rate,))

    def held_out(settings: Settings) -> float:
        return float(np.mean(tried(_at(system, settings["rate"]), data)))

    about = (replace(system, rates=()), RATE_PASSES, RATE_SEEDS)
    quick = {"rate": system.rule.rate}
    found = protocol.choose(system.name, rates, held_out, about, quick=quick)
    return _at(system, found["rate"])


def _penalty(protocol: Protocol, data: ways.RewardedSentences, setting: Setting) -> float:
    def held_out(settings: Settings) -> float:
        return ways.f_of(_informed(data, settings["l2"], setting), data.dev)

    l2: float = protocol.choose(
        "full information", grid(l2=ways.L2S), held_out, quick={"l2": ways.L2S[3]}
    )["l2"]
    return l2


def _informed(data: ways.RewardedSentences, l2: float, setting: Setting) -> CRF:
    def make() -> CRF:
        setting.say(f"partial-feedback: full information, l2 {l2:g}")
        return ways.informed(data.train, l2=l2, dev=data.dev)

    return setting.tagger(f"full information, l2 {l2:g}", make, l2)


def tried(system: ways.RewardedSystem, data: ways.RewardedSentences) -> list[float]:
    """Return the best F on the dev part, in percent, for each seed that rates are chosen by."""
    start = ways.beginning(system, data)
    few = system.has_more
    passes, seeds = (LONG_RATE_PASSES, RATE_SEEDS[:1]) if few else (RATE_PASSES, RATE_SEEDS)
    system = replace(system, samples=None)
    return [_dev(system, start, data, passes, seed) for seed in seeds]


def _at(system: ways.RewardedSystem, rate: float) -> ways.RewardedSystem:
    return replace(system, rule=replace(system.rule, rate=rate))


def _runs(
    system: ways.RewardedSystem, data: ways.RewardedSentences, test: Corpus, setting: Setting
) -> list[ways.LearningRun]:
    passes, seeds = (FULL, seeds_of(system)) if setting.full else (QUICK, 1)
    start = ways.beginning(system, data)

    def one(seed: int) -> ways.LearningRun:
        found = ways.trained(system, start, data, test, passes, seed)
        of = f"{system.name}, seed {seed}"
        setting.say(f"partial-feedback: {of}: F {found.dev:.2f} on the dev part")
        return found

    about = (replace(system, rates=()), passes)
    return over_seeds(setting, system.name, one, ways.LearningRun, seeds=seeds, about=about)


def seeds_of(system: ways.RewardedSystem) -> int:
    """Return from how many seeds a system learns in a full run."""
    return min(SEEDS, SEEDS_OF_LONG) if system.has_more else SEEDS


def _curve(system: ways.RewardedSystem, data: ways.RewardedSentences, setting: Setting) -> Floats:
    start, seeds = ways.beginning(system, data), SEEDS if setting.full else 1
    found = over_seeds(
        setting,
        f"{system.name}, curve",
        lambda seed: ways.shares_by_ratings(system, start, data, MARKS, seed),
        list[float],
        seeds=seeds,
        about=(replace(system, rates=()), MARKS),
    )
    return np.asarray(found)


def _rows(
    system: ways.RewardedSystem, group: Sequence[ways.LearningRun], sentences: int
) -> Iterator[Row]:
    name, (paper, samples) = system.name, system.paper if system.clipped is None else ways.NOTHING
    tests = np.asarray([one.test for one in group])
    yield Row(name, "F, test, %", float(tests.mean()), paper)
    if len(group) > 1:
        yield Row(name, f"its standard deviation over {len(group)} seeds", float(tests.std(ddof=1)))
    yield Row(name, "F, dev, %", float(np.mean([one.dev for one in group])))
    mean = float(np.mean([one.samples for one in group]))
    yield Row(name, "samples until F on dev is best", mean, samples)
    if failed := sum(one.failed for one in group):
        yield Row(name, "runs that stood still or diverged", failed)
    if "clipped" in group[0].course[-1].measures:
        yield Row(name, "clipped in the end, %", _clipped(group))
    if samples is not None and paper is not None:
        needed = [ways.samples_until(system, one, paper, sentences) for one in group]
        known = [n for n in needed if n is not None]
        few = "" if len(known) == len(needed) else f", {len(known)} of {len(needed)} runs"
        if known:
            until = f"samples until F on dev is the paper's on test{few}"
            yield Row(name, until, float(np.mean(known)))


def _clipped(group: Sequence[ways.LearningRun]) -> float:
    return 100.0 * float(np.mean([one.course[-1].measures["clipped"] for one in group]))


def _beginnings(
    systems: Sequence[ways.RewardedSystem], data: ways.RewardedSentences, test: Corpus
) -> Iterator[Row]:
    shown: dict[str, ways.RewardedSystem] = {}
    for system in systems:
        if system.begin == "ones":
            shown.setdefault("supported weights of 1, nothing learnt", system)
        elif system.warm:
            shown.setdefault(f"gold labels of {system.warm} sentences", system)
        if system.logged:
            shown.setdefault("the log", system)
    for name, system in shown.items():
        start = ways.beginning(system, data)
        if name == "the log":
            yield Row(name, "mean reward", float(ways.log_of(start, data, 0).reward.mean()))
            continue
        yield Row(name, "F, test, %", ways.f_of(start, test))
        yield Row(name, "F, dev, %", ways.f_of(start, data.dev))


def _timed(data: ways.RewardedSentences) -> Iterator[Row]:
    blank = ways.unlearned(data)
    for way, rate in _speeds(blank, data.train, 5).items():
        yield Row("speed", f"updates a second: {way}", rate)
    for call, wait in _latencies(blank, data.dev).items():
        yield Row("FeedbackLearner", f"µs a call: {call}", wait)


def _draw(
    systems: Sequence[ways.RewardedSystem],
    runs: Runs,
    by_ratings: Mapping[str, Floats],
    sentences: int,
    best: float,
    path: Path,
) -> None:
    curves = []
    for system in systems:
        step = sentences * system.passes
        known = [
            (p.iteration * step, 100 * p.dev)
            for p in runs[system.name][0].course
            if p.dev is not None
        ]
        curves.append(Curve(system.name, *zip(*known, strict=True)))
    label, level = "F of noun phrases, dev part, first seed, %", ("full information", best)
    early = [
        Curve(name, MARKS, (100.0 * found.mean(axis=0) / best).tolist())
        for name, found in by_ratings.items()
    ]
    panels = [
        Panel(label, curves, bottom=60, top=96, level=level),
        Panel("share of full information's F, mean of seeds, %", early, bottom=0, top=100),
    ]
    draw(path, panels, "samples, each with one reward", size=(8, 10), log=True)


def _reading(data: ways.RewardedSentences, test: Corpus, setting: Setting) -> str:
    passes = FULL if setting.full else QUICK
    seeds = f"{SEEDS} seeds, {SEEDS_OF_LONG} of those with more" if setting.full else "1 seed"
    longer = prose("partial-feedback/longer", longer=ways.LONGER[0].longer) if setting.full else ""
    return prose(
        "partial-feedback/reading",
        train=len(data.train),
        test=len(test),
        samples=passes * len(data.train),
        passes=passes,
        longer=longer,
        seeds=seeds,
        rate_passes=RATE_PASSES,
    )


def _ratings(curves: Mapping[str, Floats], best: float) -> str:
    cells = [
        [name, *(spread((100.0 * at / best).tolist()) for at in found.T)]
        for name, found in curves.items()
    ]
    return (
        "## What ratings bring\n\n"
        f"F on the dev part after so many ratings, in percent of full information's ({best:.2f}); "
        "mean and standard deviation over seeds. A rating is one reward for a sample, or one "
        "answer for a pair.\n\n" + table(["", *(f"{mark:,}" for mark in MARKS)], cells)
    )


_FAILURE = (
    "A tagger that has become sure of labels draws them again and again; where they are rated low, "
    "it never sees better ones."
)


def _failures(runs: Runs) -> str:
    lines = [
        f"- {name}, run {k}: {one.ended}."
        for name, group in runs.items()
        for k, one in enumerate(group)
        if one.failed
    ]
    head = ["## Runs that stood still or diverged\n", f"{_FAILURE}\n"]
    return "\n".join([*head, *(lines or ["None."])])


def _stability(data: ways.RewardedSentences, setting: Setting) -> str:
    start, cells = ways.unlearned(data), []
    setting.course.until(1.0)
    for (control, rule), rates in setting.course.each(_STEADY.items()):
        for rate in setting.course.each(rates):
            name = f"stability, control {control}, {rule}, rate {rate:g}"
            setting.say(f"partial-feedback: {name}")
            system = ways.RewardedSystem("", Aim(control=control), Rule(rule, rate=rate), passes=20)
            one = partial(_dev, system, start, data, 40)
            cells.append(
                [control, rule, f"{rate:g}", *map(number, over_seeds(setting, name, one, float))]
            )
    head = ["control", "rule", "rate", *(f"seed {setting.seed + seed}" for seed in range(SEEDS))]
    return "## Rates and seeds\n\nF on the dev part, expected loss, 40 passes.\n\n" + table(
        head, cells
    )


def _dev(
    system: ways.RewardedSystem, start: CRF, data: ways.RewardedSentences, passes: int, seed: int
) -> float:
    return 100.0 * (ways.learnt(system, start, data, passes, seed)[1].dev or 0.0)


def _clippings(systems: Sequence[ways.RewardedSystem], runs: Runs) -> str:
    cells = []
    for one in systems:
        if one.clipped is None:
            continue
        tests = [run.test for run in runs[one.name]]
        ends = [number(one.clipped), number(round(_clipped(runs[one.name]), 4))]
        cells.append(
            [f"{one.rule.rate:g}", f"{one.aim.clip:g}", number(one.paper[0]), spread(tests), *ends]
        )
    head = ["rate", "clip", "F, test, %, ChRisF", "ours", "clipped in the end, %, ChRisF", "ours"]
    return prose("partial-feedback/clippings", table=table(head, cells))


def _signals(runs: Runs) -> str:
    shown = (
        ("mean reward, first step", "last step", "reward", 1.0),
        ("variance of the coefficient, first", "last", "coefficient variance", 1.0),
        ("clipped, %, first", "last", "clipped", 100.0),
        ("variance of the weight, first", "last", "weight variance", 1.0),
    )
    cells = []
    for name, group in runs.items():
        first, last = group[0].course[0].measures, group[0].course[-1].measures
        row = [name]
        for _, _, kind, factor in shown:
            row += [number(factor * part[kind]) if kind in part else "" for part in (first, last)]
        cells.append(row)
    head = ["", *(text for before, after, _, _ in shown for text in (before, after))]
    return prose("partial-feedback/signals", table=table(head, cells))


def _collisions(runs: Runs) -> str:
    lines = [
        f"{name}: {group[0].collisions}." for name, group in runs.items() if group[0].collisions
    ]
    return "\n".join(["## Hashing\n", *lines])


def _differences(
    systems: Sequence[ways.RewardedSystem], runs: Runs, best: SpanCounts, sentences: int
) -> str:
    known = {system.name: system for system in systems}
    cells = []
    for name, plain in ways.PLAINLY.items():
        if not {name, plain} <= runs.keys():
            continue
        mine, base = runs[name], runs[plain]
        reached = float(np.mean([one.dev for one in base]))
        needed = [ways.samples_until(known[name], one, reached, sentences) for one in mine]
        cells.append(
            [
                name,
                plain,
                number(float(np.mean([one.test for one in base]))),
                number(float(np.mean([one.test for one in mine]))),
                _between(mine, [one.spans for one in base]),
                f"{float(np.mean([one.samples for one in base])):,.0f}",
                _needed(needed),
                _between(mine, [best]),
            ]
        )
    head = ["", "without", "F without, %", "F with, %", "gain (95 %)"]
    head += ["samples to the best dev F without", "with, to the same F"]
    head += ["less full information (95 %)"]
    return prose("partial-feedback/differences", table=table(head, cells))


def _between(mine: Sequence[ways.LearningRun], others: Sequence[SpanCounts]) -> str:
    return str(Margin.of([one.spans for one in mine], others))


def _needed(samples: Sequence[int | None]) -> str:
    known = [n for n in samples if n is not None]
    if not known:
        return "not reached"
    few = "" if len(known) == len(samples) else f" ({len(known)} of {len(samples)} runs)"
    return f"{float(np.mean(known)):,.0f}{few}"


# --- How many samples a second, on one core -------------------------------------------------------

_BATCH = 512
_CALLS = 300


def _speeds(start: CRF, train: Corpus, passes: int) -> dict[str, float]:
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
    needs=CHUNK_FILES,
    paper="Sokolov et al. (2016)",
    run=run,
    packages=("scipy", "matplotlib"),
)
