"""Whatever a tree holds: facts that can be read back, or one clear refusal."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from compiler.decode import decode
from compiler.diagnostics import Sink
from compiler.facts.collect import FactsError, collect
from compiler.facts.write import facts_yaml
from compiler.model.facts import NodeFacts
from compiler.source import parse_source
from tests.sysfs_builder import SysfsBuilder, gb10


def rich(root: Path) -> SysfsBuilder:
    """A small machine that has one of everything that is read."""
    b = SysfsBuilder(root)
    b.masks(online="0-3", possible="0-3", present="0-3", isolated="", nohz_full="(null)")
    b.cores(["0-1", "2-3"])
    b.attribute("0-3", "cpu_capacity", 1024)
    b.attribute("0-3", "acpi_cppc/highest_perf", 100)
    b.attribute("0-3", "regs/identification/midr_el1", "0x410fd851")
    b.cache(0, "0-3", level=3, size="1M", id=0)
    b.file("sys/devices/cpu_core/cpus", "0-1\n")
    b.file("sys/devices/cpu_atom/cpus", "2-3\n")
    b.file("sys/devices/system/node/online", "0-1\n")
    b.node(0, "0-1", mem_kib=1024, distance="10 20")
    b.node(1, "2-3", mem_kib=1024, distance="20 10")
    gpu = b.pci("0000:01:00.0", code=0x030000, vendor=0x10DE, device=1, numa=0, local="0-1")
    b.file(f"{gpu}/local_cpus", "3\n")
    nic = b.pci("0000:02:00.0", code=0x020000, vendor=0x8086, device=1, numa=-1, local="0-3")
    b.interface("eth0", nic)
    b.file("proc/driver/nvidia/gpus/0000:01:00.0/information", "Model: X\nGPU UUID: GPU-1\n")
    b.file("proc/driver/nvidia/gpus/0000:01:00.0/numa_status", "Node: 1\n")
    for path, text in (
        ("proc/cpuinfo", "processor: 0\nvendor_id: X\nflags: lm\n"),
        ("proc/sys/kernel/hostname", "n\n"),
        ("proc/sys/kernel/arch", "x86_64\n"),
        ("proc/sys/kernel/osrelease", "6.1\n"),
        ("proc/sys/kernel/version", "#1 SMP\n"),
        ("proc/version", "Linux version 6.1\n"),
        ("proc/cmdline", "isolcpus=1\n"),
        ("proc/self/mounts", "c /c cgroup2 rw 0 0\n"),
        ("proc/self/status", "Cpus_allowed_list:\t0-2\n"),
        ("proc/self/cgroup", "0::/a\n"),
        ("sys/fs/cgroup/a/cpuset.cpus.effective", "0-3\n"),
        ("sys/kernel/sched_ext/state", "disabled\n"),
        ("sys/kernel/sched_ext/root/ops", "x\n"),
        ("sys/class/dmi/id/sys_vendor", "QEMU\n"),
        ("sys/hypervisor/type", "xen\n"),
        ("var/lib/kubelet/cpu_manager_state", '{"policyName": "static", "entries": {}}'),
        ("var/lib/kubelet/config.yaml", "cpuManagerPolicy: static\nreservedSystemCPUs: 0\n"),
    ):
        b.file(path, text)
    return b


JUNK = st.one_of(
    st.binary(max_size=12),
    st.sampled_from(
        [b"", b"\n", b"-1\n", b"0\n", b"7\n", b"99999999999999999999\n", b"0-3\n", b"1\n", b"3-1\n",
         b"0-8191\n", b"0-4294967295\n", b"ffffffff,ffffffff\n", b"0x\n", b"Unified\n", b"10 20\n",
         b"$(id)\n", b"a: b\n- c\n", b"\x1b[2J\n", b"../../../etc\n", b"8191\n", b"no\n",
         b'{"policyName": "static", "entries": {"a": {"b": "0-9000"}}}', b"18446744073709551616"]
    ),
    st.integers(-(10**12), 10**12).map(lambda n: f"{n}\n".encode()),
)  # fmt: skip


@given(st.data(), st.booleans())
@settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_junk_never_ends_in_a_traceback(tmp_path: Path, data: st.DataObject, live: bool) -> None:
    root = tmp_path / "root"
    if not root.exists():
        rich(root)
    files = sorted(str(p.relative_to(root)) for p in root.rglob("*") if p.is_file())
    chosen = data.draw(st.dictionaries(st.sampled_from(files), JUNK, min_size=1, max_size=12))
    kept = {path: (root / path).read_bytes() for path in chosen}
    try:
        for path, junk in chosen.items():
            (root / path).write_bytes(junk)
        try:
            facts = collect(root, name=None, live=live)
        except FactsError:
            return
        text = facts_yaml(facts)
        assert text.isascii()
        assert all(warning.isprintable() for warning in facts.spec.warnings)
        sink = Sink()
        (document,) = parse_source("x.yaml", text.encode(), sink).documents
        loaded = decode(document, sink)
        assert [found.message for found in sink] == []
        assert loaded is not None
        assert isinstance(loaded.model, NodeFacts)
        assert loaded.model.spec == facts.spec
        assert facts_yaml(collect(root, name=None, live=live)) == text
    finally:
        for path, before in kept.items():
            (root / path).write_bytes(before)


@pytest.mark.parametrize(
    "path", ["sys/devices/system/cpu/cpu0/topology/core_cpus_list", "proc/cpuinfo"]
)
def test_a_long_file_is_left_out_and_named(tmp_path: Path, path: str) -> None:
    b = rich(tmp_path / "root")
    with (b.root / path).open("wb") as file:
        file.truncate(64 * 1024 * 1024)
    spec = collect(b.root, name="n", live=False).spec
    assert any("larger than" in warning for warning in spec.warnings)


def test_reading_changes_nothing(tmp_path: Path) -> None:
    b = gb10(tmp_path / "root")

    def look() -> list[tuple[str, int, int]]:
        stats = [(str(p), p.lstat()) for p in sorted(b.root.rglob("*"))]
        return [(path, s.st_mtime_ns, s.st_size) for path, s in stats]

    before = look()
    collect(b.root, name=None, live=True)
    assert look() == before
