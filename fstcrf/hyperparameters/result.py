"""What a search has found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fstcrf.errors import NumericError
from fstcrf.hyperparameters.trial import Trial

if TYPE_CHECKING:
    from fstcrf.model.crf import CRF

__all__ = ["Tuning"]

_OUTCOME = {"complete": "", "stopped": "stopped early", "diverged": "diverged"}


@dataclass(frozen=True)
class Tuning:
    """What a search has found; printed as a table, the best first.

    Parameters
    ----------
    trials : tuple of Trial
        In the order in which they were made.
    varied : tuple of str
        The options that there was a choice of.
    step : {"iteration", "fold"}
        What the steps of trials are.
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
        """The complete trial with the best score; of several, the earliest.

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

        As in its trial where there was held-out data; after folds on all the data.

        Parameters
        ----------
        **more
            What else `CRF.train` takes: ``report``, ``checkpoint``, ``threads``.
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
