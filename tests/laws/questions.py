"""Questions that every door is asked, and what enumeration answers.

The words a, b and c have scores for the labels of one tape or two. A question adds what is legal,
what a rule says about a labelling, and which labels are known.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from fstcrf import CRF, Grammar
from fstcrf.arrays import Floats
from fstcrf.training import Chain

__all__ = ["QUESTIONS", "Question", "Refusal", "Told", "truth"]

Labels = tuple[str, ...]
Labelling = tuple[Labels, ...]
"""The labels of each tape."""

WORDS = "abc"
TAPES: dict[str, Labels] = {"p": ("A", "B", "C"), "q": ("X", "Y")}
TEMPLATE = "U:%x[0,word]\nB\n"
_TRAIN = [
    {"word": list("abc"), "p": list("ABC"), "q": list("XYX")},
    {"word": list("cab"), "p": list("BAC"), "q": list("YYX")},
    {"word": list("bca"), "p": list("CCB"), "q": list("XXY")},
]


@dataclass(frozen=True)
class Told:
    """What a door says of one sentence; None of what it does not tell."""

    labels: Labelling
    score: float | None = None
    probability: float | None = None


@dataclass(frozen=True)
class Refusal:
    """An error, and the sentence that it names; its message counts for who reads of it."""

    kind: str
    sentence: int | None = None
    message: str = field(default="", compare=False)

    @classmethod
    def of(cls, error: Exception) -> Refusal:
        return cls(type(error).__name__, getattr(error, "sentence", None), str(error))


Answer = list[Told | None] | Refusal
"""Of each sentence, None where no labelling is legal; or what the question is refused with."""


@dataclass(frozen=True)
class Rule:
    """A grammar, and the same rule in Python: labels of all tapes → score, −inf if illegal."""

    text: str
    score: Callable[[Labelling], float]
    made: Callable[[], Grammar] | None = None

    def grammar(self) -> Grammar:
        return self.made() if self.made is not None else Grammar.from_text(self.text)


@dataclass(frozen=True)
class Question:
    """Sentences, and what is known of their labels.

    Parameters
    ----------
    sentences : sequence of str
        A letter is a word.
    tapes : str
        A letter is a tape.
    rule : Rule, optional
    forced : mapping of (int, int) to str, optional
        Of sentence and token the labels of the first tape that there may be; no letter: none.
    level : float
        Factor of all scores; 0 makes all labellings equal.
    refusal : Refusal, optional
        What the question is refused with, whatever its sentences.
    """

    sentences: Sequence[str]
    tapes: str = "p"
    rule: Rule | None = None
    forced: Mapping[tuple[int, int], str] = field(default_factory=dict)
    level: float = 1.0
    refusal: Refusal | None = None

    @property
    def traits(self) -> set[str]:
        """What not every door can be asked about."""
        rule = self.rule
        found = {
            "rule": rule is not None,
            "machine": rule is not None and rule.made is not None,
            "forced": bool(self.forced),
            "none allowed": "" in self.forced.values(),
            "tapes": len(self.tapes) > 1,
            "rule of tapes": len(self.tapes) > 1 and rule is not None,
            "empty": "" in self.sentences,
        }
        return {trait for trait, there in found.items() if there}

    def alone(self, number: int) -> Question:
        """Return the question about one of the sentences."""
        known = {(0, t): labels for (i, t), labels in self.forced.items() if i == number}
        return replace(self, sentences=[self.sentences[number]], forced=known)

    def words(self) -> list[dict[str, list[str]]]:
        return [{"word": list(words)} for words in self.sentences]

    def known(self) -> list[Any]:
        """Return forced labels as taggers take them."""
        found: list[Any] = []
        for i, words in enumerate(self.sentences):
            row = ["|".join(self.forced.get((i, t), "_")) for t in range(len(words))]
            found.append(row if len(self.tapes) == 1 else {self.tapes[0]: row})
        return found

    def taggers(self) -> list[CRF]:
        return [tagger(tape, self.level) for tape in self.tapes]

    def arrays(self, tape: str) -> tuple[list[Floats], Floats]:
        """Return scores of labels, [T, L] of each sentence, and of successions, [L, L]."""
        words, arc = scores(tape, self.level)
        found = []
        for i, sentence in enumerate(self.sentences):
            rows = np.array([words[word] for word in sentence]).reshape(-1, len(TAPES[tape]))
            if tape == self.tapes[0]:
                for t in range(len(sentence)):
                    allowed = self.forced.get((i, t), TAPES[tape])
                    rows[t, [label not in allowed for label in TAPES[tape]]] = -np.inf
            found.append(rows)
        return found, arc


@cache
def tagger(tape: str, level: float) -> CRF:
    """Return a tagger of a tape; its weights are exact in float32."""
    made = CRF.train(
        _TRAIN, tape, TEMPLATE, structure=Chain(pairs="complete", transitions="all"), l2=0.3
    )
    return replace(made, theta=level * np.round(made.theta * 1024) / 1024)


@cache
def scores(tape: str, level: float) -> tuple[dict[str, list[float]], Floats]:
    """Return the weights of a tagger by name: of words and labels, and of successions [L, L]."""
    labels = TAPES[tape]
    words = {word: [0.0] * len(labels) for word in WORDS}
    arc = np.zeros((len(labels), len(labels)))
    for weight in tagger(tape, level).top_features(1000):
        first, arrow, second = weight.slot.partition(" → ")
        if arrow:
            arc[labels.index(first), labels.index(second)] = weight.weight
        else:
            words[weight.attribute.removeprefix("U:")][labels.index(first)] = weight.weight
    return words, arc


# --- What enumeration says ------------------------------------------------------------------------


def truth(question: Question, *, strict: bool = False) -> Answer:
    """Return the best labelling of each sentence, its score and its probability.

    Of equal labellings the first, by the order of labels at the first token where they differ.
    Where a door is strict, a sentence without a labelling refuses all of them.
    """
    if question.refusal is not None:
        return question.refusal
    found = [_best(question.alone(number)) for number in range(len(question.sentences))]
    return Refusal("NoPathError", found.index(None)) if strict and None in found else found


def _best(question: Question) -> Told | None:
    (sentence,) = question.sentences
    parts = [
        [(labels, _score(question, tape, labels)) for labels in _all(tape, len(sentence))]
        for tape in question.tapes
    ]
    best: tuple[float, Labelling] | None = None
    total = []
    for several in itertools.product(*parts):
        labelling = tuple(labels for labels, _ in several)
        rule = 0.0 if question.rule is None else question.rule.score(labelling)
        score = math.fsum((rule, *(own for _, own in several))) if rule > -math.inf else rule
        total.append(score)
        if score > -math.inf and (best is None or score > best[0] + 1e-12):
            best = score, labelling
    if best is None:
        return None
    log_z = best[0] + math.log(math.fsum(math.exp(score - best[0]) for score in total))
    return Told(best[1], best[0], math.exp(best[0] - log_z))


def _all(tape: str, length: int) -> list[Labels]:
    return list(itertools.product(TAPES[tape], repeat=length))


def _score(question: Question, tape: str, labels: Labels) -> float:
    (rows,), arc = question.arrays(tape)
    numbers = [TAPES[tape].index(label) for label in labels]
    own = [float(rows[t, label]) for t, label in enumerate(numbers)]
    return (
        -math.inf
        if -math.inf in own
        else math.fsum((*own, *(float(arc[a, b]) for a, b in itertools.pairwise(numbers))))
    )


# --- Rules ----------------------------------------------------------------------------------------


def _legal(*, when: bool) -> float:
    return 0.0 if when else -math.inf


def _ambiguous() -> Grammar:
    pynini = pytest.importorskip("pynini", exc_type=ImportError)
    machine = pynini.Fst("log64")
    one = pynini.Weight("log64", 0.0)
    first, last = machine.add_state(), machine.add_state()
    machine.set_start(first).set_final(last, one)
    for label in (1, 1, 2):
        machine.add_arc(first, pynini.Arc(label, label, one, last))
    return Grammar.from_fst(machine)


AT_LEAST = Rule('export X = at_least[1, "B"];', lambda two: _legal(when="B" in two[0]))
AT_MOST = Rule('export X = at_most[1, "C"];', lambda two: _legal(when=two[0].count("C") < 2))
LONG = Rule("export X = any{4,};", lambda two: _legal(when=len(two[0]) >= 4))
TWO = Rule("export X = any{2};", lambda two: _legal(when=len(two[0]) == 2))
EACH = Rule(
    'export X = each["[A]" "[C]", <0.75>];',
    lambda two: -0.75 * sum(pair == ("A", "C") for pair in itertools.pairwise(two[0])),
)
WANTED = Rule('export X = at_least[1, "B", <2>];', lambda two: 0.0 if "B" in two[0] else -2.0)
PAIRS = Rule(
    'tape p, q;\nexport X = (any - "[p=A q=X]" - "[p=C q=Y]")*;',
    lambda two: _legal(when=not {("A", "X"), ("C", "Y")} & set(zip(*two, strict=True))),
)
BOTH_SOME = Rule("tape p, q;\nexport X = any+;", lambda two: _legal(when=len(two[0]) > 0))
OF_SECOND = Rule(
    'tape q;\nexport X = exactly[1, "Y"];', lambda two: _legal(when=two[1].count("Y") == 1)
)
LOG = Rule("", lambda _: 0.0, _ambiguous)
TEXTS = ("abc", "b", "cc", "abca")

QUESTIONS: dict[str, Question] = {
    "plain": Question(TEXTS),
    "one token": Question(["a"]),
    "empty": Question([""]),
    "empty between": Question(["ab", "", "c"]),
    "ties": Question(["abc", "a"], level=0.0),
    "hard": Question(TEXTS, rule=AT_LEAST),
    "hard, one token": Question(["a"], rule=AT_LEAST),
    "hard, one dead": Question(["ab", "abc", "ca"], rule=TWO),
    "hard, all dead": Question(["abc", "a"], rule=LONG),
    "hard, empty legal": Question([""], rule=AT_MOST),
    "hard, empty legal between": Question(["cc", "", "ca"], rule=AT_MOST),
    "hard, empty dead": Question([""], rule=AT_LEAST),
    "hard, empty dead between": Question(["ab", "", "c"], rule=AT_LEAST),
    "hard, ties": Question(["abc", "a"], rule=AT_LEAST, level=0.0),
    "soft": Question(TEXTS, rule=EACH),
    "soft, final": Question(TEXTS, rule=WANTED),
    "soft, empty": Question([""], rule=WANTED),
    "soft, empty between": Question(["ab", "", "c"], rule=WANTED),
    "forced": Question(TEXTS, forced={(0, 1): "C", (2, 0): "A", (3, 3): "B"}),
    "forced, one of": Question(TEXTS, forced={(0, 0): "BC", (1, 0): "AC"}),
    "forced, one token": Question(["a"], forced={(0, 0): "C"}),
    "forced, hard": Question(TEXTS, rule=AT_MOST, forced={(0, 1): "C", (2, 0): "BC"}),
    "forced, soft": Question(TEXTS, rule=EACH, forced={(0, 0): "A", (3, 1): "C"}),
    "forced, dead": Question(["cc", "ab"], rule=AT_MOST, forced={(0, 0): "C", (0, 1): "C"}),
    "forced, ties": Question(["abc"], forced={(0, 1): "BC"}, level=0.0),
    "nothing allowed": Question(["abc", "b"], forced={(0, 1): ""}),
    "two tapes": Question(TEXTS, "pq"),
    "two tapes, one token": Question(["a"], "pq"),
    "two tapes, empty": Question(["ab", "", "c"], "pq"),
    "two tapes, ties": Question(["ab"], "pq", level=0.0),
    "two tapes, hard": Question(TEXTS, "pq", rule=PAIRS),
    "two tapes, hard on one": Question(TEXTS, "pq", rule=OF_SECOND),
    "two tapes, one dead": Question(["ab", "", "c"], "pq", rule=BOTH_SOME),
    "two tapes, forced": Question(TEXTS, "pq", forced={(0, 1): "A", (1, 0): "BC"}),
    "two tapes, forced, hard": Question(TEXTS, "pq", rule=PAIRS, forced={(0, 1): "A"}),
    "log machine": Question(["a"], rule=LOG, refusal=Refusal("GrammarError")),
}
