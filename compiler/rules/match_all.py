"""A matcher takes every thread, or none.

`comm: "*"`, `cgroup: "**"` and `cmdline: ".*"` leave nothing out when they stand alone. The
expression `a^b` and a narrowed `kthread` take nothing. Both are slips.

## Why it matters

A matcher for everything moves sshd, systemd and the kubelet together with what was meant: demoted,
the node may stop answering; protected, nothing is protected any more, because everything is. What
no rule matches needs no rule: it is in tier `normal`. A matcher for nothing looks like a rule and
is none. And `workload.cgroup: "**"` looks like evidence of where a process runs and is none.

## What to do

Name what is meant, or narrow it: `workload.cgroup` or `workload.pods` beside `comm: "*"` is
fine, and so is a cgroup alone. Kernel threads have no cgroup and cannot be narrowed.

## Example

Wrong:

```yaml
workload: {match: [{comm: "*"}]}
demote: background
```

Right:

```yaml
workload: {match: [{cgroup: "ci.slice/**"}]}
demote: background
```
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from compiler.diagnostics import Code, Diagnostic, Severity
from compiler.patterns import CmdlineRegex
from compiler.pipeline import Compilation
from compiler.policy import Policy
from compiler.rules import irq_thread
from compiler.rules.rule import Rule
from compiler.rules.written import Written, item_takes_all, takes_all, written

CODE: Final = Code("TRC204", "match-all", Severity.ERROR, __doc__, adjustable=True)


def check(compilation: Compilation) -> Iterator[Diagnostic]:
    """Find matchers that leave out nothing, or everything."""
    for item in written(compilation.policy):
        yield from _empty(item)
        if item_takes_all(item.match) and not item.narrowed:
            yield _everything(item)
    yield from _void_narrowing(compilation.policy)


def _everything(item: Written) -> Diagnostic:
    conditions = item.match.conditions
    patterns = " and ".join(f'{key} "{text}"' for key, text in conditions.items())
    if "kthread" in conditions:
        return CODE.at(
            item.span("kthread"),
            f"{patterns} matches every kernel thread of the node",
            help="name the kernel threads that are meant",
        )
    return CODE.at(
        item.span(next(iter(conditions))),
        f"{patterns} matches every thread of the node: sshd, systemd and the kubelet too",
        help="name what is meant, or narrow it with workload.cgroup or workload.pods; threads "
        "that no rule matches are in tier normal anyway",
    )


def _empty(item: Written) -> Iterator[Diagnostic]:
    conditions = item.match.conditions
    text = conditions.get("cmdline")
    if text is not None and CmdlineRegex.parse(text).is_empty:
        yield CODE.at(
            item.span("cmdline"),
            f'cmdline "{text}" matches no command line',
            help="^ stands at the beginning of what it anchors and $ at the end",
        )
    if item.intent is None or "kthread" not in conditions:
        return
    if irq_thread.means_irq("kthread", conditions["kthread"]):
        return  # the more specific rule says it
    work = item.intent.model.spec.workload
    if work.cgroup is not None or work.pods is not None:
        word = "cgroup" if work.cgroup is not None else "pods"
        yield CODE.at(
            item.span("kthread"),
            f'kthread "{conditions["kthread"]}" under workload.{word} matches nothing: kernel '
            f"threads are in no {'cgroup of their own' if word == 'cgroup' else 'pod'}",
            help="put it into an intent of its own, without cgroup and pods",
        )


def _void_narrowing(policy: Policy) -> Iterator[Diagnostic]:
    for intent in policy.intents:
        cgroup = intent.model.spec.workload.cgroup
        if cgroup is not None and takes_all("cgroup", cgroup):
            yield CODE.at(
                intent.span("spec", "workload", "cgroup"),
                f'cgroup "{cgroup}" narrows nothing: every process is in some cgroup',
                help='name where the workload runs, such as "@pods/**" or '
                '"system.slice/NAME.service/**", or leave it out',
            )


RULE: Final = Rule(CODE, check)
