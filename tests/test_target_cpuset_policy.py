"""The cpuset target in a policy: what the compiler says of it beside other targets, and alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from compiler.cpuset import CpuSet
from compiler.diagnostics import Diagnostic
from compiler.pipeline import Compilation
from tests.policies import BOX, PROJECT, compiled, intent, write
from tests.test_resolve import match

CI = match("ci", 'cgroup: "ci.slice/**"', "demote: background")
ENGINE = match(
    "engine",
    'comm: engine, cgroup: "ci.slice/**"',
    "protect: all\nlane: {cores: {min: 2, max: 2}}",
)


def build(
    tmp_path: Path, targets: str, *documents: str, mode: str = "fallback", box: str = BOX
) -> tuple[Compilation, tuple[Diagnostic, ...]]:
    project = PROJECT.replace("mode: fallback", f"mode: {mode}") + f"  targets: {{{targets}}}\n"
    return compiled(
        write(
            tmp_path,
            {
                "intents/all.yaml": "---\n".join(documents),
                "tierc.yaml": project,
                "nodes/box.yaml": box,
            },
        )
    )


def lane(cgroup: str, share: str = "exclusive") -> str:
    return match(
        "engine",
        f'cgroup: "{cgroup}"',
        f"protect: all\nlane: {{cores: {{min: 2, max: 2}}, share: {share}}}",
    )


def files(compilation: Compilation) -> dict[str, str]:
    return {a.path: a.data.decode() for a in compilation.classes[0].files}


def script_table(compilation: Compilation) -> list[str]:
    text = files(compilation)["cpuset/apply.sh"]
    return text.split("groups() {", 1)[1].split("\nEND\n", 1)[0].splitlines()


def codes(findings: tuple[Diagnostic, ...]) -> list[str]:
    return [f.code for f in findings]


def test_beside_taskset_nothing_is_a_finding_and_everything_is_listed(tmp_path: Path) -> None:
    both, findings = build(tmp_path, "cpuset: {}, taskset: {}", ENGINE, CI)
    alone, expected = build(tmp_path / "t", "taskset: {}", ENGINE, CI)
    assert findings == expected
    plan = both.classes[0].plan
    assert plan is not None
    rows = {(row.feature, row.unit, row.rules) for row in plan.left_out["cpuset"] if row.rules}
    engine = next(rule.id for rule in plan.rules if rule.unit == "engine")
    ci = next(rule.id for rule in plan.rules if rule.unit == "ci")
    # the engine is in ci.slice as well, so the slice holds the lane, too
    assert rows == {("match.comm.exact", None, (engine,)), ("match.cgroup.path", "ci", (ci,))}
    assert {
        row.message
        for row in plan.left_out["cpuset"]
        if row.feature[:5] != "match" or row.unit is None
    } == {"cpuset bounds groups of threads only; the rest is left to other targets"}
    (bounds,) = [line for line in script_table(both) if line.endswith(" ci.slice")]
    assert CpuSet.parse(bounds.split()[0]) == plan.cpus_of("engine") | next(
        plan.bands[rule.band].cpus for rule in plan.rules if rule.unit == "ci"
    )
    # the target sees the whole plan, so that it can hold the slice wide enough
    assert len(both.classes[0].views["cpuset"].rules) == len(plan.rules)
    assert "\n# ci.slice: engine, ci\n" in files(both)["cpuset/apply.sh"]
    assert "cpuset/apply.sh" not in files(alone)


def test_alone_it_cannot_protect_a_name_and_says_so(tmp_path: Path) -> None:
    compilation, findings = build(tmp_path, "cpuset: {}", ENGINE, CI)
    assert codes(findings)[:2] == ["TRC500", "TRC501"]
    assert findings[0].message == (
        "target cpuset does not place the threads of this rule, which protects engine"
    )
    assert findings[0].help is not None
    assert "add taskset: {}" in findings[0].help
    assert str(findings[0].span).startswith("intents/all.yaml:5:")
    assert findings[1].message == (
        "target cpuset does not place the threads of this rule, which concerns ci"
    )
    assert compilation.classes[0].plan is None


@pytest.mark.parametrize("targets", ["irq: {}", "irq: {}, kubernetes: {}", "irq: {}, cpuset: {}"])
def test_targets_that_place_no_thread_do_not_hide_that_nobody_does(
    targets: str, tmp_path: Path
) -> None:
    compilation, findings = build(tmp_path, targets, ENGINE, CI)
    assert "TRC500" in codes(findings)
    (lost,) = [one for one in findings if one.code == "TRC500"]
    assert lost.message.endswith("not place the threads of this rule, which protects engine")
    assert "add taskset: {}" in (lost.help or "")
    assert compilation.classes[0].plan is None


def test_alone_it_has_the_groups_of_one_kind_of_work(tmp_path: Path) -> None:
    compilation, findings = build(tmp_path, "cpuset: {}", lane("engine.slice/**", "guarded"), CI)
    assert findings == ()
    made = files(compilation)
    assert sorted(path for path in made if path.startswith("cpuset/systemd")) == [
        "cpuset/systemd/ci.slice.d/50-tierc.conf",
        "cpuset/systemd/engine.slice.d/50-tierc.conf",
    ]
    plan = compilation.classes[0].plan
    assert plan is not None
    engine = made["cpuset/systemd/engine.slice.d/50-tierc.conf"]
    assert f"AllowedCPUs={plan.cpus_of('engine')}\n" in engine


def test_with_bpf_in_another_mode_there_is_nobody_else(tmp_path: Path) -> None:
    _, findings = build(tmp_path, "cpuset: {}, bpf: {}", ENGINE)
    assert codes(findings) == ["TRC500"]
    (tmp_path / "s").mkdir()
    _, findings = build(tmp_path / "s", "cpuset: {}, bpf: {}", ENGINE, mode="sched_ext")
    assert "TRC500" not in codes(findings)


def test_what_taskset_lacks_taskset_says(tmp_path: Path) -> None:
    pods = intent(
        "pods",
        "workload: {match: [{comm: a}], pods: {namespace: x}}\nprotect: all\nlane: {cores: 1}",
    )
    kubelet = BOX + "  kubelet: {present: true, podsRoot: kubepods.slice}\n"
    _, alone = build(tmp_path / "a", "taskset: {}", pods, box=kubelet)
    _, both = build(tmp_path / "b", "cpuset: {}, taskset: {}", pods, box=kubelet)
    assert both == alone
    assert "TRC500" in codes(alone)


def test_a_partition_is_what_an_exclusive_lane_needs(tmp_path: Path) -> None:
    _, without = build(tmp_path / "a", "taskset: {}", lane("engine.slice/**"))
    assert "TRC501" in codes(without)
    compilation, findings = build(
        tmp_path / "b", "cpuset: {}, taskset: {}", lane("engine.slice/**")
    )
    assert findings == ()
    script = files(compilation)["cpuset/apply.sh"]
    assert "unit+lane  engine.slice\n" in script
    assert "# Exclusive lane engine: a partition keeps everyone else out\n" in script


def test_where_no_partition_can_be_the_lane_stays_a_finding(tmp_path: Path) -> None:
    spread = match(
        "engine",
        "comm: engine",
        "protect: all\nlane: {cores: {min: 2, max: 2}, share: exclusive}",
    )
    compilation, findings = build(tmp_path, "cpuset: {}, taskset: {}", spread)
    assert "TRC501" in codes(findings)
    plan = compilation.classes[0].plan
    assert plan is not None
    (row,) = [r for r in plan.left_out["cpuset"] if r.feature == "lane.exclusive"]
    assert row.message == (
        "cpuset keeps nobody out of lane engine (its threads are not all, and alone, in one "
        "control group that the policy names)"
    )


@pytest.mark.parametrize("override", [False, True])
def test_the_root_of_pods_is_in_the_plan_and_left_alone(tmp_path: Path, *, override: bool) -> None:
    kubelet = "  kubelet: {present: true, podsRoot: kubepods.slice}\n"
    box = BOX + kubelet + ("  overrides: {podsRoot: mine/pods}\n" if override else "")
    compilation, _ = build(
        tmp_path,
        "cpuset: {}, taskset: {}",
        match("pods", 'cgroup: "mine/**"', "demote: background"),
        box=box,
    )
    plan = compilation.classes[0].plan
    assert plan is not None
    assert plan.machine.pods_root == ("mine/pods" if override else "kubepods.slice")
    script = files(compilation)["cpuset/apply.sh"]
    assert ("mine/**: the kubelet manages the groups of pods" in script) == override
