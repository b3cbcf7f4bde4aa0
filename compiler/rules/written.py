"""The matchers that users wrote: items of ``workload.match``, and rows of their own profiles."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from compiler.decode import Loaded
from compiler.diagnostics import Span
from compiler.model.base import Model, Stage
from compiler.model.intent import Intent, Match, Workload
from compiler.model.profile import ProfileMatch
from compiler.patterns import CmdlineRegex, Glob, PatternTooComplex, contains
from compiler.policy import Policy
from compiler.source import Route

NAME_KEYS: Final = ("comm", "leaderComm", "kthread")
"""Keys whose patterns are globs on names of threads."""

_ANY_NAME: Final = Glob.comm("?*")
_ANY_PATH: Final = Glob.cgroup("*/**")
"""Every cgroup but the root, where only kernel threads are."""


@dataclass(frozen=True)
class Written:
    """One matcher, and where it is written.

    Attributes:
        intent: whose it is; None in a profile.
        stage: the stage whose row it is; None in an intent.
    """

    loaded: Loaded[Model]
    route: Route
    match: Match
    intent: Loaded[Intent] | None = None
    stage: Stage | None = None

    def span(self, key: str) -> Span:
        """Return the place of the pattern under a key."""
        return self.loaded.span(*self.route, key)

    @property
    def owner(self) -> str:
        """Name of the intent or profile."""
        return self.loaded.name

    @property
    def names(self) -> tuple[tuple[str, str], ...]:
        """The patterns on names of threads, with their keys."""
        given = self.match.conditions
        return tuple((key, given[key]) for key in NAME_KEYS if key in given)

    @property
    def narrowed(self) -> bool:
        """Whether the workload around it leaves only some pods or cgroups."""
        if isinstance(self.match, ProfileMatch):
            return self.match.generic  # such a row is taken only by intents that narrow
        return self.intent is not None and is_narrowed(self.intent.model.spec.workload)


def written(policy: Policy) -> Iterator[Written]:
    """Yield every matcher a user wrote, intents first, by name."""
    for intent in policy.intents:
        for i, item in enumerate(intent.model.spec.workload.match or ()):
            yield Written(intent, ("spec", "workload", "match", i), item, intent=intent)
    for profile in policy.profiles.own.values():
        for stage, known in profile.model.spec.stages.items():
            for i, row in enumerate(known.match):
                yield Written(profile, ("spec", "stages", stage, "match", i), row, stage=stage)


def is_narrowed(work: Workload) -> bool:
    """Tell whether a workload is narrowed to pods, or to cgroups that are not all of them."""
    return work.pods is not None or (
        work.cgroup is not None and not takes_all("cgroup", work.cgroup)
    )


def takes_all(key: str, text: str) -> bool:
    """Tell whether a pattern leaves out no thread: ``*``, ``?*``, ``**``, ``.*``."""
    if key == "cmdline":
        try:
            return CmdlineRegex.parse(text).matches_all
        except PatternTooComplex:
            return False
    if key == "cgroup":
        return contains(Glob.cgroup(text), _ANY_PATH)
    return contains(Glob.comm(text), _ANY_NAME)


def item_takes_all(item: Match) -> bool:
    """Tell whether every condition of a matcher leaves out no thread."""
    return all(takes_all(key, text) for key, text in item.conditions.items())
