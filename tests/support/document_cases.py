"""Documents whose labellings can all be written out, and chains of samples beside them."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.special import logsumexp
from scipy.stats import chisquare

import fstcrf
from fstcrf.ext.documents import Consistency, Document, DocumentChain, Fields
from fstcrf.ext.documents.sampler import Sweeps
from fstcrf.ext.documents.scores import LocalScores
from fstcrf.text.corpus import Corpus


def document_of(*sentences: str) -> Document:
    return Document(Corpus.from_sentences([{"word": s.split()} for s in sentences]))


class Exact:
    """A document whose labellings can all be written out."""

    def __init__(
        self,
        document: Document,
        lattices: Sequence[fstcrf.Lattice],
        model: Consistency | Fields | None,
    ) -> None:
        self.document, self.local, self.model = document, LocalScores.of(lattices), model
        per_sentence = [
            [(p.labels, p.score) for p in lattice.nbest(10_000)] for lattice in lattices
        ]
        self.score = {}
        for parts in itertools.product(*per_sentence):
            labels = tuple(label for part, _ in parts for label in part)
            beyond = 0.0 if model is None else model.score(document, labels)
            self.score[labels] = sum(score for _, score in parts) + beyond

    def probabilities(self, temperature: float = 1.0) -> dict[tuple[str, ...], float]:
        scores = np.array(list(self.score.values())) / temperature
        p = np.exp(scores - logsumexp(scores))
        return dict(zip(self.score, p.tolist(), strict=True))

    def chain(self, seed: int = 0) -> DocumentChain:
        models = () if self.model is None else (self.model,)
        return DocumentChain(self.document, self.local, models, tapes=("label",), seed=seed)


def drawn(
    chain: DocumentChain, n: int, kind: Sweeps, temperature: float, apart: int = 40
) -> Counter[tuple[str, ...]]:
    # So far apart, samples are nearly independent.
    found: Counter[tuple[str, ...]] = Counter()
    for _ in range(n):
        chain.sweep(np.full(apart, temperature), kind)
        found[tuple(names[0] for names in chain.labels())] += 1
    return found


def p_value(found: Counter[Any], wanted: dict[Any, float]) -> float:
    """Return Pearson's of how often each came; those that are expected rarely count as one."""
    n = found.total()
    assert set(found) <= set(wanted)
    often = [labels for labels, p in wanted.items() if p * n >= 5]
    f = [found[labels] for labels in often]
    w = [wanted[labels] * n for labels in often]
    f.append(n - sum(f))
    w.append(n - sum(w))
    if w[-1] < 5 and len(w) > 1:
        f, w = f[:-1], [x * sum(f[:-1]) / sum(w[:-1]) for x in w[:-1]]
    return float(chisquare(f, w, sum_check=False).pvalue) if len(f) > 1 else 1.0
