"""The GPUs an intent means."""

from __future__ import annotations

from compiler.codes import resolution as codes
from compiler.decode import Loaded
from compiler.diagnostics import Related, Sink
from compiler.model.facts import Device, NodeFacts
from compiler.model.intent import GpuModel, Intent


def gpus_of(intent: Loaded[Intent], node: Loaded[NodeFacts], sink: Sink) -> frozenset[str]:
    """Return the ids of the GPUs that an intent may use; what the node lacks is an error.

    An instance of a GPU (MIG), or of such an instance, stands for the GPU: it is where that is.
    """
    gpus = [d for d in node.model.spec.devices if d.type == "gpu"]
    whole: dict[str, str] = {}
    for device in node.model.spec.devices:  # a device comes after what it is a part of
        whole[device.id] = device.id if device.parent is None else whole[device.parent]
    wanted = intent.model.spec.workload.gpus
    if isinstance(wanted, str):
        return frozenset(gpu.id for gpu in gpus if gpu.parent is None)
    chosen: set[str] = set()
    for i, item in enumerate(wanted):
        hits = {whole[gpu.id] for gpu in gpus if _is(gpu, item)}
        if not hits:
            what = (
                f'whose model contains "{item.model}"'
                if isinstance(item, GpuModel)
                else f'"{item}"'
            )
            have = ", ".join(f"{g.id} {g.bdf or '?'} {g.model or ''}".strip() for g in gpus)
            sink.add(
                codes.GPU_NOT_FOUND.at(
                    intent.span("spec", "workload", "gpus", i),
                    f"the node has no GPU {what}",
                    related=[
                        Related(node.key_span("spec", "devices"), f"it has: {have or 'none'}")
                    ],
                    help="correct the name, or select other nodes",
                )
            )
        chosen |= hits
    return frozenset(chosen)


def _is(gpu: Device, item: str | GpuModel) -> bool:
    if isinstance(item, GpuModel):
        return gpu.model is not None and item.model.lower() in gpu.model.lower()
    return item.lower() in {text.lower() for text in (gpu.bdf, gpu.uuid) if text is not None}
