"""The exact words and places of findings about placement, node software and targets."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.policies import BOX, PROJECT, intent
from tests.test_messages import TTFT, build
from tests.test_resolve import match, only

# -- placement -----------------------------------------------------------------------------------


def test_a_preference_not_met_is_named_where_it_is_written(tmp_path: Path) -> None:
    two = BOX.replace(
        "    - {cpus: 0-15, smt: [0-7, 8-15], llc: 0, numa: 0, kind: standard}",
        '    - {cpus: "0-3,8-11", smt: [0-3, 8-11], llc: 0, numa: 0, kind: standard}\n'
        '    - {cpus: "4-7,12-15", smt: [4-7, 12-15], llc: 1, numa: 0, kind: standard}',
    ).replace(
        "[{id: 0, level: 3, cpus: 0-15}]",
        '[{id: 0, level: 3, cpus: "0-3,8-11"}, {id: 1, level: 3, cpus: "4-7,12-15"}]',
    )
    text = match("x", "comm: a", "protect: all\nlane: {cores: 5}\nprefer: [performance, same-llc]")
    found = only(build(tmp_path, text, nodes__box_yaml=two), "TRC402")
    assert found.message.startswith("lane x: same-llc not met: 5 cores in 2 last-level caches: ")
    assert str(found.span) == "intents/all.yaml:8:25"
    assert found.help == (
        "lower the lane's cores, or drop same-llc; under require it would be an error"
    )


def test_no_smaller_lane_is_advised_where_no_core_would_do(tmp_path: Path) -> None:
    text = match("x", "comm: a", "protect: all\nlane: {cores: 2}\nprefer: [isolated]")
    found = only(build(tmp_path, text), "TRC402")
    assert found.message == "lane x: isolated not met: 2 of 2 cores are not isolated"
    assert found.help == "drop isolated; under require it would be an error"


def test_every_degradation_says_what_to_do(tmp_path: Path) -> None:
    found = build(
        tmp_path,
        match("i", "comm: b", "protect: all\nlane: {cores: 8}"),
        match("j", "comm: c", "demote: idle\nprefer: [leftovers]"),
    )
    rows = {f.message: (str(f.span), f.help) for f in found if f.code == "TRC402"}
    assert len(rows) == 3
    assert all(help for _, help in rows.values())
    (leftovers,) = [row for message, row in rows.items() if message.startswith("j: leftovers not")]
    assert leftovers == (
        "intents/all.yaml:15:12",
        "lower cores.max of a lane, or drop leftovers; under require it would be an error",
    )


def test_a_requirement_is_refused_where_it_is_written(tmp_path: Path) -> None:
    text = match("x", "comm: a", "protect: all\nlane: {cores: 2}\nrequire: [performance, isolated]")
    assert str(only(build(tmp_path, text), "TRC400").span) == "intents/all.yaml:8:26"


def test_housekeeping_is_refused_where_it_is_written(tmp_path: Path) -> None:
    text = match("x", "comm: a", "protect: all\nlane: {cores: 2}")
    project = PROJECT + "  reserve: {housekeeping: 20}\n"
    found = only(build(tmp_path, text, tierc_yaml=project), "TRC400")
    assert found.message.startswith("housekeeping needs 20 cores")
    assert str(found.span) == "tierc.yaml:5:27"


def test_a_node_in_quarantine_is_told_to_have_no_plan(tmp_path: Path) -> None:
    text = match("x", "comm: a", "protect: all\nlane: {cores: 12}")
    project = PROJECT + "  onUnplaceable: quarantine\n"
    assert only(build(tmp_path, text, tierc_yaml=project), "TRC401").message == (
        "no plan for this node: lane x needs 12 cores; the machine has 8 usable (0-15)"
    )


@pytest.mark.parametrize(
    ("mode", "code", "instead"),
    [
        ("sched_ext", "TRC320", "use mode: auto or fallback"),
        ("auto", "TRC321", "use mode: fallback to say so"),
    ],
)
def test_a_kubelet_needs_consent(tmp_path: Path, mode: str, code: str, instead: str) -> None:
    box = BOX + "  kubelet: {present: true}\n"
    project = PROJECT.replace("fallback", mode)
    text = match("x", "comm: a", "demote: idle")
    found = only(build(tmp_path, text, tierc_yaml=project, nodes__box_yaml=box), code)
    assert found.help == (
        f"add acceptUnenforcedCpuLimits: true to this entry to consent, or {instead}"
    )
    assert found.related[0].span.line == len(box.splitlines())
    # consent alone would not help beside another obstacle
    old = box.replace("preemptRt: false", "preemptRt: true")
    found = only(build(tmp_path, text, tierc_yaml=project, nodes__box_yaml=old), code)
    assert found.help == f"{instead}, or change the node"


# -- node software -------------------------------------------------------------------------------


def test_starved_node_software_is_one_finding_a_line(tmp_path: Path) -> None:
    found = build(
        tmp_path,
        match("infra", "comm: sshd", "demote: idle"),
        match("slice", 'cgroup: "system.slice/k*/**"', "demote: idle"),
    )
    assert [(f.code, str(f.span), f.message) for f in found] == [
        (
            "TRC901",
            "intents/all.yaml:5:29",
            "infra puts sshd (such as in system.slice/ssh.service) into tier idle, below "
            "background",
        ),
        (
            "TRC901",
            "intents/all.yaml:12:31",
            "slice puts kubelet (such as in system.slice/kubelet.service), k3s-server, k3s-agent, "
            "containerd and 2 more into tier idle, below background",
        ),
    ]


def test_starved_by_a_directory_says_how_it_is_started(tmp_path: Path) -> None:
    (found,) = build(tmp_path, match("apps", 'cmdline: "^/var/lib/k0s/bin/k"', "demote: idle"))
    assert found.message == (
        'apps puts kubelet (such as "/var/lib/k0s/bin/kubelet --root-dir=/var/lib/k0s/kubelet" in '
        "system.slice/k0scontroller.service) into tier idle, below background"
    )


def test_a_group_that_takes_a_low_tier_is_reported_at_who_gives_it(tmp_path: Path) -> None:
    # infra only places: its threads take their tier from the wider rule
    found = build(
        tmp_path,
        intent("infra", "workload: {group: node-infra}\nlane: {cores: 2}"),
        match("low", 'comm: "*"', "demote: idle"),
    )
    starved = [f for f in found if f.code == "TRC901"]
    assert starved
    assert {f.span.path for f in starved} == {"intents/all.yaml"}
    assert all(f.message.startswith("low puts ") for f in starved)


# -- targets -------------------------------------------------------------------------------------


def test_what_a_target_cannot_match_is_one_finding_a_line(tmp_path: Path) -> None:
    body = 'workload: {engine: vllm, version: "0.24.0", pods: {namespace: serving}}\n' + TTFT
    found = only(build(tmp_path, intent("chat", body)), "TRC500")
    assert found.message == (
        "target taskset cannot match a pod selector, and this rule protects chat/api, "
        "chat/dp-coordinator, chat/engine-step and chat/ipc"
    )
    assert found.help == (
        'narrow by workload.cgroup such as "@pods/**" instead of pods, or drop target taskset'
    )


def test_each_feature_has_its_own_way_out(tmp_path: Path) -> None:
    bpf = PROJECT.replace("fallback", "sched_ext") + "  targets: {bpf: {}}\n"
    found = build(
        tmp_path,
        match("a", 'comm: "a*b"', "protect: all"),
        match("b", 'cgroup: "x-*.slice/**"', "protect: all"),
        match("c", "cmdline: serve", "protect: all"),
        tierc_yaml=bpf,
    )
    assert [(f.code, f.help) for f in found] == [
        (
            "TRC500",
            "write the thread's name as it is, or its beginning and a *, or drop target bpf",
        ),
        ("TRC500", "write whole names, at most 8 deep, and ** at the end only, or drop target bpf"),
        ("TRC500", "match comm, leaderComm or cgroup instead of cmdline, or drop target bpf"),
    ]
