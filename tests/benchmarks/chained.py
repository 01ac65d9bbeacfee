"""Taggers that read the ones before them: the chain rule beside its cascade.

``python -m tests.benchmarks.chained --data DIR [--models DIR] [--quick]`` prints a table, with
``--json`` a JSON object.

Parts of speech (49 labels, UD English EWT), chunks (22, CoNLL-2000), entities (CoNLL-2003): each
tagger is trained on a corpus of its own and reads what the taggers before it say there. Trained
once, kept in a folder. Sentences that none of them has seen are decoded with default settings, with
64 labellings (the default of earlier versions), and by the cascade: seconds of the processor, in
turns, from words to columns of labels; the mean log probability; how many answers are proven to be
the best; and how far the bound is above the others, in the mean. Several best, and sentences one by
one, take so many times as long.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np

from fstcrf import CRF, Composition, Corpus, compose, read_columns, read_conllu
from fstcrf.errors import InexactWarning
from tests.benchmarks.report import table
from tests.benchmarks.running import in_turns
from tests.benchmarks.taggers import CHUNKS, COLUMNS, POS, decoding_seconds, words_of

SENTENCES = 250  # of each kind of text that are decoded
EARLIER = 64  # labellings that were looked at by default before
ROUNDS = 15
_QUICK = 600  # sentences of each corpus, from its beginning

ENTITIES = f"{CHUNKS}U30:%y[0,chunk]\nU31:%y[0,chunk]/%x[0,shape(word)]\n"


def chained(data: Path, folder: Path, *, quick: bool = False) -> tuple[CRF, CRF, CRF]:
    """Return the three taggers, from their files where these are there.

    Parameters
    ----------
    data : path
        Folder of corpora.
    folder : path
        Where the trained taggers are kept.
    quick : bool
        Few sentences, few iterations.
    """
    kept = folder / ("chained-quick" if quick else "chained")
    kept.mkdir(parents=True, exist_ok=True)
    found: list[CRF] = []
    for tape, template in (("pos", POS), ("chunk", CHUNKS), ("entity", ENTITIES)):
        path = kept / f"{tape}.fstcrf"
        if not path.exists():
            whole = _corpus(data, tape)
            text = whole.select(np.arange(_QUICK)) if quick else whole
            limit = 15 if quick else None
            CRF.train(text, tape, template, reads=found, max_iterations=limit).save(path)
        found.append(CRF.load(path))
    return found[0], found[1], found[2]


def _corpus(data: Path, tape: str) -> Corpus:
    if tape == "pos":
        return _web(data / "ud_english_ewt" / "en_ewt-ud-train.conllu")
    if tape == "chunk":
        return read_columns(data / "conll2000" / "train.txt", COLUMNS)
    return read_columns(data / "conll2003" / "eng.train", (*COLUMNS, "entity"))


def _web(path: Path) -> Corpus:
    whole = read_conllu(path)
    return Corpus({"word": whole.columns["form"], "pos": whole.columns["xpos"]}, whole.offsets)


def held_out(data: Path, size: int = SENTENCES) -> dict[str, Corpus]:
    """Return sentences that no tagger has seen, by the kind of their text; words alone."""
    texts = {
        "web": _web(data / "ud_english_ewt" / "en_ewt-ud-dev.conllu"),
        "news": read_columns(data / "conll2000" / "test.txt", COLUMNS),
        "wire": read_columns(data / "conll2003" / "eng.testa", (*COLUMNS, "entity")),
    }
    step = {name: max(1, len(text) // size) for name, text in texts.items()}
    return {
        name: words_of(text.select(np.arange(0, len(text), step[name])[:size]))
        for name, text in texts.items()
    }


@dataclass(frozen=True, slots=True)
class Measured:
    """Taggers by the chain rule on one kind of text.

    Parameters
    ----------
    text : str
    taggers, sentences : int
    cascade, chain, earlier : float
        Seconds of the processor: cascade, default settings, `EARLIER` labellings.
    lost : float
        By how much the mean log probability of a sentence is below that of `EARLIER` labellings.
    proven, proven_earlier : int
        Sentences whose answer is proven to be the best.
    gap : float
        How far the bound is above the answers that are not proven, in the mean.
    five, tape, alone : float
        Processor time over that of default settings: of the 5 best, of the 3 best of a single tape
        (the worst tape), and of one sentence a call.
    """

    text: str
    taggers: int
    sentences: int
    cascade: float
    chain: float
    earlier: float
    lost: float
    proven: int
    proven_earlier: int
    gap: float
    five: float
    tape: float
    alone: float

    @property
    def ratio(self) -> float:
        """Processor time against the cascade's."""
        return self.chain / self.cascade

    @property
    def cells(self) -> list[str]:
        return [
            f"{self.taggers} taggers, {self.text}",
            f"{self.sentences:,}",
            f"{1000 * self.cascade:.1f}",
            f"{self.ratio:.2f}×",
            f"{self.earlier / self.cascade:.2f}×",
            f"{self.lost:.4f}",
            f"{self.proven:,}",
            f"{self.proven_earlier:,}",
            f"{self.gap:.3f}",
            *(f"{ratio:.2f}×" for ratio in (self.five, self.tape, self.alone)),
        ]


HEAD = (
    "work, text",
    "sentences",
    "cascade, ms",
    "chain",
    f"{EARLIER} labellings",
    "log p lost",
    "proven",
    f"proven of {EARLIER}",
    "bound above the others",
    "5 best",
    "3 of a tape",
    "one by one",
)


def measured(data: Path, folder: Path, *, quick: bool = False) -> Iterator[Measured]:
    """Yield the measurements, the worst ratio of each number of taggers first."""
    taggers = chained(data, folder, quick=quick)
    texts = held_out(data, SENTENCES // 5 if quick else SENTENCES)
    for n in (2, 3):
        chain = compose(*taggers[:n])
        rows = [_row(chain, name, text) for name, text in texts.items()]
        yield from sorted(rows, key=lambda row: -row.ratio)


def _row(chain: Composition, name: str, text: Corpus) -> Measured:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InexactWarning)  # they are counted
        found, more = chain.decode(text), chain.decode(text, budget=EARLIER)
        works: tuple[Callable[[Corpus], object], ...] = (
            chain.cascade,
            chain.tag_columns,
            lambda corpus: chain.tag_columns(corpus, budget=EARLIER),
            chain.decode,
            partial(chain.decode, n=5),
            lambda corpus: list(map(chain.tag, corpus)),
            *(partial(chain.decode, n=3, tapes=[tape]) for tape in chain.tapes),
        )
        times = in_turns(ROUNDS, *(partial(decoding_seconds, work, text) for work in works))
    open_ = ~found.exact
    cascade, chained_, earlier, one, five, alone, *tapes = map(statistics.median, times)
    return Measured(
        name,
        len(chain.taggers),
        len(text),
        cascade=cascade,
        chain=chained_,
        earlier=earlier,
        lost=float((more.scores - found.scores).mean()),
        proven=int(found.exact.sum()),
        proven_earlier=int(more.exact.sum()),
        gap=float((found.bounds - found.scores)[open_].mean()) if open_.any() else 0.0,
        five=five / one,
        tape=max(tapes) / one,
        alone=alone / chained_,
    )


def main() -> None:
    """Print the table, or what is in it."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.chained")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--models", type=Path, help="Where trained taggers are kept.")
    parser.add_argument("--quick", action="store_true", help="Little data, to see it run.")
    parser.add_argument("--json", action="store_true", help="Print a JSON object.")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        rows = [*measured(options.data, options.models or Path(scratch), quick=options.quick)]
    if options.json:
        cases = [{**asdict(row), "ratio": row.ratio, "cells": row.cells} for row in rows]
        print(json.dumps({"head": HEAD, "cases": cases}))
    else:
        print(table(list(HEAD), [row.cells for row in rows]))


if __name__ == "__main__":
    main()
