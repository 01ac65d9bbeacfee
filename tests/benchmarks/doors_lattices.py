"""Questions about lattices through two doors: a costly question over a cheap one.

``python -m tests.benchmarks.doors_lattices WORK JSON`` does one piece of work, as
`tests.benchmarks.doors` does. Each answer is of a fresh lattice, since a lattice keeps its sums.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import fstcrf
from fstcrf import Lattice, Lattices, Transducer
from fstcrf.arrays import Floats
from fstcrf.constraints import at_most, bio, bioes, contiguous
from fstcrf.errors import InexactWarning
from tests.benchmarks.door_cases import Ask, Row, measured, names, scores
from tests.benchmarks.door_table import case
from tests.benchmarks.work import answer, seconds_of

TOKENS, LONG, RANKED = 20, 50_000, 10
FLAT, CONFIDENT = 0.0, 8.0

Rows = Iterator[Row]


def lattices(seconds: float, *, quick: bool = False) -> dict[str, Any]:
    """Return the cases of lattices, arrays and grammars; when quick, two of each door."""
    return {"cases": measured(some(_lattices(), quick=quick), seconds)}


def some(rows: Rows, *, quick: bool) -> Rows:
    """Return all rows, or the first two of each door."""
    seen: dict[str, int] = {}
    for row in rows:
        seen[row.door] = seen.get(row.door, 0) + 1
        if not quick or seen[row.door] <= 2:
            yield row


def first_bio(labels: int) -> dict[str, Any]:
    """Return what the first `bio()` of a process takes."""
    own = spans_of(labels // 2)
    ask = partial(_decoded, own, scores(1, TOKENS, len(own)), bio)
    near, first = labels != 1_001, seconds_of(ask)
    return {"cases": [case("first-bio", f"{len(own):,} labels", first, first, near=near)]}


def _lattices() -> Rows:
    yield from _gradients()
    yield from _models()
    yield from _marginals()
    yield from _low_scores()
    yield from _joint_arcs()
    yield from _ten_best()
    yield from _grammars()


def _asked(made: Callable[[], Any], question: str, *given: object) -> object:
    return getattr(made(), question)(*given)


# --- Transducers ----------------------------------------------------------------------------------


def reader(labels: list[str]) -> Transducer:
    """Return a transducer of two states: the first two labels lead from one to the other."""
    arcs = [f"0 0 {x} A" for x in labels] + [f"1 1 {x} A" for x in labels]
    arcs += [f"0 1 {x} B 1" for x in labels[:2]]
    return Transducer.from_text("\n".join([*arcs, "0", "1"]), tape="z")


def _under(machine: Transducer, labels: list[str], batch: Floats, table: Floats | None) -> Any:
    made = Lattice if batch.ndim == 2 else Lattices
    return made.from_arrays(labels, batch, table, tape="x") @ machine


def _gradients() -> Rows:
    """Gradient over log Z, of a lattice with a transducer."""
    kinds: list[tuple[str, tuple[int, ...], float]] = [("20 tokens", (TOKENS,), 1.0)] * 4
    kinds += [("2,000 tokens", (2_000,), 1.0), ("50,000 tokens", (LONG,), 1.0)]
    kinds += [("flat", (TOKENS,), FLAT), ("confident", (TOKENS,), CONFIDENT)]
    kinds += [("16 sentences", (16, TOKENS), 1.0)]
    sizes = (25, 50, 100, 3, 25, 12, 25, 25, 25)
    for k, ((kind, shape, spread), size) in enumerate(zip(kinds, sizes, strict=True)):
        batch = scores(*shape, size, spread=spread)
        made = partial(_under, reader(names(size)), names(size), batch, None)
        asks = (partial(_asked, made, name) for name in ("gradient", "log_partition"))
        yield Row("gradient", f"{size} labels, {kind}", tuple(asks), near=k > 2)


def _models() -> Rows:
    """Gradient over log Z, under a model of labels."""
    for size in (22, 200):
        made = partial(_under, _label_model(size), names(size), scores(TOKENS, size), None)
        asks = tuple(partial(_asked, made, name) for name in ("gradient", "log_partition"))
        yield Row("gradient", f"model of {size} labels", asks, near=True)


def _label_model(size: int) -> Transducer:
    """Return a bigram model of labels: a state for each, all of them linked."""
    costs = abs(scores(size + 1, size))
    arcs = [
        f"{q} {k + 1} {label} {label} {costs[q, k]}"
        for q in range(size + 1)
        for k, label in enumerate(names(size))
    ]
    return Transducer.from_text("\n".join([*arcs, *map(str, range(size + 1))]), tape="z")


def _ten_best() -> Rows:
    """The 10 best over the best, under a transducer."""
    for size in (200, 22, 50, 100):
        made = partial(_under, _label_model(size), names(size), scores(TOKENS, size), None)
        yield _ranked(f"model of {size} labels", made, near=size != 200)
    kinds = [(22, TOKENS, 1.0), (45, TOKENS, 1.0), (200, TOKENS, 1.0)]
    kinds += [(3, TOKENS, 1.0), (22, TOKENS, FLAT), (22, TOKENS, CONFIDENT), (22, 5_000, 1.0)]
    for k, (size, tokens, spread) in enumerate(kinds):
        batch, table = scores(tokens, size, spread=spread), scores(size, size, spread=spread)
        made = partial(_under, reader(names(size)), names(size), batch, table)
        text = f"{size} labels, {tokens:,} tokens, spread {spread:g}"
        yield _ranked(text, made, near=k > 2)


def _ranked(text: str, made: Callable[[], Any], *, near: bool) -> Row:
    asks = partial(_asked, made, "nbest", RANKED), partial(_asked, made, "best")
    return Row("ten-best", text, tuple(asks), near=near)


# --- Arrays ---------------------------------------------------------------------------------------

_SHAPES = [(16, 64, size) for size in (200, 45, 22, 9, 2)]
_SHAPES += [(1, TOKENS, 9), (1, TOKENS, 200), (1, LONG, 22), (512, 8, 9)]


def _chains(rows: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], str, Floats, Floats, bool]]:
    """Yield shapes, names, scores and transitions, and whether they are neighbours."""
    for k, shape in enumerate(_SHAPES):
        table = scores(shape[-1], shape[-1])
        yield shape, str(list(shape)), scores(*shape), table, k not in rows
    shape = (16, 64, 22)
    for name, spread in (("flat", FLAT), ("confident", CONFIDENT)):
        yield shape, f"{list(shape)}, {name}", scores(*shape, spread=spread), scores(22, 22), True


def _marginals() -> Rows:
    """Marginals over decoding."""
    for shape, text, batch, table, near in _chains((0,)):
        labels = names(shape[-1])
        usual = partial(Lattices.from_arrays, labels, batch, table)
        decoded = partial(fstcrf.decode, batch, transitions=table, labels=labels)
        yield Row("marginals", text, (partial(_asked, usual, "marginals"), decoded), near)


def _low_scores() -> Rows:
    """A score far below the best of its row, over ordinary ones."""
    for shape, text, batch, table, near in _chains((0, 1, 2, 3)):
        low = batch.copy()
        low[0, shape[1] // 2, 0] -= 760.0
        both = (partial(Lattices.from_arrays, names(shape[-1]), x, table) for x in (low, batch))
        asks = (partial(_asked, made, "log_partition") for made in both)
        yield Row("low-score", text, tuple(asks), near=near)


def _joint_arcs() -> Rows:
    """Marginals of the arcs of several tapes over log Z."""
    kinds: list[tuple[tuple[int, ...], int, int, float]] = [((45, 22), 16, 30, 1.0)]
    kinds += [((45, 22), 1, 30, 1.0), ((45, 22), 1, 300, 1.0), ((45, 22), 4, 30, FLAT)]
    kinds += [((45, 22), 4, 30, CONFIDENT), ((9, 5), 16, 30, 1.0), ((9, 5), 1, LONG, 1.0)]
    kinds += [((9, 5, 4), 4, 30, 1.0), ((2,) * 6, 4, 30, 1.0)]
    for k, (sizes, batch, tokens, spread) in enumerate(kinds):
        arrays = [scores(batch, tokens, size, spread=spread) for size in sizes]
        made = partial(_joined, arrays)
        shown = " × ".join(map(str, sizes))
        text = f"{shown} labels, {batch} of {tokens:,} tokens, spread {spread:g}"
        asks = (partial(_of_each, made, name) for name in ("arc_marginals", "log_partition"))
        yield Row("joint-arcs", text, tuple(asks), near=k > 0)


def _joined(arrays: list[Floats]) -> list[Any]:
    """Return lattices of several tapes, one for each row of the arrays."""
    found = []
    for rows in zip(*arrays, strict=True):
        tapes: list[Any] = [
            Lattice.from_arrays(
                [f"t{k}{label}" for label in names(row.shape[1])],
                row,
                scores(row.shape[1], row.shape[1]),
                tape=f"t{k}",
            )
            for k, row in enumerate(rows)
        ]
        joint = tapes[0]
        for tape in tapes[1:]:
            joint = joint @ tape
        found.append(joint)
    return found


def _of_each(made: Callable[[], list[Any]], question: str) -> None:
    for lattice in made():
        getattr(lattice, question)()


# --- Grammars -------------------------------------------------------------------------------------


def spans_of(types: int, scheme: str = "BI") -> list[str]:
    """Return O and the labels of spans."""
    return ["O", *(f"{place}-T{k}" for k in range(types) for place in scheme)]


def _decoded(labels: list[str], batch: Floats, grammar: Callable[[], Any]) -> object:
    return fstcrf.decode(batch, labels=labels, grammar=grammar())


def _under_rules(labels: list[str], batch: Floats, *grammars: Any) -> Iterator[Ask]:
    for grammar in grammars:
        yield partial(fstcrf.decode, batch, labels=labels, grammar=grammar)


def _grammars() -> Rows:
    for more, fewer, shape in ((257, 255, (16, 64)), (129, 127, (16, 64)), (257, 255, (1, TOKENS))):
        sides = [(spans_of(n // 2), scores(*shape, n)) for n in (more, fewer)]
        asks = (partial(_decoded, *side, bio) for side in sides)
        near = (more, shape) != (257, (16, 64))
        yield Row(
            "labels-257", f"[{shape[0]}, {shape[1]}, {more}] over {fewer}", tuple(asks), near=near
        )
    yield from _at_most()
    yield from _contiguous()


def _at_most() -> Rows:
    kinds = [(types, (16, 64), 1.0) for types in (2, 4, 10, 100)]
    kinds += [(4, (1, TOKENS), 1.0), (4, (1, LONG), 1.0)]
    kinds += [(4, (16, 64), FLAT), (4, (16, 64), CONFIDENT)]
    for k, (types, shape, spread) in enumerate(kinds):
        labels = spans_of(types)
        batch = scores(*shape, len(labels), spread=spread)
        asks = _under_rules(labels, batch, bio() & at_most(2, labels[1]), bio())
        text = f"{list(batch.shape)}, spread {spread:g}"
        yield Row("at-most", text, tuple(asks), near=k > 2)


def _contiguous() -> Rows:
    """Spans of each type once: flat scores break it, confident ones nearly not."""
    kinds = [(12, (16, 40), 3.0), (12, (16, 40), 1.0), (12, (16, 40), FLAT)]
    kinds += [(12, (16, 40), CONFIDENT), (12, (1, 40), 3.0), (12, (1, 2_000), 3.0)]
    kinds += [(4, (16, 40), 3.0), (24, (16, 40), 3.0)]
    for k, (types, shape, spread) in enumerate(kinds):
        labels = spans_of(types, "BIES")
        batch = scores(*shape, len(labels), spread=spread)
        rule = bioes()
        for label in labels[4::4]:
            rule = rule & contiguous(label)
        ask, other = _under_rules(labels, batch, rule, bioes())
        text = f"{types} types, {shape[0]} of {shape[1]:,} tokens, spread {spread:g}"
        if k < 2:
            yield Row("contiguous", text, (ask,))
        yield Row("contiguous-ratio", text, (ask, other), near=True)


if __name__ == "__main__":
    warnings.simplefilter("ignore", InexactWarning)
    answer(globals())
