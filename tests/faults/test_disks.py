"""Disks that fail, processes that die, power that is lost: the old state or the new one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from tests.faults.disk import preloaded, reason_against
from tests.faults.power import Disk, read_steps
from tests.faults.scenarios import SCENARIOS

WHY = reason_against()
pytestmark = pytest.mark.skipif(bool(WHY), reason=WHY)
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return preloaded(tmp_path_factory.mktemp("disk"))


def faults(environment: dict[str, str], *arguments: str) -> None:
    command = [sys.executable, "-m", "tests.faults", *arguments]
    done = subprocess.run(
        command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert not done.returncode, done.stdout[-4000:] + done.stderr[-2000:]
    assert ", 0 findings, " in done.stdout


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("name", "mode"),
    [
        *((name, "fail") for name in ("learn", "tag", "train")),
        *(("pipeline", "kills"), ("learn", "kills"), ("learn", "die"), ("train", "power")),
    ],
)
def test_some_moments(environment: dict[str, str], name: str, mode: str) -> None:
    most = {"fail": "4", "die": "20", "power": "6", "kills": "5"}[mode]
    faults(environment, mode, name, "--most", most, "--seed", "1")


@pytest.mark.thorough
def test_no_place(environment: dict[str, str]) -> None:
    faults(environment, "full", "train", "tag-folder", "--most", "4")


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["fail", "die", "power", "kills", "full", "read-only"])
@pytest.mark.parametrize("name", SCENARIOS)
def test_all(environment: dict[str, str], name: str, mode: str) -> None:
    most = {"kills": "20", "full": "8"}.get(mode, "0")
    faults(environment, mode, name, "--most", most)


# --- The disk that is simulated -------------------------------------------------------------------

WRITER = """
import ctypes, os, sys
os.chdir(sys.argv[1])
log = os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT)
ctypes.CDLL(None).disk_watch(os.getcwd().encode(), 0, 0, 0, log)
with open("new", "wb") as file:
    file.write(b"x" * 10000)
    file.flush()
    if "sync" in sys.argv[3]:
        os.fsync(file.fileno())
os.rename("new", "old")
if "folder" in sys.argv[3]:
    folder = os.open(".", os.O_RDONLY)
    os.fsync(folder)
"""


@pytest.mark.parametrize(
    ("done", "found"),
    [
        ("", {"old", "new", "neither"}),  # the name may be there before the bytes
        ("sync", {"old", "new"}),
        ("sync, folder", {"new"}),
    ],
)
def test_lost_power_shows_what_was_not_synced(
    environment: dict[str, str], done: str, found: set[str], tmp_path: Path
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "old").write_bytes(b"o" * 5000)
    disk, log = Disk(home), tmp_path / "log"
    command = [sys.executable, "-c", WRITER, str(home), str(log), done]
    subprocess.run(command, env=environment, check=True)
    for step in read_steps(log.read_bytes()):
        disk.follow(step)
    seen = set()
    for number in range(60):
        left = tmp_path / str(number)
        left.mkdir()
        disk.fail(left, Random(number), (0.0, 0.5, 1.0)[number % 3])
        data = (left / "old").read_bytes()
        kinds = {b"o" * 5000: "old", b"x" * 10000: "new"}
        seen.add(kinds.get(data, "neither"))
    assert seen == found


def test_steps_fail_and_kill(environment: dict[str, str], tmp_path: Path) -> None:
    code = """
import ctypes, os, sys
disk = ctypes.CDLL(None)
disk.disk_watch(sys.argv[1].encode(), int(sys.argv[2]), int(sys.argv[3]), 0, -1)
with open(sys.argv[1] + "/a", "wb", buffering=0) as file:
    file.write(b"0123456789")
os.unlink(sys.argv[1] + "/a")
print(disk.disk_steps())
"""

    def run(step: int, error: int) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", code, os.fspath(tmp_path), str(step), str(error)]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    assert run(0, 0).stdout == "3\n"
    assert "No space left on device" in run(1, 28).stderr
    assert not (tmp_path / "a").exists()
    assert "No space left on device" in run(2, 28).stderr
    assert (tmp_path / "a").read_bytes() == b"01234"
    (tmp_path / "a").unlink()
    assert run(2, 0).returncode == -9
    assert (tmp_path / "a").read_bytes() == b"01234"
