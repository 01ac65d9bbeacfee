"""The taggers that no split changes: parts of speech from EWT, entities from CoNLL-2003.

=============  ====================================================================
Shared         both taggers, and the messages with the tags of the first
all_messages   read the messages
shared         train both (or take the finished ones), tag the messages
DECLARED       what both are trained by
FILES          the messages in the data folder
=============  ====================================================================

The messages have no parts of speech. They, and CoNLL-2003, get those that the first tagger
predicts; it has seen neither, so that it errs alike on both.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from fstcrf.corpus import Corpus, read_conllu
from fstcrf.evaluate import evaluate_spans, evaluate_tokens
from fstcrf.model import CRF
from fstcrf.pipelines import Pipeline, Task
from fstcrf.recipes.entities import TARGET, entities
from fstcrf.recipes.recipe import Row, Setting
from fstcrf.recipes.seminars.messages import corpus_of, read_message, retokenised
from fstcrf.recipes.seminars.templates import NAMES, TAGS

__all__ = ["DECLARED", "FILES", "Shared", "all_messages", "shared"]

FILES = "seminars/docs/*.txt"

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


def all_messages(setting: Setting) -> Corpus:
    """Read the messages, before anything is trained.

    Raises
    ------
    DataError
        There are none, or one is broken.
    """
    return corpus_of([read_message(path) for path in setting.files(FILES)])


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
    return retokenised(entities(setting, part, "iob2"), TARGET, spans=True)
