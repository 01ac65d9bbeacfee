"""Models that the commands use: a tagger, or taggers composed, with grammars on top.

============  ==================================================================
Model         a tagger or a composition of taggers
load_model    either, from a file of any known format
tagger        a tagger from such a file
taggers       the taggers of a model
constrained   a model under grammars from files
grammar_of    grammars from files as one
tapes         names of the tapes that a model writes
is_chain      whether its tapes are normalised one by one: it is no transducer then
plan_text     what a composition compiles to, for people
tape_columns  the columns that an option gives for tapes
============  ==================================================================
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import and_
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import click

from fstcrf.errors import DataError

if TYPE_CHECKING:
    from fstcrf.grammar import Grammar
    from fstcrf.joint import Composition
    from fstcrf.model import CRF

__all__ = [
    "Model",
    "constrained",
    "grammar_of",
    "is_chain",
    "load_model",
    "plan_text",
    "tagger",
    "taggers",
    "tape_columns",
    "tapes",
]

Model: TypeAlias = "CRF | Composition"


def load_model(path: str) -> Model:
    """Load a tagger or a composition, or a tagger of another program.

    Raises
    ------
    DataError
        It is a folder.
    ModelFileError, OSError
        It cannot be loaded.
    """
    from fstcrf.interop.formats import HEAD, is_native

    if Path(path).is_dir():
        raise _folder(path)
    with Path(path).open("rb") as file:
        head = file.read(HEAD)
    if is_native(head):
        from fstcrf.joint import load

        return load(path)
    from fstcrf.interop.conversion import read_tagger

    return read_tagger(path)


def _folder(path: str) -> DataError:
    """Return the error of a folder; of one that a pipeline has made, it says what to give."""
    from fstcrf.pipelines.folder import COMPOSITION

    whole = Path(path) / COMPOSITION
    if not whole.exists():
        return DataError("a folder, expected the file of a model", path=path)
    return DataError(
        f"the folder of a pipeline: give {whole} to decide jointly, or use fstcrf pipeline tag",
        path=path,
    )


def tagger(path: str) -> CRF:
    """Load a tagger.

    Raises
    ------
    DataError
        It is a composition.
    ModelFileError, OSError
        It cannot be loaded.
    """
    from fstcrf.model import CRF

    model = load_model(path)
    if not isinstance(model, CRF):
        raise DataError("a composition of taggers; expected one of the taggers", path=path)
    return model


def taggers(model: Model) -> tuple[CRF, ...]:
    """Return the taggers of a model."""
    from fstcrf.model import CRF

    return (model,) if isinstance(model, CRF) else model.taggers


def constrained(model: Model, grammars: Sequence[str]) -> Composition:
    """Return a model under the grammars of files, or of those that come with fstcrf by name.

    Parameters
    ----------
    model : CRF or Composition
    grammars : sequence of str
        ``FILE``, or ``TAPE=FILE`` for a grammar of one tape that does not name it.

    Raises
    ------
    GrammarError
        A grammar that cannot be read, does not go with the labels or accepts nothing.
    OSError
        A file that cannot be read.
    """
    from fstcrf.joint import compose
    from fstcrf.pipelines.grammars import on_tape

    composition = compose(model)
    for given in grammars:
        tape, _, name = given.rpartition("=")
        known = tape in composition.tapes
        composition = composition.constrained(
            on_tape(_grammar(name), tape) if known else _grammar(given)
        )
    return composition


def grammar_of(names: Sequence[str]) -> Grammar | None:
    """Return the conjunction of grammars by file or name; None without any.

    Raises
    ------
    GrammarError, OSError
        As for `constrained`.
    """
    return reduce(and_, map(_grammar, names)) if names else None


def _grammar(name: str) -> Grammar:
    from fstcrf.grammar import Grammar

    plain = not Path(name).suffix and Path(name).name == name
    return Grammar.shipped(name) if plain and not Path(name).exists() else Grammar.from_file(name)


def tapes(model: Model) -> tuple[str, ...]:
    """Return the names of the tapes that a model writes."""
    from fstcrf.model import CRF

    return (model.tape,) if isinstance(model, CRF) else model.tapes


def is_chain(model: Model) -> bool:
    """Tell whether the tapes of a model are normalised one by one: it is no transducer then."""
    from fstcrf.model import CRF

    return not isinstance(model, CRF) and model.conditional


def plan_text(model: Composition) -> str:
    """Return what a composition compiles to and what it costs; of a chain, its factors."""
    if not model.conditional:
        return str(model.plan())
    order = model.order
    given = ["", *(f" | {', '.join(order[:k])}" for k in range(1, len(order)))]
    factors = [f"p({tape}{rest})" for tape, rest in zip(order, given, strict=True)]
    return f"chain: {' · '.join(factors)}, decided best first"


def tape_columns(option: str, given: str, names: Sequence[str]) -> dict[str, str]:
    """Return the columns that an option gives for tapes.

    Parameters
    ----------
    option : str
        Its name, for messages.
    given : str
        ``COLUMN`` for a model with one tape, ``TAPE=COLUMN,...`` for one with several.
    names : sequence of str
        The tapes.

    Raises
    ------
    click.UsageError
        Something else, or another tape.
    """
    if len(names) == 1:
        return {names[0]: given}
    found = {}
    for part in given.split(","):
        tape, equals, column = part.partition("=")
        if not (equals and column and tape in names):
            raise click.UsageError(
                f"{option} {given}: expected TAPE=COLUMN, the tapes are {', '.join(names)}"
            )
        found[tape] = column
    return found
