"""Held-out data: its labels, and how well a tagger does on it.

================  ==========================================
held_out_labels   gold labels of the held-out sentences
has_spans         are these labels those of spans
held_out_score    weights → score
================  ==========================================
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fstcrf.corpus import Corpus
from fstcrf.errors import OptionError
from fstcrf.evaluate import evaluate_spans, evaluate_tokens
from fstcrf.model.crf import CRF
from fstcrf.model.gold import in_scheme
from fstcrf.model.jackknife import with_labels
from fstcrf.model.options import Options
from fstcrf.model.source import Target

__all__ = ["has_spans", "held_out_labels", "held_out_score"]

Floats = NDArray[np.float64]


def held_out_labels(
    dev: Any,
    dev_target: Sequence[Sequence[str]] | None,
    target: Target,
    settings: Options | None = None,
) -> list[list[str]] | None:
    """Return the labels of held-out sentences; None where there are no sentences.

    Labels of another scheme are converted; those that break it are read as conlleval does, which
    scores them.

    Raises
    ------
    OptionError
        The labels are neither a column nor given.
    """
    if dev is None:
        return None
    if isinstance(target, str):
        data = dev if isinstance(dev, Corpus) else Corpus.from_sentences(dev)
        return in_scheme(data.column_lists(target), settings)
    if dev_target is None:
        raise OptionError("dev needs dev_target: the labels of each of its sentences")
    return in_scheme([list(labels) for labels in dev_target], settings)


def has_spans(labels: Iterable[str]) -> bool:
    """Are there labels of spans, in IOB or a scheme that refines it."""
    return any(label[:2] in {"B-", "I-"} for label in labels)


def held_out_score(
    model: Callable[[Floats], CRF],
    dev: Any,
    gold: list[list[str]],
    reads: Sequence[CRF],
    threads: int,
) -> Callable[[Floats], float]:
    """Return weights → F of spans where labels are spans, else accuracy, on held-out sentences.

    Parameters
    ----------
    model : callable
        Weights → tagger.
    dev, gold
        The sentences and their labels.
    reads : sequence of CRF
        Earlier taggers, in the order in which they tag.
    threads : int
    """
    data = dev
    if reads:
        data = dev if isinstance(dev, Corpus) else Corpus.from_sentences(dev)
        data = with_labels(data, reads, threads=threads)
    spans = has_spans(label for labels in gold for label in labels)

    def score(theta: Floats) -> float:
        predicted = model(theta).tag_all(data, threads=threads)
        if spans:
            return evaluate_spans(gold, predicted).f
        return evaluate_tokens(gold, predicted).accuracy

    return score
