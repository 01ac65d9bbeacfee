"""``python -m tests.fuzz.coverage NAME``: inputs that reach new code are kept and changed further.

The engine is libFuzzer, by atheris; what it sees are the branches of ``fstcrf`` (its bytecode is
instrumented) and, in a kernel built with ``FSTCRF_SANITIZE=address``, those of the kernel. Each
input has its limits: `FACTOR` times its size and `FLOOR` bytes of memory, `SECONDS` of a processor.
What breaks them is written down, and the run goes on; what ends the process is found by who started
it, for the input is on disk before it is read. Counts and inputs are kept: a run goes on where the
last one stopped.
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib.util
import mmap
import os
import resource
import struct
import sys
import time
import traceback
import warnings
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Any

from tests.fuzz.mutation import mutated
from tests.fuzz.target import Target

__all__ = ["FACTOR", "FLOOR", "SECONDS", "Places", "counted"]

FACTOR, FLOOR = 20, 64 << 20
"""An input of n bytes may take FACTOR · n + FLOOR bytes, with what a sanitizer holds back."""
SECONDS = 2.0
"""Of a processor, under sanitizers, which take two to five times as long."""
_HANGS = 60
_LONGEST = 4096
_CORPUS = Path(__file__).parent / "corpus"


class Places:
    """Where a run of a target keeps what is to outlive it.

    Parameters
    ----------
    folder : Path
    name : str
        Of the target.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self.count = folder / "counts" / name
        self.current = folder / "current" / name
        self.corpus = folder / "corpus" / name
        self.findings = folder / "findings" / name
        self.log = folder / "logs" / f"{name}.log"
        self.kept = _CORPUS / name
        for path in (self.count, self.current, self.log):
            path.parent.mkdir(parents=True, exist_ok=True)
        for path in (self.corpus, self.findings):
            path.mkdir(parents=True, exist_ok=True)

    def found(self, data: bytes, what: str) -> None:
        """Write down an input that was not dealt with as it should be."""
        path = self.findings / hashlib.sha1(data, usedforsecurity=False).hexdigest()[:12]
        path.write_bytes(data)
        path.with_suffix(".txt").write_text(what)

    def interrupted(self) -> bytes | None:
        """Return the input that was being read when a process ended, and forget it."""
        if not self.current.exists():
            return None
        data = self.current.read_bytes()
        self.current.unlink()
        return data[8 : 8 + struct.unpack_from("<Q", data)[0]]


def counted(folder: Path) -> dict[str, int]:
    """Return how many inputs each target has had, in all runs."""
    files = sorted((folder / "counts").glob("*"))
    return {path.name: struct.unpack("<Q", path.read_bytes())[0] for path in files}


class _Shared:
    """Bytes of a file that survive the process."""

    def __init__(self, path: Path, size: int) -> None:
        if not path.exists() or path.stat().st_size != size:
            path.write_bytes(bytes(size))
        with path.open("r+b") as file:
            self.bytes = mmap.mmap(file.fileno(), size)

    def put(self, number: int, data: bytes = b"") -> None:
        self.bytes[8 : 8 + len(data)] = data
        struct.pack_into("<Q", self.bytes, 0, number)


class _Run:
    """One input after the other, each within its limits."""

    def __init__(self, target: Target, places: Places, longest: int) -> None:
        self.target, self.places = target, places
        self._counter = _Shared(places.count, 8)
        self._current = _Shared(places.current, 8 + longest)
        self._count = struct.unpack_from("<Q", self._counter.bytes)[0]
        self._known: set[str] = set()
        self._base = self._peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    def __call__(self, data: bytes) -> None:
        """Read an input and use what it holds."""
        if self.target.repair is not None and sum(data[-8:]) % 4:
            data = self.target.repair(data)
        self._current.put(len(data), data[: len(self._current.bytes) - 8])
        self._count += 1
        self._counter.put(self._count)
        begun = time.process_time()
        self._read(data)
        taken = time.process_time() - begun
        if taken > SECONDS:
            self._found(data, f"took {taken:.1f} s of a processor", "slow")
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        if peak > self._peak:
            if (peak - self._base) * 1024 > FACTOR * len(data) + FLOOR:
                size = f"{(peak - self._base) // 1024:,} MB of memory for {len(data):,} bytes"
                self._found(data, size, "memory")
            self._peak = peak

    def _read(self, data: bytes) -> None:
        target, step = self.target, "reading"
        try:
            made = target.read(data)
            step = "using"
            target.use(made)
        except target.refuses as error:
            if "\n" in str(error):
                self._found(data, f"{step}: several lines: {error!r}", f"lines {type(error)}")
        except Exception as error:  # noqa: BLE001 (it is what is looked for)
            if step == "using" and isinstance(error, _expected()):
                return
            where = _own_frame(error.__traceback__)
            text = "".join(traceback.format_exception(error))
            self._found(data, f"{step}: {error!r}\n{text}", f"{type(error)} {where}")

    def _found(self, data: bytes, what: str, kind: str) -> None:
        if kind not in self._known:
            self._known.add(kind)
            self.places.found(data, what)


def _expected() -> type[Exception]:
    from fstcrf.errors import FstcrfError

    return FstcrfError


def _own_frame(trace: TracebackType | None) -> str:
    """Return the innermost line of fstcrf: what is wrong there is one finding."""
    own = [f for f in traceback.extract_tb(trace) if f"{os.sep}fstcrf{os.sep}" in f.filename]
    return f"{own[-1].filename}:{own[-1].lineno}" if own else "outside"


def _watch_kernel(module: str) -> bool:
    """Hand the kernel's counters to the engine, where it was built with them."""
    library = ctypes.CDLL(module)
    if not hasattr(library, "fc_places"):
        return False
    specification = importlib.util.find_spec("atheris.core_with_libfuzzer")
    assert specification is not None
    assert specification.origin is not None
    engine = ctypes.CDLL(specification.origin)
    for name, init, width in (
        ("fc_places", "__sanitizer_cov_8bit_counters_init", 1),
        ("fc_place_names", "__sanitizer_cov_pcs_init", 16),
    ):
        begin = ctypes.addressof(ctypes.c_char.in_dll(library, name))
        end = begin + _PLACES * width
        getattr(engine, init)(ctypes.c_void_p(begin), ctypes.c_void_p(end))
    return True


_PLACES = 16384  # as in csrc/coverage.c


def main(name: str, folder: Path, seconds: int) -> None:
    """Fuzz a target for some seconds; does not return."""
    import atheris

    warnings.simplefilter("ignore")
    with atheris.instrument_imports(include=["fstcrf"]):
        from tests.fuzz.targets import TARGETS

        target, places = TARGETS[name], Places(folder, name)
        seeds = target.seeds()
        longest = max(_LONGEST, 2 * max(map(len, seeds)))
        for number, data in enumerate(seeds):
            (places.corpus / f"seed-{number}").write_bytes(data)
            _Run(target, places, longest)(data)  # what is imported now is instrumented

    def mutator(data: bytes, size: int, seed: int) -> bytes:
        random = Random(seed)
        if target.change is not None and random.random() < 0.4:
            return target.change(data, random)[:size]
        if random.random() < 0.4:
            return mutated([data, *seeds] if random.random() < 0.1 else [data], random)[:size]
        return bytes(atheris.Mutate(data, size))

    arguments = [
        sys.argv[0],
        str(places.corpus),
        *([str(places.kept)] if places.kept.is_dir() else []),
        f"-max_total_time={seconds}",
        f"-max_len={longest}",
        f"-timeout={_HANGS}",
        f"-artifact_prefix={places.findings}/died-",
        "-rss_limit_mb=8192",
        "-reload=0",
        "-verbosity=0",
    ]
    run: Any = _Run(target, places, longest)
    atheris.Setup(arguments, run, custom_mutator=mutator, internal_libfuzzer=True)
    watched = _watch_kernel(str(sys.modules["fstcrf._kernel"].__file__))
    places.log.with_suffix(".kernel").write_text("watched" if watched else "not watched")
    atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
