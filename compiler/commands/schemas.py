"""``tierc schemas``."""

from __future__ import annotations

from pathlib import Path

from compiler.commands.session import OK, fail
from compiler.schemas import generate


def run(directory: Path) -> int:
    """Write the JSON Schema of every kind into a directory; return the exit code."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for kind, data in generate().items():
            (directory / f"{kind}.json").write_bytes(data)
    except OSError as error:
        return fail(f"cannot write {error.filename or directory}: {error.strerror}")
    return OK
