"""The other side: python-crfsuite with features extracted in Python, as its users do it.

Run as a program, ``python -m tests.benchmarks.crfsuite_peer WORK JSON`` does one piece of work in a
process of its own and prints a JSON object. Nothing of fstcrf is imported here.

====================  ==========================================================
tutorial_attributes   attribute strings of a sentence: CRFsuite's chunking tutorial
word_attributes       words only
read_sentences        a column file, one list of strings a column and sentence
train                 file to saved model, with what CRFsuite logged
tag                   column file in, column file out
first                 load, tag one sentence, print
====================  ==========================================================
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pycrfsuite

from tests.benchmarks.tasks import L2, Task

__all__ = [
    "ATTRIBUTES",
    "read_sentences",
    "tag",
    "train",
    "tutorial_attributes",
    "word_attributes",
]

Columns = Sequence[Sequence[str]]


def tutorial_attributes(words: Sequence[str], tags: Sequence[str]) -> list[list[str]]:
    """19 templates, __BOS__ and __EOS__; positions beyond the sentence give nothing."""
    n = len(words)
    out: list[list[str]] = []
    for i in range(n):
        w, p = words[i], tags[i]
        found = ["w[0]=" + w, "p[0]=" + p]
        if i:
            w1, p1 = words[i - 1], tags[i - 1]
            found += ["w[-1]=" + w1, f"w[-1]|w[0]={w1}|{w}", "p[-1]=" + p1, f"pp[-1]={p1}|{p}"]
        if i > 1:
            p2 = tags[i - 2]
            found += ["w[-2]=" + words[i - 2], "p[-2]=" + p2]
            found += [f"pp[-2]={p2}|{p1}", f"ppp[-2]={p2}|{p1}|{p}"]
        if i + 1 < n:
            next_w, next_p = words[i + 1], tags[i + 1]
            found += ["w[1]=" + next_w, f"w[0]|w[1]={w}|{next_w}", "p[1]=" + next_p]
            found.append(f"pp[0]={p}|{next_p}")
            if i:
                found.append(f"ppp[-1]={p1}|{p}|{next_p}")
        if i + 2 < n:
            after = tags[i + 2]
            found += ["w[2]=" + words[i + 2], "p[2]=" + after]
            found += [f"pp[1]={next_p}|{after}", f"ppp[0]={p}|{next_p}|{after}"]
        out.append(found)
    _mark_ends(out)
    return out


def word_attributes(words: Sequence[str], *_: Sequence[str]) -> list[list[str]]:
    """Words in a window of five, two bigrams, prefixes and suffixes up to 4; the ends."""
    n = len(words)
    out: list[list[str]] = []
    for i in range(n):
        w = words[i]
        found = ["w[0]=" + w]
        found += ["1<" + w[:1], "2<" + w[:2], "3<" + w[:3], "4<" + w[:4]]
        found += ["1>" + w[-1:], "2>" + w[-2:], "3>" + w[-3:], "4>" + w[-4:]]
        if i:
            found += ["w[-1]=" + words[i - 1], f"w[-1]|w[0]={words[i - 1]}|{w}"]
        if i > 1:
            found.append("w[-2]=" + words[i - 2])
        if i + 1 < n:
            found += ["w[1]=" + words[i + 1], f"w[0]|w[1]={w}|{words[i + 1]}"]
        if i + 2 < n:
            found.append("w[2]=" + words[i + 2])
        out.append(found)
    _mark_ends(out)
    return out


def _mark_ends(out: list[list[str]]) -> None:
    if out:
        out[0].append("__BOS__")
        out[-1].append("__EOS__")


ATTRIBUTES: dict[str, Callable[..., list[list[str]]]] = {
    "tutorial": tutorial_attributes,
    "words": word_attributes,
}


def read_sentences(path: str, separator: str | None = None) -> Iterator[list[list[str]]]:
    """Yield each sentence as its columns, lists of strings."""
    with open(path, encoding="utf-8") as file:
        rows: list[list[str]] = []
        for line in file:
            if row := line.rstrip("\n").split(separator) if line != "\n" else []:
                rows.append(row)
            elif rows:
                yield [list(column) for column in zip(*rows, strict=True)]
                rows = []
        if rows:
            yield [list(column) for column in zip(*rows, strict=True)]


def train(
    task: Task, *, model: str, max_iterations: int | None = None, complete: bool = False
) -> dict[str, Any]:
    """Train and save; sentences are handed over one by one, so that no list of all is held."""
    extract, target = ATTRIBUTES[task.attributes], task.columns.index(task.target)
    options: dict[str, Any] = {"c1": 0.0, "c2": L2}
    if complete:
        options |= {"feature.possible_states": True, "feature.possible_transitions": True}
    if max_iterations is not None:
        options["max_iterations"] = max_iterations
    trainer = pycrfsuite.Trainer(algorithm="lbfgs", params=options, verbose=False)
    started = time.perf_counter()
    attributes = 0
    for columns in read_sentences(task.path, task.separator):
        found = extract(*columns[:2])
        attributes += sum(map(len, found))
        trainer.append(found, columns[target])
    appended = time.perf_counter()
    trainer.train(model)
    log = trainer.logparser
    timed = log.iterations[2:] or log.iterations
    seconds = sum(step["time"] for step in timed)
    return {
        "append_seconds": appended - started,
        "train_seconds": time.perf_counter() - appended,
        "iterations": len(log.iterations),
        "evaluations": sum(step["linesearch_trials"] for step in log.iterations),
        "seconds_per_evaluation": seconds / sum(step["linesearch_trials"] for step in timed),
        "seconds_per_iteration": seconds / len(timed),
        "objective": log.last_iteration["loss"],
        "parameters": log.featgen_num_features,
        "pairs": attributes,
        "feature_seconds": log.featgen_seconds,
    }


def tag(task: Task, *, model: str, output: str) -> dict[str, Any]:
    """Tag a column file; its columns and the predicted label are written."""
    tagger = pycrfsuite.Tagger()
    tagger.open(model)
    extract = ATTRIBUTES[task.attributes]
    separator = task.separator or " "
    tokens = 0
    with open(output, "w", encoding="utf-8") as file:
        for columns in read_sentences(task.path, task.separator):
            labels = tagger.tag(extract(*columns[:2]))
            tokens += len(labels)
            rows = zip(*columns, labels, strict=True)
            file.write("\n".join(map(separator.join, rows)) + "\n\n")
    return {"tokens": tokens}


def first(task: Task, *, model: str) -> dict[str, Any]:
    """Load a model and tag the first sentence of a file."""
    tagger = pycrfsuite.Tagger()
    tagger.open(model)
    columns = next(read_sentences(task.path, task.separator))
    return {"labels": tagger.tag(ATTRIBUTES[task.attributes](*columns[:2]))}


WORK: dict[str, Callable[..., dict[str, Any]]] = {"train": train, "tag": tag, "first": first}


def main(arguments: Sequence[str]) -> None:
    """Do one piece of work: its name, and its arguments as a JSON object."""
    work, given = arguments[0], json.loads(arguments[1])
    task = Task.from_plain(given.pop("task"))
    print(json.dumps(WORK[work](task, **given)))


if __name__ == "__main__":
    main(sys.argv[1:])
