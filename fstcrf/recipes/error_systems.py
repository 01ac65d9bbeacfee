"""Tasks and systems of the recipe ``mce``: labels, options of each objective, training.

The penalty of the paper is |weights|² / 2C. The likelihood and the count of sentences have it as it
is, l2 = 1 / 2C. F of segments has a ratio in the paper and that ratio times M = 2 · gold segments
here (`fstcrf.ext.papers.errors`), so that l2 = M / 2C.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, TypeVar

import numpy as np

from fstcrf.ext.significance import span_counts
from fstcrf.recipes import corpora
from fstcrf.recipes.experiment import THREADS, Setting, Work
from fstcrf.recipes.protocol import SEEDS
from fstcrf.taggers import CRF
from fstcrf.text.corpus import Corpus, convert_column
from fstcrf.training.options import structured

T = TypeVar("T")

_FOLDS = 3  # of training data without a dev part

# Kudo and Matsumoto (2001), and pairs of one kind in a window of five. An exploration on the dev
# parts, which is not included, left out pairs of affixes and of sources that are not adjacent.
_CHUNKING = ("word", "pos")
_AFFIXES = tuple(f"{kind}(word,{n})" for n in range(1, 5) for kind in ("prefix", "suffix"))
_ENTITIES = ("word", "pos", "chunk", "charclass(word)", "short_shape(word)")


def _template(
    sources: tuple[str, ...], alone: tuple[str, ...] = (), *, apart: tuple[int, ...] = (1,)
) -> str:
    """Return a window of each source, and pairs at distances `apart` except in `alone`."""
    lines = [f"U{k}a:%x[-2..2,{source}]" for k, source in enumerate(sources + alone)]
    for k, source in enumerate(sources):
        for n in apart:
            where = "b" if n == 1 else f"b{n}"
            lines.append(f"U{k}{where}:%x[-2..{2 - n},{source}]/%x[{n - 2}..2,{source}]")
    return "\n".join([*lines, "B"])


TEMPLATES = {"chunking": _template(_CHUNKING), "entities": _template(_ENTITIES, _AFFIXES)}
_Scheme = Literal["iob2", "bioes"]


@dataclass(frozen=True, slots=True)
class Tagset:
    """The form of labels, and the tokens in a span's measure."""

    scheme: _Scheme
    span_end: Literal["inside", "next"]


@dataclass(frozen=True, slots=True)
class LabellingTask:
    """A task, without its test part."""

    name: str
    target: str  # column of the labels
    template: str
    tagset: Tagset
    train: Corpus  # all to train on
    held_out: tuple[tuple[Corpus, Corpus], ...]  # for each fold: training and held-out data

    @property
    def dev(self) -> Corpus | None:
        """The data for choices, unless it becomes training data in the end."""
        ((part, dev), *others) = self.held_out
        return dev if not others and part is self.train else None


def chunking(setting: Setting, tagset: Tagset) -> LabellingTask:
    """Read the training file of CoNLL-2000; three of its folds serve for choices."""
    train = convert_column(corpora.chunk_file(setting, "train"), "chunk", "iob2", tagset.scheme)
    numbers = np.arange(len(train))
    pieces = np.array_split(numbers, _FOLDS)
    folds = tuple(
        (train.select(np.setdiff1d(numbers, piece)), train.select(piece)) for piece in pieces
    )
    return LabellingTask("chunking", "chunk", TEMPLATES["chunking"], tagset, train, folds)


def entities(setting: Setting, tagset: Tagset) -> LabellingTask:
    train, dev = (
        corpora.entities(setting, part, tagset.scheme, "entity") for part in ("train", "testa")
    )
    template = TEMPLATES["entities"]
    return LabellingTask("entities", "entity", template, tagset, train, ((train, dev),))


_Read = Callable[[Setting, Tagset], LabellingTask]
TASKS: Mapping[str, _Read] = {"chunking": chunking, "entities": entities}


def read_test(task: LabellingTask, setting: Setting) -> Corpus:
    if task.name == "entities":
        return corpora.entities(setting, "testb", task.tagset.scheme, task.target)
    corpus = corpora.chunk_file(setting, "test")
    return convert_column(corpus, task.target, "iob2", task.tagset.scheme)


# Without epochs of drawn sentences before it, so that likelihood is trained in one way only.
_LIKELIHOOD: dict[str, Any] = {"objective": "likelihood", "delta": 1e-4, "stochastic_epochs": 0}
_FROM_ZERO, _FROM_MAP = tuple(range(5, 121, 5)), tuple(range(2, 41, 2))
FIRST = 40
"""Iterations by the best of which starts and penalties are compared, before one is chosen."""
PATIENCE = 20  # iterations without a gain on dev after which a course is not followed further
STARTS = (2.5, 1.0, 0.5, 0.25, 0.1)  # c of the MAP that others may start from: l2 0.2, 0.5, 1, 2, 5
TAGSETS: list[dict[str, Any]] = [
    {"scheme": "bioes", "span_end": "inside"},
    {"scheme": "iob2", "span_end": "inside"},
    {"scheme": "iob2", "span_end": "next"},
]


@dataclass(frozen=True, slots=True)
class Choice:
    C: float | None  # of the penalty |weights|² / 2C of the paper; `None` for no penalty
    iterations: int | None = None  # `None` for convergence
    start: float | None = None  # C of the initial MAP; `None` for a start at zero


def _errors(objective: str, **options: Any) -> dict[str, Any]:
    return {"objective": objective, "method": "quickprop", "delta": 1e-4, "epsilon": 0.0, **options}


@dataclass(frozen=True, slots=True)
class System:
    name: str
    options: dict[str, Any]  # of `CRF.train`
    # F and share of right sentences in the paper, in percent, for each task
    paper: dict[str, tuple[float, float]]
    given: dict[str, Choice]  # the choices of a short run
    grid: tuple[float, ...]  # values of C to choose from
    iterations: tuple[int, ...] = ()  # numbers of iterations to choose from, ascending
    from_map: bool = False  # it starts from the weights of MAP rather than from zero
    quick: bool = False  # it is part of the short run

    @property
    def seeds(self) -> int:
        """Runs of a full measurement: runs from zero begin with random epochs."""
        drawn = self.options["objective"] != "likelihood" and not self.from_map
        return SEEDS if drawn else 1


def _each(chunking: T, entities: T) -> dict[str, T]:
    return {"chunking": chunking, "entities": entities}


# The paper has the powers of ten from 1e-5 to 1e5: stronger penalties than these are not tried, for
# the likelihood there are steps between, for F of segments weaker ones.
_MAP = (100.0, 10.0, 5.0, *STARTS)
_MCE, _MCE_F = (100.0, 1e3, 1e4, 1e5), (1e4, 1e5, 1e6, 1e7, 1e8)

SYSTEMS = (  # the systems of the paper's tables
    System(
        "ML", _LIKELIHOOD, _each((93.19, 56.26), (82.39, 75.71)),
        _each(Choice(None, 150), Choice(None, 150)), (),
    ),
    System(
        "MAP", _LIKELIHOOD, _each((93.71, 59.15), (83.79, 77.39)),
        _each(Choice(5.0), Choice(2.5)), _MAP, quick=True,
    ),
    System(
        "MCE (log)", _errors("mce", smoothing="logistic"), _each((93.92, 60.19), (84.30, 78.02)),
        _each(Choice(100.0, 80), Choice(100.0, 80)), _MCE, _FROM_ZERO,
    ),
    System(
        "MCE (sig)", _errors("mce"), _each((93.85, 60.14), (83.82, 77.52)),
        _each(Choice(100.0, 80), Choice(100.0, 80)), _MCE, _FROM_ZERO,
    ),
    System(
        "MCE-F (sig)", _errors("mce-f"), _each((93.96, 60.44), (84.72, 78.72)),
        _each(Choice(1e7, 80), Choice(1e6, 80)), _MCE_F, _FROM_ZERO,
    ),
    System(
        "MCE (sig) from MAP", _errors("mce"), _each((93.97, 60.59), (84.57, 77.71)),
        _each(Choice(1e3, 10, 0.5), Choice(1e3, 10, 0.5)), _MCE, _FROM_MAP, from_map=True,
    ),
    System(
        "MCE-F (sig) from MAP", _errors("mce-f"), _each((94.03, 60.74), (85.29, 79.26)),
        _each(Choice(1e7, 20, 0.5), Choice(1e6, 20, 0.5)), _MCE_F, _FROM_MAP, from_map=True,
        quick=True,
    ),
)  # fmt: skip
LIKELIHOOD = SYSTEMS[1]  # the baseline and start of the others: MAP
PROBE = SYSTEMS[-1]  # the system that chooses labels


def penalty(system: System, task: LabellingTask, corpus: Corpus, c: float | None) -> float:
    """Return l2 for a C of the paper; for F of segments it grows with their number."""
    if c is None:
        return 0.0
    if system.options["objective"] != "mce-f":
        return 1.0 / (2.0 * c)
    labels = corpus.column_lists(task.target)
    return 2.0 * int(span_counts(labels, labels).wanted.sum()) / (2.0 * c)


def _options(
    system: System, task: LabellingTask, corpus: Corpus, choice: Choice, seed: int
) -> dict[str, Any]:
    options: dict[str, Any] = {
        "scheme": task.tagset.scheme,
        "l2": penalty(system, task, corpus, choice.C),
        "seed": seed,
        "pairs": "complete",
        "threads": THREADS,
        **system.options,
    }
    if system.options["objective"] == "mce-f":
        options["span_end"] = task.tagset.span_end
    if choice.iterations is not None:
        options["max_iterations"] = choice.iterations
    return options


_REMEMBERED = 2  # models of MAP, 0.2 GB each of entities; the others are kept in files


class TaskTrainer:
    """Trains the models of one task; MAP models that others start from are trained once."""

    def __init__(self, task: LabellingTask, setting: Setting) -> None:
        self.task, self._setting = task, setting
        self._starts: dict[tuple[float | None, int | None], tuple[CRF, float]] = {}

    def likelihood(self, c: float | None, fold: int | None = None) -> tuple[CRF, float]:
        """Return the model of MAP and its seconds, for a fold's training part, or for all."""
        key = c, fold
        if key not in self._starts:
            task, setting = self.task, self._setting
            # With a dev part, models for choices and final models have the same training data.
            corpus = task.train if fold is None else task.held_out[fold][0]
            where = "all" if corpus is task.train else f"fold {fold}"
            options = _options(LIKELIHOOD, task, corpus, Choice(c), setting.seed)
            make = partial(_timed, task, corpus, options)
            name = f"{task.name}, MAP, C {c}, {where}"
            about = (LIKELIHOOD.options, task.tagset, task.template, len(corpus))
            found = setting.trained(name, make, float, about)
            if len(self._starts) >= _REMEMBERED:
                self._starts.pop(next(iter(self._starts)))
            self._starts[key] = found
        return self._starts[key]

    def trained(self, system: System, choice: Choice, seed: int) -> tuple[CRF, float]:
        task = self.task
        if system is LIKELIHOOD:
            return self.likelihood(choice.C)
        options = _options(system, task, task.train, choice, seed)
        if choice.start is not None:
            options["start"] = self.likelihood(choice.start)[0]
        return _timed(task, task.train, options)

    def reached(self, system: System, choice: Choice) -> float:
        """Return F on held-out data, percent, after the best of the `FIRST` iterations."""
        course = self.course(system, choice, min(FIRST, max(system.iterations)))
        return max(after(course, k) for k in system.iterations if k <= FIRST)

    def held_out(self, system: System, choice: Choice) -> float:
        """Return F on held-out data, percent, of the first seed."""
        if system is not LIKELIHOOD:
            return after(self.course(system, choice), choice.iterations or max(system.iterations))
        found = []
        for fold, (_, dev) in enumerate(self.task.held_out):
            model, _ = self.likelihood(choice.C, fold)
            labels = model.tag_all(dev, threads=THREADS)
            found.append(corpora.span_f(dev, self.task.target, labels))
        return float(np.mean(found))

    def course(self, system: System, choice: Choice, longest: int | None = None) -> list[float]:
        """Return mean F over folds after each iteration; a fold that has ended keeps its value."""
        choice = replace(choice, iterations=longest or max(system.iterations))
        works = [
            self._course(system, choice, part, dev, fold)
            for fold, (part, dev) in enumerate(self.task.held_out)
        ]
        courses = self._setting.all_kept(works, list[float])
        length = max(map(len, courses))
        rows = [course + course[-1:] * (length - len(course)) for course in courses]
        return [float(mean) for mean in np.mean(rows, axis=0)]

    def _course(
        self, system: System, choice: Choice, part: Corpus, dev: Corpus, fold: int
    ) -> Work[list[float]]:
        task = self.task

        def train() -> list[float]:
            scores: list[float] = []
            options = _options(system, task, part, choice, self._setting.seed)
            if choice.start is not None:
                options["start"], _ = self.likelihood(choice.start, fold)
            CRF.train(
                part,
                **structured(
                    {
                        "target": task.target,
                        "template": task.template,
                        "dev": dev,
                        "patience": PATIENCE,
                        "report": lambda progress: scores.append(100.0 * (progress.dev or 0.0)),
                        **options,
                    }
                ),
            )
            return scores

        start = f"C {choice.C}, start {choice.start}"
        name = f"{task.name}, {system.name}, {start}, course of fold {fold}"
        about = (system.options, choice, task.tagset, task.template, PATIENCE, len(part))
        return Work(name, train, about)


def after(course: Sequence[float], iterations: int) -> float:
    """Return the figure after some iterations; a course that has ended keeps its value."""
    return course[min(iterations, len(course)) - 1]


def _timed(task: LabellingTask, corpus: Corpus, options: dict[str, Any]) -> tuple[CRF, float]:
    began = time.perf_counter()
    model = CRF.train(
        corpus, **structured({"target": task.target, "template": task.template, **options})
    )
    return model, time.perf_counter() - began
