"""The example repositories, and building them as a user does."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.conftest import ROOT

REFUSED = ("conflicts",)
"""Examples of what tierc refuses: they are linted, and do not build."""
ALL_EXAMPLES = tuple(sorted(p.parent.name for p in (ROOT / "examples").glob("*/tierc.yaml")))
EXAMPLES = tuple(name for name in ALL_EXAMPLES if name not in REFUSED)
"""Examples that build without an error."""


def run(
    *args: str, cwd: Path = ROOT, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run ``python -m compiler`` in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "compiler", *args],
        cwd=cwd,
        env=env,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )


def read_tree(root: Path) -> dict[str, bytes]:
    """Return every file below ``root`` by relative path."""
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }
