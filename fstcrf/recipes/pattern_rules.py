"""The recipe ``rules``: patterns whose weights are learned, on top of taggers and with them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import msgspec

from fstcrf.arrays import Floats
from fstcrf.evaluate import compare
from fstcrf.evaluate.significance import span_counts
from fstcrf.ext.rules import learn_rules, train_with_rules
from fstcrf.machines.grammar import Grammar
from fstcrf.recipes import corpora
from fstcrf.recipes.experiment import THREADS, Recipe, Setting
from fstcrf.recipes.protocol import Protocol, Value
from fstcrf.recipes.report import P_VALUES, Headline, Result, Row, gain, prose, table
from fstcrf.taggers import CRF
from fstcrf.taggers.tagger import Tagger
from fstcrf.text.corpus import Corpus

_SMALL = """\
U0:%x[-1..1,word]
U1:%x[-1..1,pos]
U2:%x[-1..0,pos]/%x[0..1,pos]
"""

TEMPLATES = {"tokens": _SMALL, "chain": _SMALL + "B"}
"""A tagger that decides every token alone, and a chain: the same features."""

RULES = """\
tape pos, chunk;
export SCHEME = bio[tape=chunk];

# Two chunks of a kind, side by side.
export NP_NP = each[label["chunk=.-NP"] "[chunk=B-NP]", <?>];
export VP_VP = each[label["chunk=.-VP"] "[chunk=B-VP]", <?>];

# How they end, how long they are.
AFTER_NP = label["chunk=(?!I-NP).*"];
export ENDS_IN_DETERMINER = each[label["pos=DT|PRP.|JJ chunk=.-NP"] AFTER_NP, <?>];
export PP_WITHOUT_NP = each["[chunk=B-PP]" label["chunk=(?!B-NP|I-PP).*"], <?>];
export LONG_NP = each["[chunk=B-NP]" "[chunk=I-NP]"{6}, <?>];

# What is in them, and between them.
NO_VERB = label["pos=(?!V|MD|TO).* chunk=I-VP"];
BEGIN = label["pos=(?!V|MD|TO).* chunk=B-VP"];
export VP_WITHOUT_VERB = each[BEGIN NO_VERB* label["chunk=(?!I-VP).*"], <?>];
export NOUN_OUTSIDE = each[label["pos=NN.* chunk=O"], <?>];
export AND_WITHIN = each[label["chunk=.-NP"] "[pos=CC chunk=I-NP]" "[chunk=I-NP]", <?>];
export AND_BETWEEN = each[label["chunk=.-NP"] "[pos=CC chunk=O]" "[chunk=B-NP]", <?>];
export NO_VP = at_least[1, "VP", tape=chunk, <?>];
"""


SCHEME = "export SCHEME = bio;"

TAGGER_L2 = (0.2, 0.5, 1.0)
RULE_L2 = (0.1, 1.0)
"""Penalties to choose from."""

QUICK = 5
"""Of the training sentences, a quick run takes one of so many."""

PLAIN, HARD = "under the scheme", "scheme in training"
FROZEN, JOINT = "rules on top", "rules, jointly"
SYSTEMS = (PLAIN, HARD, FROZEN, JOINT)


class LearnedFacts(msgspec.Struct, frozen=True):
    """What is known of a tagger beside its weights."""

    grammar: str  # what it stands under: the text of a grammar file
    weights: dict[str, float]  # of the rules
    seconds: float  # of the processor


class Chunker:
    """Taggers with one template, trained on some sentences; each is trained once."""

    def __init__(self, setting: Setting, name: str, template: str, train: Corpus) -> None:
        self._setting, self.name, self._template, self._train = setting, name, template, train
        self._known: dict[str, tuple[CRF, LearnedFacts]] = {}

    def constrained(self, system: str, settings: Mapping[str, Value]) -> Tagger[list[str], Floats]:
        """Return the tagger of a system under its grammar."""
        tagger, facts = self.trained(system, settings)
        return tagger & Grammar.from_text(facts.grammar)

    def trained(self, system: str, settings: Mapping[str, Value]) -> tuple[CRF, LearnedFacts]:
        """Return the tagger of a system and what is known of it."""
        makes = {PLAIN: self._plain, HARD: self._hard, FROZEN: self._frozen, JOINT: self._joint}
        words = ", ".join(f"{key} {value}" for key, value in settings.items())
        name = f"{self.name}, {system}, {words}"
        if name not in self._known:
            make, about = partial(makes[system], settings), (self._template, RULES)
            self._known[name] = self._setting.trained(name, make, LearnedFacts, about)
        return self._known[name]

    def _crf(self, data: Corpus, settings: Mapping[str, Value], grammar: str | None = None) -> CRF:
        hard = None if grammar is None else Grammar.from_text(grammar)
        return CRF.train(
            data,
            "chunk",
            self._template,
            l2=float(str(settings["l2"])),
            grammar=hard,
            threads=THREADS,
        )

    def _plain(self, settings: Mapping[str, Value]) -> tuple[CRF, LearnedFacts]:
        began = time.process_time()
        return self._crf(self._train, settings), _facts(SCHEME, {}, began)

    def _hard(self, settings: Mapping[str, Value]) -> tuple[CRF, LearnedFacts]:
        began = time.process_time()
        return self._crf(self._train, settings, SCHEME), _facts(SCHEME, {}, began)

    def _frozen(self, settings: Mapping[str, Value]) -> tuple[CRF, LearnedFacts]:
        began, numbers = time.process_time(), range(len(self._train))
        others, fifth = ([i for i in numbers if (i % 5 == 4) == last] for last in (False, True))
        tagger = self._crf(self._train.select(others), settings)
        learned = learn_rules(
            tagger,
            self._train.select(fifth),
            RULES,
            l2=float(str(settings["rule_l2"])),
            on_missing="skip",
            threads=THREADS,
        )
        return tagger, _facts(learned.text, learned.weights, began)

    def _joint(self, settings: Mapping[str, Value]) -> tuple[CRF, LearnedFacts]:
        alone, known = self.trained(PLAIN, {"l2": settings["l2"]})
        began = time.process_time() - known.seconds
        both = train_with_rules(
            alone,
            self._train,
            RULES,
            l2=float(str(settings["rule_l2"])),
            on_missing="skip",
            threads=THREADS,
        )
        return both.tagger, _facts(both.text, both.weights, began)


def _facts(grammar: str, weights: dict[str, float], began: float) -> LearnedFacts:
    return LearnedFacts(grammar, weights, time.process_time() - began)


def choose(protocol: Protocol, chunker: Chunker, held_out: Corpus) -> dict[str, dict[str, Value]]:
    """Choose the penalty of the tagger alone, which stays; those of the rules beside it."""

    def f(system: str, settings: Mapping[str, Value]) -> float:
        labels = chunker.constrained(system, settings).tag_all(held_out, threads=THREADS)
        return corpora.span_f(held_out, "chunk", labels)

    found = {}
    alone = [{"l2": l2} for l2 in TAGGER_L2]
    for system in (PLAIN, HARD):
        name = f"{chunker.name}: {system}"
        found[system] = dict(protocol.choose(name, alone, partial(f, system), RULES))
    for system in (FROZEN, JOINT):
        both = [{**found[PLAIN], "rule_l2": l2} for l2 in RULE_L2]
        name = f"{chunker.name}: {system}"
        found[system] = dict(protocol.choose(name, both, partial(f, system), RULES))
    return found


@dataclass(frozen=True, slots=True)
class RuleRun:
    """What a system says of the test part."""

    labels: list[list[str]]
    f: float  # percent
    weights: dict[str, float]
    seconds: float


def _tested(chunker: Chunker, system: str, settings: Mapping[str, Value], test: Corpus) -> RuleRun:
    facts = chunker.trained(system, settings)[1]
    labels = chunker.constrained(system, settings).tag_all(test, threads=THREADS)
    return RuleRun(labels, corpora.span_f(test, "chunk", labels), facts.weights, facts.seconds)


def run(setting: Setting) -> Result:
    """Choose penalties on held-out sentences, freeze them, and compare the systems on the test."""
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
            rows += setting.rows(f"{name}, rows", partial(_rows, name, found[system]), about)
    size = len(train), len(held_out)
    return Result(
        rows,
        [_reading(*size), protocol.section(), _significance(runs, test, setting), _weights(runs)],
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
            chances = (pair.tokens.exact, pair.sentences.exact, pair.randomised)
            body.append([f"{name}: {one}", other, gain(pair), *(f"{p:.3g}" for p in chances)])
    head = ["", "against", "F (95 % interval)", "McNemar, tokens", "sentences", "randomised F"]
    return f"## Significance\n\n{P_VALUES}\n\n{table(head, body)}"


def _weights(runs: Mapping[str, Mapping[str, RuleRun]]) -> str:
    columns = [
        (f"{name}: {system}", found[system].weights)
        for name, found in runs.items()
        for system in (FROZEN, JOINT)
    ]
    body = [[rule, *(f"{weights[rule]:+.2f}" for _, weights in columns)] for rule in columns[0][1]]
    return (
        "## Weights\n\nNatural-log scores of a match; files have their negatives as costs.\n\n"
        + table(["rule", *(name for name, _ in columns)], body)
    )


def _reading(train: int, held_out: int) -> str:
    return prose(
        "rules/reading",
        train=train,
        held_out=held_out,
        plain=PLAIN,
        hard=HARD,
        frozen=FROZEN,
        joint=JOINT,
        rules=f"```text\n{RULES}```",
    )


RECIPE = Recipe(
    "rules",
    "Rules with weights that are learned, on top of taggers and together with them",
    needs=("conll2000/train.txt", "conll2000/test.txt"),
    paper="published",
    run=run,
    packages=("scipy",),
)
