"""Remove the tree that was exchanged away, without losing what somebody put there meanwhile."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Set
from pathlib import Path

from compiler.tree import filesystem, listing
from compiler.tree.errors import TreeError, shown
from compiler.tree.planning import WORKING


def retire(tree: Path, dest: Path, *, replace: bool) -> str:
    """Remove ``tree``, an old or unfinished tree beside ``dest``.

    A file in it that its manifest does not list and that has no second link was not there when
    the new tree was made: somebody added it, or saved it anew, during the build.  Such a file is
    moved into ``dest``.

    Args:
        tree: what to remove.
        dest: the tree that stays.
        replace: whether a moved file may replace one in ``dest``.  Right directly after the
            exchange, when the one in ``tree`` is newer; wrong in a tree left by a killed build.

    Returns:
        What could not be removed, as a sentence for the user; empty when all is gone.
    """
    with contextlib.suppress(OSError):
        if _salvage(tree, dest, replace):
            filesystem.remove(tree)
            return ""
    return f"could not remove {shown(tree)}; look into it, then remove it by hand"


def _salvage(tree: Path, dest: Path, replace: bool) -> bool:
    """Move files that would be lost; return whether all of them could be."""
    try:
        content = listing.read(tree)
    except TreeError:
        content = None
    if content is None and not replace:
        # The manifest is the first file of a new tree and was read before an exchange, so this
        # tree was hardly begun.
        return True
    ours = listing.UNLISTED | (content.files.keys() if content is not None else set())
    safe = True
    for path in _single_links(tree, ours):
        target = dest / path
        if os.path.lexists(target) and not replace:
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        if os.path.realpath(target.parent) != str(target.parent) or target.is_dir():
            safe = False
            continue
        os.replace(tree / path, target)
    return safe


def _single_links(tree: Path, ours: Set[str]) -> list[str]:
    found = []
    pending = [""]
    while pending:
        prefix = pending.pop()
        with os.scandir(tree / prefix) as entries:
            for entry in entries:
                path = f"{prefix}/{entry.name}" if prefix else entry.name
                if path in ours or path in WORKING:
                    continue
                status = entry.stat(follow_symlinks=False)
                if stat.S_ISDIR(status.st_mode):
                    pending.append(path)
                elif status.st_nlink == 1:
                    found.append(path)
    return sorted(found)
