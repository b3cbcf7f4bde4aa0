"""The ``bpf`` target: seeds for the maps of a sched_ext scheduler.

The layout is that of ``bpf/tierc_maps.h``; how the files are used is in ``docs/bpf-seeds.md``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from compiler.artifact import Artifact, json_artifact, script_artifact, text_artifact
from compiler.plan import NodePlan
from targets.bpf.batch import flip_batch, publish_batch, stage_batch
from targets.bpf.document import seed_document
from targets.bpf.domains import lacks
from targets.bpf.layout import SLOTS
from targets.bpf.script import load_data, unload_data
from targets.bpf.seed import build_seed
from targets.shell import environment
from targets.target import Target

SUPPORTS: Final = frozenset(
    {
        "match.comm.exact",
        "match.comm.prefix",
        "match.leader.exact",
        "match.leader.prefix",
        "match.kthread.exact",
        "match.kthread.prefix",
        "match.cgroup.path",
        "match.cgroup.any",
        "lane.open",
        "lane.guarded",
        "lane.exclusive",
        "tier",
    }
)
"""Not ``lane.isolated``: with ``isolcpus`` the kernel refuses to attach a sched_ext scheduler."""


def emit(plan: NodePlan) -> list[Artifact]:
    """Return the seed of a plan as batches for either slot and as ``seed.json``, and the scripts
    that load and unload it.

    Raises:
        ValueError: the plan needs what :data:`SUPPORTS` lacks, breaks a limit of the ABI, or
            contradicts itself.
    """
    seed = build_seed(plan)
    env = environment(Path(__file__).parent / "templates")
    load = env.get_template("load.sh.j2").render(load_data(plan, seed))
    unload = env.get_template("unload.sh.j2").render(unload_data())
    artifacts = [
        script_artifact("bpf/load.sh", load),
        script_artifact("bpf/unload.sh", unload),
        json_artifact("bpf/seed.json", seed_document(plan, seed)),
        text_artifact("bpf/stage.batch", stage_batch(seed)),
    ]
    for slot in range(SLOTS):
        artifacts += [
            text_artifact(f"bpf/slot{slot}/flip.batch", flip_batch(seed, slot)),
            text_artifact(f"bpf/slot{slot}/publish.batch", publish_batch(slot)),
        ]
    return artifacts


TARGET: Final = Target(
    name="bpf", modes=frozenset({"sched_ext"}), supports=SUPPORTS, emit=emit, lacks=lacks
)
