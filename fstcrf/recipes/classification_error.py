"""The recipe ``mce``: tables 1 and 2 of Suzuki, McDermott and Isozaki (2006)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from fstcrf.evaluate import compare
from fstcrf.evaluate.significance import SpanCounts, bootstrapped_f, span_counts
from fstcrf.ext.calibration import lattices_of
from fstcrf.lattices import Lattice
from fstcrf.recipes import corpora
from fstcrf.recipes.error_systems import (
    FIRST,
    LIKELIHOOD,
    PATIENCE,
    PROBE,
    STARTS,
    SYSTEMS,
    TAGSETS,
    TASKS,
    TEMPLATES,
    Choice,
    LabellingTask,
    System,
    Tagset,
    TaskTrainer,
    penalty,
    read_test,
)
from fstcrf.recipes.experiment import THREADS, Recipe, Setting, Work
from fstcrf.recipes.probabilities import Worth, calibration_error, worth, worth_table
from fstcrf.recipes.protocol import SEEDS, Protocol
from fstcrf.recipes.report import P_VALUES, Headline, Result, Row, gain, number, prose, table
from fstcrf.taggers import CRF
from fstcrf.text.corpus import Corpus


def chosen_tagset(
    protocol: Protocol, name: str, setting: Setting, candidates: Sequence[Mapping[str, Any]]
) -> LabellingTask:
    """Choose labels, by what MCE-F from MAP can reach with the weakest penalty."""

    def held_out(settings: Mapping[str, Any]) -> float:
        trainer = TaskTrainer(TASKS[name](setting, Tagset(**settings)), setting)
        return trainer.reached(PROBE, Choice(_weakest(PROBE), None, _middle_start()))

    about = PROBE.options, TEMPLATES[name]
    found: Mapping[str, Any] = protocol.choose(f"{name}, labels", candidates, held_out, about)
    return TASKS[name](setting, Tagset(**found))


def chosen(
    protocol: Protocol, system: System, trainer: TaskTrainer, about: object, *, full: bool
) -> Choice:
    task = trainer.task
    name = f"{task.name}, {system.name}"
    if not full or not system.grid:
        given = system.given[task.name]
        return _made(protocol.choose(name, [_settings(given)], lambda _: 0.0))
    start: float | None = None
    if system.from_map:
        starts = [_settings(Choice(_weakest(system), None, c)) for c in STARTS]
        reached = partial(_reached, trainer, system)
        start = _made(protocol.choose(f"{name}, start", starts, reached, about)).start
    candidates = [_settings(Choice(c, None, start)) for c in system.grid]
    if system.iterations:  # C by the best of the first iterations, then how many
        found = protocol.choose(f"{name}, C", candidates, partial(_reached, trainer, system), about)
        candidates = [_settings(replace(_made(found), iterations=k)) for k in system.iterations]
    return _made(
        protocol.choose(
            name, candidates, lambda settings: trainer.held_out(system, _made(settings)), about
        )
    )


def _reached(trainer: TaskTrainer, system: System, settings: Mapping[str, Any]) -> float:
    return trainer.reached(system, _made(settings))


def _settings(choice: Choice) -> dict[str, Any]:
    return {"C": choice.C, "start": choice.start, "iterations": choice.iterations}


def _made(settings: Mapping[str, Any]) -> Choice:
    return Choice(**settings)


def _weakest(system: System) -> float:
    """Return C of the penalty that hides least of what labels, or a start, are good for."""
    return max(system.grid)


def _middle_start() -> float:
    return STARTS[len(STARTS) // 2]


@dataclass(frozen=True, slots=True)
class Measured:
    l2: float
    labels: list[list[str]]
    objective: float | None  # where training ended
    seconds: float  # of training, without that of its start
    error: float  # of its probabilities, expected
    worth: Worth | None  # of its probabilities, in full; of the first seed


def measured(
    trainer: TaskTrainer,
    system: System,
    choice: Choice,
    test: Corpus,
    *,
    probabilities: bool,
    seed: int,
) -> Measured:
    task = trainer.task
    model, seconds = trainer.trained(system, choice, seed)
    found = _worth(model, task, test) if probabilities else None
    error = found.error if found is not None else _error(model, task, test)
    objective = None if model.record is None else model.record.objective
    labels = model.tag_all(test, threads=THREADS)
    l2 = penalty(system, task, task.train, choice.C)
    return Measured(l2, labels, objective, seconds, error, found)


def _worth(model: CRF, task: LabellingTask, test: Corpus) -> Worth:
    """Measure a model's probabilities, with a temperature where there is other text for it."""
    other = None if task.dev is None else _asked(model, task, task.dev)
    return worth(*_asked(model, task, test), other, threads=THREADS)


def _error(model: CRF, task: LabellingTask, test: Corpus) -> float:
    return calibration_error(*_asked(model, task, test), threads=THREADS)


def _asked(
    model: CRF, task: LabellingTask, corpus: Corpus
) -> tuple[Sequence[Lattice], list[list[str]]]:
    return lattices_of(model, corpus, threads=THREADS), corpus.column_lists(task.target)


def sentence_counts(
    test: Corpus, target: str, labels: Sequence[Sequence[str]], *, document_lines: bool
) -> SpanCounts:
    """Count right sentences so that F is their share, lines ``-DOCSTART-`` among them or not."""
    right = [a == b for a, b in zip(test.column_lists(target), labels, strict=True)]
    lines = sum(map(bool, test.document_headers)) if document_lines else 0
    hits = np.asarray(right + [True] * lines, dtype=np.int64)
    return SpanCounts(hits, np.ones_like(hits), np.ones_like(hits))


def run(setting: Setting) -> Result:
    protocol, full = Protocol(RECIPE.name, setting), setting.full
    systems = [system for system in SYSTEMS if full or system.quick]
    plans = []
    setting.course.until(0.6 if full else 0.05)
    for name in setting.course.each(TASKS):
        task = chosen_tagset(protocol, name, setting, TAGSETS if full else TAGSETS[:1])
        trainer, about = TaskTrainer(task, setting), (task.tagset, task.template)
        choices = {
            system.name: chosen(protocol, system, trainer, (about, system.options), full=full)
            for system in setting.course.each(systems)
        }
        plans.append((trainer, choices))
    protocol.freeze()
    setting.course.until(1.0)
    tests = [protocol.test(partial(read_test, trainer.task, setting)) for trainer, _ in plans]
    pools = [
        _runs(trainer, choices, systems, test, setting)
        for (trainer, choices), test in zip(plans, tests, strict=True)
    ]
    # Of both tasks together, so that no process waits for another while there is something to do.
    every = iter(setting.all_kept([work for pool in pools for work in pool], Measured))
    found = [
        _reported(
            trainer, choices, systems, test, list(itertools.islice(every, len(pool))), setting
        )
        for (trainer, choices), test, pool in zip(plans, tests, pools, strict=True)
    ]
    return Result(
        [row for one in found for row in one.rows],
        [
            _reading(full=full),
            *(part for one in found for part in one.sections),
            protocol.section(),
        ],
        headline=[line for one in found for line in one.headline],
    )


def _seeds(system: System, setting: Setting) -> range:
    return range(setting.seed, setting.seed + (system.seeds if setting.full else 1))


def _runs(
    trainer: TaskTrainer,
    choices: Mapping[str, Choice],
    systems: Sequence[System],
    test: Corpus,
    setting: Setting,
) -> list[Work[Measured]]:
    task, works = trainer.task, []
    for system in systems:
        choice = choices[system.name]
        about = (system.options, choice, task.tagset, task.template)
        for seed in _seeds(system, setting):
            first = seed == setting.seed
            make = partial(measured, trainer, system, choice, test, probabilities=first, seed=seed)
            works.append(Work(f"{task.name}, {system.name}, seed {seed}", make, (about, seed)))
    return works


def _reported(
    trainer: TaskTrainer,
    choices: Mapping[str, Choice],
    systems: Sequence[System],
    test: Corpus,
    runs: Sequence[Measured],
    setting: Setting,
) -> Result:
    task, every = trainer.task, iter(runs)
    rows: list[Row] = []
    found: dict[str, list[Measured]] = {}
    for system in systems:
        mine = found[system.name] = [next(every) for _ in _seeds(system, setting)]
        about = (system.options, choices[system.name], task.tagset, task.template)
        make = partial(_rows, task, test, system.name, mine)
        rows += setting.rows(f"{task.name}, {system.name}, rows", make, about)
    sections = [
        _choices(task, choices, found),
        _significance(task, test, found, setting.seed),
        _probabilities(trainer, test, found, choices, setting),
    ]
    lines = [line for s in systems for line in _headline(task, test, s, found[s.name])]
    return Result(rows, sections, headline=lines)


def _probabilities(
    trainer: TaskTrainer,
    test: Corpus,
    found: Mapping[str, Sequence[Measured]],
    choices: Mapping[str, Choice],
    setting: Setting,
) -> str:
    task = trainer.task
    known = {name: runs[0].worth for name, runs in found.items()}
    errors = {name: [one.error for one in runs] for name, runs in found.items()}
    for c in dict.fromkeys(one.start for one in choices.values() if one.start is not None):
        name = f"{LIKELIHOOD.name}, l2 {0.5 / c:g}: a start"
        make = partial(_worth_of_start, trainer, c, test)
        about = (task.tagset, task.template)
        known[name] = setting.kept(f"{task.name}, {name}, worth", make, Worth, about)
    several = {name: one for name, one in known.items() if one is not None}
    return f"## Probabilities, {task.name}\n\n{worth_table(several, errors)}"


def _worth_of_start(trainer: TaskTrainer, c: float, test: Corpus) -> Worth:
    return _worth(trainer.likelihood(c)[0], trainer.task, test)


_SENTENCES, _LINES = "sentences right, test, %", "sentences right, with document lines, test, %"


def _rows(task: LabellingTask, test: Corpus, name: str, runs: Sequence[Measured]) -> Iterator[Row]:
    f, _ = _paper(name, task)
    for k, one in enumerate(runs):
        title = f"{task.name}: {name}" + (f", run {k + 1}" if len(runs) > 1 else "")
        right = partial(sentence_counts, test, task.target, one.labels)
        yield Row(title, "F, test, %", _f(task, test, one), f, one.seconds)
        yield Row(title, _SENTENCES, 100.0 * right(document_lines=False).f)
        if any(test.document_headers):
            yield Row(title, _LINES, 100.0 * right(document_lines=True).f)


def _paper(name: str, task: LabellingTask) -> tuple[float, float]:
    return next(one for one in SYSTEMS if one.name == name).paper[task.name]


def _f(task: LabellingTask, test: Corpus, one: Measured) -> float:
    return corpora.span_f(test, task.target, one.labels)


def _mean_f(task: LabellingTask, test: Corpus, runs: Sequence[Measured]) -> float:
    return float(np.mean([_f(task, test, one) for one in runs]))


def _headline(
    task: LabellingTask, test: Corpus, system: System, runs: Sequence[Measured]
) -> Iterator[Headline]:
    """Yield F, by resampled documents, and right sentences as the paper counts them."""
    name, (f, sentences) = f"{task.name}: {system.name}", _paper(system.name, task)
    counts = _span_counts(task, test, runs)
    yield Headline(
        name,
        "F, %",
        tuple(_f(task, test, one) for one in runs),
        f,
        _percent(bootstrapped_f(counts)),
    )
    right = [sentence_counts(test, task.target, one.labels, document_lines=True) for one in runs]
    shares = tuple(100.0 * one.f for one in right)
    if corpora.documents_of(test) is not None:
        lines = np.flatnonzero([bool(header) for header in test.document_headers])
        places = np.append(test.documents, test.first_document + lines).astype(np.int64)
        right = [one.grouped(places) for one in right]
    ends = _percent(bootstrapped_f(right, resamples=1999))
    yield Headline(name, "sentences right, %", shares, sentences, ends)


def _span_counts(task: LabellingTask, test: Corpus, runs: Sequence[Measured]) -> list[SpanCounts]:
    gold, documents = test.column_lists(task.target), corpora.documents_of(test)
    counts = [span_counts(gold, one.labels) for one in runs]
    return counts if documents is None else [one.grouped(documents) for one in counts]


def _percent(ends: tuple[float, float]) -> tuple[float, float]:
    return 100.0 * ends[0], 100.0 * ends[1]


def _reading(*, full: bool) -> str:
    how = "in this run" if full else "before this run"
    runs = "one run"
    if full:
        runs = f"{SEEDS} runs from different seeds where a system begins at zero, else one run"
    return prose("mce/reading", how=how, first=FIRST, patience=PATIENCE, runs=runs)


def _choices(
    task: LabellingTask, choices: Mapping[str, Choice], found: Mapping[str, Sequence[Measured]]
) -> str:
    body = []
    for name, runs in found.items():
        choice = choices[name]
        start = "" if choice.start is None else f"MAP, l2 {0.5 / choice.start:g}"
        ends = "to convergence" if choice.iterations is None else str(choice.iterations)
        c = "" if choice.C is None else f"{choice.C:g}"
        body.append([name, c, f"{runs[0].l2:.3g}", start, ends, number(runs[0].objective)])
    head = ["", "C", "l2", "start", "iterations", "objective reached"]
    labels = f"Labels are in {task.tagset.scheme.upper()}"
    labels += {"inside": ".", "next": "; a span ends where the next label says so."}[
        task.tagset.span_end
    ]
    return f"## Settings, {task.name}\n\n{labels}\n\n{table(head, body)}"


def _significance(
    task: LabellingTask, test: Corpus, found: Mapping[str, Sequence[Measured]], seed: int
) -> str:
    gold, documents = test.column_lists(task.target), corpora.documents_of(test)
    body = []
    for name, runs in found.items():
        for other in ("ML", "MAP"):
            if other not in found or name in ("ML", other):
                continue
            mine, theirs = runs[0].labels, found[other][0].labels
            pair = compare(gold, mine, theirs, documents=documents, resamples=1999, seed=seed)
            chances = pair.tokens.exact, pair.sentences.exact, pair.randomised
            ends = bootstrapped_f(
                _span_counts(task, test, runs),
                _span_counts(task, test, found[other]),
                resamples=1999,
                seed=seed,
            )
            low, high = _percent(ends)
            mean = _mean_f(task, test, runs) - _mean_f(task, test, found[other])
            every = f"{mean:+.2f} ({low:+.2f} to {high:+.2f})"
            body.append([f"{name} − {other}", gain(pair), every, *(f"{p:.3g}" for p in chances)])
    head = ["", "F (95 % interval)", "mean of all runs (interval)"]
    head += ["McNemar, tokens", "sentences", "randomised F"]
    return (
        f"## Significance, {task.name}\n\n"
        "The gain in F, and p-values; of the first runs, but for the mean of all. "
        f"{P_VALUES}\n\n{table(head, body)}"
    )


RECIPE = Recipe(
    "mce",
    "Chunking and entities trained on smooth counts of errors, and on F",
    needs=(
        "conll2000/train.txt",
        "conll2000/test.txt",
        "conll2003/eng.train",
        "conll2003/eng.testa",
        "conll2003/eng.testb",
    ),
    paper="Suzuki et al. (2006)",
    run=run,
    packages=("scipy",),
)
