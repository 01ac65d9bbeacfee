"""Maps between taggers in a call of `compose`: what they become in the composition.

A map stands between two parts: it reads the tape that the part before it writes, and what it writes
is what the part behind it reads: the tape that nobody writes or, where there is none, the tape of
the same name. Where each label becomes one label, the reader sees that label:
nothing is added but, for maps with weights or memory, a grammar of the tape. Where a label may
become several, the labels between are a tape of their own. It is named after what the reader
reads, with ``-mapped`` behind it where a tape of that name is there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from fstcrf.errors import OptionError
from fstcrf.grammar import Acceptor
from fstcrf.joint.composition import Composition
from fstcrf.joint.labelmap import along, is_transducer, pair_acceptor, places
from fstcrf.joint.relabelling import Relabelling
from fstcrf.joint.tapemap import TapeMap
from fstcrf.model import CRF

__all__ = ["Mapped", "mapped", "split"]


class Mapped(NamedTuple):
    """What maps add to a composition."""

    conjuncts: tuple[Acceptor, ...]
    maps: tuple[TapeMap, ...]
    relabellings: tuple[Relabelling, ...]


def split(parts: Sequence[Any]) -> tuple[list[Any], dict[int, Any]]:
    """Return the taggers of a call of `compose`, and each map by the place of its reader.

    Raises
    ------
    OptionError
        A map that does not stand between two taggers.
    """
    taggers: list[Any] = []
    maps: dict[int, Any] = {}
    for part in parts:
        if not is_transducer(part):
            taggers.append(part)
        elif not taggers or len(taggers) in maps:
            raise OptionError("a map stands between two taggers: compose(pos, map, later)")
        else:
            maps[len(taggers)] = part
    if len(taggers) in maps:
        raise OptionError("a map stands between two taggers: none follows it")
    return taggers, maps


def mapped(wholes: Sequence[Composition], maps: Mapping[int, Any]) -> Mapped:
    """Return what maps become.

    Parameters
    ----------
    wholes : sequence of Composition
        The parts between which they stand.
    maps : mapping of int to pynini.Fst
        The map that stands before each part.

    Raises
    ------
    OptionError
        It is not clear which tapes a map connects.
    DataError, LabelError, GrammarError
        As `pair_acceptor`.
    """
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


def _open_reads(whole: Composition) -> dict[str, list[CRF]]:
    """Return what taggers of a part read from outside it, and which."""
    found: dict[str, list[CRF]] = {}
    for component in whole.components:
        for tape in component.tagger.reads:
            if tape.name not in component.readings:
                found.setdefault(tape.name, []).append(component.tagger)
    return found


def _source(before: Composition, open_reads: Iterable[str]) -> str:
    """Return the tape that a map reads."""
    if len(before.tapes) == 1:
        return before.tapes[0]
    named = [tape for tape in before.tapes if tape in open_reads]
    if len(named) != 1:
        raise OptionError(
            f"the part before a map writes {', '.join(map(repr, before.tapes))}: put the tagger "
            "whose labels it reads directly before it"
        )
    return named[0]


def _read(after: Composition, open_reads: Iterable[str], source: str, names: Iterable[str]) -> str:
    """Return what a map writes, by the name that the part behind it reads."""
    reads = list(open_reads)
    free = [read for read in reads if read not in names]
    if len(free) == 1:
        return free[0]
    if source in reads:
        return source
    what = f"reads {', '.join(map(repr, reads))}" if reads else "reads no tape"
    raise OptionError(
        f"it is not clear what a map writes: the part behind it, "
        f"{', '.join(map(repr, after.tapes))}, {what}; put the map directly before the tagger that "
        "reads its labels"
    )


def _free(name: str, names: Iterable[str]) -> str:
    """Return a name that no tape has."""
    while name in names:
        name += "-mapped"
    return name
