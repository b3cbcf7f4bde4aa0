"""Identity of a machine: what a plan was made for, and what a node checks.

Two texts.  The CPU text is hard (a plan is not applied to another CPU layout), the device text is
soft (another GPU or network device is a warning).  Both are what the emitted scripts rebuild in
POSIX sh from sysfs, so they hold only what every source of facts can know in the same way:
architecture, online CPUs, sibling sets, last-level caches, and PCI addresses.

A family that the facts do not know is written as ``?``.  The node then leaves it out too, so that
facts from a source without caches fit the machine they were taken from.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from typing import Final

from compiler.cpuset import CpuSet

CPU_FORMAT: Final = "tierc-cpu-2"
"""First line of the CPU text; changes when its meaning does."""

DEVICE_FORMAT: Final = "tierc-devices-1"
"""First line of the device text; changes when its meaning does."""

_BDF: Final = re.compile(r"([0-9a-f]{4,8}):([0-9a-f]{2}:[0-9a-f]{2}\.[0-7])", re.ASCII)


def cpu_text(
    arch: str | None, online: CpuSet, cores: Iterable[CpuSet], llcs: Iterable[CpuSet]
) -> str:
    """Return the canonical text of a CPU layout.

    One line a fact: the format, ``arch X`` (``?`` when unknown), ``online LIST``, then
    ``core LIST`` per sibling set and ``llc LIST`` per last-level cache, each ordered by lowest
    CPU, then by mask, and cut to the online CPUs; empty sets are left out.  No cache at all is
    ``llc ?``: a machine has some, so they are unknown.

    The last level is a CPU's own: on a machine where some CPUs have L3 and others only L2, both
    are here.  Levels and numbers of caches are not, because every tool has its own.
    """
    lines = [CPU_FORMAT, f"arch {arch or '?'}", f"online {online}"]
    for word, sets in (("core", cores), ("llc", llcs)):
        live = {cut for one in sets if (cut := one & online)}
        lines += [f"{word} {one}" for one in sorted(live, key=lambda s: (s.lowest, s.mask))]
    if not lines[-1].startswith("llc "):
        lines.append("llc ?")
    return "".join(line + "\n" for line in lines)


def device_text(gpus: Iterable[str] | None, nics: Iterable[str] | None) -> str:
    """Return the canonical text of the GPUs and network devices of a machine.

    One line a fact: the format, then ``gpu BDF`` and ``nic BDF`` in order of the address, each
    once.  ``gpu ?`` or ``nic ?`` stands for None: that type is unknown.  A type that is known to
    have no device has no line.

    Args:
        gpus: PCI addresses of the GPUs, as sysfs spells them; physical functions only.
        nics: the same of the network devices.

    Raises:
        ValueError: an address is not spelled so.
    """
    lines = [DEVICE_FORMAT]
    for word, addresses in (("gpu", gpus), ("nic", nics)):
        if addresses is None:
            lines.append(f"{word} ?")
        else:
            lines += [f"{word} {one}" for one in sorted(set(addresses), key=_place)]
    return "".join(line + "\n" for line in lines)


def device_digest(gpus: Iterable[str] | None, nics: Iterable[str] | None) -> str | None:
    """Return the SHA-256 of :func:`device_text`; None where neither type is known.

    Raises:
        ValueError: an address is not spelled as sysfs does.
    """
    return None if gpus is None and nics is None else digest(device_text(gpus, nics))


def _place(bdf: str) -> tuple[int, str]:
    match = _BDF.fullmatch(bdf)
    if match is None:
        raise ValueError(f"{bdf!r} is not a PCI address as sysfs spells it")
    return int(match[1], 16), match[2]


def digest(text: str) -> str:
    """Return the SHA-256 of ``text`` in hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()
