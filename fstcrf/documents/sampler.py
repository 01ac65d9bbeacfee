"""Sampling a document: chains of sweeps, in the kernel or, for models written in Python, here.

=============  ==========================================================
DocumentChain  the state of one chain: sweeps, labels, scores
=============  ==========================================================
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fstcrf.documents.agreement import agreement, in_kernel
from fstcrf.documents.document import Document
from fstcrf.documents.local import LocalScores
from fstcrf.documents.options import one_of
from fstcrf.documents.reading import tape_of
from fstcrf.documents.scored import Scored
from fstcrf.documents.starts import Start, starts
from fstcrf.documents.violations import ViolationModel
from fstcrf.kernel.gibbs import Chain, Gibbs

__all__ = ["DocumentChain", "Sweeps"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]
Sweeps: TypeAlias = Literal["token", "sentence", "mixed"]

_DRAWS = 200_000  # uniform numbers that are there at a time


class DocumentChain:
    """One chain of samples of a document's labels.

    Parameters
    ----------
    document : Document
        With at least one token.
    local : LocalScores
        What the tagger says of it.
    models : sequence of ViolationModel
        What is said across sentences; without any the tagger decides alone.
    tapes : tuple of str
        Names of the tapes.
    start : {"viterbi", "random"}
        The first labels: the tagger's best ones, or drawn uniformly among those that it allows.
        Where models forbid them (−inf), others; see `starts`.
    seed : int or sequence of int
        Of numpy's default generator.

    Attributes
    ----------
    path, best : int32 [N]
        Joint states now, and the best so far: the start, or those after a sweep.
    best_score : float

    Raises
    ------
    NoPathError
        A sentence has no legal label sequence.
    NumericError
        A model returned NaN or +inf, or −inf for every start.
    OptionError
        A model reads none of the tapes, or what it returned lacks a method or is no number.
    """

    def __init__(
        self,
        document: Document,
        local: LocalScores,
        models: Sequence[ViolationModel] = (),
        *,
        tapes: tuple[str, ...],
        start: Start = "viterbi",
        seed: int | Sequence[int] = 0,
    ) -> None:
        one_of("start", start, Start)
        self.document, self.local = document, local
        self._random = np.random.default_rng(seed)
        quick, agreed = in_kernel(models), None
        if quick and models:
            tape = tapes.index(tape_of(models[0], tapes))
            agreed = agreement(models, document, [names[tape] for names in local.names])
        gibbs = Gibbs(local.graph, document.offsets, local.node, local.labelling, agreed)
        paths = starts(local, document, gibbs.viterbi(), start, self._random)
        self._engine: Gibbs | Scored = gibbs
        if quick:
            path = next(paths)
        else:
            read = [tapes.index(tape_of(model, tapes)) for model in models]
            self._engine = Scored(document, local, models, read)
            path = self._engine.begin(paths)
        self.chain = Chain(path, path.copy())

    @property
    def best_score(self) -> float:
        """Score of the best labels so far: the tagger's and the models', not normalised."""
        return self.chain.best_score

    def sweep(self, temperatures: Floats, kind: Sweeps = "mixed") -> Floats:
        """Sweep over the document.

        Parameters
        ----------
        temperatures : float64 [n]
            Of each sweep.
        kind : {"token", "sentence", "mixed"}
            What is drawn at once; mixed: sentences in every second sweep, the first among them.

        Returns
        -------
        float64 [n]
            The score after each sweep.
        """
        one_of("sweeps", kind, Sweeps)
        n = len(temperatures)
        number = np.arange(n)
        whole = number % 2 == 0 if kind == "mixed" else np.full(n, kind == "sentence")
        if n and kind == "mixed":
            whole[-1] = False  # at the end each token is looked at
        draws = len(self.document) + len(self.document.offsets) - 1
        run = max(1, _DRAWS // draws)  # memory does not grow with the number of sweeps
        scores = [
            self._engine.sweep(
                self.chain,
                np.ascontiguousarray(temperatures[k : k + run], dtype=np.float64),
                whole[k : k + run],
                self._random.random((len(temperatures[k : k + run]), draws)),
            )
            for k in range(0, n, run)
        ]
        return np.concatenate(scores) if scores else np.zeros(0)

    def labels(self, *, best: bool = False) -> list[tuple[str, ...]]:
        """Return the labels of all tapes, for each token."""
        path = self.chain.best if best else self.chain.path
        names, label = self.local.names, self.local.labelling.label
        return [names[k] for k in label[path].tolist()]
