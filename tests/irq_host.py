"""Plans with interrupts to place, and a pretended machine whose devices have some."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from compiler.cpuset import CpuSet
from compiler.plan import DeviceIrqs, LeftOut, Mode, NodePlan
from targets.irq import TARGET
from tests.taskset_host import FOUR
from tests.taskset_live import FakeProc, Shell, make_shell, shim
from tests.taskset_plans import plan

GPU, NIC = "0000:01:00.0", "0000:02:00.0"


def place(
    device: str,
    cpus: str | None,
    *,
    kind: str = "gpu",
    where: str = "lane",
    lanes: Sequence[str] = ("serving",),
    intents: Sequence[str] = ("chat",),
    why: str = "default",
) -> DeviceIrqs:
    """Return a row of a plan; without CPUs one that leaves the device alone."""
    return DeviceIrqs(
        device=device,
        kind=kind,  # type: ignore[arg-type]
        where=where if cpus is not None else "leave",  # type: ignore[arg-type]
        cpus=None if cpus is None else CpuSet.parse(cpus),
        lanes=tuple(lanes) if cpus is not None and where == "lane" else (),
        intents=tuple(intents),
        why=why,  # type: ignore[arg-type]
    )


def irq_plan(
    *rows: DeviceIrqs, mode: Mode = "fallback", left_out: Sequence[LeftOut] = (), **more: object
) -> NodePlan:
    """Return a plan of a machine with CPUs 0 to 3, whose lane "serving" has CPU 0."""
    base = plan([], on=FOUR, bands=[("0", 1), ("0-3", 1)], mode=mode)
    left = {"irq": tuple(left_out)} if left_out else {}
    return base.model_copy(update={"irqs": rows, "left_out": left, **more})


def files(one: NodePlan) -> dict[str, str]:
    """Return what the target emits, as text by path."""
    return {artifact.path: artifact.data.decode() for artifact in TARGET.emit(one)}


class IrqHost:
    """A pretended machine of four cores, with interrupts, and a shell on it."""

    def __init__(self, kind: str, tool: Callable[[str], str], tmp: Path) -> None:
        self.fake = FakeProc(tmp / "host")
        self.fake.cpus("0-3")
        self.proc = self.fake.root / "proc"
        self.pci = self.fake.root / "sys/bus/pci/devices"
        (self.proc / "irq").mkdir(parents=True)
        self.pci.mkdir(parents=True)
        self.shell: Shell = make_shell(kind, tool, tmp)
        self.shell.env.update(self.fake.env)
        self.shims = shim(tmp / "shims", "id", "echo 0")
        self.tmp = tmp
        self._lines: dict[int, str] = {}
        self._write_interrupts()

    def device(self, bdf: str, *msi: int, irq: int | None = None, **names: str) -> None:
        """Write a PCI device; names are directories below it, such as ``net="eth0"``."""
        where = self.pci / bdf
        where.mkdir(exist_ok=True)
        if msi:
            (where / "msi_irqs").mkdir(exist_ok=True)
            for old in (where / "msi_irqs").iterdir():
                old.unlink()
            for number in msi:
                (where / "msi_irqs" / str(number)).write_text("msix\n")
        if irq is not None:
            (where / "irq").write_text(f"{irq}\n")
        for kind, name in names.items():
            path = where / (name if kind == "virtio" else f"{kind}/{name}")
            path.mkdir(parents=True, exist_ok=True)

    def irq(self, number: int, text: str | None, cpus: str = "0-3", on: str | None = None) -> Path:
        """Write an interrupt: what /proc/interrupts says of it (None: nothing) and its CPUs."""
        where = self.proc / f"irq/{number}"
        where.mkdir(exist_ok=True)
        (where / "smp_affinity_list").write_text(cpus + "\n")
        if on is not None:
            (where / "effective_affinity_list").write_text(on + "\n")
        self._lines.pop(number, None)
        if text is not None:
            self._lines[number] = text
        self._write_interrupts()
        return where / "smp_affinity_list"

    def gone(self, number: int) -> None:
        """Take an interrupt away."""
        for file in (self.proc / f"irq/{number}").iterdir():
            file.unlink()
        (self.proc / f"irq/{number}").rmdir()
        self._lines.pop(number, None)
        self._write_interrupts()

    def cpus(self, number: int) -> str:
        return (self.proc / f"irq/{number}/smp_affinity_list").read_text().strip()

    def all(self) -> Mapping[int, str]:
        numbers = (int(path.name) for path in (self.proc / "irq").iterdir())
        return {number: self.cpus(number) for number in sorted(numbers)}

    def process(self, pid: int, name: str, *argv: str) -> Path:
        """Write a process."""
        where = self.proc / str(pid)
        where.mkdir()
        (where / "comm").write_text(name + "\n")
        (where / "cmdline").write_bytes(b"".join(arg.encode() + b"\0" for arg in argv))
        return where

    def script(self, one: NodePlan) -> Path:
        where = self.tmp / "node"
        for artifact in TARGET.emit(one):
            path = where / artifact.path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(artifact.data)
            path.chmod(artifact.mode)
        return where / "irq"

    def run(self, script: Path, *options: str) -> subprocess.CompletedProcess[str]:
        return self.shell.run(script, *options, shims=self.shims)

    def apply(self, *rows: DeviceIrqs, code: int = 0, options: Sequence[str] = ()) -> str:
        done = self.run(self.script(irq_plan(*rows)) / "apply.sh", *options)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    def revert(self, *options: str, code: int = 0) -> str:
        done = self.run(self.script(irq_plan()) / "revert.sh", *options)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    def record(self) -> list[str]:
        path = self.shell.record
        return path.read_text().splitlines()[1:] if path.exists() else []

    def _write_interrupts(self) -> None:
        rows = ["           CPU0       CPU1       CPU2       CPU3       "]
        for number, text in sorted(self._lines.items()):
            rows.append(f"{number:3d}:          1          0          7          0 {text}")
        rows += [
            "NMI:          0          0          0          0   Non-maskable interrupts",
            "ERR:          0",
        ]
        (self.proc / "interrupts").write_text("\n".join(rows) + "\n")
