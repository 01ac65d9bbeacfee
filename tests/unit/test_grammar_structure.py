"""Taggers trained under a grammar: structure, not penalty."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import fstcrf
from fstcrf import constraints
from fstcrf.errors import DataError, GrammarError, OptionError
from fstcrf.machines.grammar import Grammar, constrained_topology
from fstcrf.machines.topology import chain_topology
from fstcrf.training import Reads
from tests.support.training import flat_train

LABELS = ("O", "B-X", "I-X")
SENTENCES = [
    {"word": ["a", "b", "c", "a"], "tag": ["O", "B-X", "I-X", "O"]},
    {"word": ["b", "c"], "tag": ["B-X", "I-X"]},
    {"word": ["a", "b"], "tag": ["O", "B-X"]},
]


def trained(grammar: Grammar | None, **options: Any) -> fstcrf.CRF:
    return flat_train(
        SENTENCES,
        target="tag",
        template="U:%x[0,word]\nB",
        grammar=grammar,
        **options,
    )


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize(
    "grammar",
    [
        constraints.bio(),
        constraints.at_most(1, "X"),
        constraints.bio() & constraints.at_most(1, "X") & constraints.at_least(1, "X"),
    ],
    ids=str,
)
def test_a_topology_accepts_what_both_accept(grammar: Grammar, order: int) -> None:
    free = chain_topology(LABELS, order)
    both = constrained_topology(free, grammar.bind(LABELS))
    bound = grammar.bound(LABELS)
    for length in range(1, 6):
        sequences = list(product(range(len(LABELS)), repeat=length))
        ids = np.asarray(sequences, dtype=np.int32).reshape(-1)
        offsets = np.arange(len(sequences) + 1, dtype=np.int64) * length
        legal = both.paths(ids, offsets)[offsets[1:] - 1] >= 0
        wanted = [bound.accepts([LABELS[i] for i in sequence]) for sequence in sequences]
        assert legal.tolist() == wanted


def test_training_normalises_over_what_is_legal() -> None:
    grammar = constraints.bio() & constraints.at_most(1, "X")
    tagger = trained(grammar)
    lattice = tagger.lattice({"word": ["a", "b", "b", "c"]})
    paths = lattice.nbest(200)
    bound = grammar.bound(tagger.labels)
    assert all(bound.accepts(path.labels) for path in paths)
    assert sum(path.probability for path in paths) == pytest.approx(1.0, abs=1e-12)
    # The gradient vanished for this distribution, not for one over all sequences.
    free = trained(None)
    assert tagger.record is not None
    assert free.record is not None
    assert tagger.record.objective < free.record.objective


def test_gold_labels_that_break_the_grammar() -> None:
    with pytest.raises(DataError, match=r"sentence 0, token 3: label .O. after .I-X.*grammar"):
        trained(constraints.end_with("B-X"))


def test_refusals() -> None:
    with pytest.raises(GrammarError, match="only hard grammars"):
        trained(constraints.at_most(1, "X", weight=-1.0))
    with pytest.raises(GrammarError, match="no label"):
        trained(constraints.never("B-Y"))
    tagger = trained(constraints.bio(), tape="first")
    with pytest.raises(OptionError, match="trained under"):
        fstcrf.CRF.train(
            SENTENCES, target="tag", features="U:%y[0,first]", reads=Reads([tagger], jackknife=2)
        )
