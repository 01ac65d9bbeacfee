"""Seminar announcements by token: table 6 of Finkel, Grenager and Manning (2005).

Every message is tested once. What is chosen is chosen within the training folds, by a tagger that
has not seen one of them: penalties, how values that differ are counted, and, between two sets of
features, whether line breaks are tokens.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec
import numpy as np

from fstcrf.arrays import Longs
from fstcrf.corpus import Corpus, convert_column
from fstcrf.documents import Annealing, Differing, DocumentTagger, Fields, Unlabelled
from fstcrf.documents.fields import Counting
from fstcrf.joint import CRF
from fstcrf.recipes.corpora import (
    TWINS,
    Tally,
    all_messages,
    mean_f,
    token_counts,
    without_breaks,
)
from fstcrf.recipes.experiment import Setting
from fstcrf.recipes.message_features import FURTHER, windows
from fstcrf.recipes.report import Headline, Row

FOLDS, SWEEPS, RUNS, RUNS_FULL = 5, 100, 3, 10
SCHEME = "bioes"
TIMES = NAMES = (0.0, -0.25, -0.5, -1.0, -2.0, -4.0)
COUNTINGS: tuple[Counting, ...] = ("pairs", "values")
BY_HAND = -4.0

TEMPLATE = """\
U0:%x[-1..1,word]
U1:%x[0,ngrams(word,1,6)]
U2:%x[0,shape(word)]
U3:%x[-1..1,short_shape(word)]
U4:%x[-1..0,short_shape(word)]/%x[0..1,short_shape(word)]
U5:%x[-1,short_shape(word)]/%x[0,short_shape(word)]/%x[1,short_shape(word)]
U6:%x{-9..-1,word}
U7:%x{1..9,word}
B
"""

MORE = windows(("word", "pattern", "list", "time")) + FURTHER


@dataclass(frozen=True, slots=True)
class _Features:
    """Features and the prior of their weights."""

    name: str
    template: str
    l2: float
    breaks: bool = False  # whether line breaks are tokens


SETS = (
    _Features("features of the paper", TEMPLATE, 0.1),
    _Features("features of the paper, line breaks", TEMPLATE, 0.1, breaks=True),
    _Features("more features", MORE + TEMPLATE, 0.3),
)
"""Sets of features, each with its prior."""

OWN = SETS[:2]
"""Those between which each fold chooses."""

ORDER = ("stime", "etime", "speaker", "location")

VITERBI = (96.67, 97.36, 83.39, 89.98, 91.85)
NON_LOCAL = (97.11, 97.89, 84.16, 90.00, 92.29)

SECONDS = (189.0, 6436.0)

LOCAL, SAMPLED = "Viterbi", "Gibbs without penalties"

HAND, CHOSEN = "Gibbs, penalties set by hand", "Gibbs, penalties chosen in the training folds"
_PAPER = {LOCAL: VITERBI, SAMPLED: VITERBI, HAND: NON_LOCAL, CHOSEN: NON_LOCAL}


class Fold(msgspec.Struct):
    """What was measured on a fold: for each system and run the counts of each field."""

    counts: dict[str, list[dict[str, Tally]]] = {}
    seconds: dict[str, float] = {}
    chosen: dict[str, float] = {}
    counting: Counting = "pairs"
    held_out: float = 0.0  # mean F of the fields, Viterbi, in the fold of training


# --- Rows -----------------------------------------------------------------------------------------


def results(setting: Setting) -> tuple[list[Row], list[Headline]]:
    """Return the rows of table 6, and its headline; a finished fold is not done again."""
    rows: list[Row] = []
    every: dict[_Features, list[Fold]] = {}
    for features in setting.course.each(SETS):
        messages = all_messages(setting, breaks=features.breaks)
        messages = convert_column(messages, "field", "iob2", SCHEME)
        number = folds(len(messages), setting.seed)
        each = setting.course.each(range(FOLDS))
        every[features] = [_kept(messages, number, k, features, setting) for k in each]
        rows += _all_rows(f"announcements, {features.name}", every[features])
    own = [every[features] for features in OWN]
    best = [max(several, key=lambda fold: fold.held_out) for several in zip(*own, strict=True)]
    rows += _all_rows(f"announcements, {_PICKED}", best)
    broken = sum(fold is other for fold, other in zip(best, own[1], strict=True))
    rows.append(Row(f"announcements, {_PICKED}", "folds in which line breaks are tokens", broken))
    return rows, list(_headline(best))


_PICKED = "features of the paper, tokens chosen in the training folds"


def _headline(found: Sequence[Fold]) -> Iterator[Headline]:
    for system, paper in ((LOCAL, VITERBI), (CHOSEN, NON_LOCAL)):
        values = tuple(100 * mean_f(run) for run in _all_runs(found, system))
        name = f"announcements, {_PICKED}, {system}"
        yield Headline(name, "token F, %: mean of the fields", values, paper[-1])


def _all_rows(prefix: str, found: Sequence[Fold]) -> Iterator[Row]:
    for system, paper in _PAPER.items():
        yield from _table6(prefix, found, system, paper)
    for name in ("times", "speaker"):
        values = [fold.chosen[name] for fold in found]
        yield Row(f"{prefix}, {CHOSEN}", f"mean log penalty, {name}", float(np.mean(values)))


def _table6(
    prefix: str, found: Sequence[Fold], system: str, paper: Sequence[float]
) -> Iterator[Row]:
    runs = _all_runs(found, system)
    name = f"{prefix}, {system}"
    for field, published in zip(ORDER, paper, strict=False):
        mean = 100 * float(np.mean([run[field].f for run in runs]))
        yield Row(name, f"token F, %: {field}", mean, published)
    overall = [100 * mean_f(run) for run in runs]
    seconds = sum(fold.seconds[system] for fold in found)
    yield Row(name, "token F, %: mean of the fields", float(np.mean(overall)), paper[-1], seconds)
    if len(runs) > 1:
        yield Row(name, "token F, %: standard deviation", float(np.std(overall)), 0.007)
    published = SECONDS[system in (HAND, CHOSEN)]
    yield Row(name, "seconds for all messages", seconds, published)
    if system != LOCAL:
        times = seconds / sum(fold.seconds[LOCAL] for fold in found)
        yield Row(name, "times Viterbi", times, SECONDS[1] / SECONDS[0])


def _all_runs(found: Sequence[Fold], system: str) -> list[dict[str, Tally]]:
    """Return the counts of each run, all folds together."""
    return [_pooled([fold.counts[system][r] for fold in found]) for r in _runs(found, system)]


def _runs(found: Sequence[Fold], system: str) -> range:
    return range(min(len(fold.counts[system]) for fold in found))


def _pooled(parts: Sequence[dict[str, Tally]]) -> dict[str, Tally]:
    return {field: sum((p[field] for p in parts), Tally()) for field in ORDER}


def _of_fold(name: str, fold: Fold) -> Iterator[Row]:
    """Yield what is known of one fold: a run that ends early has no others."""
    for system, runs in fold.counts.items():
        mean = 100 * float(np.mean([mean_f(run) for run in runs]))
        yield Row(f"{name}: {system}", "token F, %: mean of the fields", mean)


# --- A fold ---------------------------------------------------------------------------------------


def folds(n: int, seed: int) -> Longs:
    """Return the number of the fold of each of n messages."""
    found = np.random.default_rng([seed, FOLDS]).permutation(n) % FOLDS
    if n > max(TWINS):
        found[max(TWINS)] = found[min(TWINS)]
    return found


def _kept(messages: Corpus, number: Longs, k: int, features: _Features, setting: Setting) -> Fold:
    """Return what was measured on a fold, told as it comes and kept."""
    name = f"announcements, {features.name}, fold {k + 1}"
    make = partial(_fold, messages, number, k, features, setting)
    found = setting.kept(
        name, make, Fold, about=(features, TIMES, COUNTINGS, NAMES, BY_HAND, SWEEPS)
    )
    setting.rows(f"{name}, scores", partial(_of_fold, name, found), about=found)
    return found


def _fold(messages: Corpus, number: Longs, k: int, features: _Features, setting: Setting) -> Fold:
    setting.say(f"consistency: announcements, {features.name}, fold {k + 1} of {FOLDS}")
    rest, next_one = number != k, (k + 1) % FOLDS
    inner = _trained(features, messages.select(np.flatnonzero(rest & (number != next_one))))
    held = messages.select(np.flatnonzero(number == next_one))
    held_out = mean_f(_counted(inner, held))
    times, counting, names = _chosen(inner, held)
    found = Fold(chosen={"times": times, "speaker": names}, counting=counting, held_out=held_out)
    tagger = _trained(features, messages.select(np.flatnonzero(rest)))
    _measure_all(found, tagger, messages.select(np.flatnonzero(number == k)), setting)
    return found


def _measure_all(found: Fold, tagger: CRF, test: Corpus, setting: Setting) -> None:
    _measure(found, LOCAL, [tagger], test)
    runs = RUNS_FULL if setting.full else RUNS
    for system, model, options in (
        (SAMPLED, None, {"start": "random", "take": "last"}),
        (HAND, Fields.seminars(BY_HAND), {}),
        (CHOSEN, _model(found.chosen["times"], found.counting, found.chosen["speaker"]), {}),
    ):
        seeds = range(setting.seed, setting.seed + runs)
        taggers = [_documents(tagger, model, seed=seed, **options) for seed in seeds]
        _measure(found, system, taggers, test)


def _measure(
    found: Fold, system: str, taggers: Sequence[CRF | DocumentTagger], test: Corpus
) -> None:
    started = time.perf_counter()
    found.counts[system] = [_counted(tagger, test) for tagger in taggers]
    found.seconds[system] = (time.perf_counter() - started) / len(taggers)


def _counted(tagger: CRF | DocumentTagger, test: Corpus) -> dict[str, Tally]:
    """Return the counts of each field; line breaks are not scored."""
    words = test.column_lists("word")
    gold, labels = (
        without_breaks(words, rows) for rows in (test.column_lists("field"), tagger.tag_all(test))
    )
    return token_counts(gold, labels, ORDER)


def _trained(features: _Features, corpus: Corpus) -> CRF:
    return CRF.train(corpus, "field", features.template, scheme=SCHEME, l2=features.l2)


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


def _chosen(tagger: CRF, held: Corpus) -> tuple[float, Counting, float]:
    """Return penalties of times, how they count, and of names, best on a fold for training."""

    def worth(times: float, counting: Counting, names: float) -> float:
        return mean_f(_counted(_documents(tagger, _model(times, counting, names)), held))

    pairs = itertools.product(TIMES, COUNTINGS)
    times, counting = max(pairs, key=lambda pair: worth(pair[0], pair[1], 0.0))
    return times, counting, max(NAMES, key=lambda names: worth(times, counting, names))
