"""Composition: lattices beside pynini, and taggers decided together beside the cascade.

Seconds are those of the processor. Both sides decode the same potentials, and their scores are
compared.
"""

from __future__ import annotations

import importlib.util
import math
import statistics
from collections.abc import Sequence
from functools import partial
from typing import Any

from tests.benchmarks.report import Line
from tests.benchmarks.running import Bench, BenchmarkError, in_turns

MISSING = "pynini is not installed; its wheels exist for Linux on x86-64 alone"
SAME = 1e-6  # relative; OpenFst has float32

Runs = list[dict[str, Any]]


def has_pynini() -> bool:
    """Tell whether pynini is installed."""
    return importlib.util.find_spec("pynini") is not None


def _median(runs: Runs, *path: str) -> float:
    """Return the median of an entry over runs."""
    return statistics.median(_entry(run, path) for run in runs)


def _entry(run: dict[str, Any], path: Sequence[str]) -> float:
    found: Any = run
    for name in path:
        found = found[name]
    return float(found)


def _beside(
    bench: Bench, key: str, work: str, ours: Runs, theirs: Runs | None, built: str
) -> list[Line]:
    """Best paths of lattices that are there, and of those that are built, beside pynini's."""
    lines = []
    for name, what in (("best", "lattices given"), ("built", "built from arrays")):
        line = Line(
            key if name == "best" else f"{key}-built",
            f"{work}, {what}",
            1e6 * _median(ours, name, "cpu"),
            unit="µs",
            peer_name="pynini",
            samples={"fstcrf": [run[name] for run in ours]},
        )
        if theirs is None:
            line.skipped = MISSING
        else:
            line.peer = 1e6 * _median(theirs, "best", "cpu")
            line.note = (
                f"a sentence of 24 tokens; {1e6 * _median(ours, name, 'wall'):.2f} µs by the clock "
                f"against {1e6 * _median(theirs, 'best', 'wall'):,.0f}; {built}"
            )
            line.samples["pynini"] = [run["best"] for run in theirs]
            _check_scores(ours[0]["scores"], theirs[0]["scores"])
        lines.append(line)
    bench.say(f"{key}: {len(ours)} rounds")
    return lines


def _check_scores(ours: Sequence[float], theirs: Sequence[float]) -> None:
    pairs = list(zip(ours, theirs, strict=False))
    wrong = [n for n, (a, b) in enumerate(pairs) if not math.isclose(a, b, rel_tol=SAME)]
    if wrong or not pairs:
        number = wrong[0] if wrong else "none"
        raise BenchmarkError(f"sentence {number}: not the score that pynini finds")


def constraint(bench: Bench) -> list[Line]:
    """22 labels under BIO, one type at most once."""
    ours = partial(bench.job, "composed", "constrained", sentences=200 if bench.quick else 2000)
    theirs = partial(bench.job, "openfst_peer", "constrained", sentences=20 if bench.quick else 300)
    mine, peer = _both(bench, ours, theirs)
    return _beside(
        bench,
        "constrained",
        "best path of 22 labels, BIO and one type at most once",
        mine,
        peer,
        f"a residual automaton of {mine[0]['residual']} states",
    )


def _both(bench: Bench, ours: Any, theirs: Any) -> tuple[Runs, Runs | None]:
    if not has_pynini():
        bench.say(f"skipped: {MISSING}")
        return in_turns(bench.rounds, ours)[0], None
    peer, mine = in_turns(bench.rounds, theirs, ours)
    return mine, peer


def products(bench: Bench) -> list[Line]:
    """Two coupled tapes: 22 × 9 labels beside pynini, 45 × 22 alone."""
    few = 3 if bench.quick else 10
    small = partial(
        bench.job, "composed", "joint", sentences=50 if bench.quick else 500, labels=(22, 9)
    )
    cascade, interleaved = (
        partial(bench.job, "openfst_peer", design, sentences=n, labels=(22, 9))
        for design, n in (("cascade", few), ("interleaved", 4 * few))
    )
    mine, peer = _both(bench, small, cascade)
    work = "joint best path of 22 × 9 labels"
    lines = _beside(bench, "joint-22x9", work, mine, peer, "first tagger's lattice ∘ second tagger")
    other = None if peer is None else in_turns(bench.rounds, interleaved)[0]
    lines += _beside(
        bench,
        "joint-22x9-turns",
        f"{work}, pynini by turns",
        mine,
        other,
        "the taggers move by turns in OpenFst, too",
    )[:1]
    large = partial(
        bench.job, "composed", "joint", sentences=20 if bench.quick else 200, labels=(45, 22)
    )
    (runs,) = in_turns(bench.rounds, large)
    return lines + [
        _rate(f"joint-45x22{name and '-' + name}", f"{what} of 45 × 22 labels", runs, entry)
        for name, what, entry in (
            ("", "joint best path", "best"),
            ("built", "joint best path, built from arrays,", "built"),
            ("marginals", "marginals of both tapes", "marginals"),
            ("log-z", "log Z", "log_z"),
        )
    ]


def _rate(key: str, work: str, runs: Runs, entry: str) -> Line:
    cpu, wall = (_median(runs, entry, clock) for clock in ("cpu", "wall"))
    return Line(
        key,
        work,
        1 / cpu,
        unit="sentences/s",
        more_is_better=True,
        note=f"{1e6 * cpu:.2f} µs a sentence of 24 tokens, {1e6 * wall:.2f} by the clock",
        samples={"fstcrf": [run[entry] for run in runs]},
    )


def ranking(bench: Bench) -> list[Line]:
    """The n best paths of 22 labels; for comparison, the best path, log Z and marginals."""
    work = partial(bench.job, "composed", "ranked", sentences=100 if bench.quick else 1000)
    (runs,) = in_turns(bench.rounds, work)
    return [
        _rate(key, f"{what}, 22 labels", runs, key)
        for key, what in (
            ("nbest-10", "10 best paths"),
            ("nbest-10-built", "10 best paths, built from arrays"),
            ("nbest-100", "100 best paths"),
            ("best", "best path"),
            ("log_z", "log Z"),
            ("marginals", "marginals"),
        )
    ]


def taggers(bench: Bench) -> list[Line]:
    """POS and chunks of the test file from words in memory, features included."""
    models = [bench.path(f"{name}.joint") for name in ("pos", "chunk")]
    bench.say("taggers to compose")
    bench.job(
        "composed",
        "train",
        cores=2,
        path=bench.corpus("conll2000/train.txt"),
        models=models,
        jackknife=2 if bench.quick else 5,
        max_iterations=20 if bench.quick else None,
    )
    rounds = 2 if bench.quick else 3 * bench.rounds
    path = bench.corpus("conll2000/test.txt")
    run = bench.job("composed", "decoders", path=path, models=models, rounds=rounds)
    return decoder_lines(run)


def decoder_lines(run: dict[str, Any]) -> list[Line]:
    """Return what decoding took, and how often the cascade's time it was."""
    seconds = run["seconds"]
    cascade = [cpu for cpu, _ in seconds["cascade"]]
    lines = [
        Line(
            "cascade",
            "POS and chunks from words: cascade, 1 thread",
            run["sentences"] / statistics.median(cascade),
            unit="sentences/s",
            more_is_better=True,
            note=_per_token(run, "cascade"),
            samples=run,
        )
    ]
    for name, what in (("product", "product"), ("chain", "chain rule")):
        pairs = zip(seconds[name], cascade, strict=True)
        inexact = f"; {run['inexact']} sentences not proven" if name == "chain" else ""
        lines.append(
            Line(
                f"{name}-over-cascade",
                f"POS and chunks from words: exact {what} over the cascade's time",
                statistics.median(mine / theirs for (mine, _), theirs in pairs),
                unit="×",
                note=_per_token(run, name) + inexact,
            )
        )
    return lines


def _per_token(run: dict[str, Any], name: str) -> str:
    cpu, wall = (statistics.median(times) for times in zip(*run["seconds"][name], strict=True))
    tokens = run["tokens"]
    return (
        f"{1e6 * cpu / tokens:.2f} µs a token, {1e6 * wall / tokens:.2f} by the clock; "
        f"{tokens:,} tokens, {run['sentences'] / cpu:,.0f} sentences/s"
    )
