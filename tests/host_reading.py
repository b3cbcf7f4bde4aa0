"""What the machine's own files say of it, for tests of reading them."""

from __future__ import annotations

from compiler.cpuset import CpuSet
from compiler.facts.host import read_host
from compiler.facts.partial import Partial
from compiler.facts.tree import Tree
from tests.sysfs_builder import SysfsBuilder


def read(b: SysfsBuilder, *, live: bool = False) -> Partial:
    return read_host(Tree.of_disk(b.root), live=live)


def notes(partial: Partial) -> list[str]:
    return [note.message for note in partial.notes]


def named(sets: tuple[tuple[int, CpuSet], ...] | None) -> list[tuple[int, str]] | None:
    return None if sets is None else [(number, str(cpus)) for number, cpus in sets]


def flat(b: SysfsBuilder, online: str = "0-7") -> None:
    """One thread a core, nothing else."""
    b.masks(online=online)
    b.cores([str(cpu) for cpu in CpuSet.parse(online)])
