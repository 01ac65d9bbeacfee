"""The recipe ``neural``: effects of grammars and consistency on the scores of a network.

Entities of CoNLL-2003, 50 to all training sentences, several seeds. A small network (`network`) is
trained by cross-entropy, by a CRF layer, and by a CRF layer under the grammar of BIOES; each is
decoded freely, under the grammar, and with labels that agree across a document.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, cast

import msgspec
import numpy as np

from fstcrf import constraints
from fstcrf.arrays import Array, Longs
from fstcrf.errors import SchemeError
from fstcrf.ext.calibration import reliability, span_events
from fstcrf.ext.documents import Annealing, Consistency
from fstcrf.ext.documents.given import agreed_labels
from fstcrf.ext.significance import SpanCounts, span_counts
from fstcrf.lattices import Lattice, Lattices, TapeLattice
from fstcrf.machines.grammar import Grammar
from fstcrf.recipes import corpora
from fstcrf.recipes.experiment import THREADS, Recipe, Setting
from fstcrf.recipes.network import (
    LOSSES,
    UNDER_GRAMMAR,
    Loss,
    Network,
    NetworkOptions,
    NetworkVocabulary,
    read_parameters,
    write_parameters,
)
from fstcrf.recipes.probabilities import Worth, worth, worth_table
from fstcrf.recipes.protocol import SEEDS, Protocol, Settings, grid
from fstcrf.recipes.report import Headline, Margin, Result, Row, number, prose
from fstcrf.text.corpus import Corpus
from fstcrf.text.corpus.schemes import spans

SCHEME: Literal["bioes"] = "bioes"
SIZES = (50, 200, 1000, 4000, 14_041)  # training sentences: the first ones of the file
QUICK = (50, 200)
FEW_SEEDS = 3  # runs with all training sentences, which take longest

_OPTIONS = grid(rate=(0.001, 0.002, 0.004), dropout=(0.3, 0.5))
_LEAST_HELD_OUT = 500
"""Minimum number of sentences of the dev file for early stopping."""
_CHOSEN_ON = 1000  # training sentences that options are chosen with
_QUICK_OPTIONS: dict[str, Any] = {"rate": 0.002, "dropout": 0.5}
_PENALTIES = grid(same=(0.0, 0.25, 1.0), within=(0.0, 0.5, 1.0, 2.0))
_SWEEPS = 200


@dataclass(frozen=True, slots=True)
class EntityData:
    labels: tuple[str, ...]
    grammar: Grammar
    train: Corpus
    dev: Corpus

    def held_out(self, size: int) -> Corpus:
        """Return the held-out sentences for a training part: as many sentences of the dev file."""
        return self.dev[: max(_LEAST_HELD_OUT, size)]

    def tags(self, corpus: Corpus) -> list[Longs]:
        place = {label: k for k, label in enumerate(self.labels)}
        rows = corpus.column_lists(corpora.ENTITY)
        return [np.asarray([place[label] for label in row], dtype=np.int64) for row in rows]


def read(setting: Setting) -> EntityData:
    train, dev = (corpora.entities(setting, part, SCHEME) for part in ("train", "testa"))
    labels = tuple(sorted(set(train.column(corpora.ENTITY).strings())))
    return EntityData(labels, constraints.bioes(), train, dev)


class NetworkCourse(msgspec.Struct, frozen=True):
    rounds: int  # until the best one
    dev_f: float  # of that, percent, on held-out sentences, decoded as it is trained
    seconds: float  # of the processor, held-out figures included


@dataclass(frozen=True, slots=True)
class NetworkRun:
    loss: Loss
    size: int
    seed: int
    options: NetworkOptions

    @property
    def name(self) -> str:
        return f"{self.size} sentences, {self.loss}, seed {self.seed}"


def trained(run: NetworkRun, data: EntityData, setting: Setting) -> tuple[Network, NetworkCourse]:
    """Train a network, or load a network that an earlier run saved."""
    train = data.train[: run.size]
    words = train.column_lists("word")
    network = Network(
        NetworkVocabulary.of(words), data.labels, run.loss, data.grammar, run.options, run.seed
    )
    path = setting.parts.file(run.name, "npz", run)

    def make() -> NetworkCourse:
        setting.say(f"neural: {run.name}, training")
        course = _fitted(network, data, train)
        if path is not None:
            write_parameters(network.parameters(), path)
        return course

    course = setting.kept(run.name, make, NetworkCourse, run)
    if path is not None:
        network.set_parameters(read_parameters(path))
    return network, course


def _fitted(network: Network, data: EntityData, train: Corpus) -> NetworkCourse:
    held_out = data.held_out(len(train))
    began = time.process_time()
    best, at, kept = -1.0, 0, network.parameters()
    course = network.rounds(train.column_lists("word"), data.tags(train))
    for count, _ in enumerate(course, 1):
        f = _f(held_out, _as_trained(network, data, held_out))
        if f > best:
            best, at, kept = f, count, network.parameters()
        if count - at >= network.options.patience:
            break
    network.set_parameters(kept)
    return NetworkCourse(at, best, time.process_time() - began)


def _emissions(
    network: Network, data: EntityData, scores: Sequence[Array], *, ruled: bool
) -> Lattices[TapeLattice]:
    found = Lattices.from_arrays(data.labels, list(scores), **network.chain())
    return found & data.grammar if ruled else found


def _as_trained(network: Network, data: EntityData, corpus: Corpus) -> list[list[str]]:
    scores = network.scores(corpus.column_lists("word"))
    return _best(_emissions(network, data, scores, ruled=network.loss == UNDER_GRAMMAR))


def _best(batch: Lattices[TapeLattice]) -> list[list[str]]:
    found: Any = batch.decode(threads=THREADS).labels()
    return cast("list[list[str]]", found)


def _f(corpus: Corpus, labels: Sequence[Sequence[str]]) -> float:
    return corpora.span_f(corpus, corpora.ENTITY, labels)


def consistency(data: EntityData, size: int, settings: Mapping[str, Any]) -> Consistency:
    """Return the weighted model of consistent entities, estimated on `size` training sentences."""
    model = Consistency.estimate(data.train[:size], corpora.ENTITY)
    return model.scaled(settings["same"], "same").scaled(settings["within"], "within")


class Decoded(msgspec.Struct, frozen=True):
    """The results of one way to decode one network's scores on the test file."""

    f: float  # of spans, percent
    illegal: int  # sentences whose labels are no BIOES
    error: float | None  # of the probabilities of spans; `None` if labels are drawn
    seconds: float  # of the processor, from scores to labels
    counts: SpanCounts  # of documents


WAYS = ("free", "grammar", "grammar, consistency")
_Found: TypeAlias = Mapping[NetworkRun, Mapping[str, Decoded]]  # by the way to decode


def decoded(
    one: NetworkRun, network: Network, data: EntityData, test: Corpus, penalties: Mapping[str, Any]
) -> dict[str, Decoded]:
    scores = network.scores(test.column_lists("word"))
    found = {}
    for way in WAYS[:2]:
        began = time.process_time()
        batch = _emissions(network, data, scores, ruled=way != "free")
        labels = _best(batch)
        seconds = time.process_time() - began
        events = span_events(batch, test.column_lists(corpora.ENTITY), threads=THREADS)
        error = reliability(events, bins=15).error if len(events) else None
        found[way] = _decoded(test, labels, error, seconds)
    began = time.process_time()
    batch = _emissions(network, data, scores, ruled=True)
    labels = _agreed(batch, test, consistency(data, one.size, penalties), one.seed)
    found[WAYS[2]] = _decoded(test, labels, None, time.process_time() - began)
    return found


def _decoded(
    test: Corpus, labels: Sequence[Sequence[str]], error: float | None, seconds: float
) -> Decoded:
    illegal = sum(not _legal(row) for row in labels)
    counts = span_counts(test.column_lists(corpora.ENTITY), labels).grouped(test.documents)
    return Decoded(_f(test, labels), illegal, error, seconds, counts)


def _legal(labels: Sequence[str]) -> bool:
    try:
        spans(labels, SCHEME, illegal="raise")
    except SchemeError:
        return False
    return True


def run(setting: Setting) -> Result:
    """Choose options and penalties on the dev file, freeze them, and decode the test file."""
    data = read(setting)
    sizes = SIZES if setting.full else QUICK
    protocol = Protocol(RECIPE.name, setting)
    options = _chosen_options(protocol, data, setting)
    runs = [
        NetworkRun(loss, size, setting.seed + k, options)
        for size in sizes
        for k in range(_runs(size, full=setting.full))
        for loss in LOSSES
    ]
    for one in runs:
        trained(one, data, setting)
    penalties = {size: _chosen_penalties(protocol, size, options, data, setting) for size in sizes}
    protocol.freeze()
    test = protocol.test(lambda: corpora.entities(setting, "testb", SCHEME))
    found = {one: _measured(one, data, test, penalties[one.size], setting) for one in runs}
    probabilities = {
        f"{one.size:,} sentences, {one.loss}": _worth(one, data, test, setting)
        for one in runs
        if one.seed == setting.seed
    }
    courses = {one: trained(one, data, setting)[1] for one in runs}
    rows = setting.told(_rows(found, courses))
    sections = [_reading(sizes), *_tables(found, sizes), _grammar_in_training(found, sizes)]
    sections.append(prose("neural/probabilities", table=worth_table(probabilities)))
    sections.append(protocol.section())
    return Result(rows, sections, headline=_headline(found, sizes[-1]))


def _runs(size: int, *, full: bool) -> int:
    if not full:
        return 2
    return FEW_SEEDS if size == SIZES[-1] else SEEDS


def _chosen_options(protocol: Protocol, data: EntityData, setting: Setting) -> NetworkOptions:
    def held_out(settings: Settings) -> float:
        one = NetworkRun("crf", _CHOSEN_ON, setting.seed, NetworkOptions(**settings))
        return trained(one, data, setting)[1].dev_f

    chosen = protocol.choose("networks", _OPTIONS, held_out, quick=_QUICK_OPTIONS)
    return NetworkOptions(**chosen)


def _chosen_penalties(
    protocol: Protocol, size: int, options: NetworkOptions, data: EntityData, setting: Setting
) -> Mapping[str, Any]:
    network, _ = trained(NetworkRun("crf", size, setting.seed, options), data, setting)
    held = data.held_out(size)
    scores = network.scores(held.column_lists("word"))
    found = _emissions(network, data, scores, ruled=True)

    def held_out(settings: Settings) -> float:
        model = consistency(data, size, settings)
        return _f(held, _agreed(found, held, model, setting.seed))

    return protocol.choose(f"penalties, {size} sentences", _PENALTIES, held_out, options)


def _agreed(
    scores: Lattices[TapeLattice], corpus: Corpus, model: Consistency, seed: int
) -> list[list[str]]:
    annealing = Annealing(_SWEEPS)
    return agreed_labels(scores, corpus, [model], annealing=annealing, seed=seed)


def _measured(
    one: NetworkRun, data: EntityData, test: Corpus, penalties: Mapping[str, Any], setting: Setting
) -> dict[str, Decoded]:
    def make() -> dict[str, Decoded]:
        setting.say(f"neural: {one.name}, test file")
        network, _ = trained(one, data, setting)
        return decoded(one, network, data, test, penalties)

    return setting.kept(f"{one.name}, test", make, dict[str, Decoded], (one, dict(penalties)))


def _worth(one: NetworkRun, data: EntityData, test: Corpus, setting: Setting) -> Worth:
    def make() -> Worth:
        network, _ = trained(one, data, setting)

        def asked(corpus: Corpus) -> tuple[Sequence[Lattice], list[list[str]]]:
            scores = network.scores(corpus.column_lists("word"))
            batch = _emissions(network, data, scores, ruled=True)
            return batch, corpus.column_lists(corpora.ENTITY)

        return worth(*asked(test), asked(data.dev), threads=THREADS)

    return setting.kept(f"{one.name}, probabilities", make, Worth, one)


def _rows(found: _Found, courses: Mapping[NetworkRun, NetworkCourse]) -> Iterator[Row]:
    for one, ways in found.items():
        course = courses[one]
        yield Row(one.name, "F, held-out, %", course.dev_f, seconds=course.seconds)
        for way, answer in ways.items():
            name = f"{one.name}: {way}"
            yield Row(name, "F, test, %", answer.f, seconds=answer.seconds)
            yield Row(name, "sentences with illegal labels", answer.illegal)
            if answer.error is not None:
                yield Row(name, "expected calibration error", answer.error)


def _of(found: _Found, size: int, loss: Loss, way: str) -> list[Decoded]:
    return [ways[way] for one, ways in found.items() if (one.size, one.loss) == (size, loss)]


def _headline(found: _Found, size: int) -> list[Headline]:
    lines = []
    for loss in LOSSES:
        for way in WAYS:
            counts = [one.counts for one in _of(found, size, loss, way)]
            name = f"{size:,} sentences, {loss}, {way}"
            lines.append(Headline.of_f(name, "F, test, %", counts))
    return lines


def _tables(found: _Found, sizes: Sequence[int]) -> list[str]:
    sections = []
    for size in sizes:
        body = []
        for loss in LOSSES:
            ways = [_of(found, size, loss, way) for way in WAYS]
            body += [[f"{loss}, {way}", *_cells(ways, k)] for k, way in enumerate(WAYS)]
        sections.append(prose("neural/table", body, size=size))
    return sections


def _grammar_in_training(found: _Found, sizes: Sequence[int]) -> str:
    """Write the effect of training under the grammar, if both are decoded under it."""
    body = []
    for size in sizes:
        mine, other = (_of(found, size, loss, WAYS[1]) for loss in (UNDER_GRAMMAR, "crf"))
        means = [statistics.fmean(one.f for one in side) for side in (mine, other)]
        gain = _difference(mine, other, matched=False)
        errors = [
            statistics.fmean(one.error for one in side if one.error is not None)
            for side in (mine, other)
        ]
        body.append([f"{size:,}", *map(number, means[::-1]), gain, *map(number, errors[::-1])])
    return prose("neural/grammar", body)


def _difference(mine: Sequence[Decoded], other: Sequence[Decoded], *, matched: bool) -> str:
    sides = ([one.counts for one in side] for side in (mine, other))
    return str(Margin.of(*sides, matched=matched))


def _cells(ways: Sequence[Sequence[Decoded]], k: int) -> list[str]:
    mine = ways[k]
    gain = _difference(mine, ways[0], matched=True) if k else ""
    further = _difference(mine, ways[k - 1], matched=True) if k > 1 else ""
    errors = [one.error for one in mine if one.error is not None]
    return [
        number(statistics.fmean(one.f for one in mine)),
        gain,
        further,
        number(statistics.fmean(one.illegal for one in mine)),
        number(statistics.fmean(errors)) if errors else "",
        number(statistics.median(one.seconds for one in mine)),
    ]


def _reading(sizes: Sequence[int]) -> str:
    return prose(
        "neural/reading",
        sizes=", ".join(f"{size:,}" for size in sizes),
        least_held_out=_LEAST_HELD_OUT,
        seeds=SEEDS,
        few_seeds=FEW_SEEDS,
    )


RECIPE = Recipe(
    "neural",
    "A network's scores of entities under a grammar, and with labels that agree",
    needs=corpora.ENTITY_FILES,
    paper="published",
    run=run,
    packages=("torch", "scipy"),
)
