"""One self-contained page about a tagger, or about two for comparison."""

from __future__ import annotations

import base64
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from fstcrf.errors import OptionError
from fstcrf.ext.calibration import reliability
from fstcrf.ext.report.figures import (
    figure_of_confusions,
    figure_of_precision,
    figure_of_reliability,
    png_of,
)
from fstcrf.ext.report.findings import Analysis, ErrorFound
from fstcrf.ext.significance import Comparison, compare
from fstcrf.files import atomic_write, path_name

_ERRORS, _CONFUSED, _REPAIRED, _AROUND = 300, 16, 50, 6
_STYLE = """
:root { color-scheme: light dark; --line: light-dark(#ccd, #445);
  --wrong: light-dark(#a01050, #ff8ab8); --right: light-dark(#076b3a, #6fd8a4);
  --quiet: light-dark(#5c6370, #9aa2b1); }
body { font: 15px/1.45 system-ui, sans-serif; max-width: 70rem; margin: 1rem auto;
  padding: 0 1rem; }
table { border-collapse: collapse; margin: .6rem 0; font-variant-numeric: tabular-nums;
  display: block; max-width: 100%; overflow-x: auto; }
th, td { border-bottom: 1px solid var(--line); padding: .15rem .6rem; text-align: right; }
th:first-child, td:first-child, td.text, th.text { text-align: left; }
figure { display: inline-block; margin: .5rem 1.5rem .5rem 0; background: #fff; }
.gold { color: var(--right); } .found { color: var(--wrong); } .quiet { color: var(--quiet); }
mark { background: none; color: inherit; font-weight: 700; border-bottom: 2px solid; }
"""


def report_page(
    first: Analysis,
    second: Analysis | None = None,
    *,
    names: Sequence[str] = ("model",),
    facts: Sequence[str] = (),
    seed: int = 0,
) -> str:
    """Return a report as HTML, with its figures inside; it loads no other files.

    Parameters
    ----------
    first : Analysis
    second : Analysis, optional
        Of another tagger on the same text.
    names : sequence of str
        The names of the taggers.
    facts : sequence of str
        Lines about how it was made.
    seed : int
        Of the tests that draw.

    Raises
    ------
    OptionError
        Two analyses of other text, or of other gold labels.
    MissingDependencyError
        matplotlib is not installed.
    """
    sides = [first] if second is None else [first, second]
    called = list(names)[: len(sides)]
    if second is not None:
        if [list(row) for row in first.gold] != [list(row) for row in second.gold]:
            raise OptionError(
                "the two analyses have different texts or gold labels: compare analyses of "
                "the same text"
            )
        called += ["other"] * (2 - len(called))
    parts = [_scores(sides, called)]
    if second is not None:
        sides_found = first.found, second.found
        found = compare(first.gold, *sides_found, documents=first.units, seed=seed)
        drawn = "sentences" if first.units is None else "documents"
        parts.append(_compared(found, called, drawn, of_spans=first.spans))
    for name, side in zip(called, sides, strict=True):
        head = f" of {escape(name)}" * (len(sides) > 1)
        parts += [_types(side, head), _confusions(side, head), _repaired(side, head)]
    parts += [
        _sureness(sides, called),
        *(_errors(s, n, sides) for s, n in zip(sides, called, strict=True)),
    ]
    about = "".join(f"<li>{escape(fact)}</li>" for fact in facts)
    title = f"{escape(' and '.join(called))}: {escape(first.tape)}"
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{title}</title><style>{_STYLE}</style></head>\n<body><h1>{title}</h1>"
        f"<ul class='quiet'>{about}</ul>\n{''.join(parts)}</body></html>\n"
    )


def write_figures(
    folder: str | os.PathLike[str],
    first: Analysis,
    second: Analysis | None = None,
    *,
    names: Sequence[str] = ("model",),
) -> list[Path]:
    """Write the figures of a report as files: SVG and PNG of each.

    Raises
    ------
    OSError
        The folder cannot be written.
    MissingDependencyError
        matplotlib is not installed.
    """
    sides = [first] if second is None else [first, second]
    called = [*names, *["other"] * len(sides)][: len(sides)]
    written = []
    place = Path(path_name(folder))
    place.mkdir(parents=True, exist_ok=True)
    for figure in _figures(sides, called):
        for ending, content in (("svg", figure.svg()), ("png", figure.png())):
            path = place / f"{figure.name}.{ending}"
            with atomic_write(path) as file:
                file.write(content)
            written.append(path)
    return written


# --- Figures --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Figure:
    name: str
    draw: Callable[..., Any]
    arguments: tuple[Any, ...]

    def svg(self) -> bytes:
        found: bytes = self.draw(*self.arguments)
        return found

    def png(self) -> bytes:
        return png_of(self.draw, *self.arguments)

    def html(self, caption: str) -> str:
        content = base64.b64encode(self.svg()).decode()
        return (
            f'<figure><img alt="{escape(caption)}" src="data:image/svg+xml;base64,{content}">'
            f"<figcaption class='quiet'>{escape(caption)}</figcaption></figure>"
        )


def _figures(sides: Sequence[Analysis], names: Sequence[str]) -> list[_Figure]:
    pairs = list(zip(names, sides, strict=True))
    found = [
        _Figure(f"confusions-{k}" if len(sides) > 1 else "confusions", figure_of_confusions, table)
        for k, side in enumerate(sides, 1)
        if (table := _confused(side)) is not None
    ]
    sure = [(name, side) for name, side in pairs if side.events is not None and len(side.events)]
    if sure:
        tables = [
            (name, reliability(side.events)) for name, side in sure if side.events is not None
        ]
        curves = [(name, *side.curve()[1:]) for name, side in sure]
        found.append(_Figure("reliability", figure_of_reliability, (tables,)))
        found.append(_Figure("precision-recall", figure_of_precision, (curves,)))
    return found


def _confused(side: Analysis) -> tuple[list[str], list[list[int]]] | None:
    """Return the labels that are most often taken for others, and how often."""
    often: dict[str, int] = {}
    for gold, found, count in side.confusions:
        for label in (gold, found):
            often[label] = often.get(label, 0) + count
    labels = sorted(sorted(often, key=lambda label: -often[label])[:_CONFUSED])
    if not labels:
        return None
    place = {label: k for k, label in enumerate(labels)}
    table = np.zeros((len(labels), len(labels)), dtype=int)
    for gold, found, count in side.confusions:
        if gold in place and found in place:
            table[place[gold], place[found]] = count
    return labels, table.tolist()


# --- Parts of the page ----------------------------------------------------------------------------


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]], text: int = 1) -> str:
    """Return a table of cells that are HTML already; the first `text` columns are words."""
    head = "".join(f"<th class='{'text' * (k < text)}'>{h}</th>" for k, h in enumerate(heads))
    body = "".join(
        "<tr>"
        + "".join(f"<td class='{'text' * (k < text)}'>{cell}</td>" for k, cell in enumerate(row))
        + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _percent(share: float) -> str:
    return f"{100 * share:.2f}"


def _between(share: float, interval: tuple[float, float]) -> str:
    low, high = (f"{100 * end:.1f}" for end in interval)
    return f"{100 * share:.2f} <span class='quiet'>{low}–{high}</span>"


def _scores(sides: Sequence[Analysis], names: Sequence[str]) -> str:
    what = "F of spans" if sides[0].spans else "accuracy"
    rows = [
        [
            escape(name),
            _between(side.f, side.f_interval),
            _percent(side.accuracy),
            _percent(side.sentences),
            f"{side.unproven:,}",
        ]
        for name, side in zip(names, sides, strict=True)
    ]
    size = f"{len(sides[0].gold):,} sentences, {sides[0].corpus.n_tokens:,} tokens"
    heads = ["", f"{what}, % (95 %)", "tokens right, %", "sentences right, %", "not proven"]
    return f"<h2>Scores</h2><p>{size}</p>{_table(heads, rows)}"


def _compared(found: Comparison, names: Sequence[str], drawn: str, *, of_spans: bool) -> str:
    tests = [("tokens (McNemar)", found.tokens), ("sentences (McNemar)", found.sentences)]
    rows = [
        [name, f"{test.first:,}", f"{test.second:,}", f"{test.exact:.4g}"] for name, test in tests
    ]
    told = ""
    if of_spans:
        shares = map(_percent, found.f)
        rows.append(["F of spans, % (randomisation)", *shares, f"{found.randomised:.4g}"])
        low, high = (f"{100 * end:+.2f}" for end in found.interval)
        told = (
            f"<p>F of {escape(names[0])} minus F of {escape(names[1])}: 95 % of bootstrap samples "
            f"from {low} to {high}. What is drawn, and exchanged, are {drawn}.</p>"
        )
    heads = ["right", f"only {escape(names[0])}", f"only {escape(names[1])}", "p"]
    return f"<h2>The two compared</h2>{_table(heads, rows)}{told}"


def _types(side: Analysis, of: str) -> str:
    heads = ["type" if side.spans else "label", "gold", "found", "right"]
    heads += ["precision, % (95 %)", "recall, % (95 %)", "F, %"]
    rows = [
        [
            escape(row.type),
            f"{row.gold:,}",
            f"{row.guessed:,}",
            f"{row.correct:,}",
            _between(row.precision, row.precision_interval),
            _between(row.recall, row.recall_interval),
            _percent(row.f),
        ]
        for row in side.types
    ]
    return f"<h2>By {heads[0]}{of}</h2>{_table(heads, rows)}"


def _confusions(side: Analysis, of: str) -> str:
    table = _confused(side)
    if table is None:
        return f"<h2>Confusions{of}</h2><p>No label is wrong.</p>"
    rows = [
        [escape(gold), escape(found), f"{count:,}"]
        for gold, found, count in side.confusions[: 2 * _CONFUSED]
    ]
    figure = _Figure("confusions", figure_of_confusions, table)
    return (
        f"<h2>Confusions{of}</h2>{figure.html('gold labels (rows) found as others (columns)')}"
        f"{_table(['gold', 'found', 'tokens'], rows, text=2)}"
    )


def _repaired(side: Analysis, of: str) -> str:
    repair = side.repair
    if repair is None:
        return ""
    what = "F" if side.spans else "accuracy"
    shown = "".join(f"<li>{_sentence(side, k)}</li>" for k in repair.sentences[:_REPAIRED])
    cut = len(repair.sentences) - _REPAIRED
    more = f"<p class='quiet'>and {cut:,} more</p>" if cut > 0 else ""
    return (
        f"<h2>What the grammar changed{of}</h2><p>{len(repair.sentences):,} sentences; "
        f"{repair.mended:,} tokens are right by it, {repair.spoilt:,} were right without it; "
        f"{what} {_percent(repair.free)} without it, {_percent(repair.score)} with it.</p>"
        f"<ol>{shown}</ol>{more}"
    )


def _sureness(sides: Sequence[Analysis], names: Sequence[str]) -> str:
    figures = {figure.name: figure for figure in _figures(sides, names)}
    if "reliability" not in figures:
        return (
            "<h2>How sure it is</h2><p>A chain of taggers has no probabilities of spans in closed "
            "form; a product has them.</p>"
        )
    rows = []
    for name, side in zip(names, sides, strict=True):
        if side.events is not None and len(side.events):
            found = reliability(side.events)
            numbers = [found.error, found.largest, found.brier, found.log_loss]
            rows.append([escape(name), f"{len(side.events):,}", *(f"{x:.4f}" for x in numbers)])
    heads = ["", "events above 0.01", "expected calibration error", "largest", "Brier", "log loss"]
    return (
        "<h2>How sure it is</h2>"
        + figures["reliability"].html("how often what is claimed comes true")
        + figures["precision-recall"].html("precision and recall as the threshold falls")
        + _table(heads, rows)
    )


def _errors(side: Analysis, name: str, sides: Sequence[Analysis]) -> str:
    rows = [
        [
            "" if np.isnan(error.probability) else f"{error.probability:.3f}",
            f"<span class='gold'>{escape(error.gold) or '–'}</span>",
            f"<span class='found'>{escape(error.found) or '–'}</span>",
            _context(side, error),
            f"{error.sentence + 1:,}",
        ]
        for error in side.errors[:_ERRORS]
    ]
    of = f" of {escape(name)}" * (len(sides) > 1)
    heads = ["probability", "gold", "found", "context", "sentence"]
    left = len(side.errors) - len(rows)
    more = f"<p class='quiet'>and {left:,} more</p>" if left > 0 else ""
    return (
        f"<h2>Errors{of}, the surest first</h2><p class='quiet'>The probability is that of what "
        "was found; of what was missed, that it is there.</p>"
        f"{_table(heads, rows, text=4)}{more}"
    )


def _words(side: Analysis, sentence: int) -> list[str]:
    first, end = side.corpus.offsets[sentence : sentence + 2].tolist()
    column = next(iter(side.corpus.columns.values()))
    return [column.values[k] for k in column.ids[first:end].tolist()]


def _context(side: Analysis, error: ErrorFound) -> str:
    words = [escape(word) for word in _words(side, error.sentence)]
    first, last = max(0, error.start - _AROUND), error.end + _AROUND
    inside = " ".join(words[error.start : error.end])
    before, after = " ".join(words[first : error.start]), " ".join(words[error.end : last])
    return f"{'… ' * (first > 0)}{before} <mark>{inside}</mark> {after}{' …' * (last < len(words))}"


def _sentence(side: Analysis, sentence: int) -> str:
    found = side.found[sentence]
    return " ".join(
        f"{escape(word)}<span class='quiet'>/{escape(label)}</span>"
        if label != "O"
        else escape(word)
        for word, label in zip(_words(side, sentence), found, strict=True)
    )
