"""Systems of the recipe ``seminars``: taggers of all splits, taggers of one split, choices.

The messages have no parts of speech. They, and CoNLL-2003, receive predictions of a tagger trained
on EWT, which has seen neither, so that its errors are alike on both.
"""

from __future__ import annotations

import itertools
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec
import numpy as np

from fstcrf import constraints
from fstcrf.arrays import Longs
from fstcrf.errors import DataError, InexactWarning
from fstcrf.evaluate import evaluate_spans, evaluate_tokens
from fstcrf.ext.documents import Fields
from fstcrf.ext.documents.document import documents
from fstcrf.ext.pipelines.trained import Decode
from fstcrf.ext.significance import SpanCounts
from fstcrf.lattices import Lattice, nbest
from fstcrf.lazy import made_once
from fstcrf.machines.grammar import Grammar
from fstcrf.recipes.corpora import (
    ENTITY,
    FIELDS,
    MESSAGES,
    POLICIES,
    TWINS,
    entities,
    field_counts,
    mean_f,
    retokenised,
    scored,
    tallies,
    token_f,
)
from fstcrf.recipes.experiment import Setting
from fstcrf.recipes.message_features import MORE, NAMES, PAPER, TAGS, Features
from fstcrf.recipes.protocol import Protocol, Settings, grid
from fstcrf.recipes.report import Row
from fstcrf.taggers import CRF
from fstcrf.taggers.pipelines import Pipeline, Task, TrainedPipeline
from fstcrf.text.corpus import Corpus, read_conllu

# --- Parts of speech from EWT, entities from CoNLL-2003 -------------------------------------------

_FAST = {"method": "ap", "max_iterations": 8}
_BEST = {"scheme": "iob2", "max_iterations": 100}


def declared(features: Features) -> tuple[object, ...]:
    """Return the settings of the taggers that belong to features of the field tagger."""
    names = (PAPER.alone, PAPER.options) if features.name == PAPER.name else (NAMES, _BEST)
    return TAGS, _FAST, *names


@dataclass(frozen=True, slots=True)
class Shared:
    messages: Corpus  # one message a sentence, with the columns of `corpus_of` and ``tag``
    tags: CRF  # the tagger of parts of speech
    ner: CRF  # the entity tagger
    plain: CRF  # that with the features of the paper's field tagger, trained to convergence

    def entities(self, features: Features) -> CRF:
        """Return the entity tagger that belongs to features of the field tagger."""
        return self.plain if features.name == PAPER.name else self.ner


def shared(setting: Setting, messages: Corpus) -> Shared:
    """Train both taggers, or take the finished ones; tag the messages."""
    first = Task("tag", _ewt(setting, "train"), TAGS, target="xpos", options=_FAST)
    setting.say("seminars: parts of speech, entities")
    tagger = kept_tagger(setting, "tag", first)
    conll = news(setting, "train", tagger)
    ner = kept_tagger(setting, "ner", Task("ner", conll, NAMES, options=_BEST))
    setting.say("seminars: entities, features of the paper")
    few = Task("ner", conll, PAPER.alone, options=PAPER.options)
    plain = kept_tagger(setting, "ner plain", few, PAPER)
    return Shared(_tagged(messages, tagger), tagger, ner, plain)


def kept_tagger(setting: Setting, name: str, task: Task, about: object = None) -> CRF:
    """Return the tagger of a single task; its pipeline continues after an interruption."""
    return Pipeline([task]).train(setting.parts.file(name, "pipeline", about))[task.name]


def tagger_rows(setting: Setting, common: Shared, protocol: Protocol) -> list[Row]:
    """Return the scores of the taggers on their test texts."""

    def rows() -> Iterator[Row]:
        sentences = protocol.test(lambda: _ewt(setting, "test"))
        found = evaluate_tokens(sentences.column_lists("xpos"), common.tags.tag_all(sentences))
        yield Row("parts of speech", "accuracy on EWT's test part, %", 100 * found.accuracy)
        names = protocol.test(lambda: news(setting, "testb", common.tags))
        for name, ner in (("entities", common.ner), (f"entities, {PAPER.name}", common.plain)):
            f = evaluate_spans(names.column_lists("ner"), ner.tag_all(names)).f
            yield Row(name, "F on CoNLL-2003's test part, %", 100 * f)

    return setting.rows("taggers", rows, about=(declared(PAPER), declared(MORE)))


def _ewt(setting: Setting, part: str) -> Corpus:
    (path, *_) = setting.files(f"ud_english_ewt/*{part}.conllu")
    return retokenised(read_conllu(path), "xpos", spans=False)


def news(setting: Setting, part: str, tagger: CRF) -> Corpus:
    """Return a file of CoNLL-2003 as messages are: cut alike, with the same tags."""
    return _tagged(retokenised(entities(setting, part, "iob2"), ENTITY, spans=True), tagger)


def _tagged(corpus: Corpus, tagger: CRF) -> Corpus:
    return corpus.with_interned("tag", tagger.tag_column(corpus))


# --- The taggers of a split -----------------------------------------------------------------------


class SplitOutcome(msgspec.Struct):
    """The results of a split: for each system, F by ``field/policy``, and more."""

    scores: dict[str, dict[str, float]] = {}
    # for each system, by policy: [4, M]
    messages: dict[str, dict[str, SpanCounts]] = {}
    chosen: dict[str, str] = {}
    host: dict[str, int] = {}
    seconds: dict[str, float] = {}

    def counts(self, system: str) -> SpanCounts:
        """Return the counts of each message, [4, M], by the policy that was chosen."""
        return self.messages[system][self.chosen["policy"]]


class SplitTaggers:
    """The taggers that a training half gives with one set of features, kept in `place`."""

    def __init__(
        self, features: Features, train: Corpus, ner: CRF, place: Callable[[str], Path | None]
    ) -> None:
        self.features, self.train = features, features.prepared(train)
        self.seconds: dict[str, float] = {}
        self._ner, self._place = ner, place

    def alone(self) -> TrainedPipeline:
        """Return the field tagger that reads no other."""
        task = Task("field", self.train, self.features.alone, options=self.features.options)
        return self._timed("alone", Pipeline([task]))

    def trained(self, name: str, train: Corpus, **options: object) -> TrainedPipeline:
        """Return the entity tagger with a field tagger that reads it."""
        options = {**self.features.options, **options}
        task = Task("field", train, self.features.transfer, reads=["ner"], options=options)
        return self._timed(name, Pipeline([self._ner, task], normalize="product"))

    def _timed(self, name: str, pipeline: Pipeline) -> TrainedPipeline:
        told: list[str] = []
        started = time.perf_counter()
        found = pipeline.train(self._place(name), told=told.append)
        if not any("finished before" in line for line in told):
            self.seconds[f"training, {name}"] = time.perf_counter() - started
        return found


class SplitScores:
    def __init__(self, features: Features, test: Corpus) -> None:
        self.found = SplitOutcome()
        self._features, self._test = features, test
        self._words = test.column_lists("word")
        self._gold = test.column_lists("field")

    def score(self, system: str, pipeline: TrainedPipeline, decode: Decode) -> None:
        started = time.perf_counter()
        answers = pipeline.tag_all(self._test, decode=decode)
        seconds = time.perf_counter() - started
        single = len(pipeline.tapes) == 1
        self._keep(system, answers if single else [y for _, y in answers], seconds)
        if not single:
            names = [names for names, _ in answers]
            self.found.host[self._features.named(system)] = _hosts(self._words, names)
        self.found.host["all"] = _hosts(self._words, None)

    def score_agreeing(self, system: str, pipeline: TrainedPipeline, penalty: float) -> None:
        """Score a pipeline's joint decisions, chosen by how far a message's fields agree."""
        started = time.perf_counter()
        labels = agreeing(ranked(pipeline, self._test), self._test, penalty)
        self._keep(system, labels, time.perf_counter() - started)

    def _keep(self, system: str, labels: Sequence[Sequence[str]], seconds: float) -> None:
        name = self._features.named(system)
        self.found.seconds[name] = seconds
        found = {"tokens": token_f(self._gold, labels)}
        self.found.messages[name] = {}
        for policy in POLICIES:
            counts = field_counts(self._words, self._gold, labels, policy)
            self.found.messages[name][policy] = counts
            scores = tallies(counts)
            found |= {f"{field}/{policy}": score.f for field, score in scores.items()}
            found[f"overall/{policy}"] = mean_f(scores)
        self.found.scores[name] = found


def _hosts(words: Sequence[Sequence[str]], names: Sequence[Sequence[str]] | None) -> int:
    """Count ``Host`` before a colon; with entity labels, only as a part of an entity."""
    return sum(
        w[k] == "Host" and w[k + 1] == ":" and (names is None or names[i][k] != "O")
        for i, w in enumerate(words)
        for k in range(len(w) - 1)
    )


# --- Fields that agree throughout a message -------------------------------------------------------
#
# A name that is a speaker in one place must be a speaker everywhere: this is not a regular
# language, so no grammar can express it, but a list of the n best can be filtered.


Ranked: TypeAlias = Sequence[tuple[float, tuple[str, ...]]]

SIZE = 50


def ranked(pipeline: TrainedPipeline, corpus: Corpus) -> list[Ranked]:
    """Return the best joint decisions about the fields of each message, best first.

    The entities come from the best decision: otherwise, most of a list differs only in entities.
    """
    decided = pipeline.tag_all(corpus, decode="joint")
    lattices = pipeline.composition.lattices(corpus)
    pairs = zip(lattices, decided, strict=True)
    few = nbest([_decided(lattice, entities) for lattice, (entities, _) in pairs], SIZE)
    return [[(path.score, path.labels[-1]) for path in paths] for paths in few]


def _decided(lattice: Lattice, entities: Sequence[str]) -> Lattice:
    names, fields = lattice.labels
    masks = (
        np.asarray(entities)[:, None] == np.asarray(names),
        np.ones((len(lattice), len(fields)), dtype=bool),
    )
    return lattice.restrict(masks)


def agreeing(lists: Sequence[Ranked], corpus: Corpus, penalty: float) -> list[list[str]]:
    """Return the labels of each message that score best with the penalties added.

    `penalty`, natural log: for each token of two differing times, and for each place with a
    speaker's last name outside a speaker.
    """
    model = Fields.seminars(penalty)
    return [
        list(max(few, key=lambda one: one[0] + model.score(message, one[1]))[1])
        for few, message in zip(lists, documents(corpus), strict=True)
    ]


@dataclass(frozen=True, slots=True)
class Halves:
    train: Longs
    test: Longs


def split(n: int, seed: int, number: int) -> Halves:
    """Return a split of n messages: a half each, twins on one side."""
    order = np.random.default_rng([seed, number]).permutation(n)
    if n > max(TWINS):
        first, second = (int(np.flatnonzero(order == twin)[0]) for twin in TWINS)
        order = np.insert(np.delete(order, second), first + (first < second), order[second])
    half = n // 2
    if n > max(TWINS) and {int(order[half - 1]), int(order[half])} == set(TWINS):
        half += 1
    return Halves(np.sort(order[:half]), np.sort(order[half:]))


LEAST = 4  # messages: a half is cross-validated, and must leave something to train on


def check_splits(setting: Setting, messages: Corpus, count: int) -> None:
    """Check that the messages are enough for the first splits."""
    n, folder = len(messages), str(setting.files(MESSAGES)[0].parent)
    if n < LEAST:
        found = "1 message" if n == 1 else f"{n} messages"
        raise DataError(
            f"{found}, expected at least {LEAST}: half of them train, less a part to choose on",
            path=folder,
        )
    for k in range(count):
        for rest, _ in folded(messages.select(split(n, setting.seed, k).train)):
            begun = set(rest.column("field").strings())
            missing = [field for field in FIELDS if f"B-{field}" not in begun]
            if missing:
                raise DataError(
                    f"too few of the {n} messages have a <{missing[0]}>: it is missing in all "
                    f"{len(rest)} messages that split {k + 1} trains on to choose weights",
                    path=folder,
                )


# --- What a training half chooses by cross-validation ---------------------------------------------

GRID = (0.35, 0.5, 0.75, 1.0, 1.5, 2.0)
PRICES = {"location": (0.0, 1.5, 3.0), "speaker": (1.5, 3.0, 5.0)}
PENALTIES = (-1.0, -0.5, -2.0, 0.0)  # of equally good ones the first is taken
FOLDS = 3

_Change: TypeAlias = Callable[[TrainedPipeline], TrainedPipeline]
_Worth: TypeAlias = Callable[[Settings], float]


@dataclass(frozen=True, slots=True)
class SplitChoice:
    weight: float  # of the field tagger, without a grammar
    decoder: float  # of the field tagger, with the grammar
    grammar: str  # its name among `grammars`
    policy: str  # which value of a field is taken, see `scored`
    penalty: float | None = None  # cost of disagreeing fields; `None` ignores them

    def tuned(self, pipeline: TrainedPipeline) -> TrainedPipeline:
        """Return a pipeline with the weight that was chosen without a grammar."""
        return pipeline.with_weights(1.0, self.weight)

    def decided(self, pipeline: TrainedPipeline) -> TrainedPipeline:
        """Return a pipeline with the grammar, and the weight that was chosen with it."""
        return pipeline.with_weights(1.0, self.decoder).constrained(grammars()[self.grammar])

    def report(self) -> dict[str, str]:
        found = {
            "weight": f"{self.weight:g}",
            "decoder": f"λ = {self.decoder:g}",
            "grammar": self.grammar,
            "policy": self.policy,
        }
        return found if self.penalty is None else {**found, "penalty": f"{self.penalty:g}"}


def grammars() -> dict[str, Grammar]:
    """Return the grammars among which the training half chooses.

    All have a start, and no end without one. Then a message may be without a place or a speaker
    at a price, or has each field at most once, no start after an end.
    """
    tape = "field"
    needed = constraints.at_least(1, "stime", tape=tape)
    needed &= constraints.requires("etime", "stime", tape=tape)
    once = needed & constraints.before("stime", "etime", tape=tape)
    for name in FIELDS:
        once &= constraints.at_most(1, name, tape=tape)
    found = {"a start": needed, "each once": once}
    for place, speaker in itertools.product(*PRICES.values()):
        grammar = needed
        for name, price in (("location", place), ("speaker", speaker)):
            if price:
                grammar &= constraints.at_least(1, name, tape=tape, weight=-price)
        found[f"no place {place:g}, no speaker {speaker:g}"] = grammar
    return found


def folded(corpus: Corpus) -> list[tuple[Corpus, Corpus]]:
    """Return, for each fold, the others and the fold: every third message."""
    fold = np.arange(len(corpus)) % FOLDS
    return [
        (corpus.select(np.flatnonzero(fold != k)), corpus.select(np.flatnonzero(fold == k)))
        for k in range(FOLDS)
    ]


class _Folds:
    def __init__(self, taggers: SplitTaggers) -> None:
        self._taggers, self._parts = taggers, folded(taggers.train)
        self._words = [w for _, held in self._parts for w in held.column_lists("word")]
        self._gold = [y for _, held in self._parts for y in held.column_lists("field")]

    @made_once
    def pairs(self) -> list[tuple[TrainedPipeline, Corpus]]:
        """A pipeline for each third, and the third."""
        return [
            (self._taggers.trained(f"fold{k}", rest), held)
            for k, (rest, held) in enumerate(self._parts)
        ]

    @made_once
    def _cascaded(self) -> list[Sequence[str]]:
        return self._labels(lambda pipeline: pipeline, "cascade")

    def cascaded(self, policy: str) -> float:
        """Return the mean F of the fields of the cascade, in percent."""
        return self._f(self._cascaded, policy)

    def joint(self, change: _Change, policy: str) -> float:
        """Return the mean F of the fields of joint decisions of changed pipelines, in percent."""
        return self._f(self._labels(change, "joint"), policy)

    def agreement(self, choice: SplitChoice) -> Callable[[float], float]:
        """Return mean F by the penalty of disagreeing fields, given all other choices."""

        @cache
        def lists() -> list[list[Ranked]]:
            return [ranked(choice.decided(pipeline), held) for pipeline, held in self.pairs]

        def worth(penalty: float) -> float:
            parts = zip(lists(), self._parts, strict=True)
            labels = [y for few, (_, held) in parts for y in agreeing(few, held, penalty)]
            return self._f(labels, choice.policy)

        return worth

    def _labels(self, change: _Change, decode: Decode) -> list[Sequence[str]]:
        answers = [change(one).tag_all(held, decode=decode) for one, held in self.pairs]
        return [fields for part in answers for _, fields in part]

    def _f(self, labels: Sequence[Sequence[str]], policy: str) -> float:
        return 100.0 * mean_f(scored(self._words, self._gold, labels, policy))


def chosen(
    protocol: Protocol, name: str, taggers: SplitTaggers, about: object, *, agree: bool
) -> SplitChoice:
    """Choose a value's policy, weights, a grammar; with `agree`, also the cost of disagreement."""
    folds = _Folds(taggers)

    def best(what: str, candidates: Sequence[Settings], worth: _Worth) -> Settings:
        return protocol.choose(f"{name}, {what}", candidates, worth, about)

    policy = best("value", grid(policy=POLICIES), lambda s: folds.cascaded(s["policy"]))["policy"]
    made = partial(SplitChoice, policy=policy)

    def tuned(settings: Settings) -> float:
        choice = made(weight=settings["weight"], decoder=1.0, grammar="")
        return folds.joint(choice.tuned, policy)

    def decided(settings: Settings) -> float:
        choice = made(weight=1.0, decoder=settings["weight"], grammar=settings["grammar"])
        return folds.joint(choice.decided, policy)

    weights = sorted(GRID, key=lambda weight: abs(weight - 1.0))
    weight = best("weight", grid(weight=weights), tuned)["weight"]
    found = best("grammar", grid(weight=[1.0], grammar=list(grammars())), decided)
    if weight != 1.0:
        both = [{**found, "weight": w} for w in (1.0, weight)]
        found = best("weight with the grammar", both, decided)
    choice = made(weight=weight, decoder=found["weight"], grammar=found["grammar"])
    if not agree:
        return choice
    worth = folds.agreement(choice)
    price = best("penalty", grid(penalty=PENALTIES), lambda s: worth(s["penalty"]))
    return replace(choice, **price)


# --- The systems, trained and scored --------------------------------------------------------------

Measured: TypeAlias = dict[str, SplitOutcome]


@dataclass(frozen=True, slots=True)
class Decision:
    """A way to decide: its features, and the corresponding row of the paper's Table 2."""

    features: Features
    beside: str | None = None

    def outcome(self, measured: Measured) -> SplitOutcome:
        return measured[self.features.name]


SYSTEMS = {  # the systems by name
    "no transfer": Decision(PAPER, "none"),
    "cascaded": Decision(PAPER, "cascaded"),
    "joint, λ = 1": Decision(PAPER, "joint"),
    "joint, λ tuned": Decision(PAPER, "joint"),
    "joint, chain": Decision(PAPER, "joint"),
    "no transfer, with that grammar": Decision(PAPER),
    "joint, chosen with a grammar": Decision(PAPER, "joint"),
    "marginals in decoding": Decision(PAPER),
    "marginals in training, cascaded": Decision(PAPER),
    "marginals in training, joint": Decision(PAPER),
    "marginals in training, joint, that grammar": Decision(PAPER),
    "marginals in training and decoding": Decision(PAPER),
} | {
    MORE.named(name): Decision(MORE, beside)
    for name, beside in (
        ("no transfer", "none"),
        ("cascaded", "cascaded"),
        ("joint, λ = 1", "joint"),
        ("joint, λ tuned", "joint"),
        ("no transfer, with that grammar", None),
        ("joint, chosen with a grammar", "joint"),
        ("joint, with a grammar, fields agree", "joint"),
    )
}


@dataclass(frozen=True, slots=True)
class MessageSplit:
    number: int  # from 0
    features: Features
    setting: Setting
    common: Shared

    @property
    def name(self) -> str:
        return f"split {self.number + 1}, {self.features.name}"

    def say(self, what: str) -> None:
        self.setting.say(f"seminars: split {self.number + 1}: {self.features.name}, {what}")

    def taggers(self) -> SplitTaggers:
        """Return the taggers of the training half."""
        ner = self.common.entities(self.features)
        return SplitTaggers(self.features, self._half("train"), ner, self._place)

    def chosen(self, protocol: Protocol) -> SplitChoice:
        """Make all choices on the training half."""
        agree = self.features.name == MORE.name
        return chosen(protocol, self.name, self.taggers(), self._about, agree=agree)

    def measured(self, protocol: Protocol, choice: SplitChoice) -> SplitOutcome:
        def make() -> SplitOutcome:
            test = protocol.test(lambda: self._half("test"))
            return _measured(self, SplitScores(self.features, test), choice)

        name = f"{self.name}, by message"
        return self.setting.kept(name, make, SplitOutcome, about=(*self._about, choice))

    def unproven(self, protocol: Protocol) -> list[int]:
        """Return the number of unproven answers by the chain rule, and of all answers."""

        def make() -> list[int]:
            taggers = self.taggers()
            chain = by_chain_rule(taggers.trained("transfer", taggers.train))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", InexactWarning)  # they are counted
                paths = chain.paths_all(protocol.test(lambda: self._half("test")), decode="joint")
            return [sum(path is not None and not path.exact for path in paths), len(paths)]

        return self.setting.kept(f"{self.name}, unproven", make, list[int], about=self._about)

    @property
    def _about(self) -> tuple[object, ...]:
        return self.features, (GRID, PRICES, PENALTIES), declared(self.features)

    def _half(self, part: Literal["train", "test"]) -> Corpus:
        messages = self.common.messages
        return messages.select(getattr(split(len(messages), self.setting.seed, self.number), part))

    def _place(self, name: str) -> Path | None:
        about = self.features, declared(self.features)
        return self.setting.parts.file(f"{self.name}, {name}", "pipeline", about)


def by_chain_rule(pipeline: TrainedPipeline) -> TrainedPipeline:
    """Return a pipeline whose decisions are scored by the product of conditional probabilities."""
    return replace(pipeline, composition=replace(pipeline.composition, normalize="chain"))


def _measured(one: MessageSplit, study: SplitScores, choice: SplitChoice) -> SplitOutcome:
    taggers = one.taggers()
    one.say("no transfer")
    alone = taggers.alone()
    study.score("no transfer", alone, "cascade")
    one.say("with the entity tagger")
    plain = taggers.trained("transfer", taggers.train)
    study.score("cascaded", plain, "cascade")
    study.score("joint, λ = 1", plain, "joint")
    study.score("joint, λ tuned", choice.tuned(plain), "joint")
    bound = alone.constrained(grammars()[choice.grammar])  # the effect of only the grammar
    study.score("no transfer, with that grammar", bound, "joint")
    study.score("joint, chosen with a grammar", choice.decided(plain), "joint")
    if choice.penalty is None:
        one.say("marginals in training")
        _marginals(study, taggers, plain, choice)
    else:
        one.say("fields that agree")
        name = "joint, with a grammar, fields agree"
        study.score_agreeing(name, choice.decided(plain), choice.penalty)
    study.found.chosen = choice.report()
    study.found.seconds |= taggers.seconds
    return study.found


def _marginals(
    study: SplitScores, taggers: SplitTaggers, plain: TrainedPipeline, choice: SplitChoice
) -> None:
    study.score("joint, chain", by_chain_rule(plain), "joint")
    study.score("marginals in decoding", plain, "marginals")
    soft = taggers.trained("marginals", taggers.train, passing="marginals")
    name = "marginals in training"
    study.score(f"{name}, cascaded", soft, "cascade")
    study.score(f"{name}, joint", soft, "joint")
    study.score(f"{name}, joint, that grammar", choice.decided(soft), "joint")
    study.score(f"{name} and decoding", soft, "marginals")
