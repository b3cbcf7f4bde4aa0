"""Collecting: kinds of cores."""

from __future__ import annotations

from pathlib import Path

import pytest

from compiler.cpuset import CpuSet
from compiler.facts.collect import collect
from tests.collected import cores, of_kind, simple, spec_of
from tests.sysfs_builder import SysfsBuilder, gb10


@pytest.fixture
def b(tmp_path: Path) -> SysfsBuilder:
    """An empty machine."""
    return SysfsBuilder(tmp_path / "root")


def test_gb10(tmp_path: Path) -> None:
    spec = collect(gb10(tmp_path / "root").root, name=None, live=False).spec
    assert of_kind(spec, "efficiency") == "0-4,10-14"
    assert of_kind(spec, "performance") == "5-9,15-19"
    assert [str(llc.cpus) for llc in spec.llcs] == ["0-9", "10-19"]
    assert {group.package for group in spec.cores} == {36}
    assert spec.cpus.nohz_full == CpuSet()
    assert [d.bdf for d in spec.devices if d.type == "gpu"] == ["000f:01:00.0"]
    assert all(d.numa == 0 and d.locality.confidence == "measured" for d in spec.devices)
    assert spec.warnings == ()


def test_binned_clocks_of_equal_cores_are_not_kinds(b: SysfsBuilder) -> None:
    simple(b)
    b.attribute("0-3", "regs/identification/midr_el1", "0x00000000410fd4f0")
    for cpu, mhz in enumerate((3105, 3474, 2000, 3456)):
        b.attribute(str(cpu), "cpufreq/cpuinfo_max_freq", mhz * 1000)
    assert of_kind(spec_of(b), "standard") == "0-3"


def test_another_revision_is_not_another_kind(b: SysfsBuilder) -> None:
    simple(b)
    b.attribute("0-1", "regs/identification/midr_el1", "0x00000000410fd870")
    b.attribute("2-3", "regs/identification/midr_el1", "0x00000000411fd871")
    b.attribute("0-1", "cpu_capacity", 500)
    b.attribute("2-3", "cpu_capacity", 1024)
    assert of_kind(spec_of(b), "standard") == "0-3"


def test_three_models_and_none_can_be_ranked_without_a_figure(b: SysfsBuilder) -> None:
    simple(b)
    for cpus, midr in (("0", 0x410FD460), ("1-2", 0x410FD4D0), ("3", 0x410FD4E0)):
        b.attribute(cpus, "regs/identification/midr_el1", f"{midr:#018x}")
    spec = spec_of(b)
    assert of_kind(spec, "standard") == "0-3"
    assert any("nothing says which are faster" in warning for warning in spec.warnings)
    for cpus, capacity in (("0", 250), ("1-2", 800), ("3", 1024)):
        b.attribute(cpus, "cpu_capacity", capacity)
    spec = spec_of(b)
    assert [of_kind(spec, kind) for kind in ("performance", "efficiency", "lowpower")] == [
        "3",
        "1-2",
        "0",
    ]


def test_models_from_cpuinfo_where_sysfs_has_none(b: SysfsBuilder) -> None:
    simple(b)
    b.file(
        "proc/cpuinfo",
        "".join(
            f"processor\t: {cpu}\nCPU implementer\t: 0x41\nCPU architecture: 8\n"
            f"CPU part\t: {part}\nCPU revision\t: 1\n\n"
            for cpu, part in enumerate(("0xd87", "0xd87", "0xd85", "0xd85"))
        ),
    )
    for cpus, capacity in (("0-1", 718), ("2-3", 1024)):
        b.attribute(cpus, "cpu_capacity", capacity)
    spec = spec_of(b)
    assert of_kind(spec, "performance") == "2-3"
    assert spec.arch == "aarch64"


def test_hybrid_with_low_power_cores_outside_the_l3(b: SysfsBuilder) -> None:
    """Two P-cores with two threads, four E-cores, two LP-E cores: all E are in cpu_atom."""
    b.masks(online="0-9")
    b.cores(["0-1", "2-3", *map(str, range(4, 10))])
    b.cache(3, "0-7", level=3, size="24576K", id=0)
    b.cache(2, "8-9", level=2, size="2048K", id=8)
    b.file("sys/devices/cpu_core/cpus", "0-3\n")
    b.file("sys/devices/cpu_atom/cpus", "4-9\n")
    spec = spec_of(b)
    assert of_kind(spec, "performance") == "0-3"
    assert of_kind(spec, "efficiency") == "4-7"
    assert of_kind(spec, "lowpower") == "8-9"
    assert [(llc.level, str(llc.cpus)) for llc in spec.llcs] == [(3, "0-7"), (2, "8-9")]
    assert spec.warnings == ()


def test_efficiency_cores_that_are_all_outside_the_l3_stay_efficiency(b: SysfsBuilder) -> None:
    b.masks(online="0-3")
    b.cores(["0", "1", "2", "3"])
    b.cache(3, "0-1", level=3, size="12288K")
    b.cache(2, "2-3", level=2, size="4096K")
    b.file("sys/devices/cpu_core/cpus", "0-1\n")
    b.file("sys/devices/cpu_atom/cpus", "2-3\n")
    assert of_kind(spec_of(b), "efficiency") == "2-3"


def test_one_pmu_is_one_kind_and_an_unsorted_list_is_a_list(b: SysfsBuilder) -> None:
    simple(b)
    b.file("sys/devices/cpu_core/cpus", "2-3,0-1\n")
    assert of_kind(spec_of(b), "standard") == "0-3"
    b.file("sys/devices/cpu_core/cpus", "2,0\n")
    b.file("sys/devices/cpu_atom/cpus", "1\n")
    spec = spec_of(b)
    assert (of_kind(spec, "performance"), of_kind(spec, "efficiency")) == ("0,2", "1")
    assert any("CPU 3 is in no core PMU" in warning for warning in spec.warnings)


@pytest.mark.parametrize(
    ("values", "fast"),
    [
        ((1024, 1024, 787, 787), "0-1"),  # 1.301
        ((1024, 1024, 788, 788), ""),  # 1.299
        ((1300, 1300, 1000, 1000), "0-1"),
        ((1024, 900, 790, 700), ""),  # small steps, whatever the ends
        ((255, 250, 166, 161), "0-1"),
    ],
)
def test_figures_alone_make_kinds_from_a_gap_on(
    b: SysfsBuilder, values: tuple[int, ...], fast: str
) -> None:
    simple(b)
    for cpu, value in enumerate(values):
        b.attribute(str(cpu), "acpi_cppc/highest_perf", value)
    assert of_kind(spec_of(b), "performance") == fast


def test_a_figure_that_a_cpu_lacks_is_not_used(b: SysfsBuilder) -> None:
    simple(b)
    b.attribute("0-2", "cpu_capacity", 300)
    b.attribute("0", "cpu_capacity", 1024)
    assert of_kind(spec_of(b), "standard") == "0-3"


def test_an_intel_machine_with_the_plain_pmu_is_not_hybrid(b: SysfsBuilder) -> None:
    simple(b)
    b.file("proc/cpuinfo", "processor: 0\nvendor_id\t: GenuineIntel\nflags\t\t: fpu lm\n")
    b.attribute("0-1", "cpufreq/base_frequency", 3_900_000)  # turbo bins, SST-BF
    b.attribute("2-3", "cpufreq/base_frequency", 2_100_000)
    assert of_kind(spec_of(b), "performance") == "0-1"
    b.file("sys/devices/cpu/type", "4\n")
    assert of_kind(spec_of(b), "standard") == "0-3"


def test_kinds_that_differ_inside_a_core(b: SysfsBuilder) -> None:
    b.masks(online="0-3")
    b.cores(["0-1", "2-3"])
    b.file("sys/devices/cpu_core/cpus", "0,2\n")
    b.file("sys/devices/cpu_atom/cpus", "1,3\n")
    spec = spec_of(b)
    assert cores(spec) == ["0-1", "2-3"]
    assert sum("of one core are of different kinds" in w for w in spec.warnings) == 2


def test_capacities_are_kept_unless_every_core_has_its_own(b: SysfsBuilder) -> None:
    simple(b, "0-11")
    for cpu in range(12):
        b.attribute(str(cpu), "cpu_capacity", 1000 + 2 * (cpu % 8))
    assert len({group.capacity for group in spec_of(b).cores}) == 8
    for cpu in range(12):
        b.attribute(str(cpu), "cpu_capacity", 1000 + cpu)
    spec = spec_of(b)
    assert [group.capacity for group in spec.cores] == [None]
    assert any("12 different values of cpu_capacity" in warning for warning in spec.warnings)
