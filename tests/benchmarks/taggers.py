"""Taggers of CoNLL-2000 to compose: POS of words, chunks of words and of predicted POS."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from fstcrf import CRF, Corpus
from fstcrf.text.corpus import Column
from fstcrf.training import Reads, Run
from tests.benchmarks import accuracy
from tests.benchmarks.work import seconds_of

COLUMNS = ("word", "pos", "chunk")

POS = accuracy.WORDS.format(w="word").removesuffix("B\n") + "BOS\nEOS\nB\n"
_NEAR = "".join(POS.splitlines(keepends=True)[:7])  # single words, and pairs with the own one

CHUNKS = f"""\
{_NEAR}U10:%x[0,suffix(word,3)]
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
    return CRF.train(corpus, "pos", POS, max_iterations=max_iterations, run=Run(threads=threads))


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
        reads=Reads([pos], jackknife=jackknife),
        max_iterations=max_iterations,
        run=Run(threads=threads),
    )


def words_of(corpus: Corpus) -> Corpus:
    """Return the sentences without their gold labels; nothing is shared that could be cached."""
    words = corpus.columns["word"]
    return Corpus({"word": Column(words.ids.copy(), words.values)}, corpus.offsets.copy())


def decoding_seconds(decode: Callable[[Corpus], object], corpus: Corpus) -> float:
    """Return the seconds of the processor in which the words of a corpus are decoded."""
    return seconds_of(partial(decode, words_of(corpus)))
