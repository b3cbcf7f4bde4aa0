"""The scheduler's classification run in the kernel of this machine, on threads put into packets."""

from __future__ import annotations

import json
import struct
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from compiler.plan import NodePlan
from tests.bpf_eval import Thread, first_match
from tests.bpf_live import Bpftool

ROOT: Final = Path(__file__).resolve().parent.parent
PROGRAM: Final = ROOT / "tests" / "fixtures" / "bpf" / "classify.bpf.c"
NO_POLICY: Final = 0xFFFF


def packet(thread: Thread, cgroup_id: int = 0) -> bytes:
    """Describe a thread for classify.bpf.c; a name too long for its field has no NUL there."""
    names = [name[:64].ljust(64, b"\0") for name in thread.cgroup]
    fields = [
        (name + b"\0" + thread.rubbish)[:16].ljust(16, b"\0")
        for name in (thread.comm, thread.leader)
    ]
    numbers = struct.pack("<IIQ", thread.kernel, len(names), cgroup_id)
    return b"".join((*fields, numbers, *names)).ljust(48 + 12 * 64, b"\0")


def load(bpftool: Bpftool, clang: str, directory: Path) -> None:
    """Compile and load the programs; their maps are pinned as a scheduler's would be."""
    target = directory / "classify.o"
    flags = ["-target", "bpf", "-mcpu=v3", "-O2", "-g", "-Wall", "-Wextra", "-Werror"]
    include = ["-I", str(ROOT / "bpf")]
    subprocess.run([clang, *flags, *include, "-c", PROGRAM, "-o", target], check=True)
    mount = str(bpftool.bpffs)
    done = bpftool.run("prog", "loadall", str(target), f"{mount}/programs", "pinmaps", mount)
    assert done.returncode == 0, done.stdout + done.stderr


def classify(
    bpftool: Bpftool, threads: Sequence[Thread], directory: Path, cgroup_id: int = 0
) -> list[int]:
    """Run the program on threads; return what it returned."""
    directory.mkdir(exist_ok=True)
    lines = []
    for number, thread in enumerate(threads):
        path = directory / str(number)
        path.write_bytes(packet(thread, cgroup_id))
        lines.append(f"prog run pinned {bpftool.bpffs}/programs/classify data_in {path}\n")
    done = subprocess.run(
        [bpftool.program, "-j", "batch", "file", "-"],
        input="".join(lines),
        capture_output=True,
        text=True,
        check=False,
    )
    answers = [row["output"]["retval"] for row in json.loads(done.stdout)]
    assert len(answers) == len(threads)
    return answers


def expected(plan: NodePlan, threads: Sequence[Thread]) -> list[int]:
    """Return what the program must answer: the first rule of the plan that fits each thread."""
    bands = {rule.id: rule.band for rule in plan.rules}
    found = [first_match(plan, thread) for thread in threads]
    return [plan.default_band << 16 if n is None else bands[n] << 16 | n + 1 for n in found]
