"""What a CRFsuite model holds, as plain arrays.

=============  ============================================
CRFsuiteModel  labels, attributes, features
FEATURE        a feature, as the file has it
=============  ============================================
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from fstcrf.errors import ShapeError
from fstcrf.kernel.strings import pack_strings

__all__ = ["FEATURE", "STATE", "TRANSITION", "CRFsuiteModel"]

STATE, TRANSITION = 0, 1

FEATURE = np.dtype([("type", "<u4"), ("src", "<u4"), ("dst", "<u4"), ("weight", "<f8")])
"""20 bytes, packed: `STATE` is (attribute, label), `TRANSITION` is (label, next label)."""


@dataclass(frozen=True, eq=False)
class CRFsuiteModel:
    """What a CRFsuite model holds.

    Parameters
    ----------
    labels : tuple of str [L]
    attribute_text : uint8 [B]
        The attributes one after the other, as UTF-8.
    attribute_offsets : int64 [A + 1]
        Attribute a is ``attribute_text[attribute_offsets[a] : attribute_offsets[a + 1]]``.
    features : FEATURE [K]
        Type (0 state, 1 transition), src (attribute or label), dst (label), weight (natural-log
        score). Of several state features of one pair the weights add up, of several transition
        features the last one counts, as CRFsuite has it.

    Raises
    ------
    ShapeError
        A feature of another type, or of a label or an attribute that is not there; a weight that
        is not finite; no or repeated labels.
    """

    labels: tuple[str, ...]
    attribute_text: NDArray[np.uint8]
    attribute_offsets: NDArray[np.int64]
    features: NDArray[Any]

    @classmethod
    def of(cls, labels: Sequence[str], attributes: Sequence[str], features: NDArray[Any]) -> Self:
        """Return the model of strings and features.

        Raises
        ------
        DataError
            An attribute that is not Unicode.
        ShapeError
            As for the class.
        """
        return cls(tuple(labels), *pack_strings(attributes), features)

    def __post_init__(self) -> None:
        labels, attributes = len(self.labels), self.n_attributes
        if len(set(self.labels)) < labels:
            raise ShapeError("labels must be distinct")
        if self.features.dtype != FEATURE or self.features.ndim != 1:
            raise ShapeError(f"features are {self.features.dtype}, expected {FEATURE}")
        kind, src = self.features["type"], self.features["src"]
        limit = np.where(kind == STATE, attributes, labels)
        for wrong, what in (
            (kind > TRANSITION, f"is of type {{type}}, expected {STATE} or {TRANSITION}"),
            (src >= limit, "is of the attribute or label {src}, which is not there"),
            (self.features["dst"] >= labels, f"is of label {{dst}} of {labels}"),
            (~np.isfinite(self.features["weight"]), "has the weight {weight}"),
        ):
            if wrong.any():
                k = int(wrong.argmax())
                values = dict(zip(FEATURE.names or (), self.features[k].tolist(), strict=True))
                raise ShapeError(f"feature {k} {what.format(**values)}")

    @property
    def n_attributes(self) -> int:
        """Number of attributes, A."""
        return len(self.attribute_offsets) - 1

    @cached_property
    def attributes(self) -> tuple[str, ...]:
        """The attributes by their numbers, tuple of str [A]."""
        text, bounds = self.attribute_text.tobytes(), self.attribute_offsets.tolist()
        return tuple([text[a:b].decode() for a, b in pairwise(bounds)])

    def of_type(self, kind: int) -> NDArray[Any]:
        """Return the features of a type by src, those of one src as they stand, FEATURE [n]."""
        found: NDArray[Any] = self.features[self.features["type"] == kind]
        if not (found["src"][1:] >= found["src"][:-1]).all():  # files have them in this order
            found = found[np.argsort(found["src"], kind="stable")]
        return found
