"""Whether there are enough messages, said before anything is trained.

=============  ==========================================================
check_splits   that all that a split trains on has each of the fields
=============  ==========================================================
"""

from __future__ import annotations

from fstcrf.corpus import Corpus
from fstcrf.errors import DataError
from fstcrf.recipes.recipe import Setting
from fstcrf.recipes.seminars.choosing import folded
from fstcrf.recipes.seminars.messages import FIELDS
from fstcrf.recipes.seminars.splits import split
from fstcrf.recipes.seminars.taggers import FILES

__all__ = ["check_splits"]

LEAST = 4
"""Messages: of a half, which is cross-validated, something must be left to train on."""


def check_splits(setting: Setting, messages: Corpus, count: int) -> None:
    """Check that the messages are enough for the first splits.

    Parameters
    ----------
    setting : Setting
    messages : Corpus
        With their fields; one message a sentence.
    count : int
        Splits.

    Raises
    ------
    DataError
        There are too few messages, or too few have a field.
    """
    n, folder = len(messages), str(setting.files(FILES)[0].parent)
    if n < LEAST:
        found = "1 message" if n == 1 else f"{n} messages"
        raise DataError(
            f"{found}, expected at least {LEAST}: half of them train, less a part to choose on",
            path=folder,
        )
    for k in range(count):
        for rest, _ in folded(messages.select(split(n, setting.seed, k).train)):
            begun = set(rest.column("field").strings())
            missing = [field for field in FIELDS if f"B-{field}" not in begun]
            if missing:
                raise DataError(
                    f"too few of the {n} messages have a <{missing[0]}>: none of the {len(rest)} "
                    f"that split {k + 1} trains on to choose weights",
                    path=folder,
                )
