"""Codes of importing node facts: what sources do not say, or each otherwise (TRC620-TRC639)."""

from __future__ import annotations

from typing import Final

from compiler.diagnostics import Code, Severity

UNREADABLE_SOURCE: Final = Code(
    "TRC620",
    "unreadable-source",
    Severity.ERROR,
    """\
A file given to `tierc facts import` cannot be read, is damaged, or is not what it looks like.

Nothing is written: facts without this source could be wrong where it would have said so.

Correct the file as the message says, or leave it out.
""",
)
UNKNOWN_FORMAT: Final = Code(
    "TRC621",
    "unknown-format",
    Severity.ERROR,
    """\
A file given to `tierc facts import` is of no format that tierc understands, or of two at once.

The format is told from the content, not from the name. What is understood is listed. A file
should hold the whole output of one command, as it was printed.

    lscpu -p=cpu,online,core,socket,node,cache > lscpu.csv
    nvidia-smi topo -m > topo.txt
    tierc facts import lscpu.csv topo.txt -o nodes/gpu-7.yaml
""",
)
NO_CPU_SOURCE: Final = Code(
    "TRC622",
    "no-cpu-source",
    Severity.ERROR,
    """\
The sources do not say what node facts cannot do without: which CPUs are online, which of them
are threads of one core, and how the node is called.

Tables of GPUs, labels and counts of CPUs add to facts, they are none by themselves; and how CPUs
pair up is never guessed.

Add what `lscpu -p=cpu,online,core,socket,node,cache` prints on the node, a snapshot of its
sysfs, or what `tierc facts collect --bundle OUT.tar.gz` writes there.
""",
)
SOURCES_DISAGREE: Final = Code(
    "TRC623",
    "sources-disagree",
    Severity.WARNING,
    """\
Two sources say different things of one fact.

The more trusted one counts: the kernel's own files, then what tools ask a driver, then
descriptions of the machine by others. The message names both. Often one of the two is from
another machine, or from before firmware settings changed, hardware threads were switched on or off,
or CPUs were brought offline.

Check which is right; leave the other out, or correct the facts by `overrides`.
""",
)
SOURCE_NOTE: Final = Code(
    "TRC624",
    "source-not-believed",
    Severity.WARNING,
    """\
Something in a source is odd, is not believed, or leaves a fact unknown.

`nvidia-smi topo -m`, for example, prints at most six items of a CPU list, so the list of a
machine that numbers CPUs alternately is shortened; where the NUMA node is known, it counts.

What it names is unknown or taken from another source. The facts keep it in `warnings`.
""",
)
NODES_UNCLEAR: Final = Code(
    "TRC625",
    "which-node-is-unclear",
    Severity.ERROR,
    """\
It cannot be told which source is of which node: some name different nodes, and others none; or
one archive holds the files of two machines.

Facts of two machines in one document would be wrong on both. Give `--name NODE` to say that all
files are of one node (of a file with many nodes only that one is then taken), or import the files
of each node by themselves. An archive names its node by the file `proc/sys/kernel/hostname` or
`etc/hostname` in it.

    tierc facts import nodes.json topo.txt --name gpu-7 -o nodes/
""",
)
