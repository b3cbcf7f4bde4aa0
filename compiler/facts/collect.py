"""The public door: the facts of one machine from its files."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

from compiler.facts.cgroup import read_allowed, read_kubelet
from compiler.facts.compress import compress
from compiler.facts.cpuinfo import read_cpuinfo
from compiler.facts.devices import read_devices
from compiler.facts.kernel import cpus_of_option, read_kernel, read_virtualization
from compiler.facts.sysfs import read_cpus
from compiler.facts.table import FactsError
from compiler.facts.tree import Tree, clean, shown
from compiler.model.base import API_VERSION, NodeMetadata
from compiler.model.facts import Cpus, FactsSpec, NodeFacts, Source

__all__ = ["FactsError", "collect"]

_NAME: Final = re.compile(
    r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*"
)
_MAX_NAME: Final = 253


def collect(sysroot: Path, *, name: str | None, live: bool) -> NodeFacts:
    """Return the facts of the machine whose files are below ``sysroot``.

    Nothing is written, no program is run and no privilege is needed; what cannot be read is left
    unknown and named in ``spec.warnings``.  The same files give the same facts.

    Args:
        sysroot: the directory that holds ``sys/`` and ``proc/``: ``/`` for this machine, the
            place where a host is mounted, or a snapshot.
        name: the node's name; None takes the host name.
        live: whether ``sysroot`` is the machine we run on.  Only then a missing file proves that
            the kernel lacks something, and the collector's own limits are recorded.

    Raises:
        FactsError: no usable CPU information, or ``name`` is not a node name.
    """
    tree = Tree(sysroot)
    info = read_cpuinfo(tree)
    table = read_cpus(tree, info)
    node = _name(tree, name, live=live)
    devices = read_devices(tree, table)
    kernel = read_kernel(tree, live=live)
    isolated, nohz_full = table.isolated, table.nohz_full
    if isolated is None:
        isolated = cpus_of_option(tree, "isolcpus")
    if nohz_full is None:
        nohz_full = cpus_of_option(tree, "nohz_full")
    kubelet = read_kubelet(tree, live=live)
    virtualization = read_virtualization(tree, info, live=live)
    allowed = read_allowed(tree, table.online) if live else None
    spec = FactsSpec(
        arch=os.uname().machine if live else info.arch,
        cpus=Cpus(
            possible=table.possible,
            present=table.present,
            online=table.online,
            isolated=isolated,
            nohzFull=nohz_full,
            allowed=allowed,
        ),
        cores=compress(table.rows),
        llcs=table.llcs,
        numa=table.numa,
        devices=devices,
        kernel=kernel,
        kubelet=kubelet,
        virtualization=virtualization,
        sources=_sources(allowed=allowed is not None, kubelet=kubelet is not None),
        warnings=tree.warnings,
    )
    return NodeFacts(
        apiVersion=API_VERSION, kind="NodeFacts", metadata=NodeMetadata(name=node), spec=spec
    )


def _sources(*, allowed: bool, kubelet: bool) -> tuple[Source, ...]:
    process = ("arch", "kernel", "virtualization", *(("allowed",) if allowed else ()))
    found = [
        Source(reader="sysfs", facts=("cpus", "cores", "llcs", "numa", "devices")),
        Source(reader="procfs", facts=process),
    ]
    if kubelet:
        found.append(Source(reader="kubelet", facts=("kubelet",)))
    return tuple(found)


def _name(tree: Tree, given: str | None, *, live: bool) -> str:
    if given is not None:
        if _NAME.fullmatch(given) is None or len(given) > _MAX_NAME:
            raise FactsError(
                shown(given),
                "not a node name: lower-case letters, digits, '-' and '.', at most 253, as "
                "Kubernetes accepts it",
            )
        return given
    host = tree.line("/proc/sys/kernel/hostname") or tree.line("/etc/hostname")
    if not host and live:
        host = os.uname().nodename
    parts = [
        part.strip("-")[:63].strip("-")
        for part in re.sub(r"[^a-z0-9.]", "-", (host or "").lower()).split(".")
    ]
    name = ".".join(part for part in parts if part)[:_MAX_NAME].strip(".-")
    if not name:
        tree.warn("the host name is unknown; the node is called 'node'")
        return "node"
    if host is not None and name != host.lower():
        tree.warn(f"the host name '{clean(host, 80)}' is no node name; the node is called {name}")
    return name
