"""Children that are forked while another thread is making something answer like their parents.

A thread that asks is stopped wherever it is about to make a value that is kept, or to change what
threads change in turns: with the lock in its hand. There the process is forked, and the child, in
which that thread is not, asks the same object the same question.
"""

from __future__ import annotations

import faulthandler
import os
import sys
import threading
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from types import CodeType, FrameType
from typing import Any

import pytest

from fstcrf.kernel.native import Workers
from fstcrf.lazy import Turns, made_once, making, memoised
from tests.property.test_pickles import KINDS_OF_THINGS, alike, doubled

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork"),
    pytest.mark.filterwarnings(
        "ignore::fstcrf.errors.InexactWarning",
        "ignore:.*multi-threaded, use of fork:DeprecationWarning",  # that is what is tested
    ),
]

_SECONDS = 30
"""Until a child that does not answer is ended: nothing here takes one."""


def child(ask: Callable[[], bool]) -> str:
    """Return what becomes of a forked child that asks something."""
    process = os.fork()
    if process == 0:
        faulthandler.dump_traceback_later(_SECONDS, exit=True)
        right = False
        try:
            right = ask()
        finally:
            os._exit(0 if right else 3)
    code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    return {0: "right", 1: "hangs", 3: "wrong"}.get(code, str(code))


def makes(code: CodeType) -> bool:
    """Whether a function that calls others holds a lock meanwhile."""
    file = os.path.basename(code.co_filename)  # noqa: PTH119 (of every call that is made)
    return file in {"lazy.py", "functools.py"} or bool({"_turns", "making"} & {*code.co_names})


def forked(ask: Callable[[], Any], again: Callable[[], bool]) -> dict[str, str]:
    """Ask in a thread; return what children say that are forked wherever it makes something."""
    places: SimpleQueue[str] = SimpleQueue()
    onward = threading.Semaphore(0)
    seen: set[CodeType] = set()

    def look(frame: FrameType, event: str, _: object) -> None:
        caller = frame.f_back
        if event == "call" and caller and frame.f_code not in seen and makes(caller.f_code):
            seen.add(frame.f_code)
            places.put(frame.f_code.co_qualname)
            onward.acquire()

    def go() -> None:
        sys.setprofile(look)
        try:
            ask()
        finally:
            sys.setprofile(None)
            places.put("")

    thread = threading.Thread(target=go, daemon=True)
    thread.start()
    found = {}
    for place in iter(places.get, ""):
        found[place] = child(again)
        onward.release()
    thread.join()
    return found


@pytest.mark.thorough
@pytest.mark.parametrize("name", KINDS_OF_THINGS)
def test_children_answer(name: str) -> None:
    """Whatever is public, asked for the first time."""
    make, ask = KINDS_OF_THINGS[name]
    value = make()
    wanted, new = ask(value), doubled(value)[0]
    found = forked(lambda: ask(new), lambda: alike(ask(new), wanted))
    assert set(found.values()) <= {"right"}, found


class Slow:
    """Values of each kind that is made once, and a lock."""

    def __init__(self) -> None:
        self.turns = self._turns = Turns()

    @made_once
    def value(self) -> int:
        return self.one()

    @memoised(4)
    def kept(self) -> int:
        return self.one()

    def making(self) -> int:
        with making(self, "making"):
            return self.one()

    def in_turns(self) -> int:
        with self._turns.lock:
            return self.one()

    def one(self) -> int:
        return int(abs(-1))


WAYS: dict[str, Callable[[Slow], int]] = {
    "a property": lambda one: one.value,
    "a function": lambda one: one.kept(),
    "a context": Slow.making,
    "turns": Slow.in_turns,
}


@pytest.mark.parametrize("way", WAYS)
def test_what_is_made_once_is_made_again(way: str) -> None:
    one = Slow()
    found = forked(lambda: WAYS[way](one), lambda: WAYS[way](one) == 1)
    assert found
    assert set(found.values()) == {"right"}


def test_a_pool_of_threads_has_threads() -> None:
    workers = Workers(2)
    assert list(workers.map(abs, [-1, -2, -3])) == [1, 2, 3]
    assert child(lambda: list(workers.map(abs, [-1, -2, -3])) == [1, 2, 3]) == "right"


@pytest.fixture
def quick() -> Iterator[None]:
    """Do not wait long for what is known not to answer."""
    global _SECONDS  # noqa: PLW0603
    usual, _SECONDS = _SECONDS, 1
    yield
    _SECONDS = usual


@pytest.mark.usefixtures("quick")
def test_the_law_notices() -> None:
    lock = threading.RLock()

    class Held:
        _turns = None

        def ask(self) -> int:
            self._turns = None
            with lock:
                return self.one()

        def one(self) -> int:
            return 1

    one = Held()
    assert set(forked(one.ask, lambda: one.ask() == 1).values()) == {"hangs"}
    assert child(lambda: False) == "wrong"
