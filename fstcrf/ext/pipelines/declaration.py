"""Pipelines declared in TOML files, with the texts, grammars and taggers that they name."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial, reduce
from operator import and_
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, TypeVar

import msgspec

from fstcrf.errors import DataError, GrammarError, ModelFileError, OptionError
from fstcrf.ext.pipelines.pipeline import Pipeline, reading_order
from fstcrf.ext.pipelines.task import Task, named
from fstcrf.files import path_name
from fstcrf.machines.grammar import Grammar
from fstcrf.machines.grammar.acceptor import Acceptor
from fstcrf.machines.grammar.constraint import Constraint
from fstcrf.machines.grammar.labels import LabelSets
from fstcrf.taggers import CRF
from fstcrf.text.corpus import Corpus, read_columns, read_conllu
from fstcrf.text.corpus.conllu import CONLLU
from fstcrf.text.corpus.corpus import concatenated
from fstcrf.text.lines import read_text
from fstcrf.training.options import DEFAULTS, not_there

Text: TypeAlias = Annotated[str, msgspec.Meta(min_length=1)]
Texts: TypeAlias = Text | list[Text]

_SEPARATORS = {"any": None, "tab": "\t", "space": " "}
_ENDINGS = (".conllu", ".conllu.gz")


class _File(msgspec.Struct):
    """The values outside the tables of tasks."""

    decode: Literal["cascade", "joint", "marginals"] | None = None
    normalize: Literal["product", "chain"] | None = None
    grammar: Texts = []


class _Declared(msgspec.Struct):
    """A task, but for its options of training."""

    data: Texts = []
    dev: Texts = []
    format: Literal["columns", "conllu"] | None = None
    columns: Texts = []
    separator: Text = "any"
    rename: dict[str, Text] = {}
    feature_columns: Texts = []
    template: Text = ""
    target: Text = ""
    reads: Texts = []
    weight: float = 1.0
    grammar: Texts = []
    class_weights: dict[str, float] = {}


class _Saved(msgspec.Struct):
    """A task that is a tagger already."""

    model: Text = ""


_EXPECTED = {
    "decode": "'cascade', 'joint' or 'marginals'",
    "normalize": "'product' or 'chain'",
    "format": "'columns' or 'conllu'",
    "rename": 'names by name: {form = "word"}',
    "weight": "a number",
    "class_weights": "names and numbers: {O = 0.5}",
    **dict.fromkeys(("separator", "template", "target", "model"), "a text"),
}
_KEYS = ("task", *_File.__struct_fields__)
_OWN = (*_Saved.__struct_fields__, *_Declared.__struct_fields__)
Keys = TypeVar("Keys", _File, _Declared, _Saved)


@dataclass(frozen=True)
class _Table:
    """A table of a TOML file: its keys and values, and how messages call it: ``[task.ner]``."""

    given: Mapping[str, Any]
    place: Path
    name: str = ""

    def __contains__(self, key: str) -> bool:
        return key in self.given

    def check_keys(self, known: Collection[str], shown: Collection[str] = ()) -> None:
        """Check that there are no other keys; messages show the keys in `shown`."""
        odd = sorted(set(self.given) - set(known))
        if odd:
            who = "" if self.name else "the file "
            instead = not_there(odd[0], known, shown or known)
            raise self.error(f"{who}has {odd[0]!r}; {instead}")

    def read(self, kind: type[Keys]) -> Keys:
        """Return the values of some keys, checked."""
        own = {key: self.given[key] for key in kind.__struct_fields__ if key in self.given}
        try:
            return msgspec.convert(own, kind)
        except msgspec.ValidationError as error:
            key = re.findall(r"`\$\.(\w+)", str(error))[0]
            expected = _EXPECTED.get(key, "a text, or a list of texts")
            raise self.error(f"{key} is {own[key]!r}, expected {expected}") from None

    def file(self, name: str) -> Path:
        """Return the path of a file that the table names."""
        if "\0" in name:
            raise self.error(f"{name!r} contains a null character, which no file name can have")
        return self.place.parent / name

    def error(self, message: str) -> OptionError:
        """Return an error, with the names of file and table."""
        return OptionError(f"{self.place}: {f'{self.name} ' * bool(self.name)}{message}")

    def unread(self, error: OSError, key: str = "") -> DataError:
        """Return the error of a file that cannot be read."""
        file, why = error.filename or error, error.strerror or "cannot be read"
        where = " ".join(name for name in (self.name, key) if name)
        return DataError(f"{where}: {file}: {why}", path=str(self.place))


def _listed(texts: str | list[str]) -> list[str]:
    return [texts] if isinstance(texts, str) else texts


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
        The TOML file itself cannot be read, or a file is not a tagger.
    """
    place = Path(path_name(path))
    text = read_text(place)
    try:
        given = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # numbers of too many digits
        raise OptionError(f"{path}: not valid TOML: {error}") from None
    file = _Table(given, place)
    file.check_keys(_KEYS)
    head, tables = file.read(_File), _tables(file)
    declared = {name: _declared(name, table) for name, table in tables.items()}
    with named(str(place)):
        reading_order({name: _reads(one) for name, one in declared.items()})
    tasks = [
        one if isinstance(one, CRF) else _task(name, tables[name], one)
        for name, one in declared.items()
    ]
    grammar = _grammar(file, head.grammar, list(tables))
    with named(str(place)):
        return Pipeline(tasks, decode=head.decode, normalize=head.normalize, grammar=grammar)


# --- Tasks ----------------------------------------------------------------------------------------


def _tables(file: _Table) -> dict[str, _Table]:
    """Return the table of each task."""
    declared = file.given.get("task")
    if not isinstance(declared, dict) or not declared:
        raise file.error("there is no [task.NAME]")
    for name, table in declared.items():
        if not isinstance(table, dict):
            raise file.error(f"task.{name} is {table!r}, expected a table")
    return {name: _Table(table, file.place, f"[task.{name}]") for name, table in declared.items()}


def _declared(name: str, table: _Table) -> _Declared | CRF:
    """Check the keys of a task before any text is read: reading takes its time."""
    if "model" in table:
        table.check_keys(("model",))
        return _tagger(name, table)
    if "features" in table:
        raise table.error(f"has features: {_NO_FUNCTION}")
    table.check_keys((*_OWN, *DEFAULTS), (*_OWN, "and options of training"))
    for key in ("data", "template"):
        if key not in table:
            raise table.error(f"has no {key}")
    return table.read(_Declared)


def _reads(declared: _Declared | CRF) -> list[str]:
    if isinstance(declared, CRF):
        return [tape.name for tape in declared.reads]
    return _listed(declared.reads)


def _tagger(name: str, table: _Table) -> CRF:
    """Return the tagger that a task is, under the name of the task."""
    try:
        found = CRF.load(table.file(table.read(_Saved).model))
    except ModelFileError as error:
        raise DataError(f"{table.name}: {error}", path=str(table.place)) from None
    except OptionError as error:
        raise table.error(f"{error}: {_NO_FUNCTION}") from None
    except OSError as error:
        raise table.unread(error) from None
    return found if found.tape == name else replace(found, tape=name)


_NO_FUNCTION = (
    "a TOML file cannot hold a function; make the pipeline in Python: "
    "Pipeline([Task(…, features=f)])"
)


def _task(name: str, table: _Table, own: _Declared) -> Task:
    options = {key: value for key, value in table.given.items() if key not in _OWN}
    if own.rename and any(_is_conllu(own, text) for text in _listed(own.data)):
        options = {"partial": False, **options}  # its columns are not known by their names
    grammar = _grammar(table, own.grammar)
    dev = _text(table, own, "dev") if "dev" in table else None
    data = _text(table, own, "data")
    try:
        with named(str(table.place)):
            task = Task(
                name,
                data,
                table.file(own.template),
                target=own.target or name,
                reads=_listed(own.reads),
                dev=dev,
                weight=own.weight,
                options=options,
                grammar=grammar,
                class_weights=own.class_weights,
            )
            task.check_columns()
    except OSError as error:
        raise table.unread(error) from None
    return task


# --- Texts ----------------------------------------------------------------------------------------


def _text(table: _Table, own: _Declared, key: Literal["data", "dev"]) -> Corpus:
    """Return the texts that a key names, one after the other."""
    paths = _listed(own.data if key == "data" else own.dev)
    if not paths:
        raise table.error(f"{key} names no file")
    of_conllu = next((name for name in ("rename", "feature_columns") if name in table), None)
    if of_conllu is not None and not any(_is_conllu(own, path) for path in paths):
        raise table.error(
            f"{of_conllu} is for CoNLL-U: for column files, name the columns with columns"
        )
    parts = [
        _conllu(table, own, p) if _is_conllu(own, p) else _columns(table, own, p) for p in paths
    ]
    with named(f"{table.place}: {table.name}"):
        return concatenated(parts)


def _is_conllu(own: _Declared, path: str) -> bool:
    """Return whether a text is CoNLL-U: its name or `format` decides."""
    return path.endswith(_ENDINGS) if own.format is None else own.format == "conllu"


def _columns(table: _Table, own: _Declared, path: str) -> Corpus:
    columns = _listed(own.columns)
    if not columns:
        raise table.error(f"has no columns: name the columns of {path}")
    separator = _SEPARATORS.get(own.separator, own.separator)
    with _reading(table):
        return read_columns(table.file(path), columns, separator=separator)


def _conllu(table: _Table, own: _Declared, path: str) -> Corpus:
    odd = next((name for name in own.rename if name not in CONLLU), None)
    if odd is not None:
        raise table.error(f"rename has {odd!r}; the columns are {', '.join(CONLLU)}")
    with _reading(table):
        corpus = read_conllu(table.file(path), feature_columns=_listed(own.feature_columns))
        return corpus.renamed(own.rename)


@contextmanager
def _reading(table: _Table, key: str = "") -> Iterator[None]:
    """Name file, table and key in errors of a file."""
    where = " ".join(name for name in (table.name, key) if name)
    try:
        with named(f"{table.place}: {where}"):
            yield
    except OSError as error:
        raise table.unread(error, key) from None


# --- Grammars -------------------------------------------------------------------------------------


def _grammar(table: _Table, names: str | list[str], tapes: Collection[str] = ()) -> Grammar | None:
    """Return the conjunction of grammars; each may name its tape: ``TAPE=FILE``."""
    found = []
    for given in _listed(names):
        tape, equals, name = given.rpartition("=")
        if equals and tape not in tapes and not table.file(given).exists():
            there = f"the tasks are {', '.join(tapes)}" if tapes else "the only tape is the task's"
            raise table.error(f"grammar is {given!r}, but there is no task {tape!r} here; {there}")
        read = _read_grammar(table, name if tape in tapes else given)
        found.append(on_tape(read, tape) if tape in tapes else read)
    return reduce(and_, found) if found else None


def _read_grammar(table: _Table, name: str) -> Grammar:
    """Return the grammar of a file or of the library."""
    file = table.file(name)
    with _reading(table, "grammar"):
        if file.exists() or Path(name).suffix:
            return Grammar.from_file(file)
        return Grammar.shipped(name)


def on_tape(grammar: Grammar, tape: str) -> Grammar:
    """Return a grammar of one tape that does not name it, for a tape among several."""
    return Grammar(
        [
            Constraint(
                part.name, partial(_bound_on, part, tape), language=part.language, sums=part.sums
            )
            for part in grammar.constraints
        ]
    )


def _bound_on(part: Constraint, tape: str, sets: LabelSets) -> tuple[Acceptor, ...]:
    if tape not in sets:
        raise GrammarError(f"no tape {tape!r}; the tapes are {', '.join(sets)}")
    return part.bind({tape: sets[tape]})
