"""One batch of sentences as the columns that `fstcrf tag` adds to it.

========  =====================================================================
Wishes    what is asked for beside the labels, and what is known beforehand
Counts    sentences without a legal label sequence, by what became of them
Addition  columns to add, and a line before each sentence
tagged    tag a batch
========  =====================================================================
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

from fstcrf.errors import DataError, NoPathError

if TYPE_CHECKING:
    from fstcrf.corpus import Column, Corpus, Sentence
    from fstcrf.lattice import Path
    from fstcrf.model import CRF

__all__ = ["Addition", "Counts", "OnNoPath", "Wishes", "tagged"]

OnNoPath: TypeAlias = Literal["error", "skip", "relax"]
Forced: TypeAlias = list[list[str | None]]
Bias: TypeAlias = Mapping[str, float] | None

NOTHING = "_"
"""In a column: no label, no span that starts here."""


@dataclass(frozen=True, slots=True)
class Wishes:
    """What is asked for beside the labels, and what is known beforehand.

    Parameters
    ----------
    probabilities : bool
        Of the label at each token and of the whole sequence.
    marginals : bool
        Of every label at each token.
    spans : bool
        Of every span that the labels say, read as conlleval reads them.
    force : str, optional
        Column of labels known beforehand.
    bias : mapping of str to float
        Added to the potential of a label everywhere.
    on_no_path : {"error", "skip", "relax"}
        What to do where no label sequence is legal.
    threads : int
    """

    probabilities: bool = False
    marginals: bool = False
    spans: bool = False
    force: str | None = None
    bias: dict[str, float] = field(default_factory=dict)
    on_no_path: OnNoPath = "error"
    threads: int = 1


@dataclass(slots=True)
class Counts:
    """Sentences without a legal label sequence, by what became of them."""

    skipped: int = 0
    relaxed: int = 0


@dataclass(frozen=True, slots=True)
class Addition:
    """What is added to the sentences of a batch.

    Parameters
    ----------
    columns : list of Column
    comments : list of str, optional
        A line before each sentence.
    """

    columns: list[Column]
    comments: list[str] | None = None


@dataclass(frozen=True, slots=True)
class _Answers:
    """Best paths, and the forced labels that they agree with."""

    paths: list[Path | None]
    forced: Forced | None


def tagged(model: CRF, batch: Corpus, wishes: Wishes, counts: Counts) -> Addition:
    """Tag a batch.

    Raises
    ------
    DataError
        A forced label that the model does not have; names file and line.
    NoPathError
        A sentence has no legal label sequence, and `wishes` does not say what to do.
    """
    detailed = wishes.probabilities or wishes.marginals or wishes.spans
    if wishes.force is None and not detailed:
        try:
            bias = wishes.bias or None
            return Addition([model.tag_column(batch, threads=wishes.threads, bias=bias)])
        except NoPathError:
            pass  # the careful way knows where, and what is to be done
    answers = _answers(model, batch, wishes, counts)
    labels = [
        [NOTHING] * length if path is None else list(path.labels)
        for length, path in zip(_lengths(batch), answers.paths, strict=True)
    ]
    columns, comments = [labels], None
    if wishes.probabilities or wishes.marginals:
        columns = _with_marginals(model, batch, wishes, answers, labels)
        comments = [f"# {0.0 if p is None else p.probability:f}" for p in answers.paths]
    if wishes.spans:
        forced: Sequence[list[str | None] | None] = answers.forced or [None] * len(batch)
        each = zip(batch, answers.paths, forced, strict=True)
        cells = [_span_cells(model, *given, wishes.bias or None) for given in each]
        columns.insert(1, cells)
    return Addition([_interned(lists) for lists in columns], comments)


def _interned(lists: list[list[str]]) -> Column:
    from fstcrf.corpus import Column

    return Column.from_strings(itertools.chain.from_iterable(lists))


def _lengths(batch: Corpus) -> list[int]:
    bounds = batch.offsets.tolist()
    return [b - a for a, b in itertools.pairwise(bounds)]


def _answers(model: CRF, batch: Corpus, wishes: Wishes, counts: Counts) -> _Answers:
    forced = None if wishes.force is None else _forced(model, batch, wishes.force)
    bias = wishes.bias or None
    paths = model.paths_all(batch, threads=wishes.threads, forced=forced, bias=bias)
    dead = [i for i, path in enumerate(paths) if path is None]
    if dead and wishes.on_no_path == "error":
        raise _no_path(model, batch, dead[0], forced, wishes)
    if dead and wishes.on_no_path == "relax" and forced is not None:
        free = model.paths_all(batch.select(dead), threads=wishes.threads, bias=bias)
        lengths = _lengths(batch)
        for i, path in zip(dead, free, strict=True):
            paths[i] = path
            forced[i] = [None] * lengths[i]
    skipped = sum(path is None for path in paths)
    counts.skipped += skipped
    counts.relaxed += len(dead) - skipped
    return _Answers(paths, forced)


def _forced(model: CRF, batch: Corpus, name: str) -> Forced:
    column = batch.column(name)
    known = set(model.labels)
    for number, value in enumerate(column.values):
        if value == NOTHING or value in known or known.issuperset(value.split("|")):
            continue
        tokens = (column.ids == number).nonzero()[0]
        if len(tokens):
            raise DataError(
                f"{value!r} in column {name!r} is no label of the model; the labels are "
                f"{' '.join(model.labels)}, and _ where none is known",
                **batch.where(int(tokens[0])),
            )
    return [list(labels) for labels in batch.column_lists(name)]


def _no_path(
    model: CRF, batch: Corpus, number: int, forced: Forced | None, wishes: Wishes
) -> NoPathError:
    lattice = model.lattice(
        batch[number], forced=None if forced is None else forced[number], bias=wishes.bias or None
    )
    position = 0
    try:
        lattice.best()
    except NoPathError as error:
        position = error.position or 0
    place = batch.where(int(batch.offsets[number]) + position)
    where = DataError(
        "no label sequence is legal from here on; --on-no-path skip or relax goes on", **place
    )
    return NoPathError(str(where))


def _with_marginals(
    model: CRF, batch: Corpus, wishes: Wishes, answers: _Answers, labels: list[list[str]]
) -> list[list[list[str]]]:
    """Return the columns ``label/probability``: of the label found, then of every label."""
    live = [i for i, path in enumerate(answers.paths) if path is not None]
    found = model.marginals_all(
        batch.select(live),
        threads=wishes.threads,
        forced=None if answers.forced is None else [answers.forced[i] for i in live],
        bias=wishes.bias or None,
    )
    index = {name: k for k, name in enumerate(model.labels)}
    every = model.labels if wishes.marginals else ()
    columns = [[[NOTHING] * len(sentence) for sentence in labels] for _ in range(1 + len(every))]
    for i, marginal in zip(live, found, strict=True):
        rows = marginal.tolist()
        columns[0][i] = [
            f"{label}/{row[index[label]]:f}" for label, row in zip(labels[i], rows, strict=True)
        ]
        for k, label in enumerate(every):
            columns[k + 1][i] = [f"{label}/{row[k]:f}" for row in rows]
    return columns


def _span_cells(
    model: CRF, sentence: Sentence, path: Path | None, forced: list[str | None] | None, bias: Bias
) -> list[str]:
    """Return the probability of each span at its first token."""
    from fstcrf.corpus import spans

    cells = [NOTHING] * len(sentence)
    found = [] if path is None else spans(path.labels)
    if found:
        lattice = model.lattice(sentence, forced=forced, bias=bias)
        for start, end, kind in found:
            cells[start] = f"{lattice.span_probability(start, end, kind):f}"
    return cells
