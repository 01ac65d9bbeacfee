"""The recipe ``shallow-parsing``: tables 2 to 4 of Sha and Pereira (2003), and their figures.

Boundary, penalty and number of iterations are chosen on held-out sentences, as in the paper, by
`protocol`. Table 3 has one choice: the iteration at which mixed CG drops its preconditioner.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from fstcrf.evaluate import compare
from fstcrf.ext.significance import bootstrapped_f, span_counts
from fstcrf.recipes import phrase_chunkers as chunkers
from fstcrf.recipes.corpora import CHUNK_FILES, PHRASE, DataSplit
from fstcrf.recipes.experiment import THREADS, Recipe, Setting
from fstcrf.recipes.protocol import SEEDS, Protocol, Settings, grid, over_seeds
from fstcrf.recipes.report import (
    Curve,
    Headline,
    Panel,
    Result,
    Row,
    draw,
    folded,
    gain,
    number,
    prose,
    table,
)
from fstcrf.taggers import CRF

# --- What is chosen on the dev part ---------------------------------------------------------------

# Limits of iterations: GIS does not end in reasonable time.
GIS, GIS_FULL, DEV_ITERATIONS, DEV_FULL = 60, 3700, 40, 300
_SWITCHES = (5, 10, 15, 20, 30, 40)  # iterations after which mixed CG may drop its preconditioner
_STOPS: tuple[int | None, ...] = (5, 7, 9, 11, 13, 15, 20, 30, None)
"""Iterations after which a CRF may stop; `None` for convergence."""
_PENALTIES = (0.1, 0.25, 0.5, 1.0)
_BOUNDARIES: tuple[chunkers.Boundary, ...] = ("skip", "pad")
_FEATURES = ("supported", "complete")


@dataclass(frozen=True, slots=True)
class Stop:
    boundary: chunkers.Boundary
    l2: float
    iterations: int | None  # `None` for convergence


@dataclass(frozen=True, slots=True)
class Choices:
    switch: int  # of mixed CG
    stops: Mapping[str, Stop]  # of the CRF, by features
    epochs: Mapping[str, int]  # of the perceptron, by features


_GIVEN = Choices(
    15, {"supported": Stop("skip", 0.25, 13), "complete": Stop("pad", 0.25, 13)}, {"supported": 20}
)
"""Settings of a short run: the best of an earlier grid on dev, outside the protocol."""


def chosen(
    protocol: Protocol, preconditioned: chunkers.ChunkerRun, data: DataSplit, setting: Setting
) -> Choices:
    """Choose everything by F on the dev part; `preconditioned` was scored there."""
    full = setting.full

    def dropped(settings: Settings) -> float:
        course = preconditioned.course
        found = course[min(settings["switch"], len(course)) - 1].dev
        return found or 0.0

    switches, given = grid(switch=_SWITCHES), {"switch": _GIVEN.switch}
    switch = protocol.choose("mixed CG", switches, dropped, quick=given)["switch"]
    stops = {features: _chosen_stop(protocol, features, data, setting) for features in _FEATURES}
    wanted = _FEATURES if full else tuple(_GIVEN.epochs)
    epochs = {features: _chosen_epochs(protocol, features, data, setting) for features in wanted}
    return Choices(switch, stops, epochs)


def _chosen_stop(protocol: Protocol, features: str, data: DataSplit, setting: Setting) -> Stop:
    def held_out(settings: Settings) -> float:
        scores = stop_course(Stop(**settings), features, data, setting)
        return scores[min(settings["iterations"] or len(scores), len(scores)) - 1]

    candidates = grid(boundary=_BOUNDARIES, l2=_PENALTIES, iterations=_STOPS)
    quick = asdict(_GIVEN.stops[features])
    return Stop(**protocol.choose(f"CRF, {features}", candidates, held_out, quick=quick))


def stop_course(stop: Stop, features: str, data: DataSplit, setting: Setting) -> list[float]:
    """Return F on the dev part, percent, after each iteration until convergence."""

    def train() -> list[float]:
        options: dict[str, Any] = {"pairs": features, "held_out": True, "l2": stop.l2}
        options |= {"boundary": stop.boundary, "seed": setting.seed}
        return [point.dev or 0.0 for point in chunkers.run_of(_BEST, data, **options).course]

    name = f"CRF, {features}, {stop.boundary}, l2 {stop.l2:g}, course"
    return setting.kept(name, train, list[float])


def _chosen_epochs(protocol: Protocol, features: str, data: DataSplit, setting: Setting) -> int:
    course = partial(chunkers.perceptron_course, data, features=features, seed=setting.seed)

    def held_out(settings: Settings) -> float:
        scores = setting.kept(f"perceptron, {features}, course", course, list[float])
        return scores[min(int(settings["epochs"]), len(scores)) - 1]

    candidates = grid(epochs=range(1, chunkers.EPOCHS_TRIED + 1))
    quick = {"epochs": _GIVEN.epochs.get(features)}
    found = protocol.choose(f"perceptron, {features}", candidates, held_out, quick=quick)
    return int(found["epochs"])


PAPER_F = {"complete": 94.38, "supported": 94.19}
WEIGHTS = {"supported": 820_000, "complete": 3_800_000}
PAPER_PERCEPTRON = {"supported": 94.09, "complete": 94.07}
CLOSE = 1.01  # the target of table 3: within 1 % of the best penalised log-likelihood
PAPER_PAIRS = {("CRF", "SVM"): 0.469, ("CRF", "MEMM"): 0.00109}
PAPER_PAIRS |= {("CRF", "perceptron"): 0.116, ("MEMM", "perceptron"): 0.0734}
"""Table 4. There is no SVM here."""
_BEST = chunkers.OPTIMISERS[-1]


def run(setting: Setting) -> Result:
    protocol, data = Protocol(RECIPE.name, setting), chunkers.read_training(setting)
    setting.say(f"shallow-parsing: {len(data.train):,} sentences, {THREADS} threads")
    setting.course.until(0.2)
    held_out = _watched(data, setting)
    choices = chosen(protocol, held_out[0], data, setting)
    protocol.freeze()
    data = protocol.test(partial(chunkers.read, setting))
    setting.course.until(0.5)
    like, whole = _trained(_with_switch(choices.switch), data, setting)
    setting.course.until(0.7)
    others, watched = _others(data, like, setting)
    held_out.append(watched)
    setting.course.until(1.0)
    rows = setting.told(_table3(whole))
    rows += setting.told(_table2(others))
    fields: dict[str, list[chunkers.ChunkerRun]] = {}
    for features in setting.course.each(_FEATURES):
        converged = partial(_converged, data, features)
        rows += setting.rows(f"CRF, {features}, sigma = 1", converged)
        fields[f"CRF, {features}"] = _seeded(features, choices.stops[features], data, setting)
    for features, epochs in choices.epochs.items():
        make = partial(chunkers.perceptron, data, epochs, features)
        name = f"averaged perceptron, {features}"
        fields[name] = over_seeds(
            setting, name, make, chunkers.ChunkerRun, seeds=_seeds(setting), about=epochs
        )
    rows += setting.told(_chosen_rows(fields))
    fields["MEMM"] = others[:1]
    systems = {"CRF": fields["CRF, complete"], "MEMM": fields["MEMM"]}
    systems["perceptron"] = fields["averaged perceptron, supported"]
    sections = [
        _reading(setting, data),
        _significance(data, systems, rows, setting.seed),
        _why_better(whole, held_out),
        protocol.section(),
        f"## The course of training\n\nOn the part without dev:\n\n{courses(held_out)}",
        folded("On the whole training file", courses(whole)),
    ]
    plots = setting.drawn("shallow-parsing.svg", partial(_draw, held_out))
    return Result(rows, sections, plots, _headline(data, fields))


def _seeds(setting: Setting) -> int:
    return SEEDS if setting.full else 1


def _seeded(
    features: str, stop: Stop, data: DataSplit, setting: Setting
) -> list[chunkers.ChunkerRun]:
    def make(seed: int) -> chunkers.ChunkerRun:
        setting.say(f"shallow-parsing: CRF, {features}, seed {seed}")
        options: dict[str, Any] = {"limit": stop.iterations, "l2": stop.l2, "seed": seed}
        return chunkers.run_of(_BEST, data, pairs=features, boundary=stop.boundary, **options)

    name = f"CRF, {features}, as chosen"
    return over_seeds(setting, name, make, chunkers.ChunkerRun, seeds=_seeds(setting), about=stop)


def _others(
    data: DataSplit, like: CRF, setting: Setting
) -> tuple[list[chunkers.ChunkerRun], chunkers.ChunkerRun]:
    limit = DEV_FULL if setting.full else DEV_ITERATIONS
    made: dict[str, Callable[[], chunkers.ChunkerRun]] = {
        "MEMM": lambda: chunkers.local(data, like),
        "voted perceptron": lambda: chunkers.voted(data, like, seed=setting.seed),
        "MEMM, dev": lambda: chunkers.local(data, like, held_out=True, limit=limit),
    }
    runs = []
    for name, make in setting.course.each(made.items()):
        setting.say(f"shallow-parsing: {name}")
        runs.append(setting.kept(name, make, chunkers.ChunkerRun))
    return runs[:-1], runs[-1]


def _watched(data: DataSplit, setting: Setting) -> list[chunkers.ChunkerRun]:
    runs = []
    limit = DEV_FULL if setting.full else DEV_ITERATIONS
    for optimiser in setting.course.each(chunkers.OPTIMISERS):
        name = f"{optimiser.name}, dev"
        setting.say(f"shallow-parsing: {name}")
        make = partial(chunkers.run_of, optimiser, data, held_out=True, limit=limit)
        runs.append(setting.kept(name, make, chunkers.ChunkerRun, optimiser.options))
    return runs


def _with_switch(iterations: int) -> list[chunkers.PublishedOptimiser]:
    """Let mixed CG drop its preconditioner after `iterations` iterations."""
    switch = {"method": "mixed-cg", "preconditioned": iterations}
    return [
        replace(one, options=switch) if one.options["method"] == "mixed-cg" else one
        for one in chunkers.OPTIMISERS
    ]


def _trained(
    optimisers: Sequence[chunkers.PublishedOptimiser], data: DataSplit, setting: Setting
) -> tuple[CRF, list[chunkers.ChunkerRun]]:
    runs = []
    for optimiser in setting.course.each(optimisers):
        setting.say(f"shallow-parsing: {optimiser.name}")
        limit = (GIS_FULL if setting.full else GIS) if optimiser.name == "GIS" else None
        make = partial(chunkers.optimised, optimiser, data, limit=limit, threads=THREADS)
        model, run = setting.trained(optimiser.name, make, chunkers.ChunkerRun, optimiser.options)
        runs.append(run)
    return model, runs


def _converged(data: DataSplit, features: str) -> Iterator[Row]:
    run = chunkers.run_of(_BEST, data, pairs=features)
    name, last = f"CRF, {features}, sigma = 1, converged", run.course[-1]
    yield Row(name, "F, test, %", run.f, PAPER_F[features], run.seconds)
    yield Row(name, "weights", run.weights, WEIGHTS[features])
    yield Row(name, "penalised log-likelihood", last.objective)
    yield Row(name, "log-likelihood", last.likelihood)
    yield Row(name, "passes over the data", last.passes, None, last.seconds)


def _chosen_rows(fields: Mapping[str, Sequence[chunkers.ChunkerRun]]) -> Iterator[Row]:
    for name, runs in fields.items():
        for k, one in enumerate(runs):
            yield Row(f"{name}, run {k + 1}", "F, test, %", one.f, None, one.seconds)


def _headline(
    data: DataSplit, fields: Mapping[str, Sequence[chunkers.ChunkerRun]]
) -> list[Headline]:
    gold = data.test.column_lists(PHRASE)
    paper = {f"CRF, {features}": f for features, f in PAPER_F.items()} | {"MEMM": PAPER_MEMM}
    paper |= {f"averaged perceptron, {features}": f for features, f in PAPER_PERCEPTRON.items()}
    lines = []
    for name, runs in fields.items():
        counts = [span_counts(gold, one.labels) for one in runs]
        lines.append(Headline.of_f(name, "F, test, %", counts, paper[name]))
    return lines


def _table3(runs: Sequence[chunkers.ChunkerRun]) -> Iterator[Row]:
    target = CLOSE * max(run.course[-1].objective for run in runs)
    for optimiser, one in zip(chunkers.OPTIMISERS, runs, strict=True):
        last, name = one.course[-1], one.name
        yield Row(name, "F, test, %", one.f, optimiser.f, last.seconds)
        yield Row(name, "penalised log-likelihood", last.objective, optimiser.objective)
        yield Row(name, "log-likelihood", last.likelihood)
        yield Row(name, "iterations", len(one.course), 3700 if name == "GIS" else None)
        yield Row(name, "passes over the data", last.passes)
        minutes = optimiser.minutes
        yield Row(name, "seconds", last.seconds, None if minutes is None else 60 * minutes)
        near = reached(one.course, target)
        if near is not None:
            yield Row(name, "passes until within 1 % of the best", near.passes, None, near.seconds)


PAPER_MEMM = 93.70


def _table2(runs: Sequence[chunkers.ChunkerRun]) -> Iterator[Row]:
    for one in runs:
        paper = PAPER_MEMM if one.name == "MEMM" else None
        yield Row(one.name, "F, test, %", one.f, paper, one.seconds)


_PASSES = (5, 10, 20, 30, 50, 75, 100, 150, 200, 400)


def reached(course: Sequence[chunkers.Point], objective: float) -> chunkers.Point | None:
    """Return the first point with at least this penalised log-likelihood, or `None`."""
    for point in course:
        value = _objective(point)
        if value is not None and value >= objective:
            return point
    return None


def _objective(point: chunkers.Point) -> float | None:
    """`None` after a stochastic epoch: its value is measured for each sentence before its step."""
    return None if point.gradient_norm is None else point.objective


def _after(course: Sequence[chunkers.Point], passes: int) -> chunkers.Point | None:
    """Return the last point within a number of passes, if training continued until then."""
    if not course or course[-1].passes < passes:
        return None
    known = [point for point in course if point.passes <= passes]
    return known[-1] if known else None


def courses(runs: Sequence[chunkers.ChunkerRun]) -> str:
    """Return tables of the penalised log-likelihood, the gradient and F by passes."""
    parts = []
    shown: tuple[tuple[str, Callable[[chunkers.Point], float | None]], ...] = (
        ("Penalised log-likelihood", _objective),
        ("Norm of the gradient", lambda p: p.gradient_norm),
        ("F on the dev part, %", lambda p: p.dev),
    )
    for title, value in shown:
        rows = []
        for run in runs:
            points = [_after(run.course, passes) for passes in _PASSES]
            cells = [None if point is None else value(point) for point in points]
            known = [None if cell is None or np.isnan(cell) else cell for cell in cells]
            if any(cell is not None for cell in known):
                rows.append([run.name, *map(number, known)])
        if rows:
            head = [title, *(f"{passes} passes" for passes in _PASSES)]
            parts.append(table(head, rows))
    return "\n\n".join(parts)


def lowest(runs: Sequence[chunkers.ChunkerRun]) -> float | None:
    """Return the lower limit of F's panel: below the best F of the worst run; `None` without F."""
    scores = [[point.dev for point in run.course if point.dev is not None] for run in runs]
    best = [max(course) for course in scores if course]
    return max(0.0, math.floor(min(best)) - 1.0) if best else None


def _draw(runs: Sequence[chunkers.ChunkerRun], path: Path) -> None:
    def loss(point: chunkers.Point) -> float | None:
        return None if point.gradient_norm is None else -point.objective

    def curves(value: Callable[[chunkers.Point], float | None]) -> list[Curve]:
        return [
            Curve(run.name, [point.passes for point in run.course], list(map(value, run.course)))
            for run in runs
        ]

    panels = (
        Panel("negative penalised log-likelihood", curves(loss), log=True),
        Panel("norm of the gradient", curves(lambda p: p.gradient_norm or None), log=True),
        Panel("F of noun phrases, dev part, %", curves(lambda p: p.dev), bottom=lowest(runs)),
    )
    draw(path, panels, "passes of forward-backward over the data", size=(8, 10))


def _reading(setting: Setting, data: DataSplit) -> str:
    how = "in this run" if setting.full else "before this run"
    extent = "" if setting.full else " `--full` chooses again, and takes 3,700 steps of GIS."
    sizes: Any = {"train": len(data.train), "dev": len(data.dev), "test": len(data.test)}
    return prose("shallow-parsing/reading", how=how, extent=extent, **sizes)


def _why_better(
    runs: Sequence[chunkers.ChunkerRun], held_out: Sequence[chunkers.ChunkerRun]
) -> str:
    by_name = {
        one.name: (one, published) for one, published in zip(runs, chunkers.OPTIMISERS, strict=True)
    }
    ours, published = by_name["L-BFGS"]
    last, theirs = ours.course[-1], published.objective or 0.0
    point = reached(ours.course, theirs)
    passed = "" if point is None else f" It passes theirs after {point.passes} passes."
    return prose(
        "shallow-parsing/why_better",
        objective=number(last.objective),
        theirs=number(theirs),
        gained=number(last.objective - theirs),
        passes=last.passes,
        passed=passed,
        weights=number(ours.weights),
        dev=_what_it_brings(point, held_out),
    )


def _what_it_brings(point: chunkers.Point | None, held_out: Sequence[chunkers.ChunkerRun]) -> str:
    course = next(one.course for one in held_out if one.name == "L-BFGS")
    known = [one for one in course if one.dev is not None]
    then = None if point is None else _after(known, point.passes)
    if then is None:
        return ""
    best = max(known, key=lambda one: one.dev or 0.0)
    return (
        f" The same method without the dev part has F {number(then.dev)} there after as many "
        f"passes, {number(known[-1].dev)} in the end, and at most {number(best.dev)}, after "
        f"{best.passes}."
    )


def _significance(
    data: DataSplit,
    systems: Mapping[str, Sequence[chunkers.ChunkerRun]],
    rows: list[Row],
    seed: int,
) -> str:
    gold = data.test.column_lists(PHRASE)
    cells = []
    for (first, second), paper in PAPER_PAIRS.items():
        if second not in systems:
            cells.append([f"{first} against {second}", number(paper), "not trained", *[""] * 5])
            continue
        one, two = systems[first], systems[second]
        found = compare(gold, one[0].labels, two[0].labels, seed=seed)
        sides = [[span_counts(gold, run.labels) for run in runs] for runs in (one, two)]
        low, high = (100.0 * x for x in bootstrapped_f(*sides, resamples=1999, seed=seed))
        rows.append(Row(f"{first} against {second}", "McNemar's p", found.tokens.exact, paper))
        cells.append(
            [
                f"{first} against {second}",
                number(paper),
                f"{found.tokens.exact:.3g}",
                f"{found.tokens.chi_square:.3g}",
                f"{found.tokens.first} / {found.tokens.second}",
                gain(found),
                f"{low:+.2f} to {high:+.2f}",
                f"{found.randomised:.3g}",
            ]
        )
    return prose("shallow-parsing/significance", cells)


RECIPE = Recipe(
    "shallow-parsing",
    "Noun-phrase chunking: a second-order CRF by every optimiser",
    needs=CHUNK_FILES,
    paper="Sha and Pereira (2003)",
    run=run,
    packages=("matplotlib", "scipy"),
)
