"""What a broken invariant is reported as."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from compiler.codes.safety import BROKEN_INVARIANT, NODE_SOFTWARE_STARVED
from compiler.diagnostics import Code

STARVED: Final = "node-software-starved"
"""Kind of the one violation that documents can cause; every other is a fault of the compiler."""


@dataclass(frozen=True, slots=True)
class Violation:
    """An invariant that does not hold."""

    kind: str
    """Kebab-case word, one per invariant, stable."""
    message: str
    rule: int | None = None
    """Id of the rule that breaks it, where it is one."""
    process: str = ""
    """Name of the process it is about, where it is one, with its cgroup and tier."""
    cgroup: str = ""
    command: str = ""
    """Its command line, where it matters how it is started."""
    tier: str = ""

    @property
    def code(self) -> Code:
        """What it is reported as."""
        return NODE_SOFTWARE_STARVED if self.kind == STARVED else BROKEN_INVARIANT
