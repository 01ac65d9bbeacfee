"""Sweeps of Gibbs sampling over a document, in the kernel.

==========  ================================================================
Labelling   which label a state has, and which state follows from a label
Chain       where a chain of samples stands
Gibbs       a document: potentials, labelling, agreement; it sweeps
==========  ================================================================
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fstcrf.errors import NoPathError, OptionError, ShapeError
from fstcrf.kernel.agreement import Agreement, agreement_view
from fstcrf.kernel.graphs import Graph, _Call, viterbi
from fstcrf.kernel.native import array_in, check, ffi, lib

__all__ = ["Chain", "Gibbs", "Labelling"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]


@dataclass(frozen=True, eq=False, slots=True)
class Labelling:
    """Which label a state has, and which state follows from a label.

    Parameters
    ----------
    label : int32 [S]
    following : int32 [S + 1, L]
        State after (state, label), −1 where there is none; row S at the beginning of a sentence.
    """

    label: Ints
    following: Ints

    @property
    def n_labels(self) -> int:
        """Number of labels, L."""
        return int(self.following.shape[1])


@dataclass(slots=True, eq=False)
class Chain:
    """Where a chain of samples stands.

    Parameters
    ----------
    path : int32 [N]
        States, changed in place.
    best : int32 [N]
        The best so far: those before the first sweep, or after one of the sweeps.
    best_score : float
    """

    path: Ints
    best: Ints
    best_score: float = -np.inf


class Gibbs:
    """A document that is swept over; one thread at a time.

    Parameters
    ----------
    graph : Graph
        Dense.
    offsets : int64 [B + 1]
        Sentences, none of them empty.
    node : float64 [N, S]
    labelling : Labelling
    agreement : Agreement, optional
        Without it sentences do not depend on each other.

    Raises
    ------
    ShapeError
        Sizes that disagree, or a sparse graph.
    NumericError
        NaN or +inf.
    """

    def __init__(
        self,
        graph: Graph,
        offsets: NDArray[np.int64],
        node: Floats,
        labelling: Labelling,
        agreement: Agreement | None = None,
    ) -> None:
        if graph.source is not None:
            raise ShapeError("the graph is sparse, expected a dense one")
        self.graph, self.offsets, self.node, self.labelling = graph, offsets, node, labelling
        self._call = _Call(graph, offsets, node)
        states, labels = graph.n_states, labelling.n_labels
        memory = [
            array_in(labelling.label, np.int32, (states,), "label"),
            array_in(labelling.following, np.int32, (states + 1, labels), "following"),
        ]
        self._labelling = ffi.new(
            "fc_labelling *", {"L": labels, "label": memory[0], "next": memory[1]}
        )
        self._memory = [memory]
        self._agreement, arrays = agreement_view(agreement, labels, int(offsets[-1]))
        self._memory.append(arrays)
        longest = int(np.diff(offsets).max(initial=0))
        size = lib.fc_gibbs_work(self._call.graph, self._labelling, longest)
        self._work = ffi.from_buffer("double[]", np.empty(size))

    @property
    def n_draws(self) -> int:
        """Uniform numbers of a sweep: one for each token and each sentence."""
        return int(self.offsets[-1]) + len(self.offsets) - 1

    def viterbi(self) -> Ints:
        """Return the best states by the graph alone, int32 [N].

        Raises
        ------
        NoPathError
            A sentence has no legal label sequence.
        """
        path, score = viterbi(self.graph, self.offsets, self.node)
        dead = np.flatnonzero(np.isneginf(score))
        if len(dead):
            raise NoPathError("no label sequence is legal", sentence=int(dead[0]))
        return path

    def sweep(
        self, chain: Chain, temperatures: Floats, whole: NDArray[np.bool_], uniform: Floats
    ) -> Floats:
        """Sweep over the document, changing a chain in place.

        Parameters
        ----------
        chain : Chain
        temperatures : float64 [n]
            Of each sweep; at 0 the best label is taken.
        whole : bool [n]
            Sweeps that draw whole sentences rather than tokens.
        uniform : float64 [n, draws]
            In [0, 1).

        Returns
        -------
        float64 [n]
            The score of the document after each sweep.
        """
        n, tokens = len(temperatures), int(self.offsets[-1])
        if not (np.isfinite(temperatures).all() and (temperatures >= 0).all()):
            raise OptionError("temperatures must be finite and at least 0")
        score = np.empty(n)
        best = ffi.new("double *", chain.best_score)
        kinds = np.ascontiguousarray(whole, dtype=np.uint8)
        where = ffi.new("int64_t *")
        status = lib.fc_gibbs(
            self._call.graph,
            self._call.batch,
            self._labelling,
            self._agreement,
            n,
            array_in(temperatures, np.float64, (n,), "temperatures"),
            array_in(kinds, np.uint8, (n,), "whole"),
            array_in(uniform, np.float64, (n, self.n_draws), "uniform"),
            array_in(chain.path, np.int32, (tokens,), "path", writable=True),
            array_in(score, np.float64, (n,), "score", writable=True),
            array_in(chain.best, np.int32, (tokens,), "best", writable=True),
            best,
            self._work,
            where,
        )
        check(status, "gibbs", where[0])
        chain.best_score = best[0]
        return score
