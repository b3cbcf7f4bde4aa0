"""What a guest printed."""

from __future__ import annotations

import re

from compiler.cpuset import CpuSet


class Said:
    """The lines that begin with ``LAB``, by what follows; a line that is missing is empty."""

    def __init__(self, console: str) -> None:
        self.console = console

    def __getitem__(self, name: str) -> str:
        found = re.search(rf"^LAB {name} (.*)$", self.console, re.M)
        return found[1].strip() if found else ""

    def all(self, pattern: str) -> list[str]:
        """Return what follows on every line whose name matches, which must hold no group."""
        return re.findall(rf"^LAB {pattern} (.*)$", self.console, re.M)


def cpus_seen(text: str) -> CpuSet:
    """Return the CPUs of CPU:TIMES,... as the function ``seen`` of payload/lib.sh prints them."""
    return CpuSet(int(cpu) for cpu in re.findall(r"\b(\d+):\d", text))
