"""Programs that are run as peers, and small texts for them."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from shutil import which
from typing import TypeAlias

import numpy as np

from fstcrf import read_columns

__all__ = [
    "CRFPP_TEMPLATE",
    "WAPITI_PATTERNS",
    "Sentences",
    "conll2000",
    "program",
    "random_sentences",
    "run",
    "written",
]

Sentences: TypeAlias = list[list[tuple[str, ...]]]

CRFPP_TEMPLATE = """
# a comment
U00:%x[-2,0]
U01:%x[0,0]
U02:%x[0,0]
U:%x[-1,0]
U:%x[0,0]
U:%x[1,0]
U:%x[0,1]
U05:%x[-1,0]/%x[0,0]
U06:%x[0,0]%x[1,1]
U07:%x[-1,1]/%x[0,1]/%x[1,1]
B01:%x[-1,1]/%x[0,1]
B
"""

WAPITI_PATTERNS = r"""
# a comment
U00:%x[-2,0]
u01:%X[ 0,0]
u01:%X[ 0,0]
u:%x[-1,1]
u:%x[1,1]
u05:%x[-1,0]/%x[0,0]
u06:%x[0,0]%x[1,1]
*07:%x[0,1]
*08:%x[-1,1]/%x[0,1]
u20:%x[-6,1]/%x[6,1]
u30:%m[0,0,"^.?.?.?"]
u31:%M[0,0,".?.?.?$"]
u32:%t[0,0,"^\u"]%t[0,0,"\d"]
u33:%t[-1,0,"\p"]/%t[1,0,"^\d\d*$"]
u34:%m[0,0,"a?ab"]
u40:%x[@1,1]/%x[0,1]
u41:%x[@-1,0]
b42:%t[@2,0,"b$"]/%x[@-3,1]
*
"""

_WORDS = ("a", "ab", "aab", "Abz", "b/a", "1", "-12", "Éa", "été", "x.", "zz", "a/b")


def conll2000(data: Path, part: str) -> Sentences:
    """Return words, parts of speech and chunks of CoNLL-2000, token by token."""
    columns = ("word", "pos", "chunk")
    corpus = read_columns(data / "conll2000" / f"{part}.txt", columns)
    return [list(zip(*(sentence[c] for c in columns), strict=True)) for sentence in corpus]


def program(name: str, greeting: str | None = None) -> str | None:
    """Return where a program is, if it says what it should when it is asked for its version."""
    found = which(name)
    if found is None or greeting is None:
        return found
    said = subprocess.run([found, "--version"], capture_output=True, text=True, check=False)
    return found if greeting in said.stdout + said.stderr else None


def run(command: str | None, *arguments: str | PathLike[str]) -> str:
    """Run a program and return what it prints."""
    assert command is not None
    done = subprocess.run([command, *arguments], capture_output=True, check=True)
    return done.stdout.decode()


def random_sentences(seed: int, count: int) -> Sentences:
    """Sentences of three columns, the last of which the others tell in part."""
    rng = np.random.default_rng(seed)
    sentences: Sentences = []
    for _ in range(count):
        words = rng.integers(len(_WORDS), size=rng.integers(1, 9))
        labels = np.where(rng.random(len(words)) < 0.7, words % 4, np.roll(words, 1) % 4)
        sentences.append(
            [(_WORDS[w], "NVP"[w % 3], "WXYZ"[y]) for w, y in zip(words, labels, strict=True)]
        )
    return sentences


def written(path: Path, sentences: Sequence[Sequence[Sequence[str]]]) -> None:
    """Write sentences in columns."""
    blocks = ["".join(" ".join(row) + "\n" for row in sentence) for sentence in sentences]
    path.write_text("\n".join(blocks) + "\n", encoding="utf-8")
