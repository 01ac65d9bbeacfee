"""One question, one answer: whichever door it is asked at, and what enumeration says."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache

import pytest

from fstcrf import CRF
from fstcrf.errors import NoPathError, OptionError
from fstcrf.lattices.emissions import batch
from fstcrf.lattices.emissions.structure import structure
from fstcrf.taggers import JointCRF
from tests.laws.doors import DOORS, Door
from tests.laws.questions import QUESTIONS, Answer, Question, Told, truth


def cells(doors: Iterable[str]) -> list[object]:
    """Return doors with all questions that can be asked there."""
    found: list[object] = []
    for door in doors:
        for question in QUESTIONS:
            if QUESTIONS[question].traits & DOORS[door].lacks.keys():
                continue
            found.append(pytest.param(door, question, id=f"{door}-{question}"))
    return found


@cache
def wanted(question: str, *, strict: bool) -> Answer:
    return truth(QUESTIONS[question], strict=strict)


def check(door: Door, question: str) -> None:
    """Hold what a door says against the truth."""
    found, right = door(QUESTIONS[question]), wanted(question, strict=door.strict)
    if not isinstance(found, list) or not isinstance(right, list):
        assert found == right
        return
    assert len(found) == len(right)
    for number, (own, its) in enumerate(zip(found, right, strict=True)):
        told = f"sentence {number}: {own}, expected {its}"
        if own is None or its is None:
            assert own is its, told
            continue
        assert own.labels == its.labels, told
        for mine, true in ((own.score, its.score), (own.probability, its.probability)):
            assert mine is None or mine == pytest.approx(true, rel=door.within, abs=door.within), (
                told
            )


@pytest.mark.thorough
@pytest.mark.parametrize(("door", "question"), cells(name for name in DOORS if name != "layer"))
def test_one_question_has_one_answer(door: str, question: str) -> None:
    check(DOORS[door], question)


# --- The table ------------------------------------------------------------------------------------


def test_the_table_says_of_every_cell_what_it_is() -> None:
    traits = set().union(*(question.traits for question in QUESTIONS.values()))
    assert all(door.lacks.keys() <= traits for door in DOORS.values())
    asked = dict.fromkeys(QUESTIONS, 0)
    for door in DOORS.values():
        for name, question in QUESTIONS.items():
            asked[name] += not question.traits & door.lacks.keys()
    assert min(asked.values()) >= 6, asked


# --- The law notices ------------------------------------------------------------------------------


def changed(door: Door, change: Callable[[Told], Told | None]) -> Door:
    """Return a door that says something else of the last sentence."""

    def ask(question: Question) -> Answer:
        found = door.ask(question)
        assert isinstance(found, list)
        last = found[-1]
        assert last is not None
        return [*found[:-1], change(last)]

    return replace(door, ask=ask)


@pytest.mark.parametrize("name", ["tagger", "pipeline", "emissions", "heads", "shell", "converted"])
def test_the_law_notices_another_answer(name: str) -> None:
    door = DOORS[name]
    check(changed(door, lambda told: told), "plain")
    ways: list[Callable[[Told], Told | None]] = [
        lambda _: None,
        lambda told: replace(told, labels=(told.labels[0][::-1],)),
        lambda told: replace(told, probability=told.probability and told.probability + 5e-6),
        lambda told: replace(told, probability=float("nan")),
    ]
    if name in {"tagger", "emissions", "heads", "converted"}:
        ways.append(lambda told: replace(told, score=told.score and told.score * (1 + 1e-8)))
    for way in ways:
        with pytest.raises(AssertionError):
            check(changed(door, way), "plain")


def test_the_law_notices_another_refusal() -> None:
    def refusing(error: Exception) -> Door:
        def ask(_: Question) -> Answer:
            raise error

        return replace(DOORS["tag_all"], ask=ask)

    check(refusing(NoPathError("no path", sentence=1)), "hard, one dead")
    for error in (NoPathError("no path", sentence=0), OptionError("no such option")):
        with pytest.raises(AssertionError):
            check(refusing(error), "hard, one dead")
    with pytest.raises(AssertionError):
        check(replace(DOORS["tag_all"], strict=False), "hard, one dead")


def test_the_law_notices_arrays_without_their_grammar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch, "structure", lambda tape, _: structure(tape, None))
    for door in ("emissions", "decode", "decode float32"):
        check(DOORS[door], "plain")
        with pytest.raises(AssertionError):
            check(DOORS[door], "hard")


def test_the_law_notices_pipelines_without_their_grammar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(JointCRF, "constrained", lambda self, *_, **__: self)
    for door in ("joint pipeline", "loaded pipeline", "composition"):
        check(DOORS[door], "plain")
        with pytest.raises(AssertionError):
            check(DOORS[door], "hard")


def test_the_law_notices_taggers_that_forget_known_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded = CRF._decode
    monkeypatch.setattr(
        CRF, "_decode", lambda own, asked: decoded(own, replace(asked, forced=None))
    )
    for door in ("tagger", "shell", "converted"):
        check(DOORS[door], "plain")
        with pytest.raises(AssertionError):
            check(DOORS[door], "forced")
