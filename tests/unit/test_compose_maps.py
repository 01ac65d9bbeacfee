"""Maps between label sets that `compose` refuses, and between which taggers they stand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from fstcrf import CRF, compose
from fstcrf.errors import DataError, GrammarError, LabelError, OptionError
from tests.support.joint_cases import TEST, TRAIN, tagger, trained

pynini = pytest.importorskip("pynini")

FINE, COARSE = ("P0", "P1", "P2"), ("X", "Y")
MERGE = [(0, 1, 1, 0.0, 0), (0, 2, 1, 0.0, 0), (0, 3, 2, 0.0, 0)]


def symbols(labels: Sequence[str]) -> Any:
    table = pynini.SymbolTable()
    for symbol in ("<eps>", *labels):
        table.add_symbol(symbol)
    return table


def machine(
    arcs: Sequence[tuple[int, int, int, float, int]],
    final: Sequence[int] = (0,),
    read: Sequence[str] = (),
    written: Sequence[str] = (),
) -> Any:
    fst = pynini.Fst()
    fst.add_states(1 + max([0, *final, *(a[0] for a in arcs), *(a[4] for a in arcs)]))
    fst.set_start(0)
    for state in final:
        fst.set_final(state)
    for source, a, b, cost, target in arcs:
        fst.add_arc(source, pynini.Arc(a, b, cost, target))
    if read:
        fst.set_input_symbols(symbols(read))
    if written:
        fst.set_output_symbols(symbols(written))
    return fst


TWO_WAYS = [
    (0, 1, 1, 0.0, 1),
    (0, 1, 1, 0.0, 2),
    *[(q, a, 1, cost * a, q) for q, cost in ((1, 1.0), (2, 2.0)) for a in (1, 2, 3)],
]

REFUSED: dict[str, tuple[Any, type[Exception], str]] = {
    "reads nothing": (
        lambda: machine([*MERGE, (0, 0, 1, 0.0, 0)]),
        DataError,
        "map pos → coarse is not length-preserving: an arc writes 'X' and reads epsilon",
    ),
    "writes epsilon": (
        lambda: machine([*MERGE, (0, 2, 0, 0.0, 0)], read=FINE, written=COARSE),
        DataError,
        "an arc reads 'P1' and writes epsilon",
    ),
    "no path": (lambda: machine(MERGE, final=()), DataError, "accepts no string: no path"),
    "no start": (pynini.Fst, DataError, "accepts no string"),
    "a label missing": (
        lambda: machine(MERGE[:2]),
        LabelError,
        "has no path that reads 'P2': it must have one for every label of 'pos'$",
    ),
    "a label on a dead end": (
        lambda: machine([*MERGE[:2], (0, 3, 2, 0.0, 1)]),
        LabelError,
        "no path that reads 'P2'",
    ),
    "another table": (
        lambda: machine(MERGE, read=("NN", "VB", "DT"), written=COARSE),
        LabelError,
        "no path that reads 'P0', 'P1', 'P2': it must have one for every label of 'pos'$",
    ),
    "another output table": (
        lambda: machine(MERGE, read=FINE, written=("Noun", "Verb")),
        LabelError,
        "writes 'Noun', which is no label of 'coarse'; there are 'X', 'Y'",
    ),
    "an input symbol too many": (
        lambda: machine([*MERGE, (0, 4, 1, 0.0, 0)]),
        LabelError,
        "map pos → coarse: the machine reads symbol 4, but there are 3 labels; label i is",
    ),
    "an output symbol too many": (
        lambda: machine([*MERGE, (0, 1, 3, 0.0, 0)]),
        LabelError,
        "map pos → coarse: the machine writes symbol 3, but there are 2 labels",
    ),
    "weights that drift apart": (
        lambda: machine(TWO_WAYS, final=(0, 1, 2)),
        GrammarError,
        "cannot be determinized: more than",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    make, error, message = REFUSED[name]
    with pytest.raises(error, match=message) as found:
        compose(tagger("pos"), make(), tagger("over coarse"))
    assert "\n" not in str(found.value)


def test_symbols_beyond_the_labels_are_left_out() -> None:
    """A map of a larger tag set serves a tagger that has seen fewer labels."""
    arcs = [*MERGE, (0, 4, 2, 0.0, 0), (0, 4, 1, 0.0, 0)]
    larger = machine(arcs, read=(*FINE, "P9"), written=COARSE)
    plain = machine(MERGE)
    parts = tagger("pos"), tagger("over coarse")
    wanted = compose(parts[0], plain, parts[1])
    found = compose(parts[0], larger, parts[1])
    assert found.tapes == ("pos", "chunk")
    assert found.tag_all(TEST) == wanted.tag_all(TEST)
    # The order of a table's symbols is its own business.
    turned = [(0, 3, 2, 0.0, 0), (0, 2, 2, 0.0, 0), (0, 1, 1, 0.0, 0)]
    other = machine(turned, read=FINE[::-1], written=COARSE[::-1])
    assert compose(parts[0], other, parts[1]).tag_all(TEST) == wanted.tag_all(TEST)


def test_a_map_stands_between_two_taggers() -> None:
    pos, reader, fst = tagger("pos"), tagger("over coarse"), machine(MERGE)
    for parts in ((fst, pos), (fst,), (pos, fst, fst, reader), (fst, pos, reader)):
        with pytest.raises(OptionError, match="must be placed between two taggers"):
            compose(*parts)
    with pytest.raises(OptionError, match="3 weights for 2 taggers"):
        compose(pos, fst, reader, weights=(1, 1, 1))


def test_it_must_be_clear_what_a_map_connects() -> None:
    pos, reader, fst = tagger("pos"), tagger("over coarse"), machine(MERGE)
    ent = tagger("ent")
    with pytest.raises(OptionError, match="the next tagger, 'chunk', reads no tape"):
        compose(pos, fst, tagger("alone"))
    # The tagger before the map is what it reads.
    with pytest.raises(
        LabelError, match="map ent → coarse: the machine reads symbol 3, but there are 2"
    ):
        compose(pos, ent, fst, reader)
    two = compose(pos, CRF.train(TRAIN, "ent", "U:%x[0,word]"))
    with pytest.raises(OptionError, match="the composition before it writes 'pos', 'ent'; put"):
        compose(two, fst, reader)
    # Of several tapes, the one that the reader knows by name.
    same = compose(two, fst, tagger("over coarse pos"))
    assert same.tapes == ("pos", "ent", "chunk")
    assert [r.tape for r in same.relabellings] == ["pos"]
    third = trained("ent", "U1:%y[0,x]\nU2:%y[0,z]\n", *(renamed(name) for name in ("x", "z")))
    with pytest.raises(OptionError, match="reads 'x', 'z'; put the map directly before"):
        compose(pos, fst, third)


def renamed(tape: str) -> CRF:
    return trained("coarse", "U:%x[0,word]\nB\n", tape=tape)


def test_maps_and_the_chain_rule() -> None:
    pos, reader = tagger("pos"), tagger("over coarse")
    choice = machine([*MERGE, (0, 1, 2, 0.0, 0)])
    with pytest.raises(OptionError, match="no maps that leave a choice, where a label may"):
        compose(pos, choice, reader, normalize="chain")
    assert compose(pos, machine(MERGE), reader, normalize="chain").tapes == ("pos", "chunk")


def test_two_maps() -> None:
    """A tagger's labels are mapped for one reader, and that one's for the next."""
    pos, reader = tagger("pos"), tagger("over coarse")
    last = trained("ent", "U1:%y[0,z]\nU2:%x[0,word]\nB\n", renamed("z"))
    # B and I become X, O becomes Y.
    to_z = machine([(0, 1, 1, 0.0, 0), (0, 2, 1, 0.0, 0), (0, 3, 2, 0.0, 0)])
    for arcs in (MERGE, [*MERGE, (0, 1, 2, 0.5, 0)]):
        composition = compose(pos, machine(arcs), reader, to_z, last, normalize="product")
        inner = compose(reader, to_z, last, normalize="product")
        grouped = compose(pos, machine(arcs), inner)
        assert grouped.tapes == composition.tapes
        assert grouped.tag_all(TEST) == composition.tag_all(TEST)
        assert len(composition.cascade(TEST)) == len(composition.tapes)
        assert composition._order[0] == "pos"
        assert composition._order[-1] == "ent"
