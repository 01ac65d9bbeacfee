"""Draw the pictures of docs/guides/composition.md: ``python docs/pictures.py``.

The lattices are those of the page: its first code block is run and what it makes is drawn, by
``draw()`` where a picture is of a lattice.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from fstcrf.constraints import at_most
from fstcrf.ext.pictures.svg import Drawing

PAGE = Path(__file__).parent / "guides" / "composition.md"
WORDS = ("they", "can", "fish")


def sausage(labels: Sequence[str], scores: Sequence[Sequence[float]]) -> str:
    """Draw a sentence's potentials: an arc for each label of each token."""
    drawing = Drawing("The sausage of a sentence")
    places = [(45 + 150 * t, 80.0) for t in range(len(WORDS) + 1)]
    for t, place in enumerate(places):
        drawing.state(place, str(t), final=t == len(WORDS))
    for ends, word, row in zip(pairwise(places), WORDS, scores, strict=True):
        drawing.text(((ends[0][0] + ends[1][0]) / 2, 16), word, size=14)
        for bend, label, score in zip((28, -28), labels, row, strict=True):
            drawing.arc(ends, bend=bend, label=f"{label}  {score:g}")
    return drawing.svg()


def topology(labels: Sequence[str], transitions: Sequence[Sequence[float]]) -> str:
    """Draw two labels and the potentials of their successions."""
    drawing = Drawing("The topology of two labels")
    places = [(80.0, 110.0), (250.0, 110.0)]
    for i, place in enumerate(places):
        drawing.state(place, labels[i], final=True)
        drawing.loop(place, f"{labels[i]}  {transitions[i][i]:g}")
        j = 1 - i
        drawing.arc((place, places[j]), bend=22, label=f"{labels[j]}  {transitions[i][j]:g}")
    return drawing.svg()


def pictures() -> dict[str, str]:
    """Return the SVG of each picture by the name of its file."""
    first = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), flags=re.DOTALL)[0]
    made: dict[str, Any] = {}
    exec(compile(first, str(PAGE), "exec"), made)  # noqa: S102 (the page is ours)
    pos, joint = made["pos"], made["joint"]
    labels = ("N", "V")
    return {
        "composition-sausage.svg": sausage(labels, made["emissions"]),
        "composition-topology.svg": topology(labels, made["transitions"]),
        "composition-lattice.svg": pos.draw(tokens=WORDS),
        "composition-joint.svg": joint.draw(tokens=WORDS),
        "composition-grammar.svg": (pos & at_most(1, "V")).draw(tokens=WORDS),
    }


def main() -> None:
    """Write all pictures beside the page."""
    for name, svg in pictures().items():
        PAGE.with_name(name).write_text(svg, "utf-8")


if __name__ == "__main__":
    main()
