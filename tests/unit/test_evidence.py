"""Pages of results are reports: what is written by hand stays with the report that it is about."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

PROGRAM = runpy.run_path(str(Path(__file__).parents[2] / "docs" / "evidence.py"))

REPORT = """\
# Title

Made by `fstcrf recipe mce`.

|  |  |
| --- | --- |
| date | 2026-01-02T03:04:05+00:00 |
| fstcrf | 0.1.0, commit 0123456789ab |
| processor | 1.25 h, earlier runs among it |

| row | metric |
| --- | --- |
| MAP | 93.7 |

![plots/curve.svg](plots/curve.svg)

Chosen and frozen in `settings.json` before.
"""
HAND = "<!-- about the report of 2026-01-02T03:04:05+00:00 -->\n\n- It is good.\n\n<!-- end -->"


def test_a_report_becomes_a_page() -> None:
    page, left_out = PROGRAM["page_of"]("mce", REPORT, "")
    assert not left_out
    assert "Made by `fstcrf recipe mce --full`." in page
    assert "![plots/curve.svg](results-mce-curve.svg)" in page
    assert "frozen in [`settings.json`](results-mce-settings.json) before" in page


def test_what_is_about_this_report_stays_below_its_facts() -> None:
    page, left_out = PROGRAM["page_of"]("mce", REPORT, f"# Title\n\n{HAND}\n\nfigures of it\n")
    assert not left_out
    assert (
        page.index("| processor |") < page.index("- It is good.") < page.index("| row | metric |")
    )
    again, _ = PROGRAM["page_of"]("mce", REPORT, page)
    assert again == page


def test_what_is_about_another_report_is_left_out_and_told() -> None:
    old = HAND.replace("2026-01-02", "2025-12-31")
    page, left_out = PROGRAM["page_of"]("mce", REPORT, old)
    assert left_out == "- It is good."
    assert "It is good" not in page


def test_pages_plots_and_hours_are_written(tmp_path: Path) -> None:
    reports, pages = tmp_path / "reports", tmp_path / "pages"
    pages.mkdir()
    (reports / "mce" / "plots").mkdir(parents=True)
    (reports / "mce" / "report.md").write_text(REPORT, "utf-8")
    (reports / "mce" / "plots" / "mce.svg").write_text("<svg/>", "utf-8")
    (reports / "mce" / "settings.json").write_text("{}", "utf-8")
    (reports / "rules").mkdir()
    (reports / "rules" / "report.md").write_text("**Not complete**: interrupted.\n", "utf-8")
    (pages / "results-rules.md").write_text("of a run that was complete", "utf-8")
    names = ["mce", "rules", "usaddress", "words"]
    told = list(PROGRAM["write_pages"](names, reports, pages))
    assert told == [
        "rules: its run was not complete, the page stays as it is",
        "usaddress: no page, for its report quotes the corpus",
        "words: no report",
    ]
    assert {path.name for path in pages.iterdir()} == {
        "results-mce-settings.json",
        "results-mce.md",
        "results-mce.svg",
        "results-rules.md",
    }
    assert (pages / "results-rules.md").read_text("utf-8") == "of a run that was complete"
    table = PROGRAM["hours"](pages)
    assert table.splitlines()[2:] == [
        "| `mce` | 0123456789ab | 2026-01-02 | 1.25 |",
        "| together | | | 1.25 |",
    ]
    begin, end = PROGRAM["HOURS_BEGIN"], PROGRAM["HOURS_END"]
    index = PROGRAM["renewed"](f"before\n\n{begin}\nold\n{end}\nafter\n", begin, end, table)
    assert index == f"before\n\n{begin}\n\n{table}\n\n{end}\nafter\n"


def test_nothing_is_run_with_changes_that_are_not_committed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    main = PROGRAM["main"]
    monkeypatch.setitem(main.__globals__, "uncommitted", lambda: "fstcrf/x.py")
    monkeypatch.setattr("sys.argv", ["evidence.py", "--data", "x", "mce"])
    with pytest.raises(SystemExit):
        main()
    assert "not committed: fstcrf/x.py" in capsys.readouterr().err


def test_the_table_of_claims_is_that_of_the_pages() -> None:
    index = PROGRAM["INDEX"].read_text("utf-8")
    table = PROGRAM["claims"](PROGRAM["PAGES"])
    assert table in index
    assert len(table.splitlines()) > 50


@pytest.mark.parametrize(
    ("published", "ours", "interval", "verdict"),
    [
        ("", "82.3", "80 to 84", "no figure is published"),
        ("85.5", "85.50 ± 0.1", "84 to 86", "reached"),
        ("85.5", "85.2", "84.00 to 86.01", "below, within chance"),
        ("85.5", "82.2", "81 to 83.5", "below"),
        ("1,000.5", "999", "", "below"),
    ],
)
def test_verdicts(published: str, ours: str, interval: str, verdict: str) -> None:
    assert PROGRAM["verdict"](published, ours, interval) == verdict
