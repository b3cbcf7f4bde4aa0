"""What a machine could give a lane at most, whatever else is on it."""

from __future__ import annotations

from compiler.model.base import Preference
from compiler.topology import Core, Topology


def cores_for(
    topology: Topology, require: tuple[Preference, ...], prefer: tuple[Preference, ...]
) -> tuple[Core, ...]:
    """Return the cores that have a CPU for a lane with these words.

    A lane lies on isolated CPUs or on ordinary ones, never on both: only isolated ones where it
    requires them, the larger part where it prefers them.
    """
    isolated = tuple(core for core in topology.cores if core.siblings & topology.isolated)
    ordinary = tuple(core for core in topology.cores if core.siblings & topology.effective)
    if "isolated" in require:
        return isolated
    if "isolated" in prefer and len(isolated) > len(ordinary):
        return isolated
    return ordinary
