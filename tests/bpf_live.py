"""Seeds loaded into this machine's kernel with plain bpftool, and read back.

Maps need no sched_ext.  ``bpftool batch`` says little with its exit code, so everything is read
back and compared.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import find_tool

PINS = "/sys/fs/bpf"
"""The directory that seeds name; tests put their own in its place."""

# As the object of a scheduler makes them (bpf/tierc_maps.h).
ARRAYS = {"tierc_active": 8, "tierc_abi": 64}


class Bpftool:
    """bpftool at work below one bpffs directory."""

    def __init__(self, bpffs: Path, program: str | None = None) -> None:
        program = program or find_tool("bpftool")
        assert program is not None, "bpftool is not installed"
        self.program = program
        self.bpffs = bpffs

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.program, "-j", *arguments], capture_output=True, text=True, check=False
        )

    def json(self, *arguments: str) -> Any:
        done = self.run(*arguments)
        assert done.returncode == 0, (arguments, done.stdout, done.stderr)
        return json.loads(done.stdout or "null")

    def batch(self, text: str) -> str:
        """Run commands for /sys/fs/bpf below our directory instead; return all output."""
        moved = text.replace(f"{PINS}/", f"{self.bpffs}/")
        done = subprocess.run(
            [self.program, "batch", "file", "-"],
            input=moved,
            capture_output=True,
            text=True,
            check=False,
        )
        return done.stdout + done.stderr

    def show(self, path: Path) -> dict[str, Any]:
        shown = self.json("map", "show", "pinned", str(path))
        assert isinstance(shown, dict)
        return shown

    def dump(self, *which: str) -> dict[bytes, bytes]:
        """Return a map's entries; those of an outer map that are empty are left out."""
        return {
            _bytes(row["key"]): _bytes(row["value"])
            for row in self.json("map", "dump", *which)
            if isinstance(row.get("value"), list)
        }

    def lookup(self, path: Path, key: bytes) -> bytes | None:
        done = self.run("map", "lookup", "pinned", str(path), "key", "hex", *key.hex(" ").split())
        row = json.loads(done.stdout or "null")
        return _bytes(row["value"]) if isinstance(row, dict) and "value" in row else None


def give_up(reason: str) -> None:
    """Skip the test; in CI, where these checks are required, fail it."""
    if os.environ.get("CI", "").lower() not in ("", "0", "false", "no"):
        pytest.fail(f"{reason}, and CI must not skip what needs it", pytrace=False)
    pytest.skip(reason)


@contextmanager
def private_bpffs(tool: Callable[[str], str], directory: Path) -> Iterator[Path]:
    """Mount a bpf file system at a new directory; all its maps are gone with it.

    ``tool`` is the fixture of that name.  Gives up where maps cannot be made.
    """
    program = tool("bpftool")
    if os.geteuid() != 0:
        give_up("making maps needs root")
    directory.mkdir()
    done = subprocess.run(
        [tool("mount"), "-t", "bpf", "bpf", str(directory)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        give_up(f"no bpf file system can be mounted: {done.stderr.strip()}")
    try:
        probe = directory / "probe"
        create = f"map create {probe} type array key 4 value 4 entries 1 name probe"
        tried = Bpftool(directory, program).run(*create.split())
        if tried.returncode != 0:
            give_up(f"no maps can be made: {tried.stdout}{tried.stderr}")
        probe.unlink()
        yield directory
    finally:
        subprocess.run([tool("umount"), str(directory)], check=True)


def stage(bpftool: Bpftool, bpf_dir: Path) -> None:
    """Run a seed's stage batch."""
    (bpftool.bpffs / "tierc_stage").mkdir()
    bpftool.batch((bpf_dir / "stage.batch").read_text())


def unstage(bpftool: Bpftool) -> None:
    """Remove the pins of staged maps; published maps live on in their slot."""
    directory = bpftool.bpffs / "tierc_stage"
    for pin in sorted(directory.iterdir()):
        pin.unlink()
    directory.rmdir()


def outer_commands(document: Mapping[str, Any]) -> str:
    """Return what makes the outer maps, as the object of a scheduler does on loading."""
    lines = [
        f"map create {PINS}/{table['outer']} type array_of_maps key 4 value 4 entries 2"
        f" name {table['outer']} inner_map pinned {document['pins']['stage']}/{table['name']}"
        for table in document["tables"]
    ]
    lines += [
        f"map create {PINS}/{name} type array key 4 value {size} entries 1 name {name}"
        for name, size in ARRAYS.items()
    ]
    abi = bytes.fromhex(document["abi"]["raw"]).hex(" ")
    lines.append(f"map update pinned {PINS}/tierc_abi key hex 00 00 00 00 value hex {abi}")
    return "\n".join(lines) + "\n"


def check_staged(bpftool: Bpftool, document: Mapping[str, Any]) -> None:
    """Assert that the staged maps are the seed's, in shape and in every byte."""
    directory = bpftool.bpffs / "tierc_stage"
    assert sorted(os.listdir(directory)) == sorted(t["name"] for t in document["tables"])
    for table in document["tables"]:
        path = directory / table["name"]
        shown = bpftool.show(path)
        assert {
            "name": shown["name"],
            "type": shown["type"],
            "keySize": shown["bytes_key"],
            "valueSize": shown["bytes_value"],
            "maxEntries": shown["max_entries"],
            "flags": shown["flags"],
            "frozen": bool(shown["frozen"]),
        } == {
            "name": table["inner"],
            **{
                field: table[field]
                for field in ("type", "keySize", "valueSize", "maxEntries", "flags", "frozen")
            },
        }
        assert bpftool.dump("pinned", str(path)) == expected_entries(table)


def expected_entries(table: Mapping[str, Any]) -> dict[bytes, bytes]:
    """Return what a dump of a table must give: all of an array, with zeros where nothing is."""
    entries = {bytes.fromhex(e["key"]): bytes.fromhex(e["value"]) for e in table["entries"]}
    if table["type"] == "array":
        zero = bytes(table["valueSize"])
        keys = (n.to_bytes(4, "little") for n in range(table["maxEntries"]))
        return {key: entries.get(key, zero) for key in keys}
    return entries


def check_slot(bpftool: Bpftool, document: Mapping[str, Any], slot: int) -> None:
    """Assert that a slot holds the seed, byte for byte."""
    for table in document["tables"]:
        outer = bpftool.dump("pinned", str(bpftool.bpffs / table["outer"]))
        inner = int.from_bytes(outer[slot.to_bytes(4, "little")], "little")
        assert bpftool.dump("id", str(inner)) == expected_entries(table), table["name"]


def active(bpftool: Bpftool) -> bytes:
    """Return the eight bytes that say which slot is in force."""
    return bpftool.dump("pinned", str(bpftool.bpffs / "tierc_active"))[bytes(4)]


def publish_and_flip(bpftool: Bpftool, bpf_dir: Path, slot: int) -> None:
    """Put what is staged into a slot that is not active, and that slot in force."""
    document = json.loads((bpf_dir / "seed.json").read_text())
    before = active(bpftool)
    assert before[0] != slot or before == bytes(8), "that slot is in force"
    bpftool.batch((bpf_dir / f"slot{slot}" / "publish.batch").read_text())
    check_slot(bpftool, document, slot)
    assert active(bpftool) == before
    bpftool.batch((bpf_dir / f"slot{slot}" / "flip.batch").read_text())
    assert active(bpftool).hex() == document["active"]["slots"][slot]["raw"]


def stage_publish_flip_and_compare(bpf_dir: Path, bpffs: Path) -> None:
    """Load a seed into both slots, one after the other, and compare what the kernel has.

    ``bpf_dir`` is a node's ``bpf`` directory, ``bpffs`` a directory on a bpf file system (no dot
    in any name below its mount).  Outer maps are made when they are not there.  Afterwards slot
    0 is in force if slot 1 was, and the other way round; the staged pins are gone.
    """
    bpftool = Bpftool(bpffs)
    document = json.loads((bpf_dir / "seed.json").read_text())
    stage(bpftool, bpf_dir)
    check_staged(bpftool, document)
    if not (bpffs / "tierc_active").exists():
        bpftool.batch(outer_commands(document))
    abi = bpftool.dump("pinned", str(bpffs / "tierc_abi"))[bytes(4)]
    assert abi.hex() == document["abi"]["raw"]
    first = 1 - active(bpftool)[0]
    for slot in (first, 1 - first):
        publish_and_flip(bpftool, bpf_dir, slot)
    unstage(bpftool)
    for slot in (0, 1):
        check_slot(bpftool, document, slot)


def _bytes(words: Sequence[str]) -> bytes:
    return bytes(int(word, 16) for word in words)
