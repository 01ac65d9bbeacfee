"""Batches of arrays, in one process: ours, pytorch-crf, NumPy and a loop in Python.

``python -m tests.benchmarks.arrays [--quick]`` prints a JSON object: seconds of a processor by name
of work and side. All sides are timed in turns, on one thread; results are compared before.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from fstcrf import decode
from fstcrf.constraints import bioes

Work = Callable[[], Any]

SHAPES = {"22": (64, 128, 22), "9": (1024, 20, 9)}
LONG, SPANS = (1, 128_000, 33), (16, 128, 33)


def numpy_best(scores: Any, moves: Any, first: Any, last: Any) -> Any:
    """Best labels of a batch, a NumPy operation for each token: what is commonly written."""
    batch, tokens, size = scores.shape
    alpha, rows = first + scores[:, 0], np.arange(batch)
    back = np.empty((tokens, batch, size), dtype=np.int64)
    for t in range(1, tokens):
        ways = alpha[:, :, None] + moves
        back[t] = ways.argmax(1)
        alpha = np.take_along_axis(ways, back[t][:, None], 1)[:, 0] + scores[:, t]
    best = (alpha + last).argmax(1)
    out = np.empty((batch, tokens), dtype=np.int32)
    for t in range(tokens - 1, -1, -1):
        out[:, t] = best
        if t:
            best = back[t][rows, best]
    return out


def rows_best(scores: Any, moves: Any, first: Any, last: Any) -> Any:
    """Best labels of one sentence by a loop over tokens, rows in NumPy."""
    (rows,) = scores
    alpha, back = first + rows[0], []
    for row in rows[1:]:
        ways = alpha[:, None] + moves
        back.append(ways.argmax(0))
        alpha = ways.max(0) + row
    return _traced(int((alpha + last).argmax()), back)


def python_best(scores: Any, moves: Any, first: Any, last: Any) -> Any:
    """Best labels of one sentence in Python alone, as decoders without packages have it."""
    rows, into = scores[0].tolist(), moves.T.tolist()
    alpha = [a + b for a, b in zip(first.tolist(), rows[0], strict=True)]
    back = []
    for row in rows[1:]:
        ways = [[a + m for a, m in zip(alpha, column, strict=True)] for column in into]
        best = [max(way) for way in ways]
        back.append([way.index(b) for way, b in zip(ways, best, strict=True)])
        alpha = [b + e for b, e in zip(best, row, strict=True)]
    end = [a + b for a, b in zip(alpha, last.tolist(), strict=True)]
    return _traced(end.index(max(end)), back)


def _traced(label: int, back: list[Any]) -> Any:
    path = [label]
    for pointers in reversed(back):
        path.append(int(pointers[path[-1]]))
    return np.asarray([path[::-1]])


def drawn(shape: tuple[int, ...]) -> Any:
    """Scores, transitions and ends, float32."""
    rng = np.random.default_rng(0)
    size = shape[-1]
    parts = (shape, (size, size), (size,), (size,))
    scores, *chain = (rng.normal(size=part).astype(np.float32) for part in parts)
    return scores, *chain


def labels_of(size: int) -> list[str]:
    """BIOES labels, as many as fit, and others."""
    own = ["O", *(f"{a}-T{k}" for k in range((size - 1) // 4) for a in "BIES")]
    return own + [f"L{k}" for k in range(size - len(own))]


def timed(sides: dict[str, Work], rounds: int) -> dict[str, float]:
    """Seconds of a processor, the least of some rounds in turns."""
    found = dict.fromkeys(sides, float("inf"))
    for work in sides.values():
        work()
    for _ in range(rounds):
        for name, work in sides.items():
            start = time.process_time()
            work()
            found[name] = min(found[name], time.process_time() - start)
    return found


def best_labels(shape: tuple[int, int, int], *, torch: bool, loop: bool) -> dict[str, Work]:
    """Arrays to int32, of every side; they agree."""
    scores, moves, first, last = drawn(shape)
    own = {"labels": labels_of(shape[2]), "transitions": moves, "initial": first, "final": last}
    sides: dict[str, Work] = {"ours": lambda: decode(scores, **own).ids}
    if loop:
        sides["python"] = lambda: python_best(scores, moves, first, last)
        sides["numpy rows"] = lambda: rows_best(scores, moves, first, last)
    else:
        sides["numpy"] = lambda: numpy_best(scores, moves, first, last)
    if torch:
        sides["pytorch-crf"] = _peer(scores, moves, first, last)
    results = [np.asarray(work()) for work in sides.values()]
    for name, other in zip(sides, results, strict=True):
        differ = float((other != results[0]).mean())
        if differ > 0.1:  # float32 sums that are not renormalised are rounded in long documents
            raise SystemExit(f"{name} disagrees in {differ:.1%} of the labels")
    return sides


def _peer(scores: Any, *chain: Any) -> Work:
    import torch

    crf, tensor = _torchcrf(*chain), torch.from_numpy(scores)

    def best() -> Any:
        with torch.no_grad():
            return crf.decode(tensor)

    return best


def _torchcrf(*chain: Any) -> Any:
    import torch
    from torchcrf import CRF

    crf = CRF(len(chain[1]), batch_first=True)
    own = (crf.transitions, crf.start_transitions, crf.end_transitions)
    with torch.no_grad():
        for parameter, values in zip(own, chain, strict=True):
            parameter.copy_(torch.from_numpy(values))
    return crf


def losses(shape: tuple[int, int, int]) -> dict[str, Work]:
    """Loss and all gradients, of both layers; they agree."""
    import torch

    from fstcrf.ext.torch import CRFLayer

    scores, *chain = drawn(shape)
    names = ("transitions", "initial", "final")
    layer = CRFLayer(labels_of(shape[2]), **dict(zip(names, chain, strict=True)))
    crf = _torchcrf(*chain)
    tags = torch.from_numpy(np.random.default_rng(1).integers(0, shape[2], shape[:2]))
    tensor = torch.from_numpy(scores)

    def one(module: Any, loss: Callable[[Any], Any]) -> Any:
        module.zero_grad()
        own = tensor.clone().requires_grad_()
        loss(own).backward()
        return own.grad

    sides: dict[str, Work] = {
        "ours": lambda: one(layer, lambda x: layer(x, tags)),
        "pytorch-crf": lambda: one(crf, lambda x: -crf(x, tags, reduction="sum")),
    }
    mine, other = (work().numpy() for work in sides.values())
    if np.abs(mine - other).max() > 1e-3:
        raise SystemExit("the layers disagree")
    return sides


def spans() -> dict[str, Work]:
    """The probabilities of the spans of the best labels, beside finding these."""
    scores, moves, *_ = drawn(SPANS)
    own: dict[str, Any] = {"labels": labels_of(SPANS[2]), "transitions": moves, "grammar": bioes()}
    answer = decode(scores, **own)
    return {
        "ours": answer.span_probabilities,
        "decode": lambda: decode(scores, **own).ids,
    }


def main() -> None:
    """Measure what can be measured here."""
    rounds = 3 if "--quick" in sys.argv else 15
    try:
        import torch
        import torchcrf
    except ModuleNotFoundError:
        there = False
    else:
        there = torchcrf is not None
        torch.set_num_threads(1)
    found = {
        f"decode-{name}": timed(best_labels(shape, torch=there, loop=False), rounds)
        for name, shape in SHAPES.items()
    }
    found["long"] = timed(best_labels(LONG, torch=there, loop=True), min(rounds, 3))
    found["spans"] = timed(spans(), 2 * rounds)
    if there:
        for name, shape in SHAPES.items():
            found[f"loss-{name}"] = timed(losses(shape), rounds)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
