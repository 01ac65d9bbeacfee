"""One sentence under the chain rule: what can be asked of it.

It is a distribution over labellings of all tapes, normalised tape by tape, but no transducer. log Z
is 0; best and n best come from an enumeration that proves its answer, samples from one tape after
the other. Sums over labellings, such as marginals of a later tape, have no closed form: samples
estimate them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

import numpy as np
from numpy.typing import NDArray

from fstcrf import kernel
from fstcrf.corpus import Corpus
from fstcrf.errors import NoPathError, OptionError, ShapeError
from fstcrf.joint.cascade import as_corpus
from fstcrf.joint.chain import BUDGET, Solver, check_legal
from fstcrf.joint.stages import Stage, with_tape
from fstcrf.lattice import Lattice, Path
from fstcrf.model.reading import SentenceLike

if TYPE_CHECKING:
    from fstcrf.joint.composition import Composition

__all__ = ["ChainLattice"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]

_OF_LATTICES = frozenset(name for name in vars(Lattice) if not name.startswith("_"))


class ChainLattice:
    """One sentence under ``normalize="chain"``; made by `Composition.lattice`.

    Parameters
    ----------
    composition : Composition
    sentence : as for `Composition.tag`
    """

    def __init__(self, composition: Composition, sentence: SentenceLike) -> None:
        self.composition = composition
        lengths, self._corpus = as_corpus(composition, [sentence])
        self._length = lengths[0]
        self._solver = Solver(composition)
        self._order = [stage.tagger.tape for stage in self._solver.stages]

    def __repr__(self) -> str:
        return f"<ChainLattice: {len(self)} tokens, {' · '.join(self._order)}>"

    def __len__(self) -> int:
        return self._length

    @property
    def tapes(self) -> tuple[str, ...]:
        """Names of the tapes."""
        return self.composition.tapes

    @property
    def labels(self) -> tuple[tuple[str, ...], ...]:
        """The labels of each tape."""
        return tuple(tagger.labels for tagger in self.composition.taggers)

    def best(self, *, budget: int = BUDGET) -> Path:
        """Return the best labelling.

        Parameters
        ----------
        budget : int
            Labellings of a tape to look at. Where it ends the search, the path is the best one
            found, ``exact=False``, and ``bound`` says what could still be better.

        Raises
        ------
        NoPathError
            No labelling is legal.
        """
        found = self.nbest(1, budget=budget)
        if not found:
            raise NoPathError("no labelling is legal")
        return found[0]

    def nbest(self, n: int, *, budget: int = BUDGET) -> list[Path]:
        """Return the n best labellings, best first; arguments and `Path` as for `best`."""
        if n < 1:
            raise OptionError(f"n is {n}, expected at least 1")
        if not len(self):
            return [Path(tuple(() for _ in self.tapes), 0.0, 1.0, exact=True, bound=0.0)]
        check_legal(self.composition, self._corpus)
        found, bound = self._ranked(self._corpus, 0, n, budget)
        return [
            Path(
                self._named(dict(zip(self._order, ids, strict=True))),
                total,
                float(min(1.0, np.exp(total))),
                exact=bound <= total,
                bound=max(bound, total),
            )
            for total, ids in found
        ]

    def log_partition(self) -> float:
        """Return log Z: 0, every factor is a probability.

        Raises
        ------
        OptionError
            Weights other than 1, or a grammar: the sum is not 1 then, and has no closed form.
        """
        self._check_plain("log Z")
        return 0.0

    def score(self, labels: Sequence[Sequence[str]]) -> float:
        """Return the log probability of a labelling (times weights, plus grammar scores).

        Raises
        ------
        ShapeError
            Another number of tapes, or of labels than tokens.
        LabelError
            A label that a tape does not have.
        """
        if len(labels) != len(self.tapes) or any(len(part) != len(self) for part in labels):
            raise ShapeError(
                f"labels of {len(labels)} tapes, {[len(p) for p in labels]} long; expected "
                f"{len(self.tapes)} of {len(self)} tokens"
            )
        ids = {
            tagger.tape: tagger.topology.label_ids(part)
            for tagger, part in zip(self.composition.taggers, labels, strict=True)
        }
        corpus, total = self._corpus, 0.0
        for stage in self._solver.stages if len(self) else ():
            mine = ids[stage.tagger.tape]
            total += self._stage_score(stage, corpus, mine)
            corpus = with_tape(corpus, stage.tagger, mine)
        return total

    def probability(self, labels: Sequence[Sequence[str]]) -> float:
        """Return exp(`score`) of a labelling; raises as `score` and `log_partition`."""
        self._check_plain("a probability")
        return float(np.exp(self.score(labels)))

    def sample(self, n: int, *, seed: int = 0) -> list[tuple[tuple[str, ...], ...]]:
        """Return n independent exact samples: of the first tape, of the second given it, ...

        Raises
        ------
        OptionError
            Weights other than 1, or a grammar.
        """
        self._check_plain("a sample")
        rng = np.random.default_rng(seed)
        found = []
        for _ in range(n):
            corpus, ids = self._corpus, {}
            for stage in self._solver.stages if len(self) else ():
                bound = stage.free_bound(stage.given(corpus))
                path = kernel.sample_paths(bound, rng.random((1, len(self))))[0]
                ids[stage.tagger.tape] = stage.tagger.topology.state_label[path]
                corpus = with_tape(corpus, stage.tagger, ids[stage.tagger.tape])
            found.append(self._named(ids))
        return found

    def marginals(self, tape: str | None = None) -> Floats:
        """Return the probability of each label of the first tape at each token, float64 [T, L].

        Parameters
        ----------
        tape : str
            The first tape.

        Raises
        ------
        OptionError
            Another tape, or weights or a grammar: estimate those from samples.
        """
        if tape != self._order[0]:
            _sampling("marginals of a tape but the first", self._order[0])
        self._check_plain("marginals")
        stage = self._solver.stages[0]
        if not len(self):
            return np.empty((0, len(stage.tagger.labels)))
        found = kernel.axis_posterior(stage.free_bound(stage.given(self._corpus)))
        return stage.tagger.topology.label_sums(found.node[0])

    def __getattr__(self, name: str) -> NoReturn:
        if name not in _OF_LATTICES:
            raise AttributeError(f"a ChainLattice has no {name!r}")
        _sampling(name, self._order[0])

    # --- Enumeration --------------------------------------------------------------------------

    def _ranked(
        self, corpus: Corpus, k: int, n: int, budget: int
    ) -> tuple[list[tuple[float, list[Ints]]], float]:
        """Return the n best labellings of the tapes from k on, and a bound on the others."""
        stage = self._solver.stages[k]
        given = stage.given(corpus)
        normaliser = stage.weight * float(stage.log_z(given)[0])
        bound = stage.legal_bound(given)
        if k == len(self._solver.stages) - 1:
            ranked = kernel.nbest_paths(bound, n)
            count = int(ranked.found[0])
            scores = (ranked.score[0, :count] - normaliser).tolist()
            last = [[stage.labels(path)] for path in ranked.path[:count]]
            return list(zip(scores, last, strict=True)), -np.inf
        gain = float(self._solver.gain(k, np.asarray([len(self)]))[0])
        found: list[tuple[float, list[Ints]]] = []
        inner_bound, seen, wanted = -np.inf, 0, max(2, n)
        while True:
            ranked = kernel.nbest_paths(bound, wanted + 1)
            scores = ranked.score[0] - normaliser
            for number in range(seen, min(wanted, int(ranked.found[0]))):
                floor = found[n - 1][0] if len(found) >= n else -np.inf
                if scores[number] + gain <= floor:
                    return found[:n], inner_bound
                ids = stage.labels(ranked.path[number])
                inner, rest = self._ranked(with_tape(corpus, stage.tagger, ids), k + 1, n, budget)
                found += [(float(scores[number]) + total, [ids, *tail]) for total, tail in inner]
                found.sort(key=lambda item: -item[0])
                del found[n:]
                inner_bound = max(inner_bound, float(scores[number]) + rest)
            reach = float(scores[wanted] + gain)
            floor = found[n - 1][0] if len(found) >= n else -np.inf
            if reach <= floor or reach == -np.inf:
                return found, inner_bound
            if wanted >= budget:
                return found, max(reach, inner_bound)
            seen, wanted = wanted, min(2 * wanted, budget)

    def _stage_score(self, stage: Stage, corpus: Corpus, mine: Ints) -> float:
        given = stage.given(corpus)
        normaliser = stage.weight * float(stage.log_z(given)[0])
        node = np.where(stage.tagger.topology.state_label == mine[:, None], given.node, -np.inf)
        pinned = type(given)(given.offsets, node, given.arc, given.fixed)
        _, score = kernel.best_paths(stage.legal_bound(pinned))
        return float(score[0]) - normaliser

    def _named(self, ids: dict[str, Ints]) -> tuple[tuple[str, ...], ...]:
        return tuple(
            tuple([tagger.labels[i] for i in ids[tagger.tape].tolist()]) if ids else ()
            for tagger in self.composition.taggers
        )

    def _check_plain(self, what: str) -> None:
        composition = self.composition
        if composition.conjuncts or any(weight != 1.0 for weight in composition.weights):
            raise OptionError(
                f"{what} of normalize='chain' needs weights of 1 and no grammar: labellings do "
                "not sum to one otherwise. normalize='product' has it"
            )


def _sampling(what: str, first: str) -> NoReturn:
    raise OptionError(
        f"normalize='chain' is no transducer and has no {what}: estimate it from sample(n), ask "
        f"for the first tape ({first!r}), or compose with normalize='product'"
    )
