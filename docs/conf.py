"""How `make docs` renders the pages and the reference of the Python interface: read by Sphinx."""

from __future__ import annotations

import importlib
import pkgutil
import re
import shutil
from pathlib import Path
from types import ModuleType
from typing import Any

from docutils.nodes import document
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx

import fstcrf

HERE = Path(__file__).parent

project = "fstcrf"
author = "the authors of fstcrf"
version = release = fstcrf.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
]
html_theme = "furo"
html_title = f"fstcrf {release}"
html_show_copyright = False
html_show_sourcelink = False
html_copy_source = False
templates_path = ["_templates"]

# --- Pages ----------------------------------------------------------------------------------------

source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
myst_heading_anchors = 4  # those that the repository's own pages have

# --- The Python interface -------------------------------------------------------------------------

INSIDE = frozenset({"arguments", "cli", "interruption", "lazy", "once"})
"""Modules that nobody imports from outside; of the commands there is a page."""


def public_modules() -> list[str]:
    """Return ``fstcrf`` and the modules right under it whose ``__all__`` says what is public."""
    found = {module.name for module in pkgutil.iter_modules(fstcrf.__path__)} - INSIDE
    return ["fstcrf", *sorted(f"fstcrf.{name}" for name in found if not name.startswith("_"))]


def homes() -> dict[str, dict[str, str]]:
    """Return the public names of each module with the one public module that describes them."""
    offered = {name: importlib.import_module(name) for name in public_modules()}
    found: dict[str, dict[str, str]] = {}
    for name, module in offered.items():
        found[name] = {}
        for item in module.__all__:
            value = getattr(module, item)
            if isinstance(value, ModuleType):
                continue
            home = ".".join((getattr(value, "__module__", None) or name).split(".")[:2])
            there = home in offered and item in offered[home].__all__
            found[name][item] = home if there else name
    return found


_HOMES = homes()
autosummary_context = {
    "own": {name: [i for i, home in all_.items() if home == name] for name, all_ in _HOMES.items()},
    "elsewhere": {
        name: [(i, home) for i, home in all_.items() if home != name]
        for name, all_ in _HOMES.items()
    },
}
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
napoleon_google_docstring = False
napoleon_use_ivar = True
default_role = "py:obj"

_OPENING_BAR = re.compile(r"(?<![^\s(])\|(?=[^\s|])")


def escape_bars(
    _app: Sphinx, _what: str, _name: str, _value: Any, _options: Any, lines: list[str]
) -> None:
    """Let ``|theta|`` in a docstring be a norm, no substitution of reStructuredText."""
    lines[:] = [_OPENING_BAR.sub(r"\\|", line) for line in lines]


def link_exactly(_app: Sphinx, page: document) -> None:
    """Keep words of a docstring's types, such as ``path``, from linking to attributes."""
    for link in page.findall(pending_xref):
        if link.get("refdomain") == "py" and link["reftarget"].islower():
            link.attributes.pop("refspecific", None)


def setup(app: Sphinx) -> None:
    """Connect the above with Sphinx; forget the pages of modules that are gone."""
    shutil.rmtree(HERE / "reference" / "api", ignore_errors=True)
    app.connect("autodoc-process-docstring", escape_bars, priority=900)  # after napoleon
    app.connect("doctree-read", link_exactly)
