"""A machine for load.sh and unload.sh: real maps; only attaching is played by a stand-in.

The kernel of this machine need not have sched_ext: a wrapper around bpftool answers ``struct_ops
register`` by writing what sysfs would say.  Attaching for real is the lab's (tests/lab).
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from compiler.plan import NodePlan
from targets.bpf import TARGET
from targets.bpf.layout import pack_abi
from tests.bpf_classify import classify, load
from tests.bpf_eval import Thread
from tests.bpf_live import Bpftool, private_bpffs
from tests.bpf_plans import EFFECTIVE, plan, rule
from tests.signals import default_signals

SHELLS = ("dash", "busybox")
OTHER = plan([rule(0, 3, comm="other*"), rule(1, 2, cgroup="z/**")])
THREADS = (Thread(b"VLLM::EngineCor"), Thread(b"other"), Thread(b"bash"))


def emit(a_plan: NodePlan, directory: Path) -> Path:
    for artifact in TARGET.emit(a_plan):
        path = directory / artifact.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(artifact.data)
    return directory / "bpf"


def make_sysfs(root: Path) -> None:
    """Write the CPUs of the plans of tests.bpf_plans, and a kernel that takes schedulers."""
    files = {
        "devices/system/cpu/online": f"{EFFECTIVE}\n",
        "kernel/sched_ext/state": "disabled\n",
        "kernel/btf/vmlinux": "x",
    }
    for cpu in EFFECTIVE:
        base = f"devices/system/cpu/cpu{cpu}"
        files[f"{base}/topology/core_cpus_list"] = f"{cpu}\n"
        files[f"{base}/cache/index0/level"] = "3\n"
        files[f"{base}/cache/index0/type"] = "Unified\n"
        files[f"{base}/cache/index0/shared_cpu_list"] = f"{EFFECTIVE}\n"
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


def make_tools(busybox: str, root: Path) -> None:
    """Make what comes first in PATH: with busybox all its applets, with dash Debian's awk."""
    for shell in SHELLS:
        (root / shell).mkdir()
    listed = subprocess.run([busybox, "--list"], capture_output=True, text=True, check=True)
    for name in listed.stdout.split():
        (root / "busybox" / name).symlink_to(busybox)
    if (mawk := shutil.which("mawk")) is not None:
        (root / "dash" / "awk").symlink_to(mawk)


WRAPPER = """\
#!/bin/sh
loader=$(cut -d ' ' -f 1 '{root}/state/lock' 2>/dev/null)
echo "$*" >>'{root}/all-calls'
n=$(wc -l <'{root}/all-calls')
[ ! -e '{root}/hook' ] || . '{root}/hook'
case "$1 $2" in
"struct_ops register")
  echo register >>'{root}/calls'
  [ -e '{root}/broken' ] && exit 0
  mkdir -p '{sys}/kernel/sched_ext/root'
  echo tierc >'{sys}/kernel/sched_ext/root/ops'
  echo enabled >'{sys}/kernel/sched_ext/state'
  exit 0
  ;;
esac
echo "$*" >>'{root}/bpftool-calls'
if [ -e '{root}/die' ] && [ "$1 $2" = "-j batch" ] && cat >'{root}/batch' &&
  grep -q 'value pinned' '{root}/batch'; then
  head -n 4 '{root}/batch' | '{bpftool}' "$@"
  kill -9 "$(cut -d ' ' -f 1 '{root}/state/lock')"
elif [ -e '{root}/die' ]; then
  '{bpftool}' "$@" <'{root}/batch'
elif [ -e '{root}/damage' ]; then
  '{sed}' -f '{root}/damage' | '{bpftool}' "$@"
else
  exec '{bpftool}' "$@"
fi
"""


def found(program: str) -> str:
    """Return where a program is."""
    path = shutil.which(program)
    assert path is not None, program
    return path


@dataclass
class Node:
    """A machine to load on."""

    root: Path
    bpftool: Bpftool

    @property
    def program(self) -> str:
        """The real bpftool."""
        return found(self.bpftool.program)

    def hook(self, text: str) -> None:
        """Have shell code run before each bpftool: the call is number $n, its words are in $@, and
        $loader is the script that holds the lock.  Without text, no longer."""
        (self.root / "all-calls").unlink(missing_ok=True)
        (self.root / "hook").write_text(text + "\n")

    def note(self, name: str) -> str | None:
        """Return a file of the scripts' state, if it is there."""
        path = self.root / "state" / name
        return path.read_text() if path.exists() else None

    def command(self, name: str, text: str) -> None:
        """Put a script before what is in PATH."""
        path = self.root / "bin" / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)

    @property
    def sys(self) -> Path:
        return self.root / "sys"

    def run(
        self,
        script: Path,
        *options: str,
        shell: str = "dash",
        code: int = 0,
        proc: str = "/proc",
        path: str = "",
    ) -> str:
        """Run a script; return all it said.  ``path`` is all that programs are taken from."""
        environment = os.environ | {
            "TIERC_SYS": str(self.sys),
            "TIERC_PROC": proc,
            "TIERC_ETC": str(self.root / "etc"),
            "TIERC_BPFFS": str(self.bpftool.bpffs),
            "TIERC_ARCH": "x86_64",
            "TIERC_OBJECT": str(self.root / "object"),
            "PATH": path or f"{self.root / 'bin'}:{self.root / shell}:{os.environ['PATH']}",
        }
        command = {"dash": ["dash"], "busybox": ["busybox", "sh"]}[shell]
        command[0] = found(command[0])
        output = self.root / "said"
        with output.open("wb") as file:  # not a pipe: what a killed script leaves may hold it open
            done = subprocess.run(
                [*command, str(script), "--state", str(self.root / "state"), *options],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                check=False,
                preexec_fn=default_signals,
            )
        said = output.read_text()
        assert done.returncode == code, said
        return said

    def calls(self) -> int:
        """Return how often bpftool was started since this was last asked."""
        log = self.root / "bpftool-calls"
        count = len(log.read_text().splitlines()) if log.exists() else 0
        log.unlink(missing_ok=True)
        return count

    def answers(self) -> list[int]:
        return classify(self.bpftool, THREADS, self.root / "packets")

    def set_state(self, state: str, ops: str = "tierc") -> None:
        (self.sys / "kernel/sched_ext/state").write_text(f"{state}\n")
        (self.sys / "kernel/sched_ext/root").mkdir(exist_ok=True)
        (self.sys / "kernel/sched_ext/root/ops").write_text(f"{ops}\n")


@contextmanager
def make_node(tool: Callable[[str], str], tmp_path: Path) -> Iterator[Node]:
    """Make a machine whose kernel takes schedulers, with the maps that the scheduler would make.

    ``tool`` is the fixture of that name.
    """
    for name in SHELLS:
        tool(name)
    with private_bpffs(tool, tmp_path / "bpffs") as mount:
        bpftool = Bpftool(mount, tool("bpftool"))
        load(bpftool, tool("clang"), tmp_path)
        one = Node(tmp_path, bpftool)
        make_sysfs(one.sys)
        (tmp_path / "bin").mkdir()
        make_tools(tool("busybox"), tmp_path)
        wrapper = tmp_path / "bin" / "bpftool"
        wrapper.write_text(
            WRAPPER.format(root=tmp_path, sys=one.sys, bpftool=one.program, sed=tool("sed"))
        )
        wrapper.chmod(0o755)
        (tmp_path / "object").write_text("an object")
        abi = pack_abi().hex(" ").split()
        update = f"map update pinned {mount}/tierc_abi key hex 00 00 00 00 value hex"
        bpftool.json(*update.split(), *abi)
        yield one
