"""Writing new files beside what is there: all of them or none, and never over anything."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Final

_NO_LINKS: Final = frozenset(
    {errno.EPERM, errno.ENOSYS, errno.EOPNOTSUPP, errno.EMLINK, errno.EXDEV}
)
"""How file systems say that they have no hard links."""


def obstacles(root: Path, files: Mapping[str, bytes]) -> list[str]:
    """Return what stands where files are to go, one line each; equal files are no obstacle."""
    out: dict[str, str] = {}
    for path, data in sorted(files.items()):
        for folder in reversed(PurePosixPath(path).parents[:-1]):
            mode = _mode(root / folder)
            if mode and not stat.S_ISDIR(mode):
                what = "is a symbolic link" if stat.S_ISLNK(mode) else "is not a directory"
                out.setdefault(str(folder), what)
                break
        else:
            mode = _mode(root / path)
            if stat.S_ISLNK(mode):
                out[path] = "is a symbolic link"
            elif mode and not stat.S_ISREG(mode):
                out[path] = "is a directory" if stat.S_ISDIR(mode) else "is not a regular file"
            elif mode and not _same(root / path, data):
                out[path] = "exists and says something else"
    return [f"{path} {what}" for path, what in out.items()]


def missing(root: Path, files: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return the files that are not there yet."""
    return {path: data for path, data in files.items() if not _mode(root / path)}


def write(root: Path, files: Mapping[str, bytes]) -> None:
    """Write new files below ``root``, which is made when missing.

    They are written into a temporary directory beside or inside ``root`` first.  A new ``root`` is
    then renamed into place; into an existing one each file is linked, which never replaces
    anything.  Whatever fails, what was made is removed again.

    Raises:
        OSError: something cannot be written, or has appeared in the meantime.
    """
    with contextlib.ExitStack() as undo:
        for folder in reversed(list(_absent(root.parent))):
            folder.mkdir()
            undo.callback(_quiet, folder.rmdir)
        new = not root.is_dir()
        where = root.parent if new else root
        stage = Path(tempfile.mkdtemp(prefix=".tierc-init-", dir=where))
        undo.callback(shutil.rmtree, stage, ignore_errors=True)
        ready = stage / "new"  # unlike mkdtemp, mkdir gives it the usual mode
        for path, data in sorted(files.items()):
            target = ready / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
        if new:
            ready.rename(root)
            undo.pop_all()
            stage.rmdir()
            return
        for path in sorted(files):
            target = root / path
            for folder in reversed(list(_absent(target.parent))):
                folder.mkdir()
                undo.callback(_quiet, folder.rmdir)
            _publish(ready / path, target)
            undo.callback(_quiet, target.unlink)
        undo.pop_all()
        shutil.rmtree(stage, ignore_errors=True)


def _publish(source: Path, target: Path) -> None:
    """Give a file its place, unless something is there already."""
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        with open(target, "xb") as file:
            try:
                file.write(source.read_bytes())
                file.flush()
            except OSError:
                target.unlink()
                raise


def _absent(folder: Path) -> Iterator[Path]:
    """Yield the directories that are missing, the innermost first."""
    while not folder.is_dir():
        yield folder
        if folder == folder.parent:
            return
        folder = folder.parent


def _mode(path: Path) -> int:
    """Return the mode of what is there, links not followed; 0 where nothing is."""
    try:
        return path.lstat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return 0


def _same(path: Path, data: bytes) -> bool:
    return path.stat().st_size == len(data) and path.read_bytes() == data


def _quiet(step: Callable[[], object]) -> None:
    with contextlib.suppress(OSError):
        step()
