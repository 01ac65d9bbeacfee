"""The course of a run by L-BFGS, for models that are no chains: its options, and the run itself.

`SegmentCRF.train`, `LatticeCRF.train` and `fstcrf.ext.rules` take structs of `fstcrf.CRF.train`,
and read some of their options.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

from fstcrf.arrays import Floats
from fstcrf.errors import OptionError
from fstcrf.kernel.native import Workers
from fstcrf.training.arguments import Dev, Features, Run
from fstcrf.training.lbfgs import LBFGS
from fstcrf.training.loop import Outcome
from fstcrf.training.optimiser import Objective, Optimiser
from fstcrf.training.options import flat_options
from fstcrf.training.run import run_training
from fstcrf.training.settings import Settings

__all__: list[str] = []  # of SegmentCRF, LatticeCRF and rules, which describe it


_METHOD = ("l2", "l1", "max_iterations", "period", "delta")
_RUN = ("threads", "report", "checkpoint", "checkpoint_every", "resume")


@dataclass(frozen=True)
class Course:
    """The settings for learning weights from an objective and its gradient.

    Parameters
    ----------
    method : LBFGS
        L-BFGS, or OWL-QN with l1.
    run : Run
    patience : int
        Iterations without a better score on held-out data before training ends.
    """

    method: LBFGS
    run: Run
    patience: int = 10

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
        options = (*_METHOD, "patience", *_RUN)
        odd = sorted(flat.keys() - set(options))
        if odd:
            there = ", ".join(options)
            raise OptionError(f"{odd[0]} is no option of this training; it has {there}")
        flat = {"l2": 1.0, "max_iterations": 200, "delta": 1e-4, **(usual or {}), **flat}
        settings, running = (
            {name: flat[name] for name in names if name in flat} for names in (_METHOD, _RUN)
        )
        return cls(LBFGS(**settings), Run(**running), flat.get("patience", 10))

    @property
    def l2(self) -> float:
        """Strength of the penalty l2 · |weights|²."""
        return self.method.l2

    @property
    def l1(self) -> float:
        """Strength of the penalty l1 · sum |weights|."""
        return self.method.l1

    @property
    def threads(self) -> int:
        """The result has the same bits for any number."""
        return self.run.threads

    def minimiser(self, objective: Objective, start: Floats) -> Optimiser:
        """Return L-BFGS, or OWL-QN with l1, from a start; in units that suit values of features."""
        return self.method.minimiser(objective, start, Workers(self.threads))

    def outcome(
        self,
        optimiser: Optimiser,
        *,
        fingerprint: Callable[[], str],
        evaluate: Callable[[Floats], float] | None,
    ) -> Outcome:
        """Run an optimiser to its end.

        Parameters
        ----------
        optimiser : Optimiser
        fingerprint : callable
            The identity of the run: a checkpoint of another run is refused.
        evaluate : callable or None
            theta → score on held-out data, larger is better.
        """
        return run_training(
            lambda: optimiser,
            max_iterations=self.method.max_iterations,
            patience=self.patience,
            run=self.run,
            fingerprint="" if self.run.checkpoint is None else fingerprint(),
            evaluate=evaluate,
        )


def structured(options: Mapping[str, Any], structure: type[Settings] = Settings) -> dict[str, Any]:
    """Return the arguments of a training for options with flat names, without those that are None.

    `structure` is the struct of the argument with this name, if the training has one.
    """
    structs: dict[str, tuple[type[Settings], tuple[str, ...]]] = {
        "structure": (structure, tuple(one.name for one in fields(structure))),
        "features": (Features, ("min_count",)),
        "method": (LBFGS, _METHOD[1:2] + _METHOD[3:]),
        "dev": (Dev, ("patience",)),
        "run": (Run, _RUN),
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
