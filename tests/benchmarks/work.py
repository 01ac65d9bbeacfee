"""A piece of work in a process of its own: ``python -m tests.benchmarks.MODULE WORK JSON``."""

from __future__ import annotations

import json
import sys
from typing import Any

from tests.benchmarks.tasks import Task


def answer(module: dict[str, Any]) -> None:
    """Call the function of a module that the command line names; print what it returns as JSON."""
    work, given = sys.argv[1], json.loads(sys.argv[2])
    if "task" in given:
        given["task"] = Task.from_plain(given["task"])
    print(json.dumps(module[work](**given)))
