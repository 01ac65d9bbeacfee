"""Progress of long work on standard error: finished work, speed, remaining time.

===============  ==================================================================
progress_option  ``--progress`` and ``--no-progress``
wanted           the choice of these options
visible          whether a block shows its progress
progress         a block of work that shows its progress after two seconds
listening        collects the progress of blocks inside another one
Meter            receives the progress of the block
file_share       finished share of a file, by its lines
===============  ==================================================================

On a terminal, progress is one line that changes in place, and disappears at the end. Elsewhere
nothing is printed without ``--progress``; with it, a line is printed after 2, 4, 8, ... seconds.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from pathlib import Path
from typing import Any, TypeVar

import click

from fstcrf.cli.reporting import say

Command = TypeVar("Command", bound=Callable[..., Any])

SOON = 2.0
"""Seconds after which work shows itself."""

_BEAT = 0.2
"""Seconds between two looks at how far a terminal's line is."""

_TOLD = 0.5
"""Seconds after which a listener hears again."""

_LONGEST = 60.0
"""Seconds between two lines, at most."""

_KEY = "fstcrf.progress"
_SHOWN: ContextVar[bool] = ContextVar("shown", default=False)  # a block around this one is
_LISTENS: ContextVar[Callable[[int, float | None], None] | None] = ContextVar("l", default=None)
_BLOCK = 1 << 20
_WIDE, _BAR, _LEAST = 110, 20, 10  # characters: of a terminal with a bar, of the bar, of text


def progress_option(command: Command) -> Command:
    """Add ``--progress/--no-progress``."""

    def keep(context: click.Context, _: click.Parameter, given: bool | None) -> None:  # noqa: FBT001
        context.meta[_KEY] = given

    option: Callable[[Command], Command] = click.option(
        "--progress/--no-progress",
        default=None,
        expose_value=False,
        callback=keep,
        help="Show the progress of long work.  [default: on a terminal]",
    )
    return option(command)


def wanted() -> bool | None:
    """Return the choice of ``--progress`` or ``--no-progress``; `None` without either."""
    context = click.get_current_context(silent=True)
    found: bool | None = None if context is None else context.meta.get(_KEY)
    return found


class Meter:
    """The progress of a block of work: of some units, of which there are `total` if known."""

    def __init__(self, what: str, unit: str, total: int | None = None) -> None:
        self.what, self.unit, self.total = what, unit, total
        self.done = 0
        self.line = 0  # the last finished line of a file
        self._share: Callable[[], float | None] = lambda: None
        self._begun = self._told = time.monotonic()
        self._listens: Callable[[int, float | None], None] | None = None
        self._last = 0.0, 0.0  # the last reported share, and the seconds at that time

    def add(self, count: int = 1) -> None:
        """Count finished objects."""
        self.done += count
        if self._listens is not None and time.monotonic() - self._told >= _TOLD:
            self._told = time.monotonic()
            self._listens(self.done, self.share())

    def told_to(self, listens: Callable[[int, float | None], None] | None) -> None:
        """Set a listener for the count and its share."""
        self._listens = listens

    def measured(self, share: Callable[[], float | None]) -> None:
        """Set the function that returns the finished share if the total is unknown."""
        self._share = share

    def share(self) -> float | None:
        """Return the share that is done, if that is known: 0 to 1."""
        if self.total:
            return min(1.0, self.done / self.total)
        return self._share()

    def figures(self, seconds: float | None = None) -> str:
        """Return the progress, the speed and the remaining time, in words."""
        spent = time.monotonic() - self._begun if seconds is None else seconds
        share = self.share()
        parts = []
        if self.done and self.unit:
            of = f" of {self.total:,}" if self.total else ""
            parts += [f"{self.done:,}{of} {self.unit}", _rate(self.done / max(spent, 1e-9))]
        if share is not None:
            parts.append(f"{100 * share:.0f} %")
        left = 0.0 if share is None else self._left(share, spent)
        parts.append(f"about {_time(left)} left" if left > 0 else f"{_time(spent)} so far")
        return ", ".join(parts)

    def _left(self, share: float, spent: float) -> float:
        """Return the remaining seconds, 0 if unknown.

        While a step lasts they become fewer, until it has taken all that was left.
        """
        if share != self._last[0]:
            self._last = share, spent
        since = self._last[1]
        return since * (1 - share) / share - (spent - since) if share >= 0.01 else 0.0


def _rate(rate: float) -> str:
    return f"{rate:,.0f} a second" if rate >= 10 else f"{rate:.2g} a second"


def _time(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60} min"


def visible(output: str | None = None) -> bool:
    """Return whether a block that writes to an output shows its progress."""
    asked = wanted()
    return _on_terminal(output) if asked is None else asked


def _on_terminal(output: str | None) -> bool:
    printed = output in ("-", "/dev/stdout")
    return sys.stderr.isatty() and not (printed and sys.stdout.isatty())


@contextmanager
def listening(listens: Callable[[int, float | None], None] | None) -> Iterator[None]:
    """Set a listener for blocks within this one, which then show no progress."""
    before, shown = _LISTENS.set(listens), _SHOWN.set(True)
    try:
        yield
    finally:
        _SHOWN.reset(shown)
        _LISTENS.reset(before)


@contextmanager
def progress(
    what: str, unit: str = "sentences", total: int | None = None, *, output: str | None = None
) -> Iterator[Meter]:
    """Show the progress of a block, after two seconds; a block inside it is part of it.

    Parameters
    ----------
    what : str
        What it does: ``"tagging test.txt"``.
    unit : str
        The counted objects of its meter.
    total : int, optional
        How many there are, if that is known.
    output : str, optional
        The output of the block: no progress is shown if that is the same terminal.

    Yields
    ------
    Meter
        The meter, which receives the progress.
    """
    meter = Meter(what, unit, total)
    if _SHOWN.get() or not visible(output):
        meter.told_to(_LISTENS.get())
        yield meter
        return
    terminal = _on_terminal(output)
    shown = _SHOWN.set(True)
    done = threading.Event()
    show = _in_place if terminal else _lines
    teller = threading.Thread(target=copy_context().run, args=(show, meter, done), daemon=True)
    teller.start()
    try:
        yield meter
    finally:
        _SHOWN.reset(shown)
        done.set()
        teller.join()


def _lines(meter: Meter, done: threading.Event) -> None:
    wait, seconds = SOON, SOON
    while not done.wait(wait):
        facts: dict[str, Any] = {"done": meter.done, "total": meter.total, "share": meter.share()}
        say(f"{meter.what}: {meter.figures()}", "progress", **facts)
        wait = min(seconds, _LONGEST)
        seconds += wait


def _in_place(meter: Meter, done: threading.Event) -> None:
    if done.wait(SOON):
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

    # The work prints to standard output, independently of the display.
    console = Console(stderr=True)
    wide = console.width >= _WIDE
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        *([BarColumn(bar_width=_BAR)] if wide else []),
    )
    room = console.width - (_BAR + 4 if wide else 3)
    with Progress(*columns, console=console, transient=True, redirect_stdout=False) as bar:
        task = bar.add_task(_fitted(meter, room), total=None)
        while not done.wait(_BEAT):
            bar.update(task, description=_fitted(meter, room))
            share = meter.share()
            if share is not None:
                bar.update(task, total=1.0, completed=share)


def _fitted(meter: Meter, room: int) -> str:
    """Return the name of the work, cut at its beginning if it is too long, and its progress."""
    figures, what = meter.figures(), meter.what
    room = max(_LEAST, room - len(figures) - 1)
    return f"{what if len(what) <= room else f'…{what[1 - room :]}'} {figures}"


# --- How much of a file is done -------------------------------------------------------------------


def file_share(path: str, meter: Meter) -> Callable[[], float | None]:
    """Return a function that computes the finished share of a file's lines.

    The lines are counted on its first call. It returns `None` unless it is a plain file: for
    standard input, or compressed files.

    Parameters
    ----------
    path : str
    meter : Meter
        Its `line` is the last that is done.
    """
    counted: list[int] = []

    def share() -> float | None:
        if not counted:
            counted.append(_count(path))
        return min(1.0, meter.line / counted[0]) if counted[0] else None

    return share


def _count(path: str) -> int:
    """Return the number of lines of a plain file; 0 if unknown."""
    if path == "-" or path.endswith(".gz") or not Path(path).is_file():
        return 0
    try:
        with Path(path).open("rb") as file:
            return sum(block.count(b"\n") for block in iter(lambda: file.read(_BLOCK), b""))
    except OSError:
        return 0
