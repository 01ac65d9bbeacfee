"""Running a recipe: its data is there, the clock runs, the report is written."""

from __future__ import annotations

import time

from fstcrf.recipes.provenance import provenance
from fstcrf.recipes.recipe import Recipe, Setting
from fstcrf.recipes.report import Report, write

__all__ = ["run_recipe"]


def run_recipe(recipe: Recipe, setting: Setting) -> Report:
    """Run a recipe; write its report where the setting has a folder for it.

    Raises
    ------
    DataError
        The data folder lacks what the recipe needs.
    OSError
        The report cannot be written.
    """
    for pattern in recipe.needs:
        setting.files(pattern)
    if setting.report is not None:  # what cannot be written should be known before the work
        setting.report.mkdir(parents=True, exist_ok=True)
    facts = provenance(recipe.packages)
    started = time.perf_counter()
    result = recipe.run(setting)
    seconds = time.perf_counter() - started
    facts |= {"seed": str(setting.seed), "wall clock": f"{seconds:.1f} s"}
    facts |= {"extent": "full" if setting.full else "quick"}
    report = Report(recipe, result, facts)
    if setting.report is not None:
        write(report, setting.report)
    return report
