"""Executors, which process parts of a text in several processes or on several machines."""

from typing import TYPE_CHECKING

from fstcrf.lazy import importer

if TYPE_CHECKING:
    from fstcrf.ext.parts.futures import FuturesExecutor as FuturesExecutor
    from fstcrf.ext.parts.futures import ProcessExecutor as ProcessExecutor
    from fstcrf.training.executors.executor import Executor as Executor
    from fstcrf.training.executors.executor import LocalExecutor as LocalExecutor
    from fstcrf.training.executors.executor import Placement as Placement

__all__, __getattr__ = importer(
    __name__,
    {
        "executor": "Executor LocalExecutor Placement",
        "fstcrf.ext.parts.futures": "FuturesExecutor ProcessExecutor",
    },
)
