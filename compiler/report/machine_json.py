"""A picture of a machine as data, for programs.

The format has a version.  Fields may be added without changing it; none is removed or changes
its meaning.  CPUs are lists as the kernel writes them; null is unknown.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from compiler.cpuset import CpuSet
from compiler.picture.machine import Box, CoreRow, DeviceMark, Machine

VERSION: Final = 1


def render_machine_json(machine: Machine) -> str:
    """Return the picture as one JSON object and a line end."""
    return json.dumps(machine_data(machine), indent=2, ensure_ascii=True) + "\n"


def machine_data(machine: Machine) -> dict[str, Any]:
    """Return the picture as plain data."""
    return {
        "version": VERSION,
        "node": machine.name,
        "arch": machine.arch,
        "cpus": {
            "online": str(machine.online),
            "offline": _cpus(machine.offline),
            "isolated": str(machine.isolated),
            "nohzFull": str(machine.nohz_full),
            "notAllowed": str(machine.not_allowed),
            "kubelet": str(machine.kubelet),
        },
        "levels": list(machine.levels),
        "boxes": [_box(box) for box in machine.boxes],
        "devices": _devices(machine.devices),
        "unplaced": _devices(machine.unplaced),
        "memory": [
            {"ids": list(nodes.ids), "role": nodes.role, "memoryMiB": nodes.memory_mib}
            for nodes in machine.memory
        ],
        "lanes": [
            {
                "letter": key.letter,
                "name": key.lane.name,
                "cpus": str(key.lane.cpus),
                "detail": key.lane.detail,
                "role": key.lane.role,
                "family": key.lane.family,
            }
            for key in machine.lanes
        ],
        "pools": [{"name": pool.name, "cpus": str(pool.cpus)} for pool in machine.pools],
        "notes": list(machine.notes),
        "facts": dict(machine.facts),
        "warnings": list(machine.warnings),
    }


def _cpus(cpus: CpuSet | None) -> str | None:
    return None if cpus is None else str(cpus)


def _box(box: Box) -> dict[str, Any]:
    data: dict[str, Any] = {
        "level": box.level,
        "ids": list(box.ids),
        "cpus": str(box.cpus),
        "part": box.part,
    }
    if box.level == "numa":
        data["memoryMiB"] = box.memory_mib
    if box.level == "llc":
        data["cacheLevel"] = box.cache_level
        data["sizeKiB"] = box.size_kib
    data["devices"] = _devices(box.devices)
    data["boxes"] = [_box(one) for one in box.boxes]
    data["rows"] = [_row(row) for row in box.rows]
    return data


def _row(row: CoreRow) -> dict[str, Any]:
    return {
        "kind": row.kind,
        "capacity": row.capacity,
        "cores": [str(core) for core in row.cores],
        "marks": [list(one) for one in row.marks],
        "lanes": [list(one) for one in row.lanes],
    }


def _devices(devices: Sequence[DeviceMark]) -> list[dict[str, Any]]:
    return [
        {
            "id": device.id,
            "type": device.type,
            "bdf": device.bdf,
            "model": device.model,
            "names": list(device.names),
            "near": _cpus(device.near),
            "numa": device.numa,
            "scope": device.scope,
            "confidence": device.confidence,
            "instances": device.instances,
        }
        for device in devices
    ]
