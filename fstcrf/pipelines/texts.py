"""The texts that a task of a TOML file names: column files and CoNLL-U.

=======  ==================================
TEXT     keys that say how they are read
text_of  the texts of a key, as one
unread   the error of what cannot be read
=======  ==================================
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from fstcrf.corpus import Corpus, read_columns, read_conllu
from fstcrf.corpus.conllu import CONLLU
from fstcrf.corpus.corpus import concatenated
from fstcrf.errors import DataError
from fstcrf.pipelines.naming import named

if TYPE_CHECKING:
    from fstcrf.pipelines.table import Table

__all__ = ["TEXT", "text_of", "unread"]

TEXT = ("data", "dev", "format", "columns", "separator", "rename", "feature_columns")

_SEPARATORS = {"any": None, "tab": "\t", "space": " "}
_ENDINGS = (".conllu", ".conllu.gz")


def text_of(table: Table, key: str) -> Corpus:
    """Return the texts that a key names, one after the other.

    Raises
    ------
    OptionError
        No text, or keys that do not say how it is read.
    DataError
        A text that cannot be read, or is not what it should be.
    """
    paths = table.texts(key)
    if not paths:
        raise table.error(f"{key} names no file")
    of_conllu = next((name for name in ("rename", "feature_columns") if name in table), None)
    if of_conllu is not None and not any(_is_conllu(table, path) for path in paths):
        raise table.error(f"{of_conllu} is for CoNLL-U: columns names those of column files")
    parts = [_conllu(table, p) if _is_conllu(table, p) else _columns(table, p) for p in paths]
    with named(f"{table.place}: {table.name}"):
        return concatenated(parts)


def unread(table: Table, error: OSError, key: str = "") -> DataError:
    """Return the error of a file that cannot be read."""
    file, why = error.filename or error, error.strerror or "cannot be read"
    where = " ".join(name for name in (table.name, key) if name)
    return DataError(f"{where}: {file}: {why}", path=str(table.place))


def _is_conllu(table: Table, path: str) -> bool:
    """Tell whether a text is CoNLL-U: its name says so, unless `format` does."""
    if "format" in table:
        return table.choice("format", ("columns", "conllu")) == "conllu"
    return path.endswith(_ENDINGS)


def _columns(table: Table, path: str) -> Corpus:
    columns = table.texts("columns")
    if not columns:
        raise table.error(f"has no columns: name those of {path}")
    separator = table.text("separator", "any")
    with _reading(table):
        return read_columns(
            table.file(path), columns, separator=_SEPARATORS.get(separator, separator)
        )


def _conllu(table: Table, path: str) -> Corpus:
    names = table.names("rename")
    odd = next((name for name in names if name not in CONLLU), None)
    if odd is not None:
        raise table.error(f"rename has {odd!r}; the columns are {', '.join(CONLLU)}")
    with _reading(table):
        corpus = read_conllu(table.file(path), feature_columns=table.texts("feature_columns"))
        return corpus.renamed(names)


@contextmanager
def _reading(table: Table) -> Iterator[None]:
    """Name file and table in errors of a text."""
    try:
        with named(f"{table.place}: {table.name}"):
            yield
    except OSError as error:
        raise unread(table, error) from None
