"""From the text of a ``.grm`` file to constraints, a transducer, or rules with learned costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeAlias

from fstcrf.arguments import closest, items_of, real_number
from fstcrf.errors import GrammarError, OptionError
from fstcrf.files import path_name, resolved
from fstcrf.lazy import memoised
from fstcrf.machines.grammar import syntax
from fstcrf.machines.grammar.acceptor import Acceptor
from fstcrf.machines.grammar.binding import Export, bound_export
from fstcrf.machines.grammar.constraint import Constraint
from fstcrf.machines.grammar.expansion import Expansion
from fstcrf.machines.grammar.labels import LabelSets, listed, nearest
from fstcrf.machines.grammar.regular import Constrained, writes
from fstcrf.machines.grammar.syntax import read_text

Weights: TypeAlias = tuple[tuple[str, float], ...]
"""The costs of ``<?name>``, sorted by name."""


def read_grammar(
    path: str | Path,
    weights: Mapping[str, float] | None = None,
    folders: Sequence[str | Path] = (),
) -> tuple[Constraint, ...]:
    """Read a ``.grm`` file, which may name files in its own folder and in others that are given."""
    return parse_grammar(read_text(path), str(path), weights, folders)


def parse_grammar(
    text: str,
    path: str | None = None,
    weights: Mapping[str, float] | None = None,
    folders: Sequence[str | Path] = (),
) -> tuple[Constraint, ...]:
    """Return the exports of a text, cached by text; `path` is for messages."""
    _check_text(text)
    costs = tuple(sorted(named_costs(weights).items()))
    allowed = allowed_folders(folders)
    # Machines and imports are read from files, which may change.
    other = "fst" in text or "import" in text
    return _parsed(text, path, costs, allowed) if other else _as_text(text, path, costs)


def named_costs(weights: object) -> dict[str, float]:
    """Return the costs of names; OptionError unless it is a mapping of names to numbers."""
    if weights is None:
        return {}
    if not (isinstance(weights, Mapping) and all(isinstance(name, str) for name in weights)):
        raise OptionError(f"weights are {weights!r}, expected a mapping of names to costs")
    return {name: real_number(cost, f"the cost <?{name}>") for name, cost in weights.items()}


def allowed_folders(folders: Sequence[str | Path]) -> tuple[Path, ...]:
    """Return the folders of files that a grammar may name; OptionError unless it is a list."""
    items = items_of(folders, "folders is", "a list of paths", OptionError)
    return tuple(resolved(path_name(folder)) for folder in items)


def _check_text(text: object) -> None:
    if not isinstance(text, str):
        raise GrammarError(f"the grammar is {text!r}, expected text")


def _parsed(
    text: str, path: str | None, weights: Weights, folders: tuple[Path, ...] = ()
) -> tuple[Constraint, ...]:
    short = "<text>" if path is None else Path(path).name
    expansion = Expansion(syntax.parse(text, path), dict(weights), folders=folders)
    exports = expansion.exports()
    expansion.check_weights()
    relation = next((export for export in exports if writes(export.value)), None)
    if relation is not None:
        raise relation.place.error(
            f"{relation.name} is a relation, not a constraint: build a transducer from "
            "it with Transducer.from_grammar"
        )
    return tuple(
        Constraint(
            f"{short}: {export.name}",
            partial(bound_export, export, expansion.file.tapes, short),
            language=True,
        )
        for export in exports
    )


_kept = memoised(64)(_parsed)


@memoised(64)
def _as_text(text: str, path: str | None, weights: Weights) -> tuple[Constraint, ...]:
    """Return the exports of a text that needs no other file; they are pickled as the text."""
    return tuple(
        Constraint(
            export.name,
            partial(_export_of, text, path, weights, k),
            ("text", text, path, weights, k),
            language=True,
        )
        for k, export in enumerate(_kept(text, path, weights))
    )


def _export_of(
    text: str, path: str | None, weights: Weights, number: int, sets: LabelSets
) -> tuple[Acceptor, ...]:
    return _kept(text, path, weights)[number].build(sets)


def parse_export(
    text: str,
    path: str | None,
    name: object,
    folders: tuple[Path, ...],
    weights: Mapping[str, float],
) -> tuple[Export, Expansion]:
    """Return the export of this name, or the only one."""
    _check_text(text)
    expansion = Expansion(syntax.parse(text, path), dict(weights), folders=folders)
    exports = {export.name: export for export in expansion.exports()}
    expansion.check_weights()
    if name is None and len(exports) > 1:
        raise GrammarError(
            f"the grammar has the exports {listed(exports)}: choose one with export=", path=path
        )
    name = next(iter(exports)) if name is None else name
    if not isinstance(name, str) or name not in exports:
        raise GrammarError(f"no export {name!r}{nearest(name, exports)}", path=path)
    return exports[name], expansion


@dataclass(frozen=True, slots=True)
class Rule:
    """An export of a file with open costs, ``<?>``.

    Parameters
    ----------
    name : str
    constraint : Constraint
        With a score of 1 for each match or violation, if the cost is open.
    span : (int, int) or None
        Start and end of the open cost in the text.
    line : int
    """

    name: str
    constraint: Constraint
    span: tuple[int, int] | None
    line: int


def parse_rules(text: str, path: str | None = None) -> tuple[Rule, ...]:
    """Return the exports of a text with open costs; `path` is for messages."""
    file = syntax.parse(text, path)
    short = "<text>" if path is None else Path(path).name
    expansion = Expansion(file, open_costs=True)
    rules: list[Rule] = []
    for export in expansion.exports():
        value = export.value
        span = value.learned if isinstance(value, Constrained) else None
        if span is not None and any(rule.span == span for rule in rules):
            raise export.place.error(
                "two exports share one open cost <?>: repeat the pattern, with its own "
                "<?>, in each export"
            )
        bind = partial(bound_export, export, file.tapes, short)
        constraint_ = Constraint(f"{short}: {export.name}", bind)
        rules.append(Rule(export.name, constraint_, span, export.place.line))
    unused = expansion.open_costs_met.keys() - {rule.span for rule in rules}
    if unused:
        raise expansion.open_costs_met[min(unused)].error(
            "an open cost <?> needs its own export: export NAME = each[x, <?>];"
        )
    return tuple(rules)


def shipped_grammar(name: object) -> Path:
    """Return the path of a grammar that is part of fstcrf."""
    package = Path(__file__).resolve().parents[2]
    # The folder is in the installed package, or next to it in a checkout.
    folder = next(
        (f for f in (package / "grammars", package.parent / "grammars") if f.is_dir()), package
    )
    names = sorted(path.stem for path in folder.glob("*.grm"))
    if not isinstance(name, str) or name not in names:
        close = closest(name, names, 3) or names
        raise GrammarError(f"fstcrf ships no grammar {name!r}, only {', '.join(close)}")
    return folder / f"{name}.grm"
