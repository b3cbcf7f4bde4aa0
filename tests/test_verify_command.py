"""``tierc verify`` as it is called: wrong input, reports, exit codes, and this machine itself."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from compiler.__main__ import main
from compiler.artifact import canonical_json
from compiler.catalog import all_codes
from compiler.codes import verify as verify_codes
from compiler.diagnostics import Code
from compiler.plan import PLAN_VERSION
from compiler.verify import NodeDirError, load_node_dir
from tests.bpf_plans import RICH_RULES
from tests.conftest import ROOT
from tests.taskset_live import worker
from tests.taskset_machine import ONE, TWO
from tests.taskset_plans import FIRST, SECOND, rule
from tests.taskset_plans import plan as live_plan
from tests.verify_host import EVERY, LANE, OTHERS, Node, edit, irqs

pytest_plugins = ["tests.taskset_fixtures"]

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


@pytest.fixture
def run(node: Node, capsys: pytest.CaptureFixture[str]) -> Run:
    def verify(*options: str, directory: Path | None = None) -> tuple[int, str, str]:
        where = str(directory or node.tmp / "node")
        code = main(["verify", where, "--root", str(node.root), *options])
        out, err = capsys.readouterr()
        return code, out, err

    return verify


# --- exit codes and reports -----------------------------------------------------------------------


def test_a_node_as_planned(node: Node, run: Run) -> None:
    node.thread(10, "engine", allowed="0")
    node.build(node.plan(rule(0, LANE, comm="engine")))
    code, out, err = run("--color", "never")
    assert (code, err) == (0, "")
    assert out.startswith(f"{node.tmp}/node: the node matches its plan\n\n")
    assert "enforced   CPU affinity (by taskset/apply.sh)\n" in out
    assert "machine    as planned, CPUs 0-3; devices as planned\n" in out
    assert "1 in 1 process: 1 have a rule, 0 of users have none, 0 of the kernel have none" in out
    assert re.search(r"(?m)^unit-0 +latency +0 +1 +1 +0 +0 +0$", out)
    assert re.search(r"(?m)^serving +latency +0 +guarded +1 +0 +0$", out)


def test_a_node_that_differs(node: Node, run: Run) -> None:
    node.thread(10, "engine", allowed="0-1")
    node.build(node.plan(rule(0, LANE, comm="engine")))
    code, out, _ = run("--color", "never")
    assert code == 1
    assert "error[TRC725]: 1 thread of unit-0 may run outside the CPUs of their rule\n" in out
    assert "  10/10 engine: allowed 0-1, planned 0\n" in out
    assert "  = help: run taskset/apply.sh as root\n" in out
    assert "\x1b" not in out
    assert "\x1b[1;31m" in run("--color", "always")[1]


def test_fail_on(node: Node, run: Run) -> None:
    node.disable()
    node.thread(10, "nobody")
    node.build(node.plan())
    assert run()[0] == 0
    assert run("--fail-on", "warning")[0] == 1
    (node.root / "etc/tierc/disabled").unlink()
    assert run("--fail-on", "warning")[0] == 0
    assert run("--fail-on", "info")[0] == 1


def test_json_is_what_the_page_says(node: Node, run: Run) -> None:
    node.thread(10, "engine", allowed="0-1")
    node.thread(20, b"\xff\n", ticks=250, cpu=3, state="R")
    node.irq(30, "0000:01:00.0", "0")
    change = {"irqs": (irqs("0000:01:00.0", "2-3"),)}
    node.build(node.plan(rule(0, LANE, comm="engine"), rule(1, OTHERS, comm="x"), change=change))
    code, out, _ = run("--format", "json")
    shown = json.loads(out)
    assert (code, shown["version"], shown["matches"]) == (1, 1, False)
    assert shown["different"] == [
        {
            "pid": 10,
            "tid": 10,
            "comm": "engine",
            "unit": "unit-0",
            "rule": 0,
            "band": 0,
            "kind": "outside",
            "allowed": "0-1",
            "planned": "0",
            "cpuset": "/",
        }
    ]
    assert shown["unmatched"][0] | {"cpuSeconds": 2.5, "cpu": 3} == shown["unmatched"][0]
    assert shown["unmatched"][0]["comm"] == "�\n"
    assert shown["unusedRules"] == [
        {"rule": 1, "unit": "unit-1", "match": 'comm "x"', "reason": None}
    ]
    assert shown["interrupts"][0]["allowed"] == "0"
    assert shown["summary"] == {"errors": 1, "warnings": 1, "infos": 2}
    assert [one["code"] for one in shown["findings"]] == ["TRC725", "TRC730", "TRC729", "TRC732"]
    page = (ROOT / "docs/verify.md").read_text()
    for key in _keys(shown):
        assert f"`{key}`" in page, key


def _keys(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            if key not in ("taskset", "cpuset", "irq") or not isinstance(inner, int | None):
                yield key
            yield from _keys(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _keys(inner)


def test_every_thread_with_a_rule_is_listed_where_asked(node: Node, run: Run) -> None:
    node.thread(10, b"eng\x1b", allowed="0")
    node.thread(20, "batch", allowed="0-3", cpuset="/a")
    node.cgroup("a", cpus="0,2-3")
    node.thread(30, "sshd", allowed="0-3")
    node.thread(40, "nobody")
    rules = (
        rule(0, LANE, comm="eng*"),
        rule(1, OTHERS, comm="batch"),
        rule(2, LANE, comm="sshd", spawns=True),
    )
    node.build(node.plan(*rules))
    assert json.loads(run("--format", "json")[1])["matched"] is None
    shown = json.loads(run("--format", "json", "--all")[1])["matched"]
    keys = ("tid", "rule", "band", "kind", "allowed", "planned")
    assert [tuple(row[key] for key in keys) for row in shown] == [
        (10, 0, 0, "right", "0", "0"),
        (20, 1, 1, "outside", "0-3", "2-3"),
        (30, 2, 0, "alone", "0-3", "0-3"),
    ]
    assert [row["tid"] for row in json.loads(run("--format", "json", "--all")[1])["different"]] == [
        20
    ]
    out = run("--all", "--color", "never")[1]
    assert re.search(r"(?m)^10/10 +eng\\x1b +unit-0 +0 +0 +right +0 +0$", out)
    assert re.search(r"(?m)^20/20 +batch +unit-1 +1 +1 +outside +0-3 +2-3 +/a$", out)


def test_several_reports_at_once(node: Node, run: Run) -> None:
    node.build(node.plan())
    file = node.tmp / "report.json"
    code, out, _ = run("--format", "text", "--format", f"json={file}")
    assert code == 0
    assert "matches its plan" in out
    assert json.loads(file.read_text())["matches"] is True


def test_the_same_files_give_the_same_bytes(node: Node) -> None:
    for pid in range(10, 30):
        node.thread(pid, f"w{pid}", allowed="1", ticks=7)
    node.build(node.plan(rule(0, LANE, comm="w1*"), rule(1, OTHERS, comm="w2*")))
    said = {
        subprocess.run(
            [sys.executable, "-m", "compiler", "verify", "node", "--root", "root", *more],
            cwd=node.tmp,
            env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), **env},
            capture_output=True,
            check=False,
        ).stdout
        for more in (["--format", "json"],)
        for env in ({"PYTHONHASHSEED": "1"}, {"PYTHONHASHSEED": "2", "LC_ALL": "C"})
    }
    (only_one,) = said
    assert json.loads(only_one)["summary"]["errors"] == 2


def test_it_changes_nothing(node: Node, run: Run) -> None:
    node.thread(10, "engine", allowed="0-1")
    node.state("taskset", "10 100 10 0-3 0 -")
    node.build(node.plan(rule(0, LANE, comm="engine")), ("taskset", "bpf"))
    before = _snapshot(node.tmp)
    run()
    assert _snapshot(node.tmp) == before


def _snapshot(root: Path) -> dict[str, tuple[float, bytes]]:
    return {str(p): (p.stat().st_mtime_ns, p.read_bytes()) for p in root.rglob("*") if p.is_file()}


# --- wrong input ----------------------------------------------------------------------------------


def refused(run: Run, *words: str, **more: Any) -> None:
    code, out, err = run(**more)
    assert (code, out) == (2, "")
    assert err.startswith("tierc: ")
    assert err.count("\n") == 1
    for word in words:
        assert word in err


def test_no_directory_of_a_node(node: Node, run: Run) -> None:
    refused(run, "not a directory that can be read", directory=node.tmp / "nothing")
    (node.tmp / "empty").mkdir()
    refused(run, "has no plan.json", directory=node.tmp / "empty")
    (node.tmp / "tree/nodes/a").mkdir(parents=True)
    refused(run, "whole tree, name a node", directory=node.tmp / "tree")
    (node.tmp / "file").write_text("")
    refused(run, "not a directory", directory=node.tmp / "file")


@pytest.mark.parametrize(
    ("data", "word"),
    [
        (b"", "is damaged: expecting value"),
        (b'{"planVersion": 3', "is damaged: expecting"),
        (b"\xff\xfe", "is damaged"),
        (b"[]", "not a JSON object"),
        (b"{}", "says no plan version"),
        (b'{"planVersion": true}', "says no plan version"),
        (b'{"planVersion": 1}', "has plan version 1"),
        (b'{"planVersion": %d}' % (PLAN_VERSION + 1), f"has plan version {PLAN_VERSION + 1}"),
        (b'{"planVersion": %d}' % PLAN_VERSION, "is damaged: "),
        (b"[" * 200_000, "is damaged: not JSON"),
        (b'{"planVersion": 1' + b"0" * 5000 + b"}", "is damaged"),
    ],
)
def test_a_plan_that_is_none(node: Node, run: Run, data: bytes, word: str) -> None:
    node.build(node.plan())
    (node.tmp / "node/plan.json").write_bytes(data)
    refused(run, word)


def _set(*path: str | int, to: Any) -> Callable[[Any], None]:
    def change(data: Any) -> None:
        for step in path[:-1]:
            data = data[step]
        data[path[-1]] = to

    return change


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (_set("fingerprint", to="0" * 64), "its fingerprint is not that of the machine"),
        (_set("deviceFingerprint", to="0" * 64), "its device fingerprint"),
        (_set("machine", "online", to="0-99999999"), "machine.online"),
        (_set("rules", 0, "band", to=7), "rule 0 has band 7"),
        (_set("rules", 0, "unit", to="x"), "rule 0 is of unit 'x'"),
        (_set("rules", 0, "match", "comm", to="[a]"), "a rule has a bad pattern"),
        (_set("rules", 0, "match", to={"cmdline": "(?x)"}), "a rule has a bad pattern"),
        (_set("rules", 0, "extra", to=1), "rules.0.extra"),
        (_set("rules", 0, "id", to=5), "not in the order of their ids"),
        (_set("bands", 1, "id", to=0), "two bands have one id"),
        (_set("bands", 1, "tier", to=9), "band 1 has tier 9"),
        (_set("bands", 1, "id", to=64), "band id 64 is outside 0-63"),
        (_set("bands", 1, "id", to=-1), "band id -1 is outside 0-63"),
        (_set("rules", 1, "id", to=256), "rule id 256 is outside 0-255"),
        (_set("lanes", 0, "tier", to=9), "serving has tier 9"),
        (_set("defaultBand", to=9), "default band 9"),
        (_set("mode", to="force"), "mode"),
        (_set("units", to=None), "units"),
        (_set("bands", to={}), "bands"),
        (_set("tiers", 0, to=5), "tiers.0"),
    ],
)
def test_a_damaged_plan(node: Node, run: Run, change: Callable[[Any], Any], word: str) -> None:
    node.build(node.plan(rule(0, LANE, comm="a"), rule(1, LANE, comm="b")))
    edit(node.tmp / "node", "plan.json", change)
    refused(run, "plan.json is damaged: ", word)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (_set("rules", 0, "band", to=2), "are of two builds"),
        (_set("rules", to=[]), "are of two builds"),
        (_set("abi", "raw", to="00"), "raw has 1 bytes, not 64"),
        (_set("abi", "raw", to="zz"), "raw is missing or not hexadecimal"),
        (_set("pins", "outer", to="/sys/../etc"), "outer is missing or not a name"),
        (_set("pins", "outer", to="relative"), "outer is missing or not a name"),
        (_set("tables", 0, "outer", to="a b"), "outer is missing or not a name"),
        (_set("tables", 0, to=1), "an object is expected"),
        (_set("tables", 3, "maxEntries", to=1 << 40), "table kind is no array"),
        (_set("tables", 3, "keySize", to=True), "keySize is missing or no int"),
        (_set("active", to=[]), "active is missing or no dict"),
    ],
)
def test_a_damaged_seed(node: Node, run: Run, change: Callable[[Any], Any], word: str) -> None:
    node.build(node.plan(rule(0, LANE, comm="a"), mode="sched_ext"), ("bpf",))
    assert load_node_dir(node.tmp / "node").seed is not None
    edit(node.tmp / "node", "bpf/seed.json", change)
    refused(run, "seed.json", word)


def test_a_plan_with_everything_in_it_is_read_back(node: Node) -> None:
    """What ``data`` leaves out because it is null is null again."""
    rules = [one.model_copy(update={"band": 0}) for one in RICH_RULES]
    whole = node.plan(*rules, mode="sched_ext", change={"irqs": (irqs("0000:01:00.0", None),)})
    node.build(whole, ("bpf", "irq"))
    read = load_node_dir(node.tmp / "node")
    assert read.plan == whole
    assert read.targets == ("bpf", "irq")


@pytest.mark.parametrize("name", ["dgx-spark", "hgx", "grace", "workstation"])
def test_every_example_s_nodes_can_be_read(name: str) -> None:
    golden = ROOT / "tests/golden"
    files = sorted(golden.glob(f"*{name}*/**/nodes/*/plan.json"))
    current = [f for f in files if json.loads(f.read_text())["planVersion"] == PLAN_VERSION]
    if not current:
        pytest.skip("no golden tree of this plan version")
    for file in current:
        assert load_node_dir(file.parent).plan.data() == json.loads(file.read_text())


def test_wrong_options(node: Node, run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    node.build(node.plan())
    code, _, err = run("--format", "xml")
    assert code == 2
    assert "unknown format 'xml'" in err
    assert main(["verify", str(node.tmp / "node"), "--root", str(node.tmp / "none")]) == 2
    assert "none is not a directory" in capsys.readouterr().err
    assert main(["verify", str(node.tmp / "node"), "--root", str(node.tmp / "node")]) == 2
    assert "does not show the node's CPUs" in capsys.readouterr().err
    assert main(["verify"]) == 2


def test_a_plan_that_only_its_owner_may_read(node: Node) -> None:
    node.build(node.plan())
    (node.tmp / "node/plan.json").unlink()
    (node.tmp / "node/plan.json").mkdir()
    with pytest.raises(NodeDirError, match=r"has no plan\.json"):
        load_node_dir(node.tmp / "node")


# --- codes ----------------------------------------------------------------------------------------


def test_the_page_names_every_code() -> None:
    page = (ROOT / "docs/verify.md").read_text()
    mine = {value for value in vars(verify_codes).values() if isinstance(value, Code)}
    assert mine <= set(all_codes().values())
    tests = "".join(p.read_text() for p in (ROOT / "tests").glob("test_verify_*.py"))
    for code in mine:
        assert f"`{code.id}`" in page
        assert code.id in tests


# --- this machine ---------------------------------------------------------------------------------


def test_real_threads_of_this_machine(
    tag: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = live_plan([rule(0, FIRST, comm=f"{tag}a*"), rule(1, SECOND, leaderComm=f"{tag}b")])
    directory = tmp_path / "node"
    (directory / "taskset").mkdir(parents=True)
    (directory / "taskset/apply.sh").write_text("#!/bin/sh\n")
    (directory / "plan.json").write_bytes(canonical_json(one.data()))

    def verify() -> tuple[int, dict[str, Any]]:
        code = main(["verify", str(directory), "--format", "json"])
        out, err = capsys.readouterr()
        assert err == ""
        return code, json.loads(out)

    with worker(f"{tag}a1", f"{tag}a2") as first, worker(f"{tag}b", "x", "y") as second:
        for tid in first.tids():
            os.sched_setaffinity(tid, {int(ONE)})
        for tid in second.tids():
            os.sched_setaffinity(tid, {int(TWO)})
        code, shown = verify()
        assert shown["machine"]["cpus"] == "planned"
        assert (code, shown["different"]) == (0, [])
        counts = {unit["name"]: (unit["threads"], unit["right"]) for unit in shown["units"]}
        assert counts == {"unit-0": (2, 2), "unit-1": (3, 3)}
        os.sched_setaffinity(second.tids()[-1], {int(ONE), int(TWO)})
        first.ask("thread", f"{tag}a3")
        first.ask("name", "other")
        code, shown = verify()
        assert code == 1
        assert [(row["tid"], row["kind"], row["unit"]) for row in shown["different"]] == [
            (second.tids()[-1], "outside", "unit-1")
        ]
        assert shown["units"][0]["threads"] == 2  # the new thread inherited the right affinity
        assert shown["threads"]["threads"] > 5


def test_a_policy_compiled_for_this_machine(
    tag: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """From the machine's own facts to its live state, through the commands alone."""
    policy, out = tmp_path / "policy", tmp_path / "out"
    assert main(["init", str(policy), "--name", "here"]) == 0
    project = (policy / "tierc.yaml").read_text()
    (policy / "tierc.yaml").write_text(project.replace("- mode: observe", "- mode: fallback"))
    shutil.rmtree(policy / "tests")
    (policy / "intents/mine.yaml").write_text(
        "apiVersion: tierc.dev/v1alpha1\nkind: Intent\nmetadata: {name: mine}\n"
        f'spec: {{workload: {{match: [{{comm: "{tag}*"}}]}}, protect: all, lane: {{cores: 1}}}}\n'
    )
    assert main(["build", str(policy), "-o", str(out)]) == 0
    capsys.readouterr()
    node = out / "nodes/here"
    lane = json.loads((node / "plan.json").read_text())["lanes"][0]["cpus"]
    with worker(f"{tag}1", f"{tag}2") as mine:
        assert main(["verify", str(node), "--color", "never"]) == 1
        text = capsys.readouterr().out
        assert "error[TRC725]: 2 threads of mine may run outside the CPUs of their rule\n" in text
        assert f"{tag}1: allowed " in text
        for tid in mine.tids():
            os.sched_setaffinity(tid, _cpus(lane))
        main(["verify", str(node), "--color", "never"])
        text = capsys.readouterr().out
        assert re.search(rf"(?m)^mine +latency +{lane} +2 +2 +0 +0 +0$", text)
        assert "of mine may run outside" not in text


def _cpus(text: str) -> set[int]:
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        found |= set(range(int(first), int(last or first) + 1))
    return found


def test_rules_of_every_kind_read_alike_on_this_machine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every kernel thread of this machine has the rule for all of them, and every other none."""
    one = live_plan([rule(0, EVERY, kthread="*")])
    directory = tmp_path / "node"
    directory.mkdir()
    (directory / "plan.json").write_bytes(canonical_json(one.data()))
    assert main(["verify", str(directory), "--format", "json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["threads"]["kernelUnmatched"] == 0
    assert shown["units"][0]["alone"] == shown["units"][0]["threads"] > 10
    assert shown["threads"]["unmatched"] >= 1
