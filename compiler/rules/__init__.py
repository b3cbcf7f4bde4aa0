"""Lint rules: one file each, listed here.

A rule's module docstring is its documentation, printed by ``tierc rule CODE``.  Codes are never
reused.  Cases of every rule are data in ``tests/rules``.
"""

from __future__ import annotations

from typing import Final

from compiler.rules import comm_too_long
from compiler.rules.rule import Rule

RULES: Final[tuple[Rule, ...]] = (comm_too_long.RULE,)
"""All rules, by code."""
