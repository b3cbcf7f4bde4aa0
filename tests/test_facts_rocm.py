"""AMD GPUs: ``rocm-smi --showtoponuma`` and the KFD topology."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest

from compiler.facts.files.disk import DiskFiles
from compiler.facts.formats.format import Text
from compiler.facts.formats.kfd import read_kfd
from compiler.facts.formats.rocm_smi import FORMAT
from compiler.facts.partial import DevicePart, Partial, ReadError
from compiler.facts.tree import Tree

# --- rocm-smi ----------------------------------------------------------------------------------


def read(text: str) -> Partial:
    assert FORMAT.sniff(text)
    (partial,) = FORMAT.read(Text("rocm.txt", text))
    return partial


def nodes(partial: Partial) -> list[tuple[int | None, tuple[int, ...], str]]:
    assert partial.devices is not None
    assert {(d.type, d.vendor) for d in partial.devices} <= {("gpu", "1002")}
    return [(d.index, d.numa, d.confidence) for d in partial.devices]


def lines(*said: tuple[int, int | str, int | str | None]) -> str:
    text = "===== ROCm System Management Interface =====\n==== Numa Nodes ====\n"
    for gpu, node, affinity in said:
        text += f"GPU[{gpu}]\t\t: (Topology) Numa Node: {node}\n"
        if affinity is not None:
            text += f"GPU[{gpu}]\t\t: (Topology) Numa Affinity: {affinity}\n"
    return text + "==== End of ROCm SMI Log ====\n"


def test_the_gpu_number_is_not_the_node() -> None:
    partial = read(lines((0, 1, 1), (1, 0, 0), (10, 3, 3)))
    assert partial.reader == "rocm-smi"
    assert nodes(partial) == [
        (0, (1,), "measured"),
        (1, (0,), "measured"),
        (10, (3,), "measured"),
    ]
    assert partial.notes == ()


def test_the_form_of_older_versions() -> None:
    text = "GPU 0          : (Topology) Numa Node: 2\r\nGPU 0 : (Topology) Numa Affinity: 2\r\n"
    assert nodes(read(text)) == [(0, (2,), "measured")]


@pytest.mark.parametrize("none", ["-1", "4294967295", "N/A"])
def test_node_0_without_an_affinity_is_unknown(none: str) -> None:
    partial = read(lines((0, 0, none)))
    assert nodes(partial) == [(0, (), "unknown")]
    assert [(n.line, n.message) for n in partial.notes] == [
        (4, "GPU 0: Numa Node 0 is not used: the kernel knows none")
    ]


def test_the_affinity_counts() -> None:
    partial = read(lines((0, 0, 1)))
    assert nodes(partial) == [(0, (1,), "measured")]
    assert [n.message for n in partial.notes] == [
        "GPU 0: Numa Node 0 is not used: Numa Affinity is 1"
    ]


def test_without_an_affinity_line_the_node_counts() -> None:
    assert nodes(read(lines((0, 1, None), (1, -1, None)))) == [
        (0, (1,), "measured"),
        (1, (), "unknown"),
    ]


def test_nonsense_is_unknown() -> None:
    partial = read(lines((0, "zero", "zero")))
    assert nodes(partial) == [(0, (), "unknown")]
    assert partial.notes[0].message == "GPU 0: Numa Node 'zero' is not a node"
    assert partial.notes[0].line == 3


def test_json() -> None:
    card = {"(Topology) Numa Node": "1", "(Topology) Numa Affinity": "1"}
    text = json.dumps({"card1": card, "card0": {"(Topology) Numa Node": 0}, "system": {"a": "b"}})
    assert nodes(read(text)) == [(0, (0,), "measured"), (1, (1,), "measured")]


def test_the_same_log_twice_is_one_and_another_machine_is_refused() -> None:
    assert len(nodes(read(lines((0, 1, 1)) * 2))) == 1
    with pytest.raises(ReadError) as caught:
        read(lines((0, 1, 1)) + lines((0, 2, 2)))
    assert (caught.value.line, caught.value.message) == (8, "GPU 0 has Numa Node 1 and 2")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nothing", "no NUMA node of a GPU in it"),
        ('{"card0": {"x": 1}}', "no NUMA node of a GPU in it"),
        ('{"card0": {', "not JSON: expecting property name enclosed in double quotes"),
        ('{"a":' * 100_000, "not JSON"),
        (
            '{"card0": {"(Topology) Numa Node": ' + "9" * 5000 + "}}",
            "not JSON that rocm-smi prints",
        ),
    ],
)
def test_what_is_refused(text: str, message: str) -> None:
    with pytest.raises(ReadError) as caught:
        FORMAT.read(Text("t", text))
    assert caught.value.message.startswith(message)


@pytest.mark.parametrize(
    "text", ["", "{}", '{"card0": {"Numa": 1}}', "GPU0 X NODE 0-3 0", "GPU[0] : x"]
)
def test_other_texts_are_not_claimed(text: str) -> None:
    assert not FORMAT.sniff(text)


def test_logs_of_real_machines(shared: Path) -> None:
    expected = {  # MANIFEST.tsv
        "mi210-8gpu-nps4-reversed": [3, 2, 1, 0, 7, 6, 5, 4],
        "mi300a-4apu": [0, 1, 2, 3],
        "mi300a-tpx-12gpu": [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3],
    }
    where = shared / "corpus" / "topology" / "smi-topo"
    for name, numa in expected.items():
        partial = read((where / f"{name}.rocm-showtoponuma.txt").read_text("utf-8"))
        assert nodes(partial) == [(i, (node,), "measured") for i, node in enumerate(numa)], name
        assert partial.notes == ()


# --- KFD ---------------------------------------------------------------------------------------


class Kfd:
    """A topology directory, node by node."""

    def __init__(self, root: Path, where: str = "topology/nodes") -> None:
        self.root = root
        self._nodes = root / where
        self._count = 0

    def node(self, links: list[tuple[int, int]] | None = None, **properties: int) -> None:
        path = self._nodes / str(self._count)
        (path / "io_links").mkdir(parents=True)
        text = "".join(f"{key} {value}\n" for key, value in properties.items())
        (path / "properties").write_text(text)
        for number, (kind, to) in enumerate(links or []):
            (path / "io_links" / str(number)).mkdir()
            (path / "io_links" / str(number) / "properties").write_text(
                f"type {kind}\nversion_major 0\nnode_from {self._count}\nnode_to {to}\nweight 20\n"
            )
        self._count += 1

    def cpu(self) -> None:
        self.node(cpu_cores_count=8, simd_count=0)

    def gpu(
        self, location: int, unique: int, to: int | None, domain: int = 0, kind: int = 2
    ) -> None:
        self.node(
            [] if to is None else [(kind, to)],
            cpu_cores_count=0, simd_count=320, vendor_id=0x1002, device_id=0x740F,
            location_id=location, domain=domain, unique_id=unique,
        )  # fmt: skip

    def read(self) -> Partial:
        return read_kfd(Tree(DiskFiles(self.root)), "/", "kfd.tgz")


def gpus(partial: Partial) -> list[tuple[str | None, tuple[int, ...], str]]:
    assert partial.devices is not None
    return [(d.bdf, d.numa, d.confidence) for d in partial.devices]


def test_gpus_by_address_with_their_node(tmp_path: Path) -> None:
    kfd = Kfd(tmp_path)
    kfd.cpu()
    kfd.cpu()
    kfd.gpu(0xC300, 0xAB, 1, domain=1)
    kfd.gpu(0x2308, 0xCD, 0, kind=11)
    partial = kfd.read()
    assert (partial.reader, partial.file) == ("kfd", "kfd.tgz")
    assert partial.devices == (
        DevicePart(
            "gpu", bdf="0000:23:01.0", uuid="GPU-00000000000000cd", vendor="1002",
            model="1002:740f", numa=(0,),
        ),
        DevicePart(
            "gpu", bdf="0001:c3:00.0", uuid="GPU-00000000000000ab", vendor="1002",
            model="1002:740f", numa=(1,),
        ),
    )  # fmt: skip
    assert partial.notes == ()


def test_node_0_on_every_gpu_of_two_nodes_is_what_the_kernel_writes_when_it_does_not_know(
    tmp_path: Path,
) -> None:
    kfd = Kfd(tmp_path)
    kfd.cpu()
    kfd.cpu()
    kfd.gpu(0x0300, 1, 0)
    kfd.gpu(0x8300, 2, 0)
    partial = kfd.read()
    assert gpus(partial) == [("0000:03:00.0", (), "unknown"), ("0000:83:00.0", (), "unknown")]
    assert "may mean that the kernel does not know" in partial.notes[0].message


def test_node_0_of_one_is_meant(tmp_path: Path) -> None:
    kfd = Kfd(tmp_path)
    kfd.cpu()
    kfd.gpu(0x0300, 1, 0)
    assert gpus(kfd.read()) == [("0000:03:00.0", (0,), "measured")]


def test_partitions_are_one_device(tmp_path: Path) -> None:
    kfd = Kfd(tmp_path)
    kfd.cpu()
    kfd.cpu()
    for partition in range(4):
        kfd.gpu(0x0A00 | partition, 7, 1)
    kfd.gpu(0x8000 | 3 << 28, 8, 0)  # one kernel wrote the partition into the top bits
    assert gpus(kfd.read()) == [
        ("0000:0a:00.0", (1,), "measured"),
        ("0000:80:00.0", (0,), "measured"),
    ]


def test_virtual_functions_of_one_slot_are_several_devices(tmp_path: Path) -> None:
    kfd = Kfd(tmp_path)
    kfd.cpu()
    kfd.gpu(0x0A10, 5, 0)
    kfd.gpu(0x0A11, 6, 0)
    assert [bdf for bdf, *_ in gpus(kfd.read())] == ["0000:0a:02.0", "0000:0a:02.1"]


def test_two_gpus_at_one_address_are_said(tmp_path: Path) -> None:
    kfd = Kfd(tmp_path)
    kfd.cpu()
    kfd.gpu(0x1900, 1, 0)
    kfd.gpu(0x1900, 2, 0)
    partial = kfd.read()
    assert partial.devices is not None
    assert [(d.bdf, d.uuid) for d in partial.devices] == [("0000:19:00.0", None)]
    assert partial.notes[0].message == "KFD nodes 1, 2 are different GPUs at 0000:19:00.0"


def test_a_link_to_no_cpu_node_is_unknown(tmp_path: Path) -> None:
    """With NUMA nodes 0 and 8 the link of a GPU at 8 names no KFD node of CPUs."""
    kfd = Kfd(tmp_path)
    kfd.cpu()
    kfd.cpu()
    kfd.gpu(0x0300, 1, 8)
    kfd.gpu(0x0400, 2, None)
    partial = kfd.read()
    assert [numa for _, numa, _ in gpus(partial)] == [(), ()]
    assert len(partial.notes) == 2


def test_an_apu_is_its_own_cpu_node(tmp_path: Path) -> None:
    kfd = Kfd(tmp_path)
    kfd.node(cpu_cores_count=8, simd_count=8, vendor_id=0x1002, device_id=1, location_id=0x0500)
    assert gpus(kfd.read()) == [("0000:05:00.0", (0,), "measured")]


def test_nodes_of_other_containers_cannot_be_read(tmp_path: Path) -> None:
    kfd = Kfd(tmp_path)
    kfd.cpu()
    kfd.gpu(0x0300, 1, 0)
    kfd.node()  # empty
    partial = kfd.read()
    assert len(gpus(partial)) == 1
    assert partial.notes[0].message.endswith(
        "topology/nodes/2/properties cannot be read: a GPU may be missing"
    )


def test_roots_and_refusals(tmp_path: Path) -> None:
    kfd = Kfd(tmp_path, "sys/class/kfd/kfd/topology/nodes")
    kfd.cpu()
    kfd.gpu(0x0300, 1, 0)
    tree = Tree(DiskFiles(tmp_path))
    for root in (
        "/sys/class/kfd/kfd",
        "/sys/class/kfd/kfd/topology",
        "/sys/class/kfd/kfd/topology/",
    ):
        assert len(gpus(read_kfd(tree, root, "x"))) == 1
    with pytest.raises(ReadError, match="no KFD nodes below /sys"):
        read_kfd(tree, "/sys", "x")
    empty = Kfd(tmp_path / "b")
    empty.node()
    with pytest.raises(ReadError, match="none of the KFD nodes"):
        empty.read()


def test_topologies_of_real_machines(shared: Path, tmp_path: Path) -> None:
    where = shared / "corpus" / "topology" / "rocm-kfd"
    found = {}
    for path in sorted(where.glob("*.tar.gz")):
        with tarfile.open(path) as archive:
            archive.extractall(tmp_path / path.name, filter="data")
        found[path.name.removesuffix(".tar.gz")] = gpus(
            read_kfd(Tree(DiskFiles(tmp_path / path.name)), "/", path.name)
        )
    # location_id and the type 2 link of each node's properties, read by eye.
    mi210 = [(bus, 0) for bus in ("03", "26", "43", "63")] + [
        (bus, 1) for bus in ("83", "a3", "c3", "e3")
    ]
    mi308 = [(f"0000:{bus}", 0) for bus in ("0a", "80", "a4", "c8")] + [
        (f"0001:{bus}", 1) for bus in ("0b", "81", "a5", "c9")
    ]
    assert found == {
        "topo-mi210-xgmi-pcie": [(f"0000:{b}:00.0", (n,), "measured") for b, n in mi210],
        "topology-parsing-mi308": [(f"{b}:00.0", (n,), "measured") for b, n in mi308],
        "topology-parsing": [("0000:19:00.0", (0,), "measured")],
    }
