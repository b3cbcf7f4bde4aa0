"""The facts of one machine from the files of its kernel: sysfs, procfs, cgroups, the kubelet."""

from __future__ import annotations

import re
from typing import Final

from compiler.cpuset import CpuSet
from compiler.facts.caches import read_llcs
from compiler.facts.cgroup import read_allowed, read_kubelet
from compiler.facts.cpuinfo import read_cpuinfo
from compiler.facts.devices import read_devices
from compiler.facts.kernel import cpus_of_option, read_kernel, read_virtualization
from compiler.facts.kinds import KindReader
from compiler.facts.numa import read_numa
from compiler.facts.nvidia import read_nvidia
from compiler.facts.partial import Note, Partial
from compiler.facts.siblings import read_clusters, read_cores, read_dies, read_packages
from compiler.facts.sysfs import BASE, read_capacities, read_online, read_wider
from compiler.facts.tree import Tree, clean

READER: Final = "sysfs"
_MAX_NAME: Final = 253


def read_host(tree: Tree, *, live: bool, name: str = READER) -> Partial:
    """Return everything that the files below the root of ``tree`` say of their machine.

    The same files give the same partial.  Everything odd is in its notes, and nothing else of
    ``tree`` must have been read before, because they are the warnings of the tree.  ``arch`` and
    ``node`` are what the files say: on the running machine a caller that may ask the kernel
    (``uname``) knows better.

    Args:
        tree: its root holds ``sys/`` and ``proc/``.
        live: whether these are the files of the running machine.  Only then a missing file proves
            that the kernel lacks something, and the reader's own limits are recorded.
        name: how messages name the source.

    Raises:
        ReadError: nothing says which CPUs are online.
    """
    info = read_cpuinfo(tree)
    online = read_online(tree)
    cores = read_cores(tree, BASE, online)
    llcs = read_llcs(tree, BASE, online)
    nvidia = read_nvidia(tree)
    memory_nodes = {gpu.memory_node for gpu in nvidia.values() if gpu.memory_node is not None}
    numa = read_numa(tree, online, memory_nodes, live=live)
    capacities = read_capacities(tree, online)
    threads = cores if cores is not None else tuple(CpuSet((cpu,)) for cpu in online)
    kinds = KindReader(tree, BASE, threads, capacities, info).read(llcs or ())
    return Partial(
        reader=READER,
        file=name,
        node=_node(tree),
        arch=info.arch,
        online=online,
        possible=read_wider(tree, "possible", online),
        present=read_wider(tree, "present", online),
        isolated=_isolated(tree, "isolated", "isolcpus"),
        nohz_full=_isolated(tree, "nohz_full", "nohz_full"),
        allowed=read_allowed(tree, online) if live else None,
        cores=cores,
        packages=read_packages(tree, BASE, online),
        dies=read_dies(tree, BASE, online),
        clusters=read_clusters(tree, BASE, online, cores),
        llcs=llcs,
        numa=numa,
        kinds=kinds,
        capacities=capacities,
        devices=read_devices(tree, online, nvidia),
        kernel=read_kernel(tree, live=live),
        kubelet=read_kubelet(tree, live=live),
        virtualization=read_virtualization(tree, info, live=live),
        notes=tuple(Note(warning) for warning in tree.warnings),
    )


def _isolated(tree: Tree, name: str, option: str) -> CpuSet | None:
    """Return a mask of the kernel's, or for kernels without the file what the option asked."""
    cpus = tree.cpus(f"{BASE}/{name}")
    return cpus if cpus is not None else cpus_of_option(tree, option)


def _node(tree: Tree) -> str | None:
    """Return the host name as a node name: lower case, only letters, digits, ``-`` and ``.``."""
    host = tree.line("/proc/sys/kernel/hostname") or tree.line("/etc/hostname")
    if not host:
        return None
    name = node_name(host)
    if name != host.lower():
        as_node = f"as the name of a node it is {name}" if name else "the node's name is unknown"
        tree.warn(f"the host name '{clean(host, 80)}' is no node name; {as_node}")
    return name


def node_name(host: str) -> str | None:
    """Return a host name as Kubernetes accepts it for a node; None if nothing is left of it."""
    parts = [
        part.strip("-")[:63].strip("-")
        for part in re.sub(r"[^a-z0-9.]", "-", host.lower()).split(".")
    ]
    return ".".join(part for part in parts if part)[:_MAX_NAME].strip(".-") or None
