"""The capabilities of a pod, for real: what the scripts can do with them, and not without."""

from __future__ import annotations

import os
import subprocess
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from compiler.artifact import Artifact, canonical_json
from compiler.fleet import Fleet, FleetClass
from targets.taskset import TARGET as TASKSET
from tests.kube_fleets import objects, of_kind, unpack
from tests.taskset_live import Shell, allowed, until
from tests.taskset_machine import ONE, UNTOUCHED
from tests.taskset_plans import plan, rule

pytest_plugins = ("tests.taskset_fixtures",)

NOBODY = 65534

if os.geteuid() != 0:
    pytest.skip(
        "only root can give up capabilities and start another user's process",
        allow_module_level=True,
    )


@pytest.fixture
def other(tool: Callable[[str], str]) -> Iterator[tuple[int, str]]:
    """A process of another user, and what is unique in its command line."""
    seconds = str(10_000 + uuid.uuid4().int % 10**9)
    command = [tool("setpriv"), f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    process = subprocess.Popen([*command, tool("sleep"), seconds])
    try:
        assert until(lambda: os.stat(f"/proc/{process.pid}").st_uid == NOBODY)
        assert until(lambda: Path(f"/proc/{process.pid}/comm").read_text() == "sleep\n")
        yield process.pid, seconds
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("given", [True, False])
def test_the_capabilities_of_the_pod_are_enough_and_needed(
    given: bool, other: tuple[int, str], shell: Shell, tool: Callable[[str], str], tmp_path: Path
) -> None:
    """Run as the container is: user 0, no new privileges, no capabilities but the pod's."""
    pid, seconds = other
    one = plan([rule(0, 0, cmdline=f"sleep {seconds}$")])
    files = (Artifact("plan.json", canonical_json(one.data())), *TASKSET.emit(one))
    found = objects(Fleet((FleetClass("ab", ("n1",), one, files),), ()))
    (daemon,) = of_kind("DaemonSet", found)
    (container,) = daemon["spec"]["template"]["spec"]["containers"]
    rights = container["securityContext"]["capabilities"]
    assert rights["drop"] == ["ALL"]
    capabilities = "".join(f",+{name.lower()}" for name in rights["add"]) if given else ""
    work = tmp_path / "work"
    work.mkdir()
    done = subprocess.run(
        [
            tool("setpriv"),
            f"--bounding-set=-all{capabilities}",
            "--inh-caps=-all",
            "--no-new-privs",
            *shell.argv,
            str(unpack("run", daemon, found, tmp_path / "run") / "run.sh"),
            "--once",
        ],
        env={
            **{e["name"]: e.get("value", "n1") for e in container["env"]},
            "TIERC_FILES": str(unpack("plan", daemon, found, tmp_path / "plan")),
            "TIERC_STATE": str(tmp_path / "host"),
            "TIERC_WORK": str(work),
            "TIERC_ETC": str(tmp_path / "etc"),
            "TMPDIR": str(work),
            "PATH": shell.path,
        },
        capture_output=True,
        text=True,
        check=False,
    )
    status = (tmp_path / "host" / "kubernetes" / "status.json").read_text()
    if given:
        assert done.returncode == 0, done.stderr
        assert allowed(pid) == ONE
        assert '"state": "applied"' in status
        assert (work / "ready").exists()
    else:
        assert done.returncode == 1
        assert allowed(pid) == UNTOUCHED
        assert '"state": "partly"' in status
        assert not (work / "ready").exists()
