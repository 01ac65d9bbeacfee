"""What can be known of tasks before the first of them takes its time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from fstcrf.corpus import Corpus
from fstcrf.errors import DataError, LabelError, OptionError
from fstcrf.features import FeatureIndex
from fstcrf.model import CRF
from fstcrf.model.gold import gold_labels, legal_gold
from fstcrf.pipelines.naming import named
from fstcrf.pipelines.task import Task

if TYPE_CHECKING:
    from fstcrf.grammar import Grammar
    from fstcrf.model.options import Options

__all__ = ["check_tasks"]


def check_tasks(tasks: Sequence[Task | CRF], grammar: Grammar | None) -> None:
    """Check columns, labels and schemes of all tasks, and the grammar of their joint decision.

    Parameters
    ----------
    tasks : sequence of Task or CRF
        In the order of reading.
    grammar : Grammar, optional

    Raises
    ------
    DataError
        A column is missing: of labels, also of an earlier task's that is to be jack-knifed, or
        one that an earlier tagger reads; labels in it follow each other as their scheme does not
        allow.
    TemplateError
        A column of a template is missing.
    LabelError, OptionError
        A label that is not of its scheme, or that an earlier task is to be trained on again but
        does not have; a scheme that is none; class weights of labels that there are not; a tagger
        that cannot be trained again, or reads no columns.
    GrammarError
        A grammar names a tape or label that is not there.
    """
    sets: dict[str, Sequence[str]] = {}
    for number, task in enumerate(tasks):
        if isinstance(task, CRF):
            sets[task.tape] = task.labels
            continue
        task.check_columns()
        where = f"task {task.name!r}"
        sets[task.name] = _checked(task.corpus, task.labels, task.settings, where)
        _check_training(task, sets[task.name], where)
        for earlier in _ancestors(task, tasks[:number]):
            _check_readable(task, earlier)
            if task.settings.jackknife is not None:
                _check_gold(task, earlier, sets)
    if grammar is not None:
        grammar.bind(sets)


def _check_training(task: Task, labels: Sequence[str], where: str) -> None:
    """Check that grammar and class weights go with the labels."""
    with named(where):
        if task.grammar is not None:
            task.grammar.bind(labels)
        odd = sorted(set(task.class_weights) - set(labels))
        if odd:
            raise OptionError(f"class_weights has {odd[0]!r}; the labels are {', '.join(labels)}")


def _ancestors(task: Task, before: Sequence[Task | CRF]) -> list[Task | CRF]:
    """Return the tasks whose labels reach a task, itself left out."""
    wanted = set(task.reads)
    found: list[Task | CRF] = []
    for other in reversed(before):
        if isinstance(other, CRF):
            name, reads = other.tape, [tape.name for tape in other.reads]
        else:
            name, reads = other.name, list(other.reads)
        if name in wanted:
            found.append(other)
            wanted.update(reads)
    return found


def _check_readable(task: Task, earlier: Task | CRF) -> None:
    """Check that a text has the columns that an earlier tagger reads: it must label the text."""
    if isinstance(earlier, Task):
        name, needed = earlier.name, earlier.columns
    else:
        name = earlier.tape
        if not isinstance(earlier.index, FeatureIndex):
            raise OptionError(
                f"task {task.name!r}: the tagger of {name!r} reads attributes, expected columns"
            )
        needed = tuple(map(str, earlier.index.templates.columns))
    for corpus in task.corpora:
        missing = next((column for column in needed if column not in corpus.columns), None)
        if missing is not None:
            raise DataError(
                f"task {task.name!r}: the tagger of {name!r}, whose labels it reads, reads column "
                f"{missing!r}; this text has {', '.join(map(repr, corpus.columns))}: what tasks "
                "share has one name in all of them (in TOML by columns, of CoNLL-U by rename)",
                path=corpus.source,
            )


def _check_gold(task: Task, earlier: Task | CRF, sets: Mapping[str, Sequence[str]]) -> None:
    """Check that a text has the gold labels that an earlier task is trained on again."""
    if isinstance(earlier, CRF):
        if earlier.record is None or earlier.record.target is None:
            return  # training says what is missing
        name, column, settings = earlier.tape, earlier.record.target, earlier.record.options
        grammar: object = earlier.record.grammar
    else:
        name, column, settings = earlier.name, earlier.labels, earlier.settings
        grammar = earlier.grammar
    where = f"task {task.name!r}: jackknife trains {name!r} again, on column {column!r}"
    if grammar is not None:
        raise OptionError(f"{where}, and cannot: it is trained under {grammar}")
    if column not in task.corpus.columns:
        columns = ", ".join(task.corpus.columns)
        raise DataError(f"{where}; the columns are {columns}", path=task.corpus.source)
    odd = sorted(set(_checked(task.corpus, column, settings, where)) - set(sets[name]))
    if odd:
        raise LabelError(
            f"{where}, which has the label {odd[0]!r}; the tagger of {name!r} has "
            f"{', '.join(sets[name])}, and would never say it"
        )


def _checked(corpus: Corpus, name: str, settings: Options, where: str) -> list[str]:
    """Return the labels of a column; check that they follow each other as their scheme says."""
    gold = legal_gold(corpus, name, settings, where=f"{where}: ")
    with named(where):
        return gold_labels(gold, name, settings)
