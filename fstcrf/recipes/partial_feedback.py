"""The recipe ``partial-feedback``: noun-phrase chunking learnt from rewards for samples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from fstcrf.arrays import Floats
from fstcrf.ext.significance import SpanCounts, span_counts
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
)
from fstcrf.taggers import CRF
from fstcrf.text.corpus import Corpus

QUICK, FULL = 20, 180  # passes over the training part, 7,936 samples each

SEEDS_OF_LONG = 3  # seeds of systems with many times more samples

MARKS = (1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 64_000, 128_000)
"""Ratings after which F on the dev part is looked at, for the curve."""

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

_BEYOND = (  # in the first table, in addition to published ones
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
    full, course = setting.full, setting.course
    study = _Study(setting, ways.read(setting), Protocol(RECIPE.name, setting))
    data, protocol = study.data, study.protocol
    more = (*ways.LONGER, *ways.PUBLISHED, *ways.CLIPPED) if full else ()
    course.until(0.2 if full else 0.01)
    chosen: dict[str, ways.RewardedSystem] = {}
    for one in course.each((*ways.SYSTEMS, *more)):
        like = chosen.get(ways.SHARED_RATE.get(one.name, ""))
        chosen[one.name] = study.chosen(one) if like is None else _at(one, like.rule.rate)
    systems = list(chosen.values())
    l2 = study.penalty()
    protocol.freeze()
    test = protocol.test(lambda: noun_phrase_file(setting, "test"))
    course.until(0.25 if full else 0.1)
    informed = study.informed(l2)
    best = ways.f_of(informed, data.dev)
    counts = span_counts(test.column_lists(PHRASE), informed.tag_all(test))
    rows = [
        Row("full information", "F, test, %", 100.0 * counts.f, 93.5),
        Row("full information", "F, dev, %", best),
    ]
    course.until(0.8)
    runs = {one.name: study.runs(one, test) for one in course.each(systems)}
    for system in systems:
        rows += _rows(system, runs[system.name], len(data.train))
    rows += _beginnings(systems, data, test)
    course.until(0.9)
    shown = [one for one in systems if one.name in _CURVES]
    curves = {one.name: study.curve(one) for one in course.each(shown)}
    course.until(0.95 if full else 1.0)
    sections = [
        study.reading(len(test)),
        protocol.section(),
        _ratings(curves, best),
        _differences(systems, runs, counts, len(data.train)),
        *([_clippings(systems, runs)] if full else []),
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


# Every rate of every system learns from a share of the samples, with two seeds that no table of
# results uses; systems with more samples than others have three times as many here, and one seed.
# The rate with the best mean F on the dev part is chosen. A full run chooses and freezes its choice
# before it reads the test part; a quick run has the rates of the table of systems.
RATE_PASSES, LONG_RATE_PASSES = 20, 60
RATE_SEEDS = (100, 101)


@dataclass(frozen=True, slots=True)
class _Study:
    """A run with its data, its choices and its training."""

    setting: Setting
    data: ways.RewardedSentences
    protocol: Protocol

    def chosen(self, system: ways.RewardedSystem) -> ways.RewardedSystem:
        def held_out(settings: Settings) -> float:
            return float(np.mean(tried(_at(system, settings["rate"]), self.data)))

        rates, quick = grid(rate=system.rates or (system.rule.rate,)), {"rate": system.rule.rate}
        about = (replace(system, rates=()), RATE_PASSES, RATE_SEEDS)
        found = self.protocol.choose(system.name, rates, held_out, about, quick=quick)
        return _at(system, found["rate"])

    def penalty(self) -> float:
        def held_out(settings: Settings) -> float:
            return ways.f_of(self.informed(settings["l2"]), self.data.dev)

        candidates, quick = grid(l2=ways.L2S), {"l2": ways.L2S[3]}
        found = self.protocol.choose("full information", candidates, held_out, quick=quick)
        return float(found["l2"])

    def informed(self, l2: float) -> CRF:
        def make() -> CRF:
            self.setting.say(f"partial-feedback: full information, l2 {l2:g}")
            return ways.informed(self.data.train, l2=l2, dev=self.data.dev)

        return self.setting.tagger(f"full information, l2 {l2:g}", make, l2)

    def runs(self, system: ways.RewardedSystem, test: Corpus) -> list[ways.LearningRun]:
        many = SEEDS_OF_LONG if system.has_more else SEEDS
        passes, seeds = (FULL, many) if self.setting.full else (QUICK, 1)
        start = ways.beginning(system, self.data)

        def one(seed: int) -> ways.LearningRun:
            found = ways.trained(system, start, self.data, test, passes, seed)
            of = f"{system.name}, seed {seed}"
            self.setting.say(f"partial-feedback: {of}: F {found.dev:.2f} on the dev part")
            return found

        about = (replace(system, rates=()), passes)
        kind = ways.LearningRun
        return over_seeds(self.setting, system.name, one, kind, seeds=seeds, about=about)

    def curve(self, system: ways.RewardedSystem) -> Floats:
        start, seeds = ways.beginning(system, self.data), SEEDS if self.setting.full else 1
        one = partial(ways.shares_by_ratings, system, start, self.data, MARKS)
        about, name = (replace(system, rates=()), MARKS), f"{system.name}, curve"
        found = over_seeds(self.setting, name, one, list[float], seeds=seeds, about=about)
        return np.asarray(found)

    def reading(self, test: int) -> str:
        full = self.setting.full
        passes, train = FULL if full else QUICK, len(self.data.train)
        return prose(
            "partial-feedback/reading",
            train=train,
            test=test,
            samples=passes * train,
            passes=passes,
            longer=prose("partial-feedback/longer", longer=ways.LONGER[0].longer) if full else "",
            seeds=f"{SEEDS} seeds, {SEEDS_OF_LONG} of those with more" if full else "1 seed",
            rate_passes=RATE_PASSES,
        )


def tried(system: ways.RewardedSystem, data: ways.RewardedSentences) -> list[float]:
    """Return the best F on the dev part, in percent, for each seed that rates are chosen by."""
    start = ways.beginning(system, data)
    few = system.has_more
    passes, seeds = (LONG_RATE_PASSES, RATE_SEEDS[:1]) if few else (RATE_PASSES, RATE_SEEDS)
    system = replace(system, samples=None)
    ends = (ways.learnt(system, start, data, passes, seed)[1] for seed in seeds)
    return [100.0 * (end.dev or 0.0) for end in ends]


def _at(system: ways.RewardedSystem, rate: float) -> ways.RewardedSystem:
    return replace(system, rule=replace(system.rule, rate=rate))


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


def _ratings(curves: Mapping[str, Floats], best: float) -> str:
    cells = [
        [name, *(spread((100.0 * at / best).tolist()) for at in found.T)]
        for name, found in curves.items()
    ]
    marks = " | ".join(f"{mark:,}" for mark in MARKS)
    return prose("partial-feedback/ratings", cells, best=best, marks=marks)


def _failures(runs: Runs) -> str:
    lines = [
        f"- {name}, run {k}: {one.ended}."
        for name, group in runs.items()
        for k, one in enumerate(group)
        if one.failed
    ]
    return prose("partial-feedback/failures", lines="\n".join(lines or ["None."]))


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
    return prose("partial-feedback/clippings", cells)


def _signals(runs: Runs) -> str:
    shown = {"reward": 1, "coefficient variance": 1, "clipped": 100, "weight variance": 1}
    cells = []
    for name, group in runs.items():
        first, last = group[0].course[0].measures, group[0].course[-1].measures
        row = [name]
        for kind, factor in shown.items():
            row += [number(factor * part[kind]) if kind in part else "" for part in (first, last)]
        cells.append(row)
    return prose("partial-feedback/signals", cells)


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
    return prose("partial-feedback/differences", cells)


def _between(mine: Sequence[ways.LearningRun], others: Sequence[SpanCounts]) -> str:
    return str(Margin.of([one.spans for one in mine], others))


def _needed(samples: Sequence[int | None]) -> str:
    known = [n for n in samples if n is not None]
    if not known:
        return "not reached"
    few = "" if len(known) == len(samples) else f" ({len(known)} of {len(samples)} runs)"
    return f"{float(np.mean(known)):,.0f}{few}"


RECIPE = Recipe(
    "partial-feedback",
    "Noun-phrase chunking learnt from rewards for samples",
    needs=CHUNK_FILES,
    paper="Sokolov et al. (2016)",
    run=run,
    packages=("scipy", "matplotlib"),
)
