"""Composition of a lattice with a transducer that reads one of its tapes.

The result keeps all tapes of the lattice and adds the output tape of the transducer. The output
need not have one label per token: each label is written at a boundary, 0 to T, which is the number
of tokens that the transducer has read before.

A state of the result is a state of the lattice, a state of the transducer, and a flag: whether the
last arc of the lattice had no label. An arc follows an arc of the lattice, an arc of the
transducer, or one of each. The start is the pair of starts. A path ends at the end of the lattice
by an arc with the transducer's final score.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from typing import NamedTuple, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from fstcrf.arguments import closest
from fstcrf.arrays import Array, Bools, Floats, Ints, Longs, Ragged
from fstcrf.errors import (
    EpsilonCycleError,
    LabelError,
    LabelWarning,
    OptionError,
    ShapeError,
    TooLargeError,
    warn,
)
from fstcrf.kernel.acyclic import topological
from fstcrf.kernel.transduced import IndexedTransducer, transduced
from fstcrf.lattices.arcrow import ArcRow, Rule
from fstcrf.lattices.arcs import ArcEngine
from fstcrf.lattices.chainrow import ChainRow
from fstcrf.lattices.engine import Row, Tape
from fstcrf.lattices.folds import FoldedTransducer, FoldEngine, folded_transducer
from fstcrf.lattices.machines import joint_nodes
from fstcrf.lazy import memoised
from fstcrf.machines import ambiguity
from fstcrf.machines.plans import Program
from fstcrf.machines.transducer import Transducer
from fstcrf.machines.ways import on_paths

_T = TypeVar("_T", bound=np.generic)
_NONE = np.zeros(0)
_MOST_CELLS = 100_000_000  # states times labels


@memoised(64)
def compiled(machine: Transducer, labels: tuple[str, ...]) -> IndexedTransducer:
    """Return a transducer indexed by the labels of the tape that it reads.

    Raises
    ------
    EpsilonCycleError
        A path to a final state has a cycle of arcs without input.
    LabelError
        The tape has none of the labels that the transducer reads.
    """
    finite = [np.packbits(x > -np.inf).tobytes() for x in (machine.score, machine.final)]
    kept = _compiled_structure(machine.structure, labels, *finite)
    if kept:
        indexed = kept[0].with_scores(machine.score, machine.final)
    else:
        reads = _numbers(machine.input_symbols, labels)[machine.input]
        kept.append(indexed := numbered(machine, reads, len(labels)))
    if isinstance(machine, ambiguity.BestRuns):
        return replace(indexed, origin=cast("Longs", machine.origin)[indexed.origin])
    return indexed


@memoised(64)
def _compiled_structure(*key: Hashable) -> list[IndexedTransducer]:  # noqa: ARG001 (memoised by it)
    """Return a list for the first compiled machine of this structure; the caller appends it.

    Machines of one structure differ only in finite scores.
    """
    return []


def numbered(machine: Transducer, reads: Ints, size: int) -> IndexedTransducer:
    """Index a transducer by the labels that its arcs read.

    Parameters
    ----------
    machine : Transducer
    reads : int32 [A]
        Label of each arc, below `size`; −1: no input; −2: a label that the tape does not have.
    size : int
        Number of labels of the tape.
    """
    usable = (machine.score > -np.inf) & (reads > -2)
    _, useful = on_paths(machine.source, machine.target, machine.final > -np.inf, usable)
    useful[0] = True
    usable &= useful[machine.source] & useful[machine.target]
    row, order = _by_source(machine.source, usable & (reads < 0), len(useful))
    number, cycle = topological(row, machine.target[order])
    if cycle >= 0:
        raise EpsilonCycleError(_cycle_message(row, machine.target[order], cycle))
    states = np.flatnonzero(useful)
    states = states[np.argsort(number[states], kind="stable")]
    place = np.empty(len(useful), dtype=np.int32)
    place[states] = np.arange(len(states))
    width = size + 1
    if len(states) * width > _MOST_CELLS:
        raise TooLargeError(
            f"a transducer of {len(states):,} states over {size:,} labels is too large to compose"
        )
    arcs = np.flatnonzero(usable)
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


def _by_source(source: Ints, usable: Bools, states: int) -> tuple[Longs, Longs]:
    """Return the offsets of each state's usable arcs, and these arcs sorted by source."""
    arcs = np.flatnonzero(usable)
    order = arcs[np.argsort(source[arcs], kind="stable")]
    return Ragged.from_rows(source[order], states).offsets, order


def _numbers(symbols: tuple[str, ...], labels: tuple[str, ...]) -> Ints:
    """Return the label of each symbol, −2 if the tape does not have it, and −1 for no symbol."""
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


def _cycle_message(row: Longs, target: Ints, state: int) -> str:
    """Return the error message for a cycle through a state, found breadth first."""
    previous, queue = {state: -1}, [state]
    for s in queue:
        for t in target[row[s] : row[s + 1]].tolist():
            if t == state:
                states = [s]
                while previous[states[-1]] >= 0:
                    states.append(previous[states[-1]])
                names = " → ".join(map(str, [*reversed(states), state]))
                return (
                    f"the transducer may go in a circle without reading: {names}; a path would "
                    "have no end: bound the repetition"
                )
            if t not in previous:
                previous[t] = s
                queue.append(t)
    raise AssertionError(f"state {state} is on no circle")


def composed(row: Row, machine: Transducer) -> ArcRow:
    """Return a row composed with a transducer that reads one of its tapes.

    The rules of the row remain: its tapes do, and rules are multiplied in after the composition.

    Raises
    ------
    OptionError
        The row does not have the input tape, or it already has the output tape.
    """
    tape = _input_tape(row.on, machine)
    form, problem = ambiguity.cheaply_unambiguous(machine)
    result = _with_form(row, form, tape, problem)
    make_unambiguous = None
    if problem or row.make_unambiguous is not None:
        make_unambiguous = partial(_unambiguous, row, machine, tape)
    machines = (*result.machines[:-1], machine)
    return replace(result, machines=machines, make_unambiguous=make_unambiguous)


def _unambiguous(row: Row, machine: Transducer, tape: int) -> ArcRow:
    """Return the composition with the unambiguous form of a transducer, if it has one."""
    form, problem = ambiguity.unambiguous(machine)
    result = _with_form(row.unambiguous, form, tape, problem)
    return replace(result, machines=(*result.machines[:-1], machine))


def _with_form(row: Row, machine: Transducer, tape: int, problem: str) -> ArcRow:
    """Return a row composed with a form of a transducer.

    If the transducer is ambiguous, `problem` says why only the best of its runs counts.
    """
    chain = row.as_chain
    if chain is None:
        return _composed(_as_arcs(row), machine, tape, problem)
    plan = _plan(chain.program, machine, tape)
    if plan.unconstrained is not chain.program:
        chain = chain.with_program(plan.unconstrained)
    write, arcs = partial(_composed_arcs, chain, machine, tape, problem), None
    if not problem and plan.folding is not None:
        arcs = cast("ArcEngine", FoldEngine(plan.folding, chain.values, write))
    return ArcRow(
        arcs or write(None),
        plan.on,
        rules=plan.rules,
        machines=(machine,),
        stepwise=tuple(tape.name for k, tape in enumerate(row.on) if row.has_token_transitions(k)),
    )


class _Plan(NamedTuple):
    """How the lattices of a program are composed with a transducer."""

    unconstrained: Program  # the program without its grammar
    rules: tuple[Rule, ...]  # the grammar
    on: tuple[Tape, ...]
    folding: FoldedTransducer | None


@memoised(32)
def _plan(program: Program, machine: Transducer, tape: int) -> _Plan:
    row = ChainRow(program, ())
    unconstrained = row.without_grammar().program if program.conjuncts else program
    fold = folded_transducer(unconstrained, compiled(machine, row.on[tape].labels), machine)
    return _Plan(unconstrained, _rules(row), (*row.on, *_output_tape(machine)), fold)


def _input_tape(on: Sequence[Tape], machine: Transducer) -> int:
    """Return the number of the tape that a transducer reads."""
    names = [tape.name for tape in on]
    if machine.reads is not None and machine.reads not in names:
        raise OptionError(f"no tape {machine.reads!r} to read: the tapes are {', '.join(names)}")
    if machine.tape in names:
        raise OptionError(
            f"tape {machine.tape!r} is there already: give the output tape of the "
            f"transducer another name, .on({machine.reads or names[-1]!r}, writes=...)"
        )
    return len(names) - 1 if machine.reads is None else names.index(machine.reads)


def _output_tape(machine: Transducer) -> tuple[Tape, ...]:
    """Return the tape that a transducer adds, if it has a name."""
    if machine.tape is None:
        return ()
    return (Tape(machine.tape, machine.output_symbols, segments=False, output=True),)


def _composed_arcs(
    row: ChainRow, machine: Transducer, tape: int, problem: str, kept: Bools | None
) -> ArcEngine:
    """Return the arcs of a row without a grammar composed with a transducer.

    `kept`, bool [T, S], are the states whose paths to return; by default all.
    """
    if kept is not None:
        base = _blank(row.program, tuple([x.shape for x in row.values]))
        if base.unconstrained.per_position:
            base = row.arcs()
        arcs, mask = base.unconstrained, kept.reshape(-1)
        some = replace(arcs.with_arcs(mask), score=joint_nodes(row).reshape(-1)[mask])
        return _composed(replace(base, unconstrained=some), machine, tape).unconstrained
    if problem:
        return _composed(row.arcs(), machine, tape, problem).unconstrained
    key = row.program, tuple([x.shape for x in row.values]), machine, tape
    # A template costs more than one composition: it is made for the second sentence of a length.
    if all(map(_all_finite, row.values)) and next(_earlier_uses(*key)):
        template = _template(*key)
        if template is not None:
            return template.filled(row)
    return _composed(row.arcs(), machine, tape).unconstrained


def _composed(base: ArcRow, machine: Transducer, tape: int, problem: str = "") -> ArcRow:
    indexed, reads = compiled(machine, base.on[tape].labels), base.unconstrained.label[:, tape]
    writes, counts = machine.tape is not None, machine.semiring == "log"
    arcs = arcs_composed(
        base.unconstrained,
        indexed,
        reads,
        writes=writes,
        outputs=len(machine.output_symbols),
        counts=counts,
        problem=problem,
    )
    on, machines = (*base.on, *_output_tape(machine)), (*base.machines, machine)
    return replace(base, unconstrained=arcs, on=on, frames=None, machines=machines)


def _all_finite(values: Floats) -> bool:
    return bool(np.isfinite(values).all())


# --- Sentences of one length have the same arcs ---------------------------------------------------

_MOST_KEPT = 30_000
"""Largest number of arcs of a composition that is kept for other sentences of its length."""


class _Template(NamedTuple):
    """The composition of all sentences of one length whose potentials are finite.

    The score of an arc is (transition + potential of a state at a token) + transducer. The
    composition of a single sentence adds in the same order, so that the bits are equal.
    """

    arcs: ArcEngine  # of a sentence whose potentials are all 0
    transition: Floats  # [A] score of the succession of states
    cell: Longs  # [A] token · states + state; the last cell, which is 0, for an arc without a state
    transducer: Floats  # [A] score of the transducer's arc
    direct: bool  # the potentials of states are the first input of the program, unchanged

    def filled(self, row: ChainRow) -> ArcEngine:
        """Return the composition of a sentence."""
        node = np.append(row.values[0] if self.direct else joint_nodes(row), 0.0)
        return replace(self.arcs, score=(self.transition + node[self.cell]) + self.transducer)


@memoised(1024)
def _earlier_uses(*key: Hashable) -> Iterator[int]:  # noqa: ARG001 (memoised by it)
    """Return a counter of the compositions with this key: `next` returns their number so far."""
    return count()


@memoised(16, most=50_000_000)
def _blank(program: Program, shapes: tuple[tuple[int, ...], ...]) -> ArcRow:
    """Return the arcs of sentences of one length whose potentials are all 0."""
    return ChainRow(program, tuple(np.zeros(shape) for shape in shapes)).arcs()


@memoised(128, most=400_000_000)  # bytes; at most 3 MB for each length of sentences
def _template(
    program: Program, shapes: tuple[tuple[int, ...], ...], machine: Transducer, tape: int
) -> _Template | None:
    """Return the composition of all sentences of one length.

    None if it has too many arcs, or if tokens have transition scores of their own.
    """
    if any(axis.score is None for axis in program.machine.axes):
        return None
    numbers = tuple(np.arange(1.0, 1 + np.prod(shape)).reshape(shape) for shape in shapes)
    direct = len(shapes) == 1 and np.array_equal(
        joint_nodes(ChainRow(program, numbers)).ravel(), numbers[0].ravel()
    )
    base = _blank(program, shapes)
    arcs = _composed(base, machine, tape).unconstrained
    if len(arcs.source) > _MOST_KEPT:
        return None
    flat, which = base.unconstrained.explicit
    if which is None:
        which = np.arange(len(base.unconstrained.source), dtype=np.int32)
    label = np.append(base.unconstrained.label[:, tape], np.int32(-1))[which]
    indexed = compiled(machine, base.on[tape].labels)
    product, link = transduced(flat, label, which < 0, indexed), np.append(flat.score, 0.0)
    last = len(base.unconstrained.source)
    cell = np.append(np.where(which < 0, last, which), last)[product.of]
    transition = link[product.before] + link[product.of]
    return _Template(arcs, transition, cell, np.append(indexed.gain, 0.0)[product.by], direct)


def _rules(row: ChainRow) -> tuple[Rule, ...]:
    """Return the grammar of a row as rules."""
    tapes = ((part, tuple(map(row.tapes.index, part.tapes))) for part in row.program.conjuncts)
    return tuple([Rule(part, numbers, "tokens") for part, numbers in tapes])


def _as_arcs(row: Row) -> ArcRow:
    """Return a row as arcs, with its grammar as rules."""
    chain = row.as_chain
    if chain is None:
        return row.arcs()
    return replace(chain.without_grammar().arcs(), rules=_rules(chain))


def warn_beside(row: Row, other: Row) -> None:
    """Warn if a lattice has the labels of the output tape of a transducer, but another tape name.

    The product of the two then does not score the output, as the caller may expect.
    """
    labels = set(other.on[0].labels)
    for tape in row.on if len(other.on) == 1 else ():
        if tape.output and labels == set(tape.labels):
            warn(
                f"a lattice over tape {other.on[0].name!r} has the same labels as tape "
                f"{tape.name!r}, which a transducer writes, but another name, so it does "
                "not score the output of the transducer; to score the output, make the "
                f"lattice with tape={tape.name!r}",
                LabelWarning,
            )


def score_written_tape(row: Row, scorer: Row, tape: int) -> ArcRow:
    """Return a row whose output tape is scored by another lattice of the same text.

    If the scorer is a lattice of segments, its segment (s, e, x) scores the output "[x" at boundary
    s followed by "x]" at boundary e. Labels that the output does not bracket, such as "O", are not
    written. If the scorer has one label per token, this is the label written after the token.

    Parameters
    ----------
    row : Row
    scorer : Row
    tape : int
        Number of the output tape.

    Raises
    ------
    ShapeError
        The numbers of tokens differ; or the scorer has one label per token, but the transducer does
        not write one label per token.
    LabelError
        The transducer writes no label of the scorer.
    """
    base, other = _as_arcs(row).unambiguous, scorer.arcs()
    if not base.covers_text or not other.covers_text or base.length != other.length:
        raise ShapeError(
            "the lattice that scores a transducer's output must have as many tokens as "
            "the transducer's input"
        )
    names, arcs = base.on[tape].labels, base.unconstrained
    if not other.on[0].segments:
        check_lengths(next(m for m in base.machines if m.tape == base.on[tape].name))
    parts = _brackets if other.on[0].segments else _units
    indexed = numbered(*parts(other, names), len(names) * (base.length + 1))
    label = arcs.label[:, tape]
    code = np.where(label >= 0, label + len(names) * arcs.position[arcs.target], -1)
    scored = arcs_composed(arcs, indexed, code.astype(np.int32), writes=False, traced=False)
    return replace(base, unconstrained=scored)


def check_lengths(machine: Transducer) -> None:
    """Raise a ShapeError if a transducer does not write one label for each label that it reads."""
    odd = np.flatnonzero((machine.input >= 0) != (machine.output >= 0))
    if len(odd):
        state, reads = machine.source[odd[0]], machine.input[odd[0]] >= 0
        fault = "reads a label and writes none" if reads else "writes a label and reads none"
        raise ShapeError(
            f"tape {machine.tape!r} needs one label per token, but the transducer "
            f"{fault} in state {state}: compose a tagger of segments, or write a label, "
            "such as O, for every token"
        )


def _units(tokens: ArcRow, names: tuple[str, ...]) -> tuple[Transducer, Ints]:
    """Return an acceptor of the labels of tokens, and the code that each arc reads.

    A code is label + labels · boundary.
    """
    number = {name: k for k, name in enumerate(names)}
    written = np.asarray([*(number.get(x, -2) for x in tokens.on[0].labels), -1])
    if written.max() < 0:
        raise LabelError(
            "the transducer does not write any of the lattice's labels, such as "
            f"{tokens.on[0].labels[0]!r}"
        )
    arcs = tokens.engine
    flat, which = arcs.explicit
    arc = np.arange(len(arcs.source)) if which is None else which.astype(np.int64)
    label = written[np.append(arcs.label[:, 0], -1)[arc]]
    reads = np.where(label >= 0, label + len(names) * arcs.position[arcs.target[arc]], label)
    machine = _acceptor(Ragged(flat.row).rows(), flat.target, flat.score, flat.final, reads)
    return machine, reads.astype(np.int32)


def _brackets(segments: ArcRow, names: tuple[str, ...]) -> tuple[Transducer, Ints]:
    """Return an acceptor of the brackets of segments, and the code that each arc reads.

    A code is label + labels · boundary.
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
    """Return an acceptor with a single symbol; arcs with `reads` below 0 have no input."""
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
    indexed: IndexedTransducer,
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
    indexed : IndexedTransducer
    reads : int32 [A]
        Label that the transducer reads with each arc; −1: no label.
    writes : bool
        Whether to add the transducer's output as a tape.
    outputs : int
        Number of labels of that tape.
    traced : bool
        Whether to store the arc of the transducer for each arc of the result.
    counts : bool
        Whether each run of the transducer is a path. Otherwise only the best run over the same
        strings is.
    problem : str
        Why the transducer may have several runs over the same strings. Empty if it has one, or if
        each run counts.
    """
    flat, which = arcs.explicit
    number = np.arange(len(arcs.source), dtype=np.int32) if which is None else which
    label = np.append(reads, np.int32(-1))[number]
    product = transduced(flat, label, number < 0, indexed)
    output = np.append(indexed.output, np.int32(-1))[product.by]
    ended = product.target[product.by >= len(indexed.target)]
    final = np.full(len(product.place), -np.inf)
    final[ended] = flat.final[product.place[ended]]
    arc = np.append(number, np.int32(-1))[product.of]  # −1: an arc of the transducer only
    at = arcs.at
    if at is not None:
        at = at[arcs.explicit_nodes[product.place]]

    def column(
        values: NDArray[_T], missing: int, last: NDArray[_T], *, more: bool = writes
    ) -> NDArray[_T]:
        absent = np.full((1, values.shape[1]), missing, dtype=values.dtype)
        taken = np.concatenate([values, absent])[arc]
        return np.column_stack([taken, last]) if more else taken

    silent = np.zeros(len(arc), dtype=np.int32)
    moved = np.append(indexed.origin, -1)[product.by]
    transducer_arcs = arcs.transducer_arcs
    if transducer_arcs is not None:
        transducer_arcs = column(transducer_arcs, -1, moved, more=traced)
    elif traced:
        transducer_arcs = moved[:, None]
    run_keys, gain = arcs.run_keys, arcs.gain
    if problem or run_keys is not None:
        before = np.arange(len(arcs.source))[:, None] if run_keys is None else run_keys
        distinct = moved if counts else output.astype(np.int64)
        run_keys = column(before, -1, distinct, more=counts or writes)
        gain = np.append(np.zeros(len(arcs.source)) if gain is None else gain, 0.0)[arc]
    if problem:
        gain += np.append(indexed.gain, 0.0)[product.by]
    ends = None
    if arcs.end is not None:
        assert at is not None  # noqa: S101 (arcs with ends have positions)
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
        transducer_arcs=transducer_arcs,
        ambiguous=arcs.ambiguous or problem,
        run_keys=run_keys,
        gain=gain,
    )
