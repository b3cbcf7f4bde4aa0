"""hwloc XML of all three versions, as ``lstopo --of xml`` writes it."""

from __future__ import annotations

import re
from typing import Final

from compiler.facts.formats.format import Format, Text
from compiler.facts.formats.hwloc_cpus import read_cores, read_groups, read_llcs, read_masks
from compiler.facts.formats.hwloc_devices import read_devices
from compiler.facts.formats.hwloc_kinds import read_capacities, read_kinds
from compiler.facts.formats.hwloc_numa import read_numa
from compiler.facts.formats.hwloc_tree import Topology, read_topology
from compiler.facts.formats.xml import root_tag
from compiler.facts.partial import Note, Partial
from compiler.facts.shown import clean
from compiler.model.facts import Kernel

_NODE: Final = re.compile(
    r"(?=.{1,253}\Z)[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*",
    re.ASCII,
)
_ARCH: Final = re.compile(r"[a-z0-9_]{1,40}", re.ASCII)
_NO_NAMES: Final = ("localhost", "localhost.localdomain")


def _sniff(text: str) -> bool:
    return root_tag(text) == "topology" and "<object" in text


def read_hwloc(text: Text) -> tuple[Partial, ...]:
    """Return what a file says of its machine.

    Raises:
        ReadError: it is malformed, or of several machines.
    """
    topology = read_topology(text)
    notes: list[Note] = []
    if "Synthetic" in topology.backends():
        notes.append(Note("an invented machine (hwloc's synthetic backend)"))
    masks = read_masks(topology, notes)
    cores = read_cores(topology, masks.online)
    packages = read_groups(topology, "Package", masks.online)
    llcs = read_llcs(topology, masks.online, notes)
    numa = read_numa(topology, masks.online, notes)
    return (
        Partial(
            reader="hwloc",
            file=text.name,
            node=_node(topology),
            arch=_arch(topology),
            online=masks.online,
            present=masks.present,
            allowed=masks.allowed,
            cores=cores,
            packages=packages,
            dies=read_groups(topology, "Die", masks.online),
            clusters=read_groups(topology, "Cluster", masks.online),
            llcs=llcs,
            numa=numa,
            kinds=read_kinds(topology, masks.online, cores or (), llcs or (), notes),
            capacities=read_capacities(topology, masks.online),
            devices=read_devices(
                topology, masks.online, numa or (), len(topology.of("Package")), notes
            ),
            kernel=_kernel(topology),
            notes=tuple(notes),
        ),
    )


HWLOC: Final = Format(
    name="hwloc-xml",
    title="hwloc XML (lstopo --of xml)",
    sniff=_sniff,
    read=read_hwloc,
)


def _node(topology: Topology) -> str | None:
    """Return the host's name, if a node can have it."""
    name = (topology.info("HostName") or "").lower()
    return name if _NODE.fullmatch(name) and name not in _NO_NAMES else None


def _arch(topology: Topology) -> str | None:
    name = topology.info("Architecture") or ""
    return name if _ARCH.fullmatch(name) else None


def _kernel(topology: Topology) -> Kernel | None:
    release = topology.info("OSRelease")
    if release is None or topology.info("OSName") not in (None, "Linux"):
        return None
    return Kernel(release=clean(release, 80))
