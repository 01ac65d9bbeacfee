"""A tagger asked on the command line, run by run of sentences, and its answers printed.

============  =====================================================================
tag_file      write a file again with the answers of a tagger
tagged        the best labels of a corpus, a column for each tape
done_of       report the progress in a batch
run_tokens    number of tokens that are decided together
joined        concatenated columns of runs
Outcomes      numbers of sentences without the requested answer
============  =====================================================================
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import numpy as np

from fstcrf.arrays import Floats
from fstcrf.cli.progress import Meter, file_share, progress
from fstcrf.cli.questions import Question
from fstcrf.cli.reporting import counted, place, say, working
from fstcrf.cli.sources import InputFile
from fstcrf.errors import DataError, NoPathError, TooLargeError
from fstcrf.ext.filling import KeptText
from fstcrf.files import open_binary, open_target, source_name
from fstcrf.kernel.lazy import shared
from fstcrf.lattices import Answer, Path
from fstcrf.lazy import LazyModule
from fstcrf.taggers.tagger import Tagger
from fstcrf.text.corpus import Column, Corpus
from fstcrf.text.corpus.items import LABEL
from fstcrf.text.corpus.schemes import OUTSIDE, has_spans

if TYPE_CHECKING:
    from fstcrf.lattices.results import Confidence
    from fstcrf.machines import grammar
else:  # plain tagging does not wait for it
    grammar = LazyModule("fstcrf.machines.grammar")

NOTHING = "_"
"""In a column: no label, no span that starts here."""

_RUN_NUMBERS = 4_000_000
"""Joint states of the tokens that are decided together."""
_LEAST_TOKENS = 20_000
PLAIN_TOKENS = 200_000
"""Tokens that taggers are asked about together where each decides for itself."""
_RUN_STEPS = 1_000_000_000
"""Number of tokens that are decided together in slow work, and between reports of progress."""
_LONG = 10.0
"""Seconds before a report about a search."""


# --- Asking ---------------------------------------------------------------------------------------


@dataclass(slots=True)
class Outcomes:
    """The number of sentences, and of the sentences without the requested answer, by reason."""

    sentences: int = 0
    skipped: int = 0  # without a legal label sequence
    grammar: int = 0  # answered without the grammar
    forced: int = 0  # answered without the labels known beforehand
    both: int = 0  # answered without either
    inexact: int = 0  # with the best labels found, not proven to be the best

    def add(self, answer: Answer) -> None:
        """Count the sentences of an answer."""
        unproven = ~answer.exact & (answer.scores > -np.inf)
        self.sentences += len(answer)
        self.skipped += int(answer.dead.sum())
        self.inexact += int(unproven.reshape(len(answer), answer.n).any(axis=1).sum())
        for change in ("grammar", "forced", "both"):
            count = getattr(self, change) + int((answer.changed == change).sum())
            setattr(self, change, count)

    def report(self) -> None:
        """Report these numbers on standard error."""
        for number, what in (
            (self.skipped, "tagged _: no label sequence is legal"),
            (self.grammar, "tagged without the grammar: with it no label sequence is legal"),
            (self.forced, "tagged without the forced labels, which no legal sequence has"),
            (self.both, "tagged without the grammar and the forced labels"),
            (self.inexact, "tagged with the best labels found, not proven to be the best"),
        ):
            if number:
                say(f"{number} sentence{'s' if number > 1 else ''} {what}")


def tagged(tagger: Tagger, data: Corpus, *, threads: int = 1) -> tuple[Column, ...]:
    """Return the best labels of a corpus, a column for each tape; report unproven ones."""
    outcomes = Outcomes()
    parts: list[list[Column]] = []
    with progress("deciding", total=len(data)) as meter:
        for _, answer in _answers(tagger, data, Question(threads=threads)):
            outcomes.add(answer)
            parts.append([answer[tape].column() for tape in answer.tapes])
            meter.add(len(answer))
    outcomes.report()
    return tuple(joined(parts))


def _answers(tagger: Tagger, batch: Corpus, asked: Question) -> Iterator[tuple[int, Answer]]:
    """Yield the answers of a batch some sentences at a time, with the number of the first.

    They share the time of the budget.
    """
    joint, started, told = tagger._joint(), time.monotonic(), False
    chain = joint is not None and joint._conditional
    single = chain and (asked.n > 1 or asked.tapes is not None)
    share = shared(asked.budget, len(batch))
    for first, end in _runs(tagger, batch, asked, single=single):
        if single and not told and time.monotonic() - started > _LONG:
            say(
                f"{first} of {len(batch)} sentences so far: the n best of a chain take long; "
                "--set max_states=N looks at fewer labellings"
            )
            told = True
        run = batch if end - first == len(batch) else batch[first:end]
        mine = replace(asked, budget=share(end - first))
        yield first, _decoded(tagger, run, mine, batch, first if single else None)


def _runs(
    tagger: Tagger, batch: Corpus, asked: Question, *, single: bool
) -> Iterator[tuple[int, int]]:
    """Yield the bounds of the sentences that are asked about together."""
    joint = tagger._joint()
    if asked.plain and not single and asked.tapes is None:
        timed = asked.budget is not None and asked.budget.seconds is not None
        limit = batch.n_tokens if timed else run_tokens(tagger)
    else:
        cells = max(len(labels) ** 2 for labels in tagger.label_sets.values())
        if joint is not None:
            cells = 1 if joint._conditional else int(np.prod(joint._program.shape))
        limit = max(1, _RUN_NUMBERS // cells)
    yield from _cut(batch, limit, single=single)


def run_tokens(tagger: Tagger) -> int:
    """Return the number of tokens that are decided together: fewer if each takes longer."""
    joint = tagger._joint()
    if joint is None:
        return PLAIN_TOKENS
    if joint._conditional or joint._program.decoder.lazy:
        return _LEAST_TOKENS
    shape = joint._program.shape
    steps = int(np.prod(shape)) * max(shape) * joint._program.n_residual
    return max(_LEAST_TOKENS, _RUN_STEPS // steps)


def _cut(batch: Corpus, limit: int, *, single: bool = False) -> Iterator[tuple[int, int]]:
    """Yield the bounds of runs of sentences with at most `limit` tokens, or of one sentence."""
    first = 0
    while first < len(batch):
        reach = batch.offsets[first] + limit
        end = int(np.searchsorted(batch.offsets, reach, side="right")) - 1
        end = first + 1 if single else max(first + 1, end)
        yield first, end
        first = end


def _decoded(
    tagger: Tagger, run: Corpus, asked: Question, batch: Corpus, number: int | None
) -> Answer:
    """Ask about a run of a batch, or about one sentence; a long search reports itself.

    Raises
    ------
    NoPathError
        With file and line of the first token that is to blame.
    TooLargeError
        With file and line of the sentence that is too long.
    """
    joint = tagger._joint()
    slow = joint is not None and (len(joint.tapes) > 1 or joint._program.decoder.lazy)
    told = batch if number is not None else run
    with counted(), _measured(run), _telling(told, number, wanted=slow):
        try:
            return tagger.decode(
                run,
                n=asked.n,
                forced=asked.force,
                bias=asked.bias,
                on_no_path=asked.on_no_path,
                search=asked.search,
                budget=asked.budget,
                threads=asked.threads,
                tapes=asked.tapes,
            )
        except NoPathError as error:
            raise placed(error, run) from None


@contextmanager
def _telling(batch: Corpus, number: int | None, *, wanted: bool) -> Iterator[None]:
    """Report the current work, if it is a long search for best paths."""
    if wanted and len(batch):
        with working(place(batch, number)):
            yield
    else:
        yield


@contextmanager
def _measured(run: Corpus) -> Iterator[None]:
    """Add file and line to the error of a sentence that is too long."""
    try:
        yield
    except TooLargeError as error:
        (long,) = np.flatnonzero(np.diff(run.offsets) == error.tokens)[:1].tolist() or (None,)
        if long is None:
            raise
        where = run.where(int(run.offsets[long]))
        message = DataError(str(error), **where)
        raise TooLargeError(str(message), tokens=error.tokens) from None


def placed(error: NoPathError, run: Corpus) -> NoPathError:
    """Return the error with file and line, and advice."""
    if error.sentence is None:
        return error
    why = error.reason
    if error.position is not None:
        why = "no label sequence is legal from here on"
        if error.constraints:
            why += f" under {grammar.listed_names(error.constraints)}"
            why += " together" * (len(error.constraints) > 1)
    blame = f"{error.blame}: " if error.blame else ""
    where = run.where(int(run.offsets[error.sentence]) + (error.position or 0))
    message = DataError(f"{blame}{why}; --on-no-path skip or relax goes on", **where)
    return NoPathError(str(message), constraints=error.constraints)


# --- Printing -------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Addition:
    """Additions to the sentences of a batch."""

    columns: list[Any] = field(default_factory=list)
    comments: list[str] = field(default_factory=list)  # a line before each sentence, or none
    sentences: list[int] = field(default_factory=list)  # if some are repeated


def tag_file(
    tagger: Tagger, source: InputFile, path: str, output: str, asked: Question
) -> Outcomes:
    """Write a file again, with the requested answers for each sentence."""
    outcomes = Outcomes()
    apart = source.conllu

    def added(batch: Corpus, meter: Meter) -> _Addition:
        found, parts = _Addition(), []
        for first, answer in _answers(tagger, batch, asked):
            outcomes.add(answer)
            if asked.plain:
                parts.append([answer[tape].column(missing=NOTHING) for tape in answer.tapes])
            else:
                with counted(), _measured(batch):
                    _add_blocks(found, answer, asked, first, apart=apart)
            done_of(meter, batch, first + len(answer), len(answer))
        found.columns = joined(parts) if parts else found.columns
        return found

    _write(added, source, path, output, asked, _names(tagger, asked))
    return outcomes


def _names(tagger: Tagger, asked: Question) -> list[str]:
    """Return the names of columns in CoNLL-U, which has one for each number."""
    tapes = asked.tapes or tagger.tapes
    names = list(tapes)
    if asked.probabilities or asked.marginals:
        names += [f"{tape}:p" for tape in tapes]
    names += [f"{tape}:span" for tape in asked.spans]
    if asked.marginals:
        names += [f"{tape}:{label}" for tape in tapes for label in tagger.label_sets[tape]]
    return names


def done_of(meter: Meter, batch: Corpus, end: int, count: int) -> None:
    """Report the sentences of a batch before `end`, of which the last `count` are new."""
    meter.add(count)
    last = int(batch.offsets[end]) - 1
    if batch.lines is not None and last >= 0:
        meter.line = int(batch.lines[last])


def write_tagged(
    answer: Callable[[Corpus, Meter], tuple[Column, ...]],
    source: InputFile,
    path: str,
    output: str,
    tapes: Sequence[str],
) -> None:
    """Write a file again, with labels of tapes added to each batch; `answer` counts sentences."""

    def added(batch: Corpus, meter: Meter) -> _Addition:
        return _Addition(list(answer(batch, meter)))

    _write(added, source, path, output, Question(), tapes)


def _write(
    added: Callable[[Corpus, Meter], _Addition],
    source: InputFile,
    path: str,
    output: str,
    asked: Question,
    names: Sequence[str],
) -> None:
    what = f"tagging {'standard input' if path == '-' else path}"
    with (
        open_target(output) as file,
        progress(what, output=output) as meter,
        open_binary(path) as opened,
    ):
        meter.measured(file_share(path, meter))
        text = KeptText(opened, source_name(path))
        filler = source.filler(text, file, names)
        for batch in source.stream(cast("BinaryIO", text)):
            found = added(batch, meter)
            columns = [
                c if isinstance(c, Column) else Column.from_strings(c) for c in found.columns
            ]
            if source.items:  # the attributes have done their work
                rows = batch.select(found.sentences) if asked.ranked else batch
                columns.insert(0, rows.column(LABEL))
            filler.write(
                batch,
                columns,
                sentences=found.sentences if asked.ranked else None,
                comments=found.comments if asked.commented else None,
            )
        filler.close()


def joined(parts: Sequence[Sequence[Column]]) -> list[Column]:
    """Return the columns of runs one below the other."""
    if len(parts) == 1:
        return list(parts[0])
    found = []
    for columns in zip(*parts, strict=True):
        values = dict.fromkeys(value for column in columns for value in column.values)
        names = {value: i for i, value in enumerate(values)}
        ids = [np.asarray([names[v] for v in c.values], dtype=np.int32)[c.ids] for c in columns]
        found.append(Column(np.concatenate(ids), tuple(names)))
    return found


def _add_blocks(
    found: _Addition, answer: Answer, asked: Question, first: int, *, apart: bool
) -> None:
    """Add every path of every sentence of a run, with its numbers.

    With `apart`, numbers have a column each, and comments a name.
    """
    cells = _Cells(answer, asked, apart=apart)
    for b in range(len(answer)):
        paths: Sequence[Path | None] = answer.paths(b) or (None,)
        sure = _sure(answer, b, paths[0], asked)
        for k, path in enumerate(paths):
            words = ["#", str(k)] if asked.ranked else ["#"]
            if apart:
                words[:1] = ["# nbest =" if asked.ranked else "# probability ="]
            words.append(f"{0.0:f}" if path is None else _probability(path, paths[0], sure))
            if sure is not None and asked.confidence:
                words.append(f"legal: {sure.legal}")
            columns = cells.of(b, k, path)
            found.columns = found.columns or [[] for _ in columns]
            for whole, mine in zip(found.columns, columns, strict=True):
                whole.extend(mine)
            found.comments.append(" ".join(words))
            found.sentences.append(first + b)


def _sure(answer: Answer, b: int, path: Path | None, asked: Question) -> Confidence | None:
    """Return bounds of the best path's probability, if they are requested or needed."""
    if path is None or not asked.commented:
        return None
    needed = math.isnan(path.probability) and asked.tapes is None
    if not (needed or asked.confidence):
        return None
    return answer.confidence(b)


def _probability(path: Path, best: Path | None, sure: Confidence | None) -> str:
    """Return the probability of a path, with the width of its bounds if it is not exact."""
    if sure is None or best is None or not math.isnan(path.probability):
        return f"{path.probability:f}"
    share = math.exp(path.score - best.score)  # of the best path's probability
    return f"{share * sure.probability.middle:f} ± {share * sure.probability.width / 2:.4f}"


class _Cells:
    """The columns of sentences: labels, probabilities of spans, probabilities of all labels."""

    def __init__(self, answer: Answer, asked: Question, *, apart: bool) -> None:
        self.answer, self.asked, self.apart = answer, asked, apart
        sets = answer.label_sets
        kept = [t for t in answer.tapes if asked.least is not None and has_spans(sets[t])]
        single = [t for t in answer.tapes if asked.least is not None and t not in kept]
        tapes = answer.tapes if asked.probabilities or asked.marginals else single
        self.rows = {tape: answer.marginals(tape) for tape in tapes}
        self.spans = {
            (tape, k): (answer[tape].spans(k=k), self._span_probabilities(tape, k))
            for tape in dict.fromkeys([*asked.spans, *kept])
            for k in range(answer.n)
        }

    def _span_probabilities(self, tape: str, k: int) -> list[Floats]:
        found = self.answer.span_probabilities(tape, k)
        if self.asked.calibration is None:
            return found
        pairs = zip(found, self.answer[tape].spans(k=k), strict=True)
        return [self._calibrated(p, [span.type for span in spans]) for p, spans in pairs]

    def _calibrated(self, p: Floats, types: Sequence[str]) -> Floats:
        known = self.asked.calibration
        return p if known is None else known(np.minimum(p, 1.0), types)

    def of(self, b: int, k: int, path: Path | None) -> list[list[str]]:
        """Return the columns of a path; empty ones for a sentence without one."""
        tapes = self.answer.tapes
        size = int(self.answer.offsets[b + 1] - self.answer.offsets[b])
        if path is None:
            every = sum(len(self.answer.label_sets[t]) for t in tapes) * self.asked.marginals
            single = len(tapes) * (self.apart and self._numbered)
            return [[NOTHING] * size] * (len(tapes) + single + len(self.asked.spans) + every)
        labels = path.labels if len(tapes) > 1 else (path.labels,)
        found = [self._labels(b, k, tape, own) for tape, own in zip(tapes, labels, strict=True)]
        if self.apart and self._numbered:
            pairs = zip(tapes, found.copy(), strict=True)
            found += [self._probabilities(b, tape, mine) for tape, mine in pairs]
        found += [self._spans(b, k, tape, size) for tape in self.asked.spans]
        if self.asked.marginals:
            found += [column for tape in tapes for column in self._every(b, tape)]
        return found

    def _labels(self, b: int, k: int, tape: str, labels: Sequence[str]) -> list[str]:
        sure = list(labels) if self.asked.least is None else self._sure(b, k, tape, labels)
        if self.apart or not self._numbered:
            return sure
        numbers = self._probabilities(b, tape, sure)
        return [
            name if number == NOTHING else f"{name}/{number}"
            for name, number in zip(sure, numbers, strict=True)
        ]

    @property
    def _numbered(self) -> bool:
        return self.asked.probabilities or self.asked.marginals

    def _probabilities(self, b: int, tape: str, labels: Sequence[str]) -> list[str]:
        """Return the probability of each label; empty for a label of another tape."""
        index = {name: i for i, name in enumerate(self.answer.label_sets[tape])}
        rows = self.rows[tape][b].tolist()
        return [
            f"{row[index[name]]:f}" if name in index else NOTHING
            for name, row in zip(labels, rows, strict=True)
        ]

    def _sure(self, b: int, k: int, tape: str, labels: Sequence[str]) -> list[str]:
        """Return labels without improbable spans, or without improbable labels outside spans."""
        found, least, known = list(labels), self.asked.least, self.answer.label_sets[tape]
        if (tape, k) not in self.spans:
            place = [known.index(label) for label in labels]
            p = self._calibrated(self.rows[tape][b][np.arange(len(place)), place], labels)
            pairs = zip(labels, p.tolist(), strict=True)
            return [NOTHING if chance < least else label for label, chance in pairs]
        nothing = OUTSIDE if OUTSIDE in known else NOTHING
        spans, chances = self.spans[tape, k]
        for span, p in zip(spans[b], chances[b].tolist(), strict=True):
            if p < least:
                found[span.start : span.end] = [nothing] * (span.end - span.start)
        return found

    def _spans(self, b: int, k: int, tape: str, size: int) -> list[str]:
        """Return the probability of each span that is printed at its first token."""
        cells, least = [NOTHING] * size, self.asked.least or 0.0
        spans, chances = self.spans[tape, k]
        for span, chance in zip(spans[b], chances[b].tolist(), strict=True):
            if chance >= least:
                cells[span.start] = f"{chance:f}"
        return cells

    def _every(self, b: int, tape: str) -> list[list[str]]:
        """Return a column for every label of a tape."""
        rows = self.rows[tape][b].tolist()
        return [
            [f"{row[i]:f}" if self.apart else f"{label}/{row[i]:f}" for row in rows]
            for i, label in enumerate(self.answer.label_sets[tape])
        ]
