"""The same question through several doors: one sentence a call, dictionaries, labellings of a tape.

``python -m tests.benchmarks.doors WORK JSON`` does one piece of work, with the arguments of a JSON
object, in a process of its own and prints another. Times are of the processor. The first answer,
which compiles what later answers share, is measured apart.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pycrfsuite as peer

from fstcrf import compose
from fstcrf.errors import InexactWarning
from fstcrf.ext.compat import pycrfsuite as drop_in
from fstcrf.ext.pipelines.trained import TrainedPipeline
from fstcrf.taggers import CRF, Tagger
from tests.benchmarks.chained import chained, held_out
from tests.benchmarks.doors_functions import word_features
from tests.benchmarks.running import least_seconds
from tests.benchmarks.work import answer, seconds_of

CALLS = 1_000
_SENTENCES, _FEW = 250, 20
_RANKED = 5

Words = dict[str, list[str]]
Items = list[dict[str, Any]]


def alone(data: str, models: str, rounds: int, *, quick: bool = False) -> dict[str, Any]:
    """Return what one sentence a call takes, over a sentence of a batch."""
    pos, chunk, entity = chained(Path(data), Path(models), quick=quick)
    texts = _texts(data, _FEW if quick else _SENTENCES)
    taggers: dict[str, Tagger] = {
        "tagger": pos,
        "cascade-2": TrainedPipeline(compose(pos, chunk)),
        "cascade-3": TrainedPipeline(compose(pos, chunk, entity)),
        "chain-2": compose(pos, chunk, normalize="chain"),
        "chain-3": compose(pos, chunk, entity, normalize="chain"),
        "product-2": compose(pos, chunk, normalize="product"),
    }
    cases = [
        {"door": door, "text": name, **_beside_batch(tagger, text, rounds)}
        for door, tagger in taggers.items()
        for name, text in texts.items()
    ]
    cases += [
        {"door": "by-hand", "text": name, **_by_hand(pos, chunk, text, rounds)}
        for name, text in texts.items()
    ]
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
        cases.append(
            {"door": door, "text": name, **_case(first, own / size, other / size, both[1], several)}
        )
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
            case = _case(first, seconds / len(text), every / len(text), ask, text)
            cases.append({"door": "tapes", "text": f"{tape}, {name}", **case})
    return {"cases": cases}


# --- Measurements ---------------------------------------------------------------------------------


def _beside_batch(tagger: Tagger, text: Sequence[Words], rounds: int) -> dict[str, Any]:
    first = seconds_of(partial(tagger.tag, text[0]))
    works = partial(tagger.tag_all, text), partial(_each, tagger.tag, text)
    together, each = least_seconds(rounds, *works)
    return _case(first, each / len(text), together / len(text), tagger.tag, text)


def _by_hand(pos: CRF, chunk: CRF, text: Sequence[Words], rounds: int) -> dict[str, Any]:
    """Measure a pipeline beside its taggers, called one after the other."""
    pipeline = TrainedPipeline(compose(pos, chunk))

    def by_hand(sentence: Words) -> list[str]:
        return chunk.tag({**sentence, "pos": pos.tag(sentence)})

    first = seconds_of(partial(pipeline.tag, text[0]))
    works = partial(_each, by_hand, text), partial(_each, pipeline.tag, text)
    hand, each = least_seconds(rounds, *works)
    return _case(first, each / len(text), hand / len(text), pipeline.tag, text)


def _case(
    first: float, seconds: float, other: float, ask: Callable[[Any], object], text: Sequence[Any]
) -> dict[str, Any]:
    """Return a measurement, with the percentiles of `CALLS` calls."""
    calls = itertools.islice(itertools.cycle(text), CALLS)
    p50, p99 = np.percentile([seconds_of(partial(ask, call)) for call in calls], [50, 99]).tolist()
    both = {"s": seconds, "other_s": other, "ratio": seconds / other}
    return {"first_s": first, "p50_s": p50, "p99_s": p99, **both}


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
