"""Law: gold labels that a grammar forbids are named, with their token and the rule.

Grammars beside doors where gold labels come in as arrays: the loss of layers, the temperature of
lattices, a decoder's held-out text. `tests/extras` asks the layer of PyTorch the same.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from fstcrf import Grammar, Lattice, TokenDecoder
from fstcrf.constraints import at_least, at_most, bio, end_with, never, pairs
from fstcrf.errors import DataError, LabelWarning, NoPathError
from fstcrf.ext.calibration import fit_temperature
from fstcrf.ext.gradients import Heads, likelihood
from fstcrf.ext.tokens import Pieces
from fstcrf.lattices import product
from fstcrf.lattices.emissions import read_scores
from fstcrf.lattices.emissions.structure import ChainParameters

Sets = dict[str, tuple[str, ...]]
ONE: Sets = {"label": ("O", "B-X", "I-X")}
TWO: Sets = {"pos": ("N", "V"), "chunk": ("O", "B-X", "I-X")}
BOTH = pairs({"V": ["O"]}, ("pos", "chunk")) & bio(tape="chunk")

CASES: dict[str, tuple[Sets, Grammar, dict[str, list[int]], str]] = {
    "begins": (
        *(ONE, bio(), {"label": [2, 2, 0]}),
        "token 0: the gold label 'I-X' at the start breaks bio()",
    ),
    "follows": (
        *(ONE, bio(), {"label": [0, 2, 0]}),
        "token 1: the gold label 'I-X' after 'O' breaks bio()",
    ),
    "too many": (
        *(ONE, bio() & at_most(1, "X"), {"label": [1, 0, 1, 0]}),
        "token 2: the gold label 'B-X' after 'O' breaks at_most(1, \"X\")",
    ),
    "too few": (
        *(ONE, at_least(1, "X"), {"label": [0, 0]}),
        "token 1: the gold label 'O' after 'O', the last one, breaks at_least(1, \"X\")",
    ),
    "ends": (
        *(ONE, bio() & end_with("O"), {"label": [0, 1]}),
        "token 1: the gold label 'B-X' after 'O', the last one, breaks end_with(\"O\")",
    ),
    "one token": (
        *(ONE, bio() & never("X"), {"label": [1]}),
        "token 0: the gold label 'B-X' at the start, the last one, breaks never(\"X\")",
    ),
    "partly known": (
        *(ONE, bio(), {"label": [-1, 0, 2, -1]}),
        "token 2: the gold label 'I-X' after 'O' breaks bio()",
    ),
    "a tape": (
        *(TWO, BOTH, {"pos": [0, 0, 0], "chunk": [0, 2, 0]}),
        "token 1: the gold label pos 'N', chunk 'I-X' after pos 'N', chunk 'O' breaks bio()",
    ),
    "two tapes": (
        *(TWO, BOTH, {"pos": [0, 1, 0], "chunk": [0, 1, 0]}),
        (
            "token 1: the gold label pos 'V', chunk 'B-X' after pos 'N', chunk 'O' breaks "
            "pairs(…, ('pos', 'chunk'))"
        ),
    ),
}
CASES = {name: (*rest, re.escape(says)) for name, (*rest, says) in CASES.items()}  # type: ignore[misc]
FREE: dict[str, dict[str, list[int]]] = {
    name: {tape: [0] * len(row) for tape, row in tags.items()}
    for name, (_, _, tags, _) in CASES.items()
}
FREE["too few"] = {"label": [1, 0]}
"""Labels of the same length that are legal."""


@pytest.mark.parametrize("case", CASES)
def test_the_loss_of_layers(case: str) -> None:
    heads, grammar, tags, says = CASES[case]
    made = Heads(tuple(heads.items()), (), grammar)
    gold = [np.array([FREE[case][tape], row], dtype=np.int32) for tape, row in tags.items()]
    scores = [
        read_scores(np.zeros((*ids.shape, len(labels))), n_labels=len(labels))
        for ids, labels in zip(gold, heads.values(), strict=True)
    ]
    chains = [
        ChainParameters(np.zeros((n, n)), np.zeros(n), np.zeros(n))
        for n in map(len, heads.values())
    ]
    with pytest.raises(NoPathError, match=f"^sentence 1, {says}$") as raised:
        likelihood(made, scores, chains, {}, gold)
    assert raised.value.position is not None
    assert raised.value.constraints
    assert likelihood(made, scores, chains, {}, gold, skip=True).skipped.tolist() == [False, True]


@pytest.mark.parametrize("case", [name for name in CASES if name != "partly known"])
def test_the_temperature_of_lattices(case: str) -> None:
    heads, grammar, tags, says = CASES[case]

    def lattice(rows: dict[str, list[int]]) -> tuple[Any, Any]:
        parts = [
            Lattice.from_arrays(labels, np.zeros((len(rows[tape]), len(labels))), tape=tape)
            for tape, labels in heads.items()
        ]
        gold = tuple([heads[tape][k] for k in row] for tape, row in rows.items())
        whole = parts[0] if len(parts) == 1 else product(parts)
        return whole & grammar, gold[0] if len(parts) == 1 else gold

    lattices, gold = zip(lattice(FREE[case]), lattice(tags), strict=True)
    with pytest.raises(DataError, match=f"^sentence 1, {says}; if they are") as raised:
        fit_temperature(lattices, gold)
    assert raised.value.token is not None


def test_scores_of_minus_infinity_break_no_rule() -> None:
    chain = ChainParameters(np.array([[0, -np.inf], [0, 0]]), np.zeros(2), np.zeros(2))
    for grammar, more in ((None, ""), (at_most(3, "B"), " or breaks the grammar")):
        made = Heads((("label", ("A", "B")),), (), grammar)
        says = "sentence 0, token 1: the gold label 'B' after 'A', the last one, has the score -inf"
        with pytest.raises(NoPathError, match=f"^{says}{more}$"):
            likelihood(
                *(made, [read_scores(np.zeros((1, 2, 2)), n_labels=2)], [chain], {}),
                [np.array([[0, 1]], dtype=np.int32)],
            )


@pytest.mark.parametrize("ask", ["events", "evaluate", "tune", "calibrated"])
def test_held_out_text_of_a_decoder(ask: str) -> None:
    """Spans that break a grammar together count as missed, so nothing else would tell."""
    decoder = TokenDecoder(ONE["label"], grammar=at_most(1, "X"))
    logits = np.array([[0.0, 3.0, 0.0], [3.0, 0.0, 0.0], [0.0, 2.0, 0.0]])
    documents = [Pieces(logits, [(0, 1), (2, 3), (4, 5)])] * 3
    gold = [[(0, 1, "X")], [(0, 1, "X"), (4, 5, "X")], []]
    says = (
        "gold spans of 1 of 3 documents break the grammar, so some count as missed; the first: "
        "document 1, word 2: the gold label 'B-X' after 'O', the last one, breaks at_most(1, \"X\")"
    )
    kind = ["log-odds"] * (ask == "calibrated")
    with pytest.warns(LabelWarning, match=re.escape(says)):
        getattr(decoder, ask)(documents, gold, *kind)
    getattr(decoder.replaced(grammar=None), ask)(documents, gold, *kind)
