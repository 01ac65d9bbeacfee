"""One sentence's weighted transducer: every label sequence with its score.

States / Start / Final / Arcs
    T copies of a program's joint states, one for each token; initial and final potentials at the
    ends; arcs between neighbouring copies carry arc potentials, states node potentials.

A lattice has one tape or, composed, several. What is said of labels below is said of each tape: a
lattice of one tape gives arrays and tuples, one of several gives a tuple of them. All answers are
exact. Scores are natural logs; a path that is forbidden has −inf.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias, cast, overload

import numpy as np
from numpy.typing import ArrayLike

from fstcrf import display
from fstcrf.arguments import AS_GRAMMAR, TRANSDUCED, LabelSet, refuse_fst
from fstcrf.arrays import Floats
from fstcrf.errors import NoPathError, OptionError, ShapeError
from fstcrf.files import write_picture
from fstcrf.kernel import Budget
from fstcrf.lattices.dense import Dense
from fstcrf.lattices.paths import LabelsT_co, Path
from fstcrf.lattices.questions import ArrayT_co, Questions, Said, Tape
from fstcrf.lattices.tapes import (
    Taped,
    array_lattice,
    checked_masks,
    constrained,
    free_program,
    joined,
    labelling_masks,
    restricted,
    scaled_lattice,
)
from fstcrf.lazy import LazyModule, made_once
from fstcrf.machines.grammar import Grammar
from fstcrf.machines.plans import Plan, Program, Search, no_path_error, plan_of
from fstcrf.text.corpus import Scheme

if TYPE_CHECKING:
    import pynini

    from fstcrf.lattices import arclattice, constructors, drawings, labellings, machines
    from fstcrf.lattices import confidence as sureness
    from fstcrf.lattices import spans as span_answers
    from fstcrf.lattices.arclattice import ArcLattice
    from fstcrf.lattices.confidence import Confidence, Method
    from fstcrf.lattices.engine import Runs
    from fstcrf.lattices.spans import MinimumRisk, ProbableSpans
    from fstcrf.machines import openfst
else:  # a tagger that is loaded does not wait for what few calls need
    arclattice = LazyModule("fstcrf.lattices.arclattice")
    constructors = LazyModule("fstcrf.lattices.constructors")
    machines = LazyModule("fstcrf.lattices.machines")
    drawings = LazyModule("fstcrf.lattices.drawings")
    labellings = LazyModule("fstcrf.lattices.labellings")
    span_answers = LazyModule("fstcrf.lattices.spans")
    sureness = LazyModule("fstcrf.lattices.confidence")
    openfst = LazyModule("fstcrf.machines.openfst")

_MOST_SHOWN = 1e9
"""Arcs of a lattice that is drawn; a second or so."""


class Lattice(Taped[LabelsT_co, ArrayT_co], Questions[LabelsT_co, ArrayT_co]):
    """One sentence's weighted transducer.

    Made by `Lattice.from_arrays`, by a tagger's ``lattice(sentence)``, by composing lattices
    (``a @ b``) and by constraining them (``a & grammar``).

    Parameters
    ----------
    program : Program
        The composition: tapes, topologies, couplings, grammar.
    values : tuple of float64 arrays
        What this sentence brings, one array for each of ``program.inputs``.
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
        labels : sequence of L str, or mapping of int to str
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
        program, values = array_lattice(labels, emissions, transitions, initial, final, tape)
        return cast("type[TapeLattice]", cls)(program, values)

    @staticmethod
    def from_fst(fst: pynini.Fst, labels: LabelSet | None = None) -> ArcLattice:
        """Return the lattice of any acyclic acceptor over label symbols.

        Parameters
        ----------
        fst : pynini.Fst
            An acyclic acceptor, of any arc type; its weights are costs, epsilon arcs are allowed.
        labels : sequence of str, or mapping of int to str, optional
            Label i is symbol i + 1, where the machine has no symbol table of its own.

        Raises
        ------
        DataError
            A cyclic machine, no acceptor, or another symbol table.
        LabelError
            A label that is there twice.
        MissingDependencyError
            pynini is not installed.
        """
        return constructors.from_fst(fst, labels)

    @staticmethod
    def from_machine(machine: openfst.Machine, labels: LabelSet | None = None) -> ArcLattice:
        """Return the lattice of an acyclic acceptor as flat arrays; errors as for `from_fst`."""
        return constructors.from_machine(machine, labels)

    @staticmethod
    def from_paths(
        paths: Sequence[Sequence[str]],
        scores: ArrayLike,
        labels: LabelSet | None = None,
        *,
        tape: str = "label",
    ) -> ArcLattice:
        """Return the lattice of some label sequences alone: n best ones, or samples.

        Parameters
        ----------
        paths : sequence of sequence of str
            One that is there twice is two paths.
        scores : [n]
            Natural logs; −inf forbids.
        labels : sequence of str, or mapping of int to str, optional
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
        return constructors.from_paths(paths, scores, labels, tape=tape)

    @staticmethod
    def from_segments(
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
    ) -> ArcLattice:
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
        return constructors.from_segments(
            length, start, end, label, score, labels, transitions, initial, final, tape=tape
        )

    @staticmethod
    def from_spans(
        length: int,
        spans: Sequence[tuple[int, int, str, float]],
        outside: float = 0.0,
        *,
        labels: LabelSet | None = None,
        nested: bool = False,
    ) -> ArcLattice:
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
        return constructors.from_spans(length, spans, outside, labels=labels, nested=nested)

    @staticmethod
    def from_ctc(
        scores: ArrayLike, blank: int | str = 0, *, labels: LabelSet | None = None
    ) -> ArcLattice:
        """Return the lattice of frames that collapse to strings.

        Parameters
        ----------
        scores : [T, V]
            Natural-log score of each symbol at each frame: logits, or log probabilities, with which
            log Z is 0.
        blank : int or str
            The column of the blank, or its label.
        labels : sequence of V str, or mapping of int to str, optional
            Symbols; numbers from "0" on, and "<blank>", when absent.

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
        return constructors.from_ctc(scores, blank, labels=labels)

    def __reduce__(self) -> tuple[Any, ...]:
        return Lattice, (self.program, self.values)

    def __repr__(self) -> str:
        sizes = " × ".join(f"{len(self.program.labels(t))} {t}" for t in self.tapes)
        return f"<Lattice: {len(self)} tokens, {sizes} labels>"

    def _repr_html_(self) -> str:
        """Return the marginals as a heat map for notebooks, the labels of the best path marked."""
        head = display.heading(repr(self))
        if self.program.decoder.lazy:
            return head + display.note("its paths are searched under a grammar: ask best()")
        if len(self) * float(np.prod(self.program.shape)) * max(self.program.shape) > _MOST_SHOWN:
            return head + display.note("too large to draw here: ask best() or marginals()")
        try:
            path = self.best()
        except NoPathError:
            return head + display.note("every label sequence is forbidden")
        maps = [
            display.heat_map(
                tape,
                self.program.labels(tape),
                self.marginals(tape),
                self.labels_of(path.labels, tape),
            )
            for tape in self.tapes
        ]
        facts: dict[str, display.Cell] = {
            "log Z": display.number(self.log_partition()),
            "best path": display.number(path.score),
            "its probability": path.probability,
        }
        return display.picture(head, display.facts(facts), *maps)

    # --- As the row of an engine --------------------------------------------------------------

    @property
    def on(self) -> tuple[Tape, ...]:  # type: ignore[override]
        """The tapes."""
        return _tapes(self.program)

    @made_once
    def engine(self) -> Dense:
        """What answers: a batch of one."""
        return Dense(self.program, [self.values])

    def searched(self, n: int, budget: Budget | None, search: Search | None) -> tuple[Dense, Runs]:
        """Return an engine and the n best paths that it finds."""
        engine = self.engine if search is None else self.engine.searched_by(search)
        return engine, engine.nbest(n, budget)

    def labellings(
        self, n: int, shown: tuple[str, ...], budget: Budget | None, search: Search | None
    ) -> list[Path]:
        """Return the n best labellings of some tapes, see `nbest`."""
        return labellings.nbest_of_tapes([self], n, shown, search=search, budget=budget)[0]

    def no_path(self, runs: Runs | None = None) -> NoPathError:
        """Return the error that says where all paths have died, or that none was found."""
        if runs is not None and runs.bound is not None and runs.bound[0] > -np.inf:
            given_up = 0 if runs.popped is None else int(runs.popped[0])
            return no_path_error(self.program, self.values, given_up=given_up)
        return self.engine.no_path(0)

    def saying(self, said: Said) -> Dense:
        """Return the engine of the path with these labels."""
        labels = cast("Sequence[str] | Sequence[Sequence[str]]", said)
        return restricted(self, labelling_masks(self, labels)).engine

    # --- Spans --------------------------------------------------------------------------------

    def span_probability(
        self,
        start: int,
        end: int,
        type: str,  # noqa: A002
        *,
        tape: str | None = None,
        scheme: str | Scheme = "conlleval",
    ) -> float:
        """Return the probability that exactly this segment is there.

        Parameters
        ----------
        start, end : int
            First token and the one behind the last.
        type : str
            ``"NP"``.
        tape : str, optional
            The tape, where there are several.
        scheme : str or Scheme
            How label sequences are read as spans; one that allows none is a GrammarError.

        Raises
        ------
        OptionError
            No such span in a sentence of this length, no label of this type, or no such tape.
        NoPathError
            Every label sequence is forbidden.
        """
        return float(self.span_probabilities([(start, end, type)], tape=tape, scheme=scheme)[0])

    def span_probabilities(
        self,
        spans: Sequence[tuple[int, int, str]],
        *,
        tape: str | None = None,
        scheme: str | Scheme = "conlleval",
    ) -> Floats:
        """Return the probabilities of many segments at once; see `span_probability`."""
        return span_answers.lattice_span_probabilities(
            self.engine, spans, self.tape_named(tape), scheme
        )

    def probable_spans(
        self,
        above: float = 0.01,
        *,
        tape: str | None = None,
        scheme: str | Scheme = "conlleval",
    ) -> ProbableSpans:
        """Return all spans, of all types, with a probability above a number.

        One backward and one forward pass; at most 1 / `above` spans are open at a token.

        Parameters
        ----------
        above : float
            0 to 1; at 0 all spans that there may be, a number quadratic in the tokens.
        tape : str, optional
            The tape, where there are several.
        scheme : str or Scheme
            How label sequences are read as spans; one that allows none is a GrammarError.

        Raises
        ------
        OptionError
            Another number, no such tape or scheme.
        NoPathError
            Every label sequence is forbidden.
        TooLargeError
            A grammar too large to multiply out, or too many spans for memory.
        """
        return span_answers.lattice_spans(self.engine, above, self.tape_named(tape), scheme)

    @overload
    def minimum_risk(
        self,
        loss: Literal["token"] = "token",
        *,
        tape: str | None = None,
        scheme: str | Scheme = "conlleval",
    ) -> MinimumRisk[LabelsT_co]: ...
    @overload
    def minimum_risk(
        self,
        loss: Literal["span"],
        *,
        tape: str | None = None,
        scheme: str | Scheme = "conlleval",
    ) -> MinimumRisk[tuple[str, ...]]: ...
    def minimum_risk(
        self,
        loss: Literal["token", "span"] = "token",
        *,
        tape: str | None = None,
        scheme: str | Scheme = "conlleval",
    ) -> MinimumRisk:
        """Return the labels with the least expected loss rather than the largest probability.

        Parameters
        ----------
        loss : {"token", "span"}
            token: the legal labelling with the largest expected number of right labels, all tapes
            together. span: the set of spans of one tape that maximises 2 E[right] / E[found +
            true], the ratio of expectations that F is.
        tape : str, optional
            For spans, the tape where there are several.
        scheme : str or Scheme
            How label sequences are read as spans, and written.

        Raises
        ------
        OptionError
            Another loss.
        NoPathError
            Every label sequence is forbidden.
        """
        if loss == "token":
            return span_answers.token_risk(self)
        if loss != "span":
            raise OptionError(f"loss is {loss!r}, expected 'token' or 'span'")
        return span_answers.span_risk(self, self.tape_named(tape), scheme)

    def confidence(
        self,
        *,
        method: Method = "auto",
        n: int = 100,
        samples: int = 1000,
        level: float = 0.95,
        seed: int = 0,
        budget: Budget | None = None,
    ) -> Confidence:
        """Return how sure the best legal path is, and how much of the model is legal at all.

        Parameters
        ----------
        method : {"auto", "exact", "n-best", "sampling"}
            exact: by sums over the expanded product. n-best: bounds from the n best paths with and
            without the grammar. sampling: from labellings drawn from the model without the
            grammar. auto: exact where the product is small, else from the n best paths, and from
            samples where those leave more than 0.02 open.
        n : int
            Best paths to look at.
        samples : int
            Labellings to draw.
        level : float
            Probability that sampled bounds hold.
        seed : int
        budget : Budget, optional
            When to give up searching.

        Raises
        ------
        NoPathError
            No label sequence is legal, or none was found.
        OptionError
            Another method, or numbers outside what they may be.
        TooLargeError
            ``method="exact"`` and a grammar too large to multiply out.
        """
        return sureness.confidence(
            self, method=method, n=n, samples=samples, level=level, seed=seed, budget=budget
        )

    # --- Other lattices -----------------------------------------------------------------------

    def restrict(self, mask: ArrayLike | Sequence[ArrayLike]) -> Self:
        """Return the lattice of the paths that a mask allows.

        Parameters
        ----------
        mask : bool [T, L]
            Labels that each token may have; of several tapes, a tuple of masks.

        Raises
        ------
        ShapeError
            Another shape.
        """
        return restricted(self, checked_masks(self, mask))

    def scale(self, factor: float) -> Self:
        """Return the lattice with every potential times a factor, soft grammars included.

        1/temperature; an annealing step; −1 gives p with the weights' signs turned, on the same
        paths: what is forbidden stays forbidden.

        Raises
        ------
        OptionError
            A factor that is not finite.
        """
        return scaled_lattice(self, factor, grammar=True)

    def weighted(self, factor: float) -> Self:
        """Return the lattice with the potentials of its taggers times a factor, not its grammar."""
        return scaled_lattice(self, factor, grammar=False)

    def without_grammar(self) -> Self:
        """Return the lattice of all paths of its taggers, whatever the grammar."""
        return self.with_program(free_program(self.program))

    def constrained(
        self, grammar: Grammar, *, search: Search | None = None, budget: Budget | None = None
    ) -> Self:
        """Return the lattice of the paths that a grammar accepts; ``lattice & grammar`` for short.

        Parameters
        ----------
        grammar : Grammar
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
            Another search, or what is no grammar.
        TooLargeError
            A product too large to expand.
        """
        if not isinstance(grammar, Grammar):
            raise OptionError(f"grammar is {grammar!r}, expected a fstcrf.Grammar")
        return self.with_program(constrained(self.program, grammar, search, budget))

    def __and__(self, grammar: Grammar) -> Self:
        """Return the lattice of the paths that a grammar accepts; see `constrained`."""
        refuse_fst(grammar, AS_GRAMMAR)
        if not isinstance(grammar, Grammar):
            return NotImplemented
        return self.constrained(grammar)

    @overload
    def __matmul__(self, other: Lattice) -> JointLattice: ...
    @overload
    def __matmul__(self, other: ArcLattice) -> ArcLattice: ...
    def __matmul__(self, other: Lattice | ArcLattice) -> JointLattice | ArcLattice:
        """Return the composition of two lattices; see `fstcrf.compose`."""
        refuse_fst(other, TRANSDUCED)
        if isinstance(other, Lattice):
            return cast("JointLattice", product([self, other]))
        if isinstance(other, Questions):
            return arclattice.ArcLattice.of_tokens(self) @ other
        return NotImplemented

    # --- Looking at it ------------------------------------------------------------------------

    def plan(self) -> Plan:
        """Return what the composition compiles to and what it costs."""
        return plan_of(self.program)

    def to_fst(self, arc_type: openfst.ArcType = "log64") -> pynini.Fst:
        """Return the lattice as a pynini machine; weights are costs, symbols labels.

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
        found: pynini.Fst = openfst.to_fst(machines.lattice_machine(self), arc_type)
        return found

    def to_att(self) -> str:
        """Return the lattice as AT&T text: source, target, input, output and cost of every arc."""
        return openfst.att_text(machines.lattice_machine(self), acceptor=True)

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
        under a grammar there is the best path alone.

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
            A file of another kind, or another `of`.
        OSError
            The file cannot be written.
        """
        if of not in {"lattice", "couplings"}:
            raise OptionError(f"of is {of!r}, expected lattice or couplings")
        if tokens is not None and len(tokens) != len(self):
            raise ShapeError(f"{len(tokens)} tokens for a lattice of {len(self)}")
        draw = drawings.lattice_picture if of == "lattice" else drawings.couplings_picture
        return write_picture(draw(self, tokens), path)


@lru_cache(maxsize=64)
def _tapes(program: Program) -> tuple[Tape, ...]:
    return tuple(Tape(tape, program.labels(tape), segments=False) for tape in program.tapes)


TapeLattice: TypeAlias = Lattice[tuple[str, ...], Floats]
"""Of one tape: a path is a tuple of labels, marginals are an array."""

JointLattice: TypeAlias = Lattice[tuple[tuple[str, ...], ...], tuple[Floats, ...]]
"""Of several tapes: a path is a tuple of such tuples, marginals are a tuple of arrays."""


def product(
    lattices: Sequence[Lattice],
    *,
    coupling: Mapping[tuple[int, int], ArrayLike] | None = None,
    weights: Sequence[float] | None = None,
) -> Lattice:
    """Return the composition of lattices of one sentence: scores add, tapes stand side by side.

    Parameters
    ----------
    lattices : sequence of Lattice
        Of equal length, one or more tapes each.
    coupling : mapping of (int, int) to [L1, L2] or [T, L1, L2], optional
        Potentials of the labels that two lattices, by position, give the same token; axes in the
        order of their ``labels``.
    weights : sequence of float, optional
        Factor of each lattice's potentials, at least 0; ones when absent.

    Raises
    ------
    ShapeError
        Lattices of different lengths, couplings of other shapes, another number of weights.
    OptionError
        Negative weights; a coupling of a lattice with itself or of one with several tapes.
    NumericError
        NaN or +inf in a coupling.
    """
    return Lattice(*joined(lattices, coupling, weights))
