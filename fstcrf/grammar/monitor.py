"""Acceptors from rules about events: what a constraint looks at, apart from what it says of it.

An *event* is something that is seen at a label and the label before it: a span begins, two labels
touch that may not. A *rule* is a machine of a few states that reads events and says when it is
broken. Multiplied by what must be remembered of the label before, it is an acceptor over labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fstcrf.grammar.acceptor import Acceptor
from fstcrf.grammar.algebra import trim
from fstcrf.grammar.minimise import minimise
from fstcrf.grammar.reading import Flags

__all__ = ["Rule", "monitor"]

Counts = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Rule:
    """A machine over n events; event i adds 2 ** i to the code of what is seen together.

    Parameters
    ----------
    target : int64 [M, 2 ** n]
        Next state after (state, code). State 0 starts.
    broken : int64 [M, 2 ** n]
        How often that step breaks the rule.
    broken_at_end : int64 [M] or [M, 2 ** n]
        How often ending in a state, with what is seen at the end, does.
    """

    target: Counts
    broken: Counts
    broken_at_end: Counts


def monitor(
    rule: Rule,
    events: Sequence[Flags],
    tape: str,
    labels: tuple[str, ...],
    weight: float | None = None,
    name: str = "",
) -> Acceptor:
    """Return the smallest acceptor of what does not break a rule, or that counts how often.

    Parameters
    ----------
    rule : Rule
    events : sequence of n bool [L + 1, L] or [L + 1, L + 1]
        Event i is seen at the second label behind the first. Row L is the start of the sentence,
        column L its end; without that column, the event is not seen there.
    tape, labels
        The tape and its L labels.
    weight : float, optional
        Natural-log score of breaking the rule once; what breaks it is rejected when absent.
    name : str
        What it stands for.
    """
    size = len(labels)
    codes = np.zeros((size + 1, size + 1), dtype=np.int64)
    for i, event in enumerate(events):
        codes[:, : event.shape[1]] += event.astype(np.int64) << i
    # Labels behind which the same is seen need not be told apart. The start comes first.
    contexts, context = np.unique(codes, axis=0, return_inverse=True)
    context = context.reshape(-1)
    order = np.argsort(np.arange(len(contexts)) != context[size], kind="stable")
    contexts, context = contexts[order], np.argsort(order)[context]

    step, end = contexts[:, :size], contexts[:, size]
    state = rule.target[:, step] * len(contexts) + context[:size]  # [M, C, L]
    broken = rule.broken[:, step]
    at_end = rule.broken_at_end
    at_end = at_end[:, end] if at_end.ndim == 2 else np.repeat(at_end[:, None], len(end), axis=1)
    if weight is None:
        state = np.where(broken > 0, -1, state)
        final = np.where(at_end > 0, -np.inf, 0.0)
    else:
        final = weight * at_end
    return minimise(
        trim(
            Acceptor(
                tapes=(tape,),
                labels=(labels,),
                target=state.reshape(-1, size).astype(np.int32),
                score=None if weight is None else np.float64(weight) * broken.reshape(-1, size),
                final=final.reshape(-1).astype(np.float64),
                name=name,
            )
        )
    )
