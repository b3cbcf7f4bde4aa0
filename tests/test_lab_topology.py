"""The lab's judgement of NUMA nodes, cores and caches, and of `tierc verify` in a guest.

The guests themselves run in the lab only; here it is the judges, and what guests are given.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import stat
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from tests.lab import recorded, scenario_d, scenario_v
from tests.lab.check import Check
from tests.lab.console import Said, times_on
from tests.lab.initramfs import Entry
from tests.lab.interpreter import HOME, interpreter
from tests.lab.machine import NUMA
from tests.lab.scenario import Phase, Result

# Two caches: 0-3 and 4-7, the GPU near 4-7.  The lane is the core 4-5, 0-1 is housekeeping.
LANE_PLAN: Final[Mapping[str, Any]] = {
    "units": [{"intent": "decode", "cpus": "4-5"}, {"intent": "batch", "cpus": "2-3,6-7"}],
    "machine": {"llcs": ["0-3", "4-7"]},
    "defaultBand": 5,
    "rules": [
        {"id": 0, "band": 1, "match": {"comm": "VLLM::EngineCor"}},
        {"id": 1, "band": 2, "match": {"leaderComm": "boss"}},
        {"id": 2, "band": 2, "match": {"cgroup": "lab/**"}},
        {"id": 3, "band": 2, "match": {"kthread": "rcu_*"}},
        {"id": 4, "band": 3, "match": {"comm": "hog*"}},
    ],
}
CORES_PLAN: Final[Mapping[str, Any]] = {
    "units": [{"intent": "decode", "cpus": "4-7"}, {"intent": "roam", "cpus": "2-3"}],
}
# tid -> what the guest lists, and rule and band by the plan above, found by hand.
THREADS: Final = {
    11: ("1|rcu_sched|rcu_sched|/", 3, 2),
    20: ("1|kworker/u34:1-events_unbound|kworker/u34:1-events_unbound|/", 256, 5),
    101: ("0|VLLM::EngineCor|VLLM::EngineCor|/lab", 0, 1),
    102: ("0|VLLM::EngineCo|VLLM::EngineCo|/", 256, 5),
    103: ("0|hog/7|hog/7|/", 4, 3),
    104: ("0|hog|hog|/lab/inner", 2, 2),
    105: ("0|hoh|hoh|/other", 256, 5),
    107: ("0|worker|boss|/", 1, 2),
}


def dump(rows: Mapping[int, tuple[int, int]]) -> str:
    return json.dumps(
        [
            {
                "key": ["0x00"],
                "formatted": {"key": tid, "value": {"rule": rule, "band": band, "cpu": 0}},
            }
            for tid, (rule, band) in rows.items()
        ]
    )


def record(rows: Mapping[int, tuple[int, int]] | None = None) -> str:
    rows = rows or {tid: (rule, band) for tid, (_, rule, band) in THREADS.items()}
    listed = "".join(f"LAB d thread {tid} {text}\n" for tid, (text, _, _) in THREADS.items())
    return (
        f"LAB d recorded-before []\nLAB d recorded-on {dump(rows)}\n{listed}"
        f"LAB d asked  101 102 103 104 105 107\nLAB d recorded-off {dump(rows)}\nLAB d late 200\n"
    )


CONSOLE: Final = """\
LAB d gpu numa=1 cpus=4-7
LAB d eevdf-decode steps_per_s=100.0 p99_us=9000 cpus=3:40,5:20
LAB d eevdf-hogs cpu_ms=5000 least_ms=400 most_ms=600 cpus=0:9,1:9,2:9,3:9,4:9,5:9,6:9,7:9
LAB d eevdf-pair together=30 same_core=29 cpus=0:30,1:30
LAB d seeded-decode steps_per_s=400.0 p99_us=300 cpus=4:200,5:40
LAB d seeded-hogs cpu_ms=2800 least_ms=240 most_ms=400 cpus=2:700,3:700,6:700,7:700
LAB d seeded-pair together=30 same_core=3 cpus=4:15,5:15,6:15,7:15
LAB d roam-2 cpu_ms=600 least_ms=300 most_ms=300 cpus=2:1500,3:1500
LAB d roam-4 cpu_ms=1200 least_ms=300 most_ms=300 cpus=0:900,2:1500,3:1500,6:900
LAB d roam-busy cpu_ms=1200 least_ms=300 most_ms=300 cpus=0:900,4:1500,5:1500,6:900
LAB d wake-roam steps_per_s=400.0 p99_us=1000 cpus=0:100,6:20
LAB d wake-spinners cpu_ms=780 least_ms=380 most_ms=400 cpus=2:1900,3:1900
""" + record()


def judge(console: str) -> list[Check]:
    plans = {"gpu": LANE_PLAN, "cores": CORES_PLAN}
    return list(scenario_d.judge(Result(console, plans, NUMA)).checks)


def test_a_guest_where_all_holds_passes() -> None:
    checks = judge(CONSOLE)
    assert len(checks) == 20
    assert [check.text for check in checks if not check.passed] == []
    report = scenario_d.judge(Result(CONSOLE, {"gpu": LANE_PLAN, "cores": CORES_PLAN}, NUMA))
    assert report.notes == ["under EEVDF the pair shared a core in 29 of 30 rounds"]


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ("gpu numa=1", "gpu numa=0", "on node 1"),
        ("gpu numa=1 cpus=4-7", "gpu numa=1 cpus=6-7", "on node 1"),
        ("cpus=4:200,5:40", "cpus=4:200,6:1", "decode ran on the lane only"),
        ("cpus=4:200,5:40", "cpus=", "decode ran on the lane only"),
        ("cpus=2:700,3:700,6:700,7:700", "cpus=2:700,4:1,6:700,7:700", "nowhere else"),
        ("cpus=2:700,3:700,6:700,7:700", "cpus=2:700,3:700,7:700", "hogs ran on all of"),
        ("cpus=2:700,3:700,6:700,7:700", "cpus=2:200,3:200,6:900,7:900", "percent of its share"),
        ("least_ms=240 most_ms=400", "least_ms=237 most_ms=400", "percent of a fair share"),
        ("p99_us=1000", "p99_us=1001", "soft domain a higher tier has"),
        ("cpus=2:1900,3:1900", "cpus=2:1900,4:1900", "but for floors"),
        ("cpus=4:15,5:15,6:15,7:15", "cpus=4:15,5:15,6:15,3:15", "pair ran at the GPU"),
        ("seeded-pair together=30", "seeded-pair together=26", "both of the pair ran"),
        ("same_core=3", "same_core=4", "shared a core"),
        ("cpus=2:1500,3:1500\n", "cpus=2:1500,3:1100,0:400\n", "in their soft domain 2-3: 87"),
        ("cpus=0:900,2:1500,3:1500,6:900", "cpus=2:1500,3:1500", "4 threads leave it"),
        ("roam-4 cpu_ms=1200", "roam-4 cpu_ms=900", "CPU time of these 4"),
        ("roam-busy cpu_ms=1200", "roam-busy cpu_ms=900", "beside hogs"),
        ("recorded-before []", f"recorded-before {dump({1: (256, 5)})}", "before that is"),
        ("asked  101", "asked  100 101", "threads that run are recorded"),
        ("late 200", "late 107", "switched off"),
        ("late 200", "late 0", "switched off"),
        ("LAB d thread 107 0|worker|boss|/", "LAB d thread 107 0|worker|bos|/", "first match"),
    ],
)
def test_each_check_can_fail(old: str, new: str, text: str) -> None:
    assert old in CONSOLE
    failed = [check.text for check in judge(CONSOLE.replace(old, new)) if not check.passed]
    assert any(text in one for one in failed), failed


def test_a_missing_line_is_a_failed_check() -> None:
    for line in CONSOLE.splitlines():
        if "thread" not in line:
            checks = judge(CONSOLE.replace(f"{line}\n", ""))
            assert not all(check.passed for check in checks), line


def test_no_gpu_is_a_failed_check() -> None:
    (check,) = judge(CONSOLE.replace("gpu numa=1", "gpu numa=-1"))
    assert not check.passed


@pytest.mark.parametrize("tid", sorted(THREADS))
def test_a_rule_is_the_first_that_matches(tid: int) -> None:
    thread = recorded.threads(Said(CONSOLE))[tid]
    assert recorded.expected(LANE_PLAN, thread) == THREADS[tid][1:]


@pytest.mark.parametrize("wrong", [(4, 3), (2, 3), (256, 5)])
def test_a_wrong_record_is_named(wrong: tuple[int, int]) -> None:
    rows = {tid: (rule, band) for tid, (_, rule, band) in THREADS.items()}
    (check,) = (
        check
        for check in recorded.check_recorded(Said(record({**rows, 104: wrong})), LANE_PLAN)
        if "first match" in check.text
    )
    assert not check.passed
    assert f'104 comm "hog", leader comm "hog", cgroup "lab/inner", cmdline "": {wrong}' in (
        check.text
    )


def test_a_kind_of_rule_that_no_thread_has_is_noticed() -> None:
    rows = {tid: (rule, band) for tid, (_, rule, band) in THREADS.items() if tid != 11}
    checks = recorded.check_recorded(Said(record(rows)), LANE_PLAN)
    assert [check.passed for check in checks] == [True, True, True, False, True]


def test_what_the_guest_is_asked_names_policies_of_the_scenario() -> None:
    steps = scenario_d.steps(NUMA)
    assert {step.policy for step in steps} - {""} == set(scenario_d.SCENARIO.policies)
    assert all(bool(step.policy) == (step.phase is Phase.SEEDED) for step in steps)


# --- The load ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("gcc") is None:
        pytest.skip("no gcc")
    program = tmp_path_factory.mktemp("place") / "place"
    source = Path(scenario_d.__file__).parent / "payload" / "place.c"
    flags = ["-O2", "-Wall", "-Wextra", "-Werror", "-pthread"]
    subprocess.run(["gcc", *flags, source, "-o", program], check=True)
    return program


def said(place: Path, *arguments: str) -> str:
    done = subprocess.run([place, *arguments], capture_output=True, text=True, check=True)
    return done.stdout


def test_loads_tell_where_they_ran(place: Path) -> None:
    allowed = os.sched_getaffinity(0)
    spin = said(place, "spin", "hog", "3", "0.05")
    assert spin.startswith("cpu_ms=")
    assert times_on(spin).keys() <= allowed
    steps = said(place, "steps", "decode", "0.05")
    assert 1 <= sum(times_on(steps).values()) <= 25  # 2.3 ms each, at least
    pair = said(place, "pair", "decode", "5")
    assert sum(times_on(pair).values()) == 10


def test_a_pair_on_one_cpu_is_seen_to_share_it(place: Path) -> None:
    cpu = min(os.sched_getaffinity(0))
    done = subprocess.run(
        ["taskset", "-c", str(cpu), place, "pair", "decode", "5"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert times_on(done.stdout) == {cpu: 10}
    together, same = (int(word.split("=")[1]) for word in done.stdout.split()[:2])
    assert together == same


def test_a_team_has_a_leader_and_a_thread_of_another_name(place: Path) -> None:
    with subprocess.Popen([place, "team", "boss", "worker", "1"]) as team:
        seen = set()
        while team.poll() is None and ("boss", "worker") not in seen:
            with contextlib.suppress(OSError):  # it ends meanwhile
                tasks = sorted(Path(f"/proc/{team.pid}/task").iterdir())
                seen.add(tuple((task / "comm").read_text().strip() for task in tasks))
            time.sleep(0.005)
        assert ("boss", "worker") in seen
    assert team.returncode == 0


def test_wrong_usage_of_the_load_is_refused(place: Path) -> None:
    for arguments in ((), ("spin", "hog", "65", "1"), ("steps", "x"), ("dance", "x", "1")):
        done = subprocess.run([place, *arguments], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith("usage: place ")


# --- Verify ------------------------------------------------------------------------------------

VERIFY_PLAN: Final[Mapping[str, Any]] = {
    "units": [
        {"name": "decode/match", "intent": "decode", "cpus": "4-5"},
        {"name": "front/match", "intent": "front", "cpus": "0-3,6-7"},
        {"name": "batch/match", "intent": "batch", "cpus": "2-3,6-7"},
    ],
}


def finding(code: str, severity: str, message: str, *rows: str) -> dict[str, Any]:
    return {"code": code, "severity": severity, "message": message, "rows": list(rows)}


def verified(code: int, *findings: dict[str, Any], **fields: Any) -> tuple[int, dict[str, Any]]:
    return code, {"findings": list(findings), "units": [], "interrupts": [], **fields}


def units(*counts: int) -> list[dict[str, Any]]:
    return [
        {"name": unit["name"], "threads": count, "right": count}
        for unit, count in zip(VERIFY_PLAN["units"], counts, strict=True)
    ]


REPORTS: Final = {
    "planned": verified(
        0,
        finding("TRC729", "info", "3 user threads have no rule"),
        units=units(2, 2, 3),
        matched=[
            {"comm": "VLLM::EngineCor", "planned": "4-5"},
            {"comm": "worker", "planned": "0-3,6-7"},
            {"comm": "hog/2", "planned": "2-3,6-7"},
        ],
        scheduler={"ours": True, "tables": [], "compared": 9, "recordedThreads": 40},
        machine={"cpus": "planned", "devices": "planned"},
        interrupts=[{"right": True, "allowed": "4-5"}],
    ),
    "pinned": verified(1, finding("TRC726", "error", "1 thread of batch", "12/12 hog/0: allowed")),
    "nobody": verified(1, finding("TRC730", "warning", "no thread matches front")),
    "interrupt": verified(
        1,
        finding("TRC732", "error", "1 interrupt", "irq 10"),
        interrupts=[{"right": False, "moved": True, "allowed": "0"}],
    ),
    "offline": verified(1, finding("TRC721", "warning", "CPU 7 is offline")),
    "disabled": verified(1, finding("TRC733", "error", "loaded, though /etc/tierc/disabled")),
    "other": verified(1, finding("TRC735", "error", "which is not this seed's")),
    "again": verified(0, finding("TRC730", "warning", "no thread matches front")),
    "changed": verified(1, finding("TRC735", "error", "slot 1 has other content")),
    "ejected": verified(1, finding("TRC733", "error", "none is loaded", "it ended (kind 66)")),
    "affinity": verified(1, finding("TRC733", "error", "none is loaded"), units=units(2, 0, 3)),
}


def console_of(reports: Mapping[str, tuple[int, Mapping[str, Any]]]) -> str:
    lines = [f"LAB v {name} {code} {json.dumps(one)}\n" for name, (code, one) in reports.items()]
    return "".join(["LAB irq apply 0\n", *lines, "LAB taskset apply 0\n"])


def failures(reports: Mapping[str, tuple[int, Mapping[str, Any]]]) -> list[str]:
    checks = scenario_v.check(console_of(reports), VERIFY_PLAN)
    return [check.text for check in checks if not check.passed]


def test_reports_of_a_guest_where_verify_is_right_pass() -> None:
    assert failures(REPORTS) == []


@pytest.mark.parametrize("name", sorted(REPORTS))
def test_each_report_matters(name: str) -> None:
    code, report = REPORTS[name]
    rest = {other: one for other, one in REPORTS.items() if other != name}
    assert failures(rest)
    assert failures({**REPORTS, name: (1 - code, report)})
    silent = {**report, "findings": []}
    assert name in ("planned", "again") or failures({**REPORTS, name: (code, silent)})


@pytest.mark.parametrize(
    "change",
    [
        {"findings": [finding("TRC738", "warning", "1 thread has another rule")]},
        {"units": units(2, 1, 3)},
        {"matched": []},
        {"scheduler": {"ours": True, "tables": [{}], "compared": 9, "recordedThreads": 40}},
        {"scheduler": {"ours": True, "tables": [], "compared": 8, "recordedThreads": 40}},
        {"scheduler": {"ours": True, "tables": [], "compared": 9, "recordedThreads": 0}},
        {"scheduler": {"ours": True, "tables": [], "compared": 9, "recordedThreads": None}},
        {"machine": {"cpus": "planned", "devices": "other"}},
        {"interrupts": []},
        {"interrupts": [{"right": True, "allowed": "0-3"}]},
    ],
)
def test_what_the_report_of_the_planned_node_says_matters(change: dict[str, Any]) -> None:
    code, report = REPORTS["planned"]
    assert failures({**REPORTS, "planned": (code, {**report, **change})})


def test_an_interrupt_nobody_moved_and_threads_left_alone_are_noticed() -> None:
    code, report = REPORTS["interrupt"]
    untold = {**report, "interrupts": [{"right": False, "moved": False, "allowed": "0"}]}
    assert failures({**REPORTS, "interrupt": (code, untold)})
    code, report = REPORTS["affinity"]
    assert failures({**REPORTS, "affinity": (code, {**report, "units": units(2, 0, 2)})})


def test_a_finding_that_must_not_be_there_is_noticed() -> None:
    code, report = REPORTS["offline"]
    more = [*report["findings"], finding("TRC738", "warning", "1 thread has another rule")]
    (text,) = failures({**REPORTS, "offline": (code, {**report, "findings": more})})
    assert text == "a CPU offline: exit code 1, TRC721, TRC738"


def test_a_script_that_fails_is_noticed() -> None:
    console = console_of(REPORTS).replace("LAB irq apply 0", "LAB irq apply 3")
    checks = scenario_v.check(console, VERIFY_PLAN)
    assert [check.text for check in checks if not check.passed] == ["irq/apply.sh ends well"]


# --- The guest's interpreter -------------------------------------------------------------------


def unpack(files: Mapping[str, Entry], root: Path) -> None:
    for name, entry in files.items():
        path = root / name
        if stat.S_ISDIR(entry.mode):
            path.mkdir(parents=True)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(entry.data)
            path.chmod(entry.mode & 0o777)


def test_the_interpreter_of_the_guest_runs_tierc_by_itself(tmp_path: Path) -> None:
    files = interpreter(tmp_path, "rule", "TRC735")
    assert not any(name.endswith(".py") for name in files)
    unpack(files, tmp_path / "root")
    done = subprocess.run(
        [tmp_path / "root" / HOME / "bin/python3", "-m", "compiler", "rule", "TRC735"],
        cwd="/",
        env={
            "PYTHONHOME": str(tmp_path / "root" / HOME),
            "LD_LIBRARY_PATH": str(tmp_path / "root/lib"),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "TRC735" in done.stdout
