"""Lint rules: one file each, listed here.

A rule's module docstring is its documentation, printed by ``tierc rule CODE``.  Codes are never
reused.  Cases of every rule are data in ``tests/rules``.
"""

from __future__ import annotations

from typing import Final

from compiler.rules import (
    comm_only_protect,
    comm_too_long,
    demotes_system,
    irq_thread,
    lane_too_large,
    match_all,
    rank_in_comm,
    selects_no_node,
    shadowed,
    splits_siblings,
    too_few_for_spinners,
    ttft_unprotected,
)
from compiler.rules.rule import Rule

RULES: Final[tuple[Rule, ...]] = (
    comm_too_long.RULE,
    rank_in_comm.RULE,
    irq_thread.RULE,
    match_all.RULE,
    selects_no_node.RULE,
    shadowed.RULE,
    ttft_unprotected.RULE,
    splits_siblings.RULE,
    lane_too_large.RULE,
    demotes_system.RULE,
    too_few_for_spinners.RULE,
    comm_only_protect.RULE,
)
"""All rules, by code."""
