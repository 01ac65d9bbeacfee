"""Running a recipe: its data is there, the clock runs, the report is written."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace

from fstcrf.corpus import check_writable
from fstcrf.recipes.parts import Parts, fingerprint
from fstcrf.recipes.provenance import provenance
from fstcrf.recipes.recipe import Recipe, Result, Setting
from fstcrf.recipes.report import FILES, Report, write

__all__ = ["run_recipe"]


def run_recipe(recipe: Recipe, setting: Setting) -> Report:
    """Run a recipe; write its report where the setting has a folder for it.

    A run that ends early, by Ctrl-C or an error, leaves a report of what it had found. What its
    recipe keeps (`Setting.rows`, `kept`, `tagger`) is taken up by the next run to the same folder.

    Raises
    ------
    DataError
        The data folder lacks what the recipe needs.
    OSError
        The report cannot be written.
    """
    files = [path for pattern in recipe.needs for path in setting.files(pattern)]
    folder = setting.report
    new = folder is not None and not folder.exists()
    if folder is not None:  # what cannot be written should be known before the work
        folder.mkdir(parents=True, exist_ok=True)
        for name in FILES:
            check_writable(folder / name)
    facts = provenance(recipe.packages)
    setting = replace(setting, found=Result())
    if folder is not None:
        options = {"recipe": recipe.name, "full": setting.full, "seed": setting.seed}
        run = fingerprint(files, options | {"version": facts["fstcrf"].partition(",")[0]})
        parts = Parts(folder / f"work-seed-{setting.seed}", run, facts["fstcrf"])
        setting = replace(setting, parts=parts)
    started = time.perf_counter()
    try:
        result = recipe.run(setting)
    except BaseException as error:
        _leave(recipe, setting, _facts(facts, setting, started), error)
        if new and folder is not None:
            with suppress(OSError):  # there is something in it
                folder.rmdir()
        raise
    report = Report(recipe, result, _facts(facts, setting, started))
    if folder is not None:
        write(report, folder)
    return report


def _facts(facts: Mapping[str, str], setting: Setting, started: float) -> dict[str, str]:
    seconds = time.perf_counter() - started
    more = {"seed": str(setting.seed), "wall clock": f"{seconds:.1f} s"}
    more["extent"] = "full" if setting.full else "quick"
    if earlier := setting.parts.earlier():
        more["of earlier runs"] = earlier
    return {**facts, **more}


def _leave(
    recipe: Recipe, setting: Setting, facts: Mapping[str, str], error: BaseException
) -> None:
    """Write what was found before a run ended early."""
    interrupted = isinstance(error, KeyboardInterrupt)
    why = "interrupted" if interrupted else f"{type(error).__name__}: {error}"
    folder, found = setting.report, setting.found
    if folder is None or not (found.rows or found.sections):
        return
    write(Report(recipe, found, facts, f"{why} after {facts['wall clock']}"), folder)
    kept = f"; finished parts that are kept: {setting.parts.count}" if setting.parts.count else ""
    setting.say(f"{folder}: report.md, results.json of what was found until now{kept}")
