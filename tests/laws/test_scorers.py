"""Taggers of every kind answer what the paths of their parts say, counted one by one."""

from __future__ import annotations

import itertools
import operator
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import fstcrf
from fstcrf import CRF, Corpus, Grammar, SegmentCRF
from fstcrf.constraints import at_most, never, pairs
from fstcrf.errors import (
    DataError,
    GrammarError,
    LabelError,
    ModelFileError,
    NoPathError,
    OptionError,
    ShapeError,
)
from fstcrf.ext.segments.structure import Segments
from fstcrf.ext.tokens import Pieces
from fstcrf.ext.words import Annotation, LatticeCRF, Words, WordTagger
from fstcrf.taggers.product import Product
from fstcrf.text.corpus import Span
from tests.support.wordlists import random_lexicon

DATA = Corpus.from_sentences(
    [
        {
            "word": ["she", "left", "New", "York"],
            "pos": ["N", "V", "J", "N"],
            "kind": ["a", "b", "a", "a"],
            "tag": ["O", "O", "B-LOC", "I-LOC"],
        },
        {
            "word": ["New", "York", "is", "big"],
            "pos": ["J", "N", "V", "J"],
            "kind": ["a", "a", "b", "a"],
            "tag": ["B-LOC", "I-LOC", "O", "O"],
        },
        {
            "word": ["Ann", "left", "Rio"],
            "pos": ["N", "V", "N"],
            "kind": ["a", "b", "a"],
            "tag": ["B-PER", "O", "B-LOC"],
        },
    ]
)
ASKED: list[dict[str, list[str]]] = [
    {"word": ["Ann", "left", "New"]},
    {"word": []},
    {"word": ["Rio"]},
]
TEMPLATE = "U0:%x[-1..1,word]\nU1"

SEGMENTS = SegmentCRF.train(
    DATA, "tag", TEMPLATE, structure=Segments(strings=["word"]), l2=0.3, max_iterations=8
)
SINGLES = SegmentCRF.train(
    DATA, "tag", TEMPLATE, structure=Segments(writes="bioes"), l2=0.3, max_iterations=8
)
POS = CRF.train(DATA, "pos", f"{TEMPLATE}\nB", l2=0.3, max_iterations=8)
READING = CRF.train(DATA, "kind", "U0:%y[0,pos]\nB", reads=[POS], max_iterations=3)
ONE_PLACE = Grammar.from_text('export ONE = ("[O]" | "[PER]")* "[LOC]" ("[O]" | "[PER]")*;')
NO_VERB_THERE = pairs(
    {("LOC", "N"), ("LOC", "J"), *((a, b) for a in ("O", "PER") for b in ("N", "V", "J"))},
    ("tag", "pos"),
)


IOB = CRF.train(DATA, "tag", f"{TEMPLATE}\nB", tape="iob", l2=0.3, max_iterations=8)
KINDS_OF_SPANS = ("LOC", "PER")


def bracketing() -> fstcrf.Transducer:
    """Return what writes brackets around the spans of IOB labels: 0 outside, k in one of kind k."""
    lines = ["0 0 O <eps>"]
    for k, x in enumerate(KINDS_OF_SPANS, 1):
        opened, closed = 10 + k, 20
        lines += [f"0 {opened} <eps> [{x}", f"{opened} {k} B-{x} <eps>", f"{k} {k} I-{x} <eps>"]
        lines += [f"{k} {closed} <eps> {x}]", f"{closed} {opened} <eps> [{x}"]
    return fstcrf.Transducer.from_text("\n".join([*lines, "20 0 O <eps>", "0", "20"]), tape="tag")


BRACKETS = bracketing()


class Kind(NamedTuple):
    """A tagger, its parts, which labels of segments and of tokens are legal, what is written."""

    tagger: Any
    parts: tuple[Any, ...]
    weights: tuple[float, ...] = ()
    legal: Callable[[dict[str, list[str]], dict[str, list[str]]], bool] = lambda _, __: True
    behind: Rewrite | None = None


Rewrite = Callable[[dict[str, list[str]], dict[str, list[str]]], list[tuple[list[str], float]]]
"""What a transducer writes, given the labels of segments and of tokens; and the scores."""
WRITTEN = {"nouns", "brackets"}


def nouns(_: object, under: dict[str, list[str]]) -> list[tuple[list[str], float]]:
    """N is written as n, or, at a price, as m m; V and J as nothing."""
    choices: list[list[tuple[list[str], float]]] = [
        [(["n"], 0.0), (["m", "m"], -0.5)] if x == "N" else [([], 0.0)] for x in under["pos"]
    ]
    return [
        ([x for labels, _ in way for x in labels], sum(score for _, score in way))
        for way in itertools.product(*choices)
    ]


NOUNS = fstcrf.Transducer.from_text(
    "0 0 N n\n0 1 N m 0.5\n1 0 <eps> m\n0 0 V <eps>\n0 0 J <eps>\n0\n", tape="nouns"
)


def one_place(segments: dict[str, list[str]], _: object) -> bool:
    return segments["tag"].count("LOC") == 1


def no_verb_there(_: object, under: dict[str, list[str]]) -> bool:
    return ("LOC", "V") not in zip(under["tag"], under["pos"], strict=True)


KINDS: dict[str, Callable[[], Kind]] = {
    "CRF": lambda: Kind(POS, (POS,)),
    "segments": lambda: Kind(SEGMENTS, (SEGMENTS,)),
    "segments written as BIOES": lambda: Kind(SINGLES, (SINGLES,)),
    "segments under a grammar": lambda: Kind(SEGMENTS & ONE_PLACE, (SEGMENTS,), (), one_place),
    "segments beside a CRF": lambda: Kind(SEGMENTS @ POS, (SEGMENTS, POS)),
    "a CRF beside segments": lambda: Kind(POS @ SEGMENTS, (POS, SEGMENTS)),
    "beside a composition that reads": lambda: Kind(
        fstcrf.compose(SEGMENTS, fstcrf.compose(POS, READING, normalize="product")),
        (SEGMENTS, fstcrf.compose(POS, READING, normalize="product")),
    ),
    "with weights": lambda: Kind(
        fstcrf.compose(SEGMENTS, POS, weights=[0.5, 2.0]), (SEGMENTS, POS), (0.5, 2.0)
    ),
    "a CRF that a transducer reads": lambda: Kind(POS @ NOUNS, (POS,), behind=nouns),
    "one of two that a transducer reads": lambda: Kind(
        (POS @ SEGMENTS) @ NOUNS.on("pos"), (POS, SEGMENTS), behind=nouns
    ),
    "what is written, under a grammar": lambda: Kind(
        (POS @ NOUNS) & at_most(1, "n", tape="nouns"),
        (POS,),
        behind=lambda segments, under: [
            (labels, score) for labels, score in nouns(segments, under) if labels.count("n") < 2
        ],
    ),
    "beside, under a grammar of both": lambda: Kind(
        (SEGMENTS @ POS) & NO_VERB_THERE, (SEGMENTS, POS), (), no_verb_there
    ),
}


def test_segments_are_scored_where_a_transducer_writes_their_brackets(tmp_path: Path) -> None:
    """Against all labellings of tokens, each with the score of the spans that it has."""
    joint, tagger = IOB @ BRACKETS, SEGMENTS
    whole = joint @ tagger
    assert whole.tapes == ("iob", "tag")
    whole.save(tmp_path / "whole")
    again = fstcrf.load(tmp_path / "whole")
    for sentence in ASKED:
        spans = {
            tuple(s for s in path.segments if s.type != "O"): path.score
            for path in reversed(SEGMENTS.lattice(sentence).nbest(100_000))
        }
        every: dict[tuple[str, ...], float] = {}
        for path in joint.lattice(sentence).nbest(100_000):
            at, label = path.positions["tag"], path["tag"]
            met = zip(at[::2], at[1::2], [x[1:] for x in label[::2]], strict=True)
            own = tuple(Span(*one) for one in met)
            if own in spans:
                every[path["iob"]] = path.score + spans[own]
        lattice = whole.lattice(sentence)
        total = float(np.logaddexp.reduce(list(every.values())))
        assert lattice.log_partition() == pytest.approx(total, abs=1e-9)
        best = max(every, key=lambda labels: every[labels])
        assert whole.tag(sentence) == again.tag(sentence)
        assert tuple(whole.tag(sentence)[0]) == best
        assert whole.nbest_all([sentence], 1)[0][0].score == pytest.approx(every[best], abs=1e-9)


def test_labels_of_tokens_are_scored_where_each_token_writes_one() -> None:
    same = fstcrf.Transducer.from_table({"N": ["b", "a"], "V": "b", "J": "a"}, tape="kind")
    kinds = CRF.train(DATA, "kind", "U0:%x[0,word]\nB", max_iterations=3)
    whole, sentence = (POS @ same) @ kinds, ASKED[0]
    scores = [
        path.score + kinds.score(sentence, path["kind"])
        for path in (POS @ same).lattice(sentence).nbest(10_000)
    ]
    lattice = whole.lattice(sentence)
    assert lattice.log_partition() == pytest.approx(np.logaddexp.reduce(scores), abs=1e-9)
    assert lattice.best().score == pytest.approx(max(scores), abs=1e-9)
    dropping = fstcrf.Transducer.from_table({"N": "a", "V": None, "J": "b"}, tape="kind")
    with pytest.raises(
        ShapeError, match="'kind' needs one label per token, but the transducer reads"
    ):
        _ = (POS @ dropping) @ kinds


@pytest.fixture(scope="module", params=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    return KINDS[request.param]()


class One(NamedTuple):
    """A path: labels of tokens by tape, its score."""

    labels: dict[str, list[str]]
    score: float


def under(segments: Any, length: int) -> list[str]:
    found = [""] * length
    for one in segments:
        found[one.start : one.end] = [one.type] * (one.end - one.start)
    return found


def spelled(segments: Any, length: int, *, single: bool) -> list[str]:
    found = ["O"] * length
    for one in segments:
        if one.type == "O":
            continue
        letters = "B" + "I" * (one.end - one.start - 1)
        if single:
            letters = "S" if len(letters) == 1 else f"{letters[:-1]}E"
        found[one.start : one.end] = [f"{letter}-{one.type}" for letter in letters]
    return found


def paths(kind: Kind, sentence: dict[str, list[str]], bias: Any = None) -> list[One]:
    """All legal paths, each tagger's multiplied out."""
    length, every = len(sentence["word"]), []
    for k, part in enumerate(kind.parts):
        factor = kind.weights[k] if kind.weights else 1.0
        rows = []
        for path in part.lattice(sentence).nbest(100_000):
            several = path.labels if len(part.tapes) > 1 else (path.labels,)
            words = {t: list(labels) for t, labels in zip(part.tapes, several, strict=True)}
            segments, tokens = words, words
            if isinstance(part, SegmentCRF):
                single, tape = part.scheme == "bioes", part.tape
                words = {tape: spelled(path.segments, length, single=single)}
                tokens = {tape: under(path.segments, length)}
            rows.append((words, segments, tokens, factor * path.score))
        every.append(rows)
    found = []
    for combined in itertools.product(*every):
        words, segments, tokens = (
            {tape: labels for row in combined for tape, labels in row[k].items()} for k in range(3)
        )
        if not kind.legal(segments, tokens):
            continue
        score = sum(row[-1] for row in combined)
        for tape, added in (bias or {}).items():
            number = next(k for k, part in enumerate(kind.parts) if tape in part.tapes)
            factor = kind.weights[number] if kind.weights else 1.0
            score += factor * sum(added.get(label, 0.0) for label in words[tape])
        if kind.behind is None:
            found.append(One(words, score))
        else:
            (tape,) = WRITTEN.intersection(kind.tagger.tapes)
            rewritten = kind.behind(segments, tokens)
            found += [One({**words, tape: out}, score + weight) for out, weight in rewritten]
    return sorted(found, key=lambda one: -one.score)


def log_z(found: list[One]) -> float:
    return float(np.logaddexp.reduce([one.score for one in found])) if found else -np.inf


def of_path(kind: Kind, path: Any) -> dict[str, list[str]]:
    several = len(kind.tagger.tapes) > 1
    rows = path.labels if several else (path.labels,)
    assert path.tapes == kind.tagger.tapes
    assert [path[tape] for tape in path.tapes] == list(rows)
    with pytest.raises(OptionError, match="no tape 'other'"):
        path["other"]
    return {tape: list(row) for tape, row in zip(kind.tagger.tapes, rows, strict=True)}


def checked(kind: Kind, ranked: list[Any], wanted: list[One], total: float) -> None:
    assert len(ranked) == len(wanted)
    by_labels = {repr(sorted(one.labels.items())): one.score for one in wanted}
    for path, one in zip(ranked, wanted, strict=True):
        assert path.score == pytest.approx(one.score, abs=1e-9)
        assert path.probability == pytest.approx(np.exp(one.score - total), abs=1e-9)
        own = by_labels[repr(sorted(of_path(kind, path).items()))]
        assert own == pytest.approx(path.score, abs=1e-9)


def sentences(kind: Kind) -> Iterator[tuple[dict[str, list[str]], list[One]]]:
    for sentence in ASKED:
        found = paths(kind, sentence)
        if found:
            yield sentence, found


def test_n_best_and_marginals(kind: Kind) -> None:
    tagger = kind.tagger
    for sentence, every in sentences(kind):
        total = log_z(every)
        checked(kind, tagger.nbest_all([sentence], 7)[0], every[:7], total)
        tagged = tagger.tag(sentence)
        rows = tagged if len(tagger.tapes) > 1 else (tagged,)
        assert dict(zip(tagger.tapes, rows, strict=True)) == every[0].labels
        answer = tagger.decode([sentence])
        assert answer.probabilities[0] == pytest.approx(np.exp(every[0].score - total), abs=1e-9)
        for tape, labels in tagger.label_sets.items():
            (table,) = answer.marginals(tape)
            if tape in WRITTEN:
                own = tagger.lattice(sentence).expected(tape)
                np.testing.assert_allclose(table, own, atol=1e-12)
                continue
            wanted = np.zeros((len(sentence["word"]), len(labels)))
            for one in every:
                for t, label in enumerate(one.labels[tape]):
                    wanted[t, labels.index(label)] += np.exp(one.score - total)
            np.testing.assert_allclose(table, wanted, atol=1e-9)


def test_batches_are_their_sentences(kind: Kind) -> None:
    alive = [sentence for sentence, _ in sentences(kind)]
    together = kind.tagger.tag_all(alive, threads=2)
    assert together == [kind.tagger.tag(sentence) for sentence in alive]


def test_known_labels_and_biases(kind: Kind) -> None:
    tagger, sentence = kind.tagger, ASKED[0]
    tape = tagger.tapes[0]
    label = paths(kind, sentence)[3].labels[tape][1]
    others = tagger.label_sets[tape]
    bias = {tape: {label: 0.7, others[0]: -1.3}}
    forced = {tape: [None, f"{label}|{others[-1]}", "_"]}
    wanted = [
        one for one in paths(kind, sentence, bias) if one.labels[tape][1] in {label, others[-1]}
    ]
    found = tagger.nbest_all([sentence], 5, forced=[forced], bias=bias)[0]
    checked(kind, found, wanted[:5], log_z(wanted))
    lattice = tagger.lattice(sentence, forced=forced, bias=bias)
    assert lattice.log_partition() == pytest.approx(log_z(wanted), abs=1e-9)


def test_files_and_pickles(kind: Kind, tmp_path: Path) -> None:
    alive = [sentence for sentence, _ in sentences(kind)]
    wanted = kind.tagger.nbest_all(alive, 3)
    kind.tagger.save(tmp_path / "model")
    for again in (fstcrf.load(tmp_path / "model"), pickle.loads(pickle.dumps(kind.tagger))):
        assert type(again) is type(kind.tagger)
        assert again.nbest_all(alive, 3) == wanted


# --- Words of lexica, beside taggers of characters, of other programs, too ------------------------

CHARACTERS = Corpus.from_sentences(
    [
        {"character": list("abca"), "pos": list("NVNN")},
        {"character": list("bca"), "pos": list("VNN")},
    ]
)
TEXTS: list[dict[str, list[str]]] = [{"character": list(text)} for text in ("ab c", "", "cab ")]
OF_CHARACTERS = CRF.train(CHARACTERS, "pos", "U0:%x[-1..1,character]\nB", max_iterations=5)
NO_P = Grammar.from_text('export G = ("[N]" | "[V]" | "[X]")*;')


def _lattice_crf() -> Any:
    data = [Annotation.of_words(["ab", "c"]), Annotation.of_words(["c", "ab"])]
    template = "UNIGRAM A:%F[0]\nBIGRAM B:%L[0]/%R[0]\n"
    return LatticeCRF.train(
        data, template, structure=Words(LEXICON, costs="fixed", on_missing="add"), l2=0.3
    )


LEXICON = random_lexicon(np.random.default_rng(5), words=12)
WORDS: dict[str, Callable[[], tuple[Any, Any, bool]]] = {
    "a lexicon": lambda: (WordTagger(LEXICON), None, False),
    "a lattice CRF": lambda: (WordTagger(_lattice_crf(), scheme="bioes"), None, False),
    "a lexicon beside a CRF": lambda: (WordTagger(LEXICON), OF_CHARACTERS, False),
    "words under a grammar": lambda: (WordTagger(LEXICON), None, True),
    "both": lambda: (WordTagger(_lattice_crf()), OF_CHARACTERS, True),
}


@pytest.mark.parametrize("name", WORDS)
def test_words_are_parts(name: str, tmp_path: Path) -> None:
    words, beside, ruled = WORDS[name]()
    tagger = words if beside is None else words @ beside
    tagger = tagger & never("P", tape="word") if ruled and beside is not None else tagger
    tagger = tagger & NO_P if ruled and beside is None else tagger
    single = words.scheme == "bioes"
    bias = {tape: {labels[0]: 0.6} for tape, labels in tagger.label_sets.items()}
    for text, (said, added) in itertools.product(TEXTS, ((False, {}), (True, bias))):
        length = len(text["character"])
        allowed = {f"{words.label_sets['word'][k]}" for k in (0, 2, 4)}
        known = {"word": ["|".join(sorted(allowed))] + [None] * (length - 1)}
        known = known if said and length else {}
        best: dict[str, float] = {}
        mass: dict[str, float] = {}
        rows = [([], 0.0)] if beside is None else beside.lattice(text).nbest(10_000)
        for path, other in itertools.product(words.lattice(text).nbest(10_000), rows):
            if ruled and "P" in path.labels:
                continue
            labels = {"word": spelled(path.segments, length, single=single)}
            labels |= {} if beside is None else {"pos": list(other.labels)}
            if known and labels["word"][0] not in allowed:
                continue
            score = path.score + (0.0 if beside is None else other.score)
            score += sum(added.get(t, {}).get(x, 0.0) for t, one in labels.items() for x in one)
            shown = repr(labels)
            best[shown] = max(score, best.get(shown, -np.inf))
            mass[shown] = float(np.logaddexp(score, mass.get(shown, -np.inf)))
        total = float(np.logaddexp.reduce([-np.inf, *mass.values()]))
        options = {"forced": [known or None], "bias": added or None}
        found = tagger.nbest_all([text], 5, **options)[0]
        assert [p.score for p in found] == pytest.approx(sorted(best.values())[::-1][:5])
        for path in found:
            several = path.labels if beside is not None else (path.labels,)
            shown = repr({t: list(x) for t, x in zip(tagger.tapes, several, strict=True)})
            assert path.score == pytest.approx(best[shown])
            assert path.probability == pytest.approx(np.exp(best[shown] - total), abs=1e-9)
        lattice = tagger.lattice(text, forced=known or None, bias=added or None)
        assert lattice.log_partition() == pytest.approx(total)
    tagger.save(tmp_path / "model")
    again = fstcrf.load(tmp_path / "model")
    assert again.nbest_all(TEXTS, 3) == tagger.nbest_all(TEXTS, 3)
    assert tagger.tag_all(TEXTS, threads=2) == [tagger.tag(text) for text in TEXTS]
    if beside is not None:
        columns = tagger.without_grammar() or tagger
        words_alone = [x for row in words.tag_all(TEXTS) for x in row]
        assert columns.cascade(TEXTS)[0].strings() == words_alone
        assert (beside @ words).tapes == ("pos", "word")


TWO = {"word": ["New", "York"]}


def test_words_and_scores_that_do_not_compose() -> None:
    with pytest.raises(DataError, match="'New' in column 'word' is no character"):
        WordTagger(LEXICON).tag(TWO)
    decoder = fstcrf.TokenDecoder(["O", "B-X", "I-X"])
    for parts in ((decoder, POS), (POS, decoder)):
        with pytest.raises(OptionError, match=r"decoder\.lattices\(documents\)\[k\] @ tagger"):
            operator.matmul(*parts)
    model = _lattice_crf()
    assert (model @ OF_CHARACTERS).tapes == (OF_CHARACTERS @ model).tapes[::-1] == ("word", "pos")
    assert (model & NO_P).tag(TEXTS[0]) == (WordTagger(model) & NO_P).tag(TEXTS[0])
    logits, offsets = [[0, 3, 0], [4, 0, 0]], [(0, 2), (3, 4)]
    assert [one.type for one in decoder.decode(logits, offsets)] == ["X"]
    scored, beside = decoder.lattices([Pieces(logits, offsets)])[0], POS.lattice(TWO)
    apart = scored.log_partition() + beside.log_partition()
    assert (scored @ beside).log_partition() == pytest.approx(apart)
    ruled = decoder & Grammar.from_text('export G = "[O]"*;')
    assert (ruled & Grammar.from_text('export H = "[O]"*;')).decode(logits, offsets) == []


def test_tapes_shown() -> None:
    both = KINDS["segments beside a CRF"]()
    every = paths(both, ASKED[0])
    for tape in both.tagger.tapes:
        best: dict[str, float] = {}
        for one in every:
            best.setdefault(repr(one.labels[tape]), one.score)
        (found,) = both.tagger.nbest_all([ASKED[0]], 4, tapes=[tape])
        names = [repr(list(path[tape])) for path in found]
        assert names == list(best)[:4]
        for name, path in zip(names, found, strict=True):
            assert path.score == pytest.approx(best[name], abs=1e-9)
            chance = np.exp(best[name] - log_z(every))
            assert path.probability == pytest.approx(chance, abs=1e-9)
        assert [p.probability for p in found] == sorted([p.probability for p in found])[::-1]


def test_grammars_that_refuse() -> None:
    tagger = SEGMENTS & ONE_PLACE
    with pytest.raises(NoPathError) as caught:
        tagger.tag_all([ASKED[0], {"word": []}])
    assert caught.value.sentence == 1
    answer = tagger.decode(ASKED, on_no_path="skip")
    assert answer.dead.tolist() == [False, True, False]
    relaxed = tagger.decode(ASKED, on_no_path="relax")
    assert relaxed.changed.tolist() == ["", "grammar", ""]
    assert SEGMENTS.tag({"word": []}) == []
    free = tagger.without_grammar()
    assert free is not None
    assert free.tag_all(ASKED) == SEGMENTS.tag_all(ASKED)


def test_a_cascade_of_taggers_that_read_none_of_each_other() -> None:
    """They decide alone, each under what the grammar says of its tapes, and what is known."""
    once = at_most(1, "LOC", tape="tag")
    joint = (SEGMENTS @ POS) & once
    bias = {"tag": {"B-LOC": 0.5}}
    columns = joint.cascade(ASKED, bias=bias)
    assert [c.strings() for c in columns] == [
        [label for labels in one.tag_all(ASKED, bias=said) for label in labels]
        for one, said in ((SEGMENTS & once, bias["tag"]), (POS, None))
    ]
    answer = joint.decode(ASKED)
    assert [answer[tape].column().strings() for tape in answer.tapes] == [
        [label for row in joint.tag_all(ASKED) for label in row[k]] for k in range(2)
    ]


@pytest.mark.parametrize(
    ("ask", "error", "text"),
    [
        (lambda: ((SEGMENTS @ POS) & NO_VERB_THERE).cascade(ASKED), OptionError, "no cascade"),
        ((SEGMENTS @ POS).plan, OptionError, "stored as arcs"),
        (lambda: (SEGMENTS @ POS).explain(ASKED[0], 0), OptionError, "explain() is for"),
        (lambda: (SEGMENTS @ POS).tune_weights(DATA), OptionError, "with_weights()"),
        (lambda: SEGMENTS.lattice(ASKED[0], n=2), OptionError, "tagger of segments contains all"),
        (lambda: SEGMENTS @ SINGLES, OptionError, "two taggers have the tape 'tag'"),
        (lambda: fstcrf.compose(SEGMENTS, POS, READING), OptionError, "reads the tape 'pos'"),
        (lambda: SEGMENTS & Grammar.shipped("bio"), GrammarError, "the label of each segment"),
        (
            lambda: fstcrf.compose(SEGMENTS, POS, normalize="chain"),
            OptionError,
            "for taggers of tokens",
        ),
        (lambda: fstcrf.compose(SEGMENTS, POS, search="lazy"), OptionError, "search="),
        (lambda: fstcrf.compose(SEGMENTS, POS, weights=[1.0]), OptionError, "2 numbers from 0"),
        (lambda: fstcrf.compose(SEGMENTS, POS, weights=[1.0, -1]), OptionError, "numbers from 0"),
        (lambda: SEGMENTS.tag(ASKED[0], budget=3), OptionError, "budget="),
        (lambda: SEGMENTS.tag(ASKED[0], forced=["O", "X", "O"]), LabelError, "forced label 'X'"),
        (lambda: SEGMENTS.tag(ASKED[0], bias={"X": 1.0}), LabelError, "X"),
        (lambda: SEGMENTS.constrained(ONE_PLACE, search="lazy"), OptionError, "stored as arcs"),
        (
            lambda: (SEGMENTS & ONE_PLACE).tag(ASKED[0], search="lazy"),
            OptionError,
            "stored as arcs",
        ),
    ],
)
def test_refusals(ask: Callable[[], Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error) as caught:
        ask()
    assert text in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_scheme_that_looks_back() -> None:
    looking = SegmentCRF.train(
        DATA, "tag", TEMPLATE, structure=Segments(writes="iob1"), max_iterations=2
    )
    assert looking.tag_all(ASKED)[1] == []
    with pytest.raises(OptionError, match="depend on the previous token"):
        looking.decode(ASKED, forced=[["O", None, None], None, None])


def test_files_that_are_damaged(tmp_path: Path) -> None:
    path = tmp_path / "model"
    (SEGMENTS @ POS).save(path)
    content = bytearray(path.read_bytes())
    content[-20] ^= 1
    path.write_bytes(content)
    with pytest.raises(ModelFileError):
        fstcrf.load(path)
    assert isinstance(SEGMENTS @ POS, Product)
