"""The potentials of one sentence, tape by tape.

What is said of labels is said of each tape: of one tape it is an array or a tuple, of several a
tuple of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Generic, Self, cast

import numpy as np
from numpy.typing import ArrayLike

from fstcrf.arguments import LabelSet, label_tuple, real_array
from fstcrf.arrays import Bools, Floats, Ints
from fstcrf.errors import NumericError, OptionError, ShapeError
from fstcrf.lattice.answer import Labels, LabelsT_co
from fstcrf.once import memoised
from fstcrf.plans import Chain, Program
from fstcrf.topology import Topology, chain_topology

__all__ = [
    "Taped",
    "array_lattice",
    "checked_masks",
    "labelling_masks",
    "potentials",
    "restricted",
]

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    ArrayT_co = TypeVar("ArrayT_co", default=Any, covariant=True)
else:  # its default is for those who check types
    from typing import TypeVar

    ArrayT_co = TypeVar("ArrayT_co", covariant=True)

T = TypeVar("T")


class Taped(Generic[LabelsT_co, ArrayT_co]):
    """What one sentence brings to a program.

    Parameters
    ----------
    program : Program
        The composition: tapes, topologies, couplings, grammar.
    values : tuple of float64 arrays
        One array for each of ``program.inputs``.
    """

    def __init__(self, program: Program, values: tuple[Floats, ...]) -> None:
        self.program, self.values = program, values

    def __len__(self) -> int:
        return len(self.values[0])

    @property
    def tapes(self) -> tuple[str, ...]:
        """Names of the tapes."""
        return self.program.tapes

    @property
    def labels(self) -> LabelsT_co:
        """The labels; axis of `marginals` and of masks."""
        return cast("LabelsT_co", self.per_tape(self.program.labels))

    @property
    def no_labels(self) -> LabelsT_co:
        """The labels of the path of an empty sentence."""
        return cast("LabelsT_co", self.per_tape(lambda _: ()))

    def per_tape(self, make: Callable[[str], T]) -> T | tuple[T, ...]:
        """Return what a function makes of the only tape, or a tuple of what it makes of each."""
        if len(self.tapes) == 1:
            return make(self.tapes[0])
        return tuple(make(tape) for tape in self.tapes)

    def labels_of(self, labels: Labels, tape: str) -> tuple[str, ...]:
        """Return the labels that those of a path have for one tape."""
        place = self.tapes.index(self.tape_named(tape))
        return labels if len(self.tapes) == 1 else labels[place]

    def tape_named(self, tape: str | None) -> str:
        """Return a tape by name, or the only one.

        Raises
        ------
        OptionError
            There are several, or none of that name.
        """
        if tape is None and len(self.tapes) == 1:
            return self.tapes[0]
        if tape not in self.tapes:
            wanted = "say which tape" if tape is None else f"no tape {tape!r}"
            raise OptionError(f"{wanted}: there is {', '.join(self.tapes)}")
        return str(tape)

    def path_labels(self, path: Ints) -> LabelsT_co:
        """Return the labels along joint states."""
        axes = self.program.decoder.machine.axis_states(path)
        states = dict(zip(self.program.order, axes, strict=True))

        def names(tape: str) -> tuple[str, ...]:
            topology = self.program.chain[tape].topology
            return tuple([topology.labels[i] for i in topology.state_label[states[tape]].tolist()])

        return cast("LabelsT_co", self.per_tape(names))

    def state_potentials(self, tape: str) -> int:
        """Return which of the values holds a tape's own node potentials."""
        return next(
            k
            for k, what in enumerate(self.program.inputs)
            if what.kind == "node" and what.tape == tape and not what.context
        )

    def with_program(self, program: Program) -> Self:
        """Return the same under another program with the same inputs."""
        return type(self)(program, self.values)

    def with_values(self, changed: Mapping[int, Floats]) -> Self:
        """Return the same with other values at some places."""
        values = tuple(changed.get(k, value) for k, value in enumerate(self.values))
        return type(self)(self.program, values)


# --- Lattices from arrays of scores ---------------------------------------------------------------


def array_lattice(
    labels: LabelSet,
    emissions: ArrayLike,
    transitions: ArrayLike | None,
    initial: ArrayLike | None,
    final: ArrayLike | None,
    tape: str,
) -> tuple[Program, tuple[Floats, ...]]:
    """Return the program and the values of `Lattice.from_arrays`."""
    names = label_tuple(labels)
    size = len(names)
    node = potentials(emissions, "emissions", [(None, size)])
    ends = [
        np.zeros(size) if e is None else potentials(e, name, [(size,)])
        for name, e in (("initial", initial), ("final", final))
    ]
    if transitions is None:
        return _program(names, tape, np.zeros(size**2).tobytes(), *_bytes(ends)), (node,)
    shapes: list[tuple[int | None, ...]] = [(size, size), (max(len(node) - 1, 0), size, size)]
    arcs = potentials(transitions, "transitions", shapes)
    if arcs.ndim == 2:
        return _program(names, tape, arcs.tobytes(), *_bytes(ends)), (node,)
    into = np.zeros((len(node), size * size))  # row t: the arcs into token t
    into[1:] = arcs.reshape(len(arcs), size * size)
    return _program(names, tape, None, *_bytes(ends)), (node, into)


def _bytes(arrays: Sequence[Floats]) -> list[bytes]:
    return [a.tobytes() for a in arrays]


@memoised(64)
def _program(
    labels: tuple[str, ...], tape: str, arc: bytes | None, initial: bytes, final: bytes
) -> Program:
    """Return the program of these potentials; the same one for the same numbers."""
    chain = Chain(
        name=tape,
        topology=free_topology(labels),
        initial=np.frombuffer(initial),
        final=np.frombuffer(final),
        arc=None if arc is None else np.frombuffer(arc),
    )
    return Program([chain])


@lru_cache(maxsize=32)
def free_topology(labels: tuple[str, ...]) -> Topology:
    """Return the topology in which every label may follow every other."""
    return chain_topology(labels, 1)


def potentials(values: ArrayLike, name: str, shapes: list[tuple[int | None, ...]]) -> Floats:
    """Return a copy of an array of potentials, checked.

    Raises
    ------
    ShapeError
        Another shape, or no array of real numbers.
    NumericError
        NaN or +inf; −inf is a legal "never".
    """
    array = real_array(values, name)  # a copy: a lattice does not change behind its answers
    fits = any(
        len(shape) == array.ndim
        and all(n is None or n == m for n, m in zip(shape, array.shape, strict=True))
        for shape in shapes
    )
    if not fits:
        wanted = " or ".join(
            f"[{', '.join('T' if n is None else str(n) for n in shape)}]" for shape in shapes
        )
        raise ShapeError(f"{name} is {list(array.shape)}, expected {wanted}")
    if not (array < np.inf).all():
        place = np.argwhere(~(array < np.inf))[0].tolist()
        raise NumericError(f"{name} has NaN or +inf at {place}; -inf is the way to forbid")
    return array


# --- Masks ----------------------------------------------------------------------------------------

TapedT = TypeVar("TapedT", bound=Taped)


def checked_masks(taped: Taped, mask: ArrayLike | Sequence[ArrayLike]) -> list[Bools]:
    """Return a mask bool [T, L] of each tape.

    Raises
    ------
    ShapeError
        Another shape, or another number of tapes.
    """
    parts = (mask,) if len(taped.tapes) == 1 else tuple(cast("Sequence[ArrayLike]", mask))
    if len(parts) != len(taped.tapes):
        raise ShapeError(f"{len(parts)} masks for the {len(taped.tapes)} tapes")
    masks = []
    for tape, part in zip(taped.tapes, parts, strict=True):
        allowed = np.asarray(part, dtype=bool)
        wanted = (len(taped), len(taped.program.labels(tape)))
        if allowed.shape != wanted:
            raise ShapeError(
                f"mask is {list(allowed.shape)}, expected {list(wanted)} (tokens, labels)"
            )
        masks.append(allowed)
    return masks


def labelling_masks(taped: Taped, labels: Sequence[str] | Sequence[Sequence[str]]) -> list[Bools]:
    """Return the masks that allow one label sequence of each tape.

    Raises
    ------
    LabelError
        A label that a tape does not have.
    ShapeError
        Another number of labels than tokens, or of tapes.
    """
    tapes = taped.tapes
    parts = cast("Sequence[Sequence[str]]", (labels,) if len(tapes) == 1 else labels)
    if len(parts) != len(tapes):
        raise ShapeError(f"labels of {len(parts)} tapes for the tapes {', '.join(tapes)}")
    return [_one_label(taped, tape, part) for tape, part in zip(tapes, parts, strict=True)]


def _one_label(taped: Taped, tape: str, labels: Sequence[str]) -> Bools:
    if len(labels) != len(taped):
        raise ShapeError(f"{len(labels)} labels for {len(taped)} tokens")
    topology = taped.program.chain[tape].topology
    mask = np.zeros((len(taped), topology.n_labels), dtype=bool)
    mask[np.arange(len(taped)), topology.label_ids(labels)] = True
    return mask


def restricted(taped: TapedT, masks: Sequence[Bools]) -> TapedT:
    """Return the potentials of the paths that pass the masks of all tapes."""
    changed = {}
    for tape, mask in zip(taped.tapes, masks, strict=True):
        k = taped.state_potentials(tape)
        states = mask[:, taped.program.chain[tape].topology.state_label]
        changed[k] = np.where(states, taped.values[k], -np.inf)
    return taped.with_values(changed)
