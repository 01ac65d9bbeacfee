"""Pictures as SVG, made of plain data: trellises, tables, steps and graphs in layers.

All text is escaped. Coordinates and sizes are in pixels, y grows downward; the size of a picture
fits its contents. Pictures have a name for screen readers.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from fstcrf.lazy import LazyModule

if TYPE_CHECKING:
    import html
    import unicodedata
else:  # imports for tagging need not wait for it
    html, unicodedata = LazyModule("html"), LazyModule("unicodedata")

_DARK, _LIGHT, _INK, _PAPER = "#0b6e99", "#b9c4cc", "#222222", "#ffffff"
_RADIUS = 21.0
_MARGIN = 14.0
_FAINT = 0.005  # probabilities below have no number
_LONGEST = 24  # characters of a name that is written out
_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

Point: TypeAlias = tuple[float, float]


def _escaped(text: str) -> str:
    """Return a text as XML; characters that XML forbids become U+FFFD."""
    return html.escape(_NO_XML.sub("\ufffd", text))


def _cut(text: str, most: int = _LONGEST) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _width(text: str, size: float) -> float:
    """Return about how wide a text is."""
    wide = sum(unicodedata.east_asian_width(letter) in "WF" for letter in text)
    return size * (0.58 * len(text) + 0.45 * wide)


# --- What pictures are drawn with -----------------------------------------------------------------


@dataclass
class Drawing:
    """An SVG in the making.

    Parameters
    ----------
    title : str
        Its name.
    """

    title: str
    below: list[str] = field(default_factory=list)
    above: list[str] = field(default_factory=list)
    low: Point = (float("inf"), float("inf"))
    high: Point = (float("-inf"), float("-inf"))

    def extend(self, at: Point, across: float = 0.0, down: float = 0.0) -> None:
        """Enlarge the picture by a rectangle around a point."""
        self.low = min(self.low[0], at[0] - across), min(self.low[1], at[1] - down)
        self.high = max(self.high[0], at[0] + across), max(self.high[1], at[1] + down)

    def text(
        self,
        at: Point,
        text: str,
        *,
        size: int = 13,
        colour: str = _INK,
        anchor: str = "middle",
        most: int = _LONGEST,
    ) -> None:
        """Write text around a point, or to its right (start) or left (end); long text is cut."""
        shown = _cut(text, most)
        width = _width(shown, size)
        middle = {"start": at[0] + width / 2, "end": at[0] - width / 2}.get(anchor, at[0])
        self.extend((middle, at[1]), width / 2, size * 0.7)
        whole = f"<title>{_escaped(text)}</title>" if shown != text else ""
        self.above.append(
            f'<text x="{at[0]:.1f}" y="{at[1] + size / 3:.1f}" font-size="{size}" fill="{colour}" '
            f'text-anchor="{anchor}" paint-order="stroke" stroke="{_PAPER}" stroke-width="3">'
            f"{_escaped(shown)}{whole}</text>"
        )

    def state(
        self, at: Point, name: str = "", *, note: str = "", dark: bool = False, final: bool = False
    ) -> float:
        """Draw a state, two rings where paths may end; return half its width."""
        half = max(_RADIUS, _width(_cut(name), 13) / 2 + 7)
        self.extend(at, half + 2, _RADIUS + 2)
        for inset in (0, 4)[: 1 + final]:
            wide, high = half - inset, _RADIUS - inset
            self.above.append(
                f'<rect x="{at[0] - wide:.1f}" y="{at[1] - high:.1f}" width="{2 * wide:.1f}" '
                f'height="{2 * high:.1f}" rx="{high:.1f}" fill="{_PAPER}" '
                f'stroke="{_DARK if dark else _INK}" stroke-width="{2.5 if dark else 1}"/>'
            )
        self.text((at[0], at[1] - (5 if note else 0)), name, colour=_DARK if dark else _INK)
        if note:
            self.text((at[0], at[1] + 9), note, size=10)
        return half

    def arc(
        self,
        ends: tuple[Point, Point],
        *,
        halves: tuple[float, float] = (_RADIUS, _RADIUS),
        bend: float = 0.0,
        width: float = 1.2,
        colour: str = _INK,
        label: str = "",
    ) -> None:
        """Draw an arc from state to state, bent to its left by `bend` pixels.

        `halves` are half the widths of the states at its ends.
        """
        (x0, y0), (x1, y1) = ends
        long = ((x1 - x0) ** 2 + (y1 - y0) ** 2) ** 0.5
        across = ((y1 - y0) / long, -(x1 - x0) / long)
        middle = ((x0 + x1) / 2 + 2 * bend * across[0], (y0 + y1) / 2 + 2 * bend * across[1])
        start = _border(ends[0], middle, halves[0], 0.0)
        end = _border(ends[1], middle, halves[1], 3.0)
        top = ((x0 + x1) / 2 + bend * across[0], (y0 + y1) / 2 + bend * across[1])
        self.extend(top, 2, 2)
        self.below.append(
            f'<path d="M{start[0]:.1f},{start[1]:.1f} Q{middle[0]:.1f},{middle[1]:.1f} '
            f'{end[0]:.1f},{end[1]:.1f}" fill="none" stroke="{colour}" '
            f'stroke-width="{width:.2f}" marker-end="url(#{_marker(colour)})"/>'
        )
        if label:
            at = _along(ends[0], middle, ends[1], 0.4)
            away = 12 if bend >= 0 else -12
            self.text((at[0] + away * across[0], at[1] + away * across[1]), label, size=12)

    def loop(self, at: Point, label: str) -> None:
        """Draw an arc from a state to itself, above it."""
        x, y = at
        side, top = _RADIUS * 0.6, _RADIUS * 0.85
        self.extend((x, y - 66), 30, 4)
        self.below.append(
            f'<path d="M{x - side:.1f},{y - top:.1f} C{x - 34:.1f},{y - 66:.1f} {x + 34:.1f},'
            f'{y - 66:.1f} {x + side + 1:.1f},{y - top - 3:.1f}" fill="none" stroke="{_INK}" '
            f'stroke-width="1.2" marker-end="url(#{_marker(_INK)})"/>'
        )
        self.text((x, y - 62), label, size=12)

    def svg(self) -> str:
        """Return the picture."""
        markers = "".join(
            f'<marker id="{_marker(colour)}" viewBox="0 0 8 8" refX="6" refY="4" markerWidth="7" '
            f'markerHeight="7" markerUnits="userSpaceOnUse" orient="auto">'
            f'<path d="M0,0.5 L8,4 L0,7.5 z" fill="{colour}"/></marker>'
            for colour in (_INK, _DARK, _LIGHT)
        )
        if self.low > self.high:  # nothing was drawn
            self.extend((0.0, 0.0))
        left, top = self.low[0] - _MARGIN, self.low[1] - _MARGIN
        width, height = self.high[0] + _MARGIN - left, self.high[1] + _MARGIN - top
        box = f"{left:.0f} {top:.0f} {width:.0f} {height:.0f}"
        size = f'width="{width:.0f}" height="{height:.0f}"'
        font = 'font-family="Helvetica, Arial, sans-serif"'
        lines = [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} viewBox="{box}" role="img" {font}>',
            f"<title>{_escaped(self.title)}</title>",
            f"<defs>{markers}</defs>",
            f'<rect x="{left:.0f}" y="{top:.0f}" {size} fill="{_PAPER}"/>',
            *self.below,
            *self.above,
            "</svg>",
        ]
        return "\n".join(lines) + "\n"


def _along(start: Point, middle: Point, end: Point, part: float) -> Point:
    """Return a point of a curve, by its share of the way."""
    a, b, c = (1 - part) ** 2, 2 * part * (1 - part), part**2
    x, y = (a * start[i] + b * middle[i] + c * end[i] for i in (0, 1))
    return x, y


def _border(centre: Point, toward: Point, half: float, distance: float) -> Point:
    """Return the point at a distance beyond a state's border, in the direction of another point."""
    x, y = toward[0] - centre[0], toward[1] - centre[1]
    long = (x * x + y * y) ** 0.5 or 1.0
    x, y = x / long, y / long
    straight = half - _RADIUS  # half of the straight part
    if abs(y) * straight >= abs(x) * _RADIUS and y:
        radius = _RADIUS / abs(y)
    else:  # the round end: |t (x, y) − (±straight, 0)| = radius
        along = abs(x) * straight
        radius = along + (along * along - straight * straight + _RADIUS * _RADIUS) ** 0.5
    return centre[0] + (radius + distance) * x, centre[1] + (radius + distance) * y


def _marker(colour: str) -> str:
    return f"end-{colour[1:]}"


# --- A lattice: a column for each token, a row for each state -------------------------------------


@dataclass(frozen=True, slots=True)
class Trellis:
    """States of tokens with their probabilities.

    Parameters
    ----------
    tokens : sequence of T str
    states : sequence of S str
        Their names, from above.
    shares : [T][S] float
        Probability of each state at each token; states of probability 0 are not drawn.
    arcs : mapping of (int, int, int) to float
        Probability of each arc: token that it leaves, state there, state at the next token.
    best : sequence of T int
        The states of the best path.
    """

    tokens: Sequence[str]
    states: Sequence[str]
    shares: Sequence[Sequence[float]]
    arcs: Mapping[tuple[int, int, int], float]
    best: Sequence[int]


def trellis(found: Trellis, title: str) -> str:
    """Draw a lattice: the wider an arc, the more probable; the best path is dark."""
    drawing = Drawing(title)
    halves = [max(_RADIUS, _width(_cut(name), 13) / 2 + 7) for name in found.states]
    stride = max(150.0, 2 * max(halves, default=0.0) + 70)
    for t, token in enumerate(found.tokens):
        drawing.text((stride * t, 0), token, size=14)
        for i, name in enumerate(found.states):
            share = found.shares[t][i]
            if share > 0 or found.best[t] == i:
                note = f"{share:.2f}"
                drawing.state(_place(t, i, stride), name, note=note, dark=found.best[t] == i)
    for (t, i, j), share in sorted(found.arcs.items(), key=lambda item: (item[1], item[0])):
        dark = list(found.best[t : t + 2]) == [i, j]
        drawing.arc(
            (_place(t, i, stride), _place(t + 1, j, stride)),
            halves=(halves[i], halves[j]),
            width=0.6 + 7 * share,
            colour=_DARK if dark else _LIGHT,
        )
    return drawing.svg()


def _place(token: int, state: int, stride: float) -> Point:
    return stride * token, 54.0 + 62 * state


# --- Tables ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Table:
    """Numbers in a grid, coloured by their size.

    Parameters
    ----------
    name : str
    columns, rows : sequence of str
        Texts above the columns and to the left of the rows.
    shares : [rows][columns] float
        Darkness of each cell: 0 to 1 in the colour of likely cells, −1 to 0 in the opposite colour.
    texts : [rows][columns] str
        The text of each cell.
    marked : set of (int, int)
        Rows and columns of the cells with a border.
    note : str
        A note below the table, such as the number of omitted rows.
    """

    name: str
    columns: Sequence[str]
    rows: Sequence[str]
    shares: Sequence[Sequence[float]]
    texts: Sequence[Sequence[str]]
    marked: frozenset[tuple[int, int]] = frozenset()
    note: str = ""


_CELL_HEIGHT = 22.0


def tables(found: Sequence[Table], title: str) -> str:
    """Draw tables one below the other."""
    drawing = Drawing(title)
    y = 0.0
    for one in found:
        y = _table(drawing, one, y) + 34
    return drawing.svg()


def _table(drawing: Drawing, one: Table, y: float) -> float:
    """Draw a table below a height; return the height of its end."""
    side = max((_width(_cut(row), 12) for row in one.rows), default=0.0) + 10
    heads = [_cut(head, 12) for head in one.columns]
    width = max([44.0, *(_width(head, 12) + 10 for head in heads)])
    drawing.text((0, y), one.name, size=14, anchor="start", most=80)
    top = y + 20
    for c, head in enumerate(one.columns):
        drawing.text((side + width * (c + 0.5), top), head, size=12, most=12)
    top += 12
    for r, row in enumerate(one.rows):
        middle = top + _CELL_HEIGHT * (r + 0.5)
        drawing.text((side - 5, middle), row, size=12, anchor="end")
        for c, (share, text) in enumerate(zip(one.shares[r], one.texts[r], strict=True)):
            at = (side + width * c, top + _CELL_HEIGHT * r)
            _cell(drawing, at, width, share, text, marked=(r, c) in one.marked)
    bottom = top + _CELL_HEIGHT * len(one.rows)
    if one.note:
        drawing.text((0, bottom + 14), one.note, size=11, anchor="start", most=200)
        bottom += 20
    return bottom


def _cell(
    drawing: Drawing, at: Point, width: float, share: float, text: str, *, marked: bool
) -> None:
    dark = min(1.0, abs(share))
    colour = "#286ed2" if share >= 0 else "#c2570c"
    drawing.extend((at[0] + width, at[1] + _CELL_HEIGHT))
    box = f'width="{width:.1f}" height="{_CELL_HEIGHT:.0f}"'
    place = f'x="{at[0]:.1f}" y="{at[1]:.1f}"'
    drawing.below.append(
        f'<rect {place} {box} fill="{colour}" fill-opacity="{0.8 * dark:.3f}" '
        f'stroke="{_LIGHT}" stroke-width="0.5"/>'
    )
    if marked:
        drawing.above.append(
            f'<rect x="{at[0] + 1:.1f}" y="{at[1] + 1:.1f}" width="{width - 2:.1f}" '
            f'height="{_CELL_HEIGHT - 2:.0f}" fill="none" stroke="#b34700" stroke-width="2"/>'
        )
    if text:
        ink = _PAPER if dark > 0.6 else _INK
        drawing.above.append(
            f'<text x="{at[0] + width / 2:.1f}" y="{at[1] + 15:.1f}" font-size="11" fill="{ink}" '
            f'text-anchor="middle">{_escaped(text)}</text>'
        )


def probabilities(
    name: str,
    labels: Sequence[str],
    tokens: Sequence[str],
    shares: Sequence[Sequence[float]],
    best: Sequence[str],
    *,
    wrap: int = 40,
    most: int = 400,
) -> list[Table]:
    """Return the tables of a tape: a row for each label, a column for each token.

    Parameters
    ----------
    name : str
        Of the tape.
    labels : sequence of L str
        Unlikely labels are left out, and the note reports it.
    tokens : sequence of T str
    shares : [T][L] float
        Probabilities.
    best : sequence of T str
        Labels that are marked.
    wrap, most : int
        Tokens of a table, and of all.
    """
    tables: list[Table] = []
    for start in range(0, min(len(tokens), most), wrap):
        end = min(start + wrap, most, len(tokens))
        shown = [
            k
            for k, label in enumerate(labels)
            if label in best[start:end] or any(row[k] >= _FAINT for row in shares[start:end])
        ]
        left = len(labels) - len(shown)
        said = [f"{left:,} of {len(labels):,} labels, less probable, are left out"] if left else []
        if end == most < len(tokens):
            said.append(f"{len(tokens) - most:,} more tokens are not drawn")
        cells = [[float(shares[t][k]) for t in range(start, end)] for k in shown]
        marked = {
            (r, t - start)
            for r, k in enumerate(shown)
            for t in range(start, end)
            if best[t] == labels[k]
        }
        where = f", tokens {start} to {end - 1}" if len(tokens) > wrap else ""
        tables.append(
            Table(
                name + where,
                tokens[start:end],
                [labels[k] for k in shown],
                cells,
                [[f"{share:.2f}" if share >= _FAINT else "" for share in row] for row in cells],
                frozenset(marked),
                "; ".join(said),
            )
        )
    return tables


def scores(
    name: str,
    columns: Sequence[str],
    rows: Sequence[str],
    values: Sequence[Sequence[float]],
    *,
    note: str = "",
) -> Table:
    """Return a table of potentials, natural logs; forbidden cells (−inf) have a dash."""
    finite = [abs(v) for row in values for v in row if v > float("-inf")]
    largest = max(finite, default=0.0) or 1.0
    never = float("-inf")
    return Table(
        name,
        columns,
        rows,
        [[0.0 if v == never else 0.75 * v / largest for v in row] for row in values],
        [["–" if v == never else f"{v:.3g}" for v in row] for row in values],
        note=note,
    )


# --- One step of a topology -----------------------------------------------------------------------


def step(
    states: Sequence[str],
    arcs: Sequence[tuple[int, int]],
    initial: Sequence[bool],
    final: Sequence[bool],
    title: str,
) -> str:
    """Draw the possible transitions: states of one token, and states of the next.

    An initial state has an incoming arc; a final state has two rings.
    """
    drawing = Drawing(title)
    half = max([_RADIUS, *(_width(_cut(name), 13) / 2 + 7 for name in states)])
    right = 2 * half + 190
    drawing.text((0, 0), "a token", size=14)
    drawing.text((right, 0), "the next", size=14)
    for i, name in enumerate(states):
        y = 54.0 + 62 * i
        own = drawing.state((0.0, y), name, final=final[i])
        drawing.state((right, y), name, final=final[i])
        if initial[i]:
            begin = (-half - 44, y)
            drawing.extend(begin)
            drawing.below.append(
                f'<path d="M{begin[0]:.1f},{y:.1f} L{-own - 3:.1f},{y:.1f}" fill="none" '
                f'stroke="{_INK}" stroke-width="1.2" marker-end="url(#{_marker(_INK)})"/>'
            )
    halves = [max(_RADIUS, _width(_cut(name), 13) / 2 + 7) for name in states]
    for i, j in arcs:
        ends = ((0.0, 54.0 + 62 * i), (right, 54.0 + 62 * j))
        drawing.arc(ends, halves=(halves[i], halves[j]), width=1.0)
    return drawing.svg()


# --- Graphs in layers -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Arc:
    """An arc of a graph with its label."""

    source: int
    target: int
    label: str


@dataclass(frozen=True, slots=True)
class Diagram:
    """States and arcs to be drawn from left to right.

    Parameters
    ----------
    name : str
        Written above, if any.
    states : sequence of S str
        The text of each state.
    start : int
        −1: none.
    final : sequence of S bool
    arcs : sequence of Arc
        Those with the same ends are drawn as one.
    """

    name: str
    states: Sequence[str]
    start: int
    final: Sequence[bool]
    arcs: Sequence[Arc]


def graphs(found: Sequence[Diagram], title: str) -> str:
    """Draw graphs one below the other: layers by the arcs that lead there, in bold the start.

    Within a layer, states are approximately at the height of their neighbours.
    """
    drawing = Drawing(title)
    y = 0.0
    for one in found:
        if one.name:
            drawing.text((0, y), one.name, size=14, anchor="start", most=120)
            y += 30
        y = _graph(drawing, one, y) + 50
    return drawing.svg()


def _graph(drawing: Drawing, one: Diagram, top: float) -> float:
    """Draw a graph below a height; return the height of its end."""
    named = _merged(one.arcs)
    layers = _layers(one, sorted(named))
    order = _ordered(layers, sorted(named))
    wide = max((_width(_cut(label), 12) for label in named.values()), default=0.0)
    half = max([_RADIUS, *(_width(_cut(name), 13) / 2 + 7 for name in one.states)])
    stride = 2 * half + max(90.0, wide + 44)
    level = {state: n for n, layer in enumerate(order) for state in layer}
    loops = any(s == t for s, t in named)
    above, apart = (70.0, 140.0) if loops else (24.0, 92.0)
    above += 11.0 * max((level[t] - level[s] for s, t in named), default=0)
    rows = max(map(len, order), default=0)
    place = {
        state: (half + stride * n, top + above + apart * (i + (rows - len(layer)) / 2))
        for n, layer in enumerate(order)
        for i, state in enumerate(layer)
    }
    halves = {
        s: drawing.state(at, one.states[s], dark=s == one.start, final=one.final[s])
        for s, at in place.items()
    }
    for (s, t), label in named.items():
        if s == t:
            drawing.loop(place[s], label)
            continue
        drawing.arc(
            (place[s], place[t]),
            halves=(halves[s], halves[t]),
            bend=_bend(level[t] - level[s], both=(t, s) in named),
            label=label,
        )
    return max(drawing.high[1], max((at[1] + _RADIUS for at in place.values()), default=top))


def _bend(ahead: int, *, both: bool) -> float:
    """Return the bend of an arc: around states between its ends, away from a reverse arc."""
    if ahead == 1:
        return 18.0 if both else 0.0
    return 40.0 if ahead == 0 else 18.0 + 24.0 * (abs(ahead) - 1)


def _merged(arcs: Sequence[Arc]) -> dict[tuple[int, int], str]:
    """Return the texts of the arcs between two states, by their ends."""
    labels: dict[tuple[int, int], list[str]] = defaultdict(list)
    for arc in arcs:
        labels[arc.source, arc.target].append(arc.label)
    return {ends: ", ".join(texts) for ends, texts in labels.items()}


def _layers(one: Diagram, arcs: Sequence[tuple[int, int]]) -> list[list[int]]:
    """Return the states by their distance from the start; unreachable states are last."""
    after: dict[int, list[int]] = defaultdict(list)
    for source, target in arcs:
        after[source].append(target)
    seen: set[int] = set()
    layers: list[list[int]] = []
    now = [one.start] if one.start >= 0 else []
    while now:
        seen.update(now)
        layers.append(now)
        now = list(dict.fromkeys(t for s in now for t in after[s] if t not in seen))
    rest = [s for s in range(len(one.states)) if s not in seen]
    return [*layers, rest] if rest else layers


def _ordered(layers: list[list[int]], arcs: Sequence[tuple[int, int]]) -> list[list[int]]:
    """Return each layer in the order of the mean place of its neighbours in the one before."""
    near: dict[int, list[int]] = defaultdict(list)
    for source, target in arcs:
        near[source].append(target)
        near[target].append(source)
    order = [list(layer) for layer in layers]
    ahead = range(1, len(order))
    for step_back, places in ((-1, list(ahead)), (1, [n - 1 for n in reversed(ahead)])) * 2:
        for n in places:
            _settle(order[n], order[n + step_back], near)
    return order


def _settle(layer: list[int], beside: Sequence[int], near: Mapping[int, Sequence[int]]) -> None:
    """Sort a layer by the mean place of each state's neighbours in the adjacent layer."""
    place = {state: i for i, state in enumerate(beside)}
    middle: dict[int, float] = {}
    for i, state in enumerate(layer):
        neighbours = [place[n] for n in near.get(state, ()) if n in place]
        middle[state] = sum(neighbours) / len(neighbours) if neighbours else i
    layer.sort(key=lambda state: (middle[state], state))
