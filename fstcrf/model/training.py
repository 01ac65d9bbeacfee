"""Training a CRF from a corpus: features, topology, objective, optimiser.

===============  ==================================================================
train            data and options to a CRF
Options          the options, checked; they are stored in the model
TrainingRecord   what was trained, on what, and how it went
===============  ==================================================================
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from fstcrf.corpus import Corpus, legal_transitions
from fstcrf.errors import DataError, OptionError, TemplateError
from fstcrf.evaluate import evaluate_spans, evaluate_tokens
from fstcrf.features import (
    Design,
    FeatureIndex,
    LiteralIndex,
    TemplateSet,
    is_literal,
    parse_template,
    read_template,
)
from fstcrf.features.template import tape_column
from fstcrf.kernel import SparseRows
from fstcrf.model.crf import CRF, Tape
from fstcrf.model.targets import allowed_labels, label_set
from fstcrf.model.warm import merged_labels, warm_theta
from fstcrf.topology import Topology, chain_topology
from fstcrf.train import (
    L2SGD,
    LBFGS,
    OWLQN,
    AveragedPerceptron,
    Checkpoint,
    Likelihood,
    Optimiser,
    ParameterSpace,
    Problem,
    Progress,
    Staged,
    Untied,
    fit,
    parameter_space,
    tied,
)

__all__ = ["Options", "TrainingRecord", "train"]

Floats = NDArray[np.float64]

# L-BFGS starts with stochastic epochs where they are cheaper than what they save.
_STAGED_SENTENCES, _STAGED_EPOCHS = 1000, 6
_DEFAULT_ITERATIONS = {"lbfgs": 1000, "perceptron": 10, "l2sgd": 1000}


class Options(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of training, as they are stored in the model."""

    order: Literal[0, 1, 2] = 1
    method: Literal["lbfgs", "l2sgd", "perceptron"] = "lbfgs"
    l2: float = 0.5
    l1: float = 0.0
    features: Literal["supported", "complete"] = "supported"
    transitions: Literal["observed", "all"] = "observed"
    boundary: Literal["pad", "skip"] = "pad"
    min_count: int = 1
    hash_bits: int | None = None
    scheme: str | None = None
    start_label: str | None = None
    ends: bool = False
    partial: bool = True
    max_iterations: int | None = None
    patience: int = 10
    seed: int = 0

    def __post_init__(self) -> None:
        if not (np.isfinite(self.l2) and self.l2 >= 0):
            raise OptionError(f"l2 is {self.l2}, expected a finite number of at least 0")
        if not (np.isfinite(self.l1) and self.l1 >= 0):
            raise OptionError(f"l1 is {self.l1}, expected a finite number of at least 0")
        if self.l1 > 0 and self.method != "lbfgs":
            raise OptionError(f"l1 needs method 'lbfgs', not {self.method!r}")
        for name in ("min_count", "patience"):
            if getattr(self, name) < 1:
                raise OptionError(f"{name} is {getattr(self, name)}, expected at least 1")
        if self.seed < 0:
            raise OptionError(f"seed is {self.seed}, expected at least 0")
        if self.max_iterations is not None and self.max_iterations < 1:
            raise OptionError(f"max_iterations is {self.max_iterations}, expected at least 1")


class TrainingRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What was trained, on what, and how it went."""

    options: Options
    sentences: int
    tokens: int
    attributes: int
    parameters: int
    iterations: int
    best_iteration: int
    objective: float
    dev_score: float | None
    reason: str
    interrupted: bool = False


def train(
    data: Any,
    target: str | Sequence[Sequence[str]],
    template: TemplateSet | str | os.PathLike[str] | None = None,
    *,
    dev: Any = None,
    dev_target: Sequence[Sequence[str]] | None = None,
    reads: Sequence[CRF] = (),
    tape: str | None = None,
    weights: Sequence[float] | None = None,
    class_weights: Mapping[str, float] | None = None,
    warm_start: CRF | None = None,
    threads: int = 1,
    report: Callable[[Progress], None] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_every: int = 10,
    resume: bool = False,
    keep_on_interrupt: bool = False,
    **options: Any,
) -> CRF:
    """Train a CRF.

    Parameters
    ----------
    data : Corpus or sequence of sentences
        Sentences with columns; or, without a template, lists of attributes or feature dicts for
        each token.
    target : str or sequence of sequences of str
        Column of the labels, or the labels of each sentence. ``_`` is an unknown label,
        ``B-NP|B-PP`` one of several (``partial=False`` turns that off).
    template : TemplateSet, text or path
        Feature templates; required for columns.
    dev : Corpus or sequence of sentences, optional
        Held-out data: scored after each iteration; the best iteration is kept and `patience`
        iterations without a better one end training. The score is F of spans where the labels
        are spans, else accuracy.
    dev_target : sequence of sequences of str, optional
        Labels of `dev`, where `target` is no column.
    reads : sequence of CRF
        Earlier taggers whose labels ``%y[0,TAPE]`` reads: their own predictions on `data`.
    tape : str, optional
        Name of the tape that is written; the target's name, else ``"label"``.
    weights : sequence of float, optional
        Weight of each sentence.
    class_weights : mapping of str to float, optional
        A sentence's weight is multiplied by the mean of its gold labels' weights (1 for others).
    warm_start : CRF, optional
        Start from its weights. Its labels and attributes stay known; new ones are added.
    threads : int
        The result does not depend on it.
    report : callable, optional
        Is told of every iteration.
    checkpoint : path, optional
        File for the state of training, saved every `checkpoint_every` iterations.
    resume : bool
        Go on from `checkpoint` if it exists, to the same result bit for bit.
    keep_on_interrupt : bool
        On Ctrl-C return the best model so far.
    **options
        order : {0, 1, 2}, default 1
        method : {"lbfgs", "l2sgd", "perceptron"}, default "lbfgs"
        l2 : float, default 0.5
            The objective is −log-likelihood + l2 · |weights|² (CRFsuite's ``c2``).
        l1 : float, default 0
            Adds l1 · sum |weights| (CRFsuite's ``c1``): many weights become exactly zero.
        features : {"supported", "complete"}
            Weights of the (attribute, label) pairs that occur, or of all.
        transitions : {"observed", "all"}
        boundary : {"pad", "skip"}
            What an attribute beyond the sentence is: ``_B-1``, or nothing.
        min_count : int, default 1
            Attributes that fewer tokens have are dropped.
        hash_bits : int, optional
            Hash attributes into 2^k rows.
        scheme : str, optional
            "iob1", "iob2", "bioes", "bilou": successions that are illegal under it are not part
            of the model at all; "observed": those that the data does not show.
        start_label : str, optional
            Order 2: label taken to precede a sentence; ``"O"`` where that is a label.
        ends : bool
            Weights for the first and the last label.
        max_iterations : int
        patience : int, default 10
        seed : int

    Returns
    -------
    CRF

    Raises
    ------
    DataError, TemplateError, OptionError, LabelError
        The data, template or options are not what they must be.
    NumericError
        Training diverged at once.
    """
    settings = _options(options)
    if threads < 1:
        raise OptionError(f"threads is {threads}, expected at least 1")
    if resume and checkpoint is None:
        raise OptionError("resume needs a checkpoint to go on from")
    source = _source(data, target, template, reads, settings, warm_start)
    labels = label_set(
        source.target_values,
        partial=settings.partial,
        known=() if warm_start is None else warm_start.labels,
    )
    if warm_start is not None:
        labels = merged_labels(warm_start, labels)
    allowed = source.allowed(labels, partial=settings.partial)
    topology = _topology(labels, settings, allowed, source.offsets)
    problem = Problem(
        topology,
        source.offsets,
        _sparse(source.design.node, source.index.n_node_rows),
        None if source.design.arc is None else _sparse(source.design.arc, source.index.n_arc_rows),
        allowed,
        _weights(source, allowed, labels, weights, class_weights),
    )
    space = parameter_space(
        problem,
        features=settings.features,
        transitions=settings.transitions if source.transitions else "none",
        ends=settings.ends,
    )
    if warm_start is not None:
        space, theta = warm_theta(warm_start, source.index, space)
    else:
        theta = np.zeros(space.size)
    optimiser = _optimiser(settings, problem, space, theta, threads)
    tapes = tuple(Tape(t.tape, t.labels, fingerprint(t)) for t in reads)
    name = tape or (target if isinstance(target, str) else "label")

    def model(weights_now: Floats, record: TrainingRecord | None = None) -> CRF:
        return CRF(
            topology, source.index, space, weights_now, name, source.columns, tapes, record
        )

    gold = _held_out_labels(dev, dev_target, target)
    evaluate = None if gold is None else _evaluation(model, dev, gold, reads, threads)
    outcome = fit(
        optimiser,
        max_iterations=settings.max_iterations or _DEFAULT_ITERATIONS[settings.method],
        evaluate=evaluate,
        patience=settings.patience,
        report=report,
        checkpoint=None
        if checkpoint is None
        else Checkpoint(
            checkpoint,
            fingerprint=_run_fingerprint(settings, problem, space, theta, gold),
            every=checkpoint_every,
            resume=resume,
        ),
        keep_on_interrupt=keep_on_interrupt,
    )
    record = TrainingRecord(
        options=settings,
        sentences=len(source.offsets) - 1,
        tokens=int(source.offsets[-1]),
        attributes=source.index.n_node_rows + source.index.n_arc_rows,
        parameters=space.size,
        iterations=outcome.iterations,
        best_iteration=outcome.best_iteration,
        objective=outcome.value,
        dev_score=outcome.dev,
        reason=outcome.reason,
        interrupted=outcome.interrupted,
    )
    return model(outcome.theta, record)


def fingerprint(model: CRF) -> str:
    """Return a hash of a model's labels and weights."""
    digest = hashlib.sha256("\0".join(model.labels).encode())
    digest.update(np.ascontiguousarray(model.theta).data)
    return digest.hexdigest()


def _options(given: Mapping[str, Any]) -> Options:
    try:
        return msgspec.convert(dict(given), Options)
    except msgspec.ValidationError as error:
        raise OptionError(f"training options: {error}") from None


class _Source:
    """The data of a run: design matrix, label column, sentence bounds."""

    def __init__(
        self,
        index: FeatureIndex | LiteralIndex,
        design: Design,
        labelled: Corpus,
        *,
        columns: tuple[str, ...],
        transitions: bool,
        full: NDArray[np.bool_],
    ) -> None:
        self.index, self.design, self.columns = index, design, columns
        self.transitions = transitions
        self.full = full  # which of the sentences that were given have tokens
        self.offsets = labelled.offsets
        self._labelled = labelled

    @property
    def target_values(self) -> list[str]:
        column = self._labelled.column(_TARGET)
        return [column.values[i] for i in np.unique(column.ids).tolist()]

    def allowed(self, labels: Sequence[str], *, partial: bool) -> NDArray[np.bool_]:
        return allowed_labels(self._labelled.column(_TARGET), labels, partial=partial)


_TARGET = "%target"


def _source(
    data: Any,
    target: str | Sequence[Sequence[str]],
    template: TemplateSet | str | os.PathLike[str] | None,
    reads: Sequence[CRF],
    settings: Options,
    warm_start: CRF | None,
) -> _Source:
    base = None if warm_start is None else warm_start.index
    if not isinstance(data, Corpus):
        first = next((sentence for sentence in data if len(sentence)), None)
        if first is None:
            raise DataError("no sentence to train on")
        if is_literal(first):
            if template is not None or reads:
                raise OptionError("a template and reads= need columns, not attribute lists")
            return _literal_source(data, target, settings, base)
    if template is None:
        raise OptionError("columns need a feature template: template='chunking.tpl'")
    corpus = data if isinstance(data, Corpus) else Corpus.from_sentences(data)
    if not len(corpus) or not corpus.n_tokens:
        raise DataError("no sentence to train on", path=corpus.source)
    templates = as_template(template)
    if isinstance(target, str):
        column = corpus.column(target)
        labelled = Corpus({_TARGET: column}, corpus.offsets, source=corpus.source)
    else:
        labelled = corpus.with_column(_TARGET, target)
    full = np.diff(corpus.offsets) > 0
    if not full.all():
        chosen = np.flatnonzero(full)
        corpus, labelled = corpus.select(chosen), labelled.select(chosen)
    for tagger in reads:
        corpus = corpus.with_column(tape_column(tagger.tape), tagger.tag_all(corpus))
    if isinstance(base, LiteralIndex):
        raise OptionError("warm_start reads attribute lists, the data has columns")
    columns = tuple(name for name in corpus.columns if not name.startswith("%"))
    index, design = FeatureIndex.build(
        corpus,
        templates,
        boundary=settings.boundary,
        min_count=settings.min_count,
        hash_bits=settings.hash_bits,
        base=base,
    )
    _check_template(index.templates, target, reads)
    return _Source(
        index,
        design,
        labelled,
        columns=columns,
        transitions=index.templates.has_transitions,
        full=full,
    )


def _literal_source(
    data: Sequence[Any],
    target: str | Sequence[Sequence[str]],
    settings: Options,
    base: FeatureIndex | LiteralIndex | None,
) -> _Source:
    if isinstance(target, str):
        raise OptionError("attribute lists have no columns: give the labels of each sentence")
    if isinstance(base, FeatureIndex):
        raise OptionError("warm_start reads columns, the data has attribute lists")
    if len(target) != len(data):
        raise DataError(f"labels of {len(target)} sentences for {len(data)}")
    for i, (labels, sentence) in enumerate(zip(target, data, strict=True)):
        if len(labels) != len(sentence):
            raise DataError(f"{len(labels)} labels for {len(sentence)} tokens", sentence=i)
    full = [i for i, sentence in enumerate(data) if len(sentence)]
    index, design = LiteralIndex.build(
        [data[i] for i in full],
        min_count=settings.min_count,
        hash_bits=settings.hash_bits,
        base=base,
    )
    labelled = Corpus.from_sentences([{_TARGET: target[i]} for i in full])
    filled = np.asarray([len(sentence) > 0 for sentence in data])
    return _Source(index, design, labelled, columns=(), transitions=True, full=filled)


def _check_template(
    templates: TemplateSet, target: str | Sequence[Sequence[str]], reads: Sequence[CRF]
) -> None:
    if isinstance(target, str) and target in templates.columns:
        raise TemplateError(f"a template reads the target column {target!r} itself")
    unread = set(templates.tapes) - {tagger.tape for tagger in reads}
    if unread:
        raise TemplateError(
            f"a template reads the tapes {', '.join(sorted(unread))}: pass their taggers as reads="
        )


def as_template(template: TemplateSet | str | os.PathLike[str]) -> TemplateSet:
    """Take a template as it is, from a path, or from text (of several lines)."""
    if isinstance(template, TemplateSet):
        return template
    if isinstance(template, str) and ("\n" in template or "%" in template):
        return parse_template(template)
    return read_template(Path(template))


def _topology(
    labels: Sequence[str],
    settings: Options,
    allowed: NDArray[np.bool_],
    offsets: NDArray[np.int64],
) -> Topology:
    start = settings.start_label
    if settings.order == 2 and start is None and "O" in labels:
        start = "O"
    if settings.scheme is None:
        return chain_topology(labels, settings.order, start_label=start)
    if settings.scheme == "observed":
        table = _observed(allowed, offsets)
    else:
        table = legal_transitions(labels, settings.scheme)
    number = {label: i for i, label in enumerate(labels)}
    if start in number:
        # The first label's history is the pair of the start label and itself: it must be there.
        table[number[start]] |= table[-1]

    def legal(before: str | None, after: str | None) -> bool:
        row = len(labels) if before is None else number[before]
        column = len(labels) if after is None else number[after]
        return bool(table[row, column])

    return chain_topology(labels, settings.order, allowed=legal, start_label=start)


def _observed(allowed: NDArray[np.bool_], offsets: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Successions that some sentence allows, with start (last row) and end (last column)."""
    size = allowed.shape[1]
    table = np.zeros((size + 1, size + 1), dtype=bool)
    inner = np.ones(len(allowed), dtype=bool)
    inner[offsets[:-1]] = False
    into = np.flatnonzero(inner)
    counts = allowed[into - 1].T.astype(np.float32) @ allowed[into].astype(np.float32)
    table[:size, :size] = counts > 0
    table[size, :size] = allowed[offsets[:-1]].any(axis=0)
    table[:size, size] = allowed[offsets[1:] - 1].any(axis=0)
    return table


def _weights(
    source: _Source,
    allowed: NDArray[np.bool_],
    labels: Sequence[str],
    weights: Sequence[float] | None,
    class_weights: Mapping[str, float] | None,
) -> Floats:
    n = len(source.full)
    try:
        total = np.ones(n) if weights is None else np.array(weights, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"weights of sentences: {error}") from None
    if total.shape != (n,):
        raise DataError(f"weights are {list(total.shape)}, expected {[n]}: one for each sentence")
    total = total[source.full]
    if class_weights is not None:
        unknown = set(class_weights) - set(labels)
        if unknown:
            raise DataError(f"class weights of labels that do not occur: {sorted(unknown)}")
        value = np.asarray([class_weights.get(label, 1.0) for label in labels])
        token = allowed @ value / allowed.sum(axis=1)
        total *= np.add.reduceat(token, source.offsets[:-1]) / np.diff(source.offsets)
    return total


def _sparse(rows: Any, columns: int) -> SparseRows:
    return SparseRows(rows.indptr, rows.rows, rows.values, columns)


def _optimiser(
    settings: Options, problem: Problem, space: ParameterSpace, theta: Floats, threads: int
) -> Optimiser:
    if settings.method == "perceptron":
        return AveragedPerceptron(problem, space, theta, seed=settings.seed)
    if settings.method == "l2sgd":
        return L2SGD(problem, space, theta, l2=settings.l2, seed=settings.seed)

    def likelihood(part: Problem, of: ParameterSpace, scale: Floats | None = None) -> Likelihood:
        return Likelihood(part, of, l2=settings.l2, threads=threads, scale=scale)

    def lbfgs(start: Floats) -> Optimiser:
        if start.any() and not stochastic:  # a warm start: tied attributes may have parted
            return LBFGS(likelihood(problem, space), start)
        ties = tied(problem, space)
        found = LBFGS(likelihood(ties.problem, ties.space, ties.scale), ties.reduce(start))
        return Untied(found, ties)

    if settings.l1 > 0:
        return OWLQN(likelihood(problem, space), theta, l1=settings.l1)
    stochastic = (
        settings.l2 > 0
        and len(problem.weight) >= _STAGED_SENTENCES
        and not problem.partial.any()
        and not space.n_arc_rows
        and not theta.any()
    )
    if not stochastic:
        return lbfgs(theta)
    first = L2SGD(problem, space, theta, l2=settings.l2, seed=settings.seed)
    return Staged(first, _STAGED_EPOCHS, lbfgs)


def _held_out_labels(
    dev: Any, dev_target: Sequence[Sequence[str]] | None, target: str | Sequence[Sequence[str]]
) -> list[list[str]] | None:
    if dev is None:
        return None
    if isinstance(target, str):
        data = dev if isinstance(dev, Corpus) else Corpus.from_sentences(dev)
        return data.column_lists(target)
    if dev_target is None:
        raise OptionError("dev needs dev_target: the labels of each of its sentences")
    return [list(labels) for labels in dev_target]


def _evaluation(
    model: Callable[[Floats], CRF],
    dev: Any,
    gold: list[list[str]],
    reads: Sequence[CRF],
    threads: int,
) -> Callable[[Floats], float]:
    data = dev
    if reads:
        data = dev if isinstance(dev, Corpus) else Corpus.from_sentences(dev)
    for tagger in reads:
        data = data.with_column(tape_column(tagger.tape), tagger.tag_all(data))
    spans = any(label[:2] in {"B-", "I-"} for labels in gold for label in labels)

    def score(theta: Floats) -> float:
        predicted = model(theta).tag_all(data, threads=threads)
        if spans:
            return evaluate_spans(gold, predicted).f
        return evaluate_tokens(gold, predicted).accuracy

    return score


def _run_fingerprint(
    settings: Options,
    problem: Problem,
    space: ParameterSpace,
    theta: Floats,
    gold: list[list[str]] | None,
) -> str:
    """Hash what decides the course of training."""
    stored = msgspec.structs.replace(settings, max_iterations=None)
    digest = hashlib.sha256(msgspec.json.encode((stored, problem.topology.labels, gold)))
    arrays: list[NDArray[Any]] = [problem.offsets, problem.weight, theta]
    arrays += [np.packbits(problem.allowed), space.node_cells, space.transitions]
    arrays.append(space.arc_cells)
    for rows in (problem.node, problem.arc):
        if rows is not None:
            arrays += [rows.indptr, rows.index]
            arrays += [] if rows.value is None else [rows.value]
    for array in arrays:
        digest.update(f"{array.dtype}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data if array.size else b"")
    return digest.hexdigest()
