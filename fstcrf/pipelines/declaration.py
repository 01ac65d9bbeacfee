"""The tables of a pipeline's TOML file.

=====  ====================================================
Table  keys and values, checked when they are asked for
=====  ====================================================
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import reduce
from operator import and_
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fstcrf.corpus import Corpus, read_columns, read_conllu
from fstcrf.corpus.conllu import CONLLU
from fstcrf.corpus.corpus import concatenated
from fstcrf.errors import DataError, GrammarError, ModelFileError, OptionError
from fstcrf.grammar import Grammar
from fstcrf.grammar.constraint import Constraint
from fstcrf.joint import CRF
from fstcrf.model.options import Options, not_there
from fstcrf.pipelines.pipeline import Pipeline, reading_order
from fstcrf.pipelines.task import Task, named

if TYPE_CHECKING:
    from fstcrf.grammar.acceptor import Acceptor
    from fstcrf.grammar.labels import LabelSets

__all__ = [
    "TEXT",
    "Table",
    "grammar_of",
    "on_tape",
    "read_pipeline",
    "text_of",
    "unread",
]


@dataclass(frozen=True)
class Table:
    """A table of a TOML file.

    Parameters
    ----------
    given : mapping of str to object
    place : Path
        The file; paths in it are relative to it.
    name : str
        How it is called in messages: ``[task.ner]``.
    """

    given: Mapping[str, Any]
    place: Path
    name: str = ""

    def __contains__(self, key: str) -> bool:
        return key in self.given

    def check_keys(self, known: Collection[str], shown: Collection[str] = ()) -> None:
        """Check that there are no other keys.

        Parameters
        ----------
        known : collection of str
        shown : collection of str, optional
            Those that are worth telling where none is like the one that is wrong; all when empty.

        Raises
        ------
        OptionError
            There are.
        """
        odd = sorted(set(self.given) - set(known))
        if odd:
            who = "" if self.name else "the file "
            instead = not_there(odd[0], known, shown or known)
            raise self.error(f"{who}has {odd[0]!r}; {instead}")

    def text(self, key: str, default: str = "") -> str:
        """Return a text.

        Raises
        ------
        OptionError
            The value is none, or empty.
        """
        value = self.given.get(key, default)
        if isinstance(value, str) and (value or key not in self):
            return value
        raise self.wrong(key, "a text")

    def choice(self, key: str, choices: Collection[str]) -> str:
        """Return one of several texts, the first where the key is absent.

        Raises
        ------
        OptionError
            The value is another.
        """
        value = self.text(key, next(iter(choices)))
        if value not in choices:
            raise self.wrong(key, " or ".join(map(repr, choices)))
        return value

    def texts(self, key: str) -> list[str]:
        """Return a list of texts, of which one may stand alone; nothing where it is absent.

        Raises
        ------
        OptionError
            The value is something else.
        """
        value = self.given.get(key, [])
        several = [value] if isinstance(value, str) else value
        if isinstance(several, list) and all(isinstance(v, str) and v for v in several):
            return several
        raise self.wrong(key, "a text, or a list of texts")

    def number(self, key: str, default: float) -> float:
        """Return a number.

        Raises
        ------
        OptionError
            The value is none.
        """
        value = self.given.get(key, default)
        if not _is_number(value):
            raise self.wrong(key, "a number")
        return float(value)

    def numbers(self, key: str) -> dict[str, float]:
        """Return numbers by name; none where the key is absent.

        Raises
        ------
        OptionError
            The value is something else.
        """
        value = self.given.get(key, {})
        if not isinstance(value, dict) or not all(map(_is_number, value.values())):
            raise self.wrong(key, "names and numbers: {O = 0.5}")
        return {name: float(number) for name, number in value.items()}

    def names(self, key: str) -> dict[str, str]:
        """Return names by name; none where the key is absent.

        Raises
        ------
        OptionError
            The value is something else.
        """
        value = self.given.get(key, {})
        if not isinstance(value, dict) or not all(isinstance(v, str) and v for v in value.values()):
            raise self.wrong(key, 'names by name: {form = "word"}')
        return value

    def file(self, name: str) -> Path:
        """Return the path of a file that the table names."""
        return self.place.parent / name

    def wrong(self, key: str, expected: str) -> OptionError:
        """Return the error of a value."""
        return self.error(f"{key} is {self.given[key]!r}, expected {expected}")

    def error(self, message: str) -> OptionError:
        """Return an error, with the names of file and table."""
        return OptionError(f"{self.place}: {f'{self.name} ' * bool(self.name)}{message}")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


# --- The texts that a task of a TOML file names ---------------------------------------------------

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


# --- The grammars that a TOML file names ----------------------------------------------------------


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


# --- Pipelines in TOML files ----------------------------------------------------------------------

_KEYS = ("task", "decode", "normalize", "grammar")
_OWN = ("model", *TEXT, "template", "target", "reads", "weight", "grammar", "class_weights")


def read_pipeline(path: str | os.PathLike[str]) -> Pipeline:
    """Read a pipeline, with all the files that it names.

    Raises
    ------
    OptionError
        The file is wrong: no TOML, keys or values that there are not, tasks that do not go
        together.
    DataError, TemplateError, GrammarError
        A file that it names cannot be read, or is wrong.
    OSError
        The TOML file itself cannot be read, or what should be a tagger is none.
    """
    place = Path(path)
    try:
        given = tomllib.loads(place.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise OptionError(f"{path}: no TOML: {error}") from None
    file = Table(given, place)
    file.check_keys(_KEYS)
    tables = _tables(file)
    normalize = file.choice("normalize", ("product", "chain"))
    decode = file.choice("decode", ("cascade", "joint", "marginals"))
    _check_reads(tables, place)
    tasks = [_task(name, table) for name, table in tables.items()]
    grammar = grammar_of(file, list(tables))
    with named(str(place)):
        return Pipeline(tasks, decode=decode, normalize=normalize, grammar=grammar)  # type: ignore[arg-type]


def _tables(file: Table) -> dict[str, Table]:
    """Return the table of each task."""
    declared = file.given.get("task")
    if not isinstance(declared, dict) or not declared:
        raise file.error("there is no [task.NAME]")
    for name, table in declared.items():
        if not isinstance(table, dict):
            raise file.error(f"task.{name} is {table!r}, expected a table")
    return {name: Table(table, file.place, f"[task.{name}]") for name, table in declared.items()}


def _check_reads(tables: Mapping[str, Table], place: Path) -> None:
    """Check keys, and what reads what, before any text is read: reading takes its time."""
    reads = {}
    for name, table in tables.items():
        if "model" in table:
            table.check_keys(("model",))
            reads[name] = [tape.name for tape in _tagger(name, table).reads]
            continue
        table.check_keys((*_OWN, *Options.__struct_fields__), (*_OWN, "and options of training"))
        for key in ("data", "template"):
            if key not in table:
                raise table.error(f"has no {key}")
        reads[name] = table.texts("reads")
    with named(str(place)):
        reading_order(reads)


def _task(name: str, table: Table) -> Task | CRF:
    if "model" in table:
        return _tagger(name, table)
    options = {key: value for key, value in table.given.items() if key not in _OWN}
    template = table.file(table.text("template"))
    arguments: dict[str, Any] = {
        "target": table.text("target", name),
        "reads": table.texts("reads"),
        "weight": table.number("weight", 1.0),
        "grammar": grammar_of(table),
        "class_weights": table.numbers("class_weights"),
        "dev": text_of(table, "dev") if "dev" in table else None,
    }
    data = text_of(table, "data")
    try:
        with named(str(table.place)):
            task = Task(name, data, template, options=options, **arguments)
            task.check_columns()
    except OSError as error:
        raise unread(table, error) from None
    return task


def _tagger(name: str, table: Table) -> CRF:
    """Return the tagger that a task is, under the name of the task."""
    try:
        found = CRF.load(table.file(table.text("model")))
    except ModelFileError as error:
        raise DataError(f"{table.name}: {error}", path=str(table.place)) from None
    except OSError as error:
        raise unread(table, error) from None
    return found if found.tape == name else replace(found, tape=name)
