"""The row of lattices that are stored as arcs: segments, spans, words, machines, CTC frames.

An `ArcRow` holds the input arcs and the rules of a grammar. The rules are multiplied in when the
row is first asked. `fstcrf.lattices.constructors` makes the rows of all kinds.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np

from fstcrf.arguments import items_of, one_of, string_list
from fstcrf.arrays import Bools, Floats, Ints, Longs, Ragged, distinct
from fstcrf.errors import (
    AmbiguousError,
    GrammarError,
    LabelError,
    NoPathError,
    OptionError,
    ShapeError,
)
from fstcrf.kernel import Budget
from fstcrf.lattices import arcproducts
from fstcrf.lattices.arcs import ArcEngine
from fstcrf.lattices.ctc import Frames
from fstcrf.lattices.engine import (
    AnyPath,
    Coupling,
    EngineRequest,
    Labelling,
    Over,
    PathBatch,
    Row,
    Segment,
    Tape,
    refuse_options,
)
from fstcrf.lattices.labellings import LabelledMachine, usual_budget
from fstcrf.lattices.machines import joint_symbol
from fstcrf.lattices.paths import Path, labels_of_tapes, share
from fstcrf.lattices.reading import label_pairs
from fstcrf.lattices.results import MinimumRisk, ProbableSpans, SegmentCounts
from fstcrf.lazy import LazyModule, given_state, made_once
from fstcrf.machines.grammar import Acceptor, Grammar
from fstcrf.machines.plans import Plan, Search
from fstcrf.machines.plans.chain import scaled_acceptor
from fstcrf.machines.plans.program import AxisPlan
from fstcrf.machines.transducer import Transducer
from fstcrf.text.corpus import Scheme, named_scheme
from fstcrf.text.corpus.schemes import OUTSIDE, split_label

if TYPE_CHECKING:
    from fstcrf.kernel.acyclic import Acyclic
    from fstcrf.lattices import runs
    from fstcrf.lattices.runs import SpanRuns
else:  # only questions about spans import it
    runs = LazyModule("fstcrf.lattices.runs")

SEGMENT = "segment"
"""Usual name of a tape of segments."""


class Rule(NamedTuple):
    """A part of a grammar, the numbers of the tapes that it reads, and which labels it reads."""

    acceptor: Acceptor
    tapes: tuple[int, ...]
    over: Over


def unknown_label(label: str, labels: Sequence[str]) -> str:
    """Return the message about a label that is not in the list."""
    names = ", ".join(labels[:12]) + (", …" if len(labels) > 12 else "")
    return f"unknown label {label!r}; the labels are {names}"


@dataclass(frozen=True, eq=False)
class ArcRow(Row):
    """A weighted set of paths that is stored as arcs, under a grammar.

    Parameters
    ----------
    unconstrained : ArcEngine
        One row, without the grammar.
    on : tuple of Tape
    n_input_arcs : int, optional
        Arcs of the input, which `ArcEngine.origin` numbers; None if the input is scores of labels.
    rules : tuple of Rule
        The grammar.
    frames : Frames, optional
        The frames of a CTC lattice, in which strings are searched.
    dead : int, optional
        First token that no path passes, if the row has no path.
    machines : tuple of Transducer
        The composed transducers, whose arcs `ArcEngine.transducer_arcs` numbers.
    stepwise : tuple of str
        Tapes that have scores of pairs of labels at each token.
    make_unambiguous : callable, optional
        Returns the same row, without rules, composed of transducers with one run over the same
        strings, as far as there are such. Absent if this row is composed of them.
    """

    unconstrained: ArcEngine
    on: tuple[Tape, ...]
    n_input_arcs: int | None = None
    rules: tuple[Rule, ...] = ()
    frames: Frames | None = None
    dead: int | None = None
    machines: tuple[Transducer, ...] = ()
    stepwise: tuple[str, ...] = ()
    make_unambiguous: Callable[[], ArcRow] | None = None

    summable: ClassVar = True
    large: ClassVar = ""
    __getstate__ = given_state

    @property
    def n_selectable_arcs(self) -> int | None:
        return self.n_input_arcs if self.segmented else None

    @made_once
    def engine(self) -> ArcEngine:
        return self.unambiguous.legal.resolved

    @made_once
    def legal(self) -> ArcEngine:
        """The paths under the grammar; several of them may have the same labels."""
        arcs = self.unconstrained
        for rule in self.rules:
            arcs = arcs.product(*rule)
        return arcs

    @property
    def search_engine(self) -> ArcEngine:
        """The engine for best paths."""
        unknown = self.legal.ambiguous and self.legal.run_keys is None
        return self.engine if unknown else self.legal

    @made_once
    def unambiguous(self) -> ArcRow:
        """The row with one run over the same strings, if there are such transducers."""
        return (
            self
            if self.make_unambiguous is None
            else replace(self.make_unambiguous(), rules=self.rules)
        )

    @property
    def summed(self) -> ArcRow:
        """The row in an unambiguous form, which has sums over its paths."""
        resolved = self.unambiguous.unconstrained.resolved
        return (
            self.unambiguous
            if resolved is self.unambiguous.unconstrained
            else replace(self.unambiguous, unconstrained=resolved)
        )

    @made_once
    def _searched(self) -> Frames | None:
        """The frames in which strings are searched, for CTC lattices under simple rules."""
        if self.frames is None or any(rule.over != "segments" for rule in self.rules):
            return None
        return self.frames.under([rule.acceptor for rule in self.rules])

    def has_token_transitions(self, tape: int) -> bool:
        return self.on[tape].name in self.stepwise

    @property
    def covers_text(self) -> bool:
        return self.unconstrained.texts is not None

    @property
    def length(self) -> int:
        if self.covers_text:
            return int(self.unconstrained.rows.lengths[0])
        there = (self.legal.final > -np.inf).any()
        return int((self.legal if there else self.unconstrained).time_aligned.rows.lengths[0])

    def __len__(self) -> int:
        shortest, longest = self.lengths
        if shortest != longest:
            raise ShapeError(
                f"len() needs paths of one length; these have {shortest} to {longest} labels"
            )
        return shortest

    @made_once
    def lengths(self) -> tuple[int, int]:
        return (self.length, self.length) if self.covers_text else self.legal.lengths()

    # --- Without a path -----------------------------------------------------------------------

    def check_alive(self) -> None:
        total = self.legal.best_scores if self.legal.ambiguous else self.legal.log_z
        if total[0] == -np.inf:
            raise self.no_path()

    def no_path(self, paths: PathBatch | None = None) -> NoPathError:
        del paths
        if not self.segmented:
            if self.dead is None:
                return NoPathError("the lattice has no path")
            return NoPathError("every label sequence is forbidden from here on", position=self.dead)
        position = self.legal.furthest()
        if position >= self.length:
            return NoPathError("every sequence of segments that covers the text is forbidden")
        return NoPathError("no sequence of segments covers the text from here", position=position)

    # --- Batches ------------------------------------------------------------------------------

    def batch_key(self, request: EngineRequest) -> Hashable:
        return (self.search_engine if request.best else self.engine).shared

    @staticmethod
    def engines(
        rows: Sequence[ArcRow], numbers: Sequence[int], request: EngineRequest
    ) -> Iterator[tuple[slice, ArcEngine]]:
        del numbers
        refuse_options({"search": request.search})
        engines = [row.search_engine if request.best else row.engine for row in rows]
        if request.time_aligned:
            engines = [engine.time_aligned for engine in engines]
        for first, end in engines[0].runs(engines):
            part = slice(first, end)
            yield part, engines[0].joined(engines[part])

    # --- Paths --------------------------------------------------------------------------------

    def searched(
        self, n: int, budget: Budget | None, search: Search | None
    ) -> tuple[ArcEngine, PathBatch]:
        refuse_options({"budget": budget, "search": search})
        return self.search_engine, self.search_engine.nbest(n)

    def labellings(
        self, n: int, tapes: tuple[str, ...], budget: Budget | None, search: Search | None
    ) -> list[AnyPath]:
        if len(self.on) == 1 and self._deterministic:
            return self.nbest(n, budget, search)
        refuse_options({"budget": budget, "search": search})
        names = [tape.name for tape in self.on]
        numbers = [names.index(tape) for tape in tapes]
        machine, code, rows = self._sequences(self.legal, numbers)
        best = islice(LabelledMachine(machine, code, summed=False).search(), n)
        return [self._labelling(numbers, rows[list(x.labels)], x.score) for x in best]

    def token_labellings(
        self, tapes: Sequence[int], loose: Sequence[Collection[int]]
    ) -> Iterator[tuple[Ints, float]]:
        """Yield the distinct labellings of some tapes, best first, with the score of the best path.

        A labelling is int32 [k, 2 · tapes + 1]: for each run of tokens, the label of each tape,
        whether a segment begins there on each tape (0 for a label in `loose`), and the number of
        tokens.
        """
        arcs = self.legal.time_aligned
        machine, which = arcs.explicit
        columns = [arcs.under[:, k] for k in tapes]
        for k, labels in zip(tapes, loose, strict=True):
            begins = (arcs.label[:, k] >= 0) & ~np.isin(arcs.under[:, k], [*labels])
            columns.append(begins.astype(np.int32))
        columns.append(arcs.tokens.astype(np.int32))
        rows, code = np.unique(np.column_stack(columns), axis=0, return_inverse=True)
        code = np.where(arcs.tokens == 0, -1, code.reshape(-1))
        read = code if which is None else np.append(code, -1)[which]
        for best in LabelledMachine(machine, read.astype(np.int32), summed=False).search():
            yield rows[list(best.labels)], best.score

    def strings(
        self, tape: int, n: int, budget: int | None, log_z: float
    ) -> list[Path[tuple[str, ...]]]:
        best = self.engine.labels_along(self.engine.nbest(1).elements, tape).label.tolist()
        if self._searched is not None:
            frames = self._searched
            candidates = frames.search(budget or usual_budget(frames.score.size), tuple(best))
        else:
            machine, code, rows = self._sequences(self.engine, [tape])
            place = {label: k for k, (label,) in enumerate(rows.tolist())}
            likely, strings = (
                tuple(place[k] for k in best),
                LabelledMachine(machine, code, summed=True),
            )
            searched = strings.search(
                budget=budget or usual_budget(len(code)),
                likely=lambda: (likely, strings.total(likely)),
            )
            candidates = (one._replace(labels=tuple(rows[list(one.labels), 0])) for one in searched)
        names = self.on[tape].labels
        return [
            Path(
                tuple(names[k] for k in one.labels),
                one.score,
                share(one.score, log_z),
                exact=one.exact,
                bound=one.bound,
                tapes=(self.on[tape].name,),
            )
            for one in islice(candidates, n)
        ]

    @property
    def _deterministic(self) -> bool:
        """Whether each label sequence has at most one path."""
        arcs = self.legal
        if arcs.pairs is not None:
            return False
        label = arcs.label[:, 0]
        read = distinct(arcs.source.astype(np.int64) * len(self.on[0].labels) + label)
        return len(read) == len(label) and bool((label >= 0).all())

    def _sequences(self, arcs: ArcEngine, tapes: Sequence[int]) -> tuple[Acyclic, Ints, Ints]:
        """Return a machine, the symbol of each of its arcs, and the labels of each symbol.

        A symbol stands for the labels that begin with an arc on some tapes; −1: no label begins.
        """
        machine, which = arcs.explicit
        rows, code = np.unique(arcs.label[:, tapes], axis=0, return_inverse=True)
        code = np.where((rows < 0).all(axis=1), -1, np.arange(len(rows)))[code.reshape(-1)]
        read = code if which is None else np.append(code, -1)[which]
        return machine, read.astype(np.int32), rows

    def _labelling(self, tapes: Sequence[int], label: Ints, score: float) -> AnyPath:
        """Return labels of some tapes, [k, tapes], as the `Path` of a score."""
        rows = [row[row >= 0].tolist() for row in label.reshape(-1, len(tapes)).T]
        names = [
            tuple(self.on[k].labels[x] for x in row) for k, row in zip(tapes, rows, strict=True)
        ]
        chance: Any = partial(self.chance, score)
        shown = tuple(self.on[k].name for k in tapes)
        return Path(labels_of_tapes(names), score, chance, exact=True, bound=score, tapes=shown)

    def chance(self, score: float) -> float:
        """Return the probability of a path with this score; NaN if there is no log Z."""
        try:
            return share(score, float(self.engine.log_z[0]))
        except AmbiguousError:
            return np.nan

    def _sum_of(self, tapes: Sequence[int], rows: Sequence[Sequence[int]]) -> float:
        arcs = self.engine
        for tape, row in zip(tapes, rows, strict=True):
            arcs = arcproducts.spelling(arcs, tape, row)
        return float(arcs.log_z[0])

    def expectations(self) -> SegmentCounts:
        """Return the expected number of each input arc and of each pair of labels."""
        self.check_alive()
        arcs, size = self.engine, len(self.on[0].labels)
        of_arcs = self.arc_probabilities()
        by_label = arcs.pairs is not None and arcs.pairs.pair.shape == (1, size + 1, size)
        pairs = arcs.expected_pairs() if by_label else None
        if pairs is not None and (arcs.left == arcs.label[:, 0]).all():
            count, ends = pairs
            return SegmentCounts(of_arcs, count[:-1], count[-1], ends[:-1])
        arcs = self.engine.time_aligned
        (total,) = label_pairs(arcs, arcs.label[:, 0], size)
        last = np.maximum(total.sum(axis=0) - total[:-1].sum(axis=1), 0.0)
        return SegmentCounts(of_arcs, total[:-1], total[-1], last)

    def expected_output(self, tape: int) -> Floats:
        """Return the expected number of each label written at each boundary, [T + 1, L]."""
        self.check_alive()
        arcs, size = self.engine.time_aligned, len(self.on[tape].labels)
        arc = np.flatnonzero(arcs.label[:, tape] >= 0)
        cell = arcs.position[arcs.target[arc]] * size + arcs.label[arc, tape]
        least = (self.length + 1) * size
        count = np.bincount(cell, weights=arcs.posterior[arc], minlength=least)
        return count.astype(np.float64).reshape(-1, size)

    def arc_probabilities(self) -> Floats:
        """Return the probability of each input arc, float64 [E]."""
        self.check_alive()
        there, arcs = self.engine.origin >= 0, self.engine
        weights, least = arcs.posterior[there], self.n_input_arcs or 0
        total = np.bincount(arcs.origin[there], weights=weights, minlength=least)
        return total.astype(np.float64)

    def labels_sum(self, labels: Mapping[int, Sequence[str]]) -> float:
        if self._searched is not None:
            (row,) = labels.values()
            return self._searched.log_sum(tuple(self._ids(row)))
        return self._sum_of([*labels], [self._ids(row, tape) for tape, row in labels.items()])

    def clamped(self, labels: Labelling) -> ArcRow:
        rows: Any = labels  # `None`: any labels of one tape
        if rows is not None and not isinstance(rows, list | tuple):
            rows = list(items_of(rows, "the labels are", "a list of labels or segments"))
        tapes = rows is None or (len(self.on) > 1 and any(x is None or _strings(x) for x in rows))
        if self.segmented and not tapes and not (rows and isinstance(rows[0], str)):
            tape = self._of_segments
            index = {label: k for k, label in enumerate(self.on[tape].labels)}
            arcs = arcproducts.exactly(self.engine.time_aligned, tape, *self._checked(rows, index))
        else:
            several = len(self.on) > 1 and rows and not isinstance(rows[0], str)
            arcs = self.engine
            for tape, row in enumerate(rows if several else [rows]):
                if row is not None:
                    arcs = arcproducts.spelling(arcs, tape, self._ids(row, tape))
        return replace(self.unambiguous, unconstrained=arcs, rules=(), frames=None)

    def _ids(self, labels: Sequence[str], tape: int = 0) -> list[int]:
        index = {label: k for k, label in enumerate(self.on[tape].labels)}
        labels = string_list(labels, "label")
        for label in labels:
            if self.frames is not None and index.get(label, -1) in (-1, self.frames.blank):
                raise LabelError(f"{label!r} is not a label of strings")
            if label not in index:
                raise LabelError(unknown_label(label, self.on[tape].labels))
        return [index[label] for label in labels]

    @property
    def _of_segments(self) -> int:
        return next((k for k, tape in enumerate(self.on) if tape.segments), 0)

    def _checked(
        self, spans: Sequence[Segment], index: Mapping[str, int]
    ) -> tuple[Longs, Longs, Longs]:
        """Return the start, end and label number of each span, int64 [k] each, checked."""
        for number, span in enumerate(spans):
            if not _is_segment(span):
                raise OptionError(
                    f"segment {number} is {span!r}, expected a tuple: start, end (exclusive), label"
                )
        for start, end, label in spans:
            if not 0 <= start < end <= self.length:
                raise OptionError(f"no span {start}:{end} in a text of {self.length} tokens")
            if label not in index:
                raise LabelError(unknown_label(label, tuple(index)))
        rows = [(start, end, index[label]) for start, end, label in spans]
        columns = np.asarray(rows, dtype=np.int64).reshape(-1, 3).T
        return columns[0], columns[1], columns[2]

    # --- Spans --------------------------------------------------------------------------------

    @made_once
    def _runs(self) -> dict[tuple[int, Scheme], SpanRuns]:
        return {}

    def _runs_of(self, tape: int, scheme: str | Scheme | None) -> SpanRuns:
        """Return the spans of a tape as runs of arcs.

        A scheme ("conlleval" if `scheme` is absent) reads labels of tokens such as ``B-NP``. Each
        other label, and each segment, is a span.
        """
        self.check_alive()
        on, chosen = self.on[tape], named_scheme(scheme or "conlleval")
        in_scheme = any(split_label(label, chosen)[0] not in (OUTSIDE, "?") for label in on.labels)
        names_segments = on.segments or on.output or not in_scheme
        if names_segments and scheme is not None:
            raise OptionError(
                "scheme= is for labels of tokens: the labels of this lattice's arcs "
                "already name whole segments"
            )
        if (tape, chosen) not in self._runs:
            arcs, read = self.engine.time_aligned, None if names_segments else chosen
            self._runs[tape, chosen] = runs.SpanRuns.of(arcs, tape, on.labels, read)
        return self._runs[tape, chosen]

    def span_probabilities(
        self, spans: Sequence[Segment], tape: int, scheme: str | Scheme | None
    ) -> Floats:
        spans_of = self._runs_of(tape, scheme)
        index = {name: k for k, name in enumerate(spans_of.types)}
        return spans_of.probabilities(*self._checked(spans, index))

    def probable_spans(self, above: float, tape: int, scheme: str | Scheme | None) -> ProbableSpans:
        return self._runs_of(tape, scheme).probable(above)

    def span_risk(self, tape: int, scheme: str | Scheme | None) -> MinimumRisk:
        spans = self._runs_of(tape, scheme)
        path, expected = spans.best()
        if spans.tape == tape:
            return MinimumRisk(self.labels_of(spans.ended, path), expected)
        names, along = self.on[tape].labels, spans.ended.labels_along(path, tape)
        return MinimumRisk(tuple([names[k] for k in along.label.tolist()]), expected)

    # --- Changes ------------------------------------------------------------------------------

    def restrict(self, masks: Sequence[Bools]) -> ArcRow:
        if self.make_unambiguous is not None:
            return self.unambiguous.restrict(masks)
        arcs, frames = self.unconstrained.time_aligned, self.frames
        for tape, mask in enumerate(masks):
            if mask.ndim == 1:
                allowed = np.asarray(np.append(mask, True)[arcs.origin], dtype=bool)
            else:
                allowed = arcs.covers(tape).allowed(mask, arcs.n_elements)
            arcs = arcs.with_arcs(allowed)
            frames = None if frames is None else frames.restrict(mask)
        return self._left(arcs, frames)

    def bounded(self, wanted: Longs) -> ArcRow:
        """Return the paths that begin or end a label at each 1 of `wanted`, [T + 1], at no −1."""
        row = self.unambiguous
        return row._left(arcproducts.bounded(row.unconstrained.time_aligned, wanted), None)  # noqa: SLF001

    def _left(self, arcs: ArcEngine, frames: Frames | None) -> Self:
        """Return the row with other arcs; without a text, arcs on no path are removed."""
        if self.covers_text:
            return replace(self, unconstrained=arcs, frames=frames)
        left = arcs.trimmed()
        dead = arcs.furthest() if not (left.final > -np.inf).any() else None
        return replace(self, unconstrained=left, dead=self.dead if dead is None else dead)

    def scale(self, factor: float, *, grammar: bool) -> ArcRow:
        if (frozen := self.summed) is not self:
            return frozen.scale(factor, grammar=grammar)
        rules = self.rules
        if grammar:
            each = [(rule, scaled_acceptor(rule.acceptor, factor)) for rule in rules]
            rules = tuple(rule._replace(acceptor=acceptor) for rule, acceptor in each)
        frames = None if self.frames is None else self.frames.scale(factor)
        return replace(
            self, unconstrained=self.unconstrained.scale(factor), rules=rules, frames=frames
        )

    def reweight(self, tables: Sequence[Floats]) -> ArcEngine:
        arcs = self.engine.time_aligned
        value = np.zeros(arcs.n_elements)
        for tape, table in enumerate(tables):
            value += arcs.covers(tape).sum_over_tokens(table, arcs.n_elements)
        return arcs.reweight(value)

    def without_grammar(self) -> Self:
        return replace(self, rules=())

    def without_scores(self) -> Self:
        silent = [rule._replace(acceptor=rule.acceptor.support()) for rule in self.rules]
        return replace(self, rules=tuple(silent))

    def constrained(
        self, grammar: Grammar, over: Over | None, search: Search | None, budget: Budget | None
    ) -> Self:
        refuse_options({"search": search, "budget": budget})
        if over is not None:
            one_of("over", over, Over)
        sets = {tape.name: tape.labels for tape in self.on}
        try:
            parts = grammar.bind(
                sets if over != "segments" else {self.on[0].name: self.on[0].labels}
            )
        except GrammarError as error:
            if over is not None or len(self.on) == 1:
                raise
            try:
                parts = grammar.bind({self.on[0].name: self.on[0].labels})
            except GrammarError:
                raise error from None
        rules, names = list(self.rules), list(sets)
        for part in parts:
            tapes = tuple(names.index(tape) if tape else 0 for tape in part.tapes)
            read: Over = over or ("segments" if len(tapes) == 1 else "tokens")
            away = next((self.on[k].name for k in tapes if self.on[k].output), None)
            if away is not None and read == "tokens":
                raise GrammarError(
                    f"tape {away!r} has no label per token: use a grammar that reads only this "
                    'tape, with over="segments"'
                )
            rules.append(Rule(part, tapes, read))
        return replace(self, rules=tuple(rules))

    def arcs(self) -> ArcRow:
        return self

    def compose(
        self,
        others: Sequence[Row],
        names: Sequence[Mapping[str, str]],
        coupling: Coupling,
    ) -> ArcRow:
        parts = [self, *(other.arcs() for other in others)]
        first = Ragged.from_lengths(len(part.on) for part in parts).offsets.tolist()
        arcs = self.engine.time_aligned
        for k, part in enumerate(parts[1:], start=1):
            tables = {}
            for (a, b), table in coupling.items():
                if first[k] <= max(a, b) < first[k + 1]:
                    tables[min(a, b), max(a, b)] = table if a < b else table.swapaxes(-1, -2)
            arcs = arcproducts.product(arcs, part.engine.time_aligned, tables)
        each = [*zip(parts, names, strict=True)]
        on = [tape._replace(name=new[tape.name]) for part, new in each for tape in part.on]
        machines = tuple(machine for part in parts for machine in part.machines)
        stepwise = tuple(new[tape] for part, new in each for tape in part.stepwise)
        return ArcRow(arcs, tuple(on), self.n_input_arcs, machines=machines, stepwise=stepwise)

    def beginning_where(self, begins: Callable[[str], bool]) -> ArcRow:
        """Return the paths whose segments begin exactly at the tokens that begin a segment.

        A token does if `begins` is true of its label on the second tape.
        """
        if len(self.on) < 2:
            raise OptionError(
                "the lattice has no tape of tokens: compose it with a lattice of tokens "
                "first, segments @ tokens"
            )
        first = np.asarray([begins(label) for label in self.on[1].labels])
        arcs = self.summed.unconstrained
        return replace(
            self.summed,
            unconstrained=arcs.with_arcs(first[arcs.under[:, 1]] != arcs.carries[:, 0]).trimmed(),
        )

    @made_once
    def machine(self) -> Transducer:
        flat, _ = self.engine.explicit
        inputs = [k for k, tape in enumerate(self.on) if not tape.output]
        written = [k for k, tape in enumerate(self.on) if tape.output]
        read, names = self._side(inputs, inputs[0])
        output, outputs = self._side(written[-1:], written[-1]) if written else (read, names)
        return Transducer(
            source=Ragged(flat.row).rows().astype(np.int32),
            input=read,
            output=output,
            target=flat.target,
            score=flat.score,
            final=flat.final,
            input_symbols=names,
            output_symbols=outputs,
            tape=self.on[written[-1]].name if written else None,
        )

    def _side(self, tapes: Sequence[int], chosen: int) -> tuple[Ints, tuple[str, ...]]:
        """Return the symbol of each arc of the machine, −1 without a symbol, and all names.

        A symbol has the labels of all `tapes`, or of one tape if arcs have labels of only some.
        """
        which, label = self.engine.explicit[1], self.engine.label[:, tapes]
        several = len(tapes) > 1 and bool(
            ((label < 0).all(axis=1) == (label < 0).any(axis=1)).all()
        )
        names = self.on[chosen].labels
        if several:
            sets = [self.on[k].labels for k in tapes]
            rows, code = np.unique(label, axis=0, return_inverse=True)
            named = (rows >= 0).all(axis=1)
            parts = (zip(sets, row, strict=True) for row in rows[named].tolist())
            names = tuple(joint_symbol([labels[x] for labels, x in part]) for part in parts)
            column = np.where(named, np.cumsum(named) - 1, -1)[code.reshape(-1)]
        else:
            column = self.engine.label[:, chosen]
        read = column if which is None else np.append(column, -1)[which]
        return read.astype(np.int32), names

    def plan(self) -> Plan:
        flat, _ = self.engine.explicit
        nodes, arcs, tokens = len(flat.final), len(flat.target), max(self.length, 1)
        axes = [
            AxisPlan(tape.name, len(tape.labels), nodes, arcs, "arcs", 1, (), -(-arcs // tokens))
            for tape in self.on
        ]
        grammar = tuple((rule.acceptor.name, f"arcs, of {rule.over}") for rule in self.rules)
        each = -(-arcs // tokens)
        return Plan(tuple(axes), grammar, 1, 0, -(-nodes // tokens), each, each)


def _strings(labels: Any) -> bool:
    """Return whether an object is a sequence of labels, not a label or a segment."""
    listed = isinstance(labels, list | tuple)
    return listed and (not labels or isinstance(labels[0], str))


def _is_segment(span: object) -> bool:
    return isinstance(span, Sequence) and not isinstance(span, str) and len(span) == 3
