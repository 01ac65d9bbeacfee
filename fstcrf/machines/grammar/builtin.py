"""The built-in constraints of ``.grm`` files: kinds of their arguments, and factories."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from fstcrf.errors import DataError, GrammarError, LabelError
from fstcrf.files import check_regular
from fstcrf.machines.grammar import constraint, syntax
from fstcrf.machines.grammar.acceptor import Acceptor, is_empty, minimise, trim
from fstcrf.machines.grammar.automata import constraint_from_machine
from fstcrf.machines.grammar.binding import Binding
from fstcrf.machines.grammar.constraint import Constraint, RuleOptions
from fstcrf.machines.grammar.labels import LabelSets
from fstcrf.machines.grammar.regular import Constrained, Regular, Symbol, has_scores, leaves, writes

_Kind = Literal["number", "names", "constraint", "file", "pattern"]

_EXAMPLES: dict[_Kind, str] = {
    "number": "2",
    "names": '"NAME"',
    "constraint": 'before["A", "B"]',
    "file": '"names.fst"',
    "pattern": '"[A]" "[B]"',
}


@dataclass(frozen=True, slots=True)
class _Form:
    """A built-in constraint: kinds of its arguments, its factory, and its options."""

    make: Callable[..., Constraint]
    kinds: tuple[_Kind, ...]
    options: tuple[str, ...] = ("scheme", "tape", "weight")


def _scheme(name: str) -> _Form:
    return _Form(partial(constraint.tagging_scheme, name), (), ("tape", "weight"))


def _machine(file: str, *, options: RuleOptions, allowed: Callable[[str], Path]) -> Constraint:
    path = allowed(file)
    try:
        check_regular(path)
        return constraint_from_machine(path, options.tape)
    except OSError as error:
        raise GrammarError(f"{path}: {error.strerror or error}") from None
    except (DataError, LabelError) as error:
        raise GrammarError(str(error)) from None


def _matches(pattern: Regular, *, options: RuleOptions, tapes: tuple[str, ...]) -> Constraint:
    """Return the constraint that scores each token at which a match of a pattern ends."""
    weight = options.weight
    if weight is None:
        raise GrammarError("each needs a cost: each[x, <1.5>], or each[x, <?>] to learn it")
    if has_scores(pattern):
        raise GrammarError(
            "the pattern of each has weights, expected one without: the cost in "
            "each[x, <cost>] counts once per match"
        )
    if writes(pattern):
        raise GrammarError("the pattern of each is a relation: use input[x] or output[x]")
    return Constraint("each[…]", partial(_each, pattern, weight, tapes))


def _each(
    pattern: Regular,
    weight: float,
    tapes: tuple[str, ...],
    sets: LabelSets,
) -> tuple[Acceptor, ...]:
    binding = Binding(tapes, sets)
    pattern = binding.resolved(pattern)
    place = pattern.place
    anything: Regular = syntax.Repetition(Symbol((), place), 0, None, place)
    anywhere: Regular = syntax.Concatenation((anything, pattern), place)
    parts = [part for part in leaves(pattern) if isinstance(part, Constrained)]
    if any(acceptor.weighted for part in parts for acceptor in binding.part(part)):
        raise GrammarError("the pattern of each contains a soft constraint, expected a hard one")
    (matching,) = binding.acceptors(anywhere, "each")
    if matching.final[0] > -np.inf:
        raise GrammarError(
            "the pattern of each matches the empty sequence, so it would match everywhere"
        )
    if is_empty(matching):
        raise GrammarError(f"the pattern of each matches nothing{binding.nothing(pattern)}")
    ends = (matching.final > -np.inf)[matching.target] & (matching.target >= 0)
    scored = replace(
        matching, score=np.where(ends, np.float64(weight), 0.0), final=np.zeros(matching.n_states)
    )
    return (minimise(trim(scored)),)


BUILT_IN: dict[str, _Form] = {
    "at_least": _Form(partial(constraint.counted, "at_least"), ("number", "names")),
    "at_most": _Form(partial(constraint.counted, "at_most"), ("number", "names")),
    "before": _Form(partial(constraint.about, "before"), ("names", "names")),
    "bilou": _scheme("bilou"),
    "bio": _scheme("iob2"),
    "bioes": _scheme("bioes"),
    "bmes": _scheme("bmes"),
    "bmewo": _scheme("bmewo"),
    "contiguous": _Form(constraint.contiguous, ("names",)),
    "each": _Form(_matches, ("pattern",), ("weight",)),
    "end_with": _Form(partial(constraint.about, "end_with"), ("names",)),
    "exactly": _Form(partial(constraint.counted, "exactly"), ("number", "names")),
    "fst": _Form(_machine, ("file",), ("tape",)),
    "if_present": _Form(constraint.if_present, ("names", "constraint")),
    "iob1": _scheme("iob1"),
    "never": _Form(partial(constraint.about, "never"), ("names",)),
    "requires": _Form(partial(constraint.about, "requires"), ("names", "names")),
    "start_with": _Form(partial(constraint.about, "start_with"), ("names",)),
}


def constrained(
    name: str,
    values: list[Any],
    options: dict[str, Any],
    tapes: tuple[str, ...],
    allowed: Callable[[str], Path],
) -> Constraint:
    """Return a built-in constraint with its arguments.

    `allowed` returns the path of a file, or raises a GrammarError.
    """
    form = BUILT_IN[name]
    fits = len(values) == len(form.kinds) or (name == "contiguous" and not values)
    if not fits or not all(map(_fits, values, form.kinds)):
        shown = f"[{', '.join(_EXAMPLES[kind] for kind in form.kinds)}]" if form.kinds else ""
        raise GrammarError(f"wrong arguments for {name}, expected for example {name}{shown}")
    unknown = next((option for option in options if option not in form.options), None)
    if unknown is not None:
        raise GrammarError(f"{name} has no option {unknown!r}, only {', '.join(form.options)}")
    settings = {"tape": tapes[0] if len(tapes) == 1 else None, **options}
    if settings.get("scheme") == "none":
        settings["scheme"] = None
    more: dict[str, Any] = {"allowed": allowed} if "file" in form.kinds else {}
    if "pattern" in form.kinds:
        more = {"tapes": tapes}
    return form.make(*values, options=RuleOptions(**settings), **more)


def _fits(value: object, kind: _Kind) -> bool:
    if kind in ("number", "file"):
        return isinstance(value, int if kind == "number" else str)
    if kind == "pattern":
        return not isinstance(value, int)
    return not isinstance(value, int) and (
        kind == "constraint" or not isinstance(value, Constraint)
    )
