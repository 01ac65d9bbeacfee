"""``fstcrf eval``: precision, recall, F and accuracy of a model or of labels in files.

========  =============
evaluate  the command
========  =============
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import click

from fstcrf.cli.answers import Counts, Search
from fstcrf.cli.failures import say
from fstcrf.cli.models import load_model, taggers, tape_columns
from fstcrf.cli.options import SchemeName, input_options, threads_option
from fstcrf.cli.sources import model_input, scored_input
from fstcrf.cli.tagging import Wishes, cascaded, tagged
from fstcrf.errors import DataError

if TYPE_CHECKING:
    from fstcrf.evaluate import SpanReport, TokenReport
    from fstcrf.joint import Composition

__all__ = ["evaluate"]

_NAMED = 5
_TOGETHER = ("tokens", "correct", "accuracy", "sentences", "correct_sentences", "sentence_accuracy")


class _Labels(NamedTuple):
    gold: list[list[str]]
    predicted: list[list[str]]


@click.command("eval")
@click.argument("model_path", metavar="[MODEL]", required=False)
@click.argument("path", metavar="[TEST]", required=False)
@click.option("--gold", metavar="FILE", help="Labels wanted.")
@click.option(
    "--pred",
    metavar="FILE",
    help="Labels found; without --gold they stand in its last "
    "column, the labels wanted in the one before.",
)
@input_options
@click.option(
    "--target",
    metavar="COLUMN",
    help="Column of the labels wanted; TAPE=COLUMN,... where there are several tapes.  "
    "[default: called like the tape]",
)
@click.option("--pred-column", metavar="COLUMN", help="Column of the labels found.")
@click.option(
    "--spans/--tokens",
    "as_spans",
    default=None,
    help="Score spans or single labels.  [default: spans where labels look like B-NP]",
)
@click.option(
    "--scheme",
    type=SchemeName(),
    default="conlleval",
    show_default=True,
    help="Scheme of the labels: iob1, iob2 (bio), bioes (iobes), bilou or conlleval.",
)
@click.option(
    "--strict",
    is_flag=True,
    help="Count no span that breaks --scheme, instead of reading it as conlleval does.",
)
@click.option(
    "--joint/--cascade",
    default=True,
    show_default=True,
    help="Decide all tapes of a composition together, or one after the other.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@threads_option
def evaluate(
    model_path: str | None,
    path: str | None,
    *,
    gold: str | None,
    pred: str | None,
    columns: tuple[str, ...] | None,
    kind: str | None,
    separator: str,
    target: str | None,
    pred_column: str | None,
    as_spans: bool | None,
    scheme: str,
    strict: bool,
    joint: bool,
    as_json: bool,
    threads: int,
) -> None:
    """Score a model on a file, or labels in files, with conlleval's numbers.

    Labels stand in the last column, where no option says otherwise. Columns are called 0, 1, ...
    where --columns does not name them; it names those of TEST, of --gold, or of --pred alone. Of a
    composition, each tape is scored on the column of its name, and then all of them together.

    \b
    fstcrf eval chunk.fstcrf test.txt
    fstcrf eval --gold test.txt --pred tagged.txt
    fstcrf eval --pred tagged.txt
    """
    how = {"columns": columns, "kind": kind, "separator": separator}
    score = partial(_report, as_spans=as_spans, scheme=scheme, strict=strict)
    if model_path is not None and path is not None and not (gold or pred or pred_column):
        labels = _of_model(model_path, path, how, target, joint=joint, threads=threads)
    elif model_path is None and pred is not None and joint:
        labels = {"": _of_files(gold, pred, how, target, pred_column)}
    else:
        raise click.UsageError("give MODEL TEST, or --gold FILE --pred FILE, or --pred FILE")
    reports = {tape: score(found) for tape, found in labels.items()}
    if len(reports) > 1:
        _print_tapes(reports, labels, as_json=as_json)
        return
    report = next(iter(reports.values()))
    click.echo(json.dumps(report.to_dict(), ensure_ascii=False) if as_json else _text(report))


def _text(report: SpanReport | TokenReport) -> str:
    from fstcrf.evaluate import SpanReport

    if not isinstance(report, SpanReport):
        return str(report)
    share = 100 * report.sentence_accuracy
    return f"{report}\nsentences: {report.sentences}; all labels right: {share:6.2f}%"


def _print_tapes(
    reports: Mapping[str, SpanReport | TokenReport],
    labels: Mapping[str, _Labels],
    *,
    as_json: bool,
) -> None:
    """Print what was found of each tape, then of all together: a label is that of every tape."""
    from fstcrf.evaluate import evaluate_tokens

    together = evaluate_tokens(*(_joined([pair[k] for pair in labels.values()]) for k in (0, 1)))
    if as_json:
        both = {name: getattr(together, name) for name in _TOGETHER}
        parts = {tape: report.to_dict() for tape, report in reports.items()}
        click.echo(json.dumps({"tapes": parts, "all_tapes": both}, ensure_ascii=False))
        return
    for tape, report in reports.items():
        click.echo(f"tape {tape}\n{_text(report)}\n")
    click.echo(
        f"all tapes\ntokens: {together.tokens}; right on every tape: "
        f"{100 * together.accuracy:6.2f}%\nsentences: {together.sentences}; all labels right: "
        f"{100 * together.sentence_accuracy:6.2f}%"
    )


def _joined(tapes: list[list[list[str]]]) -> list[list[str]]:
    """Return one label a token for the labels of several tapes; no label holds a line end."""
    return [["\n".join(cells) for cells in zip(*s, strict=True)] for s in zip(*tapes, strict=True)]


def _of_model(
    model_path: str,
    path: str,
    how: dict[str, Any],
    target: str | None,
    *,
    joint: bool,
    threads: int,
) -> dict[str, _Labels]:
    """Return the labels wanted and found of each tape."""
    model = load_model(model_path)
    names = [part.tape for part in taggers(model)]
    if not joint and len(names) == 1:
        raise click.UsageError("--cascade is for compositions: the model has one tape")
    columns = {tape: tape for tape in names}
    if target is not None:
        columns |= tape_columns("--target", target, names)
    data = model_input(model, targets=columns.values(), **how).read(path)
    counts = Counts()
    if joint:
        added = tagged(model, data, Wishes(Search(threads=threads)), counts)
    else:
        added = cascaded(cast("Composition", model), data, threads)
    counts.report()
    found = {}
    for part, column in zip(taggers(model), added.columns, strict=False):  # maps come last
        gold = data.column_lists(columns[part.tape])
        _warn_of_unseen(gold, part.labels)
        found[part.tape] = _Labels(gold, data.with_interned("%", column).column_lists("%"))
    return found


def _warn_of_unseen(gold: list[list[str]], known: Iterable[str]) -> None:
    unseen = Counter(label for labels in gold for label in labels)
    for label in known:
        unseen.pop(label, None)
    if unseen:
        named = ", ".join(f"{label} ({n})" for label, n in unseen.most_common(_NAMED))
        more = "" if len(unseen) <= _NAMED else f" and {len(unseen) - _NAMED} more"
        say(f"warning: labels that training never saw count as errors: {named}{more}")


def _of_files(
    gold: str | None, pred: str, how: dict[str, Any], target: str | None, pred_column: str | None
) -> _Labels:
    if gold is None:
        found = scored_input(pred, **how).read(pred)
        names = list(found.columns)
        if len(names) < 2:
            raise DataError(f"{len(names)} column, expected two: wanted, found", path=pred)
        return _Labels(
            found.column_lists(target or names[-2]), found.column_lists(pred_column or names[-1])
        )
    source = scored_input(gold, **how)
    if source.conllu and target is None:
        raise click.UsageError(
            "--target is missing: which column of the CoNLL-U file, such as upos"
        )
    wanted = source.read(gold)
    found = scored_input(pred, **how | {"columns": None}).read(pred)
    return _Labels(
        wanted.column_lists(target or list(wanted.columns)[-1]),
        found.column_lists(pred_column or list(found.columns)[-1]),
    )


def _report(
    labels: _Labels, *, as_spans: bool | None, scheme: str, strict: bool
) -> SpanReport | TokenReport:
    from fstcrf.evaluate import evaluate_spans, evaluate_tokens

    if as_spans is None:
        values = {label for sentence in labels.gold for label in sentence}
        as_spans = any(label[:2] in {"B-", "I-"} for label in values)
    if as_spans:
        return evaluate_spans(labels.gold, labels.predicted, scheme=scheme, strict=strict)
    if strict:
        raise click.UsageError("--strict is about spans")
    return evaluate_tokens(labels.gold, labels.predicted)
