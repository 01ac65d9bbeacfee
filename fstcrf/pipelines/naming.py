"""Errors that say which task, or which file, they are of.

=====  ==================================
named  what a block raises, with a name
=====  ==================================
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from fstcrf.errors import FstcrfError

__all__ = ["named"]


@contextmanager
def named(where: str) -> Iterator[None]:
    """Begin the message of an error with a name; all else that the error knows stays.

    Raises
    ------
    FstcrfError
        What the block raises. It is not made again: kinds of errors are made from other things.
    """
    try:
        yield
    except FstcrfError as error:
        error.args = (f"{where}: {error}",)
        raise
