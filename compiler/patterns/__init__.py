"""Patterns of intents and profiles: globs on names and cgroups, expressions on command lines.

All answers are exact, over the names that can exist: a thread's name has at most 15 bytes, a
cgroup path no empty component.
"""

from __future__ import annotations

from compiler.patterns.cmdline import CmdlineRegex, normal_cmdline
from compiler.patterns.compare import (
    Pattern,
    contains,
    difference_example,
    example,
    intersects,
)
from compiler.patterns.errors import PatternError, PatternTooComplex
from compiler.patterns.glob import Glob
from compiler.patterns.glob_shape import GlobKind
from compiler.patterns.names import COMM_BYTES, truncate_comm

__all__ = [
    "COMM_BYTES",
    "CmdlineRegex",
    "Glob",
    "GlobKind",
    "Pattern",
    "PatternError",
    "PatternTooComplex",
    "contains",
    "difference_example",
    "example",
    "intersects",
    "normal_cmdline",
    "truncate_comm",
]
