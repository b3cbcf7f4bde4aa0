"""Write a tree file by file, where directories cannot be exchanged.

Every file is replaced atomically, the tree is not.  Order: everything new is staged inside the
tree first (so that a full disk is noticed before anything changed); then a manifest that claims
the old and the new paths and says it is incomplete; then stale files go, new ones are renamed into
place, and the real manifest comes last.  Killed anywhere, the next build knows which files are
ours, and a reader sees from the manifest that the tree is not whole.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Final

from compiler.artifact import Artifact, parents
from compiler.tree import filesystem
from compiler.tree.errors import os_errors
from compiler.tree.listing import MANIFEST, Manifest, encode
from compiler.tree.planning import STAGE_NAME, Plan

_DIRECTORY_MODE: Final = 0o755
_STAGED_MANIFEST: Final = "manifest"


def apply(root: Path, dest: Path, plan: Plan) -> None:
    """Carry out ``plan`` in the existing directory ``root``; the caller holds its lock.

    Raises:
        TreeError: it could not be finished; the tree is then incomplete and says so.
        OSError: nothing was changed.
    """
    stage = root / STAGE_NAME
    if os.path.lexists(stage):
        _discard(stage)
    stage.mkdir(0o700)
    try:
        staged: dict[Path, Artifact] = {}
        last: Path | None = None
        for number, (artifact, _) in enumerate(plan.write):
            path = stage / str(number)
            filesystem.write_new(path, artifact.data, artifact.mode)
            if artifact.path == MANIFEST:
                last = path
            else:
                staged[path] = artifact
        union = {**plan.old.files, **plan.new.files}
        claim = encode(Manifest(plan.new.plan_version, union, incomplete=True))
        if last is None:
            # Only the manifest survives a change of other files unchanged: renew it after them.
            last = stage / "last"
            content = encode(plan.new)
            filesystem.write_new(last, content.data, content.mode)
        filesystem.write_new(stage / _STAGED_MANIFEST, claim.data, claim.mode)
        filesystem.flush([*staged, last, stage / _STAGED_MANIFEST], [stage])
        with os_errors(dest, "finish the output", "the tree is incomplete: build again"):
            _replace(root, stage, plan, staged)
            os.replace(last, root / MANIFEST)
            filesystem.flush((), [root])
    finally:
        with contextlib.suppress(OSError):
            _discard(stage)


def _replace(root: Path, stage: Path, plan: Plan, staged: dict[Path, Artifact]) -> None:
    os.replace(stage / _STAGED_MANIFEST, root / MANIFEST)
    filesystem.flush((), [root])
    changed = set()
    # Stale files first: a new directory may need the name of an old file, and the reverse.
    for path in plan.pruned:
        with contextlib.suppress(FileNotFoundError):
            (root / path).unlink()
        changed.add((root / path).parent)
    for path in plan.emptied:
        with contextlib.suppress(OSError):  # something of somebody else's has appeared in it
            (root / path).rmdir()
        changed.add((root / path).parent)
    for source, artifact in staged.items():
        for parent in parents(artifact.path):
            directory = root / parent
            if not directory.is_dir():
                directory.mkdir()
                directory.chmod(_DIRECTORY_MODE)
                changed.update((directory, directory.parent))
        os.replace(source, root / artifact.path)
        changed.add((root / artifact.path).parent)
    filesystem.flush((), sorted(d for d in changed if d.is_dir()))


def _discard(stage: Path) -> None:
    if stage.is_dir() and not stage.is_symlink():
        filesystem.remove(stage)
    else:
        stage.unlink()
