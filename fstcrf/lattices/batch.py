"""Many lattices, asked together: each question has an answer for each of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fstcrf.arguments import AS_GRAMMAR, LabelSet, is_fst, refuse_fst, whole_number
from fstcrf.arrays import Bools, Floats, Ints, Longs
from fstcrf.errors import NoPathError, OptionError, ShapeError
from fstcrf.kernel import Budget, SearchResult, columns
from fstcrf.lattices import batching, spans
from fstcrf.lattices.answer import Answer
from fstcrf.lattices.chains import ChainEngine
from fstcrf.lazy import LazyModule
from fstcrf.machines.grammar import Grammar
from fstcrf.machines.plans import warn_unproven
from fstcrf.ragged import Ragged
from fstcrf.text.corpus import Scheme

if TYPE_CHECKING:
    import pynini

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

arrays = LazyModule("fstcrf.lattices.emissions.batch")  # stands above this module

LatticeT = TypeVar("LatticeT", bound=Any)
_T = TypeVar("_T")
_S = TypeVar("_S", bound=np.generic)


class Lattices(batching.Batch[LatticeT]):
    """Many lattices, asked together: a sequence of them, of any kinds.

    ``lattices[i]`` is one of them. A question that a lattice answers has a list, or an array, with
    an answer for each; it goes to the kernel in one call where the lattices are of one tagger, or
    of one batch of arrays. Options are those of `fstcrf.best`, `fstcrf.nbest` and the others, which
    ask any sequence of lattices the same. Changes (``lattices & grammar``) make other lattices.

    Parameters
    ----------
    lattices : sequence of Lattice
    """

    width: int | None = None
    """Tokens that answers are padded to; those of the longest when absent."""

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
        """Build a batch of lattices from scores of any origin.

        Parameters
        ----------
        labels : sequence of L str, or mapping of id to str
            In the order of the scores' last axis. A mapping such as ``id2label`` has the ids 0 to
            L − 1 as keys: numbers, or the strings of a JSON file.
        scores : [B, T, L], or sequence of B [T_i, L]
            Natural-log scores, −inf forbids: NumPy's, torch's or JAX's arrays on the CPU, whatever
            has ``__array__`` or ``__dlpack__``. float32 and float64 are read where they lie;
            tensors that require gradients by their values; half precision becomes float32.
        transitions : [L, L], [B, T − 1, L, L], or sequence of B [T_i − 1, L, L], optional
            Score of each succession, from row to column; zero when absent.
        initial, final : [L], optional
            Scores of the first and last label; zero when absent.
        lengths : int [B], optional
            Tokens of each sentence of a padded array; all T when absent. What lies beyond is not
            read.
        mask : bool [B, T], optional
            Instead of `lengths`, true at each sentence's tokens, which come first.
        names : str, mapping of str to str, or callable, optional
            Where the labels are not called ``B-PER``: how they write that (``"B_PER"``,
            ``"PER-B"``), or the usual name of each, or a function that returns it. Answers,
            grammar and spans have the usual names.
        tape : str
            Name of the tape.

        Raises
        ------
        ShapeError
            Shapes that disagree, a mask with holes, lengths beyond T.
        NumericError
            NaN or +inf; of the scores with sentence, token and label, when they are asked about.
        OptionError
            Labels twice or with gaps; a tensor that is not on the CPU.
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
        """Return the n best paths of each lattice, best first; of some tapes as `Lattice.nbest`."""
        if tapes is None:
            return batching.nbest(self, n, **options)
        return [one.nbest(n, tapes=tapes, **options) for one in self]

    def decode(self, n: int = 1, *, budget: Budget | None = None, threads: int = 1) -> Answer:
        """Return the n best paths of each lattice as arrays, see `fstcrf.decode`.

        Raises
        ------
        OptionError
            n below 1; lattices of arcs, or of other labels than the first: those are asked for
            `best` and `nbest`.
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
        """Return what `decode` does of the first tapes, without a warning of what is not proven.

        `strict`: NoPathError for a lattice without a path. `probabilities`: they will be looked at.
        `tapes`: paths differ in these.
        """
        if tapes is not None and len(on) > 1:
            return self._of_tapes(n, tapes, budget, threads, strict=strict)

        def ask(group: Group) -> tuple[SearchResult, list[Ints]]:
            engine = group.engine
            if not isinstance(engine, ChainEngine) or engine.on[: len(on)] != on:
                raise OptionError(
                    "decode() needs lattices with the same labels at each token: call best() "
                    "or nbest(n) for other lattices"
                )
            found = engine.decoded(n, budget)
            if strict:
                engine.check_found(found)
            if probabilities:
                _ = engine.usual_log_z
            return found, engine.labels_found(found, len(on))

        rows, groups = self.rows, batching.answered(self, ask, threads)
        parts, labels = [part for _, (part, _) in groups], [own for _, (_, own) in groups]
        n = columns(n, max((int(part.found.max(initial=0)) for part in parts), default=0))
        scores = _joined([part.score for part in parts], np.empty((0, n)), -np.inf)
        none = np.empty((0, n), np.int32)
        flat = [_joined([own[k].T for own in labels], none, -1).T for k in range(len(on))]
        exact = bounds = None
        if any((part.bound > -np.inf).any() for part in parts):
            both = ([part.bound, part.proven] for part in parts)
            bound, proven = np.concatenate([*both], axis=1)[..., None]
            exact = (np.arange(n) < proven) | np.isneginf(bound)
            bounds = np.where(exact, scores, np.maximum(scores, bound))
        numbers = [group.numbers for group, _ in groups]
        if not all(isinstance(own, range) for own in numbers):  # then they are not in order
            order = np.concatenate(numbers)
            place, grouped = np.argsort(order), rows.select(order)
            scores, flat = scores[place], [own.take(grouped.entries(place), 1) for own in flat]
            if exact is not None and bounds is not None:
                exact, bounds = exact[place], bounds[place]
        return Answer(
            {tape.name: own for tape, own in zip(on, flat, strict=True)},
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
        ranked = labellings.nbest_of_tapes(self, n, tapes, budget=budget, threads=threads)
        for number, (paths, lattice) in enumerate(zip(ranked, self, strict=True)):
            if strict and not paths:
                raise lattice.row.no_path().of_sentence(number)
        own = {tape.name: tape.labels for tape in self.on}
        sets = {tape: own[tape] for tape in tapes}
        answer = Answer.of_paths(ranked, sets, self.rows.lengths.tolist(), n)
        return answer.with_posterior(lambda: self.posterior(budget, threads))

    @property
    def rows(self) -> Ragged:
        """Tokens of each lattice."""
        return Ragged.from_lengths(map(len, self))

    def posterior(self, budget: Budget | None, threads: int) -> Distributions:
        """Return what answers are from."""
        tapes = [tape.name for tape in self.on]
        found: Distributions = distributions.Distributions(
            dict.fromkeys(tapes, self), budget, threads
        )
        return found

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
        """Return what each lattice answers; errors say which has no path."""
        answers = []
        for number, lattice in enumerate(self):
            try:
                answers.append(ask(lattice))
            except NoPathError as error:
                raise error.of_sentence(number) from None
        return answers

    # --- Other lattices ---------------------------------------------------------------------------

    def select(self, which: Bools | Longs) -> Lattices[LatticeT]:
        """Return some of the lattices, by numbers or bool [B]."""
        numbers = np.arange(len(self))[which].tolist()
        return self._like([self[k] for k in numbers])

    def _like(self, lattices: list[LatticeT]) -> Lattices[LatticeT]:
        """Return a batch whose answers are padded as the answers of this one."""
        batch = Lattices(lattices)
        batch.width = self.width
        return batch

    def restrict(self, masks: Any) -> Lattices[LatticeT]:
        """Return the lattices of the paths that masks allow, one for each; see `Lattice.restrict`.

        Parameters
        ----------
        masks : sequence of B masks
            Of a batch of arrays also bool [B, T, L]; what lies beyond a sentence's end is not read.
        """
        if self.width is not None and getattr(masks, "ndim", 0) == 3:
            masks = [mask[: len(one)] for one, mask in zip(self, masks, strict=True)]
        return self._like([one.restrict(mask) for one, mask in zip(self, masks, strict=True)])

    def scale(self, factor: float) -> Lattices[LatticeT]:
        """Return the lattices with every potential times a factor; see `Lattice.scale`."""
        return self._like([one.scale(factor) for one in self])

    def weighted(self, factor: float) -> Lattices[LatticeT]:
        """Return the lattices with all potentials but the grammar's times a factor."""
        return self._like([one.weighted(factor) for one in self])

    def without_grammar(self) -> Lattices[LatticeT]:
        """Return the lattices of all paths, whatever the grammar."""
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
        """Return each lattice composed with the one in its place, or all with a transducer.

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
    """Return arrays [K, paths] below each other, with as many columns as `none` has."""
    n = none.shape[1]
    if len(parts) == 1 and parts[0].shape[1] == n:
        return parts[0]
    whole, first = np.full((n, sum(map(len, parts))), missing, dtype=none.dtype).T, 0
    for part in parts:
        kept = min(n, part.shape[1])
        whole[first : first + len(part), :kept] = part[:, :kept]
        first += len(part)
    return whole
