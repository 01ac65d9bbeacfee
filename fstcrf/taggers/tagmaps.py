"""A pynini transducer between two label sets, as arrays: what a composition keeps of it.

It must be length-preserving: every arc reads a label and writes one, or does neither. Where all its
paths write the same label for each label they read, that is a table (`places`); otherwise it
leaves a choice, and the labels that it writes are a tape of their own.

The score of a pair of labellings is that of its best path, as for grammars.
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
"""States that a map may have once it is deterministic."""


Tape = tuple[str, tuple[str, ...]]
"""Name and labels."""


def pair_acceptor(fst: pynini.Fst, read: Tape, written: Tape, tape: str) -> Acceptor:
    """Return a transducer as the acceptor of the pairs of labels that go together.

    Its weights are costs. Symbols are those of its own tables; where it has none, label i of either
    tape is symbol i + 1. What it reads beyond the labels, by its tables, is left out. `read` and
    `written` are names and labels of what it reads and writes, for messages; `tape` is the one that
    it writes in the composition. GrammarError where it does not become deterministic within
    `MAX_STATES` states, DataError where it reads or writes nothing on some arc, or accepts nothing.
    """
    name = f"map {read[0]} → {written[0]}"
    try:
        whole = openfst.from_fst(fst, openfst.Naming((read[1], written[1])))
    except LabelError as error:
        raise LabelError(f"the {name}: {error}") from None
    machine = trimmed(whole)
    if not np.isfinite(machine.final).any():
        raise DataError(
            f"the {name} accepts no string: no path leads from its start to a final state"
        )
    _check_lengths(machine, name)
    taken = (_numbers(machine.input_symbols, read[1])[machine.input] >= 0) | (machine.input < 0)
    machine = trimmed(replace(machine, score=np.where(taken, machine.score, -np.inf)))
    _check_labels(machine, read, written, name)
    acceptor = _deterministic(machine, read, (tape, written[1]), name)
    if is_empty(acceptor):
        raise DataError(f"the {name} accepts no labels, only an empty sentence")
    return acceptor


def places(acceptor: Acceptor) -> Ints | None:
    """Return the one label that is written for each label that is read, int32 [L]; or None.

    None where a label may become several: which one depends on its neighbours, or is a choice.
    """
    possible = (acceptor.target >= 0).any(axis=0)
    if not (possible.sum(axis=1) == 1).all():
        return None
    place: Ints = possible.argmax(axis=1).astype(np.int32)
    return place


def along(acceptor: Acceptor, place: Ints) -> Acceptor | None:
    """Return what a map with places says of the tape that it reads; None: nothing.

    Its weights and what it forbids are a grammar of that tape.
    """
    numbers = np.arange(len(place))
    score = acceptor.score
    found = minimise(
        trim(
            Acceptor(
                acceptor.tapes[:1],
                acceptor.labels[:1],
                np.ascontiguousarray(acceptor.target[:, numbers, place]),
                None if score is None else np.ascontiguousarray(score[:, numbers, place]),
                acceptor.final,
                acceptor.name,
            )
        )
    )
    free = found.n_states == 1 and bool((found.target >= 0).all()) and not found.weighted
    return None if free else found


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
    """Return the label that each symbol is, −1 for those that are none, and at last −1."""
    place = {label: i for i, label in enumerate(labels)}
    return np.asarray([*(place.get(text, -1) for text in symbols), -1], dtype=np.int64)


def _check_labels(machine: Machine, read: Tape, written: Tape, name: str) -> None:
    known = set(_numbers(machine.input_symbols, read[1])[machine.input].tolist())
    missing = [label for i, label in enumerate(read[1]) if i not in known]
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
    shown = [f"{one}:{other}" for one, other in product(read[1], written[1])]
    check_sums(machine, automaton, f"the {name}", shown)
    try:
        target, score, final = determinise(automaton, MAX_STATES)
    except TooLargeError as error:
        raise GrammarError(
            f"the {name} cannot be determinized: {error}; the weights of two paths over "
            "the same labels must not differ without bound"
        ) from None
    shape = (len(final), *sizes)
    return minimise(
        trim(
            Acceptor(
                (read[0], written[0]),
                (read[1], written[1]),
                target.reshape(shape),
                score.reshape(shape),
                final,
                name,
            )
        )
    )


# --- Maps between taggers in a call of `compose` --------------------------------------------------


class Mapped(NamedTuple):
    """What maps add to a composition."""

    conjuncts: tuple[Acceptor, ...]
    maps: tuple[TapeMap, ...]
    relabellings: tuple[Relabelling, ...]


def split(parts: Sequence[object]) -> tuple[list[object], dict[int, pynini.Fst]]:
    """Return the taggers of a call of `compose`, and each map by the place of its reader."""
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


def mapped(wholes: Sequence[JointCRF], maps: Mapping[int, pynini.Fst]) -> Mapped:
    """Return what maps become, by the part before which each stands."""
    names = {tape for whole in wholes for tape in whole.tapes}
    conjuncts: list[Acceptor] = []
    tapes: list[TapeMap] = []
    relabellings: list[Relabelling] = []
    for number, fst in maps.items():
        before, after = wholes[number - 1], wholes[number]
        open_reads = _open_reads(after)
        source = _source(before, open_reads)
        read = _read(after, open_reads, source, names)
        readers = open_reads[read]
        labels = next(t.labels for t in readers[0].reads if t.name == read)
        known = before.label_sets[source]
        acceptor = pair_acceptor(fst, (source, known), (read, labels), _free(read, names))
        place, tape = places(acceptor), source
        if place is not None:
            rest = along(acceptor, place)
            conjuncts += [] if rest is None else [rest]
        else:
            tape = acceptor.tapes[1]
            tapes.append(TapeMap(tape, labels, acceptor))
            names.add(tape)
            if tape == read:
                continue  # the reader finds it by its name
            place = np.arange(len(labels), dtype=np.int32)
        relabellings += [Relabelling(r.tape, read, tape, labels, place) for r in readers]
    return Mapped(tuple(conjuncts), tuple(tapes), tuple(relabellings))


def _open_reads(whole: JointCRF) -> dict[str, list[CRF]]:
    """Return what taggers of a part read from outside it, and which."""
    found: dict[str, list[CRF]] = {}
    for component in whole.components:
        for tape in component.tagger.reads:
            if tape.name not in component.readings:
                found.setdefault(tape.name, []).append(component.tagger)
    return found


def _source(before: JointCRF, open_reads: Iterable[str]) -> str:
    """Return the tape that a map reads."""
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


def _read(after: JointCRF, open_reads: Iterable[str], source: str, names: Iterable[str]) -> str:
    """Return what a map writes, by the name that the part behind it reads."""
    reads = list(open_reads)
    free = [read for read in reads if read not in names]
    if len(free) == 1:
        return free[0]
    if source in reads:
        return source
    what = f"reads {', '.join(map(repr, reads))}" if reads else "reads no tape"
    raise OptionError(
        "it is ambiguous which tape the map writes: the next tagger, "
        f"{', '.join(map(repr, after.tapes))}, {what}; put the map directly before "
        "the tagger that reads its labels"
    )


def _free(name: str, names: Iterable[str]) -> str:
    """Return a name that no tape has."""
    while name in names:
        name += "-mapped"
    return name


# --- Parts, joined --------------------------------------------------------------------------------


def joined(
    parts: Sequence[object], weights: Sequence[float] | None, normalize: Normalize | None
) -> JointCRF:
    """Return taggers, and maps between them, as one; arguments and errors as `fstcrf.compose`."""
    found, transducers = split(parts)
    taggers = [part for part in found if isinstance(part, CRF | JointCRF)]
    if len(taggers) < len(found):
        wrong = next(part for part in found if not isinstance(part, CRF | JointCRF))
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
    wholes = [part if isinstance(part, JointCRF) else JointCRF((part,), (1.0,)) for part in taggers]
    kinds = {whole.normalize for whole in wholes if _is_of_a_kind(whole)}
    if normalize is None and len(kinds) > 1:
        raise OptionError(
            "some taggers are composed by product, others by the chain rule: choose "
            "normalize='product' or normalize='chain'"
        )
    between = mapped(wholes, transducers)
    whole = JointCRF(
        taggers=tuple(tagger for whole in wholes for tagger in whole.taggers),
        weights=tuple(
            weight * factor
            for whole, factor in zip(wholes, factors, strict=True)
            for weight in whole.weights
        ),
        conjuncts=(*(a for whole in wholes for a in whole.conjuncts), *between.conjuncts),
        maps=(*(m for whole in wholes for m in whole.maps), *between.maps),
        normalize=normalize or (kinds.pop() if kinds else "product"),
        relabellings=(*(r for whole in wholes for r in whole.relabellings), *between.relabellings),
        given=_given(wholes),
        search=next((whole.search for whole in wholes if whole.search != "auto"), "auto"),
    )
    said = normalize is not None or weights is not None or any(map(_is_of_a_kind, wholes))
    chained = not said and _reads_itself(whole) and not whole.maps and not whole.literal
    return replace(whole, normalize="chain") if chained else whole


def _given(wholes: Sequence[JointCRF]) -> tuple[ObservedTape, ...]:
    """Return the given tapes of compositions: a column has the same labels in all of them."""
    found: dict[str, ObservedTape] = {}
    for tape in (tape for whole in wholes for tape in whole.given):
        if found.setdefault(tape.tape, tape).labels != tape.labels:
            raise OptionError(
                f"two grammars read the column {tape.tape!r} with other strings: compose first, "
                "then constrain"
            )
    return tuple(found.values())


def _is_of_a_kind(whole: JointCRF) -> bool:
    """Whether product and chain differ for a part of a composition, or its weights were chosen."""
    several = len(whole.taggers) > 1
    return several and (_reads_itself(whole) or any(weight != 1.0 for weight in whole.weights))


def _reads_itself(whole: JointCRF) -> bool:
    return any(component.readings for component in whole.components)
