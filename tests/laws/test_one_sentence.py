"""One sentence a call: the labels of a batch, and no more work than a batch with one sentence."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from functools import cache, partial
from types import FrameType
from typing import Any

import numpy as np
import pytest

import fstcrf
from fstcrf import CRF, Corpus, Sentence, compose
from fstcrf.errors import FstcrfError, NoPathError
from fstcrf.ext.pipelines.trained import TrainedPipeline
from fstcrf.taggers import Tagger
from fstcrf.training import Features
from tests.support.training import flat_train

LABELS = ("B-A", "B-B", "I-A", "I-B", "O")
NODE = "U0:%x[0,word]\nU1:%x[-1,word]/%x[0,word]\nU2:%x[0,suffix(word,1)]\n"
READS = "U0:%x[0,word]\nU3:%y[0,pos]\nU4:%y[0,pos]/%x[-1,word]\nB\n"
THIRD = "U5:%y[0,pos]/%y[0,chunk]\nU6:%x[1,word]\nB\n"


def sentences(seed: int, n: int, words: int = 12, poses: str = "XYZ") -> list[dict[str, list[str]]]:
    rng = np.random.default_rng(seed)
    made = []
    for _ in range(n):
        size = int(rng.integers(1, 8))
        number = rng.integers(words, size=size)
        noisy = number + rng.integers(2, size=size)
        made.append(
            {
                "word": [f"w{k}{'aeio'[k % 4]}" for k in number],
                "pos": [poses[k % len(poses)] for k in noisy],
                "chunk": ["O" if k % 3 else f"B-{'AB'[k % 2]}" for k in noisy],
                "entity": ["O" if k % 4 else f"B-{'AB'[k % 2]}" for k in noisy],
            }
        )
    return made


TRAIN, TEXT = sentences(1, 60), sentences(2, 25, words=18)  # some words are new
TEXT += [{name: column[:size] for name, column in s.items()} for s in TEXT[:6] for size in (1, 2)]


def dicts(sentence: Sentence) -> list[dict[str, Any]]:
    return [
        {"w": word, "n": len(word) / 2, "first": not i} for i, word in enumerate(sentence["word"])
    ]


@cache
def trained(name: str) -> CRF:
    options = OPTIONS[name]
    rest = {key: value for key, value in options.items() if key != "target"}
    text = Corpus.from_sentences(TRAIN)
    if "function" in rest:
        return CRF.train(text, "chunk", features=dicts, max_iterations=8)
    rest["reads"] = [trained(other) for other in rest.get("reads", ())]
    return flat_train(
        text, options.get("target", "chunk"), max_iterations=8, **{"template": f"{NODE}B\n", **rest}
    )


OPTIONS: dict[str, dict[str, Any]] = {
    "pos": {"target": "pos"},
    "plain": {},
    "skip": {"boundary": "skip"},
    "iob2": {"scheme": "iob2"},
    "order 0": {"template": NODE, "order": 0},
    "order 2": {"order": 2},
    "all transitions": {"transitions": "all"},
    "bags": {"template": f"{NODE}U9:%x{{-1..1,word}}\nB\n"},
    "pairs of labels": {"template": f"{NODE}B1:%x[0,word]\nB\n"},
    "hashed": {"hash_bits": 8},
    "documents": {"template": f"{NODE}U9:%d[-1,word]\nB\n"},
    "function": {"function": dicts},
    "chunk": {"template": READS, "reads": ["pos"]},
    "chunk, iob2": {"template": READS, "reads": ["pos"], "scheme": "iob2"},
    "entity": {"target": "entity", "template": READS + THIRD, "reads": ["pos", "chunk"]},
}


def fewer() -> CRF:
    """Return a tagger with some of the labels of `pos`: others were trained to read more."""
    text = Corpus.from_sentences(sentences(3, 40, poses="XZ"))
    return CRF.train(text, "pos", f"{NODE}B\n", max_iterations=8)


def cascade(*names: str) -> Tagger:
    return TrainedPipeline(compose(*map(trained, names)))


def chain(*names: str) -> Tagger:
    return compose(*map(trained, names), normalize="chain")


TAGGERS: dict[str, Callable[[], Tagger]] = {
    **{name: partial(trained, name) for name in OPTIONS if "reads" not in OPTIONS[name]},
    "under a grammar": lambda: trained("plain") & fstcrf.constraints.at_most(1, "A"),
    "product": lambda: compose(trained("pos"), trained("chunk"), normalize="product"),
    "chain of two": lambda: chain("pos", "chunk"),
    "chain of two, iob2": lambda: chain("pos", "chunk, iob2"),
    "chain of three": lambda: chain("pos", "chunk", "entity"),
    "chain, fewer labels": lambda: compose(fewer(), trained("chunk"), normalize="chain"),
    "cascade of one": lambda: cascade("plain"),
    "cascade of two": lambda: cascade("pos", "chunk"),
    "cascade of two, iob2": lambda: cascade("pos", "chunk, iob2"),
    "cascade of three": lambda: cascade("pos", "chunk", "entity"),
    "cascade, order 2": lambda: cascade("pos", "order 2"),
    "cascade, fewer labels": lambda: TrainedPipeline(compose(fewer(), trained("chunk"))),
    "cascade under a grammar": lambda: TrainedPipeline(
        compose(trained("pos"), trained("chunk"))
        & fstcrf.constraints.at_most(1, "A", tape="chunk"),
        "cascade",
    ),
}

made = cache(lambda name: TAGGERS[name]())


def words(sentence: dict[str, list[str]]) -> dict[str, list[str]]:
    return {"word": sentence["word"]}


FORMS: dict[str, Callable[[dict[str, list[str]]], Any]] = {
    "mapping": words,
    "sentence": lambda sentence: Sentence(words(sentence)),
    "tuples": lambda sentence: {"word": tuple(sentence["word"])},
    "rows": lambda sentence: [(word,) for word in sentence["word"]],
    "of a corpus": lambda sentence: Corpus.from_sentences([words(sentence)])[0],
}


@pytest.mark.filterwarnings("ignore::fstcrf.errors.InexactWarning")
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", TAGGERS)
def test_one_sentence_has_the_labels_of_a_batch(name: str, form: str) -> None:
    tagger = made(name)
    given = [FORMS[form](sentence) for sentence in TEXT]
    for sentence, together in zip(given, tagger.tag_all(given), strict=True):
        one = tagger.tag_all([sentence])[0]
        assert tagger.tag(sentence) == one == (one if name == "documents" else together)


def listed(sentence: Sentence) -> list[list[str]]:
    return [[f"w:{word}", f"w:{word[-1]}"] for word in sentence["word"]]


@pytest.mark.parametrize("attributes", [dicts, listed])
@pytest.mark.parametrize("bits", [None, 8])
def test_a_sentence_of_attributes_has_the_labels_of_a_batch(
    attributes: Callable[[Sentence], Any], bits: int | None
) -> None:
    given = [attributes(Sentence(sentence)) for sentence in TRAIN + TEXT]
    labels = [sentence["chunk"] for sentence in TRAIN]
    features = Features(hash_bits=bits)
    tagger = CRF.train(given[:60], labels, features=features, max_iterations=8)
    for _ in range(2):  # the second time, the rows of attributes are remembered
        for sentence, together in zip(given, tagger.tag_all(given), strict=True):
            assert tagger.tag(sentence) == tagger.tag_all([sentence])[0] == together


def test_a_tape_may_have_fewer_labels_than_its_reader_knows() -> None:
    pos, chunk = fewer(), trained("chunk")
    whole = compose(pos, chunk, normalize="chain")
    assert set(pos.labels) < set(chunk.reads[0].labels)
    for sentence in filter(lambda s: len(s["word"]) <= 3, TEXT):
        lattice, scored = pos.lattice(words(sentence)), []
        for labels in itertools.product(pos.labels, repeat=len(sentence["word"])):
            best = chunk.lattice({**words(sentence), "pos": list(labels)}).best()
            chance = lattice.probability(list(labels)) * best.probability
            scored.append((chance, (list(labels), list(best.labels))))
        assert whole.tag(words(sentence)) == max(scored)[1]


@pytest.mark.parametrize("name", ["chunk", "chunk, iob2", "entity"])
def test_labels_of_earlier_tapes_are_columns(name: str) -> None:
    tagger = trained(name)
    given = [{key: s[key] for key in ("word", "pos", "chunk")} for s in TEXT]
    for sentence, together in zip(given, tagger.tag_all(given), strict=True):
        assert tagger.tag(sentence) == together


def refusal(ask: Callable[[], object]) -> tuple[type[FstcrfError], str]:
    with pytest.raises(FstcrfError) as caught:
        ask()
    return caught.type, str(caught.value)


@pytest.mark.parametrize(
    "sentence",
    [
        {"word": ["w0a"]},
        {"word": ["w0a"], "pos": ["Q"]},
        {"word": ["w0a"], "pos": [3]},
        {"word": ["w0a"], "pos": ["X", "Y"]},
        {"word": [3], "pos": ["X"]},
        {"pos": ["X"]},
        [("w0a", "X", "O", "O", "O")],
        "w0a",
        7,
    ],
    ids=repr,
)
def test_one_sentence_is_refused_as_a_batch_is(sentence: Any) -> None:
    tagger = trained("chunk")
    assert refusal(lambda: tagger.tag(sentence)) == refusal(lambda: tagger.tag_all([sentence]))


def test_a_sentence_without_tokens_asks_the_grammar() -> None:
    for name in ("plain", "iob2", "cascade of two", "chain of two"):
        assert made(name).tag({"word": []}) == made(name).tag_all([{"word": []}])[0]
    obliged = trained("plain") & fstcrf.constraints.at_least(1, "A")
    with pytest.raises(NoPathError):
        obliged.tag({"word": []})


# --- Work -----------------------------------------------------------------------------------------


def calls(ask: Callable[[], object]) -> int:
    """Return how many functions of the library a question calls."""
    count = 0

    def called(frame: FrameType, event: str, _: object) -> None:
        nonlocal count
        count += event == "call" and "/fstcrf/" in frame.f_code.co_filename

    sys.setprofile(called)
    try:
        ask()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.filterwarnings("ignore::fstcrf.errors.InexactWarning")
@pytest.mark.parametrize("name", TAGGERS)
def test_one_sentence_takes_no_more_calls_than_a_batch_of_one(name: str) -> None:
    tagger, sentence = made(name), words(TEXT[0])
    tagger.tag(sentence)
    tagger.tag_all([sentence])
    alone, batch = calls(lambda: tagger.tag(sentence)), calls(lambda: tagger.tag_all([sentence]))
    # A chain looks at one labelling at a time.
    most = 2 * batch if name == "chain of three" else batch + 10
    assert alone <= most, f"{alone} calls, a batch of one takes {batch}"


@pytest.mark.parametrize(
    ("name", "most"),
    [("plain", 80), ("iob2", 80), ("cascade of two", 160), ("cascade of two, iob2", 160)],
)
def test_usual_taggers_take_few_calls(name: str, most: int) -> None:
    tagger, sentence = made(name), words(TEXT[0])
    tagger.tag(sentence)
    assert calls(lambda: tagger.tag(sentence)) <= most
