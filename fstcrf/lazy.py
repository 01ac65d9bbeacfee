"""Names that are imported when they are first used: a tagger starts in a fraction of a second."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping

__all__ = ["importer"]


def importer(package: str, home: Mapping[str, str]) -> Callable[[str], object]:
    """Return a module ``__getattr__`` (PEP 562) for a package.

    Parameters
    ----------
    package : str
        Its ``__name__``.
    home : mapping of str to str
        For each public name, the submodule that defines it; a submodule itself is its own home.
    """

    def find(name: str) -> object:
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = importlib.import_module(f"{package}.{home[name]}")
        value: object = module if home[name] == name else getattr(module, name)
        setattr(sys.modules[package], name, value)
        return value

    return find
