"""The recipe ``rules``: patterns whose weights are learned, on top of taggers as they are."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from fstcrf.arrays import Floats
from fstcrf.corpus import Corpus
from fstcrf.evaluate import compare
from fstcrf.grammar import Grammar
from fstcrf.joint import CRF
from fstcrf.joint.tagger import Tagger
from fstcrf.recipes import corpora
from fstcrf.recipes.experiment import THREADS, Recipe, Setting
from fstcrf.recipes.report import Result, Row, gain, table
from fstcrf.rules import learn_rules

L2 = 0.5
"""Of the taggers."""

RULE_L2 = 1.0
"""Of the rules: neither was tuned."""

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


@dataclass(frozen=True, slots=True)
class RuleRun:
    """A tagger alone, under the scheme, and with rules: their answers on the test part."""

    labels: dict[str, list[list[str]]]
    f: dict[str, float]  # percent
    weights: dict[str, float]
    learning: float  # seconds of the processor
    likelihood: tuple[float, float]  # of a sentence held out for the rules: before, after


def _split(train: Corpus) -> tuple[Corpus, Corpus]:
    """Return what taggers are trained on, and what rules are learned from: every fifth sentence."""
    held = [i for i in range(len(train)) if i % 5 == 4]
    return train.select([i for i in range(len(train)) if i % 5 != 4]), train.select(held)


def measured(template: str, train: Corpus, test: Corpus) -> RuleRun:
    """Train a tagger, learn the rules on held-out sentences, tag the test part."""
    part, held_out = _split(train)

    def trained(data: Corpus) -> CRF:
        return CRF.train(data, "chunk", template, l2=L2, threads=THREADS)

    tagger = trained(part)
    began = time.process_time()
    learned = learn_rules(tagger, held_out, RULES, l2=RULE_L2, on_missing="skip", threads=THREADS)
    seconds = time.process_time() - began
    taggers: dict[str, Tagger[list[str], Floats]] = {
        "alone": tagger,
        "under the scheme": tagger & Grammar.shipped("bio"),
        "with rules": tagger & learned.grammar,
        "trained on all": trained(train) & Grammar.shipped("bio"),
    }
    labels = {name: one.tag_all(test, threads=THREADS) for name, one in taggers.items()}
    f = {name: corpora.span_f(test, "chunk", found) for name, found in labels.items()}
    return RuleRun(labels, f, learned.weights, seconds, (learned.before, learned.after))


def run(setting: Setting) -> Result:
    """Learn rules on top of both taggers."""
    train, test = corpora.chunks(setting)
    rows: list[Row] = []
    body: list[list[str]] = []
    weights: list[list[str]] = []
    for name, template in TEMPLATES.items():
        setting.say(f"rules: {name}")
        about = (template, RULES, L2, RULE_L2)
        found = setting.kept(name, partial(measured, template, train, test), RuleRun, about)
        rows += setting.rows(f"{name}, rows", partial(_rows, name, found), (about, found.f))
        gold = test.column_lists("chunk")
        for other in ("under the scheme", "trained on all"):
            pair = compare(gold, found.labels["with rules"], found.labels[other], seed=setting.seed)
            chances = (pair.tokens.exact, pair.sentences.exact, pair.randomised)
            body.append([f"{name}: {other}", gain(pair), *(f"{p:.3g}" for p in chances)])
        weights.append([name, *(f"{weight:+.2f}" for weight in found.weights.values())])
    head = [
        "with rules, against",
        "F (95 % interval)",
        "McNemar, tokens",
        "sentences",
        "randomised F",
    ]
    names = [*zip(["tagger", *found.weights], *weights, strict=True)]
    return Result(
        rows,
        [
            _READING,
            f"## Significance\n\n{table(head, body)}",
            "## Weights\n\nNatural-log scores of a match; files have their negatives as costs.\n\n"
            + table(list(names[0]), [list(row) for row in names[1:]]),
        ],
    )


def _rows(name: str, found: RuleRun) -> Iterator[Row]:
    for system, f in found.f.items():
        yield Row(f"{name}: {system}", "F, test, %", f)
    yield Row(f"{name}: rules", "seconds of the processor to learn them", found.learning)
    for when, value in zip(("before", "after"), found.likelihood, strict=True):
        yield Row(f"{name}: rules", f"log-likelihood of a held-out sentence, {when}", value)


_READING = (
    "## How to read this\n\n"
    "Taggers are trained on four of five sentences of CoNLL-2000's training part; *tokens* decides "
    "every token alone, *chain* has weights of neighbouring labels. The weights of the rules are "
    "learned from every fifth sentence, the tagger left as it is. *Trained on all* has no rules "
    "but the fifth more text: what those sentences are worth otherwise. All but *alone* stand "
    f"under `bio`. L2 is {L2:g} for taggers and {RULE_L2:g} for rules, tuned for neither. The "
    "rules were written with the training part in mind; of a longer list, figures of the test part "
    "had been seen.\n\n"
    f"```text\n{RULES}```"
)

RECIPE = Recipe(
    "rules",
    "Rules with weights that are learned, on top of taggers that stay as they are",
    needs=("conll2000/train.txt", "conll2000/test.txt"),
    paper="published",
    run=run,
    packages=("scipy",),
)
