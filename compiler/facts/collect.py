"""The public door: the facts of one machine from its files and, if asked for, its tools."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from compiler.facts.bundling import pack
from compiler.facts.files.disk import DiskFiles
from compiler.facts.files.record import RecordingFiles
from compiler.facts.gather.nvml import ask_nvml
from compiler.facts.gather.tools import NVML, ToolOutput, ask_tools, read_outputs
from compiler.facts.host import node_name, read_host
from compiler.facts.merge import Merged, merge
from compiler.facts.partial import Note, Partial, ReadError
from compiler.facts.shown import shown
from compiler.facts.table import FactsError
from compiler.facts.tree import Tree
from compiler.model.facts import NodeFacts
from compiler.model.texts import is_node_name

__all__ = ["FactsError", "Gathered", "collect", "from_sources", "gather"]

TOOL_TIMEOUT_S: Final = 10.0
"""How long one tool may take; ``nvidia-smi`` without its persistence daemon takes a few seconds."""

_CPUS: Final = "/sys/devices/system/cpu"


@dataclass(frozen=True, slots=True)
class Gathered:
    """What a machine says: its sources, and the bundle to repeat the reading from, if wanted."""

    partials: tuple[Partial, ...]
    bundle: bytes | None = None


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
    return from_sources(gather(sysroot, name=name, live=live).partials, name=name).facts


def gather(
    sysroot: Path, *, name: str | None, live: bool, tools: bool = False, bundle: bool = False
) -> Gathered:
    """Return what the files below ``sysroot`` say, and what the machine's tools say of it.

    Args:
        sysroot: as for :func:`collect`.
        name: as for :func:`collect`.
        live: as for :func:`collect`.
        tools: whether to run ``nvidia-smi`` and ``rocm-smi`` and to ask NVML where they are
            there; only on the running machine.
        bundle: whether to keep what was looked at.

    Raises:
        FactsError: the files tell no CPUs, there is too much to keep, or ``name`` is not a node
            name.
    """
    if name is not None and not is_node_name(name):
        raise FactsError(
            shown(name),
            "not a node name: lower-case letters, digits, '-' and '.', at most 253, as "
            "Kubernetes accepts it",
        )
    disk = DiskFiles(sysroot)
    recording = RecordingFiles(disk) if bundle else None
    try:
        host = read_host(Tree(recording or disk), live=live)
        outputs = _ask() if tools and live else ()
        host, given = _named(host, name, live=live)
        kept = None
        if recording is not None:
            kept = pack(
                recording.recorded(),
                outputs,
                live=live,
                arch=os.uname().machine if live else None,
                host=os.uname().nodename if live else None,
                node=given,
            )
    except ReadError as error:
        raise _failed(error) from error
    return Gathered((host, *read_outputs(outputs)), kept)


def from_sources(partials: Sequence[Partial], *, name: str | None) -> Merged:
    """Return the facts that the sources of one machine make.

    Raises:
        FactsError: they do not tell its CPUs and cores.
    """
    try:
        return merge(partials, name=name)
    except ReadError as error:
        raise _failed(error) from error


def _failed(error: ReadError) -> FactsError:
    message = error.message.removeprefix(f"{_CPUS}: ")
    return FactsError(_CPUS, f"{message}; {error.help}" if error.help else message)


def _ask() -> tuple[ToolOutput, ...]:
    outputs = ask_tools(timeout_s=TOOL_TIMEOUT_S)
    answer = ask_nvml(timeout_s=TOOL_TIMEOUT_S)
    return outputs if answer is None else (*outputs, ToolOutput(NVML, (), answer))


def _named(host: Partial, name: str | None, *, live: bool) -> tuple[Partial, str | None]:
    """Add what the running kernel says of itself, and a name where the files have none.

    The second value is the name that the files do not tell.
    """
    if live:
        uname = os.uname()
        host = replace(host, arch=uname.machine)
        if not host.node and name is None:
            name = node_name(uname.nodename)
    if name is not None:
        return replace(host, node=name), name
    if not host.node:
        note = Note("the host name is unknown; the node is called 'node'")
        return replace(host, node="node", notes=(*host.notes, note)), None
    return host, None
