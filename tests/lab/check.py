"""A thing that has to hold in the lab."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Check:
    """One thing that has to hold."""

    passed: bool
    text: str


def at_least(text: str, value: float, wanted: float) -> Check:
    """Return the check that a figure is not below a bound."""
    return Check(value >= wanted, f"{text}: {value:.0f}, at least {wanted:.0f}")


def at_most(text: str, value: float, wanted: float) -> Check:
    """Return the check that a figure is not above a bound."""
    return Check(value <= wanted, f"{text}: {value:.0f}, at most {wanted:.0f}")
