"""What a guest printed."""

from __future__ import annotations

import re

from compiler.cpuset import CpuSet


class Said:
    """The lines that begin with ``LAB``, by what follows."""

    def __init__(self, console: str) -> None:
        self.console = console

    def __getitem__(self, name: str) -> str:
        """Return what follows a name; empty where it is missing, which fails a check by itself."""
        return self._find(name) or ""

    def line(self, name: str) -> str:
        """Return what follows a name, for verdicts that are made of several lines.

        Raises:
            ValueError: there is no such line.
        """
        found = self._find(name)
        if found is None:
            raise ValueError(f"no line {name}")
        return found

    def all(self, pattern: str) -> list[str]:
        """Return what follows on every line whose name matches, which must hold no group."""
        return re.findall(rf"^LAB {pattern} (.*)$", self.console, re.M)

    def _find(self, name: str) -> str | None:
        found = re.search(rf"^LAB {name} (.*)$", self.console, re.M)
        return found[1].strip() if found else None


def number(line: str, word: str) -> float:
    """Return the number behind ``WORD=``.

    Raises:
        ValueError: there is none.
    """
    found = re.search(rf"\b{word}=([\d.]+)", line)
    if found is None:
        raise ValueError(f"no {word} in {line!r}")
    return float(found[1])


def times_on(text: str) -> dict[int, int]:
    """Return how often each CPU was seen, from CPU:TIMES,...

    So the function ``seen`` of payload/lib.sh and the loads of payload/place.c print them.
    """
    return {int(cpu): int(times) for cpu, times in re.findall(r"\b(\d+):(\d+)", text)}


def cpus_seen(text: str) -> CpuSet:
    """Return the CPUs that were seen, from CPU:TIMES,..."""
    return CpuSet(times_on(text))
