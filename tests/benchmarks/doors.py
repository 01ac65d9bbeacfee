"""The same question through several doors: one sentence a call, dictionaries, labellings of a tape.

``python -m tests.benchmarks.doors WORK JSON`` does one piece of work, with the arguments of a JSON
object, in a process of its own and prints another. Times are of the processor. The first answer,
which compiles what later answers share, is measured apart.
"""

from __future__ import annotations

import itertools
import time
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pycrfsuite as peer

from fstcrf import Composition, Corpus, compose
from fstcrf.errors import InexactWarning
from fstcrf.ext.compat import pycrfsuite as drop_in
from fstcrf.ext.pipelines.trained import TrainedPipeline
from fstcrf.taggers import CRF, Tagger
from fstcrf.training import Features
from tests.benchmarks.chained import chained, held_out
from tests.benchmarks.door_cases import calls_of, percentiles
from tests.benchmarks.door_table import case
from tests.benchmarks.doors_functions import word_features
from tests.benchmarks.running import in_turns, least_seconds
from tests.benchmarks.work import answer, seconds_of

_SENTENCES, _FEW, _LONG = 250, 20, 2_000
_RANKED, _TAPES = 5, 6

Words = dict[str, list[str]]
Items = list[dict[str, Any]]


def alone(data: str, models: str, rounds: int, *, quick: bool = False) -> dict[str, Any]:
    """Return what one sentence a call takes, over a sentence of a batch."""
    pos, chunk, entity = chained(Path(data), Path(models), quick=quick)
    texts = _texts(data, _FEW if quick else _SENTENCES)
    taggers: list[tuple[str, str, Tagger]] = [
        ("tagger", "", pos),
        ("cascade", "2 tapes, ", TrainedPipeline(compose(pos, chunk))),
        ("cascade", "3 tapes, ", TrainedPipeline(compose(pos, chunk, entity))),
        ("chain", "2 tapes, ", compose(pos, chunk, normalize="chain")),
        ("chain", "3 tapes, ", compose(pos, chunk, entity, normalize="chain")),
        ("product", "2 tapes, ", compose(pos, chunk, normalize="product")),
    ]
    cases = [
        _beside_batch(door, f"{tapes}{name}", tagger, text, rounds)
        for door, tapes, tagger in taggers
        for name, text in texts.items()
    ]
    cases += [_by_hand(pos, chunk, name, text, rounds) for name, text in texts.items()]
    return {"cases": [*cases, *_neighbours(pos, chunk, texts["web"], rounds)]}


def _neighbours(pos: CRF, chunk: CRF, text: list[Words], rounds: int) -> list[dict[str, Any]]:
    """Return the same of six tapes, and of sentences of one token and of thousands."""
    six = _six(text)
    found = [
        ("cascade", TrainedPipeline(compose(*six))),
        ("chain", compose(*six, normalize="chain")),
        ("product", compose(*six, normalize="product")),
    ]
    ask = partial(_beside_batch, rounds=1, near=True)
    cases = [ask(door, f"{_TAPES} tapes, web", tagger, text[:_FEW]) for door, tagger in found]
    words = [word for sentence in text for word in sentence["word"]][:_LONG]
    lengths = {"1 token": [{"word": [word]} for word in words[:_FEW]]}
    lengths[f"{_LONG:,} tokens"] = [{"word": words}] * 2
    pairs: dict[str, Tagger] = {"cascade": TrainedPipeline(compose(pos, chunk))}
    pairs |= {way: compose(pos, chunk, normalize=way) for way in ("chain", "product")}
    for (door, tagger), (name, some) in itertools.product(
        [("tagger", pos), *pairs.items()], lengths.items()
    ):
        cases.append(ask(door, f"{name}, 2 tapes", tagger, some))
    return cases


def _six(text: list[Words]) -> list[CRF]:
    """Return taggers of six tapes of three labels, each of which reads the one before."""
    sentences = [{**s, **_shapes(s["word"])} for s in text]
    train = Corpus.from_sentences(sentences)
    taggers: list[CRF] = []
    for k in range(_TAPES):
        template = "U0:%x[0,suffix(word,1)]\nB" + (f"\nU1:%y[0,t{k - 1}]" if k else "")
        taggers.append(
            CRF.train(train, f"t{k}", Features(template), reads=list(taggers), max_iterations=5)
        )
    return taggers


def _shapes(words: list[str]) -> Words:
    """Return six tapes of labels, by the length of a word."""
    return {f"t{k}": ["abc"[len(word) * (k + 1) % 3] for word in words] for k in range(_TAPES)}


def threads(data: str, models: str, rounds: int, *, quick: bool = False) -> dict[str, Any]:
    """Return what a batch takes on two threads, over one: by the clock."""
    pos, chunk, entity = chained(Path(data), Path(models), quick=quick)
    text = _texts(data, _FEW if quick else _SENTENCES)["web"]
    taggers: dict[str, Composition | CRF] = {"tagger": pos}
    for way in ("chain", "product"):
        taggers[way] = compose(pos, chunk, normalize=way)
    taggers["chain of three"] = compose(pos, chunk, entity, normalize="chain")
    cases = []
    for name, tagger in taggers.items():
        works = [
            partial(seconds_of, partial(tagger.tag_all, text, threads=n), clock=time.perf_counter)
            for n in (2, 1)
        ]
        first = works[0]()
        two, one = map(min, in_turns(max(rounds, 2), *works))
        cases.append(case("threads", name, first, two, one, near=True))
    return {"cases": cases}


def dictionaries(data: str, models: str, rounds: int, *, quick: bool = False) -> dict[str, Any]:
    """Return what tagging by dictionaries takes, over the same calls of python-crfsuite."""
    model = str(Path(models) / "dictionaries.crfsuite")
    trainer = peer.Trainer(verbose=False)
    trainer.set_params({"c1": 0.1, "c2": 0.1, "max_iterations": 10 if quick else 60})
    for items, labels in _tagged_items(Path(data) / "conll2003" / "eng.train", 1_500):
        trainer.append(items, labels)
    trainer.train(model)
    ours, theirs = drop_in.Tagger(), peer.Tagger()
    theirs.open(model)
    first = seconds_of(lambda: ours.open(model))
    every = [items for items, _ in _tagged_items(Path(data) / "conll2003" / "eng.testa", 4_000)]
    texts = {"all": every[:400], "short": [items for items in every[:400] if len(items) <= 5]}
    for size, name in ((1, "1 token"), (2, "2 tokens")):
        few = [items for items in every if len(items) == size]
        texts[name] = [*itertools.islice(itertools.cycle(few), _SENTENCES)]
    asks: dict[str, Callable[[Any, Items], object]] = {
        "dictionaries": lambda tagger, items: tagger.tag(items),
        "dictionary-marginals": _marginals,
    }
    cases = []
    for (door, ask), (name, several) in itertools.product(asks.items(), texts.items()):
        assert ask(ours, several[0]) is not None
        both = partial(ask, theirs), partial(ask, ours)
        other, own = least_seconds(rounds, *(partial(_each, one, several) for one in both))
        size = len(several)
        found = case(door, name, first, own / size, other / size)
        cases.append(found | percentiles(calls_of(both[1], several)))
    return {"cases": cases}


def tapes(data: str, models: str, rounds: int, *, quick: bool = False) -> dict[str, Any]:
    """Return what the best labellings of one tape take, over the best paths of all tapes."""
    joint = compose(*chained(Path(data), Path(models), quick=quick)[:2], normalize="product")
    cases = []
    for name, text in _texts(data, _FEW).items():
        plain = partial(joint.decode, text, n=_RANKED)
        first = seconds_of(plain)
        works = [partial(joint.decode, text, n=_RANKED, tapes=[tape]) for tape in joint.tapes]
        every, *shown = least_seconds(rounds, plain, *works)
        for tape, seconds in zip(joint.tapes, shown, strict=True):
            ask = partial(_of_tape, joint, tape)
            found = case("tapes", f"{tape}, {name}", first, seconds / len(text), every / len(text))
            cases.append(found | percentiles(calls_of(ask, text)))
    return {"cases": cases}


# --- Measurements ---------------------------------------------------------------------------------


def _beside_batch(
    door: str,
    name: str,
    tagger: Tagger,
    text: Sequence[Words],
    rounds: int,
    *,
    near: bool = False,
) -> dict[str, Any]:
    first = seconds_of(partial(tagger.tag, text[0]))
    works = partial(tagger.tag_all, text), partial(_each, tagger.tag, text)
    together, each = (seconds / len(text) for seconds in least_seconds(rounds, *works))
    several = {} if near else percentiles(calls_of(tagger.tag, text))
    return case(door, name, first, each, together, near=near) | several


def _by_hand(pos: CRF, chunk: CRF, name: str, text: Sequence[Words], rounds: int) -> dict[str, Any]:
    """Measure a pipeline beside its taggers, called one after the other."""
    pipeline = TrainedPipeline(compose(pos, chunk))

    def by_hand(sentence: Words) -> list[str]:
        return chunk.tag({**sentence, "pos": pos.tag(sentence)})

    first = seconds_of(partial(pipeline.tag, text[0]))
    works = partial(_each, by_hand, text), partial(_each, pipeline.tag, text)
    hand, each = (seconds / len(text) for seconds in least_seconds(rounds, *works))
    return case("by-hand", name, first, each, hand) | percentiles(calls_of(pipeline.tag, text))


def _each(ask: Callable[[Any], object], text: Sequence[Any]) -> None:
    for sentence in text:
        ask(sentence)


def _of_tape(tagger: Tagger, tape: str, sentence: Words) -> object:
    return tagger.decode([sentence], n=_RANKED, tapes=[tape])


def _marginals(tagger: Any, items: Items) -> list[list[float]]:
    tagger.set(items)
    return [[tagger.marginal(label, t) for label in tagger.labels()] for t in range(len(items))]


# --- Texts ----------------------------------------------------------------------------------------


def _texts(data: str, size: int) -> dict[str, list[Words]]:
    texts = held_out(Path(data), size)
    return {name: [{"word": s["word"]} for s in text] for name, text in texts.items()}


def _tagged_items(path: Path, size: int) -> list[tuple[Items, list[str]]]:
    """Return the items and labels of sentences, as the tutorial of sklearn-crfsuite makes them."""
    blocks = path.read_text("utf-8").split("\n\n")
    rows = [[row for line in block.splitlines() if (row := line.split())] for block in blocks]
    sentences = [block for block in rows if block and block[0][0] != "-DOCSTART-"][:size]
    return [([_item(s, t) for t in range(len(s))], [row[3] for row in s]) for s in sentences]


def _item(sentence: list[list[str]], t: int) -> dict[str, Any]:
    word, pos = sentence[t][:2]
    item = {**word_features(word), "postag": pos, "postag[:2]": pos[:2]}
    for place, end, offset in ((t - 1, "BOS", "-1"), (t + 1, "EOS", "+1")):
        if not 0 <= place < len(sentence):
            item[end] = True
            continue
        near, its_pos = sentence[place][:2]
        item[f"{offset}:word.lower()"] = near.lower()
        item[f"{offset}:word.istitle()"] = near.istitle()
        item[f"{offset}:postag"] = its_pos
    return item


if __name__ == "__main__":
    warnings.simplefilter("ignore", InexactWarning)  # `cliffs-chains` counts such answers
    answer(globals())
