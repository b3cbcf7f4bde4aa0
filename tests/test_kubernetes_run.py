"""``run.sh`` in a pretended pod, under dash and busybox, with pretended scripts and a real one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from compiler.artifact import Artifact, text_artifact
from compiler.fleet import ClusterOptions
from tests.conftest import ROOT
from tests.kube_fleets import (
    fake_script,
    files_of,
    fleet,
    group,
    objects,
    of_kind,
    options,
    some_plan,
    tree,
    unpack,
)
from tests.signals import default_signals
from tests.taskset_host import Host
from tests.taskset_live import Shell, until

pytest_plugins = ("tests.taskset_fixtures",)

RUN = ROOT / "targets" / "kubernetes" / "templates" / "run.sh"

# Says how it was called, does what the test asks, and ends as the test asks.
FAKE = """\
name=NAME
printf '%s %s irqs=%s\\n' "$name" "$*" "${TIERC_IRQS-}" >>"$LOG"
[ ! -f "$ASK/$name.warn" ] || cat "$ASK/$name.warn" >&2
if [ -f "$ASK/$name.slow" ]; then
  trap 'printf "%s stopped\\n" "$name" >>"$LOG"; exit 0' TERM
  : >"$ASK/$name.running"
  while :; do sleep 0.1; done
fi
code=0
[ ! -f "$ASK/$name.code" ] || read -r code <"$ASK/$name.code"
exit "$code"
"""


def fake(name: str) -> list[Artifact]:
    """Return the pretended scripts of one target."""
    return [
        fake_script(FAKE.replace("NAME", f"{name}-{verb}"), f"{name}/{verb}.sh")
        for verb in ("apply", "revert")
    ]


@dataclass
class Pod:
    """A pretended pod: its shell, its directories, what it was told."""

    shell: Shell
    tmp: Path
    count: int = 0
    run_sh: Path = RUN
    env: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("work", "ask", "etc", "host"):
            (self.tmp / name).mkdir()

    @property
    def state(self) -> Path:
        return self.tmp / "host"

    @property
    def own(self) -> Path:
        return self.state / "kubernetes"

    @property
    def ready(self) -> bool:
        return (self.tmp / "work" / "ready").exists()

    @property
    def log(self) -> list[str]:
        path = self.tmp / "log"
        return path.read_text().splitlines() if path.exists() else []

    @property
    def status(self) -> dict[str, Any]:
        read: dict[str, Any] = json.loads((self.own / "status.json").read_text())
        return read

    def ask(self, name: str, text: object = "") -> None:
        (self.tmp / "ask" / name).write_text(f"{text}\n")

    def deploy(
        self, *files: Artifact, given: ClusterOptions | None = None, nodes: Sequence[str] = ("n1",)
    ) -> Path:
        """Start anew with a plan of these files; return where the kubelet unpacked them."""
        found = objects(fleet(group("ab", nodes, files=files)), given)
        (daemon,) = of_kind("DaemonSet", found)
        self.count += 1
        where = self.tmp / f"volumes{self.count}"
        plan = unpack("plan", daemon, found, where / "plan")
        self.run_sh = unpack("run", daemon, found, where / "run") / "run.sh"
        (container,) = daemon["spec"]["template"]["spec"]["containers"]
        told = {one["name"]: one.get("value", "n1") for one in container["env"]}
        assert container["command"] == ["sh", "/tierc/run/run.sh"]
        for path in (self.tmp / "work").iterdir():  # of a new pod /tmp is empty
            subprocess.run(["rm", "-rf", str(path)], check=True)
        self.env = {
            **told,
            "TIERC_FILES": str(plan),
            "TIERC_STATE": str(self.state),
            "TIERC_WORK": str(self.tmp / "work"),
            "TIERC_ETC": str(self.tmp / "etc"),
            "TIERC_INTERVAL": "1",
            "LOG": str(self.tmp / "log"),
            "ASK": str(self.tmp / "ask"),
            "TMPDIR": str(self.tmp / "work"),
            "PATH": self.shell.path,
        }
        return plan

    def once(self, *args: str, code: int = 0, **env: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [*self.shell.argv, str(self.run_sh), *(args or ("--once",))],
            env={**self.env, **env},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done

    @contextmanager
    def running(self, **env: str) -> Iterator[subprocess.Popen[str]]:
        """Run it as the pod does."""
        with (self.tmp / "out").open("w") as out:
            process = subprocess.Popen(
                [*self.shell.argv, str(self.run_sh)],
                env={**self.env, **env},
                stdout=out,
                stderr=subprocess.STDOUT,
                text=True,
                preexec_fn=default_signals,  # noqa: PLW1509 - no threads here
            )
        try:
            yield process
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                process.wait(60)

    @property
    def said(self) -> str:
        return (self.tmp / "out").read_text()


@pytest.fixture
def pod(shell: Shell, tmp_path: Path) -> Pod:
    (tmp_path / "pod").mkdir()
    return Pod(shell, tmp_path / "pod")


@pytest.fixture
def one_pod(sh: Shell, tmp_path: Path) -> Pod:
    (tmp_path / "pod").mkdir()
    return Pod(sh, tmp_path / "pod")


PLAN = Artifact("plan.json", b'{"mode": "fallback"}\n')


def test_the_scripts_are_run_and_the_node_says_so(pod: Pod) -> None:
    pod.deploy(PLAN, *fake("irq"), *fake("taskset"), *fake("cpuset"))
    done = pod.once()
    state = pod.state
    assert pod.log == [
        f"cpuset-apply --state {state}/cpuset irqs=/host/proc",
        f"taskset-apply --state {state}/taskset irqs=/host/proc",
        f"irq-apply --state {state}/irq irqs=/host/proc",
    ]
    assert pod.ready
    assert pod.status == {
        "class": "ab",
        "leftover": [],
        "mode": "fallback",
        "node": "n1",
        "plan": pod.env["TIERC_PLAN"],
        "scripts": {name: {"exit": 0, "state": "done"} for name in ("cpuset", "taskset", "irq")},
        "state": "applied",
    }
    assert (pod.own / "plan").read_text() == f"{pod.env['TIERC_PLAN']}\n"
    assert sorted(path.name for path in (pod.own / "revert").iterdir()) == [
        "cpuset.sh",
        "irq.sh",
        "taskset.sh",
    ]
    assert "is the first here" in done.stdout
    assert done.stderr == ""


def test_the_same_plan_again_rewrites_nothing_and_says_it_once(pod: Pod) -> None:
    pod.deploy(PLAN, *fake("taskset"))
    pod.once()

    def seen() -> dict[str, tuple[int, int]]:
        return {
            str(p): (p.stat().st_ino, p.stat().st_mtime_ns)
            for p in pod.state.rglob("*")
            if p.is_file() and p.name != "owner"  # which pod it is: another one
        }

    before = seen()
    assert len(before) == 3
    pod.deploy(PLAN, *fake("taskset"), nodes=["n1", "n2"])  # another pod of the same plan
    with pod.running():
        assert until(lambda: len(pod.log) >= 4)
    assert seen() == before
    assert pod.said.count("is in place: nothing is rewritten") == 1
    assert "state:" not in pod.said
    pod.deploy(PLAN, text_artifact("more", "x"), *fake("taskset"))
    assert "takes the place of" in pod.once().stdout
    assert seen() != before


def test_only_the_first_run_is_told_whole(pod: Pod) -> None:
    pod.deploy(PLAN, *fake("taskset"))
    pod.ask("taskset-apply.warn", "tierc: old news")
    with pod.running():
        assert until(lambda: len(pod.log) >= 3)
        pod.ask("taskset-apply.warn", "tierc: other news")
        assert until(lambda: "other news" in pod.said)
    assert ["--quiet" in line for line in pod.log[:3]] == [False, True, True]
    assert pod.said.count("old news") == 1
    assert pod.said.count("other news") == 1


@pytest.mark.parametrize(
    ("code", "word", "ready"),
    [
        (3, "refused", True),
        (1, "partly", False),
        (4, "locked", False),
        (5, "failed", False),
        (7, "failed", False),
        (2, "failed", False),
    ],
)
def test_what_a_script_did_not_do(one_pod: Pod, code: int, word: str, ready: bool) -> None:
    pod = one_pod
    pod.deploy(PLAN, *fake("taskset"), *fake("irq"))
    pod.ask("taskset-apply.code", code)
    pod.once(code=1)
    assert len(pod.log) == 2, "the others are run all the same"
    assert pod.status["state"] == word
    assert pod.status["scripts"]["taskset"] == {"exit": code, "state": word}
    assert pod.status["scripts"]["irq"] == {"exit": 0, "state": "done"}
    assert pod.ready is ready
    assert not (pod.own / "plan").exists()


def test_the_worst_result_counts(one_pod: Pod) -> None:
    one_pod.deploy(PLAN, *fake("taskset"), *fake("irq"))
    one_pod.ask("taskset-apply.code", 3)
    one_pod.ask("irq-apply.code", 1)
    one_pod.once(code=1)
    assert one_pod.status["state"] == "partly"
    assert not one_pod.ready


def test_a_pod_becomes_ready_and_stays_so(pod: Pod) -> None:
    pod.deploy(PLAN, *fake("taskset"))
    pod.ask("taskset-apply.code", 7)
    with pod.running() as process:
        assert until(lambda: len(pod.log) >= 2)
        assert not pod.ready
        pod.ask("taskset-apply.code", 0)
        assert until(lambda: pod.ready)
        pod.ask("taskset-apply.code", 3)
        assert until(lambda: pod.status["state"] == "refused")
        assert pod.ready
        assert process.poll() is None


def test_a_pod_that_begins_is_not_ready(one_pod: Pod) -> None:
    """A container that is started again has the files of the one before."""
    one_pod.deploy(PLAN, *fake("taskset"))
    one_pod.once()
    assert one_pod.ready
    one_pod.ask("taskset-apply.slow")
    with one_pod.running():
        assert until((one_pod.tmp / "ask" / "taskset-apply.running").exists)
        assert not one_pod.ready


def test_a_signal_ends_it_between_runs(pod: Pod) -> None:
    pod.deploy(PLAN, *fake("taskset"))
    with pod.running(TIERC_INTERVAL="500") as process:
        assert until(lambda: pod.ready)
        time.sleep(0.2)
        start = time.monotonic()
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
        assert time.monotonic() - start < 20
    assert len(pod.log) == 1, "nothing is put back"


@pytest.mark.parametrize("name", ["TERM", "INT", "HUP"])
def test_a_signal_reaches_the_script_and_waits_for_it(pod: Pod, name: str) -> None:
    pod.deploy(PLAN, *fake("taskset"), *fake("irq"))
    pod.ask("taskset-apply.slow")
    with pod.running() as process:
        assert until((pod.tmp / "ask" / "taskset-apply.running").exists)
        process.send_signal(getattr(signal, f"SIG{name}"))
        assert process.wait(30) == 0
    assert [line.split()[0] for line in pod.log] == ["taskset-apply", "taskset-apply"]
    assert pod.log[-1] == "taskset-apply stopped"
    assert not pod.ready
    assert not (pod.own / "status.json").exists()


# --- what a plan has no more ----------------------------------------------------------------------


def test_what_the_plan_has_no_more_is_put_back(pod: Pod) -> None:
    pod.deploy(PLAN, *fake("taskset"), *fake("irq"))
    pod.once()
    pod.deploy(PLAN, *fake("taskset"))
    done = pod.once()
    assert pod.log[2:] == [
        f"irq-revert --state {pod.state}/irq irqs=",
        f"taskset-apply --state {pod.state}/taskset irqs=",
    ]
    assert "irq: the plan has it no more; what it changed is put back" in done.stdout
    assert [path.name for path in (pod.own / "revert").iterdir()] == ["taskset.sh"]
    assert pod.status["state"] == "applied"
    pod.once()
    assert len(pod.log) == 5, "and once only"


def test_what_cannot_be_put_back_is_told_and_tried_again(pod: Pod) -> None:
    pod.deploy(PLAN, *fake("taskset"), *fake("irq"))
    pod.once()
    pod.deploy(PLAN, *fake("taskset"))
    pod.ask("irq-revert.code", 1)
    pod.once()
    assert pod.status["state"] == "leftover"
    assert pod.status["leftover"] == ["irq"]
    assert pod.status["scripts"] == {"taskset": {"exit": 0, "state": "done"}}
    assert pod.ready, "the plan itself is in place"
    pod.ask("irq-revert.code", 0)
    pod.once()
    assert (pod.status["state"], pod.status["leftover"]) == ("applied", [])


def test_what_only_the_host_can_put_back_is_left_and_told(pod: Pod) -> None:
    """Units that a run on the host set: their record is kept, and the pod is no worse for it."""
    pod.deploy(PLAN, *fake("cpuset"), *fake("taskset"))
    pod.ask("cpuset-apply.code", 8)
    pod.once()
    assert pod.status["state"] == "leftover"
    assert pod.status["leftover"] == ["cpuset"]
    assert pod.status["scripts"]["cpuset"] == {"exit": 8, "state": "leftover"}
    assert pod.ready
    with pod.running():
        assert until(lambda: len(pod.log) >= 8)
    told = f"on the node run: sh {pod.own}/revert/cpuset.sh --state {pod.state}/cpuset"
    assert pod.said.count(told) == 1
    assert (pod.own / "revert" / "cpuset.sh").exists()
    pod.ask("cpuset-apply.code", 0)
    pod.once()
    assert (pod.status["state"], pod.status["leftover"]) == ("applied", [])


def test_a_plan_without_scripts_puts_back_and_idles(one_pod: Pod) -> None:
    one_pod.deploy(PLAN, *fake("taskset"))
    one_pod.once()
    one_pod.deploy(PLAN)
    one_pod.once()
    assert [line.split()[0] for line in one_pod.log] == ["taskset-apply", "taskset-revert"]
    assert one_pod.status["state"] == "idle"
    assert one_pod.ready


def test_the_kept_script_is_that_of_the_plan_in_place(one_pod: Pod) -> None:
    apply, revert = fake("taskset")
    one_pod.deploy(PLAN, apply, revert)
    one_pod.once()
    newer = fake_script("exit 0 # newer", "taskset/revert.sh")
    one_pod.deploy(PLAN, apply, newer)
    one_pod.once()
    assert (one_pod.own / "revert" / "taskset.sh").read_bytes() == newer.data


def test_the_record_of_another_version_is_put_back_by_its_own_script(pod: Pod) -> None:
    """As after an update of tierc: the new script does not know the old one's record."""
    apply, revert = fake("taskset")
    pod.deploy(PLAN, apply, revert)
    pod.once()
    older = pod.own / "revert" / "taskset.sh"
    older.write_text(
        'printf "older %s\\n" "$*" >>"$LOG"\n[ ! -f "$ASK/stuck" ] || exit 1\n'
        'printf "0\\n" >"$ASK/taskset-apply.code"\n'
    )
    old = older.read_bytes()
    pod.ask("stuck")
    pod.ask("taskset-apply.code", 6)
    pod.deploy(PLAN, apply, revert)
    pod.once(code=1)
    assert pod.status["scripts"]["taskset"] == {"exit": 6, "state": "failed"}
    assert older.read_bytes() == old
    (pod.tmp / "ask" / "stuck").unlink()
    done = pod.once()
    assert [line.split()[0] for line in pod.log[-3:]] == ["taskset-apply", "older", "taskset-apply"]
    assert "taskset: the record of another version is put back first" in done.stdout
    assert older.read_bytes() == revert.data
    assert pod.status["state"] == "applied"


def test_a_foreign_record_is_left_alone(one_pod: Pod) -> None:
    """Where the kept script is this version's, nothing knows what the record means."""
    one_pod.deploy(PLAN, *fake("taskset"))
    one_pod.ask("taskset-apply.code", 6)
    one_pod.once(code=1)
    assert [line.split()[0] for line in one_pod.log] == ["taskset-apply"]
    assert one_pod.status["state"] == "failed"


# --- two pods on one node -------------------------------------------------------------------------


def test_the_pod_that_began_last_has_the_node(pod: Pod) -> None:
    """As while a node changes its class: each run of the old pod would undo the new plan."""
    pod.deploy(PLAN, *fake("taskset"), *fake("irq"))
    with pod.running() as old:
        assert until(lambda: pod.ready)
        newer = {**pod.env, "TIERC_CLASS": "new", "TIERC_WORK": str(pod.tmp / "work2")}
        (pod.tmp / "work2").mkdir()
        with (pod.tmp / "out2").open("w") as out:
            new = subprocess.Popen(
                [*pod.shell.argv, str(pod.run_sh)],
                env={**newer, "LOG": str(pod.tmp / "log2")},
                stdout=out,
                stderr=subprocess.STDOUT,
            )
        try:
            assert until(lambda: "a newer pod, of class new, has this node" in pod.said)
            before = pod.log
            done = (pod.tmp / "log2").read_text().count("\n")
            assert until(lambda: (pod.tmp / "log2").read_text().count("\n") > done + 4)
            assert pod.log == before
            assert pod.status["class"] == "new"
            assert pod.ready
            assert pod.said.count("a newer pod") == 1

            old.send_signal(signal.SIGTERM)  # and its container starts again
            assert old.wait(30) == 0
            pod.once()
            assert pod.log == before
            assert pod.status["class"] == "new"
            assert pod.ready
        finally:
            new.send_signal(signal.SIGTERM)
            new.wait(60)
    pod.once()  # the newer one is gone
    assert len(pod.log) > len(before)
    assert pod.status["class"] == "ab"


@pytest.mark.parametrize("owner", ["", "1 1 - x", "x y", "99999999 1 - x"])
def test_an_owner_that_is_nobody_is_followed(one_pod: Pod, owner: str) -> None:
    """As after a reboot or a power cut: the container starts again and does not know."""
    one_pod.deploy(PLAN, *fake("taskset"))
    one_pod.own.mkdir()
    (one_pod.own / "owner").write_text(f"{owner}\n")
    (one_pod.tmp / "work" / "lost").write_text("")
    one_pod.once()
    assert one_pod.status["state"] == "applied"


def test_a_tool_that_the_image_lacks_is_named(one_pod: Pod, tool: Callable[[str], str]) -> None:
    """Rather than a plan that is not whole, for want of sha256sum."""
    one_pod.deploy(PLAN, *fake("taskset"))
    some = one_pod.tmp / "some"
    some.mkdir()
    for name in ("cat", "chmod", "cmp", "cp", "dirname", "grep", "mkdir", "mv", "rm", "sleep"):
        (some / name).symlink_to(tool(name))
    done = one_pod.once(code=7, PATH=str(some))
    assert "sha256sum is not installed: the image must have the tools of busybox" in done.stderr
    assert one_pod.log == []
    (some / "sha256sum").symlink_to(tool("sha256sum"))
    for name in ("sh", "true"):
        (some / name).symlink_to(tool(name))
    one_pod.once(PATH=str(some))
    assert one_pod.status["state"] == "applied"


# --- directories of the node that are replaced ----------------------------------------------------


@pytest.mark.parametrize("harm", ["/etc/tierc//deleted", "/etc/tierc.old"])
@pytest.mark.parametrize("which", ["etc", "host"])
def test_a_directory_replaced_on_the_node_ends_the_container(
    pod: Pod, harm: str, which: str
) -> None:
    """Its mount shows the old one, so that a kill switch in the new one would not be seen."""
    pod.deploy(PLAN, *fake("taskset"))
    line = f"1 2 254:0 {{}} {pod.tmp}/{{}} ro,relatime master:1 - ext4 /dev/vda rw\n"
    mounts = pod.tmp / "mounts"
    usual = {"etc": "/etc/tierc", "host": "/var/lib/tierc", "work": "/pods/tmp"}

    def tell() -> None:
        new = "".join(line.format(root, point) for point, root in usual.items())
        (pod.tmp / "new").write_text(new)
        (pod.tmp / "new").rename(mounts)

    tell()
    with pod.running(TIERC_MOUNTS=str(mounts)) as process:
        assert until(lambda: len(pod.log) >= 2)
        assert process.poll() is None
        usual["work"] = "/pods/else//deleted"  # nobody's business
        tell()
        before = len(pod.log)
        assert until(lambda: len(pod.log) >= before + 3)
        usual[which] = harm
        tell()
        assert process.wait(60) == 7
    assert "was removed or moved on the node" in pod.said
    pod.once(TIERC_MOUNTS=str(mounts))  # the container that is started next takes it as it is


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts need root")
def test_a_real_mount_of_a_directory_that_is_removed(
    one_pod: Pod, tool: Callable[[str], str]
) -> None:
    """As the documentation has it: mkdir -p, touch; and rm -r to go on."""
    pod = one_pod
    pod.deploy(PLAN, *fake("taskset"))
    node = pod.tmp / "node-etc"
    node.mkdir()
    start = f"mount --bind '{node}' '{pod.tmp / 'etc'}' && exec \"$@\""
    argv = [tool("unshare"), "-m", "sh", "-c", start, "sh", *pod.shell.argv, str(pod.run_sh)]
    if subprocess.run([*argv[:5], "sh", "true"], capture_output=True, check=False).returncode:
        pytest.skip("this machine lets nobody mount")
    with (pod.tmp / "out").open("w") as out:
        process = subprocess.Popen(
            argv,
            env=pod.env,
            stdout=out,
            stderr=subprocess.STDOUT,
            preexec_fn=default_signals,  # noqa: PLW1509 - no threads here
        )
    try:
        assert until(lambda: len(pod.log) >= 2)
        (node / "disabled").touch()
        assert until(lambda: pod.status["state"] == "disabled")
        (node / "disabled").unlink()
        node.rmdir()
        assert process.wait(60) == 7
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            process.wait(60)
    assert "was removed or moved on the node" in pod.said


# --- refusals -------------------------------------------------------------------------------------


def test_another_node_is_not_touched(pod: Pod) -> None:
    pod.deploy(PLAN, *fake("taskset"), nodes=["n1", "n11"])
    done = pod.once(code=1, NODE_NAME="n")
    assert "refused: node n is not of class ab" in done.stderr
    assert pod.log == []
    assert list(pod.state.iterdir()) == []
    pod.deploy(PLAN, *fake("taskset"), nodes=["n1", "n11"])
    with pod.running(NODE_NAME="1") as process:
        assert until(lambda: pod.ready)
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    pod.once(NODE_NAME="n11")
    assert len(pod.log) == 1


def test_by_labels_the_fingerprint_decides(one_pod: Pod) -> None:
    one_pod.deploy(PLAN, *fake("taskset"), given=options(select="labels"))
    assert "TIERC_NODES" not in one_pod.env
    one_pod.once(NODE_NAME="new-one")
    assert one_pod.status["node"] == "new-one"


def test_the_kill_switch_is_in_the_status(one_pod: Pod) -> None:
    one_pod.deploy(PLAN, *fake("taskset"))
    (one_pod.tmp / "etc" / "disabled").write_text("")
    one_pod.once()
    assert one_pod.status["state"] == "disabled"
    assert len(one_pod.log) == 1, "the script puts back what it changed"
    assert not (one_pod.own / "plan").exists()
    assert one_pod.ready


def test_mode_observe_is_in_the_status(one_pod: Pod) -> None:
    one_pod.deploy(PLAN, *fake("taskset"))
    one_pod.once(TIERC_MODE="observe")
    assert one_pod.status["state"] == "observed"


@pytest.mark.parametrize("harm", ["changed", "missing", "no plan"])
def test_a_plan_that_is_not_whole_is_not_run(pod: Pod, harm: str) -> None:
    plan = pod.deploy(PLAN, *fake("taskset"))
    if harm == "changed":
        path = plan / "node" / "taskset" / "apply.sh"
        path.write_bytes(path.read_bytes() + b"# more\n")
    elif harm == "missing":
        (plan / "node" / "plan.json").unlink()
    else:
        (plan / "SHA256SUMS").unlink()
    done = pod.once(code=7)
    assert ("there is no plan" if harm == "no plan" else "not whole") in done.stderr
    if harm != "no plan":
        assert ("apply.sh" if harm == "changed" else "plan.json") in done.stderr
    assert pod.log == []
    assert not pod.ready
    assert list(pod.state.iterdir()) == []


@pytest.mark.parametrize(
    ("args", "env", "words"),
    [
        (["--onec"], {}, "no such option: --onec"),
        ([], {"NODE_NAME": ""}, "NODE_NAME"),
        ([], {"NODE_NAME": 'a"b'}, "NODE_NAME"),
        ([], {"TIERC_PLAN": "$(id)"}, "TIERC_PLAN"),
        ([], {"TIERC_INTERVAL": "0"}, "TIERC_INTERVAL"),
        ([], {"TIERC_INTERVAL": "1s"}, "TIERC_INTERVAL"),
    ],
)
def test_wrong_usage(one_pod: Pod, args: list[str], env: dict[str, str], words: str) -> None:
    one_pod.deploy(PLAN, *fake("taskset"))
    assert words in one_pod.once(*args, code=2, **env).stderr
    assert one_pod.log == []


def test_help_needs_nothing(one_pod: Pod) -> None:
    one_pod.deploy(PLAN)
    assert one_pod.once("--help", NODE_NAME="").stdout.startswith("usage: run.sh")


def test_a_state_directory_that_cannot_be_written(one_pod: Pod) -> None:
    one_pod.deploy(PLAN, *fake("taskset"))
    one_pod.own.write_text("a file\n")
    assert "cannot write" in one_pod.once(code=7).stderr
    assert one_pod.log == []


# --- large files ----------------------------------------------------------------------------------

LARGE = [
    text_artifact("many-lines.txt", "".join(f"line {n} <&>\n" for n in range(12_000))),
    text_artifact("deep/one-line.txt", "&" * 70_000),
    text_artifact("accents.txt", "\u00e9\u20ac\U0001f600" * 9_000),
    Artifact("bytes.bin", bytes(range(256)) * 800),
]


def test_files_too_large_for_one_object_are_joined(pod: Pod, tmp_path: Path) -> None:
    files = [PLAN, *LARGE, *fake("taskset")]
    plan = pod.deploy(*files)
    assert not (plan / "node" / "many-lines.txt").exists()
    pod.once()
    assert tree(pod.tmp / "work" / "plan" / "node") == {f.path: (f.data, f.mode) for f in files}
    assert len(pod.log) == 1
    pod.once()  # again, where the joined files are there already
    assert len(pod.log) == 2


def test_a_part_that_is_damaged_is_found(one_pod: Pod) -> None:
    plan = one_pod.deploy(PLAN, LARGE[0], *fake("taskset"))
    part = sorted((plan / "parts").iterdir())[1]
    part.write_bytes(part.read_bytes()[:-1])
    assert "many-lines.txt" in one_pod.once(code=7).stderr
    part.unlink()
    assert "many-lines.txt" in one_pod.once(code=7).stderr
    assert one_pod.log == []


# --- the real script ------------------------------------------------------------------------------


def test_the_real_script_in_a_pod(host: Host, tmp_path: Path) -> None:
    """Affinity is set on a pretended machine, kept, and put back when the plan has no taskset."""
    (tmp_path / "pod").mkdir()
    pod = Pod(host.shell, tmp_path / "pod")
    host.proc.thread(20, "decode-1")
    host.proc.thread(21, "other")
    files = files_of(some_plan())
    pod.deploy(*files)
    env = {**host.proc.env, "PATH": f"{host.shims}:{host.shell.path}"}
    assert "1 matched, 1 changed" in pod.once(**env).stdout
    assert [host.proc.allowed(pid) for pid in (20, 21)] == ["0", "0-3"]
    assert pod.status["state"] == "applied"
    before = tree(pod.state)
    assert "taskset/state" in before
    host.proc.thread(22, "decode-2")
    pod.once(**env)
    assert host.proc.allowed(22) == "0"
    (pod.tmp / "etc" / "disabled").write_text("")
    pod.once(**env)
    assert [host.proc.allowed(pid) for pid in (20, 21, 22)] == ["0-3"] * 3
    assert pod.status["state"] == "disabled"
    (pod.tmp / "etc" / "disabled").unlink()
    pod.once(**env)
    assert host.proc.allowed(20) == "0"
    pod.deploy(files[0])
    pod.once(**env)
    assert [host.proc.allowed(pid) for pid in (20, 21, 22)] == ["0-3"] * 3
    assert pod.status["state"] == "idle"


def test_the_real_script_refuses_another_machine(one_host: Host, tmp_path: Path) -> None:
    (tmp_path / "pod").mkdir()
    pod = Pod(one_host.shell, tmp_path / "pod")
    one_host.proc.thread(20, "decode-1")
    one_host.proc.cpus("0-7")
    pod.deploy(*files_of(some_plan()))
    env = {**one_host.proc.env, "PATH": f"{one_host.shims}:{one_host.shell.path}"}
    assert "not those of the plan" in pod.once(code=1, **env).stderr
    assert pod.status["state"] == "refused"
    assert pod.ready
    assert one_host.proc.allowed(20) == "0-3"


# --- as a text ------------------------------------------------------------------------------------


@pytest.mark.parametrize("argv", [["sh", "-n"], ["dash", "-n"], ["busybox", "sh", "-n"]])
def test_shells_can_read_it(argv: list[str], tool: Callable[[str], str]) -> None:
    done = subprocess.run([tool(argv[0]), *argv[1:], str(RUN)], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


def test_shellcheck_finds_nothing(tool: Callable[[str], str]) -> None:
    done = subprocess.run(
        [tool("shellcheck"), "--shell=sh", "--severity=style", str(RUN)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == ""


def test_it_is_what_the_pods_get(tmp_path: Path) -> None:
    found = objects(fleet(group("ab", ["n1"])))
    (daemon,) = of_kind("DaemonSet", found)
    where = unpack("run", daemon, found, tmp_path / "run")
    assert tree(where / "..2026_11_30_12_00_00.1") == {"run.sh": (RUN.read_bytes(), 0o755)}
    assert os.access(where / "run.sh", os.X_OK)
