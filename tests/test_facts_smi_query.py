"""``nvidia-smi -q -x``: addresses, UUIDs and MIG instances."""

from __future__ import annotations

from pathlib import Path

import pytest

from compiler.facts.formats.format import Text
from compiler.facts.formats.smi_query import FORMAT
from compiler.facts.partial import DevicePart, Partial, ReadError

HEAD = '<?xml version="1.0" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">\n'


def log(*gpus: str, attached: int | None = None) -> str:
    count = len(gpus) if attached is None else attached
    return (
        f"{HEAD}<nvidia_smi_log>\n<attached_gpus>{count}</attached_gpus>\n"
        + "\n".join(gpus)
        + "\n</nvidia_smi_log>\n"
    )


def gpu(bdf: str, uuid: str = "GPU-1", mig: str = "None", name: str = "NVIDIA L4") -> str:
    return (
        f'<gpu id="{bdf}"><product_name>{name}</product_name>'
        f"<mig_devices>{mig}</mig_devices><uuid>{uuid}</uuid></gpu>"
    )


def read(text: str) -> Partial:
    assert FORMAT.sniff(text)
    (partial,) = FORMAT.read(Text("q.xml", text))
    return partial


def devices(text: str) -> tuple[DevicePart, ...]:
    found = read(text).devices
    assert found is not None
    return found


def refused(text: str) -> ReadError:
    with pytest.raises(ReadError) as caught:
        FORMAT.read(Text("q.xml", text))
    return caught.value


def test_gpus_in_the_order_of_the_tool() -> None:
    text = log(gpu("0000000F:01:00.0", "GPU-a"), gpu("00010000:1B:00.0", "GPU-b"))
    assert read(text).reader == "nvidia-smi -q"
    assert devices(text) == (
        DevicePart(
            "gpu", bdf="000f:01:00.0", uuid="GPU-a", index=0, vendor="10de",
            model="NVIDIA L4", confidence="unknown",
        ),
        DevicePart(
            "gpu", bdf="10000:1b:00.0", uuid="GPU-b", index=1, vendor="10de",
            model="NVIDIA L4", confidence="unknown",
        ),
    )  # fmt: skip
    assert read(text).notes == ()


def test_mig_instances_have_a_parent_and_no_number() -> None:
    mig = "".join(
        f"<mig_device><index>{n}</index><uuid>MIG-{n}</uuid></mig_device>" for n in range(2)
    )
    found = devices(log(gpu("00000000:01:00.0", "GPU-a", mig), gpu("00000000:02:00.0", "GPU-b")))
    assert [(d.uuid, d.parent_uuid, d.index, d.bdf) for d in found] == [
        ("GPU-a", None, 0, "0000:01:00.0"),
        ("MIG-0", "GPU-a", None, None),
        ("MIG-1", "GPU-a", None, None),
        ("GPU-b", None, 1, "0000:02:00.0"),
    ]


def test_mig_instances_without_a_uuid_are_left_out_and_said() -> None:
    mig = "<mig_device><index>0</index></mig_device><mig_device><uuid>N/A</uuid></mig_device>"
    partial = read(log(gpu("00000000:01:00.0", "GPU-a", mig)))
    assert partial.devices is not None
    assert len(partial.devices) == 1
    (note,) = partial.notes
    assert note.message == (
        "GPU 0000:01:00.0: 2 MIG instances without a UUID left out; nvidia-smi -L prints it"
    )
    assert note.line == 5


def test_one_of_several_gpus_has_no_number() -> None:
    partial = read(log(gpu("00000000:01:00.0"), attached=4))
    assert partial.devices is not None
    assert partial.devices[0].index is None
    assert partial.notes[0].message.startswith("1 of 4 GPUs are described")


def test_what_is_not_told_is_unknown() -> None:
    text = log('<gpu id="what"><product_name>N/A</product_name><uuid>[N/A]</uuid></gpu>')
    (device,) = devices(text)
    assert (device.bdf, device.uuid, device.model, device.index) == (None, None, None, 0)
    assert [(n.line, n.message) for n in read(text).notes] == [(5, "'what' is not a PCI address")]


def test_the_address_is_also_in_the_pci_element() -> None:
    text = log("<gpu><pci><pci_bus_id>00000000:3A:00.0</pci_bus_id></pci></gpu>")
    assert devices(text)[0].bdf == "0000:3a:00.0"


def test_what_is_refused() -> None:
    assert refused(log()).message == "no GPU in it"
    assert refused("<lshw/>").message == "<lshw> is not <nvidia_smi_log>"
    twice = refused(log(gpu("00000000:01:00.0"), gpu("00000000:01:00.0")))
    assert (twice.line, twice.message) == (
        6,
        "GPU 0000:01:00.0 is described twice (first in line 5)",
    )
    assert "not well-formed" in refused(log(gpu("0:1:0.0"))[:-20]).message
    entity = HEAD.replace(' SYSTEM "nvsmi_device_v12.dtd"', ' [<!ENTITY a "b">]')
    assert "entities are not expanded" in refused(entity + "<nvidia_smi_log/>").message


@pytest.mark.parametrize("text", ["", "<topology/>", "nvidia_smi_log", "{}", "GPU0 X"])
def test_other_texts_are_not_claimed(text: str) -> None:
    assert not FORMAT.sniff(text)


def test_files_of_real_machines(shared: Path) -> None:
    where = shared / "corpus" / "topology" / "nvidia-smi-qx"
    found = {path.name: devices(path.read_text("utf-8")) for path in sorted(where.glob("*.xml"))}
    # Read from the files by eye.
    assert {name: [(d.bdf, d.model, (d.uuid or "")[:12], d.index) for d in gpus]
            for name, gpus in found.items()} == {
        "a10g.xml": [("0000:00:1e.0", "NVIDIA A10G", "GPU-9a9a6c50", 0)],
        "rtx-3080-v13.xml": [("0000:0c:00.0", "NVIDIA GeForce RTX 3080", "GPU-19d6d965", 0)],
        "rtx-4000-sff-ada-v13.xml": [
            ("0000:06:00.0", "NVIDIA RTX 4000 SFF Ada Generation", "GPU-37037c3f", 0)
        ],
        "tesla-t4.xml": [("0000:00:1e.0", "Tesla T4", "GPU-d37e67a5", 0)],
    }  # fmt: skip
