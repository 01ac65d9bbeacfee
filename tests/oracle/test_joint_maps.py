"""Maps between label sets against every labelling, the labels between them included."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fstcrf
from fstcrf import compose
from fstcrf.constraints import at_most, label, pairs
from fstcrf.taggers import Composition
from tests.support.joint_cases import TEST, Labels, Sentence, Truth, close, every_path, tagger
from tests.support.oracles import log_sum

pynini = pytest.importorskip("pynini")

FINE, COARSE = ("P0", "P1", "P2"), ("X", "Y")
Arc = tuple[int, str, str, float, int]  # source, label read, label written, cost, target
# Costs are sums of powers of two: most machines of pynini hold float32.


def transducer(arcs: Sequence[Arc], final: dict[int, float], *, tables: bool = True) -> Any:
    """A machine of pynini; without tables its symbols are label numbers plus one."""
    fst = pynini.Fst()
    fst.add_states(1 + max([*final, *(arc[0] for arc in arcs), *(arc[4] for arc in arcs)]))
    fst.set_start(0)
    for state, cost in final.items():
        fst.set_final(state, cost)
    for source, read, written, cost, target in arcs:
        ids = FINE.index(read) + 1, COARSE.index(written) + 1
        fst.add_arc(source, pynini.Arc(*ids, cost, target))
    if tables:
        fst.set_input_symbols(table(FINE))
        fst.set_output_symbols(table(COARSE))
    return fst


def table(labels: Sequence[str]) -> Any:
    symbols = pynini.SymbolTable()
    for symbol in ("<eps>", *labels):
        symbols.add_symbol(symbol)
    return symbols


MERGE: list[Arc] = [(0, "P0", "Y", 0.0, 0), (0, "P1", "X", 0.0, 0), (0, "P2", "X", 0.0, 0)]
CHOICE: list[Arc] = [*MERGE, (0, "P0", "X", 0.75, 0), (0, "P1", "Y", -0.25, 0)]
# Behind a P2, P1 is written Y. Ends in either state, at a cost in the second.
MEMORY: list[Arc] = [
    (0, "P0", "X", 0.0, 0),
    (0, "P1", "X", 0.0, 0),
    (0, "P2", "Y", 0.0, 1),
    (1, "P0", "X", 0.5, 0),
    (1, "P1", "Y", 0.0, 0),
    (1, "P2", "Y", 0.0, 1),
]


def functional(given: Any) -> Labels:
    return tuple("Y" if label == "P0" else "X" for label in given["pos"])


def cheapest(arcs: Sequence[Arc], final: dict[int, float], read: Labels, written: Labels) -> float:
    """The score of a pair of labellings: minus the cost of its cheapest path."""
    costs = {0: 0.0}
    for pair in zip(read, written, strict=True):
        reached: dict[int, float] = {}
        for source, a, b, cost, target in arcs:
            if (a, b) == pair and source in costs:
                total = costs[source] + cost
                reached[target] = min(total, reached.get(target, np.inf))
        costs = reached
    return -min((cost + final[q] for q, cost in costs.items() if q in final), default=np.inf)


def mapped_truth(
    arcs: Sequence[Arc], final: dict[int, float], sentence: Sentence, weights: tuple[float, float]
) -> dict[tuple[Labels, ...], float]:
    """Score of every (pos, chunk, coarse)."""
    pos, chunk = tagger("pos"), tagger("over coarse")
    found: dict[tuple[Labels, ...], float] = {}
    between = list(itertools.product(COARSE, repeat=len(sentence["word"])))
    later = {m: every_path(chunk, {**sentence, "coarse": list(m)})[0] for m in between}
    for read, first in every_path(pos, sentence)[0].items():
        for written in between:
            extra = cheapest(arcs, final, read, written)
            if extra == -np.inf:
                continue
            for labels, second in later[written].items():
                total = weights[0] * first + weights[1] * second + extra
                found[read, labels, written] = total
    return found


@pytest.mark.thorough
@pytest.mark.parametrize("tables", [True, False])
@pytest.mark.parametrize("reader", ["over coarse", "over coarse pos"])
@pytest.mark.parametrize("normalize", ["product", "chain"])
def test_many_to_one_is_what_the_reader_sees(
    tables: bool, reader: str, normalize: Any, tmp_path: Path
) -> None:
    parts = [tagger("pos"), tagger(reader)]
    fst = transducer(MERGE, {0: 0.0}, tables=tables)
    composition = compose(parts[0], fst, parts[1], weights=(1.0, 0.6), normalize=normalize)
    assert composition.tapes == ("pos", "chunk")
    assert composition.maps == ()
    assert composition.conjuncts == ()
    read = "pos" if reader == "over coarse pos" else "coarse"
    for sentence in TEST[:4]:
        truth = Truth(parts, sentence, (1.0, 0.6), (), normalize, {("chunk", read): functional})
        check(composition, truth)
    composition.save(tmp_path / "joint")
    loaded = fstcrf.load(tmp_path / "joint")
    assert loaded.tag_all(TEST) == composition.tag_all(TEST)


def check(composition: Composition, truth: Truth) -> None:
    (path,) = composition.paths_all([truth.sentence])
    assert path is not None
    assert close(path.score, truth.best)
    assert close(truth.scores[path.labels], truth.best)
    (ranked,) = composition.nbest_all([truth.sentence], 10)
    assert all(
        close(p.score, score) for p, (score, _) in zip(ranked, truth.ranking[:10], strict=True)
    )
    if composition.normalize == "product":
        lattice = composition.lattices([truth.sentence])[0]
        assert close(lattice.log_partition(), truth.log_z)
        for k, found in enumerate(composition.marginals_all([truth.sentence])[0]):
            np.testing.assert_allclose(found, truth.marginals(k), rtol=1e-9, atol=1e-12)


def test_a_tagger_that_reads_a_tape_as_it_is_and_mapped() -> None:
    parts = [tagger("pos"), tagger("over both")]
    for normalize in ("product", "chain"):
        composition = compose(
            parts[0],
            transducer(MERGE, {0: 0.0}),
            parts[1],
            normalize=normalize,
        )
        for sentence in TEST[:3]:
            seen: dict[tuple[str, str], Callable[[Any], Labels]] = {("chunk", "coarse"): functional}
            check(composition, Truth(parts, sentence, (), (), normalize, seen))


WEIGHTED = [(0, "P0", "Y", 0.5, 0), (0, "P1", "X", 0.0, 0), (0, "P2", "X", -0.25, 0)]
ONCE: list[Arc] = [*MERGE[:2], (0, "P2", "X", 0.0, 1), (1, "P0", "Y", 0.0, 1)]
ONCE += [(1, "P1", "X", 0.0, 1)]


@pytest.mark.parametrize(("arcs", "final"), [(WEIGHTED, {0: 0.0}), (ONCE, {0: 0.0, 1: 0.25})])
@pytest.mark.parametrize("normalize", ["product", "chain"])
def test_weights_and_memory_of_a_function_are_a_grammar(
    arcs: list[Arc], final: dict[int, float], normalize: Any
) -> None:
    parts = [tagger("pos"), tagger("over coarse")]
    composition = compose(
        parts[0], transducer(arcs, final), parts[1], weights=(0.5, 1.0), normalize=normalize
    )
    assert composition.tapes == ("pos", "chunk")
    assert len(composition.conjuncts) == 1
    for sentence in TEST[:4]:
        own, log_z = every_path(parts[0], sentence)
        (path,) = composition.paths_all([sentence])
        assert path is not None
        plain = Truth(parts, sentence, (0.5, 1.0), (), normalize, {("chunk", "coarse"): functional})
        scores = {
            y: s + cheapest(arcs, final, y[0], functional({"pos": y[0]}))
            for y, s in plain.scores.items()
        }
        assert own
        assert np.isfinite(log_z)
        best = max(scores.values())
        assert close(path.score, best)
        assert close(scores[path.labels], best)


@pytest.mark.parametrize(
    ("arcs", "final"), [(CHOICE, {0: 0.0}), (MEMORY, {0: 0.0, 1: 0.25})], ids=["choice", "memory"]
)
@pytest.mark.parametrize("tables", [True, False])
def test_one_to_many_is_a_tape_of_its_own(
    arcs: list[Arc], final: dict[int, float], tables: bool, tmp_path: Path
) -> None:
    fst = transducer(arcs, final, tables=tables)
    composition = compose(tagger("pos"), fst, tagger("over coarse"), weights=(0.8, 1.0))
    assert composition.tapes == ("pos", "chunk", "coarse")
    for sentence in TEST[:4]:
        truth = mapped_truth(arcs, final, sentence, (0.8, 1.0))
        (path,) = composition.paths_all([sentence])
        assert path is not None
        best = max(truth.values())
        assert close(path.score, best)
        assert close(truth[path.labels], best)
        log_z = log_sum(np.asarray(list(truth.values())))
        assert close(composition.lattices([sentence])[0].log_partition(), log_z)
        marginals = composition.marginals_all([sentence])[0]
        for k, labels in enumerate((FINE, composition.labels[1], COARSE)):
            wanted = np.zeros((len(sentence["word"]), len(labels)))
            for labelling, score in truth.items():
                for t, one in enumerate(labelling[k]):
                    wanted[t, labels.index(one)] += np.exp(score - log_z)
            np.testing.assert_allclose(marginals[k], wanted, rtol=1e-9, atol=1e-12)
    composition.save(tmp_path / "joint")
    loaded = fstcrf.load(tmp_path / "joint")
    assert loaded.tag_all(TEST) == composition.tag_all(TEST)
    assert isinstance(loaded, Composition)
    assert loaded.tapes == composition.tapes


def test_a_taken_name_gets_an_ending() -> None:
    composition = compose(tagger("pos"), transducer(CHOICE, {0: 0.0}), tagger("over coarse pos"))
    assert composition.tapes == ("pos", "chunk", "pos-mapped")
    other = compose(tagger("pos"), transducer(CHOICE, {0: 0.0}), tagger("over coarse"))
    # What the reader conditions on was learnt under two names, from the same labels.
    assert len(composition.tag(TEST[0])) == len(other.tag(TEST[0])) == 3
    grammar = at_most(0, label("Y"), tape="pos-mapped")
    assert set(composition.constrained(grammar).tag(TEST[1])[2]) == {"X"}


def test_grammars_read_the_tape_between() -> None:
    fst = transducer(CHOICE, {0: 0.0})
    grammar = pairs([("X", "B"), ("X", "I"), ("Y", "O")], ["coarse", "chunk"])
    composition = compose(tagger("pos"), fst, tagger("over coarse"), grammar=grammar)
    for sentence in TEST[:3]:
        truth = mapped_truth(CHOICE, {0: 0.0}, sentence, (1.0, 1.0))
        legal = {
            y: s
            for y, s in truth.items()
            if all((c == "Y") == (b == "O") for c, b in zip(y[2], y[1], strict=True))
        }
        (path,) = composition.paths_all([sentence])
        assert path is not None
        assert close(path.score, max(legal.values()))


def test_a_cascade_goes_through_the_map() -> None:
    pos, reader = tagger("pos"), tagger("over coarse")
    for arcs, final in ((MERGE, {0: 0.0}), (CHOICE, {0: 0.0}), (MEMORY, {0: 0.0, 1: 0.25})):
        composition = compose(pos, transducer(arcs, final), reader)
        for sentence in TEST:
            first = pos.tag(sentence)
            choices = itertools.product(COARSE, repeat=len(first))
            cost = {m: cheapest(arcs, final, tuple(first), m) for m in choices}
            between = max(cost, key=cost.__getitem__)
            second = reader.tag({**sentence, "coarse": list(between)})
            found = [column.strings() for column in composition.cascade([sentence])]
            assert found[:2] == [first, second]
            if len(found) == 3:
                assert found[2] == list(between)


def test_silent_arcs_and_closures_of_pynini() -> None:
    fine, coarse = table(FINE), table(COARSE)
    single = pynini.string_map(
        [["P0", "Y"], ["P1", "X"], ["P2", "X"]], input_token_type=fine, output_token_type=coarse
    )
    for fst in (
        single.copy().closure(),
        single.copy().closure().optimize(),
        pynini.arcmap(single.copy().closure(), map_type="to_log64"),
    ):
        composition = compose(tagger("pos"), fst, tagger("over coarse"))
        same = compose(tagger("pos"), transducer(MERGE, {0: 0.0}), tagger("over coarse"))
        assert composition.tag_all(TEST) == same.tag_all(TEST)
        assert composition.maps == ()
