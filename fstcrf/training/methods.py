"""The table of objectives and of the methods that train each: a new one is a line here.

It names the module and the class of the settings, which are imported when somebody asks for them:
so methods that stand above, in the ring, are lines like all others.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from typing import TypeVar, cast

from fstcrf.training.settings import MethodSettings, ObjectiveSettings, Settings

S = TypeVar("S", bound=Settings)


class SettingsTable(Mapping[str, type[S]]):
    """Name → settings; a class is imported when it is looked up.

    Parameters
    ----------
    homes : Mapping[str, str]
        Name → where the class is, below ``fstcrf``: ``training.lbfgs.LBFGSSettings``.
    """

    def __init__(self, homes: Mapping[str, str]) -> None:
        self._homes = homes

    def __getitem__(self, name: str) -> type[S]:
        """Return the settings of a name."""
        module, _, settings = self._homes[name].rpartition(".")
        return cast("type[S]", getattr(importlib.import_module(f"fstcrf.{module}"), settings))

    def __contains__(self, name: object) -> bool:
        """Tell whether there is such a name."""
        return name in self._homes

    def __iter__(self) -> Iterator[str]:
        """Yield the names in their order."""
        return iter(self._homes)

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._homes)


OBJECTIVES: Mapping[str, type[ObjectiveSettings]] = SettingsTable(
    {
        "likelihood": "training.likelihood.LikelihoodSettings",
        "mce": "ext.papers.errors.MCESettings",
        "mce-f": "ext.papers.errors.MCEFSettings",
    }
)
"""Name of an objective → its settings."""

_LIKELIHOOD: Mapping[str, type[MethodSettings]] = SettingsTable(
    {
        "lbfgs": "training.lbfgs.LBFGSSettings",
        "cg": "ext.papers.conjugate_gradient.CGSettings",
        "preconditioned-cg": "ext.papers.conjugate_gradient.PreconditionedCGSettings",
        "mixed-cg": "ext.papers.conjugate_gradient.MixedCGSettings",
        "gis": "ext.papers.weightwise.GISSettings",
        "quickprop": "ext.papers.weightwise.QuickPropSettings",
        "l2sgd": "training.sgd.L2SGDSettings",
        "asgd": "training.asgd.ASGDSettings",
        "ap": "training.online.APSettings",
        "pa": "training.online.PASettings",
        "arow": "training.online.AROWSettings",
        "perceptron": "training.online.PerceptronSettings",
    }
)
_ERRORS: Mapping[str, type[MethodSettings]] = SettingsTable(
    {
        "lbfgs": "ext.papers.gpd.ErrorLBFGSSettings",
        "quickprop": "ext.papers.gpd.ErrorQuickPropSettings",
        "gpd": "ext.papers.gpd.GPDSettings",
    }
)

METHODS: Mapping[str, Mapping[str, type[MethodSettings]]] = {
    "likelihood": _LIKELIHOOD,
    "mce": _ERRORS,
    "mce-f": _ERRORS,
}
"""Objective → name of a method that trains it → its settings, which make the optimiser."""
