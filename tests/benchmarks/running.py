"""Work in processes of its own: pinned, timed, in turns."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from tests.benchmarks import machine
from tests.benchmarks.tasks import TEMPLATES, Attributes, Task
from tests.benchmarks.work import seconds_of

R = TypeVar("R")

_QUICK_SENTENCES = 1500


class BenchmarkError(Exception):
    """A process failed, or its results do not fit those of another."""


@dataclass(frozen=True, slots=True)
class Finished:
    """What came of a process."""

    seconds: float  # from its start to its end
    cpu: float  # seconds of processors, user and system
    peak: float  # peak resident memory, MB (10^6 bytes)
    output: str


def child(command: Sequence[str], *, env: dict[str, str], stdin: str = "") -> Finished:
    """Run a process to its end.

    The peak memory of a process counts that of its parent up to the start of the program: the
    parent must be small, so nothing large is imported where this is called.
    """
    with tempfile.TemporaryFile("w+") as errors, tempfile.TemporaryFile("w+") as given:
        given.write(stdin)
        given.seek(0)
        started = time.perf_counter()
        process = subprocess.Popen(
            list(command),
            cwd=machine.ROOT,
            env=env,
            stdin=given,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
        output = process.stdout.read() if process.stdout is not None else ""
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.stdout is not None:
            process.stdout.close()
        if process.returncode:
            errors.seek(0)
            said = " / ".join(errors.read().strip().splitlines()[-3:])
            shown = " ".join(command[1:4])
            raise BenchmarkError(f"{shown} ended with {process.returncode}: {said}")
    peak = usage.ru_maxrss * 1024 / 1e6
    return Finished(seconds, usage.ru_utime + usage.ru_stime, peak, output)


def median_of(runs: Iterable[Any], name: str) -> float:
    """Return the median of an attribute or entry over runs."""
    values = [run[name] if isinstance(run, dict) else getattr(run, name) for run in runs]
    return float(statistics.median(values))


def in_turns(rounds: int, *works: Callable[[], R]) -> list[list[R]]:
    """Do every work once, then again: a list of results for each."""
    results: list[list[R]] = [[] for _ in works]
    for _ in range(rounds):
        for found, work in zip(results, works, strict=True):
            found.append(work())
    return results


def least_seconds(rounds: int, *works: Callable[[], object]) -> list[float]:
    """Return the least seconds of the processor of each work, done in turns; the first not."""
    for work in works:
        work()
    return list(map(min, in_turns(rounds, *(partial(seconds_of, work) for work in works))))


def extras_python() -> str:
    """Return the interpreter of ``make test-extras``, or of FSTCRF_EXTRAS_PYTHON; empty: none."""
    own = machine.ROOT / ".venv-extras" / "bin" / "python"
    python = os.environ.get("FSTCRF_EXTRAS_PYTHON", str(own))
    return python if Path(python).is_file() else ""


@dataclass(slots=True)
class Bench:
    """The setting of a run."""

    data: Path  # folder of the corpora
    folder: Path  # scratch
    rounds: int  # runs of which the median counts
    quick: bool  # A part of the corpora, one round
    say: Callable[[str], None]  # told of what is being done
    models: dict[str, str] = field(default_factory=dict)

    def path(self, name: str) -> str:
        """Return a path in the scratch folder."""
        return str(self.folder / name)

    def corpus(self, name: str, *, whole: bool = False) -> str:
        """Return the path of a corpus file; of its first sentences when quick, if not `whole`."""
        source = self.data / name
        if not source.is_file():
            raise BenchmarkError(f"{source} is missing")
        if whole or not self.quick:
            return str(source)
        part = self.folder / name.replace("/", "-")
        if not part.exists():
            sentences = source.read_text("utf-8").split("\n\n")[:_QUICK_SENTENCES]
            part.write_text("\n\n".join(sentences) + "\n\n", "utf-8")
        return str(part)

    def chunking(self, part: str = "train") -> Task:
        """CoNLL-2000 with the template of CRFsuite's tutorial."""
        path = self.corpus(f"conll2000/{part}.txt")
        return Task(path, ("word", "pos", "chunk"), "chunk", "tutorial")

    def tagging(self) -> Task:
        """CoNLL-2000's POS column, from words."""
        return Task(self.corpus("conll2000/train.txt"), ("word", "pos", "chunk"), "pos", "words")

    def template(self, attributes: Attributes) -> str:
        """Return the path of a template file."""
        path = self.folder / f"{attributes}.tpl"
        path.write_text(TEMPLATES[attributes])
        return str(path)

    # --- Processes ----------------------------------------------------------------------------

    def run(self, command: Sequence[str], *, cores: int = 1, stdin: str = "") -> Finished:
        """Run a process on so many cores."""
        free = machine.cores()
        if len(free) < cores:
            raise BenchmarkError(f"{cores} cores are needed, this process has {free}")
        with machine.pinned(free[-cores:]):
            return child(command, env=self.environment(), stdin=stdin)

    def environment(self) -> dict[str, str]:
        """Byte code is cached, as for any user, but not in the checkout."""
        kept = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        return {**kept, "PYTHONPYCACHEPREFIX": self.path("bytecode")}

    def work(
        self, side: str, work: str, task: Task, *, cores: int = 1, **given: Any
    ) -> dict[str, Any]:
        """Have one side ("ours", "theirs") do a piece of work; with seconds and peak memory.

        `cores` is where it runs; whatever else is given goes to the work.
        """
        return self.job(side, work, cores=cores, task=task.plain(), **given)

    def job(self, module: str, work: str, *, cores: int = 1, **given: Any) -> dict[str, Any]:
        """Have a module of this folder do a piece of work; with seconds and peak memory."""
        arguments = json.dumps(given)
        command = [sys.executable, "-m", f"tests.benchmarks.{module}", work, arguments]
        done = self.run(command, cores=cores)
        found: dict[str, Any] = json.loads(done.output)
        return {**found, "wall": done.seconds, "cpu": done.cpu, "peak": done.peak}

    def variant(self) -> str:
        """Return the name of the kernel variant that is used."""
        script = "from fstcrf import kernel; print(kernel.variant(), *kernel.variants())"
        used, *others = self.run([sys.executable, "-c", script]).output.split()
        return f"{used} of {', '.join(others)}"

    def fstcrf(self, *arguments: str, cores: int = 1, stdin: str = "") -> Finished:
        """Run a command of fstcrf, as a user would."""
        command = [sys.executable, "-m", "fstcrf.cli", *arguments]
        return self.run(command, cores=cores, stdin=stdin)

    def train(self, task: Task, model: str, *options: str, threads: int = 1) -> Finished:
        """Train with ``fstcrf train`` and its defaults."""
        given = ["--columns", ",".join(task.columns), "--target", task.target]
        given += ["--template", self.template(task.attributes), "--set", "boundary=skip"]
        given += ["--threads", str(threads), *options]
        return self.fstcrf("train", task.path, "-o", model, *given, cores=threads)

    def chunkers(self) -> tuple[str, str]:
        """Return trained models of both sides: those of the training lines, or quick ones."""
        if not self.models:
            self.say("models to tag with")
            ours, theirs = self.path("chunk.fstcrf"), self.path("chunk.crfsuite")
            self.train(self.chunking(), ours)
            self.work("theirs", "train", self.chunking(), model=theirs, max_iterations=40)
            self.models = {"ours": ours, "theirs": theirs}
        return self.models["ours"], self.models["theirs"]
