"""Answers about a plan: which rule, tier and CPUs a thread gets, whose a CPU is, and why."""

from __future__ import annotations

from compiler.explain.match import Thread, Verdict, describe_condition, match
from compiler.explain.node import (
    CpuAnswer,
    LaneAnswer,
    NodeAnswer,
    explain_cpu,
    explain_lane,
    explain_node,
)
from compiler.explain.reasons import tier_reasons
from compiler.explain.thread import RuleAnswer, ThreadAnswer, explain_thread

__all__ = [
    "CpuAnswer",
    "LaneAnswer",
    "NodeAnswer",
    "RuleAnswer",
    "Thread",
    "ThreadAnswer",
    "Verdict",
    "describe_condition",
    "explain_cpu",
    "explain_lane",
    "explain_node",
    "explain_thread",
    "match",
    "tier_reasons",
]
