"""The lab's cpuset scenario, without booting anything: what it judges and how."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

import pytest

from tests.lab import verdict_cpuset as verdict
from tests.lab.scenario_cpuset import PINNED, guest_script, read

PODS = {
    f"kubepods/{name}": value
    for name, value in (
        ("cpuset.cpus", ""),
        ("cpuset.cpus.effective", "0,3"),
        ("cpuset.cpus.partition", "member"),
        ("cpu.weight", "100"),
    )
}
ALL = dict.fromkeys(verdict.ONE_RUNS, "0-3") | {PINNED: "1"}
FRESH = {"cgroup.subtree_control": "", "cpuset.cpus.effective": "0-3"}
GIVEN = {**PODS, "ci.slice/cpuset.cpus": "0-2", "kubepods/cpu.weight": "200", "s/cpuset.cpus": ""}
TAKEN = {**PODS, "other/cpuset.cpus.partition": "root", "s/cpuset.cpus": ""}
CHANGED = "tierc: 0 changed, 9 already right"
REFUSED = "tierc: skipped, {}: others are not kept out: the kernel takes no partition: invalid"
BESIDE = {**verdict.BESIDE, "serving.slice/cpuset.cpus.partition": "member", **PODS}
BESIDE["kubepods/cpu.weight"] = "200"
LAST = {**verdict.LAST, **PODS}

STEPS: tuple[tuple[str, dict[str, str], dict[str, str], tuple[str, ...]], ...] = (
    ("fresh", FRESH, ALL, ()),
    ("dry", FRESH, {}, ("would set ci.slice: cpuset.cpus: - -> 3",)),
    ("first", {**verdict.ONE, **PODS}, verdict.ONE_RUNS, ("x",)),
    ("again", {**verdict.ONE, **PODS}, {}, (CHANGED,)),
    ("second", {**verdict.TWO, **PODS}, verdict.TWO_RUNS, ("x",)),
    ("back", {**verdict.ONE, **PODS}, {}, ("x",)),
    ("disabled", FRESH, {}, ("x",)),
    ("enabled", {**verdict.ONE, **PODS}, {}, ("x",)),
    ("reverted", FRESH, ALL, ("x",)),
    ("given", GIVEN, {}, ()),
    (
        "beside",
        BESIDE,
        verdict.ONE_RUNS,
        (REFUSED.format("serving.slice"), REFUSED.format("ml.slice/engine.service")),
    ),
    ("beside-again", BESIDE, {}, (CHANGED,)),
    ("beside-reverted", {**GIVEN, "s/cpuset.cpus": "0-3"}, {}, ("x",)),
    ("taken", TAKEN, {}, ()),
    (
        "last",
        LAST,
        verdict.LAST_RUNS,
        (
            REFUSED.format("serving.slice"),
            "tierc: skipped, ci.slice: needs 1 of CPUs 3, but the group above has 1",
        ),
    ),
    ("last-again", LAST, {}, (CHANGED,)),
    ("last-reverted", {**TAKEN, "s/cpuset.cpus": "1"}, {}, ("x",)),
)


def console() -> str:
    """What a guest prints where everything is as it should be."""
    lines = ["LAB c-code into-the-lane 1"]
    for tag, files, runs, said in STEPS:
        if said:
            lines.append(f"LAB c-code {tag} 0")
        lines += [f"LAB c-out {tag} {line}" for line in said]
        lines += [f"LAB c-file {tag} {path} {value}" for path, value in files.items()]
        lines += [f"LAB c-run {tag} {label} {cpus} {cpus}" for label, cpus in runs.items()]
    return "\n".join(lines) + "\n"


def failed(text: str) -> list[str]:
    return [check.text for check in verdict.check(text) if not check.passed]


def test_what_is_printed_is_read() -> None:
    seen = read("LAB c-file a x.slice/cpuset.cpus \nLAB c-run a . 0,3 0,3\nLAB c-run a x 1 \n")
    assert seen.files == {"a": {"x.slice/cpuset.cpus": ""}}
    assert {label: (str(may), str(on)) for label, (may, on) in seen.runs["a"].items()} == {
        ".": ("0,3", "0,3"),
        "x": ("1", ""),
    }


def test_all_is_well() -> None:
    assert failed(console()) == []
    assert len(failed("")) == len(verdict.check(""))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("file first serving.slice/cpuset.cpus.partition root", "… member"),
        ("file second ci.slice/cpu.weight 100", "… 25"),
        ("file dry cgroup.subtree_control ", "… cpuset"),
        ("file again ci.slice/cpuset.cpus.effective 3", "… 0-3"),
        ("file reverted cpuset.cpus.effective 0-3", "… 0,3"),
        ("file first kubepods/cpu.weight 100", "… 25"),
        ("file beside kubepods/cpu.weight 200", "… 25"),
        ("file beside-reverted ci.slice/cpuset.cpus 0-2", "… 0-3"),
        ("file last-reverted s/cpuset.cpus 1", "… 0-3"),
        ("file last serving.slice/cpuset.cpus.partition member", "… root invalid (x)"),
        ("file taken other/cpuset.cpus.partition root", "… member"),
        ("run first user.slice 0,3 0,3", "… 0-3 0,3"),
        ("run first user.slice 0,3 0,3", "… 0,3 0,2"),
        ("run first user.slice 0,3 0,3", "… 0,3 "),
        ("run reverted pinned 1 1", "… 0-3 1"),
        ("code into-the-lane 1", "… 0"),
        ("code enabled 0", "… 1"),
        ("out beside tierc: skipped, serving.slice: others", "… nothing"),
        ("out last tierc: skipped, ci.slice: needs", "… nothing"),
    ],
)
def test_what_goes_wrong_is_seen(old: str, new: str) -> None:
    text = console()
    assert text.count(f"LAB c-{old}") == 1
    words = old.split(" ")[:3] if old.startswith(("file", "run")) else old.split(" ")[:2]
    assert failed(text.replace(f"LAB c-{old}", f"LAB c-{new.replace('…', ' '.join(words))}"))


def test_a_kernel_may_take_the_partition_beside_another_group() -> None:
    path = "beside serving.slice/cpuset.cpus.partition"
    text = console().replace(f"{path} member", f"{path} root")
    text = text.replace(
        "beside-again serving.slice/cpuset.cpus.partition member",
        "beside-again serving.slice/cpuset.cpus.partition root",
    )
    assert failed(text) == []
    assert failed(text.replace("run beside other 0,3", "run beside other 0-1,3"))


def test_the_guests_shell_can_read_its_script(tool: Callable[[str], str]) -> None:
    done = subprocess.run(
        [tool("busybox"), "sh", "-n"],
        input=guest_script(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "{" + "groups" + "}" not in guest_script()
