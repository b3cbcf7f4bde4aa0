"""What every plan must keep, checked on the finished plan alone.

Nothing here is shared with the passes that make plans: a mistake there must not hide itself here.
Sources: design sections 5.5 and 7.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from compiler.plan import NodePlan
from compiler.safety.bands import (
    check_bands,
    check_default_band,
    check_rules,
    check_tiers,
    check_units,
)
from compiler.safety.families import check_families, check_member_bands
from compiler.safety.interrupts import check_irqs
from compiler.safety.lanes import check_kept_out, check_lanes, check_lanes_apart
from compiler.safety.machine import check_cores, check_fingerprint, check_online
from compiler.safety.node_software import check_node_software
from compiler.safety.pools import (
    check_housekeeping,
    check_housekeeping_kept,
    check_leftovers,
    check_shared_pool,
)
from compiler.safety.violation import STARVED, Violation

__all__ = ["INVARIANTS", "STARVED", "Check", "Violation", "check"]

Check = Callable[[NodePlan], Iterator[Violation]]

INVARIANTS: Final[tuple[Check, ...]] = (
    check_cores,
    check_fingerprint,
    check_online,
    check_shared_pool,
    check_leftovers,
    check_housekeeping,
    check_housekeeping_kept,
    check_lanes,
    check_lanes_apart,
    check_families,
    check_kept_out,
    check_units,
    check_bands,
    check_default_band,
    check_rules,
    check_member_bands,
    check_tiers,
    check_irqs,
    check_node_software,
)
"""Every invariant, in the order in which they are reported."""


def check(plan: NodePlan) -> tuple[Violation, ...]:
    """Return every invariant that the plan breaks; empty for a good plan."""
    return tuple(found for invariant in INVARIANTS for found in invariant(plan))
