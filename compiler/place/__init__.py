"""Placing lanes on the CPUs of one machine.

:func:`place` is the only door; ``docs/placement.md`` says what it decides and in which order.
"""

from __future__ import annotations

from compiler.place.placer import place
from compiler.place.request import Granted, LaneRequest, Placement, Refusal

__all__ = ["Granted", "LaneRequest", "Placement", "Refusal", "place"]
