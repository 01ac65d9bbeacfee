"""The recipe ``segments``: semi-Markov taggers, and chains with the same features."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

from fstcrf.evaluate import compare
from fstcrf.evaluate.labellings import written_alike
from fstcrf.ext.segments.structure import Segments
from fstcrf.recipes import corpora
from fstcrf.recipes.experiment import THREADS, Recipe, Setting, fastest
from fstcrf.recipes.protocol import Protocol, Settings, grid
from fstcrf.recipes.report import Headline, Result, Row, chances, gain, prose, template
from fstcrf.taggers import CRF
from fstcrf.taggers.segmental import SegmentCRF
from fstcrf.text.corpus import Corpus, convert_column
from fstcrf.training import Run
from fstcrf.training.lbfgs import LBFGS
from fstcrf.training.options import structured

PENALTIES = grid(l2=(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5))
SHAPES: list[dict[str, Any]] = [
    {"longest": longest, "strings": strings} for strings in (False, True) for longest in (4, 8)
]
"""Tokens of the longest segment without a tail; whether strings of whole segments are features."""

LABELS = grid(scheme=("iob2", "bioes"))
"""Of a chain: with BIOES it has weights for the last token of a span, like segments."""

MIDDLE = 0.1  # the penalty that shapes, and labels, are compared under

QUICK: dict[str, dict[str, Any]] = {  # settings of a quick run
    "chunking, labels": {"scheme": "iob2"},
    "chunking, chain": {"l2": 0.1},
    "chunking, shape": {"longest": 8, "strings": True},
    "chunking, segments": {"l2": 0.1},
}

HELD_OUT = 2000
"""The last sentences of CoNLL-2000's training file, which choose; it has no other dev part."""

EVERY = 3  # candidates learn from every n-th sentence outside the held-out part

CHAIN, SEGMENTS = "chain", "segments"

_WINDOWS = template("segments/windows")
_SHAPES = template("segments/shapes")


@dataclass(frozen=True, slots=True)
class SegmentTask:
    name: str
    target: str
    template: str
    columns: tuple[str, ...]  # whose strings over a segment may be features
    train: Corpus
    learnt: Corpus  # training data of candidates
    held_out: Corpus
    read_test: Callable[[], Corpus]


def chunking(setting: Setting) -> SegmentTask:
    """Read CoNLL-2000; dev are the last sentences of its training file."""
    train, test = corpora.chunk_file(setting, "train"), partial(corpora.chunk_file, setting, "test")
    cut = max(len(train) - HELD_OUT, len(train) // 2)
    parts = train, train[:cut][::EVERY], train[cut:], test
    return SegmentTask("chunking", "chunk", _WINDOWS, ("word", "pos"), *parts)


def entities(setting: Setting) -> SegmentTask:
    train, dev = (corpora.entities(setting, part, "iob2") for part in ("train", "testa"))
    parts = train, train[::EVERY], dev, partial(corpora.entities, setting, "testb", "iob2")
    return SegmentTask("entities", corpora.ENTITY, _WINDOWS + _SHAPES, ("word",), *parts)


def chain(task: SegmentTask, data: Corpus, settings: Settings) -> CRF:
    data = convert_column(data, task.target, "iob2", settings["scheme"])
    options: dict[str, Any] = {"l2": settings["l2"], "ends": True, "threads": THREADS}
    return CRF.train(
        data,
        **structured({"target": task.target, "template": task.template + "B", **options}),
    )


def segment_tagger(task: SegmentTask, data: Corpus, settings: Settings) -> SegmentCRF:
    return SegmentCRF.train(
        data,
        task.target,
        task.template,
        structure=Segments(
            longest=settings["longest"], strings=task.columns if settings["strings"] else ()
        ),
        method=LBFGS(delta=1e-3),
        l2=settings["l2"],
        run=Run(threads=THREADS),
    )


TRAIN: dict[str, Callable[[SegmentTask, Corpus, Settings], CRF | SegmentCRF]] = {
    CHAIN: chain,
    SEGMENTS: segment_tagger,
}


def choose(protocol: Protocol, task: SegmentTask) -> dict[str, Settings]:
    """Return the settings of each system: labels of chains, shape of segments; then penalties."""

    @cache
    def f(system: str, items: tuple[tuple[str, Any], ...]) -> float:
        tagger = TRAIN[system](task, task.learnt, dict(items))
        return corpora.span_f(task.held_out, task.target, tagger.tag_all(task.held_out))

    def chosen(
        what: str, system: str, candidates: Sequence[Settings], given: Settings
    ) -> dict[str, Any]:
        def held_out(own: Settings) -> float:
            return f(system, tuple({**given, **own}.items()))

        name = f"{task.name}, {what}"
        about = task.template, task.columns, dict(given), EVERY
        own = protocol.choose(name, candidates, held_out, about, quick=QUICK.get(name))
        return {**given, **own}

    labels = chosen("labels", CHAIN, LABELS, {"l2": MIDDLE})
    shape = chosen("shape", SEGMENTS, SHAPES, {"l2": MIDDLE})
    return {
        CHAIN: chosen(CHAIN, CHAIN, PENALTIES, labels),
        SEGMENTS: chosen(SEGMENTS, SEGMENTS, PENALTIES, shape),
    }


@dataclass(frozen=True, slots=True)
class SegmentRun:
    name: str
    labels: list[list[str]]
    f: float  # percent
    weights: int
    clock: float  # seconds of training
    training: float  # seconds of the processor
    # of tagging the test part, the best of three
    strings: float
    arrays: float


def measured(task: SegmentTask, system: str, settings: Settings, test: Corpus) -> SegmentRun:
    clock, began = time.perf_counter(), time.process_time()
    tagger = TRAIN[system](task, task.train, settings)
    seconds = time.perf_counter() - clock, time.process_time() - began
    labels = tagger.tag_all(test)
    f = corpora.span_f(test, task.target, labels)
    passes = fastest(lambda: tagger.tag_all(test)), fastest(lambda: tagger.decode(test))
    return SegmentRun(system, labels, f, tagger.space.size, *seconds, *passes)


def run(setting: Setting) -> Result:
    protocol = Protocol(RECIPE.name, setting)
    tasks = [read(setting) for read in ((chunking, entities) if setting.full else (chunking,))]
    setting.course.until(0.7)
    settings = [choose(protocol, task) for task in setting.course.each(tasks)]
    protocol.freeze()
    setting.course.until(1.0)
    rows: list[Row] = []
    headline: list[Headline] = []
    reading = prose(
        "segments/reading", held_out=HELD_OUT, every=EVERY, middle=MIDDLE, threads=THREADS
    )
    sections = [reading, protocol.section()]
    for task, chosen in setting.course.each(list(zip(tasks, settings, strict=True))):
        test = protocol.test(task.read_test)
        found = []
        for system in setting.course.each(TRAIN):
            setting.say(f"segments: {task.name}, {system}")
            about = task.template, task.columns, chosen[system]
            make = partial(measured, task, system, chosen[system], test)
            one = setting.kept(f"{task.name}, {system}", make, SegmentRun, about)
            rows += setting.told(_rows(task, one, test.n_tokens))
            found.append(one)
        sections.append(_significance(task, test, found, setting.seed))
        headline += [_headline(task, test, one) for one in found]
    return Result(rows, sections, headline=headline)


def _headline(task: SegmentTask, test: Corpus, one: SegmentRun) -> Headline:
    labels, _ = written_alike(test.column_lists(task.target), one.labels)
    counts = corpora.counted(test, task.target, labels)
    return Headline.of_f(f"{task.name}: {one.name}", "F, test, %", [counts])


def _rows(task: SegmentTask, one: SegmentRun, tokens: int) -> Iterator[Row]:
    name = f"{task.name}: {one.name}"
    yield Row(name, "F, test, %", one.f)
    yield Row(name, "weights", one.weights)
    yield Row(name, f"training, seconds by the clock, {THREADS} threads", one.clock)
    yield Row(name, "training, seconds of the processor", one.training)
    yield Row(name, "tokens a second, to strings", tokens / one.strings, seconds=one.strings)
    yield Row(name, "tokens a second, to arrays", tokens / one.arrays, seconds=one.arrays)


def _significance(task: SegmentTask, test: Corpus, found: Sequence[SegmentRun], seed: int) -> str:
    gold, reference = test.column_lists(task.target), found[0]
    documents = corpora.documents_of(test)
    body = []
    for one in found[1:]:
        pair = compare(gold, one.labels, reference.labels, documents=documents, seed=seed)
        body.append([one.name, gain(pair), *chances(pair)])
    drawn = "sentences" if documents is None else "documents"
    return prose("segments/significance", body, name=task.name, drawn=drawn)


RECIPE = Recipe(
    "segments",
    "Semi-Markov taggers beside chains with the same templates",
    needs=(*corpora.CHUNK_FILES, *corpora.ENTITY_FILES),
    paper="published",
    run=run,
    packages=("scipy",),
)
