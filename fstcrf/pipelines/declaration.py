r"""Pipelines in TOML files.

::

    decode = "joint"            # cascade (when absent), joint, marginals
    normalize = "product"       # or chain
    grammar = "seminar.grm"     # a file, a grammar that comes with fstcrf, TASK=FILE, or a list

    [task.ner]
    data = ["eng.train"]        # paths are relative to this file
    columns = ["word", "pos", "chunk", "ner"]
    template = "ner.tpl"

    [task.place]
    model = "place.fstcrf"      # a tagger that is trained already

    [task.field]
    data = ["notices.txt"]
    columns = ["word", "field"]
    template = "field.tpl"      # has %y[0,ner]
    reads = ["ner"]
    weight = 0.5
    l2 = 1.0                    # and all other options of training
    passing = "marginals"
    jackknife = 5

Other keys of a task: ``target`` (its name when absent), ``dev``, ``grammar``, ``class_weights``;
``separator`` and ``format`` of its texts, of CoNLL-U also ``rename`` and ``feature_columns``.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from fstcrf.errors import DataError, ModelFileError, OptionError
from fstcrf.model import CRF, load
from fstcrf.model.options import Options
from fstcrf.pipelines.grammars import grammar_of
from fstcrf.pipelines.naming import named
from fstcrf.pipelines.pipeline import Pipeline, reading_order
from fstcrf.pipelines.table import Table
from fstcrf.pipelines.task import Task
from fstcrf.pipelines.texts import TEXT, text_of, unread

__all__ = ["read_pipeline"]

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
        found = load(table.file(table.text("model")))
    except ModelFileError as error:
        raise DataError(f"{table.name}: {error}", path=str(table.place)) from None
    except OSError as error:
        raise unread(table, error) from None
    return found if found.tape == name else replace(found, tape=name)
