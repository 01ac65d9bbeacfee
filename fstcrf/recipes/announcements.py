"""Seminar announcements by token: table 6 of Finkel, Grenager and Manning (2005).

Every message is tested once. Choices are made within the training folds, by a tagger that has not
seen one of them: the prior, penalties, the count of differing values, and, between two sets of
features, whether line breaks are tokens.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec
import numpy as np

from fstcrf.arrays import Bools, Longs
from fstcrf.ext.documents import Annealing, Differing, DocumentTagger, Fields, Unlabelled
from fstcrf.ext.documents.fields import Counting
from fstcrf.ext.significance import SpanCounts
from fstcrf.recipes.corpora import TWINS, all_messages, token_counts, without_breaks
from fstcrf.recipes.experiment import Setting
from fstcrf.recipes.message_features import FURTHER, windows
from fstcrf.recipes.protocol import Protocol, Settings, grid
from fstcrf.recipes.report import Headline, Margin, Row, chance_of_no_gain, template
from fstcrf.taggers import CRF
from fstcrf.text.corpus import Corpus, convert_column

FOLDS, SWEEPS, RUNS, RUNS_FULL = 5, 100, 3, 10
SCHEME = "bioes"
TIMES = NAMES = (0.0, -0.25, -0.5, -1.0, -2.0, -4.0)
COUNTINGS: tuple[Counting, ...] = ("pairs", "values")
BY_HAND = -4.0

TEMPLATE = template("announcements/template")

MORE = windows(("word", "pattern", "list", "time")) + FURTHER


@dataclass(frozen=True, slots=True)
class _Features:
    name: str
    template: str
    priors: tuple[float, ...]
    breaks: bool = False  # whether line breaks are tokens


_PRIORS = (0.1, 0.01, 0.03, 0.3, 1.0)

SETS = (  # sets of features
    _Features("features of the paper", TEMPLATE, _PRIORS),
    _Features("features of the paper, line breaks", TEMPLATE, _PRIORS, breaks=True),
    _Features("more features", MORE + TEMPLATE, (0.3, 0.03, 0.1, 1.0)),
)

OWN = SETS[:2]  # those between which each fold chooses

ORDER = ("stime", "etime", "speaker", "location")

VITERBI = (96.67, 97.36, 83.39, 89.98, 91.85)
NON_LOCAL = (97.11, 97.89, 84.16, 90.00, 92.29)

SECONDS = (189.0, 6436.0)

LOCAL, SAMPLED = "Viterbi", "Gibbs without penalties"

HAND, CHOSEN = "Gibbs, penalties set by hand", "Gibbs, penalties chosen in the training folds"
_PAPER = {LOCAL: VITERBI, SAMPLED: VITERBI, HAND: NON_LOCAL, CHOSEN: NON_LOCAL}


class FoldChoice(msgspec.Struct, frozen=True):
    l2: float
    times: float
    counting: Counting
    names: float
    held_out: float  # mean F of the fields, Viterbi, in the fold of training


class Fold(msgspec.Struct):
    choice: FoldChoice
    tokens: dict[str, list[SpanCounts]] = {}  # by field, in the order of `ORDER`, and message
    seconds: dict[str, float] = {}


@dataclass(frozen=True, slots=True)
class Chosen:
    choices: dict[tuple[str, int], FoldChoice]  # by the features and the fold
    tokens: tuple[str, ...]  # for each fold, the paper's features that it uses


def chosen(protocol: Protocol, setting: Setting) -> Chosen:
    choices = {}
    for features in setting.course.each(SETS):
        for one in _folds(features, setting):
            choices[features.name, one.k] = one.chosen(protocol)

    def held_out(k: int, settings: Settings) -> float:
        return choices[settings["features"], k].held_out

    names = grid(features=[features.name for features in OWN])
    tokens = [
        protocol.choose(
            f"announcements, fold {k + 1}, tokens", names, partial(held_out, k), choices
        )["features"]
        for k in range(FOLDS)
    ]
    return Chosen(choices, tuple(tokens))


def results(protocol: Protocol, by: Chosen, setting: Setting) -> tuple[list[Row], list[Headline]]:
    """Return the rows of table 6, and its headline; a finished fold is not done again."""
    rows: list[Row] = []
    every: dict[str, list[Fold]] = {}
    for features in setting.course.each(SETS):
        found = [
            one.measured(protocol, by.choices[features.name, one.k])
            for one in setting.course.each(_folds(features, setting))
        ]
        rows += _all_rows(f"announcements, {features.name}", found)
        every[features.name] = found
    best = [every[name][k] for k, name in enumerate(by.tokens)]
    rows += _all_rows(f"announcements, {_PICKED}", best)
    broken = by.tokens.count(OWN[1].name)
    rows.append(Row(f"announcements, {_PICKED}", "folds in which line breaks are tokens", broken))
    return rows, list(_headline(best))


_PICKED = "features of the paper, tokens chosen in the training folds"


def _headline(found: Sequence[Fold]) -> Iterator[Headline]:
    for system, paper in ((LOCAL, VITERBI), (CHOSEN, NON_LOCAL)):
        runs = _all_runs(found, system)
        name = f"announcements, {_PICKED}, {system}"
        metric = "token F, %: mean of the fields"
        yield Headline.of_f(name, metric, runs, paper[-1])


def _all_rows(prefix: str, found: Sequence[Fold]) -> Iterator[Row]:
    for system, paper in _PAPER.items():
        yield from _table6(prefix, found, system, paper)
    for name, values in (
        ("times", [fold.choice.times for fold in found]),
        ("speaker", [fold.choice.names for fold in found]),
    ):
        yield Row(f"{prefix}, {CHOSEN}", f"mean log penalty, {name}", float(np.mean(values)))


def _table6(
    prefix: str, found: Sequence[Fold], system: str, paper: Sequence[float]
) -> Iterator[Row]:
    runs = _all_runs(found, system)
    name = f"{prefix}, {system}"
    for k, (field, published) in enumerate(zip(ORDER, paper, strict=False)):
        mean = 100 * float(np.mean([_of_field(run, k).f for run in runs]))
        yield Row(name, f"token F, %: {field}", mean, published)
    overall = [100 * run.f for run in runs]
    seconds = sum(fold.seconds[system] for fold in found)
    yield Row(name, "token F, %: mean of the fields", float(np.mean(overall)), paper[-1], seconds)
    if len(runs) > 1:
        apart = 0.004 if system == SAMPLED else 0.007
        yield Row(name, "token F, %: standard deviation", statistics.stdev(overall), apart)
    theirs = None if system == SAMPLED else SECONDS[system in (HAND, CHOSEN)]
    yield Row(name, "seconds for all messages", seconds, theirs)
    if system != LOCAL:
        viterbi = _all_runs(found, LOCAL)
        gain = float(np.mean(overall)) - 100 * viterbi[0].f
        yield Row(name, "token F, %: gain over Viterbi", gain, paper[-1] - VITERBI[-1])
        yield from Margin.of(runs, viterbi[:1]).ends(
            name, "token F, %: gain, ", "messages and runs"
        )
        if system != SAMPLED:
            yield from chance_of_no_gain(name, overall, 100 * viterbi[0].f)
        times = seconds / sum(fold.seconds[LOCAL] for fold in found)
        more = None if system == SAMPLED else SECONDS[1] / SECONDS[0]
        yield Row(name, "times Viterbi", times, more)


def _all_runs(found: Sequence[Fold], system: str) -> list[SpanCounts]:
    each = [fold.tokens[system] for fold in found]
    return [_pooled(parts) for parts in zip(*each, strict=False)]  # as many as all have


def _pooled(parts: Sequence[SpanCounts]) -> SpanCounts:
    each = ([getattr(one, name) for one in parts] for name in ("right", "found", "wanted"))
    return SpanCounts(*(np.concatenate(arrays, axis=-1) for arrays in each))


def _of_field(counts: SpanCounts, k: int) -> SpanCounts:
    return SpanCounts(counts.right[k], counts.found[k], counts.wanted[k])


def _of_fold(name: str, fold: Fold) -> Iterator[Row]:
    """Yield the results of one fold: an early end leaves no others."""
    for system in fold.tokens:
        mean = 100 * float(np.mean([run.f for run in _all_runs([fold], system)]))
        yield Row(f"{name}: {system}", "token F, %: mean of the fields", mean)


def folds(n: int, seed: int) -> Longs:
    """Return the number of the fold of each of n messages."""
    found = np.random.default_rng([seed, FOLDS]).permutation(n) % FOLDS
    if n > max(TWINS):
        found[max(TWINS)] = found[min(TWINS)]
    return found


def _folds(features: _Features, setting: Setting) -> list[_Part]:
    messages = all_messages(setting, breaks=features.breaks)
    messages = convert_column(messages, "field", "iob2", SCHEME)
    number = folds(len(messages), setting.seed)
    return [_Part(k, features, messages, number, setting) for k in range(FOLDS)]


@dataclass(frozen=True, slots=True)
class _Part:
    k: int
    features: _Features
    messages: Corpus
    number: Longs  # of the fold of each message
    setting: Setting

    @property
    def name(self) -> str:
        return f"announcements, {self.features.name}, fold {self.k + 1}"

    def _where(self, mask: Bools) -> Corpus:
        return self.messages.select(np.flatnonzero(mask))

    def _inner(self, l2: float) -> CRF:
        """Return the tagger that has seen neither this fold nor the next."""
        seen = (self.number != self.k) & (self.number != (self.k + 1) % FOLDS)
        make = partial(self._trained, seen, l2)
        return self.setting.tagger(f"{self.name}, l2 {l2:g}, within", make, self.features)

    def _trained(self, mask: Bools, l2: float) -> CRF:
        self.setting.say(f"consistency: {self.name} of {FOLDS}, l2 {l2:g}, training")
        return CRF.train(self._where(mask), "field", self.features.template, scheme=SCHEME, l2=l2)

    def chosen(self, protocol: Protocol) -> FoldChoice:
        """Choose the prior, then penalties and counts of times, then the penalty of names."""
        held = self._where(self.number == (self.k + 1) % FOLDS)

        def local(settings: Settings) -> float:
            return _mean_f(self._inner(settings["l2"]), held)

        def agreeing(settings: Settings) -> float:
            return _mean_f(_documents(self._inner(l2), _model(**settings)), held)

        priors = grid(l2=self.features.priors)
        prior = protocol.choose(
            f"{self.name}, prior", priors, local, self.features, quick=priors[0]
        )
        l2 = prior["l2"]
        about = self.features, l2, SWEEPS
        found: Settings = {"names": 0.0}
        for what, candidates in (
            ("times", grid(times=TIMES, counting=COUNTINGS)),
            ("names", grid(names=NAMES)),
        ):
            several = [{**found, **one} for one in candidates]
            found = protocol.choose(f"{self.name}, {what}", several, agreeing, about)
        part = f"{self.name}, held-out"
        held_out = self.setting.kept(part, lambda: local(prior), float, about)
        return FoldChoice(l2=l2, held_out=held_out, **found)

    def measured(self, protocol: Protocol, choice: FoldChoice) -> Fold:
        def make() -> Fold:
            self.setting.say(f"consistency: {self.name} of {FOLDS}")
            tagger = self._trained(self.number != self.k, choice.l2)
            test = protocol.test(lambda: self._where(self.number == self.k))
            found = Fold(choice)
            _measure_all(found, tagger, test, self.setting)
            return found

        about = self.features, choice, BY_HAND, SWEEPS, ORDER
        found = self.setting.kept(self.name, make, Fold, about)
        self.setting.told(_of_fold(self.name, found))
        return found


def _measure_all(found: Fold, tagger: CRF, test: Corpus, setting: Setting) -> None:
    _measure(found, LOCAL, [tagger], test)
    runs = RUNS_FULL if setting.full else RUNS
    choice = found.choice
    for system, model, options in (
        (SAMPLED, None, {"start": "random", "take": "last"}),
        (HAND, Fields.seminars(BY_HAND), {}),
        (CHOSEN, _model(choice.times, choice.counting, choice.names), {}),
    ):
        seeds = range(setting.seed, setting.seed + runs)
        taggers = [_documents(tagger, model, seed=seed, **options) for seed in seeds]
        _measure(found, system, taggers, test)


def _measure(
    found: Fold, system: str, taggers: Sequence[CRF | DocumentTagger], test: Corpus
) -> None:
    started = time.perf_counter()
    found.tokens[system] = [_counted(tagger, test) for tagger in taggers]
    found.seconds[system] = (time.perf_counter() - started) / len(taggers)


def _mean_f(tagger: CRF | DocumentTagger, held: Corpus) -> float:
    return 100 * _pooled([_counted(tagger, held)]).f


def _counted(tagger: CRF | DocumentTagger, test: Corpus) -> SpanCounts:
    words = test.column_lists("word")  # line breaks among them, which are not scored
    both = (without_breaks(words, r) for r in (test.column_lists("field"), tagger.tag_all(test)))
    each = [token_counts([gold], [labels], ORDER) for gold, labels in zip(*both, strict=True)]
    names = ("right", "found", "there")
    rows = ([[getattr(one[field], name) for one in each] for field in ORDER] for name in names)
    return SpanCounts(*(np.asarray(one, dtype=np.int64) for one in rows))


def _model(times: float, counting: Counting, names: float) -> Fields:
    return Fields(
        [
            Differing("stime", "clock", times, counting),
            Differing("etime", "clock", times, counting),
            Unlabelled("speaker", names),
        ]
    )


def _documents(tagger: CRF, model: Fields | None, **options: Any) -> DocumentTagger:
    models = [] if model is None else [model]
    return DocumentTagger(tagger, models, Annealing(SWEEPS), **{"sweeps": "mixed", **options})
