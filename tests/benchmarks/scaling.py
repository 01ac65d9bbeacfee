"""Training over parts: seconds an evaluation, bytes over the wire, memory, a killed worker.

``python -m tests.benchmarks.scaling --data DIR [--texts conll:16 conll:64 ud:32] [--rounds N]
[--write]`` prints the measurements, and an estimate for more machines; ``--write`` writes both into
docs/measurements/benchmarks-scaling.tsv. ``python -m tests.benchmarks --only scaling`` judges the
ratios. Each run is a process of its own, and kinds of runs take turns.

Kinds: ``memory`` without workers; ``limit`` within a limit; ``pressed`` the same, while a control
group (of Linux, as root) gives process and page cache together no more than the limit, so that each
evaluation reads the disk; ``process-N`` and ``dask-N`` with N workers of one thread.
"""

from __future__ import annotations

import argparse
import atexit
import importlib.util
import json
import math
import os
import re
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from fstcrf.ext.cluster.dask import DaskExecutor
from fstcrf.ext.parts.futures import ProcessExecutor
from fstcrf.text.corpus.collection import CorpusFiles
from fstcrf.training import Progress
from fstcrf.training.executors.executor import Executor
from tests.benchmarks import accuracy, machine
from tests.benchmarks.report import Line, table
from tests.benchmarks.running import Bench, BenchmarkError
from tests.support.training import flat_train

PAGE = machine.PAGES / "benchmarks-scaling.tsv"
COLUMNS = ("word", "pos", "chunk")
TREEBANKS = "ud_english_ewt/en_ewt-ud-{}.conllu"
FORMS = """\
U00:%x[-2..2,form]
U01:%x[-1..0,form]/%x[0..1,form]
B
"""
TEMPLATE = accuracy.CHUNKS.replace("BOS\nEOS\n", "")
KINDS = ("memory", "limit", "pressed", "process-1", "process-2", "dask-1", "dask-2")
LIMIT = 1 << 29
GROUPS = Path("/sys/fs/cgroup")
_WARM = 2


# --- One run --------------------------------------------------------------------------------------


@contextmanager
def opened(kind: str) -> Iterator[Executor | None]:
    """Open the executor of a kind of run."""
    name, _, count = kind.partition("-")
    if name == "process":
        with ProcessExecutor(int(count)) as executor:
            yield executor
    elif name == "dask":
        from distributed import Client, LocalCluster

        with (
            LocalCluster(
                n_workers=int(count), threads_per_worker=1, dashboard_address=None
            ) as cluster,
            Client(cluster) as client,
        ):
            yield DaskExecutor(client, workers=int(count))
    else:
        yield None


def measured(path: str, kind: str, iterations: int, *, kill: bool) -> dict[str, Any]:
    """Train; return what it took."""
    seen: list[tuple[float, int, int, list[float]]] = []
    group = None
    if kind == "pressed":
        group = Group()
        atexit.register(group.close)
        group.join()
    with opened(kind) as executor:
        started = time.perf_counter()

        def report(progress: Progress) -> None:
            now = time.perf_counter(), progress.evaluations, wire(), spent(executor)
            seen.append(now)
            if group is not None and progress.iteration == 1:
                group.press()
            if kill and progress.iteration == iterations // 2:
                os.kill(workers(executor)[0], signal.SIGKILL)

        options: dict[str, Any] = {}
        if kind in ("limit", "pressed"):
            options["memory_limit"] = LIMIT
        treebank = path.endswith(".conllu")
        model = flat_train(
            CorpusFiles([path], None if treebank else COLUMNS),
            "upos" if treebank else "chunk",
            FORMS if treebank else TEMPLATE,
            boundary="skip",
            executor=executor,
            stochastic_epochs=0,
            max_iterations=iterations,
            report=report,
            **options,
        )
        peaks = [peak(pid) for pid in workers(executor)] if executor is not None else []
    record = model.record
    if record is None:
        raise BenchmarkError("a model without a record")
    pairs = list(zip(seen[_WARM - 1 :], seen[_WARM:], strict=False))
    seconds = [(b[0] - a[0]) / max(1, b[1] - a[1]) for a, b in pairs]
    return {
        "kind": kind,
        "tokens": record.tokens,
        "weights": record.parameters,
        "attributes": record.attributes,
        "setup": seen[0][0] - started,
        "seconds": seconds,
        "wire": statistics.median((b[2] - a[2]) / max(1, b[1] - a[1]) for a, b in pairs),
        "processors": statistics.median(
            _busiest(a[3], b[3]) / max(1, b[1] - a[1]) for a, b in pairs
        ),
        "peak": 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
        "worker_peaks": peaks,
        "objective": record.objective,
    }


class Group:
    """A control group of this process, whose memory counts the pages of files that it reads."""

    def __init__(self) -> None:
        for home, limit in ((GROUPS / "memory", "memory.limit_in_bytes"), (GROUPS, "memory.max")):
            self._home, self._folder = home, home / f"fstcrf-scaling-{os.getpid()}"
            self._limit = self._folder / limit
            with suppress(OSError):
                self._folder.mkdir()
                if self._limit.exists():
                    return
                self._folder.rmdir()
        raise BenchmarkError("no control group can be made here: leave out the kind pressed")

    @classmethod
    def possible(cls) -> bool:
        """Tell whether one can be made."""
        with suppress(BenchmarkError):
            cls()._folder.rmdir()
            return True
        return False

    def join(self) -> None:
        """Count what this process takes from now on."""
        (self._folder / "cgroup.procs").write_text(str(os.getpid()))

    def press(self) -> None:
        """Limit it, once the text is laid out."""
        os.sync()  # pages that are not written yet cannot go
        self._limit.write_text(str(LIMIT))

    def close(self) -> None:
        (self._home / "cgroup.procs").write_text(str(os.getpid()))
        self._folder.rmdir()


def workers(executor: Executor | None) -> list[int]:
    """Return the numbers of the processes of an executor."""
    if isinstance(executor, ProcessExecutor):
        return executor.pids
    if isinstance(executor, DaskExecutor):
        return list(executor.client.run(os.getpid).values())
    return []


def spent(executor: Executor | None) -> list[float]:
    """Return the processor seconds of this process, and of each worker."""
    ticks = os.sysconf("SC_CLK_TCK")
    found = [time.process_time()]
    for pid in workers(executor):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        found.append((int(fields[11]) + int(fields[12])) / ticks)
    return found


def _busiest(before: Sequence[float], after: Sequence[float]) -> float:
    """Return what this process and the busiest worker spent in between."""
    here, *others = [b - a for a, b in zip(before, after, strict=False)]
    return here + max(others, default=0.0)


def processors(runs: Sequence[dict[str, Any]]) -> float:
    """Return the median of the processor seconds of an evaluation that follow each other."""
    return float(statistics.median(one["processors"] for one in runs))


def peak(pid: int) -> int:
    """Return the most resident memory that a process had, bytes."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    return 1024 * int(found[1]) if found else 0


def wire() -> int:
    """Return how many bytes went over the loopback device."""
    found = re.search(r"^\s*lo:\s*(\d+)", Path("/proc/net/dev").read_text(), re.MULTILINE)
    return int(found[1]) if found else 0


# --- All runs -------------------------------------------------------------------------------------


def text(data: Path, folder: Path, copies: int, name: str = "conll") -> Path:
    """Write a text so many times into a file: of CoNLL-2000, or all of the treebank of English."""
    if name == "conll":
        parts, path = [data / "conll2000" / "train.txt"], folder / f"conll-{copies}.txt"
    else:
        parts = [data / TREEBANKS.format(part) for part in ("train", "dev", "test")]
        path = folder / f"{name}-{copies}.conllu"
    source = b"".join(part.read_bytes().rstrip(b"\n") + b"\n\n" for part in parts)
    if not path.exists():
        with path.open("wb") as file:
            for _ in range(copies):
                file.write(source)
    return path


def run(path: Path, kind: str, iterations: int, *, kill: bool = False) -> dict[str, Any]:
    """Measure in a process of its own."""
    command = [sys.executable, "-m", "tests.benchmarks.scaling", "--one", str(path), kind]
    command += [str(iterations), *["--kill"] * kill]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=machine.ROOT)
    if done.returncode:
        raise BenchmarkError(f"{kind}: {done.stderr.strip()[-300:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def in_rounds(
    path: Path, kinds: Sequence[str], rounds: int, iterations: int
) -> dict[str, list[dict[str, Any]]]:
    """Run each kind so often, in turns."""
    found: dict[str, list[dict[str, Any]]] = {kind: [] for kind in kinds}
    for _ in range(rounds):
        for kind in kinds:
            found[kind].append(run(path, kind, iterations))
            print(kind, f"{seconds(found[kind]):.2f} s", file=sys.stderr, flush=True)
    if len({one["objective"] for several in found.values() for one in several}) > 1:
        raise BenchmarkError("objectives differ in their bits")
    return found


def seconds(runs: Sequence[dict[str, Any]]) -> float:
    """Return the median seconds of an evaluation."""
    return float(statistics.median(second for one in runs for second in one["seconds"]))


def kinds_here() -> list[str]:
    """Return the kinds of runs that can be measured: those of Dask where it is installed."""
    there = importlib.util.find_spec("distributed") is not None
    absent = [] if there else ["dask-1", "dask-2"]
    absent += [] if Group.possible() else ["pressed"]
    return [kind for kind in KINDS if kind not in absent]


def scaling(bench: Bench) -> list[Line]:
    """Two workers against one, one against none, a limit of memory against none."""
    copies, iterations = (4, 5) if bench.quick else (64, 8)
    path = text(bench.data, bench.folder, copies)
    kinds = [kind for kind in kinds_here() if kind != "pressed"]
    runs = in_rounds(path, kinds, bench.rounds, iterations)
    took = {kind: seconds(found) for kind, found in runs.items()}
    lines = []
    for name in ("process", "dask"):
        if f"{name}-1" in took:
            lines += [
                Line(
                    "scaling-workers",
                    f"{copies} corpora: two workers ({name}) over one",
                    took[f"{name}-1"] / took[f"{name}-2"],
                    unit="×",
                    samples=runs,
                ),
                Line(
                    "scaling-overhead",
                    f"{copies} corpora: one worker ({name}) against none",
                    took[f"{name}-1"] / took["memory"],
                    unit="×",
                ),
            ]
    limit = took["limit"] / took["memory"]
    lines.append(
        Line("scaling-limit", f"{copies} corpora within {LIMIT >> 20} MiB", limit, unit="×")
    )
    return lines


def section(found: dict[str, dict[str, list[dict[str, Any]]]], killed: dict[str, Any]) -> str:
    """Return the measurements as a section of the page."""
    this, rows, costs = machine.this(), [], []
    for name, runs in found.items():
        whole = seconds(runs["memory"])
        for kind, several in runs.items():
            one = several[0]
            tokens, peaks = one["tokens"] / 1e6, [one["peak"], *one["worker_peaks"]]
            rows.append(
                [
                    f"{name}, {tokens:.1f} M tokens",
                    kind,
                    f"{seconds(several):.2f}",
                    f"{whole / seconds(several):.2f}",
                    f"{processors(runs['memory']) / processors(several):.2f}",
                    f"{one['wire'] / 1e6:.1f}" if kind.startswith("dask") else "",
                    " + ".join(f"{size / 1e6:,.0f}" for size in peaks),
                    f"{sum(peaks) / 1e6 / tokens:.0f}",
                ]
            )
        costs.append(f"{name}: {one['weights']:,} weights of {one['attributes']:,} attributes")
    head = [
        "text",
        "run",
        "s an evaluation",
        "speed",
        "by processors",
        "MB over the wire",
        "peak MB",
        "MB a M tokens",
    ]
    return "\n".join(
        [
            _setting(this, costs),
            "",
            table(head, rows),
            "",
            _killed(killed),
        ]
    )


def _setting(this: machine.Machine, costs: Sequence[str]) -> str:
    return (
        f"{this.processor}, {this.cores} cores, {this.memory}; Python {this.python}, commit "
        f"{machine.commit()}, load {this.load:.1f} when it began. "
        f"{'; '.join(dict.fromkeys(costs))}; {LIMIT >> 20} MiB is the limit of memory. *Speed* is "
        "by the clock, over *memory*; *by processors* by the processor time of this process and "
        "the busiest worker, which other load does not disturb as much. Peaks are of the process "
        "that trains, then of workers."
    )


def _killed(killed: dict[str, Any]) -> str:
    steps = killed["seconds"]
    return (
        f"A worker killed in the middle ({killed['kind']}): an evaluation of that iteration took "
        f"{max(steps):.1f} s, the others {statistics.median(steps):.2f} s; to read the text and "
        f"begin took {killed['setup']:.1f} s. The objective has the same bits in all runs."
    )


# --- What follows for more machines ---------------------------------------------------------------

TOKENS, THREADS, NETWORK, MEMORY = 1e9, 8, 1.25e9, 1e10  # bytes a second, both


def levels(n: float) -> int:
    """Return the levels of a tree of so many leaves."""
    return max(0, math.ceil(math.log2(n)))


def seconds_of(machines: int, cost: float, weights: float) -> list[float]:
    """Return the seconds of an evaluation, as the page adds them up."""
    return [
        TOKENS * cost / (machines * THREADS),
        4 * weights * levels(machines + 1) / NETWORK,
        (8 * weights / NETWORK + 24 * weights / MEMORY) * levels(machines),
        200 * weights / MEMORY,
    ]


def bytes_of(machines: int, weights: float) -> float:
    """Return the memory of a worker."""
    parts = TOKENS / (1 << 20) / machines / THREADS  # of each thread
    kept = 8 * weights * (levels(parts) + 1)
    return 300 * TOKENS / machines + 6 * weights + THREADS * kept


def computed(cost: float) -> str:
    """Return what a text of a thousand million tokens needs, at so many seconds a token."""
    weights, sizes = 1e8, (1, 4, 16, 64)
    rows = []
    for machines in sizes:
        parts = seconds_of(machines, cost, weights)
        memory = bytes_of(machines, weights) / 1e9
        rows.append(
            [
                str(machines),
                *(f"{part:.1f} s" for part in parts),
                f"{sum(parts):.0f} s",
                f"{memory:.0f} GB",
            ]
        )
    fewer = [sum(seconds_of(machines, cost, weights / 10)) for machines in (sizes[0], sizes[-1])]
    best = min(range(1, 65), key=lambda machines: sum(seconds_of(machines, cost, weights)))
    head = ["machines", "sums of parts", "weights out", "sums back", "L-BFGS", "an evaluation"]
    setting = f"N = 10⁹, W = 10⁸, t = {THREADS}, c = {1e6 * cost:.2f} µs"
    return (
        f"For {setting}, B = 1.25 GB/s (10 Gbit/s), m = 10 GB/s:\n\n"
        f"{table([*head, 'a worker needs'], rows)}\n\n"
        f"So with so many weights it stops scaling at {best} machines: what is sent grows with\n"
        "the logarithm of the machines, what is computed shrinks with their number. With W = 10⁷\n"
        f"all but the first column is a tenth, and {sizes[-1]} machines take {fewer[1]:.1f} s\n"
        f"where one takes {fewer[0]:.0f}."
    )


def main() -> None:
    """Measure, and print the section."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.scaling", description=__doc__)
    parser.add_argument("--one", nargs=3, metavar=("TEXT", "KIND", "ITERATIONS"))
    parser.add_argument("--kill", action="store_true")
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("FSTCRF_DATA", ".")))
    parser.add_argument("--texts", nargs="+", default=["conll:16", "conll:64", "ud:32"])
    parser.add_argument("--kinds", nargs="+", default=kinds_here())
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--iterations", type=int, default=8)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    if options.one:
        path, kind, iterations = options.one
        print(json.dumps(measured(path, kind, int(iterations), kill=options.kill)))
        return
    with tempfile.TemporaryDirectory(prefix="fstcrf-scaling-") as folder:
        found = {}
        for given in options.texts:
            name, _, copies = given.partition(":")
            path = text(options.data, Path(folder), int(copies), name)
            long = {"conll": "CoNLL-2000", "ud": "UD English EWT"}[name]
            told = f"{copies} × {long}"
            print(told, file=sys.stderr, flush=True)
            found[told] = in_rounds(path, options.kinds, options.rounds, options.iterations)
        name, _, copies = options.texts[0].partition(":")
        path = text(options.data, Path(folder), int(copies), name)
        killed = run(path, options.kinds[-1], options.iterations, kill=True)
    largest = max((runs["memory"] for runs in found.values()), key=lambda runs: runs[0]["tokens"])
    cost = seconds(largest) / largest[0]["tokens"]
    written = f"{section(found, killed)}\n\n{computed(cost)}\n"
    print(written)
    if options.write:
        PAGE.write_text(machine.tab_separated(written), "utf-8")


if __name__ == "__main__":
    main()
