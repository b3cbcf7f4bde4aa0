"""A kernel in an emulated machine that counts instructions instead of time.

Its clock advances with the instructions it executes, so figures do not depend on how busy the
machine below is, and a repeated run prints the same.  One changed byte in the guest shifts them:
compare with thresholds, and only within one run.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.lab.initramfs import Entry, directory, file, link, pack
from tests.lab.machine import Machine
from tests.lab.packages import Tools

HERE: Final = Path(__file__).resolve().parent
BPF: Final = HERE.parent.parent / "bpf"

_INIT: Final = """\
#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin LD_LIBRARY_PATH=/lib
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t tmpfs tmp /tmp
mount -t bpf bpf /sys/fs/bpf
mount -t cgroup2 cgroup /sys/fs/cgroup
exec </dev/console >/dev/console 2>&1
speaker
sh /lab/run.sh
echo "LAB ended $?"
poweroff -f
"""

_COMMAND_LINE: Final = (
    "console=ttyS0 quiet loglevel=4 panic=-1 nokaslr norandmaps mitigations=off cryptomgr.notests"
    # Its check of the timer fails where the machine below is busy.
    " no_timer_check"
)


TURN_US: Final = 50
"""The most that one CPU works while the others stand still, of a guest that counts instructions:
payload/speaker.c.  By default it is milliseconds, and a loop that sleeps and wakes loses as much to
that as to other loads."""


class GuestFailed(Exception):
    """A guest did not come to the end of its script; the message holds what it printed last."""


@dataclass(frozen=True)
class Lab:
    """What guests are made of.

    Attributes:
        tools: the unpacked packages.
        common: files that every guest has.
    """

    tools: Tools
    common: Mapping[str, Entry]


def make_lab(tools: Tools, work: Path) -> Lab:
    """Compile the scheduler and the loads, and gather the guest's programs."""
    scheduler = work / "tierc.bpf.o"
    compile_scheduler(tools, BPF / "tierc.bpf.c", scheduler)
    programs = {"busybox": tools.busybox, "bpftool": tools.bpftool}
    for source in sorted((HERE / "payload").glob("*.c")):
        programs[source.stem] = work / source.stem
        compile_load(source, programs[source.stem])
    files = {name: directory() for name in ("proc", "sys", "dev", "tmp", "etc", "run", "var/lib")}
    files["init"] = file(_INIT.encode(), executable=True)
    for name, path in programs.items():
        files[f"bin/{name}"] = file(path.read_bytes(), executable=True)
    listed = subprocess.run(
        ["ldd", tools.bpftool],
        env=tools.environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    for word in listed.stdout.split():
        if word.startswith("/"):
            files[f"lib/{os.path.basename(word)}"] = file(Path(word).read_bytes(), executable=True)
    files["lib64"] = link("lib")
    files["lab/tierc.bpf.o"] = file(scheduler.read_bytes())
    return Lab(tools, files)


def compile_scheduler(tools: Tools, source: Path, target: Path) -> None:
    """Compile the scheduler; a warning is an error."""
    flags = ["-target", "bpf", "-mcpu=v3", "-O2", "-g", "-Wall", "-Wextra", "-Werror"]
    subprocess.run(
        [tools.clang, *flags, "-c", source, "-o", target], env=tools.environment(), check=True
    )


def compile_load(source: Path, target: Path) -> None:
    """Compile a load of the guest; a warning is an error."""
    flags = ["-O2", "-static", "-Wall", "-Wextra", "-Werror"]
    subprocess.run(["gcc", *flags, source, "-o", target], check=True)


def run(
    lab: Lab,
    kernel: Path,
    machine: Machine,
    files: Mapping[str, bytes],
    work: Path,
    *,
    counted: bool | None = None,
    limit_s: float = 900,
) -> str:
    """Boot a guest, run ``run.sh`` among the given files, and return what it printed.

    Files are put below ``/lab``.  ``counted`` overrides what the machine says of its clock.

    Raises:
        GuestFailed: it did not end by itself within the time.
    """
    image = work / "initrd"
    own = {f"lab/{name}": file(data, executable=True) for name, data in files.items()}
    image.write_bytes(pack({**lab.common, **own}))
    # One thread for all CPUs: with several, code that the kernel patches was seen half changed.
    clock = ["-accel", "tcg,thread=single"]
    if machine.counted if counted is None else counted:
        clock = ["-accel", "tcg,thread=single", "-icount", "shift=2,sleep=off"]
        clock += ["-rtc", "base=2026-01-01T00:00:00,clock=vm", "-seed", "1"]
        if machine.cpus > 1 and machine.quick_turns:
            clock += ["-machine", "pcspk-audiodev=sound"]
            clock += ["-audiodev", f"none,id=sound,timer-period={TURN_US}"]
    command: list[str | Path] = [
        "nice", "-n", "5", lab.tools.qemu,
        "-L", lab.tools.root / "usr/share/qemu",
        "-L", lab.tools.root / "usr/share/seabios",
        "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
        "-m", "1024", *(machine.topology or ("-smp", str(machine.cpus))),
        *clock,
        "-cpu", "max,vendor=GenuineIntel,rdrand=off,rdseed=off",
        "-kernel", kernel, "-initrd", image, "-append", _COMMAND_LINE, "-serial", "stdio",
    ]  # fmt: skip
    console = work / "console"
    with console.open("wb") as out:
        try:
            subprocess.run(
                command,
                env=lab.tools.environment(),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                timeout=limit_s,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise GuestFailed(f"no end within {limit_s:.0f} s:\n{_tail(console)}") from error
    text = _text(console)
    if "\nLAB ended 0\n" not in f"\n{text}":
        raise GuestFailed(_tail(console))
    return text


def _text(console: Path) -> str:
    return console.read_bytes().decode("utf-8", "replace").replace("\r", "")


def _tail(console: Path) -> str:
    return "\n".join(_text(console).splitlines()[-30:])
