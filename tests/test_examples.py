"""The examples: golden trees, golden diagnostics, and what the golden files must say.

Golden files only show that nothing changed unseen.  What is *right* is stated here by hand.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import stat
from pathlib import Path
from typing import Any

import pytest

from compiler.cpuset import CpuSet
from tests.conftest import ROOT, Golden
from tests.examples import ALL_EXAMPLES, EXAMPLES, REFUSED, read_tree, run

X925 = CpuSet.parse("5-9,15-19")
A725 = CpuSet.parse("0-4,10-14")


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("spark") / "out"
    done = run("build", "examples/dgx-spark", "-o", str(out))
    assert done.returncode == 0, done.stderr
    return out


@pytest.fixture(scope="module")
def plan(spark: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((spark / "nodes/spark-a/plan.json").read_text())
    return loaded


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_tree_is_the_golden_one(name: str, tmp_path: Path, golden: Golden) -> None:
    done = run("build", f"examples/{name}", "-o", str(tmp_path / "out"))
    assert done.returncode == 0, done.stderr
    golden.tree(f"{name}/tree", read_tree(tmp_path / "out"))


@pytest.mark.parametrize("name", ALL_EXAMPLES)
def test_the_reports_are_the_golden_ones(name: str, golden: Golden) -> None:
    text = run("lint", f"examples/{name}")
    assert text.returncode == (name in REFUSED), text.stdout
    golden.file(f"{name}/lint.txt", text.stdout.encode())
    as_json = run("lint", f"examples/{name}", "--format", "json")
    golden.file(f"{name}/lint.json", as_json.stdout.encode())


def test_a_second_build_changes_nothing_and_check_agrees(spark: Path) -> None:
    again = run("build", "examples/dgx-spark", "-o", str(spark))
    assert "0 written" in again.stdout
    assert run("build", "examples/dgx-spark", "-o", str(spark), "--check").returncode == 0


def test_the_manifest_covers_every_file_but_itself_and_the_provenance(spark: Path) -> None:
    manifest = json.loads((spark / "manifest.json").read_text())
    files = read_tree(spark)
    listed = manifest["files"]
    assert set(listed) == set(files) - {"manifest.json", "provenance.json"}
    for path, row in listed.items():
        assert row["sha256"] == hashlib.sha256(files[path]).hexdigest()
        assert row["size"] == len(files[path])


def test_scripts_are_executable_and_nothing_else_is(spark: Path) -> None:
    for path in spark.rglob("*"):
        if path.is_file():
            executable = bool(path.stat().st_mode & stat.S_IXUSR)
            assert executable == (path.suffix == ".sh"), path


def test_the_lane_lies_on_the_fast_cores_and_housekeeping_on_the_slow_ones(
    plan: dict[str, Any],
) -> None:
    (lane,) = plan["lanes"]
    cpus = CpuSet.parse(lane["cpus"])
    assert len(cpus) == 6
    assert cpus <= X925
    # compact: a whole cluster of five, then the lowest of the other one
    assert str(cpus) == "5-9,15"
    assert CpuSet.parse(plan["housekeeping"]) == CpuSet.parse("0-1")
    assert CpuSet.parse(plan["housekeeping"]) <= A725


def test_the_load_generator_shares_no_cpu_with_the_lane(plan: dict[str, Any]) -> None:
    (lane,) = plan["lanes"]
    batch = next(unit for unit in plan["units"] if unit["name"] == "batch")
    tiers = {tier["id"]: tier["name"] for tier in plan["tiers"]}
    assert tiers[batch["tier"]] == "background"
    assert CpuSet.parse(batch["cpus"]).isdisjoint(CpuSet.parse(lane["cpus"]))
    assert CpuSet.parse(batch["cpus"]).isdisjoint(CpuSet.parse(plan["housekeeping"]))


def test_node_software_keeps_its_tier_and_is_kept_out_of_the_lane(plan: dict[str, Any]) -> None:
    (lane,) = plan["lanes"]
    infra = next(unit for unit in plan["units"] if unit["name"] == "node-infra")
    tiers = {tier["id"]: tier["name"] for tier in plan["tiers"]}
    assert tiers[infra["tier"]] == "system"
    assert CpuSet.parse(infra["cpus"]) == CpuSet.parse("0-19") - CpuSet.parse(lane["cpus"])


def test_explain_names_intent_line_tier_and_lane() -> None:
    done = run("explain", "spark-a", "-p", "examples/dgx-spark", "--comm", "VLLM::EngineCor")
    assert done.returncode == 0
    assert "chat/engine-step of intent chat" in done.stdout
    assert "intents/chat.yaml:16" in done.stdout
    assert "tier     latency" in done.stdout
    assert "5-9,15 (lane serving)" in done.stdout


def test_explain_knows_the_load_generator_and_its_cpus() -> None:
    done = run(
        "explain", "spark-a", "-p", "examples/dgx-spark", "--comm", "stress-ng-cpu",
        "--cgroup", "user.slice/user-1000.slice", "--format", "json",
        "--leader-comm", "stress-ng", "--cmdline", "stress-ng --cpu 16",
    )  # fmt: skip
    answer = json.loads(done.stdout)
    assert answer["winner"]["unit"] == "batch"
    assert answer["winner"]["tier"] == "background"
    assert CpuSet.parse(answer["winner"]["cpus"]).isdisjoint(CpuSet.parse("5-9,15"))
    assert answer["possible"] == []


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_writes_nothing(name: str, tmp_path: Path) -> None:
    done = run("build", f"examples/{name}", "-o", str(tmp_path / "out"))
    assert (done.returncode, done.stdout) == (1, "")
    assert "nothing written: " in done.stderr.splitlines()[-1]
    assert not (tmp_path / "out").exists()


def test_each_conflict_is_reported_once_in_its_own_file() -> None:
    found = json.loads(run("lint", "examples/conflicts", "--format", "json").stdout)["diagnostics"]
    where = sorted((Path(one["span"]["path"]).name, one["code"]) for one in found)
    assert where == [
        ("above.yaml", "TRC313"),
        ("lane.yaml", "TRC311"),
        ("quiet.yaml", "TRC312"),
        ("shadowed.yaml", "TRC206"),
        ("tie.yaml", "TRC310"),
    ]


def test_the_repairs_that_the_conflicts_name_are_repairs(tmp_path: Path) -> None:
    root = tmp_path / "conflicts"
    shutil.copytree(ROOT / "examples/conflicts", root)
    for name, wrong, right in (
        ("tie", "keep: interactive\n", "keep: interactive\n  precedence: 1\n"),
        ("shadowed", "  precedence: 10\n", ""),
        ("quiet", "      - {kthread: nvidia}\n", ""),
        ("above", "  above: [search]\n", ""),
        ("lane", "media, cores: 1}", "media}"),
    ):
        path = root / f"intents/{name}.yaml"
        text = path.read_text()
        assert text.count(wrong) == 1, name
        path.write_text(text.replace(wrong, right))
    lint = run("lint", str(root), "--fail-on", "warning")
    assert lint.returncode == 0, lint.stdout
    # only now is there a plan that can show who was raised, and why
    why = run("explain", "box", "-p", str(root), "--kthread", "--comm", "nvidia").stdout
    assert "raised from normal to latency because chat needs gpu-driver (protect decode)" in why
    assert "intents/chat.yaml:13:13" in why


@pytest.mark.parametrize("name", ALL_EXAMPLES)
def test_every_document_of_an_example_names_its_schema(name: str) -> None:
    for path in sorted((ROOT / "examples" / name).rglob("*.yaml")):
        first = path.read_text().splitlines()[0]
        assert first.startswith("# yaml-language-server: $schema="), path
        schema = (path.parent / first.split("=", 1)[1]).resolve()
        assert schema.is_file(), first
        assert schema.parent == ROOT / "schemas"
