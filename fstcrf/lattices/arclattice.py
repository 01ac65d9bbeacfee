"""Lattices of arcs: their segments, and the lattices that are made of them.

Every kind is this class; `fstcrf.lattices.constructors` makes them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Self, cast

import numpy as np
from numpy.typing import ArrayLike

from fstcrf.arguments import AS_GRAMMAR, TRANSDUCED, one_of, real_number, refuse_fst
from fstcrf.arrays import Bools, Floats, Ints, Longs
from fstcrf.errors import (
    GrammarError,
    OptionError,
    ShapeError,
    TooLargeError,
)
from fstcrf.files import write_picture
from fstcrf.kernel.paired import PairScores
from fstcrf.lattices import arcproducts
from fstcrf.lattices.arcanswers import ArcAnswers, Rule
from fstcrf.lattices.arcs import Arcs
from fstcrf.lattices.engine import Over, Runs
from fstcrf.lattices.machines import joint_arrays
from fstcrf.lattices.paths import share
from fstcrf.lattices.questions import Tape
from fstcrf.lattices.spans import MinimumRisk, ProbableSpans
from fstcrf.lattices.tapes import Taped, distinct_tapes, potentials, scaled_lattice
from fstcrf.machines import openfst, pictures
from fstcrf.machines.grammar import Grammar
from fstcrf.machines.plans.chain import scaled_acceptor
from fstcrf.ragged import Ragged

if TYPE_CHECKING:
    import pynini


SEGMENT = "segment"
"""Name of the tape of segments."""

Loss = Literal["token", "span"]


@dataclass(frozen=True, eq=False)
class _Listed:
    """The distinct segments that begin with arcs, and what each has of their probabilities."""

    key: Longs  # ascending
    of: Longs  # which of them each fact is
    start: Longs
    end: Longs
    label: Longs
    share: Floats


class ArcLattice(ArcAnswers):
    """A weighted set of paths: of segments, spans, frames, words, or of an acyclic machine.

    Made by the ``from_`` methods of `fstcrf.Lattice`, by taggers, and from others by
    ``lattice & grammar`` and ``lattice @ lattice``. Parameters are those of `ArcAnswers`.
    """

    # --- Segments -----------------------------------------------------------------------------

    def span_probability(
        self, start: int, end: int, label: str, *, tape: str | None = None
    ) -> float:
        """Return the probability that exactly this segment is there; errors as for many."""
        return float(self.span_probabilities([(start, end, label)], tape=tape)[0])

    def span_probabilities(
        self, spans: Sequence[tuple[int, int, str]], *, tape: str | None = None
    ) -> Floats:
        """Return the probabilities of segments; 0 of one that the lattice does not have.

        Raises
        ------
        LabelError
            A label that is not in the list.
        OptionError
            A span outside the text, no such tape.
        NoPathError
            There is no path.
        """
        number = self._of_segments(tape)
        self.check_alive()
        listed = self._listed(number)
        start, end, label = self._checked(spans, number)
        if listed is None:
            log_z = self.log_partition()
            runs = zip(start.tolist(), end.tolist(), label.tolist(), strict=True)
            found = [float(arcproducts.running(self.engine, *run).log_z[0]) for run in runs]
            return np.asarray([share(z, log_z) for z in found])
        key = self._key(start, end, label, number)
        place = np.minimum(np.searchsorted(listed.key, key), max(len(listed.key) - 1, 0))
        if not len(listed.key):
            return np.zeros(len(spans))
        return np.where(listed.key[place] == key, listed.share[place], 0.0)

    def probable_spans(self, above: float = 0.01, *, tape: str | None = None) -> ProbableSpans:
        """Return the segments with a probability above a number, by their ends.

        Raises
        ------
        OptionError
            A number outside [0, 1]; a lattice of frames, whose runs are not listed.
        NoPathError
            There is no path.
        """
        if not 0.0 <= above <= 1.0:
            raise OptionError(f"above is {above}, expected 0 to 1")
        number = self._of_segments(tape)
        self.check_alive()
        listed = self._listed(number)
        if listed is None:
            raise OptionError("runs of frames are not listed: ask span_probabilities() of some")
        kept = np.flatnonzero(listed.share > above)
        kept = kept[np.lexsort((listed.label[kept], listed.start[kept], listed.end[kept]))]
        return ProbableSpans(
            listed.start[kept].astype(np.int32),
            listed.end[kept].astype(np.int32),
            listed.label[kept].astype(np.int32),
            listed.share[kept],
            self.on[number].labels,
        )

    def _key(self, start: Longs, end: Longs, label: Longs, tape: int) -> Longs:
        return (start * (self.length + 1) + end) * len(self.on[tape].labels) + label

    def _listed(self, tape: int) -> _Listed | None:
        """Return the segments of a tape; None where arcs do not say where they end."""
        begun = self.clocked.begun(tape)
        if begun is None:
            return None
        key = self._key(begun.start, begun.end, begun.label.astype(np.int64), tape)
        keys, first, of = np.unique(key, return_index=True, return_inverse=True)
        of = of.reshape(-1)
        share_ = np.bincount(of, weights=self.clocked.posterior[begun.element], minlength=len(keys))
        columns = (begun.start[first], begun.end[first], begun.label[first].astype(np.int64))
        return _Listed(keys, of, *columns, np.minimum(share_.astype(np.float64), 1.0))

    def minimum_risk(self, loss: str = "span", *, tape: str | None = None) -> MinimumRisk[Any]:
        """Return what has the least expected loss.

        Parameters
        ----------
        loss : {"span", "token"}
            span: the segments of a tape that maximise 2 E[right] / E[found + true], the ratio of
            expectations that F is. token: those with the largest expected number of tokens under
            the right label, all tapes together.
        tape : str, optional
            For spans, the tape; the first of segments when absent.

        Returns
        -------
        MinimumRisk
            Its labels are segments; as `Path.labels` where there are none.

        Raises
        ------
        OptionError
            Another loss; "span" of a lattice of frames, whose runs are not listed.
        NoPathError
            There is no path.
        """
        one_of("loss", loss, Loss)
        self.check_alive()
        return self._token_risk() if loss == "token" else self._span_risk(self._of_segments(tape))

    def _token_risk(self) -> MinimumRisk[Any]:
        arcs = self.clocked
        value = np.zeros(arcs.n_elements)
        for tape, table in enumerate(arcs.marginals(range(len(self.on)), self.sizes)):
            value += arcs.covers(tape).gathered(table, arcs.n_elements)
        path = self._best_of(value)
        most = self.length * len(self.on)
        return MinimumRisk(self._said(path), float(value[path].sum()) / most if most else 1.0)

    def _span_risk(self, tape: int) -> MinimumRisk[Any]:
        """Dinkelbach's way: the best set under p − ratio / 2, until the ratio does not grow."""
        listed, begun = self._listed(tape), self.clocked.begun(tape)
        if listed is None or begun is None:
            raise OptionError('runs of frames are not listed: ask minimum_risk("token")')
        begins, place = np.zeros((2, self.clocked.n_elements))
        begins[begun.element], place[begun.element] = 1.0, listed.share[listed.of]
        true = float(self.clocked.posterior[begun.element].sum())
        ratio, chosen = -1.0, np.zeros(0, dtype=np.int32)
        while True:
            path = self._best_of(place - begins * (max(ratio, 0.0) / 2))
            size = float(begins[path].sum()) + true
            better = 2.0 * float(place[path].sum()) / size if size > 0.0 else 1.0
            if better <= ratio + 1e-15:
                return MinimumRisk(self._said(chosen), min(1.0, ratio))
            ratio, chosen = better, path

    def _best_of(self, value: Floats) -> Ints:
        """Best path where elements have other scores and what is legal scores 0."""
        return self.clocked.reweight(value).nbest(1).elements

    def _said(self, path: Ints) -> Any:
        run = Runs(np.ones(1, dtype=np.int64), np.zeros(1), np.array([0, len(path)]), path)
        (found,) = self.paths(self.clocked, run, 0.0)
        return found.segments if self.segmented else found.labels

    # --- Other lattices -----------------------------------------------------------------------

    def restrict(
        self,
        mask: ArrayLike | Sequence[ArrayLike] | None = None,
        *,
        boundaries: ArrayLike | None = None,
    ) -> Self:
        """Return the lattice of the paths that are allowed.

        Parameters
        ----------
        mask : bool [E] or [T, L], optional
            Given arcs that may be taken, or labels that each token may be under; of several tapes a
            tuple of masks [T, L], too.
        boundaries : int [T + 1], optional
            1: a segment must end, or begin, before this token; −1: none may; 0: either.

        Raises
        ------
        ShapeError
            Other shapes.
        OptionError
            Boundaries other than −1, 0 and 1.
        """
        if not self.timed and self.log_partition() == -np.inf:
            return self  # without a path there is no length that a mask could have
        free, frames = self.free.clocked, self._frames
        if mask is not None:
            several = isinstance(mask, tuple) and len(self.on) > 1
            for tape, one in enumerate(cast("Any", mask) if several else [mask]):
                allowed = np.asarray(one, dtype=bool)
                free = free.with_arcs(self._allowed(free, allowed, tape))
                frames = None if frames is None else frames.restrict(allowed)
        if boundaries is not None:
            free, frames = arcproducts.bounded(free, self._boundaries(boundaries)), None
        if self.timed:
            return self._with(free, frames=frames)
        left = free.trimmed()
        dead = free.furthest() if not (left.final > -np.inf).any() else None
        return self._with(left, dead=self._dead if dead is None else dead)

    def _boundaries(self, boundaries: ArrayLike) -> Longs:
        wanted, size = np.asarray(boundaries), self.length + 1
        if wanted.shape != (size,):
            raise ShapeError(f"boundaries is {list(wanted.shape)}, expected [{size}]")
        if not np.isin(wanted, (-1, 0, 1)).all():
            raise OptionError("boundaries are -1, 0 or 1")
        return wanted.astype(np.int64)

    def _allowed(self, free: Arcs, mask: Bools, tape: int) -> Bools:
        """Which arcs a mask allows."""
        size = len(self.on[tape].labels)
        if self.segmented and mask.shape == (self.given,):
            return np.asarray(np.append(mask, True)[free.origin], dtype=bool)
        tokens = self.length
        if mask.shape != (tokens, size):
            arcs = f"[{self.given}] (arcs) or " if self.segmented else ""
            wanted = f"{arcs}[{tokens}, {size}] (tokens, labels)"
            raise ShapeError(f"mask is {list(mask.shape)}, expected {wanted}")
        return free.covers(tape).allowed(mask, free.n_elements)

    def scale(self, factor: float) -> Self:
        """Return the lattice with every score times a factor; what is forbidden stays so.

        Raises
        ------
        OptionError
            A factor that is not finite.
        """
        factor = real_number(factor, "factor")
        rules = [
            rule._replace(acceptor=scaled_acceptor(rule.acceptor, factor)) for rule in self.rules
        ]
        return self._times(factor, rules)

    def weighted(self, factor: float) -> Self:
        """Return the lattice with its scores times a factor, but not those of its grammar."""
        return self._times(real_number(factor, "factor"), self.rules)

    def _times(self, factor: float, rules: Sequence[Rule]) -> Self:
        if not np.isfinite(factor):
            raise OptionError(f"factor is {factor}, expected a finite number")
        frames = None if self._frames is None else self._frames.scale(factor)
        return self._with(self.free.scale(factor), rules=rules, frames=frames)

    def without_grammar(self) -> Self:
        """Return the lattice of all paths, whatever the grammar."""
        return self._with(self.free, rules=())

    def constrained(self, grammar: Grammar, *, over: Over | None = None) -> Self:
        """Return the lattice of the paths that a grammar accepts, its scores added.

        Parameters
        ----------
        grammar : Grammar
        over : {"segments", "tokens"}, optional
            segments: it reads the label of each segment, once, in their order; tokens outside, and
            blanks, are not read. tokens: it reads the label that each token is under, "O" outside,
            of all tapes. When absent, segments of tapes that have such, tokens of others, and
            tokens of grammars that read several tapes.

        Raises
        ------
        GrammarError
            A grammar that does not go with the labels.
        OptionError
            What is no grammar; another `over`.
        """
        if not isinstance(grammar, Grammar):
            raise OptionError(f"grammar is {grammar!r}, expected a fstcrf.Grammar")
        if over is not None:
            one_of("over", over, Over)
        sets = {tape.name: tape.labels for tape in self.on}
        try:
            parts = grammar.bind(
                sets if over != "segments" else {self.on[0].name: self.on[0].labels}
            )
        except GrammarError:
            if over is not None or len(self.on) == 1:
                raise
            parts = grammar.bind({self.on[0].name: self.on[0].labels})
        rules = []
        for part in parts:
            tapes = tuple(self.number(tape or None) for tape in part.tapes)
            read: Over = over or ("segments" if len(tapes) == 1 else "tokens")
            rules.append(Rule(part, tapes, read))
        return self._with(self.free, rules=(*self.rules, *rules))

    def __and__(self, grammar: Grammar) -> Self:
        """Return the lattice of the paths that a grammar accepts; see `constrained`."""
        refuse_fst(grammar, AS_GRAMMAR)
        if not isinstance(grammar, Grammar):
            return NotImplemented
        return self.constrained(grammar)

    @classmethod
    def of_tokens(cls, lattice: Taped) -> ArcLattice:
        """Return a lattice of tokens with its arcs written out."""
        joint = joint_arrays(lattice)
        states, length = joint.node.shape[1], len(lattice)
        sets = [lattice.program.labels(tape) for tape in lattice.tapes]
        index = [{label: k for k, label in enumerate(one)} for one in sets]
        names = [joint.names[k] for k in joint.label.tolist()]
        columns = [[at[x] for at, x in zip(index, row, strict=True)] for row in names]
        label = np.tile(np.asarray(columns, dtype=np.int32), (length, 1))
        source = np.repeat(np.arange(length, dtype=np.int32), states)
        state = np.tile(np.arange(states, dtype=np.int32), length)
        pairs = np.empty((max(len(joint.step), 1), states + 1, states))
        pairs[:, :-1] = joint.step if len(joint.step) else 0.0
        pairs[:, -1] = joint.initial
        end = np.repeat(source[:, None] + np.int64(1), len(sets), axis=1)
        arcs = Arcs.of_row(
            length,
            source=source,
            target=source + np.int32(1),
            left=state,
            right=state,
            score=np.ascontiguousarray(joint.node).reshape(-1),
            label=label,
            end=end,
            class_final=np.append(joint.final, joint.empty),
            pairs=PairScores(pairs),
            per_position=joint.per_token,
        )
        tapes = zip(lattice.tapes, sets, strict=True)
        return cls(arcs, [Tape(name, labels, segments=False) for name, labels in tapes])

    def with_tokens(
        self,
        lattice: Taped | ArcLattice,
        *,
        coupling: Mapping[tuple[str, str], ArrayLike] | None = None,
    ) -> ArcLattice:
        """Return the composition with a lattice of the same tokens; ``self @ lattice`` for short.

        A path is then one of each; scores add. Where there is no text, paths that read equally many
        tokens go together.

        Parameters
        ----------
        lattice : Lattice
            Under a grammar or not; tapes with one name are numbered.
        coupling : mapping of (tape, tape) to [L1, L2], optional
            Potentials of the labels that a token is under, on a tape of the first and one of the
            other.

        Raises
        ------
        ShapeError
            Another number of tokens, couplings of other shapes.
        OptionError
            What is no lattice; one with arcs that read no token.
        TooLargeError
            A product too large to write out.
        """
        if not isinstance(lattice, Taped | ArcLattice):
            raise OptionError(f"{lattice!r} is no lattice of tokens")
        timed = self.timed and (isinstance(lattice, Taped) or lattice.timed)
        if timed and len(lattice) != self.length:
            raise ShapeError(f"a lattice of {len(lattice)} tokens, expected {self.length}")
        other = lattice if isinstance(lattice, ArcLattice) else self.of_tokens(lattice)
        tables: dict[tuple[int, int], ArrayLike] = {}
        for key, values in ({} if coupling is None else coupling).items():
            if key[0] not in self.tapes or key[1] not in other.tapes:
                mine, its = ", ".join(self.tapes), ", ".join(other.tapes)
                raise OptionError(f"coupling {key!r}: expected (one of {mine}, one of {its})")
            tables[self.tapes.index(key[0]), other.tapes.index(key[1])] = values
        return self.beside(other, tables).named([self, other])

    def beside(self, other: ArcLattice, tied: Mapping[tuple[int, int], ArrayLike]) -> ArcLattice:
        """Return the composition; couplings by the numbers of a tape of each."""
        tables: dict[tuple[int, int], Floats] = {}
        for (mine, its), values in tied.items():
            size = len(self.on[mine].labels), len(other.on[its].labels)
            what = f"coupling {(self.tapes[mine], other.tapes[its])}"
            tables[mine, its + len(self.on)] = potentials(values, what, [size])
        arcs = arcproducts.beside(self.clocked, other.clocked, tables)
        return ArcLattice(arcs, (*self.on, *other.on), given=self.given)

    def named(self, parts: Sequence[ArcLattice]) -> ArcLattice:
        """Return the composition of some lattices with names of tapes that differ."""
        names = distinct_tapes([part.tapes for part in parts])
        each = zip(parts, names, strict=True)
        on = [tape._replace(name=new[tape.name]) for part, new in each for tape in part.on]
        return ArcLattice(self.free, on, given=self.given)

    def __matmul__(self, other: Taped | ArcLattice) -> ArcLattice:
        """Return the composition with a lattice of the same tokens; see `with_tokens`."""
        refuse_fst(other, TRANSDUCED)
        if not isinstance(other, Taped | ArcLattice):
            return NotImplemented
        return self.with_tokens(other)

    def beginning_where(self, begins: Callable[[str], bool]) -> Self:
        """Return a composition whose segments begin at labels of tokens that begin one, only there.

        Parameters
        ----------
        begins : callable
            Label of the second tape to whether a segment of the first begins there.

        Raises
        ------
        OptionError
            No lattice of tokens was composed with it.
        """
        if len(self.on) < 2:
            raise OptionError("no tape of tokens: compose with one first, segments @ tokens")
        first = np.asarray([begins(label) for label in self.on[1].labels])
        arcs = self.free
        return self._with(arcs.with_arcs(first[arcs.under[:, 1]] != arcs.carries[:, 0]).trimmed())

    # --- Other forms --------------------------------------------------------------------------

    @cached_property
    def machine(self) -> openfst.Machine:
        """The lattice as flat arrays of an acceptor over the labels of its first tape."""
        flat, which = self.engine.explicit
        label = self.engine.label[:, 0]
        read = label if which is None else np.where(which >= 0, label[which], -1)
        symbol = (read + 1).astype(np.int32)
        table = (openfst.EPSILON, *self.on[0].labels)
        return openfst.Machine(
            start=0,
            source=Ragged(flat.row).rows().astype(np.int32),
            target=flat.target,
            ilabel=symbol,
            olabel=symbol,
            score=flat.score,
            final=flat.final,
            isymbols=table,
            osymbols=table,
        )

    def to_fst(self, arc_type: openfst.ArcType = "log64") -> pynini.Fst:
        """Return the lattice as a ``pynini.Fst`` over the labels of its first tape.

        Weights are costs; see `fstcrf.machines.openfst.to_fst`.

        Raises
        ------
        MissingDependencyError
            pynini is not installed.
        """
        found: pynini.Fst = openfst.to_fst(self.machine, arc_type)
        return found

    def to_att(self) -> str:
        """Return the lattice as AT&T text; see `fstcrf.machines.openfst.att_text`."""
        return openfst.att_text(self.machine)

    def draw(self, path: str | os.PathLike[str] | None = None) -> str:
        """Return a drawing as SVG: by graphviz where it is installed, else by fstcrf itself.

        What has too many arcs for that is a table of probabilities.

        Parameters
        ----------
        path : str or Path, optional
            A file ``*.svg`` to write it to, too.

        Raises
        ------
        NoPathError
            There is no path.
        OptionError
            A file of another kind.
        OSError
            The file cannot be written, or graphviz fails.
        """
        self.check_alive()
        try:
            svg = openfst.svg(self.machine)
        except TooLargeError:
            shares = self.marginals(self.tapes[0])
            tokens, names = [str(t) for t in range(len(shares))], self.on[0].labels
            best = [names[k] for k in shares.argmax(axis=1).tolist()]
            if not self.segmented:
                best = list(self.best().labels)
            found = pictures.probabilities("labels", names, tokens, shares.tolist(), best)
            svg = pictures.tables(found, repr(self))
        return write_picture(svg, path)


def product(
    parts: Sequence[Taped | ArcLattice],
    coupling: Mapping[tuple[int, int], ArrayLike] | None,
    weights: Sequence[float] | None,
) -> ArcLattice:
    """Return the composition of lattices of which one is of arcs; see `fstcrf.compose`."""
    factors = [1.0] * len(parts) if weights is None else list(weights)
    if len(factors) != len(parts):
        raise ShapeError(f"{len(factors)} weights for {len(parts)} lattices")
    if any(not 0 <= factor < np.inf for factor in factors):
        raise OptionError(f"weights are {factors}, expected numbers from 0")
    lattices = [
        part.weighted(factor)
        if isinstance(part, ArcLattice)
        else ArcLattice.of_tokens(scaled_lattice(part, factor, grammar=False))
        for part, factor in zip(parts, factors, strict=True)
    ]
    for key in coupling or {}:
        if not all(k in range(len(parts)) and len(parts[k].tapes) == 1 for k in key):
            raise OptionError(f"coupling {key}: expected two different lattices of one tape each")
    found, first = lattices[0], Ragged.from_lengths(len(part.tapes) for part in parts).offsets
    for k, other in enumerate(lattices[1:], start=1):
        tied = {
            (int(first[min(key)]), 0): np.asarray(table).T if key[0] == k else table
            for key, table in (coupling or {}).items()
            if max(key) == k
        }
        found = found.beside(other, tied)
    return found.named(lattices)
