"""``.grm`` files as constraints, one for each export.

==================  ==========================================
read_grammar        from a file
parse_grammar       from a text
shipped_grammar     where a grammar that comes with fstcrf is
==================  ==========================================
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import partial, reduce
from pathlib import Path

import numpy as np

from fstcrf.errors import GrammarError, TooLargeError
from fstcrf.grammar.acceptor import Acceptor
from fstcrf.grammar.algebra import is_empty
from fstcrf.grammar.compilation import compiled
from fstcrf.grammar.constraint import Constraint
from fstcrf.grammar.expansion import Export, expanded
from fstcrf.grammar.labels import LabelSets, nearest, only_tape
from fstcrf.grammar.parsing import parse
from fstcrf.grammar.reading import Flags, Matching
from fstcrf.grammar.regular import Part, Regular, Symbol, has_scores, leaves

__all__ = ["parse_grammar", "read_grammar", "shipped_grammar"]


def read_grammar(path: str | Path) -> tuple[Constraint, ...]:
    """Read a ``.grm`` file.

    Raises
    ------
    GrammarError
        What cannot be read, with file and line.
    OSError
        A file that cannot be read.
    """
    data = Path(path).read_bytes()
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise GrammarError("a byte is not UTF-8", path=str(path), line=line) from None
    return parse_grammar(text, str(path))


def parse_grammar(text: str, path: str | None = None) -> tuple[Constraint, ...]:
    """Return the constraints of a text: its exports.

    Parameters
    ----------
    text : str
    path : str, optional
        Where it is from, for messages.

    Raises
    ------
    GrammarError
        What cannot be read, with the line.
    """
    file = parse(text, path)
    short = "<text>" if path is None else Path(path).name
    return tuple(
        Constraint(f"{short}: {export.name}", partial(_bound, export, file.tapes, path, short))
        for export in expanded(file)
    )


def shipped_grammar(name: str) -> Path:
    """Return the path of a grammar that comes with fstcrf.

    Raises
    ------
    GrammarError
        There is none of that name.
    """
    package = Path(__file__).resolve().parent.parent
    # Installed inside the package; in a checkout, beside it.
    folder = next(
        (f for f in (package / "grammars", package.parent / "grammars") if f.is_dir()), package
    )
    known = sorted(path.stem for path in folder.glob("*.grm"))
    if name not in known:
        close = get_close_matches(name, known, n=3) or known
        raise GrammarError(f"no grammar {name!r} comes with fstcrf; there are {', '.join(close)}")
    return folder / f"{name}.grm"


def _bound(
    export: Export, tapes: tuple[str, ...], path: str | None, short: str, sets: LabelSets
) -> tuple[Acceptor, ...]:
    """Return the acceptors of an export over label sets; all errors with file and line."""
    binding = _Binding(tapes, path, sets)
    title = f"{short}:{export.line}: {export.name}"
    try:
        acceptors = binding.acceptors(export.value, title)
    except TooLargeError as error:
        message = f"export {export.name} is too large: {error}"
        if has_scores(export.value):
            message += "; are there two ways to read the same labels in a loop at different costs?"
        raise GrammarError(message, path=path, line=export.line) from None
    except GrammarError as error:
        if error.line is not None:
            raise
        message = f"export {export.name}: {error}"
        raise GrammarError(message, path=path, line=export.line) from None
    if any(map(is_empty, acceptors)):
        message = f"export {export.name} accepts no sentence{binding.nothing(export.value)}"
        raise GrammarError(message, path=path, line=export.line)
    return acceptors


@dataclass(frozen=True, slots=True)
class _Binding:
    """Label sets put into the expressions of a file."""

    tapes: tuple[str, ...]
    path: str | None
    sets: LabelSets

    def acceptors(self, value: Regular, title: str) -> tuple[Acceptor, ...]:
        if isinstance(value, Part):
            found = self.part(value)
            several = len(found) > 1
            return tuple(
                replace(one, name=f"{title}: {one.name}" if several else title) for one in found
            )
        read = self.read()
        labels = tuple(self.sets[tape] for tape in read)
        return (compiled(value, read, labels, self.flags, self.part, title),)

    def read(self) -> tuple[str, ...]:
        """Return the tapes whose labels the symbols of the file are."""
        if len(self.tapes) < 2:
            return (only_tape(self.sets, self.tapes[0] if self.tapes else None),)
        return tuple(only_tape(self.sets, tape) for tape in self.tapes)

    def part(self, part: Part) -> tuple[Acceptor, ...]:
        try:
            return part.grammar.bind(self.sets)
        except GrammarError as error:
            raise GrammarError(str(error), path=self.path, line=part.line) from None

    def flags(self, symbol: Symbol) -> Flags:
        """Return the tuples of labels that a symbol stands for: bool [A], last tape fastest."""
        read = self.read()
        chosen = dict(symbol.fields)
        axes = [
            self._of(chosen.get(tape, chosen.get(None)), self.sets[name], symbol.line)
            for tape, name in zip(self.tapes or (None,), read, strict=True)
        ]
        return reduce(np.logical_and.outer, axes).reshape(-1)

    def _of(self, label: str | Matching | None, labels: tuple[str, ...], line: int) -> Flags:
        if label is None:
            return np.ones(len(labels), dtype=bool)
        if isinstance(label, Matching):
            return np.asarray([label.matches(known) for known in labels])
        if label not in labels:
            message = f"no label {label!r}{nearest(label, labels)}"
            raise GrammarError(message, path=self.path, line=line)
        return np.asarray([known == label for known in labels])

    def nothing(self, value: Regular) -> str:
        """Return which classes of an expression have no labels, for the end of a message."""
        patterns = [
            label.pattern
            for leaf in leaves(value)
            if isinstance(leaf, Symbol) and not self.flags(leaf).any()
            for _, label in leaf.fields
            if isinstance(label, Matching)
        ]
        shown = ", ".join(f'label["{pattern}"]' for pattern in dict.fromkeys(patterns))
        return f"; no label is in {shown}" if shown else ""
