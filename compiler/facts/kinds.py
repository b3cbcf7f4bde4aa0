"""Kinds of cores: which are fast, which are small, and what says so.

Evidence, best first: the PMU that a CPU belongs to (Intel hybrid), the MIDR register (Arm), and
only where neither exists the kernel's performance figures.  Clock rates alone prove nothing where
a MIDR does: one GH200 shows several maximum frequencies on identical cores.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from compiler.cpuset import CpuSet, union
from compiler.facts.armcores import core_name
from compiler.facts.cpuinfo import CpuInfo
from compiler.facts.partial import KindPart, LlcPart
from compiler.facts.tree import Tree
from compiler.model.facts import CoreKind

GAP: Final = 1.3
"""How many times faster the next kind of core is at least, where only figures tell kinds apart.

Preferred-core rankings and turbo bins of identical cores differ by a few per cent from one to the
next; the kinds of all hybrid machines known differ by a third or more in one of the figures.
:mod:`compiler.facts.formats.hwloc_kinds` asks the same.
"""
_PMUS: Final[tuple[tuple[str, CoreKind], ...]] = (
    ("cpu_core", "performance"),
    ("cpu_atom", "efficiency"),
    ("cpu_lowpower", "lowpower"),
)
_CAPACITY: Final = "cpu_capacity"
_FIGURES: Final = (
    _CAPACITY,
    "acpi_cppc/highest_perf",
    "cpufreq/cpuinfo_max_freq",
    "cpufreq/base_frequency",
)
_RANKS: Final[tuple[CoreKind, ...]] = ("performance", "efficiency", "lowpower")
# Implementer and part number; variant and revision do not make another kind of core.
_MIDR_MODEL: Final = 0xFF00FFF0
_ARM: Final = frozenset({"aarch64", "armv7l"})

_Kinds = tuple[KindPart, ...]


class KindReader:
    """Reads what tells the cores of one machine apart.

    Attributes of a core are read from its lowest CPU: threads share them.
    """

    def __init__(
        self,
        tree: Tree,
        base: str,
        cores: Sequence[CpuSet],
        capacities: Mapping[int, int] | None,
        info: CpuInfo,
    ) -> None:
        self._tree = tree
        self._base = base
        self._cores = cores
        self._capacities = capacities
        self._info = info

    def read(self, llcs: Sequence[LlcPart]) -> _Kinds | None:
        """Return the kinds, fastest first; empty: all alike; None: nothing tells.

        From the third on all are low-power, so a name may come twice.
        """
        kinds = self._by_pmu(llcs)
        if kinds is not None:
            return kinds
        models = self._midrs()
        if models:
            return self._by_midr(models)
        if self._info.vendor == "GenuineIntel" and self._tree.is_dir("/sys/devices/cpu"):
            return ()  # an Intel machine with the plain `cpu` PMU has one kind of cores
        return self._by_figures()

    def _by_pmu(self, llcs: Sequence[LlcPart]) -> _Kinds | None:
        online = union(self._cores)
        said: dict[int, CoreKind] = {}
        for pmu, kind in _PMUS:
            for cpu in (self._tree.cpus(f"/sys/devices/{pmu}/cpus") or CpuSet()) & online:
                said.setdefault(cpu, kind)
        if not said:
            return None
        if rest := online - CpuSet(said):
            self._tree.warn(f"/sys/devices: CPU {rest} is in no core PMU; taken as standard")
        groups: dict[CoreKind, CpuSet] = {}
        for core in self._cores:
            kinds = {said.get(cpu) for cpu in core}
            if len(kinds) > 1:
                self._tree.warn(f"{self._base}: the CPUs {core} of one core are of different kinds")
            if (kind_of_core := said.get(core.lowest)) is not None:
                groups[kind_of_core] = groups.get(kind_of_core, CpuSet()) | core
        small = groups.get("efficiency", CpuSet())
        if outside := _outside_the_l3(small, llcs):
            groups["efficiency"] = small - outside
            groups["lowpower"] = groups.get("lowpower", CpuSet()) | outside
        if not rest and len(groups) == 1:
            return ()
        return tuple(KindPart(kind, groups[kind], "pmu") for kind in _RANKS if kind in groups)

    def _by_midr(self, models: Mapping[CpuSet, int]) -> _Kinds | None:
        if rest := [core for core in self._cores if core not in models]:
            if len(set(models.values())) > 1:
                self._tree.warn(
                    f"{self._base}: no MIDR for CPU {union(rest)}; kinds of cores are unknown"
                )
            return None
        groups = {
            model: [core for core in self._cores if models[core] == model]
            for model in sorted(set(models.values()))
        }
        if len(groups) == 1:
            return ()
        for field in _FIGURES:
            values = self._figure(field)
            if values is None:
                continue
            best = {model: max(values[core] for core in own) for model, own in groups.items()}
            if len(set(best.values())) == len(best):
                ranked = sorted(groups, key=lambda model: -best[model])
                return tuple(
                    KindPart(
                        _RANKS[min(rank, len(_RANKS) - 1)],
                        union(groups[model]),
                        "midr",
                        core_name(model),
                        field,
                        best[model],
                    )
                    for rank, model in enumerate(ranked)
                )
        named = (f"{core_name(model)} on CPUs {union(own)}" for model, own in groups.items())
        self._tree.warn(
            f"{self._base}: cores of {len(groups)} models ({', '.join(named)}), but nothing says "
            "which are faster; kinds of cores are unknown"
        )
        return None

    def _midrs(self) -> Mapping[CpuSet, int]:
        """Return the model of each core that has one; empty on a machine without MIDRs."""
        if self._info.arch is not None and self._info.arch not in _ARM:
            return {}
        known = self._info.midr
        if not known and all(
            self._midr(core) is None for core in (self._cores[0], self._cores[-1])
        ):
            return {}
        found: dict[CpuSet, int] = {}
        for core in self._cores:
            midr = known.get(core.lowest)
            if midr is None:
                midr = self._midr(core)
            if midr is not None:
                found[core] = midr & _MIDR_MODEL
        return found

    def _midr(self, core: CpuSet) -> int | None:
        path = f"{self._base}/cpu{core.lowest}/regs/identification/midr_el1"
        return self._tree.hexadecimal(path)

    def _by_figures(self) -> _Kinds | None:
        known = False
        for field in _FIGURES:
            values = self._figure(field)
            if values is None:
                continue
            known = True
            groups: list[tuple[int, CpuSet]] = []  # highest value, CPUs
            last = None
            for value in sorted(set(values.values()), reverse=True):
                cpus = union(core for core, own in values.items() if own == value)
                if last is not None and last < GAP * value:
                    groups[-1] = (groups[-1][0], groups[-1][1] | cpus)
                else:
                    groups.append((value, cpus))
                last = value
            if len(groups) > 1:
                return tuple(
                    KindPart(
                        _RANKS[min(rank, len(_RANKS) - 1)],
                        cpus,
                        "figure",
                        figure=field,
                        value=value,
                    )
                    for rank, (value, cpus) in enumerate(groups)
                )
        return () if known else None

    def _figure(self, field: str) -> Mapping[CpuSet, int] | None:
        """Return a figure of every core.

        None where one lacks it: figures compare only within one source.
        """
        values: dict[CpuSet, int] = {}
        for core in self._cores:
            value: int | None
            if field == _CAPACITY and self._capacities is not None:
                value = self._capacities.get(core.lowest)
            else:
                value = self._tree.number(f"{self._base}/cpu{core.lowest}/{field}")
            if value is None or value <= 0:
                return None
            values[core] = value
        return values


def _outside_the_l3(small: CpuSet, llcs: Sequence[LlcPart]) -> CpuSet:
    """Return the efficiency cores that share the others' PMU, but have a lower last level.

    Low-power efficiency cores sit outside the L3.  If all of them do, or the caches of some are
    unknown, they are what they are called.
    """
    levels = {cpu: llc.level for llc in llcs for cpu in llc.cpus & small}
    top = max((llc.level for llc in llcs), default=0)
    if len(levels) < len(small) or top not in levels.values():
        return CpuSet()
    return CpuSet(cpu for cpu, level in levels.items() if level < top)
