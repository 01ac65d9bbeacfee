"""Is it the same model? python-crfsuite and fstcrf trained side by side on CoNLL-2000.

The template is that of CRFsuite's chunking tutorial, with c2 = l2 = 0.5.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import fstcrf
from fstcrf.evaluate import evaluate_spans
from fstcrf.training import Features, Run
from tests.benchmarks.tasks import L2, TUTORIAL, Task

FEATURES = 452_755
TOLERANCE = 1e-4
MIN_F1 = 93.70

COLUMNS = ("word", "pos", "chunk")


@dataclass(frozen=True, slots=True)
class Result:
    """What one of the two reached."""

    program: str
    features: int  # weights that are trained
    objective: float  # negative log-likelihood plus penalty at the end
    iterations: int
    precision: float  # of chunks in the test part, in percent
    recall: float  # of chunks in the test part, in percent
    f1: float  # of chunks in the test part, in percent


def ours(folder: Path, *, threads: int = 1) -> Result:
    """Train and evaluate fstcrf on the files of a folder."""
    train, test = (
        fstcrf.read_columns(folder / f"{part}.txt", COLUMNS) for part in ("train", "test")
    )
    model = fstcrf.CRF.train(
        train, "chunk", Features(TUTORIAL, boundary="skip"), l2=L2, run=Run(threads=threads)
    )
    predicted = model.tag_all(test)
    record = model.record
    if record is None:
        raise RuntimeError("a trained model has a record of its training")
    return _result(
        "fstcrf",
        test.column_lists("chunk"),
        predicted,
        counts=(record.parameters, record.iterations),
        objective=record.objective,
    )


def theirs(folder: Path) -> Result:
    """Train and evaluate python-crfsuite on the files of a folder."""
    from tests.benchmarks import theirs as peer

    train, test = (
        Task(str(folder / f"{part}.txt"), COLUMNS, "chunk", "tutorial")
        for part in ("train", "test")
    )
    with tempfile.TemporaryDirectory() as scratch:
        model, tagged = (str(Path(scratch) / name) for name in ("model.crfsuite", "tagged.txt"))
        trained = peer.train(train, model=model)
        peer.tag(test, model=model, output=tagged)
        found = fstcrf.read_columns(tagged, (*COLUMNS, "found"))
    return _result(
        "python-crfsuite",
        found.column_lists("chunk"),
        found.column_lists("found"),
        counts=(trained["parameters"], trained["iterations"]),
        objective=trained["objective"],
    )


def failures(mine: Result, peer: Result | None = None) -> list[str]:
    """Return what is not as it must be, in words."""
    found = []
    if mine.features != FEATURES:
        found.append(f"fstcrf trains {mine.features:,} features, expected {FEATURES:,}")
    if mine.f1 < MIN_F1:
        found.append(f"F1 is {mine.f1:.2f}, expected at least {MIN_F1:.2f}")
    if peer is not None and peer.features != mine.features:
        found.append(f"python-crfsuite trains {peer.features:,} features, fstcrf {mine.features:,}")
    if peer is not None and abs(mine.objective / peer.objective - 1) > TOLERANCE:
        found.append(
            f"the objectives differ by {abs(mine.objective / peer.objective - 1):.4%}, "
            f"expected at most {TOLERANCE:.2%}"
        )
    return found


def _result(
    program: str,
    gold: Sequence[Sequence[str]],
    predicted: Sequence[Sequence[str]],
    *,
    counts: tuple[int, int],
    objective: float,
) -> Result:
    overall = evaluate_spans(gold, predicted).overall
    scores = (100 * overall.precision, 100 * overall.recall, 100 * overall.f)
    return Result(program, counts[0], objective, counts[1], *scores)
