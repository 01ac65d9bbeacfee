"""Documents as a whole: ``fstcrf tag --documents``, and the penalties that it reads."""

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
    flag_named,
    input_options,
    output_option,
    setting,
    shown,
    shown_output,
    with_options,
    written_path,
)
from fstcrf.cli.progress import Meter
from fstcrf.cli.questions import label_biases, shown_names
from fstcrf.cli.reporting import say
from fstcrf.cli.sources import InputFile, training_input
from fstcrf.cli.structures import STRUCTURE, structure_command
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
        "--documents",
        "document_consistency",
        metavar="FILE",
        multiple=True,
        help="Decide documents as a whole, with these penalties. Repeatable.",
    ),
    setting(
        "sweeps",
        click.IntRange(min=1),
        None,
        "Sweeps of --documents over each document, cooling down.  [default: 200]",
        metavar="N",
    ),
    setting(
        "schedule",
        click.Choice(["linear", "exponential", "geometric", "constant"]),
        None,
        "How the sampling cools down; constant: not at all, which is no search.  [default: linear]",
    ),
    setting(
        "draw",
        click.Choice(["token", "sentence", "mixed"]),
        None,
        "Unit of one draw: a label, all labels of a sentence, or both in turns.  [default: mixed]",
    ),
    setting(
        "initial",
        click.Choice(["viterbi", "random"]),
        None,
        "The labels before the first sweep: the tagger's best ones, or any.  [default: viterbi]",
        parameter="start",
    ),
    setting(
        "take",
        click.Choice(["best", "last"]),
        None,
        "Return the best labels of all sweeps, or the labels of the last sweep.  [default: best]",
    ),
    setting(
        "chains",
        click.IntRange(min=1),
        None,
        "How often each document is sampled; the best labels are taken.  [default: 1]",
        metavar="N",
    ),
    setting("seed", click.IntRange(min=0), None, "Random seed.  [default: 0]", metavar="N"),
)
_SENTENCES = {
    **dict.fromkeys(("nbest", "decode", "search", "max_states", "max_seconds")),
    **dict.fromkeys(("min_confidence", "calibration")),
    **dict.fromkeys(("probabilities", "marginals", "confidence", "span_probabilities"), False),
    "threads": 1,
}
"""Options of decoding sentences that sampling has not, and their defaults."""
_ALONE = ("sweeps", "schedule", "draw", "start", "take", "chains", "seed")


def document_options(command: Command) -> Command:
    """Add ``--documents`` and the settings of sampling."""
    return with_options(_OPTIONS, command)


def check_alone(given: dict[str, Any]) -> None:
    """Refuse options of sampling."""
    for name in _ALONE:
        if given[name] is not None:
            setting_name = "initial" if name == "start" else name
            raise click.UsageError(f"--set {setting_name} belongs to --documents")


def tag_documents(
    model: Model, source: InputFile, path: str, output: str, given: dict[str, Any]
) -> Outcomes:
    """Tag documents as a whole, by saved models of consistency or of fields."""
    for name, usual in _SENTENCES.items():
        if given[name] != usual and (name, given[name]) != ("decode", "joint"):
            raise click.UsageError(f"{flag_named(name)} cannot go with --documents")
    if not isinstance(model, CRF | JointCRF):
        raise click.UsageError("--documents is for taggers of tokens, not of segments")
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
        "tapes": shown_names(given["names"], tagger.tapes),
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


# --- ``fstcrf train --structure consistency`` -----------------------------------------------------

_COMPARE = setting("compare", str, "word", "The column that is compared.", metavar="COLUMN")
_TAPE = setting("tape", str, None, "Tape to look at, if there are several.", metavar="TAPE")


@structure_command
@click.argument("path", metavar="TRAIN")
@output_option("OUT", "the penalties, as JSON; - is standard output", required=True)
@STRUCTURE
@input_options
@click.option("--target", metavar="COLUMN", required=True, help="Column of the gold labels.")
@_COMPARE
@shown("--scheme", None, SCHEME, "iob2", "Scheme of the labels.")
@_TAPE
@setting("ignore_case", bool, False, "Compare strings in lower case.")  # noqa: FBT003
@setting(
    "incomplete",
    bool,
    False,  # noqa: FBT003
    "Also estimate penalties for a span whose tokens are part of a longer span elsewhere.",
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
    """Estimate how unlikely it is that one phrase has two types in a document.

    fstcrf tag --documents reads the penalties. A line -DOCSTART- begins a document.

    \b
    fstcrf train train.txt -o names.json --structure consistency \\
        --columns word,pos,chunk,ner --target ner --scheme iob1
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


# --- ``fstcrf train --structure fields`` ----------------------------------------------------------


@structure_command
@output_option("OUT", "the penalties, as JSON; - is standard output", required=True)
@STRUCTURE
@click.option(
    "--differing",
    metavar="TYPE VALUE PENALTY",
    type=(str, click.Choice(["clock", "text"]), float),
    multiple=True,
    help="Penalise two spans of a type with different values: times (clock) or words (text). The "
    "penalty, a natural log of at most 0, counts for each token of both spans. Repeatable.",
)
@setting(
    "count_values",
    bool,
    False,  # noqa: FBT003
    "Charge a span once per conflicting value, not once per conflicting span.",
)
@click.option(
    "--unlabelled",
    metavar="TYPE PENALTY",
    type=(str, float),
    multiple=True,
    help="Penalise the last word of a span of a type elsewhere without that type. Repeatable.",
)
@setting(
    "seminars",
    bool,
    False,  # noqa: FBT003
    "The model of Finkel et al. (2005): stime and etime by the clock, speaker unlabelled, -4 each.",
)
@_COMPARE
@_TAPE
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
    """Write penalties for fields that disagree within a document.

    fstcrf tag --documents reads them. They are given here, not estimated.

    \b
    fstcrf train --structure fields -o fields.json \\
        --differing stime clock -4 --unlabelled speaker -4
    """
    if not (differing or unlabelled or seminars):
        raise click.UsageError(
            "no penalty is given: give --differing, --unlabelled or --set seminars=true"
        )
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
