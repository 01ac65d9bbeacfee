"""Notes that readers need besides the labels and probabilities of an answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from fstcrf.arrays import Floats
from fstcrf.errors import OptionError
from fstcrf.ext.pipelines.trained import Decode
from fstcrf.taggers import JointCRF

_CASCADE = "a cascade decides without the weights"
_GIVEN = "probabilities of later tapes take the best labels of those that they read as given"
_UNPROVEN = "not proven: a labelling that was not looked at may score higher"
_CONNECTED = (
    "no probabilities: the grammar is over several tapes, and the chain rule has no sums over all "
    "labellings; product has them"
)


class Answered(Protocol):
    """The result of one way to decide, for one sentence."""

    @property
    def exact(self) -> bool: ...  # noqa: D102
    @property
    def dead(self) -> str: ...  # noqa: D102
    @property
    def marginals(self) -> dict[str, Floats]: ...  # noqa: D102
    @property
    def given(self) -> Mapping[str, list[str]]: ...  # noqa: D102


def note(way: Decode, composition: JointCRF, answer: Answered) -> str:
    """Return the notes of an answer, "" without any."""
    notes = []
    if way in ("cascade", "marginals") and set(composition.weights) != {1}:
        notes.append(_CASCADE)
    if way == "chain" and not answer.marginals and not answer.dead:
        notes.append(_CONNECTED)
    elif any(answer.given.values()):
        notes.append(_GIVEN)
    if not answer.exact:
        notes.append(_UNPROVEN)
    return "; ".join(notes)


def connected(composition: JointCRF) -> bool:
    """Return whether a part of the grammar is over several tapes."""
    try:
        _ = composition._cascade_taggers
    except OptionError:
        return True
    return False
