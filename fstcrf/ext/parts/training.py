"""Training over the parts of a text, by an executor or within a limit of memory."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from fstcrf import kernel
from fstcrf.arguments import real_array, whole_number
from fstcrf.arrays import Floats
from fstcrf.errors import DataError, LabelWarning, OptionError, warn
from fstcrf.ext.parts.texts import FlatPaths, gathered
from fstcrf.taggers.crf import CRF
from fstcrf.taggers.training import TrainingCall, trained
from fstcrf.text.corpus import Corpus
from fstcrf.text.corpus.collection import CorpusFiles
from fstcrf.text.features import is_literal
from fstcrf.text.features.template import as_templates
from fstcrf.text.sentences import sized
from fstcrf.training.arguments import Run
from fstcrf.training.data import check_held_out, check_template
from fstcrf.training.executors.executor import Executor, LocalExecutor
from fstcrf.training.lbfgs import LBFGS
from fstcrf.training.likelihood import LikelihoodSettings
from fstcrf.training.loop import saved_variant
from fstcrf.training.magnitudes import weight_unit
from fstcrf.training.optimiser import Optimiser
from fstcrf.training.preconditioning import Multiplied
from fstcrf.training.run import announce_memory
from fstcrf.training.settings import divided
from fstcrf.training.shards import PART_TOKENS, start_step

_TARGET = "%gold"
_TOKEN_BYTES = 150  # for a part that is read
_ENTRY_BYTES = 30  # of an attribute of a token that is laid out
_BLOCK = 1 << 16  # tokens that are laid out together
LEAST = 256 << 20
"""Bytes that a limit of memory must leave for the work on a part."""


def train_spread(call: TrainingCall) -> CRF:
    """Train a CRF on parts of a text.

    OptionError: an option requires the text in memory.
    """
    method, run = _checked(call), call.run
    if callable(call.template):
        raise OptionError("executor and memory_limit read text by a template, not by a function")
    data, target = _data(call)
    settings, templates = call.settings, as_templates(call.template or "")
    check_template(templates, target, [tagger.tape for tagger in call.reads])
    gold = call.held_out_labels()
    executor = run.executor or LocalExecutor()
    weights, unit = _in_units(call)
    with _variant(executor, run):
        found = gathered(
            data,
            target,
            templates,
            executor,
            settings=settings,
            grammar=call.grammar,
            weights=weights,
            class_weights=call.class_weights,
            folder=None if run.memory_limit is None else tempfile.gettempdir(),
            threads=run.threads,
            part_threads=run.threads if isinstance(executor, LocalExecutor) else 1,
        )
        unknown = found.unknown.warning(call.target, settings, explicit=call.partial is not None)
        for note in filter(None, (found.note, unknown)):
            warn(note, LabelWarning)
        check_held_out(gold, found.labels, settings)
        _check_limit(call, found, method)
        return _fitted(call, found, method, gold, unit)


def _in_units(call: TrainingCall) -> tuple[Floats | None, float]:
    """Return sentence weights divided by a power of two, and that power: float32 holds them."""
    if call.weights is None:
        return None, 1.0
    weights = real_array(call.weights, "weights", error=DataError)
    largest_class = max(call.class_weights.values(), default=1.0) if call.class_weights else 1.0
    unit = weight_unit(np.minimum(weights * max(1.0, largest_class), np.finfo(np.float64).max))
    return weights / unit, unit


def _checked(call: TrainingCall) -> LBFGS:
    """Refuse options that parts do not support; return the settings of the method."""
    settings, where = call.settings, "an executor or a limit of memory"
    method = settings.method
    if not isinstance(settings.objective, LikelihoodSettings):
        raise OptionError(
            f"objective {settings.objective.name!r} needs all of the text in memory, "
            f"without {where}"
        )
    if not isinstance(method, LBFGS):
        raise OptionError(
            f"method {method.name!r} needs all of the text in memory, as its steps follow each "
            f"other: with {where} train by 'lbfgs'"
        )
    for name, given in (("reads", bool(call.reads)), ("start", call.start is not None)):
        if given:
            raise OptionError(f"{name} needs all of the text in memory, without {where}")
    if call.template is None:
        raise OptionError(f"with {where} training needs columns and a feature template")
    limit = call.run.memory_limit
    if limit is not None and whole_number(limit, "memory_limit") < LEAST:
        raise OptionError(
            f"a memory limit of {_size(limit)} is too low: one part needs up "
            f"to {_size(LEAST)}, in addition to index and weights"
        )
    return method


def _size(bytes_: float) -> str:
    for shift, unit in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if bytes_ >= 1 << shift:
            return f"{bytes_ / (1 << shift):.4g} {unit}"
    return f"{bytes_:.0f} bytes"


def _check_limit(call: TrainingCall, found: FlatPaths, method: LBFGS) -> None:
    """Refuse a limit of memory that the work on a part, or on the start, does not keep."""
    limit = call.run.memory_limit
    if limit is None:
        return
    counts = found.evidence.counts
    each = counts.entries / max(1, counts.tokens)
    needed = _TOKEN_BYTES * min(counts.tokens, PART_TOKENS) + _ENTRY_BYTES * each * _BLOCK
    if method.epochs(found.evidence):
        start = counts.tokens / start_step(counts.tokens)
        needed = max(needed, _ENTRY_BYTES * each * start)
    if needed > limit:
        raise OptionError(
            f"a memory limit of {_size(limit)} is too low: one part, or the "
            f"first epochs (stochastic_epochs), need about {_size(needed)} in addition "
            "to index and weights"
        )


def _data(call: TrainingCall) -> tuple[CorpusFiles | Corpus, str]:
    data, target = call.data, call.target
    if isinstance(data, CorpusFiles):
        if not isinstance(target, str):
            raise OptionError("the labels of files are a column: name it by target=")
        return data, target
    if not isinstance(data, Corpus):
        first = next((sentence for sentence in data if sized(sentence, "a sentence")), None)
        if first is not None and is_literal(first):
            raise OptionError("attribute lists are trained on in memory, without an executor")
        data = Corpus.from_sentences(data)
    if isinstance(target, str):
        return data, target
    if len(target) != len(data):
        raise DataError(f"labels of {len(target)} sentences for {len(data)}")
    return data.with_column(_TARGET, target), _TARGET


@contextmanager
def _variant(executor: Executor, run: Run) -> Iterator[None]:
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
    call: TrainingCall,
    found: FlatPaths,
    method: LBFGS,
    gold: list[list[str]] | None,
    unit: float,
) -> CRF:
    """Train on collected parts."""
    evidence, space, run = found.evidence, found.space, call.run
    theta = np.zeros(space.size)
    columns = tuple(name for name in found.columns if not name.startswith("%"))
    if run.memory_limit is not None:
        announce_memory(run, method.spread_bytes(space) + run.memory_limit, space.size)
    model = CRF(space.topology, found.index, space, theta, call.tape, columns)
    options: dict[str, int] = {"seed": call.settings.seed, "threads": run.threads}

    def course() -> Optimiser:
        if unit == 1.0:
            return method.course(evidence, theta, **options)
        return Multiplied(divided(method, unit).course(evidence, theta, **options), unit)

    try:
        return trained(
            call,
            model,
            course,
            sentences=evidence.counts.sentences,
            tokens=evidence.counts.tokens,
            parts=[part.digest for part in found.facts],
            gold=gold,
        )
    finally:
        evidence.close()
