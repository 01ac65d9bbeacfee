"""The recipe ``rules``: patterns whose weights are learned, on top of taggers and with them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec

from fstcrf.evaluate import compare
from fstcrf.ext.rules import learn_rules, train_with_rules
from fstcrf.ext.significance import span_counts
from fstcrf.machines.grammar import Grammar
from fstcrf.recipes import corpora
from fstcrf.recipes.experiment import THREADS, Recipe, Setting
from fstcrf.recipes.protocol import Protocol, Settings, grid
from fstcrf.recipes.report import Headline, Result, Row, chances, gain, prose, template
from fstcrf.taggers import CRF
from fstcrf.taggers.tagger import Tagger
from fstcrf.text.corpus import Corpus
from fstcrf.training import Run
from fstcrf.training.options import structured

_SMALL = template("rules/small")

TEMPLATES = {"tokens": _SMALL, "chain": _SMALL + "B"}
"""A tagger that decides every token separately, and a chain: the same features."""

RULES = template("rules/rules")


SCHEME = "export SCHEME = bio;"

TAGGER_L2 = (0.2, 0.5, 1.0)
RULE_L2 = (0.1, 1.0)  # penalties to choose from

QUICK = 5  # of the training sentences, a quick run takes one of so many

PLAIN, HARD = "under the scheme", "scheme in training"
FROZEN, JOINT = "rules on top", "rules, jointly"
SYSTEMS = (PLAIN, HARD, FROZEN, JOINT)


class LearnedFacts(msgspec.Struct, frozen=True):
    grammar: str  # its constraints: the text of a grammar file
    weights: dict[str, float]  # of the rules
    seconds: float  # of the processor


_Make = Callable[[Settings], tuple[CRF, LearnedFacts]]


class Chunker:
    """Taggers with one template, trained on some sentences; each is trained once."""

    def __init__(self, setting: Setting, name: str, template: str, train: Corpus) -> None:
        self._setting, self.name, self._template, self._train = setting, name, template, train
        self._known: dict[str, tuple[CRF, LearnedFacts]] = {}

    def constrained(self, system: str, settings: Settings) -> Tagger[list[str]]:
        tagger, facts = self.trained(system, settings)
        return tagger & Grammar.from_text(facts.grammar)

    def trained(self, system: str, settings: Settings) -> tuple[CRF, LearnedFacts]:
        alone = {PLAIN: partial(self._alone, None), HARD: partial(self._alone, SCHEME)}
        makes: dict[str, _Make] = {**alone, FROZEN: self._frozen, JOINT: self._joint}
        words = ", ".join(f"{key} {value}" for key, value in settings.items())
        name = f"{self.name}, {system}, {words}"
        if name not in self._known:
            make, about = partial(makes[system], settings), (self._template, RULES)
            self._known[name] = self._setting.trained(name, make, LearnedFacts, about)
        return self._known[name]

    def _crf(self, data: Corpus, settings: Settings, grammar: str | None = None) -> CRF:
        hard = None if grammar is None else Grammar.from_text(grammar)
        options: dict[str, Any] = {"l2": settings["l2"], "grammar": hard, "threads": THREADS}
        return CRF.train(
            data, **structured({"target": "chunk", "template": self._template, **options})
        )

    def _alone(self, grammar: str | None, settings: Settings) -> tuple[CRF, LearnedFacts]:
        began = time.process_time()
        return self._crf(self._train, settings, grammar), _facts(SCHEME, {}, began)

    def _frozen(self, settings: Settings) -> tuple[CRF, LearnedFacts]:
        began, numbers = time.process_time(), range(len(self._train))
        others, fifth = ([i for i in numbers if (i % 5 == 4) == last] for last in (False, True))
        tagger = self._crf(self._train.select(others), settings)
        learned = learn_rules(tagger, self._train.select(fifth), RULES, **_of_rules(settings))
        return tagger, _facts(learned.text, learned.weights, began)

    def _joint(self, settings: Settings) -> tuple[CRF, LearnedFacts]:
        alone, known = self.trained(PLAIN, {"l2": settings["l2"]})
        began = time.process_time() - known.seconds
        both = train_with_rules(alone, self._train, RULES, **_of_rules(settings))
        return both.tagger, _facts(both.text, both.weights, began)


def _of_rules(settings: Settings) -> dict[str, Any]:
    return {"l2": settings["rule_l2"], "on_missing": "skip", "run": Run(threads=THREADS)}


def _facts(grammar: str, weights: dict[str, float], began: float) -> LearnedFacts:
    return LearnedFacts(grammar, weights, time.process_time() - began)


def choose(protocol: Protocol, chunker: Chunker, held_out: Corpus) -> dict[str, Settings]:
    """Choose the penalty of the tagger, which is then fixed, and the penalties of the rules."""

    def f(system: str, settings: Settings) -> float:
        labels = chunker.constrained(system, settings).tag_all(held_out, threads=THREADS)
        return corpora.span_f(held_out, "chunk", labels)

    found: dict[str, Settings] = {}
    for system in SYSTEMS:
        alone = system in (PLAIN, HARD)
        several = grid(l2=TAGGER_L2) if alone else grid(rule_l2=RULE_L2)
        candidates = [{**({} if alone else found[PLAIN]), **one} for one in several]
        name = f"{chunker.name}: {system}"
        found[system] = protocol.choose(name, candidates, partial(f, system), RULES)
    return found


@dataclass(frozen=True, slots=True)
class RuleRun:
    labels: list[list[str]]
    f: float  # percent
    weights: dict[str, float]
    seconds: float


def _tested(chunker: Chunker, system: str, settings: Settings, test: Corpus) -> RuleRun:
    facts = chunker.trained(system, settings)[1]
    labels = chunker.constrained(system, settings).tag_all(test, threads=THREADS)
    return RuleRun(labels, corpora.span_f(test, "chunk", labels), facts.weights, facts.seconds)


def run(setting: Setting) -> Result:
    train, held_out = _parts(corpora.chunk_file(setting, "train"), full=setting.full)
    protocol = Protocol(RECIPE.name, setting)
    chunkers = [Chunker(setting, name, text, train) for name, text in TEMPLATES.items()]
    setting.course.until(0.9)
    chosen = {one.name: choose(protocol, one, held_out) for one in setting.course.each(chunkers)}
    protocol.freeze()
    test = protocol.test(lambda: corpora.chunk_file(setting, "test"))
    setting.course.until(1.0)
    rows: list[Row] = []
    runs: dict[str, dict[str, RuleRun]] = {}
    for one in chunkers:
        found = runs[one.name] = {}
        for system, settings in chosen[one.name].items():
            name, about = f"{one.name}: {system}", (settings, RULES)
            make = partial(_tested, one, system, settings, test)
            found[system] = setting.kept(f"{name}, test", make, RuleRun, about)
            rows += setting.told(_rows(name, found[system]))
    text = f"```text\n{RULES}```"
    reading = prose("rules/reading", train=len(train), held_out=len(held_out), rules=text)
    return Result(
        rows,
        [reading, protocol.section(), _significance(runs, test, setting), _weights(runs)],
        headline=[
            Headline.of_f(
                f"{name}: {system}",
                "F, test, %",
                [span_counts(test.column_lists("chunk"), run.labels)],
            )
            for name, found in runs.items()
            for system, run in found.items()
        ],
    )


def _parts(corpus: Corpus, *, full: bool) -> tuple[Corpus, Corpus]:
    numbers = range(len(corpus))
    train = [i for i in numbers if i % 10 != 9 and (full or i % QUICK == 0)]
    return corpus.select(train), corpus.select([i for i in numbers if i % 10 == 9])


def _rows(name: str, found: RuleRun) -> Iterator[Row]:
    yield Row(name, "F, test, %", found.f)
    yield Row(name, "seconds of the processor to train", found.seconds)


def _significance(runs: Mapping[str, Mapping[str, RuleRun]], test: Corpus, setting: Setting) -> str:
    gold, body = test.column_lists("chunk"), []
    pairs = ((FROZEN, PLAIN), (HARD, PLAIN), (JOINT, PLAIN), (JOINT, HARD), (JOINT, FROZEN))
    for name, found in runs.items():
        for one, other in pairs:
            pair = compare(gold, found[one].labels, found[other].labels, seed=setting.seed)
            body.append([f"{name}: {one}", other, gain(pair), *chances(pair)])
    return prose("rules/significance", body)


def _weights(runs: Mapping[str, Mapping[str, RuleRun]]) -> str:
    columns = {
        f"{name}: {system}": found[system].weights
        for name, found in runs.items()
        for system in (FROZEN, JOINT)
    }
    rules = next(iter(columns.values()))
    body = [[rule, *(f"{weights[rule]:+.2f}" for weights in columns.values())] for rule in rules]
    return prose("rules/weights", body, systems=" | ".join(columns))


RECIPE = Recipe(
    "rules",
    "Rules with weights that are learned, on top of taggers and together with them",
    needs=corpora.CHUNK_FILES,
    paper="published",
    run=run,
    packages=("scipy",),
)
