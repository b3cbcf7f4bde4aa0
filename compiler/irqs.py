"""Where the interrupts of each device go, on placed lanes.

Sources: design sections 4 (``irqs``) and 5; ``docs/irq.md`` says why.
"""

from __future__ import annotations

from collections.abc import Sequence

from compiler.cpuset import CpuSet, union
from compiler.plan import DeviceIrqs, Lane
from compiler.resolve.interrupts import deciding
from compiler.resolve.types import IrqClaim
from compiler.topology import DeviceView, Topology


def device_irqs(
    claims: Sequence[IrqClaim], topology: Topology, lanes: Sequence[Lane], housekeeping: CpuSet
) -> tuple[DeviceIrqs, ...]:
    """Return one row for each GPU and network device with a PCI address, by address.

    Args:
        claims: what the intents say, from resolution.
        topology: the machine.
        lanes: the lanes of the plan.
        housekeeping: CPUs for node software; where there are none, interrupts are left.
    """
    rows: dict[str, DeviceIrqs] = {}
    for view in (*topology.of_type("gpu"), *topology.of_type("nic")):
        if view.bdf is None or view.bdf in rows:
            continue
        mine = [c for c in claims if (view.id in c.gpus if view.type == "gpu" else c.nics)]
        rows[view.bdf] = _row(view, view.bdf, deciding(mine), lanes, housekeeping)
    return tuple(rows[bdf] for bdf in sorted(rows, key=_address))


def _row(
    view: DeviceView,
    bdf: str,
    top: Sequence[IrqClaim],
    lanes: Sequence[Lane],
    housekeeping: CpuSet,
) -> DeviceIrqs:
    kind = "gpu" if view.type == "gpu" else "nic"
    if not top:
        return DeviceIrqs(device=bdf, kind=kind, where="leave", why="unclaimed")
    where = top[0].where
    same = [claim for claim in top if claim.where == where]
    cpus = CpuSet()
    near: list[Lane] = []
    why = "written" if same[0].written else "default"
    if where == "housekeeping":
        cpus = housekeeping & (view.cpus or CpuSet()) or housekeeping
    elif where == "lane":
        given = [claim.lane for claim in same if claim.lane is not None]
        of_claims = [lane for lane in lanes if {lane.name, lane.family} & set(given)]
        near = [lane for lane in of_claims if _serves(lane, view)]
        if not near and view.type == "gpu":
            near = of_claims  # its processes may be bound to any member
        whole = union(lane.cpus for lane in near)
        cpus = whole & (view.cpus or CpuSet()) or whole
        near = [lane for lane in near if lane.cpus & cpus]
        if not cpus:
            where, why = "leave", "not-near" if given else "no-lane"
    return DeviceIrqs(
        device=bdf,
        kind=kind,
        where=where if cpus else "leave",
        cpus=cpus or None,
        lanes=tuple(sorted(lane.name for lane in near)) if cpus else (),
        intents=tuple(sorted(claim.intent.name for claim in same)),
        why=why,
    )


def _serves(lane: Lane, view: DeviceView) -> bool:
    """Tell whether the interrupts of a device belong to a lane of who uses it.

    A GPU's belong to the member of a family that its processes are bound to.  Which NIC a
    workload uses is not said anywhere, so that a NIC's belong where they are near.
    """
    if view.type == "nic":
        return bool(view.cpus is not None and view.cpus & lane.cpus)
    return lane.family is None or (view.bdf or view.uuid or view.id) in lane.devices


def _address(bdf: str) -> tuple[int, str]:
    return int(bdf.partition(":")[0], 16), bdf
