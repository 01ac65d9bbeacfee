"""The only user of the compiled module: pointers, statuses, variants, threads.

``ENTRY`` and ``SLOT`` are C structures as dtypes: entries of packed rows, slots of hash tables.
"""

from __future__ import annotations

import os
import re
import zlib
from _thread import start_new_thread
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from queue import SimpleQueue
from threading import get_ident, local, main_thread
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeAlias, TypeVar, cast

import numpy as np

from fstcrf.errors import KernelError, NumericError, OptionError, ShapeError

try:
    from fstcrf._kernel import __file__ as built_file
    from fstcrf._kernel import ffi, lib
except ModuleNotFoundError as error:
    if error.name != "fstcrf._kernel":
        raise
    raise ImportError(
        "the C kernel of fstcrf is not compiled here: run `make kernel`, or `pip install .`, in "
        "the folder that holds pyproject.toml",
        name="fstcrf._kernel",
    ) from None

if TYPE_CHECKING:
    from fstcrf._kernel import CData
else:
    CData = ffi.CData

View: TypeAlias = "tuple[CData, Sequence[object]]"
"""A C structure, and the objects whose memory it points into."""

__all__ = ["CData", "ffi", "lib"]  # used by the other modules


def check_built(contract: Path) -> None:
    """Raise an error if the kernel of this checkout was built from another contract.

    Otherwise imports would fail, or calls would pass wrong arguments.
    """
    files = sorted(contract.glob("*.api.h"))
    text = b"".join(path.read_bytes() for path in files)
    code = re.sub(rb"/\*.*?\*/|\s+", b"", text, flags=re.DOTALL)
    if files and getattr(lib, "FC_CONTRACT", None) != zlib.crc32(code) >> 1:
        raise KernelError(
            f"the compiled kernel {built_file} was built from other C sources than the "
            "present ones: build it again with `make kernel` or `pip install -e .`"
        )


check_built(Path(__file__).parents[2] / "csrc" / "api")

AnyArray = TypeVar("AnyArray", bound=np.ndarray[Any, Any])

ENTRY = np.dtype([("weight", np.float64), ("slot", np.int64)])
SLOT = np.dtype([("key", np.uint64), ("row", np.int64)])

# Parsed once, because pointers dominate the time of a call with few tokens.
_POINTER = {
    ENTRY: ffi.typeof("fc_entry[]"),
    SLOT: ffi.typeof("fc_slot[]"),
    np.dtype(np.float64): ffi.typeof("double[]"),
    np.dtype(np.float32): ffi.typeof("float[]"),
    np.dtype(np.uint64): ffi.typeof("uint64_t[]"),
    np.dtype(np.int64): ffi.typeof("int64_t[]"),
    np.dtype(np.int32): ffi.typeof("int32_t[]"),
    np.dtype(np.uint16): ffi.typeof("uint16_t[]"),
    np.dtype(np.uint8): ffi.typeof("uint8_t[]"),
}
_DTYPES: dict[Any, np.dtype[Any]] = {dtype.type: dtype for dtype in _POINTER if dtype.names is None}


def array_in(
    array: np.ndarray[Any, Any],
    dtype: type[np.generic] | np.dtype[Any],
    shape: tuple[int, ...],
    name: str,
    *,
    writable: bool = False,
) -> CData:
    """Return a pointer to a contiguous array of exactly this dtype and shape.

    The pointer keeps the array alive. ``ffi.from_buffer`` would silently reinterpret a float32
    array as half as many float64 values.
    """
    wanted = _DTYPES.get(dtype) or np.dtype(dtype)
    if array.dtype is wanted and array.shape == shape:
        flags = array.flags
        # One look at the flags suffices for most arrays: contiguous, aligned and writable.
        if flags.carray or (flags.c_contiguous and flags.aligned and not writable):
            return ffi.from_buffer(_POINTER[wanted], array)
    return _pointer(array, wanted, shape, name, writable=writable)


def _pointer(
    array: np.ndarray[Any, Any],
    wanted: np.dtype[Any],
    shape: tuple[int, ...],
    name: str,
    *,
    writable: bool,
) -> CData:
    if array.dtype != wanted:
        raise ShapeError(f"{name} is {array.dtype}, expected {wanted}")
    if array.shape != shape:
        raise ShapeError(f"{name} is {list(array.shape)}, expected {list(shape)}")
    if not array.flags.c_contiguous:
        raise ShapeError(f"{name} is not contiguous; pass numpy.ascontiguousarray({name})")
    if not array.flags.aligned:
        raise ShapeError(f"{name} is not aligned; pass {name}.copy()")
    if writable and not array.flags.writeable:
        raise ShapeError(f"{name} is read-only; pass {name}.copy()")
    return ffi.from_buffer(_POINTER[wanted], array, require_writable=writable)


def frozen(array: AnyArray, *, owned: bool = False) -> AnyArray:
    """Return a read-only copy of an array.

    C relies on checks that were made once, so the array must not change later. With `owned`, an
    array that owns its memory is made read-only itself: it was made for this purpose.
    """
    flags, base = array.flags, array.base
    below = isinstance(base, np.ndarray) and base.flags.writeable  # the base could be written to
    if not (flags.writeable or below) or not flags.c_contiguous:  # `array_in` refuses the latter
        return array
    if not owned or base is not None:
        array = array.copy()
    array.flags.writeable = False
    return array


def freeze(part: object, *names: str, owned: bool = False) -> None:
    """Replace index arrays of a frozen dataclass by read-only copies."""
    for name in names:
        array = getattr(part, name)
        if array is not None:
            object.__setattr__(part, name, frozen(array, owned=owned))


def array_out(array: np.ndarray[Any, Any]) -> CData:
    """Return a pointer to an array for a result."""
    return array_in(array, array.dtype, array.shape, "result", writable=True)


def check(status: int, what: str, where: int | None = None) -> None:
    """Turn a status into an exception.

    KernelError is a size or index that the Python side should have refused. A worker thread whose
    result is no longer needed ends here.
    """
    if _THREAD.ended:
        raise _Ended
    if status != lib.FC_OK:
        _fail(status, what, where)


def _fail(status: int, what: str, where: int | None) -> NoReturn:
    place = "" if where is None else f" (at {where})"
    message = f"{what}{place}: {ffi.string(lib.fc_text(status)).decode()}"
    if status in (lib.FC_ENUMERIC, lib.FC_ERANGE):
        raise NumericError(message)
    raise KernelError(message)


def use(name: str) -> str:
    """Choose the variant of the kernel.

    It is ``"base"``, ``"v3"`` (AVX2), ``"v4"`` (AVX-512) or ``"auto"``.

    Do not call it while another thread is computing.

    Returns
    -------
    str
        The variant now in use.

    Raises
    ------
    OptionError
        This machine or build lacks the variant.
    """
    if lib.fc_use(name.encode()) != lib.FC_OK:
        raise OptionError(f"kernel variant {name!r}: this machine has {', '.join(variants())}")
    return variant()


def variant() -> str:
    """Name of the variant in use."""
    return str(ffi.string(lib.fc_variant()).decode())


def variants() -> tuple[str, ...]:
    """Return the variants that this processor supports, slowest first."""
    return _VARIANTS


CALL_STEPS = 100_000_000
"""Multiply-adds of a call of the kernel:

Python checks for Ctrl-C between calls.
"""

# Tested once, before threads exist: testing a variant activates it.
_VARIANTS = tuple(n for n in ("base", "v3", "v4") if lib.fc_use(n.encode()) == lib.FC_OK)
use(os.environ.get("FSTCRF_KERNEL", "auto"))


# --- Threads: NumPy and the kernel let others run while they compute ------------------------------

T = TypeVar("T")
R = TypeVar("R")
Outcome: TypeAlias = "tuple[R | None, BaseException | None]"  # the value of a call, or its error


class _Thread(local):
    """The state of the present thread."""

    ended: list[bool] | None = None  # holds a value when the result is not needed


_THREAD = _Thread()


class _Ended(BaseException):
    """Ends a part whose result is not needed, after its present call of the kernel."""


def _outcome(function: Callable[..., R], *given: object) -> Outcome[R]:
    try:
        return function(*given), None
    except BaseException as error:  # noqa: BLE001 (`_value` raises it)
        return None, error


def _value(outcome: Outcome[R]) -> R:
    value, error = outcome
    if error is not None:
        try:
            raise error
        finally:
            del error, outcome  # the error's traceback has this frame: a cycle
    return cast("R", value)


_IDLE: deque[SimpleQueue[Callable[[], None]]] = deque()  # the queues of idle threads
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_IDLE.clear)  # a forked child has no threads


def _serve(calls: SimpleQueue[Callable[[], None]]) -> None:
    while True:
        calls.get()()
        _THREAD.ended = None  # the next call is needed
        _IDLE.append(calls)


def _on_thread(call: Callable[[], None]) -> None:
    """Run a call on an idle thread, or on a new thread, which takes 50 µs to start."""
    try:
        calls = _IDLE.pop()
    except IndexError:
        calls = SimpleQueue()
        start_new_thread(_serve, (calls,))
    calls.put(call)


class _Crew(Generic[T, R]):
    """Threads that call a function for parts; values are taken in the order of the parts.

    The threads are started by C, and wait in C. `threading.Thread` and `concurrent.futures` are
    written in Python: Ctrl-C between two of their lines leaves a lock held, and all threads that
    need this lock wait for ever.
    """

    def __init__(self, function: Callable[[T], R], threads: int) -> None:
        self._function, self._threads = function, threads
        self._added = self._taken = self._started = 0
        # after the last task, None: each thread puts it back and ends
        self.tasks: SimpleQueue[tuple[int, T] | None] = SimpleQueue()
        self._outcomes: SimpleQueue[tuple[int, Outcome[R]]] = SimpleQueue()
        self._early: dict[int, Outcome[R]] = {}
        self._ended: list[bool] = []
        self._gone: SimpleQueue[None] = SimpleQueue()

    @property
    def waiting(self) -> bool:
        return self._taken < self._added

    def add(self, part: T) -> None:
        self.tasks.put((self._added, part))
        self._added += 1
        if self._started < self._threads:
            _on_thread(self._work)
            self._started += 1

    def take(self) -> R:
        """Wait for the value of the next part; raise the error of its call."""
        while self._taken not in self._early:
            number, outcome = self._outcomes.get()
            self._early[number] = outcome
        self._taken += 1
        return _value(self._early.pop(self._taken - 1))

    def end(self) -> None:
        """Let no further part begin, and wait for the parts that run."""
        self._ended.append(True)
        for _ in range(self._started):
            self._gone.get()

    def _work(self) -> None:
        _THREAD.ended = self._ended
        while (task := self.tasks.get()) is not None and not self._ended:
            number, part = task
            self._outcomes.put((number, _outcome(self._function, part)))
            del task, part
        self.tasks.put(None)
        self._gone.put(None)


class Workers:
    """Maps over parts, in order, on a fixed number of threads.

    After the first error, in the order of the parts, or after Ctrl-C, no further part begins, and
    running parts end after their present call of the kernel.

    Parameters
    ----------
    threads : int
    """

    def __init__(self, threads: int = 1) -> None:
        self.threads = threads

    def begun(self, function: Callable[..., R], *given: Any) -> Callable[[], R] | None:
        """Start a call on another thread, and return a function that waits for its value.

        Without other threads, return `None`.
        """
        if self.threads <= 1:
            return None
        outcomes: SimpleQueue[Outcome[R]] = SimpleQueue()
        _on_thread(lambda: outcomes.put(_outcome(function, *given)))
        return lambda: _value(outcomes.get())

    def each(self, function: Callable[[T], None], parts: Iterable[T]) -> None:
        """Call the function for each part."""
        for _ in self.map(function, parts):
            pass

    def stream(self, function: Callable[[T], R], parts: Iterable[T]) -> Iterator[R]:
        """Like `map`, but start only a few parts ahead, because values may be large."""
        return self.map(function, parts, most=2 * self.threads)

    def map(
        self, function: Callable[[T], R], parts: Iterable[T], *, most: int | None = None
    ) -> Iterator[R]:
        """Yield the function's value for each part, in order; at most `most` are started ahead."""
        if self.threads <= 1:
            yield from map(function, parts)
            return
        crew, left = _Crew(function, self.threads), iter(parts)
        try:
            for part in islice(left, most):
                crew.add(part)
            while crew.waiting:
                yield crew.take()
                for part in islice(left, 1):
                    crew.add(part)
        finally:  # also after an error: running parts would outlive the call
            crew.tasks.put(None)  # here, because Python looks for Ctrl-C when `end` begins
            crew.end()


SERIAL = Workers()


def patiently(steps: float, call: Callable[..., int], *given: Any) -> int:
    """Call the kernel; run a long call on another thread, so that Ctrl-C ends the wait.

    The call itself continues, at most until the process ends, and keeps its memory.
    """
    if steps < CALL_STEPS or get_ident() != main_thread().ident:
        return call(*given)
    return cast("Callable[[], int]", Workers(2).begun(call, *given))()


def mapped(function: Callable[[T], R], parts: Iterable[T], threads: int) -> list[R]:
    """Return the function's value for each part, in order, on at most `threads` threads."""
    if threads == 1:
        return list(map(function, parts))
    return list(Workers(threads).map(function, parts))
