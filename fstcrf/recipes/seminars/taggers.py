"""The taggers that no split changes: parts of speech from EWT, entities from CoNLL-2003.

=============  ====================================================================
Shared         both taggers, and the messages with the tags of the first
shared         train them (or take the finished ones), read the messages
=============  ====================================================================

The messages have no parts of speech. They, and CoNLL-2003, get those that the first tagger
predicts; it has seen neither, so that it errs alike on both.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from fstcrf.corpus import Corpus, read_columns, read_conllu
from fstcrf.corpus.span import convert
from fstcrf.evaluate import evaluate_spans, evaluate_tokens
from fstcrf.model import CRF
from fstcrf.pipelines import Pipeline, Task
from fstcrf.recipes.recipe import Row, Setting
from fstcrf.recipes.seminars.messages import corpus_of, read_message, retokenised
from fstcrf.recipes.seminars.templates import NAMES, TAGS

__all__ = ["Shared", "shared"]

_COLUMNS = ("word", "gold-pos", "chunk", "ner")


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


def shared(setting: Setting, folder: Path | None) -> Shared:
    """Train both taggers, or take the finished ones; read the messages.

    Raises
    ------
    DataError
        A file is missing or is not what it should be.
    """
    place = None if folder is None else folder / "shared"
    ewt, ewt_test = (
        retokenised(read_conllu(setting.files(f"ud_english_ewt/*{part}.conllu")[0]), "xpos",
                    spans=False)
        for part in ("train", "test")
    )  # fmt: skip
    fast = {"method": "ap", "max_iterations": 8}
    first = Task("tag", ewt, TAGS, target="xpos", options=fast)
    setting.say("seminars: parts of speech, entities")
    tagger = Pipeline([first]).train(place and place / "tag")["tag"]
    conll = _tagged(_entities(setting, "conll2003/eng.train"), tagger)
    names = Task("ner", conll, NAMES, options={"scheme": "iob2", "max_iterations": 100})
    ner = Pipeline([names]).train(place and place / "ner")["ner"]
    test = _tagged(_entities(setting, "conll2003/eng.testb"), tagger)
    accuracy = evaluate_tokens(ewt_test.column_lists("xpos"), tagger.tag_all(ewt_test)).accuracy
    f = evaluate_spans(test.column_lists("ner"), ner.tag_all(test)).f
    messages = corpus_of([read_message(path) for path in setting.files("seminars/docs/*.txt")])
    rows = (
        Row("parts of speech", "accuracy on EWT's test part, %", 100 * accuracy),
        Row("entities", "F on CoNLL-2003's test part, %", 100 * f),
    )
    return Shared(_tagged(messages, tagger), ner, rows)


def _tagged(corpus: Corpus, tagger: CRF) -> Corpus:
    return corpus.with_interned("tag", tagger.tag_column(corpus))


def _entities(setting: Setting, name: str) -> Corpus:
    """Return a file of CoNLL-2003 in IOB2, its words cut as those of messages are."""
    corpus = read_columns(setting.files(name)[0], _COLUMNS)
    labels = [convert(labels, "iob1", "iob2") for labels in corpus.column_lists("ner")]
    return retokenised(corpus.with_column("ner", labels), "ner", spans=True)
