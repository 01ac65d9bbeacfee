"""Systems of the recipe ``seminars``: taggers that no split changes, those of a split, choices.

The messages have no parts of speech. They, and CoNLL-2003, get those that a tagger trained on EWT
predicts; it has seen neither, so that it errs alike on both.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeAlias

import msgspec
import numpy as np

from fstcrf import constraints
from fstcrf.arrays import Longs
from fstcrf.corpus import Corpus, read_conllu
from fstcrf.documents import Fields
from fstcrf.documents.document import documents
from fstcrf.errors import DataError
from fstcrf.evaluate import evaluate_spans, evaluate_tokens
from fstcrf.grammar import Grammar
from fstcrf.joint import CRF
from fstcrf.lattice import Lattice, nbest
from fstcrf.pipelines import Pipeline, Task, TrainedPipeline
from fstcrf.pipelines.trained import Decode
from fstcrf.recipes.corpora import (
    ENTITY,
    FIELDS,
    MESSAGES,
    POLICIES,
    TWINS,
    entities,
    mean_f,
    retokenised,
    scored,
    token_f,
)
from fstcrf.recipes.experiment import Setting
from fstcrf.recipes.message_features import MORE, NAMES, PAPER, TAGS, Features
from fstcrf.recipes.report import Row

# --- Parts of speech from EWT, entities from CoNLL-2003 -------------------------------------------

_FAST = {"method": "ap", "max_iterations": 8}
_BEST = {"scheme": "iob2", "max_iterations": 100}
DECLARED = (TAGS, _FAST, NAMES, _BEST, PAPER.alone, PAPER.options)


@dataclass(frozen=True, slots=True)
class Shared:
    """What all splits have in common."""

    messages: Corpus  # one message a sentence, with the columns of `corpus_of` and ``tag``
    tags: CRF  # the tagger of parts of speech
    ner: CRF  # the entity tagger
    plain: CRF  # that with the features of the paper's field tagger, trained to convergence
    rows: tuple[Row, ...]  # how good the taggers are on the texts that belong to them

    def entities(self, features: Features) -> CRF:
        """Return the entity tagger that goes with features of the field tagger."""
        return self.plain if features.name == PAPER.name else self.ner


def shared(setting: Setting, messages: Corpus) -> Shared:
    """Train both taggers, or take the finished ones; tag the messages."""
    ewt, ewt_test = (
        retokenised(read_conllu(setting.files(f"ud_english_ewt/*{part}.conllu")[0]), "xpos",
                    spans=False)
        for part in ("train", "test")
    )  # fmt: skip
    first = Task("tag", ewt, TAGS, target="xpos", options=_FAST)
    setting.say("seminars: parts of speech, entities")
    tagger = Pipeline([first]).train(setting.parts.file("tag", "pipeline"))["tag"]
    conll = news(setting, "train", tagger)
    names = Task("ner", conll, NAMES, options=_BEST)
    ner = Pipeline([names]).train(setting.parts.file("ner", "pipeline"))["ner"]
    setting.say("seminars: entities, features of the paper")
    few = Task("ner", conll, PAPER.alone, options=PAPER.options)
    plain = Pipeline([few]).train(setting.parts.file("ner plain", "pipeline", PAPER))["ner"]
    test = news(setting, "testb", tagger)
    make = partial(
        _rows, tagger, ewt_test, {"entities": ner, f"entities, {PAPER.name}": plain}, test
    )
    rows = setting.rows("taggers", make, about=DECLARED)
    return Shared(_tagged(messages, tagger), tagger, ner, plain, tuple(rows))


def _rows(
    tagger: CRF, sentences: Corpus, several: Mapping[str, CRF], names: Corpus
) -> Iterator[Row]:
    found = evaluate_tokens(sentences.column_lists("xpos"), tagger.tag_all(sentences))
    yield Row("parts of speech", "accuracy on EWT's test part, %", 100 * found.accuracy)
    for name, ner in several.items():
        f = evaluate_spans(names.column_lists("ner"), ner.tag_all(names)).f
        yield Row(name, "F on CoNLL-2003's test part, %", 100 * f)


def news(setting: Setting, part: str, tagger: CRF) -> Corpus:
    """Return a file of CoNLL-2003 as messages are: cut alike, with the same tags."""
    return _tagged(_entities(setting, part), tagger)


def _tagged(corpus: Corpus, tagger: CRF) -> Corpus:
    return corpus.with_interned("tag", tagger.tag_column(corpus))


def _entities(setting: Setting, part: str) -> Corpus:
    """Return a file of CoNLL-2003 in IOB2, its words cut as those of messages are."""
    return retokenised(entities(setting, part, "iob2"), ENTITY, spans=True)


# --- The taggers of a split -----------------------------------------------------------------------


class SplitOutcome(msgspec.Struct):
    """What was measured on a split: for each system, F by ``field/policy``, and more."""

    scores: dict[str, dict[str, float]] = {}
    chosen: dict[str, str] = {}
    host: dict[str, int] = {}
    seconds: dict[str, float] = {}


class SplitSystems:
    """The systems of one set of features on a split, and their scores.

    `place` gives the folder in which the pipeline of a name is kept; None for none.
    """

    def __init__(
        self,
        features: Features,
        train: Corpus,
        test: Corpus,
        ner: CRF,
        place: Callable[[str], Path | None],
    ) -> None:
        self.found = SplitOutcome()
        self.train = features.prepared(train)
        self._features, self._test, self._ner, self._place = features, test, ner, place
        self._words = test.column_lists("word")
        self._gold = test.column_lists("field")

    def alone(self) -> TrainedPipeline:
        """Return the field tagger that reads no other."""
        task = Task("field", self.train, self._features.alone, options=self._features.options)
        return self._timed("alone", Pipeline([task]))

    def trained(self, name: str, train: Corpus, **options: object) -> TrainedPipeline:
        """Return the entity tagger with a field tagger that reads it."""
        options = {**self._features.options, **options}
        task = Task("field", train, self._features.transfer, reads=["ner"], options=options)
        return self._timed(name, Pipeline([self._ner, task], normalize="product"))

    def _timed(self, name: str, pipeline: Pipeline) -> TrainedPipeline:
        told: list[str] = []
        started = time.perf_counter()
        found = pipeline.train(self._place(name), told=told.append)
        if not any("finished before" in line for line in told):
            self.found.seconds[f"training, {name}"] = time.perf_counter() - started
        return found

    def score(self, system: str, pipeline: TrainedPipeline, decode: Decode) -> None:
        """Score a pipeline on the test half, as a system."""
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
        for policy in POLICIES:
            scores = scored(self._words, self._gold, labels, policy)
            found |= {f"{field}/{policy}": score.f for field, score in scores.items()}
            found[f"overall/{policy}"] = mean_f(scores)
        self.found.scores[name] = found


def _hosts(words: Sequence[Sequence[str]], names: Sequence[Sequence[str]] | None) -> int:
    """Count ``Host`` before a colon; with entity labels, those that are part of an entity."""
    return sum(
        w[k] == "Host" and w[k + 1] == ":" and (names is None or names[i][k] != "O")
        for i, w in enumerate(words)
        for k in range(len(w) - 1)
    )


# --- Fields that agree throughout a message -------------------------------------------------------
#
# That a name which is a speaker's in one place is so in all others is no regular language: no
# grammar can say it, but a list of the n best can be asked.


Ranked: TypeAlias = Sequence[tuple[float, tuple[str, ...]]]

SIZE = 50


def ranked(pipeline: TrainedPipeline, corpus: Corpus) -> list[Ranked]:
    """Return the best joint decisions about the fields of each message, best first.

    The entities are those of the best decision: without that, most of a list differs in entities
    alone. NoPathError where no decision about a message is legal.
    """
    decided = pipeline.tag_all(corpus, decode="joint")
    lattices = pipeline.composition.lattices(corpus)
    pairs = zip(lattices, decided, strict=True)
    few = nbest([_decided(lattice, entities) for lattice, (entities, _) in pairs], SIZE)
    return [[(path.score, path.labels[-1]) for path in paths] for paths in few]


def _decided(lattice: Lattice, entities: Sequence[str]) -> Lattice:
    """Return the paths that have these entities."""
    names, fields = lattice.labels
    masks = (
        np.asarray(entities)[:, None] == np.asarray(names),
        np.ones((len(lattice), len(fields)), dtype=bool),
    )
    return lattice.restrict(masks)


def agreeing(lists: Sequence[Ranked], corpus: Corpus, penalty: float) -> list[list[str]]:
    """Return the labels of each message, a document, that score best with the penalties added.

    `penalty`, natural log: of each token of two times that differ, and of each place where a
    speaker's last name is not the speaker's.
    """
    model = Fields.seminars(penalty)
    return [
        list(max(few, key=lambda one: one[0] + model.score(message, one[1]))[1])
        for few, message in zip(lists, documents(corpus), strict=True)
    ]


# --- Halves ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Halves:
    """Which messages are for training, and which for testing."""

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


LEAST = 4
"""Messages: of a half, which is cross-validated, something must be left to train on."""


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
                    f"too few of the {n} messages have a <{missing[0]}>: none of the {len(rest)} "
                    f"that split {k + 1} trains on to choose weights",
                    path=folder,
                )


# --- What a training half chooses by cross-validation ---------------------------------------------

GRID = (0.35, 0.5, 0.75, 1.0, 1.5, 2.0)
PRICES = {"location": (0.0, 1.5, 3.0), "speaker": (1.5, 3.0, 5.0)}
PENALTIES = (-1.0, -0.5, -2.0, 0.0)  # of equally good ones the first is taken
FOLDS = 3

_Change: TypeAlias = Callable[[TrainedPipeline], TrainedPipeline]
_Train: TypeAlias = Callable[[str, Corpus], TrainedPipeline]


@dataclass(frozen=True, slots=True)
class _Choice:
    """What was chosen."""

    weight: float  # of the field tagger, without a grammar
    decoder: float  # of the field tagger, with the grammar
    grammar: str  # its name among `grammars`
    policy: str  # which value of a field is taken, see `scored`

    def tuned(self, pipeline: TrainedPipeline) -> TrainedPipeline:
        """Return a pipeline with the weight that was chosen without a grammar."""
        return pipeline.with_weights(1.0, self.weight)

    def decided(self, pipeline: TrainedPipeline) -> TrainedPipeline:
        """Return a pipeline with the grammar, and the weight that was chosen with it."""
        return pipeline.with_weights(1.0, self.decoder).constrained(grammars()[self.grammar])

    def report(self) -> dict[str, str]:
        """Return what the page says of it."""
        return {
            "weight": f"{self.weight:g}",
            "decoder": f"λ = {self.decoder:g}",
            "grammar": self.grammar,
            "policy": self.policy,
        }


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
    """Pipelines that have not seen a third of the training half, and that third."""

    def __init__(self, train: Corpus, trained: _Train) -> None:
        parts = folded(train)
        self._held = [held for _, held in parts]
        self._inner = [trained(f"fold{k}", rest) for k, (rest, _) in enumerate(parts)]
        self._words = [w for part in self._held for w in part.column_lists("word")]
        self._gold = [y for part in self._held for y in part.column_lists("field")]

    def choice(self) -> _Choice:
        """Choose weight, grammar, and policy; the policy for the cascade."""
        cascaded = self._labels(lambda p: p, "cascade")
        policy = max(POLICIES, key=lambda name: self._f(cascaded, name))

        def worth(change: _Change) -> float:
            return self._f(self._labels(change), policy)

        by_weight = {w: worth(_Choice(w, w, "", policy).tuned) for w in GRID}
        weight = max(GRID, key=lambda w: (by_weight[w], -abs(w - 1.0)))
        options = {
            (1.0, name): worth(_Choice(weight, 1.0, name, policy).decided) for name in grammars()
        }
        best = max(options, key=options.__getitem__)
        if weight != 1.0:
            options[weight, best[1]] = worth(_Choice(weight, weight, best[1], policy).decided)
            best = max(options, key=options.__getitem__)
        return _Choice(weight, *best, policy)

    def penalty(self, choice: _Choice) -> float:
        """Choose what it costs that fields do not agree, beside all that was chosen."""
        pairs = list(zip(self._inner, self._held, strict=True))
        lists = [ranked(choice.decided(pipeline), part) for pipeline, part in pairs]

        def worth(penalty: float) -> float:
            parts = zip(lists, self._held, strict=True)
            labels = [y for few, part in parts for y in agreeing(few, part, penalty)]
            return self._f(labels, choice.policy)

        return max(PENALTIES, key=worth)

    def _labels(self, change: _Change, decode: Decode = "joint") -> list[Sequence[str]]:
        pairs = zip(self._inner, self._held, strict=True)
        answers = [change(p).tag_all(part, decode=decode) for p, part in pairs]
        return [fields for part in answers for _, fields in part]

    def _f(self, labels: Sequence[Sequence[str]], policy: str) -> float:
        return mean_f(scored(self._words, self._gold, labels, policy))


# --- The systems, trained and scored --------------------------------------------------------------

_Say: TypeAlias = Callable[[str], None]
Measured: TypeAlias = dict[str, SplitOutcome]


@dataclass(frozen=True, slots=True)
class Decision:
    """A way to decide: its features, and the row of the paper's Table 2 that it stands beside."""

    features: Features
    beside: str | None = None

    def outcome(self, measured: Measured) -> SplitOutcome:
        """Return what was measured with these features."""
        return measured[self.features.name]


SYSTEMS = {
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
"""The systems by name."""


def measured(setting: Setting, common: Shared, number: int, features: Features) -> SplitOutcome:
    """Train and score the systems of one set of features on a split; an earlier run's are taken."""
    name = f"split {number + 1}, {features.name}"
    make = partial(_measured, setting, common, number, features)
    grids = (GRID, PRICES, PENALTIES)
    return setting.kept(name, make, SplitOutcome, about=(features, grids, DECLARED))


def _measured(setting: Setting, common: Shared, number: int, features: Features) -> SplitOutcome:
    prefix = f"split {number + 1}, {features.name}"
    one = split(len(common.messages), setting.seed, number)
    train, test = common.messages.select(one.train), common.messages.select(one.test)

    def place(name: str) -> Path | None:
        return setting.parts.file(f"{prefix}, {name}", "pipeline")

    def say(what: str) -> None:
        setting.say(f"seminars: split {number + 1}: {features.name}, {what}")

    study = SplitSystems(features, train, test, common.entities(features), place)
    (_and_agreement if features is MORE else _all_ways)(study, say)
    return study.found


def _all_ways(study: SplitSystems, say: _Say) -> None:
    plain, choice, _ = _usual_ways(study, say)
    chain = replace(plain, composition=replace(plain.composition, normalize="chain"))
    study.score("joint, chain", chain, "joint")
    study.score("marginals in decoding", plain, "marginals")
    say("marginals in training")
    soft = study.trained("marginals", study.train, passing="marginals")
    name = "marginals in training"
    study.score(f"{name}, cascaded", soft, "cascade")
    study.score(f"{name}, joint", soft, "joint")
    study.score(f"{name}, joint, that grammar", choice.decided(soft), "joint")
    study.score(f"{name} and decoding", soft, "marginals")


def _and_agreement(study: SplitSystems, say: _Say) -> None:
    plain, choice, folds = _usual_ways(study, say)
    say("fields that agree")
    penalty = folds.penalty(choice)
    study.found.chosen["penalty"] = f"{penalty:g}"
    study.score_agreeing("joint, with a grammar, fields agree", choice.decided(plain), penalty)


def _usual_ways(study: SplitSystems, say: _Say) -> tuple[TrainedPipeline, _Choice, _Folds]:
    """Return the pipeline, what was chosen for it, and on what."""
    say("no transfer")
    alone = study.alone()
    study.score("no transfer", alone, "cascade")
    say("with the entity tagger")
    plain = study.trained("transfer", study.train)
    study.score("cascaded", plain, "cascade")
    study.score("joint, λ = 1", plain, "joint")
    say("choosing weights and a grammar on the training half")
    folds = _Folds(study.train, study.trained)
    choice = folds.choice()
    study.found.chosen = choice.report()
    study.score("joint, λ tuned", choice.tuned(plain), "joint")
    bound = alone.constrained(grammars()[choice.grammar])  # what the grammar does alone
    study.score("no transfer, with that grammar", bound, "joint")
    study.score("joint, chosen with a grammar", choice.decided(plain), "joint")
    return plain, choice, folds
