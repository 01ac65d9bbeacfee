"""Taggers of segments: training, answers, files, and what they refuse."""

from __future__ import annotations

import random
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fstcrf.errors import DataError, LabelWarning, ModelFileError, OptionError
from fstcrf.ext.course import structured
from fstcrf.ext.segments import likelihood
from fstcrf.ext.segments.gold import GoldSegments
from fstcrf.ext.segments.likelihood import SegmentProblem, SegmentSpace, segment_likelihood
from fstcrf.ext.segments.phrases import segment_features
from fstcrf.ext.segments.structure import Segments
from fstcrf.taggers.segmental import SegmentCRF
from fstcrf.text.corpus import Corpus
from fstcrf.text.features import FeatureIndex, parse_template
from fstcrf.training import Chain, Dev, Features, Gold, Run
from fstcrf.training.lbfgs import LBFGS

TEMPLATE = "U0:%x[-1..1,word]\nU1"
LEXICON = {"city": ["new york", "paris"], "food": ["hot dog"]}


def flat(data: Any, target: str = "tag", features: str = TEMPLATE, **options: Any) -> SegmentCRF:
    """Train by options with flat names."""
    return SegmentCRF.train(data, target, **structured({"features": features, **options}, Segments))


def sentences(n: int, seed: int = 0) -> list[dict[str, list[str]]]:
    """Cities of one to three words, people, and words outside."""
    draw = random.Random(seed)
    found = []
    for _ in range(n):
        word: list[str] = []
        tag: list[str] = []
        for _ in range(draw.randint(1, 4)):
            kind = draw.choice(["CITY", "PER", "O", "LONG"])
            if kind == "O":
                word.append(draw.choice(["the", "a", "sees", "in"]))
                tag.append("O")
                continue
            phrase = {
                "CITY": draw.choice(["new york", "paris", "rio de janeiro"]),
                "PER": draw.choice(["ann", "bob lee"]),
                "LONG": "x " * draw.randint(3, 5) + "y",
            }[kind].split()
            word += phrase
            tag += [f"B-{kind}", *[f"I-{kind}"] * (len(phrase) - 1)]
        found.append({"word": word, "tag": tag})
    return found


@pytest.fixture(scope="module")
def data() -> Corpus:
    return Corpus.from_sentences(sentences(80))


@pytest.fixture(scope="module")
def tagger(data: Corpus) -> SegmentCRF:
    return SegmentCRF.train(
        data,
        "tag",
        TEMPLATE,
        structure=Segments(strings=["word"], lexicon=LEXICON, longest=3),
        l2=0.1,
    )


def test_it_learns(tagger: SegmentCRF) -> None:
    test = sentences(40, seed=1)
    assert tagger.labels == ("CITY", "LONG", "PER", "O")
    assert repr(tagger).startswith("<SegmentCRF: 4 labels, segments of up to 3 tokens, ")
    assert dict(zip(tagger.labels, tagger.space.longest.tolist(), strict=True)) == {
        "CITY": 3,
        "LONG": 3,
        "PER": 2,
        "O": 1,
    }
    found = tagger.tag_all([{"word": s["word"]} for s in test])
    right = sum(a == b["tag"] for a, b in zip(found, test, strict=True))
    assert right >= 38
    assert tagger.f_of(Corpus.from_sentences(test), "tag") > 0.97


def test_segments_are_those_of_the_lattice_and_the_answer(tagger: SegmentCRF) -> None:
    for sentence in sentences(20, seed=2):
        words = {"word": sentence["word"]}
        segments = tagger.segments(words)
        assert [s for s in tagger.lattice(words).best().segments if s.type != "O"] == segments
        assert tagger.decode([words]).spans() == [segments]
    many = [{"word": s["word"]} for s in sentences(10, seed=3)]
    scores = [tagger.decode(many, threads=threads).scores.tobytes() for threads in (1, 2)]
    assert scores[0] == scores[1]
    assert tagger.decode([]).spans() == []


def test_files(tagger: SegmentCRF, tmp_path: Path) -> None:
    tagger.save(tmp_path / "model")
    assert SegmentCRF.load(tmp_path / "model").record == tagger.record


def test_threads_and_checkpoints_give_the_same_bits(data: Corpus, tmp_path: Path) -> None:
    def run(**more: Any) -> SegmentCRF:
        return flat(data, strings=["word"], **more)

    whole = run(max_iterations=12)
    assert run(max_iterations=12, threads=2).theta.tobytes() == whole.theta.tobytes()
    path = tmp_path / "state"
    run(max_iterations=5, checkpoint=path)
    resumed = run(max_iterations=12, checkpoint=path, resume=True)
    assert resumed.theta.tobytes() == whole.theta.tobytes()
    with pytest.raises(ModelFileError, match="other data or options"):
        run(max_iterations=12, l2=3.0, checkpoint=path, resume=True)


def test_an_l1_penalty_makes_zeros(data: Corpus) -> None:
    sparse = SegmentCRF.train(
        data, "tag", TEMPLATE, l2=0.0, max_iterations=60, method=LBFGS(l1=0.5)
    )
    assert (sparse.theta == 0.0).mean() > 0.5
    assert sparse.f_of(data, "tag") > 0.9


def test_held_out_sentences(data: Corpus) -> None:
    dev = Corpus.from_sentences(sentences(20, seed=5))
    tagger = SegmentCRF.train(data, "tag", TEMPLATE, dev=Dev(dev, patience=3))
    assert tagger.record.dev_score == pytest.approx(tagger.f_of(dev, "tag"))


def problem_of(part: Corpus, rng: np.random.Generator) -> tuple[SegmentProblem, SegmentSpace]:
    """Random segments of some sentences, as what is learnt from."""
    gold, longest = [], np.asarray([2, 1, 3, 1], dtype=np.int32)
    for begin, end in zip(part.offsets[:-1].tolist(), part.offsets[1:].tolist(), strict=True):
        first = begin
        while first < end:
            stop = min(end, first + int(rng.integers(1, 4)))
            label = int(rng.integers(4))
            stop = first + 1 if label == 3 else stop
            gold.append((first, stop, label))
            first = stop
    segments = GoldSegments(*(np.asarray(c, dtype=np.int64) for c in zip(*gold, strict=True)))
    _, design = FeatureIndex.build(part, parse_template(TEMPLATE))
    features = segment_features(part, segments, 4, longest, ["word"], LEXICON, None)
    cells = likelihood.supported_cells(design.node, segments, 4)
    tails = np.asarray([True, True, True, False])
    space = SegmentSpace(4, design.node.n_columns, cells, longest, tails, len(features.cell))
    extras = features.extras(part, longest, space.depth, space.width)
    return SegmentProblem(part.offsets, design.node, extras, segments), space


def test_the_gradient_is_the_difference(data: Corpus) -> None:
    rng = np.random.default_rng(0)
    problem, space = problem_of(data[:6], rng)
    objective = segment_likelihood(problem, space, l2=0.3)
    assert objective.observed[-space.values :].sum() > 0
    theta = rng.normal(size=space.size)
    value, gradient = objective(theta)
    assert value > 0
    for k in rng.permutation(space.size)[:60].tolist() + list(range(space.size - 20, space.size)):
        step = 1e-5 * np.eye(1, space.size, k)[0]
        up, down = objective(theta + step)[0], objective(theta - step)[0]
        assert gradient[k] == pytest.approx((up - down) / 2e-5, abs=1e-5)


def test_a_share_of_the_sentences(data: Corpus) -> None:
    rng = np.random.default_rng(1)
    problem, space = problem_of(data[:9], rng)
    theta = rng.normal(size=space.size)
    alone = [segment_likelihood(sentence(problem, b), space, l2=0.0)(theta) for b in range(9)]
    for step in (1, 2, 4, 9):
        value, gradient = segment_likelihood(problem.every(step), space, l2=0.0)(theta)
        assert value == pytest.approx(sum(one for one, _ in alone[::step]), rel=1e-12)
        assert gradient == pytest.approx(sum(one for _, one in alone[::step]), abs=1e-9)
    whole = segment_likelihood(problem, space, l2=0.0)(theta)
    twice = segment_likelihood(problem, space, l2=0.5, weight=2.0)(theta)
    assert twice[0] == pytest.approx(2 * whole[0] + 0.5 * theta @ theta, rel=1e-12)
    assert twice[1] == pytest.approx(2 * whole[1] + theta, abs=1e-9)


def sentence(problem: SegmentProblem, b: int) -> SegmentProblem:
    """A sentence alone."""
    first, end = problem.offsets[b : b + 2].tolist()
    gold = problem.gold
    own = (gold.start >= first) & (gold.start < end)
    segments = GoldSegments(gold.start[own] - first, gold.end[own] - first, gold.label[own])
    rows, extras = problem.rows.slice(first, end), problem.extras.run(b, b + 1)
    return SegmentProblem(np.asarray([0, end - first]), rows, extras, segments)


def test_curvature_is_that_of_independent_tokens(data: Corpus) -> None:
    """Of an attribute that one token has, it is the second difference."""
    rng = np.random.default_rng(2)
    problem, space = problem_of(data[:4], rng)
    objective = segment_likelihood(problem, space, l2=0.3)
    theta = rng.normal(size=space.size)
    found = np.asarray(objective.curvature(theta), dtype=np.float64)
    assert found.min() > 0.59
    row = space.cells // (3 * space.width)
    alone = np.flatnonzero(np.bincount(problem.rows.index, minlength=space.rows)[row] == 1)
    assert len(alone) > 10
    for k in alone[:20].tolist():
        step = 1e-4 * np.eye(1, space.size, k)[0]
        up, down = objective(theta + step)[1], objective(theta - step)[1]
        assert found[k] == pytest.approx((up[k] - down[k]) / 2e-4, abs=1e-5)


@pytest.mark.thorough
def test_stages(data: Corpus, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def run(**more: Any) -> SegmentCRF:
        return flat(data, strings=["word"], lexicon=LEXICON, longest=3, **{"l2": 0.1, **more})

    whole = run(delta=1e-9)
    monkeypatch.setattr(likelihood, "_FEW", 10)
    staged = run(delta=1e-9)
    assert staged.record.objective == pytest.approx(whole.record.objective, rel=1e-6)
    assert not np.array_equal(staged.theta, whole.theta)
    assert np.array_equal(run(delta=1e-9, threads=2).theta, staged.theta)
    for stop in (10, 33):  # in either stage
        file = tmp_path / f"{stop}.state"
        run(delta=1e-9, checkpoint=file, checkpoint_every=1, max_iterations=stop)
        resumed = run(delta=1e-9, checkpoint=file, checkpoint_every=1, resume=True)
        assert np.array_equal(resumed.theta, staged.theta)
    # held-out data may end a run, so it has no stages
    held_out = run(dev=data, max_iterations=5).theta
    monkeypatch.undo()
    assert np.array_equal(run(max_iterations=5).theta, held_out)


def test_gold_segments_that_the_lattice_does_not_have(data: Corpus) -> None:
    def run(**more: Any) -> SegmentCRF:
        return flat(data, longest=2, tails=False, max_iterations=3, **more)

    with pytest.raises(DataError, match=r"segments are longer .* the first a \w+ of \d tokens"):
        run()
    with pytest.warns(LabelWarning, match="cut into pieces"):
        run(on_missing="nearest")
    with pytest.warns(LabelWarning, match="sentences are left out"):
        skipped = run(on_missing="skip")
    assert skipped.record.sentences < 80
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        SegmentCRF.train(data, "tag", TEMPLATE, structure=Segments(longest=2), max_iterations=3)


@pytest.mark.parametrize(
    ("changed", "error", "says"),
    [
        ({"target": "chunk"}, DataError, "no column 'chunk'"),
        ({"features": "U0:%x[0,tag]"}, OptionError, "also read as a feature"),
        ({"features": "U0:%x[0,word]\nB0:%x[0,word]"}, OptionError, "label pairs"),
        ({"strings": ["pos"]}, OptionError, "no column 'pos'"),
        ({"strings": ["tag"]}, OptionError, "also read as a feature"),
        ({"lexicon": {"x": [" "]}}, OptionError, "empty phrase"),
        ({"longest": 0}, OptionError, "longest is 0"),
        ({"l2": -1.0}, OptionError, "l2 is -1"),
        ({"threads": 0}, OptionError, "threads is 0"),
        ({"on_missing": "ignore"}, OptionError, "on_missing"),
        ({"writes": "conlleval"}, OptionError, "only reads labels"),
        ({"resume": True}, OptionError, "resume needs a checkpoint"),
        ({"data": [{"word": [], "tag": []}]}, DataError, "no sentence"),
    ],
)
def test_what_it_refuses(
    data: Corpus, changed: dict[str, Any], error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        flat(**{"data": data, **changed})


def test_options_that_segments_do_not_read_are_refused(data: Corpus) -> None:
    call: Any = SegmentCRF.train
    for options, says in (
        ({"run": Run(seed=3)}, "seed is no option of this training; it has l2, l1"),
        ({"run": Run(memory_limit=1 << 30)}, "memory_limit is no option"),
        ({"method": LBFGS(memory=3)}, "memory is no option"),
        ({"method": "ap"}, "method is 'ap', expected 'lbfgs' or LBFGS"),
        ({"method": LBFGS(l2=0.5), "l2": 0.5}, "l2 is given twice"),
        ({"structure": Chain()}, r"structure is Chain\(.*, expected Segments"),
        ({"dev": Dev(data, target=[["O"]])}, "dev_target is no option"),
    ):
        with pytest.raises(OptionError, match=says):
            call(data, "tag", TEMPLATE, **options)
    for target, features, says in (
        ("tag", Features(TEMPLATE, boundary="skip"), "boundary is no option of segments"),
        ("tag", 3, "features is 3, expected templates"),
        ("tag", Features(), "features is None, expected templates"),
        (Gold("tag", partial=True), TEMPLATE, "partial is no option of segments"),
        (None, TEMPLATE, "target is None, expected the name of a column"),
    ):
        with pytest.raises(OptionError, match=says):
            call(data, target, features)
    struct: Any = Segments
    for name, odd in (("longest", "3"), ("strings", "word")):
        with pytest.raises(OptionError, match=f"{name} is '{odd}', expected"):
            struct(**{name: odd})
    half = SegmentCRF.train(data, "tag", TEMPLATE, method=LBFGS(l2=0.5), max_iterations=1)
    assert half.record.l2 == 0.5
