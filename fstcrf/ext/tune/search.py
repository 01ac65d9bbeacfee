"""The search for options of training, and its results."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fstcrf.arguments import string_lists
from fstcrf.errors import DataError, LabelWarning, NumericError, OptionError, warn
from fstcrf.ext.tune.scoring import CrossValidation, HoldOut, Training
from fstcrf.ext.tune.study import (
    PRUNERS,
    Choice,
    Evaluate,
    Point,
    Pruner,
    Range,
    Space,
    StepReport,
    Study,
    Template,
    Trial,
    check_templates,
    installed,
    named,
)
from fstcrf.machines.grammar import Grammar
from fstcrf.taggers import CRF
from fstcrf.text.corpus import Column, Corpus
from fstcrf.text.features import TemplateSet, is_literal
from fstcrf.text.sentences import column_labels
from fstcrf.training.gold import UnknownLabels, with_partial
from fstcrf.training.options import DEFAULTS, checked_options, is_read

_OUTCOME = {"complete": "", "stopped": "stopped early", "diverged": "diverged"}


@dataclass(frozen=True)
class Tuning:
    """The results of a search; printed as a table, the best first.

    Parameters
    ----------
    trials : tuple of Trial
        In the order in which they were made.
    varied : tuple of str
        The options that there was a choice of.
    step : {"iteration", "fold"}
        The meaning of the steps of trials.
    interrupted : bool
        Ctrl-C ended the search.
    trainer : callable
        Trial, options of `CRF.train` → tagger.
    """

    trials: tuple[Trial, ...]
    varied: tuple[str, ...]
    step: str
    interrupted: bool
    trainer: Callable[..., CRF]

    @property
    def best(self) -> Trial:
        """The complete trial with the best score; among several, the earliest.

        Raises
        ------
        NumericError
            All trials diverged.
        """
        complete = [trial for trial in self.trials if trial.outcome == "complete"]
        if not complete:
            raise NumericError(f"training diverged in each of {len(self.trials)} trials")
        return max(complete, key=_rank)

    def train(self, **more: Any) -> CRF:
        """Return a tagger trained with the best options.

        As in its trial if there was held-out data; after folds, on all the data.

        Parameters
        ----------
        **more
            Other options of `CRF.train`: ``report``, ``checkpoint``, ``threads``.
        """
        return self.trainer(self.best, **more)

    def __str__(self) -> str:
        head = ["trial", "score", f"{self.step}s", *self.varied, ""]
        ranked = sorted(self.trials, key=_order)
        return _aligned([head, *(self._cells(trial) for trial in ranked)])

    def _cells(self, trial: Trial) -> list[str]:
        known = {**trial.options, "template": trial.template}
        score = "" if trial.score is None else f"{100 * trial.score:.2f}"
        values = [_text(known[name]) if name in known else "" for name in self.varied]
        return [str(trial.number), score, str(trial.steps), *values, _OUTCOME[trial.outcome]]


def _rank(trial: Trial) -> tuple[float, int]:
    return (-1.0 if trial.score is None else trial.score, -trial.number)


def _order(trial: Trial) -> tuple[bool, float, int]:
    score, number = _rank(trial)
    return trial.outcome != "complete", -score, -number


def _text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _aligned(rows: Sequence[Sequence[str]]) -> str:
    width = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        figures = [cell.rjust(w) for cell, w in zip(row[:3], width[:3], strict=True)]
        others = [cell.ljust(w) for cell, w in zip(row[3:], width[3:], strict=True)]
        lines.append("  ".join([*figures, *others]).rstrip())
    return "\n".join(lines)


# --- The search for options -----------------------------------------------------------------------

_RANGES: Mapping[str, tuple[Choice, ...]] = {
    "l2": (Range(0.001, 10.0),),
    "l1": (0.0, Range(0.01, 1.0)),
}
_MOST_STATES = 1000  # of order 2, for it to be tried without being asked for


def tune(
    data: Any,
    target: str | Sequence[Sequence[str]],
    template: Template | Sequence[Template] | Mapping[str, Template] | None = None,
    *,
    dev: Any = None,
    dev_target: Sequence[Sequence[str]] | None = None,
    folds: int | None = None,
    trials: int = 20,
    seed: int = 0,
    pruner: Pruner = "median",
    journal: str | os.PathLike[str] | None = None,
    resume: bool = False,
    report: Callable[[Trial], None] | None = None,
    keep_on_interrupt: bool = False,
    reads: Sequence[CRF] = (),
    grammar: Grammar | None = None,
    start: CRF | None = None,
    **options: Any,
) -> Tuning:
    """Search for the options of training, and the template, that do best on held-out data.

    Parameters
    ----------
    data, target
        As for `CRF.train`.
    template : a template, or a list or mapping of them
        What `CRF.train` takes. If there are several, the search chooses one; their names are their
        keys, their files, or their numbers from 1.
    dev : Corpus or sequence of sentences, optional
        Held-out data. A trial's score is the best of any iteration, as in `CRF.train`.
    dev_target : sequence of sequences of str, optional
        Labels of `dev`, if `target` is not a column.
    folds : int, optional
        Instead of `dev`: split `data` into this number of folds; a trial's score is the mean, over
        the folds, of the score of a tagger trained on the others.
    trials : int
        Number of trials, including trials in the journal. Where there are no ranges, every
        combination is tried once at most.
    seed : int
        Of the search, of folds and of training.
    pruner : {"median", "halving", "none"}
        A trial is stopped when its score after an iteration (a fold) is below the median of those
        before; when it is not in the better half after 8, 16, 32, ... iterations (1, 2, 4, ...
        folds); never.
    journal : path, optional
        File of results; each finished trial is added to it.
    resume : bool
        Go on from the journal if it exists, to the same result as in one go.
    report : callable, optional
        Called for each finished trial, first for trials in the journal.
    keep_on_interrupt : bool
        On Ctrl-C, return the results so far, if there are any.
    reads, grammar
        As for `CRF.train`.
    start : CRF, optional
        Each trial starts from its weights; with `folds` it must not have seen `data`, or the
        scores are too good.
    **options
        Options of training by their flat names: ``tape``, ``class_weights`` and ``threads``, which
        all trials share; of the others one value, or a list of values to choose from. A `Range`
        represents the numbers between two. By default the method is "lbfgs", l2 is between 0.001
        and 10, l1 is 0 or between 0.01 and 1, and order is 1 or, up to 31 labels, 2; with
        `start`, order is the order of its model.

    Returns
    -------
    Tuning

    Raises
    ------
    OptionError
        Neither or both of `dev` and `folds`, more folds than sentences, no trials, options that do
        not go together or leave no choice, a journal of another search.
    DataError, TemplateError
        No labels, or invalid data or templates.
    MissingDependencyError
        optuna is not installed.
    """
    installed()
    _check(dev, folds, trials, pruner, resume=resume, journal=journal)
    templates = named(template)
    target = target if isinstance(target, str) else _lists(target)
    sentences, dev = _corpus(data, target), None if dev is None else _corpus(dev, target)
    fixed = {"grammar": grammar, "seed": seed, **({} if start is None else {"start": start})}
    training, labels = _training(sentences, target, options, tuple(reads), fixed)
    space = searched(
        options,
        templates,
        labels=labels,
        seed=seed,
        reads=bool(reads),
        dev=dev is not None,
        start=start,
    )
    check_templates(templates, sentences, target, reads)
    held = _held_out(training, dev, dev_target, folds, seed)
    search = {"seed": str(seed), "pruner": pruner, "folds": str(folds)}
    search |= _identity(training, space, templates, dev, dev_target)
    study = Study(
        space,
        seed=seed,
        pruner=pruner,
        step=held.step,
        journal=journal,
        resume=resume,
        search=search,
    )
    scored = _Scored(held, templates)
    interrupted = _run(study, scored.score, trials, report, keep=keep_on_interrupt)
    return Tuning(study.trials, space.varied, held.step, interrupted, scored.train)


def _training(
    sentences: Corpus,
    target: str | list[list[str]],
    options: dict[str, Any],
    reads: tuple[CRF, ...],
    fixed: dict[str, Any],
) -> tuple[Training, int]:
    """Return what all trials train, and the number of labels; the options for it are removed."""
    given = options.pop("partial", None)
    tape, threads = options.pop("tape", None), options.pop("threads", 1)
    weights = dict(options.pop("class_weights", None) or {})
    base = with_partial(checked_options({"partial": given}), sentences, target)
    column = _gold(sentences, target)
    labels = column_labels(column, partial=base.reads_sets)
    if note := UnknownLabels.of(column, labels).warning(target, base, explicit=given is not None):
        warn(note, LabelWarning)
    shared = {**fixed, "tape": tape, "partial": base.partial}
    return Training(sentences, target, reads, weights, threads, shared), len(labels)


@dataclass(frozen=True)
class _Scored:
    """Points of the space as trainings: their templates are named."""

    held: HoldOut | CrossValidation
    templates: Mapping[str, TemplateSet]

    def score(self, point: Point, report_step: StepReport) -> tuple[float, int]:
        return self.held(*self._arguments(point), report_step)

    def train(self, trial: Trial, **more: Any) -> CRF:
        chosen = {**trial.options, "template": trial.template}
        return self.held.trained(*self._arguments(chosen), **more)

    def _arguments(self, point: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
        rest = {name: value for name, value in point.items() if name != "template"}
        return self.templates.get(str(point.get("template"))), rest


def _held_out(
    training: Training,
    dev: Any,
    dev_target: Sequence[Sequence[str]] | None,
    folds: int | None,
    seed: int,
) -> HoldOut | CrossValidation:
    """Return the scorer of trials."""
    if folds is not None:
        return CrossValidation(training, folds, seed)
    return HoldOut(training, dev, None if dev_target is None else _lists(dev_target))


def _run(
    study: Study,
    score: Evaluate,
    trials: int,
    report: Callable[[Trial], None] | None,
    *,
    keep: bool,
) -> bool:
    """Run the remaining trials; return whether Ctrl-C ended them early."""
    try:
        limit = study.limit(trials)
        told = report or (lambda _: None)
        for known in study.trials:  # trials in the journal
            told(known)
        while len(study.trials) < limit:
            told(study.run(score))
    except KeyboardInterrupt:
        if not keep or not study.trials:
            raise
        return True
    return False


def _identity(
    training: Training,
    space: Space,
    templates: Mapping[str, TemplateSet],
    dev: Any,
    dev_target: Sequence[Sequence[str]] | None,
) -> dict[str, str]:
    """Return everything that a search depends on besides its settings."""
    grammar, start = training.fixed["grammar"], training.fixed.get("start")
    weights = training.class_weights or None
    given = [*(r.theta.tobytes().hex() for r in training.reads), str(grammar), str(weights)]
    found = {
        "what is searched": str(space),
        "training data": _digest(training.data, training.gold),
        "held-out data": "" if dev is None else _digest(dev, dev_target or []),
        "templates": _digest_of([f"{n}\n{t}" for n, t in templates.items()]),
        "what is read and obeyed": _digest_of(given),
    }
    return found if start is None else found | {"where trials start": start._fingerprint()}


def _check(
    dev: Any,
    folds: int | None,
    trials: int,
    pruner: str,
    *,
    resume: bool,
    journal: str | os.PathLike[str] | None,
) -> None:
    if dev is None and folds is None:
        raise OptionError(
            "trials cannot be scored: give held-out data with dev=, or a number of folds"
        )
    if dev is not None and folds is not None:
        raise OptionError("both dev and folds are given: trials are scored on one of them")
    if trials < 1:
        raise OptionError(f"trials is {trials}, expected at least 1")
    if pruner not in PRUNERS:
        raise OptionError(f"pruner is {pruner!r}, expected one of {', '.join(PRUNERS)}")
    if resume and journal is None:
        raise OptionError("resume needs a journal to go on from")


def _corpus(data: Any, target: str | Sequence[Sequence[str]]) -> Any:
    if isinstance(data, Corpus):
        return data
    sentences = list(data)
    first = next((sentence for sentence in sentences if len(sentence)), None)
    if first is None:
        raise DataError("no sentence to train or to score on")
    if is_literal(first):
        if isinstance(target, str):
            raise OptionError("attribute lists have no columns: give the labels of each sentence")
        return sentences
    return Corpus.from_sentences(sentences)


def _lists(labels: Sequence[Sequence[str]]) -> list[list[str]]:
    return [list(map(str, one)) for one in string_lists(labels, "label", error=DataError)]


def _gold(data: Any, target: str | Sequence[Sequence[str]]) -> Column:
    """Return the labels as a column."""
    if isinstance(target, str):
        found: Column = data.column(target)
        return found
    if len(target) != len(data):
        raise DataError(f"labels of {len(target)} sentences for {len(data)}")
    return Column.from_strings([label for one in target for label in one])


def searched(
    options: Mapping[str, Any],
    templates: Iterable[str],
    *,
    labels: int = 1,
    seed: int = 0,
    reads: bool = False,
    dev: bool = True,
    start: CRF | None = None,
) -> Space:
    """Return the space of options; `options` as for `tune`.

    `reads`, `dev`: are earlier taggers read, is there held-out data. `start` has the order.
    """
    order: tuple[Choice, ...] = (1, 2) if labels**2 <= _MOST_STATES else (1,)
    if start is not None:
        order = (start._markov_order,)
    given = {name: _choices(value) for name, value in options.items()}
    methods = given.pop("method", ("lbfgs",))
    choices: dict[str, tuple[Choice, ...]] = {"method": methods}
    if names := tuple(templates):
        choices["template"] = names
    choices["order"] = given.pop("order", order)
    if start is not None and any(one != order[0] for one in choices["order"]):
        known = ", ".join(map(str, choices["order"]))
        raise OptionError(f"order is {known}, and start= is a model of order {order[0]}")
    for name, usual in _RANGES.items():
        if name in given:
            choices[name] = given.pop(name)
        elif any(_goes_with(name, usual, given, str(method)) for method in methods):
            choices[name] = usual
    space = Space(choices | given)
    for point in space.sides():
        point.pop("template", None)
        checked_options({**point, "seed": seed}, reads=reads, dev=dev, start=start is not None)
    return space


def _goes_with(
    name: str, usual: Sequence[Choice], given: Mapping[str, Sequence[Choice]], method: str
) -> bool:
    """Return whether a method reads a penalty and all given options."""
    first = {option: choices[0] for option, choices in given.items()}
    values = {**DEFAULTS, **first, "method": method}
    most = {**values, name: usual[-1].high if isinstance(usual[-1], Range) else usual[-1]}
    return is_read(name, values) and all(is_read(n, most) for n in given if is_read(n, values))


def _choices(value: Any) -> tuple[Choice, ...]:
    if isinstance(value, Range) or not isinstance(value, list | tuple):
        return (value,)
    return tuple(dict.fromkeys(value))


def _digest(data: Any, gold: Any) -> str:
    if not isinstance(data, Corpus):
        return _digest_of([repr(data), repr(gold)])
    strings = [repr(data.offsets.tolist()), repr(gold)]
    for name in data.columns:
        strings += [name, *data.column(name).strings()]
    return _digest_of(strings)


def _digest_of(strings: Sequence[str]) -> str:
    digest = hashlib.sha256()
    for string in strings:
        digest.update(string.encode())
        digest.update(b"\0")
    return digest.hexdigest()[:16]
