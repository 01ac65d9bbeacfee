"""The recipe ``consistency``: tables 1 and 3 to 6 of Finkel, Grenager and Manning (2005)."""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import msgspec
import numpy as np

from fstcrf.arrays import Longs
from fstcrf.evaluate import evaluate_spans
from fstcrf.ext.documents import Annealing, Consistency, DocumentTagger, exact_labels
from fstcrf.ext.documents.consistency import PairCounts, count_pairs
from fstcrf.ext.documents.document import Document, documents
from fstcrf.ext.significance import SpanCounts, span_counts
from fstcrf.recipes import announcements
from fstcrf.recipes.corpora import ENTITY, ENTITY_FILES, entities
from fstcrf.recipes.entity_features import LocalFeatures, elsewhere, occurrences
from fstcrf.recipes.experiment import Recipe, Setting
from fstcrf.recipes.protocol import SEEDS, Protocol, Settings, grid, over_seeds
from fstcrf.recipes.report import (
    Headline,
    Margin,
    Result,
    Row,
    chance_of_no_gain,
    number,
    prose,
    table,
)
from fstcrf.taggers import CRF
from fstcrf.text.corpus import Corpus, convert_column
from fstcrf.training.options import structured

SCHEME, L2 = "bioes", 0.3


def read(setting: Setting, part: str) -> Corpus:
    """Read a file, with the columns of its documents; the chunk column is not used."""
    return elsewhere(occurrences(entities(setting, part, "bioes")))


@dataclass(frozen=True, slots=True)
class Local:
    name: str
    features: LocalFeatures = field(default_factory=LocalFeatures)
    scheme: str = SCHEME
    l2: float = L2

    def trained(self, train: Corpus, setting: Setting) -> CRF:
        """Return the tagger of a training text, with labels in BIOES, maybe from an earlier run."""
        options: dict[str, Any] = {"scheme": self.scheme, "l2": self.l2, "seed": setting.seed}

        def make() -> CRF:
            setting.say(f"consistency: {self.name}, training")
            data = convert_column(train, ENTITY, SCHEME, self.scheme)
            return CRF.train(
                data,
                **structured(
                    {"target": ENTITY, "template": self.features.template(train), **options}
                ),
            )

        about = (str(self.features.template(train)), options)
        return setting.tagger(self.name, make, about=about)


_BOTH = (False, True)
FACTORIAL = grid(known=_BOTH, products=_BOTH, occurrences=_BOTH, across=_BOTH)
"""Features that the paper's table leaves open; a full run tries all."""

_L2S = (0.01, 0.03, 0.1, 0.3, 1.0)
LABELS = grid(scheme=("bioes", "io"), l2=_L2S)
PAIRS, PRIORS = grid(pairs=_BOTH), grid(l2=_L2S)
STRINGS = grid(ignore_case=_BOTH, incomplete=(0.0, 0.5, 1.0, 2.0))
WEIGHTS = grid(same=(0.0, 0.25, 1.0), within=(0.5, 1.0, 2.0, 4.0, 8.0))

QUICK: dict[str, dict[str, Any]] = {  # settings of a quick run
    "features": {"known": True, "products": True, "occurrences": True, "across": True},
    "labels and prior": {"scheme": "bioes", "l2": 0.3},
    "label pairs": {"pairs": False},
    "strings": {"ignore_case": True, "incomplete": 0.0},
    "weights": {"same": 0.25, "within": 1.0},
}

PLAIN, CHOSEN, MORE = "features of table 2", "chosen features", "more features"

# --- Tables of the paper --------------------------------------------------------------------------

TYPES = ("LOC", "ORG", "MISC", "PER")
VITERBI = (88.16, 80.83, 78.51, 90.36, 85.51)
NON_LOCAL = (88.51, 81.72, 80.43, 92.29, 86.86)
SECONDS = (55.0, 1738.0)
RUNS, RUNS_FULL, SWEEPS = 5, 10, 200
_TABLE1 = (("token", 200), ("token", 1000), ("token", 10_000), ("sentence", 200))

# The paper's table 3, of which one half is printed, and table 4: rows and columns in this order.
_ORDER = ("PER", "LOC", "ORG", "MISC")
PAPER_SAME = (
    (3141, 4, 5, 0),
    (None, 6436, 188, 3),
    (None, None, 2975, 0),
    (None, None, None, 2030),
)
PAPER_WITHIN = ((1941, 5, 2, 3), (0, 167, 6, 63), (22, 328, 819, 191), (14, 224, 7, 365))


def run(setting: Setting) -> Result:
    study = _Study(Protocol(RECIPE.name, setting), setting, read(setting, "train"))
    dev, protocol, course = read(setting, "testa"), study.protocol, setting.course
    counts = setting.section(_counts(count_pairs(study.train, ENTITY)))
    course.until(0.5)
    systems = study.systems(dev)
    chosen = {one: study.penalties(one, dev) for one in systems}
    course.until(0.6)
    messages = announcements.chosen(protocol, setting)
    models = {one: consistency(study.train, settings) for one, settings in chosen.items()}
    protocol.freeze()
    study.test = protocol.test(lambda: read(setting, "testb"))
    course.until(0.8 if setting.full else 0.9)
    rows, headline = study.table1(), []
    for one in course.each(systems):
        more, lines = study.table5(one, models[one])
        rows += more
        headline += lines
    rows += setting.told(study.between(systems))
    solved = systems[-1 if not setting.full else 1]
    rows += study.exact(solved, models[solved])
    course.until(1.0)
    more, lines = announcements.results(protocol, messages, setting)
    sections = [_reading(setting), protocol.section(), counts]
    return Result([*rows, *more], sections, headline=[*headline, *lines])


def _local(name: str, settings: Settings) -> Local:
    given = {key: settings[key] for key in ("scheme", "l2") if key in settings}
    return Local(name, LocalFeatures.of(settings), **given)


@dataclass(slots=True)
class _Study:
    """A run with its data; `test` is there when settings are frozen."""

    protocol: Protocol
    setting: Setting
    train: Corpus
    test: Corpus = field(init=False)

    def tagger(self, one: Local) -> CRF:
        return one.trained(self.train, self.setting)

    def systems(self, dev: Corpus) -> list[Local]:
        def of(settings: Settings) -> Local:
            words = ", ".join(f"{key} {value}" for key, value in settings.items())
            return _local(f"dev, {words}", settings)

        def best(name: str, candidates: Sequence[Settings], given: Settings, kind: str) -> Settings:
            def held_out(own: Settings) -> float:
                return _f(self.tagger(of({**given, **own})), dev)

            about, quick = dict(given) if given else None, QUICK.get(kind)
            own = self.protocol.choose(name, candidates, held_out, about, quick=quick)
            return {**given, **own}

        features = best("features", FACTORIAL, {}, "features")
        kinds = best("labels and prior", LABELS, features, "labels and prior")
        plain = best(f"{PLAIN}, labels and prior", LABELS, {}, "labels and prior")
        kinds = best("label pairs", PAIRS, kinds, "label pairs")
        found = [_local(PLAIN, plain), _local(CHOSEN, kinds)]
        if self.setting.full:
            found.append(_local(MORE, best(f"{MORE}, prior", PRIORS, {**kinds, "more": True}, "")))
        return found

    def penalties(self, one: Local, dev: Corpus) -> Settings:
        settings: dict[str, Any] = {}
        first = self.setting.seed
        seeds = range(first, first + (SEEDS if self.setting.full else 1))

        def held_out(given: Settings) -> float:
            tagger = self.tagger(one)
            model = consistency(self.train, {**QUICK["weights"], **settings, **given})
            return statistics.fmean(_f(_documents(tagger, model, k), dev) for k in seeds)

        for kind, candidates in (("strings", STRINGS), ("weights", WEIGHTS)):
            about, name = (one, dict(settings), len(seeds)), f"{one.name}, {kind}"
            quick = QUICK[kind]
            settings |= self.protocol.choose(name, candidates, held_out, about, quick=quick)
        return settings

    def _sampled(
        self, name: str, tagger: Callable[[int], DocumentTagger], about: object
    ) -> list[Scored]:
        """Return some runs from several seeds."""

        def make(seed: int) -> Scored:
            self.setting.say(f"consistency: {name}, seed {seed}")
            return _scored(tagger(seed), self.test)

        runs = RUNS_FULL if self.setting.full else RUNS
        return over_seeds(self.setting, name, make, Scored, seeds=runs, about=about)

    def table1(self) -> list[Row]:
        """Sample without penalties.

        Labels can change one at a time here: under IOB1 and IO, every one may follow every other.
        """
        locally = [Local(scheme.upper(), scheme=scheme) for scheme in ("iob1", "io")]
        found = map(self._without_penalties, locally)
        return self.setting.told(itertools.chain.from_iterable(found))

    def _without_penalties(self, one: Local) -> Iterator[Row]:
        tagger, name = self.tagger(one), f"{one.name}, Viterbi"
        viterbi = self.setting.kept(name, lambda: _scored(tagger, self.test), Scored, one)
        yield Row(name, "F, test, %", viterbi.f, 85.51, viterbi.seconds)
        for kind, sweeps in _TABLE1 if self.setting.full else _TABLE1[:1]:
            name = f"{one.name}, Gibbs without penalties, {sweeps} sweeps of {kind}s"
            options: dict[str, Any] = {"sweeps": kind, "start": "random", "take": "last"}
            made = partial(_without_models, tagger, annealing=Annealing(sweeps), **options)
            runs = self._sampled(name, made, (one, kind, sweeps))
            scores = [run.f for run in runs]
            yield Row(name, "F, test, %: mean", statistics.fmean(scores), 85.51, runs[0].seconds)
            yield Row(name, "F, test, %: standard deviation", statistics.stdev(scores), 0.01)
            apart = statistics.fmean(scores) - viterbi.f
            yield Row(name, "F, test, %: mean less Viterbi's", apart, 0.0)

    def table5(self, one: Local, model: Consistency) -> tuple[list[Row], list[Headline]]:
        tagger, viterbi = self.tagger(one), self._locally(one)
        plain, name = f"{one.name}, Viterbi", f"{one.name}, Gibbs, penalties weighted on dev"
        runs = self._sampled(name, partial(_documents, tagger, model), (one, model))
        rows = self.setting.told(_by_type(plain, [viterbi], VITERBI, SECONDS[0]))
        rows += self.setting.told(_by_type(name, runs, NON_LOCAL, SECONDS[1]))
        rows += self.setting.told(_against(name, viterbi, runs))
        lines = []
        for row, several, paper in (
            (plain, [viterbi], VITERBI[-1]),
            (f"{one.name}, with consistency", runs, NON_LOCAL[-1]),
        ):
            counts = [each.counts for each in several]
            lines.append(Headline.of_f(row, "F, test, %", counts, paper))
        return rows, lines

    def _locally(self, one: Local) -> Scored:
        def make() -> Scored:
            tagger = self.tagger(one)
            several = [_scored(tagger, self.test) for _ in range(_PASSES)]
            seconds = statistics.median(each.seconds for each in several)
            return msgspec.structs.replace(several[0], seconds=seconds)

        return self.setting.kept(f"{one.name}, Viterbi", make, Scored, one)

    def between(self, systems: Sequence[Local]) -> Iterator[Row]:
        for fewer, more in itertools.pairwise(systems):
            one, other = map(self._locally, (more, fewer))
            name = f"{more.name}, Viterbi, less {fewer.name}"
            yield Row(name, "F, test, %", one.f - other.f)
            margin = Margin.of([one.counts], [other.counts])
            yield from margin.ends(name, "F, test, %: ", "documents")

    def exact(self, one: Local, model: Consistency) -> list[Row]:
        tagger, setting = self.tagger(one), self.setting
        small = [part for part in documents(self.test) if 0 < len(part) <= SMALL]
        some = small if setting.full else small[:FEW]
        make = partial(_solved_all, tagger, model, some, setting)
        about = (one, model, SMALL, len(some))
        found = setting.kept("exact answers", make, list[SolvedDocument], about)
        name = f"{one.name}, exact answers of {len(some)} of {len(small)} small documents"
        return setting.told(_of_solved(name, found))


def consistency(train: Corpus, settings: Settings) -> Consistency:
    model = Consistency.estimate(
        train, ENTITY, ignore_case=settings["ignore_case"], incomplete=settings["incomplete"] > 0
    )
    for relation in ("same", "within", "incomplete"):
        model = model.scaled(settings[relation], relation)
    return model


def _documents(tagger: CRF, model: Consistency, seed: int) -> DocumentTagger:
    return DocumentTagger(tagger, [model], Annealing(SWEEPS), sweeps="mixed", seed=seed)


def _f(tagger: CRF | DocumentTagger, corpus: Corpus) -> float:
    return 100.0 * evaluate_spans(corpus.column_lists(ENTITY), tagger.tag_all(corpus)).overall.f


class Scored(msgspec.Struct, frozen=True):
    """The results of one run of a system on the test file."""

    f: float  # of spans, percent
    by_type: dict[str, float]
    seconds: float  # wall clock, from text to labels
    counts: SpanCounts  # of documents


def _scored(tagger: CRF | DocumentTagger, test: Corpus) -> Scored:
    started = time.perf_counter()
    labels = tagger.tag_all(test)
    seconds = time.perf_counter() - started
    gold = test.column_lists(ENTITY)
    report = evaluate_spans(gold, labels)
    counts = span_counts(gold, labels).grouped(test.documents)
    # A type that neither the file nor the answers have has F 0.
    by_type = {k: 100 * report.types[k].f if k in report.types else 0.0 for k in TYPES}
    return Scored(100 * report.overall.f, by_type, seconds, counts)


def _without_models(tagger: CRF, seed: int, **options: Any) -> DocumentTagger:
    return DocumentTagger(tagger, [], seed=seed, **options)


_PASSES = 5  # passes over the test file; the median of their seconds is Viterbi's time


def _by_type(
    name: str, found: Sequence[Scored], paper: Sequence[float], paper_seconds: float
) -> Iterator[Row]:
    for kind, published in zip(TYPES, paper, strict=False):
        mean = statistics.fmean(each.by_type[kind] for each in found)
        yield Row(name, f"F, test, %: {kind}", mean, published)
    scores = [each.f for each in found]
    seconds = statistics.fmean(each.seconds for each in found)
    yield Row(name, "F, test, %", statistics.fmean(scores), paper[-1], seconds)
    if len(found) > 1:
        yield Row(name, "F, test, %: standard deviation", statistics.stdev(scores), 0.083)
    yield Row(name, "seconds for the test file", seconds, paper_seconds)


def _against(name: str, viterbi: Scored, runs: Sequence[Scored]) -> Iterator[Row]:
    scores = [each.f for each in runs]
    yield Row(name, "F, test, %: gain over Viterbi", statistics.fmean(scores) - viterbi.f, 1.35)
    margin = Margin.of([each.counts for each in runs], [viterbi.counts])
    yield from margin.ends(name, "F, test, %: gain, ", "documents and runs")
    yield from chance_of_no_gain(name, scores, viterbi.f)
    times = statistics.fmean(each.seconds for each in runs) / viterbi.seconds
    yield Row(name, "times Viterbi", times, SECONDS[1] / SECONDS[0])


# --- An exact answer beside sampling --------------------------------------------------------------

SMALL, FEW = 150, 40
"""Most tokens of the documents that are solved exactly, and how many of them a quick run solves."""


class SolvedDocument(msgspec.Struct, frozen=True):
    """A small document: scores that are natural logs, spans, seconds."""

    tokens: int
    score: float | None  # of the best labels; `None` if not proven
    sampled: float
    agree: bool
    seconds: float


def _solved_all(
    tagger: CRF, model: Consistency, small: Sequence[Document], setting: Setting
) -> list[SolvedDocument]:
    found, whole = [], tagger._composed
    for document in small:
        setting.say(f"consistency: exact answer, document of {len(document)} tokens")
        full = [k for k, size in enumerate(np.diff(document.corpus.offsets).tolist()) if size]
        several = [row for row in whole._lattices(document.corpus) if len(row)]
        assert len(several) == len(full)  # noqa: S101 (empty sentences have none)
        begun = time.perf_counter()
        best = exact_labels(
            several, document, [model], annealing=Annealing(SWEEPS), seed=setting.seed
        )
        spent = time.perf_counter() - begun
        score, sampled = (None, 0.0) if best is None else (best.score, best.sampled)
        agree = score is not None and score - sampled < 1e-6
        found.append(SolvedDocument(len(document), score, sampled, agree, spent))
    return found


def _of_solved(name: str, found: Sequence[SolvedDocument]) -> Iterator[Row]:
    proven = [one for one in found if one.score is not None]
    yield Row(name, f"documents of at most {SMALL} tokens", len(found))
    yield Row(name, "solved: best labels proven", len(proven))
    if proven:
        yield Row(name, "of these, sampling found the best", sum(one.agree for one in proven))
        gap = statistics.fmean((one.score or 0.0) - one.sampled for one in proven)
        yield Row(name, "mean gap of sampling, natural log", gap)
        yield Row(name, "mean seconds", statistics.fmean(one.seconds for one in proven))


def _reading(setting: Setting) -> str:
    runs = RUNS_FULL if setting.full else RUNS
    priors = "; ".join(
        ", ".join(f"{l2:g}" for l2 in one.priors[: None if setting.full else 1]) + f" ({one.name})"
        for one in announcements.SETS
    )
    return prose(
        "consistency/reading",
        tried="" if setting.full else f" {prose('consistency/quick')}",
        how=f"means over {SEEDS} seeds" if setting.full else "of one seed",
        runs=runs,
        sweeps=SWEEPS,
        fewer=announcements.SWEEPS,
        folds=announcements.FOLDS,
        priors=priors,
    )


def _counts(counts: PairCounts) -> str:
    same = _beside(counts.types, counts.same, PAPER_SAME)
    within = _beside(counts.types, counts.within, PAPER_WITHIN)
    return prose("consistency/counts", same=same, within=within)


def _beside(types: Sequence[str], counts: Longs, paper: Sequence[Sequence[int | None]]) -> str:
    """Return counts with the paper's in brackets; a type that the file lacks is counted 0 times."""
    place = {name: k for k, name in enumerate(types)}

    def cell(a: str, b: str, published: int | None) -> str:
        known = a in place and b in place
        count = int(counts[place[a], place[b]]) if known else 0
        return "" if published is None else f"{number(count)} ({number(published)})"

    rows = [
        [a, *(cell(a, b, n) for b, n in zip(_ORDER, published, strict=True))]
        for a, published in zip(_ORDER, paper, strict=True)
    ]
    return table(["", *_ORDER], rows)


RECIPE = Recipe(
    "consistency",
    "Named entities that agree across a document, by Gibbs sampling",
    needs=(*ENTITY_FILES, "seminars/docs/*.txt"),
    paper="Finkel et al. (2005)",
    run=run,
    packages=("scipy",),
)
