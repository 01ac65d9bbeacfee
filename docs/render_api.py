"""Render the reference of the Python interface: ``python docs/render_api.py build/docs``.

Docstrings are written to be read where they stand. Some things need help on the way to HTML: tables
and literal blocks in the reStructuredText of module docstrings become Markdown; named tuples are
told their module, without which pdoc cannot resolve their annotations; and the front page lists the
packages, which `fstcrf` does not import. A warning is an error.
"""

from __future__ import annotations

import importlib
import inspect
import re
import sys
import warnings
from pathlib import Path
from types import ModuleType

import pdoc
import pdoc.render

import fstcrf

_LEFT_OUT = frozenset({"cli"})  # its reference is --help and docs/command-line.md
_RULE = re.compile(r"^(=+ +)=+$")


def public_modules() -> list[str]:
    """Return the packages, whose ``__all__`` says what is public, and the errors."""
    packages = {path.parent.name for path in Path(fstcrf.__path__[0]).glob("*/__init__.py")}
    return sorted({*packages, "errors"} - _LEFT_OUT)


def as_markdown(text: str) -> str:
    """Return a docstring with its tables and literal blocks in Markdown."""
    lines: list[str] = []
    width = 0  # of the first column, inside a table
    for line in text.splitlines():
        if rule := _RULE.match(line):
            width = 0 if width else len(rule[1])
            lines += ["| | |", "| --- | --- |"] if width else []
        elif width:
            names = ", ".join(f"`{name}`" for name in line[:width].strip(" ,").split(", "))
            if line[width:].strip():
                lines.append(f"| {names} | {line[width:].strip()} |")
            else:  # more names for the row before
                lines[-1] = lines[-1].replace(" | ", f", {names} | ", 1)
        else:
            lines.append("" if line.strip() == "::" else re.sub("::$", ":", line))
    return "\n".join(lines)


def _prepare(module: ModuleType) -> None:
    module.__doc__ = as_markdown(inspect.cleandoc(module.__doc__ or ""))
    for name in module.__all__:
        value = getattr(module, name)
        if inspect.isclass(value) and issubclass(value, tuple):
            value.__new__.__module__ = value.__module__


def main(folder: str) -> None:
    """Render all public modules into a folder."""
    warnings.simplefilter("error")
    names = public_modules()
    for name in names:
        _prepare(importlib.import_module(f"fstcrf.{name}"))
    _prepare(fstcrf)
    fstcrf.__all__ += names
    pdoc.render.configure(
        docformat="numpy", show_source=False, footer_text=f"fstcrf {fstcrf.__version__}"
    )
    pdoc.pdoc("fstcrf", output_directory=Path(folder))


if __name__ == "__main__":
    main(*sys.argv[1:])
