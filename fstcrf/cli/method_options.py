"""Options of ``fstcrf train`` that say how a method searches for weights.

==============  ==========================================
method_options  adds them to a command
==============  ==========================================
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import click

__all__ = ["method_options"]

Command = Callable[..., Any]

_POSITIVE = click.FloatRange(min=0, min_open=True)
_COUNT = click.IntRange(min=1)


def _number(
    name: str, kind: click.ParamType[Any], default: float, text: str
) -> Callable[..., Command]:
    metavar = "N" if kind is _COUNT else "X"
    return click.option(
        name, metavar=metavar, type=kind, default=default, show_default=True, help=text
    )


_OPTIONS = (
    click.option(
        "--epsilon",
        metavar="X",
        type=click.FloatRange(min=0),
        help="lbfgs, cg, gis: stop when |gradient| < X·max(1, |weights|).  [default: 1e-5]  "
        "ap: when the share of wrong labels is below X, pa and arow: the mean loss.  [default: 0]",
    ),
    click.option(
        "--delta",
        metavar="X",
        type=click.FloatRange(min=0),
        help="lbfgs, cg, gis, l2sgd: stop when --period iterations gained less than X times the "
        "objective.  [default: 1e-5; l2sgd 1e-6]",
    ),
    _number("--period", _COUNT, 10, "Iterations that --delta looks back."),
    _number("--memory", _COUNT, 10, "lbfgs: steps that are remembered."),
    click.option(
        "--line-search",
        type=click.Choice(["wolfe", "backtracking", "strong-backtracking"]),
        default="wolfe",
        show_default=True,
        help="lbfgs without --l1: how the length of a step is found.",
    ),
    _number("--max-line-search", _COUNT, 20, "lbfgs, cg: most evaluations of one line search."),
    _number("--preconditioned", _COUNT, 20, "mixed-cg: iterations with the preconditioner."),
    click.option(
        "--stochastic-epochs",
        metavar="N",
        type=click.IntRange(min=0),
        help="lbfgs: epochs of l2sgd to begin with.  [default: 6 where there is text enough]",
    ),
    _number("--calibration-rate", _POSITIVE, 0.1, "l2sgd: the first step size that is tried."),
    _number(
        "--calibration-factor",
        click.FloatRange(min=1, min_open=True),
        2.0,
        "l2sgd: from one step size tried to the next.",
    ),
    _number("--calibration-sentences", _COUNT, 1000, "l2sgd: sentences to try step sizes on."),
    _number("--calibration-candidates", _COUNT, 10, "l2sgd: step sizes in each direction."),
    _number("--calibration-trials", _COUNT, 20, "l2sgd: step sizes in all."),
    click.option(
        "--pa-variant",
        type=click.Choice(["PA", "PA-I", "PA-II"]),
        default="PA-I",
        show_default=True,
        help="pa: how far an update goes.",
    ),
    _number("--aggressiveness", _POSITIVE, 1.0, "pa: the C of PA-I and PA-II."),
    click.option(
        "--error-sensitive/--error-insensitive",
        default=True,
        show_default=True,
        help="pa: the margin is the root of the number of wrong labels, or 1.",
    ),
    click.option(
        "--averaging/--no-averaging",
        default=True,
        show_default=True,
        help="pa: average the weights over all updates.",
    ),
    _number("--variance", _POSITIVE, 1.0, "arow: of every weight at first."),
    _number("--gamma", _POSITIVE, 1.0, "arow: how slowly the weights move."),
    click.option(
        "--smoothing",
        type=click.Choice(["sigmoid", "logistic"]),
        default="sigmoid",
        show_default=True,
        help="mce: what makes the count of errors smooth.",
    ),
    _number("--steepness", _POSITIVE, 1.0, "mce, mce-f: how close to the count it is."),
    _number("--offset", click.FLOAT, 0.0, "mce, mce-f: shifts it; above 0 it asks for a margin."),
    click.option(
        "--psi",
        metavar="X",
        type=_POSITIVE,
        help="mce: how far the best wrong labelling counts alone.  [default: alone]",
    ),
    click.option(
        "--competitors",
        type=click.Choice(["mean", "sum"]),
        default="mean",
        show_default=True,
        help="mce with --psi: the mean over wrong labellings, or their sum.",
    ),
    _number("--f-gamma", _POSITIVE, 1.0, "mce-f: above 1, recall counts more than precision."),
    _number(
        "--growth",
        click.FloatRange(min=1, min_open=True),
        1.75,
        "quickprop: how many times as long as the one before a step may be.",
    ),
    _number("--batch", _COUNT, 8, "gpd: sentences a step."),
    _number("--halving", _POSITIVE, 5.0, "gpd: epochs after which steps are half as long."),
)


def method_options(command: Command) -> Command:
    """Add the options to a command."""
    return reduce(lambda made, option: option(made), reversed(_OPTIONS), command)
