"""L1 over tens of millions of features: seconds, and the peak of memory beside what was expected.

``python -m tests.benchmarks.many_features --data FOLDER`` trains a tagger of parts of speech on the
words of CoNLL-2000, CoNLL-2003 and EWT, 815,000 tokens, each with all single words, pairs and
triples of a window of nine: about 80 million features. ``--share 0.1`` takes a tenth of the
sentences. Each corpus is trained on in a process of its own; the report is one JSON object a line,
and a page with ``--page FILE``.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from itertools import combinations
from pathlib import Path
from typing import Any

from fstcrf.training import Gold, Run
from fstcrf.training.lbfgs import LBFGS
from tests.benchmarks import machine
from tests.benchmarks.report import table
from tests.benchmarks.running import BenchmarkError, child

_FILES = ("conll2000/train.txt", "conll2000/test.txt")
_ENTITIES = ("conll2003/eng.train", "conll2003/eng.testa", "conll2003/eng.testb")
_TREES = tuple(f"ud_english_ewt/en_ewt-ud-{part}.conllu" for part in ("train", "dev", "test"))
_WINDOW = range(-4, 5)
_ITERATIONS = 14  # some more than L-BFGS remembers


def template() -> str:
    """Return the template: single words, pairs and triples of the window."""
    tuples = [places for k in (1, 2, 3) for places in combinations(_WINDOW, k)]
    lines = [
        f"U{number}:" + "/".join(f"%x[{offset},word]" for offset in places)
        for number, places in enumerate(tuples)
    ]
    return "\n".join([*lines, "B"]) + "\n"


def write_corpus(data: Path, output: Path, share: float) -> int:
    """Write words and parts of speech of every k-th sentence; return the number of tokens."""
    import fstcrf

    step, tokens = max(1, round(1 / share)), 0
    with output.open("w", encoding="utf-8") as out:
        for name in (*_FILES, *_ENTITIES, *_TREES):
            source = data / name
            if not source.is_file():
                raise BenchmarkError(f"{source} is missing")
            if name.endswith(".conllu"):
                corpus, columns = fstcrf.read_conllu(source), ("form", "xpos")
            else:
                width = ("word", "pos", "chunk", "entity")[: 4 if name in _ENTITIES else 3]
                corpus, columns = fstcrf.read_columns(source, width), ("word", "pos")
            words, tags = (corpus.column_lists(column) for column in columns)
            for sentence, labels in list(zip(words, tags, strict=True))[::step]:
                tokens += len(sentence)
                pairs = zip(sentence, labels, strict=True)
                out.write("".join(f"{word}\t{label}\n" for word, label in pairs) + "\n")
    return tokens


def train(corpus: str, l1: float, iterations: int) -> dict[str, Any]:
    """Train, and say what was expected of memory."""
    import fstcrf

    told: list[Any] = []
    started = time.perf_counter()
    tagger = fstcrf.CRF.train(
        fstcrf.read_columns(corpus, ("word", "pos"), separator="\t"),
        Gold("pos", partial=False),
        template(),
        method=LBFGS(l1=l1, l2=0.0, max_iterations=iterations),
        run=Run(expect=told.append),
    )
    seconds = time.perf_counter() - started
    tagger.save(f"{corpus}.fstcrf")
    record = tagger.record
    return {
        "weights": told[0].weights,
        "expected": told[0].peak,
        "active": int((tagger.theta != 0).sum()),
        "objective": None if record is None else record.objective,
        "iterations": None if record is None else record.iterations,
        "train_seconds": seconds,
    }


def measured(data: Path, share: float, *, l1: float = 1.0) -> dict[str, Any]:
    """Train on a share of the sentences in a process of its own."""
    with tempfile.TemporaryDirectory(prefix="fstcrf-many-") as folder:
        corpus = Path(folder) / "corpus.txt"
        tokens = write_corpus(data, corpus, share)
        given = json.dumps({"corpus": str(corpus), "l1": l1, "iterations": _ITERATIONS})
        command = [sys.executable, "-m", "tests.benchmarks.many_features", "--work", given]
        done = child(command, env=dict(os.environ))
        found = json.loads(done.output)
    peak = done.peak * 1e6
    return {
        "tokens": tokens,
        **found,
        "peak": peak,
        "ratio": found["expected"] / peak,
        "cpu": done.cpu,
        "seconds": done.seconds,
    }


def page(setting: dict[str, Any], found: list[dict[str, Any]]) -> str:
    """Return the report as Markdown."""
    rows = [
        [
            f"{one['tokens']:,}",
            f"{one['weights']:,}",
            f"{one['active']:,}",
            f"{one['expected'] / 1e9:.2f}",
            f"{one['peak'] / 1e9:.2f}",
            f"{one['ratio']:.3f}",
            f"{one['cpu']:.0f}",
        ]
        for one in found
    ]
    head = ["tokens", "weights", "not 0", "GB told", "GB at the peak", "told over peak", "seconds"]
    return (
        "# Tens of millions of features\n\n"
        "Parts of speech from the words of CoNLL-2000, CoNLL-2003 and EWT, with all single words, "
        f"pairs and triples of a window of nine; l1 = 1 by OWL-QN, {_ITERATIONS} iterations, one "
        "thread. What training needs is told before it begins (`expect=`, and by `fstcrf train` "
        "where it is much); the peak is that of the whole process, files read and model written "
        "included; seconds are of the processor.\n\n"
        f"`python -m tests.benchmarks.many_features --data FOLDER --page FILE`, commit "
        f"`{setting['commit']}`, {setting['date']}, {setting['processor']}, "
        f"{setting['memory']}.\n\n"
        f"{table(head, rows)}\n"
    )


def main() -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=os.environ.get("FSTCRF_DATA"))
    parser.add_argument("--share", type=float, nargs="+", default=[1.0])
    parser.add_argument("--l1", type=float, default=1.0)
    parser.add_argument("--page", type=Path, help="write the report as Markdown")
    parser.add_argument("--work", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        print(json.dumps(train(**json.loads(options.work))))
        return
    if options.data is None or not options.data.is_dir():
        parser.error("say where the corpora are: --data FOLDER")
    this = machine.this()
    setting = {
        "commit": machine.commit(),
        "date": time.strftime("%Y-%m-%d"),
        "processor": f"{this.processor}, {this.cores} cores",
        "memory": this.memory,
    }
    print(json.dumps(setting))
    found = []
    for share in options.share:
        found.append(measured(options.data, share, l1=options.l1))
        print(json.dumps(found[-1]), flush=True)
    if options.page is not None:
        options.page.write_text(page(setting, found), "utf-8")


if __name__ == "__main__":
    main()
