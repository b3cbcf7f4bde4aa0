"""A thing that has to hold in the lab."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Check:
    """One thing that has to hold."""

    passed: bool
    text: str
