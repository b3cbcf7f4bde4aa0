"""``tierc verify``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from compiler.commands.session import (
    FINDINGS,
    OK,
    UsageError,
    fail,
    output_formats,
    write_outputs,
)
from compiler.diagnostics import Severity
from compiler.report.verify_json import render_verify_json
from compiler.report.verify_text import render_verify_text
from compiler.verify import DeniedError, FactsError, NodeDirError, load_node_dir, verify

FORMATS: Final = ("text", "json")


def run(
    directory: Path,
    root: Path,
    formats: Sequence[str],
    fail_on: str,
    color: str,
    *,
    everything: bool,
) -> int:
    """Compare a node with its plan and print reports; return the exit code."""
    try:
        outputs = output_formats(formats, FORMATS)
        if not os.path.isdir(root):
            raise UsageError(f"{root} is not a directory that can be read")
        result = verify(load_node_dir(directory), root, everything=everything)

        def render(name: str, tint: bool) -> str:
            if name == "json":
                return render_verify_json(result)
            return render_verify_text(result, color=tint)

        write_outputs(outputs, render, color)
    except (UsageError, NodeDirError) as error:
        return fail(str(error))
    except FactsError as error:
        return fail(f"{root} does not show the node's CPUs: {error}")
    except DeniedError as denied:
        return fail(f"cannot list {root / 'proc'}: {denied}")
    worst = result.worst()
    return FINDINGS if worst is not None and worst >= Severity.parse(fail_on) else OK
