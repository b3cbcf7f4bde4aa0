"""``tierc facts show``: nothing of a machine is lost, and people can read it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.cpuset import CpuSet, union
from compiler.model.facts import NodeFacts
from compiler.picture.machine import Box, MachineLane
from compiler.picture.machine_layout import machine_picture
from compiler.report.machine_json import machine_data, render_machine_json
from compiler.report.machine_svg import render_machine_svg
from compiler.report.machine_text import render_machine_text
from tests.conftest import Golden
from tests.machine_samples import MACHINES, draw, grace, node, sub_numa, virtual, workstation
from tests.machines import cached_machines, facts, gb10, gpu, machines, plain

# --- the pictures ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(MACHINES))
def test_the_drawing_of_a_machine(name: str, golden: Golden) -> None:
    golden.file(f"machines/{name}.txt", draw(MACHINES[name]()).encode())


def test_lanes_are_drawn_where_they_are_given(golden: Golden) -> None:
    lanes = [
        MachineLane("chat", CpuSet.parse("5-9"), "latency, guarded"),
        MachineLane("batch", CpuSet.parse("0-4,10-14"), "background"),
        MachineLane("spare", CpuSet.parse("9-10")),
    ]
    machine = machine_picture(gb10(), lanes)
    text = render_machine_text(machine)
    golden.file("machines/gb10-lanes.txt", text.encode())
    golden.file("machines/gb10-lanes.svg", render_machine_svg(machine).encode())
    assert "5 6 7 8 [A]" in text
    assert "9 [A,C]" in text
    assert "[B]  batch: 0-4,10-14, background" in text
    data = machine_data(machine)
    assert data["lanes"][2] == {
        "letter": "C", "name": "spare", "cpus": "9-10", "detail": "", "role": "lane", "family": None
    }  # fmt: skip
    owners = {row["cores"][0]: row["lanes"] for row in all_rows(data["boxes"])}
    assert owners == {
        "5": [["A"]], "9": [["A", "C"]], "0": [["B"]],
        "15": [[]], "10": [["B", "C"]], "11": [["B"]],
    }  # fmt: skip


def test_a_lane_on_one_thread_of_each_core_says_so() -> None:
    machine = machine_picture(workstation(), [MachineLane("a", CpuSet.parse("0-7"))])
    assert re.search(r"6\+22 7\+23 \[A/-\]", render_machine_text(machine))


def test_there_are_letters_for_any_number_of_lanes() -> None:
    lanes = [MachineLane(f"l{i}", CpuSet([i])) for i in range(30)]
    machine = machine_picture(plain(30), lanes)
    assert [key.letter for key in machine.lanes][24:29] == ["Y", "Z", "AA", "AB", "AC"]


# --- nothing is lost -------------------------------------------------------------------------


def all_rows(boxes: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for box in boxes:
        yield from box["rows"]
        yield from all_rows(box["boxes"])


def cpus_of(box: dict[str, Any]) -> list[int]:
    return [cpu for row in all_rows([box]) for core in row["cores"] for cpu in CpuSet.parse(core)]


def check_data(sample: NodeFacts) -> None:
    """Every online CPU is in the data once, in the box that its group of cores names."""
    data = json.loads(render_machine_json(machine_picture(sample)))
    found = [cpu for box in data["boxes"] for cpu in cpus_of(box)]
    assert sorted(found) == sorted(sample.spec.cpus.online)
    cores = {core for row in all_rows(data["boxes"]) for core in row["cores"]}
    assert cores == {str(core) for group in sample.spec.cores for core in group.cores()}
    said = {cpu: group for group in sample.spec.cores for cpu in group.cpus}

    def visit(box: dict[str, Any]) -> None:
        inside = cpus_of(box)
        assert CpuSet(inside) == CpuSet.parse(box["cpus"])
        for cpu in inside:
            if box["level"] in ("package", "die", "numa") and len(box["ids"]) <= 1:
                where = getattr(said[cpu], box["level"])
                assert box["ids"] == ([] if where is None else [where])
        for part in box["boxes"]:
            visit(part)

    for box in data["boxes"]:
        visit(box)


def named_in(text: str) -> list[int]:
    """Return every CPU that the frames of a wide drawing name, as often as they do."""
    out: list[int] = []
    for line in text.splitlines():
        if "│" not in line:
            continue
        for part in re.split(r" ?│ ?", line):
            if "┌" in part or "└" in part:
                continue
            body = re.sub(r"^ *(performance|efficiency|lowpower|standard)( \d{3,4}  )?", "", part)
            body = re.sub(r"\bby \d+", "", body)
            for item in re.findall(r"(?<![\w[/])\d[\d,/:-]*", re.sub(r"\[.*?\]", "", body)):
                out += CpuSet.parse(item)
    return out


def without_devices(sample: NodeFacts) -> NodeFacts:
    return sample.model_copy(update={"spec": sample.spec.model_copy(update={"devices": ()})})


@settings(max_examples=80)
@given(machines(max_cores=9) | cached_machines(max_cores=40, max_caches=9))
def test_no_cpu_is_missing_or_drawn_twice(sample: NodeFacts) -> None:
    check_data(sample)
    text = draw(without_devices(sample), width=4000)
    assert sorted(named_in(text)) == sorted(sample.spec.cpus.online)


@pytest.mark.parametrize("name", sorted(MACHINES))
def test_no_cpu_of_a_real_machine_is_missing(name: str) -> None:
    sample = MACHINES[name]()
    check_data(sample)
    text = draw(without_devices(sample), width=4000)
    assert sorted(named_in(text)) == sorted(sample.spec.cpus.online)


@settings(max_examples=40)
@given(machines(max_cores=9), st.integers(40, 130))
def test_no_line_is_wider_than_asked(sample: NodeFacts, width: int) -> None:
    for ascii_only in (False, True):
        text = draw(sample, width, ascii_only=ascii_only)
        assert max(len(line) for line in text.splitlines()) <= width
        assert text.isascii() or not ascii_only


@pytest.mark.parametrize("name", sorted(MACHINES))
@pytest.mark.parametrize("width", [40, 80, 132])
def test_real_machines_fit_any_width(name: str, width: int) -> None:
    text = draw(MACHINES[name](), width)
    assert max(len(line) for line in text.splitlines()) <= width
    colored = draw(MACHINES[name](), width, color=True)
    assert re.sub(r"\x1b\[[\d;]*m", "", colored) == text


def test_a_narrow_drawing_loses_no_device_and_no_word() -> None:
    sample = MACHINES["two-sockets"]()
    text = re.sub(r"[│\s]+", " ", draw(sample, 40))
    for one in sample.spec.devices:
        assert f"{one.id} {one.bdf} " in text
    assert text.count("HBM3") == 8


def test_8192_cpus_are_drawn() -> None:
    sample = facts([{"cpus": "0-8191"}], online="0-8191")
    check_data(sample)
    assert "│ 0-8191 " in draw(sample)
    assert ">0-8191<" in render_machine_svg(machine_picture(sample))


# --- where things are ------------------------------------------------------------------------


def boxes_of(sample: NodeFacts) -> list[Box]:
    return list(machine_picture(sample).all_boxes())


def test_levels_are_nested_as_they_are_on_the_machine() -> None:
    assert machine_picture(gb10()).levels == ("numa", "llc")
    assert machine_picture(MACHINES["two-sockets"]()).levels == ("package", "numa", "llc")
    assert machine_picture(sub_numa()).levels == ("package", "llc", "numa")
    assert machine_picture(virtual()).levels == ("numa", "llc", "package")
    assert machine_picture(facts([{"cpus": "0-3"}], online="0-3")).levels == ("machine",)


def test_boxes_of_one_core_are_joined_only_where_their_cores_are_alike() -> None:
    """The n-th id must stay that of the n-th core."""
    rows = [{"cpus": str(i), "package": 10 + i} for i in range(12)]
    sample = facts(rows, online="0-11", cpus={"isolated": "4-5"})
    assert [(b.ids, str(b.cpus), len(b.rows)) for b in boxes_of(sample)] == [
        ((10, 11, 12, 13), "0-3", 1),
        ((14, 15), "4-5", 1),
        ((16, 17, 18, 19, 20, 21), "6-11", 1),
    ]


def test_siblings_that_do_not_pair_up_in_order_are_listed_core_by_core() -> None:
    rows = [{"cpus": f"{i},{79 - i}", "smt": [str(i), str(79 - i)]} for i in range(40)]
    text = draw(facts(rows, online="0-79"), 4000)
    assert " ".join(f"{i}+{79 - i}" for i in range(40)) in text
    assert "0-39 + 40-79" not in text


def test_dies_are_drawn_only_where_a_package_has_several() -> None:
    def dies(*ids: int) -> NodeFacts:
        rows = [{"cpus": f"{i}", "package": i // 2, "die": die} for i, die in enumerate(ids)]
        return facts(rows, online="0-3")

    assert machine_picture(dies(0, 0, 0, 0)).levels == ("package",)
    picture = machine_picture(dies(0, 1, 0, 1))
    assert picture.levels == ("package", "die")
    assert [(b.ids, str(b.cpus)) for b in picture.all_boxes() if b.level == "die"] == [
        ((0,), "0"), ((1,), "1"), ((0,), "2"), ((1,), "3"),
    ]  # fmt: skip


def test_a_node_over_two_packages_is_drawn_in_both_as_a_part() -> None:
    rows = [
        {"cpus": "0-1", "package": 0, "numa": 0},
        {"cpus": "2-3", "package": 1, "numa": 0},
        {"cpus": "4-5", "package": 1, "numa": 1},
    ]
    sample = facts(rows, online="0-5", numa={0: "0-3", 1: "4-5"})
    found = [(b.ids, str(b.cpus), b.part) for b in boxes_of(sample) if b.level == "numa"]
    assert found == [((0,), "0-1", True), ((0,), "2-3", True), ((1,), "4-5", False)]
    assert draw(sample).count("NUMA 0 (part)") == 2


def test_cores_of_no_node_and_no_cache_are_drawn_as_such() -> None:
    sample = facts(
        [{"cpus": "0-1", "numa": 0, "llc": 0}, {"cpus": "2-3"}],
        online="0-3", llcs={0: "0-1"}, numa={0: "0-1"},
    )  # fmt: skip
    text = draw(sample)
    assert "in no NUMA node · cache unknown" in text
    check_data(sample)


def test_a_device_is_in_the_smallest_box_that_holds_the_cpus_near_it() -> None:
    sample = facts(
        [{"cpus": "0-3", "llc": 0, "numa": 0}, {"cpus": "4-7", "llc": 1, "numa": 0}],
        online="0-7", llcs={0: "0-3", 1: "4-7"}, numa={0: "0-7"},
        devices=(
            gpu("gpu10", "0-7"), gpu("gpu9", "4-7"), gpu("gpu2", "5-6"), gpu("gpu3", "3-4"),
            gpu("gpu4", None), gpu("gpu5", ""),
        ),
    )  # fmt: skip
    picture = machine_picture(sample)
    where = {d.id: (b.level, b.ids) for b in picture.all_boxes() for d in b.devices}
    assert where == {
        "gpu10": ("numa", (0,)), "gpu9": ("llc", (1,)),
        "gpu2": ("llc", (1,)), "gpu3": ("numa", (0,)),
    }  # fmt: skip
    assert [d.id for d in picture.unplaced] == ["gpu4", "gpu5"]
    assert picture.devices == ()
    text = draw(sample)
    assert "gpu2 near CPU 5-6" in text
    assert re.search(r"│ gpu9 +│", text), "nothing more is said where it is near the whole box"
    assert text.index("gpu3") < text.index("gpu10"), "gpu10 comes after gpu3"
    apart = text[text.index("devices near no CPU, or not known to which:") :]
    assert "  gpu4\n" in apart
    assert "  gpu5 near no CPU\n" in apart


def test_a_device_near_several_outermost_boxes_is_below_them() -> None:
    sample = facts(
        [{"cpus": "0-1", "package": 0}, {"cpus": "2-3", "package": 1}],
        online="0-3", devices=(gpu("nic0", "1-2", kind="nic"),),
    )  # fmt: skip
    assert [d.id for d in machine_picture(sample).devices] == ["nic0"]
    assert "\nnic0 near CPU 1-2\n" in draw(sample)


def test_how_a_place_is_known_is_said_unless_it_was_measured() -> None:
    def one(confidence: str) -> str:
        locality = {"cpus": "0-3", "scope": "numa", "confidence": confidence}
        row = {"id": "gpu0", "type": "gpu", "bdf": "0000:01:00.0", "locality": locality}
        return draw(
            facts([{"cpus": "0-3", "numa": 0}], online="0-3", numa={0: "0-3"}, devices=(row,))
        )

    assert "gpu0 0000:01:00.0 (suspect)" in one("suspect")
    assert "gpu0 0000:01:00.0 (inferred)" in one("inferred")
    assert "gpu0 0000:01:00.0 " in one("measured")
    assert "(" not in one("measured").split("gpu0")[1]


def test_an_override_moves_a_device() -> None:
    sample = MACHINES["workstation"]()
    spec = sample.spec.model_dump(by_alias=True, exclude_none=True)
    spec["overrides"] = {"devices": ({"id": "gpu1", "cpus": "8-15"},)}
    picture = machine_picture(node(spec))
    assert picture.unplaced == ()
    assert [d.id for b in picture.all_boxes() for d in b.devices if b.ids == (8,)] == ["gpu1"]


def test_nodes_without_cpus_are_listed_and_instances_counted() -> None:
    text = draw(grace())
    assert "NUMA 1: 95 GiB GPU memory" in text
    assert "NUMA 2-8: empty" in text
    assert "in 2 instances" in text
    assert "mig0" not in text
    data = machine_data(machine_picture(grace()))
    assert [(m["ids"], m["role"], m["memoryMiB"]) for m in data["memory"]] == [
        ([1], "gpu-memory", 97280), (list(range(2, 9)), "unknown", 0),
    ]  # fmt: skip


# --- marks -----------------------------------------------------------------------------------


def test_only_marks_that_are_used_are_explained() -> None:
    text = draw(plain(4, cpus={"present": "0-3"}))
    assert not re.search(r"^\S+ +(isolated|nohz_full|not allowed|the kubelet)", text, re.MULTILINE)
    assert "offline" not in text
    assert "A + B" not in text


def test_every_mark_is_at_its_cpus_and_explained() -> None:
    sample = plain(
        8,
        cpus={
            "possible": "0-11", "present": "0-9", "isolated": "6-7", "nohzFull": "7",
            "allowed": "0-1,4-7",
        },
        kubelet={"present": True, "policy": "none", "exclusive": "5"},
    )  # fmt: skip
    lines = draw(sample).splitlines()
    assert {"│ 0 1 4", "│ 2 3 x", "│ 5 k", "│ 6 i", "│ 7 in"} <= {
        line.rstrip(" │") for line in lines
    }
    assert lines[-4:] == [
        "i  isolated: 6-7", "n  nohz_full: 7", "x  not allowed: 2-3", "k  the kubelet's: 5",
    ]  # fmt: skip
    assert "offline CPUs: 8-9" in lines


def test_overrides_win_in_marks() -> None:
    sample = plain(4, cpus={"isolated": "3"}, overrides={"isolated": "", "allowed": "0-2"})
    text = draw(sample)
    assert "isolated" not in text
    assert "x  not allowed: 3" in text


def test_the_kubelet_and_the_kernel_are_summed_up() -> None:
    head = draw(MACHINES["two-sockets"](), 200)
    assert "kubelet    CPU policy static, topology policy restricted, reserved 0-3,112-115" in head
    assert "kernel     5.15.0-1042, cgroup v2\n" in head
    assert "sched_ext  not in this kernel" in head
    assert "supported, enabled, lavd" in draw(workstation())
    assert "runs in    a virtual machine (kvm)" in draw(virtual())
    assert "warning: gpu1: numa_node is -1" in draw(workstation()).splitlines()[-1]


def test_boxes_hold_what_is_inside_them() -> None:
    for make in MACHINES.values():
        for box in boxes_of(make()):
            if box.boxes:
                assert union(part.cpus for part in box.boxes) == box.cpus
