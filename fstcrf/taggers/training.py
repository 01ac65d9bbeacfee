"""Training a CRF: the call, the options, and the steps from a text to the trained tagger."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

import numpy as np

from fstcrf.arrays import Floats
from fstcrf.errors import DataError, LabelWarning, LearningWarning, OptionError, warn
from fstcrf.lazy import LazyModule
from fstcrf.taggers.crf import CRF
from fstcrf.text.corpus import Corpus
from fstcrf.text.corpus.collection import CorpusFiles
from fstcrf.text.features import FeatureFunction, FeatureIndex, FunctionIndex, TemplateSet
from fstcrf.text.features.reader import without_unused
from fstcrf.text.features.template import as_templates
from fstcrf.text.sentences import Data, Tape, allowed_labels, check_text, label_set
from fstcrf.training import ParameterSpace, Problem, Progress, parameter_space
from fstcrf.training.arguments import Chain, Dev, Features, Gold, Reads, Run
from fstcrf.training.data import (
    Target,
    TrainingData,
    check_held_out,
    held_out_labels,
    held_out_score,
    read_data,
    sentence_weights,
)
from fstcrf.training.evidence import Evidence
from fstcrf.training.gold import UnknownLabels, with_partial
from fstcrf.training.loop import check_checkpoint
from fstcrf.training.magnitudes import largest_value, uneven
from fstcrf.training.memory import free_memory, label_bytes, release
from fstcrf.training.optimiser import Optimiser
from fstcrf.training.options import (
    DEFAULTS,
    Options,
    checked_options,
    flat_options,
    optimiser_of,
    options_of,
    structured,
)
from fstcrf.training.passing import (
    Passed,
    check_reads,
    labels_for,
    ordered,
    pass_on,
    record_of,
    tapes_read,
    with_labels,
)
from fstcrf.training.record import TrainingRecord
from fstcrf.training.run import announce_memory, run_fingerprint, run_training
from fstcrf.training.settings import MethodSettings, ObjectiveSettings, TrainingRun
from fstcrf.training.shards import digest, parts_of
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


def train_crf(
    data: Data | CorpusFiles,
    target: Target | Gold | None = None,
    features: TemplateSet | str | os.PathLike[str] | FeatureFunction | Features | None = None,
    *,
    structure: Chain | None = None,
    order: Literal[0, 1, 2] | None = None,
    scheme: str | None = None,
    tape: str | None = None,
    grammar: Grammar | None = None,
    reads: Sequence[CRF] | Reads = (),
    start: CRF | None = None,
    dev: Data | Dev | None = None,
    objective: ObjectiveName | ObjectiveSettings = "likelihood",
    method: MethodName | MethodSettings = "lbfgs",
    l2: float | None = None,
    max_iterations: int | None = None,
    run: Run | None = None,
) -> CRF:
    """Train a CRF.

    Parameters
    ----------
    data : Corpus, CorpusFiles or sequence of sentences
        Sentences with columns, or the files that hold them; or, without templates, lists of
        attributes or feature dicts for each token.
    target : str, sequence of sequences of str, or Gold
        Column of the labels, or the labels of each sentence. ``_`` is an unknown label,
        ``B-NP|B-PP`` one of several; a warning counts them unless ``Gold(partial=True)`` allows
        them. With ``partial=False``, and by default in the columns of CoNLL-U, they are labels.
    features : TemplateSet, text, path, callable or Features, optional
        Feature templates, or a feature function: it maps a `Sentence` to a list with the attributes
        of each token, a list of strings or a dict. It sees the columns without `target`, and the
        labels of `reads` as columns by their tapes. Data with columns needs either.
    structure : Chain, optional
        The label histories and the weights of the model.
    order : {0, 1, 2}, optional
        How many earlier labels a label depends on; by default 1. ``Chain(order=…)`` is the same.
    scheme : str, optional
        The scheme of the labels, such as "iob2", whose illegal transitions are left out;
        ``Chain(scheme=…)`` is the same.
    tape : str, optional
        Name of the tape that is written; the target's name, else ``"label"``.
    grammar : Grammar, optional
        A hard grammar that becomes part of the tagger's structure: training normalises over
        the label sequences that it accepts, and others never have a probability. Sentences without
        tokens have a labelling if it accepts the empty one. ``tagger & grammar`` constrains a
        trained tagger.
    reads : sequence of CRF, or Reads
        Earlier taggers whose labels the features see: their own predictions on `data`.
    start : CRF, optional
        Training starts from its weights. Its labels and attributes are kept; new ones are added.
    dev : Corpus, sequence of sentences, or Dev, optional
        Held-out data: scored after each iteration; the best iteration is kept.
    objective : {"likelihood", "mce", "mce-f"} or ObjectiveSettings
        The objective: "mce" a smooth count of sentences with an error, "mce-f" a smooth F of
        spans; both compare the gold labels with the best others (Suzuki et al. 2006). They are not
        convex: `start` is usually a model of the likelihood.
    method : str or MethodSettings
        The penalised likelihood by L-BFGS ("lbfgs"), conjugate gradients ("cg"; with the diagonal
        of the Hessian "preconditioned-cg", for the first iterations only "mixed-cg"), generalised
        iterative scaling ("gis"), QuickProp ("quickprop") or stochastic gradients ("asgd", whose
        weights are averaged, is the fastest to a good model; "l2sgd" is CRFsuite's; "gpd" for the
        objectives that count errors, which "lbfgs" and "quickprop" train, too); the averaged
        perceptron ("ap"), passive-aggressive ("pa") and "arow" as in CRFsuite; the averaged
        perceptron for a few epochs ("perceptron"). A struct holds the method and its options:
        ``training.LBFGSOptimiser(memory=5)``.
    l2 : float, optional
        Strength of the penalty l2 · |weights|² (CRFsuite's c2), of methods that have one.
    max_iterations : int, optional
        Most iterations; the default depends on the method.
    run : Run, optional
        Threads, the random seed, progress, checkpoints, executors.

    Returns
    -------
    CRF

    Raises
    ------
    DataError, TemplateError, OptionError, LabelError
        Invalid data, templates or options.
    GrammarError
        A grammar that does not go with the labels, or has scores.
    NumericError
        Training diverged at once.
    """
    call = TrainingCall.of(locals())
    in_parts = call.run.executor is not None or call.run.memory_limit is not None
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
    start: CRF | None
    run: Run

    @classmethod
    def of(cls, arguments: Mapping[str, Any]) -> TrainingCall:
        """Check the arguments of `train_crf`."""
        run = arguments["run"] or Run()
        flat = {"reads": (), **flat_options({**arguments, "run": run})}
        _check_kinds(flat)
        options = checked_options(
            {option: flat[option] for option in DEFAULTS if option in flat},
            reads=bool(flat["reads"]),
            dev="dev" in flat,
            start="start" in flat,
        )
        target = flat.get("target")
        if target is None:
            raise OptionError(
                "no target: give the name of the label column, or one list of labels per sentence"
            )
        if not isinstance(arguments["data"], CorpusFiles):
            check_text(arguments["data"])
        if "dev" in flat:
            check_text(flat["dev"], "the held-out text")
        if run.checkpoint is not None:
            check_checkpoint(run.checkpoint, every=run.checkpoint_every, resume=run.resume)
        tape = flat.get("tape") or (target if isinstance(target, str) else "label")
        _check_reads(flat["reads"], tape)
        template = flat.get("template")
        if template is not None and not callable(template):
            template = flat["template"] = as_templates(template)
            check_reads(template.tapes, flat["reads"])
        values: dict[str, Any] = {
            **{field.name: flat.get(field.name) for field in fields(cls)},
            "settings": with_partial(options, flat["data"], target),
            "tape": tape,
            "run": run,
        }
        return cls(**values)


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
        optimiser,
        max_iterations=settings.method.max_iterations,
        patience=settings.patience,
        run=run,
        fingerprint=fingerprint,
        evaluate=evaluate,
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


def checked_gold(
    call: TrainingCall, labels: Sequence[str], unknown: UnknownLabels, note: str
) -> list[list[str]] | None:
    """Warn of illegal and unknown labels of a text; return the held-out labels, checked."""
    text = unknown.warning(call.target, call.settings, explicit=call.partial is not None)
    for warning in filter(None, (note, text)):
        warn(warning, LabelWarning)
    gold = held_out_labels(call.dev, call.dev_target, call.target, call.settings)
    check_held_out(gold, labels, call.settings)
    return gold


def _train_in_memory(call: TrainingCall) -> CRF:
    settings, run = call.settings, call.run
    data = _data(call)
    labels = _labels(data, settings, call.start)
    gold = checked_gold(call, labels, UnknownLabels.of(data.gold, labels), data.note)
    problem = _problem(data, labels, call)
    if not settings.method.free_of_units and (largest := uneven(problem)):
        row, size, arc = largest
        warn(
            f"attribute {data.index.attribute(row, arc=arc)!r} has values of about {size:.0e}: "
            f"steps of method {settings.method.name!r} have one length for all weights, and may "
            "end far from the best ones; give values of about 1, or train with method 'lbfgs' "
            "without stochastic_epochs",
            LearningWarning,
        )
    space, theta = _space(problem, data, settings, call.start)
    start = TrainingRun(problem, space, theta, settings.objective, settings.seed, run.threads)
    added = settings.method.memory_of(start)
    release()  # the memory of reading and counting
    announce_memory(run, added, space.size)
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
    present = set(labels_for(corpus, record))
    flat: dict[str, Any] = options_of(options)
    flat.pop("patience", None)  # there is no held-out data
    if isinstance(tagger.index, FunctionIndex):
        flat["template"] = tagger.index.function
    else:
        flat["template"] = cast("FeatureIndex", tagger.index).templates  # checked before
    flat |= {
        "reads": ordered(reads, tapes_read(tagger.index)),
        "tape": tagger.tape,
        "class_weights": {k: w for k, w in record.class_weights.items() if k in present} or None,
        "threads": threads,
        "report": report,
        "target": str(record.target),
    }
    return train_crf(corpus, **structured(flat))


def _data(call: TrainingCall) -> TrainingData:
    """Read the text of a call, and label it with earlier taggers."""
    base = call.start

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


def _labels(data: TrainingData, settings: Options, start: CRF | None) -> Sequence[str]:
    start_labels = () if start is None else start.labels
    strings = without_unused(data.gold).values
    labels = label_set(strings, partial=settings.reads_sets, earlier=start_labels)
    needed, available = label_bytes(len(labels), int(data.offsets[-1])), free_memory()
    if available is not None and needed > available:
        raise OptionError(
            f"{len(labels):,} labels, such as {labels[0]!r}: all pairs of them, and which each "
            f"token may have, take {needed / 1e9:,.0f} GB of memory, {available / 1e9:,.1f} GB are "
            "free: is the target the right column?"
        )
    return merged_labels(start_labels, labels)


def _problem(data: TrainingData, labels: Sequence[str], call: TrainingCall) -> Problem:
    settings = call.settings
    allowed = allowed_labels(data.gold, labels, partial=settings.reads_sets)
    rows = data.design.node, data.design.arc
    weight = sentence_weights(data, allowed, labels, call.weights, call.class_weights)
    topology = structure(labels, settings, lambda: successions(allowed, data.offsets), call.grammar)
    try:
        problem = Problem(topology, data.offsets, *rows, allowed, weight)
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
    problem: Problem, data: TrainingData, settings: Options, start: CRF | None
) -> tuple[ParameterSpace, Floats]:
    if isinstance(data.index, FeatureIndex):
        check_pairs(data.index, problem.topology, settings)
    space = parameter_space(
        problem,
        features=settings.pairs,
        transitions=settings.transitions if data.transitions else "none",
        ends=settings.ends,
    )
    if settings.min_frequency is not None:
        problem.require_known("min_frequency cannot count them")
        counts = Evidence.of(problem, space).observed()
        space = counted_often(space, counts, settings.min_frequency)
    if start is not None:
        return warm_theta(start.space, start.theta, data.index, space)
    return space, np.zeros(space.size)


def _check_kinds(options: Mapping[str, object]) -> None:
    tape, start, reads = (options.get(name) for name in ("tape", "start", "reads"))
    template = options.get("template")
    if not isinstance(template, TemplateSet | str | os.PathLike | None) and not callable(template):
        raise OptionError(f"features is {template!r}, expected templates, a path or a function")
    if not isinstance(tape, str | None):
        raise OptionError(f"tape is {tape!r}, expected a name, or None")
    if not isinstance(start, CRF | None):
        raise OptionError(f"start is {start!r}, expected a tagger")
    if not isinstance(reads, Sequence) or not all(isinstance(tagger, CRF) for tagger in reads):
        raise OptionError(f"reads is {reads!r}, expected a list of taggers")


def _check_reads(reads: Sequence[CRF], tape: str) -> None:
    if any(tagger.tape == tape for tagger in reads):
        raise OptionError(
            f"tape {tape!r} is already read by the tagger: give the new tape another "
            "name with tape="
        )
