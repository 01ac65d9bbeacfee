"""The recipe ``mce``: tables 1 and 2 of Suzuki, McDermott and Isozaki (2006)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from fstcrf.evaluate import compare
from fstcrf.ext.calibration import lattices_of
from fstcrf.ext.significance import SpanCounts
from fstcrf.lattices import Lattice
from fstcrf.recipes import corpora
from fstcrf.recipes import error_systems as given
from fstcrf.recipes.experiment import THREADS, Recipe, Setting, Work
from fstcrf.recipes.probabilities import Worth, calibration_error, worth, worth_table
from fstcrf.recipes.protocol import SEEDS, Protocol, Settings
from fstcrf.recipes.report import Headline, Margin, Result, Row, chances, gain, number, prose
from fstcrf.taggers import CRF
from fstcrf.text.corpus import Corpus


def chosen_tagset(protocol: Protocol, name: str, setting: Setting) -> given.LabellingTask:
    """Choose labels, by the best result of MCE-F from MAP with the weakest penalty."""

    def held_out(settings: Settings) -> float:
        trainer = given.TaskTrainer(given.TASKS[name](setting, given.Tagset(**settings)), setting)
        return trainer.reached(
            given.PROBE,
            given.Choice(max(given.PROBE.grid), None, given.STARTS[len(given.STARTS) // 2]),
        )

    about = given.PROBE.options, given.TEMPLATES[name]
    found = protocol.choose(
        f"{name}, labels", given.TAGSETS, held_out, about, quick=given.TAGSETS[0]
    )
    return given.TASKS[name](setting, given.Tagset(**found))


def chosen(
    protocol: Protocol,
    system: given.System,
    trainer: given.TaskTrainer,
    about: object,
    *,
    full: bool,
) -> given.Choice:
    name = f"{trainer.task.name}, {system.name}"

    def best(what: str, candidates: Sequence[given.Choice], worth: _Worth) -> given.Choice:
        several = [{"C": c.C, "start": c.start, "iterations": c.iterations} for c in candidates]
        return given.Choice(
            **protocol.choose(
                f"{name}{what}", several, lambda own: worth(system, given.Choice(**own)), about
            )
        )

    if not full or not system.grid:
        return best("", [system.given[trainer.task.name]], trainer.held_out)
    start: float | None = None
    if system.from_map:  # with the penalty that preserves most of the advantage of a start
        starts = [given.Choice(max(system.grid), None, c) for c in given.STARTS]
        start = best(", start", starts, trainer.reached).start
    candidates = [given.Choice(c, None, start) for c in system.grid]
    if system.iterations:  # C by the best of the first iterations, then how many
        found = best(", C", candidates, trainer.reached)
        candidates = [replace(found, iterations=k) for k in system.iterations]
    return best("", candidates, trainer.held_out)


_Worth = Callable[[given.System, given.Choice], float]


@dataclass(frozen=True, slots=True)
class Measured:
    l2: float
    labels: list[list[str]]
    objective: float | None  # where training ended
    seconds: float  # of training, without the training of its start
    error: float  # of its probabilities, expected
    worth: Worth | None  # of its probabilities, in full; of the first seed


def sentence_counts(
    test: Corpus, target: str, labels: Sequence[Sequence[str]], *, document_lines: bool
) -> SpanCounts:
    """Count right sentences so that F is their share, lines ``-DOCSTART-`` among them or not."""
    right = [a == b for a, b in zip(test.column_lists(target), labels, strict=True)]
    lines = sum(map(bool, test.document_headers)) if document_lines else 0
    hits = np.asarray(right + [True] * lines, dtype=np.int64)
    return SpanCounts(hits, np.ones_like(hits), np.ones_like(hits))


_SENTENCES, _LINES = "sentences right, test, %", "sentences right, with document lines, test, %"


@dataclass(frozen=True, slots=True)
class _Tested:
    """A task whose settings are chosen, with its test part."""

    trainer: given.TaskTrainer
    choices: Mapping[str, given.Choice]
    systems: Sequence[given.System]
    test: Corpus
    setting: Setting
    found: dict[str, list[Measured]] = field(default_factory=dict)

    @property
    def task(self) -> given.LabellingTask:
        return self.trainer.task

    def seeds(self, system: given.System) -> range:
        first = self.setting.seed
        return range(first, first + (system.seeds if self.setting.full else 1))

    def about(self, system: given.System) -> tuple[object, ...]:
        return system.options, self.choices[system.name], self.task.tagset, self.task.template

    def works(self) -> Iterator[Work[Measured]]:
        """Yield the runs of the systems, one for each seed."""
        for system in self.systems:
            for seed in self.seeds(system):
                name = f"{self.task.name}, {system.name}, seed {seed}"
                make = partial(self._measured, system, seed)
                yield Work(name, make, (self.about(system), seed))

    def _measured(self, system: given.System, seed: int) -> Measured:
        choice, test = self.choices[system.name], self.test
        model, seconds = self.trainer.trained(system, choice, seed)
        found = self._worth(model) if seed == self.setting.seed else None
        error = (
            found.error if found else calibration_error(*self._asked(model, test), threads=THREADS)
        )
        objective = None if model.record is None else model.record.objective
        labels = model.tag_all(test, threads=THREADS)
        l2 = given.penalty(system, self.task, self.task.train, choice.C)
        return Measured(l2, labels, objective, seconds, error, found)

    def _worth(self, model: CRF) -> Worth:
        """Measure probabilities, with a temperature if there is other text for it."""
        other = None if self.task.dev is None else self._asked(model, self.task.dev)
        return worth(*self._asked(model, self.test), other, threads=THREADS)

    def _asked(self, model: CRF, corpus: Corpus) -> tuple[Sequence[Lattice], list[list[str]]]:
        return lattices_of(model, corpus, threads=THREADS), corpus.column_lists(self.task.target)

    def reported(self, runs: Iterator[Measured]) -> Result:
        """Report the results of runs, in the order of `works`."""
        result = Result()
        for system in self.systems:
            mine = self.found[system.name] = [next(runs) for _ in self.seeds(system)]
            result.rows.extend(self.setting.told(self._rows(system, mine)))
            result.headline.extend(self._headline(system, mine))
        result.sections.extend([self._choices(), self._significance(), self._probabilities()])
        return result

    def _f(self, one: Measured) -> float:
        return corpora.span_f(self.test, self.task.target, one.labels)

    def _right(self, one: Measured, *, document_lines: bool) -> SpanCounts:
        return sentence_counts(
            self.test, self.task.target, one.labels, document_lines=document_lines
        )

    def _rows(self, system: given.System, runs: Sequence[Measured]) -> Iterator[Row]:
        for k, one in enumerate(runs):
            title = f"{self.task.name}: {system.name}" + (f", run {k + 1}" if len(runs) > 1 else "")
            paper, _ = system.paper[self.task.name]
            yield Row(title, "F, test, %", self._f(one), paper, one.seconds)
            yield Row(title, _SENTENCES, 100.0 * self._right(one, document_lines=False).f)
            if any(self.test.document_headers):
                yield Row(title, _LINES, 100.0 * self._right(one, document_lines=True).f)

    def _headline(self, system: given.System, runs: Sequence[Measured]) -> Iterator[Headline]:
        """Yield F, by resampled documents, and right sentences as the paper counts them."""
        name, test = f"{self.task.name}: {system.name}", self.test
        f, sentences = system.paper[self.task.name]
        line = Headline.of_f(name, "F, %", self._counts(runs), f, resamples=9_999)
        yield replace(line, values=tuple(self._f(one) for one in runs))
        right = [self._right(one, document_lines=True) for one in runs]
        if corpora.documents_of(test) is not None:
            lines = np.flatnonzero([bool(header) for header in test.document_headers])
            places = np.append(test.documents, test.first_document + lines).astype(np.int64)
            right = [one.grouped(places) for one in right]
        yield Headline.of_f(name, "sentences right, %", right, sentences)

    def _counts(self, runs: Sequence[Measured]) -> list[SpanCounts]:
        return [corpora.counted(self.test, self.task.target, one.labels) for one in runs]

    def _choices(self) -> str:
        body = []
        for name, runs in self.found.items():
            choice = self.choices[name]
            start = "" if choice.start is None else f"MAP, l2 {0.5 / choice.start:g}"
            ends = "to convergence" if choice.iterations is None else str(choice.iterations)
            c = "" if choice.C is None else f"{choice.C:g}"
            body.append([name, c, f"{runs[0].l2:.3g}", start, ends, number(runs[0].objective)])
        tagset = self.task.tagset
        where = {"inside": ".", "next": "; a span ends where the next label says so."}
        labels = f"{tagset.scheme.upper()}{where[tagset.span_end]}"
        return prose("mce/settings", body, name=self.task.name, labels=labels)

    def _significance(self) -> str:
        """Compare every system with ML and with MAP: the first runs, and F of all."""
        gold, seed = self.test.column_lists(self.task.target), self.setting.seed
        options: Any = {"documents": corpora.documents_of(self.test), "resamples": 1999}
        body = []
        for name, runs in self.found.items():
            for other in ("ML", "MAP"):
                if other not in self.found or name in ("ML", other):
                    continue
                theirs = self.found[other]
                pair = compare(gold, runs[0].labels, theirs[0].labels, seed=seed, **options)
                every = str(Margin.of(self._counts(runs), self._counts(theirs), seed=seed))
                body.append([f"{name} − {other}", gain(pair), every, *chances(pair)])
        return prose("mce/significance", body, name=self.task.name)

    def _probabilities(self) -> str:
        """Describe the quality of probabilities, including MAP with the penalty of a start."""
        task = self.task
        known = {name: runs[0].worth for name, runs in self.found.items()}
        errors = {name: [one.error for one in runs] for name, runs in self.found.items()}
        starts = [one.start for one in self.choices.values() if one.start is not None]
        for c in dict.fromkeys(starts):
            name = f"{given.LIKELIHOOD.name}, l2 {0.5 / c:g}: a start"
            known[name] = self.setting.kept(
                f"{task.name}, {name}, worth",
                lambda c=c: self._worth(self.trainer.likelihood(c)[0]),  # type: ignore[misc]
                Worth,
                (task.tagset, task.template),
            )
        several = {name: one for name, one in known.items() if one is not None}
        return f"## Probabilities, {task.name}\n\n{worth_table(several, errors)}"


def run(setting: Setting) -> Result:
    protocol, full = Protocol(RECIPE.name, setting), setting.full
    systems = [system for system in given.SYSTEMS if full or system.quick]
    plans = []
    setting.course.until(0.6 if full else 0.05)
    for name in setting.course.each(given.TASKS):
        task = chosen_tagset(protocol, name, setting)
        trainer, about = given.TaskTrainer(task, setting), (task.tagset, task.template)
        choices = {
            system.name: chosen(protocol, system, trainer, (about, system.options), full=full)
            for system in setting.course.each(systems)
        }
        plans.append((trainer, choices))
    protocol.freeze()
    setting.course.until(1.0)
    tested = [
        _Tested(
            *plan, systems, protocol.test(partial(given.read_test, plan[0].task, setting)), setting
        )
        for plan in plans
    ]
    # Of both tasks together, so that no process waits for another while there is something to do.
    works = [work for one in tested for work in one.works()]
    every = iter(setting.all_kept(works, Measured))
    found = [one.reported(every) for one in tested]
    how, runs = "before this run", "one run"
    if full:
        how = "in this run"
        runs = f"{SEEDS} runs from different seeds where a system begins at zero, else one run"
    reading = prose("mce/reading", how=how, first=given.FIRST, patience=given.PATIENCE, runs=runs)
    return Result(
        [row for one in found for row in one.rows],
        [reading, *(part for one in found for part in one.sections), protocol.section()],
        headline=[line for one in found for line in one.headline],
    )


RECIPE = Recipe(
    "mce",
    "Chunking and entities trained on smooth counts of errors, and on F",
    needs=(*corpora.CHUNK_FILES, *corpora.ENTITY_FILES),
    paper="Suzuki et al. (2006)",
    run=run,
    packages=("scipy",),
)
