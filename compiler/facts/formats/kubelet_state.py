"""The kubelet's ``cpu_manager_state``: which CPUs containers have for themselves.

Read from its source (kubernetes, pkg/kubelet/cm/cpumanager/state/checkpoint.go): version 1 has the
CPUs by container id, version 2 by pod and container, version 3 pods of their own beside
(``podEntries``), and version 4 repeats all of it as a text (``data``), which counts.  The checksum
is not looked at: it is over the names of Go types.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from compiler.cpuset import CpuListError, CpuSet, union
from compiler.facts.formats.format import Format, Text
from compiler.facts.partial import Note, Partial, ReadError
from compiler.facts.tree import clean, shown
from compiler.model.facts import Kubelet

_HINT: Final = "take it as it is from /var/lib/kubelet/cpu_manager_state"
_MAX_POLICY: Final = 40


@dataclass(frozen=True, slots=True)
class State:
    """What the CPU manager has done.

    Attributes:
        policy: cpuManagerPolicy.
        shared_pool: CPUs of all containers without CPUs of their own; None: not said (policy
            ``none``).  It holds the reserved CPUs, except under strict-cpu-reservation.
        exclusive: CPUs that containers or pods have for themselves.
        notes: what was odd.
    """

    policy: str
    shared_pool: CpuSet | None
    exclusive: CpuSet
    notes: tuple[Note, ...] = ()


def parse_state(text: str) -> State:
    """Read a ``cpu_manager_state``.

    Raises:
        ReadError: it is none, or a part of it has no meaning.
    """
    state = _object(text, "the file")
    if "machineState" in state and "defaultCpuSet" not in state:
        raise ReadError(
            "this is memory_manager_state, which says nothing of CPUs",
            help="give cpu_manager_state, beside it",
        )
    if isinstance(state.get("data"), str) and "dataChecksum" in state:
        state = _object(str(state["data"]), "data")
    policy, default = state.get("policyName"), state.get("defaultCpuSet")
    if not isinstance(policy, str) or not policy:
        raise ReadError("policyName is missing: not a CPU manager state", help=_HINT)
    if not isinstance(default, str):
        raise ReadError("defaultCpuSet is missing: not a CPU manager state", help=_HINT)
    exclusive = union(_cpus(cpus, where) for where, cpus in _assigned(state))
    shared = _cpus(default, "defaultCpuSet") if default or policy != "none" else None
    notes: list[Note] = []
    if shared is not None and (both := shared & exclusive):
        notes.append(
            Note(f"CPU {both} is both exclusive and in the shared pool; the shared pool is unknown")
        )
        shared = None
    return State(clean(policy, _MAX_POLICY), shared, exclusive, tuple(notes))


def _object(text: str, what: str) -> dict[str, object]:
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        raise ReadError(
            f"{what} is not JSON: {error.msg.lower()}", line=error.lineno, help=_HINT
        ) from None
    except (ValueError, RecursionError):
        raise ReadError(f"{what} is not JSON that can be read", help=_HINT) from None
    if not isinstance(found, dict):
        raise ReadError(f"{what} is not a JSON object", help=_HINT)
    return found


def _assigned(state: dict[str, object]) -> Iterator[tuple[str, object]]:
    """Yield where CPUs are assigned, and their list."""
    for owner, entry in _mapping(state, "entries"):
        if not isinstance(entry, dict):  # version 1: a container
            yield f"entries: {shown(owner)}", entry
            continue
        for container, cpus in entry.items():
            yield f"entries: {shown(owner)}: {shown(container)}", cpus
    for pod, entry in _mapping(state, "podEntries"):
        if not isinstance(entry, dict):
            raise ReadError(f"podEntries: {shown(pod)} is not a mapping")
        yield f"podEntries: {shown(pod)}", entry.get("cpuSet", "")


def _mapping(state: dict[str, object], key: str) -> list[tuple[str, object]]:
    entries = state.get(key)
    if entries is None:
        return []
    if not isinstance(entries, dict):
        raise ReadError(f"{key} is not a mapping", help=_HINT)
    return list(entries.items())


def _cpus(cpus: object, where: str) -> CpuSet:
    if not isinstance(cpus, str):
        raise ReadError(f"{where} is not a CPU list")
    try:
        return CpuSet.parse(cpus)
    except CpuListError as error:
        raise ReadError(f"{where}: {clean(str(error))}") from None


def _sniff(text: str) -> bool:
    if not text.lstrip().startswith("{") or '"policyName"' not in text:
        return False
    if '"defaultCpuSet"' not in text and '"machineState"' not in text:
        return False
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        # A damaged one is claimed, so that the reader can say where it is damaged.
        return '"checksum"' in text
    return isinstance(found, dict) and "policyName" in found and "kind" not in found


def _read(text: Text) -> tuple[Partial, ...]:
    state = parse_state(text.text)
    kubelet = Kubelet(
        present=True,
        policy=state.policy,
        exclusive=state.exclusive,
        sharedPool=state.shared_pool,
    )
    return (Partial(reader="kubelet", file=text.name, kubelet=kubelet, notes=state.notes),)


FORMAT: Final = Format("kubelet-cpu-state", "kubelet cpu_manager_state", _sniff, _read)
