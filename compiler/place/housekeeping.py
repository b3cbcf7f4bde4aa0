"""How many cores node software keeps, and which.

Source of the numbers: the project's design (section 5.5): at least 2 cores and 5 % from 8 cores
up, 2 more beside an embedded control plane, 1 core below 8.
"""

from __future__ import annotations

from typing import Final

from compiler.model.facts import CoreKind
from compiler.place.aims import Weights
from compiler.place.cells import Cells
from compiler.place.fit import Demand
from compiler.topology import Core, Topology

_RANK: Final[dict[CoreKind, int]] = {
    "efficiency": 0,
    "lowpower": 1,
    "standard": 2,
    "performance": 3,
}
"""Efficiency cores first: node software rarely needs speed.  Low-power cores come after them,
because they are too slow for a busy kubelet; the fastest are kept for lanes."""

_LARGE: Final = 8
_CONTROL_PLANE: Final = 2


def wanted_cores(topology: Topology) -> int:
    """Return how many cores housekeeping has on a machine with room enough.

    Cores count that have a CPU in the effective set: what is isolated, not allowed or the
    kubelet's does not make the part that tierc plans for any larger.
    """
    cores = len(topology.effective_cores)
    if cores < _LARGE:
        return 1
    return max(2, -(-cores // 20)) + (_CONTROL_PLANE if topology.control_plane else 0)


def housekeeping_demand(cells: Cells, cores: int) -> Demand:
    """Return housekeeping as a demand: any core with an effective CPU will do."""
    return Demand(cores, (cells.effective,))


def housekeeping_column(cells: Cells) -> Weights:
    """Return the cost of a core for housekeeping."""
    return tuple(_RANK[cell.traits.kind] for cell in cells.cells)


def housekeeping_key(core: Core) -> tuple[int, int]:
    """Return the order in which cores are taken for housekeeping."""
    return (_RANK[core.kind], core.siblings.lowest)
