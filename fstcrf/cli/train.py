"""``fstcrf train``: files to a saved model.

=====  =============
train  the command
=====  =============
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fstcrf.cli.models import (
    grammar_of,
    save,
    save_interrupted,
    spare_inputs,
    tagger,
    warn_of_earlier,
)
from fstcrf.cli.options import (
    Assignment,
    CommaList,
    check_training,
    given_options,
    in_flags,
    input_options,
    method_options,
    threads_option,
)
from fstcrf.cli.reporting import (
    INTERRUPTED,
    STOPPING,
    Failure,
    Reporter,
    reporter,
    stopping,
    warnings_to,
)
from fstcrf.cli.sources import training_input
from fstcrf.interruption import undisturbed

if TYPE_CHECKING:
    from fstcrf.corpus import Corpus
    from fstcrf.joint import CRF

__all__ = [
    "train",
    "train_line",
]

_CHECKPOINT_EVERY = 10


@click.command()
@click.argument("paths", metavar="TRAIN...", nargs=-1, required=True)
@click.option("-o", "--output", metavar="MODEL", required=True, help="Where the model goes.")
@input_options
@click.option(
    "--feature-columns", type=CommaList(), help="Features of CoNLL-U that become columns."
)
@click.option("--target", metavar="COLUMN", required=True, help="Column of the labels.")
@click.option("--template", metavar="FILE", required=True, help="Feature templates, as of CRF++.")
@click.option(
    "--order",
    metavar="0|1|2",
    type=click.IntRange(0, 2),
    default=1,
    show_default=True,
    help="How many earlier labels a label depends on.",
)
@click.option(
    "--objective",
    type=click.Choice(["likelihood", "mce", "mce-f"]),
    default="likelihood",
    show_default=True,
    help="What is optimised: the likelihood; a smooth count of sentences with an error (mce); a "
    "smooth F of spans (mce-f). The last two start best from a model (--warm-start).",
)
@click.option(
    "--method",
    type=click.Choice(
        [
            *("lbfgs", "cg", "preconditioned-cg", "mixed-cg", "gis", "quickprop"),
            *("l2sgd", "gpd", "ap", "pa", "arow", "perceptron"),
        ]
    ),
    default="lbfgs",
    show_default=True,
    help="How the weights are found: the likelihood by L-BFGS, conjugate gradients, iterative "
    "scaling (gis), quickprop or stochastic gradients (l2sgd); mce and mce-f by lbfgs, quickprop "
    "or stochastic gradients (gpd); ap, pa and arow are CRFsuite's, perceptron is ap for a few "
    "iterations.",
)
@click.option(
    "--l2",
    metavar="X",
    type=click.FloatRange(min=0),
    default=0.5,
    show_default=True,
    help="Strength of the penalty l2·|weights|² (CRFsuite's c2).",
)
@click.option(
    "--l1",
    metavar="X",
    type=click.FloatRange(min=0),
    default=0.0,
    show_default=True,
    help="Strength of the penalty l1·sum |weights| (CRFsuite's c1), which makes many of them zero.",
)
@method_options
@click.option(
    "--features",
    type=click.Choice(["supported", "complete"]),
    default="supported",
    show_default=True,
    help="Weights of the pairs of attribute and label that occur, or of all.",
)
@click.option(
    "--transitions",
    type=click.Choice(["observed", "all"]),
    default="observed",
    show_default=True,
    help="Weights of the label pairs that occur, or of all.",
)
@click.option(
    "--min-count",
    metavar="N",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Drop attributes that fewer tokens have.",
)
@click.option(
    "--min-frequency",
    metavar="X",
    type=float,
    help="Drop weights whose attribute and label, or label pair, occur less often together.",
)
@click.option("--hash-bits", metavar="K", type=int, help="Hash the attributes into 2^K rows.")
@click.option(
    "--boundary",
    type=click.Choice(["pad", "skip"]),
    default="pad",
    show_default=True,
    help="Beyond the sentence: attributes like _B-1, or none.",
)
@click.option(
    "--scheme",
    metavar="[FROM:]SCHEME",
    help="Leave out label pairs that are illegal in iob1, iob2 (bio), bioes (iobes) or bilou, or "
    "that are not observed. iob1:iob2 converts the gold labels from the first to the second.",
)
@click.option(
    "--on-illegal",
    type=click.Choice(["error", "repair", "skip"]),
    default="error",
    show_default=True,
    help="Gold labels that break --scheme: stop; take the spans that conlleval reads in them; "
    "leave their sentences out.",
)
@click.option(
    "--start-label",
    metavar="LABEL",
    help="Order 2: the label taken to precede a sentence.  [default: O where there is one]",
)
@click.option("--ends", is_flag=True, help="Weights for the first and the last label.")
@click.option("--dev", metavar="FILE", help="Held-out data: keep the best iteration on it.")
@click.option(
    "--patience",
    metavar="N",
    type=click.IntRange(min=1),
    default=10,
    show_default=True,
    help="Stop after so many iterations that are no better on --dev.",
)
@click.option(
    "--max-iterations",
    metavar="N",
    type=click.IntRange(min=1),
    help="Most iterations.  [default: ap, pa, arow 100, gpd 30, perceptron 10, else 1000]",
)
@click.option(
    "--grammar",
    metavar="FILE",
    multiple=True,
    help="A hard .grm grammar, or the name of one that comes with fstcrf, that becomes part of the "
    "tagger. Repeatable.",
)
@click.option(
    "--reads",
    metavar="MODEL",
    multiple=True,
    help="An earlier tagger, whose labels %y[0,TAPE] reads. Repeatable.",
)
@click.option(
    "--jackknife",
    metavar="K",
    type=click.IntRange(min=2),
    help="Cut TRAIN into K folds; the taggers of --reads, trained again on the others, label each.",
)
@click.option(
    "--passing",
    type=click.Choice(["best", "nbest", "marginals"]),
    default="best",
    show_default=True,
    help="What the taggers of --reads pass on: their best labels; several labellings, each by its "
    "probability; the probability of each label, as the value of the attributes that read it.",
)
@click.option(
    "--candidates",
    metavar="N",
    type=click.IntRange(min=1),
    default=5,
    show_default=True,
    help="How many labellings --passing nbest takes.",
)
@click.option("--tape", metavar="NAME", help="Name of the labels it writes.  [default: target]")
@click.option("--warm-start", metavar="MODEL", help="Start from the weights of a model.")
@click.option(
    "--class-weight",
    type=Assignment(),
    multiple=True,
    help="Weight of sentences with this label. Repeatable.",
)
@click.option(
    "--whole-labels",
    is_flag=True,
    help="Read _ and a|b in the target as labels, not as unknown and as either.",
)
@click.option(
    "--checkpoint",
    metavar="FILE",
    help="File for the state of training; it is kept, and never overwritten without --resume.  "
    "[default: MODEL.checkpoint, removed at the end]",
)
@click.option(
    "--checkpoint-every",
    metavar="N",
    type=click.IntRange(min=1),
    help="Save the state every N iterations, not only on Ctrl-C.  "
    f"[default: {_CHECKPOINT_EVERY} with --checkpoint or --resume]",
)
@click.option(
    "--resume", is_flag=True, help="Go on from the saved state, from the start where there is none."
)
@threads_option
@click.option(
    "--seed",
    metavar="N",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Of the order of sentences, where the method shuffles them.",
)
@click.option("--log-json", is_flag=True, help="Progress as JSON lines on standard error.")
def train(paths: tuple[str, ...], output: str, **given: Any) -> None:
    """Train a tagger.

    Column files have one token a line, a blank line after each sentence, and may be gzipped; "-"
    is standard input. Files called .conllu are read as CoNLL-U. Progress goes to standard error.

    Ctrl-C ends training after the iteration that it comes in, a second one at once. The state of
    training is then in MODEL.checkpoint, for --resume to go on from, and the best model so far is
    in MODEL, unless that is there: an interrupted run replaces nothing but its own earlier model.

    \b
    fstcrf train train.txt -o chunk.fstcrf --columns word,pos,chunk \\
        --target chunk --template chunk.tpl
    """
    from fstcrf.corpus import check_writable, concatenated

    started, context = time.perf_counter(), click.get_current_context()
    command, given = context.command, given_options(context, given)
    with in_flags(command):
        check_training(given)
    source = training_input(
        paths,
        columns=given.pop("columns"),
        kind=given.pop("kind"),
        separator=given.pop("separator"),
        features=given.pop("feature_columns"),
    )
    spare_inputs(output, [*paths, given["dev"], given["template"], *given["reads"]])
    check_writable(output)
    checkpoint, kept = _checkpoint(given, output, command)
    as_json, limit = given.pop("log_json"), given.get("max_iterations")
    with reporter(as_json=as_json, max_iterations=limit) as told:
        _tell_where_it_begins(told, output, checkpoint, resume=given["resume"])
        data = concatenated([source.read(path) for path in paths])
        told.data(
            f"read {len(data):,} sentences, {data.n_tokens:,} tokens from {', '.join(paths)}",
            sentences=len(data),
            tokens=data.n_tokens,
        )
        dev = given.pop("dev")
        held_out = None if dev is None else source.read(dev)
        with in_flags(command), stopping(told.line(STOPPING)), warnings_to(told.data):
            model = _train(data, held_out, told, checkpoint, given)
        _finish(model, output, told, time.perf_counter() - started, checkpoint)
    if not kept:
        Path(checkpoint).unlink(missing_ok=True)


def _checkpoint(given: dict[str, Any], output: str, command: click.Command) -> tuple[str, bool]:
    """Return the file for the state of training, and whether it stays."""
    from fstcrf.train.loop import check_checkpoint

    path = given.pop("checkpoint")
    if given["checkpoint_every"] is None and (path is not None or given["resume"]):
        given["checkpoint_every"] = _CHECKPOINT_EVERY
    used = path or f"{output}.checkpoint"
    with in_flags(command):
        check_checkpoint(used, resume=given["resume"])
    return used, path is not None


def _tell_where_it_begins(told: Reporter, output: str, checkpoint: str, *, resume: bool) -> None:
    """Say where training goes on from, and what it will replace."""
    from fstcrf.train.loop import saved_iteration

    iteration = saved_iteration(checkpoint) if resume else None
    if iteration is not None:
        told.note(f"{checkpoint}: on from iteration {iteration:,}")
    elif resume:
        told.note(f"{checkpoint} is not there, nothing to resume: training begins at the start")
    warn_of_earlier(output, resume=iteration is not None, say=told.note)


def _train(
    data: Corpus, dev: Corpus | None, told: Reporter, checkpoint: str, given: dict[str, Any]
) -> CRF:
    from fstcrf.joint import CRF

    weights = dict(given.pop("class_weight"))
    warm_start = given.pop("warm_start")
    try:
        return CRF.train(
            data,
            given.pop("target"),
            Path(given.pop("template")),
            dev=dev,
            reads=[tagger(path) for path in given.pop("reads")],
            grammar=grammar_of(given.pop("grammar")),
            class_weights=weights or None,
            warm_start=None if warm_start is None else tagger(warm_start),
            report=told.iteration,
            checkpoint=checkpoint,
            keep_on_interrupt=True,
            partial=not given.pop("whole_labels"),
            **given,
        )
    except KeyboardInterrupt:
        message = "interrupted before an iteration ended: nothing is saved"
        if Path(checkpoint).exists():
            message = "interrupted: the same command with --resume goes on"
        raise Failure(message, INTERRUPTED) from None


def _finish(model: CRF, output: str, told: Reporter, seconds: float, checkpoint: str) -> None:
    record = model.record
    if record is None:
        raise Failure("the model has no record of its training")
    if record.interrupted:
        with undisturbed():
            outcome = save_interrupted(model, output, checkpoint)
        raise Failure(f"interrupted: {outcome}", INTERRUPTED)
    with undisturbed():
        save(model, output)
    score = (
        ""
        if record.dev_score is None
        else (f"; dev {100 * record.dev_score:.2f} at iteration {record.best_iteration}")
    )
    told.done(
        f"{output}: {record.parameters:,} weights of {record.attributes:,} attributes and "
        f"{len(model.labels)} labels; {record.iterations} iterations in {seconds:.1f} s "
        f"({record.reason}){score}",
        model=output,
        weights=record.parameters,
        attributes=record.attributes,
        labels=len(model.labels),
        iterations=record.iterations,
        best_iteration=record.best_iteration,
        objective=record.objective,
        dev_score=record.dev_score,
        reason=record.reason,
        seconds=seconds,
    )


# --- The ``fstcrf train`` command that repeats a training -----------------------------------------


def train_line(given: Mapping[str, Any]) -> str:
    """Return the command that trains with options, without those that have their defaults.

    Parameters
    ----------
    given : mapping of str to value
        Values by the names that the options of ``fstcrf train`` have; others are ignored.
    """
    words = ["fstcrf", "train"]
    with click.Context(train) as context:
        for parameter in train.params:
            name = str(parameter.name)
            if isinstance(parameter, click.Argument):
                words += given[name]
            elif isinstance(parameter, click.Option) and name in given:
                usual = parameter.get_default(context)
                words += [] if given[name] == usual else _words(parameter, given[name])
    return shlex.join(words)


def _words(option: click.Option, value: Any) -> list[str]:
    if value is None or value == ():
        return []
    if option.is_flag:
        return [*option.opts[:1]] if value else option.secondary_opts[:1]
    name = "-o" if "-o" in option.opts else option.opts[0]
    if option.multiple:
        return [word for one in value for word in (name, _text(one, between="="))]
    return [name, _text(value)]


def _text(value: Any, *, between: str = ",") -> str:
    if isinstance(value, tuple):
        return between.join(map(_text, value))
    return repr(value) if isinstance(value, float) else str(value)
