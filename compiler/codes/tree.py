"""Codes of what can go wrong, or is worth saying, when the output tree is written or checked."""

from __future__ import annotations

from typing import Final

from compiler.diagnostics import Code, Severity

NOT_A_TREE: Final = Code(
    "TRC700",
    "not-a-tierc-tree",
    Severity.ERROR,
    """The output directory exists, is not empty and holds no `manifest.json` that tierc wrote.

A build removes what an earlier build wrote and the new one does not.  In a directory that tierc
did not write, that would be guesswork with other people's files, so it is refused.

**What to do:** name an empty or new directory, for example `tierc build -o out/site`.
""",
)

BAD_MANIFEST: Final = Code(
    "TRC701",
    "manifest-invalid",
    Severity.ERROR,
    """`manifest.json` of the output directory claims to be tierc's, but cannot be trusted: it is
damaged, names a path outside the tree, or has a format this tierc does not know.

The manifest says which files a build may replace and remove.  Nothing was touched.

**What to do:** restore it from Git, or remove the output directory and build again.  If it was
written by a newer tierc, use that one.
""",
)

IN_THE_WAY: Final = Code(
    "TRC702",
    "foreign-file-in-the-way",
    Severity.ERROR,
    """Something that tierc did not write stands where an output file, or the directory of one,
has to go.  Symbolic links count: they are never followed inside the tree.

Files that are not tierc's are never overwritten.  Nothing was touched.

**What to do:** move the named file elsewhere and build again.
""",
)

LOCKED: Final = Code(
    "TRC703",
    "output-locked",
    Severity.ERROR,
    """Another build is writing the same output directory and did not finish in time.

**What to do:** wait for it.  The lock ends with the process that holds it, so there is nothing
to clean up after a crash.
""",
)

UNWRITABLE: Final = Code(
    "TRC704",
    "output-unwritable",
    Severity.ERROR,
    """The operating system refused a read or write of the output directory: no space, no
permission, a read-only filesystem.  Unless the message says otherwise the tree that was there
is still there, whole, and what was half written is removed.

**What to do:** cure what the message names and build again.
""",
)

MODIFIED: Final = Code(
    "TRC705",
    "output-edited-by-hand",
    Severity.WARNING,
    """A file that tierc writes was changed by hand since the last build, and the build replaced
or removed it.  Edits of compiled output last until the next build.

**What to do:** change the intents or the node facts instead, or keep own files beside the
compiled ones under other names: those are left alone.
""",
)

NOT_ATOMIC: Final = Code(
    "TRC706",
    "output-not-exchanged",
    Severity.INFO,
    """The new tree could not replace the old one in a single step: the filesystem cannot
exchange directories, the output directory is a mount point, or its parent is not writable.  The
files were replaced one by one, each atomically, `manifest.json` last.

A reader that looks in the middle of a build may see some new files beside old ones; it can tell
by comparing them with the manifest.  If the build is interrupted, run it again.

**What to do:** nothing, unless something reads the directory while builds run; then put it on a
local filesystem, inside a writable directory.
""",
)

FOREIGN: Final = Code(
    "TRC707",
    "foreign-files-kept",
    Severity.INFO,
    """The output directory holds files that tierc did not write.  They are kept as they are, and
neither listed in the manifest nor compared by `tierc build --check`.

**What to do:** nothing if they are wanted.  Remove leftovers by hand.
""",
)

DIFFERS: Final = Code(
    "TRC708",
    "output-differs",
    Severity.ERROR,
    """`tierc build --check`: the tree on disk is not what these intents and facts compile to.

It is `missing` (compiled, not on disk), `changed` (other bytes), `stale` (on disk, no longer
compiled) or `mode` (right bytes, executable bit wrong).

**What to do:** run `tierc build` with the same options and commit the result.
""",
)

MIXED_VERSIONS: Final = Code(
    "TRC709",
    "plan-versions-mixed",
    Severity.ERROR,
    """A build of only some nodes or targets would leave files of two plan versions in one tree,
because the rest of the tree was written by a tierc with another plan version.

**What to do:** build the whole tree once, without `--node`, `--target` and `--shard`.
""",
)

LEFTOVER: Final = Code(
    "TRC710",
    "old-tree-left",
    Severity.WARNING,
    """The new tree is in place, but the old one beside it could not be removed, or holds a file
that somebody added during the build and that could not be moved into the new tree.

**What to do:** look into the directory the message names, then remove it.
""",
)
