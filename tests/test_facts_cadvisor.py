"""cadvisor's MachineInfo."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from compiler.cpuset import CpuSet
from compiler.facts.formats.cadvisor import FORMAT
from compiler.facts.formats.format import Text
from compiler.facts.partial import LlcPart, NumaPart, Partial, ReadError

GIB = 1024**3


def cpus(text: str) -> CpuSet:
    return CpuSet.parse(text)


def cache(level: int, number: int, kind: str = "Unified", size: int = 1 << 20) -> dict[str, Any]:
    return {"id": number, "size": size, "type": kind, "level": level}


def core(
    identity: int,
    threads: list[int],
    socket: int = 0,
    *,
    number: int | None = None,
    uncore: list[dict[str, Any]] | None = None,
) -> dict[str, Any]:
    own = 0 if number is None else number
    return {
        "core_id": identity,
        "thread_ids": threads,
        "caches": [cache(1, own, "Data"), cache(1, own, "Instruction"), cache(2, own)],
        "uncore_caches": uncore,
        "socket_id": socket,
    }


def node(identity: int, cores: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    return {"node_id": identity, "memory": 4 * GIB, "cores": cores, **more}


def machine(*nodes: dict[str, Any], num_cores: int | None = None) -> dict[str, Any]:
    count = sum(len(one["thread_ids"]) for item in nodes for one in item["cores"] or ())
    # Core ids repeat in every socket, so cadvisor counts too few: never to be used.
    return {
        "num_cores": count if num_cores is None else num_cores,
        "num_physical_cores": 1,
        "topology": list(nodes),
    }


def read(info: object) -> Partial:
    text = json.dumps(info)
    assert FORMAT.sniff(text)
    [partial] = FORMAT.read(Text("machineinfo.json", text))
    return partial


def said(partial: Partial) -> str:
    return "\n".join(note.message for note in partial.notes)


TWO_SOCKETS = machine(
    node(
        1,
        [core(0, [1, 5], 1), core(1, [7, 3], 1)],
        caches=[cache(3, 0, size=32 << 20)],
        distances=[21, 10],
    ),
    node(
        0,
        [core(0, [0, 4], 0), core(1, [2, 6], 0)],
        caches=[cache(3, 0, size=32 << 20)],
        distances=[10, 21],
    ),
)


def test_two_sockets_with_equal_core_ids() -> None:
    partial = read(TWO_SOCKETS)
    assert partial.reader == "cadvisor"
    assert partial.online == cpus("0-7")
    assert partial.cores == tuple(cpus(text) for text in ("0,4", "1,5", "2,6", "3,7"))
    assert partial.packages == ((0, cpus("0,2,4,6")), (1, cpus("1,3,5,7")))
    # Both L3 have number 0, but each is all of its node.
    assert partial.llcs == (LlcPart(cpus("0,2,4,6"), 3, 32768), LlcPart(cpus("1,3,5,7"), 3, 32768))
    assert partial.numa == (
        NumaPart(0, cpus("0,2,4,6"), 4096, {0: 10, 1: 21}),
        NumaPart(1, cpus("1,3,5,7"), 4096, {0: 21, 1: 10}),
    )
    assert partial.kinds is None
    assert partial.notes == ()


def test_several_l3_in_a_node_are_told_apart_by_number() -> None:
    cores = [
        core(n, [n, n + 4], number=n, uncore=[cache(3, n // 2, size=16 << 20)]) for n in range(4)
    ]
    partial = read(machine(node(0, cores)))
    assert partial.llcs == (LlcPart(cpus("0-1,4-5"), 3, 16384), LlcPart(cpus("2-3,6-7"), 3, 16384))


def test_without_numbers_several_l3_are_unknown() -> None:
    # All numbers are 0: the kernel has none, and the four cores share no one knows what.
    cores = [core(n, [n], uncore=[cache(3, 0)]) for n in range(4)]
    partial = read(machine(node(0, cores)))
    assert partial.llcs is None
    assert "the last-level cache of CPU 0-3 is not said clearly" in said(partial)


def test_private_l2_is_the_last_level_where_there_is_no_l3() -> None:
    partial = read(machine(node(0, [core(0, [0]), core(1, [1])])))
    assert partial.llcs == (LlcPart(cpus("0"), 2, 1024), LlcPart(cpus("1"), 2, 1024))


def test_an_l2_that_cores_share_is_left_out_so_l1_proves_nothing() -> None:
    cores = [core(0, [0]), core(1, [1])]
    for one in cores:
        one["caches"] = one["caches"][:2]
    partial = read(machine(node(0, cores)))
    assert partial.llcs is None
    assert "the last-level cache of CPU 0-1" in said(partial)


def test_two_caches_of_a_level_cannot_both_be_the_node() -> None:
    partial = read(machine(node(0, [core(0, [0])], caches=[cache(3, 0), cache(3, 1)])))
    assert partial.llcs is None


def test_nodes_without_cpus_stay_and_ids_may_have_gaps() -> None:
    partial = read(
        machine(node(8, [core(0, [1], 1)]), node(0, [core(0, [0])]), node(252, [], memory=0))
    )
    assert [(part.id, str(part.cpus), part.memory_mib) for part in partial.numa or ()] == [
        (0, "0", 4096),
        (8, "1", 4096),
        (252, "", None),
    ]


def test_packages_in_place_of_nodes_are_no_nodes() -> None:
    partial = read(
        machine(node(0, [core(0, [0], 0)], memory=0), node(1, [core(0, [1], 1)], memory=0))
    )
    assert partial.numa is None
    assert "where the kernel has no NUMA nodes" in said(partial)
    assert partial.packages == ((0, cpus("0")), (1, cpus("1")))


def test_a_count_that_differs_leaves_online_unknown() -> None:
    partial = read(machine(node(0, [core(0, [0, 1])]), num_cores=4))
    assert partial.online is None
    assert partial.cpu_count == 4
    assert partial.cores == (cpus("0-1"),)
    assert "num_cores is 4, but topology names 2 CPUs" in said(partial)


def test_an_old_cadvisor_says_no_sockets() -> None:
    info = machine(node(0, [core(0, [0])]))
    del info["topology"][0]["cores"][0]["socket_id"]
    assert read(info).packages is None
    info["topology"][0]["cores"][0]["socket_id"] = -1
    assert read(info).packages is None


def broken(**change: Any) -> dict[str, Any]:
    info: dict[str, Any] = json.loads(json.dumps(machine(node(0, [core(0, [0])]))))
    one = info["topology"][0]
    (one["cores"][0] if "thread_ids" in change or "socket_id" in change else one).update(change)
    return info


@pytest.mark.parametrize(
    ("info", "message"),
    [
        ({"num_cores": 1, "topology": None}, "topology names no CPU"),
        ({"num_cores": 1, "topology": {}}, "topology is not a list of objects"),
        ({"num_cores": 1, "topology": [1]}, "topology is not a list of objects"),
        (broken(node_id=None), "topology[0].node_id is missing"),
        (broken(node_id="0"), "topology[0].node_id is not a whole number"),
        (broken(node_id=True), "topology[0].node_id is not a whole number"),
        (broken(memory=1 << 80), "topology[0].memory is not a whole number"),
        (broken(distances=["10"]), "topology[0].distances is not a list of whole numbers"),
        (broken(thread_ids=[]), "topology[0].cores[0].thread_ids is missing or empty"),
        (broken(thread_ids=[-1]), "thread_ids is not a list of whole numbers"),
        (broken(thread_ids=[10**9]), "CPU 1000000000 is outside 0-8191"),
        (broken(caches=[{"level": 3.5}]), "topology[0].caches[0].level is not a whole number"),
        (machine(node(0, [core(0, [0]), core(1, [0])])), "topology names CPU 0 twice"),
        (machine(node(0, [core(0, [0])]), node(0, [core(0, [1])])), "topology has node_id 0 twice"),
    ],
)
def test_what_is_refused(info: dict[str, Any], message: str) -> None:
    with pytest.raises(ReadError) as caught:
        FORMAT.read(Text("x", json.dumps(info)))
    assert message in caught.value.message


def test_damaged_json_is_claimed_and_refused_with_its_line() -> None:
    text = json.dumps(TWO_SOCKETS, indent=1)[:-40]
    assert FORMAT.sniff(text)
    with pytest.raises(ReadError) as caught:
        FORMAT.read(Text("x", text))
    assert caught.value.line is not None
    assert caught.value.line > 50


def test_other_json_is_not_claimed() -> None:
    for other in ("", "[]", '{"num_cores": 3}', '{"a": {"num_cores": 1, "topology": []}}'):
        assert not FORMAT.sniff(other)


def test_machines_of_the_corpus(shared: Path) -> None:
    folder = shared / "corpus" / "topology" / "cadvisor-machineinfo"
    metal = read(json.loads((folder / "bare-metal-master.internal.machineinfo.json").read_text()))
    even, odd = cpus("0-110:1/2"), cpus("1-111:1/2")
    assert metal.online == cpus("0-111")
    assert metal.cores == tuple(CpuSet((cpu, cpu + 56)) for cpu in range(56))
    assert metal.packages == ((0, even), (1, odd))
    assert [(part.id, part.cpus) for part in metal.numa or ()] == [(0, even), (1, odd)]
    assert [llc.cpus for llc in metal.llcs or ()] == [even, odd]
    single = read(json.loads((folder / "sno-sno.machineinfo.json").read_text()))
    assert single.online == cpus("0-11")
    assert single.cores == tuple(CpuSet((cpu,)) for cpu in range(12))
    assert [(llc.cpus, llc.size_kib) for llc in single.llcs or ()] == [(cpus("0-11"), 16384)]
