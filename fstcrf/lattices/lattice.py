"""The lattice of one sentence: a weighted transducer with a path for each label sequence.

This file has the constructors of `Lattice` (the ``from_`` methods), its changes
(``lattice & grammar``, ``lattice @ lattice``), and its other forms: machine, text, picture. All its
answers are in `fstcrf.lattices.questions`. All kinds of lattices are of this one class.
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
from fstcrf.lattices.paths import LabelsT_co
from fstcrf.lattices.questions import ArrayT_co, Questions
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
else:  # imported when first used, so that taggers load faster
    display, files = LazyModule("fstcrf.display"), LazyModule("fstcrf.files")
    composition = LazyModule("fstcrf.lattices.composition")
    constructors = LazyModule("fstcrf.lattices.constructors")
    transduced = LazyModule("fstcrf.lattices.transduced")
    openfst = LazyModule("fstcrf.machines.openfst")
    transducers = LazyModule("fstcrf.machines.transducer")
drawings = LazyModule("fstcrf.ext.pictures.lattices")


class Lattice(Questions[LabelsT_co, ArrayT_co]):
    """The weighted transducer of one sentence.

    A lattice is made by `Lattice.from_arrays` and the other ``from_`` methods, by
    ``tagger.lattice(sentence)``, by composition (``a @ b``), and by a grammar (``a & grammar``). It
    has one tape or, if it is composed, several.

    Parameters
    ----------
    row : ChainRow or ArcRow
        The input and the grammar of the lattice.
    samples : int, optional
        Number of samples, if the paths are samples of a tagger.
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
        """Build a lattice from arrays of scores.

        Parameters
        ----------
        labels : sequence of L str, or mapping of id to str
            The labels, in the order of the last axis of `emissions`. A mapping such as
            ``id2label`` has the keys 0 to L − 1.
        emissions : [T, L]
            Potential of each label at each token.
        transitions : [L, L] or [T - 1, L, L], optional
            Potential of each pair of neighbouring labels, from row to column; zero if absent.
        initial, final : [L], optional
            Potentials of the first and last label; zero if absent.
        tape : str
            Name of the tape.

        Raises
        ------
        OptionError
            The labels are not a sequence of str or such a mapping, or one is repeated.
        ShapeError
            Shapes disagree, or scores are not an array of real numbers.
        NumericError
            NaN or +inf. The score −inf forbids a label.
        """
        row = ChainRow(*array_lattice(labels, emissions, transitions, initial, final, tape))
        return cast("type[TapeLattice]", cls)(row)

    @classmethod
    def from_fst(cls, fst: pynini.Fst | str | Path, labels: LabelSet | None = None) -> AnyLattice:
        """Return the lattice of an acyclic acceptor of OpenFst.

        Parameters
        ----------
        fst : pynini.Fst, or str or Path
            An acyclic acceptor with any arc type, or its file in the binary format of OpenFst. A
            file needs no pynini. Weights are costs; epsilon arcs are allowed.
        labels : sequence of str, or mapping of id to str, optional
            Names of the symbols, if the machine has no symbol table: label i is symbol i + 1.

        Raises
        ------
        DataError
            The machine is cyclic, or not an acceptor, or has another symbol table.
        LabelError
            A label is repeated, or a symbol has no name.
        MissingDependencyError
            `fst` is not a file, and pynini is not installed.
        OSError
            The file cannot be read.
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
            The expected symbols of the machine.

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
        """Return the lattice whose paths are the given label sequences: n best, or samples.

        Parameters
        ----------
        paths : sequence of sequence of str
            A repeated sequence is two paths.
        scores : [n]
            Natural logs; −inf forbids.
        labels : sequence of str, or mapping of id to str, optional
            All labels of the tape; if absent, the labels of the paths.
        tape : str
            Name of the tape.

        Raises
        ------
        ShapeError
            The number of scores is not the number of paths.
        LabelError
            A label is not in the list.
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
            First token of each segment, and the token after its last.
        label : int [E]
            Index into `labels`.
        score : [E]
            Natural logs; −inf forbids.
        labels : sequence of L str, or mapping of id to str
        transitions : [L, L], optional
            Score of each pair of neighbouring labels, from row to column; zero if absent.
        initial, final : [L], optional
            Scores of the first and the last label; zero if absent.
        tape : str
            Name of the tape.

        Raises
        ------
        ShapeError
            Arrays disagree.
        DataError
            A segment is empty or outside the text.
        LabelError
            A label is not in the list.
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
            Candidates with natural-log scores; ``end`` is the token after the last.
        outside : float
            Score of each token that no span covers.
        labels : sequence of str, optional
            All labels of spans; if absent, the labels of the given spans. The lattice adds "O", the
            label of tokens outside spans, as its last label.
        nested : bool
            Nested spans are refused: a set of nested spans is not a path.
        tape : str
            Name of the tape.

        Raises
        ------
        DataError
            A span is empty or outside the text.
        LabelError
            A label is not in the list.
        OptionError
            `nested` is true, or a span has the label "O".
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
            Natural-log score of each symbol at each frame: logits, or log probabilities. With log
            probabilities, log Z is 0.
        blank : int or str
            The column of the blank, or its label.
        labels : sequence of V str, or mapping of id to str, optional
            The symbols; if absent, "0", "1", and so on, and "<blank>".
        tape : str
            Name of the tape.

        Raises
        ------
        ShapeError
            The scores are not an array [T, V].
        OptionError
            There is no such blank, a label is repeated, or the number of labels is not V.
        NumericError
            NaN or +inf.
        TooLargeError
            V² is above 30 million: there are too many pairs of symbols to write out.
        """
        return cls(constructors.from_ctc(scores, blank, labels=labels, tape=tape))

    @property
    def dense(self) -> ChainRow:
        """The row, if it has scores of labels at tokens; OptionError for a lattice of arcs."""
        chain = self.row.as_chain
        if chain is None:
            raise OptionError(f"{self!r} has no potentials of tokens: it is stored as arcs")
        return chain

    def __reduce__(self) -> tuple[Any, ...]:
        return Lattice, (self.row, self.samples)

    def __repr__(self) -> str:
        sizes = " × ".join(f"{len(tape.labels)} {tape.name}" for tape in self.on)
        return f"<Lattice: {self.length} tokens, {sizes} labels>"

    def _repr_html_(self) -> str:
        """Return the marginals as a heat map for notebooks, with the labels of the best path.

        For segments, and for paths that differ in length, return the best path.
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
            Allowed labels of each token, or allowed input arcs. For several tapes, a tuple of
            masks, or one array for the first tape.
        boundaries : int [T + 1], optional
            1: a segment must begin or end before this token; −1: no segment may; 0: either. The
            label of a token is a segment.

        Raises
        ------
        ShapeError
            A mask or the boundaries have another shape.
        OptionError
            Boundaries other than −1, 0 and 1.
        """
        row = self.row
        if not row.covers_text and self.log_partition() == -np.inf:
            return self  # without a path, no length of a mask is right
        if mask is not None:
            row = row.restrict(self._masks(mask))
        return self._with_row(
            row if boundaries is None else row.arcs().bounded(self._boundaries(boundaries))
        )

    def _masks(self, mask: ArrayLike | Sequence[ArrayLike]) -> list[Bools]:
        one_mask = len(self.on) == 1 or (isinstance(mask, np.ndarray) and mask.ndim < 3)
        parts = [mask] if one_mask else list(cast("Sequence[ArrayLike]", mask))
        if not one_mask and len(parts) != len(self.on):
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
        """Return the lattice with all scores times a factor, including scores of the grammar.

        The factor is 1 / temperature. A factor of −1 reverses the order of the paths. Forbidden
        paths remain forbidden.

        Raises
        ------
        OptionError
            The factor is not finite.
        """
        return self._times(factor, grammar=True)

    def weighted(self, factor: float) -> Self:
        """Return the lattice with all scores times a factor, except scores of the grammar."""
        return self._times(factor, grammar=False)

    def _times(self, factor: float, *, grammar: bool) -> Self:
        factor = real_number(factor, "factor")
        if not np.isfinite(factor):
            raise OptionError(f"factor is {factor}, expected a finite number")
        return self._with_row(self.row.scale(factor, grammar=grammar))

    def without_grammar(self) -> Self:
        """Return the lattice of all paths, without the grammar."""
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
            segments: the grammar reads the label of each segment, once, in their order. It does not
            read blanks, or tokens outside of segments. tokens: it reads the label of each token, or
            "O" outside of segments, on all tapes. If absent, segments for a grammar that reads one
            tape with segments, otherwise tokens.
        search : {"auto", "lazy", "expanded"}, optional
            Method for best paths. expanded: over the product with the grammar. lazy: over states
            that are made when the search meets them. Both are exact. auto decides by the size of
            the product. If absent, the method of the lattice, which is auto at first.
        budget : Budget, optional
            Limit of a lazy search, if `best` and `nbest` get no other. If absent, the budget of the
            lattice.

        Raises
        ------
        GrammarError
            The labels of the grammar do not match the labels of the lattice.
        OptionError
            `over` or `search` is another word, the grammar is not a `Grammar`, or a search for a
            lattice that is stored as arcs.
        TooLargeError
            The product is too large to expand.
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

        A path of the composition of two lattices is a pair of paths; see `fstcrf.compose`. There is
        one exception: a lattice whose only tape has the name of a tape that a transducer writes
        here scores that output. Its segment (s, e, x) scores the output ``"[x"`` at boundary s and
        ``"x]"`` at boundary e. Its labels of tokens score output with a label for each token.

        A transducer reads one tape: the last tape, or the tape of `Transducer.on`. The composition
        keeps all tapes and adds the output as another tape. An acceptor adds no tape. Each output
        label is written at a boundary, 0 to T, after the label that the transducer has read. A path
        of the composition is a path of the lattice with a run of the transducer; scores add.
        `Path.positions` has the boundaries, and `expected` the expected number of labels there.

        Parameters
        ----------
        other : Lattice or Transducer
            Or a transducer of pynini, as `Transducer.from_fst` reads it.

        Raises
        ------
        ShapeError
            The lattices have different numbers of tokens.
        EpsilonCycleError
            The transducer has a cycle without input on one of its paths.
        LabelError
            The tape has no label that the transducer reads.
        OptionError
            There is no such tape, or a tape has the name of the output tape.
        TooLargeError
            The composition has more than 50 million arcs.
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

        A path of the composition is a pair of paths; scores add. Without a text, both paths read
        the same number of tokens.

        Parameters
        ----------
        lattice : Lattice
            A lattice with or without a grammar. Tapes with the same name get numbers.
        coupling : mapping of (tape, tape) to [L1, L2] or [T, L1, L2], optional
            Potentials of the labels of a token on a tape of this lattice and a tape of the other.

        Raises
        ------
        ShapeError
            The numbers of tokens differ, or a coupling has another shape.
        OptionError
            `lattice` is not a lattice, or has arcs that read no token.
        TooLargeError
            The product is too large to write out.
        """
        if not isinstance(lattice, Lattice):
            raise OptionError(f"{lattice!r} is not a lattice of tokens")
        parts: list[Lattice] = [self, lattice]
        tables: dict[tuple[int, int], Floats] = {}
        length = composition.common_length(parts)
        for key, values in ({} if coupling is None else coupling).items():
            if key[0] not in self.tapes or key[1] not in lattice.tapes:
                left, right = ", ".join(self.tapes), ", ".join(lattice.tapes)
                raise OptionError(f"coupling {key!r}: expected (one of {left}, one of {right})")
            one, two = self.number(key[0]), lattice.number(key[1])
            pair = self.on[one], lattice.on[two]
            table = composition.coupling_table(values, key, pair, length)
            tables[one, len(self.on) + two] = table
        return composition.composed(parts, tables)

    # --- Other forms --------------------------------------------------------------------------

    def plan(self) -> Plan:
        """Return the compiled form of the lattice and its cost."""
        return self.row.plan()

    @property
    def machine(self) -> Transducer:
        """The lattice as an acceptor, or as a transducer if one has been composed.

        It reads the labels of all tapes together, without the output of transducers. If tapes have
        labels at different arcs, it reads only the first tape. It writes the output of the last
        transducer.
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
            There are too many arcs for memory.
        MissingDependencyError
            pynini is not installed.
        """
        fst: pynini.Fst = openfst.to_fst(self.machine, arc_type)
        return fst

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
            A label has a tab, a blank or a line end, and `numeric` is false.
        """
        return openfst.att_text(self.machine, numeric=numeric)

    def draw(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        tokens: Sequence[str] | None = None,
        of: Literal["lattice", "couplings"] = "lattice",
    ) -> str:
        """Return a picture as SVG.

        A small lattice is drawn as a trellis: a column for each token, and a circle for each state
        with its probability. Wider arcs are more probable, and the best path is dark. A larger
        lattice, or a large product, is a table of probabilities for each tape. If paths are
        searched under a grammar, the picture has only the best path. A lattice of arcs is drawn as
        a machine, by graphviz if it is installed.

        Parameters
        ----------
        path : str or Path, optional
            Also write the picture to this file, ``*.svg``.
        tokens : sequence of str, optional
            Titles of the columns; their numbers if absent.
        of : {"lattice", "couplings"}
            couplings: draw tables of the potentials that couple tapes at a token.

        Raises
        ------
        NoPathError
            Every label sequence is forbidden.
        ShapeError
            The number of tokens is not the number of columns.
        OptionError
            The file is not ``*.svg``, `of` is another word, or the lattice of couplings has arcs.
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
"""A lattice with any number of tapes."""

TapeLattice: TypeAlias = Lattice[tuple[str, ...], Floats]
"""A lattice of one tape: a path has a tuple of labels, marginals are an array."""

JointLattice: TypeAlias = Lattice[tuple[tuple[str, ...], ...], tuple[Floats, ...]]
"""A lattice of several tapes: a path has a tuple of tuples, marginals are a tuple of arrays."""
