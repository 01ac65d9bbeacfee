"""Machines: compositions as axes, factors and a residual automaton, with or without a batch.

Tables that depend on other tapes' labels have several rows; ``place`` maps an outer index to its
row. A table that is `None` is *per token*: it comes with the batch, one table a token.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np

from fstcrf.arrays import Bools, Floats, Ints, Longs, Ragged
from fstcrf.errors import NumericError, ShapeError, TooLargeError
from fstcrf.kernel.native import array_in, ffi, freeze, frozen, lib
from fstcrf.lazy import made_once

if TYPE_CHECKING:
    from fstcrf.kernel.native import CData, View


@dataclass(frozen=True, eq=False, slots=True)
class Axis:
    """One tape's chain.

    Parameters
    ----------
    n_states : int
    source, target : int32 [A], optional
        Ends of the arcs, sorted by source, then target. Without them every pair of states is an
        arc, number ``i * n_states + j`` from i to j.
    score : float64 [contexts, arcs], optional
        Potential of each arc. `None`: per token, [N, contexts, arcs], row n for the arcs into token
        n.
    place : int32 [product of the earlier axes' states], optional
        Context of an outer index; `None`: always the first.
    contexts : int
        Tables of arc potentials.
    rest : float, optional
        The score of most arcs, if every pair of states is an arc and there is one table: steps then
        visit the others only.
    others : int64 [E], optional
        Numbers of the arcs with another score, ascending.
    """

    n_states: int
    source: Ints | None = None
    target: Ints | None = None
    score: Floats | None = None
    place: Ints | None = None
    contexts: int = 1
    rest: float | None = None
    others: Longs | None = None

    def __post_init__(self) -> None:
        freeze(self, "source", "target", "place", "others")

    @property
    def n_arcs(self) -> int:
        """Number of arcs."""
        return self.n_states**2 if self.source is None else len(self.source)

    @property
    def kind(self) -> Literal["dense", "sparse", "rest"]:
        """Method of a step: full matrix, arc by arc, or over the arcs that differ from the rest."""
        if self.others is not None:
            return "rest"
        return "dense" if self.source is None else "sparse"

    @property
    def n_stepped(self) -> int:
        """Multiply-adds of a step, for each vector of states."""
        return self.n_arcs if self.others is None else len(self.others) + 2 * self.n_states


@dataclass(frozen=True, eq=False, slots=True)
class Factor:
    """Potentials that are added at every token.

    Parameters
    ----------
    rows : int
    width : int
        States of the last axis, or 1 if all of them have the same potential.
    place : int32 [outer], optional
        Row of an outer index; `None`: always the first.
    value : float64 [rows, width], optional
        `None`: per token, [N, rows, width].
    """

    rows: int
    width: int
    place: Ints | None = None
    value: Floats | None = None

    def __post_init__(self) -> None:
        freeze(self, "place")


@dataclass(frozen=True, eq=False, slots=True)
class Residual:
    """A deterministic automaton that reads the labels of every token.

    Parameters
    ----------
    n_states : int
        Q.
    source, target : int32 [E]
        Ends of the edges, sorted by source.
    rows, width, place
        As in `Factor`.
    value : float64 [E, rows, width]
        Score of the edge with these labels; −inf: the edge does not accept them.
    initial, final : float64 [Q]
        Scores before the first token and after the last.
    """

    n_states: int
    source: Ints
    target: Ints
    rows: int
    width: int
    value: Floats
    initial: Floats
    final: Floats
    place: Ints | None = None

    def __post_init__(self) -> None:
        freeze(self, "source", "target", "place")


# --- The parts of a machine as C reads them -------------------------------------------------------


def _kept(
    array: Floats | Ints | Longs,
    dtype: type[np.generic],
    shape: tuple[int, ...],
    name: str,
    keep: list[object],
) -> CData:
    """Return a pointer to an array of this type and shape, and keep the array alive."""
    pointer = array_in(array, dtype, shape, name)
    keep.append(pointer)
    return pointer


def _place(place: Ints | None, n: int, keep: list[object]) -> CData:
    return ffi.NULL if place is None else _kept(place, np.int32, (n,), "place", keep)


def _arcs(source: Ints, target: Ints, n: int, keep: list[object]) -> dict[str, object]:
    """Return the fields of a list of arcs sorted by source."""
    shape = (source.size,)
    ends = (
        _kept(source, np.int32, shape, "source", keep),
        _kept(target, np.int32, shape, "target", keep),
    )
    if len(source) and (source.min() < 0 or source.max() >= n):
        raise ShapeError(f"an arc leaves an unknown state, expected 0 to {n - 1}")
    row = Ragged.from_rows(source, n).offsets
    return {
        "row": _kept(row, np.int64, (n + 1,), "row", keep),
        "source": ends[0],
        "target": ends[1],
    }


def _axis_view(axis: Axis, outer: int, keep: list[object]) -> dict[str, object]:
    """Return the fields of an axis; `outer` is the product of the earlier axes' states."""
    fields: dict[str, object] = {
        "S": axis.n_states,
        "contexts": axis.contexts,
        "moving": axis.score is None,
        "place": _place(axis.place, outer, keep),
    }
    if axis.source is not None and axis.target is not None:
        if not len(axis.source):
            raise ShapeError("an axis has no arcs; there must be an arc")
        fields |= _arcs(axis.source, axis.target, axis.n_states, keep)
        fields["A"] = len(axis.source)
    if axis.score is not None:
        shape = (axis.contexts, axis.n_arcs)
        fields["score"] = _kept(axis.score, np.float64, shape, "arc potentials", keep)
    if axis.rest is not None and axis.others is not None and axis.source is None:
        source, target = np.divmod(axis.others, axis.n_states)
        row = Ragged.from_rows(source, axis.n_states).offsets
        fields["row"] = _kept(row, np.int64, (axis.n_states + 1,), "row", keep)
        others = target.astype(np.int32)
        fields["target"] = _kept(others, np.int32, others.shape, "others", keep)
        fields["rest"] = ffi.new("double *", axis.rest)
        keep.append(fields["rest"])
    return fields


def _factor_view(factor: Factor, outer: int, keep: list[object]) -> dict[str, object]:
    fields: dict[str, object] = {
        "rows": factor.rows,
        "width": factor.width,
        "moving": factor.value is None,
        "place": _place(factor.place, outer, keep),
    }
    if factor.value is not None:
        shape = factor.rows, factor.width
        fields["value"] = _kept(factor.value, np.float64, shape, "factor", keep)
    return fields


def _residual_view(residual: Residual, outer: int, keep: list[object]) -> CData:
    n = residual.n_states
    shape = (len(residual.source), residual.rows, residual.width)
    fields = {
        "Q": n,
        "E": len(residual.source),
        "rows": residual.rows,
        "width": residual.width,
        "place": _place(residual.place, outer, keep),
        "value": _kept(residual.value, np.float64, shape, "residual", keep),
        "initial": _kept(residual.initial, np.float64, (n,), "residual initial", keep),
        "final": _kept(residual.final, np.float64, (n,), "residual final", keep),
        **_arcs(residual.source, residual.target, n, keep),
    }
    view = ffi.new("fc_residual *", fields)
    keep.append(view)
    return view


# --- Compositions as the kernel sees them ---------------------------------------------------------

MAX_AXES = int(lib.FC_MAX_AXES)


@dataclass(frozen=True, eq=False)
class JointChain:
    """A composition as a chain over joint states, without the potentials of sentences.

    Parameters
    ----------
    axes : tuple of Axis
    factors : tuple of Factor
    residual : Residual, optional
    initial, final : float64 [outer, S]
        Potentials of beginning and ending in a joint state.
    empty : float
        Score of a sentence without tokens; −inf: it has no path.

    Raises
    ------
    ShapeError
        Sizes or indices that disagree.
    NumericError
        NaN, +inf or numbers beyond 1e300 among the potentials.
    """

    axes: tuple[Axis, ...]
    factors: tuple[Factor, ...]
    residual: Residual | None
    initial: Floats
    final: Floats
    empty: float = field(default=0.0, kw_only=True)

    def __post_init__(self) -> None:
        if not 1 <= len(self.axes) <= MAX_AXES:
            raise ShapeError(f"{len(self.axes)} axes, expected 1 to {MAX_AXES}")
        for c, axis in enumerate(self.axes):
            if axis.n_states < 1:
                raise ShapeError(f"axis {c} has {axis.n_states} states, expected at least 1")
            if (axis.source is None) != (axis.target is None):
                raise ShapeError(f"axis {c}: source and target go together: one is missing")
            if (axis.rest is None) != (axis.others is None):
                raise ShapeError(f"axis {c}: rest and others go together: one is missing")
            if axis.rest is not None and axis.source is not None:
                raise ShapeError(
                    f"axis {c} lists its arcs, so it cannot have a rest: only an axis with all "
                    "pairs of states can"
                )
            others = axis.others
            if others is not None and ((others < 0) | (others >= axis.n_arcs)).any():
                raise ShapeError(f"axis {c}: others holds an arc outside [0, {axis.n_arcs:,})")
        where = ffi.new("int64_t *")
        status = lib.fc_check_machine(self._static[0], where)
        if status != lib.FC_OK:
            _refuse(status, where[0])

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of states of each axis."""
        return tuple(axis.n_states for axis in self.axes)

    @made_once
    def outer(self) -> int:
        """Product of the states of all axes but the last."""
        return int(np.prod(self.shape[:-1], dtype=np.int64))

    @property
    def width(self) -> int:
        """States of the last axis."""
        return self.axes[-1].n_states

    @property
    def n_residual(self) -> int:
        """States of the residual automaton, at least 1."""
        return 1 if self.residual is None else self.residual.n_states

    @made_once
    def steps(self) -> int:
        """Multiply-adds of a token, and at least 1."""
        cells = self.outer * self.width * self.n_residual
        edges = 0 if self.residual is None else len(self.residual.source) * self.outer * self.width
        return sum(cells // a.n_states * a.n_stepped for a in self.axes) + edges + 1

    def per_token_shapes(self, n_tokens: int) -> list[tuple[int, int, int]]:
        """Return the shapes of the batch's potentials: per-token factors, then per-token axes."""
        factors = [(n_tokens, f.rows, f.width) for f in self.factors if f.value is None]
        axes = [(n_tokens, a.contexts, a.n_arcs) for a in self.axes if a.score is None]
        return factors + axes

    def axis_states(self, path: Ints) -> tuple[Ints, ...]:
        """Return the states of every axis along joint states; −1 remains −1."""
        split = np.unravel_index(np.maximum(path, 0), self.shape)
        return tuple(np.where(path < 0, -1, part).astype(np.int32) for part in split)

    @made_once
    def _static(self) -> View:
        """The C view without per-token potentials, and the memory it points into."""
        return _machine_view(self)


class Bound:
    """A machine with the potentials of a batch.

    Parameters
    ----------
    machine : JointChain
    offsets : int64 [B + 1]
        Bounds of the sentences, which may be empty.
    per_token : tuple of float64 arrays
        Potentials with the shapes of `JointChain.per_token_shapes`.
    checked : bool
        Skip the check that potentials are below 1e300, because they are sums of finite weights.

    Raises
    ------
    ShapeError
        Sizes that disagree.
    NumericError
        NaN, +inf or numbers beyond 1e300.

    Attributes
    ----------
    bounds : int64 [B + 1]
        The offsets.
    per_token : tuple of float64 arrays
    """

    def __init__(
        self,
        machine: JointChain,
        offsets: Longs,
        per_token: tuple[Floats, ...],
        *,
        checked: bool = False,
    ) -> None:
        if offsets.ndim != 1 or not len(offsets):
            raise ShapeError("offsets is empty, expected [B + 1] numbers from 0")
        offsets = frozen(offsets)
        self.machine = machine
        self.n_sentences, self.n_tokens = len(offsets) - 1, int(offsets[-1])
        self.offsets = array_in(offsets, np.int64, offsets.shape, "offsets")
        lengths = Ragged(offsets).lengths
        if offsets[0] != 0 or (lengths < 0).any():
            raise ShapeError("offsets fall or do not start at 0")
        shapes = machine.per_token_shapes(self.n_tokens)
        if len(per_token) != len(shapes):
            raise ShapeError(
                f"{len(per_token)} arrays of per-token potentials, expected {len(shapes)}"
            )
        n_factors = sum(f.value is None for f in machine.factors)
        pointers = []
        for k, (array, shape) in enumerate(zip(per_token, shapes, strict=True)):
            values = array_in(array, np.float64, shape, f"per-token potentials {k}")
            if not checked:
                self._check_numbers(k, array, values, offsets if k >= n_factors else None)
            pointers.append(values)
        self.view, self._memory = bound_view(machine, pointers)
        self.per_token, self.bounds = per_token, offsets
        self.longest = int(lengths.max(initial=0))

    def over(self, machine: JointChain) -> Bound:
        """Return the same sentences under a machine of the same axes and potentials.

        It differs only in its residual automaton.

        Raises
        ------
        ShapeError
            The machine has other axes or potentials.
        """
        current = self.machine
        if current.shape != machine.shape or len(current.factors) != len(machine.factors):
            raise ShapeError(f"a machine of shape {machine.shape}, expected {current.shape}")
        other = object.__new__(Bound)
        other.__dict__.update(vars(self), machine=machine)  # copy() takes five times as long
        other.view = ffi.new("fc_machine *", self.view[0])
        other.view.residual = machine._static[0].residual  # noqa: SLF001
        other._memory = [self._memory, machine._static]  # noqa: SLF001
        return other

    def select(self, sentences: Sequence[int]) -> Bound:
        """Return some of the sentences; itself for all of them."""
        if len(sentences) == self.n_sentences and list(sentences) == [*range(self.n_sentences)]:
            return self
        tokens = self.tokens(sentences)
        per_token = tuple(np.ascontiguousarray(array[tokens]) for array in self.per_token)
        offsets = Ragged(self.bounds).select(np.asarray(sentences, dtype=np.int64)).offsets
        return Bound(self.machine, offsets, per_token, checked=True)

    def part(self, first: int, end: int) -> Bound:
        """Return successive sentences, whose potentials are not copied; itself for all of them."""
        if end - first == self.n_sentences:
            return self
        begin, stop = self.bounds[[first, end]].tolist()
        per_token = tuple(array[begin:stop] for array in self.per_token)
        return Bound(self.machine, self.bounds[first : end + 1] - begin, per_token, checked=True)

    def tokens(self, sentences: Sequence[int]) -> Longs:
        """Return the numbers of the tokens of some sentences, one after the other."""
        return Ragged(self.bounds).entries(np.asarray(sentences, dtype=np.int64))

    def _check_numbers(self, k: int, array: Floats, values: CData, offsets: Longs | None) -> None:
        place = lib.fc_first_invalid(array.size, values)
        if place < 0:
            return
        if offsets is not None:  # first tokens have no arcs into them: those rows are not read
            read = np.setdiff1d(np.arange(len(array)), offsets[:-1])
            bad = read[~_allowed(array[read]).all(axis=(1, 2))]
            if not len(bad):
                return
            wrong = ~_allowed(array[bad[0]].reshape(-1))
            place = int(bad[0]) * array[0].size + int(np.flatnonzero(wrong)[0])
        token, cell = divmod(int(place), array[0].size)
        raise NumericError(
            f"NaN, +inf or beyond 1e300 in per-token potentials {k}: token {token}, entry {cell}"
        )

    @property
    def inputs(self) -> tuple[CData, int, CData]:
        """Arguments with which all C calls begin: the view, number and bounds of sentences."""
        return self.view, self.n_sentences, self.offsets

    def check_paths(self, n: int, extra: int = 0) -> None:
        """Raise an error if n best paths need more memory than the machine has.

        Parameters
        ----------
        n : int
        extra : int
            Float64 numbers that the call needs in addition to the recursion and the paths.
        """
        size = int(lib.fc_machine_work(self.view, 0, self.longest)) + n * self.n_tokens // 2 + extra
        cells = self.machine.outer * self.machine.width * self.machine.n_residual
        what = f"the {n:,} best paths of {self.longest:,} tokens, {cells:,} states at each"
        check_memory(size, what, self.longest)

    def scratch(self, size: int | None = None, *, lanes: bool = False) -> CData:
        """Return work space for one call; `lanes`: dense sentences may be side by side in it."""
        if size is None and (lanes or self.machine.axes[0].kind != "dense"):
            size = int(lib.fc_machine_work(self.view, self.n_sentences, self.longest))
        elif size is None:
            size = int(lib.fc_machine_work(self.view, 0, self.longest))
        cells = self.machine.outer * self.machine.width * self.machine.n_residual
        what = f"a sentence of {self.longest:,} tokens, {cells:,} states at each"
        return ffi.from_buffer("double[]", allocated(size, what, self.longest))


def allocated(size: int, what: str, tokens: int) -> Floats:
    """Return scratch for a sentence of `tokens` tokens, float64 [size]."""
    try:
        check_memory(size, what, tokens)
        return np.empty(size)
    except MemoryError:  # free memory is less than total memory
        raise _too_large(size, what, tokens) from None


def check_memory(size: int, what: str, tokens: int) -> None:
    """Raise an error if `size` float64 numbers need more memory than the machine has."""
    if 8 * size > os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"):
        raise _too_large(size, what, tokens)


def _too_large(size: int, what: str, tokens: int) -> TooLargeError:
    return TooLargeError(
        f"{what}: that takes {8 * size / 1e9:,.1f} GB of memory; is a blank line missing between "
        "sentences? Else cut the sentence, or ask for less",
        tokens=tokens,
    )


def _allowed(potentials: Floats) -> Bools:
    return (np.abs(potentials) <= 1e300) | np.isneginf(potentials)


def _refuse(status: int, where: int) -> None:
    if where < 100:
        what = f"axis {where}"
    elif where < 200:
        what = f"factor {where - 100}"
    else:
        what = "the residual automaton" if where == 200 else "initial or final"
    if status == lib.FC_ENUMERIC:
        raise NumericError(f"{what} has a potential that is NaN, +inf or beyond 1e300")
    raise ShapeError(f"{what} has sizes or indices that disagree, or two edges for one label")


def bound_view(machine: JointChain, per_token: Sequence[CData]) -> View:
    """Return the C view of a machine with pointers to per-token potentials, and its memory.

    All other fields are copied from the machine.
    """
    static, rest = machine._static[0], iter(per_token)  # noqa: SLF001
    view = ffi.new("fc_machine *", static[0])
    keep: list[object] = [machine, *per_token]
    if any(factor.value is None for factor in machine.factors):
        view.factor = factors = ffi.new("fc_factor[]", len(machine.factors))
        keep.append(factors)
        for k, factor in enumerate(machine.factors):
            factors[k] = static.factor[k]
            if factor.value is None:
                factors[k].value = next(rest)
    if any(axis.score is None for axis in machine.axes):
        view.axis = axes = ffi.new("fc_axis[]", len(machine.axes))
        keep.append(axes)
        for k, axis in enumerate(machine.axes):
            axes[k] = static.axis[k]
            if axis.score is None:
                axes[k].score = next(rest)
    return view, keep


def _machine_view(machine: JointChain) -> View:
    """Return the C view of a machine without per-token potentials, and its memory."""
    keep: list[object] = []
    factors = [_factor_view(f, machine.outer, keep) for f in machine.factors]
    outer = [1]
    for axis in machine.axes[:-1]:
        outer.append(outer[-1] * axis.n_states)
    axes = [_axis_view(a, n, keep) for a, n in zip(machine.axes, outer, strict=True)]
    residual = ffi.NULL
    if machine.residual is not None:
        residual = _residual_view(machine.residual, outer[-1], keep)
    shape = (outer[-1], machine.width)
    keep += [ffi.new("fc_axis[]", axes), ffi.new("fc_factor[]", factors), residual]
    view = ffi.new(
        "fc_machine *",
        {
            "axes": len(axes),
            "factors": len(factors),
            "outer": shape[0],
            "S": shape[1],
            "empty": machine.empty,
            "axis": keep[-3],
            "factor": keep[-2],
            "residual": residual,
            "initial": _kept(machine.initial, np.float64, shape, "initial", keep),
            "final": _kept(machine.final, np.float64, shape, "final", keep),
        },
    )
    return view, keep
