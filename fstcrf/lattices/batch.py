"""Batches of lattices: one call asks all of them and returns an answer for each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fstcrf.arguments import AS_GRAMMAR, LabelSet, is_fst, refuse_fst, whole_number
from fstcrf.arrays import Bools, Floats, Ints, Longs, Ragged
from fstcrf.errors import NoPathError, ShapeError
from fstcrf.kernel import Budget, columns
from fstcrf.kernel.lazy import shared
from fstcrf.lattices import batching, spans
from fstcrf.lattices.answer import Answer
from fstcrf.lazy import LazyModule
from fstcrf.machines.grammar import Grammar
from fstcrf.machines.plans import warn_unproven
from fstcrf.text.corpus import Scheme

if TYPE_CHECKING:
    import pynini

    from fstcrf.kernel import SearchResult
    from fstcrf.lattices import distributions, labellings
    from fstcrf.lattices.batching import Group
    from fstcrf.lattices.distributions import Distributions
    from fstcrf.lattices.engine import Tape
    from fstcrf.lattices.lattice import TapeLattice
    from fstcrf.lattices.paths import Path
    from fstcrf.lattices.results import MinimumRisk
    from fstcrf.machines import transducer as transducers
    from fstcrf.machines.transducer import Transducer
else:
    distributions = LazyModule("fstcrf.lattices.distributions")
    labellings = LazyModule("fstcrf.lattices.labellings")
    transducers = LazyModule("fstcrf.machines.transducer")

arrays = LazyModule("fstcrf.lattices.emissions.batch")  # it imports this module

LatticeT = TypeVar("LatticeT", bound=Any)
_T = TypeVar("_T")
_S = TypeVar("_S", bound=np.generic)


class Lattices(batching.Batch[LatticeT]):
    """A sequence of lattices of any kinds that are asked together.

    ``lattices[i]`` is one lattice. Each question returns a list or an array with an answer for each
    lattice. Lattices of one tagger, or of one batch of arrays, are asked in one call of the kernel.
    Options are the same as for `fstcrf.best`, `fstcrf.nbest` and the other functions, which ask any
    sequence of lattices. Changes (``lattices & grammar``) return new lattices.

    Parameters
    ----------
    lattices : sequence of Lattice
    """

    width: int | None = None
    """Number of tokens that answers are padded to; if absent, of the longest lattice."""

    @staticmethod
    def from_arrays(
        labels: LabelSet,
        scores: Any,
        transitions: ArrayLike | None = None,
        initial: ArrayLike | None = None,
        final: ArrayLike | None = None,
        *,
        lengths: ArrayLike | None = None,
        mask: ArrayLike | None = None,
        names: str | Mapping[str, str] | Callable[[str], str] | None = None,
        tape: str = "label",
    ) -> Lattices[TapeLattice]:
        """Build a batch of lattices from arrays of scores.

        Parameters
        ----------
        labels : sequence of L str, or mapping of id to str
            The labels, in the order of the last axis of `scores`. A mapping such as ``id2label``
            has the ids 0 to L − 1 as keys: numbers, or the strings of a JSON file.
        scores : [B, T, L], or sequence of B [T_i, L]
            Natural-log scores; −inf forbids a label. Arrays of NumPy, torch or JAX on the CPU, and
            other objects with ``__array__`` or ``__dlpack__``. float32 and float64 are read without
            a copy; half precision becomes float32. Gradients of tensors are ignored.
        transitions : [L, L], [B, T − 1, L, L], or sequence of B [T_i − 1, L, L], optional
            Score of each pair of neighbouring labels, from row to column; zero if absent.
        initial, final : [L], optional
            Scores of the first and last label; zero if absent.
        lengths : int [B], optional
            Tokens of each sentence of a padded array; T if absent. The padding is not read.
        mask : bool [B, T], optional
            Instead of `lengths`: true at the tokens of each sentence, false at the padding.
        names : str, mapping of str to str, or callable, optional
            Needed if the labels do not have names such as ``B-PER``: their form of that name
            (``"B_PER"``, ``"PER-B"``), or a mapping or function to the usual names. Answers,
            grammar and spans have the usual names.
        tape : str
            Name of the tape.

        Raises
        ------
        ShapeError
            Shapes disagree, a mask has holes, or a length is more than T.
        NumericError
            NaN or +inf. An error about `scores` is raised by the first question, with sentence,
            token and label.
        OptionError
            A label is repeated or an id is missing; or a tensor is not on the CPU.
        """
        chain = transitions, initial, final
        batch: Lattices[TapeLattice] = arrays.array_lattices(
            labels, scores, chain, lengths, mask, names, tape=tape, copied=True
        )
        return batch

    def __repr__(self) -> str:
        return f"<Lattices of {len(self):,} sentences>"

    # --- Paths ------------------------------------------------------------------------------------

    best, sample = batching.best, batching.sample
    score, probability = batching.score, batching.probability

    def nbest(
        self, n: int, *, tapes: Sequence[str] | None = None, **options: Any
    ) -> Sequence[list[Path]]:
        """Return the n best paths of each lattice, best first; see `Lattice.nbest`."""
        if tapes is None:
            return batching.nbest(self, n, **options)
        return [one.nbest(n, tapes=tapes, **options) for one in self]

    def decode(self, n: int = 1, *, budget: Budget | None = None, threads: int = 1) -> Answer:
        """Return the n best paths of each lattice as arrays, see `fstcrf.decode`.

        Raises
        ------
        OptionError
            `n` is below 1; or the lattices are stored as arcs, or do not have the same labels: use
            `best` or `nbest` for these.
        """
        n = whole_number(n, "n", least=1, narrow=True)
        answer = self.answer(n, self.on, budget, threads)
        warn_unproven(answer.unproven, len(self))
        return answer

    def answer(
        self,
        n: int,
        on: tuple[Tape, ...],
        budget: Budget | None,
        threads: int,
        *,
        strict: bool = False,
        probabilities: bool = False,
        tapes: Sequence[str] | None = None,
    ) -> Answer:
        """Return the answer of `decode` for the first tapes, without a warning.

        `strict`: raise NoPathError if a lattice has no path. `probabilities`: compute log Z now,
        because they will be read. `tapes`: return the n best labellings of these tapes.
        """
        if tapes is not None and len(on) > 1:
            return self._of_tapes(n, tapes, budget, threads, strict=strict)

        share = shared(budget, len(self), threads)

        def ask(group: Group) -> tuple[SearchResult, list[Ints]]:
            result = group.engine.decode(n, on, share(len(group.numbers)), strict=strict)
            if probabilities:
                _ = group.engine.usual_log_z
            return result

        rows, groups = self.rows, batching.answered(self, ask, threads)
        parts, labels = [part for _, (part, _) in groups], [each for _, (_, each) in groups]
        n = columns(n, max((int(part.n_paths.max(initial=0)) for part in parts), default=0))
        scores = _joined([part.score for part in parts], np.empty((0, n)), -np.inf)
        none = np.empty((0, n), np.int32)
        flat = [_joined([part[k].T for part in labels], none, -1).T for k in range(len(on))]
        exact = bounds = None
        if any((part.bound > -np.inf).any() for part in parts):
            both = ([part.bound, part.proven] for part in parts)
            bound, proven = np.concatenate([*both], axis=1)[..., None]
            exact = (np.arange(n) < proven) | np.isneginf(bound)
            bounds = np.where(exact, scores, np.maximum(scores, bound))
        numbers = [group.numbers for group, _ in groups]
        if not all(isinstance(part, range) for part in numbers):  # lists are not in order
            order = np.concatenate(numbers)
            place, grouped = np.argsort(order), rows.select(order)
            scores, flat = scores[place], [row.take(grouped.entries(place), 1) for row in flat]
            if exact is not None and bounds is not None:
                exact, bounds = exact[place], bounds[place]
        return Answer(
            {tape.name: row for tape, row in zip(on, flat, strict=True)},
            {tape.name: tape.labels for tape in on},
            rows.offsets,
            scores=scores,
            exact=exact,
            bounds=bounds,
            log_z=lambda: batching.usual_log_z(self, threads=threads),
            posterior=lambda: self.posterior(budget, threads),
            width=self.width,
        )

    def _of_tapes(
        self, n: int, tapes: Sequence[str], budget: Budget | None, threads: int, *, strict: bool
    ) -> Answer:
        """Return the n best labellings of some tapes."""
        labelled = labellings.nbest_of_tapes(self, n, tapes, budget=budget, threads=threads)
        for number, (paths, lattice) in enumerate(zip(labelled, self, strict=True)):
            if strict and not paths:
                raise lattice.row.no_path().of_sentence(number)
        sets = {tape.name: tape.labels for tape in self.on}
        sets = {tape: sets[tape] for tape in tapes}
        answer = Answer.of_paths(labelled, sets, self.rows.lengths.tolist(), n)
        return answer.with_posterior(lambda: self.posterior(budget, threads))

    @property
    def rows(self) -> Ragged:
        """Tokens of each lattice."""
        return Ragged.from_lengths(map(len, self))

    def posterior(self, budget: Budget | None, threads: int) -> Distributions:
        """Return the distributions over labellings."""
        lattices = dict.fromkeys([tape.name for tape in self.on], self)
        return distributions.Distributions(lattices, budget, threads)

    # --- Sums -------------------------------------------------------------------------------------

    log_partition, entropy = batching.log_partition, batching.entropy
    marginals, max_marginals = batching.marginals, batching.max_marginals
    arc_marginals = batching.arc_marginals
    probable_spans, span_probabilities = spans.probable_spans, spans.span_probabilities

    def gradient(self) -> list[dict[str, Floats]]:
        """Return the derivatives of log Z of each lattice; see `Lattice.gradient`."""
        return self._each(lambda lattice: lattice.gradient())

    def minimum_risk(
        self, loss: Literal["token", "span"] = "token", *, scheme: str | Scheme | None = None
    ) -> list[MinimumRisk]:
        """Return the labels of each lattice with the least expected loss.

        Parameters and errors as for `Lattice.minimum_risk`.
        """
        return self._each(lambda lattice: lattice.minimum_risk(loss, scheme=scheme))

    def _each(self, ask: Callable[[LatticeT], _T]) -> list[_T]:
        """Return the answer of each lattice; errors have the number of the lattice."""
        answers = []
        for number, lattice in enumerate(self):
            try:
                answers.append(ask(lattice))
            except NoPathError as error:
                raise error.of_sentence(number) from None
        return answers

    # --- Other lattices ---------------------------------------------------------------------------

    def select(self, which: Bools | Longs) -> Lattices[LatticeT]:
        """Return some of the lattices, by their numbers or by a mask, bool [B]."""
        numbers = np.arange(len(self))[which].tolist()
        return self._like([self[k] for k in numbers])

    def _like(self, lattices: list[LatticeT]) -> Lattices[LatticeT]:
        """Return a batch of other lattices with the padding of this batch."""
        batch = Lattices(lattices)
        batch.width = self.width
        return batch

    def restrict(self, masks: Any) -> Lattices[LatticeT]:
        """Return the lattices of the paths that masks allow; see `Lattice.restrict`.

        Parameters
        ----------
        masks : sequence of B masks
            Or bool [B, T, L] for a batch of arrays; the padding is not read.
        """
        if self.width is not None and getattr(masks, "ndim", 0) == 3:
            masks = [mask[: len(one)] for one, mask in zip(self, masks, strict=True)]
        return self._like([one.restrict(mask) for one, mask in zip(self, masks, strict=True)])

    def scale(self, factor: float) -> Lattices[LatticeT]:
        """Return the lattices with every potential times a factor; see `Lattice.scale`."""
        return self._like([one.scale(factor) for one in self])

    def weighted(self, factor: float) -> Lattices[LatticeT]:
        """Return the lattices with all potentials times a factor, except the grammar's scores."""
        return self._like([one.weighted(factor) for one in self])

    def without_grammar(self) -> Lattices[LatticeT]:
        """Return the lattices of all paths, without the grammar."""
        return self._like([one.without_grammar() for one in self])

    def constrained(self, grammar: Grammar, **options: Any) -> Lattices[LatticeT]:
        """Return the lattices of the paths that a grammar accepts; see `Lattice.constrained`."""
        return self._like([one.constrained(grammar, **options) for one in self])

    def __and__(self, grammar: Grammar) -> Lattices[LatticeT]:
        """Return the lattices of the paths that a grammar accepts."""
        refuse_fst(grammar, AS_GRAMMAR)
        if not isinstance(grammar, Grammar):
            return NotImplemented
        return self.constrained(grammar)

    def __matmul__(self, others: Sequence[Any] | Transducer | pynini.Fst) -> Lattices[Any]:
        """Return each lattice composed with another lattice, or with one transducer.

        See `Lattice.__matmul__`.
        """
        if is_fst(others):
            others = transducers.Transducer.from_fst(others)
        if isinstance(others, transducers.Transducer):
            return self._like([one @ others for one in self])
        if not isinstance(others, Sequence):
            return NotImplemented
        if len(others) != len(self):
            raise ShapeError(
                f"{len(self)} lattices cannot be composed with {len(others)}: expected the "
                "same number"
            )
        return self._like([one @ other for one, other in zip(self, others, strict=True)])


def _joined(parts: Sequence[NDArray[_S]], none: NDArray[_S], missing: float) -> NDArray[_S]:
    """Return arrays [K, paths] concatenated, with the number of columns of `none`."""
    n = none.shape[1]
    if len(parts) == 1 and parts[0].shape[1] == n:
        return parts[0]
    joined, first = np.full((n, sum(map(len, parts))), missing, dtype=none.dtype).T, 0
    for part in parts:
        kept = min(n, part.shape[1])
        joined[first : first + len(part), :kept] = part[:, :kept]
        first += len(part)
    return joined
