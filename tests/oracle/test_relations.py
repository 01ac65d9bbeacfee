"""Relations of ``.grm`` files, and costs with names, against sets of pairs of strings."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import numpy as np
import pytest

import fstcrf
from fstcrf.constraints import at_most, bio
from fstcrf.errors import GrammarError
from fstcrf.machines.grammar import Grammar
from fstcrf.machines.grammar.language import parse_rules

LABELS = ("a", "b")
LONG = 4

String = tuple[str, ...]
Key = TypeVar("Key")
Pairs = dict[tuple[String, String], float]


def strings(symbols: str = "ab", longest: int = LONG) -> list[String]:
    return [s for n in range(longest + 1) for s in itertools.product(symbols, repeat=n)]


class Meaning:
    """A random expression, and the cost of each pair that it has, up to LONG labels."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def acceptor(self, depth: int, symbols: str) -> tuple[str, dict[String, float]]:
        kind = self.rng.choice("l|c*") if depth else "l"
        if kind == "l":
            label = self.rng.choice([*symbols, ""])
            return (f'"[{label}]"', {(label,): 0.0}) if label else ('""', {(): 0.0})
        left, one = self.acceptor(depth - 1, symbols)
        if kind == "*":
            return f"({left})*", _closed({(s, s): w for s, w in one.items()}, side=0)
        right, other = self.acceptor(depth - 1, symbols)
        if kind == "|":
            return f"({left} | {right})", _least([*one.items(), *other.items()])
        both = [(s + t, v + w) for s, v in one.items() for t, w in other.items()]
        return f"({left} {right})", _least([x for x in both if len(x[0]) <= LONG])

    def relation(self, depth: int) -> tuple[str, Pairs]:  # noqa: PLR0911 (a case for each kind)
        kind = self.rng.choice(":|c*w@i") if depth else ":"
        if kind == ":":
            left, one = self.acceptor(1, "ab")
            right, other = self.acceptor(1, "abx")
            pairs = {(s, t): v + w for s, v in one.items() for t, w in other.items()}
            return f"({left} : {right})", pairs
        left, first = self.relation(depth - 1)
        if kind == "*":
            return f"({left})*", _pairs_closed(first)
        if kind == "w":
            cost = self.rng.choice([0.5, 1.0, -0.25])
            return f"({left} <{cost}>)", {pair: w + cost for pair, w in first.items()}
        if kind == "i":
            return f"invert[invert[{left}]]", first
        right, second = self.relation(depth - 1)
        if kind == "|":
            return f"({left} | {right})", _least([*first.items(), *second.items()])
        if kind == "c":
            both = [
                ((s + u, t + x), v + w)
                for (s, t), v in first.items()
                for (u, x), w in second.items()
            ]
            return f"({left} {right})", _least([x for x in both if _short(x[0])])
        both = [
            ((s, x), v + w) for (s, t), v in first.items() for (u, x), w in second.items() if t == u
        ]
        return f"({left} @ {right})", _least(both)


def _short(pair: tuple[String, String]) -> bool:
    return max(map(len, pair)) <= LONG


def _least(rows: Iterable[tuple[Key, float]]) -> dict[Key, float]:
    best: dict[Key, float] = {}
    for key, cost in rows:
        best[key] = min(best.get(key, np.inf), cost)
    return best


def _closed(pairs: Pairs, side: int) -> dict[String, float]:
    return {pair[side]: w for pair, w in _pairs_closed(pairs).items()}


def _pairs_closed(pairs: Pairs) -> Pairs:
    known: Pairs = {((), ()): 0.0}
    for _ in range(2 * LONG):
        more = [
            ((s + u, t + x), v + w) for (s, t), v in known.items() for (u, x), w in pairs.items()
        ]
        again = _least([*known.items(), *(row for row in more if _short(row[0]))])
        if again == known:
            break
        known = again
    return known


def weight(machine: fstcrf.Transducer, read: String, written: String) -> float:
    """Return the best score of a pair, by a walk over the machine's arcs."""
    best = np.full((len(machine.final), len(read) + 1, len(written) + 1), -np.inf)
    best[0, 0, 0] = 0.0
    rows = list(
        zip(
            machine.source.tolist(),
            machine.input.tolist(),
            machine.output.tolist(),
            machine.target.tolist(),
            machine.score.tolist(),
            strict=True,
        )
    )
    ins, outs = machine.input_symbols, machine.output_symbols
    for _ in range((len(read) + len(written) + 2) * len(machine.final)):
        before = best.copy()
        for s, x, y, t, score in rows:
            for i, j in itertools.product(range(len(read) + 1), range(len(written) + 1)):
                if best[s, i, j] == -np.inf:
                    continue
                k, m = i + (x >= 0), j + (y >= 0)
                if k > len(read) or m > len(written):
                    continue
                if (x >= 0 and ins[x] != read[i]) or (y >= 0 and outs[y] != written[j]):
                    continue
                best[t, k, m] = max(best[t, k, m], best[s, i, j] + score)
        if np.array_equal(before, best):
            break
    return float((best[:, len(read), len(written)] + machine.final).max())


@pytest.mark.parametrize("seed", range(120))
def test_relations(seed: int) -> None:
    rng = random.Random(seed)
    text, pairs = Meaning(rng).relation(2)
    if not any(pairs):
        return
    try:
        machine = fstcrf.Transducer.from_grammar(f"export R = {text};", LABELS)
    except fstcrf.errors.EpsilonCycleError:
        pytest.skip("a loop that reads and writes nothing gains")
    asked = [pair for pair in pairs if _short(pair)][:25]
    every = [(s, t) for s in strings(longest=2) for t in strings("abx", 2)]
    for pair in [*asked, *rng.sample(every, 12)]:
        if "x" in pair[0]:
            continue  # nothing reads it but another relation
        assert weight(machine, *pair) == pytest.approx(-pairs.get(pair, np.inf)), (text, pair)


def test_one_run_for_each_pair_of_strings() -> None:
    machine = fstcrf.Transducer.from_grammar(
        'export R = ("[a]"* : ("[x]" | "[y]")*) ;', LABELS, tape="out"
    )
    lattice = fstcrf.Lattice.from_arrays(LABELS, np.zeros((3, 2))) @ fstcrf.Transducer.from_grammar(
        'export R = any{3} : ("[x]" | "[y]"){,2};', LABELS, tape="out"
    )
    assert len(lattice.nbest(1_000)) == 8 * 7
    assert sorted(machine.output_symbols) == ["x", "y"]


TIMES = {
    "?": (0, 1), "*": (0, LONG), "+": (1, LONG), "{2}": (2, 2), "{0,0}": (0, 0), "{0,3}": (0, 3),
    "{1,3}": (1, 3), "{2,}": (2, LONG), "{3,5}": (3, 5),
}  # fmt: skip
"""How often something is repeated, in strings that are not too long."""


@pytest.mark.parametrize("times", TIMES)
@pytest.mark.parametrize(
    "part",
    [
        '"[a]" : "[x]"',
        '"[a]" : ""',
        '("[a]" : "[x]") | ("[b]" : "[x]" "[y]")',
        '("[a]" : "[x]"){0,2} ("[b]" : "[y]")',
        '("[a]" : "")? "[b]"',
    ],
)
def test_a_repetition_of_what_has_one_run_has_one_run(part: str, times: str) -> None:
    """For each pair of strings, and in any semiring: else gradients and sums would be refused."""
    text = f"export R = ({part}){times};"
    machine = fstcrf.Transducer.from_grammar(text, ["a", "b", "x", "y"])
    low, high = TIMES[times]
    alone = fstcrf.Transducer.from_grammar(f"export R = {part};", ["a", "b", "x", "y"])
    once = [pair for string in strings() for pair in _runs(alone, string)]
    assert len(once) == len(set(once)) > 0
    wanted = set[tuple[String, String]]()
    longer: set[tuple[String, String]] = {((), ())}
    for number in range(high + 1):
        wanted |= longer if number >= low else set()
        pairs = itertools.product(longer, once)
        longer = {(x + s, y + t) for (x, y), (s, t) in pairs if len(x + s) <= LONG}
    found = [pair for string in strings() for pair in _runs(machine, string)]
    assert sorted(found) == sorted(wanted)


def _runs(machine: fstcrf.Transducer, string: String) -> list[tuple[String, String]]:
    """Return the pair of strings of each run over a string."""
    lattice = fstcrf.Lattice.from_paths([string], [0.0], ["a", "b", "x", "y"], tape="in")
    paths = (lattice @ replace(machine, semiring="log", tape="out")).nbest(1000)
    return [(path["in"], path["out"]) for path in paths]


def test_what_is_read_and_written() -> None:
    text = """
    R = ("[a]" : "[b]" "[b]") | ("[b]" : "[x]");
    export {}
    """
    cases: list[tuple[str, set[String]]] = [
        ("X = input[R];", {("a",), ("b",)}),
        ("X = output[R];", {("b", "b")}),  # x is no label
        ('X = input[R] & any - "[b]";', {("a",)}),
        ('X = output["[a]" @ R];', {("b", "b")}),
        ('X = input[R @ "[x]"];', {("b",)}),
    ]
    for export, accepted in cases:
        grammar = Grammar.from_text(text.replace("{}", export), LABELS)
        assert {s for s in strings() if grammar.accepts(s)} == accepted, export


@pytest.mark.parametrize(
    "text", ['any* "[a]" any{20}', '"[a]"', '("[a]" <1>)* "[b]" | ("[a]" <2>)* "[a]"']
)
def test_acceptors_need_no_deterministic_form(text: str) -> None:
    machine = fstcrf.Transducer.from_grammar(f"export X = {text};", LABELS)
    assert machine.tape is None
    rng = np.random.default_rng(0)
    lattice = fstcrf.Lattice.from_arrays(LABELS, rng.normal(size=(25 if "20" in text else 3, 2)))
    composed = lattice @ machine
    if text != '"[a]"':  # of one token
        assert machine.final.max() > -np.inf
        best = composed.best()
    if "20" in text:
        assert [str(label) for label in best.labels][4] == "a"
        with pytest.raises(GrammarError, match=r"Transducer\.from_grammar"):
            Grammar.from_text(f"export X = {text};", LABELS)


def test_grammars_as_transducers() -> None:
    labels = ("O", "B-X", "I-X")
    grammar = bio() & at_most(1, "X", weight=-0.5)
    emissions = np.random.default_rng(1).normal(size=(5, 3))
    lattice = fstcrf.Lattice.from_arrays(labels, emissions)
    composed = lattice @ fstcrf.Transducer.from_grammar(grammar, labels)
    assert composed.log_partition() == pytest.approx((lattice & grammar).log_partition())
    assert repr(composed.best().labels) == repr((lattice & grammar).best().labels)
    assert composed.best().score == pytest.approx((lattice & grammar).best().score)
    tapes: dict[str, tuple[str, ...]] = {"x": ("a",), "y": ("b",)}
    with pytest.raises(GrammarError, match="a transducer reads one"):
        fstcrf.Transducer.from_grammar(
            Grammar.from_text('tape x, y; export X = "[x=a y=b]"*;'), tapes
        )


# --- Costs with names -----------------------------------------------------------------------------

NAMED = 'export R = ((("[a]" : "[x]") <?ax>) | (("[b]" : "[y]") <?by>) | ("[b]" : "" <?ax>))*;'


def test_costs_with_names() -> None:
    costs = {"ax": 0.75, "by": -0.5}
    machine = fstcrf.Transducer.from_grammar(NAMED, LABELS, weights=costs, tape="out")
    numbers = NAMED.replace("?ax", "0.75").replace("?by", "-0.5")
    same = fstcrf.Transducer.from_grammar(numbers, LABELS, tape="out")
    assert np.array_equal(machine.score, same.score)
    zero = fstcrf.Transducer.from_grammar(NAMED, LABELS)
    assert not zero.score.any()
    for name, cost in costs.items():
        more = {**costs, name: cost + 1.0}
        other = fstcrf.Transducer.from_grammar(NAMED, LABELS, weights=more)
        assert np.allclose(machine.score - other.score, machine.named[name][: len(other.score)])
    soft = 'export X = (("[a]" <?a>) | "[b]")*;'
    assert Grammar.from_text(soft, LABELS, weights={"a": 2.0}).score(["a", "b", "a"]) == -4.0
    assert Grammar.from_text(soft, LABELS).score(["a", "b", "a"]) == 0.0


def test_costs_with_names_have_derivatives() -> None:
    rng = np.random.default_rng(4)
    lattice = fstcrf.Lattice.from_arrays(LABELS, rng.normal(size=(3, 2)), rng.normal(size=(2, 2)))

    def log_z(**costs: float) -> float:
        machine = fstcrf.Transducer.from_grammar(NAMED, LABELS, weights=costs, tape="out")
        return (lattice @ replace(machine, semiring="log")).log_partition()

    costs = {"ax": 0.75, "by": -0.5}
    machine = fstcrf.Transducer.from_grammar(NAMED, LABELS, weights=costs, tape="out")
    machine = replace(machine, semiring="log")
    found = machine.by_name((lattice @ machine).gradient()["out"])
    for name, cost in costs.items():
        step = 1e-5
        ends = [log_z(**{**costs, name: cost + sign * step}) for sign in (1.0, -1.0)]
        assert found[name] == pytest.approx((ends[0] - ends[1]) / (2 * step), abs=1e-6)


def test_costs_with_names_that_decide() -> None:
    text = 'export X = (("[a]" <?a>) | "[a]") : "[x]";'
    with pytest.raises(GrammarError, match=r"the cost <\?a> changes the structure"):
        fstcrf.Transducer.from_grammar(text + " ", LABELS, weights={"a": -0.5})
    with pytest.raises(GrammarError, match=r"no cost <\?b>; there are 'a'"):
        Grammar.from_text('export X = "[a]" <?a>;', weights={"b": 1.0})
    for cost in (float("nan"), float("inf"), "x"):
        with pytest.raises(fstcrf.errors.OptionError, match=r"the cost <\?a>"):
            Grammar.from_text('export X = "[a]" <?a>;', weights={"a": cost})  # type: ignore[dict-item]


# --- Imports --------------------------------------------------------------------------------------


def test_imports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "parts.grm").write_text(
        'func twice[x] { return x x; }\nHIDDEN = "[b]";\nexport A = "[a]";\n'
    )
    (tmp_path / "top.grm").write_text(
        'import "sub/parts.grm" as p;\nexport X = p.twice[p.A] | "[b]";\n'
    )
    grammar = Grammar.from_file(tmp_path / "top.grm", LABELS)
    assert {s for s in strings() if grammar.accepts(s)} == {("a", "a"), ("b",)}
    (tmp_path / "hidden.grm").write_text('import "sub/parts.grm" as p;\nexport X = p.HIDDEN;\n')
    with pytest.raises(
        GrammarError, match=r"hidden\.grm:2:12: p exports no 'HIDDEN'; there are 'twice', 'A'"
    ):
        Grammar.from_file(tmp_path / "hidden.grm")
    (tmp_path / "sub" / "wrong.grm").write_text('export A = "[c]";\n')
    (tmp_path / "other.grm").write_text('import "sub/wrong.grm" as p;\nexport X = p.A;\n')
    with pytest.raises(GrammarError, match=r"wrong\.grm:1:12: no label 'c'"):
        Grammar.from_file(tmp_path / "other.grm", LABELS)
    (tmp_path / "one.grm").write_text('import "two.grm" as t;\nexport X = t.X;\n')
    (tmp_path / "two.grm").write_text('import "one.grm" as o;\nexport X = o.X;\n')
    with pytest.raises(GrammarError, match=r"one\.grm → two\.grm → one\.grm"):
        Grammar.from_file(tmp_path / "one.grm")
    (tmp_path / "self.grm").write_text('import "self.grm" as s;\nexport X = any;\n')
    with pytest.raises(GrammarError, match=r"self\.grm:1:1: .*self\.grm → self\.grm"):
        Grammar.from_file(tmp_path / "self.grm")
    (tmp_path / "open.grm").write_text('export X = each["[a]", <?>];\n')
    monkeypatch.chdir(tmp_path)
    with pytest.raises(GrammarError, match=r"open\.grm:1:24: the cost <\?> has no value yet"):
        parse_rules('import "open.grm" as o; export X = o.X;')
    with pytest.raises(GrammarError, match=r"<input>:1:1: none\.grm: No such file"):
        Grammar.from_text('import "none.grm" as n; export X = any;')


# --- Messages -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('export X = "[a]" : "[b]";', "1:1: X is a relation"),
        ('export X = ("[a]" : "[b]") & any;', "1:12: an operand of '&' is a relation"),
        ('export X = any - ("[a]" : "[b]");', "1:12: an operand of '-' is a relation"),
        ('export X = "[a]" : ("[a]" : "[b]");', "1:12: an operand of ':' is a relation"),
        ('export X = each["[a]" : "[b]", <1>];', "1:12: "),
        ('tape x, y; export X = "[x=a]" : "[y=a]";', "1:23: a relation reads one tape"),
        ("export X = input[any, any];", "1:12: input takes one relation: input[x]"),
        ('export X = each t in any["x"] { t };', "1:22: any[…] is not a set of symbols"),
        ('export X = each t in parts["("] { t };', "1:22: '(' is not a regular expression"),
        ('export X = each t in {"a"} { u };', "1:30: 'u' is not defined"),
        ('export X = each t in parts["(.)"] { u };', "1:37: 'u' is not defined"),
        ("func f[k] { return any{k}; } export X = f[any];", "1:20: 'k' is no number"),
        ('func f[t] { return "[{t}]"; } export X = f[any];', "{t} must be replaced by one label"),
        ("export X = !any;", "1:12: unexpected '!'; a complement is written ~x"),
        ('export X = "[a]" : "[b]" | "[b]" : "[a]";', "1:34: unexpected ':'; ':' binds less"),
        ('export X = any "[a]" / any;', "1:22: unexpected '/'; rewrite rules"),
        ('export X = CDRewrite["[a]", any];', "1:12: 'CDRewrite' is not defined: make one"),
        ("export X = any <?>;", "1:12: <?> can only be the cost of a pattern"),
        ("export X = at_most[1, any, <?n>];", "1:28: <?n>: a named cost must follow"),
        ('export X = any\n   "[c]";', "2:4: no label 'c'; there are 'a', 'b'"),
        ('export X = each t in {"a", "b"} { "[{t}]" "[I-{t}]"* };',
         'need not be one, write label["..."], here label["I-a"]'),
        ('export X = "[a.*]";', "1:12: no label 'a.*'; a regular expression is written label["),
        ('export X = each t in parts["z(.)"] { t };', "1:12: no label has a part that matches"),
    ],
)  # fmt: skip
def test_messages(text: str, message: str) -> None:
    with pytest.raises(GrammarError) as raised:
        Grammar.from_text(text, LABELS)
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)
    assert raised.value.line is not None
    assert raised.value.column is not None


def test_which_export() -> None:
    text = 'export X = "[a]"; export Y = "[a]" : "[y]";'
    read = fstcrf.Transducer.from_grammar
    assert read(text, LABELS, export="X").tape is None
    assert read(text, LABELS, export="Y", tape="out").tape == "out"
    with pytest.raises(GrammarError, match="exports 'X', 'Y': choose one"):
        read(text, LABELS)
    with pytest.raises(GrammarError, match="no export 'Z'; there are 'X', 'Y'"):
        read(text, LABELS, export="Z")
    with pytest.raises(GrammarError, match=r"Path\('x\.grm'\)"):
        read("x.grm", LABELS)
