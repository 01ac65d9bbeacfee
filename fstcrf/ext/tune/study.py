"""The space that trials are taken from, and studies: trials made one after the other by optuna.

Optuna draws points, stops trials and keeps journals. This module adds the rest. A resumed search
ends like an uninterrupted one: samplers have state that journals lack, so each trial has a sampler
with a separate seed. A finite space is tried once from end to end, beginning at the defaults. In
later comparisons, a converged trial keeps its final value for further steps; these thousands of
numbers are not in the journal, which only has finished trials. A line that a crash cut off is
dropped, and a lock ends with its process.
"""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from fstcrf.errors import OptionError, TemplateError
from fstcrf.files import path_name, whole_lines
from fstcrf.taggers import CRF
from fstcrf.text.corpus import Corpus
from fstcrf.text.features import TemplateSet
from fstcrf.text.features.template import as_templates, is_template_text, tape_column
from fstcrf.training.options import DEFAULTS, is_read
from fstcrf.training.passing import check_reads

if TYPE_CHECKING:
    import optuna
import fcntl
import json
import time
import warnings
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fstcrf.errors import DataError, NumericError, RecoveryWarning
from fstcrf.lazy import optional

Outcome = Literal["complete", "stopped", "diverged"]


@dataclass(frozen=True, slots=True)
class Trial:
    """Options that were tried, and how they did.

    Parameters
    ----------
    number : int
        From 1.
    options : mapping of str to value
        Options of `CRF.train` that were searched, or given one value where others were searched.
    template : str or None
        Name of the template.
    score : float or None
        On held-out data, in [0, 1]: for a stopped trial, the last score; `None` for a trial that
        diverged before its first score.
    outcome : {"complete", "stopped", "diverged"}
        A trial is stopped where others did better at the same point.
    steps : int
        Iterations of training; with folds, the folds that were trained.
    seconds : float
    """

    number: int
    options: Mapping[str, Any]
    template: str | None
    score: float | None
    outcome: Outcome
    steps: int
    seconds: float


# --- The templates that there are to choose from --------------------------------------------------
Template = TemplateSet | str | os.PathLike[str]


def check_templates(
    templates: Mapping[str, TemplateSet],
    data: Any,
    target: str | Sequence[Sequence[str]],
    reads: Sequence[CRF],
) -> None:
    """Refuse errors at once that only a later trial would encounter."""
    if not isinstance(data, Corpus):
        if templates:
            raise OptionError("a template needs columns, not attribute lists")
        return
    if not templates:
        raise OptionError("columns need a feature template: template='chunking.tpl'")
    check_reads([tape for template in templates.values() for tape in template.tapes], reads)
    columns = [*data.columns, *(tape_column(tagger.tape) for tagger in reads)]
    for name, template in templates.items():
        resolved = template.resolved(columns, data=data.source)
        if isinstance(target, str) and target in resolved.columns:
            raise TemplateError(f"{name}: a template reads the target column {target!r} itself")


def named(
    template: Template | Sequence[Template] | Mapping[str, Template] | None,
) -> dict[str, TemplateSet]:
    """Return templates by name, read."""
    if template is None:
        return {}
    if isinstance(template, Mapping):
        given = [(str(name), one) for name, one in template.items()]
    else:
        several: Sequence[Any] = template if isinstance(template, list | tuple) else [template]
        given = [(_name(one, i), one) for i, one in enumerate(several, 1)]
    for _, one in given:
        if not isinstance(one, TemplateSet | str | os.PathLike):
            raise OptionError(f"template is {one!r}, expected templates, or a path")
    names = [name for name, _ in given]
    if twice := [name for name in names if names.count(name) > 1]:
        raise OptionError(f"template {twice[0]} is given twice")
    return {name: as_templates(one) for name, one in given}


def _name(template: Template, number: int) -> str:
    if isinstance(template, TemplateSet) or is_template_text(template):
        return str(number)
    return str(template)


# --- What there is to choose from -----------------------------------------------------------------

# A point omits these options if its method does not read them; other options apply to all methods.
_STRENGTHS = ("l2", "l1", "aggressiveness", "variance", "gamma")

_DIGITS = 3  # of numbers that are drawn: more would look like knowledge


class Range(NamedTuple):
    """Numbers from `low` to `high`, as likely between 0.01 and 0.1 as between 0.1 and 1."""

    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.low:g}..{self.high:g}"


StepReport = Callable[[int, float], None]
"""Hears (step, score so far) of a trial, and may raise to stop it."""
Choice = float | int | str | bool | None | Range
Point = dict[str, Any]


@dataclass(frozen=True)
class Space:
    """The values that each option may have."""

    # Values of each option of training, ranges among them; ``template`` the names of templates.
    # ``method`` is there.
    choices: Mapping[str, tuple[Choice, ...]]

    def __post_init__(self) -> None:
        for name, choices in self.choices.items():
            if not choices:
                raise OptionError(f"{name} has no value to try")
            for choice in choices:
                if isinstance(choice, Range):
                    _check_range(name, choice)
            if not any(has_strength(name, str(method)) for method in self.choices["method"]):
                known = ", ".join(map(repr, self.choices["method"]))
                raise OptionError(f"{name} is given, and is no option of method {known}")
        if self.size == 1:
            raise OptionError(
                "every option has only one value: give several values or a range for at "
                "least one option"
            )

    @property
    def size(self) -> int | None:
        """The number of points; `None` with a range."""
        if any(isinstance(choice, Range) for name in self.choices for choice in self.choices[name]):
            return None
        return sum(1 for _ in self.points())

    @property
    def varied(self) -> tuple[str, ...]:
        """The options that there is a choice of."""
        return tuple(
            name
            for name, choices in self.choices.items()
            if len(choices) > 1 or isinstance(choices[0], Range)
        )

    def names(self, method: str) -> list[str]:
        """Return the options that a method reads."""
        return [name for name in self.choices if has_strength(name, method)]

    def points(self) -> Iterator[Point]:
        """Yield every combination; a range contributes its start."""
        for method in self.choices["method"]:
            names = self.names(str(method))
            lists = [[method] if n == "method" else self.choices[n] for n in names]
            for values in itertools.product(*lists):
                yield {n: _number(n, v) for n, v in zip(names, values, strict=True)}

    def sides(self) -> Iterator[Point]:
        """Yield points in which each value occurs at least once, for checks."""
        for method in self.choices["method"]:
            names = self.names(str(method))
            first = {n: _number(n, self.choices[n][0]) for n in names} | {"method": method}
            yield first
            for name in names:
                if name != "method":
                    yield from (first | {name: _number(name, v)} for v in self.choices[name][1:])

    def start(self) -> Point:
        """Return the point nearest to the defaults of training, with which a search begins."""
        method = _usual("method", self.choices["method"])
        names = self.names(str(method))
        return {name: _number(name, _usual(name, self.choices[name])) for name in names}

    def fixed(self, point: Point) -> dict[str, Any]:
        """Return a point as parameters of optuna."""
        found: dict[str, Any] = {}
        for name, value in point.items():
            choices = self.choices[name]
            place = next(i for i, choice in enumerate(choices) if _holds(choice, value))
            if len(choices) > 1:
                found[name] = str(choices[place])
            if isinstance(choices[place], Range):
                found[f"{name} in {choices[place]}"] = value
        return found

    def suggested(self, trial: optuna.Trial) -> Point:
        """Return the point that optuna suggests."""
        method = self._value(trial, "method")
        return {
            name: method if name == "method" else self._value(trial, name)
            for name in self.names(str(method))
        }

    def _value(self, trial: optuna.Trial, name: str) -> Any:
        choices = self.choices[name]
        choice = choices[0]
        if len(choices) > 1:
            labels = [str(c) for c in choices]
            choice = choices[labels.index(trial.suggest_categorical(name, labels))]
        if not isinstance(choice, Range):
            return choice
        drawn = trial.suggest_float(f"{name} in {choice}", choice.low, choice.high, log=True)
        return min(max(float(f"{drawn:.{_DIGITS}g}"), choice.low), choice.high)

    def __str__(self) -> str:
        return "; ".join(f"{n} {','.join(map(str, c))}" for n, c in self.choices.items())


def has_strength(name: str, method: str) -> bool:
    """Return whether a method reads an option of strength; always true for other options."""
    return name not in _STRENGTHS or is_read(name, {**DEFAULTS, "method": method})


def _check_range(name: str, given: Range) -> None:
    if not 0 < given.low < given.high < math.inf:
        raise OptionError(
            f"{name} is the range {given}, expected two numbers above 0, the smaller one first"
        )


def _usual(name: str, choices: tuple[Choice, ...]) -> Choice:
    """Return the choice that holds the default of an option, else the first."""
    usual = DEFAULTS.get(name)
    return next((c for c in choices if _holds(c, usual)), choices[0])


def _number(name: str, choice: Choice) -> Any:
    """Return a value; for a range, the default of the option, or the middle."""
    if not isinstance(choice, Range):
        return choice
    usual = DEFAULTS.get(name)
    if _holds(choice, usual):
        return usual
    middle = math.sqrt(choice.low * choice.high)
    return min(max(float(f"{middle:.{_DIGITS}g}"), choice.low), choice.high)


def _holds(choice: Choice, value: Any) -> bool:
    if isinstance(choice, Range):
        number = isinstance(value, int | float) and not isinstance(value, bool)
        return number and choice.low <= value <= choice.high
    return choice == value and isinstance(choice, bool) == isinstance(value, bool)


# --- Journals of finished trials ------------------------------------------------------------------

_NAME = "fstcrf"
_SEARCH = "search"  # the name of the journal's study
_BEGINNING = b'{"op_code":'


class _Lock:
    """Holds a journal while it is added to; it ends with the process, unlike optuna's own."""

    def __init__(self, path: Path) -> None:
        self._path, self._file = path, -1

    def acquire(self) -> bool:
        """Wait for it."""
        self._file = os.open(self._path, os.O_RDONLY)
        with suppress(OSError):  # a file system without locks
            fcntl.flock(self._file, fcntl.LOCK_EX)
        return True

    def release(self) -> None:
        """Let go."""
        os.close(self._file)


def opened(package: Any, path: Path, *, resume: bool, search: Mapping[str, str]) -> optuna.Study:
    """Return the study of a journal, a new one if it is missing; with `resume` it may exist.

    `search` has everything that determines the course of the search; it must agree with the
    journal.
    """
    exists = path.exists() and path.stat().st_size > 0
    if exists and not resume:
        raise OptionError(f"{path} exists: use resume to continue it, or give another journal")
    if exists:
        _check_lines(path)
    else:
        path.touch()  # errors of writing should occur before the work
    foreign = DataError("is no journal of a search", path=str(path))
    backend = package.storages.journal.JournalFileBackend(str(path), _Lock(path))
    try:
        study: optuna.Study = package.create_study(
            study_name=_NAME,
            storage=package.storages.JournalStorage(backend),
            direction="maximize",
            load_if_exists=True,
        )
    # exceptions of optuna for invalid lines
    except (AssertionError, KeyError, TypeError, ValueError):
        raise foreign from None
    known = study.user_attrs.get(_SEARCH)
    if known is None and study.get_trials():
        raise foreign
    if known is None:
        study.set_user_attr(_SEARCH, dict(search))
    for name in itertools.chain(search, known or ()):
        before, now = (known or search).get(name), search.get(name)
        if before != now:
            raise OptionError(
                f"{path} is the journal of another search: {name} was {before}, is {now}"
            )
    return study


def _check_lines(path: Path) -> None:
    """Check a journal; cut off an incomplete last line, which may be the first."""
    data = path.read_bytes()
    began = data.startswith((b"\0", _BEGINNING[: len(data)]))
    if not began and not _is_line(data.partition(b"\n")[0]):
        raise DataError("is no journal of a search", path=str(path), line=1)
    end = whole_lines(data, path, _is_line)
    if end < len(data):
        with path.open("r+b") as file:
            file.truncate(end)
            os.fsync(file.fileno())


def _is_line(line: bytes) -> bool:
    """Return whether a line was written completely."""
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


# --- The search itself ----------------------------------------------------------------------------
Pruner = Literal["median", "halving", "none"]

PRUNERS: tuple[Pruner, ...] = ("median", "halving", "none")
Evaluate = Callable[[Point, StepReport], tuple[float, int]]
_FREE_TRIALS = 4  # complete ones, before a median means anything
_FREE_ITERATIONS = 20  # the first ones have little information
_LEAST_ITERATIONS = 8
_LAST_ITERATION = 1000  # for comparisons
_DRAWS = 8  # until the point is a new one


def installed() -> Any:
    """Return the package optuna."""
    return optional("optuna", "tuning needs optuna: pip install 'fstcrf[tune]'")


class Study:
    """Trials so far, and how the next one is made.

    A trial reports after each `step`, "iteration" or "fold". Finished trials are added to the
    `journal`; its `search`, which determines the course of the search, must be the same on
    `resume`.
    """

    def __init__(
        self,
        space: Space,
        *,
        seed: int,
        pruner: Pruner,
        step: str,
        journal: str | os.PathLike[str] | None,
        resume: bool,
        search: Mapping[str, str],
    ) -> None:
        self._optuna = installed()
        self._space, self._seed = space, seed
        self._last = 0 if step == "fold" else _LAST_ITERATION
        self._pruner = _made(self._optuna, pruner, step)
        self._finite = None if space.size is None else _shuffled(space, seed)
        with _quiet(self._optuna):
            self._study: optuna.Study = self._optuna.create_study(
                direction="maximize", pruner=self._pruner
            )
            self._kept = (
                None
                if journal is None
                else opened(self._optuna, Path(path_name(journal)), resume=resume, search=search)
            )
            if self._kept is not None:
                self._study.add_trials(self._kept.get_trials())

    @property
    def trials(self) -> tuple[Trial, ...]:
        """The finished trials."""
        return tuple(_trial(found) for found in self._finished())

    def limit(self, trials: int) -> int:
        """Return the number of possible trials, at most `trials`."""
        return trials if self._finite is None else min(trials, len(self._finite))

    def run(self, evaluate: Evaluate) -> Trial:
        """Make one trial; `evaluate` gives the score and steps of a point."""
        with _quiet(self._optuna):
            trial, point = self._asked()
        number, started, step = len(self._finished()) + 1, time.perf_counter(), 0

        def report_step(at: int, score: float) -> None:
            nonlocal step
            step = at
            trial.report(score, at)
            if trial.should_prune():
                raise self._optuna.TrialPruned

        score: float | None = None
        outcome: Outcome = "complete"
        try:
            score, step = evaluate(point, report_step)
            for later in range(step + 1, self._last + 1):  # it keeps its last score
                trial.report(score, later)
        except self._optuna.TrialPruned:
            outcome = "stopped"
        except NumericError:
            outcome = "diverged"
        except BaseException:
            self._study.tell(trial, state=self._optuna.trial.TrialState.FAIL)
            raise
        seconds = time.perf_counter() - started
        facts = {"number": number, "point": point, "outcome": outcome, "steps": step}
        for name, fact in {**facts, "seconds": seconds}.items():
            trial.set_user_attr(name, fact)
        self._tell(trial, score)
        return _trial(self._finished()[-1])

    def _asked(self) -> tuple[optuna.Trial, Point]:
        """Return the next trial and its point, a new one if possible."""
        finished = self._finished()
        known = [found.user_attrs["point"] for found in finished]
        for draw in range(_DRAWS):
            seeds = np.random.SeedSequence([self._seed, len(finished), draw]).generate_state(1)
            self._study.sampler = self._optuna.samplers.TPESampler(seed=int(seeds[0]))
            if self._finite is not None:
                self._study.enqueue_trial(self._space.fixed(self._finite[len(finished)]))
            elif not finished:
                self._study.enqueue_trial(self._space.fixed(self._space.start()))
            trial = self._study.ask()
            point = self._space.suggested(trial)
            if point not in known or draw == _DRAWS - 1:
                break
            self._study.tell(trial, state=self._optuna.trial.TrialState.FAIL)
        return trial, point

    def _tell(self, trial: optuna.Trial, score: float | None) -> None:
        state = self._optuna.trial.TrialState
        with _quiet(self._optuna):
            if score is None:
                self._study.tell(trial, state=state.PRUNED)
            else:
                self._study.tell(trial, score)
            if self._kept is not None:
                self._kept.add_trial(self._finished()[-1])

    def _finished(self) -> list[optuna.trial.FrozenTrial]:
        state = self._optuna.trial.TrialState
        return self._study.get_trials(deepcopy=False, states=(state.COMPLETE, state.PRUNED))


def _trial(found: optuna.trial.FrozenTrial) -> Trial:
    facts = found.user_attrs
    options = dict(facts["point"])
    template = options.pop("template", None)
    outcome, steps, seconds = facts["outcome"], facts["steps"], facts["seconds"]
    return Trial(facts["number"], options, template, found.value, outcome, steps, seconds)


def _made(package: Any, pruner: Pruner, step: str) -> optuna.pruners.BasePruner:
    pruners = package.pruners
    made: optuna.pruners.BasePruner
    if pruner == "none":
        made = pruners.NopPruner()
    elif pruner == "halving":
        least = 1 if step == "fold" else _LEAST_ITERATIONS
        made = pruners.SuccessiveHalvingPruner(min_resource=least, reduction_factor=2)
    else:
        free = 0 if step == "fold" else _FREE_ITERATIONS
        made = pruners.MedianPruner(n_startup_trials=_FREE_TRIALS, n_warmup_steps=free)
    return made


def _shuffled(space: Space, seed: int) -> list[Point]:
    """Return all points of a finite space: the start, then the others in an order of chance."""
    start = space.start()
    others = [point for point in space.points() if point != start]
    order = np.random.default_rng(seed).permutation(len(others))
    return [start, *(others[i] for i in order)]


@contextmanager
def _quiet(package: Any) -> Iterator[None]:
    """Suppress optuna's messages, which are replaced here."""
    before = package.logging.get_verbosity()
    package.logging.set_verbosity(package.logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("always", RecoveryWarning)  # ours
            yield
    finally:
        package.logging.set_verbosity(before)
