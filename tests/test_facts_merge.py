"""Several sources of one node become its facts: CPUs, NUMA nodes, all that is no device."""

from __future__ import annotations

from dataclasses import replace

import pytest

from compiler.facts.merge import merge
from compiler.facts.partial import (
    KindPart,
    LlcPart,
    Note,
    NumaPart,
    Partial,
    ReadError,
)
from compiler.model.facts import Kernel, Kubelet, Virtualization
from tests.merge_parts import (
    GPU0,
    cpus,
    gpu,
    merged,
    said,
    sets,
    two_nodes,
)

# --- CPUs --------------------------------------------------------------------------------------


def test_one_source_gives_its_facts_and_no_word() -> None:
    spec = merged(two_nodes()).facts.spec
    assert [(str(g.cpus), g.llc, g.numa, g.package) for g in spec.cores] == [
        ("0-1,8-9", 0, 0, 0),
        ("2-3,10-11", 1, 0, 0),
        ("4-5,12-13", 2, 1, 1),
        ("6-7,14-15", 3, 1, 1),
    ]
    assert [(llc.id, str(llc.cpus), llc.size_kib) for llc in spec.llcs][1] == (
        1,
        "2-3,10-11",
        16384,
    )
    assert [(n.id, n.memory_mib, n.distances, n.role) for n in spec.numa] == [
        (0, 4096, (10, 21), "cpu"),
        (1, 4096, (21, 10), "cpu"),
    ]
    assert [(s.reader, s.facts) for s in spec.sources] == [
        ("sysfs", ("cpus", "cores", "packages", "llcs", "numa"))
    ]
    assert spec.warnings == ()


def test_a_machine_described_by_many_readers_is_no_disagreement() -> None:
    alone = merged(two_nodes()).facts.spec
    # Tools number packages as they like, and that is no contradiction.
    other_numbers = ((7, cpus("4-7,12-15")), (3, cpus("0-3,8-11")))
    result = merged(
        two_nodes(),
        two_nodes("hwloc", "a.xml", packages=other_numbers),
        two_nodes("lscpu", "l.csv", packages=other_numbers),
        Partial("node", "node.yaml", cpu_count=16),
    )
    assert result.facts.spec == alone
    assert result.disagreements == ()


def test_the_most_trusted_source_wins_and_the_loser_is_named() -> None:
    wrong = sets(*(f"{n}-{n + 1}" for n in range(0, 16, 2)))
    result = merged(two_nodes("lscpu", "dir/l.csv", cores=wrong), two_nodes())
    assert result.facts.spec.cores == merged(two_nodes()).facts.spec.cores
    (found,) = result.disagreements
    assert (found.fact, found.winner.reader, found.winner.file) == ("cores", "sysfs", "snap")
    assert (found.loser.reader, found.loser.file) == ("lscpu", "dir/l.csv")
    assert found.winner.value.startswith("0,8 1,9")
    assert found.loser.value.startswith("0-1 2-3")
    assert "lscpu (l.csv) says 0-1 2-3" in said(result)  # without the directory


def test_an_export_from_a_cgroup_that_sees_fewer_cpus_agrees() -> None:
    seen = cpus("0-3,8")  # of core 1 to 3 it sees one thread only
    part = Partial(
        "hwloc",
        "cgroup.xml",
        online=seen,
        cores=sets("0,8", "1", "2", "3"),
        llcs=(LlcPart(cpus("0-1,8"), 3), LlcPart(cpus("2-3"), 3)),
        numa=(NumaPart(0, seen),),
    )
    result = merged(part, two_nodes())
    assert result.disagreements == ()
    assert result.facts.spec.cores == merged(two_nodes()).facts.spec.cores
    # The same with lscpu, which ranks lower but sees every CPU.
    result = merged(part, two_nodes("lscpu", "l.csv"))
    assert result.disagreements == ()
    spec = result.facts.spec
    assert spec.cpus.online == cpus("0-15")
    assert {core for group in spec.cores for core in group.cores()} == set(two_nodes().cores or ())
    assert [str(llc.cpus) for llc in spec.llcs] == [
        "0-1,8-9",
        "2-3,10-11",
        "4-5,12-13",
        "6-7,14-15",
    ]
    assert [str(node.cpus) for node in spec.numa] == ["0-3,8-11", "4-7,12-15"]


def test_lscpu_that_sees_fewer_cpus_than_sysfs_disagrees() -> None:
    small = replace(
        two_nodes("lscpu", "l.csv"),
        online=cpus("0-14"),
        cores=sets(*(f"{n},{n + 8}" for n in range(7)), "7"),
    )
    assert [d.fact for d in merged(two_nodes(), small).disagreements] == ["online CPUs"]


def test_another_count_of_cpus_is_said() -> None:
    result = merged(two_nodes(), Partial("node", "node.json", cpu_count=12))
    assert result.disagreements == ()
    (remark,) = result.remarks
    assert remark.file == "node.json"
    assert "12 CPUs, but 16 are online" in remark.message


def test_a_cpu_list_of_another_machine_disagrees() -> None:
    result = merged(
        two_nodes("hwloc", "a.xml"), two_nodes("cadvisor", "b.json", online=cpus("0-31"))
    )
    assert "online CPUs" in [d.fact for d in result.disagreements]


@pytest.mark.parametrize(
    ("partials", "message"),
    [
        ([], "which CPUs are online"),
        ([Partial("nvidia-smi topo", "t.txt", devices=(gpu(index=0),))], "t.txt (nvidia-smi topo)"),
        ([Partial("node", "n.yaml", cpu_count=8)], "which CPUs are online"),
        ([Partial("lscpu", "l.txt", online=cpus("0-7"))], "threads of one core"),
        (
            [Partial("lscpu", "l.txt", online=cpus("0-7"), cores=sets("0,4", "1,5"))],
            "one core; it is unknown for CPU 2-3,6-7",
        ),
    ],
)
def test_without_cpus_or_cores_it_is_refused_with_the_command(
    partials: list[Partial], message: str
) -> None:
    with pytest.raises(ReadError) as caught:
        merge(partials, name="n")
    assert message in caught.value.message
    for way in ("lscpu -p=cpu,online,core,socket,node,cache", "sys/devices/system", "--bundle"):
        assert way in caught.value.help


def test_the_highest_cache_of_each_cpu_counts_and_numbers_follow_cpus() -> None:
    part = Partial(
        "hwloc",
        "a.xml",
        online=cpus("0-5"),
        cores=sets("0", "1", "2", "3", "4", "5"),
        # Low-power cores 4-5 are outside the L3, and have an L2 together.
        llcs=(
            LlcPart(cpus("4-5"), 2),
            LlcPart(cpus("2-3"), 2),
            LlcPart(cpus("0-3"), 3),
            LlcPart(cpus("0-1"), 2),
        ),
    )
    spec = merged(part).facts.spec
    assert [(c.id, c.level, str(c.cpus)) for c in spec.llcs] == [(0, 3, "0-3"), (1, 2, "4-5")]


def test_caches_of_one_level_that_overlap_are_not_used() -> None:
    part = two_nodes(llcs=(LlcPart(cpus("0-7"), 3), LlcPart(cpus("7-15"), 3)))
    result = merged(part)
    assert result.facts.spec.llcs == ()
    assert "two L3 caches hold CPU 7" in said(result)


def test_dies_and_clusters_reach_the_groups() -> None:
    part = two_nodes(
        dies=((0, cpus("0-3,8-11")), (0, cpus("4-5,12-13")), (1, cpus("6-7,14-15"))),
        clusters=((5, cpus("0-1,8-9")),),
    )
    groups = merged(part).facts.spec.cores
    assert [(str(g.cpus), g.die, g.cluster) for g in groups] == [
        ("0-1,8-9", 0, 5),
        ("2-3,10-11", 0, None),
        ("4-5,12-13", 0, None),
        ("6-7,14-15", 1, None),
    ]


def test_kinds_from_the_best_source_with_names_from_another() -> None:
    fast, slow = cpus("0-3,8-11"), cpus("4-7,12-15")
    best = two_nodes(
        kinds=(
            KindPart("performance", fast, "midr", None, "cpu_capacity", 1024),
            KindPart("efficiency", slow, "midr", None, "cpu_capacity", 500),
        ),
        capacities={cpu: 1024 if cpu in fast else 500 for cpu in range(16)},
    )
    names = Partial(
        "sbc-bench",
        "b.txt",
        kinds=(
            KindPart("performance", fast, "midr", "Cortex-X925"),
            KindPart("efficiency", slow, "midr", "Cortex-A725"),
        ),
    )
    result = merged(names, best)
    assert [(k.name, k.model, k.value) for k in result.facts.spec.kinds] == [
        ("performance", "Cortex-X925", 1024),
        ("efficiency", "Cortex-A725", 500),
    ]
    assert {(g.kind, g.capacity) for g in result.facts.spec.cores} == {
        ("performance", 1024),
        ("efficiency", 500),
    }
    assert result.disagreements == ()
    other = replace(names, kinds=(KindPart("performance", slow, "midr"),))
    assert [d.fact for d in merged(best, other).disagreements] == ["kinds"]


def test_kinds_of_which_one_is_offline_are_one_kind() -> None:
    part = two_nodes(
        kinds=(
            KindPart("performance", cpus("0-15"), "pmu"),
            KindPart("lowpower", cpus("16-17"), "pmu"),
        )
    )
    spec = merged(part).facts.spec
    assert spec.kinds == ()
    assert {group.kind for group in spec.cores} == {"standard"}


def test_masks() -> None:
    result = merged(
        two_nodes(possible=cpus("0-31"), present=cpus("0-7"), isolated=cpus("6-7")),
        two_nodes("hwloc", "a.xml", present=cpus("0-15"), isolated=cpus("")),
    )
    masks = result.facts.spec.cpus
    assert (str(masks.possible), str(masks.present), str(masks.isolated)) == ("0-31", "0-15", "6-7")
    assert "present CPUs 0-7 lack the online CPU 8-15" in said(result)
    assert [d.fact for d in result.disagreements] == ["isolated CPUs"]


def test_allowed_cpus_of_a_tool_are_recorded_with_a_word() -> None:
    result = merged(two_nodes(), Partial("hwloc", "a.xml", allowed=cpus("0-3")))
    assert result.facts.spec.cpus.allowed == cpus("0-3")
    assert "leave it out if the limit is" in said(result)
    assert merged(two_nodes(allowed=cpus("0-99"))).facts.spec.cpus.allowed is None
    assert merged(two_nodes(allowed=cpus("70"))).facts.spec.cpus.allowed is None


# --- NUMA --------------------------------------------------------------------------------------


def test_each_fact_of_a_node_comes_from_who_knows_it() -> None:
    bare = two_nodes(numa=(NumaPart(0, cpus("0-3,8-11")), NumaPart(1, cpus("4-7,12-15"))))
    rich = two_nodes("hwloc", "a.xml")
    result = merged(bare, rich)
    assert [(n.memory_mib, n.distances) for n in result.facts.spec.numa] == [
        (4096, (10, 21)),
        (4096, (21, 10)),
    ]
    assert result.disagreements == ()


def test_nodes_without_cpus_keep_their_ids_and_get_their_role() -> None:
    nodes = two_nodes().numa or ()
    part = two_nodes(
        numa=(
            *nodes,
            NumaPart(2, cpus(""), 97871),
            NumaPart(10, cpus(""), 97871),
            NumaPart(18, cpus("")),
        ),
        devices=(gpu(GPU0, numa=(0,), memory_node=10),),
    )
    spec = merged(part).facts.spec
    assert [(n.id, n.role) for n in spec.numa] == [
        (0, "cpu"),
        (1, "cpu"),
        (2, "memory"),
        (10, "gpu-memory"),
        (18, "unknown"),
    ]
    assert {n.distances for n in spec.numa} == {()}  # not to all nodes, so not at all


def test_node_contradictions_are_said_once_a_source() -> None:
    swapped = two_nodes(
        "lscpu", "l.csv", numa=(NumaPart(0, cpus("0-7")), NumaPart(1, cpus("8-15")))
    )
    extra = Partial("nccl", "n.xml", numa=(NumaPart(5, cpus("")),))
    result = merged(two_nodes(), swapped, extra)
    assert [(d.fact, d.loser.reader) for d in result.disagreements] == [
        ("numa", "nccl"),
        ("numa", "lscpu"),
    ]
    assert [node.id for node in result.facts.spec.numa] == [0, 1]


def test_a_cpu_that_two_nodes_claim_is_of_the_lower() -> None:
    part = two_nodes(numa=(NumaPart(1, cpus("0-3,8-11")), NumaPart(2, cpus("3-7,8-15"))))
    spec = merged(part).facts.spec
    assert {str(g.cpus): g.numa for g in spec.cores}["2-3,10-11"] == 1
    assert [str(node.cpus) for node in spec.numa] == ["0-3,8-11", "3-15"]


def test_zones_without_cpus_are_no_nodes() -> None:
    part = two_nodes("lscpu", "l.csv", numa=None)
    zones = Partial("nrt", "nrt.yaml", numa=(NumaPart(0, None, 4096), NumaPart(1, None, 4096)))
    result = merged(part, zones)
    assert result.facts.spec.numa == ()
    assert "NUMA is unknown" in said(result)


# --- the rest ----------------------------------------------------------------------------------


def test_kernel_kubelet_and_virtualization_field_by_field() -> None:
    first = two_nodes(
        kernel=Kernel(release="6.8", cgroup="v2"),
        kubelet=Kubelet(present=False),
        virtualization=Virtualization(vm=True),
    )
    second = Partial("node", "n.yaml", kernel=Kernel(release="6.5", btf=True))
    third = Partial("kubelet", "state", kubelet=Kubelet(present=True, policy="static"))
    result = merged(third, second, first)
    spec = result.facts.spec
    assert (spec.kernel.release, spec.kernel.cgroup, spec.kernel.btf) == ("6.8", "v2", True)
    assert spec.kubelet == Kubelet(present=True, policy="static")
    assert spec.virtualization.vm is True
    assert sorted(d.fact for d in result.disagreements) == ["kernel release", "kubelet"]
    assert merged(two_nodes(kubelet=Kubelet(present=False))).facts.spec.kubelet == Kubelet(
        present=False
    )


def test_labels_that_kubernetes_would_refuse_are_left_out() -> None:
    part = two_nodes(labels={"zone": "a", "bad key": "x", "long": "v" * 64})
    result = merged(part, Partial("labels", "l.json", labels={"zone": "b", "arch/x": ""}))
    assert dict(result.facts.metadata.labels) == {"arch/x": "", "zone": "a"}
    assert "'bad key'" in said(result)
    assert [d.fact for d in result.disagreements] == ["label zone"]


@pytest.mark.parametrize("name", ["", "A", "a_b", "a..b", "x" * 64, "a\nb"])
def test_a_name_that_is_none(name: str) -> None:
    with pytest.raises(ReadError, match="not a node name"):
        merge([two_nodes()], name=name)


def test_the_name_comes_from_the_sources_or_must_be_given() -> None:
    assert merge([two_nodes(node="a")], name=None).facts.metadata.name == "a"
    assert merge([two_nodes(node="a")], name="b").facts.metadata.name == "b"
    with pytest.raises(ReadError, match="names the node"):
        merge([two_nodes()], name=None)


def test_warnings_are_bounded_and_name_their_file() -> None:
    notes = tuple(Note(f"odd {n}", n) for n in range(1, 101))
    warnings = merged(two_nodes("hwloc", "dir/a.xml", notes=notes)).facts.spec.warnings
    assert warnings[0] == "a.xml:1: odd 1"
    assert warnings[-1] == "36 more warnings are left out"
    assert len(warnings) == 65


def test_values_of_messages_are_harmless() -> None:
    part = Partial("lscpu", "l\x1b[2J.txt", kernel=Kernel(release="6\x1b[31m" + "9" * 500))
    result = merged(two_nodes(kernel=Kernel(release="5")), part)
    (found,) = result.disagreements
    assert found.loser.value.isprintable()
    assert len(found.loser.value) <= 160
