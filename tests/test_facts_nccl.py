"""NCCL topology XML: NUMA nodes, devices and NVLinks, and what it does not say."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.cpuset import CpuSet
from compiler.facts.formats.format import Text
from compiler.facts.formats.nccl import NCCL
from compiler.facts.partial import DevicePart, LinkPart, NumaPart, Partial, ReadError


def read(text: str) -> Partial:
    assert NCCL.sniff(text)
    (partial,) = NCCL.read(Text("topo.xml", text))
    return partial


def refused(text: str) -> ReadError:
    with pytest.raises(ReadError) as caught:
        NCCL.read(Text("topo.xml", text))
    return caught.value


def notes(partial: Partial) -> str:
    return "\n".join(note.message for note in partial.notes)


def cpus(text: str) -> CpuSet:
    return CpuSet.parse(text)


# Two GPUs and a NIC behind a switch on node 0, a GPU of unknown vendor and a NIC on node 1.
MACHINE = """<!-- a machine -->
<system version="1">
  <cpu numaid="0" affinity="00000001,0000000f" arch="x86_64" vendor="GenuineIntel" familyid="6">
    <pci busid="ffff:ff:01.0" class="0x060400" vendor="0xffff" device="0xffff" link_width="16">
      <pci busid="10:1c.0" class="0x030200" vendor="0x10de" device="0x20b2" keep="1">
        <gpu dev="3" sm="80" rank="0" gdr="1">
          <nvlink target="0000:10:1d.0" count="4" tclass="0x030200"/>
          <nvlink target="0000:10:1d.0" count="8" tclass="0x030200"/>
          <nvlink target="0000:07:00.0" count="6" tclass="0x068000"/>
        </gpu>
      </pci>
      <pci busid="0000:10:1d.0" class="0x030200" vendor="0x10de" device="0x20b2">
        <gpu dev="-1"><nvlink target="0000:10:1c.0" count="12" tclass="0x030200"/></gpu>
      </pci>
      <pci busid="0000:10:1b.0" class="0x020700" vendor="0x15b3" device="0x101b">
        <nic><net name="mlx5_1" dev="1" coll="1"/><net name="mlx5_0" dev="0"/></nic>
      </pci>
    </pci>
    <nic><net name="eth0" dev="2"/></nic>
    <pci busid="0000:02:00.0" class="0x010802" vendor="0x144d" device="0xa80a"/>
    <pci busid="0000:03:00.0" class="0x030000" vendor="0x1a03" device="0x2000"/>
  </cpu>
  <cpu numaid="1" affinity="0000000e,000000f0" arch="x86_64">
    <pci busid="0002:00:00.0" class="0x038000"/>
    <pci busid="0001:00:00.0"><nic><net name="AWS Libfabric"/></nic></pci>
    <pci busid="0000:00:1e.0"/>
  </cpu>
</system>
"""


def test_a_machine() -> None:
    partial = read(MACHINE)
    first, second = cpus("0-3,32"), cpus("4-7,33-35")
    assert partial.reader == "nccl"
    assert partial.file == "topo.xml"
    assert partial.arch == "x86_64"
    assert partial.online is None
    assert partial.numa == (NumaPart(0, first), NumaPart(1, second))
    on_0 = {"numa": (0,), "cpus": first}
    on_1 = {"numa": (1,), "cpus": second}
    assert partial.devices == (
        DevicePart("gpu", "0000:10:1c.0", index=3, vendor="10de", model="10de:20b2", **on_0),
        DevicePart("gpu", "0000:10:1d.0", vendor="10de", model="10de:20b2", **on_0),
        DevicePart(
            "nic",
            "0000:10:1b.0",
            vendor="15b3",
            model="15b3:101b",
            names=("mlx5_0", "mlx5_1"),
            **on_0,
        ),
        # NCCL puts interfaces without a PCI function at the first CPU, wherever they are.
        DevicePart("nic", names=("eth0",), confidence="unknown"),
        DevicePart("gpu", "0002:00:00.0", **on_1),
        DevicePart("nic", "0001:00:00.0", **on_1),
        DevicePart("other", "0000:00:1e.0", **on_1),
    )
    assert partial.links == (LinkPart(0, 1, "NV12"),)
    assert partial.notes == ()


def test_unknown_numa_is_not_a_node() -> None:
    partial = read(
        '<system version="1"><cpu numaid="-1" affinity="f">'
        '<pci busid="1:00.0" class="0x030200"/></cpu>'
        '<cpu numaid="-1"><pci busid="2:00.0" class="0x030200"/></cpu></system>'
    )
    assert partial.numa is None
    assert partial.devices == (
        DevicePart("gpu", "0000:01:00.0", cpus=cpus("0-3")),
        DevicePart("gpu", "0000:02:00.0", confidence="unknown"),
    )


def test_parts_of_a_node_are_united_and_keep_what_is_near() -> None:
    text = (
        '<system version="1"><cpu numaid="2" affinity="0f">'
        '<pci busid="1:00.0" class="0x030200"/></cpu><cpu numaid="2" affinity="f0"/>'
        '<cpu numaid="0" affinity="00"/></system>'
    )
    partial = read(text)
    assert partial.numa == (NumaPart(0, CpuSet()), NumaPart(2, cpus("0-7")))
    assert partial.devices is not None
    assert partial.devices[0].cpus == cpus("0-3")
    for part in ('affinity="0f"', 'affinity="f0"'):
        assert read(text.replace(part, "")).numa == (NumaPart(0, CpuSet()), NumaPart(2, None))


def test_a_missing_affinity_is_unknown() -> None:
    for affinity in ("", ' affinity=""'):
        partial = read(
            f'<system version="1"><cpu numaid="1"{affinity}><pci busid="1:00.0"/></cpu></system>'
        )
        assert partial.numa == (NumaPart(1, None),)
        assert partial.devices == (DevicePart("other", "0000:01:00.0", numa=(1,)),)
        assert partial.arch is None


def test_nodes_that_share_cpus_lose_them() -> None:
    partial = read(
        '<system version="1"><cpu numaid="0" affinity="0f"><pci busid="1:00.0"/></cpu>'
        '<cpu numaid="1" affinity="18"><pci busid="2:00.0"/></cpu>'
        '<cpu numaid="2" affinity="e0"><pci busid="3:00.0"/></cpu></system>'
    )
    assert partial.numa == (NumaPart(0, None), NumaPart(1, None), NumaPart(2, cpus("5-7")))
    assert [device.cpus for device in partial.devices or ()] == [None, None, cpus("5-7")]
    assert [device.numa for device in partial.devices or ()] == [(0,), (1,), (2,)]
    assert "numaid 0 shares CPU 3" in notes(partial)


@pytest.mark.parametrize(
    ("arches", "expected"),
    [
        (("arm64", "arm64"), "aarch64"),
        (("x86_64", "arm64"), None),
        (("x86_64", ""), None),
        (("ppc64", "ppc64"), None),  # of either byte order
    ],
)
def test_arch(arches: tuple[str, str], expected: str | None) -> None:
    inside = "".join(f'<cpu numaid="{n}" arch="{arch}"/>' for n, arch in enumerate(arches))
    assert read(f'<system version="1">{inside}</system>').arch == expected


def gpus(links: str, back: str = "") -> Partial:
    return read(
        '<system version="1"><cpu numaid="0">'
        f'<pci busid="1:00.0" class="0x030200"><gpu dev="0">{links}</gpu></pci>'
        f'<pci busid="2:00.0" class="0x030200"><gpu dev="1">{back}</gpu></pci></cpu></system>'
    )


def nvlink(target: str, count: object) -> str:
    return f'<nvlink target="{target}" count="{count}" tclass="0x030200"/>'


def test_nvlinks() -> None:
    assert gpus(nvlink("2:00.0", 4)).links == (LinkPart(0, 1, "NV4"),)
    assert gpus("", nvlink("0000:01:00.0", 4)).links == (LinkPart(0, 1, "NV4"),)
    assert gpus(nvlink("2:00.0", 4), nvlink("1:00.0", 4)).links == (LinkPart(0, 1, "NV4"),)
    for odd in (nvlink("9:00.0", 4), nvlink("x", 4), nvlink("2:00.0", "x"), nvlink("2:00.0", 0)):
        assert gpus(odd).links == ()
    itself = gpus(nvlink("1:00.0", 12))
    assert itself.links == ()
    assert "1:00.0 has an NVLink to itself" in notes(itself)
    unequal = gpus(nvlink("2:00.0", 4), nvlink("1:00.0", 2))
    assert unequal.links == ()
    assert "0000:01:00.0 and 0000:02:00.0 count 4 and 2 NVLinks" in notes(unequal)


def test_a_device_that_is_there_twice_counts_once() -> None:
    partial = read(
        '<system version="1"><cpu numaid="0"><pci busid="1:00.0"/></cpu>'
        '<cpu numaid="1"><pci busid="0000:01:00.0"/></cpu></system>'
    )
    assert [device.numa for device in partial.devices or ()] == [(0,)]
    assert "0000:01:00.0 is in the file twice" in notes(partial)


@pytest.mark.parametrize(
    ("text", "message", "line"),
    [
        ("<system>", "not well-formed XML", 1),
        ("<graphs/>", "<graphs> is not NCCL's <system>", 1),
        ('<system version="2"><cpu numaid="0"/></system>', "version '2' is not known", 1),
        ('<system version="1"/>', "without a NUMA node or device", 1),
        ('<system version="1">\n<cpu numaid="x"/></system>', "numaid 'x' is not a NUMA node", 2),
        ('<system version="1">\n<cpu numaid="-2"/></system>', "numaid '-2'", 2),
        ('<system version="1">\n<cpu numaid="1024"/></system>', "numaid '1024'", 2),
        ('<system version="1">\n<cpu numaid="0" affinity="xyz"/></system>', "affinity: 'xyz'", 2),
        (
            '<system version="1">\n<cpu numaid="0" affinity="' + "f," * 257 + 'f"/></system>',
            "affinity: mask names a CPU outside 0-8191",
            2,
        ),
        (
            '<system version="1"><cpu numaid="0">\n<pci busid="zz"/></cpu></system>',
            "busid 'zz' is not a PCI address",
            2,
        ),
        (
            '<system version="1"><cpu host_hash="0x1" numaid="0"/>'
            '<cpu host_hash="0x2" numaid="0"/></system>',
            "of 2 machines",
            1,
        ),
    ],
)
def test_what_is_refused(text: str, message: str, line: int) -> None:
    error = refused(text)
    assert message in error.message
    assert error.line == line


def test_devices_are_bounded_and_what_is_said_of_one_is_said_once() -> None:
    many = "".join(f'<pci busid="{n:x}:01:00.0"/>' for n in range(4098))
    text = f'<system version="1"><cpu numaid="0">{many}</cpu></system>'
    assert "more than 4096 devices" in refused(text).message
    same = '<pci busid="1:00.0"/>' * 5
    partial = read(f'<system version="1"><cpu numaid="0">{same}</cpu></system>')
    assert len(partial.notes) == 1


@pytest.mark.parametrize(
    "text",
    ["", '<topology version="2.0"><object/></topology>', "<system/>", '<graphs version="1"/>',
     '<node><system><cpu numaid="0"/></system></node>', "system: cpu numaid=0"],
)  # fmt: skip
def test_other_texts_are_not_claimed(text: str) -> None:
    assert not NCCL.sniff(text)


@given(st.lists(st.sets(st.integers(0, 100), max_size=6), min_size=1, max_size=5))
@settings(max_examples=40)
def test_affinities_are_the_nodes_where_they_are_disjoint(sets: list[set[int]]) -> None:
    rows = []
    for number, one in enumerate(sets):
        words = ",".join(f"{word:08x}" for word in reversed(CpuSet(one).words(32, 4)))
        rows.append(f'<cpu numaid="{number}" affinity="{words}"/>')
    partial = read(f'<system version="1">{"".join(rows)}</system>')
    others = [set().union(*sets[:n], *sets[n + 1 :]) for n in range(len(sets))]
    expected = [CpuSet(one) if not one & rest else None for one, rest in zip(sets, others)]  # noqa: B905
    assert partial.numa is not None
    assert [node.cpus for node in partial.numa] == expected


# Read from the files by eye: NUMA nodes with their CPUs, then GPUs and network devices by node.
CORPUS = {
    "aws-g5.48xl-topo.xml": ({0: None, 1: None}, {0: [0, 0, 4], 1: [0, 0, 5]}),
    "aws-p4de-24xl-topo.xml": ({0: "0-23,48-71", 1: "24-47,72-95"}, {0: [4, 2, 0], 1: [4, 2, 0]}),
    "azure-ncv4-topo.xml": (
        {0: "0-23", 1: "24-47", 2: "48-71", 3: "72-95"},
        {number: [1, 0, 0] for number in range(4)},
    ),
    "azure-ndv2-topo.xml": ({0: "0-19", 1: "20-39"}, {0: [4, 1, 0], 1: [4, 0, 0]}),
    "azure-ndv5-topo.xml": ({0: "0-47", 1: "48-95"}, {0: [4, 4, 0], 1: [4, 4, 0]}),
}


@pytest.mark.parametrize("name", sorted(CORPUS))
def test_the_corpus(shared: Path, name: str) -> None:
    nodes, counts = CORPUS[name]
    partial = read((shared / "corpus" / "topology" / "nccl-topo" / name).read_text())
    devices = partial.devices or ()
    assert partial.numa is not None
    assert {node.id: node.cpus for node in partial.numa} == {
        number: None if text is None else cpus(text) for number, text in nodes.items()
    }
    assert {
        number: [
            sum(1 for one in devices if one.numa == (number,) and one.type == kind)
            for kind in ("gpu", "nic", "other")
        ]
        for number in nodes
    } == counts
    assert partial.links == ()
