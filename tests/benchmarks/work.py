"""A piece of work in a process of its own: ``python -m tests.benchmarks.MODULE WORK JSON``."""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable
from typing import Any

from tests.benchmarks.tasks import Task


def answer(module: dict[str, Any]) -> None:
    """Call the function of a module that the command line names; print what it returns as JSON."""
    work, given = sys.argv[1], json.loads(sys.argv[2])
    if "task" in given:
        given["task"] = Task.from_plain(given["task"])
    print(json.dumps(module[work](**given)))


def seconds_of(work: Callable[[], object], clock: Callable[[], float] = time.process_time) -> float:
    """Return what a piece of work takes by a clock."""
    started = clock()
    work()
    return clock() - started


def peak() -> float:
    """Return the most memory that this process has had, MB (10^6 bytes)."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
