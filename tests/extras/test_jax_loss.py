"""The loss of JAX beside the layer of PyTorch, whose gradients are held by differences."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
import torch

from fstcrf import decode
from fstcrf.constraints import bioes
from fstcrf.errors import FstcrfError, ShapeError
from fstcrf.ext.jax import negative_log_likelihood
from fstcrf.ext.torch import CRFLayer
from tests.laws.test_illegal_gold import CASES, FREE
from tests.laws.test_label_arguments import FORMS, REFUSED

LABELS = ("O", "B-X", "I-X", "E-X", "S-X")
TAGS = np.array([[1, 2, 3, 0], [4, -1, 0, 0], [0, 0, 0, 0]])
LENGTHS = np.array([4, 2, 0])


def drawn(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("grammar", [None, bioes()])
@pytest.mark.parametrize("jitted", [False, True])
def test_value_and_gradients_are_those_of_the_layer(grammar: Any, jitted: bool) -> None:
    parts = drawn(3, 4, 5), drawn(5, 5, seed=1), drawn(5, seed=2), drawn(5, seed=3)

    def loss(emissions: Any, transitions: Any, initial: Any, final: Any) -> Any:
        ends = {"transitions": transitions, "initial": initial, "final": final}
        return 2 * negative_log_likelihood(
            emissions, TAGS, LENGTHS, labels=LABELS, grammar=grammar, **ends
        )

    asked = jax.value_and_grad(loss, argnums=(0, 1, 2, 3))
    value, gradients = (jax.jit(asked) if jitted else asked)(*parts)
    ends = dict(zip(("transitions", "initial", "final"), parts[1:], strict=True))
    layer = CRFLayer(LABELS, grammar, **ends)
    own = torch.from_numpy(parts[0]).requires_grad_()
    theirs = 2 * layer(own, TAGS, LENGTHS)
    theirs.backward()
    assert float(value) == pytest.approx(theirs.item(), rel=1e-6)
    wanted = [own.grad, layer.transitions.grad, layer.initial.grad, layer.final.grad]
    for found, want in zip(gradients, wanted, strict=True):
        np.testing.assert_allclose(np.asarray(found), want.numpy(), atol=1e-6)


def test_arrays_of_jax_are_scores() -> None:
    scores = drawn(3, 4, 5)
    want = decode(scores, LENGTHS, labels=LABELS).ids
    np.testing.assert_array_equal(
        decode(jax.numpy.asarray(scores), LENGTHS, labels=LABELS).ids, want
    )
    half = jax.numpy.asarray(scores, dtype=jax.numpy.bfloat16)
    exact = decode(np.asarray(half.astype(np.float32)), labels=LABELS).ids
    np.testing.assert_array_equal(decode(half, labels=LABELS).ids, exact)


def test_what_does_not_fit() -> None:
    with pytest.raises(ShapeError, match="5 labels"):
        negative_log_likelihood(drawn(2, 3, 4), TAGS[:2, :3], labels=LABELS)
    with pytest.raises(ShapeError, match="tags are"):
        negative_log_likelihood(drawn(2, 3, 5), TAGS, labels=LABELS)


@pytest.mark.parametrize("dtype", [jax.numpy.float16, jax.numpy.bfloat16])
@pytest.mark.parametrize("jitted", [False, True])
def test_losses_are_in_float32_at_least(dtype: Any, jitted: bool) -> None:
    """The loss of many tokens does not fit half precision; gradients are in the inputs' type."""
    scores = jax.numpy.asarray(5 * drawn(64, 300, 5), dtype=dtype)
    tags = np.zeros((64, 300), dtype=np.int64)

    def loss(emissions: Any, transitions: Any) -> Any:
        return 1024 * negative_log_likelihood(
            emissions, tags, labels=LABELS, transitions=transitions
        )

    asked = jax.value_and_grad(loss, argnums=(0, 1))
    asked = jax.jit(asked) if jitted else asked
    arcs = jax.numpy.asarray(drawn(5, 5, seed=1), dtype=dtype)
    value, gradients = asked(scores, arcs)
    exact, wanted = asked(scores.astype(np.float32), arcs.astype(np.float32))
    assert value.dtype == np.float32
    assert float(value) / 1024 > 65504  # the largest float16
    assert float(value) == pytest.approx(float(exact), rel=1e-6)
    assert all(found.dtype == dtype for found in gradients)
    np.testing.assert_allclose(
        np.asarray(gradients[0], dtype=np.float32), np.asarray(wanted[0]), rtol=0.01, atol=0.01
    )


@pytest.mark.parametrize("form", FORMS)
def test_labels_in_every_form(form: str) -> None:
    found = negative_log_likelihood(drawn(1, 1, 3), [[0]], labels=FORMS[form])
    assert float(found) == float(
        negative_log_likelihood(drawn(1, 1, 3), [[0]], labels=["a", "b", "c"])
    )


@pytest.mark.parametrize("form", REFUSED)
def test_labels_that_are_refused(form: str) -> None:
    given, says = REFUSED[form]
    with pytest.raises(FstcrfError, match=says):
        negative_log_likelihood(drawn(1, 1, 3), [[0]], labels=given)


@pytest.mark.parametrize("case", [name for name, case in CASES.items() if len(case[0]) == 1])
def test_illegal_gold_names_token_labels_and_rule(case: str) -> None:
    """See `tests/laws/test_illegal_gold.py`; JAX puts the error into one of its own."""
    heads, grammar, tags, says = CASES[case]
    (labels,), (row,), (legal,) = heads.values(), tags.values(), FREE[case].values()
    scores = drawn(2, len(row), len(labels))
    with pytest.raises(Exception, match=f"sentence 1, {says}"):
        negative_log_likelihood(scores, np.array([legal, row]), labels=labels, grammar=grammar)
