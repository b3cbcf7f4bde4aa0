"""What the comparison of threads and lanes amounts to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from compiler.codes import verify as codes
from compiler.diagnostics import Severity
from compiler.plan import NodePlan
from compiler.verify.census import Census
from compiler.verify.findings import finding, shown_cpus
from compiler.verify.result import Enforcer, Finding, LaneCount, Row, User
from compiler.words import counted


def of_threads(
    census: Census, plan: NodePlan, enforcer: Enforcer, *, live: bool
) -> Iterator[Finding]:
    """Yield what differs of threads, and who has no rule; ``live``: this machine is the node."""
    yield from _affinities(census, enforcer)
    yield from _unmatched(census, plan)
    if live and not census.kernel:
        yield finding(
            codes.UNCHECKED,
            "no kernel thread can be seen, so other processes are hidden as well: this is a "
            "container's /proc, or one mounted with hidepid",
            help="run tierc verify as root on the host",
        )
    if census.threads.undecided:
        yield finding(
            codes.UNCHECKED,
            f"{counted(census.threads.undecided, 'thread')} could not be judged: their control "
            "group or command line cannot be read",
            [census.undecided],
            total=census.threads.undecided,
            help="run tierc verify as root, on the host rather than in a container",
        )
    if census.no_tree:
        yield finding(
            codes.UNCHECKED,
            "rules ask for control groups, and no tree of them is in /sys/fs/cgroup",
            help="run tierc verify where the host's /sys/fs/cgroup is mounted",
        )
    if census.threads.unreadable:
        count = census.threads.unreadable
        yield finding(
            codes.UNCHECKED,
            f"{counted(count, 'thread')} could not be read: {census.unread}",
            help="run tierc verify as root",
        )
    if census.cut:
        yield finding(codes.UNCHECKED, f"only the first {census.threads.threads} threads are read")


def _affinities(census: Census, enforcer: Enforcer) -> Iterator[Finding]:
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in census.rows:
        groups.setdefault((row.unit, row.kind), []).append(row)
    for (unit, kind), rows in sorted(groups.items(), key=lambda g: (-len(g[1]), g[0])):
        who = f"{counted(len(rows), 'thread')} of {unit}"
        texts = [_row(row) for row in rows]
        severity = Severity.INFO if enforcer == "nothing" else None
        apply = "run taskset/apply.sh as root" if enforcer == "affinity" else ""
        if kind == "outside":
            yield finding(
                codes.OUTSIDE,
                f"{who} may run outside the CPUs of their rule",
                texts,
                help=apply,
                severity=severity,
            )
        elif kind == "cpuset":
            yield finding(
                codes.CPUSET,
                f"{who} cannot have the CPUs of their rule: too few are in their cpuset and online",
                texts,
                help="widen the cpuset, or place the lane in it",
                severity=severity,
            )
        else:
            below = "may run on fewer CPUs of their rule than its minimum"
            text = {
                "below": below,
                "pinned": f"{below}, whatever the scheduler wants",
                "narrower": "may run on some CPUs of their rule only, and their cpuset has more",
            }[kind]
            bad = kind != "narrower" and enforcer != "nothing"
            yield finding(
                codes.NARROWER,
                f"{who} {text}",
                texts,
                help="find what pinned them, remove that" + (f", then {apply}" if apply else ""),
                severity=Severity.ERROR if bad else severity,
            )
    if census.rows_left_out:
        count = counted(census.rows_left_out, "more thread")
        yield finding(codes.UNCHECKED, f"{count} differ and are not listed")


def _row(row: Row) -> str:
    text = f"{row.pid}/{row.tid} {row.comm}: allowed {shown_cpus(row.allowed)}, planned "
    text += shown_cpus(row.planned)
    return f"{text}, cpuset {row.cpuset}" if row.cpuset not in (None, "/") else text


def _unmatched(census: Census, plan: NodePlan) -> Iterator[Finding]:
    if not census.threads.unmatched:
        return
    default = next(band for band in plan.bands if band.id == plan.default_band)
    tier = next(tier.name for tier in plan.tiers if tier.id == default.tier)
    verb = "has" if census.threads.unmatched == 1 else "have"
    yield finding(
        codes.UNMATCHED,
        f"{counted(census.threads.unmatched, 'user thread')} {verb} no rule: tier {tier}, CPUs "
        f"{default.cpus}",
        [_user(user) for user in census.users if user.cpu_seconds > 0],
        total=0,  # only those that used most CPU time are named
    )


def _user(user: User) -> str:
    where = f"{'on' if user.running else 'last on'} CPU {user.cpu}"
    unit = f", {user.unit}" if user.unit is not None else ""
    return f"{user.pid}/{user.tid} {user.comm}: {user.cpu_seconds:.2f} s, {where}{unit}"


def of_lanes(census: Census, enforcer: Enforcer, targets: Sequence[str]) -> Iterator[Finding]:
    """Yield the lanes where foreign threads may run or do."""
    for lane in census.lanes:
        if not lane.may or (enforcer == "scheduler" and not lane.now):
            continue
        severity = Severity.WARNING if lane.now and enforcer != "nothing" else Severity.INFO
        kept = lane.share == "exclusive" and "cpuset" in targets and enforcer != "nothing"
        yield finding(
            codes.FOREIGN,
            _foreign(lane, enforcer),
            [_user(user) for user in lane.worst],
            total=lane.now if enforcer == "scheduler" else lane.may,
            severity=Severity.ERROR if kept else severity,
            help="run cpuset/apply.sh as root" if kept else "",
        )


def _foreign(lane: LaneCount, enforcer: Enforcer) -> str:
    where = f"{lane.share} lane {lane.name} (CPUs {lane.cpus})"
    now = "run" if lane.now != 1 else "runs"
    if enforcer == "scheduler":
        return f"{counted(lane.now, 'foreign thread')} {now} now in {where}"
    text = f"{counted(lane.may, 'foreign thread')} may run in {where}"
    return f"{text}, {lane.now} {now} there now" if lane.now else f"{text}, none runs there now"
