"""What a model of violations reads of a tagger: one of its tapes, and types that are there.

===========  =====================================
tape_of      the tape that a model reads
check_types  that its types are those of the tape
===========  =====================================
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fstcrf.documents.consistency import Consistency
from fstcrf.documents.fields import Fields
from fstcrf.documents.spans import span_types
from fstcrf.documents.violations import ViolationModel
from fstcrf.errors import LabelError, OptionError

__all__ = ["check_types", "tape_of"]


def tape_of(model: ViolationModel, tapes: Sequence[str]) -> str:
    """Return the tape that a model reads.

    Raises
    ------
    OptionError
        It names none of several, or one that there is not.
    """
    wanted = getattr(model, "tape", None)
    if wanted is None and len(tapes) == 1:
        return tapes[0]
    if wanted not in tapes:
        asked = f"{type(model).__name__} reads no tape" if wanted is None else f"no tape {wanted!r}"
        raise OptionError(f'{asked}: give it tape= (in a file: "tape":), one of {", ".join(tapes)}')
    return str(wanted)


def check_types(model: ViolationModel, labels: Mapping[str, Sequence[str]]) -> None:
    """Check that the tagger has all types that a shipped model names: others count nothing.

    Parameters
    ----------
    model : ViolationModel
        Nobody knows the types of one that is written in Python.
    labels : mapping of str to sequence of str
        The labels of each tape, whatever a grammar may forbid.

    Raises
    ------
    LabelError
        It lacks one.
    OptionError
        As for `tape_of`.
    """
    tape = tape_of(model, list(labels))
    if not isinstance(model, Consistency | Fields):
        return
    there = span_types(labels[tape])
    missing = [name for name in model.types if name not in there]
    if missing:
        types = "types" if len(missing) > 1 else "type"
        known = ", ".join(there) or "none: labels of spans are like B-PER"
        raise LabelError(
            f"no label is of the {types} {', '.join(missing)}, which the model "
            f"{type(model).__name__} names; the types of {tape} are {known}"
        )
