"""Potentials with open tapes are what every label of those tapes gives as a column."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fstcrf.arrays import Floats
from fstcrf.kernel import SparseRows
from fstcrf.machines.topology import chain_topology
from fstcrf.taggers import CRF
from fstcrf.taggers.potentials import Term
from fstcrf.text.corpus import Column, Corpus
from fstcrf.text.features import FeatureIndex, parse_template, tape_column
from fstcrf.text.features import keys as keys_module
from fstcrf.text.sentences import Tape
from fstcrf.training.problem import Problem
from fstcrf.training.support import parameter_space

TAPES = {"t": ("A", "B", "C"), "u": ("a", "A")}
LABELS = ["X", "Y"]
HOLES = [
    "%y[0,t]",
    "%y[0,u]",
    "%x[0,word]",
    "%x[-1,word]",
    "%x[2,lower(word)]",
    "%x{-1..1,word}",
    "%x[0,ngrams(word,1,2)]",
    "%v[0,n]",
    "%v[1,n]",
]

tokens = st.tuples(
    st.sampled_from(["a", "A", "ab", ""]),
    st.sampled_from(["1", "-2.5", "0"]),
    st.sampled_from(TAPES["t"]),
    st.sampled_from(TAPES["u"]),
    st.sampled_from(LABELS),
)
sentences_of = st.lists(st.lists(tokens, min_size=1, max_size=4), min_size=1, max_size=4)
Sentences = list[list[tuple[str, str, str, str, str]]]


@st.composite
def texts(draw: st.DrawFn) -> str:
    """Templates, most of which read a tape; several may share a name."""
    lines = []
    for kind in draw(st.lists(st.sampled_from("UUUB"), min_size=1, max_size=5)):
        holes = draw(st.lists(st.sampled_from([*HOLES[:2], *HOLES]), min_size=1, max_size=4))
        lines.append(f"{kind}{draw(st.sampled_from('01'))}:{'/'.join(holes)}")
    return "\n".join([*dict.fromkeys(lines), "B"])


@dataclass(frozen=True)
class Options:
    order: int
    boundary: str
    min_count: int
    hash_bits: int | None
    features: str
    seed: int


options_of = st.builds(
    Options,
    order=st.sampled_from([0, 1, 2]),
    boundary=st.sampled_from(["pad", "skip"]),
    min_count=st.sampled_from([1, 1, 2]),
    hash_bits=st.none(),
    features=st.sampled_from(["supported", "complete"]),
    seed=st.integers(0, 99),
)


def corpus(sentences: Sentences) -> Corpus:
    return Corpus.from_sentences(sentences, columns=("word", "n", "t", "u", "y"))


def with_tapes(data: Corpus) -> Corpus:
    for tape in TAPES:
        data = data.with_interned(tape_column(tape), data.columns[tape])
    return data


def model(sentences: Sentences, text: str, options: Options) -> CRF:
    """A CRF with random weights for what these sentences show."""
    data = with_tapes(corpus(sentences))
    index, design = FeatureIndex.build(
        data,
        parse_template(text),
        boundary="pad" if options.boundary == "pad" else "skip",
        min_count=options.min_count,
        hash_bits=options.hash_bits,
    )
    topology = chain_topology(LABELS, options.order, start_label="X")
    gold = data.columns["y"].strings()
    node, arc = design.node, design.arc
    problem = Problem(
        topology,
        data.offsets,
        node,
        arc,
        np.asarray([[label == g for label in LABELS] for g in gold]),
        np.ones(len(data)),
    )
    extent = parameter_space(
        problem, features="complete" if options.features == "complete" else "supported"
    )
    theta = np.random.default_rng(options.seed).normal(size=extent.size)
    tapes = tuple(Tape(name, labels, "") for name, labels in TAPES.items())
    return CRF(topology, index, extent, theta, "y", ("word", "n"), tapes)


def dense(crf: CRF, data: Corpus) -> tuple[Floats, Floats]:
    """Potentials of states and arcs from the full tables, every tape a column."""
    design, tables, topology = crf.index.design(data), crf.tables, crf.topology  # type: ignore[arg-type]
    node = totals(design.node, tables.node)[:, topology.node_slots].sum(axis=2)
    per_token = np.zeros((data.n_tokens, topology.n_arc_slots)) + tables.transition
    if design.arc is not None and tables.arc is not None:
        per_token += totals(design.arc, tables.arc)[:, : topology.n_arc_slots]
    return node, topology.graph(per_token).score


def totals(rows: SparseRows, table: Floats) -> Floats:
    out = np.zeros((len(rows), table.shape[1]))
    values = np.ones(len(rows.index)) if rows.value is None else rows.value.astype(np.float64)
    owner = np.repeat(np.arange(len(rows)), np.diff(rows.indptr))
    np.add.at(out, owner, table[rows.index] * values[:, None])
    return out


def substituted(data: Corpus, choice: dict[str, str]) -> Corpus:
    data = with_tapes(data)
    for tape, label in choice.items():
        everywhere = Column(np.zeros(data.n_tokens, dtype=np.int32), (label,))
        data = data.with_interned(tape_column(tape), everywhere)
    return data


def summed(terms: tuple[Term, ...], axes: dict[str, list[str]], choice: dict[str, str]) -> Floats:
    """What the terms add up to where the tapes have these labels."""
    total: Floats = terms[0].values
    for term in terms[1:]:
        values = term.values
        for tape in term.context:
            values = values[:, axes[tape].index(choice[tape])]
        total = np.add(total, values)
    return total


def agrees(crf: CRF, data: Corpus, axes: dict[str, list[str]]) -> None:
    found = crf.potentials(data, labels=axes)
    for labels in product(*axes.values()):
        choice = dict(zip(axes, labels, strict=True))
        node, arc = dense(crf, substituted(data, choice))
        np.testing.assert_allclose(summed(found.node, axes, choice), node, rtol=0, atol=1e-12)
        total = np.broadcast_to(summed(found.arc, axes, choice), arc.shape)
        inner = np.setdiff1d(np.arange(data.n_tokens), data.offsets[:-1])
        np.testing.assert_allclose(total[inner], arc[inner], rtol=0, atol=1e-12)
    bound = crf._bind(axes)
    for outlines, terms in ((bound.node, found.node), (bound.arc, found.arc)):
        assert [(o.context, o.shape) for o in outlines] == [
            (t.context, t.values.shape[1:]) for t in terms
        ]
        sizes = [data.n_tokens if outline.per_token else 1 for outline in outlines]
        assert [len(term.values) for term in terms] == sizes


axes_of = st.fixed_dictionaries(
    {},
    optional={
        tape: st.permutations([*labels, "?"]).map(lambda axis: axis[:3])
        for tape, labels in TAPES.items()
    },
)


@pytest.mark.thorough
@pytest.mark.parametrize("bits", [keys_module.KEY_BITS, 5])
@given(sentences_of, texts(), sentences_of, axes_of, options_of)
def test_open_tapes_are_all_their_labels(
    bits: int,
    train: Sentences,
    text: str,
    test: Sentences,
    axes: dict[str, list[str]],
    options: Options,
) -> None:
    """With keys of few bits, too: prefix tables change nothing."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(keys_module, "KEY_BITS", bits)
        agrees(model(train, text, options), corpus(test), axes)


@given(sentences_of, texts(), sentences_of, axes_of, st.sampled_from([0, 1, 2]))
def test_hashed_attributes_are_tried(
    train: Sentences, text: str, test: Sentences, axes: dict[str, list[str]], order: int
) -> None:
    crf = model(train, text, Options(order, "pad", 1, 6, "supported", 1))
    agrees(crf, corpus(test), axes)


@given(sentences_of, texts(), sentences_of, options_of, st.integers(1, 5))
def test_runs_are_parts_of_the_whole(
    train: Sentences, text: str, test: Sentences, options: Options, size: int
) -> None:
    crf = model(train, text, options)
    data = crf._bind().prepare(corpus(test))
    whole = data.potentials(0, len(test))
    begin = 0
    for run in data.runs(size):
        part = data.potentials(run.first, run.end)
        n = int(run.offsets[-1])
        for some, every in ((part.node, whole.node), (part.arc, whole.arc)):
            for mine, term in zip(some, every, strict=True):
                per_token = len(mine.values) == n and len(term.values) > 1
                expected = term.values[begin : begin + n] if per_token else term.values
                assert np.array_equal(mine.values, expected[: len(mine.values)])
        begin += n
    assert begin == corpus(test).n_tokens
