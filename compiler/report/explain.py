"""Answers of ``tierc explain`` as text."""

from __future__ import annotations

from compiler.explain import CpuAnswer, NodeAnswer, RuleAnswer, ThreadAnswer
from compiler.report.table import table


def render_thread(answer: ThreadAnswer) -> str:
    """Return which rule has a thread, and what else could, in rule order."""
    lines = [f"{answer.node}: a thread with {answer.thread or 'nothing known'}"]
    full = answer.winner or next(iter(answer.possible), None)
    if answer.winner is not None:
        lines += _rule(answer.winner, "is taken by")
    elif full is not None:
        lines += _rule(full, "is taken by")
        lines.append(
            f"  if no rule below takes it either: tier {answer.default_tier}, CPUs "
            f"{answer.default_cpus}"
        )
    else:
        lines.append(f"  matches no rule: tier {answer.default_tier}, CPUs {answer.default_cpus}")
    for other in answer.possible:
        if other is not full:
            lines.append(
                f"  {'an earlier rule' if answer.winner else 'else'}, {other.rule}, gives it to "
                f"{other.unit} ({other.tier}) if {' and '.join(other.unknown)}, {other.at}"
            )
    for other in answer.losers:
        lines.append(
            f"  also matches rule {other.rule} of {other.unit} ({other.match}), {other.at}; "
            "an earlier rule has it"
        )
    return "\n".join(lines) + "\n"


def _rule(answer: RuleAnswer, verb: str) -> list[str]:
    condition = f", if {' and '.join(answer.unknown)}" if answer.unknown else ""
    intent = f"intent {answer.intent}" if answer.intent else "the node"
    rows = [
        ("rule", f"{answer.rule}: {answer.match}"),
        ("written", answer.at),
        ("tier", answer.tier),
        ("CPUs", f"{answer.cpus} (lane {answer.lane})" if answer.lane else answer.cpus),
    ]
    if answer.needs:
        rows.append(("needs", answer.needs))
    rows += [("why", line) for line in answer.why]
    return [f"  {verb} {answer.unit} of {intent}{condition}", *table(rows, indent=4)]


def render_cpu(answer: CpuAnswer) -> str:
    """Return whose a CPU is."""
    lines = [f"{answer.node}: CPU {answer.cpu} is {answer.status}"]
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
            ("housekeeping", answer.housekeeping),
            ("shared pool", answer.shared),
            ("leftovers", answer.leftovers or "none"),
        ],
        indent=2,
    )
    if answer.lanes:
        lines.append("lanes")
        lines += table(answer.lanes, indent=2)
    lines.append("units")
    lines += table(answer.units, indent=2)
    for title, rows in (
        ("degradations", answer.degradations),
        ("left out", answer.left_out),
        ("not emitted", answer.skipped),
    ):
        if rows:
            lines.append(title)
            lines += [f"  {row}" for row in rows]
    return "\n".join(lines) + "\n"
