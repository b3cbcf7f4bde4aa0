"""Write the output tree: in one step where the system can, file by file where it cannot.

In one step: a sibling directory ``.NAME.tierc-XXXXXXXX`` is filled, with hard links for every
file that stays, brought to stable storage and exchanged with the old tree.  Whoever looks sees
the old tree or the new one, also after a crash.  Because links share their bytes, no file of a
tree is ever opened for writing: a change is always a new file.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import stat
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from compiler.artifact import Artifact, parents
from compiler.codes import tree as codes
from compiler.diagnostics import Diagnostic, Span
from compiler.tree import filesystem, inplace, listing, retire
from compiler.tree.errors import TreeError, os_errors, shown
from compiler.tree.planning import LOCK_NAME, Plan, Scope, everything, make_plan

LOCK_TIMEOUT: Final = 30.0
"""Seconds to wait for another build of the same directory."""

_NO_EXCHANGE: Final = frozenset(
    {
        errno.ENOSYS,  # no such system call
        errno.EINVAL,  # the filesystem cannot exchange
        errno.EOPNOTSUPP,
        errno.EXDEV,  # overlayfs: the directory comes from a lower layer
        errno.EBUSY,  # a mount point
        errno.EPERM,  # sticky parent, and the tree belongs to somebody else
        errno.EACCES,
    }
)
_DIRECTORY_MODE: Final = 0o755
_LONGEST_LABEL: Final = 200


Merge: TypeAlias = Callable[[bytes | None], Artifact]


@dataclass(frozen=True, slots=True)
class WriteReport:
    """What a build did to the tree.  Paths are relative to it and sorted.

    Attributes:
        written: files that are new or different, ``manifest.json`` among them.
        unchanged: files of this build that were there already.
        carried: files of earlier builds outside the scope, left as they were.
        pruned: files of earlier builds that are gone now.
        modified: written or pruned files that somebody had edited; the edits are lost.
        kept_foreign: what tierc did not write and therefore kept; ``name/`` is a directory that
            is wholly foreign.
        exchanged: whether the tree changed in a single step.
        note: why it did not, or what else the user should know; empty where there is nothing.
    """

    written: tuple[str, ...]
    unchanged: tuple[str, ...]
    carried: tuple[str, ...]
    pruned: tuple[str, ...]
    modified: tuple[str, ...]
    kept_foreign: tuple[str, ...]
    exchanged: bool
    note: str

    def findings(self, dest: str) -> tuple[Diagnostic, ...]:
        """Return what is worth telling the user; ``dest`` is the directory as they typed it."""
        result = []
        for path in self.modified:
            gone = "removed" if path in self.pruned else "replaced"
            message = f"{path} was edited by hand and has been {gone}"
            help = "change the intents or node facts instead, or keep the edit under another name"
            result.append(codes.MODIFIED.at(Span.of_file(f"{dest}/{path}"), message, help=help))
        if self.kept_foreign:
            names = ", ".join(shown(path) for path in self.kept_foreign[:5])
            more = len(self.kept_foreign) - 5
            names += f" and {more} more" if more > 0 else ""
            message = f"kept what tierc did not write: {names}"
            result.append(codes.FOREIGN.at(Span.of_file(dest), message))
        if self.note:
            code = codes.LEFTOVER if self.exchanged else codes.NOT_ATOMIC
            result.append(code.at(Span.of_file(dest), self.note))
        return tuple(result)


@dataclass(frozen=True, slots=True)
class _Request:
    """The arguments of :func:`write_tree`."""

    dest: Path
    files: tuple[Artifact, ...]
    plan_version: int
    scope: Scope
    lock_timeout: float
    merge: Merge | None


def write_tree(
    dest: Path,
    artifacts: Iterable[Artifact],
    *,
    plan_version: int,
    scope: Scope = everything,
    lock_timeout: float = LOCK_TIMEOUT,
    merge: Merge | None = None,
) -> WriteReport:
    """Make the tree at ``dest`` hold exactly ``artifacts``, the manifest, and what is not ours.

    Args:
        dest: the output directory; made, with its parents, when missing.  A link to a directory
            is followed, links inside the tree are not.
        artifacts: everything this build compiled, without the manifest.  ``provenance.json`` may
            be among them.
        plan_version: ``PLAN_VERSION``, for the manifest.
        scope: which paths this build owns.  Files of earlier builds outside it stay, and stay in
            the manifest.
        lock_timeout: seconds to wait for another build of the same directory.
        merge: makes ``provenance.json`` from the one that is there (None: there is none), in
            place of one among the artifacts; called while nobody else can write the tree.

    Raises:
        TreeError: the tree was not written; the one that was there is whole unless the finding
            says otherwise.
        ValueError: the artifacts contradict each other or are outside ``scope``: a bug of ours.
    """
    request = _Request(dest, tuple(artifacts), plan_version, scope, lock_timeout, merge)
    with os_errors(dest, "write the output", "the tree that was there is as it was"):
        root = resolve(dest)
        root.parent.mkdir(parents=True, exist_ok=True)
        why = _must_be_in_place(root)
        if why:
            root.mkdir(exist_ok=True)
            return _in_place(root, request, why)
        prefix = _prefix(root)
        with filesystem.locked(root.parent / f"{prefix}lock", dest, lock_timeout):
            left = _clean(root, prefix)
            plan = _sound(root, request)
            if plan.nothing_to_do:
                return _report(plan, exchanged=True, note=left)
            try:
                rest = _in_one_step(root, dest, prefix, plan)
            except _CannotExchangeError as reason:
                return _in_place(root, request, str(reason))
            return _report(plan, exchanged=True, note=rest or left)


class _CannotExchangeError(Exception):
    """The tree has to be written file by file; the message says why."""


def resolve(dest: Path) -> Path:
    """Return the directory that ``dest`` means, links followed.

    Raises:
        TreeError: it is there and no directory, or a link to itself.
    """
    try:
        root = Path(os.path.realpath(dest))
        if root.exists() and not root.is_dir():
            raise TreeError(codes.NOT_A_TREE, dest, "output is a file, not a directory")
        if root.is_symlink():
            raise TreeError(codes.NOT_A_TREE, dest, "output is a link that leads to itself")
    except ValueError as error:  # NUL in the name
        raise TreeError(codes.NOT_A_TREE, dest, f"output is no path: {error}") from error
    return root


def _prefix(root: Path) -> str:
    """What the names of our lock and of our temporary trees beside ``root`` start with."""
    label = root.name
    if len(os.fsencode(label)) > _LONGEST_LABEL:
        label = hashlib.sha256(os.fsencode(label)).hexdigest()
    return f".{label}.tierc-"


def _must_be_in_place(root: Path) -> str:
    """Why no sibling tree can be made; empty when it can."""
    if root.parent == root or os.path.ismount(root):
        return "the output directory is a mount point"
    if not os.access(root.parent, os.W_OK | os.X_OK):
        return f"no permission to write in {shown(root.parent)}"
    return ""


def _clean(root: Path, prefix: str) -> str:
    """Remove what builds that were killed left; we hold the lock, so nobody uses it."""
    pattern = re.compile(re.escape(prefix) + r"[0-9a-f]{8}")
    notes = []
    with os.scandir(root.parent) as scan:
        entries = sorted(scan, key=lambda e: e.name)
    for entry in entries:
        if not pattern.fullmatch(entry.name) or not entry.is_dir(follow_symlinks=False):
            continue
        if entry.stat(follow_symlinks=False).st_uid == os.geteuid():
            notes.append(retire.retire(Path(entry.path), root, replace=False))
    return next((note for note in notes if note), "")


def _sound(root: Path, request: _Request) -> Plan:
    """Return a plan that may be carried out."""
    files = request.files
    if request.merge is not None:
        files = (*files, request.merge(listing.read_provenance(root)))
    plan = make_plan(root, files, request.plan_version, request.scope)
    if plan.blocked:
        blocker, path = plan.blocked[0]
        message = f"{shown(blocker)} was not written by tierc and is where {path} has to go"
        help = "move it elsewhere and build again"
        raise TreeError(codes.IN_THE_WAY, request.dest / blocker, message, help)
    if plan.mixes_versions:
        message = (
            f"the tree was written with plan version {plan.old.plan_version}, this tierc has "
            f"{plan.new.plan_version}, and a partial build would mix them"
        )
        help = "build everything once, without --node, --target and --shard"
        raise TreeError(codes.MIXED_VERSIONS, request.dest / listing.MANIFEST, message, help)
    return plan


def _in_one_step(root: Path, dest: Path, prefix: str, plan: Plan) -> str:
    temp = filesystem.temporary(prefix, root.parent)
    swapped = False
    try:
        _fill(temp, root, plan)
        try:
            if plan.exists and os.listdir(root):
                filesystem.exchange(temp, root)
                swapped = True
            else:
                temp.rename(root)
        except OSError as error:
            if error.errno in _NO_EXCHANGE:
                reason = (error.strerror or str(error)).lower()
                raise _CannotExchangeError(
                    f"directories cannot be exchanged here: {reason}"
                ) from error
            raise
        with os_errors(dest, "have the output on stable storage", "the new tree is in place"):
            filesystem.flush((), (root.parent,))
        return retire.retire(temp, root, replace=True) if swapped else ""
    except BaseException:
        if not swapped:
            with contextlib.suppress(OSError):
                filesystem.remove(temp)
        raise


def _fill(temp: Path, root: Path, plan: Plan) -> None:
    """Build the new tree.  The manifest first: it tells a later clean-up whose the files are."""
    # Bytes of the old tree are read by link only, so they cannot be changed on the way.
    made = [temp]
    seen = {""}

    def make(directory: str) -> None:
        for part in (*parents(directory), directory):
            if part not in seen:
                seen.add(part)
                (temp / part).mkdir(0o700)
                made.append(temp / part)

    written = []
    for artifact, _ in sorted(plan.write, key=lambda w: w[0].path != listing.MANIFEST):
        make(_parent(artifact.path))
        filesystem.write_new(temp / artifact.path, artifact.data, artifact.mode)
        written.append(temp / artifact.path)
    for path in plan.foreign_dirs:
        make(path)
    for path in (*plan.unchanged, *plan.carried, *plan.foreign):
        make(_parent(path))
        try:
            os.link(root / path, temp / path, follow_symlinks=False)
        except FileNotFoundError:
            if path not in plan.foreign:
                raise
            # Somebody's temporary file that has gone since we looked.
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO):
                raise
            reason = (error.strerror or str(error)).lower()
            message = f"{shown(path)} cannot be linked into a new tree: {reason}"
            raise _CannotExchangeError(message) from error
    for directory in reversed(made):
        _copy_directory(root / directory.relative_to(temp), directory)
    filesystem.flush(written, reversed(made))


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


def _copy_directory(old: Path, new: Path) -> None:
    """Give a new directory the mode and owner of the one it replaces, where there is one."""
    try:
        status = old.lstat()
    except (FileNotFoundError, NotADirectoryError):
        status = None
    if status is None or not stat.S_ISDIR(status.st_mode):
        new.chmod(_DIRECTORY_MODE)
        return
    with contextlib.suppress(PermissionError):
        os.chown(new, status.st_uid, status.st_gid)
    new.chmod(stat.S_IMODE(status.st_mode))


def _in_place(root: Path, request: _Request, why: str) -> WriteReport:
    with filesystem.locked(root / LOCK_NAME, request.dest, request.lock_timeout):
        plan = _sound(root, request)
        if plan.nothing_to_do:
            return _report(plan, exchanged=True, note="")
        inplace.apply(root, request.dest, plan)
    return _report(plan, exchanged=False, note=f"files were replaced one by one: {why}")


def _report(plan: Plan, *, exchanged: bool, note: str) -> WriteReport:
    return WriteReport(
        written=tuple(artifact.path for artifact, _ in plan.write),
        unchanged=plan.unchanged,
        carried=plan.carried,
        pruned=plan.pruned,
        modified=plan.modified,
        kept_foreign=plan.foreign_summary(),
        exchanged=exchanged,
        note=note,
    )
