"""Experiments that anyone can repeat: each is one command, with its report.

==========  =========================================================
RECIPES     the recipes, by name
Recipe      what one is: its name, what it needs, how it runs
Setting     what a run is given: data, folder of the report, seed
Result      what it found
Row         one number, beside the one that was published
run_recipe  run one, timed, with the place and the time it was run at
==========  =========================================================
"""

from typing import TYPE_CHECKING

from fstcrf.lazy import importer

if TYPE_CHECKING:
    from fstcrf.recipes.recipe import Recipe, Result, Row, Setting
    from fstcrf.recipes.registry import RECIPES
    from fstcrf.recipes.running import run_recipe

__all__ = ["RECIPES", "Recipe", "Result", "Row", "Setting", "run_recipe"]

__getattr__ = importer(
    __name__,
    {
        "RECIPES": "registry",
        "Recipe": "recipe",
        "Result": "recipe",
        "Row": "recipe",
        "Setting": "recipe",
        "run_recipe": "running",
    },
)
