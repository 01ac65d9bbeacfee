"""A lexicon composed with a tagger of characters, against enumeration of words and labels."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import fstcrf
from fstcrf.errors import NoPathError, OptionError
from fstcrf.ext.lexicon import Characters, Entry, Kind, Lexicon, LexiconTagger
from fstcrf.taggers import CRF

LABELS = ["B-N", "I-N", "B-V", "I-V"]
WORDS = ["a", "b", "ab", "ba", "abb", "c", "bc", "ca"]


@pytest.fixture(scope="module")
def lexicon() -> Lexicon:
    draw = np.random.default_rng(0)
    kinds = {
        "DEFAULT": Kind(always=False, runs=False, length=1),
        "SPACE": Kind(always=False, runs=True, length=0),
    }
    characters = Characters.of_kinds(kinds, [(0x20, 0x20, ["SPACE"])])
    matrix = draw.integers(-300, 300, (3, 3)).astype(np.int16)

    def entry(surface: str, kind: str) -> Entry:
        left, right = draw.integers(0, 3, 2).tolist()
        return Entry(surface, left, right, int(draw.integers(-400, 800)), f"{kind},{surface}")

    entries = [entry(word, kind) for word in WORDS for kind in ("noun", "verb")]
    unknown = [entry(name, "other") for name in kinds]
    return Lexicon.from_entries(entries, matrix, characters, unknown, unit=300.0)


@pytest.fixture(scope="module")
def tagger() -> CRF:
    draw = np.random.default_rng(1)
    sentences = []
    for _ in range(40):
        labels: list[str] = []
        for _ in range(draw.integers(1, 7)):
            inside = [label.replace("B-", "I-") for label in labels[-1:]]
            labels.append(str(draw.choice([*LABELS[::2], *inside])))
        chars = [str(draw.choice([*"abc "])) for _ in labels]
        sentences.append({"char": chars, "tag": labels})
    data = fstcrf.Corpus.from_sentences(sentences)
    return CRF.train(data, "tag", "U:%x[-1..1,char]\nB", l2=0.3)


Way = tuple[float, tuple[int, ...], tuple[str, ...]]


def enumerated(
    lexicon: Lexicon,
    tagger: CRF,
    text: str,
    coupling: dict[tuple[str, str], float],
    *,
    agree: bool,
) -> list[Way]:
    """Score every way through the words with every labelling of the characters."""
    words = lexicon.candidates(text)
    all_words, tokens = list(words), tagger.lattice({"char": list(text)})
    found: list[Way] = []

    def covered(way: list[int]) -> bool:
        at = 0
        for k in way:
            at += len(text[at:]) - len(text[at:].lstrip())
            if all_words[k].start != at:
                return False
            at = all_words[k].end
        return not text[at:].strip()

    ways = [
        way
        for n in range(1, len(text) + 1)
        for way in itertools.permutations(range(len(all_words)), n)
        if covered(list(way))
    ]
    for way in ways:
        entries = lexicon.entries(words.word[list(way)])
        cost = float(entries["cost"].astype(float).sum())
        before = [0, *entries["right"].tolist()]
        after = [*entries["left"].tolist(), 0]
        cost += sum(float(lexicon.matrix[b, a]) for a, b in zip(before, after, strict=True))
        firsts = [0, *(all_words[k].end for k in way[:-1])]
        under = [
            all_words[k].feature.split(",")[0]
            for k, first, end in zip(way, firsts, [*firsts[1:], len(text)], strict=True)
            for _ in range(end - first)
        ]
        for labels in itertools.product(LABELS, repeat=len(text)):
            if agree and [i for i, x in enumerate(labels) if x[0] == "B"] != firsts:
                continue
            score = tokens.score(list(labels)) - cost / lexicon.unit
            score += sum(coupling.get(pair, 0.0) for pair in zip(under, labels, strict=True))
            if score > -np.inf:
                found.append((score, way, labels))
    return sorted(found, key=lambda one: -one[0])


COUPLING = {("noun", "B-V"): -2.0, ("verb", "I-N"): -1.0, ("verb", "B-N"): float("-inf")}


@pytest.mark.parametrize("text", ["ab", "abc", "a b", " ca "])
@pytest.mark.parametrize("agree", [True, False])
def test_ways_sums_and_probabilities(lexicon: Lexicon, tagger: CRF, text: str, agree: bool) -> None:
    for coupling in ({}, COUPLING):
        wanted = enumerated(lexicon, tagger, text, coupling, agree=agree)
        joint = LexiconTagger(lexicon, tagger, agree=agree, coupling=coupling)
        lattice = joint.lattice(text)
        log_z = np.logaddexp.reduce([score for score, *_ in wanted])
        assert lattice.log_partition() == pytest.approx(log_z, rel=1e-11)
        words = list(lexicon.candidates(text))
        for found, (score, way, labels) in zip(joint.nbest(text, 5), wanted, strict=False):
            assert found.score == pytest.approx(score, rel=1e-11)
            assert found.probability == pytest.approx(np.exp(score - log_z), rel=1e-9)
            assert (found.words, tuple(found.labels)) == ([words[k] for k in way], labels)
        share = np.zeros(len(words))
        for score, way, _ in wanted:
            share[list(way)] += np.exp(score - log_z)
        assert np.allclose(lattice.arc_probabilities(), share, atol=1e-10)


def test_the_operator_boundaries_and_grammars(lexicon: Lexicon, tagger: CRF) -> None:
    joint = lexicon @ tagger
    assert isinstance(joint, LexiconTagger)
    assert "Lexicon" in repr(joint)
    found = joint.tag("abbca")
    assert found == joint.nbest("abbca", 1)[0]
    firsts = [word.start for word in found.words]
    assert firsts == [i for i, label in enumerate(found.labels) if label.startswith("B")]
    cut = joint.tag("abbca", boundaries={1: True, 3: False})
    assert {1} <= {word.start for word in cut.words}
    assert 3 not in {word.start for word in cut.words}
    none = joint.lattice("abbca") & fstcrf.constraints.never("verb")
    assert "verb" not in none.best().labels
    assert joint.tag("").words == []
    both = lexicon @ (tagger & fstcrf.constraints.at_most(1, fstcrf.constraints.label("B-.*")))
    assert len(both.tag("abb").words) == 1


def test_what_is_refused(lexicon: Lexicon, tagger: CRF) -> None:
    label = fstcrf.constraints.label
    with pytest.raises(NoPathError):
        (lexicon @ (tagger & fstcrf.constraints.never(label("B-.*")))).tag("ab")
    with pytest.raises(OptionError, match="a label 'X' that the tagger does not have"):
        LexiconTagger(lexicon, tagger, coupling={("noun", "X"): 1.0}).tag("ab")
    with pytest.raises(OptionError, match="expected one tape"):
        LexiconTagger(lexicon, tagger @ renamed(tagger))
    with pytest.raises(TypeError):
        3 @ tagger  # type: ignore[operator]


def renamed(tagger: CRF) -> CRF:
    data = fstcrf.Corpus.from_sentences([{"char": ["a"], "other": ["X"]}])
    return CRF.train(data, "other", "U:%x[0,char]")
