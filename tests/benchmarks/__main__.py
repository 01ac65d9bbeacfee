"""Benchmarks beside python-crfsuite and pynini: ``python -m tests.benchmarks --data FOLDER``.

Prints the report as Markdown; ends with 1 where a line failed or missed what it must reach.
"""

from __future__ import annotations

import argparse
import datetime as dt
import os
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path

from tests.benchmarks import (
    bench_addresses,
    bench_arrays,
    bench_cliffs,
    bench_composition,
    bench_doors,
    bench_growth,
    bench_inspected,
    bench_scaling_tagging,
    bench_stochastic,
    bench_tagging,
    bench_training,
    bench_transducers,
    door_page,
    machine,
    scaling,
)
from tests.benchmarks.report import Line, Report
from tests.benchmarks.running import Bench, BenchmarkError

LINES: dict[str, Callable[[Bench], list[Line]]] = {
    "cliffs-searches": bench_cliffs.searches,
    "cliffs-chains": bench_cliffs.chains,
    "cliffs-spans": bench_cliffs.spans,
    "cliffs-long": bench_cliffs.long,
    "cliffs-grammars": bench_cliffs.grammars,
    "doors": bench_doors.doors,
    "training": bench_training.training,
    "stochastic": bench_stochastic.averaged,
    "steps": bench_stochastic.steps,
    "rich": bench_stochastic.rich,
    "evaluations": bench_training.evaluations,
    "tagging": bench_tagging.tagging,
    "start": bench_tagging.start,
    "complete": bench_training.complete,
    "pos": bench_training.pos,
    "corpus-growth": bench_growth.corpus_growth,
    "label-growth": bench_growth.label_growth,
    "constraint": bench_composition.constraint,
    "products": bench_composition.products,
    "ranking": bench_composition.ranking,
    "taggers": bench_composition.taggers,
    "transducers": bench_transducers.transducers,
    "algebra": bench_transducers.algebra,
    "arrays": bench_arrays.arrays,
    "inspect": bench_inspected.inspect,
    "scaling-tagging": bench_scaling_tagging.scaling_tagging,
    "addresses": bench_addresses.addresses,
    "adversarial": bench_addresses.adversarial,
    "exactness": bench_training.exactness,
    "scaling": scaling.scaling,
}
ONLY_FULL = {"complete", "scaling"}
GROUPS = {"cliffs": [name for name in LINES if name.startswith("cliffs-")]}

PAGE = machine.PAGES / "benchmarks.tsv"
PLOT = "benchmarks-growth.svg"
ROUNDS = 3


def main() -> int:
    """Run the lines that are asked for."""
    options = _options()
    started = time.perf_counter()
    report = Report(
        machine=machine.this(),
        commit=machine.commit(),
        date=dt.datetime.now(dt.UTC).date().isoformat(),
        variant="",
        rounds=options.rounds or (1 if options.quick else ROUNDS),
        judged=not options.quick,
    )
    code = machine.fingerprint()
    if report.machine.load > 0.5:
        _say(f"the load is {report.machine.load:.2f}: other processes will disturb the numbers")
    with tempfile.TemporaryDirectory(prefix="fstcrf-bench-") as folder:
        bench = Bench(options.data, Path(folder), report.rounds, options.quick, _say)
        report.variant = bench.variant()
        for name in _chosen(options):
            report.lines += _measured(name, bench)
    if machine.fingerprint() != code:
        error = "the package changed while it was measured"
        report.lines.append(Line("code", "one and the same code", error=error))
    report.lines = bench_cliffs.worst_first(report.lines)
    report.seconds = time.perf_counter() - started
    _write(report, options)
    for line in report.failures():
        _say(f"{line.verdict()}: {line.work}: {line.error or 'less than it must reach'}")
    return 1 if report.failures() else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    given = os.environ.get("FSTCRF_DATA")
    parser.add_argument(
        "--data",
        type=Path,
        default=given and Path(given),
        help="Folder of the corpora. [default: $FSTCRF_DATA]",
    )
    parser.add_argument("--quick", action="store_true", help="Parts of the corpora, one round.")
    parser.add_argument("--full", action="store_true", help="Complete features as well.")
    parser.add_argument("--rounds", type=int, metavar="N", help=f"Runs a line. [default: {ROUNDS}]")
    parser.add_argument("--only", nargs="+", choices=[*GROUPS, *LINES], help="These lines.")
    parser.add_argument("--json", type=Path, metavar="FILE", help="Everything that was measured.")
    parser.add_argument("--write", action="store_true", help="Write the pages' files.")
    parser.add_argument("--page", type=Path, metavar="FILE", help="Write the report as Markdown.")
    options = parser.parse_args()
    if options.data is None or not options.data.is_dir():
        parser.error("say where the corpora are: --data FOLDER")
    if options.write and (options.quick or options.only not in (None, ["doors"])):
        parser.error("--write needs all lines at full size, or those of doors")
    return options


def _chosen(options: argparse.Namespace) -> list[str]:
    if options.only:
        wanted = {name for given in options.only for name in GROUPS.get(given, [given])}
        return [name for name in LINES if name in wanted]
    return [name for name in LINES if options.full or name not in ONLY_FULL]


def _measured(name: str, bench: Bench) -> list[Line]:
    """Measure; what fails becomes a line that says so."""
    _say(name)
    started = time.perf_counter()
    try:
        lines = LINES[name](bench)
    except Exception as error:  # noqa: BLE001 (whatever it is, the other lines are still wanted)
        if not isinstance(error, BenchmarkError):
            traceback.print_exc()
        lines = [Line(name, name, error=f"{type(error).__name__}: {error}")]
    _say(f"{name}: {time.perf_counter() - started:.0f} s")
    for line in lines:
        _say("  " + " | ".join(cell for cell in line.cells(judged=not bench.quick) if cell))
    return lines


def _write(report: Report, options: argparse.Namespace) -> None:
    if cliffs := bench_cliffs.section(report.lines):
        report.sections.append(cliffs)
    picture = None
    doors = [line for line in report.lines if line.key.startswith("doors-")]
    if options.write and doors:
        door_page.STORED.write_text(door_page.stored(report, doors), "utf-8")
        door_page.write(door_page.STORED.read_text("utf-8"))
        _say(f"wrote {door_page.STORED}, {door_page.PAGE}")
    whole = options.write and not options.only
    if whole:
        try:
            bench_growth.plot(report.lines, PAGE.with_name(PLOT))
            picture = PLOT
        except BenchmarkError as error:
            report.lines.append(Line("plot", "plot", error=str(error)))
    if growth := bench_growth.section(report.lines, picture):
        report.sections.append(growth)
    page = report.markdown()
    print(page)
    if whole:
        PAGE.write_text(machine.tab_separated(page), "utf-8")
        _say(f"wrote {PAGE}")
    if options.page is not None:
        options.page.write_text(page, "utf-8")
    if options.json is not None:
        options.json.write_text(report.json(), "utf-8")


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
