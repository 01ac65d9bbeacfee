"""One batch of sentences as the columns that `fstcrf tag` adds to it.

============  =================================================
Wishes        what is asked for beside the labels
Addition      columns to add, and a line before each sentence
tagged        tag a batch
check_sums    that the probabilities that are wanted can be had
cascaded      tag a batch with one tagger after the other
shown         names of tapes that an option gives, in the order of the model
write_tagged  write a file again with what is added to batches
============  =================================================
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import click

from fstcrf.cli.answers import NOTHING, Answer, Counts, Search, answered, searching
from fstcrf.cli.reporting import counted
from fstcrf.errors import NoPathError, TooLargeError

if TYPE_CHECKING:
    from fstcrf.cli.models import Model
    from fstcrf.cli.sources import Input
    from fstcrf.corpus import Column, Corpus
    from fstcrf.joint import Composition
    from fstcrf.lattice import Path
    from fstcrf.lattice.confidence import Confidence

__all__ = ["Addition", "Wishes", "cascaded", "check_sums", "shown", "tagged", "write_tagged"]

_RUN_NUMBERS = 4_000_000
"""Joint states of the tokens that are looked at together."""


@dataclass(frozen=True, slots=True)
class Wishes:
    """What is asked for beside the labels.

    Parameters
    ----------
    search : Search
    ranked : bool
        Number the paths, best first.
    probabilities : bool
        Of the label at each token and of the whole sequence.
    marginals : bool
        Of every label at each token.
    confidence : bool
        How sure the best labels are under a grammar, and how much of the model is legal.
    spans : tuple of str
        Tapes for whose spans, read as conlleval reads them, probabilities are wanted.
    """

    search: Search = field(default_factory=Search)
    ranked: bool = False
    probabilities: bool = False
    marginals: bool = False
    confidence: bool = False
    spans: tuple[str, ...] = ()

    @property
    def plain(self) -> bool:
        """Nothing but the best labels is wanted, and nothing is known beforehand."""
        known = self.search.force or self.search.tapes is not None
        return not (self.commented or self.spans or known)

    @property
    def commented(self) -> bool:
        """Something is written before each sentence."""
        return self.ranked or self.probabilities or self.marginals or self.confidence


@dataclass(frozen=True, slots=True)
class Addition:
    """What is added to the sentences of a batch.

    Parameters
    ----------
    columns : tuple of Column
    comments : list of str, optional
        A line before each sentence.
    sentences : list of int, optional
        The sentences, where some come several times.
    """

    columns: tuple[Column, ...]
    comments: list[str] | None = None
    sentences: list[int] | None = None


class _Block(NamedTuple):
    """A sentence with one of its paths, as it is written."""

    sentence: int
    comment: str
    columns: list[list[str]]


def tagged(model: Model, batch: Corpus, wishes: Wishes, counts: Counts) -> Addition:
    """Tag a batch.

    Raises
    ------
    DataError
        A label known beforehand that the model does not have; names file and line.
    NoPathError
        A sentence has no legal label sequence, and `wishes` does not say what to do.
    """
    with counted():
        return _tagged(model, batch, wishes, counts)


def _tagged(model: Model, batch: Corpus, wishes: Wishes, counts: Counts) -> Addition:
    from fstcrf.joint import CRF

    if wishes.plain and (isinstance(model, CRF) or not wishes.search.bias):
        try:
            return Addition(_best(model, batch, wishes.search, counts))
        except NoPathError:
            pass  # the careful way knows where, and what is to be done
    from fstcrf.joint import compose

    composition = compose(model)
    blocks = [
        block
        for first, run in _runs(composition, batch)
        for block in _blocks(composition, first, run, wishes, counts)
    ]
    width = len(blocks[0].columns) if blocks else 0
    columns = tuple(_interned(block.columns[k] for block in blocks) for k in range(width))
    return Addition(
        columns,
        [block.comment for block in blocks] if wishes.commented else None,
        [block.sentence for block in blocks] if wishes.ranked else None,
    )


def check_sums(model: Model, wishes: Wishes) -> None:
    """Check before anything is decoded that probabilities can be had where they are wanted.

    Raises
    ------
    TooLargeError
        A grammar too large to multiply out.
    """
    from fstcrf.joint import CRF

    wanted = wishes.probabilities or wishes.marginals
    if not wanted or isinstance(model, CRF) or model.conditional:
        return
    try:
        _ = model.program.machine
    except TooLargeError:
        raise TooLargeError(
            "the grammar is too large to multiply out, which probabilities of single labels need; "
            "--confidence bounds those of whole answers"
        ) from None


def cascaded(model: Composition, batch: Corpus, threads: int) -> Addition:
    """Tag a batch with one tagger after the other, each reading the labels of those before it."""
    return Addition(model.cascade(batch, threads=threads))


def shown(option: str, names: Sequence[str], tapes: Sequence[str]) -> tuple[str, ...] | None:
    """Return the tapes that an option names, in the order of the model; None for all of them.

    Raises
    ------
    click.UsageError
        There is none of a name.
    """
    odd = [name for name in names if name not in tapes]
    if odd:
        raise click.UsageError(f"{option} {odd[0]}: the {option[2:]}s are {', '.join(tapes)}")
    found = tuple(tape for tape in tapes if tape in names)
    return None if found in ((), tuple(tapes)) else found


def write_tagged(
    answer: Callable[[Corpus], Addition], source: Input, path: str, output: str
) -> None:
    """Write a file again, with what is added to each batch of it."""
    from fstcrf.corpus import ColumnWriter
    from fstcrf.corpus.files import open_target

    writer: ColumnWriter | None = None
    with open_target(output) as file:
        for batch in source.stream(path):
            found = answer(batch)
            kept, between = source.written(batch)
            added = [f"%{k}" for k in range(len(found.columns))]
            writer = writer or ColumnWriter(file, [*kept, *added], separator=between)
            rows = batch if found.sentences is None else batch.select(found.sentences)
            for name, column in zip(added, found.columns, strict=True):
                rows = rows.with_interned(name, column)
            writer.write(rows, comments=found.comments)


def _best(model: Model, batch: Corpus, search: Search, counts: Counts) -> tuple[Column, ...]:
    """Return the best labels the fast way.

    Raises
    ------
    NoPathError
        A sentence has no legal label sequence.
    """
    from fstcrf.joint import CRF

    if isinstance(model, CRF):
        return (model.tag_column(batch, threads=search.threads, bias=search.bias or None),)
    with searching(model, batch):
        _, columns, inexact = model.decide(batch, threads=search.threads, budget=search.budget)
    counts.inexact += inexact
    return columns


def _runs(model: Composition, batch: Corpus) -> Iterator[tuple[int, Corpus]]:
    """Yield the sentences some at a time, with the number of the first."""
    import numpy as np

    cells = 1 if model.conditional else int(np.prod(model.program.shape))
    limit = max(1, _RUN_NUMBERS // cells)
    first = 0
    while first < len(batch):
        end = int(np.searchsorted(batch.offsets, batch.offsets[first] + limit, side="right")) - 1
        end = max(first + 1, end)
        yield first, batch[first:end]
        first = end


def _interned(lists: Iterator[list[str]]) -> Column:
    from fstcrf.corpus import Column

    return Column.from_strings(itertools.chain.from_iterable(lists))


# --- Blocks ---------------------------------------------------------------------------------------


def _blocks(
    model: Composition, first: int, run: Corpus, wishes: Wishes, counts: Counts
) -> Iterator[_Block]:
    """Yield what is written of a run of sentences, the first of which has a number."""
    answers = answered(model, run, wishes.search, counts)
    lengths = [b - a for a, b in itertools.pairwise(run.offsets.tolist())]
    rows = _marginals(answers, wishes)
    for k, (answer, length) in enumerate(zip(answers, lengths, strict=True)):
        cells = _Cells(model, wishes, answer, rows[k])
        sure = _sure(answer, wishes)
        for number, path in enumerate(answer.paths or (None,)):
            words = ["#", str(number)] if wishes.ranked else ["#"]
            words.append(_probability(answer, number, sure))
            if sure is not None and wishes.confidence:
                words.append(f"legal: {sure.legal}")
            columns = cells.nothing(length) if path is None else cells.of(path)
            yield _Block(first + k, " ".join(words), columns)


def _sure(answer: Answer, wishes: Wishes) -> Confidence | None:
    """Return bounds of the best path's probability, where they are wanted or needed."""
    if not answer.paths or answer.lattice is None or not wishes.commented:
        return None
    needed = math.isnan(answer.paths[0].probability) and wishes.search.tapes is None
    if not (needed or wishes.confidence):
        return None
    return answer.lattice.confidence(budget=wishes.search.budget)


def _probability(answer: Answer, number: int, sure: Confidence | None) -> str:
    """Return the probability of a path, with the width of its bounds where it is not exact."""
    if not answer.paths:
        return f"{0.0:f}"
    path = answer.paths[number]
    if sure is None or not math.isnan(path.probability):
        return f"{path.probability:f}"
    share = math.exp(path.score - answer.paths[0].score)  # of the best path's probability
    return f"{share * sure.probability.middle:f} ± {share * sure.probability.width / 2:.4f}"


def _marginals(answers: Sequence[Answer], wishes: Wishes) -> list[list[list[list[float]]]]:
    """Return the probabilities of each answer's labels: for each tape, a row a token."""
    found: list[list[list[list[float]]]] = [[] for _ in answers]
    if not (wishes.probabilities or wishes.marginals):
        return found
    from fstcrf.lattice import marginals

    live = [(k, a.lattice) for k, a in enumerate(answers) if a.lattice is not None and a.paths]
    parts = marginals([lattice for _, lattice in live], threads=wishes.search.threads)
    for (k, lattice), part in zip(live, parts, strict=True):
        tapes = part if len(lattice.tapes) > 1 else (part,)
        found[k] = [tape.tolist() for tape in tapes]
    return found


@dataclass(frozen=True, slots=True)
class _Cells:
    """The columns of a sentence: labels, probabilities of spans, probabilities of all labels."""

    model: Composition
    wishes: Wishes
    answer: Answer
    rows: list[list[list[float]]]

    def of(self, path: Path) -> list[list[str]]:
        """Return the columns of a path."""
        several = len(self._shown) > 1
        tapes = [list(labels) for labels in (path.labels if several else (path.labels,))]
        found = dict(zip(self._shown, tapes, strict=True))
        columns = [self._chosen(*pair) for pair in found.items()] if self.rows else tapes
        spans = [self._spans(tape, found[tape]) for tape in self.wishes.spans]
        return columns + spans + self._every(self._column)

    @property
    def _shown(self) -> tuple[str, ...]:
        return self.wishes.search.tapes or self.model.tapes

    def nothing(self, length: int) -> list[list[str]]:
        """Return the columns of a sentence without a path."""
        nothing = [NOTHING] * length
        width = len(self._shown) + len(self.wishes.spans)
        return [nothing] * width + self._every(lambda *_: nothing)

    def _every(self, column: Callable[[str, str], list[str]]) -> list[list[str]]:
        """Return a column for every label of every tape, where they are wanted."""
        if not self.wishes.marginals:
            return []
        return [
            column(tape, label) for tape in self._shown for label in self.model.label_sets[tape]
        ]

    def _chosen(self, tape: str, labels: list[str]) -> list[str]:
        index = {name: i for i, name in enumerate(self.model.label_sets[tape])}
        pairs = zip(labels, self._rows(tape), strict=True)
        return [f"{label}/{row[index[label]]:f}" for label, row in pairs]

    def _column(self, tape: str, label: str) -> list[str]:
        i = self.model.label_sets[tape].index(label)
        return [f"{label}/{row[i]:f}" for row in self._rows(tape)]

    def _rows(self, tape: str) -> list[list[float]]:
        return self.rows[self.model.tapes.index(tape)]

    def _spans(self, tape: str, labels: list[str]) -> list[str]:
        """Return the probability of each span at its first token."""
        from fstcrf.corpus import spans

        cells = [NOTHING] * len(labels)
        found = spans(labels)
        if found and self.answer.lattice is not None:
            chances = self.answer.lattice.span_probabilities(found, tape=tape)
            for span, chance in zip(found, chances.tolist(), strict=True):
                cells[span.start] = f"{chance:f}"
        return cells
