"""A bundle: the raw files that facts were read from, and what programs said, in one archive.

It is a gzip-compressed tar archive with these members:

- ``tierc-bundle.json``, the first: ``format``, ``live``, ``arch`` (``uname -m``), ``host``
  (``uname -n``) and ``node`` (the node's name, if it was given).  All but the first two may be
  missing, and so may ``names``, ``seen``, ``errors`` and ``tools``: names in directories of which
  nothing more is kept, entries of which only the type is, how reading failed (an act, a path, and
  an errno by its name or Linux's number), and what programs were asked;
- ``root/...``: every file, link and directory that was looked at, as it was;
- ``tools/N``: the output of the Nth program.

Equal contents give equal bytes.
"""

from __future__ import annotations

import errno
import gzip
import io
import json
import os
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from compiler.facts.files.archive import BUNDLE_NAME
from compiler.facts.files.memory import Act, ClashError, Link, MemoryFiles, Placeholder
from compiler.facts.partial import ReadError
from compiler.facts.shown import shown

FORMAT: Final = "tierc-bundle-1"
MODE: Final = 0o600
"""A bundle names pods, interfaces and kernel options; only its owner may read it."""
_ROOT: Final = "/root"
_TOOLS: Final = "/tools"
_ACTS: Final[tuple[Act, ...]] = ("entry", "names", "read")
_ERRNOS: Final = {name: number for number, name in errno.errorcode.items()}
_MAX_JSON: Final = 8 * 1024 * 1024
_MAX_WORDS: Final = 32


@dataclass(frozen=True, slots=True)
class Asked:
    """A program that was asked.

    Attributes:
        name: how messages name it.
        argv: the command.
        text: what it printed; None where it failed.
        error: why it failed; None where it did not.
    """

    name: str
    argv: tuple[str, ...]
    text: str | None
    error: str | None = None


@dataclass(frozen=True)
class Bundle:
    """What a bundle holds.

    Attributes:
        files: the machine's files, ``/`` being its root.
        live: whether it was the running machine, so that what is missing is known to be missing.
        arch: as ``uname -m`` prints it.
        host: as ``uname -n`` prints it.
        node: the name that the node was given.
        tools: the programs that were asked, in order.
    """

    files: MemoryFiles
    live: bool
    arch: str | None = None
    host: str | None = None
    node: str | None = None
    tools: tuple[Asked, ...] = field(default=())


# --- writing -----------------------------------------------------------------------------------


def bundle_bytes(bundle: Bundle) -> bytes:
    """Return the archive of a bundle."""
    seen: dict[str, str] = {}
    members: list[tuple[str, bytes | Link | None]] = []
    kept: dict[str, set[str]] = {}
    for path, node in bundle.files.nodes():
        if isinstance(node, Placeholder):
            seen[path] = str(node)
        else:
            members.append((path, node))
    names: dict[str, list[str]] = {}
    for path, _ in bundle.files.directories():
        if path != "/":
            members.append((path, None))
    for path in [*(path for path, _ in members), *seen]:
        parent, _, name = path.rpartition("/")
        kept.setdefault(parent or "/", set()).add(name)
    for path, inside in bundle.files.directories():
        if more := [name for name in inside if name not in kept.get(path, ())]:
            names[path] = more
    about = {
        "format": FORMAT,
        "live": bundle.live,
        "arch": bundle.arch,
        "host": bundle.host,
        "node": bundle.node,
        "names": names,
        "seen": seen,
        "errors": [
            [act, path, errno.errorcode.get(number, "EIO")]
            for (act, path), number in bundle.files.errors().items()
        ],
        "tools": [{"name": t.name, "argv": list(t.argv), "error": t.error} for t in bundle.tools],
    }
    out = io.BytesIO()
    with (
        gzip.GzipFile(filename="", mode="wb", compresslevel=9, fileobj=out, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        text = json.dumps(about, sort_keys=True, separators=(",", ":")) + "\n"
        _write(archive, BUNDLE_NAME, text.encode("ascii"))
        for path, content in sorted(members, key=lambda one: one[0]):
            _write(archive, f"{_ROOT}{path}"[1:], content)
        for number, tool in enumerate(bundle.tools):
            if tool.text is not None:
                _write(archive, f"{_TOOLS}/{number}"[1:], tool.text.encode("utf-8", "replace"))
    return out.getvalue()


def _write(archive: tarfile.TarFile, name: str, content: bytes | Link | None) -> None:
    member = tarfile.TarInfo(name)
    member.mode = 0o644
    if content is None:
        member.type, member.mode = tarfile.DIRTYPE, 0o755
        archive.addfile(member)
    elif isinstance(content, Link):
        member.type, member.linkname, member.mode = tarfile.SYMTYPE, str(content), 0o777
        archive.addfile(member)
    else:
        member.size = len(content)
        archive.addfile(member, io.BytesIO(content))


def write_bundle(path: Path, data: bytes) -> None:
    """Write a bundle so that it is there as a whole or not at all, readable by its owner only.

    Raises:
        OSError: it cannot be written.
    """
    partial = path.with_name(f".{path.name}.{os.getpid()}.part")
    handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, MODE)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    except BaseException:
        os.unlink(partial)
        raise


# --- reading -----------------------------------------------------------------------------------


def is_bundle(files: MemoryFiles) -> bool:
    """Return whether the files of an archive are those of a bundle."""
    try:
        return files.entry(f"/{BUNDLE_NAME}")[0] == "file"
    except OSError:
        return False


def open_bundle(files: MemoryFiles) -> Bundle:
    """Return what the files of an archive hold as a bundle.

    Raises:
        ReadError: the bundle is damaged, or of a later version.
    """
    about = _about(files)
    root = MemoryFiles()
    try:
        for path, inside in files.directories():
            if _below(path) is not None:
                root.add_directory(_below(path) or "/", inside)
        for path, node in files.nodes():
            if (inner := _below(path)) is not None:
                root.add(inner, node)
        for path, more in _mapping(about, "names").items():
            root.add_directory(_checked(path), [_name(one) for one in _list(more, "names")])
        for path, kind in _mapping(about, "seen").items():
            if kind not in ("file", "other"):
                raise _bad("seen")
            root.add(_checked(path), Placeholder(kind))
    except ClashError as error:
        raise ReadError(f"the bundle says two things about {shown(str(error))}") from None
    for entry in _list(about.get("errors") or [], "errors"):
        act, path, number = _triple(entry)
        root.add_error(act, path, number)
    live = about.get("live")
    if not isinstance(live, bool):
        raise _bad("live")
    return Bundle(
        files=root,
        live=live,
        arch=_word(about, "arch"),
        host=_word(about, "host"),
        node=_word(about, "node"),
        tools=tuple(_tools(files, about)),
    )


def _about(files: MemoryFiles) -> Mapping[str, Any]:
    try:
        data = files.read(f"/{BUNDLE_NAME}", _MAX_JSON)
        about = json.loads(data.decode("utf-8"))
    except (OSError, ValueError, RecursionError):
        about = None
    if not isinstance(about, dict):
        raise ReadError(f"{BUNDLE_NAME} cannot be read", help="collect the bundle again")
    if about.get("format") != FORMAT:
        raise ReadError(
            f"the bundle has format {shown(str(about.get('format')))}, not {FORMAT}",
            help="read it with the version of tierc that wrote it, or a later one",
        )
    return about


def _below(path: str) -> str | None:
    if path == _ROOT:
        return "/"
    return path[len(_ROOT) :] if path.startswith(f"{_ROOT}/") else None


def _tools(files: MemoryFiles, about: Mapping[str, Any]) -> Iterable[Asked]:
    for number, tool in enumerate(_list(about.get("tools") or [], "tools")):
        if not isinstance(tool, dict):
            raise _bad("tools")
        argv = _list(tool.get("argv"), "tools")
        name, error = tool.get("name"), tool.get("error")
        if not isinstance(name, str) or not isinstance(error, str | None):
            raise _bad("tools")
        if len(argv) > _MAX_WORDS or not all(isinstance(word, str) for word in argv):
            raise _bad("tools")
        text = None
        if error is None:
            try:
                text = files.read(f"{_TOOLS}/{number}", _MAX_JSON).decode("utf-8", "replace")
            except OSError:
                raise ReadError(f"the bundle lacks the output of {shown(name)}") from None
        yield Asked(name, tuple(argv), text, error)


def _triple(entry: object) -> tuple[Act, str, int]:
    match entry:
        case [str(act), str(path), str() | int() as code]:
            number = _ERRNOS.get(code) if isinstance(code, str) else code
            for known in _ACTS:
                if act == known and number is not None and number in errno.errorcode:
                    return known, _checked(path), number
    raise _bad("errors")


def _mapping(about: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = about.get(key) or {}
    if not isinstance(value, dict):
        raise _bad(key)
    return value


def _list(value: object, key: str) -> Sequence[Any]:
    if not isinstance(value, list):
        raise _bad(key)
    return value


def _word(about: Mapping[str, Any], key: str) -> str | None:
    value = about.get(key)
    if value is not None and not isinstance(value, str):
        raise _bad(key)
    return value[:256] if value else None


def _checked(path: str) -> str:
    steps = path.split("/")
    if path != "/" and (steps[0] or {"", ".", ".."} & set(steps[1:]) or len(path) > 4096):
        raise ReadError(f"the bundle has {shown(path)} where a path must be")
    return path


def _name(name: object) -> str:
    if not isinstance(name, str) or "/" in name or name in ("", ".", ".."):
        raise _bad("names")
    return name


def _bad(key: str) -> ReadError:
    return ReadError(f"{BUNDLE_NAME}: {key} is not as it must be", help="collect the bundle again")
