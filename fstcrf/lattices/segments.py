"""Lattices of segments: arcs over stretches of a text, with labels, that tile it.

Spans with gaps, and frames of speech or of images that collapse to strings, are such lattices, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from fstcrf.arguments import (
    AS_GRAMMAR,
    TRANSDUCED,
    LabelSet,
    label_tuple,
    one_of,
    real_number,
    refuse_fst,
)
from fstcrf.arrays import Bools, Floats, Longs
from fstcrf.errors import LabelError, NoPathError, NumericError, OptionError, ShapeError
from fstcrf.kernel.paired import PairScores
from fstcrf.lattices.arcs import (
    Over,
    SegmentArcs,
    accepted,
    composed,
    crossed,
    machine_of,
    trimmed,
    within,
)
from fstcrf.lattices.candidates import (
    checked_candidates,
    checked_length,
    checked_pairs,
    free_pairs,
    plain_arcs,
    span_columns,
    unknown_label,
)
from fstcrf.lattices.machines import joint_arrays
from fstcrf.lattices.tapes import Taped, potentials
from fstcrf.lattices.tilings import SEGMENT, SegmentPath, Tilings
from fstcrf.machines import openfst
from fstcrf.machines.grammar import Grammar
from fstcrf.machines.grammar.acceptor import Acceptor
from fstcrf.ragged import Ragged

if TYPE_CHECKING:
    import pynini

    from fstcrf.kernel.paired import Paired

OUTSIDE = "O"


class SegmentLattice(Tilings):
    """The tilings of a text by segments, and their scores.

    Made by `from_arrays`, `from_spans`, by `Lattice.from_spans` and `Lattice.from_ctc`, and from
    others by ``lattice & grammar`` and ``lattice @ tagger.lattice(sentence)``. Parameters are those
    of `Tilings`.
    """

    @classmethod
    def from_arrays(
        cls,
        length: int,
        start: ArrayLike,
        end: ArrayLike,
        label: ArrayLike,
        score: ArrayLike,
        labels: LabelSet,
        transitions: ArrayLike | None = None,
        initial: ArrayLike | None = None,
        final: ArrayLike | None = None,
    ) -> SegmentLattice:
        """Return the lattice of segments that tile a text.

        Parameters
        ----------
        length : int
            Tokens of the text, T.
        start, end : int [E]
            First token of each segment and the one behind its last.
        label : int [E]
            Index into `labels`.
        score : [E]
            Natural logs; −inf forbids.
        labels : sequence of L str, or mapping of int to str
        transitions : [L, L], optional
            Score of each label behind another, from row to column; zeros when absent.
        initial, final : [L], optional
            Scores of the first and the last label; zeros when absent.

        Raises
        ------
        ShapeError
            Arrays that disagree.
        DataError
            A segment that is empty or outside the text.
        LabelError
            A label that is not in the list.
        NumericError
            NaN or +inf.
        """
        names = label_tuple(labels)
        size = checked_length(length)
        given, value = checked_candidates(size, start, end, label, score, names)
        pairs, ending = checked_pairs(names, transitions, initial, final)
        arcs = plain_arcs(size, given, value, pairs, ending)
        return cls(arcs, names, size, given)

    @classmethod
    def from_spans(
        cls,
        length: int,
        spans: Sequence[tuple[int, int, str, float]],
        outside: float = 0.0,
        *,
        labels: LabelSet | None = None,
        nested: bool = False,
    ) -> SegmentLattice:
        """Return the lattice of sets of spans that do not overlap; see `Lattice.from_spans`."""
        if nested:
            raise OptionError(
                "nested=True: sets of nested spans are no paths of a lattice; pass the spans of "
                "each level on their own"
            )
        size = checked_length(length)
        columns = span_columns(spans)
        known = tuple(dict.fromkeys(columns[2])) if labels is None else label_tuple(labels)
        if OUTSIDE in known:
            raise OptionError('a span has the label "O": that is what tokens outside have')
        index = {name: k for k, name in enumerate(known)}
        unknown = next((name for name in columns[2] if name not in index), None)
        if unknown is not None:
            raise LabelError(unknown_label(unknown, known))
        number = np.asarray([index[name] for name in columns[2]], dtype=np.int32)
        names = (*known, OUTSIDE)
        given, value = checked_candidates(size, columns[0], columns[1], number, columns[3], names)
        free = real_number(outside, "outside", error=NumericError)
        if not free < np.inf:
            raise NumericError(f"outside is {free}, expected a number or -inf")
        arcs = plain_arcs(size, given, value, *free_pairs(), free=(len(known), free))
        return cls(arcs, names, size, given)

    # --- Other lattices -----------------------------------------------------------------------

    def restrict(
        self, mask: ArrayLike | None = None, *, boundaries: ArrayLike | None = None
    ) -> SegmentLattice:
        """Return the lattice of the paths that are allowed.

        Parameters
        ----------
        mask : bool [E] or [T, L], optional
            Given arcs that may be taken, or labels that each token may be under.
        boundaries : int [T + 1], optional
            1: a segment must end, or begin, before this token; −1: none may; 0: either.

        Raises
        ------
        ShapeError
            Other shapes.
        OptionError
            Boundaries other than −1, 0 and 1.
        """
        arcs = self.arcs
        keep = np.ones(len(arcs.source), dtype=bool)
        if mask is not None:
            keep &= self._allowed(np.asarray(mask, dtype=bool))
        if boundaries is not None:
            wanted = np.asarray(boundaries)
            if wanted.shape != (self.length + 1,):
                found = list(wanted.shape)
                raise ShapeError(f"boundaries is {found}, expected [{self.length + 1}]")
            if not np.isin(wanted, (-1, 0, 1)).all():
                raise OptionError("boundaries are -1, 0 or 1")
            keep &= ~crossed(arcs, np.flatnonzero(wanted == 1))
            here = wanted[arcs.position[arcs.source]]
            inside = arcs.position[arcs.source] > 0
            keep &= ~(inside & np.where(arcs.carries, here == 1, here == -1))
        return self._with(arcs.with_arcs(keep))

    def _allowed(self, mask: Bools) -> Bools:
        """Which arcs a mask allows."""
        arcs = self.arcs
        if mask.shape == (len(self.candidates.start),):
            return np.asarray(np.append(mask, True)[arcs.origin], dtype=bool)
        if mask.shape != (self.length, len(self.labels)):
            found = list(mask.shape)
            wanted = f"[{len(self.candidates.start)}] (arcs) or [{self.length}, {len(self.labels)}]"
            raise ShapeError(f"mask is {found}, expected {wanted} (tokens, labels)")
        return np.asarray(within(arcs, (~mask).astype(np.float64)) == 0.0, dtype=bool)

    def scale(self, factor: float) -> SegmentLattice:
        """Return the lattice with every score times a factor; what is forbidden stays so.

        Raises
        ------
        OptionError
            A factor that is not finite.
        """
        factor = real_number(factor, "factor")
        if not np.isfinite(factor):
            raise OptionError(f"factor is {factor}, expected a finite number")
        arcs = self.arcs
        scaled = replace(
            arcs,
            score=_scaled(arcs.score, factor),
            final=_scaled(arcs.final, factor),
            class_final=_scaled(arcs.class_final, factor),
            pairs=PairScores(_scaled(arcs.pairs.pair, factor)),
        )
        return self._with(scaled)

    def constrained(self, grammar: Grammar, *, over: Over = "segments") -> SegmentLattice:
        """Return the lattice of the paths that a grammar accepts, its scores added.

        Parameters
        ----------
        grammar : Grammar
        over : {"segments", "tokens"}
            segments: it reads the label of each segment, once, in their order; tokens outside, and
            blanks, are not read. tokens: it reads the label that each token is under, "O" outside;
            of a composition the tapes of tokens, too.

        Raises
        ------
        GrammarError
            A grammar that does not go with the labels.
        OptionError
            What is no grammar; another `over`.
        TooLargeError
            A product too large to write out.
        """
        if not isinstance(grammar, Grammar):
            raise OptionError(f"grammar is {grammar!r}, expected a fstcrf.Grammar")
        one_of("over", over, Over)
        sets: dict[str, tuple[str, ...]] = {SEGMENT: self.labels}
        if over == "tokens" and self._tokens is not None:
            sets |= {tape: self._tokens.program.labels(tape) for tape in self._tokens.tapes}
        arcs = self.arcs
        for acceptor in grammar.bind(sets):
            symbol = (
                arcs.label.astype(np.int64) if over == "segments" else self._read(acceptor, arcs)
            )
            arcs = accepted(arcs, acceptor, symbol, None if over == "segments" else arcs.tokens)
        return self._with(arcs)

    def _read(self, acceptor: Acceptor, arcs: SegmentArcs) -> Longs:
        """Return what an acceptor reads at a token of each arc."""
        columns: list[Any] = []
        for tape, known in zip(acceptor.tapes, acceptor.labels, strict=True):
            if tape in ("", SEGMENT) or self._tokens is None:
                columns.append(arcs.under)
                continue
            place, index = self._tokens.tapes.index(tape), {n: k for k, n in enumerate(known)}
            number = np.asarray([index[names[place]] for names in self._names])
            columns.append(number[arcs.state])
        sizes = tuple(map(len, acceptor.labels))
        return np.asarray(np.ravel_multi_index(columns, sizes), dtype=np.int64)

    def __and__(self, grammar: Grammar) -> SegmentLattice:
        """Return the lattice of the paths that a grammar over segments accepts."""
        refuse_fst(grammar, AS_GRAMMAR)
        if not isinstance(grammar, Grammar):
            return NotImplemented
        return self.constrained(grammar)

    def with_tokens(
        self, lattice: Taped, *, coupling: Mapping[tuple[str, str], ArrayLike] | None = None
    ) -> SegmentLattice:
        """Return the composition with a lattice of the same tokens; ``self @ lattice`` for short.

        A path is then segments and a label of each of its tapes at every token; scores add.

        Parameters
        ----------
        lattice : Lattice
            Of one tape or several, under a grammar or not.
        coupling : mapping of ("segment", tape) to [L, labels of the tape], optional
            Potentials of a token's label under the label of its segment.

        Raises
        ------
        ShapeError
            Another number of tokens, couplings of other shapes.
        OptionError
            What is no lattice of tokens; a lattice that is a composition already.
        TooLargeError
            A product too large to write out.
        """
        if not isinstance(lattice, Taped):
            raise OptionError(f"{lattice!r} is no lattice of tokens")
        if self._tokens is not None:
            raise OptionError("compose the lattices of tokens first: segments @ (a @ b)")
        if len(lattice) != self.length:
            raise ShapeError(f"a lattice of {len(lattice)} tokens, expected {self.length}")
        if SEGMENT in lattice.tapes:
            raise OptionError(f"a tape of tokens is called {SEGMENT!r}: rename it")
        joint = joint_arrays(lattice)
        names = [joint.names[k] for k in joint.label.tolist()]
        table = np.zeros((len(self.labels), len(names)))
        for key, values in ({} if coupling is None else coupling).items():
            if key[0] != SEGMENT or key[1] not in lattice.tapes:
                wanted = f'("segment", one of {", ".join(lattice.tapes)})'
                raise OptionError(f"coupling {key!r}: expected {wanted}")
            known = lattice.program.labels(key[1])
            scores = potentials(values, f"coupling {key}", [(len(self.labels), len(known))])
            place = lattice.tapes.index(key[1])
            table += scores[:, [known.index(row[place]) for row in names]]
        arcs = composed(self.arcs, joint, table)
        return SegmentLattice(arcs, self.labels, self.length, self.candidates, lattice, names)

    def beginning_where(self, begins: Callable[[str], bool]) -> SegmentLattice:
        """Return a composition whose segments begin at labels of tokens that begin one, only there.

        Parameters
        ----------
        begins : callable
            Label of the first tape of tokens to whether a segment begins there.

        Raises
        ------
        OptionError
            No lattice of tokens was composed with it.
        """
        if self._tokens is None:
            raise OptionError("no tape of tokens: compose with one first, segments @ tokens")
        first = np.asarray([begins(names[0]) for names in self._names])
        return self._with(trimmed(self.arcs.with_arcs(first[self.arcs.state] != self.arcs.carries)))

    def __matmul__(self, other: Taped) -> SegmentLattice:
        """Return the composition with a lattice of the same tokens; see `with_tokens`."""
        refuse_fst(other, TRANSDUCED)
        if not isinstance(other, Taped):
            return NotImplemented
        return self.with_tokens(other)

    def to_fst(self, arc_type: openfst.ArcType = "log64") -> pynini.Fst:
        """Return the lattice as a ``pynini.Fst`` over the labels of segments; weights are costs.

        Raises
        ------
        MissingDependencyError
            pynini is not installed.
        """
        machine, which = self.arcs.machine.explicit
        label = np.where(which >= 0, self.arcs.label[which], -1) + 1
        found: pynini.Fst = openfst.to_fst(
            openfst.Machine(
                start=0,
                source=Ragged(machine.row).rows().astype(np.int32),
                target=machine.target,
                ilabel=label.astype(np.int32),
                olabel=label.astype(np.int32),
                score=machine.score,
                final=machine.final,
                isymbols=openfst.symbols(self.labels),
                osymbols=openfst.symbols(self.labels),
            ),
            arc_type,
        )
        return found


def _scaled(values: Floats, factor: float) -> Floats:
    alive = values > -np.inf
    return np.where(alive, factor * np.where(alive, values, 0.0), -np.inf)


# --- Many at once ---------------------------------------------------------------------------------


class SegmentBatch:
    """Lattices of many texts, decoded together where they share their pair scores.

    Parameters
    ----------
    lattices : sequence of SegmentLattice
        Those made with the same transitions are one machine for the kernel.
    """

    def __init__(self, lattices: Sequence[SegmentLattice]) -> None:
        self.lattices = list(lattices)
        for k, lattice in enumerate(self.lattices):
            if not isinstance(lattice, SegmentLattice):
                raise OptionError(f"lattice {k} is {lattice!r}, expected a SegmentLattice")

    def __len__(self) -> int:
        """Texts."""
        return len(self.lattices)

    @cached_property
    def _groups(self) -> list[tuple[list[int], Paired]]:
        groups: dict[tuple[int, int, bool], list[int]] = {}
        for k, lattice in enumerate(self.lattices):
            arcs = lattice.arcs
            key = id(arcs.pairs), id(arcs.class_final), arcs.per_position
            groups.setdefault(key, []).append(k)
        return [
            (members, machine_of([self.lattices[k].arcs for k in members]))
            for members in groups.values()
        ]

    def log_partition(self) -> Floats:
        """Return log Z of each, float64 [B]; −inf where there is no path."""
        found = np.empty(len(self))
        for members, machine in self._groups:
            found[members] = machine.log_partitions()
        return found

    def best(self) -> list[SegmentPath]:
        """Return the best path of each.

        Raises
        ------
        NoPathError
            A text that nothing tiles, with its number.
        """
        found: dict[int, SegmentPath] = {}
        log_z = self.log_partition()
        for members, machine in self._groups:
            path, offset = machine.best_paths()
            scores, shift = machine.best_scores().tolist(), 0
            for k, member in enumerate(members):
                lattice = self.lattices[member]
                if scores[k] == -np.inf:
                    error = lattice.no_path()
                    raise NoPathError(error.reason, position=error.position, sentence=member)
                own = path[offset[k] : offset[k + 1]] - np.int32(shift)
                single = lattice.path_from(own, scores[k], float(log_z[member]))
                found[member] = single
                shift += len(lattice.arcs.source)
        return [found[k] for k in range(len(self))]

    def nbest(self, n: int) -> list[list[SegmentPath]]:
        """Return the n best paths of each, best first."""
        return [lattice.nbest(n) for lattice in self.lattices]

    def arc_marginals(self) -> list[Floats]:
        """Return the probabilities of the given arcs of each; zeros where there is no path."""
        found: dict[int, Floats] = {}
        for members, machine in self._groups:
            share_, shift = machine.marginals().arc, 0
            for member in members:
                lattice = self.lattices[member]
                size = len(lattice.arcs.source)
                found[member] = lattice.by_candidate(share_[shift : shift + size])
                shift += size
        return [found[k] for k in range(len(self))]
