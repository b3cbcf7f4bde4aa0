"""A policy repository, read and decoded: everything the passes look at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from compiler.decode import Loaded
from compiler.diagnostics import Span
from compiler.model.demand import Demand
from compiler.model.facts import NodeFacts
from compiler.model.intent import Intent
from compiler.model.ladder import Tier, TierLadder
from compiler.model.profile import WorkloadGroup
from compiler.model.project import Enforce, Project
from compiler.profiles import Profiles
from compiler.select import selects
from compiler.source import Document, SourceFile


@dataclass(frozen=True)
class Ladder:
    """The tiers in force, highest first; a tier's id is its place."""

    tiers: tuple[Tier, ...]

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {tier.name: i for i, tier in enumerate(self.tiers)}

    def id(self, name: str) -> int | None:
        """Return the tier's id, or None where the ladder lacks it."""
        return self._ids.get(name)

    def name(self, id: int) -> str:
        """Return the tier's name."""
        return self.tiers[id].name

    @property
    def names(self) -> tuple[str, ...]:
        """All names, highest tier first."""
        return tuple(tier.name for tier in self.tiers)

    @property
    def latency(self) -> int:
        """Id of the default tier of ``protect``."""
        return self._ids["latency"]

    @property
    def system(self) -> int:
        """Id of the tier of node software."""
        return self._ids["system"]

    @property
    def normal(self) -> int:
        """Id of the tier of what nothing matches."""
        return self._ids["normal"]


@dataclass(frozen=True)
class Policy:
    """All documents of one policy repository, each sorted by name.

    Attributes:
        project: options in force; the defaults where there is no project file.
        project_doc: the project document, None without one.
        files: every file read, by path.
        profiles: built-in engine profiles, overlaid by the user's of the same name.
        ladder: the user's ladder, or the built-in one.
        test_documents: PolicyTest documents among those of the policy, not decoded: nothing that
            is compiled may depend on them.
        lost: kinds of the documents that could not be read or decoded, which is reported; with an
            empty text where the kind is not known either.
    """

    project: Project
    project_doc: Document | None
    files: Mapping[str, SourceFile]
    intents: tuple[Loaded[Intent], ...]
    profiles: Profiles
    groups: Mapping[str, Loaded[WorkloadGroup]]
    ladder: Ladder
    ladder_doc: Loaded[TierLadder]
    demands: tuple[Loaded[Demand], ...]
    nodes: tuple[Loaded[NodeFacts], ...]
    test_documents: tuple[Document, ...] = ()
    lost: frozenset[str] = frozenset()

    @property
    def complete(self) -> bool:
        """Whether every document was understood.

        Where not, what seems to be missing may be written: only what is there can be judged.
        """
        return not self.lost

    def intents_of(self, node: Loaded[NodeFacts]) -> tuple[Loaded[Intent], ...]:
        """Return the intents that select the node."""
        meta = node.model.metadata
        return tuple(
            intent
            for intent in self.intents
            if selects(intent.model.spec.nodes, meta.name, meta.labels)
        )

    def enforce_of(self, node: Loaded[NodeFacts]) -> tuple[Enforce, Span | None]:
        """Return the first ``enforce`` entry that selects the node, and its place.

        A node that none selects is only observed.
        """
        meta = node.model.metadata
        for i, entry in enumerate(self.project.spec.enforce):
            if selects(entry.nodes, meta.name, meta.labels):
                doc = self.project_doc
                return entry, doc.span("spec", "enforce", i, "mode") if doc else None
        return Enforce(mode="observe"), None

    def lines(self, path: str) -> Sequence[str] | None:
        """Return the lines of a file read for this policy, for reports."""
        file = self.files.get(path)
        return file.lines if file is not None else None
