"""Relations of ``.grm`` files, and nondeterministic grammars, as transducers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial, reduce
from pathlib import Path
from typing import TypeAlias

import numpy as np

from fstcrf.arrays import Floats
from fstcrf.errors import GrammarError, OptionError, TooLargeError
from fstcrf.machines import algebra, languages
from fstcrf.machines.grammar import syntax
from fstcrf.machines.grammar.acceptor import Acceptor, intersect, minimise, trim
from fstcrf.machines.grammar.binding import Binding, Export
from fstcrf.machines.grammar.expansion import Expansion
from fstcrf.machines.grammar.grammar import Grammar
from fstcrf.machines.grammar.labels import Labels, label_sets
from fstcrf.machines.grammar.language import allowed_folders, named_costs, parse_export
from fstcrf.machines.grammar.regular import MAX_ARCS, Regular, nondeterministic, writes
from fstcrf.machines.grammar.syntax import read_text
from fstcrf.machines.machine import Machine, Semiring

_Row: TypeAlias = tuple[int, int, int, int, float]
"""Source, input, output (−1: epsilon), target, score."""


def from_grammar(
    source: Grammar | str | Path,
    labels: Labels,
    export: str | None,
    weights: Mapping[str, float] | None,
    tape: str,
    semiring: Semiring,
    folders: Sequence[str | Path],
) -> Machine:
    """Return a grammar, or an export of a ``.grm`` text or file; see `Transducer.from_grammar`."""
    sets = label_sets(labels)
    if isinstance(source, Grammar):
        return replace(_of_acceptor(reduce(intersect, source.bind(sets))), semiring=semiring)
    if not isinstance(source, str | Path):
        raise OptionError(f"the grammar is {source!r}, expected a Grammar, a str or a Path")
    path = str(source) if isinstance(source, Path) else None
    text = read_text(path) if path else str(source)
    if path is None and "=" not in text and text.strip().endswith(".grm"):
        raise GrammarError(
            f"{text!r} is not the text of a grammar; to read a file, pass Path({text!r})"
        )
    costs = named_costs(weights)

    parsed = partial(parse_export, text, path, export, allowed_folders(folders))

    def exported(costs: Mapping[str, float]) -> tuple[Machine, list[str]]:
        return _exported(*parsed(costs), sets, tape, semiring)

    machine, names = exported(costs)
    return replace(machine, named=_uses(exported, path, costs, machine, names))


def _exported(
    chosen: Export,
    expansion: Expansion,
    sets: Mapping[str, tuple[str, ...]],
    tape: str,
    semiring: Semiring,
) -> tuple[Machine, list[str]]:
    """Return an export as a transducer, and the names of costs in its file."""
    binding = Binding(expansion.file.tapes, sets)
    with chosen.errors_named():
        value = binding.expanded(chosen.value)
        binding = binding.writing(value)
        value = binding.turned(value)
        read = binding.read()[0]
        if writes(value):
            machine = replace(relation(value, binding), tape=tape)
        else:
            machine = _alternatives(value, binding)
        machine = algebra.without_epsilon(replace(machine, semiring=semiring))
        machine = _of_labels(machine, sets[read])
    return replace(machine, reads=read or None), list(expansion.named_costs)


def _uses(
    exported: Callable[[Mapping[str, float]], tuple[Machine, list[str]]],
    path: str | None,
    costs: Mapping[str, float],
    machine: Machine,
    names: list[str],
) -> dict[str, Floats]:
    """Return the count of each named cost in each arc and end.

    Scores are linear in the costs, so changing one cost by ±1 shows this.
    """
    uses: dict[str, Floats] = {}
    before = np.append(machine.score, machine.final)
    there = before > -np.inf
    for name in names:
        counts: list[Floats] = []
        for step in (1.0, -1.0):
            more = {**costs, name: costs.get(name, 0.0) + step}
            other = exported(more)[0]
            after = np.append(other.score, other.final)
            if len(after) == len(before) and np.array_equal(other.target, machine.target):
                counts.append(np.zeros(len(before)))
                counts[-1][there] = np.round((before[there] - after[there]) / step, 9) + 0.0
        if len(counts) < 2 or not np.array_equal(counts[0], counts[1]):
            raise GrammarError(
                f"the value of the cost <?{name}> changes the structure of the machine, so "
                "the cost cannot stay open: move it out of the operands of & and :, and "
                "out of input[x] and output[x]",
                path=path,
            )
        there = before > -np.inf
        uses[name] = counts[0]
    return uses


# --- Relations ------------------------------------------------------------------------------------


def relation(  # noqa: PLR0911 (a case for each kind of expression)
    expression: Regular, binding: Binding
) -> Machine:
    """Return a tropical relation over a binding's symbols; a part without output is copied."""
    if not writes(expression):
        return _copied(reduce(intersect, binding.acceptors(expression, "a part of a relation")))
    match expression:
        case syntax.Cross(left, right):
            sides = [reduce(intersect, binding.acceptors(x, "a side of :")) for x in (left, right)]
            return _crossed(sides[0], sides[1])
        case syntax.Composition(left, right):
            return algebra.composed(relation(left, binding), relation(right, binding), MAX_ARCS)
        case syntax.Turned(part):
            return replace(algebra.inverted(relation(part, binding)), tape="output")
        case syntax.Concatenation(parts):
            return reduce(algebra.concatenation, [relation(part, binding) for part in parts])
        case syntax.Union(parts):
            return reduce(algebra.union, [relation(part, binding) for part in parts])
        case syntax.Weighted(part, cost):
            machine = relation(part, binding)
            return replace(machine, final=machine.final - float(cost))
        case syntax.Repetition(part, int(low), high) if not isinstance(high, str):
            return _repeated(relation(part, binding), low, high)
        case _:
            raise expression.place.error(
                "a relation is not allowed here: expected an expression that writes nothing"
            )


def _repeated(part: Machine, low: int, high: int | None) -> Machine:
    nothing = _made([], [0.0], part.input_symbols)
    further = algebra.closure(part) if high is None else nothing
    # each copy ends or continues, so that there is only one run per string
    for _ in range((high or low) - low):
        further = algebra.union(nothing, algebra.concatenation(part, further))
    return reduce(algebra.concatenation, [*[part] * low, further])


def _made(rows: list[_Row], final: list[float], symbols: tuple[str, ...]) -> Machine:
    table = np.asarray(rows, dtype=np.float64).reshape(-1, 5).T
    source, read, written, target = np.ascontiguousarray(table[:4].astype(np.int32))
    return Machine(
        source=source,
        input=read,
        output=written,
        target=target,
        score=np.ascontiguousarray(table[4]),
        final=np.asarray(final),
        input_symbols=symbols,
        output_symbols=symbols,
        semiring="tropical",
    )


def _copied(acceptor_: Acceptor) -> Machine:
    return replace(_of_acceptor(acceptor_), tape="output")


def _of_acceptor(acceptor_: Acceptor) -> Machine:
    if len(acceptor_.tapes) > 1:
        raise GrammarError(
            f"{acceptor_.name} reads the tapes {', '.join(acceptor_.tapes)}, but a "
            "transducer reads one"
        )
    steps = _steps(acceptor_)
    rows = [(s, x, x, t, w) for s, ways in enumerate(steps) for x, t, w in ways]
    machine = _made(rows, acceptor_.final.tolist(), acceptor_.labels[0])
    return replace(machine, tape=None, reads=acceptor_.tapes[0] or None)


def over_tuples(acceptor_: Acceptor) -> Machine:
    """Return an acceptor over its tuples of labels by number, without scores."""
    flat = acceptor_.target.reshape(acceptor_.n_states, -1)
    names = tuple(map(str, range(flat.shape[1])))
    ends = np.where(acceptor_.final > -np.inf, 0.0, -np.inf)
    return _of_acceptor(Acceptor(("",), (names,), flat, None, ends, acceptor_.name))


def _steps(acceptor_: Acceptor) -> list[list[tuple[int, int, float]]]:
    """Return the label, target and score of each step of each state."""
    steps: list[list[tuple[int, int, float]]] = []
    for state, targets in enumerate(acceptor_.target):
        labels = np.flatnonzero(targets >= 0).tolist()
        scores = None if acceptor_.score is None else acceptor_.score[state]
        steps.append(
            [(x, int(targets[x]), 0.0 if scores is None else float(scores[x])) for x in labels]
        )
    return steps


def _crossed(left: Acceptor, right: Acceptor) -> Machine:
    """Return the relation of all strings of one acceptor and all strings of another.

    Both advance together, label by label, until one ends; then the other one advances. So there is
    one run for each pair of strings. A state is a pair of states; −1 for an acceptor that has
    ended.
    """
    first, second = _steps(left), _steps(right)
    ends = left.final.tolist(), right.final.tolist()
    number = {(0, 0): 0}
    rows: list[_Row] = []
    final: list[float] = []

    def go(source: int, read: int, written: int, to: tuple[int, int], score: float) -> None:
        if to not in number:
            number[to] = len(number)
            queue.append(to)
        rows.append((source, read, written, number[to], score))

    for place, (p, q) in enumerate(queue := [(0, 0)]):
        done = 0.0 if p < 0 else ends[0][p], 0.0 if q < 0 else ends[1][q]
        final.append(done[0] + done[1])
        left_steps, right_steps = first[p] if p >= 0 else [], second[q] if q >= 0 else []
        if len(rows) + (len(left_steps) + 1) * (len(right_steps) + 1) > MAX_ARCS:
            raise TooLargeError(f"the relation has more than {MAX_ARCS:,} pairs of labels")
        for x, to, score in left_steps:
            for y, onward, more in right_steps:
                go(place, x, y, (to, onward), score + more)
            if done[1] > -np.inf:
                go(place, x, -1, (to, -1), score + done[1])
        if done[0] > -np.inf:
            for y, onward, more in right_steps:
                go(place, -1, y, (-1, onward), more + done[0])
    return algebra.trimmed(_made(rows, final, left.labels[0]))


# --- Over the labels alone ------------------------------------------------------------------------


def _alternatives(value: Regular, binding: Binding) -> Machine:
    """Return an expression as an acceptor with all its alternatives, without determinisation."""
    tape, symbols = binding.read()[0], binding.symbols()
    if len(binding.read()) > 1:
        raise GrammarError("the grammar reads several tapes, but a transducer reads one")
    arcs, last = nondeterministic(value, symbols, binding.flags, binding.part, tape)
    final = [-np.inf] * last + [0.0]
    rows = [(source, x, x, target, score) for source, x, target, score in arcs]
    return replace(_made(rows, final, symbols), tape=None)


def _of_labels(machine: Machine, labels: tuple[str, ...]) -> Machine:
    """Return a transducer restricted to reading labels, and to the output symbols it uses."""
    kept = machine.input < len(labels)  # labels are the first symbols
    source, target = machine.source[kept], machine.target[kept]
    part = source, machine.input[kept], machine.output[kept], target, machine.score[kept]
    machine = algebra.trimmed(algebra.made(machine, [part], machine.final))
    if machine.tape is None:
        return replace(machine, input_symbols=labels, output_symbols=labels)
    used = np.unique(machine.output[machine.output >= 0])
    number = np.full(len(machine.output_symbols) + 1, -1, dtype=np.int32)
    number[used] = np.arange(len(used))
    return replace(
        machine,
        input_symbols=labels,
        output=number[machine.output],
        output_symbols=tuple(machine.output_symbols[k] for k in used.tolist()),
    )


def acceptor(machine: Machine, side: algebra.Side, tape: str, symbols: tuple[str, ...]) -> Acceptor:
    """Return the input or output side of a relation as an acceptor over all symbols."""
    deterministic = languages.determinised(algebra.projected(machine, side))
    number = {symbol: k for k, symbol in enumerate(symbols)}
    place = np.asarray([number[x] for x in deterministic.input_symbols], dtype=np.int64)
    target = np.full((len(deterministic.final), len(symbols)), -1, dtype=np.int32)
    score = np.zeros(target.shape)
    target[deterministic.source, place[deterministic.input]] = deterministic.target
    score[deterministic.source, place[deterministic.input]] = deterministic.score
    scores = score if score.any() else None
    return minimise(trim(Acceptor((tape,), (symbols,), target, scores, deterministic.final)))
