"""The algebra of grammars, sets of symbols and restrictions, against all short labellings."""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Callable

import pytest

import fstcrf
from fstcrf.constraints import at_least, at_most, bio, contiguous
from fstcrf.errors import GrammarError
from fstcrf.machines.grammar import Grammar

LABELS = ("O", "B-X", "I-X", "B-Y")
SHORT = [s for n in range(5) for s in itertools.product(LABELS, repeat=n)]
TAPES = {"pos": ("D", "N"), "feats": ("Case=A", "Case=B", "_")}


def random_expression(rng: random.Random, depth: int) -> tuple[str, Callable[[str], bool]]:
    """Return an expression, and what it means by a regular expression over letters."""
    letter = dict(zip(LABELS, "oabc", strict=True))
    if depth == 0:
        label = rng.choice(LABELS)
        return f'"[{label}]"', re.compile(letter[label]).fullmatch  # type: ignore[return-value]
    kind = rng.choice("|&-~*")
    left, of_left = random_expression(rng, depth - 1)
    right, of_right = random_expression(rng, depth - 1)
    if kind == "|":
        return f"({left} | {right})", lambda s: bool(of_left(s) or of_right(s))
    if kind == "&":
        return f"({left} & {right})", lambda s: bool(of_left(s) and of_right(s))
    if kind == "-":
        return f"({left} - {right})", lambda s: bool(of_left(s) and not of_right(s))
    if kind == "~":
        return f"~({left})", lambda s: not of_left(s)
    return f"({left} any*)", lambda s: any(of_left(s[:k]) for k in range(len(s) + 1))


def said(labelling: tuple[str, ...]) -> str:
    return "".join(dict(zip(LABELS, "oabc", strict=True))[label] for label in labelling)


@pytest.mark.parametrize("seed", range(60))
def test_expressions(seed: int) -> None:
    text, means = random_expression(random.Random(seed), 3)
    expected = {s for s in SHORT if means(said(s))}
    if not expected:
        with pytest.raises(GrammarError, match="accepts no sentence"):
            Grammar.from_text(f"export X = {text} & any{{,4}};", LABELS)
        return
    grammar = Grammar.from_text(f"export X = {text};", LABELS)
    assert {s for s in SHORT if grammar.accepts(s)} == expected


def grammars() -> list[Grammar]:
    text = 'export X = ("[O]" | "[B-X]" "[I-X]"*)*;'
    several = [
        bio(),
        at_most(1, "X"),
        at_least(1, "Y"),
        contiguous(),
        Grammar.from_text(text),
        bio() & at_most(1, "B-X"),
    ]
    return [grammar.bound(LABELS) for grammar in several]


def language(grammar: Grammar) -> set[tuple[str, ...]]:
    return {s for s in SHORT if grammar.accepts(s)}


@pytest.mark.parametrize("pair", list(itertools.product(range(6), repeat=2)))
def test_algebra(pair: tuple[int, int]) -> None:
    a, b = (grammars()[k] for k in pair)
    assert language(a | b) == language(a) | language(b)
    assert language(a & b) == language(a) & language(b)
    assert language(~a) == set(SHORT) - language(a)
    apart = language(a) - language(b)
    if apart or a.witness(b) is not None:
        try:
            assert language(a - b) == apart
        except GrammarError:  # nothing is left
            assert not apart
    difference = language(a) ^ language(b)
    witness = a.witness(b)
    assert (witness is None) == (a == b)
    if difference:
        assert witness in difference
        assert len(witness) == min(map(len, difference))
    assert a == (b | a) - (b - a) if apart and language(b) - language(a) else True


def test_equality_is_of_languages() -> None:
    schemes = Grammar.shipped("bio").bound(LABELS), bio().bound(LABELS)
    assert schemes[0] == schemes[1]
    assert hash(schemes[0]) == hash(schemes[1])
    assert bio().bound(LABELS) == bio().bound(LABELS[::-1])
    assert bio().bound(LABELS) != bio().bound(LABELS[:3])
    assert bio() == bio()
    assert hash(bio()) == hash(bio())
    assert bio() != "bio"
    with pytest.raises(GrammarError, match=r"depends on the labels.*\.bound"):
        assert bio() == at_most(1, "X")


def test_scores_count() -> None:
    soft = at_most(1, "X", weight=-1.0).bound(LABELS)
    assert soft != at_most(1, "X", weight=-2.0).bound(LABELS)
    assert soft.witness(at_most(1, "X", weight=-2.0).bound(LABELS)) == ("B-X", "B-X")
    assert soft == at_most(1, "X", weight=-1.0).bound(LABELS)
    with pytest.raises(GrammarError, match=r"has scores.*\.support\(\)"):
        _ = soft | bio()
    with pytest.raises(GrammarError, match=r"has scores.*\.support\(\)"):
        _ = ~soft
    with pytest.raises(GrammarError, match=r"has scores.*\.support\(\)"):
        _ = bio().bound(LABELS) - soft
    assert language(soft.support()) == set(SHORT)


def test_labellings() -> None:
    grammar = (at_least(2, "X") & bio()).bound(LABELS)
    found = grammar.example()
    assert found == ("B-X", "B-X")
    assert at_most(1, "X").bound(LABELS).example() == ()
    samples = grammar.sample(50, seed=1)
    assert all(map(grammar.accepts, samples))
    assert len(set(map(str, samples))) > 10
    assert grammar.sample(5, seed=2) == grammar.sample(5, seed=2)
    nothing = Grammar.from_text('export X = "";', LABELS)
    assert nothing.sample(2) == [(), ()]
    with pytest.raises(GrammarError, match="not bound"):
        bio().example()


def test_several_tapes() -> None:
    text = 'tape pos, feats; export X = ("[pos=D feats=Case=A]" | "[pos=N]")*;'
    grammar = Grammar.from_text(text, TAPES)
    assert grammar == ~~grammar
    assert (~grammar).example() == {"pos": ("D",), "feats": ("Case=B",)}
    assert grammar.witness(Grammar.from_text("tape pos, feats; export Y = any*;", TAPES)) == {
        "pos": ("D",),
        "feats": ("Case=B",),
    }


def test_export_to_pynini() -> None:
    pynini = pytest.importorskip("pynini")
    grammar = (bio() & at_most(1, "X", weight=-0.5)).bound(LABELS)
    fst = grammar.to_fst()
    for labelling in SHORT:
        line = (
            pynini.accep(" ".join(labelling), token_type=fst.input_symbols())
            if labelling
            else pynini.accep("")
        )
        best = pynini.shortestdistance(pynini.compose(line, fst), reverse=True)
        cost = float(best[0]) if len(best) else float("inf")
        assert -cost == pytest.approx(grammar.score(labelling))


def test_on_a_tape_that_is_written() -> None:
    rng = random.Random(0)
    emissions = [[rng.gauss(0, 1) for _ in LABELS] for _ in range(5)]
    spans = fstcrf.Transducer.from_grammar(
        'export S = (("[B-X]" "[I-X]"* : "[X]") | ("[B-Y]" : "[Y]") | ("[O]" : ""))*;',
        LABELS,
        tape="span",
    )
    lattice = fstcrf.Lattice.from_arrays(LABELS, emissions) @ spans
    order = Grammar.from_text('export ORDER = ~(any* "[Y]" any* "[X]" any*);').on("span")
    held = lattice & order
    free = {tuple(path["span"]): path.score for path in lattice.nbest(1_000)}
    for path in held.nbest(1_000):
        assert "Y X" not in " ".join(path["span"])
        assert tuple(path["span"]) in free
    best = max(
        (p for p in lattice.nbest(1_000) if "Y X" not in " ".join(p["span"])),
        key=lambda path: path.score,
    )
    assert held.best().score == pytest.approx(best.score)


# --- Sets of symbols ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("short", "long"),
    [
        ('each t in {"X", "Y"} { "[B-{t}]" }', '"[B-X]" | "[B-Y]"'),
        ('(each t in parts["B-(.*)"] { "[B-{t}]" } | any)*', "any*"),
        ('each t in parts["I-(.*)"] { "[B-{t}]" "[I-{t}]"* }', '"[B-X]" "[I-X]"*'),
        ('all t in {"X", "Y"} { at_most[1, t] }', 'at_most[1, "X"] & at_most[1, "Y"]'),
        ('all t in {"X", "Y"} { at_most[1, "{t}"] }', 'at_most[1, "X"] & at_most[1, "Y"]'),
        ('each x in label["B-.*"] { x any? }', 'label["B-.*"] any?'),
        ('each t in {"X"} { label["[BI]-{t}"]* }', 'label["[BI]-X"]*'),
        (
            'each a in {"X", "Y"} { each b in {"X", "Y"} { "[B-{a}]" "[B-{b}]" } }',
            'label["B-."] label["B-."]',
        ),
        ("any{,2}", "any?  any?"),
        (
            '"[I-X]" => label["[BI]-X"] _',
            'any* - ("[I-X]" any* | any* (any - label["[BI]-X"]) "[I-X]" any*)',
        ),
        ('"[O]" => _ "[B-X]"', 'any* - (any* "[O]" | any* "[O]" (any - "[B-X]") any*)'),
    ],
)
def test_sets(short: str, long: str) -> None:
    first = Grammar.from_text(f"export X = {short};", LABELS)
    assert first == Grammar.from_text(f"export X = {long};", LABELS)


def test_constraints_that_all_hold_stay_in_parts() -> None:
    """Their product would have a state for each combination of counts."""
    kinds = [f"T{k}" for k in range(20)]
    labels = ["O", *(f"B-{kind}" for kind in kinds)]
    text = 'export FEW = all t in parts["B-(.*)"] { at_most[4, t] } & at_least[1, "T0"];'
    grammar = Grammar.from_text(text, labels)
    assert len(grammar.bind(labels)) == 21
    assert grammar.accepts(["B-T0"] * 4)
    assert not grammar.accepts(["B-T0"] * 5)
    assert not grammar.accepts(["B-T1"])


def test_functions_of_symbols_and_numbers() -> None:
    text = """
    func span[t, k] { return "[B-{t}]" "[I-{t}]"{,k}; }
    func both[t] { return span[t, 1] | at_least[1, t]; }
    export X = span["X", 2] | both["X"];
    """
    same = 'export X = "[B-X]" "[I-X]"{,2} | at_least[1, "X"];'
    assert Grammar.from_text(text, LABELS) == Grammar.from_text(same, LABELS)


def test_agreement_of_tapes() -> None:
    text = """
    tape pos, feats;
    NP = each c in values["feats", "Case=(.*)"] { "[pos=D feats=Case={c}]"?
                                                  "[pos=N feats=Case={c}]" };
    export AGREE = (NP | "[feats=_]")*;
    """
    by_hand = """
    tape pos, feats;
    A = "[pos=D feats=Case=A]"? "[pos=N feats=Case=A]";
    B = "[pos=D feats=Case=B]"? "[pos=N feats=Case=B]";
    export AGREE = (A | B | "[feats=_]")*;
    """
    assert Grammar.from_text(text, TAPES) == Grammar.from_text(by_hand, TAPES)
