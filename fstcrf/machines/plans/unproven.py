"""Answers that a budget cut short: they are not proven, and a warning says so."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from fstcrf.errors import InexactWarning

__all__ = ["gathered", "warn_unproven"]

_PACKAGE = __name__.partition(".")[0]

_gathering: ContextVar[list[tuple[int, int]] | None] = ContextVar("_gathering", default=None)


def warn_unproven(unproven: int, answers: int) -> None:
    """Warn of answers that a search gave before its proof; nothing where there are none.

    Parameters
    ----------
    unproven : int
        So many of the answers are not proven.
    answers : int
    """
    waiting = _gathering.get()
    if waiting is not None:
        waiting.append((unproven, answers))
    elif unproven:
        are = "are" if unproven > 1 else "is"
        warnings.warn(
            f"{unproven:,} of {answers:,} answers {are} the best found, not proven to be the best "
            "(Path.exact, Path.bound); a larger budget looks further",
            InexactWarning,
            stacklevel=_outside(),
        )


@contextmanager
def gathered() -> Iterator[None]:
    """Give one warning for all that the block would warn of."""
    counts: list[tuple[int, int]] = []
    token = _gathering.set(counts)
    try:
        yield
    finally:
        _gathering.reset(token)
    warn_unproven(sum(unproven for unproven, _ in counts), sum(answers for _, answers in counts))


def _outside() -> int:
    """Return the stack level, for `warn_unproven`, of the caller of the package."""
    level, frame = 1, sys._getframe(1)  # noqa: SLF001 (inspect.stack reads source files)
    while frame.f_back is not None and _inside(frame.f_globals.get("__name__", "")):
        level, frame = level + 1, frame.f_back
    return level


def _inside(module: str) -> bool:
    return module.partition(".")[0] in {_PACKAGE, "contextlib"}
