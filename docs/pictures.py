"""Draw the pictures of the README and of docs/start/concepts.md: ``python docs/pictures.py``.

The first code block of the page makes the lattices; their ``draw()`` makes the pictures.
"""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from fstcrf.constraints import at_most
from fstcrf.ext.pictures.svg import Drawing

PAGE = Path(__file__).parent / "start" / "concepts.md"
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


def _first_block() -> dict[str, Any]:
    """Run the first code block of the page and return what it defines."""
    first = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), flags=re.DOTALL)[0]
    made: dict[str, Any] = {}
    exec(compile(first, str(PAGE), "exec"), made)  # noqa: S102 (the page is ours)
    return made


def pictures() -> dict[str, str]:
    """Return the SVG of each picture by the name of its file."""
    made = _first_block()
    pos, joint = made["pos"], made["joint"]
    labels = ("N", "V")
    return {
        "composition-sausage.svg": sausage(labels, made["emissions"]),
        "composition-topology.svg": topology(labels, made["transitions"]),
        "composition-lattice.svg": pos.draw(tokens=WORDS),
        "composition-joint.svg": joint.draw(tokens=WORDS),
        "composition-grammar.svg": (pos & at_most(1, "V")).draw(tokens=WORDS),
    }


DARK = {"#ffffff": "#0d1117", "#222222": "#e6edf3", "#0b6e99": "#58b4e0", "#b9c4cc": "#4b5661"}
"""The colours of the pictures of the library, and the ones that replace them in the dark."""


def front(*, dark: bool) -> str:
    """Return the picture of the README: two taggers, a rule, and their composition."""
    made = _first_block()
    pos, joint = made["pos"], made["joint"]
    rule = at_most(1, "V", tape="pos")
    drawn = [
        ("a tagger: parts of speech", pos.draw(tokens=WORDS)),
        ("@  a tagger: chunks", made["chunk"].draw(tokens=WORDS)),
        ("&  a rule: at most one V", rule.bound({"pos": ("N", "V")}).draw()),
        ("=  one machine", (joint & rule).draw(tokens=WORDS)),
    ]
    svg = _row(drawn)
    return re.sub("#[0-9a-f]{6}", lambda m: DARK[m[0]], svg) if dark else svg


def _row(drawn: Sequence[tuple[str, str]], gap: int = 24, top: int = 34) -> str:
    """Place SVG pictures in a row, each below its caption."""
    sizes = [[int(n) for n in re.findall(r'(?:width|height)="(\d+)"', svg)[:2]] for _, svg in drawn]
    width, height = sum(w + gap for w, _ in sizes) - gap, top + max(h for _, h in sizes)
    parts, x = [], 0
    for (caption, svg), (w, h) in zip(drawn, sizes, strict=True):
        y = top + (height - top - h) // 2
        parts.append(
            f'<text x="{x + w / 2:g}" y="20" font-size="15" text-anchor="middle" fill="#222222">'
            f"{html.escape(caption)}</text>\n" + svg.replace("<svg ", f'<svg x="{x}" y="{y}" ', 1)
        )
        x += w + gap
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" role="img" '
        f'viewBox="0 0 {width} {height}" font-family="Helvetica, Arial, sans-serif">\n'
        "<title>Two taggers and a rule, composed into one machine</title>\n"
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>\n{"".join(parts)}</svg>\n'
    )


def main() -> None:
    """Write all pictures beside their pages."""
    for name, svg in pictures().items():
        PAGE.with_name(name).write_text(svg, "utf-8")
    for name in ("light", "dark"):
        path = PAGE.parents[1] / f"composition-{name}.svg"
        path.write_text(front(dark=name == "dark"), "utf-8")


if __name__ == "__main__":
    main()
