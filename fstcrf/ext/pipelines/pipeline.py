"""Tasks in the order of reading, and their training one after the other."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from fstcrf.arguments import one_of
from fstcrf.errors import OptionError
from fstcrf.ext.pipelines.task import Task, ancestors, check_tasks, name_of, named, reads_of
from fstcrf.ext.pipelines.trained import Decode, Folder, TrainedPipeline
from fstcrf.machines.grammar import Grammar
from fstcrf.taggers import CRF
from fstcrf.taggers.composition import joint
from fstcrf.taggers.tagger import Normalize
from fstcrf.training import Progress
from fstcrf.training.loop import saved_iteration
from fstcrf.training.options import structured
from fstcrf.training.passing import FoldProgress


@dataclass(frozen=True, eq=False)
class Pipeline:
    """Tasks that read each other's labels.

    Parameters
    ----------
    tasks : sequence of Task or CRF
        In any order; a tagger that is trained already is taken as it is.
    decode : {"cascade", "joint", "marginals"}, optional
        How the pipeline tags unless it is asked otherwise. When absent: joint under a grammar, else
        cascade.
    normalize : {"product", "chain"}, optional
        The kind of a joint decision, see `fstcrf.compose`. By default: chain if a task reads
        another and all weights are 1, else product.
    grammar : Grammar, optional
        The constraints on labels. In a cascade and by marginals, each of its parts reads one tape.

    Raises
    ------
    OptionError
        No task, an invalid task, or two with one name; an invalid kind of decision or grammar;
        tasks that read each other in a circle, read a missing task, or were trained to read labels
        that it lacks.
    """

    tasks: Sequence[Task | CRF]
    decode: Decode | None = None
    normalize: Normalize | None = None
    grammar: Grammar | None = None

    def __post_init__(self) -> None:
        if self.decode is not None:
            one_of("decode", self.decode, Decode)
        if self.normalize not in (None, "product", "chain"):
            raise OptionError(f"normalize is {self.normalize!r}, expected 'product' or 'chain'")
        if self.grammar is not None and not isinstance(self.grammar, Grammar):
            raise OptionError(
                f"grammar is {self.grammar!r}, expected a Grammar, as of Grammar.from_file"
            )
        object.__setattr__(self, "tasks", tuple(_arranged(self.tasks)))
        _check_labels([task for task in self.tasks if isinstance(task, CRF)])

    def train(
        self,
        folder: str | os.PathLike[str] | None = None,
        *,
        threads: int = 1,
        report: Callable[[Progress], None] | None = None,
        told: Callable[[str], None] | None = None,
    ) -> TrainedPipeline:
        """Train all untrained tasks, each with the predicted labels of earlier ones.

        Parameters
        ----------
        folder : path, optional
            Finished taggers are saved here, and are loaded from here if nothing that determines
            them has changed; within a task, training continues after an interruption: Ctrl-C ends
            it after the current iteration (a second one at once), and saves its state.
        threads : int
            The result does not depend on it.
        report : callable, optional
            Called after every iteration, with the name of the task.
        told : callable, optional
            Called with one line about each task.

        Raises
        ------
        DataError, TemplateError, OptionError, LabelError, GrammarError
            Before anything is trained: a column is missing, also one that an earlier tagger reads;
            labels, a scheme, class weights, templates or grammars that do not go together.
        OptionError
            Before anything is trained: decode is cascade or marginals, and a part of the grammar is
            over several tapes.
        DataError, OptionError, NumericError
            As for `fstcrf.CRF.train`, with the name of the task.
        OSError
            The folder cannot be written.
        """
        place = None if folder is None else Folder(Path(folder))
        tell = told or (lambda _: None)
        done: dict[str, CRF] = {}
        check_tasks(self.tasks, self.grammar, together=self.decode not in ("cascade", "marginals"))
        if place is not None:
            place.check_writable(task.name for task in self.tasks if isinstance(task, Task))
        for task in self.tasks:
            if isinstance(task, CRF):
                done[task.tape] = task
                tell(f"{task.tape}: trained already")
            else:
                done[task.name] = _trained(task, done, place, threads, report, tell)
        weights = tuple(t.weight if isinstance(t, Task) else 1.0 for t in self.tasks)
        told_weights = weights if set(weights) != {1.0} else None
        composition = joint([*done.values()], told_weights, self.normalize)
        if self.grammar is not None:
            composition = composition.constrained(self.grammar)
        trained = TrainedPipeline(composition, self.decode)
        if place is not None:
            place.finish(composition, self.decode)
        return trained


def _trained(
    task: Task,
    done: dict[str, CRF],
    place: Folder | None,
    threads: int,
    report: Callable[[Progress], None] | None,
    tell: Callable[[str], None],
) -> CRF:
    """Return the tagger of a task: the finished one if it exists, else a new one after training."""
    reads = ancestors(task.reads, list(done.values()))[::-1]
    with named(f"task {task.name!r}"):
        attributes = "" if place is None else task.attributes(reads, threads)
    mark = task.fingerprint([tagger._fingerprint() for tagger in reads], attributes)
    if place is not None:
        finished = place.finished(task.name, mark, task.features)
        if finished is not None:
            tell(f"{task.name}: finished before")
            return finished
    checkpoint: dict[str, Any] = {}
    how = ""
    if place is not None:
        checkpoint = {"checkpoint": place.checkpoint(task.name, mark, tell), "resume": True}
        iteration = saved_iteration(checkpoint["checkpoint"])
        how = "" if iteration is None else f", on from iteration {iteration:,}"
        how += place.replaced(task.name)
    flat = {
        "target": task.labels,
        "template": task.templates if task.features is None else task.features,
        "reads": reads,
        "dev": task.dev,
        "grammar": task.grammar,
        "class_weights": task.class_weights or None,
        "threads": threads,
        "report": None if report is None else _staged(task.name, report),
        **checkpoint,
        **task.options,
    }
    tell(f"{task.name}: training on {len(task.corpus):,} sentences{how}")
    with named(f"task {task.name!r}"):
        tagger = CRF.train(task.corpus, tape=task.name, **structured(flat))
    if tagger.record is not None:
        record = tagger.record
        held = "" if record.dev_score is None else f", held-out score {100 * record.dev_score:.2f}"
        best = f", the best of iteration {record.best_iteration}" if held else ""
        tell(f"{task.name}: {record.iterations} iterations ({record.reason}){best}{held}")
    if place is not None:
        place.keep(task.name, mark, tagger)
    return tagger


def _arranged(tasks: Sequence[Task | CRF]) -> list[Task | CRF]:
    """Return tasks, each after the tasks that it reads; otherwise in the given order."""
    tasks = _each_a_task(tasks)
    if not tasks:
        raise OptionError("the pipeline is empty, expected tasks or taggers")
    by_name = {name_of(task): task for task in tasks}
    if len(by_name) < len(tasks):
        names = [name_of(task) for task in tasks]
        twice = next(name for name in names if names.count(name) > 1)
        raise OptionError(f"two tasks are called {twice!r}")
    order = reading_order({name: reads_of(task) for name, task in by_name.items()})
    return [by_name[name] for name in order]


def _each_a_task(given: object) -> list[Task | CRF]:
    if not isinstance(given, Iterable):
        name = type(given).__name__
        raise OptionError(f"tasks is a {name}, expected a list of tasks and taggers")
    found = list(given)
    for task in found:
        if not isinstance(task, Task | CRF):
            raise OptionError(f"tasks has {task!r}, expected a Task or a CRF")
    return found


def reading_order(reads: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the tasks' names, each after the tasks that it reads; otherwise in the given order."""
    names = list(reads)
    for name in names:
        missing = [other for other in reads[name] if other not in reads]
        if missing:
            raise OptionError(
                f"task {name!r} reads {missing[0]!r}, which is not in the pipeline; "
                f"its tasks are {', '.join(names)}"
            )
    found: list[str] = []
    while len(found) < len(names):
        ready = [n for n in names if n not in found and set(reads[n]) <= set(found)]
        if not ready:
            raise OptionError(f"tasks read each other in a cycle: {_circle(reads, found)}")
        found.append(ready[0])
    return found


def _circle(reads: Mapping[str, Sequence[str]], done: Sequence[str]) -> str:
    """Return a circle among tasks that are not done: ``a ← b ← a``."""
    name = next(n for n in reads if n not in done)
    way: list[str] = []
    while name not in way:
        way.append(name)
        name = next(n for n in reads[name] if n not in done)
    return " ← ".join([*way[way.index(name) :], name])


def _check_labels(taggers: Sequence[CRF]) -> None:
    """Refuse taggers that were trained to read other labels than those before them have."""
    by_tape = {tagger.tape: set(tagger.labels) for tagger in taggers}
    for tagger in taggers:
        for tape in tagger.reads:
            there = by_tape.get(tape.name, set(tape.labels))
            odd = sorted(set(tape.labels) ^ there)
            if odd:
                where = "reads the label" if odd[0] in tape.labels else "was not trained to read"
                raise OptionError(
                    f"task {tagger.tape!r} {where} {odd[0]!r} of {tape.name!r}, whose tagger has "
                    f"{', '.join(sorted(there)[:8])}: they were not trained for each other"
                )


def _staged(name: str, report: Callable[[Progress], None]) -> Callable[[Progress], None]:
    """Report iterations under the name of the task."""

    def told(progress: Progress) -> None:
        known = {f.name: getattr(progress, f.name) for f in fields(progress)}
        inner = known.pop("stage", None)
        stage = name if inner is None else f"{name}: {inner}"
        report(FoldProgress(**known, stage=stage))

    return told
