"""The names that every ``.grm`` file knows: classes of labels, and constraints with arguments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from fstcrf.errors import DataError, GrammarError
from fstcrf.grammar import constructors
from fstcrf.grammar.grammar import Grammar

__all__ = ["CLASSES", "CONSTRAINTS", "Given", "constrained"]

CLASSES = ("any", "label", "optional", "spans")

_Kind = Literal["number", "names", "grammar", "file"]
_Form = tuple[Callable[..., Grammar], tuple[_Kind, ...]]

CONSTRAINTS: dict[str, _Form] = {
    "at_least": (constructors.at_least, ("number", "names")),
    "at_most": (constructors.at_most, ("number", "names")),
    "before": (constructors.before, ("names", "names")),
    "bilou": (constructors.bilou, ()),
    "bio": (constructors.bio, ()),
    "bioes": (constructors.bioes, ()),
    "contiguous": (constructors.contiguous, ("names",)),
    "end_with": (constructors.end_with, ("names",)),
    "exactly": (constructors.exactly, ("number", "names")),
    "fst": (Grammar.from_fst, ("file",)),
    "if_present": (constructors.if_present, ("names", "grammar")),
    "iob1": (constructors.iob1, ()),
    "never": (constructors.never, ("names",)),
    "requires": (constructors.requires, ("names", "names")),
    "start_with": (constructors.start_with, ("names",)),
}

_EXAMPLES: dict[_Kind, str] = {
    "number": "2",
    "names": '"NAME"',
    "grammar": 'before["A", "B"]',
    "file": '"names.fst"',
}


@dataclass(slots=True)
class Given:
    """The arguments of a constraint, the tape that its file reads if it is one, and its folder."""

    values: list[Any]
    options: dict[str, Any]
    tape: str | None
    folder: Path


def constrained(name: str, given: Given) -> Grammar:
    """Return a constraint with its arguments.

    Raises
    ------
    GrammarError
        Arguments of another number or kind; an option that it does not have; a file that cannot
        be read.
    OptionError
        A number out of range; no such scheme.
    """
    make, kinds = CONSTRAINTS[name]
    optional = name == "contiguous"
    fits = len(given.values) == len(kinds) or (optional and not given.values)
    if not fits or not all(map(_fits, given.values, kinds)):
        shown = f"[{', '.join(_EXAMPLES[kind] for kind in kinds)}]" if kinds else ""
        raise GrammarError(f"the arguments of {name} do not fit; an example: {name}{shown}")
    allowed = ["tape"] if "file" in kinds else ["scheme", "tape", "weight"][not kinds :]
    unknown = next((option for option in given.options if option not in allowed), None)
    if unknown is not None:
        raise GrammarError(f"{name} has no option {unknown!r}, only {', '.join(allowed)}")
    options = {"tape": given.tape, **given.options}
    if options.get("scheme") == "none":
        options["scheme"] = None
    if "file" in kinds:
        return _from_file(given.folder / given.values[0], **options)
    return make(*given.values, **options)


def _from_file(path: Path, *, tape: str | None) -> Grammar:
    try:
        return Grammar.from_fst(path, tape=tape)
    except OSError as error:
        raise GrammarError(f"{path}: {error.strerror or error}") from None
    except DataError as error:
        raise GrammarError(str(error)) from None


def _fits(value: object, kind: _Kind) -> bool:
    if kind in ("number", "file"):
        return isinstance(value, int if kind == "number" else str)
    return not isinstance(value, int) and (kind == "grammar" or not isinstance(value, Grammar))
