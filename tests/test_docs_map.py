"""Pages under docs/ stand in four groups, in the map and its toctrees; links lead somewhere."""

from __future__ import annotations

import re
import runpy
import string
from pathlib import Path

import pytest

from tests.test_docs import DOCS, GROUPS, PAGES, ROOT, blocks

MAP = (DOCS / "index.md").read_text("utf-8")
LINKING = [*PAGES, ROOT / "grammars" / "README.md"]

_LINK = re.compile(r"\]\((?!https?:)([^)\s]+)\)")
_TOCTREE = re.compile(r"^```\{toctree\}\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^#+ +(.+)$", re.MULTILINE)
_KEPT = frozenset(string.ascii_lowercase + string.digits + "-_")


def prose(page: str) -> str:
    """Return a page without its blocks of code."""
    for block in blocks(page):
        page = page.replace(block.text, "", 1)
    return page


def anchors(page: str) -> set[str]:
    """Return the anchors of a page's headings, as GitHub and MyST make them."""
    titles = (title.lower().replace(" ", "-") for title in _HEADING.findall(prose(page)))
    return {"".join(c for c in title if c in _KEPT or c.isalpha()) for title in titles}


def toctrees(page: str) -> dict[str, list[str]]:
    """Return the pages of each toctree by its caption."""
    found: dict[str, list[str]] = {}
    for tree in _TOCTREE.findall(page):
        lines = [line for line in tree.splitlines() if line]
        caption = next(line for line in lines if line.startswith(":caption: "))
        found[caption.removeprefix(":caption: ")] = [
            f"{line.split('<')[-1].rstrip('>')}.md" for line in lines if not line.startswith(":")
        ]
    return found


def broken(page: Path, text: str) -> list[str]:
    """Return the links of a page within the repository that lead nowhere."""
    found = []
    for link in _LINK.findall(prose(text)):
        name, _, anchor = link.partition("#")
        target = page.parent / name if name else page
        there = target.read_text("utf-8") if name and anchor and target.exists() else text
        if not target.exists() or (anchor and anchor not in anchors(there)):
            found.append(link)
    return found


def test_every_page_is_in_a_group_and_in_its_toctree() -> None:
    pages = {path.relative_to(DOCS).as_posix() for path in PAGES if path.is_relative_to(DOCS)}
    mapped = toctrees(MAP)
    assert [caption.lower() for caption in mapped] == list(GROUPS)
    for caption, listed in mapped.items():
        assert {Path(page).parts[0] for page in listed} == {caption.lower()}
    assert sorted(pages - {"index.md"}) == sorted(page for tree in mapped.values() for page in tree)


def test_the_map_names_the_pages_of_each_group_in_the_order_of_the_toctrees() -> None:
    sections = re.split(r"^## ", MAP, flags=re.MULTILINE)[1:]
    named = {text.split("\n", 1)[0]: _LINK.findall(text) for text in sections}
    assert named == toctrees(MAP)


@pytest.mark.parametrize("page", LINKING, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    assert broken(page, page.read_text("utf-8")) == []


def test_a_link_that_leads_nowhere_is_found() -> None:
    links = "[a](#one-two) [b](#one) [c](guides/lattices.md#no) [d](no.md#a)"
    text = f"# One: `two`\n{links}\n```text\n[e](f)\n```\n"
    page = DOCS / "index.md"
    assert anchors(text) == {"one-two"}
    assert broken(page, text) == ["#one", "guides/lattices.md#no", "no.md#a"]


def test_the_reference_lists_every_public_module() -> None:
    listed = re.findall(
        r"^   (fstcrf[.\w]*)$", (DOCS / "reference" / "api.md").read_text("utf-8"), re.MULTILINE
    )
    assert sorted(listed) == runpy.run_path(str(DOCS / "conf.py"))["public_modules"]()
