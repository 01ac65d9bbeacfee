"""Models that can be written to a file, and read again.

=======  =========================
Written  what such models have
=======  =========================
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Self

__all__ = ["Written"]


class Written:
    """A model that is JSON on disk.

    Attributes
    ----------
    violations : sequence
    column : str
    tape : str or None
    """

    violations: Sequence[Any]
    column: str
    tape: str | None

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a model that `save` wrote, or that was written by hand.

        Raises
        ------
        ModelFileError
            It is no such file.
        """
        from fstcrf.documents.file import load_kind  # noqa: PLC0415 (it imports the models)

        return load_kind(path, cls)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model as JSON, one line a violation.

        Raises
        ------
        OptionError
            A value that is a function has no name that could be written.
        """
        from fstcrf.documents.file import save  # noqa: PLC0415 (it imports the models)

        save(self, path)
