"""Documents as a whole: ``fstcrf tag --document-consistency``, and the models that it takes."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import click

from fstcrf.cli.models import Model, tape_columns
from fstcrf.cli.options import (
    SCHEME,
    Command,
    check_outputs,
    input_options,
    shown_output,
    with_options,
    written_path,
)
from fstcrf.cli.progress import Meter
from fstcrf.cli.questions import label_biases, shown_names
from fstcrf.cli.reporting import say
from fstcrf.cli.sources import InputFile, training_input
from fstcrf.cli.tagging import NOTHING, Outcomes, done_of, joined, placed, write_tagged
from fstcrf.errors import DataError, NoPathError, SchemeError
from fstcrf.ext import documents as library
from fstcrf.files import Source
from fstcrf.taggers import CRF, JointCRF
from fstcrf.text.corpus import Column, Corpus, named_scheme, spans
from fstcrf.text.corpus.batches import whole_documents

_RUN_TOKENS = 2_000

_OPTIONS = (
    click.option(
        "--document-consistency",
        metavar="CONSISTENCY",
        multiple=True,
        help=(
            "Decide each document as a whole, by Gibbs sampling, with a model of fstcrf "
            "consistency (penalties for several types of one phrase) or of fstcrf fields "
            "(penalties for conflicting fields). Repeatable. A line -DOCSTART- begins a "
            "document."
        ),
    ),
    click.option(
        "--sweeps",
        metavar="N",
        type=click.IntRange(min=1),
        help="How often each document is sampled, cooling down.  [default: 200]",
    ),
    click.option(
        "--schedule",
        type=click.Choice(["linear", "exponential", "geometric", "constant"]),
        help="How it cools down; constant: not at all, which is no search.  [default: linear]",
    ),
    click.option(
        "--draw",
        type=click.Choice(["token", "sentence", "mixed"]),
        help=(
            "Unit of one draw: a label, all labels of a sentence, or both in turns.  "
            "[default: mixed]"
        ),
    ),
    click.option(
        "--start",
        type=click.Choice(["viterbi", "random"]),
        help="The labels before the first sweep: the tagger's best ones, or any.  "
        "[default: viterbi]",
    ),
    click.option(
        "--take",
        type=click.Choice(["best", "last"]),
        help=(
            "Return the best labels of all sweeps, or the labels of the last sweep.  "
            "[default: best]"
        ),
    ),
    click.option(
        "--chains",
        metavar="N",
        type=click.IntRange(min=1),
        help="How often all of that is done; the best labels are taken.  [default: 1]",
    ),
    click.option(
        "--seed", metavar="N", type=click.IntRange(min=0), help="Of the sampling.  [default: 0]"
    ),
)
_SENTENCES = {
    **dict.fromkeys(("nbest", "decode", "joint", "search", "max_states", "max_seconds")),
    **dict.fromkeys(("min_confidence", "calibration")),
    **dict.fromkeys(("probabilities", "marginals", "confidence", "span_probabilities"), False),
    "threads": 1,
}
"""Options of decoding sentences that sampling has not, and their defaults."""
_OUTPUT = click.option(
    "-o",
    "--output",
    metavar="OUT",
    required=True,
    help="File for the model, as JSON; - for stdout.",
)
_ALONE = ("sweeps", "schedule", "draw", "start", "take", "chains", "seed")


def document_options(command: Command) -> Command:
    """Add ``--document-consistency`` and the options of sampling."""
    return with_options(_OPTIONS, command)


def check_alone(given: dict[str, Any]) -> None:
    """Refuse options of sampling."""
    for name in _ALONE:
        if given[name] is not None:
            raise click.UsageError(f"--{name} belongs to --document-consistency")


def tag_documents(
    model: Model, source: InputFile, path: str, output: str, given: dict[str, Any]
) -> Outcomes:
    """Tag documents as a whole, by saved models of consistency or of fields."""
    for name, usual in _SENTENCES.items():
        if given[name] != usual:
            flag = "cascade" if name == "joint" else name.replace("_", "-")
            if (name, given[name]) not in (("joint", True), ("decode", "joint")):
                raise click.UsageError(f"--{flag} cannot go with --document-consistency")
    if not isinstance(model, CRF | JointCRF):
        raise click.UsageError("--document-consistency is for taggers of tokens, not of segments")
    tagger = library.DocumentTagger(
        model,
        [library.scores.load(path) for path in given["document_consistency"]],
        library.Annealing(given["sweeps"] or 200, given["schedule"] or "linear"),
        sweeps=given["draw"] or "mixed",
        start=given["start"] or "viterbi",
        chains=given["chains"] or 1,
        take=given["take"] or "best",
        seed=given["seed"] or 0,
    )
    force, outcomes, done = given["force"], Outcomes(), 0
    asked: Any = {
        "forced": None if force is None else tape_columns("--force", force, tagger.tapes),
        "bias": label_biases(given["bias"], tagger.tapes) or None,
        "on_no_path": given["on_no_path"],
        "tapes": shown_names("tape", given["names"], tagger.tapes),
    }

    def answer(batch: Corpus, meter: Meter) -> tuple[Column, ...]:
        nonlocal done
        parts = []
        for start, end in _runs(batch):
            run = batch[start:end]
            try:
                found = tagger.decode(run, first=done, **asked)
            except NoPathError as error:
                raise placed(error, run) from None
            done += len(run.document_slices())
            found.exact[:] = True  # samples are not counted as searches that were cut short
            outcomes.add(found)
            done_of(meter, batch, end, len(run))
            parts.append([found[tape].column(missing=NOTHING) for tape in found.tapes])
        return tuple(joined(parts))

    known = {field.name: getattr(source, field.name) for field in dataclasses.fields(source)}
    names = asked["tapes"] or tagger.tapes
    write_tagged(answer, _WholeDocuments(**known), path, output, names)
    return outcomes


def _runs(batch: Corpus) -> Iterator[tuple[int, int]]:
    """Yield the bounds of runs of whole documents, so small that one hears how far they are."""
    start = end = 0
    for document in batch.document_slices():
        end = document.stop
        if batch.offsets[end] - batch.offsets[start] >= _RUN_TOKENS:
            yield start, end
            start = end
    if start < len(batch):
        yield start, end


@dataclass(frozen=True, slots=True)
class _WholeDocuments(InputFile):
    """An input whose batches end where documents do."""

    def stream(self, path: Source) -> Iterator[Corpus]:
        """Read a file of any size, some documents at a time."""
        begun: bool | None = None  # there are no sentences
        for batch in whole_documents(InputFile.stream(self, path)):
            begun = bool(begun or any(batch.document_headers) or batch.documents[-1] > 0)
            yield batch
        if begun is False:
            say("warning: no lines -DOCSTART-: the input was decided as one document")


# --- ``fstcrf consistency`` -----------------------------------------------------------------------


@click.command()
@click.argument("path", metavar="TRAIN")
@_OUTPUT
@input_options
@click.option("--target", metavar="COLUMN", required=True, help="The column of gold labels.")
@click.option(
    "--compare",
    metavar="COLUMN",
    default="word",
    show_default=True,
    help="The column whose strings are compared.",
)
@click.option(
    "--scheme",
    type=SCHEME,
    default="iob2",
    show_default=True,
    help="Of the gold labels: io, iob1, iob2 (bio), bioes (iobes), bilou, bmes, bmewo or "
    "conlleval.",
)
@click.option("--tape", metavar="TAPE", help="The tape to look at, of models with several.")
@click.option("--ignore-case", is_flag=True, help="Compare strings in lower case.")
@click.option(
    "--incomplete",
    is_flag=True,
    help=("Also estimate penalties for a span whose tokens are part of a longer span elsewhere."),
)
def consistency(
    path: str,
    *,
    output: str,
    columns: tuple[str, ...] | None,
    kind: str | None,
    separator: str,
    target: str,
    compare: str,
    scheme: str,
    tape: str | None,
    ignore_case: bool,
    incomplete: bool,
) -> None:
    """Estimate penalties for one token sequence with several types in a document.

    For fstcrf tag --document-consistency. Lines -DOCSTART- begin documents.

    \b
    fstcrf consistency train.txt -o names.json --columns word,pos,chunk,ner --target ner \\
        --scheme iob1
    """
    check_outputs({"--output": output}, [path], text=("--output",))
    how = {"columns": columns, "kind": kind, "separator": separator, "target": target}
    source = training_input([path], how)
    corpus = source.read(path)
    _warn_of_scheme(corpus, target, scheme)
    model = library.Consistency.estimate(
        corpus, target, column=compare, tape=tape, ignore_case=ignore_case, incomplete=incomplete
    )
    model.save(written_path(output))
    slices, where = len(corpus.document_slices()), shown_output(output)
    say(f"{slices:,} documents, {len(model.violations)} types of violations: {where}")


def _warn_of_scheme(corpus: Corpus, target: str, scheme: str) -> None:
    """Report the first label that breaks the scheme, and the number of such sentences."""
    faults: list[tuple[int, SchemeError]] = []
    strict = named_scheme(scheme).strict  # else every label is read
    for number, labels in enumerate(corpus.column_lists(target) if strict else ()):
        try:
            spans(labels, scheme, illegal="raise")
        except SchemeError as error:
            faults.append((int(corpus.offsets[number]) + (error.token or 0), error))
    if faults:
        token, first = faults[0]
        message = (
            f"{first.message}, the first of {len(faults):,} of {len(corpus):,} sentences whose "
            f"labels are no {scheme}: their spans are read as conlleval does"
        )
        say(f"warning: {DataError(message, **corpus.where(token))}")


# --- ``fstcrf fields`` ----------------------------------------------------------------------------


@click.command()
@_OUTPUT
@click.option(
    "--differing",
    metavar="TYPE VALUE PENALTY",
    type=(str, click.Choice(["clock", "text"]), float),
    multiple=True,
    help=(
        "Penalise two spans of a type with different values. clock compares times, text "
        "compares letters and digits. The penalty, a natural log of at most 0, counts for"
        " each token of both spans. Repeatable."
    ),
)
@click.option(
    "--count-values",
    is_flag=True,
    help="Charge a span once per conflicting value, not once per conflicting span.",
)
@click.option(
    "--unlabelled",
    metavar="TYPE PENALTY",
    type=(str, float),
    multiple=True,
    help="The last word of a span of a type is elsewhere without that type. Repeatable.",
)
@click.option(
    "--seminars",
    is_flag=True,
    help="The model of Finkel et al. (2005): stime and etime by the clock, speaker unlabelled, -4 "
    "each.",
)
@click.option(
    "--compare",
    metavar="COLUMN",
    default="word",
    show_default=True,
    help="The column that is read.",
)
@click.option("--tape", metavar="TAPE", help="The tape to look at, of models with several.")
def fields(
    *,
    output: str,
    differing: tuple[tuple[str, str, float], ...],
    count_values: bool,
    unlabelled: tuple[tuple[str, float], ...],
    seminars: bool,
    compare: str,
    tape: str | None,
) -> None:
    """Write a model of fields that agree throughout a document.

    For fstcrf tag --document-consistency. The penalties are given by options, not estimated.

    \b
    fstcrf fields -o fields.json --differing stime clock -4 --unlabelled speaker -4
    """
    if not (differing or unlabelled or seminars):
        raise click.UsageError("no output is chosen: give --differing, --unlabelled or --seminars")
    check_outputs({"--output": output}, text=("--output",))
    counting: library.fields.Counting = "values" if count_values else "pairs"
    known = library.Fields.seminars(counting=counting).violations if seminars else ()
    model = library.Fields(
        [
            *known,
            *(library.Differing(*given, counting) for given in differing),
            *(library.Unlabelled(*given) for given in unlabelled),
        ],
        compare,
        tape,
    )
    _check_signs(model)
    model.save(written_path(output))
    say(f"{len(model.violations)} types of violations: {shown_output(output)}")


def _check_signs(model: library.Fields) -> None:
    """Refuse a penalty that is a reward; most likely its minus is missing."""
    for violation in model.violations:
        if violation.penalty > 0:
            raise click.UsageError(
                f"--{type(violation).__name__.lower()} {violation.type}: the penalty is "
                f"{violation.penalty:g}, which would be a reward; expected at most 0, such as "
                f"{-violation.penalty:g}"
            )
