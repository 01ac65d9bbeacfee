"""The file that an estimator keeps its model in.

In a pickle, the bytes of a temporary file take the place of its name. Its attributes have the same
names as in pickles of sklearn-crfsuite, so that these can be loaded.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path
from typing import Any

__all__ = ["FileResource"]

_CONTENT = "__FILE_RESOURCE_DATA__"


class FileResource:
    """The user's file, never removed, or a temporary one; `name` is `None` before its creation.

    `keep_tempfiles` keeps the temporary file.
    """

    def __init__(
        self,
        filename: str | None = None,
        keep_tempfiles: bool = False,  # noqa: FBT001, FBT002 (sklearn-crfsuite's order)
        suffix: str = "",
        prefix: str = "",
    ) -> None:
        self.name = filename
        self.auto = filename is None
        self.keep_tempfiles = keep_tempfiles
        self.suffix, self.prefix = suffix, prefix

    def ensure_name(self) -> None:
        """Make the temporary file if it does not exist."""
        if self.name is None:
            handle, self.name = tempfile.mkstemp(self.suffix, self.prefix)
            os.close(handle)

    def cleanup(self) -> None:
        """Remove the temporary file."""
        if self.auto and not self.keep_tempfiles and self.name is not None:
            with contextlib.suppress(OSError):
                Path(self.name).unlink()
            self.name = None

    def refresh(self) -> None:
        """Remove the temporary file and make another."""
        self.cleanup()
        self.ensure_name()

    def __del__(self) -> None:
        with contextlib.suppress(Exception):  # the interpreter may be going down
            self.cleanup()

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        if self.auto and self.name is not None:
            with contextlib.suppress(OSError):
                state[_CONTENT] = Path(self.name).read_bytes()
            state["name"] = None
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        content = state.pop(_CONTENT, None)
        self.__dict__.update(state)
        if content is not None:
            self.ensure_name()
            Path(str(self.name)).write_bytes(content)
