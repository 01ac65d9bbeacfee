"""``fstcrf eval``: precision, recall, F and accuracy of a model or of labels in files."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from fstcrf.arguments import first_twice
from fstcrf.cli.models import (
    Model,
    constrained,
    deciding_by,
    load_deciding,
    pipeline_of,
    taggers,
    tape_columns,
    whole,
)
from fstcrf.cli.options import (
    SCHEME,
    TARGET,
    command,
    decode_option,
    grammar_option,
    input_options,
    shown,
    threads_option,
    weights_option,
)
from fstcrf.cli.progress import progress, progress_option
from fstcrf.cli.reporting import counted as quiet
from fstcrf.cli.reporting import say, warnings_to
from fstcrf.cli.sources import check_columns, gold_labels, model_input, scored_input
from fstcrf.cli.tagging import run_tokens, tagged
from fstcrf.cli.weights import weighted
from fstcrf.errors import DataError
from fstcrf.evaluate import SpanReport, TokenReport, evaluate_spans, evaluate_tokens
from fstcrf.evaluate.labellings import counted, unseen, written_alike
from fstcrf.lazy import LazyModule
from fstcrf.taggers import Composition, JointCRF, Tagger
from fstcrf.text.corpus import Corpus
from fstcrf.text.corpus.schemes import OUTSIDE, has_spans, named_scheme, split_label

if TYPE_CHECKING:
    from fstcrf.ext.pipelines.trained import Decode
    from fstcrf.taggers import pipelines
    from fstcrf.taggers.pipelines import PipelineScore
else:  # most models are no pipelines
    pipelines = LazyModule("fstcrf.taggers.pipelines")

_NAMED = 5
_OF_MODELS = ("decode", "weights", "grammar")
_TOGETHER = ("tokens", "correct", "accuracy", "sentences", "correct_sentences", "sentence_accuracy")


class _Labels(NamedTuple):
    gold: list[list[str]]
    predicted: list[list[str]]


@command("eval")
@click.argument("model_path", metavar="[MODEL]", required=False)
@click.argument("path", metavar="[TEST]", required=False)
@click.option("--gold", metavar="FILE", help="A file with gold labels.")
@click.option(
    "--pred",
    metavar="FILE",
    help="A file with predicted labels. Without --gold, its last columns are the gold and the "
    "predicted labels.",
)
@input_options
@click.option("--target", metavar="[TAPE=]COLUMN,...", help=TARGET)
@click.option("--pred-column", metavar="COLUMN", help="Column of the predicted labels.")
@click.option(
    "--spans/--tokens",
    "as_spans",
    default=None,
    help="Score spans or single labels.  [default: spans if labels look like B-NP]",
)
@shown("--scheme", None, SCHEME, "conlleval", "Scheme of the labels, for --strict.")
@click.option("--strict", is_flag=True, help="Count no span that breaks --scheme.")
@decode_option(multiple=True)
@weights_option
@grammar_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@threads_option
@progress_option
def evaluate(
    model_path: str | None,
    path: str | None,
    *,
    gold: str | None,
    pred: str | None,
    target: str | None,
    pred_column: str | None,
    as_spans: bool | None,
    scheme: str,
    strict: bool,
    as_json: bool,
    **given: Any,
) -> None:
    """Score a model on text with gold labels.

    The scores are as in conlleval. Each tape is scored on the column of its name, then all tapes
    together. --target names another column, or TAPE=COLUMN,... for several tapes. --columns names
    the columns of TEST, of --gold, or of --pred if it is the only file.

    \b
    fstcrf eval chunk.fstcrf test.txt
    fstcrf eval notices test.txt --decode cascade --decode joint
    fstcrf eval --gold test.txt --pred tagged.txt
    """
    how = {name: given.pop(name) for name in ("columns", "kind", "separator")}
    style = _Style(as_spans, scheme, strict)
    style.check()
    if model_path is not None and path is not None and not (gold or pred or pred_column):
        asked = _Asked(model_path, path, how, target, **given)
        if asked.several:
            scores = asked.compared()
            table = json.dumps([asdict(score) for score in scores], ensure_ascii=False)
            click.echo(table if as_json else _table(scores))
            return
        labels = asked.labels(style)
    elif model_path is None and pred is not None and not any(given[name] for name in _OF_MODELS):
        labels = {"": _of_files(gold, pred, how, target, pred_column)}
    else:
        raise click.UsageError("give MODEL TEST, or --gold FILE --pred FILE, or --pred FILE")
    reports = {tape: style.report(found) for tape, found in labels.items()}
    if "" not in reports:
        _print_tapes(reports, labels, as_json=as_json)
        return
    report = reports[""]
    click.echo(json.dumps(report.to_dict(), ensure_ascii=False) if as_json else _text(report))


@dataclass(frozen=True, slots=True)
class _Style:
    """The way to score labels."""

    as_spans: bool | None  # or one by one; `None` if the labels decide
    scheme: str
    strict: bool  # spans that break the scheme do not count

    def check(self, gold: Iterable[str] = ()) -> None:
        """Check that the options fit together, and fit the gold labels as far as possible."""
        spans = self.as_spans
        if spans is None and gold:
            spans = self.spans(gold)
        if self.strict and spans is False:
            raise click.UsageError("--strict is about spans")
        if self.strict and self.scheme == "conlleval":
            raise click.UsageError("--strict needs the scheme of the labels: --scheme iob2")
        if not self.strict and self.scheme != "conlleval":
            raise click.UsageError(
                f"--scheme {self.scheme} needs --strict: without --strict, spans follow the "
                "rules of conlleval"
            )

    def report(self, labels: _Labels) -> SpanReport | TokenReport:
        """Score labels."""
        values = {label for sentence in labels.gold for label in sentence}
        self.check(values)
        if not self.spans(values):
            return evaluate_tokens(labels.gold, labels.predicted)
        if self.strict:
            with warnings_to(lambda line: say(f"warning: {line}")):
                return evaluate_spans(
                    labels.gold, labels.predicted, scheme=self.scheme, strict=True
                )
        predicted, schemes = written_alike(labels.gold, labels.predicted)
        if schemes is not None:
            say(
                f"the labels found are {schemes[0]}, those wanted {schemes[1]}: "
                f"token by token, they are compared as {schemes[1]}"
            )
        return evaluate_spans(labels.gold, predicted)

    def spans(self, gold: Iterable[str]) -> bool:
        """Return whether spans are scored rather than labels."""
        if self.as_spans is not None:
            return self.as_spans
        return has_spans(gold)


def _text(report: SpanReport | TokenReport) -> str:
    if not isinstance(report, SpanReport):
        return str(report)
    share = 100 * report.sentence_accuracy
    return f"{report}\nsentences: {report.sentences}; all labels right: {share:6.2f}%"


def _print_tapes(
    reports: Mapping[str, SpanReport | TokenReport], labels: Mapping[str, _Labels], *, as_json: bool
) -> None:
    """Print the scores of each tape, then of all tapes together, as joint labels."""
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


@dataclass(frozen=True, slots=True)
class _Asked:
    """A model on a text with gold labels, and how it decides."""

    model_path: str
    path: str
    how: dict[str, Any]
    target: str | None
    decode: tuple[Decode, ...]
    weights: tuple[float, ...] | None
    grammar: tuple[str, ...]
    threads: int

    @property
    def several(self) -> bool:
        return len(self.decode) > 1

    def _model(self) -> tuple[Model, list[Tagger]]:
        deciding = load_deciding(self.model_path)
        model, pipeline = whole(deciding), pipeline_of(deciding)
        if self.weights is not None:
            if not isinstance(model, Composition):
                raise click.UsageError("--weights is for taggers that decide together")
            model = weighted(model, self.weights)
        if self.grammar:
            model = constrained(model, self.grammar)
        usual = None if pipeline is None else pipeline.decoder
        if (twice := first_twice(self.decode)) is not None:
            raise click.UsageError(f"--decode {twice} occurs twice")
        found = [
            deciding_by(model, way or usual, pipeline=pipeline is not None)
            for way in self.decode or (None,)
        ]
        for one in found:
            _ = one._joint()  # an impossible way is an error before the text is read
        return model, found

    def _read(self, model: Model) -> tuple[Corpus, dict[str, list[list[str]]]]:
        tapes = [part.tape for part in taggers(model)]  # excluding maps, which are last
        asked = {} if self.target is None else tape_columns("--target", self.target, tapes)
        wanted = {tape: asked.get(tape, tape) for tape in tapes}
        needed = asked.values() if len(tapes) > 1 else wanted.values()
        source = model_input(
            model, path=self.path, targets=needed, wanted=wanted.values(), **self.how
        )
        data = source.read(self.path)
        gold = gold_labels(data, wanted, asked, self.path)
        return data, gold

    def labels(self, style: _Style) -> dict[str, _Labels]:
        """Return the labels wanted and found of each tape; of an only tape under the name ""."""
        model, (tagger,) = self._model()
        data, gold = self._read(model)
        for tape, sentences in gold.items():
            values = {label for sentence in sentences for label in sentence}
            style.check(values)
            _warn_of_unseen(sentences, model.label_sets[tape], spans=style.spans(values))
        check_columns(model, data)
        tapes = [part.tape for part in taggers(model)]
        found = dict(zip(tapes, tagged(tagger, data, threads=self.threads), strict=False))
        pairs = {
            tape: _Labels(sentences, data.with_interned("%", found[tape]).column_lists("%"))
            for tape, sentences in gold.items()
        }
        return pairs if len(tapes) > 1 else {"": next(iter(pairs.values()))}

    def compared(self) -> list[PipelineScore]:
        model, several = self._model()
        data, gold = self._read(model)
        check_columns(model, data)
        scores = []
        for way, tagger in zip(self.decode, several, strict=True):
            if not isinstance(model, JointCRF):
                raise click.UsageError("--decode is for taggers of tokens; one here is of segments")
            one = pipelines.TrainedPipeline(model, way)
            with quiet(), progress(f"deciding by {way}", total=len(data)) as meter:
                scores.append(
                    pipelines.score_pipeline(
                        *(one, data, gold),
                        decode=way,
                        threads=self.threads,
                        told=meter.add,
                        together=run_tokens(tagger),
                    )
                )
            if scores[-1].unproven:
                say(f"{way}: {scores[-1].unproven:,} sentences are the best found, not proven")
        return scores


def _table(scores: Sequence[PipelineScore]) -> str:
    """Return scores in columns, shares in percent."""
    first = scores[0]
    heads = ["decode", *(f"{tape} accuracy" for tape in first.accuracy)]
    heads += [f"{tape} F" for tape in first.spans]
    heads += ["all right"] * (len(first.accuracy) > 1) + ["sentences", "seconds"]
    rows = [heads]
    for score in scores:
        shares = [*score.accuracy.values(), *score.spans.values()]
        shares += [score.together] * (len(score.accuracy) > 1) + [score.sentences]
        cells = [f"{100 * share:.2f}" for share in shares]
        rows.append([score.decode, *cells, f"{score.seconds:.2f}"])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if k else cell.ljust(width)
            for k, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    )


def _warn_of_unseen(gold: list[list[str]], known: Iterable[str], *, spans: bool) -> None:
    """Warn of labels that no answer can have: of spans in another scheme, of unseen types."""
    new = unseen(gold, ())
    conlleval, seen = named_scheme("conlleval"), set(known)
    parts = {label: split_label(label, conlleval) for label in {*new, *seen}}
    letters = [{parts[label][0] for label in several} for several in (new, seen)]
    converted = spans and letters[0] != letters[1]  # answers are written in the scheme of the gold
    types = {parts[label][1] for label in seen}
    for label in list(new):
        if label in seen or (converted and parts[label][1] in types):
            del new[label]
    if new:
        say(f"warning: labels that training never saw count as errors: {counted(new)}")


def _of_files(
    gold: str | None, pred: str, how: dict[str, Any], target: str | None, pred_column: str | None
) -> _Labels:
    if gold is None:
        names = [name for name in (target, pred_column) if name is not None]
        source = scored_input(pred, targets=names, **how)
        if source.conllu and None in (target, pred_column):
            raise click.UsageError(
                "CoNLL-U has no last column of labels: --target and --pred-column, or --gold"
            )
        found = source.read(pred)
        if len(found.columns) < 2:
            message = f"{len(found.columns)} column, expected two: wanted, found"
            raise DataError(message, path=pred)
        return _pair(found, target or list(found.columns)[-2], found, pred_column)
    source = scored_input(gold, targets=[target] if target else (), **how)
    if source.conllu and target is None:
        raise click.UsageError("--target is missing: a column of the CoNLL-U file, such as upos")
    named = pred_column or target
    other = scored_input(pred, targets=[named] if named else (), **how | {"columns": None})
    if other.conllu and pred_column is None:
        pred_column = target
        if target is None:
            raise click.UsageError("--pred-column is missing: which column of the CoNLL-U file")
    wanted, found = source.read(gold), other.read(pred)
    return _pair(wanted, target or list(wanted.columns)[-1], found, pred_column)


def _pair(wanted: Corpus, target: str, found: Corpus, pred_column: str | None) -> _Labels:
    """Return the labels of two columns; warn if they look like labels of different tasks."""
    column = pred_column or list(found.columns)[-1]
    labels = _Labels(wanted.column_lists(target), found.column_lists(column))
    counts = [Counter(label for one in part for label in one) for part in labels]
    if _label_share(*counts) < _LEAST:
        shown = [
            ", ".join(label for label, _ in each.most_common(_NAMED) if label != "O")
            for each in counts
        ]
        say(
            f"warning: the labels wanted, column {target!r} ({shown[0]}), and those found, column "
            f"{column!r} ({shown[1]}), have hardly one in common: are they of one task?"
        )
    return labels


# --- Whether two columns can be labels of one task at all -----------------------------------------

_LEAST = 0.1
"""Below this share of tokens, two columns hardly have a label in common."""


def _label_share(gold: Mapping[str, int], predicted: Mapping[str, int]) -> float:
    """Return the share, in [0, 1], of tokens whose label also occurs in the other column.

    For a label of spans, its type counts, so that columns in two schemes belong to one task; ``O``,
    which most tasks have, does not count. The larger one of the two columns' shares decides: a
    tagger that uses one label everywhere shares it with the gold labels, even if it is rare there.
    1 for a column with no label but ``O``, which allows no conclusion.
    """
    columns = _said(gold), _said(predicted)
    if not all(columns):
        return 1.0
    both = columns[0].keys() & columns[1].keys()
    return max(sum(c[label] for label in both) / c.total() for c in columns)


def _said(labels: Mapping[str, int]) -> Counter[tuple[bool, str]]:
    """Count types of spans, and other labels."""
    counts: Counter[tuple[bool, str]] = Counter()
    for label, tokens in labels.items():
        letter, kind = split_label(label, named_scheme("conlleval"))
        if label != OUTSIDE and tokens:
            span = bool(kind) and letter != "?"
            counts[span, kind if span else label] += tokens
    return counts
