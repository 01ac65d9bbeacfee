"""The scores of options: on held-out data iteration by iteration, or fold by fold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from fstcrf.errors import DataError, OptionError
from fstcrf.evaluate import evaluate_spans, evaluate_tokens
from fstcrf.ext.tune.study import StepReport
from fstcrf.taggers import CRF
from fstcrf.text.corpus import Corpus
from fstcrf.text.corpus.schemes import has_spans
from fstcrf.text.features import LiteralIndex
from fstcrf.text.sentences import UNKNOWN, label_set
from fstcrf.training import Progress
from fstcrf.training.arguments import PassingOptions
from fstcrf.training.gold import comparable
from fstcrf.training.options import structured
from fstcrf.training.passing import FoldProgress, folds, ordered, with_labels
from fstcrf.training.record import TrainingRecord
from fstcrf.training.settings import fields_of

Labels = list[list[str]]


@dataclass(frozen=True)
class Training:
    """The data and the fixed options of trials."""

    data: Any
    target: str | Labels  # column of the labels, or the labels of each sentence
    reads: Sequence[CRF] = ()
    class_weights: Mapping[str, float] = field(default_factory=dict)
    threads: int = 1
    # Other options of `fstcrf.CRF.train`, equal in every trial.
    fixed: Mapping[str, Any] = field(default_factory=dict)

    @property
    def gold(self) -> Labels:
        """The labels of each sentence."""
        if isinstance(self.target, str):
            corpus: Corpus = self.data
            return corpus.column_lists(self.target)
        return self.target

    def part(self, chosen: Sequence[int]) -> Training:
        """Return the same on some of the sentences."""
        if isinstance(self.data, Corpus):
            data: Any = self.data.select(chosen)
        else:
            data = [self.data[i] for i in chosen]
        gold = self.target
        target = gold if isinstance(gold, str) else [gold[i] for i in chosen]
        return replace(self, data=data, target=target)

    def model(self, template: Any, options: Mapping[str, Any], **more: Any) -> CRF:
        """Train; of the earlier taggers, read those whose labels the template reads."""
        reads = [] if template is None else ordered(self.reads, template.tapes)
        if not reads:
            unread = fields_of(PassingOptions)
            options = {name: value for name, value in options.items() if name not in unread}
        flat = {
            "template": template,
            "reads": reads,
            "class_weights": dict(self.class_weights) or None,
            "threads": self.threads,
            "target": self.target,
            **self.fixed,
            **options,
            **more,
        }
        return CRF.train(self.data, **structured(flat))


class HoldOut:
    """Scores on held-out data after each iteration; `dev_target` has labels without a column."""

    step = "iteration"

    def __init__(self, training: Training, dev: Any, dev_target: Labels | None) -> None:
        self._training, self._dev = training, dev
        self._more = {"dev": dev} if dev_target is None else {"dev": dev, "dev_target": dev_target}
        if isinstance(training.target, str):
            gold = dev.column_lists(training.target)
        elif dev_target is None:
            raise OptionError("dev needs dev_target: the labels of each of its sentences")
        else:
            gold = dev_target
        where = dev.source if isinstance(dev, Corpus) else None
        _check_gold(gold, training.gold, "the held-out data", where)

    def __call__(
        self, template: Any, options: Mapping[str, Any], report_step: StepReport
    ) -> tuple[float, int]:
        """Return the best score of any iteration, and the number of iterations."""
        best = -np.inf

        def report(progress: Progress) -> None:
            nonlocal best
            if isinstance(progress, FoldProgress) or progress.dev is None:
                return  # an earlier tagger, jack-knifed
            best = max(best, progress.dev)
            report_step(progress.iteration, best)

        record = _record(self.trained(template, options, report=report))
        return float(record.dev_score or 0.0), record.iterations

    def trained(self, template: Any, options: Mapping[str, Any], **more: Any) -> CRF:
        """Return the tagger that options make."""
        return self._training.model(template, options, **self._more, **more)


class CrossValidation:
    """Scores on each of k folds of the training data, by a tagger trained on the others."""

    step = "fold"

    def __init__(self, training: Training, k: int, seed: int) -> None:
        gold = training.gold
        full = np.flatnonzero([len(labels) > 0 for labels in gold])
        if not 2 <= k <= len(full):
            raise OptionError(
                f"folds is {k}, expected from 2 to the {len(full)} sentences that have tokens"
            )
        self._training = training
        fold = folds(len(full), k, seed)
        self._parts = []
        for number in range(k):
            rest = training.part(full[fold != number].tolist())
            held = training.part(full[fold == number].tolist())
            _check_gold(held.gold, gold, f"fold {number + 1} of {k}", None)
            self._parts.append((_known(rest), held))

    def __call__(
        self, template: Any, options: Mapping[str, Any], report_step: StepReport
    ) -> tuple[float, int]:
        """Return the mean score of the folds, and their number."""
        scores: list[float] = []
        for rest, held in self._parts:
            scores.append(_score(rest.model(template, options), held))
            report_step(len(scores), float(np.mean(scores)))
        return float(np.mean(scores)), len(scores)

    def trained(self, template: Any, options: Mapping[str, Any], **more: Any) -> CRF:
        """Return the tagger that options make of all the data."""
        return self._training.model(template, options, **more)


def _score(model: CRF, held: Training) -> float:
    data: Any = held.data
    gold: Any = held.gold
    if held.reads and not isinstance(model.index, LiteralIndex):
        earlier = ordered(held.reads, model.index.tapes)
        data = with_labels(data, earlier, threads=held.threads)
    found: Any = model.tag_all(data, threads=held.threads)
    partial = bool(held.fixed.get("partial", True)) and UNKNOWN not in model.labels
    gold, found = comparable(gold, found, model.labels) if partial else (gold, found)
    if any(map(has_spans, gold)):
        return evaluate_spans(gold, found).f
    return evaluate_tokens(gold, found).accuracy


def _check_gold(gold: Labels, training: Labels, what: str, path: str | None) -> None:
    if not any(label != UNKNOWN for labels in gold for label in labels):
        raise DataError(f"{what} has no gold labels, so it cannot be scored", path=path)
    if any(map(has_spans, training)) and not any(map(has_spans, gold)):
        raise DataError(
            f"{what} has not a single gold span, so that F is undefined: it needs labels such as "
            "B-NP",
            path=path,
        )


def _known(training: Training) -> Training:
    """Forget the weights of labels that a part of the data does not have."""
    if not training.class_weights:
        return training
    values = {label for labels in training.gold for label in labels}
    partial = bool(training.fixed.get("partial", True))
    present = set(label_set(values, partial=partial))
    weights = {label: w for label, w in training.class_weights.items() if label in present}
    return replace(training, class_weights=weights)


def _record(model: CRF) -> TrainingRecord:
    assert model.record is not None  # noqa: S101 (training has just made it)
    return model.record
