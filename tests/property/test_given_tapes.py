"""Grammars that read a column of the text: the best labels among those that go with it."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fstcrf
from fstcrf import CRF, Composition, Corpus, Grammar, Sentence, compose
from fstcrf.constraints import at_least, at_most, contiguous, if_present, pairs
from fstcrf.errors import DataError, GrammarError, NoPathError, OptionError
from fstcrf.taggers.component import OTHER
from tests.support.command import done, failure

LABELS = ("O", "B-X", "I-X")
POS = ("N", "V", "D", "P")
SOFT = "tape tag;\nexport S = score[-0.7, any*] | any* ;\n"
RULES = {
    "somewhere": if_present("V", at_least(1, "X", tape="tag"), tape="pos"),
    "together": pairs([("N", "B-X"), ("N", "I-X"), ("N", "O"), ("V", "B-X"), ("V", "O"),
                       ("D", "O"), ("P", "O"), ("P", "I-X"), (OTHER, "O")], ("pos", "tag")),
    "both": if_present("D", at_most(1, "X", tape="tag"), tape="pos") & at_most(1, "X", tape="tag"),
    "given alone": contiguous("V", tape="pos"),
    "order": if_present("P", contiguous("X", tape="tag"), tape="pos"),
}  # fmt: skip


def sentences(seed: int, n: int, most: int = 5) -> list[dict[str, list[str]]]:
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(n):
        size = int(rng.integers(1, most + 1))
        columns = {name: rng.choice(of, size).tolist() for name, of in (("word", list("abc")),)}
        found.append(columns | {"pos": rng.choice(POS, size).tolist()})
    return found


@pytest.fixture(scope="module")
def tagger() -> CRF:
    rng = np.random.default_rng(0)
    text = [
        Sentence(s | {"tag": rng.choice(LABELS, len(s["word"])).tolist()}) for s in sentences(1, 60)
    ]
    template = "U0:%x[0,word]\nU1:%x[0,pos]\nU2:%x[-1,pos]\nB\n"
    return CRF.train(Corpus.from_sentences(text), "tag", template, max_iterations=15)


def legal(rule: Grammar, sentence: dict[str, list[str]], tags: tuple[str, ...]) -> float:
    known = [p if p in POS else OTHER for p in sentence["pos"]]
    whole = rule.bound({"tag": LABELS, "pos": (*POS, OTHER)})
    return sum(
        acceptor.walk(*({"tag": tags, "pos": known}[tape] for tape in acceptor.tapes))
        for acceptor in whole.bind({"tag": LABELS, "pos": (*POS, OTHER)})
    )


@pytest.mark.thorough
@pytest.mark.parametrize("name", list(RULES))
def test_beside_all_labellings(tagger: CRF, name: str) -> None:
    joint: Any = tagger & RULES[name]
    assert joint.tapes == ("tag",)
    texts = [*sentences(7, 12), {"word": ["a", "b"], "pos": ["new", "N"]}]
    answer = joint.decode(texts, n=3, on_no_path="skip")
    for b, sentence in enumerate(texts):
        lattice = tagger.lattice(sentence)
        every = itertools.product(LABELS, repeat=len(sentence["word"]))
        scored = sorted(
            ((lattice.score(tags) + legal(RULES[name], sentence, tags), tags) for tags in every),
            reverse=True,
        )
        alive = [(score, tags) for score, tags in scored if score > -math.inf]
        paths = answer.paths(b)
        assert len(paths) == min(3, len(alive))
        if not alive:
            assert answer.dead[b]
            continue
        log_z = np.logaddexp.reduce([score for score, _ in alive])
        for path, (score, tags) in zip(paths, alive, strict=False):
            assert path.score == pytest.approx(score, abs=1e-9)
            assert path.labels == tags
            assert path.probability == pytest.approx(math.exp(score - log_z), rel=1e-9)
        wanted = np.zeros((len(sentence["word"]), len(LABELS)))
        for score, tags in alive:
            for t, tag in enumerate(tags):
                wanted[t, LABELS.index(tag)] += math.exp(score - log_z)
        order = [tagger.labels.index(label) for label in LABELS]
        np.testing.assert_allclose(joint.marginals_all([sentence])[0][:, order], wanted, atol=1e-9)


def test_labels_that_no_rule_tells_apart_are_one(tagger: CRF) -> None:
    joint: Any = tagger & RULES["somewhere"]
    given = joint._grammar_read[0][0]
    assert given.tape == "pos"
    assert len(given.kept) == 2
    assert len(joint.given[0].labels) == len(POS) + 1
    assert joint._program.shape[joint._program.order.index("pos")] == 2


def test_two_grammars_one_after_the_other(tagger: CRF, tmp_path: Path) -> None:
    once: Any = tagger & (RULES["somewhere"] & RULES["both"])
    twice: Any = tagger & RULES["somewhere"] & RULES["both"]
    texts = sentences(3, 20)
    assert twice.tag_all(texts) == once.tag_all(texts)
    once.save(tmp_path / "joint.fstcrf")
    again: Any = fstcrf.load(tmp_path / "joint.fstcrf")
    assert isinstance(again, Composition)
    assert again.tag_all(texts) == once.tag_all(texts)
    assert replaced(once).tag_all(texts) == [tagger.tag(s) for s in texts]


def replaced(joint: Any) -> Any:
    return joint.without_grammar()


def test_several_tapes(tagger: CRF) -> None:
    text = [Sentence(s | {"other": ["x" if p == "N" else "y" for p in s["pos"]]})
            for s in sentences(5, 40)]  # fmt: skip
    other = CRF.train(Corpus.from_sentences(text), "other", "U0:%x[0,word]\nB\n", max_iterations=8)
    rule = if_present("V", at_least(1, "y", tape="other"), tape="pos")
    joint: Any = compose(tagger, other, normalize="product") & (rule & RULES["somewhere"])
    for sentence in sentences(9, 20):
        tags, others = joint.tag(sentence)
        if "V" in sentence["pos"]:
            assert "y" in others
            assert any(tag.endswith("X") for tag in tags)
    assert [t.tape for t in joint.given] == ["pos"]
    merged: Any = compose(joint, other_tape(other))
    assert [t.tape for t in merged.given] == ["pos"]


def other_tape(tagger: CRF) -> Any:
    from dataclasses import replace

    return replace(tagger, tape="third")


def test_what_cannot_be(tagger: CRF) -> None:
    with pytest.raises(GrammarError, match="no tape 'lemma'; the tapes are 'tag'"):
        tagger & if_present("V", at_least(1, "X", tape="tag"), tape="lemma")
    with pytest.raises(GrammarError, match="no label and no type 'ZZ'"):
        tagger & if_present("ZZ", at_least(1, "X", tape="tag"), tape="pos")
    joint: Any = tagger & RULES["given alone"]
    with pytest.raises(NoPathError):
        joint.tag({"word": list("abc"), "pos": ["V", "N", "V"]})
    with pytest.raises(DataError, match="reads column 'pos'; the corpus has 'word'"):
        joint.tag({"word": ["a"]})


@pytest.fixture(scope="module")
def late(tagger: CRF) -> CRF:
    """A tagger that reads the labels of the first one."""
    rng = np.random.default_rng(4)
    text = [Sentence(s | {"last": rng.choice(["q", "r"], len(s["word"])).tolist()})
            for s in sentences(5, 40)]  # fmt: skip
    template = "U0:%y[0,tag]\nU1:%x[0,word]/%y[0,tag]\nB\n"
    corpus = Corpus.from_sentences(text)
    return CRF.train(corpus, "last", template, reads=[tagger], max_iterations=10)


CHAINED = {
    **{name: RULES[name] for name in ("somewhere", "both", "given alone", "order")},
    "the later tape": if_present("V", at_least(1, "q", tape="last"), tape="pos"),
    "all three": Grammar.from_text(
        'tape pos, tag, last; export A = any* - (any* "[pos=V tag=O last=q]" any*);'
    )
    & if_present("N", at_most(1, "r", tape="last"), tape="pos"),
}


@pytest.mark.thorough
@pytest.mark.parametrize("name", list(CHAINED))
def test_the_chain_rule_beside_all_labellings(tagger: CRF, late: CRF, name: str) -> None:
    free: Any = compose(tagger, late, normalize="chain")
    rule = CHAINED[name]
    joint: Any = free & rule
    sets = {"tag": LABELS, "last": late.labels, "pos": (*POS, OTHER)}
    texts = [*sentences(11, 8, 4), {"word": ["a", "b"], "pos": ["new", "N"]}]
    answer = joint.decode(texts, on_no_path="skip", budget=2_000)
    for b, sentence in enumerate(texts):
        size = len(sentence["word"])
        known = [p if p in POS else OTHER for p in sentence["pos"]]
        best = -math.inf
        for tags in itertools.product(LABELS, repeat=size):
            for lasts in itertools.product(late.labels, repeat=size):
                given = {"tag": tags, "last": lasts, "pos": known}
                if all(a.walk(*(given[t] for t in a.tapes)) > -math.inf for a in rule.bind(sets)):
                    best = max(best, free.score(sentence, (tags, lasts)))
        if best == -math.inf:
            assert answer.dead[b]
            continue
        (path,) = answer.paths(b)
        assert path.exact
        assert path.score == pytest.approx(best, abs=1e-9)
        assert free.score(sentence, path.labels) == pytest.approx(best, abs=1e-9)


def test_in_the_shell(tagger: CRF, tmp_path: Path) -> None:
    tagger.save(tmp_path / "tag.fstcrf")
    text = "a V\nb N\n\nc D\n"
    (tmp_path / "rule.grm").write_text(
        "tape pos, tag;\n"
        'export A = if_present["V", at_least[1, "X", tape=tag], tape=pos];\n'
        'export B = any* - (any* "[pos=D tag=B-X]" any*);\n'
    )
    (tmp_path / "wrong.grm").write_text('tape lemma;\nexport R = at_most[1, "V"];\n')
    found = failure("tag", tmp_path / "tag.fstcrf", "--grammar", tmp_path / "wrong.grm", given=text)
    assert "no tape 'lemma'" in found
    line = ("tag", tmp_path / "tag.fstcrf", "--columns", "word,pos")
    rows = [row.split() for row in done(*line, given=text).splitlines() if row]
    assert rows[2][2] == "B-X"
    ruled = done(*line, "--grammar", tmp_path / "rule.grm", "--probabilities", given=text)
    rows = [row.split() for row in ruled.splitlines() if row and row[0] != "#"]
    assert [len(row) for row in rows] == [3, 3, 3]
    assert any("X" in row[2] for row in rows[:2])
    assert not rows[2][2].startswith("B-X")


def test_what_looks_into_it(tagger: CRF) -> None:
    """The page, explanations, confidence: the column is given, not one of the answer's tapes."""
    from fstcrf.ext.documents import Consistency, DocumentTagger
    from fstcrf.ext.documents.consistency import Violation
    from fstcrf.ext.inspect import Workbench
    from fstcrf.ext.inspect.questions import Asked, LatticeQuestion

    joint: Any = tagger & RULES["somewhere"]
    sentence = {"word": ["a", "b"], "pos": ["V", "D"]}
    assert list(joint.explain(sentence, 0).tapes) == ["tag"]
    assert joint.lattice(sentence).tapes == ("tag", "pos")
    sure = joint.decode([sentence]).confidence(0)
    free = tagger.lattice(sentence)
    legal_mass = 1.0 - free.probability(["O", "O"])
    assert sure.legal.low <= legal_mass + 1e-9
    assert sure.legal.high >= legal_mass - 1e-9
    bench = Workbench(joint)
    question = LatticeQuestion((("a", "V"), ("b", "D")))
    assert [tape.name for tape in bench.answer(Asked(question)).tapes] == ["tag"]
    (rule,) = bench.judge(question)
    assert rule.forbids == (tagger.tag(sentence) == ["O", "O"])
    assert bench.decodes == ("joint",)
    with pytest.raises(OptionError, match="the grammar reads the column 'pos': documents need"):
        DocumentTagger(joint, [Consistency([Violation("same", ("X", "Y"), -1.0)])])


@pytest.mark.filterwarnings("ignore::fstcrf.errors.InexactWarning")
def test_in_a_pipeline(tmp_path: Path) -> None:
    """What is wrong is said before anything is trained."""
    from fstcrf import Pipeline, Task, load_pipeline

    rng = np.random.default_rng(8)
    text = Corpus.from_sentences([
        Sentence(s | {name: rng.choice(of, len(s["word"])).tolist()
                      for name, of in (("tag", LABELS), ("last", ("q", "r")))})
        for s in sentences(5, 40)
    ])  # fmt: skip
    tasks = [
        Task("tag", text, "U0:%x[0,word]\nU1:%x[0,pos]\nB\n", options={"max_iterations": 5}),
        Task("last", text, "U0:%y[0,tag]\nB\n", reads=["tag"], options={"max_iterations": 5}),
    ]
    rule = RULES["somewhere"]
    trained = Pipeline(tasks, decode="joint", grammar=rule).train(tmp_path / "out")
    assert trained.composition.normalize == "chain"
    again = load_pipeline(tmp_path / "out")
    for sentence in sentences(2, 15):
        tags, lasts = again.tag(sentence)
        assert len(lasts) == len(tags)
        assert "V" not in sentence["pos"] or any(tag.endswith("X") for tag in tags)
    for wrong, message in (
        (if_present("ZZ", at_least(1, "X", tape="tag"), tape="pos"), "no type 'ZZ'"),
        (at_most(1, "V", tape="lemma"), "no tape 'lemma'"),
    ):
        with pytest.raises(GrammarError, match=message):
            Pipeline(tasks, grammar=wrong).train(tmp_path / "wrong")
