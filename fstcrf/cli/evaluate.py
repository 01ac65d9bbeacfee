"""``fstcrf eval``: precision, recall, F and accuracy of a model or of labels in files.

========  =============
evaluate  the command
========  =============
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from fstcrf.cli.failures import say
from fstcrf.cli.options import input_options, threads_option
from fstcrf.cli.sources import model_input, scored_input, tagger
from fstcrf.errors import DataError

if TYPE_CHECKING:
    from fstcrf.evaluate import SpanReport, TokenReport

__all__ = ["evaluate"]

_NAMED = 5


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
@click.option("--target", metavar="COLUMN", help="Column of the labels wanted.")
@click.option("--pred-column", metavar="COLUMN", help="Column of the labels found.")
@click.option(
    "--spans/--tokens",
    "as_spans",
    default=None,
    help="Score spans or single labels.  [default: spans where labels look like B-NP]",
)
@click.option(
    "--scheme",
    type=click.Choice(["conlleval", "iob1", "iob2", "bioes", "bilou"]),
    default="conlleval",
    show_default=True,
    help="Scheme of the labels.",
)
@click.option(
    "--strict",
    is_flag=True,
    help="Count no span that breaks --scheme, instead of reading it as conlleval does.",
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
    as_json: bool,
    threads: int,
) -> None:
    """Score a model on a file, or labels in files, with conlleval's numbers.

    Labels stand in the last column, where no option says otherwise. Columns are called 0, 1, ...
    where --columns does not name them; it names those of TEST, of --gold, or of --pred alone.

    \b
    fstcrf eval chunk.fstcrf test.txt
    fstcrf eval --gold test.txt --pred tagged.txt
    fstcrf eval --pred tagged.txt
    """
    from fstcrf.evaluate import SpanReport

    how = {"columns": columns, "kind": kind, "separator": separator}
    if model_path is not None and path is not None and not (gold or pred or pred_column):
        labels = _of_model(model_path, path, how, target, threads)
    elif model_path is None and pred is not None:
        labels = _of_files(gold, pred, how, target, pred_column)
    else:
        raise click.UsageError("give MODEL TEST, or --gold FILE --pred FILE, or --pred FILE")
    report = _report(labels, as_spans=as_spans, scheme=scheme, strict=strict)
    if as_json:
        click.echo(json.dumps(report.to_dict(), ensure_ascii=False))
        return
    click.echo(str(report))
    if isinstance(report, SpanReport):
        share = 100 * report.sentence_accuracy
        click.echo(f"sentences: {report.sentences}; all labels right: {share:6.2f}%")


def _of_model(
    model_path: str, path: str, how: dict[str, Any], target: str | None, threads: int
) -> _Labels:
    model = tagger(model_path)
    name = target or model.tape
    data = model_input(model, target=name, **how).read(path)
    gold = data.column_lists(name)
    _warn_of_unseen(gold, model.labels)
    return _Labels(gold, model.tag_all(data, threads=threads))


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
