"""Taggers trained and scored from the shell on the corpora of a data folder, as one table.

``python -m tests.benchmarks.accuracy --data DIR [--write]``; with ``--write`` the table goes to
docs/measurements/accuracy.tsv. Settings are fixed beforehand; nothing is chosen on the test parts.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from tests.benchmarks.machine import PAGES, ROOT, commit, tab_separated, this
from tests.benchmarks.report import table

PAGE = PAGES / "accuracy.tsv"

WORDS = """\
U00:%x[-2,{w}]
U01:%x[-1,{w}]
U02:%x[0,{w}]
U03:%x[1,{w}]
U04:%x[2,{w}]
U05:%x[-1,{w}]/%x[0,{w}]
U06:%x[0,{w}]/%x[1,{w}]
U10:%x[0,lower({w})]
U11:%x[0,prefix({w},1)]
U12:%x[0,prefix({w},2)]
U13:%x[0,prefix({w},3)]
U14:%x[0,suffix({w},1)]
U15:%x[0,suffix({w},2)]
U16:%x[0,suffix({w},3)]
U17:%x[0,suffix({w},4)]
U18:%x[-1..1,shape({w})]
B
"""
POS_AND_WORDS = (
    WORDS.removesuffix("B\n")
    + """\
U20:%x[-2..2,pos]
U21:%x[-2..1,pos]/%x[-1..2,pos]
U22:%x[-2..0,pos]/%x[-1..1,pos]/%x[0..2,pos]
B
"""
)
CHUNKS = """\
U00:%x[-2..2,word]
U01:%x[-1..0,word]/%x[0..1,word]
U02:%x[-2..2,pos]
U03:%x[-2..1,pos]/%x[-1..2,pos]
U04:%x[-2..0,pos]/%x[-1..1,pos]/%x[0..2,pos]
BOS
EOS
B
"""


@dataclass(frozen=True, slots=True)
class Task:
    """One tagger: what it is trained on and how."""

    name: str
    train: str
    test: str
    template: str
    options: tuple[str, ...]


CONLLU = WORDS.format(w="form")
NAMES = ("--columns", "word,pos,chunk,entity", "--target", "entity", "--min-count", "2")
TASKS = (
    Task(
        "CoNLL-2000 chunks",
        "conll2000/train.txt",
        "conll2000/test.txt",
        CHUNKS,
        ("--columns", "word,pos,chunk", "--target", "chunk", "--set", "boundary=skip"),
    ),
    Task(
        "CoNLL-2003 entities, testb",
        "conll2003/eng.train",
        "conll2003/eng.testb",
        POS_AND_WORDS.format(w="word"),
        NAMES,
    ),
    Task(
        "CoNLL-2003 entities, testa",
        "conll2003/eng.train",
        "conll2003/eng.testa",
        POS_AND_WORDS.format(w="word"),
        NAMES,
    ),
    *(
        Task(
            f"UD English EWT {column.upper()}",
            "ud_english_ewt/en_ewt-ud-train.conllu",
            "ud_english_ewt/en_ewt-ud-test.conllu",
            CONLLU,
            ("--target", column),
        )
        for column in ("upos", "xpos")
    ),
)


def fstcrf(*arguments: str) -> str:
    """Run the command line and return what it prints."""
    command = [sys.executable, "-m", "fstcrf.cli", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    if done.returncode:
        raise SystemExit(f"fstcrf {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout


def measure(task: Task, data: Path, folder: Path) -> list[str]:
    """Train, score, and return a row of the table."""
    template, model = folder / "t.tpl", folder / "m.fstcrf"
    template.write_text(task.template, encoding="utf-8")
    started = time.perf_counter()
    fstcrf(
        "train",
        str(data / task.train),
        *("-o", str(model), "--template", str(template), "--threads", "2"),
        *task.options,
    )
    seconds = time.perf_counter() - started
    scores = json.loads(fstcrf("eval", str(model), str(data / task.test), "--json"))
    f = scores.get("overall", {}).get("f")
    return [
        task.name,
        "—" if f is None else f"{100 * f:.2f}",
        f"{100 * scores['accuracy']:.2f}",
        f"{100 * scores['sentence_accuracy']:.2f}",
        f"{seconds:.1f}",
    ]


def main() -> None:
    """Measure all tasks; print the page, or write it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rows = [measure(task, options.data, Path(folder)) for task in TASKS]
    heads = ["task", "F", "accuracy", "whole sentences", "seconds to train"]
    machine = this()
    page = f"""# Accuracy

Taggers trained with `fstcrf train --threads 2` (L-BFGS, l2 = 0.5, order 1) and scored with
`fstcrf eval` on the test parts; F of spans as conlleval counts them, in percent. The templates are
in `tests/benchmarks/accuracy.py`; nothing was chosen on the test parts.

{table(heads, rows)}

`python -m tests.benchmarks.accuracy --data DIR --write`,
{machine.processor}, {machine.cores} cores, commit {commit()}, {datetime.now(UTC):%Y-%m-%d}.
"""
    if options.write:
        PAGE.write_text(tab_separated(page), encoding="utf-8")
    print(page)


if __name__ == "__main__":
    main()
