"""Lattices under transducers, beside OpenFst: ``python -m tests.benchmarks.doors_transducers``.

It does one piece of work, as `tests.benchmarks.doors` does.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from operator import matmul
from typing import Any

import numpy as np
import pynini
import pywrapfst

from fstcrf import Lattice, Transducer
from fstcrf.arrays import Floats
from fstcrf.errors import InexactWarning
from tests.benchmarks.door_cases import Row, drawn, measured, names, scores
from tests.benchmarks.doors_lattices import CONFIDENT, FLAT, RANKED, TOKENS, Rows, reader, some
from tests.benchmarks.transduced import edits, fst_of, given, ten_best
from tests.benchmarks.work import answer


def transducers(seconds: float, *, quick: bool = False) -> dict[str, Any]:
    """Return the cases of transducers; when quick, two of each door."""
    return {"cases": measured(some(_transducers(), quick=quick), seconds)}


def _transducers() -> Rows:
    yield from _no_transitions()
    yield from _edit_lexicon()
    yield from _edits()
    yield from _strings()


def _sausage(batch: Floats) -> Any:
    """Return scores [T, L] as a machine of OpenFst, an arc for each label of a token."""
    tokens, _ = batch.shape
    fst = pynini.Fst(arc_type="log64")
    fst.add_states(tokens + 1)
    fst.set_start(0).set_final(tokens)
    for (t, k), score in np.ndenumerate(batch):
        weight = pywrapfst.Weight("log64", -score)
        fst.add_arc(t, pywrapfst.Arc(k + 1, k + 1, weight, t + 1))
    return fst


def _named(fst: Any, labels: list[str]) -> Any:
    symbols = pywrapfst.SymbolTable()
    for k, symbol in enumerate(["<eps>", *labels]):
        symbols.add_symbol(symbol, k)
    return fst.set_input_symbols(symbols).set_output_symbols(symbols)


def _no_transitions() -> Rows:
    """log Z without transitions under a transducer, over the same paths from OpenFst."""
    kinds = [(100, TOKENS, 1.0), (300, TOKENS, 1.0), (1_000, TOKENS, 1.0), (5, TOKENS, 1.0)]
    kinds += [(22, 2_000, 1.0), (100, TOKENS, FLAT), (100, TOKENS, CONFIDENT)]
    for k, (size, tokens, spread) in enumerate(kinds):
        labels, batch = names(size), scores(tokens, size, spread=spread)
        memory, fst = reader(labels), _named(_sausage(batch), labels)
        paths = partial(_log_z, partial(Lattice.from_fst, fst), memory)
        arrays = partial(_log_z, partial(Lattice.from_arrays, labels, batch), memory)
        text = f"{size:,} labels, {tokens:,} tokens, spread {spread:g}"
        yield Row("no-transitions", text, (arrays, paths), near=k > 2)


def _log_z(made: Callable[[], Any], memory: Transducer) -> float:
    total: float = (made() @ memory).log_partition()
    return total


# --- Edits ----------------------------------------------------------------------------------------


def _edit(symbols: list[str]) -> Transducer:
    """Return the edits of a string: a state, an arc for each pair of symbols or of no symbol."""
    with_none = ["<eps>", *symbols]
    pairs = [(a, b) for a in with_none for b in with_none if a != b or a != "<eps>"]
    arcs = [f"0 0 {a} {b} {0 if a == b else 1}" for a, b in pairs]
    return Transducer.from_text(
        "\n".join([*arcs, "0"]), input_symbols=symbols, output_symbols=symbols
    )


def _lexicon(symbols: list[str], words: int) -> Transducer:
    """Return drawn words of six symbols, a path each."""
    rng = np.random.default_rng(0)
    arcs, state = [], 1
    for _ in range(words):
        for place, k in enumerate(rng.integers(len(symbols), size=6)):
            start = 0 if place == 0 else state - 1
            arcs.append(f"{start} {state} {symbols[k]} {symbols[k]}")
            state += 1
        arcs.append(f"{state - 1}")
    return Transducer.from_text("\n".join(arcs), input_symbols=symbols, output_symbols=symbols)


def _edit_lexicon() -> Rows:
    for k, (size, words) in enumerate([(15, 200), (30, 200), (60, 200), (5, 200), (60, 5_000)]):
        edit, lexicon = _edit(names(size)), _lexicon(names(size), words)
        machines = [machine.to_fst("log64") for machine in (edit, lexicon)]
        for machine in machines:  # both list the symbols in one order
            machine.set_input_symbols(None).set_output_symbols(None)
        machines[1].arcsort("ilabel")
        asks = partial(matmul, edit, lexicon), partial(pynini.compose, *machines)
        yield Row("edit-lexicon", f"{size} symbols, {words:,} words", tuple(asks), near=k > 2)


def _edits() -> Rows:
    """The 10 best paths of a lattice under edits, over those of OpenFst."""
    kinds = [(9, 24, 1.0), (22, 24, 1.0), (3, 24, 1.0), (60, 24, 1.0), (9, 500, 1.0)]
    kinds += [(9, 24, FLAT), (9, 24, CONFIDENT)]
    for k, (size, tokens, spread) in enumerate(kinds):
        labels, batch, machine = (
            [*map(str, range(size))],
            scores(tokens, size, spread=spread),
            edits(size),
        )
        made = partial(Lattice.from_arrays, labels, batch)
        theirs = partial(ten_best, given(made(), "standard"), fst_of(machine, "standard"))
        text = f"{size} labels, {tokens} tokens, spread {spread:g}"
        yield Row("ten-edits", text, (partial(_ten_best, made, machine), theirs), near=k > 1)


def _ten_best(made: Callable[[], Any], machine: Transducer) -> object:
    return (made() @ machine).nbest(RANKED)


# --- Strings --------------------------------------------------------------------------------------


def _strings() -> Rows:
    kinds = [(size, 40, FLAT, 1) for size in (3, 5, 22)]
    kinds += [(5, 40, 1.0, 1), (5, 40, CONFIDENT, 1), (22, 80, FLAT, 1), (5, 40, FLAT, 5)]
    for k, (size, tokens, spread, n) in enumerate(kinds):
        machine = drawn(names(size), max(3, size // 2))
        made = partial(
            Lattice.from_arrays, names(size), scores(tokens, size, spread=spread), tape="x"
        )
        path = (made() @ machine).strings("out", n=n)[-1]
        assert np.isfinite(path.bound)
        text = f"{size} labels, {tokens} tokens, spread {spread:g}, n = {n}, "
        text += "proven" if path.exact else f"{path.bound - path.score:.2f} below the bound"
        yield Row("strings", text, (partial(_best_string, made, machine, n),), near=k > 2)
    made = partial(Lattice.from_arrays, names(200), scores(TOKENS, 200), scores(200, 200), tape="x")
    ask = partial(_best_string, made, reader(names(200)), 1)
    yield Row("strings", "200 labels under two states, 20 tokens", (ask,), near=True)


def _best_string(made: Callable[[], Any], machine: Transducer, n: int) -> object:
    return (made() @ machine).strings(machine.tape, n=n)


if __name__ == "__main__":
    warnings.simplefilter("ignore", InexactWarning)
    answer(globals())
