"""The files of a class as data of ConfigMaps: keys, parts, digests, shards.

A ConfigMap's key may hold no ``/``, an object should stay small, and what a kubelet unpacks must be
the node's tree byte for byte.  So each file has a key, and the volume maps it back to its path; a
file too large for one object is cut, and ``run.sh`` joins it.  ``SHA256SUMS`` holds all together.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from compiler.artifact import FILE_MODE, Artifact
from compiler.yamlout import dump

MAX_OBJECT: Final = 200 * 1024
"""Most bytes of one object, in YAML and in JSON as Go writes it.  The API server takes 1 MiB, and
client-side apply fails above 256 KiB, because it keeps a copy in an annotation."""

MAX_DATA: Final = MAX_OBJECT - 16 * 1024
"""Most bytes of an object's data; the rest is for names, labels and annotations."""

MAX_KEY: Final = 253
SUMS: Final = "SHA256SUMS"
PARTS: Final = "PARTS"

_PLAIN: Final = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-")


@dataclass(frozen=True, slots=True)
class Entry:
    """One key of a ConfigMap.

    Attributes:
        key: its name there.
        path: where the volume shows it.
        mode: permission bits.
        data: the bytes.
    """

    key: str
    path: str
    mode: int
    data: bytes

    @property
    def text(self) -> str | None:
        """Return the data as text, None where it is none (it is ``binaryData`` then)."""
        try:
            return self.data.decode()
        except UnicodeDecodeError:
            return None

    @property
    def size(self) -> int:
        """Return the bytes that it takes in an object, in YAML or JSON, whichever is more."""
        text = self.text
        if text is None:
            return 2 * MAX_KEY + len(base64.b64encode(self.data))
        # Go writes <, > and & in JSON as \u003c and so on.
        html = 5 * sum(text.count(char) for char in "<>&")
        return max(len(json.dumps({self.key: text})) + html, len(dump({"data": {self.key: text}})))


@dataclass(frozen=True, slots=True)
class Shard:
    """The entries of one ConfigMap."""

    entries: tuple[Entry, ...]

    @property
    def digest(self) -> str:
        """Return the SHA-256 of everything in it, and of nothing else."""
        state = hashlib.sha256()
        for entry in self.entries:
            for piece in (entry.key.encode(), entry.path.encode(), b"%o" % entry.mode, entry.data):
                state.update(b"%d:" % len(piece) + piece)
        return state.hexdigest()

    @property
    def data(self) -> dict[str, str]:
        """Return what is text, by key."""
        return {e.key: text for e in self.entries if (text := e.text) is not None}

    @property
    def binary_data(self) -> dict[str, str]:
        """Return what is no text, in base64, by key."""
        return {e.key: base64.b64encode(e.data).decode() for e in self.entries if e.text is None}


@dataclass(frozen=True, slots=True)
class Content:
    """All that a class's pods get.

    Attributes:
        digest: SHA-256 over paths, modes and bytes of the node's files: the *plan hash*.
        shards: in order.
    """

    digest: str
    shards: tuple[Shard, ...]


def key_of(path: str) -> str:
    """Return the key of a path below ``node/``; no two paths have the same.

    ``/`` is ``__``, and an underscore, or what a key may not hold, is ``_`` and two hexadecimal
    digits.  A path too long for a key has its SHA-256.
    """
    key = "".join(
        "__" if byte == 0x2F else chr(byte) if byte in _PLAIN else f"_{byte:02x}"
        for byte in path.encode()
    )
    if len(key) > MAX_KEY:
        return f"_{hashlib.sha256(path.encode()).hexdigest()}"
    return key


def content_of(files: Sequence[Artifact]) -> Content:
    """Return the ConfigMap data of a node's files."""
    ordered = sorted(files, key=lambda file: file.path)
    sums = "".join(f"{hashlib.sha256(f.data).hexdigest()}  node/{f.path}\n" for f in ordered)
    modes = "".join(f"{f.mode:o} {f.path}\n" for f in ordered)
    digest = hashlib.sha256(f"{sums}\n{modes}".encode()).hexdigest()
    entries = [Entry(SUMS, SUMS, FILE_MODE, sums.encode())]
    index = ""
    cut: list[Entry] = []
    for number, file in enumerate(ordered):
        path = f"node/{file.path}"
        whole = Entry(key_of(path), path, file.mode, file.data)
        if whole.size <= MAX_DATA:
            entries.append(whole)
            continue
        pieces = _pieces(file.data)
        index += f"{number} {len(pieces)} {file.mode:o} {file.path}\n"
        for place, piece in enumerate(pieces):
            name = f"parts/{number}.{place}"
            cut.append(Entry(f"_{number}.{place}", name, FILE_MODE, piece))
    if index:
        entries.insert(1, Entry(PARTS, PARTS, FILE_MODE, index.encode()))
    return Content(digest, tuple(shards_of([*entries, *cut])))


def shards_of(entries: Iterable[Entry]) -> list[Shard]:
    """Return the entries in as few objects as their order allows.

    Raises:
        ValueError: one alone is too large.
    """
    shards: list[list[Entry]] = []
    room = 0
    for entry in entries:
        size = entry.size
        if size > MAX_DATA:
            raise ValueError(f"{entry.path} takes {size} bytes, and an object has {MAX_DATA}")
        if size > room:
            shards.append([])
            room = MAX_DATA
        shards[-1].append(entry)
        room -= size
    return [Shard(tuple(one)) for one in shards]


def _pieces(data: bytes) -> list[bytes]:
    """Return data in pieces that each fit into an object, cut behind lines where there are any."""
    pieces: list[bytes] = []
    rest = data
    while rest:
        length = min(len(rest), MAX_DATA)
        while (piece := _cut(rest, length)) and Entry("_", "_", 0, piece).size > MAX_DATA:
            length //= 2
        pieces.append(piece)
        rest = rest[len(piece) :]
    return pieces


def _cut(data: bytes, length: int) -> bytes:
    if length >= len(data):
        return data
    line = data.rfind(b"\n", length // 2, length) + 1
    if line:
        return data[:line]
    head = data[:length]
    # Not inside a character: its other bytes have the bits 10 in front.
    return re.sub(rb"[\xc0-\xff][\x80-\xbf]{0,2}\Z", b"", head) or head
