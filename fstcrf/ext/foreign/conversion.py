"""The detection of a file's format, and taggers from all formats."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace

from fstcrf.errors import ModelFileError, OptionError
from fstcrf.ext.foreign.crfpp import CRFPP, CRFPP_TEXT
from fstcrf.ext.foreign.crfsuite import CRFSUITE
from fstcrf.ext.foreign.formats import TAPE, Format, ReadOptions, check_tape, unpacked
from fstcrf.ext.foreign.wapiti import WAPITI
from fstcrf.files import path_name
from fstcrf.storage import HEAD, file_kind, is_native
from fstcrf.taggers import CRF

_COMPOSITION = "fstcrf-composition"  # as `fstcrf.taggers.joint` writes it, which is above

FORMATS: tuple[Format, ...] = (CRFSUITE, CRFPP, CRFPP_TEXT, WAPITI)


def read_tagger(
    path: str | os.PathLike[str],
    *,
    tape: str | None = None,
    columns: Sequence[str] | None = None,
    encoding: str | None = None,
) -> CRF:
    """Read a tagger from a file of any known format, recognised by its first bytes.

    Parameters
    ----------
    path : path
    tape : str, optional
        Output tape of the tagger; by default its own name, or ``"label"`` if the file has no name.
    columns : sequence of str, optional
        Names of the columns that a model of CRF++ or Wapiti reads; numbers when absent.
    encoding : str, optional
        Of the texts in such a model; UTF-8 when absent.

    Raises
    ------
    ModelFileError
        Of no known format, damaged, or a composition of several taggers.
    OptionError
        Columns or an encoding for a format that has them itself; an empty name for the tape.
    OSError
        The file cannot be read.
    """
    name = path_name(path)
    with open(name, "rb") as file:  # noqa: PTH123 (the path may be any str)
        head = file.read(HEAD)
        if not is_native(head):
            # Recognised before reading the rest: a stream that is not a model may be endless.
            names = None if columns is None else tuple(columns)
            options = ReadOptions(name, TAPE if tape is None else tape, names, encoding)
            return format_of(head, name).read(head + file.read(), options)
    if columns is not None or encoding is not None:
        raise OptionError(
            f"{name}: columns and encoding cannot be given for an fstcrf model, which "
            "stores its own"
        )
    if file_kind(name) == _COMPOSITION:
        raise ModelFileError(
            f"{name}: other formats cannot store a composition of taggers or a tagger "
            "with a grammar: convert the tagger that it was made of"
        )
    model = CRF.load(name)
    if tape is None:
        return model
    check_tape(tape)
    return replace(model, tape=tape)


def format_of(head: bytes, where: str) -> Format:
    """Return the format of a file of another program, from its first `HEAD` bytes."""
    if not head:
        raise ModelFileError(f"{where}: an empty file, expected a model")
    for known in FORMATS:
        if known.recognises(unpacked(head, where)):
            return known
    titles = ", ".join(["an fstcrf model", *(known.title for known in FORMATS)])
    raise ModelFileError(f"{where}: no model of a known format, expected one of: {titles}")


def written(tagger: CRF, name: str) -> bytes:
    """Return a tagger as the bytes of a file of another format.

    Parameters
    ----------
    tagger : CRF
    name : {"crfsuite", "crfpp", "crfpp-text", "wapiti"}

    Raises
    ------
    OptionError
        Another name, or a tagger that the format cannot represent; the message names the reason.
    """
    writers = {known.name: known.write for known in FORMATS if known.write is not None}
    if name not in writers:
        raise OptionError(f"cannot write the format {name!r}, expected one of {', '.join(writers)}")
    return writers[name](tagger)
