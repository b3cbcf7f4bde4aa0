"""What the scripts that load a seed say, as data for their templates."""

from __future__ import annotations

from typing import Final

from compiler.plan import NodePlan
from targets.bpf.layout import SLOTS, TABLES, pack_abi, pack_active
from targets.bpf.seed import Seed
from targets.scripts import Own, fingerprint_data, left_out_data

NAME: Final = "bpf"

OWN: Final = Own(
    target=NAME,
    thing="map",
    what="a map",
    tools=(
        *("awk", "bpftool", "cat", "cp", "dirname", "grep", "id", "ln", "mkdir", "mktemp", "mv"),
        *("rm", "sed", "sha256sum", "sleep", "sort", "tail", "tr", "uname", "xargs"),
    ),
    why_root="maps and the scheduler are root's to set",
    state_form=(),
    state_test="",
    cgroups=False,
)
"""What the parts that targets share say in these scripts."""


def load_data(plan: NodePlan, seed: Seed) -> dict[str, object]:
    """Return the values of the template ``load.sh.j2``.

    Raises:
        ValueError: a fingerprint of the plan is not that of its machine.
    """
    return {
        **fingerprint_data(plan),
        **left_out_data(plan, NAME),
        **unload_data(),
        "tables": [table.name for table in TABLES],
        "seed": f"{seed.number:08x}",
        "abi": pack_abi().hex(),
        "active": [pack_active(slot, seed.generation(slot)).hex() for slot in range(SLOTS)],
        "frozen": [table.name for table in TABLES if table.frozen],
        "arrays": [table.name for table in TABLES if table.type == "array"],
    }


def unload_data() -> dict[str, object]:
    """Return the values of the template ``unload.sh.j2``."""
    return {"own": OWN}
