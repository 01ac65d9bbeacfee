"""Maps between taggers: pynini transducers from the labels of one to the labels of another.

A map must be length-preserving: every arc reads one label and writes one label, or does neither. If
each label is always mapped to the same label, the map becomes a table (`label_table`). Otherwise
its output becomes a tape of the composition. The score of a pair of label sequences is the score
of its best path, as for grammars.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fstcrf.arguments import is_fst, real_number
from fstcrf.arrays import Ints, Longs
from fstcrf.errors import DataError, GrammarError, LabelError, OptionError, TooLargeError
from fstcrf.machines import openfst
from fstcrf.machines.algebra import trimmed
from fstcrf.machines.grammar import Acceptor, is_empty, minimise, trim
from fstcrf.machines.grammar.automata import Automaton, check_sums, determinise
from fstcrf.machines.grammar.labels import listed, nearest
from fstcrf.machines.machine import Machine
from fstcrf.taggers.component import ObservedTape, Relabelling, TapeMap
from fstcrf.taggers.crf import CRF
from fstcrf.taggers.joint import JointCRF
from fstcrf.taggers.tagger import Normalize

if TYPE_CHECKING:
    import pynini

MAX_STATES = 2_000
"""Largest number of states of a map after determinization."""


Tape = tuple[str, tuple[str, ...]]
"""Name and labels of a tape."""


def pair_acceptor(fst: pynini.Fst, read: Tape, written: Tape, tape: str) -> Acceptor:
    """Return a transducer as an acceptor of pairs of labels.

    The weights of `fst` are costs. Without symbol tables, label i of either tape is symbol i + 1.
    Arcs that read other symbols are removed. `tape` is the name of its output in the composition.

    A GrammarError is raised if its deterministic form has more than `MAX_STATES` states; a
    DataError if it accepts no string, or an arc does not read and write a label; and a LabelError
    if it does not read every label, or writes an unknown label.
    """
    name = f"map {read[0]} → {written[0]}"
    try:
        machine = openfst.from_fst(fst, openfst.Naming((read[1], written[1])))
    except LabelError as error:
        raise LabelError(f"the {name}: {error}") from None
    machine = trimmed(machine)
    if not np.isfinite(machine.final).any():
        raise DataError(f"the {name} accepts no string: no path leads from its start to an end")
    _check_lengths(machine, name)
    usable = (_numbers(machine.input_symbols, read[1])[machine.input] >= 0) | (machine.input < 0)
    machine = trimmed(replace(machine, score=np.where(usable, machine.score, -np.inf)))
    _check_labels(machine, read, written, name)
    acceptor = _deterministic(machine, read, (tape, written[1]), name)
    if is_empty(acceptor):
        raise DataError(f"the {name} accepts no labels, only an empty sentence")
    return acceptor


def label_table(acceptor: Acceptor) -> Ints | None:
    """Return the output label of each input label, int32 [L]; `None` if a label has several.

    With several output labels, the choice depends on the neighbours or on scores.
    """
    possible = (acceptor.target >= 0).any(axis=0)
    if not (possible.sum(axis=1) == 1).all():
        return None
    table: Ints = possible.argmax(axis=1).astype(np.int32)
    return table


def input_grammar(acceptor: Acceptor, table: Ints) -> Acceptor | None:
    """Return the weights and restrictions of a map with a label table as a grammar of its input.

    `None` if the map allows all label sequences, without weights.
    """
    numbers = np.arange(len(table))
    score = acceptor.score
    target = np.ascontiguousarray(acceptor.target[:, numbers, table])
    score = None if score is None else np.ascontiguousarray(score[:, numbers, table])
    names = acceptor.tapes[:1], acceptor.labels[:1]
    grammar = minimise(trim(Acceptor(*names, target, score, acceptor.final, acceptor.name)))
    trivial = grammar.n_states == 1 and bool((grammar.target >= 0).all()) and not grammar.weighted
    return None if trivial else grammar


def _check_lengths(machine: Machine, name: str) -> None:
    half = np.flatnonzero((machine.input < 0) != (machine.output < 0))
    if not len(half):
        return
    symbol, names, does, does_not = machine.input, machine.input_symbols, "reads", "writes"
    if symbol[half[0]] < 0:
        symbol, names, does, does_not = machine.output, machine.output_symbols, "writes", "reads"
    raise DataError(
        f"the {name} is not length-preserving: an arc {does} {names[symbol[half[0]]]!r} and "
        f"{does_not} epsilon; every arc of a map must read and write one label; for other "
        "transducers use tagger @ transducer"
    )


def _numbers(symbols: tuple[str, ...], labels: tuple[str, ...]) -> Longs:
    """Return the label of each symbol, −1 for other symbols; a last −1 is the label of epsilon."""
    place = {label: i for i, label in enumerate(labels)}
    return np.asarray([*(place.get(text, -1) for text in symbols), -1], dtype=np.int64)


def _check_labels(machine: Machine, read: Tape, written: Tape, name: str) -> None:
    readable = set(_numbers(machine.input_symbols, read[1])[machine.input].tolist())
    missing = [label for i, label in enumerate(read[1]) if i not in readable]
    if missing:
        more = f" and {len(missing) - 5} more" if len(missing) > 5 else ""
        raise LabelError(
            f"the {name} has no path that reads {listed(missing[:5])}{more}: it must have one for "
            f"every label of {read[0]!r}"
        )
    numbers = _numbers(machine.output_symbols, written[1])[machine.output]
    odd = np.flatnonzero((numbers < 0) & (machine.output >= 0))
    if len(odd):
        text = machine.output_symbols[machine.output[odd[0]]]
        raise LabelError(
            f"the {name} writes {text!r}, which is no label of {written[0]!r}"
            f"{nearest(text, written[1])}"
        )


def _deterministic(machine: Machine, read: Tape, written: Tape, name: str) -> Acceptor:
    sizes = len(read[1]), len(written[1])
    pair = _numbers(machine.input_symbols, read[1])[machine.input] * sizes[1]
    pair += _numbers(machine.output_symbols, written[1])[machine.output]
    pair[machine.input < 0] = -1
    columns = machine.source, pair, machine.target, machine.score
    automaton = Automaton.of_arcs(*columns, machine.final, sizes[0] * sizes[1])
    shown = [f"{source}:{target}" for source, target in product(read[1], written[1])]
    check_sums(machine, automaton, f"the {name}", shown)
    try:
        target, score, final = determinise(automaton, MAX_STATES)
    except TooLargeError as error:
        raise GrammarError(
            f"the {name} cannot be determinized: {error}; the weights of two paths over "
            "the same labels must not differ without bound"
        ) from None
    shape = (len(final), *sizes)
    tapes, labels = (read[0], written[0]), (read[1], written[1])
    return minimise(
        trim(Acceptor(tapes, labels, target.reshape(shape), score.reshape(shape), final, name))
    )


# --- Maps between taggers in a call of `compose` --------------------------------------------------


class Mapped(NamedTuple):
    """Rules, tapes and relabellings that maps add to a composition."""

    conjuncts: tuple[Acceptor, ...]
    maps: tuple[TapeMap, ...]
    relabellings: tuple[Relabelling, ...]


def split(parts: Sequence[object]) -> tuple[list[object], dict[int, pynini.Fst]]:
    """Return the taggers of a call of `compose`, and its maps by the number of the next tagger."""
    taggers: list[object] = []
    maps: dict[int, pynini.Fst] = {}
    for part in parts:
        if not is_fst(part):
            taggers.append(part)
        elif not taggers or len(taggers) in maps:
            raise OptionError("a map must be placed between two taggers: compose(pos, map, later)")
        else:
            maps[len(taggers)] = part
    if len(taggers) in maps:
        raise OptionError("a map must be placed between two taggers, but no tagger follows it")
    return taggers, maps


def mapped(parts: Sequence[JointCRF], maps: Mapping[int, pynini.Fst]) -> Mapped:
    """Compile maps between parts; `maps` has the number of the part that follows each map."""
    names = {tape for part in parts for tape in part.tapes}
    conjuncts: list[Acceptor] = []
    tapes: list[TapeMap] = []
    relabellings: list[Relabelling] = []
    for number, fst in maps.items():
        before, after = parts[number - 1], parts[number]
        open_reads = _open_reads(after)
        source = _source(before, open_reads)
        read = _target(after, open_reads, source, names)
        readers = open_reads[read]
        labels = next(t.labels for t in readers[0].reads if t.name == read)
        pair = (source, before.label_sets[source]), (read, labels)
        acceptor = pair_acceptor(fst, *pair, _unused_name(read, names))
        table, tape = label_table(acceptor), source
        if table is not None:
            grammar = input_grammar(acceptor, table)
            conjuncts += [] if grammar is None else [grammar]
        else:
            tape = acceptor.tapes[1]
            tapes.append(TapeMap(tape, labels, acceptor))
            names.add(tape)
            if tape == read:
                continue  # the reader finds it by its name
            table = np.arange(len(labels), dtype=np.int32)
        relabellings += [Relabelling(r.tape, read, tape, labels, table) for r in readers]
    return Mapped(tuple(conjuncts), tuple(tapes), tuple(relabellings))


def _open_reads(part: JointCRF) -> dict[str, list[CRF]]:
    """Return the tapes that a part reads but does not write, with the taggers that read them."""
    readers: dict[str, list[CRF]] = {}
    for component in part._components:
        for tape in component.tagger.reads:
            if tape.name not in component.readings:
                readers.setdefault(tape.name, []).append(component.tagger)
    return readers


def _source(before: JointCRF, open_reads: Iterable[str]) -> str:
    """Return the name of the tape that a map reads."""
    if len(before.tapes) == 1:
        return before.tapes[0]
    named = [tape for tape in before.tapes if tape in open_reads]
    if len(named) != 1:
        raise OptionError(
            "it is ambiguous which tape the map reads: the composition before it "
            f"writes {', '.join(map(repr, before.tapes))}; put the tagger whose labels "
            "the map reads directly before the map"
        )
    return named[0]


def _target(after: JointCRF, open_reads: Iterable[str], source: str, names: Iterable[str]) -> str:
    """Return the tape that a map writes, by the name that the next part reads."""
    reads = list(open_reads)
    unwritten = [read for read in reads if read not in names]
    if len(unwritten) == 1:
        return unwritten[0]
    if source in reads:
        return source
    shown = f"reads {', '.join(map(repr, reads))}" if reads else "reads no tape"
    raise OptionError(
        "it is ambiguous which tape the map writes: the next tagger, "
        f"{', '.join(map(repr, after.tapes))}, {shown}; put the map directly before "
        "the tagger that reads its labels"
    )


def _unused_name(name: str, names: Iterable[str]) -> str:
    """Return a name that is not among the names of tapes."""
    while name in names:
        name += "-mapped"
    return name


# --- Parts, joined --------------------------------------------------------------------------------


def joined(
    parts: Sequence[object], weights: Sequence[float] | None, normalize: Normalize | None
) -> JointCRF:
    """Return the composition of taggers and maps; `fstcrf.compose` explains the parameters."""
    members, maps = split(parts)
    taggers = [part for part in members if isinstance(part, CRF | JointCRF)]
    if len(taggers) < len(members):
        wrong = next(part for part in members if not isinstance(part, CRF | JointCRF))
        advice = "; of an estimator, compose its .tagger_" if hasattr(wrong, "tagger_") else ""
        raise OptionError(
            f"cannot compose {wrong!r}: expected taggers (and maps between them), or lattices"
            f"{advice}"
        )
    if weights is not None and len(weights) != len(taggers):
        raise OptionError(f"{len(weights)} weights for {len(taggers)} taggers")
    factors = (
        [1.0] * len(taggers) if weights is None else [real_number(w, "weight") for w in weights]
    )
    models = [part if isinstance(part, JointCRF) else JointCRF((part,), (1.0,)) for part in taggers]
    kinds = {part.normalize for part in models if _is_of_a_kind(part)}
    if normalize is None and len(kinds) > 1:
        raise OptionError(
            "some taggers are composed by product, others by the chain rule: choose "
            "normalize='product' or normalize='chain'"
        )
    between = mapped(models, maps)
    model = JointCRF(
        taggers=tuple(tagger for part in models for tagger in part.taggers),
        weights=tuple(
            weight * factor
            for part, factor in zip(models, factors, strict=True)
            for weight in part.weights
        ),
        conjuncts=(*(a for part in models for a in part.conjuncts), *between.conjuncts),
        maps=(*(m for part in models for m in part.maps), *between.maps),
        normalize=normalize or (kinds.pop() if kinds else "product"),
        relabellings=(*(r for part in models for r in part.relabellings), *between.relabellings),
        given=_observed(models),
        search=next((part.search for part in models if part.search != "auto"), "auto"),
    )
    chosen = normalize is not None or weights is not None or any(map(_is_of_a_kind, models))
    by_chain = not chosen and _reads_own_tapes(model) and not model.maps and not model._literal
    return replace(model, normalize="chain") if by_chain else model


def _observed(compositions: Sequence[JointCRF]) -> tuple[ObservedTape, ...]:
    """Return the observed tapes of compositions; a column has the same labels in all of them."""
    tapes: dict[str, ObservedTape] = {}
    for tape in (tape for composition in compositions for tape in composition.given):
        if tapes.setdefault(tape.tape, tape).labels != tape.labels:
            raise OptionError(
                f"two grammars read the column {tape.tape!r} with other strings: compose first, "
                "then constrain"
            )
    return tuple(tapes.values())


def _is_of_a_kind(model: JointCRF) -> bool:
    """Return whether product and chain rule differ for a composition, or it has weights."""
    several = len(model.taggers) > 1
    return several and (_reads_own_tapes(model) or any(weight != 1.0 for weight in model.weights))


def _reads_own_tapes(model: JointCRF) -> bool:
    return any(component.readings for component in model._components)
