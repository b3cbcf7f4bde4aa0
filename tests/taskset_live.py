"""Running the emitted scripts: shells, real workers, and a pretended /proc."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

_WORKER = r"""
import ctypes, os, sys, threading
libc = ctypes.CDLL(None)
def name(text):
    libc.prctl(15, os.fsencode(text), 0, 0, 0)  # PR_SET_NAME
started = threading.Semaphore(0)
gate = threading.Event()
def run(text):
    name(text)
    started.release()
    gate.wait()
for text in sys.argv[2:]:
    threading.Thread(target=run, args=(text,), daemon=True).start()
    started.acquire()
name(sys.argv[1])
print("ready", flush=True)
children = []
for line in sys.stdin:
    verb, _, text = line.rstrip("\n").partition(" ")
    if verb == "name":
        name(text)
    elif verb == "thread":
        threading.Thread(target=run, args=(text,), daemon=True).start()
        started.acquire()
    elif verb == "child":
        pid = os.fork()
        if pid == 0:
            name(text)
            os.write(1, b"%d\n" % os.getpid())
            libc.pause()
            os._exit(0)
        children.append(pid)
        continue
    print("ready", flush=True)
for pid in children:
    os.kill(pid, 9)
os._exit(0)
"""


class Worker:
    """A real process with given thread names; the first is the name of its leader."""

    def __init__(self, *names: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", _WORKER, *names],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            errors="surrogateescape",
        )
        assert self._answer() == "ready"

    def _answer(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def ask(self, verb: str, text: str) -> str:
        """Do ``name``, ``thread`` or ``child``; return the answer (a child's pid)."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{verb} {text}\n")
        self.process.stdin.flush()
        return self._answer()

    @property
    def pid(self) -> int:
        return self.process.pid

    def tids(self) -> list[int]:
        return sorted(int(t) for t in os.listdir(f"/proc/{self.pid}/task"))

    def masks(self) -> dict[str, str]:
        """Return Cpus_allowed_list by thread name."""
        return {comm(tid): allowed(tid) for tid in self.tids()}

    def stop(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


@contextmanager
def worker(*names: str) -> Iterator[Worker]:
    """Run a :class:`Worker` for the time of a block."""
    one = Worker(*names)
    try:
        yield one
    finally:
        one.stop()


def comm(tid: int) -> str:
    data = Path(f"/proc/{tid}/comm").read_bytes()
    return os.fsdecode(data[:-1])


def allowed(tid: int) -> str:
    """Return what the kernel says a thread may use."""
    text = Path(f"/proc/{tid}/status").read_text(errors="replace")
    return next(
        line.split(":", 1)[1].strip() for line in text.splitlines() if "Cpus_allowed_list:" in line
    )


def until(condition: Callable[[], bool], seconds: float = 60) -> bool:
    """Wait for a condition; tell whether it came true."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


@dataclass
class Shell:
    """A way to run the scripts."""

    argv: Sequence[str]
    path: str
    etc: Path
    state: Path
    env: dict[str, str] = field(default_factory=dict)

    def environ(self, shims: Path | None = None) -> Mapping[str, str]:
        path = f"{shims}:{self.path}" if shims else self.path
        # What a killed script leaves in TMPDIR goes with the test.
        more = {"TIERC_ETC": str(self.etc), "TMPDIR": str(self.state.parent)}
        return {"PATH": path, **more, **self.env}

    def run(
        self, script: Path, *options: str, shims: Path | None = None, **env: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a script to its end with this shell's state directory."""
        return subprocess.run(
            [*self.argv, str(script), "--state", str(self.state), *options],
            env={**self.environ(shims), **env},
            capture_output=True,
            text=True,
            errors="surrogateescape",
            check=False,
        )

    @contextmanager
    def watch(self, script: Path, *options: str) -> Iterator[subprocess.Popen[bytes]]:
        """Run ``apply.sh --watch 1`` for the time of a block."""
        process = subprocess.Popen(
            [*self.argv, str(script), "--state", str(self.state), "--watch", "1", *options],
            env=self.environ(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            yield process
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                process.wait(60)

    @property
    def record(self) -> Path:
        return self.state / "state"


def shim(directory: Path, name: str, body: str) -> Path:
    """Put a script in front of a program; return the directory for PATH."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / name
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return directory


def make_shell(kind: str, tool: Callable[[str], str], tmp: Path) -> Shell:
    """Return ``dash``, or ``busybox`` with nothing but its applets in PATH."""
    if kind == "dash":
        tool("taskset")
        argv, path = [tool("dash")], os.environ.get("PATH", os.defpath)
    else:
        applets = tmp / "applets"
        applets.mkdir()
        subprocess.run([tool("busybox"), "--install", "-s", str(applets)], check=True)
        argv, path = [tool("busybox"), "sh"], str(applets)
    if os.geteuid() != 0:
        # Without privilege one may still set what is one's own, and the workers are.
        path = f"{shim(tmp / 'root', 'id', 'echo 0')}:{path}"
    return Shell(argv, path, tmp / "etc", tmp / "state")


@dataclass
class FakeProc:
    """A pretended /proc (and /sys, and control groups) of plain files."""

    root: Path

    @property
    def env(self) -> dict[str, str]:
        return {
            "TIERC_PROC": str(self.root / "proc"),
            "TIERC_SYS": str(self.root / "sys"),
            "TIERC_CGROUP": str(self.root / "cgroup"),
            "TIERC_ARCH": "x86_64",
        }

    def cpus(self, online: str, possible: str | None = None, **cores: str) -> None:
        """Write the CPU part of /sys: ``core0="0,4"``..., one last-level cache for all."""
        base = self.root / "sys/devices/system/cpu"
        base.mkdir(parents=True, exist_ok=True)
        (base / "online").write_text(online + "\n")
        (base / "possible").write_text((possible or online) + "\n")

    def cpu(self, cpu: int, **files: str) -> None:
        """Write files of one CPU: keys with ``__`` for ``/``."""
        for name, text in files.items():
            path = self.root / f"sys/devices/system/cpu/cpu{cpu}" / name.replace("__", "/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text + "\n")

    def thread(
        self,
        pid: int,
        name: str,
        *,
        tid: int | None = None,
        ppid: int = 1,
        flags: int = 0x400000,
        start: int = 100,
        policy: int = 0,
        allowed: str = "0-3",
        cpuset: str | None = None,
        cmdline: bytes | None = None,
    ) -> None:
        """Write one thread; the leader also gives the process its files."""
        tid = tid or pid
        data = os.fsencode(name)
        fields = ["S", ppid, 0, 0, 0, -1, flags, *[0] * 12, start, *[0] * 18, policy, 0]
        stat = b"%d (%s) %s\n" % (tid, data, " ".join(map(str, fields)).encode())
        directory = self.root / f"proc/{pid}/task/{tid}"
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "comm").write_bytes(data + b"\n")
        (directory / "stat").write_bytes(stat)
        (directory / "status").write_text(f"Name:\tx\nCpus_allowed_list:\t{allowed}\n")
        if cpuset is not None:
            (directory / "cpuset").write_text(cpuset + "\n")
        if tid == pid:
            process = self.root / f"proc/{pid}"
            (process / "comm").write_bytes(data + b"\n")
            (process / "stat").write_bytes(stat)
            if cmdline is not None:
                (process / "cmdline").write_bytes(cmdline)

    def cgroup(self, path: str, *pids: int, tree: str = "") -> None:
        """Write a control group with its processes."""
        directory = self.root / "cgroup" / tree / path
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "cgroup.procs").write_text("".join(f"{pid}\n" for pid in pids))

    def allowed(self, pid: int, tid: int | None = None) -> str:
        path = self.root / f"proc/{pid}/task/{tid or pid}/status"
        seen = ""

        def is_whole() -> bool:  # a pretended taskset may be writing it just now
            nonlocal seen
            seen = path.read_text()
            return seen.endswith("\n")

        assert until(is_whole)
        return seen.rsplit("\t", 1)[1].strip()

    def taskset(self, directory: Path, before: str = "") -> Path:
        """Return a directory with an ``id`` and a ``taskset`` that works on these files."""
        shim(directory, "id", "echo 0")
        return shim(
            directory,
            "taskset",
            f'{before}\nfor f in "{self.root}/proc"/*/task/"$3"/status; do\n'
            '  [ -e "$f" ] || exit 1\n'
            '  printf "Name:\\tx\\nCpus_allowed_list:\\t%s\\n" "$2" >"$f"\ndone',
        )
