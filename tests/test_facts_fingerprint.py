"""What node facts say of a machine's identity, in both parts, and how it reaches a plan."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler import safety
from compiler.__main__ import main
from compiler.cpuset import CpuSet
from compiler.facts.collect import collect
from compiler.facts.fingerprint import (
    facts_device_fingerprint,
    facts_device_text,
    facts_fingerprint,
    facts_fingerprint_text,
)
from compiler.facts.formats.format import Text
from compiler.facts.formats.hwloc import HWLOC
from compiler.facts.formats.lscpu_json import CPUS_FORMAT
from compiler.facts.formats.lscpu_table import P_FORMAT
from compiler.facts.merge import merge
from compiler.facts.partial import DevicePart, LlcPart, Partial
from compiler.fingerprint import cpu_text, device_digest, device_text, digest
from compiler.model.facts import NodeFacts
from targets.taskset import TARGET
from tests.corpus import unpack
from tests.policies import BOX, intent, write
from tests.sysfs_builder import SysfsBuilder
from tests.taskset_plans import plan, this_machine

FOUR = CpuSet(range(4))
CORES = (CpuSet((0, 2)), CpuSet((1, 3)))


def merged(*partials: Partial) -> NodeFacts:
    return merge(partials, name="node").facts


def of(reader: str, **said: object) -> Partial:
    return Partial(reader=reader, file="f", online=FOUR, cores=CORES, **said)  # type: ignore[arg-type]


def gpu(bdf: str | None, **more: object) -> DevicePart:
    return DevicePart("gpu", bdf=bdf, **more)  # type: ignore[arg-type]


# --- the CPU part -----------------------------------------------------------------------------


def test_what_is_not_known_is_a_question_mark() -> None:
    body = "online 0-3\ncore 0,2\ncore 1,3\n"
    bare = merged(of("lscpu"))
    assert facts_fingerprint_text(bare) == f"tierc-cpu-2\narch ?\n{body}llc ?\n"
    llcs = (LlcPart(CpuSet((1, 3)), 2), LlcPart(CpuSet((0, 2)), 3))
    whole = merged(of("lscpu", arch="aarch64", llcs=llcs))
    want = f"tierc-cpu-2\narch aarch64\n{body}llc 0,2\nllc 1,3\n"
    assert facts_fingerprint_text(whole) == want
    assert facts_fingerprint(whole) == digest(want)


def test_numbers_and_levels_of_caches_do_not_matter(tmp_path: Path) -> None:
    """sysfs numbers a cache as the kernel likes; hwloc and lscpu have numbers of their own."""
    b = SysfsBuilder(tmp_path)
    b.masks(online="0-3")
    b.cores(["0,2", "1,3"])
    for cpu in range(4):
        base = f"sys/devices/system/cpu/cpu{cpu}/cache/index3"
        b.file(f"{base}/level", "3\n")
        b.file(f"{base}/type", "Unified\n")
        b.file(f"{base}/id", "17\n")
        b.file(f"{base}/shared_cpu_list", "0-3\n")
    b.file("proc/sys/kernel/arch", "x86_64\n")
    seen = collect(b.root, name="n", live=False)
    told = merged(of("hwloc", arch="x86_64", llcs=(LlcPart(FOUR, 3),)))
    assert facts_fingerprint_text(seen) == facts_fingerprint_text(told)


def test_one_machine_by_sysfs_and_by_hwloc(shared: Path, tmp_path: Path) -> None:
    corpus = shared / "corpus/topology"
    root = unpack(corpus / "hwloc-sysfs/memorysidecaches.tar.bz2", tmp_path)
    xml = (corpus / "hwloc-xml/memorysidecaches.xml").read_text()
    told = merged(*HWLOC.read(Text("m.xml", xml)))
    text = facts_fingerprint_text(told)
    assert text == facts_fingerprint_text(collect(root, name="n", live=False))
    assert text.count("\ncore ") == 40
    assert text.count("\nllc ") == 2


@pytest.mark.parametrize(
    ("format_", "file"),
    [(P_FORMAT, "alderlake.lscpu-p.csv"), (CPUS_FORMAT, "alderlake.lscpu-J-e.json")],
)
def test_one_machine_by_sysfs_and_by_lscpu(
    shared: Path, tmp_path: Path, format_: object, file: str
) -> None:
    """These forms of lscpu do not tell the architecture."""
    corpus = shared / "corpus/topology"
    root = unpack(corpus / "hwloc-sysfs/20em64t-hybrid-1p6c2t+2ca4co1t.tar.bz2", tmp_path)
    text = (corpus / "lscpu-derived" / file).read_text()
    told = merged(*format_.read(Text(file, text)))  # type: ignore[attr-defined]
    seen = facts_fingerprint_text(collect(root, name="n", live=False))
    assert facts_fingerprint_text(told).splitlines()[1] == "arch ?"
    assert facts_fingerprint_text(told).replace("arch ?", "arch x86_64") == seen


@settings(max_examples=40, deadline=None)
@given(
    sets=st.lists(
        st.frozensets(st.integers(0, 40), min_size=1, max_size=6), min_size=1, max_size=8
    ),
    online=st.frozensets(st.integers(0, 40), min_size=1),
    data=st.data(),
)
def test_the_order_in_which_a_source_tells_does_not_matter(
    sets: list[frozenset[int]], online: frozenset[int], data: st.DataObject
) -> None:
    on = CpuSet(online)
    shuffled = data.draw(st.permutations([*sets, sets[0]]))
    one = cpu_text("x", on, map(CpuSet, sets), map(CpuSet, sets))
    assert one == cpu_text("x", on, map(CpuSet, shuffled), map(CpuSet, shuffled))
    named = [CpuSet.parse(line.split()[1]) for line in one.splitlines()[3:] if "?" not in line]
    assert all(cpus and cpus <= on for cpus in named)
    assert len(set(one.splitlines())) == len(one.splitlines())


# --- the device part --------------------------------------------------------------------------


def test_devices_by_address_each_once() -> None:
    text = device_text(["10000:01:00.0", "000f:01:00.0", "0000:ff:00.0", "000f:01:00.0"], [])
    assert text.splitlines() == [
        "tierc-devices-1",
        "gpu 0000:ff:00.0",
        "gpu 000f:01:00.0",
        "gpu 10000:01:00.0",
    ]
    assert device_text(None, ["0000:01:00.0"]) == "tierc-devices-1\ngpu ?\nnic 0000:01:00.0\n"
    assert device_digest(None, None) is None
    assert device_digest((), None) == digest("tierc-devices-1\nnic ?\n")
    for wrong in ("01:00.0", "0000:01:00.8", "0000:01:00.0 ", "00000000:1B:00.0", "$(id)", ""):
        with pytest.raises(ValueError, match="not a PCI address"):
            device_text([wrong], [])


@pytest.mark.parametrize(
    ("partials", "lines"),
    [
        # sysfs shows all there is: a type it does not show is not there
        ([of("sysfs", devices=(gpu("0000:01:00.0"),))], ["gpu 0000:01:00.0"]),
        ([of("sysfs", devices=(DevicePart("nic", bdf="0000:02:00.0"),))], ["nic 0000:02:00.0"]),
        # a device on another bus has no address, and sysfs says so
        (
            [of("sysfs", devices=(DevicePart("nic", names=("eth0",)), gpu("0000:01:00.0")))],
            ["gpu 0000:01:00.0"],
        ),
        # others may not have looked for the other type
        ([of("nvidia-smi -q", devices=(gpu("0000:01:00.0"),))], ["gpu 0000:01:00.0", "nic ?"]),
        ([of("nvidia-smi topo", devices=(gpu(None, index=0),))], ["gpu ?", "nic ?"]),
        ([of("lscpu")], ["gpu ?", "nic ?"]),
        ([of("sysfs")], ["gpu ?", "nic ?"]),
        # a MIG instance is where its GPU is
        (
            [
                of(
                    "nvidia-smi -q",
                    devices=(
                        gpu("0000:01:00.0", uuid="GPU-a"),
                        gpu(None, uuid="MIG-b", parent_uuid="GPU-a"),
                    ),
                )
            ],
            ["gpu 0000:01:00.0", "nic ?"],
        ),
    ],
)
def test_which_devices_the_facts_know(partials: list[Partial], lines: list[str]) -> None:
    facts = merged(*partials)
    text = facts_device_text(facts)
    assert text.splitlines() == ["tierc-devices-1", *lines]
    assert facts_device_fingerprint(facts) == digest(text)


# --- in a plan --------------------------------------------------------------------------------


def with_devices(gpus: tuple[str, ...] | None, nics: tuple[str, ...] | None) -> str:
    on = this_machine().model_copy(update={"gpus": gpus, "nics": nics})
    (script,) = (a for a in TARGET.emit(plan([], on=on)) if a.path.endswith("/apply.sh"))
    return script.data.decode()


def test_a_script_carries_the_devices_of_its_plan() -> None:
    assert "PLANNED_DEVICES=''\n" in with_devices(None, None)
    script = with_devices(("0000:01:00.0",), None)
    assert "PLANNED_DEVICES='tierc-devices-1\ngpu 0000:01:00.0\nnic ?'\n" in script


def test_a_plan_whose_devices_are_not_its_own_is_refused() -> None:
    one = plan([]).model_copy(update={"device_fingerprint": "0" * 64})
    with pytest.raises(ValueError, match="device fingerprint"):
        TARGET.emit(one)
    found = [violation.message for violation in safety.check(one)]
    assert any("device fingerprint" in message for message in found)
    good = plan([], on=this_machine().model_copy(update={"gpus": (), "nics": None}))
    assert good.device_fingerprint is not None
    assert not any("fingerprint" in violation.message for violation in safety.check(good))


def test_a_build_carries_both_parts(tmp_path: Path) -> None:
    body = "workload: {match: [{comm: work}]}\nprotect: all"
    files = {"nodes/box.yaml": BOX, "intents/a.yaml": intent("a", body)}
    write(tmp_path, files)
    out = tmp_path / "out"
    assert main(["build", str(tmp_path), "-o", str(out), "--color", "never"]) == 0
    text = (out / "nodes/box/plan.json").read_text()
    want = digest("tierc-devices-1\ngpu 0000:01:00.0\nnic ?\n")
    assert f'"deviceFingerprint": "{want}"' in text
    assert '"gpus"' in text
    assert '"nics"' not in text
