"""Tagging: column file to column file, and from the start of a process to the first sentence.

========  ===========================================================
tagging   tokens per second, features and files included
start     seconds until the labels of one sentence are there
========  ===========================================================
"""

from __future__ import annotations

import subprocess
import sys
import time
from functools import partial
from pathlib import Path

from tests.benchmarks import machine
from tests.benchmarks.report import Line
from tests.benchmarks.running import Bench, BenchmarkError, in_turns, median_of
from tests.benchmarks.tasks import Task

__all__ = ["start", "tagging"]

_STARTS = 10

_OURS = """\
import sys, fstcrf
rows = [tuple(line.split()) for line in sys.stdin if line != "\\n"]
print(*fstcrf.load(sys.argv[1]).tag(rows), flush=True)
"""

_THEIRS = """\
import sys, pycrfsuite
from tests.benchmarks.crfsuite_peer import tutorial_attributes
words, tags = zip(*(line.split() for line in sys.stdin if line != "\\n"))
tagger = pycrfsuite.Tagger()
tagger.open(sys.argv[1])
print(*tagger.tag(tutorial_attributes(words, tags)), flush=True)
"""


def tagging(bench: Bench) -> list[Line]:
    """Column file in, column file out; the time of one copy is taken off."""
    ours, theirs = bench.chunkers()
    copies = 4 if bench.quick else 20
    text = Path(bench.corpus("conll2000/test.txt")).read_text("utf-8").rstrip("\n") + "\n\n"
    tokens = copies * sum(1 for line in text.splitlines() if line)
    small, large = (_copies(bench, text, n) for n in (1, 1 + copies))

    def ours_on(task: Task, threads: int) -> float:
        arguments = ("tag", ours, task.path, "-o", bench.path(f"ours-{threads}.txt"))
        given = ("--threads", str(threads))
        return bench.fstcrf(*arguments, *given, threads=threads).seconds

    def our_rate(threads: int) -> float:
        return _rate(tokens, ours_on(small, threads), ours_on(large, threads))

    def theirs_on(task: Task) -> float:
        output = bench.path("theirs.txt")
        done = bench.work("theirs", "tag", task, model=theirs, output=output)
        return float(done["wall"])

    def their_rate() -> float:
        return _rate(tokens, theirs_on(small), theirs_on(large))

    found = in_turns(bench.rounds, their_rate, *(partial(our_rate, n) for n in (1, 2)))
    _check(bench, copies, len(text.splitlines()))
    peer = [{"rate": rate} for rate in found[0]]
    return [
        Line(
            f"tagging-{n}",
            f"tagging, column file to column file, {n} thread{'s' if n > 1 else ''}",
            median_of([{"rate": rate} for rate in rates], "rate"),
            median_of(peer, "rate"),
            "tokens/s",
            more_is_better=True,
            note=f"{tokens:,} tokens",
            samples={"fstcrf": rates, "python-crfsuite": found[0]},
        )
        for n, rates in zip((1, 2), found[1:], strict=True)
    ]


def _copies(bench: Bench, text: str, n: int) -> Task:
    """Write n copies of the test file: words and tags, as one has them before tagging."""
    path = Path(bench.path(f"test-{n}.txt"))
    lines = (line.rpartition(" ")[0] for line in text.splitlines())
    path.write_text("".join(f"{line}\n" for line in lines) * n, "utf-8")
    return Task(str(path), ("word", "pos"), "chunk", "tutorial")


def _rate(tokens: int, small: float, large: float) -> float:
    if large <= small:
        raise BenchmarkError(f"many copies took {large:.3f} s, one {small:.3f} s: too noisy")
    return tokens / (large - small)


def _check(bench: Bench, copies: int, lines: int) -> None:
    """Both sides wrote a line for each line; threads wrote the same."""
    written = {n: Path(bench.path(f"ours-{n}.txt")).read_bytes() for n in (1, 2)}
    if written[1] != written[2]:
        raise BenchmarkError("1 and 2 threads wrote different files")
    for name in ("ours-1.txt", "theirs.txt"):
        found = len(Path(bench.path(name)).read_text("utf-8").splitlines())
        if found != (1 + copies) * lines:
            raise BenchmarkError(f"{name} has {found:,} lines, expected {(1 + copies) * lines:,}")


def start(bench: Bench) -> list[Line]:
    """Start of the process to the labels of one sentence; median of ten, after one unmeasured."""
    ours, theirs = bench.chunkers()
    text = Path(bench.corpus("conll2000/test.txt")).read_text("utf-8").partition("\n\n")[0]
    given = "".join(line.rpartition(" ")[0] + "\n" for line in text.splitlines()) + "\n"
    sentence = Path(bench.path("sentence.txt"))
    sentence.write_text(given)
    python = [sys.executable, "-c"]
    command = [sys.executable, "-m", "fstcrf.cli", "tag", ours]
    rounds = 1 + (3 if bench.quick else _STARTS)
    peer, api, program = in_turns(
        rounds,
        partial(_until_printed, bench, [*python, _THEIRS, theirs], sentence),
        partial(_until_printed, bench, [*python, _OURS, ours], sentence),
        lambda: bench.run(command, stdin=given).seconds,
    )
    return [
        Line(
            key,
            f"process start, load, first sentence tagged: {how}",
            median_of([{"s": s} for s in runs[1:]], "s"),
            median_of([{"s": s} for s in peer[1:]], "s"),
            "s",
            samples={"fstcrf": runs, "python-crfsuite": peer},
        )
        for key, how, runs in (("start-api", "Python", api), ("start-cli", "`fstcrf tag`", program))
    ]


def _until_printed(bench: Bench, command: list[str], sentence: Path) -> float:
    """Seconds until the labels are printed."""
    with machine.pinned(machine.cores()[-1:]), sentence.open() as stdin:
        started = time.perf_counter()
        process = subprocess.Popen(
            command,
            cwd=machine.ROOT,
            env=bench.environment(),
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
    with process:
        labels = process.stdout.readline().split() if process.stdout is not None else []
        seconds = time.perf_counter() - started
        _, said = process.communicate()
    if process.returncode or len(labels) != len(sentence.read_text().split("\n")) - 2:
        raise BenchmarkError(f"no labels: {said.strip()[-300:]}")
    return seconds
