"""What can be known of tasks before the first of them takes its time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fstcrf.corpus import Corpus, legal_transitions
from fstcrf.errors import DataError, FstcrfError
from fstcrf.model import CRF
from fstcrf.model.targets import allowed_labels, label_set

if TYPE_CHECKING:
    from fstcrf.grammar import Grammar
    from fstcrf.model.options import Options
    from fstcrf.pipelines.task import Task

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
        A column is missing: of labels, also of an earlier task's that is to be jack-knifed; or
        labels in it follow each other as their scheme does not allow.
    TemplateError
        A column of a template is missing.
    LabelError, OptionError
        A label that is not of its scheme; a scheme that is none.
    GrammarError
        The grammar names a tape or label that is not there.
    """
    sets: dict[str, Sequence[str]] = {}
    for number, task in enumerate(tasks):
        if isinstance(task, CRF):
            sets[task.tape] = task.labels
            continue
        task.check_columns()
        where = f"task {task.name!r}"
        sets[task.name] = _checked(task.corpus, task.labels, task.settings, where)
        if task.settings.jackknife is not None:
            for earlier in _ancestors(task, tasks[:number]):
                _check_gold(task, earlier)
    if grammar is not None:
        grammar.bind(sets)


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


def _check_gold(task: Task, earlier: Task | CRF) -> None:
    """Check that a text has the gold labels that an earlier task is trained on again."""
    if isinstance(earlier, CRF):
        if earlier.record is None or earlier.record.target is None:
            return  # training says what is missing
        name, column, settings = earlier.tape, earlier.record.target, earlier.record.options
    else:
        name, column, settings = earlier.name, earlier.labels, earlier.settings
    where = f"task {task.name!r}: jackknife trains {name!r} again, on column {column!r}"
    if column not in task.corpus.columns:
        columns = ", ".join(task.corpus.columns)
        raise DataError(f"{where}; the columns are {columns}", path=task.corpus.source)
    _checked(task.corpus, column, settings, where)


def _checked(corpus: Corpus, name: str, settings: Options, where: str) -> list[str]:
    """Return the labels of a column; check that they follow each other as their scheme says."""
    column = corpus.column(name)
    try:
        values = [column.values[i] for i in np.unique(column.ids).tolist()]
        labels = label_set(values, partial=settings.partial)
        if settings.scheme in (None, "observed"):
            return labels
        legal = legal_transitions(labels, str(settings.scheme))
    except FstcrfError as error:
        raise type(error)(f"{where}: {error}") from None
    allowed = allowed_labels(column, labels, partial=settings.partial)
    wrong = np.flatnonzero(~_legal(allowed, legal, corpus.offsets))
    if len(wrong):
        token = int(wrong[0])
        sentence = int(np.searchsorted(corpus.offsets, token, side="right")) - 1
        place = token - int(corpus.offsets[sentence])
        strings = (column.values[column.ids[token - 1]], column.values[column.ids[token]])
        what = f"{strings[1]!r} after {repr(strings[0]) if place else 'the start'}"
        raise DataError(
            f"{where}: {what} is no {settings.scheme} (or not as the last label)",
            path=corpus.source,
            sentence=sentence,
            token=place,
        )
    return labels


def _legal(
    allowed: NDArray[np.bool_], legal: NDArray[np.bool_], offsets: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Tell of each token whether a label that it may have can follow one of the token before.

    Parameters
    ----------
    allowed : bool [N, L]
        Labels that each token may have.
    legal : bool [L + 1, L + 1]
        As `legal_transitions` returns it.
    offsets : int64 [S + 1]
    """
    full = np.diff(offsets) > 0
    first, last = offsets[:-1][full], offsets[1:][full] - 1
    before = np.zeros((len(allowed), len(legal)), dtype=np.float32)
    before[1:, :-1] = allowed[:-1]
    before[first] = 0
    before[first, -1] = 1
    after = (before @ legal[:, :-1].astype(np.float32) > 0) & allowed
    after[last] &= legal[:-1, -1]
    return np.asarray(after.any(axis=1))
