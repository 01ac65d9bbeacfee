"""A lattice composed with a transducer: its arcs, and what is written at boundaries.

States / Start / Final / Arcs
    A state of the lattice, one of the transducer, and whether the lattice has just moved without a
    label; begins where both do; ends where both do, by an arc that has the transducer's final
    score; an arc is one of the lattice, a move of the transducer, or one of each.

All tapes of the lattice stay. The transducer's output is one more, with a clock of its own: each of
its labels is written at a boundary, 0 to T, behind the token whose label made the transducer go
there.
"""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from typing import NamedTuple, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from fstcrf.arguments import closest
from fstcrf.arrays import Array, Bools, Floats, Ints, Longs
from fstcrf.errors import (
    EpsilonCycleError,
    LabelError,
    LabelWarning,
    OptionError,
    ShapeError,
    TooLargeError,
)
from fstcrf.kernel.acyclic import topological
from fstcrf.kernel.paired import Paired
from fstcrf.kernel.transduced import IndexedTransducer, transduced
from fstcrf.lattices.arcrow import ArcRow, Rule
from fstcrf.lattices.arcs import ArcEngine
from fstcrf.lattices.chainrow import ChainRow
from fstcrf.lattices.engine import Tape
from fstcrf.lattices.folds import FoldEngine, Folding, folding
from fstcrf.lattices.machines import joint_nodes
from fstcrf.lattices.row import Row
from fstcrf.lazy import memoised
from fstcrf.machines import ambiguity
from fstcrf.machines.plans import Program
from fstcrf.machines.transducer import Transducer
from fstcrf.machines.ways import on_paths
from fstcrf.ragged import Ragged

_T = TypeVar("_T", bound=np.generic)
_NONE = np.zeros(0)
_MOST_CELLS = 100_000_000  # states times labels


@memoised(64)
def compiled(machine: Transducer, labels: tuple[str, ...]) -> IndexedTransducer:
    """Return a transducer as it reads a tape with these labels.

    Raises
    ------
    EpsilonCycleError
        It moves in a circle without input, on a way to an end.
    LabelError
        It reads labels, none of which the tape has.
    """
    there = [np.packbits(x > -np.inf).tobytes() for x in (machine.score, machine.final)]
    first = _structure(machine.structure, labels, *there)
    if first:
        made = first[0].with_scores(machine.score, machine.final)
    else:
        reads = _numbers(machine.input_symbols, labels)[machine.input]
        first.append(made := numbered(machine, reads, len(labels)))
    if isinstance(machine, ambiguity.BestRuns):
        return replace(made, origin=cast("Longs", machine.moves)[made.origin])
    return made


@memoised(64)
def _structure(*what: Hashable) -> list[IndexedTransducer]:  # noqa: ARG001 (by which it is kept)
    """Return the first of the compiled machines that differ in finite scores alone, once made."""
    return []


def numbered(machine: Transducer, reads: Ints, size: int) -> IndexedTransducer:
    """Return a transducer whose arcs read labels below a number; −2: one that there is not."""
    there = (machine.score > -np.inf) & (reads > -2)
    _, useful = on_paths(machine.source, machine.target, machine.final > -np.inf, there)
    useful[0] = True
    there &= useful[machine.source] & useful[machine.target]
    alone = there & (reads < 0)
    row, order = _by_source(machine.source, alone, len(useful))
    number, cycle = topological(row, machine.target[order])
    if cycle >= 0:
        raise EpsilonCycleError(_circle(row, machine.target[order], cycle))
    states = np.flatnonzero(useful)
    states = states[np.argsort(number[states], kind="stable")]
    place = np.empty(len(useful), dtype=np.int32)
    place[states] = np.arange(len(states))
    width = size + 1
    if len(states) * width > _MOST_CELLS:
        raise TooLargeError(
            f"a transducer of {len(states):,} states over {size:,} labels is too large to compose"
        )
    arcs = np.flatnonzero(there)
    cell = place[machine.source[arcs]].astype(np.int64) * width + reads[arcs] + 1
    order = np.argsort(cell, kind="stable")
    arcs = arcs[order]
    return IndexedTransducer(
        labels=size,
        start=int(place[0]),
        index=Ragged.from_rows(cell, len(states) * width).offsets.astype(np.int32),
        reads=reads[arcs],
        target=place[machine.target[arcs]],
        gain=np.concatenate([machine.score[arcs], machine.final[states]]),
        origin=np.concatenate([arcs, len(machine.source) + states]),
        output=np.append(machine.output[arcs], np.full(len(states), -1, dtype=np.int32)),
    )


def _by_source(source: Ints, there: Bools, states: int) -> tuple[Longs, Longs]:
    """Return rows of states, and the arcs that are there in their order."""
    arcs = np.flatnonzero(there)
    order = arcs[np.argsort(source[arcs], kind="stable")]
    return Ragged.from_rows(source[order], states).offsets, order


def _numbers(symbols: tuple[str, ...], labels: tuple[str, ...]) -> Ints:
    """Return the label of each symbol, −2: the tape has none; last, −1 for what reads nothing."""
    index = {label: k for k, label in enumerate(labels)}
    numbers = [index.get(symbol, -2) for symbol in symbols]
    if symbols and max(numbers) < 0:
        near = closest(symbols[0], labels)
        nearest = f", the nearest is {near[0]!r}" if near else ""
        raise LabelError(
            f"the transducer reads {symbols[0]!r} and no label of the tape{nearest}; "
            f"there are {', '.join(map(repr, labels[:8]))}"
        )
    return np.asarray([*numbers, -1], dtype=np.int32)


def _circle(row: Longs, target: Ints, state: int) -> str:
    """Return the message about the states of a circle, of which one is known."""
    came, line = {state: -1}, [state]
    for s in line:
        for t in target[row[s] : row[s + 1]].tolist():
            if t == state:
                way = [s]
                while came[way[-1]] >= 0:
                    way.append(came[way[-1]])
                names = " → ".join(map(str, [*reversed(way), state]))
                return (
                    f"the transducer may go in a circle without reading: {names}; a path would "
                    "have no end: bound the repetition"
                )
            if t not in came:
                came[t] = s
                line.append(t)
    raise AssertionError(f"state {state} is on no circle")


def composed(row: Row, machine: Transducer) -> ArcRow:
    """Return a row composed with a transducer, which reads one of its tapes.

    Its rules stay, as they are of tapes that stay: they are multiplied in behind it.

    Raises
    ------
    OptionError
        No such tape; one with the name of what it writes.
    """
    tape = _tape_read(row.on, machine)
    form, problem = ambiguity.cheaply_unambiguous(machine)
    made = _made(row, form, tape, problem)
    whole = None
    if problem or row.make_unambiguous is not None:
        whole = partial(_of_single, row, machine, tape)
    return replace(made, machines=(*made.machines[:-1], machine), make_unambiguous=whole)


def _of_single(row: Row, machine: Transducer, tape: int) -> ArcRow:
    """Return a row composed with the form of a transducer that has one run over the same strings.

    With the transducer itself where there is no such form.
    """
    form, problem = ambiguity.single(machine)
    made = _made(row.unambiguous, form, tape, problem)
    return replace(made, machines=(*made.machines[:-1], machine))


def _made(row: Row, machine: Transducer, tape: int, problem: str) -> ArcRow:
    """Return a row composed with a transducer; `problem`: why only the best of its runs counts."""
    chain = row.as_chain
    if chain is None:
        return _composed(_written(row), machine, tape, problem)
    plan = _plan(chain.program, machine, tape)
    free = chain if plan.free is chain.program else chain.with_program(plan.free)
    write, arcs = partial(_free, free, machine, tape, problem), None
    if not problem and plan.folding is not None:
        arcs = cast("ArcEngine", FoldEngine(plan.folding, free.values, write))
    return ArcRow(
        arcs or write(),
        plan.on,
        rules=plan.rules,
        machines=(machine,),
        stepwise=tuple(tape.name for k, tape in enumerate(row.on) if row.has_token_transitions(k)),
    )


class _Plan(NamedTuple):
    """How the lattices of a program are composed with a transducer."""

    free: Program  # without its grammar
    rules: tuple[Rule, ...]  # the grammar
    on: tuple[Tape, ...]
    folding: Folding | None


@memoised(32)
def _plan(program: Program, machine: Transducer, tape: int) -> _Plan:
    row = ChainRow(program, ())
    free = row.without_grammar().program if program.conjuncts else program
    found = folding(free, compiled(machine, row.on[tape].labels), machine)
    return _Plan(free, _rules(row), (*row.on, *_writes(machine)), found)


def _tape_read(on: Sequence[Tape], machine: Transducer) -> int:
    """Return which tape a transducer reads."""
    names = [tape.name for tape in on]
    if machine.reads is not None and machine.reads not in names:
        raise OptionError(f"no tape {machine.reads!r} to read: the tapes are {', '.join(names)}")
    if machine.tape in names:
        raise OptionError(
            f"tape {machine.tape!r} is there already: give the output tape of the "
            f"transducer another name, .on({machine.reads or names[-1]!r}, writes=...)"
        )
    return len(names) - 1 if machine.reads is None else names.index(machine.reads)


def _writes(machine: Transducer) -> tuple[Tape, ...]:
    """Return the tape that a transducer adds."""
    if machine.tape is None:
        return ()
    return (Tape(machine.tape, machine.output_symbols, segments=False, output=True),)


def _free(row: ChainRow, machine: Transducer, tape: int, problem: str) -> ArcEngine:
    """Return the arcs of a row without a grammar composed with a transducer."""
    if problem:
        return _composed(row.arcs(), machine, tape, problem).unconstrained
    what = row.program, tuple([x.shape for x in row.values]), machine, tape
    if all(map(_all_finite, row.values)) and next(_asked(*what)):
        template = _template(*what)
        if template is not None:
            return template.filled(row)
    return _composed(row.arcs(), machine, tape).unconstrained


def _composed(base: ArcRow, machine: Transducer, tape: int, problem: str = "") -> ArcRow:
    made, reads = compiled(machine, base.on[tape].labels), base.unconstrained.label[:, tape]
    writes, counts = machine.tape is not None, machine.semiring == "log"
    arcs = arcs_composed(
        base.unconstrained,
        made,
        reads,
        writes=writes,
        outputs=len(machine.output_symbols),
        counts=counts,
        problem=problem,
    )
    on, machines = (*base.on, *_writes(machine)), (*base.machines, machine)
    return replace(base, unconstrained=arcs, on=on, frames=None, machines=machines)


def _all_finite(values: Floats) -> bool:
    return bool(np.isfinite(values).all())


# --- Sentences of one length have the same arcs ---------------------------------------------------

_MOST_KEPT = 30_000
"""Arcs of a composition that is kept for other sentences of its length."""


class _Template(NamedTuple):
    """The composition of all sentences of a length that forbid nothing of their own.

    The score of an arc is (before + that of a state at a token) + behind. A composition adds the
    parts in this order, too, so the second sentence of a length has the bits of the first.
    """

    arcs: ArcEngine  # of a sentence whose potentials are all 0
    before: Floats  # [A] score of the succession of states
    cell: Longs  # [A] token · states + state, or the last, for none
    behind: Floats  # [A] score of the transducer
    given: bool  # scores of states at tokens are the potentials, as they are given

    def filled(self, row: ChainRow) -> ArcEngine:
        """Return the composition of a sentence."""
        node = np.append(row.values[0] if self.given else joint_nodes(row), 0.0)
        return replace(self.arcs, score=(self.before + node[self.cell]) + self.behind)


@memoised(1024)
def _asked(*what: Hashable) -> Iterator[int]:  # noqa: ARG001 (by which it is kept)
    """Return what counts, at each `next`, how often a composition was asked for."""
    return count()


@memoised(128, most=400_000_000)  # of sentences of many lengths; some 3 MB each at most
def _template(
    program: Program, shapes: tuple[tuple[int, ...], ...], machine: Transducer, tape: int
) -> _Template | None:
    """Return the composition of sentences of a length; None: it is not kept.

    That is where it is too large, or has a score of succession for each token.
    """
    if any(axis.score is None for axis in program.machine.axes):
        return None
    numbers = tuple(np.arange(1.0, 1 + np.prod(shape)).reshape(shape) for shape in shapes)
    given = len(shapes) == 1 and np.array_equal(
        joint_nodes(ChainRow(program, numbers)).ravel(), numbers[0].ravel()
    )
    base = ChainRow(program, tuple(np.zeros(shape) for shape in shapes)).arcs()
    arcs, made = (
        _composed(base, machine, tape).unconstrained,
        compiled(machine, base.on[tape].labels),
    )
    if len(arcs.source) > _MOST_KEPT:
        return None
    flat, which = base.unconstrained.explicit
    assert which is not None  # noqa: S101 (successions are pairs)
    label = np.append(base.unconstrained.label[:, tape], np.int32(-1))[which]
    product, link = transduced(flat, label, which < 0, made), np.append(flat.score, 0.0)
    none = len(base.unconstrained.source)
    cell = np.append(np.where(which < 0, none, which), none)[product.of]
    before = link[product.before] + link[product.of]
    behind = np.append(made.gain, 0.0)[product.by]
    return _Template(arcs, before, cell, behind, given)


def _rules(row: ChainRow) -> tuple[Rule, ...]:
    """Return the grammar of a row as rules."""
    tapes = ((part, tuple(map(row.tapes.index, part.tapes))) for part in row.program.conjuncts)
    return tuple([Rule(part, numbers, "tokens") for part, numbers in tapes])


def _written(row: Row) -> ArcRow:
    """Return a row as arcs, its grammar as rules."""
    chain = row.as_chain
    if chain is None:
        return row.arcs()
    return replace(chain.without_grammar().arcs(), rules=_rules(chain))


def warn_beside(row: Row, other: Row) -> None:
    """Warn about a lattice that is put beside a written tape, and has the labels of that tape."""
    labels = set(other.on[0].labels)
    for tape in row.on if len(other.on) == 1 else ():
        if tape.output and labels == set(tape.labels):
            warnings.warn(
                f"a lattice over tape {other.on[0].name!r} has the same labels as tape "
                f"{tape.name!r}, which a transducer writes, but another name, so it does "
                "not score the output of the transducer; to score the output, make the "
                f"lattice with tape={tape.name!r}",
                LabelWarning,
                stacklevel=3,
            )


def score_written_tape(row: Row, scorer: Row, tape: int) -> ArcRow:
    """Return a row in which another one over the same text scores what is written on a tape.

    Segment (s, e, x) of a lattice of segments stands where "[x" is written at boundary s and then
    "x]" at boundary e. What it calls by a name without brackets, such as "O", is not written. The
    label of a token is what is written behind that token.

    Raises
    ------
    ShapeError
        Another number of tokens; labels of tokens, where not each token writes one.
    LabelError
        Nothing that is written is a label of the other one.
    """
    base, other = _written(row).unambiguous, scorer.arcs()
    if not base.covers_text or not other.covers_text or base.length != other.length:
        raise ShapeError(
            "the lattice that scores a transducer's output must have as many tokens as "
            "the transducer's input"
        )
    names, arcs = base.on[tape].labels, base.unconstrained
    if not other.on[0].segments:
        check_lengths(next(m for m in base.machines if m.tape == base.on[tape].name))
    parts = _brackets if other.on[0].segments else _units
    made = numbered(*parts(other, names), len(names) * (base.length + 1))
    label = arcs.label[:, tape]
    code = np.where(label >= 0, label + len(names) * arcs.position[arcs.target], -1)
    scored = arcs_composed(arcs, made, code.astype(np.int32), writes=False, traced=False)
    return replace(base, unconstrained=scored)


def check_lengths(machine: Transducer) -> None:
    """Refuse a transducer that does not write a label for each that it reads; ShapeError."""
    odd = np.flatnonzero((machine.input >= 0) != (machine.output >= 0))
    if len(odd):
        state, reads = machine.source[odd[0]], machine.input[odd[0]] >= 0
        what = "reads a label and writes none" if reads else "writes a label and reads none"
        raise ShapeError(
            f"tape {machine.tape!r} needs one label per token, but the transducer "
            f"{what} in state {state}: compose a tagger of segments, or write a label, "
            "such as O, for every token"
        )


def _units(tokens: ArcRow, names: tuple[str, ...]) -> tuple[Transducer, Ints]:
    """Return an acceptor of the labels of tokens, and what its arcs read; see `_brackets`."""
    number = {name: k for k, name in enumerate(names)}
    known = np.asarray([*(number.get(x, -2) for x in tokens.on[0].labels), -1])
    if known.max() < 0:
        raise LabelError(
            "the transducer does not write any of the lattice's labels, such as "
            f"{tokens.on[0].labels[0]!r}"
        )
    arcs = tokens.engine
    flat, which = arcs.explicit
    arc = np.arange(len(arcs.source)) if which is None else which.astype(np.int64)
    label = known[np.append(arcs.label[:, 0], -1)[arc]]
    reads = np.where(label >= 0, label + len(names) * arcs.position[arcs.target[arc]], label)
    machine = _acceptor(Ragged(flat.row).rows(), flat.target, flat.score, flat.final, reads)
    return machine, reads.astype(np.int32)


def _brackets(segments: ArcRow, names: tuple[str, ...]) -> tuple[Transducer, Ints]:
    """Return an acceptor of brackets that open and close segments, and what its arcs read.

    That is a label and a boundary: label + labels · boundary.
    """
    number = {name: k for k, name in enumerate(names)}
    pairs = [(number.get(f"[{x}", -1), number.get(f"{x}]", -1)) for x in segments.on[0].labels]
    if not any(min(pair) >= 0 for pair in pairs):
        first = segments.on[0].labels[0]
        raise LabelError(
            f"the transducer must write brackets around segments: no symbols '[{first}' "
            f"and '{first}]' on its output tape"
        )
    arcs = segments.engine
    flat, which = arcs.explicit
    arc = np.arange(len(arcs.source)) if which is None else which.astype(np.int64)
    opens, closes = np.asarray([*pairs, (-1, -1)]).T
    label = np.append(arcs.label[:, 0], -1)[arc]
    source, cut = Ragged(flat.row).rows(), np.flatnonzero(opens[label] >= 0)
    states = len(flat.final)
    inner, of = states + np.arange(len(cut)), arc[cut]
    reads, target = np.full(len(source), -1), flat.target.astype(np.int64)
    start, end = (arcs.position[ends[of]] for ends in (arcs.source, arcs.target))
    reads[cut] = opens[label[cut]] + len(names) * start
    closing = closes[label[cut]] + len(names) * end
    ends = np.append(target, target[cut])
    ends[cut] = inner
    reads = np.append(reads, closing)
    machine = _acceptor(
        np.append(source, inner),
        ends,
        np.append(flat.score, np.zeros(len(cut))),
        np.append(flat.final, np.full(len(cut), -np.inf)),
        reads,
    )
    return machine, reads.astype(np.int32)


def _acceptor(
    source: Longs, target: Array, score: Floats, final: Floats, reads: Array
) -> Transducer:
    """Return an acceptor of which each arc reads one symbol, or nothing."""
    read = np.minimum(reads, 0).astype(np.int32)
    return Transducer(
        source=source.astype(np.int32),
        input=read,
        output=read,
        target=target.astype(np.int32),
        score=score,
        final=final,
        input_symbols=("symbol",),
        output_symbols=("symbol",),
        tape=None,
    )


def arcs_composed(
    arcs: ArcEngine,
    made: IndexedTransducer,
    reads: Ints,
    *,
    writes: bool = True,
    outputs: int = 0,
    traced: bool = True,
    counts: bool = True,
    problem: str = "",
) -> ArcEngine:
    """Return arcs composed with a transducer.

    Parameters
    ----------
    arcs : ArcEngine
    made : IndexedTransducer
    reads : int32 [A]
        What it reads with each arc; −1: nothing.
    writes : bool
        There is one tape more.
    outputs : int
        Number of labels of that tape.
    traced : bool
        It is kept which move of the transducer each arc is.
    counts : bool
        Each run of the transducer is a path, not the best one over the same strings alone.
    problem : str
        Why it may have several runs over the same strings; empty: it has one, or each counts.
    """
    flat, which = arcs.explicit
    number = np.arange(len(arcs.source), dtype=np.int32) if which is None else which
    label = np.append(reads, np.int32(-1))[number]
    product = transduced(flat, label, number < 0, made)
    output = np.append(made.output, np.int32(-1))[product.by]
    ended = product.target[product.by >= len(made.target)]
    final = np.full(len(product.place), -np.inf)
    final[ended] = flat.final[product.place[ended]]
    arc = np.append(number, np.int32(-1))[product.of]  # −1: nothing is said but by the transducer
    at = arcs.at
    if at is not None:
        nodes = arcs.machine.slots if isinstance(arcs.machine, Paired) else np.arange(len(at))
        at = at[nodes[product.place]]

    def column(
        values: NDArray[_T], nothing: int, last: NDArray[_T], *, more: bool = writes
    ) -> NDArray[_T]:
        behind = np.full((1, values.shape[1]), nothing, dtype=values.dtype)
        taken = np.concatenate([values, behind])[arc]
        return np.column_stack([taken, last]) if more else taken

    silent = np.zeros(len(arc), dtype=np.int32)
    moved = np.append(made.origin, -1)[product.by]
    moves = arcs.moves
    if moves is not None:
        moves = column(moves, -1, moved, more=traced)
    elif traced:
        moves = moved[:, None]
    apart, gain = arcs.apart, arcs.gain
    if problem or apart is not None:
        before = np.arange(len(arcs.source))[:, None] if apart is None else apart
        tells = moved if counts else output.astype(np.int64)
        apart = column(before, -1, tells, more=counts or writes)
        gain = np.append(np.zeros(len(arcs.source)) if gain is None else gain, 0.0)[arc]
    if problem:
        gain += np.append(made.gain, 0.0)[product.by]
    ends = None
    if arcs.end is not None:
        assert at is not None  # noqa: S101 (where ends are known, so are positions)
        ends = column(arcs.end, -1, np.where(output >= 0, at[product.target], -1))
    return ArcEngine(
        texts=arcs.texts,
        begins=product.begins,
        at=at,
        final=final,
        source=product.source,
        target=product.target,
        left=silent,  # without pairs there are no classes
        right=silent,
        score=product.score,
        origin=np.append(arcs.origin, -1)[arc],
        label=column(arcs.label, -1, output),
        under=column(arcs.under, -1, silent - np.int32(1)),
        end=ends,
        carries=column(arcs.carries, 1, silent > 0),
        sizes=(*arcs.sizes, outputs) if writes else arcs.sizes,
        class_final=_NONE,
        pairs=None,
        moves=moves,
        ambiguous=arcs.ambiguous or problem,
        apart=apart,
        gain=gain,
    )
