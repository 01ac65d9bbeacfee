"""What the file of a tagger with patterns holds.

============  ================================================================
Hole          one place of a pattern that a string of the sentence fills
Pattern       literal bytes around holes
PatternModel  patterns, the texts that they gave, and weights
============  ================================================================
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fstcrf.features.derive import Source
from fstcrf.features.reader import Boundary
from fstcrf.interop.patterns.weights import SparseWeights

__all__ = ["Hole", "Pattern", "PatternModel"]


@dataclass(frozen=True, slots=True)
class Hole:
    """One place of a pattern.

    Parameters
    ----------
    source : Plain or Derived
        What is read; columns by number.
    offset : int
        Relative to the token; or a place of the sentence, from 1 or from its end at −1.
    absolute : bool
        Which of the two.
    """

    source: Source
    offset: int
    absolute: bool = False


@dataclass(frozen=True, slots=True)
class Pattern:
    """A pattern, of attributes of labels or of label pairs.

    Parameters
    ----------
    kind : {"node", "arc"}
    text : str
        As the file has it, for messages.
    literals : tuple of bytes [m + 1]
        What stands around the holes.
    holes : tuple of Hole [m]
    """

    kind: Literal["node", "arc"]
    text: str
    literals: tuple[bytes, ...]
    holes: tuple[Hole, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class PatternModel:
    """What the file of a tagger holds.

    Parameters
    ----------
    labels : tuple of L str
        In the order of the file.
    patterns : tuple of Pattern
        Those on labels and those on label pairs.
    attributes : list of A bytes
        Texts, sorted, each once.
    node_first, arc_first : int64 [A]
        Number of each attribute's first weight on a label (L of them) and on a label pair (L²,
        the later label faster); −1 where it has none.
    weights : SparseWeights
        Natural-log scores.
    n_columns : int
        Columns that the patterns may read.
    boundary : {"pad", "wapiti"}
        What stands outside a sentence.
    encoding : str
        Of all texts.
    size : int
        Bytes of the file.
    where : str
        Name of the file, for messages.
    """

    labels: tuple[str, ...]
    patterns: tuple[Pattern, ...]
    attributes: list[bytes]
    node_first: NDArray[np.int64]
    arc_first: NDArray[np.int64]
    weights: SparseWeights
    n_columns: int
    boundary: Boundary
    encoding: str
    size: int
    where: str

    def first(self, kind: Literal["node", "arc"]) -> NDArray[np.int64]:
        """Return the number of each attribute's first weight of a kind, −1 for none."""
        return self.node_first if kind == "node" else self.arc_first

    def block(self, kind: Literal["node", "arc"]) -> int:
        """Return how many weights of a kind an attribute has."""
        return len(self.labels) if kind == "node" else len(self.labels) ** 2
