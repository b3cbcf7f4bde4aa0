"""Ordered rules as bit vectors: for each dimension, which rules a value satisfies.

Sets of rules are int masks, bit N being rule N.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from targets.bpf.layout import (
    DIM_CGROUP,
    DIM_COMM,
    DIM_GROUP,
    DIM_KIND,
    DIM_LEADER,
    DIM_LEVEL,
    DIMS,
    KIND_KERNEL,
    KIND_USER,
    LEVEL_DEEPER,
)
from targets.bpf.matchers import ALL_LEVELS, Name, RuleForm


@dataclass(slots=True)
class Vectors:
    """The look-up tables of a rule list, before they are packed.

    ``dontcare[d]`` holds the rules that do not constrain dimension *d*.
    """

    comm: Mapping[Name, int] = field(default_factory=dict)
    leader: Mapping[Name, int] = field(default_factory=dict)
    cgroup: dict[tuple[int, bytes], int] = field(default_factory=dict)
    kind: list[int] = field(default_factory=lambda: [0] * (max(KIND_USER, KIND_KERNEL) + 1))
    level: list[int] = field(default_factory=lambda: [0] * (LEVEL_DEEPER + 1))
    dontcare: list[int] = field(default_factory=lambda: [0] * DIMS)


def build_vectors(rules: Iterable[tuple[int, RuleForm]]) -> Vectors:
    """Return the tables of (rule id, form) pairs."""
    result = Vectors()
    comm: dict[Name, int] = {}
    leader: dict[Name, int] = {}
    constrained = [0] * DIMS
    everything = 0
    for number, form in rules:
        bit = 1 << number
        everything |= bit
        if form.comm is not None:
            constrained[DIM_COMM] |= bit
            comm[form.comm] = comm.get(form.comm, 0) | bit
        if form.leader is not None:
            constrained[DIM_LEADER] |= bit
            leader[form.leader] = leader.get(form.leader, 0) | bit
        constrained[DIM_KIND] |= bit
        for kind in form.kinds:
            result.kind[kind] |= bit
        if form.cgroup is None:
            continue
        if form.cgroup.levels != ALL_LEVELS:
            constrained[DIM_LEVEL] |= bit
            for level in form.cgroup.levels:
                result.level[level] |= bit
        for key in form.cgroup.names:
            constrained[DIM_CGROUP + key[0]] |= bit
            result.cgroup[key] = result.cgroup.get(key, 0) | bit
    # No rule of a seed asks for a group: those are for selectors that only the node resolves.
    assert constrained[DIM_GROUP] == 0
    result.comm = with_shorter(comm)
    result.leader = with_shorter(leader)
    result.dontcare = [everything & ~mask for mask in constrained]
    return result


def with_shorter(names: Mapping[Name, int]) -> dict[Name, int]:
    """Add to every name the rules of all prefixes that cover it.

    A trie's look-up gives the longest entry only, and a thread called ``ab`` satisfies ``a*``
    as well.
    """
    return {
        name: _union(mask for wider, mask in names.items() if wider.covers(name)) for name in names
    }


def _union(masks: Iterable[int]) -> int:
    union = 0
    for mask in masks:
        union |= mask
    return union
