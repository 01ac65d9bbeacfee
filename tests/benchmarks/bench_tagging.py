"""Tagging: column file to column file, and from the start of a process to the first sentence."""

from __future__ import annotations

import itertools
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeAlias

from tests.benchmarks import machine
from tests.benchmarks.report import Line
from tests.benchmarks.running import Bench, BenchmarkError, in_turns, median_of
from tests.benchmarks.tasks import Task

_STARTS = 10
_REPEATS = 3  # fstcrf takes a fraction of a second: its times are more easily disturbed

_Times: TypeAlias = dict[str, tuple[float, float]]
"""Wall and processor seconds, by the name of the file."""

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
    """Column file in, column file out, less the time for one copy of the test file."""
    ours, theirs = bench.chunkers()
    files = _files(bench)

    def our_seconds(threads: int) -> _Times:
        def seconds(file: _File) -> tuple[float, float]:
            arguments = ("tag", ours, file.path, "-o", bench.path(f"{file.name}.ours-{threads}"))
            more = ("--threads", str(threads))
            done = bench.fstcrf(*arguments, *more, cores=threads)
            return done.seconds, done.cpu

        return {file.name: seconds(file) for file in files}

    def their_seconds() -> _Times:
        def seconds(file: _File) -> tuple[float, float]:
            task = Task(file.path, ("word", "pos"), "chunk", "tutorial")
            output = bench.path(f"{file.name}.theirs")
            done = bench.work("theirs", "tag", task, model=theirs, output=output)
            return done["wall"], done["cpu"]

        return {file.name: seconds(file) for file in files}

    bench.fstcrf("tag", ours, files[0].path, "-o", bench.path("warm"))  # caches its byte code
    works = [partial(our_seconds, n) for n in (1, 2)] * _REPEATS
    peer, *mine = in_turns(bench.rounds, their_seconds, *works)
    both = [list(itertools.chain(*mine[k::2])) for k in (0, 1)]
    _check(bench, files)
    return [
        _tagging_line(file, files[0], n, runs, peer)
        for file in files[1:]
        for n, runs in zip((1, 2), both, strict=True)
    ]


@dataclass(frozen=True, slots=True)
class _File:
    """A file to tag: words and POS tags, as one has them before tagging."""

    name: str
    what: str
    path: str
    text: str

    @property
    def tokens(self) -> int:
        return sum(1 for line in self.text.splitlines() if line)


def _files(bench: Bench) -> list[_File]:
    """One copy of the test file, which is taken off; that and more copies; text without repeats."""
    copies = 4 if bench.quick else 20
    test, train = (
        _untagged(bench.corpus(f"conll2000/{name}.txt", whole=True)) for name in ("test", "train")
    )
    texts = {
        "one": ("", test),
        "copies": (f"{copies} copies of the test file", test * (1 + copies)),
        "train": ("the training file", test + train),
    }
    files = [
        _File(name, what, bench.path(f"{name}.txt"), text) for name, (what, text) in texts.items()
    ]
    for file in files:
        Path(file.path).write_text(file.text, "utf-8")
    return files


def _untagged(path: str) -> str:
    lines = Path(path).read_text("utf-8").rstrip("\n").splitlines()
    return "".join(line.rpartition(" ")[0] + "\n" for line in [*lines, ""])


def _tagging_line(
    file: _File, base: _File, threads: int, ours: list[_Times], theirs: list[_Times]
) -> Line:
    tokens = file.tokens - base.tokens
    line = Line(
        f"tagging-{threads}" if file.name == "copies" else f"tagging-{file.name}-{threads}",
        f"tagging {file.what}, file to file, {threads} thread{'s' if threads > 1 else ''}",
        unit="tokens/s",
        more_is_better=True,
        samples={"tokens": tokens, "fstcrf": ours, "python-crfsuite": theirs},
    )
    wall, cpu = ([_more(runs, file, base, k) for runs in (ours, theirs)] for k in (0, 1))
    if min(*wall, *cpu) <= 0:
        line.error = "more text took less time: the machine is too busy"
        return line
    line.ours, line.peer = tokens / wall[0], tokens / wall[1]
    line.note = (
        f"{tokens:,} tokens; a second of processors does {tokens / cpu[0]:,.0f} "
        f"against {tokens / cpu[1]:,.0f}"
    )
    return line


def _more(runs: list[_Times], file: _File, base: _File, clock: int) -> float:
    """Return how much longer a file took than the one copy."""
    long, short = (statistics.median(run[f.name][clock] for run in runs) for f in (file, base))
    return long - short


def _check(bench: Bench, files: list[_File]) -> None:
    """Both sides wrote a line for each line; threads wrote the same."""
    for file in files:
        ours, two, theirs = (
            Path(bench.path(f"{file.name}.{side}")).read_bytes()
            for side in ("ours-1", "ours-2", "theirs")
        )
        if ours != two:
            raise BenchmarkError(f"{file.what}: 1 and 2 threads wrote different files")
        lines = [text.count(b"\n") for text in (file.text.encode(), ours, theirs)]
        if len(set(lines)) != 1:
            raise BenchmarkError(f"{file.what}: {lines} lines in the input, of ours, of the peer")


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
