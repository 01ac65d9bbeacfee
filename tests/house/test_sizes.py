"""The house grows no larger: no number is above its limit in ``sizes.toml``."""

from __future__ import annotations

from pathlib import Path

import pytest

import fstcrf
from tests.house.sizes import (
    MOST_PARAMETERS,
    TABLE,
    House,
    demo_megabytes,
    observed,
    table,
    wheel_kilobytes,
)

TABLED, DEMO = table(), "MB of the demo"

# Longer than a file may be since before there was a limit; they may only become shorter.
LONG: dict[str, int] = {}


@pytest.fixture(scope="module")
def house() -> House:
    return House()


@pytest.fixture(scope="module")
def sizes(house: House, tmp_path_factory: pytest.TempPathFactory) -> dict[str, int]:
    sentences = [{"word": ["a", "dog"], "pos": ["D", "N"]}]
    data = fstcrf.Corpus.from_sentences(sentences)
    path = tmp_path_factory.mktemp("house") / "pos.fstcrf"
    fstcrf.CRF.train(data, target="pos", features="U:%x[0,word]\nB").save(path)
    size = {"kB of a wheel": wheel_kilobytes(house)}
    return {**house.counted(), **observed(path), **size}


@pytest.mark.parametrize("name", sorted(TABLED.keys() - {DEMO}))
def test_no_number_is_above_its_limit(name: str, sizes: dict[str, int]) -> None:
    assert sizes[name] <= TABLED[name].limit, (
        f"{name}: {sizes[name]:,}, limit {TABLED[name].limit:,}: make it smaller, or raise the "
        f"limit in {TABLE.name} in a commit that says for what"
    )


def test_every_number_is_in_the_table(sizes: dict[str, int]) -> None:
    assert sizes.keys() == TABLED.keys() - {DEMO}


@pytest.mark.thorough
def test_the_demo_takes_no_more_memory() -> None:
    assert demo_megabytes() <= TABLED[DEMO].limit


def test_goals_are_below_limits() -> None:
    assert all(row.goal <= row.limit for row in TABLED.values())


def test_files_are_no_longer_than_a_reader_bears(house: House) -> None:
    longer = {n: size for n, size in house.long_files().items() if size > LONG.get(n, 0)}
    assert longer == {}, "700 lines at most: split what has two nouns"
    assert house.long_files().keys() >= LONG.keys(), "a file has become short: take it off the list"


# --- The count notices ----------------------------------------------------------------------------

MODULE = """
class _Hidden: ...

def wide({wide}): ...

def found_out(x: Any):
    found = known = x
"""


def test_what_is_added_is_counted(tmp_path: Path) -> None:
    def counted(**files: str) -> dict[str, int]:
        for name, text in files.items():
            path = tmp_path / name.replace("__", "/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.with_suffix(".py").write_text(text, "utf-8")
        return House(tmp_path).counted()

    import subprocess

    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    wide = ", ".join(f"a{n}" for n in range(MOST_PARAMETERS + 1))
    before = counted(fstcrf__x="def f(): ...\n", fstcrf__ext__y="class Ring: ...\n")
    after = counted(fstcrf__room__z=MODULE.format(wide=wide))
    grown = {name: after[name] - before[name] for name in after if after[name] != before[name]}
    assert grown == {
        "rooms": 1,
        "core modules": 1,
        "core lines": 7,
        "core classes": 1,
        "wide functions": 1,
        "widest function": MOST_PARAMETERS + 1,
        "Any in core": 1,
        "private words": 2,
    }
