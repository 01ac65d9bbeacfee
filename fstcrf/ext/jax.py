"""The loss of a conditional random field as a function of JAX: extra ``fstcrf[jax]``.

The kernel computes losses and gradients on the CPU, in a callback, which ``jax.jit`` supports.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from fstcrf.arguments import LabelSet
from fstcrf.errors import LabelError, ShapeError
from fstcrf.ext.gradients import Heads, likelihood
from fstcrf.lattices.emissions.reading import LabelNames, read_scores, usual_names
from fstcrf.lattices.emissions.structure import ChainParameters
from fstcrf.lazy import optional
from fstcrf.machines.grammar import Grammar

if TYPE_CHECKING:
    import jax
else:
    jax = optional("jax", "fstcrf.ext.jax needs JAX; pip install 'fstcrf[jax]'")

__all__ = ["negative_log_likelihood"]


def negative_log_likelihood(
    emissions: Any,
    tags: Any,
    lengths: Any = None,
    *,
    labels: LabelSet,
    transitions: Any = None,
    initial: Any = None,
    final: Any = None,
    grammar: Grammar | None = None,
    names: LabelNames | None = None,
) -> Any:
    """Return the negative log-likelihood of labels, summed over the sentences.

    It has gradients (reverse mode, once) for the emissions, transitions and ends.

    Parameters
    ----------
    emissions : array [B, T, L]
    tags : int array [B, T]
        Label ids, −1 for unknown labels, which are summed over.
    lengths : int array [B], optional
        Tokens of each sentence; all T when absent.
    labels, grammar, names
        As for `fstcrf.Lattices.from_arrays`.
    transitions : array [L, L], optional
    initial, final : array [L], optional
        Zeros when absent.

    Returns
    -------
    array
        A number: float64 for emissions in float64, else float32, also of emissions in half
        precision, whose gradients have their type.

    Raises
    ------
    ShapeError
        Shapes that disagree.
    NoPathError, NumericError, LabelError
        When it is computed, inside JAX's own error: a sentence without a path, or with illegal
        labels; NaN or +inf; no such label.
    """
    usual = usual_names(labels, names)
    size, given, gold = len(usual), jax.numpy.asarray(emissions), jax.numpy.asarray(tags)
    if given.ndim != 3 or given.shape[2] != size:
        raise ShapeError(f"emissions are {list(given.shape)}, expected [B, T, {size} labels]")
    if gold.shape != given.shape[:2]:
        shapes = list(gold.shape), list(given.shape[:2])
        raise ShapeError(f"tags are {shapes[0]}, expected {shapes[1]}")
    own = jax.numpy.full(given.shape[0], given.shape[1]) if lengths is None else lengths
    chain = []
    shapes_of = (("transitions", (size, size)), ("initial", (size,)), ("final", (size,)))
    for (name, shape), values in zip(shapes_of, (transitions, initial, final), strict=True):
        array = jax.numpy.zeros(shape) if values is None else jax.numpy.asarray(values)
        if array.shape != shape:
            raise ShapeError(f"{name} are {list(array.shape)}, expected {list(shape)}")
        chain.append(array)
    loss = _loss(Heads((("label", usual),), (), grammar))
    return loss(given, *chain, gold, jax.numpy.asarray(own))


@lru_cache(maxsize=64)
def _loss(heads: Heads) -> Callable[..., Any]:
    """Return the function of emissions, transitions, initial, final, tags and lengths."""

    @jax.custom_vjp
    def loss(*given: Any) -> Any:
        return forward(*given)[0]

    def forward(*given: Any) -> tuple[Any, Any]:
        made = [jax.ShapeDtypeStruct((), _wide(given[0].dtype))]
        made += [jax.ShapeDtypeStruct(one.shape, _wide(one.dtype)) for one in given[:4]]
        value, *gradients = jax.pure_callback(lambda *x: _asked(heads, *x), made, *given)
        types = [jax.numpy.empty(0, one.dtype) for one in given[:4]]  # residuals must be arrays
        return value, (gradients, types, given[4:])

    def backward(kept: Any, upstream: Any) -> tuple[Any, ...]:
        gradients, types, whole = kept
        none = [np.zeros(one.shape, dtype=jax.dtypes.float0) for one in whole]
        pairs = zip(gradients, types, strict=True)
        parts = [(one * upstream.astype(one.dtype)).astype(own.dtype) for one, own in pairs]
        return (*parts, *none)

    loss.defvjp(forward, backward)
    return loss


def _asked(heads: Heads, *given: Any) -> tuple[Any, ...]:
    """Return loss and gradients as arrays of NumPy."""
    emissions, transitions, initial, final, tags, lengths = (np.asarray(one) for one in given)
    size = heads.sizes[0]
    scores = read_scores(emissions, lengths, n_labels=size)
    wrong = ((tags < -1) | (tags >= size)) & scores.inside
    if wrong.any():
        b, t = (int(i[0]) for i in np.nonzero(wrong))
        raise LabelError(
            f"sentence {b}, token {t}: label id {tags[b, t]}, expected -1 to {size - 1}"
        )
    chain = ChainParameters(*(x.astype(np.float64) for x in (transitions, initial, final)))
    found = likelihood(heads, [scores], [chain], {}, [tags.astype(np.int32)])
    flat = (found.emissions[0], *found.chains[0])
    parts = zip(flat, (emissions, transitions, initial, final), strict=True)
    loss = _wide(emissions.dtype).type(found.loss.sum())
    return loss, *(a.astype(_wide(b.dtype)) for a, b in parts)


def _wide(dtype: Any) -> np.dtype[Any]:
    """Return the type of sums: float64 of float64, else float32."""
    return np.dtype(np.float64 if dtype == np.float64 else np.float32)
