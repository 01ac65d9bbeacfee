"""The table of objectives and of the methods that train each: a new one is a line here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from fstcrf.train.arow import AROWSettings
from fstcrf.train.conjugate_gradient import CGSettings, MixedCGSettings, PreconditionedCGSettings
from fstcrf.train.fscore import MCEFSettings
from fstcrf.train.gis import GISSettings
from fstcrf.train.gpd import ErrorLBFGSSettings, ErrorQuickPropSettings, GPDSettings
from fstcrf.train.lbfgs import LBFGSSettings
from fstcrf.train.likelihood import LikelihoodSettings
from fstcrf.train.mce import MCESettings
from fstcrf.train.passive_aggressive import PASettings
from fstcrf.train.perceptron import APSettings, PerceptronSettings
from fstcrf.train.quickprop import QuickPropSettings
from fstcrf.train.settings import MethodSettings, ObjectiveSettings, Settings
from fstcrf.train.sgd import L2SGDSettings

__all__ = ["METHODS", "OBJECTIVES"]

S = TypeVar("S", bound=Settings)


def _by_name(*settings: type[S]) -> Mapping[str, type[S]]:
    return {struct.name: struct for struct in settings}


OBJECTIVES: Mapping[str, type[ObjectiveSettings]] = _by_name(
    LikelihoodSettings,
    MCESettings,
    MCEFSettings,
)
"""Name of an objective → its settings."""

_LIKELIHOOD: Mapping[str, type[MethodSettings]] = _by_name(
    LBFGSSettings,
    CGSettings,
    PreconditionedCGSettings,
    MixedCGSettings,
    GISSettings,
    QuickPropSettings,
    L2SGDSettings,
    APSettings,
    PASettings,
    AROWSettings,
    PerceptronSettings,
)
_ERRORS: Mapping[str, type[MethodSettings]] = _by_name(
    ErrorLBFGSSettings,
    ErrorQuickPropSettings,
    GPDSettings,
)

METHODS: Mapping[str, Mapping[str, type[MethodSettings]]] = {
    "likelihood": _LIKELIHOOD,
    "mce": _ERRORS,
    "mce-f": _ERRORS,
}
"""Objective → name of a method that trains it → its settings, which make the optimiser."""
