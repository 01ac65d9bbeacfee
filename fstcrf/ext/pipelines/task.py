"""Tasks: taggers of a pipeline before their training, and the checks before training.

Errors first. Training a task takes minutes, and errors of the third task would be reported only
after the first two. All checks therefore run before training: options when a `Task` is declared;
columns, labels that must follow their scheme, gold labels for jack-knifing and labels that a
grammar names in `taggers/pipelines/task.py`. Errors begin with the name of the task: `naming.named`
changes only the message of an error. A TOML file is read by tables that check their values
(`taggers/pipelines/declaration.py`); an invalid declaration is an `OptionError`, an error in a file
that it names is not.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np

from fstcrf.errors import DataError, FstcrfError, LabelError, OptionError
from fstcrf.lazy import made_once
from fstcrf.machines.grammar import Grammar
from fstcrf.taggers import CRF
from fstcrf.taggers.component import ObservedTape, bound, grouped, observed
from fstcrf.text.corpus import Corpus
from fstcrf.text.features import (
    FeatureFunction,
    FeatureIndex,
    FunctionIndex,
    LiteralIndex,
    TemplateSet,
    tape_column,
)
from fstcrf.text.features.function import check_function
from fstcrf.text.features.template import as_templates
from fstcrf.training.gold import gold_labels, legal_gold, with_partial
from fstcrf.training.options import STRUCTS, Options, checked_options, stored_options
from fstcrf.training.passing import check_tapes, with_labels
from fstcrf.training.settings import fields_of


@contextmanager
def named(where: str) -> Iterator[None]:
    """Begin the message of an error with a name; all else that the error knows stays.

    The error is not made again: kinds of errors are made from other things.
    """
    try:
        yield
    except FstcrfError as error:
        error.args = (f"{where}: {error}",)
        raise


# --- One tagger of a pipeline ---------------------------------------------------------------------


@dataclass(frozen=True)
class Task:
    """A tagger that is to be trained.

    Parameters
    ----------
    name : str
        Of the task, and of the tape that its tagger writes.
    data : Corpus or sequence of sentences
        Training data; labels of other tasks are not necessary.
    template : TemplateSet, text or path, optional
        ``%y[0,NAME]`` reads the labels of an earlier task.
    target : str, optional
        Column of the labels; called like the task when absent.
    reads : sequence of str
        The earlier tasks whose labels the template or the function reads.
    dev : Corpus or sequence of sentences, optional
        Held-out data that ends training.
    weight : float
        Factor of its potentials when tasks are decided together.
    options : mapping of str to object
        Of training, as for `fstcrf.CRF.train`. Three of them control the labels of `reads` in the
        training text: ``passing`` ("best", "nbest", "marginals"), ``candidates``, ``jackknife``.
    grammar : Grammar, optional
        A hard grammar that becomes part of the tagger's structure, as of `fstcrf.CRF.train`.
    class_weights : mapping of str to float
        Weights of sentences by their labels, as of `fstcrf.CRF.train`.
    features : callable, optional
        A feature function, as of `fstcrf.CRF.train`, instead of a template.

    Raises
    ------
    OptionError
        A template and a feature function, or neither; an invalid name, unknown options, options
        for `reads` without any, or a weight below 0.
    TemplateError
        A template that cannot be read, or reads other tasks than `reads` names.
    """

    name: str
    data: Any
    template: TemplateSet | str | os.PathLike[str] | None = None
    target: str = ""
    reads: Sequence[str] = ()
    dev: Any = None
    weight: float = 1.0
    options: Mapping[str, Any] = field(default_factory=dict)
    grammar: Grammar | None = None
    class_weights: Mapping[str, float] = field(default_factory=dict)
    features: FeatureFunction | None = None

    def __post_init__(self) -> None:
        if not self.name or Path(self.name).name != self.name or self.name.startswith("."):
            raise OptionError(
                f"a task is called {self.name!r}, which cannot be part of a file name"
            )
        if isinstance(self.reads, str):
            raise OptionError(f"task {self.name!r}: reads is {self.reads!r}, expected a list")
        if not 0 <= self.weight < np.inf:
            raise OptionError(f"task {self.name!r}: weight is {self.weight}, expected at least 0")
        if self.grammar is not None and not isinstance(self.grammar, Grammar):
            raise OptionError(
                f"task {self.name!r}: grammar is {self.grammar!r}, expected a Grammar"
            )
        with named(f"task {self.name!r}"):
            self._check_options()
            _ = self.settings
            self._check_features()
            if self.features is None:
                check_tapes(self.templates.tapes, self.reads)

    def _check_options(self) -> None:
        arguments = {argument.name for argument in fields(self)}
        for name in self.options:
            if name in arguments:
                raise OptionError(f"options has {name!r}, which is an argument of Task: {name}=…")
            if name in STRUCTS:
                struct = STRUCTS[name]
                first = next(iter(fields_of(struct)))
                raise OptionError(
                    f"options has {name!r}: name the options of {struct.__name__}(...) themselves, "
                    f"such as {first!r}"
                )

    def _check_features(self) -> None:
        if self.features is None and self.template is None:
            raise OptionError("a task needs a template or a feature function: features=f")
        if self.features is None:
            return
        check_function(self.features)
        if self.template is not None:
            raise OptionError("template and features both compute attributes: give one of them")

    def check_columns(self) -> None:
        """Check that the data has the columns that are read.

        Raises
        ------
        DataError
            It lacks the labels.
        TemplateError
            It lacks a column of the template.
        """
        tapes = [tape_column(name) for name in self.reads]
        with named(f"task {self.name!r}"):
            for corpus in self.corpora:
                corpus.column(self.labels)
                if self.features is None:
                    self.templates.resolved((*corpus.columns, *tapes), data=corpus.source)

    @made_once
    def settings(self) -> Options:
        """The options of training, including defaults."""
        return checked_options(self.options, reads=bool(self.reads), dev=self.dev is not None)

    @made_once
    def reading(self) -> Options:
        """The same options; `partial` is set by the text if it was None."""
        return with_partial(self.settings, self.corpus, self.labels)

    @property
    def labels(self) -> str:
        """The column of its labels."""
        return self.target or self.name

    @made_once
    def templates(self) -> TemplateSet:
        """The template, read; without templates if a function computes the attributes."""
        return TemplateSet(()) if self.template is None else as_templates(self.template)

    @made_once
    def corpus(self) -> Corpus:
        """The training data."""
        return self.data if isinstance(self.data, Corpus) else Corpus.from_sentences(self.data)

    @made_once
    def held_out(self) -> Corpus | None:
        """The held-out data."""
        if self.dev is None or isinstance(self.dev, Corpus):
            return self.dev
        return Corpus.from_sentences(self.dev)

    @property
    def corpora(self) -> tuple[Corpus, ...]:
        """The training data, and the held-out data if there is any."""
        return (self.corpus,) if self.held_out is None else (self.corpus, self.held_out)

    @made_once
    def columns(self) -> tuple[str, ...]:
        """The columns that its template reads, by name, without the labels of other tasks.

        The columns that a function reads are unknown: there are none here.
        """
        tapes = [tape_column(name) for name in self.reads]
        found = self.templates.resolved((*self.corpus.columns, *tapes), data=self.corpus.source)
        return tuple(map(str, found.columns))

    @made_once
    def label_names(self) -> list[str]:
        """The labels that its tagger will have."""
        gold = legal_gold(self.corpus, self.labels, self.reading)
        return gold_labels(gold, self.labels, self.reading)

    def attributes(self, reads: Sequence[CRF], threads: int = 1) -> str:
        """Return a hash of the attributes that the feature function computes.

        Parameters
        ----------
        reads : sequence of CRF
            The earlier taggers, in the order of reading.
        threads : int
        """
        if self.features is None:
            return ""
        index, design = FunctionIndex.build(
            with_labels(self.corpus, reads, threads=threads),
            self.features,
            tapes=[tagger.tape for tagger in reads],
            target=self.labels,
        )
        digest = hashlib.sha256("\0".join(index.attribute_strings).encode())
        for array in (design.node.indptr, design.node.index, design.node.value):
            if array is not None:
                digest.update(np.ascontiguousarray(array).data)
        return digest.hexdigest()

    def fingerprint(self, earlier: Sequence[str], attributes: str = "") -> str:
        """Return a hash of everything that determines the trained tagger.

        Parameters
        ----------
        earlier : sequence of str
            Fingerprints of the models that it reads.
        attributes : str
            Hash of the attributes that a feature function computes.
        """
        lists = {name: sorted(words) for name, words in self.templates.lists.items()}
        parts = (self.name, self.labels, str(self.templates), lists, list(self.reads))
        digest = hashlib.sha256(msgspec.json.encode((parts, dict(self.options), list(earlier))))
        digest.update(content(self.corpus).encode())
        if self.held_out is not None:
            digest.update(content(self.held_out).encode())
        for acceptor in () if self.grammar is None else self.grammar.bind(self.label_names):
            digest.update(np.ascontiguousarray(acceptor.target).data)
            digest.update(np.ascontiguousarray(acceptor.final).data)
        digest.update(attributes.encode())
        if self.class_weights:
            digest.update(msgspec.json.encode(sorted(self.class_weights.items())))
        return digest.hexdigest()


def content(corpus: Corpus) -> str:
    """Return a hash of the strings of a corpus."""
    digest = hashlib.sha256(np.ascontiguousarray(corpus.offsets).data)
    for name, column in corpus.columns.items():
        digest.update("\0".join((name, *column.values)).encode())
        digest.update(np.ascontiguousarray(column.ids).data)
    return digest.hexdigest()


# --- Who reads whom -------------------------------------------------------------------------------

Kind = TypeVar("Kind", bound=Task | CRF)


def name_of(task: Task | CRF) -> str:
    """Return the name of a task, or of a tagger's tape."""
    return task.tape if isinstance(task, CRF) else task.name


def reads_of(task: Task | CRF) -> tuple[str, ...]:
    """Return the names of the tapes that a task reads."""
    if isinstance(task, CRF):
        return tuple(tape.name for tape in task.reads)
    return tuple(task.reads)


def ancestors(reads: Sequence[str], before: Sequence[Kind]) -> list[Kind]:
    """Return the tasks, the latest first, whose labels reach one that reads some tapes."""
    wanted = set(reads)
    found = []
    for other in reversed(before):
        if name_of(other) in wanted:
            found.append(other)
            wanted.update(reads_of(other))
    return found


# --- What can be known of tasks before the first of them takes ------------------------------------


def check_tasks(
    tasks: Sequence[Task | CRF], grammar: Grammar | None, *, together: bool = True
) -> None:
    """Check columns, labels and schemes of tasks in the order of reading, and their grammar.

    Where they are not decided `together`, no part of it may be over several tapes.
    """
    sets: dict[str, Sequence[str]] = {}
    for number, task in enumerate(tasks):
        if isinstance(task, CRF):
            sets[task.tape] = task.labels
            continue
        task.check_columns()
        where = f"task {task.name!r}"
        sets[task.name] = _checked(task.corpus, task.labels, task.reading, where)
        _check_training(task, sets[task.name], where)
        for earlier in ancestors(task.reads, tasks[:number]):
            _check_readable(task, earlier)
            if task.settings.jackknife is not None:
                _check_gold(task, earlier, sets)
    if grammar is not None:
        labels = {name: tuple(several) for name, several in sets.items()}
        conjuncts = bound(grammar, labels, partial(_read, tasks))
        if not together:
            grouped(conjuncts, list(sets))


def _read(tasks: Sequence[Task | CRF]) -> list[ObservedTape]:
    """Return the columns that tasks read, as tapes that a grammar may be given."""
    names, strings = {name_of(task) for task in tasks}, dict[str, dict[str, None]]()
    for task in [task for task in tasks if isinstance(task, Task)]:
        for column in task.columns:
            if column in task.corpus.columns and column not in names:
                values = task.corpus.columns[column].values
                strings.setdefault(column, {}).update(dict.fromkeys(values))
    known = [ObservedTape.of(column, tuple(several)) for column, several in strings.items()]
    return observed([task.index for task in tasks if isinstance(task, CRF)], names, known)


def _check_training(task: Task, labels: Sequence[str], where: str) -> None:
    """Check that grammar and class weights go with the labels."""
    with named(where):
        if task.grammar is not None:
            task.grammar.bind(labels)
        odd = sorted(set(task.class_weights) - set(labels))
        if odd:
            raise OptionError(f"class_weights has {odd[0]!r}; the labels are {', '.join(labels)}")


def _check_readable(task: Task, earlier: Task | CRF) -> None:
    """Check that a text has the columns that an earlier tagger reads: it must label the text."""
    if isinstance(earlier, Task):
        name, needed = earlier.name, earlier.columns
    else:
        name = earlier.tape
        if isinstance(earlier.index, LiteralIndex):
            raise OptionError(
                f"task {task.name!r}: the tagger of {name!r} reads attributes, expected columns"
            )
        templates = isinstance(earlier.index, FeatureIndex)
        needed = tuple(map(str, earlier.index.columns)) if templates else ()
    for corpus in task.corpora:
        missing = next((column for column in needed if column not in corpus.columns), None)
        if missing is not None:
            raise DataError(
                f"task {task.name!r}: the tagger of {name!r}, whose labels it reads, reads "
                f"column {missing!r}, but this text has "
                f"{', '.join(map(repr, corpus.columns))}: shared columns need the same name "
                "in the texts of all tasks (in TOML set columns, for CoNLL-U rename)",
                path=corpus.source,
            )


def _check_gold(task: Task, earlier: Task | CRF, sets: Mapping[str, Sequence[str]]) -> None:
    """Check that a text has the gold labels that an earlier task is trained on again."""
    if isinstance(earlier, CRF):
        if earlier.record is None or earlier.record.target is None:
            return  # training reports the missing labels
        name, column = earlier.tape, earlier.record.target
        settings = stored_options(earlier.record.options)
        grammar: object = earlier.record.grammar
    else:
        name, column, settings = earlier.name, earlier.labels, earlier.reading
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
            f"{where}, which has the label {odd[0]!r}; the tagger of {name!r} has the "
            f"labels {', '.join(sets[name])}, so it never assigns this label"
        )


def _checked(corpus: Corpus, name: str, settings: Options, where: str) -> list[str]:
    """Return the labels of a column; check that their sequence obeys their scheme."""
    gold = legal_gold(corpus, name, settings, where=f"{where}: ")
    with named(where):
        return gold_labels(gold, name, settings)
