"""Texts become no vaguer: no kind of text is above its limit in ``sizes.toml``."""

from __future__ import annotations

from collections.abc import Iterator

import click
import pytest

from fstcrf.cli import main
from fstcrf.cli.settings import commands
from tests.house.prose import (
    KINDS,
    Rate,
    limits,
    markdown,
    measured,
    of_checkout,
    room_limits,
    room_rate,
    sentences,
    turns,
)


@pytest.fixture(scope="module")
def rates() -> dict[str, Rate]:
    return measured(of_checkout())[0]


@pytest.mark.thorough
@pytest.mark.parametrize("kind", KINDS)
def test_no_kind_of_text_is_above_its_limit(kind: str, rates: dict[str, Rate]) -> None:
    rate = rates[kind]
    assert rate.words > 300
    assert rate.per_thousand <= limits()[kind], (
        f"{kind}: {rate.per_thousand:.1f} vague turns for 1,000 words, limit {limits()[kind]}: "
        f"python -m tests.house.prose --kind '{kind}' --worst 30 lists the sentences"
    )


@pytest.mark.thorough
@pytest.mark.parametrize("room", room_limits())
def test_no_plain_room_becomes_vague_again(room: str) -> None:
    rate = room_rate(room)
    assert rate.words > 1000
    assert rate.per_thousand <= room_limits()[room], (
        f"{room}: {rate.per_thousand:.1f} vague turns for 1,000 words of docstrings and comments, "
        f"limit {room_limits()[room]}: python -m tests.house.prose --worst 30 FILE lists sentences"
    )


def _helps() -> Iterator[str]:
    """Yield the texts of all commands and of their options, as they are shown."""
    for command in (main, *dict(commands()).values()):
        yield command.help or ""
        for parameter in command.params:
            yield (isinstance(parameter, click.Option) and parameter.help) or ""


def test_the_help_of_all_commands_is_plain() -> None:
    shown = [s for text in _helps() for s in sentences(text)]
    rate = Rate(sum(len(s.split()) for s in shown), sum(map(turns, shown)))
    assert rate.words > 4000
    assert rate.per_thousand <= limits()["help"]


def test_every_limit_is_of_a_kind_of_text() -> None:
    assert limits().keys() == set(KINDS)


# --- The count notices ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sentence", "number"),
    [
        ("The function returns the score of each sentence.", 0),
        ("Return what is known of it, where the labels are.", 2),
        ("Those of the batch are said beside it.", 3),
        ("What happens if the file is empty?", 0),
        ("So many sentences are read, too.", 2),
    ],
)
def test_turns_are_counted(sentence: str, number: int) -> None:
    assert turns(sentence) == number


def test_code_and_short_names_are_no_prose() -> None:
    page = "# What is it\n\n```python\nwhat = 'told'\n```\n\n| `what` | a word that counts here |\n"
    assert list(sentences(markdown(page))) == ["a word that counts here"]


def test_each_kind_of_text_is_found() -> None:
    source = (
        '"""Return what is public here."""\n'
        "def _f():\n"
        '    """Return what is private here."""  # what this line says\n'
        '    raise ValueError(f"what {x} is wrong here")\n'
        '    option(help="what this changes here")\n'
    )
    page = ("README.md", "What is read first here.\n")
    rates, vague = measured(
        [("x.py", source), page, ("docs/x.md", page[1]), ("x.c", "/* what it is here */")]
    )
    assert {kind: rate.turns for kind, rate in rates.items()} == {
        **dict.fromkeys(KINDS, 1),
        "comments": 3,
    }
    assert len(vague) == 8
