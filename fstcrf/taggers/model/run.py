"""A run of training, from what it is told to the model with its record.

Text in memory (`training`) and text in parts (`distributed`) come to weights in ways of their own.
What the call says (`TrainingCall`), what the text has come to (`Ready`), and what surrounds the
optimiser, held-out scores, the checkpoint and the record (`Fitting`), are the same for both.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from fstcrf.arrays import Floats
from fstcrf.errors import DataError, MemoryWarning
from fstcrf.evaluate.labellings import warn_of_unseen
from fstcrf.taggers.model.crf import CRF, TrainingRecord
from fstcrf.taggers.model.options import Options
from fstcrf.taggers.model.source import Target, held_out_labels, held_out_score
from fstcrf.taggers.model.structure import run_fingerprint
from fstcrf.taggers.reading import UNKNOWN, Data, alternatives
from fstcrf.text.corpus.collection import CorpusFiles
from fstcrf.text.corpus.schemes import has_spans
from fstcrf.text.features import FeatureFunction, TemplateSet
from fstcrf.training import Checkpoint, Optimiser, Outcome, Progress, fit
from fstcrf.training.executors.executor import Executor
from fstcrf.training.memory import ExpectedMemory, expected, release

if TYPE_CHECKING:
    from fstcrf.machines.grammar import Grammar


@dataclass(frozen=True, kw_only=True)
class TrainingCall:
    """What a call of `train_crf` says; its options are `settings`."""

    data: Data | CorpusFiles
    target: Target
    template: TemplateSet | str | os.PathLike[str] | FeatureFunction | None
    tape: str
    settings: Options
    partial: bool | None  # as given; `settings` have what was decided
    dev: Data | None
    dev_target: Sequence[Sequence[str]] | None
    reads: Sequence[CRF]
    grammar: Grammar | None
    weights: Sequence[float] | Floats | None
    class_weights: Mapping[str, float] | None
    warm_start: CRF | None
    threads: int
    report: Callable[[Progress], None] | None
    expect: Callable[[ExpectedMemory], None] | None
    checkpoint: str | os.PathLike[str] | None
    checkpoint_every: int | None
    resume: bool
    keep_on_interrupt: bool
    executor: Executor | None
    memory_limit: int | None

    def held_out_labels(self) -> list[list[str]] | None:
        """Return the labels of held-out sentences, if there are any."""
        return held_out_labels(self.dev, self.dev_target, self.target, self.settings)

    def tell_memory(self, added: int | None, weights: int) -> None:
        """Tell what memory is expected to be taken; warn where there is not so much."""
        found = expected(added, weights)
        if found is None:
            return
        if self.expect is not None:
            self.expect(found)
        if not found.fits:
            warnings.warn(str(found), MemoryWarning, stacklevel=5)


def check_held_out(gold: list[list[str]] | None, labels: Sequence[str], settings: Options) -> None:
    """Refuse held-out sentences that cannot tell one model from another; warn of unseen labels."""
    given = {label for own in gold or [] for label in own}
    if given and has_spans(labels) and not has_spans(given):
        raise DataError(
            "the held-out data has no gold segment, so F cannot be computed on it to "
            "choose an iteration"
        )
    known = set(labels)
    if settings.reads_sets:
        known |= {UNKNOWN, *(label for label in given if alternatives(label, labels))}
    if given and not given - {UNKNOWN} and UNKNOWN in known.difference(labels):
        raise DataError("the held-out data holds no label: each of its tokens has '_'")
    warn_of_unseen(gold or [], known, "labels of the held-out data", stacklevel=5)


@dataclass(frozen=True, kw_only=True)
class Ready:
    """What a text has come to.

    Parameters
    ----------
    start : CRF
        Topology, attributes and tapes, with the weights to start from.
    sentences, tokens : int
        How many are trained on.
    parts : sequence of bytes
        Hashes of the parts of the data.
    gold : list of lists of str, optional
        Labels of held-out sentences.
    reads : sequence of CRF
        Earlier taggers in the order in which they tag.
    """

    start: CRF
    sentences: int
    tokens: int
    parts: Sequence[bytes]
    gold: list[list[str]] | None
    reads: Sequence[CRF] = ()


class Fitting:
    """The optimiser of a run at work: held-out scores, checkpoint and record."""

    def __init__(self, run: TrainingCall, ready: Ready) -> None:
        self._run, self._ready = run, ready
        self._evaluate, self._state = None, None
        start, gold = ready.start, ready.gold
        if gold is not None and run.dev is not None:
            partial = run.settings.reads_sets
            self._evaluate = held_out_score(
                self._model, run.dev, gold, ready.reads, run.threads, partial=partial
            )
        self._fingerprint = run_fingerprint(
            run.settings, ready.parts, start.space, start.theta, gold
        )
        if run.checkpoint is not None:
            every, resume = run.checkpoint_every, run.resume
            self._state = Checkpoint(
                run.checkpoint, fingerprint=self._fingerprint, every=every, resume=resume
            )

    def model(self, optimiser: Callable[[], Optimiser]) -> CRF:
        """Return the model that the optimiser comes to."""
        run, made = self._run, optimiser()
        release()
        outcome = fit(
            made,
            max_iterations=run.settings.method.max_iterations,
            evaluate=self._evaluate,
            patience=run.settings.patience,
            report=run.report,
            checkpoint=self._state,
            keep_on_interrupt=run.keep_on_interrupt,
        )
        del made  # its vectors
        return replace(self._model(outcome.theta), record=self._record(outcome))

    def _model(self, theta: Floats) -> CRF:
        return replace(self._ready.start, theta=theta)

    def _record(self, outcome: Outcome) -> TrainingRecord:
        run, ready = self._run, self._ready
        index = ready.start.index
        return TrainingRecord(
            options=run.settings.named(),
            sentences=ready.sentences,
            tokens=ready.tokens,
            attributes=index.n_node_rows + index.n_arc_rows,
            parameters=ready.start.space.size,
            iterations=outcome.iterations,
            best_iteration=outcome.best_iteration,
            objective=outcome.value,
            dev_score=outcome.dev,
            reason=outcome.reason,
            interrupted=outcome.interrupted,
            run=self._fingerprint,
            target=run.target if isinstance(run.target, str) else None,
            grammar=None if run.grammar is None else str(run.grammar),
            class_weights={label: float(w) for label, w in (run.class_weights or {}).items()},
        )
