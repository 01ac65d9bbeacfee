"""What operations on transducers cost: machines of some shapes at n and at 2 n, and at too many.

Work is counted, not timed, so that a busy machine changes nothing: lines of the library that run,
and bytes that each of them asks for. Where the answer is no larger than a multiple of the machine,
the work at 2 n is at most 2.7 times that at n, as of n log n; n² would be 4 times that. What would
be large is refused before memory is taken.
"""

from __future__ import annotations

import signal
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from types import FrameType
from typing import Any, NamedTuple

import numpy as np
import pytest

from fstcrf import Grammar, Transducer
from fstcrf.errors import GrammarError, TooLargeError
from fstcrf.machines.ways import components
from tests.support.memory import grown

Make = Callable[[int], Transducer]

_N = 600


def _machine(source: Any, label: Any, target: Any, states: int, final: Any = None) -> Transducer:
    """Return an acceptor over as many labels as are named; it may end in its last state."""
    label = np.asarray(label)
    names = [f"x{k}" for k in range(int(label.max(initial=0)) + 1)]
    ends = np.full(states, -np.inf)
    ends[-1 if final is None else final] = 0.0
    score = np.full(len(label), -1 - np.log(max(1, len(label))))  # sums are finite
    return Transducer.from_arrays(
        source, label, label, target, score, ends,
        input_symbols=names, output_symbols=names, tape=None,
    )  # fmt: skip


def chain(n: int) -> Transducer:
    return _machine(np.arange(n), np.zeros(n, int), np.arange(1, n + 1), n + 1)


def backwards(n: int) -> Transducer:
    """A chain whose states are numbered from its end, but for the first."""
    order = np.append(0, np.arange(n, 0, -1))
    return _machine(order[:-1], np.zeros(n, int), order[1:], n + 1, final=int(order[-1]))


def cycle(n: int) -> Transducer:
    return _machine(np.arange(n), np.zeros(n, int), np.arange(1, n + 1) % n, n)


def silent(n: int) -> Transducer:
    label = np.full(n, -1)
    label[0] = 0
    return _machine(np.arange(n), label, np.arange(1, n + 1), n + 1)


def star(n: int) -> Transducer:
    """One state, from which a label leads to each of n, and back."""
    out, back = np.zeros(n, int), np.arange(1, n + 1)
    source, target = np.append(out, back), np.append(back, out)
    return _machine(source, np.append(np.arange(n), np.arange(n)), target, n + 1, final=0)


def parallel(n: int) -> Transducer:
    return _machine(np.zeros(n, int), np.zeros(n, int), np.ones(n, int), 2)


def wide(n: int) -> Transducer:
    """A loop of each of n labels."""
    return _machine(np.zeros(n, int), np.arange(n), np.zeros(n, int), 1)


def loops(n: int) -> Transducer:
    """A chain with a loop at each state."""
    at = np.arange(n)
    source, target = np.append(at, at), np.append(at + 1, at)
    return _machine(source, np.append(np.zeros(n, int), np.ones(n, int)), target, n + 1)


def clique(n: int) -> Transducer:
    """As many arcs as the others have: fewer states."""
    size = int(np.sqrt(n))
    source, target = np.divmod(np.arange(size * size), size)
    return _machine(source, np.zeros(size * size, int), target, size)


SHAPES: dict[str, Make] = {
    f.__name__: f for f in (chain, backwards, cycle, silent, star, parallel, wide, loops, clique)
}

OPERATIONS: dict[str, Callable[[Transducer], Any]] = {
    "push": lambda a: a.push(),
    "push, best": lambda a: replace(a, semiring="tropical").push(),
    "sample": lambda a: a.sample(1),
    "determinize": lambda a: a.determinize(),
    "minimize": lambda a: a.minimize(),
    "remove_epsilon": lambda a: a.remove_epsilon(),
    "@": lambda a: a @ a,
    "|": lambda a: a | a,
    "+": lambda a: a + a,
    "closure": lambda a: a.closure(),
    "reverse": lambda a: a.reverse(),
    "~": lambda a: ~a.support(),
    "-": lambda a: a.support() - a.support(),
    "shortest": lambda a: a.shortest(),
    "example": lambda a: a.example(),
    "replace": lambda a: a.replace({"x0": _machine([0], [0], [1], 2)}, 1),
    "to_att": lambda a: a.to_att(),
}

_PAIRS = "the answer has n² arcs"
LARGER = {  # where more than n log n is right
    ("@", "parallel"): _PAIRS,
    ("@", "clique"): _PAIRS,
    ("@", "silent"): "two machines that go on alone: n² pairs of states",
    ("push", "cycle"): "n equations of n numbers, up to 2,000",
    ("push", "star"): "n equations of n numbers, up to 2,000",
    ("~", "star"): "each of n states reads n labels",
    ("-", "star"): "each of n states reads n labels",
    ("minimize", "star"): "a table of n states and n labels",
}


class Work(NamedTuple):
    lines: int
    bytes: int


def work(ask: Callable[[], Any]) -> Work:
    """Return how many lines of the library a question runs, and how many bytes these ask for."""
    lines = size = before = 0

    def line(_: FrameType, event: str, __: Any) -> Any:
        nonlocal lines, size, before
        if event == "line":
            now, most = tracemalloc.get_traced_memory()
            lines, size = lines + 1, size + max(0, most - before)
            before = now
            tracemalloc.reset_peak()
        return line

    def call(frame: FrameType, *_: Any) -> Any:
        return line if "/fstcrf/" in frame.f_code.co_filename else None

    usual = sys.gettrace()
    tracemalloc.start()
    sys.settrace(call)
    try:
        ask()
    finally:
        sys.settrace(usual)
        tracemalloc.stop()
    return Work(lines, size)


@pytest.mark.thorough
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_twice_as_much_takes_little_more_than_twice_the_work(operation: str, shape: str) -> None:
    ask, make = OPERATIONS[operation], SHAPES[shape]
    ask(make(9))  # what is imported and kept at the first call
    one, two = (work(partial(ask, make(n))) for n in (_N, 2 * _N))
    grown = max(two.lines / one.lines, two.bytes / one.bytes)
    if grown >= 2.7 and (operation, shape) not in LARGER:  # the way for larger machines begins here
        one, two = two, work(partial(ask, make(4 * _N)))
        grown = max(two.lines / one.lines, two.bytes / one.bytes)
    if (operation, shape) in LARGER:
        assert grown > 2.7, "it takes no more work than others: strike it from the list"
    else:
        assert grown < 2.7, f"{one} → {two}"


def test_the_law_notices() -> None:
    def squared(n: int) -> Any:
        best = np.zeros(n)
        code = compile("for _ in range(n):\n    best = best + 1", "/fstcrf/x.py", "exec")
        return lambda: exec(code, {"n": n, "best": best})

    one, two = work(squared(400)), work(squared(800))
    assert two.bytes / one.bytes > 3
    assert 1.9 < two.lines / one.lines < 2.1


# --- What is too large ----------------------------------------------------------------------------


def _named(n: int) -> list[str]:
    return [f"l{k}" for k in range(n)]


def _relation(text: str, labels: list[str]) -> Callable[[], Any]:
    return lambda: Transducer.from_grammar(text, labels)


def _subsets(log: bool) -> Transducer:
    """The label 5,000 times, 12 labels from the end of a string: 2¹² sets of states."""
    labels = np.tile(np.arange(5_000), 12)
    source = np.repeat(np.arange(12), 5_000)
    target = np.append(np.zeros(5_000, int), source[5_000:] + 1)
    found = _machine(np.append(source, 0), np.append(labels, 0), np.append(target, 1), 13)
    return found if log else replace(found, semiring="tropical")


def _sparse() -> Transducer:
    at = np.arange(9_000)
    found = _machine(at, at, at + 1, 9_001)
    names = tuple(map(str, range(65_536)))
    return replace(found, input_symbols=names, output_symbols=names)


def _of_epsilon(n: int) -> Transducer:
    """Each state reads a label, and goes to each other one without."""
    source, target = np.divmod(np.arange(n * n), n)
    label = np.where(target == (source + 1) % n, 0, -1)
    return _machine(source, label, target, n)


def _silent_clique(n: int) -> Transducer:
    """All arcs but one are silent; their sums are finite."""
    source, target = np.divmod(np.arange(n * n), n)
    label = np.full(n * n, -1)
    label[1] = 0
    return _machine(source, label, target, n)


def _doubled() -> Transducer:
    return Transducer.from_text("0 1 S\n1 2 S\n0 2 x\n2", tape=None)


def _calls() -> Transducer:
    return Transducer.from_text("0 1 S\n0 1 x\n1", tape=None)


TOO_LARGE: dict[str, Callable[[], Any]] = {
    "replace: deep": lambda: _calls().replace({"S": _calls()}, 10**9),
    "replace: doubled": lambda: _doubled().replace({"S": _doubled()}, 30),
    "@: parallel arcs": lambda: parallel(15_000) @ parallel(15_000),
    "@: cliques": lambda: clique(250_000) @ clique(250_000),
    "~: many labels": lambda: ~_sparse().support(),
    "-: many labels": lambda: _sparse().support() - _sparse().support(),
    "minimize: many labels": lambda: _sparse().minimize(),
    "a state far away": lambda: Transducer.from_arrays(
        [0], [0], [0], [2**31 - 1], input_symbols=["a"], output_symbols=["a"], tape=None
    ),
    "determinize: sums": lambda: _subsets(log=True).determinize(),
    "determinize: best": lambda: _subsets(log=False).determinize(),
    "remove_epsilon: clique": lambda: _of_epsilon(700).remove_epsilon(),
    "remove_epsilon: sums": lambda: _silent_clique(300).remove_epsilon(),
    "remove_epsilon: best": lambda: replace(
        _silent_clique(300), semiring="tropical"
    ).remove_epsilon(),
    "push: equations": lambda: cycle(5_000).push(),
    "relations: @": _relation("A=(any:any)*;B=A@A;export C=B@B;", _named(60)),
    "relations: pairs": _relation("export A=(any any:any any)*;", _named(3_000)),
    "relations: doubled": _relation(
        "export X="
        + " @ ".join(['(("[l0]":"[l0][l0]")|("[l1]":"[l1][l1]"))*'] * 24) + ";", _named(2)
    ),
}  # fmt: skip


@pytest.fixture
def watchdog() -> Iterator[None]:
    """End what does not answer at all."""

    def bark(*_: Any) -> None:
        raise TimeoutError("not refused for two minutes")

    usual = signal.signal(signal.SIGALRM, bark)
    signal.alarm(120)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, usual)


REFUSED = "more|at most|too large|without gaps|exceed"
_SECONDS = 20
"""Of the processor, ten times what a quiet machine takes."""


def seconds(name: str) -> float:
    """Return how long a refusal takes, in seconds of the processor."""
    begun = time.process_time()
    with pytest.raises((TooLargeError, GrammarError), match=REFUSED):
        TOO_LARGE[name]()
    return time.process_time() - begun


@pytest.mark.thorough
@pytest.mark.usefixtures("watchdog")
@pytest.mark.parametrize("name", TOO_LARGE)
def test_what_is_too_large_is_refused_soon_before_memory_is_taken(name: str) -> None:
    took: list[float] = []
    assert grown(lambda: took.append(seconds(name))) < 400e6
    assert took[0] < _SECONDS


def test_rules_for_each_of_many_types() -> None:
    """A rule for each of n types reads n² pairs of labels, not n³ numbers of them."""

    def ask(n: int) -> Callable[[], Any]:
        labels = ["O", *(f"B-t{k}" for k in range(n))]
        text = 'export X = all t in parts["B-(.*)"] { at_most[1, t] };'
        return lambda: Grammar.from_text(text, labels).accepts(["O"])

    ask(3)()
    one, two = work(ask(40)), work(ask(80))
    assert two.lines / one.lines < 4.5


@pytest.mark.usefixtures("watchdog")
def test_long_labels_are_not_compared() -> None:
    """That takes the product of their lengths, for a message."""
    labels = ["O", "B-" + "xy" * 100_000, "B-xyz"]
    with pytest.raises(GrammarError, match="no label") as caught:
        Grammar.from_text(f'export X = "[B-{"yx" * 100_000}]";', labels).accepts(["O"])
    assert len(str(caught.value)) <= 600
    with pytest.raises(GrammarError, match="the nearest are 'B-xyz'"):
        Grammar.from_text('export X = "[B-xyy]";', labels).accepts(["O"])


def test_components_of_a_long_chain() -> None:
    found = components([[k + 1] for k in range(99_999)] + [[]])
    assert len(found) == 100_000
    assert found[0] == [99_999]
    assert components([[k + 1] for k in range(99_999)] + [[0]])[0][-1] == 0


if __name__ == "__main__":  # the figure in docs/reference/reliability.md
    for case in TOO_LARGE:
        sys.stdout.write(f"{seconds(case):6.2f} s  {case}\n")
