"""The two tasks: chunking of CoNLL-2000, named entities of CoNLL-2003, with the paper's features.

========  ==================================================
Task      sentences to train on, to choose by, to test on
chunking  all phrases; the last 2,000 training sentences choose
entities  in BIOES; testa chooses
========  ==================================================
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fstcrf.corpus import Corpus, convert_column, read_columns
from fstcrf.recipes.entities import entities as read_entities
from fstcrf.recipes.recipe import Setting

__all__ = ["Task", "chunking", "entities"]

_HELD_OUT = 2000

# Kudo and Matsumoto (2001), and pairs of neighbours of one kind in a window of five. Chosen on the
# dev parts: no pairs of neighbours' affixes, no pairs of what does not stand side by side.
_CHUNKING = ("word", "pos")
_AFFIXES = tuple(f"{kind}(word,{n})" for n in range(1, 5) for kind in ("prefix", "suffix"))
_ENTITIES = ("word", "pos", "chunk", "charclass(word)", "short_shape(word)")
# The paper has IOB2. On the dev parts MAP is better with BIOES: chunks clearly, entities a little.
_SCHEME: Literal["iob2", "bioes"] = "bioes"


@dataclass(frozen=True, slots=True)
class Task:
    """A task.

    Parameters
    ----------
    name : str
    target : str
        Column of the labels.
    scheme : {"iob2", "bioes"}
        Of the labels.
    template : str
    features : {"supported", "complete"}
        Weights of pairs of attribute and label: those that occur, or all.
    rate : float
        First step of stochastic epochs: about half over the attributes of a token.
    train : Corpus
        All sentences to train on.
    part, dev : Corpus
        Those to train on while choosing, and those to choose by.
    test : Corpus
    """

    name: str
    target: str
    scheme: Literal["iob2", "bioes"]
    template: str
    features: Literal["supported", "complete"]
    rate: float
    train: Corpus
    part: Corpus
    dev: Corpus
    test: Corpus


def chunking(setting: Setting) -> Task:
    """Read CoNLL-2000."""
    columns = ("word", "pos", "chunk")
    train, test = (
        convert_column(
            read_columns(setting.files(f"conll2000/{part}.txt")[0], columns),
            "chunk",
            "iob2",
            _SCHEME,
        )
        for part in ("train", "test")
    )
    cut = max(len(train) - _HELD_OUT, len(train) // 2)
    parts = train, train[:cut], train[cut:], test
    template = _template(_CHUNKING)
    return Task("chunking", "chunk", _SCHEME, template, "complete", 0.03, *parts)


def entities(setting: Setting) -> Task:
    """Read CoNLL-2003."""
    target = "entity"
    train, dev, test = (
        read_entities(setting, part, _SCHEME, target) for part in ("train", "testa", "testb")
    )
    parts = train, train, dev, test
    template = _template(_ENTITIES, _AFFIXES)
    return Task("entities", target, _SCHEME, template, "complete", 0.006, *parts)


def _template(sources: tuple[str, ...], alone: tuple[str, ...] = ()) -> str:
    """Return a window of each source, and of pairs of all but those that stand alone."""
    lines = [f"U{k}a:%x[-2..2,{source}]" for k, source in enumerate(sources + alone)]
    lines += [f"U{k}b:%x[-2..1,{source}]/%x[-1..2,{source}]" for k, source in enumerate(sources)]
    return "\n".join([*lines, "B"])
