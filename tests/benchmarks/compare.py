"""The quick benchmarks of an old commit and of this checkout, in turns.

``python -m tests.benchmarks.compare [COMMIT] --data FOLDER``

The old commit is checked out in a temporary worktree and has an environment of its own, with the
packages of this one and a kernel built for it. Each side runs its own ``tests.benchmarks``. Every
round takes a line of the old commit, of this checkout and of the old commit once more: what drifts
weighs on both sides alike, and the old runs say how far medians are from one another where nothing
changed.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from tests.benchmarks import machine
from tests.benchmarks.__main__ import LINES
from tests.benchmarks.report import number, table
from tests.benchmarks.running import BenchmarkError

ROUNDS = 5
MOST_ROUNDS = 8  # all halves of 16 runs are looked at
BASELINE = "d9af6233f95164d0eca4af9b115b3d1a2c2941a1"
"""The commit that changes are compared with where none is named."""
ALLOWED, ALLOWED_IN_ALL = 0.05, 0.10
"""How much slower a line may be than an old commit, and than the baseline after all changes."""
DEFAULT = ["training", "evaluations", "tagging", "start"]
DEFAULT += ["constraint", "products", "ranking", "taggers"]

# A run of ``tests.benchmarks`` caches byte code in a scratch folder that is empty at first. Here a
# line has few runs, and compiling the modules would count: it stays beside the sources instead.
_RUN = """\
import os, sys
from tests.benchmarks import running
running.Bench.environment = lambda bench: dict(os.environ)
from tests.benchmarks.__main__ import main
sys.exit(main())
"""


@dataclass(frozen=True, slots=True)
class Side:
    """A checkout and the interpreter that has its package."""

    name: str  # the commit
    folder: Path
    python: Path

    def lines(self, name: str, data: Path, report: Path) -> dict[str, dict[str, Any]]:
        """Run one benchmark; what came of its lines, by their keys."""
        report.unlink(missing_ok=True)
        options = ["--quick", "--rounds", "1", "--only", name]
        options += ["--data", str(data), "--json", str(report)]
        done = self._run(["-c", _RUN, *options])
        if not report.is_file():
            said = " / ".join(done.stderr.strip().splitlines()[-3:])
            raise BenchmarkError(f"{name} of {self.name} ended with {done.returncode}: {said}")
        return {line["key"]: line for line in json.loads(report.read_text("utf-8"))["lines"]}

    def compile(self) -> None:
        """Cache the byte code of package and benchmarks."""
        self._run(["-m", "compileall", "-q", "fstcrf", "tests/benchmarks"])

    def _run(self, arguments: list[str]) -> subprocess.CompletedProcess[str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
        return subprocess.run(
            [str(self.python), *arguments],
            cwd=self.folder,
            env=kept,
            capture_output=True,
            text=True,
            check=False,
        )


@dataclass(slots=True)
class Pair:
    """One line on both sides.

    Parameters
    ----------
    work : str
    unit : str
    more_is_better : bool
    old, new : list of float
        Two runs of the old commit for each of the new one.
    errors : list of str
        Of runs that gave no number.
    allowed : float
        How much slower the new commit may be, as a part of the old.
    """

    work: str
    unit: str = ""
    more_is_better: bool = False
    old: list[float] = field(default_factory=list)
    new: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    allowed: float = ALLOWED

    def add(self, side: Literal["old", "new"], line: dict[str, Any]) -> None:
        if line["ours"]:
            getattr(self, side).append(line["ours"])
        elif line["error"] or line["skipped"]:
            self.errors.append(f"{side}: {line['error'] or line['skipped']}")

    @property
    def ratio(self) -> float:
        """The cost of the new over that of the old: medians; above 1 is slower."""
        new, old = statistics.median(self.new), statistics.median(self.old)
        return old / new if self.more_is_better else new / old

    @property
    def spread(self) -> float:
        """How far from 1 the old commit is from itself.

        The runs of the old commit are parted in two halves in every way; of the ratios of their
        medians, 19 of 20 are nearer to 1 than this. 0 where there is one run alone.
        """
        count = len(self.old)
        if count < 2:
            return 0.0
        ratios = []
        for half in itertools.combinations(range(count), count // 2):
            inside = statistics.median(self.old[k] for k in half)
            outside = statistics.median(self.old[k] for k in range(count) if k not in half)
            ratios.append(max(inside / outside, outside / inside) - 1)
        return sorted(ratios)[math.ceil(0.95 * len(ratios)) - 1]

    def verdict(self) -> str:
        """Say whether the new is as quick as the old."""
        if not self.old or not self.new:
            return "failed" if self.errors else "nothing to compare"
        margin = max(self.allowed, self.spread)
        if self.ratio <= 1 + margin:
            return "faster" if self.ratio < 1 - margin else "same"
        return "slower"

    def cells(self) -> list[str]:
        """Return the row of the table."""
        if not self.old or not self.new:
            return [self.work, "", "", "", "", self.verdict()]
        old, new = (number(statistics.median(runs), self.unit) for runs in (self.old, self.new))
        ratio, spread = f"{self.ratio:.3f}", f"± {100 * self.spread:.1f} %"
        return [self.work, old, new, ratio, spread, self.verdict()]


def measure(
    old: Side,
    new: Side,
    names: Sequence[str],
    data: Path,
    rounds: int = ROUNDS,
    allowed: float = ALLOWED,
) -> dict[str, Pair]:
    """Run benchmarks of both sides in turns: old, new and old again in each round.

    Raises
    ------
    BenchmarkError
        One could not be run.
    """
    pairs: dict[str, Pair] = {}
    with tempfile.TemporaryDirectory(prefix="fstcrf-compare-") as folder:
        report = Path(folder) / "report.json"
        for name in names:
            for done in range(rounds):
                _say(f"{name}, round {done + 1} of {rounds}")
                for kind, side in (("old", old), ("new", new), ("old", old)):
                    for key, line in side.lines(name, data, report).items():
                        pair = pairs.setdefault(key, _pair(line, allowed))
                        pair.add("new" if kind == "new" else "old", line)
    return pairs


def _pair(line: dict[str, Any], allowed: float) -> Pair:
    return Pair(line["work"], line["unit"], line["more_is_better"], allowed=allowed)


# --- The old commit -------------------------------------------------------------------------------


@contextmanager
def _worktree(commit: str, folder: Path) -> Iterator[Path]:
    """Check out a commit for the time being."""
    place = folder / "old"
    _git("worktree", "add", "--quiet", "--detach", str(place), commit)
    try:
        yield place
    finally:
        _git("worktree", "remove", "--force", str(place))


def _git(*arguments: str) -> str:
    return _done(["git", *arguments], machine.ROOT)


def _done(command: list[str], folder: Path, **environment: str) -> str:
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        said = " / ".join(done.stderr.strip().splitlines()[-3:])
        raise BenchmarkError(f"{' '.join(command[:3])} ended with {done.returncode}: {said}")
    return done.stdout.strip()


def _environment(place: Path, folder: Path) -> Path:
    """Make an environment with the packages of this one, and the fstcrf of a checkout."""
    _say("building the old commit")
    _done([sys.executable, "-m", "venv", "--without-pip", str(folder)], place)
    python = folder / "bin" / "python"
    where = 'import sysconfig; print(sysconfig.get_path("purelib"))'
    packages = Path(_done([str(python), "-c", where], place))
    mine = [path for path in sys.path if Path(path).name in {"site-packages", "dist-packages"}]
    (packages / "main.pth").write_text("\n".join(mine) + "\n", "utf-8")
    install = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet"]
    install += ["--disable-pip-version-check", "--no-deps", "--no-build-isolation", "--editable"]
    tools = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    _done([*install, "."], place, PATH=tools)
    return python


# --- The command ----------------------------------------------------------------------------------


def main() -> int:
    """Compare, print the table; 1 where a line is slower or failed."""
    options = _options()
    allowed = ALLOWED if options.base else ALLOWED_IN_ALL
    started = time.perf_counter()
    load = machine.this().load
    if load > 0.5:
        _say(f"the load is {load:.2f}: other processes will disturb the numbers")
    try:
        commit = _git(
            "rev-parse", "--short=12", "--verify", f"{options.base or BASELINE}^{{commit}}"
        )
        with (
            tempfile.TemporaryDirectory(prefix="fstcrf-old-") as folder,
            _worktree(commit, Path(folder)) as place,
        ):
            old = Side(commit, place, _environment(place, Path(folder) / "venv"))
            new = Side(machine.commit(), machine.ROOT, Path(sys.executable))
            for side in (old, new):
                side.compile()
            data = options.data.resolve()
            pairs = measure(old, new, options.only, data, options.rounds, allowed)
    except BenchmarkError as error:
        _say(str(error))
        return 1
    head = ["work", f"old ({old.name})", f"new ({new.name})", "new / old", "old / old", "verdict"]
    print(table(head, [pair.cells() for pair in pairs.values()]))
    print(
        f"\nMedians of {options.rounds} rounds, {2 * options.rounds} runs of the old commit; "
        f"load {load:.2f} before, {time.perf_counter() - started:.0f} s. A ratio above 1 is "
        f"slower; the same is within {100 * allowed:.0f} % or what lies between runs of the old."
    )
    for pair in pairs.values():
        for said in dict.fromkeys(pair.errors):
            _say(f"{pair.work}: {said}")
    return 1 if any(pair.verdict() in {"slower", "failed"} for pair in pairs.values()) else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.compare")
    given = os.environ.get("FSTCRF_DATA")
    told = f"The old commit [{BASELINE[:7]}, the baseline]"
    parser.add_argument("base", nargs="?", metavar="COMMIT", help=told)
    parser.add_argument(
        "--data", type=Path, default=given and Path(given), help="[default: $FSTCRF_DATA]"
    )
    parser.add_argument("--rounds", type=int, metavar="N", default=ROUNDS, help=f"[{ROUNDS}]")
    parser.add_argument(
        "--only", nargs="+", choices=LINES, default=DEFAULT, help=f"[{' '.join(DEFAULT)}]"
    )
    options = parser.parse_args()
    if options.data is None or not options.data.is_dir():
        parser.error("say where the corpora are: --data FOLDER")
    if not 1 <= options.rounds <= MOST_ROUNDS:
        parser.error(f"--rounds is {options.rounds}, expected 1 to {MOST_ROUNDS}")
    return options


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
