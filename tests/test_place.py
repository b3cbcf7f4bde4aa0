"""Placing lanes on machines whose right answer was worked out by hand."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from compiler.model.facts import NodeFacts
from compiler.place import LaneRequest, Placement, Refusal, place
from compiler.topology import topology_of
from tests.machines import facts, gb10, gpu, hybrid, many_caches, pairs, plain, two_nodes

SYSTEM = 3


def lane(name: str = "serving", least: int = 1, most: int | None = -1, **more: Any) -> LaneRequest:
    """A guarded lane of tier 1; ``most`` -1 is as many as ``least``."""
    row: dict[str, Any] = {"tier": 1, "order": 0, "share": "guarded", **more}
    return LaneRequest(name=name, min=least, max=least if most == -1 else most, **row)


def placed(machine: NodeFacts, *lanes: LaneRequest, keep: int | None = None) -> Placement:
    found = place(topology_of(machine), lanes, keep, system_tier=SYSTEM)
    assert isinstance(found, Placement), found
    return found


def refused(machine: NodeFacts, *lanes: LaneRequest, keep: int | None = None) -> list[Refusal]:
    found = place(topology_of(machine), lanes, keep, system_tier=SYSTEM)
    assert not isinstance(found, Placement), found
    return list(found)


def where(found: Placement) -> dict[str, str]:
    return {name: str(granted.cpus) for name, granted in found.lanes.items()}


def said(found: Placement) -> list[tuple[str, str, str]]:
    return [(d.about, d.kind, d.message) for d in found.degradations]


class TestHousekeeping:
    @pytest.mark.parametrize(
        ("cores", "control_plane", "expected"),
        [
            (1, False, "0"),
            (7, True, "0"),
            (8, False, "0-1"),
            (8, True, "0-3"),
            (40, False, "0-1"),  # 5 % of 40 is 2
            (41, False, "0-2"),  # 5 % of 41 is 2.05
            (100, True, "0-6"),
        ],
    )
    def test_size(self, cores: int, control_plane: bool, expected: str) -> None:
        machine = plain(cores, kubelet={"present": True, "controlPlane": control_plane})
        assert str(placed(machine).housekeeping) == expected

    def test_a_number_is_taken_at_its_word(self) -> None:
        assert str(placed(plain(8), keep=3).housekeeping) == "0-2"

    def test_efficiency_cores_first(self) -> None:
        assert str(placed(hybrid(), keep=1).housekeeping) == "8"
        assert str(placed(hybrid(), keep=5).housekeeping) == "8-12"
        assert str(placed(hybrid(), keep=7).housekeeping) == "0-1,8-13"

    def test_whole_cores(self) -> None:
        assert str(placed(pairs(8, adjacent=False)).housekeeping) == "0-1,8-9"

    def test_isolated_and_forbidden_cores_are_not_counted_and_not_taken(self) -> None:
        machine = plain(16, cpus={"isolated": "0-7", "allowed": "0-12"})
        assert str(placed(machine).housekeeping) == "8"

    def test_it_leaves_what_a_lane_requires(self) -> None:
        # CPUs 0-1 would be first, but they are the only ones near the GPU.
        machine = plain(8, devices=(gpu("gpu0", "0-1"),))
        found = placed(machine, lane(least=2, require=("gpu-local",)))
        assert str(found.housekeeping) == "2-3"
        assert where(found) == {"serving": "0-1"}

    def test_it_does_not_move_for_a_preference(self) -> None:
        machine = plain(8, devices=(gpu("gpu0", "0-1"),))
        found = placed(machine, lane(least=2, prefer=("gpu-local",)))
        assert str(found.housekeeping) == "0-1"

    def test_more_than_the_machine_has(self) -> None:
        (refusal,) = refused(plain(2), keep=3)
        assert (refusal.about, refusal.kind) == ("housekeeping", "too-few-cores")
        assert refusal.message == "housekeeping needs 3 cores; the machine has 2 usable (0-1)"

    def test_nothing_usable(self) -> None:
        (refusal,) = refused(plain(2, cpus={"isolated": "0-1"}))
        assert refusal.message == "housekeeping needs 1 core; the machine has 0 usable"
        assert "isolated: 0-1" in refusal.help


class TestSets:
    def test_gb10(self) -> None:
        found = placed(gb10(), lane(least=2, most=6, prefer=("gpu-local", "performance")))
        assert str(found.housekeeping) == "0-1"
        assert where(found) == {"serving": "5-9,15"}
        assert said(found) == []

    @pytest.mark.parametrize(
        ("adjacent", "keep", "expected"), [(True, "0-1", "2-5"), (False, "0,4", "1-2,5-6")]
    )
    def test_siblings_stay_together(self, adjacent: bool, keep: str, expected: str) -> None:
        found = placed(pairs(4, adjacent=adjacent), lane(least=2))
        assert str(found.housekeeping) == keep
        assert where(found) == {"serving": expected}
        assert found.lanes["serving"].cores == 2

    def test_a_set_is_chosen_as_a_whole(self) -> None:
        # Core by core, lowest ids would start in the small cache and end in two.
        machine = facts(
            [{"cpus": "0-2", "llc": 0}, {"cpus": "3-9", "llc": 1}, {"cpus": "10-13", "llc": 2}],
            online="0-13",
            llcs={0: "0-2", 1: "3-9", 2: "10-13"},
        )
        first = lane("first", 4)
        found = placed(machine, first, lane("second", 4, order=1, prefer=("same-llc",)), keep=1)
        assert where(found) == {"first": "3-6", "second": "10-13"}

    def test_preferences_count_in_the_order_written(self) -> None:
        machine = facts(
            [
                {"cpus": "0-3", "llc": 0, "kind": "efficiency"},
                {"cpus": "4-7", "llc": 1, "kind": "performance"},
            ],
            online="0-7",
            llcs={0: "0-3", 1: "4-7"},
            devices=(gpu("gpu0", "0-3"),),
        )
        near_first = placed(machine, lane(least=2, prefer=("gpu-local", "performance")), keep=1)
        fast_first = placed(machine, lane(least=2, prefer=("performance", "gpu-local")), keep=1)
        assert where(near_first) == {"serving": "1-2"}
        assert where(fast_first) == {"serving": "4-5"}
        assert said(near_first) == [
            ("serving", "performance", "2 of 2 cores are of another kind than performance (1-2)")
        ]
        assert said(fast_first) == [
            ("serving", "gpu-local", "2 of 2 cores are not local to gpu0 (local: 0-3)")
        ]

    def test_compact_without_being_asked(self) -> None:
        found = placed(many_caches(4, 4), lane(least=4))
        assert str(found.housekeeping) == "0-1,16-17"
        assert where(found) == {"serving": "4-7,20-23"}

    def test_the_devices_of_the_lane_count(self) -> None:
        machine = plain(8, devices=(gpu("gpu0", "2-3"), gpu("gpu1", "6-7")))
        assert where(placed(machine, lane(least=2, prefer=("gpu-local",), devices=("gpu1",)))) == {
            "serving": "6-7"
        }
        both = placed(machine, lane(least=4, prefer=("gpu-local",)))
        assert where(both) == {"serving": "2-3,6-7"}
        assert said(both) == []

    @pytest.mark.parametrize("mode", ["prefer", "require"])
    @pytest.mark.parametrize(("kind", "word"), [("gpu", "gpu-local"), ("nic", "nic-local")])
    @pytest.mark.parametrize(
        ("nodes", "expected"),
        [
            ((0, 1, 1), "16-23"),  # both nodes hold 8 cores; two devices are near node 1
            ((0, 0, 1), "2-9"),
            ((0, 1), "2-9"),  # one each: lowest ids
            ((1, 1, 1), "16-23"),
        ],
    )
    def test_the_node_near_more_devices(
        self, nodes: tuple[int, ...], expected: str, kind: str, word: str, mode: str
    ) -> None:
        near = ("0-15", "16-31")
        machine = two_nodes(
            devices=[gpu(f"{kind}{i}", near[n], numa=n, kind=kind) for i, n in enumerate(nodes)]
        )
        words: Any = {mode: (word,)}
        found = placed(machine, lane(least=8, **words))
        assert str(found.housekeeping) == "0-1"
        assert where(found) == {"serving": expected}
        assert said(found) == []

    @pytest.mark.parametrize(
        ("allowed", "expected"),
        [
            ("0-23", "16-23"),  # node 1 has exactly 8 cores
            ("0-22", "2-9"),  # node 1 has 7: one node is more compact than two
            ("0-7,16-22", "2-7,16-17"),  # neither node has 8: both, lowest ids
        ],
    )
    def test_compact_before_near_more_devices(self, allowed: str, expected: str) -> None:
        machine = two_nodes(
            devices=[gpu("gpu0", "0-15"), gpu("gpu1", "16-31"), gpu("gpu2", "16-31")],
            overrides={"allowed": allowed},
        )
        assert where(placed(machine, lane(least=8, prefer=("gpu-local",)))) == {"serving": expected}

    def test_near_devices_of_one_cache(self) -> None:
        # Two cores reach two of the three GPUs at most; lowest ids would reach one.
        machine = plain(8, devices=(gpu("a", "1-3"), gpu("b", "5"), gpu("c", "7")))
        found = placed(machine, lane(least=2, prefer=("gpu-local",)), keep=1)
        assert where(found) == {"serving": "1,5"}
        more = placed(machine, lane(least=4, prefer=("gpu-local",)), keep=1)
        assert where(more) == {"serving": "1-2,5,7"}

    def test_only_devices_the_lane_speaks_of_count(self) -> None:
        # Without a word for it, or for the lane's GPUs, a device moves nothing.
        machine = two_nodes(
            devices=[
                gpu("gpu0", "0-15"),
                gpu("gpu1", "16-31"),
                gpu("gpu2", "16-31"),
                gpu("nic0", "16-31", kind="nic"),
            ]
        )
        assert where(placed(machine, lane(least=8))) == {"serving": "2-9"}
        two = lane(least=8, prefer=("gpu-local",), devices=("gpu0", "gpu1"))
        assert where(placed(machine, two)) == {"serving": "2-9"}
        with_nic = lane(
            least=8, prefer=("gpu-local", "nic-local"), devices=("gpu0", "gpu1", "gpu2")
        )
        assert where(placed(machine, with_nic)) == {"serving": "16-23"}

    def test_near_exactly_one_core(self) -> None:
        machine = pairs(4, adjacent=True, devices=(gpu("gpu0", "6-7"),))
        found = placed(machine, lane(require=("gpu-local",)))
        assert where(found) == {"serving": "6-7"}

    def test_a_core_with_a_far_sibling_is_not_near(self) -> None:
        machine = pairs(4, adjacent=True, devices=(gpu("gpu0", "3-4,6-7"),))
        assert where(placed(machine, lane(prefer=("gpu-local",)))) == {"serving": "6-7"}

    def test_nic_local(self) -> None:
        machine = plain(8, devices=(gpu("nic0", "5-6", kind="nic"),))
        assert where(placed(machine, lane(least=2, prefer=("nic-local",)))) == {"serving": "5-6"}

    def test_efficiency(self) -> None:
        found = placed(hybrid(), lane(least=2, prefer=("efficiency",)), keep=1)
        assert where(found) == {"serving": "9-10"}

    def test_leftovers_say_nothing_about_a_lane(self) -> None:
        assert where(placed(plain(8), lane(prefer=("leftovers",)))) == {"serving": "2"}


class TestIsolated:
    machine = plain(8, cpus={"isolated": "5-7"})

    def test_not_without_asking(self) -> None:
        found = placed(self.machine, lane(least=1, most=None))
        assert where(found) == {"serving": "1-3"}  # 0 is housekeeping, 4 is left over
        assert not found.lanes["serving"].isolated

    def test_when_asked(self) -> None:
        found = placed(self.machine, lane(least=2, require=("isolated",)))
        assert where(found) == {"serving": "5-6"}
        assert found.lanes["serving"].isolated

    def test_a_lane_is_never_half_isolated(self) -> None:
        found = placed(self.machine, lane(least=4, prefer=("isolated",)))
        assert where(found) == {"serving": "1-4"}
        assert said(found) == [("serving", "isolated", "4 of 4 cores are not isolated")]

    def test_required_and_too_few(self) -> None:
        (refusal,) = refused(self.machine, lane(least=4, require=("isolated",)))
        assert refusal.kind == "require-isolated"
        assert refusal.message == (
            "lane serving needs 4 cores on isolated CPUs (5-7); the machine has 3"
        )


class TestPartlyUsableCores:
    def test_whole_ones_come_first(self) -> None:
        machine = pairs(4, adjacent=True, cpus={"allowed": "0-2,4-7"})
        found = placed(machine, lane(least=2))
        assert where(found) == {"serving": "4-7"}
        assert said(found) == []

    def test_a_part_is_used_where_nothing_else_is_left_and_said(self) -> None:
        machine = pairs(4, adjacent=False, cpus={"allowed": "0-3"})
        found = placed(machine, lane(least=2))
        assert where(found) == {"serving": "1-2"}
        assert said(found) == [
            (
                "serving",
                "split-core",
                "2 of 2 cores (1-2) have siblings (5-6) that tierc may not use, where others "
                "may run",
            )
        ]

    def test_not_for_an_exclusive_lane(self) -> None:
        machine = pairs(4, adjacent=False, cpus={"allowed": "0-3"})
        (refusal,) = refused(machine, lane(least=1, share="exclusive"))
        assert refusal.message == (
            "lane serving needs 1 core; the machine has 0 usable by an exclusive lane"
        )
        assert "not allowed: 4-7" in refusal.help

    def test_not_where_whole_cores_are_required(self) -> None:
        machine = pairs(4, adjacent=False, cpus={"allowed": "0-3"})
        (refusal,) = refused(machine, lane(least=1, require=("whole-cores",)))
        assert refusal.kind == "require-whole-cores"

    def test_preferred_whole_cores_name_the_preference(self) -> None:
        machine = pairs(2, adjacent=False, cpus={"allowed": "0-1"})
        found = placed(machine, lane(least=1, prefer=("whole-cores",)))
        assert [d.kind for d in found.degradations] == ["whole-cores"]

    def test_a_half_isolated_core_is_in_no_lane(self) -> None:
        machine = pairs(4, adjacent=True, cpus={"isolated": "3"})
        found = placed(machine, lane(least=1, most=None))
        assert where(found) == {"serving": "4-7"}  # CPU 2 is what is left over

    def test_an_offline_sibling_is_nobodys(self) -> None:
        machine = facts([{"cpus": "0-1", "smt": ["0", "1"]}, {"cpus": "2-4"}], online="0-4")
        found = placed(machine, lane(least=2, share="exclusive", require=("whole-cores",)))
        assert str(found.housekeeping) == "0-1"
        assert where(found) == {"serving": "2-3"}


class TestGrowth:
    def test_a_higher_tier_grows_first(self) -> None:
        found = placed(plain(8), lane("low", 1, 4, tier=2), lane("high", 1, 4, tier=1), keep=1)
        assert where(found) == {"high": "1-4", "low": "5-6"}  # 7 is left over

    def test_one_tier_grows_in_turns(self) -> None:
        found = placed(plain(8), lane("a", 1, 9), lane("b", 1, 9, order=1), keep=1)
        assert where(found) == {"a": "1-3", "b": "4-6"}

    def test_rest_grows_last(self) -> None:
        found = placed(plain(10), lane("all", 1, None, tier=0), lane("few", 1, 3, tier=2), keep=1)
        assert where(found) == {"all": "1-5", "few": "6-8"}

    def test_a_minimum_may_take_the_last_core(self) -> None:
        assert where(placed(plain(4), lane("a", 3, 4))) == {"a": "1-3"}

    def test_growth_stays_within_a_requirement(self) -> None:
        machine = plain(8, devices=(gpu("gpu0", "4-5"),))
        found = placed(machine, lane(least=1, most=6, require=("gpu-local",)))
        assert where(found) == {"serving": "4-5"}

    def test_growth_takes_no_core_a_lower_lane_requires(self) -> None:
        machine = plain(8, devices=(gpu("gpu0", "2-3"),))
        found = placed(
            machine, lane("a", 1, 3), lane("b", 2, tier=2, require=("gpu-local",)), keep=1
        )
        assert where(found) == {"a": "1,4-5", "b": "2-3"}

    def test_a_lane_that_did_not_grow_may_take_the_spare_core(self) -> None:
        rows = [
            {"cpus": "0", "kind": "efficiency"},
            {"cpus": "1", "kind": "performance"},
            {"cpus": "2", "kind": "efficiency"},
        ]
        machine = facts(rows, online="0-2", cpus={"isolated": "2"})
        found = placed(machine, lane(least=1, prefer=("performance", "isolated")))
        assert where(found) == {"serving": "1"}

    def test_room_is_left_for_a_cache_that_a_later_lane_requires(self) -> None:
        # Caches {0,3} and {1,2}; the fast cores are 0 and 1.  Taking both would leave no cache
        # with two cores, so one is given up: 0,3 has lower ids than 1,2.
        rows = [
            {"cpus": "0", "llc": 0, "kind": "performance"},
            {"cpus": "3", "llc": 0, "kind": "standard"},
            {"cpus": "1", "llc": 1, "kind": "performance"},
            {"cpus": "2", "llc": 1, "kind": "standard"},
            {"cpus": "4", "llc": 2, "kind": "efficiency"},
        ]
        machine = facts(rows, online="0-4", llcs={0: "0,3", 1: "1-2", 2: "4"})
        found = placed(
            machine,
            lane("fast", 2, prefer=("performance",)),
            lane("near", 2, tier=2, require=("same-llc",)),
        )
        assert where(found) == {"fast": "0,3", "near": "1-2"}


class TestSmallMachines:
    def test_housekeeping_shrinks(self) -> None:
        found = placed(plain(8), lane(least=7))
        assert str(found.housekeeping) == "0"
        assert said(found) == [
            (
                "housekeeping",
                "housekeeping-shrunk",
                "1 core instead of 2, so that every lane has its minimum",
            )
        ]

    def test_it_shrinks_no_further_than_needed(self) -> None:
        machine = plain(8, kubelet={"present": True, "controlPlane": True})
        assert str(placed(machine, lane(least=5)).housekeeping) == "0-2"

    def test_then_it_shares_and_the_guard_falls(self) -> None:
        found = placed(plain(4), lane(least=4))
        assert str(found.housekeeping) == "0"
        assert where(found) == {"serving": "0-3"}
        assert found.open_lanes == {"serving"}
        assert [(about, kind) for about, kind, _ in said(found)] == [
            ("housekeeping", "housekeeping-shared"),
            ("serving", "guard-dropped"),
        ]
        assert "shares CPU 0 with lane serving" in said(found)[0][2]

    def test_it_shares_the_lowest_lane_that_is_not_exclusive(self) -> None:
        found = placed(
            plain(4),
            lane("a", 1, tier=0),
            lane("b", 1, tier=1, share="open"),
            lane("c", 2, tier=4, share="exclusive"),
        )
        assert where(found) == {"a": "0", "b": "1", "c": "2-3"}
        assert str(found.housekeeping) == "1"
        assert found.open_lanes == frozenset()

    def test_a_guard_that_would_keep_node_software_out_falls(self) -> None:
        found = placed(plain(2), lane("a", 1, tier=0, share="open"), lane("b", 1, tier=1))
        assert str(found.housekeeping) == "1"
        assert found.open_lanes == {"b"}
        assert "keep node software out" in said(found)[1][2]

    def test_a_guard_below_system_may_stay(self) -> None:
        found = placed(plain(2), lane("a", 1, tier=0, share="open"), lane("b", 1, tier=5))
        assert str(found.housekeeping) == "1"
        assert found.open_lanes == frozenset()

    def test_guards_fall_from_the_lowest_until_the_pool_has_a_cpu(self) -> None:
        found = placed(plain(2), lane("a", 1, tier=0), lane("b", 1, tier=5))
        assert found.open_lanes == {"b"}
        assert "no CPU for work outside the lanes" in said(found)[1][2]

    def test_a_number_is_not_shared(self) -> None:
        (refusal,) = refused(plain(4), lane(least=4), keep=1)
        assert "share:" not in refusal.help
        assert refusal.message == (
            "lane serving needs 4 cores; the machine has 4 usable (0-3), 1 of them for housekeeping"
        )

    def test_exclusive_lanes_leave_no_place_for_housekeeping(self) -> None:
        (refusal,) = refused(plain(4), lane(least=4, share="exclusive"))
        assert "share: open or guarded" in refusal.help
        assert (refusal.about, refusal.kind) == ("serving", "too-few-cores")
        assert refusal.message == (
            "lane serving needs 4 cores; the machine has 4 usable (0-3), 1 of them for housekeeping"
        )


class TestRefusals:
    def test_too_large(self) -> None:
        (refusal,) = refused(pairs(3, adjacent=True), lane(least=4))
        assert refusal.message == "lane serving needs 4 cores; the machine has 3 usable (0-5)"

    def test_all_of_them(self) -> None:
        found = refused(
            plain(3),
            lane("huge", 9),
            lane("a", 2, order=1),
            lane("b", 2, order=2),
            lane("far", 1, require=("nic-local",)),
        )
        assert [(r.about, r.kind) for r in found] == [
            ("far", "require-nic-local"),
            ("huge", "too-few-cores"),
            ("b", "too-few-cores"),
        ]
        assert found[2].message == (
            "lane b needs 2 cores; the machine has 3 usable (0-2), 2 for lane a"
        )

    def test_lanes_that_do_not_fit_together(self) -> None:
        machine = many_caches(2, 4)
        (refusal,) = refused(
            machine,
            *(lane(n, 3, share="exclusive", require=("same-llc",)) for n in "abc"),
        )
        assert refusal.about == "c"
        assert "needs 3 cores with same-llc" in refusal.message
        assert "3 for lane a, 3 for lane b" in refusal.message

    def test_one_cache(self) -> None:
        machine = gb10(cpus={"allowed": "6-9,16-19"})
        (refusal,) = refused(machine, lane(least=5, require=("same-llc",)))
        assert refusal.kind == "require-same-llc"
        assert refusal.message == (
            "lane serving needs 5 cores in one last-level cache; the most usable in one is 4 "
            "(caches: 0-9; 10-19)"
        )

    def test_size_before_requirement(self) -> None:
        machine = gb10(cpus={"allowed": "6-9,16-19"})
        (refusal,) = refused(machine, lane(least=9, require=("same-llc",)))
        assert refusal.kind == "too-few-cores"
        assert refusal.message == (
            "lane serving needs 9 cores with same-llc; the machine has 8 usable (6-9,16-19)"
        )

    def test_kinds(self) -> None:
        (refusal,) = refused(hybrid(), lane(least=5, require=("performance",)))
        assert refusal.message == (
            "lane serving needs 5 cores of kind performance (0-7); the machine has 4 usable"
        )
        (refusal,) = refused(hybrid(), lane(least=5, require=("efficiency",)))
        assert "of kind efficiency (8-11); the machine has 4 usable" in refusal.message


class TestLocality:
    """A GPU near CPUs 0-15 of 32, and what the workload may use of them."""

    @pytest.mark.parametrize("mode", ["prefer", "require"])
    def test_overlap(self, mode: Literal["prefer", "require"]) -> None:
        machine = two_nodes(overrides={"allowed": "8-23"})
        words: Any = {mode: ("gpu-local",)}
        found = placed(machine, lane(least=4, **words))
        assert where(found) == {"serving": "10-13"}
        assert said(found) == []

    def test_preferred_and_none_near(self) -> None:
        found = placed(
            two_nodes(overrides={"allowed": "16-31"}), lane(least=4, prefer=("gpu-local",))
        )
        assert where(found) == {"serving": "18-21"}
        assert said(found) == [
            (
                "serving",
                "gpu-local",
                "no allowed CPU near gpu0 (local: 0-15); allowed: 16-31",
            )
        ]

    def test_required_and_none_near(self) -> None:
        (refusal,) = refused(
            two_nodes(overrides={"allowed": "16-31"}), lane(least=4, require=("gpu-local",))
        )
        assert refusal.kind == "require-gpu-local"
        assert refusal.message == (
            "lane serving requires gpu-local, but no allowed CPU is near gpu0 (NUMA node 0, "
            "CPUs 0-15); allowed: 16-31"
        )

    def test_required_and_too_few_near(self) -> None:
        (refusal,) = refused(
            two_nodes(overrides={"allowed": "12-31"}), lane(least=5, require=("gpu-local",))
        )
        assert refusal.message == (
            "lane serving needs 5 cores near gpu0 (NUMA node 0, CPUs 0-15); 4 of them can be had "
            "of the allowed CPUs 12-31"
        )

    def test_the_requirement_is_named_where_the_machine_is_just_large_enough(self) -> None:
        (refusal,) = refused(
            plain(4, devices=(gpu("gpu0", "0-1"),)), lane(least=4, require=("gpu-local",))
        )
        assert refusal.kind == "require-gpu-local"

    def test_preferred_and_too_few_near(self) -> None:
        found = placed(
            two_nodes(overrides={"allowed": "12-31"}), lane(least=6, prefer=("gpu-local",))
        )
        # Two of the four near CPUs are housekeeping's, which comes first.
        assert said(found) == [
            ("serving", "gpu-local", "4 of 6 cores are not local to gpu0 (local: 0-15)")
        ]

    def test_a_gpu_near_no_cpu(self) -> None:
        machine = plain(8, devices=(gpu("gpu0", ""),))
        (refusal,) = refused(machine, lane(require=("gpu-local",)))
        assert refusal.message == (
            "lane serving requires gpu-local, but no allowed CPU is near gpu0 (no CPU); "
            "allowed: 0-7"
        )

    def test_unknown(self) -> None:
        machine = plain(8, devices=(gpu("gpu0", None),))
        found = placed(machine, lane(prefer=("gpu-local",)))
        assert where(found) == {"serving": "2"}
        assert said(found) == [
            (
                "serving",
                "gpu-local",
                "GPU locality unknown: which CPUs are near gpu0 is not known",
            )
        ]
        (refusal,) = refused(machine, lane(require=("gpu-local",)))
        assert refusal.message == (
            "lane serving requires gpu-local, but GPU locality unknown: which CPUs are near gpu0 "
            "is not known"
        )

    def test_no_device(self) -> None:
        (refusal,) = refused(plain(8), lane(require=("gpu-local",)))
        assert refusal.message == "lane serving requires gpu-local, but the machine has no GPU"
        found = placed(two_nodes(), lane(prefer=("gpu-local",), devices=()))
        assert said(found) == [("serving", "gpu-local", "none of the machine's GPUs is meant")]

    def test_near_everything_is_no_information_where_nodes_differ(self) -> None:
        machine = two_nodes(devices=(gpu("gpu0", "0-31"), gpu("gpu1", "0-31")))
        found = placed(machine, lane(least=2, prefer=("gpu-local",)))
        assert said(found) == [
            (
                "serving",
                "no-locality",
                "gpu0, gpu1 local to every CPU of NUMA nodes 0, 1: gpu-local gives no locality "
                "information here",
            )
        ]
        assert [d.kind for d in placed(gb10(), lane(prefer=("gpu-local",))).degradations] == []

    def test_caches_unknown(self) -> None:
        machine = facts([{"cpus": "0-7"}], online="0-7", arch="aarch64")
        found = placed(machine, lane(least=2, prefer=("same-llc",)))
        assert where(found) == {"serving": "2-3"}
        assert said(found) == [
            ("serving", "same-llc", "which cores share a last-level cache is not known")
        ]
        (refusal,) = refused(machine, lane(least=2, require=("same-llc",)))
        assert refusal.kind == "require-same-llc"

    def test_several_caches_are_named(self) -> None:
        found = placed(many_caches(2, 3), lane(least=4, prefer=("same-llc",)))
        assert said(found) == [
            ("serving", "same-llc", "4 cores in 2 last-level caches: 1-2,7-8; 3-4,9-10")
        ]


def test_exclusive_beside_a_static_reservation() -> None:
    machine = pairs(
        8, adjacent=False, kubelet={"present": True, "policy": "static", "reserved": "0,8"}
    )
    (refusal,) = refused(machine, lane("decode", 7, share="exclusive"))
    assert refusal.about == "decode"
    assert refusal.message == "lane decode needs 7 cores; the machine has 1 usable (0,8)"
    assert "owned by the kubelet: 1-7,9-15" in refusal.help


@pytest.mark.parametrize(
    ("strict", "share", "why"),
    [
        (None, "guarded", "is not known to be on"),
        (None, "open", ""),
        (False, "guarded", "is off"),
        (False, "open", "is off"),
        (True, "guarded", ""),
    ],
)
def test_pods_that_may_run_on_the_reserved_cpus(strict: bool | None, share: str, why: str) -> None:
    kubelet = {"present": True, "policy": "static", "reserved": "0-5", "strictReservation": strict}
    found = placed(plain(8, kubelet=kubelet), lane(least=2, share=share))
    message = (
        "ordinary pods may run on the reserved CPUs 0-5: the kubelet's strict-cpu-reservation "
        f"{why}"
    )
    assert said(found) == ([("housekeeping", "reservation-shared", message)] if why else [])


def test_the_order_of_requests_changes_nothing() -> None:
    lanes = [lane("a", 2, 4), lane("b", 1, 3, tier=0), lane("c", 1, None, prefer=("same-llc",))]
    assert placed(many_caches(4, 4), *lanes) == placed(many_caches(4, 4), *lanes[::-1])


def test_a_search_cut_short_says_so_and_how_far_off_it_may_be() -> None:
    machine = facts(
        [{"cpus": "0-1", "llc": 0}, {"cpus": "2", "llc": 1}, {"cpus": "3-4", "llc": 2}],
        online="0-4",
        llcs={0: "0-1", 1: "2", 2: "3-4"},
    )
    topology, request = topology_of(machine), lane(least=3, prefer=("same-llc",))
    exact = place(topology, [request], 1, system_tier=SYSTEM)
    assert isinstance(exact, Placement)
    assert where(exact) == {"serving": "1,3-4"}
    short = place(topology, [request], 1, system_tier=SYSTEM, effort=1)
    assert isinstance(short, Placement)
    assert where(short) == {"serving": "1-3"}
    assert said(short)[1] == (
        "serving",
        "search-stopped",
        "the search for the best cores stopped after 1 step: the choice costs (same-llc 2, "
        "split cores 0, caches 2, NUMA nodes 0), no choice costs less than (same-llc 1, split "
        "cores 0, caches 1, NUMA nodes 0)",
    )


def test_a_search_cut_short_names_devices() -> None:
    machine = two_nodes(
        devices=[gpu("gpu0", "0-15"), gpu("gpu1", "16-31"), gpu("gpu2", "16-31")],
    )
    request = lane(least=8, prefer=("gpu-local",))
    short = place(topology_of(machine), [request], 1, system_tier=SYSTEM, effort=1)
    assert isinstance(short, Placement)
    assert where(short) == {"serving": "1-8"}
    (note,) = said(short)
    assert note[:2] == ("serving", "search-stopped")
    assert "NUMA nodes 0, devices without a near core 2), no choice" in note[2]
    assert note[2].endswith("NUMA nodes 0, devices without a near core 1)")


def test_growth_cut_short_says_so() -> None:
    # Cache 1 has more cores, but the other lane must have three of its five, as well as core 9.
    machine = facts(
        [
            {"cpus": "0-3", "llc": 0, "kind": "standard"},
            {"cpus": "4-6", "llc": 1, "kind": "performance"},
            {"cpus": "7-8", "llc": 1, "kind": "standard"},
            {"cpus": "9", "llc": 2, "kind": "performance"},
        ],
        online="0-9",
        llcs={0: "0-3", 1: "4-8", 2: "9"},
    )
    lanes = [
        lane("fast", 4, require=("performance",)),
        lane(least=1, most=3, require=("same-llc",)),
    ]
    assert where(placed(machine, *lanes, keep=1)) == {"fast": "4-6,9", "serving": "1-3"}
    short = place(topology_of(machine), lanes, 1, system_tier=SYSTEM, effort=1)
    assert isinstance(short, Placement)
    assert short.lanes["serving"].cores == 2
    assert ("fast", "search-stopped") in [(d.about, d.kind) for d in short.degradations]
    assert any("smaller than they could be" in d.message for d in short.degradations)


def test_a_search_for_room_cut_short_is_no_proof() -> None:
    sizes = {"a": 3, "b": 3, "c": 2, "d": 2}
    lanes = [lane(n, size, share="exclusive", require=("same-llc",)) for n, size in sizes.items()]
    assert isinstance(
        place(topology_of(many_caches(4, 4)), lanes, 1, system_tier=SYSTEM), Placement
    )
    found = place(topology_of(many_caches(4, 4)), lanes, 1, system_tier=SYSTEM, effort=1)
    assert isinstance(found, tuple)
    assert {r.kind for r in found} == {"search-stopped"}
    assert "none was proved impossible" in found[0].message


@pytest.mark.parametrize(
    "wrong",
    [{"least": 0}, {"least": 3, "most": 2}, {"tier": -1}],
)
def test_requests_the_language_cannot_write(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="lane serving"):
        lane(**wrong)


def test_two_lanes_of_one_name() -> None:
    with pytest.raises(ValueError, match="serving"):
        place(topology_of(plain(4)), [lane(), lane()], None, system_tier=SYSTEM)


def test_housekeeping_of_no_cores() -> None:
    with pytest.raises(ValueError, match="housekeeping 0"):
        place(topology_of(plain(4)), [], 0, system_tier=SYSTEM)
