"""Instances of a GPU (MIG): named by UUID they mean the GPU; otherwise they are no GPU more."""

from __future__ import annotations

from pathlib import Path

import pytest

from compiler.cpuset import CpuSet
from compiler.facts.merge import merge
from compiler.facts.partial import DevicePart, NumaPart, Partial
from compiler.facts.write import facts_yaml
from tests.policies import PROJECT, codes, compiled, intent, write

GPU, MIG = "GPU-11111111", "MIG-22222222"


def facts() -> str:
    """Two GPUs, the second with one instance."""
    cpus = CpuSet(range(8))
    host = Partial(
        "sysfs",
        "sysfs",
        arch="x86_64",
        online=cpus,
        isolated=CpuSet(),
        cores=tuple(CpuSet((n,)) for n in range(8)),
        numa=(NumaPart(0, CpuSet(range(4))), NumaPart(1, CpuSet(range(4, 8)))),
        devices=tuple(
            DevicePart("gpu", bdf=f"0000:0{n + 1}:00.0", vendor="10de", numa=(n,)) for n in range(2)
        ),
    )
    query = Partial(
        "nvidia-smi -q",
        "q.xml",
        devices=(
            DevicePart("gpu", bdf="0000:02:00.0", uuid=GPU, vendor="10de", index=1),
            DevicePart("gpu", uuid=MIG, parent_uuid=GPU, vendor="10de", model="1g.10gb"),
        ),
    )
    return facts_yaml(merge([host, query], name="box").facts)


@pytest.mark.parametrize(
    ("gpus", "devices"),
    [
        (f"[{MIG}]", ("gpu1",)),
        (f"[{MIG.lower()}, {GPU}]", ("gpu1",)),
        ('[{model: "1g.10gb"}]', ("gpu1",)),
        ("all", ("gpu0", "gpu1")),
    ],
)
def test_a_lane_near_an_instance_is_near_its_gpu(
    tmp_path: Path, gpus: str, devices: tuple[str, ...]
) -> None:
    body = f"""\
        workload: {{match: [{{comm: a}}], gpus: {gpus}}}
        protect: all
        prefer: [gpu-local]
        lane: {{name: near, cores: 1}}
        """
    root = write(
        tmp_path,
        {"nodes/box.yaml": facts(), "tierc.yaml": PROJECT, "intents/a.yaml": intent("a", body)},
    )
    compilation, findings = compiled(root)
    assert "TRC318" not in codes(findings)
    (group,) = compilation.classes
    assert [d.id for d in group.topology.of_type("gpu")] == ["gpu0", "gpu1"]
    assert [d.id for d in group.topology.devices] == ["gpu0", "gpu1", "gpu1-mig0"]
    (lane,) = [one for one in group.resolution.lanes if one.name == "near"]
    assert lane.devices == devices
    assert group.plan is not None
    if devices == ("gpu1",):
        (got,) = [one for one in group.plan.lanes if one.name == "near"]
        assert got.cpus <= CpuSet(range(4, 8))


def test_an_unknown_instance_is_reported(tmp_path: Path) -> None:
    body = """\
        workload: {match: [{comm: a}], gpus: [MIG-99999999]}
        protect: all
        prefer: [gpu-local]
        lane: {name: near, cores: 1}
        """
    root = write(
        tmp_path,
        {"nodes/box.yaml": facts(), "tierc.yaml": PROJECT, "intents/a.yaml": intent("a", body)},
    )
    _, findings = compiled(root)
    assert "TRC318" in codes(findings)
