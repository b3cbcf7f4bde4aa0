"""``manifest.json``: what tierc wrote into a tree.

It holds no time, revision or machine, so that equal builds have equal listing.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from compiler.artifact import (
    FILE_MODE,
    SCRIPT_MODE,
    Artifact,
    check_path,
    json_artifact,
    parents,
)
from compiler.codes import tree as codes
from compiler.tree.errors import TreeError

MANIFEST: Final = "manifest.json"
PROVENANCE: Final = "provenance.json"
UNLISTED: Final = frozenset({MANIFEST, PROVENANCE})
"""Files of ours that no manifest lists: itself, and where decisions come from (no promise)."""

_KIND: Final = "tierc-tree"
_FORMAT: Final = 1
_MAX_BYTES: Final = 256 << 20
_MODES: Final = {f"{mode:04o}": mode for mode in (FILE_MODE, SCRIPT_MODE)}
_SHA256: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Entry:
    """One file as a manifest lists it: SHA-256 in lower-case hex, bytes, permission bits."""

    sha256: str
    size: int
    mode: int

    @classmethod
    def of(cls, artifact: Artifact) -> Entry:
        """Return the entry of an artifact."""
        return cls(sha256(artifact.data), len(artifact.data), artifact.mode)


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a manifest says.

    Attributes:
        plan_version: ``PLAN_VERSION`` of the compiler that wrote the tree.
        files: path -> entry.
        incomplete: files were being replaced one by one when this was written.  It then lists
            every path that may be ours, and what is on disk may not match it.
    """

    plan_version: int
    files: Mapping[str, Entry]
    incomplete: bool = False


def sha256(data: bytes) -> str:
    """Return the SHA-256 of ``data`` in lower-case hex."""
    return hashlib.sha256(data).hexdigest()


def manifest(artifacts: Iterable[Artifact], plan_version: int) -> Artifact:
    """Return the manifest of a tree that holds exactly ``artifacts``.

    ``manifest.json`` and ``provenance.json`` may be among them and are not listed.
    """
    listed = {a.path: Entry.of(a) for a in artifacts if a.path not in UNLISTED}
    return encode(Manifest(plan_version, listed))


def encode(content: Manifest) -> Artifact:
    """Return the artifact of a manifest."""
    files = {
        path: {"mode": f"{entry.mode:04o}", "sha256": entry.sha256, "size": entry.size}
        for path, entry in content.files.items()
    }
    body: dict[str, object] = {
        "files": files,
        "format": _FORMAT,
        "kind": _KIND,
        "planVersion": content.plan_version,
    }
    if content.incomplete:
        body["incomplete"] = True
    return json_artifact(MANIFEST, body)


def read_provenance(root: Path) -> bytes | None:
    """Return the content of ``provenance.json``; None when there is no such file of usual size.

    Raises:
        OSError: it cannot be read.
    """
    data = _read(root / PROVENANCE)
    return data if data is not None and len(data) <= _MAX_BYTES else None


def _read(path: Path) -> bytes | None:
    """Return a regular file's content, one byte more than we accept at most; None: no file."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError:
        if path.is_symlink():
            return None
        raise
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        return None
    with open(fd, "rb") as file:
        return file.read(_MAX_BYTES + 1)


def read(root: Path) -> Manifest | None:
    """Return the manifest of the tree at ``root``; None when it is missing or not ours at all.

    Raises:
        TreeError: it is ours and cannot be trusted.
        OSError: it cannot be read.
    """
    path = root / MANIFEST
    data = _read(path)
    if data is None:
        return None
    if len(data) > _MAX_BYTES:
        raise _invalid(path, f"is over {_MAX_BYTES >> 20} MiB")
    try:
        value = json.loads(data, object_pairs_hook=_no_duplicates)
    except (ValueError, RecursionError) as error:
        # Whose it was cannot be read from a file that is cut off, so our mark anywhere decides.
        if f'"{_KIND}"'.encode() in data:
            raise _invalid(path, "is not readable JSON") from error
        return None
    if not isinstance(value, dict) or value.get("kind") != _KIND:
        return None
    try:
        return _decode(value)
    except ValueError as error:
        raise _invalid(path, str(error)) from error


def _invalid(path: Path, why: str) -> TreeError:
    help = "restore it from Git, or remove the output directory and build again"
    return TreeError(codes.BAD_MANIFEST, path, f"manifest.json of the tree {why}", help)


def _no_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("a key appears twice")
    return result


def _decode(value: dict[str, object]) -> Manifest:
    form, version, files = (value.get(key) for key in ("format", "planVersion", "files"))
    if form != _FORMAT or isinstance(form, bool):
        raise ValueError(f"has format {form!r}; this tierc knows {_FORMAT}")
    if not isinstance(version, int) or isinstance(version, bool):
        raise ValueError("has no plan version")
    if not isinstance(files, dict):
        raise ValueError("lists no files")
    incomplete = value.get("incomplete", False)
    if not isinstance(incomplete, bool):
        raise ValueError("does not say whether it is incomplete")
    entries = {path: _entry(path, row) for path, row in files.items()}
    for path in () if incomplete else entries:
        for parent in parents(path):
            if parent in entries:
                raise ValueError(f"lists {parent!r} both as a file and as a directory")
    return Manifest(version, entries, incomplete)


def _entry(path: str, row: object) -> Entry:
    try:
        check_path(path)
    except ValueError as error:
        raise ValueError(f"lists a path no build writes: {error}") from error
    if path in UNLISTED:
        raise ValueError(f"lists {path}, which no build lists")
    if isinstance(row, dict) and row.keys() == {"mode", "sha256", "size"}:
        mode, digest, size = row["mode"], row["sha256"], row["size"]
        if (
            isinstance(mode, str)
            and mode in _MODES
            and isinstance(digest, str)
            and _SHA256.fullmatch(digest)
            and isinstance(size, int)
            and not isinstance(size, bool)
            and size >= 0
        ):
            return Entry(digest, size, _MODES[mode])
    raise ValueError(f"has a damaged entry for {path}")
