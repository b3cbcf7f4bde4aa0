"""Lanes whose GPUs are in several localities, through the whole compiler.

Expected CPUs are worked out by hand from docs/placement.md: housekeeping has the lowest two cores
(one below 8 cores), a lane the lowest free cores near its GPUs.
"""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from compiler import safety
from compiler.__main__ import main
from compiler.cpuset import CpuSet, union
from compiler.diagnostics import Diagnostic
from compiler.pipeline import CompiledClass
from compiler.plan import NodePlan
from tests.gpu_nodes import SOCKETS, chiplets, device, grace, node, small, two_sockets
from tests.policies import HEAD, compiled, intent, write


def chat(
    words: str = "prefer: [gpu-local]",
    lane: str = "cores: 2",
    work: str = "",
    name: str = "chat",
    verb: str = "protect: all",
) -> str:
    workload = f'engine: vllm, version: "0.24.0", cgroup: "{name}.slice/**"{work}'
    body = f"workload: {{{workload}}}\n{verb}\n{words}\n"
    return intent(name, body + (f"lane: {{{lane}}}" if lane else ""))


def compile_one(
    root: Path, node: str, *intents: str
) -> tuple[CompiledClass, tuple[Diagnostic, ...]]:
    files = {f"intents/i{n}.yaml": text for n, text in enumerate(intents)}
    result, findings = compiled(write(root, {"nodes/box.yaml": node, **files}))
    return result.classes[0], findings


def planned(root: Path, node: str, *intents: str) -> NodePlan:
    group, findings = compile_one(root, node, *intents)
    assert group.plan is not None, [f.message for f in findings]
    assert safety.check(group.plan) == ()
    return group.plan


def lanes(plan: NodePlan) -> dict[str, str]:
    return {lane.name: str(lane.cpus) for lane in plan.lanes}


def notes(plan: NodePlan) -> dict[str, str]:
    return {row.kind: f"{row.about}: {row.message}" for row in plan.degradations}


class TestTwoSockets:
    """Two sockets of 8 cores, four GPUs each: gpu0-3 near node 0, gpu4-7 near node 1."""

    def test_a_lane_near_each(self, tmp_path: Path) -> None:
        plan = planned(tmp_path, two_sockets(), chat())
        assert str(plan.housekeeping) == "0-1,16-17"
        assert lanes(plan) == {"chat@numa0": "2-3,18-19", "chat@numa1": "8-9,24-25"}
        assert {(lane.family, lane.cores, lane.min_cores) for lane in plan.lanes} == {
            ("chat", 2, 2)
        }
        assert [lane.devices for lane in plan.lanes] == [
            tuple(f"0000:{bus}:00.0" for bus in (10, 11, 12, 13)),
            tuple(f"0000:{bus}:00.0" for bus in (14, 15, 16, 17)),
        ]
        assert str(plan.shared) == "0-1,4-7,10-17,20-23,26-31"
        assert "lane.family" in plan.features
        assert plan.degradations == ()

    def test_units_have_the_union_and_rules_a_band_for_each_member(self, tmp_path: Path) -> None:
        plan = planned(tmp_path, two_sockets(), chat())
        unit = next(u for u in plan.units if u.name == "chat/engine-step")
        assert (unit.lane, str(unit.cpus)) == ("chat", "2-3,8-9,18-19,24-25")
        band = plan.bands[unit.band]
        assert band.hard
        assert band.min_cpus == 4  # two cores of two threads: one member suffices
        mine = [rule for rule in plan.rules if rule.unit == unit.name]
        assert mine
        for rule in mine:
            assert [(one.lane, str(plan.bands[one.band].cpus)) for one in rule.members] == [
                ("chat@numa0", "2-3,18-19"),
                ("chat@numa1", "8-9,24-25"),
            ]
            assert {plan.bands[one.band].tier for one in rule.members} == {band.tier}
        others = [rule for rule in plan.rules if not rule.unit.startswith("chat/")]
        assert others
        assert all(rule.members == () for rule in others)
        assert [lane.name for lane in plan.lanes_of("chat")] == ["chat@numa0", "chat@numa1"]
        assert [lane.name for lane in plan.lanes_of("chat@numa1")] == ["chat@numa1"]
        assert plan.lanes_of("cha") == ()
        assert plan.cpus_of("chat") == unit.cpus

    def test_with_fewer_gpus_on_one_side_both_have_the_size_asked_for(self, tmp_path: Path) -> None:
        plan = planned(
            tmp_path, two_sockets(1, 3), chat("require: [gpu-local]", "cores: {min: 1, max: 4}")
        )
        assert lanes(plan) == {"chat@numa0": "2-5,18-21", "chat@numa1": "8-11,24-27"}

    def test_gpus_of_one_side_are_one_lane(self, tmp_path: Path) -> None:
        work = ', gpus: ["0000:15:00.0", "0000:14:00.0"]'
        plan = planned(tmp_path, two_sockets(), chat(work=work))
        assert lanes(plan) == {"chat": "8-9,24-25"}
        assert plan.lanes[0].family is None
        assert plan.lanes[0].devices == ("0000:14:00.0", "0000:15:00.0")
        assert "lane.family" not in plan.features

    def test_an_override_moves_a_gpu(self, tmp_path: Path) -> None:
        node = two_sockets(1, 1, overrides={"devices": [{"id": "gpu1", "numa": 0}]})
        assert lanes(planned(tmp_path, node, chat())) == {"chat": "2-3,18-19"}

    def test_gpus_near_everything_are_one_lane(self, tmp_path: Path) -> None:
        both = [device("gpu0", "0-31", bus=16), device("gpu1", "0-31", bus=17)]
        plan = planned(tmp_path, two_sockets(0, 0, both), chat())
        assert list(lanes(plan)) == ["chat"]
        assert "gives no locality information here" in notes(plan)["no-locality"]

    def test_a_member_does_not_grow_into_the_other_socket(self, tmp_path: Path) -> None:
        """Node 0 has 6 cores beside housekeeping; of node 1 one core is left over."""
        plan = planned(tmp_path, two_sockets(), chat(lane="cores: {min: 2, max: 8}"))
        assert lanes(plan) == {"chat@numa0": "2-7,18-23", "chat@numa1": "8-14,24-30"}
        assert not plan.degradations

    @pytest.mark.parametrize("wide", ["gpu0", "gpu1"])
    def test_a_member_grows_past_no_sibling_of_a_smaller_locality(
        self, tmp_path: Path, wide: str
    ) -> None:
        """Housekeeping has two of the four cores near one GPU; the other is near eight."""
        near = {True: "0-7,16-23", False: "0-3,16-19"}
        both = [device(id, near[id == wide], bus=16 + i) for i, id in enumerate(("gpu0", "gpu1"))]
        plan = planned(tmp_path, two_sockets(0, 0, both), chat(lane="cores: {min: 2, max: 8}"))
        small = {"gpu0": "gpu1", "gpu1": "gpu0"}[wide]
        assert lanes(plan) == {f"chat@{small}": "2-3,18-19", "chat@numa0": "4-7,20-23"}
        assert not plan.degradations

    def test_other_words_do_not_make_families(self, tmp_path: Path) -> None:
        plan = planned(tmp_path, two_sockets(), chat("prefer: [same-llc, performance]"))
        assert list(lanes(plan)) == ["chat"]
        assert plan.lanes[0].devices == ()

    def test_who_joins_has_the_union(self, tmp_path: Path) -> None:
        web = intent(
            "web",
            """
            workload: {match: [{cgroup: "web.slice/**"}]}
            protect: {path: all, tier: interactive}
            lane: {name: chat}
            """,
        )
        plan = planned(tmp_path, two_sockets(), chat(), web)
        assert lanes(plan) == {"chat@numa0": "2-3,18-19", "chat@numa1": "8-9,24-25"}
        unit = next(u for u in plan.units if u.name == "web")
        assert (unit.lane, unit.cpus) == ("chat", plan.cpus_of("chat"))

    def test_a_family_that_is_exclusive_keeps_all_others_out(self, tmp_path: Path) -> None:
        plan = planned(tmp_path, two_sockets(), chat(lane="cores: 2, share: exclusive"))
        taken = CpuSet.parse("2-3,8-9,18-19,24-25")
        assert all(unit.cpus.isdisjoint(taken) for unit in plan.units if unit.intent != "chat")


class TestNames:
    def test_caches(self, tmp_path: Path) -> None:
        plan = planned(tmp_path, chiplets(), chat("require: [gpu-local]", "cores: 1"))
        assert str(plan.housekeeping) == "0-1"
        # gpu2 is near cache 0, gpu3 near 1, gpu1 near 2, gpu0 near 3
        assert {lane.name: (str(lane.cpus), lane.devices) for lane in plan.lanes} == {
            "chat@llc0": ("2", ("0000:12:00.0",)),
            "chat@llc1": ("4", ("0000:13:00.0",)),
            "chat@llc2": ("8", ("0000:11:00.0",)),
            "chat@llc3": ("12", ("0000:10:00.0",)),
        }

    def test_nodes_keep_their_ids_and_memory_nodes_have_no_lane(self, tmp_path: Path) -> None:
        """C04: the driver names a memory node as the GPU's, and the CPUs near it apart."""
        plan = planned(tmp_path, grace(), chat("require: [gpu-local]"))
        assert lanes(plan) == {"chat@numa0": "2-3", "chat@numa1": "8-9"}

    def test_a_package_and_any_set(self, tmp_path: Path) -> None:
        odd = [device("gpu0", "0-15", bus=16), device("GPU_1", "4,6", bus=17)]
        text = grace().replace('"package": 1', '"package": 0')
        head, _, tail = text.partition("  devices: ")
        node = f"{head}  devices: {json.dumps(odd)}\n{tail.partition(chr(10))[2]}"
        plan = planned(tmp_path, node, chat(lane="cores: 1"))
        assert sorted(lanes(plan)) == ["chat@gpu-1", "chat@package0"]
        assert str(plan.cpus_of("chat@gpu-1")) == "4"


class TestWhatIsNotKnown:
    def test_preferred_it_has_no_part_there(self, tmp_path: Path) -> None:
        node = two_sockets(1, 1, [device("gpu2", None, bus=20)])
        plan = planned(tmp_path, node, chat())
        assert lanes(plan) == {"chat@numa0": "2-3,18-19", "chat@numa1": "8-9,24-25"}
        assert notes(plan) == {
            "gpu-local": "chat: GPU locality unknown: which CPUs are near gpu2 is not known; "
            "no part of it is there"
        }

    def test_required_it_is_refused(self, tmp_path: Path) -> None:
        node = two_sockets(1, 1, [device("gpu2", None, bus=20)])
        group, findings = compile_one(tmp_path, node, chat("require: [gpu-local]"))
        assert group.plan is None
        (found,) = [f for f in findings if f.code == "TRC400"]
        assert "which CPUs are near gpu2 is not known" in found.message
        assert found.span.line == 7

    def test_known_to_be_near_no_cpu(self, tmp_path: Path) -> None:
        node = two_sockets(1, 1, [device("gpu2", "", bus=20)])
        plan = planned(tmp_path, node, chat())
        assert sorted(lanes(plan)) == ["chat@numa0", "chat@numa1"]
        assert "no CPU is near gpu2" in notes(plan)["gpu-local"]
        group, findings = compile_one(tmp_path / "hard", node, chat("require: [gpu-local]"))
        assert group.plan is None
        assert [f.message for f in findings if f.code == "TRC400"] == [
            "lane chat@gpu2 requires gpu-local, but no allowed CPU is near gpu2 (no CPU); "
            "allowed: 0-31"
        ]


class TestRequired:
    def test_a_member_that_does_not_fit_is_named(self, tmp_path: Path) -> None:
        node = two_sockets(overrides={"allowed": "0-9,16-25"})  # two cores of node 1
        group, findings = compile_one(tmp_path, node, chat("require: [gpu-local]", "cores: 3"))
        assert group.plan is None
        (found,) = findings
        assert found.code == "TRC400"
        assert found.message.startswith("lane chat@numa1 needs 3 cores near gpu4")
        assert "2 of them can be had" in found.message
        assert found.span.line == 7  # the word under require


class TestCollapse:
    """Housekeeping shrinks first, then families become one lane, then housekeeping shares."""

    def test_one_lane_where_two_do_not_fit(self, tmp_path: Path) -> None:
        # 4 cores: two members of 2 leave none for housekeeping
        plan = planned(tmp_path, small(2), chat())
        assert lanes(plan) == {"chat": "2-3"}
        assert plan.lanes[0].family is None
        assert len(plan.lanes[0].devices) == 2
        assert str(plan.housekeeping) == "0"
        assert notes(plan)["family-collapsed"].startswith(
            "chat: one lane for all its GPUs instead of chat@numa0 and chat@numa1"
        )
        assert all(rule.members == () for rule in plan.rules)
        assert "lane.family" not in plan.features

    def test_housekeeping_shrinks_before(self, tmp_path: Path) -> None:
        # 8 cores: members of 3 and 4 leave one core of the two that housekeeping wants
        other = chat(words="", lane="cores: 1", name="web", verb="demote: background")
        plan = planned(tmp_path, small(4), chat(lane="cores: 3"), other)
        assert "family-collapsed" not in notes(plan)
        assert "housekeeping-shrunk" in notes(plan)
        assert sorted(lanes(plan)) == ["chat@numa0", "chat@numa1", "web"]

    def test_the_lowest_tier_goes_first_and_only_as_many_as_needed(self, tmp_path: Path) -> None:
        # 8 cores: 4 + 4 leave none for housekeeping; 4 + 2 leave it the two it wants
        low = chat(name="embed", verb="protect: {path: all, tier: interactive}")
        plan = planned(tmp_path, small(4), chat(), low)
        assert sorted(lanes(plan)) == ["chat@numa0", "chat@numa1", "embed"]
        assert notes(plan).keys() == {"family-collapsed"}
        assert notes(plan)["family-collapsed"].startswith("embed: ")
        assert len(plan.housekeeping) == 2

    def test_required_ones_do_not(self, tmp_path: Path) -> None:
        group, findings = compile_one(tmp_path, small(2), chat("require: [gpu-local]"))
        # housekeeping shares instead: nothing else may give way
        assert group.plan is not None
        assert sorted(lanes(group.plan)) == ["chat@numa0", "chat@numa1"]
        assert "housekeeping-shared" in notes(group.plan)
        assert {f.code for f in findings} == {"TRC402", "TRC502"}

    def test_a_number_for_housekeeping_holds(self, tmp_path: Path) -> None:
        project = HEAD + "kind: Project\nspec: {reserve: {housekeeping: 2}}\n"
        root = write(
            tmp_path,
            {"nodes/box.yaml": small(2), "intents/a.yaml": chat(), "tierc.yaml": project},
        )
        plan = compiled(root)[0].classes[0].plan
        assert plan is not None
        assert str(plan.housekeeping) == "0-1"
        assert lanes(plan) == {"chat": "2-3"}


class TestSpanning:
    def test_an_engine_wider_than_a_socket_has_cores_on_both(self, tmp_path: Path) -> None:
        """C21 c."""
        plan = planned(tmp_path, two_sockets(), chat(lane="cores: 4", work=", tensorParallel: 5"))
        assert lanes(plan) == {"chat": "2-3,8-9,18-19,24-25"}
        assert plan.lanes[0].family is None
        assert len(plan.lanes[0].devices) == 8
        assert plan.degradations == ()
        assert all(rule.members == () for rule in plan.rules)

    @pytest.mark.parametrize(
        ("cores", "left", "right"), [(1, 0, 1), (2, 1, 1), (3, 1, 2), (6, 2, 4), (9, 3, 6)]
    )
    def test_cores_in_proportion_to_gpus(
        self, tmp_path: Path, cores: int, left: int, right: int
    ) -> None:
        """X11: one GPU on node 0, two on node 1, one workload wants all."""
        node = two_sockets(1, 2)
        plan = planned(tmp_path, node, chat(lane=f"cores: {cores}", work=", gpus: all"))
        (lane,) = plan.lanes
        sides = [len(lane.cpus & CpuSet.parse(side)) // 2 for side in SOCKETS]
        assert sides == [left, right]

    def test_it_grows_on_both_sides(self, tmp_path: Path) -> None:
        plan = planned(
            tmp_path,
            two_sockets(),
            chat(lane="cores: {min: 1, max: 6}", work=", tensorParallel: 8"),
        )
        assert lanes(plan) == {"chat": "2-4,8-10,18-20,24-26"}
        assert (plan.lanes[0].min_cores, plan.lanes[0].max_cores) == (1, 6)

    def test_a_full_side_is_made_up_for_on_the_other(self, tmp_path: Path) -> None:
        node = two_sockets(overrides={"allowed": "0-9,16-25"})
        plan = planned(tmp_path, node, chat(lane="cores: 6", work=", gpus: all"))
        assert lanes(plan) == {"chat": "2-5,8-9,18-21,24-25"}
        assert notes(plan)["gpu-local"].startswith("chat@numa1: 1 of 3 cores is not local to gpu4")

    def test_isolated_or_not_as_a_whole(self, tmp_path: Path) -> None:
        node = two_sockets().replace('"isolated": ""', '"isolated": "6-8,22-24"')
        words = "prefer: [gpu-local, isolated]"
        plan = planned(tmp_path / "a", node, chat(words, "cores: 2", ", gpus: all"))
        assert lanes(plan) == {"chat": "6,8,22,24"}
        assert plan.lanes[0].isolated
        plan = planned(tmp_path / "b", node, chat(words, "cores: 4", ", gpus: all"))
        assert lanes(plan) == {"chat": "2-3,9-10,18-19,25-26"}
        assert not plan.lanes[0].isolated
        assert notes(plan)["isolated"].startswith("chat: the machine has 3 isolated cores")

    def test_one_cache_cannot_span(self, tmp_path: Path) -> None:
        words = "prefer: [gpu-local]\nrequire: [same-llc]"
        text = chat(words, "cores: 4", ", gpus: all")
        group, findings = compile_one(tmp_path, two_sockets(1, 2), text)
        assert group.plan is not None
        assert lanes(group.plan) == {"chat": "8-11,24-27"}
        (found,) = [f for f in findings if f.code == "TRC402"]
        assert found.message == (
            "lane chat: its GPUs are in several localities (numa0 and numa1), and no last-level "
            "cache has cores near all of them: as same-llc is required, it has no cores near some"
        )
        assert found.help == "write same-llc under prefer: then it has cores near all of its GPUs"

    @pytest.mark.parametrize("most", [1, 2])
    def test_one_core_is_not_divided_either_way(self, tmp_path: Path, most: int) -> None:
        words = "prefer: [gpu-local]\nrequire: [same-llc]"
        size = f"cores: {{min: 1, max: {most}}}"
        plan = planned(tmp_path, two_sockets(), chat(words, size, ", gpus: all"))
        assert ("not-divided" in notes(plan)) == (most > 1)

    def test_a_cache_near_all_gpus_needs_no_division(self, tmp_path: Path) -> None:
        """Sub-NUMA clusters: two NUMA nodes under one cache."""
        halves = ("0-3", "4-7")
        node_text = node(
            [{"cpus": cpus, "llc": 0, "numa": i} for i, cpus in enumerate(halves)],
            [device(f"gpu{i}", cpus, bus=16 + i) for i, cpus in enumerate(halves)],
            online="0-7",
            llcs={0: "0-7"},
            numa=dict(enumerate(halves)),
        )
        words = "prefer: [gpu-local]\nrequire: [same-llc]"
        plan = planned(tmp_path, node_text, chat(words, "cores: 3", ", gpus: all"))
        assert "not-divided" not in notes(plan)

    def test_too_large_for_one_cache_says_that_it_could_be_divided(self, tmp_path: Path) -> None:
        words = "prefer: [gpu-local]\nrequire: [same-llc]"
        text = chat(words, "cores: 9", ", gpus: all")
        group, findings = compile_one(tmp_path, two_sockets(), text)
        assert group.plan is None
        (found,) = [f for f in findings if f.code == "TRC400"]
        assert "the most usable in one is 8" in found.message
        assert found.help.startswith(
            "write same-llc under prefer: then it has cores near all of its GPUs; or write "
        )

    def test_what_is_not_known_of_the_machine_is_said_once(self, tmp_path: Path) -> None:
        """X04 in a lane of two shares: no cache is known, and there is no NIC."""
        text = two_sockets()
        head, _, tail = text.partition("  llcs: ")
        text = f"{head}  llcs: []\n{tail.partition(chr(10))[2]}".replace('"llc": 0, ', "")
        text = text.replace('"llc": 1, ', "")
        words = "prefer: [gpu-local, same-llc, nic-local]"
        plan = planned(tmp_path, text, chat(words, "cores: 4", ", gpus: all"))
        assert [(row.about, row.kind, row.message) for row in plan.degradations] == [
            ("chat", "nic-local", "the machine has no NIC"),
            ("chat", "same-llc", "which cores share a last-level cache is not known"),
        ]


class TestWidthOfAnEngine:
    def test_wider_than_any_locality_is_refused_where_it_must_be_local(
        self, tmp_path: Path
    ) -> None:
        """C21 a."""
        group, findings = compile_one(
            tmp_path, two_sockets(), chat("require: [gpu-local]", work=", tensorParallel: 5")
        )
        assert group.plan is None
        (found,) = [f for f in findings if f.code == "TRC400"]
        assert (found.span.path.rpartition("/")[2], found.span.line) == ("i0.yaml", 7)
        assert "uses 5 GPUs at once" in found.message
        assert "the largest locality, numa0 (CPUs 0-7,16-23), has 4" in found.message

    def test_a_quarantined_node_is_a_warning(self, tmp_path: Path) -> None:
        project = HEAD + "kind: Project\nspec: {onUnplaceable: quarantine}\n"
        text = chat("require: [gpu-local]", work=", tensorParallel: 5")
        root = write(
            tmp_path,
            {"nodes/box.yaml": two_sockets(), "intents/a.yaml": text, "tierc.yaml": project},
        )
        result, findings = compiled(root)
        assert result.classes[0].plan is None
        assert "TRC401" in {f.code for f in findings}

    def test_as_wide_as_every_locality_needs_a_free_one(self, tmp_path: Path) -> None:
        """C21 b."""
        group, findings = compile_one(
            tmp_path, two_sockets(), chat("require: [gpu-local]", work=", tensorParallel: 4")
        )
        assert group.plan is not None
        assert sorted(lanes(group.plan)) == ["chat@numa0", "chat@numa1"]
        (found,) = [f for f in findings if f.code == "TRC332"]
        assert "only where all GPUs of numa0 or numa1 are free" in found.message
        assert found.span.line == 7

    @pytest.mark.parametrize(
        ("left", "right", "words", "tp"),
        [(4, 5, "require", 4), (4, 4, "prefer", 4), (1, 1, "require", 1), (4, 0, "require", 4)],
    )
    def test_no_warning_where_there_is_slack(
        self, tmp_path: Path, left: int, right: int, words: str, tp: int
    ) -> None:
        text = chat(f"{words}: [gpu-local]", work=f", tensorParallel: {tp}")
        group, findings = compile_one(tmp_path, two_sockets(left, right), text)
        assert group.plan is not None
        assert "TRC332" not in {f.code for f in findings}

    def test_a_locality_with_too_few_gpus_has_no_member(self, tmp_path: Path) -> None:
        extra = [device("gpu9", "8-9,24-25", bus=40)]
        node = two_sockets(2, 2, extra)
        plan = planned(tmp_path, node, chat(work=", tensorParallel: 2"))
        assert sorted(lanes(plan)) == ["chat@numa0", "chat@numa1"]
        assert notes(plan) == {
            "locality-too-small": "chat: gpu9 has 1 GPU, and an engine uses 2 (tensorParallel): "
            "it has no cores there"
        }

    def test_with_one_host_left_it_is_a_lane(self, tmp_path: Path) -> None:
        plan = planned(tmp_path, two_sockets(1, 2), chat(work=", tensorParallel: 2"))
        assert lanes(plan) == {"chat": "8-9,24-25"}
        assert plan.lanes[0].devices == ("0000:11:00.0", "0000:12:00.0")
        assert "locality-too-small" in notes(plan)

    def test_what_counts_is_the_gpus_of_one_intent(self, tmp_path: Path) -> None:
        """Of node 0's two GPUs each engine may use one, and it needs two."""
        plan = planned(
            tmp_path,
            two_sockets(2, 4),
            *(
                chat(
                    lane="name: x, cores: 1",
                    work=f", tensorParallel: 2, gpus: {json.dumps(gpus)}",
                    name=name,
                )
                for name, gpus in (
                    ("a", ["0000:10:00.0", "0000:12:00.0", "0000:13:00.0"]),
                    ("b", ["0000:11:00.0", "0000:14:00.0", "0000:15:00.0"]),
                )
            ),
        )
        assert lanes(plan) == {"x": "8,24"}
        assert notes(plan)["locality-too-small"] == (
            "x: numa0 has 1 GPU, and an engine uses 2 (tensorParallel): it has no cores there"
        )


class TestSizes:
    def size(self, root: Path, node: str, work: str) -> dict[str, tuple[int, int | None]]:
        plan = planned(root, node, chat(lane="", work=work))
        return {lane.name: (lane.min_cores, lane.max_cores) for lane in plan.lanes}

    def test_from_the_profile_for_the_engines_that_fit_there(self, tmp_path: Path) -> None:
        one = self.size(tmp_path / "1", two_sockets(4, 0), "")["chat"]
        two = self.size(tmp_path / "2", two_sockets(4, 0), ", instances: 2")["chat"]
        assert two == (2 * one[0], 2 * (one[1] or 0))
        # three engines on one GPU and three: one fits here, three there
        three = self.size(tmp_path / "3", two_sockets(4, 0), ", instances: 3")["chat"]
        found = self.size(tmp_path / "4", two_sockets(1, 3), ", instances: 3")
        assert found == {"chat@numa0": one, "chat@numa1": three}

    def test_each_member_says_what_it_asked_for(self, tmp_path: Path) -> None:
        """One engine of 2 to 4 cores fits beside the GPU of node 0, three on node 1."""
        group, _ = compile_one(tmp_path, two_sockets(1, 3), chat(lane="", work=", instances: 3"))
        said = {}
        for name in ("chat@numa0", "chat@numa1"):
            asked = group.resolution.asked(name)
            assert asked is not None
            said[name] = asked.cores.value
        assert said == {"chat@numa0": "2 to 4", "chat@numa1": "6 to 12"}

    def test_with_one_host_left_for_the_engines_that_fit_there(self, tmp_path: Path) -> None:
        """Three engines of two GPUs each on one GPU and two: there is never more than one."""
        one = self.size(tmp_path / "1", two_sockets(0, 2), ", tensorParallel: 2")
        work = ", tensorParallel: 2, instances: 3"
        assert self.size(tmp_path / "2", two_sockets(1, 2), work) == one
        group, _ = compile_one(tmp_path / "3", two_sockets(1, 2), chat(lane="", work=work))
        (lane,) = group.resolution.lanes
        low, high = one["chat"]
        assert lane.cores.value == f"{low} to {high}"

    def test_as_one_lane_it_asks_for_no_more_than_its_members(self, tmp_path: Path) -> None:
        # nine engines, of which two can be on the node at all
        one = self.size(tmp_path / "1", small(8), "")
        group, _ = compile_one(tmp_path / "2", small(8), chat(lane="", work=", instances: 9"))
        (lane,) = group.resolution.lanes
        assert lane.min == sum(low for low, _ in one.values())

    def test_the_rest_is_shared_out_by_turns(self, tmp_path: Path) -> None:
        plan = planned(tmp_path, two_sockets(), chat("require: [gpu-local]", "cores: rest"))
        # one core is left to others
        assert lanes(plan) == {"chat@numa0": "2-7,18-23", "chat@numa1": "8-14,24-30"}
        assert [lane.min_cores for lane in plan.lanes] == [1, 1]
        assert str(plan.leftovers) == "15,31"

    def test_a_measurement_is_for_each(self, tmp_path: Path) -> None:
        demand = (
            f"{HEAD}kind: Demand\nmetadata: {{name: d}}\nspec:\n"
            "  {intent: chat, cores: {p50: 1.2, p99: 2.6}, window: 600s, spinSuspect: false}\n"
        )
        plan = planned(tmp_path, two_sockets(), chat(lane="cores: measured"), demand)
        assert [(lane.min_cores, lane.max_cores, lane.cores) for lane in plan.lanes] == [
            (2, 3, 3),
            (2, 3, 3),
        ]


class TestInstances:
    """MIG: an instance is where its GPU is, and is no GPU of its own."""

    def node(self) -> str:
        mig = [
            {"id": f"mig{i}", "type": "gpu", "uuid": f"MIG-{i}", "parent": "gpu1"} for i in (0, 1)
        ]
        return two_sockets(1, 1, mig)

    def test_they_do_not_count(self, tmp_path: Path) -> None:
        plan = planned(tmp_path / "a", self.node(), chat())
        assert [lane.devices for lane in plan.lanes] == [("0000:10:00.0",), ("0000:11:00.0",)]
        # two instances on node 1 do not make room for an engine that uses two GPUs
        plan = planned(tmp_path / "b", self.node(), chat(work=", tensorParallel: 2"))
        assert lanes(plan) == {"chat": "2,8,18,24"}

    def test_one_by_name_means_its_gpu(self, tmp_path: Path) -> None:
        plan = planned(tmp_path, self.node(), chat(work=', gpus: ["MIG-1"]'))
        assert lanes(plan) == {"chat": "8-9,24-25"}
        assert plan.lanes[0].devices == ("0000:11:00.0",)

    def test_one_of_an_instance_means_the_gpu(self, tmp_path: Path) -> None:
        """A compute instance is a part of a GPU instance, which is a part of the GPU."""
        parts = [
            {"id": "gi", "type": "gpu", "uuid": "MIG-gi", "parent": "gpu1"},
            {"id": "ci", "type": "gpu", "uuid": "MIG-ci", "parent": "gi"},
        ]
        plan = planned(tmp_path, two_sockets(1, 1, parts), chat(work=', gpus: ["mig-CI"]'))
        assert lanes(plan) == {"chat": "8-9,24-25"}
        assert plan.lanes[0].devices == ("0000:11:00.0",)


class TestGpusNearNoCpu:
    """Lanes near the GPUs of one locality: what is said of the other GPUs, and how often."""

    @pytest.mark.parametrize(
        ("cpus", "said"),
        [
            (None, "GPU locality unknown: which CPUs are near gpu1 is not known"),
            ("", "no CPU is near gpu1; no part of it is there"),
        ],
    )
    def test_beside_one_that_is(self, tmp_path: Path, cpus: str | None, said: str) -> None:
        text = two_sockets(1, 0, [device("gpu1", cpus, bus=20)])
        plan = planned(tmp_path, text, chat())
        assert lanes(plan) == {"chat": "2-3,18-19"}
        assert [(row.about, row.kind, row.message) for row in plan.degradations] == [
            ("chat", "gpu-local", said)
        ]

    def test_all_of_them(self, tmp_path: Path) -> None:
        text = two_sockets(0, 0, [device("gpu1", "", bus=20)])
        (row,) = planned(tmp_path, text, chat()).degradations
        assert row.message.startswith("no allowed CPU near gpu1")


class TestManyGpus:
    """Twelve GPUs near sets of CPUs that are no NUMA node, cache or package."""

    def node(self) -> str:
        near = {10: "0-2,16-18", 2: "0-2,16-18", 9: "8-10,24-26", 11: "8-10,24-26"}
        extra = [device(f"gpu{i}", cpus, bus=16 + i) for i, cpus in near.items()]
        return two_sockets(0, 0, extra)

    def test_a_locality_is_called_after_its_gpu_of_the_lowest_number(self, tmp_path: Path) -> None:
        plan = planned(tmp_path, self.node(), chat(lane="cores: 1"))
        assert [(lane.name, lane.devices) for lane in plan.lanes] == [
            ("chat@gpu2", ("0000:12:00.0", "0000:1a:00.0")),
            ("chat@gpu9", ("0000:19:00.0", "0000:1b:00.0")),
        ]

    def test_they_are_named_in_the_order_of_their_numbers(self, tmp_path: Path) -> None:
        text = self.node().replace('"0-2,16-18", "scope"', '"", "scope"')
        group, findings = compile_one(tmp_path, text, chat(lane="cores: 1"))
        assert group.resolution.lanes[0].devices == ("gpu2", "gpu9", "gpu10", "gpu11")
        (found,) = [f for f in findings if "no CPU is near" in f.message]
        assert "no CPU is near gpu2 and gpu10" in found.message

    def test_names_that_differ_only_in_what_a_lane_cannot_be_called(self, tmp_path: Path) -> None:
        near = {"gpu_x": "0-2,16-18", "gpu+x": "3-5,19-21", "gpu x": "8-10,24-26"}
        extra = [device(name, cpus, bus=16 + i) for i, (name, cpus) in enumerate(near.items())]
        plan = planned(tmp_path, two_sockets(0, 0, extra), chat(lane="cores: 1"))
        assert lanes(plan) == {
            "chat@gpu-x": "2,18",
            "chat@gpu-x-2": "3,19",
            "chat@gpu-x-3": "8,24",
        }


class TestNics:
    def test_those_near_the_member(self, tmp_path: Path) -> None:
        # nic1 is near cores 12-15 of node 1 only
        nics = [
            device("nic0", SOCKETS[0], bus=48, kind="nic"),
            device("nic1", "12-15,28-31", bus=49, kind="nic"),
        ]
        words = "require: [gpu-local, nic-local]"
        plan = planned(tmp_path, two_sockets(1, 1, nics), chat(words))
        assert lanes(plan) == {"chat@numa0": "2-3,18-19", "chat@numa1": "12-13,28-29"}

    def test_all_where_none_is_near(self, tmp_path: Path) -> None:
        nics = [device("nic0", SOCKETS[0], bus=48, kind="nic")]
        plan = planned(tmp_path, two_sockets(1, 1, nics), chat("prefer: [gpu-local, nic-local]"))
        assert lanes(plan) == {"chat@numa0": "2-3,18-19", "chat@numa1": "8-9,24-25"}
        assert notes(plan)["no-near-nic"].startswith("chat@numa1: no NIC is near")
        assert "nic-local" in notes(plan)


class TestTargets:
    @pytest.mark.parametrize("mode", ["fallback", "sched_ext"])
    def test_what_no_target_does_is_said_and_no_error(self, tmp_path: Path, mode: str) -> None:
        project = HEAD + f"kind: Project\nspec: {{enforce: [{{mode: {mode}}}]}}\n"
        text = chat("require: [gpu-local]", "cores: 2, share: guarded")
        root = write(
            tmp_path,
            {"nodes/box.yaml": two_sockets(), "intents/a.yaml": text, "tierc.yaml": project},
        )
        result, findings = compiled(root)
        plan = result.classes[0].plan
        assert plan is not None
        found = [f for f in findings if "locality of its GPUs" in f.message]
        assert {(f.code, f.severity.name) for f in found} == {("TRC502", "INFO")}
        assert "chat@numa0 (CPUs 2-3,18-19) and chat@numa1" in found[0].message
        for rows in plan.left_out.values():
            assert "lane.family" in {row.feature for row in rows}

    def test_scripts_have_the_union(self, tmp_path: Path) -> None:
        root = write(tmp_path / "p", {"nodes/box.yaml": two_sockets(), "intents/a.yaml": chat()})
        assert main(["build", str(root), "-o", str(tmp_path / "out")]) == 0
        text = (tmp_path / "out/nodes/box/taskset/apply.sh").read_text()
        table = [line.split() for line in text.splitlines()]
        assert ["lane:chat", "4", "2-3,8-9,18-19,24-25"] in table
        assert ["lane:chat@numa0", "-", "2-3,18-19"] in table
        data = json.loads((tmp_path / "out/nodes/box/plan.json").read_text())
        assert {row["family"] for row in data["lanes"]} == {"chat"}


class TestQuestions:
    @pytest.fixture
    def root(self, tmp_path: Path) -> Path:
        return write(tmp_path, {"nodes/box.yaml": two_sockets(), "intents/a.yaml": chat()})

    def explain(self, root: Path, capsys: pytest.CaptureFixture[str], *words: str) -> str:
        capsys.readouterr()
        assert main(["explain", "box", *words, "--project", str(root)]) == 0
        return capsys.readouterr().out

    def test_of_the_family(self, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
        out = self.explain(root, capsys, "--lane", "chat")
        assert "2-3,8-9,18-19,24-25" in out
        assert "4 (asked for 2 in each locality)" in out
        assert "chat@numa1: CPUs 8-9,24-25, for processes with GPUs 0000:14:00.0" in out
        assert "gpu-local: met" in out

    def test_of_a_family_whose_members_ask_for_different_sizes(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """One engine of 2 to 4 cores fits beside the GPU of node 0, three on node 1."""
        text = chat(lane="", work=", instances: 3")
        root = write(tmp_path, {"nodes/box.yaml": two_sockets(1, 3), "intents/a.yaml": text})
        each = "asked for 2 to 4 in chat@numa0 and 6 to 12 in chat@numa1"
        out = " ".join(self.explain(root, capsys, "--lane", "chat").split())
        assert f"({each})" in out
        out = self.explain(root, capsys, "--comm", "VLLM::EngineCor", "--cgroup", "chat.slice/a")
        assert f"({each})" in " ".join(out.split())

    def test_of_a_member(self, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
        out = self.explain(root, capsys, "--lane", "chat@numa1")
        assert "8-9,24-25" in out
        assert "2-3" not in out
        assert "gpu3" not in out
        assert "family   chat" in out

    def test_of_a_cpu(self, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
        out = self.explain(root, capsys, "--cpu", "9")
        assert "lane chat@numa1 (guarded, tier latency) of chat" in out
        assert "others have the union" in out

    def test_of_a_thread(self, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
        out = self.explain(root, capsys, "--comm", "VLLM::EngineCor", "--cgroup", "chat.slice/a")
        assert "2-3,8-9,18-19,24-25 (lane chat, the union of its members)" in out
        assert "CPUs 8-9,24-25, where the process has GPUs 0000:14:00.0" in out

    def test_of_nothing(self, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["explain", "box", "--lane", "chat@numa7", "--project", str(root)]) != 0
        assert "did you mean chat@numa" in capsys.readouterr().err

    def test_in_pictures(self, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["graph", "--project", str(root), "--node", "box", "--format", "dot"]) == 0
        out = capsys.readouterr().out
        assert "lane chat" in out
        assert "chat@numa0 2-3,18-19; chat@numa1 8-9,24-25" in out

    def test_in_tests_of_a_policy(self, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
        def run(body: str) -> tuple[int, str]:
            text = f"{HEAD}kind: PolicyTest\nmetadata: {{name: lanes}}\nspec:\n{body}"
            (root / "tests").mkdir(exist_ok=True)
            (root / "tests" / "t.yaml").write_text(text)
            code = main(["test", str(root)])
            done = capsys.readouterr()
            return code, done.out + done.err

        code, out = run(
            "  lanes:\n"
            "    - {name: chat, cores: 2, wholeCores: true, share: guarded, tier: latency}\n"
            '    - {name: chat@numa1, cpusWithin: "8-15,24-31", notSharingWith: [chat@numa0]}\n'
            "  threads:\n"
            '    - given: {comm: "VLLM::EngineCor", cgroup: chat.slice/a}\n'
            "      expect: {lane: chat}\n"
        )
        assert code == 0, out
        code, out = run('  lanes: [{name: chat, cpusWithin: "0-7,16-23"}]\n')
        assert code == 1
        assert "chat@numa1: CPUs 8-9,24-25; outside are 8-9,24-25" in out
        code, out = run(
            "  threads:\n"
            '    - given: {comm: "VLLM::EngineCor", cgroup: chat.slice/a}\n'
            "      expect: {lane: chat@numa1}\n"
        )
        assert code == 1
        assert "lane chat (chat@numa0 with GPUs 0000:10:00.0" in out
        code, out = run("  lanes: [{name: chat@numa3}]\n")
        assert code == 1
        assert "there is no lane 'chat@numa3'" in out


def test_all_cpus_of_members_are_near_their_gpus(tmp_path: Path) -> None:
    plan = planned(tmp_path, two_sockets(3, 4), chat(lane="cores: {min: 1, max: 9}"))
    for lane, side in zip(plan.lanes, SOCKETS, strict=True):
        assert lane.cpus <= CpuSet.parse(side) or "gpu-local" in notes(plan)
    assert union(lane.cpus for lane in plan.lanes) == plan.cpus_of("chat")


@given(st.integers(0, 2**48))
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_plan_with_families_is_safe(tmp_path: Path, seed: int) -> None:
    """Random GPUs, widths, sizes and words: a plan or a reason, and never a broken invariant."""
    rng = Random(seed)
    spots = [*SOCKETS, *SOCKETS, "0-3,16-19", "0-31", "", None]
    row = [device(f"gpu{i}", rng.choice(spots), bus=16 + i) for i in range(rng.randint(1, 8))] + [
        device("nic0", rng.choice(spots), bus=64, kind="nic")
    ]
    facts: dict[str, object] = {}
    if rng.random() < 0.3:
        facts["overrides"] = {"allowed": rng.choice(["0-9,16-25", "4-31", "0-31", "8-15"])}
    node = two_sockets(0, 0, row, **facts)
    if rng.random() < 0.3:
        node = node.replace('"isolated": ""', '"isolated": "6-9,22-25"')
    texts = []
    for name in ("chat", "embed", "third")[: rng.randint(1, 3)]:
        words = rng.sample(["gpu-local", "nic-local", "isolated", "same-llc", "whole-cores"], 3)
        hard = rng.randrange(2) if rng.random() < 0.5 else 0
        work = f", tensorParallel: {rng.choice([1, 1, 2, 3, 8])}, instances: {rng.choice([1, 2])}"
        work += rng.choice(["", "", ", gpus: all"])
        size = rng.choice(["1", "2", "{min: 1, max: 4}", "rest", ""])
        share = rng.choice(["open", "guarded", "exclusive"])
        lane = ", ".join([*([f"cores: {size}"] if size else []), f"share: {share}"])
        tier = rng.choice(["latency", "interactive"])
        texts.append(
            chat(
                f"require: {json.dumps(words[:hard])}\nprefer: {json.dumps(words[hard:])}",
                lane,
                work,
                name,
                f"protect: {{path: all, tier: {tier}}}",
            )
        )
    root = tmp_path / str(seed)
    group, findings = compile_one(root, node, *texts)
    messages = [f"{f.code} {f.message} ({f.help})" for f in findings]
    assert not [m for m in messages if "fault of tierc" in m or m.startswith("TRC90")]
    if group.plan is None:
        assert any(m.startswith(("TRC400", "TRC319", "TRC500")) for m in messages), messages
        return
    plan = group.plan
    assert safety.check(plan) == ()
    for asked in group.resolution.lanes:
        found = plan.lanes_of(asked.name)
        assert len(found) == 1 or {one.name for one in found} == {p.name for p in asked.parts}
        for one in found:
            exact = group.resolution.asked(one.name)
            assert exact is not None
            assert one.cores >= exact.min
            if "gpu-local" in asked.require and asked.divided != "spanning":
                near = [
                    view.cpus
                    for view in group.topology.of_type("gpu")
                    if view.id in exact.devices and view.cpus is not None
                ]
                assert one.cpus <= union(near)


def test_too_many_bands_are_refused_and_families_named(tmp_path: Path) -> None:
    """Four members and their union, in two tiers and seven places of each, are 70 bands."""
    texts = [
        chat(
            lane="name: chat, cores: 2",
            name=f"i{n}",
            verb="protect: [decode, {path: ttft, tier: interactive}]"
            + (f"\nabove: [i{n + 1}]" if n < 6 else ""),
        )
        for n in range(7)
    ]
    group, findings = compile_one(tmp_path, chiplets(), *texts)
    assert group.plan is None
    (found,) = [f for f in findings if f.code == "TRC319"]
    assert "bands" in found.message
    assert "gpus: all in its workload makes it one" in found.help
