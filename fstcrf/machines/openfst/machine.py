"""States, arcs and scores of a transducer.

States are numbers from 0; one of them starts, or none; a path may end where the final score is
not −inf; an arc reads an input symbol, writes an output symbol and adds a score.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, replace
from shutil import which
from typing import Literal

import numpy as np

from fstcrf.arguments import (
    LabelSet,
    check_array,
    check_range,
    check_scores,
    check_strings,
    label_tuple,
)
from fstcrf.arrays import Floats, Ints, Longs
from fstcrf.errors import LabelError, OptionError, ShapeError, TooLargeError
from fstcrf.kernel import acyclic
from fstcrf.lazy import LazyModule
from fstcrf.ragged import Ragged

pictures = LazyModule("fstcrf.ext.pictures.svg")

EPSILON = "<eps>"
"""Symbol 0: nothing is read or written."""


@dataclass(frozen=True, slots=True, eq=False)
class FstArrays:
    """A weighted transducer as OpenFst has it, in flat arrays.

    Parameters
    ----------
    start : int
        State in which a path begins; −1: none.
    source, target : int32 [A]
        Ends of the arcs, sorted by source.
    ilabel, olabel : int32 [A]
        Input and output symbol; 0 is epsilon.
    score : float64 [A]
        Natural-log scores of the arcs; −inf forbids.
    final : float64 [S]
        Score of ending in each state; −inf: a path may not end there.
    isymbols, osymbols : tuple of str, optional
        Symbol of label id k at k, empty where there is none; the first is epsilon's.
    semiring : {"tropical", "log"}
        What several paths over the same labels are together: the best of them, or their sum.

    Raises
    ------
    ShapeError
        Arrays that disagree, arcs that are not sorted, or numbers of states or symbols that are not
        there.
    LabelError
        A symbol table with one name at two ids.
    NumericError
        NaN or +inf.
    """

    start: int
    source: Ints
    target: Ints
    ilabel: Ints
    olabel: Ints
    score: Floats
    final: Floats
    isymbols: tuple[str, ...] | None = None
    osymbols: tuple[str, ...] | None = None
    semiring: Literal["tropical", "log"] = "tropical"

    def __post_init__(self) -> None:
        for name in ("source", "target", "ilabel", "olabel"):
            check_array("machine", name, getattr(self, name), np.int32, len(self.source))
        check_array("machine", "score", self.score, np.float64, len(self.source))
        check_array("machine", "final", self.final, np.float64, len(self.final))
        states = len(self.final)
        if not -1 <= self.start < max(states, 1) or (self.start == 0 and not states):
            raise ShapeError(f"machine: start is {self.start}, expected -1 or one of {states}")
        check_range("machine", "source", self.source, states)
        check_range("machine", "target", self.target, states)
        if (np.diff(self.source) < 0).any():
            raise ShapeError("machine: arcs are not sorted by source")
        for name, table in (("ilabel", self.isymbols), ("olabel", self.osymbols)):
            limit = 2**31 if table is None else len(table)
            check_range("machine", name, getattr(self, name), limit)
            _check_distinct(table or ())
        for name in ("score", "final"):
            check_scores("machine", name, getattr(self, name))

    def __repr__(self) -> str:
        return f"<FstArrays: {self.n_states:,} states, {self.n_arcs:,} arcs>"

    @property
    def n_states(self) -> int:
        """Number of states, S."""
        return len(self.final)

    @property
    def n_arcs(self) -> int:
        """Number of arcs, A."""
        return len(self.source)

    @property
    def row(self) -> Longs:
        """int64 [S + 1]: the arcs that leave state s are ``row[s] : row[s + 1]``."""
        return Ragged.from_rows(self.source, self.n_states).offsets

    @property
    def is_acceptor(self) -> bool:
        """Every arc writes what it reads."""
        return bool(np.array_equal(self.ilabel, self.olabel))


def _check_distinct(table: tuple[str, ...]) -> None:
    """Refuse a symbol table with one name at two ids, of which only one would be met."""
    if len({*table, ""}) - 1 + table.count("") < len(table):
        first = {name: k for k, name in reversed(list(enumerate(table)))}
        again = next(k for k, name in enumerate(table) if name and first[name] != k)
        name = table[again]
        raise LabelError(f"symbol {name!r} has the ids {first[name]} and {again}, expected one id")


def without_gaps(table: tuple[str, ...]) -> tuple[tuple[str, ...], Ints]:
    """Return the names of a symbol table, and the place of each id among them, int32.

    Id 0 has the place -1. Ids without a name, and those called like epsilon, have -2.
    """
    known = [k for k, name in enumerate(table) if k and name not in ("", EPSILON)]
    place = np.full(max(len(table), 1), -2, dtype=np.int32)
    place[0], place[known] = -1, np.arange(len(known))
    return tuple([table[k] for k in known]), place


def symbols(labels: LabelSet) -> tuple[str, ...]:
    """Return the symbols of labels: epsilon, then label k as symbol k + 1.

    Raises
    ------
    LabelError
        A label that is there twice, that is empty, or that is epsilon's own name; no labels.
    """
    table = (EPSILON, *label_tuple(labels, error=LabelError))
    check_strings(table, "a label")
    if EPSILON in table[1:]:
        raise LabelError(f"label {table.index(EPSILON, 1) - 1} is {EPSILON}, which is no label")
    if "" in table:
        raise LabelError(f"label {table.index('') - 1} is empty: symbol tables cannot hold that")
    return table


def connect(machine: FstArrays) -> FstArrays:
    """Return the machine without forbidden arcs and without states that lie on no path.

    The states that are left keep their order.
    """
    taken = machine.score > -np.inf
    row = Ragged.from_rows(machine.source[taken], machine.n_states).offsets
    keep = acyclic.connected(row, machine.target[taken], machine.start, machine.final > -np.inf)
    taken &= keep[machine.source] & keep[machine.target]
    if taken.all() and keep.all():
        return machine
    number = np.cumsum(keep, dtype=np.int32) - np.int32(1)
    return replace(
        machine,
        start=int(number[machine.start]) if keep.any() else -1,
        source=number[machine.source[taken]],
        target=number[machine.target[taken]],
        ilabel=machine.ilabel[taken],
        olabel=machine.olabel[taken],
        score=machine.score[taken],
        final=machine.final[keep],
    )


# --- A chain lattice: one copy of its states for each token ---------------------------------------


def sausage_machine(
    node: Floats,
    arcs: Floats,
    initial: Floats,
    final: Floats,
    *,
    source: Ints | None = None,
    target: Ints | None = None,
    state_label: Ints | None = None,
    symbols: tuple[str, ...] | None = None,
) -> FstArrays:
    """Return the machine of one sentence's lattice, without what lies on no path.

    Its states are the start and, token by token, those of the chain; an arc carries the label of
    the state that it leads to, and the potentials of both.

    Parameters
    ----------
    node : float64 [T, S]
        Potentials of the states.
    arcs : float64 [A] or [T, A]
        Potentials of the arcs, the same for all tokens or those of the arcs into each token (the
        first row is not read).
    initial, final : float64 [S]
        Potentials of the first and the last state.
    source, target : int32 [A], optional
        Ends of the arcs; arc ``i * S + j`` leads from i to j when absent.
    state_label : int32 [S], optional
        Label of each state, its own number when absent. Label k is the symbol k + 1.
    symbols : tuple of str, optional
        Attached to both sides.

    Raises
    ------
    ShapeError
        Sizes that disagree.
    NumericError
        NaN or +inf.
    """
    tokens, states = node.shape
    ends = _ends(states, source, target)
    n_arcs = len(ends[0])
    if arcs.shape not in ((n_arcs,), (tokens, n_arcs)) or {initial.shape, final.shape} != {
        (states,)
    }:
        shapes = [list(array.shape) for array in (node, arcs, initial, final)]
        raise ShapeError(f"node, arcs, initial and final are {shapes}: the shapes do not match")
    if not tokens:
        nothing = np.empty(0, dtype=np.int32)
        empty = (nothing, nothing, nothing, nothing, np.empty(0), np.zeros(1))
        return FstArrays(0, *empty, symbols, symbols)
    label = np.arange(states, dtype=np.int32) if state_label is None else state_label
    into = np.arange(1, tokens, dtype=np.int32)[:, None]  # tokens that arcs lead into
    score = arcs[1:] if arcs.ndim == 2 else arcs
    read = np.concatenate([label, np.tile(label[ends[1]], tokens - 1)]) + np.int32(1)
    first = np.arange(states, dtype=np.int32)
    last = np.full(1 + tokens * states, -np.inf)
    last[-states:] = final
    machine = FstArrays(
        start=0,
        source=np.concatenate([0 * first, ((into - 1) * states + ends[0] + 1).reshape(-1)]),
        target=np.concatenate([first + 1, (into * states + ends[1] + 1).reshape(-1)]),
        ilabel=read,
        olabel=read,
        score=np.concatenate([initial + node[0], (score + node[1:, ends[1]]).reshape(-1)]),
        final=last,
        isymbols=symbols,
        osymbols=symbols,
    )
    return connect(machine)


def _ends(states: int, source: Ints | None, target: Ints | None) -> tuple[Ints, Ints]:
    if (source is None) != (target is None):
        raise ShapeError("source and target must be given together, one of them is missing")
    if source is not None and target is not None:
        return source, target
    every = np.arange(states, dtype=np.int32)
    return np.repeat(every, states), np.tile(every, states)


# --- Drawings -------------------------------------------------------------------------------------
# From left to right, the start in bold, ends with two rings.

_MOST_ARCS = 2000


def dot_text(machine: FstArrays, *, digits: int = 3) -> str:
    """Return a machine in graphviz's language.

    Arcs show ``input:output/score``, or ``label/score`` where both are the same; ends show
    ``state/score``. Scores are natural logs, more is better; zeros are left out.

    Parameters
    ----------
    machine : FstArrays
    digits : int
        Significant digits of scores.

    Raises
    ------
    OptionError
        `digits` is below 1.
    """
    if digits < 1:
        raise OptionError(f"digits is {digits}, expected 1 or more")
    lines = ["digraph machine {", "  rankdir=LR;", "  node [shape=circle];"]
    for state, final in enumerate(machine.final.tolist()):
        ends = final > -np.inf
        name = str(state) + (_shown(final, digits) if ends else "")
        looks = ["shape=doublecircle"] if ends else []
        looks += ["style=bold"] if state == machine.start else []
        lines.append(f"  {state} [{', '.join([f'label={quoted(name)}', *looks])}];")
    lines += [
        f"  {source} -> {target} [label={quoted(label)}];"
        for source, target, label in _arc_texts(machine, digits)
    ]
    return "\n".join([*lines, "}\n"])


def _symbol(number: int, table: tuple[str, ...] | None) -> str:
    return str(number) if table is None else table[number]


def _shown(score: float, digits: int) -> str:
    return f"/{score:.{digits}g}" if score else ""


def quoted(text: str) -> str:
    """Return a text as a string of graphviz's language."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def svg(machine: FstArrays, *, digits: int = 3) -> str:
    """Return a drawing of a machine as SVG: by graphviz where it is installed, else by fstcrf.

    Parameters
    ----------
    machine, digits
        As for `dot_text`.

    Raises
    ------
    TooLargeError
        More arcs than anyone can look at.
    OSError
        graphviz's program ``dot`` fails.
    """
    if machine.n_arcs > _MOST_ARCS:
        raise TooLargeError(
            f"{machine.n_arcs:,} arcs are too many for a drawing (at most {_MOST_ARCS:,}): "
            "restrict the machine first, or give dot_text to another program"
        )
    text = dot_text(machine, digits=digits)
    return by_graphviz(text) or pictures.graphs([_graph(machine, digits)], "A transducer")


def by_graphviz(text: str) -> str | None:
    """Return the drawing of a text in graphviz's language; None where it is not installed.

    Raises
    ------
    OSError
        ``dot`` fails.
    """
    program = which("dot")
    if program is None:
        return None
    done = subprocess.run(  # noqa: S603 (no shell; the text comes through a pipe)
        [program, "-Tsvg"], input=text.encode(), capture_output=True, check=False
    )
    if done.returncode:
        words = done.stderr.decode(errors="replace").strip().partition("\n")[0]
        raise OSError(f"dot failed with status {done.returncode}: {words}")
    return done.stdout.decode()


def _graph(machine: FstArrays, digits: int) -> object:
    final = machine.final.tolist()
    ends = [score > -np.inf for score in final]
    states = [
        str(s) + (_shown(score, digits) if score > -np.inf else "") for s, score in enumerate(final)
    ]
    arcs = [
        pictures.Arc(source, target, label) for source, target, label in _arc_texts(machine, digits)
    ]
    return pictures.Diagram("", states, machine.start, ends, arcs)


def _arc_texts(machine: FstArrays, digits: int) -> Iterator[tuple[int, int, str]]:
    """Give the ends of each arc, and what is written on it."""
    columns = (machine.source, machine.target, machine.ilabel, machine.olabel, machine.score)
    for source, target, read, written, score in zip(*(c.tolist() for c in columns), strict=True):
        label = _symbol(read, machine.isymbols)
        if read != written or machine.isymbols != machine.osymbols:
            label += ":" + _symbol(written, machine.osymbols)
        yield source, target, label + _shown(score, digits)
