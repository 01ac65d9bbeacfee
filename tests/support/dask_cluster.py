"""A scheduler of Dask and its workers, processes of their own, started as one would by hand."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

ROOT = Path(__file__).resolve().parents[2]


class Cluster:
    """A scheduler at a free port of this machine; `worker` adds a worker of one thread."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._file = folder, folder / "scheduler.json"
        self.processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        self._start("dask_scheduler", "--host", "127.0.0.1", "--port", "0")
        self._wait(lambda: self._file.exists() and self._file.read_text().endswith("}"))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for process in self.processes:
            process.kill()
            process.wait()

    @property
    def address(self) -> str:
        """Where the scheduler listens."""
        known: Any = json.loads(self._file.read_text())
        return str(known["address"])

    def worker(self, *options: str) -> subprocess.Popen[bytes]:
        """Start a worker, and wait until the scheduler knows it."""
        known = len(self.workers())
        process = self._start(
            *("dask_worker", "--nthreads", "1", "--no-nanny", "--local-directory"),
            *(str(self._folder / f"worker{len(self.processes)}"), *options),
        )
        self._wait(lambda: len(self.workers()) > known)
        return process

    def workers(self) -> Sequence[str]:
        from distributed import Client

        with Client(self.address, set_as_default=False) as client:
            return list(client.nthreads())

    def _start(self, program: str, *options: str) -> subprocess.Popen[bytes]:
        path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
        log = (self._folder / f"{program}{len(self.processes)}.log").open("wb")
        command = (sys.executable, "-m", f"distributed.cli.{program}", "--no-dashboard")
        process = subprocess.Popen(
            [*command, "--scheduler-file", str(self._file), *options],
            env={**os.environ, "PYTHONPATH": path},
            stdout=log,
            stderr=log,
        )
        log.close()
        self.processes.append(process)
        return process

    def _wait(self, there: Any) -> None:
        deadline = time.monotonic() + 120
        while not there():
            assert time.monotonic() < deadline, "Dask does not start"
            assert all(p.poll() is None for p in self.processes), "Dask has ended"
            time.sleep(0.2)
