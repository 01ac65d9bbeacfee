"""The table of objectives and of the methods that train each: a new one is a line here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from fstcrf.training.asgd import ASGDSettings
from fstcrf.training.conjugate_gradient import CGSettings, MixedCGSettings, PreconditionedCGSettings
from fstcrf.training.errors import MCEFSettings, MCESettings
from fstcrf.training.gpd import ErrorLBFGSSettings, ErrorQuickPropSettings, GPDSettings
from fstcrf.training.lbfgs import LBFGSSettings
from fstcrf.training.likelihood import LikelihoodSettings
from fstcrf.training.online import APSettings, AROWSettings, PASettings, PerceptronSettings
from fstcrf.training.settings import MethodSettings, ObjectiveSettings, Settings
from fstcrf.training.sgd import L2SGDSettings
from fstcrf.training.weightwise import GISSettings, QuickPropSettings

S = TypeVar("S", bound=Settings)


def _by_name(*settings: type[S]) -> Mapping[str, type[S]]:
    return {struct.name: struct for struct in settings}


OBJECTIVES: Mapping[str, type[ObjectiveSettings]] = _by_name(
    LikelihoodSettings, MCESettings, MCEFSettings
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
    ASGDSettings,
    APSettings,
    PASettings,
    AROWSettings,
    PerceptronSettings,
)
_ERRORS: Mapping[str, type[MethodSettings]] = _by_name(
    ErrorLBFGSSettings, ErrorQuickPropSettings, GPDSettings
)

METHODS: Mapping[str, Mapping[str, type[MethodSettings]]] = {
    "likelihood": _LIKELIHOOD,
    "mce": _ERRORS,
    "mce-f": _ERRORS,
}
"""Objective → name of a method that trains it → its settings, which make the optimiser."""
