"""What all taggers have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Generic

if TYPE_CHECKING:  # with defaults, so that the parameters may be left out
    from typing_extensions import TypeVar

    LabelsT = TypeVar("LabelsT", default=Any)
    ArrayT = TypeVar("ArrayT", default=Any)
else:
    from typing import TypeVar

    LabelsT, ArrayT = TypeVar("LabelsT"), TypeVar("ArrayT")

__all__ = ["ArrayT", "LabelsT", "Tagger"]


class Tagger(ABC, Generic[LabelsT, ArrayT]):
    """What tags sentences.

    The labels of a sentence are a list of str, its marginals an array; of several tapes, a tuple
    of one for each.
    """

    @property
    @abstractmethod
    def tapes(self) -> tuple[str, ...]:
        """Names of the tapes that it writes."""
