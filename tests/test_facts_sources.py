"""One machine through several sources gives the same facts.

Real `lstopo` and `lscpu` read the sysfs snapshots of the corpus, and `tierc facts import` what they
print; both tools have readers of sysfs that share nothing with ours.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from compiler.cpuset import union
from compiler.facts.fingerprint import facts_fingerprint_text
from compiler.model.facts import NodeFacts
from tests.corpus import FOLDERS, snapshots, unpack
from tests.test_facts_conformance import alone, call

CPU = "sys/devices/system/cpu"

NO_NODES = "the kernel shows no node directories; hwloc makes up a node for the whole machine"
PACKAGES = "the kernel numbers all packages -1; lscpu numbers their lists of CPUs, one a core"
NO_CPUS = "lscpu leaves out a node without CPUs"
NESTED = "made up: its nodes overlap and leave CPUs out, and hwloc drops nodes that do not nest"
BLANK = "CPUs in no node and no caches: in lscpu's columns that is what offline CPUs look like"
# (snapshot, source, fact) -> why the sources differ.  Anything else must be the same.
DIFFERENT = {
    ("128ia64-17n4s2c.tar.bz2", "lscpu -p", "numa"): NO_CPUS,
    ("128ia64-17n4s2c.tar.bz2", "lscpu -J -e", "numa"): NO_CPUS,
    ("256ppc-8n8s4t.tar.bz2", "lscpu -p", "packages"): PACKAGES,
    ("256ppc-8n8s4t.tar.bz2", "lscpu -J -e", "packages"): PACKAGES,
    ("armv7.tar.gz", "hwloc v2", "numa"): NO_NODES,
    ("armv7.tar.gz", "hwloc v1", "numa"): NO_NODES,
    ("ppc64-POWER7-64cpu.tar.gz", "lscpu -p", "packages"): PACKAGES,
    ("ppc64-POWER7-64cpu.tar.gz", "lscpu -J -e", "packages"): PACKAGES,
    ("ppc64-POWER7-64cpu.tar.gz", "lscpu -p", "numa"): NO_CPUS,
    ("ppc64-POWER7-64cpu.tar.gz", "lscpu -J -e", "numa"): NO_CPUS,
    ("fakeheterocpunuma.tar.bz2", "hwloc v2", "numa"): NESTED,
    ("fakeheterocpunuma.tar.bz2", "hwloc v1", "numa"): NESTED,
    ("fakeheterocpunuma.tar.bz2", "lscpu -p", "refused"): BLANK,
    ("fakeheterocpunuma.tar.bz2", "lscpu -J -e", "refused"): BLANK,
}


def cpu_facts(facts: NodeFacts) -> dict[str, object]:
    """Return the CPU facts that all sources know, as sets: every tool numbers in its own way."""
    spec = facts.spec
    packages = {group.package for group in spec.cores} - {None}
    return {
        "online": spec.cpus.online,
        "cores": {core for group in spec.cores for core in group.cores()},
        "packages": {
            union(group.cpus for group in spec.cores if group.package == number)
            for number in packages
        },
        "numa": {node.id: node.cpus for node in spec.numa},
        "llcs": {(llc.level, llc.cpus) for llc in spec.llcs},
        # Without the architecture: of these only sysfs names that of the snapshot.
        "fingerprint": facts_fingerprint_text(facts).splitlines()[2:],
    }


def complete(root: Path, facts: NodeFacts) -> None:
    """Write the files without which lscpu does not start; some snapshots lack them."""
    for name in ("possible", "present", "online"):
        path = root / CPU / name
        if not path.exists():
            path.write_text(f"{facts.spec.cpus.online}\n")
    known = root / "proc/cpuinfo"
    if not known.exists() or "processor" not in known.read_text():
        known.parent.mkdir(exist_ok=True)
        known.write_text(
            "".join(f"processor : {cpu}\nmodel : 1\n\n" for cpu in facts.spec.cpus.online)
        )


@pytest.mark.parametrize("folder", FOLDERS)
def test_sysfs_hwloc_and_lscpu_say_the_same(
    shared: Path,
    tmp_path: Path,
    tool: Callable[[str], str],
    capsys: pytest.CaptureFixture[str],
    folder: str,
) -> None:
    lstopo = [tool("lstopo-no-graphics"), "--if", "fsroot", "--of", "xml", "--no-io"]
    lscpu = tool("lscpu")
    environment = {"PATH": os.environ["PATH"], "LC_ALL": "C", "HWLOC_THISSYSTEM": "0"}
    corpus = shared / "corpus" / "topology"
    found, compared = {}, 0
    for path in snapshots(corpus):
        if path.parent.name != folder:
            continue
        facts = alone(f"{folder}/{path.name}").facts()
        root = unpack(path, tmp_path / path.name, layout=True)
        whole = [*lstopo, "--disallowed", "-i", root]
        # hwloc first: the files that are then added for lscpu would help it too.
        for source, command in {
            "hwloc v2": whole,
            "hwloc v1": [*whole, "--export-xml-flags", "v1"],
            "lscpu -p": [lscpu, "--sysroot", root, "-p=cpu,core,socket,node,cache"],
            "lscpu -J -e": [lscpu, "--sysroot", root, "-J", "-e"],
        }.items():
            if source == "lscpu -p":
                complete(root, facts)
            done = subprocess.run(
                command, env=environment, capture_output=True, text=True, check=True
            )
            printed = tmp_path / f"{path.name} {source}"
            printed.write_text(done.stdout)
            called = call("import", printed, "--name", "n")
            compared += 1
            if called.code != 0:
                found[path.name, source, "refused"] = (None, called.err)
                continue
            other = cpu_facts(called.facts())
            for fact, value in cpu_facts(facts).items():
                if value != other[fact]:
                    found[path.name, source, fact] = (value, other[fact])
    with capsys.disabled():
        print(f"\n{folder}: {compared} outputs of lstopo and lscpu, {len(found)} known differences")
    here = {path.name for path in snapshots(corpus) if path.parent.name == folder}
    for one, other in (pair for key, pair in found.items() if DIFFERENT.get(key) == NO_CPUS):
        assert isinstance(one, dict)
        assert {node: cpus for node, cpus in one.items() if cpus} == other
    assert {k: v for k, v in found.items() if k not in DIFFERENT} == {}
    assert found.keys() == {key for key in DIFFERENT if key[0] in here}
    assert compared == 4 * FOLDERS[folder]


@pytest.mark.parametrize(
    ("system", "node", "name", "cpus"),
    [
        ("bare-metal-master.internal", "bare-metal-node-master.internal", "master.internal", 112),
        ("bare-metal-worker2.internal", "bare-metal-node-worker2.internal", "worker2.internal", 32),
        ("sno-sno", "sno-node-sno", "sno", 12),
    ],
)
def test_sysfs_cadvisor_and_the_node_object_agree(
    shared: Path, system: str, node: str, name: str, cpus: int
) -> None:
    """A must-gather: its archive of sysfs holds cadvisor's machine info too."""
    folder = shared / "corpus" / "topology" / "openshift-mustgather"
    called = call("import", folder / f"{system}-sysinfo.tgz", folder / f"{node}.yaml")
    assert (called.code, called.err) == (0, "")
    facts = called.facts()
    assert facts.metadata.name == name
    assert len(facts.spec.cpus.online) == cpus
    assert [one.reader for one in facts.spec.sources] == ["sysfs", "node"]
    assert facts.metadata.labels["kubernetes.io/hostname"] == name
    assert cpu_facts(facts) == cpu_facts(
        alone(f"openshift-mustgather/{system}-sysinfo.tgz").facts()
    )


def test_a_node_object_of_another_machine_is_noticed(shared: Path) -> None:
    folder = shared / "corpus" / "topology" / "openshift-mustgather"
    called = call(
        "import",
        folder / "sno-sno-sysinfo.tgz",
        folder / "bare-metal-node-worker2.internal.yaml",
    )
    assert called.code == 0
    assert "says that the node has 32 CPUs, but 12 are online (0-11)" in called.err


@pytest.mark.parametrize("name", ["bare-metal-master.internal", "sno-sno"])
def test_cadvisor_says_what_sysfs_says(shared: Path, name: str) -> None:
    sysfs = alone(f"openshift-mustgather/{name}-sysinfo.tgz").facts()
    cadvisor = alone(f"cadvisor-machineinfo/{name}.machineinfo.json").facts()
    assert [one.reader for one in cadvisor.spec.sources] == ["cadvisor"]
    assert cpu_facts(cadvisor) == cpu_facts(sysfs)
