"""Kinds of cores: which are fast, which are small, and what says so.

Evidence, best first: the PMU that a CPU belongs to (Intel hybrid), the MIDR register (Arm), and
only where neither exists the kernel's performance figures.  Clock rates alone prove nothing where
a MIDR does: one GH200 shows several maximum frequencies on identical cores.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from compiler.cpuset import CpuSet
from compiler.facts.cpuinfo import CpuInfo
from compiler.facts.tree import Tree
from compiler.model.facts import CoreKind, Llc

GAP: Final = 1.3
"""How many times faster the next kind of core is at least, where only figures tell kinds apart.

Preferred-core rankings and turbo bins of identical cores differ by a few per cent from one to the
next; the kinds of all hybrid machines known differ by a third or more in one of the figures.
"""
_PMUS: Final[tuple[tuple[str, CoreKind], ...]] = (
    ("cpu_core", "performance"),
    ("cpu_atom", "efficiency"),
    ("cpu_lowpower", "lowpower"),
)
_FIGURES: Final = (
    "cpu_capacity",
    "acpi_cppc/highest_perf",
    "cpufreq/cpuinfo_max_freq",
    "cpufreq/base_frequency",
)
_RANKS: Final[tuple[CoreKind, ...]] = ("performance", "efficiency", "lowpower")
# Implementer and part number; variant and revision do not make another kind of core.
_MIDR_MODEL: Final = 0xFF00FFF0

Kinds = Mapping[int, CoreKind]
_Figures = Callable[[str], Mapping[int, int] | None]


def read_kinds(
    tree: Tree, base: str, online: CpuSet, llc_of: Mapping[int, Llc], info: CpuInfo
) -> Kinds:
    """Return the kind of each CPU; on a machine with one kind of cores it is ``standard``."""
    figures = _figures(tree, base, online)
    kinds = _by_pmu(tree, online, llc_of)
    if kinds is None:
        kinds = _by_midr(tree, base, online, info, figures)
    if kinds is None and not (info.vendor == "GenuineIntel" and tree.is_dir("/sys/devices/cpu")):
        # An Intel machine with the plain `cpu` PMU has one kind of cores.
        kinds = _by_figures(figures)
    if kinds is None or len(set(kinds.values())) == 1:
        return dict.fromkeys(online, "standard")
    return kinds


def _by_pmu(tree: Tree, online: CpuSet, llc_of: Mapping[int, Llc]) -> Kinds | None:
    kinds: dict[int, CoreKind] = {}
    for pmu, kind in _PMUS:
        for cpu in (tree.cpus(f"/sys/devices/{pmu}/cpus") or CpuSet()) & online:
            kinds.setdefault(cpu, kind)
    if not kinds:
        return None
    if rest := online - CpuSet(kinds):
        tree.warn(f"/sys/devices: CPU {rest} is in no core PMU; taken as standard")
        kinds |= dict.fromkeys(rest, "standard")
    # Low-power efficiency cores share the PMU of the others, but sit outside the L3.
    small = [cpu for cpu in online if kinds[cpu] == "efficiency"]
    levels = {cpu: llc_of[cpu].level for cpu in small if cpu in llc_of}
    top = max((llc.level for llc in llc_of.values()), default=0)
    if set(levels.values()) > {top} and len(levels) == len(small):
        for cpu, level in levels.items():
            if level < top:
                kinds[cpu] = "lowpower"
    return kinds


def _by_midr(
    tree: Tree, base: str, online: CpuSet, info: CpuInfo, figures: _Figures
) -> Kinds | None:
    models: dict[int, int] = {}
    for cpu in online:
        midr = tree.hexadecimal(f"{base}/cpu{cpu}/regs/identification/midr_el1")
        if midr is None:
            midr = info.midr.get(cpu)
        if midr is not None:
            models[cpu] = midr & _MIDR_MODEL
    if not models:
        return None
    if rest := online - CpuSet(models):
        if len(set(models.values())) > 1:
            tree.warn(f"{base}: no MIDR for CPU {rest}; kinds of cores are unknown")
        return dict.fromkeys(online, "standard")
    groups = [
        CpuSet(cpu for cpu in online if models[cpu] == model)
        for model in sorted(set(models.values()))
    ]
    if len(groups) == 1:
        return dict.fromkeys(online, "standard")
    for field in _FIGURES:
        values = figures(field)
        if values is None:
            continue
        best = [max(values[cpu] for cpu in group) for group in groups]
        if len(set(best)) == len(best):
            ranked = sorted(zip(best, groups, strict=True), key=lambda pair: -pair[0])
            return _ranked([group for _, group in ranked])
    tree.warn(
        f"{base}: cores of {len(groups)} models (CPUs "
        f"{' and '.join(str(group) for group in groups)}), but nothing says which are faster; "
        "taken as standard"
    )
    return dict.fromkeys(online, "standard")


def _by_figures(figures: _Figures) -> Kinds | None:
    for field in _FIGURES:
        values = figures(field)
        if values is None:
            continue
        groups: list[CpuSet] = []
        last = None
        for value in sorted(set(values.values()), reverse=True):
            cpus = CpuSet(cpu for cpu, own in values.items() if own == value)
            if last is not None and last < GAP * value:
                groups[-1] |= cpus
            else:
                groups.append(cpus)
            last = value
        if len(groups) > 1:
            return _ranked(groups)
    return None


def _ranked(groups: Sequence[CpuSet]) -> Kinds:
    """Name groups, fastest first; from the third on all are low-power."""
    kinds: dict[int, CoreKind] = {}
    for rank, group in enumerate(groups):
        kinds |= dict.fromkeys(group, _RANKS[min(rank, len(_RANKS) - 1)])
    return kinds


def _figures(tree: Tree, base: str, online: CpuSet) -> _Figures:
    """Return a function from a figure's name to its value on every CPU.

    None where a CPU lacks it: figures compare only within one source.
    """

    def read(field: str) -> Mapping[int, int] | None:
        values: dict[int, int] = {}
        for cpu in online:
            value = tree.number(f"{base}/cpu{cpu}/{field}")
            if value is None or value <= 0:
                return None
            values[cpu] = value
        return values

    return read
