"""What the drop-in raises: fstcrf's exceptions that are also those of python-crfsuite's users."""

from __future__ import annotations

from fstcrf.errors import DataError, FstcrfError, LabelError, ModelFileError

__all__ = [
    "CRFSUITE_VERSION",
    "INCOMPATIBLE",
    "OVERFLOW",
    "CRFSuiteError",
    "InvalidModelError",
    "ItemError",
    "NotOpenError",
    "UnknownLabelError",
]

_FIRST = -(2**31)
INCOMPATIBLE, OVERFLOW = _FIRST + 3, _FIRST + 5


class CRFSuiteError(FstcrfError):
    """Training failed.

    Parameters
    ----------
    code : int
        CRFsuite's number of what happened.
    """

    _messages = {  # noqa: RUF012 (its users read it)
        _FIRST: "Unknown error occurred",
        _FIRST + 1: "Insufficient memory",
        _FIRST + 2: "Unsupported operation",
        INCOMPATIBLE: "Incompatible data",
        _FIRST + 4: "Internal error",
        OVERFLOW: "Overflow",
        _FIRST + 6: "Not implemented",
    }

    def __init__(self, code: int) -> None:
        self.code = code
        super().__init__(self._messages.get(code, "Unexpected error"))


class ItemError(DataError, TypeError):
    """An item (the attributes of a token) that is not what it must be."""


class NotOpenError(FstcrfError, ValueError, RuntimeError):
    """A tagger that has no model open, or no sequence set."""


class InvalidModelError(ModelFileError, ValueError):
    """A file, or bytes, that is no model of CRFsuite or is damaged."""


class UnknownLabelError(LabelError, RuntimeError):
    """A label that the model does not have."""


CRFSUITE_VERSION = "0.12.2"
