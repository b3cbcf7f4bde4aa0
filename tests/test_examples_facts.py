"""The node facts of the examples are what collecting on such machines gives, and no more.

The machines are written as files in tests/sysfs_machines.py; dgx-spark has tests of its own in
tests/test_facts_example.py.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from compiler.decode import Loaded, decode
from compiler.diagnostics import Sink
from compiler.facts.collect import collect, from_sources
from compiler.facts.host import read_host
from compiler.facts.tree import Tree
from compiler.facts.validate import validate
from compiler.facts.write import facts_yaml
from compiler.model.base import NodeMetadata
from compiler.model.facts import NodeFacts
from compiler.source import parse_source
from tests.conftest import ROOT
from tests.sysfs_builder import MemoryBuilder, SysfsBuilder
from tests.sysfs_machines import gb200, gh200, hgx, workstation

SCHEMA = "../../../schemas/NodeFacts.json"
MACHINES: dict[str, tuple[str, Callable[[SysfsBuilder], None], dict[str, str]]] = {
    "ws-a": ("workstation", workstation, {"pool": "workstations"}),
    "hgx-a": ("hgx", hgx, {"accelerator": "h100"}),
    "gh200-a": ("grace", gh200, {"accelerator": "gh200"}),
    "gb200-a": ("grace", gb200, {"accelerator": "gb200"}),
}


def collected(write: Callable[[SysfsBuilder], None]) -> NodeFacts:
    machine = MemoryBuilder()
    write(machine)
    return from_sources((read_host(Tree(machine.files), live=False),), name=None).facts


def kept(node: str) -> Path:
    return ROOT / "examples" / MACHINES[node][0] / f"nodes/{node}.yaml"


@pytest.mark.parametrize("node", MACHINES)
def test_the_facts_are_what_collect_gives(node: str) -> None:
    _, write, labels = MACHINES[node]
    facts = collected(write)
    assert facts.metadata.name == node
    assert facts.spec.warnings == ()
    labelled = facts.model_copy(update={"metadata": NodeMetadata(name=node, labels=labels)})
    assert facts_yaml(labelled, schema=SCHEMA) == kept(node).read_text()


def test_files_on_a_disk_say_the_same(tmp_path: Path) -> None:
    machine = SysfsBuilder(tmp_path / "root")
    workstation(machine)
    assert collect(machine.root, name=None, live=False) == collected(workstation)


@pytest.mark.parametrize("node", MACHINES)
def test_the_facts_are_without_findings(node: str) -> None:
    sink = Sink()
    (document,) = parse_source(f"nodes/{node}.yaml", kept(node).read_bytes(), sink).documents
    loaded = decode(document, sink)
    assert loaded is not None
    assert isinstance(loaded.model, NodeFacts)
    validate(Loaded(loaded.model, loaded.doc), sink)
    assert list(sink) == []


def test_a_workstation_has_two_gpus_whose_node_can_only_be_the_one_there_is() -> None:
    """numa_node is -1 there: unknown, but only one node has CPUs.  The board's VGA is no GPU."""
    gpus = [one for one in collected(workstation).spec.devices if one.type == "gpu"]
    assert [one.bdf for one in gpus] == ["0000:21:00.0", "0000:41:00.0"]
    for gpu in gpus:
        assert gpu.numa == 0
        assert gpu.locality is not None
        assert (str(gpu.locality.cpus), gpu.locality.confidence) == ("0-31", "inferred")


def test_four_pairs_of_gpu_and_nic_are_on_either_socket() -> None:
    devices = collected(hgx).spec.devices
    for kind in ("gpu", "nic"):
        assert [one.numa for one in devices if one.type == kind] == [0] * 4 + [1] * 4
    roots = [one.pcie_root for one in devices]
    assert roots[:8] == roots[8:]
    assert len(set(roots)) == 8


@pytest.mark.parametrize(
    ("write", "sockets", "memory", "nodes"), [(gh200, 1, [1], 9), (gb200, 2, [2, 10, 18, 26], 34)]
)
def test_memory_of_gpus_is_told_from_nodes_that_are_empty(
    write: Callable[[SysfsBuilder], None], sockets: int, memory: list[int], nodes: int
) -> None:
    spec = collected(write).spec
    with_cpus = list(range(sockets))
    empty = [id for id in range(nodes) if id not in (*with_cpus, *memory)]
    assert [one.id for one in spec.numa if one.role == "cpu"] == with_cpus
    assert [one.id for one in spec.numa if one.role == "gpu-memory"] == memory
    assert [one.id for one in spec.numa if one.role == "unknown"] == empty
    assert [one.id for one in spec.numa if one.memory_mib == 0] == empty
    for gpu in spec.devices:
        assert gpu.numa in (0, 1)  # a node with CPUs, not that of its memory
        assert gpu.locality is not None
        assert str(gpu.locality.cpus) == ("0-71" if gpu.numa == 0 else "72-143")


@pytest.mark.parametrize("write", [gh200, gb200])
def test_a_higher_clock_makes_no_other_kind(write: Callable[[SysfsBuilder], None]) -> None:
    assert {group.kind for group in collected(write).spec.cores} == {"standard"}
