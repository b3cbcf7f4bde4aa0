"""A cgroup pattern that no cgroup of that form can have.

Cgroups are named by rules of systemd and of the kubelet, and a pattern that breaks them matches
nothing. Looked for are:

- a pasted path: `sys/fs/cgroup/...` from the file system, `0::/...` from `/proc/PID/cgroup`;
- a slice without its parents: `kubepods-burstable.slice` is below `kubepods.slice`, always;
- a pod's uid in the other driver's form: `-` becomes `_` in `.slice` names, and only there;
- pods below a root that the node does not have: `kubepods/burstable` with the systemd driver,
  `kubepods.slice` with cgroupfs (`kubelet.podsRoot` of the node's facts says which);
- `user@1000.service` that is not below `user.slice/user-1000.slice`, and a template such as
  `user@.service`, which is no unit.

A service at the root, and instances of a template directly in `system.slice`, are warnings: a unit
file can put them there, and hardly any does.

## Why it matters

The rule is loaded, nothing is ever in that cgroup, and the workload runs unprotected without a
word. Between nodes of two drivers the same intent works on one half of the fleet only.

## What to do

Write what the message shows. For pods use `@pods/**`, which stands for the right root on each node,
or `workload.pods`, which needs no paths at all. To serve both drivers below the root as well, give
one item for each form: where one of them fits the node, the other is not reported.

## Example

Wrong:

```yaml
workload: {match: [{cgroup: "ci-build.slice/**"}]}
demote: background
```

Right:

```yaml
workload: {match: [{cgroup: "ci.slice/ci-build.slice/**"}]}
demote: background
```
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from compiler.decode import Loaded
from compiler.diagnostics import Code, Diagnostic, Related, Severity, Span
from compiler.model.intent import Intent
from compiler.patterns import Glob, intersects
from compiler.pipeline import Compilation, CompiledClass
from compiler.policy import Policy
from compiler.resolve.bind import pods_root
from compiler.rules.cgroups import Fault, fault_of, is_slice_root, pods_below
from compiler.rules.rule import Rule, on
from compiler.rules.written import written

CODE: Final = Code("TRC220", "cgroup-form", Severity.ERROR, __doc__, adjustable=True)

_PODS: Final = "@pods"
_ANYWHERE: Final = f"write {_PODS}/**, which is the right place on every node"


def check(compilation: Compilation) -> Iterator[Diagnostic]:
    """Find cgroup patterns of an impossible form, by themselves and on each class of nodes."""
    for span, text in _patterns(compilation.policy):
        fault = fault_of(text)
        if fault is not None:
            yield _of_form(span, text, fault)
    for group in compilation.classes:
        root = pods_root(group.sample.model)
        if root is None:
            continue
        for expansion in group.expansions:
            for found in _of_driver(group, expansion.intent, root.strip("/")):
                yield on(group, found)


def _patterns(policy: Policy) -> Iterator[tuple[Span, str]]:
    for item in written(policy):
        if item.match.cgroup is not None:
            yield item.span("cgroup"), item.match.cgroup
    for intent in policy.intents:
        cgroup = intent.model.spec.workload.cgroup
        if cgroup is not None:
            yield intent.span("spec", "workload", "cgroup"), cgroup


def _of_form(span: Span, text: str, fault: Fault) -> Diagnostic:
    return CODE.at(
        span,
        f'cgroup "{text}" {fault.message}',
        severity=None if fault.certain else Severity.WARNING,
        help=fault.help,
    )


def _of_driver(group: CompiledClass, intent: Loaded[Intent], root: str) -> Iterator[Diagnostic]:
    """Judge patterns on pods by the pods root of a class of nodes."""
    work = intent.model.spec.workload
    places = [
        (intent.span("spec", "workload", "match", i, "cgroup"), item.cgroup)
        for i, item in enumerate(work.match or ())
        if item.cgroup is not None
    ]
    faults = [(span, text, _misfit(text, root)) for span, text in places]
    if any(fault is None and _is_of_pods(text, root) for _, text, fault in faults):
        faults = []  # one item for each driver
    if work.cgroup is not None:
        span = intent.span("spec", "workload", "cgroup")
        faults.append((span, work.cgroup, _misfit(work.cgroup, root)))
    node = group.sample
    over = node.model.spec.overrides.pods_root is not None
    for span, text, fault in faults:
        if fault is None or fault_of(text) is not None:
            continue
        place = node.key_span("spec", "overrides" if over else "kubelet", "podsRoot")
        yield CODE.at(
            span,
            f'cgroup "{text}" {fault.message}',
            related=[Related(place, f"pods are below {root}")],
            help=fault.help,
        )


def _is_of_pods(text: str, root: str) -> bool:
    return _first(text) in (_PODS, _first(root))


def _first(text: str) -> str:
    return text.partition("/")[0]


def _misfit(text: str, root: str) -> Fault | None:
    """Return what keeps a pattern on pods from matching below this root."""
    driver = "systemd" if is_slice_root(root) else "cgroupfs"
    if _first(text) == _PODS:
        rest = text.removeprefix(_PODS).strip("/")
        first = _first(rest)
        if not pods_below(first, slices=is_slice_root(root)):
            return Fault(
                f'names "{first}" below the pods root, and the node\'s kubelet uses the {driver} '
                "driver, which has no such cgroup there",
                f"write {_PODS}/**, or the {driver} form",
            )
        found = fault_of(f"{root}/{rest}") if rest else None
        return found and replace(found, help=_ANYWHERE)
    if _first(text) not in ("kubepods", "kubepods.slice", "kubelet", "kubelet.slice"):
        return None
    if "kubepods" not in text or intersects(Glob.cgroup(text), Glob.cgroup(f"{root}/**")):
        return None
    return Fault(
        f"is not where this node's pods are: its kubelet uses the {driver} driver and {root}",
        _ANYWHERE,
    )


RULE: Final = Rule(CODE, check)
