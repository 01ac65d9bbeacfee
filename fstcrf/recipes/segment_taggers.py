"""The recipe ``segments``: semi-Markov taggers beside chains with the same features."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from fstcrf.corpus import Corpus
from fstcrf.evaluate import compare
from fstcrf.joint import CRF
from fstcrf.recipes import corpora
from fstcrf.recipes.experiment import THREADS, Recipe, Setting
from fstcrf.recipes.report import Result, Row, gain, table
from fstcrf.semimarkov import SegmentCRF

L2 = 0.5
"""Of all taggers: neither was tuned."""

_WINDOWS = """\
U0:%x[-2..2,word]
U1:%x[-1..0,word]/%x[0..1,word]
U2:%x[-2..2,pos]
U3:%x[-2..1,pos]/%x[-1..2,pos]
U4:%x[-2..0,pos]/%x[-1..1,pos]/%x[0..2,pos]
U5
"""
_SHAPES = """\
U6:%x[-1..1,short_shape(word)]
U7:%x[-1..0,short_shape(word)]/%x[0..1,short_shape(word)]
U8:%x[0,prefix(word,3)]
U9:%x[0,suffix(word,3)]
"""


@dataclass(frozen=True, slots=True)
class SegmentTask:
    """What is tagged."""

    name: str
    target: str
    template: str
    segments: tuple[str, ...]  # columns whose strings over a segment are features
    train: Corpus
    test: Corpus


def chunking(setting: Setting) -> SegmentTask:
    """Read CoNLL-2000."""
    train, test = corpora.chunks(setting)
    return SegmentTask("chunking", "chunk", _WINDOWS, ("word", "pos"), train, test)


def entities(setting: Setting) -> SegmentTask:
    """Read CoNLL-2003; dev is left alone."""
    train, test = (corpora.entities(setting, part, "iob2") for part in ("train", "testb"))
    return SegmentTask("entities", corpora.ENTITY, _WINDOWS + _SHAPES, ("word",), train, test)


@dataclass(frozen=True, slots=True)
class SegmentRun:
    """A tagger with its answers on the test part."""

    name: str
    labels: list[list[str]]
    f: float  # percent
    weights: int
    # training, tagging: seconds of the processor; of tagging the best of three
    training: float
    tagging: float


def _timed(tagger: Any, test: Corpus) -> tuple[list[list[str]], float]:
    """Labels of the test part, and the seconds of the fastest of three passes over it."""
    best, labels = float("inf"), []
    for _ in range(3):
        began = time.process_time()
        labels = tagger.tag_all(test)
        best = min(best, time.process_time() - began)
    return labels, best


def chain(task: SegmentTask) -> SegmentRun:
    """Train and time a chain."""
    began = time.process_time()
    tagger = CRF.train(
        task.train, task.target, task.template + "B", l2=L2, ends=True, threads=THREADS
    )
    seconds = time.process_time() - began
    labels, tagging = _timed(tagger, task.test)
    f = corpora.span_f(task.test, task.target, labels)
    return SegmentRun("chain", labels, f, tagger.space.size, seconds, tagging)


def segment_tagger(task: SegmentTask, columns: tuple[str, ...], name: str) -> SegmentRun:
    """Train and time a semi-Markov tagger."""
    began = time.process_time()
    tagger = SegmentCRF.train(
        task.train, task.target, task.template, segments=columns, l2=L2, delta=1e-3, threads=THREADS
    )
    seconds = time.process_time() - began
    labels, tagging = _timed(tagger, task.test)
    f = corpora.span_f(task.test, task.target, labels)
    return SegmentRun(name, labels, f, tagger.space.size, seconds, tagging)


def run(setting: Setting) -> Result:
    """Train both on chunks, in a full run on entities, too."""
    rows: list[Row] = []
    sections = [_READING]
    for read in setting.course.each((chunking, entities) if setting.full else (chunking,)):
        task = read(setting)
        about = (task.template, task.segments, L2)
        makes = {
            "chain": partial(chain, task),
            "segments": partial(segment_tagger, task, task.segments, "segments"),
        }
        if setting.full:
            alone = "segments, no features of their own"
            makes[alone] = partial(segment_tagger, task, (), alone)
        found = []
        for name, make in setting.course.each(makes.items()):
            setting.say(f"segments: {task.name}, {name}")
            one = setting.kept(f"{task.name}, {name}", make, SegmentRun, about)
            rows += setting.rows(
                f"{task.name}, {name}, rows", partial(_rows, task, one), (about, one.f)
            )
            found.append(one)
        sections.append(_significance(task, found, setting.seed))
    return Result(rows, sections)


def _rows(task: SegmentTask, found: SegmentRun) -> Iterator[Row]:
    name = f"{task.name}: {found.name}"
    yield Row(name, "F, test, %", found.f, seconds=found.training)
    yield Row(name, "weights", found.weights)
    speed = task.test.n_tokens / found.tagging
    yield Row(name, "tokens tagged a second of the processor", speed, seconds=found.tagging)


_READING = (
    "## How to read this\n\n"
    "A chain has a label for each token (IOB2), a segment tagger one for each segment of up to "
    "eight tokens, with a tail for longer ones. Both read the same templates at every token: the "
    "chain for B- and I-, the other for the first token of a segment, tokens within it, and its "
    "last one. What a chain cannot have are weights of lengths, and the strings of whole segments "
    f"as features. L2 is {L2:g} for all of them, tuned for none. Seconds are of the processor, "
    f"all threads together ({THREADS} in training, one in tagging), features included; of three "
    "passes over the test part the fastest counts."
)


def _significance(task: SegmentTask, found: Sequence[SegmentRun], seed: int) -> str:
    """Compare every tagger with the chain."""
    gold, reference = task.test.column_lists(task.target), found[0]
    body = []
    for one in found[1:]:
        pair = compare(gold, one.labels, reference.labels, seed=seed)
        chances = pair.tokens.exact, pair.sentences.exact, pair.randomised
        body.append([one.name, gain(pair), *(f"{p:.3g}" for p in chances)])
    head = [
        "against the chain",
        "F (95 % interval)",
        "McNemar, tokens",
        "sentences",
        "randomised F",
    ]
    heading = f"## Significance, {task.name}\n\np-values against the chain, and the gain in F:"
    return f"{heading}\n\n{table(head, body)}"


RECIPE = Recipe(
    "segments",
    "Semi-Markov taggers beside chains with the same features",
    needs=(
        "conll2000/train.txt",
        "conll2000/test.txt",
        "conll2003/eng.train",
        "conll2003/eng.testb",
    ),
    paper="published",
    run=run,
    packages=("scipy",),
)
