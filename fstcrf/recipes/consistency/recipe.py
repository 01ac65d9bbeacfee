"""The recipe ``consistency``: tables 1 and 3 to 6 of Finkel, Grenager and Manning (2005)."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from fstcrf.corpus import Corpus, convert_column
from fstcrf.documents import Annealing, Consistency, DocumentTagger
from fstcrf.documents.consistency import PairCounts, count_pairs
from fstcrf.evaluate import SpanReport, evaluate_spans
from fstcrf.model import CRF
from fstcrf.recipes.consistency import announcements
from fstcrf.recipes.consistency.ablation import ablation
from fstcrf.recipes.consistency.data import MORE, SCHEME, TARGET, TEMPLATE, Data, read
from fstcrf.recipes.recipe import Result, Row, Setting
from fstcrf.recipes.report import number, table

__all__ = ["run"]

TYPES = ("LOC", "ORG", "MISC", "PER")
VITERBI = (88.16, 80.83, 78.51, 90.36, 85.51)
NON_LOCAL = (88.51, 81.72, 80.43, 92.29, 86.86)
SECONDS = (55.0, 1738.0)
L2, RUNS, RUNS_FULL, SWEEPS = 0.3, 3, 10, 200
_TABLE1 = (("token", 200), ("token", 1000), ("token", 10_000), ("sentence", 200))
SAME, WITHIN = (0.0, 0.25, 1.0), (0.5, 1.0, 2.0, 4.0, 8.0)

PAPER_SAME = {
    ("PER", "PER"): 3141, ("PER", "LOC"): 4, ("PER", "ORG"): 5, ("PER", "MISC"): 0,
    ("LOC", "LOC"): 6436, ("LOC", "ORG"): 188, ("LOC", "MISC"): 3,
    ("ORG", "ORG"): 2975, ("ORG", "MISC"): 0, ("MISC", "MISC"): 2030,
}  # fmt: skip
PAPER_WITHIN = {
    "PER": (1941, 5, 2, 3), "LOC": (0, 167, 6, 63), "ORG": (22, 328, 819, 191),
    "MISC": (14, 224, 7, 365),
}  # fmt: skip
_ORDER = ("PER", "LOC", "ORG", "MISC")


@dataclass(frozen=True, slots=True)
class _Features:
    name: str
    template: str


_PAPER = _Features("features of the paper", TEMPLATE)
_MORE = _Features("more features", MORE + TEMPLATE)


def run(setting: Setting) -> Result:
    """Train the local model, estimate penalties, decode the test file in both ways.

    Taggers, weights, and the scores of each system are kept as they are found.

    Raises
    ------
    DataError
        A file is missing, or is not what it should be.
    """
    data = read(setting)
    counts = count_pairs(data.train, TARGET, scheme=SCHEME)
    model = Consistency.estimate(data.train, TARGET, scheme=SCHEME)
    section = setting.section(_counts(counts))
    rows = _table1(data, setting)
    choices: list[str] = []
    for features in (_PAPER, _MORE):
        tagger = _tagger(features, data.train, setting)
        same, within = _chosen(tagger, model, features, data.dev, setting)
        weighted = _weighted(model, same, within)
        choices.append(f"{features.name}: same × {same:g}, within × {within:g}")
        rows += _table5(features, tagger, (model, weighted), data, setting)
    rows += announcements.rows(setting)
    sections = [_reading(setting, choices), section]
    if setting.full:
        sections.append(ablation(setting, data, L2))
    return Result(rows, sections)


def _tagger(features: _Features, train: Corpus, setting: Setting, scheme: str = SCHEME) -> CRF:
    options: dict[str, Any] = {"scheme": scheme, "l2": L2, "seed": setting.seed}

    def make() -> CRF:
        setting.say(f"consistency: {features.name}, training")
        return CRF.train(train, TARGET, features.template, **options)

    return setting.tagger(features.name, make, about=(features, options))


def _chosen(
    tagger: CRF, model: Consistency, features: _Features, dev: Corpus, setting: Setting
) -> tuple[float, float]:
    """Choose the weights of the two kinds of penalties on the dev file."""

    def make() -> tuple[float, float]:
        setting.say("consistency: weights of the penalties, on the dev file")
        scores = {
            pair: _scored(_documents(tagger, _weighted(model, *pair)), dev).overall.f
            for pair in itertools.product(SAME, WITHIN)
        }
        return max(scores, key=scores.__getitem__)

    about = (features, L2, SAME, WITHIN)
    return setting.kept(f"{features.name}, weights", make, tuple[float, float], about)


def _weighted(model: Consistency, same: float, within: float) -> Consistency:
    return model.scaled(same, "same").scaled(within, "within")


def _documents(tagger: CRF, model: Consistency | None, **options: Any) -> DocumentTagger:
    return DocumentTagger(
        tagger, [] if model is None else [model], **{"sweeps": "mixed", **options}
    )


def _scored(tagger: CRF | DocumentTagger, corpus: Corpus) -> SpanReport:
    return evaluate_spans(corpus.column_lists(TARGET), tagger.tag_all(corpus))


def _table1(data: Data, setting: Setting) -> list[Row]:
    """Return what sampling without penalties reaches from a random start, and Viterbi.

    Labels in IOB1, where every label may follow every other: one at a time leads everywhere.
    """
    train, test = (convert_column(c, TARGET, SCHEME, "iob1") for c in (data.train, data.test))
    features = _Features("IOB1", TEMPLATE)
    tagger = _tagger(features, train, setting, scheme="iob1")
    rows = setting.rows("IOB1, Viterbi", partial(_local, tagger, test), (features, L2))
    viterbi = rows[0].value
    for kind, sweeps in _TABLE1:
        name = f"IOB1, Gibbs without penalties, {sweeps} sweeps of {kind}s"
        options: dict[str, Any] = {"sweeps": kind, "annealing": Annealing(sweeps)}
        make = partial(_random, name, tagger, test, viterbi, setting, **options)
        rows += setting.rows(name, make, (features, L2))
    return rows


def _local(tagger: CRF, test: Corpus) -> Iterator[Row]:
    yield Row("IOB1, Viterbi", "F, test, %", 100 * _scored(tagger, test).overall.f, 85.51)


def _random(
    name: str, tagger: CRF, test: Corpus, viterbi: float, setting: Setting, **options: Any
) -> Iterator[Row]:
    """Yield what sampling without penalties reaches from a random start, beside Viterbi's F."""
    setting.say(f"consistency: {name}")
    options |= {"start": "random", "take": "last"}
    found, seconds = _sampled(tagger, None, test, setting, **options)
    scores = [100 * x.overall.f for x in found]
    yield Row(name, "F, test, %: mean", float(np.mean(scores)), 85.51, seconds)
    yield Row(name, "F, test, %: standard deviation", float(np.std(scores)), 0.01)
    yield Row(name, "F, test, %: mean less Viterbi's", float(np.mean(scores)) - viterbi, 0.0)


def _table5(
    features: _Features,
    tagger: CRF,
    models: tuple[Consistency, Consistency],
    data: Data,
    setting: Setting,
) -> list[Row]:
    """Return the rows of table 5, each system's kept when it is scored."""
    about = (features, L2)
    name = f"{features.name}, Viterbi"
    rows = setting.rows(name, partial(_viterbi, name, tagger, data), about)
    viterbi = next(row.value for row in rows if row.metric == "F, test, %")
    name = f"{features.name}, Gibbs without penalties"
    make = partial(_random, name, tagger, data.test, viterbi, setting)
    rows += setting.rows(name, make, about)
    for label, model in zip(("as estimated", "weighted on dev"), models, strict=True):
        name = f"{features.name}, Gibbs, penalties {label}"
        weighed = partial(_non_local, name, tagger, model, data, setting)
        rows += setting.rows(name, weighed, (*about, SAME, WITHIN))
    return rows


def _viterbi(name: str, tagger: CRF, data: Data) -> Iterator[Row]:
    yield Row(name, "F, dev, %", 100 * _scored(tagger, data.dev).overall.f)
    started = time.perf_counter()
    found = _scored(tagger, data.test)
    seconds = time.perf_counter() - started
    yield from _by_type(name, [found], VITERBI, seconds, SECONDS[0])


def _non_local(
    name: str, tagger: CRF, model: Consistency, data: Data, setting: Setting
) -> Iterator[Row]:
    setting.say(f"consistency: {name}")
    yield Row(name, "F, dev, %", 100 * _scored(_documents(tagger, model), data.dev).overall.f)
    found, seconds = _sampled(tagger, model, data.test, setting)
    yield from _by_type(name, found, NON_LOCAL, seconds, SECONDS[1])


def _sampled(
    tagger: CRF, model: Consistency | None, test: Corpus, setting: Setting, **options: Any
) -> tuple[list[SpanReport], float]:
    """Return the scores of some runs, and the seconds of one."""
    started, runs = time.perf_counter(), RUNS_FULL if setting.full else RUNS
    found = [
        _scored(_documents(tagger, model, seed=setting.seed + number, **options), test)
        for number in range(runs)
    ]
    return found, (time.perf_counter() - started) / runs


def _by_type(
    name: str,
    found: Sequence[SpanReport],
    paper: Sequence[float],
    seconds: float,
    paper_seconds: float,
) -> Iterator[Row]:
    for kind, published in zip(TYPES, paper, strict=False):
        mean = float(np.mean([100 * report.types[kind].f for report in found]))
        yield Row(name, f"F, test, %: {kind}", mean, published)
    scores = [100 * report.overall.f for report in found]
    yield Row(name, "F, test, %", float(np.mean(scores)), paper[-1], seconds)
    if len(found) > 1:
        yield Row(name, "F, test, %: standard deviation", float(np.std(scores)), 0.083)
    yield Row(name, "seconds for the test file", seconds, paper_seconds)


def _reading(setting: Setting, choices: Sequence[str]) -> str:
    runs = RUNS_FULL if setting.full else RUNS
    return (
        "## How to read this\n\n"
        f"Labels in BIOES where nothing else is said; L2 {L2}, "
        f"that of announcements {_priors()}. Each Gibbs figure is the mean of "
        f"{runs} runs of {SWEEPS} sweeps ({announcements.SWEEPS} for announcements), of which "
        "every second draws whole sentences: of BIOES labels hardly one can change alone. Those of "
        "IOB1 draw one label, or one sentence, at a time from a random start. The temperature "
        "falls from 1 to 0 in a line; the best sweep counts, without penalties the last. Features "
        "of the paper: those of its table 2 as attributes of single labels, and a weight for each "
        "pair of labels. More features: lower case, affixes, pairs, words and shapes two tokens "
        "away; and, which the paper's local model does not see, the neighbours and the case of a "
        "word at other places of its document; of announcements those of the recipe `seminars`, "
        "without parts of speech and entities. Weights of the penalties were chosen on the dev "
        f"file, {'; '.join(choices)}. Seconds are wall-clock, features included.\n\n"
        f"Announcements: {announcements.FOLDS} folds, each message tested once, one field a label. "
        "A token is right if it has the field that it should have; F of each field from the "
        "tokens of all folds together, their mean as the paper's overall figure. Tokens are runs "
        "of letters, of digits, or of one sign, so that a time has more of them than in the paper, "
        "whose folds are not known either. Penalties are chosen for each fold by a tagger trained "
        "on three of the other four, on the fourth."
    )


def _priors() -> str:
    return ", ".join(f"{one.l2:g} ({one.name})" for one in announcements.SETS)


def _counts(counts: PairCounts) -> str:
    """Write tables 3 and 4 beside the paper's."""
    place = {name: k for k, name in enumerate(counts.types)}
    head = ["", *_ORDER]

    def cell(value: int, published: int | None) -> str:
        return number(value) + ("" if published is None else f" ({number(published)})")

    same, within = [], []
    for a in _ORDER:
        same.append([a, *(
            cell(int(counts.same[place[a], place[b]]), PAPER_SAME[a, b])
            if (a, b) in PAPER_SAME else "" for b in _ORDER
        )])  # fmt: skip
        within.append([a, *(
            cell(int(counts.within[place[a], place[b]]), PAPER_WITHIN[a][j])
            for j, b in enumerate(_ORDER)
        )])  # fmt: skip
    return (
        "## Counts in the training file\n\nPairs of spans with the same tokens (paper's table 3 "
        f"in brackets):\n\n{table(head, same)}\n\nSpans (rows) that hold another's tokens "
        f"(columns; table 4):\n\n{table(head, within)}"
    )
