"""Training a CRF from a corpus: features, topology, objective, optimiser."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

import numpy as np

from fstcrf.arguments import whole_number
from fstcrf.arrays import Floats
from fstcrf.errors import DataError, LabelWarning, LearningWarning, OptionError
from fstcrf.kernel import PassiveAggressive as Variant
from fstcrf.lazy import LazyModule
from fstcrf.taggers.model.crf import CRF
from fstcrf.taggers.model.gold import decided
from fstcrf.taggers.model.options import (
    DEFAULTS,
    Options,
    checked_options,
    documented,
    optimiser_of,
    options_of,
)
from fstcrf.taggers.model.reads import labels_for, ordered, record_of, tapes_read
from fstcrf.taggers.model.run import Fitting, Ready, TrainingCall, check_held_out
from fstcrf.taggers.model.source import Source, Target, read_source, sentence_weights
from fstcrf.taggers.model.structure import (
    check_pairs,
    fingerprint,
    merged_labels,
    structure,
    successions,
    warm_theta,
)
from fstcrf.taggers.reading import Data, Tape, check_text, label_set
from fstcrf.text.corpus import Corpus
from fstcrf.text.corpus.collection import CorpusFiles
from fstcrf.text.features import FeatureFunction, FeatureIndex, FunctionIndex, TemplateSet
from fstcrf.training import ParameterSpace, Problem, Progress, parameter_space
from fstcrf.training.descent import LineSearch
from fstcrf.training.executors.executor import Executor
from fstcrf.training.loop import check_checkpoint
from fstcrf.training.magnitudes import largest_value, uneven
from fstcrf.training.memory import ExpectedMemory, free_memory, label_bytes, release
from fstcrf.training.settings import MethodSettings, ObjectiveSettings, TrainingRun
from fstcrf.training.shards import digest, observed_sum, parts_of
from fstcrf.training.support import counted_often

if TYPE_CHECKING:
    from fstcrf.machines.grammar import Grammar

parts = LazyModule("fstcrf.ext.parts.training")  # of text that is not here as a whole

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
    given = locals()
    if callable(template):
        raise OptionError(f"template is {template!r}: pass a feature function as features=")
    if callable(features):
        if template is not None:
            raise OptionError("template and features=f both compute attributes: give one of them")
        given |= {"template": features, "features": "supported"}
    _check_kinds(tape, warm_start, reads, report=report, expect=expect)
    settings = checked_options(
        {option: given[option] for option in DEFAULTS},
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
    _check_run(threads, checkpoint, checkpoint_every, resume=resume)
    settings = decided(settings, data, target)
    name = tape or (target if isinstance(target, str) else "label")
    _check_reads(reads, name)
    told = {field.name: given[field.name] for field in fields(TrainingCall) if field.name in given}
    run = TrainingCall(**told | {"tape": name, "settings": settings})
    in_parts = executor is not None or memory_limit is not None
    found: CRF = parts.train_spread(run) if in_parts else _trained_whole(run)
    return found


def _trained_whole(run: TrainingCall) -> CRF:
    """Train on text that is in memory as a whole."""
    settings, warm_start = run.settings, run.warm_start
    source = read_source(
        run.data.read() if isinstance(run.data, CorpusFiles) else run.data,
        run.target,
        run.template,
        reads=run.reads,
        settings=settings,
        warm_start=warm_start,
        threads=run.threads,
        report=run.report,
        retrain=retrained,
    )
    labels = _labels(source, settings, warm_start)
    unknown = source.unknown(labels).told(run.target, settings, given=run.partial is not None)
    for note in filter(None, (source.note, unknown)):
        warnings.warn(note, LabelWarning, stacklevel=4)
    gold = run.held_out_labels()
    check_held_out(gold, labels, settings)
    problem = _problem(source, labels, run)
    if not settings.method.free_of_units and (found := uneven(problem)):
        row, size, arc = found
        warnings.warn(
            f"attribute {source.index.attribute(row, arc=arc)!r} has values of about {size:.0e}: "
            f"steps of method {settings.method.name!r} have one length for all weights, and may "
            "end far from the best ones; give values of about 1, or train with method 'lbfgs' "
            "without stochastic_epochs",
            LearningWarning,
            stacklevel=4,
        )
    space, theta = _space(problem, source, settings, warm_start)
    start = TrainingRun(problem, space, theta, settings.objective, settings.seed, run.threads)
    added = settings.method.memory_of(start)
    release()  # what reading and counting took
    run.tell_memory(added, space.size)
    wanted = tapes_read(source.index)
    tapes = tuple(Tape(t.tape, t.labels, fingerprint(t)) for t in run.reads if t.tape in wanted)
    fitting = Fitting(
        run,
        Ready(
            start=CRF(
                problem.topology, source.index, space, theta, run.tape, source.columns, tapes
            ),
            sentences=len(source.offsets) - 1,
            tokens=int(source.offsets[-1]),
            parts=[*map(digest, parts_of(problem))],
            gold=gold,
            reads=ordered(run.reads, wanted),
        ),
    )
    try:
        return fitting.model(
            lambda: optimiser_of(settings, problem, space, theta, threads=run.threads)
        )
    except DataError as error:
        raise _as_given(error, source, problem) from None


def retrained(
    tagger: CRF,
    corpus: Corpus,
    earlier: Sequence[CRF],
    *,
    threads: int,
    report: Callable[[Progress], None] | None,
) -> CRF:
    """Train a tagger on other text as it was trained."""
    record = record_of(tagger)
    options = record.options
    if record.dev_score is not None or record.interrupted:
        # What decided it is not here any more; that it took so many iterations is known.
        options = {**options, "max_iterations": max(record.best_iteration, 1)}
    target = str(record.target)
    present = set(labels_for(corpus, record))
    as_usual: Any = options_of(options)
    as_usual.pop("patience", None)  # of held-out data
    template = None
    if isinstance(tagger.index, FunctionIndex):
        as_usual["features"] = tagger.index.function
    else:
        template = cast("FeatureIndex", tagger.index).templates  # as `fold_taggers` saw
    return train_crf(
        corpus,
        target,
        template,
        reads=earlier,
        tape=tagger.tape,
        class_weights={k: w for k, w in record.class_weights.items() if k in present} or None,
        threads=threads,
        report=report,
        **as_usual,
    )


def _check_run(
    threads: int,
    checkpoint: str | os.PathLike[str] | None,
    checkpoint_every: int | None,
    *,
    resume: bool,
) -> None:
    """Refuse a run without threads, or without the file that its state needs."""
    whole_number(threads, "threads", least=1)
    if resume and checkpoint is None:
        raise OptionError("resume needs a checkpoint to go on from")
    if checkpoint_every is not None:
        whole_number(checkpoint_every, "checkpoint_every", least=1)
    if checkpoint is None and checkpoint_every not in (None, 10):
        raise OptionError("checkpoint_every needs a checkpoint to write to")
    if checkpoint is not None:
        check_checkpoint(checkpoint, every=checkpoint_every, resume=resume)


def _labels(source: Source, settings: Options, warm_start: CRF | None) -> Sequence[str]:
    known = () if warm_start is None else warm_start.labels
    labels = label_set(source.target_values, partial=settings.reads_sets, earlier=known)
    needed, free = label_bytes(len(labels), int(source.offsets[-1])), free_memory()
    if free is not None and needed > free:
        raise OptionError(
            f"{len(labels):,} labels, such as {labels[0]!r}: all pairs of them, and which each "
            f"token may have, take {needed / 1e9:,.0f} GB of memory, {free / 1e9:,.1f} GB are "
            "free: is the target the right column?"
        )
    return labels if warm_start is None else merged_labels(warm_start, labels)


def _problem(source: Source, labels: Sequence[str], run: TrainingCall) -> Problem:
    settings = run.settings
    allowed = source.allowed(labels, partial=settings.reads_sets)
    weight = sentence_weights(source, allowed, labels, run.weights, run.class_weights)
    topology = structure(
        labels, settings, lambda: successions(allowed, source.offsets), run.grammar
    )
    try:
        problem = Problem(topology, source.offsets, source.node(), source.arc(), allowed, weight)
        largest_value(problem, source.index.attribute)
    except DataError as error:
        raise _as_given(error, source) from None
    return problem


def _as_given(error: DataError, source: Source, problem: Problem | None = None) -> DataError:
    """Return an error about a sentence with its place in the data as it was given.

    Of a sentence whose allowed labels have no path, the token is named at which the last one ends.
    """
    if error.sentence is None:
        return error
    if problem is None or error.token is not None:
        return DataError(error.message, **source.where(error.sentence, error.token))
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
            there = [topology.labels[i] for i in np.flatnonzero(problem.allowed[first + token])]
            names = " or ".join(map(repr, there)) if len(there) < 4 else f"any of {len(there)}"
            return DataError(
                f"label {names} cannot follow what is allowed before it: the scheme, order or "
                "grammar of the model forbids it",
                **source.where(error.sentence, token),
            )
    return DataError(error.message, **source.where(error.sentence, None))


def _space(
    problem: Problem, source: Source, settings: Options, warm_start: CRF | None
) -> tuple[ParameterSpace, Floats]:
    """Return which weights there are, and where they start."""
    if isinstance(source.index, FeatureIndex):
        check_pairs(source.index, problem.topology, settings)
    space = parameter_space(
        problem,
        features=settings.features,
        transitions=settings.transitions if source.transitions else "none",
        ends=settings.ends,
    )
    if settings.min_frequency is not None:
        problem.require_known("min_frequency cannot count them")
        counts = observed_sum(parts_of(problem), space)
        space = counted_often(space, counts, settings.min_frequency)
    if warm_start is not None:
        return warm_theta(warm_start, source.index, space)
    return space, np.zeros(space.size)


def _check_kinds(tape: object, warm_start: object, reads: object, **called: object) -> None:
    """Refuse arguments that are nothing of their kind."""
    if not isinstance(tape, str | None):
        raise OptionError(f"tape is {tape!r}, expected a name, or None")
    if not isinstance(warm_start, CRF | None):
        raise OptionError(f"warm_start is {warm_start!r}, expected a tagger")
    if not isinstance(reads, Sequence) or not all(isinstance(one, CRF) for one in reads):
        raise OptionError(f"reads is {reads!r}, expected a list of taggers")
    for name, function in called.items():
        if function is not None and not callable(function):
            raise OptionError(f"{name} is {function!r}, expected a function")


def _check_reads(reads: Sequence[CRF], tape: str) -> None:
    if any(tagger.tape == tape for tagger in reads):
        raise OptionError(
            f"tape {tape!r} is already read by the tagger: give the new tape another "
            "name with tape="
        )
