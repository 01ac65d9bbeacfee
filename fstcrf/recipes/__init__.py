"""Experiments that anyone can repeat: each is one command, with its report.

A recipe is a module with a `run` and a `RECIPE`; `RECIPES` has them by name.
"""

from typing import TYPE_CHECKING

from fstcrf.lazy import importer

if TYPE_CHECKING:
    from fstcrf.recipes.experiment import Recipe as Recipe
    from fstcrf.recipes.experiment import Setting as Setting
    from fstcrf.recipes.experiment import run_recipe as run_recipe
    from fstcrf.recipes.registry import RECIPES as RECIPES
    from fstcrf.recipes.report import Result as Result
    from fstcrf.recipes.report import Row as Row

__all__, __getattr__ = importer(
    __name__,
    {
        "experiment": "Recipe Setting run_recipe",
        "registry": "RECIPES",
        "report": "Result Row",
    },
)
