"""How plain the texts are: vague turns for each 1,000 words, by the kind of text.

A vague turn is a noun clause in the place of a noun ("what is stored", "where it ends"), a pointer
without a noun ("those of", "that of", "of one"), or a verb that does not say what happens. The
count is a gauge, not a judge. It is a rate: deleting a text does not lower it.

``python -m tests.house.prose [--worst N] [FILE ...]`` prints the rates, and the N worst sentences.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import sys
import tokenize
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from typing import NamedTuple

from tests.house.sizes import ROOT, TABLE, House

TURNS = {
    "noun clause": re.compile(
        r"\bwhat (?!if\b|happens\b)"
        r"|(?<!^)(?<![.!?] )\bwhere (?=(?:it|they|that|an?|the|there|one|none|this|those|code|"
        r"labels?|no|some|all|its)\b)"
        r"|\b(?:whoever|whatever|who (?:wants|has|asks|looks|needs|reads))\b",
        re.MULTILINE,
    ),
    "pointer": re.compile(
        r"\b(?:those|that) of\b|\bthose (?:that|which|who|whose)\b|\bare those\b"
        r"|\bis one (?:that|of)\b|(?:^|[.,;:] )of (?:one|several|each|it|them|these|those|all|a)\b"
        r"|\b(?:by (?:itself|themselves)|of (?:its|their|one's) own)\b",
        re.MULTILINE,
    ),
    "verb": re.compile(r"\b(?:told|says?|said|tells?|stands?|goes|lies?|comes?)\b"),
    "adverb": re.compile(
        r"\b(?:alone|beside|behind|none|nothing|nobody)\b"
        r"|\b(?:so|as) (?:many|much|often|far|long) (?!as\b)|, too\b|\btoo[.;,]"
    ),
}
KINDS = (
    "readme",
    "docs",
    "messages",
    "help",
    "public docstrings",
    "private docstrings",
    "comments",
)
LEAST = 4  # words of a sentence; shorter ones are names


class Rate(NamedTuple):
    """Words of a kind of text, and vague turns among them."""

    words: int
    turns: int

    @property
    def per_thousand(self) -> float:
        """Turns for each 1,000 words."""
        return 1000 * self.turns / max(self.words, 1)


def limits() -> dict[str, float]:
    """Return the highest rate that each kind of text may have."""
    return {kind: float(n) for kind, n in tomllib.loads(TABLE.read_text("utf-8"))["prose"].items()}


def room_limits() -> dict[str, float]:
    """Return the highest rate of docstrings and comments together in each plain room."""
    table = tomllib.loads(TABLE.read_text("utf-8"))["prose of rooms"]
    return {room: float(n) for room, n in table.items()}


def room_rate(room: str) -> Rate:
    """Return the rate of a folder's docstrings and comments together."""
    house = House(ROOT)
    files = [name for name in house.files if name.startswith(f"{room}/")]
    rates = measured((name, house.text(name)) for name in files)[0]
    inner = [rates[kind] for kind in ("public docstrings", "private docstrings", "comments")]
    return Rate(sum(rate.words for rate in inner), sum(rate.turns for rate in inner))


def turns(sentence: str) -> int:
    """Count the vague turns of a sentence."""
    lower = sentence.lower()
    return sum(len(turn.findall(lower)) for turn in TURNS.values())


def sentences(text: str) -> Iterator[str]:
    """Split a text without markup into its sentences; code counts as one word."""
    for block in re.split(r"\n\s*\n|\n(?=\s*[-*] )|\n(?=\d+\. )", text):
        plain = re.sub(r"``[^`]*``|`[^`]*`", "CODE", block)
        plain = re.sub(r"\s+", " ", plain).strip()
        for sentence in re.split(r"(?<=[.!?:]) +(?=[A-Z`*])", plain):
            if len(sentence.split()) >= LEAST:
                yield sentence


def markdown(text: str) -> str:
    """Return the prose of a page: without code, comments and links; each cell is a paragraph."""
    text = re.sub(
        r"```.*?```|~~~.*?~~~|<!--.*?-->|<details>.*?</details>", "\n\n", text, flags=re.DOTALL
    )
    kept = []
    for line in text.split("\n"):
        if line.lstrip().startswith("|"):
            cells = line.strip().strip("|").split("|")
            kept += ["", *(f"{cell.strip()}\n" for cell in cells if cell.strip("-: "))]
        elif not line.lstrip().startswith(("<", "!", ":::")):
            kept.append(line.lstrip("# ") if line.startswith("#") else line)
    return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", "\n".join(kept))


def python(source: str) -> Iterator[tuple[str, str]]:
    """Yield the texts of a Python file, with their kinds."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            kind = "private" if getattr(node, "name", "").startswith("_") else "public"
            text = re.sub(r"^-{3,}$|^>>>.*$", "", ast.get_docstring(node) or "", flags=re.MULTILINE)
            yield f"{kind} docstrings", text
        elif isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            yield from (("messages", text) for text in map(_literal, node.exc.args))
        elif isinstance(node, ast.Call):
            helped = [k.value for k in node.keywords if k.arg in ("help", "short_help", "epilog")]
            yield from (("help", text) for text in map(_literal, helped))
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            text = token.string.lstrip("# ").split("  # noqa")[0]
            yield "comments", re.sub(r"^(noqa|type:|SPDX|!|---).*", "", text)


def _literal(node: ast.expr) -> str:
    parts = node.values if isinstance(node, ast.JoinedStr) else [node]
    return "".join(
        str(part.value) if isinstance(part, ast.Constant) else "CODE"
        for part in parts
        if isinstance(part, ast.Constant | ast.FormattedValue)
    )


def texts(name: str, source: str) -> Iterator[tuple[str, str]]:
    """Yield the texts of a file, with their kinds."""
    if name.endswith(".md"):
        yield ("readme" if name == "README.md" else "docs"), markdown(source)
    elif name.endswith(".py"):
        yield from python(source)
    elif name.endswith((".c", ".h")):
        for comment in re.findall(r"/\*(.*?)\*/", source, flags=re.DOTALL):
            yield "comments", re.sub(r"^\s*\*|SPDX.*", "", comment, flags=re.MULTILINE)


@cache
def counted(name: str, source: str) -> list[tuple[str, str, int, int]]:
    """Return each sentence of a file: its kind, its text, its words and its vague turns."""
    return [
        (kind, sentence, len(sentence.split()), turns(sentence))
        for kind, text in texts(name, source)
        for sentence in sentences(text)
    ]


def measured(
    files: Iterable[tuple[str, str]],
) -> tuple[dict[str, Rate], list[tuple[int, str, str]]]:
    """Return the rate of each kind of text, and the sentences with turns, with their files."""
    words: dict[str, int] = defaultdict(int)
    counts: dict[str, int] = defaultdict(int)
    vague = []
    for name, source in files:
        for kind, sentence, length, number in counted(name, source):
            words[kind] += length
            counts[kind] += number
            if number:
                vague.append((number, f"{name} ({kind})", sentence))
    return {kind: Rate(words[kind], counts[kind]) for kind in KINDS}, sorted(vague, reverse=True)


def of_checkout(names: Iterable[str] = ()) -> Iterator[tuple[str, str]]:
    """Yield names and sources of the files that users and readers of the code meet."""
    house = House(ROOT)
    folders = (
        "fstcrf/",
        "csrc/",
        "docs/",
        "grammars/",
        "README.md",
        "CONTRIBUTING.md",
        "SECURITY.md",
    )
    chosen = list(names) or [name for name in house.files if name.startswith(folders)]
    return ((name, house.text(name)) for name in chosen)


def main() -> None:
    """Print rates beside their limits, and the worst sentences."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--worst", type=int, default=0, help="how many sentences to print")
    parser.add_argument("--kind", help="only sentences of this kind of text")
    parser.add_argument("files", nargs="*", help="files of the checkout  [default: all]")
    given = parser.parse_args()
    rates, vague = measured(of_checkout(given.files))
    for kind, rate in rates.items():
        sys.stdout.write(
            f"{kind:20} {rate.words:8,} words  {rate.per_thousand:5.1f} turns for 1,000 words  "
            f"limit {limits()[kind]:5.1f}\n"
        )
    shown = [row for row in vague if given.kind is None or row[1].endswith(f"({given.kind})")]
    for number, where, sentence in shown[: given.worst]:
        sys.stdout.write(f"  {number} {where}: {sentence}\n")


if __name__ == "__main__":
    main()
