"""The recipes by name; add one here."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

from fstcrf.recipes.experiment import Recipe

_MODULES = (
    *("usaddress", "shallow_parsing", "partial_feedback", "classification_error", "seminars"),
    *("consistency", "segment_taggers", "neural", "unspaced_words", "pattern_rules"),
)
_FOUND: list[Recipe] = [import_module(f"fstcrf.recipes.{name}").RECIPE for name in _MODULES]

RECIPES: Mapping[str, Recipe] = {recipe.name: recipe for recipe in _FOUND}  # the recipes by name
