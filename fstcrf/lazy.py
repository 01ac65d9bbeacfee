"""What is made when it is first used: names that are imported, values that are computed.

=========  ===============================================================
importer   names of a package: a tagger starts in a fraction of a second
made_once  a property that is computed once, whichever threads ask first
memoised   a function whose last values are kept, each computed once
making     what both rest on: one thread makes a value, the others wait
=========  ===============================================================

`functools.cached_property` and `functools.lru_cache` compute a value in every thread that asks
before the first is done, and hand out different objects. That is good enough for small values that
are equal; what takes long, or is told apart by identity, is `made_once` or `memoised`.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property, lru_cache, wraps
from threading import RLock
from typing import Any, Self, TypeVar, cast, overload

__all__ = ["importer", "made_once", "making", "memoised"]

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

_locks: dict[Hashable, Any] = {}
"""Of what is being made now; each goes when that is done."""
if hasattr(os, "register_at_fork"):  # the threads that hold them are not in the child
    os.register_at_fork(after_in_child=_locks.clear)


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


@contextmanager
def making(owner: object, what: Hashable) -> Iterator[None]:
    """Let one thread at a time make a value that its owner keeps; look for it again inside.

    There is a lock for each value: who makes one may ask for others, as long as none of them asks
    for the first.

    Parameters
    ----------
    owner : object
    what : hashable
        Which of its values.
    """
    key = id(owner), what
    lock = _locks.setdefault(key, RLock())
    try:
        with lock:
            yield
    finally:
        _locks.pop(key, None)


class made_once(cached_property[T]):  # noqa: N801 (a decorator)
    """A property that is computed once for each object; threads that ask meanwhile wait.

    All of them get the same object, for as long as the owner lives.
    """

    @overload
    def __get__(self, instance: None, owner: type[Any] | None = None) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type[Any] | None = None) -> T: ...
    def __get__(self, instance: object | None, owner: type[Any] | None = None) -> Self | T:
        if instance is None:
            return self
        name, kept = cast("str", self.attrname), instance.__dict__
        with making(instance, name):
            if name not in kept:
                kept.setdefault(name, self.func(instance))
        return cast("T", kept[name])


def memoised(size: int) -> Callable[[F], F]:
    """Return a decorator: the last values of a function are kept, by hashable arguments.

    Parameters
    ----------
    size : int
        How many.
    """

    def decorated(function: F) -> F:
        kept = lru_cache(maxsize=size)(function)

        @wraps(function)
        def found(*arguments: Hashable, **named: Hashable) -> Any:
            with making(function, (arguments, *named.items())):
                return kept(*arguments, **named)

        return cast("F", found)

    return decorated
