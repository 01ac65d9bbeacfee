"""The accuracy of a pipeline on text with gold labels, for each way to decide."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fstcrf.arguments import string_lists
from fstcrf.arrays import Ragged
from fstcrf.errors import InexactWarning, OptionError
from fstcrf.evaluate import evaluate_spans
from fstcrf.evaluate.labellings import warn_of_unseen
from fstcrf.ext.pipelines.trained import Decode, TrainedPipeline
from fstcrf.taggers.batches import surrounded
from fstcrf.text.corpus import Corpus
from fstcrf.text.corpus.batches import batches
from fstcrf.text.corpus.schemes import has_spans


@dataclass(frozen=True, slots=True)
class PipelineScore:
    """The results of one way to decide.

    Parameters
    ----------
    decode : {"cascade", "marginals", "joint", "product", "chain"}
    accuracy : dict of str to float
        Share of right tokens, for each task with gold labels.
    spans : dict of str to float
        F of the spans, as conlleval counts them, of the tasks whose gold labels are spans.
    together : float
        Share of tokens that are right for all of these tasks.
    sentences : float
        Share of sentences that are right throughout.
    unproven : int
        Sentences whose labels are the best found, not proven to be the best.
    seconds : float
        Of the wall clock, labels of all tasks decided.
    """

    decode: Decode
    accuracy: dict[str, float]
    spans: dict[str, float]
    together: float
    sentences: float
    unproven: int
    seconds: float


def score_pipeline(
    pipeline: TrainedPipeline,
    corpus: Corpus,
    gold: Mapping[str, str | Sequence[Sequence[str]]],
    *,
    decode: Decode | None = None,
    threads: int = 1,
    told: Callable[[int], None] = lambda _: None,
    together: int = 1 << 40,
) -> PipelineScore:
    """Decode a corpus and compare the labels with gold.

    Parameters
    ----------
    pipeline : TrainedPipeline
    corpus : Corpus
    gold : mapping of str to str or sequence of sequences of str
        For some tasks, the column of their gold labels, or the labels of each sentence.
    decode : {"cascade", "marginals", "joint", "product", "chain"}, optional
        Otherwise than the pipeline usually tags.
    threads : int
    told : callable
        Called with the number of sentences that have been decided since the last time.
    together : int
        Approximate number of tokens that are decided together, and between reports.

    Raises
    ------
    OptionError
        No task, or one that the pipeline does not have.
    DataError, NoPathError
        As `TrainedPipeline.decode`.
    """
    odd = [tape for tape in gold if tape not in pipeline.tapes]
    if odd or not gold:
        wanted = f"no task {odd[0]!r}" if odd else "gold labels of no task"
        raise OptionError(f"{wanted}; the tasks are {', '.join(pipeline.tapes)}")
    corpus = surrounded(pipeline.composition, corpus)
    begun, unproven = time.perf_counter(), 0
    answered: dict[str, list[list[str]]] = {tape: [] for tape in gold}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InexactWarning)  # they are counted
        for run in batches(corpus, together):
            answer = pipeline.decode(run, decode=decode, threads=threads)
            unproven += int((~answer.exact).sum())
            for tape in gold:
                answered[tape] += answer[tape].labels(0)
            told(len(run))
    spent = time.perf_counter() - begun
    right = np.ones(corpus.n_tokens, dtype=bool)
    accuracy, spans = {}, {}
    for tape, given in gold.items():
        wanted_labels = (
            corpus.column_lists(given)
            if isinstance(given, str)
            else string_lists(given, "gold label")
        )
        found, what = answered[tape], f"gold labels of {tape}"
        warn_of_unseen(wanted_labels, pipeline.label_sets[tape], what)
        flat = [np.asarray(_flat(labels), dtype=object) for labels in (wanted_labels, found)]
        mine = flat[0] == flat[1]
        right &= mine
        accuracy[tape] = float(mine.mean()) if len(mine) else 1.0
        if has_spans(set(flat[0].tolist())):
            spans[tape] = evaluate_spans(wanted_labels, found).f
    tokens = Ragged(corpus.offsets)
    sentences = tokens.filtered(~right).lengths[tokens.lengths > 0] == 0
    return PipelineScore(
        decode or pipeline.way,
        accuracy,
        spans,
        float(right.mean()) if len(right) else 1.0,
        float(sentences.mean()) if len(sentences) else 1.0,
        unproven,
        spent,
    )


def _flat(sentences: Sequence[Sequence[str]]) -> list[str]:
    return [label for sentence in sentences for label in sentence]
