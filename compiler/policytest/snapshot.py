"""Snapshots: a plan kept in a file, compared by value, written atomically."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from compiler.artifact import canonical_json
from compiler.diagnostics import Sink, Span
from compiler.pipeline import CompiledClass
from compiler.plan import NodePlan
from compiler.policytest.results import Failure
from compiler.reading.files import read_bytes
from compiler.tree.filesystem import write_new
from compiler.words import counted

_SHOWN = 10
_UPDATE = "if the new plan is right, run tierc test --update and review the diff"


def content(plan: NodePlan) -> bytes:
    """Return what the snapshot of a plan holds: the same bytes as plan.json of a build."""
    return canonical_json(plan.data())


def same_plan(
    classes: Sequence[tuple[CompiledClass, tuple[str, ...]]], span: Span, path: str
) -> tuple[Failure, ...]:
    """Return the failure that the nodes of a test have several plans, if they have."""
    if len({content(group.plan) for group, _ in classes if group.plan is not None}) < 2:
        return ()
    parts = [", ".join(nodes[:3]) + (" ..." if len(nodes) > 3 else "") for _, nodes in classes]
    return (
        Failure(
            span,
            f"one plan, that in {path}",
            f"{len(parts)} plans: {'; '.join(parts)}",
            help="narrow nodes, and write a test for each",
        ),
    )


def check_snapshot(root: Path, path: str, plan: NodePlan, span: Span) -> tuple[Failure, ...]:
    """Compare a plan with the one kept; return what differs."""
    expected = f"the plan in {path}"
    if not os.path.lexists(root / path):
        return (
            Failure(span, expected, "no such file", help="run tierc test --update to write it"),
        )
    sink = Sink()
    data = read_bytes(root, path, sink)
    if data is None:
        return (Failure(span, expected, next(iter(sink)).message),)
    if data == content(plan):
        return ()
    try:
        kept = json.loads(data)
    except (ValueError, RecursionError):
        return (Failure(span, expected, "a file that is not JSON", help=_UPDATE),)
    rows = list(_differences(kept, plan.data(), ""))
    if not rows:  # written by hand, or by another version
        return (Failure(span, expected, "the same plan in other bytes", help=_UPDATE),)
    more = len(rows) - _SHOWN
    why = (*rows[:_SHOWN], *([f"and {more} more"] if more > 0 else []))
    got = counted(len(rows), "difference")
    return (Failure(span, expected, got, why, _UPDATE),)


def write_snapshot(root: Path, path: str, data: bytes) -> None:
    """Write a snapshot below the repository, in one step.

    Raises:
        OSError: it cannot be written, or a symbolic link leads out of the repository.
    """
    target = root / path
    base = os.path.realpath(root)
    real = os.path.realpath(target)
    if not real.startswith(base.rstrip(os.sep) + os.sep):
        raise OSError(0, "a symbolic link leads out of the policy repository", str(target))
    place = Path(real)
    place.parent.mkdir(parents=True, exist_ok=True)
    fresh = place.with_name(f".{secrets.token_hex(8)}.tierc-snapshot")
    try:
        write_new(fresh, data, 0o644)
        os.replace(fresh, place)
    except OSError:
        fresh.unlink(missing_ok=True)
        raise


def _differences(old: Any, new: Any, where: str) -> Iterator[str]:
    """Yield one line a value that differs, named as a path: ``lanes[0].cpus``."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(old.keys() | new.keys()):
            place = f"{where}.{key}" if where else key
            if key not in new:
                yield f"{place}: {_short(old[key])} is gone"
            elif key not in old:
                yield f"{place}: {_short(new[key])} is new"
            else:
                yield from _differences(old[key], new[key], place)
    elif isinstance(old, list) and isinstance(new, list):
        for i in range(max(len(old), len(new))):
            place = f"{where}[{i}]"
            if i >= len(new):
                yield f"{place}: {_short(old[i])} is gone"
            elif i >= len(old):
                yield f"{place}: {_short(new[i])} is new"
            else:
                yield from _differences(old[i], new[i], place)
    elif old != new or type(old) is not type(new):
        yield f"{where or 'the plan'}: {_short(old)} became {_short(new)}"


def _short(value: Any) -> str:
    text = json.dumps(value, sort_keys=True)
    return text if len(text) <= 60 else text[:57] + "..."
