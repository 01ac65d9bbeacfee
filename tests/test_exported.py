"""What a package lists in ``__all__`` is what it offers, and the other way round."""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType

import fstcrf
from fstcrf import constraints

OPTIONAL = ("fstcrf.ext.jax", "fstcrf.ext.torch")  # need packages that need not be there
MODULES = [
    module.name
    for module in pkgutil.walk_packages(fstcrf.__path__, "fstcrf.")
    if not module.name.endswith(("._kernel", ".__main__")) and module.name not in OPTIONAL
]
PACKAGES = [m.name for m in pkgutil.iter_modules(fstcrf.__path__, "fstcrf.") if m.ispkg]


IMPORTED = frozenset({"TYPE_CHECKING", "annotations", "importer"})


def offered(package: ModuleType) -> set[str]:
    """Public names of a package but for modules, which are offered when they are listed."""
    return {
        name
        for name in dir(package)
        if not name.startswith("_")
        and name not in IMPORTED
        and not isinstance(getattr(package, name), ModuleType)
    }


def test_constraints_hide_nothing() -> None:
    """Programs say ``from fstcrf.constraints import *``, which must not replace another name."""
    for name in ("builtins", "fstcrf", *MODULES):
        module = importlib.import_module(name)
        listed = dir(module) if name == "builtins" else getattr(module, "__all__", ())
        for each in set(constraints.__all__) & set(listed):
            assert getattr(module, each) is getattr(constraints, each), (name, each)


def test_every_listed_name_exists_once() -> None:
    for name in ("fstcrf", *MODULES):
        module = importlib.import_module(name)
        listed = getattr(module, "__all__", [])
        assert len(set(listed)) == len(listed), name
        assert [n for n in listed if not hasattr(module, n)] == [], name


def test_the_top_level_lists_what_is_importable() -> None:
    listed = {n for n in fstcrf.__all__ if not isinstance(getattr(fstcrf, n), ModuleType)}
    listed = {n for n in listed if not n.startswith("_")}
    assert offered(fstcrf) == listed
    assert len(fstcrf.__all__) == len(set(fstcrf.__all__))


def test_packages_list_their_own_names() -> None:
    for name in PACKAGES:
        package = importlib.import_module(name)
        own = {n for n in offered(package) if belongs(getattr(package, n), name)}
        assert own <= set(package.__all__), name


def belongs(value: object, package: str) -> bool:
    module = getattr(value, "__module__", None) or ""
    return module == package or module.startswith(f"{package}.")
