"""Learners of noun phrases from rewards: their options, published figures, and results.

Data, features and the learners' table of the recipe ``partial-feedback``.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from fstcrf.errors import LearningWarning
from fstcrf.ext.feedback.bandit import Bandit, Schedule
from fstcrf.ext.feedback.descent import Aim, Rule
from fstcrf.ext.feedback.raters import Rater
from fstcrf.ext.feedback.simulation import (
    RewardLog,
    collect_log,
    learn_from_log,
    problem_of,
    simulate,
    untrained,
)
from fstcrf.ext.significance import SpanCounts, span_counts
from fstcrf.recipes.corpora import PHRASE, PHRASES, noun_phrase_file, span_f
from fstcrf.recipes.experiment import Setting
from fstcrf.recipes.report import template
from fstcrf.taggers import CRF
from fstcrf.text.corpus import Corpus
from fstcrf.text.features import FeatureIndex
from fstcrf.training import Chain, Outcome, Progress, parameter_space

DEV_SENTENCES = 1000

# The 19 predicates of Sha and Pereira (2003), table 1.
TEMPLATE = template("partial-feedback/template")


@dataclass(frozen=True, slots=True)
class RewardedSentences:
    """The data of learners: sentences for training, and sentences for choices."""

    train: Corpus
    dev: Corpus


def read(setting: Setting) -> RewardedSentences:
    """Read the training file; `dev` is its first 1,000 sentences, `train` the others."""
    whole = noun_phrase_file(setting, "train")
    return RewardedSentences(whole[DEV_SENTENCES:], whole[:DEV_SENTENCES])


# --- What is compared -----------------------------------------------------------------------------

# The paper's F on the test part, and how many samples it took.
EXPECTED_LOSS = (92.3, 7_500_000)
PREFERENCE = (91.4, 4_700_000)
CROSS_ENTROPY = (89.1, 5_900_000)
NOTHING = (None, None)


Beginning = Literal["zeros", "ones"]
"""Initial weights: all weights zero, or one for weights that gold labels support, like ChRisF."""


@dataclass(frozen=True, slots=True)
class RewardedSystem:
    name: str
    # aim, rule, schedule: the objective, and the rule for the size of steps
    aim: Aim
    rule: Rule
    # the F on the test part that was published, in percent, and its number of samples
    paper: tuple[float | None, int | None] = NOTHING
    schedule: Schedule = field(default_factory=Schedule)
    graded: bool = False  # pairs: the reward is how far the first is ahead
    warm: int = 0  # sentences for initial learning from gold labels
    hash_bits: int | None = None  # hash attributes into 2^k rows
    passes: int = 5  # passes over the training part between two looks at the dev part
    longer: int = 1  # factor for the number of samples
    samples: int | None = None  # its number of samples, independent of others
    begin: Beginning = "zeros"
    rater: Rater | None = None  # the raters; by default, rewards are exact
    logged: bool = False  # learn from a log of the initial tagger
    clipped: float | None = None  # the share of clipped samples that was published, in percent
    # candidates for the rate of the rule, chosen on the dev part; empty for a given rate, or for
    # the rate of another system (`SHARED_RATE`)
    rates: tuple[float, ...] = ()

    @property
    def has_more(self) -> bool:
        return self.longer > 1 or self.samples is not None


# Rates to choose from.
_SHORT = (0.005, 0.01, 0.02)
_LONG = (0.03, 0.1, 0.3)
_WIDE = (0.0001, 0.001, 0.005)
_TINY = (3e-6, 1e-5, 3e-5)

_SAME = Aim("preference", opponent="same")
_CLIPPED = Aim("cross-entropy", clip=0.01)


def _fixed(
    name: str,
    aim: Aim,
    rate: float | Rule,
    rates: tuple[float, ...] = (),
    paper: tuple[float | None, int | None] = NOTHING,
    **more: Any,
) -> RewardedSystem:
    rule = rate if isinstance(rate, Rule) else Rule(rate=rate)
    return RewardedSystem(name, aim, rule, paper, rates=rates, **more)


_MEAN = Aim(control="mean")
_SENTENCE = Aim(control="sentence")
_PAIRS = Aim("preference")
_PAIRS_MEAN = Aim("preference", control="mean")
_PAIRS_SENTENCE = Aim("preference", control="sentence")
_SAME_MEAN = replace(_SAME, control="mean")
_SAME_SENTENCE = replace(_SAME, control="sentence")
_MEDIUM = (0.01, *_LONG)
_WIDER = (0.003, *_MEDIUM)
_LOW = (1e-4, 2e-4, 5e-4, 1e-3)
_LESS_CLIPPED = Aim("cross-entropy", clip=0.05, control="sentence")

_LESS_CLIPPED_MEAN = replace(_LESS_CLIPPED, control="mean")
_MOMENTUM = Rule("momentum", rate=0.001, momentum=0.9)
_ADADELTA, _SLOW = Rule("adadelta", rate=0.01), Rule("adadelta", rate=0.01, rho=0.9999)
_COOLING = Schedule(annealing=True)
_LOGGED: dict[str, Any] = {"warm": 200, "logged": True, "passes": 1}
_LOG_RATES = (5e-6, 1e-5, 2e-5, 5e-5, *_LOW)

_OTHERS = Aim(control="leave-one-out", draws=4)
_LOGISTIC = Aim("logistic")
_STARS = Rater(deviation=0.15, steps=4, slips=0.05, people=5, bias=0.1)
"""People who give zero to four stars, are mild or strict, and sometimes do not look."""

SYSTEMS = (
    _fixed("expected loss", Aim(), 0.01, (0.002, 0.005, 0.01, 0.02), EXPECTED_LOSS),
    _fixed("expected loss, control: mean", _MEAN, 0.1, _LONG),
    _fixed("expected loss, control: sentence", _SENTENCE, 0.1, _LONG),
    _fixed("preference, binary", _PAIRS, 0.001, _WIDE, PREFERENCE),
    _fixed("preference, binary, control: mean", _PAIRS_MEAN, 0.001, (*_WIDE, 0.02)),
    _fixed("preference, binary, same", _SAME, 0.01, _SHORT, PREFERENCE),
    _fixed("preference, binary, same, control: mean", _SAME_MEAN, 0.01, _WIDER),
    _fixed("preference, binary, same, control: sentence", _SAME_SENTENCE, 0.03, _MEDIUM),
    _fixed("preference, graded", _PAIRS, 0.01, (0.001, 0.002, *_SHORT), PREFERENCE, graded=True),
    _fixed("preference, graded, control: mean", _PAIRS_MEAN, 0.03, _MEDIUM, graded=True),
    _fixed("preference, graded, control: sentence", _PAIRS_SENTENCE, 0.1, _LONG, graded=True),
    _fixed("cross-entropy", _CLIPPED, 1e-5, _TINY, CROSS_ENTROPY),
    _fixed("cross-entropy, control: mean", replace(_CLIPPED, control="mean"), 3e-5, (*_TINY, 1e-4)),
    _fixed("cross-entropy, control: sentence", _LESS_CLIPPED, 0.0005, _LOW),
    _fixed("expected loss, momentum", Aim(), _MOMENTUM, (0.0002, 0.0005, 0.001, 0.002)),
    _fixed("expected loss, ADADELTA", Aim(), _ADADELTA, (0.001, 0.01, 0.1)),
    _fixed("expected loss, ADADELTA, control: mean", _MEAN, replace(_SLOW, rate=0.1), _LONG),
    _fixed("expected loss, annealed", Aim(temperature=1.0), 0.01, schedule=_COOLING, passes=1),
    _fixed("expected loss, L2", Aim(), Rule(rate=0.01, decay=1e-6)),
    _fixed("expected loss, hashed", Aim(), 0.01, hash_bits=19),
    _fixed("expected loss, warm start", Aim(), 0.01, warm=200),
    _fixed("expected loss, ADADELTA, rho 0.9999", Aim(), _SLOW, (0.001, 0.01, 0.1)),
    _fixed("cross-entropy, clip 0.05", Aim("cross-entropy", clip=0.05), 1e-4, (*_TINY, *_LOW)),
    _fixed("expected loss, leave one out of 4", _OTHERS, 0.1, _LONG),
    _fixed("logistic", _LOGISTIC, 0.1, _WIDER),
    _fixed("logistic, graded", _LOGISTIC, 0.3, (*_LONG, 1.0, 3.0), graded=True),
    _fixed("expected loss, control: mean, noisy raters", _MEAN, 0.03, (0.01, *_LONG), rater=_STARS),
    _fixed("preference, binary, same, noisy raters", _SAME, 0.01, _SHORT, rater=_STARS),
    _fixed("logistic, noisy raters", _LOGISTIC, 0.1, (0.01, *_LONG), rater=_STARS),
    _fixed("expected loss, log", Aim(control="mean", cap=5.0), 0.03, (0.01, *_LONG), **_LOGGED),
    _fixed("cross-entropy, log", _LESS_CLIPPED_MEAN, 0.0002, _LOG_RATES, **_LOGGED),
)


PLAINLY = {  # for each learner with a control, the one that differs only in control and rate
    "expected loss, control: mean": "expected loss",
    "expected loss, control: sentence": "expected loss",
    "expected loss, leave one out of 4": "expected loss",
    "preference, binary, control: mean": "preference, binary",
    "preference, binary, same, control: mean": "preference, binary, same",
    "preference, binary, same, control: sentence": "preference, binary, same",
    "preference, graded, control: mean": "preference, graded",
    "preference, graded, control: sentence": "preference, graded",
    "cross-entropy, control: mean": "cross-entropy",
    "cross-entropy, control: sentence": "cross-entropy, clip 0.05",
    "expected loss, ADADELTA, control: mean": "expected loss, ADADELTA, rho 0.9999",
}

SHARED_RATE = {  # learners that have the rate that is chosen for another one
    f"expected loss, {what}": "expected loss" for what in ("annealed", "L2", "hashed", "warm start")
}


def _longer(name: str, rate: float, rates: tuple[float, ...]) -> RewardedSystem:
    (one,) = (system for system in SYSTEMS if system.name == name)
    rule = replace(one.rule, rate=rate)
    return replace(one, name=f"{name}, longer", rule=rule, rates=rates, passes=10, longer=5)


LONGER = (  # the paper's learners with 5 times the samples, closer to the paper's number
    _longer("expected loss", 0.005, (0.002, 0.005, 0.01)),
    _longer("preference, graded", 0.002, (0.001, 0.002, 0.005, 0.01)),
    _longer("cross-entropy", 3e-6, (1e-6, 3e-6, 1e-5)),
)


def _as_published(begin: Beginning, text: str) -> tuple[RewardedSystem, ...]:
    aims = (
        ("expected loss", Aim(), 1e-4, EXPECTED_LOSS),
        ("preference, binary", _PAIRS, 1e-4, PREFERENCE),
        ("cross-entropy", _CLIPPED, Rule(rate=1e-6, decay=1e-6), CROSS_ENTROPY),
    )
    more: dict[str, Any] = {"passes": 10, "begin": begin}
    return tuple(
        _fixed(f"{name}, the paper's rate, {text}", aim, rule, (), paper, samples=paper[1], **more)
        for name, aim, rule, paper in aims
    )


_SAMPLES: dict[str, Any] = {"passes": 10, "samples": PREFERENCE[1]}
_RATES = (1e-5, 1e-4, 1e-3)
PUBLISHED = (  # the paper's learners with its rates, L2, numbers of samples, and both beginnings
    *_as_published("zeros", "from zeros"),
    *_as_published("ones", "from supported weights of 1"),
    _fixed("preference, binary, the paper's samples", _PAIRS, 1e-4, _RATES, PREFERENCE, **_SAMPLES),
)

# Rate, clip, and the figures in the write-up of ChRisF: F on the test part and share of samples
# that are clipped in the end, both in percent. Its L2 is 1e-5, and it begins with ones.
_EPOCHS = 400
_PUBLISHED = (
    (1e-2, 0.05, 80.32, 0.6175),
    (1e-2, 0.005, 59.74, 0.000378),
    (1e-3, 0.05, 78.39, 23.51),
    (1e-3, 0.005, 66.01, 0.004102),
    (1e-3, 0.0005, 48.35, 0.0),
    (1e-4, 0.05, 87.72, 64.17),
    (1e-4, 0.005, 64.98, 0.5419),
    (1e-4, 0.0005, 47.60, 0.0),
    (1e-5, 0.05, 87.11, 69.91),
    (1e-5, 0.005, 79.36, 65.58),
    (1e-5, 0.0005, 60.85, 37.50),
)
CLIPPED = tuple(  # cross-entropy with the rates and clips of ChRisF's table 1
    RewardedSystem(
        f"cross-entropy, rate {rate:g}, clip {clip:g}",
        Aim("cross-entropy", clip=clip),
        Rule(rate=rate, decay=1e-5),
        (f, None),
        passes=10,
        samples=_EPOCHS * 7_936,
        begin="ones",
        clipped=clipped,
    )
    for rate, clip, f, clipped in _PUBLISHED
)


# --- Learning -------------------------------------------------------------------------------------

L2S = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0)  # candidates for the penalty of full information
_WARM_L2 = 0.2  # of the few gold labels that some learners begin with; not chosen


@dataclass(frozen=True, slots=True)
class Look:
    iteration: int
    dev: float | None
    measures: dict[str, float]


@dataclass(frozen=True, slots=True)
class LearningRun:
    """The results of a system, with the weights that are best on the dev part."""

    # dev, test: its F, in percent
    dev: float
    test: float
    samples: int  # up to the best weights
    course: list[Look]
    spans: SpanCounts  # for each sentence of the test part
    ended: str  # why it ended, and whether it stood still
    collisions: str = ""  # of hashed attributes

    @property
    def failed(self) -> bool:
        return "stands still" in self.ended or self.ended.startswith("diverged")


def unlearned(data: RewardedSentences, hash_bits: int | None = None) -> CRF:
    """Return the tagger to which all labellings are alike: order 2, complete features."""
    return untrained(
        data.train, PHRASES, TEMPLATE, order=2, scheme="iob2", hash_bits=hash_bits, tape=PHRASE
    )


def beginning(system: RewardedSystem, data: RewardedSentences) -> CRF:
    start = unlearned(data, system.hash_bits)
    if system.begin == "ones":
        space = parameter_space(problem_of(start, data.train, PHRASE), transitions="all")
        return replace(start, space=space, theta=np.ones(space.size))
    if not system.warm:
        return start
    return informed(data.train[: system.warm], l2=_WARM_L2, base=start)


def informed(
    train: Corpus, *, l2: float, dev: Corpus | None = None, base: CRF | None = None
) -> CRF:
    """Return the tagger that gold labels give, by L-BFGS, over the attributes of `base` as well."""
    return CRF.train(
        train,
        PHRASE,
        TEMPLATE,
        dev=dev,
        start=base,
        order=2,
        scheme="iob2",
        l2=l2,
        structure=Chain(pairs="complete", transitions="all"),
    )


def trained(
    system: RewardedSystem,
    start: CRF,
    data: RewardedSentences,
    test: Corpus,
    passes: int,
    seed: int,
) -> LearningRun:
    """Learn from rewards in several passes over the training part, multiplied by `longer`."""
    course: list[Look] = []

    def seen(progress: Progress) -> None:
        told = {name: x for name, x in progress.measures.items() if np.isfinite(x)}
        course.append(Look(progress.iteration, progress.dev, told))

    model, outcome = learnt(system, start, data, passes, seed, seen)
    found = span_counts(test.column_lists(PHRASE), model.tag_all(test))
    samples = len(data.train) * system.passes * outcome.best_iteration
    collisions = ""
    if system.hash_bits is not None and isinstance(model.index, FeatureIndex):
        collisions = str(model.index.collisions(data.train))
    dev = f_of(model, data.dev)
    return LearningRun(dev, 100.0 * found.f, samples, course, found, outcome.reason, collisions)


def learnt(
    system: RewardedSystem,
    start: CRF,
    data: RewardedSentences,
    passes: int,
    seed: int,
    report: Callable[[Progress], None] | None = None,
) -> tuple[CRF, Outcome]:
    """Learn from rewards; the test part is not looked at."""
    passes *= system.longer
    if system.samples is not None:
        passes = -(-system.samples // len(data.train))
    epochs = max(passes // system.passes, 1)
    samples = len(data.train) * system.passes // system.aim.draws * system.aim.draws
    options: dict[str, Any] = {"aim": system.aim, "rule": system.rule, "epochs": epochs}
    options |= {"dev": data.dev, "seed": seed, "report": report}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LearningWarning)  # the outcome has the same information
        if system.logged:
            return learn_from_log(start, log_of(start, data, seed), **options)
        return simulate(
            start,
            data.train,
            PHRASE,
            schedule=system.schedule,
            graded=system.graded,
            samples=samples,
            rater=system.rater,
            complete=system.begin == "zeros",
            **options,
        )


def log_of(start: CRF, data: RewardedSentences, seed: int) -> RewardLog:
    """Return one rewarded sample of a tagger for each sentence."""
    return collect_log(start, data.train, PHRASE, seed=seed)


def shares_by_ratings(
    system: RewardedSystem, start: CRF, data: RewardedSentences, marks: tuple[int, ...], seed: int
) -> list[float]:
    """Return F on the dev part, in percent, after each number of ratings; a pair has one."""
    problem, found, before = problem_of(start, data.train, PHRASE), [], 0
    optimiser = Bandit(
        problem,
        start.space,
        start.theta,
        aim=system.aim,
        rule=system.rule,
        graded=system.graded,
        rater=system.rater,
        samples=marks[0],
        seed=seed,
    )
    for mark in marks:
        optimiser.samples, before = mark - before, mark
        optimiser.step()
        found.append(f_of(replace(start, theta=optimiser.theta()), data.dev))
    return found


def f_of(model: CRF, corpus: Corpus) -> float:
    return span_f(corpus, PHRASE, model.tag_all(corpus))


def samples_until(system: RewardedSystem, one: LearningRun, f: float, sentences: int) -> int | None:
    """Return the number of samples until F on the dev part reached `f`; `None` for never."""
    step = sentences * system.passes
    for progress in one.course:
        if progress.dev is not None and 100.0 * progress.dev >= f:
            return step * progress.iteration
    return None
