"""The only user of the compiled module: pointers, statuses, variants, threads.

``ENTRY`` and ``SLOT`` are C structures as dtypes: entries of packed rows, slots of hash tables.
"""

from __future__ import annotations

import os
import re
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from threading import Lock, Thread, current_thread, local, main_thread
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias, TypeVar

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
    from concurrent.futures import Future, ThreadPoolExecutor

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
    # One look at the flags suffices for most arrays: contiguous, aligned and writable.
    if array.dtype is wanted and array.shape == shape and array.flags.carray:
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
    if getattr(_THREAD, "ended", None):
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


_THREAD = local()  # `ended`: a list; it is not empty when nobody needs this part any more


class _Ended(BaseException):
    """Ends a part whose result is not needed, after its present call of the kernel."""


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
        # by process: after a fork there are no threads
        self._pools: dict[int, ThreadPoolExecutor] = {}

    @property
    def _pool(self) -> ThreadPoolExecutor | None:
        if self.threads <= 1:
            return None
        process = os.getpid()
        if process not in self._pools:
            from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 (imports logging)

            self._pools.setdefault(process, ThreadPoolExecutor(self.threads))
        return self._pools[process]

    def begun(self, function: Callable[..., R], *given: Any) -> Future[R] | None:
        """Start a call on another thread; return `None` if there is no other thread."""
        pool = self._pool
        return None if pool is None else pool.submit(function, *given)

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
        pool = self._pool
        if pool is None:
            yield from map(function, parts)
            return
        from concurrent.futures import wait  # noqa: PLC0415 (it imports logging)

        ended: list[bool] = []

        def run(part: T) -> R:
            _THREAD.ended = ended
            return function(part)

        left = iter(parts)
        futures = deque(pool.submit(run, part) for part in islice(left, most))
        try:
            while futures:
                yield futures[0].result()
                futures.popleft()
                futures.extend(pool.submit(run, part) for part in islice(left, 1))
        finally:
            # Also after an error: otherwise the next call would inherit the running parts.
            ended.append(True)
            wait([future for future in futures if not future.cancel()])


SERIAL = Workers()


def patiently(steps: float, call: Callable[..., int], *given: Any) -> int:
    """Call the kernel; run a long call on another thread, so that Ctrl-C ends the wait.

    The call itself continues, at most until the process ends, and keeps its memory.
    """
    if steps < CALL_STEPS or current_thread() is not main_thread():
        return call(*given)
    status: list[int] = []
    done = Lock()

    def run() -> None:
        status.append(call(*given))
        done.release()

    done.acquire()
    Thread(target=run, daemon=True).start()
    with done:
        return status[0]


def mapped(function: Callable[[T], R], parts: Iterable[T], threads: int) -> list[R]:
    """Return the function's value for each part, in order, on at most `threads` threads."""
    if threads == 1:
        return list(map(function, parts))
    every = list(parts)
    return list(Workers(min(threads, len(every))).map(function, every))
