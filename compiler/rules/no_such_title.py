"""A process title is matched in an engine version that does not set it.

`VLLM::EngineCor` and its like are titles that an engine gives its processes. vLLM sets them from
0.10.1 on (its workers from 0.11.0), SGLang from 0.4.1 on. Before, the threads are called `python3`
or like the script that started them.

## Why it matters

A pattern on a title that the version does not have matches nothing: the intent is compiled, loaded
and shown, and the engine runs as if it were not there.

## What to do

Correct the version if it is not the one that runs. For a version without titles match the service
by its cgroup, which needs no names, or use `workload.engine` with the version: the profile knows
what there is to match.

What a `match` speaks of is taken from the intents with `workload.engine` and a version that cover
the same threads: those that are not narrowed, or narrowed in the same way. One of them without a
version, or with a version that has the title, and nothing is said.

## Example

Wrong, the node's vLLM has no titles:

```yaml
workload: {engine: vllm, version: "0.9.2"}
keep: interactive
---
workload: {match: [{comm: "VLLM::EngineCor", cgroup: "serving.slice/**"}]}
protect: all
```

Right:

```yaml
workload: {engine: vllm, version: "0.9.2"}
keep: interactive
---
workload: {match: [{cgroup: "serving.slice/**"}]}
protect: all
```
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from compiler.decode import Loaded
from compiler.diagnostics import Code, Diagnostic, Related, Severity
from compiler.model.intent import Intent, Match
from compiler.model.profile import EngineProfile
from compiler.patterns import Glob, intersects
from compiler.pipeline import Compilation
from compiler.policy import Policy
from compiler.profiles import builtin_profiles, stage_matches
from compiler.rules.rule import Rule, scopes
from compiler.versions import Range
from compiler.versions import contains as version_in
from compiler.versions import intersects as ranges_meet

CODE: Final = Code("TRC217", "no-such-title", Severity.ERROR, __doc__, adjustable=True)

_KEYS: Final = ("comm", "leaderComm")
_MARK: Final = "::"
"""What is in titles and hardly in other names."""


@dataclass(frozen=True)
class _Title:
    """A pattern on a title of a built-in engine."""

    key: str
    text: str
    engine: str
    versions: tuple[str, ...]
    """Ranges that have it."""

    def has(self, version: str) -> bool:
        return any(version_in(versions, version) for versions in self.versions)

    @property
    def since(self) -> str:
        return " or ".join(self.versions)


def check(compilation: Compilation) -> Iterator[Diagnostic]:
    """Find patterns on titles that no version in question sets."""
    policy = compilation.policy
    yield from _rows(policy)
    yield from _stages(policy)
    for expansions, nodes in scopes(compilation):
        intents = [expansion.intent for expansion in expansions]
        for intent in intents:
            for found in _items(intent, intents):
                yield replace(found, nodes=nodes)


def _titles(match: Match) -> Iterator[_Title]:
    for key in _KEYS:
        text = match.conditions.get(key)
        if text is None or text.find(_MARK) < 1 or text[0] in "*?":
            continue
        for name, profile in sorted(builtin_profiles().items()):
            rows = [row for stage in profile.model.spec.stages.values() for row in stage.match]
            ranges = list(dict.fromkeys(row.versions for row in rows if _meets(row, text)))
            if ranges:
                yield _Title(key, text, name, tuple(r for r in ranges if not _within(r, ranges)))


def _within(one: str, ranges: Sequence[str]) -> bool:
    """Tell whether another of the ranges has all that a range has."""
    mine = Range.parse(one)
    return any(mine & (wide := Range.parse(other)) == mine != wide for other in ranges)


def _meets(row: Match, text: str) -> bool:
    """Tell whether a row of a profile is about threads whose title may be this one."""
    pattern = Glob.comm(text)
    return any(
        intersects(Glob.comm(have), pattern)
        for have in (row.comm, row.leader_comm)
        # VLLM::* of a helper thread's leader says that there are titles, and not which
        if have is not None and _MARK in have and not have.rstrip("*").endswith(_MARK)
    )


def _items(intent: Loaded[Intent], intents: Sequence[Loaded[Intent]]) -> Iterator[Diagnostic]:
    """Judge an intent's own patterns by the engines that others say are there."""
    work = intent.model.spec.workload
    for i, item in enumerate(work.match or ()):
        for title in _titles(item):
            engines = [o for o in intents if o.model.spec.workload.engine == title.engine]
            versions = [o.model.spec.workload.version for o in engines]
            about = [o for o in engines if _covers(o, intent)]
            if not about or any(v is None or title.has(v) for v in versions):
                continue
            version = about[0].model.spec.workload.version
            yield _finding(
                title, intent, ("spec", "workload", "match", i, title.key), version or "", about[0]
            )
            break


def _covers(engine: Loaded[Intent], intent: Loaded[Intent]) -> bool:
    wide, mine = engine.model.spec.workload, intent.model.spec.workload
    if wide.cgroup is None and wide.pods is None:
        return True
    return (wide.cgroup, wide.pods) == (mine.cgroup, mine.pods)


def _finding(
    title: _Title,
    intent: Loaded[Intent],
    route: tuple[str | int, ...],
    version: str,
    engine: Loaded[Intent],
) -> Diagnostic:
    return CODE.at(
        intent.span(*route),
        f'{title.key} "{title.text}" is a title that {title.engine} sets in versions '
        f"{title.since}, and {engine.name} says that {version} runs here: it matches nothing",
        related=[
            Related(engine.span("spec", "workload", "version"), f"{title.engine} {version}"),
        ],
        help=_HELP,
    )


_HELP: Final = (
    'correct the version, or match the service by cgroup: {cgroup: "system.slice/NAME.service/**"}'
)


def _rows(policy: Policy) -> Iterator[Diagnostic]:
    """Judge rows of a user's profile by the versions they are for."""
    for profile in _users(policy):
        for stage, known in profile.model.spec.stages.items():
            for i, row in enumerate(known.match):
                for title in _titles(row):
                    if title.engine != profile.name or any(
                        ranges_meet(row.versions, versions) for versions in title.versions
                    ):
                        continue
                    yield CODE.at(
                        profile.span("spec", "stages", stage, "match", i, title.key),
                        f'{title.key} "{title.text}" is a title that {title.engine} sets in '
                        f"versions {title.since}, and this row is for {row.versions}: it matches "
                        "nothing",
                        help="correct versions of the row, or match what that version has: the "
                        "script's name, or its command line",
                    )


def _stages(policy: Policy) -> Iterator[Diagnostic]:
    """Judge the versions of intents by what a user's profile of the engine has for them."""
    users = {profile.name: profile for profile in _users(policy)}
    for intent in policy.intents:
        work = intent.model.spec.workload
        profile, version = users.get(work.engine or ""), work.version
        if profile is None or version is None:
            continue
        for stage, rows in stage_matches(
            profile.model, version, work.tensor_parallel, narrowed=True
        ).items():
            # Rows for other versions by their own word are no mistake of this intent.
            titles = [_void(row.match, profile.name, version) for row in rows]
            known = [title for title in titles if title is not None]
            if not known or len(known) != len(titles):
                continue
            yield CODE.at(
                intent.span("spec", "workload", "version"),
                f"{profile.name} {version} does not set the title that the profile gives stage "
                f'{stage}, "{known[0].text}": versions {known[0].since} do',
                related=[
                    Related(profile.span(*rows[0].route, known[0].key), "the stage's only names")
                ],
                help="correct the version, or add a row to the profile for what this version has",
            )
            break


def _void(row: Match, engine: str, version: str) -> _Title | None:
    """Return the title that makes a row match nothing in this version, None where none does."""
    return next(
        (t for t in _titles(row) if t.engine == engine and not t.has(version)),
        None,
    )


def _users(policy: Policy) -> list[Loaded[EngineProfile]]:
    builtin = builtin_profiles()
    return [p for name, p in policy.profiles.own.items() if name in builtin]


RULE: Final = Rule(CODE, check)
