"""The recipe ``words`` on a made-up lexicon in the place of UniDic and MeCab."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fstcrf.ext.lexicon import Characters, Entry, Lexicon
from fstcrf.ext.words import Annotation, LatticeCRF
from fstcrf.ext.words.annotation import label_of
from fstcrf.ext.words.templates import fields_of
from fstcrf.recipes import Setting, unspaced_words
from fstcrf.recipes.protocol import FILE, Protocol, frozen
from fstcrf.recipes.unspaced_words import (
    ENTRIES,
    FEATURES,
    LABEL,
    NOTHING,
    ON_COSTS,
    ON_NOTHING,
    QUICK,
    TOP,
    WordOptions,
    WordTask,
    choose,
    entries_run,
    mecab_run,
    run_on,
    some_boundaries,
    some_words,
    trained_run,
)
from tests.support.wordlists import KINDS, RANGES

_WORDS = [("ab", "N"), ("a", "P"), ("b", "V"), ("bc", "N"), ("c", "V"), ("ca", "P")]


def _lexicon(costs: Sequence[int]) -> Lexicon:
    contexts = {"N": 0, "P": 1, "V": 2}
    entries = [
        Entry(word, contexts[kind], contexts[kind], cost, f"{kind},s,*,*,i{k % 2},*,*")
        for k, ((word, kind), cost) in enumerate(zip(_WORDS, costs, strict=True))
    ]
    unknown = [Entry(name, 0, 0, 3000, "X,*,*,*,*,*,*") for name in KINDS]
    matrix = np.array([[900, -600, 0], [0, 800, -500], [-700, 0, 900]], dtype=np.int16)
    return Lexicon.from_entries(entries, matrix, Characters.of_kinds(KINDS, RANGES), unknown)


@pytest.fixture(scope="module")
def task() -> WordTask:
    """Texts whose words follow costs that the lexicon does not have."""
    generator = np.random.default_rng(7)
    true = _lexicon([-300, 200, 200, 100, 400, 300]).with_unit(120.0)
    texts = ["".join(generator.choice(list("abc"), size=9)) for _ in range(60)]
    data = []
    for k, text in enumerate(texts):
        drawn = true.lattice(text).sample(1, seed=k)[0]
        words = true.candidates(text).chosen(drawn.arcs)
        pairs = [(w.surface, label_of(fields_of(w.feature), LABEL)) for w in words]
        data.append(Annotation.of_words(pairs, text))
    own = _lexicon([500, 0, 300, 500, 0, 500])

    def mecab(texts: Sequence[str]) -> list[list[tuple[str, str]]]:
        return [[(w.surface, w.feature) for w in own.tag(text)] for text in texts]

    return WordTask(own, "", data[:25], data[25:35], lambda: data[35:], mecab)


@pytest.mark.thorough
def test_options_are_chosen_on_held_out_texts(
    task: WordTask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[WordOptions] = []

    def trained(given: WordTask, data: object, options: WordOptions) -> LatticeCRF:
        assert data is task.train
        asked.append(options)
        return real(given, task.train, options)

    real = unspaced_words._trained
    monkeypatch.setattr(unspaced_words, "_trained", trained)
    protocol = Protocol("words", Setting(tmp_path, report=tmp_path, full=True))
    top, nothing = choose(protocol, task)
    assert len(asked) == len(set(asked)) == (4 + 7) + (4 + 3)  # what is known is not tried again
    assert nothing.costs == "none"
    assert top.new_words == nothing.new_words
    protocol.freeze()
    choices = frozen(tmp_path / FILE).choices
    assert [len(one.trials) for one in choices.values()] == [3, 4, 8, 4, 4]
    best = max(choices[TOP].trials, key=lambda trial: trial.held_out)
    assert {"costs": top.costs, "l2": top.l2} == best.settings
    own = real(task, task.train, top)
    assert best.held_out == pytest.approx(100.0 * own.counts(task.held_out).f)


def test_a_quick_run_is_one_of_the_full_one() -> None:
    full = {"entries": ENTRIES, TOP: ON_COSTS, NOTHING: ON_NOTHING}
    full |= {f"{name}, template": FEATURES for name in (TOP, NOTHING)}
    for name, settings in QUICK.items():
        assert settings in full[name]


def test_systems_find_words_in_test_texts(task: WordTask) -> None:
    task = replace(task, test=task.read_test())
    found = trained_run(task, "own", WordOptions("words", "fixed", 0.1, 0))
    assert found.weights > 10
    runs = found, mecab_run(task), entries_run(task, 1)
    assert all(len(one.spans) == len(task.test) for one in runs)


def test_parts_of_annotations_are_drawn(task: WordTask) -> None:
    count = sum(len(one.words) for one in task.train)
    half = sum(len(one.words) for one in some_words(task.train, 0.5, 0))
    assert 0.3 * count < half < 0.7 * count
    assert some_words(task.train, 1.0, 0) == task.train
    assert not any(one.words for one in some_boundaries(task.train, 1.0, 0))
    whole = some_boundaries([Annotation.of_words(["ab", "c", "a"], "abc a")], 1.0, 0)[0]
    assert whole.boundaries == {1: False, 2: True}  # beside a blank nothing is said


def test_the_whole_run(task: WordTask, tmp_path: Path) -> None:
    said: list[str] = []
    result = run_on(Setting(tmp_path, say=said.append), task)
    values = {(row.row, row.metric): row.value for row in result.rows}
    metric = "F of words with labels, test, %"
    assert values["learnt on MeCab's costs", metric] > values["MeCab", metric]
    assert len(result.headline) == 2 * 5
    for line in result.headline:
        assert line.mean == pytest.approx(values[line.row, line.metric])
        assert line.interval is not None
        assert line.interval[0] <= line.mean <= line.interval[1]
    text = "\n".join(result.sections)
    for heading in ("Settings", "What lattices lack", "Significance", "Annotations in part"):
        assert f"## {heading}" in text
    assert any("boundaries known" in line for line in said)
