"""Aligned columns of plain text."""

from __future__ import annotations

from collections.abc import Sequence


def table(rows: Sequence[Sequence[str]], *, indent: int = 0, gap: int = 2) -> list[str]:
    """Return one line a row, columns padded to their widest cell, empty columns dropped.

    The last column is not padded; rows have equally many cells.
    """
    if not rows:
        return []
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True) if width]
        lines.append((" " * indent + (" " * gap).join(cells)).rstrip())
    return lines
