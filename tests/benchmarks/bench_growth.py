"""How cost grows: with the size of the corpus, and with the number of labels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from tests.benchmarks.report import Line, number, table
from tests.benchmarks.running import Bench, BenchmarkError, in_turns, median_of
from tests.benchmarks.tasks import Task

_SIZES = (1, 4, 16)


def corpus_growth(bench: Bench) -> list[Line]:
    """The corpus once, 4 times, 16 times: training and tagging."""
    task, (model, _) = bench.chunking(), bench.chunkers()
    warm, timed = (2, 2) if bench.quick else (5, 5)
    runs = in_turns(
        bench.rounds,
        *(
            partial(bench.work, "ours", "evaluate", task, copies=k, warm=warm, timed=timed)
            for k in _SIZES
        ),
    )
    milliseconds = [1e3 * median_of(of_size, "seconds_per_evaluation") for of_size in runs]
    tokens = [of_size[0]["tokens"] for of_size in runs]
    test = bench.chunking("test")
    tagged = bench.work("ours", "throughput", test, model=model, copies=_SIZES, rounds=bench.rounds)
    rates = tagged["tokens_per_second"]
    return [
        Line(
            "growth-training",
            "objective and gradient: a token of 16 corpora over one of 1",
            (milliseconds[-1] / tokens[-1]) / (milliseconds[0] / tokens[0]),
            unit="×",
            note=_by_size(tokens, milliseconds, "ms"),
            samples={"tokens": tokens, "milliseconds": milliseconds, "runs": runs},
        ),
        Line(
            "growth-tagging",
            "tagging in memory: a token of 16 test files over one of 1",
            rates[0] / rates[-1],
            unit="×",
            note=_by_size(tagged["tokens"], rates, "tokens/s"),
            samples={"tokens": tagged["tokens"], "rates": rates, "runs": tagged["seconds"]},
        ),
    ]


def _by_size(tokens: Sequence[int], values: Sequence[float], unit: str) -> str:
    pairs = zip(tokens, values, strict=True)
    return "; ".join(f"{n:,} tokens {value:,.0f} {unit}" for n, value in pairs)


def label_growth(bench: Bench) -> list[Line]:
    """9, 22, 44 and 340 labels: seconds per evaluation, beside CRFsuite's."""
    return [
        _label_line(bench, name, *prepared)
        for name, prepared in (
            ("CoNLL-2003 entities", _entities(bench)),
            ("CoNLL-2000 chunks", (bench.chunking(), False)),
            ("CoNLL-2000 POS", (bench.tagging(), False)),
            ("UD English EWT, UPOS+FEATS", morphology(bench)),
        )
    ]


def _entities(bench: Bench) -> tuple[Task, bool]:
    task = Task(bench.path("entities.txt"), ("word", "pos", "entity"), "entity", "tutorial")
    bench.work("ours", "prepare", task, sources=[bench.corpus("conll2003/eng.train")])
    return task, False


def morphology(bench: Bench) -> tuple[Task, bool]:
    """Return parts of speech with their features, of all parts of EWT, and that they are many."""
    task = Task(bench.path("morphology.txt"), ("word", "label"), "label", "words", "\t")
    names = ["train"] if bench.quick else ["train", "dev", "test"]
    files = [bench.corpus(f"ud_english_ewt/en_ewt-ud-{name}.conllu") for name in names]
    bench.work("ours", "prepare", task, sources=files)
    return task, True


def _label_line(bench: Bench, name: str, task: Task, many: bool) -> Line:
    """Where labels are many, CRFsuite takes half a minute for an evaluation: one is enough."""
    model = bench.path("labels.crfsuite")
    theirs, ours = in_turns(
        1 if many else bench.rounds,
        partial(bench.work, "theirs", "train", task, model=model, max_iterations=1 if many else 6),
        partial(
            bench.work, "ours", "evaluate", task, warm=2 if many else 5, timed=2 if many else 5
        ),
    )
    if ours[0]["parameters"] != theirs[0]["parameters"]:
        raise BenchmarkError(f"{name}: not the same features")
    tokens, seconds = ours[0]["tokens"], median_of(ours, "seconds_per_evaluation")
    return Line(
        f"labels-{ours[0]['labels']}",
        f"{ours[0]['labels']} labels ({name}), objective and gradient, 1 thread",
        1e3 * seconds,
        1e3 * median_of(theirs, "seconds_per_evaluation"),
        "ms",
        note=f"{tokens:,} tokens, {ours[0]['parameters']:,} weights; "
        f"{1e9 * seconds / tokens:,.0f} ns a token{'; one run' if many else ''}",
        samples={
            "labels": ours[0]["labels"],
            "tokens": tokens,
            "fstcrf": ours,
            "python-crfsuite": theirs,
        },
    )


def section(lines: Sequence[Line], picture: str | None = None) -> str:
    """Return tables of what the lines of growth measured; empty without such lines."""
    found = {line.key: line.samples for line in lines if line.samples}
    parts: list[str] = [] if picture is None else [f"![Cost against size]({picture})"]
    if "growth-training" in found:
        sizes = found["growth-training"]
        pairs = zip(sizes["tokens"], sizes["milliseconds"], strict=True)
        rows = [[f"{n:,}", number(ms), number(1e6 * ms / n)] for n, ms in pairs]
        parts.append(table(["tokens trained on", "ms per evaluation", "ns per token"], rows))
    if "growth-tagging" in found:
        sizes = found["growth-tagging"]
        pairs = zip(sizes["tokens"], sizes["rates"], strict=True)
        parts.append(
            table(["tokens tagged", "tokens/s"], [[f"{n:,}", number(r)] for n, r in pairs])
        )
    if many := _by_labels(lines):
        rows = [
            [str(line.samples["labels"]), f"{line.samples['tokens']:,}"]
            + [number(value) for value in (line.ours, _per_token(line.ours, line))]
            + [number(value) for value in (line.peer, _per_token(line.peer, line))]
            for line in many
        ]
        head = ["labels", "tokens", "ms per evaluation", "ns per token"]
        parts.append(table([*head, "python-crfsuite: ms", "ns per token"], rows))
    return "\n\n".join(["## Growth", *parts]) if parts else ""


def _by_labels(lines: Sequence[Line]) -> list[Line]:
    found = [line for line in lines if line.key.startswith("labels-") and line.samples]
    return sorted(found, key=lambda line: int(line.samples["labels"]))


def plot(lines: Sequence[Line], path: Path) -> None:
    """Draw seconds per evaluation against tokens and labels, and tokens per second."""
    found = {line.key: line for line in lines if line.error is None}
    labels = _by_labels(lines)
    if not labels or not {"growth-training", "growth-tagging"} <= set(found):
        raise BenchmarkError("no plot without the lines of growth")
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "fstcrf"
    from matplotlib import pyplot as plt

    figure, (training, tagging, many) = plt.subplots(1, 3, figsize=(12, 3.6), layout="tight")
    sizes = found["growth-training"].samples
    _curve(training, sizes["tokens"], sizes["milliseconds"], "tokens", "ms per evaluation")
    rates = found["growth-tagging"].samples
    _curve(tagging, rates["tokens"], rates["rates"], "tokens", "tokens/s, tagging", flat=True)
    numbers = [line.samples["labels"] for line in labels]
    peers = [_per_token(line.peer, line) for line in labels]
    many.loglog(numbers, peers, "s--", color="#999999", label="python-crfsuite")
    _curve(
        many, numbers, [_per_token(line.ours, line) for line in labels], "labels", "ns per token"
    )
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def _per_token(milliseconds: float | None, line: Line) -> float:
    return math.nan if milliseconds is None else 1e6 * milliseconds / line.samples["tokens"]


def _curve(
    axes: Any, x: Sequence[float], y: Sequence[float], across: str, up: str, *, flat: bool = False
) -> None:
    """Draw measured points and, dotted, growth in proportion (or none) from the first of them."""
    axes.loglog(x, y, "o-", color="#0b6e99", label="fstcrf")
    ideal = [y[0] if flat else y[0] * v / x[0] for v in x]
    axes.loglog(x, ideal, ":", color="#333333", label="constant" if flat else "in proportion")
    axes.minorticks_off()
    axes.set_xticks(x, [f"{v:,.0f}" for v in x])
    axes.set_yticks(y, [number(v) for v in y])
    axes.set_xlabel(across)
    axes.set_ylabel(up)
    if flat:
        axes.set_ylim(y[0] / 4, y[0] * 4)
        axes.set_yticks(y[:1], [number(y[0])])
    axes.legend()
