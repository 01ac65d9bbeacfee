"""Law: what a composition exports, and takes back, is what it answers.

Transducers beside lattices, tapes and semirings. The pairs of strings that the exported machine
reads and writes, with their weights, are those of the paths. A path, or a mapping, has its score.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from fstcrf import Lattice, Lattices, Transducer
from fstcrf.errors import LabelWarning, OptionError

A = ["a", "b"]
MACHINES = {
    "deletes": Transducer.from_text("0 0 a A 0.5\n0 0 b <eps>\n0", tape="y"),
    "inserts": Transducer.from_text("0 1 a A 0.5\n1 0 <eps> B\n0 0 b B\n0", tape="y"),
    "chooses": Transducer.from_table({"a": {"A": 0.0, "B": -1.0}, "b": "B"}, tape="y"),
    "tropical": Transducer.from_table({"a": "A", "b": None}, tape="y", semiring="tropical"),
}


def lattices() -> dict[str, Any]:
    rng = np.random.default_rng(3)
    dense = Lattice.from_arrays(A, rng.normal(size=(3, 2)), tape="x")
    return {
        "chain": dense,
        "paths": Lattice.from_paths([["a"], ["b", "a"], ["b", "b"]], [0.0, 1.0, 0.5], tape="x"),
        "segments": Lattice.from_segments(
            2, [0, 0, 1], [2, 1, 2], [0, 1, 1], [0, 1, 2.0], A, tape="x"
        ),
        "spans": Lattice.from_spans(3, [(0, 2, "a", 1.0), (1, 3, "b", 0.5)], tape="x"),
    }  # fmt: skip


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("kind", lattices())
def test_a_composition_exports_what_it_reads_and_writes(kind: str, name: str) -> None:
    composed = lattices()[kind] @ MACHINES[name]
    machine = Transducer.from_text(composed.to_att(), tape="y")
    assert composed.machine.to_att() == machine.to_att()
    wanted: dict[Any, float] = {}
    for path in composed.nbest(100):
        key = path["x"], path["y"]
        wanted[key] = float(np.logaddexp(wanted.get(key, -np.inf), path.score))
    assert len(wanted) > 1
    for (read, written), score in wanted.items():
        both = (Transducer.from_pairs([(x, x)], tape=None) for x in (read, written))
        alone = next(both).on("x") @ machine @ next(both).on("y")
        total = (Lattice.from_paths([read], [0.0], tape="x") @ alone).log_partition()
        assert total == pytest.approx(score)


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("kind", lattices())
def test_a_path_and_a_mapping_have_the_score_of_their_labels(kind: str, name: str) -> None:
    plain = lattices()[kind]
    composed = plain @ MACHINES[name]
    assert plain.score(plain.best()) == pytest.approx(plain.best().score)
    best: dict[Any, float] = {}
    for path in composed.nbest(100):
        for key in ((path["x"], path["y"]), (path["x"], None), (None, path["y"])):
            best.setdefault(key, path.score)
    for (read, written), score in best.items():
        said = {"x": read, "y": written}
        given = {tape: labels for tape, labels in said.items() if labels is not None}
        assert composed.score(given) == pytest.approx(score)
        assert Lattices([composed]).score([given])[0] == pytest.approx(score)
    for path in composed.nbest(100):
        assert composed.score(path) >= path.score - 1e-9
    shares = {path["y"]: composed.probability({"y": path["y"]}) for path in composed.nbest(100)}
    assert math.fsum(shares.values()) == pytest.approx(1.0)
    with pytest.raises(OptionError, match="no tape 'z'"):
        composed.score({"z": ["a"]})


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("kind", lattices())
def test_labels_of_tokens_are_not_asked_of_a_written_tape(kind: str, name: str) -> None:
    composed = lattices()[kind] @ MACHINES[name]
    for ask in (composed.arc_marginals, composed.max_marginals):
        with pytest.raises(OptionError, match="writes tape 'y' between tokens"):
            ask()


def test_a_scorer_with_another_name_is_warned_about() -> None:
    composed = lattices()["chain"] @ MACHINES["chooses"]
    with pytest.warns(LabelWarning, match="lattice with tape='y'"):
        assert (composed @ Lattice.from_arrays(["B", "A"], np.zeros((3, 2)))).tapes[1:] == (
            "y",
            "label",
        )


def test_constructors_name_their_tape() -> None:
    made = [
        Lattice.from_spans(2, [(0, 1, "X", 0.0)], tape="t"),
        Lattice.from_segments(1, [0], [1], [0], [0.0], A, tape="t"),
        Lattice.from_ctc(np.zeros((2, 2)), tape="t"),
    ]
    assert [one.tapes for one in made] == [("t",)] * 3
