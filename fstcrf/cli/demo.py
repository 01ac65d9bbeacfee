"""``fstcrf demo``: two taggers trained, composed and scored, without arguments or data.

====  =============
demo  the command
====  =============
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fstcrf.cli.failures import say

if TYPE_CHECKING:
    from fstcrf.corpus import Corpus, Sentence
    from fstcrf.model import CRF

__all__ = ["demo"]

_PARTS = ("train", "dev", "test")
_TASKS = ("pos", "field", "joint")
_FIRST = 200
_SHOWN = 2


@click.command()
@click.option(
    "--copy",
    "folder",
    metavar="DIR",
    help="Copy the corpus and the templates to a folder, and do nothing else.",
)
@click.option(
    "--method",
    type=click.Choice(["lbfgs", "l2sgd", "perceptron"]),
    default="lbfgs",
    show_default=True,
    help="How the weights are found.",
)
def demo(folder: str | None, method: str) -> None:
    """Train, compose, constrain and evaluate on a small corpus of the project's own.

    The corpus is the notice board of a harbour town that does not exist. One tagger finds parts
    of speech, the next one reads them and finds who leads an event, where, when. Then the two
    decide together, and under a grammar.
    """
    if folder is not None:
        _copy(Path(folder))
        return
    from fstcrf.cli.demo_joint import show_composed, show_grammar
    from fstcrf.corpus import read_columns
    from fstcrf.demo import COLUMNS, corpus_path, grammar_path, template_path
    from fstcrf.grammar import Grammar
    from fstcrf.joint import compose

    started = time.perf_counter()
    train, dev, test = (read_columns(corpus_path(part), COLUMNS) for part in _PARTS)
    _heading("1  The corpus: notices of a harbour town")
    click.echo(
        f"{len(train):,} sentences to learn from, {len(dev):,} to choose with, "
        f"{len(test):,} to test with.\nOne token a line; the columns are word, part of speech, "
        "and field of the event:\n"
    )
    _table(train[_longest(train)], COLUMNS)
    _heading(f"2  A tagger for parts of speech, from the first {_FIRST} sentences")
    pos = _trained(train[:_FIRST], "pos", template_path("pos"), method)
    _score_pos(pos, test)
    _heading("3  A tagger for fields, from the other sentences")
    click.echo("It reads what the first tagger says there, %y[0,pos], not what is true.")
    field = _trained(train[_FIRST:], "field", template_path("joint"), method, reads=[pos])
    tagged = test.with_column("pos", pos.tag_all(test))
    _score_field(field, tagged)
    _heading("4  Sentences they have never seen")
    click.echo("Label, probability of the label; below, the probability of each span.\n")
    for number in _interesting(field, tagged):
        _show(pos, field, test[number], tagged[number])
    _heading("5  The two, deciding together")
    chain = show_composed(compose(pos, field), dev, test)
    _heading("6  A grammar")
    grammar = grammar_path()
    show_grammar(chain, Grammar.from_file(grammar), grammar.read_text("utf-8"), test)
    _heading("7  What to try next")
    click.echo(_NEXT)
    say(f"demo done in {time.perf_counter() - started:.1f} s")


_NEXT = """\
The same on the command line; the first line copies this demo's files:

  fstcrf demo --copy notices && cd notices
  fstcrf train train.txt -o pos.fstcrf --columns word,pos,field --target pos \\
      --template pos.tpl --dev dev.txt
  fstcrf train train.txt -o field.fstcrf --columns word,pos,field --target field \\
      --template joint.tpl --reads pos.fstcrf --jackknife 5
  fstcrf compose pos.fstcrf field.fstcrf --normalize chain --grammar notices.grm \\
      -o joint.fstcrf
  fstcrf eval joint.fstcrf test.txt
  fstcrf tag joint.fstcrf test.txt --nbest 3 | head -20
  fstcrf info joint.fstcrf --top 5

and in Python:

  import fstcrf
  joint = fstcrf.load("joint.fstcrf")
  lattice = joint.lattice({"word": ["Concert", "at", "noon"]})
  lattice.best(), lattice.nbest(3)
"""


def _copy(folder: Path) -> None:
    import shutil

    from fstcrf.demo import corpus_path, grammar_path, template_path

    folder.mkdir(parents=True, exist_ok=True)
    paths = [*map(corpus_path, _PARTS), *map(template_path, _TASKS), grammar_path()]
    for path in paths:
        shutil.copyfile(path, folder / path.name)
    say(f"{folder}: {', '.join(path.name for path in paths)}")


def _heading(text: str) -> None:
    rule = (
        "─" * len(text)
        if (sys.stdout.encoding or "").lower().startswith("utf")
        else "-" * len(text)
    )
    click.secho(f"\n{text}\n{rule}", bold=True)


def _longest(corpus: Corpus) -> int:
    """Return a sentence of moderate length with many fields."""
    fields = corpus.column_lists("field")
    fitting = [i for i, labels in enumerate(fields) if 6 <= len(labels) <= 12]
    return max(fitting, key=lambda i: sum(label.startswith("B-") for label in fields[i]))


def _table(sentence: Sentence, columns: tuple[str, ...]) -> None:
    for row in zip(*(sentence[name] for name in columns), strict=True):
        click.echo("  " + "".join(f"{cell:<14}" for cell in row).rstrip())


def _trained(
    train: Corpus, target: str, template: Path, method: str, reads: Sequence[CRF] = ()
) -> CRF:
    import textwrap

    from fstcrf.model import train as library_train

    lines = [line for line in template.read_text("utf-8").splitlines() if line[:1] in {"U", "B"}]
    click.echo(textwrap.fill(f"Templates: {' '.join(lines)}", 78, break_on_hyphens=False))
    started = time.perf_counter()
    model = library_train(train, target, template, method=method, reads=reads)
    record = model.record
    iterations = 0 if record is None else record.iterations
    click.echo(
        f"Learned {model.space.size:,} weights for {len(model.labels)} labels "
        f"in {iterations} iterations, {time.perf_counter() - started:.1f} s."
    )
    return model


def _score_pos(pos: CRF, test: Corpus) -> None:
    from fstcrf.evaluate import evaluate_tokens

    report = evaluate_tokens(test.column_lists("pos"), pos.tag_all(test))
    click.echo(
        f"On the test part {100 * report.accuracy:.2f} % of {report.tokens:,} tokens are right, "
        f"and {100 * report.sentence_accuracy:.2f} % of the sentences as a whole."
    )


def _score_field(field: CRF, test: Corpus) -> None:
    from fstcrf.evaluate import evaluate_spans

    report = evaluate_spans(test.column_lists("field"), field.tag_all(test))
    click.echo(f"On the test part, with the first tagger's parts of speech:\n\n{report}")


def _interesting(field: CRF, test: Corpus) -> list[int]:
    """Return sentences of moderate length in which the tagger is least certain."""
    paths = field.paths_all(test)
    ranked = sorted(
        (path.probability, number)
        for number, path in enumerate(paths)
        if path is not None and 6 <= len(path.labels) <= 12 and set(path.labels) != {"O"}
    )
    third = len(ranked) // _SHOWN
    return [ranked[k * third][1] for k in reversed(range(_SHOWN))] if third else []


def _show(pos: CRF, field: CRF, sentence: Sentence, tagged: Sentence) -> None:
    from fstcrf.corpus import spans

    lattice = field.lattice(tagged)
    best = lattice.best()
    for t, word in enumerate(sentence[sentence.columns[0]]):
        of_pos = pos.marginals_all([sentence])[0][t].max()
        label = best.labels[t]
        chance = lattice.marginals()[t, field.labels.index(label)]
        wanted = sentence["field"][t]
        note = "" if label == wanted else f"  (should be {wanted})"
        click.echo(f"  {word:<14}{tagged['pos'][t]:<6}{of_pos:.2f}  {label:<8}{chance:.2f}{note}")
    for start, end, kind in spans(best.labels):
        words = " ".join(sentence["word"][start:end])
        chance = lattice.span_probability(start, end, kind)
        click.echo(f"    {kind:<6} {words}: {chance:.2f}")
    click.echo()
