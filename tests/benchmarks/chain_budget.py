"""How many labellings of a tape the chain rule should look at: the default of `BUDGET`, measured.

``python -m tests.benchmarks.chain_budget --data DIR [--quick]`` prints the table of
docs/guides/joint-score.md.

Taggers are trained on the first sentences of training files and decode sentences behind them, which
none of them has seen; test files are not touched. Two taggers (POS, chunks; CoNLL-2000) and three
(POS, chunks, entities; CoNLL-2003), each reading the ones before it, and the longest held-out
sentences put end to end. For every budget: the share of tokens whose labels are all right, F of the
last tape, the share of answers proven to be the best, seconds of the processor.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fstcrf import CRF, Composition, Corpus, compose, read_columns
from fstcrf.errors import InexactWarning
from fstcrf.evaluate import evaluate_spans
from fstcrf.text.corpus import Column
from tests.benchmarks.report import table
from tests.benchmarks.taggers import CHUNKS, COLUMNS, chunker, pos_tagger, words_of

BUDGETS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 1024)
HELD_OUT = 250
LONG = 500  # tokens
ENTITIES = f"{CHUNKS}U30:%y[0,chunk]\nU31:%y[0,chunk]/%x[0,shape(word)]\n"


@dataclass(frozen=True)
class Task:
    """Taggers composed by the chain rule, and sentences that they have not seen."""

    name: str
    chain: Composition
    held_out: Corpus


def tasks(data: Path, sizes: Sequence[int]) -> Iterator[Task]:
    """Train the taggers of all tasks on so many sentences."""
    chunks = read_columns(data / "conll2000" / "train.txt", COLUMNS)
    entities = read_columns(data / "conll2003" / "eng.train", (*COLUMNS, "entity"))
    for size in sizes:
        train = chunks.select(np.arange(size))
        held_out = chunks.select(np.arange(len(chunks) - HELD_OUT, len(chunks)))
        pos = pos_tagger(train)
        two = compose(pos, chunker(train, pos), normalize="chain")
        yield Task(f"2 taggers, {size:,} sentences", two, held_out)
        yield Task(f"2 taggers, {size:,} sentences, long", two, end_to_end(held_out))
        train = entities.select(np.arange(size))
        held_out = entities.select(np.arange(len(entities) - HELD_OUT, len(entities)))
        pos = pos_tagger(train)
        chunk = chunker(train, pos)
        entity = CRF.train(train, "entity", ENTITIES, reads=[pos, chunk], threads=2)
        three = compose(pos, chunk, entity, normalize="chain")
        yield Task(f"3 taggers, {size:,} sentences", three, held_out)
        yield Task(f"3 taggers, {size:,} sentences, long", three, end_to_end(held_out))


def end_to_end(corpus: Corpus) -> Corpus:
    """Return the first sentences put end to end, to two of `LONG` tokens."""
    columns = {
        name: Column(column.ids[: 2 * LONG].copy(), column.values)
        for name, column in corpus.columns.items()
    }
    return Corpus(columns, np.asarray([0, LONG, 2 * LONG], dtype=np.int64))


def row(task: Task, budget: int) -> list[str]:
    """Decode with a budget; return the cells of a row."""
    words, begun = words_of(task.held_out), time.process_time()
    _, columns, inexact = task.chain.decide(words, budget=budget)
    seconds = time.process_time() - begun
    gold = [task.held_out.columns[tape].strings() for tape in task.chain.tapes]
    found = [column.strings() for column in columns]
    pairs = zip(zip(*gold, strict=True), zip(*found, strict=True), strict=True)
    right = np.mean([wanted == said for wanted, said in pairs])
    f = evaluate_spans([gold[-1]], [found[-1]]).f
    proven = 1 - inexact / len(task.held_out)
    return [f"{budget:,}", f"{right:.2%}", f"{f:.2%}", f"{proven:.1%}", f"{seconds:.2f}"]


def main() -> None:
    """Print a table for each task."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks.chain_budget", description=__doc__
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--quick", action="store_true", help="Few sentences, to see it run.")
    parser.add_argument("--most", type=int, default=BUDGETS[-1], help="The largest budget tried.")
    options = parser.parse_args()
    warnings.simplefilter("ignore", InexactWarning)  # they are counted
    head = ["budget", "all right", "F, last tape", "proven", "seconds"]
    for task in tasks(options.data, [200] if options.quick else [500, 3000]):
        rows = [row(task, budget) for budget in BUDGETS if budget <= options.most]
        print(f"{task.name}\n\n{table(head, rows)}\n", flush=True)


if __name__ == "__main__":
    main()
