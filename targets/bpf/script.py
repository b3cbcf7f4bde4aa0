"""What the scripts that load a seed say, as data for their templates."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from compiler.plan import NodePlan
from targets.bpf.domains import NAME
from targets.bpf.layout import SLOTS, TABLES, pack_abi, pack_active
from targets.bpf.seed import Seed
from targets.scripts import Own, fingerprint_data, left_out_data

OWN: Final = Own(
    target=NAME,
    thing="map",
    what="a map",
    tools=(
        *("awk", "cat", "cp", "dirname", "grep", "id", "ln", "mkdir", "mktemp", "mv", "rm"),
        *("sed", "sha256sum", "sleep", "sort", "tail", "tr", "uname", "xargs"),
    ),
    why_root="maps and the scheduler are root's to set",
    state_form=(),
    state_test="",
    cgroups=False,
)
"""What the parts that targets share say in load.sh.  It looks for bpftool itself, because under the
kill switch it needs none."""

OWN_UNLOAD: Final = replace(
    OWN, tools=("cp", "dirname", "id", "ln", "mkdir", "mktemp", "mv", "rm", "sleep")
)
"""And in unload.sh, which works with the pins alone."""


def load_data(plan: NodePlan, seed: Seed) -> dict[str, object]:
    """Return the values of the template ``load.sh.j2``.

    Raises:
        ValueError: a fingerprint of the plan is not that of its machine.
    """
    return {
        **fingerprint_data(plan),
        **left_out_data(plan, NAME),
        "own": OWN,
        "tables": [table.name for table in TABLES],
        "seed": f"{seed.number:08x}",
        "abi": pack_abi().hex(),
        "active": [pack_active(slot, seed.generation(slot)).hex() for slot in range(SLOTS)],
        "frozen": [table.name for table in TABLES if table.frozen],
        "arrays": [table.name for table in TABLES if table.type == "array"],
    }


def unload_data() -> dict[str, object]:
    """Return the values of the template ``unload.sh.j2``."""
    return {"own": OWN_UNLOAD}
