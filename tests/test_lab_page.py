"""The comparison page: its tables are those of the figures beside it."""

from __future__ import annotations

import json

import pytest

from tests.lab.page import FIGURES, PAGE, fill

RUNS = [
    {
        "scenario": "b",
        "kernel": kernel,
        "machine": "1 CPU",
        "columns": ["policy", "steps/s"],
        "rows": [["none", 81.2], ["none", 81.2], ["ttft", steps]],
    }
    for kernel, steps in (("6.19.14", 422), ("7.3.4", 431))
]
PAGE_TEXT = "# Title\n<!-- lab: b -->\nold\n<!-- lab end -->\nBelow.\n"


def test_tables_replace_what_was_there() -> None:
    assert fill(PAGE_TEXT, RUNS) == (
        "# Title\n<!-- lab: b -->\n1 CPU:\n\n"
        "| Linux | policy | steps/s |\n|---|---|---|\n"
        "| 6.19.14 | none | 81.2 |\n| | | 81.2 |\n| | ttft | 422 |\n"
        "| 7.3.4 | none | 81.2 |\n| | | 81.2 |\n| | ttft | 431 |\n"
        "<!-- lab end -->\nBelow.\n"
    )


def test_schedulers_stand_side_by_side() -> None:
    columns = ["scheduler", "hogs", "steps/s", "p50 us", "p99 us", "hogs ms", "least ms"]
    rows = [
        ["eevdf", 4, 272.4, 72, 8940, 3190, 795],
        ["static", 4, 273.6, 72, 6568, 3283, 819],
        ["empty", 4, 415.8, 97, 97, 3080, 768],
        ["seeded", 4, 415.9, 98, 98, 3078, 761],
    ]
    run = {"scenario": "a", "kernel": "7.3.4", "machine": "1 CPU", "columns": columns, "rows": rows}
    page = fill(PAGE_TEXT.replace("lab: b", "lab: a"), [run])
    assert "| 1 CPU | 7.3.4 | 4 | 272 | 274 | 416 | 416 | 8940 | 6568 | 97 | 98 |\n" in page


def test_a_scenario_without_figures_is_an_error() -> None:
    with pytest.raises(KeyError):
        fill(PAGE_TEXT.replace("lab: b", "lab: x"), RUNS)


def test_the_page_has_the_figures() -> None:
    page = PAGE.read_text()
    figures = json.loads(FIGURES.read_text())
    assert fill(page, figures["runs"]) == page
    assert page.count("<!-- lab: ") == page.count("<!-- lab end -->") >= 4


def test_the_figures_are_of_a_lab_that_passed() -> None:
    runs = json.loads(FIGURES.read_text())["runs"]
    assert {run["scenario"] for run in runs} >= {"a", "b", "c", "d", "f", "teeth", "cpuset"}
    assert len({run["kernel"] for run in runs}) == 2
    assert [check for run in runs for check in run["checks"] if not check["passed"]] == []
