"""Models of CRF++ and of Wapiti."""

from __future__ import annotations

from fstcrf import CRF, load_crfpp, load_wapiti
from fstcrf.text.features import LiteralIndex
from tests.fuzz.target import Target
from tests.support.pattern_models import crfpp_binary, crfpp_text, repaired_crfpp, wapiti

__all__ = ["CRFPP", "CRFPP_TEXT", "WAPITI"]

WORDS = ["the", "cat/2", "É", "B-52"]
LABELS = [b"O", b"B-NP", b"I-NP"]
TEMPLATES = [b"U0:%x[0,0]", b"U1:%x[-1,0]/%x[0,1]", b"U:%x[2,1]", b"B", b"B1:%x[0,0]%x[-1,1]"]
TEXTS = [
    b"U0:the",
    b"U0:%s" % "É".encode(),
    b"U1:_B-1/the",
    b"U1:cat/2/the",
    b"U:_B+2",
    b"B",
    b"B1:thecat",
]
PATTERNS = [
    b"u0:%X[0,0]",
    b"*1:%x[-1,0]/%x[0,1]",
    b'u2:%m[-5,0,"^.?.?"]',
    b'b3:%t[1,1,"\\u\\d*$"]%x[@-1,0]',
    b"b",
]
OBSERVATIONS = [
    b"u0:the",
    b"*1:_x-1/cat/2",
    b"u2:_x",
    "u2:É".encode()[:-1],
    b"b3:trueB-52",
    b"b",
]


def weights(texts: list[bytes], unigram: bytes) -> dict[bytes, list[float]]:
    sizes = {b"*": 12, unigram: 3}
    return {t: [0.25 * (i - 2) for i in range(sizes.get(t[:1], 9))] for t in texts}


def many(unigram: str) -> dict[bytes, list[float]]:
    return {f"{unigram}0:w{i}".encode(): [i % 7 - 3.0, 0.5, 0.0] for i in range(200)}


def crfpp_texts() -> list[bytes]:
    return [
        crfpp_text(LABELS, TEMPLATES, weights(TEXTS, b"U")),
        crfpp_text(LABELS, TEMPLATES[:1], many("U")),
    ]


def crfpp_binaries() -> list[bytes]:
    return [
        crfpp_binary(LABELS, TEMPLATES, weights(TEXTS, b"U")),
        crfpp_binary(LABELS, TEMPLATES[:1], many("U")),
    ]


def wapitis() -> list[bytes]:
    return [
        wapiti(LABELS, PATTERNS, weights(OBSERVATIONS, b"u")),
        wapiti(LABELS, PATTERNS[:1], many("u"), kind=0),
        wapiti(LABELS, [], {b"uthe": [1.0, 0.0, 2.0]}),
    ]


def use(model: CRF) -> object:
    if isinstance(model.index, LiteralIndex):
        return model.tag([[word] for word in WORDS])
    sentence = dict.fromkeys(model.index.columns, WORDS) or {"0": WORDS}
    return model.tag(sentence), model.marginals_all([sentence]), model.top_features(5)


CRFPP_TEXT = Target("crfpp-text", crfpp_texts, load_crfpp, use)
CRFPP = Target("crfpp", crfpp_binaries, load_crfpp, use, repaired_crfpp)
WAPITI = Target("wapiti", wapitis, load_wapiti, use)
