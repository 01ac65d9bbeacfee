"""Training a CRF: the call, the options, and the steps from a text to the trained tagger."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

import numpy as np

from fstcrf.arrays import Floats
from fstcrf.errors import DataError, LabelWarning, LearningWarning, OptionError
from fstcrf.kernel import PassiveAggressive as Variant
from fstcrf.lazy import LazyModule
from fstcrf.taggers.crf import CRF
from fstcrf.text.corpus import Corpus
from fstcrf.text.corpus.collection import CorpusFiles
from fstcrf.text.features import FeatureFunction, FeatureIndex, FunctionIndex, TemplateSet
from fstcrf.text.sentences import Data, Tape, check_text, label_set
from fstcrf.training import ParameterSpace, Problem, Progress, parameter_space
from fstcrf.training.data import (
    Target,
    TrainingData,
    check_held_out,
    held_out_labels,
    held_out_score,
    read_data,
    sentence_weights,
)
from fstcrf.training.descent import LineSearch
from fstcrf.training.executors.executor import Executor
from fstcrf.training.gold import with_partial
from fstcrf.training.magnitudes import largest_value, uneven
from fstcrf.training.memory import ExpectedMemory, free_memory, label_bytes, release
from fstcrf.training.optimiser import Optimiser
from fstcrf.training.options import (
    DEFAULTS,
    Options,
    checked_options,
    documented,
    optimiser_of,
    options_of,
)
from fstcrf.training.passing import (
    Passed,
    labels_for,
    ordered,
    pass_on,
    record_of,
    tapes_read,
    with_labels,
)
from fstcrf.training.record import TrainingRecord
from fstcrf.training.run import RunOptions, run_fingerprint, run_training
from fstcrf.training.settings import MethodSettings, ObjectiveSettings, TrainingRun
from fstcrf.training.shards import digest, observed_sum, parts_of
from fstcrf.training.structure import (
    check_pairs,
    merged_labels,
    structure,
    successions,
    warm_theta,
)
from fstcrf.training.support import counted_often

if TYPE_CHECKING:
    from fstcrf.machines.grammar import Grammar

parts = LazyModule("fstcrf.ext.parts.training")  # training on a text in parts

ObjectiveName: TypeAlias = Literal["likelihood", "mce", "mce-f"]
MethodName: TypeAlias = Literal[
    "lbfgs",
    "cg",
    "preconditioned-cg",
    "mixed-cg",
    "gis",
    "quickprop",
    "l2sgd",
    "asgd",
    "ap",
    "pa",
    "arow",
    "perceptron",
    "gpd",
]


@documented
def train_crf(
    data: Data | CorpusFiles,
    target: Target | None = None,
    template: TemplateSet | str | os.PathLike[str] | None = None,
    *,
    dev: Data | None = None,
    dev_target: Sequence[Sequence[str]] | None = None,
    reads: Sequence[CRF] = (),
    grammar: Grammar | None = None,
    tape: str | None = None,
    weights: Sequence[float] | Floats | None = None,
    class_weights: Mapping[str, float] | None = None,
    warm_start: CRF | None = None,
    threads: int = 1,
    report: Callable[[Progress], None] | None = None,
    expect: Callable[[ExpectedMemory], None] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_every: int | None = 10,
    resume: bool = False,
    keep_on_interrupt: bool = False,
    executor: Executor | None = None,
    memory_limit: int | None = None,
    order: Literal[0, 1, 2] = 1,
    objective: ObjectiveName | ObjectiveSettings = "likelihood",
    method: MethodName | MethodSettings = "lbfgs",
    features: Literal["supported", "complete"] | FeatureFunction = "supported",
    transitions: Literal["observed", "all"] | None = None,
    ends: bool = False,
    min_frequency: float | None = None,
    scheme: str | None = None,
    start_label: str | None = None,
    boundary: Literal["pad", "skip"] = "pad",
    min_count: int = 1,
    hash_bits: int | None = None,
    on_illegal: Literal["error", "repair", "skip"] = "error",
    partial: bool | None = None,
    jackknife: int | None = None,
    passing: Literal["best", "nbest", "marginals"] = "best",
    candidates: int | None = None,
    patience: int | None = None,
    seed: int = 0,
    max_iterations: int | None = None,
    l2: float | None = None,
    delta: float | None = None,
    period: int | None = None,
    epsilon: float | None = None,
    max_line_search: int | None = None,
    memory: int | None = None,
    line_search: LineSearch | None = None,
    l1: float | None = None,
    stochastic_epochs: int | None = None,
    preconditioned: int | None = None,
    growth: float | None = None,
    calibration_rate: float | None = None,
    calibration_factor: float | None = None,
    calibration_sentences: int | None = None,
    calibration_candidates: int | None = None,
    calibration_trials: int | None = None,
    first_rate: float | None = None,
    pa_variant: Variant | None = None,
    aggressiveness: float | None = None,
    error_sensitive: bool | None = None,
    averaging: bool | None = None,
    variance: float | None = None,
    gamma: float | None = None,
    batch: int | None = None,
    halving: float | None = None,
    steepness: float | None = None,
    offset: float | None = None,
    smoothing: Literal["sigmoid", "logistic"] | None = None,
    psi: float | None = None,
    competitors: Literal["mean", "sum"] | None = None,
    f_gamma: float | None = None,
    span_end: Literal["inside", "next"] | None = None,
) -> CRF:
    """Train a CRF.

    Parameters
    ----------
    data : Corpus, CorpusFiles or sequence of sentences
        Sentences with columns, or the files that hold them; or, without a template, lists of
        attributes or feature dicts for each token.
    target : str or sequence of sequences of str
        Column of the labels, or the labels of each sentence. ``_`` is an unknown label,
        ``B-NP|B-PP`` one of several, which is counted in a warning unless ``partial=True`` says so;
        with ``partial=False``, and by default in the columns of CoNLL-U, they are labels.
    template : TemplateSet, text or path
        Feature templates. Columns need these, or a feature function: ``features=f``, where f maps
        a `Sentence` to a list with the attributes of each token, a list of strings or a dict. It
        sees the columns without `target`, and the labels of `reads` as columns by their tapes.
    dev : Corpus or sequence of sentences, optional
        Held-out data: scored after each iteration; the best iteration is kept and `patience`
        iterations without a better one end training. The score is F of spans where the labels
        are spans, else accuracy.
    dev_target : sequence of sequences of str, optional
        Labels of `dev`, where `target` is no column.
    reads : sequence of CRF
        Earlier taggers whose labels ``%y[0,TAPE]`` reads: their own predictions on `data`. The
        taggers that they read must be among them.
    grammar : Grammar, optional
        A hard grammar that becomes part of the tagger's structure: training normalises over what
        it accepts, and nothing else ever has a probability; sentences without tokens have a
        labelling where it accepts the empty one. To constrain a tagger after training,
        say ``tagger & grammar``.
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
    expect : callable, optional
        Is told before training starts what memory it is expected to take, within about 10 % from
        100 MB on (without l1, where attributes share tokens, it may be less); what it raises ends
        the call. Nothing is told where that is not counted: of other methods than
        "lbfgs", and on systems without ``/proc``.
    checkpoint : path, optional
        File for the state of training, saved every `checkpoint_every` iterations and when Ctrl-C
        ends training, after the iteration that it comes in (a second Ctrl-C ends it at once, and
        the state is the one before). A file that exists is not overwritten without `resume`.
    checkpoint_every : int, optional
        None: only when Ctrl-C ends training.
    resume : bool
        Go on from `checkpoint`, to the same result bit for bit. Where the file is not there yet
        training begins at the start, so that one call serves the first run and those after it.
    keep_on_interrupt : bool
        On Ctrl-C return the best model so far.
    executor : Executor, optional
        Where the text is worked on part by part: ``ProcessExecutor(2)``, ``DaskExecutor(client)``,
        see `fstcrf.training.executors`. Of the likelihood by "lbfgs", without `reads` and
        `warm_start`. The model has the same bits for any number of workers, and without one.
    memory_limit : int, optional
        Bytes for the work on a text that may be larger than memory: what does not fit is in files
        that are mapped. Index and weights are not counted. The same bits, too.
    objective : {"likelihood", "mce", "mce-f"} or ObjectiveSettings
        What is optimised: "mce" a smooth count of sentences with an error, "mce-f" a smooth F of
        spans, both compare the gold labels with the best others (Suzuki et al. 2006). They are not
        convex: `warm_start` from a model of the likelihood is the usual beginning.
    method : str or MethodSettings
        The penalised likelihood by L-BFGS ("lbfgs"), conjugate gradients ("cg"; with the diagonal
        of the Hessian "preconditioned-cg", for the first iterations only "mixed-cg"), generalised
        iterative scaling ("gis"), QuickProp ("quickprop") or stochastic gradients ("asgd", whose
        weights are averaged, is the fastest to a good model; "l2sgd" is CRFsuite's; "gpd" of the
        objectives that count errors, which "lbfgs" and "quickprop" train, too); the averaged
        perceptron ("ap"), passive-aggressive ("pa") and "arow" as in CRFsuite; the averaged
        perceptron for a few epochs ("perceptron"). ``training.lbfgs.LBFGSSettings(memory=5)``
        says the method and its options in one.
    {options}

    Returns
    -------
    CRF

    Raises
    ------
    DataError, TemplateError, OptionError, LabelError
        The data, template or options are not what they must be.
    GrammarError
        A grammar that does not go with the labels, or has scores.
    NumericError
        Training diverged at once.
    """
    arguments = locals()
    if callable(template):
        raise OptionError(f"template is {template!r}: pass a feature function as features=")
    if callable(features):
        if template is not None:
            raise OptionError("template and features=f both compute attributes: give one of them")
        arguments |= {"template": features, "features": "supported"}
    _check_kinds(tape, warm_start, reads, report=report, expect=expect)
    settings = checked_options(
        {option: arguments[option] for option in DEFAULTS},
        reads=bool(reads),
        dev=dev is not None,
        warm_start=warm_start is not None,
    )
    if target is None:
        raise OptionError(
            "no target: give the name of the label column, or one list of labels per sentence"
        )
    if not isinstance(data, CorpusFiles):
        check_text(data)
    if dev is not None:
        check_text(dev, "the held-out text")
    run = RunOptions(**{field.name: arguments[field.name] for field in fields(RunOptions)})
    run.check()
    settings = with_partial(settings, data, target)
    name = tape or (target if isinstance(target, str) else "label")
    _check_reads(reads, name)
    values = arguments | {"tape": name, "settings": settings, "run": run}
    call = TrainingCall(**{field.name: values[field.name] for field in fields(TrainingCall)})
    in_parts = executor is not None or memory_limit is not None
    tagger: CRF = parts.train_spread(call) if in_parts else _train_in_memory(call)
    return tagger


@dataclass(frozen=True, kw_only=True)
class TrainingCall:
    """The checked arguments of `train_crf`; options of the model are in `settings`."""

    data: Data | CorpusFiles
    target: Target
    template: TemplateSet | str | os.PathLike[str] | FeatureFunction | None
    tape: str
    settings: Options
    partial: bool | None  # as the caller set it; `settings.partial` is never None
    dev: Data | None
    dev_target: Sequence[Sequence[str]] | None
    reads: Sequence[CRF]
    grammar: Grammar | None
    weights: Sequence[float] | Floats | None
    class_weights: Mapping[str, float] | None
    warm_start: CRF | None
    run: RunOptions

    def held_out_labels(self) -> list[list[str]] | None:
        """Return the gold labels of the held-out sentences, or None."""
        return held_out_labels(self.dev, self.dev_target, self.target, self.settings)


def trained(
    call: TrainingCall,
    start: CRF,
    optimiser: Callable[[], Optimiser],
    *,
    sentences: int,
    tokens: int,
    parts: Sequence[bytes],
    gold: list[list[str]] | None,
    reads: Sequence[CRF] = (),
) -> CRF:
    """Run an optimiser that starts from the weights of `start`, and return the trained tagger.

    `parts` are hashes of the parts of the data, `gold` the labels of held-out sentences, `reads`
    the earlier taggers in the order of reading.
    """
    run, settings, dev, evaluate = call.run, call.settings, call.dev, None
    if gold is not None and dev is not None:
        if reads:
            columns = dev if isinstance(dev, Corpus) else Corpus.from_sentences(dev)
            dev = with_labels(columns, reads, threads=run.threads)
        partial, threads = settings.reads_sets, run.threads
        evaluate = held_out_score(
            lambda theta: replace(start, theta=theta), dev, gold, threads, partial=partial
        )
    fingerprint = run_fingerprint(settings, parts, start.space, start.theta, gold)
    outcome = run_training(
        optimiser, settings=settings, run=run, fingerprint=fingerprint, evaluate=evaluate
    )
    record = TrainingRecord(
        options=settings.named(),
        sentences=sentences,
        tokens=tokens,
        attributes=start.index.n_node_rows + start.index.n_arc_rows,
        parameters=start.space.size,
        iterations=outcome.iterations,
        best_iteration=outcome.best_iteration,
        objective=outcome.value,
        dev_score=outcome.dev,
        reason=outcome.reason,
        interrupted=outcome.interrupted,
        run=fingerprint,
        target=call.target if isinstance(call.target, str) else None,
        grammar=None if call.grammar is None else str(call.grammar),
        class_weights={label: float(w) for label, w in (call.class_weights or {}).items()},
    )
    return replace(start, theta=outcome.theta, record=record)


def _train_in_memory(call: TrainingCall) -> CRF:
    settings, warm_start, run = call.settings, call.warm_start, call.run
    data = _data(call)
    labels = _labels(data, settings, warm_start)
    unknown = data.unknown(labels).warning(call.target, settings, explicit=call.partial is not None)
    for note in filter(None, (data.note, unknown)):
        warnings.warn(note, LabelWarning, stacklevel=4)
    gold = call.held_out_labels()
    check_held_out(gold, labels, settings)
    problem = _problem(data, labels, call)
    if not settings.method.free_of_units and (largest := uneven(problem)):
        row, size, arc = largest
        warnings.warn(
            f"attribute {data.index.attribute(row, arc=arc)!r} has values of about {size:.0e}: "
            f"steps of method {settings.method.name!r} have one length for all weights, and may "
            "end far from the best ones; give values of about 1, or train with method 'lbfgs' "
            "without stochastic_epochs",
            LearningWarning,
            stacklevel=4,
        )
    space, theta = _space(problem, data, settings, warm_start)
    start = TrainingRun(problem, space, theta, settings.objective, settings.seed, run.threads)
    added = settings.method.memory_of(start)
    release()  # the memory of reading and counting
    run.announce_memory(added, space.size)
    wanted = tapes_read(data.index)
    tapes = tuple(Tape(t.tape, t.labels, t._fingerprint()) for t in call.reads if t.tape in wanted)
    model = CRF(problem.topology, data.index, space, theta, call.tape, data.columns, tapes)
    try:
        return trained(
            call,
            model,
            lambda: optimiser_of(settings, problem, space, theta, threads=run.threads),
            sentences=len(data.offsets) - 1,
            tokens=int(data.offsets[-1]),
            parts=[*map(digest, parts_of(problem))],
            gold=gold,
            reads=ordered(call.reads, wanted),
        )
    except DataError as error:
        raise _located(error, data, problem) from None


def retrained(
    tagger: CRF,
    corpus: Corpus,
    reads: Sequence[CRF],
    *,
    threads: int,
    report: Callable[[Progress], None] | None,
) -> CRF:
    """Train a tagger again on another text, with the options of its record.

    A tagger that was stopped by held-out data or by Ctrl-C makes the same number of iterations.
    """
    record = record_of(tagger)
    options = record.options
    if record.dev_score is not None or record.interrupted:
        options = {**options, "max_iterations": max(record.best_iteration, 1)}
    target = str(record.target)
    present = set(labels_for(corpus, record))
    arguments: Any = options_of(options)
    arguments.pop("patience", None)  # there is no held-out data
    template = None
    if isinstance(tagger.index, FunctionIndex):
        arguments["features"] = tagger.index.function
    else:
        template = cast("FeatureIndex", tagger.index).templates  # `fold_taggers` has checked it
    return train_crf(
        corpus,
        target,
        template,
        reads=reads,
        tape=tagger.tape,
        class_weights={k: w for k, w in record.class_weights.items() if k in present} or None,
        threads=threads,
        report=report,
        **arguments,
    )


def _data(call: TrainingCall) -> TrainingData:
    """Read the text of a call, and label it with earlier taggers."""
    base = call.warm_start

    def label(corpus: Corpus, tapes: Sequence[str]) -> Passed:
        taggers = ordered(call.reads, tapes)
        threads, report = call.run.threads, call.run.report
        return pass_on(corpus, taggers, call.settings, threads=threads, report=report)

    return read_data(
        call.data.read() if isinstance(call.data, CorpusFiles) else call.data,
        call.target,
        call.template,
        settings=call.settings,
        base=None if base is None else base.index,
        known=() if base is None else base.labels,
        tapes=[tagger.tape for tagger in call.reads],
        label=label,
    )


def _labels(data: TrainingData, settings: Options, warm_start: CRF | None) -> Sequence[str]:
    known = () if warm_start is None else warm_start.labels
    labels = label_set(data.target_values, partial=settings.reads_sets, earlier=known)
    needed, free = label_bytes(len(labels), int(data.offsets[-1])), free_memory()
    if free is not None and needed > free:
        raise OptionError(
            f"{len(labels):,} labels, such as {labels[0]!r}: all pairs of them, and which each "
            f"token may have, take {needed / 1e9:,.0f} GB of memory, {free / 1e9:,.1f} GB are "
            "free: is the target the right column?"
        )
    return merged_labels(known, labels)


def _problem(data: TrainingData, labels: Sequence[str], call: TrainingCall) -> Problem:
    settings = call.settings
    allowed = data.allowed(labels, partial=settings.reads_sets)
    weight = sentence_weights(data, allowed, labels, call.weights, call.class_weights)
    topology = structure(labels, settings, lambda: successions(allowed, data.offsets), call.grammar)
    try:
        problem = Problem(topology, data.offsets, data.node(), data.arc(), allowed, weight)
        largest_value(problem, data.index.attribute)
    except DataError as error:
        raise _located(error, data) from None
    return problem


def _located(error: DataError, data: TrainingData, problem: Problem | None = None) -> DataError:
    """Return an error about a training sentence with its place in the text of the caller.

    If the allowed labels of the sentence have no path, the error names the token at which the last
    partial path ends.
    """
    if error.sentence is None:
        return error
    if problem is None or error.token is not None:
        return DataError(error.message, **data.where(error.sentence, error.token))
    topology = problem.topology
    first, end = problem.offsets[error.sentence : error.sentence + 2].tolist()
    alive = topology.initial
    for token, states in enumerate(problem.allowed[first:end][:, topology.state_label]):
        if token:
            reached = np.zeros(topology.n_states, dtype=bool)
            reached[topology.target[alive[topology.source]]] = True
            alive = reached
        alive = alive & states & (topology.final if first + token + 1 == end else True)
        if not alive.any():
            labels = [topology.labels[i] for i in np.flatnonzero(problem.allowed[first + token])]
            names = " or ".join(map(repr, labels)) if len(labels) < 4 else f"any of {len(labels)}"
            return DataError(
                f"label {names} cannot follow what is allowed before it: the scheme, order or "
                "grammar of the model forbids it",
                **data.where(error.sentence, token),
            )
    return DataError(error.message, **data.where(error.sentence, None))


def _space(
    problem: Problem, data: TrainingData, settings: Options, warm_start: CRF | None
) -> tuple[ParameterSpace, Floats]:
    if isinstance(data.index, FeatureIndex):
        check_pairs(data.index, problem.topology, settings)
    space = parameter_space(
        problem,
        features=settings.features,
        transitions=settings.transitions if data.transitions else "none",
        ends=settings.ends,
    )
    if settings.min_frequency is not None:
        problem.require_known("min_frequency cannot count them")
        counts = observed_sum(parts_of(problem), space)
        space = counted_often(space, counts, settings.min_frequency)
    if warm_start is not None:
        return warm_theta(warm_start.space, warm_start.theta, data.index, space)
    return space, np.zeros(space.size)


def _check_kinds(tape: object, warm_start: object, reads: object, **functions: object) -> None:
    if not isinstance(tape, str | None):
        raise OptionError(f"tape is {tape!r}, expected a name, or None")
    if not isinstance(warm_start, CRF | None):
        raise OptionError(f"warm_start is {warm_start!r}, expected a tagger")
    if not isinstance(reads, Sequence) or not all(isinstance(tagger, CRF) for tagger in reads):
        raise OptionError(f"reads is {reads!r}, expected a list of taggers")
    for name, function in functions.items():
        if function is not None and not callable(function):
            raise OptionError(f"{name} is {function!r}, expected a function")


def _check_reads(reads: Sequence[CRF], tape: str) -> None:
    if any(tagger.tape == tape for tagger in reads):
        raise OptionError(
            f"tape {tape!r} is already read by the tagger: give the new tape another "
            "name with tape="
        )
