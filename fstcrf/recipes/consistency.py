"""The recipe ``consistency``: tables 1 and 3 to 6 of Finkel, Grenager and Manning (2005)."""

from __future__ import annotations

import itertools
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

import numpy as np

from fstcrf.arrays import Longs
from fstcrf.corpus import Column, Corpus, convert_column
from fstcrf.documents import Annealing, Consistency, DocumentTagger
from fstcrf.documents.consistency import PairCounts, count_pairs
from fstcrf.evaluate import SpanReport, evaluate_spans
from fstcrf.joint import CRF
from fstcrf.recipes import announcements
from fstcrf.recipes.corpora import ENTITY, DataSplit, entities
from fstcrf.recipes.experiment import Recipe, Setting
from fstcrf.recipes.report import Result, Row, number, table

# --- What the rest of a document says of a word ---------------------------------------------------
#
# Its neighbours and its case at other places, beyond the paper: its local model sees four words to
# either side. Words are compared in lower case; places in lower case lend no neighbours, and words
# that begin with no letter get none.

MOST = 5
CASE = "case"


def columns(side: str) -> list[str]:
    """Return the columns of neighbours ``before`` or ``after`` other places of the word."""
    return [f"{side}{k}" for k in range(MOST)]


def elsewhere(corpus: Corpus, column: str = "word") -> Corpus:
    """Return a corpus with columns of what its documents say of words elsewhere.

    `columns` of ``before`` and ``after``, empty where there are no more, and `CASE`: which of lower
    case (l), capitalised (c) and capitals (U) the word has in the document, at places where it is
    not the sentence that decides.
    """
    words = corpus.column(column).strings()
    found = {name: [""] * len(words) for side in ("before", "after") for name in columns(side)}
    found[CASE] = ["-"] * len(words)
    neighbours, telling = _neighbours(words, corpus.offsets.tolist())
    for places in _places(corpus, words):
        kinds = {_case(words[k]) for k in places if telling[k] or words[k].islower()}
        for k in places:
            found[CASE][k] = "".join(sorted(kinds)) or "-"
        named = [k for k in places if not words[k].islower()]
        if len(places) > 1:
            _lend(named, neighbours, found)
    for name, strings in found.items():
        corpus = corpus.with_interned(name, Column.from_strings(strings))
    return corpus


def _lend(
    places: Sequence[int], neighbours: dict[str, list[str]], found: dict[str, list[str]]
) -> None:
    """Give each place the neighbours of the others, those met first."""
    for side, strings in neighbours.items():
        names = columns(side)
        for k in places:
            others = dict.fromkeys(strings[j] for j in places if j != k and strings[j])
            for name, string in zip(names, others, strict=False):
                found[name][k] = string


def _neighbours(
    words: Sequence[str], bounds: Sequence[int]
) -> tuple[dict[str, list[str]], list[bool]]:
    """Return the words before and after each token, and whether its case tells something.

    The case of a first word, or of one in a sentence of capitals, tells nothing.
    """
    before, after = [""] * len(words), [""] * len(words)
    telling = [False] * len(words)
    for first, end in itertools.pairwise(bounds):
        mixed = any(c.islower() for word in words[first:end] for c in word)
        for k in range(first, end):
            before[k] = words[k - 1] if k > first else ""
            after[k] = words[k + 1] if k + 1 < end else ""
            telling[k] = mixed and k > first
    return {"before": before, "after": after}, telling


def _places(corpus: Corpus, words: Sequence[str]) -> list[list[int]]:
    """Return the places of each word that begins with a letter, in each document."""
    found: defaultdict[tuple[int, str], list[int]] = defaultdict(list)
    document = np.repeat(corpus.documents, np.diff(corpus.offsets)).tolist()
    for k, word in enumerate(words):
        if word[:1].isalpha():
            found[document[k], word.lower()].append(k)
    return list(found.values())


def _case(word: str) -> str:
    if word.islower():
        return "l"
    return "U" if word.isupper() and len(word) > 1 else "c"


# --- Data and features ----------------------------------------------------------------------------

SCHEME: Literal["bioes"] = "bioes"

TEMPLATE = """\
U0:%x[-1..1,word]
U1:%x[0,ngrams(word,1,30)]
U2:%x[-1..1,pos]
U3:%x[-1..0,pos]/%x[0..1,pos]
U4:%x[-1,pos]/%x[0,pos]/%x[1,pos]
U5:%x[0,shape(word)]
U6:%x[-1..1,short_shape(word)]
U7:%x[-1..0,short_shape(word)]/%x[0..1,short_shape(word)]
U8:%x[-1,short_shape(word)]/%x[0,short_shape(word)]/%x[1,short_shape(word)]
U9:%x{-4..-1,word}
U10:%x{1..4,word}
B
"""

_NEAR = "".join(
    f"U{letter}:%x[0,{name}]\n"
    for letter, side in (("C0", "before"), ("C1", "after"))
    for name in columns(side)
)

AFFIXES = """\
UA0:%x[-1..1,lower(word)]
UA1:%x[0,ngrams(lower(word),1,30)]
UA2:%x{-4..-1,lower(word)}
UA3:%x{1..4,lower(word)}
UA4:%x[-1..0,lower(word)]/%x[0..1,lower(word)]
UA5:%x[-1,lower(word)]/%x[1,lower(word)]
UA6:%x[-2,word]
UA7:%x[2,word]
UB0:%x[-1..1,pos]/%x[0,short_shape(word)]
UB1:%x[0,word]/%x[0,pos]
UB2:%x[-1,word]/%x[0,short_shape(word)]
UB3:%x[1,word]/%x[0,short_shape(word)]
UB4:%x[-1..1,suffix(word,3)]
UB5:%x[-1..1,prefix(word,3)]
UB6:%x[-1..1,suffix(word,2)]
UB7:%x[-2..2,shape(word)]
UB8:%x[-1..0,shape(word)]/%x[0..1,shape(word)]
UB9:%x[-2..0,short_shape(word)]/%x[-1..1,short_shape(word)]/%x[0..2,short_shape(word)]
"""

ELSEWHERE = f"""\
{_NEAR}\
UC2:%x[-1..1,{CASE}]
UC3:%x[-1..1,{CASE}]/%x[-1..1,short_shape(word)]
UC4:%x[-1..0,{CASE}]/%x[-1..0,short_shape(word)]/%x[0..1,{CASE}]/%x[0..1,short_shape(word)]
"""

MORE = AFFIXES + ELSEWHERE


def read(setting: Setting) -> DataSplit:
    """Read the files, with the columns of `elsewhere`; the chunk column is not used."""
    parts = ("train", "testa", "testb")
    train, dev, test = (elsewhere(entities(setting, part, SCHEME)) for part in parts)
    return DataSplit(train, train, dev, test)


# --- The run --------------------------------------------------------------------------------------

TYPES = ("LOC", "ORG", "MISC", "PER")
VITERBI = (88.16, 80.83, 78.51, 90.36, 85.51)
NON_LOCAL = (88.51, 81.72, 80.43, 92.29, 86.86)
SECONDS = (55.0, 1738.0)
L2, RUNS, RUNS_FULL, SWEEPS = 0.3, 3, 10, 200
_TABLE1 = (("token", 200), ("token", 1000), ("token", 10_000), ("sentence", 200))
SAME, WITHIN = (0.0, 0.25, 1.0), (0.5, 1.0, 2.0, 4.0, 8.0)

# The paper's table 3, of which one half is printed, and table 4: rows and columns in this order.
_ORDER = ("PER", "LOC", "ORG", "MISC")
PAPER_SAME = (
    (3141, 4, 5, 0),
    (None, 6436, 188, 3),
    (None, None, 2975, 0),
    (None, None, None, 2030),
)
PAPER_WITHIN = ((1941, 5, 2, 3), (0, 167, 6, 63), (22, 328, 819, 191), (14, 224, 7, 365))


@dataclass(frozen=True, slots=True)
class _Features:
    name: str
    template: str


_PAPER = _Features("features of the paper", TEMPLATE)
_MORE = _Features("more features", MORE + TEMPLATE)


def run(setting: Setting) -> Result:
    """Train the local model, estimate penalties, decode the test file in both ways.

    Taggers, weights, and the scores of each system are kept as they are found.
    """
    data = read(setting)
    counts = count_pairs(data.train, ENTITY, scheme=SCHEME)
    model = Consistency.estimate(data.train, ENTITY, scheme=SCHEME)
    section = setting.section(_counts(counts))
    setting.course.until(0.2)
    rows = _table1(data, setting)
    choices: list[str] = []
    setting.course.until(0.6)
    for features in setting.course.each((_PAPER, _MORE)):
        tagger = _tagger(features, data.train, setting)
        same, within = _chosen(tagger, model, features, data.dev, setting)
        weighted = _weighted(model, same, within)
        choices.append(f"{features.name}: same × {same:g}, within × {within:g}")
        rows += _table5(features, tagger, (model, weighted), data, setting)
    setting.course.until(0.8 if setting.full else 1.0)
    rows += announcements.rows(setting)
    setting.course.until(1.0)
    sections = [_reading(setting, choices), section]
    if setting.full:
        sections.append(ablation(setting, data, L2))
    return Result(rows, sections)


def _tagger(features: _Features, train: Corpus, setting: Setting, scheme: str = SCHEME) -> CRF:
    options: dict[str, Any] = {"scheme": scheme, "l2": L2, "seed": setting.seed}

    def make() -> CRF:
        setting.say(f"consistency: {features.name}, training")
        return CRF.train(train, ENTITY, features.template, **options)

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
    return evaluate_spans(corpus.column_lists(ENTITY), tagger.tag_all(corpus))


# --- Tables 1 and 5 -------------------------------------------------------------------------------


def _table1(data: DataSplit, setting: Setting) -> list[Row]:
    """Return what sampling without penalties reaches from a random start, and Viterbi.

    Labels in IOB1, where every label may follow every other: one at a time leads everywhere.
    """
    train, test = (convert_column(c, ENTITY, SCHEME, "iob1") for c in (data.train, data.test))
    features = _Features("IOB1", TEMPLATE)
    tagger = _tagger(features, train, setting, scheme="iob1")
    rows = setting.rows("IOB1, Viterbi", partial(_local, tagger, test), (features, L2))
    viterbi = rows[0].value
    for kind, sweeps in setting.course.each(_TABLE1):
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
    data: DataSplit,
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
    kinds = zip(("as estimated", "weighted on dev"), models, strict=True)
    for label, model in setting.course.each(kinds):
        name = f"{features.name}, Gibbs, penalties {label}"
        weighed = partial(_non_local, name, tagger, model, data, setting)
        rows += setting.rows(name, weighed, (*about, SAME, WITHIN))
    return rows


def _viterbi(name: str, tagger: CRF, data: DataSplit) -> Iterator[Row]:
    yield Row(name, "F, dev, %", 100 * _scored(tagger, data.dev).overall.f)
    started = time.perf_counter()
    found = _scored(tagger, data.test)
    seconds = time.perf_counter() - started
    yield from _by_type(name, [found], VITERBI, seconds, SECONDS[0])


def _non_local(
    name: str, tagger: CRF, model: Consistency, data: DataSplit, setting: Setting
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
        mean = float(np.mean([100 * _of_type(report, kind) for report in found]))
        yield Row(name, f"F, test, %: {kind}", mean, published)
    scores = [100 * report.overall.f for report in found]
    yield Row(name, "F, test, %", float(np.mean(scores)), paper[-1], seconds)
    if len(found) > 1:
        yield Row(name, "F, test, %: standard deviation", float(np.std(scores)), 0.083)
    yield Row(name, "seconds for the test file", seconds, paper_seconds)


def _of_type(report: SpanReport, kind: str) -> float:
    """Return F of a type, in [0, 1]; 0 for one that neither the file nor the answers have."""
    return report.types[kind].f if kind in report.types else 0.0


# --- Other local models, on the dev file ----------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LocalVariant:
    """A local model: its template, and options other than those of the recipe."""

    name: str
    template: str = TEMPLATE
    options: dict[str, Any] = field(default_factory=dict, hash=False)


def _without(*names: str) -> str:
    """Return the paper's features without some lines, named as in the template."""
    lines = TEMPLATE.splitlines(keepends=True)
    return "".join(line for line in lines if line.split(":")[0] not in names)


_WIDER = """\
UX0:%x[-2,pos]
UX1:%x[2,pos]
UX2:%x[-2..0,pos]/%x[0..2,pos]
UX3:%x[-2,short_shape(word)]
UX4:%x[2,short_shape(word)]
UX5:%x[-2..0,short_shape(word)]/%x[0..2,short_shape(word)]
"""

_ON_PAIRS = """\
BX0:%x[-1..0,pos]
BX1:%x[-1..0,short_shape(word)]
"""

VARIANTS = (
    LocalVariant("of the paper"),
    LocalVariant("the same, a weight for all labels", options={"features": "complete"}),
    *(LocalVariant(f"the same, L2 {l2:g}", options={"l2": l2}) for l2 in (0.1, 0.5, 1.0)),
    LocalVariant("the same, IOB2", options={"scheme": "iob2"}),
    LocalVariant("the same, IOB1", options={"scheme": "iob1"}),
    LocalVariant("the same, attributes of two tokens or more", options={"min_count": 2}),
    LocalVariant("without character n-grams", _without("U1")),
    LocalVariant("without other words", _without("U0", "U9", "U10") + "U0:%x[0,word]\n"),
    LocalVariant("without shapes", _without("U5", "U6", "U7", "U8")),
    LocalVariant("without parts of speech", _without("U2", "U3", "U4")),
    LocalVariant("with tags and shapes two tokens away", TEMPLATE + _WIDER),
    LocalVariant("with tags and shapes on pairs of labels", TEMPLATE + _ON_PAIRS),
    LocalVariant("with lower case, affixes, pairs", TEMPLATE + AFFIXES),
    LocalVariant("with the word's other places", TEMPLATE + ELSEWHERE),
    LocalVariant("with both (more features)", TEMPLATE + AFFIXES + ELSEWHERE),
)


def ablation(setting: Setting, data: DataSplit, l2: float) -> str:
    """Train all variants, score them on the dev file; the test file is not looked at."""
    rows = []
    for variant in setting.course.each(VARIANTS):
        make = partial(_scores, setting, data, variant, l2)
        found = setting.kept(f"dev, {variant.name}", make, dict[str, float], (variant, l2))
        rows.append([variant.name, *(f"{100 * value:.2f}" for value in found.values())])
    return (
        "## Local models on the dev file\n\nF in %, Viterbi. What is not said is as in the table "
        f"above: L2 {l2:g}, BIOES, weights of the labels that an attribute occurs with.\n\n"
        + table(["features", *TYPES, "all"], rows)
    )


def _scores(
    setting: Setting, data: DataSplit, variant: LocalVariant, l2: float
) -> dict[str, float]:
    """Return F of each type, and of all, in [0, 1]."""
    setting.say(f"consistency: dev file, features {variant.name}")
    options = {"scheme": SCHEME, "l2": l2, "seed": setting.seed, **variant.options}
    scheme = options["scheme"]
    train, dev = (convert_column(c, ENTITY, SCHEME, scheme) for c in (data.train, data.dev))
    tagger = CRF.train(train, ENTITY, variant.template, **options)
    report = evaluate_spans(dev.column_lists(ENTITY), tagger.tag_all(dev))
    return {**{name: _of_type(report, name) for name in TYPES}, "all": report.overall.f}


# --- Text -----------------------------------------------------------------------------------------


def _reading(setting: Setting, choices: Sequence[str]) -> str:
    runs = RUNS_FULL if setting.full else RUNS
    priors = ", ".join(f"{one.l2:g} ({one.name})" for one in announcements.SETS)
    return (
        "## How to read this\n\n"
        f"Labels in BIOES where nothing else is said; L2 {L2}, "
        f"that of announcements {priors}. Each Gibbs figure is the mean of "
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


def _counts(counts: PairCounts) -> str:
    """Write tables 3 and 4 beside the paper's."""
    same = _beside(counts.types, counts.same, PAPER_SAME)
    within = _beside(counts.types, counts.within, PAPER_WITHIN)
    return (
        "## Counts in the training file\n\nPairs of spans with the same tokens (paper's table 3 "
        f"in brackets):\n\n{same}\n\nSpans (rows) that hold another's tokens "
        f"(columns; table 4):\n\n{within}"
    )


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
    needs=(
        "conll2003/eng.train",
        "conll2003/eng.testa",
        "conll2003/eng.testb",
        "seminars/docs/*.txt",
    ),
    paper="Finkel et al. (2005)",
    run=run,
)
