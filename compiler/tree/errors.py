"""How the tree says no."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from compiler.codes import tree as codes
from compiler.diagnostics import Code, Diagnostic, Span


class TreeError(Exception):
    """The output tree cannot be written or read.

    Attributes:
        diagnostic: the finding to report; its place is the file or directory concerned.
    """

    def __init__(self, code: Code, path: Path, message: str, help: str = "") -> None:
        super().__init__(message)
        self.diagnostic: Diagnostic = code.at(Span.of_file(path.as_posix()), message, help=help)


@contextmanager
def os_errors(dest: Path, doing: str, unharmed: str) -> Iterator[None]:
    """Turn an OSError of the block into a TreeError.

    Args:
        dest: the output directory.
        doing: what was attempted: ``cannot <doing>``.
        unharmed: what the user may rely on now, as help text.
    """
    try:
        yield
    except OSError as error:
        name = error.filename2 or error.filename
        place = f" ({shown(name)})" if name is not None else ""
        reason = (error.strerror or str(error)).lower()
        message = f"cannot {doing}: {reason}{place}"
        raise TreeError(codes.UNWRITABLE, dest, message, unharmed) from error


def shown(name: object) -> str:
    """Return a file name fit for a message: one line, no control characters."""
    text = name.decode(errors="backslashreplace") if isinstance(name, bytes) else str(name)
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)
