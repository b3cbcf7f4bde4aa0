"""Kernel, kubelet, virtualization and labels of all sources, field by field."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from compiler.facts.merge.log import Log
from compiler.facts.merge.order import choose
from compiler.facts.partial import Partial
from compiler.facts.shown import shown
from compiler.model.base import Model
from compiler.model.facts import Kernel, Kubelet, Virtualization
from compiler.model.texts import is_label

M = TypeVar("M", bound=Model)


def merge_kernel(log: Log, partials: Sequence[Partial]) -> Kernel:
    """Return the abilities of the kernel."""
    return Kernel(**_fields(log, partials, "kernel", Kernel))


def merge_virtualization(log: Log, partials: Sequence[Partial]) -> Virtualization:
    """Return whether the node is virtual."""
    return Virtualization(**_fields(log, partials, "virtualization", Virtualization))


def merge_kubelet(log: Log, partials: Sequence[Partial]) -> Kubelet | None:
    """Return what is known of the kubelet; None where no source says anything.

    A source that found one counts more than one that found none: kubelets live in many places.
    """
    said = [one for one in partials if one.kubelet is not None]
    if not said:
        return None
    present = [one for one in said if one.kubelet is not None and one.kubelet.present]
    if present and len(present) < len(said):
        absent = next(one for one in said if one not in present)
        log.disagree("kubelet", present[0], "present", absent, "not present")
    if not present:
        log.supplied(said[0], "kubelet")
        return Kubelet(present=False)
    fields = _fields(log, present, "kubelet", Kubelet)
    fields["controlPlane"] = any(p.kubelet is not None and p.kubelet.control_plane for p in present)
    return Kubelet(**{**fields, "present": True})


def _fields(
    log: Log, partials: Sequence[Partial], family: str, model: type[Model]
) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, field in model.model_fields.items():
        if name == "control_plane":
            continue  # false where it is not known: not a word against another source

        def get(partial: Partial, name: str = name) -> Any:
            record = getattr(partial, family)
            return None if record is None else getattr(record, name)

        value = choose(log, partials, f"{family} {field.alias or name}", get, family=family)
        if value is not None:
            values[field.alias or name] = value
    return values


def merge_labels(log: Log, partials: Sequence[Partial]) -> dict[str, str]:
    """Return the labels that Kubernetes would accept, by key."""
    labels: dict[str, str] = {}
    for key in sorted({key for one in partials for key in one.labels}):

        def get(partial: Partial, key: str = key) -> str | None:
            return partial.labels.get(key)

        value = choose(log, partials, f"label {key}", get, family="labels")
        if value is not None and is_label(key, value):
            labels[key] = value
        else:
            log.remark(f"label {shown(key)}: {shown(str(value))} is no Kubernetes label; left out")
    return labels
