"""AMD GPUs from ``/sys/class/kfd/kfd/topology``, wherever it was copied to.

How the kernel numbers things there (drivers/gpu/drm/amd/amdkfd, kfd_crat.c and kfd_topology.c):

- KFD nodes are numbered on their own: CPU nodes first, one for each NUMA node *with CPUs*, counted
  from 0; then the GPUs.  They are not NUMA ids where NUMA ids have gaps.
- The link of a GPU to a CPU node (``kfd_fill_gpu_direct_io_link_to_cpu``) however holds the
  device's ``numa_node`` in ``node_to``, and 0 where the kernel knows none.  So 0 is evidence only
  where there is one CPU node, or where other GPUs are linked elsewhere.
- ``location_id`` is bus, device and function.  Where a GPU is split into partitions the number of
  the partition is added, in the function's bits (one kernel: the top four); partitions share the
  ``unique_id``.  They are one PCI device, which is what has a locality, and become one device here.
- ``unique_id`` in hexadecimal is what ROCm calls the GPU's UUID.

In a container with some of the GPUs the files of the others cannot be read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from compiler.facts.bdf import bdf_key, canonical_bdf
from compiler.facts.partial import DevicePart, Note, Partial, ReadError
from compiler.facts.tree import Tree, numbered

READER: Final = "kfd"
PLACES: Final = ("topology/nodes", "nodes")
"""Where the nodes are below the root of a copy."""
MAX_NODES: Final = 4096
MAX_LINKS: Final = 4096

_PCIE, _XGMI = 2, 11
"""``type`` of links: CRAT_IOLINK_TYPE_PCIEXPRESS and _XGMI in kfd_crat.h."""


@dataclass(frozen=True, slots=True)
class _Gpu:
    """A KFD node that is a GPU or a partition of one."""

    node: int
    domain: int
    location: int
    unique_id: int
    vendor: int | None
    device: int | None
    linked_to: tuple[int, ...]
    """CPU nodes, as the links name them."""

    @property
    def slot(self) -> tuple[int, int]:
        """PCI domain, and bus with device."""
        return self.domain, self.location >> 3

    @property
    def function(self) -> int:
        return self.location & 7

    @property
    def bdf(self) -> str | None:
        bus, device = self.location >> 8, self.location >> 3 & 0x1F
        return canonical_bdf(f"{self.domain:04x}:{bus:02x}:{device:02x}.{self.function}")


def read_kfd(files: Tree, root: str, name: str) -> Partial:
    """Return the GPUs below ``root``, which has ``topology/nodes`` or ``nodes``.

    ``root`` may also be ``topology`` or the ``nodes`` directory's parent, such as
    ``/sys/class/kfd/kfd``.  NUMA nodes themselves are not said: KFD counts them only.

    Raises:
        ReadError: there are no KFD nodes, or none of them can be read.
    """
    base = root.rstrip("/")
    places = (f"{base}/{place}" for place in PLACES)
    where = next((place for place in places if numbered(files.names(place), "")), None)
    if where is None:
        raise ReadError(
            f"no KFD nodes below {root or '/'}",
            help="copy /sys/class/kfd/kfd/topology as a whole, with its links followed",
        )
    notes: list[Note] = []
    ids = numbered(files.names(where), "")
    if len(ids) > MAX_NODES:
        raise ReadError(f"more than {MAX_NODES} KFD nodes")
    read: dict[int, Mapping[str, int]] = {}
    for node in ids:
        properties = _properties(files, f"{where}/{node}/properties")
        if properties:
            read[node] = properties
        else:
            notes.append(Note(f"{where}/{node}/properties cannot be read: a GPU may be missing"))
    if not read:
        raise ReadError(f"none of the KFD nodes below {where} can be read")
    cpu_nodes = {node for node, said in read.items() if said.get("cpu_cores_count", 0) > 0}
    gpus = [
        _gpu(files, f"{where}/{node}", node, said, cpu_nodes)
        for node, said in sorted(read.items())
        if said.get("simd_count", 0) > 0
    ]
    # Links hold NUMA ids; with one CPU node, or a link to another, 0 is meant.
    zero_counts = len(cpu_nodes) == 1 or any(set(gpu.linked_to) - {0} for gpu in gpus)
    devices = [_device(parts, notes, zero_counts) for parts in _devices(gpus, notes)]
    if not devices:
        notes.append(Note("no GPU in it"))
    return Partial(
        reader=READER,
        file=name,
        devices=tuple(sorted(devices, key=lambda device: bdf_key(device.bdf))),
        notes=tuple(notes),
    )


def _properties(files: Tree, path: str) -> Mapping[str, int] | None:
    """Return the ``name value`` lines of a file; None if there is no such file."""
    text = files.text(path)
    if text is None:
        return None
    found: dict[str, int] = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) == 2 and words[1].isascii() and words[1].isdigit() and len(words[1]) <= 20:
            found[words[0]] = int(words[1])
    return found


def _gpu(files: Tree, path: str, node: int, said: Mapping[str, int], cpu_nodes: set[int]) -> _Gpu:
    linked = set()
    for number in numbered(files.names(f"{path}/io_links"), "")[:MAX_LINKS]:
        link = _properties(files, f"{path}/io_links/{number}/properties") or {}
        to = link.get("node_to")
        if link.get("type") in (_PCIE, _XGMI) and to in cpu_nodes and to != node:
            linked.add(to)
    if node in cpu_nodes:  # an APU whose CPUs and GPU are one node
        linked.add(node)
    return _Gpu(
        node=node,
        domain=said.get("domain", 0),
        location=said.get("location_id", 0) & 0xFFFF,
        unique_id=said.get("unique_id", 0),
        vendor=said.get("vendor_id"),
        device=said.get("device_id"),
        linked_to=tuple(sorted(linked)),
    )


def _devices(gpus: Sequence[_Gpu], notes: list[Note]) -> list[list[_Gpu]]:
    """Group what is one PCI device: partitions, and nodes that claim the same address."""
    slots: dict[tuple[int, int], list[_Gpu]] = {}
    for gpu in gpus:
        slots.setdefault(gpu.slot, []).append(gpu)
    result = []
    for nodes in slots.values():
        functions = sorted({gpu.function for gpu in nodes})
        partitions = len({gpu.unique_id for gpu in nodes}) == 1 and nodes[0].unique_id
        if partitions and functions == list(range(len(functions))):
            result.append(nodes)
            continue
        for function in functions:
            same = [gpu for gpu in nodes if gpu.function == function]
            if len({gpu.unique_id for gpu in same}) > 1:
                listed = ", ".join(str(gpu.node) for gpu in same[:8])
                notes.append(Note(f"KFD nodes {listed} are different GPUs at {same[0].bdf}"))
            result.append(same)
    return result


def _device(parts: Sequence[_Gpu], notes: list[Note], zero_counts: bool) -> DevicePart:
    first = min(parts, key=lambda part: part.function)
    uuids = {part.unique_id for part in parts if part.unique_id}
    numa = tuple(sorted({node for part in parts for node in part.linked_to}))
    if numa == (0,) and not zero_counts:
        notes.append(
            Note(
                f"GPU {first.bdf}: its link to CPU node 0 may mean that the kernel does not know; "
                "not used"
            )
        )
        numa = ()
    elif not numa:
        notes.append(Note(f"GPU {first.bdf} has no link to a CPU node"))
    known = first.vendor and first.device
    return DevicePart(
        "gpu",
        bdf=first.bdf,
        uuid=f"GPU-{uuids.pop():016x}" if len(uuids) == 1 else None,
        vendor=f"{first.vendor:04x}" if first.vendor else None,
        model=f"{first.vendor:04x}:{first.device:04x}" if known else None,
        numa=numa,
        confidence="measured" if numa else "unknown",
    )
