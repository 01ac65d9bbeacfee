"""The other side: python-crfsuite. Nothing of fstcrf is imported here.

``python -m tests.benchmarks.theirs WORK JSON`` does one piece of work in a process of its own and
prints a JSON object.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pycrfsuite

from tests.benchmarks.crfsuite_peer import ATTRIBUTES, read_sentences
from tests.benchmarks.tasks import L2, Task
from tests.benchmarks.work import answer


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
    with Path(output).open("w", encoding="utf-8") as file:
        for columns in read_sentences(task.path, task.separator):
            labels = tagger.tag(extract(*columns[:2]))
            tokens += len(labels)
            rows = zip(*columns, labels, strict=True)
            file.write("\n".join(map(separator.join, rows)) + "\n\n")
    return {"tokens": tokens}


if __name__ == "__main__":
    answer(globals())
