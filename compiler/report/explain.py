"""Answers of ``tierc explain`` as text."""

from __future__ import annotations

from collections.abc import Iterator

from compiler.explain import CpuAnswer, LaneAnswer, NodeAnswer, RuleAnswer, ThreadAnswer
from compiler.report.table import table
from compiler.words import counted, listed

_NAMES_SHOWN = 4
_SHOWN = 8
"""Rules named that could have a thread of which too little is known."""


def render_thread(answer: ThreadAnswer) -> str:
    """Return which rule has a thread, and what else could, in rule order."""
    lines = [f"{answer.node}: a thread with {answer.thread}"]
    rest = list(answer.possible)
    default = f"tier {answer.default_tier}, CPUs {answer.default_cpus}"
    if answer.winner is not None:
        lines += _rule(answer.winner, "is taken by")
    elif (best := next((p for p in rest if p.named and not _asks_name(p)), None)) is not None:
        lines += _rule(best, "is taken by")
        rest.remove(best)
        lines.append(f"  if no rule takes it: {default}")
    elif rest:
        count = counted(len(rest), "rule")
        lines.append(f"  depends on what is not given: {count} could have it")
        lines.append(f"  if no rule takes it: {default}")
    else:
        lines.append(f"  matches no rule: {default}")
    if answer.close:
        lines.append(f"  no rule has this name; similar: {', '.join(answer.close)}")
    for other in rest[:_SHOWN]:
        lines.append(
            f"  {'before that, ' if answer.winner else 'or '}rule {other.rule} gives it to "
            f"{other.unit} ({other.tier}), if {' and '.join(other.unknown)}, {other.at}"
        )
    if len(rest) > _SHOWN:
        lines.append(f"  and {len(rest) - _SHOWN} more rules; give --comm, --cgroup and the like")
    for other in answer.losers:
        lines.append(
            f"  also matches rule {other.rule} of {other.unit} ({other.match}), {other.at}; "
            "an earlier rule has it"
        )
    return "\n".join(lines) + "\n"


def _asks_name(answer: RuleAnswer) -> bool:
    return any(text.startswith(("comm ", "kernel thread name ")) for text in answer.unknown)


def _rule(answer: RuleAnswer, verb: str) -> list[str]:
    condition = f", if {' and '.join(answer.unknown)}" if answer.unknown else ""
    intent = f"intent {answer.intent}" if answer.intent else "the node"
    rows = [
        ("rule", f"{answer.rule}: {answer.match}"),
        ("written", answer.at),
        ("tier", answer.tier),
        ("CPUs", _cpus(answer)),
    ]
    rows += [
        (name, f"CPUs {cpus}, where the process has GPUs {gpus}")
        for name, cpus, gpus in answer.members
    ]
    if answer.needs:
        rows.append(("needs", answer.needs))
    if answer.spawns:
        rows.append(("note", "affinity scripts leave it alone: what it starts would inherit it"))
    rows += [("why", line) for line in answer.why]
    return [f"  {verb} {answer.unit} of {intent}{condition}", *table(rows, indent=4)]


def _cpus(answer: RuleAnswer) -> str:
    if answer.lane is None:
        return answer.cpus
    whole = ", the union of its members" if answer.members else ""
    return f"{answer.cpus} (lane {answer.lane}{whole})"


_STATUS = {"lane": "in a lane", "shared": "in the shared pool"}


def render_cpu(answer: CpuAnswer) -> str:
    """Return whose a CPU is."""
    lines = [f"{answer.node}: CPU {answer.cpu} is {_STATUS.get(answer.status, answer.status)}"]
    rows = [("core", answer.siblings)]
    rows += [("why", line) for line in answer.why]
    rows.append(("may run", ", ".join(answer.units) or "threads that no rule matches"))
    return "\n".join([*lines, *table(rows, indent=2)]) + "\n"


def render_node(answer: NodeAnswer) -> str:
    """Return a node's plan in words."""
    lines = [f"{answer.node}: mode {answer.mode}"]
    lines += [f"  no sched_ext: {reason}" for reason in answer.refused]
    lines += table(
        [
            *_class(answer),
            ("housekeeping", answer.housekeeping),
            ("shared pool", answer.shared),
            ("leftovers", answer.leftovers or "none"),
        ],
        indent=2,
    )
    lines.append("intents that select it")
    lines += table(answer.intents, indent=2)
    if answer.lanes:
        lines.append("lanes")
        lines += table(answer.lanes, indent=2)
    lines.append("units")
    lines += table(answer.units, indent=2)
    for title, rows in (
        ("interrupts", answer.irqs),
        ("degradations", answer.degradations),
        ("left out", answer.left_out),
        ("not emitted", answer.skipped),
        (
            "waiting for pods",
            tuple(f"{unit}: {pods}, {at}" for unit, pods, at in answer.late_bound),
        ),
    ):
        if rows:
            lines.append(title)
            lines += [f"  {row}" for row in rows]
    return "\n".join(lines) + "\n"


def _class(answer: NodeAnswer) -> Iterator[tuple[str, str]]:
    one, step = answer.node_class, answer.rollout
    names = one.nodes
    if len(names) > _NAMES_SHOWN:
        names = (*names[:_NAMES_SHOWN], f"{len(names) - _NAMES_SHOWN} more")
    yield "class", f"{one.name}: {counted(len(one.nodes), 'node')}, {listed(names)}"
    for line in one.why[:_SHOWN]:
        yield "", line
    if len(one.why) > _SHOWN:
        yield "", f"and {counted(len(one.why) - _SHOWN, 'difference')} more"
    if step is not None:
        yield "rollout", f"step {step.step} of {step.steps}: {step.why}"


def render_lane(answer: LaneAnswer) -> str:
    """Return what a lane asked for and got."""
    rows = [
        ("CPUs", answer.cpus),
        ("cores", answer.cores),
        ("share", answer.share),
        ("tier", answer.tier),
        ("written", answer.at),
    ]
    if answer.family is not None:
        rows.append(("family", answer.family))
    rows += [
        ("locality", f"{name}: CPUs {cpus}, for processes with GPUs {gpus}")
        for name, cpus, gpus in answer.localities
    ]
    rows += [("member", member) for member in answer.members]
    rows += [(verb, f"{word}: {verdict}") for verb, word, verdict in answer.words]
    rows += [("device", f"{name}: near {cpus}") for name, cpus in answer.devices]
    rows += [("note", note) for note in answer.notes]
    return "\n".join([f"{answer.node}: lane {answer.lane}", *table(rows, indent=2)]) + "\n"
