"""Situations that broke neighbouring tools: what is emitted for hosts and clusters.

The ids are those of the collection they were taken from (see test_cases.py).
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from compiler.__main__ import main
from compiler.cpuset import CpuSet
from tests.conftest import ROOT
from tests.policies import BOX, HEAD, intent, write

SERVICE = intent(
    "service",
    'workload: {match: [{cgroup: "serving.slice/**"}]}\nprotect: all\nlane: {cores: 2}',
)
BATCH = intent("batch", 'workload: {match: [{cgroup: "ci.slice/**"}]}\ndemote: background')
INFRA = intent("node-infra", "workload: {group: node-infra}\nkeep: system")

STREAM = ("--stdout", "kubernetes")


def project(spec: str) -> str:
    return f"{HEAD}kind: Project\nspec:\n  {spec}\n"


def built(root: Path) -> Path:
    """Build a policy and return its tree."""
    assert main(["build", str(root), "-o", str(root.parent / "out")]) == 0
    return root.parent / "out"


def stream(
    policy: Path, *, cwd: Path = ROOT, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Print the objects as a config management plugin does: no terminal."""
    return subprocess.run(
        [sys.executable, "-W", "always", "-m", "compiler", "build", str(policy), *STREAM],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT), **(env or {})},
        capture_output=True,
        timeout=120,
        check=False,
    )


def documents(data: bytes) -> list[dict[str, Any]]:
    return list(YAML(typ="safe").load_all(data.decode()))


# --- hosts ----------------------------------------------------------------------------------------


def test_c16_a_ban_list_is_never_empty(tmp_path: Path) -> None:
    """a) CPUs that are closed to interrupts are listed, in both forms; b) none: no such line.

    On the box, core n has the threads n and n+8.  Housekeeping has the cores 0 and 1 (two, of
    eight), the lane the next two: 2-3 and 10-11.  isolcpus of 4-7 stays banned, which irqbalance
    would do by itself as long as no list is set.
    """
    isolated = BOX.replace('isolated: ""', "isolated: 4-7")
    spec = "enforce: [{mode: fallback}]\n  targets: {taskset: {}, irq: {}}"
    lane = intent(
        "service",
        'workload: {match: [{cgroup: "serving.slice/**"}]}\n'
        "protect: all\nlane: {cores: 2}\nprefer: [gpu-local]",
    )
    files = {"tierc.yaml": project(spec), "intents/a.yaml": lane, "nodes/box.yaml": isolated}
    text = (built(write(tmp_path / "a/policy", files)) / "nodes/box/irq/irqbalance.env").read_text()
    (banned,) = [row for row in text.splitlines() if row.startswith("IRQBALANCE_BANNED_CPULIST=")]
    assert CpuSet.parse(banned.partition("=")[2]) == CpuSet.parse("2-7,10-11")
    (mask,) = [row for row in text.splitlines() if "IRQBALANCE_BANNED_CPUS=" in row]
    assert int(mask.partition("=")[2].replace(",", ""), 16) == sum(
        1 << cpu for cpu in (2, 3, 4, 5, 6, 7, 10, 11)
    )

    free = lane.replace("cores: 2", "cores: 2, share: open")
    files = {"tierc.yaml": project(spec), "intents/a.yaml": free}
    text = (built(write(tmp_path / "b/policy", files)) / "nodes/box/irq/irqbalance.env").read_text()
    assert not [row for row in text.splitlines() if "BANNED" in row and "=" in row]


@pytest.mark.parametrize(
    ("kernel", "reason"),
    [
        ('release: "7.0.10", preemptRt: true, btf: true', "PREEMPT_RT"),
        ('release: "6.8.0", preemptRt: false, btf: true', "has no sched_ext"),
    ],
)
def test_c17_a_kernel_that_cannot_load_a_scheduler_gets_the_fallback(
    kernel: str, reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    supported = "true" if "Rt: true" in kernel else "false"
    head = BOX[: BOX.index("  kernel:")]
    node = (
        f"{head}  kernel: {{{kernel}, cgroup: v2, "
        f"schedExt: {{supported: {supported}, state: disabled}}}}\n"
    )
    files = {"intents/a.yaml": SERVICE, "nodes/box.yaml": node}
    targets = "targets: {taskset: {}, cpuset: {}, bpf: {}}"
    auto = write(
        tmp_path / "a/policy",
        {"tierc.yaml": project(f"enforce: [{{mode: auto}}]\n  {targets}"), **files},
    )
    tree = built(auto)
    out, err = capsys.readouterr()
    assert "box: CPU affinity; bpf emits nothing in mode fallback" in out
    assert "warning[TRC321]" in err
    assert reason in err
    assert {path.name for path in (tree / "nodes/box").iterdir() if path.is_dir()} == {
        "cpuset",
        "taskset",
    }
    hard = write(
        tmp_path / "b/policy",
        {"tierc.yaml": project(f"enforce: [{{mode: sched_ext}}]\n  {targets}"), **files},
    )
    assert main(["build", str(hard), "-o", str(tmp_path / "b/out")]) == 1
    err = capsys.readouterr().err
    assert reason in err
    assert "nodes: box" in err
    assert not (tmp_path / "b/out").exists()


def test_x07_slices_get_cpus_and_none_is_narrower_than_a_slice_inside_it(tmp_path: Path) -> None:
    """AllowedCPUs and never CPUAffinity; the kernel cuts a child to its parent."""
    inner = intent(
        "inner",
        'workload: {match: [{cgroup: "ci.slice/ci-fast.slice/**"}]}\n'
        "protect: all\nlane: {cores: 2}",
    )
    spec = "enforce: [{mode: fallback}]\n  targets: {taskset: {}, cpuset: {}}"
    files = {"tierc.yaml": project(spec), "intents/a.yaml": BATCH + "---\n" + inner}
    tree = built(write(tmp_path / "policy", files)) / "nodes/box/cpuset"
    allowed = {}
    for path in tree.glob("systemd/*/*.conf"):
        rows = dict(r.split("=", 1) for r in path.read_text().splitlines() if r[:1].isalpha())
        assert "CPUAffinity" not in rows
        allowed[path.parent.name] = CpuSet.parse(rows["AllowedCPUs"])
    # the lane: the two cores behind housekeeping's two
    assert allowed["ci-fast.slice.d"] == CpuSet.parse("2-3,10-11")
    assert allowed["ci-fast.slice.d"] < allowed["ci.slice.d"]
    assert "CPUAffinity=" not in (tree / "apply.sh").read_text()


# --- clusters -------------------------------------------------------------------------------------


def large(name: str) -> str:
    """A node of 512 CPUs."""
    return f"""{HEAD}kind: NodeFacts
metadata: {{name: {name}, labels: {{pool: big}}}}
spec:
  arch: x86_64
  cpus: {{online: 0-511, isolated: ""}}
  cores:
    - {{cpus: 0-511, smt: [0-255, 256-511], llc: 0, numa: 0, kind: standard}}
  llcs: [{{id: 0, level: 3, cpus: 0-511}}]
  numa: [{{id: 0, cpus: 0-511, role: cpu}}]
  kernel: {{release: 6.17.0, preemptRt: false, btf: true, cgroup: v2,
    schedExt: {{supported: true, state: disabled}}}}
"""


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """400 nodes of 512 CPUs."""
    spec = (
        "enforce: [{mode: auto}]\n  targets: {taskset: {}, cpuset: {}, irq: {}, bpf: {}, "
        "kubernetes: {select: labels}}"
    )
    files = {"tierc.yaml": project(spec), "intents/a.yaml": "---\n".join([SERVICE, BATCH, INFRA])}
    files |= {f"nodes/n{i}.yaml": large(f"n{i}") for i in range(400)}
    root = write(tmp_path_factory.mktemp("many") / "policy", files)
    (root / "nodes/box.yaml").unlink()
    return root


def test_c23_a_large_fleet_in_objects_of_a_size_that_syncs(many: Path) -> None:
    """Under 256 KiB each, the limit of client-side apply; a node less changes its own object."""
    done = stream(many)
    assert done.returncode == 0, done.stderr
    before = {(d["kind"], d["metadata"]["name"]): d for d in documents(done.stdout)}
    assert max(map(len, done.stdout.split(b"\n---\n"))) < 262_144
    assert sum(kind == "NodeFeature" for kind, _ in before) == 400
    (many / "nodes/n7.yaml").rename(many / "n7.away")
    try:
        after = {(d["kind"], d["metadata"]["name"]): d for d in documents(stream(many).stdout)}
    finally:
        (many / "n7.away").rename(many / "nodes/n7.yaml")
    (gone,) = before.keys() - after.keys()
    assert gone == ("NodeFeature", "tierc-n7")
    assert not after.keys() - before.keys()
    assert all(before[key] == after[key] for key in after)


def test_c23_what_cannot_be_listed_is_refused_with_name_and_limit(many: Path) -> None:
    path = many / "tierc.yaml"
    text = path.read_text()
    path.write_text(text.replace("{select: labels}", "{}"))
    try:
        done = stream(many)
    finally:
        path.write_text(text)
    assert (done.returncode, done.stdout) == (1, b"")
    said = done.stderr.decode()
    assert "TRC510" in said
    assert "400" in said
    assert "100" in said
    assert "select: labels" in said


WARNS = {
    "tierc.yaml": project(
        "enforce: [{mode: auto}]\n  targets: {taskset: {}, bpf: {}, kubernetes: {}}"
    ),
    # a protected name that anybody can take, and a kernel that cannot run the scheduler
    "intents/a.yaml": intent("a", "workload: {match: [{comm: engine}]}\nprotect: all"),
    "nodes/box.yaml": BOX.replace("preemptRt: false", "preemptRt: true"),
}


def test_c34_notices_do_not_get_into_the_manifests(tmp_path: Path) -> None:
    policy = write(tmp_path / "policy", WARNS)
    done = stream(policy)
    assert done.returncode == 0
    said = done.stderr.decode()
    assert said.count("warning[") >= 2
    found = documents(done.stdout)
    assert found
    assert all(one["apiVersion"] and one["kind"] for one in found)
    for data in (done.stdout, done.stderr):
        assert b"\x1b[" not in data
    (policy / "intents/b.yaml").write_text(
        intent("b", "workload: {match: [{com: x}]}\nkeep: system")
    )
    done = stream(policy)
    assert done.returncode != 0
    assert done.stdout == b""
    assert "intents/b.yaml:5:" in done.stderr.decode()
    last = done.stderr.decode().strip().splitlines()[-1]
    assert "nothing printed: 1 error" in last
    assert "intents/b.yaml:5:" in last


def test_c37_the_same_input_gives_the_same_stream(tmp_path: Path) -> None:
    """Three nodes, five intents, other hash seeds, clocks, places, orders, users' settings."""
    keep = "workload: {{match: [{{comm: {0}}}]}}\nkeep: system"
    five = [SERVICE, BATCH, INFRA, *(intent(name, keep.format(name)) for name in ("east", "west"))]
    nodes = {f"nodes/{n}.yaml": BOX.replace("name: box", f"name: {n}") for n in ("c", "a", "b")}
    spec = project("enforce: [{mode: auto}]\n  targets: {taskset: {}, bpf: {}, kubernetes: {}}")
    one = write(
        tmp_path / "one", {"tierc.yaml": spec, "intents/all.yaml": "---\n".join(five), **nodes}
    )
    shuffled = dict(reversed(nodes.items()))
    other = write(
        tmp_path / "elsewhere/two",
        {"tierc.yaml": spec, **shuffled, "intents/z.yaml": "---\n".join(five[::-1])},
    )
    kept = stream(one, env={"PYTHONHASHSEED": "0"}).stdout
    assert len(documents(kept)) >= 4
    for seed, policy, zone in (("1", one, "Asia/Tokyo"), ("7", other, "UTC"), ("0", other, "EST")):
        again = stream(
            policy,
            cwd=tmp_path,
            env={"PYTHONHASHSEED": seed, "TZ": zone, "LC_ALL": "C", "USER": "x", "HOSTNAME": "y"},
        )
        assert again.stdout == kept
    for word in (str(tmp_path), str(ROOT), "/home/"):
        assert word.encode() not in kept
