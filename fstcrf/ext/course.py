"""The course of a run by L-BFGS, for models that are no chains: its options, and the run itself.

`SegmentCRF.train`, `LatticeCRF.train` and `fstcrf.ext.rules` take structs of `fstcrf.CRF.train`,
and read some of their options.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

import numpy as np

from fstcrf.arrays import Floats
from fstcrf.errors import OptionError
from fstcrf.kernel.native import Workers
from fstcrf.training.arguments import Dev, Features, Run
from fstcrf.training.lbfgs import LBFGS, LBFGSOptimiser, OWLQNOptimiser
from fstcrf.training.loop import Checkpoint, Outcome, Progress, fit
from fstcrf.training.optimiser import Objective, Optimiser
from fstcrf.training.options import flat_options
from fstcrf.training.preconditioning import scaled, value_units
from fstcrf.training.settings import Settings

__all__: list[str] = []  # of SegmentCRF, LatticeCRF and rules, which describe it


@dataclass(frozen=True, kw_only=True)
class Course:
    """The settings for learning weights from an objective and its gradient.

    Parameters
    ----------
    l2, l1 : float
        Strengths of the penalties l2 · |weights|² and l1 · sum |weights|.
    max_iterations, period, delta
        L-BFGS, or OWL-QN with l1: it ends when the objective has fallen by less than `delta` of its
        value over `period` iterations.
    patience : int
        Iterations without a better score on held-out data before training ends.
    threads : int
        The result has the same bits for any number.
    report : callable, optional
        Called after every iteration.
    checkpoint, checkpoint_every, resume
        File for the state of the run, as for `CRF.train`.

    Raises
    ------
    OptionError
        Numbers outside their range; `resume` without a checkpoint.
    """

    l2: float = 1.0
    l1: float = 0.0
    max_iterations: int = 200
    period: int = 10
    delta: float = 1e-4
    patience: int = 10
    threads: int = 1
    report: Callable[[Progress], None] | None = None
    checkpoint: str | os.PathLike[str] | None = None
    checkpoint_every: int | None = 10
    resume: bool = False

    def __post_init__(self) -> None:
        if not (0.0 <= self.l2 < np.inf and 0.0 <= self.l1 < np.inf):
            raise OptionError(f"l2 is {self.l2} and l1 {self.l1}, expected numbers from 0")
        for name in ("threads", "max_iterations"):
            if getattr(self, name) < 1:
                raise OptionError(f"{name} is {getattr(self, name)}, expected at least 1")
        if self.resume and self.checkpoint is None:
            raise OptionError("resume needs a checkpoint to go on from")

    @classmethod
    def of(
        cls,
        method: Literal["lbfgs"] | LBFGS,
        *,
        l2: float | None = None,
        max_iterations: int | None = None,
        run: Run | None = None,
        dev: Any = None,
        usual: Mapping[str, Any] | None = None,
    ) -> Course:
        """Return the course of a call; `usual` has other defaults.

        OptionError: an option that this training does not read, or that is given twice.
        """
        if not isinstance(method, LBFGS) and method != "lbfgs":
            raise OptionError(f"method is {method!r}, expected 'lbfgs' or LBFGS(...)")
        arguments = {"method": method, "l2": l2, "max_iterations": max_iterations}
        flat = flat_options({**arguments, "run": run, "dev": dev})
        flat = {name: value for name, value in flat.items() if name not in ("method", "dev")}
        options = [one.name for one in fields(cls)]
        odd = sorted(flat.keys() - set(options))
        if odd:
            there = ", ".join(options)
            raise OptionError(f"{odd[0]} is no option of this training; it has {there}")
        return cls(**{**(usual or {}), **flat})

    def minimiser(self, objective: Objective, start: Floats) -> Optimiser:
        """Return L-BFGS, or OWL-QN with l1, from a start; in units that suit values of features."""
        settings = LBFGS(l2=self.l2, l1=self.l1, period=self.period, delta=self.delta)
        workers, unit = Workers(self.threads), value_units(objective)

        def made(objective: Objective, start: Floats) -> LBFGSOptimiser:
            if self.l1 > 0.0:
                return OWLQNOptimiser(objective, start, settings, unit)
            return LBFGSOptimiser(objective, start, settings, workers=workers)

        return scaled(objective, start, made, workers)

    def run(
        self,
        optimiser: Optimiser,
        *,
        fingerprint: Callable[[], str],
        evaluate: Callable[[Floats], float] | None,
    ) -> Outcome:
        """Run an optimiser; see `fit`.

        Parameters
        ----------
        optimiser : Optimiser
        fingerprint : callable
            The identity of the run: a checkpoint of another run is refused.
        evaluate : callable or None
            theta → score on held-out data, larger is better.
        """
        saved = None
        if self.checkpoint is not None:
            saved = Checkpoint(
                self.checkpoint,
                fingerprint=fingerprint(),
                every=self.checkpoint_every,
                resume=self.resume,
            )
        return fit(
            optimiser,
            max_iterations=self.max_iterations,
            evaluate=evaluate,
            patience=self.patience,
            report=self.report,
            checkpoint=saved,
        )


def structured(options: Mapping[str, Any], structure: type[Settings] = Settings) -> dict[str, Any]:
    """Return the arguments of a training for options with flat names, without those that are None.

    `structure` is the struct of the argument with this name, if the training has one.
    """
    structs: dict[str, tuple[type[Settings], tuple[str, ...]]] = {
        "structure": (structure, tuple(one.name for one in fields(structure))),
        "features": (Features, ("min_count",)),
        "method": (LBFGS, ("l1", "period", "delta")),
        "dev": (Dev, ("patience",)),
        "run": (Run, ("threads", "report", "checkpoint", "checkpoint_every", "resume")),
    }
    flat = {name: value for name, value in options.items() if value is not None}
    arguments: dict[str, Any] = {}
    for argument, (struct, names) in structs.items():
        values = {name: flat.pop(name) for name in names if name in flat}
        if values:
            bare = (flat.pop(argument),) if argument in flat else ()
            arguments[argument] = struct(*bare, **values)
    return {**flat, **arguments}


def known(outcome: Outcome) -> dict[str, Any]:
    """Return the fields of a model's record about its training."""
    return {
        "iterations": outcome.iterations,
        "objective": outcome.value,
        "dev_score": outcome.dev,
        "reason": outcome.reason,
    }
