"""``fstcrf demo``: two taggers trained, composed and scored, without arguments or data."""

from __future__ import annotations

import sys
import textwrap
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import click

from fstcrf.cli.reporting import say
from fstcrf.demo import COLUMNS, corpus_path, grammar_path, template_path
from fstcrf.evaluate import evaluate_spans, evaluate_tokens
from fstcrf.files import atomic_write
from fstcrf.machines.grammar import Grammar
from fstcrf.taggers import CRF, JointCRF
from fstcrf.taggers.composition import joint
from fstcrf.taggers.model.training import MethodName
from fstcrf.text.corpus import Column, Corpus, Sentence, read_columns, spans

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
def demo(folder: str | None, method: MethodName) -> None:
    """Train, compose, constrain and evaluate on a small corpus of the project's own.

    The corpus is the notice board of a harbour town that does not exist. One tagger finds parts
    of speech, the next one reads them and finds who leads an event, where, when. Then the two
    decide together, and under a grammar.
    """
    if folder is not None:
        _copy(Path(folder))
        return

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
    chain = show_composed(joint([pos, field], normalize="product"), dev, test)
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
  sentence = {"word": ["Concert", "at", "noon"]}
  joint.tag(sentence), joint.lattice(sentence, n=3).nbest(3)
"""


def _copy(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    paths = [*map(corpus_path, _PARTS), *map(template_path, _TASKS), grammar_path()]
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


def _heading(text: str) -> None:
    rule = "─" if (sys.stdout.encoding or "").lower().startswith("utf") else "-"
    click.secho(f"\n{text}\n{rule * len(text)}", bold=True)


def _longest(corpus: Corpus) -> int:
    """Return a sentence of moderate length with many fields."""
    fields = corpus.column_lists("field")
    fitting = [i for i, labels in enumerate(fields) if 6 <= len(labels) <= 12]
    return max(fitting, key=lambda i: sum(label.startswith("B-") for label in fields[i]))


def _table(sentence: Sentence, columns: tuple[str, ...]) -> None:
    for row in zip(*(sentence[name] for name in columns), strict=True):
        click.echo("  " + "".join(f"{cell:<14}" for cell in row).rstrip())


def _trained(
    train: Corpus, target: str, template: Path, method: MethodName, reads: Sequence[CRF] = ()
) -> CRF:
    lines = [line for line in template.read_text("utf-8").splitlines() if line[:1] in {"U", "B"}]
    click.echo(textwrap.fill(f"Templates: {' '.join(lines)}", 78, break_on_hyphens=False))
    started = time.perf_counter()
    model = CRF.train(train, target, template, method=method, reads=reads)
    record = model.record
    iterations = 0 if record is None else record.iterations
    click.echo(
        f"Learned {model.space.size:,} weights for {len(model.labels)} labels "
        f"in {iterations} iterations, {time.perf_counter() - started:.1f} s."
    )
    return model


def _score_pos(pos: CRF, test: Corpus) -> None:
    report = evaluate_tokens(test.column_lists("pos"), pos.tag_all(test))
    click.echo(
        f"On the test part {100 * report.accuracy:.2f} % of {report.tokens:,} tokens are right, "
        f"and {100 * report.sentence_accuracy:.2f} % of the sentences as a whole."
    )


def _score_field(field: CRF, test: Corpus) -> None:
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


# --- What `fstcrf demo` shows of composition ------------------------------------------------------

_TAPES = ("pos", "field")
_LONGEST = 12
"""Tokens of a sentence that is shown."""


@dataclass(frozen=True, slots=True)
class _Decision:
    """The labels of a corpus as one way of deciding gives them."""

    name: str
    labels: list[tuple[list[str], list[str]]]  # of sentences: parts of speech, fields

    @classmethod
    def of(cls, name: str, corpus: Corpus, columns: tuple[Column, ...]) -> _Decision:
        lists = [corpus.with_interned("%", column).column_lists("%") for column in columns]
        return cls(name, list(zip(*lists, strict=True)))

    @classmethod
    def gold(cls, corpus: Corpus) -> _Decision:
        return cls.of("gold", corpus, tuple(corpus.column(tape) for tape in _TAPES))

    def figures(self, gold: _Decision) -> str:
        """Return a line of percentages."""
        pairs = zip(gold.labels, self.labels, strict=True)
        whole = sum(right == found for right, found in pairs) / len(gold.labels)
        (pos, field), (found_pos, found_field) = (
            zip(*each.labels, strict=True) for each in (gold, self)
        )
        right = evaluate_tokens(_together(gold), _together(self)).accuracy
        figures = (
            evaluate_tokens(pos, found_pos).accuracy,
            evaluate_spans(field, found_field).f,
            right,
            whole,
        )
        return f"  {self.name:<30}" + "".join(f"{100 * figure:>11.2f}" for figure in figures)


def _together(decision: _Decision) -> list[list[str]]:
    return [[" ".join(pair) for pair in zip(*s, strict=True)] for s in decision.labels]


_HEAD = f"  {'':<30}" + "".join(f"{name:>11}" for name in ("pos", "field F", "both", "sentences"))


def show_composed(joint: JointCRF, dev: Corpus, test: Corpus) -> JointCRF:
    """Show what a tagger and one that reads it say apart, and together; return their chain."""
    tuned, chain = joint.tune_weights(dev), replace(joint, normalize="chain")
    gold = _Decision.gold(test)
    decisions = [
        _Decision.of("one after the other", test, joint.cascade(test)),
        _Decision.of("product", test, joint.tag_columns(test)),
        _Decision.of(f"product, weights 1 and {tuned.weights[1]:g}", test, tuned.tag_columns(test)),
        _Decision.of("chain", test, chain.tag_columns(test)),
    ]
    _say(
        "One after the other, the second tagger believes whatever the first one says. Composed, "
        "they weigh each other's reasons and find the best labels of both, exactly. A product adds "
        "up their scores; a chain multiplies probabilities, p(pos) times p(field given pos). "
        "Percentages of the test part: parts of speech right, F of the fields, tokens with both "
        "right, sentences without a mistake.\n"
    )
    click.echo(_HEAD)
    for decision in decisions:
        click.echo(decision.figures(gold))
    _say(
        "\nIn a plain product the tagger with the larger scores drags the other along; weights, "
        "chosen on the dev part, set that right. A chain needs none. A sentence on which they "
        "differ, mistakes in brackets:\n"
    )
    cascade, product, _, together = decisions

    def telling(number: int) -> bool:
        wrong = cascade.labels[number][1] != gold.labels[number][1]
        return wrong and together.labels[number] == gold.labels[number]

    _show_joint(test, gold, (cascade, product, together), telling)
    return chain


def show_grammar(chain: JointCRF, grammar: Grammar, text: str, test: Corpus) -> None:
    """Show what a grammar, and its file's text, does to the answers of a composition."""
    gold = _Decision.gold(test)
    legal = chain.constrained(grammar)
    free = _Decision.of("chain", test, chain.tag_columns(test))
    kept = _Decision.of("chain under the grammar", test, legal.tag_columns(test))
    known = grammar.bound({"field": chain.label_sets["field"]})

    def breaks(decision: _Decision, number: int) -> bool:
        return not known.accepts({"field": decision.labels[number][1]})

    every = range(len(test))
    illegal = [sum(breaks(decision, i) for i in every) for decision in (free, kept)]
    _say("What every notice obeys, as a file that anybody can write:\n")
    click.echo(textwrap.indent(text.strip(), "  "))
    _say(
        f"\nThe chain breaks it in {illegal[0]} of {len(test)} sentences. With the grammar "
        f"composed in as well, in {illegal[1]}: what is illegal is not in the machine, and the "
        "best of the rest is found as exactly as before.\n"
    )
    click.echo(_HEAD)
    for decision in (free, kept):
        click.echo(decision.figures(gold))
    _say("\nA sentence that it repairs:\n")

    def repaired(number: int) -> bool:
        return breaks(free, number) and kept.labels[number] == gold.labels[number]

    _show_joint(test, gold, (free, kept), repaired)


def _show_joint(
    test: Corpus, gold: _Decision, decisions: tuple[_Decision, ...], telling: Callable[[int], bool]
) -> None:
    """Print the first short sentence that tells something, or say that there is none."""
    lengths = [len(fields) for _, fields in gold.labels]
    number = next((i for i in range(len(test)) if lengths[i] <= _LONGEST and telling(i)), None)
    if number is None:
        click.echo("  (there is none among the short ones)")
        return
    click.echo(f"  {'':<14}" + "".join(f"{d.name:<26}" for d in decisions).rstrip())
    for t, word in enumerate(test[number]["word"]):
        cells = [_cells(d, gold, number, t) for d in decisions]
        click.echo(f"  {word:<14}" + "".join(f"{cell:<26}" for cell in cells).rstrip())


def _cells(decision: _Decision, gold: _Decision, number: int, token: int) -> str:
    shown = []
    for labels, wanted in zip(decision.labels[number], gold.labels[number], strict=True):
        label = labels[token]
        shown.append(label if label == wanted[token] else f"({label})")
    return f"{shown[0]:<9}{shown[1]}"


def _say(text: str) -> None:
    lines = text.split("\n")
    click.echo("\n".join(textwrap.fill(line, 78, break_on_hyphens=False) for line in lines))
