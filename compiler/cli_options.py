"""Options that several commands have."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class Color(StrEnum):
    """When to colour text reports."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


class Level(StrEnum):
    """Severities for ``--fail-on``."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


ColorOption = Annotated[
    Color,
    typer.Option("--color", help="Colour text output: auto (on a terminal, without NO_COLOR)."),
]
ProjectOption = Annotated[
    Path,
    typer.Option("--project", "-p", help="Policy repository."),
]
FormatOption = Annotated[str, typer.Option("--format", help="text or json.")]
