"""The few system calls the tree needs and Python does not have, and small steps around them."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import platform
import secrets
import stat
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from compiler.codes import tree as codes
from compiler.tree.errors import TreeError

_AT_FDCWD: Final = -100
_RENAME_EXCHANGE: Final = 2
_SYS_RENAMEAT2: Final = {
    # The kernel's syscall tables; musl and glibc before 2.28 have no wrapper.
    "x86_64": 316,
    "aarch64": 276,
    "riscv64": 276,
    "loongarch64": 276,
    "ppc64le": 357,
    "s390x": 347,
}
_MANY_FILES: Final = 128
"""From here on one syncfs costs less than an fsync for each file."""

_LOCK_POLL: Final = 0.05


def exchange(left: Path, right: Path) -> None:
    """Exchange two directory entries in one step.

    Raises:
        OSError: with errno ENOSYS where the system cannot.
    """
    # Pure data, no library search: the C library that this process already has.
    libc = ctypes.CDLL(None, use_errno=True)
    old, new = os.fsencode(left), os.fsencode(right)
    if hasattr(libc, "renameat2"):
        result = libc.renameat2(_AT_FDCWD, old, _AT_FDCWD, new, ctypes.c_uint(_RENAME_EXCHANGE))
    elif os.uname().sysname == "Linux" and platform.machine() in _SYS_RENAMEAT2:
        number = ctypes.c_long(_SYS_RENAMEAT2[platform.machine()])
        at = ctypes.c_long(_AT_FDCWD)
        result = libc.syscall(number, at, old, at, new, ctypes.c_ulong(_RENAME_EXCHANGE))
    else:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS), str(left), None, str(right))
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), str(left), None, str(right))


def write_new(path: Path, data: bytes, mode: int) -> None:
    """Write a file that must not exist yet, with exactly ``mode`` whatever the umask."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with open(os.open(path, flags, 0o600), "wb") as file:
            file.write(data)
            file.flush()
            os.fchmod(file.fileno(), mode)
    except OSError as error:
        # The errors of write() and fchmod() do not carry the name.
        error.filename = error.filename if error.filename is not None else str(path)
        raise


def flush(files: Iterable[Path], directories: Iterable[Path]) -> None:
    """Have files and directories on stable storage before returning."""
    paths = list(files)
    folders = list(directories)
    if len(paths) > _MANY_FILES and _syncfs(paths[0]):
        return
    for path in (*paths, *folders):
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        except OSError as error:
            # Some network and FUSE filesystems have no fsync for directories.
            if error.errno not in (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP):
                raise
        finally:
            os.close(fd)


def _syncfs(path: Path) -> bool:
    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "syncfs"):
        return False
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        return bool(libc.syncfs(fd) == 0)
    finally:
        os.close(fd)


def remove(tree: Path) -> None:
    """Remove a directory and what is in it, without following links.

    Raises:
        OSError: something cannot be removed.
    """
    tree.chmod(stat.S_IRWXU)
    with os.scandir(tree) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                remove(Path(entry.path))
            else:
                os.unlink(entry.path)
    tree.rmdir()


def temporary(prefix: str, parent: Path) -> Path:
    """Make a directory of an unused name, ``prefix`` and eight hex digits."""
    while True:
        path = parent / f"{prefix}{secrets.token_hex(4)}"
        with contextlib.suppress(FileExistsError):
            path.mkdir(0o700)
            return path


@contextlib.contextmanager
def locked(path: Path, dest: Path, timeout: float) -> Iterator[None]:
    """Hold an exclusive lock on the file ``path`` during the block.

    The lock belongs to the open file, so it ends with the process however that ends; the file
    itself is removed when the block ends.

    Args:
        path: the lock file, made when missing.
        dest: the output directory, for the message.
        timeout: seconds to wait for another holder.

    Raises:
        TreeError: another process still held it after ``timeout``.
        OSError: the lock file cannot be made.
    """
    deadline = time.monotonic() + timeout
    while (fd := _try_lock(path)) is None:
        if time.monotonic() >= deadline:
            message = f"another build is writing this output directory (waited {timeout:g} s)"
            help = f"wait for the process that holds {path.name}, then build again"
            raise TreeError(codes.LOCKED, dest, message, help)
        time.sleep(_LOCK_POLL)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            path.unlink()
        os.close(fd)


def _try_lock(path: Path) -> int | None:
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # The holder before us may have removed the file that we opened: then the lock is on
        # nothing, and somebody else may lock the next file of this name.
        if os.path.samestat(os.fstat(fd), path.lstat()):
            return fd
    except (BlockingIOError, FileNotFoundError):
        pass
    except BaseException:
        os.close(fd)
        raise
    os.close(fd)
    return None
