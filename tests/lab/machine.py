"""The machines that the lab emulates."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Machine:
    """A guest.

    Attributes:
        name: what reports call it.
        cpus: its logical CPUs.
        topology: options of QEMU for sockets, caches, NUMA nodes and devices; none: that many
            cores of one socket.
        counted: its clock counts instructions, so that figures repeat; false: the wall's, for
            what takes long and has no figures.
        quick_turns: if counted, its CPUs take turns of microseconds (`guest.TURN_US`), so that
            figures are those of CPUs that work at the same time; false: of milliseconds, which
            takes less long.
    """

    name: str
    cpus: int
    topology: tuple[str, ...] = ()
    counted: bool = True
    quick_turns: bool = True


ONE = Machine("1 CPU", 1)
TWO = Machine("2 CPUs", 2)
FOUR = Machine("4 CPUs", 4)
NUMA = Machine(
    "2 NUMA nodes",
    8,
    (
        "-smp", "8,sockets=2,cores=2,threads=2",
        "-object", "memory-backend-ram,id=memory0,size=512M",
        "-object", "memory-backend-ram,id=memory1,size=512M",
        "-numa", "node,nodeid=0,cpus=0-3,memdev=memory0",
        "-numa", "node,nodeid=1,cpus=4-7,memdev=memory1",
        "-numa", "dist,src=0,dst=1,val=21",
        "-device", "pxb,id=far,bus_nr=128,numa_node=1",
        "-device", "ati-vga,bus=far,addr=1,romfile=",
    ),
)  # fmt: skip
"""Two nodes of two cores with two threads, a last-level cache each, and on the second node a
graphics card: an ATI Rage 128, a display controller of a vendor whose display controllers are GPUs
for tierc, since they are for real."""
