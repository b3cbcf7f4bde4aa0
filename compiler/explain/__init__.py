"""Answers about a plan: which rule, tier and CPUs a thread gets, whose a CPU is, and why."""

from __future__ import annotations

from compiler.explain.match import Thread, Verdict, describe_condition, match
from compiler.explain.members import ClassAnswer, StepAnswer, explain_class, explain_step
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
    "ClassAnswer",
    "CpuAnswer",
    "LaneAnswer",
    "NodeAnswer",
    "RuleAnswer",
    "StepAnswer",
    "Thread",
    "ThreadAnswer",
    "Verdict",
    "describe_condition",
    "explain_class",
    "explain_cpu",
    "explain_lane",
    "explain_node",
    "explain_step",
    "explain_thread",
    "match",
    "tier_reasons",
]
