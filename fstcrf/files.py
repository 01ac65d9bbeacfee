"""Files: read as text or bytes, plain or compressed; written whole or not at all; locked.

A lock file is next to a file that one process at a time may change; it ends with its process.
"""

from __future__ import annotations

import errno
import fcntl
import io
import os
import stat
import sys
import zlib
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeAlias, cast

from fstcrf.errors import DataError, OptionError, RecoveryWarning, warn
from fstcrf.lazy import LazyModule

if TYPE_CHECKING:
    import gzip
    import socket
else:  # few files are compressed, or locked
    gzip, socket = LazyModule("gzip"), LazyModule("socket")

Source: TypeAlias = str | os.PathLike[str] | BinaryIO
Target: TypeAlias = str | os.PathLike[str] | BinaryIO

BOM = b"\xef\xbb\xbf"
"""The byte order mark that editors put before text."""


_GZIP_MAGIC = b"\x1f\x8b"
_OPEN = ("/dev/fd", "/proc/self/fd")  # folders of the names of open files
_LINKS = 40  # largest number of links to follow, as in operating systems


def path_name(path: Any) -> str:
    """Return a path as a string; raise OptionError for other types, or for impossible names.

    An integer would mean an open file, which would be overwritten.
    """
    name = os.fspath(path) if isinstance(path, str | os.PathLike) else path
    if not isinstance(name, str):
        raise OptionError(f"a path is {name!r}, expected a str or a pathlib.Path")
    try:
        sound = b"\0" not in os.fsencode(name)
    except UnicodeEncodeError:
        sound = False
    if not sound:
        raise OptionError(f"{name!r} is no path: no file can be called that")
    return name


def source_name(source: Source) -> str:
    """Return the name of a source in messages: its path, ``<stdin>`` or ``<input>``."""
    if isinstance(source, str | os.PathLike):
        return "<stdin>" if os.fspath(source) == "-" else os.fspath(source)
    name = getattr(source, "name", None)
    return name if isinstance(name, str) else "<input>"


@contextmanager
def open_binary(source: Source) -> Iterator[BinaryIO]:
    """Open a source for reading bytes, unpacking gzip.

    Parameters
    ----------
    source : path, "-" or binary file
        ``"-"`` is standard input. A file object stays open.

    Yields
    ------
    binary file
        Buffered, with ``read1``.

    Raises
    ------
    DataError
        A gzip file that is damaged or cut short, or a device that never ends.
    OptionError
        A file object that does not give bytes.
    OSError
        The file cannot be opened or read.
    """
    name = source_name(source)
    if not isinstance(source, str | os.PathLike):
        with _peekable(source) as reader, _unpacked(reader, name) as file:
            yield file
    elif os.fspath(source) == "-":
        with _peekable(sys.stdin.buffer) as reader, _unpacked(reader, name) as file:
            yield file
    else:
        with open_path(source) as file:
            yield file


@contextmanager
def open_path(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a file by its name, like `open_binary`; ``"-"`` is not standard input."""
    name = path_name(path)
    with Path(name).open("rb") as reader:
        _check_ends(reader, name)
        with _unpacked(reader, name) as file:
            yield file


def read_file(path: str | os.PathLike[str]) -> bytes:
    """Return the contents of a small file; raise DataError for an endless device."""
    name = path_name(path)
    with Path(name).open("rb") as file:
        _check_ends(file, name)
        return file.read()


def _check_ends(file: BinaryIO, name: str) -> None:
    """Refuse a device such as ``/dev/zero``; an empty one, or a terminal, is allowed."""
    status = os.fstat(file.fileno())
    empty = Path(os.devnull).stat().st_rdev
    if stat.S_ISCHR(status.st_mode) and status.st_rdev != empty and not file.isatty():
        raise DataError("a device, expected a file", path=name)


def check_regular(path: str | os.PathLike[str]) -> None:
    """Refuse devices and pipes if a file is read in pieces, or repeatedly."""
    if not stat.S_ISREG(Path(path).stat().st_mode):
        raise DataError(
            "no regular file, expected one that can be read again", path=os.fspath(path)
        )


@contextmanager
def _peekable(file: BinaryIO) -> Iterator[io.BufferedReader]:
    if isinstance(file, io.BufferedReader):
        yield file
        return
    if not hasattr(file, "readinto"):
        raise OptionError(f"{source_name(file)} is not open for bytes, expected a binary file")
    reader = io.BufferedReader(cast("io.RawIOBase", file))
    try:
        yield cast("io.BufferedReader", reader)
    finally:
        # Otherwise the reader would close the caller's file.
        reader.detach()


@contextmanager
def _unpacked(file: io.BufferedReader, name: str) -> Iterator[BinaryIO]:
    with _blaming(name):
        head = file.peek(2)[:2]
    if head != _GZIP_MAGIC:
        yield cast("BinaryIO", file)
        return
    try:
        with gzip.GzipFile(fileobj=file, mode="rb") as unpacked:
            yield cast("BinaryIO", unpacked)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"damaged gzip file: {error}", path=name) from error


_OPENING = 1 << 16


def opening(source: str) -> str:
    """Return the beginning of a text, without reading it; "" if that is not possible.

    Parameters
    ----------
    source : str
        A path, or ``"-"`` for standard input.
    """
    if source == "-":
        stdin = sys.stdin.buffer
        with _blaming("<stdin>"):
            head = stdin.peek(_OPENING) if isinstance(stdin, io.BufferedReader) else b""
    elif Path(source).is_file():
        with Path(source).open("rb") as file:
            head = file.read(_OPENING)
    else:
        head = b""
    if head.startswith(_GZIP_MAGIC):
        try:
            head = zlib.decompressobj(wbits=31).decompress(head, _OPENING)
        except zlib.error:  # the later reader raises the error
            return ""
    return head.removeprefix(BOM).decode("utf-8", errors="replace")


@contextmanager
def open_target(target: Target) -> Iterator[BinaryIO]:
    """Open a path, a binary file, or standard output as ``"-"``, for writing bytes.

    Paths are written by `atomic_write`, and compressed if they end in ``.gz``. File objects are
    flushed and remain open.
    """
    if not isinstance(target, str | os.PathLike):
        if not hasattr(target, "write"):
            path_name(target)
        yield target
        target.flush()
    elif path_name(target) == "-":
        with _blaming("<stdout>"):
            file = sys.stdout.buffer
            if isinstance(file, io.RawIOBase):  # with PYTHONUNBUFFERED
                file = cast("BinaryIO", _CompleteWriter(file))
            yield file
            file.flush()
    elif path_name(target).endswith(".gz"):
        # The header has neither name nor time, so that equal content gives equal bytes.
        with (
            atomic_write(target) as file,
            gzip.GzipFile(filename="", fileobj=file, mode="wb", mtime=0) as packed,
        ):
            yield cast("BinaryIO", packed)
    else:
        with atomic_write(target) as file:
            yield file


class _CompleteWriter:
    """Repeats the writes of a raw file, which may be incomplete."""

    def __init__(self, raw: io.RawIOBase) -> None:
        self._raw = raw

    def write(self, data: bytes) -> int:
        rest = memoryview(data)
        while rest:
            rest = rest[self._raw.write(rest) or 0 :]
        return len(data)

    def flush(self) -> None:
        self._raw.flush()


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Write a file that appears under its name only when it is complete and on disk.

    The bytes go to a temporary file in the same folder, which is flushed, synced and renamed. After
    any failure, including an interrupt or a full disk, the temporary file is removed and an
    existing file is unchanged. An existing file keeps its permission bits; a symbolic link keeps
    pointing to its file. A device or a pipe is written directly; so is an open file such as
    ``/dev/stdout`` or ``/dev/fd/3``, from its current position.

    Parameters
    ----------
    path : path
        Name of the file.

    Yields
    ------
    binary file
        To write to.

    Raises
    ------
    OSError
        The folder cannot be written, or the disk is full; its file name is `path`.
    """
    path_name(path)
    number = _descriptor(path)
    if number is not None:
        with _blaming(path), os.fdopen(os.dup(number), "wb") as file:
            yield file
        return
    mode = Path(path).stat().st_mode if Path(path).exists() else None
    if mode is not None and not stat.S_ISREG(mode):
        with _blaming(path), Path(path).open("wb") as file:
            yield file
        return
    target = resolved(path)
    yield from _replacing(path, target, mode)


def write_picture(svg: str, path: str | os.PathLike[str] | None) -> str:
    """Return a picture, and write it to a path if given.

    Raises
    ------
    OptionError
        A file of another kind.
    OSError
        It cannot be written.
    """
    if path is None:
        return svg
    if Path(path_name(path)).suffix.lower() not in {".svg", ""} or Path(path).name in {"", "."}:
        raise OptionError(f"{os.fspath(path)}: pictures are SVG; name the file something.svg")
    with atomic_write(path) as file:
        file.write(svg.encode())
    return svg


def resolved(path: str | os.PathLike[str]) -> Path:
    """Return the target of a path; raise OSError for a cycle of links."""
    try:
        return Path(path).resolve()
    except RuntimeError:  # Python's, before 3.13
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), os.fspath(path)) from None


def check_writable(path: str | os.PathLike[str]) -> None:
    """Check before long work whether `atomic_write` could write a file.

    Raises
    ------
    OSError
        The name is a folder's, or of a file that is not open; or the folder does not exist or
        cannot be written.
    """
    path_name(path)
    number = _descriptor(path)
    if number is not None:
        with _blaming(path):
            os.fstat(number)
        return
    target = resolved(path)
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    if Path(path).exists() and not Path(path).is_file():
        return
    created: list[Path] = []
    try:
        with _created(target, created, path):
            _unlink_all(created)  # while it is locked: later it may belong to another writer
    finally:
        _unlink_all(created)


def _descriptor(path: str | os.PathLike[str]) -> int | None:
    """Return the number of the open file that a name denotes: 1 for ``/dev/stdout``; or `None`.

    The open file has a position; opening it by name would start at the beginning.
    """
    folders = [Path(folder).resolve() for folder in _OPEN]
    name = Path(path)
    for _ in range(_LINKS):
        name = name.parent.resolve() / name.name
        if name.parent in folders and name.name.isdecimal():
            return int(name.name)
        if not name.is_symlink():
            return None
        name = name.parent / name.readlink()
    return None


@contextmanager
def _blaming(path: str | os.PathLike[str], temporary: Path | None = None) -> Iterator[None]:
    """Set the requested file's name in errors: for a full disk they have no name."""
    try:
        yield
    except OSError as error:
        blamed = None if temporary is None else os.fspath(temporary)
        if error.filename in {None, blamed} and error.errno is not None:
            error.filename = os.fspath(path)
        raise


def _temporary_name(target: Path, what: str) -> Path:
    """Return a temporary name; systems count bytes of names, and allow 255."""
    name = target.name.encode(errors="surrogateescape")[:200].decode(errors="ignore")
    return target.with_name(f".{name}.{what}.tmp")


def _created(target: Path, created: list[Path], path: str | os.PathLike[str]) -> BinaryIO:
    """Create a locked temporary file; remove those of dead writers of the same file.

    The first is number 0; others belong to concurrent writers. Its name is added to `created`
    before it is created, because a signal may arrive at any time.
    """
    number = 0
    while True:
        temporary = _temporary_name(target, str(number))
        created[:] = [temporary]
        try:
            file = temporary.open("xb")
        except FileExistsError:
            created.clear()
            number += not _removed(temporary)
            continue
        except OSError as error:
            error.filename = os.fspath(path)
            raise
        with suppress(OSError):  # a file system without locks: then no file is removed either
            fcntl.flock(file, fcntl.LOCK_EX)
        if _is(file, temporary):
            break
        file.close()  # another writer removed it, as if from a dead writer, before it was locked
    while _removed(_temporary_name(target, str(number + 1))):
        number += 1
    return file


def _unlink_all(created: list[Path]) -> None:
    while created:
        created[-1].unlink(missing_ok=True)
        created.pop()


def _removed(temporary: Path) -> bool:
    """Remove a temporary file whose writer is dead: its lock is free."""
    try:
        with temporary.open("r+b") as file:
            same_owner = os.fstat(file.fileno()).st_uid == os.geteuid()
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if same_owner and _is(file, temporary):
                temporary.unlink()
                return True
    except OSError:
        pass
    return False


def sweep(folder: Path, names: Collection[str]) -> None:
    """Remove temporary files of dead writers of these names from a folder."""
    heads = {_temporary_name(folder / name, "0").name.removesuffix("0.tmp") for name in names}
    for path in folder.glob(".*.tmp"):
        head, _, number = path.name.removesuffix(".tmp").rpartition(".")
        if number.isdigit() and f"{head}." in heads:
            _removed(path)


def _is(file: BinaryIO, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


def _replacing(path: str | os.PathLike[str], target: Path, mode: int | None) -> Iterator[BinaryIO]:
    created: list[Path] = []
    try:
        file = _created(target, created, path)
        (temporary,) = created
        with _blaming(path, temporary), file:
            try:
                if mode is not None:
                    os.fchmod(file.fileno(), stat.S_IMODE(mode))
                yield file
                file.flush()
                os.fsync(file.fileno())
                temporary.replace(target)
            except BaseException:
                _unlink_all(created)  # while it is locked
                raise
            created.clear()
    finally:
        _unlink_all(created)
    with _blaming(path):
        sync_folder(target.parent)


def whole_lines(
    data: bytes, path: str | os.PathLike[str], is_sound: Callable[[bytes], bool]
) -> int:
    """Return the number of valid bytes of a file to which synced lines are appended.

    If a machine crashes while it writes a line, its pages reach the disk in any order: the last
    line may have arbitrary content, even its end without its beginning. It was never acknowledged,
    so it does not count; if it has more than a beginning, a `RecoveryWarning` is issued.

    Raises
    ------
    DataError
        A valid line follows an invalid one: the file is damaged.
    """
    end, line = 0, 0
    while (after := data.find(b"\n", end) + 1) and is_sound(data[end:after]):
        end, line = after, line + 1
    rest = data[end:]
    if any(is_sound(one) for one in rest.split(b"\n")[1:] if one):
        what = "is damaged, and more follows: restore it from a copy"
        raise DataError(what, path=os.fspath(path), line=line + 1)
    if b"\n" in rest or b"\0" in rest:
        warn(
            f"{os.fspath(path)}: the last {len(rest):,} bytes are an incomplete entry "
            "and are dropped: it was being written when the machine stopped",
            RecoveryWarning,
        )
    return end


def sync_folder(folder: Path) -> None:
    """Write a folder's entries to the disk: the names of new and renamed files."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


_NONE = (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS)
"""Errors of file systems without locks."""


def taken(file: int) -> bool:
    """Lock an open file until it is closed; return whether this process has the lock.

    On a file system without locks the result is true.

    Parameters
    ----------
    file : int
        Its descriptor.

    Raises
    ------
    OSError
        It cannot be locked, for a reason other than another process's lock.
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
    """Lock a file against other processes while a block writes it.

    The lock is the file ``.NAME.lock`` in the same folder, which is removed after the block. A
    killed process leaves only an unlocked file, which the next process reuses.

    Parameters
    ----------
    path : path
        The file or folder, which may not exist yet. Devices are not locked.
    what : str
        Activity of the block, for the message: ``"training"``.

    Raises
    ------
    OptionError
        Another process has the lock; names the activity.
    OSError
        No lock file can be created.
    """
    target = resolved(path)
    named = Path(path)  # /dev/stdout may resolve to a pipe, whose name is not a file
    if named.exists() and not (named.is_file() or named.is_dir()):
        yield
        return
    lock = target.with_name(f".{target.name[:60]}.lock")
    file = _locked(lock, f"{os.fspath(path)}: another {what} writes there")
    try:
        yield
    finally:
        # before it is closed, because later it may belong to another process
        with suppress(OSError):
            lock.unlink()
        os.close(file)


def _locked(lock: Path, refusal: str) -> int:
    """Return the descriptor of a lock that this process has."""
    while True:
        file = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            _take(file, refusal)
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(file), lock.stat()):
                    # only a note about the owner, so a full disk does not matter
                    with suppress(OSError):
                        os.ftruncate(file, 0)
                        os.write(file, f"process {os.getpid()} on {socket.gethostname()}".encode())
                    return file
        except BaseException:
            os.close(file)
            raise
        os.close(file)  # its previous owner has removed it meanwhile


def _take(file: int, refusal: str) -> None:
    """Lock an open file; raise OptionError if another process has the lock."""
    if not taken(file):
        owner = os.read(file, 200).decode(errors="replace")
        by = f" ({owner})" if owner else ""
        raise OptionError(f"{refusal}{by}: wait for its end, or give another name")
