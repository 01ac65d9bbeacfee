"""Reports of recipes are stored as tables beside the pages that describe them."""

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
DATE = "2026-01-02T03:04:05+00:00"


def test_a_report_becomes_a_table() -> None:
    table = PROGRAM["stored"]("mce", REPORT)
    assert table.splitlines()[:3] == ["# Title", "", "# Made by `fstcrf recipe mce --full`."]
    assert "MAP\t93.7" in table
    assert "# Plot: results-mce-curve.svg" in table
    assert "frozen in `results-mce-settings.json` before" in table


def test_pages_plots_and_hours_are_written(tmp_path: Path) -> None:
    reports, pages = tmp_path / "reports", tmp_path / "pages"
    pages.mkdir()
    (reports / "mce" / "plots").mkdir(parents=True)
    (reports / "mce" / "report.md").write_text(REPORT, "utf-8")
    (reports / "mce" / "plots" / "mce.svg").write_text("<svg/>", "utf-8")
    (reports / "mce" / "settings.json").write_text("{}", "utf-8")
    (reports / "rules").mkdir()
    (reports / "rules" / "report.md").write_text("**Not complete**: interrupted.\n", "utf-8")
    (pages / "results-rules.tsv").write_text("of a run that was complete", "utf-8")
    (pages / "results-mce.md").write_text("about another report", "utf-8")
    names = ["mce", "rules", "usaddress", "words"]
    told = list(PROGRAM["write_pages"](names, reports, pages))
    assert told == [
        f"results-mce.md: it does not describe the report of {DATE}",
        "rules: its run was not complete, its table stays as it is",
        "usaddress: no page, for its report quotes the corpus",
        "words: no report",
    ]
    assert {path.name for path in pages.iterdir()} == {
        "results-mce-settings.json",
        "results-mce.md",
        "results-mce.svg",
        "results-mce.tsv",
        "results-rules.tsv",
    }
    assert (pages / "results-rules.tsv").read_text("utf-8") == "of a run that was complete"
    table = PROGRAM["hours"](pages)
    assert table.splitlines()[2:] == [
        "| `mce` | 0123456789ab | 2026-01-02 | 1.25 |",
        "| together | | | 1.25 |",
    ]
    (pages / "results-mce.md").write_text(f"of {DATE}", "utf-8")
    assert not list(PROGRAM["write_pages"](["mce"], reports, pages))


def test_nothing_is_run_with_changes_that_are_not_committed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    main = PROGRAM["main"]
    monkeypatch.setitem(main.__globals__, "uncommitted", lambda: "fstcrf/x.py")
    monkeypatch.setattr("sys.argv", ["evidence.py", "--data", "x", "mce"])
    with pytest.raises(SystemExit):
        main()
    assert "not committed: fstcrf/x.py" in capsys.readouterr().err


def test_the_headlines_are_those_of_the_reports() -> None:
    pages = PROGRAM["PAGES"]
    assert PROGRAM["INDEX"].read_text("utf-8") == PROGRAM["summary"](pages)
    assert len(PROGRAM["claims"](pages).splitlines()) > 50


def test_pages_describe_the_reports_beside_them() -> None:
    for table in PROGRAM["PAGES"].glob("results-*.tsv"):
        date = PROGRAM["facts"](table.read_text("utf-8"))["date"]
        assert date in table.with_suffix(".md").read_text("utf-8"), table.name


def test_verdicts_of_the_page_of_results_are_those_of_its_figures() -> None:
    text = (PROGRAM["PAGES"] / "results.md").read_text("utf-8")
    lines = [line for line in text.splitlines() if line.startswith("| [")]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    known = {
        (row[2], row[3]) for path in PROGRAM["PAGES"].glob("results-*.tsv")
        for row in PROGRAM["headline"](path.read_text("utf-8"))
    }  # fmt: skip
    assert 20 < len(rows) <= 35
    for _, claim, published, ours, interval, verdict in rows:
        assert PROGRAM["verdict"](published, ours, interval) == verdict, claim
        assert claim.startswith("gain") or (published, ours) in known, claim


@pytest.mark.parametrize(
    ("published", "ours", "interval", "verdict"),
    [
        ("", "82.3", "80 to 84", "no figure is published"),
        ("85.5", "85.50 ± 0.1", "84 to 86", "reached"),
        ("85.5", "85.2", "84.00 to 86.01", "not decided"),
        ("85.5", "82.2", "81 to 83.5", "not reached"),
        ("1,000.5", "999", "", "not reached"),
    ],
)
def test_verdicts(published: str, ours: str, interval: str, verdict: str) -> None:
    assert PROGRAM["verdict"](published, ours, interval) == verdict
