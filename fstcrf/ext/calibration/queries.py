"""The choice of sentences to label next: a model's uncertainty, and batches of different sentences.

The scores are defined by Settles and Craven (2008). More is more worth asking about.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike

from fstcrf.arguments import real_array
from fstcrf.arrays import Floats, Longs
from fstcrf.errors import NumericError, OptionError, ShapeError
from fstcrf.lattices import Lattice, log_partition, marginals, nbest
from fstcrf.lattices.batching import entropy

By: TypeAlias = Literal["least-confidence", "margin", "entropy", "token-entropy"]


def uncertainty(
    lattices: Sequence[Lattice],
    by: By = "least-confidence",
    *,
    per_token: bool = False,
    threads: int = 1,
) -> Floats:
    """Return the uncertainty of each lattice.

    Parameters
    ----------
    lattices : sequence of B Lattice
        Lattices of a tagger from `lattices_of`; of a `TokenDecoder`, from its ``lattices``; any
        others.
    by : str
        ``"least-confidence"``: 1 − the probability of the best labels. ``"margin"``: 1 −
        (probability of the best labels − probability of the second best). ``"entropy"``: of the
        distribution over label sequences, in nats. ``"token-entropy"``: of the labels of each
        token, in nats, summed.
    per_token : bool
        Divide entropies by the number of tokens, and take the geometric mean of probabilities per
        token; otherwise long sentences rank first, with 1 − p near 1. A margin has no such form:
        the two best labellings mostly differ in one or two tokens, for any length of the sentence,
        so that a share for each token would rank sentences by their lengths.
    threads : int

    Returns
    -------
    float64 [B]
        0 of an empty sentence.

    Raises
    ------
    OptionError
        Another measure; ``"margin"`` for each token.
    NoPathError
        A lattice without a path.
    TooLargeError
        A grammar too large to multiply out.
    """
    if by not in get_args(By):
        raise OptionError(f"by is {by!r}, expected one of {', '.join(get_args(By))}")
    if per_token and by == "margin":
        raise OptionError(
            "by='margin' has no value per token: leave out per_token, or use "
            "'least-confidence' or 'token-entropy'"
        )
    size = np.maximum(1, [len(lattice) for lattice in lattices]) if per_token else np.float64(1.0)
    if by == "entropy":
        return entropy(lattices, threads=threads) / size
    if by == "token-entropy":
        return _token_entropies(lattices, threads) / size
    first, second = _two_best(lattices, threads)
    p = np.exp(first / size)
    out = 1.0 - p if by == "least-confidence" else 1.0 - (p - np.exp(second))
    return np.asarray(
        [x if len(lattice) else 0.0 for x, lattice in zip(out, lattices, strict=True)]
    )


def _two_best(lattices: Sequence[Lattice], threads: int) -> tuple[Floats, Floats]:
    """Return the log-probabilities of the best and second best labels; −inf without one."""
    log_z = log_partition(lattices, threads=threads)
    scores = np.full((len(lattices), 2), -np.inf)
    for k, found in enumerate(nbest(lattices, 2, threads=threads).scores):
        scores[k, : len(found)] = found
    dead = next(iter(np.flatnonzero(np.isneginf(scores[:, 0])).tolist()), None)
    if dead is not None:
        lattices[dead].best()  # raises, with the reason
    first, second = np.minimum(scores - log_z[:, None], 0.0).T
    return first, second


def _token_entropies(lattices: Sequence[Lattice], threads: int) -> Floats:
    out = np.zeros(len(lattices))
    for k, found in enumerate(marginals(lattices, threads=threads)):
        for rows in found if isinstance(found, tuple) else (found,):
            p = np.maximum(rows, np.finfo(np.float64).tiny)
            out[k] -= float((rows * np.log(p)).sum())
    return np.maximum(out, 0.0)


def select_batch(
    scores: ArrayLike,
    n: int,
    *,
    vectors: ArrayLike | None = None,
    costs: ArrayLike | None = None,
    budget: float | None = None,
) -> Longs:
    """Return the numbers of the sentences to label together, first the most worth asking about.

    Without vectors, the n largest scores. With vectors, sentences are chosen one by one, each time
    the sentence with the largest score × (1 − its largest cosine similarity to chosen ones): near
    copies of chosen sentences wait.

    Parameters
    ----------
    scores : [B]
        Of `uncertainty`, from 0.
    n : int
        How many at most.
    vectors : [B, D], optional
        Representations of sentences: embeddings, counts of words.
    costs : [B], optional
        The cost of each sentence, such as its tokens; by default 1.
    budget : float, optional
        Limit of the total cost; a sentence that no longer fits is skipped.

    Returns
    -------
    int64 [at most n]
        Ties go to the smaller number.

    Raises
    ------
    OptionError
        A negative n; costs that are not positive, or no budget for them.
    ShapeError
        Arrays that do not go together.
    NumericError
        NaN or infinity.
    """
    worth, price = real_array(scores, "scores"), None
    if worth.ndim != 1 or n < 0:
        raise OptionError(f"scores are {list(worth.shape)}, n={n}: expected [B], and n from 0")
    alike = _unit(vectors, len(worth))
    price = np.ones(len(worth)) if costs is None else real_array(costs, "costs")
    if price.shape != worth.shape:
        raise ShapeError(f"costs are {list(price.shape)}, expected {list(worth.shape)}")
    if not (np.isfinite(worth).all() and np.isfinite(price).all()):
        raise NumericError("scores or costs have NaN or infinity")
    if (price <= 0).any() or (costs is not None and budget is None):
        raise OptionError("costs must be above 0, and need a budget")
    left = float("inf") if budget is None else float(budget)
    near, free = np.zeros(len(worth)), np.ones(len(worth), dtype=bool)
    taken: list[int] = []
    while len(taken) < n:
        free &= price <= left
        if not free.any():
            break
        one = int(np.argmax(np.where(free, worth * (1.0 - near), -np.inf)))
        taken.append(one)
        free[one], left = False, left - price[one]
        if alike is not None:
            near = np.maximum(near, np.clip(alike @ alike[one], 0.0, 1.0))
    return np.asarray(taken, dtype=np.int64)


def _unit(vectors: ArrayLike | None, size: int) -> Floats | None:
    if vectors is None:
        return None
    rows = real_array(vectors, "vectors")
    if rows.ndim != 2 or len(rows) != size:
        raise ShapeError(f"vectors are {list(rows.shape)}, expected [{size}, D]")
    if not np.isfinite(rows).all():
        raise NumericError("vectors have NaN or infinity")
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(length > 0, length, 1.0)
