"""hwloc XML: kinds of cores."""

from __future__ import annotations

import pytest

from compiler.facts.partial import KindPart
from tests.hwloc_xml import (
    FOUR,
    core,
    cpukind,
    cpus,
    notes,
    obj,
    read,
    topology,
)


def test_core_types_make_kinds_whatever_their_clocks() -> None:
    partial = read(
        topology(
            *FOUR,
            after=cpukind(0x8, 0, CoreType="IntelAtom", FrequencyMaxMHz=3900)
            + cpukind(0x2, 1, CoreType="IntelCore", FrequencyMaxMHz=5000)
            + cpukind(0x5, 2, CoreType="IntelCore", FrequencyMaxMHz=5200),
        )
    )
    assert partial.kinds == (
        KindPart("performance", cpus("0-2"), "cpukind"),
        KindPart("efficiency", cpus("3"), "cpukind"),
    )


def test_small_cores_outside_the_l3_are_low_power() -> None:
    partial = read(
        topology(
            obj("L3Cache", 0x7, core(0), core(1), core(2)),
            obj("L2Cache", 0x8, core(3)),
            after=cpukind(0xC, 0, CoreType="IntelAtom") + cpukind(0x3, 1, CoreType="IntelCore"),
        )
    )
    assert partial.kinds is not None
    assert [(kind.name, str(kind.cpus)) for kind in partial.kinds] == [
        ("performance", "0-1"),
        ("efficiency", "2"),
        ("lowpower", "3"),
    ]
    named = read(
        topology(
            *FOUR, after=cpukind(8, CoreType="IntelLowPower") + cpukind(7, CoreType="IntelCore")
        )
    )
    assert named.kinds is not None
    assert [kind.name for kind in named.kinds] == ["performance", "lowpower"]


def test_one_core_type_means_that_all_are_alike() -> None:
    after = cpukind(0x3, CoreType="IntelCore") + cpukind(0xC, CoreType="IntelCore")
    assert read(topology(*FOUR, after=after)).kinds == ()
    assert read(topology(*FOUR, after=cpukind(0xF, CoreType="other"))).kinds == ()


def test_clocks_alone_make_no_kinds() -> None:
    after = cpukind(0x3, 0, FrequencyMaxMHz=3402) + cpukind(0xC, 1, FrequencyMaxMHz=3411)
    partial = read(topology(*FOUR, after=after))
    assert partial.kinds is None
    assert "differ in clocks at most" in notes(partial)
    assert read(topology(*FOUR, after=cpukind(0xF, FrequencyMaxMHz=3600))).notes == ()


def test_capacities_make_kinds_where_there_is_a_clear_gap() -> None:
    after = (
        cpukind(0x3, 0, LinuxCapacity=400)
        + cpukind(0x4, 1, LinuxCapacity=900)
        + cpukind(0x8, 2, LinuxCapacity=1024)
    )
    partial = read(topology(*FOUR, after=after))
    assert partial.kinds == (
        KindPart("performance", cpus("2-3"), "cpukind", figure="LinuxCapacity", value=1024),
        KindPart("efficiency", cpus("0-1"), "cpukind", figure="LinuxCapacity", value=400),
    )
    assert partial.capacities == {0: 400, 1: 400, 2: 900, 3: 1024}
    flat = read(topology(*FOUR, after=after.replace('"400"', '"800"')))
    assert flat.kinds is None
    assert flat.capacities == {0: 800, 1: 800, 2: 900, 3: 1024}


def test_more_than_three_kinds_end_with_low_power() -> None:
    after = "".join(cpukind(1 << n, LinuxCapacity=c) for n, c in enumerate((1024, 700, 400, 100)))
    partial = read(topology(*FOUR, after=after))
    assert partial.kinds is not None
    assert [(kind.name, str(kind.cpus), kind.value) for kind in partial.kinds] == [
        ("performance", "0", 1024),
        ("efficiency", "1", 700),
        ("lowpower", "2-3", 400),
    ]


def test_kinds_that_split_a_core_are_not_believed() -> None:
    after = cpukind(0x3, 0, CoreType="IntelAtom") + cpukind(0xC, 1, CoreType="IntelCore")
    partial = read(topology(core(0, 2), core(1, 3), after=after))
    assert partial.kinds is None
    assert "split the core of CPU 0,2" in notes(partial)


@pytest.mark.parametrize(
    "after",
    [
        cpukind(0x3, CoreType="IntelAtom"),
        cpukind(0x7, CoreType="IntelAtom") + cpukind(0xC, CoreType="IntelCore"),
    ],
)
def test_kinds_that_do_not_have_every_cpu_once_are_not_believed(after: str) -> None:
    partial = read(topology(*FOUR, after=after))
    assert partial.kinds is None
    assert "every CPU once" in notes(partial)


def test_unknown_core_types_are_ranked_by_efficiency_or_not_at_all() -> None:
    after = cpukind(0x3, 0, CoreType="Slow") + cpukind(0xC, 1, CoreType="Fast")
    partial = read(topology(*FOUR, after=after))
    assert partial.kinds is not None
    assert [(kind.name, str(kind.cpus)) for kind in partial.kinds] == [
        ("performance", "2-3"),
        ("efficiency", "0-1"),
    ]
    unranked = read(topology(*FOUR, after=after.replace(' forced_efficiency="0"', "")))
    assert unranked.kinds is None
    assert "which of the core types Fast, Slow is faster" in notes(unranked)
