"""What users wait for: lint and build, as ratios to programs that do what must be done anyway.

Run from the root of the repository: ``python -m bench.tool [RUNS [NODES]]`` or ``make bench``.
See bench/README.md.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bench.fleet import INTENTS, generated_intents, intent, write_fleet
from bench.measure import Cost, by_turns, count, run

ROOT = Path(__file__).resolve().parent.parent
INTENT_COUNT = 1000
USAGE = "What users wait for, as ratios to programs that do what must be done anyway."
TIERC = (sys.executable, "-m", "compiler")


@dataclass(frozen=True)
class Figure:
    """A ratio of two costs, or one figure, and what it should be at most."""

    name: str
    value: float
    aim: float
    unit: str = ""

    @property
    def reached(self) -> bool:
        """Whether the aim is met."""
        return self.value <= self.aim

    def line(self) -> str:
        """Return the line that is printed."""
        verdict = "reached" if self.reached else "missed"
        value = f"{self.value:.0f}{self.unit}" if self.unit else f"{self.value:.2f}"
        return f"{self.name:<58} {value:>9}  aim {self.aim:g}{self.unit}, {verdict}"


def figures(costs: Mapping[str, Cost]) -> tuple[Figure, ...]:
    """Return the five figures of the measured costs."""

    def ratio(name: str, one: str, other: str, aim: float) -> Figure:
        return Figure(name, costs[one].cpu / costs[other].cpu, aim)

    return (
        ratio(f"lint of {INTENT_COUNT} intents / yamllint -d relaxed", "lint", "yamllint", 0.5),
        ratio("cold lint of one document / check-jsonschema", "cold", "check-jsonschema", 0.9),
        ratio("build / cp -r of its output", "build", "cp", 5),
        Figure("peak memory of the build", costs["build"].peak_mib * 2**20 / 1e6, 250, " MB"),
        ratio("build after an edit of one intent / build", "edit", "build", 0.2),
    )


def report(costs: Mapping[str, Cost], runs: int, nodes: int) -> str:
    """Return what is printed."""
    lines = [f"{nodes} nodes; CPU time (user + system), medians of {runs} alternated runs", ""]
    lines += [
        f"{name:<58} {cost.cpu * 1000:7.0f} ms, peak {cost.peak_mib:4.0f} MiB"
        for name, cost in costs.items()
    ]
    lines += ["", *(figure.line() for figure in figures(costs))]
    return "\n".join(lines)


def measure(base: Path, runs: int, nodes: int) -> dict[str, Cost]:
    """Measure everything below an empty directory."""
    peers = {name: _program(name) for name in ("yamllint", "check-jsonschema")}
    many, one = base / "many/intents/all.yaml", base / "one/intents/batch.yaml"
    for path, text in (
        (many, generated_intents(INTENT_COUNT)),
        (one, intent("batch", INTENTS["batch"])),
    ):
        path.parent.mkdir(parents=True)
        path.write_text(text)
    fleet = write_fleet(base / "fleet", nodes)
    edited = write_fleet(base / "edited", nodes)
    changed = INTENTS["builds"].replace("idle", "background")
    (edited / "intents/builds.yaml").write_text(intent("builds", changed))
    out, copy, kept = base / "out", base / "copy", base / "kept"
    schema = ROOT / "schemas/Intent.json"
    edits = [edited, fleet]

    def tierc(*args: object) -> Cost:
        return run([*TIERC, *map(str, args)], cwd=ROOT)

    def build() -> Cost:
        shutil.rmtree(out, ignore_errors=True)
        return tierc("build", fleet, "-o", out)

    def cp() -> Cost:
        shutil.rmtree(copy, ignore_errors=True)
        return run(["cp", "-r", str(out), str(copy)], cwd=base)

    def edit() -> Cost:
        edits.reverse()  # each time the other version, over a tree of the one before
        return tierc("build", edits[0], "-o", kept)

    tierc("build", edited, "-o", kept)
    return by_turns(
        {
            "lint": lambda: tierc("lint", many.parent.parent),
            # Lines are longer than yamllint likes, which is a warning.
            "yamllint": lambda: run([peers["yamllint"], "-d", "relaxed", str(many)], cwd=base),
            "cold": lambda: tierc("lint", one),
            "check-jsonschema": lambda: run(
                [peers["check-jsonschema"], "--schemafile", str(schema), str(one)], cwd=base
            ),
            "build": build,
            "cp": cp,
            "edit": edit,
        },
        runs,
    )


def _program(name: str) -> str:
    beside = Path(sys.executable).with_name(name)
    found = str(beside) if beside.is_file() else shutil.which(name)
    if found is None:
        raise SystemExit(f"{name} is not installed; pip install -e '.[bench]'")
    return found


def main() -> int:
    """Print the figures; exit 1 where an aim is missed, 2 on wrong usage."""
    parser = argparse.ArgumentParser(prog="python -m bench.tool", description=USAGE)
    parser.add_argument("runs", nargs="?", type=count, default=5, help="of each program (5)")
    parser.add_argument("nodes", nargs="?", type=count, default=1000, help="of the fleet (1000)")
    given = parser.parse_args()
    runs, nodes = given.runs, given.nodes
    with tempfile.TemporaryDirectory(prefix="tierc-bench-") as temp:
        costs = measure(Path(temp), runs, nodes)
    print(report(costs, runs, nodes))
    return 0 if all(figure.reached for figure in figures(costs)) else 1


if __name__ == "__main__":
    sys.exit(main())
