"""Is it the same model? python-crfsuite and fstcrf trained side by side on CoNLL-2000.

``python -m tests.benchmarks.parity --data DIR`` trains both on the template of CRFsuite's chunking
tutorial with c2 = l2 = 0.5 and prints feature counts, objectives, F1 and seconds as a table. It
ends with status 1 when the numbers are not those that they must be.

========  ==========================================================
Result    what one of the two reached
ours      train and evaluate fstcrf
theirs    train and evaluate python-crfsuite
failures  what is not as it must be
========  ==========================================================
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import fstcrf
from fstcrf.evaluate import evaluate_spans
from tests.benchmarks.crfsuite_peer import read_sentences, tutorial_attributes
from tests.benchmarks.tasks import L2, TUTORIAL

__all__ = ["FEATURES", "MIN_F1", "TOLERANCE", "Result", "failures", "main", "ours", "theirs"]

FEATURES = 452_755
TOLERANCE = 1e-4
MIN_F1 = 93.70

COLUMNS = ("word", "pos", "chunk")


@dataclass(frozen=True, slots=True)
class Result:
    """What one of the two reached.

    Parameters
    ----------
    program : str
    features : int
        Weights that are trained.
    objective : float
        Negative log-likelihood plus penalty at the end.
    iterations : int
    precision, recall, f1 : float
        Of chunks in the test part, in percent.
    read_seconds, train_seconds, tag_seconds : float
        Reading and extracting features; training; tagging the test part, features included.
    """

    program: str
    features: int
    objective: float
    iterations: int
    precision: float
    recall: float
    f1: float
    read_seconds: float
    train_seconds: float
    tag_seconds: float


def ours(folder: Path, *, threads: int = 1) -> Result:
    """Train and evaluate fstcrf on the files of a folder."""
    start = time.perf_counter()
    train, test = (
        fstcrf.read_columns(folder / f"{part}.txt", COLUMNS) for part in ("train", "test")
    )
    read = time.perf_counter()
    model = fstcrf.CRF.train(train, "chunk", TUTORIAL, boundary="skip", l2=L2, threads=threads)
    trained = time.perf_counter()
    predicted = model.tag_all(test)
    tagged = time.perf_counter()
    record = model.record
    if record is None:
        raise RuntimeError("a trained model has a record of its training")
    return _result(
        "fstcrf",
        test.column_lists("chunk"),
        predicted,
        counts=(record.parameters, record.iterations),
        objective=record.objective,
        seconds=(read - start, trained - read, tagged - trained),
    )


def theirs(folder: Path) -> Result:
    """Train and evaluate python-crfsuite on the files of a folder."""
    import pycrfsuite

    start = time.perf_counter()
    trainer = pycrfsuite.Trainer(algorithm="lbfgs", params={"c1": 0.0, "c2": L2}, verbose=False)
    for words, tags, chunks in read_sentences(str(folder / "train.txt")):
        trainer.append(tutorial_attributes(words, tags), chunks)
    read = time.perf_counter()
    with tempfile.TemporaryDirectory() as scratch:
        path = str(Path(scratch) / "model.crfsuite")
        trainer.train(path)
        trained = time.perf_counter()
        tagger = pycrfsuite.Tagger()
        tagger.open(path)
        gold: list[list[str]] = []
        predicted: list[list[str]] = []
        for words, tags, chunks in read_sentences(str(folder / "test.txt")):
            gold.append(chunks)
            predicted.append(tagger.tag(tutorial_attributes(words, tags)))
        tagged = time.perf_counter()
        tagger.close()
    log = trainer.logparser
    features = int(re.findall(r"Number of features: (\d+)", "".join(log.log))[0])
    return _result(
        "python-crfsuite",
        gold,
        predicted,
        counts=(features, len(log.iterations)),
        objective=float(log.last_iteration["loss"]),
        seconds=(read - start, trained - read, tagged - trained),
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
    seconds: tuple[float, float, float],
) -> Result:
    overall = evaluate_spans(gold, predicted).overall
    scores = (100 * overall.precision, 100 * overall.recall, 100 * overall.f)
    return Result(program, counts[0], objective, counts[1], *scores, *seconds)


def _table(results: Sequence[Result]) -> str:
    rows = [("", *(result.program for result in results))]
    shown = {
        "features": "{:,}",
        "objective": "{:,.3f}",
        "iterations": "{}",
        "precision": "{:.2f}",
        "recall": "{:.2f}",
        "f1": "{:.2f}",
        "read_seconds": "{:.2f}",
        "train_seconds": "{:.2f}",
        "tag_seconds": "{:.3f}",
    }
    for field, form in shown.items():
        name = field.replace("_", " ")
        rows.append((name, *(form.format(getattr(result, field)) for result in results)))
    return "\n".join(f"{row[0]:14}" + "".join(f"{cell:>18}" for cell in row[1:]) for row in rows)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the comparison; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.parity", description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder with conll2000/train.txt")
    parser.add_argument("--json", type=Path, help="write the numbers to this file")
    parser.add_argument("--threads", type=int, default=1, help="of fstcrf")
    options = parser.parse_args(arguments)
    folder = options.data / "conll2000"
    peer, mine = theirs(folder), ours(folder, threads=options.threads)
    wrong = failures(mine, peer)
    print(_table([peer, mine]))
    print(f"objectives differ by {abs(mine.objective / peer.objective - 1):.5%}")
    print("\n".join(wrong) or "all as it must be")
    if options.json is not None:
        numbers = {"results": [asdict(peer), asdict(mine)], "failures": wrong}
        options.json.write_text(json.dumps(numbers, indent=2) + "\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
