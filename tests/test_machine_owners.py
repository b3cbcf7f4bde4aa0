"""Owners of CPUs in pictures of machines: lanes, families, housekeeping, what is left over."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

from hypothesis import given, settings

from compiler.cpuset import CpuSet, union
from compiler.model.facts import NodeFacts
from compiler.picture.machine import Machine, MachineLane
from compiler.picture.machine_layout import machine_picture
from compiler.picture.machine_owners import planned_picture
from compiler.place import LaneRequest, Placement, place
from compiler.report.machine_json import machine_data
from compiler.report.machine_svg import render_machine_svg
from compiler.report.machine_text import render_machine_text
from compiler.topology import topology_of
from tests.machines import lane_lists, machines, plain
from tests.policies import BOX, HEAD, compiled, intent, write
from tests.safe_plans import SYSTEM, plan_of

SVG = "{http://www.w3.org/2000/svg}"

TWO_NODES = (
    HEAD
    + """\
kind: NodeFacts
metadata: {name: two}
spec:
  arch: x86_64
  cpus: {online: 0-31, isolated: ""}
  cores:
    - {cpus: "0-7,16-23", smt: ["0-7", "16-23"], llc: 0, numa: 0, package: 0}
    - {cpus: "8-15,24-31", smt: ["8-15", "24-31"], llc: 1, numa: 1, package: 1}
  llcs: [{id: 0, level: 3, cpus: "0-7,16-23"}, {id: 1, level: 3, cpus: "8-15,24-31"}]
  numa: [{id: 0, cpus: "0-7,16-23", role: cpu}, {id: 1, cpus: "8-15,24-31", role: cpu}]
  devices:
    - {id: gpu0, type: gpu, bdf: "0000:01:00.0", numa: 0,
       locality: {cpus: "0-7,16-23", scope: numa, confidence: measured}}
    - {id: gpu1, type: gpu, bdf: "0000:81:00.0", numa: 1,
       locality: {cpus: "8-15,24-31", scope: numa, confidence: measured}}
"""
)
"""2 x 8 cores with two threads each, a GPU on each side."""

CHAT = """\
workload: {match: [{cgroup: system.slice/chat.service}]}
protect: all
lane: {cores: 3, share: exclusive}
prefer: [gpu-local]
"""
WEB = """\
workload: {match: [{cgroup: system.slice/web.service}]}
keep: interactive
lane: {cores: 2, share: open}
"""
BATCH = """\
workload: {match: [{cgroup: system.slice/batch.service}]}
demote: background
prefer: [leftovers]
"""
SMALL = (
    BOX.replace("online: 0-15", "online: 0-7")
    .replace("{cpus: 0-15, smt: [0-7, 8-15]", "{cpus: 0-7, smt: [0-3, 4-7]")
    .replace("cpus: 0-15", "cpus: 0-7")
)
"""4 cores with two threads each."""


def picture(root: Path, node: str) -> Machine:
    """Compile a policy and return the picture of one of its nodes."""
    compilation, _ = compiled(root)
    group = compilation.of_node(node)
    assert group is not None
    facts = next(one.model for one in compilation.policy.nodes if one.name == node)
    return planned_picture(facts, group.plan)


def family(root: Path) -> Machine:
    files = {
        "nodes/box.yaml": TWO_NODES,
        "intents/batch.yaml": intent("batch", BATCH),
        "intents/chat.yaml": intent("chat", CHAT),
        "intents/web.yaml": intent("web", WEB),
    }
    return picture(write(root, files), "two")


def letters(machine: Machine) -> dict[int, tuple[str, ...]]:
    """Return the letters drawn at each CPU."""
    return {
        cpu: row.lanes[at]
        for row in machine.rows()
        for core in row.cores
        for at, cpu in enumerate(core)
    }


# --- what is drawn ---------------------------------------------------------------------------


def test_a_family_beside_its_gpus_housekeeping_and_what_is_left(tmp_path: Path) -> None:
    """Housekeeping takes cores 0 and 1 (2 of 16); chat 3 cores on each side, the lowest free ones;
    web the two cores that open the fewest caches, the lowest: 5 and 6 beside chat on node 0."""
    machine = family(tmp_path)
    assert [(key.letter, key.lane) for key in machine.lanes] == [
        ("A", MachineLane(
            "chat@numa0", CpuSet.parse("2-4,18-20"),
            "tier latency, exclusive, 3 cores, of family chat, for gpu0; chat", "lane", "chat",
        )),
        ("B", MachineLane(
            "chat@numa1", CpuSet.parse("8-10,24-26"),
            "tier latency, exclusive, 3 cores, of family chat, for gpu1; chat", "lane", "chat",
        )),
        ("C", MachineLane("web", CpuSet.parse("5-6,21-22"),
                          "tier interactive, open, 2 cores; web")),
        ("D", MachineLane("housekeeping", CpuSet.parse("0-1,16-17"), "node software",
                          "housekeeping")),
        ("E", MachineLane("leftovers", CpuSet.parse("7,11-15,23,27-31"), "in no lane",
                          "leftovers")),
    ]  # fmt: skip
    assert {(pool.name, str(pool.cpus)) for pool in machine.pools} == {
        ("batch", "7,11-15,23,27-31"),
        ("what no rule matches", "0-1,5-7,11-17,21-23,27-31"),
    }
    assert machine.notes == ()
    text = render_machine_text(machine, width=100)
    lines = [line.split("│ │") for line in text.splitlines() if "│ │" in line]
    left, right = ([line[i].strip("│ ") for line in lines] for i in (0, 1))
    assert left == ["0+16 1+17 [D]", "2+18 3+19 4+20 [A]", "5+21 6+22 [C]"]
    assert right[:2] == ["8+24  9+25 10+26 [B]", "11+27 12+28 13+29 14+30 15+31 [E]"]
    assert right[2] == "gpu1 0000:81:00.0"
    assert re.search(r"^│ 7\+23 \[E\] +│.*\n│ gpu0 0000:01:00\.0 ", text, re.MULTILINE)
    assert "[A]    chat@numa0: 2-4,18-20, tier latency, exclusive, 3 cores, of family" in text
    assert "no lane  7,11-15,23,27-31: batch\n" in text


def test_housekeeping_and_a_lane_on_one_core_are_both_shown(tmp_path: Path) -> None:
    """Four cores, all asked for: housekeeping shares the lowest core of the lane."""
    body = "workload: {match: [{comm: x}]}\nprotect: all\nlane: {cores: 4}"
    root = write(tmp_path, {"nodes/box.yaml": SMALL, "intents/a.yaml": intent("a", body)})
    machine = picture(root, "box")
    assert [(key.letter, key.lane.name, str(key.lane.cpus)) for key in machine.lanes] == [
        ("A", "a", "0-7"),
        ("B", "housekeeping", "0,4"),
    ]  # nothing is left over, so that has no letter
    both = ("A", "B")
    assert letters(machine) == {cpu: both if cpu in (0, 4) else ("A",) for cpu in range(8)}
    text = render_machine_text(machine)
    assert "│ 0+4 [A,B] " in text
    assert "│ 1+5 2+6 3+7 [A] " in text
    joined = " ".join(text.split())
    assert "note housekeeping: shares CPUs 0,4 with lane a: the minima of the lanes" in joined
    assert "note a: the lane is open to all" in joined
    fills = svg_fills(machine)
    assert fills[1] == fills[2] == [fills[0][0]]
    assert fills[0] == fills[4] == [fills[1][0], "#bcbcbc"]


def test_a_node_without_a_plan_says_so_and_has_no_owners(tmp_path: Path) -> None:
    body = "workload: {match: [{comm: x}]}\nprotect: all\nlane: {cores: 99}"
    root = write(tmp_path, {"intents/a.yaml": intent("a", body)})
    machine = picture(root, "box")
    assert (machine.lanes, machine.pools) == ((), ())
    assert set(letters(machine).values()) == {()}
    said = "no plan, see the findings: lanes are not drawn"
    assert machine.notes == (said,)
    assert f"note  {said}\n" in render_machine_text(machine)
    assert said in render_machine_svg(machine)


def test_stages_are_named_with_their_intent_and_isolated_lanes_are_marked(tmp_path: Path) -> None:
    body = """\
    workload: {engine: vllm, cgroup: system.slice/chat.service}
    protect: decode
    lane: {name: serving, cores: 2}
    prefer: [isolated]
    """
    box = BOX.replace('isolated: ""', "isolated: '3-4,11-12'")
    root = write(tmp_path, {"nodes/box.yaml": box, "intents/a.yaml": intent("chat", body)})
    machine = picture(root, "box")
    assert machine.lanes[0].lane.name == "serving"
    assert str(machine.lanes[0].lane.cpus) == "3-4,11-12"
    detail = machine.lanes[0].lane.detail
    assert detail.startswith("tier latency, guarded, 2 cores, isolated; chat (")
    inside = detail.removesuffix(")").partition("(")[2].split(", ")
    assert "engine-step" in inside
    assert all("/" not in stage for stage in inside)
    assert any(pool.name == "node (gpu-driver, gpu-irq)" for pool in machine.pools)


# --- formats ---------------------------------------------------------------------------------


def svg_fills(machine: Machine) -> dict[int, list[str]]:
    """Return the colours of each CPU's field, left to right."""
    root = ElementTree.fromstring(render_machine_svg(machine))
    found: dict[int, list[str]] = {}
    for group in root.iter(SVG + "g"):
        colours, number = [], None
        for child in group:
            wrapped = len(child) == 1 and child[0].get("class") in ("part", "on")
            one = child[0] if wrapped else child
            if one.tag == SVG + "rect":
                colours += re.findall("fill:([^;]+)", one.get("style") or "")
            if one.tag == SVG + "text" and one.get("class") == "on" and one.text:
                number = int(one.text) if one.text.isdigit() else None
        if number is not None and colours:
            found[number] = [colour for colour in colours if colour != "none"]
    return found


def test_colours_tell_owners_apart_and_never_stand_alone() -> None:
    owners = [MachineLane(f"l{i}", CpuSet([i])) for i in range(6)]
    owners.append(MachineLane("housekeeping", CpuSet([6]), "", "housekeeping"))
    owners.append(MachineLane("leftovers", CpuSet([7]), "", "leftovers"))
    machine = machine_picture(plain(9), owners)
    fills = svg_fills(machine)
    assert sorted(fills) == list(range(9))
    assert len({tuple(colours) for colours in fills.values()}) == 9  # and CPU 8 is nobody's
    svg = render_machine_svg(machine)
    for key in machine.lanes:
        assert f">[{key.letter}]<" in svg  # beside its cores
        assert f">[{key.letter}]  {key.lane.name}: " in svg  # in the legend


def test_json_has_owners_pools_and_notes(tmp_path: Path) -> None:
    data = machine_data(family(tmp_path))
    assert data["version"] == 1
    assert data["lanes"][1] == {
        "letter": "B",
        "name": "chat@numa1",
        "cpus": "8-10,24-26",
        "detail": "tier latency, exclusive, 3 cores, of family chat, for gpu1; chat",
        "role": "lane",
        "family": "chat",
    }
    assert [(one["role"], one["family"]) for one in data["lanes"][2:]] == [
        ("lane", None),
        ("housekeeping", None),
        ("leftovers", None),
    ]
    assert {"name": "batch", "cpus": "7,11-15,23,27-31"} in data["pools"]
    assert data["notes"] == []
    assert data["facts"]["plan"] == "mode fallback"


def test_the_legend_explains_every_nth_where_only_an_owner_has_it() -> None:
    machine = machine_picture(plain(8), [MachineLane("a", CpuSet([0, 2, 4, 6]))])
    text = render_machine_text(machine)
    assert "[A]      a: 0-6:1/2" in text
    assert "A-B:N/M  the first N of every M CPUs" in text
    assert "A-B:N/M" not in render_machine_text(machine_picture(plain(8)))


# --- as a property ---------------------------------------------------------------------------


@given(machines(max_cores=8), lane_lists(3, 4))
@settings(max_examples=150)
def test_each_cpu_has_the_letters_of_its_owners(
    sample: NodeFacts, requests: list[LaneRequest]
) -> None:
    topology = topology_of(sample)
    found = place(topology, requests, None, system_tier=SYSTEM)
    if not isinstance(found, Placement):
        return
    plan = plan_of(topology, requests, found)
    machine = planned_picture(sample, plan)
    drawn = letters(machine)
    assert sorted(drawn) == sorted(topology.online)
    owned: dict[str, set[int]] = {key.letter: set() for key in machine.lanes}
    for cpu, signs in drawn.items():
        for sign in signs:
            owned[sign].add(cpu)
    expected: dict[str, CpuSet] = {lane.name: lane.cpus for lane in plan.lanes}
    expected["housekeeping"] = plan.housekeeping
    if plan.leftovers:
        expected["leftovers"] = plan.leftovers
    assert {key.lane.name: CpuSet(owned[key.letter]) for key in machine.lanes} == expected
    assert topology.effective <= union(key.lane.cpus for key in machine.lanes)
    tiers = [next(lane.tier for lane in plan.lanes if lane.name == key.lane.name)
             for key in machine.lanes if key.lane.role == "lane"]  # fmt: skip
    assert tiers == sorted(tiers)
    data = machine_data(machine)
    assert {one["name"]: one["cpus"] for one in data["lanes"]} == {
        name: str(cpus) for name, cpus in expected.items()
    }
    text = render_machine_text(machine, width=60)
    assert all(len(line) <= 60 for line in text.splitlines())
    assert all(f"[{key.letter}]" in text for key in machine.lanes)
