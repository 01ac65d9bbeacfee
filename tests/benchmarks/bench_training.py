"""Training: seconds per evaluation, files to a saved model, memory; and exactness."""

from __future__ import annotations

from functools import partial
from typing import Any

from tests.benchmarks.report import Line
from tests.benchmarks.running import Bench, BenchmarkError, Finished, in_turns, median_of
from tests.benchmarks.tasks import Task

Runs = list[dict[str, Any]]

_THREADS = (1, 2)
_WITHIN = 1.0001  # of CRFsuite's objective


def evaluations(bench: Bench) -> list[Line]:
    """Objective + gradient, against CRFsuite's seconds per evaluation."""
    theirs, *ours = _evaluated(bench, bench.chunking(), _THREADS)
    lines = [
        _evaluation_line(f"evaluation-{n}", f"objective and gradient, {_threads(n)}", runs, theirs)
        for n, runs in zip(_THREADS, ours, strict=True)
    ]
    lines += [
        _evaluation_line(
            f"iteration-{n}",
            f"L-BFGS iterations, per evaluation, {_threads(n)}",
            runs,
            theirs,
            name="seconds_per_iteration_evaluation",
        )
        for n, runs in zip(_THREADS, ours, strict=True)
    ]
    return lines


def pos(bench: Bench) -> list[Line]:
    """44 POS labels, from words."""
    theirs, ours = _evaluated(bench, bench.tagging(), (1,))
    labels = ours[0]["labels"]
    work = f"{labels} POS labels, objective and gradient, 1 thread"
    return [_evaluation_line("pos-1", work, ours, theirs)]


def _threads(n: int) -> str:
    return "1 thread" if n == 1 else f"{n} threads"


def _evaluated(bench: Bench, task: Task, threads: tuple[int, ...]) -> list[Runs]:
    """Iterate on both sides in turns, the peer first."""
    warm, timed = (4, 6) if bench.quick else (20, 20)

    def theirs() -> dict[str, Any]:
        model = bench.path("evaluated.crfsuite")
        return bench.work(
            "theirs", "train", task, model=model, max_iterations=8 if bench.quick else 16
        )

    def ours(n: int) -> dict[str, Any]:
        return bench.work("ours", "evaluate", task, cores=n, threads=n, warm=warm, timed=timed)

    found = in_turns(bench.rounds, theirs, *(partial(ours, n) for n in threads))
    for n, runs in zip(threads, found[1:], strict=True):
        _same_features(runs[0], found[0][0])
        if runs[0]["threads"] != n or runs[0]["objective"] != found[1][0]["objective"]:
            raise BenchmarkError(f"{n} threads gave another objective, or were not used")
    return found


def _same_features(ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    for name in ("pairs", "parameters"):
        if ours[name] != theirs[name]:
            raise BenchmarkError(
                f"not the same features: {name} {ours[name]:,}, of CRFsuite {theirs[name]:,}"
            )


def _evaluation_line(
    key: str, work: str, ours: Runs, theirs: Runs, *, name: str = "seconds_per_evaluation"
) -> Line:
    first = ours[0]
    seconds = median_of(ours, name)
    note = (
        f"{first['tokens']:,} tokens, {first['parameters']:,} weights of "
        f"{first['attributes']:,} attributes; {1e9 * seconds / first['tokens']:.0f} ns a token"
    )
    return Line(
        key,
        work,
        1e3 * seconds,
        1e3 * median_of(theirs, "seconds_per_evaluation"),
        "ms",
        note=note,
        samples={"fstcrf": ours, "python-crfsuite": theirs},
    )


def training(bench: Bench) -> list[Line]:
    """Files to a saved model at CRFsuite's objective: seconds, objective, memory."""
    task, test = bench.chunking(), bench.chunking("test")
    models = {n: bench.path(f"chunk-{n}.fstcrf") for n in _THREADS}
    peer_model = bench.path("chunk.crfsuite")

    def theirs() -> dict[str, Any]:
        return bench.work("theirs", "train", task, model=peer_model)

    def ours(n: int) -> Finished:
        return bench.train(task, models[n], threads=n)

    # Two kinds of results: taken in turns all the same.
    found: list[list[Any]] = in_turns(bench.rounds, theirs, *(partial(ours, n) for n in _THREADS))
    bench.models = {"ours": models[1], "theirs": peer_model}
    peer = found[0]
    tagged = bench.path("peer-tagged.txt")
    bench.work("theirs", "tag", test, model=peer_model, output=tagged)
    peer_f1 = bench.work("ours", "predictions", test, tagged=tagged)["f1"]
    weights = {bench.work("ours", "weights", task, model=path)["hash"] for path in models.values()}
    lines: list[Line] = []
    for n, runs in zip(_THREADS, found[1:], strict=True):
        scored = bench.work("ours", "score", task, cores=2, model=models[n], test=test.path)
        lines += _training_lines(n, runs, peer, scored, peer_f1)
        if n > 1 and len(weights) > 1:
            lines[-3].error = "1 and 2 threads trained different weights"
    return lines


def _training_lines(
    n: int, ours: list[Finished], theirs: Runs, scored: dict[str, Any], peer_f1: float
) -> list[Line]:
    peer = theirs[0]
    objective, wanted = scored["objective"], peer["objective"]
    time = Line(
        f"training-{n}",
        f"files to saved model, {_threads(n)}",
        median_of(ours, "seconds"),
        median_of(theirs, "wall"),
        "s",
        note=(
            f"{median_of(ours, 'cpu'):.1f} s of processors against {median_of(theirs, 'cpu'):.1f}; "
            f"{scored['iterations']} iterations ({scored['reason']}) against "
            f"{peer['iterations']} ({peer['evaluations']} evaluations); F1 on the test file "
            f"{scored['f1']:.2f} against {peer_f1:.2f}"
        ),
        samples={
            "fstcrf": [[run.seconds, run.cpu, run.peak] for run in ours],
            "python-crfsuite": theirs,
            "scored": scored,
            "peer_f1": peer_f1,
        },
    )
    if scored["parameters"] != peer["parameters"]:
        time.error = f"{scored['parameters']:,} weights, CRFsuite {peer['parameters']:,}"
    elif objective > _WITHIN * wanted:
        time.error = (
            f"does not count: objective {objective:.2f}, CRFsuite's is {wanted:.2f}, "
            f"{100 * (objective / wanted - 1):.3f} % lower"
        )
    quality = Line(
        f"objective-{n}",
        f"objective over CRFsuite's, {_threads(n)}",
        objective / wanted,
        digits=5,
        note=f"{objective:.3f} against {wanted:.3f}",
    )
    memory = Line(
        f"memory-{n}",
        f"peak memory of that run, {_threads(n)}",
        median_of(ours, "peak"),
        median_of(theirs, "peak"),
        "MB",
    )
    return [time, quality, memory]


def complete(bench: Bench) -> list[Line]:
    """Weights for all pairs of attribute and label: F1 and seconds, one run."""
    task, test = bench.chunking(), bench.chunking("test")
    peer_model, model = bench.path("complete.crfsuite"), bench.path("complete.fstcrf")
    peer = bench.work("theirs", "train", task, model=peer_model, complete=True)
    tagged = bench.path("complete-tagged.txt")
    bench.work("theirs", "tag", test, model=peer_model, output=tagged)
    peer_f1 = bench.work("ours", "predictions", test, tagged=tagged)["f1"]
    options = ("--set", "pairs=complete", "--set", "transitions=all")
    run = bench.train(task, model, *options, threads=2)
    scored = bench.work("ours", "score", task, cores=2, model=model, test=test.path)
    _same_features({**scored, "pairs": peer["pairs"]}, peer)
    note = f"objective {scored['objective']:.1f} against {peer['objective']:.1f}; one run"
    samples = {"fstcrf": {**scored, "seconds": run.seconds}, "python-crfsuite": peer}
    return [
        Line(
            "complete-f1",
            "complete features, F1",
            scored["f1"],
            peer_f1,
            "%",
            more_is_better=True,
            note=note,
        ),
        Line(
            "complete-seconds",
            "complete features, files to saved model, 2 threads",
            run.seconds,
            peer["wall"],
            "s",
            note=f"{scored['parameters']:,} weights; one run",
            samples=samples,
        ),
        Line("complete-memory", "complete features, peak memory", run.peak, peer["peak"], "MB"),
    ]


def exactness(bench: Bench) -> list[Line]:
    """Threads must not change a bit, instruction sets next to nothing."""
    task, model = bench.chunking(), bench.path("exact.fstcrf")
    numbers = (1, 2, 7)
    found = bench.work(
        "ours",
        "threads",
        task,
        cores=2,
        numbers=numbers,
        max_iterations=20,
        model=model,
    )
    differing = found["differing"]
    threads = Line(
        "threads",
        f"results that differ with {', '.join(map(str, numbers))} threads",
        float(len(differing)),
        error=f"not the same bits: {', '.join(differing)}" if differing else None,
        note=f"{', '.join(found['compared'])} after 20 iterations, bit for bit",
    )
    kinds = bench.work("ours", "variants", task, model=model)
    differences = {k: v for k, v in kinds.items() if isinstance(v, dict)}
    judged = ("value", "gradient", "marginals", "labels")
    worst = max(found[what] for found in differences.values() for what in judged)
    shown = "; ".join(
        f"{name}: " + ", ".join(f"{what} {value:.1e}" for what, value in found.items())
        for name, found in differences.items()
    )
    variants = Line(
        "variants",
        f"largest difference between {', '.join(differences)}",
        worst,
        note=(
            "relative, of the gradient to the expected counts, marginals absolute, against the "
            f"first ({', '.join(judged)} are judged): {shown}"
        ),
        samples=differences,
    )
    return [threads, variants]
