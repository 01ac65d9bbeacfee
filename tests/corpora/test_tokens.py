"""A classifier that looks at the tokens of CoNLL-2003 one by one, under a decoder of spans."""

from __future__ import annotations

from itertools import accumulate, pairwise
from pathlib import Path

import numpy as np
import pytest

import fstcrf
from fstcrf import CRF
from fstcrf.ext.tokens import Pieces, TokenDecoder
from fstcrf.text.corpus import Corpus, convert_column, spans

pytestmark = [pytest.mark.corpus, pytest.mark.thorough]

COLUMNS = ("word", "pos", "chunk", "entity")
TEMPLATE = "U0:%x[-1..1,word]\nU1:%x[0,suffix(word,3)]\nU2:%x[0,shape(word)]\nU3:%x[0,pos]"


def read(folder: Path, name: str) -> Corpus:
    return convert_column(fstcrf.read_columns(folder / name, COLUMNS), "entity", "iob1", "bioes")


def documents(tagger: CRF, part: Corpus) -> tuple[list[Pieces], list[list[tuple[int, int, str]]]]:
    pieces, gold = [], []
    for sentence, rows in zip(part, tagger.marginals_all(part), strict=True):
        words = sentence["word"]
        starts = list(accumulate([len(word) + 1 for word in words], initial=0))
        places = [(a, b - 1) for a, b in pairwise(starts)]
        pieces.append(Pieces(np.log(rows), places, text=" ".join(words)))
        found = spans(sentence["entity"], "bioes")
        gold.append([(starts[s.start], starts[s.end] - 1, s.type) for s in found])
    return pieces, gold


def test_legal_spans_and_tuning_are_worth_points_of_f(data: Path) -> None:
    folder = data / "conll2003"
    train, dev = read(folder, "eng.train")[:2500], read(folder, "eng.testa")[:2400]
    tagger = CRF.train(train, "entity", TEMPLATE, order=0, l2=0.05, max_iterations=40)
    held_out, fresh = dev[:1200], dev[1200:]
    decoder = TokenDecoder(tagger.labels, "bioes")
    pieces, gold = documents(tagger, fresh)
    found = tagger.tag_all(fresh)
    single = fstcrf.evaluate_spans(fresh.column_lists("entity"), found).f
    plain = decoder.evaluate(pieces, gold).f
    assert plain > single + 0.05
    tuned = decoder.tune(*documents(tagger, held_out), thresholds=False)
    assert tuned.evaluate(pieces, gold).f > plain
    careful = decoder.tune(*documents(tagger, held_out), "recall", least=0.9, biases=False)
    assert careful.evaluate(pieces, gold).precision > 0.85
