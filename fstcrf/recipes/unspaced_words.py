"""The recipe ``words``: trained word lattices, compared with MeCab."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
import numpy as np

from fstcrf.errors import LabelWarning
from fstcrf.evaluate import compare
from fstcrf.ext.lexicon import Lexicon
from fstcrf.ext.significance import SpanCounts, span_counts
from fstcrf.ext.words import Annotation, LatticeCRF, Words, read_words
from fstcrf.ext.words.annotation import label_of
from fstcrf.ext.words.candidates import CandidateLabels
from fstcrf.ext.words.crf import counted
from fstcrf.ext.words.entries import new_entries
from fstcrf.ext.words.templates import fields_of
from fstcrf.lazy import optional
from fstcrf.recipes.experiment import THREADS, Recipe, Setting, fastest
from fstcrf.recipes.protocol import SEEDS, Protocol, Settings, grid, over_seeds
from fstcrf.recipes.report import Headline, Result, Row, gain, prose, spread, template
from fstcrf.training import Run

LABEL = (0, 1, 2, 3, 4)
"""Fields of UniDic that make the treebank's label: four of part of speech, type of inflection."""
LEARNT = 400  # texts of dev that candidates learn from, in the order of the file; the others choose

_WORD = "UNIGRAM A:%F[0],%F[1],%F[2],%F[3],%F[4],%F[5]\n"
_FORM = "UNIGRAM B:%F[0],%F[1],%F[2],%F[3],%F[4],%F[5],%w\n"
_PAIR = template("words/pair")
_TEXT = template("words/text")
TEMPLATES = {
    "pairs": _PAIR,
    "classes": _WORD + _PAIR,
    "words": _WORD + _FORM + _PAIR,
    "strings": _WORD + _FORM + _PAIR + _TEXT,
}
"""Features: of neighbours; also classes of words; words in them; strings and kinds of writing."""

ENTRIES = grid(new_words=(1, 2, 3))
"""How often lattices must lack a word of dev that becomes an entry."""
FEATURES = grid(template=tuple(TEMPLATES))
ON_COSTS: list[dict[str, Any]] = [
    {"costs": costs, "l2": l2} for l2 in (0.1, 0.3, 1.0, 4.0) for costs in ("fixed", "scaled")
]
ON_NOTHING = grid(costs=("none",), l2=(0.03, 0.1, 0.3, 1.0))
"""Whether the lexicon's costs count, and the penalty; templates are compared under the first."""

TOP, NOTHING = "on MeCab's costs", "from nothing"
QUICK: dict[str, dict[str, Any]] = {  # settings of a quick run
    "entries": {"new_words": 2},
    f"{TOP}, template": {"template": "classes"},
    TOP: {"costs": "fixed", "l2": 1.0},
    f"{NOTHING}, template": {"template": "strings"},
    NOTHING: {"costs": "none", "l2": 0.3},
}

Spans = list[tuple[int, int, str]]  # words of a text: characters and label


@dataclass(frozen=True)
class WordTask:
    lexicon: Lexicon
    rewrite: str
    train: list[Annotation]  # training data of candidates
    held_out: list[Annotation]
    read_test: Callable[[], list[Annotation]]
    mecab: Callable[[Sequence[str]], list[list[tuple[str, str]]]]  # words and their features
    test: list[Annotation] = field(default_factory=list)  # read when settings are frozen

    @property
    def dev(self) -> list[Annotation]:
        return [*self.train, *self.held_out]

    @property
    def texts(self) -> list[str]:
        return [one.text for one in self.test]


def japanese(setting: Setting) -> WordTask:
    """Read UD Japanese GSD, with unidic-lite as the lexicon."""
    advice = "this recipe needs it: pip install fugashi unidic-lite"
    fugashi = optional("fugashi", advice)
    folder = Path(optional("unidic_lite", advice).DICDIR)

    def read(part: str) -> list[Annotation]:
        return read_words(setting.data / f"ud_japanese_gsd/ja_gsd-ud-{part}.conllu")

    tagger = fugashi.GenericTagger(f"-d {folder} -r {os.devnull}")

    def mecab(texts: Sequence[str]) -> list[list[tuple[str, str]]]:
        return [
            [(node.surface, node.feature_raw) for node in tagger.parseToNodeList(text)]
            for text in texts
        ]

    rewrite = (folder / "rewrite.def").read_text("utf-8")
    dev, test = read("dev"), partial(read, "test")
    return WordTask(Lexicon.load(folder), rewrite, dev[:LEARNT], dev[LEARNT:], test, mecab)


@dataclass(frozen=True, slots=True)
class WordRun:
    name: str
    spans: list[list[tuple[int, int, str]]]
    weights: int
    training: float  # seconds of the processor
    characters: float  # tagged in a second of the processor


@dataclass(frozen=True)
class WordOptions:
    template: str  # one of TEMPLATES
    costs: str
    l2: float
    new_words: int

    @classmethod
    def of(cls, settings: Settings) -> WordOptions:
        return msgspec.convert(dict(settings), cls)


def _trained(task: WordTask, data: Sequence[Annotation], options: WordOptions) -> LatticeCRF:
    with warnings.catch_warnings():  # `_coverage` reports the missing words of lattices once
        warnings.simplefilter("ignore", LabelWarning)
        return LatticeCRF.train(
            data,
            TEMPLATES[options.template],
            structure=Words(
                task.lexicon,
                rewrite=task.rewrite,
                label=LABEL,
                costs=options.costs,  # type: ignore[arg-type]
                new_words=options.new_words,
                on_missing="nearest",
            ),
            l2=options.l2,
            max_iterations=100,
            run=Run(threads=THREADS),
        )


def choose(protocol: Protocol, task: WordTask) -> tuple[WordOptions, WordOptions]:
    """Return the options of learning with MeCab's costs, and without them.

    New entries are chosen before learning, then templates, then the rest, by F of words with labels
    on held-out texts.
    """

    def entries(settings: Settings) -> float:
        own = with_entries(task, task.train, settings["new_words"])
        answer = own.tag_all([one.text for one in task.held_out])
        return 100.0 * counted(task.held_out, answer, CandidateLabels(own, LABEL)).f

    @cache
    def learnt(options: WordOptions) -> float:
        return 100.0 * _trained(task, task.train, options).counts(task.held_out).f

    def best(name: str, candidates: Sequence[Settings], score: Any, about: object) -> Settings:
        return protocol.choose(name, candidates, score, about, quick=QUICK[name])

    most = best("entries", ENTRIES, entries, None)
    found = []
    for name, candidates in ((TOP, ON_COSTS), (NOTHING, ON_NOTHING)):
        given: dict[str, Any] = {**most, **candidates[0]}
        for part, own in ((f"{name}, template", FEATURES), (name, candidates)):
            score = partial(_with, given, learnt)
            given |= best(part, own, score, (TEMPLATES, dict(given)))
        found.append(WordOptions.of(given))
    return found[0], found[1]


def _with(given: Settings, score: Callable[[WordOptions], float], own: Settings) -> float:
    return score(WordOptions.of({**given, **own}))


def with_entries(task: WordTask, data: Sequence[Annotation], least: int) -> Lexicon:
    """Return the lexicon with entries for words that its lattices lack at least `least` times."""
    return task.lexicon.with_entries(new_entries(task.lexicon, data, LABEL, least=least))


def _spans_of(model: LatticeCRF | Lexicon, texts: Sequence[str]) -> list[Spans]:
    answer = model.tag_all(texts)
    labels: dict[int, str] = {}
    found = []
    for words in answer:
        for word in words:
            if word.number not in labels:
                labels[word.number] = label_of(fields_of(word.feature), LABEL)
        found.append([(w.start, w.end, labels[w.number]) for w in words])
    return found


def _placed(text: str, words: Sequence[tuple[str, str]]) -> Spans:
    found, at = [], 0
    for surface, feature in words:
        start = text.index(surface, at)
        at = start + len(surface)
        found.append((start, at, label_of(fields_of(feature), LABEL)))
    return found


def _speed(texts: Sequence[str], tag: Callable[[Sequence[str]], object]) -> float:
    return sum(map(len, texts)) / max(fastest(lambda: tag(texts)), 1e-9)


def mecab_run(task: WordTask) -> WordRun:
    pairs = zip(task.texts, task.mecab(task.texts), strict=True)
    spans = [_placed(text, words) for text, words in pairs]
    return WordRun("MeCab", spans, 0, 0.0, _speed(task.texts, task.mecab))


def entries_run(task: WordTask, least: int) -> WordRun:
    """MeCab's costs with new entries for words of dev, without learning."""
    own = with_entries(task, task.dev, least)
    spans = _spans_of(own, task.texts)
    speed = _speed(task.texts, own.tag_all)
    return WordRun("MeCab's costs, new entries", spans, 0, 0.0, speed)


def trained_run(
    task: WordTask, name: str, options: WordOptions, data: Sequence[Annotation] | None = None
) -> WordRun:
    """Train on all of dev, or on other data."""
    began = time.process_time()
    model = _trained(task, task.dev if data is None else data, options)
    seconds = time.process_time() - began
    spans = _spans_of(model, task.texts)
    speed = _speed(task.texts, model.tag_all)
    return WordRun(name, spans, model.record.weights, seconds, speed)


# --- What is known in part ------------------------------------------------------------------------


def some_words(data: Sequence[Annotation], share: float, seed: int) -> list[Annotation]:
    """Return annotations of which each word is known with a probability."""
    generator = np.random.default_rng(seed)
    return [
        replace(one, words=[w for w in one.words if generator.random() < share]) for one in data
    ]


def some_boundaries(data: Sequence[Annotation], share: float, seed: int) -> list[Annotation]:
    """Return annotations of which each place between characters is known with a probability.

    They have no words; places next to blanks are left open.
    """
    generator = np.random.default_rng(seed)
    found = []
    for one in data:
        inside = {k for word in one.words for k in range(word.start + 1, word.end)}
        text = one.text
        beside = {k for k in range(1, len(text)) if any(c.isspace() for c in text[k - 1 : k + 1])}
        places = [k for k in range(1, len(text)) if k not in beside]
        known = {k: k not in inside for k in places if generator.random() < share}
        found.append(Annotation(text, (), known))
    return found


def run(setting: Setting) -> Result:
    return run_on(setting, japanese(setting))


def run_on(setting: Setting, task: WordTask) -> Result:
    protocol = Protocol(RECIPE.name, setting)
    setting.course.until(0.4)
    top, nothing = choose(protocol, task)
    protocol.freeze()
    task = replace(task, test=protocol.test(task.read_test))
    setting.course.until(1.0)
    rows: list[Row] = []
    runs = []
    for name, make in setting.course.each(_systems(task, top, nothing).items()):
        setting.say(f"words: {name}")
        one = setting.kept(name, make, WordRun, (TEMPLATES, top, nothing))
        rows += setting.told(_rows(task, one))
        runs.append(one)
    sections = [prose("words/reading", learnt=LEARNT, threads=THREADS)]
    sections += [protocol.section(), _coverage(task)]
    sections += [_significance(task, runs, setting.seed), _curve(setting, task, top, runs)]
    headline = [_headline(task, one, labels=own) for one in runs for own in (False, True)]
    return Result(rows, sections, headline=headline)


def _systems(
    task: WordTask, top: WordOptions, nothing: WordOptions
) -> dict[str, Callable[[], WordRun]]:
    learnt = {
        "learnt on MeCab's costs, no new entries": replace(top, new_words=0),
        "learnt on MeCab's costs": top,
        "learnt from nothing": nothing,
    }
    return {
        "MeCab": partial(mecab_run, task),
        "MeCab's costs, new entries": partial(entries_run, task, top.new_words),
        **{name: partial(trained_run, task, name, options) for name, options in learnt.items()},
    }


def _counts(task: WordTask, one: WordRun, *, labels: bool) -> SpanCounts:
    gold = _spelled(task, [each.words for each in task.test], labels=labels)
    return span_counts(gold, _spelled(task, one.spans, labels=labels))


def _f(task: WordTask, one: WordRun, *, labels: bool) -> float:
    counts = _counts(task, one, labels=labels)
    return float(200.0 * counts.right.sum() / max(1, counts.found.sum() + counts.wanted.sum()))


def _headline(task: WordTask, one: WordRun, *, labels: bool) -> Headline:
    metric = f"F of words{' with labels' if labels else ''}, test, %"
    return Headline.of_f(one.name, metric, [_counts(task, one, labels=labels)])


def _rows(task: WordTask, one: WordRun) -> Iterator[Row]:
    taught = one.training or None
    yield Row(one.name, "F of words, test, %", _f(task, one, labels=False), seconds=taught)
    yield Row(one.name, "F of words with labels, test, %", _f(task, one, labels=True))
    if one.weights:
        yield Row(one.name, "weights", one.weights)
    yield Row(one.name, "characters a second of the processor", one.characters)


def _coverage(task: WordTask) -> str:
    rows = []
    for name, data in (("dev", task.dev), ("test", task.test)):
        spans = words = labels = 0
        for one in data:
            there: dict[tuple[int, int], set[str]] = {}
            for word in task.lexicon.candidates(one.text):
                own = there.setdefault((word.start, word.end), set())
                own.add(label_of(fields_of(word.feature), LABEL))
            words += len(one.words)
            spans += sum((w.start, w.end) not in there for w in one.words)
            labels += sum(
                (w.start, w.end) in there and w.label not in there[w.start, w.end]
                for w in one.words
            )
        rows.append([name, f"{len(data):,}", f"{words:,}", str(spans), str(labels)])
    return prose("words/coverage", rows)


def _characters(text: str, spans: Sequence[tuple[int, int, str]]) -> list[str]:
    labels = ["O"] * len(text)
    for start, end, label in spans:
        labels[start:end] = [f"B-{label}", *[f"I-{label}"] * (end - start - 1)]
    return labels


def _spelled(
    task: WordTask, several: Sequence[Sequence[tuple[int, int, str | None]]], *, labels: bool
) -> list[list[str]]:
    return [
        _characters(text, [(s, e, (label or "") if labels else "W") for s, e, label in words])
        for text, words in zip(task.texts, several, strict=True)
    ]


def _significance(task: WordTask, runs: Sequence[WordRun], seed: int) -> str:
    rows = []
    for labels in (True, False):
        spelled = partial(_spelled, task, labels=labels)
        gold = spelled([one.words for one in task.test])
        reference = spelled(runs[0].spans)
        for one in runs[1:]:
            pair = compare(gold, spelled(one.spans), reference, seed=seed)
            what = "words with labels" if labels else "words"
            rows.append([one.name, what, gain(pair), f"{pair.randomised:.3g}"])
    return prose("words/significance", rows)


def _curve(setting: Setting, task: WordTask, top: WordOptions, runs: Sequence[WordRun]) -> str:
    shares = (0.25, 0.5, 1.0) if setting.full else (0.5,)
    data, options = task.dev, replace(top, new_words=0)
    rows = [["nothing (MeCab)", "", *_means(task, runs[:1])]]
    for what, part in (("words", some_words), ("boundaries", some_boundaries)):
        for share in shares:
            name = f"{what} known: {share:.0%}"
            make = partial(_partly, setting, task, options, name, partial(part, data, share))
            seeds = SEEDS if setting.full and share < 1.0 else 1
            about = (TEMPLATES, options)
            several = over_seeds(setting, name, make, WordRun, seeds=seeds, about=about)
            rows.append([what, f"{share:.0%}", *_means(task, several)])
    return prose("words/curve", rows, draws=SEEDS if setting.full else 1)


_Draw: TypeAlias = Callable[[int], list[Annotation]]


def _partly(
    setting: Setting, task: WordTask, options: WordOptions, name: str, draw: _Draw, seed: int
) -> WordRun:
    setting.say(f"words: {name}, seed {seed}")
    return trained_run(task, name, options, draw(seed))


def _means(task: WordTask, runs: Sequence[WordRun]) -> list[str]:
    """Return F of words and of words with labels."""
    return [spread([_f(task, one, labels=own) for one in runs]) for own in (False, True)]


RECIPE = Recipe(
    "words",
    "Word lattices that are trained, beside MeCab",
    needs=("ud_japanese_gsd/ja_gsd-ud-dev.conllu", "ud_japanese_gsd/ja_gsd-ud-test.conllu"),
    paper="published",
    run=run,
    packages=("fugashi", "unidic-lite", "scipy"),
)
