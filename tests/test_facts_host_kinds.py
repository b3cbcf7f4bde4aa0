"""The machine's own files: kinds of cores."""

from __future__ import annotations

from pathlib import Path

import pytest

from compiler.facts.armcores import core_name
from compiler.facts.collect import collect
from tests.host_reading import flat, notes, read
from tests.sysfs_builder import CPU, SysfsBuilder


@pytest.fixture
def b(tmp_path: Path) -> SysfsBuilder:
    """An empty machine."""
    return SysfsBuilder(tmp_path / "root")


def test_kinds_by_pmu_say_so(b: SysfsBuilder) -> None:
    flat(b)
    b.file("sys/devices/cpu_core/cpus", "0-1\n")
    b.file("sys/devices/cpu_atom/cpus", "2-5\n")
    b.file("sys/devices/cpu_lowpower/cpus", "6-7\n")
    kinds = read(b).kinds or ()
    assert [(k.name, str(k.cpus), k.evidence, k.model, k.figure) for k in kinds] == [
        ("performance", "0-1", "pmu", None, None),
        ("efficiency", "2-5", "pmu", None, None),
        ("lowpower", "6-7", "pmu", None, None),
    ]


def test_low_power_needs_the_caches_of_all_efficiency_cores(b: SysfsBuilder) -> None:
    flat(b)
    b.file("sys/devices/cpu_core/cpus", "0-1\n")
    b.file("sys/devices/cpu_atom/cpus", "2-7\n")
    b.cache(3, "0-5", level=3, size="24M")
    b.cache(2, "6", level=2, size="2M")
    assert [kind.name for kind in read(b).kinds or ()] == ["performance", "efficiency"]
    b.cache(2, "7", level=2, size="2M")
    assert [(kind.name, str(kind.cpus)) for kind in read(b).kinds or ()] == [
        ("performance", "0-1"),
        ("efficiency", "2-5"),
        ("lowpower", "6-7"),
    ]


def test_capacities_of_some_cpus(b: SysfsBuilder) -> None:
    flat(b, "0-3")
    b.attribute("0-2", "cpu_capacity", 512)
    assert read(b).capacities == {0: 512, 1: 512, 2: 512}
    b.file(f"{CPU}/cpu0/cpu_capacity", "0\n")
    b.file(f"{CPU}/cpu3/cpu_capacity", "1024\n")
    assert read(b).capacities == {1: 512, 2: 512, 3: 1024}


def test_one_model_is_one_kind_and_nothing_at_all_is_unknown(b: SysfsBuilder) -> None:
    flat(b)
    assert read(b).kinds is None
    b.attribute("0-7", "regs/identification/midr_el1", "0x00000000410fd4f0")
    assert read(b).kinds == ()


def test_a_missing_midr_makes_kinds_unknown_whatever_the_clocks(b: SysfsBuilder) -> None:
    flat(b)
    b.attribute("0-3", "regs/identification/midr_el1", "0x00000000410fd870")
    b.attribute("4-6", "regs/identification/midr_el1", "0x00000000410fd850")
    b.attribute("0-3", "cpu_capacity", 500)
    b.attribute("4-7", "cpu_capacity", 1024)
    partial = read(b)
    assert partial.kinds is None
    assert any("no MIDR for CPU 7" in note for note in notes(partial))


def test_kinds_by_figure_name_the_figure(b: SysfsBuilder) -> None:
    flat(b)
    b.attribute("0-3", "cpufreq/cpuinfo_max_freq", 5_100_000)
    b.attribute("4", "cpufreq/cpuinfo_max_freq", 3_300_000)
    b.attribute("5-7", "cpufreq/cpuinfo_max_freq", 3_200_000)
    kinds = read(b).kinds or ()
    assert [(k.name, str(k.cpus), k.evidence, k.figure, k.value) for k in kinds] == [
        ("performance", "0-3", "figure", "cpufreq/cpuinfo_max_freq", 5_100_000),
        ("efficiency", "4-7", "figure", "cpufreq/cpuinfo_max_freq", 3_300_000),
    ]
    b.attribute("0-3", "cpufreq/cpuinfo_max_freq", 3_400_000)
    assert read(b).kinds == ()


def test_four_models_have_three_ranks(b: SysfsBuilder) -> None:
    flat(b, "0-3")
    for cpu, (part, capacity) in enumerate(
        ((0xD46, 280), (0xD47, 700), (0xD4D, 760), (0xD4E, 1024))
    ):
        b.attribute(str(cpu), "regs/identification/midr_el1", f"0x{0x410F0000 | part << 4:016x}")
        b.attribute(str(cpu), "cpu_capacity", capacity)
    kinds = read(b).kinds or ()
    assert [(k.name, str(k.cpus), k.model) for k in kinds] == [
        ("performance", "3", "Cortex-X3"),
        ("efficiency", "2", "Cortex-A715"),
        ("lowpower", "1", "Cortex-A710"),
        ("lowpower", "0", "Cortex-A510"),
    ]
    spec = collect(b.root, name="n", live=False).spec
    assert [(row.name, str(row.cpus)) for row in spec.kinds][-1] == ("lowpower", "0-1")


@pytest.mark.parametrize(
    ("midr", "name"),
    [
        (0x410FD871, "Cortex-A725"),
        (0x410FD851, "Cortex-X925"),
        (0x413FD0C1, "Neoverse-N1"),
        (0x410FD4F0, "Neoverse-V2"),
        (0xC00FAC30, "Ampere-1"),
        (0x431F0AF1, "ThunderX2"),
        (0x481FD010, "TaiShan-v110"),
        (0x611F0230, "Firestorm-M1"),
        (0x410FDFF0, "implementer 0x41 part 0xdff"),
        (0x99000000, "implementer 0x99 part 0x000"),
    ],
)
def test_names_of_arm_cores(midr: int, name: str) -> None:
    """MIDRs as machines print them: implementer, variant, 0xf, part, revision."""
    assert core_name(midr) == name


def test_x86_has_no_midr_and_one_stanza_of_cpuinfo_is_enough(b: SysfsBuilder) -> None:
    flat(b)
    first = "processor\t: 0\nvendor_id\t: AuthenticAMD\nflags\t\t: fpu lm hypervisor\n"
    b.file("proc/cpuinfo", f"{first}\nprocessor\t: 1\nvendor_id\t: Other\nflags\t: x\n\n")
    b.attribute("0-7", "regs/identification/midr_el1", "0x410fd870")
    partial = read(b)
    assert partial.arch == "x86_64"
    assert partial.kinds is None
    assert partial.virtualization is not None
    assert partial.virtualization.vm is True
