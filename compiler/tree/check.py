"""``tierc build --check``: is the tree on disk what would be written?"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from compiler.artifact import Artifact
from compiler.codes import tree as codes
from compiler.diagnostics import Diagnostic, Span
from compiler.tree.errors import os_errors
from compiler.tree.listing import PROVENANCE
from compiler.tree.planning import Scope, everything, make_plan
from compiler.tree.write import resolve

Kind: TypeAlias = Literal["missing", "changed", "stale", "mode"]

_SAYS: dict[Kind, str] = {
    "missing": "is compiled and not on disk",
    "changed": "differs from what is compiled",
    "stale": "is on disk and not compiled any more",
    "mode": "has the wrong executable bit",
}


@dataclass(frozen=True, slots=True, order=True)
class Difference:
    """One file that is not as it would be written; ``path`` is relative to the tree."""

    path: str
    kind: Kind


@dataclass(frozen=True, slots=True)
class CheckReport:
    """What a comparison found.

    Attributes:
        differences: sorted by path; empty when a build would change nothing.
        foreign: what tierc did not write, as in :class:`compiler.tree.write.WriteReport`; it is
            no difference.
    """

    differences: tuple[Difference, ...]
    foreign: tuple[str, ...]

    def findings(self, dest: str) -> tuple[Diagnostic, ...]:
        """Return one error a difference; ``dest`` is the directory as the user typed it."""
        help = "run tierc build with the same options and commit the result"
        return tuple(
            codes.DIFFERS.at(
                Span.of_file(f"{dest}/{d.path}"), f"{d.path} {_SAYS[d.kind]}", help=help
            )
            for d in self.differences
        )


def check_tree(
    dest: Path,
    artifacts: Iterable[Artifact],
    *,
    plan_version: int,
    scope: Scope = everything,
) -> CheckReport:
    """Compare the tree at ``dest`` with what :func:`compiler.tree.write.write_tree` would write.

    ``provenance.json`` and foreign files are overlooked, and of permissions all but the
    executable bit, which is the one that Git keeps.

    Raises:
        TreeError: ``dest`` is no tree of ours, its manifest cannot be trusted, or it cannot be
            read.
        ValueError: as :func:`compiler.tree.write.write_tree`.
    """
    with os_errors(dest, "read the output", ""):
        plan = make_plan(resolve(dest), artifacts, plan_version, scope)
    found = [Difference(path, "stale") for path in plan.pruned if path != PROVENANCE]
    for artifact, reason in plan.write:
        if artifact.path != PROVENANCE and reason != "permissions":
            found.append(Difference(artifact.path, reason))
    return CheckReport(tuple(sorted(found)), plan.foreign_summary())
