"""The algebra of weighted transducers: operations on one or two of them return a transducer.

A transducer gives a pair of strings the sum of its runs over them (log), or the best of these
(tropical). The docstring of each function defines the weight of a pair. Symbols are matched by
their names. Arguments are never changed in place.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from fstcrf.arguments import check_strings, one_of, whole_number
from fstcrf.arrays import Array, Bools, Floats, Ints, Longs, Ragged
from fstcrf.errors import OptionError, TooLargeError
from fstcrf.kernel import composed as kernel
from fstcrf.kernel.composed import MOST_ARCS, Operand
from fstcrf.kernel.native import frozen
from fstcrf.machines.machine import M, Machine
from fstcrf.machines.ways import on_paths, silent_ways, totals

Side = Literal["input", "output"]
Labels: TypeAlias = tuple[str, ...]

MAX_ARCS = 20_000_000
"""Maximum number of arcs of replacements, before removal of incomplete paths."""

MAX_DEPTH = 2_000
"""Maximum depth of machines inside each other, in place of symbols."""

_STEP = 1e-4  # change of a cost in numeric differentiation

_NONE = np.int32(-1)  # no symbol

_Columns: TypeAlias = tuple[Array, Array, Array, Array, Floats]  # as the transducer has them


# --- Of the structure alone -----------------------------------------------------------------------


def union(first: M, second: M) -> M:
    """Return the union: it combines the weights of both for each pair of strings."""
    first, second = aligned(first, second)
    places = 1, 1 + len(first.final)
    starts = _silent([0, 0], places, [0.0, 0.0])
    parts = (_columns(x, place) for x, place in zip((first, second), places, strict=True))
    machine = made(first, [starts, *parts], np.concatenate([[-np.inf], first.final, second.final]))
    (a, p), (b, q) = _entries(first), _entries(second)
    by_first = np.concatenate([_no(2), a, _no(len(b) + 1), p, _no(len(q))])
    by_second = np.concatenate([_no(2 + len(a)), b, _no(1 + len(p)), q])
    return _with_uses(machine, (first, by_first), (second, by_second))


def concatenation(first: M, second: M) -> M:
    """Return the concatenation: strings of the first, then strings of the second."""
    first, second = aligned(first, second)
    begin = len(first.final)
    final = np.append(np.full(begin, -np.inf), second.final)
    parts = [_columns(first), _ends(first, 0, begin), _columns(second, begin)]
    (a, p), (b, q) = _entries(first), _entries(second)
    ended = p[first.final > -np.inf]
    by_first = np.concatenate([a, ended, _no(len(b) + len(p) + len(q))])
    by_second = np.concatenate([_no(len(a) + len(ended)), b, _no(len(p)), q])
    return _with_uses(made(first, parts, final), (first, by_first), (second, by_second))


def closure(machine: M) -> M:
    """Return the closure: strings of the machine, repeated any number of times, also zero times."""
    starts = _silent([0], [1], [0.0])
    final = np.append(0.0, np.full(len(machine.final), -np.inf))
    repeated = made(machine, [starts, _columns(machine, 1), _ends(machine, 1, 0)], final)
    arcs, ends = _entries(machine)
    by = np.concatenate([_no(1), arcs, ends[machine.final > -np.inf], _no(1 + len(ends))])
    return _with_uses(repeated, (machine, by))


def reversed_(machine: M) -> M:
    """Return the machine of the reversed strings."""
    source, read, written, target, score = _columns(machine, 1)
    end, _, _, _, weight = _ends(machine, 1, 0)
    final = np.full(len(machine.final) + 1, -np.inf)
    final[1] = 0.0
    starts = _silent(np.zeros_like(end), end, weight)
    backward = made(machine, [starts, (target, read, written, source, score)], final)
    arcs, ends = _entries(machine)
    by = np.concatenate([ends[machine.final > -np.inf], arcs, _no(1 + len(ends))])
    return _with_uses(backward, (machine, by))


def inverted(machine: M) -> M:
    """Return the inverse: it reads the machine's output, and writes its input.

    It reads the last tape, and writes one called like that which the machine reads, or ``input``.
    """
    if machine.tape is None:
        return machine
    return replace(
        machine,
        input=machine.output,
        output=machine.input,
        input_symbols=machine.output_symbols,
        output_symbols=machine.input_symbols,
        tape="input" if machine.reads is None else machine.reads,
        reads=None,
    )


def projected(machine: M, side: Side) -> M:
    """Return the acceptor of the machine's inputs, or of its outputs.

    A string has the weights of all pairs that it is in, together.
    """
    one_of("side", side, Side)
    if side == "output":
        machine = inverted(machine)
    symbols = machine.input_symbols
    return replace(machine, output=machine.input, output_symbols=symbols, tape=None)


def support(machine: M) -> M:
    """Return the machine without its weights: 0 for all that it gives a weight. It is tropical."""
    machine = trimmed(machine)
    ends = np.where(machine.final > -np.inf, 0.0, -np.inf)
    unweighted = replace(machine, score=np.zeros(len(machine.score)), final=ends, named={})
    return replace(unweighted, semiring="tropical")


def trimmed(machine: M) -> M:
    """Return the machine with the states and arcs that are on a path, and its start.

    Arcs are sorted by source.
    """
    ends, there = machine.final > -np.inf, machine.score > -np.inf
    arcs, useful = on_paths(machine.source, machine.target, ends, there)
    useful[0] = True
    if useful.all() and np.array_equal(arcs, np.arange(len(machine.source))):
        return machine
    number = np.cumsum(useful) - 1
    source, read, written, target, score = (column[arcs] for column in _columns(machine))
    part = number[source], read, written, number[target], score
    small = made(machine, [part], machine.final[useful])
    return _with_uses(small, (machine, np.append(arcs, _entries(machine)[1][useful])))


# --- Composition ----------------------------------------------------------------------------------


def composed(first: M, second: M, limit: int = MOST_ARCS) -> M:
    """Return the composition: it reads the input of the first and writes the output of the second.

    A pair has the weights of all strings between them, together. Of acceptors that is the
    intersection: weights of one string add.

    Raises
    ------
    OptionError
        Two semirings; the second one reads a tape of another name than the first one writes.
    TooLargeError
        More than `limit` arcs.
    """
    _same_semiring(first, second)
    between = first.reads if first.tape is None else first.tape
    if None not in (between, second.reads) and between != second.reads:
        raise OptionError(
            f"the second transducer reads tape {second.reads!r}, but the first one "
            f"writes {between!r}: use second.on({between!r})"
        )
    if first.tape is None and second.tape is None:
        first, second = aligned(first, second)
    reads = second.reads if first.tape is None and first.reads is None else first.reads
    tape = first.tape if second.tape is None else second.tape
    first, second = trimmed(first), trimmed(second)
    arcs = kernel.composed(*_matched(first, second), limit)
    part = (
        arcs.source,
        np.append(first.input, _NONE)[arcs.of],
        np.append(second.output, _NONE)[arcs.by],
        arcs.target,
        np.append(first.score, 0.0)[arcs.of] + np.append(second.score, 0.0)[arcs.by],
    )
    final = first.final[arcs.first] + second.final[arcs.second]
    composition = made(replace(first, tape=tape, reads=reads), [part], final, second.output_symbols)
    both = (first, arcs.of, arcs.first), (second, arcs.by, arcs.second)
    uses = [
        (x, np.append(of, len(x.source) + ends).astype(np.int64)) for x, of, ends in both if x.named
    ]
    return _with_uses(composition, *uses)


def intersection(first: M, second: M) -> M:
    """Return the acceptor of the common strings of both acceptors; weights of one string add."""
    for machine in (first, second):
        check_acceptor("an intersection", machine)
    return composed(first, second)


def _matched(first: Machine, second: Machine) -> tuple[Operand, Operand]:
    """Return both machines with the labels by which they are matched: the first one's outputs."""
    label, size = second.input, len(first.output_symbols)
    if first.output_symbols != second.input_symbols:
        number = {x: k for k, x in enumerate(first.output_symbols)}
        table = [*(number.get(x, -2) for x in second.input_symbols), -1]
        label = np.asarray(table, dtype=np.int32)[label]
    return (
        Operand(size, first.source, first.output, first.target, first.final > -np.inf),
        Operand(size, second.source, label, second.target, second.final > -np.inf),
    )


# --- Without ε ------------------------------------------------------------------------------------


def without_epsilon(machine: M) -> M:
    """Return a machine that gives the same weights, each arc of which reads or writes a symbol.

    Raises
    ------
    EpsilonCycleError
        A cycle without symbols on a way to an end which gains by being gone round (tropical), or
        the sum over which is infinite (log).
    TooLargeError
        Too many states are joined by arcs without a symbol.
    """
    machine = trimmed(machine)
    quiet = (machine.input < 0) & (machine.output < 0)
    loud = np.flatnonzero(~quiet)
    if len(loud) == len(quiet):
        return machine
    epsilon_free = _joined(machine, quiet, loud)
    before = np.append(epsilon_free.score, epsilon_free.final) > -np.inf
    named: dict[str, Floats] = {}
    for name, uses in machine.named.items():  # the derivative of summed paths by a cost
        more, less = (_moved(machine, uses * step, quiet, loud) for step in (_STEP, -_STEP))
        named[name] = np.zeros(len(before))
        named[name][before] = np.round((more[before] - less[before]) / (2 * _STEP), 8)
    return trimmed(replace(epsilon_free, named=named))


def _moved(machine: Machine, change: Floats, quiet: Bools, loud: Longs) -> Floats:
    """Return the scores of arcs and ends without ε, for a machine with other scores."""
    size = len(machine.score)
    score, final = machine.score + change[:size], machine.final + change[size:]
    other = _joined(replace(machine, score=score, final=final), quiet, loud)
    return np.append(other.score, other.final)


def _joined(machine: M, quiet: Bools, loud: Longs) -> M:
    """Return a machine of the arcs with symbols, each combined with the silent paths before it."""
    needed = np.zeros(len(machine.final), dtype=bool)
    needed[0] = needed[machine.target[loud]] = True
    ends = machine.final > -np.inf
    ends[machine.source[loud]] = True
    arcs = machine.source[quiet], machine.target[quiet], machine.score[quiet]
    rows = [
        (state, reached, score)
        for state, weights in enumerate(silent_ways(*arcs, needed, ends, log=_sums(machine)))
        for reached, score in weights.items()
    ]
    empty_paths = [(state, state, 0.0) for state in np.flatnonzero(needed).tolist()]
    columns = np.asarray(rows + empty_paths, dtype=np.float64).T
    here, there, weight = columns[0].astype(np.int64), columns[1].astype(np.int64), columns[2]
    final = np.full(len(machine.final), -np.inf)
    (np.logaddexp if _sums(machine) else np.maximum).at(final, here, weight + machine.final[there])
    row = Ragged.from_rows(machine.source[loud], len(final))
    at, arc = row.select(there).rows(), loud[row.entries(there)]
    score = weight[at] + machine.score[arc]
    part = here[at], machine.input[arc], machine.output[arc], machine.target[arc], score
    return made(machine, [part], final)


# --- Where weights lie ----------------------------------------------------------------------------


def pushed(machine: M) -> M:
    """Return an equivalent machine with weights moved as early on each path as possible.

    The total weight from each state to ends is then 0, except at the start.

    Raises
    ------
    NumericError
        The total weight from a state to ends is infinite.
    TooLargeError
        Too many states with cycles among them, where weights are summed.
    """
    machine = replace(trimmed(machine), named={})  # costs are somewhere else then
    columns = machine.source, machine.target, machine.score
    total = totals(*columns, machine.final, log=_sums(machine))
    if total[0] == -np.inf:
        return machine
    score = machine.score + (total[machine.target] - total[machine.source])
    final = machine.final - total
    if (machine.target > 0).all():  # no path returns to the start
        score[machine.source == 0] += total[0]
        final[0] += total[0]
        return replace(machine, score=score, final=final)
    moved = replace(machine, score=score)
    parts = [_silent([0], [1], total[:1]), _columns(moved, 1)]
    return made(machine, parts, np.append(-np.inf, final))


# --- Machines in place of symbols -----------------------------------------------------------------


def replaced(root: M, parts: Mapping[str, M], depth: int) -> M:
    """Return a machine with others in place of arcs that write their names, up to a depth.

    Raises
    ------
    OptionError
        Machines of two semirings; an arc that reads or writes a name and something else; a depth
        below 0.
    TooLargeError
        More than `MAX_ARCS` arcs.
    """
    _check_parts(parts, type(root))
    machines, depth = [root, *parts.values()], whole_number(depth, "depth")
    for machine in machines[1:]:
        _same_semiring(root, machine)
    read, reads = _terminals(machines, parts, "input")
    written, writes = _terminals(machines, parts, "output")
    for machine, i, o in zip(machines, reads, writes, strict=True):
        _check_names(machine, [*parts], i, o)
    calls = [_calls(machine, o) for machine, o in zip(machines, writes, strict=True)]
    _check_copies(machines, calls, depth)
    columns: list[_Columns] = []
    states = len(root.final)
    level = {0: [(np.zeros(1, dtype=np.int64), np.full(1, -1))]}
    # of `machines`: the beginnings of copies, and the states that they lead to
    for left in range(depth, -1, -1):
        deeper: dict[int, list[tuple[Array, Array]]] = {}
        for which, copies in level.items():
            machine = machines[which]
            begin, home = (np.concatenate(column) for column in zip(*copies, strict=True))
            plain = np.flatnonzero(writes[which] >= -1)
            i, o = (np.tile(side[which][plain], len(begin)) for side in (reads, writes))
            source, target = (_shifted(x[plain], begin) for x in (machine.source, machine.target))
            columns.append((source, i, o, target, np.tile(machine.score[plain], len(begin))))
            if which or home[0] >= 0:
                ends = np.flatnonzero(machine.final > -np.inf)
                score: Floats = np.tile(machine.final[ends], len(begin))
                columns.append(_silent(_shifted(ends, begin), np.repeat(home, len(ends)), score))
            for part, end, arcs, place in calls[which] if left else ():
                first = states + np.arange(len(begin) * len(end)) * len(machines[part].final)
                states += len(first) * len(machines[part].final)
                deeper.setdefault(part, []).append((first, _shifted(end, begin)))
                to = first.reshape(len(begin), -1)[:, place].ravel()
                score = np.tile(machine.score[arcs], len(begin))
                columns.append(_silent(_shifted(machine.source[arcs], begin), to, score))
        level = deeper
        if not level:
            break
    tape = next((machine.tape for machine in machines if machine.tape is not None), None)
    final = np.append(root.final, np.full(states - len(root.final), -np.inf))
    return trimmed(made(replace(root, tape=tape), columns, final, written, read))


def _check_parts(parts: object, kind: type) -> None:
    if not (isinstance(parts, Mapping) and all(isinstance(part, kind) for part in parts.values())):
        raise OptionError("replace takes a mapping of symbols to transducers: {symbol: machine}")
    check_strings(parts, "a symbol to replace")


class _Calls(NamedTuple):
    """The arcs of a machine that write the name of one part."""

    part: int
    ends: Array  # the distinct targets of the arcs: each has a copy of the part
    arcs: Array
    copy: Array  # of each arc


def _calls(machine: Machine, written: Ints) -> list[_Calls]:
    calls = []
    for name in np.unique(written[written < -1])[::-1].tolist():
        arcs = np.flatnonzero(written == name)
        ends, copy = np.unique(machine.target[arcs], return_inverse=True)
        calls.append(_Calls(-1 - name, ends, arcs, copy))
    return calls


def _shifted(states: Array, begin: Array) -> Array:
    """Return states of each copy of a machine, numbered from the beginning of the copy."""
    shifted: Array = np.add.outer(begin, states).ravel()
    return shifted


def _check_copies(machines: Sequence[Machine], calls: Sequence[list[_Calls]], depth: int) -> None:
    """Count the copies before they are made, and refuse too many."""
    sizes = [len(machine.source) + len(machine.final) for machine in machines]
    copies, arcs = {0: 1}, 0
    for level in range(depth + 1):
        arcs += sum(n * sizes[k] for k, n in copies.items())
        if arcs > MAX_ARCS or level > MAX_DEPTH:
            raise TooLargeError(
                f"more than {MAX_ARCS:,} arcs, or {MAX_DEPTH:,} machines within each other, are "
                f"needed: replace to a depth below {level}"
            )
        deeper: dict[int, int] = {}
        for k, n in copies.items():
            for part, end, *_ in calls[k]:
                deeper[part] = deeper.get(part, 0) + n * len(end)
        copies = deeper
        if not copies:
            return


def _terminals(
    machines: Sequence[Machine], names: Iterable[str], side: Side
) -> tuple[Labels, list[Ints]]:
    """Return the symbols of one side of all machines but names, and their numbers on each arc.

    The k-th name is −2 − k.
    """
    sets = [getattr(machine, f"{side}_symbols") for machine in machines]
    number = {name: -2 - k for k, name in enumerate(names)}
    terminals = tuple(dict.fromkeys(x for symbols in sets for x in symbols if x not in number))
    number |= {x: k for k, x in enumerate(terminals)}
    tables = [np.asarray([*(number[x] for x in symbols), -1], dtype=np.int32) for symbols in sets]
    pairs = zip(machines, tables, strict=True)
    return terminals, [table[getattr(machine, side)] for machine, table in pairs]


def _check_names(machine: Machine, names: Sequence[str], read: Ints, written: Ints) -> None:
    """Refuse arcs that read or write a name, and something else."""
    odd = np.flatnonzero((written < -1) & (read != -1) & (read != written))
    odd = np.append(odd, np.flatnonzero((read < -1) & (read != written)))
    if len(odd):
        name = names[-2 - min(int(read[odd[0]]), int(written[odd[0]]))]
        raise OptionError(
            f"an arc of state {machine.source[odd[0]]} of {machine!r} reads or writes "
            f"{name!r} and another symbol: it must read and write the name, or write it "
            "and read epsilon"
        )


# --- Parts ----------------------------------------------------------------------------------------


def check_acceptor(what: str, machine: Machine) -> None:
    """Refuse a machine with an output tape."""
    if machine.tape is not None:
        raise OptionError(
            f'{what} needs an acceptor, got {machine!r}: take .project("input") or '
            '.project("output") of it first'
        )


def _same_semiring(first: Machine, second: Machine) -> None:
    if first.semiring != second.semiring:
        raise OptionError(
            f"one machine has the semiring {first.semiring}, the other "
            f"{second.semiring}: build both with the same semiring="
        )


def aligned(first: M, second: M) -> tuple[M, M]:
    """Return two machines over the symbols of both, on the same tapes."""
    _same_semiring(first, second)
    tape = second.tape if first.tape is None else first.tape
    read, number = merged(first.input_symbols, second.input_symbols)
    written, outputs = merged(first.output_symbols, second.output_symbols)
    first = replace(
        first,
        input_symbols=read,
        output_symbols=written,
        tape=tape,
        reads=second.reads if first.reads is None else first.reads,
    )
    part = second.source, number[second.input], outputs[second.output], second.target, second.score
    return first, replace(made(first, [part], second.final), named=second.named)


def merged(first: Labels, second: Labels) -> tuple[Labels, Ints]:
    """Return the symbols of both, and the numbers of the second ones, then −1 for no symbol."""
    number = {x: k for k, x in enumerate(dict.fromkeys((*first, *second)))}
    return tuple(number), np.asarray([*(number[x] for x in second), -1], dtype=np.int32)


def _columns(machine: Machine, shift: int = 0) -> _Columns:
    source, target = machine.source + shift, machine.target + shift
    return source, machine.input, machine.output, target, machine.score


def _silent(
    source: Array | list[int], target: Array | Sequence[int], score: Floats | list[float]
) -> _Columns:
    none = np.full(len(score), -1)
    return np.asarray(source), none, none, np.asarray(target), np.asarray(score)


def _ends(machine: Machine, shift: int, to: int) -> _Columns:
    """Return silent arcs from the ends of the machine."""
    ends = np.flatnonzero(machine.final > -np.inf)
    return _silent(ends + shift, np.full(len(ends), to), machine.final[ends])


def made(
    like: M,
    parts: Sequence[_Columns],
    final: Floats,
    written: Labels | None = None,
    readable: Labels | None = None,
) -> M:
    """Return a machine of arcs and ends on the tapes of another one, and with its symbols."""
    columns = parts[0] if len(parts) == 1 else map(np.concatenate, zip(*parts, strict=True))
    source, read, write, target, score = columns
    states = (
        frozen(x.astype(np.int32, copy=False), owned=True) for x in (source, read, write, target)
    )
    source, read, write, target = states
    return replace(
        like,
        source=source,
        input=read,
        output=write,
        target=target,
        score=frozen(score, owned=True),
        final=final,
        input_symbols=like.input_symbols if readable is None else readable,
        output_symbols=like.output_symbols if written is None else written,
        named={},
    )


def _no(size: int) -> Longs:
    return np.full(size, -1)


def _entries(machine: Machine) -> tuple[Longs, Longs]:
    """Return the indices of arcs, and of ends, in arrays of both, [A + Q]."""
    indices = np.arange(len(machine.source) + len(machine.final))
    return indices[: len(machine.source)], indices[len(machine.source) :]


def _with_uses(machine: M, *parts: tuple[Machine, Longs]) -> M:
    """Return a machine with the named costs of its parts.

    The numbers in a part are, for each arc and end of the machine, its arc or end in the part, or
    −1.
    """
    named: dict[str, Floats] = {}
    for part, by in parts:
        for name, uses in part.named.items():
            named[name] = named.get(name, 0.0) + np.append(uses, 0.0)[by]
    return replace(machine, named=named) if named else machine


def _sums(machine: Machine) -> bool:
    return machine.semiring == "log"
