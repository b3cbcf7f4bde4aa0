"""Lint rules: one file each, listed here.

A rule's module docstring is its documentation, printed by ``tierc rule CODE``.  Codes are never
reused.  Cases of every rule are data in ``tests/rules``.
"""

from __future__ import annotations

from typing import Final

from compiler.rules import (
    cgroup_form,
    comm_only_protect,
    comm_too_long,
    demand_misused,
    demotes_own_shell,
    demotes_system,
    enforce_selects_no_node,
    engine_sets_affinity,
    irq_thread,
    lane_spans_numa,
    lane_too_large,
    low_tier_in_lane,
    match_all,
    more_ranks_than_gpus,
    nccl_names,
    needless_precedence,
    no_such_title,
    option_without_target,
    pods_without_namespace,
    polling_on_idle_node,
    rank_in_comm,
    regex_in_glob,
    repeated_intent,
    rollout_unknown_node,
    selects_no_node,
    shadowed,
    sleep_knob_on_saturated,
    slice_without_content,
    smt_pair_lane,
    splits_siblings,
    too_few_for_spinners,
    ttft_unprotected,
    unreachable_match,
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
    polling_on_idle_node.RULE,
    sleep_knob_on_saturated.RULE,
    engine_sets_affinity.RULE,
    nccl_names.RULE,
    no_such_title.RULE,
    needless_precedence.RULE,
    repeated_intent.RULE,
    cgroup_form.RULE,
    demotes_own_shell.RULE,
    pods_without_namespace.RULE,
    lane_spans_numa.RULE,
    smt_pair_lane.RULE,
    demand_misused.RULE,
    regex_in_glob.RULE,
    slice_without_content.RULE,
    unreachable_match.RULE,
    enforce_selects_no_node.RULE,
    low_tier_in_lane.RULE,
    more_ranks_than_gpus.RULE,
    rollout_unknown_node.RULE,
    option_without_target.RULE,
)
"""All rules, by code."""
