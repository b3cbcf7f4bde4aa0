"""What intents mean together: tiers, inheritance, overlap, lanes, conflicts."""

from __future__ import annotations

from pathlib import Path

import pytest

from compiler.diagnostics import Diagnostic
from compiler.explain import Thread, ThreadAnswer, explain_thread
from compiler.pipeline import Compilation
from compiler.plan import NodePlan
from tests.policies import BOX, codes, compiled, intent, write

CHAT = intent(
    "chat",
    """
    workload: {engine: vllm, version: "0.24.0", cgroup: "system.slice/**"}
    protect: [decode, {path: ttft, tier: interactive}]
    lane: {cores: 2}
    """,
)


def build(
    tmp_path: Path, *documents: str, box: str = BOX
) -> tuple[Compilation, tuple[Diagnostic, ...]]:
    files = {"intents/all.yaml": "---\n".join(documents), "nodes/box.yaml": box}
    return compiled(write(tmp_path, files))


def plan_of(compilation: Compilation) -> NodePlan:
    group = compilation.of_node("box")
    assert group is not None
    assert group.plan is not None
    return group.plan


def ask(compilation: Compilation, **thread: object) -> ThreadAnswer:
    group = compilation.of_node("box")
    assert group is not None
    return explain_thread(group, compilation.policy.ladder, "box", Thread(**thread))  # type: ignore[arg-type]


def errors(findings: tuple[Diagnostic, ...]) -> list[Diagnostic]:
    return [f for f in findings if f.severity.label == "error"]


def only(findings: tuple[Diagnostic, ...], code: str) -> Diagnostic:
    (found,) = [f for f in findings if f.code == code]
    return found


# -- tiers ---------------------------------------------------------------------------------------


def test_a_stage_on_two_paths_takes_the_higher_tier_and_keeps_the_loser(tmp_path: Path) -> None:
    compilation, findings = build(tmp_path, CHAT)
    assert not errors(findings)
    answer = ask(
        compilation,
        comm="VLLM::EngineCor",
        leader_comm="VLLM::EngineCor",
        cgroup="system.slice/x",
        cmdline="VLLM::EngineCore",
    )
    assert answer.winner is not None
    assert answer.winner.tier == "latency"
    assert "over interactive: chat says protect ttft" in answer.winner.why[1]
    api = ask(compilation, comm="vllm", leader_comm="vllm", cgroup="system.slice/x", cmdline="vllm")
    assert api.winner is not None
    assert (api.winner.unit, api.winner.tier) == ("chat/api", "interactive")


def test_a_thread_outside_the_narrowing_cgroup_is_nobodys(tmp_path: Path) -> None:
    compilation, _ = build(tmp_path, CHAT)
    answer = ask(
        compilation,
        comm="VLLM::EngineCor",
        leader_comm="VLLM::EngineCor",
        cgroup="user.slice/user-1000.slice",
        cmdline="fake",
    )
    assert answer.winner is None
    assert answer.default_tier == "normal"


def test_the_gpu_driver_is_raised_to_the_tier_of_the_path_that_needs_it(tmp_path: Path) -> None:
    compilation, _ = build(tmp_path, CHAT)
    answer = ask(compilation, comm="nvidia", kthread=True)
    assert answer.winner is not None
    assert answer.winner.tier == "latency"
    assert answer.winner.why[0] == (
        "raised from normal to latency because chat needs gpu-driver (protect decode), "
        "intents/all.yaml:6:13"
    )


def test_a_kept_gpu_driver_is_raised_from_where_it_was_kept(tmp_path: Path) -> None:
    kept = intent("driver", "workload: {group: gpu-driver}\nkeep: system")
    compilation, findings = build(tmp_path, CHAT, kept)
    assert not errors(findings)
    answer = ask(compilation, comm="nvidia", kthread=True)
    assert answer.winner is not None
    assert answer.winner.tier == "latency"
    assert answer.winner.why[0].startswith("raised from system to latency because chat needs")


def test_the_gpu_driver_alone_can_be_kept(tmp_path: Path) -> None:
    kept = intent("driver", "workload: {group: gpu-driver}\nkeep: system")
    compilation, _ = build(tmp_path, kept)
    answer = ask(compilation, comm="nvidia", kthread=True)
    assert answer.winner is not None
    assert answer.winner.tier == "system"


def test_demoting_what_a_path_needs_is_an_error_with_the_chain(tmp_path: Path) -> None:
    low = intent("low", "workload: {group: gpu-driver}\ndemote: background")
    _, findings = build(tmp_path, CHAT, low)
    found = [f for f in findings if f.code == "TRC312"]
    assert {f.message for f in found} == {
        "low demotes node/gpu-driver to background, and chat needs it at latency",
        "low demotes node/gpu-irq to background, and chat needs it at latency",
    }
    assert all(str(f.span) == "intents/all.yaml:14:11" for f in found)
    assert "chat needs gpu-driver (protect decode)" in [r.message for f in found for r in f.related]


def test_demoting_the_drivers_threads_by_name_is_the_same_error(tmp_path: Path) -> None:
    low = intent("low", "workload: {match: [{kthread: nvidia}]}\ndemote: background")
    _, findings = build(tmp_path, CHAT, low)
    assert only(findings, "TRC312").message == (
        "low demotes threads of node/gpu-driver, and chat needs them"
    )


def test_demoting_all_kernel_threads_spares_the_needed_ones(tmp_path: Path) -> None:
    low = intent("low", 'workload: {match: [{kthread: "*"}]}\ndemote: background')
    compilation, findings = build(tmp_path, CHAT, low)
    assert not errors(findings)
    driver = ask(compilation, comm="nvidia", kthread=True)
    other = ask(compilation, comm="kswapd0", kthread=True)
    assert driver.winner is not None
    assert other.winner is not None
    assert (driver.winner.tier, other.winner.tier) == ("latency", "background")


def test_irq_threads_have_a_tier_and_no_rule(tmp_path: Path) -> None:
    compilation, _ = build(tmp_path, CHAT)
    plan = plan_of(compilation)
    assert any(unit.name == "node/gpu-irq" for unit in plan.units)
    assert not any(rule.unit == "node/gpu-irq" for rule in plan.rules)
    assert "irq.affinity" in plan.features


@pytest.mark.parametrize(
    ("body", "code", "message"),
    [
        (
            "workload: {engine: vlm}\nprotect: decode",
            "TRC300",
            'no profile describes an engine "vlm"',
        ),
        ("workload: {engine: vllm}\nprotect: decoed", "TRC301", 'engine vllm has no path "decoed"'),
        ("workload: {engine: vllm}\nprotect: engine-step", "TRC301", 'no path "engine-step"'),
        (
            "workload: {engine: sglang}\nprotect: [{stage: kv-transfer}]",
            "TRC301",
            'engine sglang has no stage "kv-transfer"',
        ),
        ("workload: {match: [{comm: a}]}\nprotect: decode", "TRC301", 'path or stage "decode"'),
        (
            "workload: {engine: vllm}\nprotect: [{path: decode, tier: latncy}]",
            "TRC302",
            'no tier is called "latncy"',
        ),
        ("workload: {match: [{comm: a}]}\ndemote: system", "TRC304", "does not lower anything"),
        ("workload: {match: [{comm: a}]}\ndemote: normal", "TRC304", "does not lower anything"),
        (
            "workload: {match: [{comm: a}]}\nprotect: [{path: all, tier: idle}]",
            "TRC304",
            "protects nothing",
        ),
        ("workload: {group: node-infra}\nkeep: idle", "TRC304", "cannot go below background"),
        ("workload: {group: gpu-driver}\nkeep: system\nlane: {cores: 1}", "TRC325", "lane has no"),
        (
            "workload: {match: [{comm: a}]}\nprotect: all\nlane: {}",
            "TRC317",
            "does not say how many",
        ),
        ("workload: {match: [{comm: a}]}\nabove: [chatt]", "TRC303", 'above names "chatt"'),
        (
            'workload: {match: [{comm: a}], cgroup: "@pods/**"}\nprotect: all',
            "TRC316",
            "@pods is unknown",
        ),
        (
            'workload: {engine: vllm, gpus: ["0000:99:00.0"]}\n'
            "protect: decode\n"
            "prefer: [gpu-local]",
            "TRC318",
            'no GPU "0000:99:00.0"',
        ),
        (
            "workload: {match: [{comm: a}]}\nprotect: all\nlane: {cores: measured}",
            "TRC317",
            "no Demand document matches",
        ),
    ],
)
def test_what_is_wrong_with_one_intent(tmp_path: Path, body: str, code: str, message: str) -> None:
    compilation, findings = build(tmp_path, intent("one", body))
    found = errors(findings)
    assert [f.code for f in found] == [code]
    assert message in found[0].message
    assert found[0].span.path == "intents/all.yaml"
    assert found[0].span.line > 3
    assert found[0].help
    assert all(group.plan is None for group in compilation.classes)


def test_a_close_word_is_suggested(tmp_path: Path) -> None:
    _, findings = build(tmp_path, intent("one", "workload: {engine: vlm}\nprotect: decode"))
    assert 'did you mean "vllm"?' in only(findings, "TRC300").help
    _, findings = build(tmp_path, intent("one", "workload: {engine: vllm}\nprotect: engine-step"))
    assert "write {stage: engine-step}" in only(findings, "TRC301").help


def test_an_unknown_version_warns_and_a_missing_one_is_noted(tmp_path: Path) -> None:
    body = "workload: {{engine: vllm{}}}\nprotect: decode\nlane: {{cores: 1}}"
    _, findings = build(tmp_path, intent("one", body.format(', version: "9.9"')))
    assert only(findings, "TRC307").severity.label == "warning"
    _, findings = build(tmp_path, intent("one", body.format("")))
    assert only(findings, "TRC306").severity.label == "info"


def test_of_the_two_units_of_the_node_one_may_be_asked_for_alone(tmp_path: Path) -> None:
    for number, (stage, other) in enumerate((("gpu-irq", "gpu-driver"), ("gpu-driver", "gpu-irq"))):
        compilation, findings = build(
            tmp_path / str(number),
            intent("a", f"workload: {{engine: vllm}}\nprotect: [{{stage: {stage}}}]"),
        )
        assert not errors(findings)
        units = {unit.name: unit.tier for unit in plan_of(compilation).units}
        assert plan_of(compilation).tiers[units[f"node/{stage}"]].name == "latency"
        assert f"node/{other}" not in units


# -- overlap -------------------------------------------------------------------------------------


def tier_of(compilation: Compilation, **thread: object) -> str:
    answer = ask(compilation, **thread)
    return answer.winner.tier if answer.winner else answer.default_tier


def match(name: str, pattern: str, rest: str) -> str:
    return intent(name, f"workload: {{match: [{{{pattern}}}]}}\n{rest}")


def test_a_narrower_pattern_goes_before_a_wider_one(tmp_path: Path) -> None:
    compilation, findings = build(
        tmp_path,
        match("wide", 'comm: "job*"', "demote: background"),
        match("narrow", 'comm: "job-live*"', "keep: interactive"),
    )
    assert not errors(findings)
    assert tier_of(compilation, comm="job-live-1") == "interactive"
    assert tier_of(compilation, comm="job-1") == "background"


def test_precedence_goes_before_everything(tmp_path: Path) -> None:
    compilation, findings = build(
        tmp_path,
        match("wide", 'comm: "job*"', "demote: background\nprecedence: 1"),
        match("narrow", 'comm: "job-live*"', "keep: interactive"),
    )
    assert not errors(findings)
    assert tier_of(compilation, comm="job-live-1") == "background"


def test_a_users_word_goes_before_a_built_in_group(tmp_path: Path) -> None:
    compilation, findings = build(
        tmp_path,
        intent("infra", "workload: {group: node-infra}\nkeep: system"),
        match("mine", "comm: kubelet", "keep: interactive"),
    )
    assert not errors(findings)
    assert tier_of(compilation, comm="kubelet", leader_comm="kubelet", cgroup="x") == "interactive"


def test_a_cgroup_is_better_evidence_than_a_name(tmp_path: Path) -> None:
    compilation, findings = build(
        tmp_path,
        match("names", "comm: worker", "keep: interactive"),
        match("place", 'cgroup: "ci.slice/**"', "demote: background"),
    )
    assert not errors(findings)
    assert tier_of(compilation, comm="worker", cgroup="ci.slice/a") == "background"
    assert tier_of(compilation, comm="worker", cgroup="other.slice") == "interactive"


def test_more_fields_go_first_and_then_the_stronger_field(tmp_path: Path) -> None:
    compilation, findings = build(
        tmp_path,
        match("both", "comm: a, leaderComm: b", "keep: critical"),
        match("leader", "leaderComm: b", "keep: interactive"),
        match("thread", "comm: a", "demote: background"),
    )
    assert not errors(findings)
    assert tier_of(compilation, comm="a", leader_comm="b") == "critical"
    assert tier_of(compilation, comm="x", leader_comm="b") == "interactive"
    assert tier_of(compilation, comm="a", leader_comm="x") == "background"


def test_names_never_take_kernel_threads_and_kthread_nothing_else(tmp_path: Path) -> None:
    compilation, _ = build(
        tmp_path,
        match("user", 'comm: "k*"', "keep: interactive"),
        match("kernel", 'kthread: "k*"', "demote: background"),
    )
    assert tier_of(compilation, comm="kx") == "interactive"
    assert tier_of(compilation, comm="kx", kthread=True) == "background"


def test_a_tie_names_both_places_and_an_example(tmp_path: Path) -> None:
    _, findings = build(
        tmp_path,
        match("one", 'comm: "job-*"', "keep: interactive"),
        match("two", 'comm: "*-live"', "demote: background"),
    )
    tie = only(findings, "TRC310")
    assert tie.message == (
        'one and two both claim threads such as comm "job-live", with tiers interactive and '
        "background"
    )
    assert str(tie.span) == "intents/all.yaml:12:29"
    assert [str(r.span) for r in tie.related] == ["intents/all.yaml:5:29"]
    assert "precedence" in tie.help


def test_equal_patterns_with_equal_effects_are_no_conflict(tmp_path: Path) -> None:
    _, findings = build(
        tmp_path,
        match("one", "comm: job", "demote: background"),
        match("two", "comm: job", "demote: background"),
    )
    assert not errors(findings)


def test_the_higher_of_three_precedences_wins_without_complaint(tmp_path: Path) -> None:
    compilation, findings = build(
        tmp_path,
        match("one", "comm: job", "demote: background\nprecedence: 30"),
        match("two", "comm: job", "keep: interactive\nprecedence: 50"),
        match("three", "comm: job", "demote: idle\nprecedence: 10"),
    )
    assert not errors(findings)
    assert tier_of(compilation, comm="job") == "interactive"


def test_equal_standing_of_two_below_a_third_is_still_a_tie(tmp_path: Path) -> None:
    _, findings = build(
        tmp_path,
        match("one", "comm: job", "demote: background\nprecedence: 30"),
        match("two", "comm: job", "keep: interactive\nprecedence: 50"),
        match("three", "comm: job", "demote: idle\nprecedence: 30"),
    )
    assert only(findings, "TRC310").message.startswith("one and three both claim")


def test_two_engines_of_one_kind_need_something_that_tells_them_apart(tmp_path: Path) -> None:
    other = intent(
        "other",
        'workload: {engine: vllm, version: "0.24.0"}\nprotect: [{path: decode, tier: critical}]',
    )
    first = intent("first", 'workload: {engine: vllm, version: "0.24.0"}\nprotect: decode')
    _, findings = build(tmp_path, first, other)
    tie = only(findings, "TRC310")
    assert {tie.span.line, tie.related[0].span.line} == {5, 12}
    assert "workload.cgroup" in tie.help


def test_two_engines_told_apart_by_cgroup_are_fine(tmp_path: Path) -> None:
    one = intent(
        "one",
        'workload: {engine: vllm, version: "0.24.0", cgroup: "system.slice/a.service/**"}\n'
        "protect: decode",
    )
    two = intent(
        "two",
        'workload: {engine: vllm, version: "0.24.0", cgroup: "system.slice/b.service/**"}\n'
        "protect: [{path: decode, tier: critical}]",
    )
    compilation, findings = build(tmp_path, one, two)
    assert not errors(findings)
    assert (
        tier_of(
            compilation,
            comm="VLLM::EngineCor",
            leader_comm="VLLM::EngineCor",
            cmdline="",
            cgroup="system.slice/b.service",
        )
        == "critical"
    )


def test_the_documented_sample_has_no_false_conflict(tmp_path: Path) -> None:
    # every unit pair of two engines and all groups on one node
    documents = [
        intent(
            "chat",
            "workload: {engine: vllm, tensorParallel: 2}\n"
            "protect: [decode, {path: ttft, tier: interactive}]\n"
            "lane: {cores: 3}",
        ),
        intent(
            "code", "workload: {engine: sglang, tensorParallel: 2}\nprotect: all\nlane: {cores: 2}"
        ),
        intent("infra", "workload: {group: node-infra}\nkeep: system"),
        intent("watch", "workload: {group: observability}\ndemote: background"),
        intent("stage", "workload: {group: model-staging}\ndemote: background"),
        intent("batch", "workload: {group: batch}\ndemote: idle\nprefer: [leftovers]"),
        intent("driver", "workload: {group: gpu-driver}\nkeep: system"),
    ]
    compilation, findings = build(tmp_path, *documents)
    assert not errors(findings)
    assert len(plan_of(compilation).rules) > 80


# -- intents that only place ---------------------------------------------------------------------


def test_a_placing_intent_and_a_protecting_one_complete_each_other(tmp_path: Path) -> None:
    compilation, findings = build(
        tmp_path,
        match("tier", "comm: job", "keep: interactive"),
        match("place", "comm: job", "lane: {cores: 2}"),
    )
    assert not errors(findings)
    answer = ask(compilation, comm="job")
    assert answer.winner is not None
    assert (answer.winner.tier, answer.winner.lane) == ("interactive", "place")


def test_node_software_does_not_fall_into_another_verbs_lane(tmp_path: Path) -> None:
    compilation, findings = build(
        tmp_path,
        intent("infra", "workload: {group: node-infra}\nkeep: system"),
        match("ci", 'comm: "ss*"', "demote: background\nlane: {cores: 1}"),
    )
    assert not errors(findings)
    plan = plan_of(compilation)
    sshd = next(r for r in plan.rules if r.match.comm == "sshd")
    lane = next(lane for lane in plan.lanes if lane.name == "ci")
    assert (plan.bands[sshd.band].cpus & lane.cpus) != plan.bands[sshd.band].cpus


# -- above ---------------------------------------------------------------------------------------


def test_above_orders_intents_of_one_tier(tmp_path: Path) -> None:
    compilation, findings = build(
        tmp_path,
        match("low", "comm: a", "protect: all"),
        match("high", "comm: b", "protect: all\nabove: [low]"),
    )
    assert not errors(findings)
    orders = {unit.name: unit.order for unit in plan_of(compilation).units}
    assert orders == {"high": 0, "low": 1}


def test_an_above_cycle_shows_the_whole_path_and_every_line(tmp_path: Path) -> None:
    compilation, findings = build(
        tmp_path,
        match("decode", "comm: a", "protect: all\nabove: [prefill]"),
        match("prefill", "comm: b", "protect: all\nabove: [batch]"),
        match("batch", "comm: c", "protect: all\nabove: [decode]"),
    )
    cycle = only(findings, "TRC313")
    assert cycle.message == "above relations form a cycle: batch -> decode -> prefill -> batch"
    assert {cycle.span.line, *(r.span.line for r in cycle.related)} == {7, 15, 23}
    assert compilation.classes[0].plan is None


def test_above_against_the_ladder_warns(tmp_path: Path) -> None:
    _, findings = build(
        tmp_path,
        match("low", "comm: a", "demote: background\nabove: [high]"),
        match("high", "comm: b", "protect: all"),
    )
    assert only(findings, "TRC314").span.line == 7


# -- lanes ---------------------------------------------------------------------------------------


def test_a_lane_is_sized_from_the_profile_when_nothing_is_written(tmp_path: Path) -> None:
    # vLLM at tensor parallelism 2: api 1-2, engine-step 1-2, two workers of one core each
    body = (
        'workload: {engine: vllm, version: "0.24.0", tensorParallel: 2}\n'
        "protect: decode\n"
        "prefer: [gpu-local]"
    )
    compilation, findings = build(tmp_path, intent("chat", body))
    assert not errors(findings)
    (lane,) = plan_of(compilation).lanes
    assert (lane.name, lane.min_cores, lane.max_cores) == ("chat", 4, 6)


def test_intents_that_name_one_lane_share_it(tmp_path: Path) -> None:
    compilation, findings = build(
        tmp_path,
        match("one", "comm: a", "protect: all\nlane: {name: both, cores: 2}"),
        match("two", "comm: b", "keep: interactive\nlane: {name: both}"),
    )
    assert not errors(findings)
    (lane,) = plan_of(compilation).lanes
    assert lane.intents == ("one", "two")
    assert {unit.cpus for unit in plan_of(compilation).units} == {lane.cpus}


def test_one_lane_with_two_sizes_is_one_error_with_both_places(tmp_path: Path) -> None:
    _, findings = build(
        tmp_path,
        match("one", "comm: a", "protect: all\nlane: {name: both, cores: 2}"),
        match("two", "comm: b", "protect: all\nlane: {name: both, cores: 3}"),
    )
    found = only(findings, "TRC311")
    assert found.message == "lane both: one says 2, two says 3 cores, at equal precedence"
    assert (found.span.line, found.related[0].span.line) == (15, 7)
    assert found.related[0].message == "one says 2"


def test_precedence_decides_a_lanes_size(tmp_path: Path) -> None:
    compilation, findings = build(
        tmp_path,
        match("one", "comm: a", "protect: all\nlane: {name: both, cores: 2}"),
        match("two", "comm: b", "protect: all\nprecedence: 1\nlane: {name: both, cores: 3}"),
    )
    assert not errors(findings)
    assert plan_of(compilation).lanes[0].cores == 3


DEMAND = """\
apiVersion: tierc.dev/v1alpha1
kind: Demand
metadata: {name: d}
spec: {intent: job, cores: {p50: 1.2, p99: 2.7}, window: 600s, spinSuspect: false}
"""


def test_a_measured_lane_takes_its_size_from_the_demand(tmp_path: Path) -> None:
    lane = match("job", "comm: job", "protect: all\nlane: {cores: measured}")
    compilation, findings = build(tmp_path, lane, DEMAND)
    assert not errors(findings)
    (planned,) = plan_of(compilation).lanes
    assert (planned.min_cores, planned.max_cores) == (2, 3)


def test_a_reading_that_looks_like_a_spin_loop_is_refused(tmp_path: Path) -> None:
    lane = match("job", "comm: job", "protect: all\nlane: {cores: measured}")
    _, findings = build(tmp_path, lane, DEMAND.replace("false", "true"))
    assert "looks like a spin loop" in only(findings, "TRC317").message


# -- late-bound and node-bound patterns ------------------------------------------------------------


def test_pods_stands_for_the_nodes_pods_root(tmp_path: Path) -> None:
    box = BOX + "  kubelet: {present: true, podsRoot: kubepods.slice}\n"
    body = 'workload: {match: [{comm: a}], cgroup: "@pods/**"}\nprotect: all'
    compilation, findings = build(tmp_path, intent("one", body), box=box)
    assert not errors(findings)
    (rule,) = plan_of(compilation).rules
    assert rule.match.cgroup == "kubepods.slice/**"


def test_a_pod_selector_is_refused_where_no_target_resolves_it(tmp_path: Path) -> None:
    body = "workload: {match: [{comm: a}], pods: {namespace: x}}\nprotect: all"
    _, findings = build(tmp_path, intent("one", body))
    assert only(findings, "TRC500").message.startswith("target taskset cannot match a pod selector")


def test_an_unresolved_demotion_is_left_out_by_name(tmp_path: Path) -> None:
    body = "workload: {match: [{comm: a}], pods: {namespace: x}}\ndemote: background"
    compilation, findings = build(tmp_path, intent("one", body))
    assert only(findings, "TRC501").severity.label == "warning"
    plan = plan_of(compilation)
    assert [row.feature for row in plan.left_out["taskset"] if row.rules] == ["match.pods"]
    group = compilation.of_node("box")
    assert group is not None
    assert group.views["taskset"].rules == ()


def test_two_cgroups_combine_only_when_one_contains_the_other(tmp_path: Path) -> None:
    body = 'workload: {{match: [{{cgroup: "ci.slice/**"}}], cgroup: "{}"}}\ndemote: background'
    compilation, findings = build(tmp_path, intent("one", body.format("ci.slice/a/**")))
    assert not errors(findings)
    assert plan_of(compilation).rules[0].match.cgroup == "ci.slice/a/**"
    _, findings = build(tmp_path, intent("one", body.format("other.slice/**")))
    assert "have no path in common" in only(findings, "TRC315").message
    _, findings = build(tmp_path, intent("one", body.format("**/x/**")))
    assert "neither contains the other" in only(findings, "TRC315").message


# -- modes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kernel", "reason"),
    [
        ("preemptRt: true", "the kernel is PREEMPT_RT, where sched_ext cannot load"),
        ("schedExt: {supported: false}", "kernel 6.17.0 has no sched_ext"),
        ("btf: false", "the kernel has no BTF"),
        (
            "schedExt: {supported: true, state: enabled, ops: scx_lavd}",
            "another sched_ext scheduler is loaded (scx_lavd)",
        ),
    ],
)
def test_auto_falls_back_with_the_reason_and_sched_ext_refuses(
    tmp_path: Path, kernel: str, reason: str
) -> None:
    key = kernel.split(":", 1)[0]
    box = "\n".join(
        f"    {kernel}" if line.strip().startswith(f"{key}:") else line for line in BOX.splitlines()
    )
    project = "apiVersion: tierc.dev/v1alpha1\nkind: Project\nspec:\n  enforce: [{mode: MODE}]\n"
    files = {
        "intents/a.yaml": match("one", "comm: a", "demote: background"),
        "nodes/box.yaml": box,
    }
    root = write(tmp_path, {**files, "tierc.yaml": project.replace("MODE", "auto")})
    compilation, findings = compiled(root)
    assert reason in only(findings, "TRC321").message
    assert plan_of(compilation).mode == "fallback"
    root = write(tmp_path, {**files, "tierc.yaml": project.replace("MODE", "sched_ext")})
    compilation, findings = compiled(root)
    refused = only(findings, "TRC320")
    assert reason in refused.message
    assert str(refused.span) == "tierc.yaml:4:20"


def test_a_node_that_no_enforce_entry_selects_is_only_observed(tmp_path: Path) -> None:
    project = "apiVersion: tierc.dev/v1alpha1\nkind: Project\n"
    files = {"intents/a.yaml": match("one", "comm: a", "demote: background"), "tierc.yaml": project}
    compilation, _ = compiled(write(tmp_path, files))
    assert plan_of(compilation).mode == "observe"


# -- classes -------------------------------------------------------------------------------------


def test_equal_nodes_share_one_plan_and_a_label_that_selects_splits_them(tmp_path: Path) -> None:
    files = {
        "nodes/a.yaml": BOX.replace("name: box", "name: box-a"),
        "nodes/b.yaml": BOX.replace("name: box, labels: {pool: small}", "name: box-b"),
        "intents/a.yaml": match("one", "comm: a", "demote: background"),
    }
    compilation, _ = compiled(write(tmp_path, files))
    assert [group.nodes for group in compilation.classes] == [("box", "box-a", "box-b")]
    chosen = intent(
        "one", "nodes: {matchLabels: {pool: small}}\nworkload: {match: [{comm: a}]}\ndemote: idle"
    )
    compilation, _ = compiled(write(tmp_path, {**files, "intents/a.yaml": chosen}))
    assert [group.nodes for group in compilation.classes] == [("box", "box-a"), ("box-b",)]


def test_one_node_that_cannot_be_planned_stops_or_is_quarantined(tmp_path: Path) -> None:
    files = {"intents/a.yaml": match("one", "comm: a", "protect: all\nlane: {cores: 99}")}
    compilation, findings = compiled(write(tmp_path, files))
    assert only(findings, "TRC400").severity.label == "error"
    project = "apiVersion: tierc.dev/v1alpha1\nkind: Project\nspec: {onUnplaceable: quarantine}\n"
    compilation, findings = compiled(write(tmp_path, {**files, "tierc.yaml": project}))
    assert "TRC401" in codes(findings)
    assert not errors(findings)
    assert compilation.classes[0].plan is None


def test_what_an_intent_says_of_its_workload_is_carried_in_the_plan(tmp_path: Path) -> None:
    body = (
        'workload: {engine: sglang, version: "0.5.2", tensorParallel: 2, instances: 2, '
        'traffic: saturated}\nprotect: decode\nknobs: "off"\nirqs: housekeeping'
    )
    compilation, findings = build(tmp_path, intent("chat", body))
    assert not errors(findings)
    (work,) = plan_of(compilation).workloads
    assert work.model_dump() == {
        "intent": "chat",
        "engine": "sglang",
        "version": "0.5.2",
        "tensor_parallel": 2,
        "instances": 2,
        "traffic": "saturated",
        "knobs": "off",
        "irqs": "housekeeping",
    }
