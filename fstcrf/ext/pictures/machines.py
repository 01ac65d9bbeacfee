"""Drawings of machines, from left to right: the start in bold, ends with two rings."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from shutil import which

import numpy as np

from fstcrf.errors import OptionError, TooLargeError
from fstcrf.ext.pictures import svg as pictures
from fstcrf.machines.machine import Machine
from fstcrf.machines.openfst import EPSILON

_MOST_ARCS = 2000


def dot_text(machine: Machine, *, digits: int = 3) -> str:
    """Return a machine in graphviz's language.

    Arcs show ``input:output/score``, or ``label/score`` where both are the same; ends show
    ``state/score``. Scores are natural logs, more is better; zeros are left out.

    Parameters
    ----------
    machine : Machine
    digits : int
        Significant digits of scores.

    Raises
    ------
    OptionError
        `digits` is below 1.
    """
    if digits < 1:
        raise OptionError(f"digits is {digits}, expected 1 or more")
    lines = ["digraph machine {", "  rankdir=LR;", "  node [shape=circle];"]
    for state, final in enumerate(machine.final.tolist()):
        ends = final > -np.inf
        name = str(state) + (_shown(final, digits) if ends else "")
        looks = ["shape=doublecircle"] if ends else []
        looks += ["style=bold"] if state == 0 else []
        lines.append(f"  {state} [{', '.join([f'label={quoted(name)}', *looks])}];")
    lines += [
        f"  {source} -> {target} [label={quoted(label)}];"
        for source, target, label in _arc_texts(machine, digits)
    ]
    return "\n".join([*lines, "}\n"])


def _shown(score: float, digits: int) -> str:
    return f"/{score:.{digits}g}" if score else ""


def quoted(text: str) -> str:
    """Return a text as a string of graphviz's language."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def svg(machine: Machine, *, digits: int = 3) -> str:
    """Return a drawing of a machine as SVG: by graphviz where it is installed, else by fstcrf.

    Parameters
    ----------
    machine, digits
        As for `dot_text`.

    Raises
    ------
    TooLargeError
        More arcs than anyone can look at.
    OSError
        graphviz's program ``dot`` fails.
    """
    if len(machine.source) > _MOST_ARCS:
        raise TooLargeError(
            f"{len(machine.source):,} arcs are too many for a drawing (at most {_MOST_ARCS:,}): "
            "restrict the machine first, or give dot_text to another program"
        )
    text = dot_text(machine, digits=digits)
    return by_graphviz(text) or pictures.graphs([_graph(machine, digits)], "A transducer")


def by_graphviz(text: str) -> str | None:
    """Return the drawing of a text in graphviz's language; None where it is not installed.

    Raises
    ------
    OSError
        ``dot`` fails.
    """
    program = which("dot")
    if program is None:
        return None
    done = subprocess.run(  # noqa: S603 (no shell; the text comes through a pipe)
        [program, "-Tsvg"], input=text.encode(), capture_output=True, check=False
    )
    if done.returncode:
        words = done.stderr.decode(errors="replace").strip().partition("\n")[0]
        raise OSError(f"dot failed with status {done.returncode}: {words}")
    return done.stdout.decode()


def _graph(machine: Machine, digits: int) -> pictures.Diagram:
    final = machine.final.tolist()
    ends = [score > -np.inf for score in final]
    states = [
        str(s) + (_shown(score, digits) if score > -np.inf else "") for s, score in enumerate(final)
    ]
    arcs = [
        pictures.Arc(source, target, label) for source, target, label in _arc_texts(machine, digits)
    ]
    return pictures.Diagram("", states, 0, ends, arcs)


def _arc_texts(machine: Machine, digits: int) -> Iterator[tuple[int, int, str]]:
    """Give the ends of each arc, and what is written on it."""
    read, written = (*machine.input_symbols, EPSILON), (*machine.output_symbols, EPSILON)
    columns = (machine.source, machine.target, machine.input, machine.output, machine.score)
    for source, target, first, second, score in zip(*(c.tolist() for c in columns), strict=True):
        label = (
            read[first] if read[first] == written[second] else f"{read[first]}:{written[second]}"
        )
        yield source, target, label + _shown(score, digits)
