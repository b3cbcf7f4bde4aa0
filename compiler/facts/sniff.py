"""The door for `facts import`: what a file, a directory or an archive says of nodes."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from compiler.facts.bundling import read_bundle
from compiler.facts.decode import decode
from compiler.facts.files.archive import LIMITS, Limits, read_archive
from compiler.facts.files.below import FilesBelow
from compiler.facts.files.bundle import is_bundle
from compiler.facts.files.disk import DiskFiles
from compiler.facts.files.find import find
from compiler.facts.files.keep import MAX_FILE
from compiler.facts.files.opened import opened
from compiler.facts.files.source import Files
from compiler.facts.files.stream import Raw, Stream
from compiler.facts.files.tar import BLOCK, is_tar
from compiler.facts.formats import (
    cadvisor,
    hwloc,
    kubelet_state,
    kubernetes,
    labels,
    lscpu_json,
    lscpu_table,
    lscpu_text,
    nccl,
    nodefacts,
    nvml,
    rocm_smi,
    sbc_bench,
    smi_query,
    smi_topo,
    stream,
)
from compiler.facts.formats.format import Format, Text
from compiler.facts.formats.kfd import read_kfd
from compiler.facts.host import read_host
from compiler.facts.partial import Note, Partial, ReadError, UnknownFormatError
from compiler.facts.shown import clean
from compiler.facts.tree import Tree

FORMATS: Final[tuple[Format, ...]] = (
    nodefacts.FORMAT,
    hwloc.HWLOC,
    *lscpu_table.FORMATS,
    *lscpu_json.FORMATS,
    lscpu_text.FORMAT,
    smi_topo.FORMAT,
    smi_query.FORMAT,
    nvml.FORMAT,
    rocm_smi.FORMAT,
    nccl.NCCL,
    sbc_bench.FORMAT,
    cadvisor.FORMAT,
    kubelet_state.FORMAT,
    kubernetes.FORMAT,
    labels.FORMAT,
    stream.FORMAT,
)
"""Formats of text.  A text is of the one whose ``sniff`` claims it; the order is that of help."""

_KFD: Final = "/sys/class/kfd/kfd"
_MAX_UNREAD: Final = 10
_MAX_WHY: Final = 3


@dataclass(frozen=True, slots=True)
class Reading:
    """What one source says.

    Attributes:
        format: name of its format.
        partials: the facts of every node it speaks of.
    """

    format: str
    partials: tuple[Partial, ...]


def read_path(path: Path, name: str, limits: Limits = LIMITS) -> tuple[Reading, ...]:
    """Return what a file, a directory or an archive says of nodes; ``-`` is the standard input.

    A directory or an archive may hold the files of several machines, anywhere in it, and texts of
    any format beside them.  Files in it that are of no format are passed over; a file that was
    named itself is not.

    Args:
        path: what to read.
        name: how messages name it; what lies in it is named ``name!path/in/it``.
        limits: what an archive may hold.

    Raises:
        ReadError: it cannot be read, is damaged or too large, or says nothing of any node.
    """
    try:
        if str(path) == "-":
            return _read_file(sys.stdin.buffer, name, limits)
        if stat.S_ISDIR(os.stat(path).st_mode):
            return _read_tree(DiskFiles(path), name, ())
        with opened(path) as raw:
            return _read_file(raw, name, limits)
    except OSError as error:
        raise ReadError(f"cannot be read: {os.strerror(error.errno or 0).lower()}") from None


def read_text(text: Text, formats: Sequence[Format]) -> Reading:
    """Return what a text says, in the one format of ``formats`` that it is of.

    Raises:
        ReadError: it is of none, or it cannot be used.
    """
    claims = [one for one in formats if one.sniff(text.text)]
    if len(claims) > 1:
        titles = " and ".join(one.title for one in claims)
        raise UnknownFormatError(f"looks like {titles} at once", help="keep one output in one file")
    if not claims and (other := nodefacts.other_kind(text.text)) is not None:
        raise UnknownFormatError(
            f"this is kind {other}, not facts",
            help="leave it out; tierc lint checks documents of the policy",
        )
    if not claims:
        raise UnknownFormatError(
            "unknown format",
            help="understood are a directory or a tar archive of sysfs, "
            + ", ".join(one.title for one in formats),
        )
    return Reading(claims[0].name, claims[0].read(text))


def _read_file(raw: Raw, name: str, limits: Limits) -> tuple[Reading, ...]:
    source = Stream(raw, limit=limits.total)
    if is_tar(source.peek(BLOCK)):
        archive = read_archive(source, limits)
        if is_bundle(archive.files):
            return (_noted(Reading("bundle", read_bundle(archive.files)), archive.notes),)
        return _read_tree(archive.files, name, archive.notes)
    data = source.read(MAX_FILE + 1)
    if len(data) > MAX_FILE:
        raise ReadError(f"is larger than {MAX_FILE >> 20} MiB, and no tar archive")
    return (read_text(Text(name, decode(data)), FORMATS),)


def _read_tree(files: Files, name: str, notes: tuple[Note, ...]) -> tuple[Reading, ...]:
    found = find(files)
    readings: list[Reading] = []
    for root in found.systems:
        tree = Tree(FilesBelow(files, root))
        inner = _inner(name, root)
        with _naming(inner, name):
            readings.append(Reading("sysfs", (read_host(tree, live=False, name=inner),)))
            if tree.is_dir(f"{_KFD}/topology/nodes"):
                readings.append(Reading("kfd", (read_kfd(tree, _KFD, inner),)))
    for root in found.topologies:
        inner = _inner(name, root)
        with _naming(inner, name):
            readings.append(Reading("kfd", (read_kfd(Tree(files), root, inner),)))
    unread: list[Note] = []
    for path in found.texts:
        readings += _read_member(files, path, name, unread)
    if len(unread) > _MAX_UNREAD:
        left = len(unread) - _MAX_UNREAD
        unread[_MAX_UNREAD:] = [Note(f"{left} more files cannot be read and are passed over")]
    said = (*notes, *found.notes, *unread)
    if not readings:
        raise ReadError(
            "; ".join(
                ["holds nothing that tells of a node", *(note.message for note in said[:_MAX_WHY])]
            ),
            help="it must have sys/devices/system/cpu somewhere in it, or a file of a format "
            "that is understood",
        )
    first = _noted(readings[0], said)
    return (first, *readings[1:])


def _read_member(files: Files, path: str, name: str, unread: list[Note]) -> tuple[Reading, ...]:
    """Return what a text beside other files says; nothing if it is of no format.

    One that might be of a format, but cannot be read, is added to ``unread``.
    """
    try:
        data = files.read(path, MAX_FILE)
    except OSError as error:
        why = os.strerror(error.errno or 0).lower()
        unread.append(Note(f"{clean(path)} cannot be read: {why}; passed over"))
        return ()
    if len(data) > MAX_FILE:
        unread.append(Note(f"{clean(path)} is larger than {MAX_FILE >> 20} MiB; passed over"))
        return ()
    try:
        text = decode(data)
    except ReadError as error:
        if data.strip(b" \t\r\n\0"):
            unread.append(Note(f"{clean(path)}: {error.message}; passed over"))
        return ()
    if not any(one.sniff(text) for one in FORMATS):
        return ()
    inner = _inner(name, path)
    with _naming(inner, name):
        return (read_text(Text(inner, text), FORMATS),)


def _inner(name: str, path: str) -> str:
    return name if path == "/" else f"{name}!{clean(path[1:], 200)}"


@contextmanager
def _naming(inner: str, name: str) -> Iterator[None]:
    """Name the part of an archive or directory that cannot be used."""
    try:
        yield
    except ReadError as error:
        if inner == name:
            raise
        where = inner.removeprefix(f"{name}!")
        line = f", line {error.line}" if error.line is not None else ""
        raise ReadError(f"{where}{line}: {error.message}", help=error.help) from None


def _noted(reading: Reading, notes: tuple[Note, ...]) -> Reading:
    if not notes or not reading.partials:
        return reading
    first = reading.partials[0]
    first = replace(first, notes=(*notes, *first.notes))
    return replace(reading, partials=(first, *reading.partials[1:]))
