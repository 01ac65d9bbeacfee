"""Pages of measurements name commits that are in the history."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs" / "measurements").glob("*.[mt]*"))  # pages and tables
_COMMIT = re.compile(r"commit(?:, date *[|\t])? *`?([0-9a-f]{8,40})\b")


def git(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["git", *command], cwd=ROOT, capture_output=True, text=True, check=False)


def commits(text: str) -> set[str]:
    """Return the commits that a page names; a number alone is none."""
    return {name for name in _COMMIT.findall(text) if not name.isdigit()}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commits_are_in_the_history(page: Path) -> None:
    shallow = git("rev-parse", "--is-shallow-repository").stdout.strip()
    if shallow != "false":
        pytest.skip("no history: a shallow clone, or no checkout of git")
    named = commits(page.read_text("utf-8"))
    unknown = [
        name for name in named if git("merge-base", "--is-ancestor", name, "HEAD").returncode
    ]
    assert not unknown, f"{page.name} was made from {', '.join(unknown)}, not an ancestor of HEAD"


def test_it_notices() -> None:
    page = "| commit, date | `0123456789ab`, 2026-11-22 |\nAMD, commit f1b85c0445b5, 12345678\n"
    page += "commit, date\t`abcdef012345`, 2026-11-22\n"
    assert commits(page) == {"0123456789ab", "f1b85c0445b5", "abcdef012345"}
    assert git("merge-base", "--is-ancestor", "0123456789ab", "HEAD").returncode != 0
