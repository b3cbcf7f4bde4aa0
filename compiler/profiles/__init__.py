"""Built-in engine profiles, workload groups and the tier ladder.

They are YAML beside this module and go through the same reading and decoding as a user's files;
a finding in one is a defect of tierc.  What is read is immutable and kept for the process.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Final, TypeVar

from compiler.decode import Loaded, decode
from compiler.diagnostics import Sink
from compiler.model.base import Model, Stage
from compiler.model.ladder import TierLadder
from compiler.model.profile import EngineProfile, ProfileMatch, WorkloadGroup
from compiler.source import Route, SourceFile, parse_source
from compiler.versions import Range, Version

ENGINES: Final = ("sglang", "vllm")
"""Names of the built-in engine profiles."""

GROUPS: Final = ("batch", "gpu-driver", "model-staging", "node-infra", "observability")
"""Names of the built-in groups."""

SCHEME: Final = "tierc:"
"""What the paths of built-in files begin with in findings and provenance."""

M = TypeVar("M", bound=Model)


class BuiltinError(Exception):
    """A file of tierc itself is wrong; the message lists the findings."""


@dataclass(frozen=True, slots=True)
class StageMatch:
    """One way to recognise a stage's threads, and where it is written.

    Attributes:
        match: the conditions.
        route: its place in the profile's document, for :meth:`Loaded.span`.
    """

    match: ProfileMatch
    route: Route


@dataclass(frozen=True, slots=True, eq=False)
class _Documents(Mapping[str, Loaded[M]]):
    """The files of one kind by name: most policies need few of them."""

    folder: str
    names: tuple[str, ...]
    model: type[M]

    def __getitem__(self, name: str) -> Loaded[M]:
        if name not in self.names:
            raise KeyError(name)
        return _load(f"{self.folder}/{name}.yaml", self.model)

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)


class Profiles(Mapping[str, Loaded[EngineProfile]]):
    """The built-in engine profiles, overlaid by the user's of the same name.

    Attributes:
        own: the user's, by name.
    """

    def __init__(self, own: Mapping[str, Loaded[EngineProfile]]) -> None:
        self.own: Final = {name: own[name] for name in sorted(own)}
        self._builtin: Final = builtin_profiles()

    def __getitem__(self, name: str) -> Loaded[EngineProfile]:
        return self.own[name] if name in self.own else self._builtin[name]

    def __contains__(self, name: object) -> bool:
        return name in self.own or name in self._builtin

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys((*self._builtin, *self.own)))

    def __len__(self) -> int:
        return len({*self._builtin, *self.own})


@cache
def builtin_profiles() -> Mapping[str, Loaded[EngineProfile]]:
    """Return the built-in engine profiles by name; each is read when it is asked for."""
    return _Documents("profiles", ENGINES, EngineProfile)


@cache
def builtin_groups() -> Mapping[str, Loaded[WorkloadGroup]]:
    """Return the built-in workload groups by name; each is read when it is asked for."""
    return _Documents("profiles/groups", GROUPS, WorkloadGroup)


def builtin_ladder() -> Loaded[TierLadder]:
    """Return the built-in tier ladder."""
    return _load("profiles/ladder.yaml", TierLadder)


def builtin_lines(path: str) -> tuple[str, ...] | None:
    """Return the text of a built-in file by its path in findings, or None for any other path."""
    name = path.removeprefix(SCHEME)
    if name == path or name not in _names():
        return None
    return _read(name)[0].lines


def stage_matches(
    profile: EngineProfile,
    version: str | None,
    tensor_parallel: int,
    *,
    narrowed: bool = False,
) -> Mapping[Stage, tuple[StageMatch, ...]]:
    """Return how the threads of each stage are recognised.

    Every stage of the profile is there, in the order of the profile.  One without matchers lives
    inside others: see :func:`carriers`.

    Args:
        profile: the engine.
        version: of the engine; None: what holds for any version.
        tensor_parallel: size of one engine; matchers that hold only with (or only without)
            tensor parallelism are picked by it.
        narrowed: whether the intent narrows its workload by pods or cgroup.  Only then are
            matchers taken whose conditions alone would meet other software.

    Raises:
        VersionError: ``version`` is malformed (the models refuse such).
    """
    parsed = None if version is None else Version.parse(version)
    parallel = "multi" if tensor_parallel > 1 else "single"
    return {
        name: tuple(
            StageMatch(match, ("spec", "stages", name, "match", index))
            for index, match in enumerate(stage.match)
            if (parsed is None or parsed in Range.parse(match.versions))
            and match.parallel in (None, parallel)
            and (narrowed or not match.generic)
        )
        for name, stage in profile.spec.stages.items()
    }


def carriers(
    profile: EngineProfile, matches: Mapping[Stage, Sequence[StageMatch]]
) -> Mapping[Stage, tuple[Stage, ...]]:
    """Return for each stage the stages whose matchers meet the threads that do its work.

    A stage with matchers carries itself.  One without, or whose every matcher needs something to
    be set first, is carried by the stages it is inside, and by theirs where the same holds of
    them; the result is empty when nothing is known.
    """
    result: dict[Stage, tuple[Stage, ...]] = {}
    for name in profile.spec.stages:
        found: list[Stage] = []
        seen: set[Stage] = set()
        queue: list[Stage] = [name]
        for stage in queue:
            if stage in seen:
                continue
            seen.add(stage)
            if matches[stage]:
                found.append(stage)
            if all(one.match.needs is not None for one in matches[stage]):
                queue += profile.spec.stages[stage].inside
        result[name] = tuple(found)
    return result


def _names() -> tuple[str, ...]:
    return (
        *(f"profiles/{name}.yaml" for name in (*ENGINES, "ladder")),
        *(f"profiles/groups/{name}.yaml" for name in GROUPS),
    )


@cache
def _read(name: str) -> tuple[SourceFile, Sink]:
    sink = Sink()
    data = files("compiler").joinpath(*name.split("/")).read_bytes()
    return parse_source(f"{SCHEME}{name}", data, sink), sink


@cache
def _load(name: str, model: type[M]) -> Loaded[M]:
    source, read = _read(name)
    sink = Sink()
    sink.extend(read)
    loaded = [decode(doc, sink, built_in=True) for doc in source.documents]
    one = loaded[0] if len(loaded) == 1 else None
    if len(sink) or one is None or not isinstance(one.model, model):
        said = "; ".join(f"{found.span}: {found.message}" for found in sink.sorted())
        raise BuiltinError(f"built-in {name}: {said or f'not one {model.__name__}'}")
    return Loaded(one.model, one.doc)
