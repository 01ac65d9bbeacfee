"""Taggers of CoNLL-2000 to compose: POS of words, chunks of words and of predicted POS."""

from __future__ import annotations

from fstcrf import CRF, Corpus
from fstcrf.text.corpus import Column

COLUMNS = ("word", "pos", "chunk")

WORDS = """\
U00:%x[-2,word]
U01:%x[-1,word]
U02:%x[0,word]
U03:%x[1,word]
U04:%x[2,word]
U05:%x[-1,word]/%x[0,word]
U06:%x[0,word]/%x[1,word]
"""

POS = f"""\
{WORDS}U10:%x[0,lower(word)]
U11:%x[0,prefix(word,1)]
U12:%x[0,prefix(word,2)]
U13:%x[0,prefix(word,3)]
U14:%x[0,suffix(word,1)]
U15:%x[0,suffix(word,2)]
U16:%x[0,suffix(word,3)]
U17:%x[0,suffix(word,4)]
U18:%x[-1..1,shape(word)]
BOS
EOS
B
"""

CHUNKS = f"""\
{WORDS}U10:%x[0,suffix(word,3)]
U11:%x[0,shape(word)]
U20:%y[0,pos]
U21:%y[0,pos]/%x[0,word]
U22:%y[0,pos]/%x[-1,word]
U23:%y[0,pos]/%x[1,word]
U24:%y[0,pos]/%x[0,suffix(word,3)]
U25:%y[0,pos]/%x[-1,suffix(word,3)]
U26:%y[0,pos]/%x[1,suffix(word,3)]
BOS
EOS
B
"""


def pos_tagger(corpus: Corpus, *, max_iterations: int | None = None, threads: int = 2) -> CRF:
    """Train on the gold POS column."""
    return CRF.train(corpus, "pos", POS, max_iterations=max_iterations, threads=threads)


def chunker(
    corpus: Corpus,
    pos: CRF,
    *,
    jackknife: int | None = None,
    max_iterations: int | None = None,
    threads: int = 2,
) -> CRF:
    """Train on the gold chunks and the POS tagger's predictions, jack-knifed on request."""
    return CRF.train(
        corpus,
        "chunk",
        CHUNKS,
        reads=[pos],
        jackknife=jackknife,
        max_iterations=max_iterations,
        threads=threads,
    )


def words_of(corpus: Corpus) -> Corpus:
    """Return the sentences without their gold labels; nothing is shared that could be cached."""
    words = corpus.columns["word"]
    return Corpus({"word": Column(words.ids.copy(), words.values)}, corpus.offsets.copy())
