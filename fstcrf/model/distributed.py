"""Training over the parts of a text, by an executor or within a limit of memory."""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fstcrf import kernel
from fstcrf.arguments import real_array
from fstcrf.arrays import Floats
from fstcrf.corpus import Corpus
from fstcrf.corpus.collection import CorpusFiles
from fstcrf.errors import DataError, LabelWarning, MemoryWarning, OptionError
from fstcrf.executors.executor import Executor, LocalExecutor
from fstcrf.features import FeatureIndex, LiteralIndex, is_literal
from fstcrf.features.template import TemplateSet, as_templates
from fstcrf.model.model import Model, TrainingRecord
from fstcrf.model.options import Options
from fstcrf.model.reading import Data
from fstcrf.model.source import Target, check_template, has_spans, held_out_labels, held_out_score
from fstcrf.model.spread import Gathered, gathered
from fstcrf.model.structure import run_fingerprint
from fstcrf.train import Checkpoint, Outcome, ParameterSpace, Progress, fit
from fstcrf.train.lbfgs import LBFGSSettings
from fstcrf.train.likelihood import LikelihoodSettings
from fstcrf.train.loop import saved_variant
from fstcrf.train.memory import ExpectedMemory, expected, release
from fstcrf.train.parts import PART_TOKENS, start_step

if TYPE_CHECKING:
    from fstcrf.grammar import Grammar

_TARGET = "%gold"
_TOKEN_BYTES = 150  # of a part that is read
_ENTRY_BYTES = 30  # of an attribute of a token that is laid out
_BLOCK = 1 << 16  # tokens that are laid out together
LEAST = 256 << 20
"""Bytes that a limit of memory must leave for the work on a part."""


@dataclass(frozen=True)
class SpreadRun:
    """What a run over parts is told; fields as the arguments of `train_crf`."""

    data: Data | CorpusFiles
    target: Target
    template: TemplateSet | str | os.PathLike[str] | None
    tape: str
    settings: Options
    dev: Data | None
    dev_target: Sequence[Sequence[str]] | None
    grammar: Grammar | None
    weights: Sequence[float] | Floats | None
    class_weights: Mapping[str, float] | None
    threads: int
    report: Callable[[Progress], None] | None
    expect: Callable[[ExpectedMemory], None] | None
    checkpoint: str | os.PathLike[str] | None
    checkpoint_every: int | None
    resume: bool
    keep_on_interrupt: bool
    executor: Executor | None
    memory_limit: int | None


def train_spread(run: SpreadRun, reads: Sequence[Model], warm_start: Model | None) -> Model:
    """Train a CRF on parts of a text.

    OptionError: what needs the text in memory.
    """
    method = _checked(run, reads, warm_start)
    data, target = _data(run)
    settings, templates = run.settings, as_templates(run.template or "")
    check_template(templates, target, reads)
    gold = held_out_labels(run.dev, run.dev_target, run.target, settings)
    executor = run.executor or LocalExecutor()
    weights = run.weights
    with _variant(executor, run):
        found = gathered(
            data,
            target,
            templates,
            executor,
            settings=settings,
            grammar=run.grammar,
            weights=None if weights is None else real_array(weights, "weights", error=DataError),
            class_weights=run.class_weights,
            folder=None if run.memory_limit is None else tempfile.gettempdir(),
            threads=run.threads,
            part_threads=run.threads if isinstance(executor, LocalExecutor) else 1,
        )
        if found.note:
            warnings.warn(found.note, LabelWarning, stacklevel=4)
        if gold and has_spans(found.labels) and not any(map(has_spans, gold)):
            raise DataError(
                "the held-out data has no gold segment: its F cannot choose an iteration"
            )
        _check_limit(run, found, method)
        return _fitted(run, found, method, gold)


def _checked(run: SpreadRun, reads: Sequence[Model], warm_start: Model | None) -> LBFGSSettings:
    """Refuse what is not done over parts; return the settings of the method."""
    settings, where = run.settings, "an executor or a limit of memory"
    method = settings.method
    if not isinstance(settings.objective, LikelihoodSettings):
        raise OptionError(
            f"objective {settings.objective.name!r} needs all of the text in memory, "
            f"without {where}"
        )
    if not isinstance(method, LBFGSSettings):
        raise OptionError(
            f"method {method.name!r} needs all of the text in memory, as its steps follow each "
            f"other: with {where} train by 'lbfgs'"
        )
    for name, given in (("reads", bool(reads)), ("warm_start", warm_start is not None)):
        if given:
            raise OptionError(f"{name} needs all of the text in memory, without {where}")
    if run.template is None:
        raise OptionError(f"with {where} training needs columns and a feature template")
    if run.memory_limit is not None and run.memory_limit < LEAST:
        raise OptionError(
            f"a memory limit of {_size(run.memory_limit)}: the work on one part "
            f"takes up to {_size(LEAST)}, beside index and weights"
        )
    return method


def _size(bytes_: float) -> str:
    """Return a number of bytes in the largest unit of which there is at least one."""
    for shift, unit in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if bytes_ >= 1 << shift:
            return f"{bytes_ / (1 << shift):.4g} {unit}"
    return f"{bytes_:.0f} bytes"


def _check_limit(run: SpreadRun, found: Gathered, method: LBFGSSettings) -> None:
    """Refuse a limit of memory that the work on a part, or on the start, does not keep."""
    if run.memory_limit is None:
        return
    counts = found.evidence.counts
    each = counts.entries / max(1, counts.tokens)
    needed = _TOKEN_BYTES * min(counts.tokens, PART_TOKENS) + _ENTRY_BYTES * each * _BLOCK
    if method.epochs(found.evidence):
        start = counts.tokens / start_step(counts.tokens)
        needed = max(needed, _ENTRY_BYTES * each * start)
    if needed > run.memory_limit:
        raise OptionError(
            f"a memory limit of {_size(run.memory_limit)}: the work on a part, or the epochs "
            f"that training starts with (stochastic_epochs), takes about {_size(needed)} "
            "beside index and weights"
        )


def _data(run: SpreadRun) -> tuple[CorpusFiles | Corpus, str]:
    """Return the text, and the column of its labels."""
    data, target = run.data, run.target
    if isinstance(data, CorpusFiles):
        if not isinstance(target, str):
            raise OptionError("the labels of files are a column: name it by target=")
        return data, target
    if not isinstance(data, Corpus):
        first = next((sentence for sentence in data if len(sentence)), None)
        if first is not None and is_literal(first):
            raise OptionError("attribute lists are trained on in memory, without an executor")
        data = Corpus.from_sentences(data)
    if isinstance(target, str):
        return data, target
    if len(target) != len(data):
        raise DataError(f"labels of {len(target)} sentences for {len(data)}")
    return data.with_column(_TARGET, target), _TARGET


@contextmanager
def _variant(executor: Executor, run: SpreadRun) -> Iterator[None]:
    """Let all workers compute by one variant of the kernel, on resuming by the same as before."""
    usual, known = kernel.variant(), executor.variants()
    if not known:
        raise OptionError("the workers have no variant of the kernel in common")
    best = known[-1] if run.executor is not None or usual not in known else usual
    before = saved_variant(run.checkpoint) if run.resume and run.checkpoint is not None else None
    if before is not None and before not in known:
        raise OptionError(
            f"the run was begun with kernel variant {before!r}, which not all workers have: they "
            f"have {', '.join(known)}"
        )
    executor.use(before or best)
    try:
        yield
    finally:
        kernel.use(usual)


def _fitted(
    run: SpreadRun, found: Gathered, method: LBFGSSettings, gold: list[list[str]] | None
) -> Model:
    """Train on what was gathered."""
    settings, space = run.settings, found.space
    theta = np.zeros(space.size)
    columns = tuple(name for name in found.columns if not name.startswith("%"))

    def model(weights: Floats, record: TrainingRecord | None = None) -> Model:
        return Model(space.topology, found.index, space, weights, run.tape, columns, (), record)

    evaluate = None
    if gold is not None and run.dev is not None:
        evaluate = held_out_score(model, run.dev, gold, (), run.threads)
    _tell_memory(run, found, method)
    digests = [part.digest for part in found.facts]
    fingerprint = run_fingerprint(settings, digests, space, theta, gold)
    state = None
    if run.checkpoint is not None:
        state = Checkpoint(
            run.checkpoint,
            fingerprint=fingerprint,
            every=run.checkpoint_every,
            resume=run.resume,
        )
    optimiser = method.course(found.evidence, theta, seed=settings.seed, threads=run.threads)
    release()
    try:
        outcome = fit(
            optimiser,
            max_iterations=method.max_iterations,
            evaluate=evaluate,
            patience=settings.patience,
            report=run.report,
            checkpoint=state,
            keep_on_interrupt=run.keep_on_interrupt,
        )
    finally:
        found.evidence.close()
    weights = {label: float(w) for label, w in (run.class_weights or {}).items()}
    about = {
        "run": fingerprint,
        "target": run.target if isinstance(run.target, str) else None,
        "grammar": None if run.grammar is None else str(run.grammar),
        "class_weights": weights,
    }
    counts = found.evidence.counts
    size = counts.sentences, counts.tokens
    return model(outcome.theta, record_of_run(settings, size, found.index, space, outcome, about))


def _tell_memory(run: SpreadRun, found: Gathered, method: LBFGSSettings) -> None:
    """Tell what index, weights and the work on parts take in this process."""
    if run.memory_limit is None:
        return
    added = method.spread_bytes(found.space) + run.memory_limit
    told = expected(added, found.space.size)
    if told is None:
        return
    if run.expect is not None:
        run.expect(told)
    if not told.fits:
        warnings.warn(str(told), MemoryWarning, stacklevel=5)


def record_of_run(
    settings: Options,
    size: tuple[int, int],
    index: FeatureIndex | LiteralIndex,
    space: ParameterSpace,
    outcome: Outcome,
    about: dict[str, Any],
) -> TrainingRecord:
    """Return the record of a run; `size` are its sentences and tokens."""
    return TrainingRecord(
        options=settings.named(),
        sentences=size[0],
        tokens=size[1],
        attributes=index.n_node_rows + index.n_arc_rows,
        parameters=space.size,
        iterations=outcome.iterations,
        best_iteration=outcome.best_iteration,
        objective=outcome.value,
        dev_score=outcome.dev,
        reason=outcome.reason,
        interrupted=outcome.interrupted,
        **about,
    )
