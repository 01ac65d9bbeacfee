"""``.grm`` files: syntax, scope, labels, and every message."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fstcrf import Transducer
from fstcrf.errors import GrammarError, OptionError
from fstcrf.machines.grammar import Grammar, expansion
from fstcrf.machines.openfst import to_bytes
from fstcrf.text.lines import read_text
from tests.support.memory import peak

BIO = ("O", "B-NP", "I-NP", "B-VP", "I-VP")
TAPES = {"pos": ("NN", "VB", "a=b", "c d"), "chunk": ("O", "B-NP", "I-NP")}


def bound(text: str, labels: Any = BIO) -> Grammar:
    return Grammar.from_text(text, labels)


def accepts(text: str, sentence: str, labels: Any = BIO) -> bool:
    return bound(text, labels).accepts(sentence.split())


def message(text: str, labels: Any = None) -> str:
    with pytest.raises(GrammarError) as raised:
        Grammar.from_text(text, labels)
    assert "\n" not in str(raised.value)
    return without_column(raised.value)


def without_column(error: GrammarError) -> str:
    """Return a message with the line alone: of some places the column does not matter."""
    assert error.line is None or error.column is not None
    return str(error).replace(f":{error.line}:{error.column}:", f":{error.line}:", 1)


# --- What a file says --------------------------------------------------------------------------


def test_all_exports_hold() -> None:
    text = 'A = "[O]"*; export B = any* "[O]"; export C = "[B-NP]" any*;'
    assert accepts(text, "B-NP O")
    assert not accepts(text, "O")
    assert not accepts(text, "B-NP")
    assert repr(Grammar.from_text(text)) == "Grammar(<text>: B & <text>: C)"


def test_precedence() -> None:
    """Repetition, then concatenation, then difference, then union."""
    assert accepts('export X = "[O]" "[B-NP]"* | "[B-VP]";', "O B-NP B-NP")
    assert not accepts('export X = "[O]" "[B-NP]"* | "[B-VP]";', "O B-VP")
    assert accepts('export X = any - "[O]" "[O]" | "[O]";', "O")
    assert accepts('export X = any any - "[O]" "[O]" - "[B-NP]" any;', "O B-NP")
    assert not accepts('export X = any any - "[O]" "[O]" - "[B-NP]" any;', "B-NP O")


def test_weights_are_costs() -> None:
    grammar = bound('export X = (("[O]" <1.5>) | any)* <-2>;')
    assert grammar.score(["O", "O", "B-NP"]) == 2.0  # the best path does not pay for O
    grammar = bound('export X = (("[O]" <1.5>) | label["[^O].*"])* <1e-1>;')
    assert grammar.score(["O", "O", "B-NP"]) == -3.1
    assert bound("export X = any* < .25 >;").score(["O"]) == -0.25


def test_labels_may_hold_anything() -> None:
    labels = ("a]b", 'c"d', "e f", "\\", "#", "<eps>", "0", "ü[", "(")
    strings = {label: label for label in labels}
    strings |= {"a]b": r"a\]b", 'c"d': r"c\"d", "\\": "\\\\"}
    for label in labels:
        assert accepts(f'export X = "[{strings[label]}]" any*;', "0", labels) == (label == "0")
        assert bound(f'export X = "[{strings[label]}]";', labels).accepts([label])
    assert bound('export X = label["c\\"d"]; # "', labels).accepts(['c"d'])


def test_classes_match_whole_labels() -> None:
    assert accepts('export X = label["B-.*"]*;', "B-NP B-VP")
    assert not accepts('export X = label["B"]* | "[O]";', "B-NP")
    assert not accepts('export X = label["NP"]* | "[O]";', "B-NP")


def test_functions() -> None:
    text = """
    func chunk[b, i] { rest = i*; return b rest; }   # definitions of its own
    NP = chunk["[B-NP]", "[I-NP]"];
    func limited[name] { return at_most[1, name]; }
    export CHUNKS = (NP | chunk["[B-VP]", "[I-VP]"] | "[O]")*;
    export ONE = limited["VP"];
    """
    assert accepts(text, "B-NP I-NP O B-VP I-VP B-NP")
    assert not accepts(text, "B-VP B-VP")
    assert not accepts(text, "I-NP")


def test_constraints() -> None:
    for text, good, bad in [
        ("export X = bio;", "B-NP I-NP", "O I-NP"),
        ("export X = bio[];", "B-NP I-NP", "O I-NP"),
        ("export X = iob1;", "I-NP B-NP", "B-NP"),
        ('export X = at_most[1, "NP"];', "B-NP I-NP", "B-NP B-NP"),
        ('export X = at_most[0, "[I-NP]"];', "B-NP", "B-NP I-NP"),
        ('export X = at_least[1, label["B-.*"]];', "B-NP", "O"),
        ('export X = exactly[2, "NP" | "VP"];', "B-NP B-VP", "B-NP"),
        ('T = "NP" | "VP"; export X = exactly[2, T];', "B-NP B-VP", "B-NP"),
        ('T = "NP" | spans["VP"]; export X = exactly[2, T];', "B-NP B-VP", "B-NP"),
        ('export X = exactly[1, spans["NP"]];', "B-NP I-NP", "O"),
        ('export X = before["VP", "NP"];', "B-VP B-NP", "B-NP B-VP"),
        ('export X = requires["VP", "NP"];', "B-NP B-VP", "B-VP"),
        ('export X = if_present["VP", before["VP", "NP"]];', "B-VP B-NP", "B-NP B-VP"),
        ('R = at_least[2, any]; export X = if_present["VP", R];', "B-VP O", "B-VP"),
        ('export X = if_present["VP", "NP"];', "O", "B-VP"),
        ('export X = never["VP"];', "B-NP", "I-VP"),
        ('export X = start_with["VP"];', "I-VP O", "O"),
        ('export X = end_with[label["[IO].*"]];', "O I-VP", "B-VP"),
        ("export X = contiguous;", "B-NP B-VP", "B-NP B-NP"),
        ("export X = contiguous[any];", "B-NP B-VP", "B-NP B-NP"),
        ('C = label["[^O].*"]; export X = contiguous[C];', "B-NP B-VP", "B-NP B-NP"),
        ('export X = contiguous["[B-NP]", scheme=none];', "B-NP B-NP", "B-NP O B-NP"),
        ('export X = at_most[1, "NP", scheme="iob2"];', "O I-NP O I-NP", "B-NP B-NP"),
        ('export X = never["VP"] | "[B-VP]";', "B-VP", "B-VP O"),
        ('export X = contiguous - "[O]"*;', "B-VP", "O"),
    ]:
        assert accepts(text, good), text
        assert not accepts(text, bad), text
    assert bound('export X = at_most[0, "NP", <2.5>];').score(["B-NP", "B-NP"]) == -5.0


def test_an_export_that_is_a_constraint_stays_in_parts() -> None:
    acceptors = bound("\nexport ONCE = contiguous[any];").bind(BIO)
    assert [a.name for a in acceptors] == [
        '<text>:2: ONCE: contiguous("NP")',
        '<text>:2: ONCE: contiguous("VP")',
    ]
    (one,) = bound("export X = contiguous any?;").bind(BIO)
    assert one.name == "<text>:1: X"


def test_one_tape() -> None:
    text = 'tape chunk; export X = "[B-NP]" any*; export Y = at_most[1, "NP"];'
    found = Grammar.from_text(text).bind(TAPES)
    assert [a.tapes for a in found] == [("chunk",)] * 2
    assert [a.tapes for a in Grammar.from_text(text).bind(BIO)] == [("",)] * 2
    assert "no tape 'chunk'" in message(text, {"pos": ["O"], "ner": ["O"]})
    assert "does not name the tape that it reads" in message(
        'export X = "[O]";', {"a": ["O"], "b": ["O"]}
    )


def test_several_tapes() -> None:
    text = """tape pos, chunk;
    VERB = "[pos=VB chunk=O]";
    export X = (VERB | "[pos=NN]" | "[pos=a=b chunk=I-NP]" | "[ chunk=B-NP  pos=c\\ d ]")*;
    export Y = any* label["pos=N+ chunk=[BI].*"];
    export Z = at_most[1, "NP", tape=chunk];
    """
    grammar = bound(text, TAPES)
    for pos, chunk, expected in [
        ("VB NN", "O B-NP", True),
        ("VB NN", "B-NP B-NP", False),
        ("NN NN", "B-NP O", False),
        ("NN NN", "B-NP B-NP", False),
        ("a=b NN", "I-NP I-NP", True),
        ("a=b NN", "O B-NP", False),
    ]:
        labelling = {"pos": pos.split(), "chunk": chunk.split()}
        assert grammar.accepts(labelling) == expected, labelling
    assert grammar.accepts({"pos": ["c d", "NN"], "chunk": ["B-NP", "I-NP"]})
    assert {a.tapes for a in grammar.bind(TAPES)} == {("pos", "chunk"), ("chunk",)}


def test_many_pairs_stay_workable() -> None:
    """45 × 22 labels: the machine is made over what the expression tells apart."""
    sets = {"pos": tuple(f"P{i}" for i in range(45)), "chunk": tuple(f"C{i}" for i in range(22))}
    text = 'tape pos, chunk; export X = (any - "[pos=P7 chunk=C3]" | "[pos=P7]" "[chunk=C4]")*;'
    (acceptor,) = Grammar.from_text(text).bind(sets)
    assert acceptor.target.shape == (2, 45, 22)
    assert acceptor.target[0, 7, 3] == 1
    assert acceptor.target[0].sum() == 1


# --- Files -------------------------------------------------------------------------------------


def test_a_file(tmp_path: Path) -> None:
    path = tmp_path / "np.grm"
    path.write_text('\ufeff# comment\nexport NP = "[ü]"*;\n', "utf-8")
    grammar = Grammar.from_file(path)
    (acceptor,) = grammar.bind(["ü"])
    assert acceptor.name == "np.grm:2: NP"
    with pytest.raises(GrammarError) as raised:
        grammar.bind(["u"])
    assert str(raised.value) == f"{path}:2:13: no label 'ü'; there are 'u'"
    assert (raised.value.path, raised.value.line) == (str(path), 2)
    path.write_bytes(b"# ok\n# \xff\n")
    with pytest.raises(GrammarError, match=r"np\.grm:2: byte 0xff is not UTF-8"):
        Grammar.from_file(path)
    with pytest.raises(FileNotFoundError):
        Grammar.from_file(tmp_path / "absent.grm")


def test_syntax_is_checked_before_labels_are_known() -> None:
    assert Grammar.from_text("export X = contiguous;").labels is None
    assert "expected" in message("export X = ;")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "exports nothing; write: export NAME = ...;"),
        ('A = "[x]";', "exports nothing"),
        ("export X = ;", "<input>:1: unexpected ';'; expected '(', '~', a name, labels in quotes"),
        ('export X = "[x]"', "<input>:1: the text ends too early; expected"),
        ('\n\nexport X = ("[x]";\n', "<input>:3: unexpected ';'; expected"),
        ('export X = "[x];', "quotes that are not closed on this line"),
        ("export X = any $;", "<input>:1: unexpected '$'"),
        ("export X = any <one>;", "expected a number between < and >"),
        ("export X = any <1> | any;", "unexpected '|' after a weight; a weight ends the whole"),
        ("export X = any{3,1};", "{3,1}: expected two numbers up to 1000, the smaller first"),
        ("export X = any{2000};", "{2000,2000}: expected two numbers up to 1000"),
        ("export X = any{2000,};", "{2000,}: expected"),
        ('export X = "x";', '<input>:1: "x": a label must be in brackets: "[LABEL]"'),
        ('export X = "[x";', "a label must be in brackets"),
        ('export X = "[x] y";', "a label must be in brackets"),
        ("export X = Y;", "'Y' is not defined"),
        ("export Verbs = any; export X = verbs;", "'verbs' is not defined; the nearest are Verbs"),
        ("export X = contiguuous;", "the nearest are contiguous"),
        ("export X = Y;\nY = any;", "'Y' is used before its definition in line 2 is complete"),
        ("export X = any X;", "'X' is used in its own definition"),
        (
            "\nX = any\nX;export Y = X;",
            "'X' is used in its own definition; a grammar cannot be recursive",
        ),
        ("func f[x] { return x f[x]; }\nexport X = f[any];", "'f' is used in its own definition"),
        ("X = any; X = any; export Y = X;", "'X' is defined twice, first in line 1"),
        ("any = bio; export Y = any;", "'any' is built in; choose another name"),
        ("func bio[x] { return x; } export Y = any;", "'bio' is built in"),
        ("func f[x, x] { return x; } export Y = any;", "'x' is defined twice"),
        ("func f[x] { x = any; return x; } export Y = any;", "'x' is defined twice"),
        ("func f[any] { return any; } export Y = any;", "'any' is built in"),
        ("func f[x] { return x; } export Y = f;", "'f' is a function: write f[...]"),
        ("func f[x] { return x; } export Y = f[any, any];", "f takes 1 arguments, not 2"),
        ("func f[x] { return x; } export Y = f[1];", "is a number, expected an expression"),
        ("X = any; export Y = X[any];", "'X' is not a function and takes no arguments"),
        ("export Y = g[any];", "'g' is not defined"),
        ('export Y = any - ("[x]" <1>);', "the right side of a minus has weights"),
        ("export Y = label[any];", 'label takes a regular expression in quotes: label["B-.*"]'),
        ('export Y = label["B-("];', "'B-(' is not a regular expression"),
        ('export Y = at_most[1, label["B-("]];', "'B-(' is not a regular expression"),
        ('export Y = spans["NP"];', "'spans' names no labels here, only in a constraint"),
        (
            "export Y = at_most;",
            'wrong arguments for at_most, expected for example at_most[2, "NAME"]',
        ),
        ('export Y = at_most["NP", 1];', "wrong arguments for at_most"),
        ("export Y = at_most[1, bio];", "wrong arguments for at_most"),
        ("export Y = bio[any];", "wrong arguments for bio, expected for example bio"),
        ('export Y = at_most[1, "a" "b"];', "a label must be in brackets"),
        ('export Y = at_most[1, "[a]" "[b]"];', "expected labels, types, classes of labels, or a"),
        ('export Y = at_most[1, "[a][b]"];', '"[a][b]": expected one label here'),
        ('export Y = at_most[1, "[a"];', "a label must be in brackets"),
        ('export Y = at_most[1, bio "[b]"];', "expected labels, types"),
        ('export Y = at_most[20000, "NP"];', "expected a whole number from 0 to 10000"),
        (
            'export Y = at_most[1, "NP", color=red];',
            "at_most has no option 'color', only scheme, tape",
        ),
        ("export Y = bio[scheme=iob1];", "bio has no option 'scheme', only tape, weight"),
        ("tape a; tape b; export X = any;", "the tapes are named twice"),
        ("tape a, a; export X = any;", "a tape is named twice"),
        ('tape a, b; export X = "[x]";', "[x]: expected tape=label for some of the tapes 'a', 'b'"),
        ('tape a, b; export X = "[c=x]";', "[c=x]: expected tape=label"),
        ('tape a, b; export X = "[a=x a=y]";', "[a=x a=y]: tape 'a' is there twice"),
        ('tape a, b; export X = label["x"];', "[x]: expected tape=label"),
    ],
)
def test_messages_without_labels(text: str, expected: str) -> None:
    found = message(text)
    assert expected in found
    assert "<input>" in found or "exports nothing" in found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('export X = any\n"[B-PN]";', "<input>:2: no label 'B-PN'; the nearest are 'B-NP'"),
        (
            '\nexport X = at_most[1, "PN"];',
            "<input>:2: at_most(1, \"PN\"): no label and no type 'PN'",
        ),
        ("export X = any any - any{2};", "<input>:1: export X accepts no sentence"),
        ('export X = label["Q"]*;', 'accepts no sentence; no label is in label["Q"]'),
        ('export X = "" - "";', "export X accepts no sentence"),
        ("\nexport X = never[any];", "<input>:2: never(any) accepts no sequence"),
        (
            'export X = ("" <-1>)* any;',
            "a loop that reads no label has a negative weight, a reward",
        ),
        ('export X = any - at_most[0, "NP", <1>];', "the right side of a minus is soft"),
        (
            'export X = ("[O]" <1>)* ("[O]" "[B-NP]")? | ("[O]" <2>)* "[O]" "[B-VP]";',
            "export X is too large: more than 10000 states; are there two ways to read the same",
        ),
        ('export X = any* "[O]" any{20};', "export X is too large: more than 10000 states"),
    ],
)
def test_messages_about_labels(text: str, expected: str) -> None:
    found = message(text, BIO)
    assert expected in found
    assert ("are there two ways" in found) == ("two ways" in expected)


def test_a_grammar_that_comes_with_fstcrf() -> None:
    assert Grammar.shipped("bio", BIO).accepts(["B-NP", "I-NP"])
    with pytest.raises(GrammarError, match="fstcrf ships no grammar 'boi', only bio"):
        Grammar.shipped("boi")


def test_classes_without_labels() -> None:
    """An error in a constraint, where it would say nothing; in expressions they match nothing."""
    labels = ["O", "ZipCode"]
    with pytest.raises(GrammarError) as caught:
        Grammar.from_text('\nexport A = never[label["Zipcode"]];', labels)
    assert str(caught.value) == (
        '<input>:2:12: never(label("Zipcode")): no label matches label("Zipcode"); the nearest are '
        "'ZipCode'"
    )
    free = Grammar.from_text('export A = any* - (any* label["Zipcode"] any*);', labels)
    assert free.accepts(["ZipCode", "O"])


@pytest.mark.parametrize("text", ["any <1e400>", "any <-1e400>", 'at_most[1, "O", <1e999>]'])
def test_costs_are_finite(text: str) -> None:
    with pytest.raises(GrammarError, match="at most 1e") as caught:
        Grammar.from_text(f"\nexport A = {text};")
    assert caught.value.line == 2


TYPES = [f"T{k}" for k in range(150)]
MANY = ("O", *(f"{place}-{kind}" for kind in TYPES for place in "BI"))


@pytest.mark.parametrize("cost", ["", " <0.5>"])
def test_three_hundred_labels(cost: str) -> None:
    spans = " | ".join(f'("[B-{kind}]" "[I-{kind}]"*{cost})' for kind in TYPES)
    (found,) = bound(f'export X = ({spans} | "[O]")*;', MANY).bind(MANY)
    assert found.n_states == 151
    assert found.walk(["O", "B-T3", "I-T3", "B-T149"]) == (-1.0 if cost else 0.0)
    assert found.walk(["B-T3", "I-T4"]) == -np.inf
    (either,) = bound("export X = (" + " | ".join(f'"[{x}]" any' for x in MANY) + ")*;", MANY).bind(
        MANY
    )
    assert either.n_states == 2


def test_nested_counts() -> None:
    (found,) = bound('export X = (("[O]"{1,20} "[B-NP]"){1,20})*;').bind(BIO)
    assert found.n_states == 21
    assert found.walk(["O"] * 20 + ["B-NP", "O", "B-NP"]) == 0.0
    assert found.walk(["O"] * 21 + ["B-NP"]) == -np.inf
    (exact,) = bound("export X = (any{3}){2,4} | any{1000};").bind(BIO)
    accepted = [n for n in range(1001) if exact.walk(["O"] * n) == 0.0]
    assert accepted == [6, 9, 12, 1000]


def test_a_minus_that_meets_too_many_states(monkeypatch: pytest.MonkeyPatch) -> None:
    text = 'export X = any{1,50} - any* "[O]" any{6};'
    assert accepts(text, "B-NP O")
    monkeypatch.setattr("fstcrf.machines.grammar.regular.MAX_PAIRS", 1000)
    assert "X is too large: the two sides of a minus" in message(f"{text} # once more", BIO)


def test_parts_of_too_many_arcs() -> None:
    every = " | ".join(f'("[{x}]" <{k / 8}>)' for k, x in enumerate(MANY))
    found = message(f"export X = (({every}){{1,1000}}){{1,20}};", MANY)
    assert "X is too large: a part of it has" in found


@pytest.mark.thorough
@pytest.mark.parametrize(
    "text",
    [
        "export A = (any{1,100}){1,100};",
        "export A = ((any{1,100}){1,100}){1,100};",
        "func d[x] { return x{100}; }\nexport A = d[d[d[d[any]]]];",
        "A = any{1,1000};\nexport B = A{1,100} - any{500};",
    ],
)
def test_machines_on_the_way_are_bounded(text: str) -> None:
    with pytest.raises(GrammarError, match="is too large"):
        Grammar.from_text(text, ["a", "b"])


# --- Nesting -----------------------------------------------------------------------------------


def nested(depth: int) -> str:
    lines = [f'D{k} = ("[O]" D{k - 1} "[B-NP]" | "[I-NP]")*;\n' for k in range(1, depth)]
    return 'D0 = "";\n' + "".join(lines) + f"export X = D{depth - 1};"


def test_definitions_that_are_nested_deeply() -> None:
    grammar = Grammar.from_text(nested(300), BIO)
    assert grammar.accepts(["O"] * 50 + ["B-NP"] * 50)
    assert not grammar.accepts(["O"] * 50 + ["B-NP"] * 49)
    assert Grammar.from_text(f"export X = {'(' * 3000}any{')' * 3000};", BIO).accepts(["O"])


@pytest.mark.thorough
def test_deep_nesting_costs_by_its_depth() -> None:
    """Each definition once held a copy of those in it: 85 MB at this depth."""
    assert peak(lambda: Grammar.from_text(nested(500), BIO)) < 30e6


def test_definitions_that_add_nothing_cost_nothing() -> None:
    """Names for names, and a text that doubles nothing: neither is walked once for each use."""
    names = "".join(f'A{k} = A{k - 1} "";\n' for k in range(1, 400))
    twice = "".join(f"E{k} = E{k - 1} E{k - 1};\n" for k in range(1, 60))
    doubled = "".join(f"B{k} = B{k - 1} B{k - 1};\n" for k in range(1, 13))
    text = f'A0 = "[O]";\n{names}E0 = "";\n{twice}B0 = A399;\n{doubled}export X = E59 B12;'
    grammar = Grammar.from_text(text, BIO)
    assert grammar.accepts(["O"] * 4096)
    assert not grammar.accepts(["O"] * 4095)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("\n\nexport X = " + '("[O]" ' * 3000 + "any" + ")*" * 3000 + ";", 3),
        ("func f[x] {\n return x;\n}\nexport X = " + "f[" * 500 + "any" + "]" * 500 + ";", 4),
        ('export A = "[O]"; # ((((\nexport X = any* ' + '- "[O]"' * 2000 + ";", 1),
        ("\nexport X = " + 'if_present["NP", ' * 400 + 'before["NP", "NP"]' + "]" * 400 + ";", 2),
        (
            "func f0[x] { return x; }\n"
            + "".join(f"func f{k}[x] {{ return f{k - 1}[x]; }}\n" for k in range(1, 800))
            + "export X = f799[any];",
            801,
        ),
    ],
    ids=["parentheses", "functions", "minus", "constraints", "functions of functions"],
)
def test_expressions_that_are_nested_too_deeply(text: str, line: int) -> None:
    assert message(text) == (
        f"<input>:{line}: an expression is nested too deeply: give its parts names, in definitions "
        "of their own"
    )


# --- Files that a grammar names -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "depth"),
    [("p.X | q.X", 8), ("p.X & q.X", 24), ("p.X - q.X | q.X", 24), ("p.f[q.X]", 24)],
)
def test_each_file_is_read_once(
    body: str, depth: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []

    def read_once(path: Any) -> str:
        read.append(Path(path).name)
        return read_text(path)

    monkeypatch.setattr(expansion, "read_text", read_once)
    names = [f"d{k}.grm" for k in range(depth + 1)]
    for name, after in itertools.pairwise(names):
        (tmp_path / name).write_text(
            f'import "{after}" as p;\nimport "./{after}" as q;\n'
            f"func f[x] {{ return x; }}\nexport X = {body};\n"
        )
    (tmp_path / names[-1]).write_text('func f[x] { return x; }\nexport X = "[O]"*;\n')
    grammar = Grammar.from_file(tmp_path / names[0], ["O"])
    assert sorted(read) == sorted(names[1:])
    assert grammar.accepts(["O", "O"])


MACHINE = Transducer.from_text("0 0 O\n0", tape=None)
NAMING = {"import": 'import "{}" as p; export X = p.X;', "fst": 'export X = fst["{}"];'}


@pytest.mark.parametrize("naming", NAMING)
@pytest.mark.parametrize("way", ["up", "absolute", "a link", "a folder", "through a file below"])
@pytest.mark.parametrize(
    "door", [Grammar.from_file, partial(Transducer.from_grammar, labels=["O"])]
)
def test_grammars_name_files_below_the_first_one(
    way: str, naming: str, door: Callable[..., object], tmp_path: Path
) -> None:
    folder = tmp_path / "own"
    (folder / "sub").mkdir(parents=True)
    (tmp_path / "secret").write_text("password")
    (folder / "link").symlink_to(tmp_path / "secret")
    (folder / "around").symlink_to(tmp_path)
    names = {"up": "../secret", "absolute": f"{tmp_path}/secret", "a link": "link"}
    text = NAMING[naming].format(names.get(way, "around/secret"))
    if way == "through a file below":
        (folder / "sub" / "b.grm").write_text(NAMING[naming].format("../../secret"))
        text = NAMING["import"].format("sub/b.grm")
    (folder / "a.grm").write_text(text)
    with pytest.raises(GrammarError, match=r"is outside of .*own, .*folders=") as caught:
        door(folder / "a.grm")
    assert "password" not in str(caught.value)
    with pytest.raises(GrammarError, match=r"is outside of .*own, .*folders="):
        door(folder / "a.grm", folders=[folder / "sub", tmp_path / "other"])

    if naming == "fst":
        (tmp_path / "secret").write_bytes(to_bytes(MACHINE))
    else:
        (tmp_path / "secret").write_text('export X = "[O]"*;')
    for allowed in ([tmp_path], [str(tmp_path)], [tmp_path / "other", folder / "around"]):
        door(folder / "a.grm", folders=allowed)


def test_what_is_below_the_first_file_may_name_what_is_beside_it(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "b.grm").write_text('import "../c.grm" as c;\nexport X = c.X;\n')
    (tmp_path / "c.grm").write_text('export X = "[O]"*;\n')
    (tmp_path / "a.grm").write_text('import "sub/b.grm" as p;\nexport X = p.X;\n')
    assert Grammar.from_file(tmp_path / "a.grm", ["O"]).accepts(["O"])


def test_a_text_names_files_of_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "c.grm").write_text('export X = "[O]"*;\n')
    (tmp_path / "own" / "c.grm").write_text('export X = "[O]"*;\n')
    monkeypatch.chdir(tmp_path / "own")
    assert Grammar.from_text('import "c.grm" as c; export X = c.X;', ["O"]).accepts(["O"])
    outside = 'import "../c.grm" as c; export X = c.X;'
    with pytest.raises(GrammarError, match=r"^<input>:1:1: '../c.grm' is outside of"):
        Grammar.from_text(outside)
    assert Grammar.from_text(outside, ["O"], folders=[tmp_path]).accepts(["O"])


@pytest.mark.parametrize("folders", ["own", 3, None, [3], [None], {"own"}, ["a\0b"]])
def test_folders_are_a_list_of_paths(folders: Any) -> None:
    for text in ('export X = "[O]";', 'import "c.grm" as c; export X = c.X;'):
        with pytest.raises(OptionError):
            Grammar.from_text(text, folders=folders)
        with pytest.raises(OptionError):
            Transducer.from_grammar(text, ["O"], folders=folders)


@pytest.mark.parametrize("text", ['import "{}" as p; export X = p.X;', 'export X = fst["{}"];'])
@pytest.mark.parametrize("kind", ["pipe", "device", "folder"])
def test_grammars_open_regular_files_alone(kind: str, text: str, tmp_path: Path) -> None:
    if kind == "pipe":
        os.mkfifo(tmp_path / "x")  # opening it would wait for a writer
    elif kind == "folder":
        (tmp_path / "x").mkdir()
    else:
        (tmp_path / "x").symlink_to("/dev/zero")
    (tmp_path / "a.grm").write_text(text.format("x"))
    with pytest.raises(GrammarError, match=r"no regular file|outside of"):
        Grammar.from_file(tmp_path / "a.grm").bind(["O"])
