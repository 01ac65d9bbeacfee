"""Parts of a text on several processes or machines: what runs them, whatever they are for."""

from typing import TYPE_CHECKING

from fstcrf.lazy import importer

if TYPE_CHECKING:
    from fstcrf.training.executors.executor import Executor, LocalExecutor, Placement
    from fstcrf.training.executors.futures import FuturesExecutor, ProcessExecutor

__all__ = [
    "Executor",
    "FuturesExecutor",
    "LocalExecutor",
    "Placement",
    "ProcessExecutor",
]

_HOMES = {
    "executor": ("Executor", "LocalExecutor", "Placement"),
    "futures": ("FuturesExecutor", "ProcessExecutor"),
}

__getattr__ = importer(__name__, {name: home for home, names in _HOMES.items() for name in names})
