"""Labels that a chain can start from, the wanted ones first.

======  ===============================================
starts  paths of joint states that the tagger allows
======  ===============================================
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fstcrf import kernel
from fstcrf.documents.document import Document
from fstcrf.documents.local import LocalScores

__all__ = ["Start", "starts"]

Ints = NDArray[np.int32]
Start: TypeAlias = Literal["viterbi", "random"]

_TRIES = 20  # random paths, where models of violations forbid the first
_PREFERRED = 1e6  # natural log, beyond what a tagger says of a whole sentence


def starts(
    local: LocalScores, document: Document, best: Ints, wanted: Start, random: np.random.Generator
) -> Iterator[Ints]:
    """Yield paths to start from: the wanted one, then others in case models forbid it.

    The others are, for each label, the tagger's best path among those that have the label as often
    as they can, and random paths.

    Parameters
    ----------
    local : LocalScores
    document : Document
    best : int32 [N]
        The tagger's best path.
    wanted : {"viterbi", "random"}
    random : numpy.random.Generator

    Yields
    ------
    int32 [N]
        Joint states.
    """
    if wanted == "viterbi":
        yield best.copy()
    else:
        for _ in range(_TRIES):
            yield _random_path(local, document, random)
        yield best.copy()
    for label in range(local.labelling.n_labels):
        preferred = np.where(local.labelling.label == label, _PREFERRED, 0.0)
        yield kernel.viterbi(local.graph, document.offsets, local.node + preferred)[0]
    if wanted == "viterbi":
        for _ in range(_TRIES):
            yield _random_path(local, document, random)


def _random_path(local: LocalScores, document: Document, random: np.random.Generator) -> Ints:
    """Draw states so that each label has an equal chance among those with which one can go on."""
    following, size = local.labelling.following, local.graph.n_states
    final = local.graph.final > -np.inf
    path = np.zeros(len(document), dtype=np.int32)
    bounds = document.offsets.tolist()
    allowed = local.node > -np.inf
    for first, end in itertools.pairwise(bounds):
        able = [final & allowed[end - 1]]  # states from which the sentence can be ended
        for t in range(end - 2, first - 1, -1):
            after = following[:size]
            on = ((after >= 0) & able[-1][np.maximum(after, 0)]).any(axis=1)
            able.append(on & allowed[t])
        able.reverse()
        now = size
        for t in range(first, end):
            after = following[now]
            after = after[(after >= 0) & able[t - first][np.maximum(after, 0)]]
            now = int(random.choice(after))
            path[t] = now
    return path
