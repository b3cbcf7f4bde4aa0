"""Identity of a machine's CPU layout: what a plan was made for, and what a node checks.

The text form is what the emitted scripts rebuild in POSIX sh from sysfs, so it holds only facts
that sysfs, hwloc and lscpu all know: architecture, online CPUs, sibling sets, last-level caches.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from compiler.cpuset import CpuSet

FORMAT = "tierc-cpu-1"
"""First line of the text; changes when the text's meaning does."""


def cpu_text(
    arch: str | None, online: CpuSet, cores: Iterable[CpuSet], llcs: Iterable[CpuSet]
) -> str:
    """Return the canonical text.

    One line a fact: the format, ``arch X`` (``-`` when unknown), ``online LIST``, then
    ``core LIST`` per sibling set and ``llc LIST`` per last-level cache, each ordered by lowest
    CPU and cut to the online CPUs; empty sets are left out.
    """
    lines = [FORMAT, f"arch {arch or '-'}", f"online {online}"]
    for word, sets in (("core", cores), ("llc", llcs)):
        live = {cut for one in sets if (cut := one & online)}
        lines += [f"{word} {one}" for one in sorted(live, key=lambda s: (s.lowest, s.mask))]
    return "".join(line + "\n" for line in lines)


def digest(text: str) -> str:
    """Return the SHA-256 of ``text`` in hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()
