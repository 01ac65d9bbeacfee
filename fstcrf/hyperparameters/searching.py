"""The search for options: what is asked for, checked before the first trial."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fstcrf.corpus import Corpus
from fstcrf.errors import DataError, OptionError
from fstcrf.features import TemplateSet, is_literal
from fstcrf.hyperparameters.result import Tuning
from fstcrf.hyperparameters.scoring import Folded, Held, Told, Training
from fstcrf.hyperparameters.space import Choice, Point, Range, Space, is_read
from fstcrf.hyperparameters.study import PRUNERS, Pruner, Study, installed
from fstcrf.hyperparameters.templates import Template, check_templates, named
from fstcrf.hyperparameters.trial import Trial
from fstcrf.model.options import checked_options
from fstcrf.model.targets import label_set

if TYPE_CHECKING:
    from fstcrf.grammar import Grammar
    from fstcrf.model.crf import CRF

__all__ = ["tune"]

_RANGES: Mapping[str, tuple[Choice, ...]] = {
    "l2": (Range(0.001, 10.0),),
    "l1": (0.0, Range(0.01, 1.0)),
}
_LIKELIHOOD: tuple[Choice, ...] = ("likelihood",)
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
    tape: str | None = None,
    class_weights: Mapping[str, float] | None = None,
    threads: int = 1,
    **options: Any,
) -> Tuning:
    """Search for the options of training, and the template, that do best on held-out data.

    Parameters
    ----------
    data, target
        As for `CRF.train`.
    template : a template, or a list or mapping of them
        What `CRF.train` takes. Of several, one is chosen; they are called by their keys, by their
        files, or by their numbers from 1.
    dev : Corpus or sequence of sentences, optional
        Held-out data. A trial's score is the best of any iteration, as in `CRF.train`.
    dev_target : sequence of sequences of str, optional
        Labels of `dev`, where `target` is no column.
    folds : int, optional
        Instead of `dev`: cut `data` into so many folds; a trial's score is the mean over the folds
        of what a tagger trained on the others reaches.
    trials : int
        How many trials, those of the journal included. Where there are no ranges, every combination
        is tried once at most.
    seed : int
        Of the search, of folds and of training.
    pruner : {"median", "halving", "none"}
        A trial is stopped when its score after an iteration (a fold) is below the median of those
        before; when it is not in the better half after 8, 16, 32, ... iterations (1, 2, 4, ...
        folds); never.
    journal : path, optional
        File of what is known; each finished trial goes to it.
    resume : bool
        Go on from the journal if it exists, to the same result as in one go.
    report : callable, optional
        Is told of each finished trial.
    keep_on_interrupt : bool
        On Ctrl-C return what is known so far, if anything is.
    reads, grammar, tape, class_weights, threads
        As for `CRF.train`.
    **options
        Those of `CRF.train`: one value, or a list of values to choose from; a `Range` among them
        stands for the numbers between two. By default the method is "lbfgs", l2 is between 0.001
        and 10, l1 is 0 or between 0.01 and 1, and order is 1 or, up to 31 labels, 2.

    Returns
    -------
    Tuning

    Raises
    ------
    OptionError
        Neither or both of `dev` and `folds`, more folds than sentences, no trials, options that do
        not go together or leave no choice, a journal of another search.
    DataError, TemplateError
        No labels, data or templates that are not what they should be.
    MissingDependencyError
        optuna is not installed.
    """
    installed()
    _check(dev, folds, trials, pruner, resume=resume, journal=journal)
    templates = named(template)
    sentences = _corpus(data, target)
    partial = bool(options.pop("partial", True))
    labels = _labels(sentences, target, partial=partial)
    space = _space(options, templates, labels, seed)
    training = Training(
        sentences,
        target if isinstance(target, str) else [list(one) for one in target],
        tuple(reads),
        dict(class_weights or {}),
        threads,
        {"grammar": grammar, "tape": tape, "seed": seed, "partial": partial},
    )
    check_templates(templates, sentences, target, [one.tape for one in reads])
    held: Held | Folded
    if folds is None:
        given = None if dev_target is None else [list(one) for one in dev_target]
        held = Held(training, _corpus(dev, target), given)
    else:
        held = Folded(training, folds, seed)
    study = Study(
        space,
        seed=seed,
        pruner=pruner,
        step=held.step,
        journal=journal,
        resume=resume,
        search={
            "what is searched": str(space),
            "seed": str(seed),
            "pruner": pruner,
            "folds": str(folds),
            "training data": _digest(sentences, training.gold),
            "held-out data": "" if dev is None else _digest(_corpus(dev, target), dev_target or []),
            "templates": _digest_of([f"{n}\n{t}" for n, t in templates.items()]),
            "what is read and obeyed": _digest_of(
                [*(r.theta.tobytes().hex() for r in reads), str(grammar), str(class_weights)]
            ),
        },
    )

    def arguments(point: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
        rest = {name: value for name, value in point.items() if name != "template"}
        return templates.get(str(point.get("template"))), rest

    def evaluate(point: Point, told: Told) -> tuple[float, int]:
        return held(*arguments(point), told)

    def trainer(trial: Trial, **more: Any) -> CRF:
        return held.trained(*arguments({**trial.options, "template": trial.template}), **more)

    interrupted = False
    try:
        while len(study.trials) < study.limit(trials):
            trial = study.run(evaluate)
            if report is not None:
                report(trial)
    except KeyboardInterrupt:
        if not keep_on_interrupt or not study.trials:
            raise
        interrupted = True
    return Tuning(study.trials, space.varied, held.step, interrupted, trainer)


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
        raise OptionError("nothing to score on: give held-out data, dev, or a number of folds")
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


def _labels(data: Any, target: str | Sequence[Sequence[str]], *, partial: bool) -> int:
    """Return the number of labels."""
    if not isinstance(target, str):
        if len(target) != len(data):
            raise DataError(f"labels of {len(target)} sentences for {len(data)}")
        return len(label_set({label for one in target for label in one}, partial=partial))
    column = data.column(target)
    return len(label_set(set(column.strings()), partial=partial))


def _space(
    options: Mapping[str, Any], templates: Mapping[str, TemplateSet], labels: int, seed: int
) -> Space:
    order: tuple[Choice, ...] = (1, 2) if labels**2 <= _MOST_STATES else (1,)
    given = {name: _choices(value) for name, value in options.items()}
    methods = given.pop("method", ("lbfgs",))
    choices: dict[str, tuple[Choice, ...]] = {"method": methods}
    if templates:
        choices["template"] = tuple(templates)
    choices["order"] = given.pop("order", order)
    for name, usual in _RANGES.items():
        if name in given:
            choices[name] = given.pop(name)
        elif name == "l1" and given.get("objective", _LIKELIHOOD) != _LIKELIHOOD:
            continue  # this penalty is for the likelihood alone
        elif any(is_read(name, str(method)) for method in methods):
            choices[name] = usual
    space = Space(choices | given)
    for point in space.sides():
        point.pop("template", None)
        checked_options({**point, "seed": seed})
    return space


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
