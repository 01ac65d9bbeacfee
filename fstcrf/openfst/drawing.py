"""Drawings by graphviz: from left to right, the start in bold, ends with two rings."""

from __future__ import annotations

import subprocess
from shutil import which

import numpy as np

from fstcrf.errors import MissingDependencyError, OptionError, TooLargeError
from fstcrf.openfst.machine import Machine

__all__ = ["dot_text", "svg"]

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
        looks += ["style=bold"] if state == machine.start else []
        lines.append(f"  {state} [{', '.join([f'label={_quoted(name)}', *looks])}];")
    columns = (machine.source, machine.target, machine.ilabel, machine.olabel, machine.score)
    for source, target, read, written, score in zip(*(c.tolist() for c in columns), strict=True):
        label = _symbol(read, machine.isymbols)
        if read != written or machine.isymbols != machine.osymbols:
            label += ":" + _symbol(written, machine.osymbols)
        lines.append(f"  {source} -> {target} [label={_quoted(label + _shown(score, digits))}];")
    return "\n".join([*lines, "}\n"])


def _symbol(number: int, table: tuple[str, ...] | None) -> str:
    return str(number) if table is None else table[number]


def _shown(score: float, digits: int) -> str:
    return f"/{score:.{digits}g}" if score else ""


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def svg(machine: Machine, *, digits: int = 3) -> str:
    """Return a drawing of a machine as SVG.

    Parameters
    ----------
    machine, digits
        As for `dot_text`.

    Raises
    ------
    MissingDependencyError
        graphviz's program ``dot`` is not on the PATH.
    TooLargeError
        More arcs than anyone can look at.
    OSError
        ``dot`` fails.
    """
    program = which("dot")
    if program is None:
        raise MissingDependencyError(
            "graphviz's program `dot` is not on the PATH: `apt-get install graphviz`"
        )
    if machine.n_arcs > _MOST_ARCS:
        raise TooLargeError(
            f"{machine.n_arcs:,} arcs are too many for a drawing (at most {_MOST_ARCS:,}): "
            "restrict the machine first, or give dot_text to another program"
        )
    done = subprocess.run(  # noqa: S603 (no shell; the text comes through a pipe)
        [program, "-Tsvg"],
        input=dot_text(machine, digits=digits).encode(),
        capture_output=True,
        check=False,
    )
    if done.returncode:
        words = done.stderr.decode(errors="replace").strip().partition("\n")[0]
        raise OSError(f"dot failed with status {done.returncode}: {words}")
    return done.stdout.decode()
