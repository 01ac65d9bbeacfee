"""Jobs over files that processes of their own do: what is done, and how it may go wrong."""

from __future__ import annotations

import errno
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from fstcrf.errors import DataError
from fstcrf.ext.cluster.work import Counts, FileWork


@dataclass(frozen=True)
class Copying:
    """Copies a file in capitals; words in it say what else is to happen.

    ``kill`` kills the process, but for every time after the first ones: how often is counted in the
    folder `deaths`. ``slow`` takes a second.
    """

    deaths: str
    most: int = 1

    def prepared(self) -> FileWork:
        return self.copied

    def copied(self, source: str, target: str) -> Counts:
        """Copy a file."""
        text = Path(source).read_text()
        if "bad" in text:
            raise DataError("is bad", path=source)
        if "full" in text:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), target)
        if "kill" in text:
            self._die(Path(source).name)
        if "slow" in text:
            time.sleep(1)
        Path(target).write_text(text.upper())
        return {"sentences": 1, "process": os.getpid()}

    def _die(self, name: str) -> None:
        known = [p for p in Path(self.deaths).iterdir() if p.name.startswith(f"{name}.")]
        if len(known) < self.most:
            (Path(self.deaths) / f"{name}.{len(known)}").touch()
            os.kill(os.getpid(), signal.SIGKILL)


@dataclass(frozen=True)
class Broken:
    """Cannot be prepared."""

    def prepared(self) -> FileWork:
        """Raise a DataError."""
        raise DataError("there is no model")
