"""Studies: trials made one after the other by optuna, and journals of the finished ones."""

from __future__ import annotations

import itertools
import json
import os
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from fstcrf.errors import DataError, NumericError, OptionError
from fstcrf.hyperparameters.space import Outcome, Point, Space, StepReport, Trial
from fstcrf.lazy import optional

if TYPE_CHECKING:
    import optuna

__all__ = [
    "PRUNERS",
    "Evaluate",
    "Pruner",
    "Study",
    "installed",
    "opened",
]

_NAME = "fstcrf"
_SEARCH = "search"  # what the journal is of


def opened(package: Any, path: Path, *, resume: bool, search: Mapping[str, str]) -> optuna.Study:
    """Return the study of a journal, a new one where there is none.

    Parameters
    ----------
    package : module
        optuna.
    path : Path
    resume : bool
        The file may exist.
    search : mapping of str to str
        What decides the course of the search; that of the journal must be the same.

    Raises
    ------
    OptionError
        The file exists, without `resume`, or is the journal of another search.
    DataError
        It is no journal.
    OSError
        It cannot be read or written.
    """
    exists = path.exists() and path.stat().st_size > 0
    if exists and not resume:
        raise OptionError(f"{path} exists: resume goes on from it; else give another journal")
    if exists:
        _check_lines(path)
    else:
        path.touch()  # what cannot be written should be known before the work
    foreign = DataError("is no journal of a search", path=str(path))
    backend = package.storages.journal.JournalFileBackend(str(path))
    try:
        study: optuna.Study = package.create_study(
            study_name=_NAME,
            storage=package.storages.JournalStorage(backend),
            direction="maximize",
            load_if_exists=True,
        )
    except (AssertionError, KeyError, TypeError, ValueError):  # what optuna raises of its lines
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
    """Check a journal; cut off the last line where a crash has left a part of one."""
    data = path.read_bytes()
    end = data.rfind(b"\n") + 1
    for number, line in enumerate(data[:end].splitlines(), 1):
        try:
            if not isinstance(json.loads(line), dict):
                raise DataError("is no journal of a search", path=str(path), line=number)
        except ValueError:
            raise DataError("is no journal of a search", path=str(path), line=number) from None
    if not end:
        raise DataError("is no journal of a search", path=str(path))
    if end < len(data):
        with path.open("r+b") as file:
            file.truncate(end)


# --- The search itself ----------------------------------------------------------------------------

Pruner = Literal["median", "halving", "none"]
PRUNERS: tuple[Pruner, ...] = ("median", "halving", "none")
Evaluate = Callable[[Point, StepReport], tuple[float, int]]

_FREE_TRIALS = 4  # complete ones, before a median means anything
_FREE_ITERATIONS = 20  # the first ones say little
_LEAST_ITERATIONS = 8
_LAST_ITERATION = 1000  # for comparisons
_DRAWS = 8  # until the point is a new one


def installed() -> Any:
    """Return the package optuna.

    Raises
    ------
    MissingDependencyError
        It is not installed.
    """
    return optional("optuna", "tuning needs optuna: pip install 'fstcrf[tune]'")


class Study:
    """Trials so far, and how the next one is made.

    Parameters
    ----------
    space : Space
    seed : int
    pruner : {"median", "halving", "none"}
    step : {"iteration", "fold"}
        What a trial reports after.
    journal : path, optional
        File that every finished trial goes to.
    resume : bool
        Go on from the journal if it exists.
    search : mapping of str to str
        What decides the course of the search; that of the journal must be the same.

    Raises
    ------
    MissingDependencyError
        optuna is not installed.
    OptionError
        A journal that exists, without `resume`, or of another search.
    DataError
        A file that is no journal.
    OSError
        The journal cannot be read or written.
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
                else opened(self._optuna, Path(journal), resume=resume, search=search)
            )
            if self._kept is not None:
                self._study.add_trials(self._kept.get_trials())

    @property
    def trials(self) -> tuple[Trial, ...]:
        """The finished trials."""
        return tuple(_trial(found) for found in self._finished())

    def limit(self, trials: int) -> int:
        """Return how many trials there can be, of so many."""
        return trials if self._finite is None else min(trials, len(self._finite))

    def run(self, evaluate: Evaluate) -> Trial:
        """Make one trial.

        Parameters
        ----------
        evaluate : callable
            Point, `StepReport` → score and steps.
        """
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
            for later in range(step + 1, self._last + 1):  # it keeps what it has reached
                trial.report(score, later)
        except self._optuna.TrialPruned:
            outcome = "stopped"
        except NumericError:
            outcome = "diverged"
        except BaseException:
            self._study.tell(trial, state=self._optuna.trial.TrialState.FAIL)
            raise
        for name, fact in (
            ("number", number),
            ("point", point),
            ("outcome", outcome),
            ("steps", step),
            ("seconds", time.perf_counter() - started),
        ):
            trial.set_user_attr(name, fact)
        self._tell(trial, score)
        return _trial(self._finished()[-1])

    def _asked(self) -> tuple[optuna.Trial, Point]:
        """Return the next trial and its point, which is a new one where there are such."""
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
    return Trial(
        facts["number"],
        options,
        template,
        found.value,
        facts["outcome"],
        facts["steps"],
        facts["seconds"],
    )


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
    """Keep optuna from telling what is told better here."""
    before = package.logging.get_verbosity()
    package.logging.set_verbosity(package.logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        package.logging.set_verbosity(before)
