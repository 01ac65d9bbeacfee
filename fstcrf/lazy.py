"""Names and packages that are imported when first used, and values that are computed once.

`made_once` replaces `functools.cached_property`. Up to Python 3.11 that has one lock for all
instances, which remains locked in a child that is forked while another thread holds it.
`functools.lru_cache` computes a value in every thread that calls before the first is done, and
returns different objects: expensive values, or values compared by identity, use `memoised`.
"""

from __future__ import annotations

import importlib
import os
import sys
from _thread import RLock  # without a function of Python around it
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cached_property, partial, wraps  # noqa: TID251 (made_once is one)
from types import MappingProxyType, ModuleType
from typing import Any, Self, TypeVar, cast, overload
from weakref import WeakSet

from fstcrf.errors import MissingDependencyError


def importer(
    package: str, names: Mapping[str, str] = MappingProxyType({})
) -> tuple[list[str], Callable[[str], object]]:
    """Return ``__all__`` and ``__getattr__`` (PEP 562) of a package whose names are imported late.

    `names` maps each submodule, or a module of the ring by its full name, to public names,
    separated by spaces. Submodules need not be named: each is an attribute of its package.
    """
    home = {name: module for module, listed in names.items() for name in listed.split()}

    def find(name: str) -> object:
        if name in home:
            inside, module = not home[name].startswith("fstcrf."), home[name]
            module = f"{package}.{module}" if inside else module
            value: object = getattr(importlib.import_module(module), name)
        else:
            value = _submodule(package, name)
        setattr(sys.modules[package], name, value)
        return value

    return list(home), find


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

    It is imported on first use; `wrap` maps it to the method's value.
    """

    def __init__(self, module: str, name: str, wrap: Callable[[Any], Any]) -> None:
        self._module, self._name, self._wrap = module, name, wrap

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        return self._wrap(getattr(importlib.import_module(self._module), self._name))


class LazyModule:
    """A module, by its full name, that is imported when something of it is first used."""

    def __init__(self, module: str) -> None:
        self._module = module
        self._loaded: ModuleType | None = None

    def __getattr__(self, name: str) -> Any:
        if self._loaded is None:
            self._loaded = importlib.import_module(self._module)
        return getattr(self._loaded, name)


def optional(module: str, advice: str) -> ModuleType:
    """Import a module of an optional package; `advice` explains its use and installation.

    Other errors inside an installed package are raised unchanged.
    """
    package = module.partition(".")[0]
    try:
        importlib.import_module(package)
    except ModuleNotFoundError as error:
        if error.name != package:
            raise
        raise MissingDependencyError(advice) from None
    return importlib.import_module(module)


_ABSENT: Any = object()

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

_locks: dict[Hashable, Any] = {}
"""Locks of the values in progress; each is removed when its value exists."""


@contextmanager
def making(owner: object, what: Hashable) -> Iterator[None]:
    """Let one thread at a time compute a value of its owner; the block must look it up again.

    Each value has a lock: computing one may request others, unless one of these requests the first.
    """
    key = id(owner), what
    lock = _locks.setdefault(key, RLock())
    try:
        with lock:
            yield
    finally:
        _locks.pop(key, None)


class Turns:
    """The lock of an object that threads change in turns; in a forked child it is free.

    The thread that held it is not in the child. So changes must be made in an order in which each
    step leaves a consistent object.
    """

    def __init__(self) -> None:
        self.renew()
        _turns.add(self)

    def renew(self) -> None:
        """Replace the lock by a free one."""
        self.lock = RLock()


_turns: WeakSet[Turns] = WeakSet()


def _in_child() -> None:
    """Reset the locks of threads that do not exist in a forked child."""
    _locks.clear()
    for turns in _turns:
        turns.renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)


class made_once(cached_property[T]):  # noqa: N801 (a decorator)
    """A property that is computed once for each object; other threads wait for the result.

    All threads get the same object, as long as the owner lives.
    """

    @overload
    def __get__(self, instance: None, owner: type[Any] | None = None) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type[Any] | None = None) -> T: ...
    def __get__(self, instance: object | None, owner: type[Any] | None = None) -> Self | T:
        if instance is None:
            return self
        name: Any = self.attrname
        kept = instance.__dict__
        key = id(instance), name
        lock = _locks.setdefault(key, RLock())
        try:
            with lock:  # like `making`, in half the time
                if name not in kept:
                    kept.setdefault(name, self.func(instance))
        finally:
            _locks.pop(key, None)
        value: T = kept[name]
        return value


def given_state(owner: object) -> dict[str, object]:
    """Return the attributes of an object without values that are computed once.

    Use it as ``__getstate__`` of a class: copies and pickles then recompute these values.
    """
    kind = type(owner)
    return {
        name: value
        for name, value in vars(owner).items()
        if not isinstance(getattr(kind, name, None), cached_property)
    }


def bytes_of(value: object) -> int:
    """Return the approximate memory of arrays and containers in the library's objects, in bytes.

    Referenced objects count as well; numbers and strings in containers count 32 bytes each.
    """
    total, seen, todo = 0, set[int](), [value]
    while todo:
        one = todo.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, Mapping):
            todo += [*one.keys(), *one.values()]
        elif isinstance(one, tuple | list | set | frozenset | deque):
            atoms = isinstance(next(iter(one), None), int | float | str | bytes)
            total += 32 * len(one)
            todo += () if atoms else one
        elif isinstance(one, partial):
            todo += [one.args, one.keywords]
        elif hasattr(one, "nbytes"):  # an array, or a scalar, of NumPy
            base = getattr(one, "base", None)
            todo += [] if base is None else [base]
            total += one.nbytes if base is None else 0
        elif type(one).__module__.partition(".")[0] == __name__.partition(".")[0]:
            todo += getattr(one, "__dict__", {}).values()
            slots = [name for kind in type(one).__mro__ for name in getattr(kind, "__slots__", ())]
            todo += [getattr(one, name, None) for name in slots]
    return total


MOST_BYTES = 16_000_000
"""Memory limit for the cached values of a function, except for the last few."""

_LAST = 4  # values of any size, for the taggers in use


def memoised(size: int, most: int = MOST_BYTES) -> Callable[[F], F]:
    """Return a decorator that caches the last `size` values of a function, by hashable arguments.

    Fewer values are kept if they exceed `most` bytes, but at least the last four.
    """

    def decorated(function: F) -> F:
        kept: OrderedDict[Hashable, Any] = OrderedDict()  # in order of last use
        held: dict[Hashable, int] = {}
        turns = Turns()
        last: list[Hashable] = []  # the most recent value: it may have grown since

        def keep(key: Hashable, value: object) -> None:
            for before in last:
                if before in kept:
                    held[before] = bytes_of((before, kept[before]))
            last[:] = [key]
            kept[key], held[key] = value, bytes_of((key, value))
            while len(kept) > size or (len(kept) > _LAST and sum(held.values()) > most):
                held.pop(kept.popitem(last=False)[0], None)

        @wraps(function)
        def cached(*arguments: Hashable, **named: Hashable) -> Any:
            key = (arguments, *named.items()) if named else arguments
            value = kept.get(key, _ABSENT)  # without a lock, because most calls hit
            if value is _ABSENT:
                with making(function, key):
                    value = kept.get(key, _ABSENT)
                    if value is _ABSENT:
                        value = function(*arguments, **named)
                        with turns.lock:
                            keep(key, value)
            with suppress(KeyError):  # another thread has dropped it
                kept.move_to_end(key)
            return value

        return cast("F", cached)

    return decorated
