"""The irq scripts on this machine.  Only a dry run, and writes that the kernel refuses."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from compiler.cpuset import CpuSet
from compiler.plan import DeviceIrqs
from tests.irq_host import GPU, IrqHost, files, irq_plan, place
from tests.taskset_live import Shell, make_shell
from tests.taskset_plans import plan, this_machine

IRQS = Path("/proc/irq")
DEVICES = Path("/sys/bus/pci/devices")


def affinities() -> dict[str, str]:
    return {path.parent.name: path.read_text() for path in IRQS.glob("*/smp_affinity_list")}


def with_messages() -> list[str]:
    """Return devices with interrupts, as sysfs has them."""
    return sorted(path.parent.name for path in DEVICES.glob("*/msi_irqs"))


def refused() -> Iterator[Path]:
    """Yield the files of interrupts the kernel places itself: read-only, even for root."""
    for path in sorted(IRQS.glob("*/smp_affinity_list")):
        if not path.stat().st_mode & 0o200:
            yield path


@pytest.fixture(params=["dash", "busybox"])
def shell(request: pytest.FixtureRequest, tool: Callable[[str], str], tmp_path: Path) -> Shell:
    return make_shell(request.param, tool, tmp_path)


@pytest.mark.skipif(not with_messages(), reason="no PCI device with interrupts")
def test_a_dry_run_finds_the_interrupts_that_sysfs_has(shell: Shell, tmp_path: Path) -> None:
    machine = this_machine()
    one = CpuSet([machine.online.highest])
    rows = tuple(
        DeviceIrqs(
            device=bdf, kind="nic", where="lane", cpus=one, lanes=("serving",), why="default"
        )
        for bdf in with_messages()
    )
    script = tmp_path / "apply.sh"
    script.write_text(files(plan([]).model_copy(update={"irqs": rows}))["irq/apply.sh"])
    before = affinities()
    done = shell.run(script, "--dry-run")
    assert affinities() == before
    assert done.returncode == 0, done.stderr
    expected = 0
    for bdf in with_messages():
        numbers = [path.name for path in (DEVICES / bdf / "msi_irqs").iterdir()]
        there = [n for n in numbers if n in before]
        assert f"{bdf} (nic, lane:serving, CPUs {one}): {len(there)} interrupts" in done.stdout
        expected += len(there)
        for number in there:
            text = before[number].strip()
            moved = f"would set {number} " in done.stdout
            left = f"interrupt {number} " in done.stderr
            assert moved + left == (CpuSet.parse(text) != one)
    assert f"nothing was touched: {expected} interrupts" in done.stdout


@pytest.mark.skipif(os.geteuid() != 0 or not list(refused()), reason="needs root and such an IRQ")
@pytest.mark.parametrize("kind", ["dash", "busybox"])
def test_what_this_kernel_refuses_is_a_report(
    kind: str, tool: Callable[[str], str], tmp_path: Path
) -> None:
    """The pretended interrupt's file leads to a real one, whose write fails and changes nothing."""
    real = next(refused())
    before = real.read_text()
    host = IrqHost(kind, tool, tmp_path)
    # Other CPUs than it has, of those there are here.
    spare = CpuSet(range(4)) - CpuSet.parse(before.strip())
    want = str(spare) if spare else str(CpuSet([CpuSet.parse(before.strip()).lowest]))
    fake = host.irq(40, "PCI-MSIX-0000:01:00.0 0-edge virtio0-req.0")
    host.device(GPU, 40)
    fake.unlink()
    fake.symlink_to(real)
    if CpuSet.parse(want) == CpuSet.parse(before.strip()):
        pytest.skip("it has one CPU, and there is no other")
    done = host.run(host.script(irq_plan(place(GPU, want))) / "apply.sh")
    assert done.returncode == 0, done.stderr
    assert "left to the kernel, which places it itself: interrupt 40" in done.stderr
    assert "1 left to the kernel, 0 skipped, 0 restored, 0 failed" in done.stdout
    assert host.record() == []
    assert real.read_text() == before
