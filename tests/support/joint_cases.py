"""Small taggers to compose, and the truth about compositions of them, labelling by labelling.

The truth asks each tagger alone: the labels of earlier tapes are columns, as in a cascade. Nothing
of `fstcrf.taggers` is asked.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal
from weakref import WeakKeyDictionary

import numpy as np

from fstcrf import CRF, Grammar
from fstcrf.arrays import Floats
from fstcrf.constraints import at_least, at_most, label, neighbours, pairs
from fstcrf.lazy import made_once
from fstcrf.machines.grammar import Acceptor
from tests.support.oracles import log_sum
from tests.support.training import flat_train

Labels = tuple[str, ...]
Labelling = tuple[Labels, ...]
Sentence = Mapping[str, Sequence[str]]
StagePotentials = Mapping[str, Labels]

WORDS = ("a", "b", "c", "d", "e")


def sentences(n: int, seed: int, longest: int = 4) -> list[dict[str, list[str]]]:
    """Random sentences whose labels lean on words and on each other."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(n):
        size = int(rng.integers(1, longest + 1))
        word = rng.integers(len(WORDS), size=size)
        pos = (word + (rng.random(size) < 0.3)) % 3
        chunk = (pos + (rng.random(size) < 0.3) + (np.arange(size) == 0)) % 3
        ent = (pos * chunk + (rng.random(size) < 0.4)) % 2
        found.append(
            {
                "word": [WORDS[i] for i in word],
                "pos": [f"P{i}" for i in pos],
                "coarse": ["XXY"[i] for i in pos],
                "chunk": ["BIO"[i] for i in chunk],
                "ent": [f"E{i}" for i in ent],
            }
        )
    return found


TRAIN = sentences(20, seed=1)
TEST: list[dict[str, list[str]]] = [{"word": s["word"]} for s in sentences(6, seed=2, longest=3)]
LONG: dict[str, list[str]] = {"word": list("abcdeabc")}

POS = "U1:%x[0,word]\nU2:%x[-1,word]\nB\n"
CHUNK = "U1:%x[0,word]\nU2:%y[0,pos]\nU3:%y[0,pos]/%x[0,word]\nB\n"
ENT = "U1:%x[0,word]\nU2:%y[0,pos]/%x[-1,word]\nB\n"
LAST = "U1:%y[0,chunk]\nU2:%y[0,pos]/%y[0,chunk]\nU3:%x[0,word]\nB\n"
COARSE = "U1:%x[0,word]\nU2:%y[0,coarse]\nU3:%y[0,coarse]/%x[0,word]\nB1:%y[0,coarse]\nB\n"
BOTH = "U1:%y[0,coarse]\nU2:%y[0,pos]/%y[0,coarse]\nU3:%y[0,pos]/%x[0,word]\nB\n"
ARCS = CHUNK + "B1:%y[0,pos]\nB2:%y[0,pos]/%x[0,word]\n"


def trained(target: str, template: str, *reads: CRF, **options: Any) -> CRF:
    options.setdefault("l2", 0.05)
    return flat_train(TRAIN, target, template, reads=reads, **options)


@cache
def tagger(name: str) -> CRF:
    """The small taggers, by what they are."""
    make: dict[str, Callable[[], CRF]] = {
        "pos": lambda: trained("pos", POS),
        "pos2": lambda: trained("pos", POS, order=2),
        "pos0": lambda: trained("pos", POS, order=0),
        "chunk": lambda: trained("chunk", CHUNK, tagger("pos")),
        "chunk2": lambda: trained("chunk", ARCS, tagger("pos"), order=2),
        "arcs": lambda: trained("chunk", ARCS, tagger("pos")),
        "hashed": lambda: trained("chunk", CHUNK, tagger("pos"), hash_bits=10),
        "bio": lambda: trained("ent", ENT, tagger("pos"), ends=True),
        "ent": lambda: trained("ent", ENT, tagger("pos")),
        "last": lambda: trained("ent", LAST, tagger("pos"), tagger("chunk")),
        "coarse": lambda: trained("coarse", POS),
        "coarse pos": lambda: trained("coarse", POS, tape="pos"),
        "over coarse": lambda: trained("chunk", COARSE, tagger("coarse")),
        "over coarse pos": lambda: trained("chunk", CHUNK, tagger("coarse pos")),
        "over both": lambda: trained("chunk", BOTH, tagger("pos"), tagger("coarse")),
        "alone": lambda: trained("chunk", "U:%x[0,word]\nB\n"),
    }
    return make[name]()


CASES: dict[str, tuple[str, ...]] = {
    "one": ("pos",),
    "pair": ("pos", "chunk"),
    "reader first": ("chunk", "pos"),
    "apart": ("pos", "alone"),
    "conditioned arcs": ("pos", "arcs"),
    "order 2": ("pos2", "chunk2"),
    "order 0": ("pos0", "chunk"),
    "hashed": ("pos", "hashed"),
    "ends": ("pos", "bio"),
    "two readers": ("pos", "chunk", "ent"),
    "three in a row": ("pos", "chunk", "last"),
    "in a row, backwards": ("last", "chunk", "pos"),
}


ONE_TAPE: dict[str, Callable[[], Grammar]] = {
    "folded": lambda: neighbours([("P0", "P1"), ("P1", "P0"), ("P1", "P2"), ("P2", "P0")]),
    "counted": lambda: at_most(1, label("P0")),
    "soft": lambda: Grammar.from_text('export E = (("[P0]" <0.7>) | ("[P1]" <-0.4>) | "[P2]")*;'),
}
GRAMMARS: dict[str, Callable[[], Grammar]] = {
    "first tape": lambda: at_most(1, label("P0"), tape="pos"),
    "later tape": lambda: at_most(1, label("O"), tape="chunk"),
    "neighbours": lambda: neighbours([("B", "I"), ("I", "B"), ("I", "O")], tape="chunk"),
    "folded": lambda: neighbours([("P0", "P1"), ("P1", "P0"), ("P0", "P0")], tape="pos"),
    "pairs": lambda: pairs([("P0", "B"), ("P1", "I"), ("P2", "O"), ("P2", "B")], ["pos", "chunk"]),
    "rare pairs": lambda: pairs([("P0", "O"), ("P1", "B"), ("P2", "I")], ["pos", "chunk"]),
    "counted on both": lambda: (
        at_most(1, label("B"), tape="chunk") & at_least(1, label("P0"), tape="pos")
    ),
    "soft": lambda: Grammar.from_text(
        'tape chunk; export E = (("[B]" <-1.5>) | "[I]" | ("[O]" <0.5>))*;'
    ),
    "soft pairs": lambda: Grammar.from_text(
        "tape pos, chunk; export E = "
        '(("[pos=P0 chunk=O]" <-2.5>) | ("[pos=P1]" <0.3>) | "[pos=P2]" | "[pos=P0 chunk=B]")*;'
    ),
    "soft residual": lambda: Grammar.from_text(
        'tape chunk; export E = any* (("[B]" "[I]" <-2>) any*)?;'
    ),
}


def taggers(case: str) -> list[CRF]:
    return [tagger(name) for name in CASES[case]]


Paths = tuple[dict[Labels, float], float]
_PATHS: WeakKeyDictionary[CRF, dict[Any, Paths]] = WeakKeyDictionary()


def every_path(tagger: CRF, sentence: Sentence) -> Paths:
    """The score of every label sequence under one tagger, and log Z; asked once."""
    known = _PATHS.setdefault(tagger, {})
    key = tuple(sorted((name, tuple(column)) for name, column in sentence.items()))
    if key not in known:
        lattice = tagger.lattice(sentence)
        paths = lattice.nbest(len(tagger.labels) ** len(lattice))
        known[key] = {path.labels: path.score for path in paths}, lattice.log_partition()
    return known[key]


@dataclass(frozen=True, eq=False)
class Truth:
    """Every joint labelling of a sentence with its score.

    `seen` tells what a tagger reads when that is not the tape of that name: (reader, name read) to
    a function of the labels found so far.
    """

    taggers: Sequence[CRF]
    sentence: Sentence
    weights: Sequence[float] = ()
    conjuncts: Sequence[Acceptor] = ()
    normalize: Literal["product", "chain"] = "product"
    seen: Mapping[tuple[str, str], Callable[[StagePotentials], Labels]] = field(
        default_factory=dict
    )

    @property
    def tokens(self) -> int:
        return len(self.sentence["word"])

    @made_once
    def factors(self) -> tuple[float, ...]:
        return tuple(self.weights) or (1.0,) * len(self.taggers)

    @made_once
    def scores(self) -> dict[Labelling, float]:
        """Score of every legal labelling, tapes in the order of the taggers."""
        found: list[tuple[dict[str, Labels], float]] = [({}, 0.0)]
        left = list(self.taggers)
        while left:
            done = set(found[0][0])
            tagger = next(t for t in left if self._reads(t) <= done)
            left.remove(tagger)
            factor = self.factors[list(self.taggers).index(tagger)]
            wider = []
            for given, total in found:
                scores, log_z = self._alone(tagger, given)
                off = log_z if self.normalize == "chain" else 0.0
                wider += [
                    ({**given, tagger.tape: labels}, total + factor * (score - off))
                    for labels, score in scores.items()
                ]
            found = wider
        legal = {}
        for given, total in found:
            extra = sum(a.walk(*(given[tape] for tape in a.tapes)) for a in self.conjuncts)
            if extra > -np.inf:
                legal[tuple(given[t.tape] for t in self.taggers)] = total + extra
        return legal

    def _reads(self, tagger: CRF) -> set[str]:
        tapes = {t.tape for t in self.taggers}
        own = {tape.name for tape in tagger.reads if (tagger.tape, tape.name) not in self.seen}
        mapped = any(reader == tagger.tape for reader, _ in self.seen)
        return (own & tapes) | ({self.taggers[0].tape} if mapped else set())

    def _alone(self, tagger: CRF, given: StagePotentials) -> Paths:
        columns = {tape.name: given[tape.name] for tape in tagger.reads if tape.name in given}
        columns |= {
            read: make(given) for (reader, read), make in self.seen.items() if reader == tagger.tape
        }
        return every_path(tagger, {**self.sentence, **{k: list(v) for k, v in columns.items()}})

    # --- What it says -------------------------------------------------------------------------

    @made_once
    def log_z(self) -> float:
        return log_sum(np.asarray(list(self.scores.values())))

    @made_once
    def ranking(self) -> list[tuple[float, Labelling]]:
        return sorted(((s, y) for y, s in self.scores.items()), key=lambda item: -item[0])

    @property
    def best(self) -> float:
        return self.ranking[0][0] if self.scores else -np.inf

    def probability(self, labelling: Labelling) -> float:
        return float(np.exp(self.scores[labelling] - self.log_z))

    def marginals(self, k: int) -> Floats:
        number = {label: i for i, label in enumerate(self.taggers[k].labels)}
        out = np.zeros((self.tokens, len(number)))
        for labelling in self.scores:
            share = self.probability(labelling)
            for t, own in enumerate(labelling[k]):
                out[t, number[own]] += share
        return out


def close(found: float, wanted: float) -> bool:
    """Equal to 1e-9, relative."""
    return found == wanted or abs(found - wanted) <= 1e-9 * max(1.0, abs(wanted))


def shaped(labels: Any, truth: Truth) -> Any:
    """Labels of a path as a labelling: a single tape is not wrapped."""
    return (labels,) if len(truth.taggers) == 1 else labels


def assert_frequencies(samples: list[tuple[tuple[str, ...], ...]], truth: Truth) -> None:
    """Frequencies of labellings, rare ones taken together; six sigma."""
    n = len(samples)
    assert set(samples) <= truth.scores.keys()
    expected = {y: n * truth.probability(y) for y in truth.scores}
    often = [y for y, e in expected.items() if e >= 5]
    rare = n - sum(expected[y] for y in often)
    counts = [samples.count(y) for y in often]
    statistic = sum(
        (c - expected[y]) ** 2 / expected[y] for c, y in zip(counts, often, strict=True)
    )
    if rare > 5:
        statistic += (n - sum(counts) - rare) ** 2 / rare
    freedom = len(often)
    assert len(often) > 5
    assert statistic < freedom + 6 * math.sqrt(2 * freedom)
