"""Best labels and probabilities of one sequence at a time.

========  ================================================
Decoder   the weights of a tagger, laid out for a sequence
========  ================================================

Of several best labellings CRFsuite takes the one with the smaller label at the latest token where
they differ, the kernel that at the earliest. So best paths are found in the mirror image: the
sequence from its end, the transitions transposed.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fstcrf import kernel
from fstcrf.compat.pycrfsuite.lookup import Attributes
from fstcrf.kernel.single import Single
from fstcrf.model import CRF

__all__ = ["Decoder"]

Floats = NDArray[np.float64]


class Decoder:
    """The weights of a tagger of order 1, laid out for one sequence at a time.

    Parameters
    ----------
    crf : CRF
        As `fstcrf.load_crfsuite` makes it: all transitions, nothing at the ends.
    """

    def __init__(self, crf: CRF) -> None:
        space, graph = crf.space, crf.weights.still_graph
        weights = space.parts(crf.theta)[0]
        # One row more than attributes, for those that are unknown.
        table = kernel.PackedTable.from_cells(
            space.n_node_rows + 1, space.width, space.node_cells, weights
        )
        self._table = graph.score.reshape(graph.n_states, -1)
        mirrored = np.ascontiguousarray(self._table.T).ravel()
        self._single = Single(table, graph)
        self._mirrored = Single(table, kernel.Graph(graph.final, graph.initial, mirrored))

    def potentials(self, rows: Attributes) -> Floats:
        """Return the potentials of labels, natural-log scores, float64 [T, L]."""
        return self._single.potentials(*rows)

    def best(self, node: Floats) -> list[int]:
        """Return the numbers of the best labels.

        Parameters
        ----------
        node : float64 [T, L]
            Potentials of a sequence that is not empty.
        """
        found: list[int] = self._mirrored.viterbi(np.ascontiguousarray(node[::-1])).tolist()
        found.reverse()
        return found

    def posterior(self, node: Floats) -> tuple[float, Floats]:
        """Return log Z and the probabilities of labels, float64 [T, L]; arguments as for `best`."""
        return self._single.forward_backward(node)

    def score(self, node: Floats, labels: NDArray[np.int64]) -> float:
        """Return the score of a labelling, natural log.

        Parameters
        ----------
        node : float64 [T, L]
        labels : int64 [T]
        """
        transitions = self._table[labels[:-1], labels[1:]].sum()
        return float(node[np.arange(len(labels)), labels].sum() + transitions)
