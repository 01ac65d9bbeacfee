"""Drawings of machines, from left to right: the start in bold, ends with two rings."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from shutil import which

import numpy as np

from fstcrf.errors import TooLargeError
from fstcrf.ext.pictures import svg as pictures
from fstcrf.machines.machine import Machine
from fstcrf.machines.openfst import EPSILON

_MOST_ARCS = 2000


def svg(machine: Machine) -> str:
    """Return a drawing of a machine as SVG, by graphviz if it is installed.

    Arcs show ``input:output/score``, or ``label/score`` where both are the same; ends show
    ``state/score``. Scores are natural logs, more is better; zeros are left out.

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
            "restrict the machine first"
        )
    return drawn([diagram(machine)], "A transducer")


def drawn(graphs: Sequence[pictures.Diagram], title: str) -> str:
    """Return graphs as SVG: by graphviz if it is installed, else by fstcrf.

    Raises
    ------
    OSError
        graphviz's program ``dot`` fails.
    """
    return _by_graphviz(dot_text(graphs)) or pictures.graphs(graphs, title)


def _by_graphviz(text: str) -> str | None:
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


def dot_text(graphs: Sequence[pictures.Diagram]) -> str:
    """Return graphs in graphviz's language, a cluster each."""
    lines = ["digraph grammar {", "  rankdir=LR;", "  node [shape=circle];"]
    for n, one in enumerate(graphs):
        lines += [f"  subgraph cluster_{n} {{", f"    label={_quoted(one.name)};"]
        for state, name in enumerate(one.states):
            looks = [f"label={_quoted(name)}"]
            looks += ["shape=doublecircle"] if one.final[state] else []
            looks += ["style=bold"] if state == one.start else []
            lines.append(f"    a{n}_{state} [{', '.join(looks)}];")
        lines += [
            f"    a{n}_{arc.source} -> a{n}_{arc.target} [label={_quoted(arc.label)}];"
            for arc in one.arcs
        ]
        lines.append("  }")
    return "\n".join([*lines, "}\n"])


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def diagram(machine: Machine) -> pictures.Diagram:
    """Return the picture of a machine as states and arcs with their texts."""
    final = machine.final.tolist()
    states = [str(s) + (_shown(score) if score > -np.inf else "") for s, score in enumerate(final)]
    read, written = (*machine.input_symbols, EPSILON), (*machine.output_symbols, EPSILON)
    columns = (machine.source, machine.target, machine.input, machine.output, machine.score)
    arcs: list[pictures.Arc] = []
    for source, target, i, o, score in zip(*(c.tolist() for c in columns), strict=True):
        label = read[i] if read[i] == written[o] else f"{read[i]}:{written[o]}"
        arcs.append(pictures.Arc(source, target, label + _shown(score)))
    return pictures.Diagram("", states, 0, [score > -np.inf for score in final], arcs)


def _shown(score: float) -> str:
    return f"/{score:.3g}" if score else ""
