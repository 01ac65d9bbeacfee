"""Files that one process at a time works on: a lock beside each, which ends with its process."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from fstcrf.errors import OptionError

__all__ = ["held", "taken"]

_NONE = (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS)
"""What file systems without locks say."""


def taken(file: int) -> bool:
    """Lock an open file until it is closed; tell whether it is this process's now.

    On a file system without locks it counts as such.

    Parameters
    ----------
    file : int
        Its descriptor.

    Raises
    ------
    OSError
        It cannot be locked, for another reason than that another process has it.
    """
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            return False
        if error.errno not in _NONE:
            raise
    return True


@contextmanager
def held(path: str | os.PathLike[str], what: str) -> Iterator[None]:
    """Keep other processes away from a file that a block will write.

    The lock is the file ``.NAME.lock`` beside it, which is gone after the block. Of a process that
    was killed only an empty claim is left, which the next one takes over.

    Parameters
    ----------
    path : path
        The file or folder, which need not be there yet. Of a device nothing is locked.
    what : str
        What the block does, for the message: ``"training"``.

    Raises
    ------
    OptionError
        Another process has it; names that.
    OSError
        No file can be made beside it.
    """
    try:
        target = Path(path).resolve()
    except RuntimeError:  # Python's, before 3.13
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), os.fspath(path)) from None
    named = Path(path)  # of /dev/stdout to a pipe, what it resolves to is no file
    if named.exists() and not (named.is_file() or named.is_dir()):
        yield
        return
    beside = target.with_name(f".{target.name[:60]}.lock")
    file = _locked(beside, f"{os.fspath(path)}: another {what} writes there")
    try:
        yield
    finally:
        with suppress(OSError):  # before it is closed: it is another one's then
            beside.unlink()
        os.close(file)


def _locked(beside: Path, refusal: str) -> int:
    """Return the descriptor of a lock that this process has."""
    while True:
        file = os.open(beside, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            _take(file, refusal)
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(file), beside.stat()):
                    with suppress(OSError):  # it only says whose it is: a full disk is no reason
                        os.ftruncate(file, 0)
                        os.write(file, f"process {os.getpid()} on {socket.gethostname()}".encode())
                    return file
        except BaseException:
            os.close(file)
            raise
        os.close(file)  # who had it has removed it meanwhile


def _take(file: int, refusal: str) -> None:
    """Lock an open file; OptionError where another process has it."""
    if not taken(file):
        owner = os.read(file, 200).decode(errors="replace")
        known = f" ({owner})" if owner else ""
        raise OptionError(f"{refusal}{known}: wait for its end, or give another name")
