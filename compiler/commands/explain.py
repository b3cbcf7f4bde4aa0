"""``tierc explain``."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, replace
from pathlib import Path

from compiler.commands.session import (
    FINDINGS,
    OK,
    UsageError,
    fail,
    open_session,
    print_findings,
    require_node,
)
from compiler.explain import (
    CpuAnswer,
    LaneAnswer,
    NodeAnswer,
    Thread,
    ThreadAnswer,
    explain_cpu,
    explain_lane,
    explain_node,
    explain_thread,
)
from compiler.report.explain import render_cpu, render_lane, render_node, render_thread
from compiler.resolve.bind import may_be_in_pod, on_node


def run(
    project: Path, node: str, thread: Thread, cpu: int | None, lane: str | None, output: str
) -> int:
    """Answer one question about a node; return the exit code."""
    if output not in ("text", "json"):
        return fail(f"unknown format {output!r}; formats are text, json")
    asks_thread = thread != Thread()
    if asks_thread + (cpu is not None) + (lane is not None) > 1:
        return fail("ask about a thread, a CPU or a lane, one at a time")
    if "" in (thread.comm, thread.leader_comm):
        return fail("a thread's name is empty; leave the option out where it is not known")
    if thread.kthread and thread.comm is None:
        return fail("--kthread needs --comm, the kernel thread's name")
    try:
        session = open_session([project])
        compilation = session.compilation
        names = [n.name for n in compilation.policy.nodes]
        require_node(node, names, session.judged.findings)
    except UsageError as error:
        return fail(str(error))
    group = compilation.of_node(node)
    if group is None or group.plan is None:
        print_findings(session, sys.stderr, "auto")
        print(f"tierc: {node} has no plan; see the findings above", file=sys.stderr)
        return FINDINGS
    ladder = compilation.policy.ladder
    if thread.cgroup is not None:  # as /proc/PID/cgroup writes it, or as an intent does
        given = thread.cgroup.removeprefix("0::").lstrip("/")
        cgroup = on_node(given, group.sample.model)
        if cgroup is None:
            return fail(
                f"{given} is not known on {node}: its facts name no pods root; give the cgroup in "
                "full, or set overrides: {podsRoot: kubepods.slice} in the facts"
            )
        thread = replace(thread, cgroup=cgroup)
    in_pod = may_be_in_pod(group.sample.model, thread.cgroup)
    thread = replace(thread, may_be_in_pod=in_pod)
    answer: ThreadAnswer | CpuAnswer | LaneAnswer | NodeAnswer
    try:
        if cpu is not None:
            answer = explain_cpu(group, ladder, node, cpu)
            text = render_cpu(answer)
        elif lane is not None:
            answer = explain_lane(group, ladder, node, lane)
            text = render_lane(answer)
        elif asks_thread:
            answer = explain_thread(group, ladder, node, thread)
            text = render_thread(answer)
        else:
            answer = explain_node(compilation, node)
            text = render_node(answer)
    except ValueError as error:
        return fail(str(error))
    if output == "json":
        text = json.dumps({"version": 1, **asdict(answer)}, indent=2) + "\n"
    sys.stdout.write(text)
    return OK
