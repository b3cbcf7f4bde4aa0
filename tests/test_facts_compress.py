"""Rows into groups, and groups into text: nothing is lost on the way."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.cpuset import CpuSet, union
from compiler.facts.compress import compress
from compiler.facts.table import CpuRow
from compiler.facts.write import cpu_list

KINDS = st.sampled_from(["performance", "efficiency", "standard"])
PLACE = st.none() | st.integers(0, 2)


@st.composite
def machines(draw: st.DrawFn) -> list[CpuRow]:
    """CPUs with sparse ids, thrown together into cores of one to four threads."""
    left = draw(st.lists(st.integers(0, 70), unique=True, min_size=1, max_size=24))
    rows = []
    while left:
        threads = CpuSet(left[: draw(st.sampled_from([1, 2, 2, 2, 4]))])
        left = left[len(threads) :]
        llc, numa, package = draw(PLACE), draw(PLACE), draw(PLACE)
        kind, capacity = draw(KINDS), draw(st.sampled_from([None, 512, 1024]))
        die, cluster = draw(PLACE), draw(PLACE)
        rows += [
            CpuRow(cpu, threads, llc, numa, package, kind, capacity, die, cluster)
            for cpu in threads
        ]
    return sorted(rows, key=lambda row: row.cpu)


@given(machines())
@settings(max_examples=200)
def test_groups_say_what_the_rows_said(rows: list[CpuRow]) -> None:
    groups = compress(rows)
    back = {
        cpu: CpuRow(cpu, core, g.llc, g.numa, g.package, g.kind, g.capacity, g.die, g.cluster)
        for g in groups
        for core in g.cores()
        for cpu in core
    }
    assert back == {row.cpu: row for row in rows}
    assert sum(len(group.cpus) for group in groups) == len(rows)
    assert [g.cpus.lowest for g in groups] == sorted(g.cpus.lowest for g in groups)
    assert compress(list(reversed(rows))) == groups


def test_regular_machines_become_few_groups() -> None:
    for distance in (1, 64, 68):
        cores = [
            CpuSet((cpu, cpu + 1) if distance == 1 else (cpu, cpu + distance))
            for cpu in (range(0, 128, 2) if distance == 1 else range(distance))
        ]
        rows = [CpuRow(cpu, core, llc=0) for core in cores for cpu in core]
        (group,) = compress(rows)
        assert list(group.cores()) == cores
        assert group.cpus == union(cores)


@given(st.sets(st.integers(0, 200), max_size=60))
@settings(max_examples=200)
def test_the_short_form_of_a_list_is_read_back_equal(ids: set[int]) -> None:
    cpus = CpuSet(ids)
    text = cpu_list(cpus)
    assert CpuSet.parse(text) == cpus
    assert len(text) <= len(str(cpus))


def test_even_spacing_is_written_as_one_item() -> None:
    assert cpu_list(CpuSet(range(0, 112, 2))) == "0-110:1/2"
    assert cpu_list(CpuSet.parse("0-1,4-5,8-9,12-13,20")) == "0-13:2/4,20"
    assert cpu_list(CpuSet.parse("0,2,4")) == "0,2,4"
    assert cpu_list(CpuSet.parse("0-3,8-11")) == "0-3,8-11"
    assert cpu_list(CpuSet()) == ""
