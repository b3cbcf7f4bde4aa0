"""The checks of random pairs can fail: each finds the plan that is broken on purpose."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from compiler.artifact import Artifact
from compiler.cpuset import CpuSet
from compiler.facts.write import facts_yaml
from compiler.model.facts import Kernel, SchedExt
from compiler.plan import Condition, Degradation, Lane, NodePlan, Rule
from tests.machines import facts, gpu
from tests.pair_checks import problems
from tests.pair_corpus import corpus_machines
from tests.pair_intents import Written
from tests.pair_machines import generated
from tests.pair_outputs import artifact_problems, first_rule
from tests.pair_seen import Seen
from tests.test_safety_pairs import Pair, compile_pair, wrong

API = "tierc.dev/v1alpha1"

# Two sockets of 8 cores with two threads (i, 16 + i), a cache each, a GPU each; CPU 31 is offline.
PLAIN = facts(
    [
        {"cpus": "0-7,16-23", "smt": ["0-7", "16-23"], "llc": 0, "numa": 0},
        {"cpus": "8-14,24-30", "smt": ["8-14", "24-30"], "llc": 1, "numa": 1},
        {"cpus": "15", "llc": 1, "numa": 1},
    ],
    online="0-30",
    llcs={0: "0-7,16-23", 1: "8-15,24-30"},
    numa={0: "0-7,16-23", 1: "8-15,24-30"},
    devices=(
        {**gpu("gpu0", "0-7,16-23", numa=0), "bdf": "0000:10:00.0"},
        {**gpu("gpu1", "8-15,24-30", numa=1), "bdf": "0000:20:00.0"},
    ),
)
KERNEL = Kernel(release="6.17.0", schedExt=SchedExt(supported=True))
MACHINE = PLAIN.model_copy(update={"spec": PLAIN.spec.model_copy(update={"kernel": KERNEL})})


def intent(name: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": API, "kind": "Intent", "metadata": {"name": name}, "spec": spec}


DOCUMENTS = (
    intent(
        "chat",
        workload={"engine": "vllm", "version": "0.24.0", "cgroup": "serving.slice/**"},
        protect=["decode"],
        require=["gpu-local", "same-llc"],
        lane={"cores": 2},
    ),
    intent(
        "rt",
        workload={"match": [{"comm": "rt"}], "gpus": ["0000:10:00.0"]},
        protect="all",
        prefer=["whole-cores", "gpu-local"],
        lane={"cores": {"min": 1, "max": 2}, "share": "exclusive"},
    ),
    intent("web", workload={"match": [{"comm": "web"}]}, keep="normal", lane={"cores": 1}),
    intent("batch", workload={"match": [{"comm": "job"}]}, demote="idle", require=["leftovers"]),
    intent("infra", workload={"group": "node-infra"}, keep="system"),
)
PROJECT = {
    "apiVersion": API,
    "kind": "Project",
    "spec": {"enforce": [{"mode": "sched_ext"}], "targets": {"taskset": {}, "bpf": {}}},
}
POLICY = Written(PROJECT, DOCUMENTS)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return compile_pair(tmp_path_factory.mktemp("p"), MACHINE, POLICY, DOCUMENTS)


@pytest.fixture
def plan(pair: Pair) -> NodePlan:
    assert pair.group.plan is not None
    return pair.group.plan


def found(plan: NodePlan) -> list[str]:
    return problems(MACHINE, DOCUMENTS, PROJECT, plan)


def test_a_good_plan_passes(pair: Pair, plan: NodePlan) -> None:
    assert wrong(pair) == []
    lanes = {lane.name: str(lane.cpus) for lane in plan.lanes}
    # Housekeeping has the lowest two cores; chat two in each socket, beside its GPU; rt grows to
    # two in the first, where its GPU is; web comes last and keeps its one core.
    assert str(plan.housekeeping) == "0-1,16-17"
    assert lanes == {
        "chat@numa0": "2-3,18-19",
        "chat@numa1": "8-9,24-25",
        "rt": "4-5,20-21",
        "web": "6,22",
    }


def lane(name: str, /, **change: Any) -> Callable[[NodePlan], NodePlan]:
    """Change a lane and nothing that follows from it."""

    def broken(plan: NodePlan) -> NodePlan:
        assert any(one.name == name for one in plan.lanes)
        lanes = tuple(
            one.model_copy(update=change) if one.name == name else one for one in plan.lanes
        )
        return plan.model_copy(update={"lanes": lanes})

    return broken


def change(**fields: Any) -> Callable[[NodePlan], NodePlan]:
    return lambda plan: plan.model_copy(update=fields)


def unit(name: str, /, **update: Any) -> Callable[[NodePlan], NodePlan]:
    def broken(plan: NodePlan) -> NodePlan:
        assert any(one.name == name for one in plan.units)
        units = tuple(
            one.model_copy(update=update) if one.name == name else one for one in plan.units
        )
        return plan.model_copy(update={"units": units})

    return broken


def starved(plan: NodePlan) -> NodePlan:
    """Let a rule of an idle band have sshd first."""
    idle = next(band.id for band in plan.bands if plan.tiers[band.tier].name == "idle")
    rule = Rule(id=0, unit="batch", band=idle, match=Condition(comm="ss*"))
    return plan.model_copy(update={"rules": (rule, *plan.rules)})


def untold(plan: NodePlan) -> NodePlan:
    """Let housekeeping shrink without a word."""
    return plan.model_copy(
        update={"housekeeping": CpuSet.parse("0,16"), "leftovers": plan.leftovers | CpuSet((1, 17))}
    )


BROKEN: list[tuple[Callable[[NodePlan], NodePlan], str]] = [
    (lane("web", cpus=CpuSet.parse("12,28,31")), "31, which are not online"),
    (change(housekeeping=CpuSet()), "housekeeping is empty"),
    (change(housekeeping=CpuSet.parse("0-1,16")), "housekeeping has a part of core 1,17"),
    (untold, "housekeeping has 1 cores of 2, and nothing says so"),
    (change(shared=CpuSet()), "the shared pool is empty"),
    (change(shared=CpuSet.parse("0-30")), "the shared pool has siblings"),
    (change(leftovers=CpuSet.parse("0-30")), "leftovers are 0-30"),
    (lane("web", cpus=CpuSet.parse("12")), "lane web has a part of core 12,28"),
    (lane("web", cpus=CpuSet.parse("2,18")), "lanes chat@numa0 and web share cores"),
    (lane("web", cores=2), "lane web has 1 cores and says 2"),
    (lane("web", isolated=True), "lane web is not wholly on isolated CPUs"),
    (lane("web", cpus=CpuSet.parse("0,16")), "housekeeping has siblings of guarded lane web"),
    (lane("web", share="open"), "lane web is open, not guarded"),
    (lane("web", cores=2, cpus=CpuSet.parse("12-13,28-29")), "lane web has 2 cores, asked are 1"),
    (lane("web", name="www"), "asked are ['chat', 'rt', 'web']"),
    (lane("web", intents=("batch",)), "lane web is of ('batch',)"),
    (
        lane("chat@numa0", cpus=CpuSet.parse("8-9,24-25")),
        "lane chat@numa0 requires gpu-local: core 8,24 is not near ['gpu0']",
    ),
    (
        lane("chat@numa0", cpus=CpuSet.parse("3,15,19"), cores=2),
        "lane chat@numa0 requires same-llc: caches",
    ),
    (unit("batch", cpus=CpuSet.parse("2,18")), "unit batch reaches into guarded lane chat@numa0"),
    (unit("batch", cpus=CpuSet.parse("13")), "unit batch requires leftovers"),
    (unit("infra", cpus=CpuSet.parse("1,17")), "unit infra of tier 3 is kept out of housekeeping"),
    (unit("infra", cpus=CpuSet()), "unit infra has no CPU"),
    (unit("infra", tier=6), "unit infra is kept at system and has tier 6"),
    (starved, "sshd in system.slice/ssh.service gets tier 6"),
]


@pytest.mark.parametrize(("broken", "text"), BROKEN, ids=[text for _, text in BROKEN])
def test_a_broken_plan_is_found(
    plan: NodePlan, broken: Callable[[NodePlan], NodePlan], text: str
) -> None:
    assert any(text in one for one in found(broken(plan))), found(broken(plan))


def near_nothing(**more: Any) -> Lane:
    """A lane of two cores on the socket without the GPU that it prefers."""
    return Lane(
        name="rt",
        cpus=CpuSet.parse("10-11,26-27"),
        cores=2,
        min_cores=1,
        max_cores=2,
        share="exclusive",
        tier=1,
        intents=("rt",),
        prefer=("gpu-local",),
        require=(),
        devices=("0000:10:00.0",),
        **more,
    )


def test_what_is_preferred_and_missed_has_to_be_told(plan: NodePlan) -> None:
    lanes = tuple(near_nothing() if one.name == "rt" else one for one in plan.lanes)
    missed = plan.model_copy(update={"lanes": lanes})
    text = "lane rt prefers gpu-local, and it is not told"
    assert any(text in one for one in found(missed))
    note = Degradation(about="rt", kind="gpu-local", message="2 of 2 cores are not local to gpu0")
    told = missed.model_copy(update={"degradations": (note,)})
    assert not any(text in one for one in found(told))


def test_files_that_are_not_the_plan_are_found(pair: Pair, plan: NodePlan) -> None:
    online = MACHINE.spec.cpus.online

    def changed(path: str, old: bytes, new: bytes) -> list[Artifact]:
        assert any(one.path.endswith(path) and old in one.data for one in pair.artifacts)
        return [
            Artifact(one.path, one.data.replace(old, new), one.mode)
            if one.path.endswith(path)
            else one
            for one in pair.artifacts
        ]

    assert artifact_problems(online, plan, pair.artifacts) == []
    (text,) = artifact_problems(online, plan, changed("apply.sh", b"2-3,8-9,18-19,24-25", b"2-31"))
    assert "list lane:chat is 2-31" in text
    assert artifact_problems(online, plan, changed("plan.json", b"0-1,16-17", b"0-1,16")) == [
        "plan.json is not the plan"
    ]
    # The mask of chat, both sockets, as it is in a band's record.
    mask = CpuSet.parse("2-3,8-9,18-19,24-25").mask.to_bytes(8, "little").hex().encode()
    bad = artifact_problems(online, plan, changed("seed.json", mask, b"ff" * 8))
    assert any("bpf/seed.json: band" in one for one in bad)


def test_a_finding_without_a_place_and_a_refusal_without_one_are_found(pair: Pair) -> None:
    silent = dataclasses.replace(
        pair, group=dataclasses.replace(pair.group, plan=None), artifacts=[], findings=()
    )
    assert wrong(silent) == ["plan: False, errors: False"]


def test_rules_are_matched_as_globs_say(plan: NodePlan) -> None:
    def rule(**match: str) -> NodePlan:
        only = Rule(id=0, unit="batch", band=0, match=Condition(**match))
        return plan.model_copy(update={"rules": (only,)})

    def has(**match: str) -> bool:
        return first_rule(rule(**match), "containerd-shim", "a.slice/b/c") is not None

    assert has(comm="cont*")
    assert has(comm="containerd-shi?")
    assert not has(comm="containerd")
    assert has(cgroup="a.slice/**")
    assert has(cgroup="a.slice/*/c")
    assert has(cgroup="**/b/**")
    assert has(cgroup="a.slice/b/c/**")
    assert not has(cgroup="a.slice/*")
    assert not has(cgroup="b/**")
    assert has(cmdline="^/usr/bin/cont")
    assert not has(kthread="*")
    assert not has(comm="*", pods="namespace=x")


# --- the machines -----------------------------------------------------------------------------


def test_generated_machines_have_every_trait() -> None:
    machines = [generated(Random(seed)) for seed in range(400)]
    specs = [machine.spec for machine in machines]
    widths = [{len(core) for group in spec.cores for core in group.cores()} for spec in specs]
    kinds = [{group.kind for group in spec.cores} for spec in specs]
    places = [{d.locality.cpus for d in spec.devices if d.type == "gpu"} for spec in specs]
    counts = [sum(len(group.cores()) for group in spec.cores) for spec in specs]
    traits = {
        "one core": any(count == 1 for count in counts),
        "more than 100 cores": any(count > 100 for count in counts),
        "SMT4": any(4 in width for width in widths),
        "SMT in part": any(len(width) > 1 for width in widths),
        "kinds mixed in a cache": any(
            len({group.kind for group in spec.cores if group.llc == 0}) > 1 for spec in specs
        ),
        "three kinds": any(len(kind) == 3 for kind in kinds),
        "memory nodes": any(not node.cpus for spec in specs for node in spec.numa),
        "lopsided distances": any(
            spec.numa[0].distances[1] != spec.numa[1].distances[0]
            for spec in specs
            if len(spec.numa) > 1 and spec.numa[0].distances
        ),
        "offline CPUs": any(
            spec.cpus.possible is not None and spec.cpus.online < spec.cpus.possible
            for spec in specs
        ),
        "no caches known": any(not spec.llcs for spec in specs),
        "no nodes known": any(not spec.numa for spec in specs),
        "isolated": any(spec.cpus.isolated for spec in specs),
        "nohz_full": any(spec.cpus.nohz_full for spec in specs),
        "allowed": any(spec.cpus.allowed is not None for spec in specs),
        "overrides": any(spec.overrides.isolated is not None for spec in specs),
        "static": any(s.kubelet is not None and s.kubelet.policy == "static" for s in specs),
        "strict": any(s.kubelet is not None and s.kubelet.strict_reservation for s in specs),
        "exclusive": any(s.kubelet is not None and s.kubelet.exclusive for s in specs),
        "GPUs in several places": any(len(place - {None}) > 1 for place in places),
        "GPUs of unknown place": any(None in place for place in places),
        "GPUs near no CPU": any(CpuSet() in place for place in places),
        "MIG": any(device.parent is not None for spec in specs for device in spec.devices),
    }
    assert [name for name, seen in traits.items() if not seen] == []
    assert facts_yaml(generated(Random(7))) == facts_yaml(generated(Random(7)))


def test_the_corpus_makes_many_machines(shared: Path) -> None:
    machines = corpus_machines(shared / "corpus" / "topology", 20_000)
    assert len(machines) >= 20
    joined = {name: machine for name, machine in machines if "+" in name}
    # The GB10: 20 CPUs from lscpu, its GPU from nvidia-smi.
    (name,) = (name for name in joined if "gb10" in name)
    spec = joined[name].spec
    assert (len(spec.cpus.online), [d.type for d in spec.devices][:1]) == (20, ["gpu"])


def test_what_is_usable_is_worked_out_as_documented() -> None:
    machine = facts(
        [{"cpus": "0-15", "smt": ["0-7", "8-15"]}],
        online="0-15",
        cpus={"isolated": "6-7,14-15", "allowed": "0-7,9-15"},
        kubelet={"present": True, "policy": "static", "reserved": "0-3,6-11,14-15"},
    )
    seen = Seen(machine)
    assert str(seen.effective) == "0-3,9-11"
    assert str(seen.isolated) == "6-7,14-15"
    assert [str(core.usable) for core in seen.cores] == [
        "0",
        "1,9",
        "2,10",
        "3,11",
        "",
        "",
        "6,14",
        "7,15",
    ]
    assert seen.wanted_housekeeping == 1
