"""What comes out for the machines of the examples, worked out by hand.

Each answer is reasoned from docs/placement.md and the shape of the machine; none is copied from a
plan.  Golden trees (tests/test_examples.py) show that nothing changed unseen, this shows that what
they hold is right.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from compiler.cli import app
from compiler.cpuset import CpuSet, union
from tests.conftest import ROOT
from tests.examples import EXAMPLES

NODES = {"dgx-spark": ["spark-a"], "workstation": ["ws-a"], "hgx": ["hgx-a"],
         "grace": ["gb200-a", "gh200-a"],
         "mixed-fleet": ["edge-a", "hgx-a", "spark-a", "spark-b", "ws-a"]}  # fmt: skip
HOSTS = [(name, node) for name, nodes in NODES.items() for node in nodes]

Plan = dict[str, Any]


def run(*args: str | Path) -> tuple[int, str]:
    """Run a command in this process and return exit code and output.

    test_examples.py runs commands as users do; here it would cost most of the time.
    """
    result = CliRunner().invoke(app, [str(arg) for arg in args])
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result.exit_code, result.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, tuple[Path, str]]:
    """For each example its tree and what was printed."""
    trees = {}
    for name in EXAMPLES:
        out = tmp_path_factory.mktemp(name) / "out"
        code, printed = run("build", ROOT / "examples" / name, "-o", out)
        assert code == 0
        trees[name] = (out, printed)
    return trees


def plan_in(tree: Path, node: str) -> Plan:
    loaded: Plan = json.loads((tree / f"nodes/{node}/plan.json").read_text())
    return loaded


def lanes(plan: Plan) -> dict[str, CpuSet]:
    return {lane["name"]: CpuSet.parse(lane["cpus"]) for lane in plan["lanes"]}


def cpus(plan: Plan, what: str) -> CpuSet:
    """Return the CPUs of a lane, a unit, or of housekeeping or leftovers."""
    if what in ("housekeeping", "leftovers", "shared"):
        return CpuSet.parse(plan[what])
    found = [one["cpus"] for one in (*plan["lanes"], *plan["units"]) if one["name"] == what]
    assert len(found) == 1, what
    return CpuSet.parse(found[0])


def tier(plan: Plan, unit: str) -> str:
    names = {row["id"]: row["name"] for row in plan["tiers"]}
    (of,) = [one["tier"] for one in plan["units"] if one["name"] == unit]
    return str(names[of])


def threads(first: int, last: int, apart: int) -> CpuSet:
    """Return cores by their first threads, with the second ones, which are ``apart`` higher."""
    return CpuSet.parse(f"{first}-{last},{first + apart}-{last + apart}")


# --- every example ------------------------------------------------------------------------------


def test_every_example_that_builds_is_asked() -> None:
    assert set(NODES) == set(EXAMPLES)


@pytest.mark.parametrize(("name", "node"), HOSTS)
def test_no_lane_splits_a_core_and_nobody_is_given_a_cpu_twice(
    built: Mapping[str, tuple[Path, str]], name: str, node: str
) -> None:
    plan = plan_in(built[name][0], node)
    cores = [CpuSet.parse(core) for core in plan["machine"]["cores"]]
    parts = [cpus(plan, "housekeeping"), *lanes(plan).values(), cpus(plan, "leftovers")]
    for part in parts:
        assert part
        assert all(core <= part or core.isdisjoint(part) for core in cores)
    # on none of these machines is a core left to nobody
    assert sum(map(len, parts)) == len(CpuSet.parse(plan["machine"]["online"]))
    assert union(parts) == CpuSet.parse(plan["machine"]["online"])


@pytest.mark.parametrize(("name", "node"), HOSTS)
def test_demoted_work_meets_neither_lanes_nor_node_software(
    built: Mapping[str, tuple[Path, str]], name: str, node: str
) -> None:
    plan = plan_in(built[name][0], node)
    demoted = "ci" if name == "workstation" else "batch"
    assert tier(plan, demoted) == "background"
    assert cpus(plan, demoted) == cpus(plan, "leftovers")
    assert tier(plan, "node-infra") == "system"
    # guarded lanes keep system out, everything else is its own
    assert cpus(plan, "node-infra") == cpus(plan, "shared")


# --- dgx-spark ----------------------------------------------------------------------------------


def test_dgx_spark(built: Mapping[str, tuple[Path, str]]) -> None:
    """20 cores without SMT; fast ones are 5-9 (cache 0-9) and 15-19 (cache 10-19).

    Housekeeping: 5 % of 20 is 1, two are the least; slow cores first, lowest ids: 0-1.
    The lane prefers fast cores and grows to six.  No cache has six fast ones, so any such set has
    two caches; of these the lowest ids: 5-9 and the first of the other five.
    """
    plan = plan_in(built["dgx-spark"][0], "spark-a")
    assert lanes(plan) == {"serving": CpuSet.parse("5-9,15")}
    assert cpus(plan, "housekeeping") == CpuSet.parse("0-1")
    assert cpus(plan, "leftovers") == CpuSet.parse("2-4,10-14,16-19")


# --- workstation --------------------------------------------------------------------------------


def edited(tmp_path: Path, *, spinning: bool = True, believed: bool = False) -> Path:
    """Return a copy of the workstation as its README says to change it."""
    root = tmp_path / "workstation"
    shutil.copytree(ROOT / "examples/workstation", root)
    edits = [("tierc.yaml", "[intents/, sleeping/]", "[intents/, spinning/]")] * spinning
    edits += [("spinning/demand.yaml", "spinSuspect: true", "spinSuspect: false")] * believed
    for file, old, new in edits:
        text = (root / file).read_text()
        assert text.count(old) == 1
        (root / file).write_text(text.replace(old, new))
    return root


def found(root: Path) -> list[tuple[str, str, str]]:
    """Return code, severity and message of what lint reports."""
    _, printed = run("lint", root, "--format", "json")
    rows = json.loads(printed)["diagnostics"]
    return [(row["code"], row["severity"], row["message"]) for row in rows]


def test_the_spinning_reading_is_refused_and_the_reason_is_said(tmp_path: Path) -> None:
    root = edited(tmp_path)
    reports = {code: (severity, message) for code, severity, message in found(root)}
    assert set(reports) == {"TRC317", "TRC213"}
    severity, message = reports["TRC317"]
    assert severity == "error"
    for word in ("coder-spinning", "spin loop", "polling engine", "whether it works or waits"):
        assert word in message
    # and what to do: the knob of this version is named beside it
    severity, message = reports["TRC213"]
    assert (severity, "2 cores busy while it waits" in message) == ("warning", True)
    assert "--sleep-on-idle" in run("lint", root)[1]
    code, _ = run("build", root, "-o", tmp_path / "out")
    assert code == 1
    assert not (tmp_path / "out").exists()


def test_believing_the_reading_gives_twelve_and_four(tmp_path: Path) -> None:
    """The reading is 2.0 to 11.3 cores, in whole cores 2 to 12.

    16 cores: 2 for housekeeping (5 % is 1, two are the least), so 14 could be given, and growth
    leaves one for demoted work.  So the lane has 12, and two caches since one has only 8 cores;
    of the sets in two caches the lowest ids, behind housekeeping's 0 and 1: cores 2-13.  The
    cores 14 and 15 are left.
    """
    root = edited(tmp_path, believed=True)
    code, _ = run("build", root, "-o", tmp_path / "out")
    assert code == 0
    plan = plan_in(tmp_path / "out", "ws-a")
    assert lanes(plan) == {"production": threads(2, 13, 16)}
    assert cpus(plan, "housekeeping") == threads(0, 1, 16)
    assert cpus(plan, "ci") == threads(14, 15, 16)
    # it prefers one cache and cannot have it, which is said
    assert [row["kind"] for row in plan["degradations"]] == ["same-llc"]


def test_measured_with_sleep_it_is_four_and_twelve(
    built: Mapping[str, tuple[Path, str]], tmp_path: Path
) -> None:
    """The reading is 0.07 to 3.4 cores, in whole cores 1 to 4.

    The GPUs are near all CPUs, so only the cache decides: four cores of one cache are to be had
    behind housekeeping's 0 and 1 in the first cache (cores 0-7): cores 2-5.
    """
    plan = plan_in(built["workstation"][0], "ws-a")
    assert lanes(plan) == {"production": threads(2, 5, 16)}
    assert cpus(plan, "housekeeping") == threads(0, 1, 16)
    assert cpus(plan, "ci") == threads(6, 15, 16)
    assert plan["degradations"] == []
    (lane,) = plan["lanes"]
    assert (lane["minCores"], lane["maxCores"], lane["cores"]) == (1, 4, 4)
    assert found(ROOT / "examples/workstation") == []
    # a lane of the same intents, the measurement apart: nothing else was changed
    assert found(edited(tmp_path, spinning=False)) == []


def test_production_and_inference_share_the_four_cores(
    built: Mapping[str, tuple[Path, str]],
) -> None:
    plan = plan_in(built["workstation"][0], "ws-a")
    (lane,) = plan["lanes"]
    assert lane["intents"] == ["coder", "web"]
    lived_in = {unit["name"]: CpuSet.parse(unit["cpus"]) for unit in plan["units"]}
    inside = {name for name, where in lived_in.items() if where == threads(2, 5, 16)}
    assert inside >= {"web", "coder/engine-step", "coder/api", "coder/detokenizer"}
    # the step loop goes before both servers
    assert tier(plan, "coder/engine-step") == "latency"
    assert tier(plan, "coder/api") == tier(plan, "web") == "interactive"


# --- hgx ----------------------------------------------------------------------------------------

SOCKETS = (threads(0, 55, 112), threads(56, 111, 112))
FIRST_GPUS = ["0000:1b:00.0", "0000:43:00.0", "0000:52:00.0", "0000:61:00.0"]
SECOND_GPUS = ["0000:9d:00.0", "0000:c3:00.0", "0000:d1:00.0", "0000:df:00.0"]


def test_hgx(built: Mapping[str, tuple[Path, str]]) -> None:
    """2 x 56 cores; core n has CPUs n and n+112; 4 GPUs and 4 NICs on either socket.

    Housekeeping: 5 % of 112 is 5.6, so 6 cores, the lowest: 0-5.
    chat: 8 to 16 cores for each socket.  code: no size, one engine of four GPUs, which fits into
    either socket: 4 workers + engine step 1 to 2 + API server 1 to 2, so 6 to 8 for each socket.
    The most of all is 2 x 16 + 2 x 8 = 48 of 106, so all grow to it.
    chat comes first (``above``).  On socket 0 it has the lowest cores behind housekeeping: 6-21;
    code the next eight: 22-29.  On socket 1: 56-71, and 72-79.  Each socket is one cache.
    """
    plan = plan_in(built["hgx"][0], "hgx-a")
    assert cpus(plan, "housekeeping") == threads(0, 5, 112)
    assert lanes(plan) == {
        "chat@numa0": threads(6, 21, 112),
        "chat@numa1": threads(56, 71, 112),
        "code@numa0": threads(22, 29, 112),
        "code@numa1": threads(72, 79, 112),
    }
    sizes = {one["name"]: (one["minCores"], one["maxCores"]) for one in plan["lanes"]}
    assert sizes["chat@numa0"] == sizes["chat@numa1"] == (8, 16)
    assert sizes["code@numa0"] == sizes["code@numa1"] == (6, 8)
    assert cpus(plan, "leftovers") == threads(30, 55, 112) | threads(80, 111, 112)
    assert plan["degradations"] == []


@pytest.mark.parametrize("model", ["chat", "code"])
def test_each_member_is_near_its_gpus(built: Mapping[str, tuple[Path, str]], model: str) -> None:
    plan = plan_in(built["hgx"][0], "hgx-a")
    members = {one["name"]: one for one in plan["lanes"] if one["family"] == model}
    assert sorted(members) == [f"{model}@numa0", f"{model}@numa1"]
    for number, gpus in enumerate((FIRST_GPUS, SECOND_GPUS)):
        member = members[f"{model}@numa{number}"]
        assert member["devices"] == gpus
        assert CpuSet.parse(member["cpus"]) <= SOCKETS[number]


def test_the_two_models_are_told_apart_by_where_they_run() -> None:
    seen = {}
    for slice_ in ("chat.slice/vllm@0.service", "code.slice/vllm.service"):
        _, printed = run(
            "explain", "hgx-a", "-p", ROOT / "examples/hgx", "--format", "json", "--comm",
            "VLLM::EngineCor", "--cgroup", slice_, "--leader-comm", "VLLM::EngineCor",
            "--cmdline", "VLLM::EngineCore",
        )  # fmt: skip
        answer = json.loads(printed)
        assert answer["possible"] == []
        winner = answer["winner"]
        seen[slice_.split(".")[0]] = (winner["unit"], CpuSet.parse(winner["cpus"]))
    assert seen["chat"] == ("chat/engine-step", threads(6, 21, 112) | threads(56, 71, 112))
    assert seen["code"] == ("code/engine-step", threads(22, 29, 112) | threads(72, 79, 112))


# --- grace --------------------------------------------------------------------------------------


def test_gh200(built: Mapping[str, tuple[Path, str]]) -> None:
    """72 cores without SMT, one GPU near all of them: an ordinary lane, though there are 9 nodes.

    Housekeeping: 5 % of 72 is 3.6, so 4 cores: 0-3.  The lane grows to 12: 4-15.
    """
    plan = plan_in(built["grace"][0], "gh200-a")
    assert cpus(plan, "housekeeping") == CpuSet.parse("0-3")
    assert lanes(plan) == {"serving": CpuSet.parse("4-15")}
    assert cpus(plan, "leftovers") == CpuSet.parse("16-71")
    assert plan["lanes"][0]["devices"] == ["0009:01:00.0"]


def test_gb200(built: Mapping[str, tuple[Path, str]]) -> None:
    """2 x 72 cores, two GPUs on either socket: a family of two, though there are 34 nodes.

    Housekeeping: 5 % of 144 is 7.2, so 8 cores: 0-7.  12 cores for each member: on socket 0 behind
    housekeeping, 8-19; on socket 1 the lowest, 72-83.
    """
    plan = plan_in(built["grace"][0], "gb200-a")
    assert cpus(plan, "housekeeping") == CpuSet.parse("0-7")
    assert lanes(plan) == {
        "serving@numa0": CpuSet.parse("8-19"),
        "serving@numa1": CpuSet.parse("72-83"),
    }
    assert cpus(plan, "leftovers") == CpuSet.parse("20-71,84-143")
    assert [lane["devices"] for lane in plan["lanes"]] == [
        ["0008:01:00.0", "0009:01:00.0"],
        ["0018:01:00.0", "0019:01:00.0"],
    ]


@pytest.mark.parametrize("node", NODES["grace"])
def test_nothing_is_said_of_nodes_without_cpus(
    built: Mapping[str, tuple[Path, str]], node: str
) -> None:
    """No list of CPUs is empty, and no script names a NUMA node at all."""
    tree = built["grace"][0]
    plan = plan_in(tree, node)
    everywhere = [*lanes(plan).values(), *(CpuSet.parse(u["cpus"]) for u in plan["units"])]
    everywhere += [CpuSet.parse(band["cpus"]) for band in plan["bands"]]
    assert all(everywhere)
    script = (tree / f"nodes/{node}/taskset/apply.sh").read_text()
    assert "numactl" not in script
    assert "membind" not in script


# --- mixed-fleet --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("node", "mode", "wanted"),
    [
        # As on dgx-spark: six fast cores, in two caches because no cache has six.
        ("spark-a", "sched_ext", {"serving": CpuSet.parse("5-9,15")}),
        ("spark-b", "sched_ext", {"serving": CpuSet.parse("5-9,15")}),
        # 16 cores, thread n+16 beside n.  Both GPUs are near everything, so one lane; node software
        # has 0 and 1, and the six others of the first cache are just enough.
        ("ws-a", "sched_ext", {"serving": threads(2, 7, 16)}),
        # Node software has six of 112 cores, the lowest; four GPUs on either socket.
        (
            "hgx-a",
            "sched_ext",
            {"serving@numa0": threads(6, 11, 112), "serving@numa1": threads(56, 61, 112)},
        ),
        # Eight cores: node software two, and a lane grows only as long as one core is left.
        ("edge-a", "fallback", {"serving": threads(2, 6, 8)}),
    ],
)
def test_one_set_of_intents_on_every_machine(
    built: Mapping[str, tuple[Path, str]], node: str, mode: str, wanted: dict[str, CpuSet]
) -> None:
    plan = plan_in(built["mixed-fleet"][0], node)
    assert plan["mode"] == mode
    assert lanes(plan) == wanted
    assert tier(plan, "chat/engine-step") == "latency"


def test_equal_nodes_have_equal_files(built: Mapping[str, tuple[Path, str]]) -> None:
    nodes = built["mixed-fleet"][0] / "nodes"
    first, second = (
        {
            path.relative_to(nodes / name): path.read_bytes()
            for path in (nodes / name).rglob("*")
            if path.is_file()
        }
        for name in ("spark-a", "spark-b")
    )
    assert first == second


def test_a_node_that_is_too_small_is_left_out_and_it_is_said(
    built: Mapping[str, tuple[Path, str]],
) -> None:
    tree, printed = built["mixed-fleet"]
    assert not (tree / "nodes/vm-a").exists()
    assert "vm-a: no plan" in printed
    code, said = run("lint", ROOT / "examples/mixed-fleet")
    assert code == 0
    assert "warning[TRC401]: no plan for this node: lane serving needs 3 cores" in said


def test_the_node_that_cannot_run_the_scheduler_gets_no_seeds(
    built: Mapping[str, tuple[Path, str]],
) -> None:
    nodes = built["mixed-fleet"][0] / "nodes"
    with_seeds = {path.parent.parent.name for path in nodes.glob("*/bpf/seed.json")}
    assert with_seeds == {"hgx-a", "spark-a", "spark-b", "ws-a"}
    assert (nodes / "edge-a/taskset/apply.sh").exists()
    _, said = run("lint", ROOT / "examples/mixed-fleet")
    assert "the kernel is PREEMPT_RT" in said


# --- what the pages of the examples show --------------------------------------------------------


def page(name: str) -> str:
    return (ROOT / f"examples/{name}/README.md").read_text()


def decisions(printed: str) -> str:
    return printed.rsplit("\n", 2)[0]


@pytest.mark.parametrize("name", ["workstation", "hgx", "grace", "mixed-fleet"])
def test_the_pages_show_what_is_printed(built: Mapping[str, tuple[Path, str]], name: str) -> None:
    assert f"```text\n{decisions(built[name][1])}\n```" in page(name)
    assert f"`tierc build examples/{name} -o out/{name}`" in page(name)


def test_the_page_of_the_workstation_shows_the_error_and_the_old_split(tmp_path: Path) -> None:
    root = edited(tmp_path)
    said = run("lint", root)[1].replace(f"{root}/", "")
    shown = page("workstation").split("```text\n")[1].split("\n```")[0]
    assert shown.startswith("error[TRC317]")
    assert f"{shown}\n" in said
    shutil.rmtree(root)
    _, printed = run("build", edited(tmp_path, believed=True), "-o", tmp_path / "out")
    assert f"```text\n{decisions(printed)}\n```" in page("workstation")


def test_every_example_is_listed_and_every_link_leads_somewhere() -> None:
    listing = (ROOT / "docs/examples.md").read_text()
    for path in (ROOT / "examples").glob("*/tierc.yaml"):
        assert f"(../examples/{path.parent.name}" in listing
    for readme in (ROOT / "examples").glob("*/README.md"):
        for target in readme.read_text().split("](")[1:]:
            assert (readme.parent / target.split(")")[0]).exists(), target
