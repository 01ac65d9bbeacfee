"""What can be composed: whether taggers, maps, grammars and options go together.

=====  =================
check  a new composition
=====  =================
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fstcrf.errors import LabelError, OptionError
from fstcrf.features import LiteralIndex

if TYPE_CHECKING:
    from fstcrf.joint.composition import Composition

__all__ = ["check"]


def check(composition: Composition) -> None:
    """Check that the parts of a composition go together.

    Raises
    ------
    OptionError, LabelError
        As `Composition` says.
    """
    _check_tapes(composition)
    _check_options(composition)
    _check_sentences(composition)
    _check_grammar(composition)
    _check_relabellings(composition)
    # Sorting them raises where they read each other.
    assert len(composition.order) == len(composition.label_sets)  # noqa: S101


def _check_tapes(composition: Composition) -> None:
    if not composition.taggers:
        raise OptionError("nothing to compose: give at least one tagger")
    names = [*(t.tape for t in composition.taggers), *(m.tape for m in composition.maps)]
    twice = next((name for k, name in enumerate(names) if name in names[:k]), None)
    if twice is not None:
        raise OptionError(
            f"two taggers write one tape: {', '.join(names)}; {twice!r} is there twice, train "
            "or load one of its taggers with another tape="
        )


def _check_options(composition: Composition) -> None:
    weights, taggers = composition.weights, composition.taggers
    if len(weights) != len(taggers):
        raise OptionError(f"{len(weights)} weights for {len(taggers)} taggers")
    if any(not 0 <= weight < np.inf for weight in weights):
        raise OptionError(f"weights are {list(weights)}, expected numbers from 0")
    if composition.normalize not in ("product", "chain"):
        raise OptionError(f"normalize is {composition.normalize!r}, expected 'product' or 'chain'")


def _check_sentences(composition: Composition) -> None:
    """Check that the taggers read one kind of sentences, and that it can be decoded."""
    if len({isinstance(tagger.index, LiteralIndex) for tagger in composition.taggers}) > 1:
        raise OptionError(
            "some of the taggers read columns, others attribute lists: they cannot read one "
            "sentence"
        )
    if composition.conditional and (composition.maps or composition.literal):
        what = (
            "taggers that read attribute lists"
            if composition.literal
            else "maps that leave a choice, where a label may become several"
        )
        raise OptionError(f"normalize='chain' has no {what}; use 'product'")


def _check_grammar(composition: Composition) -> None:
    sets = composition.label_sets
    for acceptor in (*composition.conjuncts, *(m.acceptor for m in composition.maps)):
        for tape, labels in zip(acceptor.tapes, acceptor.labels, strict=True):
            if tape not in sets:
                there = ", ".join(map(repr, sets))
                raise LabelError(f"{acceptor.name} reads the tape {tape!r}; there is {there}")
            if sets[tape] != labels:
                other = ", ".join(sorted(set(labels) ^ set(sets[tape]))[:5])
                raise LabelError(
                    f"{acceptor.name} was bound to other labels than the tape {tape!r} has: "
                    f"{other or 'in another order'}"
                )


def _check_relabellings(composition: Composition) -> None:
    sets = composition.label_sets
    reads = {(tagger.tape, t.name) for tagger in composition.taggers for t in tagger.reads}
    for r in composition.relabellings:
        if (r.reader, r.read) not in reads or len(r.place) != len(sets.get(r.tape, ())):
            raise OptionError(
                f"a relabelling of {r.tape!r} for {r.reader!r}, read as {r.read!r}, does not go "
                "with the taggers"
            )
