"""A pod selector leaves the namespace open.

`workload.pods` without `namespace` selects pods of every namespace that carry the labels, and the
intent gives them something: a tier above `normal`, or CPUs of their own.

## Why it matters

Labels are written by whoever creates the pod. Anybody who may create one anywhere in the cluster
joins the protected tier and the lane by writing `app: vllm`, on purpose or because the chart uses
the same label. Namespaces are what cluster administrators hand out; labels are not. And a test
copy of the service in another namespace competes with the service for its own lane.

## What to do

Add the namespace. For the same service in several namespaces write one intent each. A demotion
without namespace is not reported: whoever writes the label only harms himself.

## Example

Wrong:

```yaml
workload: {engine: vllm, version: "0.24.0", pods: {matchLabels: {app: vllm}}}
keep: interactive
```

Right:

```yaml
workload: {engine: vllm, version: "0.24.0", pods: {namespace: serving, matchLabels: {app: vllm}}}
keep: interactive
```
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from compiler.decode import Loaded
from compiler.diagnostics import Code, Diagnostic, Severity
from compiler.model.intent import Intent
from compiler.pipeline import Compilation
from compiler.policy import Ladder
from compiler.resolve.lanes import lane_name
from compiler.rules.rule import Rule

CODE: Final = Code("TRC222", "pods-without-namespace", Severity.WARNING, __doc__, adjustable=True)


def check(compilation: Compilation) -> Iterator[Diagnostic]:
    """Find pod selectors by labels alone, in intents that give something."""
    for intent in compilation.policy.intents:
        pods = intent.model.spec.workload.pods
        if pods is None or pods.namespace is not None:
            continue
        gains = _gains(intent, compilation.policy.ladder)
        if not gains:
            continue
        labels = [f"{key}={value}" for key, value in sorted(pods.match_labels.items())]
        labels += sorted({expression.key for expression in pods.match_expressions})
        yield CODE.at(
            intent.key_span("spec", "workload", "pods"),
            f"pods of any namespace with the labels of {intent.name} ({', '.join(labels)}) get "
            f"{gains}",
            help="add namespace to pods; for several namespaces write one intent each",
        )


def _gains(intent: Loaded[Intent], ladder: Ladder) -> str:
    spec = intent.model.spec
    kept = ladder.id(spec.keep) if spec.keep is not None else None
    demoted = spec.demote is not None or (kept is not None and kept > ladder.normal)
    lane = None if demoted else lane_name(intent)
    out = []
    if spec.protect is not None:
        out.append("its protection")
    elif kept is not None and kept < ladder.normal:
        out.append(f"tier {spec.keep}")
    if lane is not None:
        out.append(f"CPUs of lane {lane}")
    return " and ".join(out)


RULE: Final = Rule(CODE, check)
