"""Labels that are passed on, against sums over all labellings of the earlier tape."""

from __future__ import annotations

import itertools
from collections import defaultdict
from functools import partial
from typing import Any

import numpy as np
import pytest

from fstcrf import CRF, Corpus
from fstcrf.lattices import marginals, nbest
from fstcrf.text.features import FeatureIndex, parse_template, tape_column
from fstcrf.training import Gold, Reads
from fstcrf.training.options import Options
from fstcrf.training.passing import pass_on, passed_design
from tests.support.training import flat_train

WORDS = ["u", "v", "w", "x"]
READS = "U1:%y[0,a]/%x[-1..0,word]\nU2:%x[0,word]\nU3:%y[0,a]\nB\nB1:%y[0,a]\n"


def corpus(seed: int, n: int = 12) -> Corpus:
    rng = np.random.default_rng(seed)
    return Corpus.from_sentences(
        [
            {
                "word": [WORDS[i] for i in rng.integers(4, size=size)],
                "a": [f"A{i}" for i in rng.integers(3, size=size)],
                "b": [f"B{i}" for i in rng.integers(2, size=size)],
            }
            for size in rng.integers(1, 5, size=n)
        ]
    )


DATA = corpus(0)


@pytest.fixture(scope="module")
def first() -> CRF:
    return CRF.train(DATA, "a", "U:%x[0,word]\nB\n", l2=0.05)


@pytest.fixture(scope="module")
def second(first: CRF) -> CRF:
    return CRF.train(DATA, "b", READS, l2=0.05, reads=[first])


@pytest.mark.thorough
def test_soft_scores_are_expectations(first: CRF, second: CRF) -> None:
    test = corpus(1, 4)
    table = np.concatenate(marginals(first._averaged_lattices(test, {})))
    assert np.allclose(table, np.concatenate(first.marginals_all(test)))
    lattices = second._averaged_lattices(test, {"a": (first.labels, table)})
    for s, lattice in enumerate(lattices):
        rows = table[test.offsets[s] : test.offsets[s + 1]]
        words = test[s]["word"]
        labellings = list(itertools.product(second.labels, repeat=len(words)))
        expected = np.zeros(len(labellings))
        for a in itertools.product(range(3), repeat=len(words)):
            weight = np.prod([rows[t, k] for t, k in enumerate(a)])
            given = second.lattice({"word": words, "a": [first.labels[k] for k in a]})
            expected += weight * np.asarray([given.score(list(b)) for b in labellings])
        assert np.allclose([lattice.score(list(b)) for b in labellings], expected)


def test_sure_posteriors_give_the_cascade(first: CRF, second: CRF) -> None:
    test = corpus(2, 4)
    column = first.tag_column(test)
    lattices = second._averaged_lattices(test, {"a": (first.labels, np.eye(3)[column.ids])})
    given = test.with_interned(tape_column("a"), column).with_interned("a", column)
    for lattice, sentence in zip(lattices, given, strict=True):
        assert np.isclose(lattice.log_partition(), second.lattice(sentence).log_partition())


def test_attributes_have_the_probability_of_what_they_read(first: CRF) -> None:
    settings = Options(passing="marginals")
    passed = pass_on(DATA, [first], settings)
    index, design, alone = passed_design(
        passed, partial(FeatureIndex.build, templates=parse_template(READS))
    )
    assert np.array_equal(alone.origin, np.arange(len(DATA)))
    assert np.allclose(alone.share, 1)
    table = np.concatenate(first.marginals_all(DATA))
    table = np.where(table >= 0.01, table, 0)
    table /= table.sum(axis=1, keepdims=True)
    words, bounds = DATA.columns["word"].strings(), DATA.offsets.tolist()
    for a, b in itertools.pairwise(bounds):
        for t in range(a, b):
            expected: dict[str, float] = defaultdict(float)
            expected[f"U2:{words[t]}"] = 1
            for k, label in enumerate(first.labels):
                expected[f"U3:{label}"] += table[t, k]
            start, end = design.node.indptr[t : t + 2]
            names = index.attributes(design.node.index[start:end])
            values = [1.0] * len(names)
            if design.node.value is not None:
                values = design.node.value[start:end].tolist()
            found = dict(zip(names, values, strict=True))
            for name, value in expected.items():
                assert found.get(name, 0) == pytest.approx(value, abs=1e-6)
            pairs = [v for name, v in found.items() if name.startswith("U1")]
            assert sum(pairs) == pytest.approx(2, abs=1e-5)
            assert sum(found.values()) == pytest.approx(4, abs=1e-5)
    assert design.arc is not None
    assert design.arc.value is not None
    inside = sum(b - a - 1 for a, b in itertools.pairwise(bounds))
    assert design.arc.value.sum() == pytest.approx(inside, abs=1e-4)


def test_the_best_labellings_are_weighted_by_their_probability(first: CRF) -> None:
    settings = Options(passing="nbest", candidates=3)
    passed = pass_on(DATA, [first], settings)
    ranked = nbest([first.lattice(sentence) for sentence in DATA], 3)
    expected = [
        (s, list(path.labels), path.probability / sum(p.probability for p in paths))
        for s, paths in enumerate(ranked)
        for path in paths
    ]
    assert passed.origin.tolist() == [s for s, _, _ in expected]
    assert passed.corpus.column_lists(tape_column("a")) == [labels for _, labels, _ in expected]
    assert np.allclose(passed.share, [share for _, _, share in expected])


def test_copies_count_as_much_as_their_sentence(first: CRF, second: CRF) -> None:
    whole = CRF.train(
        DATA, "b", READS, l2=0.05, reads=Reads([first], passing="nbest", candidates=1)
    )
    assert np.allclose(whole.theta, second.theta, atol=1e-3)
    weights = np.random.default_rng(0).random(len(DATA)) + 0.5
    several = CRF.train(
        DATA, Gold("b", weights=weights), READS, reads=Reads([first], passing="nbest", candidates=3)
    )
    passed = pass_on(DATA, [first], Options(passing="nbest", candidates=3))
    copies = passed.corpus.with_interned("z", passed.corpus.columns[tape_column("a")])
    by_hand = CRF.train(
        copies,
        Gold("b", weights=weights[passed.origin] * passed.share),
        READS.replace("%y[0,a]", "%x[0,z]"),
    )
    assert several.record is not None
    assert by_hand.record is not None
    assert several.record.objective == pytest.approx(by_hand.record.objective, rel=1e-4)


@pytest.mark.thorough
@pytest.mark.parametrize("passing", ["nbest", "marginals"])
def test_folds_keep_the_order_of_sentences(first: CRF, passing: str) -> None:
    options: dict[str, Any] = {"passing": passing, "jackknife": 3}
    found = flat_train(DATA, "b", READS, reads=[first], **options)
    passed = pass_on(DATA, [first], Options(**options))
    assert (np.diff(passed.origin) >= 0).all()
    words = [DATA[s]["word"] for s in passed.origin.tolist()]
    assert passed.corpus.column_lists("word") == words
    assert np.allclose(np.bincount(passed.origin, passed.share)[:2] >= 1 - 1e-9, [True, True])
    assert found.reads[0].name == "a"
