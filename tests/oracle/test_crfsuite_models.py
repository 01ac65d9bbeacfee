"""Models that CRFsuite trains, read here; models written here, opened by CRFsuite."""

from __future__ import annotations

import importlib.util
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fstcrf import CRF, Corpus, load_crfsuite
from fstcrf.ext.foreign.crfsuite import (
    STATE,
    TRANSITION,
    CRFsuiteModel,
    export,
    read_model,
    write_model,
)
from tests.support.crfsuite_models import features, random_model, random_sentences, small

pycrfsuite = pytest.importorskip("pycrfsuite", reason="python-crfsuite is not installed")

ALGORITHMS = ("lbfgs", "l2sgd", "ap", "pa", "arow")

Tokens = list[Any]


def data(seed: int, *, n: int = 60) -> tuple[list[Tokens], list[list[str]]]:
    """Sentences of lists and dicts, values and colons, characters of all widths."""

    def token(rng: np.random.Generator, label: int) -> tuple[Any, str]:
        number, name = int(label * 3 + rng.integers(6)), ("A", "B-é", "C:x", "D", "漢")[label]
        if rng.random() < 0.5:
            word = "äé漢🙂x"[number % 5] * number
            return {"w": word, "n": float(rng.exponential()), "even": number % 2 == 0}, name
        return [f"w:{number}", "bias", f"s={number % 4}", "s=0"], name

    return random_sentences(seed, n, token)


def trained(path: Path, algorithm: str, **params: Any) -> Any:
    trainer = pycrfsuite.Trainer(algorithm=algorithm, verbose=False)
    for tokens, labels in zip(*data(1), strict=True):
        trainer.append(tokens, labels)
    trainer.set_params({"max_iterations": 20, **params})
    trainer.train(str(path))
    return opened(path)


def opened(path: Path) -> Any:
    tagger = pycrfsuite.Tagger()
    tagger.open(str(path))
    return tagger


def written(path: Path, model: CRFsuiteModel) -> Any:
    path.write_bytes(write_model(model))
    return opened(path)


def dump(tagger: Any, path: Path) -> str:
    tagger.dump(str(path))
    return path.read_text(encoding="utf-8")


def check_answers(tagger: CRF, theirs: Any, sentences: list[Tokens]) -> None:
    """Check labels, probabilities and marginals."""
    assert tagger.tag_all(sentences) == [theirs.tag(tokens) for tokens in sentences]
    marginals = tagger.marginals_all(sentences)
    paths = tagger.paths_all(sentences)
    for tokens, found, path in zip(sentences, marginals, paths, strict=True):
        assert path is not None
        tags = theirs.tag(tokens)
        assert path.probability == pytest.approx(theirs.probability(tags), abs=1e-6)
        wanted = [
            [theirs.marginal(label, t) for label in tagger.labels] for t in range(len(tokens))
        ]
        np.testing.assert_allclose(found, wanted, atol=1e-6)


@pytest.mark.parametrize(
    "params",
    [
        {"feature.possible_states": True, "feature.possible_transitions": True},
        {"feature.minfreq": 3},
        {"c1": 1.0},
        {"c1": 1e6},  # nothing remains
    ],
    ids=str,
)
def test_many_and_few_features(params: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "m.crfsuite"
    theirs = trained(path, "lbfgs", **params)
    unseen, _ = data(3)
    check_answers(load_crfsuite(path), theirs, unseen)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_the_same_bytes(algorithm: str, tmp_path: Path) -> None:
    """A model that is read and written again is CRFsuite's own file."""
    path = tmp_path / "m.crfsuite"
    trained(path, algorithm)
    whole = path.read_bytes()
    assert write_model(read_model(whole)) == whole
    assert write_model(export(load_crfsuite(whole))) == whole


@pytest.mark.parametrize("seed", range(3))
def test_models_that_are_made_up(seed: int, tmp_path: Path) -> None:
    model = random_model(seed, labels=2 + seed, attributes=3000, size=5000)
    theirs = written(tmp_path / "m.crfsuite", model)
    assert theirs.labels() == list(model.labels)
    rng = np.random.default_rng(seed)
    names = [*model.attributes, "unknown"]
    sentences: list[Tokens] = [
        [[names[k] for k in rng.integers(len(names), size=6)] for _ in range(5)] for _ in range(20)
    ]
    check_answers(load_crfsuite(write_model(model)), theirs, sentences)


def test_repeated_features(tmp_path: Path) -> None:
    """State features of one pair add up, of transition features the last one counts."""
    rows = [
        (STATE, 0, 0, 1.0),
        (STATE, 0, 0, 2.5),
        (TRANSITION, 0, 0, 9.0),
        (TRANSITION, 0, 1, 1.0),
        (TRANSITION, 0, 0, 0.5),
    ]
    model = CRFsuiteModel.of(["A", "B"], ["x"], features(rows))
    theirs = written(tmp_path / "m.crfsuite", model)
    check_answers(load_crfsuite(write_model(model)), theirs, [[["x"], ["x"], []], [["y"], ["x"]]])


def test_dicts_mean_the_same(tmp_path: Path) -> None:
    """python-crfsuite's ItemSequence and our index make the same attributes of a dict."""

    def token(i: int) -> dict[str, Any]:
        return {
            "word": f"w{i}",
            "title": i % 2 == 0,
            "length": i * 0.5,
            "in": [f"a{i % 3}", "b"],
            "prev": {"word": f"w{i - 1}", "deep": {"x": 1.5}},
        }

    sentences: list[Tokens] = [[token(i) for i in range(k, k + 4)] for k in range(6)]
    target = [["XY"[i % 2] for i in range(k, k + 4)] for k in range(6)]
    trainer = pycrfsuite.Trainer(algorithm="lbfgs", verbose=False)
    for tokens, labels in zip(sentences, target, strict=True):
        trainer.append(tokens, labels)
    trainer.train(str(tmp_path / "theirs"))
    ours, theirs = CRF.train(sentences, target), opened(tmp_path / "theirs")
    attributes = {ours.index.attribute(r) for r in range(ours.index.n_node_rows)}
    assert attributes == set(theirs.info().attributes)
    check_answers(load_crfsuite(tmp_path / "theirs"), theirs, sentences)


def test_strings_of_every_length(tmp_path: Path) -> None:
    """The hash of a string goes by blocks of 12 bytes."""
    attributes = ["é" * (n % 3) + "x" * n for n in range(1, 60)]
    rows = [(STATE, k, k % 2, 1.0 + k) for k in range(len(attributes))]
    model = CRFsuiteModel.of(["A", "B"], attributes, features(rows))
    theirs = written(tmp_path / "m.crfsuite", model)
    assert theirs.tag([[name] for name in attributes]) == ["AB"[k % 2] for k in range(59)]


def test_dumps_are_the_same(tmp_path: Path) -> None:
    theirs = trained(tmp_path / "m.crfsuite", "l2sgd")
    ours = written(tmp_path / "o.crfsuite", export(load_crfsuite(tmp_path / "m.crfsuite")))
    text = dump(theirs, tmp_path / "theirs.txt")
    assert dump(ours, tmp_path / "ours.txt") == text
    assert "B-é" in text
    assert "b\\:c" in dump(written(tmp_path / "s", small()), tmp_path / "small.txt")


def test_taggers_trained_here(tmp_path: Path) -> None:
    sentences, target = data(1)
    for order in (0, 1):
        tagger = CRF.train(sentences, target, order=order, max_iterations=20)
        theirs = written(tmp_path / f"{order}.crfsuite", export(tagger))
        unseen, _ = data(4)
        check_answers(tagger, theirs, unseen)


def test_templates_go_as_texts(tmp_path: Path) -> None:
    rows = [[(f"w{(7 * k + t) % 5}",) for t in range(4)] for k in range(8)]
    target = [["XY"[(k + t) % 2] for t in range(4)] for k in range(8)]
    corpus = Corpus.from_sentences(rows, ["word"]).with_column("tag", target)
    tagger = CRF.train(corpus, "tag", "U0:%x[0,word]\nU1:%x[-1,word]/%x[0,word]\nB")
    theirs = written(tmp_path / "m.crfsuite", export(tagger))
    for sentence in rows:
        words = ["_B-1", *(word for (word,) in sentence)]
        tokens = [[f"U0:{b}", f"U1:{a}/{b}"] for a, b in pairwise(words)]
        assert theirs.tag(tokens) == tagger.tag(sentence)


# --- Models that many use -------------------------------------------------------------------------


def published() -> list[Path]:
    found: list[Path] = []
    for package in ("usaddress", "probablepeople"):
        spec = importlib.util.find_spec(package)
        if spec is not None and spec.origin is not None:
            found += sorted(Path(spec.origin).parent.glob("*.crfsuite"))
    return found


@pytest.mark.skipif(not published(), reason="neither usaddress nor probablepeople is installed")
def test_published_models() -> None:
    for path in published():
        whole = path.read_bytes()
        model = read_model(whole, str(path))
        assert write_model(model) == whole
        rng = np.random.default_rng(0)
        names = model.attributes
        sentences: list[Tokens] = [
            [
                {names[k]: float(rng.integers(1, 3)) for k in rng.integers(len(names), size=8)}
                for _ in range(int(rng.integers(1, 12)))
            ]
            for _ in range(30)
        ]
        check_answers(load_crfsuite(path), opened(path), sentences)
