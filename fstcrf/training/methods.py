"""The table of objectives and of the methods that train each: each method is one line here.

A line names the module and the class of the settings, which are imported on demand. So methods in
the ring, which import this room, can be listed as well.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from typing import TypeVar, cast

from fstcrf.training.settings import MethodSettings, ObjectiveSettings, Settings

S = TypeVar("S", bound=Settings)


class SettingsTable(Mapping[str, type[S]]):
    """Maps names to settings classes; a class is imported when it is looked up.

    Parameters
    ----------
    homes : Mapping[str, str]
        Name → path of the class, below ``fstcrf``: ``training.lbfgs.LBFGS``.
    """

    def __init__(self, homes: Mapping[str, str]) -> None:
        self._homes = homes

    def __getitem__(self, name: str) -> type[S]:
        """Return the settings of a name."""
        module, _, settings = self._homes[name].rpartition(".")
        return cast("type[S]", getattr(importlib.import_module(f"fstcrf.{module}"), settings))

    def __contains__(self, name: object) -> bool:
        """Return whether a name exists."""
        return name in self._homes

    def __iter__(self) -> Iterator[str]:
        """Yield the names in their order."""
        return iter(self._homes)

    def __len__(self) -> int:
        """Return the number of names."""
        return len(self._homes)


OBJECTIVES: Mapping[str, type[ObjectiveSettings]] = SettingsTable(
    {
        "likelihood": "training.likelihood.LikelihoodSettings",
        "mce": "ext.papers.errors.MCE",
        "mce-f": "ext.papers.errors.MCEF",
    }
)
"""Name of an objective → its settings."""

_LIKELIHOOD: Mapping[str, type[MethodSettings]] = SettingsTable(
    {
        "lbfgs": "training.lbfgs.LBFGS",
        "cg": "ext.papers.conjugate_gradient.CG",
        "preconditioned-cg": "ext.papers.conjugate_gradient.PreconditionedCG",
        "mixed-cg": "ext.papers.conjugate_gradient.MixedCG",
        "gis": "ext.papers.weightwise.GIS",
        "quickprop": "ext.papers.weightwise.QuickProp",
        "l2sgd": "training.sgd.L2SGD",
        "asgd": "training.sgd.ASGD",
        "ap": "training.online.AP",
        "pa": "training.online.PA",
        "arow": "training.online.AROW",
        "perceptron": "training.online.Perceptron",
    }
)
_ERRORS: Mapping[str, type[MethodSettings]] = SettingsTable(
    {
        "lbfgs": "ext.papers.gpd.ErrorLBFGS",
        "quickprop": "ext.papers.gpd.ErrorQuickProp",
        "gpd": "ext.papers.gpd.GPD",
    }
)

METHODS: Mapping[str, Mapping[str, type[MethodSettings]]] = {
    "likelihood": _LIKELIHOOD,
    "mce": _ERRORS,
    "mce-f": _ERRORS,
}
"""Objective → name of a method that trains it → its settings, which make the optimiser."""
