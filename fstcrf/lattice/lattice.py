"""One sentence's weighted transducer: every label sequence with its score.

States / Start / Final / Arcs
    T copies of a program's joint states, one for each token; initial and final potentials at the
    ends; arcs between neighbouring copies carry arc potentials, states node potentials.

A lattice has one tape or, composed, several. What is said of labels below is said of each tape: a
lattice of one tape gives arrays and tuples, one of several gives a tuple of them. All answers are
exact. Scores are natural logs; a path that is forbidden has −inf.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fstcrf.arguments import LabelSet, real_number
from fstcrf.corpus import Scheme
from fstcrf.errors import NoPathError, OptionError
from fstcrf.kernel import Budget
from fstcrf.lattice.answer import Labels, Path, share
from fstcrf.lattice.batch import (
    Group,
    entropies,
    found_best,
    label_maxima,
    marginals,
    nbest,
    sample,
    successions,
)
from fstcrf.lattice.tapes import Taped, array_lattice, checked_masks, labelling_masks, restricted
from fstcrf.once import made_once
from fstcrf.plans import Plan, no_path_error, plan_of, scaled, warn_unproven

if TYPE_CHECKING:
    import pynini

    from fstcrf.grammar import Grammar
    from fstcrf.lattice.acyclic import AcyclicLattice
    from fstcrf.lattice.confidence import Confidence, Method
    from fstcrf.lattice.spans import MinimumRisk

__all__ = ["Lattice"]

Floats = NDArray[np.float64]


class Lattice(Taped):
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
    ) -> Lattice:
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
        return cls(*array_lattice(labels, emissions, transitions, initial, final, tape))

    @staticmethod
    def from_fst(fst: pynini.Fst, labels: LabelSet | None = None) -> AcyclicLattice:
        """Return the lattice of any acyclic acceptor over label symbols.

        Parameters
        ----------
        fst : pynini.Fst
            Of any arc type; its weights are costs.
        labels : sequence of str, or mapping of int to str, optional
            Label i is symbol i + 1, where the machine has no symbol table of its own.

        Raises
        ------
        DataError
            A cyclic machine, no acceptor, or another symbol table.
        MissingDependencyError
            pynini is not installed.
        """
        from fstcrf.lattice.acyclic import AcyclicLattice  # noqa: PLC0415 (few need it)

        return AcyclicLattice.from_fst(fst, labels)

    def __reduce__(self) -> tuple[Any, ...]:
        return Lattice, (self.program, self.values)

    def __repr__(self) -> str:
        sizes = " × ".join(f"{len(self.program.labels(t))} {t}" for t in self.tapes)
        return f"<Lattice: {len(self)} tokens, {sizes} labels>"

    # --- Best, all, some paths ----------------------------------------------------------------

    def best(self, budget: Budget | None = None) -> Path:
        """Return the best path.

        Ties: the smaller label index wins, at the earliest token where the candidates differ.

        Parameters
        ----------
        budget : Budget, optional
            When to give up, where a grammar is searched lazily. Then the path is the best one
            found: ``exact`` is False, no other path scores more than ``bound``, and an
            `InexactWarning` says so.

        Raises
        ------
        NoPathError
            Every label sequence is forbidden, with the first token at which all have died; or none
            was found within the budget.
        """
        found = found_best([self], budget=budget)
        path = found[0]
        if path is None:
            if not found.exact[0]:
                popped = int(found.popped[0])
                raise no_path_error(self.program, self.values, given_up=popped)
            self._check(-np.inf)
        assert path is not None  # noqa: S101 (the line above has raised)
        warn_unproven(int(not path.exact), 1)
        return path

    def nbest(
        self, n: int, budget: Budget | None = None, *, tapes: Sequence[str] | None = None
    ) -> list[Path]:
        """Return the n best paths, best first; fewer where there are fewer.

        Parameters
        ----------
        n : int
        budget : Budget, optional
            As for `best`.
        tapes : sequence of str, optional
            The n best labellings of these tapes alone, whatever the others say: they differ in
            these tapes, the score of each is that of its best path, its probability is summed
            over the other tapes.

        Raises
        ------
        OptionError
            n below 1, or tapes that there are not.
        """
        if tapes is None:
            return nbest([self], n, budget=budget)[0]
        from fstcrf.lattice.shown import nbest_of_tapes  # noqa: PLC0415 (few need it)

        return nbest_of_tapes([self], n, tapes, budget=budget)[0]

    def log_partition(self) -> float:
        """Return log Z, the log of the sum over all paths; −inf where there is none."""
        return float(self._group.log_z[0]) if len(self) else 0.0

    def sample(self, n: int, *, seed: int = 0) -> list[Labels]:
        """Return n independent samples from the distribution over paths.

        By forward filtering and backward sampling with the directions exchanged.

        Raises
        ------
        NoPathError
            Every label sequence is forbidden.
        """
        return self._alone(lambda lattices: sample(lattices, n, seed=seed))  # type: ignore[no-any-return]

    # --- Marginals ----------------------------------------------------------------------------

    def marginals(self, tape: str | None = None) -> Any:
        """Return the probability of each label at each token, float64 [T, L].

        Parameters
        ----------
        tape : str, optional
            This tape alone; of all tapes a tuple when absent.

        Raises
        ------
        NoPathError
            Every label sequence is forbidden.
        OptionError
            No such tape.
        """
        found = self._alone(marginals)
        return found if tape is None else self.of_tape(found, tape)

    def arc_marginals(self) -> Any:
        """Return the probability of each succession of labels, float64 [T − 1, L, L].

        Entry (t, i, j): label i at token t and label j at token t + 1.

        Raises
        ------
        NoPathError
            Every label sequence is forbidden.
        """
        if not len(self):
            return self.per_tape(lambda t: np.empty((0, *[len(self.program.labels(t))] * 2)))
        found = successions(self._group)
        return self.per_tape(lambda tape: found[tape][1:])

    def max_marginals(self) -> Any:
        """Return the score of the best path through each label, float64 [T, L]; −inf: none."""
        if not len(self):
            return self.per_tape(lambda t: np.empty((0, len(self.program.labels(t)))))
        return self.per_tape(label_maxima(self._group).__getitem__)

    def entropy(self) -> float:
        """Return the entropy of the distribution over paths, in nats.

        Costs a row of joint states for each joint state and token.

        Raises
        ------
        NoPathError
            Every label sequence is forbidden.
        """
        return float(entropies(self._group)[0]) if len(self) else 0.0

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
            How label sequences are read as spans.

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
        from fstcrf.lattice.spans import span_probabilities  # noqa: PLC0415 (it imports us)

        return span_probabilities(self, spans, self.tape_named(tape), scheme)

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
        from fstcrf.lattice.spans import minimum_risk  # noqa: PLC0415 (it imports us)

        return minimum_risk(self, loss, tape=tape, scheme=scheme)

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
        from fstcrf.lattice.confidence import confidence  # noqa: PLC0415 (few need it)

        return confidence(
            self, method=method, n=n, samples=samples, level=level, seed=seed, budget=budget
        )

    # --- One labelling ------------------------------------------------------------------------

    def score(self, labels: Sequence[Any]) -> float:
        """Return the score of a label sequence; −inf if it is forbidden.

        Raises
        ------
        LabelError
            A label that the lattice does not have.
        ShapeError
            Another number of labels than tokens, or of tapes.
        """
        return float(found_best([restricted(self, labelling_masks(self, labels))]).scores[0])

    def probability(self, labels: Sequence[Any]) -> float:
        """Return exp(score − log Z) of a label sequence; raises as `score`."""
        return share(self.score(labels), self.log_partition())

    # --- Other lattices -----------------------------------------------------------------------

    def restrict(self, mask: Any) -> Lattice:
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

    def scale(self, factor: float) -> Lattice:
        """Return the lattice with every potential times a factor, soft grammars included.

        1/temperature; an annealing step; −1 gives p with the weights' signs turned, on the same
        paths: what is forbidden stays forbidden.

        Raises
        ------
        OptionError
            A factor that is not finite.
        """
        return self._scaled(factor, grammar=True)

    def weighted(self, factor: float) -> Lattice:
        """Return the lattice with the potentials of its taggers times a factor, not its grammar."""
        return self._scaled(factor, grammar=False)

    def without_grammar(self) -> Lattice:
        """Return the lattice of all paths of its taggers, whatever the grammar."""
        from fstcrf.lattice.product import free_program  # noqa: PLC0415 (it imports us)

        return Lattice(free_program(self.program), self.values)

    def __and__(self, grammar: Grammar) -> Lattice:
        """Return the lattice of the paths that a grammar accepts."""
        from fstcrf.grammar import Grammar  # noqa: PLC0415 (its parser is rarely needed)

        if not isinstance(grammar, Grammar):
            return NotImplemented
        from fstcrf.lattice.product import constrained  # noqa: PLC0415 (it imports us)

        return constrained(self, grammar)

    def __matmul__(self, other: Lattice) -> Lattice:
        """Return the composition of two lattices; see `fstcrf.compose`."""
        if not isinstance(other, Lattice):
            return NotImplemented
        from fstcrf.lattice.product import product  # noqa: PLC0415 (it imports us)

        return product([self, other])

    # --- Looking at it ------------------------------------------------------------------------

    def plan(self) -> Plan:
        """Return what the composition compiles to and what it costs."""
        return plan_of(self.program)

    def to_fst(self, arc_type: str = "log64") -> pynini.Fst:
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
        from fstcrf.lattice.machines import lattice_fst  # noqa: PLC0415 (it imports us)

        return lattice_fst(self, arc_type)

    def to_att(self) -> str:
        """Return the lattice as AT&T text: source, target, input, output and cost of every arc."""
        from fstcrf.lattice.machines import lattice_att  # noqa: PLC0415 (it imports us)

        return lattice_att(self)

    def draw(self) -> str:
        """Return a picture: SVG where graphviz is installed, else a table in plain text."""
        from fstcrf.lattice.machines import drawn  # noqa: PLC0415 (it imports us)

        return drawn(self)

    @made_once
    def _group(self) -> Group:
        return Group(self.program, [-1], [self])

    def _alone(self, ask: Callable[[list[Lattice]], list[Any]]) -> Any:
        """Ask for this lattice alone: a message names its token, not its place in a batch."""
        try:
            return ask([self])[0]
        except NoPathError as error:
            raise no_path_error(self.program, self.values, position=error.position) from None

    def _check(self, score: float) -> None:
        self._group.check(np.asarray([score]))

    def _scaled(self, factor: float, *, grammar: bool) -> Lattice:
        factor = real_number(factor, "factor")
        if not np.isfinite(factor):
            raise OptionError(f"factor is {factor}, expected a finite number")
        from fstcrf.lattice.product import scaled_program  # noqa: PLC0415 (it imports us)

        program = scaled_program(self.program, factor, grammar=grammar)
        return Lattice(program, tuple(scaled(v, factor) for v in self.values))
