"""Ctrl-C, at once or at an iteration."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fstcrf.training import Progress


def interrupt(*_: object, **__: object) -> Any:
    raise KeyboardInterrupt


def interrupt_at(iteration: int, stage: str = "") -> Callable[[Progress], None]:
    def report(progress: Progress) -> None:
        if (getattr(progress, "stage", ""), progress.iteration) == (stage, iteration):
            raise KeyboardInterrupt

    return report
