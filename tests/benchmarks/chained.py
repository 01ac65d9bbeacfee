"""Taggers that read the ones before them, for measurements of the chain rule.

Parts of speech (49 labels, UD English EWT), chunks (22, CoNLL-2000), entities (CoNLL-2003): each is
trained on a corpus of its own and reads what the taggers before it say there. Trained once, kept in
a folder.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fstcrf import CRF, Corpus, read_columns, read_conllu
from tests.benchmarks.taggers import CHUNKS, COLUMNS, POS, words_of

__all__ = ["ENTITIES", "SENTENCES", "chained", "held_out"]

SENTENCES = 250  # of each kind of text that are decoded
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
