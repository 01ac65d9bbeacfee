"""The grammars that a TOML file names.

==========  ===========================================
grammar_of  those of a key, as one
on_tape     a grammar of one tape that does not name it
==========  ===========================================
"""

from __future__ import annotations

from collections.abc import Collection
from functools import reduce
from operator import and_
from pathlib import Path
from typing import TYPE_CHECKING

from fstcrf.errors import GrammarError
from fstcrf.grammar import Grammar
from fstcrf.grammar.constraint import Constraint
from fstcrf.pipelines.naming import named
from fstcrf.pipelines.texts import unread

if TYPE_CHECKING:
    from fstcrf.grammar.acceptor import Acceptor
    from fstcrf.grammar.labels import LabelSets
    from fstcrf.pipelines.table import Table

__all__ = ["grammar_of", "on_tape"]


def grammar_of(table: Table, tapes: Collection[str] = ()) -> Grammar | None:
    """Return what all the grammars of a table allow; None without any.

    Parameters
    ----------
    table : Table
        ``grammar`` is a file, the name of a grammar that comes with fstcrf, or a list of them.
    tapes : collection of str
        Those that may stand before a grammar: ``TAPE=FILE``.

    Raises
    ------
    OptionError
        Values that are none, or a tape that is not there.
    GrammarError
        A grammar that cannot be read.
    DataError
        A file that cannot be read.
    """
    found = []
    for given in table.texts("grammar"):
        tape, equals, name = given.rpartition("=")
        if equals and tape not in tapes and not table.file(given).exists():
            there = f"the tasks are {', '.join(tapes)}" if tapes else "the only tape is the task's"
            raise table.error(f"grammar is {given!r}, but there is no task {tape!r} here; {there}")
        read = _read(table, name if tape in tapes else given)
        found.append(on_tape(read, tape) if tape in tapes else read)
    return reduce(and_, found) if found else None


def on_tape(grammar: Grammar, tape: str) -> Grammar:
    """Return a grammar of one tape that does not name it, for a tape among several."""

    def moved(part: Constraint) -> Constraint:
        def build(sets: LabelSets) -> tuple[Acceptor, ...]:
            if tape not in sets:
                raise GrammarError(f"no tape {tape!r}; there is {', '.join(sets)}")
            return part.bind({tape: sets[tape]})

        return Constraint(part.name, build)

    return Grammar([moved(part) for part in grammar.constraints])


def _read(table: Table, name: str) -> Grammar:
    file = table.file(name)
    try:
        with named(f"{table.place}: {f'{table.name} ' * bool(table.name)}grammar"):
            if file.exists() or Path(name).suffix:
                return Grammar.from_file(file)
            return Grammar.shipped(name)
    except OSError as error:
        raise unread(table, error, "grammar") from None
