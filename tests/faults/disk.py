"""Runs of a piece of work whose disk fails, or that die, at a step or at a moment.

`disk.c` sees the steps. The work is done in forks of one process that has everything imported and
that was started with the compiled `disk.c` before the C library (`preloaded`).
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

SOURCE = Path(__file__).with_name("disk.c")


def reason_against() -> str:
    """Say why this cannot be done here; nothing where it can."""
    if sys.platform != "linux" or not hasattr(os, "confstr"):
        return "needs Linux with glibc"
    if "LD_PRELOAD" in os.environ:
        return "something else stands before the C library"
    return "" if shutil.which("cc") else "needs a C compiler"


def preloaded(folder: Path) -> dict[str, str]:
    """Compile `disk.c` into a folder; return the environment of a process that it watches."""
    library = folder / "disk.so"
    command = ["cc", "-O1", "-Wall", "-Werror", "-shared", "-fPIC", str(SOURCE), "-o"]
    subprocess.run([*command, str(library), "-ldl"], check=True)
    own = {"LD_PRELOAD": str(library), "OPENBLAS_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}
    return os.environ | own


class Ended(NamedTuple):
    """How a run of a fork ended: its status, below 0 for a signal, and what it wrote on stderr."""

    status: int
    told: str


@dataclass(frozen=True, slots=True)
class Fault:
    """What is to happen at which step: an error of the system, or death; `log` keeps the steps."""

    step: int = 0
    error: int = 0
    full: bool = False
    log: Path | None = None


def run(
    folder: Path,
    act: Callable[[], object],
    fault: Fault = Fault(),
    *,
    killed_after: float | None = None,
    before: Callable[[], None] | None = None,
) -> tuple[Ended, int]:
    """Do a piece of work in a fork whose folder is `folder`; return how it ended, and its steps.

    Parameters
    ----------
    folder : Path
    act : callable
        An exit status is that of `SystemExit`, else 0.
    fault : Fault
    killed_after : float, optional
        Seconds after which it and all that it has started are killed.
    before : callable, optional
        Called in the fork, to take rights away.
    """
    told = folder.with_name(folder.name + ".told")
    count_read, count_write = os.pipe()
    child = os.fork()
    if not child:
        os.close(count_read)
        _done(folder, act, fault, told, count_write, before)
    os.close(count_write)
    if killed_after is not None:
        _killed(child, killed_after)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if killed_after is not None:
        _no_more(child)
    with os.fdopen(count_read) as file:
        steps = file.read()
    return Ended(status, told.read_text("utf-8", errors="replace")), int(steps or 0)


def _done(
    folder: Path,
    act: Callable[[], object],
    fault: Fault,
    told: Path,
    count: int,
    before: Callable[[], None] | None,
) -> None:
    """Do the work of a fork, and leave."""
    status = 70
    try:
        os.setsid()
        standard = os.open(told, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
        os.dup2(os.open(os.devnull, os.O_RDWR), 0)
        os.dup2(standard, 1)
        os.dup2(standard, 2)
        os.chdir(folder)
        log = -1 if fault.log is None else os.open(fault.log, os.O_WRONLY | os.O_CREAT, 0o666)
        if before is not None:
            before()
        disk = ctypes.CDLL(None)
        disk.disk_watch(os.fsencode(folder), fault.step, fault.error, int(fault.full), log)
        status = _status(act)
        disk.disk_note(b"done")
        os.write(count, b"%d" % disk.disk_steps())
    except BaseException:  # noqa: BLE001 (a fork must not go on)
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _status(act: Callable[[], object]) -> int:
    try:
        act()
    except SystemExit as error:
        return error.code if isinstance(error.code, int) else 1
    except OSError as error:
        print(f"fstcrf: error: {error}", file=sys.stderr)  # noqa: T201
        return 1
    return 0


def _killed(child: int, after: float) -> None:
    """Kill a fork, and its processes, after a time."""
    end = time.monotonic() + after
    while time.monotonic() < end:
        if os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
            return
        time.sleep(min(0.002, max(end - time.monotonic(), 0)))
    _no_more(child)
    os.kill(child, signal.SIGKILL)


def _no_more(child: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
