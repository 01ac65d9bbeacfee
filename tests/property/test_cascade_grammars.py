"""Grammars where taggers decide one after the other: obeyed, or refused with what to do.

The truth of a cascade is enumerated: each tagger is asked for every labelling, given the labels
that were chosen before, and what the grammar says of its tape is added.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from functools import cache, reduce
from operator import and_
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fstcrf import Corpus, Grammar, compose
from fstcrf.constraints import at_least, at_most, exactly
from fstcrf.errors import NoPathError, OptionError
from fstcrf.ext.foreign.crfsuite import load_crfsuite, write_model
from fstcrf.machines.grammar import Acceptor
from fstcrf.taggers import JointCRF
from fstcrf.taggers.pipelines import TrainedPipeline, load_pipeline
from tests.support.command import done, failure
from tests.support.crfsuite_models import random_model
from tests.support.joint_cases import TEST, WORDS, every_path, tagger

WAYS: tuple[Any, ...] = ("cascade", "marginals", "joint", "product", "chain")
ONE_BY_ONE = ("cascade", "marginals")

A = 'tape pos; export A = at_least[1, "P1"];'
PAIR = 'tape pos, chunk; export PAIR = (any - "[pos=P0 chunk=B]")*;'
ONE_TAPE: dict[str, tuple[str, ...]] = {
    "hard, first": ('tape pos; export ONCE = at_most[1, "P0"];',),
    "hard, last": ('tape ent; export SOME = exactly[1, "E1"];',),
    "hard, read by others": ('tape chunk; export NO_B = (any - "[B]")*;',),
    "soft": ('tape chunk; export LIKED = each["[O]", <3.5>];',),
    "hard and soft, several": (A, 'tape ent; export B = each["[E1]", <-2>];'),
    "a column beside it": ('tape pos, word; export GIVEN = (any - "[pos=P1 word=a]")*;',),
}
SEVERAL: dict[str, tuple[str, ...]] = {
    "hard, two": (PAIR,),
    "soft, two": ('tape pos, ent; export LIKED = each["[pos=P0 ent=E1]", <2>];',),
    "one and two": (A, PAIR),
}
TEXTS = {**ONE_TAPE, **SEVERAL}
one_tape = pytest.mark.parametrize("name", ONE_TAPE)
every_grammar = pytest.mark.parametrize("name", TEXTS)
one_by_one = pytest.mark.parametrize("way", ONE_BY_ONE)


@cache
def whole(normalize: Any = "product") -> JointCRF:
    return compose(tagger("pos"), tagger("chunk"), tagger("last"), normalize=normalize)


@cache
def grammar(name: str) -> Grammar:
    return reduce(and_, map(Grammar.from_text, TEXTS[name]))


def under(name: str, decoder: Any = None) -> TrainedPipeline:
    return TrainedPipeline(whole(), decoder).constrained(grammar(name))


def accepted(conjuncts: tuple[Acceptor, ...], labels: Mapping[str, Any]) -> float:
    """The score of labels under all parts of a grammar over the tapes that are there."""
    return sum(a.walk(*(labels[t] for t in a.tapes)) for a in conjuncts)


def cascade(composition: JointCRF, sentence: Mapping[str, Any]) -> tuple[list[str], ...]:
    """The labels of a cascade, by enumeration."""
    given_tapes = {tape.tape: tape for tape in composition.given}
    found: dict[str, Any] = {t: tape.read(sentence[t]) for t, tape in given_tapes.items()}
    seen = dict(sentence)
    for crf in composition.taggers:
        mine = tuple(a for a in composition.conjuncts if crf.tape in a.tapes)
        scores = {
            labels: score + accepted(mine, {**found, crf.tape: labels})
            for labels, score in every_path(crf, seen)[0].items()
        }
        found[crf.tape] = max(scores, key=lambda labels: scores[labels])
        seen[crf.tape] = list(found[crf.tape])
    return tuple(list(found[crf.tape]) for crf in composition.taggers)


@one_tape
def test_a_cascade_obeys_what_is_said_of_a_tape(name: str) -> None:
    model = under(name)
    wanted = [cascade(model.composition, sentence) for sentence in TEST]
    assert wanted != TrainedPipeline(whole()).tag_all(TEST)
    assert model.tag_all(TEST, decode="cascade") == wanted
    columns = model.composition.cascade(TEST)
    assert [c.strings() for c in columns] == [
        [label for labels in wanted for label in labels[k]] for k in range(3)
    ]


# --- Every door -----------------------------------------------------------------------------------

Door = Callable[[TrainedPipeline, Any], list[tuple[list[str], ...]]]


def _columns(model: TrainedPipeline, way: Any) -> list[tuple[list[str], ...]]:
    corpus = Corpus.from_sentences(TEST)
    flat = [column.strings() for column in model.tag_columns(corpus, decode=way)]
    bounds = itertools.pairwise(corpus.offsets.tolist())
    return [tuple(labels[a:b] for labels in flat) for a, b in bounds]


def _paths(paths: Any) -> list[tuple[list[str], ...]]:
    return [tuple(map(list, path.labels)) for path in paths]


DOORS: dict[str, Door] = {
    "tag": lambda model, way: [model.tag(s, decode=way) for s in TEST],
    "tag_all": lambda model, way: model.tag_all(TEST, decode=way),
    "tag_all, threads": lambda model, way: model.tag_all(TEST, decode=way, threads=2),
    "tag_all, search": lambda model, way: model.tag_all(TEST, decode=way, search="expanded"),
    "tag_columns": _columns,
    "paths_all": lambda model, way: _paths(model.paths_all(TEST, decode=way)),
    "nbest_all": lambda model, way: _paths(p[0] for p in model.nbest_all(TEST, 3, decode=way)),
    "decode": lambda model, way: _paths(p[0] for p in model.decode(TEST, decode=way).ranked()),
    "its own way": lambda model, way: TrainedPipeline(model.composition, way).tag_all(TEST),
}  # fmt: skip


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore::fstcrf.errors.InexactWarning")
@pytest.mark.parametrize("way", WAYS)
@every_grammar
def test_every_door_obeys_or_refuses(name: str, way: Any) -> None:
    model = under(name)
    if name in SEVERAL and way in ONE_BY_ONE:
        for door in DOORS.values():
            with pytest.raises(OptionError, match=r"reads several tapes.*decode='joint'"):
                door(model, way)
        for ask in (model.marginals_all, model.confidence_all):
            with pytest.raises(OptionError, match="reads several tapes"):
                ask(TEST, decode=way)
        with pytest.raises(OptionError, match="reads several tapes"):
            model.composition.cascade(TEST)
        return
    answers = {name: door(model, way) for name, door in DOORS.items()}
    first = answers["tag_all"]
    assert all(found == first for found in answers.values())
    columns = {tape.tape: tape for tape in model.composition.given}
    for sentence, labels in zip(TEST, first, strict=True):
        found: dict[str, Any] = dict(zip(model.tapes, labels, strict=True))
        found |= {name: tape.read(sentence[name]) for name, tape in columns.items()}
        assert accepted(model.composition.conjuncts, found) > -np.inf


@pytest.mark.filterwarnings("ignore::fstcrf.errors.InexactWarning")
@every_grammar
def test_jointly_unless_asked_otherwise(name: str, tmp_path: Path) -> None:
    model = under(name)
    assert model.way == "joint"
    assert model.tag_all(TEST) == model.tag_all(TEST, decode="joint")
    assert TrainedPipeline(whole()).way == "cascade"
    for decoder in (None, *WAYS):
        under(name, decoder).save(tmp_path / str(decoder))
        again = load_pipeline(tmp_path / str(decoder))
        assert again.decoder == decoder
        assert again.way == (decoder or "joint")
        if name in SEVERAL and decoder in ONE_BY_ONE:
            with pytest.raises(OptionError, match="reads several tapes"):
                again.tag_all(TEST)
        else:
            assert again.tag_all(TEST) == under(name, decoder).tag_all(TEST)


@one_by_one
@one_tape
def test_probabilities_are_those_of_legal_labels(name: str, way: Any) -> None:
    """Scores are sums of log probabilities under the grammar; marginals those of each tagger."""
    model = under(name)
    ranked = model.nbest_all(TEST, 3, decode=way)
    tables = model.marginals_all(TEST, decode=way)
    sure = model.confidence_all(TEST, decode=way)
    for paths, rows, one in zip(ranked, tables, sure, strict=True):
        assert [p.score for p in paths] == sorted((p.score for p in paths), reverse=True)
        assert len({p.labels for p in paths}) == len(paths)
        assert all(p.probability == pytest.approx(np.exp(p.score)) for p in paths)
        assert one.probability.low == pytest.approx(paths[0].probability)
        assert 0 < one.legal.low <= 1 + 1e-12
        for table in rows:
            np.testing.assert_allclose(table.sum(axis=1), 1, atol=1e-9)
    if way == "cascade":
        parts = model.composition._cascade_taggers
        for sentence, paths in zip(TEST, ranked, strict=True):
            seen, log = dict(sentence), 0.0
            for crf, labels in zip(model.taggers, paths[0].labels, strict=True):
                part: Any = parts[crf.tape]
                (path,) = part.paths_all([seen])
                assert path.labels == labels
                log += np.log(path.probability)
                seen[crf.tape] = list(labels)
            assert paths[0].score == pytest.approx(log)


def test_posteriors_under_a_grammar_are_what_the_next_tagger_reads() -> None:
    corpus = Corpus.from_sentences(TEST)
    model = under("hard, first")
    first = tagger("pos") & grammar("hard, first")
    table = np.concatenate(first.marginals_all(corpus))
    lattices = tagger("chunk")._averaged_lattices(corpus, {"pos": (tagger("pos").labels, table)})
    found = [rows[1] for rows in model.marginals_all(corpus, decode="marginals")]
    for rows, lattice in zip(found, lattices, strict=True):
        np.testing.assert_allclose(rows, lattice.marginals(), atol=1e-9)


@given(words=st.lists(st.sampled_from(WORDS), min_size=1, max_size=4), n=st.integers(0, 4))
@one_by_one
def test_what_leaves_no_path(way: Any, words: list[str], n: int) -> None:
    model: Any = TrainedPipeline(whole(), way) & at_least(n, "E1", tape="ent")
    data: list[Any] = [{"word": ["a", "b", "c", "d"]}, {"word": words}, {"word": []}]
    if n <= len(words):
        assert model.tag_all(data[:2])[1][2].count("E1") >= n
        return
    with pytest.raises(NoPathError, match=r"^sentence 1.*at_least") as caught:
        model.tag_all(data)
    assert caught.value.sentence == 1
    if way == "cascade":
        with pytest.raises(NoPathError, match=r"^sentence 1"):
            model.composition.cascade(data)
    skipped = model.decode(data, on_no_path="skip")
    assert skipped.dead.tolist() == [False, True, True]
    relaxed = model.decode(data[:2], on_no_path="relax")
    assert relaxed.changed.tolist() == ["", "grammar"]
    free = TrainedPipeline(whole(), way).tag_all(data[:2])
    assert [t.labels(0)[1] for t in (relaxed[tape] for tape in model.tapes)] == list(free[1])


@one_by_one
def test_forced_labels_beside_a_grammar(way: Any) -> None:
    model = TrainedPipeline(whole(), way) & exactly(1, "P0", tape="pos")
    known: Any = [{"pos": ["P0", None, None]}]
    (found,) = model.tag_all([{"word": ["c", "a", "a"]}], forced=known)
    assert found[0][0] == "P0"
    assert found[0].count("P0") == 1


@one_by_one
def test_taggers_over_attributes(way: Any) -> None:
    crf = load_crfsuite(write_model(random_model(3)))
    alone, label = crf & at_most(1, crf.labels[0]), crf.labels[0]
    model = TrainedPipeline(alone, way)
    sentences = [[["a0"], ["a1", "a7"], ["a0"], ["a2"]], [], [["a0"]] * 5]
    assert all(labels.count(label) <= 1 for labels in model.tag_all(sentences))
    assert model.tag_all(sentences) == alone.tag_all(sentences)
    assert model.nbest_all(sentences, 2)[0][1].labels == alone.nbest_all(sentences, 2)[0][1].labels
    (column,) = alone.cascade(sentences)
    assert column.strings() == [label for labels in model.tag_all(sentences) for label in labels]


# --- The shell ------------------------------------------------------------------------------------


def grammar_files(name: str, folder: Path) -> list[object]:
    """The options that name the files of a grammar."""
    found: list[object] = []
    for k, text in enumerate(TEXTS[name]):
        (folder / f"{name}-{k}.grm").write_text(text)
        found += ["--grammar", folder / f"{name}-{k}.grm"]
    return found


@every_grammar
@one_by_one
def test_the_shell_says_the_same(name: str, way: Any, tmp_path: Path) -> None:
    files = grammar_files(name, tmp_path)
    (tmp_path / "in.txt").write_text("".join("\n".join(s["word"]) + "\n\n" for s in TEST))
    TrainedPipeline(whole()).save(tmp_path / "free")
    under(name).save(tmp_path / "ruled")
    model, free = (tmp_path / kind / "pipeline.fstcrf" for kind in ("ruled", "free"))
    commands: list[tuple[object, ...]] = [
        ("tag", tmp_path / "free", tmp_path / "in.txt", *files, "--decode", way),
        ("tag", tmp_path / "ruled", tmp_path / "in.txt", "--decode", way),
        ("tag", free, tmp_path / "in.txt", *files, "--decode", way),
        ("tag", model, tmp_path / "in.txt", "--decode", way),
    ]  # fmt: skip
    if name in SEVERAL:
        for command in (*commands, ("eval", model, tmp_path / "in.txt", "--decode", "cascade")):
            assert "reads several tapes" in failure(*command, status=2)
        return
    wanted = under(name).tag_all(TEST, decode=way)
    cells = [" ".join(row) for tapes in wanted for row in zip(*tapes, strict=True)]
    for command in commands:
        printed = [line.split(" ", 1)[1] for line in done(*command).splitlines() if line]
        assert printed == cells


def test_scores_of_every_way(tmp_path: Path) -> None:
    rows = [row for s in TEST for row in zip(s["word"], *whole().tag(s), strict=True)]
    (tmp_path / "in.txt").write_text("".join(" ".join(row) + "\n" for row in rows))
    TrainedPipeline(whole()).save(tmp_path / "p")
    names = ("--columns", "word,pos,chunk,ent")
    command = ("eval", tmp_path / "p", tmp_path / "in.txt", *names)
    ways = ("--decode", "cascade", "--decode", "marginals", "--decode", "joint")
    one = done(*command, *grammar_files("hard, first", tmp_path), *ways).splitlines()
    assert [line.split()[0] for line in one] == ["decode", "cascade", "marginals", "joint"]
    pair = grammar_files("hard, two", tmp_path)
    assert "all tapes" in done(*command, *pair)
    line = failure(*command, *pair, "--decode", "joint", "--decode", "cascade", status=2)
    assert "reads several tapes" in line
