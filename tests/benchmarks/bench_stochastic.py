"""Averaged stochastic gradients: beside Bottou's crfasgd, and beside an evaluation.

crfasgd is `crf/crfasgd.cpp` of Bottou's sgd; the variable FSTCRF_CRFASGD names the built program.
"""

from __future__ import annotations

import os
import random
import statistics
from functools import partial
from pathlib import Path
from typing import Any

from tests.benchmarks.bench_growth import morphology
from tests.benchmarks.report import Line
from tests.benchmarks.running import Bench, Finished, in_turns, median_of
from tests.benchmarks.tasks import Task

PEER = "crfasgd"
SEEDS = range(1, 6)
# crfasgd has weights for all labels of each attribute that occurs three times, and of all pairs.
# The rest was chosen on the last 1,000 training sentences: they are the defaults.
_ALL = ("--set", "pairs=complete", "--set", "transitions=all")
OPTIONS = ("--method", "asgd", "--min-count", "3", *_ALL)


def averaged(bench: Bench) -> list[Line]:
    """Files to a saved model, one thread; F is the mean over five seeds."""
    task, test = bench.chunking(), bench.chunking("test")
    task = Task(task.path, task.columns, task.target, "crf++")
    models = {seed: bench.path(f"asgd-{seed}.fstcrf") for seed in SEEDS}

    def ours(seed: int) -> Finished:
        given = (*OPTIONS, "--set", "boundary=pad", "--set", f"seed={seed}")
        return bench.train(task, models[seed], *given)

    program = os.environ.get("FSTCRF_CRFASGD")
    work = "files to saved model by averaged SGD, 1 thread"
    if program is None or not Path(program).is_file():
        line = Line("asgd", work, skipped="FSTCRF_CRFASGD names no program")
        runs = [ours(seed) for seed in SEEDS]
    else:
        template = bench.template("crf++")
        command = [program, "-q", "-c", "1", "-f", "3", "-r", "5", bench.path("peer.gz")]
        command += [template, task.path]
        seeds = iter([*SEEDS] * bench.rounds)
        found = in_turns(bench.rounds, partial(bench.run, command), lambda: ours(next(seeds)))
        theirs, runs = found
        runs += [ours(seed) for seed in SEEDS[bench.rounds :]]
        line = Line(
            "asgd",
            work,
            median_of(runs, "seconds"),
            median_of(theirs, "seconds"),
            "s",
            peer_name=PEER,
            note=(
                f"{median_of(runs, 'cpu'):.2f} s of processors against "
                f"{median_of(theirs, 'cpu'):.2f}; crfasgd without its scorings, 5 epochs"
            ),
            samples={PEER: [[run.seconds, run.cpu, run.peak] for run in theirs]},
        )
    line.samples["fstcrf"] = [[run.seconds, run.cpu, run.peak] for run in runs]
    scores = [
        bench.work("ours", "score", task, model=models[seed], test=test.path)["f1"]
        for seed in SEEDS
    ]
    quality = Line(
        "asgd-f1",
        f"its F, mean of {len(scores)} seeds",
        statistics.mean(scores),
        unit="%",
        note=", ".join(f"{one:.2f}" for one in scores),
    )
    return [line, quality]


def rich_corpus(path: str, *, labels: int, sentences: int, length: int = 12) -> None:
    """Write a corpus in which ten labels at most follow each: words tell theirs, but not surely."""
    draw = random.Random(7)
    after = [draw.sample(range(labels), 10) for _ in range(labels)]
    with Path(path).open("w", encoding="utf-8") as file:
        for _ in range(sentences):
            label = draw.randrange(labels)
            for _ in range(length):
                word = label if draw.random() < 0.8 else draw.randrange(labels)
                file.write(f"w{word} T{label % 40} L{label}\n")
                label = draw.choice(after[label])
            file.write("\n")


def rich_task(bench: Bench) -> Task:
    path, labels = bench.path("rich.txt"), 200 if bench.quick else 1000
    rich_corpus(path, labels=labels, sentences=300 if bench.quick else 1500)
    return Task(path, ("word", "pos", "chunk"), "chunk", "words")


_RICH = (
    ("rich-evaluation", "objective and gradient", "evaluation"),
    ("rich-tagging", "best paths", "best paths"),
    ("rich-marginals", "marginals of a batch", "marginals"),
    ("rich-nbest", "the five best paths of a batch", "five best"),
    ("rich-sentence", "marginals of one sentence", "one sentence"),
    ("rich-composition", "marginals beside a tape of 5 labels", "composition"),
)


def rich(bench: Bench) -> list[Line]:
    """Over the label pairs that have weights, and over all: training, tagging, lattices."""
    made = rich_task(bench)
    lines = []
    for task, kinds in ((made, _RICH), (morphology(bench)[0], _RICH[:2])):
        found = bench.work("ours", "rich", task, rounds=bench.rounds)
        pairs = f"{found['labels']:,} labels: over {100 * found['pairs']:.1f} % of the pairs"
        lines += [
            Line(
                key if task is made else f"{key}-340",
                f"{what}, {pairs}",
                1e3 * found[name][1],
                1e3 * found[name][0],
                "ms",
                peer_name="over all pairs",
                note=f"{found['tokens']:,} tokens",
                samples={"fstcrf": found},
            )
            for key, what, name in kinds
        ]
    return lines


def steps(bench: Bench) -> list[Line]:
    """How many evaluations the slowest step of a training takes."""
    task = rich_task(bench)
    runs = [bench.work("ours", "steps", task, iterations=3) for _ in range(bench.rounds)]
    costs: dict[str, float] = {
        kind: statistics.median(run["kinds"][kind] / run["evaluation"] for run in runs)
        for kind in runs[0]["kinds"]
    }
    slowest = max(costs, key=costs.__getitem__)
    first: dict[str, Any] = runs[0]
    return [
        Line(
            "slowest-step",
            f"slowest step of a training with {first['labels']:,} labels, in evaluations",
            costs[slowest],
            note=(
                ", ".join(f"{kind} {cost:.2f}" for kind, cost in costs.items())
                + f"; {100 * first['pairs']:.1f} % of pairs occur; an evaluation takes "
                f"{first['evaluation']:.2f} s of a processor for {first['tokens']:,} tokens"
            ),
            samples={"fstcrf": runs},
        )
    ]
