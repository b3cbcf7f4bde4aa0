"""Plans for tests of the bpf target, built by hand."""

from __future__ import annotations

from collections.abc import Iterable

from compiler.cpuset import CpuSet
from compiler.fingerprint import cpu_text, digest
from compiler.plan import Band, Condition, Machine, Mode, NodePlan, Rule, Tier
from tests.bpf_eval import Thread

# Different in every field and every byte, so that no two fields can be swapped unseen.
TIERS = (
    Tier(id=0, name="critical", slice_ns=0x01020304, weight=0x1112, floor=21, preempt=True),
    Tier(id=1, name="latency", slice_ns=3_000_000, weight=1000, floor=0, preempt=True),
    Tier(id=4, name="normal", slice_ns=20_000_000, weight=100, floor=50, preempt=False),
    Tier(id=5, name="background", slice_ns=40_000_000, weight=10, floor=30, preempt=False),
)

EFFECTIVE = CpuSet.parse("0-19")


def band(
    number: int,
    tier: int = 1,
    *,
    order: int = 0,
    cpus: str = "0-19",
    hard: bool = False,
    idle_core: bool = False,
) -> Band:
    return Band(
        id=number,
        tier=tier,
        order=order,
        cpus=CpuSet.parse(cpus),
        min_cpus=1,
        hard=hard,
        prefer_idle_core=idle_core,
    )


BANDS = (
    band(0, tier=4),
    band(1, tier=1, order=2, cpus="5-9", hard=True, idle_core=True),
    band(2, tier=5, cpus="10-14"),
    band(3, tier=0, order=1, cpus="5-9,15-19"),
)


def rule(number: int, band: int = 1, **match: str) -> Rule:
    return Rule(id=number, unit=f"intent-{number}", band=band, match=Condition(**match))


def plan(
    rules: Iterable[Rule] = (),
    *,
    bands: Iterable[Band] = BANDS,
    tiers: Iterable[Tier] = TIERS,
    default_band: int = 0,
    mode: Mode = "sched_ext",
    effective: CpuSet = EFFECTIVE,
) -> NodePlan:
    machine = Machine(
        arch="x86_64",
        online=effective,
        effective=effective,
        isolated=CpuSet(),
        cores=tuple(CpuSet((cpu,)) for cpu in effective),
        llcs=(effective,),
    )
    return NodePlan(
        mode=mode,
        fingerprint=digest(cpu_text(machine.arch, machine.online, machine.cores, machine.llcs)),
        machine=machine,
        housekeeping=CpuSet.parse("0-1"),
        shared=effective,
        leftovers=CpuSet(),
        tiers=tuple(tiers),
        default_band=default_band,
        bands=tuple(bands),
        rules=tuple(rules),
        units=(),
        lanes=(),
        degradations=(),
    )


# Every kind of condition the target supports, overlapping as much as they can.
RICH_RULES = (
    rule(0, 3, kthread="irq/12-nvidia"),
    rule(1, 3, kthread="irq/*"),
    rule(2, 1, comm="VLLM::EngineCor", cgroup="kubepods.slice/**"),
    rule(3, 1, comm="VLLM::*", leader_comm="python3"),
    rule(4, 2, comm="VLLM::EngineCor*"),
    rule(5, 1, comm="VLLM*", cgroup="**/serving.scope/**"),
    rule(6, 2, comm="stress-ng*"),
    rule(7, 3, comm="stress-ng-cpu"),
    rule(8, 2, cgroup="ci.slice/**"),
    rule(9, 1, cgroup="a/*/c"),
    rule(10, 2, cgroup="a/*/c/**"),
    rule(11, 3, leader_comm="py*", cgroup="*"),
    rule(12, 1, leader_comm="python3"),
    rule(13, 2, comm="V*"),
)

# Threads that tell any two of these rules apart.
COMMS = [
    b"",
    b"V",
    b"VLLM::",
    b"VLLM::Worker_TP",
    b"VLLM::EngineCor",
    b"VLLM::EngineCo",
    b"stress-ng",
    b"stress-ng-cpu",
    b"stress-ng-cpux",
    b"irq/12-nvidia",
    b"irq/12-nvidia2",
    b"irq/1",
    b"irq",
    b"python3",
]
PATHS = [
    "",
    "a",
    "kubepods.slice",
    "kubepods.slice/pod1",
    "kubepods.slicex/pod1",
    "ci.slice",
    "ci.slice/job/step",
    "x/ci.slice",
    "a/b/c",
    "a/b/c/d",
    "a/c",
    "a/b/d",
    "serving.scope",
    "x/y/serving.scope",
    "x/y/serving.scope/z",
    "1/2/3/4/5/6/7/8/9/serving.scope/10",
    "x/" + "serving.scope" * 5,
]
THREADS = [
    Thread(comm, leader, tuple(p.encode() for p in path.split("/") if p), kernel)
    for comm in COMMS
    for leader in (b"python3", b"pypy", b"init")
    for path in PATHS
    for kernel in (False, True)
]
