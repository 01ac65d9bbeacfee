"""What there is to know of a file format that holds a tagger."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fstcrf.errors import OptionError

if TYPE_CHECKING:
    from fstcrf.model import CRF

__all__ = ["HEAD", "TAPE", "Format", "Reading", "check_tape", "is_native"]

HEAD = 64
"""Bytes from which a format is told."""

TAPE = "label"
"""Name of the tape of a tagger that was read from a file without names."""


def is_native(head: bytes) -> bool:
    """Tell whether a file that begins like this is of fstcrf's own format."""
    return head[8:10] == b'{"'


def check_tape(tape: str) -> None:
    """Check the name of a tape.

    Raises
    ------
    OptionError
        It is empty.
    """
    if not tape:
        raise OptionError("the name of the tape is empty, expected one such as 'label'")


@dataclass(frozen=True, slots=True)
class Reading:
    """What a file does not say of its tagger.

    Parameters
    ----------
    where : str
        Name of the file, for messages.
    tape : str
        What the tagger writes.
    columns : tuple of str, optional
        Names of the columns that it reads, where it reads columns.
    encoding : str, optional
        Of the texts in the file, where the format leaves that open.
    """

    where: str
    tape: str = TAPE
    columns: tuple[str, ...] | None = None
    encoding: str | None = None


@dataclass(frozen=True, slots=True)
class Format:
    """A file format that holds a tagger.

    Parameters
    ----------
    name : str
        As ``fstcrf convert --to`` has it.
    title : str
        For messages: ``"a CRFsuite model"``.
    recognises : callable
        The first `HEAD` bytes of a file (fewer where it is shorter) → whether it is of this format.
    read : callable
        (all bytes of a file, `Reading`) → tagger; raises `ModelFileError` on damage.
    loader : str
        The function that reads it, by name.
    suffix : str, optional
        Of file names, by which ``fstcrf convert`` tells what to write.
    write : callable, optional
        Tagger → all bytes of a file; raises `OptionError` where the format cannot say it. None:
        the format is only read.
    """

    name: str
    title: str
    recognises: Callable[[bytes], bool]
    read: Callable[[bytes, Reading], CRF]
    loader: str
    suffix: str | None = None
    write: Callable[[CRF], bytes] | None = None
