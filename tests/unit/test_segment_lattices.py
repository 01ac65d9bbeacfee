"""Lattices of segments: what they refuse, and what they say of little."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fstcrf import Budget, compose
from fstcrf.errors import (
    DataError,
    GrammarError,
    LabelError,
    NoPathError,
    NumericError,
    OptionError,
    ShapeError,
    TooLargeError,
)
from fstcrf.lattices import Lattice, best, log_partition, marginals, sample
from fstcrf.machines.grammar import Grammar

NEVER = float("-inf")


def lattice(**changed: Any) -> Lattice:
    """x over 0:2, y over 2:3, z over 0:1 and 1:3."""
    given: dict[str, Any] = {
        "length": 3,
        "start": [0, 2, 0, 1],
        "end": [2, 3, 1, 3],
        "label": [0, 1, 2, 2],
        "score": [1.0, 2.0, 0.5, 0.25],
        "labels": ["x", "y", "z"],
    }
    return Lattice.from_segments(**{**given, **changed})


def test_arcs_come_in_any_order() -> None:
    generator = np.random.default_rng(3)
    start, length, label = (a.reshape(-1) for a in np.indices((6, 3, 4)))
    kept = np.flatnonzero(start + length < 6)
    columns = (
        start[kept],
        start[kept] + length[kept] + 1,
        label[kept],
        generator.normal(size=len(kept)),
    )
    names, pairs = list("wxyz"), generator.normal(size=(4, 4))
    first = Lattice.from_segments(6, *columns, names, pairs)
    for _ in range(5):
        order = generator.permutation(len(kept))
        a, b, c, d = (column[order] for column in columns)
        moved = Lattice.from_segments(6, a, b, c, d, names, pairs)
        assert moved.log_partition() == pytest.approx(first.log_partition(), abs=1e-12)
        assert moved.nbest(4) == first.nbest(4)
        assert [order[p.arcs].tolist() for p in moved.nbest(4)] == [
            p.arcs.tolist() for p in first.nbest(4)
        ]


def test_dead_lattices_say_where() -> None:
    dead = lattice(score=[1.0, NEVER, 0.5, NEVER])
    assert dead.log_partition() == NEVER
    for ask in ("best", "marginals", "arc_marginals", "entropy", "minimum_risk", "expectations"):
        with pytest.raises(NoPathError, match="token 2"):
            getattr(dead, ask)()
    with pytest.raises(NoPathError, match="token 2"):
        dead.sample(1)
    assert dead.nbest(2) == []
    assert np.isneginf(dead.max_marginals()).all()
    assert "covers" in dead._repr_html_()
    assert best([lattice(), dead])[1] is None
    with pytest.raises(NoPathError, match="sentence 1, token 2"):
        marginals([lattice(), dead])
    assert log_partition([lattice(), dead])[1] == NEVER


@pytest.mark.parametrize(
    ("changed", "error", "says"),
    [
        ({"length": -1}, OptionError, "length is -1"),
        ({"length": 2.5}, OptionError, "length is 2.5"),
        ({"end": [2, 3, 1, 4]}, DataError, "segment 3 is 1:4, expected a stretch of the 3 tokens"),
        ({"start": [0, 2, 0, 3]}, DataError, "segment 3 is 3:3"),
        ({"start": [-1, 2, 0, 1]}, DataError, "segment 0 is -1:2"),
        ({"label": [0, 1, 3, 2]}, LabelError, "segment 2 has the label 3"),
        ({"score": [0, np.nan, 0, 0]}, NumericError, "segment 1 has the score nan"),
        ({"score": [0, np.inf, 0, 0]}, NumericError, "segment 1 has the score inf"),
        ({"score": [0, 0, 0]}, ShapeError, "score"),
        ({"start": [0.5, 2, 0, 1]}, ShapeError, "start is float64"),
        ({"transitions": np.zeros((2, 3))}, ShapeError, "transitions"),
        ({"transitions": np.full((3, 3), np.inf)}, NumericError, "transitions"),
        ({"initial": np.zeros(2)}, ShapeError, "initial"),
        ({"labels": "xyz"}, OptionError, "labels"),
    ],
)
def test_bad_arrays(changed: dict[str, Any], error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        lattice(**changed)


def test_bad_questions() -> None:
    one = lattice()
    with pytest.raises(OptionError, match="no span 0:4"):
        one.span_probability(0, 4, "x")
    with pytest.raises(LabelError, match="'w'"):
        one.score([(0, 1, "w")])
    with pytest.raises(OptionError, match="above is 2"):
        one.probable_spans(2)
    with pytest.raises(OptionError, match="loss is 'f'"):
        one.minimum_risk("f")  # type: ignore[call-overload]
    with pytest.raises(OptionError, match="n is -1"):
        one.nbest(-1)
    with pytest.raises(ShapeError, match="mask is"):
        one.restrict(np.ones(3, dtype=bool))
    with pytest.raises(ShapeError, match="boundaries is"):
        one.restrict(boundaries=[0, 0])
    with pytest.raises(OptionError, match="-1, 0 or 1"):
        one.restrict(boundaries=[0, 2, 0, 0])
    with pytest.raises(OptionError, match="factor"):
        one.scale(np.inf)
    with pytest.raises(OptionError, match="Grammar"):
        one.constrained("x")  # type: ignore[arg-type]
    with pytest.raises(GrammarError):
        one.constrained(Grammar.from_text('export W = "[w]";'))
    with pytest.raises(OptionError, match="over is 'words'"):
        one.constrained(Grammar.from_text('export X = "[x]"*;'), over="words")  # type: ignore[arg-type]
    assert one.score([(0, 2, "x")]) == NEVER
    assert one.score([(0, 2, "x"), (1, 3, "z")]) == NEVER


@pytest.mark.thorough
def test_bad_compositions() -> None:
    one = lattice()
    tagger = Lattice.from_arrays(("n", "v"), np.zeros((3, 2)), tape="pos")
    with pytest.raises(ShapeError, match=r"the lattices have \[2, 3\] tokens"):
        one @ Lattice.from_arrays(("n", "v"), np.zeros((2, 2)))
    assert (one @ tagger @ tagger).tapes == ("segment0", "pos0", "pos1")
    with pytest.raises(OptionError, match="one of pos"):
        one.with_tokens(tagger, coupling={("x", "pos"): np.zeros((3, 2))})
    with pytest.raises(ShapeError, match="coupling"):
        one.with_tokens(tagger, coupling={("segment", "pos"): np.zeros((2, 2))})
    with pytest.raises(OptionError, match="no tape 'tag'"):
        (one @ tagger).marginals("tag")
    names = [str(k) for k in range(3000)]
    wide = Lattice.from_arrays(names, np.zeros((3, 3000)), np.eye(3000))
    with pytest.raises(TooLargeError):
        one @ wide


def test_bad_batches_and_compositions_of_kinds() -> None:
    one = lattice()
    chain = Lattice.from_arrays(["a", "b"], np.zeros((2, 2)))
    with pytest.raises(ShapeError, match=r"the lattices have \[2, 3\] tokens"):
        chain @ one
    assert [*best([one, chain])] == [one.best(), chain.best()]
    for several in ([one], [chain, one]):
        with pytest.raises(OptionError, match="search= is for lattices of tokens"):
            best(several, search="lazy")
    with pytest.raises(OptionError, match="budget= is for lattices of tokens"):
        one.best(Budget(states=1))
    with pytest.raises(OptionError, match="search= is for lattices of tokens"):
        compose(one, lattice(), search="lazy")
    with pytest.raises(ShapeError, match="1 weights for 2 lattices"):
        compose(one, lattice(), weights=[1.0])
    with pytest.raises(OptionError, match="expected numbers from 0"):
        compose(one, lattice(), weights=[1.0, -1.0])
    with pytest.raises(OptionError, match="expected two positions below 2"):
        compose(one, lattice(), coupling={(0, 2): np.zeros((3, 3))})
    with pytest.raises(OptionError, match="seed is -1"):
        sample([one], 2, seed=-1)
    with pytest.raises(ShapeError, match="one for each path"):
        Lattice.from_paths([["a"]], [1.0, 2.0])
    with pytest.raises(NumericError, match="path 0 has the score nan"):
        Lattice.from_paths([["a"]], [np.nan])
    with pytest.raises(LabelError, match="unknown label 'a'; the labels are b"):
        Lattice.from_paths([["a"]], [1.0], ["b"])


def test_bad_spans() -> None:
    with pytest.raises(OptionError, match="nested"):
        Lattice.from_spans(2, [], nested=True)
    with pytest.raises(OptionError, match='"O"'):
        Lattice.from_spans(2, [(0, 1, "O", 0.0)])
    with pytest.raises(DataError, match="0:3"):
        Lattice.from_spans(2, [(0, 3, "A", 0.0)])
    with pytest.raises(DataError, match="tuples"):
        Lattice.from_spans(2, [(0, 1)])  # type: ignore[list-item]
    with pytest.raises(LabelError, match="'B'"):
        Lattice.from_spans(2, [(0, 1, "B", 0.0)], labels=["A"])
    with pytest.raises(NumericError, match="outside"):
        Lattice.from_spans(2, [], outside=np.nan)
    with pytest.raises(NoPathError, match="token 1"):
        Lattice.from_spans(2, [(0, 1, "A", 0.0)], outside=NEVER).best()


def test_bad_frames() -> None:
    with pytest.raises(ShapeError):
        Lattice.from_ctc([1.0, 2.0])
    with pytest.raises(OptionError, match="blank is 2"):
        Lattice.from_ctc(np.zeros((2, 2)), 2)
    with pytest.raises(OptionError, match="pass labels"):
        Lattice.from_ctc(np.zeros((2, 2)), "-")
    with pytest.raises(OptionError, match="3 labels for 2"):
        Lattice.from_ctc(np.zeros((2, 2)), labels=["a", "b", "c"])
    with pytest.raises(NumericError):
        Lattice.from_ctc(np.full((2, 2), np.nan))
    one = Lattice.from_ctc(np.zeros((2, 2)), labels=["-", "a"])
    assert isinstance(one, Lattice)
    with pytest.raises(LabelError, match="'-'"):
        one.string_log_partition(["-"])
    with pytest.raises(LabelError, match="'z'"):
        one.string_log_partition(["z"])
    with pytest.raises(OptionError, match="n is 0"):
        one.strings(n=0)


def test_a_search_for_strings_that_gives_up_says_so() -> None:
    scores = np.random.default_rng(0).normal(size=(30, 6)) * 0.1
    one = Lattice.from_ctc(scores)
    found = one.strings(n=2, budget=3)
    assert not any(path.exact for path in found)
    assert all(path.bound >= path.score for path in found)
    peaked = Lattice.from_ctc(scores * 60)
    found = peaked.strings(n=1, budget=3)
    assert found[0].score >= peaked.string_log_partition(peaked.best().labels)
    assert found[0].score == pytest.approx(peaked.string_log_partition(found[0].labels))
