"""Colours of lanes in pictures.

Light tints of the Okabe-Ito set, which people with any common colour blindness tell apart, each
light enough for black text.  Colour never stands alone: a box also says the name of its lane.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from compiler.picture import Key

TINTS: Final = ("#9ad0f0", "#f2c463", "#7fcdb5", "#e3b3ce", "#f6ee8e", "#edaa7b", "#bcbcbc")
PLAIN: Final = "#ffffff"
"""Fill of what has no lane."""
CYCLE: Final = "#b33a00"
"""Lines that form a cycle; they are thicker and say so, too."""


def tints(lanes: Sequence[Key]) -> dict[str, str]:
    """Return a fill for each lane; the eighth has the first one's again."""
    return {lane.name: TINTS[i % len(TINTS)] for i, lane in enumerate(lanes)}
