"""A pretended node for ``tierc verify``: its files below one root, and its compiled plan."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compiler.artifact import canonical_json
from compiler.cpuset import CpuSet
from compiler.facts.collect import collect
from compiler.plan import DeviceIrqs, Machine, NodePlan, Rule
from compiler.verify import Finding, Row, Verification, load_node_dir, verify
from targets.bpf import TARGET as BPF
from targets.taskset import TARGET as TASKSET
from tests.taskset_plans import plan
from tests.taskset_sys import machine_of, write_sys

KERNEL = 0x200000  # PF_KTHREAD
BOUND = 0x04000000  # PF_NO_SETAFFINITY
BANDS = [("0", 1), ("2-3", 2), ("0-3", 1)]
"""The lane's CPU, two others of which both are wanted, and all."""
LANE, OTHERS, EVERY = 0, 1, 2
CORES = [[0], [1], [2], [3]]
BOOT = "6f1c0a52-0000-4000-8000-000000000001"


@dataclass
class Node:
    """A machine of four cores without threads; everything is added by the test."""

    tmp: Path

    def __post_init__(self) -> None:
        self.root = self.tmp / "root"
        self.pids: set[int] = set()
        self.grouped: set[int] = set()
        write_sys(self.root / "sys", "0-3", CORES, {(3, "Unified"): [[0, 1, 2, 3]]})
        self.write("proc/sys/kernel/random/boot_id", BOOT + "\n")
        self.write("sys/fs/cgroup/cgroup.controllers", "cpuset cpu\n")
        self.cgroup("")

    def write(self, path: str, text: str) -> Path:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    # --- the machine ---------------------------------------------------------------------------

    def thread(
        self,
        pid: int,
        name: str | bytes,
        *,
        tid: int | None = None,
        allowed: str = "0-3",
        flags: int = 0x400000,
        state: str = "S",
        ticks: int = 0,
        cpu: int = 0,
        policy: int = 0,
        cpuset: str = "/",
        cmdline: bytes = b"",
        start: int = 100,
    ) -> None:
        """Write one thread as the kernel shows it; the leader also gives its process files."""
        tid = tid or pid
        data = name if isinstance(name, bytes) else os.fsencode(name)
        fields: list[object] = [state, 1, 0, 0, 0, -1, flags, 0, 0, 0, 0]
        fields += [ticks - ticks // 3, ticks // 3, 0, 0]
        fields += [20, 0, 1, 0, start, *[0] * 16, cpu, 0, policy, 0]
        stat = b"%d (%s) %s\n" % (tid, data, " ".join(map(str, fields)).encode())
        directory = self.root / f"proc/{pid}/task/{tid}"
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "comm").write_bytes(data + b"\n")
        (directory / "stat").write_bytes(stat)
        shown = data.replace(b"\\", b"\\\\").replace(b"\n", b"\\n")  # as the kernel escapes it
        (directory / "status").write_bytes(
            b"Name:\t%s\nState:\t%s\nCpus_allowed:\tf\nCpus_allowed_list:\t%s\nMems_allowed:\t1\n"
            % (shown, state.encode(), allowed.encode())
        )
        (directory / "cpuset").write_text(cpuset + "\n")
        self.pids.add(pid)
        if tid == pid:
            process = self.root / f"proc/{pid}"
            (process / "comm").write_bytes(data + b"\n")
            (process / "stat").write_bytes(stat)
            (process / "cmdline").write_bytes(cmdline)
            if not flags & KERNEL:
                (process / "exe").symlink_to("/bin/true")

    def cgroup(self, path: str, *pids: int, cpus: str | None = None) -> None:
        """Write a control group with its processes; those in none are in the root."""
        self.grouped |= set(pids) if path else set()
        directory = self.root / "sys/fs/cgroup" / path
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "cgroup.procs").write_text("".join(f"{pid}\n" for pid in pids))
        if cpus is not None:
            (directory / "cpuset.cpus.effective").write_text(cpus + "\n")

    def irq(
        self, number: int, device: str, affinity: str, *, action: str = "eth0", mode: int = 0o644
    ) -> None:
        """Write an MSI interrupt of a device."""
        self.write(f"sys/bus/pci/devices/{device}/msi_irqs/{number}", "msix\n")
        self.affinity(number, affinity, action=action, mode=mode)

    def affinity(
        self, number: int, affinity: str, *, action: str = "eth0", mode: int = 0o644
    ) -> None:
        """Write where an interrupt may go, and its line in /proc/interrupts."""
        self.write(f"proc/irq/{number}/smp_affinity_list", affinity + "\n").chmod(mode)
        table = self.root / "proc/interrupts"
        if not table.exists():
            table.write_text("           CPU0       CPU1       CPU2       CPU3\n")
        with table.open("a") as stream:
            stream.write(f"{number:4}:   0   12   0   7   PCI-MSI   {number}-edge   {action}\n")

    def disable(self) -> None:
        self.write("etc/tierc/disabled", "")

    def state(self, target: str, *lines: str, boot: str = BOOT) -> None:
        header = f"tierc-{target}-state-1 {boot}\n"
        self.write(f"var/lib/tierc/{target}/state", header + "".join(f"{x}\n" for x in lines))

    def machine(self) -> Machine:
        return machine_of(collect(self.root, name="node", live=False)).model_copy(
            update={"arch": "x86_64"}
        )

    # --- the plan ------------------------------------------------------------------------------

    def plan(self, *rules: Rule, **more: Any) -> NodePlan:
        change = more.pop("change", {})
        one = plan(rules, **{"on": self.machine(), "bands": BANDS, **more})
        return one.model_copy(update=change)

    def build(self, one: NodePlan, targets: Sequence[str] = ("taskset",)) -> Path:
        """Write the directory of the node as ``tierc build`` does, and finish the machine."""
        for tree in ("", "unified", "systemd"):
            if (self.root / "sys/fs/cgroup" / tree / "cgroup.procs").exists():
                rest = "".join(f"{pid}\n" for pid in sorted(self.pids - self.grouped))
                self.write(f"sys/fs/cgroup/{tree}/cgroup.procs", rest)
        directory = self.tmp / "node"
        files = {"plan.json": canonical_json(one.data())}
        for target in (TASKSET, BPF):
            if target.name in targets:
                files |= {file.path: file.data for file in target.emit(one)}
        for name in set(targets) - {"taskset", "bpf"}:
            files[f"{name}/apply.sh"] = b"#!/bin/sh\n"
        for path, data in files.items():
            (directory / path).parent.mkdir(parents=True, exist_ok=True)
            (directory / path).write_bytes(data)
        return directory

    def verify(
        self, *rules: Rule, targets: Sequence[str] = ("taskset",), **more: Any
    ) -> Verification:
        directory = self.build(self.plan(*rules, **more), targets)
        return verify(load_node_dir(directory), self.root)


def kinds(result: Verification) -> dict[int, str]:
    """Return how each thread that differs does, by thread id."""
    return {row.tid: row.kind for row in result.rows}


def row(result: Verification, tid: int) -> Row:
    return next(one for one in result.rows if one.tid == tid)


def found(result: Verification, code: str) -> list[Finding]:
    return [one for one in result.findings if one.code.id == code]


def only(result: Verification, code: str) -> Finding:
    (one,) = found(result, code)
    return one


def codes(result: Verification) -> set[str]:
    return {one.code.id for one in result.findings}


def irqs(device: str, cpus: str | None, kind: Any = "nic") -> DeviceIrqs:
    """Return where a plan puts the interrupts of a device; None: they are left."""
    return DeviceIrqs(
        device=device,
        kind=kind,
        where="leave" if cpus is None else "lane",
        cpus=None if cpus is None else CpuSet.parse(cpus),
        why="unclaimed" if cpus is None else "written",
    )


def edit(directory: Path, file: str, change: Callable[[Any], Any]) -> None:
    """Change a JSON file of a node's directory."""
    path = directory / file
    data = json.loads(path.read_bytes())
    path.write_bytes(canonical_json(change(data) or data))
