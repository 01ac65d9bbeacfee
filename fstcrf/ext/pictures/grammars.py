"""Pictures of a grammar's automata."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np

from fstcrf.errors import TooLargeError
from fstcrf.ext.pictures import svg as pictures
from fstcrf.ext.pictures.machines import drawn
from fstcrf.machines.grammar.acceptor import Acceptor

_MOST_ARCS = 2_000  # between different pairs of states
_MOST_NAMED = 6  # labels of an arc that are written out


def acceptors_picture(acceptors: Sequence[Acceptor], title: str) -> str:
    """Return the picture of acceptors as SVG, drawn by graphviz if it is installed.

    Raises
    ------
    TooLargeError
        More arcs than anyone can look at.
    OSError
        graphviz fails.
    """
    graphs = [_graph(acceptor) for acceptor in acceptors]
    return drawn(graphs, title)


def _graph(acceptor: Acceptor) -> pictures.Diagram:
    flat = acceptor.target.reshape(acceptor.n_states, -1)
    ends: dict[tuple[int, int], list[int]] = defaultdict(list)
    for state, symbol in np.argwhere(flat >= 0).tolist():
        ends[state, int(flat[state, symbol])].append(symbol)
    if len(ends) > _MOST_ARCS:
        raise TooLargeError(
            f"{acceptor.name or 'the grammar'}: {len(ends):,} arcs are too many for a drawing (at "
            f"most {_MOST_ARCS:,}); draw its parts"
        )
    score = None if acceptor.score is None else acceptor.score.reshape(flat.shape)
    names = [" ".join(parts) for parts in product(*acceptor.labels)]
    arcs = [
        pictures.Arc(source, target, text)
        for (source, target), symbols in sorted(ends.items())
        for text in _texts(names, symbols, None if score is None else score[source])
    ]
    final = acceptor.final.tolist()
    states = [str(s) + _shown(value) for s, value in enumerate(final)]
    tapes = [tape for tape in acceptor.tapes if tape]
    name = acceptor.name + (f" on {', '.join(tapes)}" if tapes else "")
    return pictures.Diagram(name, states, 0, [value > -np.inf for value in final], arcs)


def _texts(names: Sequence[str], symbols: Sequence[int], score: np.ndarray | None) -> Iterator[str]:
    """Yield the texts of the arcs between two states: labels with one score form one text."""
    worth: dict[float, list[int]] = defaultdict(list)
    for symbol in symbols:
        worth[0.0 if score is None else float(score[symbol])].append(symbol)
    for value, places in worth.items():
        yield _named(names, places) + _shown(value)


def _named(names: Sequence[str], symbols: Sequence[int]) -> str:
    if len(symbols) == len(names):
        return "any"
    left = sorted(set(range(len(names))) - set(symbols))
    if len(left) < len(symbols) and len(left) <= _MOST_NAMED:
        return "not " + ", ".join(names[symbol] for symbol in left)
    shown = ", ".join(names[symbol] for symbol in symbols[:_MOST_NAMED])
    more = len(symbols) - _MOST_NAMED
    return f"{shown}, … {more:,} more" if more > 0 else shown


def _shown(score: float) -> str:
    return f"/{score:.3g}" if score and score > -np.inf else ""
