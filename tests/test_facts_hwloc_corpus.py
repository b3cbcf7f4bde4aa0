"""hwloc XML of real machines, beside what is known of them and what hwloc itself says."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from compiler.cpuset import CpuSet
from compiler.facts.partial import Partial
from tests.hwloc_xml import (
    DIRECTORIES,
    FIXTURES,
    read,
)

# --- the corpus ------------------------------------------------------------------------------


def expectations(shared: Path) -> dict[str, dict[str, str]]:
    rows = {}
    for line in (shared / "corpus" / "topology" / "MANIFEST.tsv").read_text().splitlines():
        name, *_, facts = line.split("\t")
        if name.split("/")[0] in DIRECTORIES:
            rows[name] = dict(part.split("=", 1) for part in facts.split("; ") if "=" in part)
    return rows


PROCESSOR_ONLY = "hwloc made up the NUMA node: the file has the processor's word only"
NOT_THE_MANIFESTS_NUMA = {
    "hwloc-xml/fakecpukinds.xml": PROCESSOR_ONLY,
    "hwloc-x86-xml/AMD-19h-Zen4-2xEpyc-9654.xml": PROCESSOR_ONLY,
    "hwloc-x86-xml/Intel-IvyBridge-12xXeon-E5-4620v2.xml": PROCESSOR_ONLY,
    "hwloc-x86-xml/Intel-RaptorLake-Corei7-1370P.xml": PROCESSOR_ONLY,
    "hwloc-x86-xml/Intel-SapphireRapids-2xXeonMax9460.xml": PROCESSOR_ONLY,
}


def test_the_corpus_is_read_as_its_manifest_says(shared: Path) -> None:
    expected = expectations(shared)
    assert len(expected) == 29
    for name, facts in expected.items():
        partial = read((shared / "corpus" / "topology" / name).read_text())
        online, cores = partial.online or CpuSet(), partial.cores or ()
        shown = {
            "xml": facts["xml"],
            "pus": f"{len(online)}[{online or '-'}]",
            "cores": str(len(cores)),
            "threads/core": str(sorted({len(one) for one in cores})),
            "packages": str(len(partial.packages or ())),
            "numa": ",".join(str(node.id) for node in partial.numa or ()),
            "cpuless": ",".join(str(n.id) for n in partial.numa or () if n.cpus == CpuSet()) or "-",
            "allowed": str(partial.allowed or partial.present),
            "complete": str(partial.present),
        }
        if name in NOT_THE_MANIFESTS_NUMA:
            assert partial.numa is None
            shown["numa"] = facts["numa"]
        assert {key: facts[key] for key in shown} == shown, name
        third = [str(llc.cpus) for llc in partial.llcs or () if llc.level == 3]
        listed = re.findall(r"[0-9][0-9,-]*", facts["llc_groups"].partition("[")[2])
        assert (str(len(third)), third[: len(listed)]) == (
            facts["llc_groups"].partition("[")[0],
            listed,
        ), name
        check_devices(name, partial, facts["devs"])


def check_devices(name: str, partial: Partial, text: str) -> None:
    """Every GPU and interface of the manifest is there, under its address and near its CPUs.

    The manifest lists storage and memory too, and one GPU under all its names.
    """
    found = {one.bdf: one for one in partial.devices or () if one.bdf}
    by_name = {one: device for device in partial.devices or () for one in device.names}
    for word in text.split() if text != "-" else ():
        match = re.fullmatch(r"([^@]+)@(-|[0-9a-f:.]+):([0-9,-]+)", word)
        assert match is not None, word
        label, bdf, near = match.groups()
        if label.startswith(("dax", "mem")):
            continue
        device = by_name[label] if bdf == "-" else found[bdf]
        is_gpu = re.match("cuda|nvml|rsmi|opencl", label) is not None
        assert device.type == ("gpu" if is_gpu else "nic"), (name, word)
        assert is_gpu or label in device.names, (name, word)
        assert str(device.cpus) == near, (name, word)


def test_kinds_of_the_corpus(shared: Path) -> None:
    def kinds(name: str) -> list[tuple[str, str]] | None:
        partial = read((shared / "corpus" / "topology" / name).read_text())
        if partial.kinds is None:
            return None
        return [(kind.name, str(kind.cpus)) for kind in partial.kinds]

    # 6 performance cores of two threads, 8 efficiency cores.
    assert kinds("hwloc-x86-xml/Intel-RaptorLake-Corei7-1370P.xml") == [
        ("performance", "0-11"),
        ("efficiency", "12-19"),
    ]
    # One Cortex-X4 at 3.4 GHz and three at 2.85 GHz are one kind; four Cortex-A720.
    assert kinds("hwloc-xml-parser/mediatek-dimensity-9300+.xml") == [
        ("performance", "4-7"),
        ("efficiency", "0-3"),
    ]
    assert kinds("hwloc-xml/fakecpukinds.xml") is None
    assert kinds("pyhwloc-xml/sample_numa.xml") is None


# --- hwloc itself ----------------------------------------------------------------------------


def asked(program: str, path: Path, locations: list[str], *options: str) -> list[CpuSet]:
    """CPUs of objects by their logical number, as hwloc says."""
    done = subprocess.run(
        [program, "-i", str(path), *options, "--po", "-I", "pu"],
        input="\n".join(locations) + "\n",
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    lines = [line for line in done.stdout.splitlines() if not line.startswith("Waiting")]
    assert len(lines) == len(locations)
    return [CpuSet(map(int, line.split(","))) for line in lines]


def count(program: str, path: Path, kind: str) -> int:
    done = subprocess.run(
        [program, "-i", str(path), "-N", kind, "all"],
        capture_output=True,
        text=True,
        check=False,  # a kind that the file does not have is an error
        timeout=60,
    )
    return int(done.stdout) if done.stdout.strip().isdigit() else 0


def agrees(program: str, path: Path) -> None:
    partial = read(path.read_text())

    def all_of(kind: str) -> list[CpuSet]:
        number = count(program, path, kind)
        found = asked(program, path, [f"{kind}:{n}" for n in range(number)]) if number else []
        return sorted(found, key=lambda one: one.lowest)

    assert asked(program, path, ["all"]) == [partial.online]
    assert all_of("core") == list(partial.cores or ())
    assert all_of("package") == [one for _, one in partial.packages or ()]
    for level in (2, 3):
        caches = [llc.cpus for llc in partial.llcs or () if llc.level == level]
        if caches:
            assert all_of(f"l{level}cache") == caches
    nodes = [node for node in partial.numa or () if node.cpus]
    assert nodes or partial.numa is None
    if nodes:
        names = [f"numanode:{node.id}" for node in nodes]
        assert asked(program, path, names, "--pi") == [node.cpus for node in nodes]
    places = [
        (f"pci={one.bdf}", one) for one in partial.devices or () if one.bdf and one.cpus is not None
    ]
    if places:
        near = asked(program, path, [name for name, _ in places])
        assert near == [one.cpus for _, one in places]


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_hwloc_reads_the_fixtures_alike(tool, version: str) -> None:
    agrees(tool("hwloc-calc"), FIXTURES / f"{version}.xml")


def test_hwloc_reads_the_corpus_alike(tool, shared: Path) -> None:
    program = tool("hwloc-calc")
    compared = 0
    for name, facts in expectations(shared).items():
        if facts["xml"] != "3.0":  # Debian's hwloc reads versions 1 and 2
            agrees(program, shared / "corpus" / "topology" / name)
            compared += 1
    assert compared == 15
