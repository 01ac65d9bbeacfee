"""Failures on the command line: one line on stderr and an exit status.

Exit status: 0 done, 1 a failure of the work, 2 wrong usage, 130 interrupted.
"""

from __future__ import annotations

import errno
import json
import math
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import asdict
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from fstcrf.errors import (
    DataError,
    FstcrfError,
    InexactWarning,
    LabelWarning,
    LearningWarning,
    MemoryWarning,
    OptionError,
    RecoveryWarning,
)
from fstcrf.training.interruption import SIGNALS, handling

if TYPE_CHECKING:
    from rich.progress import Progress as Bar
    from rich.progress import TaskID

    from fstcrf.text.corpus import Corpus
    from fstcrf.text.corpus.columns import WidthError
    from fstcrf.training import Progress

DEBUG = "FSTCRF_DEBUG"
"""Environment variable: when it is set, exceptions keep their tracebacks."""

FAILED, USAGE, INTERRUPTED = 1, 2, 130
_OF_WRITING = (errno.EBADF, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.ENOSPC)
STOPPING = "stopping after this iteration; Ctrl-C again stops at once"
_JSON: ContextVar[bool] = ContextVar("json", default=False)


class Failure(click.ClickException):
    """A message and an exit status; an empty message is not shown."""

    def __init__(self, message: str, status: int = FAILED) -> None:
        super().__init__(message)
        self.exit_code = status  # type: ignore[misc]  # a class attribute there


def failed(error: BaseException) -> Failure:
    """Return the failure that reports an exception, after all output."""
    with suppress(OSError):  # it is the failure that is being reported, or follows from it
        keep_stdout()
    return as_failure(error)


def as_failure(error: BaseException) -> Failure:
    """Return the failure that reports an exception."""
    if isinstance(error, KeyboardInterrupt) or isinstance(error.__cause__, KeyboardInterrupt):
        return Failure("interrupted", INTERRUPTED)  # Python 3.11 wraps exceptions of `__set_name__`
    if isinstance(error, BrokenPipeError):
        return Failure("")  # the reader of the output has closed it
    if isinstance(error, FstcrfError):
        return Failure(str(error), USAGE if isinstance(error, OptionError) else FAILED)
    if isinstance(error, OSError):
        return Failure(_system(error))
    if isinstance(error, MemoryError):
        return Failure("out of memory")
    kind = type(error).__name__
    return Failure(f"this should not happen: {kind}: {error} (set {DEBUG}=1 for a traceback)")


def _system(error: OSError) -> str:
    """Return the system's message: without a file name, writing to standard output failed."""
    what = error.strerror or str(error)
    unnamed = "<stdout>" if error.errno in _OF_WRITING else None
    name = unnamed if error.filename is None else os.fsdecode(error.filename)
    return what if name is None else f"{name}: {what}"


def too_narrow(error: WidthError, columns: Sequence[str], least: int) -> DataError:
    """Return the error for a row of too few columns, if some of the last ones may be missing.

    Parameters
    ----------
    error : WidthError
        An error of a file with `columns`.
    columns : sequence of str
    least : int
        The required number of columns.
    """
    if not error.width < least < len(columns):
        return error
    given = "1 column" if error.width == 1 else f"{error.width} columns"
    message = error.message.replace(
        f"{error.width} columns, expected {len(columns)} ({', '.join(columns)})",
        f"{given}, expected at least {least} ({', '.join(columns[:least])})",
        1,
    )
    return DataError(message, path=error.path, line=error.line)


def say(message: str, event: str = "message", **facts: Any) -> None:
    """Print one line on stderr, after the program's name; within `as_json`, as such an event."""
    line = " ".join(message.splitlines())
    if _JSON.get():
        log(event, message=line, **facts)
    else:
        tell(f"fstcrf: {'error: ' if event == 'error' else ''}{line}")


def log(event: str, **facts: Any) -> None:
    """Print a JSON object on stderr, with the member ``event``; NaN and infinities are null."""
    sound = {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in facts.items()
    }
    tell(json.dumps({"event": event, **sound}, ensure_ascii=False))


@contextmanager
def as_json(wanted: bool) -> Iterator[None]:  # noqa: FBT001 (a switch around a block)
    """Print the messages of a block as JSON, if that is wanted."""
    token = _JSON.set(wanted)
    try:
        yield
    finally:
        _JSON.reset(token)


def tell(line: str) -> None:
    """Print a line on stderr; a closed stderr is not a failure of the work."""
    with suppress(OSError):
        click.echo(line, err=True)


@contextmanager
def warnings_to(tell_one: Callable[[str], None]) -> Iterator[None]:
    """Report each warning about labels, rules or memory once, in a line without its place."""
    told: set[str] = set()

    def show(message: Warning | str, *_: object, **__: object) -> None:
        if str(message) not in told:
            told.add(str(message))
            tell_one(str(message))

    with warnings.catch_warnings():
        for kind in (LabelWarning, LearningWarning, MemoryWarning):
            warnings.simplefilter("always", kind)
        warnings.showwarning = show
        yield


def open_streams() -> None:
    """Give streams that were closed before the program began something to fail on.

    Otherwise, files that the program opens would receive their numbers, and messages would be
    written into these files. Messages to no standard error are dropped; to read from no standard
    input, or to write to no standard output, is an error of the system like others.
    """
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is not None:
            continue
        # This takes the smallest number that is free, so the one that the stream had.
        number = os.open(os.devnull, os.O_RDONLY if name == "stdout" else os.O_WRONLY)
        os.set_inheritable(number, True)  # noqa: FBT003
        mode = "r" if name == "stdin" else "w"
        stream = open(number, mode, encoding="utf-8", errors="surrogateescape", closefd=False)  # noqa: SIM115
        setattr(sys, name, stream)


def keep_stdout() -> None:
    """Flush standard output; if that fails, keep the interpreter from trying again at exit."""
    try:
        sys.stdout.flush()
    except OSError:
        with suppress(OSError, ValueError):  # a stdout without a file descriptor
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise


@contextmanager
def interruptible() -> Iterator[None]:
    """Handle SIGTERM like Ctrl-C: results are saved, temporary files are removed."""
    with handling((signal.SIGTERM,), lambda _: signal.default_int_handler):
        yield


@contextmanager
def stopping(line: str) -> Iterator[None]:
    """Answer the first Ctrl-C with a line on stderr, because ending may take time."""
    answered: list[int] = []

    def answers(before: Any) -> Any:
        def answer(number: int, frame: FrameType | None) -> None:
            if not answered:
                answered.append(number)
                with suppress(OSError):  # a handler must not print: it may interrupt another print
                    os.write(2, f"{line}\n".encode())
            before(number, frame)

        return answer if callable(before) else before

    with handling(SIGNALS, answers):
        yield


@contextmanager
def warned() -> Iterator[None]:
    """Warn in a line on stderr, not in Python's words: of unproven answers, torn journals, labels.

    Of labels once: grammars are bound to them several times.
    """
    told: set[str] = set()
    with warnings.catch_warnings():
        for kind in (InexactWarning, RecoveryWarning, LabelWarning):
            warnings.simplefilter("always", kind)
        others = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *rest: Any) -> None:
            if issubclass(category, LabelWarning) and str(message) in told:
                return
            if issubclass(category, InexactWarning | RecoveryWarning | LabelWarning):
                told.add(str(message))
                say(f"warning: {message}")
            else:
                others(message, category, *rest)

        warnings.showwarning = show  # type: ignore[assignment]
        yield


@contextmanager
def counted() -> Iterator[None]:
    """Give no warning of answers that are not proven: the block counts them itself."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InexactWarning)
        yield


# --- Telling how training goes --------------------------------------------------------------------


class Reporter:
    """Receives the data, every iteration, and the end: reports each in a line on stderr."""

    def data(self, message: str, **_: Any) -> None:
        """Report the data."""
        say(message)

    def line(self, message: str) -> str:
        """Return the line that a message is."""
        return f"fstcrf: {message}"

    def note(self, message: str) -> None:
        """Report a remark before training."""
        say(message)

    def iteration(self, progress: Progress) -> None:
        """Hear how an iteration went."""
        tell(f"{_stage(progress)}iteration {progress.iteration:4}  {_figures(progress)}")

    def done(self, message: str, **_: Any) -> None:
        """Hear the end."""
        say(message)


class _Json(Reporter):
    """One JSON object per line, with the member ``event``."""

    def data(self, message: str, **facts: Any) -> None:
        log("data", message=message, **facts)

    def line(self, message: str) -> str:
        return json.dumps({"event": "note", "message": message})

    def note(self, message: str) -> None:
        tell(self.line(message))

    def iteration(self, progress: Progress) -> None:
        facts = asdict(progress)
        facts |= facts.pop("measures")
        log("iteration", objective=facts.pop("value"), **facts)

    def done(self, message: str, **facts: Any) -> None:
        log("done", message=message, **facts)


class _Live(Reporter):
    """A line that changes in place."""

    def __init__(self, bar: Bar, task: TaskID) -> None:
        self._bar, self._task = bar, task
        self._best = ""

    def iteration(self, progress: Progress) -> None:
        if progress.dev is not None and progress.best:
            self._best = f"  (best: iteration {progress.iteration})"
        figures = _stage(progress) + _figures(progress) + self._best
        self._bar.update(self._task, completed=progress.iteration, figures=figures)

    def done(self, message: str, **facts: Any) -> None:
        self._bar.stop()
        super().done(message, **facts)


@contextmanager
def reporter(*, as_json: bool, max_iterations: int | None) -> Iterator[Reporter]:
    """Give the reporter that fits stderr and the options; without `max_iterations`, no bar."""
    if as_json:
        yield _Json()
    elif not sys.stderr.isatty():
        yield Reporter()
    else:
        with _bar(max_iterations) as live:
            yield live


@contextmanager
def _bar(max_iterations: int | None) -> Iterator[_Live]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, TextColumn

    columns: list[ProgressColumn] = [
        SpinnerColumn(),
        TextColumn("iteration {task.completed}"),
        TextColumn("{task.fields[figures]}"),
    ]
    if max_iterations is not None:
        columns.insert(1, BarColumn(bar_width=20))
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        yield _Live(bar, bar.add_task("training", total=max_iterations, figures=""))


def _stage(progress: Progress) -> str:
    """Return the name of the current fold or task, if there is one."""
    stage: str | None = getattr(progress, "stage", None)
    return "" if stage is None else f"{stage}: "


def _figures(progress: Progress) -> str:
    parts = [f"objective {progress.value:,.2f}"]
    if progress.gradient_norm is not None:
        parts.append(f"gradient {progress.gradient_norm:.4g}")
    parts.append(f"evaluations {progress.evaluations}")
    if progress.dev is not None:
        parts.append(f"dev {100 * progress.dev:.2f}{' *' if progress.best else ''}")
    return "  ".join([*parts, f"{progress.seconds:.1f} s"])


# --- A long search says on standard error that it is working --------------------------------------

_SOON = 2.0
"""Seconds before the first report; each later report comes after twice the time."""


@contextmanager
def working(what: str) -> Iterator[None]:
    """Report the work of the block if it takes longer than some seconds."""
    done = threading.Event()

    def tell() -> None:
        seconds = _SOON
        wait = seconds
        while not done.wait(wait):
            say(f"working on {what}: {seconds:g} s so far")
            wait, seconds = seconds, 2 * seconds

    teller = threading.Thread(target=tell, daemon=True)
    teller.start()
    try:
        yield
    finally:
        done.set()
        teller.join()


def place(batch: Corpus, sentence: int | None = None) -> str:
    """Return a description of one sentence of a batch, or of the longest one."""
    lengths = batch.offsets[1:] - batch.offsets[:-1]
    longest = int(lengths.argmax()) if sentence is None else sentence
    where = batch.where(int(batch.offsets[longest]))
    at = f" (line {where['line']:,})" if "line" in where else ""
    size = f"{lengths[longest]:,} tokens{at}"
    if len(batch) == 1 or sentence is not None:
        return f"sentence {longest + 1:,} of {len(batch):,}, of {size}"
    return f"{len(batch):,} sentences, the longest of {size}"
