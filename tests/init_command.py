"""``tierc init`` run on made machines, for tests of it."""

from __future__ import annotations

from pathlib import Path

from compiler.__main__ import main
from tests.sysfs_builder import SysfsBuilder

FILES = {
    "README.md",
    "tierc.yaml",
    "intents/batch.yaml",
    "intents/engine.yaml",
    "intents/node-infra.yaml",
    "tests/basics.yaml",
    ".github/workflows/tierc.yaml",
}


def init(*args: object) -> int:
    return main(["init", *map(str, args)])


def lint(root: Path, *args: str) -> int:
    return main(["lint", str(root), "--fail-on", "warning", *args])


def process(b: SysfsBuilder, pid: int, comm: str, cgroup: str, cmdline: str = "") -> None:
    b.file(f"proc/{pid}/comm", comm + "\n")
    b.file(f"proc/{pid}/cgroup", f"0::{cgroup}\n")
    b.file(f"proc/{pid}/cmdline", cmdline.replace(" ", "\0") + "\0")
