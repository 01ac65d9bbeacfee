"""Transfer between two public corpora: people and places of announcements to entities of news.

For comparison with Table 4 of Sutton and McCallum (2005), whose corpus is not public: a tenth of
the news text for training, and a tagger of speakers and locations whose labels are read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import msgspec
import numpy as np

from fstcrf.evaluate import evaluate_spans
from fstcrf.ext.significance import SpanCounts
from fstcrf.recipes.corpora import counted
from fstcrf.recipes.experiment import Setting
from fstcrf.recipes.message_features import PAPER
from fstcrf.recipes.protocol import SEEDS, Protocol, over_seeds
from fstcrf.recipes.report import Headline, Margin, Row, number, prose
from fstcrf.recipes.seminars_systems import Shared, kept_tagger, news
from fstcrf.taggers import CRF
from fstcrf.taggers.pipelines import Pipeline, Task
from fstcrf.text.corpus import Corpus

SHARES = (0.01, 0.1)  # of the training file; the paper takes a tenth of its corpus

NONE, CASCADE, JOINT, MARGINALS = "no transfer", "cascade", "joint", "marginals"
SYSTEMS = (NONE, CASCADE, JOINT, MARGINALS)

_FIELDS = ("speaker", "location")
_TYPES = ("PER", "LOC", "all")


class Draw(msgspec.Struct, frozen=True):
    """The results of each system after training on one sample of sentences."""

    f: dict[str, dict[str, float]]  # by system and type, percent
    counts: dict[str, SpanCounts]  # by system, of documents, or sentences of a text without any


def transfer(
    setting: Setting, common: Shared, protocol: Protocol
) -> tuple[list[Row], list[Headline], str]:
    """Train on parts of the news text with and without the announcements; return the results."""
    setting.say("seminars: people and places to news")
    first = _people_and_places(setting, common)
    train = news(setting, "train", common.tags)
    test = protocol.test(lambda: news(setting, "testb", common.tags))
    rows: list[Row] = []
    lines: list[Headline] = []
    body = []
    for share in setting.course.each(SHARES):
        make = partial(_draw, setting, first, train, test, share)
        name = f"news, {100 * share:g} %"
        about = (PAPER, share)
        draws = over_seeds(setting, name, make, Draw, seeds=SEEDS, about=about)
        found = list(_rows(name, draws))
        rows += setting.rows(f"{name}, rows", partial(iter, found), (about, found))
        lines += _headline(name, draws)
        body += [[f"{name}, {system}", *_cells(draws, system)] for system in SYSTEMS]
    return rows, lines, prose("seminars/transfer", body, seeds=SEEDS)


def _people_and_places(setting: Setting, common: Shared) -> CRF:
    labels = [
        [y if y[2:] in _FIELDS else "O" for y in row]
        for row in common.messages.column_lists("field")
    ]
    messages = common.messages.with_column("place", labels)
    task = Task("place", messages, PAPER.alone, options=PAPER.options)
    return kept_tagger(setting, "people and places", task, PAPER)


def _draw(
    setting: Setting, first: CRF, train: Corpus, test: Corpus, share: float, seed: int
) -> Draw:
    setting.say(f"seminars: news, {100 * share:g} % of the sentences, seed {seed}")
    random = np.random.default_rng([seed, round(1000 * share)])
    size = max(1, round(share * len(train)))
    part = train.select(np.sort(random.permutation(len(train))[:size]))
    template = PAPER.transfer.replace("%y[0,ner]", "%y[0,place]")

    def reading(**options: object) -> Pipeline:
        options = {**PAPER.options, **options}
        task = Task("ner", part, template, reads=["place"], options=options)
        return Pipeline([first, task], normalize="product")

    alone = Pipeline([Task("ner", part, PAPER.alone, options=PAPER.options)]).train()
    hard, soft = reading().train(), reading(passing="marginals").train()
    found = {
        NONE: alone.tag_all(test),
        CASCADE: [names for _, names in hard.tag_all(test, decode="cascade")],
        JOINT: [names for _, names in hard.tag_all(test, decode="joint")],
        MARGINALS: [names for _, names in soft.tag_all(test, decode="marginals")],
    }
    return Draw(
        {system: _f(test, labels) for system, labels in found.items()},
        {system: counted(test, "ner", labels) for system, labels in found.items()},
    )


def _f(test: Corpus, labels: Sequence[Sequence[str]]) -> dict[str, float]:
    report = evaluate_spans(test.column_lists("ner"), labels)
    found = {kind: 100 * report.types[kind].f for kind in _TYPES if kind in report.types}
    return {**dict.fromkeys(_TYPES, 0.0), **found, "all": 100 * report.f}


def _values(draws: Sequence[Draw], system: str, kind: str = "all") -> tuple[float, ...]:
    return tuple(draw.f[system][kind] for draw in draws)


def _rows(name: str, draws: Sequence[Draw]) -> Iterator[Row]:
    for system in SYSTEMS:
        for kind in _TYPES:
            values = _values(draws, system, kind)
            yield Row(f"{name}, {system}", f"F, test, %: {kind}", float(np.mean(values)))


def _headline(name: str, draws: Sequence[Draw]) -> Iterator[Headline]:
    for system in SYSTEMS:
        counts = [draw.counts[system] for draw in draws]
        yield Headline.of_f(f"{name}, {system}", "F, test, %", counts)


def _cells(draws: Sequence[Draw], system: str) -> list[str]:
    means = [number(float(np.mean(_values(draws, system, kind)))) for kind in _TYPES]
    others = [_gain(draws, system, other) for other in (NONE, CASCADE)]
    return [*means, *others]


def _gain(draws: Sequence[Draw], system: str, other: str) -> str:
    if SYSTEMS.index(other) >= SYSTEMS.index(system):
        return ""
    sides = ([draw.counts[one] for draw in draws] for one in (system, other))
    return str(Margin.of(*sides, matched=True))
