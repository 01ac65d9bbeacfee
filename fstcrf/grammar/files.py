"""``.grm`` files as constraints, one for each export.

==================  ==========================================
read_grammar        from a file
parse_grammar       from a text
shipped_grammar     where a grammar that comes with fstcrf is
==================  ==========================================
"""

from __future__ import annotations

from dataclasses import replace
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
from fstcrf.grammar.regular import Part, Symbol, leaves

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
    folder = next((f for f in (package / "grammars", package.parent / "grammars") if f.is_dir()), package)
    known = sorted(path.stem for path in folder.glob("*.grm"))
    if name not in known:
        close = get_close_matches(name, known, n=3) or known
        raise GrammarError(f"no grammar {name!r} comes with fstcrf; there are {', '.join(close)}")
    return folder / f"{name}.grm"


def _bound(
    export: Export, tapes: tuple[str, ...], path: str | None, short: str, sets: LabelSets
) -> tuple[Acceptor, ...]:
    """Return the acceptors of an export over label sets."""
    title = f"{short}:{export.line}: {export.name}"
    binder = _Binder(tapes, path, sets)
    try:
        if isinstance(export.value, Part):
            found = binder.part(export.value)
            names = [title if len(found) == 1 else f"{title}: {one.name}" for one in found]
            acceptors = tuple(replace(one, name=n) for one, n in zip(found, names, strict=True))
        else:
            read = binder.read
            labels = tuple(sets[tape] for tape in read)
            acceptors = (
                compiled(export.value, read, labels, binder.flags, binder.part, title),
            )
    except TooLargeError as error:
        raise GrammarError(
            f"export {export.name}: {error}; where it has weights, look for two ways to read the "
            "same labels at different costs in a loop",
            path=path,
            line=export.line,
        ) from None
    except GrammarError as error:
        if error.line is not None and error.path == path:
            raise
        message = str(error).removeprefix(f"<input>:{error.line}: ")
        raise GrammarError(message, path=path, line=error.line or export.line) from None
    for acceptor in acceptors:
        if is_empty(acceptor):
            raise GrammarError(
                f"export {export.name} accepts nothing{binder.emptiness(export)}",
                path=path,
                line=export.line,
            )
    return acceptors
