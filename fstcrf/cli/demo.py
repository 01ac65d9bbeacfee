"""``fstcrf demo``: a tagger, a cascade, a joint decision, a rule, a transducer."""

from __future__ import annotations

import textwrap
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

import click

from fstcrf.cli.reporting import say
from fstcrf.demo import COLUMNS, corpus_path, grammar_path, template_path
from fstcrf.evaluate import evaluate_tokens
from fstcrf.files import atomic_write
from fstcrf.machines.grammar import Grammar
from fstcrf.machines.transducer import Transducer
from fstcrf.taggers import CRF, JointCRF
from fstcrf.taggers.composition import joint
from fstcrf.text.corpus import Column, Corpus, read_columns, spans

_FIRST = 200
"""Training sentences of the first tagger; the second one learns from the others."""

_WEIGHTS = (5.0, 1.0)
"""Weights of the two taggers; `JointCRF.tune_weights` finds this ratio on the dev part."""

_RULE = """\
tape field;
export ONCE = at_most[1, "START"];"""

_TEXT = "Will Brightwater play on Friday from 3 pm to 4 pm , doors open at 2 pm ?"
_EXAMPLE = _TEXT.split()

_Labels: TypeAlias = tuple[list[str], list[str]]
"""The parts of speech and the fields of one sentence."""


@click.command()
@click.option(
    "--copy",
    "folder",
    metavar="DIR",
    help="Copy the corpus, the templates and the grammar to a folder, and stop.",
)
def demo(folder: str | None) -> None:
    """Train two taggers, compose them, add a rule.

    The corpus is part of the package: the notice board of an invented harbour town. The first
    tagger finds parts of speech. The second one reads them and finds the host, place, day,
    start and end of each event.
    """
    if folder is not None:
        _copy(Path(folder))
        return

    started = time.perf_counter()
    train, test = (read_columns(corpus_path(part), COLUMNS) for part in ("train", "test"))
    _step(1, f"A tagger learns parts of speech from {_FIRST} sentences")
    pos = CRF.train(train[:_FIRST], "pos", template_path("pos"))
    accuracy = evaluate_tokens(test.column_lists("pos"), pos.tag_all(test)).accuracy
    _say(
        f"{len(pos.labels)} labels, {pos.space.size:,} weights. On {len(test)} test sentences "
        f"{100 * accuracy:.1f} % of the tokens get the right label."
    )

    _step(2, "A cascade: a second tagger reads the labels of the first")
    others = train[_FIRST:]
    field = CRF.train(others, "field", template_path("joint"), scheme="iob2", reads=[pos])
    both = joint([pos, field], normalize="product", weights=_WEIGHTS)
    gold = _labels(test, [test.column("pos"), test.column("field")])
    cascade = _labels(test, both.cascade(test))
    _say(
        f"It learns the fields of events from {len(others):,} other sentences. "
        f"{_right(cascade, gold)} test sentences have no wrong label. One sentence:"
    )
    tags = pos.tag({"word": _EXAMPLE})
    _show((tags, field.tag({"word": _EXAMPLE, "pos": tags})))

    _step(3, "A joint decision: both taggers choose their labels together")
    _compare("The joint decision", _labels(test, both.tag_columns(test)), cascade, gold)
    _show(_pair(both))

    _step(4, "A rule: an event starts at most once")
    ruled = both.constrained(Grammar.from_text(_RULE, {"field": field.labels}))
    click.echo(textwrap.indent(_RULE, "    "))
    _compare("The ruled decision", _labels(test, ruled.tag_columns(test)), cascade, gold)
    _show(_pair(ruled))
    free, legal = (
        tagger.lattice({"word": _EXAMPLE}).span_probability(15, 17, "START", tape="field")
        for tagger in (both, ruled)
    )
    _say(f"The rule lowers the probability of a start at 2 pm: {free:.2f} to {legal:.2f}.")

    _step(5, "A transducer: from labels to one symbol for each span")
    names = {label: label[2:] if label.startswith("B-") else None for label in field.labels}
    events = ruled @ Transducer.from_table(names, tape="event").on("field")
    _say("The three most probable outputs for the same sentence, with their probabilities:")
    for path in events.lattice({"word": _EXAMPLE}).strings("event", n=3):
        click.echo(f"    {path.probability:.2f}  {' '.join(path.labels)}")

    _step(6, "Next")
    click.echo(_NEXT)
    say(f"demo done in {time.perf_counter() - started:.1f} s")


_NEXT = """\
  fstcrf demo --copy notices && cd notices     # the same in the shell, on files
  fstcrf train train.txt -o pos.fstcrf --columns word,pos,field --target pos \\
      --template pos.tpl
  fstcrf train train.txt -o field.fstcrf --columns word,pos,field --target field \\
      --template joint.tpl --scheme iob2 --reads pos.fstcrf
  fstcrf compose pos.fstcrf field.fstcrf -o joint.fstcrf --tune dev.txt \\
      --grammar notices.grm
  fstcrf tag joint.fstcrf test.txt | head -20"""


def _copy(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    paths = [
        *map(corpus_path, ("train", "dev", "test")),
        *map(template_path, ("pos", "field", "joint")),
        grammar_path(),
    ]
    for path in paths:
        there = folder / path.name
        if there.exists() and there.read_bytes() != path.read_bytes():
            raise click.UsageError(
                f"--copy {folder} would overwrite {there}, which is not the demo's: name another "
                "folder, or remove it"
            )
    for path in paths:
        with atomic_write(folder / path.name) as file:
            file.write(path.read_bytes())
    say(f"{folder}: {', '.join(path.name for path in paths)}")


def _step(number: int, text: str) -> None:
    click.secho(f"\n{number}  {text}", bold=True)


def _say(text: str) -> None:
    click.echo(textwrap.indent(textwrap.fill(text, 75, break_on_hyphens=False), "   "))


def _labels(corpus: Corpus, columns: Sequence[Column]) -> list[_Labels]:
    """Return the labels of each sentence, of columns that are numbered as the corpus's tokens."""
    tags, fields = (corpus.with_interned("%", column).column_lists("%") for column in columns)
    return list(zip(tags, fields, strict=True))


def _pair(tagger: JointCRF) -> _Labels:
    tags, fields = tagger.tag({"word": _EXAMPLE})
    return tags, fields


def _right(found: list[_Labels], gold: list[_Labels]) -> int:
    return sum(labels == wanted for labels, wanted in zip(found, gold, strict=True))


def _compare(name: str, found: list[_Labels], cascade: list[_Labels], gold: list[_Labels]) -> None:
    """Print how many sentences are right, and how many of the cascade's it repairs and spoils."""
    cases = list(zip(found, cascade, gold, strict=True))
    repaired = sum(labels == wanted != before for labels, before, wanted in cases)
    spoiled = sum(labels != wanted == before for labels, before, wanted in cases)
    _say(
        f"{_right(found, gold)} sentences have no wrong label. {name} repairs {repaired} sentences "
        f"of the cascade and spoils {spoiled}. The same sentence:"
    )


def _show(labels: _Labels) -> None:
    """Print the part of speech of the first word, and the spans."""
    tags, fields = labels
    found = (f"{kind} [{' '.join(_EXAMPLE[start:end])}]" for start, end, kind in spans(fields))
    click.echo(f"    {_EXAMPLE[0]}: {tags[0]};  {', '.join(found)}")
