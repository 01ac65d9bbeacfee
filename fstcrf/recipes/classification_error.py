"""The recipe ``mce``: tables 1 and 2 of Suzuki, McDermott and Isozaki (2006)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, TypeVar

from fstcrf.corpus import Corpus, convert_column
from fstcrf.evaluate import compare
from fstcrf.joint import CRF
from fstcrf.recipes import corpora
from fstcrf.recipes.corpora import DataSplit
from fstcrf.recipes.experiment import THREADS, Recipe, Setting
from fstcrf.recipes.report import Result, Row, gain, number, table

T = TypeVar("T")

# --- Tasks ----------------------------------------------------------------------------------------

_HELD_OUT = 2000

# Kudo and Matsumoto (2001), and pairs of neighbours of one kind in a window of five. Chosen on the
# dev parts: no pairs of neighbours' affixes, no pairs of what does not stand side by side.
_CHUNKING = ("word", "pos")
_AFFIXES = tuple(f"{kind}(word,{n})" for n in range(1, 5) for kind in ("prefix", "suffix"))
_ENTITIES = ("word", "pos", "chunk", "charclass(word)", "short_shape(word)")
# The paper has IOB2. On the dev parts MAP is better with BIOES: chunks clearly, entities a little.
_SCHEME: Literal["iob2", "bioes"] = "bioes"


@dataclass(frozen=True, slots=True)
class LabellingTask:
    """A task."""

    name: str
    target: str  # column of the labels
    scheme: Literal["iob2", "bioes"]  # of the labels
    template: str
    rate: float  # first step of stochastic epochs: about half over the attributes of a token
    data: DataSplit


def chunking(setting: Setting) -> LabellingTask:
    """Read CoNLL-2000."""
    train, test = (
        convert_column(part, "chunk", "iob2", _SCHEME) for part in corpora.chunks(setting)
    )
    cut = max(len(train) - _HELD_OUT, len(train) // 2)
    data = DataSplit(train, train[:cut], train[cut:], test)
    return LabellingTask("chunking", "chunk", _SCHEME, _template(_CHUNKING), 0.03, data)


def entities(setting: Setting) -> LabellingTask:
    """Read CoNLL-2003."""
    target = "entity"
    train, dev, test = (
        corpora.entities(setting, part, _SCHEME, target) for part in ("train", "testa", "testb")
    )
    data = DataSplit(train, train, dev, test)
    return LabellingTask("entities", target, _SCHEME, _template(_ENTITIES, _AFFIXES), 0.006, data)


def _template(sources: tuple[str, ...], alone: tuple[str, ...] = ()) -> str:
    """Return a window of each source, and of pairs of all but those that stand alone."""
    lines = [f"U{k}a:%x[-2..2,{source}]" for k, source in enumerate(sources + alone)]
    lines += [f"U{k}b:%x[-2..1,{source}]/%x[-1..2,{source}]" for k, source in enumerate(sources)]
    return "\n".join([*lines, "B"])


# --- Systems --------------------------------------------------------------------------------------

_PATIENCE = 25
_LIKELIHOOD: dict[str, Any] = {"objective": "likelihood", "delta": 1e-4}


@dataclass(frozen=True, slots=True)
class Choice:
    """What was chosen on the dev part."""

    l2: float
    iterations: int | None = None  # None for as many as convergence takes


def _errors(objective: str, **options: Any) -> dict[str, Any]:
    fixed = {"method": "quickprop", "delta": 1e-4, "epsilon": 0.0}
    return {"objective": objective, **fixed, **options}


@dataclass(frozen=True, slots=True)
class System:
    """An objective."""

    name: str
    options: dict[str, Any]  # of `CRF.train`
    # F and share of right sentences in the paper, in percent, of each task
    paper: dict[str, tuple[float, float]]
    # what a short run takes; a full one chooses, within twice the iterations
    choice: dict[str, Choice]
    grid: tuple[float, ...] = (0.1, 0.03, 0.01)  # values of l2 to choose from
    from_map: bool = False  # it starts from the weights of MAP rather than from zero
    quick: bool = False  # it is part of the short run


def _each(chunking: T, entities: T) -> dict[str, T]:
    return {"chunking": chunking, "entities": entities}


SYSTEMS = (
    System(
        "ML", _LIKELIHOOD, _each((93.19, 56.26), (82.39, 75.71)),
        _each(Choice(0.0, 150), Choice(0.0, 150)), (),
    ),
    System(
        "MAP", _LIKELIHOOD, _each((93.71, 59.15), (83.79, 77.39)),
        _each(Choice(0.1), Choice(0.2)), (0.5, 0.2, 0.1, 0.05), quick=True,
    ),
    System(
        "MCE (log)", _errors("mce", smoothing="logistic"), _each((93.92, 60.19), (84.30, 78.02)),
        _each(Choice(0.1, 60), Choice(0.1, 60)),
    ),
    System(
        "MCE (sig)", _errors("mce"), _each((93.85, 60.14), (83.82, 77.52)),
        _each(Choice(0.1, 60), Choice(0.1, 60)),
    ),
    System(
        "MCE-F (sig)", _errors("mce-f"), _each((93.96, 60.44), (84.72, 78.72)),
        _each(Choice(0.01, 83), Choice(0.01, 60)), quick=True,
    ),
    System(
        "MCE (sig) from MAP", _errors("mce"), _each((93.97, 60.59), (84.57, 77.71)),
        _each(Choice(0.1, 8), Choice(0.1, 13)), from_map=True,
    ),
    System(
        "MCE-F (sig) from MAP", _errors("mce-f"), _each((94.03, 60.74), (85.29, 79.26)),
        _each(Choice(0.01, 21), Choice(0.01, 22)), from_map=True, quick=True,
    ),
)  # fmt: skip
"""The systems of the paper's tables."""
LIKELIHOOD = SYSTEMS[1]
"""What the others are compared with, and start from: MAP."""


@dataclass(frozen=True, slots=True)
class Trained:
    """A system with its answers on the test part."""

    system: str  # its name
    choice: Choice
    labels: list[list[str]]
    # f, sentences: F of spans, and share of sentences without an error, in percent
    f: float
    sentences: float
    objective: float | None  # where training ended
    seconds: float  # of training


def _trained(
    system: System, task: LabellingTask, choice: Choice, start: CRF | None, seed: int
) -> tuple[CRF, Trained]:
    """Train a system on all training sentences, from `start` if there is one; tag the test part."""
    began = time.perf_counter()
    options = _options(task, system, choice, start, seed)
    model = CRF.train(task.data.train, task.target, task.template, **options)
    seconds = time.perf_counter() - began
    gold, labels = task.data.test.column_lists(task.target), model.tag_all(task.data.test)
    right = sum(a == b for a, b in zip(gold, labels, strict=True))
    f = corpora.span_f(task.data.test, task.target, labels)
    objective = None if model.record is None else model.record.objective
    share = 100.0 * right / len(gold)
    return model, Trained(system.name, choice, labels, f, share, objective, seconds)


def chosen(
    system: System, task: LabellingTask, start: CRF | None, seed: int, say: Callable[[str], None]
) -> Choice:
    """Choose penalty and number of iterations: the best F on the dev part.

    `start`, what the system starts from, has not seen the dev part.
    """
    best, score = system.choice[task.name], -1.0
    limit = 2 * (best.iterations or 1)
    for l2 in system.grid:
        options = _options(task, system, Choice(l2), start, seed)
        if system.options["objective"] != "likelihood" and start is None:
            options |= {"max_iterations": limit, "patience": _PATIENCE, "dev": task.data.dev}
        model = CRF.train(task.data.part, task.target, task.template, **options)
        found = corpora.span_f(task.data.dev, task.target, model.tag_all(task.data.dev))
        record = model.record
        iterations = None if "dev" not in options or record is None else record.best_iteration
        say(f"mce: {task.name}, {system.name}, l2 {l2:g}: dev F {found:.2f} ({iterations})")
        if found > score:
            best, score = Choice(l2, iterations), found
    return best


def _options(
    task: LabellingTask, system: System, choice: Choice, start: CRF | None, seed: int
) -> dict[str, Any]:
    """Return the options of `CRF.train`."""
    options: dict[str, Any] = {
        "scheme": task.scheme,
        "l2": choice.l2,
        "seed": seed,
        "features": "complete",
        "threads": THREADS,
        **system.options,
    }
    if system.options["objective"] != "likelihood" and start is None:
        # With larger steps the first sentences push scores so far apart that a sigmoid has no slope
        # left there, and what is wrong stays wrong.
        options |= {"calibration_rate": task.rate, "calibration_trials": 1}
    if choice.iterations is not None:
        options["max_iterations"] = choice.iterations
    if start is not None:
        options["warm_start"] = start
    return options


# --- The run --------------------------------------------------------------------------------------


def run(setting: Setting) -> Result:
    """Train the systems on one task, in a full run on both, and compare them."""
    rows: list[Row] = []
    sections = [_reading(setting)]
    for task in setting.course.each([read(setting) for read in (chunking, entities)]):
        systems, found = _Systems(task, setting), []
        for system in setting.course.each(s for s in SYSTEMS if setting.full or s.quick):
            one = systems.trained(system)
            make = partial(_rows, task, one)
            rows += setting.rows(f"{task.name}, {one.system}, rows", make, one)
            found.append(one)
        sections += [_choices(task, found), _significance(task, found, setting.seed)]
    return Result(rows, sections)


class _Systems:
    """The systems on one task; the models of MAP that others start from: on all, on a part."""

    def __init__(self, task: LabellingTask, setting: Setting) -> None:
        self._task, self._setting = task, setting
        self._starts: dict[int, CRF] = {}

    def trained(self, system: System) -> Trained:
        """Choose, train, tag; or take what an earlier run has kept."""
        task, setting = self._task, self._setting
        choice = self._choice(system)
        start = self._start(system, task.data.train)
        name = f"{task.name}, {system.name}"
        setting.say(f"mce: {name}")
        train = partial(_trained, system, task, choice, start, setting.seed)
        about = (system.options, choice, task.scheme, task.template)
        model, found = setting.trained(name, train, Trained, about)
        if system is LIKELIHOOD:
            self._starts[len(task.data.train)] = model
        return found

    def _choice(self, system: System) -> Choice:
        task, setting = self._task, self._setting
        if not (setting.full and system.grid):
            return system.choice[task.name]
        start = self._start(system, task.data.part)
        make = partial(chosen, system, task, start, setting.seed, setting.say)
        about = (system, task.scheme, task.template)
        return setting.kept(f"{task.name}, {system.name}, choice", make, Choice, about)

    def _start(self, system: System, sentences: Corpus) -> CRF | None:
        if not system.from_map:
            return None
        task, setting = self._task, self._setting
        if len(sentences) not in self._starts:
            choice = self._choice(LIKELIHOOD)
            options = _options(task, LIKELIHOOD, choice, None, setting.seed)
            train = partial(CRF.train, sentences, task.target, task.template, **options)
            name = f"{task.name}, start, {len(sentences)} sentences"
            about = (choice, task.scheme, task.template)
            self._starts[len(sentences)] = setting.tagger(name, train, about)
        return self._starts[len(sentences)]


def _rows(task: LabellingTask, found: Trained) -> Iterator[Row]:
    name = f"{task.name}: {found.system}"
    f, sentences = next(one for one in SYSTEMS if one.name == found.system).paper[task.name]
    yield Row(name, "F, test, %", found.f, f, found.seconds)
    yield Row(name, "sentences right, test, %", found.sentences, sentences)


# --- Text -----------------------------------------------------------------------------------------


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


def _choices(task: LabellingTask, found: Sequence[Trained]) -> str:
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


def _significance(task: LabellingTask, found: Sequence[Trained], seed: int) -> str:
    """Compare every system with MAP."""
    gold = task.data.test.column_lists(task.target)
    reference = next(one for one in found if one.system == LIKELIHOOD.name)
    body = []
    for one in found:
        if one is not reference:
            pair = compare(gold, one.labels, reference.labels, seed=seed)
            chances = pair.tokens.exact, pair.sentences.exact, pair.randomised
            body.append([one.system, gain(pair), *(f"{p:.3g}" for p in chances)])
    head = ["against MAP", "F (95 % interval)", "McNemar, tokens", "sentences", "randomised F"]
    return f"## Significance, {task.name}\n\np-values, and the gain in F:\n\n{table(head, body)}"


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
