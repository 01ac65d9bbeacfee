"""The demo corpus: the notice board of Larkhaven, a harbour town that does not exist.

A notice announces one event in a few sentences and is one document. Two lines of it::

    Rowan NAME B-HOST
    talks VERB O

``pos`` is a part of speech, ``field`` an IOB2 span: HOST, PLACE, DAY, START and END are the
person who leads the event, where it is, on which day, from when and until when. Other people,
places, days and hours are mentioned too (whom to ask, where the bus stops, when the doors open):
they are O. A sentence has at most one span of each type, and never a START after its END.

The text was drawn from a context-free grammar that was written for this project.
"""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import Final

from fstcrf.errors import OptionError

__all__ = ["COLUMNS", "corpus_path", "grammar_path", "template_path"]

COLUMNS: Final = ("word", "pos", "field")


def corpus_path(name: str) -> Path:
    """Return the path of a shipped part of the corpus.

    Parameters
    ----------
    name : {"train", "dev", "test"}
        The part.

    Raises
    ------
    OptionError
        There is no such part.

    Examples
    --------
    >>> corpus_path("dev").name
    'dev.txt'
    """
    return _shipped(name, ("train", "dev", "test"), "txt", what="part of the demo corpus")


def template_path(name: str) -> Path:
    """Return the path of a shipped feature template.

    Parameters
    ----------
    name : {"pos", "field", "joint"}
        The column that it is for; ``joint``: fields, read from the labels of a tagger of parts of
        speech instead of the column.

    Raises
    ------
    OptionError
        There is no such template.

    Examples
    --------
    >>> template_path("pos").name
    'pos.tpl'
    """
    return _shipped(name, ("pos", "field", "joint"), "tpl", what="demo template")


def grammar_path() -> Path:
    """Return the path of the grammar that the fields of all notices obey.

    Examples
    --------
    >>> grammar_path().name
    'notices.grm'
    """
    return _shipped("notices", ("notices",), "grm", what="demo grammar")


def _shipped(name: str, known: tuple[str, ...], suffix: str, *, what: str) -> Path:
    if name not in known:
        raise OptionError(f"no {what} {name!r}; there are {', '.join(known)}")
    return Path(str(resources.files(__name__).joinpath("data", f"{name}.{suffix}")))
