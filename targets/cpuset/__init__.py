"""The ``cpuset`` target: bounds on control groups, for systemd and for cgroup v2 by itself.

How it behaves is in ``docs/cpuset.md``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from compiler.artifact import Artifact, script_artifact, text_artifact
from compiler.plan import LeftOut, NodePlan
from targets.cpuset.groups import DROP_IN
from targets.cpuset.script import NAME, OWN, apply_data, drop_in
from targets.cpuset.settings import settings, unexpressed
from targets.shell import environment
from targets.target import Target

SUPPORTS: Final = frozenset(
    {"match.cgroup.path", "match.cgroup.long", "cpus.1024", "lane.open", "lane.exclusive"}
)
"""A cpuset bounds all threads of a control group: it tells no names, command lines or pods apart.
Others are kept out of an exclusive lane by a partition, where :func:`lacks` does not say why not.
Groups have weights, but a tier is more than that: no ``tier``."""


def emit(plan: NodePlan) -> list[Artifact]:
    """Return ``cpuset/apply.sh``, ``cpuset/revert.sh`` and the drop-ins ``cpuset/systemd/...``.

    Raises:
        ValueError: the plan contradicts itself.
    """
    made = settings(plan)
    env = environment(Path(__file__).parent / "templates")
    out = [
        script_artifact(
            f"{NAME}/apply.sh", env.get_template("apply.sh.j2").render(apply_data(plan, made))
        ),
        script_artifact(
            f"{NAME}/revert.sh",
            env.get_template("revert.sh.j2").render(own=OWN, drop_in_name=DROP_IN),
        ),
    ]
    if plan.mode != "observe":
        for row in made.rows:
            place = row.group.drop_in
            if place is not None and not row.is_nothing:
                out.append(text_artifact(f"{NAME}/systemd/{place}", drop_in(plan, row)))
    return out


def lacks(plan: NodePlan) -> tuple[LeftOut, ...]:
    """Return the rules on control groups, and the lanes, that nothing is set for, and why."""
    made = settings(plan)
    rows: dict[tuple[str, str], list[int]] = {}
    for rule, reason in unexpressed(plan, made):
        message = f'{NAME} does not bound cgroup "{rule.match.cgroup}" to its CPUs: {reason}'
        rows.setdefault((rule.unit, message), []).append(rule.id)
    out = [
        LeftOut(feature="match.cgroup.path", unit=unit, rules=tuple(ids), message=message)
        for (unit, message), ids in rows.items()
    ]
    open_lanes = [f"{name} ({why})" for name, why in made.lanes.items() if why is not None]
    if open_lanes:
        out.append(
            LeftOut(
                feature="lane.exclusive",
                unit=None,
                rules=(),
                message=f"{NAME} keeps nobody out of lane {', '.join(open_lanes)}",
            )
        )
    return tuple(out)


TARGET: Final = Target(
    name=NAME,
    modes=frozenset({"observe", "fallback", "sched_ext"}),
    supports=SUPPORTS,
    emit=emit,
    partial=True,
    lacks=lacks,
)
