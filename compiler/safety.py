"""What every plan must keep, checked on the finished plan alone.

Nothing here is shared with the passes that make plans: a mistake there must not hide itself here.
Sources: design sections 5.5 and 7.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from compiler.codes.safety import BROKEN_INVARIANT, NODE_SOFTWARE_STARVED
from compiler.cpuset import CpuSet, union
from compiler.diagnostics import Code
from compiler.fingerprint import cpu_text, digest
from compiler.patterns import CmdlineRegex, Glob
from compiler.plan import MAX_BANDS, MAX_RULES, Condition, Lane, NodePlan, Rule, Tier, Unit

STARVED: Final = "node-software-starved"
"""Kind of the one violation that documents can cause; every other is a fault of the compiler."""

NODE_SOFTWARE: Final = (
    ("systemd", "init.scope"),
    ("kubelet", "system.slice/kubelet.service"),
    ("containerd", "system.slice/containerd.service"),
    ("containerd-shim", "system.slice/containerd.service"),
    ("dockerd", "system.slice/docker.service"),
    ("crio", "system.slice/crio.service"),
    ("k3s-server", "system.slice/k3s.service"),
    ("k3s-agent", "system.slice/k3s-agent.service"),
    ("kubelite", "system.slice/snap.microk8s.daemon-kubelite.service"),
    ("sshd", "system.slice/ssh.service"),
    ("sshd", "system.slice/sshd.service"),
)
"""Name and cgroup of processes without which a node is lost, as systemd hosts have them."""


@dataclass(frozen=True, slots=True)
class Violation:
    """An invariant that does not hold."""

    kind: str
    """Kebab-case word, one per invariant, stable."""
    message: str
    rule: int | None = None
    """Id of the rule that breaks it, where it is one."""
    process: str = ""
    """Name of the process it is about, where it is one, with its cgroup and tier."""
    cgroup: str = ""
    tier: str = ""

    @property
    def code(self) -> Code:
        """What it is reported as."""
        return NODE_SOFTWARE_STARVED if self.kind == STARVED else BROKEN_INVARIANT


Check = Callable[[NodePlan], Iterator[Violation]]


def check(plan: NodePlan) -> tuple[Violation, ...]:
    """Return every invariant that the plan breaks; empty for a good plan."""
    return tuple(found for invariant in INVARIANTS for found in invariant(plan))


# --- the machine --------------------------------------------------------------------------------


def _machine(plan: NodePlan) -> Iterator[Violation]:
    machine = plan.machine
    if union(machine.cores) != machine.online or sum(map(len, machine.cores)) != len(
        machine.online
    ):
        yield Violation("cores", f"the cores do not hold each online CPU ({machine.online}) once")
    if not machine.effective <= machine.online:
        lost = machine.effective - machine.online
        yield Violation("effective", f"effective CPUs {lost} are not online")
    if both := machine.effective & machine.isolated:
        yield Violation("effective", f"effective CPUs {both} are isolated")


def _fingerprint(plan: NodePlan) -> Iterator[Violation]:
    machine = plan.machine
    text = cpu_text(machine.arch, machine.online, machine.cores, machine.llcs)
    if digest(text) != plan.fingerprint:
        yield Violation("fingerprint", "the fingerprint is not that of the machine in the plan")


def _online(plan: NodePlan) -> Iterator[Violation]:
    for name, cpus in _named(plan):
        if lost := cpus - plan.machine.online:
            yield Violation("cpu-not-online", f"{name} has CPUs {lost}, which are not online")


def _named(plan: NodePlan) -> Iterator[tuple[str, CpuSet]]:
    yield "housekeeping", plan.housekeeping
    yield "the shared pool", plan.shared
    yield "leftovers", plan.leftovers
    for lane in plan.lanes:
        yield f"lane {lane.name}", lane.cpus
    for unit in plan.units:
        yield f"unit {unit.name}", unit.cpus
    for band in plan.bands:
        yield f"band {band.id}", band.cpus


# --- pools --------------------------------------------------------------------------------------


def _shared(plan: NodePlan) -> Iterator[Violation]:
    closed = union(lane.cpus for lane in plan.lanes if lane.share != "open")
    if not plan.shared:
        yield Violation("shared-empty", "the shared pool is empty")
    if plan.shared != (right := plan.machine.effective - closed):
        yield Violation("shared", f"the shared pool is {plan.shared}, it must be {right}")


def _leftovers(plan: NodePlan) -> Iterator[Violation]:
    taken = union((plan.housekeeping, *(lane.cpus for lane in plan.lanes)))
    if plan.leftovers != (right := plan.machine.effective - taken):
        yield Violation("leftovers", f"leftovers are {plan.leftovers}, they must be {right}")


def _housekeeping(plan: NodePlan) -> Iterator[Violation]:
    if not plan.housekeeping:
        yield Violation("housekeeping-empty", "housekeeping has no CPU")
    if outside := plan.housekeeping - plan.machine.effective:
        yield Violation("housekeeping-outside", f"housekeeping CPUs {outside} are not effective")
    system = _tier(plan, "system")
    for lane in plan.lanes:
        both = lane.cpus & plan.housekeeping
        if not both or lane.share == "open":
            continue
        if lane.share == "exclusive" or system is None or lane.tier < system.id:
            yield Violation(
                "housekeeping-closed",
                f"housekeeping CPUs {both} are in {lane.share} lane {lane.name}, which keeps "
                "node software out",
            )


def _housekeeping_kept(plan: NodePlan) -> Iterator[Violation]:
    system = _tier(plan, "system")
    if system is None or not plan.leftovers:
        return
    for unit in plan.units:
        both = unit.cpus & plan.housekeeping
        if unit.lane is None and unit.tier > system.id and both:
            yield Violation(
                "housekeeping-used",
                f"unit {unit.name}, below tier system, has housekeeping CPUs {both} although "
                f"{plan.leftovers} are left over",
            )


# --- lanes --------------------------------------------------------------------------------------


def _lanes(plan: NodePlan) -> Iterator[Violation]:
    usable = plan.machine.effective | plan.machine.isolated
    for lane in plan.lanes:
        cores = [core for core in plan.machine.cores if core & lane.cpus]
        if lane.cores != len(cores):
            yield Violation("lane-cores", f"lane {lane.name} says {lane.cores}, has {len(cores)}")
        if len(cores) < max(1, lane.min_cores):
            yield Violation(
                "lane-small", f"lane {lane.name} has {len(cores)} of {lane.min_cores} cores"
            )
        if lane.max_cores is not None and len(cores) > lane.max_cores:
            yield Violation(
                "lane-large", f"lane {lane.name} has {len(cores)} of {lane.max_cores} cores"
            )
        for core in cores:
            if rest := core & usable - lane.cpus:
                yield Violation(
                    "core-split", f"lane {lane.name} has a part of core {core}, not {rest}"
                )
        place = plan.machine.isolated if lane.isolated else plan.machine.effective
        if wrong := lane.cpus - place:
            word = "isolated" if lane.isolated else "effective"
            yield Violation("lane-outside", f"lane {lane.name}: CPUs {wrong} are not {word}")


def _lanes_apart(plan: NodePlan) -> Iterator[Violation]:
    for i, one in enumerate(plan.lanes):
        for other in plan.lanes[i + 1 :]:
            if both := one.cpus & other.cpus:
                yield Violation(
                    "lanes-overlap", f"lanes {one.name} and {other.name} both have CPUs {both}"
                )
    yield from _unique("lane-names", "lane", [lane.name for lane in plan.lanes])


def _kept_out(plan: NodePlan) -> Iterator[Violation]:
    for lane in plan.lanes:
        if lane.share == "open":
            continue
        for unit in plan.units:
            both = unit.cpus & lane.cpus
            if both and unit.lane != lane.name and _is_closed_to(lane, unit.tier):
                yield Violation(
                    f"unit-in-{lane.share}-lane",
                    f"unit {unit.name} has CPUs {both} of {lane.share} lane {lane.name}",
                )
        for band in plan.bands:
            both = band.cpus & lane.cpus
            if both and not band.cpus <= lane.cpus and _is_closed_to(lane, band.tier):
                yield Violation(
                    f"band-in-{lane.share}-lane",
                    f"band {band.id} has CPUs {both} of {lane.share} lane {lane.name} and others",
                )


def _is_closed_to(lane: Lane, tier: int) -> bool:
    return lane.share == "exclusive" or tier > lane.tier


# --- units, bands, rules ------------------------------------------------------------------------


def _units(plan: NodePlan) -> Iterator[Violation]:
    lanes = {lane.name: lane for lane in plan.lanes}
    bands = {band.id: band for band in plan.bands}
    for unit in plan.units:
        if not unit.cpus:
            yield Violation("unit-empty", f"unit {unit.name} has no CPU")
        band = bands.get(unit.band)
        if band is None:
            yield Violation("unit-band", f"unit {unit.name} is in band {unit.band}: there is none")
        elif (band.tier, band.order, band.cpus) != (unit.tier, unit.order, unit.cpus):
            yield Violation("unit-band", f"unit {unit.name} and its band {band.id} differ")
        yield from _unit_place(plan, unit, lanes)
    yield from _unique("unit-names", "unit", [unit.name for unit in plan.units])


def _unit_place(plan: NodePlan, unit: Unit, lanes: dict[str, Lane]) -> Iterator[Violation]:
    if unit.lane is None:
        if outside := unit.cpus - plan.machine.effective:
            yield Violation("unit-outside", f"unit {unit.name}: CPUs {outside} are not effective")
    elif unit.lane not in lanes:
        yield Violation("unit-lane", f"unit {unit.name} is in lane {unit.lane}: there is none")
    elif unit.cpus != (cpus := lanes[unit.lane].cpus):
        yield Violation(
            "unit-lane", f"unit {unit.name} has {unit.cpus}, its lane {unit.lane} has {cpus}"
        )


def _bands(plan: NodePlan) -> Iterator[Violation]:
    tiers = {tier.id for tier in plan.tiers}
    if len(plan.bands) > MAX_BANDS:
        yield Violation("band-count", f"{len(plan.bands)} bands; at most {MAX_BANDS}")
    if [band.id for band in plan.bands] != list(range(len(plan.bands))):
        yield Violation("band-ids", "band ids do not count up from 0")
    if plan.default_band not in {band.id for band in plan.bands}:
        yield Violation("default-band", f"there is no band {plan.default_band}, the default")
    for band in plan.bands:
        if not band.cpus:
            yield Violation("band-empty", f"band {band.id} has no CPU")
        if band.tier not in tiers:
            yield Violation("band-tier", f"band {band.id} has tier {band.tier}: there is none")
        if not 1 <= band.min_cpus <= max(1, len(band.cpus)):
            yield Violation(
                "band-min-cpus", f"band {band.id} needs {band.min_cpus} of {len(band.cpus)} CPUs"
            )


def _default_band(plan: NodePlan) -> Iterator[Violation]:
    for band in plan.bands:
        if band.id == plan.default_band and (lost := band.cpus - plan.shared):
            yield Violation(
                "default-band-outside",
                f"threads without a rule have CPUs {lost}, which are not in the shared pool",
            )


def _rules(plan: NodePlan) -> Iterator[Violation]:
    units = {unit.name for unit in plan.units}
    bands = {band.id for band in plan.bands}
    if len(plan.rules) > MAX_RULES:
        yield Violation("rule-count", f"{len(plan.rules)} rules; at most {MAX_RULES}")
    ids = [rule.id for rule in plan.rules]
    if ids != sorted(set(ids)) or any(id < 0 for id in ids):
        yield Violation("rule-ids", "rule ids do not rise, from 0 or above")
    for rule in plan.rules:
        if rule.band not in bands:
            yield Violation("rule-band", f"rule {rule.id} gives band {rule.band}: there is none")
        if rule.unit not in units:
            yield Violation("rule-unit", f"rule {rule.id} is of unit {rule.unit}: there is none")


def _tiers(plan: NodePlan) -> Iterator[Violation]:
    if [tier.id for tier in plan.tiers] != list(range(len(plan.tiers))):
        yield Violation("tier-ids", "tier ids do not count up from 0")
    for name in ("system", "background"):
        if _tier(plan, name) is None:
            yield Violation("tier-missing", f"there is no tier {name}")


# --- node software ------------------------------------------------------------------------------


def _node_software(plan: NodePlan) -> Iterator[Violation]:
    floor = _tier(plan, "background")
    if floor is None:
        return
    bands = {band.id: band for band in plan.bands}
    names = {tier.id: tier.name for tier in plan.tiers}
    for comm, cgroup in NODE_SOFTWARE:
        rule = next((r for r in plan.rules if _matches(r.match, comm, cgroup)), None)
        band = bands.get(plan.default_band if rule is None else rule.band)
        if band is not None and band.tier > floor.id:
            tier = names.get(band.tier, str(band.tier))
            yield Violation(
                STARVED,
                f"{comm} in cgroup {cgroup} gets tier {tier}, below background, {_by(rule)}",
                rule=None if rule is None else rule.id,
                process=comm,
                cgroup=cgroup,
                tier=tier,
            )


def _by(rule: Rule | None) -> str:
    return "as no rule matches it" if rule is None else f"by rule {rule.id} of unit {rule.unit}"


def _matches(match: Condition, comm: str, cgroup: str) -> bool:
    """Return whether a rule has a process of the host with this name and cgroup."""
    if match.kthread is not None or match.pods is not None:
        return False
    return all(
        (
            match.comm is None or Glob.comm(match.comm).matches(comm),
            match.leader_comm is None or Glob.comm(match.leader_comm).matches(comm),
            match.cgroup is None or Glob.cgroup(match.cgroup).matches(cgroup),
            match.cmdline is None or CmdlineRegex.parse(match.cmdline).matches(f"/usr/bin/{comm}"),
        )
    )


# --- small parts --------------------------------------------------------------------------------


def _tier(plan: NodePlan, name: str) -> Tier | None:
    return next((tier for tier in plan.tiers if tier.name == name), None)


def _unique(kind: str, what: str, names: Iterable[str]) -> Iterator[Violation]:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            yield Violation(kind, f"two of the {what}s are called {name}")
        seen.add(name)


INVARIANTS: Final[tuple[Check, ...]] = (
    _machine,
    _fingerprint,
    _online,
    _shared,
    _leftovers,
    _housekeeping,
    _housekeeping_kept,
    _lanes,
    _lanes_apart,
    _kept_out,
    _units,
    _bands,
    _default_band,
    _rules,
    _tiers,
    _node_software,
)
"""Every invariant, in the order in which they are reported."""
