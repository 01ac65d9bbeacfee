"""Draw the pictures of docs/guides/composition.md: ``python docs/pictures.py``.

The lattices are those of the page: its first code block is run and what it makes is drawn. Circles
are joint states at a token; the wider an arc, the more probable; the best path is dark.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import fstcrf
from fstcrf.constraints import at_most

PAGE = Path(__file__).parent / "guides" / "composition.md"
WORDS = ("they", "can", "fish")

_DARK, _LIGHT, _INK, _PAPER = "#0b6e99", "#b9c4cc", "#222222", "#ffffff"
_RADIUS = 21.0
_ALL_PATHS = 1_000

Point = tuple[float, float]
Row = Callable[[Sequence[Any]], str]


@dataclass
class Drawing:
    """An SVG in the making; sizes in pixels."""

    width: float
    height: float
    below: list[str] = field(default_factory=list)
    above: list[str] = field(default_factory=list)

    def text(self, at: Point, text: str, *, size: int = 13, colour: str = _INK) -> None:
        """Write text around a point."""
        self.above.append(
            f'<text x="{at[0]:.1f}" y="{at[1] + size / 3:.1f}" font-size="{size}" '
            f'fill="{colour}" text-anchor="middle">{text}</text>'
        )

    def state(
        self, at: Point, name: str = "", *, note: str = "", dark: bool = False, final: bool = False
    ) -> None:
        """Draw a state; two circles where paths may end."""
        for radius in (_RADIUS, _RADIUS - 4)[: 1 + final]:
            self.above.append(
                f'<circle cx="{at[0]:.1f}" cy="{at[1]:.1f}" r="{radius}" fill="{_PAPER}" '
                f'stroke="{_DARK if dark else _INK}" stroke-width="{2.5 if dark else 1}"/>'
            )
        lift = 5 if note else 0
        self.text((at[0], at[1] - lift), name, colour=_DARK if dark else _INK)
        if note:
            self.text((at[0], at[1] + 9), note, size=10)

    def arc(
        self,
        ends: tuple[Point, Point],
        *,
        bend: float = 0.0,
        width: float = 1.2,
        colour: str = _INK,
        label: str = "",
    ) -> None:
        """Draw an arc from state to state, bent to its left by so many pixels."""
        (x0, y0), (x1, y1) = ends
        long = ((x1 - x0) ** 2 + (y1 - y0) ** 2) ** 0.5
        across = ((y1 - y0) / long, -(x1 - x0) / long)
        middle = ((x0 + x1) / 2 + 2 * bend * across[0], (y0 + y1) / 2 + 2 * bend * across[1])
        start, end = _towards(ends[0], middle, _RADIUS), _towards(ends[1], middle, _RADIUS + 3)
        self.below.append(
            f'<path d="M{start[0]:.1f},{start[1]:.1f} Q{middle[0]:.1f},{middle[1]:.1f} '
            f'{end[0]:.1f},{end[1]:.1f}" fill="none" stroke="{colour}" '
            f'stroke-width="{width:.2f}" marker-end="url(#{_marker(colour)})"/>'
        )
        if label:
            away = bend + (13 if bend >= 0 else -13)
            self.text(((x0 + x1) / 2 + away * across[0], (y0 + y1) / 2 + away * across[1]), label)

    def loop(self, at: Point, label: str) -> None:
        """Draw an arc from a state to itself, above it."""
        x, y = at
        side, top = _RADIUS * 0.6, _RADIUS * 0.85
        self.below.append(
            f'<path d="M{x - side:.1f},{y - top:.1f} C{x - 34:.1f},{y - 66:.1f} {x + 34:.1f},'
            f'{y - 66:.1f} {x + side + 1:.1f},{y - top - 3:.1f}" fill="none" stroke="{_INK}" '
            f'stroke-width="1.2" marker-end="url(#{_marker(_INK)})"/>'
        )
        self.text((x, y - 66), label)

    def svg(self) -> str:
        """Return the picture."""
        markers = "".join(
            f'<marker id="{_marker(colour)}" viewBox="0 0 8 8" refX="6" refY="4" markerWidth="7" '
            f'markerHeight="7" markerUnits="userSpaceOnUse" orient="auto">'
            f'<path d="M0,0.5 L8,4 L0,7.5 z" fill="{colour}"/></marker>'
            for colour in (_INK, _DARK, _LIGHT)
        )
        size = f'width="{self.width:.0f}" height="{self.height:.0f}"'
        lines = [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="Helvetica, sans-serif">',
            f"<defs>{markers}</defs>",
            f'<rect width="100%" height="100%" fill="{_PAPER}"/>',
            *self.below,
            *self.above,
            "</svg>",
        ]
        return "\n".join(lines) + "\n"


def sausage(labels: Sequence[str], scores: Sequence[Sequence[float]]) -> str:
    """Draw a sentence's potentials: an arc for each label of each token."""
    drawing = Drawing(90 + 150 * len(WORDS), 142)
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
    drawing = Drawing(330, 170)
    places = [(80.0, 110.0), (250.0, 110.0)]
    for i, place in enumerate(places):
        drawing.state(place, labels[i], final=True)
        drawing.loop(place, f"{labels[i]}  {transitions[i][i]:g}")
        j = 1 - i
        drawing.arc((place, places[j]), bend=22, label=f"{labels[j]}  {transitions[i][j]:g}")
    return drawing.svg()


def lattice(subject: fstcrf.Lattice, row: Row, *, rows: Sequence[str]) -> str:
    """Draw a lattice: a column for each token, a row for each state.

    Parameters
    ----------
    subject : Lattice
        So small that all its paths can be listed.
    row : callable
        The state in which the labels of some first tokens end, one item for each token.
    rows : sequence of str
        The states, from above.
    """
    paths = [(_states(p.labels, subject, row), p.probability) for p in subject.nbest(_ALL_PATHS)]
    nodes: dict[tuple[int, str], float] = defaultdict(float)
    arcs: dict[tuple[int, str, str], float] = defaultdict(float)
    for states, probability in paths:
        for t, state in enumerate(states):
            nodes[t, state] += probability
        for t, (before, after) in enumerate(pairwise(states)):
            arcs[t, before, after] += probability
    drawing = Drawing(80 + 170 * (len(WORDS) - 1) + 80, 52 + 62 * len(rows))
    place = {
        (t, name): (80 + 170 * t, 76 + 62 * i)
        for t in range(len(WORDS))
        for i, name in enumerate(rows)
    }
    best = paths[0][0]
    for t, word in enumerate(WORDS):
        drawing.text((80 + 170 * t, 22), word, size=14)
    for (t, before, after), probability in sorted(arcs.items(), key=lambda item: item[1]):
        dark = best[t : t + 2] == [before, after]
        drawing.arc(
            (place[t, before], place[t + 1, after]),
            width=0.6 + 7 * probability,
            colour=_DARK if dark else _LIGHT,
        )
    for (t, state), probability in nodes.items():
        drawing.state(place[t, state], state, note=f"{probability:.2f}", dark=best[t] == state)
    return drawing.svg()


def pictures() -> dict[str, str]:
    """Return the SVG of each picture by the name of its file."""
    first = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), flags=re.DOTALL)[0]
    made: dict[str, Any] = {}
    exec(compile(first, str(PAGE), "exec"), made)  # noqa: S102 (the page is ours)
    pos, joint = made["pos"], made["joint"]
    labels, pairs = ("N", "V"), ("N B", "N I", "V B", "V I")
    once = pos & at_most(1, "V")
    return {
        "composition-sausage.svg": sausage(labels, made["emissions"]),
        "composition-topology.svg": topology(labels, made["transitions"]),
        "composition-lattice.svg": lattice(pos, lambda seen: seen[-1], rows=labels),
        "composition-joint.svg": lattice(joint, lambda seen: " ".join(seen[-1]), rows=pairs),
        "composition-grammar.svg": lattice(
            once,
            lambda seen: f"{seen[-1]} {seen.count('V')}",
            rows=("N 0", "V 1", "N 1"),
        ),
    }


def main() -> None:
    """Write all pictures beside the page."""
    for name, svg in pictures().items():
        PAGE.with_name(name).write_text(svg, "utf-8")


def _states(labels: Any, subject: fstcrf.Lattice, row: Row) -> list[str]:
    tokens = list(labels) if len(subject.tapes) == 1 else list(zip(*labels, strict=True))
    return [row(tokens[: t + 1]) for t in range(len(tokens))]


def _towards(start: Point, end: Point, distance: float) -> Point:
    x, y = end[0] - start[0], end[1] - start[1]
    part = distance / (x * x + y * y) ** 0.5
    return start[0] + x * part, start[1] + y * part


def _marker(colour: str) -> str:
    return f"end-{colour[1:]}"


if __name__ == "__main__":
    main()
