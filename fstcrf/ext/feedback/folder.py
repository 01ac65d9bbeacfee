"""The state of a learner, and the folder that stores it."""

from __future__ import annotations

import fcntl
import os
import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self, get_args

import msgspec
import numpy as np
from numpy.typing import NDArray

from fstcrf.arrays import Floats, Ragged
from fstcrf.errors import ModelFileError, OptionError, RecoveryWarning, warn
from fstcrf.ext.feedback.descent import Aim, Controls, Descent, Rule
from fstcrf.ext.feedback.kernel import Proposals
from fstcrf.files import path_name, sync_folder
from fstcrf.kernel import Parameters, SparseRows
from fstcrf.storage import read_arrays, write_arrays
from fstcrf.training.online import named_parameters


@dataclass(frozen=True, slots=True)
class Proposal:
    """Labels on offer.

    Parameters
    ----------
    id : int
        Its number, from 0, unique in the life of a learner.
    labels : tuple of str
        A sample of the tagger's distribution.
    other : tuple of str
        Where pairs are compared: labels to compare with; else empty.
    probability : float
        Of the labels, under the tagger that proposed them; of the logistic objective, that they
        are the better ones.
    """

    id: int
    labels: tuple[str, ...]
    other: tuple[str, ...]
    probability: float


class Proposed(msgspec.Struct, frozen=True, array_like=True, tag="p"):
    """The stored form of a proposal; arrays are bytes, little-endian."""

    id: int
    counts: bytes  # int32 [T] attributes of each token
    index: bytes  # int32 their rows
    value: bytes  # float32 their values; empty if all are 1
    path: bytes  # int32 [T]
    other: bytes  # int32 [T] or empty
    node: bytes  # float64 [T, S]
    arc: bytes  # float64 [M]
    log_p: float

    @classmethod
    def of(cls, number: int, design: SparseRows, made: Proposals) -> Self:
        """Return the stored form of the only proposal of a batch."""
        return cls(
            number,
            _bytes(Ragged(design.indptr).lengths, "<i4"),
            _bytes(design.index, "<i4"),
            b"" if design.value is None else _bytes(design.value, "<f4"),
            _bytes(made.path, "<i4"),
            _bytes(made.other, "<i4"),
            _bytes(made.node, "<f8"),
            _bytes(made.arc, "<f8"),
            float(made.log_p[0]),
        )

    def design(self, rows: int) -> SparseRows:
        """Return the attributes of its tokens, in a matrix of `rows` rows."""
        counts = np.frombuffer(self.counts, "<i4")
        indptr = Ragged.from_lengths(counts).offsets
        value = np.frombuffer(self.value, "<f4") if self.value else None
        return SparseRows(indptr, np.frombuffer(self.index, "<i4"), value, rows)

    def proposals(self, states: int) -> Proposals:
        """Return it in the kernel's form, as the only sentence of a batch."""
        return Proposals(
            np.zeros(1, dtype=np.int64),
            np.frombuffer(self.path, "<i4"),
            np.frombuffer(self.other, "<i4"),
            np.frombuffer(self.node, "<f8").reshape(-1, states),
            np.frombuffer(self.arc, "<f8").reshape(1, -1),
            np.asarray([self.log_p]),
        )


def _bytes(array: NDArray[Any], dtype: str) -> bytes:
    return array.astype(dtype, copy=False).tobytes()


class Rewarded(msgspec.Struct, frozen=True, array_like=True, tag="r"):
    """The reward of a proposal."""

    id: int
    reward: float


class Withdrawn(msgspec.Struct, frozen=True, array_like=True, tag="w"):
    """A proposal that will receive no reward."""

    id: int


Event = Proposed | Rewarded | Withdrawn
_ENCODER = msgspec.msgpack.Encoder()
_DECODER: msgspec.msgpack.Decoder[Event] = msgspec.msgpack.Decoder(Event)


def decoded(data: bytes) -> Event:
    """Return the event that bytes encode."""
    return _DECODER.decode(data)


# --- Draws ----------------------------------------------------------------------------------------


# They depend only on the seed and the number of a proposal. Closing a learner, or restoring a copy
# of it, makes no difference.
class UniformDraws:
    """Numbers in [0, 1) from Philox, a counter-based generator: each proposal has a counter."""

    def __init__(self, seed: int) -> None:
        if not 0 <= seed < 1 << 128:
            raise OptionError(f"seed is {seed}, expected a whole number from 0, below 2^128")
        self._source = np.random.Philox(key=seed)
        self._state = self._source.state
        self._generator = np.random.Generator(self._source)

    def __call__(self, number: int, n: int) -> Floats:
        """Return the numbers of a proposal, float64 [n] in [0, 1)."""
        # A new generator would take ten times as long. The lowest word counts the blocks drawn.
        self._state["state"]["counter"][:] = 0, number, 0, 0
        self._source.state = self._state
        return self._generator.random(n)


# --- The state ------------------------------------------------------------------------------------
KIND, VERSION = "fstcrf-feedback", 1

_OPEN = msgspec.msgpack.Decoder(list[Proposed])


class LearnerSettings(msgspec.Struct, frozen=True):
    """The settings of a learner, which never change."""

    aim: Aim
    rule: Rule
    seed: int


class _Numbers(msgspec.Struct, frozen=True):
    made: int
    rewards: int
    reward_sum: float
    refused: int
    step: int
    scale: float


class State:
    """The state of a learner, which changes with every event.

    `descent` has the parameters and the memory of the rule; `pending` has the unanswered proposals.
    `made`, the number of proposals so far, is the number of the next one; `refused` counts the
    refused steps, whose results would not have been finite.
    """

    def __init__(self, descent: Descent) -> None:
        self.descent, self.controls = descent, Controls.of(1)
        self.pending: dict[int, Proposed] = {}
        self.made = self.rewards = self.refused = 0
        self.reward_sum = 0.0

    def save(self, path: Path, settings: LearnerSettings) -> None:
        """Write the state to a file, completely or not at all."""
        one = self.descent
        arrays: dict[str, NDArray[Any]] = {
            "control.mean": self.controls.mean,
            "control.count": self.controls.count,
            "pending": np.frombuffer(msgspec.msgpack.encode(list(self.pending.values())), np.uint8),
        }
        for name in ("theta", "first", "second"):
            part: Parameters | None = getattr(one, name)
            if part is not None:
                arrays |= named_parameters(name, part)
        if one.touched is not None:
            arrays["touched"] = one.touched
        numbers = _Numbers(
            self.made, self.rewards, self.reward_sum, self.refused, one.step, one.scale
        )
        metadata = {
            "settings": msgspec.json.encode(settings).decode(),
            "numbers": msgspec.json.encode(numbers).decode(),
        }
        write_arrays(path, arrays, metadata, kind=KIND, version=VERSION)

    def load(self, path: Path) -> LearnerSettings:
        """Replace this state with the contents of a file."""
        arrays, metadata = read_arrays(path, kind=KIND, version=VERSION)
        try:
            settings = msgspec.json.decode(metadata["settings"], type=LearnerSettings)
            numbers = msgspec.json.decode(metadata["numbers"], type=_Numbers)
            self.pending = {p.id: p for p in _OPEN.decode(arrays["pending"].tobytes())}
            one, shapes = self.descent, [a.shape for a in self.descent.theta.arrays()]
            for name in ("theta", "first", "second"):
                if f"{name}.0" not in arrays:
                    continue
                part = Parameters(*(arrays[f"{name}.{i}"].copy() for i in range(4)))
                if [a.shape for a in part.arrays()] != shapes:
                    raise ModelFileError(
                        f"{path}: belongs to another model than model.fstcrf in the same folder"
                    )
                setattr(one, name, part)
            one.touched = arrays["touched"].copy() if "touched" in arrays else None
            self.controls = Controls(arrays["control.mean"].copy(), arrays["control.count"].copy())
        except (KeyError, msgspec.DecodeError) as error:
            raise ModelFileError(f"{path}: not a sound state of a learner: {error}") from None
        one.step, one.scale = numbers.step, numbers.scale
        self.made, self.rewards = numbers.made, numbers.rewards
        self.reward_sum, self.refused = numbers.reward_sum, numbers.refused
        return settings


# --- The journal ----------------------------------------------------------------------------------

Sync = Literal["always", "process"]
_HEAD = b"fstcrf-feedback-journal 2\n"
_FIRST_HEAD = b"fstcrf-feedback-journal 1\n"
"""Of the first format, in which every record is a frame without a mark."""
_MARK = b"\xf5frame\xf5\n"
_FRAME = struct.Struct("<II")
_SUMMED = 8
"""How often, on average, bytes after damage may be checksummed in the search for a whole frame."""
_APPENDED = msgspec.msgpack.Decoder(list[bytes])


def check_sync(sync: str) -> None:
    """Check the name of a way of writing."""
    if sync not in get_args(Sync):
        raise OptionError(f"sync is {sync!r}, expected one of {', '.join(get_args(Sync))}")


def is_empty(path: Path) -> bool:
    """Is there a journal without any record, whole or not."""
    return path.is_file() and path.stat().st_size <= len(_HEAD)


class Journal:
    """An append-only file of records that survives the death of its writer.

    Records that are appended together form a frame: a mark, length and CRC-32, four bytes each,
    little-endian, then the records as a list of msgpack. A frame that was being written when the
    process died is incomplete: it is cut off on opening. If the machine died, any part of the last
    frame may be missing, for its blocks reach the disk in any order: it is cut off with a
    `RecoveryWarning`. Nobody has been promised its records. An incomplete frame before a whole
    frame is damage, and the file is refused.

    When a call returns, ``sync="always"`` has written its records to the disk. Otherwise they have
    been passed to the operating system: they survive the death of this process, but not of the
    machine.
    """

    def __init__(self, path: Path, sync: Sync = "always", *, new: bool = False) -> None:
        check_sync(sync)
        self.path, self.sync, self._size, self._head = path, sync, 0, _HEAD
        how = os.O_CREAT | os.O_TRUNC if new else 0
        self._file = os.open(path, os.O_RDWR | os.O_APPEND | how, 0o644)
        try:
            if new:
                self._write(_HEAD, sync=True)
                sync_folder(path.parent)
            else:
                self._recover()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; omitting this loses nothing."""
        if self._file >= 0:
            os.close(self._file)
        self._file = -1

    def records(self) -> Iterator[bytes]:
        """Yield the records that are there."""
        data = self.path.read_bytes()[: self._size]
        for start, end in _frames(data):
            if self._head == _FIRST_HEAD:
                yield data[start:end]
                continue
            try:
                yield from _APPENDED.decode(data[start:end])
            except msgspec.DecodeError as error:
                raise ModelFileError(
                    f"{self.path}: the record at byte {start} cannot be read: {error}"
                ) from None

    def append(self, records: Sequence[bytes]) -> None:
        """Append all records, or, if the disk is full, leave the file unchanged."""
        if self._head == _FIRST_HEAD:
            frames = [_framed(record) for record in records]
        else:
            frames = [_MARK + _framed(msgspec.msgpack.encode(list(records)))]
        self._write(b"".join(frames), sync=self.sync == "always")

    def _write(self, data: bytes, *, sync: bool) -> None:
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[os.write(self._file, rest) :]
            if sync:
                os.fsync(self._file)
        except OSError as error:
            os.ftruncate(self._file, self._size)
            error.filename = os.fspath(self.path)
            raise
        self._size += len(data)

    def _recover(self) -> None:
        """Find the end of the last whole record and cut off the rest."""
        data = self.path.read_bytes()
        if not data.startswith((_HEAD, _FIRST_HEAD)):
            raise ModelFileError(f"{self.path}: not a journal of feedback")
        self._head = data[: len(_HEAD)]
        self._size = len(_HEAD)
        for _, end in _frames(data):
            self._size = end
        if self._size < len(data):
            _check_torn(self.path, data, self._size)
            os.ftruncate(self._file, self._size)
            os.fsync(self._file)


def _framed(data: bytes) -> bytes:
    return _FRAME.pack(len(data), zlib.crc32(data)) + data


def _mark(data: bytes) -> bytes:
    """Return the mark before each frame of a journal."""
    return b"" if data.startswith(_FIRST_HEAD) else _MARK


def _frames(data: bytes) -> Iterator[tuple[int, int]]:
    """Yield the beginning and end of the contents of each frame, until the first incomplete one."""
    mark, end = _mark(data), len(_HEAD)
    while (found := _frame(data, end, mark)) is not None:
        yield found
        end = found[1]


def _frame(data: bytes, at: int, mark: bytes) -> tuple[int, int] | None:
    """Return the beginning and end of a frame's contents; `None` if there is no whole frame."""
    start = at + len(mark) + _FRAME.size
    if start > len(data) or not data.startswith(mark, at):
        return None
    length, checksum = _FRAME.unpack_from(data, at + len(mark))
    end = start + length
    if not length or end > len(data) or zlib.crc32(data[start:end]) != checksum:
        return None
    return start, end


def _check_torn(path: Path, data: bytes, at: int) -> None:
    """Refuse a file with an incomplete frame, unless an interrupted write explains it."""
    rest, mark = data[at:], _mark(data)
    if not rest.strip(b"\0"):  # where a machine died, a file may have grown without its bytes
        return
    if not _has_frame(rest, mark):
        if _cut_short(rest, mark):
            return
        if mark:
            warn(
                f"{path}: the last {len(rest):,} bytes are an incomplete record and are "
                "dropped: it was being written when the machine stopped",
                RecoveryWarning,
            )
            return
    raise ModelFileError(
        f"{path}: damaged at byte {at}: the record does not match its checksum, and "
        "is not the last one; restore the file from a copy"
    )


def _has_frame(rest: bytes, mark: bytes) -> bool:
    """Return whether a whole frame follows; without marks, this is unknown.

    Frames of a learner do not overlap. Where somebody wrote marks within frames, so that the same
    bytes would be summed again and again, the search ends, and the file is refused as damaged.
    """
    at, summed = rest.find(mark, 1) if mark else -1, 0
    while at >= 0 and summed <= _SUMMED * len(rest) and _frame(rest, at, mark) is None:
        summed += _length(rest, at, mark)
        at = rest.find(mark, at + 1)
    return at >= 0


def _length(data: bytes, at: int, mark: bytes) -> int:
    """Return the number of bytes that were checksummed for a frame, 0 if the frame was too long."""
    start = at + len(mark) + _FRAME.size
    length = _FRAME.unpack_from(data, at + len(mark))[0] if start <= len(data) else 0
    return length if start + length <= len(data) else 0


def _cut_short(rest: bytes, mark: bytes) -> bool:
    """Return whether a frame begins that reaches the end of the file or exceeds it."""
    head = len(mark) + _FRAME.size
    if len(rest) < head:
        return rest.startswith(mark) or mark.startswith(rest)
    longer = _FRAME.unpack_from(rest, len(mark))[0] + head
    return rest.startswith(mark) and (longer > len(rest) or (not mark and longer == len(rest)))


# --- The folder -----------------------------------------------------------------------------------
_LOCK, _MODEL = "lock", "model.fstcrf"


class LearnerFolder:
    """The folder of a learner, held by one process at a time; made by `new` and `existing`."""

    def __init__(self, path: Path, sync: Sync) -> None:
        check_sync(sync)
        self.path, self.sync = path, sync
        self._lock, self._owner = _locked(path), os.getpid()
        self._journal: Journal | None = None
        self.number = max(_numbers(path, "state"), default=-1)

    @classmethod
    def new(cls, path: str | os.PathLike[str], sync: Sync) -> Self:
        """Return a new folder: it must be empty, except for remains of an interrupted creation."""
        place = Path(path_name(path))
        place.mkdir(parents=True, exist_ok=True)
        return cls._checked(place, sync, _check_new)

    @classmethod
    def existing(cls, path: str | os.PathLike[str], sync: Sync) -> Self:
        """Return a folder in which a learner is."""
        return cls._checked(Path(path_name(path)), sync, _check_complete)

    @classmethod
    def _checked(cls, path: Path, sync: Sync, check: Callable[[Path], None]) -> Self:
        check(path)  # before a lock is left among files of other things
        folder = cls(path, sync)
        try:
            check(path)  # nobody was quicker
        except BaseException:
            folder.close()
            raise
        return folder

    @property
    def model(self) -> Path:
        """The tagger at the beginning."""
        return self.path / _MODEL

    @property
    def state(self) -> Path:
        """The latest state."""
        return _state(self.path, self.number)

    @property
    def journal(self) -> Journal:
        """The events since the latest state."""
        self.check_held()
        if self._journal is None:
            self._journal = Journal(_journal(self.path, self.number), self.sync)
        return self._journal

    def check_held(self) -> None:
        """Refuse to go on where another process may have the folder by now."""
        if self._lock < 0:
            raise OptionError(
                f"{self.path}: the learner is closed: to continue, open it with "
                "FeedbackLearner.open"
            )
        if self._owner != os.getpid():
            raise OptionError(
                f"{self.path}: the learner is used by the parent of this process: use it only there"
            )

    @contextmanager
    def recorded(self, events: Sequence[Event]) -> Iterator[None]:
        """Append events to the journal, then let the caller do the same to the state.

        If the journal cannot be written, nothing changes. If the rest is interrupted (Ctrl-C), the
        state lags behind the journal. The folder is then closed, and opening it again repairs the
        state.
        """
        try:
            self.journal.append([_ENCODER.encode(event) for event in events])
            yield
        except OSError:
            raise
        except BaseException:
            self.close()
            raise

    def renew(self, state: State, settings: LearnerSettings) -> None:
        """Write a new state and begin a new journal; on failure, the old ones remain."""
        self.check_held()
        number = self.number + 1
        path = _state(self.path, number)
        fresh = Journal(_journal(self.path, number), self.sync, new=True)
        try:
            state.save(path, settings)
        finally:
            if path.exists():  # whole, even if something happened after that
                old, self._journal, self.number = self._journal, fresh, number
            else:
                old = fresh
            if old is not None:
                old.close()
        self._sweep()

    def close(self) -> None:
        """Let go of the folder."""
        if self._journal is not None:
            self._journal.close()
        if self._lock >= 0:
            os.close(self._lock)
        self._journal, self._lock = None, -1

    def _sweep(self) -> None:
        """Remove older states, and files that were only partly written."""
        for number in _numbers(self.path, "state"):
            if number < self.number:
                _journal(self.path, number).unlink(missing_ok=True)
                _state(self.path, number).unlink()
        for path in self.path.glob(".*.tmp"):
            path.unlink()


def _state(path: Path, number: int) -> Path:
    return path / f"state-{number}"


def _journal(path: Path, number: int) -> Path:
    return path / f"journal-{number}"


def _numbers(path: Path, kind: str) -> list[int]:
    parts = [file.name.partition("-") for file in path.iterdir()]
    return [int(number) for head, _, number in parts if head == kind and number.isdecimal()]


def _locked(path: Path) -> int:
    lock = os.open(path / _LOCK, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        raise OptionError(
            f"{path}: a learner has it open, in this process or another; close it first"
        ) from None
    return lock


def _check_new(path: Path) -> None:
    """Refuse a folder in which something is that `FeedbackLearner.create` did not leave."""
    names = {file.name for file in path.iterdir()}
    if _numbers(path, "state"):
        raise OptionError(
            f"{path}: is not empty: to continue a learner, open it with "
            "FeedbackLearner.open; to begin one, give an empty folder"
        )
    # A learner locks first, and appends to its journal only when there is a state.
    left = {_LOCK, _MODEL} if _LOCK in names else set()
    if is_empty(_journal(path, 0)):
        left.add(_journal(path, 0).name)
    odd = sorted(n for n in names - left if not (n.startswith(".") and n.endswith(".tmp")))
    if odd:
        raise OptionError(f"{path}: is not empty: there is {odd[0]}; choose another folder")


def _check_complete(path: Path) -> None:
    """Refuse a folder without a learner, or without one of its files."""
    begun = [n for n in _numbers(path, "journal") if not is_empty(_journal(path, n))]
    number = max([*_numbers(path, "state"), *begun], default=-1)
    if number < 0:
        raise ModelFileError(f"{path}: no learner here; FeedbackLearner.create one")
    for file in (path / _MODEL, _state(path, number), _journal(path, number)):
        if not file.is_file():
            raise ModelFileError(f"{file}: is missing from the learner; restore it from a copy")
