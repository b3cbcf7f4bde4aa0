"""Compare what was compiled with what is on disk, and decide about every file of the tree.

Reads only; :mod:`compiler.tree.write` acts on the result and :mod:`compiler.tree.check` reports it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, TypeAlias

from compiler.artifact import Artifact, ordered, parents
from compiler.codes import tree as codes
from compiler.tree import listing
from compiler.tree.errors import TreeError
from compiler.tree.listing import MANIFEST, PROVENANCE, UNLISTED, Entry, Manifest

Scope: TypeAlias = Callable[[str], bool]
"""Whether a build owns a path.  What it does not own is carried over as it is."""

Reason: TypeAlias = Literal["missing", "changed", "mode", "permissions"]
"""Why a file is written: not there; other bytes or kind; executable bit; other permission bits
only, which Git and umask change at will and a comparison therefore overlooks."""

LOCK_NAME: Final = ".tierc-lock"
STAGE_NAME: Final = ".tierc-stage"
WORKING: Final = frozenset({LOCK_NAME, STAGE_NAME})
"""Names at the root of a tree that an in-place build works with; never part of the tree."""


def everything(path: str) -> bool:
    """The scope of a full build."""
    return True


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to become of every file.  All paths are relative and sorted.

    Attributes:
        exists: whether the root directory is there.
        write: artifacts to write, each with the reason; manifest and provenance are among them.
        unchanged: artifacts that are on disk already.
        carried: files of earlier builds outside the scope, kept as they are.
        pruned: files of earlier builds in the scope that are not compiled any more.
        modified: files of earlier builds, to be written or pruned, that somebody edited.
        foreign: files, links and the like that tierc did not write; kept.
        foreign_dirs: directories in which tierc wrote nothing; kept, even when empty.
        emptied: directories in which only pruned files were; they go, innermost first.
        blocked: what stands in the way, and the path of the artifact that cannot be written.
        old: the manifest on disk.
        new: the manifest to be.
    """

    exists: bool
    write: tuple[tuple[Artifact, Reason], ...]
    unchanged: tuple[str, ...]
    carried: tuple[str, ...]
    pruned: tuple[str, ...]
    modified: tuple[str, ...]
    foreign: tuple[str, ...]
    foreign_dirs: tuple[str, ...]
    emptied: tuple[str, ...]
    blocked: tuple[tuple[str, str], ...]
    old: Manifest
    new: Manifest

    @property
    def nothing_to_do(self) -> bool:
        """Whether the tree on disk is the tree to be."""
        return self.exists and not (self.write or self.pruned)

    @property
    def mixes_versions(self) -> bool:
        """Whether carried files come from another plan version than the new ones."""
        carried = self.old.files.keys() & self.new.files.keys() - {a.path for a, _ in self.write}
        outside = carried - set(self.unchanged)
        return bool(outside) and self.old.plan_version != self.new.plan_version

    def foreign_summary(self) -> tuple[str, ...]:
        """Foreign paths with a directory that is wholly foreign as one ``name/``."""
        ours = {parent for path in self.new.files for parent in parents(path)}
        result = set()
        for path in self.foreign:
            outer = next((p for p in parents(path) if p not in ours), None)
            result.add(path if outer is None else f"{outer}/")
        return tuple(sorted(result))


def make_plan(root: Path, artifacts: Iterable[Artifact], plan_version: int, scope: Scope) -> Plan:
    """Return what to do so that the tree at ``root`` holds ``artifacts``.

    Raises:
        TreeError: ``root`` is no tree of ours, or its manifest cannot be trusted.
        OSError: it cannot be read.
        ValueError: the artifacts contradict each other or are outside the scope; a bug of ours.
    """
    new = {a.path: a for a in ordered(artifacts)}
    for path in new:
        if path == MANIFEST or not (path == PROVENANCE or scope(path)):
            raise ValueError(f"a build must not hand in {path!r}: outside its scope")
    exists = root.is_dir()
    found = _scan(root) if exists else {}
    old = listing.read(root) if exists else None
    if old is None:
        if found:
            message = "output directory is not a tierc tree: it has no manifest.json of ours"
            raise TreeError(codes.NOT_A_TREE, root, message, "choose an empty or new directory")
        old = Manifest(plan_version, {})

    carried = {path: entry for path, entry in old.files.items() if not scope(path)}
    listed = _entries(a for a in new.values() if a.path != PROVENANCE)
    # What an interrupted build left outside our scope is still not known to be whole.
    incomplete = old.incomplete and bool(carried)
    content = Manifest(plan_version, {**carried, **listed}, incomplete)
    new[MANIFEST] = listing.encode(content)
    keep = set(carried)
    if carried and PROVENANCE not in new:
        keep.add(PROVENANCE)
    return _Planner(root, found, old, new, keep).plan(exists, content)


def _entries(artifacts: Iterable[Artifact]) -> dict[str, Entry]:
    """Return what a manifest lists of each; bytes that many nodes share are hashed once."""
    hashes: dict[int, str] = {}  # by identity: all are alive as long as this runs
    entries = {}
    for one in list(artifacts):
        digest = hashes.get(id(one.data))
        if digest is None:
            digest = hashes[id(one.data)] = listing.sha256(one.data)
        entries[one.path] = Entry(digest, len(one.data), one.mode)
    return entries


def _scan(root: Path) -> dict[str, os.stat_result]:
    """Return everything below ``root`` by relative path; links are not followed."""
    found: dict[str, os.stat_result] = {}
    pending = [""]
    while pending:
        prefix = pending.pop()
        with os.scandir(root / prefix) as entries:
            for entry in entries:
                if not prefix and entry.name in WORKING:
                    continue
                path = f"{prefix}/{entry.name}" if prefix else entry.name
                found[path] = entry.stat(follow_symlinks=False)
                if entry.is_dir(follow_symlinks=False):
                    pending.append(path)
    return found


class _Planner:
    """The sorting of one tree's files into the parts of a :class:`Plan`."""

    def __init__(
        self,
        root: Path,
        found: Mapping[str, os.stat_result],
        old: Manifest,
        new: Mapping[str, Artifact],
        keep: set[str],
    ) -> None:
        self.root = root
        self.dirs = {path for path, status in found.items() if stat.S_ISDIR(status.st_mode)}
        self.files = {path: status for path, status in found.items() if path not in self.dirs}
        self.old = old
        self.new = new
        # A path the old manifest lists is ours unless a directory is there now.
        self.owned = (old.files.keys() | UNLISTED) & self.files.keys()
        self.keep = keep & self.owned
        self.going = self.owned - self.keep - new.keys()

    def plan(self, exists: bool, content: Manifest) -> Plan:
        write: list[tuple[Artifact, Reason]] = []
        unchanged: list[str] = []
        modified = {path for path in self.going if self._edited(path)}
        blocked: list[tuple[str, str]] = []
        for path, artifact in sorted(self.new.items()):
            reason = self._reason(artifact)
            if reason is None:
                unchanged.append(path)
                continue
            write.append((artifact, reason))
            if (blocker := self._blocker(path)) is not None:
                blocked.append((blocker, path))
            elif reason == "changed" and self._edited(path):
                modified.add(path)
        foreign = self.files.keys() - self.owned - self.new.keys()
        held = {parent for path in self.old.files for parent in parents(path)}
        stays = {p for path in self.keep | self.new.keys() | foreign for p in parents(path)}
        foreign_dirs = {
            path for path in self.dirs - held if self.new.keys().isdisjoint((path, *parents(path)))
        }
        stays |= {p for path in foreign_dirs for p in (*parents(path), path)}
        return Plan(
            exists=exists,
            write=tuple(write),
            unchanged=tuple(unchanged),
            carried=tuple(sorted(self.keep)),
            pruned=tuple(sorted(self.going)),
            modified=tuple(sorted(modified)),
            foreign=tuple(sorted(foreign)),
            foreign_dirs=tuple(sorted(foreign_dirs)),
            emptied=tuple(sorted(self.dirs - stays, reverse=True)),
            blocked=tuple(blocked),
            old=self.old,
            new=content,
        )

    def _reason(self, artifact: Artifact) -> Reason | None:
        status = self.files.get(artifact.path)
        if status is None:
            return "changed" if artifact.path in self.dirs else "missing"
        if self._read(artifact.path) != artifact.data:
            return "changed"
        permissions = stat.S_IMODE(status.st_mode)
        if permissions == artifact.mode:
            return None
        same = (permissions ^ artifact.mode) & stat.S_IXUSR == 0
        return "permissions" if same else "mode"

    def _read(self, path: str) -> bytes | None:
        """The bytes of a regular file; None for anything else."""
        if not stat.S_ISREG(self.files[path].st_mode):
            return None
        return (self.root / path).read_bytes()

    def _edited(self, path: str) -> bool:
        entry = self.old.files.get(path)
        if entry is None or self.old.incomplete or path not in self.files:
            return False
        data = self._read(path)
        return data is None or listing.sha256(data) != entry.sha256

    def _blocker(self, path: str) -> str | None:
        """What must not be touched and stands where ``path`` has to go."""
        for parent in parents(path):
            if parent in self.files and parent not in self.going:
                return parent
        if path in self.dirs:
            inside = sorted(p for p in self.files if p.startswith(f"{path}/"))
            return next((p for p in inside if p not in self.going), None)
        if (
            path in self.files
            and path not in self.owned
            and self._read(path) != self.new[path].data
        ):
            return path
        return None
