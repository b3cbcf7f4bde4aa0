"""The seed of a plan: every byte of every map."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from compiler.plan import Band, NodePlan, Tier
from targets.bpf.domains import is_hard
from targets.bpf.layout import (
    ABI_VERSION,
    MAX_BANDS,
    MAX_RULES,
    TABLES,
    Table,
    pack_band,
    pack_cgroup_key,
    pack_comm_key,
    pack_head,
    pack_index,
    pack_uint,
    pack_vec,
)
from targets.bpf.matchers import Name, rule_form
from targets.bpf.vectors import build_vectors

Entries = tuple[tuple[bytes, bytes], ...]

_GENERATION_MASK: Final = 0xFFFF_FFFE


@dataclass(frozen=True, slots=True)
class Seed:
    """What a slot holds.

    Attributes:
        tables: (key, value) pairs of each table of the ABI, by name, sorted by key.
        number: identifies the content, never 0; also in the head record.
    """

    tables: Mapping[str, Entries]
    number: int

    def generation(self, slot: int) -> int:
        """Return the generation to flip to when this seed is in ``slot``.

        A scheduler keeps what it found out about a thread while the generation stays the same, so
        a generation only has to *differ* whenever the content in force does; it need not grow.
        So it comes from the content: the same seed gives the same bytes, and no file has to be
        made on the node.  Its lowest bit is the slot, so that no flip leaves it unchanged.
        """
        return (self.number & _GENERATION_MASK) | slot


def build_seed(plan: NodePlan) -> Seed:
    """Compile a plan into its seed.

    Raises:
        ValueError: the plan breaks a promise made to targets: rules that the ABI cannot express,
            more than 256 rules or 64 bands, ids out of order, a CPU above 1,023.
    """
    rules = _checked_rules(plan)
    bands = _checked_bands(plan)
    vectors = build_vectors((rule, rule_form(plan.rules[n])) for n, rule in enumerate(rules))
    tables: dict[str, dict[bytes, bytes]] = {table.name: {} for table in TABLES}
    for name, masks in (("comm", vectors.comm), ("leader", vectors.leader)):
        tables[name] = {_name_key(key): pack_vec(mask) for key, mask in masks.items()}
    tables["cgroup"] = {
        pack_cgroup_key(depth, text): pack_vec(mask)
        for (depth, text), mask in vectors.cgroup.items()
    }
    for name, row in (
        ("kind", vectors.kind),
        ("level", vectors.level),
        ("dontcare", vectors.dontcare),
    ):
        tables[name] = {pack_index(n): pack_vec(mask) for n, mask in enumerate(row)}
    tables["rules"] = {pack_index(r.id): pack_uint(r.band, 4, "band") for r in plan.rules}
    tables["bands"] = {pack_index(n): value for n, value in bands.items()}
    return _seal(
        tables,
        n_rules=rules[-1] + 1 if rules else 0,
        n_bands=max(bands) + 1,
        default_band=plan.default_band,
    )


def _seal(
    tables: Mapping[str, Mapping[bytes, bytes]], *, n_rules: int, n_bands: int, default_band: int
) -> Seed:
    """Add the head record, which holds the number made from everything else."""

    def head(number: int) -> Entries:
        record = pack_head(n_rules=n_rules, n_bands=n_bands, default_band=default_band, seed=number)
        return ((pack_index(0), record),)

    content = {table.name: _sorted_entries(table, tables[table.name]) for table in TABLES}
    content["head"] = head(0)
    digest = hashlib.sha256(f"tierc bpf seed, ABI {ABI_VERSION}\n".encode())
    for name, entries in content.items():
        for key, value in entries:
            digest.update(f"{name} {key.hex()} {value.hex()}\n".encode())
    number = int.from_bytes(digest.digest()[:4], "little")
    if number & _GENERATION_MASK == 0:  # 0 is the generation of "no policy"
        number |= 2
    content["head"] = head(number)
    return Seed(tables=content, number=number)


def _sorted_entries(table: Table, entries: Mapping[bytes, bytes]) -> Entries:
    if len(entries) > table.max_entries:
        raise ValueError(
            f"table {table.name} would have {len(entries)} entries, more than {table.max_entries}"
        )
    for key, value in entries.items():
        if len(key) != table.key_size or len(value) != table.value_size:
            raise ValueError(f"table {table.name} has an entry of the wrong size")
    return tuple(sorted(entries.items()))


def _name_key(name: Name) -> bytes:
    return pack_comm_key(name.text, exact=name.exact)


def _checked_rules(plan: NodePlan) -> list[int]:
    """Return the rule ids.  Ids may have gaps where rules were left out; the order stays."""
    ids = [rule.id for rule in plan.rules]
    if any(a >= b for a, b in pairwise(ids)):
        raise ValueError("rules are not in ascending order of their ids")
    if ids and not 0 <= ids[0] <= ids[-1] < MAX_RULES:
        raise ValueError(f"rule ids {ids[0]} to {ids[-1]} are outside 0-{MAX_RULES - 1}")
    known = {band.id for band in plan.bands}
    for rule in plan.rules:
        if rule.band not in known:
            raise ValueError(f"rule {rule.id} has band {rule.band}, which the plan lacks")
    return ids


def _checked_bands(plan: NodePlan) -> dict[int, bytes]:
    tiers = {tier.id: tier for tier in plan.tiers}
    result: dict[int, bytes] = {}
    for band in plan.bands:
        if band.id in result:
            raise ValueError(f"two bands have the id {band.id}")
        if not 0 <= band.id < MAX_BANDS:
            raise ValueError(f"band id {band.id} is outside 0-{MAX_BANDS - 1}")
        if band.tier not in tiers:
            raise ValueError(f"band {band.id} has tier {band.tier}, which the plan lacks")
        result[band.id] = _band(band, tiers[band.tier], plan)
    if plan.default_band not in result:
        raise ValueError(f"the plan lacks its default band {plan.default_band}")
    return result


def _band(band: Band, tier: Tier, plan: NodePlan) -> bytes:
    flags = []
    if tier.preempt:
        flags.append("preempt")
    if is_hard(plan, band):
        flags.append("hard")
    elif band.cpus != plan.machine.effective:
        flags.append("soft")
    if band.prefer_idle_core:
        flags.append("idle-core")
    return pack_band(
        slice_ns=tier.slice_ns,
        weight=tier.weight,
        floor=tier.floor,
        tier=band.tier,
        order=band.order,
        flags=flags,
        cpus=band.cpus,
    )
