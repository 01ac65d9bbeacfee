"""Systems of the recipe ``seminars``: features, taggers that no split changes, those of a split.

The messages have no parts of speech. They, and CoNLL-2003, get those that a tagger trained on EWT
predicts; it has seen neither, so that it errs alike on both.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
import numpy as np

from fstcrf.corpus import Corpus, convert_column, read_conllu
from fstcrf.documents import Fields
from fstcrf.documents.document import Document, documents
from fstcrf.evaluate import evaluate_spans, evaluate_tokens
from fstcrf.joint import CRF
from fstcrf.lattice import Lattice, nbest
from fstcrf.pipelines import Pipeline, Task, TrainedPipeline
from fstcrf.pipelines.trained import Decode
from fstcrf.recipes.corpora import ENTITY, POLICIES, entities, mean_f, retokenised, scored, token_f
from fstcrf.recipes.experiment import Setting
from fstcrf.recipes.report import Row

__all__ = [
    "DECLARED",
    "FURTHER",
    "LABELS",
    "MORE",
    "PAGE",
    "PAPER",
    "Features",
    "Outcome",
    "Shared",
    "SplitSystems",
    "agreeing",
    "ranked",
    "shared",
    "windows",
]


# --- Features -------------------------------------------------------------------------------------


def _prefixed(text: str) -> str:
    """Prefix names by U: a bare letter U or B starts a template of CRF++."""
    return "".join(f"U{line}\n" if line != "B" else "B\n" for line in text.splitlines())


TAGS = _prefixed("""\
W:%x[-2..2,lower(word)]
X:%x[0,word]
Q:%x[-1..0,lower(word)]/%x[0..1,lower(word)]
P:%x[0,prefix(lower(word),1)]
R:%x[0,prefix(lower(word),2)]
S:%x[0,prefix(lower(word),3)]
A:%x[0,suffix(lower(word),1)]
D:%x[0,suffix(lower(word),2)]
C:%x[0,suffix(lower(word),3)]
F:%x[0,suffix(lower(word),4)]
H:%x[-1..1,short_shape(word)]
B
""")

NAMES = _prefixed("""\
W:%x[-2..2,word]
L:%x[-1..1,lower(word)]
Q:%x[-1..0,word]/%x[0..1,word]
P:%x[0,prefix(word,2)]
R:%x[0,prefix(word,3)]
S:%x[0,prefix(word,4)]
A:%x[0,suffix(word,2)]
D:%x[0,suffix(word,3)]
C:%x[0,suffix(word,4)]
H:%x[-2..2,shape(word)]
K:%x[-2..2,short_shape(word)]
J:%x[-1..0,short_shape(word)]/%x[0..1,short_shape(word)]
T:%x[-2..2,tag]
V:%x[-1..0,tag]/%x[0..1,tag]
M:%x[-2..2,pattern]
N:%x[-2..2,list]
I:%x[-1..1,time]
B
""")


@dataclass(frozen=True, slots=True)
class Features:
    """Features of the field tagger.

    Parameters
    ----------
    name : str
    alone, transfer : str
        Templates without and with the entity label.
    options : dict
        Of training.
    prefix : str
        What the names of its systems begin with.
    """

    name: str
    alone: str
    transfer: str
    options: dict[str, Any] = field(hash=False)
    prefix: str = ""

    def named(self, system: str) -> str:
        """Return the name of a system with these features."""
        return f"{self.prefix}{system}"

    def prepared(self, corpus: Corpus) -> Corpus:
        """Return messages with labels in the scheme of the options; they come in IOB2."""
        scheme = self.options["scheme"]
        return corpus if scheme == "iob2" else convert_column(corpus, "field", "iob2", scheme)


_WINDOWS = {"W": "word", "P": "pattern", "L": "list", "T": "time", "G": "tag"}

LABELS = "U\nB\n"


def windows(columns: Collection[str]) -> str:
    """Return templates of columns of the paper's Table 1: each token from -4 to 4."""
    return _prefixed("".join(f"{n}:%x[-4..4,{c}]\n" for n, c in _WINDOWS.items() if c in columns))


_TABLE1 = windows(_WINDOWS.values())

_PAIRS = "".join(f"E{n}:%y[0,ner]/%x[-4..4,{c}]\n" for n, c in _WINDOWS.items()) + "E:%y[0,ner]\n"

PAPER = Features(
    "features of the paper",
    f"{_TABLE1}{LABELS}",
    f"{_TABLE1}{_prefixed(_PAIRS)}{LABELS}",
    {"scheme": "iob2", "l2": 1.0, "max_iterations": 100},  # l2 = 1 / 2σ², for its σ² = 0.5
)

PAGE = _prefixed("""\
H:%x[-1..1,head]
HP:%x[0,head]/%x[0,place]
HW:%x[0,head]/%x[0,lower(word)]
HC:%x[0,head]/%x[0,pattern]
N:%x[-1..1,line]
O:%x[-2..2,place]
ON:%x[0,place]/%x[0,line]
NV:%x[0,line]/%x[0,run]
R:%x[-2..2,room]
RR:%x[-1..0,room]/%x[0..1,room]
V:%x[-2..2,run]
VV:%x[-1..0,run]/%x[0..1,run]
VB:%x[0,run]/%x[-1,lower(word)]
VA:%x[0,run]/%x[1,lower(word)]
K:%x[-1..1,also]
KV:%x[0,also]/%x[0,run]
""")

WORDS = _prefixed("""\
A:%x[-4..4,lower(word)]
B2:%x[-3..2,lower(word)]/%x[-2..3,lower(word)]
B3:%x[-2..0,lower(word)]/%x[-1..1,lower(word)]/%x[0..2,lower(word)]
S2:%x[0,suffix(lower(word),2)]
S3:%x[0,suffix(lower(word),3)]
P3:%x[0,prefix(lower(word),3)]
P4:%x[0,prefix(lower(word),4)]
D:%x[-2..2,shape(word)]
DD:%x[-2..1,short_shape(word)]/%x[-1..2,short_shape(word)]
DW:%x[-1..1,short_shape(word)]/%x[-1,lower(word)]
M:%x{-9..-1,lower(word)}
Q:%x{1..9,lower(word)}
""")

FURTHER = PAGE + WORDS

_MORE_PAIRS = """\
E:%y[0,ner]
EW:%y[0,ner]/%x[0,lower(word)]
EP:%y[0,ner]/%x[0,pattern]
EL:%y[0,ner]/%x[-1..1,list]
EG:%y[0,ner]/%x[0,tag]
EH:%y[0,ner]/%x[0,head]
EV:%y[0,ner]/%x[0,run]
EK:%y[0,ner]/%x[0,also]
ER:%y[0,ner]/%x[0,room]
"""

MORE = Features(
    "more features",
    f"{_TABLE1}{FURTHER}{LABELS}",
    f"{_TABLE1}{FURTHER}{_prefixed(_MORE_PAIRS)}{LABELS}",
    {"scheme": "bioes", "l2": 1.0, "max_iterations": 60},
    prefix="more features, ",
)


# --- Parts of speech from EWT, entities from CoNLL-2003 -------------------------------------------

_FAST = {"method": "ap", "max_iterations": 8}
_BEST = {"scheme": "iob2", "max_iterations": 100}
DECLARED = (TAGS, _FAST, NAMES, _BEST)


@dataclass(frozen=True, slots=True)
class Shared:
    """What all splits have in common.

    Parameters
    ----------
    messages : Corpus
        One message a sentence, with the columns of `corpus_of` and ``tag``.
    ner : CRF
        The entity tagger.
    rows : tuple of Row
        How good the two taggers are on the texts that belong to them.
    """

    messages: Corpus
    ner: CRF
    rows: tuple[Row, ...]


def shared(setting: Setting, messages: Corpus) -> Shared:
    """Train both taggers, or take the finished ones; tag the messages.

    Raises
    ------
    DataError
        A file is missing or is not what it should be.
    """
    ewt, ewt_test = (
        retokenised(read_conllu(setting.files(f"ud_english_ewt/*{part}.conllu")[0]), "xpos",
                    spans=False)
        for part in ("train", "test")
    )  # fmt: skip
    first = Task("tag", ewt, TAGS, target="xpos", options=_FAST)
    setting.say("seminars: parts of speech, entities")
    tagger = Pipeline([first]).train(setting.parts.file("tag", "pipeline"))["tag"]
    conll = _tagged(_entities(setting, "train"), tagger)
    names = Task("ner", conll, NAMES, options=_BEST)
    ner = Pipeline([names]).train(setting.parts.file("ner", "pipeline"))["ner"]
    test = _tagged(_entities(setting, "testb"), tagger)
    rows = setting.rows("taggers", partial(_rows, tagger, ewt_test, ner, test), about=DECLARED)
    return Shared(_tagged(messages, tagger), ner, tuple(rows))


def _rows(tagger: CRF, sentences: Corpus, ner: CRF, names: Corpus) -> Iterator[Row]:
    found = evaluate_tokens(sentences.column_lists("xpos"), tagger.tag_all(sentences))
    yield Row("parts of speech", "accuracy on EWT's test part, %", 100 * found.accuracy)
    f = evaluate_spans(names.column_lists("ner"), ner.tag_all(names)).f
    yield Row("entities", "F on CoNLL-2003's test part, %", 100 * f)


def _tagged(corpus: Corpus, tagger: CRF) -> Corpus:
    return corpus.with_interned("tag", tagger.tag_column(corpus))


def _entities(setting: Setting, part: str) -> Corpus:
    """Return a file of CoNLL-2003 in IOB2, its words cut as those of messages are."""
    return retokenised(entities(setting, part, "iob2"), ENTITY, spans=True)


# --- The taggers of a split -----------------------------------------------------------------------


class Outcome(msgspec.Struct):
    """What was measured on a split: for each system, F by ``field/policy``, and more."""

    scores: dict[str, dict[str, float]] = {}
    chosen: dict[str, str] = {}
    host: dict[str, int] = {}
    seconds: dict[str, float] = {}


class SplitSystems:
    """The systems of one set of features on a split, and their scores.

    Parameters
    ----------
    features : Features
    train, test : Corpus
        The halves.
    ner : CRF
        The entity tagger.
    place : callable
        The folder in which the pipeline of a name is kept; None for none.
    """

    def __init__(
        self,
        features: Features,
        train: Corpus,
        test: Corpus,
        ner: CRF,
        place: Callable[[str], Path | None],
    ) -> None:
        self.found = Outcome()
        self.train = features.prepared(train)
        self._features, self._test, self._ner, self._place = features, test, ner, place
        self._words = test.column_lists("word")
        self._gold = test.column_lists("field")

    def alone(self) -> TrainedPipeline:
        """Return the field tagger that reads no other."""
        task = Task("field", self.train, self._features.alone, options=self._features.options)
        return self._timed("alone", Pipeline([task]))

    def trained(self, name: str, train: Corpus, **options: Any) -> TrainedPipeline:
        """Return the entity tagger with a field tagger that reads it."""
        options = {**self._features.options, **options}
        task = Task("field", train, self._features.transfer, reads=["ner"], options=options)
        return self._timed(name, Pipeline([self._ner, task]))

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
    alone.

    Parameters
    ----------
    pipeline : TrainedPipeline
        Of two tasks, the second of them the fields.
    corpus : Corpus

    Raises
    ------
    NoPathError
        No decision about a message is legal.
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
    """Return the labels of each message that score best with the penalties added.

    Parameters
    ----------
    lists : sequence of Ranked
    corpus : Corpus
        Each message is a document.
    penalty : float
        Of each token of two times that differ, and of each place where a speaker's last name is
        not the speaker's, natural log.
    """
    model = Fields.seminars(penalty)
    return [
        list(_best(few, model, message))
        for few, message in zip(lists, documents(corpus), strict=True)
    ]


def _best(few: Ranked, model: Fields, message: Document) -> tuple[str, ...]:
    return max(few, key=lambda one: one[0] + model.score(message, one[1]))[1]
