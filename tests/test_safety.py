"""A good plan passes; each invariant is tripped by exactly the mutation that breaks it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import pytest

from compiler import safety
from compiler.codes.safety import BROKEN_INVARIANT, NODE_SOFTWARE_STARVED
from compiler.cpuset import CpuSet
from compiler.fingerprint import cpu_text, digest
from compiler.place import LaneRequest, Placement, place
from compiler.plan import Condition, DeviceIrqs, MemberBand, NodePlan, Rule, Unit
from compiler.profiles import builtin_groups
from compiler.safety.processes import NODE_SOFTWARE
from compiler.topology import topology_of
from tests.machines import pairs
from tests.safe_plans import BACKGROUND, SYSTEM, plan_of

# 8 cores (i, i+8): 0-1 housekeeping, 2-3 guarded, 4 exclusive, 5 open, 6 left over, 7 isolated.
LANES = (
    LaneRequest("guarded", tier=1, order=0, min=2, max=2, share="guarded"),
    LaneRequest("exclusive", tier=1, order=1, min=1, max=1, share="exclusive"),
    LaneRequest("open", tier=2, order=0, min=1, max=1, share="open"),
)
BATCH, SYSTEM_UNIT = 3, 4  # places in units and rules; bands are one later


@cache
def good() -> NodePlan:
    topology = topology_of(pairs(8, adjacent=False, cpus={"isolated": "7,15"}))
    placement = place(topology, LANES, 2, system_tier=SYSTEM)
    assert isinstance(placement, Placement)
    return plan_of(topology, LANES, placement)


def cpus(text: str) -> CpuSet:
    return CpuSet.parse(text)


def change(items: Sequence[Any], place: int, **fields: Any) -> tuple[Any, ...]:
    return tuple(
        item.model_copy(update=fields) if i == place else item for i, item in enumerate(items)
    )


def lane(plan: NodePlan, which: str, **fields: Any) -> NodePlan:
    place = [lane.name for lane in plan.lanes].index(which)
    return plan.model_copy(update={"lanes": change(plan.lanes, place, **fields)})


def unit(plan: NodePlan, place: int, **fields: Any) -> NodePlan:
    """Change a unit, and its band where the two must agree."""
    shared = {k: v for k, v in fields.items() if k in ("cpus", "tier", "order")}
    return plan.model_copy(
        update={
            "units": change(plan.units, place, **fields),
            "bands": change(plan.bands, place + 1, **shared),
        }
    )


def machine(plan: NodePlan, **fields: Any) -> NodePlan:
    """Change the machine, and the fingerprint with it."""
    new = plan.machine.model_copy(update=fields)
    text = cpu_text(new.arch, new.online, new.cores, new.llcs)
    return plan.model_copy(update={"machine": new, "fingerprint": digest(text)})


def test_the_plan_is_what_the_mutations_expect() -> None:
    plan = good()
    assert {one.name: str(one.cpus) for one in plan.lanes} == {
        "guarded": "2-3,10-11",
        "exclusive": "4,12",
        "open": "5,13",
    }
    assert (str(plan.housekeeping), str(plan.leftovers)) == ("0-1,8-9", "6,14")
    assert str(plan.shared) == "0-1,5-6,8-9,13-14"
    assert [one.name for one in plan.units][BATCH:] == ["batch", "node-infra"]
    assert [str(one.cpus) for one in plan.units][BATCH:] == ["5-6,13-14", "0-1,5-6,8-9,13-14"]


def test_a_good_plan_passes() -> None:
    assert safety.check(good()) == ()


Mutation = Callable[[NodePlan], NodePlan]

MUTATIONS: dict[str, tuple[set[str], Mutation]] = {
    "a core lost": (
        {"cores"},
        lambda p: machine(p, cores=p.machine.cores[:-1]),
    ),
    "a core twice": ({"cores"}, lambda p: machine(p, cores=(*p.machine.cores, cpus("0,8")))),
    "interrupts on a CPU the node lacks": (
        {"irqs-offline", "irqs-outside"},
        lambda p: p.model_copy(
            update={
                "irqs": (
                    DeviceIrqs(
                        device="0000:01:00.0",
                        kind="gpu",
                        where="housekeeping",
                        cpus=p.housekeeping | cpus("64"),
                        why="written",
                    ),
                )
            }
        ),
    ),
    "effective not online": (
        {"effective", "shared", "leftovers"},
        lambda p: machine(p, effective=p.machine.effective | cpus("99")),
    ),
    "effective isolated": (
        {"effective"},
        lambda p: machine(p, isolated=p.machine.isolated | cpus("6,14")),
    ),
    "another machine": (
        {"fingerprint"},
        lambda p: p.model_copy(update={"fingerprint": "0" * 64}),
    ),
    "band with a CPU the node lacks": (
        {"cpu-not-online"},
        lambda p: p.model_copy(
            update={
                "bands": (*p.bands, p.bands[0].model_copy(update={"id": 6, "cpus": cpus("64")}))
            }
        ),
    ),
    "unit with a CPU the node lacks": (
        {"cpu-not-online", "unit-outside"},
        lambda p: unit(p, BATCH, cpus=cpus("6,64")),
    ),
    "shared pool too small": ({"shared"}, lambda p: _pool(p, cpus("0-1,6,8-9,14"))),
    "shared pool with a guarded CPU": ({"shared"}, lambda p: _pool(p, p.shared | cpus("2"))),
    "shared pool empty": (
        {"shared-empty", "shared", "default-band-outside"},
        lambda p: _pool(p, CpuSet()),
    ),
    "leftovers lost": (
        {"leftovers"},
        lambda p: p.model_copy(update={"leftovers": cpus("6")}),
    ),
    "no housekeeping": (
        {"housekeeping-empty", "leftovers"},
        lambda p: p.model_copy(update={"housekeeping": CpuSet()}),
    ),
    "housekeeping on isolated CPUs": (
        {"housekeeping-outside"},
        lambda p: p.model_copy(update={"housekeeping": p.housekeeping | cpus("7")}),
    ),
    "housekeeping in the exclusive lane": (
        {"housekeeping-closed"},
        lambda p: p.model_copy(update={"housekeeping": p.housekeeping | cpus("4")}),
    ),
    "housekeeping behind a guard": (
        {"housekeeping-closed"},
        lambda p: p.model_copy(update={"housekeeping": p.housekeeping | cpus("2")}),
    ),
    "batch on housekeeping": (
        {"housekeeping-used"},
        lambda p: unit(p, BATCH, cpus=cpus("0,6,14")),
    ),
    "wrong number of cores": ({"lane-cores"}, lambda p: lane(p, "open", cores=2, max_cores=2)),
    "lane below its minimum": (
        {"lane-small"},
        lambda p: lane(p, "open", min_cores=2, max_cores=2),
    ),
    "lane above its maximum": (
        {"lane-large"},
        lambda p: lane(p, "guarded", min_cores=1, max_cores=1),
    ),
    "lane with half a core": (
        {"core-split", "leftovers"},
        lambda p: unit(lane(p, "open", cpus=cpus("5")), 2, cpus=cpus("5")),
    ),
    "lane on isolated CPUs unasked": (
        {"lane-outside", "leftovers"},
        lambda p: unit(lane(p, "open", cpus=cpus("7,15")), 2, cpus=cpus("7,15")),
    ),
    "isolated lane elsewhere": ({"lane-outside"}, lambda p: lane(p, "open", isolated=True)),
    "lanes that overlap": (
        {"lanes-overlap", "leftovers", "unit-in-guarded-lane"},
        lambda p: unit(lane(p, "open", cpus=cpus("3,11")), 2, cpus=cpus("3,11")),
    ),
    "two lanes of one name": (
        {"lane-names", "unit-lane"},
        lambda p: lane(p, "open", name="guarded"),
    ),
    "batch behind the guard": (
        {"unit-in-guarded-lane", "band-in-guarded-lane"},
        lambda p: unit(p, BATCH, cpus=cpus("3,6")),
    ),
    "batch in the exclusive lane": (
        {"unit-in-exclusive-lane", "band-in-exclusive-lane"},
        lambda p: unit(p, BATCH, cpus=cpus("4,6")),
    ),
    "batch nowhere but in the guarded lane": (
        {"unit-in-guarded-lane"},
        lambda p: unit(p, BATCH, cpus=cpus("3")),
    ),
    "a band of nobody reaching into the guarded lane": (
        {"band-in-guarded-lane"},
        lambda p: p.model_copy(
            update={
                "bands": (
                    *p.bands,
                    p.bands[0].model_copy(update={"id": 6, "tier": 5, "cpus": cpus("3,6")}),
                )
            }
        ),
    ),
    "unit without a CPU": (
        {"unit-empty", "band-empty"},
        lambda p: unit(p, SYSTEM_UNIT, cpus=CpuSet()),
    ),
    "unit and band differ in CPUs": (
        {"unit-band"},
        lambda p: p.model_copy(update={"units": change(p.units, BATCH, cpus=cpus("6"))}),
    ),
    "unit and band differ in tier": (
        {"unit-band"},
        lambda p: p.model_copy(update={"units": change(p.units, BATCH, tier=6)}),
    ),
    "unit in no band": (
        {"unit-band"},
        lambda p: p.model_copy(update={"units": change(p.units, BATCH, band=60)}),
    ),
    "unit on isolated CPUs": (
        {"unit-outside"},
        lambda p: unit(p, BATCH, cpus=cpus("6-7")),
    ),
    "unit in no lane that exists": (
        {"unit-lane"},
        lambda p: p.model_copy(update={"units": change(p.units, BATCH, lane="gone")}),
    ),
    "unit with a part of its lane": ({"unit-lane"}, lambda p: unit(p, 1, cpus=cpus("2-3"))),
    "two units of one name": (
        {"unit-names"},
        lambda p: p.model_copy(
            update={"units": (*p.units, p.units[BATCH].model_copy())},
        ),
    ),
    "band ids with a gap": (
        {"band-ids", "unit-band", "rule-band"},
        lambda p: p.model_copy(update={"bands": change(p.bands, 5, id=6)}),
    ),
    "too many bands": (
        {"band-count"},
        lambda p: p.model_copy(
            update={
                "bands": (
                    *p.bands,
                    *(p.bands[0].model_copy(update={"id": i}) for i in range(6, 65)),
                )
            }
        ),
    ),
    "no default band": (
        {"default-band"},
        lambda p: p.model_copy(update={"default_band": 44}),
    ),
    "unmatched threads behind the guard": (
        {"default-band-outside"},
        lambda p: p.model_copy(update={"default_band": 2}),
    ),
    "band of no tier": (
        {"band-tier"},
        lambda p: unit(p, 0, tier=7),
    ),
    "band that can never apply": (
        {"band-min-cpus"},
        lambda p: p.model_copy(update={"bands": change(p.bands, 1, min_cpus=5)}),
    ),
    "band without a minimum": (
        {"band-min-cpus"},
        lambda p: p.model_copy(update={"bands": change(p.bands, 1, min_cpus=0)}),
    ),
    "rule ids out of order": (
        {"rule-ids"},
        lambda p: p.model_copy(update={"rules": p.rules[::-1]}),
    ),
    "rule of no band": (
        {"rule-band"},
        lambda p: p.model_copy(update={"rules": change(p.rules, BATCH, band=63)}),
    ),
    "rule of no unit": (
        {"rule-unit"},
        lambda p: p.model_copy(update={"rules": change(p.rules, BATCH, unit="gone")}),
    ),
    "too many rules": (
        {"rule-count"},
        lambda p: p.model_copy(
            update={"rules": tuple(p.rules[BATCH].model_copy(update={"id": i}) for i in range(257))}
        ),
    ),
    "a member of a family without others": (
        {"family-small", "family-name", "family-devices", "unit-lane"},
        lambda p: lane(p, "open", family="f"),
    ),
    "members of no family": (
        {"rule-members"},
        lambda p: p.model_copy(
            update={"rules": change(p.rules, 0, members=(MemberBand(lane="guarded", band=1),))}
        ),
    ),
    "tier ids with a gap": (
        {"tier-ids"},
        lambda p: p.model_copy(update={"tiers": (p.tiers[0], *p.tiers[2:], p.tiers[1])}),
    ),
    "no tier background": (
        {"tier-missing"},
        lambda p: p.model_copy(update={"tiers": change(p.tiers, BACKGROUND, name="low")}),
    ),
    "node software demoted": (
        {"node-software-starved"},
        lambda p: unit(p, SYSTEM_UNIT, tier=6, cpus=p.units[BATCH].cpus),
    ),
}


def _pool(plan: NodePlan, shared: CpuSet) -> NodePlan:
    """Change the shared pool; unmatched threads stay within it, where it has a CPU."""
    inside = shared & plan.shared or plan.shared
    return plan.model_copy(update={"shared": shared, "bands": change(plan.bands, 0, cpus=inside)})


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_mutation_trips_its_invariant(name: str) -> None:
    kinds, mutate = MUTATIONS[name]
    found = safety.check(mutate(good()))
    assert {violation.kind for violation in found} == kinds
    assert all(violation.message for violation in found)


def test_every_invariant_has_a_mutation() -> None:
    tripped = {
        invariant.__name__
        for _, mutate in MUTATIONS.values()
        for invariant in safety.INVARIANTS
        if list(invariant(mutate(good())))
    }
    assert tripped == {invariant.__name__ for invariant in safety.INVARIANTS}


def demote(**match: str) -> NodePlan:
    """A plan whose first rule gives tier idle to what it matches."""
    plan = good()
    idle = plan.bands[BATCH + 1].model_copy(update={"id": 6, "tier": 6})
    rules = [Rule(id=0, unit="batch", band=6, match=Condition(**match)), *plan.rules]
    return plan.model_copy(
        update={
            "bands": (*plan.bands, idle),
            "rules": tuple(r.model_copy(update={"id": i}) for i, r in enumerate(rules)),
        }
    )


class TestNodeSoftware:
    @pytest.mark.parametrize(
        "match",
        [
            {"comm": "sshd"},
            {"comm": "s*"},
            {"leader_comm": "containerd*"},
            {"cgroup": "system.slice/**"},
            {"cgroup": "system.slice/kubelet.service", "comm": "kube*"},
            {"cmdline": "kubelet"},
            # where distributions put programs
            {"cmdline": "^/opt/bin/"},
            {"cmdline": "^/usr/local/bin/k[0-9]s "},
            {"cmdline": "^/var/lib/rancher/"},
            {"cmdline": "^/var/lib/k0s/bin/kubelet"},
            {"cmdline": "^/usr/lib/systemd/systemd "},
            {"cmdline": "^/usr/sbin/sshd -D"},
            {"cmdline": "^sshd-session: "},
            {"cmdline": "^/usr/lib(exec)?/openssh/"},
            {"cmdline": "^/snap/"},
            # what Kubernetes distributions run, and where
            {"comm": "rke2"},
            {"comm": "k0s"},
            {"comm": "cri-dockerd"},
            {"comm": "sshd-session"},
            {"comm": "sshd-auth"},
            {"cgroup": "system.slice/k3s-agent.service/**"},
            {"cgroup": "system.slice/rke2-agent.service", "comm": "kubelet"},
            {"cgroup": "system.slice/k0sworker.service", "comm": "containerd"},
            {"cgroup": "system.slice/snap.*/**"},
            {"cgroup": "runtime.slice/**"},
        ],
    )
    def test_demoted_by_a_rule(self, match: dict[str, str]) -> None:
        found = safety.check(demote(**match))
        assert {v.kind for v in found} == {safety.STARVED}
        assert "below background, by rule 0 of unit batch" in found[0].message
        assert found[0].code is NODE_SOFTWARE_STARVED

    @pytest.mark.parametrize(
        "match",
        [
            {"comm": "stress-ng"},
            {"kthread": "*"},
            {"cgroup": "user.slice/**"},
            {"comm": "sshd", "cgroup": "user.slice/**"},
            {"comm": "sshd", "pods": "app=x"},
            {"cmdline": "stress"},
            {"cmdline": "^/opt/app/"},
            {"cmdline": "^/usr/bin/python3 "},
            {"cgroup": "system.slice/k8s-job.service/**"},
            {"comm": "k0s", "cgroup": "user.slice/**"},
        ],
    )
    def test_not_demoted(self, match: dict[str, str]) -> None:
        assert safety.check(demote(**match)) == ()

    def test_a_rule_on_the_command_line_says_which(self) -> None:
        found = safety.check(demote(comm="kubelet", cmdline="^/opt/"))
        assert {(v.process, v.cgroup) for v in found} == {
            ("kubelet", "system.slice/kubelet.service"),
            ("kubelet", "runtime.slice/kubelet.service"),
        }
        command = "/opt/bin/kubelet --config=/var/lib/kubelet/config.yaml"
        assert {v.command for v in found} == {command}
        places = [(v.process, v.cgroup) for v in safety.check(demote(cmdline="kubelet"))]
        assert len(places) == len(set(places))  # once, in however many ways it may be started
        assert f'started as "{command}" gets tier idle' in found[0].message
        assert {v.command for v in safety.check(demote(comm="kubelet"))} == {""}

    def test_a_rule_that_keeps_one_place_only_does_not_keep_the_others(self) -> None:
        plan = demote(comm="kubelet")
        here = Condition(comm="kubelet", cmdline="^/usr/bin/")
        keep = Rule(id=0, unit="node-infra", band=SYSTEM_UNIT + 1, match=here)
        rules = [keep, *plan.rules]
        plan = plan.model_copy(
            update={"rules": tuple(r.model_copy(update={"id": i}) for i, r in enumerate(rules))}
        )
        first = safety.check(plan)[0]
        assert first.command.startswith("/usr/local/bin/kubelet ")

    def test_every_process_is_in_the_group_that_the_help_names(self) -> None:
        rows = builtin_groups()["node-infra"].model.spec.match
        named = {row.comm for row in rows}
        assert {process.comm for process in NODE_SOFTWARE} <= named

    def test_names_are_as_the_kernel_cuts_them(self) -> None:
        assert all(0 < len(process.comm.encode()) <= 15 for process in NODE_SOFTWARE)
        assert all(process.commands and all(process.commands) for process in NODE_SOFTWARE)
        places = [(process.comm, process.cgroup) for process in NODE_SOFTWARE]
        assert len(set(places)) == len(places)

    def test_background_is_low_enough(self) -> None:
        plan = demote(comm="*")
        rules = change(plan.rules, 0, band=BATCH + 1)
        assert safety.check(plan.model_copy(update={"rules": rules})) == ()

    def test_an_earlier_rule_counts(self) -> None:
        plan = demote(comm="*")
        keep = Rule(id=0, unit="node-infra", band=SYSTEM_UNIT + 1, match=Condition(comm="*"))
        rules = [keep, *plan.rules]
        plan = plan.model_copy(
            update={"rules": tuple(r.model_copy(update={"id": i}) for i, r in enumerate(rules))}
        )
        assert safety.check(plan) == ()

    def test_demoted_by_the_default_band(self) -> None:
        plan = good()
        plan = plan.model_copy(update={"bands": change(plan.bands, 0, tier=6)})
        found = safety.check(plan)
        assert {v.kind for v in found} == {safety.STARVED}
        assert "as no rule matches it" in found[0].message
        # The kubelet has a rule of its own.
        assert not any(v.message.startswith("kubelet ") for v in found)


def test_other_violations_are_faults_of_the_compiler() -> None:
    (found,) = safety.check(good().model_copy(update={"fingerprint": ""}))
    assert found.code is BROKEN_INVARIANT


def test_a_member_of_lower_tier_may_be_in_its_lane() -> None:
    plan = good()
    member = Unit(
        name="low",
        intent="guarded",
        stage=None,
        tier=2,
        order=0,
        effect="needed",
        lane="guarded",
        cpus=cpus("2-3,10-11"),
        band=6,
    )
    band = plan.bands[2].model_copy(update={"id": 6, "tier": 2})
    plan = plan.model_copy(update={"units": (*plan.units, member), "bands": (*plan.bands, band)})
    assert safety.check(plan) == ()


def test_a_unit_of_the_same_tier_may_use_a_guarded_lane() -> None:
    assert safety.check(unit(good(), BATCH, tier=1, cpus=cpus("2,6"))) == ()
