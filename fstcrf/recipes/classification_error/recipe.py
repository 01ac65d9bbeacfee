"""The recipe ``mce``: tables 1 and 2 of Suzuki, McDermott and Isozaki (2006)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fstcrf.corpus import Corpus
from fstcrf.evaluate import compare
from fstcrf.model import CRF
from fstcrf.recipes.classification_error.systems import (
    LIKELIHOOD,
    SYSTEMS,
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
    for read in (chunking, entities):
        task = read(setting)
        found = list(_systems(task, setting))
        rows += [row for one in found for row in _rows(task, one)]
        sections += [_choices(task, found), _significance(task, found, setting.seed)]
    return Result(rows, sections)


def _systems(task: Task, setting: Setting) -> Iterator[Trained]:
    starts = _Starts(task, setting.seed)
    for system in SYSTEMS:
        if not (setting.full or system.quick):
            continue
        choice = system.choice[task.name]
        if setting.full and system.grid:
            start = starts.model(system, task.part)
            choice = chosen(system, task, start, setting.seed, setting.say)
        found = trained(system, task, choice, starts.model(system, task.train), setting.seed)
        if system is LIKELIHOOD:
            starts.take(found)
        setting.say(
            f"mce: {task.name}, {system.name}: F {found.f:.2f}, {found.seconds:.0f} s to train"
        )
        yield found


class _Starts:
    """The models of the likelihood that others start from: that of MAP, on all and on a part."""

    def __init__(self, task: Task, seed: int) -> None:
        self._task, self._seed = task, seed
        self._choice = LIKELIHOOD.choice[task.name]
        self._models: dict[int, CRF] = {}

    def take(self, found: Trained) -> None:
        self._choice = found.choice
        self._models = {len(self._task.train): found.model}

    def model(self, system: System, sentences: Corpus) -> CRF | None:
        if not system.from_map:
            return None
        task, key = self._task, len(sentences)
        if key not in self._models:
            options = options_of(task, LIKELIHOOD, self._choice, None, self._seed)
            self._models[key] = CRF.train(sentences, task.target, task.template, **options)
        return self._models[key]


def _rows(task: Task, found: Trained) -> Iterator[Row]:
    name = f"{task.name}: {found.system.name}"
    f, sentences = found.system.paper[task.name]
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
        "CoNLL-2000, after which all of them are trained on, and testa of CoNLL-2003."
    )


def _choices(task: Task, found: Sequence[Trained]) -> str:
    body = [
        [
            one.system.name,
            f"{one.choice.l2:g}",
            "to convergence" if one.choice.iterations is None else str(one.choice.iterations),
            number(None if one.model.record is None else one.model.record.objective),
        ]
        for one in found
    ]
    head = ["", "l2", "iterations", "objective reached"]
    return f"## Settings, {task.name}\n\n{table(head, body)}"


def _significance(task: Task, found: Sequence[Trained], seed: int) -> str:
    """Compare every system with MAP."""
    gold = task.test.column_lists(task.target)
    reference = next(one for one in found if one.system is LIKELIHOOD)
    body = []
    for one in found:
        if one is reference:
            continue
        pair = compare(gold, one.labels, reference.labels, seed=seed)
        low, high = (100.0 * x for x in pair.interval)
        body.append(
            [
                one.system.name,
                f"{100.0 * (pair.f[0] - pair.f[1]):+.2f} ({low:+.2f} to {high:+.2f})",
                f"{pair.tokens.exact:.3g}",
                f"{pair.sentences.exact:.3g}",
                f"{pair.randomised:.3g}",
            ]
        )
    head = ["against MAP", "F (95 % interval)", "McNemar, tokens", "sentences", "randomised F"]
    return f"## Significance, {task.name}\n\np-values, and the gain in F:\n\n{table(head, body)}"
