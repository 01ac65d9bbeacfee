"""Machines by forward and backward sums over (residual state, joint state), in logarithms.

For machines that have too many paths to enumerate. All axes move at once, by a table of all pairs
of joint states; the kernel advances one axis at a time.
"""

from __future__ import annotations

import numpy as np

from fstcrf.arrays import Floats, Longs
from tests.support.machines import Answers, Case, Reader, arc_scores, node_scores, reader, together


def swept(case: Case) -> Answers:
    """Answer every question about a batch by forward and backward sums and maxima."""
    return together([_swept(one) for one in case.each()])


def _fold(scores: Floats, axis: int, *, best: bool) -> Floats:
    """Maximum, or log of the sum of exponentials, along an axis."""
    top: Floats = scores.max(axis=axis)
    if best:
        return top
    shift = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        total = np.log(np.exp(scores - np.expand_dims(shift, axis)).sum(axis=axis))
    return np.asarray(total + shift)


def _read(own: Reader, ahead: Floats) -> Floats:
    """Prefix every continuation [Q, J] with the residual's reading of its first token."""
    gone = np.take_along_axis(ahead, np.maximum(own.following, 0), axis=0)
    return own.score + np.where(own.following < 0, 0.0, gone)


def _behind(case: Case, own: Reader, *, best: bool) -> Floats:
    """Scores of all that follows from reading a token on, [T, Q, J]; without its own arcs."""
    out = np.empty((case.tokens, *own.score.shape))
    ahead = own.final[:, None] + case.machine.final.reshape(-1)
    for t in reversed(range(case.tokens)):
        out[t] = _read(own, ahead) + node_scores(case, t)
        if t > 0:
            ahead = _fold(arc_scores(case, t) + out[t][:, None, :], 2, best=best)
    return out


def _before(case: Case, own: Reader, *, best: bool) -> Floats:
    """Scores of all that leads to reading a token in a joint state, [T, Q, J]."""
    out = np.full((case.tokens, *own.score.shape), -np.inf)
    out[0, own.start] = own.begin + case.machine.initial.reshape(-1)
    for t in range(1, case.tokens):
        read = out[t - 1] + own.score + node_scores(case, t - 1)
        moved = np.full_like(read, -np.inf)
        for q in range(len(read)):
            from_here = np.where(own.following == q, read, -np.inf)
            moved[q] = _fold(from_here, 0, best=best)
        out[t] = _fold(moved[:, :, None] + arc_scores(case, t), 1, best=best)
    return out


def _by_axis(case: Case, joint: Floats, *, best: bool) -> tuple[Floats, ...]:
    """[T, J] → [T, S_c] per axis."""
    tensor = joint.reshape(case.tokens, *case.sizes)
    fold = np.max if best else np.sum
    axes = range(1, tensor.ndim)
    return tuple(np.asarray(fold(tensor, axis=tuple(set(axes) - {c}))) for c in axes)


def _traced(case: Case, own: Reader, best_behind: Floats, score: float) -> Longs:
    """The best path: at each token the smallest joint state that still reaches the best score."""
    path, q = np.full(case.tokens, -1), own.start
    if score == -np.inf:
        return path
    lead = own.begin + case.machine.initial.reshape(-1)
    for t in range(case.tokens):
        if t > 0:
            lead = arc_scores(case, t)[path[t - 1]]
        path[t] = int((lead + best_behind[t, q]).argmax())
        q = int(own.following[q, path[t]])
    return path


def _swept(case: Case) -> Answers:
    own = reader(case)
    behind, top_behind = (_behind(case, own, best=best) for best in (False, True))
    joint = _before(case, own, best=False) + behind
    tops = (_before(case, own, best=True) + top_behind).max(axis=1)
    log_z = float(_fold(joint[0].reshape(-1), 0, best=False))
    share = np.exp(joint - log_z).sum(axis=1) if log_z > -np.inf else np.zeros_like(tops)
    score = float(tops[0].max())
    return Answers(
        np.asarray([log_z]),
        _traced(case, own, top_behind, score),
        np.asarray([score]),
        _by_axis(case, share, best=False),
        _by_axis(case, tops, best=True),
    )
