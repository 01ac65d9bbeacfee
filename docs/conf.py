"""How `make docs` renders the pages and the reference of the Python interface: read by Sphinx."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import shutil
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from docutils.nodes import document
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx

import fstcrf
from fstcrf.lazy import StaticFunction

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
html_static_path = ["_static"]
html_css_files = ["site.css"]
templates_path = ["_templates"]

# --- Pages ----------------------------------------------------------------------------------------

source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
myst_heading_anchors = 4  # the anchors of the repository's pages

# --- The Python interface -------------------------------------------------------------------------

INSIDE = frozenset(
    {
        *("arguments", "arrays", "cli", "display", "files", "lazy", "locks", "ragged"),
        "once",
        *("ext.cluster", "ext.jax", "ext.torch"),
    }
)
"""Modules that nobody imports from outside; of the commands there is a page.
Those of packages that need not be installed are described in the guides."""


ROUTING = "get_metadata_routing, set_fit_request, set_score_request"
"""What scikit-learn gives its estimators, with references that only its own site has."""

OFFERED = {
    "fstcrf.ext.explain.joint": "fstcrf.taggers",
    "fstcrf.ext.explain.pushes": "fstcrf.taggers",
    "fstcrf.ext.tune.weights": "fstcrf.taggers",
    "fstcrf.ext.parts": "fstcrf.training.executors",
    "fstcrf.ext.pipelines": "fstcrf.taggers.pipelines",
    "fstcrf.ext.segments": "fstcrf.taggers.segmental",
    "fstcrf.ext.significance": "fstcrf.evaluate",
}
"""Rooms of the ring whose names another module offers."""


@cache
def public_modules() -> list[str]:
    """Return ``fstcrf``, its rooms and packages in them with names in ``__all__``."""
    rooms = {module.name: module.ispkg for module in pkgutil.iter_modules(fstcrf.__path__)}
    found = {"", *rooms}
    for room in (name for name, is_package in rooms.items() if is_package and name not in INSIDE):
        path = importlib.import_module(f"fstcrf.{room}").__path__
        inner = (m for m in pkgutil.iter_modules(path) if m.ispkg or room == "ext")
        found |= {f"{room}.{module.name}" for module in inner}
    names = (f"fstcrf.{name}".strip(".") for name in found - INSIDE if not name.startswith("_"))
    return sorted(name for name in names if importlib.import_module(name).__all__)


def public_home(module: str, item: str) -> str | None:
    """Return the innermost public module around a module that offers an item, if there is one."""
    module = next((OFFERED[name] for name in OFFERED if module.startswith(name)), module)
    parts = module.split(".")
    inner = [".".join(parts[:n]) for n in range(len(parts), 0, -1)]
    public = [name for name in (*inner, "fstcrf") if name in public_modules()]
    return next((name for name in public if item in importlib.import_module(name).__all__), None)


def described(name: str) -> Iterator[tuple[str, str, Any]]:
    """Yield each public name of a module, the public module that describes it, and its value."""
    module = importlib.import_module(name)
    for item in module.__all__:
        value = getattr(module, item)
        home = public_home(getattr(value, "__module__", None) or name, item)
        if not isinstance(value, ModuleType):
            yield item, home or name, value


def directive(value: Any) -> tuple[str, ...]:
    """Return the directive that describes a value, and its options."""
    if inspect.isclass(value):
        beyond = "object, tuple, dict, str, int, float, Enum, BaseException, ImportError, OSError"
        inherited = f":inherited-members: {beyond}"
        return (
            "autoclass",
            ":members:",
            inherited,
            f":exclude-members: {ROUTING}",
            ":show-inheritance:",
        )
    if inspect.isroutine(value):
        return ("autofunction",)
    return ("autodata",) if isinstance(value, str | int | float) else ("autodata", ":no-value:")


_NAMES = {name: list(described(name)) for name in public_modules()}
autosummary_context = {  # what _templates/autosummary/module.rst reads
    "own": {
        name: [(item, directive(value)) for item, home, value in names if home == name]
        for name, names in _NAMES.items()
    },
    "elsewhere": {
        name: [(item, home) for item, home, _ in names if home != name]
        for name, names in _NAMES.items()
    },
}
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
napoleon_google_docstring = False
napoleon_use_ivar = True
default_role = "py:obj"

_OPENING_BAR = re.compile(r"(?<![^\s(])\|(?=[^\s|])")


def prepare(
    _app: Sphinx, what: str, _name: str, value: Any, _options: Any, lines: list[str]
) -> None:
    """Let ``|theta|`` in a docstring be a norm, and leave out the docstring of ``dict``."""
    if what == "data" and value.__doc__ == type(value).__doc__:
        lines.clear()
    lines[:] = [_OPENING_BAR.sub(r"\\|", line) for line in lines]


def link_exactly(_app: Sphinx, page: document) -> None:
    """Keep words of a docstring's types, such as ``path``, from linking to attributes."""
    for link in page.findall(pending_xref):
        if link.get("refdomain") == "py" and link["reftarget"].islower():
            link.attributes.pop("refspecific", None)


def resolve_static_functions() -> None:
    """Replace functions that are imported on first use by static methods, which autodoc shows."""
    for _, _, value in (entry for names in _NAMES.values() for entry in names):
        for name, member in list(vars(value).items()) if inspect.isclass(value) else ():
            if isinstance(member, StaticFunction):
                setattr(value, name, staticmethod(getattr(value, name)))


def setup(app: Sphinx) -> None:
    """Connect the above with Sphinx; forget the pages of modules that are gone."""
    shutil.rmtree(HERE / "reference" / "api", ignore_errors=True)
    resolve_static_functions()
    app.connect("autodoc-process-docstring", prepare, priority=900)  # after napoleon
    app.connect("doctree-read", link_exactly)
