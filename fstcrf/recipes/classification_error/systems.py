"""The systems of tables 1 and 2: likelihood, errors of sentences, F of segments.

==========  =========================================================
System      an objective with what was chosen for it
SYSTEMS     those of the paper
Trained     a system with its answers on the test part
trained     train one
chosen      choose penalty and number of iterations on the dev part
options_of  what a system is trained with
==========  =========================================================
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fstcrf.evaluate import evaluate_spans
from fstcrf.model import CRF
from fstcrf.recipes.classification_error.tasks import Task

__all__ = [
    "LIKELIHOOD",
    "SYSTEMS",
    "Choice",
    "System",
    "Trained",
    "chosen",
    "options_of",
    "trained",
]

_PATIENCE = 25
_LIKELIHOOD: dict[str, Any] = {"objective": "likelihood", "delta": 1e-4}


@dataclass(frozen=True, slots=True)
class Choice:
    """What was chosen on the dev part.

    Parameters
    ----------
    l2 : float
    iterations : int or None
        None for as many as convergence takes.
    """

    l2: float
    iterations: int | None = None


@dataclass(frozen=True, slots=True)
class System:
    """An objective.

    Parameters
    ----------
    name : str
    options : dict
        Of `CRF.train`.
    from_map : bool
        It starts from the weights of MAP rather than from zero.
    quick : bool
        It is part of the short run.
    paper : mapping of str to (float, float)
        F and share of right sentences in the paper, in percent, of each task.
    choice : mapping of str to Choice
        What a short run takes; a full one chooses, within twice the iterations.
    grid : tuple of float
        Values of l2 to choose from.
    """

    name: str
    options: dict[str, Any]
    from_map: bool
    quick: bool
    paper: dict[str, tuple[float, float]]
    choice: dict[str, Choice]
    grid: tuple[float, ...]


def _errors(objective: str, **options: Any) -> dict[str, Any]:
    fixed = {"method": "quickprop", "delta": 1e-4, "epsilon": 0.0}
    return {"objective": objective, **fixed, **options}


SYSTEMS = (
    System(
        "ML",
        _LIKELIHOOD,
        from_map=False,
        quick=False,
        paper={"chunking": (93.19, 56.26), "entities": (82.39, 75.71)},
        choice={"chunking": Choice(0.0, 150), "entities": Choice(0.0, 150)},
        grid=(),
    ),
    System(
        "MAP",
        _LIKELIHOOD,
        from_map=False,
        quick=True,
        paper={"chunking": (93.71, 59.15), "entities": (83.79, 77.39)},
        choice={"chunking": Choice(0.1), "entities": Choice(0.2)},
        grid=(0.5, 0.2, 0.1, 0.05),
    ),
    System(
        "MCE (log)",
        _errors("mce", smoothing="logistic"),
        from_map=False,
        quick=False,
        paper={"chunking": (93.92, 60.19), "entities": (84.30, 78.02)},
        choice={"chunking": Choice(0.1, 60), "entities": Choice(0.1, 60)},
        grid=(0.1, 0.03, 0.01),
    ),
    System(
        "MCE (sig)",
        _errors("mce"),
        from_map=False,
        quick=False,
        paper={"chunking": (93.85, 60.14), "entities": (83.82, 77.52)},
        choice={"chunking": Choice(0.1, 60), "entities": Choice(0.1, 60)},
        grid=(0.1, 0.03, 0.01),
    ),
    System(
        "MCE-F (sig)",
        _errors("mce-f"),
        from_map=False,
        quick=True,
        paper={"chunking": (93.96, 60.44), "entities": (84.72, 78.72)},
        choice={"chunking": Choice(0.01, 83), "entities": Choice(0.01, 60)},
        grid=(0.1, 0.03, 0.01),
    ),
    System(
        "MCE (sig) from MAP",
        _errors("mce"),
        from_map=True,
        quick=False,
        paper={"chunking": (93.97, 60.59), "entities": (84.57, 77.71)},
        choice={"chunking": Choice(0.1, 8), "entities": Choice(0.1, 13)},
        grid=(0.1, 0.03, 0.01),
    ),
    System(
        "MCE-F (sig) from MAP",
        _errors("mce-f"),
        from_map=True,
        quick=True,
        paper={"chunking": (94.03, 60.74), "entities": (85.29, 79.26)},
        choice={"chunking": Choice(0.01, 21), "entities": Choice(0.01, 22)},
        grid=(0.1, 0.03, 0.01),
    ),
)
"""The systems of the paper's tables."""

LIKELIHOOD = SYSTEMS[1]
"""What the others are compared with, and start from: MAP."""


@dataclass(frozen=True, slots=True)
class Trained:
    """A system with its answers on the test part.

    Parameters
    ----------
    system : str
        Its name.
    choice : Choice
    labels : list of list of str
    f, sentences : float
        F of spans, and share of sentences without an error, in percent.
    objective : float or None
        Where training ended.
    seconds : float
        Of training.
    """

    system: str
    choice: Choice
    labels: list[list[str]]
    f: float
    sentences: float
    objective: float | None
    seconds: float


def trained(
    system: System, task: Task, choice: Choice, start: CRF | None, seed: int
) -> tuple[CRF, Trained]:
    """Train a system on all training sentences and tag the test part.

    Parameters
    ----------
    system : System
    task : Task
    choice : Choice
    start : CRF, optional
        What it starts from.
    seed : int
    """
    began = time.perf_counter()
    model = CRF.train(
        task.train, task.target, task.template, **options_of(task, system, choice, start, seed)
    )
    seconds = time.perf_counter() - began
    gold, labels = task.test.column_lists(task.target), model.tag_all(task.test)
    right = sum(a == b for a, b in zip(gold, labels, strict=True))
    f = 100.0 * evaluate_spans(gold, labels).f
    objective = None if model.record is None else model.record.objective
    share = 100.0 * right / len(gold)
    return model, Trained(system.name, choice, labels, f, share, objective, seconds)


def chosen(
    system: System, task: Task, start: CRF | None, seed: int, say: Callable[[str], None]
) -> Choice:
    """Choose penalty and number of iterations: the best F on the dev part.

    Parameters
    ----------
    system : System
    task : Task
    start : CRF, optional
        What it starts from; it has not seen the dev part.
    seed : int
    say : callable
    """
    best, score = system.choice[task.name], -1.0
    limit = 2 * (best.iterations or 1)
    for l2 in system.grid:
        options = options_of(task, system, Choice(l2), start, seed)
        if system.options["objective"] != "likelihood":
            options |= {"max_iterations": limit, "patience": _PATIENCE, "dev": task.dev}
        model = CRF.train(task.part, task.target, task.template, **options)
        gold = task.dev.column_lists(task.target)
        found = 100.0 * evaluate_spans(gold, model.tag_all(task.dev)).f
        record = model.record
        iterations = None if "dev" not in options or record is None else record.best_iteration
        say(f"mce: {task.name}, {system.name}, l2 {l2:g}: dev F {found:.2f} ({iterations})")
        if found > score:
            best, score = Choice(l2, iterations), found
    return best


def options_of(
    task: Task, system: System, choice: Choice, start: CRF | None, seed: int
) -> dict[str, Any]:
    """Return the options of `CRF.train`."""
    options: dict[str, Any] = {
        "scheme": task.scheme,
        "l2": choice.l2,
        "seed": seed,
        "features": task.features,
    }
    options |= {"threads": min(2, os.cpu_count() or 1), **system.options}
    if system.options["objective"] != "likelihood" and start is None:
        # With larger steps the first sentences push scores so far apart that a sigmoid has no slope
        # left there, and what is wrong stays wrong.
        options |= {"calibration_rate": task.rate, "calibration_trials": 1}
    if choice.iterations is not None:
        options["max_iterations"] = choice.iterations
    if start is not None:
        options["warm_start"] = start
    return options
