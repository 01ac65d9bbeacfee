"""Experiments that anyone can repeat: each is one command, with its report.

A recipe is a module with a `run` and a `RECIPE`; `RECIPES` has them by name.
"""

from typing import TYPE_CHECKING

from fstcrf.lazy import importer

if TYPE_CHECKING:
    from fstcrf.recipes.experiment import Recipe, Setting, run_recipe
    from fstcrf.recipes.registry import RECIPES
    from fstcrf.recipes.report import Result, Row

__all__ = ["RECIPES", "Recipe", "Result", "Row", "Setting", "run_recipe"]

__getattr__ = importer(
    __name__,
    {
        "RECIPES": "registry",
        "Recipe": "experiment",
        "Result": "report",
        "Row": "report",
        "Setting": "experiment",
        "run_recipe": "experiment",
    },
)
