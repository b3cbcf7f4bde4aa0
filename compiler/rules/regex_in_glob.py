"""A name pattern that is written like a regular expression.

Names (`comm`, `leaderComm`, `kthread`) and cgroups are matched by globs: `*` is any text, `?` one
byte, and every other character stands for itself. Looked for are texts that only make sense as a
regular expression: `.*`, `.+`, `|` between names, `^` at the beginning, `$` at the end, and
parentheses around alternatives.

## Why it matters

`stress-ng.*` looks for a name that contains a dot, and `a|b` for one that contains a bar. No
process has it, so the rule matches nothing, and nothing says so at run time.

## What to do

Write `*` for `.*`, and one item of `match` for each alternative. A command line, `cmdline`, is
matched by a regular expression.

## Example

Wrong:

```yaml
workload: {match: [{comm: "stress-ng.*"}]}
demote: background
```

Right:

```yaml
workload: {match: [{comm: "stress-ng*"}]}
demote: background
```
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from compiler.diagnostics import Code, Diagnostic, Severity
from compiler.pipeline import Compilation
from compiler.rules.rule import Rule
from compiler.rules.written import written

CODE: Final = Code("TRC226", "regex-in-glob", Severity.WARNING, __doc__, adjustable=True)

_SIGNS: Final = re.compile(r"\.[*+]|\)[*+?]|\w\|\w|^\^|\$\Z|^\(.*\)\Z")
_GLOBS: Final = ("comm", "leaderComm", "kthread", "cgroup")


def check(compilation: Compilation) -> Iterator[Diagnostic]:
    """Find globs with signs that only a regular expression gives a meaning."""
    for matcher in written(compilation.policy):
        for key, text in matcher.match.conditions.items():
            sign = _SIGNS.search(text) if key in _GLOBS else None
            if sign is None:
                continue
            yield CODE.at(
                matcher.span(key),
                f'{key} "{text}" is a glob, in which "{sign[0]}" stands for itself',
                help=_advice(text),
            )


def _advice(text: str) -> str:
    if re.search(r"[()]", text.strip("^$")[1:-1]):
        return "match cmdline, which takes an expression, or write an item of match for each name"
    parts = [_glob(part) for part in text.strip("^$").strip("()").split("|") if part]
    if len(parts) > 1:
        return f"write one match item for each: {', '.join(parts)}"
    return f'write "{parts[0] if parts else "*"}", or match cmdline, which takes an expression'


def _glob(part: str) -> str:
    return re.sub(r"\.[*+]", "*", part.strip("^$"))


RULE: Final = Rule(CODE, check)
