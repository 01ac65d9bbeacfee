"""Errors about constraints that contradict each other: which ones they name."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from fstcrf import constraints as c
from fstcrf.arrays import Floats
from fstcrf.errors import ContradictionError, NoPathError
from fstcrf.kernel import Budget
from fstcrf.lattices import Lattice, product
from fstcrf.machines.grammar import Grammar, contradictory
from fstcrf.machines.plans import Program
from fstcrf.machines.plans.conflict import check_consistent, conflict, no_path_error

MANY = tuple(f"L{i}" for i in range(29))
ABC = ("A", "B", "C")


def sentence(tokens: int, labels: Sequence[str] = ABC, forced: Mapping[int, str] = {}) -> Lattice:
    """A sentence in which some tokens have one label."""
    rng = np.random.default_rng(7)
    size = len(labels)
    lattice = Lattice.from_arrays(labels, rng.normal(size=(tokens, size)), np.zeros((size, size)))
    mask = np.ones((tokens, size), dtype=bool)
    for token, label in forced.items():
        mask[token] = [label == other for other in labels]
    return lattice.restrict(mask)


def under(lattice: Lattice, grammar: Grammar) -> tuple[Program, tuple[Floats, ...]]:
    """A lattice under a grammar, without multiplying that out."""
    labels = {tape: lattice.dense.program.labels(tape) for tape in lattice.tapes}
    return lattice.dense.program.constrained(grammar.bind(labels)), lattice.dense.values


def test_forced_labels_and_a_grammar_of_many_states() -> None:
    lattice = sentence(40, MANY, {3: "L5", 9: "L6", 20: "L5"})
    whole = under(lattice, c.contiguous() & c.before("L1", "L2") & c.at_most(3, "L9"))
    assert conflict(*whole) == ('contiguous("L5")',)
    error = no_path_error(*whole, position=20, sentence=4)
    assert str(error) == 'sentence 4, token 20: no labelling is legal under contiguous("L5")'
    assert (error.position, error.sentence) == (20, 4)
    assert error.constraints == ('contiguous("L5")',)


def test_too_short_a_sentence() -> None:
    grammar = c.contiguous() & c.at_least(2, "A") & c.at_least(2, "B") & c.never("C")
    assert conflict(*under(sentence(3), grammar)) == ('at_least(2, "A")', 'at_least(2, "B")')
    assert conflict(*under(sentence(4), grammar)) is None  # there is a path
    assert conflict(*under(sentence(4, MANY), c.contiguous() & c.at_least(5, "L7"))) == (
        'at_least(5, "L7")',
    )


def test_constraints_of_files_have_lines() -> None:
    grammar = Grammar.from_text(
        'export FEW = at_most[1, "A"];\nexport ORDER = before["A", "B"];\n\n'
        'export MANY = at_least[2, "A" | "B"];\nexport END = end_with["A"];'
    )
    names = ("<text>:1: FEW", "<text>:2: ORDER", "<text>:4: MANY", "<text>:5: END")
    error = no_path_error(*under(sentence(3), grammar), position=2)
    assert error.constraints == names
    assert str(error) == (
        f"token 2: no labelling is legal under {', '.join(names[:3])} and {names[3]} together; "
        "without any one of them one is"
    )
    assert conflict(*under(sentence(2, forced={1: "C"}), grammar)) == (names[3],)


def test_without_any_grammar() -> None:
    lattice = sentence(3).restrict(np.asarray([[True] * 3, [False] * 3, [True] * 3]))
    error = no_path_error(*under(lattice, c.at_most(1, "A")), position=1)
    assert error.constraints == ()
    assert str(error) == (
        "token 1: every label sequence is forbidden, by structure, potentials of -inf or forced "
        "labels alone"
    )


def test_what_would_take_too_many_states() -> None:
    # Nothing less than all runs of all labels explains that 30 tokens are one too many.
    changing = c.neighbours(lambda a, b: a is None or a != b)
    whole = under(sentence(30, MANY), c.contiguous() & changing)
    assert conflict(*whole) is None
    assert str(no_path_error(*whole, position=29)) == (
        "token 29: every label sequence is forbidden from here on"
    )


def test_soft_constraints_are_never_to_blame() -> None:
    grammar = c.at_least(5, "A", weight=-1.0) & c.never("A") & c.start_with("A")
    assert conflict(*under(sentence(3), grammar)) == ('never("A")', 'start_with("A")')


def test_several_tapes() -> None:
    two = product([sentence(3), Lattice.from_arrays(["x", "y"], np.zeros((3, 2)), tape="t")])
    grammar = (
        c.pairs({"A": ["x"]}, ("label", "t"))
        & c.at_most(1, "x", tape="t")
        & c.at_least(2, "A", tape="label")
        & c.contiguous(tape="label")
    )
    assert conflict(*under(two, grammar)) == (
        "pairs(…, ('label', 't'))",
        'at_most(1, "x")',
        'at_least(2, "A")',
    )


@pytest.mark.thorough
def test_a_large_acceptor_of_which_a_sentence_sees_little() -> None:
    states = 100_000
    target = np.full((states, 3), -1)
    target[:-1, 0] = np.arange(1, states)  # A, as often as there are states
    target[:3, 1] = states - 1
    grammar = Grammar.from_arrays(ABC, target, name="mine") & c.at_least(3, "B") & c.never("C")
    found = conflict(*under(sentence(4), grammar))
    assert found == ("mine", 'at_least(3, "B")')


# --- Sentences of any length --------------------------------------------------------------------


def test_contradictions_with_the_structure() -> None:
    never_b = np.zeros((3, 3))
    never_b[:, 1] = -np.inf
    lattice = Lattice.from_arrays(ABC, np.zeros((2, 3)), never_b, initial=[0, -np.inf, 0])
    with pytest.raises(
        ContradictionError, match="accepts nothing that the taggers can say"
    ) as caught:
        check_consistent(under(lattice, c.at_least(1, "B") & c.contiguous())[0])
    assert caught.value.constraints == ('at_least(1, "B")',)
    nothing = Lattice.from_arrays(ABC, np.zeros((2, 3)), initial=[-np.inf] * 3)
    with pytest.raises(ContradictionError, match="the taggers can say nothing"):
        check_consistent(nothing.dense.program)


def test_consistent_ones_pass() -> None:
    program = under(sentence(1, MANY), c.contiguous() & c.at_least(3, "L7"))[0]
    check_consistent(program)
    assert contradictory(program.conjuncts) is None


def test_the_same_constraint_twice() -> None:
    never, some = c.never("A"), c.start_with("A")
    found = conflict(*under(sentence(2), never & some & never))
    assert found == ('never("A")', 'start_with("A")')


def test_errors_survive_pickling() -> None:
    error = no_path_error(*under(sentence(1), c.at_least(2, "A")), position=0, sentence=3)
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error)
    assert (again.constraints, again.sentence) == (error.constraints, 3)
    both = pickle.loads(pickle.dumps(ContradictionError("no", constraints=("a", "b"))))
    assert (str(both), both.constraints) == ("no", ("a", "b"))


# --- What a lazy search does not find out -------------------------------------------------------


def crowd(n: int) -> Grammar:
    """Each of so many labels, at least once."""
    grammar = c.at_least(1, MANY[0])
    for label in MANY[1:n]:
        grammar &= c.at_least(1, label)
    return grammar


FEW = Budget(states=500)


@pytest.mark.thorough
@pytest.mark.parametrize("tokens", [8, 28])
@pytest.mark.parametrize(
    ("grammar", "names"),
    [
        (
            c.exactly(2, "L1") & c.exactly(3, "L1"),
            ('exactly(2, "L1")', 'exactly(3, "L1")'),
        ),
        (
            c.never("L2") & c.requires("L1", "L2") & c.at_least(1, "L1"),
            ('never("L2")', 'requires("L1", "L2")', 'at_least(1, "L1")'),
        ),
        (
            c.before("L1", "L2") & c.before("L2", "L1") & crowd(3),
            ('before("L1", "L2")', 'before("L2", "L1")', 'at_least(1, "L1")', 'at_least(1, "L2")'),
        ),
    ],
)
def test_what_contradicts_itself_beside_large_grammars(
    tokens: int, grammar: Grammar, names: tuple[str, ...]
) -> None:
    with pytest.raises(NoPathError, match="without any one of them one is") as caught:
        (sentence(tokens, MANY) & (c.contiguous() & grammar)).best(FEW)
    assert caught.value.constraints == names


@pytest.mark.thorough
@pytest.mark.parametrize("n", [12, 29])
@pytest.mark.parametrize("more", [c.contiguous(), c.at_most(1, "L0")])
def test_more_labels_than_tokens(n: int, more: Grammar) -> None:
    lattice, names = sentence(n - 1, MANY), tuple(f'at_least(1, "{x}")' for x in MANY[:n])
    with pytest.raises(NoPathError) as caught:
        (lattice & (more & crowd(n))).best(FEW)
    assert caught.value.constraints == names
    assert conflict(*under(lattice, more & crowd(n - 1))) is None  # there is a path


def test_more_tokens_than_labels() -> None:
    once = c.at_most(1, MANY[0])
    for label in MANY[1:]:
        once &= c.at_most(1, label)
    with pytest.raises(NoPathError) as caught:
        (sentence(30, MANY) & once).best(FEW)
    assert len(caught.value.constraints) == len(MANY)


def test_large_counts_in_a_short_sentence() -> None:
    grammar = c.contiguous() & c.at_least(60, "L1") & c.at_least(60, "L2")
    lattice = sentence(119, MANY) & grammar
    with pytest.raises(NoPathError) as caught:
        lattice.best(FEW)
    assert caught.value.constraints == ('at_least(60, "L1")', 'at_least(60, "L2")')


def test_a_search_that_gives_up_says_so() -> None:
    changing = c.neighbours(lambda a, b: a is None or a != b)
    with pytest.raises(NoPathError, match="500 states, nor proven not to exist") as caught:
        (sentence(30, MANY) & (c.contiguous() & changing)).best(FEW)
    assert caught.value.constraints == ()
