"""The recipes by name; add one here."""

from __future__ import annotations

from collections.abc import Mapping

from fstcrf.recipes import (
    classification_error,
    consistency,
    neural,
    partial_feedback,
    pattern_rules,
    segment_taggers,
    seminars,
    shallow_parsing,
    unspaced_words,
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
    segment_taggers,
    neural,
    unspaced_words,
    pattern_rules,
)

RECIPES: Mapping[str, Recipe] = {module.RECIPE.name: module.RECIPE for module in _MODULES}
"""The recipes by name."""
