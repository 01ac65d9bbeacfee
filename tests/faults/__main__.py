"""Each step of a piece of work fails or is the last one; kills at random; lost power.

``python -m tests.faults fail NAME...``, ``die``, ``power``: every step in turn, or ``--most N`` of
them. ``full``: disks and files that may not grow; ``read-only``: folders where nobody may write.
``kills --most 200 --seed 0 --record FILE``: at random moments; the record lets a run go on that was
stopped. ``counts --record FILE`` says what it has. Without names, all of `scenarios.py`. It ends
with 1 where something was found.
"""

from __future__ import annotations

import argparse
import errno
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

from tests.faults.disk import Ended, Fault, preloaded, reason_against, run
from tests.faults.power import Disk, read_steps
from tests.faults.scenarios import SCENARIOS, Scenario

NONE = Fault()
SPARE = 20  # findings told of, of one piece of work


@dataclass(frozen=True)
class Options:
    """What is asked for: how many steps or moments (0 for all), the seed, the record of kills."""

    most: int
    seed: int
    record: Path | None

    def done(self, name: str) -> tuple[int, int]:
        """Return how many moments of a piece of work the record has, and how many were in time."""
        if self.record is None or not self.record.exists():
            return 0, 0
        rows = [json.loads(line) for line in self.record.read_text("utf-8").splitlines()]
        mine = [row for row in rows if (row["name"], row["seed"]) == (name, self.seed)]
        return (mine[-1]["number"] + 1, mine[-1]["killed"]) if mine else (0, 0)

    def note(self, name: str, number: int, killed: int, findings: list[str]) -> None:
        """Write a moment down."""
        if self.record is not None:
            row = {"name": name, "seed": self.seed, "number": number, "killed": killed}
            with self.record.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row | {"findings": len(findings)}) + "\n")


class Trial:
    """A piece of work and its states: before it, after it, and after what ended it.

    Parameters
    ----------
    scenario : Scenario
    home : Path
        An empty folder.
    """

    def __init__(self, scenario: Scenario, home: Path) -> None:
        self.scenario, self.home = scenario, home
        self.start, self.folder, self.log = home / "start", home / "work", home / "steps"
        self.findings: list[str] = []
        self.start.mkdir()
        here = Path.cwd()
        os.chdir(self.start)
        try:
            scenario.prepare()
        finally:
            os.chdir(here)
        self.old = scenario.found(self.start)
        self.begin()
        began = time.perf_counter()
        ended, self.steps = run(self.folder, scenario.act)
        self.seconds = time.perf_counter() - began
        if ended.status:
            raise SystemExit(f"{scenario.name} fails by itself: {ended.told}")
        self.new, self.new_size = scenario.found(self.folder), self.size(self.folder)
        self.killed = 0
        self.again("by itself, and again")

    def begin(self) -> None:
        """Let the folder be as it was before the work."""
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(self.start, self.folder)

    def find(self, when: str, what: str) -> None:
        """Keep what is wrong."""
        self.findings.append(f"{self.scenario.name}, {when}: {what}")

    def run(self, fault: Fault = NONE, **options: Any) -> Ended:
        """Do the work as it begins, with a fault; what it did is logged."""
        self.log.unlink(missing_ok=True)
        logged = replace(fault, log=None if "before" in options else self.log)
        return run(self.folder, self.scenario.act, logged, **options)[0]

    def notes(self) -> list[str]:
        """Return what the work has noted."""
        if not self.log.exists():
            return []
        return [step.path for step in read_steps(self.log.read_bytes()) if step.kind == "!"]

    def check(self, when: str, notes: list[str], *, done: bool) -> None:
        """Look at the folder; `done`: the work said that all is there."""
        if self.scenario.promised is not None:
            missing = self.scenario.promised(self.folder, notes)
            self.findings += [f"{self.scenario.name}, {when}: {missing}"] * bool(missing)
        old = self.new if done else self.old
        for wrong in self.scenario.check(self.scenario.found(self.folder), old, self.new):
            self.find(when, wrong)

    def again(self, when: str) -> None:
        """Do the work once more, after which all must be as if nothing had happened."""
        ended, _ = run(self.folder, self.scenario.act)
        if ended.status:
            self.find(when, f"the next run ends with {ended.status}: {ended.told[-400:]}")
            return
        found = self.scenario.found(self.folder)
        for name in sorted(set(found) | set(self.new)):
            if found.get(name) != self.new.get(name):
                self.find(when, f"after the next run {name} is not what it should be")

    @staticmethod
    def size(folder: Path) -> int:
        """Return the bytes that a folder takes in pages."""
        pages = (-(-path.stat().st_size // 4096) * 4096 + 512 for path in folder.rglob("*"))
        return sum(pages)

    def failed(self, when: str, ended: Ended) -> None:
        """Check what a run that may have failed has said and left."""
        if ended.status:
            self._told(when, ended)
        self.check(when, self.notes(), done=not ended.status)
        for path in self.folder.rglob("*.tmp"):
            self.find(when, f"{path.name} is left")

    def _told(self, when: str, ended: Ended) -> None:
        lines = [line for line in ended.told.splitlines() if line.startswith("fstcrf: error: ")]
        if "Traceback" in ended.told or "should not happen" in ended.told or len(lines) != 1:
            self.find(when, f"status {ended.status}, it said: {ended.told[-1500:]}")


def chosen(trial: Trial, steps: int, options: Options) -> list[int]:
    """Return the steps that are looked at, all of them or so many."""
    if not options.most or steps <= options.most:
        return list(range(1, steps + 1))
    rnd = Random(f"{trial.scenario.name} {options.seed}")
    return sorted(rnd.sample(range(1, steps + 1), options.most))


def fail(trial: Trial, options: Options) -> None:
    """Let each step fail: once, and from then on."""
    for full in (False, True):
        for step in chosen(trial, trial.steps, options):
            when = f"step {step} of {trial.steps} failed{', and all later ones' * full}"
            trial.begin()
            ended = trial.run(Fault(step, errno.ENOSPC, full))
            trial.failed(when, ended)
            trial.again(when)


def die(trial: Trial, options: Options) -> None:
    """Kill the process just before each step, in the middle where it writes."""
    for step in chosen(trial, trial.steps, options):
        when = f"killed at step {step} of {trial.steps}"
        trial.begin()
        trial.run(Fault(step))
        trial.check(when, trial.notes(), done=False)
        trial.again(when)


def power(trial: Trial, options: Options) -> None:
    """Let the power fail behind each step: what was synced is there, and any part of the rest."""
    trial.begin()
    disk = Disk(trial.folder)
    trial.run()
    steps = list(read_steps(trial.log.read_bytes()))
    looked_at = set(chosen(trial, len(steps), options)) | {len(steps)}
    for number, step in enumerate(steps, 1):
        disk.follow(step)
        if number not in looked_at:
            continue
        for k, share in enumerate((0.0, 0.3, 0.7, 1.0)):
            when = (
                f"power failed behind step {number} of {len(steps)}, {share:.0%} of the rest there"
            )
            shutil.rmtree(trial.folder)
            trial.folder.mkdir()
            disk.fail(trial.folder, Random(f"{options.seed} {number} {k}"), share)
            trial.check(when, disk.notes, done="done" in disk.notes)
            trial.again(when)


def kills(trial: Trial, options: Options) -> None:
    """Kill it, with all that it has started, at random moments."""
    name = trial.scenario.name
    count = options.most or 200
    number, trial.killed = options.done(name)
    while trial.killed < count:
        after = Random(f"{name} {options.seed} {number}").uniform(0, trial.seconds)
        when = f"killed after {after:.3f} s, number {number} of seed {options.seed}"
        trial.begin()
        began = time.perf_counter()
        ended = trial.run(killed_after=after)
        if ended.status >= 0:  # it takes less than the first time: later moments are to be in time
            trial.seconds = min(trial.seconds, time.perf_counter() - began)
        trial.killed += ended.status < 0
        trial.check(when, trial.notes(), done=ended.status == 0)
        trial.again(when)
        options.note(name, number, trial.killed, trial.findings)
        number += 1


def count(names: list[str], record: Path) -> int:
    """Say how many moments a record has of each piece of work; 1 where something was found."""
    rows = [json.loads(line) for line in record.read_text("utf-8").splitlines()]
    found = 0
    for name in names or SCENARIOS:
        mine = [row for row in rows if row["name"] == name]
        last = {row["seed"]: row for row in mine}.values()
        killed = sum(row["killed"] for row in last)
        wrong = sum(row["findings"] > 0 for row in mine)
        print(f"{name:12} {len(mine):6,} moments {killed:6,} killed {wrong:3} findings")  # noqa: T201
        found += wrong
    return int(found > 0)


def full(trial: Trial, options: Options) -> None:
    """Leave little space on a disk, or limit the size of files."""
    sizes = [path.stat().st_size for path in trial.folder.rglob("*") if path.is_file()]
    for k in range(options.most or 20):
        space = int(max(sizes) * (k + 1) / (options.most or 20))
        when = f"files limited to {space:,} bytes"
        trial.begin()

        def limited(space: int = space) -> None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (space, space))

        ended = trial.run(before=limited)
        trial.failed(when, ended)
        trial.again(when)
    if os.geteuid() == 0 and shutil.which("mount"):
        _small_disks(trial, options.most or 20)


def _small_disks(trial: Trial, count: int) -> None:
    there = trial.size(trial.start)
    more = max(trial.new_size - there, 0) + 8192
    for k in range(count):
        space = there + more * k // count
        when = f"a disk of {space:,} bytes"
        shutil.rmtree(trial.folder, ignore_errors=True)
        trial.folder.mkdir()
        given = ["-t", "tmpfs", "-o", f"size={space}", "tmpfs", os.fspath(trial.folder)]
        subprocess.run(["mount", *given], check=True)
        try:
            shutil.copytree(trial.start, trial.folder, dirs_exist_ok=True)
            ended = trial.run()
            trial.failed(when, ended)
            subprocess.run(["mount", "-o", "remount,size=1g", trial.folder], check=True)
            trial.again(when)
        finally:
            subprocess.run(["umount", trial.folder], check=True)


def read_only(trial: Trial, options: Options) -> None:
    """Let nobody write: a folder without the right to, or mounted so where we are root."""
    del options
    trial.begin()
    when = "nobody may write"
    root = os.geteuid() == 0 and shutil.which("mount")
    if root:
        subprocess.run(["mount", "--bind", trial.folder, trial.folder], check=True)
        subprocess.run(["mount", "-o", "remount,bind,ro", trial.folder], check=True)
    else:
        for path in (trial.folder, *trial.folder.rglob("*")):
            path.chmod(0o555 if path.is_dir() else 0o444)
    try:
        ended = trial.run()
        found = trial.scenario.found(trial.folder)
    finally:
        if root:
            subprocess.run(["umount", trial.folder], check=True)
        else:
            for path in (trial.folder, *trial.folder.rglob("*")):
                path.chmod(0o755)
    if not ended.status:
        trial.find(when, "it says that all went well")
    trial.failed(when, ended)
    if found != trial.old:
        trial.find(when, "something was written")
    if ("Read-only" if root else "denied") not in ended.told:
        trial.find(when, f"it said: {ended.told[-400:]}")


MODES: dict[str, Callable[[Trial, Options], None]] = {
    "fail": fail,
    "die": die,
    "power": power,
    "kills": kills,
    "full": full,
    "read-only": read_only,
}


def main(arguments: list[str]) -> int:
    """Do what is asked; return 1 where something was found."""
    parser = argparse.ArgumentParser(prog="tests.faults", description=__doc__)
    parser.add_argument("mode", choices=[*MODES, "counts"])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(SCENARIOS))
    parser.add_argument("--most", type=int, default=0, help="steps or moments of each; all, 200")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--record", type=Path, help="kills that were done, to go on from")
    given = parser.parse_args(arguments)
    if given.mode == "counts":
        return count(given.names, given.record or parser.error("counts: say which --record"))
    options = Options(given.most, given.seed, given.record)
    why = reason_against()
    if "disk.so" not in os.environ.get("LD_PRELOAD", ""):
        if why:
            raise SystemExit(f"tests.faults: {why}")
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-m", "tests.faults", *arguments]
            return subprocess.run(command, env=preloaded(Path(folder)), check=False).returncode
    bad = 0
    for name in given.names or SCENARIOS:
        with tempfile.TemporaryDirectory() as folder:
            began = time.perf_counter()
            trial = Trial(SCENARIOS[name], Path(folder).resolve())
            MODES[given.mode](trial, options)
            taken = time.perf_counter() - began
        print(  # noqa: T201
            f"{name}: {given.mode}, {trial.steps} steps, {trial.killed} killed, "
            f"{len(trial.findings)} findings, {taken:.0f} s",
            flush=True,
        )
        for finding in trial.findings[:SPARE]:
            print(f"  {finding}", flush=True)  # noqa: T201
        bad += len(trial.findings)
    return int(bad > 0)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
