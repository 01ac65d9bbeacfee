"""What every reader of a model with patterns checks.

==============  ==============================================================
check_encoding  an encoding that there is
check_labels    labels before tables of their pairs are made
decoded         bytes of a file as text
shown           bytes of a file in a message
==============  ==============================================================
"""

from __future__ import annotations

from collections.abc import Sequence

from fstcrf.errors import ModelFileError, OptionError

__all__ = ["check_encoding", "check_labels", "decoded", "shown"]

_FEW_PAIRS = 10_000
_SHOWN = 40


def check_encoding(encoding: str) -> None:
    """Check that there is an encoding.

    Raises
    ------
    OptionError
        Python does not know it, or it is none of text.
    """
    try:
        "".encode(encoding)
    except LookupError:
        raise OptionError(f"encoding is {encoding!r}, expected one such as 'utf-8'") from None


def check_labels(labels: Sequence[str], size: int, where: str) -> None:
    """Check labels before tables of their pairs are made.

    Parameters
    ----------
    labels : sequence of str
    size : int
        Bytes of the file.
    where : str
        Its name, for messages.

    Raises
    ------
    ModelFileError
        None, an empty or a repeated one, or more pairs than the file accounts for.
    """
    if not labels or not all(labels) or len(set(labels)) < len(labels):
        raise ModelFileError(f"{where}: labels must be distinct, not empty, and at least one")
    if len(labels) ** 2 > _FEW_PAIRS + size:
        raise ModelFileError(f"{where}: {len(labels)} labels in a file of {size} bytes")


def decoded(data: bytes, encoding: str, where: str, what: str) -> str:
    """Return bytes of a file as text.

    Parameters
    ----------
    data : bytes
    encoding : str
    where, what : str
        The file, and what the bytes are, for messages.

    Raises
    ------
    ModelFileError
        They are not of that encoding, or no line of text.
    """
    try:
        text = data.decode(encoding)
    except UnicodeError:
        raise ModelFileError(
            f"{where}: {what} {shown(data)} is not {encoding}: give the model's encoding"
        ) from None
    if "\n" in text or "\0" in text:
        raise ModelFileError(f"{where}: {what} {shown(data)} is not one line of text")
    return text


def shown(data: bytes) -> str:
    """Return bytes of a file as they stand in a message."""
    return repr(data[:_SHOWN])[1:]
