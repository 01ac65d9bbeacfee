"""The weighted transducer of one sentence: every label sequence with its score.

Every kind is this class: it is made by a ``from_`` method, by a tagger, and from others by
``lattice & grammar`` and ``lattice @ lattice``. A lattice has one tape or, composed, several.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias, cast

import numpy as np
from numpy.typing import ArrayLike

from fstcrf.arguments import AS_GRAMMAR, LabelSet, is_fst, real_number, refuse_fst
from fstcrf.arrays import Bools, Floats, Longs
from fstcrf.errors import NoPathError, OptionError, ShapeError
from fstcrf.kernel import Budget
from fstcrf.lattices.chainrow import ChainRow
from fstcrf.lattices.engine import Over
from fstcrf.lattices.inputs import array_lattice
from fstcrf.lattices.pathquestions import ArrayT_co
from fstcrf.lattices.paths import LabelsT_co
from fstcrf.lattices.questions import Questions
from fstcrf.lazy import LazyModule
from fstcrf.machines import grammar as grammars
from fstcrf.machines.plans import Plan, Search

if TYPE_CHECKING:
    import pynini

    from fstcrf import display, files
    from fstcrf.lattices import composition, constructors, transduced
    from fstcrf.machines import openfst
    from fstcrf.machines import transducer as transducers
    from fstcrf.machines.grammar import Grammar
    from fstcrf.machines.machine import Machine
    from fstcrf.machines.transducer import Transducer
else:  # a tagger that is loaded does not wait for what few calls need
    display, files = LazyModule("fstcrf.display"), LazyModule("fstcrf.files")
    composition = LazyModule("fstcrf.lattices.composition")
    constructors = LazyModule("fstcrf.lattices.constructors")
    transduced = LazyModule("fstcrf.lattices.transduced")
    openfst = LazyModule("fstcrf.machines.openfst")
    transducers = LazyModule("fstcrf.machines.transducer")
drawings = LazyModule("fstcrf.ext.pictures.lattices")


class Lattice(Questions[LabelsT_co, ArrayT_co]):
    """One sentence's weighted transducer.

    Made by `Lattice.from_arrays` and its fellows, by a tagger's ``lattice(sentence)``, by composing
    lattices (``a @ b``) and by constraining them (``a & grammar``).

    Parameters
    ----------
    row : ChainRow or ArcRow
        What answers: a row of one of the engines.
    samples : int, optional
        How many samples of a tagger the paths are, where they are that.
    """

    @classmethod
    def from_arrays(
        cls,
        labels: LabelSet,
        emissions: ArrayLike,
        transitions: ArrayLike | None = None,
        initial: ArrayLike | None = None,
        final: ArrayLike | None = None,
        *,
        tape: str = "label",
    ) -> TapeLattice:
        """Build a lattice from scores of any origin.

        Parameters
        ----------
        labels : sequence of L str, or mapping of id to str
            In their order; of a mapping such as ``id2label`` that of its keys 0 to L − 1.
        emissions : [T, L]
            Potential of each label at each token.
        transitions : [L, L] or [T - 1, L, L], optional
            Potential of each succession, from row to column; zero when absent.
        initial, final : [L], optional
            Potentials of the first and last label; zero when absent.
        tape : str
            Name of the tape.

        Raises
        ------
        OptionError
            Labels that are neither a sequence of str nor such a mapping, or there twice.
        ShapeError
            Shapes that disagree, or what is no array of real numbers: complex scores.
        NumericError
            NaN or +inf; −inf is a legal "never".
        """
        row = ChainRow(*array_lattice(labels, emissions, transitions, initial, final, tape))
        return cast("type[TapeLattice]", cls)(row)

    @classmethod
    def from_fst(cls, fst: pynini.Fst | str | Path, labels: LabelSet | None = None) -> AnyLattice:
        """Return the lattice of any acyclic acceptor over label symbols.

        Parameters
        ----------
        fst : pynini.Fst, or str or Path
            An acyclic acceptor, of any arc type, or a file of one: OpenFst's bytes, which need no
            pynini. Its weights are costs, epsilon arcs are allowed.
        labels : sequence of str, or mapping of id to str, optional
            Label i is symbol i + 1, where the machine has no symbol table of its own.

        Raises
        ------
        DataError
            A cyclic machine, no acceptor, or another symbol table.
        LabelError
            A label that is there twice; symbols without a name.
        MissingDependencyError
            pynini is not installed, and it is no file.
        OSError
            A file that cannot be read.
        """
        machine = openfst.from_fst(fst, openfst.Naming((labels, labels)))
        return cls(constructors.from_machine(machine, labels))

    @classmethod
    def from_machine(cls, machine: Machine, labels: LabelSet | None = None) -> AnyLattice:
        """Return the lattice of an acyclic acceptor.

        Parameters
        ----------
        machine : Transducer
        labels : sequence of str, or mapping of id to str, optional
            What its symbols have to be.

        Raises
        ------
        DataError, LabelError
            As for `from_fst`.
        """
        return cls(constructors.from_machine(machine, labels))

    @classmethod
    def from_paths(
        cls,
        paths: Sequence[Sequence[str]],
        scores: ArrayLike,
        labels: LabelSet | None = None,
        *,
        tape: str = "label",
    ) -> AnyLattice:
        """Return the lattice of some label sequences alone: n best ones, or samples.

        Parameters
        ----------
        paths : sequence of sequence of str
            One that is there twice is two paths.
        scores : [n]
            Natural logs; −inf forbids.
        labels : sequence of str, or mapping of id to str, optional
            The labels there may be; those of the paths when absent.
        tape : str

        Raises
        ------
        ShapeError
            Another number of scores.
        LabelError
            A label that is not in the list.
        NumericError
            NaN or +inf.
        """
        return cls(constructors.from_paths(paths, scores, labels, tape=tape))

    @classmethod
    def from_segments(
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
        *,
        tape: str = "segment",
    ) -> AnyLattice:
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
        labels : sequence of L str, or mapping of id to str
        transitions : [L, L], optional
            Score of each label behind another, from row to column; zeros when absent.
        initial, final : [L], optional
            Scores of the first and the last label; zeros when absent.
        tape : str
            Name of the tape.

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
        return cls(
            constructors.from_segments(
                length, start, end, label, score, labels, transitions, initial, final, tape=tape
            )
        )

    @classmethod
    def from_spans(
        cls,
        length: int,
        spans: Sequence[tuple[int, int, str, float]],
        outside: float = 0.0,
        *,
        labels: LabelSet | None = None,
        nested: bool = False,
        tape: str = "segment",
    ) -> AnyLattice:
        """Return the lattice of all sets of spans that do not overlap.

        Parameters
        ----------
        length : int
            Tokens of the text.
        spans : sequence of (start, end, label, score)
            Candidates, of natural-log scores; ``end`` is the token behind the last.
        outside : float
            Score of each token that no span covers.
        labels : sequence of str, optional
            The labels there may be; those of the spans when absent. "O" is that of tokens outside,
            the last of the lattice's labels.
        nested : bool
            Sets whose spans may lie within one another: refused, they are no paths.
        tape : str
            Its name.

        Raises
        ------
        DataError
            A span that is empty or outside the text.
        LabelError
            A label that is not in the list.
        OptionError
            Nested sets; a span with the label "O".
        NumericError
            NaN or +inf.
        """
        options: Any = {"labels": labels, "nested": nested, "tape": tape}
        return cls(constructors.from_spans(length, spans, outside, **options))

    @classmethod
    def from_ctc(
        cls,
        scores: ArrayLike,
        blank: int | str = 0,
        *,
        labels: LabelSet | None = None,
        tape: str = "segment",
    ) -> AnyLattice:
        """Return the lattice of frames that collapse to strings.

        Parameters
        ----------
        scores : [T, V]
            Natural-log score of each symbol at each frame: logits, or log probabilities, with which
            log Z is 0.
        blank : int or str
            The column of the blank, or its label.
        labels : sequence of V str, or mapping of id to str, optional
            Symbols; numbers from "0" on, and "<blank>", when absent.
        tape : str
            Its name.

        Raises
        ------
        ShapeError
            No array [T, V].
        OptionError
            No such blank, labels twice or of another number.
        NumericError
            NaN or +inf.
        TooLargeError
            V² above 30 million: the pairs of symbols are too many to write out.
        """
        return cls(constructors.from_ctc(scores, blank, labels=labels, tape=tape))

    @property
    def dense(self) -> ChainRow:
        """The row of a lattice that has a label for each token; OptionError of one of arcs."""
        if not isinstance(self.row, ChainRow):
            raise OptionError(f"{self!r} has no potentials of tokens: it is stored as arcs")
        return self.row

    def __reduce__(self) -> tuple[Any, ...]:
        return Lattice, (self.row, self.samples)

    def __repr__(self) -> str:
        sizes = " × ".join(f"{len(tape.labels)} {tape.name}" for tape in self.on)
        return f"<Lattice: {self.length} tokens, {sizes} labels>"

    def _repr_html_(self) -> str:
        """Return the marginals as a heat map for notebooks, the labels of the best path marked.

        Of segments, and of paths that differ in length, the best path.
        """
        head = display.heading(repr(self))
        if self.row.large:
            return head + display.note(self.row.large)
        try:
            path = self.best()
        except NoPathError as error:
            return head + display.note(error.reason)
        if self.segmented or not self.row.covers_text:
            spans = tuple(f"{s.start}:{s.end} {s.type}" for s in path.segments)
            return display.picture(head, display.sequences({"": spans}))
        maps = [
            display.heat_map(
                tape.name,
                tape.labels,
                self.marginals(tape.name),
                self._labels_on(path.labels, tape.name),
            )
            for tape in self.on
        ]
        facts: dict[str, display.Cell] = {
            "log Z": display.number(self.log_partition()),
            "best path": display.number(path.score),
            "its probability": path.probability,
        }
        return display.picture(head, display.facts(facts), *maps)

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
        mask : bool [T, L] or [E], optional
            Labels that each token may be under, or given arcs that may be taken; of several tapes a
            tuple of masks, or an array for the first.
        boundaries : int [T + 1], optional
            1: a segment must end, or begin, before this token; −1: none may; 0: either. Of labels
            of tokens, each is a segment.

        Raises
        ------
        ShapeError
            Other shapes.
        OptionError
            Boundaries other than −1, 0 and 1.
        """
        row = self.row
        if not row.covers_text and self.log_partition() == -np.inf:
            return self  # without a path there is no length that a mask could have
        if mask is not None:
            row = row.restrict(self._masks(mask))
        return self._with_row(
            row if boundaries is None else row.arcs().bounded(self._boundaries(boundaries))
        )

    def _masks(self, mask: Any) -> list[Bools]:
        one = len(self.on) == 1 or (isinstance(mask, np.ndarray) and mask.ndim < 3)
        parts = [mask] if one else list(mask)
        if not one and len(parts) != len(self.on):
            raise ShapeError(f"{len(parts)} masks for the {len(self.on)} tapes")
        masks, many = [], self.row.n_selectable_arcs
        for part, tape in zip(parts, self.on, strict=False):
            allowed = np.asarray(part, dtype=bool)
            wanted = (self.length, len(tape.labels))
            if allowed.shape != wanted and (many is None or allowed.shape != (many,)):
                arcs = "" if many is None else f"[{many}] (arcs) or "
                expected = f"{arcs}{list(wanted)} (tokens, labels)"
                raise ShapeError(f"mask is {list(allowed.shape)}, expected {expected}")
            masks.append(allowed)
        return masks

    def _boundaries(self, boundaries: ArrayLike) -> Longs:
        wanted, size = np.asarray(boundaries), self.length + 1
        if wanted.shape != (size,):
            raise ShapeError(f"boundaries is {list(wanted.shape)}, expected [{size}]")
        if not np.isin(wanted, (-1, 0, 1)).all():
            raise OptionError("boundaries are -1, 0 or 1")
        return wanted.astype(np.int64)

    def scale(self, factor: float) -> Self:
        """Return the lattice with every potential times a factor, soft grammars included.

        1/temperature; an annealing step; −1 gives p with the weights' signs turned, on the same
        paths: what is forbidden stays forbidden.

        Raises
        ------
        OptionError
            A factor that is not finite.
        """
        return self._times(factor, grammar=True)

    def weighted(self, factor: float) -> Self:
        """Return the lattice with the potentials of its taggers times a factor, not its grammar."""
        return self._times(factor, grammar=False)

    def _times(self, factor: float, *, grammar: bool) -> Self:
        factor = real_number(factor, "factor")
        if not np.isfinite(factor):
            raise OptionError(f"factor is {factor}, expected a finite number")
        return self._with_row(self.row.scale(factor, grammar=grammar))

    def without_grammar(self) -> Self:
        """Return the lattice of all paths of its taggers, whatever the grammar."""
        return self._with_row(self.row.without_grammar())

    def constrained(
        self,
        grammar: Grammar,
        *,
        over: Over | None = None,
        search: Search | None = None,
        budget: Budget | None = None,
    ) -> Self:
        """Return the lattice of the paths that a grammar accepts; ``lattice & grammar`` for short.

        Parameters
        ----------
        grammar : Grammar
        over : {"segments", "tokens"}, optional
            segments: it reads the label of each segment, once, in their order; tokens outside, and
            blanks, are not read. tokens: it reads the label that each token is under, "O" outside,
            of all tapes. When absent, segments of tapes that have such, tokens of others, and
            tokens of grammars that read several tapes.
        search : {"auto", "lazy", "expanded"}, optional
            How best paths are found: over the product with the grammar, or lazily, by states that
            are made as they are met; both are exact. auto goes by the size of the product. As
            before when absent, auto at first.
        budget : Budget, optional
            When a lazy search gives up, where `best` and `nbest` are told nothing else. As before
            when absent.

        Raises
        ------
        GrammarError
            A grammar that does not go with the labels.
        OptionError
            Another `over` or search, what is no grammar; a search of arcs, which are written out.
        TooLargeError
            A product too large to expand.
        """
        if not isinstance(grammar, grammars.Grammar):
            raise OptionError(f"grammar is {grammar!r}, expected a fstcrf.Grammar")
        return self._with_row(self.row.constrained(grammar, over, search, budget))

    def __and__(self, grammar: Grammar) -> Self:
        """Return the lattice of the paths that a grammar accepts; see `constrained`."""
        refuse_fst(grammar, AS_GRAMMAR)
        if not isinstance(grammar, grammars.Grammar):
            return NotImplemented
        return self.constrained(grammar)

    def __matmul__(self, other: Lattice | Transducer | pynini.Fst) -> JointLattice:
        """Return the composition with another lattice, or with a transducer.

        A lattice stands beside this one; see `fstcrf.compose`. But one whose only tape is written
        here, by a transducer, scores what is written: segments (s, e, x) where ``"[x"`` is written
        at boundary s and then ``"x]"`` at boundary e, labels of tokens where each token writes one.

        A transducer reads a tape, the last one or that of `Transducer.on`. All tapes stay. What it
        writes is one tape more, with a clock of its own: each label is written at a boundary, 0 to
        T, behind the label whose reading made the transducer go there. A path is one of the lattice
        and a run of the transducer over what is on the tape; scores add. `Path.positions` says
        where labels are written, `expected` how many are expected there. An acceptor adds no tape.

        Parameters
        ----------
        other : Lattice or Transducer
            Or a transducer of pynini, as `Transducer.from_fst` reads it.

        Raises
        ------
        ShapeError
            A lattice of another number of tokens.
        EpsilonCycleError
            A transducer that may go in a circle without reading, on a way to an end.
        LabelError
            It reads labels, none of which the tape has.
        OptionError
            No such tape, or one with the name of what it writes.
        TooLargeError
            More than 50 million arcs.
        """
        if is_fst(other):
            other = transducers.Transducer.from_fst(other)
        if isinstance(other, transducers.Transducer):
            return cast("JointLattice", type(self)(transduced.composed(self.row, other)))
        if not isinstance(other, Lattice):
            return NotImplemented
        if len(other.on) == 1 and any(t.output and t.name == other.on[0].name for t in self.on):
            number = self.tapes.index(other.on[0].name)
            return cast(
                "JointLattice",
                type(self)(transduced.score_written_tape(self.row, other.row, number)),
            )
        transduced.warn_beside(self.row, other.row)
        parts: list[Lattice] = [self, other]
        return cast("JointLattice", composition.composed(parts, {}))

    def with_tokens(
        self,
        lattice: Lattice,
        *,
        coupling: Mapping[tuple[str, str], ArrayLike] | None = None,
    ) -> Lattice:
        """Return the composition with a lattice of the same tokens; ``self @ lattice`` for short.

        A path is then one of each; scores add. Where there is no text, paths that read equally many
        tokens go together.

        Parameters
        ----------
        lattice : Lattice
            Under a grammar or not; tapes with one name are numbered.
        coupling : mapping of (tape, tape) to [L1, L2] or [T, L1, L2], optional
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
        if not isinstance(lattice, Lattice):
            raise OptionError(f"{lattice!r} is not a lattice of tokens")
        parts: list[Lattice] = [self, lattice]
        tables: dict[tuple[int, int], Floats] = {}
        length = composition.common_length(parts)
        for key, values in ({} if coupling is None else coupling).items():
            if key[0] not in self.tapes or key[1] not in lattice.tapes:
                mine, its = ", ".join(self.tapes), ", ".join(lattice.tapes)
                raise OptionError(f"coupling {key!r}: expected (one of {mine}, one of {its})")
            one, two = self.number(key[0]), lattice.number(key[1])
            pair = self.on[one], lattice.on[two]
            table = composition.coupling_table(values, key, pair, length)
            tables[one, len(self.on) + two] = table
        return composition.composed(parts, tables)

    # --- Looking at it ------------------------------------------------------------------------

    def plan(self) -> Plan:
        """Return what the lattice compiles to and what it costs."""
        return self.row.plan()

    @property
    def machine(self) -> Transducer:
        """The lattice as an acceptor, or as a transducer if one has been composed.

        It reads the labels of all tapes together but those that transducers write, or of the first
        tape where tapes have labels at different arcs. It writes what the last transducer writes.
        """
        return self.row.machine

    def to_fst(self, arc_type: openfst.ArcType = "log64") -> pynini.Fst:
        """Return the `machine` for pynini; weights are costs, symbols labels.

        Parameters
        ----------
        arc_type : {"standard", "log", "log64"}

        Raises
        ------
        TooLargeError
            More arcs than memory should be asked for.
        MissingDependencyError
            pynini is not installed.
        """
        found: pynini.Fst = openfst.to_fst(self.machine, arc_type)
        return found

    def to_att(self, *, numeric: bool = False) -> str:
        """Return the lattice as AT&T text: source, target, input and cost of every arc.

        If a transducer has been composed, its output follows the input.

        Parameters
        ----------
        numeric : bool
            Write numbers for labels, i + 1 for label i.

        Raises
        ------
        LabelError
            A label that holds a tab, a blank or a line end, and no numbers are written.
        """
        return openfst.att_text(self.machine, numeric=numeric)

    def draw(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        tokens: Sequence[str] | None = None,
        of: Literal["lattice", "couplings"] = "lattice",
    ) -> str:
        """Return a picture as SVG, written by fstcrf itself.

        A small lattice is drawn as a trellis: a column for each token, a circle for each state with
        its probability; the wider an arc, the more probable, and the best path is dark. A larger
        one, or a large product, is a table of probabilities for each tape. Where paths are searched
        under a grammar there is the best path alone. Lattices of arcs are drawn as machines, by
        graphviz where it is installed.

        Parameters
        ----------
        path : str or Path, optional
            A file ``*.svg`` to write it to, too.
        tokens : sequence of str, optional
            What stands above the columns; their numbers when absent.
        of : {"lattice", "couplings"}
            couplings: tables of the potentials that couple tapes at a token.

        Raises
        ------
        NoPathError
            Every label sequence is forbidden.
        ShapeError
            Another number of tokens.
        OptionError
            A file of another kind, another `of`, couplings of arcs.
        OSError
            The file cannot be written, or graphviz fails.
        """
        if of not in {"lattice", "couplings"}:
            raise OptionError(f"of is {of!r}, expected lattice or couplings")
        if tokens is not None and len(tokens) != len(self):
            raise ShapeError(f"{len(tokens)} tokens for a lattice of {len(self)}")
        draw = drawings.lattice_picture if of == "lattice" else drawings.couplings_picture
        return files.write_picture(draw(self, tokens), path)


AnyLattice: TypeAlias = Lattice[Any, Any]
"""Of any kind: what a path says depends on its tapes."""

TapeLattice: TypeAlias = Lattice[tuple[str, ...], Floats]
"""Of one tape: a path is a tuple of labels, marginals are an array."""

JointLattice: TypeAlias = Lattice[tuple[tuple[str, ...], ...], tuple[Floats, ...]]
"""Of several tapes: a path is a tuple of such tuples, marginals are a tuple of arrays."""
