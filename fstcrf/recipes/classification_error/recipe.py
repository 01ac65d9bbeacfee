"""The recipe ``mce``: tables 1 and 2 of Suzuki, McDermott and Isozaki (2006)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from fstcrf.corpus import Corpus
from fstcrf.evaluate import compare
from fstcrf.model import CRF
from fstcrf.recipes.classification_error.systems import (
    LIKELIHOOD,
    SYSTEMS,
    Choice,
    System,
    Trained,
    chosen,
    options_of,
    trained,
)
from fstcrf.recipes.classification_error.tasks import Task, chunking, entities
from fstcrf.recipes.recipe import Result, Row, Setting
from fstcrf.recipes.report import number, table

__all__ = ["run"]


def run(setting: Setting) -> Result:
    """Train the systems on one task, in a full run on both, and compare them.

    Raises
    ------
    DataError
        A file is missing, or is not what it should be.
    """
    rows: list[Row] = []
    sections = [_reading(setting)]
    for task in [read(setting) for read in (chunking, entities)]:
        systems, found = _Systems(task, setting), []
        for system in SYSTEMS:
            if setting.full or system.quick:
                one = systems.trained(system)
                make = partial(_rows, task, one)
                rows += setting.rows(f"{task.name}, {one.system}, rows", make, one)
                found.append(one)
        sections += [_choices(task, found), _significance(task, found, setting.seed)]
    return Result(rows, sections)


class _Systems:
    """The systems on one task; the models of MAP that others start from: on all, on a part."""

    def __init__(self, task: Task, setting: Setting) -> None:
        self._task, self._setting = task, setting
        self._starts: dict[int, CRF] = {}

    def trained(self, system: System) -> Trained:
        """Choose, train, tag; or take what an earlier run has kept."""
        task, setting = self._task, self._setting
        choice = self._choice(system)
        start = self._start(system, task.train)
        name = f"{task.name}, {system.name}"
        setting.say(f"mce: {name}")
        train = partial(trained, system, task, choice, start, setting.seed)
        about = (system.options, choice, task.scheme, task.template)
        model, found = setting.trained(name, train, Trained, about)
        if system is LIKELIHOOD:
            self._starts[len(task.train)] = model
        return found

    def _choice(self, system: System) -> Choice:
        task, setting = self._task, self._setting
        if not (setting.full and system.grid):
            return system.choice[task.name]
        start = self._start(system, task.part)
        make = partial(chosen, system, task, start, setting.seed, setting.say)
        about = (system, task.scheme, task.template)
        return setting.kept(f"{task.name}, {system.name}, choice", make, Choice, about)

    def _start(self, system: System, sentences: Corpus) -> CRF | None:
        if not system.from_map:
            return None
        task, setting = self._task, self._setting
        if len(sentences) not in self._starts:
            choice = self._choice(LIKELIHOOD)
            options = options_of(task, LIKELIHOOD, choice, None, setting.seed)
            train = partial(CRF.train, sentences, task.target, task.template, **options)
            name = f"{task.name}, start, {len(sentences)} sentences"
            about = (choice, task.scheme, task.template)
            self._starts[len(sentences)] = setting.tagger(name, train, about)
        return self._starts[len(sentences)]


def _rows(task: Task, found: Trained) -> Iterator[Row]:
    name = f"{task.name}: {found.system}"
    f, sentences = next(one for one in SYSTEMS if one.name == found.system).paper[task.name]
    yield Row(name, "F, test, %", found.f, f, found.seconds)
    yield Row(name, "sentences right, test, %", found.sentences, sentences)


def _reading(setting: Setting) -> str:
    how = "in this run" if setting.full else "before, from a few values"
    return (
        "## How to read this\n\n"
        "F is that of spans, as conlleval counts. ML and MAP maximise the likelihood, without and "
        "with an L2 penalty; MCE minimises a smooth count of wrong sentences, MCE-F maximises a "
        "smooth F of segments; psi is infinite, alpha 1, beta 0, gamma 1. They are trained by "
        "QuickProp: from zero, after ten epochs of stochastic descent, or from the weights of "
        "MAP, whose training is not part of their seconds. The penalty l2 and the number of "
        f"iterations were chosen {how}, on held-out data: the last 2,000 training sentences of "
        "CoNLL-2000, after which all of them are trained on, and testa of CoNLL-2003; as was the "
        "scheme of the labels, BIOES (the paper: IOB2)."
    )


def _choices(task: Task, found: Sequence[Trained]) -> str:
    body = [
        [
            one.system,
            f"{one.choice.l2:g}",
            "to convergence" if one.choice.iterations is None else str(one.choice.iterations),
            number(one.objective),
        ]
        for one in found
    ]
    head = ["", "l2", "iterations", "objective reached"]
    return f"## Settings, {task.name}\n\n{table(head, body)}"


def _significance(task: Task, found: Sequence[Trained], seed: int) -> str:
    """Compare every system with MAP."""
    gold = task.test.column_lists(task.target)
    reference = next(one for one in found if one.system == LIKELIHOOD.name)
    body = []
    for one in found:
        if one is reference:
            continue
        pair = compare(gold, one.labels, reference.labels, seed=seed)
        low, high = (100.0 * x for x in pair.interval)
        body.append(
            [
                one.system,
                f"{100.0 * (pair.f[0] - pair.f[1]):+.2f} ({low:+.2f} to {high:+.2f})",
                f"{pair.tokens.exact:.3g}",
                f"{pair.sentences.exact:.3g}",
                f"{pair.randomised:.3g}",
            ]
        )
    head = ["against MAP", "F (95 % interval)", "McNemar, tokens", "sentences", "randomised F"]
    return f"## Significance, {task.name}\n\np-values, and the gain in F:\n\n{table(head, body)}"
