r"""Pipelines in TOML files.

::

    decode = "joint"            # cascade (when absent), joint, marginals
    normalize = "product"       # or chain
    grammar = "seminar.grm"     # a file, or a grammar that comes with fstcrf

    [task.ner]
    data = ["eng.train"]        # paths are relative to this file
    columns = ["word", "pos", "chunk", "ner"]
    template = "ner.tpl"

    [task.field]
    data = ["notices.txt"]
    columns = ["word", "field"]
    template = "field.tpl"      # has %y[0,ner]
    reads = ["ner"]
    weight = 0.5
    l2 = 1.0                    # and all other options of training
    passing = "marginals"
    jackknife = 5

Other keys of a task: ``target`` (its name when absent), ``dev`` (a file), ``separator``.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fstcrf.corpus import Corpus, read_columns, read_conllu
from fstcrf.corpus.joining import concatenated
from fstcrf.errors import DataError, FstcrfError, OptionError
from fstcrf.grammar import Grammar
from fstcrf.pipelines.pipeline import Pipeline, reading_order
from fstcrf.pipelines.task import Task

__all__ = ["read_pipeline"]

_KEYS = {"task", "decode", "normalize", "grammar"}
_INPUT_KEYS = {"data", "columns", "separator", "dev", "template", "target", "reads", "weight"}


def read_pipeline(path: str | os.PathLike[str]) -> Pipeline:
    """Read a pipeline, with all the files that it names.

    Raises
    ------
    DataError
        No TOML; keys, values, training data or a grammar that are not what they should be; a file
        that cannot be read.
    OptionError, TemplateError
        Tasks that do not go together, or a template that is none.
    OSError
        The TOML file itself cannot be read.
    """
    place = Path(path)
    try:
        given = tomllib.loads(place.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise DataError(f"no TOML: {error}", path=str(path)) from None
    _check_keys(given, _KEYS, "the file", place)
    declared = given.get("task")
    if not isinstance(declared, dict) or not declared:
        raise DataError("there is no [task.NAME]", path=str(path))
    arguments = {key: given[key] for key in ("decode", "normalize") if key in given}
    if arguments.get("normalize", "product") not in ("product", "chain"):
        raise DataError(
            f"normalize is {arguments['normalize']!r}, expected 'product' or 'chain'",
            path=str(path),
        )
    _check_reads(declared, place)
    tasks = [_task(name, table, place) for name, table in declared.items()]
    grammar = _grammar(given["grammar"], place) if "grammar" in given else None
    try:
        return Pipeline(tasks, grammar=grammar, **arguments)
    except OptionError as error:
        raise OptionError(f"{place}: {error}") from None


def _task(name: str, table: Any, place: Path) -> Task:
    where = f"[task.{name}]"
    for key in ("data", "template"):
        if key not in table:
            raise DataError(f"{where} has no {key}", path=str(place))
    options = {key: value for key, value in table.items() if key not in _INPUT_KEYS}
    template = place.parent / _text(table["template"], f"{where} template", place)
    try:
        dev = None if "dev" not in table else _corpus([table["dev"]], table, where, place)
        task = Task(
            name,
            _corpus(_texts(table["data"], f"{where} data", place), table, where, place),
            template,
            target=_text(table.get("target", name), f"{where} target", place),
            reads=_texts(table.get("reads", []), f"{where} reads", place),
            dev=dev,
            weight=_number(table.get("weight", 1.0), f"{where} weight", place),
            options=options,
        )
        task.check_columns()
    except OSError as error:
        raise _unread(where, error, place) from None
    except FstcrfError as error:
        if str(error).startswith(str(place)):
            raise
        raise type(error)(f"{place}: {error}") from None
    return task


def _unread(where: str, error: OSError, place: Path) -> DataError:
    file, why = error.filename or error, error.strerror or "cannot be read"
    return DataError(f"{where}: {file}: {why}", path=str(place))


def _corpus(paths: Sequence[str], table: Mapping[str, Any], where: str, place: Path) -> Corpus:
    separator = table.get("separator")
    parts = []
    for given in paths:
        path = str(place.parent / _text(given, f"{where} data", place))
        if path.endswith((".conllu", ".conllu.gz")):
            parts.append(read_conllu(path))
            continue
        if "columns" not in table:
            raise DataError(f"{where} has no columns: name those of {given}", path=str(place))
        columns = _texts(table["columns"], f"{where} columns", place)
        parts.append(read_columns(path, columns, separator=separator))
    if not parts:
        raise DataError(f"{where} names no data", path=str(place))
    return concatenated(parts)


def _grammar(given: Any, place: Path) -> Grammar:
    name = _text(given, "grammar", place)
    file = place.parent / name
    try:
        if file.exists() or Path(name).suffix:
            return Grammar.from_file(file)
        return Grammar.shipped(name)
    except OSError as error:
        raise _unread("grammar", error, place) from None
    except FstcrfError as error:
        raise DataError(f"grammar: {error}", path=str(place)) from None


def _check_reads(declared: Mapping[str, Any], place: Path) -> None:
    """Check what reads what before any file is read: reading takes its time."""
    reads = {}
    for name, table in declared.items():
        if not isinstance(table, dict):
            raise DataError(f"task.{name} is {table!r}, expected a table", path=str(place))
        reads[name] = _texts(table.get("reads", []), f"[task.{name}] reads", place)
    try:
        reading_order(reads)
    except OptionError as error:
        raise OptionError(f"{place}: {error}") from None


def _check_keys(given: Mapping[str, Any], known: set[str], what: str, place: Path) -> None:
    odd = sorted(set(given) - known)
    if odd:
        raise DataError(
            f"{what} has {odd[0]!r}; there are {', '.join(sorted(known))}", path=str(place)
        )


def _text(value: Any, what: str, place: Path) -> str:
    if not isinstance(value, str) or not value:
        raise DataError(f"{what} is {value!r}, expected a text", path=str(place))
    return value


def _texts(value: Any, what: str, place: Path) -> list[str]:
    if isinstance(value, str):
        return [value]
    if not isinstance(value, list) or not all(isinstance(v, str) and v for v in value):
        raise DataError(f"{what} is {value!r}, expected a list of texts", path=str(place))
    return value


def _number(value: Any, what: str, place: Path) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise DataError(f"{what} is {value!r}, expected a number", path=str(place))
    return float(value)
