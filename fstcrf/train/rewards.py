"""Rewards from gold labels: what stands in for people where feedback is simulated.

===========  =============================================
gold_judge   the judge of a problem whose labels are known
span_steps   which label begins or goes on with a span
===========  =============================================

The reward of a labelling is the F of its spans in its sentence, 2 · correct / (found + wanted);
where neither side has a span nothing is wrong, and it is 1. Where labels are not spans, it is the
share of right labels.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fstcrf.corpus.schemes import OUTSIDE, named_scheme, split_label, tables
from fstcrf.errors import OptionError
from fstcrf.kernel import Judge
from fstcrf.train.problem import Problem

__all__ = ["gold_judge", "span_steps"]

NOTHING, BEGINS, GOES_ON = 0, 1, 2


def gold_judge(problem: Problem, *, graded: bool = False) -> Judge:
    """Return the judge that knows a problem's labels.

    Parameters
    ----------
    problem : Problem
    graded : bool
        Pairs: the reward is how far the first is ahead, not 1 where it is.

    Raises
    ------
    OptionError
        Labels that are not known.
    """
    if problem.partial.any():
        first = int(np.flatnonzero(problem.partial)[0])
        raise OptionError(f"sentence {first} has labels that are not known: nothing to judge by")
    labels = problem.topology.labels
    gold = problem.allowed.argmax(axis=1).astype(np.int32)
    if not any(label[:2] in {"B-", "I-"} for label in labels):
        return Judge(gold, len(labels), graded=graded)
    step, kind = span_steps(labels)
    return Judge(gold, len(labels), step, kind, graded)


def span_steps(labels: Sequence[str]) -> tuple[NDArray[np.uint8], NDArray[np.int32]]:
    """Return what each label does behind each other, as conlleval reads them.

    Parameters
    ----------
    labels : sequence of L str

    Returns
    -------
    step : uint8 [L + 1, L + 1]
        From row to column: 1 begins a span, 2 goes on with it, 0 neither; the last row and column
        are the ends of a sentence.
    kind : int32 [L + 1]
        Number of each label's type.

    Examples
    --------
    >>> span_steps(["O", "B-NP", "I-NP"])[0]
    array([[0, 1, 1, 0],
           [0, 1, 2, 0],
           [0, 1, 2, 0],
           [0, 1, 1, 0]], dtype=uint8)
    """
    scheme = named_scheme("conlleval")
    starts, inside, _ = tables(scheme)
    letters = scheme.letters + "?"
    parts = [*(split_label(label, scheme) for label in labels), (OUTSIDE, "")]
    numbers: dict[str, int] = {}
    kind = np.asarray([numbers.setdefault(k, len(numbers)) for _, k in parts], dtype=np.int32)
    letter = np.asarray([letters.index(x) for x, _ in parts])
    same = (kind[:, None] == kind).astype(np.int64)
    place = letter[:, None], letter[None, :], same
    step = np.where(starts[place], BEGINS, np.where(inside[place], GOES_ON, NOTHING))
    return step.astype(np.uint8), kind
