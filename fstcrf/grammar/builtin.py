"""The names that every ``.grm`` file knows: classes of labels, and constraints with arguments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from fstcrf.errors import GrammarError
from fstcrf.grammar import constructors
from fstcrf.grammar.grammar import Grammar

__all__ = ["CLASSES", "CONSTRAINTS", "Given", "constrained"]

CLASSES = ("any", "label", "spans")

_Kind = Literal["number", "names", "grammar"]
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
}


@dataclass(slots=True)
class Given:
    """The arguments of a constraint, and the tape that the file reads if it is one."""

    values: list[Any]
    options: dict[str, Any]
    tape: str | None


def constrained(name: str, given: Given) -> Grammar:
    """Return a constraint with its arguments.

    Raises
    ------
    GrammarError
        Arguments of another number or kind; an option that it does not have.
    OptionError
        A number out of range; no such scheme.
    """
    make, kinds = CONSTRAINTS[name]
    optional = name == "contiguous"
    fits = len(given.values) == len(kinds) or (optional and not given.values)
    if not fits or not all(map(_fits, given.values, kinds)):
        shown = f"[{', '.join(_EXAMPLES[kind] for kind in kinds)}]" if kinds else ""
        raise GrammarError(f"the arguments of {name} do not fit; an example: {name}{shown}")
    known = {"tape", "weight"} | ({"scheme"} if kinds else set())
    unknown = next((option for option in given.options if option not in known), None)
    if unknown is not None:
        raise GrammarError(f"{name} has no option {unknown!r}, only {', '.join(sorted(known))}")
    options = {"tape": given.tape, **given.options}
    if options.get("scheme") == "none":
        options["scheme"] = None
    return make(*given.values, **options)


def _fits(value: object, kind: _Kind) -> bool:
    if kind == "number":
        return isinstance(value, int)
    return not isinstance(value, int) and (kind == "grammar" or not isinstance(value, Grammar))
