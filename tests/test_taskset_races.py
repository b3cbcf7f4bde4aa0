"""The taskset scripts where the kernel says no, ids change hands, and from inside a container."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.taskset_host import Host
from tests.taskset_live import shim
from tests.taskset_plans import rule

pytest_plugins = ("tests.taskset_fixtures",)

DECODE = rule(0, 1, comm="decode*")  # CPUs 2-3, at least two
ONE = rule(0, 0, comm="decode*")  # CPU 0


# --- an id that is another thread's between the look and the act ----------------------------------


def reused(host: Host, pid: int) -> None:
    """Let ``pid`` be another process from the first call of taskset on."""
    stat = host.proc.root / f"proc/{pid}/task/{pid}/stat"
    then = host.tmp / "stat-then"
    fields = stat.read_text().split(") ", 1)[1].split()
    assert fields[19] == "100", "the 22nd field is the start"
    fields[19] = "777"
    then.write_text(f"{pid} (stranger) {' '.join(fields)}\n")
    host.proc.taskset(host.shims, f'[ ! -e "{then}" ] || mv "{then}" "{stat}"')


def test_a_thread_that_took_the_id_of_a_named_one_is_left_alone(host: Host) -> None:
    for pid in (20, 21, 22):
        host.proc.thread(pid, "decode")
    reused(host, 21)
    out = host.apply(ONE)
    assert [host.proc.allowed(pid) for pid in (20, 21, 22)] == ["0", "0-3", "0"]
    assert "3 matched, 2 changed" in out
    assert "0 failed" in out
    assert "20/20 decode" in out
    assert "moved 21/" not in out
    recorded = [line.split()[0] for line in host.shell.record.read_text().splitlines()[1:]]
    assert recorded == ["20", "22"]


def test_a_revert_leaves_who_took_an_id_alone(host: Host) -> None:
    for pid in (20, 21):
        host.proc.thread(pid, "decode")
    host.apply(ONE)
    reused(host, 21)
    out = host.revert()
    assert [host.proc.allowed(pid) for pid in (20, 21)] == ["0-3", "0"]
    assert "1 restored" in out
    assert not host.shell.record.exists()


# --- what the kernel refuses ----------------------------------------------------------------------

SAYS = {
    "util-linux": "taskset: failed to set pid $3's affinity: Invalid argument",
    "busybox": "taskset: can't set pid $3's affinity: Invalid argument",
}


def refuses(host: Host, cpus: str, says: str) -> None:
    """Let the kernel refuse a list of CPUs, as it does where a cpuset has none of them."""
    host.proc.taskset(host.shims, f'[ "$2" != {cpus} ] || {{ echo "{says}" >&2; exit 1; }}')


@pytest.mark.parametrize("words", SAYS)
def test_a_cpuset_that_nobody_can_see_is_no_failure(host: Host, words: str) -> None:
    """A container with CPUs of its own, seen from a pod: the others have theirs all the same."""
    host.proc.thread(20, "decode", allowed="1")
    host.proc.thread(21, "other")
    refuses(host, "0", SAYS[words])
    out = host.apply(ONE, rule(1, 1, comm="other"))
    assert "skipped, 20/20 decode" in out
    assert "its cpuset has none of these CPUs" in out
    assert "2 matched, 1 changed, 0 already right, 1 skipped" in out
    assert [host.proc.allowed(pid) for pid in (20, 21)] == ["1", "2-3"]
    recorded = [line.split()[0] for line in host.shell.record.read_text().splitlines()[1:]]
    assert recorded == ["21"]


def test_another_refusal_is_a_failure(one_host: Host) -> None:
    one_host.proc.thread(20, "decode")
    refuses(one_host, "0", "taskset: failed to set pid 20's affinity: Operation not permitted")
    out = one_host.apply(ONE, code=1)
    assert "could not set 20/20 decode" in out
    assert "1 failed" in out


def test_what_was_ours_before_stays_recorded_when_new_cpus_are_refused(one_host: Host) -> None:
    one_host.proc.thread(20, "decode")
    one_host.apply(ONE)
    refuses(one_host, "2-3", SAYS["util-linux"])
    assert "skipped, 20/20 decode" in one_host.apply(DECODE)
    assert one_host.proc.allowed(20) == "0"
    one_host.revert()
    assert one_host.proc.allowed(20) == "0-3"


def test_an_original_outside_the_cpuset_is_put_back_as_every_cpu(host: Host) -> None:
    """The container was given other CPUs meanwhile: the kernel no longer takes what it had."""
    host.proc.thread(20, "decode", allowed="1-2")
    host.apply(ONE)
    refuses(host, "1-2", SAYS["busybox"])
    out = host.revert()
    assert host.proc.allowed(20) == "0-3"
    assert "1 restored" in out
    assert not host.shell.record.exists()


# --- from inside a container ----------------------------------------------------------------------

POD = "kubepods.slice/kubepods-pod1.slice/cri-containerd-a b.scope"


class Inside:
    """Scripts in a container of their own, with the host's processes and control groups."""

    def __init__(self, host: Host, *, mine: str = "/", below: str = "") -> None:
        self.host = host
        root = host.proc.root
        (root / "cgroup").mkdir()
        (root / "cgroup/cgroup.controllers").write_text("cpuset cpu\n")
        (root / "cgroup/cgroup.procs").write_text("1\n")
        self.group("", "0-3")
        self.group(POD, "0-3")
        self.group(POD + below, "0-3")
        self.procs = root / "cgroup" / (POD + below) / "cgroup.procs"
        (root / "proc/self").mkdir()
        (root / "proc/self/cgroup").write_text(f"0::{mine}\n")

    def group(self, path: str, cpus: str) -> None:
        directory = self.host.proc.root / "cgroup" / path
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "cpuset.cpus.effective").write_text(f"{cpus}\n")

    def run(self, script: Path, *, joins: bool = True) -> str:
        """Run a script as the container's process."""
        shell = self.host.shell
        join = 'echo $$ >"$0" && ' if joins else ""
        argv: Sequence[str] = [
            *("sh", "-c", f'{join}exec "$@"', str(self.procs)),
            *(*shell.argv, str(script), "--state", str(shell.state)),
        ]
        env = shell.environ(self.host.shims)
        done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    def apply(self, *rules: object, joins: bool = True) -> str:
        return self.run(self.host.scripts(rules) / "apply.sh", joins=joins)  # type: ignore[arg-type]


def without_cpuset_files(host: Host) -> None:
    """Make it a kernel without CONFIG_PROC_PID_CPUSET, as Debian's are: groups are all one sees."""
    for path in (host.proc.root / "proc").glob("*/task/*/cpuset"):
        path.with_name("cgroup").write_text(f"1:name=x:/else\n0::{path.read_text()}")
        path.unlink()


@pytest.mark.parametrize("old", [True, False])
@pytest.mark.parametrize(
    ("mine", "below", "up"),
    [("/", "", "/../../.."), ("/init.scope", "/init.scope", "/../../..")],
)
def test_cpusets_are_known_inside_a_container(
    host: Host, mine: str, below: str, up: str, old: bool
) -> None:
    inside = Inside(host, mine=mine, below=below)
    inside.group("system.slice/a.service", "0-2")
    inside.group("kubepods.slice/kubepods-pod2.slice", "1-3")
    inside.group("kubepods.slice/kubepods-pod3.slice", "2-3")
    thread = host.proc.thread
    thread(20, "decode", allowed="0-2", cpuset=f"{up}/system.slice/a.service")
    thread(21, "decode", allowed="1-3", cpuset="/../../kubepods-pod2.slice")
    thread(22, "decode", allowed="2-3", cpuset="/../../kubepods-pod3.slice")
    thread(23, "decode", cpuset=up)  # in the root group
    thread(24, "decode", allowed="0-2", cpuset=f"{up}/..")  # above the tree that is mounted
    if not old:
        without_cpuset_files(host)
    out = inside.apply(DECODE)
    assert [host.proc.allowed(pid) for pid in range(20, 25)] == ["0-2", *["2-3"] * 4]
    assert "needs 2 of CPUs 2-3, but has only 2" in out
    assert "its cpuset /system.slice/a.service has 0-2" in out
    assert "5 matched, 3 changed, 1 already right, 1 skipped" in out
    # A thread that had its whole cpuset had no affinity of its own, and gets none back.
    inside.run(host.scripts([]) / "revert.sh")
    assert [host.proc.allowed(pid) for pid in range(21, 25)] == ["0-3", "2-3", "0-3", "0-2"]


def test_where_the_own_group_is_not_found_nothing_is_known(one_host: Host) -> None:
    """Such as where another tree than the host's is mounted: the kernel has the last word."""
    inside = Inside(one_host)
    inside.group("system.slice/a.service", "0-2")
    inside.group("a.service", "0-2")  # another one than that below the container's own
    one_host.proc.thread(20, "decode", allowed="0-2", cpuset="/../../../system.slice/a.service")
    one_host.proc.thread(21, "decode", allowed="0-2", cpuset="/a.service")
    out = inside.apply(DECODE, joins=False)
    assert "skipped" not in out.replace("0 skipped", "")
    assert [one_host.proc.allowed(pid) for pid in (20, 21)] == ["2-3", "2-3"]


def test_a_kernel_without_cpuset_files_has_it_from_the_groups(host: Host) -> None:
    inside = Inside(host, mine="/system.slice/tierc.service")
    inside.group("system.slice/a.service", "0-2")
    (host.proc.root / "cgroup/system.slice/a.service/sub/deep").mkdir(parents=True)
    (host.proc.root / "cgroup/user.slice").mkdir()
    thread = host.proc.thread
    thread(20, "decode", allowed="0-2", cpuset="/system.slice/a.service/sub/deep")
    thread(21, "decode", cpuset="/user.slice")  # without a cpuset as far as the root
    thread(22, "decode", cpuset="/")
    thread(23, "decode", cpuset="/gone (deleted)")
    without_cpuset_files(host)
    out = inside.apply(DECODE, joins=False)
    assert "its cpuset /system.slice/a.service has 0-2" in out
    assert [host.proc.allowed(pid) for pid in range(20, 24)] == ["0-2", *["2-3"] * 3]
    host.revert()
    assert [host.proc.allowed(pid) for pid in range(21, 24)] == ["0-3"] * 3


def test_on_the_host_paths_are_what_they_say(one_host: Host) -> None:
    inside = Inside(one_host, mine="/system.slice/tierc.service")
    inside.group("system.slice/a.service", "0-2")
    one_host.proc.thread(20, "decode", allowed="0-2", cpuset="/system.slice/a.service")
    find = one_host.tmp / "finds"
    shim(one_host.shims, "find", f': >"{find}"; exec /usr/bin/find "$@"')
    assert "its cpuset /system.slice/a.service has 0-2" in inside.apply(DECODE, joins=False)
    assert not find.exists(), "nothing is searched for"
