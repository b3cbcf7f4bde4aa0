"""Machines built or booted in unusual ways; expected CPUs by hand from docs/placement.md."""

from __future__ import annotations

from pathlib import Path

import pytest

from compiler.place import LaneRequest, Placement, place
from compiler.topology import topology_of
from tests.gpu_nodes import two_sockets
from tests.machines import facts
from tests.test_families import chat, lanes, planned


def lane(name: str = "x", cores: int = 2, **more: object) -> LaneRequest:
    fields: dict[str, object] = {
        "name": name, "tier": 1, "order": 0, "min": cores, "max": cores, "share": "guarded",
    } | more  # fmt: skip
    return LaneRequest(**fields)  # type: ignore[arg-type]


def test_four_threads_a_core_stay_together() -> None:
    """Two nodes of four cores with four threads: housekeeping has cores 0 and 1 of eight.

    Node 0 has two cores left, CPUs 8-15; three cores fit into node 1 only.
    """
    machine = facts(
        [
            {"cpus": f"{first}-{first + 15}", "llc": node, "numa": node,
             "smt": [f"{first + t}-{first + 12 + t}:1/4" for t in range(4)]}
            for node, first in ((0, 0), (1, 16))
        ],
        online="0-31",
        llcs={0: "0-15", 1: "16-31"},
        numa={0: "0-15", 1: "16-31"},
    )  # fmt: skip
    two = place(topology_of(machine), [lane(share="exclusive")], None, system_tier=3)
    assert isinstance(two, Placement)
    assert (str(two.housekeeping), str(two.lanes["x"].cpus)) == ("0-7", "8-15")
    three = place(topology_of(machine), [lane(cores=3)], None, system_tier=3)
    assert isinstance(three, Placement)
    assert str(three.lanes["x"].cpus) == "16-27"
    assert two.degradations == three.degradations == ()


@pytest.mark.parametrize("share", ["guarded", "exclusive"])
def test_smt_switched_off_leaves_whole_cores(share: str) -> None:
    """CPUs 8-15, the second threads, are possible and offline: nobody runs there."""
    machine = facts(
        [{"cpus": "0-7", "llc": 0, "numa": 0}],
        online="0-7",
        llcs={0: "0-15"},
        numa={0: "0-15"},
        cpus={"possible": "0-15", "present": "0-15"},
    )
    found = place(
        topology_of(machine), [lane(share=share, require=("whole-cores",))], None, system_tier=3
    )
    assert isinstance(found, Placement)
    assert (str(found.housekeeping), str(found.lanes["x"].cpus)) == ("0-1", "2-3")
    assert found.degradations == ()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"isolated": ""', '"isolated": "", "nohzFull": "4-15,20-31"'),
        (
            '[{"id": 0, "cpus": "0-7,16-23"}, {"id": 1, "cpus": "8-15,24-31"}]',
            '[{"id": 0, "cpus": "0-7,16-23", "distances": [10, 200]},'
            ' {"id": 1, "cpus": "8-15,24-31", "distances": [11, 10]}]',
        ),
    ],
    ids=["nohz_full", "distances that are not symmetric"],
)
def test_what_says_nothing_about_a_lane_moves_nothing(tmp_path: Path, old: str, new: str) -> None:
    node = two_sockets(2, 2)
    assert node.count(old) == 1
    one = planned(tmp_path / "1", node, chat())
    other = planned(tmp_path / "2", node.replace(old, new), chat())
    assert lanes(other) == {"chat@numa0": "2-3,18-19", "chat@numa1": "8-9,24-25"}
    # The plan tells targets which CPUs have no tick, and that is all.
    machine = other.machine.model_copy(update={"nohz_full": one.machine.nohz_full})
    assert other.model_copy(update={"machine": machine}) == one
