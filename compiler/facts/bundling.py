"""The door for bundles: what a collection read and heard, and the same facts from it again.

Live::

    files = RecordingFiles(DiskFiles(root))
    host = read_host(Tree(files), live=live)
    outputs = ask_tools(timeout_s=10)
    facts = merge([host, *read_outputs(outputs)])
    write_bundle(path, pack(files.recorded(), outputs, live=live, arch=..., host=...))

Elsewhere ``read_bundle`` gives the same partials.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from compiler.facts.files.bundle import Asked, Bundle, bundle_bytes, open_bundle
from compiler.facts.files.memory import MemoryFiles
from compiler.facts.gather.tools import NVML, TOOLS, ToolOutput, read_outputs
from compiler.facts.host import read_host
from compiler.facts.partial import Note, Partial
from compiler.facts.redact import redacted, redacted_output
from compiler.facts.shown import shown
from compiler.facts.tree import Tree

_KNOWN = frozenset({NVML, *(" ".join(argv) for argv in TOOLS)})


def pack(
    recorded: MemoryFiles,
    outputs: Sequence[ToolOutput],
    *,
    live: bool,
    arch: str | None,
    host: str | None,
    node: str | None = None,
) -> bytes:
    """Return a bundle as bytes.

    What is no fact is left out, see :mod:`compiler.facts.redact`; so is the place where a program
    was found.

    Args:
        recorded: what was looked at.
        outputs: what programs said.
        live: whether it was the running machine.
        arch: as ``uname -m`` prints it on the machine; None if it is not the running one.
        host: as ``uname -n`` prints it there.
        node: the node's name, if one was given.
    """
    tools = tuple(
        Asked(
            one.name,
            tuple(one.name.split()),
            None if one.text is None else redacted_output(one.text),
            one.error,
        )
        for one in outputs
    )
    files = redacted(recorded)
    return bundle_bytes(Bundle(files, live=live, arch=arch, host=host, node=node, tools=tools))


def read_bundle(files: MemoryFiles) -> tuple[Partial, ...]:
    """Return the facts of the node that a bundle is from, the kernel's own first.

    Raises:
        ReadError: the bundle is damaged, or its files tell no CPUs.
    """
    bundle = open_bundle(files)
    host = read_host(Tree(bundle.files), live=bundle.live)
    if bundle.live:
        host = replace(host, arch=bundle.arch or host.arch)
    if bundle.node:
        host = replace(host, node=bundle.node)
    known = [tool for tool in bundle.tools if tool.name in _KNOWN]
    notes = [
        Note(f"the bundle has the output of {shown(tool.name)}, which is not known")
        for tool in bundle.tools
        if tool.name not in _KNOWN
    ]
    outputs = [ToolOutput(one.name, one.argv, one.text, one.error) for one in known]
    return (replace(host, notes=(*host.notes, *notes)), *read_outputs(outputs))
