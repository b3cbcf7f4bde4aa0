"""Seeds as command files for ``bpftool batch``.

Three steps, so that what schedules is never touched half-way: *stage* makes new inner maps and
fills and freezes them, *publish* puts them into a slot that is not in force, *flip* puts that
slot in force with one write of eight bytes.
"""

from __future__ import annotations

from typing import Final

from targets.bpf.layout import ABI_VERSION, MAP_ACTIVE, TABLES, Table, pack_active, pack_index
from targets.bpf.seed import Entries, Seed

PIN_DIR: Final = "/sys/fs/bpf"
"""Where outer maps are pinned: where libbpf puts LIBBPF_PIN_BY_NAME maps, so that a scheduler
object and the batches meet without being told."""

STAGE_DIR: Final = f"{PIN_DIR}/tierc_stage"
"""Where new inner maps are pinned until they are published.  No dots: bpffs refuses them."""


def stage_batch(seed: Seed) -> str:
    """Return the batch that makes, fills and freezes the inner maps below :data:`STAGE_DIR`."""
    lines = [
        f"# Seed {seed.number:08x}, map ABI version {ABI_VERSION}. Before: mkdir {STAGE_DIR}",
        "# The exit code of bpftool batch means little: read the maps back.",
    ]
    for table in TABLES:
        entries = seed.tables[table.name]
        lines += ["", f"# {table.name}: {_count(entries)}", _create(table)]
        path = staged(table)
        lines += [
            f"map update pinned {path} key hex {_hex(key)} value hex {_hex(value)}"
            for key, value in entries
        ]
        if table.frozen:
            lines.append(f"map freeze pinned {path}")
    return _text(lines)


def publish_batch(slot: int) -> str:
    """Return the batch that puts the staged maps into a slot.  Not the active one."""
    lines = [f"# Put the staged maps into slot {slot}. Only while the other slot is active."]
    lines += [
        f"map update pinned {pinned(table)} key hex {_hex(pack_index(slot))}"
        f" value pinned {staged(table)}"
        for table in TABLES
    ]
    return _text(lines)


def flip_batch(seed: Seed, slot: int) -> str:
    """Return the batch that puts a slot with this seed in force."""
    active = pack_active(slot, seed.generation(slot))
    return _text(
        [
            f"# Put slot {slot}, which holds seed {seed.number:08x}, in force.",
            f"map update pinned {PIN_DIR}/{MAP_ACTIVE} key hex {_hex(pack_index(0))}"
            f" value hex {_hex(active)}",
        ]
    )


def staged(table: Table) -> str:
    """Return the path of a table's staged inner map."""
    return f"{STAGE_DIR}/{table.name}"


def pinned(table: Table) -> str:
    """Return the path of a table's outer map."""
    return f"{PIN_DIR}/{table.outer}"


def _create(table: Table) -> str:
    return (
        f"map create {staged(table)} type {table.type} key {table.key_size}"
        f" value {table.value_size} entries {table.max_entries} name {table.inner}"
        f" flags {table.flags}"
    )


def _count(entries: Entries) -> str:
    if not entries:
        return "empty"
    return "1 entry" if len(entries) == 1 else f"{len(entries)} entries"


def _hex(data: bytes) -> str:
    return data.hex(" ")


def _text(lines: list[str]) -> str:
    return "\n".join(lines) + "\n"
