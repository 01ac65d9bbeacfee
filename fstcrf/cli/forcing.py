"""Labels known beforehand: what a column allows for each token.

============  ==========================================================
NOTHING       in a column: no label
Masks         labels that each token of a sentence may have
known_labels  the masks of the sentences of a batch
forced        lattices of the paths that they allow
============  ==========================================================
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from fstcrf.errors import DataError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from fstcrf.corpus import Corpus
    from fstcrf.joint import Composition
    from fstcrf.lattice import Lattice

__all__ = ["NOTHING", "Masks", "forced", "known_labels"]

Masks: TypeAlias = "tuple[NDArray[np.bool_], ...]"
"""Labels that each token of a sentence may have, bool [T, L] for each tape."""

NOTHING = "_"
"""In a column: no label, no span that starts here."""


def known_labels(model: Composition, batch: Corpus, force: Mapping[str, str]) -> list[Masks]:
    """Return the labels that the columns allow for each token of each sentence."""
    import numpy as np

    parts = [
        _allowed(batch, force[tape], model.label_sets[tape])
        if tape in force
        else np.ones((batch.n_tokens, len(model.label_sets[tape])), dtype=np.bool_)
        for tape in model.tapes
    ]
    bounds = itertools.pairwise(batch.offsets.tolist())
    return [tuple(part[a:b] for part in parts) for a, b in bounds]


def forced(lattices: list[Lattice], known: Sequence[Masks] | None) -> list[Lattice]:
    """Return the lattices of the paths that masks allow; all paths without masks."""
    if known is None:
        return lattices
    return [
        lattice.restrict(masks if len(masks) > 1 else masks[0])
        for lattice, masks in zip(lattices, known, strict=True)
    ]


def _allowed(batch: Corpus, name: str, labels: Sequence[str]) -> NDArray[np.bool_]:
    """Return the labels that a column allows, bool [N, L].

    Raises
    ------
    DataError
        A string that is neither label, nor ``a|b``, nor ``_``.
    """
    import numpy as np

    column = batch.column(name)
    allowed = np.zeros((len(column.values), len(labels)), dtype=np.bool_)
    index = {label: k for k, label in enumerate(labels)}
    for number, value in enumerate(column.values):
        parts = [value] if value in index else value.split("|")
        if value == NOTHING:
            allowed[number] = True
        elif all(part in index for part in parts):
            allowed[number, [index[part] for part in parts]] = True
        elif len(tokens := np.flatnonzero(column.ids == number)):
            raise DataError(
                f"{value!r} in column {name!r} is no label of the model; the labels are "
                f"{' '.join(labels)}, and _ where none is known",
                **batch.where(int(tokens[0])),
            )
    return allowed[column.ids]
