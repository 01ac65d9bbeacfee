"""The recipes by name; add one here."""

from __future__ import annotations

from collections.abc import Mapping

from fstcrf.recipes import (
    classification_error,
    consistency,
    partial_feedback,
    seminars,
    shallow_parsing,
    usaddress,
)
from fstcrf.recipes.experiment import Recipe

_MODULES = (
    usaddress,
    shallow_parsing,
    partial_feedback,
    classification_error,
    seminars,
    consistency,
)

RECIPES: Mapping[str, Recipe] = {module.RECIPE.name: module.RECIPE for module in _MODULES}
"""The recipes by name."""
