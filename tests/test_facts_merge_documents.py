"""Facts that are merged again, and what holds of every merge."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.cpuset import CpuSet
from compiler.facts.formats.format import Text
from compiler.facts.formats.nodefacts import FORMAT
from compiler.facts.merge import Merged, merge
from compiler.facts.partial import (
    READERS,
    DevicePart,
    KindPart,
    LinkPart,
    LlcPart,
    Note,
    NumaPart,
    Partial,
    ReadError,
)
from compiler.facts.write import facts_yaml
from compiler.model.facts import Kernel, Kubelet, Virtualization
from tests.merge_parts import (
    GPU0,
    GPU1,
    cpus,
    gpu,
    on_two,
    place,
    sets,
    topo,
    two_nodes,
)

# --- NodeFacts documents as a source -----------------------------------------------------------

EVERYTHING = (
    two_nodes(
        node="n",
        arch="x86_64",
        labels={"zone": "a"},
        possible=cpus("0-31"),
        isolated=cpus(""),
        dies=((0, cpus("0-3,8-11")), (0, cpus("4-7,12-15"))),
        kinds=(
            KindPart("performance", cpus("0-3,8-11"), "midr", "X", "cpu_capacity", 1024),
            KindPart("efficiency", cpus("4-7,12-15"), "midr", "A", "cpu_capacity", 512),
        ),
        capacities=dict.fromkeys(range(16), 1024),
        devices=(
            gpu(GPU0, numa=(0,), pcie_root="pci0000:16"),
            gpu(GPU1, numa=(1,), uuid="GPU-b"),
            DevicePart("nic", bdf="0000:4b:00.0", names=("eth0",)),
        ),
        kernel=Kernel(release="6.8"),
        kubelet=Kubelet(present=True, policy="static", reserved=cpus("0")),
        virtualization=Virtualization(vm=False),
        notes=(Note("/sys/x: odd"),),
    ),
    Partial(
        "hwloc",
        "a.xml",
        allowed=cpus("0-7"),
        devices=(gpu(GPU0, numa=(0,), cpus=cpus("2-3,10-11")),),
    ),
    Partial(
        "nvidia-smi -q", "q.xml", devices=(gpu(uuid="MIG-1", parent_uuid="GPU-b", model="1g"),)
    ),
    topo(gpu(index=0, numa=(0,)), gpu(index=1, numa=(0,)), links=(LinkPart(0, 1, "NODE"),)),
)


def test_facts_read_back_are_the_same_facts() -> None:
    once = merge(EVERYTHING, name=None)
    text = facts_yaml(once.facts)
    assert FORMAT.sniff(text)
    again = merge(FORMAT.read(Text("dir/n.yaml", text)), name=None)
    assert again.facts == once.facts
    assert facts_yaml(again.facts) == text
    # What was concluded from several sources stands: one L3, finer than the node.
    assert place(again.facts.spec.devices[0]) == (0, "2-3,10-11", "llc", "measured")


def test_a_source_added_to_facts_fills_in() -> None:
    text = facts_yaml(merge([on_two(gpu(GPU0, numa=(1,)))], name="n").facts)
    query = Partial("nvidia-smi -q", "q.xml", devices=(gpu(GPU0, uuid="GPU-a", index=0),))
    result = merge([query, *FORMAT.read(Text("n.yaml", text))], name=None)
    (device,) = result.facts.spec.devices
    assert (device.uuid, device.index, device.numa) == ("GPU-a", 0, 1)
    assert [s.reader for s in result.facts.spec.sources] == ["sysfs", "nvidia-smi -q"]


def test_facts_without_sources_rank_last() -> None:
    facts = merge([two_nodes()], name="n").facts
    bare = facts.model_copy(update={"spec": facts.spec.model_copy(update={"sources": ()})})
    partials = FORMAT.read(Text("n.yaml", facts_yaml(bare)))
    assert [one.reader for one in partials] == ["document"]
    other = two_nodes("cadvisor", "m.json", cores=sets(*map(str, range(16))))
    assert len(merge([*partials, other], name=None).facts.spec.cores[0].smt) == 0


@pytest.mark.parametrize(
    ("change", "line"),
    [(("online: 0-15", "online: 15-0"), 7), (("kind: NodeFacts", "kind: NodeFacts\nmore: 1"), 3)],
)
def test_a_document_with_an_error_is_refused_at_its_line(
    change: tuple[str, str], line: int
) -> None:
    text = facts_yaml(merge([two_nodes()], name="n").facts).replace(*change)
    with pytest.raises(ReadError) as caught:
        FORMAT.read(Text("n.yaml", text))
    assert caught.value.line == line


def test_other_documents_are_not_taken_for_node_facts() -> None:
    assert not FORMAT.sniff("apiVersion: v1\nkind: Node\n")
    assert not FORMAT.sniff("apiVersion: tierc.dev/v1alpha1\nkind: Intent\n")
    assert not FORMAT.sniff("a log that says kind: NodeFacts and apiVersion: tierc.dev/v1alpha1\n")
    text = facts_yaml(merge([two_nodes()], name="n").facts)
    other = "---\napiVersion: tierc.dev/v1alpha1\nkind: Project\nmetadata: {name: p}\nspec: {}\n"
    with pytest.raises(ReadError, match="not NodeFacts"):
        FORMAT.read(Text("x.yaml", text + other))


# --- properties --------------------------------------------------------------------------------


@st.composite
def sources(draw: st.DrawFn) -> list[Partial]:
    """Sources of one or of different machines: what they say may contradict itself."""
    found = []
    for number in range(draw(st.integers(1, 5))):
        count = draw(st.integers(1, 8))
        online = CpuSet(range(count))
        pair = draw(st.booleans()) and count % 2 == 0
        half = count // 2
        cores = (
            tuple(CpuSet((n, n + half)) for n in range(half))
            if pair
            else tuple(CpuSet((n,)) for n in range(count))
        )
        cut = draw(st.integers(0, count))
        numa = (NumaPart(0, CpuSet(range(cut))), NumaPart(3, CpuSet(range(cut, count))))
        devices = tuple(
            gpu(
                draw(st.sampled_from([None, GPU0, GPU1])) if number else GPU0,
                index=draw(st.none() | st.integers(0, 2)),
                uuid=draw(st.sampled_from([None, "GPU-a", "GPU-b"])),
                numa=draw(st.sampled_from([(), (0,), (3,), (0, 3), (7,)])),
                cpus=draw(st.none() | st.sets(st.integers(0, 9)).map(CpuSet)),
            )
            for _ in range(draw(st.integers(0, 3)))
        )
        found.append(
            Partial(
                draw(st.sampled_from(READERS)),
                draw(st.sampled_from(["a", "b"])),
                online=online,
                cores=cores,
                llcs=draw(st.sampled_from([None, (LlcPart(online, 3),), (LlcPart(cores[0], 2),)])),
                numa=draw(st.sampled_from([None, numa])),
                devices=devices,
                links=(LinkPart(0, 1, "NV4"),) if len(devices) > 1 else (),
            )
        )
    return found


def outcome(partials: list[Partial]) -> Merged | str:
    try:
        return merge(partials, name="n")
    except ReadError as error:  # contradictions can leave CPUs without a core
        return error.message


@given(sources(), st.randoms(use_true_random=False))
@settings(max_examples=60)
def test_the_order_of_sources_changes_nothing(partials: list[Partial], random: Any) -> None:
    expected = outcome(partials)
    shuffled = list(partials)
    random.shuffle(shuffled)
    result = outcome(shuffled)
    assert result == expected
    if isinstance(result, Merged) and isinstance(expected, Merged):
        assert facts_yaml(result.facts) == facts_yaml(expected.facts)


@given(sources())
@settings(max_examples=60)
def test_whatever_sources_say_the_facts_can_be_read_again(partials: list[Partial]) -> None:
    result = outcome(partials)
    if isinstance(result, str):
        assert "threads of one core" in result
        return
    facts = result.facts
    online = facts.spec.cpus.online
    assert all(d.locality.cpus is None or d.locality.cpus <= online for d in facts.spec.devices)
    again = merge(FORMAT.read(Text("n.yaml", facts_yaml(facts))), name=None).facts
    assert again.spec.cores == facts.spec.cores
    assert again.spec.numa == facts.spec.numa
    assert [(d.bdf, place(d)) for d in again.spec.devices] == [
        (d.bdf, place(d)) for d in facts.spec.devices
    ]


@given(st.sets(st.sampled_from(["hwloc", "lscpu", "cadvisor", "nccl"]), min_size=1))
@settings(max_examples=15)
def test_a_machine_agrees_with_itself(readers: set[str]) -> None:
    part = replace(EVERYTHING[0], notes=())
    others = [replace(part, reader=reader, file=reader) for reader in sorted(readers)]
    result = merge([*others, part], name=None)
    assert result.disagreements == ()
    alone = merge([part], name=None).facts
    ignored = {"sources": ()}
    assert result.facts.spec.model_copy(update=ignored) == alone.spec.model_copy(update=ignored)
