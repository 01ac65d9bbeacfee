"""The doors: a costly question over a cheap one.

The rows of a door have a limit. Their neighbours differ from them in one thing: labels, tokens,
tapes, scores, or how many are asked at once. Nothing large is imported here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

NEAR = "-near"
"""Ends the key of a line of neighbours."""


@dataclass(frozen=True, slots=True)
class Door:
    """What is asked, and beside what.

    Parameters
    ----------
    question, other : str
    limit : float, optional
        At most; of the rows.
    unit : {"×", "s"}
        Of the limit: seconds over those of the other question, or seconds alone.
    """

    question: str
    other: str
    limit: float | None = None
    unit: Literal["×", "s"] = "×"


BATCH, HAND = "a sentence of a batch", "its taggers called by hand"
BEFORE = "the same before lanes"
DOORS = {
    "chain-rule-all": Door("chain rule under a rule that all free answers obey", "no rule", 3),
    "chain-rule-90": Door("chain rule under a rule that 90 % obey", "no rule", 5),
    "chain-rule-50": Door("chain rule under a rule that 50 % obey", "no rule", 10),
    "chain-cascade": Door("chain rule under a rule over two tapes", "the cascade", 5),
    "ewt-chain": Door("chain rule under agreement, 100 sentences of EWT", "the cascade", 5),
    "ewt-product": Door("product under agreement, 100 sentences of EWT", "", 1.4, "s"),
    "tagger": Door("one sentence a call, tagger", BATCH, 8),
    "cascade": Door("one sentence a call, cascade", BATCH, 8),
    "chain": Door("one sentence a call, chain rule", BATCH, 8),
    "product": Door("one sentence a call, product", BATCH, 8),
    "by-hand": Door("one sentence a call, pipeline", HAND, 1.2),
    "functions": Door("cascade of two feature functions", HAND, 1.3),
    "dictionaries": Door("one sentence a call, dictionaries", "python-crfsuite", 1.5),
    "dictionary-marginals": Door("all marginals of one, dictionaries", "python-crfsuite", 1.5),
    "threads": Door("a batch on two threads, wall time", "one thread"),
    "marginals": Door("marginals of arrays", "decoding", 2),
    "contiguous": Door("`bioes() & contiguous(…)`, 12 types, 16 documents", "", 0.2, "s"),
    "contiguous-ratio": Door("`bioes() & contiguous(…)`", "`bioes()`"),
    "gradient": Door("gradient under a transducer", "log Z", 10),
    "no-transitions": Door("log Z under a transducer, no transitions", "`from_fst`", 1),
    "listed-best": Door("best under a transducer, 64 sentences", BEFORE, 1 / 8),
    "listed-log-z": Door("log Z under a transducer, 64 sentences", BEFORE, 1 / 3),
    "composed": Door("`Lattices @ T` and log Z, 64 sentences", BEFORE, 1 / 5),
    "edit-lexicon": Door("`edit @ lexicon`", "OpenFst", 2),
    "ten-best": Door("10 best under a transducer", "best", 10),
    "ten-edits": Door("10 best edits", "OpenFst", 3),
    "tapes": Door("5 best labellings of a tape, product", "5 best paths", 4),
    "strings": Door("`strings(n=1)`, flat scores, 40 tokens", "", 1, "s"),
    "labels-257": Door("`bio()` of 257 labels", "`bio()` of 255", 1.2),
    "first-bio": Door("first `bio()` of a process, 1,001 labels", "", 0.12, "s"),
    "at-most": Door("`bio() & at_most(2, label)`", "`bio()`", 4),
    "low-score": Door("log Z with one score 760 below", "log Z", 3),
    "joint-arcs": Door("marginals of two tapes' arcs", "log Z", 4),
    "objective-9": Door("objective and gradient, 9 labels", BEFORE, 1 / 1.5),
    "objective-22": Door("objective and gradient, 22 labels", BEFORE, 1 / 1.2),
    "objective-45": Door("objective and gradient, 45 labels", BEFORE, 1),
    "float64": Door("float64 log Z and marginals in batches", BEFORE, 1 / 1.6),
    "unknown-label": Door("training with one unknown label", "with none", 1.2),
    "start": Door("`fstcrf tag`, from its start to the first label", "", 0.25, "s"),
}


def case(
    door: str,
    text: str,
    first: float,
    seconds: float,
    other: float | None = None,
    *,
    near: bool = False,
    before: float = 1.0,
) -> dict[str, Any]:
    """Return what was measured of one input."""
    value = seconds if other is None else seconds / other / before
    both = {"first_s": first, "s": seconds, "other_s": other, "value": value}
    return {"door": door, "text": text, "near": near, **both}
