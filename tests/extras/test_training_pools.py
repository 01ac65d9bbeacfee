"""Training in the pools of other engines, Ray's and those of MPI: the same bits as here."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.command import ROOT

TEXT = "\n".join(
    "".join(f"w{(7 * i * k + k) % 23} {'ABC'[i * k % 3]}\n" for k in range(1, 6))
    for i in range(400)
)
HEAD = """
import sys
from pathlib import Path

import numpy as np

from fstcrf import CRF
from fstcrf.text.corpus.collection import CorpusFiles
from fstcrf.training import Run, shards
from fstcrf.training.executors import FuturesExecutor


def prepared():
    shards.PART_TOKENS, shards.START_TOKENS = 300, 900


def train(executor=None):
    files = CorpusFiles([str(Path("t.txt").resolve())], ("word", "label"))
    template, run = "U0:%x[0,word]\\nU1:%x[-1,word]\\nB\\n", Run(executor=executor)
    return CRF.train(files, "label", template, max_iterations=6, run=run)


def check(executor):
    one, other = train(), train(executor)
    assert np.array_equal(one.theta, other.theta) and one.record == other.record
    executor.close()
    print("the same", one.record.tokens)
"""
RAY = """
if __name__ == "__main__":
    import ray
    from ray.util.multiprocessing import Pool

    prepared()
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    check(FuturesExecutor([Pool(1), Pool(1)]))
    ray.shutdown()
"""
MPI = """
if __name__ == "__main__":
    from mpi4py.futures import MPIPoolExecutor

    prepared()
    with MPIPoolExecutor(2) as pool:
        check(FuturesExecutor(pool, workers=2))
"""
COMM = """
if __name__ == "__main__":
    from mpi4py.futures import MPICommExecutor

    prepared()
    with MPICommExecutor() as pool:
        if pool is not None:
            check(FuturesExecutor(pool, workers=2))
"""


def ran(program: str, folder: Path, *before: str) -> str:
    """Run a program in a process of its own; return what it printed."""
    (folder / "t.txt").write_text(TEXT)
    (folder / "program.py").write_text(HEAD + program)
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    more = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    more |= {
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_AUTH_MODE": "disabled",
        "RAY_worker_niceness": "0",
        "PYTHONPATH": path,
    }
    found = subprocess.run(
        [*(before or (sys.executable,)), "program.py"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
        env={**os.environ, **more},
    )
    assert found.returncode == 0, found.stderr[-3000:]
    return found.stdout


def mpi() -> str:
    """Return the program that starts processes of MPI."""
    pytest.importorskip("mpi4py")
    found = shutil.which("mpiexec")
    if found is None:
        pytest.skip("no MPI is installed")
    return found


def test_pools_of_ray(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    assert "the same 2000" in ran(RAY, tmp_path)


def test_workers_that_mpi_starts(tmp_path: Path) -> None:
    command = (mpi(), "--oversubscribe", "-n", "3", sys.executable, "-m", "mpi4py.futures")
    assert "the same 2000" in ran(MPI, tmp_path, *command)


def test_a_communicator_of_mpi(tmp_path: Path) -> None:
    command = (mpi(), "--oversubscribe", "-n", "3", sys.executable)
    assert "the same 2000" in ran(COMM, tmp_path, *command)
