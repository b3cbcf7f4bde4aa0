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
    """

    name: str
    cpus: int
    topology: tuple[str, ...] = ()
    counted: bool = True


ONE = Machine("1 CPU", 1)
TWO = Machine("2 CPUs", 2)
FOUR = Machine("4 CPUs", 4)
