"""Trees of /sys for the fingerprint, and what the emitted scripts print of one."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from compiler.cpuset import CpuSet
from compiler.facts.collect import collect
from compiler.facts.fingerprint import facts_device_text, facts_fingerprint_text
from compiler.fingerprint import cpu_text
from compiler.model.facts import NodeFacts
from compiler.plan import Machine
from compiler.topology import topology_of
from tests.taskset_live import Shell
from tests.taskset_plans import plan, this_machine, write_scripts


def printed(shell: Shell, option: str, sys: Path, tmp: Path, on: Machine) -> str:
    """Return what ``apply.sh`` for a planned machine prints of a /sys tree."""
    script = write_scripts(plan([], on=on, bands=[(str(on.online), 1)]), tmp / "node") / "apply.sh"
    done = subprocess.run(
        [*shell.argv, str(script), option],
        env={**shell.environ(), "TIERC_SYS": str(sys), "TIERC_ARCH": on.arch or "some"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    return done.stdout


def live_text(shell: Shell, sys: Path, tmp: Path, arch: str = "x86_64") -> str:
    """Return what ``apply.sh --fingerprint`` prints for a plan that knows all of it."""
    on = this_machine().model_copy(update={"arch": arch})
    assert on.llcs
    return printed(shell, "--fingerprint", sys, tmp, on)


def machine_of(facts: NodeFacts) -> Machine:
    """Return the machine of a plan that is made from these facts."""
    seen = topology_of(facts)
    return Machine(
        arch=seen.arch,
        online=seen.online,
        effective=seen.online,
        isolated=CpuSet(),
        cores=tuple(core.siblings for core in seen.cores),
        llcs=seen.llcs,
        gpus=seen.gpus,
        nics=seen.nics,
    )


def hex_mask(cpus: Iterable[int]) -> str:
    value = sum(1 << cpu for cpu in set(cpus))
    words = []
    while value or not words:
        words.append(f"{value & 0xFFFFFFFF:08x}")
        value >>= 32
    return ",".join(reversed(words))


def cpu_list(cpus: Iterable[int]) -> str:
    """Write a list without ranges: the kernel's form is only one of several."""
    return ",".join(map(str, sorted(set(cpus))))


Caches = Mapping[tuple[int, str], list[list[int]]]


def write_sys(
    root: Path,
    online: str | None,
    cores: list[list[int]],
    caches: Caches,
    *,
    names: tuple[str, str] = ("core_cpus_list", "shared_cpu_list"),
    write: Callable[[Iterable[int]], str] = cpu_list,
) -> Path:
    """Write /sys/devices/system/cpu: caches by (level, type) as the sets that share one."""
    base = root / "devices/system/cpu"
    base.mkdir(parents=True)
    if online is not None:
        (base / "online").write_text(online + "\n")
    for core in cores:
        for cpu in core:
            topology = base / f"cpu{cpu}/topology"
            topology.mkdir(parents=True)
            (topology / names[0]).write_text(write(core) + "\n")
            (topology / "core_id").write_text("0\n")
    for index, ((level, kind), sets) in enumerate(caches.items()):
        for shared in sets:
            for cpu in shared:
                cache = base / f"cpu{cpu}/cache/index{index}"
                cache.mkdir(parents=True)
                (cache / "level").write_text(f"{level}\n")
                (cache / "type").write_text(f"{kind}\n")
                (cache / names[1]).write_text(write(shared) + "\n")
    (base / "cpufreq").mkdir()
    return root


def pairs(first: range, second: range) -> list[list[int]]:
    return [[a, b] for a, b in zip(first, second, strict=True)]


def text(online: str, cores: Iterable[Iterable[int]], llcs: Iterable[Iterable[int]]) -> str:
    return cpu_text("x86_64", CpuSet.parse(online), map(CpuSet, cores), map(CpuSet, llcs))


def both_ways(shell: Shell, root: Path, tmp: Path) -> tuple[str, str]:
    """Collect a tree, compare sh with Python in both parts, and return the texts."""
    facts = collect(root, name="node", live=False)
    on = machine_of(facts)
    cpus, devices = facts_fingerprint_text(facts), facts_device_text(facts)
    assert printed(shell, "--fingerprint", root / "sys", tmp, on) == cpus
    assert printed(shell, "--devices", root / "sys", tmp, on) == devices
    return cpus, devices
