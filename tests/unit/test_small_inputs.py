"""Small inputs cost little: time is counted in operations and states, memory in bytes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import fstcrf
from fstcrf.errors import GrammarError, TemplateError
from fstcrf.machines.grammar.expansion import MAX_EXPANDED
from fstcrf.machines.grammar.language import parse_grammar
from fstcrf.text.features.template import MAX_ATTRIBUTES, MAX_MEMBERS, TemplateSet, parse_template
from tests.support.memory import peak

_SMALL, _LARGE = 200, 2_000


# --- Grammars -------------------------------------------------------------------------------------

_TEXTS: dict[str, Callable[[int], str]] = {
    "definitions": lambda n: _lines(n, 'a{} = "[O]";') + "export x = a0;",
    "a chain": lambda n: 'a0 = "[O]";\n' + "".join(f"a{i + 1} = a{i};\n" for i in range(n))
    + f"export x = a{n};",
    "functions": lambda n: _lines(n, "func f{}[x] {{ return x x; }}") + 'export y = f0["[O]"];',
    "a body": lambda n: f"func f[x] {{ {_lines(n, 'b{} = x;')} return b0; }}\n"
    'export y = f["[O]"];',
    "calls": lambda n: "func f[x] { return x; }\nexport y = " + " | ".join(['f["[O]"]'] * n) + ";",
}  # fmt: skip


def _lines(n: int, line: str) -> str:
    return "".join(line.format(i) + "\n" for i in range(n))


@pytest.mark.thorough
@pytest.mark.parametrize("text", _TEXTS.values(), ids=_TEXTS)
def test_memory_of_a_grammar_grows_with_its_text(text: Callable[[int], str]) -> None:
    parse_grammar(text(1))  # the parser itself
    small, large = (peak(parse_grammar, text(n)) for n in (_SMALL, _LARGE))
    assert large < 1.5 * _LARGE / _SMALL * small


def test_functions_that_double_are_bounded() -> None:
    doubling = "".join(f"func f{i + 1}[x] {{ return f{i}[x] | f{i}[x]; }}\n" for i in range(60))
    text = "func f0[x] { return x; }\n" + doubling + 'export y = f60["[O]"];'
    wanted = rf"^<input>:\d+:\d+: the functions expand to more than {MAX_EXPANDED:,}"
    with pytest.raises(GrammarError, match=wanted):
        parse_grammar(text)


def test_names_that_double_are_read_once() -> None:
    doubling = "".join(f"a{i + 1} = a{i} | a{i};\n" for i in range(60))
    text = 'a0 = "[O]";\n' + doubling + "export x = never[a60];"
    (acceptor,) = fstcrf.Grammar.from_text(text).bind(["O", "B-X"])
    assert acceptor.n_states == 1


def test_a_function_sees_what_stands_before_it_alone() -> None:
    text = 'a = "[O]";\nfunc f[x] {{ b = x; c = {}; return c; }}\nd = "[O]";\nexport y = f[d];'
    parse_grammar(text.format("b a"))
    with pytest.raises(GrammarError, match="'d' is used before its definition in line 3"):
        parse_grammar(text.format("d"))
    with pytest.raises(GrammarError, match="'c' is not defined"):
        parse_grammar(text.format("c"))


# --- Decoders -------------------------------------------------------------------------------------


@pytest.mark.thorough
def test_memory_of_a_decoder_grows_with_its_labels(tmp_path: Path) -> None:
    """Of its file, too; it has the thresholds of all types."""

    def load(types: int) -> int:
        names = [f"T{i}" for i in range(types)]
        labels = ["O", *(f"{letter}-{name}" for name in names for letter in "BIES")]
        decoder = fstcrf.TokenDecoder(labels, thresholds=dict.fromkeys(names, 0.5))
        path = tmp_path / f"{types}.json"
        decoder.save(path)
        return peak(fstcrf.TokenDecoder.load, path)

    load(1)
    assert load(_LARGE) < 1.5 * _LARGE / _SMALL * load(_SMALL)


# --- Templates ------------------------------------------------------------------------------------


def test_sets_of_a_template_are_bounded_with_its_line() -> None:
    text = "# words\n\nU1:" + "/".join(["%x{-9..9,word}"] * 5) + "\n"
    with pytest.raises(TemplateError, match=rf"^<input>:3: .* 2,476,099 .* {MAX_MEMBERS:,}"):
        parse_template(text)
    assert len(parse_template("U1:%x{-9..9,word}/%x{-9..9,word}/%x{-9..9,word}\n")) == 1


def test_templates_together_are_bounded_with_the_line_that_is_too_much() -> None:
    text = "".join(f"U{i}:%x{{0..99,word}}/%x{{0..99,word}}\n" for i in range(5))
    with pytest.raises(TemplateError, match=rf"^<input>:3: .* {MAX_ATTRIBUTES:,}"):
        parse_template(text)
    one, two, three, *_ = (parse_template(line) for line in text.splitlines(keepends=True))
    with pytest.raises(TemplateError, match=f"{MAX_ATTRIBUTES:,}"):
        TemplateSet((*one, *two, *three))


@pytest.mark.thorough
def test_windows_of_many_lines_cost_what_is_kept() -> None:
    text = "".join(f"U{i}:%x[-1000..1000,word]\n" for i in range(200))

    def parse() -> None:
        with pytest.raises(TemplateError, match=rf"^<input>:10: .*{MAX_ATTRIBUTES:,}"):
            parse_template(text)

    assert peak(parse) < 50 << 20


@pytest.mark.parametrize(
    "text",
    [
        "U:%x[" + "9" * 5_000 + ",0]",
        "U:%x[0," + "9" * 5_000 + "]",
        "U:%x[0,suffix(word," + "9" * 5_000 + ")]",
        "U:%x[0," + "lower(" * 2_000 + "word" + ")" * 2_000 + "]",
        'U:%x[0,match(word,"' + "(" * 5_000 + '")]',
        'U:%x[0,match(word,"a{99999999999999999999}")]',
        'U:%x[0,wapiti_test(word,"' + "a" * 200_000 + '")]',
    ],
    ids=["offset", "column", "argument", "functions", "brackets", "repeats", "Wapiti"],
)
def test_templates_that_are_too_much_for_python(text: str) -> None:
    with pytest.raises(TemplateError, match=r"^<input>:1: ") as caught:
        parse_template(text + "\n")
    assert len(str(caught.value)) <= 600


@pytest.mark.parametrize(
    "text",
    [
        'export x = "[O]"{' + "9" * 5_000 + "};",
        "export x = at_most[" + "9" * 5_000 + ', "O"];',
        'export x = label["' + "(" * 5_000 + '"];',
        'export x = label["a{99999999999999999999}"];',
    ],
    ids=["repeats", "argument", "brackets", "expression"],
)
def test_grammars_that_are_too_much_for_python(text: str) -> None:
    with pytest.raises(GrammarError, match=r"^<input>:1:\d+: ") as caught:
        parse_grammar(text)
    assert len(str(caught.value)) <= 600
