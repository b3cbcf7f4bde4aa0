"""Puts the lab's figures into docs/comparison.md.

``python -m tests.lab --all --every-kernel --json docs/comparison.json``, then
``python -m tests.lab.page``.

The page is written by hand but for the blocks between ``<!-- lab: SCENARIO -->`` and
``<!-- lab end -->``, which hold the tables of that scenario, one for each machine.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from tests.lab.policy import ROOT

PAGE: Final = ROOT / "docs" / "comparison.md"
FIGURES: Final = ROOT / "docs" / "comparison.json"

Row = Sequence[str | int | float]
Run = Mapping[str, Any]

_BLOCK: Final = re.compile(r"(<!-- lab: (\S+) -->\n).*?(<!-- lab end -->\n)", re.S)
_SCHEDULERS: Final = {
    "eevdf": "EEVDF",
    "static": "static",
    "empty": "no seed",
    "seeded": "tierc",
}


def fill(page: str, runs: Sequence[Run]) -> str:
    """Return the page with its blocks made anew.

    Raises:
        KeyError: the page names a scenario that has no figures.
    """
    by_name: dict[str, list[Run]] = {}
    for run in runs:
        if "rows" in run:
            by_name.setdefault(run["scenario"], []).append(run)

    def block(found: re.Match[str]) -> str:
        show = _SHOWN.get(found[2], plain)
        return f"{found[1]}{show(by_name[found[2]])}{found[3]}"

    return _BLOCK.sub(block, page)


def plain(runs: Sequence[Run]) -> str:
    """Return the tables as the lab prints them, with the kernel in front."""
    parts = []
    for machine in dict.fromkeys(run["machine"] for run in runs):
        own = [run for run in runs if run["machine"] == machine]
        rows = [(run["kernel"], *row) for run in own for row in run["rows"]]
        parts.append(f"{machine}:\n\n{markdown(('Linux', *own[0]['columns']), rows)}")
    return "\n".join(parts)


def against_hogs(runs: Sequence[Run]) -> str:
    """Return scenario a with the schedulers side by side: steps a second, and p99 in us."""
    names = [name for one in ("steps/s", "p99 us") for name in _pairs(one)]
    rows = []
    for run in runs:
        columns = run["columns"]
        found = {(row[0], row[1]): dict(zip(columns, row, strict=True)) for row in run["rows"]}
        for hogs in dict.fromkeys(hogs for _, hogs in found):
            cells = [
                _number(found[scheduler, hogs][figure]) if (scheduler, hogs) in found else ""
                for figure in ("steps/s", "p99 us")
                for scheduler in _SCHEDULERS
            ]
            rows.append((run["machine"], run["kernel"], hogs, *cells))
    return markdown(("machine", "Linux", "hogs per CPU", *names), rows)


def _pairs(figure: str) -> list[str]:
    return [f"{figure}, {name}" for name in _SCHEDULERS.values()]


def _number(value: float) -> str:
    return f"{value:.0f}"


def markdown(columns: Sequence[str], rows: Sequence[Row]) -> str:
    """Return a table in Markdown, with cells that repeat the one above left empty at the left."""
    lines = [f"| {' | '.join(columns)} |", f"|{'|'.join('---' for _ in columns)}|"]
    before: Row = ()
    for row in rows:
        shown = [str(cell) for cell in row]
        for number, (cell, above) in enumerate(zip(row, before, strict=False)):
            if cell != above or not isinstance(cell, str):
                break
            shown[number] = ""
        lines.append(f"| {' | '.join(shown)} |".replace("|  |", "| |").replace("|  |", "| |"))
        before = row
    return "".join(f"{line}\n" for line in lines)


_SHOWN: Final[Mapping[str, Callable[[Sequence[Run]], str]]] = {"a": against_hogs}


def main() -> int:
    runs = json.loads(FIGURES.read_text())["runs"]
    PAGE.write_text(fill(PAGE.read_text(), runs))
    return 0


if __name__ == "__main__":
    sys.exit(main())
