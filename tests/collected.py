"""Facts of made machines, for tests of collecting them."""

from __future__ import annotations

from compiler.cpuset import CpuSet, union
from compiler.facts.collect import collect
from compiler.model.facts import FactsSpec
from tests.sysfs_builder import SysfsBuilder


def spec_of(b: SysfsBuilder) -> FactsSpec:
    return collect(b.root, name="n", live=False).spec


def cores(spec: FactsSpec) -> list[str]:
    found = [core for group in spec.cores for core in group.cores()]
    return [str(core) for core in sorted(found, key=lambda core: core.lowest)]


def of_kind(spec: FactsSpec, kind: str) -> str:
    return str(union(group.cpus for group in spec.cores if group.kind == kind))


def simple(b: SysfsBuilder, online: str = "0-3") -> None:
    """One package, one thread a core, one L3, one node."""
    b.masks(online=online, possible=online, present=online)
    b.cores([str(cpu) for cpu in CpuSet.parse(online)])
    b.cache(3, online, level=3, size="8192K", id=0)
    b.node(0, online, mem_kib=1 << 20, distance="10")
