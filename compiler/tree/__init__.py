"""The output tree on disk: write it atomically, prune what is stale, compare it (``--check``).

A tree is the directory given with ``-o``.  ``manifest.json`` in it lists what tierc wrote; what
is there and not listed is foreign and never lost.
"""

from __future__ import annotations

from compiler.tree.check import CheckReport, Difference, check_tree
from compiler.tree.errors import TreeError
from compiler.tree.listing import MANIFEST, PROVENANCE, manifest
from compiler.tree.planning import Scope, everything
from compiler.tree.write import LOCK_TIMEOUT, WriteReport, write_tree

__all__ = [
    "LOCK_TIMEOUT",
    "MANIFEST",
    "PROVENANCE",
    "CheckReport",
    "Difference",
    "Scope",
    "TreeError",
    "WriteReport",
    "check_tree",
    "everything",
    "manifest",
    "write_tree",
]
