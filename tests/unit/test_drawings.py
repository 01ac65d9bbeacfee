"""Pictures written by fstcrf itself: what is in them, that they are XML, and that text is text."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

import fstcrf
from fstcrf import Grammar, Lattice
from fstcrf.constraints import at_most, bio
from fstcrf.errors import GrammarError, NoPathError, OptionError, ShapeError, TooLargeError
from fstcrf.ext.pictures import svg as pictures
from fstcrf.machines.topology import chain_topology

SVG = "{http://www.w3.org/2000/svg}"
NEVER = -math.inf


def parsed(svg: str) -> ET.Element:
    root = ET.fromstring(svg)
    assert root.tag == f"{SVG}svg"
    assert root.get("role") == "img"
    assert root[0].tag == f"{SVG}title"
    return root


def texts(svg: str) -> list[str]:
    return [text.text or "" for text in parsed(svg).iter(f"{SVG}text")]


def arcs(svg: str) -> int:
    return sum(path.get("marker-end") is not None for path in parsed(svg).iter(f"{SVG}path"))


@pytest.fixture(autouse=True)
def no_graphviz(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))


def random_lattice(sizes: tuple[int, ...], tokens: int, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    parts = [
        Lattice.from_arrays(
            [f"{name}{i}" for i in range(size)],
            rng.normal(size=(tokens, size)),
            rng.normal(size=(size, size)),
            tape=name,
        )
        for name, size in zip("abc", sizes, strict=False)
    ]
    return parts[0] if len(parts) == 1 else fstcrf.compose(*parts)


# --- Lattices -------------------------------------------------------------------------------------


def test_a_small_lattice_is_a_trellis(tmp_path: Path) -> None:
    one = random_lattice((2,), 3)
    svg = one.draw(tmp_path / "one.svg", tokens=["x<y", "&", '"q"'])
    assert (tmp_path / "one.svg").read_text("utf-8") == svg
    shown = texts(svg)
    assert {"x<y", "&", '"q"', "a0", "a1"} <= set(shown)
    assert arcs(svg) == 2 * 4
    for share in one.marginals().ravel():
        assert f"{share:.2f}" in shown


def test_states_of_a_grammar_are_numbered() -> None:
    shown = texts((random_lattice((2,), 3) & at_most(1, "a1")).draw())
    assert {"a0 0", "a0 1", "a1 1"} <= set(shown)


@pytest.mark.parametrize("tokens", [2, 45])
def test_a_large_product_is_a_table_for_each_tape(tokens: int) -> None:
    one = random_lattice((9, 8, 7), tokens)
    shown = texts(one.draw())
    for tape in one.tapes:
        assert any(text.startswith(tape) for text in shown)
    assert arcs(one.draw()) == 0
    best = one.best()
    marked = [r for r in parsed(one.draw()).iter(f"{SVG}rect") if r.get("stroke") == "#b34700"]
    assert len(marked) == 3 * len(best.labels[0])


def test_long_sentences_are_cut_and_say_so() -> None:
    shown = texts(random_lattice((2,), 1000).draw())
    assert "a, tokens 0 to 39" in shown
    assert any("600 more tokens are not drawn" in text for text in shown)


def test_where_paths_are_searched_the_best_is_drawn() -> None:
    one = random_lattice((4,), 5).constrained(at_most(2, "a1"), search="lazy")
    assert any("the best path" in text for text in texts(one.draw()))


def test_no_tokens_and_no_paths() -> None:
    assert "no tokens" in texts(Lattice.from_arrays(["a"], np.zeros((0, 1))).draw())
    with pytest.raises(NoPathError, match="forbidden"):
        Lattice.from_arrays(
            ["a", "b"], [[NEVER, 0.0], [0.0, NEVER]], [[0.0, 0.0], [NEVER, 0.0]]
        ).draw()


def test_couplings() -> None:
    a, b = random_lattice((2,), 3), Lattice.from_arrays(["x", "y", "z"], np.zeros((3, 3)), tape="b")
    fixed = fstcrf.compose(a, b, coupling={(0, 1): [[0.5, NEVER, 1.0], [0.0, -2.25, 0.0]]})
    shown = texts(fixed.draw(of="couplings"))
    assert shown[0] == "a × b"
    assert {"a0", "a1", "x", "y", "z", "0.5", "–", "-2.25"} <= set(shown)
    brought = fstcrf.compose(a, b, coupling={(0, 1): np.arange(18.0).reshape(3, 2, 3)})
    shown = texts(brought.draw(of="couplings", tokens=["p", "q", "r"]))
    assert [text for text in shown if "token" in text] == [f"a × b, token {t}" for t in "pqr"]
    assert "17" in shown
    assert "nothing couples the tapes" in texts(a.draw(of="couplings"))


def test_errors_of_lattices(tmp_path: Path) -> None:
    one = random_lattice((2,), 3)
    with pytest.raises(ShapeError, match="2 tokens for a lattice of 3"):
        one.draw(tokens=["a", "b"])
    with pytest.raises(OptionError, match=r"x\.png: pictures are SVG; name the file"):
        one.draw(tmp_path / "x.png")
    wrong: Any = "all"
    with pytest.raises(OptionError, match="of is 'all', expected lattice or couplings"):
        one.draw(of=wrong)
    with pytest.raises(OSError, match="No such file"):
        one.draw(tmp_path / "none" / "x.svg")


# --- Topologies, grammars -------------------------------------------------------------------------


def test_topologies(tmp_path: Path) -> None:
    small = chain_topology(
        ("O", "B", "I"), allowed=lambda a, b: not (b == "I" and a in {None, "O"})
    )
    svg = small.draw(tmp_path / "t.svg")
    assert (tmp_path / "t.svg").read_text("utf-8") == svg
    assert arcs(svg) == len(small.source) + 2  # two beginnings
    shown = texts(small.draw(arc_slots=np.arange(small.n_arc_slots) / 4))
    assert {"<s>", "–", "0.75"} <= set(shown)
    large = chain_topology([f"L{i}" for i in range(120)])
    assert any("20 of 120 states are not drawn" in text for text in texts(large.draw()))
    with pytest.raises(ShapeError, match="arc_slots is"):
        small.draw(arc_slots=[1.0])


def test_grammars(tmp_path: Path) -> None:
    labels = ["O", "B-NP", "I-NP"]
    grammar = bio() & at_most(1, "NP")
    svg = grammar.draw(tmp_path / "g.svg", labels=labels)
    assert (tmp_path / "g.svg").read_text("utf-8") == svg == grammar.bound(labels).draw()
    assert {"bio()", 'at_most(1, "NP")'} <= set(texts(svg))
    with pytest.raises(GrammarError, match="not bound to labels"):
        grammar.draw()
    many = Grammar.from_arrays(
        [f"L{i}" for i in range(50)], np.arange(50).reshape(1, 50).repeat(50, axis=0)
    )
    with pytest.raises(TooLargeError, match="2,500 arcs are too many for a drawing"):
        many.draw(labels=[f"L{i}" for i in range(50)])


def test_texts_of_arcs_are_short() -> None:
    labels = [f"L{i}" for i in range(30)]
    shown = texts(at_most(1, "L3").draw(labels=labels))
    assert "not L3" in shown
    weighted = Grammar.from_arrays(["x", "y"], [[0, 0]], score=[[1.5, 0.0]])
    assert "x/1.5, y" in texts(weighted.draw(labels=["x", "y"]))
    assert "any" in texts(Grammar.from_arrays(["x", "y"], [[0, 0]]).draw(labels=["x", "y"]))


def test_grammars_by_graphviz(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    program = tmp_path / "dot"
    program.write_text("#!/bin/sh\nexec /bin/cat\n")
    program.chmod(0o755)
    text = at_most(1, 'a"b').draw(labels=['a"b', "c"])
    assert 'label="at_most(1, \\"a\\\\\\"b\\")"' in text or '\\"b' in text
    assert "a0_0 -> a0_1" in text


# --- Any text is text -----------------------------------------------------------------------------


@given(name=st.text(min_size=1, max_size=60))
def test_any_text_can_be_drawn(name: str) -> None:
    graph = pictures.Diagram(name, [name, "b"], 0, [True, False], [pictures.Arc(0, 1, name)])
    table = pictures.Table(name, [name], [name], [[0.5]], [[name]], frozenset({(0, 0)}), name)
    for svg in (
        pictures.graphs([graph], name),
        pictures.tables([table], name),
        pictures.trellis(pictures.Trellis([name], [name], [[1.0]], {}, [0]), name),
        pictures.step([name], [(0, 0)], [True], [True], name),
    ):
        root = parsed(svg)
        assert not [e for e in root.iter() if e.tag.removeprefix(SVG) in {"script", "a", "image"}]


@given(
    states=st.integers(1, 7),
    ends=st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=25),
)
def test_any_graph_can_be_drawn(states: int, ends: list[tuple[int, int]]) -> None:
    """Every state and pair of ends is there, and nothing lies outside of the picture."""
    found = [pictures.Arc(s % states, t % states, "x") for s, t in ends]
    names = [f"q{i}" for i in range(states)]
    svg = pictures.graphs([pictures.Diagram("", names, 0, [True] * states, found)], "a graph")
    root = parsed(svg)
    assert arcs(svg) == len({(arc.source, arc.target) for arc in found})
    assert set(names) <= set(texts(svg))
    left, top, width, height = map(float, str(root.get("viewBox")).split())
    for text in root.iter(f"{SVG}text"):
        assert left <= float(str(text.get("x"))) <= left + width
        assert top <= float(str(text.get("y"))) <= top + height
