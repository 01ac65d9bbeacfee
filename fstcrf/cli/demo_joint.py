"""What `fstcrf demo` shows of composition: cascade, product and chain, and a grammar.

===============  ==========================================================
show_composed    two taggers one after the other, and deciding together
show_grammar     the same under a grammar
===============  ==========================================================
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from fstcrf.corpus import Column, Corpus
    from fstcrf.grammar import Grammar
    from fstcrf.joint import Composition

__all__ = ["show_composed", "show_grammar"]

_TAPES = ("pos", "field")
_LONGEST = 12
"""Tokens of a sentence that is shown."""


@dataclass(frozen=True, slots=True)
class _Decision:
    """The labels of a corpus as one way of deciding gives them.

    Parameters
    ----------
    name : str
    labels : list of (list of str, list of str)
        For each sentence, parts of speech and fields.
    """

    name: str
    labels: list[tuple[list[str], list[str]]]

    @classmethod
    def of(cls, name: str, corpus: Corpus, columns: tuple[Column, ...]) -> _Decision:
        lists = [corpus.with_interned("%", column).column_lists("%") for column in columns]
        return cls(name, list(zip(*lists, strict=True)))

    @classmethod
    def gold(cls, corpus: Corpus) -> _Decision:
        return cls.of("gold", corpus, tuple(corpus.column(tape) for tape in _TAPES))

    def figures(self, gold: _Decision) -> str:
        """Return a line of percentages."""
        from fstcrf.evaluate import evaluate_spans, evaluate_tokens

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


def show_composed(joint: Composition, dev: Corpus, test: Corpus) -> Composition:
    """Show what two taggers say one after the other, and together; return their chain.

    Parameters
    ----------
    joint : Composition
        The product of a tagger of parts of speech and one of fields that reads it.
    dev, test : Corpus
    """
    from dataclasses import replace

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

    _show(test, gold, (cascade, product, together), telling)
    return chain


def show_grammar(chain: Composition, grammar: Grammar, text: str, test: Corpus) -> None:
    """Show what a grammar does to the answers of a composition.

    Parameters
    ----------
    chain : Composition
    grammar : Grammar
    text : str
        Of its file.
    test : Corpus
    """
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

    _show(test, gold, (free, kept), repaired)


def _show(
    test: Corpus,
    gold: _Decision,
    decisions: tuple[_Decision, ...],
    telling: Callable[[int], bool],
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
