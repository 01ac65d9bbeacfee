"""`fstcrf.compose` for taggers: the algebra, what it reads, what it refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fstcrf
from fstcrf import CRF, Composition, Corpus, Grammar, Lattice, compose
from fstcrf.constraints import at_most, label, neighbours, never, pairs
from fstcrf.errors import DataError, GrammarError, LabelError, OptionError
from fstcrf.taggers import JointCRF
from tests.support.joint_cases import TEST, TRAIN, tagger, taggers, trained

BOTH = ["product", "chain"]
GRAMMAR = at_most(1, label("B"), tape="chunk")


def answers(composition: Any, data: Any = None) -> list[Any]:
    return [(p.labels, p.score, p.exact) for p in composition.paths_all(data or TEST)]


# --- Algebra ------------------------------------------------------------------------------------


@pytest.mark.parametrize("normalize", BOTH)
def test_composing_is_associative(normalize: Any) -> None:
    a, b, c = taggers("three in a row")
    flat = compose(a, b, c, normalize=normalize)
    for other in (
        compose(compose(a, b, normalize=normalize), c),
        compose(a, compose(b, c, normalize=normalize)),
        compose(compose(a), b, compose(c), normalize=normalize),
    ):
        assert other.normalize == normalize
        assert other.tapes == flat.tapes
        assert answers(other) == answers(flat)
    if normalize == "chain":
        assert answers(a @ b @ c) == answers(a @ (b @ c)) == answers(flat)


def test_operators_are_compose() -> None:
    a, b = taggers("pair")
    constrained = a @ b & GRAMMAR
    assert isinstance(constrained, Composition)
    assert answers(constrained) == answers(compose(a, b, grammar=GRAMMAR))
    # & binds weaker than @; on one tape it can be said before.
    first = (a & at_most(1, label("P0"))) @ b
    assert answers(first) == answers(compose(a, b, grammar=at_most(1, label("P0"), tape="pos")))
    twice = constrained & never(label("I"), tape="chunk")
    assert answers(twice) == answers(
        compose(a, b, grammar=GRAMMAR & never(label("I"), tape="chunk"))
    )
    with pytest.raises(TypeError, match="unsupported operand"):
        _ = a @ "b"  # type: ignore[operator]
    with pytest.raises(TypeError, match="unsupported operand"):
        _ = a & "b"  # type: ignore[operator]


def test_weights_multiply_along() -> None:
    a, b, c = taggers("three in a row")
    inner = compose(a, b, weights=(0.5, 2.0))
    outer = compose(inner, c, weights=(0.5, 3.0))
    assert outer.weights == (0.25, 1.0, 3.0)
    assert outer.with_weights(1, 1, 1).weights == (1.0, 1.0, 1.0)
    assert answers(outer) == answers(compose(a, b, c, weights=(0.25, 1.0, 3.0)))


def test_the_order_of_arguments_is_the_order_of_tapes() -> None:
    a, b, c = taggers("three in a row")
    there, back = compose(a, b, c), compose(c, b, a)
    assert there.tapes == ("pos", "chunk", "ent")
    assert back.tapes == ("ent", "chunk", "pos")
    assert there._order == back._order == ("pos", "chunk", "ent")
    assert [p[::-1] for p in back.tag_all(TEST)] == there.tag_all(TEST)
    assert back.labels == there.labels[::-1]


def test_normalize_is_inherited_and_must_be_said_when_parts_differ() -> None:
    a, b, c = taggers("two readers")
    chain = compose(a, b, normalize="chain")
    assert compose(chain, c).normalize == "chain"
    assert compose(chain, c, normalize="product").normalize == "product"
    assert (chain & GRAMMAR).normalize == "chain"
    parts = trained("ent", "U:%x[0,word]", tape="x"), trained("pos", "B\n", tape="y")
    product = compose(*parts, weights=(1.0, 0.5))
    with pytest.raises(OptionError, match="others by the chain rule: choose normalize="):
        compose(chain, product)


def test_taggers_that_read_each_other_chain_by_default() -> None:
    a, b, c = taggers("two readers")
    assert compose(a, b).normalize == (a @ b).normalize == "chain"
    assert compose(a, b, c).normalize == compose(a @ b, c).normalize == "chain"
    assert compose(b, c).normalize == "product"  # neither reads the other
    assert compose(compose(b, c), a).normalize == "chain"
    assert compose(a).normalize == "product"
    assert compose(a, b, weights=(1.0, 0.5)).normalize == "product"
    assert compose(a, b, normalize="product").normalize == "product"
    assert compose(compose(a, b, normalize="product"), c).normalize == "product"


def test_a_product_that_nobody_tuned_says_so() -> None:
    a, b = taggers("pair")
    said = "weights of 1: unless tuned"
    assert said in str(compose(a, b, normalize="product").plan())
    assert said not in str(compose(a, b, weights=(1.0, 0.5)).plan())
    assert said not in str(compose(a, b).plan())
    assert said not in str(compose(a).plan())


# --- One tape -----------------------------------------------------------------------------------


@pytest.mark.parametrize("normalize", BOTH)
def test_a_single_tagger_stays_one(normalize: Any) -> None:
    pos = tagger("pos")
    composition = compose(pos, normalize=normalize)
    assert composition.tape == "pos"
    assert composition.labels == pos.labels
    assert composition.tag(TEST[0]) == pos.tag(TEST[0])
    assert composition.tag_all(TEST) == pos.tag_all(TEST)
    for mine, its in zip(composition.marginals_all(TEST), pos.marginals_all(TEST), strict=True):
        np.testing.assert_allclose(mine, its, atol=1e-12)
    assert isinstance(composition.lattice(TEST[0]), Lattice)
    (column,) = composition.cascade(TEST)
    assert column.strings() == [label for labels in pos.tag_all(TEST) for label in labels]
    assert composition.paths_all([{"word": []}])[0] == fstcrf.Path((), 0.0, 1.0, True, 0.0)
    with pytest.raises(OptionError, match="several tapes: choose one of pos, chunk"):
        _ = compose(*taggers("pair")).tape


def test_a_reader_alone_is_given_its_tape() -> None:
    """What no tagger of the composition writes is a column, as for the tagger itself."""
    pos, chunk = taggers("pair")
    data = [{**s, "pos": pos.tag(s)} for s in TEST]
    under = chunk & neighbours([("B", "I"), ("I", "O"), ("O", "B"), ("B", "B")])
    assert compose(chunk).tag_all(data) == chunk.tag_all(data)
    assert under.tag_all(data) != chunk.tag_all(data)
    with_other = compose(chunk, tagger("alone").__class__.train(TRAIN, "ent", "U:%x[0,word]"))
    assert [labels[0] for labels in with_other.tag_all(data)] == chunk.tag_all(data)
    chained = compose(chunk, with_other.taggers[1], normalize="chain")
    assert chained.tag_all(data) == with_other.tag_all(data)
    assert [c.strings() for c in with_other.cascade(data)] == [
        c.strings() for c in chained.tag_columns(Corpus.from_sentences(data))
    ]
    for composition in (with_other, chained):
        with pytest.raises(DataError, match="reads the labels of tape 'pos'"):
            composition.tag_all(TEST)


# --- Sentences ----------------------------------------------------------------------------------


def test_rows_need_the_same_columns() -> None:
    pos, chunk = taggers("pair")
    other = CRF.train(
        [{"tag": s["ent"], "word": s["word"]} for s in TRAIN], "tag", "U:%x[0,word]\nB\n"
    )
    composition = compose(pos, other)
    assert composition.tag_all(TEST) == [
        (a, b) for a, b in zip(pos.tag_all(TEST), other.tag_all(TEST), strict=True)
    ]
    with pytest.raises(DataError, match=r"sentence 1: rows of strings, but .* different"):
        composition.tag_all([TEST[0], [("a",)]])
    assert compose(pos, chunk).tag([("a", "P0")]) == compose(pos, chunk).tag({"word": ["a"]})


def test_runs_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    data = TEST * 3
    product = compose(*taggers("pair"), normalize="product")
    wanted = answers(product, data), [p[0].tolist() for p in product.marginals_all(data)]
    chain = compose(*taggers("three in a row"), normalize="chain")
    chained = answers(chain, data)
    monkeypatch.setattr("fstcrf.taggers.tagged._tokens_of_runs", lambda _: 1)
    monkeypatch.setattr("fstcrf.taggers.chain._RUN_TOKENS", 4)
    monkeypatch.setattr("fstcrf.taggers.search._PATH_TOKENS", 5)
    monkeypatch.setattr("fstcrf.taggers.search._LOOK_TOKENS", 3)
    again = compose(*taggers("pair"), normalize="product")
    assert answers(again, data) == wanted[0]
    assert [p[0].tolist() for p in again.marginals_all(data)] == wanted[1]
    assert answers(compose(*chain.taggers, normalize="chain"), data) == chained


# --- Literal attributes -------------------------------------------------------------------------


def literal(target: str) -> CRF:
    data = [[[f"w={w}", "bias"] for w in s["word"]] for s in TRAIN]
    return CRF.train(data, [s[target] for s in TRAIN], tape=target, l2=0.1)


def test_taggers_of_attribute_lists() -> None:
    pos, ent = literal("pos"), literal("ent")
    grammar = pairs([("P0", "E0"), ("P1", "E1"), ("P2", "E0")], ["pos", "ent"])
    data: list[Any] = [[[f"w={w}", "bias"] for w in s["word"]] for s in TEST]
    data.insert(1, [])
    composition = compose(pos, ent)
    assert composition.tag_all(data) == list(zip(pos.tag_all(data), ent.tag_all(data), strict=True))
    joined = composition & grammar
    for labels in joined.tag_all(data):
        assert set(zip(*labels, strict=True)) <= {("P0", "E0"), ("P1", "E1"), ("P2", "E0")}
    for sentence, path in zip(data, joined.paths_all(data), strict=True):
        if sentence:
            lattice = joined.lattice(sentence)
            assert isinstance(lattice, Lattice)
            best = max(
                pos.lattice(sentence).score(p[0]) + ent.lattice(sentence).score(p[1])
                for p in (q.labels for q in lattice.nbest(10))
            )
            assert path is not None
            assert path.score == pytest.approx(best, rel=1e-9)
    assert [c.strings() for c in composition.cascade(data)] == [
        [label for labels in tagger.tag_all(data) for label in labels] for tagger in (pos, ent)
    ]
    with pytest.raises(OptionError, match="attribute lists; use 'product'"):
        compose(pos, ent, normalize="chain")
    with pytest.raises(OptionError, match="some of the taggers read columns, others attribute"):
        compose(pos, tagger("alone"))
    with pytest.raises(DataError, match="attribute lists"):
        composition.tag_all(TEST)


# --- What is refused ----------------------------------------------------------------------------

loosely: Any = compose


def of_pair(**options: Any) -> Any:
    return loosely(*taggers("pair"), **options)


REFUSED: list[tuple[Any, type[Exception], str]] = [
    (compose, OptionError, "needs at least one tagger"),
    (lambda: loosely("pos"), OptionError, "cannot compose 'pos'"),
    (
        lambda: loosely(tagger("pos"), tagger("pos2")),
        OptionError,
        "two taggers write the same tape 'pos'",
    ),
    (lambda: of_pair(weights=(1,)), OptionError, "1 weights for 2 taggers"),
    (lambda: of_pair(weights=(1, -1)), OptionError, r"weights are \[1.0, -1.0\]"),
    (lambda: of_pair(weights=(1, float("nan"))), OptionError, "expected numbers from 0"),
    (lambda: of_pair().with_weights(1, float("inf")), OptionError, "expected numbers from 0"),
    (lambda: of_pair().with_weights(1), OptionError, "1 weights for 2 taggers"),
    (lambda: of_pair(normalize="both"), OptionError, "normalize is 'both', expected"),
    (
        lambda: of_pair(coupling={(0, 1): np.zeros((3, 3))}),
        OptionError,
        "coupling= is for lattices",
    ),
    (
        lambda: loosely(tagger("pos"), tagger("pos").lattice(TEST[0])),
        OptionError,
        "taggers compose only with taggers",
    ),
    (
        lambda: loosely(tagger("pos").lattice(TEST[0]), normalize="chain"),
        OptionError,
        "normalize= is for taggers",
    ),
    (
        lambda: loosely(tagger("coarse pos"), tagger("chunk")),
        OptionError,
        "was trained to read a tape 'pos' without the labels 'X', 'Y': put a map between",
    ),
    (lambda: loosely(tagger("pos"), grammar="x"), OptionError, "grammar is 'x', expected"),
    (lambda: of_pair(grammar=never(label("B"), tape="ner")), GrammarError, "'ner'"),
    (lambda: of_pair(grammar=never(label("B"))), GrammarError, "does not name the tape"),
    (lambda: tagger("pos") & at_most(1, "Q"), GrammarError, "'Q'"),
    (
        lambda: (
            of_pair(normalize="chain")
            & at_most(1, label("B"), tape="chunk")
            & Grammar.from_text('tape chunk; export E = any* "[B]" any* "[B]" any*;')
        ),
        GrammarError,
        "contradict each other",
    ),
    (
        lambda: (
            tagger("pos")
            & at_most(1, label("P0"))
            & Grammar.from_text('export E = any* "[P0]" any* "[P0]" any*;')
        ),
        GrammarError,
        "contradict each other",
    ),
]


@pytest.mark.parametrize(("make", "error", "message"), REFUSED, ids=[row[2] for row in REFUSED])
def test_refused_at_once(make: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message) as found:
        make()
    assert "\n" not in str(found.value)


def test_taggers_that_read_each_other() -> None:
    first = trained("pos", "U:%x[0,word]")
    second = trained("chunk", "U:%y[0,pos]", first)
    again = trained("chunk", "U:%x[0,word]")
    third = trained("pos", "U:%y[0,chunk]", again)
    for normalize in BOTH:
        with pytest.raises(OptionError, match="tapes chunk, pos read each other in a cycle"):
            compose(second, third, normalize=normalize)  # type: ignore[call-overload]


def test_conjuncts_of_other_labels_are_refused() -> None:
    pos = tagger("pos")
    (acceptor,) = at_most(1, label("X")).bind({"pos": ["X", "Y"]})
    with pytest.raises(LabelError, match="bound to other labels than the tape 'pos' has"):
        JointCRF((pos,), (1.0,), (acceptor,))
    (acceptor,) = at_most(1, label("X")).bind({"chunk": ["X", "Y"]})
    with pytest.raises(LabelError, match="reads the tape 'chunk'; the tapes are 'pos'"):
        JointCRF((pos,), (1.0,), (acceptor,))
