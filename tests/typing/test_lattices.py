"""The types of lattices, as mypy and pyright read them: exact where the number of tapes is known.

Both check every `assert_type` (`make lint`); running the file shows that the values agree.
"""

from __future__ import annotations

from typing import TypeAlias, assert_type

import numpy as np

import fstcrf
from fstcrf import Lattice, Path
from fstcrf.arrays import Floats
from fstcrf.constraints import bio
from fstcrf.lattices import JointLattice, Paths, Ranking, TapeLattice, product
from fstcrf.lattices.results import MinimumRisk

Tape: TypeAlias = tuple[str, ...]
Tapes: TypeAlias = tuple[tuple[str, ...], ...]
Arrays: TypeAlias = tuple[Floats, ...]

LABELS = ["O", "B-X", "I-X"]


def one() -> Lattice[Tape, Floats]:
    return Lattice.from_arrays(LABELS, np.zeros((2, 3)))


def test_a_lattice_of_one_tape() -> None:
    lattice = Lattice.from_arrays(LABELS, np.zeros((2, 3)))
    assert_type(lattice, TapeLattice)
    assert_type(lattice.labels, Tape)
    assert_type(lattice.best(), Path[Tape])
    assert_type(lattice.best().labels, Tape)
    assert_type(lattice.best(search="expanded").labels[0], str)
    assert_type(lattice.nbest(2), list[Path[Tape]])
    assert_type(lattice.nbest(2, tapes=["label"]), list[Path])
    assert_type(lattice.sample(2), list[Tape])
    assert_type(lattice.marginals(), Floats)
    assert_type(lattice.marginals("label"), Floats)
    assert_type(lattice.arc_marginals(), Floats)
    assert_type(lattice.max_marginals(), Floats)
    assert_type(lattice.log_partition(), float)
    assert_type(lattice.score(["O", "B-X"]), float)
    assert_type(lattice.probability(("O", "B-X")), float)
    assert_type(lattice.minimum_risk(), MinimumRisk[Tape])
    assert_type(lattice.minimum_risk("span"), MinimumRisk[Tape])
    assert lattice.best().labels == ("O", "O")
    assert lattice.marginals().shape == lattice.max_marginals().shape == (2, 3)


def test_lattices_made_of_it_are_of_one_tape() -> None:
    lattice, grammar = one(), bio()
    assert_type(lattice & grammar, TapeLattice)
    assert_type(lattice & grammar & grammar, TapeLattice)
    assert_type(lattice.constrained(grammar, search="lazy"), TapeLattice)
    assert_type(lattice.restrict(np.ones((2, 3), dtype=bool)), TapeLattice)
    assert_type(lattice.scale(0.5), TapeLattice)
    assert_type(lattice.weighted(2.0), TapeLattice)
    assert_type(lattice.without_grammar(), TapeLattice)
    assert (lattice & grammar).labels == tuple(LABELS)


def test_a_lattice_of_several_tapes() -> None:
    lattice = one() @ one()
    assert_type(lattice, JointLattice)
    assert_type(lattice @ one(), JointLattice)
    assert_type(lattice & bio(tape="label0"), JointLattice)
    assert_type(fstcrf.compose(one(), one()), JointLattice)
    assert_type(fstcrf.compose(one(), one(), one(), weights=[1, 1, 1]), JointLattice)
    assert_type(lattice.labels, Tapes)
    assert_type(lattice.best(), Path[Tapes])
    assert_type(lattice.best().labels[0], Tape)
    assert_type(lattice.nbest(2), list[Path[Tapes]])
    assert_type(lattice.sample(2), list[Tapes])
    assert_type(lattice.marginals(), Arrays)
    assert_type(lattice.marginals("label0"), Floats)
    assert_type(lattice.max_marginals(), Arrays)
    assert_type(lattice.score([["O", "O"], ["O", "O"]]), float)
    assert_type(lattice.minimum_risk("token"), MinimumRisk[Tapes])
    assert_type(lattice.minimum_risk("span", tape="label0"), MinimumRisk[Tape])
    assert lattice.best().labels == (("O", "O"), ("O", "O"))
    assert [array.shape for array in lattice.marginals()] == [(2, 3), (2, 3)]


def test_many_lattices() -> None:
    single, joint = [one(), one()], [one() @ one()]
    assert_type(fstcrf.best(single), Paths[Tape])
    assert_type(fstcrf.best(single)[0], Path[Tape] | None)
    assert_type(fstcrf.nbest(single, 2), Ranking[Tape])
    assert_type(fstcrf.nbest(joint, 2, search="expanded")[0], list[Path[Tapes]])
    assert_type(fstcrf.marginals(single), list[Floats])
    assert_type(fstcrf.marginals(joint), list[Arrays])
    assert_type(fstcrf.sample(joint, 1), list[list[Tapes]])
    assert_type(fstcrf.log_partition(joint), Floats)
    assert [path.labels for path in fstcrf.best(single) if path is not None] == [("O", "O")] * 2


def test_lattices_of_any_number_of_tapes() -> None:
    """A lattice without parameters is one of which the tapes are not known."""
    lattices: list[Lattice] = [one(), one() @ one()]
    assert_type(product(lattices), Lattice)
    assert_type(lattices[0] & bio(), Lattice)
    assert [len(lattice.tapes) for lattice in lattices] == [1, 2]
