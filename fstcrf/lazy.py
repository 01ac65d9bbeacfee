"""What is imported when it is first used: names of packages, and packages that are extras."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

from fstcrf.errors import MissingDependencyError


def importer(package: str, home: Mapping[str, str]) -> Callable[[str], object]:
    """Return a module ``__getattr__`` (PEP 562) for a package: public names by their submodule.

    Submodules need not be named: each is an attribute of its package.
    """

    def find(name: str) -> object:
        if name in home and home[name] != name:
            value: object = getattr(importlib.import_module(f"{package}.{home[name]}"), name)
        else:
            value = _submodule(package, name)
        setattr(sys.modules[package], name, value)
        return value

    return find


def _submodule(package: str, name: str) -> object:
    full = f"{package}.{name}"
    if not name.startswith("_"):
        try:
            return importlib.import_module(full)
        except ModuleNotFoundError as error:
            if error.name != full:
                raise
    raise AttributeError(f"module {package!r} has no attribute {name!r}")


class StaticFunction:
    """A function of another module as a static method: with its signature and documentation.

    It is imported when somebody asks for it; `wrap` maps it to what the method is.
    """

    def __init__(self, module: str, name: str, wrap: Callable[[Any], Any]) -> None:
        self._module, self._name, self._wrap = module, name, wrap

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        return self._wrap(getattr(importlib.import_module(self._module), self._name))


class LazyModule:
    """A module, by its full name, that is imported when something of it is first used."""

    def __init__(self, module: str) -> None:
        self._module = module
        self._found: ModuleType | None = None

    def __getattr__(self, name: str) -> Any:
        if self._found is None:
            self._found = importlib.import_module(self._module)
        return getattr(self._found, name)


def optional(module: str, advice: str) -> ModuleType:
    """Import a module of a package that need not be installed; `advice` says who needs it, and how.

    Whatever else goes wrong inside a package that is installed is raised as it is.
    """
    package = module.partition(".")[0]
    try:
        importlib.import_module(package)
    except ModuleNotFoundError as error:
        if error.name != package:
            raise
        raise MissingDependencyError(advice) from None
    return importlib.import_module(module)
