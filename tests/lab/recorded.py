"""The scheduler's record of threads beside what the compiler says of them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from compiler.explain.match import Thread, match
from compiler.plan import Condition
from tests.lab.check import Check
from tests.lab.console import Said

NO_RULE: Final = 256
"""``TIERC_MAX_RULES`` of bpf/tierc_maps.h: the rule of a thread that none has."""

_THREAD: Final = re.compile(r"(\d+) ([01])\|(.*)\|(.*)\|/(.*)")
_CONDITIONS: Final = ("comm", "leaderComm", "cgroup", "kthread")


def threads(said: Said) -> dict[int, Thread]:
    """Return the threads that a guest listed, by id."""
    return {
        int(tid): Thread(
            comm=comm, leader_comm=leader, cgroup=cgroup, cmdline="", kthread=kernel == "1"
        )
        for line in said.all("d thread")
        if (found := _THREAD.fullmatch(line))
        for tid, kernel, comm, leader, cgroup in [found.groups()]
    }


def recorded(said: Said, state: str) -> dict[int, tuple[int, int]]:
    """Return rule and band of the threads in a dump of ``tierc_threads``, by id.

    Args:
        said: what the guest printed.
        state: which dump.

    Raises:
        ValueError: it is not there.
    """
    rows = (row["formatted"] for row in json.loads(said.line(f"d recorded-{state}")))
    return {row["key"]: (row["value"]["rule"], row["value"]["band"]) for row in rows}


def expected(plan: Mapping[str, Any], thread: Thread) -> tuple[int, int]:
    """Return the first rule of a plan that takes a thread, and its band, as the map has them."""
    for rule in plan["rules"]:
        condition = Condition.model_validate(rule["match"])
        if match(condition, thread)[0] == "matches":
            return rule["id"], rule["band"]
    return NO_RULE, plan["defaultBand"]


def check_recorded(said: Said, plan: Mapping[str, Any]) -> list[Check]:
    """Judge the record: right while it is switched on, and empty before.

    Raises:
        ValueError: a line is missing.
    """
    before, then, after = (recorded(said, state) for state in ("before", "on", "off"))
    known = threads(said)
    asked = {int(word) for word in re.findall(r"\d+", said.line("d asked"))}
    shared = sorted(known.keys() & after.keys())
    wrong = [
        f"{tid} {known[tid].describe()}: {after[tid]}, not {expected(plan, known[tid])}"
        for tid in shared
        if after[tid] != expected(plan, known[tid])
    ]
    rules = {rule["id"]: rule["match"] for rule in plan["rules"]}
    seen = [rules[after[tid][0]] for tid in shared if after[tid][0] in rules]
    kinds = [word for word in _CONDITIONS if any(word in one for one in seen)]
    late = int(said.line("d late") or 0)
    return [
        Check(not before, f"no thread is recorded before that is switched on: {len(before)}"),
        Check(
            asked <= then.keys() and bool(asked),
            f"all of {len(asked)} threads that run are recorded: {len(asked & then.keys())}",
        ),
        Check(
            not wrong,
            f"{len(shared)} threads have the rule and band of the plan's first match"
            + "".join(f"; {one}" for one in wrong[:3]),
        ),
        Check(
            kinds == list(_CONDITIONS),
            f"threads by name, leader, group and kernel name are among them: {', '.join(kinds)}",
        ),
        Check(
            late > 0 and late not in after, "none is recorded any more when that is switched off"
        ),
    ]
