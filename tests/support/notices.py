"""Notices of the demo in the place of CoNLL-2000 and CoNLL-2003: small corpora for recipes."""

from __future__ import annotations

from pathlib import Path

from fstcrf.demo import corpus_path


def write(path: Path, part: str, size: int, *, chunks: bool) -> None:
    """Write the first notices of a part of the demo's corpus.

    Word, tag and field stand for word, tag and chunk, or for word, tag and entity.
    """
    path.parent.mkdir(exist_ok=True)
    text = "\n\n".join(corpus_path(part).read_text("utf-8").strip().split("\n\n")[:size])
    rows = [line.split() for line in text.splitlines()]
    lines = [" ".join(row if chunks or not row else [*row[:2], "O", row[2]]) for row in rows]
    path.write_text("\n".join(lines) + "\n", "utf-8")
