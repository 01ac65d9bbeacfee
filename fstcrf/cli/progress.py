"""Long work shows itself on standard error: how much is done, how fast, what is left.

===============  ==================================================================
progress_option  ``--progress`` and ``--no-progress``
wanted           what these say
visible          whether a block shows itself
progress         a block of work that shows itself once it has taken two seconds
listening        hears of blocks that do not, since they are part of what another one shows
Meter            what the block tells of how far it is
file_share       how much of a file is done, by its lines
===============  ==================================================================

On a terminal that is a line that changes in place, and goes when the work is done. Elsewhere
nothing is said, unless ``--progress`` asks for it: then a line after 2, 4, 8, ... seconds.
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
_WIDE, _BAR, _LEAST = 110, 20, 10  # characters: of a terminal with room for a bar, of that, of what


def progress_option(command: Command) -> Command:
    """Add ``--progress/--no-progress``."""

    def keep(context: click.Context, _: click.Parameter, given: bool | None) -> None:  # noqa: FBT001
        context.meta[_KEY] = given

    option: Callable[[Command], Command] = click.option(
        "--progress/--no-progress",
        default=None,
        expose_value=False,
        callback=keep,
        help="Show on standard error how far long work is, and how long the rest will take.  "
        "[default: on a terminal]",
    )
    return option(command)


def wanted() -> bool | None:
    """Return what ``--progress`` and ``--no-progress`` say; None: neither is given."""
    context = click.get_current_context(silent=True)
    found: bool | None = None if context is None else context.meta.get(_KEY)
    return found


class Meter:
    """How far a block of work is.

    Parameters
    ----------
    what : str
        What is being done.
    unit : str
        What is counted, in the plural; empty where that tells nothing.
    total : int, optional
        How many there are.
    """

    def __init__(self, what: str, unit: str, total: int | None = None) -> None:
        self.what, self.unit, self.total = what, unit, total
        self.done = 0
        self.line = 0  # of a file, the last that is done
        self._share: Callable[[], float | None] = lambda: None
        self._begun = self._told = time.monotonic()
        self._listens: Callable[[int, float | None], None] | None = None
        self._last = 0.0, 0.0  # the share that was told last, and the seconds after which it came

    def add(self, count: int = 1) -> None:
        """Count what has been done."""
        self.done += count
        if self._listens is not None and time.monotonic() - self._told >= _TOLD:
            self._told = time.monotonic()
            self._listens(self.done, self.share())

    def told_to(self, listens: Callable[[int, float | None], None] | None) -> None:
        """Set what hears now and then what is done, and its share."""
        self._listens = listens

    def measured(self, share: Callable[[], float | None]) -> None:
        """Set what tells the share that is done, where the total is not known."""
        self._share = share

    def share(self) -> float | None:
        """Return the share that is done, if that is known: 0 to 1."""
        if self.total:
            return min(1.0, self.done / self.total)
        return self._share()

    def figures(self, seconds: float | None = None) -> str:
        """Return how much is done, how fast, and what is left, in words."""
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
        """Return the seconds that are left, 0 where that cannot be said.

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
    """Tell whether a block that writes to an output shows itself."""
    asked = wanted()
    return _on_terminal(output) if asked is None else asked


def _on_terminal(output: str | None) -> bool:
    printed = output in ("-", "/dev/stdout")
    return sys.stderr.isatty() and not (printed and sys.stdout.isatty())


@contextmanager
def listening(listens: Callable[[int, float | None], None] | None) -> Iterator[None]:
    """Let something hear what blocks within this one have done; they show nothing themselves."""
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
    """Show how far a block is, from two seconds on; a block inside it is part of it.

    Parameters
    ----------
    what : str
        What it does: ``"tagging test.txt"``.
    unit : str
        What its meter counts.
    total : int, optional
        How many there are, if that is known.
    output : str, optional
        Where the block writes to: nothing is shown where that is the same terminal.

    Yields
    ------
    Meter
        To be told what is done.
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

    # What the work prints goes to standard output, whatever is shown beside it.
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
    """Return what is done, its beginning cut where it is too long, and how far it is."""
    figures, what = meter.figures(), meter.what
    room = max(_LEAST, room - len(figures) - 1)
    return f"{what if len(what) <= room else f'…{what[1 - room :]}'} {figures}"


# --- How much of a file is done -------------------------------------------------------------------


def file_share(path: str, meter: Meter) -> Callable[[], float | None]:
    """Return what tells the share of a file's lines that is done.

    The lines are counted when that is first asked. It tells None of what is no plain file: of
    standard input, or what is compressed.

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
    """Return how many lines a plain file has; 0 where that cannot be said."""
    if path == "-" or path.endswith(".gz") or not Path(path).is_file():
        return 0
    try:
        with Path(path).open("rb") as file:
            return sum(block.count(b"\n") for block in iter(lambda: file.read(_BLOCK), b""))
    except OSError:
        return 0
