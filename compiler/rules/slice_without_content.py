"""A cgroup pattern that names a slice and nothing below it.

`ci.slice` is the slice itself; `ci.slice/**` is the slice with everything in it.

## Why it matters

Under systemd and the kubelet no process lives in a slice: processes are in the services and scopes
below it. A pattern that ends in `.slice` therefore matches nothing, though it reads as if it took
everything in there.

## What to do

Add `/**`, which stands for the slice and everything below it; or name the service or scope that is
meant, as in `ci.slice/runner.service/**`.

## Example

Wrong:

```yaml
workload: {match: [{cgroup: ci.slice}]}
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

from compiler.diagnostics import Code, Diagnostic, Severity, Span
from compiler.pipeline import Compilation
from compiler.rules.cgroups import fault_of
from compiler.rules.rule import Rule
from compiler.rules.written import written

CODE: Final = Code("TRC227", "slice-without-content", Severity.WARNING, __doc__, adjustable=True)


def check(compilation: Compilation) -> Iterator[Diagnostic]:
    """Find cgroup patterns whose last component is a slice, in matchers and narrowings."""
    for span, text in _cgroups(compilation):
        if text.endswith(".slice") and fault_of(text) is None:  # otherwise TRC220 says more
            yield CODE.at(
                span,
                f'cgroup "{text}" is the slice alone, and processes live in what is below it',
                help=f'write "{text}/**"',
            )


def _cgroups(compilation: Compilation) -> Iterator[tuple[Span, str]]:
    for intent in compilation.policy.intents:
        text = intent.model.spec.workload.cgroup
        if text is not None:
            yield intent.span("spec", "workload", "cgroup"), text
    for matcher in written(compilation.policy):
        if matcher.match.cgroup is not None:
            yield matcher.span("cgroup"), matcher.match.cgroup


RULE: Final = Rule(CODE, check)
