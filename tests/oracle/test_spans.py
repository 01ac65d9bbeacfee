"""All spans of a lattice at once, against enumeration and against a log Z for each span."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from fstcrf import Lattices
from fstcrf.arrays import Floats
from fstcrf.constraints import at_most, bioes, contiguous
from fstcrf.errors import GrammarError, NoPathError, OptionError, SchemeError, TooLargeError
from fstcrf.kernel import blocks as blocks_of
from fstcrf.kernel import spans as spans_of
from fstcrf.kernel.native import lib
from fstcrf.lattices import (
    ChainRow,
    Lattice,
    ProbableSpans,
    best,
    log_partition,
    marginals,
    probable_spans,
    product,
    sample,
    span_probabilities,
)
from fstcrf.lattices.spans import _expected_spans as expected_spans
from fstcrf.machines.plans import arc_ends
from fstcrf.machines.topology import chain_topology
from fstcrf.text.corpus import Span, named_scheme, spans
from tests.oracle.test_lattice_products import made
from tests.support.compositions import Tape, World, random_acceptor, random_world
from tests.support.oracles import assert_close, chain_of, enumerate_paths, largest, log_sum
from tests.support.span_events import conditioned_probabilities
from tests.support.strategies import lattices

Shares = dict[tuple[int, int, str], float]
LABEL_SETS = {
    "iob1": ("O", "I-X", "B-X", "I-Y"),
    "iob2": ("O", "B-X", "I-X", "B-Y", "I-Y"),
    "bioes": ("S-X", "O", "B-X", "I-X", "E-X", "S-Y"),
    "bilou": ("U-X", "O", "B-X", "I-X", "L-X"),
    "bmes": ("S-X", "O", "B-X", "M-X", "E-X", "S-Y"),
    "bmewo": ("W-X", "O", "B-X", "M-X", "E-X", "W-Y"),
    "conlleval": ("O", "B-X", "I-X", "E-X", "S-X", "Q-X", "I-Y"),
}
BIOES = ("O", "B-X", "I-X", "E-X", "S-X", "B-Y", "I-Y", "E-Y", "S-Y")


def shares_of(found: ProbableSpans) -> Shares:
    shares = {tuple(span): p for span, p in found}
    assert len(shares) == len(found)
    assert found.end.tolist() == sorted(found.end.tolist())
    return shares  # type: ignore[return-value]


def sequences(lattice: Lattice) -> tuple[list[tuple[str, ...]], Floats]:
    """All label sequences with their probabilities."""
    paths, scores = enumerate_paths(*chain_of(lattice))
    names = [tuple(lattice.labels[s] for s in path) for path in paths.tolist()]
    return names, np.exp(scores - log_sum(scores))


def enumerated(labellings: Any, shares: Any, scheme: str) -> Shares:
    """The probability of every span, from every label sequence."""
    illegal: Any = "repair" if scheme == "conlleval" else "drop"
    found: Shares = {}
    for labels, share in zip(labellings, shares, strict=True):
        for span in spans(labels, scheme, illegal=illegal):
            key = (span.start, span.end, span.type)
            found[key] = found.get(key, 0.0) + float(share)
    return found


def scale_of(lattice: Lattice) -> float:
    graph, node = chain_of(lattice)
    return largest(node, graph.score, graph.initial, graph.final)


def check_all(lattice: Lattice, scheme: str, above: float = 0.0) -> None:
    """All spans above a probability, with their probabilities, are found, and no others."""
    known, scale = enumerated(*sequences(lattice), scheme), scale_of(lattice)
    found = shares_of(lattice.probable_spans(above, scheme=scheme))
    assert set(found) <= set(known)
    missing = [p for span, p in known.items() if span not in found]
    assert max(missing, default=0.0) <= above + 1e-9
    assert min(found.values(), default=np.inf) > above
    for span, p in found.items():
        assert_close(p, known[span], scale=scale)
    for start, end, kind in every_span(len(lattice), ("X", "Y")):
        try:
            one = lattice.span_probability(start, end, kind, scheme=scheme)
        except OptionError:
            assert not any(label.endswith(f"-{kind}") for label in lattice.labels)
            continue
        assert_close(one, known.get((start, end, kind), 0.0), scale=scale)


def random_lattice(
    labels: tuple[str, ...], seed: int, tokens: int, *, moving: bool = False, spread: float = 1.0
) -> Lattice:
    rng, size = np.random.default_rng(seed), len(labels)
    arcs = rng.normal(size=(tokens - 1, size, size) if moving else (size, size))
    arcs[rng.random(arcs.shape) < 0.1] = -np.inf
    return Lattice.from_arrays(
        labels, spread * rng.normal(size=(tokens, size)), arcs, *rng.normal(size=(2, size))
    )


def every_span(tokens: int, kinds: tuple[str, ...]) -> list[tuple[int, int, str]]:
    places = itertools.combinations(range(tokens + 1), 2)
    return [(start, end, kind) for start, end in places for kind in kinds]


# --- Against enumeration -------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", list(LABEL_SETS))
@pytest.mark.parametrize("labels", list(LABEL_SETS))
@pytest.mark.parametrize("moving", [False, True])
def test_schemes(scheme: str, labels: str, *, moving: bool) -> None:
    for tokens, above in ((1, 0.0), (3, 0.0), (3, 0.05)):
        lattice = random_lattice(LABEL_SETS[labels], 3, tokens, moving=moving)
        if readable(LABEL_SETS[labels], scheme):
            check_all(lattice, scheme, above)
        else:
            refused(lattice, LABEL_SETS[labels], scheme)


def readable(labels: tuple[str, ...], scheme: str) -> bool:
    """Whether some sequence of labels holds a span of a strict scheme."""
    sequences = (s for n in (1, 2, 3) for s in itertools.product(labels, repeat=n))
    return scheme == "conlleval" or any(legal_spans(s, scheme) for s in sequences)


def legal_spans(labels: tuple[str, ...], scheme: str) -> list[Span]:
    try:
        return spans(labels, scheme, illegal="raise")
    except SchemeError:
        return []


def refused(lattice: Lattice, labels: tuple[str, ...], scheme: str) -> None:
    """No span can be there: that is an error at every door, as where spans are decoded."""
    scores = Lattices.from_arrays(labels, np.zeros((1, len(lattice), len(labels))))
    answer = scores.decode()
    doors: list[Callable[[], Any]] = [
        lambda: lattice.probable_spans(scheme=scheme),
        lambda: lattice.span_probabilities([], scheme=scheme),
        lambda: lattice.span_probability(0, 1, "X", scheme=scheme),
        lambda: lattice.minimum_risk("span", scheme=scheme),
        lambda: probable_spans([lattice], scheme=scheme),
        lambda: span_probabilities([lattice], [[]], scheme=scheme),
        lambda: answer.spans(scheme),
        lambda: scores.probable_spans(scheme=scheme),
    ]
    for ask in doors:
        with pytest.raises(GrammarError, match=f"no span can be written in {scheme}"):
            ask()


def test_labels_without_spans_stay_without_where_no_scheme_is_named() -> None:
    for labels in (("O",), ("NN", "VB")):
        lattice = random_lattice(labels, 3, 3)
        assert len(lattice.probable_spans(0.0)) == 0
    assert len(random_lattice(("O",), 3, 3).probable_spans(0.0, scheme="bioes")) == 0
    refused(random_lattice(("NN", "VB"), 3, 3), ("NN", "VB"), "iob2")


@pytest.mark.parametrize("scheme", ["iob2", "conlleval"])
@given(lattice=lattices(labels=("O", "B-X", "I-X")), above=st.sampled_from([0.0, 0.01, 0.3, 1.0]))
def test_random_lattices(lattice: Lattice, above: float, scheme: str) -> None:
    if lattice.log_partition() > -np.inf:
        check_all(lattice, scheme, above)


SPAN_LABELS = {
    "bio": ("O", "B-X", "I-X", "B-Y", "I-Y"),
    "bioes": ("O", "B-X", "I-X", "E-X", "S-X"),
}


def span_world(seed: int, scheme: str, tokens: int) -> World:
    rng = np.random.default_rng(seed)
    found = random_world(seed, tapes=2, tokens=tokens, labels=2, conjuncts=0)
    labels = SPAN_LABELS[scheme]
    topology = chain_topology(labels, 1 + seed % 2)
    states, size = topology.n_states, len(labels)
    per_token = (tokens,) if rng.random() < 0.5 else ()
    tape = Tape(
        "span",
        topology,
        rng.normal(size=(tokens, states)),
        rng.normal(size=(*per_token, len(arc_ends(topology)[0]))),
        *rng.normal(size=(2, states)),
    )
    coupling = {(0, 1): rng.normal(size=(2, size)), (2, 1): rng.normal(size=(tokens, 2, size))}
    rule = random_acceptor(rng, [("span", labels), ("t1", found.tapes[1].labels)])
    return World((found.tapes[0], tape, found.tapes[1]), coupling, (rule,))


@pytest.mark.parametrize("scheme", ["bio", "bioes", "conlleval"])
@pytest.mark.parametrize("seed", range(12))
def test_products(scheme: str, seed: int) -> None:
    """Three tapes, couplings, a residual automaton; the spans' axis first, between, last."""
    world = span_world(100 + seed, "bio" if scheme == "conlleval" else scheme, 1 + seed % 3)
    order = list(itertools.permutations(range(3)))[seed % 6]
    world = type(world)(
        tuple(world.tapes[k] for k in order),
        {(order.index(a), order.index(b)): v for (a, b), v in world.couplings.items()},
        world.conjuncts,
    )
    lattice, number = made(world), order.index(1)
    if lattice is None or world.log_z == -np.inf:
        return
    tape = world.tapes[number]
    shares = world.of_tape(number, world.share, np.sum)
    names = [tuple(tape.labels[i] for i in row) for row in tape.sequences]
    known = enumerated(names, shares, scheme)
    found = shares_of(lattice.probable_spans(0.0, tape="span", scheme=scheme))
    assert set(found) <= set(known)
    for span, p in known.items():
        assert found.get(span, 0.0) == pytest.approx(p, rel=1e-9, abs=1e-11)
    asked = every_span(world.tokens, ("X",) if scheme == "bioes" else ("X", "Y"))
    given = lattice.span_probabilities(asked, tape="span", scheme=scheme)
    np.testing.assert_allclose(given, [known.get(s, 0.0) for s in asked], rtol=1e-9, atol=1e-11)
    for span, p in zip(asked[:2], given.tolist(), strict=False):
        one = lattice.span_probability(*span, tape="span", scheme=scheme)
        assert one == pytest.approx(p, rel=1e-9, abs=1e-11)
    some = shares_of(lattice.probable_spans(0.1, tape="span", scheme=scheme))
    assert some == {span: p for span, p in found.items() if p > 0.1}
    counted = expected_spans(lattice.dense.engine, "span", named_scheme(scheme))
    assert counted == pytest.approx(sum(known.values()), rel=1e-9)


# --- Against a log Z for each span ---------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["bioes", "conlleval"])
@pytest.mark.parametrize("moving", [False, True])
def test_given_spans(scheme: str, *, moving: bool) -> None:
    lattice = random_lattice(BIOES, 5, 12, moving=moving, spread=2.0)
    asked = [*every_span(12, ("X", "Y"))[::-1], (0, 1, "X"), (0, 1, "X")]
    found = lattice.span_probabilities(asked, scheme=scheme)
    known = conditioned_probabilities(lattice.dense, asked, "label", scheme)
    np.testing.assert_allclose(found, known, rtol=1e-10, atol=1e-300)
    shares = shares_of(lattice.probable_spans(0.001, scheme=scheme))
    for span, p in zip(asked, found.tolist(), strict=True):
        assert (span in shares) == (p > 0.001)
        assert shares.get(span, p) == pytest.approx(p, rel=1e-12)


@pytest.mark.parametrize("spread", [400.0, 3000.0])
def test_scores_beyond_the_linear_domain(spread: float, variant: str) -> None:
    lattice = random_lattice(BIOES, 6, 9, spread=spread)
    joint = product([lattice, random_lattice(("a", "b"), 7, 9, spread=spread)])
    grammar = contiguous("X", tape="label0") & at_most(1, "B-X", tape="label0")
    asked = every_span(9, ("X", "Y"))
    for one, tape in ((lattice, "label"), (joint, "label0"), (joint & grammar, "label0")):
        known = conditioned_probabilities(one.dense, asked, tape)
        found = one.span_probabilities(asked, tape=tape)
        np.testing.assert_allclose(found, known, rtol=1e-6, atol=1e-12)
        shares = shares_of(one.probable_spans(0.01, tape=tape))
        for span, p in zip(asked, known.tolist(), strict=True):
            assert shares.get(span, 0.0) == pytest.approx(p if p > 0.01 else 0.0, abs=1e-9)


# --- Batches, blocks -----------------------------------------------------------------------------


def batch() -> list[Lattice]:
    made_ = [random_lattice(BIOES, seed, 1 + 7 * seed % 40) for seed in range(24)]
    moving = [random_lattice(BIOES, seed, 9, moving=True, spread=900.0) for seed in range(4)]
    empty = Lattice.from_arrays(BIOES, np.empty((0, len(BIOES))))
    return [*made_, empty, *moving, *(one & bioes() for one in made_[3:7])]


def as_rows(found: ProbableSpans) -> list[Any]:
    return [
        found.start.tolist(),
        found.end.tolist(),
        found.type.tolist(),
        found.probability.tolist(),
    ]


@pytest.mark.parametrize("threads", [1, 2, 7])
def test_batches_have_the_bits_of_single_lattices(
    threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    lattices_ = batch()
    alone = [as_rows(one.probable_spans(0.02)) for one in lattices_]
    asked = [every_span(len(one), ("Y", "X"))[::3] for one in lattices_]
    single = [one.span_probabilities(a).tolist() for one, a in zip(lattices_, asked, strict=True)]
    for room in (spans_of._ROOM, 3_000):
        monkeypatch.setattr(spans_of, "_ROOM", room)
        found = probable_spans(lattices_, 0.02, threads=threads)
        assert [as_rows(one) for one in found] == alone
        both = span_probabilities(lattices_, asked, threads=threads)
        assert [one.tolist() for one in both] == single


@pytest.mark.parametrize("usual", [0, 1])
def test_room_that_does_not_suffice_at_first(usual: int, monkeypatch: pytest.MonkeyPatch) -> None:
    lattice = random_lattice(BIOES, 3, 30)
    whole = as_rows(lattice.probable_spans(0.001))
    monkeypatch.setattr(spans_of, "_SPANS_PER_TOKEN", usual)
    assert as_rows(lattice.probable_spans(0.001)) == whole


def cut(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """Take every sentence in blocks of so many tokens."""
    init = blocks_of.LongSentence.__init__
    monkeypatch.setattr(blocks_of, "LONG_BYTES", 0)
    monkeypatch.setattr(
        blocks_of.LongSentence, "__init__", lambda self, b, k, _=None: init(self, b, k, size)
    )


def long_cases() -> list[tuple[Lattice, str]]:
    chunk, pos = random_lattice(BIOES, 11, 17), random_lattice(("a", "b", "c"), 12, 17)
    wide = random_lattice(BIOES, 13, 17, moving=True, spread=900.0)
    dead = chunk.restrict(np.arange(17 * 9).reshape(17, 9) < 16 * 9)
    cases = [chunk, wide, dead, random_lattice(BIOES, 14, 1)]
    joint = [chunk @ pos, pos @ wide, (chunk @ pos) & at_most(1, "B-X", tape="label0")]
    tapes = ["label0", "label1", "label0"]
    return [*((one, "label") for one in cases), *zip(joint, tapes, strict=True)]


def answers(lattice: Lattice, tape: str) -> list[Any]:
    """Everything that blocks answer, or its error, as plain numbers."""
    fresh = Lattice(ChainRow(lattice.dense.program, lattice.dense.values))
    asked = every_span(len(lattice), ("X", "Y"))[::5]
    questions: list[Any] = [
        fresh.log_partition,
        lambda: [fresh.best().labels, fresh.best().score],
        lambda: parts(fresh.marginals()),
        lambda: parts(fresh.arc_marginals()),
        lambda: parts(fresh.max_marginals()),
        fresh.entropy,
        lambda: fresh.sample(5, seed=3),
        lambda: as_rows(fresh.probable_spans(0.0, tape=tape)),
        lambda: as_rows(fresh.probable_spans(0.05, tape=tape)),
        lambda: fresh.span_probabilities(asked, tape=tape).tolist(),
        lambda: [fresh.minimum_risk("span", tape=tape).labels],
    ]
    found = []
    for ask in questions:
        try:
            found.append(ask())
        except NoPathError as error:
            found.append(str(error))
    return found


def parts(arrays: Any) -> list[Any]:
    return [a.tolist() for a in (arrays if isinstance(arrays, tuple) else (arrays,))]


@pytest.mark.parametrize("size", [1, 3, 5, 17])
def test_blocks_have_the_bits_of_whole_sentences(
    size: int, monkeypatch: pytest.MonkeyPatch, variant: str
) -> None:
    whole = [answers(*case) for case in long_cases()]
    cut(monkeypatch, size)
    for case, known in zip(long_cases(), whole, strict=True):
        assert answers(*case) == known


def test_batches_with_long_sentences(monkeypatch: pytest.MonkeyPatch) -> None:
    def asked() -> list[Any]:
        fresh = [Lattice(ChainRow(one.dense.program, one.dense.values)) for one in batch()]
        return [
            log_partition(fresh).tolist(),
            [p and p.labels for p in best(fresh)],
            [m.tolist() for m in marginals(fresh)],
            sample(fresh, 2),
            [as_rows(one) for one in probable_spans(fresh, 0.01)],
        ]

    whole = asked()
    program = batch()[0].dense.program
    machine = program.machine
    size = 8 * int(lib.fc_machine_work(machine._static[0], 0, 15))
    monkeypatch.setattr(blocks_of, "LONG_BYTES", size)
    monkeypatch.setattr(blocks_of, "_SHORTEST", 4)
    assert asked() == whole


# --- What cannot be ------------------------------------------------------------------------------


@pytest.mark.parametrize("above", [-0.1, 1.5, float("nan"), float("inf")])
def test_no_probability(above: float) -> None:
    for ask in (random_lattice(BIOES, 1, 3).probable_spans, lambda p: probable_spans([], p)):
        with pytest.raises(OptionError, match=r"above is .*, expected a probability, 0 to 1"):
            ask(above)


def test_nothing_to_find() -> None:
    lattice = random_lattice(BIOES, 1, 3)
    assert len(lattice.probable_spans(1.0)) == 0
    assert repr(lattice.probable_spans(1.0)) == "<ProbableSpans: 0 of 2 types>"
    empty = Lattice.from_arrays(BIOES, np.empty((0, 9)))
    assert list(empty.probable_spans(0.0)) == []
    outside = Lattice.from_arrays(("O",), np.zeros((3, 1)))
    assert list(outside.probable_spans(0.0)) == []
    assert probable_spans([]) == span_probabilities([], []) == []
    sure = Lattice.from_arrays(("O", "B-X"), [[-np.inf, 0.0]])
    assert list(sure.probable_spans(0.99)) == [(Span(0, 1, "X"), 1.0)]


def test_questions_that_cannot_be_asked() -> None:
    lattice = random_lattice(BIOES, 1, 3)
    cases: list[tuple[dict[str, Any], str]] = [
        ({"tape": "pos"}, "no tape 'pos'"),
        ({"scheme": "xyz"}, "scheme 'xyz'"),
    ]
    for wrong, words in cases:
        with pytest.raises(OptionError, match=words):
            lattice.probable_spans(**wrong)
        with pytest.raises(OptionError, match=words):
            probable_spans([lattice], **wrong)
        with pytest.raises(OptionError, match=words):
            span_probabilities([lattice], [[]], **wrong)
    with pytest.raises(OptionError, match="has several tapes"):
        (lattice @ lattice).probable_spans()
    with pytest.raises(OptionError, match="1 lists of spans for 2 lattices"):
        span_probabilities([lattice] * 2, [[]])
    with pytest.raises(OptionError, match="threads is 0"):
        probable_spans([lattice], threads=0)
    for asked, words in (((0, 4, "X"), "span 0:4"), ((0, 1, "Z"), "the types are X, Y")):
        with pytest.raises(OptionError, match=words):
            span_probabilities([lattice], [[asked]])


@pytest.mark.parametrize("moving", [False, True])
@pytest.mark.parametrize("labels", [("O", "B-X", "I-X"), ("B-X", "I-X", "E-X", "I-Y")])
def test_spans_that_hardly_ever_begin_or_end(labels: tuple[str, ...], *, moving: bool) -> None:
    """What is carried is all but all: what is not has its digits nevertheless."""
    rng, size, tokens = np.random.default_rng(2), len(labels), 6
    arcs = rng.normal(size=(tokens - 1, size, size) if moving else (size, size))
    arcs[..., labels.index("I-X"), labels.index("I-X")] += 30.0
    lattice = Lattice.from_arrays(labels, rng.normal(size=(tokens, size)), arcs)
    known = enumerated(*sequences(lattice), "conlleval")
    asked = sorted(known)
    found = lattice.span_probabilities(asked)
    wanted = np.asarray([known[span] for span in asked])
    assert wanted.min() < 1e-20
    np.testing.assert_allclose(found, wanted, rtol=1e-10)
    assert shares_of(lattice.probable_spans(0.0)).keys() >= known.keys()


def test_more_spans_than_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    lattice = random_lattice(BIOES, 1, 30)
    lattice.log_partition()
    monkeypatch.setattr(os, "sysconf", lambda _: 64)
    with pytest.raises(TooLargeError, match=r"tokens.*GB of memory; is a blank line missing"):
        lattice.probable_spans(0.0)
    with pytest.raises(TooLargeError, match=r"30 tokens.*GB of memory"):
        lattice.nbest(3)
